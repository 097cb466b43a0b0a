//! The place where a call is stored for later.
//!
//! The durable queue is not in this version. Whoever builds it answers here: a call that was kept gets its 202, one that
//! cannot be kept says why, and the next action of `on_open` has its turn.

use std::convert::Infallible;

use halfopen_core::policy::OnOpenAction;

/// Why a call was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) struct NotKept(OnOpenAction);

impl NotKept {
    /// Returns it as a sentence of an answer.
    pub(in crate::serve) fn sentence(self) -> String {
        format!("`{}` is not in this version, so nothing was kept.", self.0.as_str())
    }
}

/// Stores a call for later, or for a person.
///
/// # Errors
///
/// Why it is not stored.
pub(in crate::serve) fn keep(action: OnOpenAction) -> Result<Infallible, NotKept> {
    Err(NotKept(action))
}
