//! Standard input is the same on every attempt.

use std::fs::File;
use std::io::Write as _;
use std::process::Stdio;

use crate::sandbox::{Sandbox, finished, wait_for};

const FAILS_AFTER_READING: &str = "cat >> $D/log; echo 'HTTP 503 Service Unavailable' >&2; exit 1";
const QUICK: &str = "retry: {base_ms: 1, max_attempts: 3}\ncircuit: {open_after_failures: 50}";

/// S048, a pipe.
#[test]
fn a_pipe_is_the_same_on_every_attempt() {
    let sandbox = Sandbox::new();
    sandbox.policy(QUICK).tool(FAILS_AFTER_READING);
    let mut child = sandbox.run_of(&[]).stdin(Stdio::piped()).spawn().expect("halfopen starts");
    child.stdin.take().expect("a pipe").write_all(b"payload\n").expect("it reads");
    assert_eq!(wait_for(child).code, 75);
    assert_eq!(sandbox.text("log"), "payload\npayload\npayload\n");
}

/// S048, a file.
#[test]
fn a_file_is_the_same_on_every_attempt() {
    let sandbox = Sandbox::new();
    sandbox.policy(QUICK).tool(FAILS_AFTER_READING);
    std::fs::write(sandbox.path("in"), "payload\n").expect("a file");
    let input = File::open(sandbox.path("in")).expect("the file");
    assert_eq!(finished(sandbox.run_of(&[]).stdin(input)).code, 75);
    assert_eq!(sandbox.text("log"), "payload\npayload\npayload\n");
}

/// S048, more than is kept: one attempt, and why.
#[test]
fn input_beyond_the_bound_is_read_once_and_that_is_said_once() {
    let sandbox = Sandbox::new();
    sandbox.policy(&format!("{QUICK}\nreplay_body_bytes_max: 100000")).tool(FAILS_AFTER_READING);
    let mut child = sandbox.run_of(&[]).stdin(Stdio::piped()).spawn().expect("halfopen starts");
    let text = vec![b'x'; 1_000_000];
    child.stdin.take().expect("a pipe").write_all(&text).expect("it reads");
    let ran = wait_for(child);
    assert_eq!((ran.code, sandbox.call_count()), (75, 1));
    assert_eq!(sandbox.text("log").len(), text.len(), "all of it arrived");
    assert_eq!(ran.stderr.matches("replay_body_bytes_max").count(), 1, "{}", ran.stderr);
}

/// A loop over lines loses none to a command that does not read.
#[test]
fn a_loop_over_lines_loses_none() {
    let sandbox = Sandbox::new();
    sandbox.tool("echo \"got $1\"");
    let script = "printf '1\\n2\\n3\\n' | while read -r x; do \"$HALFOPEN\" run -- tool $x; done";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script]).env_clear().env("HALFOPEN", env!("CARGO_BIN_EXE_halfopen"));
    let like = sandbox.halfopen::<&str>(&[]);
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert_eq!(finished(&mut command).stdout, "got 1\ngot 2\ngot 3\n");
}

/// S133: without anything to read, a command that asks ends at once.
#[test]
fn a_command_that_reads_ends_where_there_is_nothing_to_read() {
    let sandbox = Sandbox::new();
    sandbox.tool("read answer || echo nothing");
    assert_eq!(sandbox.run(&[]).stdout, "nothing\n");
    let mut child = sandbox.run_of(&["-n"]).stdin(Stdio::piped()).spawn().expect("halfopen starts");
    // The writer stays open: -n does not wait for it.
    let writer = child.stdin.take();
    assert_eq!(wait_for(child).stdout, "nothing\n");
    drop(writer);
}
