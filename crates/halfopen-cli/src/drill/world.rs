//! Plays a scenario in virtual time: the real engine behind a scripted dependency, hours in milliseconds.
//!
//! A discrete-event simulation: what is due stands in a queue ordered by its instant, the clock is moved to the next
//! instant, and what is due then happens. The door, the circuits, the store, the classifier and the decision about a
//! repetition are the product's own; what is played are the clock, the dependency, and the loop of the callers
//! ([`super::caller`]), which does what `run` and `serve` do. Chance is drawn from a fixed seed, so that two drills of
//! one policy see the same.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use halfopen::activation::{self, Figures};
use halfopen::clock::{Clock, ManualClock};
use halfopen::handle::{Handle, Route, StoreHealth};
use halfopen::store::{EventFilter, Location};
use halfopen_core::alert::Delivered;
use halfopen_core::chance::Chance;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::event::State;
use halfopen_core::job::JobId;
use halfopen_core::policy::Policy;
use halfopen_core::time::Timestamp;

use super::caller::Call;
use super::mechanisms::Mechanisms;
use super::quantity::{Names, Quantity, QuantityError, span};
use super::rehearsal::{Rehearsal, note};
use super::scenario::{Act, Answer, CALLS_MAX, Check, Deed, Group, Kept, Scenario};
use super::spoken::Meaning;
use super::trace::Trace;
use super::worker::Worker;

/// What the wall clock shows at the beginning: a Monday noon.
const NOON_MS: i64 = 1_772_452_800_000;
/// A row that goes on for longer, in steps or in virtual time, does not end by itself.
const STEPS_MAX: u32 = 200_000;
const LASTS_MAX: Duration = Duration::from_secs(40 * 24 * 3600);
/// How long an alert is lent to who delivers it, and how many at once.
const ALERT_LEASE: Duration = Duration::from_secs(60);
const ALERTS_AT_ONCE: usize = 16;
/// How many journal entries are read at once.
const EVENTS_AT_ONCE: usize = 1000;

/// Why a row could not be played.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlayError {
    /// A quantity of the scenario makes no sense.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// The scenario names what is not there.
    #[error("{0}")]
    Scenario(String),
    /// The store or its folder cannot be used.
    #[error("the drill's own store cannot be used: {0}")]
    Store(String),
}

/// What is due.
#[derive(Clone, Debug)]
pub(super) enum Due {
    /// The n-th call of a group begins.
    Begin {
        /// Which group.
        group: usize,
        /// Which call of it, 0-based.
        nth: usize,
    },
    /// A call asks the door.
    Ask {
        /// Which.
        call: usize,
    },
    /// An attempt ends.
    Ends {
        /// Whose.
        call: usize,
    },
    /// A living attempt renews its lease.
    Renew {
        /// Whose.
        call: usize,
        /// Which attempt.
        attempt: u32,
    },
    /// A worker looks for something to do.
    Work {
        /// Which.
        worker: usize,
    },
    /// A worker sends the job it holds.
    Send {
        /// Which.
        worker: usize,
    },
    /// The attempt of a job ends.
    JobEnds {
        /// Whose.
        worker: usize,
    },
    /// A living worker renews its lease.
    JobRenew {
        /// Which.
        worker: usize,
        /// Of which attempt.
        sent: usize,
    },
    /// Something else happens.
    Act(usize),
    /// A check looks at the circuit.
    Look,
}

/// One row being played.
pub(super) struct World<'a> {
    pub(super) rehearsal: &'a Rehearsal,
    pub(super) scenario: &'a Scenario,
    pub(super) mechanisms: Mechanisms,
    /// What the engine and its callers are given.
    pub(super) policy: Policy,
    pub(super) calls: Vec<Call>,
    pub(super) trace: Trace,
    pub(super) figures: Figures,
    /// The jobs that calls became.
    pub(super) jobs: BTreeMap<JobId, usize>,
    pub(super) workers: Vec<Worker>,
    machine: ManualClock,
    clock: Clock,
    began: Timestamp,
    doors: Vec<Handle>,
    places: Vec<Location>,
    folder: Option<tempfile::TempDir>,
    due: BinaryHeap<Reverse<(Timestamp, u64, usize)>>,
    entries: Vec<Due>,
    /// What waits for an instant that has not come.
    pending: Vec<(Quantity, Due)>,
    /// What the policy's values and the instants so far stand for.
    pub(super) names: Names,
    /// Up to where the journal of each door was read.
    read_to: Vec<i64>,
    happened: [usize; 6],
    /// The names of the alerts that went out.
    alerts: BTreeSet<String>,
    drawn: u64,
}

impl<'a> World<'a> {
    /// Plays a scenario and returns what was seen, with the instants it brought about.
    ///
    /// # Errors
    ///
    /// [`PlayError`] if the scenario makes no sense or the drill's own store fails.
    pub(super) fn play(
        rehearsal: &'a Rehearsal,
        scenario: &'a Scenario,
        mechanisms: Mechanisms,
    ) -> Result<(Trace, Names, Timestamp), PlayError> {
        let machine = ManualClock::new(NOON_MS);
        let clock = Clock::manual(&machine);
        let folder = match scenario.store {
            Kept::Memory => None,
            Kept::File => Some(tempfile::tempdir().map_err(|error| PlayError::Store(error.to_string()))?),
        };
        let mut world = Self {
            rehearsal,
            scenario,
            mechanisms,
            policy: mechanisms.policy(&rehearsal.policy),
            calls: Vec::new(),
            trace: Trace::default(),
            figures: Figures::default(),
            jobs: BTreeMap::new(),
            workers: Vec::new(),
            began: clock.now(),
            machine,
            clock,
            doors: Vec::new(),
            places: Vec::new(),
            folder,
            due: BinaryHeap::new(),
            entries: Vec::new(),
            pending: Vec::new(),
            names: rehearsal.names(),
            read_to: Vec::new(),
            happened: [0; 6],
            alerts: BTreeSet::new(),
            drawn: 0,
        };
        for _ in 0..scenario.processes {
            world.open_door()?;
        }
        world.set_the_stage()?;
        world.go_through()?;
        world.look_back();
        Ok((world.trace, world.names, world.began))
    }

    /// Opens the door of one more process; returns its number.
    pub(super) fn open_door(&mut self) -> Result<usize, PlayError> {
        let nth = self.doors.len();
        let place = match &self.folder {
            None => Location::Memory,
            Some(folder) => {
                let name = if nth == 0 || self.mechanisms.share_a_store() {
                    "drill.db".to_owned()
                } else {
                    format!("{nth}.db")
                };
                Location::Sqlite(folder.path().join(name))
            }
        };
        let clock = Clock::manual(&self.machine);
        let door = Handle::open_seeded(&place, clock, SEED.wrapping_add(nth as u64))
            .map_err(|error| PlayError::Store(error.to_string()))?;
        self.doors.push(door);
        self.places.push(place);
        self.read_to.push(0);
        Ok(nth)
    }

    fn set_the_stage(&mut self) -> Result<(), PlayError> {
        let scenario = self.scenario;
        for (index, group) in scenario.calls.iter().enumerate() {
            let count = self.count_of(group)?;
            if count > CALLS_MAX {
                return Err(PlayError::Scenario(format!("`{}` has {count} calls, more than {CALLS_MAX}", group.name)));
            }
            let at = group.at.clone().unwrap_or_else(Quantity::beginning);
            if group.one_by_one {
                self.when(at, Due::Begin { group: index, nth: 0 })?;
                continue;
            }
            for nth in 0..count {
                let begin = Due::Begin { group: index, nth };
                match &group.every {
                    Some(every) if nth > 0 => self.when(later(&at, every, nth)?, begin)?,
                    Some(_) | None => self.when(at.clone(), begin)?,
                }
            }
        }
        self.employ()?;
        for (index, act) in scenario.acts.iter().enumerate() {
            self.when(act.at.clone(), Due::Act(index))?;
        }
        for check in &scenario.expect {
            if let Check::State { at, .. } = check {
                self.when(at.clone(), Due::Look)?;
            }
        }
        Ok(())
    }

    /// Returns how many calls a group has.
    pub(super) fn count_of(&self, group: &Group) -> Result<usize, PlayError> {
        self.number_of(group.count.as_ref())
    }

    /// Returns a count, 1 where none is written.
    pub(super) fn number_of(&self, count: Option<&Quantity>) -> Result<usize, PlayError> {
        let Some(count) = count else { return Ok(1) };
        let count = count.number(&self.names)?.unwrap_or(1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped first")]
        Ok(count.ceil().clamp(0.0, 1_000_000.0) as usize)
    }

    fn go_through(&mut self) -> Result<(), PlayError> {
        let mut steps = 0;
        while let Some(Reverse((at, _, entry))) = self.due.pop() {
            steps += 1;
            if steps > STEPS_MAX || self.began.until(at) > LASTS_MAX {
                self.trace.endless = true;
                return Ok(());
            }
            self.machine.advance(self.now().until(at));
            self.trace.ended_at = at;
            match self.entries[entry].clone() {
                Due::Begin { group, nth } => self.begin(group, nth)?,
                Due::Ask { call } => self.ask(call)?,
                Due::Ends { call } => self.attempt_ends(call)?,
                Due::Renew { call, attempt } => self.renew(call, attempt),
                Due::Work { worker } => self.work(worker)?,
                Due::Send { worker } => self.send(worker)?,
                Due::JobEnds { worker } => self.job_ends(worker)?,
                Due::JobRenew { worker, sent } => self.renew_job(worker, sent),
                Due::Act(index) => self.act(&self.scenario.acts[index])?,
                Due::Look => self.look(),
            }
            self.read_journal()?;
            self.deliver();
        }
        Ok(())
    }

    /// Lets something happen at an instant, or when it is known.
    pub(super) fn when(&mut self, at: Quantity, due: Due) -> Result<(), PlayError> {
        match at.seconds(&self.names)? {
            Some(seconds) => self.at(self.began + span(seconds), due),
            None => self.pending.push((at, due)),
        }
        Ok(())
    }

    /// Returns whether a row may still be going on at an instant.
    pub(super) fn lasts_until(&self, at: Timestamp) -> bool {
        self.began.until(at) <= LASTS_MAX
    }

    /// Lets something happen at an instant; what lies behind us happens now.
    pub(super) fn at(&mut self, at: Timestamp, due: Due) {
        let entry = self.entries.len();
        self.entries.push(due);
        self.due.push(Reverse((at.max(self.now()), entry as u64, entry)));
    }

    /// Returns the instant.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns both clocks.
    pub(super) fn read_clock(&self) -> halfopen_core::time::ReadAt {
        self.clock.read()
    }

    /// Returns the door of a process.
    pub(super) fn door(&self, process: usize) -> &Handle {
        &self.doors[process]
    }

    /// Returns how many doors there are.
    pub(super) fn doors(&self) -> usize {
        self.doors.len()
    }

    /// Returns the next independent draw.
    pub(super) fn chance(&mut self) -> Chance {
        self.drawn += 1;
        Chance::from_seed(SEED).nth(self.drawn)
    }

    /// Returns the circuits of the n-th of a group's calls.
    pub(super) fn route(&self, group: &Group, nth: usize) -> Result<Route, PlayError> {
        let name = group.dependency.as_deref().unwrap_or(&self.policy.dependency);
        let wrong = |error: halfopen_core::circuit_id::CircuitIdError| PlayError::Scenario(error.to_string());
        let own = group.own_credentials.then(|| format!("{}-{nth}", group.name));
        let account = match own.as_ref().or(group.credential.as_ref()) {
            None => None,
            Some(credential) => Some(CircuitId::part(name, "credential", credential).map_err(wrong)?),
        };
        Ok(Route { place: CircuitId::whole(name).map_err(wrong)?, account })
    }

    /// Returns what the dependency answers to an attempt that starts now.
    pub(super) fn answer(&self, group: &'a Group, attempt: u32) -> Result<&'a Answer, PlayError> {
        let nth = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
        if let Some(answer) = group.meets.get(nth).or_else(|| group.meets.last()) {
            return Ok(answer);
        }
        current(&self.scenario.dependency, &self.names, self.began.until(self.now()))?.ok_or_else(|| {
            PlayError::Scenario(format!("the dependency of row `{}` has no answer from 0s on", self.scenario.row))
        })
    }

    /// Returns whether the cheap probe that is tried now ends well.
    pub(super) fn cheap_probe_is_well(&self) -> Result<bool, PlayError> {
        let said = current(&self.scenario.cheap_probe, &self.names, self.began.until(self.now()))?;
        Ok(said.is_none_or(|answer| matches!(answer.answer, Meaning::Ok | Meaning::OkExplainsLimits)))
    }

    fn act(&mut self, act: &Act) -> Result<(), PlayError> {
        match act.r#do {
            Deed::StepWallClock => {
                let by = act.by.as_ref().map_or(Ok(Some(0.0)), |by| by.seconds(&self.names))?.unwrap_or(0.0);
                #[expect(clippy::cast_possible_truncation, reason = "a step is shorter than a century")]
                self.machine.step_wall((by * 1000.0) as i64);
            }
            Deed::HoldOpen => self.hold(Some(State::Open), act)?,
            Deed::HoldClosed => self.hold(Some(State::Closed), act)?,
            Deed::Release => self.hold(None, act)?,
            Deed::LoseStore => self.swap_store("drill.db", "aside.db", true)?,
            Deed::RestoreStore => self.swap_store("aside.db", "drill.db", false)?,
        }
        Ok(())
    }

    /// An operator holds the drilled circuit in a state, or lets it go.
    fn hold(&self, state: Option<State>, act: &Act) -> Result<(), PlayError> {
        let failed = |error: halfopen::store::StoreError| PlayError::Store(error.to_string());
        let id = CircuitId::whole(&self.policy.dependency).map_err(|error| PlayError::Scenario(error.to_string()))?;
        let lasting = act.by.as_ref().map(|by| by.seconds(&self.names)).transpose()?.flatten().map(span);
        let door = &self.doors[0];
        match state {
            Some(state) => door.hold(&id, &self.policy, state, lasting, "drill", "a rehearsal"),
            None => door.release(&id, &self.policy, false, "drill", "a rehearsal"),
        }
        .map_err(failed)?;
        Ok(())
    }

    /// Delivers what the owner is to be told, as the process does whose settling made it due.
    fn deliver(&mut self) {
        let door = &self.doors[0];
        if !door.has_due_alerts() {
            return;
        }
        let channels = |_: &str| vec!["drill".to_owned()];
        let Ok(claimed) = door.claim_alerts(&channels, ALERT_LEASE, ALERTS_AT_ONCE) else { return };
        for claimed in claimed {
            let how: Vec<(String, Delivered)> =
                claimed.channels.iter().map(|channel| (channel.clone(), Delivered::Yes)).collect();
            // Not written down, it goes out again under its name, which is seen.
            let _ = door.finish_alert(&claimed, &how, &self.policy);
            let is_new = self.alerts.insert(claimed.alert.id.clone());
            self.trace.told_twice += usize::from(!is_new);
            if is_new && claimed.alert.circuit.split('@').next() == Some(self.policy.dependency.as_str()) {
                self.trace.told.push(claimed.alert.kind.clone());
            }
        }
    }

    /// Puts a folder where the store's file is, or takes it away again.
    fn swap_store(&self, from: &str, to: &str, lose: bool) -> Result<(), PlayError> {
        let Some(folder) = &self.folder else {
            return Err(PlayError::Scenario("a store can only be lost with `store: file`".to_owned()));
        };
        let failed = |error: std::io::Error| PlayError::Store(error.to_string());
        let blocked = folder.path().join("drill.db");
        if !lose {
            std::fs::remove_dir(&blocked).map_err(failed)?;
        }
        std::fs::rename(folder.path().join(from), folder.path().join(to)).map_err(failed)?;
        if lose {
            std::fs::create_dir(&blocked).map_err(failed)?;
        }
        Ok(())
    }

    /// Notes what the drilled circuit shows now.
    fn look(&mut self) {
        let now = self.now();
        let status = CircuitId::whole(&self.policy.dependency)
            .ok()
            .and_then(|id| self.doors[0].circuit(&id, &self.policy).ok().flatten())
            .map(|view| view.status.state);
        self.trace.looks.push((now, status));
    }

    /// Reads what the engine stated since the last time, and gives instants their values.
    fn read_journal(&mut self) -> Result<(), PlayError> {
        // Processes with a store in common have one journal.
        let journals = if self.folder.is_some() && self.mechanisms.share_a_store() { 1 } else { self.doors.len() };
        let filter = EventFilter {
            dependency: Some(self.policy.dependency.clone()),
            limit: EVENTS_AT_ONCE,
            ..EventFilter::default()
        };
        let mut changed = false;
        for nth in 0..journals {
            // While the store is lost nothing is stated; what was learned is handed over later.
            let Ok(entries) = self.doors[nth].events_after(self.read_to[nth], &filter) else { continue };
            for entry in entries {
                self.read_to[nth] = entry.position;
                changed |= note(&mut self.names, &mut self.happened, self.began, &entry.event);
                self.trace.events.push(entry.event);
            }
        }
        if changed {
            let (names, mut ready, mut still) = (&self.names, Vec::new(), Vec::new());
            for (at, due) in std::mem::take(&mut self.pending) {
                match at.seconds(names)? {
                    Some(seconds) => ready.push((self.began + span(seconds), due)),
                    None => still.push((at, due)),
                }
            }
            self.pending = still;
            for (at, due) in ready {
                self.at(at, due);
            }
        }
        Ok(())
    }

    /// Looks at what is left when nothing is due any more.
    fn look_back(&mut self) {
        self.look_at_jobs();
        let circuits = self.doors[0].circuits(&|_| self.policy.clone()).unwrap_or_default();
        let own = circuits.iter().filter(|view| view.id.dependency() == self.policy.dependency);
        self.trace.partitions = own.filter(|view| view.id.partition().is_some()).count();
        self.trace.store_good = self.doors.iter().all(|door| door.health() == StoreHealth::Good);
        let Some(place) = self.places.first() else { return };
        let now_ms = self.read_clock().wall_ms;
        if self.mechanisms.leave_a_line() {
            let _ = activation::record(place, &self.policy.dependency, &self.figures, &[], now_ms);
        }
        self.trace.line_calls = activation::read(place, 0, now_ms.saturating_add(1))
            .ok()
            .and_then(|report| report.dependencies.get(&self.policy.dependency).map(|summary| summary.figures.calls));
    }
}

/// The seed of everything that is drawn.
const SEED: u64 = 0x0068_616c_666f_7065;

/// Returns which of these answers holds so long after the beginning.
pub(super) fn current<'a>(
    answers: &'a [Answer],
    names: &Names,
    elapsed: Duration,
) -> Result<Option<&'a Answer>, PlayError> {
    let elapsed = elapsed.as_secs_f64();
    let mut current = None;
    for answer in answers {
        let from = answer.from.as_ref().map_or(Ok(Some(0.0)), |from| from.seconds(names))?;
        if from.is_some_and(|from| from <= elapsed + 0.000_5) {
            current = Some(answer);
        }
    }
    Ok(current)
}

/// Returns the instant of the n-th of things that are `every` apart.
fn later(at: &Quantity, every: &Quantity, nth: usize) -> Result<Quantity, QuantityError> {
    Quantity::read(&format!("({at}) + ({every}) * {nth}"))
}
