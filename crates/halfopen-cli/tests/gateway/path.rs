//! The caller chooses neither the host nor anything beside the base URL's path.

use test_case::test_case;

use crate::stub::Stub;
use crate::world::gateway;

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
