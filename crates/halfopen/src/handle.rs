//! The one door: every attempt of every surface is admitted and settled here.
//!
//! The door reads the clock, draws chance, and asks the core inside a transaction of the store; it decides nothing
//! itself. Most calls never get that far: an ask that a plain read can answer takes no lock and writes nothing, and a
//! success that changes nothing is settled without a write.
//!
//! A store that fails does not stop anybody. The door then goes on with breakers in memory ([`lost`]), says so in
//! [`Handle::health`], and hands over what it learned when the store is back. A store that is only busy is waited for.
//!
//! There is no second road: a surface that remembers an answer for itself, or asks two doors, breaks the promises that
//! are kept here.

mod alerts;
pub mod jobs;
mod lost;
mod operate;
mod registry;

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use halfopen_core::chance::Chance;
use halfopen_core::circuit::Circuit;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::outcome::Reached;
use halfopen_core::pair::{self, Answer, Pair, PairEvents, PairFacts, Pass, Side};
use halfopen_core::permit::{Ask, Permit, PermitKind, Refusal};
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{Class, Verdict};

use crate::clock::Clock;
use crate::store::{Files, Location, Mark, PATIENCE, Store, StoreError};
use lost::Lost;
use registry::Seats;

pub use alerts::ClaimedAlert;
pub use operate::{CircuitView, Why};

/// How long one step waits for other processes while the store is believed lost; a door call makes at most five.
const LOST_PATIENCE: Duration = Duration::from_millis(50);

/// How long a store that kept everybody waiting is left alone.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// The circuits that judge one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The dependency or its region.
    pub place: CircuitId,
    /// The credential or the model, if it is known.
    pub account: Option<CircuitId>,
}

impl Route {
    /// Returns the account, unless it is the place again.
    fn account(&self) -> Option<&CircuitId> {
        self.account.as_ref().filter(|account| **account != self.place)
    }
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

/// The door to one store. Share it between threads by reference or `Arc`.
#[derive(Debug)]
pub struct Handle {
    location: Location,
    clock: Clock,
    seed: Chance,
    drawn: AtomicU64,
    /// Whether durable changes share their flushes.
    group_commits: AtomicBool,
    back: Mutex<Back>,
}

/// What lies behind the door.
#[derive(Debug)]
struct Back {
    store: Option<Arc<Store>>,
    /// Which files the store had when it was lost.
    before: Option<Files>,
    health: StoreHealth,
    /// What the store failed with, while it is not good.
    failed: Option<StoreError>,
    /// Not before then is the store tried again, if it was lost by being busy.
    try_at: Option<Instant>,
    lost: Lost,
}

/// An admitted attempt that gives its pass back when it is dropped without being settled.
#[must_use = "dropping it gives the pass back"]
#[derive(Debug)]
pub struct Attempt<'a> {
    handle: &'a Handle,
    route: &'a Route,
    policy: &'a Policy,
    pass: Option<Pass>,
}

impl Handle {
    /// Opens the door. A store that cannot be opened does not stop the caller: the door then stands on breakers in
    /// memory and says so in [`Handle::health`].
    ///
    /// # Errors
    ///
    /// Only if the location itself is impossible to use by design (a network file system, a newer schema): one for
    /// which [`StoreError::is_by_design`] holds.
    pub fn open(location: &Location) -> Result<Self, StoreError> {
        Self::open_with(location, Clock::system())
    }

    /// Opens the door with a clock of the caller's choice.
    ///
    /// # Errors
    ///
    /// As [`Handle::open`].
    pub fn open_with(location: &Location, clock: Clock) -> Result<Self, StoreError> {
        // The standard library draws the keys of its hashers from the operating system.
        Self::open_seeded(location, clock, RandomState::new().hash_one(std::process::id()))
    }

    /// Opens the door with a clock and a seed of the caller's choice, so that what happens can be repeated exactly.
    /// Doors to one store need different seeds: the identities of permits are drawn.
    ///
    /// # Errors
    ///
    /// As [`Handle::open`].
    pub fn open_seeded(location: &Location, clock: Clock, seed: u64) -> Result<Self, StoreError> {
        let handle = Self {
            location: location.clone(),
            clock,
            seed: Chance::from_seed(seed),
            drawn: AtomicU64::new(0),
            group_commits: AtomicBool::new(false),
            back: Mutex::new(Back {
                store: None,
                before: None,
                health: StoreHealth::Good,
                failed: None,
                try_at: None,
                lost: Lost::default(),
            }),
        };
        match Store::open(location, &handle.clock) {
            Ok(store) => {
                let mut back = handle.back();
                let read_only = store.read_only();
                back.store = Some(Arc::new(store));
                if let Some(error) = read_only {
                    back.note(&error, true);
                }
            }
            Err(error) if error.is_by_design() => return Err(error),
            Err(error) => handle.note_lost(&error),
        }
        Ok(handle)
    }

    /// Returns how well the store serves, as the last operation found it.
    #[must_use]
    pub fn health(&self) -> StoreHealth {
        self.back().health.clone()
    }

    /// Returns where the store is.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Returns the clock all decisions here use.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Asks for a permit.
    ///
    /// A pass that is neither settled nor given back keeps a probe's slot until its lease ends; [`Handle::attempt`]
    /// takes care of that.
    pub fn admit(&self, route: &Route, policy: &Policy, ask: Ask) -> Answer {
        let chance = self.chance();
        let (answer, _) = self.answer(
            route,
            policy,
            |seen, now| pair::peek(&seen.place, seen.account.as_ref(), policy, ask, now, chance),
            |pair, facts, now| {
                let mut events = pair.expire(policy, facts, now);
                let (answer, more) = pair.admit(policy, ask, now, chance);
                events.append(more);
                (answer, events)
            },
            |lost, seen, now| (lost.admit(route, seen, policy, ask, now, chance), Vec::new()),
        );
        answer
    }

    /// Asks for a permit and returns an attempt that gives it back when it is dropped.
    ///
    /// # Errors
    ///
    /// The refusal, and which circuit refused.
    pub fn attempt<'a>(
        &'a self,
        route: &'a Route,
        policy: &'a Policy,
        ask: Ask,
    ) -> Result<Attempt<'a>, (Side, Refusal)> {
        match self.admit(route, policy, ask) {
            Answer::Granted(pass) => Ok(Attempt { handle: self, route, policy, pass: Some(pass) }),
            Answer::Refused { side, refusal } => Err((side, refusal)),
        }
    }

    /// Ends an attempt with its verdict; returns what that changed.
    pub fn settle(&self, route: &Route, policy: &Policy, pass: Pass, verdict: &Verdict) -> Vec<EventRecord> {
        let chance = self.chance();
        let alone = self.back().lost.forget_pass(&pass);
        let ((), events) = self.answer(
            route,
            policy,
            |seen, now| {
                let account = seen.account.as_ref();
                (!alone && pair::settles_for_free(&seen.place, account, policy, &pass, verdict, now)).then_some(())
            },
            |pair, facts, now| {
                let adopted = if alone { lost::adopt(&pass, pair, policy, now) } else { pass.clone() };
                ((), pair.settle(policy, &adopted, verdict, facts, now, chance))
            },
            |lost, _, now| ((), lost.settle(route, policy, &pass, verdict, now, chance)),
        );
        self.tidy_after(&events);
        events
    }

    /// Ends an attempt without a verdict: the caller went away, it was never sent, the fault was ours.
    pub fn give_back(&self, route: &Route, policy: &Policy, pass: Pass) {
        let chance = self.chance();
        if self.back().lost.forget_pass(&pass) {
            self.back().lost.give_back(route, policy, &pass, self.clock.now(), chance);
            return;
        }
        if !is_tracked(&pass) {
            return;
        }
        let ((), events) = self.answer(
            route,
            policy,
            |_, _| None,
            |pair, facts, now| ((), pair.give_back(policy, &pass, facts, now, chance)),
            |lost, _, now| {
                lost.give_back(route, policy, &pass, now, chance);
                ((), Vec::new())
            },
        );
        self.tidy_after(&events);
    }

    /// Returns what differs whenever a circuit may have changed in between; `None` if the store cannot be used.
    pub(crate) fn mark(&self) -> Option<StoreMark> {
        let (store, true) = self.store()? else { return None };
        match store.mark() {
            Ok(mark) => Some(StoreMark { store: Arc::downgrade(&store), mark }),
            Err(error) => {
                self.note_lost(&error);
                None
            }
        }
    }

    /// Foretells what a fresh ask will be answered until time or somebody changes the circuits; `None` if the store
    /// cannot be used.
    pub(crate) fn forecast(&self, route: &Route, policy: &Policy) -> Option<Forecast> {
        let (store, true) = self.store()? else { return None };
        let seen = match registry::look(&store, route) {
            Ok(seen) => seen,
            Err(error) => {
                self.note_lost(&error);
                return None;
            }
        };
        self.back().lost.note_seen(route, &seen);
        let now = self.clock.now();
        let account = seen.account.as_ref();
        let regular = |permit: &Permit| permit.kind == PermitKind::Regular;
        let says = match pair::peek(&seen.place, account, policy, Ask::Fresh, now, self.chance()) {
            None => Says::Ask,
            Some(Answer::Refused { side, refusal }) => Says::Refused(side, refusal),
            Some(Answer::Granted(pass)) => {
                let success = Verdict::plain(Class::Success, "", Reached::Answered);
                let free = pair::settles_for_free(&seen.place, account, policy, &pass, &success, now);
                let regular = regular(&pass.place) && pass.account.as_ref().is_none_or(regular);
                if free && regular { Says::Free } else { Says::Ask }
            }
        };
        let wakes = [seen.place.next_wake(policy), account.and_then(|circuit| circuit.next_wake(policy))];
        let wake_at = wakes.into_iter().flatten().map(|wake| wake.at).min();
        Some(Forecast { says, generations: (seen.place.generation(), account.map(Circuit::generation)), wake_at })
    }

    /// Answers in up to three ways: `quick` from a plain read, if that can answer; `locked` as the only writer; and,
    /// where the store fails, `alone` on what is remembered in memory.
    fn answer<T>(
        &self,
        route: &Route,
        policy: &Policy,
        quick: impl FnOnce(&Seen, Timestamp) -> Option<T>,
        locked: impl FnOnce(&mut Pair<'_>, PairFacts, Timestamp) -> (T, PairEvents),
        alone: impl FnOnce(&mut Lost, Option<&Seen>, Timestamp) -> (T, Vec<EventRecord>),
    ) -> (T, Vec<EventRecord>) {
        let mut last_seen = None;
        if let Some((store, writable)) = self.store() {
            match registry::look(&store, route) {
                Ok(seen) => {
                    let now = self.clock.now();
                    self.back().lost.note_seen(route, &seen);
                    if writable {
                        if let Some(value) = quick(&seen, now) {
                            return (value, Vec::new());
                        }
                        match decide(&store, route, policy, locked) {
                            Ok(decided) => {
                                // Whoever loses the store next starts from what was decided here, not from before.
                                if !decided.1.is_empty()
                                    && let Ok(seen) = registry::look(&store, route)
                                {
                                    self.back().lost.note_seen(route, &seen);
                                }
                                return decided;
                            }
                            Err(error) => self.note_unwritable(&error),
                        }
                    }
                    last_seen = Some(seen);
                }
                Err(error) => self.note_lost(&error),
            }
        }
        alone(&mut self.back().lost, last_seen.as_ref(), self.clock.now())
    }

    /// Returns the store, if it can be read, and whether it is believed to be writable. A store that failed is tried
    /// again first, within [`LOST_PATIENCE`].
    fn store(&self) -> Option<(Arc<Store>, bool)> {
        let mut back = self.back();
        if back.health != StoreHealth::Good && back.try_at.is_none_or(|at| Instant::now() >= at) {
            self.recover(&mut back);
        }
        let writable = back.health == StoreHealth::Good;
        back.store.clone().map(|store| (store, writable))
    }

    /// Opens the store again if need be, and hands over what was learned without it.
    fn recover(&self, back: &mut Back) {
        let store = match &back.store {
            Some(store) => Arc::clone(store),
            None => {
                let anchor_ms = self.clock.anchor_ms();
                match Store::open_within(&self.location, back.before.as_ref(), &self.clock, LOST_PATIENCE) {
                    Ok(store) => {
                        back.lost.shift(self.clock.anchor_ms().saturating_sub(anchor_ms));
                        if self.group_commits.load(Ordering::Relaxed)
                            && let Err(error) = store.commit_in_groups()
                        {
                            back.note(&error, false);
                            return;
                        }
                        let store = Arc::new(store);
                        back.store = Some(Arc::clone(&store));
                        store
                    }
                    Err(error) => {
                        back.note(&error, false);
                        return;
                    }
                }
            }
        };
        // What little fits into the log would bring a full disk back and lose it again with every second change.
        if let (Some(StoreError::Full { .. }), Err(error)) = (&back.failed, store.has_room()) {
            back.note(&error, true);
            return;
        }
        // Replaying is worth a transaction of its own: what it changes must be there before anybody is admitted.
        let lost = &back.lost;
        let chance = self.chance();
        match store.transact(|txn| txn.touch().and_then(|()| lost.replay(txn, chance))) {
            Ok(()) => {
                back.lost.clear();
                back.health = StoreHealth::Good;
                back.failed = None;
                back.try_at = None;
                store.set_patience(PATIENCE);
            }
            Err(error) => back.note(&error, true),
        }
    }

    fn note_lost(&self, error: &StoreError) {
        self.back().note(error, false);
    }

    fn note_unwritable(&self, error: &StoreError) {
        // One job that cannot be read says nothing about the store.
        if let StoreError::Job { .. } = error {
            return;
        }
        self.back().note(error, true);
    }

    fn tidy_after(&self, events: &[EventRecord]) {
        if !events.is_empty() {
            self.tidy();
        }
    }

    /// Returns the next independent draw.
    pub(crate) fn chance(&self) -> Chance {
        self.seed.nth(self.drawn.fetch_add(1, Ordering::Relaxed))
    }

    /// What is behind the lock is whole after each statement, so a thread that panicked with it left nothing half-done.
    fn back(&self) -> MutexGuard<'_, Back> {
        self.back.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a fresh ask will be answered for a while.
#[derive(Clone, Debug)]
pub(crate) struct Forecast {
    pub(crate) says: Says,
    /// The generations of place and account.
    pub(crate) generations: (u64, Option<u64>),
    /// When time alone changes it.
    pub(crate) wake_at: Option<Timestamp>,
}

/// An answer that is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// Granted, and its success will change nothing.
    Free,
    /// Refused, and by which circuit.
    Refused(Side, Refusal),
    /// Whoever wants to know must take the lock, or a success would have something to change.
    Ask,
}

/// A state of a store, told apart from all others of its own and of other stores.
#[derive(Clone, Debug)]
pub(crate) struct StoreMark {
    /// A store that was lost and opened again counts anew.
    store: Weak<Store>,
    mark: Mark,
}

impl PartialEq for StoreMark {
    fn eq(&self, other: &Self) -> bool {
        self.mark == other.mark && Weak::ptr_eq(&self.store, &other.store)
    }
}

/// The circuits of a route as a plain read saw them; where there is none, a new one.
#[derive(Clone, Debug)]
struct Seen {
    place: Circuit,
    account: Option<Circuit>,
}

impl Seen {
    fn is_live(&self, pass: &Pass, now: Timestamp) -> bool {
        let on_account = match (&self.account, &pass.account) {
            (Some(circuit), Some(permit)) => circuit.is_live(permit, now),
            (Some(_) | None, _) => true,
        };
        self.place.is_live(&pass.place, now) && on_account
    }
}

/// Decides under the lock: loads the route's circuits, lets `act` change them, saves what changed with its events.
fn decide<T>(
    store: &Store,
    route: &Route,
    policy: &Policy,
    act: impl FnOnce(&mut Pair<'_>, PairFacts, Timestamp) -> (T, PairEvents),
) -> Result<(T, Vec<EventRecord>), StoreError> {
    store.transact(|txn| {
        let facts = jobs::facts(txn, route)?;
        let mut seats = Seats::take(txn, route)?;
        let (value, events) = act(&mut seats.pair(), facts, txn.now());
        let mut records = seats.put_back(txn, policy, &events)?;
        registry::forgive_after(txn, route, &records)?;
        records.extend(jobs::foretell_expiries(txn, policy, &records)?);
        Ok((value, records))
    })
}

/// Returns whether a circuit keeps track of this pass, so that it must be told of its end.
fn is_tracked(pass: &Pass) -> bool {
    let tracked = |permit: &Permit| permit.ramped || permit.kind == PermitKind::Probe;
    tracked(&pass.place) || pass.account.as_ref().is_some_and(tracked)
}

impl Back {
    /// Notes a failure. `readable` says whether the store could still be read.
    fn note(&mut self, error: &StoreError, readable: bool) {
        let readable = readable
            && !matches!(
                error,
                StoreError::Corrupt { .. }
                    | StoreError::Circuit { .. }
                    | StoreError::Replaced { .. }
                    | StoreError::Gone { .. }
                    | StoreError::ForeignLog { .. }
            );
        self.failed = Some(error.again());
        self.try_at = matches!(error, StoreError::Busy { .. }).then(|| Instant::now() + BUSY_PAUSE);
        let mut why = error.to_string();
        if let Some(cause) = std::error::Error::source(error) {
            why = format!("{why}: {cause}");
        }
        if readable {
            if let Some(store) = &self.store {
                store.set_patience(LOST_PATIENCE);
            }
            self.health = StoreHealth::ReadOnly(why);
        } else {
            if let Some(store) = self.store.take() {
                self.before = store.files();
            }
            self.health = StoreHealth::Lost(why);
        }
    }
}

impl Attempt<'_> {
    /// Returns the pass.
    #[must_use]
    pub fn pass(&self) -> Option<&Pass> {
        self.pass.as_ref()
    }

    /// Ends the attempt with its verdict; returns what that changed.
    pub fn settle(mut self, verdict: &Verdict) -> Vec<EventRecord> {
        match self.pass.take() {
            Some(pass) => self.handle.settle(self.route, self.policy, pass, verdict),
            None => Vec::new(),
        }
    }

    /// Extends a probe's lease; returns whether the pass is still live.
    pub fn renew(&self) -> bool {
        self.pass.as_ref().is_some_and(|pass| self.handle.renew(self.route, self.policy, pass))
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.handle.give_back(self.route, self.policy, pass);
        }
    }
}
