//! `halfopen jobs requeue|resolve|discard|cancel`: what an operator decides. Here about one job; about several, and about
//! all that filters leave, in `many.rs`.

use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen::handle::Handle;
use halfopen::handle::jobs::Deed;
use halfopen_core::event::By;
use halfopen_core::job::{JobId, JobState};
use serde_json::{Value, json};

use super::super::place::{self, Place};
use super::super::remote::At;
use super::super::{Done, OK, out, steer};
use super::choose::{Choice, Source};
use super::{known, many, refused};
use crate::duration::parse_positive;
use crate::shown::{When, job_line};
use crate::ui;

/// What all decisions take.
#[derive(Clone, Debug, Args)]
pub struct Deciding {
    /// Which jobs.
    #[command(flatten)]
    pub choice: Choice,
    /// Why, for the journal and for whoever asks
    #[arg(long, env = "HALFOPEN_REASON", value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
    /// Print a JSON object: the job, or of several what became of them
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
    #[arg(long, env = "HALFOPEN_REQUEUE_TTL", value_name = "DURATION", value_parser = |w: &str| parse_positive(w))]
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

/// Decides about the chosen jobs, in the store or by way of a gateway.
pub(super) fn run(source: &Source<'_>, args: &Deciding, deed: &Deed, body: &Value) -> Done {
    let choice = many::narrowed(&args.choice, deed)?;
    match (choice.ids.as_slice(), source) {
        ([_], _) if choice.dry_run => many::run(source, args, &choice, deed, body),
        ([id], Source::Store(place, handle)) => one(place, handle, args, *id, deed),
        ([id], Source::Gateway(gateway)) => {
            let job = gateway.change(&format!("/jobs/{id}/{}", many::verb(deed)), body)?;
            told(args, *id, &job, &When::of_reader())
        }
        _ => many::run(source, args, &choice, deed, body),
    }
}

fn one(place: &Place, handle: &Handle, args: &Deciding, id: JobId, deed: &Deed) -> Done {
    let detail = known(place, handle, id)?;
    let policy = place.policy(detail.view.job.terms().dependency());
    let by = By { who: steer::who(), reason: args.reason.clone() };
    let changed = match deed.clone() {
        Deed::Requeue { ttl, may_have_run } => handle.requeue_job(id, &policy, ttl, may_have_run, &by),
        Deed::Resolve { result } => handle.resolve_job(id, &policy, result, &by),
        Deed::Discard => handle.discard_job(id, &policy, &by),
        Deed::Cancel => handle.cancel_job(id, &policy, &by),
    };
    let (view, _) = changed.map_err(|error| refused(place, id, error))?;
    let when = place::when(handle);
    let mut job = job_line(&view, &when);
    job["before"] = json!({ "state": detail.view.job.state().as_str() });
    told(args, id, &job, &when)
}

/// Says what became of a job.
fn told(args: &Deciding, id: JobId, job: &Value, when: &When) -> Done {
    if args.json {
        out::json(job)?;
        return OK;
    }
    let state = job["state"].as_str().unwrap_or_default();
    let expires = job["expires_at"].as_str().and_then(|at| when.read_rfc3339(at));
    let until = expires.filter(|_| state == JobState::Queued.as_str());
    let until = until.map(|at| format!(", expires {}", when.both(at))).unwrap_or_default();
    let before = job["before"]["state"].as_str().unwrap_or_default();
    ui::say(&format!("job {id} was {before} and is {state}{until}"));
    OK
}
