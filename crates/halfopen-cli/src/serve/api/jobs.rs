//! Shows jobs, and does with them what an operator decides.
//!
//! A page of jobs costs what is on it, whatever the queue holds. What a job sends is never shown here; what came back is,
//! under `/result`, as the dependency said it.

use std::sync::Arc;
use std::time::Duration;

use halfopen::handle::Handle;
use halfopen::handle::jobs::{JobDetail, JobError, JobView};
use halfopen::store::StoreError;
use halfopen::store::jobs::JobFilter;
use halfopen_core::event::By;
use halfopen_core::job::{JobId, JobState, Reason};
use halfopen_core::policy::Policy;
use http::Response;
use serde_json::{Value, json};

use super::super::body::Body;
use super::super::gateway::Gateway;
use super::super::problem::{Kind, Problem};
use super::super::queue::answer::kept;
use super::ask::{Object, bad, shown, wrong};
use super::circuits::{at_the_store, known, unreadable};
use super::{Asked, answer};
use crate::duration;
use crate::shown::{When, job_document, job_line};

/// The longest words of an operator about a job, in characters.
const RESULT_CHARS_MAX: usize = 10_000;

/// What an operator does with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Requeue,
    Resolve,
    Discard,
    Cancel,
}

/// Answers `GET /jobs`.
pub(super) async fn list(gateway: &Arc<Gateway>, asked: Asked) -> Result<Response<Body>, Problem> {
    let query = &asked.query;
    let state = query.text("state").map(str::parse::<JobState>).transpose();
    let limit = match query.text("limit").map(str::parse::<usize>) {
        None => 100,
        Some(Ok(limit)) if (1..=1000).contains(&limit) => limit,
        Some(_) => {
            return Err(bad(format!(
                "`limit` is `{}`; allowed are 1 to 1000.",
                shown(query.text("limit").unwrap_or(""))
            )));
        }
    };
    let reason = query.text("reason").map(str::parse::<Reason>).transpose();
    let older_than = query.text("older_than").map(duration::parse_positive).transpose();
    let older_than = older_than.map_err(|error| bad(format!("`older_than`: {error}; write it as 90s, 10m or 6h.")))?;
    let mut filter = JobFilter {
        dependency: query.text("dependency").map(str::to_owned),
        state: state.map_err(|error| bad(format!("`state`: {error}.")))?,
        reason: reason.map_err(|error| {
            let known = Reason::ALL.map(Reason::as_str).join(", ");
            bad(format!("`reason`: {}; it is one of {known}.", shown(&error.to_string())))
        })?,
        accepted_before: None,
        after: query.text("after").map(named).transpose()?,
        limit,
    };
    let document = at_the_store(gateway, move |gateway, handle| {
        known(gateway, handle, filter.dependency.as_deref())?;
        filter.accepted_before = older_than.map(|age| handle.clock().now() - age);
        let page = handle.jobs(&filter).map_err(unreadable)?;
        let when = When::read(&handle.clock().read());
        let jobs: Vec<Value> = page.jobs.iter().map(|view| job_line(view, &when)).collect();
        Ok(json!({ "jobs": jobs, "next": page.next.map(|id| id.to_string()) }))
    })
    .await?;
    answer::json(&document)
}

/// Answers `GET /jobs/{id}`.
pub(super) async fn one(gateway: &Arc<Gateway>, asked: Asked) -> Result<Response<Body>, Problem> {
    let id = named(&asked.circuit)?;
    let document = at_the_store(gateway, move |_, handle| {
        let detail = found(handle, id)?;
        Ok(job_document(&detail, &When::read(&handle.clock().read())))
    })
    .await?;
    answer::json(&document)
}

/// Answers `GET /jobs/{id}/result`.
pub(super) async fn result(gateway: &Arc<Gateway>, asked: Asked) -> Result<Response<Body>, Problem> {
    let id = named(&asked.circuit)?;
    let detail = at_the_store(gateway, move |_, handle| found(handle, id)).await?;
    let state = detail.view.job.state();
    kept(detail).ok_or_else(|| {
        Problem::new(Kind::NotFound, format!("Job {id} is {state} and has no answer.")).reason(state.as_str())
    })
}

/// Answers `POST /jobs/{id}/requeue|resolve|discard|cancel`.
pub(super) async fn act(gateway: &Arc<Gateway>, asked: Asked, deed: Deed) -> Result<Response<Body>, Problem> {
    let Asked { circuit, who, request, .. } = asked;
    let id = named(&circuit)?;
    let mut body = Object::read(request.into_body(), r#"{"reason":"the supplier was asked"}"#).await?;
    let by = By { who, reason: body.reason()? };
    let act: Box<Act> = match deed {
        Deed::Requeue => {
            let may_have_run = match body.take("may_have_run") {
                None => false,
                Some(Value::Bool(word)) => word,
                Some(other) => return Err(bad(wrong("may_have_run", &other, "true or false"))),
            };
            let ttl = ttl(body.take("ttl_sec"))?;
            body.end("reason, may_have_run and ttl_sec")?;
            Box::new(move |handle, policy| Ok(handle.requeue_job(id, policy, ttl, may_have_run, &by)?.0))
        }
        Deed::Resolve => {
            let words = match body.take("result") {
                None => None,
                Some(Value::String(words)) if words.chars().count() <= RESULT_CHARS_MAX => Some(words),
                Some(other) => {
                    return Err(bad(wrong(
                        "result",
                        &other,
                        &format!("a text of up to {RESULT_CHARS_MAX} characters"),
                    )));
                }
            };
            body.end("reason and result")?;
            Box::new(move |handle, policy| Ok(handle.resolve_job(id, policy, words.clone(), &by)?.0))
        }
        Deed::Discard => {
            body.end("reason")?;
            Box::new(move |handle, policy| Ok(handle.discard_job(id, policy, &by)?.0))
        }
        Deed::Cancel => {
            body.end("reason")?;
            Box::new(move |handle, policy| Ok(handle.cancel_job(id, policy, &by)?.0))
        }
    };
    let (document, dependency, state) = at_the_store(gateway, move |gateway, handle| {
        let before = found(handle, id)?;
        let dependency = before.view.job.terms().dependency().to_owned();
        let view = act(handle, &gateway.policy_of(&dependency)).map_err(refused)?;
        let mut document = job_line(&view, &When::read(&handle.clock().read()));
        document["before"] = json!({ "state": before.view.job.state().as_str() });
        Ok((document, dependency, view.job.state()))
    })
    .await?;
    if state == JobState::Queued {
        gateway.queue.bell.ring(&dependency);
    }
    answer::json(&document)
}

/// What is done with a job, under the rules of its dependency.
type Act = dyn Fn(&Handle, &Policy) -> Result<JobView, JobError> + Send;

fn found(handle: &Handle, id: JobId) -> Result<JobDetail, Problem> {
    handle.job(id).map_err(unreadable)?.ok_or_else(|| no_such_job(id))
}

fn named(word: &str) -> Result<JobId, Problem> {
    word.parse().map_err(|_| {
        let detail = format!("`{}` is no job id; ids look like `j17-9f3ac2d1`.", shown(word));
        Problem::new(Kind::NotFound, detail)
    })
}

fn no_such_job(id: JobId) -> Problem {
    Problem::new(Kind::NotFound, format!("There is no job {id}; ended jobs are kept for `queue.keep_done_hours`."))
}

pub(super) fn ttl(value: Option<Value>) -> Result<Option<Duration>, Problem> {
    let Some(value) = value else { return Ok(None) };
    let longest = duration::LONGEST;
    let read = value.as_f64().filter(|seconds| *seconds > 0.0).map(Duration::try_from_secs_f64);
    match read {
        Some(Ok(ttl)) if ttl <= longest && !ttl.is_zero() => Ok(Some(ttl)),
        Some(_) | None => {
            Err(bad(wrong("ttl_sec", &value, &format!("a number of seconds above 0, at most {}", longest.as_secs()))))
        }
    }
}

pub(in crate::serve) fn refused(error: JobError) -> Problem {
    match error {
        JobError::NoSuchJob(id) => no_such_job(id),
        JobError::Store(StoreError::Full { .. }) => Problem::new(Kind::StorageFull, "Nothing was changed."),
        JobError::Store(error) => {
            Problem::new(Kind::NotDurable, format!("The store cannot be written, so nothing was changed: {error}."))
                .reason("store_unwritable")
        }
        // What its state does not allow; who and why are told in the error's own words.
        error => Problem::new(Kind::WrongState, format!("{error}. Nothing was changed.")),
    }
}
