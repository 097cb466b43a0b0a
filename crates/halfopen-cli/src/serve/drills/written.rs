//! Writes the policy that a shadow is under in the keys of a policy file, so that whoever drills reads the values it is
//! judged by with the reader of policy files, and a person with their eyes.
//!
//! It is written under the name of the one that is rehearsed: a drill's own name is none that a policy may use.

use std::time::Duration;

use halfopen::config::OrderBy;
use halfopen_core::policy::{Growth, Jitter, Mode, OnExpiry, Replay};
use serde_json::{Map, Value, json};

use super::super::dependency::Dependency;

/// Returns the policy of a shadow as one dependency of a policy file.
pub(in crate::serve) fn policy(shadow: &Dependency) -> Value {
    let (policy, wiring) = (&shadow.policy, &shadow.wiring);
    let (retry, circuit, on_open, drain) = (&policy.retry, &policy.circuit, &policy.on_open, &policy.drain);
    let seconds = |time: Duration| json!(time.as_secs_f64());
    let millis = |time: Duration| json!(time.as_secs_f64() * 1000.0);
    let name = shadow.drill.as_ref().map_or(shadow.name.as_str(), |drill| drill.of.as_str());
    let mut written = json!({
        "name": name,
        "profile": policy.profile,
        "upstream": wiring.upstream,
        "split_by": policy.split_by,
        "max_partitions": policy.max_partitions.get(),
        "timeout_ms": policy.timeout.map(millis),
        "first_byte_ms": policy.first_byte.map(millis),
        "idle_ms": policy.idle.map(millis),
        "retry": {
            "max_attempts": retry.max_attempts.get(),
            "backoff": match retry.backoff.growth {
                Growth::Exponential => "exponential",
                Growth::Constant => "constant",
            },
            "base_ms": millis(retry.backoff.base),
            "max_backoff_ms": millis(retry.backoff.max),
            "jitter": match retry.backoff.jitter {
                Jitter::Equal => "equal",
                Jitter::Full => "full",
                Jitter::None => "none",
            },
            "honor_retry_after": retry.honor_retry_after,
            "max_wait_sec": seconds(retry.max_wait),
            "deadline_sec": retry.deadline.map(seconds),
            "budget": { "ratio": retry.budget.ratio, "per_minute": retry.budget.per_minute },
        },
        "circuit": {
            "failure_window_sec": seconds(circuit.window),
            "open_after_failures": circuit.open_after_failures.get(),
            "open_for_sec": seconds(circuit.open_for),
            "max_open_for_sec": seconds(circuit.max_open_for),
            "cooldown_factor": circuit.cooldown_factor,
            "half_open_max_calls": circuit.half_open_max_calls.get(),
            "close_after_successes": circuit.close_after_successes.get(),
            "probe_lease_sec": seconds(circuit.probe_lease),
            "count_unclassified": circuit.count_unclassified,
        },
        "lease_sec": seconds(circuit.lease),
        "on_open": {
            "action": on_open.actions.iter().map(|action| action.as_str()).collect::<Vec<_>>(),
            "wait_sec": seconds(on_open.wait),
            "queue_ttl_min": on_open.queue_ttl.map(|ttl| json!(ttl.as_secs_f64() / 60.0)),
            "on_expiry": match on_open.on_expiry {
                OnExpiry::ManualReview => "manual_review",
                OnExpiry::Expired => "expired",
            },
            "user_message": on_open.user_message,
        },
        "drain": {
            "rate_per_sec": drain.rate_per_sec,
            "max_per_sec": drain.max_per_sec,
            "max_in_flight": drain.max_in_flight.get(),
            "max_in_flight_max": drain.max_in_flight_max.get(),
        },
        "replay": match policy.replay {
            Replay::Always => "always",
            Replay::IfIdempotent => "if_idempotent",
            Replay::Never => "never",
        },
        "mode": match policy.mode {
            Mode::Enforce => "enforce",
            Mode::Observe => "observe",
        },
        "order_by": wiring.order_by.as_ref().map(|order| match order {
            OrderBy::Path => "path".to_owned(),
            OrderBy::Nothing => "none".to_owned(),
            OrderBy::Header(name) => format!("header:{name}"),
            OrderBy::Argument(name) => format!("argument:{name}"),
        }),
        "idempotency": wiring.idempotency.as_ref().map(|key| json!({
            "header": key.header,
            "lifetime_hours": key.lifetime.map(|lifetime| lifetime.as_secs_f64() / 3600.0),
        })),
        "rerun_within_sec": seconds(policy.rerun_within),
        "hint_ceiling_hours": policy.hint_ceiling.as_secs_f64() / 3600.0,
        "classify": shadow.classify,
    });
    prune(&mut written);
    written
}

/// Takes out what says nothing: a policy file has no key without a value.
fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(prune);
            let empty = |value: &Value| match value {
                Value::Null => true,
                Value::Object(map) => map.is_empty(),
                Value::Array(list) => list.is_empty(),
                Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
            };
            let kept: Map<String, Value> = std::mem::take(map).into_iter().filter(|(_, value)| !empty(value)).collect();
            *map = kept;
        }
        Value::Array(list) => list.iter_mut().for_each(prune),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
