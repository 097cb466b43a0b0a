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

use super::super::place::{self, Place};
use super::super::{Done, OK, out, steer};
use super::{known, refused};
use crate::duration::parse_positive;
use crate::shown::job_line;
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
    if args.json {
        out::json(&job_line(&view, &when))?;
        return OK;
    }
    let until = if view.job.state() == JobState::Queued {
        format!(", expires {}", when.both(view.job.expires_at()))
    } else {
        String::new()
    };
    ui::say(&format!("job {} was {} and is {}{until}", view.id, detail.view.job.state(), view.job.state()));
    OK
}
