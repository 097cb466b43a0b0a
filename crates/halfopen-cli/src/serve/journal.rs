//! Reads the journal as it grows: each entry becomes a line of the log and is counted, whichever process wrote it.
//!
//! So the log of a gateway also tells what the runs beside it did to the circuits they share, and the counters hold what
//! no process can count for itself, such as alerts that made room for newer ones.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use halfopen::handle::Handle;
use halfopen::store::{EventFilter, StoreError};
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;
use serde_json::{Map, Value, json};

use super::gateway::Gateway;
use crate::log::{self, Level};
use crate::shown::{When, circuit_of};

/// How often is looked for what is new.
const EVERY: Duration = Duration::from_millis(250);
/// How many entries are read at once, and how many pages in a row.
const PAGE: usize = 256;
const PAGES_MAX: usize = 8;

/// The word for what is none of [`EVENTS`].
pub(super) const OTHER: &str = "other";

/// The words of the journal that are counted, each as a series of its own.
pub(super) const EVENTS: [&str; 30] = [
    "tripped",
    "half_opened",
    "recovered",
    "reset",
    "failure_counted",
    "probe_admitted",
    "probe_ended",
    "ramp_began",
    "ramp_stepped",
    "ramp_ended",
    "throttled",
    "hint_cut",
    "auth_failed",
    "hold_placed",
    "hold_ended",
    "partitions_folded",
    "jobs_failed",
    "jobs_expired",
    "jobs_will_expire",
    "jobs_to_review",
    "jobs_requeued",
    "jobs_resolved",
    "jobs_cancelled",
    "jobs_discarded",
    "unclassified_rising",
    "silent",
    "alert_given_up",
    "alert_delivered",
    "alerts_dropped",
    "on_done_dropped",
];

/// What the journal said since this process began.
#[derive(Debug, Default)]
pub(super) struct Journal {
    seen: Mutex<BTreeMap<String, [u64; EVENTS.len() + 1]>>,
    dropped: AtomicU64,
    position: Mutex<Option<i64>>,
}

impl Journal {
    /// Returns how many entries of a word there were about a dependency.
    pub(super) fn of(&self, dependency: &str, word: &str) -> u64 {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(dependency).map_or(0, |words| words[place(word)])
    }

    /// Returns how many alerts made room for newer ones.
    pub(super) fn alerts_dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn count(&self, event: &EventRecord) {
        if event.event == "alerts_dropped" {
            let alerts = event.details.get("alerts").and_then(Value::as_u64).unwrap_or(1);
            self.dropped.fetch_add(alerts, Ordering::Relaxed);
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.entry(event.dependency.clone()).or_default()[place(&event.event)] += 1;
    }

    /// Reads what is new, a bounded number of entries.
    fn catch_up(&self, handle: &Handle) -> Result<(), StoreError> {
        let mut position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        let end = handle.journal_end()?;
        // What was before us is no news; a store that was replaced begins anew.
        let mut at = position.filter(|at| *at <= end).unwrap_or(end);
        let filter = EventFilter { limit: PAGE, ..EventFilter::default() };
        for _ in 0..PAGES_MAX {
            if at >= end {
                break;
            }
            let page = handle.events_after(at, &filter)?;
            let Some(last) = page.last() else { break };
            at = last.position;
            let when = When::read(&handle.clock().read());
            for entry in &page {
                self.count(&entry.event);
                tell(&entry.event, &when);
            }
        }
        *position = Some(at);
        Ok(())
    }
}

fn place(word: &str) -> usize {
    EVENTS.iter().position(|known| *known == word).unwrap_or(EVENTS.len())
}

/// Reads the journal for as long as it is polled.
pub(super) async fn follow(gateway: Arc<Gateway>) {
    loop {
        catch_up(&gateway).await;
        tokio::time::sleep(EVERY).await;
    }
}

/// Reads what is new in the journal.
pub(super) async fn catch_up(gateway: &Arc<Gateway>) {
    let gateway = Arc::clone(gateway);
    // A store that cannot be read is said by the beat; what was missed is read when it is back.
    let _ = tokio::task::spawn_blocking(move || gateway.journal.catch_up(&gateway.door.handle)).await;
}

/// Writes an entry as a line of the log.
fn tell(event: &EventRecord, when: &When) {
    let level = level_of(&event.event);
    if !log::is_on(level) {
        return;
    }
    let at = when.rfc3339(Timestamp::from_millis(event.at_ms));
    let mut fields = vec![("event_at", json!(at)), ("circuit", json!(circuit_of(event)))];
    if event.from_state != event.to_state {
        fields.extend([("from", json!(event.from_state)), ("to", json!(event.to_state))]);
    }
    fields.extend([
        ("reason", json!(event.reason)),
        ("queued", json!(event.queued_count)),
        ("probe", json!(event.probe_result)),
    ]);
    if !event.details.is_empty() {
        fields.push(("details", Value::Object(readable(&event.details, when))));
    }
    log::line(level, &event.event, &fields);
}

/// Shows instants as people read them; the journal keeps those of the steady clock.
fn readable(details: &Map<String, Value>, when: &When) -> Map<String, Value> {
    let shown = |(name, value): (&String, &Value)| {
        let instant = name.strip_suffix("_ms").filter(|name| name.ends_with("until") || name.ends_with("_at"));
        match (instant, value.as_i64()) {
            (Some(instant), Some(ms)) => (instant.to_owned(), json!(when.rfc3339(Timestamp::from_millis(ms)))),
            (Some(_), None) | (None, _) => (name.clone(), value.clone()),
        }
    };
    details.iter().map(shown).collect()
}

/// What happens with each call is for those who look closely; what somebody should look at is a warning.
fn level_of(word: &str) -> Level {
    match word {
        "tripped"
        | "auth_failed"
        | "hint_cut"
        | "jobs_failed"
        | "jobs_expired"
        | "jobs_will_expire"
        | "jobs_to_review"
        | "unclassified_rising"
        | "silent"
        | "alert_given_up"
        | "alerts_dropped"
        | "partitions_folded" => Level::Warn,
        "failure_counted" | "probe_admitted" | "probe_ended" | "ramp_stepped" => Level::Debug,
        _ => Level::Info,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_is_counted_as_other() {
        let journal = Journal::default();
        let event = |word: &str| EventRecord {
            at_ms: 0,
            event: word.to_owned(),
            dependency: "ocr".to_owned(),
            partition: None,
            from_state: "closed".to_owned(),
            to_state: "closed".to_owned(),
            generation: 0,
            reason: None,
            queued_count: None,
            probe_result: None,
            details: serde_json::Map::new(),
        };
        journal.count(&event("tripped"));
        journal.count(&event("something_new"));
        assert_eq!((journal.of("ocr", "tripped"), journal.of("ocr", OTHER), journal.of("crm", "tripped")), (1, 1, 0));
    }
}
