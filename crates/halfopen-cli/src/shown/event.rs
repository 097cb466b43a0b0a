//! Shows one journal entry.

use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;
use serde_json::{Value, json};

use super::When;

/// Returns an event as JSON: the six fields that every transition has, null where nothing is known, and the rest.
pub(crate) fn event_json(event: &EventRecord, when: &When) -> Value {
    json!({
        "at": when.rfc3339(Timestamp::from_millis(event.at_ms)),
        "event": event.event,
        "circuit": circuit_of(event),
        "dependency": event.dependency,
        "partition": event.partition,
        "from_state": event.from_state,
        "to_state": event.to_state,
        "generation": event.generation,
        "reason": event.reason,
        "queued_count": event.queued_count,
        "probe_result": event.probe_result,
        "details": event.details,
    })
}

/// Returns the name of the circuit that an event is about.
pub(crate) fn circuit_of(event: &EventRecord) -> String {
    match &event.partition {
        Some(partition) => format!("{}@{partition}", event.dependency),
        None => event.dependency.clone(),
    }
}
