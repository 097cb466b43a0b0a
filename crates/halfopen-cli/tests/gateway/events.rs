//! `/events`: the journal as a list and as a stream.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::{Value, json};

use crate::stub::{PATIENCE, Stub};
use crate::world::{Gateway, gateway};

/// One who listens to the stream.
struct Listener {
    stream: TcpStream,
    text: String,
}

impl Listener {
    fn open(gateway: &Gateway, target: &str, fields: &[(&str, &str)]) -> Self {
        let mut stream = TcpStream::connect(gateway.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head = format!("GET {target} HTTP/1.1\r\nhost: {}\r\n", gateway.address);
        for (name, value) in fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all((head + "\r\n").as_bytes()).unwrap();
        let mut listener = Self { stream, text: String::new() };
        listener.until(": listening");
        let text = listener.text.to_lowercase();
        assert!(text.starts_with("http/1.1 200") && text.contains("content-type: text/event-stream"), "{text}");
        listener
    }

    fn until(&mut self, wanted: &str) {
        let deadline = Instant::now() + PATIENCE;
        let mut bytes = [0; 4096];
        while !self.text.contains(wanted) {
            // What keeps a silent stream alive must not keep a failed test alive.
            assert!(Instant::now() < deadline, "never: {wanted} in {}", self.text);
            let n = self.stream.read(&mut bytes).unwrap();
            assert!(n > 0, "it ended before {wanted}: {}", self.text);
            self.text.push_str(&String::from_utf8_lossy(&bytes[..n]));
        }
    }

    /// The events so far, each with its position.
    fn events(&self) -> Vec<(i64, Value)> {
        let mut events = Vec::new();
        let mut id = 0;
        for line in self.text.lines() {
            if let Some(position) = line.strip_prefix("id: ") {
                id = position.parse().unwrap();
            } else if let Some(data) = line.strip_prefix("data: ") {
                events.push((id, serde_json::from_str(data).unwrap()));
            }
        }
        events
    }
}

#[test]
fn every_transition_of_the_list_has_the_six_fields() {
    let gateway = gateway(&Stub::start(), "");
    assert_eq!(gateway.ask("GET", "/events?format=json", &[], "").json(), json!([]));
    gateway.failures("up@region=eu", 5);
    gateway.failures("crm", 5);
    let list = gateway.ask("GET", "/events?format=json", &[], "").json();
    assert_eq!(list.as_array().unwrap().len(), 2);
    for event in list.as_array().unwrap() {
        for field in ["dependency", "from_state", "to_state", "reason", "queued_count", "probe_result"] {
            assert!(event.get(field).is_some(), "{field} in {event}");
        }
    }
    let printed: Value = serde_json::from_str(&gateway.halfopen(&["events", "--json"])).unwrap();
    let told = |list: &Value| (list[0]["event"].clone(), list[0]["circuit"].clone(), list[0]["generation"].clone());
    assert_eq!(told(&list), told(&printed));
    let of = |query: &str| gateway.ask("GET", &format!("/events?format=json{query}"), &[], "").json();
    assert_eq!(of("&dependency=crm").as_array().unwrap().len(), 1);
    assert_eq!(of("&limit=1")[0]["dependency"], "crm");
    assert_eq!(of("&since=1h").as_array().unwrap().len(), 2);
    assert_eq!(of("&since=2030-01-01T00:00:00Z"), json!([]));
    assert!(of("&all=true").as_array().unwrap().len() > 2);
    // Instants are shown on the wall clock as each reading finds it, so two readings may lie a millisecond apart.
    let by_accept = gateway.ask("GET", "/events", &[("accept", "application/json")], "").json();
    assert_eq!((by_accept.as_array().unwrap().len(), told(&by_accept)), (2, told(&list)));
}

#[test]
fn a_stream_tells_what_happens_and_goes_on_where_it_was() {
    let gateway = gateway(&Stub::start(), "");
    gateway.failures("old", 5);
    let mut first = Listener::open(&gateway, "/events", &[]);
    let mut of_crm = Listener::open(&gateway, "/events?dependency=crm", &[]);
    gateway.failures("up", 5);
    first.until("tripped");
    let events = first.events();
    assert_eq!((events.len(), &events[0].1["dependency"]), (1, &json!("up")), "{}", first.text);
    let position = events[0].0.to_string();
    drop(first);

    gateway.failures("crm", 5);
    of_crm.until("tripped");
    assert_eq!(of_crm.events()[0].1["dependency"], "crm");
    let mut again = Listener::open(&gateway, "/events", &[("last-event-id", &position)]);
    again.until("tripped");
    assert_eq!(again.events()[0].1["dependency"], "crm", "{}", again.text);
    let mut whole = Listener::open(&gateway, "/events?after=0", &[]);
    whole.until("\"crm\"");
    let names: Vec<Value> = whole.events().into_iter().map(|(_, event)| event["dependency"].clone()).collect();
    assert_eq!(names, [json!("old"), json!("up"), json!("crm")]);
}

/// A cooldown that is over is an event when it is over, though nobody calls.
#[test]
fn time_alone_is_told_too() {
    let gateway = gateway(&Stub::start(), "circuit: { open_after_failures: 1, open_for_sec: 0.5 }");
    let mut listener = Listener::open(&gateway, "/events", &[]);
    gateway.ask("POST", "/circuits/up/hold", &[], r#"{"state":"open","for_sec":0.2}"#);
    let mut all = Listener::open(&gateway, "/events?all=true&after=0", &[]);
    all.until("hold_ended");
    gateway.failures("up", 1);
    listener.until("half_opened");
}

#[test]
fn no_more_listen_than_may() {
    let gateway = gateway(&Stub::start(), "");
    let mut listeners: Vec<Listener> = (0..64).map(|_| Listener::open(&gateway, "/events", &[])).collect();
    let refused = gateway.ask("GET", "/events", &[], "");
    assert_eq!((refused.status, refused.problem().as_str()), (503, "too_many_calls"));
    listeners.pop();
    crate::world::until("a place is free", || {
        let metrics = gateway.ask("GET", "/metrics", &[], "").text();
        metrics.contains("halfopen_event_listeners 63")
    });
    Listener::open(&gateway, "/events", &[]);
}
