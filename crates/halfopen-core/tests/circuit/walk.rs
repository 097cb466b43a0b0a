//! Walks a circuit through whatever a string of bytes says: several processes that ask, settle, give back, renew and
//! die, clocks that run and boots that step them, operators that hold, release and reset.
//!
//! Bytes, so that the properties and the fuzzer speak one language and a file the fuzzer found is a test. Every string
//! is valid; what runs out reads as zero.

use std::num::NonZeroU32;
use std::time::Duration;

use halfopen_core::circuit::Circuit;
use halfopen_core::event::{Event, EventKind, State};
use halfopen_core::outcome::Reached;
use halfopen_core::permit::{Ask, Permit, PermitKind, Refusal, Slot};
use halfopen_core::policy::Policy;
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{About, Class, Hint, HintSource, Scope, Verdict};

use crate::world::{World, millis};

/// A string of bytes that is read from the front.
#[derive(Clone, Debug)]
pub(crate) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn next(&mut self) -> u8 {
        match self.0.split_first() {
            None => 0,
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
        }
    }

    fn pick<T: Copy, const N: usize>(&mut self, choices: [T; N]) -> T {
        choices[usize::from(self.next()) % N]
    }

    /// A policy with small numbers, so that few bytes reach every corner.
    pub(crate) fn policy(&mut self) -> Policy {
        let count = |n: u32| NonZeroU32::new(n).expect("counts are above 0");
        let mut policy = World::ocr().policy;
        policy.circuit.window = self.pick([secs(60), secs(5), secs(900)]);
        policy.circuit.open_after_failures = count(self.pick([3, 1, 5]));
        policy.circuit.open_for = self.pick([secs(120), millis(500), secs(10)]);
        policy.circuit.max_open_for = self.pick([secs(3600), secs(120)]);
        policy.circuit.cooldown_factor = self.pick([2.0, 1.0, 10.0]);
        policy.circuit.half_open_max_calls = count(self.pick([2, 1, 3]));
        policy.circuit.close_after_successes = count(self.pick([2, 1, 3]));
        policy.circuit.probe_lease = self.pick([secs(30), secs(5)]);
        policy.timeout = self.pick([Some(secs(8)), None, Some(secs(100))]);
        policy.retry.max_wait = self.pick([secs(300), secs(10)]);
        policy.retry.honor_retry_after = self.pick([true, true, true, false]);
        policy.circuit.count_unclassified = self.pick([false, true]);
        policy.drain.rate_per_sec = self.pick([1.0, 0.1, 50.0]);
        policy.drain.max_in_flight = count(self.pick([2, 1, 8]));
        policy
    }

    fn wait(&mut self) -> Duration {
        let by = u64::from(self.next()) + 1;
        self.pick([millis(1), millis(100), secs(1), secs(60), secs(3600)])
            .saturating_mul(u32::try_from(by).unwrap_or(1))
    }

    fn verdict(&mut self, now: Timestamp) -> Verdict {
        let class = Class::ALL[usize::from(self.next()) % Class::ALL.len()];
        let mut verdict = Verdict::plain(class, "test/walk", Reached::Answered);
        let shape = self.next();
        if shape & 1 != 0 && class != Class::Success {
            let wait = self.wait();
            let scope = if shape & 2 == 0 { Scope::Whole } else { Scope::Part("model".into()) };
            verdict.hint = Some(Hint { until: now + wait, wait, source: HintSource::Body, scope });
        }
        if shape & 12 == 12 {
            verdict.about = About::Caller;
        }
        verdict
    }

    /// The next step, until the string ends.
    pub(crate) fn step(&mut self, now: Timestamp) -> Option<Step> {
        if self.0.is_empty() {
            return None;
        }
        let process = |byte: u8| byte % 3;
        Some(match self.next() % 20 {
            0..=3 => Step::Ask(process(self.next()), Who::Fresh),
            4 => Step::Ask(process(self.next()), Who::Waiter),
            5 => Step::Ask(process(self.next()), Who::Job),
            6..=9 => Step::Settle(self.next(), self.verdict(now)),
            10 => Step::Settle(self.next(), Verdict::plain(Class::Success, "test/walk", Reached::Answered)),
            11 => Step::Early(self.next()),
            12 => Step::GiveBack(self.next()),
            13 => Step::Die(process(self.next())),
            14 => Step::Renew(process(self.next())),
            15 | 16 => Step::Wait(self.wait()),
            17 => Step::HoldBack(self.next() % 8 + 1),
            18 => match self.next() % 8 {
                0 => Step::Hold(State::Open, Some(self.wait())),
                1 => Step::Hold(State::Closed, Some(self.wait())),
                2 => Step::Hold(State::Open, None),
                3 | 4 => Step::Release(false),
                5 => Step::Release(true),
                6 => Step::Reset,
                _ => Step::Jobs(u64::from(self.next() % 5)),
            },
            _ => match self.next() % 4 {
                0 => Step::Reboot { back: true, by: self.wait() },
                1 => Step::Reboot { back: false, by: self.wait() },
                _ => Step::Expire,
            },
        })
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Fresh,
    Waiter,
    Job,
}

/// One step of a walk. A permit is named by any number, taken modulo those that are out.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Ask(u8, Who),
    Settle(u8, Verdict),
    Early(u8),
    GiveBack(u8),
    Die(u8),
    Renew(u8),
    Wait(Duration),
    HoldBack(u8),
    Hold(State, Option<Duration>),
    Release(bool),
    Reset,
    Jobs(u64),
    Reboot { back: bool, by: Duration },
    Expire,
}

/// A permit that a process holds.
#[derive(Clone, Debug)]
pub(crate) struct Out {
    pub(crate) process: u8,
    pub(crate) permit: Permit,
}

/// What a step did, for those who compare.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    pub(crate) answer: Option<Result<Permit, Refusal>>,
    pub(crate) settled: Option<Permit>,
    pub(crate) further: Option<Permit>,
    pub(crate) renewed: Vec<(Permit, bool)>,
    pub(crate) events: Vec<Event>,
}

/// A world, the permits that are out in it, and the slot the waiters were given last.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    pub(crate) world: World,
    pub(crate) out: Vec<Out>,
    slots: Vec<Slot>,
}

impl Walk {
    pub(crate) fn new(policy: Policy) -> Self {
        let mut world = World::ocr();
        world.policy = policy;
        Self { world, out: Vec::new(), slots: Vec::new() }
    }

    /// Walks the whole string and hands every stop to `look`.
    pub(crate) fn along(bytes: &[u8], mut look: impl FnMut(&Self, &Step, &Done)) -> Self {
        let mut bytes = Bytes::new(bytes);
        let mut walk = Self::new(bytes.policy());
        while let Some(step) = bytes.step(walk.world.now) {
            let done = walk.go(&step);
            look(&walk, &step, &done);
        }
        walk
    }

    fn take(&mut self, index: u8) -> Option<Out> {
        let len = self.out.len();
        (len > 0).then(|| self.out.swap_remove(usize::from(index) % len))
    }

    pub(crate) fn go(&mut self, step: &Step) -> Done {
        let mut done = Done::default();
        let before = self.world.seen.len();
        match step {
            Step::Ask(process, who) => {
                let ask = match who {
                    Who::Fresh => Ask::Fresh,
                    Who::Job => Ask::Job,
                    Who::Waiter => Ask::Waited(self.slots.pop()),
                };
                let answer = self.world.ask(ask);
                match &answer {
                    Ok(permit) => self.out.push(Out { process: *process, permit: permit.clone() }),
                    Err(refusal) => self.slots.extend(refusal.slot),
                }
                done.answer = Some(answer);
            }
            Step::Settle(index, verdict) => {
                if let Some(out) = self.take(*index) {
                    self.world.settle(&out.permit, verdict);
                    done.settled = Some(out.permit);
                }
            }
            Step::Early(index) => {
                if let Some(out) = self.take(*index) {
                    let further = self.world.settle_early(&out.permit);
                    self.out.push(Out { permit: further.clone(), ..out });
                    done.settled = Some(out.permit);
                    done.further = Some(further);
                }
            }
            Step::GiveBack(index) => {
                if let Some(out) = self.take(*index) {
                    self.world.give_back(&out.permit);
                    done.settled = Some(out.permit);
                }
            }
            Step::Die(process) => self.out.retain(|out| out.process != *process),
            Step::Renew(process) => {
                for out in self.out.iter().filter(|out| out.process == *process) {
                    let live = self.world.renew(&out.permit);
                    done.renewed.push((out.permit.clone(), live));
                }
            }
            Step::Wait(wait) => {
                self.world.wait(*wait);
            }
            Step::HoldBack(callers) => self.world.hold_back(u32::from(*callers)),
            Step::Hold(state, lasting) => self.world.hold(*state, *lasting),
            Step::Release(probe_now) => self.world.release(*probe_now),
            Step::Reset => self.world.reset(),
            Step::Jobs(jobs) => self.world.jobs = *jobs,
            Step::Reboot { back, by } => {
                self.out.clear();
                self.world.now = if *back { self.world.now - *by } else { self.world.now + *by };
                self.world.circuit.after_reboot(self.world.now);
            }
            Step::Expire => {
                self.world.expire();
            }
        }
        done.events = self.world.seen[before..].to_vec();
        done
    }

    /// Checks what must hold at every stop, whatever happened.
    pub(crate) fn check(&self, step: &Step, done: &Done) {
        let (circuit, policy, now) = (&self.world.circuit, &self.world.policy, self.world.now);
        let status = circuit.status(policy, now);
        assert!(status.probes_in_flight <= policy.circuit.half_open_max_calls.get(), "{status:?}");
        assert!(status.open_until.is_none_or(|until| until > now), "{status:?}");
        assert!(status.throttled_until.is_none_or(|until| until > now), "{status:?}");
        assert_eq!(status.open_until.is_some(), status.state == State::Open);
        if let Some(Ok(permit)) = &done.answer {
            let held = permit.kind == PermitKind::Held;
            assert!(held || status.state != State::Open, "admitted while open after {step:?}");
            assert!(held || status.throttled_until.is_none(), "admitted while throttled after {step:?}");
            assert_eq!(held, status.hold.is_some(), "a hold of the closed kind lets everybody through");
            assert!(circuit.is_live(permit, now) && permit.expires_at > now);
        }
        if let Some(Err(refusal)) = &done.answer {
            assert!(refusal.retry_at.is_none_or(|at| at > now), "{refusal:?} at {now:?}");
            let named = refusal.retry_at.is_some() || status.hold.is_some();
            assert!(named, "only an operator's hold has no end: {refusal:?}");
        }
        let ceiling = policy.hint_ceiling.max(policy.circuit.max_open_for * 11 / 10).max(secs(3960));
        for until in [status.open_until, status.throttled_until].into_iter().flatten() {
            assert!(now.until(until) <= ceiling, "{until:?} is more than {ceiling:?} after {now:?}");
        }
        assert!(status.failures_in_window <= policy.circuit.open_after_failures.get());
        let transitions = done.events.iter().filter(|event| event.is_transition());
        let mut generation = None;
        for event in transitions {
            assert!(generation.is_none_or(|before| event.generation == before + 1), "{:?}", done.events);
            generation = Some(event.generation);
        }
        assert!(generation.is_none_or(|last| last == circuit.generation()), "{:?}", done.events);
        let stored = halfopen_core::snapshot::encode(circuit);
        let read: Circuit = halfopen_core::snapshot::decode(&stored).expect("what was written is read");
        assert_eq!(&read, circuit, "{stored}");
        for event in &done.events {
            let record = halfopen_core::snapshot::record(event, "ocr", None, Some(self.world.jobs));
            assert_eq!(record.from_state != record.to_state || matches!(event.kind, EventKind::Reset { .. }), {
                event.is_transition() && (event.from != event.to || matches!(event.kind, EventKind::Reset { .. }))
            });
        }
    }
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
