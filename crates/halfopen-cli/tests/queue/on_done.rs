//! Programs are told that a job has ended (`on_done`): once and whole, whatever becomes of whoever should tell them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::ledger::{audited, becomes, opens_for, queue, queueing, send, state, word};
use crate::receiver::{Does, Received, Receiver};
use crate::stub::{Reply, Stub};
use crate::world::{Gateway, Starting, gateway, until};

/// A key that signs, made of nothing.
const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Keys of a policy that queues and tells `receiver`.
fn telling(receiver: &Receiver, more: &str) -> String {
    let on_done = format!("on_done: {{ webhook: {{ url: '{}', secret_from_env: JOBS_KEY }} }}", receiver.url());
    queueing(&format!("{on_done}\n{more}"))
}

fn start(stub: &Stub, keys: &str) -> Gateway {
    Starting::new(&crate::world::policy(&stub.url(), keys)).variable("JOBS_KEY", KEY).start()
}

/// Waits until the receiver was told of so many jobs; returns what it was told, one for each.
fn told(receiver: &Receiver, jobs: usize) -> Vec<Received> {
    let ids = || receiver.seen().iter().filter_map(|seen| seen.field("webhook-id")).collect::<BTreeSet<_>>();
    until(&format!("{jobs} jobs are told"), || ids().len() >= jobs);
    assert_eq!(ids().len(), jobs);
    let mut seen = receiver.seen();
    let mut known = BTreeSet::new();
    seen.retain(|seen| known.insert(seen.field("webhook-id")));
    seen
}

fn asynchronous(gateway: &Gateway, invoice: &str) -> String {
    word(&send(gateway, invoice, &[("prefer", "respond-async"), ("idempotency-key", invoice)]).json()["id"])
}

/// S069: nobody needs to ask: what became of each job is told, signed, with what the receiver knows it by, and without what
/// was sent or came back.
#[test]
fn a_program_is_told_how_each_job_ended() {
    let (stub, receiver) = (Stub::start(), Receiver::new());
    let gateway = start(&stub, &telling(&receiver, "replay: always"));
    stub.then([Reply::ok("{\"total\":7}"), Reply::status(422, "{\"error\":\"no such customer\"}")]);
    let done = asynchronous(&gateway, "inv-1");
    becomes(&gateway, &done, "done");
    let failed = asynchronous(&gateway, "inv-2");
    becomes(&gateway, &failed, "failed");
    let seen = told(&receiver, 2);
    let of = |id: &str| seen.iter().find(|seen| seen.json()["subject"] == *id).unwrap_or_else(|| panic!("{seen:?}"));
    let event = of(&done).json();
    assert_eq!((&event["specversion"], &event["type"]), (&"1.0".into(), &"dev.halfopen.job.done".into()));
    assert_eq!(of(&done).field("webhook-id").as_deref(), event["id"].as_str());
    assert!(of(&done).field("webhook-signature").is_some_and(|signed| signed.starts_with("v1,")));
    let data = &event["data"];
    assert_eq!((&data["job"], &data["dependency"]), (&done.clone().into(), &"up".into()));
    assert_eq!((&data["state"], &data["idempotency_key"]), (&"done".into(), &"inv-1".into()));
    assert_eq!(data["location"], format!("/jobs/{done}"));
    assert_eq!(gateway.ask("GET", &word(&data["result"]), &[], "").text(), "{\"total\":7}");
    assert!(word(&data["accepted_at"]) <= word(&data["ended_at"]), "{data}");
    let data = &of(&failed).json()["data"];
    assert_eq!((&data["state"], &data["class"]), (&"failed".into(), &"invalid_request".into()));
    for seen in &seen {
        assert!(!seen.body.contains("invoice") && !seen.body.contains("customer") && !seen.body.contains("whsec"));
    }
    // That they were told is counted, in the store and by this process.
    until("it is counted", || {
        let text = gateway.ask("GET", "/metrics", &[], "").text();
        text.lines().any(|line| line == "halfopen_on_done_jobs{dependency=\"up\",result=\"told\"} 2.0")
            && text.contains("channel=\"on_done:up/webhook-1\"} 2")
    });
    // It is known in the list, too.
    let line = gateway.ask("GET", &format!("/jobs/{done}"), &[], "").json();
    assert_eq!(line["idempotency_key"], "inv-1");
    audited(&gateway);
}

/// S069: what expires, and what an operator ends, is told as well; each job once.
#[test]
fn what_expires_and_what_is_cancelled_is_told() {
    let (stub, receiver) = (Stub::start(), Receiver::new());
    let keys =
        telling(&receiver, &opens_for(60.0)).replace("queue_ttl_min: 30", "queue_ttl_min: 0.02, on_expiry: expired");
    let gateway = start(&stub, &keys);
    crate::ledger::trip(&stub, &gateway);
    let cancelled = queue(&gateway, "inv-c");
    assert_eq!(gateway.ask("POST", &format!("/jobs/{cancelled}/cancel"), &[], "{\"reason\":\"no\"}").status, 200);
    let expired: BTreeSet<String> = (0..20).map(|n| queue(&gateway, &format!("inv-{n}"))).collect();
    let seen = told(&receiver, 21);
    let kinds =
        |kind: &str| seen.iter().filter(|seen| seen.json()["type"] == format!("dev.halfopen.job.{kind}")).count();
    assert_eq!((kinds("expired"), kinds("cancelled")), (20, 1));
    let jobs: BTreeSet<String> = seen.iter().map(|seen| word(&seen.json()["subject"])).collect();
    assert!(expired.is_subset(&jobs) && jobs.contains(&cancelled));
    assert!(expired.iter().all(|id| state(&gateway, id) == "expired"), "who asks still finds it");
    audited(&gateway);
}

/// It is on the disk with the end of the job: a gateway that is killed while it tells leaves it to another one, under the
/// same name; what was told already is not told again.
#[test]
fn a_killed_gateway_leaves_it_to_another_to_tell() {
    let (stub, receiver) = (Stub::start(), Receiver::new());
    let mut gateway = start(&stub, &telling(&receiver, ""));
    let first = asynchronous(&gateway, "inv-1");
    told(&receiver, 1);
    becomes(&gateway, &first, "done");
    receiver.next(&[Does::Hangs]);
    let second = asynchronous(&gateway, "inv-2");
    until("it is being told", || receiver.seen().len() == 2);
    let again = Starting::beside(&gateway).variable("JOBS_KEY", KEY);
    gateway.signal(Signal::KILL);
    gateway.ended();
    let gateway = again.start();
    until("the other one tells it", || receiver.seen().len() == 3);
    let seen = receiver.seen();
    assert_eq!(seen[1].field("webhook-id"), seen[2].field("webhook-id"));
    assert_eq!(seen[2].json()["subject"], second);
    assert_eq!(told(&receiver, 2).len(), 2);
    audited(&gateway);
}

/// Two gateways on one store tell each job once.
#[test]
fn two_gateways_tell_each_job_once() {
    let (stub, receiver) = (Stub::start(), Receiver::new());
    let gateway = start(&stub, &telling(&receiver, ""));
    let _other = Starting::beside(&gateway).variable("JOBS_KEY", KEY).start();
    let ids: BTreeSet<String> = (0..30).map(|n| asynchronous(&gateway, &format!("inv-{n}"))).collect();
    let seen = told(&receiver, 30);
    assert_eq!(seen.iter().map(|seen| word(&seen.json()["subject"])).collect::<BTreeSet<_>>(), ids);
    let waiting = || gateway.store().notice_figures().expect("the store")["up"];
    until("nothing is left to tell", || waiting().waiting == 0);
    assert_eq!((receiver.seen().len(), waiting().told), (30, 30));
}

/// A receiver that hangs has a circuit of its own: neither jobs nor the alerts of the owner wait for it, after three tries it
/// is left alone, and it is seen who does not hear.
#[test]
fn a_receiver_that_hangs_blocks_nothing() {
    let (stub, hangs, owner) = (Stub::start(), Receiver::new(), Receiver::new());
    hangs.always(Does::Hangs);
    let keys = telling(&hangs, &format!("owner: oncall\n{}", opens_for(0.3)));
    let policy = crate::world::policy(&stub.url(), &keys);
    let policy = format!("{policy}alerts:\n  oncall:\n  - webhook: '{}'\n", owner.url());
    let gateway = Starting::new(&policy).variable("JOBS_KEY", KEY).start();
    let first = asynchronous(&gateway, "inv-0");
    becomes(&gateway, &first, "done");
    until("it hangs", || hangs.seen().len() == 1);
    let began = Instant::now();
    stub.then([Reply::status(500, "{}")]);
    assert_eq!(gateway.post("/d/up/trip", "{}").status, 500);
    until("the owner hears of the outage", || owner.kinds().contains(&"circuit.opened".to_owned()));
    for n in 1..10 {
        let id = asynchronous(&gateway, &format!("inv-{n}"));
        becomes(&gateway, &id, "done");
    }
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    // The command line would wait for the receiver as well.
    let receiver = "/circuits/halfopen-alerts@channel%3Don_done:up%2Fwebhook-1";
    until("it is left alone", || {
        let answer = gateway.ask("GET", receiver, &[], "");
        answer.status == 200 && answer.json()[0]["state"] == "open"
    });
    until("the owner hears who does not", || owner.kinds().contains(&"alert_failing".to_owned()));
    let said = gateway.halfopen(&["status", "--policy", "policy.yaml"]);
    assert!(said.contains("on_done of up: 10 jobs are still to be told"), "{said}");
    assert!(hangs.seen().len() <= 4, "{}", hangs.seen().len());
}

/// A command is told on its standard input, with what it needs to begin in its environment, and none of our secrets.
#[test]
fn a_command_is_told_too() {
    let stub = Stub::start();
    let script =
        "on_done: { command: [/bin/sh, -c, 'cat > told.tmp; echo >> told.tmp; env >> told.tmp; mv told.tmp told'] }";
    let gateway = start(&stub, &queueing(script));
    let id = asynchronous(&gateway, "inv-1");
    until("it is told", || gateway.path("told").exists());
    let text = std::fs::read_to_string(gateway.path("told")).expect("a file");
    assert!(text.contains("\"type\":\"dev.halfopen.job.done\""), "{text}");
    for line in
        [format!("HALFOPEN_JOB_ID={id}"), "HALFOPEN_JOB_STATE=done".into(), "HALFOPEN_IDEMPOTENCY_KEY=inv-1".into()]
    {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    assert!(!text.contains("whsec_"), "{text}");
}

/// `drain --once` ends the job and tells of it: no other process need come by.
#[test]
fn a_drain_tells_what_it_has_done() {
    let (stub, receiver) = (Stub::start(), Receiver::new());
    let mut gateway = gateway(&stub, &telling(&receiver, "").replace(", secret_from_env: JOBS_KEY", ""));
    gateway.halfopen(&["hold", "up", "open", "--policy", "policy.yaml"]);
    let ids: Vec<String> = (0..3).map(|n| asynchronous(&gateway, &format!("inv-{n}"))).collect();
    gateway.signal(Signal::KILL);
    gateway.ended();
    gateway.halfopen(&["release", "up"]);
    let said = gateway.halfopen(&["drain", "--once", "--policy", "policy.yaml"]);
    let seen = told(&receiver, 3);
    assert!(seen.iter().all(|seen| ids.contains(&word(&seen.json()["subject"]))), "{said}");
    assert!(!said.contains("still to be told"), "{said}");
}
