//! A control that does nothing looks like one that has nothing to do, unless it says so: what `run` must leave behind.

use crate::receiver::Receiver;
use crate::sandbox::{BROKEN, Sandbox, until};

/// Drill C2, C3: zeros while nothing happens, the words of what no rule knows, the figures of an outage, and the owner's
/// alert, all by real runs.
#[test]
fn a_run_emits_its_line_its_zeros_what_nothing_knew_and_the_alert() {
    let (sandbox, receiver) = (Sandbox::new(), Receiver::new());
    sandbox
        .policy("owner: oncall\nretry: {max_attempts: 1}\ncircuit: {open_after_failures: 2, open_for_sec: 600}\non_open: {action: fail_fast}");
    let file = sandbox.path("policy.yaml");
    let text = std::fs::read_to_string(&file).expect("a policy");
    std::fs::write(&file, format!("{text}alerts:\n  oncall:\n  - webhook: {}\n", receiver.url())).expect("a policy");

    // Nothing happens, and every figure says so.
    sandbox.tool("exit 0");
    sandbox.run(&[]);
    let quiet = &sandbox.activation()[0];
    let figures = quiet.as_object().expect("an object");
    let zeros = figures.iter().filter(|(key, value)| *key != "calls" && value.as_u64() == Some(0)).count();
    assert!(quiet["calls"] == 1 && zeros >= 12, "{quiet}");
    assert!(receiver.seen().is_empty());

    // What no rule knows is counted, and its words are kept without what is secret.
    sandbox.tool("echo 'the flux capacitor is out, api_key=sk-ant-abcdefghijklmnopqrstuvwxyz012345' >&2; exit 1");
    sandbox.run(&[]);
    let unknown = &sandbox.activation()[1];
    assert_eq!(unknown["unclassified"], 1);
    let line = unknown["unclassified_lines"][0].as_str().expect("a line");
    assert!(line.contains("flux capacitor") && !line.contains("abcdefghijklmnop"), "{line}");
    let printed = String::from_utf8(sandbox.halfopen(&["report"]).output().expect("a report").stdout).expect("text");
    assert!(printed.contains("flux capacitor") && !printed.contains("abcdefghijklmnop"), "{printed}");

    // An outage is counted, and told.
    sandbox.tool(BROKEN);
    (0..3).for_each(|_| drop(sandbox.run(&[])));
    let lines = sandbox.activation();
    let sum = |key: &str| lines.iter().map(|line| line[key].as_u64().unwrap_or(0)).sum::<u64>();
    assert_eq!((lines.len(), sum("calls"), sum("opened"), sum("refused")), (5, 5, 1, 1));
    until("the owner is told", || receiver.kinds() == ["circuit.opened"]);
}
