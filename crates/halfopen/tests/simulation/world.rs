//! Plays one history: what is due stands in a queue ordered by its instant, and the clock is moved to the next.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::num::NonZeroU32;
use std::time::Duration;

use halfopen::clock::{Clock, ManualClock};
use halfopen::config::QueueBounds;
use halfopen::handle::jobs::{Claim, Ending, JobKey, Lease, NewJob};
use halfopen::handle::{Handle, Route};
use halfopen::store::Location;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::event::State;
use halfopen_core::job::{HttpRequest, JobId, JobRequest, JobState, Reason, Safety, Terms};
use halfopen_core::pair::{Answer, Pass};
use halfopen_core::permit::{Ask, PermitKind};
use halfopen_core::policy::{OnExpiry, Policy, Replay, Surface};
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{Class, Verdict};

use crate::chance::Draws;
use crate::dependency::{Coming, Dependency, Health};
use crate::promises::Promises;

const NOON_MS: i64 = 1_796_040_000_000;
const SECOND: Duration = Duration::from_secs(1);
/// How long the dependency is ill and well by turns, and everything else goes wrong.
const TROUBLE: Duration = Duration::from_secs(120);
/// Nobody asks again sooner.
const PAUSE: Duration = Duration::from_millis(20);
/// So many jobs and steps are enough for one history.
const JOBS_MAX: usize = 24;
const STEPS_MAX: usize = 200_000;
/// Every job is looked up once in so many steps; that none was carried out twice is looked at after each.
const ALL_JOBS_EACH: u64 = 64;

/// Where a history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    InMemory,
    InFile,
}

/// A mechanism that is off, to show that a broken promise is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Off {
    Nothing,
    /// A half-open breaker has no bound.
    ProbesBounded,
    /// What was held back returns at once.
    DrainPaced,
    /// Stated waits are not read.
    HintsRead,
    /// A dead process keeps its slot.
    LeasesExpire,
    /// A cooldown grows beyond its cap.
    CooldownCapped,
    /// A job is sent without a note that it is about to be.
    NoteBeforeSending,
}

impl Off {
    fn policy(self, policy: &Policy) -> Policy {
        let mut policy = policy.clone();
        match self {
            Self::ProbesBounded => policy.circuit.half_open_max_calls = NonZeroU32::MAX,
            Self::DrainPaced => {
                policy.drain.rate_per_sec = 1_000_000.0;
                policy.drain.max_per_sec = 1_000_000.0;
            }
            Self::LeasesExpire => {
                policy.circuit.probe_lease = Duration::from_secs(100_000);
                policy.timeout = None;
            }
            Self::CooldownCapped => policy.circuit.max_open_for = Duration::from_secs(100_000),
            Self::Nothing | Self::HintsRead | Self::NoteBeforeSending => {}
        }
        policy
    }

    fn verdict(self, verdict: Verdict) -> Verdict {
        match self {
            Self::HintsRead => Verdict { hint: None, ..verdict },
            _ => verdict,
        }
    }
}

/// What a history contained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) histories: u64,
    steps: u64,
    calls: u64,
    refused: u64,
    probes: u64,
    held_back: u64,
    trips: u64,
    recoveries: u64,
    crashes: u64,
    freezes: u64,
    clock_steps: u64,
    jobs: u64,
    done: u64,
    reviewed: u64,
    leases_lost: u64,
    /// The longest time until traffic flowed again, as a share of what the policy allows, in thousandths.
    latest: u64,
}

impl Seen {
    pub(crate) fn add(&mut self, other: Self) {
        self.histories += 1;
        self.latest = self.latest.max(other.latest);
        for (mine, more) in [
            (&mut self.steps, other.steps),
            (&mut self.calls, other.calls),
            (&mut self.refused, other.refused),
            (&mut self.probes, other.probes),
            (&mut self.held_back, other.held_back),
            (&mut self.trips, other.trips),
            (&mut self.recoveries, other.recoveries),
            (&mut self.crashes, other.crashes),
            (&mut self.freezes, other.freezes),
            (&mut self.clock_steps, other.clock_steps),
            (&mut self.jobs, other.jobs),
            (&mut self.done, other.done),
            (&mut self.reviewed, other.reviewed),
            (&mut self.leases_lost, other.leases_lost),
        ] {
            *mine += more;
        }
    }

    /// Whether everything happened that a simulation is for.
    pub(crate) fn is_rich(&self) -> bool {
        let all = [self.refused, self.probes, self.held_back, self.trips, self.recoveries, self.crashes, self.freezes];
        let jobs = [self.clock_steps, self.jobs, self.done, self.reviewed, self.leases_lost];
        all.into_iter().chain(jobs).all(|count| count >= self.histories / 20)
    }
}

#[derive(Clone, Debug)]
enum Due {
    /// Somebody calls.
    Call(Who),
    /// Somebody who waits asks again.
    Ask(Who, Ask),
    /// An attempt is over.
    Ends(Who, usize),
    /// A living process renews what it holds.
    Renew(Who, usize),
    /// A worker looks for something to do.
    Work(Who),
    /// A call is stored for later.
    Store(Who),
    Crash,
    Freeze,
    StepClock,
    Health,
}

/// A process, and which of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Who {
    process: usize,
    life: u32,
}

struct Process {
    door: usize,
    life: u32,
    frozen_until: Timestamp,
}

/// Something under way.
struct Attempt {
    pass: Pass,
    coming: Coming,
    lease: Option<Box<Lease>>,
    over: bool,
}

pub(crate) struct World {
    seed: u64,
    draws: Draws,
    machine: ManualClock,
    clock: Clock,
    policy: Policy,
    /// What the engine is given: the same, unless a mechanism is off.
    engine: Policy,
    off: Off,
    route: Route,
    place: Location,
    doors: Vec<Handle>,
    processes: Vec<Process>,
    dependency: Dependency,
    promises: Promises,
    attempts: Vec<Attempt>,
    /// What each accepted job is to carry out.
    jobs: BTreeMap<JobId, u64>,
    work: u64,
    due: BinaryHeap<Reverse<(Timestamp, usize)>>,
    entries: Vec<Due>,
    /// From when on all is well.
    well_from: Option<Timestamp>,
    flowed_at: Option<Timestamp>,
    seen: Seen,
    _folder: Option<tempfile::TempDir>,
}

/// A policy of small numbers, so that everything happens within minutes.
fn policy(draws: &mut Draws) -> Policy {
    let count = |n: u64| NonZeroU32::new(u32::try_from(n).unwrap()).unwrap();
    let mut policy = Policy::built_in("ocr", Surface::Serve);
    policy.timeout = Some(draws.millis(200, 12_000));
    let circuit = &mut policy.circuit;
    circuit.window = draws.millis(2_000, 60_000);
    circuit.open_after_failures = count(draws.within(1, 5));
    circuit.open_for = draws.millis(500, 20_000);
    circuit.cooldown_factor = draws.of(&[1.0, 1.5, 2.0, 4.0]);
    circuit.max_open_for = circuit.open_for * u32::try_from(draws.within(1, 6)).unwrap();
    circuit.half_open_max_calls = count(draws.within(1, 3));
    circuit.close_after_successes = count(draws.within(1, 4));
    circuit.probe_lease = draws.millis(300, 10_000);
    circuit.lease = draws.millis(300, 10_000);
    policy.retry.max_wait = draws.millis(100, 60_000);
    policy.retry.honor_retry_after = !draws.once_in(10);
    policy.retry.max_attempts = count(draws.within(1, 4));
    policy.drain.rate_per_sec = draws.of(&[0.5, 1.0, 3.0]);
    policy.drain.max_per_sec = policy.drain.rate_per_sec * draws.of(&[1.0, 2.0, 5.0]);
    policy.replay = draws.of(&[Replay::IfIdempotent, Replay::IfIdempotent, Replay::Never, Replay::Always]);
    policy
}

/// Returns within which time traffic flows once all is well, whatever was before.
///
/// What was under way is over after a timeout, or its lease is. By then the breaker may have opened once more, for its
/// longest cooldown with its jitter, or everybody was asked to wait. Then so many probes must succeed, one after the other
/// at worst, and somebody calls every second.
fn bound(policy: &Policy, dependency: &Dependency) -> Duration {
    let over = policy.timeout.unwrap().max(policy.circuit.probe_lease).max(policy.circuit.lease) + 2 * SECOND;
    let refused = policy.circuit.max_open_for.mul_f64(1.1).max(dependency.wait_max.mul_f64(1.2)) + SECOND;
    over + refused + (dependency.swift + 2 * SECOND) * policy.circuit.close_after_successes.get()
}

impl World {
    /// Plays the history of a seed.
    ///
    /// # Panics
    ///
    /// If a promise is broken; the message names the seed.
    pub(crate) fn play(seed: u64, kept: Kept) -> Seen {
        let played = std::panic::catch_unwind(|| Self::new(seed, kept, Off::Nothing).through());
        played.unwrap_or_else(|_| panic!("the history of seed {seed} ({kept:?}) broke a promise, said above"))
    }

    /// Whether the history of a seed keeps the promises without a mechanism.
    pub(crate) fn keeps_promises_without(off: Off, seed: u64) -> bool {
        std::panic::catch_unwind(|| Self::new(seed, Kept::InMemory, off).through()).is_ok()
    }

    fn new(seed: u64, kept: Kept, off: Off) -> Self {
        let mut draws = Draws::new(seed);
        let policy = policy(&mut draws);
        let dependency = Dependency::new(policy.timeout.unwrap(), &mut draws);
        let machine = ManualClock::new(NOON_MS);
        let clock = Clock::manual(&machine);
        let folder = (kept == Kept::InFile).then(|| tempfile::tempdir().unwrap());
        let place = match &folder {
            Some(folder) => Location::Sqlite(folder.path().join("halfopen.db")),
            None => Location::Memory,
        };
        let mut world = Self {
            seed,
            draws,
            machine,
            clock,
            engine: off.policy(&policy),
            off,
            policy,
            route: Route { place: CircuitId::whole("ocr").unwrap(), account: None },
            place,
            doors: Vec::new(),
            processes: Vec::new(),
            dependency,
            promises: Promises::default(),
            attempts: Vec::new(),
            jobs: BTreeMap::new(),
            work: 0,
            due: BinaryHeap::new(),
            entries: Vec::new(),
            well_from: None,
            flowed_at: None,
            seen: Seen::default(),
            _folder: folder,
        };
        let count = world.draws.within(2, 4);
        for _ in 0..count {
            let door = world.open();
            world.processes.push(Process { door, life: 0, frozen_until: Timestamp::from_millis(0) });
        }
        world
    }

    /// Opens the door of a new process; in memory there is one for all, as a store there is no longer than its door.
    fn open(&mut self) -> usize {
        if self.doors.is_empty() || self.place != Location::Memory {
            let seed = self.seed.wrapping_mul(1000).wrapping_add(self.doors.len() as u64);
            self.doors.push(Handle::open_seeded(&self.place, Clock::manual(&self.machine), seed).unwrap());
        }
        self.doors.len() - 1
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn after(&mut self, wait: Duration, due: Due) {
        let at = self.now() + wait;
        self.at(at, due);
    }

    fn at(&mut self, at: Timestamp, due: Due) {
        self.entries.push(due);
        self.due.push(Reverse((at.max(self.now()), self.entries.len() - 1)));
    }

    fn through(mut self) -> Seen {
        let began = self.now();
        for process in 0..self.processes.len() {
            self.employ(Who { process, life: 0 });
        }
        for due in [Due::Health, Due::Crash, Due::Freeze, Due::StepClock] {
            let wait = self.draws.millis(100, 20_000);
            self.after(wait, due);
        }
        let allowed = bound(&self.policy, &self.dependency);
        // A job that nobody could do is over when its time is; then leases and sweeps.
        let over_after = TROUBLE + allowed + self.ttl_max() + self.policy.circuit.lease + 120 * SECOND;
        while let Some(Reverse((at, entry))) = self.due.pop() {
            self.seen.steps += 1;
            assert!(self.entries.len() < STEPS_MAX, "seed {}: it does not end", self.seed);
            self.machine.advance(self.now().until(at));
            if self.well_from.is_none() && began.until(at) >= TROUBLE {
                self.end_of_trouble();
            }
            if began.until(at) >= over_after {
                break;
            }
            let due = self.entries[entry].clone();
            self.step(due);
            self.check(allowed);
            if self.flowed_at.is_some() && self.seen.steps.is_multiple_of(ALL_JOBS_EACH) && self.is_at_rest() {
                break;
            }
        }
        self.look_back(allowed);
        self.seen
    }

    /// Whether nothing is left to be seen: the breaker is closed, and every job has come to its end.
    fn is_at_rest(&self) -> bool {
        let door = &self.doors[self.processes[0].door];
        let view = door.circuit(&self.route.place, &self.engine).unwrap();
        let ended = |id: &JobId| {
            let state = door.job(*id).unwrap().unwrap().view.job.state();
            !matches!(state, JobState::Queued | JobState::Running)
        };
        view.is_none_or(|view| view.status.state == State::Closed) && self.jobs.keys().all(ended)
    }

    /// A process that has just started calls, stores and works.
    fn employ(&mut self, who: Who) {
        for due in [Due::Call(who), Due::Work(who), Due::Store(who)] {
            let wait = self.draws.millis(0, 1_500);
            self.after(wait, due);
        }
    }

    /// From here on the dependency is well, nobody dies, and nobody stands still.
    fn end_of_trouble(&mut self) {
        let now = self.now();
        self.well_from = Some(now);
        self.dependency.health = Health::Well;
        for process in &mut self.processes {
            process.frozen_until = now;
        }
    }

    fn ttl_max(&self) -> Duration {
        Duration::from_secs(180)
    }

    fn step(&mut self, due: Due) {
        let who = match &due {
            Due::Call(who) | Due::Ask(who, _) | Due::Ends(who, _) | Due::Renew(who, _) => Some(*who),
            Due::Work(who) | Due::Store(who) => Some(*who),
            Due::Crash | Due::Freeze | Due::StepClock | Due::Health => None,
        };
        if let Some(who) = who {
            let process = &self.processes[who.process];
            if process.life != who.life {
                return;
            }
            // Who is frozen does everything later.
            if process.frozen_until > self.now() {
                let at = process.frozen_until;
                return self.at(at, due);
            }
        }
        let is_well = self.well_from.is_some();
        match due {
            Due::Call(who) => {
                let wait = if is_well { SECOND } else { self.draws.millis(30, 3_000) };
                self.after(wait, Due::Call(who));
                self.ask(who, Ask::Fresh);
            }
            Due::Ask(who, ask) => self.ask(who, ask),
            Due::Ends(who, attempt) => self.ends(who, attempt),
            Due::Renew(who, attempt) => self.renew(who, attempt),
            Due::Work(who) => self.work(who),
            Due::Store(who) => {
                let wait = self.draws.millis(500, 20_000);
                self.after(wait, Due::Store(who));
                if self.jobs.len() < JOBS_MAX && !is_well {
                    self.store(who);
                }
            }
            Due::Crash | Due::Freeze | Due::StepClock | Due::Health if is_well => {}
            Due::Crash => self.crash(),
            Due::Freeze => self.freeze(),
            Due::StepClock => {
                self.seen.clock_steps += 1;
                let by = i64::try_from(self.draws.within(0, 200_000_000)).unwrap() - 100_000_000;
                self.machine.step_wall(by);
                self.again(30_000, Due::StepClock);
            }
            Due::Health => {
                self.dependency.health = self.draws.of(&Health::ALL);
                self.again(25_000, Due::Health);
            }
        }
    }

    fn again(&mut self, within_ms: u64, due: Due) {
        let wait = self.draws.millis(500, within_ms);
        self.after(wait, due);
    }

    /// `kill -9`: whatever it held is held by nobody, and somebody starts it anew.
    fn crash(&mut self) {
        self.seen.crashes += 1;
        let process = usize::try_from(self.draws.next() % self.processes.len() as u64).unwrap();
        let door = self.open();
        let now = self.now();
        let state = &mut self.processes[process];
        *state = Process { door, life: state.life + 1, frozen_until: now };
        let who = Who { process, life: state.life };
        self.employ(who);
        self.again(40_000, Due::Crash);
    }

    fn freeze(&mut self) {
        self.seen.freezes += 1;
        let process = usize::try_from(self.draws.next() % self.processes.len() as u64).unwrap();
        let until = self.now() + self.draws.millis(100, 30_000);
        self.processes[process].frozen_until = until;
        self.again(40_000, Due::Freeze);
    }

    fn door(&self, who: Who) -> &Handle {
        &self.doors[self.processes[who.process].door]
    }

    fn ask(&mut self, who: Who, ask: Ask) {
        let now = self.now();
        self.seen.calls += u64::from(ask == Ask::Fresh);
        match self.door(who).admit(&self.route, &self.engine, ask) {
            Answer::Granted(pass) => {
                self.work += 1;
                self.start(who, pass, None, self.work);
            }
            Answer::Refused { side, refusal } => {
                self.seen.refused += 1;
                let waits = self.draws.once_in(3);
                let Some(at) = refusal.retry_at.filter(|at| waits && now.until(*at) <= 30 * SECOND) else { return };
                self.door(who).hold_back(&self.route, &self.engine, side);
                self.at(at.max(now + PAUSE), Due::Ask(who, Ask::Waited(refusal.slot)));
            }
        }
    }

    fn start(&mut self, who: Who, pass: Pass, lease: Option<Box<Lease>>, work: u64) {
        let now = self.now();
        self.promises.admitted(&pass, &self.policy, now);
        let is_probe = pass.place.kind == PermitKind::Probe;
        self.seen.probes += u64::from(is_probe);
        self.seen.held_back += u64::from(pass.place.ramped);
        let coming = self.dependency.asked(work, &mut self.draws);
        let attempt = self.attempts.len();
        self.after(coming.takes, Due::Ends(who, attempt));
        if is_probe || pass.place.ramped || lease.is_some() {
            self.after(self.renew_every(), Due::Renew(who, attempt));
        }
        self.attempts.push(Attempt { pass, coming, lease, over: false });
    }

    fn renew_every(&self) -> Duration {
        self.policy.circuit.probe_lease.min(self.policy.circuit.lease) / 3
    }

    fn renew(&mut self, who: Who, attempt: usize) {
        let now = self.now();
        let state = &self.attempts[attempt];
        if state.over {
            return;
        }
        let door = self.door(who);
        let is_ours = match &state.lease {
            Some(lease) => door.renew_lease(lease, &self.engine).is_ok(),
            None => door.renew(&self.route, &self.engine, &state.pass),
        };
        if is_ours {
            let pass = state.pass.clone();
            self.promises.renewed(&pass, &self.policy, now);
            self.after(self.renew_every(), Due::Renew(who, attempt));
        }
    }

    fn ends(&mut self, who: Who, attempt: usize) {
        let now = self.now();
        let state = &mut self.attempts[attempt];
        state.over = true;
        let (pass, lease) = (state.pass.clone(), state.lease.take());
        let verdict = state.coming.verdict(now);
        self.promises.settled(&pass, Some(&verdict), &self.policy);
        let verdict = self.off.verdict(verdict);
        match lease {
            None => {
                let given_up = self.draws.once_in(20) && self.well_from.is_none();
                if given_up && verdict.hint.is_none() {
                    // The caller goes away: nothing is said of the dependency.
                    self.door(who).give_back(&self.route, &self.engine, pass);
                } else {
                    let events = self.door(who).settle(&self.route, &self.engine, pass, &verdict);
                    self.note(&events);
                    if verdict.class == Class::Success && self.well_from.is_some() {
                        self.flowed_at = self.flowed_at.or(Some(now));
                    }
                }
            }
            Some(lease) => {
                let took = self.draws.millis(1, 1_000);
                let ending = Ending { verdict, took, command: None, result: None };
                match self.door(who).finish_job(&lease, &self.engine, &ending) {
                    Ok(_) => {}
                    Err(_) => self.seen.leases_lost += 1,
                }
                self.after(PAUSE, Due::Work(who));
            }
        }
    }

    fn note(&mut self, events: &[halfopen_core::snapshot::EventRecord]) {
        self.promises.stated(events);
        let count = |name: &str| events.iter().filter(|event| event.event == name).count() as u64;
        self.seen.trips += count("tripped");
        self.seen.recoveries += count("recovered");
    }

    fn work(&mut self, who: Who) {
        let policy = self.engine.clone();
        let worker = format!("worker-{}", who.process);
        // What a sweep or a claim finds is stated as what a settling finds.
        let swept = self.door(who).sweep(&|_| policy.clone()).unwrap();
        self.note(&swept);
        match self.door(who).claim_job("ocr", &policy, &worker).unwrap() {
            Claim::Taken(lease) => {
                // Some die or stand still between their claim and their sending.
                if self.draws.once_in(12) && self.well_from.is_none() {
                    let until = self.now() + self.draws.millis(100, 20_000);
                    self.processes[who.process].frozen_until = until;
                    return self.at(until, Due::Work(who));
                }
                if self.off != Off::NoteBeforeSending && self.door(who).note_sending(&lease, &policy).is_err() {
                    self.seen.leases_lost += 1;
                    return self.after(PAUSE, Due::Work(who));
                }
                let work = self.jobs[&lease.id];
                let pass = lease.pass.clone();
                self.start(who, pass, Some(lease), work);
            }
            Claim::Refused { refusal, .. } => {
                let at = refusal
                    .retry_at
                    .unwrap_or_else(|| self.now() + SECOND)
                    .max(self.now() + PAUSE)
                    .min(self.now() + 5 * SECOND);
                self.at(at, Due::Work(who));
            }
            Claim::Nothing { .. } | Claim::Full => self.after(SECOND, Due::Work(who)),
        }
    }

    fn store(&mut self, who: Who) {
        self.work += 1;
        let work = 1_000_000_000 + self.work;
        let again = self.draws.once_in(3);
        let key = JobKey { caller: "sim".to_owned(), key: work.to_string() };
        let new = || NewJob {
            terms: Terms {
                place: self.route.place.clone(),
                account: None,
                ttl: Duration::from_secs(180),
                on_expiry: OnExpiry::Expired,
                safety: Safety::Unsafe,
                keep: Duration::from_secs(10_000),
            },
            request: JobRequest::Http(HttpRequest {
                method: "POST".to_owned(),
                target: "/sim".to_owned(),
                headers: Vec::new(),
                credential: None,
                body: work.to_string().into_bytes(),
            }),
            key: Some(key.clone()),
            order_key: None,
            review: None,
            retry_at: None,
            bounds: QueueBounds::default(),
            caller: None,
            on_done: false,
        };
        let id = self.door(who).enqueue(new()).unwrap().receipt().id;
        if again {
            // The answer was lost, and the caller asks again.
            assert_eq!(self.door(who).enqueue(new()).unwrap().receipt().id, id, "one key made two jobs");
        }
        self.jobs.insert(id, work);
        self.seen.jobs += 1;
    }

    /// What is promised at every moment.
    fn check(&self, allowed: Duration) {
        let door = &self.doors[self.processes[0].door];
        let view = door.circuit(&self.route.place, &self.engine).unwrap();
        if let Some(view) = &view {
            let most = self.policy.circuit.half_open_max_calls.get();
            assert!(view.status.probes_in_flight <= most, "{} probes, {most} allowed", view.status.probes_in_flight);
        }
        let all = self.seen.steps.is_multiple_of(ALL_JOBS_EACH);
        for (id, work) in &self.jobs {
            assert!(!all || door.job(*id).unwrap().is_some(), "job {id} is nowhere");
            let times = self.dependency.done.get(work).copied().unwrap_or(0);
            assert!(times <= 1 || self.policy.replay == Replay::Always, "job {id} was carried out {times} times");
        }
        if let (Some(well), None) = (self.well_from, self.flowed_at) {
            let waited = well.until(self.now());
            assert!(waited <= allowed, "nothing flows {waited:?} after all is well, {allowed:?} allowed: {view:?}");
        }
    }

    /// What must have come of it.
    fn look_back(&mut self, allowed: Duration) {
        let door = &self.doors[self.processes[0].door];
        let swept = door.sweep(&|_| self.engine.clone()).unwrap();
        let flowed = self.well_from.unwrap().until(self.flowed_at.expect("traffic flows in the end"));
        self.seen.latest = u64::try_from(flowed.as_millis() * 1000 / allowed.as_millis()).unwrap();
        let view = door.circuit(&self.route.place, &self.engine).unwrap();
        assert!(view.is_none_or(|view| view.status.state == State::Closed), "the breaker is closed in the end");
        let report = door.audit().unwrap();
        assert!(report.is_good(), "{:?}", report.wrong);
        assert_eq!(report.jobs, self.jobs.len() as u64, "what was accepted is what there is");
        for (id, work) in &self.jobs {
            let job = door.job(*id).unwrap().unwrap().view.job;
            let state = job.state();
            let times = self.dependency.done.get(work).copied().unwrap_or(0);
            assert!(job.attempts() <= job.sent(), "job {id} is charged for what was never sent");
            let reason = job.reason();
            assert!(job.sent() > 0 || reason != Some(Reason::AttemptsUsed), "job {id} used up what it never had");
            match state {
                JobState::Done => {
                    self.seen.done += 1;
                    assert!(times >= 1, "job {id} is done, and nothing was carried out");
                }
                JobState::ManualReview => self.seen.reviewed += 1,
                JobState::Failed | JobState::Expired | JobState::Cancelled => {}
                JobState::Queued | JobState::Running => panic!("job {id} is {state} in the end"),
            }
        }
        self.note(&swept);
    }
}
