//! Invoices, the jobs they became, and what was made of them: what all tests of the queue ask.

use std::collections::BTreeMap;
use std::path::PathBuf;

use halfopen::handle::Handle;
use halfopen::handle::jobs::AuditReport;
use halfopen::store::Location;
use halfopen_core::policy::{Policy, Surface};
use serde_json::Value;

use crate::client::Answer;
use crate::stub::{Reply, Stub};
use crate::world::{Gateway, gateway, until};

/// Keys of a policy that queues, with times a test can wait for.
pub(crate) fn queueing(more: &str) -> String {
    format!("on_open: {{ action: queue, queue_ttl_min: 30, user_message: processing_delayed }}\n{more}")
}

/// A breaker that opens at the first failure, for so many seconds.
pub(crate) fn opens_for(seconds: f64) -> String {
    format!(
        "circuit: {{ open_after_failures: 1, open_for_sec: {seconds}, half_open_max_calls: 2, \
         close_after_successes: 2 }}"
    )
}

/// Starts a gateway whose dependency has just gone: its breaker is open.
pub(crate) fn opened(stub: &Stub, keys: &str) -> Gateway {
    let gateway = gateway(stub, keys);
    trip(stub, &gateway);
    gateway
}

/// Lets one call fail, and waits until the breaker is open. Its end is unknown, so it is not queued itself.
pub(crate) fn trip(stub: &Stub, gateway: &Gateway) {
    stub.then([Reply::new().reset()]);
    let answer = gateway.post("/d/up/trip", "{}");
    assert_eq!(answer.problem(), "outcome_unknown", "{}", answer.text());
    gateway.becomes("up", "open");
}

/// Sends an invoice.
pub(crate) fn send(gateway: &Gateway, invoice: &str, fields: &[(&str, &str)]) -> Answer {
    let mut all = vec![("content-type", "application/json")];
    all.extend(fields);
    gateway.call("POST", "/d/up/invoices", &all, format!("{{\"invoice\":\"{invoice}\"}}").as_bytes())
}

/// Sends an invoice that must be queued; returns its job.
pub(crate) fn queue(gateway: &Gateway, invoice: &str) -> String {
    let answer = send(gateway, invoice, &[]);
    assert_eq!(answer.status, 202, "{}\n{}", answer.head, answer.text());
    answer.json()["id"].as_str().map(str::to_owned).unwrap_or_else(|| panic!("{}", answer.text()))
}

/// Returns what is told about a job.
pub(crate) fn job(gateway: &Gateway, id: &str) -> Value {
    let answer = gateway.ask("GET", &format!("/jobs/{id}"), &[], "");
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

pub(crate) fn state(gateway: &Gateway, id: &str) -> String {
    word(&job(gateway, id)["state"])
}

pub(crate) fn word(value: &Value) -> String {
    value.as_str().map(str::to_owned).unwrap_or_else(|| panic!("no word: {value}"))
}

/// Waits until a job is in a state.
pub(crate) fn becomes(gateway: &Gateway, id: &str, wanted: &str) -> Value {
    until(&format!("{id} is {wanted}"), || state(gateway, id) == wanted);
    job(gateway, id)
}

/// Waits until all jobs are done.
pub(crate) fn all_done(gateway: &Gateway, ids: &[String]) {
    for id in ids {
        becomes(gateway, id, "done");
    }
}

/// Returns how often the dependency got each invoice, by what stood in its body.
pub(crate) fn invoices(stub: &Stub) -> BTreeMap<String, usize> {
    let mut seen = BTreeMap::new();
    for request in stub.seen() {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        if let Some(invoice) = body["invoice"].as_str() {
            *seen.entry(invoice.to_owned()).or_default() += 1;
        }
    }
    seen
}

/// Returns the invoices in the order in which the dependency got them.
pub(crate) fn order(stub: &Stub) -> Vec<String> {
    let body = |body: &[u8]| serde_json::from_slice::<Value>(body).ok();
    let seen = stub.seen();
    seen.iter().filter_map(|seen| body(&seen.body)?["invoice"].as_str().map(str::to_owned)).collect()
}

/// Where the store of a gateway lies.
pub(crate) fn store_file(gateway: &Gateway) -> PathBuf {
    gateway.files().into_iter().map(|(path, _)| path).find(|path| path.ends_with("halfopen.db")).unwrap_or_default()
}

/// Opens a gateway's store as another process does.
pub(crate) fn door(gateway: &Gateway) -> Handle {
    match Handle::open(&Location::Sqlite(store_file(gateway))) {
        Ok(handle) => handle,
        Err(error) => panic!("{error}"),
    }
}

/// Audits a gateway's store, after time has passed for it.
pub(crate) fn audited(gateway: &Gateway) -> AuditReport {
    let handle = door(gateway);
    let swept = handle.sweep(&|dependency| Policy::built_in(dependency, Surface::Serve));
    match swept.and_then(|_| handle.audit()) {
        Ok(report) => {
            assert!(report.is_good(), "{:?}", report.wrong);
            report
        }
        Err(error) => panic!("{error}"),
    }
}
