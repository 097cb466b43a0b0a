//! Takes the next job: which one, and whether its circuits let it start, in one transaction.
//!
//! Through closed breakers the oldest job goes first. Half-open breakers are tried with the job that risks least: one
//! that has not failed as a probe in this incident before one that has, one that may be repeated before one that may
//! not, then the oldest; and one that may not be repeated only while no other probe is out. So a poisoned job neither
//! blocks the others nor keeps the breaker open, and a payment is not what a sick dependency is tried with if anything
//! else is there.
//!
//! Where a policy only observes, jobs are judged by circuits of their own that enforcing processes never read, and what those
//! say stops nothing.
//!
//! Each lane (jobs that the same circuits judge and the same workers can perform) is asked by itself, the one with the
//! oldest job first: a region that is down keeps nobody else's jobs. Lanes of a kind that the worker cannot perform are not
//! asked at all, so a gateway never takes a command, nor a worker on one host the command of another.

use halfopen_core::alert::SHADOW;
use halfopen_core::circuit::Circuit;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::event::State;
use halfopen_core::job::{Admitted, Entry, Job, JobId, JobKind, JobState, Safety, Shelf, Step};
use halfopen_core::pair::{Answer, Pass, Side};
use halfopen_core::permit::{Ask, Permit, PermitKind, Refusal, RefusalReason};
use halfopen_core::policy::{Mode, Policy};
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;

use super::sweep::{Passed, pass_time};
use super::{Handle, facts, save};
use crate::handle::Route;
use crate::handle::registry::Seats;
use crate::store::jobs::{JobRow, Lane, shelf_number};
use crate::store::{StoreError, Txn};

/// How many jobs that are due or found unfit one claim deals with at most.
const DUE_MAX: usize = 64;

/// How many suspects are compared at most.
const SUSPECTS_MAX: usize = 64;

/// What a worker gets.
#[derive(Debug)]
pub enum Claim {
    /// A job, with the pass to do it.
    Taken(Box<Lease>),
    /// Nothing can be claimed now.
    Nothing {
        /// When time alone may change that; another job may be enqueued sooner.
        next_at: Option<Timestamp>,
    },
    /// Jobs wait, and no circuit lets one start.
    Refused {
        /// The circuit that ends its refusal first.
        circuit: CircuitId,
        /// Its refusal.
        refusal: Refusal,
    },
    /// As many jobs of this dependency run as `drain.max_in_flight` allows, over all processes.
    Full,
}

/// A worker's right to one job, and the pass under which it does it.
///
/// A lease that is dropped is not given back: the job runs out of it, and the circuits' permits expire. Finish it or
/// release it.
#[must_use = "a lease that is neither finished nor released keeps its job until it runs out"]
#[derive(Clone, Debug)]
pub struct Lease {
    /// The job's name.
    pub id: JobId,
    /// The job as it was claimed.
    pub job: Job,
    /// The number that fences it.
    pub grant: u64,
    /// Who can perform it; `None` if it was accepted where kinds share a lane.
    pub kind: Option<JobKind>,
    /// Who holds it.
    pub worker: String,
    /// The circuits that judge it.
    pub route: Route,
    /// Their permits.
    pub pass: Pass,
    /// How the attempt was admitted.
    pub admitted: Admitted,
    /// When the job's lease ends unless it is renewed.
    pub ends_at: Timestamp,
}

impl Handle {
    /// Takes the next job of a dependency, of whatever kind, for `worker`, with the permits of its circuits. Deals with jobs of the
    /// dependency that are due first.
    ///
    /// # Errors
    ///
    /// If the store cannot be read or written. Nothing was claimed then.
    pub fn claim_job(&self, dependency: &str, policy: &Policy, worker: &str) -> Result<Claim, StoreError> {
        self.claim_job_and_tell(dependency, policy, worker, None).map(|(claim, _)| claim)
    }

    /// As [`Handle::claim_job`], of jobs of `kinds` only, if they are named; returns also what the journal was told
    /// meanwhile, to be counted: jobs whose time was over, and what the circuits said.
    ///
    /// # Errors
    ///
    /// As [`Handle::claim_job`].
    pub fn claim_job_and_tell(
        &self,
        dependency: &str,
        policy: &Policy,
        worker: &str,
        kinds: Option<&[JobKind]>,
    ) -> Result<(Claim, Vec<EventRecord>), StoreError> {
        let store = self.job_store()?;
        let claimed = store.transact(|txn| self.claim_in(txn, (dependency, kinds), policy, worker));
        match claimed {
            Ok((claim, passed)) => {
                if let Some(files) = store.payloads() {
                    files.forget(&passed.files);
                }
                self.tidy_after(&passed.records);
                Ok((claim, passed.records))
            }
            Err(error) => {
                self.note_unwritable(&error);
                Err(error)
            }
        }
    }

    fn claim_in(
        &self,
        txn: &mut Txn<'_>,
        (dependency, kinds): (&str, Option<&[JobKind]>),
        policy: &Policy,
        worker: &str,
    ) -> Result<(Claim, Passed), StoreError> {
        let mut passed = pass_time(txn, &|_| policy.clone(), Some(dependency), DUE_MAX, self.chance())?;
        let lanes = txn.lanes(Some(dependency))?;
        let running: u64 = lanes.iter().map(|lane| lane.tally.running).sum();
        if running >= u64::from(policy.drain.max_in_flight_max.get()) {
            return Ok((Claim::Full, passed));
        }
        let mut oldest = Vec::new();
        let fits = |lane: &Lane| kinds.is_none_or(|kinds| lane.kind.as_ref().is_none_or(|kind| kinds.contains(kind)));
        for lane in lanes.into_iter().filter(|lane| lane.tally.queued > 0 && fits(lane)) {
            if let Some(row) = first_of(txn, &lane)? {
                oldest.push((row.id, lane));
            }
        }
        oldest.sort_by_key(|(id, _)| *id);
        let mut refused: Option<(CircuitId, Refusal)> = None;
        for (_, lane) in oldest {
            match self.claim_of(txn, &lane, policy, worker, &mut passed.records)? {
                Asked::Taken(lease) => return Ok((Claim::Taken(lease), passed)),
                Asked::Refused(circuit, refusal) => {
                    let sooner = |known: &(CircuitId, Refusal)| match (known.1.retry_at, refusal.retry_at) {
                        (Some(known), Some(new)) => new < known,
                        (None, new) => new.is_some(),
                        (Some(_), None) => false,
                    };
                    if refused.as_ref().is_none_or(sooner) {
                        refused = Some((circuit, refusal));
                    }
                }
                Asked::Nobody => {}
            }
        }
        let claim = match refused {
            Some((circuit, refusal)) => Claim::Refused { circuit, refusal },
            None => Claim::Nothing { next_at: txn.next_job_wake()? },
        };
        Ok((claim, passed))
    }

    /// Asks one lane.
    fn claim_of(
        &self,
        txn: &mut Txn<'_>,
        lane: &Lane,
        policy: &Policy,
        worker: &str,
        records: &mut Vec<EventRecord>,
    ) -> Result<Asked, StoreError> {
        let observes = policy.mode == Mode::Observe;
        let route = route_of(lane, policy.mode);
        let now = txn.now();
        let facts = facts(txn, &route)?;
        let mut seats = Seats::take(txn, &route)?;
        let mut events = seats.pair().expire(policy, facts, now);
        let health = Health::of(&seats, policy, now);
        let mut asked = Asked::Nobody;
        if let Some(refusal) = health.paused(lane, now).filter(|_| !observes) {
            asked = Asked::Refused(route.account().unwrap_or(&route.place).clone(), refusal);
        } else if let Some((row, claimed)) = self.choose(txn, lane, policy, worker, health)? {
            match claimed {
                Chosen::Unfit => {
                    let refusal = Refusal {
                        reason: RefusalReason::ProbesOut,
                        retry_at: Some(now + policy.circuit.probe_lease),
                        slot: None,
                    };
                    asked = Asked::Refused(route.place.clone(), refusal);
                }
                Chosen::Fit(fit) => {
                    let (mut after, entry) = *fit;
                    let (answer, more) = seats.pair().admit(policy, Ask::Job, now, self.chance());
                    events.append(more);
                    let answer = match answer {
                        // It would have been refused, which the circuit that only watches has noted.
                        Answer::Refused { .. } if observes => Answer::Granted(unheeded(&route, now)),
                        answer @ (Answer::Granted(_) | Answer::Refused { .. }) => answer,
                    };
                    asked = match answer {
                        Answer::Granted(pass) => {
                            save(txn, &row, &mut after, Some(&entry))?;
                            Asked::Taken(Box::new(lease(&after, lane, route, pass, health, worker)))
                        }
                        Answer::Refused { side, refusal } => {
                            let circuit = match side {
                                Side::Account => route.account().unwrap_or(&route.place),
                                Side::Place => &route.place,
                            };
                            Asked::Refused(circuit.clone(), refusal)
                        }
                    };
                }
            }
        }
        records.extend(seats.put_back(txn, policy, &events)?);
        Ok(asked)
    }

    /// Chooses the job of a lane that goes next, and claims it, which is not saved yet. Jobs that turn out to be over are
    /// saved as that.
    fn choose(
        &self,
        txn: &mut Txn<'_>,
        lane: &Lane,
        policy: &Policy,
        worker: &str,
        health: Health,
    ) -> Result<Option<(JobRow, Chosen)>, StoreError> {
        for _ in 0..DUE_MAX {
            let next = if health.probing { probe_of(txn, lane)? } else { first_of(txn, lane)? };
            let Some(row) = next else { return Ok(None) };
            let risky = health.probing && health.probes_out && row.job.terms().safety == Safety::Unsafe;
            if risky && policy.mode == Mode::Enforce {
                return Ok(Some((row, Chosen::Unfit)));
            }
            let mut after = row.clone();
            if !health.probing {
                // The incident is over.
                after.job.forgive();
            }
            let step = Step::Claim { worker, grant: row.job.grant() + 1 };
            let Ok(Some(entry)) = after.job.step(policy, step, txn.now(), self.chance()) else { return Ok(None) };
            if after.job.state() == JobState::Running {
                return Ok(Some((row, Chosen::Fit(Box::new((after, entry))))));
            }
            save(txn, &row, &mut after, Some(&entry))?;
        }
        Ok(None)
    }
}

/// Returns the circuits that judge the jobs of a lane: its own, or those that only watch.
fn route_of(lane: &Lane, mode: Mode) -> Route {
    let judge = |id: &CircuitId| match mode {
        Mode::Enforce => id.clone(),
        Mode::Observe => {
            let name = format!("{}{SHADOW}", id.dependency());
            let shadow = match id.partition() {
                Some((key, value)) => CircuitId::part(&name, key, value),
                None => CircuitId::whole(&name),
            };
            shadow.unwrap_or_else(|_| id.clone())
        }
    };
    Route { place: judge(&lane.place), account: lane.account.as_ref().map(judge) }
}

/// Returns the pass of a job that its circuits would have refused.
fn unheeded(route: &Route, now: Timestamp) -> Pass {
    Pass { place: Permit::unheeded(now), account: route.account().map(|_| Permit::unheeded(now)) }
}

/// What asking one lane came to.
enum Asked {
    Taken(Box<Lease>),
    Refused(CircuitId, Refusal),
    Nobody,
}

/// What choosing a job came to.
enum Chosen {
    /// It may be tried.
    Fit(Box<(JobRow, Entry)>),
    /// It may only be tried while no other probe is out.
    Unfit,
}

/// What the circuits of a lane are like at the instant of a claim.
#[derive(Clone, Copy, Debug)]
struct Health {
    probing: bool,
    probes_out: bool,
    others_succeeded: bool,
    paused_until: Option<Timestamp>,
}

impl Health {
    fn of(seats: &Seats, policy: &Policy, now: Timestamp) -> Self {
        let mut health = Self { probing: false, probes_out: false, others_succeeded: false, paused_until: None };
        for circuit in seats.circuits() {
            health.see(circuit, policy, now);
        }
        health
    }

    fn see(&mut self, circuit: &Circuit, policy: &Policy, now: Timestamp) {
        let status = circuit.status(policy, now);
        self.probing |= status.state == State::HalfOpen;
        self.probes_out |= status.probes_in_flight > 0;
        self.others_succeeded |= circuit.probe_succeeded();
        self.paused_until = self.paused_until.max(circuit.jobs_paused_until());
    }

    /// Returns the refusal of a lane whose credential is refused: nobody for a while, then one at a time.
    fn paused(&self, lane: &Lane, now: Timestamp) -> Option<Refusal> {
        let until = self.paused_until?;
        let retry_at = if now < until { Some(until) } else { None };
        (retry_at.is_some() || lane.tally.running > 0).then_some(Refusal {
            reason: RefusalReason::Held,
            retry_at,
            slot: None,
        })
    }
}

fn lease(row: &JobRow, lane: &Lane, route: Route, pass: Pass, health: Health, worker: &str) -> Lease {
    let probe = pass.place.kind == PermitKind::Probe
        || pass.account.as_ref().is_some_and(|permit| permit.kind == PermitKind::Probe);
    let admitted =
        if probe { Admitted::AsProbe { others_succeeded: health.others_succeeded } } else { Admitted::Regularly };
    Lease {
        id: row.id,
        grant: row.job.grant(),
        ends_at: row.job.lease().map_or(pass.place.admitted_at, |(_, ends_at)| ends_at),
        job: row.job.clone(),
        kind: lane.kind.clone(),
        worker: worker.to_owned(),
        route,
        pass,
        admitted,
    }
}

/// Returns the oldest job that may be claimed.
fn first_of(txn: &Txn<'_>, lane: &Lane) -> Result<Option<JobRow>, StoreError> {
    let mut first: Option<JobRow> = None;
    for shelf in [Shelf::Ready, Shelf::ReadyOnce, Shelf::Suspect] {
        let row = txn.first_on_shelf(lane.id, shelf)?;
        first = [first, row].into_iter().flatten().min_by_key(|row| row.id);
    }
    Ok(first)
}

/// Returns the job that a sick dependency is tried with.
fn probe_of(txn: &Txn<'_>, lane: &Lane) -> Result<Option<JobRow>, StoreError> {
    for shelf in [Shelf::Ready, Shelf::ReadyOnce] {
        if let Some(row) = txn.first_on_shelf(lane.id, shelf)? {
            return Ok(Some(row));
        }
    }
    let suspects = txn.on_shelf(lane.id, shelf_number(Shelf::Suspect, JobState::Queued), SUSPECTS_MAX)?;
    Ok(suspects
        .into_iter()
        .min_by_key(|row| (row.job.failed_probes(), row.job.terms().safety == Safety::Unsafe, row.id)))
}
