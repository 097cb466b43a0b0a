//! Keeps alerts and incidents in a SQLite file, and what programs are told of jobs.

use std::collections::BTreeMap;

use halfopen_core::snapshot::{IncidentRecord, PostRecord};
use halfopen_core::time::Timestamp;
use rusqlite::{OptionalExtension, Params, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::StoreError;
use super::super::alerts::{DONE_MAX, KEEP_DONE, NoticeFigures, OPEN_MAX};
use super::{Draft, Sqlite};

impl Sqlite {
    pub(in crate::store) fn has_due_alerts(&self, now: Timestamp) -> Result<bool, StoreError> {
        self.read(|conn| {
            let sql = "SELECT 1 FROM alerts WHERE dependency IS NULL AND due_at_ms <= ?1 \
                       UNION ALL SELECT 1 FROM incidents WHERE wake_at_ms <= ?1 LIMIT 1";
            conn.prepare_cached(sql)?.exists([now.as_millis()])
        })
    }

    pub(in crate::store) fn alerts_waiting(&self) -> Result<u64, StoreError> {
        self.read(|conn| {
            let sql = "SELECT count(*) FROM alerts WHERE dependency IS NULL AND due_at_ms IS NOT NULL";
            conn.prepare_cached(sql)?.query_row([], |row| row.get(0))
        })
    }

    pub(in crate::store) fn has_due_notices(&self, dependency: &str, now: Timestamp) -> Result<bool, StoreError> {
        self.read(|conn| {
            let sql = "SELECT 1 FROM alerts WHERE dependency = ?1 AND due_at_ms <= ?2 LIMIT 1";
            conn.prepare_cached(sql)?.exists(params![dependency, now.as_millis()])
        })
    }
}

impl Draft<'_> {
    pub(in crate::store) fn incident(&self, name: &str) -> Result<Option<IncidentRecord>, StoreError> {
        Ok(self.forms("SELECT form FROM incidents WHERE name = ?1", [name])?.pop())
    }

    pub(in crate::store) fn set_incident(
        &self,
        name: &str,
        incident: Option<&IncidentRecord>,
    ) -> Result<(), StoreError> {
        match incident {
            Some(incident) => self.execute(
                "INSERT INTO incidents (name, wake_at_ms, form) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (name) DO UPDATE SET wake_at_ms = excluded.wake_at_ms, form = excluded.form",
                params![name, incident.wake_at_ms, self.form(incident)?],
            ),
            None => self.execute("DELETE FROM incidents WHERE name = ?1", [name]),
        }
    }

    pub(in crate::store) fn woken_incidents(
        &self,
        now: Timestamp,
        max: usize,
    ) -> Result<Vec<(String, IncidentRecord)>, StoreError> {
        let sql = "SELECT name FROM incidents WHERE wake_at_ms <= ?1 ORDER BY wake_at_ms LIMIT ?2";
        let names: Vec<String> = self
            .tx
            .prepare_cached(sql)
            .and_then(|mut query| query.query_map(params![now.as_millis(), whole(max)], |row| row.get(0))?.collect())
            .map_err(|cause| self.failure.of(cause))?;
        let mut woken = Vec::with_capacity(names.len());
        for name in names {
            woken.extend(self.incident(&name)?.map(|incident| (name, incident)));
        }
        Ok(woken)
    }

    pub(in crate::store) fn add_post(&self, post: &PostRecord, now: Timestamp) -> Result<Option<usize>, StoreError> {
        let known = self
            .tx
            .prepare_cached("SELECT 1 FROM alerts WHERE id = ?1")
            .and_then(|mut query| query.query_row([&post.alert.id], |_| Ok(())).optional())
            .map_err(|cause| self.failure.of(cause))?;
        if known.is_some() {
            return Ok(None);
        }
        self.execute(
            "INSERT INTO alerts (id, at_ms, due_at_ms, form) VALUES (?1, ?2, ?3, ?4)",
            params![post.alert.id, post.alert.at_ms, now.as_millis(), self.form(post)?],
        )?;
        self.execute("DELETE FROM alerts WHERE due_at_ms IS NULL AND at_ms < ?1", [(now - KEEP_DONE).as_millis()])?;
        let sql = "DELETE FROM alerts WHERE seq IN \
                   (SELECT seq FROM alerts WHERE dependency IS NULL AND due_at_ms IS NOT NULL \
                   ORDER BY seq DESC LIMIT -1 OFFSET ?1)";
        let dropped = self
            .tx
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([whole(OPEN_MAX)]))
            .map_err(|cause| self.failure.of(cause))?;
        self.execute(
            "DELETE FROM alerts WHERE seq IN \
             (SELECT seq FROM alerts WHERE due_at_ms IS NULL ORDER BY seq DESC LIMIT -1 OFFSET ?1)",
            [whole(DONE_MAX)],
        )?;
        Ok(Some(dropped))
    }

    /// Adds what programs are told of a job; returns its number.
    pub(in crate::store) fn add_notice(
        &self,
        dependency: &str,
        post: &PostRecord,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.execute(
            "INSERT INTO alerts (id, at_ms, due_at_ms, dependency, form) VALUES (?1, ?2, ?3, ?4, ?5) \
             ON CONFLICT (id) DO NOTHING",
            params![post.alert.id, post.alert.at_ms, now.as_millis(), dependency, self.form(post)?],
        )?;
        Ok(u64::try_from(self.tx.last_insert_rowid()).unwrap_or(0))
    }

    /// Drops what is older than `old` and the oldest beyond `most`; returns how many those are.
    pub(in crate::store) fn drop_notices(
        &self,
        dependency: &str,
        old: Timestamp,
        most: usize,
    ) -> Result<u64, StoreError> {
        self.execute(
            "DELETE FROM alerts WHERE dependency = ?1 AND due_at_ms IS NOT NULL AND at_ms < ?2",
            params![dependency, old.as_millis()],
        )?;
        let too_old = self.tx.changes();
        self.execute(
            "DELETE FROM alerts WHERE seq IN \
             (SELECT seq FROM alerts WHERE dependency = ?1 AND due_at_ms IS NOT NULL \
             ORDER BY seq DESC LIMIT -1 OFFSET ?2)",
            params![dependency, whole(most)],
        )?;
        Ok(too_old + self.tx.changes())
    }

    pub(in crate::store) fn due_notices(
        &self,
        dependency: &str,
        now: Timestamp,
        max: usize,
    ) -> Result<Vec<PostRecord>, StoreError> {
        let sql = "SELECT form FROM alerts WHERE dependency = ?1 AND due_at_ms <= ?2 ORDER BY due_at_ms, seq LIMIT ?3";
        self.forms(sql, params![dependency, now.as_millis(), whole(max)])
    }

    pub(in crate::store) fn remove_post(&self, id: &str) -> Result<(), StoreError> {
        self.execute("DELETE FROM alerts WHERE id = ?1", [id])
    }

    pub(in crate::store) fn count_notices(&self, dependency: &str, more: NoticeFigures) -> Result<(), StoreError> {
        self.execute(
            "INSERT INTO on_done_figures (dependency, told, given_up, dropped) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT (dependency) DO UPDATE SET told = told + excluded.told, \
             given_up = given_up + excluded.given_up, dropped = dropped + excluded.dropped",
            params![dependency, more.told, more.given_up, more.dropped],
        )
    }

    pub(in crate::store) fn notice_figures(&self) -> Result<BTreeMap<String, NoticeFigures>, StoreError> {
        let counted = "SELECT dependency, 0, told, given_up, dropped FROM on_done_figures";
        let waiting = "SELECT dependency, count(*), 0, 0, 0 FROM alerts \
                       WHERE dependency IS NOT NULL AND due_at_ms IS NOT NULL GROUP BY dependency";
        let mut figures: BTreeMap<String, NoticeFigures> = BTreeMap::new();
        for sql in [counted, waiting] {
            let rows: Vec<(String, [u64; 4])> = self
                .tx
                .prepare_cached(sql)
                .and_then(|mut query| {
                    let read = |row: &Row<'_>| Ok((row.get(0)?, [row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?]));
                    query.query_map([], read)?.collect()
                })
                .map_err(|cause| self.failure.of(cause))?;
            for (dependency, [waiting, told, given_up, dropped]) in rows {
                let of = figures.entry(dependency).or_default();
                of.waiting += waiting;
                of.told += told;
                of.given_up += given_up;
                of.dropped += dropped;
            }
        }
        Ok(figures)
    }

    pub(in crate::store) fn post(&self, id: &str) -> Result<Option<PostRecord>, StoreError> {
        Ok(self.forms("SELECT form FROM alerts WHERE id = ?1", [id])?.pop())
    }

    pub(in crate::store) fn save_post(&self, post: &PostRecord, due_at: Option<Timestamp>) -> Result<(), StoreError> {
        self.execute(
            "UPDATE alerts SET due_at_ms = ?2, form = ?3 WHERE id = ?1",
            params![post.alert.id, due_at.map(Timestamp::as_millis), self.form(post)?],
        )
    }

    pub(in crate::store) fn open_posts(&self, now: Timestamp) -> Result<Vec<(bool, PostRecord)>, StoreError> {
        let sql = "SELECT due_at_ms, form FROM alerts WHERE dependency IS NULL AND due_at_ms IS NOT NULL \
                   ORDER BY seq LIMIT ?1";
        let rows: Vec<(i64, String)> = self
            .tx
            .prepare_cached(sql)
            .and_then(|mut query| query.query_map([whole(OPEN_MAX)], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
            .map_err(|cause| self.failure.of(cause))?;
        rows.iter().map(|(due, form)| Ok((*due <= now.as_millis(), self.parsed(form)?))).collect()
    }

    pub(in crate::store) fn posts(&self, max: usize) -> Result<Vec<PostRecord>, StoreError> {
        let mut newest =
            self.forms("SELECT form FROM alerts WHERE dependency IS NULL ORDER BY seq DESC LIMIT ?1", [whole(max)])?;
        newest.reverse();
        Ok(newest)
    }

    /// A deadline of another boot may lie anywhere: what is due is due at once, and no wake lies further ahead than one
    /// can be set.
    pub(super) fn alerts_after_reboot(&self, now: Timestamp) -> Result<(), StoreError> {
        self.execute("UPDATE alerts SET due_at_ms = ?1 WHERE due_at_ms > ?1", [now.as_millis()])?;
        let latest = now + std::time::Duration::from_millis(halfopen_core::alert::wake_ms_max());
        self.execute("UPDATE incidents SET wake_at_ms = ?1 WHERE wake_at_ms > ?1", [latest.as_millis()])
    }

    fn forms<T: DeserializeOwned>(&self, sql: &str, values: impl Params) -> Result<Vec<T>, StoreError> {
        let forms: Vec<String> = self
            .tx
            .prepare_cached(sql)
            .and_then(|mut query| query.query_map(values, |row| row.get(0))?.collect())
            .map_err(|cause| self.failure.of(cause))?;
        forms.iter().map(|form| self.parsed(form)).collect()
    }

    fn parsed<T: DeserializeOwned>(&self, form: &str) -> Result<T, StoreError> {
        serde_json::from_str(form).map_err(|cause| StoreError::Corrupt {
            path: self.failure.path.to_owned(),
            cause: format!("an alert cannot be read: {cause}"),
        })
    }

    fn form(&self, value: &impl Serialize) -> Result<String, StoreError> {
        serde_json::to_string(value).map_err(|cause| StoreError::Unusable {
            path: self.failure.path.to_owned(),
            cause: format!("an alert cannot be written: {cause}"),
        })
    }
}

fn whole(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
