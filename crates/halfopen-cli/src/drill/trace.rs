//! Keeps what was seen during one row: what reached the dependency, how calls ended, what the engine stated.

use std::time::Duration;

use halfopen_core::event::State;
use halfopen_core::job::{JobId, JobState};
use halfopen_core::policy::OnOpenAction;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::Class;

/// Everything that was seen.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// Attempts that reached the dependency, in the order of their starts.
    pub(super) sent: Vec<Sent>,
    /// What the engine stated about the drilled dependency.
    pub(super) events: Vec<EventRecord>,
    /// The calls, in the order in which they began.
    pub(super) calls: Vec<Seen>,
    /// Calls in the activation line beside the store, if there is one.
    pub(super) line_calls: Option<u64>,
    /// What the owner was told: the kinds of the alerts that went out, in their order.
    pub(super) told: Vec<String>,
    /// Names under which alerts went out more than once.
    pub(super) told_twice: usize,
    /// How many partitions had a circuit at the end.
    pub(super) partitions: usize,
    /// How often the cheap probe was asked.
    pub(super) cheap_probes: usize,
    /// Whether the store served at the end.
    pub(super) store_good: bool,
    /// What the circuit showed at instants that checks ask for.
    pub(super) looks: Vec<(Timestamp, Option<State>)>,
    /// Whether it had to be broken off.
    pub(super) endless: bool,
    /// When the last thing happened.
    pub(super) ended_at: Timestamp,
}

/// One attempt that reached the dependency.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// When it started.
    pub(super) at: Timestamp,
    /// Whose it was.
    pub(super) call: usize,
    /// Whether its verdict decided about a half-open breaker.
    pub(super) probe: bool,
    /// When it ended.
    pub(super) ended_at: Option<Timestamp>,
    /// Whether the dependency did what was asked.
    pub(super) done: bool,
}

/// One call as it was seen from outside.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// The name of its group.
    pub(super) group: String,
    /// When it began.
    pub(super) began_at: Timestamp,
    /// When it ended, and how.
    pub(super) ended: Option<(Timestamp, End)>,
    /// Its attempts.
    pub(super) attempts: u32,
    /// Its longest single wait.
    pub(super) slept: Duration,
    /// What its last attempt was judged as.
    pub(super) class: Option<Class>,
    /// The job it became.
    pub(super) job: Option<JobId>,
    /// What became of that.
    pub(super) job_state: Option<JobState>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It was done.
    Success,
    /// It was refused, or gave up on what heals, and `on_open` was applied.
    OnOpen(OnOpenAction),
    /// It failed for good.
    Failed,
    /// It may have been executed, and is not sent again.
    Unknown,
    /// Its process went away.
    Left,
}

impl End {
    /// Returns the word used in scenarios.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::OnOpen(_) => "on_open",
            Self::Failed => "failed",
            Self::Unknown => "unknown_end",
            Self::Left => "left",
        }
    }

    /// Returns how a person reads it.
    pub(super) const fn shown(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::OnOpen(action) => action.as_str(),
            Self::Failed => "failed",
            Self::Unknown => "unknown end",
            Self::Left => "left",
        }
    }
}

impl Trace {
    /// Returns the calls of a group with their numbers.
    pub(super) fn group<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (usize, &'a Seen)> + 'a {
        self.calls.iter().enumerate().filter(move |(_, call)| call.group == name)
    }

    /// Returns the attempts of a call.
    pub(super) fn sent_by(&self, call: usize) -> impl Iterator<Item = &Sent> {
        self.sent.iter().filter(move |sent| sent.call == call)
    }
}
