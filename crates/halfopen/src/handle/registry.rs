//! Finds the circuits of a route, and keeps their number bounded.
//!
//! A circuit has no row until something is worth remembering about it. A dependency keeps at most `max_partitions`
//! partitions: a further one takes the place of a closed, clean one, or, if none is, folds into `NAME@key=other`, and
//! says so. While a partition has no row of its own and there is an `other`, `other` judges it.

use std::time::Duration;

use halfopen_core::alert;
use halfopen_core::circuit::{Circuit, Facts};
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::event::Event;
use halfopen_core::job::{JobState, Shelf};
use halfopen_core::pair::{Pair, PairEvents};
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::{self, EventRecord};
use halfopen_core::time::Timestamp;

use super::{Route, Seen, alerts, jobs};
use crate::store::jobs::shelf_number;
use crate::store::{Store, StoreError, Txn};

/// The value of the partition that further ones fold into.
const OTHER: &str = "other";

/// How many jobs of a lane are forgiven at once at most.
const FORGIVEN_MAX: usize = 64;

/// How long an attempt is taken to last where the policy states no timeout.
const TIMEOUT_UNSTATED: Duration = Duration::from_secs(600);

/// The circuits of a route, taken out of the store under its lock.
#[derive(Debug)]
pub(super) struct Seats {
    place: Seat,
    account: Option<Seat>,
}

/// One circuit, taken out of the store under its lock.
#[derive(Debug)]
pub(super) struct Seat {
    id: CircuitId,
    kept: Option<Circuit>,
    /// As it is now.
    pub(super) circuit: Circuit,
}

/// Reads the circuits of a route without a lock.
pub(super) fn look(store: &Store, route: &Route) -> Result<Seen, StoreError> {
    let account = route.account();
    let (place_other, account_other) = (other(&route.place), account.and_then(other));
    let ids: Vec<&CircuitId> =
        [Some(&route.place), place_other.as_ref(), account, account_other.as_ref()].into_iter().flatten().collect();
    let mut found = store.load(&ids)?.into_iter();
    // In the order asked for: each name, then what it may have folded into.
    let mut next = |other: &Option<CircuitId>| {
        let own = found.next().flatten();
        let folded = if other.is_some() { found.next().flatten() } else { None };
        own.or(folded).unwrap_or_default()
    };
    Ok(Seen { place: next(&place_other), account: account.map(|_| next(&account_other)) })
}

/// Returns the name that a partition folds into.
fn other(id: &CircuitId) -> Option<CircuitId> {
    let (key, _) = id.partition()?;
    if is_other(id) { None } else { CircuitId::part(id.dependency(), key, OTHER).ok() }
}

/// Returns whether `id` is the partition that others fold into.
pub(super) fn is_other(id: &CircuitId) -> bool {
    id.partition().is_some_and(|(_, value)| value == OTHER)
}

impl Seats {
    /// Takes the circuits of a route.
    pub(super) fn take(txn: &Txn<'_>, route: &Route) -> Result<Self, StoreError> {
        let account = route.account().map(|id| Seat::take(txn, id)).transpose()?;
        Ok(Self { place: Seat::take(txn, &route.place)?, account })
    }

    /// Returns the circuits as they are now.
    pub(super) fn circuits(&self) -> impl Iterator<Item = &Circuit> {
        [Some(&self.place.circuit), self.account.as_ref().map(|seat| &seat.circuit)].into_iter().flatten()
    }

    /// Returns them as the core wants them.
    pub(super) fn pair(&mut self) -> Pair<'_> {
        Pair { place: &mut self.place.circuit, account: self.account.as_mut().map(|seat| &mut seat.circuit) }
    }

    /// Saves those that changed, with their events.
    pub(super) fn put_back(
        self,
        txn: &mut Txn<'_>,
        policy: &Policy,
        events: &PairEvents,
    ) -> Result<Vec<EventRecord>, StoreError> {
        let mut records = self.place.put_back(txn, policy, &events.place)?;
        if let Some(account) = self.account {
            records.extend(account.put_back(txn, policy, &events.account)?);
        }
        Ok(records)
    }
}

impl Seat {
    /// Takes the circuit that judges `id`: its own, or the one it folded into.
    fn take(txn: &Txn<'_>, id: &CircuitId) -> Result<Self, StoreError> {
        let own = Self::take_exactly(txn, id)?;
        if own.kept.is_none()
            && let Some(other) = other(id)
        {
            let folded = Self::take_exactly(txn, &other)?;
            if folded.kept.is_some() {
                return Ok(folded);
            }
        }
        Ok(own)
    }

    /// Takes the circuit named `id` and no other.
    pub(super) fn take_exactly(txn: &Txn<'_>, id: &CircuitId) -> Result<Self, StoreError> {
        let kept = txn.load(id)?;
        Ok(Self { id: id.clone(), circuit: kept.clone().unwrap_or_default(), kept })
    }

    /// Saves the circuit if it changed, and appends its events.
    pub(super) fn put_back(
        mut self,
        txn: &mut Txn<'_>,
        policy: &Policy,
        events: &[Event],
    ) -> Result<Vec<EventRecord>, StoreError> {
        let mut records = Vec::new();
        let changed = self.kept.as_ref().map_or_else(|| self.circuit != Circuit::new(), |kept| *kept != self.circuit);
        if changed {
            if self.kept.is_none() {
                records.extend(self.make_room(txn, policy)?);
            }
            self.save(txn, policy)?;
        }
        let partition = self.id.partition().map(|(key, value)| format!("{key}={value}"));
        let queued = match events.first() {
            Some(_) => Some(jobs::facts_of(txn, &self.id)?.jobs_queued),
            None => None,
        };
        records.extend(
            events.iter().map(|event| snapshot::record(event, self.id.dependency(), partition.as_deref(), queued)),
        );
        let heard = records.iter().any(|record| alert::incident_name(record).is_some());
        let status = heard.then(|| self.circuit.status(policy, txn.now()));
        for record in &records {
            txn.append(record)?;
            alerts::note(txn, policy, record, status.as_ref())?;
        }
        if !records.is_empty() {
            txn.prune(self.id.dependency(), txn.now() - policy.journal_keep)?;
        }
        Ok(records)
    }

    /// Saves the circuit as it is.
    pub(super) fn save(&self, txn: &mut Txn<'_>, policy: &Policy) -> Result<(), StoreError> {
        txn.save(&self.id, &self.circuit, self.circuit.next_wake(policy).map(|wake| wake.at))
    }

    /// Finds room for a circuit that has no row yet, or folds it.
    fn make_room(&mut self, txn: &mut Txn<'_>, policy: &Policy) -> Result<Option<EventRecord>, StoreError> {
        let Some(folded) = other(&self.id) else { return Ok(None) };
        let partitions = txn.partitions(self.id.dependency())?;
        let max = policy.max_partitions.get();
        if partitions.len() < max as usize {
            return Ok(None);
        }
        let now = txn.now();
        // A new record begins at generation 0: permits of the old one must not be out any more.
        let longest = policy.timeout.unwrap_or(TIMEOUT_UNSTATED);
        let clean = partitions
            .iter()
            .filter(|stored| stored.updated_at + longest <= now && is_blank(&stored.circuit, policy, now))
            .min_by_key(|stored| stored.updated_at);
        if let Some(stored) = clean {
            txn.remove(&stored.id)?;
            return Ok(None);
        }
        let mut details = serde_json::Map::new();
        details.insert("partition".to_owned(), self.id.to_string().into());
        details.insert("folded_into".to_owned(), folded.to_string().into());
        details.insert("max_partitions".to_owned(), max.into());
        self.id = folded;
        let state = self.circuit.status(policy, now).state.as_str();
        Ok(Some(EventRecord {
            at_ms: now.as_millis(),
            event: "partitions_folded".to_owned(),
            dependency: self.id.dependency().to_owned(),
            partition: self.id.partition().map(|(key, value)| format!("{key}={value}")),
            from_state: state.to_owned(),
            to_state: state.to_owned(),
            generation: self.circuit.generation(),
            reason: Some("max_partitions".to_owned()),
            queued_count: None,
            probe_result: None,
            details,
        }))
    }
}

/// Forgives jobs that failed as probes once a circuit that judges them has recovered: the incident is over.
pub(super) fn forgive_after(txn: &mut Txn<'_>, route: &Route, records: &[EventRecord]) -> Result<(), StoreError> {
    if !records.iter().any(|record| record.event == "recovered") {
        return Ok(());
    }
    let suspects = shelf_number(Shelf::Suspect, JobState::Queued);
    for lane in txn.lanes(Some(route.place.dependency()))? {
        let judged = lane.place == route.place || lane.account.as_ref() == route.account();
        if !judged {
            continue;
        }
        // One that is left over is forgiven when it is claimed.
        for row in txn.on_shelf(lane.id, suspects, FORGIVEN_MAX)? {
            let mut forgiven = row.clone();
            forgiven.job.forgive();
            txn.save_job(&row, &mut forgiven, None)?;
        }
    }
    Ok(())
}

/// Returns whether nothing would be lost if a circuit were forgotten.
pub(super) fn is_blank(circuit: &Circuit, policy: &Policy, now: Timestamp) -> bool {
    let mut circuit = circuit.clone();
    let _ = circuit.expire(policy, Facts::default(), now);
    circuit.is_blank(policy, now)
}
