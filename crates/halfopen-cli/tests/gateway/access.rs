//! Who may ask what: listeners, tokens, hosts, origins.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

use test_case::test_case;

use crate::client::Client;
use crate::stub::{Reply, Stub};
use crate::world::{Gateway, Starting, gateway, policy};

const HOLD: &str = r#"{"state":"open"}"#;

fn starting(stub: &Stub, keys: &str) -> Starting {
    Starting::new(&policy(&stub.url(), keys))
}

fn is_held(gateway: &Gateway) -> bool {
    gateway.halfopen(&["status", "--json"]).contains(r#""hold": "open""#)
}

/// S012: without a token nobody listens where others would find the door open.
#[test]
fn no_listener_is_reached_by_others_without_a_token() {
    let stub = Stub::start();
    let (code, said) = starting(&stub, "").listen("0.0.0.0:0").fails();
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains("--admin-token-file") && said.contains("hint: halfopen token NAME"), "{said}");
    let (code, said) = starting(&stub, "").word("--admin-listen").word("0.0.0.0:0").fails();
    assert_eq!(code, Some(64), "{said}");
    let adding = "credentials: { main: { from_env: UP_KEY } }";
    let asking = starting(&stub, adding).variable("UP_KEY", "sk-1");
    asking.token("ops", "ops.tokens");
    let (code, said) = asking.listen("0.0.0.0:0").word("--admin-token-file").word("ops.tokens").fails();
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains("`up`") && said.contains("--caller-token-file"), "{said}");
}

/// S012: where others reach the operators' paths, each takes a token; only liveness is anonymous.
#[test]
fn every_operators_path_of_a_reachable_listener_takes_a_token() {
    let stub = Stub::start();
    let starting = starting(&stub, "");
    let token = starting.token("marie", "ops.tokens");
    let gateway = starting.listen("0.0.0.0:0").word("--admin-token-file").word("ops.tokens").start();
    let host = format!("127.0.0.1:{}", gateway.address.port());
    let at = std::net::SocketAddr::from(([127, 0, 0, 1], gateway.address.port()));
    let ask = |method: &str, target: &str, bearer: Option<&str>, body: &str| {
        let bearer = bearer.map(|token| format!("Bearer {token}"));
        let mut fields = vec![("host", host.as_str()), ("content-type", "application/json")];
        fields.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        Client::connect(at).call(method, target, &fields, body.as_bytes())
    };
    for target in ["/circuits", "/circuits/up", "/events?format=json", "/metrics", "/openapi.json"] {
        let answer = ask("GET", target, None, "");
        assert_eq!((answer.status, answer.problem().as_str()), (401, "token_required"), "{target}");
        assert!(answer.field("www-authenticate").unwrap().starts_with("Bearer"));
        assert_eq!(ask("GET", target, Some("hop_wrong"), "").status, 401, "{target}");
        assert_eq!(ask("GET", target, Some(&token), "").status, 200, "{target}");
    }
    for what in ["hold", "release", "reset"] {
        assert_eq!(ask("POST", &format!("/circuits/up/{what}"), None, HOLD).status, 401);
    }
    assert!(!is_held(&gateway));
    assert_eq!(ask("GET", "/healthz", None, "").status, 200);
    assert!(!ask("GET", "/healthz", None, "").text().contains("version"));
    assert_eq!(ask("GET", "/readyz", None, "").status, 200);
    let held = ask("POST", "/circuits/up/hold", Some(&token), HOLD);
    assert_eq!(held.status, 200, "{}", held.text());
    let events = gateway.halfopen(&["events", "--all", "--json"]);
    assert!(events.contains(r#""who": "marie""#), "{events}");
    // S036: the token is nowhere, neither in what was said nor in a file.
    assert!(!gateway.said().contains(&token));
    assert!(!gateway.files().iter().any(|(_, bytes)| String::from_utf8_lossy(bytes).contains(&token)));
}

/// On this machine looking is free, and steering takes the token if there is one.
#[test]
fn a_token_guards_changes_on_the_loopback_too() {
    let stub = Stub::start();
    let starting = starting(&stub, "");
    let token = starting.token("marie", "ops.tokens");
    let mut gateway = starting.word("--admin-token-file").word("ops.tokens").start();
    assert_eq!(gateway.ask("GET", "/circuits", &[], "").status, 200);
    assert_eq!(gateway.ask("POST", "/circuits/up/hold", &[], HOLD).status, 401);
    assert_eq!(gateway.ask("POST", "/circuits/up/hold", &[("halfopen-token", "nonsense")], HOLD).status, 401);
    assert!(!is_held(&gateway));
    assert_eq!(gateway.ask("POST", "/circuits/up/hold", &[("halfopen-token", &token)], HOLD).status, 200);
    // A token that was withdrawn opens nothing after a reload.
    std::fs::write(gateway.path("ops.tokens"), format!("other sha256:{}\n", "0".repeat(64))).unwrap();
    gateway.signal(rustix::process::Signal::HUP);
    crate::world::until("the token is withdrawn", || {
        gateway.ask("POST", "/circuits/up/release", &[("halfopen-token", &token)], "{}").status == 401
    });
    gateway.signal(rustix::process::Signal::TERM);
    gateway.ended();
}

/// S072: a page of another origin, and a name that was made to lead here, change nothing.
#[test_case(&[("origin", "https://evil.example"), ("content-type", "application/json")], 403; "a foreign origin")]
#[test_case(&[("origin", "null"), ("content-type", "application/json")], 403; "a sandboxed page")]
#[test_case(&[("sec-fetch-site", "cross-site"), ("content-type", "application/json")], 403; "a foreign fetch")]
#[test_case(&[("content-type", "text/plain")], 415; "a form in disguise")]
#[test_case(&[("content-type", "application/x-www-form-urlencoded")], 415; "a form")]
#[test_case(&[("host", "evil.example"), ("content-type", "application/json")], 421; "a foreign name")]
#[test_case(&[("host", "evil.example:4141"), ("content-type", "application/json")], 421; "a foreign name with a port")]
fn a_web_page_cannot_steer(fields: &[(&str, &str)], expected: u16) {
    let gateway = gateway(&Stub::start(), "");
    gateway.failures("up", 5);
    for what in ["hold", "release", "reset"] {
        let target = format!("/circuits/up/{what}");
        let answer = if fields.iter().any(|(name, _)| *name == "host") {
            gateway.call("POST", &target, fields, HOLD.as_bytes())
        } else {
            gateway.ask("POST", &target, fields, HOLD)
        };
        assert_eq!(answer.status, expected, "{}", answer.text());
    }
    assert!(!is_held(&gateway));
    assert_eq!(gateway.state("up"), "open");
}

/// S072: what a foreign name leads to is not shown either.
#[test]
fn a_foreign_name_is_answered_with_nothing() {
    let stub = Stub::start();
    let gateway = starting(&stub, "").word("--public-host").word("ops.example.com").start();
    for (host, expected) in [("evil.example", 421), ("ops.example.com", 200), ("localhost", 421)] {
        assert_eq!(gateway.call("GET", "/circuits", &[("host", host)], b"").status, expected, "{host}");
    }
    let host = format!("localhost:{}", gateway.address.port());
    assert_eq!(gateway.call("GET", "/circuits", &[("host", &host)], b"").status, 200);
    let foreign = [("host", host.as_str()), ("origin", "https://evil.example")];
    assert_eq!(gateway.call("GET", "/circuits", &foreign, b"").status, 403);
    let public =
        [("host", "ops.example.com"), ("origin", "https://ops.example.com"), ("sec-fetch-site", "same-origin")];
    assert_eq!(gateway.call("GET", "/circuits", &public, b"").status, 200);
}

#[test]
fn operators_can_have_a_listener_of_their_own() {
    let stub = Stub::start();
    let gateway = starting(&stub, "").word("--admin-listen").word("127.0.0.1:0").start();
    assert_eq!(gateway.ask("GET", "/circuits", &[], "").status, 404);
    assert_eq!(gateway.ask("GET", "/readyz", &[], "").status, 404);
    assert_eq!(gateway.ask("POST", "/circuits/up/hold", &[], HOLD).status, 404);
    assert_eq!(gateway.ask("GET", "/healthz", &[], "").status, 200);
    let at = gateway.operators();
    let host = at.to_string();
    let ask = |target: &str| Client::connect(at).call("GET", target, &[("host", &host)], b"");
    assert_eq!(ask("/circuits").status, 200);
    assert_eq!(ask("/readyz").status, 200);
    assert_eq!(ask("/d/up/x").status, 404);
    assert!(stub.seen().is_empty());
}

/// Callers show a token of their own, and it never reaches the dependency.
#[test]
fn callers_show_a_token_that_goes_no_further() {
    let stub = Stub::start();
    stub.always(Reply::ok("fine"));
    let starting = starting(&stub, "");
    let caller = starting.token("billing", "callers.tokens");
    let operator = starting.token("marie", "ops.tokens");
    let gateway = starting
        .word("--caller-token-file")
        .word("callers.tokens")
        .word("--admin-token-file")
        .word("ops.tokens")
        .start();
    let none = gateway.get("/d/up/x");
    assert_eq!((none.status, none.problem().as_str()), (401, "token_required"));
    assert_eq!(gateway.call("GET", "/d/up/x", &[("halfopen-token", &operator)], b"").status, 401);
    assert_eq!(gateway.call("GET", "/d/up/x", &[("authorization", &format!("Bearer {caller}"))], b"").status, 401);
    assert!(stub.seen().is_empty());
    let good = gateway.call("GET", "/d/up/x", &[("halfopen-token", &caller)], b"");
    assert_ne!(good.status, 401, "{}", good.text());
    for seen in stub.seen() {
        assert!(!seen.head.contains(&caller), "{}", seen.head);
    }
    // A caller's token opens no operators' path, and is not taken for none.
    assert_eq!(gateway.ask("GET", "/circuits", &[("halfopen-token", &caller)], "").status, 403);
}

/// What is kept of one caller's answers is shown to no other, though both are sent with the same credential.
#[test]
fn callers_share_no_kept_answer() {
    let stub = Stub::start();
    stub.always(Reply::ok("for billing"));
    let keys = "cache: { max_age_sec: 600 }\non_open: { action: [cache, fail_fast] }";
    let starting = starting(&stub, keys);
    let [one, other] = ["billing", "search"].map(|name| starting.token(name, "callers.tokens"));
    let gateway = starting.word("--caller-token-file").word("callers.tokens").start();
    let call = |token: &str, posing: &str| {
        let fields = [("halfopen-token", token), ("halfopen-caller", posing)];
        gateway.call("GET", "/d/up/x", &fields, b"")
    };
    assert_eq!(call(&one, "x").status, 200);
    gateway.ask("POST", "/circuits/up/hold", &[], HOLD);
    let mut kept = None;
    crate::world::until("the call is answered from what was kept", || {
        let answer = call(&one, "y");
        kept = answer.field("halfopen-outcome").map(str::to_owned);
        kept.as_deref() == Some("cached")
    });
    assert_eq!(call(&other, "billing").status, 503);
}

/// A unix socket is its owner's; the journal names the user.
#[test]
fn a_unix_socket_is_its_owners() {
    let stub = Stub::start();
    let starting = starting(&stub, "");
    let path = starting.path("h.sock");
    let mut gateway = starting.listen(&format!("unix:{}", path.display())).start();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let ask = |head: &str, body: &str| {
        let mut stream = UnixStream::connect(&path).unwrap();
        let length = body.len();
        write!(
            stream,
            "{head} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert!(ask("GET /healthz", "").starts_with("HTTP/1.1 200"));
    assert!(ask("POST /circuits/up/hold", HOLD).starts_with("HTTP/1.1 200"));
    let uid = rustix::process::getuid().as_raw();
    assert!(gateway.halfopen(&["events", "--all", "--json"]).contains(&format!(r#""who": "unix:uid {uid}""#)));
    gateway.signal(rustix::process::Signal::TERM);
    assert_eq!(gateway.ended().code(), Some(0));
    assert!(!path.exists());
}

/// A further connection is accepted when one ends, and not before.
#[test]
fn there_are_so_many_connections_and_no_more() {
    let stub = Stub::start();
    let gateway = starting(&stub, "").word("--max-connections").word("2").start();
    let host = gateway.address.to_string();
    let mut held: Vec<Client> = (0..2).map(|_| gateway.connect()).collect();
    for client in &mut held {
        assert_eq!(client.call("GET", "/healthz", &[("host", &host)], b"").status, 200);
    }
    let mut third = gateway.connect();
    third.send(format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\n\r\n"));
    third.stream.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    assert!(third.stream.peek(&mut [0]).is_err(), "it was answered");
    third.stream.set_read_timeout(Some(crate::stub::PATIENCE)).unwrap();
    held.pop();
    assert_eq!(third.answer().status, 200);
}
