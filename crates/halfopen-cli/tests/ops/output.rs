//! What all commands share: help, completions, readers that leave, no colour.

use std::io::Read as _;
use std::process::Stdio;

use halfopen_core::verdict::Class;
use test_case::test_case;

use crate::world::World;

#[test_case("status")]
#[test_case("why")]
#[test_case("hold")]
#[test_case("release")]
#[test_case("reset")]
#[test_case("check")]
#[test_case("schema")]
#[test_case("init")]
#[test_case("events")]
#[test_case("report")]
#[test_case("completions")]
fn help_reads_well(command: &str) {
    let said = World::new().halfopen(&[command, "-h"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    insta::assert_snapshot!(format!("help_of_{command}"), said.out);
}

#[test_case("bash")]
#[test_case("zsh")]
#[test_case("fish")]
fn a_shell_gets_its_completions(shell: &str) {
    let said = World::new().halfopen(&["completions", shell]);
    assert_eq!(said.code, Some(0));
    assert!(said.out.contains("halfopen") && said.out.contains("probe-now"), "{}", said.out);
}

#[test_case(&["schema"])]
#[test_case(&["status"])]
#[test_case(&["completions", "zsh"])]
fn a_reader_that_leaves_is_no_error(words: &[&str]) {
    let world = World::new();
    world.calls("ocr", Class::ServerError, None, 5);
    let mut child = world.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
    assert_eq!(child.wait().expect("an end").code(), Some(0), "{err}");
    assert!(!err.contains("panic") && !err.contains("error"), "{err}");
}

#[test]
fn a_full_disk_behind_standard_output_is_an_error() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else { return };
    let world = World::new();
    let said = World::said(world.command(&["schema"]).stdout(full));
    // The stream is not captured, so only the code and the message are looked at.
    assert_eq!(said.code, Some(74));
    assert!(said.err.contains("standard output cannot be written"), "{}", said.err);
}

#[test]
fn nothing_is_coloured() {
    let world = World::new();
    world.calls("ocr", Class::ServerError, None, 5);
    world.write("policy.yaml", "x: 1\n");
    for words in [&["status"][..], &["why", "ocr"], &["check", "policy.yaml"], &["report"], &["why", "x"]] {
        let said = World::said(world.command(words).env("NO_COLOR", "1"));
        assert!(!said.out.contains('\u{1b}') && !said.err.contains('\u{1b}'), "{}{}", said.out, said.err);
    }
}

/// S157: who asks what became of work is not told of an empty store that the question itself made, where the name is wrong
/// or a volume is not mounted.
#[test]
fn a_store_that_is_not_there_is_not_begun_by_a_question() {
    let world = World::new();
    let place = world.path("not-mounted/halfopen.db");
    let store = place.display().to_string();
    for words in [
        &["audit"][..],
        &["jobs", "list"],
        &["jobs", "show", "j17-9f3ac2d1"],
        &["jobs", "discard", "--all", "--confirm", "9"],
    ] {
        let said = world.halfopen(&[words, &["--store", &store]].concat());
        assert_eq!(said.code, Some(74), "{words:?}: {}{}", said.out, said.err);
        assert!(said.err.contains("there is no store at") && said.err.contains("--store"), "{words:?}: {}", said.err);
        assert!(said.out.is_empty() && !place.exists() && !world.path("not-mounted").exists(), "{words:?}");
    }
}
