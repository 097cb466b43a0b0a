//! What an operator does on pages, and what nobody else does.

use crate::html::{encoded, kept, leads, page, send, submit, word};
use crate::ledger::{opened, opens_for, queue, queueing, state};
use crate::stub::{Reply, Stub};
use crate::world::{gateway, until};

#[test]
fn a_circuit_is_held_released_and_reset_with_a_reason_that_stands_in_the_journal() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &opens_for(600.0));
    let held = submit(&gateway, "/ui/circuits/up/hold", &[("state", "open"), ("for", "2h"), ("reason", "maintenance")]);
    assert_eq!(leads(&held), "/ui/circuits/up?done=hold");
    let html = page(&gateway, "/ui/circuits/up?done=hold");
    assert!(html.contains("class=\"badge held\"") && html.contains("Held."), "{html}");
    assert!(html.contains("held open · http:127.0.0.1: maintenance"), "who and why: {html}");
    assert!(html.contains("in 2 h") || html.contains("in 1 h 59 min"), "{html}");
    assert_eq!(gateway.post("/d/up/x", "{}").status, 503);
    assert!(stub.seen().is_empty());

    let released = submit(&gateway, "/ui/circuits/up/release", &[("reason", "over")]);
    assert_eq!(leads(&released), "/ui/circuits/up?done=release");
    assert!(!page(&gateway, "/ui/circuits/up").contains("class=\"badge held\""));
    gateway.failures("up", 1);
    gateway.becomes("up", "open");
    assert_eq!(
        leads(&submit(&gateway, "/ui/circuits/up/reset", &[("reason", "found it")])),
        "/ui/circuits/up?done=reset"
    );
    assert_eq!(gateway.state("up"), "closed");
    let journal = gateway.halfopen(&["events", "--all", "--json"]);
    for word in ["maintenance", "over", "found it", "http:127.0.0.1"] {
        assert!(journal.contains(word), "{word} in {journal}");
    }
}

#[test]
fn a_cooldown_is_ended_by_hand() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &opens_for(600.0));
    gateway.failures("up", 1);
    assert!(page(&gateway, "/ui/circuits/up").contains("Probe now"));
    let form = page(&gateway, "/ui/circuits/up/release");
    assert!(form.contains("name=\"probe_now\" value=\"1\" checked"), "{form}");
    submit(&gateway, "/ui/circuits/up/release", &[("reason", "they are back"), ("probe_now", "1")]);
    assert_eq!(gateway.state("up"), "half_open");
}

#[test]
fn what_is_wrong_with_a_form_is_said_above_it_and_nothing_changes() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    for (fields, told) in [
        (vec![("state", "open"), ("for", "1h")], "A reason is needed."),
        (vec![("state", "open"), ("for", "soon"), ("reason", "x")], "`soon` is no duration"),
        (vec![("state", "shut"), ("reason", "x")], "Choose open or closed."),
    ] {
        let answer = submit(&gateway, "/ui/circuits/up/hold", &fields);
        assert_eq!(answer.status, 422, "{}", answer.text());
        assert!(answer.text().contains(told), "{told}: {}", answer.text());
    }
    let kept = submit(&gateway, "/ui/circuits/up/hold", &[("state", "open"), ("for", "soon"), ("reason", "a <b>")]);
    assert!(
        kept.text().contains("value=\"soon\"") && kept.text().contains("value=\"a &#60;b&#62;\""),
        "{}",
        kept.text()
    );
    assert_eq!(gateway.halfopen(&["status", "--json"]).trim(), "[]");
}

/// S072: a page of another site cannot act, whatever it knows.
#[test]
fn a_foreign_page_cannot_act() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let target = "/ui/circuits/up/hold";
    let known = word(&page(&gateway, target));
    let ours = format!("http://{}", gateway.address);
    let fields = [("state", "open"), ("reason", "x")];
    let with = |word: &'static str| [("word", word), ("state", "open"), ("reason", "x")];
    let right = [("word", known.as_str()), ("state", "open"), ("reason", "x")];
    // Without the word of the form, whatever the browser says about where it comes from.
    for heads in [vec![], vec![("origin", ours.as_str())], vec![("sec-fetch-site", "same-origin")]] {
        assert_eq!(send(&gateway, target, &fields, &heads).status, 403, "{heads:?}");
        assert_eq!(send(&gateway, target, &with("AAAA"), &heads).status, 403, "{heads:?}");
    }
    // With it, from elsewhere.
    for heads in [
        vec![("origin", "http://evil.example")],
        vec![("origin", "null")],
        vec![("sec-fetch-site", "cross-site")],
        vec![("sec-fetch-site", "same-site")],
        vec![("origin", "http://127.0.0.1:1")],
    ] {
        assert_eq!(send(&gateway, target, &right, &heads).status, 403, "{heads:?}");
    }
    let form = [("host", "evil.example"), ("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(gateway.call("POST", target, &form, encoded(&right).as_bytes()).status, 421);
    // JSON and plain text are no forms.
    let json = gateway.ask("POST", target, &[], "{\"state\":\"open\",\"reason\":\"x\"}");
    assert_eq!(json.status, 415);
    let empty = gateway.ask("POST", target, &[("content-type", "application/x-www-form-urlencoded")], " ");
    assert_eq!(empty.status, 403);
    assert_eq!(gateway.halfopen(&["status", "--json"]).trim(), "[]", "nothing was changed");
    assert_eq!(send(&gateway, target, &right, &[("origin", &ours)]).status, 303);
}

#[test]
fn a_job_is_requeued_by_a_person_who_says_why() {
    let stub = Stub::start();
    let gateway = opened(&stub, &queueing(&opens_for(0.3)));
    // The first probe of the job breaks off: nobody knows whether it was executed.
    stub.then([Reply::new().reset()]);
    let id = kept(&gateway, "inv-1");
    let job = format!("/ui/jobs/{id}");
    until("it waits for a person", || state(&gateway, &id) == "manual_review");
    let overview = page(&gateway, "/");
    assert!(overview.contains("Needs a person") && overview.contains("jobs that wait for a decision: 1"), "{overview}");
    let html = page(&gateway, &job);
    assert!(html.contains("may have been executed") && html.contains("POST /invoices"), "{html}");
    let requeue = format!("{job}/requeue");
    let refused = submit(&gateway, &requeue, &[("reason", "asked them")]);
    assert_eq!(refused.status, 422, "not without the tick: {}", refused.text());
    assert_eq!(state(&gateway, &id), "manual_review");
    let done = submit(&gateway, &requeue, &[("reason", "asked them"), ("may_have_run", "1"), ("ttl", "30m")]);
    assert_eq!(leads(&done), format!("{job}?done=requeue"));
    until("it is done", || state(&gateway, &id) == "done");
    let html = page(&gateway, &job);
    assert!(html.contains("requeued") && html.contains("http:127.0.0.1: asked them"), "{html}");
    assert!(html.contains("class=\"badge done\""), "{html}");
}

#[test]
fn a_job_is_cancelled_and_only_resolved_where_its_state_allows() {
    let stub = Stub::start();
    let gateway = opened(&stub, &queueing(&opens_for(600.0)));
    let ids: Vec<String> = (0..2).map(|n| queue(&gateway, &format!("inv-{n}"))).collect();
    let early = submit(&gateway, &format!("/ui/jobs/{}/resolve", ids[0]), &[("reason", "x"), ("result", "done")]);
    assert_eq!(early.status, 422, "one that waits is not resolved");
    let cancelled = submit(&gateway, &format!("/ui/jobs/{}/cancel", ids[0]), &[("reason", "not needed")]);
    assert_eq!(leads(&cancelled), format!("/ui/jobs/{}?done=cancel", ids[0]));
    assert_eq!(state(&gateway, &ids[0]), "cancelled");
    let html = page(&gateway, "/ui/jobs?state=queued");
    assert!(html.contains(&ids[1]) && !html.contains(&ids[0]), "{html}");
}

#[test]
fn a_person_resolves_one_job_with_its_result_and_discards_another() {
    let stub = Stub::start();
    let gateway = opened(&stub, &queueing(&opens_for(0.3)));
    let before = stub.seen().len();
    // Each breaks off as a probe: nobody knows whether they were executed.
    stub.then([Reply::new().reset(), Reply::new().reset()]);
    let kept_as = |key: &str| {
        let answer = crate::ledger::send(&gateway, "inv", &[("prefer", "respond-async"), ("idempotency-key", key)]);
        answer.json()["id"].as_str().unwrap_or_else(|| panic!("{}", answer.text())).to_owned()
    };
    let ids = ["invoice-17", "invoice-18"].map(kept_as);
    until("both wait for a person", || ids.iter().all(|id| state(&gateway, id) == "manual_review"));
    let list = page(&gateway, "/ui/jobs?state=manual_review");
    assert!(list.contains("invoice-17") && list.contains("invoice-18"), "their keys tell them apart: {list}");
    let words = [("reason", "by phone"), ("result", "booked as 4711 <b>")];
    let resolved = submit(&gateway, &format!("/ui/jobs/{}/resolve", ids[0]), &words);
    assert_eq!(leads(&resolved), format!("/ui/jobs/{}?done=resolve", ids[0]));
    assert_eq!(state(&gateway, &ids[0]), "done");
    let html = page(&gateway, &format!("/ui/jobs/{}", ids[0]));
    assert!(html.contains("booked as 4711 &#60;b&#62;") && html.contains("by phone"), "{html}");
    let discarded = submit(&gateway, &format!("/ui/jobs/{}/discard", ids[1]), &[("reason", "sent by post")]);
    assert_eq!(leads(&discarded), format!("/ui/jobs/{}?done=discard", ids[1]));
    assert_eq!(state(&gateway, &ids[1]), "cancelled");
    assert_eq!(stub.seen().len(), before + 2, "neither is sent again");
}

/// After an outage a person decides about many at once: chosen in the list, seen before it happens, with the word of the form.
#[test]
fn several_jobs_are_decided_about_from_the_list() {
    let stub = Stub::start();
    let review = format!("{}\non_open: {{ action: manual_review }}", opens_for(600.0));
    let gateway = opened(&stub, &review);
    let ids: Vec<String> = (0..4).map(|n| queue(&gateway, &format!("inv-{n}"))).collect();
    let list = page(&gateway, "/ui/jobs?state=manual_review");
    assert!(list.contains("<form class=\"pick\" method=\"get\" action=\"/ui/decide\">"), "{list}");
    for id in &ids {
        assert!(list.contains(&format!("name=\"job\" value=\"{id}\" aria-label=\"Choose {id}\"")), "{list}");
    }
    assert!(list.contains(&format!("name=\"page\" value=\"{}\"", ids.join(","))), "{list}");

    // The chosen ones are shown before anything happens.
    let target = format!("/ui/decide?do=requeue&job={}&job={}", ids[0], ids[1]);
    let form = page(&gateway, &target);
    assert!(form.contains("Jobs: 2.") && form.contains(&ids[0]) && !form.contains(&ids[2]), "{form}");
    assert_eq!(state(&gateway, &ids[0]), "manual_review");
    let both = format!("{},{}", ids[0], ids[1]);
    let fields = [("do", "requeue"), ("jobs", both.as_str()), ("reason", "the vendor was asked")];
    assert_eq!(send(&gateway, "/ui/decide", &fields, &[]).status, 403, "not without the word of the form");
    let nameless = submit(&gateway, &target, &[("do", "requeue"), ("jobs", &both)]);
    assert!(nameless.status == 422 && nameless.text().contains("A reason is needed."), "{}", nameless.text());
    assert_eq!(state(&gateway, &ids[0]), "manual_review");
    let done = submit(&gateway, &target, &fields);
    assert_eq!(leads(&done), "/ui/jobs?state=manual_review&done=requeue");
    assert!(page(&gateway, &leads(&done)).contains("Queued again."));
    let states: Vec<String> = ids.iter().map(|id| state(&gateway, id)).collect();
    assert_eq!(states, ["queued", "queued", "manual_review", "manual_review"]);
    let journal = gateway.halfopen(&["events", "--all", "--json"]);
    assert_eq!(journal.matches("\"jobs_requeued\"").count(), 1, "one entry for both: {journal}");

    // All of a page, of which one is not to be changed any more: the others are, and it is said which was left.
    let whole = format!("/ui/decide?do=discard&whole=1&page={},{},{}", ids[0], ids[2], ids[3]);
    let jobs = format!("{},{},{}", ids[0], ids[2], ids[3]);
    let some = submit(&gateway, &whole, &[("do", "discard"), ("jobs", &jobs), ("reason", "twice")]);
    assert!(some.status == 422 && some.text().contains("Changed: 2. Left as they were: 1."), "{}", some.text());
    assert!(some.text().contains(&format!("{}: a job that is queued cannot be discarded", ids[0])), "{}", some.text());
    assert_eq!([&ids[2], &ids[3]].map(|id| state(&gateway, id)), ["cancelled", "cancelled"]);

    // What cannot be meant is said.
    assert!(page(&gateway, "/ui/decide?do=requeue").contains("No job was chosen."));
    for wrong in ["/ui/decide?do=drop&job=x", "/ui/decide?do=requeue&job=x", "/ui/decide"] {
        assert_eq!(gateway.ask("GET", wrong, &[], "").status, 400, "{wrong}");
    }
    let done = page(&gateway, "/ui/jobs?state=queued");
    assert!(!done.contains("class=\"pick\""), "what no person decides about cannot be chosen: {done}");
}
