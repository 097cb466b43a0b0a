//! Shortens a policy for a drill: durations are divided, counts and rates stay.
//!
//! No duration becomes so short that the machine decides what happens and not the policy: each has a floor, which is
//! never above what the policy itself says. The floors keep to each other as the values of a policy do: a window holds
//! several timeouts, a deadline too. Rates (`drain`) stay as they are, in starts per second of the clock, so that a pace
//! can be seen from outside; so do the constants that no policy sets.

use std::time::Duration;

use halfopen::config::{self, Wiring};
use halfopen_core::job;
use halfopen_core::policy::{OnOpenAction, Policy};

use super::super::dependency::Dependency;

/// How long an attempt may take where the policy says nothing.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Jobs of one drill at most, and bytes of them, and of kept answers.
const JOBS_MAX: u64 = 10_000;
const BYTES_MAX: u64 = 64 << 20;
const CACHE_BYTES_MAX: u64 = 1 << 20;
/// How long ended jobs are kept at least; they are forgotten with the drill.
const KEEP: Duration = Duration::from_secs(900);

/// Returns the shadow of a dependency: its policy under another name, shortened, in front of `upstream`.
pub(super) fn shortened(rehearsed: &Dependency, name: &str, upstream: &str, by: f64) -> config::Dependency {
    let real = &rehearsed.policy;
    let less = |whole: Duration, floor_ms: u64| {
        let floor = Duration::from_millis(floor_ms).min(whole);
        let shorter = whole.div_f64(by.max(1.0)).max(floor);
        // Instants are whole milliseconds; what is written for people then says what is done.
        let whole_ms = u64::try_from(shorter.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        Duration::from_millis(whole_ms).min(whole)
    };
    let mut policy = Policy::clone(real);
    policy.dependency = name.to_owned();
    // By the host of the stand-in another pack would be chosen.
    policy.profile = Some(rehearsed.classifier.profile().to_owned());
    policy.timeout = Some(less(real.timeout.unwrap_or(TIMEOUT), 1000));
    policy.first_byte = real.first_byte.map(|first| less(first, 800));
    policy.idle = real.idle.map(|idle| less(idle, 800));
    policy.retry.backoff.base = less(real.retry.backoff.base, 10);
    policy.retry.backoff.max = less(real.retry.backoff.max, 100);
    policy.retry.max_wait = less(real.retry.max_wait, 2000);
    policy.retry.deadline = real.retry.deadline.map(|deadline| less(deadline, 4000));
    policy.circuit.window = less(real.circuit.window, 5000);
    policy.circuit.open_for = less(real.circuit.open_for, 500);
    policy.circuit.max_open_for = less(real.circuit.max_open_for, 500).max(policy.circuit.open_for);
    policy.circuit.probe_lease = less(real.circuit.probe_lease, 2000);
    policy.circuit.lease = less(real.circuit.lease, 2000);
    policy.on_open.wait = less(real.on_open.wait, 0);
    policy.on_open.queue_ttl = Some(less(job::ttl(real), 5000));
    policy.on_open.actions.retain(|action| *action != OnOpenAction::Fallback);
    if policy.on_open.actions.is_empty() {
        policy.on_open.actions.push(OnOpenAction::FailFast);
    }
    policy.rerun_within = less(real.rerun_within, 0);
    policy.hint_ceiling = less(real.hint_ceiling, 10_000);
    policy.owner = None;
    policy.runbook = None;
    policy.expect_calls_every = None;
    policy.probe = None;
    let wiring = Wiring {
        upstream: Some(upstream.to_owned()),
        credentials: Vec::new(),
        fallback: None,
        cache: rehearsed.wiring.cache.map(|cache| config::Cache {
            max_age: less(cache.max_age, 1000),
            bytes_max: cache.bytes_max.min(CACHE_BYTES_MAX),
        }),
        order_by: rehearsed.wiring.order_by.clone(),
        idempotency: rehearsed.wiring.idempotency.clone(),
        queue: config::QueueBounds {
            jobs_max: rehearsed.wiring.queue.jobs_max.min(JOBS_MAX),
            bytes_max: rehearsed.wiring.queue.bytes_max.min(BYTES_MAX),
            keep_done: rehearsed.wiring.queue.keep_done.min(KEEP),
        },
        on_done: Vec::new(),
    };
    config::Dependency { policy, wiring, classify: rehearsed.classify.clone() }
}
