//! Carries out what a transaction's closure asks for, on the open transaction.

use halfopen_core::circuit::Circuit;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::snapshot::{self, EventRecord};
use halfopen_core::time::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

use super::super::{JOURNAL_ROWS_MAX, PRUNE_STEP, StoreError, Stored, is_transition};
use super::jobs::Lanes;
use super::{Failure, decode, kept_anchor, raw_row, stored};
use crate::clock::{Boot, Clock};

/// What a transaction works on.
#[derive(Debug)]
pub(in crate::store) struct Draft<'a> {
    pub(super) tx: &'a Transaction<'a>,
    pub(super) failure: Failure<'a>,
    pub(super) lanes: Lanes,
}

impl<'a> Draft<'a> {
    pub(super) fn new(tx: &'a Transaction<'a>, failure: Failure<'a>) -> Self {
        Self { tx, failure, lanes: Lanes::default() }
    }

    pub(in crate::store) fn load(&self, id: &CircuitId) -> Result<Option<Circuit>, StoreError> {
        let name = id.to_string();
        let form: Option<String> = self
            .tx
            .prepare_cached("SELECT form FROM circuits WHERE id = ?1")
            .and_then(|mut query| query.query_row([&name], |row| row.get(0)).optional())
            .map_err(|cause| self.failure.of(cause))?;
        form.map(|form| decode(&name, &form)).transpose()
    }

    pub(in crate::store) fn all(&self) -> Result<Vec<Stored>, StoreError> {
        self.range("", "\u{10FFFF}")
    }

    pub(in crate::store) fn partitions(&self, dependency: &str) -> Result<Vec<Stored>, StoreError> {
        // `A` follows `@` in the order of bytes, which is the order of the key.
        self.range(&format!("{dependency}@"), &format!("{dependency}A"))
    }

    fn range(&self, from: &str, to: &str) -> Result<Vec<Stored>, StoreError> {
        let rows = self
            .tx
            .prepare_cached("SELECT id, form, updated_at_ms FROM circuits WHERE id >= ?1 AND id < ?2 ORDER BY id")
            .and_then(|mut query| query.query_map([from, to], raw_row)?.collect::<rusqlite::Result<Vec<_>>>())
            .map_err(|cause| self.failure.of(cause))?;
        rows.into_iter()
            .map(|(id, form, updated_at_ms)| stored(&id, decode(&id, &form)?, updated_at_ms, self.failure))
            .collect()
    }

    pub(in crate::store) fn touch(&self) -> Result<(), StoreError> {
        // SQLite writes no page whose bytes are what they were; one that was changed and changed back it does.
        self.execute("UPDATE boot SET boot_id = boot_id || ' '", [])?;
        self.execute("UPDATE boot SET boot_id = substr(boot_id, 1, length(boot_id) - 1)", [])
    }

    pub(in crate::store) fn save(
        &self,
        id: &CircuitId,
        circuit: &Circuit,
        wake_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.execute(
            "INSERT INTO circuits (id, wake_at_ms, updated_at_ms, form) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT (id) DO UPDATE SET wake_at_ms = excluded.wake_at_ms, \
             updated_at_ms = excluded.updated_at_ms, form = excluded.form",
            params![id.to_string(), wake_at.map(Timestamp::as_millis), now.as_millis(), snapshot::encode(circuit)],
        )
    }

    pub(in crate::store) fn remove(&self, id: &CircuitId) -> Result<(), StoreError> {
        self.execute("DELETE FROM circuits WHERE id = ?1", [id.to_string()])
    }

    pub(in crate::store) fn append(&self, event: &EventRecord) -> Result<(), StoreError> {
        let body = serde_json::to_string(event).map_err(|cause| StoreError::Unusable {
            path: self.failure.path.to_owned(),
            cause: format!("an event cannot be written: {cause}"),
        })?;
        self.execute(
            "INSERT INTO events (at_ms, dependency, transition, body) VALUES (?1, ?2, ?3, ?4)",
            params![event.at_ms, event.dependency, is_transition(event), body],
        )
    }

    pub(in crate::store) fn prune(&self, dependency: &str, before: Timestamp) -> Result<(), StoreError> {
        self.execute(
            "DELETE FROM events WHERE seq IN \
             (SELECT seq FROM events WHERE dependency = ?1 AND at_ms < ?2 ORDER BY at_ms LIMIT ?3)",
            params![dependency, before.as_millis(), PRUNE_STEP],
        )?;
        // Ends of the key, not a count: numbers have gaps, so this keeps at most that many.
        self.execute(
            "DELETE FROM events WHERE seq IN \
             (SELECT seq FROM events WHERE seq <= (SELECT max(seq) FROM events) - ?1 ORDER BY seq LIMIT ?2)",
            params![JOURNAL_ROWS_MAX, PRUNE_STEP],
        )
    }

    /// Writes this boot's anchor and lets every circuit cut what no longer fits, unless another process was first.
    pub(super) fn begin_boot(&mut self, boot: &Boot, clock: &Clock) -> Result<(), StoreError> {
        if let Some(anchor_ms) = kept_anchor(self.tx, boot).map_err(|cause| self.failure.of(cause))? {
            clock.adopt(anchor_ms);
            return Ok(());
        }
        clock.adopt(boot.anchor_ms);
        self.execute(
            "INSERT INTO boot (one, boot_id, anchor_ms) VALUES (1, ?1, ?2) \
             ON CONFLICT (one) DO UPDATE SET boot_id = excluded.boot_id, anchor_ms = excluded.anchor_ms",
            params![boot.id, boot.anchor_ms],
        )?;
        let now = clock.now();
        for Stored { id, mut circuit, .. } in self.all()? {
            circuit.after_reboot(now);
            // Its wake has moved with its deadlines, and only its policy says where to: let a sweep look at it.
            self.save(&id, &circuit, Some(now), now)?;
        }
        self.jobs_after_reboot(now)?;
        self.alerts_after_reboot(now)
    }

    pub(super) fn execute(&self, sql: &str, values: impl rusqlite::Params) -> Result<(), StoreError> {
        self.tx
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(values))
            .map(|_| ())
            .map_err(|cause| self.failure.of(cause))
    }
}
