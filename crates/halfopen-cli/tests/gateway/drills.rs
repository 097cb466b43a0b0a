//! `/drills`: shadows of dependencies, which share nothing with the real ones and leave nothing behind.

use serde_json::{Value, json};
use test_case::test_case;

use crate::stub::{Reply, Stub};
use crate::world::{Gateway, Starting, gateway, policy, until};

const SECRET: &str = "sk-real-0123456789abcdef0123456789";

/// A policy with everything that a stand-in must not get.
const KEYS: &str = "\
credentials: { main: { from_env: UP_TOKEN, header: X-Key, scheme: Key } }
circuit: { open_after_failures: 2, open_for_sec: 60, failure_window_sec: 120 }
on_open: { action: queue, queue_ttl_min: 30 }
owner: oncall
replay: always";

fn body(upstream: &str, more: &str) -> String {
    format!(r#"{{"dependency":"up","upstream":"{upstream}"{more}}}"#)
}

fn begin(gateway: &Gateway, stand_in: &Stub, more: &str) -> Value {
    let begun = gateway.ask("POST", "/drills", &[], &body(&stand_in.url(), more));
    assert_eq!(begun.status, 201, "{}", begun.text());
    begun.json()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

fn end(gateway: &Gateway, name: &str) -> Value {
    let ended = gateway.ask("DELETE", &format!("/drills/{name}"), &[], "");
    assert_eq!(ended.status, 200, "{}", ended.text());
    ended.json()
}

fn circuits(gateway: &Gateway) -> Vec<String> {
    let list = gateway.ask("GET", "/circuits", &[], "").json();
    list.as_array().unwrap().iter().map(|line| text(&line["dependency"])).collect()
}

fn with_secret(stub: &Stub) -> Gateway {
    Starting::new(&policy(&stub.url(), KEYS)).variable("UP_TOKEN", SECRET).start()
}

#[test]
fn a_shadow_is_called_like_a_dependency_and_gets_no_secret_of_it() {
    let (real, stand_in) = (Stub::start(), Stub::start());
    let gateway = with_secret(&real);
    let drill = begin(&gateway, &stand_in, r#","shorten":60"#);
    let (name, path) = (text(&drill["name"]), text(&drill["path"]));
    assert!(name.starts_with("up~drill-") && path == format!("/d/{name}"), "{drill}");
    assert_eq!(gateway.post(&format!("{path}/x"), "{}").status, 200);
    assert_eq!(gateway.post("/d/up/x", "{}").status, 200);
    assert_eq!(real.seen()[0].all("x-key"), [format!("Key {SECRET}")], "the real one gets it");
    let seen = stand_in.seen();
    assert_eq!(seen.len(), 1);
    let whole = format!("{}{}", seen[0].head, String::from_utf8_lossy(&seen[0].body));
    assert!(!whole.contains(SECRET) && seen[0].all("x-key").is_empty(), "{whole}");
    assert!(!drill.to_string().contains(SECRET) && drill["policy"].get("credentials").is_none(), "{drill}");
}

#[test]
fn its_policy_is_the_one_in_force_shortened_and_without_whom_it_tells() {
    let stand_in = Stub::start();
    let gateway = with_secret(&Stub::start());
    let drill = begin(&gateway, &stand_in, r#","shorten":60"#);
    let policy = &drill["policy"];
    assert_eq!(policy["name"], "up");
    assert_eq!(policy["circuit"]["open_for_sec"], 1.0);
    assert_eq!(policy["circuit"]["open_after_failures"], 2, "counts stay");
    assert_eq!(policy["on_open"]["queue_ttl_min"], 0.5);
    assert_eq!(policy["timeout_ms"], 1000.0, "no value is so short that the machine decides");
    assert_eq!(policy["replay"], "always");
    for gone in ["owner", "alert_owner", "fallback", "probe", "on_done", "credentials"] {
        assert!(policy.get(gone).is_none(), "{gone} in {policy}");
    }
    // Without a word the cooldown lasts about two seconds.
    let drill = begin(&gateway, &stand_in, "");
    assert_eq!((&drill["shorten"], &drill["policy"]["circuit"]["open_for_sec"]), (&json!(30.0), &json!(2.0)));
    // What it says is a policy file.
    let file = gateway.path("shadow.yaml");
    std::fs::write(file, json!({ "dependency_guard": drill["policy"] }).to_string()).unwrap();
    let said = gateway.halfopen(&["check", "--policy", "shadow.yaml"]);
    assert!(!said.contains("error"), "{said}");
}

#[test]
fn the_real_circuit_the_real_figures_and_the_real_queue_are_not_touched() {
    let (real, stand_in) = (Stub::start(), Stub::start());
    let gateway = with_secret(&real);
    stand_in.always(Reply::status(500, "{}"));
    let drill = begin(&gateway, &stand_in, "");
    let (name, path) = (text(&drill["name"]), text(&drill["path"]));
    for _ in 0..2 {
        gateway.post(&format!("{path}/x"), "{}");
    }
    until("the shadow opens", || {
        gateway.ask("GET", &format!("/circuits/{name}"), &[], "").json()[0]["state"] != "closed"
    });
    assert_eq!(gateway.post(&format!("{path}/x"), "{}").status, 202, "its refused calls are queued");
    assert_eq!(gateway.ask("GET", "/events?format=json&all=true&dependency=up", &[], "").json(), json!([]));
    assert!(!circuits(&gateway).contains(&"up".to_owned()), "nothing is known of the real one");
    let metrics = gateway.ask("GET", "/metrics", &[], "").text();
    assert!(metrics.contains(r#"halfopen_calls_total{dependency="up"} 0"#), "{metrics}");
    assert!(metrics.contains(&format!(r#"halfopen_calls_total{{dependency="{name}"}} 3"#)), "{metrics}");
    assert_eq!(gateway.post("/d/up/x", "{}").status, 200);
    assert_eq!(real.seen().len(), 1);
    assert_eq!(gateway.ask("GET", "/jobs?dependency=up", &[], "").json()["jobs"], json!([]));
}

/// What is left of it is in the journal and nowhere else.
#[test]
fn what_ends_leaves_only_the_journal() {
    let stand_in = Stub::start();
    let gateway =
        gateway(&Stub::start(), "on_open: { action: queue, queue_ttl_min: 30 }\ncircuit: { open_after_failures: 1 }");
    stand_in.always(Reply::status(500, "{}"));
    let drill = begin(&gateway, &stand_in, r#","shorten":1"#);
    let (name, path) = (text(&drill["name"]), text(&drill["path"]));
    gateway.post(&format!("{path}/x"), "{}");
    for _ in 0..3 {
        assert_eq!(gateway.post(&format!("{path}/x"), "{}").status, 202);
    }
    assert_eq!(gateway.ask("GET", "/drills", &[], "").json()["drills"][0]["name"], name.as_str());
    assert_eq!(end(&gateway, &name), json!({ "name": name, "jobs_ended": 3 }));
    let answer = gateway.post(&format!("{path}/x"), "{}");
    assert_eq!((answer.status, answer.problem().as_str()), (404, "unknown_dependency"));
    assert_eq!(gateway.ask("DELETE", &format!("/drills/{name}"), &[], "").status, 404);
    assert_eq!(gateway.ask("DELETE", "/drills/up", &[], "").status, 404, "the real one is no drill");
    assert!(circuits(&gateway).is_empty());
    assert_eq!(gateway.ask("GET", "/jobs", &[], "").json()["jobs"], json!([]));
    assert!(gateway.store().job_tallies().unwrap().is_empty(), "nor its figures");
    let events = gateway.store().events(&halfopen::store::EventFilter::default()).unwrap();
    let cancelled = events.iter().find(|event| event.event == "jobs_cancelled").unwrap();
    assert_eq!(cancelled.details["jobs"], 3);
    assert!(cancelled.details["why"].as_str().unwrap().starts_with("drill: "), "{cancelled:?}");
    assert!(
        gateway.halfopen(&["audit"]).contains("holds together")
            || gateway.halfopen(&["audit", "--json"]).contains("[]")
    );
}

#[test]
fn it_ends_by_itself() {
    let stand_in = Stub::start();
    let gateway = gateway(&Stub::start(), "circuit: { open_after_failures: 1 }");
    stand_in.always(Reply::status(500, "{}"));
    let drill = begin(&gateway, &stand_in, r#","for_sec":1"#);
    gateway.post(&format!("{}/x", text(&drill["path"])), "{}");
    until("it is gone", || gateway.ask("GET", "/drills", &[], "").json()["drills"] == json!([]));
    until("its circuit is gone", || circuits(&gateway).is_empty());
    assert!(gateway.said().contains("ended: its time is over"), "{}", gateway.said());
}

/// A gateway that was killed in the middle of a drill leaves rows; the next one of that store removes them.
#[test]
fn what_a_killed_gateway_left_is_removed_by_the_next() {
    let gateway = gateway(&Stub::start(), "circuit: { open_after_failures: 1 }");
    let hour_ago = jiff::Timestamp::now().as_second() - 3600;
    let hour_hence = hour_ago + 7200;
    let (old, young) = (format!("up~drill-{hour_ago:x}beef"), format!("up~drill-{hour_hence:x}beef"));
    gateway.failures(&old, 1);
    gateway.failures(&young, 1);
    gateway.failures("up", 1);
    let _next = Starting::beside(&gateway).start();
    until("what is old is removed", || !circuits(&gateway).contains(&old));
    let left = circuits(&gateway);
    assert!(left.contains(&young) && left.contains(&"up".to_owned()), "{left:?}");
}

#[test]
fn it_goes_on_through_a_reload_of_the_policy() {
    let (real, stand_in) = (Stub::start(), Stub::start());
    let gateway = gateway(&real, "");
    let path = text(&begin(&gateway, &stand_in, "")["path"]);
    std::fs::write(gateway.path("policy.yaml"), policy(&real.url(), "").replace("name: up", "name: other")).unwrap();
    until("it is reloaded", || gateway.said().contains("policy reloaded: added other; removed up"));
    assert_eq!(gateway.post(&format!("{path}/x"), "{}").status, 200);
    assert_eq!(stand_in.seen().len(), 1);
}

#[test_case("http://10.0.0.1:9000", "", 400, "a drill sends nothing to another machine"; "another machine")]
#[test_case("http://localhost:9000", "", 400, "literal address of the loopback"; "a name")]
#[test_case("http://127.0.0.1:9000/x", "", 400, "`upstream`"; "a path")]
#[test_case("http://127.0.0.1:9", r#","shorten":0.5"#, 400, "`shorten` is `0.5`; allowed is a number from 1 to 10000"; "longer")]
#[test_case("http://127.0.0.1:9", r#","shorten":"60""#, 400, "`shorten`"; "a text for a number")]
#[test_case("http://127.0.0.1:9", r#","for_sec":901"#, 400, "whole seconds from 1 to 900"; "too long")]
#[test_case("http://127.0.0.1:9", r#","shrten":60"#, 400, "`shrten` is no key"; "a slip")]
fn what_is_asked_wrongly_is_told(upstream: &str, more: &str, status: u16, said: &str) {
    let gateway = gateway(&Stub::start(), "");
    let answer = gateway.ask("POST", "/drills", &[], &body(upstream, more));
    assert_eq!(answer.status, status, "{}", answer.text());
    assert!(text(&answer.json()["detail"]).contains(said), "{}", answer.text());
    assert_eq!(gateway.ask("GET", "/drills", &[], "").json()["drills"], json!([]));
}

#[test]
fn only_dependencies_of_the_policy_are_drilled_and_so_many_at_once() {
    let stand_in = Stub::start();
    let gateway = gateway(&Stub::start(), "");
    let name = text(&begin(&gateway, &stand_in, "")["name"]);
    for unknown in ["down", &name] {
        let body = body(&stand_in.url(), "").replace(r#""up""#, &format!(r#""{unknown}""#));
        let answer = gateway.ask("POST", "/drills", &[], &body);
        assert_eq!((answer.status, answer.problem().as_str()), (404, "unknown_dependency"), "{unknown}");
        assert!(text(&answer.json()["detail"]).contains("known: up"), "{}", answer.text());
    }
    for _ in 1..16 {
        begin(&gateway, &stand_in, "");
    }
    let answer = gateway.ask("POST", "/drills", &[], &body(&stand_in.url(), ""));
    assert_eq!((answer.status, answer.problem().as_str()), (503, "too_many_calls"));
    end(&gateway, &name);
    begin(&gateway, &stand_in, "");
}

#[test]
fn operators_begin_drills_and_callers_call_them() {
    let stand_in = Stub::start();
    let starting = Starting::new(&policy(&Stub::start().url(), ""));
    let operator = format!("Bearer {}", starting.token("ops", "admins"));
    let caller = starting.token("app", "callers");
    let gateway =
        starting.word("--admin-token-file").word("admins").word("--caller-token-file").word("callers").start();
    let ask = |fields: &[(&str, &str)]| gateway.ask("POST", "/drills", fields, &body(&stand_in.url(), ""));
    assert_eq!(ask(&[]).status, 401);
    assert_eq!(ask(&[("halfopen-token", &caller)]).status, 403);
    assert_eq!(ask(&[("authorization", &operator), ("origin", "http://evil.example")]).status, 403);
    let begun = ask(&[("authorization", &operator)]);
    assert_eq!(begun.status, 201, "{}", begun.text());
    let target = format!("{}/x", text(&begun.json()["path"]));
    assert_eq!(gateway.post(&target, "{}").status, 401);
    assert_eq!(gateway.call("POST", &target, &[("halfopen-token", &caller)], b"{}").status, 200);
}

#[test]
fn no_policy_may_use_a_name_of_a_drill() {
    let (code, said) = Starting::new(&policy("http://127.0.0.1:9", "").replace("name: up", "name: up~drill-1")).fails();
    assert_eq!(code, Some(78), "{said}");
    assert!(said.contains("those of rehearsals"), "{said}");
    let (code, said) = Starting::new(&policy("http://127.0.0.1:9", ""))
        .word("--upstream")
        .word("x~drill-1=http://127.0.0.1:9")
        .fails();
    assert_eq!(code, Some(64), "{said}");
}
