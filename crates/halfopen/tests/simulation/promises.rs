//! What is promised, as somebody who knows nothing of the engine would write it down.

use std::collections::VecDeque;
use std::time::Duration;

use halfopen_core::pair::Pass;
use halfopen_core::permit::PermitKind;
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::Verdict;

/// What must not happen from here on.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    /// Nothing is let through before: the breaker's word.
    open_until: Option<Timestamp>,
    /// Nothing is let through before: the dependency's word.
    asked_to_wait_until: Option<Timestamp>,
    /// Probes that nobody has reported on, each with the end of its lease.
    probes: Vec<Probe>,
    /// When what was held back started.
    starts: VecDeque<Timestamp>,
    generation: u64,
}

#[derive(Debug)]
struct Probe {
    id: u64,
    generation: u64,
    leased_until: Timestamp,
    /// A probe that is past its timeout has failed, whoever renews it.
    over_at: Timestamp,
}

impl Promises {
    /// An attempt was let through.
    ///
    /// # Panics
    ///
    /// If it should not have been.
    pub(crate) fn admitted(&mut self, pass: &Pass, policy: &Policy, now: Timestamp) {
        let permit = &pass.place;
        if let Some(until) = self.open_until {
            assert!(now >= until, "{:?} was let through {:?} before the cooldown's end", permit.kind, now.until(until));
        }
        if let Some(until) = self.asked_to_wait_until {
            assert!(now >= until, "{:?} was let through {:?} before the stated time", permit.kind, now.until(until));
        }
        self.generation = self.generation.max(permit.generation);
        if permit.kind == PermitKind::Probe {
            let leased_until = now + policy.circuit.probe_lease;
            let over_at = policy.timeout.map_or(Timestamp::MAX, |timeout| now + timeout);
            self.probes.push(Probe { id: permit.id.0, generation: permit.generation, leased_until, over_at });
            let generation = self.generation;
            self.probes
                .retain(|probe| probe.generation == generation && probe.leased_until > now && probe.over_at > now);
            let most = policy.circuit.half_open_max_calls.get() as usize;
            assert!(self.probes.len() <= most, "{} probes at once, and {most} are allowed", self.probes.len());
        }
        if permit.ramped {
            self.starts.push_back(now);
            while self.starts.front().is_some_and(|first| first.until(now) >= Duration::from_secs(1)) {
                self.starts.pop_front();
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates here are small")]
            let most = policy.drain.max_per_sec.ceil() as usize + 1;
            assert!(self.starts.len() <= most, "{} started in a second, and {most} may", self.starts.len());
        }
    }

    /// A probe's lease was renewed. One that has run out is not revived, though its job's lease may still run.
    pub(crate) fn renewed(&mut self, pass: &Pass, policy: &Policy, now: Timestamp) {
        for probe in self.probes.iter_mut().filter(|probe| probe.id == pass.place.id.0 && probe.leased_until > now) {
            probe.leased_until = now + policy.circuit.probe_lease;
        }
    }

    /// An attempt was settled: nobody waits for it any more, and what it was told holds for everybody.
    pub(crate) fn settled(&mut self, pass: &Pass, verdict: Option<&Verdict>, policy: &Policy) {
        self.probes.retain(|probe| probe.id != pass.place.id.0);
        let Some(hint) = verdict.and_then(|verdict| verdict.hint.as_ref()) else { return };
        if policy.retry.honor_retry_after {
            self.asked_to_wait_until = self.asked_to_wait_until.max(Some(hint.until));
        }
    }

    /// The engine stated something.
    pub(crate) fn stated(&mut self, events: &[EventRecord]) {
        for event in events {
            self.generation = self.generation.max(event.generation);
            match event.event.as_str() {
                "tripped" => {
                    let until = event.details.get("open_until_ms").and_then(serde_json::Value::as_i64);
                    self.open_until = until.map(Timestamp::from_millis);
                }
                "recovered" | "reset" => self.open_until = None,
                _ => {}
            }
        }
    }
}
