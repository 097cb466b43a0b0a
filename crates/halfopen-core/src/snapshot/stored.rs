//! The stored form of a circuit, form 1.
//!
//! Instants are milliseconds of the steady clock. A deadline is the pair `[at, lasting]`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{FORM, SnapshotError};
use crate::breaker::{Breaker, Escalation, HalfOpen, Open, Probe};
use crate::circuit::{Circuit, Held, LastFailure};
use crate::event::{By, State, TripReason};
use crate::permit::PermitId;
use crate::ramp::{Ramp, Start};
use crate::throttle::Episode;
use crate::time::{Deadline, Timestamp, millis};
use crate::verdict::Class;
use crate::window::Window;

/// A deadline: when, and how far ahead that lay when it was set.
type StoredDeadline = (i64, u64);

#[derive(Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) form: u32,
    generation: u64,
    since: i64,
    state: StoredState,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    failures: Vec<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    escalation: Option<StoredEscalation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    throttle: Option<StoredDeadline>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    episode: Option<StoredEpisode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ramp: Option<StoredRamp>,
    #[serde(default, skip_serializing_if = "is_zero")]
    schedule: u64,
    #[serde(default, skip_serializing_if = "is_zero_u32")]
    waiting: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    jobs_held: u64,
    #[serde(default, skip_serializing_if = "is_zero_u32")]
    auth_in_a_row: u32,
    #[serde(default, skip_serializing_if = "is_false")]
    probe_succeeded: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hold: Option<StoredHold>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_failure: Option<StoredFailure>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredState {
    Closed,
    Open { until: StoredDeadline, reason: StoredReason },
    HalfOpen { reason: StoredReason, successes: u32, neutral_in_a_row: u32, probes: Vec<StoredProbe> },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredReason {
    Failures { failures: u32, last: String },
    LongWait { class: String },
    QuotaExhausted,
    ProbeFailed { class: String },
    ProbeStalled,
    ProbesInconclusive,
}

#[derive(Serialize, Deserialize)]
struct StoredProbe {
    id: u64,
    granted_at: i64,
    lease: StoredDeadline,
    attempt: StoredDeadline,
}

#[derive(Serialize, Deserialize)]
struct StoredEscalation {
    rounds: u32,
    quota_rounds: u32,
    last_cooldown_ms: u64,
    forget: Option<StoredDeadline>,
}

#[derive(Serialize, Deserialize)]
struct StoredEpisode {
    written_at: i64,
    in_a_row: u32,
}

#[derive(Serialize, Deserialize)]
struct StoredRamp {
    schedule: u64,
    rate_millis: u64,
    in_flight_max: u32,
    next_start: i64,
    changed_at: i64,
    asked_at: i64,
    succeeded: bool,
    starts: Vec<(u64, StoredDeadline)>,
}

#[derive(Serialize, Deserialize)]
struct StoredHold {
    state: String,
    until: Option<StoredDeadline>,
    who: String,
    reason: String,
}

#[derive(Serialize, Deserialize)]
struct StoredFailure {
    at: i64,
    class: String,
    rule: String,
    place: String,
    excerpt: String,
    hint_wait_ms: Option<u64>,
    narrower: Option<String>,
}

impl Stored {
    pub(super) fn of(circuit: &Circuit) -> Self {
        Self {
            form: FORM,
            generation: circuit.generation,
            since: circuit.since.as_millis(),
            state: state_of(&circuit.breaker),
            failures: circuit.window.failures().iter().map(|at| at.as_millis()).collect(),
            escalation: (circuit.escalation != Escalation::default()).then(|| escalation_of(&circuit.escalation)),
            throttle: circuit.throttle.map(deadline_of),
            episode: circuit.episode.map(|episode| StoredEpisode {
                written_at: episode.written_at.as_millis(),
                in_a_row: episode.in_a_row,
            }),
            ramp: circuit.ramp.as_ref().map(ramp_of),
            schedule: circuit.schedule,
            waiting: circuit.waiting,
            jobs_held: circuit.jobs_held,
            auth_in_a_row: circuit.auth_in_a_row,
            probe_succeeded: circuit.probe_succeeded,
            hold: circuit.hold.as_ref().map(|hold| StoredHold {
                state: hold.state.as_str().to_owned(),
                until: hold.until.map(deadline_of),
                who: hold.by.who.clone(),
                reason: hold.by.reason.clone(),
            }),
            last_failure: circuit.last_failure.as_ref().map(failure_of),
        }
    }

    pub(super) fn into_circuit(self) -> Result<Circuit, SnapshotError> {
        let breaker = breaker_from(self.state)?;
        let throttle = match breaker {
            // An open breaker has no throttle: its cooldown is what holds everybody.
            Breaker::Open(_) => None,
            Breaker::Closed | Breaker::HalfOpen(_) => self.throttle.map(deadline),
        };
        Ok(Circuit {
            generation: self.generation,
            since: at(self.since),
            window: Window::from_failures(self.failures.into_iter().map(at).collect()),
            escalation: self.escalation.map(escalation).unwrap_or_default(),
            throttle,
            episode: self
                .episode
                .map(|episode| Episode { written_at: at(episode.written_at), in_a_row: episode.in_a_row }),
            ramp: match breaker {
                Breaker::Closed => self.ramp.map(ramp),
                Breaker::Open(_) | Breaker::HalfOpen(_) => None,
            },
            breaker,
            schedule: self.schedule,
            waiting: self.waiting,
            jobs_held: self.jobs_held,
            auth_in_a_row: self.auth_in_a_row,
            probe_succeeded: self.probe_succeeded,
            hold: self.hold.map(hold).transpose()?,
            last_failure: self.last_failure.map(failure).transpose()?,
        })
    }
}

fn state_of(breaker: &Breaker) -> StoredState {
    match breaker {
        Breaker::Closed => StoredState::Closed,
        Breaker::Open(open) => StoredState::Open { until: deadline_of(open.until), reason: reason_of(&open.reason) },
        Breaker::HalfOpen(half) => StoredState::HalfOpen {
            reason: reason_of(&half.reason),
            successes: half.successes,
            neutral_in_a_row: half.neutral_in_a_row,
            probes: half.probes.iter().map(probe_of).collect(),
        },
    }
}

fn breaker_from(state: StoredState) -> Result<Breaker, SnapshotError> {
    Ok(match state {
        StoredState::Closed => Breaker::Closed,
        StoredState::Open { until, reason } => {
            Breaker::Open(Open { until: deadline(until), reason: reason_from(reason)? })
        }
        StoredState::HalfOpen { reason, successes, neutral_in_a_row, probes } => Breaker::HalfOpen(HalfOpen {
            reason: reason_from(reason)?,
            successes,
            neutral_in_a_row,
            probes: probes.into_iter().map(probe).collect(),
        }),
    })
}

fn reason_of(reason: &TripReason) -> StoredReason {
    match reason {
        TripReason::Failures { failures, last } => {
            StoredReason::Failures { failures: *failures, last: last.as_str().to_owned() }
        }
        TripReason::LongWait { class } => StoredReason::LongWait { class: class.as_str().to_owned() },
        TripReason::QuotaExhausted => StoredReason::QuotaExhausted,
        TripReason::ProbeFailed { class } => StoredReason::ProbeFailed { class: class.as_str().to_owned() },
        TripReason::ProbeStalled => StoredReason::ProbeStalled,
        TripReason::ProbesInconclusive => StoredReason::ProbesInconclusive,
    }
}

fn reason_from(reason: StoredReason) -> Result<TripReason, SnapshotError> {
    Ok(match reason {
        StoredReason::Failures { failures, last } => TripReason::Failures { failures, last: class(&last)? },
        StoredReason::LongWait { class: word } => TripReason::LongWait { class: class(&word)? },
        StoredReason::QuotaExhausted => TripReason::QuotaExhausted,
        StoredReason::ProbeFailed { class: word } => TripReason::ProbeFailed { class: class(&word)? },
        StoredReason::ProbeStalled => TripReason::ProbeStalled,
        StoredReason::ProbesInconclusive => TripReason::ProbesInconclusive,
    })
}

fn probe_of(probe: &Probe) -> StoredProbe {
    StoredProbe {
        id: probe.id.0,
        granted_at: probe.granted_at.as_millis(),
        lease: deadline_of(probe.lease),
        attempt: deadline_of(probe.attempt),
    }
}

fn probe(stored: StoredProbe) -> Probe {
    Probe {
        id: PermitId(stored.id),
        granted_at: at(stored.granted_at),
        lease: deadline(stored.lease),
        attempt: deadline(stored.attempt),
    }
}

fn escalation_of(escalation: &Escalation) -> StoredEscalation {
    StoredEscalation {
        rounds: escalation.rounds,
        quota_rounds: escalation.quota_rounds,
        last_cooldown_ms: escalation.last_cooldown_ms,
        forget: escalation.forget.map(deadline_of),
    }
}

fn escalation(stored: StoredEscalation) -> Escalation {
    Escalation {
        rounds: stored.rounds,
        quota_rounds: stored.quota_rounds,
        last_cooldown_ms: stored.last_cooldown_ms,
        forget: stored.forget.map(deadline),
    }
}

fn ramp_of(ramp: &Ramp) -> StoredRamp {
    StoredRamp {
        schedule: ramp.schedule,
        rate_millis: ramp.rate_millis,
        in_flight_max: ramp.in_flight_max,
        next_start: ramp.next_start.as_millis(),
        changed_at: ramp.changed_at.as_millis(),
        asked_at: ramp.asked_at.as_millis(),
        succeeded: ramp.succeeded,
        starts: ramp.starts.iter().map(|start| (start.id.0, deadline_of(start.lease))).collect(),
    }
}

fn ramp(stored: StoredRamp) -> Ramp {
    Ramp {
        schedule: stored.schedule,
        rate_millis: stored.rate_millis.max(1),
        in_flight_max: stored.in_flight_max.max(1),
        next_start: at(stored.next_start),
        changed_at: at(stored.changed_at),
        asked_at: at(stored.asked_at),
        succeeded: stored.succeeded,
        starts: stored
            .starts
            .into_iter()
            .map(|(id, lease)| Start { id: PermitId(id), lease: deadline(lease) })
            .collect(),
    }
}

fn hold(stored: StoredHold) -> Result<Held, SnapshotError> {
    let state = match stored.state.as_str() {
        "closed" => State::Closed,
        "open" => State::Open,
        other => return Err(SnapshotError::Malformed(format!("unknown hold `{other}`"))),
    };
    let by = By { who: stored.who, reason: stored.reason };
    Ok(Held { state, until: stored.until.map(deadline), by })
}

fn failure_of(failure: &LastFailure) -> StoredFailure {
    StoredFailure {
        at: failure.at.as_millis(),
        class: failure.class.as_str().to_owned(),
        rule: failure.rule.clone(),
        place: failure.place.clone(),
        excerpt: failure.excerpt.clone(),
        hint_wait_ms: failure.hint_wait.map(millis),
        narrower: failure.narrower.clone(),
    }
}

fn failure(stored: StoredFailure) -> Result<LastFailure, SnapshotError> {
    Ok(LastFailure {
        at: at(stored.at),
        class: class(&stored.class)?,
        rule: stored.rule,
        place: stored.place,
        excerpt: stored.excerpt,
        hint_wait: stored.hint_wait_ms.map(Duration::from_millis),
        narrower: stored.narrower,
    })
}

fn class(word: &str) -> Result<Class, SnapshotError> {
    word.parse().map_err(|unknown: crate::verdict::UnknownClass| SnapshotError::Malformed(unknown.to_string()))
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn deadline_of(deadline: Deadline) -> StoredDeadline {
    (deadline.at.as_millis(), deadline.lasting_ms)
}

fn deadline((at_ms, lasting_ms): StoredDeadline) -> Deadline {
    Deadline { at: at(at_ms), lasting_ms }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero_u32(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}
