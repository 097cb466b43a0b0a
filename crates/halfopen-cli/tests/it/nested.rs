//! S016: a run inside a run repeats nothing, and nothing is judged twice.

use halfopen_core::event::State;

use crate::sandbox::{BROKEN, LIMITED, Sandbox, finished};

/// Writes `outer`, a script around `halfopen run -- tool`.
fn script(sandbox: &Sandbox, inner_flags: &str) {
    let halfopen = env!("CARGO_BIN_EXE_halfopen");
    sandbox.command("outer", &format!("exec {halfopen} run {inner_flags} -- tool"));
}

fn calls_of_tool(sandbox: &Sandbox) -> usize {
    sandbox.text("tool-calls").lines().count()
}

/// The attempts of two layers do not multiply.
#[test]
fn an_inner_run_repeats_nothing() {
    let sandbox = Sandbox::new();
    sandbox
        .policy_of("any", "retry: {base_ms: 1, max_attempts: 3}\ncircuit: {open_after_failures: 50}")
        .tool(&format!("echo x >> $D/tool-calls; echo \"(try $$)\" >&2; {BROKEN}"));
    script(&sandbox, "--attempts 4");
    let ran = sandbox.run_command(&["--attempts", "2"], &["outer"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert_eq!(calls_of_tool(&sandbox), 2, "as often as the outer one runs it: {}", ran.stderr);
}

/// A command finds the key of the run around it in the variable that the flag reads. It is not the key of what runs inside:
/// two calls of one script would each be taken for a repetition of the other.
#[test]
fn the_key_of_an_outer_run_is_not_that_of_what_runs_inside() {
    let sandbox = Sandbox::new();
    sandbox.policy("on_open: {action: queue, queue_ttl_min: 30}").tool("true");
    assert_eq!(finished(&mut sandbox.halfopen(&["hold", "tool", "open"])).code, 0);
    let halfopen = env!("CARGO_BIN_EXE_halfopen");
    let inner =
        |what: &str, flags: &str| format!("{halfopen} run --dep tool {flags} -- tool {what}; echo $? >> $D/codes");
    let lines = [
        inner("a", ""),
        inner("b", ""),
        inner("c", "--idempotency-key c-1"),
        "echo $HALFOPEN_IDEMPOTENCY_KEY > $D/key".to_owned(),
    ];
    sandbox.command("outer", &lines.join("\n"));
    let ran = sandbox.run_command(&["--dep", "batch", "--idempotency-key", "batch-7"], &["outer"]);
    assert_eq!(
        (sandbox.text("codes").as_str(), sandbox.text("key").as_str()),
        ("79\n79\n79\n", "batch-7\n"),
        "{}",
        ran.stderr
    );
    let jobs = sandbox.handle().jobs(&halfopen::store::jobs::JobFilter::default()).expect("jobs").jobs;
    let known = |key: &str| {
        let key = halfopen::handle::jobs::JobKey { caller: String::new(), key: key.to_owned() };
        sandbox.handle().job_with_key("tool", &key).expect("a look").is_some()
    };
    assert_eq!((jobs.len(), known("batch-7"), known("c-1")), (3, false, true));
}

/// What the inner run has judged is not counted again by the outer one, on the same circuit or another.
#[test]
fn a_failure_inside_is_counted_once() {
    for outer in ["tool", "batch"] {
        let sandbox = Sandbox::new();
        sandbox
            .policy("retry: {max_attempts: 1}\ncircuit: {open_after_failures: 2, open_for_sec: 600}")
            .tool(&format!("echo x >> $D/tool-calls; {BROKEN}"));
        script(&sandbox, "--dep tool");
        let ran = sandbox.run_command(&["--dep", outer, "--attempts", "1"], &["outer"]);
        assert_eq!((ran.code, calls_of_tool(&sandbox)), (1, 1), "{}", ran.stderr);
        let failures = sandbox.circuit("tool").expect("it is known").status.failures_in_window;
        assert_eq!(failures, 1, "outer circuit {outer}");
        assert_eq!(sandbox.circuit("batch").map_or(0, |view| view.status.failures_in_window), 0);
    }
}

/// What the outer run says about a failure inside is what happened there.
#[test]
fn a_failure_inside_is_told_from_a_refusal_inside() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {max_attempts: 1}\ncircuit: {open_for_sec: 600}\non_open: {action: fail_fast}")
        .tool(&format!("MS=7200000; {LIMITED}"));
    script(&sandbox, "--dep tool");
    let ran = sandbox.run_command(&["--dep", "batch", "--attempts", "1", "--report", "report.json"], &["outer"]);
    assert_eq!(ran.code, 75, "{}", ran.stderr);
    assert!(!ran.stderr.contains("halfopen refused") && !sandbox.text("report.json").contains("refused"));
    assert!(sandbox.report()["evidence"]["excerpt"].as_str().is_some_and(|seen| seen.contains("429")));

    let ran = sandbox.run_command(&["--dep", "batch", "--attempts", "1", "--report", "report.json"], &["outer"]);
    assert_eq!(ran.code, 75, "{}", ran.stderr);
    let report = sandbox.report();
    assert_eq!(report["evidence"]["excerpt"], "the inner halfopen refused it (tool)", "{report}");
}

/// An inner run of the same circuit uses the outer probe instead of being refused.
#[test]
fn an_inner_run_uses_the_outer_probe() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {max_attempts: 1}\ncircuit: {open_after_failures: 1, open_for_sec: 0.2, probe_lease_sec: 3600}\non_open: {action: fail_fast}")
        .tool(BROKEN);
    assert_eq!(sandbox.run(&[]).code, 1);
    assert_eq!(sandbox.state("tool"), State::Open);
    sandbox.tool("echo inside");
    script(&sandbox, "--dep tool");
    let ran = sandbox.run_command(&["--dep", "tool", "--max-wait", "30s"], &["outer"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "inside\n"), "{}", ran.stderr);
    assert_eq!(sandbox.state("tool"), State::Closed);
}

/// A marker that is no live permit is not believed.
#[test]
fn a_made_up_outer_probe_is_not_believed() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {max_attempts: 1}\ncircuit: {open_after_failures: 1, open_for_sec: 600}\non_open: {action: fail_fast}")
        .tool(BROKEN);
    assert_eq!(sandbox.run(&[]).code, 1);
    let permit = r#"{"id":1,"probe":true,"generation":2,"admitted_at":0,"expires_at":99999999999999,"ramped":false}"#;
    let outer = format!(r#"{{"place":"tool","account":null,"place_permit":{permit},"account_permit":null}}"#);
    let ran = finished(sandbox.run_of(&[]).env("HALFOPEN_RUN_OUTER", outer));
    assert_eq!((ran.code, sandbox.call_count()), (75, 1), "{}", ran.stderr);
}
