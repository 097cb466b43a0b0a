//! The caller chooses neither the host nor anything beside the base URL's path.

use test_case::test_case;

use crate::stub::Stub;
use crate::world::{gateway, gateway_at};

/// S011
#[test_case("http://ELSEWHERE/x"; "a host alone")]
#[test_case("http://ELSEWHERE/d/up/x"; "a host before our path")]
fn a_target_that_names_a_host_is_refused(target: &str) {
    let (stub, elsewhere) = (Stub::start(), Stub::start());
    let gateway = gateway(&stub, "");
    let answer = gateway.get(&target.replace("ELSEWHERE", &elsewhere.address.to_string()));
    assert_eq!((answer.status, answer.problem().as_str()), (400, "forward_proxy"));
    assert_eq!((stub.connections(), elsewhere.connections()), (0, 0));
}

#[test]
fn connect_is_refused() {
    let (stub, elsewhere) = (Stub::start(), Stub::start());
    let gateway = gateway(&stub, "");
    let mut client = gateway.connect();
    client.send(format!("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n", elsewhere.address));
    assert_eq!(client.answer().problem(), "forward_proxy");
    assert_eq!(elsewhere.connections(), 0);
}

#[test]
fn a_websocket_is_refused_in_words() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let answer = gateway.call("GET", "/d/up/x", &[("connection", "upgrade"), ("upgrade", "websocket")], b"");
    assert_eq!((answer.status, answer.problem().as_str()), (501, "upgrade_refused"));
}
/// S075
#[test_case("/../admin"; "dots")]
#[test_case("/%2e%2e%2fadmin"; "encoded dots")]
#[test_case("/%252e%252e%252fadmin"; "dots encoded twice")]
#[test_case("/..%5cadmin"; "a backslash")]
#[test_case("//evil/x"; "a doubled slash")]
#[test_case("/api/v1;/../admin"; "a parameter")]
#[test_case("/x/..;/..;/admin"; "parameters behind dots")]
fn a_path_that_could_leave_the_prefix_is_refused(rest: &str) {
    let stub = Stub::start();
    let gateway = gateway_at(&format!("{}/api/v1/", stub.url()), "");
    let answer = gateway.get(&format!("/d/up{rest}"));
    assert_eq!((answer.status, answer.problem().as_str()), (400, "path_outside"), "{}", answer.text());
    assert_eq!(stub.connections(), 0);
}
