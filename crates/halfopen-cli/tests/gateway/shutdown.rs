//! The gateway ends: no longer ready, no longer accepting, gone.

use rustix::process::Signal;

use crate::stub::Stub;
use crate::world::{Starting, policy, until};

fn starting(stub: &Stub) -> Starting {
    Starting::new(&policy(&stub.url(), ""))
}

/// S137: it says no to readiness while it still accepts, and ends with 0 when nothing is left.
#[test]
fn it_is_unready_before_it_stops_accepting() {
    let stub = Stub::start();
    let mut gateway = starting(&stub).word("--shutdown-pause").word("2s").start();
    assert_eq!(gateway.ask("GET", "/readyz", &[], "").status, 200);
    gateway.signal(Signal::TERM);
    until("it is not ready", || {
        let answer = gateway.ask("GET", "/readyz", &[], "");
        answer.status == 503 && answer.problem() == "shutting_down"
    });
    assert_eq!(gateway.ask("GET", "/healthz", &[], "").status, 200);
    assert_eq!(gateway.ended().code(), Some(0), "{}", gateway.said());
}

/// S137: whoever listens to events does not hold up the end.
#[test]
fn listeners_are_let_go_at_once() {
    let stub = Stub::start();
    let mut gateway = starting(&stub).word("--shutdown-pause").word("0s").word("--shutdown-grace").word("600s").start();
    let mut client = gateway.connect();
    client.send(format!("GET /events HTTP/1.1\r\nhost: {}\r\n\r\n", gateway.address));
    assert!(client.head().unwrap().starts_with("HTTP/1.1 200"));
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.ended().code(), Some(0), "{}", gateway.said());
}

/// S137: a second signal ends at once, and the code says that something was broken off.
#[test]
fn a_second_signal_ends_at_once() {
    let stub = Stub::start();
    let mut gateway =
        starting(&stub).word("--shutdown-grace").word("600s").word("--shutdown-pause").word("300s").start();
    gateway.signal(Signal::TERM);
    until("it is not ready", || gateway.ask("GET", "/readyz", &[], "").status == 503);
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.ended().code(), Some(70), "{}", gateway.said());
    assert!(gateway.said().contains("told again"), "{}", gateway.said());
}
