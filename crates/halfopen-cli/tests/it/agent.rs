//! An unattended agent meets its limits.

use std::process::Stdio;

use crate::sandbox::{Sandbox, wait_for};

const INIT: &str = r#"echo '{"type":"system","subtype":"init","session_id":"s-1"}'"#;
const WORKED: &str = r#"echo '{"type":"assistant","message":{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]},"session_id":"s-1"}'"#;
const OVERLOADED: &str = r#"echo '{"type":"result","subtype":"success","is_error":true,"result":"API Error: 529 {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}","session_id":"s-1"}'; exit 1"#;
const DONE: &str =
    r#"echo '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s-1"}'"#;

/// The tool exits with 0 and prints its limit where the answer would be: 75, and nothing that looks like an answer.
#[test]
fn a_limit_that_is_printed_as_an_answer_is_none() {
    let sandbox = Sandbox::new();
    sandbox.command("claude", "echo 'Claude usage limit reached. Your limit will reset at 5pm (Europe/Warsaw).'");
    let ran = sandbox.run_command(&["--max-wait", "0s", "--report", "report.json"], &["claude", "-p", "hello"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (75, ""), "{}", ran.stderr);
    let report = sandbox.report();
    assert_eq!(report["class"], "usage_limit");
    assert!(report["retry_at"].is_string(), "{report}");
    let ran = sandbox.run_command(&["--max-wait", "0s"], &["claude", "-p", "hello"]);
    assert_eq!((ran.code, sandbox.call_count()), (75, 1), "nobody calls before the reset");
}

/// Work that was shown is not repeated from the beginning.
#[test]
fn an_agent_that_had_begun_its_work_does_not_begin_again() {
    let sandbox = Sandbox::new();
    sandbox
        .policy_of("claude", "retry: {base_ms: 1, max_attempts: 3}\nrerun_within_sec: 0.01")
        .command("claude", &format!("{INIT}; {WORKED}; sleep 0.1; {OVERLOADED}"));
    let command = ["claude", "-p", "--output-format", "stream-json", "Tidy up"];
    let ran = sandbox.run_command(&["--report", "report.json"], &command);
    assert_eq!((ran.code, sandbox.call_count()), (75, 1), "{}", ran.stderr);
    let report = sandbox.report();
    assert_eq!(report["gave_up"], "work_shown");
    assert_eq!(report["session"], "s-1", "whoever goes on by hand finds where");
}

/// What only starts the tool hides neither its rule pack nor, where it has a place among our words, its session.
#[test]
fn an_agent_behind_a_wrapper_is_judged_as_one() {
    let limit = "echo 'Claude usage limit reached. Your limit will reset at 5pm (Europe/Warsaw).'";
    for command in [
        &["timeout", "40", "claude", "-p", "x"][..],
        &["env", "FOO=1", "claude", "-p", "x"],
        &["sh", "-c", "claude -p x"],
    ] {
        let sandbox = Sandbox::new();
        sandbox.command("claude", limit);
        let ran = sandbox.run_command(&["--max-wait", "0s", "--report", "report.json"], command);
        assert_eq!((ran.code, ran.stdout.as_str()), (75, ""), "{command:?}: {}", ran.stderr);
        assert_eq!(sandbox.report()["circuit"], command[0], "the circuit is named as ever");
    }
    let sandbox = Sandbox::new();
    sandbox.command("my-script", limit);
    assert_eq!(sandbox.run_command(&["--max-wait", "0s", "--dep", "claude"], &["my-script"]).code, 75);

    let sandbox = Sandbox::new();
    sandbox.policy_of("timeout", "retry: {base_ms: 1, max_attempts: 3}\nrerun_within_sec: 0.01").command(
        "claude",
        &format!("[ -e $D/once ] && {{ {DONE}; exit; }}; touch $D/once; {INIT}; {WORKED}; {OVERLOADED}"),
    );
    let command = ["timeout", "40", "claude", "-p", "--output-format", "stream-json", "Tidy up"];
    let ran = sandbox.run_command(&["--resume"], &command);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(sandbox.calls()[1].1.contains("--resume s-1 Continue where you stopped."), "{:?}", sandbox.calls());
}

/// With `--resume` it goes on in its session, and the prompt is not sent again, whichever way it came.
#[test]
fn an_agent_goes_on_in_its_session() {
    let script = format!(
        "cat >> $D/input; if [ ! -e $D/once ]; then touch $D/once; {INIT}; {WORKED}; sleep 0.1; {OVERLOADED}; fi; {DONE}"
    );
    let policy = "retry: {base_ms: 1, max_attempts: 3}\nrerun_within_sec: 0.01";
    let go_on = "--resume s-1 Continue where you stopped.";

    let sandbox = Sandbox::new();
    sandbox.policy_of("claude", policy).command("claude", &script);
    let ran = sandbox.run_command(&["--resume"], &["claude", "-p", "--output-format", "stream-json", "Tidy up"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("done") && !ran.stdout.contains("Overloaded"), "{}", ran.stdout);
    let calls = sandbox.calls();
    assert!(calls[0].1.contains("--session-id") && calls[0].1.ends_with("Tidy up"), "{calls:?}");
    assert!(calls[1].1.contains(go_on) && !calls[1].1.contains("Tidy up"), "{calls:?}");

    let sandbox = Sandbox::new();
    sandbox.policy_of("claude", policy).command("claude", &script);
    let mut command = sandbox.halfopen(&["run", "--resume", "--", "claude", "-p", "--output-format", "stream-json"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("halfopen starts");
    std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), b"Tidy up\n").expect("it reads");
    assert_eq!(wait_for(child).code, 0);
    assert_eq!(sandbox.text("input"), "Tidy up\n", "the prompt was sent once");
    assert!(sandbox.calls()[1].1.contains(go_on));
}
