//! Holds what is seen of one row while it is played in real time: the scenario's instants, what reached the stand-in, what
//! callers got, what the journal says.
//!
//! Time is the clock that the gateway keeps its deadlines by: the gateway says how it stands to the wall clock, and from
//! then on it is counted by the clock of this process, so that no step of the wall clock is seen. Nothing here is known
//! that cannot be seen from outside; what an attempt was (a probe or not) follows from where in the journal it falls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;
use serde_json::Value;
use tokio::sync::Notify;

use super::super::DrillError;
use super::super::caller::lasting;
use super::super::quantity::{Names, Quantity};
use super::super::rehearsal::{Rehearsal, note};
use super::super::scenario::Scenario;
use super::super::spoken::{Meaning, Stated};
use super::super::trace::{Seen, Sent, Trace};
use super::super::world::{PlayError, current};
use super::gateway::Gateway;

/// The clock that the gateway keeps deadlines by, as this process counts it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    read_at: Instant,
    wall_ms: i64,
    steady_ms: i64,
}

impl Clock {
    /// Reads both names of one instant out of what a gateway says; `None` if they are not there.
    pub(super) fn of(document: &Value) -> Option<Self> {
        let at: jiff::Timestamp = document["at"].as_str()?.parse().ok()?;
        let wall_ms = jiff::Timestamp::now().as_millisecond();
        let ahead = document["steady_ms"].as_i64()?.saturating_sub(at.as_millisecond());
        Some(Self { read_at: Instant::now(), wall_ms, steady_ms: wall_ms.saturating_add(ahead) })
    }

    /// Returns the instant.
    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.steady_ms) + self.read_at.elapsed()
    }

    /// Returns the wall clock.
    fn wall_ms(&self) -> i64 {
        self.wall_ms.saturating_add(i64::try_from(self.read_at.elapsed().as_millis()).unwrap_or(0))
    }

    /// Returns an instant that is written in RFC 3339.
    fn read(&self, text: &str) -> Option<Timestamp> {
        let at: jiff::Timestamp = text.parse().ok()?;
        let ahead = self.steady_ms.saturating_sub(self.wall_ms);
        Some(Timestamp::from_millis(at.as_millisecond().saturating_add(ahead)))
    }
}

/// A shadow that was made for a row.
#[derive(Clone, Debug)]
pub(super) struct Shadow {
    /// Its name.
    pub(super) name: String,
    /// Where it is called.
    pub(super) path: String,
}

/// One row as it is played.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) scenario: Arc<Scenario>,
    pub(super) rehearsal: Arc<Rehearsal>,
    pub(super) gateway: Arc<Gateway>,
    /// The shadow that is drilled.
    pub(super) shadow: Shadow,
    /// Those of other dependencies that the scenario calls.
    pub(super) others: BTreeMap<String, Shadow>,
    pub(super) clock: Clock,
    pub(super) began: Timestamp,
    noted: Mutex<Noted>,
    /// Something was seen that may be waited for.
    pub(super) changed: Notify,
    /// Somebody should look at the journal.
    pub(super) look: Notify,
}

/// What was seen so far.
#[derive(Debug)]
pub(super) struct Noted {
    pub(super) trace: Trace,
    pub(super) names: Names,
    happened: [usize; 6],
    /// How many entries of the journal are known.
    read: usize,
    /// Of which group each call is.
    pub(super) groups: Vec<usize>,
    /// Calls that the scenario left without an answer in time.
    pub(super) kept_waiting: BTreeSet<usize>,
    /// How late anything of ours was at most, and what.
    pub(super) late: (Duration, String),
    /// Why the row cannot go on.
    pub(super) trouble: Option<String>,
}

/// What an attempt meets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meets {
    /// Its place among what was sent.
    pub(super) sent: usize,
    pub(super) meaning: Meaning,
    pub(super) takes: Duration,
    pub(super) stated: Option<Stated>,
}

impl Stage {
    /// Returns the stage of a row that begins now.
    pub(super) fn set(
        scenario: Arc<Scenario>,
        rehearsal: Arc<Rehearsal>,
        gateway: Arc<Gateway>,
        shadows: (Shadow, BTreeMap<String, Shadow>),
        clock: Clock,
    ) -> Self {
        let noted = Noted {
            trace: Trace::default(),
            names: rehearsal.names(),
            happened: [0; 6],
            read: 0,
            groups: Vec::new(),
            kept_waiting: BTreeSet::new(),
            late: (Duration::ZERO, String::new()),
            trouble: None,
        };
        Self {
            scenario,
            rehearsal,
            gateway,
            shadow: shadows.0,
            others: shadows.1,
            clock,
            began: clock.now(),
            noted: Mutex::new(noted),
            changed: Notify::new(),
            look: Notify::new(),
        }
    }

    /// Returns what was seen so far. What is behind the lock is whole after each statement.
    pub(super) fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how long the row has gone on, in seconds.
    pub(super) fn elapsed(&self) -> f64 {
        self.began.until(self.clock.now()).as_secs_f64()
    }

    /// Returns the wall clock.
    pub(super) fn wall_ms(&self) -> i64 {
        self.clock.wall_ms()
    }

    /// Returns an instant that the gateway writes.
    pub(super) fn instant(&self, text: &str) -> Option<Timestamp> {
        self.clock.read(text)
    }

    /// Returns when a quantity is, in seconds from the beginning, once that is known.
    pub(super) fn known(&self, at: &Quantity) -> Result<Option<f64>, PlayError> {
        Ok(at.seconds(&self.noted().names)?)
    }

    /// Notes that something of ours happened later than the scenario wants it.
    pub(super) fn note_late(&self, by: Duration, what: &str) {
        let mut noted = self.noted();
        if by > noted.late.0 {
            noted.late = (by, what.to_owned());
        }
    }

    /// Notes why the row cannot go on.
    pub(super) fn note_trouble(&self, why: String) {
        self.noted().trouble.get_or_insert(why);
        self.changed.notify_waiters();
    }

    /// Notes a call that begins; returns its number.
    pub(super) fn begin_call(&self, group: usize) -> usize {
        let mut noted = self.noted();
        noted.groups.push(group);
        noted.trace.calls.push(Seen {
            group: self.scenario.calls[group].name.clone(),
            began_at: self.clock.now(),
            ended: None,
            attempts: 0,
            slept: Duration::ZERO,
            class: None,
            job: None,
            job_state: None,
        });
        noted.trace.calls.len() - 1
    }

    /// Returns whether the dependency can be reached now, or in a moment: whoever comes at the very instant at which it is
    /// there again must find it.
    pub(super) fn is_reached(&self) -> bool {
        let elapsed = self.began.until(self.clock.now());
        let noted = self.noted();
        let reached = |elapsed| {
            let answer = current(&self.scenario.dependency, &noted.names, elapsed);
            !matches!(answer, Ok(Some(answer)) if answer.answer == Meaning::NotReached)
        };
        reached(elapsed) || reached(elapsed + A_MOMENT)
    }

    /// An attempt of a call arrives; returns what it meets, or nothing if the scenario says nothing about it.
    pub(super) fn arrive(&self, call: usize) -> Option<Meets> {
        let now = self.clock.now();
        let mut noted = self.noted();
        let group = self.scenario.calls.get(*noted.groups.get(call)?)?;
        let nth = noted.trace.sent_by(call).count();
        let answer = match group.meets.get(nth).or_else(|| group.meets.last()) {
            Some(answer) => answer,
            None => current(&self.scenario.dependency, &noted.names, self.began.until(now)).ok().flatten()?,
        };
        let timeout = self.rehearsal.policy.timeout.unwrap_or(Duration::MAX);
        let (meaning, takes) = lasting(answer, &noted.names, timeout).ok()?;
        let wait = answer.retry_after.as_ref().and_then(|wait| wait.seconds(&noted.names).ok().flatten());
        let stated = wait.map(|seconds| Stated { seconds, written_as: answer.written_as });
        noted.trace.sent.push(Sent { at: now, call, probe: false, ended_at: None, done: false });
        let sent = noted.trace.sent.len() - 1;
        if matches!(meaning, Meaning::Late | Meaning::Crash | Meaning::NotReached) {
            noted.kept_waiting.insert(call);
        }
        drop(noted);
        self.changed.notify_waiters();
        Some(Meets { sent, meaning, takes, stated })
    }

    /// An attempt was answered.
    pub(super) fn answered(&self, sent: usize, done: bool) {
        let now = self.clock.now();
        if let Some(sent) = self.noted().trace.sent.get_mut(sent) {
            sent.ended_at.get_or_insert(now);
            sent.done = done;
        }
        self.look.notify_one();
    }

    /// The connection of an attempt is gone before it was answered.
    pub(super) fn left(&self, sent: usize) {
        let now = self.clock.now();
        let timeout = self.rehearsal.policy.timeout.unwrap_or(Duration::MAX);
        if let Some(sent) = self.noted().trace.sent.get_mut(sent) {
            // It is over for the gateway when its timeout is, and a moment later for whoever sees the connection go.
            let over = now.min(sent.at + timeout);
            sent.ended_at.get_or_insert(over);
        }
        self.look.notify_one();
    }

    /// Reads the journal, and gives instants their values.
    ///
    /// # Errors
    ///
    /// If the gateway does not answer.
    pub(super) async fn read_journal(&self) -> Result<(), DrillError> {
        let asked = Instant::now();
        let name = super::gateway::encoded(&self.shadow.name);
        let target = format!("/events?format=json&all=true&limit={ENTRIES_MAX}&dependency={name}");
        let list = self.gateway.ask(http::Method::GET, &target, None).await?;
        self.note_late(asked.elapsed(), "an answer of the gateway");
        let entries = list.as_array().map(Vec::as_slice).unwrap_or_default();
        let mut noted = self.noted();
        let Noted { trace, names, happened, read, .. } = &mut *noted;
        let mut changed = false;
        for entry in entries.iter().skip(*read) {
            if let Some(event) = self.event(entry) {
                changed |= note(names, happened, self.began, &event);
                trace.events.push(event);
            }
        }
        changed |= entries.len() > *read;
        *read = entries.len();
        drop(noted);
        if changed {
            self.changed.notify_waiters();
        }
        Ok(())
    }

    /// Reads a journal entry as the gateway writes it.
    fn event(&self, entry: &Value) -> Option<EventRecord> {
        let text = |key: &str| entry[key].as_str().map(str::to_owned);
        Some(EventRecord {
            at_ms: self.clock.read(entry["at"].as_str()?)?.as_millis(),
            event: text("event")?,
            dependency: text("dependency")?,
            partition: text("partition"),
            from_state: text("from_state")?,
            to_state: text("to_state")?,
            generation: entry["generation"].as_u64()?,
            reason: text("reason"),
            queued_count: entry["queued_count"].as_u64(),
            probe_result: text("probe_result"),
            details: entry["details"].as_object().cloned().unwrap_or_default(),
        })
    }
}

/// How long before it is reached again a dependency begins to listen.
const A_MOMENT: Duration = Duration::from_millis(50);
/// How many entries of the journal one row may have.
const ENTRIES_MAX: usize = 20_000;
