//! What is accepted, what is not, and what the caller is told.

use serde_json::json;

use crate::ledger::{all_done, audited, becomes, invoices, job, opened, opens_for, order, queue, queueing, send, word};
use crate::stub::{Reply, Stub};
use crate::world::{Starting, gateway, until};

/// S023: the same key is the same job: twenty at once, again later, after a restart, and when the circuit is closed.
#[test]
fn a_call_that_is_repeated_with_its_key_is_one_job() {
    let stub = Stub::start();
    let gateway = opened(&stub, &queueing(&opens_for(2.0)));
    let key = [("idempotency-key", "order-17")];
    let answers: Vec<_> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..20).map(|_| scope.spawn(|| send(&gateway, "inv-1", &key))).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let id = word(&answers[0].json()["id"]);
    for answer in &answers {
        assert_eq!((answer.status, word(&answer.json()["id"])), (202, id.clone()), "{}", answer.text());
    }
    let replayed = answers.iter().filter(|answer| answer.field("idempotent-replayed") == Some("true")).count();
    assert_eq!(replayed, 19);
    let again = Starting::beside(&gateway);
    drop(gateway);
    let gateway = again.start();
    assert_eq!(word(&send(&gateway, "inv-1", &key).json()["id"]), id);
    becomes(&gateway, &id, "done");
    let late = send(&gateway, "inv-1", &key);
    assert_eq!((late.status, word(&late.json()["id"]), word(&late.json()["state"])), (202, id, "done".to_owned()));
    assert_eq!(invoices(&stub)["inv-1"], 1);
    audited(&gateway);
}

/// S066
#[test]
fn a_key_with_another_payload_is_refused_and_harms_nothing() {
    let stub = Stub::start();
    let gateway = opened(&stub, &queueing(&opens_for(0.5)));
    let key = [("idempotency-key", "k")];
    let id = word(&send(&gateway, "inv-1", &key).json()["id"]);
    let other = send(&gateway, "inv-2", &key);
    assert_eq!((other.status, other.problem().as_str()), (422, "key_reused"));
    // A field that clients change with each repetition makes no other payload.
    let stamped = send(&gateway, "inv-1", &[("idempotency-key", "k"), ("x-retry-count", "1")]);
    assert_eq!((stamped.status, word(&stamped.json()["id"])), (202, id.clone()));
    becomes(&gateway, &id, "done");
    assert_eq!(invoices(&stub).into_iter().collect::<Vec<_>>(), [("inv-1".to_owned(), 1)]);
}

/// S037: what the caller identifies itself with is on no disk; what the policy adds is added when the job is sent.
#[test]
fn a_credential_of_the_policy_is_added_at_sending_and_stored_nowhere() {
    let stub = Stub::start();
    let keys = format!("{}\ncredentials: {{ main: {{ from_env: OCR_TOKEN }} }}", opens_for(0.3));
    let policy = crate::world::policy(&stub.url(), &queueing(&keys));
    let gateway = Starting::new(&policy).variable("OCR_TOKEN", "sk-of-the-policy").start();
    crate::ledger::trip(&stub, &gateway);
    let answer = send(&gateway, "inv-1", &[("authorization", "Bearer sk-of-the-caller")]);
    assert_eq!(answer.status, 202, "{}", answer.text());
    let refused = send(&gateway, "inv-2", &[("x-api-key", "sk-of-the-caller")]);
    assert_eq!(refused.json()["reason"], "caller_secret", "{}", refused.text());
    becomes(&gateway, &word(&answer.json()["id"]), "done");
    assert_eq!(stub.seen()[1].field("authorization"), Some("Bearer sk-of-the-policy"));
    for (path, bytes) in gateway.files() {
        for secret in ["sk-of-the-policy", "sk-of-the-caller"] {
            assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{secret} in {path:?}");
        }
    }
}

#[test]
fn a_full_queue_is_told_with_a_time_and_without_a_promise() {
    let stub = Stub::start();
    let gateway = opened(&stub, &queueing(&format!("{}\nqueue: {{ max_jobs: 2 }}", opens_for(60.0))));
    queue(&gateway, "inv-1");
    queue(&gateway, "inv-2");
    let full = send(&gateway, "inv-3", &[]);
    assert_eq!((full.status, full.problem().as_str()), (429, "queue_full"), "{}", full.text());
    assert!(full.field("retry-after").is_some());
    assert_eq!(audited(&gateway).jobs, 2);
}

#[test]
fn a_body_longer_than_is_kept_is_not_queued() {
    let stub = Stub::start();
    let gateway = opened(&stub, &queueing(&format!("{}\nreplay_body_bytes_max: 1000", opens_for(60.0))));
    let answer = gateway.post("/d/up/x", &"x".repeat(2000));
    assert_eq!((answer.status, &answer.json()["reason"]), (503, &json!("body_too_long")), "{}", answer.text());
}

/// S013: what was read of a body while it was to be queued is sent too.
#[test]
fn a_body_too_long_to_be_queued_is_sent_from_its_beginning() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &queueing("replay_body_bytes_max: 1000"));
    stub.always(Reply::ok("{}").read_body());
    let mut client = gateway.connect();
    client.send("POST /d/up/x HTTP/1.1\r\nhost: up\r\nprefer: respond-async\r\ntransfer-encoding: chunked\r\n\r\n");
    let mut whole = Vec::new();
    for n in 0..40 {
        let piece = format!("{n:0100}");
        client.send(format!("{:x}\r\n{piece}\r\n", piece.len()));
        whole.extend_from_slice(piece.as_bytes());
    }
    let answer = client.send("0\r\n\r\n").answer();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let seen = stub.seen();
    assert_eq!(seen.len(), 1);
    assert!(seen[0].body == whole, "{} of {} bytes", seen[0].body.len(), whole.len());
}

/// S037: a secret is known by the name of its field, in whatever field it comes.
#[test]
fn a_secret_in_a_field_of_its_own_is_not_queued() {
    let stub = Stub::start();
    let gateway = opened(&stub, &queueing(&opens_for(60.0)));
    for name in ["x-vault-token", "x-functions-key", "x-session", "authentication"] {
        let answer = send(&gateway, "inv-1", &[(name, "of-the-caller")]);
        assert_eq!((answer.status, &answer.json()["reason"]), (503, &json!("caller_secret")), "{name}");
    }
    assert!(!gateway.files().iter().any(|(_, bytes)| String::from_utf8_lossy(bytes).contains("of-the-caller")));
}

#[test]
fn a_call_that_prefers_it_and_is_not_kept_is_told_why() {
    let stub = Stub::start();
    let prefers = [("prefer", "respond-async")];
    let told = |answer: &crate::client::Answer| {
        assert_eq!((answer.status, answer.field("preference-applied")), (200, None), "{}", answer.text());
        answer.field("halfopen-not-queued").map(str::to_owned)
    };
    let queues = gateway(&stub, &queueing("replay_body_bytes_max: 100\nqueue: { max_jobs: 1 }"));
    let secret = send(&queues, "inv-1", &[("prefer", "respond-async"), ("authorization", "Bearer x")]);
    assert_eq!(told(&secret).as_deref(), Some("caller_secret"));
    let long = send(&queues, &"x".repeat(200), &prefers);
    assert_eq!(told(&long).as_deref(), Some("body_too_long"));
    assert_eq!(told(&send(&queues, "inv-2", &[])), None, "nobody asked");
    stub.then([Reply::new().hang()]);
    let kept = send(&queues, "inv-3", &prefers);
    assert_eq!((kept.status, kept.field("preference-applied")), (202, Some("respond-async")));
    assert_eq!(kept.field("halfopen-not-queued"), None);
    until("it is under way", || stub.seen().iter().any(|seen| seen.body.windows(5).any(|bytes| bytes == b"inv-3")));
    assert_eq!(told(&send(&queues, "inv-4", &prefers)).as_deref(), Some("queue_full"));

    let fails_fast = gateway(&stub, "");
    assert_eq!(told(&send(&fails_fast, "inv-5", &prefers)).as_deref(), Some("does_not_queue"));
    // Also where the answer is our own.
    fails_fast.halfopen(&["hold", "up", "open", "--policy", "policy.yaml"]);
    until("it is held", || send(&fails_fast, "inv-6", &prefers).status == 503);
    let refused = send(&fails_fast, "inv-7", &prefers);
    assert_eq!(refused.field("halfopen-not-queued"), Some("does_not_queue"), "{}", refused.head);
    let observes = gateway(&stub, &queueing("mode: observe"));
    assert_eq!(told(&send(&observes, "inv-8", &prefers)).as_deref(), Some("observed"));
}

/// A preference is obeyed where it can be.
#[test]
fn a_call_that_prefers_it_is_queued_while_everything_is_well() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &queueing(""));
    let answer = send(&gateway, "inv-1", &[("prefer", "respond-async")]);
    assert_eq!((answer.status, answer.field("preference-applied")), (202, Some("respond-async")), "{}", answer.text());
    becomes(&gateway, &word(&answer.json()["id"]), "done");
    assert_eq!(stub.seen()[0].all("prefer"), Vec::<&str>::new());
}

/// A later call with the order key of an open job goes behind it, also when the circuit is closed.
#[test]
fn a_later_call_does_not_overtake_an_earlier_one() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &queueing("order_by: header:x-account\ndrain: { max_in_flight: 4 }"));
    stub.then([Reply::new().wait(std::time::Duration::from_millis(400)).and_full(200, &[], b"{}")]);
    let first = send(&gateway, "inv-1", &[("x-account", "a"), ("prefer", "respond-async")]);
    assert_eq!(first.status, 202);
    until("the first is under way", || stub.seen().len() == 1);
    let second = send(&gateway, "inv-2", &[("x-account", "a")]);
    assert_eq!((second.status, &second.json()["reason"]), (202, &json!("order_held")), "{}", second.text());
    let other = send(&gateway, "inv-3", &[("x-account", "b")]);
    assert_eq!(other.status, 200, "{}", other.text());
    all_done(&gateway, &[word(&first.json()["id"]), word(&second.json()["id"])]);
    assert_eq!(order(&stub), ["inv-1", "inv-3", "inv-2"]);
}

#[test]
fn a_wait_beyond_the_time_to_live_goes_to_a_person_at_once() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &queueing(""));
    stub.always(Reply::full(429, &[("retry-after", "7200")], b"{}"));
    for name in ["inv-1", "inv-2"] {
        let answer = send(&gateway, name, &[]);
        assert_eq!((answer.status, &answer.json()["state"]), (202, &json!("manual_review")), "{}", answer.text());
        assert_eq!(answer.json()["reason"], "hint_beyond_ttl");
    }
    assert_eq!(stub.seen().len(), 1);
}

/// S009, for a store that is gone: what is acknowledged is in the store that stands at its place by then, or it is not
/// acknowledged; and the gateway goes on.
#[test]
fn nothing_is_acknowledged_that_cannot_be_kept() {
    let stub = Stub::start();
    let gateway = opened(&stub, &queueing(&opens_for(60.0)));
    queue(&gateway, "inv-1");
    std::fs::remove_file(crate::ledger::store_file(&gateway)).unwrap();
    let answer = send(&gateway, "inv-2", &[]);
    if answer.status == 202 {
        let id = word(&answer.json()["id"]).parse().unwrap();
        assert!(crate::ledger::door(&gateway).job(id).unwrap().is_some(), "{}", answer.text());
    } else {
        assert_eq!((answer.status, answer.problem().as_str()), (503, "not_durable"), "{}", answer.text());
        assert!(answer.field("retry-after").is_some() && answer.field("location").is_none(), "{}", answer.head);
    }
    assert_eq!(gateway.ask("GET", "/healthz", &[], "").status, 200);
}

/// S068, S069: it expires although nobody claims, is not lost, and is told.
#[test]
fn a_time_to_live_that_is_over_is_told() {
    for (on_expiry, state) in [("manual_review", "manual_review"), ("expired", "expired")] {
        let stub = Stub::start();
        let keys =
            format!("{}\non_open: {{ action: queue, queue_ttl_min: 0.01, on_expiry: {on_expiry} }}", opens_for(60.0));
        let gateway = opened(&stub, &keys);
        let ids: Vec<String> = (0..5).map(|n| queue(&gateway, &format!("inv-{n}"))).collect();
        for id in &ids {
            let shown = becomes(&gateway, id, state);
            assert_eq!(shown["reason"], "ttl_over");
            assert_eq!(shown["attempts"], 0);
        }
        assert_eq!(stub.seen().len(), 1);
        let ended = format!("halfopen_jobs_ended_total{{dependency=\"up\",state=\"{state}\"}} 5");
        until("each is counted once", || gateway.ask("GET", "/metrics", &[], "").text().contains(&ended));
        let list = gateway.ask("GET", &format!("/jobs?state={state}"), &[], "").json();
        assert_eq!(list["jobs"].as_array().unwrap().len(), 5);
        audited(&gateway);
    }
}

/// What a person decides: again, done, or never.
#[test]
fn a_person_decides_what_becomes_of_a_job() {
    let stub = Stub::start();
    let keys = format!("{}\non_open: {{ action: manual_review }}", opens_for(0.3));
    let gateway = opened(&stub, &keys);
    let ids: Vec<String> = (0..3).map(|n| queue(&gateway, &format!("inv-{n}"))).collect();
    let deed = |id: &str, deed: &str, body: &str| gateway.ask("POST", &format!("/jobs/{id}/{deed}"), &[], body);
    let again = deed(&ids[0], "requeue", r#"{"reason":"it is back"}"#);
    assert_eq!((again.status, &again.json()["before"]["state"]), (200, &json!("manual_review")), "{}", again.text());
    assert_eq!(deed(&ids[1], "resolve", r#"{"reason":"asked","result":"booked by hand"}"#).status, 200);
    assert_eq!(gateway.ask("GET", &format!("/jobs/{}/result", ids[1]), &[], "").text(), "booked by hand");
    assert_eq!(deed(&ids[2], "discard", r#"{"reason":"twice"}"#).json()["state"], "cancelled");
    let refused = deed(&ids[2], "requeue", "{}");
    assert_eq!((refused.status, refused.problem().as_str()), (409, "wrong_state"), "{}", refused.text());
    assert_eq!(deed("j1-00000000", "cancel", "{}").status, 404);
    becomes(&gateway, &ids[0], "done");
    assert_eq!(invoices(&stub).len(), 1);
    assert_eq!(job(&gateway, &ids[0])["history"][1]["by"]["reason"], "it is back");
    audited(&gateway);
}
