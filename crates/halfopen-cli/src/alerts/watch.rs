//! Looks at the figures of all runs for what no single event says: silence, and failures that no rule knows.
//!
//! The figures are the lines that every run leaves beside the store. `serve` looks each minute, `status` and `alerts list`
//! each time, a run where its own failure was unclassified.

use std::time::Duration;

use halfopen::activation::{self, Summary};
use halfopen::config::Config;
use halfopen::handle::Handle;
use halfopen::store::Location;
use halfopen_core::policy::Surface;
use halfopen_core::snapshot::AlertRecord;
use halfopen_core::time::ReadAt;
use serde_json::{Map, json};

/// How far back failures that no rule knows are compared, half against half.
const RISING_OVER: Duration = Duration::from_secs(2 * 3600);

/// So many in the later half may be chance.
const RISING_MIN: u64 = 3;

/// Takes note of which dependencies are silent, and where failures that no rule knows are rising. What cannot be read or
/// written now is found by the next.
pub fn figures(handle: &Handle, config: &Config, store: &Location) {
    if config.owners.is_empty() {
        return;
    }
    let wall_ms = handle.clock().read().wall_ms;
    let lately = activation::read(store, wall_ms.saturating_sub(millis(RISING_OVER)), wall_ms);
    for name in config.dependencies.keys() {
        let policy = config.dependency(name, Surface::Run).policy;
        if let Ok(lately) = &lately {
            let rising = lately.dependencies.get(name).filter(|summary| is_rising(summary)).map(|summary| {
                let [earlier, later] = &summary.halves;
                let mut found = Map::new();
                found.insert("unclassified".to_owned(), json!(later.unclassified));
                found.insert("before".to_owned(), json!(earlier.unclassified));
                let lines: Vec<&String> = summary.unclassified_lines.keys().take(3).collect();
                found.insert("lines".to_owned(), json!(lines));
                found
            });
            // It ends by itself, a day later at most: a quiet hour says nothing about the rules.
            if rising.is_some() {
                let _ = handle.note_condition(name, &policy, "unclassified_rising", rising);
            }
        }
        let Some(every) = policy.expect_calls_every else { continue };
        let since = wall_ms.saturating_sub(millis(every));
        // A store that is younger than the silence knows nothing about it.
        if activation::born_ms(store).is_none_or(|born| born > since) {
            continue;
        }
        let Ok(report) = activation::read(store, since, wall_ms) else { continue };
        let silent = report.dependencies.get(name).is_none_or(|summary| summary.figures.calls == 0);
        let found = silent.then(|| {
            let mut found = Map::new();
            found.insert("expected_every_sec".to_owned(), json!(every.as_secs()));
            found
        });
        let _ = handle.note_condition(name, &policy, "silent", found);
    }
}

/// Returns how many calls of the alert's dependency were refused since its incident began.
pub(super) fn calls_spared(store: &Location, alert: &AlertRecord, clocks: &ReadAt) -> Option<u64> {
    let began_ms = alert.began_at_ms.saturating_sub(clocks.now.as_millis()).saturating_add(clocks.wall_ms);
    let report = activation::read(store, began_ms, clocks.wall_ms).ok()?;
    Some(report.dependencies.get(&alert.event.dependency).map_or(0, |summary| summary.figures.refused))
}

/// By share of the calls, so that a busy night alone is no rise.
fn is_rising(summary: &Summary) -> bool {
    let [earlier, later] = &summary.halves;
    let share_grew = u128::from(later.unclassified) * u128::from(earlier.calls.max(1))
        > u128::from(earlier.unclassified) * u128::from(later.calls.max(1));
    later.unclassified >= RISING_MIN && later.unclassified > earlier.unclassified && share_grew
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
