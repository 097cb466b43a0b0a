//! What is done with a call that the dependency cannot do now.

pub(super) mod cache;
