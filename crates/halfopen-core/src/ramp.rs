//! Paces what was held back: jobs and callers that waited return at a rate that climbs while all goes well.
//!
//! A *start slot* is the instant at which one held-back caller may start. The ramp keeps only the next free one, so its
//! state does not grow with the number of those who wait: a caller that comes too early is told its slot and shows it
//! when it comes back. Slots carry the number of their *schedule*; when the rate falls, or the ramp starts over, the
//! schedule changes and older slots are void, because they were handed out at a rate that no longer holds.
//!
//! The rules, all of them:
//! - The first start is at once; the following ones are an interval apart. Missed starts are not made up for.
//! - A slot of the current schedule is honoured from its instant until one interval later. Whoever comes later gets the
//!   next one; so at most one start more than the rate allows falls into any second.
//! - Those who started are counted until they settle, by a lease that their process renews; a start of a dead process
//!   is forgotten when its lease ends. While the count is at its bound, slots move on without a start.
//! - After 30 s with a success and without a failure the rate and the bound double. The first failure of an attempt
//!   that was admitted since the last change halves both; the others of that herd do not. 60 s after the last start
//!   slot without anybody asking, the rate goes down one step, but not below where it began.
//! - Those who wait are only counted. After the same 60 s without anybody asking, those who were counted are forgotten:
//!   whoever still waits would have asked. A ramp for which neither callers nor jobs are left ends.
//!
//! Rates are whole thousandths of a start per second, so that stored and computed values never differ.

use std::time::Duration;

use crate::permit::{Permit, PermitId, Side, Slot};
use crate::policy::{DrainPolicy, Policy};
use crate::time::{Deadline, Timestamp};

/// How long a ramp goes on without a failure before it doubles.
const STEP: Duration = Duration::from_secs(30);

/// How long nobody may ask before the ramp goes down and forgets those who waited.
pub(crate) const IDLE: Duration = Duration::from_secs(60);

/// Callers held by a throttle all start within this time, as far as the longest rate allows.
const WAITERS_START_WITHIN_SECS: u64 = 30;

/// No ramp tracks more starts in flight than this, so that a circuit's record stays small.
const IN_FLIGHT_CEILING: u32 = 256;

/// How far failures push the rate below where it begins: to this share of it.
const FLOOR_SHARE: u64 = 16;

/// The ramp of a closed breaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ramp {
    /// Voids the slots of other schedules.
    pub(crate) schedule: u64,
    /// Starts per second, in thousandths; at least 1.
    pub(crate) rate_millis: u64,
    /// Starts in flight at most; at least 1.
    pub(crate) in_flight_max: u32,
    /// The next start slot that nobody has.
    pub(crate) next_start: Timestamp,
    /// When the rate was last changed.
    pub(crate) changed_at: Timestamp,
    /// When somebody last asked.
    pub(crate) asked_at: Timestamp,
    /// Whether an attempt has succeeded since the rate was last changed.
    pub(crate) succeeded: bool,
    /// Those who started and have not settled.
    pub(crate) starts: Vec<Start>,
}

/// One start in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// Its permit.
    pub(crate) id: PermitId,
    /// Until when its process counts as alive.
    pub(crate) lease: Deadline,
}

/// What the ramp says to somebody who was held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Start.
    Now,
    /// Come back then; with the slot that is set aside, for whoever can show one.
    Later(Timestamp, Option<Slot>),
}

/// Who asks a ramp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldBack {
    /// A caller, who can keep a slot and show it.
    Caller(Option<Slot>),
    /// A job, which is claimed anew each time and keeps none.
    Job,
}

impl Ramp {
    /// Returns the ramp that begins at `now`; `hurried` is the number of callers that shall all start soon.
    pub(crate) fn begin(drain: &DrainPolicy, schedule: u64, hurried: u32, now: Timestamp) -> Self {
        let mut ramp = Self {
            schedule,
            rate_millis: first_rate(drain),
            in_flight_max: drain.max_in_flight.get().min(IN_FLIGHT_CEILING),
            next_start: now,
            changed_at: now,
            asked_at: now,
            succeeded: false,
            starts: Vec::new(),
        };
        ramp.hurry(drain, hurried);
        ramp
    }

    /// Goes on at `now` after a pause in which nobody could start, with a new schedule.
    pub(crate) fn go_on(&mut self, drain: &DrainPolicy, schedule: u64, hurried: u32, now: Timestamp) {
        self.schedule = schedule;
        self.next_start = now;
        self.changed_at = now;
        self.succeeded = false;
        self.hurry(drain, hurried);
    }

    /// Raises the rate so that `hurried` callers start within half a minute, and lets as many be in flight: they were
    /// before they were held.
    fn hurry(&mut self, drain: &DrainPolicy, hurried: u32) {
        let wanted = (u64::from(hurried) * 1000).div_ceil(WAITERS_START_WITHIN_SECS);
        self.rate_millis = self.rate_millis.max(wanted.min(last_rate(drain)));
        self.in_flight_max = self.in_flight_max.max(hurried.min(IN_FLIGHT_CEILING));
    }

    /// Returns the time between two starts, in whole milliseconds rounded up.
    pub(crate) fn interval(&self) -> Duration {
        Duration::from_millis(1_000_000_u64.div_ceil(self.rate_millis.max(1)))
    }

    /// Answers somebody who was held back.
    pub(crate) fn turn(&mut self, who: HeldBack, now: Timestamp) -> Turn {
        if let HeldBack::Caller(Some(slot)) = who
            && let Some(early) = self.early(slot, now)
        {
            return early;
        }
        self.note_asked(now);
        self.starts.retain(|start| !start.lease.is_over(now));
        let full = self.starts.len() >= self.in_flight_max as usize;
        let interval = self.interval();
        if let HeldBack::Caller(Some(slot)) = who
            && slot.schedule == self.schedule
            && now <= slot.at + interval
            && !full
        {
            return Turn::Now;
        }
        if self.next_start <= now && !full {
            self.next_start = now + interval;
            return Turn::Now;
        }
        let at = self.next_start.max(if full { now + interval } else { now });
        match who {
            HeldBack::Job => Turn::Later(at, None),
            HeldBack::Caller(_) => {
                self.next_start = at + interval;
                Turn::Later(at, Some(Slot { side: Side::Place, at, schedule: self.schedule }))
            }
        }
    }

    /// Notes that somebody asked, or is going to, so that those who wait are not forgotten yet.
    pub(crate) fn note_asked(&mut self, now: Timestamp) {
        self.asked_at = self.asked_at.max(now);
    }

    /// Returns the answer to a caller that shows a valid slot too early; it changes nothing.
    pub(crate) fn early(&self, slot: Slot, now: Timestamp) -> Option<Turn> {
        (slot.schedule == self.schedule && now < slot.at).then_some(Turn::Later(slot.at, Some(slot)))
    }

    /// Counts a start that another ramp has paced.
    pub(crate) fn started_elsewhere(&mut self, now: Timestamp) {
        self.next_start = self.next_start.max(now) + self.interval();
    }

    /// Counts a start as in flight until its lease ends.
    pub(crate) fn track(&mut self, id: PermitId, lease: Duration, now: Timestamp) {
        if self.starts.len() < IN_FLIGHT_CEILING as usize {
            self.starts.push(Start { id, lease: Deadline::after(now, lease) });
        }
    }

    /// Renews the lease of a start that is still counted.
    pub(crate) fn renew(&mut self, id: PermitId, lease: Duration, now: Timestamp) {
        if let Some(start) = self.starts.iter_mut().find(|start| start.id == id && !start.lease.is_over(now)) {
            start.lease = start.lease.extended(now, now + lease);
        }
    }

    /// Ends a start.
    pub(crate) fn ended(&mut self, id: PermitId) {
        self.starts.retain(|start| start.id != id);
    }

    /// Notes a failure; returns whether the rate fell.
    pub(crate) fn failed(&mut self, policy: &Policy, permit: &Permit, next_schedule: u64, now: Timestamp) -> bool {
        self.succeeded = false;
        if permit.admitted_at < self.changed_at {
            return false;
        }
        self.rate_millis = (self.rate_millis / 2).max(first_rate(&policy.drain) / FLOOR_SHARE).max(1);
        self.in_flight_max = (self.in_flight_max / 2).max(1);
        self.slow_down(next_schedule, now);
        true
    }

    /// Starts a slower schedule: slots already handed out are void, the next start is a whole interval away.
    fn slow_down(&mut self, next_schedule: u64, now: Timestamp) {
        self.schedule = next_schedule;
        self.next_start = now + self.interval();
        self.changed_at = now;
    }

    /// Returns when the rate doubles if nothing else happens.
    pub(crate) fn step_at(&self, drain: &DrainPolicy) -> Option<Timestamp> {
        let (rate, in_flight) = self.doubled(drain);
        let grows = rate > self.rate_millis || in_flight > self.in_flight_max;
        (self.succeeded && grows).then(|| self.changed_at + STEP)
    }

    /// Doubles the rate and the bound.
    pub(crate) fn step(&mut self, drain: &DrainPolicy, now: Timestamp) {
        (self.rate_millis, self.in_flight_max) = self.doubled(drain);
        self.changed_at = now;
        self.succeeded = false;
    }

    fn doubled(&self, drain: &DrainPolicy) -> (u64, u32) {
        let rate = self.rate_millis.saturating_mul(2).min(last_rate(drain)).max(self.rate_millis);
        let longest = drain.max_in_flight_max.get().min(IN_FLIGHT_CEILING);
        (rate, self.in_flight_max.saturating_mul(2).min(longest).max(self.in_flight_max))
    }

    /// Returns when it counts as idle: a while after the last start slot that somebody may still come for.
    pub(crate) fn idle_at(&self) -> Timestamp {
        self.asked_at.max(self.next_start) + IDLE
    }

    /// Returns whether idleness would lower the rate.
    pub(crate) fn can_rest(&self, drain: &DrainPolicy) -> bool {
        self.rate_millis > first_rate(drain)
    }

    /// Goes one step down after nobody has asked for a while; returns whether the rate fell.
    pub(crate) fn rest(&mut self, drain: &DrainPolicy, next_schedule: u64, now: Timestamp) -> bool {
        self.asked_at = now;
        if !self.can_rest(drain) {
            return false;
        }
        self.rate_millis = (self.rate_millis / 2).max(first_rate(drain));
        self.in_flight_max = (self.in_flight_max / 2).max(drain.max_in_flight.get().min(self.in_flight_max));
        self.slow_down(next_schedule, now);
        self.next_start = now;
        true
    }

    /// Moves what lies in the future to where it can be.
    pub(crate) fn after_reboot(&mut self, now: Timestamp) {
        self.next_start = self.next_start.min(now + self.interval());
        self.changed_at = self.changed_at.min(now);
        self.asked_at = self.asked_at.min(now);
        for start in &mut self.starts {
            start.lease.cut(now);
        }
    }
}

/// Returns the rate a ramp begins with, in thousandths.
fn first_rate(drain: &DrainPolicy) -> u64 {
    thousandths(drain.rate_per_sec)
}

/// Returns the highest rate, in thousandths.
fn last_rate(drain: &DrainPolicy) -> u64 {
    thousandths(drain.max_per_sec).max(first_rate(drain))
}

/// Returns a rate in thousandths, between one start in a thousand seconds and one in a millisecond.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits; NaN becomes 1")]
fn thousandths(per_sec: f64) -> u64 {
    ((per_sec * 1000.0).clamp(1.0, 1_000_000.0).round() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Surface;
    use test_case::test_case;

    fn drain() -> DrainPolicy {
        Policy::built_in("ocr", Surface::Serve).drain
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn slot_of(turn: Turn) -> Slot {
        match turn {
            Turn::Later(_, Some(slot)) => slot,
            Turn::Now | Turn::Later(_, None) => panic!("no slot in {turn:?}"),
        }
    }

    #[test]
    fn the_first_start_is_at_once_and_the_others_an_interval_apart() {
        let mut ramp = Ramp::begin(&drain(), 1, 0, at(0));
        assert_eq!(ramp.turn(HeldBack::Caller(None), at(0)), Turn::Now);
        let slots: Vec<_> = (0..3).map(|_| slot_of(ramp.turn(HeldBack::Caller(None), at(0))).at).collect();
        assert_eq!(slots, [at(1000), at(2000), at(3000)]);
    }

    #[test]
    fn a_slot_is_honoured_from_its_instant_until_one_interval_later() {
        let mut ramp = Ramp::begin(&drain(), 1, 0, at(0));
        assert_eq!(ramp.turn(HeldBack::Job, at(0)), Turn::Now);
        let slot = slot_of(ramp.turn(HeldBack::Caller(None), at(0)));
        assert_eq!(ramp.turn(HeldBack::Caller(Some(slot)), at(999)), Turn::Later(at(1000), Some(slot)));
        let before = ramp.next_start;
        assert_eq!(ramp.turn(HeldBack::Caller(Some(slot)), at(2000)), Turn::Now);
        assert_eq!(ramp.next_start, before, "an honoured slot uses up no other");
    }

    #[test]
    fn a_slot_shown_too_late_is_exchanged_for_the_next_one() {
        let mut ramp = Ramp::begin(&drain(), 1, 0, at(0));
        assert_eq!(ramp.turn(HeldBack::Job, at(0)), Turn::Now);
        let slot = slot_of(ramp.turn(HeldBack::Caller(None), at(0)));
        for _ in 0..5 {
            let _ = ramp.turn(HeldBack::Caller(None), at(0));
        }
        assert_eq!(slot_of(ramp.turn(HeldBack::Caller(Some(slot)), at(2001))).at, at(7000));
    }

    #[test]
    fn callers_held_by_a_throttle_all_start_within_half_a_minute() {
        let mut ramp = Ramp::begin(&drain(), 1, 120, at(0));
        let last = (0..120).map(|_| match ramp.turn(HeldBack::Caller(None), at(0)) {
            Turn::Now => at(0),
            Turn::Later(at, _) => at,
        });
        assert!(last.max().unwrap() <= at(30_000));
    }

    #[test]
    fn starts_in_flight_are_bounded_until_they_end_or_their_lease_does() {
        let mut ramp = Ramp::begin(&drain(), 1, 0, at(0));
        for (id, now) in [(1, 0), (2, 1000)] {
            assert_eq!(ramp.turn(HeldBack::Job, at(now)), Turn::Now);
            ramp.track(PermitId(id), Duration::from_secs(30), at(now));
        }
        assert_eq!(ramp.turn(HeldBack::Job, at(5000)), Turn::Later(at(6000), None));
        ramp.ended(PermitId(2));
        assert_eq!(ramp.turn(HeldBack::Job, at(5000)), Turn::Now);
        ramp.track(PermitId(3), Duration::from_secs(30), at(5000));
        assert_eq!(ramp.turn(HeldBack::Job, at(29_999)), Turn::Later(at(30_999), None));
        assert_eq!(ramp.turn(HeldBack::Job, at(30_000)), Turn::Now, "the lease of the first start is over");
    }

    /// A circuit's record stays small, whoever starts beside the bound: those whom another ramp paces are only counted.
    #[test]
    fn no_more_starts_are_tracked_than_a_record_may_hold() {
        let mut ramp = Ramp::begin(&drain(), 1, 0, at(0));
        for id in 0..300 {
            ramp.track(PermitId(id), Duration::from_secs(30), at(0));
        }
        assert_eq!(ramp.starts.len(), 256);
        assert_eq!(Ramp::begin(&drain(), 1, 300, at(0)).in_flight_max, 256);
    }

    #[test_case(0.0, 1)]
    #[test_case(f64::NAN, 1; "not a number")]
    #[test_case(f64::INFINITY, 1_000_000; "infinite")]
    #[test_case(-1.0, 1)]
    #[test_case(1.0, 1000)]
    #[test_case(0.25, 250)]
    fn a_rate_is_read_in_thousandths(per_sec: f64, millis: u64) {
        assert_eq!(thousandths(per_sec), millis);
    }
}
