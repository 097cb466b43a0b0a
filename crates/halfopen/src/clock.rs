//! Reads the steady clock that all processes of one boot share, and the wall clock beside it.

use halfopen_core::time::{ReadAt, Timestamp};

/// Where `now` comes from.
#[derive(Clone, Debug)]
pub struct Clock {
    anchor_ms: i64,
}

impl Clock {
    /// Returns the clock of this boot: `anchor_ms` is what the store keeps, the wall clock minus the time since boot.
    #[must_use]
    pub fn new(anchor_ms: i64) -> Self {
        Self { anchor_ms }
    }

    /// Returns the steady instant.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let _ = self.anchor_ms;
        unimplemented!()
    }

    /// Returns both clocks and the local zone.
    #[must_use]
    pub fn read(&self) -> ReadAt {
        unimplemented!()
    }
}
