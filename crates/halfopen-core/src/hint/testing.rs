//! What the tests of this module share: one moment, and short ways to ask.

use super::{HintInput, PackHints, Surroundings, read};
use crate::time::{ReadAt, Timestamp};
use crate::verdict::{Class, Hint};

/// Noon of Monday 2 March 2026, UTC.
pub(super) const NOON_MS: i64 = 1_772_452_800_000;

/// Returns the reading of that moment, in UTC.
pub(super) fn noon() -> ReadAt {
    ReadAt::utc(Timestamp::from_millis(NOON_MS))
}

/// Reads headers of a 429 at noon.
pub(super) fn headers(pairs: &[(&str, &str)]) -> Option<Hint> {
    failure(Class::RateLimited, pairs, &noon())
}

/// Reads headers of a failure.
pub(super) fn failure(class: Class, pairs: &[(&str, &str)], at: &ReadAt) -> Option<Hint> {
    let pack = PackHints::default();
    let input = HintInput { class, headers: pairs, json: &[], texts: &[], kind: Surroundings::Http, pack: &pack };
    read(&input, at)
}
