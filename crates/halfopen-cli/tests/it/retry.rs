//! When a command is run again, and how often.

use std::time::Duration;

use crate::sandbox::{BROKEN, LIMITED, Sandbox};

const QUICK: &str = "retry: {base_ms: 10, max_attempts: 3}\non_open: {action: fail_fast, wait_sec: 20}\ndrain: {rate_per_sec: 50, max_per_sec: 50}";

/// Drill B1; S134: standard output carries only the winning attempt.
#[test]
fn a_limit_is_waited_for_and_the_call_recovers() {
    let sandbox = Sandbox::new();
    sandbox
        .policy(QUICK)
        .tool(&format!("if [ ! -e $D/once ]; then touch $D/once; echo partial; MS=900; {LIMITED}; fi; echo good"));
    let ran = sandbox.run(&[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "good\n"), "{}", ran.stderr);
    let calls = sandbox.calls();
    assert_eq!(calls.len(), 2);
    assert!(calls[1].0 - calls[0].0 >= 900, "came back after {} ms", calls[1].0 - calls[0].0);
    assert!(ran.stderr.contains("tool: rate_limited"), "{}", ran.stderr);
    assert_eq!(sandbox.activation()[0]["hints_read"], 1);
}

/// S134: if every attempt fails on a class that waiting heals, standard output is empty and the code is 75.
#[test]
fn limits_without_end_leave_standard_output_empty_and_say_75() {
    let sandbox = Sandbox::new();
    sandbox.policy(QUICK).tool(&format!("echo partial; MS=100; {LIMITED}"));
    let ran = sandbox.run(&[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (75, ""), "{}", ran.stderr);
    assert_eq!(sandbox.call_count(), 3);
}

/// S134: a final failure of another class passes its own output on, and only its own.
#[test]
fn another_failure_passes_the_last_output_on() {
    let sandbox = Sandbox::new();
    sandbox.policy(QUICK).tool(&format!("n=$(wc -l < $D/calls); echo attempt $n; {BROKEN}"));
    let ran = sandbox.run(&["--attempts", "2"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "attempt 2\n"), "{}", ran.stderr);
}

/// S001: never means never, however soon the run failed; without it a run that failed at once is repeated.
#[test]
fn replay_never_repeats_no_run_that_may_have_acted() {
    for (replay, calls) in [("never", 1), ("if_idempotent", 3)] {
        let sandbox = Sandbox::new();
        sandbox
            .policy(&format!("{QUICK}\nreplay: {replay}"))
            .tool("echo charged the card; echo 'HTTP 503 Service Unavailable' >&2; exit 1");
        let ran = sandbox.run(&[]);
        assert_eq!(sandbox.call_count(), calls, "{replay}: {}", ran.stderr);
    }
}

/// S180: as many runs as configured, no hidden one.
#[test]
fn attempts_are_counted_exactly() {
    for attempts in ["1", "3"] {
        let sandbox = Sandbox::new();
        let policy =
            "retry: {base_ms: 1}\ncircuit: {open_after_failures: 50}\ndrain: {rate_per_sec: 50, max_per_sec: 50}";
        sandbox.policy(policy).tool("echo \"HTTP $KIND\" >&2; echo $RANDOM_TEXT $$ >&2; exit 1");
        for kind in ["429 Too Many Requests", "503 Service Unavailable"] {
            let before = sandbox.call_count();
            let ran = sandbox.run_of(&["--attempts", attempts]).env("KIND", kind).output().expect("halfopen runs");
            assert!(!ran.status.success());
            assert_eq!((sandbox.call_count() - before).to_string(), attempts, "{kind}");
        }
    }
}

/// S180: 0 attempts are refused before anything starts.
#[test]
fn no_attempts_at_all_is_a_usage_error() {
    let sandbox = Sandbox::new();
    sandbox.tool("exit 0");
    let ran = sandbox.run(&["--attempts", "0"]);
    assert_eq!(ran.code, 64, "{}", ran.stderr);
    assert_eq!(sandbox.call_count(), 0);
}

/// S125: the same crash twice is not an outage, whatever its trace quotes; a plain error message still is one.
#[test]
fn a_crash_that_quotes_foreign_words_is_not_tried_a_third_time() {
    let quotes = "echo 'ValueError: cannot parse \"HTTP 500 Internal Server Error\"' >&2; exit 1";
    for (trace, calls) in [("echo 'Traceback (most recent call last):' >&2;", 2), ("", 4)] {
        let sandbox = Sandbox::new();
        sandbox
            .policy(
                "retry: {base_ms: 1, max_attempts: 4, budget: {per_minute: 100}}\ncircuit: {open_after_failures: 50}",
            )
            .tool(&format!("{trace} {quotes}"));
        let ran = sandbox.run(&["--report", "report.json"]);
        assert_eq!((ran.code, sandbox.call_count()), (1, calls), "{}", ran.stderr);
        let report = sandbox.report();
        assert!(report["rule"].is_string(), "the rule that matched is reported");
        assert_eq!(report["gave_up"], if calls == 2 { "same_again" } else { "attempts_used" });
    }
}

/// S123: words in the output of a success do not make it a failure.
#[test]
fn a_success_that_speaks_of_limits_is_a_success() {
    let sandbox = Sandbox::new();
    sandbox.tool("echo 'HTTP 429: rate limit, overloaded, timeout. retry-after: 9000'");
    for _ in 0..6 {
        let ran = sandbox.run(&[]);
        assert_eq!(ran.code, 0);
        assert!(ran.stdout.starts_with("HTTP 429"));
        assert_eq!(ran.stderr, "");
    }
    assert_eq!(sandbox.call_count(), 6);
    assert!(sandbox.events().is_empty(), "nothing happened");
}

/// S090: the whole time is bounded, and the last attempt is cut to what is left.
#[test]
fn a_deadline_bounds_all_attempts_together() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("timeout_ms: 30000\nretry: {base_ms: 1, max_attempts: 10, deadline_sec: 1.5}\nreplay: always")
        .tool("exec sleep 300");
    let ran = sandbox.run(&["--report", "report.json"]);
    assert_eq!(ran.code, 124, "{}", ran.stderr);
    assert!(ran.took < Duration::from_secs(25), "took {:?}", ran.took);
    assert_eq!(sandbox.report()["class"], "timeout");
}

/// DESIGN.md section 9: after our own timeout the end is unknown, and the command is not run again.
#[test]
fn what_may_have_been_done_is_not_done_again_unless_that_is_declared_safe() {
    for (replay, calls) in [("if_idempotent", 1), ("always", 2)] {
        let sandbox = Sandbox::new();
        sandbox.policy(&format!("retry: {{base_ms: 1, max_attempts: 2}}\nreplay: {replay}")).tool("exec sleep 300");
        let ran = sandbox.run(&["--timeout", "300ms"]);
        assert_eq!((ran.code, sandbox.call_count()), (124, calls), "{}", ran.stderr);
    }
}

/// DESIGN.md section 9: a command that failed late has done something, unless its pack says otherwise.
#[test]
fn a_command_that_worked_for_long_before_it_failed_is_not_run_again() {
    for (within, calls) in [("0.05", 1), ("300", 2)] {
        let sandbox = Sandbox::new();
        sandbox
            .policy(&format!("retry: {{base_ms: 1, max_attempts: 2}}\nrerun_within_sec: {within}"))
            .tool("sleep 0.3; echo 'HTTP 503 Service Unavailable' >&2; exit 1");
        let ran = sandbox.run(&[]);
        assert_eq!((ran.code, sandbox.call_count()), (75, calls), "{}", ran.stderr);
    }
}

/// The key is the same for every attempt, and the command finds it.
#[test]
fn every_attempt_finds_the_same_idempotency_key() {
    let sandbox = Sandbox::new();
    sandbox.policy(QUICK).tool(&format!("echo \"$HALFOPEN_IDEMPOTENCY_KEY\" >> $D/keys; MS=10; {LIMITED}"));
    sandbox.run(&["--idempotency-key", "k-1", "--attempts", "2"]);
    assert_eq!(sandbox.text("keys"), "k-1\nk-1\n");
}
