//! Counts down how many jobs may still be claimed, where somebody has set a bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many jobs may still be claimed; clones share one count.
#[derive(Clone, Debug)]
pub(crate) struct Quota(Option<Arc<AtomicU64>>);

impl Quota {
    /// Returns one that is never used up.
    pub(crate) const fn boundless() -> Self {
        Self(None)
    }

    /// Returns one for so many jobs.
    pub(crate) fn of(jobs: u64) -> Self {
        Self(Some(Arc::new(AtomicU64::new(jobs))))
    }

    /// Takes one, if there is one.
    pub(super) fn take(&self) -> bool {
        let Some(left) = &self.0 else { return true };
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Gives one back that was taken for a claim that came to nothing.
    pub(super) fn give_back(&self) {
        if let Some(left) = &self.0 {
            left.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_taken_than_there_are() {
        let quota = Quota::of(2);
        let other = quota.clone();
        assert!(quota.take() && other.take() && !quota.take());
        other.give_back();
        assert!(quota.take() && !quota.take());
        assert!(Quota::boundless().take());
    }
}
