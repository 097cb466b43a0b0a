//! The breaker over many processes: it opens, it isolates, it closes again.

use halfopen_core::event::State;

use crate::sandbox::{BROKEN, LIMITED, Sandbox, until, wait_for};

const ONE_EACH: &str =
    "retry: {max_attempts: 1}\ncircuit: {open_after_failures: 3, open_for_sec: 600}\non_open: {action: fail_fast}";

/// Drill B2, over processes: failures add up, the circuit opens, and nothing is sent any more.
#[test]
fn a_series_of_failures_opens_the_circuit() {
    let sandbox = Sandbox::new();
    sandbox.policy(&ONE_EACH.replace("fail_fast", "fail_fast, user_message: later")).tool(BROKEN);
    for _ in 0..3 {
        assert_eq!(sandbox.run(&[]).code, 1);
    }
    assert_eq!(sandbox.state("tool"), State::Open);
    let ran = sandbox.run(&["--report", "report.json"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (75, ""), "{}", ran.stderr);
    assert_eq!(sandbox.call_count(), 3, "the command was not started");
    assert!(ran.stderr.contains("tool: circuit_open"), "{}", ran.stderr);
    // S179: the real cause stands behind the refusal.
    assert!(ran.stderr.contains("server_error"), "{}", ran.stderr);
    let report = sandbox.report();
    assert_eq!(report["error"], "circuit_open");
    assert_eq!(report["last_failure"]["class"], "server_error");
    assert_eq!(report["attempts"], 0);
    assert_eq!(report["user_message"], "later");
    assert!(report["retry_at"].is_string());
}

/// Drill B2 within one call: limits without end open the circuit for everybody.
#[test]
fn a_series_of_limits_opens_the_circuit() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {max_attempts: 3, base_ms: 1}\ncircuit: {open_after_failures: 3, open_for_sec: 600}\non_open: {action: fail_fast}\ndrain: {rate_per_sec: 50, max_per_sec: 50}")
        .tool("echo 'HTTP 429 Too Many Requests' >&2; exit 1");
    assert_eq!(sandbox.run(&[]).code, 75);
    assert_eq!((sandbox.state("tool"), sandbox.call_count()), (State::Open, 3));
    assert_eq!(sandbox.run(&[]).code, 75);
    assert_eq!(sandbox.call_count(), 3);
}

/// S179: the circuit opens during a call; its error names the circuit and the last real failure.
#[test]
fn a_call_whose_circuit_opens_under_it_names_the_real_cause() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {max_attempts: 3, base_ms: 1}\ncircuit: {open_after_failures: 2, open_for_sec: 600}\non_open: {action: fail_fast}")
        .tool("echo \"HTTP 503 Service Unavailable (try $$)\" >&2; exit 1");
    let ran = sandbox.run(&["--report", "report.json"]);
    assert_eq!((ran.code, sandbox.call_count()), (75, 2), "{}", ran.stderr);
    let report = sandbox.report();
    assert_eq!(report["error"], "circuit_open");
    assert_eq!(report["class"], "overloaded");
    assert!(report["evidence"]["excerpt"].as_str().is_some_and(|text| text.contains("503")), "{report}");
}

/// Drill B4: one failure drags nobody along.
#[test]
fn an_open_circuit_leaves_other_dependencies_and_partitions_alone() {
    let sandbox = Sandbox::new();
    sandbox
        .policy(ONE_EACH)
        .tool("[ \"$1\" = ok ] && echo fine && exit 0; echo 'HTTP 500 Internal Server Error' >&2; exit 1");
    for _ in 0..3 {
        sandbox.run(&["--region", "eu"]);
    }
    assert_eq!(sandbox.state("tool@region=eu"), State::Open);
    let ok = ["tool", "ok"];
    assert_eq!(sandbox.run_command(&["--region", "eu"], &ok).code, 75);
    assert_eq!(sandbox.run_command(&["--region", "us"], &ok).code, 0, "another region");
    assert_eq!(sandbox.run_command(&[], &ok).code, 0, "the dependency without a region");
    assert_eq!(sandbox.run_command(&["--dep", "other"], &ok).code, 0, "another dependency");
}

/// Drill B4: a credential's limit is that credential's.
#[test]
fn a_limit_of_one_credential_leaves_the_others_alone() {
    let sandbox = Sandbox::new();
    sandbox.policy(ONE_EACH).tool(&format!("[ \"$1\" = ok ] && echo fine && exit 0; MS=900000; {LIMITED}"));
    assert_eq!(sandbox.run(&["--credential", "a"]).code, 75);
    let ok = ["tool", "ok"];
    assert_eq!(sandbox.run_command(&["--credential", "a"], &ok).code, 75);
    assert_eq!(sandbox.run_command(&["--credential", "b"], &ok).code, 0);
}

/// Drill B4: the next job of a batch is not failed by the one before.
#[test]
fn a_bad_call_does_not_fail_the_next_of_a_batch() {
    let sandbox = Sandbox::new();
    sandbox.policy(ONE_EACH).tool("[ \"$1\" = bad ] && { echo 'HTTP 400 Bad Request' >&2; exit 1; }; echo \"$1\"");
    let mut out = String::new();
    for word in ["one", "bad", "two", "bad", "bad", "bad", "three"] {
        out.push_str(&sandbox.run_command(&[], &["tool", word]).stdout);
    }
    assert_eq!(out, "one\ntwo\nthree\n");
}

/// S028: what can open can close, by this surface alone.
#[test]
fn the_whole_life_of_a_circuit() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {max_attempts: 1}\ncircuit: {open_after_failures: 2, open_for_sec: 0.5, half_open_max_calls: 1, close_after_successes: 2}\non_open: {action: fail_fast, wait_sec: 30}\ndrain: {rate_per_sec: 50, max_per_sec: 50}")
        .tool(&format!("[ -e $D/well ] && exit 0; {BROKEN}"));
    for _ in 0..2 {
        assert_eq!(sandbox.run(&["--max-wait", "0s"]).code, 1);
    }
    assert_eq!(sandbox.state("tool"), State::Open);
    std::fs::write(sandbox.path("well"), "").expect("a file");
    for _ in 0..2 {
        assert_eq!(sandbox.run(&[]).code, 0, "a probe that was waited for");
    }
    assert_eq!(sandbox.state("tool"), State::Closed);
    let states: Vec<_> = sandbox.transitions().into_iter().map(|event| event.to_state).collect();
    assert_eq!(states, ["open", "half_open", "closed"]);
    let probes: u64 = sandbox.activation().iter().map(|line| line["probes"].as_u64().unwrap_or(0)).sum();
    assert_eq!(probes, 2);
}

/// S031: half-open lets k through in all, and refuses the others at once.
#[test]
fn half_open_admits_no_more_than_its_probes() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {max_attempts: 1}\ncircuit: {open_after_failures: 1, open_for_sec: 0.3, half_open_max_calls: 2, close_after_successes: 2}\non_open: {action: fail_fast}")
        .tool(&format!("[ -e $D/hang ] || {{ {BROKEN}; }}; while [ -d $D ] && [ ! -e $D/go ]; do sleep 0.05; done"));
    assert_eq!(sandbox.run(&[]).code, 1);
    std::fs::write(sandbox.path("hang"), "").expect("a file");
    let waiting: Vec<_> = (0..2).map(|_| sandbox.start(&["--max-wait", "20s"])).collect();
    until("two probes run", || sandbox.call_count() == 3);
    for _ in 0..8 {
        assert_eq!(sandbox.run(&[]).code, 75);
    }
    assert_eq!(sandbox.call_count(), 3, "nobody else was let through");
    std::fs::write(sandbox.path("go"), "").expect("a file");
    for child in waiting {
        assert_eq!(wait_for(child).code, 0);
    }
    assert_eq!(sandbox.state("tool"), State::Closed);
}

/// S032: a dependency that hangs opens the circuit.
#[test]
fn calls_that_hang_open_the_circuit() {
    let sandbox = Sandbox::new();
    sandbox.policy(&format!("timeout_ms: 300\n{ONE_EACH}")).tool("exec sleep 300");
    let children: Vec<_> = (0..3).map(|_| sandbox.start(&[])).collect();
    for child in children {
        assert_eq!(wait_for(child).code, 124);
    }
    assert_eq!((sandbox.state("tool"), sandbox.run(&[]).code), (State::Open, 75));
    assert_eq!(sandbox.call_count(), 3);
}

/// S062: a long probe keeps its slot, because its lease is renewed while its process lives.
#[test]
fn a_long_probe_keeps_its_slot() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {max_attempts: 1}\ncircuit: {open_after_failures: 1, open_for_sec: 0.2, probe_lease_sec: 1}\non_open: {action: fail_fast}")
        .tool(&format!("[ -e $D/hang ] || {{ {BROKEN}; }}; while [ -d $D ] && [ ! -e $D/go ]; do sleep 0.05; done"));
    assert_eq!(sandbox.run(&[]).code, 1);
    std::fs::write(sandbox.path("hang"), "").expect("a file");
    let probe = sandbox.start(&["--max-wait", "20s"]);
    until("the probe runs", || sandbox.call_count() == 2);
    let began = std::time::Instant::now();
    // Three leases long.
    while began.elapsed() < std::time::Duration::from_secs(3) {
        assert_eq!(sandbox.run(&[]).code, 75, "never two probes out");
    }
    assert_eq!(sandbox.call_count(), 2);
    std::fs::write(sandbox.path("go"), "").expect("a file");
    assert_eq!(wait_for(probe).code, 0);
    assert_eq!(sandbox.state("tool"), State::Closed);
}

/// S126: failures that no rule knows are counted and shown, and open the circuit only where the policy says so.
#[test]
fn failures_that_no_rule_knows_are_counted_and_open_only_on_request() {
    for (count, state) in [(false, State::Closed), (true, State::Open)] {
        let sandbox = Sandbox::new();
        sandbox
            .policy(&format!("retry: {{max_attempts: 1}}\ncircuit: {{open_after_failures: 3, open_for_sec: 600, count_unclassified: {count}}}"))
            .tool("echo 'frobnication went sideways' >&2; exit 9");
        for _ in 0..3 {
            let ran = sandbox.run(&[]);
            assert_eq!(ran.code, 9);
            assert!(ran.stderr.contains("no rule knows"), "{}", ran.stderr);
        }
        assert_eq!(sandbox.state("tool"), state);
        let line = &sandbox.activation()[0];
        assert_eq!(line["unclassified"], 1);
        assert!(line["unclassified_lines"][0].as_str().is_some_and(|text| text.contains("frobnication")), "{line}");
    }
}

/// S178: when every attempt is refused, the error is a clean one.
#[test]
fn an_open_circuit_is_a_clean_refusal_however_often_it_is_met() {
    let sandbox = Sandbox::new();
    sandbox.policy(ONE_EACH).tool(BROKEN);
    for _ in 0..3 {
        sandbox.run(&[]);
    }
    for _ in 0..20 {
        let ran = sandbox.run(&["--max-wait", "100ms"]);
        assert_eq!(ran.code, 75);
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    }
}

/// DESIGN.md section 7: the policy's cheap command goes first; it may fail a round, it does not close the circuit.
#[test]
fn a_cheap_command_is_tried_before_real_work() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {max_attempts: 1}\nprobe: [ping]\ncircuit: {open_after_failures: 1, open_for_sec: 0.2, cooldown_factor: 1, probe_lease_sec: 3600}\non_open: {action: fail_fast}")
        .tool(BROKEN)
        .command("ping", "touch $D/pinged; [ -e $D/well ]");
    assert_eq!(sandbox.run(&[]).code, 1);
    assert!(!sandbox.path("pinged").exists(), "only before a probe");
    sandbox.tool("echo real work");
    until("the cheap command has failed", || sandbox.run(&[]).code == 75 && sandbox.path("pinged").exists());
    assert!(!sandbox.text("calls").contains("real"), "no real work was risked");
    std::fs::write(sandbox.path("well"), "").expect("a file");
    let ran = sandbox.run(&["--max-wait", "20s"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "real work\n"), "{}", ran.stderr);
    assert_eq!(sandbox.state("tool"), State::Closed);
}
