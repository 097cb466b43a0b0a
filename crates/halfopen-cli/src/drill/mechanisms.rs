//! Stands between the drill's callers and the engine, and can switch one mechanism off.
//!
//! A control function fails by doing nothing, so the drill must be able to fail: `--mutate` removes each mechanism in
//! turn and demands that a row goes red. The switches exist only here. The engine has none: a mechanism is removed by
//! what reaches the engine (a policy with the number taken out of it, a verdict with the hint cut off, a permit that is
//! never settled) or by what its callers do with the answer, so that what runs in production cannot be switched at all.

use std::num::NonZeroU32;
use std::time::Duration;

use halfopen_core::pair::Pass;
use halfopen_core::permit::{Ask, Permit, PermitKind, Refusal, RefusalReason};
use halfopen_core::policy::Policy;
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{Class, Verdict};
use serde::Deserialize;

use super::spoken::SuccessSearched;

/// So long that nothing lasts longer.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// One mechanism switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mutant {
    /// Every outcome is a success.
    DetectorSaysNo,
    /// Stated waits are not read.
    HintIgnored,
    /// A wait of hours is slept.
    LongHintSlept,
    /// A stated wait binds only the caller that read it.
    HintNotShared,
    /// Failures do not add up.
    CounterNeverCounts,
    /// Those who met one limit together count as many failures.
    EpisodePerHead,
    /// An open breaker refuses nobody.
    BreakerNeverOpens,
    /// A half-open breaker has no bound.
    HalfOpenAdmitsAll,
    /// Whoever leaves keeps its slot.
    SlotNeverReturned,
    /// A probe that says nothing keeps its slot.
    NeutralSlotKept,
    /// A dead process keeps its slot.
    LeaseNeverExpires,
    /// Every cooldown is as long as the first.
    CooldownNotDoubled,
    /// Results from before the trip count.
    StaleResultAccepted,
    /// What was held back returns at once.
    DrainUnpaced,
    /// Only jobs return step by step.
    RampOnlyForJobs,
    /// What may have been executed is sent again.
    UnknownEndResent,
    /// The text of a success is searched for errors.
    SuccessSearched,
    /// Jobs are never too old.
    TtlNeverChecked,
    /// A job is sent without a note that it is about to be.
    NoteSkipped,
    /// A worker that lost its lease goes on.
    FenceIgnored,
    /// The same key again is another job.
    KeyIgnored,
    /// Later work overtakes earlier work of the same order key.
    OrderKeyIgnored,
    /// What an operator holds open lets everybody through.
    HoldIgnored,
    /// A probe is real work at once, whatever the cheap one would say.
    CheapProbeSkipped,
    /// Every partition is a circuit of its own.
    PartitionsUnbounded,
    /// The owner is not told.
    AlertNotSent,
    /// No line is left behind.
    ActivationLineDropped,
}

impl Mutant {
    /// Every mutant, in the order in which they are reported.
    pub(super) const ALL: [Self; 27] = [
        Self::DetectorSaysNo,
        Self::SuccessSearched,
        Self::HintIgnored,
        Self::LongHintSlept,
        Self::HintNotShared,
        Self::CounterNeverCounts,
        Self::EpisodePerHead,
        Self::BreakerNeverOpens,
        Self::HalfOpenAdmitsAll,
        Self::SlotNeverReturned,
        Self::NeutralSlotKept,
        Self::LeaseNeverExpires,
        Self::CooldownNotDoubled,
        Self::StaleResultAccepted,
        Self::DrainUnpaced,
        Self::RampOnlyForJobs,
        Self::UnknownEndResent,
        Self::TtlNeverChecked,
        Self::NoteSkipped,
        Self::FenceIgnored,
        Self::KeyIgnored,
        Self::OrderKeyIgnored,
        Self::HoldIgnored,
        Self::CheapProbeSkipped,
        Self::PartitionsUnbounded,
        Self::AlertNotSent,
        Self::ActivationLineDropped,
    ];

    /// Returns its name in the report.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::DetectorSaysNo => "detector always says no",
            Self::HintIgnored => "hint ignored",
            Self::LongHintSlept => "hint of hours slept",
            Self::HintNotShared => "hint not shared",
            Self::CounterNeverCounts => "counter never counts",
            Self::EpisodePerHead => "episode counted per head",
            Self::BreakerNeverOpens => "breaker never opens",
            Self::HalfOpenAdmitsAll => "half-open admits everyone",
            Self::SlotNeverReturned => "slot never returned",
            Self::NeutralSlotKept => "neutral slot kept",
            Self::LeaseNeverExpires => "lease never expires",
            Self::CooldownNotDoubled => "cooldown not doubled",
            Self::StaleResultAccepted => "stale result accepted",
            Self::DrainUnpaced => "drain unpaced",
            Self::RampOnlyForJobs => "ramp only for jobs",
            Self::UnknownEndResent => "unknown end re-sent",
            Self::SuccessSearched => "text of a success searched",
            Self::TtlNeverChecked => "TTL never checked",
            Self::NoteSkipped => "note before sending skipped",
            Self::FenceIgnored => "fence ignored",
            Self::KeyIgnored => "idempotency key ignored",
            Self::OrderKeyIgnored => "order key ignored",
            Self::HoldIgnored => "hold ignored",
            Self::CheapProbeSkipped => "cheap probe skipped",
            Self::PartitionsUnbounded => "partitions unbounded",
            Self::AlertNotSent => "alert not sent",
            Self::ActivationLineDropped => "activation line dropped",
        }
    }
}

/// The mechanisms of one run of a row, all of them on or one of them off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mechanisms {
    off: Option<Mutant>,
}

impl Mechanisms {
    /// Returns the mechanisms without one.
    pub(super) const fn without(mutant: Mutant) -> Self {
        Self { off: Some(mutant) }
    }

    fn lack(self, mutant: Mutant) -> bool {
        self.off == Some(mutant)
    }

    /// Returns the policy that the engine and its callers are given.
    pub(super) fn policy(self, policy: &Policy) -> Policy {
        let mut policy = policy.clone();
        match self.off {
            Some(Mutant::LongHintSlept) => policy.retry.max_wait = FOREVER,
            Some(Mutant::CounterNeverCounts) => policy.circuit.open_after_failures = NonZeroU32::MAX,
            Some(Mutant::HalfOpenAdmitsAll) => policy.circuit.half_open_max_calls = NonZeroU32::MAX,
            Some(Mutant::LeaseNeverExpires) => {
                policy.circuit.probe_lease = FOREVER;
                policy.circuit.lease = FOREVER;
            }
            Some(Mutant::CooldownNotDoubled) => policy.circuit.cooldown_factor = 1.0,
            Some(Mutant::DrainUnpaced) => {
                policy.drain.rate_per_sec = 1_000_000.0;
                policy.drain.max_per_sec = 1_000_000.0;
                policy.drain.max_in_flight = NonZeroU32::MAX;
                policy.drain.max_in_flight_max = NonZeroU32::MAX;
            }
            Some(Mutant::CheapProbeSkipped) => policy.probe = None,
            Some(Mutant::PartitionsUnbounded) => policy.max_partitions = NonZeroU32::MAX,
            // Who is nobody's is told to nobody.
            Some(Mutant::AlertNotSent) => policy.owner = None,
            Some(_) | None => {}
        }
        policy
    }

    /// Returns whether the processes of a row see one store.
    pub(super) fn share_a_store(self) -> bool {
        !self.lack(Mutant::HintNotShared)
    }

    /// Returns what the door is asked.
    pub(super) fn ask(self, ask: Ask) -> Ask {
        if self.lack(Mutant::RampOnlyForJobs) { Ask::Fresh } else { ask }
    }

    /// Returns whether a refusal is obeyed.
    pub(super) fn obey(self, refusal: &Refusal) -> bool {
        match refusal.reason {
            RefusalReason::Open | RefusalReason::ProbesOut => !self.lack(Mutant::BreakerNeverOpens),
            RefusalReason::Held => !self.lack(Mutant::HoldIgnored),
            RefusalReason::Throttled | RefusalReason::Ramp => true,
        }
    }

    /// Returns whether the text of a success is read as a failure's.
    pub(super) fn success_searched(self) -> SuccessSearched {
        if self.lack(Mutant::SuccessSearched) { SuccessSearched::Yes } else { SuccessSearched::No }
    }

    /// Returns the verdict that is acted on.
    pub(super) fn verdict(self, mut verdict: Verdict) -> Verdict {
        if self.lack(Mutant::DetectorSaysNo) {
            verdict = Verdict::plain(Class::Success, "drill/detector-off", verdict.reached);
        }
        if self.lack(Mutant::HintIgnored) {
            verdict.hint = None;
        }
        verdict
    }

    /// Returns the pass that a verdict is settled with; `None` if it is not settled at all.
    pub(super) fn settled(self, mut pass: Pass, verdict: &Verdict, generation: u64, now: Timestamp) -> Option<Pass> {
        let neutral = matches!(verdict.class, Class::Auth | Class::InvalidRequest | Class::UnknownFailure);
        if neutral && self.lack(Mutant::NeutralSlotKept) {
            return None;
        }
        let each = |pass: &mut Pass, change: &dyn Fn(&mut Permit)| {
            change(&mut pass.place);
            pass.account.as_mut().map(change);
        };
        if self.lack(Mutant::StaleResultAccepted) && pass.place.generation != generation {
            each(&mut pass, &|permit| {
                permit.kind = PermitKind::Regular;
                permit.generation = generation;
                permit.expires_at = Timestamp::MAX;
            });
        }
        if self.lack(Mutant::EpisodePerHead) {
            each(&mut pass, &|permit| permit.admitted_at = now + Duration::from_millis(1));
        }
        Some(pass)
    }

    /// Returns whether an attempt that ends without a verdict gives its pass back.
    pub(super) fn give_back(self) -> bool {
        !self.lack(Mutant::SlotNeverReturned)
    }

    /// Returns whether an attempt with an unknown end is sent again, whatever the policy says.
    pub(super) fn resend_unknown(self) -> bool {
        self.lack(Mutant::UnknownEndResent)
    }

    /// Returns how long a job is worth doing.
    pub(super) fn ttl(self, ttl: Duration) -> Duration {
        if self.lack(Mutant::TtlNeverChecked) { FOREVER } else { ttl }
    }

    /// Returns whether it is noted that a job is about to be sent.
    pub(super) fn note_before_sending(self) -> bool {
        !self.lack(Mutant::NoteSkipped)
    }

    /// Returns whether a worker stops that has lost its lease.
    pub(super) fn heed_the_fence(self) -> bool {
        !self.lack(Mutant::FenceIgnored)
    }

    /// Returns whether the same key again is the same job.
    pub(super) fn heed_keys(self) -> bool {
        !self.lack(Mutant::KeyIgnored)
    }

    /// Returns whether jobs of one order key are done in their order.
    pub(super) fn heed_order(self) -> bool {
        !self.lack(Mutant::OrderKeyIgnored)
    }

    /// Returns whether an activation line is written.
    pub(super) fn leave_a_line(self) -> bool {
        !self.lack(Mutant::ActivationLineDropped)
    }
}
