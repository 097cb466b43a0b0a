//! `/metrics`: figures that are right when they are read.

use crate::stub::{Reply, Stub};
use crate::world::{Starting, gateway, policy, until};

/// Returns the value of a series.
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find(|line| line.split(' ').next() == Some(series));
    line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or_else(|| panic!("{series} in {text}"))
}

#[test]
fn both_forms_are_spoken_and_every_circuit_is_there_from_the_start() {
    let gateway = gateway(&Stub::start(), "");
    let plain = gateway.ask("GET", "/metrics", &[], "");
    assert_eq!(plain.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = plain.text();
    assert_eq!(value(&text, r#"halfopen_circuit_state{dependency="up",circuit="up",state="closed"}"#), 1.0);
    assert_eq!(value(&text, r#"halfopen_circuit_state{dependency="up",circuit="up",state="open"}"#), 0.0);
    assert_eq!(value(&text, r#"halfopen_circuit_open_seconds_left{dependency="up",circuit="up"}"#), 0.0);
    assert_eq!(value(&text, r#"halfopen_policy_reloads_total{result="failed"}"#), 0.0);
    assert_eq!(value(&text, "halfopen_store_writable"), 1.0);
    assert!(text.contains("# TYPE halfopen_policy_reloads_total counter"), "{text}");
    let standard =
        gateway.ask("GET", "/metrics", &[("accept", "application/openmetrics-text;version=1.0.0,*/*;q=0.1")], "");
    assert!(standard.field("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(standard.text().ends_with("# EOF\n"));
}

/// S189: a breaker whose cooldown is over is half-open in the next scrape, though nobody calls.
#[test]
fn states_are_right_at_scrape_time() {
    let gateway = gateway(&Stub::start(), "");
    gateway.failures("up", 5);
    let scrape = || gateway.ask("GET", "/metrics", &[], "").text();
    let state = |text: &str, state: &str| {
        value(text, &format!(r#"halfopen_circuit_state{{dependency="up",circuit="up",state="{state}"}}"#))
    };
    let text = scrape();
    assert_eq!((state(&text, "open"), state(&text, "closed")), (1.0, 0.0));
    let left = value(&text, r#"halfopen_circuit_open_seconds_left{dependency="up",circuit="up"}"#);
    assert!(left > 60.0 && left < 140.0, "{left}");
    gateway.halfopen(&["release", "up", "--probe-now"]);
    let text = scrape();
    assert_eq!((state(&text, "half_open"), state(&text, "open")), (1.0, 0.0));
    gateway.halfopen(&["hold", "up", "closed"]);
    assert_eq!(value(&scrape(), r#"halfopen_circuit_held{dependency="up",circuit="up",state="closed"}"#), 1.0);
}

/// S190: what callers and strangers send becomes no series.
#[test]
fn labels_are_bounded() {
    let gateway = gateway(&Stub::start(), "");
    let before = gateway.ask("GET", "/metrics", &[], "").text().lines().count();
    for n in 0..200 {
        gateway.get(&format!("/d/nobody-{n}/x"));
        gateway.get(&format!("/nothing/{n}"));
        gateway.ask("GET", &format!("/circuits/stranger-{n}"), &[], "");
    }
    assert_eq!(gateway.ask("GET", "/metrics", &[], "").text().lines().count(), before);
}

#[test]
fn reloads_are_counted_by_how_they_ended() {
    let gateway = gateway(&Stub::start(), "");
    std::fs::write(gateway.path("policy.yaml"), "nonsense: [").unwrap();
    gateway.signal(rustix::process::Signal::HUP);
    until("a refused reload is counted", || {
        let text = gateway.ask("GET", "/metrics", &[], "").text();
        value(&text, r#"halfopen_policy_reloads_total{result="failed"}"#) >= 1.0
    });
}

/// What was counted is there from the start, at 0, and grows with calls; the histogram too.
#[test]
fn every_series_of_every_dependency_begins_at_zero() {
    let stub = Stub::start();
    stub.then([Reply::ok("fine"), Reply::status(503, "no")]);
    let gateway = gateway(&stub, "circuit: { open_after_failures: 1, open_for_sec: 60 }");
    let before = gateway.ask("GET", "/metrics", &[], "").text();
    let of = |text: &str, series: &str| value(text, &format!("halfopen_{series}"));
    for series in
        ["calls", "retries", "waits", "hints_read", "opened", "probes", "degraded", "unclassified", "client_aborts"]
    {
        assert_eq!(of(&before, &format!(r#"{series}_total{{dependency="up"}}"#)), 0.0, "{series}");
    }
    for class in halfopen_core::verdict::Class::ALL {
        assert_eq!(of(&before, &format!(r#"attempts_total{{dependency="up",class="{class}"}}"#)), 0.0);
    }
    assert_eq!(of(&before, r#"attempt_head_seconds_count{dependency="up"}"#), 0.0);
    assert_eq!(gateway.get("/d/up/x").status, 200);
    gateway.get("/d/up/x");
    gateway.becomes("up", "open");
    assert_eq!(gateway.get("/d/up/x").status, 503);
    let after = gateway.ask("GET", "/metrics", &[], "").text();
    assert_eq!(of(&after, r#"calls_total{dependency="up"}"#), 3.0);
    assert_eq!(of(&after, r#"attempts_total{dependency="up",class="success"}"#), 1.0);
    assert_eq!(of(&after, r#"attempts_total{dependency="up",class="overloaded"}"#), 1.0);
    assert_eq!(of(&after, r#"refused_total{dependency="up",reason="open"}"#), 1.0);
    assert_eq!(of(&after, r#"refused_total{dependency="up",reason="held"}"#), 0.0);
    assert_eq!(of(&after, r#"opened_total{dependency="up"}"#), 1.0);
    assert_eq!(of(&after, r#"attempt_head_seconds_count{dependency="up"}"#), 2.0);
    assert_eq!(of(&after, r#"attempt_head_seconds_bucket{dependency="up",le="+Inf"}"#), 2.0);
    assert_eq!(before.lines().count(), after.lines().count());
}

/// The activation lines cover the gateway: at intervals and at the end, also when nothing happened.
#[test]
fn report_covers_the_gateway() {
    let stub = Stub::start();
    stub.always(Reply::ok("fine"));
    let mut gateway = Starting::new(&policy(&stub.url(), "")).word("--activation-interval").word("50ms").start();
    let report = |gateway: &crate::world::Gateway| -> serde_json::Value {
        let printed = gateway.halfopen(&["report", "--json"]);
        serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}"))
    };
    until("a line of zeros", || report(&gateway)[0]["dependency"] == "up");
    assert_eq!(report(&gateway)[0]["calls"], 0);
    for _ in 0..3 {
        gateway.get("/d/up/x");
    }
    gateway.signal(rustix::process::Signal::TERM);
    assert_eq!(gateway.ended().code(), Some(0));
    assert_eq!(report(&gateway)[0]["calls"], 3);
}
