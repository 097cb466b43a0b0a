//! Signals reach the command, and nothing survives it.

use halfopen_core::event::State;
use rustix::process::Signal;

use crate::sandbox::{Sandbox, alive, send, until, wait_for};

/// S020: a child that a signal killed is never a success; 3 stays 3.
#[test]
fn a_child_that_a_signal_killed_is_never_a_success() {
    let sandbox = Sandbox::new();
    for (script, code) in [("kill -TERM $$", 143), ("kill -KILL $$", 137), ("kill -SEGV $$", 139), ("exit 3", 3)] {
        sandbox.tool(script);
        assert_eq!(sandbox.run(&[]).code, code, "{script}");
    }
}

/// S049: a signal to us alone ends the child as well, and S051: that is not the dependency's fault.
#[test]
fn a_signal_to_the_wrapper_ends_the_command_and_counts_against_nobody() {
    let sandbox = Sandbox::new();
    sandbox.policy("circuit: {open_after_failures: 1}").tool("echo $$ > $D/pid; exec sleep 300");
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        let _ = std::fs::remove_file(sandbox.path("pid"));
        let child = sandbox.start(&[]);
        until("it runs", || sandbox.text("pid").ends_with('\n'));
        send(&child, signal);
        assert_eq!(wait_for(child).code, code);
        assert!(!alive(sandbox.text("pid").trim()), "nothing survives {signal:?}");
    }
    assert_eq!(sandbox.state("tool"), State::Closed);
    assert!(sandbox.transitions().is_empty());
    assert_eq!(sandbox.run_command(&[], &["true"]).code, 0);
}

/// A child that does not want to go is made to, with all it has started.
#[test]
fn a_command_that_ignores_the_signal_is_killed_with_its_helpers() {
    let sandbox = Sandbox::new();
    sandbox.tool("trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > $D/helper; while :; do sleep 0.2; done' & echo $$ > $D/pid; while :; do sleep 0.2; done");
    let child = sandbox.start(&[]);
    until("both run", || sandbox.text("pid").ends_with('\n') && sandbox.text("helper").ends_with('\n'));
    send(&child, Signal::TERM);
    assert_eq!(wait_for(child).code, 143);
    until("both are gone", || !alive(sandbox.text("pid").trim()) && !alive(sandbox.text("helper").trim()));
}

/// Signals that ask for nothing of ours are passed on.
#[test]
fn other_signals_are_passed_on() {
    let sandbox = Sandbox::new();
    sandbox.tool("trap 'echo usr1; exit 0' USR1; echo ready > $D/ready; while :; do sleep 0.05; done");
    let child = sandbox.start(&[]);
    until("it is ready", || sandbox.text("ready").ends_with('\n'));
    send(&child, Signal::USR1);
    let ran = wait_for(child);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "usr1\n"));
}

/// What was ignored when we started stays ignored: nohup works.
#[test]
fn a_hangup_that_was_ignored_stays_ignored() {
    let sandbox = Sandbox::new();
    sandbox.tool("echo ready > $D/ready; while [ -d $D ] && [ ! -e $D/go ]; do sleep 0.05; done; echo done");
    let halfopen = env!("CARGO_BIN_EXE_halfopen");
    let mut command = sandbox.halfopen::<&str>(&[]);
    let mut through_nohup = std::process::Command::new("nohup");
    through_nohup.args([halfopen, "run", "--", "tool"]).env_clear();
    through_nohup.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    through_nohup.current_dir(sandbox.path(""));
    through_nohup.stdin(std::process::Stdio::null());
    through_nohup.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    command = through_nohup;
    let child = command.spawn().expect("nohup starts");
    until("it is ready", || sandbox.text("ready").ends_with('\n'));
    send(&child, Signal::HUP);
    std::fs::write(sandbox.path("go"), "").expect("a file");
    let ran = wait_for(child);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{}", ran.stderr);
}

/// S131: a helper that stays does not make a finished command look hung.
#[test]
fn a_helper_in_the_background_does_not_delay_the_end() {
    let sandbox = Sandbox::new();
    sandbox.tool("sleep 300 & echo $! > $D/helper; echo ok");
    let ran = sandbox.run(&[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "ok\n"));
    assert!(ran.took < std::time::Duration::from_secs(30), "took {:?}", ran.took);
    let helper = sandbox.text("helper");
    assert!(alive(helper.trim()), "it is left alone");
    let pid = helper.trim().parse().ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
    rustix::process::kill_process(pid, Signal::KILL).expect("it runs");
}

/// S021: a timeout ends the whole group and returns in time.
#[test]
fn a_timeout_ends_the_whole_group() {
    let sandbox = Sandbox::new();
    sandbox.tool("sleep 300 & echo $! > $D/helper; wait");
    let ran = sandbox.run(&["--timeout", "300ms"]);
    assert_eq!(ran.code, 124);
    assert!(ran.took < std::time::Duration::from_secs(30), "took {:?}", ran.took);
    until("the helper is gone", || !alive(sandbox.text("helper").trim()));
}
