//! What an operator and a surface's housekeeping ask of the door.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use halfopen_core::circuit::{Circuit, Hold, Status, Wake};
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::event::{By, Event, State};
use halfopen_core::pair::{PairEvents, Pass, Side};
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;

use super::registry::{self, Seat};
use super::{Handle, Route, StoreHealth, decide, is_tracked, jobs};
use crate::guard::watch;
use crate::store::{EventFilter, JournalEntry, Store, StoreError, Txn};

/// How many circuits one sweep changes at most.
const SWEEP_MAX: usize = 64;

/// How many events of a circuit [`Handle::why`] shows.
const WHY_EVENTS: usize = 20;

/// Among how many of the dependency's newest events they are looked for.
const WHY_EVENTS_LOOKED_AT: usize = 2000;

/// One circuit as an operator sees it.
#[derive(Clone, Debug)]
pub struct CircuitView {
    /// Its name.
    pub id: CircuitId,
    /// What it shows.
    pub status: Status,
}

/// What explains the state of one circuit.
#[derive(Clone, Debug)]
pub struct Why {
    /// What it shows.
    pub view: CircuitView,
    /// When it will change by itself, and how.
    pub wake: Option<Wake>,
    /// Its newest events, oldest first.
    pub events: Vec<EventRecord>,
}

impl Handle {
    /// Notes that a caller which `side` refused is going to wait and come back, so that its return is paced. Once for
    /// each caller, not for each of its waits.
    pub fn hold_back(&self, route: &Route, policy: &Policy, side: Side) {
        // Without a store there is nobody to be paced with.
        let Some((store, true)) = self.store() else { return };
        let held = decide(&store, route, policy, |pair, _, now| ((), pair.hold_back(policy, side, now)));
        if let Err(error) = held {
            self.note_unwritable(&error);
        }
    }

    /// Extends a probe's lease; returns whether the pass is still live. While the store is lost nobody knows, and the
    /// attempt goes on.
    pub fn renew(&self, route: &Route, policy: &Policy, pass: &Pass) -> bool {
        let Some((store, writable)) = self.store() else { return true };
        if !is_tracked(pass) {
            return registry::look(&store, route).map_or(true, |seen| seen.is_live(pass, self.clock().now()));
        }
        if !writable {
            return true;
        }
        let renewed =
            decide(&store, route, policy, |pair, _, now| (pair.renew(policy, pass, now), PairEvents::default()));
        match renewed {
            Ok((live, _)) => live,
            Err(error) => {
                self.note_unwritable(&error);
                true
            }
        }
    }

    /// Judges long work early as a success: the first good event of a stream, a minute without an error line. Returns
    /// the pass under which the attempt goes on; a later failure of it is one new failure.
    pub fn settle_early(&self, route: &Route, policy: &Policy, pass: &Pass) -> (Pass, Vec<EventRecord>) {
        let unchanged = || (pass.clone(), Vec::new());
        if !is_tracked(pass) {
            return unchanged();
        }
        let Some((store, true)) = self.store() else { return unchanged() };
        match decide(&store, route, policy, |pair, facts, now| pair.settle_early(policy, pass, facts, now)) {
            Ok((pass, records)) => {
                self.tidy_after(&records);
                (pass, records)
            }
            Err(error) => {
                self.note_unwritable(&error);
                unchanged()
            }
        }
    }

    /// Returns all circuits, sorted by name, as they stand now. While the store cannot be read these are the breakers
    /// in memory.
    ///
    /// # Errors
    ///
    /// If the store cannot be read and this process knows nothing either.
    pub fn circuits(&self, policy_of: &dyn Fn(&str) -> Policy) -> Result<Vec<CircuitView>, StoreError> {
        let now = self.clock().now();
        let view = |(id, circuit): (CircuitId, Circuit)| {
            let status = circuit.status(&policy_of(id.dependency()), now);
            CircuitView { id, status }
        };
        Ok(self.all()?.into_iter().map(view).collect())
    }

    /// Returns all circuits, sorted by name, as they stand now, each with what time alone will change about it.
    ///
    /// # Errors
    ///
    /// As [`Handle::circuits`].
    pub fn outlook(&self, policy_of: &dyn Fn(&str) -> Policy) -> Result<Vec<(CircuitView, Option<Wake>)>, StoreError> {
        let now = self.clock().now();
        let view = |(id, circuit): (CircuitId, Circuit)| {
            let policy = policy_of(id.dependency());
            let status = circuit.status(&policy, now);
            // What should have happened by now shows in the status already, whoever writes it down.
            let wake = circuit.next_wake(&policy).filter(|wake| wake.at > now);
            (CircuitView { id, status }, wake)
        };
        Ok(self.all()?.into_iter().map(view).collect())
    }

    /// Returns one circuit as it stands now; `None` if nothing is known about it.
    ///
    /// # Errors
    ///
    /// As [`Handle::circuits`].
    pub fn circuit(&self, id: &CircuitId, policy: &Policy) -> Result<Option<CircuitView>, StoreError> {
        let circuit = self.one(id)?;
        let view =
            |circuit: Circuit| CircuitView { id: id.clone(), status: circuit.status(policy, self.clock().now()) };
        Ok(circuit.map(view))
    }

    /// Returns what explains the state of a circuit; `None` if nothing is known about it.
    ///
    /// # Errors
    ///
    /// If the store cannot be read and this process knows nothing either.
    pub fn why(&self, id: &CircuitId, policy: &Policy) -> Result<Option<Why>, StoreError> {
        let Some(circuit) = self.one(id)? else { return Ok(None) };
        let limit = WHY_EVENTS_LOOKED_AT;
        let filter = EventFilter { dependency: Some(id.dependency().to_owned()), limit, ..EventFilter::default() };
        let partition = id.partition().map(|(key, value)| format!("{key}={value}"));
        // Without the journal the state still explains itself.
        let mut events = self.events(&filter).unwrap_or_default();
        events.retain(|event| event.partition == partition);
        let events = events.split_off(events.len().saturating_sub(WHY_EVENTS));
        let status = circuit.status(policy, self.clock().now());
        Ok(Some(Why { view: CircuitView { id: id.clone(), status }, wake: circuit.next_wake(policy), events }))
    }

    /// Places an operator's hold (`Open` or `Closed`) on a circuit, for `lasting` or until it is released.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn hold(
        &self,
        id: &CircuitId,
        policy: &Policy,
        state: State,
        lasting: Option<Duration>,
        who: &str,
        reason: &str,
    ) -> Result<Vec<EventRecord>, StoreError> {
        self.steer(id, policy, |circuit, now| {
            let until = lasting.map(|lasting| now + lasting);
            circuit.hold(policy, Hold { state, until, by: by(who, reason) }, now)
        })
    }

    /// Ends an operator's hold; with `probe_now` an open breaker's cooldown ends too.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn release(
        &self,
        id: &CircuitId,
        policy: &Policy,
        probe_now: bool,
        who: &str,
        reason: &str,
    ) -> Result<Vec<EventRecord>, StoreError> {
        self.steer(id, policy, |circuit, now| circuit.release(policy, by(who, reason), probe_now, now))
    }

    /// Clears a circuit's history.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn reset(
        &self,
        id: &CircuitId,
        policy: &Policy,
        who: &str,
        reason: &str,
    ) -> Result<Vec<EventRecord>, StoreError> {
        self.steer(id, policy, |circuit, now| circuit.reset(policy, by(who, reason), now))
    }

    /// Returns journal entries, oldest first.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn events(&self, filter: &EventFilter) -> Result<Vec<EventRecord>, StoreError> {
        self.readable()?.events(filter)
    }

    /// Returns journal entries behind a position, oldest first; of a limit, the oldest ones.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn events_after(&self, position: i64, filter: &EventFilter) -> Result<Vec<JournalEntry>, StoreError> {
        self.readable()?.events_after(position, filter)
    }

    /// Returns the newest `max` journal entries of a dependency at or after an instant, in the order of their instants.
    /// The cost grows with the entries of that dependency and span, not with the journal.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn timeline(
        &self,
        dependency: &str,
        since: Timestamp,
        transitions_only: bool,
        max: usize,
    ) -> Result<Vec<EventRecord>, StoreError> {
        self.readable()?.timeline(dependency, since, transitions_only, max)
    }

    /// Returns the position of the newest journal entry, 0 if there is none.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn journal_end(&self) -> Result<i64, StoreError> {
        self.readable()?.journal_end()
    }

    /// Reads and writes the store now, and tries a lost one again; for readiness checks of programs that may be idle.
    /// What is written changes nothing. A disk without room is no store to be ready with, also while what is small still
    /// fits: that is told here, and breakers go on in the store until something does not.
    pub fn check(&self) -> StoreHealth {
        let Some((store, writable)) = self.store() else { return self.health() };
        match store.look_at_file() {
            Err(error) => self.note_lost(&error),
            Ok(()) if writable => {
                if let Err(error) = store.transact(|txn| txn.touch()) {
                    self.note_unwritable(&error);
                } else if let Err(full) = store.has_room() {
                    return StoreHealth::ReadOnly(full.to_string());
                }
            }
            Ok(()) => {}
        }
        self.health()
    }

    /// Does the housekeeping of the store that whoever writes owes: for long-lived processes, about once a second.
    pub fn tidy(&self) {
        let store = self.back().store.clone();
        // Housekeeping that fails is done by the next writer; if the store is broken, an operation will say so.
        let _ = store.map(|store| store.tidy());
    }

    /// Lets time pass for all circuits and jobs where that changes something, a bounded number of them; returns what
    /// changed. Costs two reads where nothing is due.
    ///
    /// # Errors
    ///
    /// If the store cannot be read or written.
    pub fn sweep(&self, policy_of: &dyn Fn(&str) -> Policy) -> Result<Vec<EventRecord>, StoreError> {
        let store = self.readable()?;
        let due = store.due(SWEEP_MAX)?;
        if self.health() != StoreHealth::Good {
            return Ok(Vec::new());
        }
        if due.is_empty() {
            return self.sweep_jobs(policy_of);
        }
        let swept = store.transact(|txn| {
            let mut records = Vec::new();
            for id in &due {
                let policy = policy_of(id.dependency());
                let facts = jobs::facts_of(txn, id)?;
                let mut seat = Seat::take_exactly(txn, id)?;
                let events = seat.circuit.expire(&policy, facts, txn.now());
                // Also where nothing happened: what was noted as its wake is over.
                seat.save(txn, &policy)?;
                records.extend(seat.put_back(txn, &policy, &events)?);
                retire_other(txn, id, &policy)?;
            }
            Ok(records)
        });
        match swept {
            Ok(mut records) => {
                records.extend(self.sweep_jobs(policy_of)?);
                self.tidy_after(&records);
                Ok(records)
            }
            Err(error) => {
                self.note_unwritable(&error);
                Err(error)
            }
        }
    }

    fn steer(
        &self,
        id: &CircuitId,
        policy: &Policy,
        act: impl FnOnce(&mut Circuit, Timestamp) -> Vec<Event>,
    ) -> Result<Vec<EventRecord>, StoreError> {
        let store = self.readable()?;
        let records = store.transact(|txn| {
            let mut seat = Seat::take_exactly(txn, id)?;
            let events = act(&mut seat.circuit, txn.now());
            seat.put_back(txn, policy, &events)
        })?;
        self.tidy_after(&records);
        watch::refresh_all();
        Ok(records)
    }

    /// Returns all circuits as last committed, or, while the store cannot be read, what this process knows.
    fn all(&self) -> Result<BTreeMap<CircuitId, Circuit>, StoreError> {
        let error = match self.readable().and_then(|store| store.all()) {
            Ok(all) => return Ok(all.into_iter().map(|stored| (stored.id, stored.circuit)).collect()),
            Err(error) => error,
        };
        let known = self.back().lost.circuits();
        if known.is_empty() { Err(error) } else { Ok(known) }
    }

    /// Returns one circuit as last committed, or, while the store cannot be read, as this process knows it.
    fn one(&self, id: &CircuitId) -> Result<Option<Circuit>, StoreError> {
        let error = match self.readable().and_then(|store| store.load(&[id])) {
            Ok(found) => return Ok(found.into_iter().next().flatten()),
            Err(error) => error,
        };
        let known = self.back().lost.circuits();
        if known.is_empty() { Err(error) } else { Ok(known.get(id).cloned()) }
    }

    pub(super) fn readable(&self) -> Result<Arc<Store>, StoreError> {
        match (self.store(), self.health()) {
            (Some((store, _)), _) => Ok(store),
            (None, StoreHealth::Lost(why) | StoreHealth::ReadOnly(why)) => Err(StoreError::Lost(why)),
            (None, StoreHealth::Good) => Err(StoreError::Lost("the store was lost a moment ago".to_owned())),
        }
    }
}

/// Removes the partition that others folded into once nothing would be lost, so that they are judged apart again.
fn retire_other(txn: &mut Txn<'_>, id: &CircuitId, policy: &Policy) -> Result<(), StoreError> {
    if !registry::is_other(id) {
        return Ok(());
    }
    match txn.load(id)? {
        Some(circuit) if registry::is_blank(&circuit, policy, txn.now()) => txn.remove(id),
        Some(_) | None => Ok(()),
    }
}

fn by(who: &str, reason: &str) -> By {
    By { who: who.to_owned(), reason: reason.to_owned() }
}
