//! `halfopen jobs requeue|resolve|discard|cancel`: what an operator decides.

use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen::handle::Handle;
use halfopen::handle::jobs::{JobError, JobView};
use halfopen_core::event::By;
use halfopen_core::job::{JobId, JobState};
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::EventRecord;
use serde_json::{Value, json};

use super::super::place::{self, Place};
use super::super::remote::{At, Remote};
use super::super::{Done, OK, out, steer};
use super::{known, refused};
use crate::duration::parse_positive;
use crate::shown::{When, job_line};
use crate::ui;

/// What all decisions take.
#[derive(Clone, Debug, Args)]
pub struct Deciding {
    /// The job
    #[arg(value_name = "ID")]
    pub id: JobId,
    /// Why, for its history and the journal
    #[arg(long, env = "HALFOPEN_REASON", value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
    /// Print the job as a JSON object
    #[arg(long, env = "HALFOPEN_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Which gateway is asked, if one is.
    #[command(flatten)]
    pub at: At,
}

impl Deciding {
    /// Returns what a gateway is told.
    pub(super) fn body(&self) -> Value {
        json!({ "reason": self.reason })
    }
}

/// Arguments of `halfopen jobs requeue`.
#[derive(Debug, Args)]
pub struct RequeueArgs {
    /// Which, and why
    #[command(flatten)]
    pub deciding: Deciding,
    /// Also if an attempt of it may have been executed: a second time does no harm
    #[arg(long, env = "HALFOPEN_MAY_HAVE_RUN", value_parser = BoolishValueParser::new())]
    pub may_have_run: bool,
    /// How long it is worth doing from now on [default: as when it was accepted]
    #[arg(long, env = "HALFOPEN_TTL", value_name = "DURATION", value_parser = |w: &str| parse_positive(w))]
    pub ttl: Option<Duration>,
}

impl RequeueArgs {
    /// Returns what a gateway is told.
    pub(super) fn body(&self) -> Value {
        let mut body = self.deciding.body();
        body["may_have_run"] = self.may_have_run.into();
        body["ttl_sec"] = json!(self.ttl.map(|ttl| ttl.as_secs_f64()));
        body
    }
}

/// Arguments of `halfopen jobs resolve`.
#[derive(Debug, Args)]
pub struct ResolveArgs {
    /// Which, and why
    #[command(flatten)]
    pub deciding: Deciding,
    /// What came of it; kept as the job's result
    #[arg(long, env = "HALFOPEN_RESULT", value_name = "TEXT")]
    pub result: Option<String>,
}

impl ResolveArgs {
    /// Returns what a gateway is told.
    pub(super) fn body(&self) -> Value {
        let mut body = self.deciding.body();
        body["result"] = json!(self.result);
        body
    }
}

/// Arguments of `halfopen jobs discard`.
#[derive(Debug, Args)]
pub struct DiscardArgs {
    /// Which, and why
    #[command(flatten)]
    pub deciding: Deciding,
}

/// Arguments of `halfopen jobs cancel`.
#[derive(Debug, Args)]
pub struct CancelArgs {
    /// Which, and why
    #[command(flatten)]
    pub deciding: Deciding,
}

/// How a decision ends.
type Decided = Result<(JobView, Vec<EventRecord>), JobError>;

pub(super) fn requeue(place: &Place, args: &RequeueArgs) -> Done {
    decide(place, &args.deciding, |handle, policy, by| {
        handle.requeue_job(args.deciding.id, policy, args.ttl, args.may_have_run, by)
    })
}

pub(super) fn resolve(place: &Place, args: &ResolveArgs) -> Done {
    decide(place, &args.deciding, |handle, policy, by| {
        handle.resolve_job(args.deciding.id, policy, args.result.clone(), by)
    })
}

pub(super) fn discard(place: &Place, args: &DiscardArgs) -> Done {
    decide(place, &args.deciding, |handle, policy, by| handle.discard_job(args.deciding.id, policy, by))
}

pub(super) fn cancel(place: &Place, args: &CancelArgs) -> Done {
    decide(place, &args.deciding, |handle, policy, by| handle.cancel_job(args.deciding.id, policy, by))
}

fn decide(place: &Place, args: &Deciding, change: impl FnOnce(&Handle, &Policy, &By) -> Decided) -> Done {
    let handle = place.open()?;
    let detail = known(place, &handle, args.id)?;
    let policy = place.policy(detail.view.job.terms().dependency());
    let by = By { who: steer::who(), reason: args.reason.clone() };
    let (view, _) = change(&handle, &policy, &by).map_err(|error| refused(place, args.id, error))?;
    let when = place::when(&handle);
    let mut job = job_line(&view, &when);
    job["before"] = json!({ "state": detail.view.job.state().as_str() });
    told(args, &job, &when)
}

/// Has a running gateway decide.
pub(super) fn of_gateway(gateway: &Remote, args: &Deciding, deed: &str, body: &Value) -> Done {
    let job = gateway.change(&format!("/jobs/{}/{deed}", args.id), body)?;
    told(args, &job, &When::of_reader())
}

/// Says what became of a job.
fn told(args: &Deciding, job: &Value, when: &When) -> Done {
    if args.json {
        out::json(job)?;
        return OK;
    }
    let state = job["state"].as_str().unwrap_or_default();
    let expires = job["expires_at"].as_str().and_then(|at| when.read_rfc3339(at));
    let until = expires.filter(|_| state == JobState::Queued.as_str());
    let until = until.map(|at| format!(", expires {}", when.both(at))).unwrap_or_default();
    let before = job["before"]["state"].as_str().unwrap_or_default();
    ui::say(&format!("job {} was {before} and is {state}{until}", args.id));
    OK
}
