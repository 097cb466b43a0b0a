//! Turns circuits, events, jobs and alerts into the form that is stored, and back.
//!
//! A stored circuit is one JSON object with the number of its form. The stored types are written here and nowhere
//! derived from the core's, so that a renamed field inside cannot change what old files mean; the golden files beside
//! the tests hold one object of every form ever written. What is at its default is left out: most circuits are closed
//! and have nothing to say, and every `halfopen run` reads its circuits before it does anything else.
//!
//! Reading is strict where a wrong value would be dangerous (an unknown state, class or reason) and lenient where it
//! would not (unknown fields are ignored, failures are sorted). A circuit written by a newer form is refused with the
//! two numbers, never half understood.

mod alert;
mod record;
mod stored;
mod job;
mod request;

use crate::circuit::Circuit;

pub use alert::{AlertRecord, DeliveryRecord, DeliveryState, EvidenceRecord, IncidentRecord, JobEndRecord, PostRecord};
pub use job::{decode_entry, decode_job, encode_entry, encode_job};
pub use record::{EventRecord, record};
pub use request::{decode_request, decode_result, encode_request, encode_result};

/// The form that is written.
const FORM: u32 = 1;

/// Why something stored could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// It was written by a newer version of halfopen.
    #[error("what is stored has form {found}, this version reads up to {known}")]
    Newer {
        /// Its form.
        found: u32,
        /// The newest form this version knows.
        known: u32,
    },
    /// It is not what we write.
    #[error("what is stored cannot be read: {0}")]
    Malformed(String),
}

/// The part of every form that says which one it is.
#[derive(serde::Deserialize)]
struct FormOnly {
    form: u32,
}

/// Returns the stored form of a circuit: one JSON object with its form's number.
///
/// # Panics
///
/// Never: the stored form has no map keys and no numbers that JSON cannot carry.
#[must_use]
pub fn encode(circuit: &Circuit) -> String {
    serde_json::to_string(&stored::Stored::of(circuit)).expect("plain structs of numbers and strings are always JSON")
}

/// Reads a stored circuit.
///
/// # Errors
///
/// [`SnapshotError::Newer`] if a newer version wrote it, [`SnapshotError::Malformed`] if nobody of ours did.
pub fn decode(text: &str) -> Result<Circuit, SnapshotError> {
    read_form(text, |stored: &stored::Stored| stored.form, FORM)?.into_circuit()
}

/// Reads a stored form, and says which number it has if that is a newer one.
fn read_form<T: serde::de::DeserializeOwned>(
    text: &str,
    form_of: impl FnOnce(&T) -> u32,
    known: u32,
) -> Result<T, SnapshotError> {
    let read = serde_json::from_str::<T>(text);
    // A newer form may differ so much that it cannot be read as this one; its number still can.
    let form = match &read {
        Ok(stored) => form_of(stored),
        Err(_) => serde_json::from_str::<FormOnly>(text).map_err(malformed)?.form,
    };
    if form > known {
        return Err(SnapshotError::Newer { found: form, known });
    }
    if form != known {
        return Err(SnapshotError::Malformed(format!("form {form} was never written")));
    }
    read.map_err(malformed)
}

fn malformed(cause: impl std::fmt::Display) -> SnapshotError {
    SnapshotError::Malformed(cause.to_string())
}
