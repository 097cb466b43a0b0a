//! `halfopen jobs`: looks at what was queued, and decides what only a person may decide.
//!
//! Every change asks who and takes why; both are kept in the job's history and told to the journal. With `--url` a running
//! gateway is asked; what is shown is made of the same documents either way.

pub mod choose;
pub mod decide;
pub mod list;
mod many;
pub mod output;
pub mod show;

use clap::{Args, Subcommand};
use halfopen::handle::Handle;
use halfopen::handle::jobs::{Deed, JobDetail, JobError};
use halfopen_core::job::{IllegalStep, JobId, JobState};

use super::place::{self, Place};
use super::remote::{At, Remote};
use super::{Done, Failure};
use crate::args::Shared;
use crate::exit;
use choose::Source;

/// Arguments of `halfopen jobs`.
#[derive(Debug, Args)]
pub struct JobsArgs {
    /// What to do
    #[command(subcommand)]
    pub command: JobsCommand,
}

/// What can be done with jobs.
#[derive(Debug, Subcommand)]
pub enum JobsCommand {
    /// List jobs, oldest first
    List(list::ListArgs),
    /// Show one job with its history
    Show(show::ShowArgs),
    /// Print what a job gave: a command's output, an HTTP answer's body, an operator's words
    Output(output::OutputArgs),
    /// Make jobs queued again, with a new time to live and fresh attempts
    Requeue(decide::RequeueArgs),
    /// Say what became of jobs: they count as done
    Resolve(decide::ResolveArgs),
    /// End jobs that failed, expired or wait for a person
    Discard(decide::DiscardArgs),
    /// End jobs that are not over
    Cancel(decide::CancelArgs),
}

pub(super) fn run(shared: &Shared, args: &JobsArgs) -> Done {
    if let Some(gateway) = Remote::named(args.at())? {
        return of_gateway(&gateway, args);
    }
    let place = Place::find(shared)?;
    match &args.command {
        JobsCommand::List(args) => list::run(&place, args),
        JobsCommand::Show(args) => show::run(&place, args),
        JobsCommand::Output(args) => output::run(&place, args),
        JobsCommand::Requeue(_) | JobsCommand::Resolve(_) | JobsCommand::Discard(_) | JobsCommand::Cancel(_) => {
            args.decide(&Source::Store(&place, &place.open_existing()?))
        }
    }
}

impl JobsArgs {
    fn at(&self) -> &At {
        match &self.command {
            JobsCommand::List(args) => &args.at,
            JobsCommand::Show(args) => &args.at,
            JobsCommand::Output(args) => &args.at,
            JobsCommand::Requeue(args) => &args.deciding.at,
            JobsCommand::Resolve(args) => &args.deciding.at,
            JobsCommand::Discard(args) => &args.deciding.at,
            JobsCommand::Cancel(args) => &args.deciding.at,
        }
    }
}

impl JobsArgs {
    /// Carries out a decision; what only looks is none.
    fn decide(&self, source: &Source<'_>) -> Done {
        match &self.command {
            JobsCommand::Requeue(args) => {
                let deed = Deed::Requeue { ttl: args.ttl, may_have_run: args.may_have_run };
                decide::run(source, &args.deciding, &deed, &args.body())
            }
            JobsCommand::Resolve(args) => {
                let deed = Deed::Resolve { result: args.result.clone() };
                decide::run(source, &args.deciding, &deed, &args.body())
            }
            JobsCommand::Discard(args) => decide::run(source, &args.deciding, &Deed::Discard, &args.deciding.body()),
            JobsCommand::Cancel(args) => decide::run(source, &args.deciding, &Deed::Cancel, &args.deciding.body()),
            JobsCommand::List(_) | JobsCommand::Show(_) | JobsCommand::Output(_) => super::OK,
        }
    }
}

/// Asks a running gateway.
fn of_gateway(gateway: &Remote, args: &JobsArgs) -> Done {
    match &args.command {
        JobsCommand::List(args) => list::of_gateway(gateway, args),
        JobsCommand::Show(args) => show::of_gateway(gateway, args),
        JobsCommand::Output(args) => output::of_gateway(gateway, args),
        JobsCommand::Requeue(_) | JobsCommand::Resolve(_) | JobsCommand::Discard(_) | JobsCommand::Cancel(_) => {
            args.decide(&Source::Gateway(gateway))
        }
    }
}

/// Returns a job with all that is known about it.
fn known(place: &Place, handle: &Handle, id: JobId) -> Result<JobDetail, Failure> {
    handle.job(id).map_err(place::store_failure)?.ok_or_else(|| unknown(place, id))
}

fn unknown(place: &Place, id: JobId) -> Failure {
    Failure::new(exit::USAGE, JobError::NoSuchJob(id)).hint(format!(
        "halfopen jobs list shows those of {}; one that has ended is kept for queue.keep_done_hours",
        place.store
    ))
}

/// Returns why a change of a job was refused, and what can be done instead.
fn refused(place: &Place, id: JobId, error: JobError) -> Failure {
    let hint = match &error {
        JobError::NoSuchJob(_) => return unknown(place, id),
        JobError::Store(_) => return Failure::new(exit::IO, error),
        JobError::Illegal(IllegalStep::MayHaveRun) => format!(
            "look whether it was done: halfopen jobs show {id}; then `halfopen jobs resolve {id}`, or `halfopen jobs \
             requeue {id} --may-have-run` if a second time does no harm"
        ),
        JobError::Illegal(IllegalStep::WrongState { state, .. }) => possible(id, *state),
        _ => format!("halfopen jobs show {id}"),
    };
    Failure::new(exit::FOUND, format!("job {id}: {error}")).hint(hint)
}

/// Says what can be done with a job in a state.
fn possible(id: JobId, state: JobState) -> String {
    match state {
        JobState::Queued | JobState::Running => format!("halfopen jobs cancel {id} is possible"),
        JobState::Failed | JobState::Expired | JobState::ManualReview => {
            format!("halfopen jobs requeue, resolve or discard {id} is possible")
        }
        JobState::Done => format!("nothing is left to decide; halfopen jobs output {id} prints its result"),
        JobState::Cancelled => "nothing is left to decide".to_owned(),
    }
}
