//! What callers were promised, what was executed, and whether the two agree.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use halfopen::handle::Handle;
use halfopen::handle::jobs::JobDetail;
use halfopen_core::job::{JobId, JobState};

use crate::faults::Fault;

/// How a call came out for its caller.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) invoice: String,
    /// Whether the dependency declares that a second time does no harm.
    pub(crate) repeatable: bool,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// Acknowledged as a job: 202, or exit 79.
    Kept(JobId),
    /// Done at once: 200, or exit 0.
    Done,
    /// Anything else, nothing included.
    Other,
}

/// What all callers of a world were told.
#[derive(Debug, Default)]
pub(crate) struct Books(Mutex<Vec<Told>>);

impl Books {
    pub(crate) fn note(&self, told: Told) {
        self.0.lock().unwrap().push(told);
    }

    /// Holds what was told against what was executed and what the store says.
    pub(crate) fn balance(&self, door: &Handle, executed: &BTreeMap<String, usize>) -> Vec<String> {
        let mut wrong = Vec::new();
        let told = self.0.lock().unwrap();
        for told in told.iter() {
            let times = executed.get(&told.invoice).copied().unwrap_or(0);
            let mut find = |what: String| wrong.push(format!("{}: {what}; executed {times} times", told.invoice));
            if times > 1 && !told.repeatable {
                find(format!("done twice, its caller was told {:?}", told.outcome));
            }
            match &told.outcome {
                Outcome::Done if times == 0 => find("its caller was told that it is done".to_owned()),
                Outcome::Done | Outcome::Other => {}
                Outcome::Kept(id) => match door.job(*id) {
                    Ok(Some(detail)) => {
                        if let Some(what) = disagreement(&detail, times) {
                            find(format!("job {id} {what}\n{:#?}", detail.history));
                        }
                    }
                    Ok(None) => find(format!("job {id} was acknowledged and is not there")),
                    Err(error) => find(format!("job {id} cannot be read: {error}")),
                },
            }
        }
        wrong
    }

    pub(crate) fn count(&self) -> (usize, usize) {
        let told = self.0.lock().unwrap();
        let kept = told.iter().filter(|told| matches!(told.outcome, Outcome::Kept(_))).count();
        (kept, told.len())
    }
}

/// Returns why a job's state is not what its executions allow, if it is not.
fn disagreement(detail: &JobDetail, times: usize) -> Option<&'static str> {
    let job = &detail.view.job;
    match job.state() {
        JobState::Done if times == 0 => Some("is done"),
        JobState::Done => None,
        JobState::ManualReview if times > 0 && !job.may_have_run() => {
            Some("waits for a person who is not told that it may have been executed")
        }
        JobState::ManualReview => None,
        JobState::Queued | JobState::Running => Some("still waits"),
        JobState::Failed | JobState::Expired | JobState::Cancelled if times > 0 => {
            Some("ended as if nothing had happened")
        }
        JobState::Failed | JobState::Cancelled => Some("ended by nobody's word"),
        JobState::Expired => None,
    }
}

/// The figures of all rounds.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    pub(crate) rounds: BTreeMap<Fault, usize>,
    pub(crate) calls: usize,
    pub(crate) acknowledged: usize,
    pub(crate) executed: usize,
    pub(crate) done: u64,
    pub(crate) in_review: u64,
    pub(crate) kills: usize,
    /// Of them, so many died inside a write.
    pub(crate) in_writes: usize,
}

impl Sum {
    pub(crate) fn add(&mut self, fault: Fault, round: Self) {
        *self.rounds.entry(fault).or_default() += 1;
        self.calls += round.calls;
        self.acknowledged += round.acknowledged;
        self.executed += round.executed;
        self.done += round.done;
        self.in_review += round.in_review;
        self.kills += round.kills;
        self.in_writes += round.in_writes;
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, calls, acknowledged, executed, done, in_review, kills, in_writes } = self;
        write!(
            f,
            "{calls} calls, {acknowledged} acknowledged, {executed} executions, {done} jobs done, {in_review} for a \
             person, {kills} processes killed, {in_writes} of them inside a write; {rounds:?}"
        )
    }
}
