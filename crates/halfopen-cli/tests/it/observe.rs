//! `mode: observe`: everything is noted, nothing is changed.

use halfopen_core::event::State;

use crate::sandbox::{BROKEN, LIMITED, Sandbox};

#[test]
fn only_watching_changes_nothing_for_the_command() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("mode: observe\ntimeout_ms: 1000\nretry: {max_attempts: 3}\ncircuit: {open_after_failures: 2, open_for_sec: 600}\non_open: {action: fail_fast}")
        .tool(&format!("echo out; {BROKEN}"));
    for n in 1..=4 {
        let ran = sandbox.run(&[]);
        assert_eq!((ran.code, ran.stdout.as_str()), (1, "out\n"), "{}", ran.stderr);
        assert_eq!(sandbox.call_count(), n, "no repetition, no refusal");
    }
    assert_eq!(sandbox.state("tool"), State::Closed, "enforcing processes see nothing of it");
    assert_eq!(sandbox.state("tool~observe"), State::Open, "the shadow has opened");
    let refused: u64 = sandbox.activation().iter().filter_map(|line| line["refused"].as_u64()).sum();
    assert_eq!(refused, 2, "what would have been refused is counted");
    sandbox.tool(&format!("MS=9000000; {LIMITED}"));
    assert_eq!(sandbox.run(&[]).code, 1, "the command's own code");
    sandbox.tool("sleep 1.3; echo slow");
    let ran = sandbox.run(&[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "slow\n"), "no timeout");
}
