//! What can be seen of jobs: one, many, their figures, and whether all of it holds together.

use std::collections::{BTreeMap, BTreeSet};

use halfopen_core::job::{Entry, Job, JobId, JobKind, JobRequest, JobResult, JobState, What};
use halfopen_core::snapshot::{self, SnapshotError};
use halfopen_core::time::Timestamp;

use super::Handle;
use crate::store::jobs::{Body, JobFigures, JobFilter, JobRow, Part, Payload, Tally, shelves_of};
use crate::store::{Store, StoreError, Txn};

/// How many jobs an audit looks at in one reading.
const AUDIT_STEP: usize = 512;

/// How many jobs are looked at for one page of those with a reason or an age.
const LOOKED_AT_MAX: usize = 10_000;

/// How many findings an audit lists at most; beyond that it says how many more there are.
const FINDINGS_MAX: usize = 100;

/// How many damages of the file it lists at most.
const INTEGRITY_MAX: u32 = 20;

/// One job as it can be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    /// Its name.
    pub id: JobId,
    /// The job.
    pub job: Job,
    /// Bytes of its request.
    pub bytes: u64,
    /// Who asked for it, where callers are told apart.
    pub caller: Option<String>,
    /// The idempotency key that came with it, unless it looks like a secret.
    pub key: Option<String>,
}

/// One job with all that is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDetail {
    /// The job.
    pub view: JobView,
    /// What happened to it, oldest first.
    pub history: Vec<Entry>,
    /// What came back, if something was kept.
    pub result: Option<JobResult>,
}

/// Some jobs, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<JobView>,
    /// After which the next page begins; `None` if there is none.
    pub next: Option<JobId>,
}

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// How many jobs were looked at.
    pub jobs: u64,
    /// What is wrong, each in a sentence; empty if all holds together.
    pub wrong: Vec<String>,
    /// How much more is wrong than is listed.
    pub more_wrong: u64,
}

impl AuditReport {
    /// Returns whether all holds together.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.wrong.is_empty()
    }

    fn find(&mut self, wrong: String) {
        if self.wrong.len() < FINDINGS_MAX {
            self.wrong.push(wrong);
        } else {
            self.more_wrong += 1;
        }
    }
}

impl Handle {
    /// Returns jobs in the order in which they were accepted. The cost grows with the page, not with the queue; where it is
    /// asked for a reason or an age, with the jobs of that dependency and state that were looked at for it, which are
    /// bounded: then a page may hold fewer than were asked for, and `next` says where to go on.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn jobs(&self, filter: &JobFilter) -> Result<JobPage, StoreError> {
        self.readable()?.look(|txn| {
            let (mut page, mut from, mut looked_at) = (JobPage::default(), filter.clone(), 0);
            loop {
                let rows = txn.list(&from)?;
                looked_at += rows.len();
                for row in rows.iter().filter(|row| filter.takes(row)) {
                    page.jobs.push(view(row));
                    if page.jobs.len() >= filter.limit() {
                        page.next = Some(row.id);
                        return Ok(page);
                    }
                }
                let last = rows.last().filter(|_| rows.len() >= from.limit()).map(|row| row.id);
                if last.is_none() || looked_at >= LOOKED_AT_MAX {
                    page.next = last;
                    return Ok(page);
                }
                from.after = last;
            }
        })
    }

    /// Returns one job with its history and its result; `None` if there is none of that name.
    ///
    /// # Errors
    ///
    /// If the store, or the file of a large result, cannot be read.
    pub fn job(&self, id: JobId) -> Result<Option<JobDetail>, StoreError> {
        let store = self.readable()?;
        let found = store.look(|txn| {
            let Some(row) = txn.job(id.seq)?.filter(|row| row.id == id) else { return Ok(None) };
            let history = txn.history(id.seq)?;
            Ok(Some((row, history, txn.payload(id.seq, Part::Result)?)))
        })?;
        let Some((row, history, payload)) = found else { return Ok(None) };
        let result = payload.map(|payload| read(&store, id, payload, snapshot::decode_result)).transpose()?;
        Ok(Some(JobDetail { view: view(&row), history, result }))
    }

    /// Returns what a job sends; `None` if there is none of that name.
    ///
    /// # Errors
    ///
    /// If the store, or the file of a large body, cannot be read.
    pub fn request(&self, id: JobId) -> Result<Option<JobRequest>, StoreError> {
        let store = self.readable()?;
        let payload = store.look(|txn| {
            let Some(row) = txn.job(id.seq)?.filter(|row| row.id == id) else { return Ok(None) };
            txn.payload(row.id.seq, Part::Request)
        })?;
        payload.map(|payload| read(&store, id, payload, snapshot::decode_request)).transpose()
    }

    /// Returns how many jobs of each dependency are where, and how old the oldest of each state is. The cost does not
    /// grow with the number of jobs.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn job_figures(&self) -> Result<BTreeMap<String, JobFigures>, StoreError> {
        self.readable()?.look(|txn| {
            let mut figures: BTreeMap<String, JobFigures> = BTreeMap::new();
            for lane in txn.lanes(None)? {
                let of = figures.entry(lane.place.dependency().to_owned()).or_default();
                of.tally.add(&lane.tally);
                for state in JobState::ALL.into_iter().filter(|state| lane.tally.of(*state) > 0) {
                    for shelf in shelves_of(state) {
                        let Some(row) = txn.on_shelf(lane.id, shelf, 1)?.pop() else { continue };
                        let at = row.job.accepted_at();
                        let oldest: &mut Timestamp = of.oldest.entry(state).or_insert(at);
                        *oldest = (*oldest).min(at);
                    }
                }
            }
            Ok(figures)
        })
    }

    /// Returns how many jobs of each dependency wait, apart by who can perform them: one reading of a small table. No kind
    /// stands where kinds share a lane.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn jobs_waiting(&self) -> Result<BTreeMap<(String, Option<JobKind>), u64>, StoreError> {
        self.readable()?.look(|txn| {
            let mut waiting = BTreeMap::new();
            for lane in txn.lanes(None)?.into_iter().filter(|lane| lane.tally.queued > 0) {
                *waiting.entry((lane.place.dependency().to_owned(), lane.kind)).or_default() += lane.tally.queued;
            }
            Ok(waiting)
        })
    }

    /// Returns how many jobs of each dependency are where, as they are counted: no job is looked at.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn job_tallies(&self) -> Result<BTreeMap<String, Tally>, StoreError> {
        self.readable()?.look(|txn| {
            let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
            for lane in txn.lanes(None)? {
                tallies.entry(lane.place.dependency().to_owned()).or_default().add(&lane.tally);
            }
            Ok(tallies)
        })
    }

    /// Returns how many waiting jobs of a dependency expire before `at`, counted to at most `max`: those that a wait
    /// until then would push past their time to live.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn jobs_expiring_before(&self, dependency: &str, at: Timestamp, max: usize) -> Result<u64, StoreError> {
        self.readable()?.look(|txn| {
            let mut filter = JobFilter {
                dependency: Some(dependency.to_owned()),
                state: Some(JobState::Queued),
                limit: 1000,
                ..JobFilter::default()
            };
            let (mut seen, mut expiring) = (0, 0);
            loop {
                let rows = txn.list(&filter)?;
                let Some(last) = rows.last() else { return Ok(expiring) };
                filter.after = Some(last.id);
                seen += rows.len();
                expiring += rows.iter().filter(|row| row.job.expires_at() <= at).count() as u64;
                if seen >= max {
                    return Ok(expiring);
                }
            }
        })
    }

    /// Removes bodies that belong to no job: what a crash between a body and its row leaves, once it is an hour old. Returns
    /// how many those were.
    ///
    /// # Errors
    ///
    /// If the store, or the folder beside it, cannot be read or written.
    pub fn remove_orphans(&self) -> Result<usize, StoreError> {
        self.job_store()?.remove_orphans()
    }

    /// Looks at the file and at every job: whether the file is whole, the sums hold, histories are unbroken, no lease is past
    /// its end, and every large body
    /// is there and belongs to somebody. Sweep first: a lease that has just run out is not wrong until then.
    ///
    /// # Errors
    ///
    /// If the store cannot be read at all. A job that cannot be read is a finding.
    pub fn audit(&self) -> Result<AuditReport, StoreError> {
        let store = self.readable()?;
        let mut report = AuditReport::default();
        for finding in store.integrity(INTEGRITY_MAX)? {
            report.find(format!("the file is damaged: {finding}"));
        }
        store.look(|txn| audit_figures(txn, &mut report))?;
        let mut after = 0;
        loop {
            let last = store.look(|txn| audit_step(txn, after, &mut report))?;
            match last {
                Some(last) => after = last,
                None => break,
            }
        }
        if let Some(files) = store.payloads() {
            let named: BTreeSet<(u64, String)> = store.look(|txn| txn.files())?.into_iter().collect();
            for (seq, name) in &named {
                // A job that was pruned meanwhile needs its file no more.
                if !files.has(name) && store.look(|txn| txn.is_file_of_a_job(name))? {
                    report.find(format!("the body of job number {seq} is missing: file {name}"));
                }
            }
            for name in files.old_files()? {
                if !store.look(|txn| txn.is_file_of_a_job(&name))? {
                    report.find(format!("file {name} belongs to no job; halfopen serve removes it when it starts"));
                }
            }
        }
        Ok(report)
    }
}

/// Compares what the lanes count with what is there.
fn audit_figures(txn: &Txn<'_>, report: &mut AuditReport) -> Result<(), StoreError> {
    let lanes = txn.lanes(None)?;
    let counted = txn.counted()?;
    for lane in &lanes {
        let name =
            lane.account.as_ref().map_or_else(|| lane.place.to_string(), |account| format!("{}/{account}", lane.place));
        if !lane.tally.adds_up() {
            report.find(format!("the jobs of {name} do not add up: {:?}", lane.tally));
        }
        for state in JobState::ALL {
            let shelves = shelves_of(state);
            let there: u64 = counted
                .iter()
                .filter(|(id, shelf, _)| *id == lane.id && shelves.contains(shelf))
                .map(|(_, _, jobs)| *jobs)
                .sum();
            if there != lane.tally.of(state) {
                report.find(format!("{name} counts {} jobs as {state}, {there} are there", lane.tally.of(state)));
            }
        }
    }
    for (id, _, jobs) in counted {
        if !lanes.iter().any(|lane| lane.id == id) {
            report.find(format!("{jobs} jobs lie in a lane that is not there"));
        }
    }
    Ok(())
}

/// Looks at some jobs; returns the number of the last one, or `None` at the end.
fn audit_step(txn: &Txn<'_>, after: u64, report: &mut AuditReport) -> Result<Option<u64>, StoreError> {
    let filter = JobFilter { after: Some(JobId { seq: after, mark: 0 }), limit: AUDIT_STEP, ..JobFilter::default() };
    let rows = txn.list(&filter)?;
    for row in &rows {
        report.jobs += 1;
        let id = row.id;
        let history = txn.history(id.seq)?;
        if let Some(wrong) = broken(row, &history) {
            report.find(format!("the history of job {id} is broken: {wrong}"));
        }
        if let Some((worker, ends_at)) = row.job.lease()
            && ends_at <= txn.now()
        {
            report.find(format!("job {id} is still held by {worker}, whose lease is past its end"));
        }
        if txn.payload(id.seq, Part::Request)?.is_none() {
            report.find(format!("job {id} has no request"));
        }
    }
    Ok(rows.last().map(|row| row.id.seq))
}

/// Returns what is wrong with a history: it begins with the acceptance, each entry begins where the one before it ended,
/// it shows as many sendings and charged attempts as the job counts, and the last ends where the job is.
fn broken(row: &JobRow, history: &[Entry]) -> Option<String> {
    if history.len() != row.entries as usize {
        return Some(format!("it has {} entries, {} were written", history.len(), row.entries));
    }
    let first = history.first()?;
    if first.what != What::Accepted || first.from.is_some() {
        return Some("it does not begin with the acceptance".to_owned());
    }
    for pair in history.windows(2) {
        let (before, entry) = (pair.first()?, pair.last()?);
        if entry.from != Some(before.to) {
            return Some(format!("`{}` does not begin where `{}` ended", entry.what.as_str(), before.what.as_str()));
        }
    }
    let since = history.iter().rposition(|entry| entry.what == What::Requeued).unwrap_or_default();
    let charged = history.iter().skip(since).filter(|entry| entry.charged).count();
    if charged != row.job.attempts() as usize {
        return Some(format!("it shows {charged} attempts that were charged, the job says {}", row.job.attempts()));
    }
    let sent = history.iter().filter(|entry| entry.what == What::Sending).count();
    if sent != row.job.sent() as usize {
        return Some(format!("it shows {sent} sendings, the job says {}", row.job.sent()));
    }
    let last = history.last()?;
    (last.to != row.job.state()).then(|| format!("it ends with {}, the job is {}", last.to, row.job.state()))
}

pub(super) fn view(row: &JobRow) -> JobView {
    let (caller, key) = (row.caller.clone(), row.key.clone());
    JobView { id: row.id, job: row.job.clone(), bytes: row.bytes, caller, key }
}

fn read<T>(
    store: &Store,
    id: JobId,
    payload: Payload,
    decode: impl FnOnce(&str, Vec<u8>) -> Result<T, SnapshotError>,
) -> Result<T, StoreError> {
    let body = match payload.body {
        Body::Inline(bytes) => bytes,
        Body::File(name) => match store.payloads() {
            Some(files) => files.read(&name)?,
            None => Vec::new(),
        },
    };
    decode(&payload.head, body).map_err(|cause| StoreError::Job { id: id.to_string(), cause })
}
