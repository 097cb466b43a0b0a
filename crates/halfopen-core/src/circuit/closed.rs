//! Settles attempts through the closed breaker: failures add up, hints hold everybody, a success clears what it refutes.

use std::time::Duration;

use super::effect::Effect;
use super::pass::Trip;
use super::settle::Settling;
use super::{Circuit, Facts, LastFailure};
use crate::breaker::Breaker;
use crate::event::{Event, EventKind, TripReason};
use crate::permit::Permit;
use crate::policy::Policy;
use crate::throttle::{Believed, Episode};
use crate::time::{Deadline, Timestamp, millis};
use crate::verdict::Class;
use crate::window;

/// How many refused credentials in a row are told to the owner.
const AUTH_TOLD_AFTER: u32 = 3;

/// The longest text of a failure that is kept, in characters.
const KEPT_CHARS: usize = 240;

impl Circuit {
    pub(super) fn settle_regular(&mut self, settling: &Settling<'_>, effect: Effect, events: &mut Vec<Event>) {
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
    pub(super) fn fail_regular(&mut self, settling: &Settling<'_>, events: &mut Vec<Event>) {
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
    pub(super) fn count_failure(&mut self, policy: &Policy, class: Class, now: Timestamp, events: &mut Vec<Event>) {
        let failures = self.window.push(&policy.circuit, now);
        events.push(self.event(now, EventKind::FailureCounted { class, failures }));
    }

    /// A success of an attempt through the closed breaker.
    pub(super) fn succeed_regular(
        &mut self,
        policy: &Policy,
        permit: &Permit,
        now: Timestamp,
        events: &mut Vec<Event>,
    ) {
        self.auth_in_a_row = 0;
        if let Some(episode) = self.episode_ended_by(permit) {
            self.episode = Some(Episode { in_a_row: 0, ..episode });
        }
        let stands_still = self.ramp_stands_still();
        if let Some(ramp) = &mut self.ramp {
            ramp.succeeded = true;
            if !stands_still && ramp.step_at(&policy.drain).is_some_and(|at| at <= now) {
                ramp.step(&policy.drain, now);
                self.push_ramp_stepped(now, events);
            }
        }
    }

    /// Gives back a start of the ramp.
    pub(super) fn leave_ramp(&mut self, permit: &Permit, facts: Facts, now: Timestamp, events: &mut Vec<Event>) {
        if !permit.ramped {
            return;
        }
        if let Some(ramp) = &mut self.ramp {
            ramp.ended(permit.id);
            self.jobs_held = facts.jobs_queued;
        }
        self.end_ramp_if_nothing_is_held(now, events);
    }

    /// Extends what holds everybody: the cooldown of an open breaker, else the throttle.
    pub(super) fn hold_all_until(&mut self, hint: &Believed, class: Class, now: Timestamp, events: &mut Vec<Event>) {
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
    pub(super) fn push_hint_cut(&self, hint: Option<&Believed>, now: Timestamp, events: &mut Vec<Event>) {
        if let Some(hint) = hint
            && hint.cut
        {
            events.push(self.event(now, EventKind::HintCut { wait: hint.stated, until: hint.until }));
        }
    }

    /// Counts a refused credential. The owner is told at the third in a row, then each time the number has doubled.
    pub(super) fn count_auth(&mut self, now: Timestamp, events: &mut Vec<Event>) {
        self.auth_in_a_row = self.auth_in_a_row.saturating_add(1);
        let in_a_row = self.auth_in_a_row;
        if in_a_row.is_multiple_of(AUTH_TOLD_AFTER) && (in_a_row / AUTH_TOLD_AFTER).is_power_of_two() {
            events.push(self.event(now, EventKind::AuthFailed { in_a_row }));
        }
    }

    /// Keeps what `why` shows: the last failure that says something about the dependency or the credential.
    pub(super) fn note_failure(&mut self, settling: &Settling<'_>, effect: Effect) {
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
