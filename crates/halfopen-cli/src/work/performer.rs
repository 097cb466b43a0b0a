//! What a worker asks of the surface it works for.
//!
//! An attempt has two halves, and the worker notes it between them: [`Performer::prepare`] gets ready everything that
//! can be ready without anything leaving this machine, and the [`Attempt`] it returns sends. So no performer can forget
//! the note, and a missing credential is found before an attempt counts as sent.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use halfopen::handle::jobs::{Ended, Ending, Lease};
use halfopen_core::job::{Admitted, JobKind, JobRequest, Sent};
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::verdict::Verdict;

use super::Stop;

/// Something under way.
pub(crate) type Doing<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// An attempt that is ready to be sent. It must end by itself within the policy's times, and when it is told to leave.
pub(crate) type Attempt = Box<dyn FnOnce(Stop) -> Doing<Performed> + Send>;

/// Performs jobs for a surface.
pub(crate) trait Performer: std::fmt::Debug + Send + Sync + 'static {
    /// Returns the rules of a dependency, as they are in force now.
    fn policy(&self, dependency: &str) -> Arc<Policy>;

    /// Answers whether jobs of a dependency can be performed here at all. Asked before each claim, so that what cannot
    /// be done is not taken.
    ///
    /// # Errors
    ///
    /// What is missing.
    fn fit(&self, dependency: &str) -> Result<(), Fault>;

    /// Returns whether a dependency was there for a while only, and is no more: nobody waits for its jobs.
    fn is_over(&self, _dependency: &str) -> bool {
        false
    }

    /// Returns the kinds of jobs of a dependency that can be performed here. No other is claimed.
    fn kinds(&self, dependency: &str) -> Vec<JobKind>;

    /// Gets an attempt ready. Nothing of it leaves this machine, and nothing is executed.
    fn prepare(self: Arc<Self>, assigned: Assigned) -> Doing<Result<Attempt, Unready>>;

    /// Hears what became of jobs, to count it.
    fn hear(&self, dependency: &str, news: &News<'_>);
}

/// A job that is to be performed.
#[derive(Debug)]
pub(crate) struct Assigned {
    /// The right to it.
    pub(crate) lease: Lease,
    /// What it sends.
    pub(crate) request: JobRequest,
    /// The rules of its dependency at the claim.
    pub(crate) policy: Arc<Policy>,
}

/// Why this worker cannot perform: its own fault, which touches no job. It must hold no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Fault(pub(crate) String);

/// Why an attempt did not get ready.
#[derive(Debug)]
pub(crate) enum Unready {
    /// By the worker's own fault.
    Fault(Fault),
    /// The policy's cheap probe failed the round; nothing of the job was sent.
    Judged(Box<Verdict>),
}

/// What became of an attempt.
#[derive(Debug)]
pub(crate) enum Performed {
    /// It ended.
    Ended(Box<Ending>),
    /// It was left, because it was told to.
    Left(Sent),
}

/// What is heard of jobs.
#[derive(Debug)]
pub(crate) enum News<'a> {
    /// One was claimed.
    Claimed {
        /// So long after it was accepted.
        age: Duration,
        /// How the attempt was admitted.
        admitted: Admitted,
    },
    /// An attempt of one ended, or it was given back; the verdict is there if it was judged.
    Ended(&'a Ended, Option<&'a Verdict>),
    /// Time changed something.
    Swept(&'a [&'a EventRecord]),
}
