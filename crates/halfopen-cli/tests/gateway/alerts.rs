//! Alerts, told by a gateway that stays: to real receivers, that hang, refuse, and are killed in between.

use halfopen::activation;
use halfopen::store::Location;
use halfopen_core::policy::{Policy, Surface};
use halfopen_core::snapshot::{DeliveryState, PostRecord};
use rustix::process::Signal;

use crate::metrics::value;
use crate::receiver::{Does, Receiver, mail_server};
use crate::stub::{Reply, Stub};
use crate::tls::behind_tls;
use crate::world::{Gateway, Starting, policy, until};

const KEYS: &str = "owner: oncall
circuit: { open_after_failures: 2, open_for_sec: 600, half_open_max_calls: 1, close_after_successes: 1 }";

/// A gateway in front of `stub` whose owner is reached by `channels`, with `other` beside `up`.
fn told(stub: &Stub, keys: &str, channels: &str) -> Starting {
    let other = format!("  - name: other\n    upstream: {}\n    on_open: {{ action: fail_fast }}\n", stub.url());
    Starting::new(&format!("{}{other}alerts:\n  oncall:\n{channels}", policy(&stub.url(), keys)))
}

fn webhook(receiver: &Receiver) -> String {
    format!("  - webhook: {}\n", receiver.url())
}

fn posts(gateway: &Gateway) -> Vec<PostRecord> {
    gateway.store().alerts(2000).unwrap()
}

fn states(gateway: &Gateway) -> Vec<DeliveryState> {
    posts(gateway).iter().flat_map(|post| post.deliveries.iter().map(|delivery| delivery.state)).collect()
}

fn scrape(gateway: &Gateway) -> String {
    gateway.ask("GET", "/metrics", &[], "").text()
}

/// S183: two gateways and other processes share a store; the outage and its end are told once, as one thread.
#[test]
fn an_outage_and_its_end_are_told_once_by_gateways_that_share_a_store() {
    let (stub, receiver) = (Stub::start(), Receiver::new());
    stub.always(Reply::ok("well"));
    let first = told(&stub, KEYS, &webhook(&receiver)).start();
    let second = Starting::beside(&first).start();
    first.failures("up", 2);
    until("it is told", || !receiver.seen().is_empty());
    assert_eq!(second.get("/d/up/x").status, 503);
    second.halfopen(&["release", "up", "--probe-now"]);
    until("the probe closes it", || second.get("/d/up/x").status == 200);
    until("its end is told", || receiver.kinds().len() > 1);
    until("nothing is due any more", || states(&first) == [DeliveryState::Delivered; 2]);
    assert_eq!(receiver.kinds(), ["circuit.opened", "circuit.recovered"]);
    let threads: Vec<_> = receiver.seen().iter().map(|received| received.json()["thread"].clone()).collect();
    assert_eq!(threads[0], threads[1]);
    assert_eq!(receiver.seen()[0].json()["data"]["owner"], "oncall");
}

/// S184: a receiver that hangs keeps no call waiting, and what it did not take is told by the next gateway, under its name.
#[test]
fn a_receiver_that_hangs_blocks_no_call_and_its_alert_survives_a_kill() {
    let (stub, receiver) = (Stub::start(), Receiver::new());
    stub.always(Reply::ok("well"));
    receiver.always(Does::Hangs);
    let mut gateway = told(&stub, KEYS, &webhook(&receiver)).start();
    gateway.failures("up", 2);
    until("the receiver hangs", || receiver.seen().len() == 1);
    assert_eq!(gateway.get("/d/other/x").status, 200);
    assert_eq!(gateway.get("/healthz").status, 200);
    assert_eq!(states(&gateway), [DeliveryState::Due], "it still hangs");
    until("the gateway gives up waiting", || posts(&gateway)[0].deliveries[0].attempts == 1);
    gateway.signal(Signal::KILL);
    gateway.ended();
    receiver.always(Does::Answers(204, ""));
    let next = Starting::beside(&gateway).start();
    until("the next one gets through", || states(&next) == [DeliveryState::Delivered]);
    let names: std::collections::BTreeSet<_> = receiver.seen().iter().map(|seen| seen.field("webhook-id")).collect();
    assert_eq!(names.len(), 1, "one name");
    assert!(receiver.kinds().iter().all(|kind| kind == "circuit.opened"), "{:?}", receiver.kinds());
    assert_eq!(posts(&next).len(), 1);
}

/// S184, S185: what fails is counted by channel and why; what is refused for good is given up and said.
#[test]
fn failures_of_channels_are_counted_and_said() {
    let (stub, broken, gone) = (Stub::start(), Receiver::new(), Receiver::new());
    broken.next(&[Does::Resets, Does::Answers(429, "retry-after: 1\r\n")]);
    gone.always(Does::Answers(404, ""));
    let gateway = told(&stub, KEYS, &format!("{}{}", webhook(&broken), webhook(&gone))).start();
    let of = |text: &str, name: &str, rest: &str| {
        value(text, &format!(r#"halfopen_{name}{{dependency="halfopen-alerts",{rest}}}"#))
    };
    let failed = |text: &str, channel: &str, reason: &str| {
        of(text, "alert_delivery_failures_total", &format!(r#"channel="oncall/{channel}",reason="{reason}""#))
    };
    let before = scrape(&gateway);
    assert_eq!(failed(&before, "webhook-1", "broken"), 0.0);
    gateway.failures("up", 2);
    until("the first channel takes it in the end", || {
        of(&scrape(&gateway), "alert_deliveries_total", r#"channel="oncall/webhook-1""#) >= 1.0
    });
    let text = scrape(&gateway);
    assert_eq!((failed(&text, "webhook-1", "unreachable"), failed(&text, "webhook-1", "rate_limited")), (1.0, 1.0));
    assert!(failed(&text, "webhook-2", "refused") >= 1.0, "{text}");
    assert!(!text.contains("s3cr3t-path"));
    until("it is in the journal", || of(&scrape(&gateway), "journal_events_total", r#"event="alert_given_up""#) >= 1.0);
    until("it is in the log", || gateway.said().contains("warn alert_given_up"));
    assert!(gateway.said().contains("answered 404") && !gateway.said().contains("s3cr3t-path"), "{}", gateway.said());
    assert!(gateway.halfopen(&["status"]).contains("alert delivery is failing"));
}

/// S185: a receiver behind TLS is told if it proves its name, and told nothing if it does not.
#[test]
fn a_receiver_that_does_not_prove_its_name_is_told_nothing() {
    let (stub, receiver) = (Stub::start(), Stub::start());
    receiver.always(Reply::ok(""));
    let behind = behind_tls(&receiver, "localhost");
    let channels = format!(
        "  - webhook: https://localhost:{port}/good\n  - webhook: https://127.0.0.1:{port}/bad\n",
        port = behind.address.port()
    );
    let starting = told(&stub, KEYS, &channels);
    let roots = starting.write("roots.pem", &behind.certificate);
    let gateway = starting.variable("SSL_CERT_FILE", &roots).start();
    gateway.failures("up", 2);
    let failed = |text: &str| {
        value(
            text,
            r#"halfopen_alert_delivery_failures_total{dependency="halfopen-alerts",channel="oncall/webhook-2",reason="unreachable"}"#,
        )
    };
    until("one is told and the other failed", || {
        states(&gateway).contains(&DeliveryState::Delivered) && failed(&scrape(&gateway)) >= 1.0
    });
    let seen = receiver.seen();
    assert!(!seen.is_empty() && seen.iter().all(|seen| seen.target == "/good"), "{seen:?}");
}

/// Mail and commands are told by a gateway as webhooks are.
#[test]
fn mail_servers_and_commands_are_told_by_a_gateway() {
    let stub = Stub::start();
    let (port, mails) = mail_server();
    let channels = "  - email: {to: [ops@example.com], from: halfopen@example.com}\n  - command: [/bin/sh, -c, 'cat > alert.json']\n";
    let gateway = told(&stub, KEYS, channels)
        .variable("HALFOPEN_SMTP_URL", &format!("smtp://127.0.0.1:{port}"))
        .variable("PATH", "/usr/bin:/bin")
        .start();
    gateway.failures("up", 2);
    until("both are told", || states(&gateway) == [DeliveryState::Delivered; 2]);
    assert!(mails.lock().unwrap().contains("Subject: [halfopen] up is open"));
    let event: serde_json::Value = serde_json::from_slice(&std::fs::read(gateway.path("alert.json")).unwrap()).unwrap();
    assert_eq!(event["type"], "dev.halfopen.circuit.opened");
}

fn store_of(gateway: &Gateway) -> Location {
    Location::Sqlite(gateway.path(".local/state/halfopen/halfopen.db"))
}

/// No call for longer than the policy expects is told, once.
#[test]
fn silence_is_told_by_a_gateway() {
    let (stub, receiver) = (Stub::start(), Receiver::new());
    let keys = format!("{KEYS}\nexpect_calls_every: 1s");
    let first = told(&stub, &keys, &webhook(&receiver)).start();
    // The figures are looked at when a gateway begins, and then each minute.
    until("the store is older than the silence", || {
        let now = jiff::Timestamp::now().as_millisecond();
        activation::born_ms(&store_of(&first)).is_some_and(|born| born + 1100 < now)
    });
    let _second = Starting::beside(&first).start();
    until("it is told", || receiver.kinds() == ["silent"]);
    assert_eq!(receiver.seen()[0].json()["subject"], "up");
}

/// Failures that no rule knows, and more of them than before, are told with the lines to write a rule for.
#[test]
fn rising_unclassified_failures_are_told_by_a_gateway() {
    let (stub, receiver) = (Stub::start(), Receiver::new());
    let first = told(&stub, KEYS, &webhook(&receiver)).start();
    for _ in 0..4 {
        // Without a policy these runs know nobody to tell.
        first.halfopen(&["run", "--dep", "up", "--", "/bin/sh", "-c", "echo the flux capacitor is out >&2; exit 1"]);
    }
    let _second = Starting::beside(&first).start();
    until("it is told", || receiver.kinds().contains(&"unclassified_rising".to_owned()));
    let event = receiver.seen().into_iter().find(|seen| seen.kind().ends_with("unclassified_rising")).unwrap().json();
    assert!(event["data"]["details"]["unclassified"].as_u64() >= Some(3), "{event}");
}

/// Invariant 10: at most a thousand alerts wait; those that made room are counted and said.
#[test]
fn alerts_beyond_the_bound_are_counted_and_said() {
    let (stub, receiver) = (Stub::start(), Receiver::new());
    receiver.always(Does::Answers(503, ""));
    let gateway = told(&stub, KEYS, &webhook(&receiver)).start();
    let handle = gateway.store();
    for n in 0..1005 {
        let name = format!("quiet-{n}");
        let mut policy = Policy::built_in(&name, Surface::Run);
        policy.owner = Some("oncall".to_owned());
        handle.note_condition(&name, &policy, "silent", Some(serde_json::Map::new())).unwrap();
    }
    let of = |name: &str| value(&scrape(&gateway), &format!(r#"halfopen_{name}{{dependency="halfopen-alerts"}}"#));
    until("they are counted", || of("alerts_dropped_total") >= 5.0);
    assert!(of("alerts_waiting") <= 1000.0);
    until("it is said", || gateway.said().contains("warn alerts_dropped"));
    assert!(gateway.halfopen(&["status"]).contains("were dropped because too many waited"));
}

/// An owner who sleeps hears of a store that is gone, although it cannot keep the alert: once, whatever a channel does first, and
/// that it is back.
#[test]
fn a_lost_store_and_its_return_are_told_past_the_store() {
    let (stub, receiver, busy) = (Stub::start(), Receiver::new(), Receiver::new());
    stub.always(Reply::ok("well"));
    busy.next(&[Does::Answers(503, "")]);
    let gateway = told(&stub, KEYS, &format!("{}{}", webhook(&receiver), webhook(&busy))).start();
    assert_eq!(gateway.get("/d/up/x").status, 200);
    let store = gateway.path(".local/state/halfopen");
    let away = gateway.path("away");
    std::fs::rename(&store, &away).unwrap();
    until("it is told", || !receiver.seen().is_empty());
    until("it is told by the other channel, in the end", || busy.seen().len() == 2);
    let lost = receiver.seen()[0].json();
    assert_eq!(lost["type"], "dev.halfopen.store_lost");
    let data = &lost["data"];
    assert_eq!((&data["owner"], &data["reason"]), (&"oncall".into(), &"store_lost".into()));
    assert_eq!(data["more"]["direct"], true, "{lost}");
    assert!(data["details"]["store"].as_str().is_some_and(|store| store.ends_with("halfopen.db")), "{lost}");
    assert_eq!(gateway.get("/d/up/x").status, 200, "calls go on");
    std::fs::rename(&away, &store).unwrap();
    until("its return is told", || receiver.seen().len() > 1);
    assert_eq!(receiver.kinds(), ["store_lost", "store_back"], "each once");
    let threads: Vec<_> = receiver.seen().iter().map(|seen| seen.json()["thread"].clone()).collect();
    assert_eq!(threads[0], threads[1]);
    let names: Vec<_> = busy.seen().iter().take(2).map(|seen| seen.field("webhook-id")).collect();
    assert_eq!(names[0], names[1], "tried again under its name");
    assert_eq!(posts(&gateway).len(), 0, "nothing is left in the store");
}

/// A store that can be read and not written is told, too; one that is away for a moment is not.
#[test]
fn a_store_that_cannot_be_written_is_told() {
    let (stub, receiver) = (Stub::start(), Receiver::new());
    stub.always(Reply::ok("well"));
    let gateway = told(&stub, KEYS, &webhook(&receiver)).start();
    assert_eq!(gateway.get("/d/up/x").status, 200);
    let file = rusqlite::Connection::open(gateway.path(".local/state/halfopen/halfopen.db")).unwrap();
    // A writer that does not let go.
    file.execute_batch("BEGIN IMMEDIATE").unwrap();
    until("it is told", || !receiver.seen().is_empty());
    let seen = receiver.seen()[0].json();
    assert_eq!(
        (&seen["type"], &seen["data"]["reason"]),
        (&"dev.halfopen.store_lost".into(), &"store_read_only".into())
    );
    file.execute_batch("ROLLBACK").unwrap();
    until("its return is told", || receiver.seen().len() > 1);
    assert_eq!(receiver.kinds(), ["store_lost", "store_back"]);
}
