//! Carries out what an operator asks for, and what the start of a new boot demands.

use super::{Circuit, Held, Hold};
use crate::breaker::{Breaker, Escalation};
use crate::event::{By, Event, EventKind, State};
use crate::policy::Policy;
use crate::time::{Deadline, Timestamp};

impl Circuit {
    /// Places an operator's hold; it replaces an earlier one.
    pub fn hold(&mut self, policy: &Policy, hold: Hold, now: Timestamp) -> Vec<Event> {
        let mut events = self.pass_time(policy, None, now);
        let Hold { state, until, by } = hold;
        // A hold lets everybody through or nobody; there is no third kind, so whatever is not closed keeps out.
        let state = if state == State::Closed { State::Closed } else { State::Open };
        events.push(self.event(now, EventKind::HoldPlaced { state, until, by: by.clone() }));
        self.hold = Some(Held { state, until: until.map(|until| Deadline::at(now, until)), by });
        events
    }

    /// Ends an operator's hold; with `probe_now` an open breaker's cooldown ends too, and so does a throttle.
    pub fn release(&mut self, policy: &Policy, by: By, probe_now: bool, now: Timestamp) -> Vec<Event> {
        let mut events = self.pass_time(policy, None, now);
        if self.hold.is_some() {
            self.end_hold(policy, Some(by.clone()), now, &mut events);
        }
        if probe_now {
            if self.throttle.take().is_some() {
                self.ramp_after_throttle(policy, now, &mut events);
            }
            self.half_open(Some(by), now, &mut events);
        }
        events
    }

    /// Ends the hold that is placed. A ramp that stood still meanwhile goes on.
    pub(super) fn end_hold(&mut self, policy: &Policy, by: Option<By>, at: Timestamp, events: &mut Vec<Event>) {
        let kept_out = self.is_held_open();
        self.hold = None;
        events.push(self.event(at, EventKind::HoldEnded { by }));
        if kept_out && self.throttle.is_none() {
            self.ramp_goes_on(policy, 0, at, events);
        }
    }

    /// Clears the history: closed, nothing counted, no throttle, no escalation. A hold stays; it has its own end.
    pub fn reset(&mut self, policy: &Policy, by: By, now: Timestamp) -> Vec<Event> {
        let mut events = self.pass_time(policy, None, now);
        let from = self.breaker.state();
        self.breaker = Breaker::Closed;
        self.generation += 1;
        self.since = now;
        self.window.clear();
        self.escalation = Escalation::default();
        self.throttle = None;
        self.episode = None;
        self.auth_in_a_row = 0;
        self.probe_succeeded = false;
        self.last_failure = None;
        self.ramp = None;
        events.push(self.event_from(from, now, EventKind::Reset { by }));
        // What was held back is still there, and returns paced as after any other recovery.
        if self.waiting > 0 || self.jobs_held > 0 {
            self.begin_ramp(policy, 0, now, &mut events);
        }
        events
    }

    /// Puts stored instants right after a reboot, whose anchor may have been read from a stepped wall clock.
    ///
    /// A deadline that lies further ahead than the length it was set with is cut to that length from `now`; failures
    /// and other past instants that lie in the future are moved to `now`. So no step between two boots freezes a
    /// circuit for longer than one more cooldown.
    pub fn after_reboot(&mut self, now: Timestamp) {
        self.since = self.since.min(now);
        self.window.after_reboot(now);
        match &mut self.breaker {
            Breaker::Closed => {}
            Breaker::Open(open) => open.until.cut(now),
            Breaker::HalfOpen(half) => {
                for probe in &mut half.probes {
                    probe.granted_at = probe.granted_at.min(now);
                    probe.lease.cut(now);
                    probe.attempt.cut(now);
                }
            }
        }
        if let Some(forget) = &mut self.escalation.forget {
            forget.cut(now);
        }
        if let Some(throttle) = &mut self.throttle {
            throttle.cut(now);
        }
        if let Some(episode) = &mut self.episode {
            episode.written_at = episode.written_at.min(now);
        }
        if let Some(ramp) = &mut self.ramp {
            ramp.after_reboot(now);
        }
        if let Some(until) = self.hold.as_mut().and_then(|hold| hold.until.as_mut()) {
            until.cut(now);
        }
        if let Some(failure) = &mut self.last_failure {
            failure.at = failure.at.min(now);
        }
    }
}
