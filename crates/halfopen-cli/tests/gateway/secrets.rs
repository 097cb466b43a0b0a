//! Credentials reach the dependency and nobody else.

use std::os::unix::fs::PermissionsExt as _;

use crate::stub::{Reply, Stub};
use crate::world::{Starting, policy, until};

const OWN: &str = "sk-own-0123456789abcdef0123456789";
const CALLERS: &str = "sk-callers-fedcba9876543210fedcba98";

const KEYS: &str = "\
credentials: { main: { from_env: UP_TOKEN, header: Authorization, scheme: Bearer } }
circuit: { open_after_failures: 2, open_for_sec: 60 }";

/// S036, S037
#[test]
fn credentials_are_found_nowhere_but_at_the_dependency() {
    let stub = Stub::start();
    let gateway = Starting::new(&policy(&stub.url(), KEYS))
        .variable("UP_TOKEN", OWN)
        .variable("HALFOPEN_LOG_LEVEL", "trace")
        .start();
    assert_eq!(gateway.get("/d/up/x").status, 200);
    assert_eq!(stub.seen()[0].all("authorization"), [format!("Bearer {OWN}")]);
    // The dependency repeats what it was told, as some do.
    let echo = format!("{{\"error\":\"bad key {OWN} / {CALLERS}\"}}");
    stub.always(Reply::full(500, &[("x-echo", OWN), ("content-type", "application/json")], echo.as_bytes()));
    let sent = [("x-api-key", CALLERS), ("cookie", "session=sk-cookie-aaaabbbbccccddddeeee")];
    for _ in 0..2 {
        let target = "/d/up/x?api_key=sk-query-111122223333444455556666";
        assert_eq!(gateway.call("POST", target, &sent, b"{}").status, 500);
    }
    gateway.becomes("up", "open");
    let mut said = gateway.call("POST", "/d/up/x?api_key=sk-query-111122223333444455556666", &sent, b"{}").text();
    for path in ["/circuits", "/metrics", "/events?format=json", "/readyz"] {
        said.push_str(&gateway.get(path).text());
    }
    for words in [["status", "--json"], ["events", "--json"], ["why", "up"]] {
        said.push_str(&gateway.halfopen(&words));
    }
    assert!(gateway.said().contains("evidence="), "the log is at its most verbose: {}", gateway.said());
    said.push_str(&gateway.said());
    let files = gateway.files();
    assert!(files.iter().any(|(path, _)| path.ends_with("halfopen.db")));
    for secret in [OWN, CALLERS, "sk-cookie-aaaabbbbccccddddeeee", "sk-query-111122223333444455556666"] {
        assert!(!said.contains(secret), "{secret} in {said}");
        for (path, bytes) in &files {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{secret} in {}", path.display());
        }
    }
    for (path, _) in files.iter().filter(|(path, _)| path.to_string_lossy().contains("halfopen.db")) {
        let mode = std::fs::metadata(path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
}

/// S036
#[test]
fn a_caller_that_brings_a_credential_keeps_it() {
    let stub = Stub::start();
    let gateway = Starting::new(&policy(&stub.url(), "")).start();
    gateway.call("GET", "/d/up/x", &[("authorization", &format!("Bearer {CALLERS}"))], b"");
    assert_eq!(stub.seen()[0].all("authorization"), [format!("Bearer {CALLERS}")]);
}

/// S011
#[test]
fn our_credential_never_goes_to_another_host() {
    let (stub, elsewhere) = (Stub::start(), Stub::start());
    let gateway = Starting::new(&policy(&format!("{}/api/v1", stub.url()), KEYS)).variable("UP_TOKEN", OWN).start();
    let host = elsewhere.address.to_string();
    let location = format!("http://{host}/x");
    stub.always(Reply::full(302, &[("location", &location)], b""));
    let fields = [
        ("host", host.as_str()),
        ("x-forwarded-host", &host),
        ("x-original-url", "/admin"),
        ("forwarded", "host=evil"),
    ];
    let body = format!("{{\"base_url\":\"http://{host}\"}}");
    for target in [
        format!("http://{host}/d/up/x"),
        format!("/d/up/@{host}/x"),
        format!("/d/up@{host}/x"),
        format!("/d/up//{host}/x"),
        format!("/d/up/x?base_url=http://{host}"),
        format!("/d/up/%2f%2f{host}/x"),
        format!("/d/up/http://{host}/x"),
        format!("/d/http://{host}/x"),
    ] {
        let answer = gateway.call("POST", &target, &fields, body.as_bytes());
        assert!(matches!(answer.status, 302 | 400 | 404 | 421), "{target}: {}", answer.head);
    }
    assert_eq!(elsewhere.connections(), 0);
    until("something arrived", || !stub.seen().is_empty());
    for seen in stub.seen() {
        assert!(seen.target.starts_with("/api/v1/"), "{}", seen.target);
        assert_eq!(seen.field("host"), Some(stub.address.to_string().as_str()));
        assert_eq!(seen.field("x-original-url"), None);
    }
}

/// S074
#[test]
fn a_caller_cannot_name_our_credential_away() {
    let stub = Stub::start();
    let gateway = Starting::new(&policy(&stub.url(), KEYS)).variable("UP_TOKEN", OWN).start();
    let fields = [("connection", "authorization, host, via"), ("authorization", "Bearer theirs")];
    assert_eq!(gateway.call("GET", "/d/up/x", &fields, b"").status, 200);
    let seen = &stub.seen()[0];
    assert_eq!(seen.all("authorization"), [format!("Bearer {OWN}")]);
    assert_eq!(seen.field("host"), Some(stub.address.to_string().as_str()));
    assert_eq!(seen.field("via"), Some("1.1 halfopen"));
}
