//! A naive model of one circuit, and the walks on which the real one is compared with it.
//!
//! The model is written from the rules, not from the code: every failure that may still count is kept in one list and
//! counted by looking at all of them, time passes by sorting everything that is due, and nothing is shared with the
//! real types but the policy. It leaves the ramp out, which concerns only those who were held back, and takes the
//! jitter of a cooldown from the real circuit after checking that it lies within its tenth.

use std::collections::{BTreeMap, VecDeque};

use halfopen_core::event::{Event, EventKind, State};
use halfopen_core::permit::{Permit, PermitId, PermitKind, RefusalReason};
use halfopen_core::policy::Policy;
use halfopen_core::verdict::{About, Class, Scope, Verdict};

use crate::walk::{Bytes, Done, Step, Walk, Who};

/// An instant and how far ahead it lay when it was set, in milliseconds.
type Due = (i64, i64);

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    Closed,
    Open { until: Due, quota: bool },
    Half { quota: bool, successes: u32, neutral: u32, probes: BTreeMap<PermitId, (Due, Due)> },
}

#[derive(Clone, Debug, PartialEq)]
enum Expected {
    Granted(PermitKind),
    Refused(RefusalReason, Option<i64>),
}

struct Model {
    policy: Policy,
    now: i64,
    phase: Phase,
    generation: u64,
    failures: Vec<i64>,
    rounds: u32,
    quota_rounds: u32,
    last_cooldown: i64,
    forget: Option<Due>,
    throttle: Option<Due>,
    wall: Option<(i64, u32)>,
    hold: Option<(State, Option<Due>)>,
    /// The ends of the real circuit's trips in this step, to take their jitter from.
    trips: VecDeque<i64>,
}

fn ms(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap()
}

impl Model {
    fn new(policy: Policy, now: i64) -> Self {
        Self {
            policy,
            now,
            phase: Phase::Closed,
            generation: 0,
            failures: Vec::new(),
            rounds: 0,
            quota_rounds: 0,
            last_cooldown: 0,
            forget: None,
            throttle: None,
            wall: None,
            hold: None,
            trips: VecDeque::new(),
        }
    }

    fn due(&self, length: i64) -> Due {
        (self.now + length, length)
    }

    fn failures_in_window(&self) -> u32 {
        let window = ms(self.policy.circuit.window);
        let counted = self.failures.iter().filter(|at| self.now - **at < window).count();
        // More than open the breaker are never needed.
        u32::try_from(counted).unwrap().min(self.policy.circuit.open_after_failures.get())
    }

    /// Counts a failure. Those that are too old by then are gone for good, also if a boot sets the clock back.
    fn count(&mut self) {
        let (now, window) = (self.now, ms(self.policy.circuit.window));
        self.failures.retain(|at| now - at < window);
        self.failures.push(now);
    }

    /// Lets time pass up to `until`: whatever is due, earliest first.
    fn pass(&mut self, until: i64) {
        loop {
            let mut due: Vec<(i64, u8, Option<PermitId>)> = Vec::new();
            due.extend(self.hold.and_then(|(_, end)| end).map(|end| (end.0, 0, None)));
            due.extend(self.throttle.map(|end| (end.0, 1, None)));
            match &self.phase {
                Phase::Closed => {}
                Phase::Open { until, .. } => due.push((until.0, 2, None)),
                Phase::Half { probes, .. } => {
                    // Of probes that end at one instant, the one that was admitted first ends first; they are
                    // compared as a set, so the order within this model does not show.
                    for (id, (lease, attempt)) in probes {
                        due.push((lease.0.min(attempt.0), 2, Some(*id)));
                    }
                }
            }
            due.extend(self.forget.map(|end| (end.0, 3, None)));
            due.sort();
            let Some((at, what, probe)) = due.first().copied() else { break };
            if at > until {
                break;
            }
            self.now = at;
            match (what, probe) {
                (0, _) => self.hold = None,
                (1, _) => self.throttle = None,
                (2, None) => self.half_open(),
                (2, Some(id)) => self.probe_ends(id),
                _ => {
                    self.rounds = 0;
                    self.forget = None;
                }
            }
        }
        self.now = until;
    }

    fn half_open(&mut self) {
        if let Phase::Open { quota, .. } = self.phase {
            self.phase = Phase::Half { quota, successes: 0, neutral: 0, probes: BTreeMap::new() };
            self.generation += 1;
        }
    }

    fn probe_ends(&mut self, id: PermitId) {
        let Phase::Half { probes, .. } = &mut self.phase else { unreachable!() };
        let (lease, attempt) = probes.remove(&id).unwrap();
        if lease.0 <= attempt.0 {
            self.neutral();
        } else {
            self.rounds += 1;
            self.trip(self.cooldown(), None, false);
        }
    }

    fn neutral(&mut self) {
        let Phase::Half { neutral, .. } = &mut self.phase else { unreachable!() };
        *neutral += 1;
        if *neutral == 5 {
            self.trip(ms(self.policy.circuit.open_for), None, false);
        }
    }

    fn cooldown(&self) -> i64 {
        let circuit = &self.policy.circuit;
        let mut cooldown = circuit.open_for.as_secs_f64();
        for _ in 0..self.rounds {
            cooldown *= circuit.cooldown_factor;
        }
        ms(std::time::Duration::from_secs_f64(cooldown.min(circuit.max_open_for.as_secs_f64())))
    }

    fn quota_cooldown(&self) -> i64 {
        let longest = ms(self.policy.circuit.max_open_for).max(600_000);
        (600_000_i64 << self.quota_rounds.min(20)).min(longest)
    }

    fn trip(&mut self, cooldown: i64, hint: Option<i64>, quota: bool) {
        let open = if let Phase::Open { until, .. } = &self.phase { Some(until.0) } else { None };
        let others = [hint, open, self.throttle.map(|end| end.0)].into_iter().flatten().max().unwrap_or(i64::MIN);
        let seen = self.trips.pop_front().expect("the real circuit tripped too");
        let (lower, upper) = ((self.now + cooldown).max(others), (self.now + cooldown + cooldown / 10 + 1).max(others));
        assert!((lower..=upper).contains(&seen), "open until {seen}, expected {lower} to {upper}");
        self.phase = Phase::Open { until: (seen, seen - self.now), quota };
        self.generation += 1;
        self.throttle = None;
        self.forget = None;
        self.last_cooldown = cooldown;
    }

    fn ask(&mut self) -> Expected {
        let shut = self.shut();
        match self.hold {
            Some((State::Open, end)) => {
                let end = end.map(|end| match shut {
                    Some((_, Some(at))) => at.max(end.0),
                    _ => end.0,
                });
                Expected::Refused(RefusalReason::Held, end)
            }
            Some(_) => Expected::Granted(PermitKind::Held),
            None => match (shut, &self.phase) {
                (Some((reason, at)), _) => Expected::Refused(reason, at),
                (None, Phase::Half { .. }) => Expected::Granted(PermitKind::Probe),
                (None, _) => Expected::Granted(PermitKind::Regular),
            },
        }
    }

    fn shut(&self) -> Option<(RefusalReason, Option<i64>)> {
        if let Some((until, _)) = self.throttle {
            return Some((RefusalReason::Throttled, Some(until)));
        }
        match &self.phase {
            Phase::Closed => None,
            Phase::Open { until, .. } => Some((RefusalReason::Open, Some(until.0))),
            Phase::Half { successes, probes, .. } => {
                let circuit = &self.policy.circuit;
                let (k, m) = (circuit.half_open_max_calls.get(), circuit.close_after_successes.get());
                let out = u32::try_from(probes.len()).unwrap();
                let room = out < k && out + successes < k.max(m);
                let first = probes.values().map(|(lease, attempt)| lease.0.min(attempt.0)).min();
                (!room).then_some((RefusalReason::ProbesOut, first))
            }
        }
    }

    fn granted(&mut self, permit: &Permit) {
        let lease = self.due(ms(self.policy.circuit.probe_lease));
        let timeout = self.policy.timeout.map_or(24 * 3_600_000, ms) + lease.1;
        let attempt = self.due(timeout);
        if let (PermitKind::Probe, Phase::Half { probes, .. }) = (permit.kind, &mut self.phase) {
            probes.insert(permit.id, (lease, attempt));
        }
    }

    fn is_current(&self, permit: &Permit) -> bool {
        let expired = permit.kind == PermitKind::Regular && permit.expires_at.as_millis() <= self.now;
        permit.kind != PermitKind::Held && permit.generation == self.generation && !expired
    }

    fn settle(&mut self, permit: &Permit, verdict: &Verdict) {
        let blamed = matches!(verdict.about, About::Place | About::Account);
        let fails = match verdict.class {
            Class::UnknownFailure => self.policy.circuit.count_unclassified,
            Class::Success | Class::InvalidRequest | Class::Auth | Class::QuotaExhausted => false,
            _ => blamed,
        };
        let quota = verdict.class == Class::QuotaExhausted && blamed;
        let (hint, stated) = self.believed(verdict);
        let probe = match &mut self.phase {
            Phase::Half { probes, .. } if permit.kind == PermitKind::Probe => probes.remove(&permit.id).is_some(),
            _ => false,
        };
        if permit.kind == PermitKind::Held {
            return;
        }
        if !self.is_current(permit) || (permit.kind == PermitKind::Probe && !probe) {
            if quota && !matches!(self.phase, Phase::Open { quota: true, .. }) {
                self.trip(self.quota_cooldown(), hint, true);
            } else if let Some(hint) = hint.filter(|_| quota || fails) {
                self.hold_until(hint);
            }
        } else if matches!(self.phase, Phase::Half { .. }) {
            if quota || fails {
                if quota && matches!(self.phase, Phase::Half { quota: true, .. }) {
                    self.quota_rounds += 1;
                }
                self.rounds += 1;
                let cooldown = if quota { self.quota_cooldown() } else { self.cooldown() };
                self.trip(cooldown, hint, quota);
            } else if probe && verdict.class == Class::Success {
                self.succeed();
            } else if probe {
                self.neutral();
            }
        } else if quota {
            self.count();
            self.trip(self.quota_cooldown(), hint, true);
        } else if fails {
            self.fail(permit, verdict.class, hint, stated);
        } else if verdict.class == Class::Success
            && let Some((written, _)) = self.wall
            && permit.admitted_at.as_millis() > written
        {
            self.wall = Some((written, 0));
        }
    }

    fn fail(&mut self, permit: &Permit, class: Class, hint: Option<i64>, stated: i64) {
        let known = self.wall.is_some_and(|(written, _)| permit.admitted_at.as_millis() <= written);
        if !known {
            self.count();
        }
        match hint {
            Some(until) if stated > ms(self.policy.retry.max_wait) => {
                return self.trip(self.cooldown(), Some(until), false);
            }
            None if class == Class::UsageLimit && !known => return self.trip(self.cooldown(), None, false),
            Some(until) => {
                let mut until = until;
                if !known {
                    let in_a_row = self.wall.map_or(0, |(_, in_a_row)| in_a_row) + 1;
                    if in_a_row > 1 {
                        let base = ms(self.policy.retry.backoff.base) << in_a_row.min(20);
                        let longest = ms(self.policy.retry.backoff.max).min(ms(self.policy.retry.max_wait));
                        until = until.max(self.now + base.min(longest));
                    }
                    self.wall = Some((self.now, in_a_row));
                }
                self.hold_until(until);
            }
            None => {}
        }
        if !known && self.failures_in_window() >= self.policy.circuit.open_after_failures.get() {
            self.trip(self.cooldown(), None, false);
        }
    }

    /// Returns until when a hint holds, and how long a wait it states.
    fn believed(&self, verdict: &Verdict) -> (Option<i64>, i64) {
        let Some(hint) = verdict.hint.as_ref().filter(|_| self.policy.retry.honor_retry_after) else {
            return (None, 0);
        };
        let stated = (hint.until.as_millis() - self.now).max(0);
        let mut longest = ms(self.policy.hint_ceiling);
        if hint.scope != Scope::Whole {
            longest = longest.min(ms(self.policy.circuit.open_for));
        }
        (Some(self.now + stated.min(longest)), stated)
    }

    fn hold_until(&mut self, until: i64) {
        let now = self.now;
        match &mut self.phase {
            Phase::Open { until: end, .. } if until > end.0 => *end = (until, until - now),
            Phase::Open { .. } => {}
            _ if until > now && self.throttle.is_none_or(|end| until > end.0) => {
                self.throttle = Some((until, until - now));
            }
            _ => {}
        }
    }

    fn succeed(&mut self) {
        let Phase::Half { successes, neutral, .. } = &mut self.phase else { unreachable!() };
        *successes += 1;
        *neutral = 0;
        if *successes == self.policy.circuit.close_after_successes.get() {
            self.phase = Phase::Closed;
            self.generation += 1;
            self.failures.clear();
            self.wall = None;
            self.quota_rounds = 0;
            let length = ms(self.policy.circuit.window).max(self.last_cooldown);
            self.forget = (self.rounds > 0).then(|| self.due(length));
        }
    }

    fn give_back(&mut self, permit: &Permit) {
        if let Phase::Half { probes, .. } = &mut self.phase
            && permit.kind == PermitKind::Probe
            && probes.remove(&permit.id).is_some()
        {
            self.neutral();
        }
    }

    fn early(&mut self, permit: &Permit) {
        let current = self.is_current(permit);
        let probe = match &mut self.phase {
            Phase::Half { probes, .. } => probes.remove(&permit.id).is_some(),
            Phase::Closed | Phase::Open { .. } => false,
        };
        if probe {
            self.succeed();
        } else if current && matches!(self.phase, Phase::Closed) {
            self.settle(permit, &crate::world::success());
        }
    }

    fn renew(&mut self, permit: &Permit) -> bool {
        let lease = self.due(ms(self.policy.circuit.probe_lease));
        let now = self.now;
        match permit.kind {
            PermitKind::Held => permit.expires_at.as_millis() > now,
            PermitKind::Regular => self.is_current(permit),
            PermitKind::Probe => match &mut self.phase {
                Phase::Half { probes, .. } => match probes.get_mut(&permit.id) {
                    Some((until, attempt)) if until.0.min(attempt.0) > now => {
                        if lease.0 > until.0 {
                            *until = lease;
                        }
                        true
                    }
                    _ => false,
                },
                _ => false,
            },
        }
    }

    fn reset(&mut self) {
        let (hold, generation) = (self.hold, self.generation);
        *self = Self { hold, generation: generation + 1, ..Self::new(self.policy.clone(), self.now) };
    }

    fn reboot(&mut self, now: i64) {
        let cut = |due: &mut Due| due.0 = due.0.min(now + due.1);
        for at in &mut self.failures {
            *at = (*at).min(now);
        }
        match &mut self.phase {
            Phase::Closed => {}
            Phase::Open { until, .. } => cut(until),
            Phase::Half { probes, .. } => {
                for (lease, attempt) in probes.values_mut() {
                    cut(lease);
                    cut(attempt);
                }
            }
        }
        self.forget.iter_mut().for_each(cut);
        self.throttle.iter_mut().for_each(cut);
        if let Some((_, Some(end))) = &mut self.hold {
            cut(end);
        }
        if let Some((written, _)) = &mut self.wall {
            *written = (*written).min(now);
        }
        self.now = now;
    }

    /// Does what the real circuit has just done.
    fn follow(&mut self, step: &Step, done: &Done, now: i64) {
        self.trips = done.events.iter().filter_map(trip_end).collect();
        match step {
            Step::Wait(_) | Step::Die(_) | Step::Jobs(_) | Step::HoldBack(_) => {
                self.now = now;
                return;
            }
            Step::Reboot { .. } => return self.reboot(now),
            // Renewing is no occasion for time to pass.
            Step::Renew(_) => {
                self.now = now;
                for (permit, live) in &done.renewed {
                    assert_eq!(self.renew(permit), *live, "{permit:?}");
                }
                return;
            }
            Step::Settle(..) | Step::Early(_) | Step::GiveBack(_) if done.settled.is_none() => {
                self.now = now;
                return;
            }
            _ => {}
        }
        self.pass(now);
        match step {
            Step::Ask(..) => {
                let expected = self.ask();
                let seen = match done.answer.as_ref().expect("an ask has an answer") {
                    Ok(permit) => {
                        assert_eq!(permit.generation, self.generation);
                        self.granted(permit);
                        Expected::Granted(permit.kind)
                    }
                    Err(refusal) => Expected::Refused(refusal.reason, refusal.retry_at.map(|at| at.as_millis())),
                };
                assert_eq!(seen, expected);
            }
            Step::Settle(_, verdict) => self.settle(done.settled.as_ref().expect("checked above"), verdict),
            Step::GiveBack(_) => self.give_back(done.settled.as_ref().expect("checked above")),
            Step::Early(_) => self.early(done.settled.as_ref().expect("checked above")),
            Step::Hold(state, lasting) => self.hold = Some((*state, lasting.map(|lasting| self.due(ms(lasting))))),
            Step::Release(probe_now) => {
                self.hold = None;
                if *probe_now {
                    self.throttle = None;
                    self.half_open();
                }
            }
            Step::Reset => self.reset(),
            _ => {}
        }
        assert!(self.trips.is_empty(), "the real circuit tripped and the model did not");
    }

    fn compare(&self, walk: &Walk, step: &Step) {
        let shown = walk.world.circuit.status(&walk.world.policy, walk.world.now);
        // What time would do since the last change is compared at the next one: a stalled probe's jitter is unknown.
        let pending = walk.world.circuit.next_wake(&walk.world.policy).is_some_and(|wake| wake.at <= walk.world.now);
        if pending {
            return;
        }
        let (state, open_until, probes, successes) = match &self.phase {
            Phase::Closed => (State::Closed, None, 0, 0),
            Phase::Open { until, .. } => (State::Open, Some(until.0), 0, 0),
            Phase::Half { probes, successes, .. } => (State::HalfOpen, None, probes.len(), *successes),
        };
        let seen = (shown.state, shown.open_until.map(|at| at.as_millis()), shown.probes_in_flight as usize);
        assert_eq!(seen, (state, open_until, probes), "after {step:?}");
        assert_eq!(shown.probe_successes, successes, "after {step:?}");
        assert_eq!(shown.generation, self.generation, "after {step:?}");
        assert_eq!(shown.throttled_until.map(|at| at.as_millis()), self.throttle.map(|end| end.0), "after {step:?}");
        assert_eq!(shown.escalation, self.rounds, "after {step:?}");
        assert_eq!(shown.hold.map(|hold| hold.state), self.hold.map(|(state, _)| state), "after {step:?}");
        if self.policy.circuit.open_after_failures.get() > 1 || matches!(self.phase, Phase::Closed) {
            assert_eq!(shown.failures_in_window, self.failures_in_window(), "after {step:?}");
        }
    }
}

fn trip_end(event: &Event) -> Option<i64> {
    match event.kind {
        EventKind::Tripped { open_until, .. } => Some(open_until.as_millis()),
        _ => None,
    }
}

/// Walks the real circuit and the model side by side.
///
/// # Panics
///
/// Where they differ.
pub(crate) fn compare(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let mut walk = Walk::new(bytes.policy());
    let mut model = Model::new(walk.world.policy.clone(), walk.world.now.as_millis());
    while let Some(step) = bytes.step(walk.world.now) {
        let step = match step {
            Step::Ask(process, Who::Waiter | Who::Job) => Step::Ask(process, Who::Fresh),
            Step::HoldBack(_) | Step::Jobs(_) => continue,
            step => step,
        };
        let done = walk.go(&step);
        model.follow(&step, &done, walk.world.now.as_millis());
        model.compare(&walk, &step);
    }
}
