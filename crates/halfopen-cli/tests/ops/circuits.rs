//! `status`, `why`, `hold`, `release`, `reset`, `events`: circuits are seen and steered.

use std::time::Duration;

use halfopen_core::verdict::Class;
use serde_json::{Value, json};

use crate::world::World;

#[test]
fn a_new_store_has_an_empty_list() {
    let said = World::new().halfopen(&["status", "--json"]);
    assert_eq!((said.code, said.json()), (Some(0), json!([])));
    let said = World::new().halfopen(&["status"]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""));
    assert!(said.err.contains("no circuit is known yet") && said.err.contains("\nhint: "), "{}", said.err);
    assert!(said.err.contains("with its first failure or hold"), "{}", said.err);
    let why = World::new().halfopen(&["why", "ocr"]);
    assert!(why.err.contains("with its first failure or hold"), "{}", why.err);
}

#[test]
fn status_shows_an_open_circuit_with_exactly_the_promised_keys() {
    let world = World::new();
    world.calls("ocr", Class::ServerError, None, 5);
    world.calls("ocr@region=eu", Class::Success, None, 1);
    world.calls("gh", Class::RateLimited, Some(Duration::from_secs(60)), 1);
    let list = world.halfopen(&["status", "--json"]).json();
    let keys: Vec<&str> = list[0].as_object().unwrap().keys().map(String::as_str).collect();
    let promised = [
        "circuit",
        "dependency",
        "partition",
        "state",
        "generation",
        "open_until",
        "throttled_until",
        "failures_in_window",
        "probes_in_flight",
        "hold",
        "jobs",
    ];
    assert_eq!(keys, promised);
    let of = |name: &str| list.as_array().unwrap().iter().find(|line| line["circuit"] == name).cloned().unwrap();
    let ocr = of("ocr");
    assert_eq!((&ocr["state"], &ocr["generation"], &ocr["hold"]), (&json!("open"), &json!(1), &Value::Null));
    assert!(ocr["open_until"].as_str().unwrap().ends_with('Z'), "{ocr}");
    assert_eq!(ocr["throttled_until"], Value::Null);
    let gh = of("gh");
    assert_eq!(gh["state"], "closed");
    assert!(gh["throttled_until"].as_str().unwrap().ends_with('Z'), "{gh}");

    let table = world.halfopen(&["status"]);
    assert!(table.out.lines().any(|line| line.starts_with("ocr ") && line.contains("open")), "{}", table.out);
    assert!(table.err.contains("store sqlite:/"), "{}", table.err);
}

#[test]
fn why_names_evidence_rule_hint_and_the_next_probe() {
    let world = World::new();
    world.calls("ocr", Class::RateLimited, Some(Duration::from_secs(7_200)), 1);
    let said = world.halfopen(&["why", "ocr"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for part in
        ["test/rule", "stderr, last line: it said no", "wait 2 h", "next probe:", "rate_limited", "closed → open"]
    {
        assert!(said.out.contains(part), "{part} in {}", said.out);
    }
    assert!(said.err.contains("hint: it probes by itself"), "{}", said.err);
    let list = world.halfopen(&["why", "ocr", "--json"]).json();
    assert_eq!(list[0]["last_failure"]["rule"], "test/rule");
    // Between reading the hint and settling it a millisecond may pass.
    let wait = list[0]["last_failure"]["hint_wait_s"].as_f64().unwrap();
    assert!((7199.0..=7200.0).contains(&wait), "{wait}");
    assert_eq!(list[0]["reason"], "long_wait");
}

#[test]
fn an_unknown_circuit_is_an_error_that_names_the_known_ones() {
    let world = World::new();
    world.calls("ocr", Class::Success, None, 1);
    world.calls("ocr@region=eu", Class::ServerError, None, 1);
    for words in [["why", "orc"], ["release", "orc"], ["reset", "orc"]] {
        let said = world.halfopen(&words);
        assert_eq!((said.code, said.out.as_str()), (Some(64), ""));
        assert!(said.err.contains("no circuit is named `orc`"), "{}", said.err);
        assert!(said.err.contains("hint: known are ocr"), "{}", said.err);
    }
    let said = world.halfopen(&["why", "ocr@"]);
    assert_eq!(said.code, Some(64));
    assert!(said.err.contains("write NAME or NAME@key=value"), "{}", said.err);
}

#[test]
fn a_name_without_a_partition_means_all_circuits_of_the_dependency() {
    let world = World::new();
    world.calls("ocr@region=eu", Class::ServerError, None, 5);
    world.calls("ocr@region=us", Class::ServerError, None, 5);
    world.calls("crm", Class::ServerError, None, 5);
    assert_eq!(world.halfopen(&["why", "ocr", "--json"]).json().as_array().unwrap().len(), 2);
    assert_eq!(world.halfopen(&["reset", "ocr", "--reason", "all is well"]).code, Some(0));
    let list = world.halfopen(&["status", "--json"]).json();
    for line in list.as_array().unwrap() {
        let expected = if line["dependency"] == "ocr" { "closed" } else { "open" };
        assert_eq!(line["state"], expected, "{line}");
    }
}

#[test]
fn a_hold_is_shown_journalled_and_released() {
    let world = World::new();
    world.calls("ocr", Class::ServerError, None, 1);
    let said = world.halfopen(&["hold", "ocr", "open", "--for", "2h", "--reason", "maintenance"]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""), "{}", said.err);
    assert!(said.err.contains("ocr is held open until ") && said.err.contains("(in 2 h)"), "{}", said.err);
    let list = world.halfopen(&["status", "--json"]).json();
    assert_eq!((&list[0]["hold"], &list[0]["state"]), (&json!("open"), &json!("closed")));
    let status = world.halfopen(&["status"]);
    assert!(status.out.contains("HELD OPEN by marie (uid ") && status.out.contains(": maintenance"), "{}", status.out);
    assert!(status.err.contains("warning: ocr is held by an operator"), "{}", status.err);
    let why = world.halfopen(&["why", "ocr"]).out;
    assert!(why.contains("open by marie (uid ") && why.contains("maintenance"), "{why}");

    assert_eq!(world.halfopen(&["release", "ocr"]).code, Some(0));
    assert_eq!(world.halfopen(&["status", "--json"]).json()[0]["hold"], Value::Null);
    let again = world.halfopen(&["release", "ocr"]);
    assert_eq!(again.code, Some(0));
    assert!(again.err.contains("was not held; nothing changed"), "{}", again.err);

    let events = world.halfopen(&["events", "--all", "--json"]).json();
    let placed = events.as_array().unwrap().iter().find(|event| event["event"] == "hold_placed").unwrap();
    assert_eq!((&placed["reason"], &placed["dependency"]), (&json!("maintenance"), &json!("ocr")));
    assert!(placed["details"]["who"].as_str().unwrap().starts_with("marie (uid "), "{placed}");
}

#[test]
fn a_circuit_can_be_held_before_its_first_call() {
    let world = World::new();
    let said = world.halfopen(&["hold", "demo", "closed"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("hint: halfopen release demo"), "{}", said.err);
    assert_eq!(world.halfopen(&["status", "--json"]).json()[0]["hold"], "closed");
    let slip = world.halfopen(&["hold", "dmeo", "open", "--for", "1m"]);
    assert!(slip.err.contains("warning: dmeo has had no failure or hold yet; known are demo"), "{}", slip.err);
}

#[test]
fn release_with_probe_now_ends_the_cooldown() {
    let world = World::new();
    world.calls("ocr", Class::ServerError, None, 5);
    let said = world.halfopen(&["release", "ocr", "--probe-now"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("its next call is a probe"), "{}", said.err);
    assert_eq!(world.halfopen(&["status", "--json"]).json()[0]["state"], "half_open");
}

#[test]
fn every_transition_has_the_six_fields() {
    let world = World::new();
    world.calls("ocr@region=eu", Class::ServerError, None, 5);
    world.calls("crm", Class::QuotaExhausted, None, 1);
    world.halfopen(&["reset", "ocr", "--reason", "fixed"]);
    let events = world.halfopen(&["events", "--json"]).json();
    let events = events.as_array().unwrap();
    assert_eq!(events.len(), 3);
    for event in events {
        for field in ["dependency", "from_state", "to_state", "reason", "queued_count", "probe_result"] {
            assert!(event.get(field).is_some(), "{field} in {event}");
        }
    }
    assert_eq!(
        (&events[0]["dependency"], &events[0]["from_state"], &events[0]["to_state"], &events[0]["reason"]),
        (&json!("ocr"), &json!("closed"), &json!("open"), &json!("failures"))
    );
    assert_eq!(events[2]["reason"], "fixed");
    let crm = world.halfopen(&["events", "--json", "--dep", "crm"]).json();
    assert_eq!(crm.as_array().unwrap().len(), 1);
    let newest = world.halfopen(&["events", "--json", "--limit", "1", "--since", "1h"]).json();
    assert_eq!(newest[0]["reason"], "fixed");
    let table = world.halfopen(&["events"]).out;
    assert!(table.contains("ocr@region=eu") && table.contains("closed → open"), "{table}");
    assert!(table.contains("fixed, by marie (uid "), "{table}");
}

/// S082: a policy that changes keeps what is: state, remaining time, generation.
#[test]
fn a_changed_policy_keeps_the_live_state() {
    let world = World::new();
    world.calls("ocr", Class::ServerError, None, 5);
    let before = world.halfopen(&["status", "--json"]).json();
    world.write(
        "policy.yaml",
        "dependency_guard: {name: ocr, circuit: {open_after_failures: 2, failure_window_sec: 5, open_for_sec: 1}}\n",
    );
    let after = world.halfopen(&["status", "--json", "--policy", "policy.yaml"]).json();
    for key in ["state", "generation", "hold"] {
        assert_eq!(before[0][key], after[0][key]);
    }
    // The wall clock is read anew for each, so the printed instants may differ by its last millisecond.
    let seconds =
        |list: &Value| list[0]["open_until"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond();
    assert!((seconds(&before) - seconds(&after)).abs() <= 5, "{before} {after}");
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    let world = World::new();
    for words in [
        &["hold", "ocr"][..],
        &["hold", "ocr", "half-open"],
        &["hold", "ocr", "open", "--for", "0s"],
        &["hold", "ocr", "open", "--for", "30"],
        &["events", "--limit", "0"],
        &["events", "--since", "yesterday"],
        &["status", "--store", "mysql://x"],
        &["frobnicate"],
    ] {
        let said = world.halfopen(words);
        assert_eq!((said.code, said.out.as_str()), (Some(64), ""), "{words:?}: {}", said.err);
    }
}

#[test]
fn a_store_that_is_none_is_named_and_left_alone() {
    let world = World::new();
    let path = world.write("garbage.db", "this is no database, and it is longer than a header of one, so there\n");
    let before = std::fs::read(&path).unwrap();
    let said = world.halfopen(&["status", "--store", path.to_str().unwrap()]);
    assert_eq!(said.code, Some(74), "{}", said.err);
    assert!(said.err.contains("garbage.db"), "{}", said.err);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}
