//! A control that does nothing looks like one that has nothing to do, unless it says so: what `serve` must emit.

use crate::metrics::value;
use crate::receiver::Receiver;
use crate::stub::{Reply, Stub};
use crate::world::{Gateway, Starting, policy, until};

fn lines(gateway: &Gateway) -> Vec<serde_json::Value> {
    let files = gateway.files();
    let kept = files.into_iter().filter(|(path, _)| path.ends_with("activation.jsonl"));
    let text: String = kept.map(|(_, bytes)| String::from_utf8(bytes).unwrap()).collect();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Drill C2, C3: zeros while nothing happens, what no rule knows, the figures of an outage, and the owner's alert, all by
/// a running gateway.
#[test]
fn a_gateway_emits_its_line_its_zeros_what_nothing_knew_and_the_alert() {
    let (stub, receiver) = (Stub::start(), Receiver::new());
    let keys = "owner: oncall\n\
                circuit: { open_after_failures: 2, open_for_sec: 600 }\n\
                classify: [{ name: odd, class: unknown_failure, when: [{ status: [418] }] }]";
    let text = format!("{}alerts:\n  oncall:\n  - webhook: {}\n", policy(&stub.url(), keys), receiver.url());
    let gateway = Starting::new(&text).word("--activation-interval").word("50ms").start();

    // Nothing happens, and the line and the counters say so.
    until("a line of zeros", || lines(&gateway).iter().any(|line| line["dependency"] == "up"));
    let quiet = lines(&gateway)[0].clone();
    assert!(quiet.as_object().unwrap().values().filter(|figure| figure.as_u64() == Some(0)).count() >= 13, "{quiet}");
    let scrape = || gateway.ask("GET", "/metrics", &[], "").text();
    for series in ["calls_total", "opened_total", "unclassified_total", "degraded_total", "probes_total"] {
        assert_eq!(value(&scrape(), &format!("halfopen_{series}{{dependency=\"up\"}}")), 0.0, "{series}");
    }

    // What no rule knows is counted, and what it looked like is kept without what is secret.
    stub.then([Reply::status(418, "the flux capacitor is out, api_key=sk-ant-abcdefghijklmnopqrstuvwxyz012345")]);
    assert_eq!(gateway.get("/d/up/x").status, 418);
    until("it is in a line", || lines(&gateway).iter().any(|line| line["unclassified"] == 1));
    let unknown = lines(&gateway).into_iter().find(|line| line["unclassified"] == 1).unwrap();
    let words = unknown["unclassified_lines"].to_string();
    assert!(words.contains("status 418") && !words.contains("abcdefghijklmnop"), "{unknown}");
    let printed = gateway.halfopen(&["report"]);
    assert!(printed.contains("status 418") && !printed.contains("abcdefghijklmnop"), "{printed}");

    // An outage is counted, and told.
    stub.then([Reply::status(500, "{}"), Reply::status(500, "{}")]);
    (0..2).for_each(|_| assert_eq!(gateway.get("/d/up/x").status, 500));
    assert_eq!(gateway.get("/d/up/x").problem(), "circuit_open");
    let sum = |key: &str| lines(&gateway).iter().map(|line| line[key].as_u64().unwrap_or(0)).sum::<u64>();
    until("the lines say so", || sum("refused") == 1);
    until("the owner is told", || receiver.kinds() == ["circuit.opened"]);
}
