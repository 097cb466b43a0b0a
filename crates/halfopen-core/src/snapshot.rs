//! Turns circuits and events into the form that is stored, and back.

use crate::circuit::Circuit;
use crate::event::Event;

/// Why a stored circuit could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// It was written by a newer version of halfopen.
    #[error("stored circuit has form {found}, this version reads up to {known}")]
    Newer {
        /// Its form.
        found: u32,
        /// The newest form this version knows.
        known: u32,
    },
    /// It is not what we write.
    #[error("stored circuit cannot be read: {0}")]
    Malformed(String),
}

/// Returns the stored form of a circuit: one JSON object with its form's number.
#[must_use]
pub fn encode(_circuit: &Circuit) -> String {
    unimplemented!()
}

/// Reads a stored circuit.
///
/// # Errors
///
/// [`SnapshotError::Newer`] if a newer version wrote it, [`SnapshotError::Malformed`] if nobody of ours did.
pub fn decode(_text: &str) -> Result<Circuit, SnapshotError> {
    unimplemented!()
}

/// The stored and printed form of an event: the six fields every transition has, and the rest as details.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct EventRecord {
    /// Milliseconds since the unix epoch, steady clock.
    pub at_ms: i64,
    /// What happened, as a word (`tripped`, `half_opened`, `recovered`, `throttled`, …).
    pub event: String,
    /// The dependency.
    pub dependency: String,
    /// The partition, as `key=value`.
    pub partition: Option<String>,
    /// The state before.
    pub from_state: String,
    /// The state after.
    pub to_state: String,
    /// The generation after.
    pub generation: u64,
    /// Why.
    pub reason: Option<String>,
    /// Jobs that wait, if that is known.
    pub queued_count: Option<u64>,
    /// How the probe ended, if one did.
    pub probe_result: Option<String>,
    /// Whatever else the event says.
    #[serde(default)]
    pub details: serde_json::Map<String, serde_json::Value>,
}

/// Returns the stored form of an event of the circuit `dependency@partition`.
#[must_use]
pub fn record(_event: &Event, _dependency: &str, _partition: Option<&str>, _queued: Option<u64>) -> EventRecord {
    unimplemented!()
}
