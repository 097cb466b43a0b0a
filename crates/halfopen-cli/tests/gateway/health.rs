//! `/healthz` and `/readyz`.

use crate::stub::Stub;
use crate::world::{Starting, gateway, policy, until};

#[test]
fn an_open_breaker_does_not_make_the_gateway_unready() {
    let gateway = gateway(&Stub::start(), "");
    gateway.failures("up", 5);
    assert_eq!(gateway.ask("GET", "/healthz", &[], "").json()["status"], "ok");
    let ready = gateway.ask("GET", "/readyz", &[], "");
    assert_eq!((ready.status, ready.json()["dependencies"].as_u64()), (200, Some(1)));
    assert_eq!(gateway.ask("HEAD", "/readyz", &[], "").status, 200);
    // Whoever probes comes under any name.
    assert_eq!(gateway.call("GET", "/readyz", &[("host", "10.1.2.3")], b"").status, 200);
}

/// S157: readiness follows the store, the figures show an error rather than zeros, and nothing is made anew over damage.
#[test]
fn readiness_follows_the_store() {
    let gateway = gateway(&Stub::start(), "");
    gateway.failures("up", 5);
    assert_eq!(gateway.ask("GET", "/readyz", &[], "").status, 200);
    let file = gateway.path(".local/state/halfopen/halfopen.db");
    let aside = gateway.path("aside.db");
    std::fs::rename(&file, &aside).unwrap();
    let rubbish = "no database at all, though long enough".repeat(100);
    std::fs::write(&file, &rubbish).unwrap();
    until("the damage is found", || gateway.ask("GET", "/readyz", &[], "").text().contains("damaged"));
    let answer = gateway.ask("GET", "/readyz", &[], "");
    assert_eq!(
        (answer.status, answer.problem().as_str(), answer.json()["reason"].as_str()),
        (503, "not_ready", Some("store_lost"))
    );
    assert_eq!(gateway.ask("GET", "/healthz", &[], "").status, 200);
    assert!(gateway.ask("GET", "/metrics", &[], "").text().contains("halfopen_store_readable 0"));
    let events = gateway.ask("GET", "/events?format=json", &[], "");
    assert_eq!((events.status, events.problem().as_str()), (503, "not_durable"), "{}", events.text());
    let hold = gateway.ask("POST", "/circuits/up/hold", &[], r#"{"state":"open"}"#);
    assert_eq!(hold.status, 503, "{}", hold.text());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), rubbish);
    std::fs::rename(&aside, &file).unwrap();
    until("it is ready", || gateway.ask("GET", "/readyz", &[], "").status == 200);
    assert_eq!(gateway.state("up"), "open");
}

/// S157: a store that can be read and not written is no store to be ready with.
#[test]
fn a_store_that_cannot_be_written_is_found_by_who_asks() {
    let gateway = gateway(&Stub::start(), "");
    let conn = rusqlite::Connection::open(gateway.path(".local/state/halfopen/halfopen.db")).unwrap();
    conn.execute_batch("CREATE TRIGGER no BEFORE UPDATE ON boot BEGIN SELECT raise(ABORT, 'no room'); END").unwrap();
    until("it is not ready", || gateway.ask("GET", "/readyz", &[], "").status == 503);
    let answer = gateway.ask("GET", "/readyz", &[], "");
    assert_eq!(answer.json()["reason"], "store_read_only");
    assert!(answer.json()["detail"].as_str().unwrap().contains("no room"), "{}", answer.text());
    conn.execute_batch("DROP TRIGGER no").unwrap();
    until("it is ready", || gateway.ask("GET", "/readyz", &[], "").status == 200);
}

/// S157, S155: a store whose every write fails is no store to be ready with, and it is one again by itself.
#[test]
fn a_store_whose_writes_fail_is_found_and_comes_back() {
    let stub = Stub::start();
    let gateway = Starting::new(&policy(&stub.url(), "")).outlives_file_limits().start();
    assert_eq!(gateway.ask("GET", "/readyz", &[], "").status, 200);
    gateway.limit_files(Some(1));
    until("it is not ready", || gateway.ask("GET", "/readyz", &[], "").status == 503);
    assert_eq!(gateway.ask("GET", "/readyz", &[], "").json()["reason"], "store_read_only");
    assert_eq!(gateway.get("/d/up/x").status, 200);
    gateway.limit_files(None);
    until("it is ready", || gateway.ask("GET", "/readyz", &[], "").status == 200);
}
