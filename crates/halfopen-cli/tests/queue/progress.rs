//! How far a queue is can be seen, and each job can be looked at and decided about from elsewhere.

use std::process::Output;

use serde_json::Value;

use crate::ledger::{audited, becomes, opened, opens_for, queue, queueing, send, state, word};
use crate::stub::{Reply, Stub};
use crate::world::{Gateway, command, gateway, until};

fn asynchronous(gateway: &Gateway, invoice: &str) -> String {
    word(&send(gateway, invoice, &[("prefer", "respond-async")]).json()["id"])
}

/// Returns what `/circuits` says of the queue of `up`.
fn jobs(gateway: &Gateway) -> Value {
    let circuits = gateway.ask("GET", "/circuits", &[], "").json();
    let of = circuits.as_array().and_then(|all| all.iter().find(|line| line["dependency"] == "up")).cloned();
    of.unwrap_or_default()["jobs"].clone()
}

/// Runs a command in an empty home, so that only the gateway can know anything.
fn elsewhere(gateway: &Gateway, words: &[&str]) -> (Option<i32>, String, String) {
    let home = tempfile::tempdir().expect("a folder");
    let url = format!("http://{}", gateway.address);
    let words: Vec<String> = words.iter().chain(&["--url", &url]).map(|word| (*word).to_owned()).collect();
    let Output { status, stdout, stderr } = command(home.path(), &words).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

/// S014: how many wait, run and need a person, since when, how fast they start, when all have, and how many come too late:
/// the same in the API, in `status`, and in `status --url`.
#[test]
fn how_far_a_queue_is_can_be_seen() {
    let stub = Stub::start();
    let keys = format!("{}\ndrain: {{ rate_per_sec: 1, max_per_sec: 1 }}", opens_for(0.5));
    let keys = queueing(&keys).replace("queue_ttl_min: 30", "queue_ttl_min: 0.25");
    let gateway = opened(&stub, &keys);
    assert_eq!(jobs(&gateway), Value::Null, "nothing waits");
    for n in 0..30 {
        queue(&gateway, &format!("inv-{n:02}"));
    }
    // Fifteen seconds of life at one a second: about half of them come too late.
    until("the rate is told", || jobs(&gateway)["rate_per_sec"] == 1.0);
    let told = jobs(&gateway);
    let queued = told["queued"].as_u64().unwrap_or(0);
    assert!((10..30).contains(&queued), "{told}");
    assert!(told["late"].as_u64().is_some_and(|late| (1..queued).contains(&late)), "{told}");
    assert!(word(&told["oldest_queued_at"]) < word(&told["done_at"]), "{told}");
    assert_eq!(told["manual_review"], 0);
    let local = gateway.halfopen(&["status", "--json", "--policy", "policy.yaml"]);
    let local: Value = serde_json::from_str(&local).unwrap_or_default();
    assert!(local[0]["jobs"]["queued"].as_u64().is_some_and(|jobs| jobs > 0), "{local}");
    let (_, table, said) = elsewhere(&gateway, &["status"]);
    for table in [table, gateway.halfopen(&["status", "--policy", "policy.yaml"])] {
        let table = table.to_lowercase();
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        let head =
            rows.iter().position(|row| row.starts_with(&["jobs", "of"])).unwrap_or_else(|| panic!("{table}{said}"));
        let row = rows.get(head + 1).unwrap_or_else(|| panic!("{table}"));
        assert_eq!((row[0], row.contains(&"1/s"), row.contains(&"in")), ("up", true, true), "{table}");
    }
}

/// Every `jobs` command asks a gateway as it asks the store, and says the same.
#[test]
fn jobs_are_decided_about_from_elsewhere() {
    let stub = Stub::start();
    // One after the other, so that each gets its reply.
    let keys = "replay: always\ndrain: { max_in_flight: 1, max_in_flight_max: 1 }";
    let gateway = gateway(&stub, &queueing(keys));
    gateway.halfopen(&["hold", "up", "open", "--policy", "policy.yaml"]);
    let ids: Vec<String> = (0..5).map(|n| asynchronous(&gateway, &format!("inv-{n}"))).collect();
    let [cancelled, done, requeued, resolved, discarded] = ids.as_slice() else { panic!("five") };
    let (code, out, err) = elsewhere(&gateway, &["jobs", "list", "--state", "queued", "--dep", "up"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(ids.iter().all(|id| out.contains(id.as_str())), "{out}");
    let (_, out, _) = elsewhere(&gateway, &["jobs", "list", "--limit", "2", "--json"]);
    let page: Value = serde_json::from_str(&out).unwrap_or_default();
    assert_eq!((&page["jobs"][1]["id"], &page["next"]), (&done.as_str().into(), &done.as_str().into()), "{out}");
    let (code, _, err) = elsewhere(&gateway, &["jobs", "list", "--dep", "upp"]);
    assert!(code == Some(64) && err.contains("known: up"), "{err}");
    let (code, _, err) = elsewhere(&gateway, &["jobs", "cancel", cancelled, "--reason", "not needed"]);
    assert!(code == Some(0) && err.contains("was queued and is cancelled"), "{err}");
    let (code, _, err) = elsewhere(&gateway, &["jobs", "cancel", cancelled]);
    assert!(code == Some(1) && err.contains("cancelled"), "{err}");
    let (code, out, err) = elsewhere(&gateway, &["jobs", "show", cancelled]);
    assert!(code == Some(0) && out.contains("not needed") && out.contains("queued → cancelled"), "{out}{err}");
    stub.then([Reply::ok("{\"total\":7}")]);
    stub.then((0..3).map(|_| Reply::status(422, "{\"error\":\"no such customer\"}")));
    gateway.halfopen(&["release", "up"]);
    becomes(&gateway, done, "done");
    for id in [requeued, resolved, discarded] {
        becomes(&gateway, id, "failed");
    }
    let (code, out, err) = elsewhere(&gateway, &["jobs", "output", done]);
    assert_eq!((code, out.as_str()), (Some(0), "{\"total\":7}"), "{err}");
    let (code, out, _) = elsewhere(&gateway, &["jobs", "output", discarded]);
    assert_eq!((code, out.as_str()), (Some(0), "{\"error\":\"no such customer\"}"), "whatever its status");
    let (code, _, err) = elsewhere(&gateway, &["jobs", "output", done, "--stderr"]);
    assert!(code == Some(64) && err.contains("--url"), "{err}");
    let (code, _, err) =
        elsewhere(&gateway, &["jobs", "requeue", requeued, "--reason", "now there is one", "--ttl", "1h"]);
    assert!(code == Some(0) && err.contains("was failed and is queued, expires"), "{err}");
    becomes(&gateway, requeued, "done");
    let (code, _, err) = elsewhere(&gateway, &["jobs", "resolve", resolved, "--result", "booked by hand"]);
    assert!(code == Some(0) && err.contains("was failed and is done"), "{err}");
    let (_, out, _) = elsewhere(&gateway, &["jobs", "output", resolved]);
    assert_eq!(out.trim_end(), "booked by hand");
    let (code, out, err) = elsewhere(&gateway, &["jobs", "discard", discarded, "--json"]);
    let line: Value = serde_json::from_str(&out).unwrap_or_default();
    assert_eq!(
        (code, &line["state"], &line["before"]["state"]),
        (Some(0), &"cancelled".into(), &"failed".into()),
        "{err}"
    );
    let (code, _, err) = elsewhere(&gateway, &["jobs", "show", "j99-00000000"]);
    assert_eq!(code, Some(64), "{err}");
    audited(&gateway);
}

/// The same commands on the store itself.
#[test]
fn jobs_are_decided_about_at_the_store() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &queueing(""));
    gateway.halfopen(&["hold", "up", "open", "--policy", "policy.yaml"]);
    let id = asynchronous(&gateway, "inv-1");
    let said = gateway.halfopen(&["jobs", "list", "--dep", "upp", "--policy", "policy.yaml"]);
    assert!(said.contains("no dependency is named `upp`") && said.contains("known are up"), "{said}");
    let said = gateway.halfopen(&["jobs", "list", "--state", "waiting"]);
    assert!(said.contains("queued, running, done"), "{said}");
    let said = gateway.halfopen(&["drain", "--once", "--dep", "upp", "--policy", "policy.yaml"]);
    assert!(said.contains("no dependency is named `upp`"), "{said}");
    let said = gateway.halfopen(&["jobs", "discard", &id]);
    assert!(said.contains("cancel") && state(&gateway, &id) == "queued", "{said}");
    let said = gateway.halfopen(&["jobs", "cancel", &id, "--reason", "not needed"]);
    assert!(said.contains("was queued and is cancelled"), "{said}");
    let said = gateway.halfopen(&["jobs", "show", &id]);
    assert!(said.contains("POST /invoices") && said.contains("not needed"), "{said}");
    for (target, known) in [
        ("/jobs?dependency=upp", "known: up"),
        ("/circuits?dependency=upp", "known: up"),
        ("/jobs?state=waiting", "queued, running"),
    ] {
        let answer = gateway.ask("GET", target, &[], "");
        assert!(answer.status == 400 && answer.text().contains(known), "{target}: {}", answer.text());
    }
}

/// Probes that are jobs are counted as probes, and the journal says how many waited when the circuit changed.
#[test]
fn jobs_that_probe_are_counted_and_transitions_say_who_waits() {
    let stub = Stub::start();
    let gateway = opened(&stub, &queueing(&opens_for(0.5)));
    let ids: Vec<String> = (0..4).map(|n| queue(&gateway, &format!("inv-{n}"))).collect();
    crate::ledger::all_done(&gateway, &ids);
    let metrics = gateway.ask("GET", "/metrics", &[], "").text();
    assert!(metrics.lines().any(|line| line == "halfopen_probes_total{dependency=\"up\"} 2"), "{metrics}");
    let events = gateway.ask("GET", "/events?format=json&dependency=up", &[], "").json();
    let queued = |name: &str| {
        let found = events.as_array().and_then(|all| all.iter().find(|event| event["event"] == name).cloned());
        found.unwrap_or_default()["queued_count"].clone()
    };
    assert_eq!(queued("tripped"), 0, "{events}");
    assert!(queued("recovered").as_u64().is_some_and(|queued| (1..=4).contains(&queued)), "{events}");
}

/// What a crash left between a body and its row is named by an audit, and removed when a gateway starts.
#[test]
fn files_that_belong_to_no_job_are_removed_at_the_start() {
    let stub = Stub::start();
    let mut first = gateway(&stub, &queueing(""));
    let again = crate::world::Starting::beside(&first);
    first.signal(rustix::process::Signal::TERM);
    first.ended();
    let folder = first.path(".local/state/halfopen/halfopen.db-payloads");
    std::fs::create_dir_all(&folder).expect("a folder");
    let orphan = folder.join("00000000-orphan");
    let file = std::fs::File::create(&orphan).expect("a file");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3 * 3600);
    file.set_modified(long_ago).expect("a time");
    std::fs::write(folder.join("11111111-young"), "").expect("a file");
    let said = first.halfopen(&["audit"]);
    assert!(said.contains("file 00000000-orphan belongs to no job"), "{said}");
    let second = again.start();
    until("it is removed", || !orphan.exists());
    until("it is said", || second.said().contains("1 files that belonged to no job"));
    assert!(folder.join("11111111-young").exists(), "it may be about to get its row");
}
