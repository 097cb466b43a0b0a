//! Lets time pass: what was due happens, in order, each thing dated with the instant at which it was due.
//!
//! Nothing here happens unless [`Circuit::next_wake`] announces it, and everything it announces changes the circuit:
//! that is what makes "sleep until the next wake" right for a program that keeps a circuit, and what ends the loop.
//! Failures that grow too old for the window are no such change: they are only not counted any more.

use std::time::Duration;

use super::{Circuit, Facts, Wake, WakeReason};
use crate::breaker::{self, Breaker, HalfOpen, Open, ProbeEnd};
use crate::chance::Chance;
use crate::event::{By, Event, EventKind, ProbeResult, State, TripReason};
use crate::policy::{NEUTRAL_PROBES_MAX, Policy};
use crate::ramp::Ramp;
use crate::time::{Deadline, Timestamp, millis};

/// What a trip is decided by, beside its reason.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trip {
    /// A stated wait that the cooldown must not be shorter than.
    pub(super) hint_until: Option<Timestamp>,
    /// How the probe ended that caused it.
    pub(super) probe: Option<ProbeResult>,
}

impl Circuit {
    /// Lets time pass.
    pub fn expire(&mut self, policy: &Policy, facts: Facts, now: Timestamp) -> Vec<Event> {
        self.pass_time(policy, Some(facts), now)
    }

    /// Returns when [`Circuit::expire`] will change something, and what.
    #[must_use]
    pub fn next_wake(&self, policy: &Policy) -> Option<Wake> {
        let hold = self.hold.as_ref().and_then(|hold| hold.until).map(|until| (until.at, WakeReason::HoldOver));
        let throttle = self.throttle.map(|throttle| (throttle.at, WakeReason::ThrottleOver));
        let breaker = match &self.breaker {
            Breaker::Closed => None,
            Breaker::Open(open) => Some((open.until.at, WakeReason::CooldownOver)),
            Breaker::HalfOpen(half) => half.first_end().map(|(_, at, _)| (at, WakeReason::ProbeLease)),
        };
        let escalation = self.escalation.forget.map(|forget| (forget.at, WakeReason::EscalationForgotten));
        let ramp = self.ramp_wake(policy).map(|at| (at, WakeReason::RampStep));
        // Of what is due at one instant the first in this order happens first.
        let wakes = [hold, throttle, breaker, escalation, ramp];
        wakes.into_iter().flatten().min_by_key(|(at, _)| *at).map(|(at, reason)| Wake { at, reason })
    }

    /// Returns whether a throttle or a hold keeps everybody out, so that the ramp's clock stands still.
    pub(super) fn ramp_stands_still(&self) -> bool {
        self.throttle.is_some() || self.is_held_open()
    }

    /// Returns when the ramp changes by itself.
    fn ramp_wake(&self, policy: &Policy) -> Option<Timestamp> {
        let ramp = self.ramp.as_ref().filter(|_| !self.ramp_stands_still())?;
        let rests = self.waiting > 0 || self.jobs_held == 0 || ramp.can_rest(&policy.drain);
        let idle = rests.then(|| ramp.idle_at());
        let step = ramp.step_at(&policy.drain);
        idle.into_iter().chain(step).min()
    }

    /// Returns whether an operator keeps everybody out.
    pub(super) fn is_held_open(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.state == State::Open)
    }

    /// Lets time pass up to `now`. `facts` are unknown to those who only ask.
    pub(crate) fn pass_time(&mut self, policy: &Policy, facts: Option<Facts>, now: Timestamp) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(wake) = self.next_wake(policy)
            && wake.at <= now
        {
            if let Some(facts) = facts {
                self.jobs_held = facts.jobs_queued;
            }
            self.wake(policy, wake, &mut events);
        }
        events
    }

    /// Does what is due at `wake`.
    fn wake(&mut self, policy: &Policy, wake: Wake, events: &mut Vec<Event>) {
        match wake.reason {
            WakeReason::HoldOver => self.end_hold(policy, None, wake.at, events),
            WakeReason::ThrottleOver => {
                self.throttle = None;
                self.ramp_after_throttle(policy, wake.at, events);
            }
            WakeReason::CooldownOver => self.half_open(None, wake.at, events),
            WakeReason::ProbeLease => self.end_probe_by_time(policy, wake.at, events),
            WakeReason::EscalationForgotten => {
                self.escalation.rounds = 0;
                self.escalation.forget = None;
            }
            WakeReason::RampStep => self.step_ramp(policy, wake.at, events),
        }
    }

    /// Open → HalfOpen: the cooldown is over.
    pub(super) fn half_open(&mut self, by: Option<By>, at: Timestamp, events: &mut Vec<Event>) {
        let Breaker::Open(Open { reason, .. }) = &self.breaker else { return };
        self.breaker = Breaker::HalfOpen(HalfOpen::new(*reason));
        self.generation += 1;
        self.since = at;
        events.push(self.event_from(State::Open, at, EventKind::HalfOpened { by }));
    }

    /// HalfOpen → HalfOpen or Open: a probe's time is over.
    fn end_probe_by_time(&mut self, policy: &Policy, at: Timestamp, events: &mut Vec<Event>) {
        let Breaker::HalfOpen(half) = &mut self.breaker else { return };
        let Some((index, _, end)) = half.first_end() else { return };
        // Time draws no chance, so that it passes the same whether watched or not; a probe's identity was drawn.
        let chance = Chance::from_seed(half.probes.remove(index).id.0);
        match end {
            ProbeEnd::Lost => {
                half.neutral_in_a_row += 1;
                let (neutral, successes) = (half.neutral_in_a_row, half.successes);
                events
                    .push(self.event(at, EventKind::ProbeEnded { result: ProbeResult::Lost, class: None, successes }));
                if neutral >= NEUTRAL_PROBES_MAX {
                    let trip = Trip { probe: Some(ProbeResult::Lost), ..Trip::default() };
                    self.trip(policy, TripReason::ProbesInconclusive, trip, at, chance, events);
                }
            }
            ProbeEnd::Stalled => {
                let (result, successes) = (ProbeResult::Failure, half.successes);
                events.push(self.event(at, EventKind::ProbeEnded { result, class: None, successes }));
                self.escalation.rounds = self.escalation.rounds.saturating_add(1);
                let trip = Trip { probe: Some(result), ..Trip::default() };
                self.trip(policy, TripReason::ProbeStalled, trip, at, chance, events);
            }
        }
    }

    /// Any → Open: the breaker trips.
    pub(super) fn trip(
        &mut self,
        policy: &Policy,
        reason: TripReason,
        trip: Trip,
        now: Timestamp,
        chance: Chance,
        events: &mut Vec<Event>,
    ) {
        let from = self.breaker.state();
        let cooldown = breaker::cooldown(&policy.circuit, &reason, &self.escalation);
        let mut until = Deadline::after(now, breaker::jittered(cooldown, chance.nth(1)));
        let open_until = match &self.breaker {
            Breaker::Closed | Breaker::HalfOpen(_) => None,
            Breaker::Open(open) => Some(open.until.at),
        };
        let throttled_until = self.throttle.take().map(|throttle| throttle.at);
        for later in [trip.hint_until, throttled_until, open_until].into_iter().flatten() {
            until = until.extended(now, later);
        }
        self.escalation.last_cooldown_ms = millis(cooldown);
        self.escalation.forget = None;
        self.ramp = None;
        self.breaker = Breaker::Open(Open { until, reason });
        self.generation += 1;
        self.since = now;
        let escalation = self.escalation.rounds;
        let kind = EventKind::Tripped { reason, open_until: until.at, escalation, probe: trip.probe };
        events.push(self.event_from(from, now, kind));
    }

    /// HalfOpen → Closed: probes succeeded.
    pub(super) fn recover(&mut self, policy: &Policy, facts: Facts, now: Timestamp, events: &mut Vec<Event>) {
        self.breaker = Breaker::Closed;
        self.probe_succeeded = false;
        self.generation += 1;
        self.since = now;
        self.window.clear();
        self.episode = None;
        self.escalation.quota_rounds = 0;
        let settled = policy.circuit.window.max(Duration::from_millis(self.escalation.last_cooldown_ms));
        self.escalation.forget = (self.escalation.rounds > 0).then(|| Deadline::after(now, settled));
        self.jobs_held = facts.jobs_queued;
        events.push(self.event_from(State::HalfOpen, now, EventKind::Recovered));
        if self.throttle.is_none() && self.is_anything_held() {
            self.begin_ramp(policy, 0, now, events);
        }
    }

    /// Returns whether callers or jobs wait to start.
    fn is_anything_held(&self) -> bool {
        self.waiting > 0 || self.jobs_held > 0
    }

    /// Begins the return of what was held back.
    pub(super) fn begin_ramp(&mut self, policy: &Policy, hurried: u32, now: Timestamp, events: &mut Vec<Event>) {
        let schedule = self.next_schedule();
        let ramp = Ramp::begin(&policy.drain, schedule, hurried, now);
        let rate_millis = ramp.rate_millis;
        self.ramp = Some(ramp);
        events.push(self.event(now, EventKind::RampBegan { rate_millis }));
    }

    /// Begins a ramp, or goes on with one, after a throttle that held everybody has ended.
    pub(super) fn ramp_after_throttle(&mut self, policy: &Policy, at: Timestamp, events: &mut Vec<Event>) {
        if !matches!(self.breaker, Breaker::Closed) {
            return;
        }
        if self.ramp.is_some() {
            self.ramp_goes_on(policy, self.waiting, at, events);
        } else if self.is_anything_held() {
            self.begin_ramp(policy, self.waiting, at, events);
        }
    }

    /// Goes on with a ramp after a pause in which nobody could start.
    pub(super) fn ramp_goes_on(&mut self, policy: &Policy, hurried: u32, at: Timestamp, events: &mut Vec<Event>) {
        let schedule = self.next_schedule();
        if let Some(ramp) = &mut self.ramp {
            let before = ramp.rate_millis;
            ramp.go_on(&policy.drain, schedule, hurried, at);
            if ramp.rate_millis != before {
                self.push_ramp_stepped(at, events);
            }
        }
    }

    /// Lets the ramp climb, rest or end.
    fn step_ramp(&mut self, policy: &Policy, at: Timestamp, events: &mut Vec<Event>) {
        let next_schedule = self.schedule.wrapping_add(1);
        let Some(ramp) = &mut self.ramp else { return };
        if ramp.step_at(&policy.drain).is_some_and(|step_at| step_at <= at) {
            ramp.step(&policy.drain, at);
            self.push_ramp_stepped(at, events);
            return;
        }
        // Whoever still waits would have asked by this time.
        self.waiting = 0;
        if ramp.rest(&policy.drain, next_schedule, at) {
            self.schedule = next_schedule;
            self.push_ramp_stepped(at, events);
        }
        self.end_ramp_if_nothing_is_held(at, events);
    }

    /// Ends the ramp when neither callers nor jobs are left.
    pub(super) fn end_ramp_if_nothing_is_held(&mut self, at: Timestamp, events: &mut Vec<Event>) {
        if self.ramp.is_some() && !self.is_anything_held() {
            self.ramp = None;
            events.push(self.event(at, EventKind::RampEnded));
        }
    }

    /// States the ramp's new rate.
    pub(super) fn push_ramp_stepped(&self, at: Timestamp, events: &mut Vec<Event>) {
        if let Some(ramp) = &self.ramp {
            let (rate_millis, in_flight_max) = (ramp.rate_millis, ramp.in_flight_max);
            events.push(self.event(at, EventKind::RampStepped { rate_millis, in_flight_max }));
        }
    }
}
