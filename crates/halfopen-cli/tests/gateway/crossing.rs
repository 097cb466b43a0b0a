//! What crosses the gateway in each direction, byte for byte, and what stays behind.

use test_case::test_case;

use crate::client::{End, request};
use crate::stub::{Reply, Stub};
use crate::world::{gateway, gateway_at};

/// `{"answer":42}`, compressed.
const GZIP: &[u8] = &[
    31, 139, 8, 0, 0, 0, 0, 0, 2, 255, 171, 86, 74, 204, 43, 46, 79, 45, 82, 178, 50, 49, 170, 5, 0, 245, 101, 217,
    204, 13, 0, 0, 0,
];

/// S074
#[test]
fn fields_that_speak_of_one_connection_do_not_cross() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let answered = [("connection", "X-Foo, keep-alive"), ("x-foo", "1"), ("keep-alive", "timeout=9"), ("x-bar", "2")];
    stub.then([Reply::full(200, &answered, b"{}")]);
    let sent = [
        ("connection", "X-Auth-Internal, keep-alive"),
        ("x-auth-internal", "1"),
        ("te", "trailers, gzip"),
        ("proxy-authorization", "Basic c2VjcmV0"),
        ("upgrade", "h2c"),
        ("http2-settings", "AAMAAABkAARAAAAAAAIAAAAA"),
        ("x-forwarded-host", "evil.example"),
        ("halfopen-region", "eu"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("x-request-id", "r-1"),
    ];
    let answer = gateway.call("GET", "/d/up/x", &sent, b"");
    assert_eq!(answer.status, 200);
    let seen = &stub.seen()[0];
    for gone in [
        "connection",
        "x-auth-internal",
        "proxy-authorization",
        "upgrade",
        "http2-settings",
        "x-forwarded-host",
        "halfopen-region",
    ] {
        assert_eq!(seen.all(gone), Vec::<&str>::new(), "{gone}: {}", seen.head);
    }
    assert_eq!(seen.field("te"), Some("trailers"));
    assert_eq!(seen.field("host"), Some(stub.address.to_string().as_str()));
    assert_eq!(seen.field("via"), Some("1.1 halfopen"));
    assert_eq!(seen.field("x-request-id"), Some("r-1"));
    assert!(seen.field("traceparent").is_some());
    for gone in ["x-foo", "keep-alive"] {
        assert_eq!(answer.all(gone), Vec::<&str>::new(), "{gone}: {}", answer.head);
    }
    assert_eq!(answer.field("x-bar"), Some("2"));
}

#[test]
fn every_answer_says_how_it_came_about() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    stub.then([Reply::full(200, &[("halfopen-outcome", "refused"), ("halfopen-circuit", "theirs")], b"{}")]);
    let answer = gateway.get("/d/up/x");
    assert_eq!(answer.all("halfopen-attempts"), ["1"]);
    assert_eq!(answer.all("halfopen-circuit"), ["up"]);
    assert_eq!(answer.all("halfopen-outcome").len(), 1);
    assert_eq!(gateway.get("/d/up/x").all("halfopen-outcome"), ["success"]);
}

#[test_case("GET", 200)]
#[test_case("DELETE", 404)]
#[test_case("POST", 422)]
#[test_case("PUT", 201)]
#[test_case("M-SEARCH", 200; "an unusual method")]
fn a_call_and_its_answer_pass_unchanged(method: &str, status: u16) {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    stub.then([Reply::full(
        status,
        &[("content-type", "text/x-odd"), ("set-cookie", "a=1"), ("set-cookie", "b=2")],
        b"\0\xff\r\n",
    )]);
    let answer = gateway.call(method, "/d/up/a%2Fb/c?q=%20&q=+", &[("x-odd", "\u{e9}")], b"\0\x01\xfe");
    let seen = &stub.seen()[0];
    assert_eq!((seen.method.as_str(), seen.target.as_str()), (method, "/a%2Fb/c?q=%20&q=+"));
    assert_eq!(seen.body, b"\0\x01\xfe");
    assert_eq!((answer.status, answer.body.as_slice(), answer.end), (status, &b"\0\xff\r\n"[..], End::Whole));
    assert_eq!(answer.field("content-length"), Some("4"));
    assert_eq!(answer.all("set-cookie"), ["a=1", "b=2"]);
    assert_eq!(answer.field("x-should-retry"), None);
}

/// S152
#[test]
fn a_compressed_answer_stays_as_it_is() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let fields = [("content-encoding", "gzip"), ("content-type", "application/json"), ("vary", "accept-encoding")];
    stub.always(Reply::full(200, &fields, GZIP));
    let answer = gateway.call("GET", "/d/up/x", &[("accept-encoding", "gzip")], b"");
    assert_eq!(answer.field("content-encoding"), Some("gzip"));
    assert_eq!(answer.field("content-length"), Some(GZIP.len().to_string().as_str()));
    assert_eq!(answer.body, GZIP);
    assert_eq!(stub.seen()[0].field("accept-encoding"), Some("gzip"));
}

/// S152
#[test]
fn nothing_is_asked_to_be_compressed_that_the_caller_did_not_ask() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    gateway.get("/d/up/x");
    assert_eq!(stub.seen()[0].field("accept-encoding"), None);
}

#[test]
fn an_answer_to_head_keeps_its_length_and_has_no_body() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    stub.then([Reply::new().head(200, &[("content-length", "12345"), ("etag", "\"x\"")])]);
    let mut client = gateway.connect();
    let answer = client.call("HEAD", "/d/up/x", &[], b"");
    assert_eq!((answer.status, answer.field("content-length")), (200, Some("12345")));
    assert_eq!(client.call("GET", "/d/up/x", &[], b"").text(), "{}");
}

#[test_case(204)]
#[test_case(304)]
fn an_answer_without_a_body_has_none(status: u16) {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    stub.then([Reply::new().head(status, &[("etag", "\"x\"")])]);
    let mut client = gateway.connect();
    let answer = client.call("GET", "/d/up/x", &[], b"");
    assert_eq!((answer.status, answer.field("transfer-encoding")), (status, None));
    assert_eq!(client.call("GET", "/d/up/x", &[], b"").text(), "{}");
}

#[test]
fn trailers_cross_in_both_directions() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let answered =
        Reply::chunked(200, &[("trailer", "x-sum")]).chunk(b"{}").send(b"0\r\nx-sum: 7\r\ncontent-length: 9\r\n\r\n");
    stub.then([answered]);
    let mut client = gateway.connect();
    client.send("POST /d/up/x HTTP/1.1\r\nhost: g\r\nte: trailers\r\ntransfer-encoding: chunked\r\ntrailer: x-in\r\n\r\n2\r\nhi\r\n0\r\nx-in: 5\r\n\r\n");
    let answer = client.answer();
    assert_eq!((answer.text().as_str(), answer.end), ("{}", End::Whole));
    assert_eq!(answer.field("x-sum"), Some("7"), "{}", answer.head);
    assert_eq!(answer.field("content-length"), None);
    assert_eq!(stub.seen()[0].body, b"hi");
    assert_eq!(stub.seen()[0].trailer, ["x-in: 5"]);
}

#[test]
fn interim_answers_do_not_confuse() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    stub.then([Reply::new()
        .send(b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
        .and_full(200, &[], b"done")]);
    let answer = gateway.get("/d/up/x");
    assert_eq!((answer.status, answer.text().as_str()), (200, "done"));
}

/// S011
#[test]
fn a_redirect_is_passed_on_and_not_followed() {
    let (stub, elsewhere) = (Stub::start(), Stub::start());
    let gateway = gateway(&stub, "");
    let location = format!("{}/x", elsewhere.url());
    stub.then([Reply::full(302, &[("location", &location)], b"")]);
    let answer = gateway.call("GET", "/d/up/x", &[("authorization", "Bearer s3cret")], b"");
    assert_eq!((answer.status, answer.field("location")), (302, Some(location.as_str())));
    assert_eq!(elsewhere.connections(), 0);
}

/// The caller resolves such a location against the gateway, where nothing lies at that path.
#[test]
fn a_location_that_names_a_path_is_put_behind_the_gateway() {
    let stub = Stub::start();
    let gateway = gateway_at(&format!("{}/api/v1", stub.url()), "");
    for (location, expected) in [
        ("/api/v1/batches/7?x=1", "/d/up/batches/7?x=1"),
        ("/login", "/login"),
        ("https://elsewhere.example/api/v1/x", "https://elsewhere.example/api/v1/x"),
    ] {
        stub.then([Reply::full(201, &[("location", location)], b"{}")]);
        assert_eq!(gateway.post("/d/up/batches", "{}").field("location"), Some(expected));
    }
}

#[test]
fn callers_share_nothing_on_a_kept_connection() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let mut client = gateway.connect();
    for n in 0..20 {
        let body = format!("{{\"n\":{n}}}");
        stub.then([Reply::ok(&body)]);
        assert_eq!(client.call("POST", "/d/up/x", &[], body.as_bytes()).text(), body);
    }
    let bodies: Vec<_> = stub.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!(bodies.len(), 20);
    assert_eq!(bodies[7], b"{\"n\":7}");
    assert_eq!(stub.connections(), 1);
}

#[test]
fn pipelined_calls_are_answered_in_their_order() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    stub.then([Reply::ok("1"), Reply::ok("2"), Reply::ok("3")]);
    let mut client = gateway.connect();
    let calls: Vec<u8> = (1..=3).flat_map(|n| request("POST", &format!("/d/up/{n}"), &[], b"xyz")).collect();
    client.send(calls);
    let answers: Vec<String> = (0..3).map(|_| client.answer().text()).collect();
    assert_eq!(answers, ["1", "2", "3"]);
}

#[test]
fn http_1_0_callers_are_served() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    stub.then([Reply::chunked(200, &[]).chunk(b"hello").end()]);
    let mut client = gateway.connect();
    client.send("GET /d/up/x HTTP/1.0\r\n\r\n");
    let answer = client.answer();
    assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    assert_eq!(answer.field("transfer-encoding"), None, "a caller of 1996 knows no chunks");
}
