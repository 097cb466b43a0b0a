//! What is slept, and what is not.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use halfopen_core::event::State;
use halfopen_core::policy::{Policy, Surface};

use crate::sandbox::{BROKEN, LIMITED, Sandbox, until, wait_for};

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("before the end of time")
}

/// More attempts help where attempts were used up; a longer wait would change nothing.
#[test]
fn what_is_advised_would_have_helped() {
    let sandbox = Sandbox::new();
    sandbox.policy("retry: {max_attempts: 1, max_wait_sec: 60}").tool(&format!("MS=2000; {LIMITED}"));
    let ran = sandbox.run(&[]);
    assert_eq!(sandbox.call_count(), 1);
    assert!(ran.stderr.contains("\nhint: to be tried more often: halfopen run --attempts 2"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("--max-wait"), "{}", ran.stderr);
}

/// Drill B3; S015: a wait of hours is not slept, and degrades with the time to come back.
#[test]
fn a_wait_of_hours_is_not_slept() {
    let sandbox = Sandbox::new();
    sandbox.policy("retry: {max_attempts: 3, max_wait_sec: 60}").tool(&format!("echo partial; MS=9000000; {LIMITED}"));
    let before = now_ms();
    let ran = sandbox.run(&["--report", "report.json"]);
    assert_eq!((ran.code, ran.stdout.as_str(), sandbox.call_count()), (75, "", 1), "{}", ran.stderr);
    assert!(ran.took < Duration::from_secs(50), "took {:?}", ran.took);
    let report = sandbox.report();
    assert!(report["retry_at_ms"].as_i64().is_some_and(|at| at >= before + 9_000_000), "{report}");
    assert_eq!(report["gave_up"], "wait_too_long");
    assert_eq!(report["job_id"], serde_json::Value::Null);
    assert!(ran.stderr.contains("try again in 2 h 30 min"), "{}", ran.stderr);
    assert!(ran.stderr.contains("\nhint: to sleep until then: halfopen run --max-wait"), "{}", ran.stderr);
    // S065: the hint is not cut: nobody else calls before its end.
    assert_eq!(sandbox.state("tool"), State::Open);
    for _ in 0..3 {
        assert_eq!(sandbox.run(&[]).code, 75);
    }
    assert_eq!(sandbox.call_count(), 1);
}

/// S065: the bound limits how long we sleep, never how early we come back; other dependencies go on.
#[test]
fn a_hint_beyond_the_bound_is_neither_slept_nor_cut() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {max_attempts: 3, max_wait_sec: 0.5}\ncircuit: {open_for_sec: 0.2}\non_open: {action: fail_fast, wait_sec: 0.5}")
        .tool(&format!("[ -e $D/once ] && exit 0; touch $D/once; MS=2000; {LIMITED}"));
    assert_eq!(sandbox.run(&[]).code, 75);
    let first = sandbox.calls()[0].0;
    assert_eq!(sandbox.run_command(&["--dep", "other"], &["true"]).code, 0);
    until("the wait is over", || sandbox.run(&[]).code == 0);
    let second = sandbox.calls()[1].0;
    assert!(second - first >= 2000, "came back after {} ms", second - first);
}

/// `--max-wait`: this one process may sleep longer than the policy allows.
#[test]
fn max_wait_lets_this_one_process_sleep_to_the_stated_reset() {
    let sandbox = Sandbox::new();
    sandbox
        .policy(
            "retry: {max_attempts: 2, max_wait_sec: 0.1}\ncircuit: {open_for_sec: 0.2}\non_open: {action: fail_fast}",
        )
        .tool(&format!("[ -e $D/once ] && {{ echo done; exit 0; }}; touch $D/once; MS=1200; {LIMITED}"));
    let ran = sandbox.run(&["--max-wait", "30s"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{}", ran.stderr);
    let calls = sandbox.calls();
    assert!(calls[1].0 - calls[0].0 >= 1200);
    assert!(ran.stderr.contains("waiting"), "{}", ran.stderr);
}

/// One process's hint holds everyone.
#[test]
fn a_wait_that_one_process_was_told_holds_the_others_before_any_breaker_opens() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {max_attempts: 1}\ndrain: {rate_per_sec: 50, max_per_sec: 50}")
        .tool(&format!("[ -e $D/once ] && {{ echo done; exit 0; }}; touch $D/once; MS=1500; {LIMITED}"));
    assert_eq!(sandbox.run(&[]).code, 75);
    assert_eq!(sandbox.state("tool"), State::Closed);
    assert_eq!(sandbox.run(&["--max-wait", "0s"]).code, 75, "it is not for us to wait");
    assert_eq!(sandbox.call_count(), 1);
    let ran = sandbox.run(&[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{}", ran.stderr);
    let calls = sandbox.calls();
    assert!(calls[1].0 - calls[0].0 >= 1500);
}

/// Whoever waits holds no permit and hears signals.
#[test]
fn a_signal_ends_a_wait() {
    let sandbox = Sandbox::new();
    sandbox.policy("retry: {max_wait_sec: 3600}").tool(&format!("MS=1800000; {LIMITED}"));
    let child = sandbox.start(&[]);
    until("it waits", || sandbox.circuit("tool").is_some_and(|view| view.status.throttled_until.is_some()));
    crate::sandbox::send(&child, rustix::process::Signal::TERM);
    let ran = wait_for(child);
    assert_eq!(ran.code, 143, "{}", ran.stderr);
    assert_eq!(sandbox.call_count(), 1);
}

/// An operator's hold has no end of its own: 69, and the next command named.
#[test]
fn a_hold_without_an_end_says_so() {
    let sandbox = Sandbox::new();
    sandbox.tool("exit 0");
    let id = "tool".parse().expect("a circuit");
    let policy = halfopen_core::policy::Policy::built_in("tool", halfopen_core::policy::Surface::Run);
    sandbox.handle().hold(&id, &policy, State::Open, None, "ops", "maintenance").expect("a hold");
    let ran = sandbox.run(&[]);
    assert_eq!((ran.code, sandbox.call_count()), (69, 0), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: halfopen release tool"), "{}", ran.stderr);
    assert!(ran.stderr.contains("ops holds it open: \"maintenance\""), "{}", ran.stderr);
}

fn built_in() -> Policy {
    Policy::built_in("tool", Surface::Run)
}

/// Starts a run that waits at the door, and returns once it does.
fn one_that_waits(sandbox: &Sandbox) -> std::process::Child {
    let child = sandbox.start(&["--max-wait", "2h"]);
    until("it waits", || sandbox.circuit("tool").is_some_and(|view| view.status.waiting > 0));
    child
}

/// A run that waits for a hold notices that it is released, and counts as one that was refused once.
#[test]
fn a_hold_that_is_released_is_not_waited_for() {
    let sandbox = Sandbox::new();
    sandbox.tool("echo done");
    let (id, hour) = ("tool".parse().expect("a circuit"), Some(Duration::from_secs(3600)));
    sandbox.handle().hold(&id, &built_in(), State::Open, hour, "ops", "maintenance").expect("a hold");
    let child = one_that_waits(&sandbox);
    sandbox.handle().release(&id, &built_in(), false, "ops", "").expect("a release");
    let ran = wait_for(child);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("held open").count(), 1, "{}", ran.stderr);
    let figures = &sandbox.activation()[0];
    assert_eq!(figures["refused"], 1, "{figures}");
}

/// A hold that takes the place of a longer one ends when it says.
#[test]
fn a_hold_that_is_replaced_by_a_shorter_one_is_waited_for_no_longer() {
    let sandbox = Sandbox::new();
    sandbox.tool("echo done");
    let id = "tool".parse().expect("a circuit");
    let hold = |lasting| {
        sandbox.handle().hold(&id, &built_in(), State::Open, Some(lasting), "ops", "maintenance").expect("a hold");
    };
    hold(Duration::from_secs(3600));
    let child = one_that_waits(&sandbox);
    hold(Duration::from_millis(1500));
    assert_eq!(wait_for(child).code, 0);
}

/// `release --probe-now` lets one that waits be the probe; `reset` lets it through.
#[test]
fn a_cooldown_that_is_ended_by_an_operator_is_not_waited_for() {
    for reset in [false, true] {
        let sandbox = Sandbox::new();
        sandbox
            .policy("retry: {max_attempts: 1}\ncircuit: {open_after_failures: 1, open_for_sec: 3600}")
            .tool(&format!("[ -e $D/once ] && {{ echo done; exit 0; }}; touch $D/once; {BROKEN}"));
        assert_eq!(sandbox.run(&["--on-open", "fail_fast"]).code, 1);
        let child = one_that_waits(&sandbox);
        let id = "tool".parse().expect("a circuit");
        if reset {
            sandbox.handle().reset(&id, &built_in(), "ops", "").expect("a reset");
        } else {
            sandbox.handle().release(&id, &built_in(), true, "ops", "").expect("a release");
        }
        let ran = wait_for(child);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "reset {reset}: {}", ran.stderr);
        assert_eq!(sandbox.call_count(), 2);
    }
}

/// Whoever waits because its own attempt was told to wait is let go as well.
#[test]
fn a_throttle_that_is_reset_is_not_waited_for() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {max_attempts: 2, max_wait_sec: 7200}")
        .tool(&format!("[ -e $D/once ] && {{ echo done; exit 0; }}; touch $D/once; MS=1800000; {LIMITED}"));
    let child = sandbox.start(&[]);
    until("it waits", || sandbox.circuit("tool").is_some_and(|view| view.status.waiting > 0));
    sandbox.handle().reset(&"tool".parse().expect("a circuit"), &built_in(), "ops", "").expect("a reset");
    let ran = wait_for(child);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{}", ran.stderr);
    assert_eq!(sandbox.activation()[0]["refused"], 0);
}
