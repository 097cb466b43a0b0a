//! Reads back what [`Told::document`] wrote.
//!
//! A document may come from a gateway of another version, or from something that is no gateway at all. What is missing
//! or of another kind is an error that names the key; a word that this version does not know (a further state, class)
//! too, because a circuit that is shown wrongly is worse than one that is not shown.

use std::num::NonZeroU32;
use std::time::Duration;

use halfopen::handle::CircuitView;
use halfopen_core::circuit::{Hold, LastFailure, Status};
use halfopen_core::event::{By, State};
use halfopen_core::policy::{Mode, Policy, Surface};
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::circuit::mode_word;
use super::{Told, When};

/// The reasons for which a breaker opens.
const REASONS: [&str; 6] =
    ["failures", "long_wait", "quota_exhausted", "probe_failed", "probe_stalled", "probes_inconclusive"];

/// What is expected of a document.
#[derive(Deserialize)]
struct Document {
    circuit: String,
    state: String,
    since: Option<String>,
    generation: u64,
    reason: Option<String>,
    open_until: Option<String>,
    throttled_until: Option<String>,
    failures_in_window: u32,
    open_after_failures: NonZeroU32,
    probes_in_flight: u32,
    probe_successes: u32,
    escalation: u32,
    ramp_per_sec: Option<f64>,
    waiting: u32,
    hold: Option<HoldDocument>,
    last_failure: Option<FailureDocument>,
    owner: Option<String>,
    runbook: Option<String>,
    policy: PolicyDocument,
    events: Vec<EventDocument>,
}

#[derive(Deserialize)]
struct PolicyDocument {
    mode: String,
    failure_window_sec: f64,
    half_open_max_calls: NonZeroU32,
    close_after_successes: NonZeroU32,
    max_wait_sec: f64,
}

#[derive(Deserialize)]
struct HoldDocument {
    state: String,
    until: Option<String>,
    by: String,
    reason: String,
}

#[derive(Deserialize)]
struct FailureDocument {
    at: String,
    class: String,
    rule: String,
    place: String,
    evidence: String,
    hint_wait_s: Option<f64>,
    split_by: Option<String>,
}

#[derive(Deserialize)]
struct EventDocument {
    at: String,
    event: String,
    dependency: String,
    partition: Option<String>,
    from_state: String,
    to_state: String,
    generation: u64,
    reason: Option<String>,
    queued_count: Option<u64>,
    probe_result: Option<String>,
    #[serde(default)]
    details: Map<String, Value>,
}

impl Told {
    /// Reads a document; `when` is the reader's own clock.
    ///
    /// # Errors
    ///
    /// What is missing or unknown, in words.
    pub(crate) fn read(document: Value, when: &When) -> Result<Self, String> {
        let read: Document = serde_json::from_value(document).map_err(|error| error.to_string())?;
        let id = read.circuit.parse().map_err(|error| format!("{error}"))?;
        let at = |text: &str| when.read_rfc3339(text).ok_or_else(|| format!("`{text}` is no instant"));
        let maybe = |text: &Option<String>| text.as_deref().map(at).transpose();
        let mut policy = policy(&read)?;
        let hold = match &read.hold {
            None => None,
            Some(hold) => Some(Hold {
                state: state(&hold.state)?,
                until: maybe(&hold.until)?,
                by: By { who: hold.by.clone(), reason: hold.reason.clone() },
            }),
        };
        let last_failure = match &read.last_failure {
            None => None,
            Some(last) => Some(LastFailure {
                at: at(&last.at)?,
                class: last.class.parse().map_err(|error| format!("{error}"))?,
                rule: last.rule.clone(),
                place: last.place.clone(),
                excerpt: last.evidence.clone(),
                hint_wait: last.hint_wait_s.map(seconds).transpose()?,
                narrower: last.split_by.clone(),
            }),
        };
        let status = Status {
            state: state(&read.state)?,
            generation: read.generation,
            open_until: maybe(&read.open_until)?,
            reason: read.reason.as_deref().and_then(|word| REASONS.into_iter().find(|known| *known == word)),
            since: maybe(&read.since)?.unwrap_or_default(),
            throttled_until: maybe(&read.throttled_until)?,
            failures_in_window: read.failures_in_window,
            probes_in_flight: read.probes_in_flight,
            probe_successes: read.probe_successes,
            escalation: read.escalation,
            hold,
            ramp_per_sec: read.ramp_per_sec,
            waiting: read.waiting,
            last_failure,
        };
        policy.owner = read.owner;
        policy.runbook = read.runbook;
        let events = read.events.into_iter().map(|event| event_of(event, when)).collect::<Result<_, _>>()?;
        Ok(Self { view: CircuitView { id, status }, policy, events })
    }
}

/// Reads a journal entry as [`super::event_json`] wrote it.
pub(crate) fn event(document: Value, when: &When) -> Result<EventRecord, String> {
    event_of(serde_json::from_value(document).map_err(|error| error.to_string())?, when)
}

fn event_of(read: EventDocument, when: &When) -> Result<EventRecord, String> {
    let at: Timestamp = when.read_rfc3339(&read.at).ok_or_else(|| format!("`{}` is no instant", read.at))?;
    Ok(EventRecord {
        at_ms: at.as_millis(),
        event: read.event,
        dependency: read.dependency,
        partition: read.partition,
        from_state: read.from_state,
        to_state: read.to_state,
        generation: read.generation,
        reason: read.reason,
        queued_count: read.queued_count,
        probe_result: read.probe_result,
        details: read.details,
    })
}

fn policy(read: &Document) -> Result<Policy, String> {
    let dependency = read.circuit.split('@').next().unwrap_or(&read.circuit);
    let mut policy = Policy::built_in(dependency, Surface::Serve);
    policy.mode = [Mode::Enforce, Mode::Observe]
        .into_iter()
        .find(|mode| mode_word(*mode) == read.policy.mode)
        .ok_or_else(|| format!("`{}` is no mode", read.policy.mode))?;
    policy.circuit.open_after_failures = read.open_after_failures;
    policy.circuit.window = seconds(read.policy.failure_window_sec)?;
    policy.circuit.half_open_max_calls = read.policy.half_open_max_calls;
    policy.circuit.close_after_successes = read.policy.close_after_successes;
    policy.retry.max_wait = seconds(read.policy.max_wait_sec)?;
    Ok(policy)
}

fn state(word: &str) -> Result<State, String> {
    [State::Closed, State::Open, State::HalfOpen]
        .into_iter()
        .find(|state| state.as_str() == word)
        .ok_or_else(|| format!("`{word}` is no state"))
}

fn seconds(seconds: f64) -> Result<Duration, String> {
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("`{seconds}` is no number of seconds"))
}
