//! Requests whose framing could be read in two ways are refused, and nothing of them reaches the dependency.

use test_case::test_case;

use crate::client::End;
use crate::stub::Stub;
use crate::world::gateway;

/// S074
#[test_case("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "length_and_coding"; "length and coding")]
#[test_case("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "length_and_coding"; "coding and length")]
#[test_case("Content-Length: 5\r\nContent-Length: 5\r\n", "two_lengths"; "two lengths")]
#[test_case("Content-Length: 5, 5\r\n", "bad_length"; "a list of lengths")]
#[test_case("Transfer-Encoding: gzip, chunked\r\n", "other_coding"; "another coding")]
#[test_case("Transfer-Encoding : chunked\r\n", "bad_name"; "a space before the colon")]
#[test_case("X-A: b\r\n c\r\n", "folded_line"; "a folded line")]
#[test_case("X-A: b\rc\r\n", "bad_line_end"; "a bare carriage return")]
#[test_case("X-A: b\0c\r\n", "control_byte"; "a NUL")]
#[test_case("Host: other\r\n", "two_hosts"; "a second host")]
fn an_ambiguous_request_is_refused_and_its_connection_closed(fields: &str, reason: &str) {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let mut client = gateway.connect();
    client.send(format!(
        "POST /d/up/x HTTP/1.1\r\nHost: g\r\n{fields}\r\nGET /d/up/smuggled HTTP/1.1\r\nHost: g\r\n\r\n"
    ));
    let answer = client.answer();
    assert_eq!((answer.status, answer.end), (400, End::Whole));
    assert_eq!(answer.field("content-type"), Some("application/problem+json"));
    assert_eq!(answer.problem(), "bad_framing");
    assert_eq!(answer.json()["reason"], reason);
    assert!(client.is_closed());
    assert_eq!(stub.seen().len(), 0);
}

/// S074
#[test]
fn a_request_behind_a_good_one_is_refused_after_the_good_one_is_answered() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let mut client = gateway.connect();
    client.send("GET /healthz HTTP/1.1\r\nHost: g\r\n\r\nPOST /d/up HTTP/1.1\r\nHost: g\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!(client.answer().status, 200);
    assert_eq!(client.answer().status, 400);
    assert!(client.is_closed());
}

#[test]
fn a_head_that_is_too_large_is_told_so() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let mut client = gateway.connect();
    client.send(format!("GET /d/up HTTP/1.1\r\nHost: g\r\nX-A: {}\r\n\r\n", "a".repeat(70_000)));
    let answer = client.answer();
    assert_eq!((answer.status, answer.problem().as_str()), (431, "head_too_large"));
    assert!(client.is_closed());
}

#[test]
fn what_is_no_request_is_told_so() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let mut client = gateway.connect();
    client.send("\x16\x03\x01\x02\0\x01\0\x01\r\n");
    assert_eq!(client.answer().status, 400);
    assert!(client.is_closed());
}

#[test_case(b"GET /d/up/\xff\xfe HTTP/1.1"; "bytes that are no text")]
#[test_case(b"GET /d/up/<x> HTTP/1.1"; "characters that no target has")]
#[test_case(b"GET d/up HTTP/1.1"; "no slash")]
#[test_case(b"GET ? HTTP/1.1"; "only a query")]
#[test_case(b"GET http:// HTTP/1.1"; "a scheme alone")]
#[test_case(b"OPTIONS * HTTP/1.1"; "the server as a whole")]
fn a_target_that_is_none_is_told_so_in_a_problem_document(line: &[u8]) {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let mut client = gateway.connect();
    client.send(line).send("\r\nHost: g\r\n\r\n");
    let answer = client.answer();
    assert!((400..500).contains(&answer.status), "{}", answer.head);
    answer.problem();
    assert_eq!(stub.connections(), 0);
}

/// The refusal is read although the caller is still sending.
#[test]
fn a_refusal_is_not_lost_to_a_reset() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let mut client = gateway.connect();
    let mut sent = b"POST /d/up HTTP/1.1\r\nHost: g\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".to_vec();
    sent.resize(sent.len() + (1 << 20), b'x');
    client.send(sent);
    assert_eq!(client.answer().status, 400);
}
