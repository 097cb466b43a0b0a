//! What a person decides about many jobs at once: at the store, and by way of a gateway.

use std::process::Output;

use halfopen::config::QueueBounds;
use halfopen::handle::jobs::NewJob;
use halfopen_core::job::{HttpRequest, JobRequest, Reason, Safety, Terms};
use halfopen_core::policy::OnExpiry;
use serde_json::Value;

use crate::ledger::{audited, becomes, queueing, state};
use crate::stub::Stub;
use crate::world::{Gateway, command, gateway};

/// Puts jobs before a person, as an outage does.
fn in_review(gateway: &Gateway, reason: Reason, number: usize) -> Vec<String> {
    let store = gateway.store();
    let one = |n: usize| {
        let new = NewJob {
            terms: Terms {
                place: "up".parse().expect("a name"),
                account: None,
                ttl: std::time::Duration::from_secs(1800),
                on_expiry: OnExpiry::ManualReview,
                safety: Safety::Unsafe,
                keep: std::time::Duration::from_secs(3600),
            },
            request: JobRequest::Http(HttpRequest {
                method: "POST".to_owned(),
                target: "/invoices".to_owned(),
                headers: Vec::new(),
                credential: None,
                body: format!("{{\"invoice\":\"inv-{n}\"}}").into_bytes(),
            }),
            key: None,
            order_key: None,
            review: Some(reason),
            retry_at: None,
            bounds: QueueBounds::default(),
            caller: None,
            on_done: false,
        };
        store.enqueue(new).expect("room").receipt().id.to_string()
    };
    (0..number).map(one).collect()
}

/// How `halfopen jobs` reaches the jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Store,
    Gateway,
}

fn jobs(gateway: &Gateway, by: By, words: &[&str]) -> (Option<i32>, String, String) {
    let home = tempfile::tempdir().expect("a folder");
    let url = format!("http://{}", gateway.address);
    let (home, last) = match by {
        By::Store => (gateway.path(""), ["--policy", "policy.yaml"]),
        By::Gateway => (home.path().to_owned(), ["--url", &url]),
    };
    let words: Vec<String> = ["jobs"].iter().chain(words).chain(&last).map(|word| (*word).to_owned()).collect();
    let Output { status, stdout, stderr } = command(&home, &words).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

fn held() -> (Stub, Gateway) {
    let stub = Stub::start();
    let gateway = gateway(&stub, &queueing(""));
    gateway.halfopen(&["hold", "up", "open", "--policy", "policy.yaml"]);
    (stub, gateway)
}

/// After an outage one answer is given to all: seen first, counted, confirmed, and said again without harm.
#[test]
fn one_decision_is_taken_about_all_that_wait() {
    for by in [By::Store, By::Gateway] {
        let (_stub, gateway) = held();
        let ids = in_review(&gateway, Reason::Policy, 130);
        let others = in_review(&gateway, Reason::HintBeyondTtl, 2);
        let all = ["requeue", "--all", "--dep", "up", "--because", "policy"];
        let with = |more: &[&str]| jobs(&gateway, by, &[&all[..], more].concat());

        let (code, _, err) = with(&[]);
        assert_eq!(code, Some(64), "{err}");
        assert!(err.contains("130 jobs of up in manual_review would all be requeued; nothing was changed"), "{err}");
        assert!(err.contains("--confirm 130"), "{err}");
        let (code, out, err) = with(&["--dry-run"]);
        assert_eq!((code, out.lines().count()), (Some(0), 21), "{out}");
        assert!(out.contains(&ids[0]) && err.contains("130 jobs would be requeued; nothing was changed"), "{err}");
        let (code, out, _) = with(&["--dry-run", "--json"]);
        let shown: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(
            (code, &shown["matched"], &shown["jobs"][129]["id"]),
            (Some(0), &130.into(), &ids[129].clone().into())
        );
        let (code, _, err) = with(&["--confirm", "129"]);
        assert!(code == Some(64) && err.contains("--confirm says 129, and there are 130 jobs"), "{err}");
        assert_eq!(state(&gateway, &ids[0]), "manual_review", "nothing was changed by any of these");

        let (code, out, err) = with(&["--confirm", "130", "--reason", "none was booked"]);
        assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
        assert!(err.contains("100 of 130 …") && err.contains("130 jobs were requeued"), "{err}");
        assert!(ids.iter().all(|id| state(&gateway, id) == "queued"));
        assert!(others.iter().all(|id| state(&gateway, id) == "manual_review"), "the filter holds");
        let history = crate::ledger::job(&gateway, &ids[0])["history"].to_string();
        assert!(history.contains("none was booked"), "{history}");
        let (code, _, err) = with(&["--confirm", "130"]);
        assert!(code == Some(0) && err.contains("0 jobs were requeued"), "{err}");
        if by == By::Store {
            let events = gateway.halfopen(&["events", "--all", "--json", "--limit", "1000"]);
            let told = events.matches("\"jobs_requeued\"").count();
            assert_eq!(told, 2, "one entry for each part");
        }
        audited(&gateway);
    }
}

/// Several that are named: each becomes what it can, and the others do not wait for it.
#[test]
fn several_jobs_are_decided_about_by_name() {
    for by in [By::Store, By::Gateway] {
        let (_stub, gateway) = held();
        let ids = in_review(&gateway, Reason::UnknownEnd, 3);
        let (code, out, err) = jobs(&gateway, by, &["discard", &ids[0], &ids[1], "--json"]);
        let sum: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!((code, sum["changed"].as_array().map(Vec::len)), (Some(0), Some(2)), "{err}");
        let (code, _, err) = jobs(&gateway, by, &["discard", &ids[1], &ids[2]]);
        assert!(
            code == Some(0) && err.contains("1 job was discarded") && err.contains("1 job was so already"),
            "{err}"
        );
        let queued = in_review(&gateway, Reason::Policy, 1).remove(0);
        let (code, _, err) = jobs(&gateway, by, &["requeue", &queued, &ids[0], "j99-00000000"]);
        assert_eq!((code, state(&gateway, &queued).as_str()), (Some(1), "queued"), "{err}");
        assert!(err.contains(&ids[0]) && err.contains("there is no job j99-00000000"), "{err}");
        assert!(err.contains("2 jobs were left as they were"), "{err}");
        let (code, _, err) = jobs(&gateway, by, &["cancel", &queued, "--dry-run"]);
        assert!(
            code == Some(0) && err.contains("1 job would be cancelled") && state(&gateway, &queued) == "queued",
            "{err}"
        );
        let (code, _, err) = jobs(&gateway, by, &["cancel", "--all", "--state", "queued", "--confirm", "1"]);
        assert_eq!(code, Some(0), "{err}");
        becomes(&gateway, &queued, "cancelled");
        audited(&gateway);
    }
}

/// What cannot be meant is refused before anything is changed, with what to write instead.
#[test]
fn a_choice_that_cannot_be_meant_is_refused() {
    let (_stub, gateway) = held();
    let ids = in_review(&gateway, Reason::Policy, 1);
    let all: [(&[&str], &str); 6] = [
        (&["requeue"], "<ID>"),
        (&["cancel", "--all"], "--state is one of queued, running"),
        (&["requeue", "--all", "--state", "done"], "--state may be manual_review, failed, expired"),
        (&["requeue", "--all", "--because", "tired"], "worker_died"),
        (&["requeue", &ids[0], "--state", "failed"], "say --all"),
        (&["requeue", &ids[0], "--all"], "cannot be used with"),
    ];
    for (words, told) in all {
        let (code, _, err) = jobs(&gateway, By::Store, words);
        assert!(code == Some(64) && err.contains(told), "{words:?}: {code:?} {err}");
    }
    let answer = gateway.ask("GET", "/jobs?reason=tired", &[], "");
    assert!(answer.status == 400 && answer.text().contains("claims_lost"), "{}", answer.text());
    let answer = gateway.ask("GET", "/jobs?older_than=soon", &[], "");
    assert!(answer.status == 400 && answer.text().contains("write it as 90s"), "{}", answer.text());
    let answer = gateway.ask("GET", "/jobs?reason=policy&older_than=0.001s", &[], "");
    assert_eq!(answer.json()["jobs"][0]["id"], ids[0].as_str());
    assert_eq!(gateway.ask("GET", "/jobs?older_than=1h", &[], "").json()["jobs"].as_array().map(Vec::len), Some(0));
    assert_eq!(state(&gateway, &ids[0]), "manual_review");
}
