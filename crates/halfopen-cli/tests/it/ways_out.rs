//! Whichever way the guarded section is left, the half-open slot is free again and the next caller may probe.
//!
//! The probe's lease is an hour in these tests, except where it is what is tested: a slot that is not returned shows.

use halfopen_core::event::State;
use rustix::process::Signal;

use crate::sandbox::{BROKEN, Ran, Sandbox, send, until, wait_for};

const AN_HOUR: &str = "probe_lease_sec: 3600";

/// Opens the circuit of `tool`; from then on `tool` does `then`.
fn half_open(lease: &str, then: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox
        .policy(&format!("retry: {{max_attempts: 1}}\ncircuit: {{open_after_failures: 1, open_for_sec: 0.2, {lease}}}\non_open: {{action: fail_fast}}"))
        .tool(BROKEN);
    assert_eq!(sandbox.run(&[]).code, 1);
    assert_eq!(sandbox.state("tool"), State::Open);
    sandbox.tool(then);
    sandbox
}

/// Makes the run that is let through as a probe.
fn probe(sandbox: &Sandbox) -> Ran {
    sandbox.run(&["--max-wait", "30s"])
}

/// The next caller probes, and the circuit closes: at once, or after the lease.
fn next_may_probe(sandbox: &Sandbox, max_wait: &str) {
    sandbox.tool("echo well");
    let ran = sandbox.run(&["--max-wait", max_wait]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "well\n"), "{}", ran.stderr);
    assert_eq!(sandbox.state("tool"), State::Closed);
}

/// Starts a probe that hangs, and returns it with the process id of its child.
fn hanging(sandbox: &Sandbox) -> (std::process::Child, String) {
    let child = sandbox.start(&["--max-wait", "30s"]);
    until("the probe runs", || sandbox.text("pid").ends_with('\n'));
    assert_eq!(sandbox.circuit("tool").expect("it is known").status.probes_in_flight, 1);
    (child, sandbox.text("pid").trim().to_owned())
}

const HANGS: &str = "echo $$ > $D/pid; exec sleep 300";

#[test]
fn command_not_found() {
    let sandbox = half_open(AN_HOUR, "exit 0");
    std::fs::remove_file(sandbox.path("bin/tool")).expect("it was there");
    assert_eq!(probe(&sandbox).code, 127);
    next_may_probe(&sandbox, "1s");
}

#[test]
fn command_not_executable() {
    let sandbox = half_open(AN_HOUR, "exit 0");
    std::fs::remove_file(sandbox.path("bin/tool")).expect("it was there");
    std::fs::create_dir(sandbox.path("bin/tool")).expect("a folder");
    assert_eq!(sandbox.run_command(&["--dep", "tool", "--max-wait", "30s"], &["./bin/tool"]).code, 126);
    std::fs::remove_dir(sandbox.path("bin/tool")).expect("it was there");
    next_may_probe(&sandbox, "1s");
}

#[test]
fn a_wrong_call_says_nothing_about_health() {
    let sandbox = half_open(AN_HOUR, "echo 'HTTP 400 Bad Request' >&2; exit 1");
    assert_eq!(probe(&sandbox).code, 1);
    next_may_probe(&sandbox, "1s");
}

/// S026 and S051, by Ctrl-C.
#[test]
fn sigint_to_the_wrapper() {
    let sandbox = half_open(AN_HOUR, HANGS);
    let (child, _) = hanging(&sandbox);
    send(&child, Signal::INT);
    assert_eq!(wait_for(child).code, 130);
    next_may_probe(&sandbox, "1s");
}

#[test]
fn sigterm_to_the_wrapper() {
    let sandbox = half_open(AN_HOUR, HANGS);
    let (child, _) = hanging(&sandbox);
    send(&child, Signal::TERM);
    assert_eq!(wait_for(child).code, 143);
    next_may_probe(&sandbox, "1s");
}

#[test]
fn sigkill_of_the_child() {
    let sandbox = half_open(AN_HOUR, HANGS);
    let (child, pid) = hanging(&sandbox);
    kill(&pid);
    assert_eq!(wait_for(child).code, 137);
    next_may_probe(&sandbox, "1s");
}

/// By the lease: nobody is left who could give it back.
#[test]
fn sigkill_of_the_wrapper() {
    let sandbox = half_open("probe_lease_sec: 1", HANGS);
    let (mut child, pid) = hanging(&sandbox);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    next_may_probe(&sandbox, "30s");
    kill(&pid);
}

#[test]
fn sigkill_of_both() {
    let sandbox = half_open("probe_lease_sec: 1", HANGS);
    let (mut child, pid) = hanging(&sandbox);
    child.kill().expect("it runs");
    kill(&pid);
    child.wait().expect("it ends");
    next_may_probe(&sandbox, "30s");
}

/// A reader that goes away is no failure of the dependency.
#[test]
fn the_reader_of_the_output_leaves() {
    let sandbox = half_open(AN_HOUR, "yes");
    let mut child = sandbox.start(&["--stream", "--max-wait", "30s"]);
    drop(child.stdout.take());
    assert_eq!(wait_for(child).code, 141);
    next_may_probe(&sandbox, "1s");
}

/// A timeout of a probe is a failure: it opens again.
#[test]
fn a_probe_that_times_out_opens_again() {
    let sandbox = half_open(AN_HOUR, HANGS);
    assert_eq!(sandbox.run(&["--max-wait", "30s", "--timeout", "300ms"]).code, 124);
    let states: Vec<_> = sandbox.transitions().into_iter().map(|event| event.to_state).collect();
    assert_eq!(states, ["open", "half_open", "open"]);
}

fn kill(pid: &str) {
    let pid = pid.parse().ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
    rustix::process::kill_process(pid, Signal::KILL).expect("it runs");
}
