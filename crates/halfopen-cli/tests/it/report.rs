//! What a run writes down about itself.

use crate::sandbox::{BROKEN, LIMITED, Sandbox};

/// Drill C2: the activation line is there at the end of every run, also when every figure is 0.
#[test]
fn every_run_leaves_its_activation_line() {
    let sandbox = Sandbox::new();
    sandbox.tool("exit 0");
    sandbox.run(&[]);
    let line = &sandbox.activation()[0];
    assert_eq!((line["dependency"].as_str(), line["calls"].as_u64()), (Some("tool"), Some(1)));
    for key in [
        "rate_limited",
        "overloaded",
        "hints_read",
        "waits",
        "opened",
        "refused",
        "degraded",
        "probes",
        "queued",
        "drained",
        "expired",
        "unclassified",
    ] {
        assert_eq!(line[key], 0, "{key}");
    }
    sandbox.tool(BROKEN);
    sandbox.run(&["--attempts", "1"]);
    sandbox.run_command(&[], &["no-such-command"]);
    assert_eq!(sandbox.activation().len(), 3);
}

/// The figures say what happened.
#[test]
fn the_figures_say_what_happened() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {base_ms: 1, max_attempts: 2}\ncircuit: {open_after_failures: 1, open_for_sec: 600}\non_open: {action: fail_fast}")
        .tool(BROKEN);
    sandbox.run(&[]);
    sandbox.run(&[]);
    let lines = sandbox.activation();
    assert_eq!((lines[0]["opened"].as_u64(), lines[0]["degraded"].as_u64()), (Some(1), Some(1)));
    assert_eq!((lines[1]["refused"].as_u64(), lines[1]["degraded"].as_u64()), (Some(1), Some(1)));
}

/// `--json` prints the same report as `--report` writes, on standard error.
#[test]
fn the_report_is_the_same_in_both_places() {
    let sandbox = Sandbox::new();
    sandbox.policy("retry: {base_ms: 1}").tool(&format!("MS=7200000; {LIMITED}"));
    let ran = sandbox.run(&["--json", "--report", "report.json", "--credential", "main"]);
    let line = ran.stderr.lines().find(|line| line.starts_with("{\"halfopen\":")).expect("a line of JSON");
    assert_eq!(format!("{line}\n"), sandbox.text("report.json"));
    let report = sandbox.report();
    assert_eq!(report["circuit"], "tool@credential=main");
    assert_eq!(report["exit_code"], 75);
    assert_eq!(report["set_by"], "halfopen");
    assert_eq!(report["command_code"], 1);
    assert_eq!(report["attempts"], 1);
    assert_eq!(report["class"], "rate_limited");
    assert!(report["rule"].is_string() && report["evidence"]["excerpt"].is_string(), "{report}");
    assert!(report["elapsed_s"].as_f64().is_some());
}

/// The report of a success says so, and nothing of ours is printed.
#[test]
fn a_success_is_reported_and_silent() {
    let sandbox = Sandbox::new();
    sandbox.tool("echo fine");
    let ran = sandbox.run(&["--report", "report.json"]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("fine\n", ""));
    let report = sandbox.report();
    assert_eq!((report["class"].as_str(), report["set_by"].as_str()), (Some("success"), Some("command")));
}

/// Secrets that a failing command prints do not get into reports.
#[test]
fn a_secret_in_the_evidence_is_replaced() {
    let sandbox = Sandbox::new();
    sandbox.tool("echo 'HTTP 401 Unauthorized: key sk-ant-REDACTED is not valid' >&2; exit 1");
    sandbox.run(&["--report", "report.json"]);
    assert!(!sandbox.text("report.json").contains("abcdefghijklmnop"), "{}", sandbox.text("report.json"));
}

/// A report that cannot be written changes nothing else.
#[test]
fn a_report_that_cannot_be_written_is_said_and_changes_no_code() {
    let sandbox = Sandbox::new();
    sandbox.tool("exit 0");
    let ran = sandbox.run(&["--report", "/nowhere/report.json"]);
    assert_eq!(ran.code, 0);
    assert!(ran.stderr.contains("/nowhere/report.json"), "{}", ran.stderr);
}
