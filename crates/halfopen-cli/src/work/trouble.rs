//! Keeps a worker from asking a store that fails again and again, and from saying so each time.
//!
//! A full disk is not better in a second, and everything that writes makes it worse: then half a minute passes between
//! two tries. Everything else is tried sooner. Each kind of trouble is said once until it is over.

use std::time::Duration;

use halfopen::store::StoreError;

use crate::ui;

/// The first pause.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The pause while the disk is full.
const PAUSE_FULL: Duration = Duration::from_secs(30);

/// How it goes with the store, for one line.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    in_a_row: u32,
    said: Option<String>,
}

impl Trouble {
    /// Notes that the store failed; returns how long it is left alone.
    pub(super) fn met(&mut self, dependency: &str, error: &StoreError) -> Duration {
        self.in_a_row = self.in_a_row.saturating_add(1);
        let full = matches!(error, StoreError::Full { .. });
        let word = if full { "the disk is full" } else { "the store cannot be used" };
        if self.said.as_deref() != Some(word) {
            ui::warn(&format!("{dependency}: {word}, so no job is claimed until that is over: {error}"));
            self.said = Some(word.to_owned());
        }
        if full {
            return PAUSE_FULL.mul_f64(1.0 + fastrand::f64() / 4.0);
        }
        let pause = PAUSE.saturating_mul(1_u32.checked_shl(self.in_a_row - 1).unwrap_or(u32::MAX)).min(PAUSE_MAX);
        pause.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Notes a fault of our own, which is said once while it stays the same.
    pub(super) fn fault(&mut self, dependency: &str, fault: &str) {
        if self.said.as_deref() != Some(fault) {
            ui::warn(&format!("{dependency}: {fault}; its jobs wait until that is repaired"));
            self.said = Some(fault.to_owned());
        }
    }

    /// Notes that it goes well.
    pub(super) fn over(&mut self, dependency: &str) {
        if self.said.take().is_some() {
            ui::say(&format!("{dependency}: jobs are claimed again"));
        }
        self.in_a_row = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> StoreError {
        StoreError::Full { path: "/store".into(), cause: "disk I/O error".to_owned() }
    }

    /// S162
    #[test]
    fn a_full_disk_is_left_alone_for_half_a_minute() {
        let mut trouble = Trouble::default();
        for _ in 0..5 {
            assert!(trouble.met("ocr", &full()) >= PAUSE_FULL);
        }
        assert_eq!(trouble.said.as_deref(), Some("the disk is full"));
        trouble.over("ocr");
        assert_eq!((trouble.said, trouble.in_a_row), (None, 0));
    }

    #[test]
    fn a_store_that_is_busy_is_asked_again_soon_and_then_later() {
        let mut trouble = Trouble::default();
        let busy = StoreError::Lost("busy".to_owned());
        assert!(trouble.met("ocr", &busy) <= PAUSE);
        for _ in 0..40 {
            assert!(trouble.met("ocr", &busy) <= PAUSE_MAX);
        }
        assert!(trouble.met("ocr", &busy) >= PAUSE_MAX / 2);
    }
}
