//! End-to-end tests of `halfopen demo`: the real binary starts its own gateway and its own OCR, and tells the story with
//! short times. What must hold is read from its document, its exit code, and what it leaves behind: nothing.
//!
//! Each run has an environment without a home worth the name and a temporary folder of its own, which must be empty when
//! the demo has ended, whichever way. Nothing waits by sleeping.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longer than anything here takes, on any machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the demo in a cleared environment whose temporary folder is `folder`, at the highest speed.
fn demo(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_halfopen"));
    command.args(["demo", "--speed", "10"]).args(words);
    command.env_clear().env("TMPDIR", folder).env("HOME", "").env("TZ", "UTC").current_dir(folder).stdin(Stdio::null());
    command
}

fn told(words: &[&str]) -> (Option<i32>, Value, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let output = demo(folder.path(), words).output().expect("the demo starts");
    let story = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(left_in(folder.path()), Vec::<String>::new(), "{story}");
    let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no document: {story}"));
    (output.status.code(), document, story)
}

fn left_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())).collect()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns whether a process is there and has not ended.
fn alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Starts a demo and waits until its gateway is known; returns both.
fn begun(folder: &Path) -> (Child, i32) {
    let said = folder.join("said");
    let file = std::fs::File::create(&said).expect("a file");
    let child = demo(folder, &["--json"]).stdout(Stdio::null()).stderr(file).spawn().expect("the demo starts");
    let mut gateway = None;
    until("the gateway is named", || {
        let text = std::fs::read_to_string(&said).unwrap_or_default();
        gateway = text.split_once("(process ").and_then(|(_, rest)| rest.split_once(')')?.0.parse().ok());
        gateway.is_some()
    });
    std::fs::remove_file(said).expect("a file");
    (child, gateway.expect("it was found"))
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a number")).expect("a process");
    kill_process(pid, signal).expect("it is ours");
}

/// The story of drill.md, part A, told by the command itself.
#[test]
fn the_demo_loses_no_invoice_and_books_none_twice() {
    let (code, document, story) = told(&["--json"]);
    assert_eq!(code, Some(0), "{story}");
    assert_eq!(document["held"], true);
    assert_eq!(document["conditions"].as_array().map(Vec::len), Some(4));
    for (figure, wanted) in [
        ("calls_timed_out", 5),
        ("times_opened", 1),
        ("calls_while_open", 0),
        ("invoices_accepted", 20),
        ("probes", 2),
        ("probes_succeeded", 2),
        ("invoices_booked", 20),
    ] {
        assert_eq!(document[figure], wanted, "{figure} in {document}");
    }
    assert_eq!((document["lost"].as_array(), document["doubled"].as_array()), (Some(&vec![]), Some(&vec![])));
    assert_eq!(document["oldest_first"], true);
    assert_eq!(document["audit"], serde_json::json!({ "jobs": 20, "wrong": [] }));
    assert_eq!(document["folder"], Value::Null);
    for words in
        ["the breaker OPENS: 5 failures", "INV-20 comes in: 202", "HALF-OPEN", "CLOSED", "INV-20 reaches the OCR"]
    {
        assert!(story.contains(words), "{words} in\n{story}");
    }
}

/// The variant: the OCR heals late.
#[test]
fn a_probe_that_fails_doubles_the_cooldown_and_loses_nothing() {
    let (code, document, story) = told(&["--json", "--probe-fails"]);
    assert_eq!(code, Some(0), "{story}");
    assert_eq!(document["times_opened"], 2, "{story}");
    let cooldowns: Vec<i64> =
        document["cooldowns_ms"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
    // What is drawn only adds, a tenth at most.
    assert!(matches!(cooldowns[..], [first, second] if second * 10 >= first * 17), "{cooldowns:?}");
    assert_eq!(document["probes_failed"].as_array().map(Vec::len), Some(1));
    assert_eq!((&document["probes"], &document["invoices_booked"]), (&2.into(), &20.into()), "{story}");
    assert!(story.contains("a probe failed"), "{story}");
}

#[test]
fn a_signal_ends_the_gateway_and_removes_the_folder() {
    for (sent, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut child, gateway) = begun(folder.path());
        assert!(alive(gateway));
        signal(&child, sent);
        assert_eq!(child.wait().expect("it ends").code(), Some(code));
        assert!(!alive(gateway));
        assert_eq!(left_in(folder.path()), Vec::<String>::new());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_demo_that_is_killed_leaves_no_gateway() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut child, gateway) = begun(folder.path());
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
    until("the gateway has ended", || !alive(gateway));
}

#[test]
fn what_is_kept_can_be_looked_into() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = demo(folder.path(), &["--json", "--keep"]).output().expect("the demo starts");
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let kept = document["folder"].as_str().map(Path::new).expect("a folder");
    let mut events = Command::new(env!("CARGO_BIN_EXE_halfopen"));
    events.args(["events", "--json", "--store"]).arg(kept.join("halfopen.db"));
    let output = events.env_clear().env("HOME", folder.path()).output().expect("it starts");
    let events: Value = serde_json::from_slice(&output.stdout).expect("a list");
    let last = events.as_array().and_then(|events| events.last());
    assert_eq!(last.map(|event| &event["event"]), Some(&Value::from("recovered")));
}

/// On a terminal there is a panel, never wider than the terminal, and the cursor is given back.
#[test]
fn on_a_terminal_there_is_a_panel_and_the_cursor_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut person, callers) = terminal();
    let mut command = demo(folder.path(), &[]);
    command.env("TERM", "xterm").env("NO_COLOR", "1").stdout(callers.try_clone().expect("a descriptor"));
    let mut child = command.stderr(callers).spawn().expect("the demo starts");
    drop(command);
    let mut seen = Vec::new();
    let mut piece = [0; 4096];
    let mut interrupted = false;
    while let Ok(read) = person.read(&mut piece) {
        if read == 0 {
            break;
        }
        seen.extend_from_slice(&piece[..read]);
        if !interrupted && String::from_utf8_lossy(&seen).contains("OPEN  until") {
            signal(&child, Signal::INT);
            interrupted = true;
        }
    }
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let seen = String::from_utf8_lossy(&seen);
    assert!(seen.starts_with("\x1b[?25l") && seen.trim_end().ends_with("\x1b[?25h"), "{seen:?}");
    assert!(seen.contains("queue ") && seen.contains("\x1b[J"), "{seen}");
    assert!(!seen.contains("\x1b[1m"), "colour where none is wanted: {seen:?}");
    assert_eq!(left_in(folder.path()), Vec::<String>::new());
}

/// Returns a terminal of 60 columns: the person's side and the caller's.
fn terminal() -> (std::fs::File, OwnedFd) {
    use rustix::fs::{Mode, OFlags};
    use rustix::pty::OpenptFlags;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let person = rustix::pty::openpt(flags).expect("a terminal");
    rustix::pty::grantpt(&person).expect("a terminal");
    rustix::pty::unlockpt(&person).expect("a terminal");
    let name = rustix::pty::ptsname(&person, Vec::new()).expect("a terminal");
    let open = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let callers = rustix::fs::open(name.as_c_str(), open, Mode::empty()).expect("a terminal");
    let size = rustix::termios::Winsize { ws_row: 24, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&callers, size).expect("a terminal");
    (std::fs::File::from(person), callers)
}
