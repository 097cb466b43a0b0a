//! Holds the breaker: closed, open or half-open, each with what belongs to it, and how long a cooldown is.
//!
//! **When a probe is over without a verdict.** A probe has two ends besides its verdict. Its *lease* is renewed while
//! its process lives; when it runs out the process is gone, which says nothing about the dependency. Its *attempt
//! deadline* stands for the opposite: the process lives and renews, but the attempt should long be over; that is a
//! failure. The attempt deadline is the policy's timeout **plus one probe lease**: without that grace every probe that
//! times out properly would be judged here, an instant before its own process reports it with class and evidence, and
//! a killed process would look like a stalled one whenever the timeout is shorter than the lease. A surface that sees
//! no progress on a live probe (no byte for a whole lease) does not wait for this: it settles the probe as a timeout.
//!
//! This module holds data and arithmetic; what moves a breaker from state to state is `circuit`.

use std::time::Duration;

use crate::chance::Chance;
use crate::event::{State, TripReason};
use crate::permit::PermitId;
use crate::policy::{CircuitPolicy, Policy, QUOTA_COOLDOWN};
use crate::time::{Deadline, Timestamp};

/// How long a live probe may last where the policy states no timeout. The surface's own timeout (the pack's default)
/// ends it long before; this is the bound behind it.
const PROBE_LONGEST: Duration = Duration::from_secs(24 * 3600);

/// What jitter adds to a cooldown at most, as a share of it.
const COOLDOWN_JITTER: f64 = 0.1;

/// The state machine inside a circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Breaker {
    /// Traffic flows.
    Closed,
    /// Traffic is refused.
    Open(Open),
    /// Traffic is tried.
    HalfOpen(HalfOpen),
}

/// What belongs to an open breaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    /// When the cooldown ends.
    pub(crate) until: Deadline,
    /// Why it opened.
    pub(crate) reason: TripReason,
}

/// What belongs to a half-open breaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HalfOpen {
    /// Why it had opened.
    pub(crate) reason: TripReason,
    /// Successes in a row.
    pub(crate) successes: u32,
    /// Probes in a row that said nothing about health.
    pub(crate) neutral_in_a_row: u32,
    /// Probes in flight; never more than k at the time of their admission.
    pub(crate) probes: Vec<Probe>,
}

/// One probe in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    /// Its permit.
    pub(crate) id: PermitId,
    /// When it was admitted.
    pub(crate) granted_at: Timestamp,
    /// Until when its process counts as alive.
    pub(crate) lease: Deadline,
    /// When it counts as failed although its process lives.
    pub(crate) attempt: Deadline,
}

impl Breaker {
    /// Returns the state without its data.
    pub(crate) const fn state(&self) -> State {
        match self {
            Self::Closed => State::Closed,
            Self::Open(_) => State::Open,
            Self::HalfOpen(_) => State::HalfOpen,
        }
    }
}

impl HalfOpen {
    /// Returns a half-open breaker without probes.
    pub(crate) const fn new(reason: TripReason) -> Self {
        Self { reason, successes: 0, neutral_in_a_row: 0, probes: Vec::new() }
    }

    /// Returns whether one more probe may be admitted: fewer than k in flight, and no more in flight than can still be
    /// needed for m successes.
    pub(crate) fn has_room(&self, policy: &CircuitPolicy) -> bool {
        let (k, m) = (policy.half_open_max_calls.get(), policy.close_after_successes.get());
        let in_flight = u32::try_from(self.probes.len()).unwrap_or(u32::MAX);
        // A reload may have lowered m below the successes seen; the closing one must still be let in.
        let successes = self.successes.min(m - 1);
        in_flight < k && in_flight.saturating_add(successes) < k.max(m)
    }

    /// Returns the first end of a probe that time brings, and whether it is the lease's.
    pub(crate) fn first_end(&self) -> Option<(usize, Timestamp, ProbeEnd)> {
        let ends = self.probes.iter().enumerate().map(|(index, probe)| {
            let (at, end) = probe.end();
            (index, at, end)
        });
        ends.min_by_key(|(_, at, _)| *at)
    }
}

/// How time ends a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeEnd {
    /// Its process is gone.
    Lost,
    /// Its process lives, the attempt should be over.
    Stalled,
}

impl Probe {
    /// Returns a probe that is admitted at `now`.
    pub(crate) fn new(id: PermitId, policy: &Policy, now: Timestamp) -> Self {
        let lease = policy.circuit.probe_lease;
        let longest = policy.timeout.unwrap_or(PROBE_LONGEST).saturating_add(lease);
        Self { id, granted_at: now, lease: Deadline::after(now, lease), attempt: Deadline::after(now, longest) }
    }

    /// Returns when time ends it, and how.
    pub(crate) fn end(&self) -> (Timestamp, ProbeEnd) {
        if self.lease.at <= self.attempt.at {
            (self.lease.at, ProbeEnd::Lost)
        } else {
            (self.attempt.at, ProbeEnd::Stalled)
        }
    }
}

/// What is remembered of earlier trips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Escalation {
    /// Failed rounds of probes since the last time this was forgotten: the exponent of the cooldown.
    pub(crate) rounds: u32,
    /// Rounds in a row that ended in an exhausted quota: the exponent of its own cooldown.
    pub(crate) quota_rounds: u32,
    /// The last cooldown without its jitter, in milliseconds.
    pub(crate) last_cooldown_ms: u64,
    /// When the rounds are forgotten, while the breaker is closed.
    pub(crate) forget: Option<Deadline>,
}

/// Returns the cooldown of a trip for `reason`, without jitter.
pub(crate) fn cooldown(policy: &CircuitPolicy, reason: &TripReason, escalation: &Escalation) -> Duration {
    let longest = policy.max_open_for.max(policy.open_for);
    match reason {
        TripReason::QuotaExhausted => grown(QUOTA_COOLDOWN, 2.0, escalation.quota_rounds, longest.max(QUOTA_COOLDOWN)),
        TripReason::ProbesInconclusive => policy.open_for,
        TripReason::Failures { .. }
        | TripReason::LongWait { .. }
        | TripReason::ProbeFailed { .. }
        | TripReason::ProbeStalled => grown(policy.open_for, policy.cooldown_factor, escalation.rounds, longest),
    }
}

/// Returns a cooldown with its jitter, which only adds.
pub(crate) fn jittered(cooldown: Duration, chance: Chance) -> Duration {
    scaled(cooldown, 1.0 + COOLDOWN_JITTER * chance.unit())
}

/// Returns `base × factor^rounds`, at most `longest`, for every input.
fn grown(base: Duration, factor: f64, rounds: u32, longest: Duration) -> Duration {
    let factor = if factor.is_nan() { 1.0 } else { factor.max(1.0) };
    let growth = factor.powi(i32::try_from(rounds).unwrap_or(i32::MAX));
    scaled(base, growth).min(longest)
}

/// Returns `duration × by` for a `by` of at least 1; what does not fit becomes the longest duration.
fn scaled(duration: Duration, by: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * by).unwrap_or(Duration::MAX).max(duration)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Surface;
    use test_case::test_case;

    #[test_case(0, 120; "the first is open_for")]
    #[test_case(1, 240; "a failed probe doubles it")]
    #[test_case(4, 1920)]
    #[test_case(5, 3600; "up to the cap")]
    #[test_case(u32::MAX, 3600; "no round overflows")]
    fn the_cooldown_doubles_up_to_its_cap(rounds: u32, secs: u64) {
        let policy = Policy::built_in("ocr", Surface::Run).circuit;
        let escalation = Escalation { rounds, ..Escalation::default() };
        assert_eq!(cooldown(&policy, &TripReason::ProbeStalled, &escalation), Duration::from_secs(secs));
    }

    #[test_case(0, 600)]
    #[test_case(1, 1200)]
    #[test_case(2, 2400)]
    #[test_case(3, 3600)]
    #[test_case(u32::MAX, 3600)]
    fn the_cooldown_of_a_quota_starts_at_ten_minutes(quota_rounds: u32, secs: u64) {
        let policy = Policy::built_in("ocr", Surface::Run).circuit;
        let escalation = Escalation { quota_rounds, ..Escalation::default() };
        assert_eq!(cooldown(&policy, &TripReason::QuotaExhausted, &escalation), Duration::from_secs(secs));
    }

    #[test_case(f64::NAN)]
    #[test_case(f64::INFINITY)]
    #[test_case(-3.0)]
    #[test_case(0.0)]
    #[test_case(1e300)]
    fn no_factor_makes_a_cooldown_shorter_than_open_for_or_longer_than_the_cap(cooldown_factor: f64) {
        let policy = CircuitPolicy { cooldown_factor, ..Policy::built_in("ocr", Surface::Run).circuit };
        for rounds in [0, 1, 2, 1000] {
            let escalation = Escalation { rounds, ..Escalation::default() };
            let cooldown = cooldown(&policy, &TripReason::ProbeStalled, &escalation);
            assert!(cooldown >= policy.open_for && cooldown <= policy.max_open_for, "{cooldown:?}");
        }
    }

    #[test]
    fn jitter_only_adds_and_at_most_a_tenth() {
        let base = Duration::from_secs(100);
        let cooldowns: Vec<_> = (0..1000).map(|seed| jittered(base, Chance::from_seed(seed))).collect();
        assert!(cooldowns.iter().all(|cooldown| (base..=Duration::from_secs(110)).contains(cooldown)));
        // Circuits that tripped together do not probe together.
        let late = cooldowns.iter().filter(|cooldown| **cooldown > Duration::from_secs(105)).count();
        assert!((400..600).contains(&late), "{late} of 1000 in the later half");
    }
}
