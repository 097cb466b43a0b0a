//! Drill B5: what was told apart before is told apart still.

use crate::sandbox::{LIMITED, Sandbox};

/// A timeout is still a timeout.
#[test]
fn a_timeout_is_still_a_timeout() {
    let sandbox = Sandbox::new();
    sandbox.tool("echo before; exec sleep 300");
    let ran = sandbox.run(&["--timeout", "0.4s", "--report", "report.json"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (124, "before\n"), "{}", ran.stderr);
    let report = sandbox.report();
    assert_eq!((report["class"].as_str(), report["set_by"].as_str()), (Some("timeout"), Some("halfopen")));
    assert_eq!(sandbox.call_count(), 1);
}

/// A refused credential is still one, is not tried again and opens nothing.
#[test]
fn a_refused_credential_is_not_tried_again() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("circuit: {open_after_failures: 2}")
        .tool("echo 'HTTP 401 Unauthorized: invalid API key' >&2; exit 22");
    for _ in 0..4 {
        let ran = sandbox.run(&["--report", "report.json"]);
        assert_eq!(ran.code, 22, "{}", ran.stderr);
    }
    assert_eq!(sandbox.call_count(), 4, "once each");
    assert_eq!(sandbox.report()["class"], "auth");
    assert!(sandbox.transitions().is_empty());
}

/// A wrong call is still one.
#[test]
fn a_wrong_call_is_not_tried_again() {
    let sandbox = Sandbox::new();
    sandbox.tool("echo 'HTTP 422 Unprocessable Entity' >&2; exit 3");
    let ran = sandbox.run(&["--report", "report.json"]);
    assert_eq!((ran.code, sandbox.call_count()), (3, 1), "{}", ran.stderr);
    assert_eq!(sandbox.report()["class"], "invalid_request");
}

/// A command that is not there, and one that cannot be executed.
#[test]
fn a_command_that_cannot_run_says_so_as_env_does() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run_command(&[], &["no-such-command"]).code, 127);
    std::fs::write(sandbox.path("bin/text"), "no program").expect("a file");
    assert_eq!(sandbox.run_command(&[], &["text"]).code, 126);
}

/// A policy that cannot be used stops everything, with the place of the mistake.
#[test]
fn a_broken_policy_is_78_and_nothing_runs() {
    let sandbox = Sandbox::new();
    sandbox.policy("retry: {max_attemps: 3}").tool("exit 0");
    let ran = sandbox.run(&[]);
    assert_eq!((ran.code, sandbox.call_count()), (78, 0), "{}", ran.stderr);
    assert!(ran.stderr.contains("max_attempts"), "the nearest known key is named: {}", ran.stderr);
}

/// Usage errors are 64.
#[test]
fn a_wrong_command_line_is_64() {
    let sandbox = Sandbox::new();
    sandbox.tool("exit 0");
    for flags in
        [&["--dep", "a b"][..], &["--timeout", "5"], &["--region", "a=b"], &["--profile", "nonsense"], &["--nonsense"]]
    {
        let ran = sandbox.run(flags);
        assert_eq!(ran.code, 64, "{flags:?}: {}", ran.stderr);
    }
    assert_eq!(sandbox.call_count(), 0);
}

/// A folder that was cloned must not choose what runs.
#[test]
fn a_policy_in_the_current_folder_is_not_read() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("halfopen.yaml"), "nonsense: [").expect("a file");
    sandbox.tool("exit 0");
    assert_eq!(sandbox.run(&[]).code, 0);
}

/// Every flag has a variable.
#[test]
fn variables_stand_for_flags() {
    let sandbox = Sandbox::new();
    sandbox.tool(&format!("MS=10; {LIMITED}"));
    let mut command = sandbox.run_of(&[]);
    command.env("HALFOPEN_DEP", "other").env("HALFOPEN_ATTEMPTS", "2").env("HALFOPEN_QUIET", "1");
    command.env("HALFOPEN_REPORT", sandbox.path("report.json"));
    let ran = crate::sandbox::finished(&mut command);
    assert_eq!(ran.code, 75);
    assert!(!ran.stderr.contains("halfopen:"), "quiet: {}", ran.stderr);
    assert_eq!((sandbox.report()["dependency"].as_str(), sandbox.call_count()), (Some("other"), 2));
}

/// An action that only the gateway has is said to be missing, on each run.
#[test]
fn an_action_that_is_not_there_yet_is_never_silent() {
    let sandbox = Sandbox::new();
    sandbox.policy("on_open: {action: [cache, queue]}\ncache: {max_age_sec: 60}").tool("exit 0");
    for _ in 0..2 {
        let ran = sandbox.run(&[]);
        assert_eq!(ran.code, 0);
        assert!(ran.stderr.contains("`cache`") && !ran.stderr.contains("`queue`"), "{}", ran.stderr);
    }
}

/// S127: a shell with a pipeline hides failures, and that is said once.
#[test]
fn a_pipeline_in_a_shell_is_warned_about() {
    let sandbox = Sandbox::new();
    sandbox.tool("exit 0");
    let ran = sandbox.run_command(&[], &["sh", "-c", "tool | cat"]);
    assert_eq!(ran.stderr.matches("hides the exit codes").count(), 1, "{}", ran.stderr);
    let ran = sandbox.run_command(&[], &["sh", "-c", "tool"]);
    assert_eq!(ran.stderr, "");
}

/// S127: with a condition on what a success looks like, each hidden failure is one, is repeated, and the Nth opens.
#[test]
fn a_condition_on_success_finds_what_a_pipeline_hides() {
    let sandbox = Sandbox::new();
    sandbox
        .policy(
            "retry: {base_ms: 1, max_attempts: 3}\nreplay: always\ncircuit: {open_after_failures: 3, open_for_sec: 600}\non_open: {action: fail_fast}\nclassify:\n  - name: nothing-came\n    when: [{exit: 0}, {stdout: {present: false}}]\n    class: server_error",
        )
        .tool("exit 22");
    let hidden = ["sh", "-c", "tool | cat"];
    let ran = sandbox.run_command(&["--dep", "tool"], &hidden);
    assert!(ran.code == 70 || ran.code == 75, "{}: {}", ran.code, ran.stderr);
    assert!(!ran.stderr.contains("hides the exit codes"), "{}", ran.stderr);
    assert_eq!(sandbox.call_count(), 3, "{}", ran.stderr);
    let ran = sandbox.run_command(&["--dep", "tool"], &hidden);
    assert_eq!((ran.code, sandbox.call_count()), (75, 3), "{}", ran.stderr);
    assert_eq!(sandbox.run_command(&["--dep", "other"], &["sh", "-c", "echo x | cat"]).code, 0);
}
