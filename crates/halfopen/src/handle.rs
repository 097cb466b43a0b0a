//! The one door: every attempt of every surface is admitted and settled here.

use std::time::Duration;

use halfopen_core::circuit::Status;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::event::State;
use halfopen_core::pair::{Answer, Pass};
use halfopen_core::permit::Ask;
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::verdict::Verdict;

use crate::clock::Clock;
use crate::store::{EventFilter, Location, StoreError};

/// The circuits that judge one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The dependency or its region.
    pub place: CircuitId,
    /// The credential or the model, if it is known.
    pub account: Option<CircuitId>,
}

/// How well the store serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreHealth {
    /// It can be read and written.
    Good,
    /// It can be read only; why.
    ReadOnly(String),
    /// It cannot be used; why.
    Lost(String),
}

/// The door to one store.
#[derive(Debug)]
pub struct Handle {
    clock: Clock,
}

/// One circuit as an operator sees it.
#[derive(Clone, Debug)]
pub struct CircuitView {
    /// Its name.
    pub id: CircuitId,
    /// What it shows.
    pub status: Status,
}

impl Handle {
    /// Opens the door. A store that cannot be opened does not stop the caller: the door then stands on breakers in
    /// memory and says so in [`Handle::health`].
    ///
    /// # Errors
    ///
    /// Only if the location itself is impossible to use by design (a network file system, a newer schema).
    pub fn open(_location: &Location) -> Result<Self, StoreError> {
        unimplemented!()
    }

    /// Returns how well the store serves.
    #[must_use]
    pub fn health(&self) -> StoreHealth {
        unimplemented!()
    }

    /// Returns the clock all decisions here use.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Asks for a permit.
    pub fn admit(&self, _route: &Route, _policy: &Policy, _ask: Ask) -> Answer {
        unimplemented!()
    }

    /// Notes that a refused caller is going to wait and come back.
    pub fn hold_back(&self, _route: &Route, _policy: &Policy) {
        unimplemented!()
    }

    /// Ends an attempt with its verdict.
    pub fn settle(&self, _route: &Route, _policy: &Policy, _pass: Pass, _verdict: &Verdict) -> Vec<EventRecord> {
        unimplemented!()
    }

    /// Ends an attempt without a verdict.
    pub fn give_back(&self, _route: &Route, _policy: &Policy, _pass: Pass) {
        unimplemented!()
    }

    /// Extends a probe's lease; returns whether the pass is still live.
    pub fn renew(&self, _route: &Route, _policy: &Policy, _pass: &Pass) -> bool {
        unimplemented!()
    }

    /// Returns all circuits, sorted by name, as they stand now.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn circuits(&self, _policy_of: &dyn Fn(&str) -> Policy) -> Result<Vec<CircuitView>, StoreError> {
        unimplemented!()
    }

    /// Places an operator's hold (`Open` or `Closed`) on a circuit.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn hold(
        &self,
        _id: &CircuitId,
        _policy: &Policy,
        _state: State,
        _lasting: Option<Duration>,
        _who: &str,
        _reason: &str,
    ) -> Result<Vec<EventRecord>, StoreError> {
        unimplemented!()
    }

    /// Ends an operator's hold.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn release(
        &self,
        _id: &CircuitId,
        _policy: &Policy,
        _probe_now: bool,
        _who: &str,
        _reason: &str,
    ) -> Result<Vec<EventRecord>, StoreError> {
        unimplemented!()
    }

    /// Clears a circuit's history.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn reset(
        &self,
        _id: &CircuitId,
        _policy: &Policy,
        _who: &str,
        _reason: &str,
    ) -> Result<Vec<EventRecord>, StoreError> {
        unimplemented!()
    }

    /// Returns journal entries, oldest first.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn events(&self, _filter: &EventFilter) -> Result<Vec<EventRecord>, StoreError> {
        unimplemented!()
    }
}
