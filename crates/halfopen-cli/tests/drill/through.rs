//! A user's own script, with a fake tool first on PATH.

use crate::world::{Said, World};

fn through(script: &str) -> Said {
    let world = World::new();
    world.script("batch", script);
    world.drill(&["--dep", "ocr", "--json", "--through", "batch"])
}

fn seen(said: &Said, row: &str) -> String {
    said.rows().into_iter().find(|(name, _, _)| name.starts_with(row)).unwrap().2
}

#[test]
fn a_script_that_is_guarded_is_green() {
    let said = through("#!/bin/sh\nfor i in 1 2; do halfopen run -- ocr page-$i; done\n");
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert_eq!(said.with("pass").len(), 4);
    assert_eq!(seen(&said, "T2"), "2 of 2 guarded");
}

#[test]
fn a_script_that_reaches_the_tool_unguarded_is_red() {
    let said = through("#!/bin/sh\nhalfopen run -- ocr page-1\nocr page-2\n");
    assert_eq!(said.code, Some(1));
    assert_eq!(said.with("fail"), ["T2 guarded", "T4 outage"]);
    assert!(seen(&said, "T2").contains("1 of 2 calls reached `ocr` unguarded: write `halfopen run --dep ocr -- ocr"));
}

#[test]
fn a_script_that_never_calls_the_tool_is_red() {
    let said = through("#!/bin/sh\nPATH=/usr/bin:/bin\nexit 0\n");
    assert_eq!(said.code, Some(1));
    assert_eq!(said.with("fail"), ["T1 reached", "T2 guarded", "T3 activation line"]);
    assert!(seen(&said, "T1").contains("never called"));
}

#[test]
fn a_script_that_is_guarded_as_something_else_is_red() {
    let said = through("#!/bin/sh\nhalfopen run --dep scanner -- ocr page-1\n");
    assert_eq!(said.code, Some(1));
    assert!(seen(&said, "T2").contains("guarded as `scanner` and not as `ocr`"), "{}", seen(&said, "T2"));
}

/// A variable that anybody can set is no permit: what stands in it must name the circuit, and an outage tells.
#[test]
fn a_script_that_only_pretends_is_red() {
    let said = through("#!/bin/sh\nHALFOPEN_RUN_OUTER='{\"place\":\"ocr\"}' ocr page-1\n");
    assert_eq!(said.code, Some(1));
    assert_eq!(said.with("fail"), ["T3 activation line", "T4 outage"]);
}

/// Nothing of the user's is touched; the drill has a store of its own.
#[test]
fn the_users_store_is_left_alone() {
    let world = World::new();
    world.script("batch", "#!/bin/sh\nhalfopen run -- ocr page-1\n");
    assert_eq!(world.drill(&["--dep", "ocr", "--through", "batch"]).code, Some(0));
    assert!(!world.path(".local").exists());
}

#[test]
fn several_dependencies_need_a_name() {
    let world = World::new();
    let policy = "dependencies:\n- {name: a, timeout_ms: 1000}\n- {name: b, timeout_ms: 1000}\n";
    let said = world.drill_policy(policy, &["--through", "true"]);
    assert_eq!(said.code, Some(64));
    assert!(said.err.contains("name one with --dep: a, b"), "{}", said.err);
}
