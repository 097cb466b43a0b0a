//! Looks, before anything is run, whether an earlier job must not be doubled or overtaken.
//!
//! A key names one call, whoever makes it: a run with the key of a job is that job, also when the circuit is closed again
//! and the command could simply be run. A queued job is left to its worker; of one that is over the kept output is given
//! again, with its code. A run whose order key has an open job goes behind it, if its policy queues, and is refused
//! otherwise; past it, it would be undone by the earlier one.
//!
//! Nothing is looked for inside a job or another run: there the key belongs to what is already under way.

use std::io::Write as _;

use halfopen::handle::Handle;
use halfopen::handle::jobs::{JobDetail, JobKey};
use halfopen::store::Location;
use halfopen_core::job::{JobId, JobResult, JobState};
use halfopen_core::outcome::Exit;
use halfopen_core::verdict::Class;

use super::RunArgs;
use super::keep;
use super::plan::Plan;
use crate::exit::Final;
use crate::ui;

/// An earlier job that stands before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Earlier {
    /// It has the call's idempotency key: it is the call.
    Same(JobId),
    /// It has the call's order key, and has not ended.
    Before(JobId),
}

/// Returns the earlier job that stands before a call, if one does. A store that cannot be read keeps nobody.
pub(super) fn look(plan: &Plan, args: &RunArgs, handle: &Handle) -> Option<Earlier> {
    if plan.observes() || plan.store == Location::Memory || keep::inside_a_job() || plan.outer.is_some() {
        return None;
    }
    let dependency = &plan.policy.dependency;
    if let Some(key) = &args.idempotency_key {
        let key = JobKey { caller: String::new(), key: key.clone() };
        if let Ok(Some(id)) = handle.job_with_key(dependency, &key) {
            return Some(Earlier::Same(id));
        }
    }
    let order_key = args.order_key.as_ref()?;
    handle.order_held(dependency, order_key).ok().flatten().map(Earlier::Before)
}

/// Gives again what a job that is over gave, and returns how the run ends; `None` if it is not over, or nobody knows any
/// more. `quiet` says nothing beside it.
pub(super) fn given(detail: JobDetail, quiet: bool) -> Option<Final> {
    let JobDetail { view, result, .. } = detail;
    let (id, job) = (view.id, view.job);
    let class = match job.state() {
        JobState::Done => Class::Success,
        JobState::Failed => job.last().map_or(Class::UnknownFailure, |last| last.class),
        JobState::Expired | JobState::Cancelled => {
            if !quiet {
                ui::say_with_hint(
                    &format!("this key belongs to job {id}, which is {} and was not done", job.state()),
                    &format!("halfopen jobs show {id}; a call that is to be made needs a new key"),
                );
            }
            return Some(Final::Refused { end_known: false });
        }
        JobState::Queued | JobState::Running | JobState::ManualReview => return None,
    };
    let (stdout, stderr, exit) = match result {
        Some(JobResult::Command { exit, stdout, stderr, .. }) => (stdout, stderr, exit),
        Some(JobResult::Stated(words)) => ((words + "\n").into_bytes(), String::new(), Exit::Code(0)),
        Some(JobResult::Http { body, .. }) => (body, String::new(), Exit::Code(0)),
        None => (Vec::new(), String::new(), Exit::Code(0)),
    };
    if !quiet {
        ui::say(&format!("this key belongs to job {id}, which is {}; it gave what follows", job.state()));
    }
    ui::raw(&stderr);
    let end = Final::Judged { class, exit };
    let mut out = std::io::stdout().lock();
    match out.write_all(&stdout).and_then(|()| out.flush()) {
        Ok(()) => Some(end),
        Err(error) => Some(Final::OutputLost { reader_gone: error.kind() == std::io::ErrorKind::BrokenPipe }),
    }
}
