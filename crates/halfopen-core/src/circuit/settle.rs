//! Ends attempts: what a verdict changes, and what it changes when it comes late.
//!
//! The table of effects stands in `Effect::of`, and holds in every state alike: what does not count while the breaker
//! is closed is neutral while it is half-open.

use std::time::Duration;

use super::pass::Trip;
use super::{Circuit, Facts, LastFailure};
use crate::breaker::Breaker;
use crate::chance::Chance;
use crate::event::{Event, EventKind, ProbeResult, TripReason};
use crate::permit::{Permit, PermitKind};
use crate::policy::{NEUTRAL_PROBES_MAX, Policy};
use crate::throttle::{Believed, Episode};
use crate::time::{Deadline, Timestamp, millis};
use crate::verdict::{About, Class, Verdict};
use crate::window;

/// How many refused credentials in a row are told to the owner.
const AUTH_TOLD_AFTER: u32 = 3;

/// The longest text of a failure that is kept, in characters.
const KEPT_CHARS: usize = 240;

/// What a verdict does to the circuit it is settled on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// It is a success.
    Success,
    /// It is a failure.
    Failure,
    /// It opens the breaker at once.
    Quota,
    /// It says nothing about health, but counts against the credential.
    Auth,
    /// It says nothing about health.
    Neutral,
}

/// What a permit is worth at the time it is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Granted by a hold: its verdict is only noted.
    Held,
    /// Of another generation, expired, or lost.
    Stale,
    /// Of the closed breaker.
    Regular,
    /// A probe in flight, by its place in the list.
    Probe(usize),
    /// A probe that was judged early as a success and goes on, while the breaker is still half-open.
    JudgedEarly,
}

impl Effect {
    fn of(policy: &Policy, verdict: &Verdict) -> Self {
        let blamed = match verdict.about {
            About::Place | About::Account => true,
            About::Caller | About::Nobody => false,
        };
        match verdict.class {
            Class::Success => Self::Success,
            Class::RateLimited
            | Class::Overloaded
            | Class::UsageLimit
            | Class::Timeout
            | Class::ConnectionFailure
            | Class::ServerError => {
                if blamed {
                    Self::Failure
                } else {
                    Self::Neutral
                }
            }
            Class::QuotaExhausted => {
                if blamed {
                    Self::Quota
                } else {
                    Self::Neutral
                }
            }
            Class::Auth => {
                if blamed {
                    Self::Auth
                } else {
                    Self::Neutral
                }
            }
            Class::InvalidRequest => Self::Neutral,
            Class::UnknownFailure => {
                if policy.circuit.count_unclassified {
                    Self::Failure
                } else {
                    Self::Neutral
                }
            }
        }
    }
}

/// What every step of a settlement needs.
struct Settling<'a> {
    policy: &'a Policy,
    permit: &'a Permit,
    verdict: &'a Verdict,
    facts: Facts,
    now: Timestamp,
    chance: Chance,
}

impl Circuit {
    /// Returns whether settling `permit` with `verdict` would change nothing, so that the store need not be touched.
    #[must_use]
    pub fn settles_for_free(&self, policy: &Policy, permit: &Permit, verdict: &Verdict, now: Timestamp) -> bool {
        if self.next_wake(policy).is_some_and(|wake| wake.at <= now) {
            return false;
        }
        let effect = Effect::of(policy, verdict);
        match self.standing(permit, now) {
            Standing::Held => effect == Effect::Success || effect == Effect::Neutral,
            Standing::Stale => match effect {
                Effect::Success | Effect::Auth | Effect::Neutral => true,
                Effect::Failure => verdict.hint.is_none(),
                Effect::Quota => false,
            },
            Standing::Probe(_) => false,
            Standing::JudgedEarly => effect == Effect::Success || effect == Effect::Neutral,
            Standing::Regular => match effect {
                Effect::Success => !permit.ramped && !self.success_clears(permit),
                Effect::Neutral => !permit.ramped,
                Effect::Failure | Effect::Quota | Effect::Auth => false,
            },
        }
    }

    /// Returns whether a success of a regular permit has something to clear or to note.
    fn success_clears(&self, permit: &Permit) -> bool {
        self.auth_in_a_row > 0
            || self.episode_ended_by(permit).is_some()
            || self.ramp.as_ref().is_some_and(|ramp| !ramp.succeeded)
    }

    /// Returns the episode that a success of `permit` ends: one that the attempt was admitted after.
    fn episode_ended_by(&self, permit: &Permit) -> Option<Episode> {
        self.episode.filter(|episode| episode.in_a_row > 0 && !episode.includes(permit.admitted_at))
    }

    /// Lets time pass, then ends the attempt that `permit` stands for.
    pub fn settle(
        &mut self,
        policy: &Policy,
        permit: &Permit,
        verdict: &Verdict,
        facts: Facts,
        now: Timestamp,
        chance: Chance,
    ) -> Vec<Event> {
        let mut events = self.pass_time(policy, Some(facts), now);
        let settling = Settling { policy, permit, verdict, facts, now, chance };
        let effect = Effect::of(policy, verdict);
        match self.standing(permit, now) {
            Standing::Held => self.note_failure(&settling, effect),
            Standing::Stale => self.settle_stale(&settling, effect, &mut events),
            Standing::Regular => self.settle_regular(&settling, effect, &mut events),
            Standing::Probe(index) => self.settle_probe(&settling, effect, index, &mut events),
            Standing::JudgedEarly => match effect {
                Effect::Success | Effect::Neutral => {}
                Effect::Auth => self.count_auth(now, &mut events),
                Effect::Failure | Effect::Quota => self.fail_probing(&settling, effect, &mut events),
            },
        }
        events
    }

    /// Judges long work early as a success: the first good event of a stream, a minute of an agent's run.
    ///
    /// Returns the permit under which the attempt goes on: a later failure of it is one new failure, a later success
    /// nothing. A permit that no longer counts stays one that does not.
    pub fn settle_early(
        &mut self,
        policy: &Policy,
        permit: &Permit,
        facts: Facts,
        now: Timestamp,
    ) -> (Permit, Vec<Event>) {
        let mut events = self.pass_time(policy, Some(facts), now);
        let mut further = permit.clone();
        match self.standing(permit, now) {
            Standing::Held | Standing::Stale | Standing::JudgedEarly => {}
            Standing::Regular => self.succeed_regular(policy, permit, now, &mut events),
            Standing::Probe(index) => {
                self.succeed_probe(policy, index, facts, now, &mut events);
                further.kind = PermitKind::Regular;
                further.generation = self.generation;
                further.expires_at = permit.expires_at.max(now + super::admit::regular_permit_lasts(policy));
            }
        }
        (further, events)
    }

    /// Ends the attempt that `permit` stands for without a verdict: the caller went away, our own fault, never sent.
    pub fn give_back(
        &mut self,
        policy: &Policy,
        permit: &Permit,
        facts: Facts,
        now: Timestamp,
        chance: Chance,
    ) -> Vec<Event> {
        self.settle_neutral(policy, permit, None, facts, now, chance)
    }

    /// Ends an attempt whose verdict, if there is one, is about somebody else.
    pub(crate) fn settle_neutral(
        &mut self,
        policy: &Policy,
        permit: &Permit,
        class: Option<Class>,
        facts: Facts,
        now: Timestamp,
        chance: Chance,
    ) -> Vec<Event> {
        let mut events = self.pass_time(policy, Some(facts), now);
        match self.standing(permit, now) {
            Standing::Held | Standing::Stale | Standing::JudgedEarly => {}
            Standing::Regular => self.leave_ramp(permit, facts, now, &mut events),
            Standing::Probe(index) => self.neutral_probe(policy, index, class, now, chance, &mut events),
        }
        events
    }

    /// Returns whether ending `permit` neutrally would change nothing.
    pub(crate) fn neutral_is_free(&self, policy: &Policy, permit: &Permit, now: Timestamp) -> bool {
        let due = self.next_wake(policy).is_some_and(|wake| wake.at <= now);
        let touches = match self.standing(permit, now) {
            Standing::Held | Standing::Stale | Standing::JudgedEarly => false,
            Standing::Regular => permit.ramped,
            Standing::Probe(_) => true,
        };
        !due && !touches
    }

    fn standing(&self, permit: &Permit, now: Timestamp) -> Standing {
        match (permit.kind, &self.breaker) {
            (PermitKind::Held, _) => Standing::Held,
            _ if permit.generation != self.generation => Standing::Stale,
            (PermitKind::Regular, _) if permit.expires_at <= now => Standing::Stale,
            (PermitKind::Regular, Breaker::Closed) => Standing::Regular,
            (PermitKind::Regular, Breaker::HalfOpen(_)) => Standing::JudgedEarly,
            (PermitKind::Probe, Breaker::HalfOpen(half)) => {
                let place = half.probes.iter().position(|probe| probe.id == permit.id);
                place.map_or(Standing::Stale, Standing::Probe)
            }
            (PermitKind::Regular, Breaker::Open(_)) | (PermitKind::Probe, Breaker::Closed | Breaker::Open(_)) => {
                Standing::Stale
            }
        }
    }

    /// A late verdict: only its hint and an exhausted quota count.
    fn settle_stale(&mut self, settling: &Settling<'_>, effect: Effect, events: &mut Vec<Event>) {
        let Settling { policy, verdict, now, chance, .. } = *settling;
        match effect {
            Effect::Success | Effect::Auth | Effect::Neutral => {}
            Effect::Failure => {
                if let Some(believed) = Believed::from_verdict(policy, verdict, now) {
                    self.note_failure(settling, effect);
                    self.hold_all_until(&believed, verdict.class, now, events);
                }
            }
            Effect::Quota => {
                self.note_failure(settling, effect);
                let believed = Believed::from_verdict(policy, verdict, now);
                let known = match &self.breaker {
                    Breaker::Open(open) => open.reason == TripReason::QuotaExhausted,
                    Breaker::Closed | Breaker::HalfOpen(_) => false,
                };
                // The herd that met the exhausted quota together says it once.
                if !known {
                    let trip = Trip { hint_until: believed.as_ref().map(|hint| hint.until), probe: None };
                    self.jobs_held = settling.facts.jobs_queued;
                    self.trip(policy, TripReason::QuotaExhausted, trip, now, chance, events);
                } else if let Some(believed) = believed {
                    self.hold_all_until(&believed, verdict.class, now, events);
                }
            }
        }
    }

    fn settle_regular(&mut self, settling: &Settling<'_>, effect: Effect, events: &mut Vec<Event>) {
        let Settling { policy, permit, verdict, facts, now, chance } = *settling;
        self.leave_ramp(permit, facts, now, events);
        match effect {
            Effect::Success => self.succeed_regular(policy, permit, now, events),
            Effect::Neutral => {}
            Effect::Auth => {
                self.note_failure(settling, effect);
                self.count_auth(now, events);
            }
            Effect::Quota => {
                self.note_failure(settling, effect);
                self.jobs_held = facts.jobs_queued;
                self.count_failure(policy, verdict.class, now, events);
                let believed = Believed::from_verdict(policy, verdict, now);
                self.push_hint_cut(believed.as_ref(), now, events);
                let trip = Trip { hint_until: believed.map(|hint| hint.until), probe: None };
                self.trip(policy, TripReason::QuotaExhausted, trip, now, chance, events);
            }
            Effect::Failure => self.fail_regular(settling, events),
        }
    }

    /// A failure of an attempt through the closed breaker.
    fn fail_regular(&mut self, settling: &Settling<'_>, events: &mut Vec<Event>) {
        let Settling { policy, permit, verdict, facts, now, chance } = *settling;
        self.note_failure(settling, Effect::Failure);
        self.jobs_held = facts.jobs_queued;
        let class = verdict.class;
        let known = self.episode.is_some_and(|episode| episode.includes(permit.admitted_at));
        let believed = Believed::from_verdict(policy, verdict, now);
        let too_long = match &believed {
            Some(hint) => hint.is_too_long(policy),
            // A usage limit without a time holds as long as a cooldown, unless its herd has read the time.
            None => class == Class::UsageLimit && !known,
        };
        if !known {
            if let Some(ramp) = &mut self.ramp {
                let next_schedule = self.schedule.wrapping_add(1);
                if ramp.failed(policy, permit, next_schedule, now) {
                    self.schedule = next_schedule;
                    self.push_ramp_stepped(now, events);
                }
            }
            self.count_failure(policy, class, now, events);
        }
        if too_long {
            self.push_hint_cut(believed.as_ref(), now, events);
            let trip = Trip { hint_until: believed.map(|hint| hint.until), probe: None };
            self.trip(policy, TripReason::LongWait { class }, trip, now, chance, events);
            return;
        }
        if let Some(mut hint) = believed {
            if !known {
                let in_a_row = self.episode.map_or(0, |episode| episode.in_a_row).saturating_add(1);
                let episode = Episode { written_at: now, in_a_row };
                hint.until = hint.until.max(now + episode.shortest(policy));
                self.episode = Some(episode);
            }
            self.hold_all_until(&hint, class, now, events);
        }
        let failures = self.window.count(&policy.circuit, now);
        if !known && failures >= window::threshold(&policy.circuit) {
            let reason = TripReason::Failures { failures, last: class };
            self.trip(policy, reason, Trip::default(), now, chance, events);
        }
    }

    /// Counts a failure of the closed breaker.
    fn count_failure(&mut self, policy: &Policy, class: Class, now: Timestamp, events: &mut Vec<Event>) {
        let failures = self.window.push(&policy.circuit, now);
        events.push(self.event(now, EventKind::FailureCounted { class, failures }));
    }

    /// A success of an attempt through the closed breaker.
    fn succeed_regular(&mut self, policy: &Policy, permit: &Permit, now: Timestamp, events: &mut Vec<Event>) {
        self.auth_in_a_row = 0;
        if let Some(episode) = self.episode_ended_by(permit) {
            self.episode = Some(Episode { in_a_row: 0, ..episode });
        }
        if let Some(ramp) = &mut self.ramp {
            ramp.succeeded = true;
            if ramp.step_at(&policy.drain).is_some_and(|at| at <= now) {
                ramp.step(&policy.drain, now);
                self.push_ramp_stepped(now, events);
            }
        }
    }

    /// Gives back a start of the ramp.
    fn leave_ramp(&mut self, permit: &Permit, facts: Facts, now: Timestamp, events: &mut Vec<Event>) {
        if !permit.ramped {
            return;
        }
        if let Some(ramp) = &mut self.ramp {
            ramp.ended(permit.id);
            self.jobs_held = facts.jobs_queued;
        }
        self.end_ramp_if_nothing_is_held(now, events);
    }

    fn settle_probe(&mut self, settling: &Settling<'_>, effect: Effect, index: usize, events: &mut Vec<Event>) {
        let Settling { policy, verdict, facts, now, chance, .. } = *settling;
        match effect {
            Effect::Success => self.succeed_probe(policy, index, facts, now, events),
            Effect::Neutral => self.neutral_probe(policy, index, Some(verdict.class), now, chance, events),
            Effect::Auth => {
                self.note_failure(settling, effect);
                self.count_auth(now, events);
                self.neutral_probe(policy, index, Some(verdict.class), now, chance, events);
            }
            Effect::Failure | Effect::Quota => {
                if let Breaker::HalfOpen(half) = &mut self.breaker {
                    half.probes.remove(index);
                    let (successes, class) = (half.successes, Some(verdict.class));
                    let ended = EventKind::ProbeEnded { result: ProbeResult::Failure, class, successes };
                    events.push(self.event(now, ended));
                }
                self.fail_probing(settling, effect, events);
            }
        }
    }

    /// HalfOpen → HalfOpen or Closed: a probe succeeded.
    fn succeed_probe(&mut self, policy: &Policy, index: usize, facts: Facts, now: Timestamp, events: &mut Vec<Event>) {
        let Breaker::HalfOpen(half) = &mut self.breaker else { return };
        half.probes.remove(index);
        half.successes = half.successes.saturating_add(1);
        half.neutral_in_a_row = 0;
        let successes = half.successes;
        self.auth_in_a_row = 0;
        events.push(self.event(
            now,
            EventKind::ProbeEnded { result: ProbeResult::Success, class: Some(Class::Success), successes },
        ));
        if successes >= policy.circuit.close_after_successes.get() {
            self.recover(policy, facts, now, events);
        }
    }

    /// HalfOpen → HalfOpen or Open: a probe said nothing about health.
    fn neutral_probe(
        &mut self,
        policy: &Policy,
        index: usize,
        class: Option<Class>,
        now: Timestamp,
        chance: Chance,
        events: &mut Vec<Event>,
    ) {
        let Breaker::HalfOpen(half) = &mut self.breaker else { return };
        half.probes.remove(index);
        half.neutral_in_a_row = half.neutral_in_a_row.saturating_add(1);
        let (neutral, successes) = (half.neutral_in_a_row, half.successes);
        let result = ProbeResult::Neutral;
        events.push(self.event(now, EventKind::ProbeEnded { result, class, successes }));
        if neutral >= NEUTRAL_PROBES_MAX {
            let trip = Trip { hint_until: None, probe: Some(result) };
            self.trip(policy, TripReason::ProbesInconclusive, trip, now, chance, events);
        }
    }

    /// HalfOpen → Open: the dependency is not well yet.
    fn fail_probing(&mut self, settling: &Settling<'_>, effect: Effect, events: &mut Vec<Event>) {
        let Settling { policy, verdict, facts, now, chance, .. } = *settling;
        self.note_failure(settling, effect);
        self.jobs_held = facts.jobs_queued;
        let Breaker::HalfOpen(half) = &self.breaker else { return };
        let reason = if effect == Effect::Quota {
            // A round that follows upon an exhausted quota doubles its cooldown; another history does not.
            if half.reason == TripReason::QuotaExhausted {
                self.escalation.quota_rounds = self.escalation.quota_rounds.saturating_add(1);
            }
            TripReason::QuotaExhausted
        } else {
            TripReason::ProbeFailed { class: verdict.class }
        };
        self.escalation.rounds = self.escalation.rounds.saturating_add(1);
        let believed = Believed::from_verdict(policy, verdict, now);
        self.push_hint_cut(believed.as_ref(), now, events);
        let hint_until = believed.map(|hint| hint.until);
        let trip = Trip { hint_until, probe: Some(ProbeResult::Failure) };
        self.trip(policy, reason, trip, now, chance, events);
    }

    /// Extends what holds everybody: the cooldown of an open breaker, else the throttle.
    fn hold_all_until(&mut self, hint: &Believed, class: Class, now: Timestamp, events: &mut Vec<Event>) {
        if hint.until <= now {
            return;
        }
        let extends = match &mut self.breaker {
            Breaker::Open(open) => {
                let before = open.until;
                open.until = before.extended(now, hint.until);
                open.until != before
            }
            Breaker::Closed | Breaker::HalfOpen(_) => {
                let before = self.throttle;
                let fresh = Deadline::at(now, hint.until);
                self.throttle = Some(before.map_or(fresh, |before| before.extended(now, hint.until)));
                self.throttle != before
            }
        };
        if extends {
            self.push_hint_cut(Some(hint), now, events);
            let episode = self.episode.map_or(1, |episode| episode.in_a_row.max(1));
            events
                .push(self.event(now, EventKind::Throttled { until: hint.until, source: hint.source, class, episode }));
        }
    }

    /// States that more was asked for than is believed.
    fn push_hint_cut(&self, hint: Option<&Believed>, now: Timestamp, events: &mut Vec<Event>) {
        if let Some(hint) = hint
            && hint.cut
        {
            events.push(self.event(now, EventKind::HintCut { wait: hint.stated, until: hint.until }));
        }
    }

    /// Counts a refused credential. The owner is told at the third in a row, then each time the number has doubled.
    fn count_auth(&mut self, now: Timestamp, events: &mut Vec<Event>) {
        self.auth_in_a_row = self.auth_in_a_row.saturating_add(1);
        let in_a_row = self.auth_in_a_row;
        if in_a_row.is_multiple_of(AUTH_TOLD_AFTER) && (in_a_row / AUTH_TOLD_AFTER).is_power_of_two() {
            events.push(self.event(now, EventKind::AuthFailed { in_a_row }));
        }
    }

    /// Keeps what `why` shows: the last failure that says something about the dependency or the credential.
    fn note_failure(&mut self, settling: &Settling<'_>, effect: Effect) {
        match effect {
            Effect::Success | Effect::Neutral => return,
            Effect::Failure | Effect::Quota | Effect::Auth => {}
        }
        let Settling { policy, verdict, now, .. } = *settling;
        let hint_wait = verdict.hint.as_ref().map(|hint| Duration::from_millis(millis(now.until(hint.until))));
        self.last_failure = Some(LastFailure {
            at: now,
            class: verdict.class,
            rule: kept(&verdict.rule),
            place: kept(&verdict.evidence.place),
            excerpt: kept(&verdict.evidence.excerpt),
            hint_wait,
            narrower: Believed::from_verdict(policy, verdict, now).and_then(|hint| hint.narrower),
        });
    }
}

/// Returns the start of `text` that is kept.
fn kept(text: &str) -> String {
    text.chars().take(KEPT_CHARS).collect()
}
