//! A policy that changes while the gateway serves.

use std::time::Duration;

use rustix::process::Signal;

use crate::stub::{Reply, Stub};
use crate::world::{Gateway, gateway, policy, until};

const OPENS: &str = "circuit: { open_after_failures: 1, open_for_sec: 60 }";

/// Puts a file in the place of the policy, as editors do.
fn replace(gateway: &Gateway, text: &str) {
    let replaced = std::fs::write(gateway.path("policy.new"), text)
        .and_then(|()| std::fs::rename(gateway.path("policy.new"), gateway.path("policy.yaml")));
    assert!(replaced.is_ok(), "{replaced:?}");
}

fn reloaded(gateway: &Gateway, times: usize) {
    until("it is reloaded", || gateway.said().matches("policy reloaded").count() >= times);
}

#[test]
fn a_changed_file_is_put_in_force_and_circuits_stay() {
    let stub = Stub::start();
    let gateway = gateway(&stub, OPENS);
    stub.then([Reply::status(500, "{}")]);
    gateway.get("/d/up/x");
    assert_eq!(gateway.get("/d/up/x").problem(), "circuit_open");
    let other = Stub::start();
    let more = policy(&other.url(), "").replace("dependencies:\n", "").replace("name: up", "name: more");
    replace(&gateway, &(policy(&stub.url(), OPENS) + &more));
    reloaded(&gateway, 1);
    assert!(gateway.said().contains("policy reloaded: added more"), "{}", gateway.said());
    assert_eq!(gateway.get("/d/more/x").status, 200);
    assert_eq!(gateway.get("/d/up/x").problem(), "circuit_open", "what was learned stays");
    // Rewritten in place.
    std::fs::write(gateway.path("policy.yaml"), policy(&stub.url(), "")).unwrap();
    reloaded(&gateway, 2);
    assert!(gateway.said().contains("changed up; removed more"), "{}", gateway.said());
    assert_eq!(gateway.get("/d/more/x").problem(), "unknown_dependency");
    assert_eq!(gateway.get("/d/up/x").problem(), "circuit_open");
}

#[test]
fn a_file_with_a_mistake_changes_nothing_and_says_what_is_wrong() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let good = policy(&stub.url(), "");
    let bad = good.replace("name: up", "name: down") + "  - name: broken\n    timeout_ms: never\n";
    replace(&gateway, &bad);
    until("it is refused", || gateway.said().contains("policy not reloaded, the old one stays in force"));
    assert!(gateway.said().contains("timeout_ms"), "{}", gateway.said());
    assert_eq!(gateway.get("/d/up/x").status, 200);
    assert_eq!(gateway.get("/d/down/x").problem(), "unknown_dependency");
    // What is wrong with a URL is told without the password in it: a log is kept.
    let (user, key) = ("PwInUrl-7f3a", "KeyInUrl-91bc");
    let bad = good.replace(&stub.url(), &format!("http://u:{user}@127.0.0.1:1/v1?api_key={key}"));
    assert!(bad.contains(user));
    replace(&gateway, &bad);
    until("it is refused again", || gateway.said().matches("policy not reloaded").count() == 2);
    let said = gateway.said();
    assert!(said.contains("`upstream`") && !said.contains(user) && !said.contains(key), "{said}");
    // A mistake that only the gateway finds is one of the whole file, too.
    let bad = good.clone()
        + "  - name: broken\n    profile: generic\n    classify: [{name: x, when: [{stderr: {matches: '('}}], class: overloaded}]\n";
    replace(&gateway, &bad);
    until("it is refused once more", || gateway.said().matches("policy not reloaded").count() == 3);
    assert_eq!(gateway.get("/d/up/x").status, 200);
    replace(&gateway, &(good.clone() + "  - name: fixed\n"));
    reloaded(&gateway, 1);
    assert_eq!(gateway.get("/d/fixed/x").problem(), "no_upstream");
}

#[test]
fn a_signal_reads_the_file_at_once() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    gateway.signal(Signal::HUP);
    reloaded(&gateway, 1);
    assert!(gateway.said().contains("policy reloaded: no dependency changed"), "{}", gateway.said());
    assert_eq!(gateway.get("/d/up/x").status, 200);
}

#[test]
fn a_call_in_flight_ends_under_the_policy_it_began_with() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    stub.then([Reply::chunked(200, &[]).chunk(b"first").wait(Duration::from_secs(4)).chunk(b"last").end()]);
    let mut caller = gateway.connect();
    caller.send(crate::client::request("GET", "/d/up/slow", &[], b""));
    stub.seen_at_least(1);
    let other = Stub::start();
    replace(&gateway, &policy(&other.url(), "timeout_ms: 100").replace("name: up", "name: new"));
    reloaded(&gateway, 1);
    assert_eq!(gateway.get("/d/up/x").problem(), "unknown_dependency");
    assert_eq!(caller.answer().text(), "firstlast");
}

#[test]
fn connections_and_kept_answers_of_what_did_not_change_stay() {
    let stub = Stub::start();
    let keys = format!("{OPENS}\ncache: {{ max_age_sec: 600 }}\non_open: {{ action: [cache, fail_fast] }}");
    let gateway = gateway(&stub, &keys);
    stub.then([Reply::ok("{\"kept\":1}")]);
    gateway.get("/d/up/kept");
    replace(&gateway, &(policy(&stub.url(), &keys) + "  - name: more\n"));
    reloaded(&gateway, 1);
    gateway.get("/d/up/x");
    assert_eq!(stub.connections(), 1);
    // Another timeout is another dependency, but what was kept would still come from the same place.
    replace(&gateway, &policy(&stub.url(), &format!("{keys}\ntimeout_ms: 4000")));
    reloaded(&gateway, 2);
    stub.then([Reply::status(500, "{}")]);
    gateway.get("/d/up/broken");
    assert_eq!(gateway.get("/d/up/kept").json()["kept"], 1);
}

#[test]
fn another_store_takes_a_restart() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    replace(&gateway, &(policy(&stub.url(), "") + "store: /tmp/elsewhere/h.db\n"));
    reloaded(&gateway, 1);
    assert!(gateway.said().contains("names another store now, which takes a restart"), "{}", gateway.said());
    assert!(!std::path::Path::new("/tmp/elsewhere/h.db").exists());
}
