//! Shows jobs: the documents that the API gives and `--json` prints, so that both say the same.
//!
//! Requests are never part of them: what a job sends may be anybody's business but an operator's. Evidence is redacted
//! when it is kept.

use halfopen::handle::jobs::{JobDetail, JobView};
use halfopen_core::job::{Entry, JobRequest, JobResult};
use halfopen_core::outcome::Exit;
use halfopen_core::redact;
use serde_json::{Value, json};

use super::When;
use crate::ui;

/// Says what a job does, in one line without secrets.
pub(crate) fn does(request: &JobRequest) -> String {
    match request {
        JobRequest::Http(http) => redact::line(&format!("{} {}", http.method, http.target)),
        JobRequest::Command(command) => {
            let words: Vec<String> =
                command.argv.iter().map(|word| ui::shell_word(&String::from_utf8_lossy(word))).collect();
            redact::line(&words.join(" "))
        }
    }
}

/// Returns one job as it stands in a list.
pub(crate) fn job_line(view: &JobView, when: &When) -> Value {
    let job = &view.job;
    let terms = job.terms();
    json!({
        "id": view.id.to_string(),
        "dependency": terms.dependency(),
        "circuit": terms.place.to_string(),
        "account": terms.account.as_ref().map(ToString::to_string),
        "state": job.state().as_str(),
        "reason": job.reason().map(|reason| reason.as_str()),
        "caller": view.caller,
        "idempotency_key": view.key,
        "accepted_at": when.rfc3339(job.accepted_at()),
        "expires_at": when.rfc3339(job.expires_at()),
        "not_before": job.not_before().map(|at| when.rfc3339(at)),
        "ended_at": job.ended_at().map(|at| when.rfc3339(at)),
        "attempts": job.attempts(),
        "sent": job.sent(),
        "may_have_run": job.may_have_run(),
        "bytes": view.bytes,
        "last": job.last().map(|last| json!({
            "at": when.rfc3339(last.at),
            "class": last.class.as_str(),
            "rule": last.rule,
            "excerpt": last.excerpt,
        })),
    })
}

/// Returns everything that is known about one job, but what it sends and the body that came back.
pub(crate) fn job_document(detail: &JobDetail, when: &When) -> Value {
    let job = &detail.view.job;
    let mut document = job_line(&detail.view, when);
    document["ttl_sec"] = job.terms().ttl.as_secs_f64().into();
    document["on_expiry"] = match job.terms().on_expiry {
        halfopen_core::policy::OnExpiry::ManualReview => "manual_review",
        halfopen_core::policy::OnExpiry::Expired => "expired",
    }
    .into();
    document["lease"] = job
        .lease()
        .map_or(Value::Null, |(worker, ends_at)| json!({ "worker": worker, "ends_at": when.rfc3339(ends_at) }));
    document["interrupted"] = job.interrupted().into();
    document["failed_probes"] = job.failed_probes().into();
    document["history"] = detail.history.iter().map(|entry| entry_of(entry, when)).collect();
    document["result"] = detail.result.as_ref().map_or(Value::Null, result_of);
    document
}

fn entry_of(entry: &Entry, when: &When) -> Value {
    json!({
        "at": when.rfc3339(entry.at),
        "what": entry.what.as_str(),
        "from": entry.from.map(|state| state.as_str()),
        "to": entry.to.as_str(),
        "reason": entry.reason.map(|reason| reason.as_str()),
        "grant": entry.grant,
        "worker": entry.worker,
        "charged": entry.charged,
        "class": entry.class.map(|class| class.as_str()),
        "note": entry.note,
        "retry_at": entry.retry_at.map(|at| when.rfc3339(at)),
        "by": entry.by.as_ref().map(|by| json!({ "who": by.who, "reason": by.reason })),
    })
}

fn result_of(result: &JobResult) -> Value {
    match result {
        JobResult::Http { status, headers, body, cut } => {
            let media = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
            json!({
                "kind": "http",
                "status": status,
                "content_type": media.map(|(_, value)| String::from_utf8_lossy(value).into_owned()),
                "bytes": body.len(),
                "cut": cut,
            })
        }
        JobResult::Command { exit, stdout, cut, took, .. } => {
            let (ended, code, signal) = match exit {
                Exit::Code(code) => ("exited", Some(*code), None),
                Exit::Signal(signal) => ("signalled", None, Some(*signal)),
                Exit::TimedOut => ("timed_out", None, None),
                Exit::Cancelled => ("cancelled", None, None),
                Exit::NotFound => ("not_found", Some(127), None),
                Exit::NotExecutable => ("not_executable", Some(126), None),
            };
            json!({
                "kind": "command",
                "ended": ended,
                "code": code,
                "signal": signal,
                "bytes": stdout.len(),
                "cut": cut,
                "took_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            })
        }
        JobResult::Stated(words) => json!({ "kind": "stated", "words": words }),
    }
}
