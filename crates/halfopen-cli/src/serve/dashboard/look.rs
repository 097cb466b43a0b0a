//! Reads what a page shows: bounded reads of the store, each once for all who watch.
//!
//! Reading must not slow the calls down: the door's connection to the store is everybody's, so the dashboard has one of
//! its own, beside the door. A store that is kept in memory has no second one.
//!
//! What is dear is kept for a moment: the journal of a dependency as long as the journal has not grown, the figures of
//! the last day for five seconds. Nothing here grows with the number of finished jobs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use halfopen::activation::{self, Figures, Report};
use halfopen::handle::{CircuitView, Handle, StoreHealth};
use halfopen::store::Location;
use halfopen_core::alert::CHANNELS;
use halfopen_core::circuit::{Circuit, Wake};
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;

use super::super::gateway::Gateway;
use super::super::problem::Problem;
use super::say::Say;
use super::timeline::Range;
use super::words::Words;
use crate::serve::api::unreadable;
use crate::serve::queue::progress::Progress;
use crate::shown::When;

/// How many entries of the journal one drawing is made from at most, the newest.
const EVENTS_MAX: usize = 4_000;
/// How many changes of state are read at most where there were more entries.
const TRANSITIONS_MAX: usize = 2_000;
/// How many dependencies' journals are kept for a moment.
const KEPT_MAX: usize = 128;
/// How long the figures are believed.
const FIGURES_FOR: Duration = Duration::from_secs(5);

/// The journal of a dependency over a range.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    /// In the order of their instants.
    pub(super) events: Vec<EventRecord>,
    /// From when on all are there; `None` if that is the whole range.
    pub(super) known_from: Option<Timestamp>,
}

/// A journal with what it was read at: the end of the journal, and of the drawing.
#[derive(Clone, Debug)]
struct Kept {
    position: i64,
    end: Timestamp,
    journal: Arc<Journal>,
}

/// What was read a moment ago.
#[derive(Debug, Default)]
pub(super) struct Recently {
    reader: OnceLock<Option<Handle>>,
    journals: Mutex<BTreeMap<(String, Range), Kept>>,
    figures: Mutex<BTreeMap<u32, (Instant, Arc<Report>)>>,
}

impl Recently {
    /// Returns the handle that pages read by.
    pub(super) fn reader<'a>(&'a self, door: &'a Handle) -> &'a Handle {
        let beside = self.reader.get_or_init(|| match door.location() {
            Location::Memory => None,
            location => Handle::open(location).ok(),
        });
        if let Some(reader) = beside
            && reader.health() != StoreHealth::Good
            && door.health() == StoreHealth::Good
        {
            // Asking tries a store that was lost again.
            let _ = reader.journal_end();
        }
        match beside {
            Some(reader) if reader.health() == StoreHealth::Good && door.health() == StoreHealth::Good => reader,
            // The door knows what is in memory meanwhile, and how the store fails.
            Some(_) | None => door,
        }
    }
}

impl Journal {
    /// Returns the entries about one circuit.
    pub(super) fn of(&self, id: &CircuitId) -> Vec<&EventRecord> {
        let partition = id.partition().map(|(key, value)| format!("{key}={value}"));
        let own = self.events.iter().filter(|event| event.dependency == id.dependency());
        own.filter(|event| event.partition == partition).collect()
    }
}

/// One look at everything, at one instant.
pub(super) struct Look<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) handle: &'a Handle,
    pub(super) say: Say,
}

impl<'a> Look<'a> {
    /// Looks now.
    pub(super) fn now(gateway: &'a Gateway, words: &'static Words) -> Self {
        let handle = gateway.dashboard.recently.reader(&gateway.door.handle);
        let when = When::read(&gateway.door.handle.clock().read());
        Self { gateway, handle, say: Say { w: words, when } }
    }

    /// Returns all circuits, those of dependencies about which nothing is known yet among them, with what time changes
    /// about each; not those of alert channels.
    pub(super) fn circuits(&self) -> Result<Vec<(CircuitView, Option<Wake>)>, Problem> {
        let known = self.handle.outlook(&|dependency| self.gateway.policy_of(dependency)).map_err(unreadable)?;
        let known = known.into_iter().filter(|(view, _)| view.id.dependency() != CHANNELS);
        let mut all: BTreeMap<CircuitId, (CircuitView, Option<Wake>)> =
            known.map(|(view, wake)| (view.id.clone(), (view, wake))).collect();
        for dependency in self.gateway.live().dependencies() {
            let known = all.keys().any(|id| id.dependency() == dependency.name);
            if !known && let Ok(id) = CircuitId::whole(&dependency.name) {
                let view = self.blank(id.clone(), &dependency.policy);
                all.insert(id, (view, None));
            }
        }
        Ok(all.into_values().collect())
    }

    /// Returns the view of a circuit about which nothing is known.
    pub(super) fn blank(&self, id: CircuitId, policy: &Policy) -> CircuitView {
        CircuitView { id, status: Circuit::new().status(policy, self.say.when.now) }
    }

    /// Returns how far the queues are.
    pub(super) fn progress(&self, circuits: &[(CircuitView, Option<Wake>)]) -> BTreeMap<String, Progress> {
        let views: Vec<CircuitView> = circuits.iter().map(|(view, _)| view.clone()).collect();
        Progress::read(self.handle, &views, self.say.when.now)
    }

    /// Returns the journal of a dependency over a range.
    pub(super) fn journal(&self, dependency: &str, range: Range) -> Result<Arc<Journal>, Problem> {
        let end = range.end(self.say.when.now);
        let position = self.handle.journal_end().map_err(unreadable)?;
        let key = (dependency.to_owned(), range);
        let recently = &self.gateway.dashboard.recently;
        let kept = recently.journals.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(kept) = kept.filter(|kept| kept.position == position && kept.end == end) {
            return Ok(kept.journal);
        }
        let journal = Arc::new(self.read_journal(dependency, end - range.span(), EVENTS_MAX)?);
        let mut journals = recently.journals.lock().unwrap_or_else(PoisonError::into_inner);
        if journals.len() >= KEPT_MAX {
            journals.clear();
        }
        journals.insert(key, Kept { position, end, journal: Arc::clone(&journal) });
        Ok(journal)
    }

    /// Returns since when there has been a journal, if that is known.
    pub(super) fn born_at(&self) -> Option<Timestamp> {
        activation::born_ms(self.handle.location()).map(|ms| self.say.when.of_wall_ms(ms))
    }

    /// Returns the newest `max` entries since an instant; where there were more, the changes of state before them.
    pub(super) fn read_journal(&self, dependency: &str, since: Timestamp, max: usize) -> Result<Journal, Problem> {
        let events = self.handle.timeline(dependency, since, false, max).map_err(unreadable)?;
        let Some(first) = events.first().filter(|_| events.len() >= max).map(|event| event.at_ms) else {
            return Ok(Journal { events, known_from: None });
        };
        let older = self.handle.timeline(dependency, since, true, TRANSITIONS_MAX).map_err(unreadable)?;
        let full = older.len() >= TRANSITIONS_MAX;
        let known_from = older.first().filter(|_| full).map(|event| Timestamp::from_millis(event.at_ms));
        let mut all: Vec<EventRecord> = older.into_iter().filter(|event| event.at_ms < first).collect();
        all.extend(events);
        Ok(Journal { events: all, known_from })
    }

    /// Returns what every process noted about itself in the last days.
    pub(super) fn figures(&self, days: u32) -> Arc<Report> {
        let mut kept = self.gateway.dashboard.recently.figures.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, report)) = kept.get(&days)
            && at.elapsed() < FIGURES_FOR
        {
            return Arc::clone(report);
        }
        let now = crate::shown::when::wall_ms();
        let since = now.saturating_sub(i64::from(days) * 86_400_000);
        let report = Arc::new(activation::read(self.handle.location(), since, now).unwrap_or_default());
        kept.insert(days, (Instant::now(), Arc::clone(&report)));
        report
    }

    /// Returns what this process counted for a dependency since it began.
    pub(super) fn counted(&self, dependency: &str) -> Figures {
        self.gateway.door.counts.of(dependency).figures()
    }
}
