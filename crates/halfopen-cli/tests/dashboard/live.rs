//! What keeps an open page current, as it is sent.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::stub::{PATIENCE, Stub};
use crate::world::{Gateway, gateway};

/// How many pages are kept current at once.
const WATCHERS_MAX: usize = 64;

/// A page that is watched.
struct Watcher {
    stream: TcpStream,
    text: String,
    read_to: usize,
}

/// What was sent: its id, and the parts that changed.
type Sent = (String, Value);

impl Watcher {
    fn open(gateway: &Gateway, view: &str, last: Option<&str>) -> Self {
        let mut stream = TcpStream::connect(gateway.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head = format!("GET /ui/live?lang=en&view={view} HTTP/1.1\r\nhost: {}\r\n", gateway.address);
        if let Some(last) = last {
            head.push_str(&format!("last-event-id: {last}\r\n"));
        }
        stream.write_all((head + "\r\n").as_bytes()).unwrap();
        let mut watcher = Self { stream, text: String::new(), read_to: 0 };
        watcher.until("\r\n\r\n");
        watcher
    }

    fn until(&mut self, wanted: &str) {
        let deadline = Instant::now() + PATIENCE;
        let mut bytes = [0; 65_536];
        while !self.text[self.read_to..].contains(wanted) {
            assert!(Instant::now() < deadline, "never: {wanted} in {}", self.text);
            let n = self.stream.read(&mut bytes).unwrap();
            assert!(n > 0, "it ended before {wanted}: {}", self.text);
            self.text.push_str(&String::from_utf8_lossy(&bytes[..n]));
        }
        self.read_to += self.text[self.read_to..].find(wanted).unwrap() + wanted.len();
    }

    /// Returns the next event. The stream is chunked; chunks begin where events do.
    fn next(&mut self) -> Sent {
        self.until("id: ");
        let from = self.read_to;
        self.until("\n");
        let id = self.text[from..self.read_to].trim().to_owned();
        self.until("data: ");
        let from = self.read_to;
        self.until("\n\n");
        let data = self.text[from..self.read_to].trim();
        (id, serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}")))
    }

    /// Returns the first event from here on that says something.
    fn says(&mut self, part: &str, wanted: &str) -> Sent {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let sent = self.next();
            if sent.1[part].as_str().is_some_and(|html| html.contains(wanted)) {
                return sent;
            }
            assert!(Instant::now() < deadline, "never: {wanted} in {part}");
        }
    }
}

fn parts(sent: &Sent) -> Vec<&str> {
    sent.1.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_watcher_gets_everything_once_and_then_what_changes() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "circuit: { open_after_failures: 1, open_for_sec: 600 }");
    let mut watcher = Watcher::open(&gateway, "/", None);
    assert!(watcher.text.to_lowercase().contains("content-type: text/event-stream"), "{}", watcher.text);
    let first = watcher.next();
    assert_eq!(parts(&first), ["circuits", "figures", "people", "said", "tiles", "unknown"]);
    let mut other = Watcher::open(&gateway, "/ui/policy", None);
    assert_eq!(parts(&other.next()), ["policy", "rules", "said"]);
    gateway.failures("up", 1);
    let opened = watcher.says("circuits", "badge open");
    assert_eq!(opened.1["said"], "up: opened: failures: 1, the last: server error");
    assert!(opened.1.get("figures").is_none(), "what did not change is not sent: {:?}", parts(&opened));

    // Whoever comes back goes on where it was; whoever comes from elsewhere begins anew.
    let mut back = Watcher::open(&gateway, "/", Some(&opened.0));
    gateway.halfopen(&["hold", "up", "closed", "--policy", "policy.yaml", "--reason", "x"]);
    let after = back.says("circuits", "held closed");
    assert!(after.1.get("unknown").is_none(), "{:?}", parts(&after));
    let mut stranger = Watcher::open(&gateway, "/", Some("1-2-3"));
    assert!(parts(&stranger.next()).contains(&"unknown"));
}

#[test]
fn changes_are_told_together_and_no_more_than_twice_a_second() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "circuit: { open_after_failures: 1000, open_for_sec: 600 }");
    let mut watcher = Watcher::open(&gateway, "/", None);
    watcher.next();
    let begun = Instant::now();
    gateway.failures("up", 60);
    let mut events = 0_u32;
    loop {
        let sent = watcher.next();
        events += 1;
        if sent.1["circuits"].as_str().is_some_and(|html| html.contains("60 of 1000")) {
            break;
        }
    }
    let told_at_most = u32::try_from(begun.elapsed().as_millis() / 500 + 1).unwrap();
    assert!(events <= told_at_most, "{events} events within {:?}", begun.elapsed());
    assert!(events < 60, "what changed together is told together");
}

#[test]
fn no_more_are_kept_current_than_may_and_what_is_no_page_is_not_watched() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let mut watchers: Vec<Watcher> = (0..WATCHERS_MAX).map(|_| Watcher::open(&gateway, "/ui/jobs", None)).collect();
    assert_eq!(gateway.ask("GET", "/ui/live?view=/ui/jobs", &[], "").status, 503);
    watchers.pop();
    crate::world::until("a seat is free", || {
        let mut stream = TcpStream::connect(gateway.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let head = format!("GET /ui/live?view=/ui/jobs HTTP/1.1\r\nhost: {}\r\n\r\n", gateway.address);
        stream.write_all(head.as_bytes()).unwrap();
        let mut bytes = [0; 12];
        stream.read_exact(&mut bytes).is_ok() && bytes.ends_with(b"200")
    });
    for view in ["/ui/circuits/up/hold", "/d/up/x", "/ui/sign-in", "/ui/nothing"] {
        assert_eq!(gateway.ask("GET", &format!("/ui/live?view={view}"), &[], "").status, 400, "{view}");
    }
}
