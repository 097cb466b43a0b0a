//! What stands in for a dependency that cannot do a call now: the last good answer, and the place for later.
//!
//! Which of them is tried when is `call::instead`'s.

pub(super) mod cache;
pub(super) mod queue;
