//! Shows one circuit: a short line, or everything that explains its state.

use std::collections::BTreeMap;

use halfopen::handle::{CircuitView, Handle};
use halfopen::store::{EventFilter, StoreError};
use halfopen_core::circuit::Status;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::event::State;
use halfopen_core::policy::{Mode, Policy};
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Progress, When, event_json, jobs_json};
use crate::ui;

/// What stands behind a dependency's name in the circuits that only watch.
pub(crate) const SHADOW: &str = "~observe";

/// How many of its last transitions are shown.
const EVENTS_SHOWN: usize = 5;

/// One circuit as JSON, on one line of a list. Scripts rely on these keys.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    circuit: String,
    dependency: String,
    partition: Option<String>,
    state: &'static str,
    generation: u64,
    open_until: Option<String>,
    throttled_until: Option<String>,
    failures_in_window: u32,
    probes_in_flight: u32,
    hold: Option<&'static str>,
    jobs: Value,
}

impl Line {
    /// Returns the line of a circuit. `queues` say how far the queue of its dependency is.
    pub(crate) fn of(view: &CircuitView, queues: &BTreeMap<String, Progress>, when: &When) -> Self {
        let status = &view.status;
        let deadline = |at: Option<Timestamp>| at.map(|at| when.rfc3339(at));
        Self {
            circuit: view.id.to_string(),
            dependency: view.id.dependency().to_owned(),
            partition: view.id.partition().map(|(key, value)| format!("{key}={value}")),
            state: status.state.as_str(),
            generation: status.generation,
            open_until: deadline(status.open_until),
            throttled_until: deadline(status.throttled_until),
            failures_in_window: status.failures_in_window,
            probes_in_flight: status.probes_in_flight,
            hold: status.hold.as_ref().map(|hold| hold.state.as_str()),
            jobs: jobs_json(queues.get(view.id.dependency()), when),
        }
    }
}

/// What explains the state of one circuit.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// What it shows.
    pub(crate) view: CircuitView,
    /// The rules that judge it.
    pub(crate) policy: Policy,
    /// Its last transitions, oldest first.
    pub(crate) events: Vec<EventRecord>,
}

impl Told {
    /// Looks up what explains a circuit.
    ///
    /// # Errors
    ///
    /// If the journal cannot be read.
    pub(crate) fn look_up(handle: &Handle, view: CircuitView, policy: Policy) -> Result<Self, StoreError> {
        let filter = EventFilter {
            dependency: Some(view.id.dependency().to_owned()),
            transitions_only: true,
            ..EventFilter::default()
        };
        let partition = view.id.partition().map(|(key, value)| format!("{key}={value}"));
        let mut events = handle.events(&filter)?;
        events.retain(|event| event.partition == partition);
        let events = events.split_off(events.len().saturating_sub(EVENTS_SHOWN));
        Ok(Self { view, policy, events })
    }

    /// Returns it as JSON. [`Told::read`] reads this back.
    pub(crate) fn document(&self, when: &When) -> Value {
        let Self { view, policy, events } = self;
        let status = &view.status;
        let at = |at: Timestamp| when.rfc3339(at);
        json!({
            "circuit": view.id.to_string(),
            "dependency": view.id.dependency(),
            "partition": view.id.partition().map(|(key, value)| format!("{key}={value}")),
            "state": status.state.as_str(),
            "since": Some(status.since).filter(|since| since.as_millis() > 0).map(at),
            "generation": status.generation,
            "reason": status.reason,
            "open_until": status.open_until.map(at),
            "throttled_until": status.throttled_until.map(at),
            "next_probe_at": status.open_until.filter(|_| status.state == State::Open).map(at),
            "failures_in_window": status.failures_in_window,
            "open_after_failures": policy.circuit.open_after_failures,
            "probes_in_flight": status.probes_in_flight,
            "probe_successes": status.probe_successes,
            "escalation": status.escalation,
            "ramp_per_sec": status.ramp_per_sec,
            "waiting": status.waiting,
            "hold": status.hold.as_ref().map(|hold| json!({
                "state": hold.state.as_str(),
                "until": hold.until.map(at),
                "by": hold.by.who,
                "reason": hold.by.reason,
            })),
            "last_failure": status.last_failure.as_ref().map(|last| json!({
                "at": at(last.at),
                "class": last.class.as_str(),
                "rule": last.rule,
                "place": last.place,
                "evidence": last.excerpt,
                "hint_wait_s": last.hint_wait.map(|wait| wait.as_secs_f64()),
                "split_by": last.narrower,
            })),
            "owner": policy.owner,
            "runbook": policy.runbook,
            "policy": {
                "mode": mode_word(policy.mode),
                "failure_window_sec": policy.circuit.window.as_secs_f64(),
                "half_open_max_calls": policy.circuit.half_open_max_calls,
                "close_after_successes": policy.circuit.close_after_successes,
                "max_wait_sec": policy.retry.max_wait.as_secs_f64(),
            },
            "next_step": next_step(view, policy, when),
            "events": events.iter().map(|event| event_json(event, when)).collect::<Vec<_>>(),
        })
    }
}

/// Returns a mode as the policy file writes it.
pub(super) const fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Observe => "observe",
    }
}

/// Returns the circuits that a name means: that one, or without a partition all of the dependency.
pub(crate) fn named<'a>(all: &'a [CircuitView], id: &'a CircuitId) -> impl Iterator<Item = &'a CircuitView> {
    all.iter()
        .filter(move |view| view.id == *id || (id.partition().is_none() && view.id.dependency() == id.dependency()))
}

/// Returns a state as a person reads it.
pub(crate) const fn state_word(state: State) -> &'static str {
    match state {
        State::Closed => "closed",
        State::Open => "open",
        State::HalfOpen => "half-open",
    }
}

/// Says what happens to a call that comes now.
pub(crate) fn fate(status: &Status, policy: &Policy, when: &When) -> String {
    let throttled = status.throttled_until.is_some_and(|at| at > when.now);
    let fate = match (&status.hold, status.state) {
        (Some(hold), _) if hold.state == State::Closed => "pass, because the circuit is held closed",
        (Some(_), _) => "are refused, because the circuit is held open",
        (None, State::Open) => "are refused",
        (None, State::HalfOpen) => "are refused, except for probes",
        (None, State::Closed) if throttled => "wait",
        (None, State::Closed) => "pass",
    };
    match policy.mode {
        Mode::Enforce => fate.to_owned(),
        Mode::Observe => format!("pass, because the policy only observes; else they {fate}"),
    }
}

/// Says what a person can do, if anything.
pub(crate) fn next_step(view: &CircuitView, policy: &Policy, when: &When) -> Option<String> {
    let (id, status) = (ui::shell_word(&view.id.to_string()), &view.status);
    if status.hold.is_some() {
        return Some(format!("halfopen release {id} ends the hold"));
    }
    if let Some(key) = status.last_failure.as_ref().and_then(|last| last.narrower.as_ref()) {
        return Some(format!(
            "add `split_by: [{key}]` to the policy of {}, so that one {key} does not stop the others",
            policy.dependency
        ));
    }
    match (status.state, status.reason) {
        (State::Open, Some("quota_exhausted")) => {
            Some(format!("top up or raise the limit, then halfopen release {id} --probe-now"))
        }
        (State::Open, _) => {
            let at = status.open_until.map_or_else(String::new, |at| format!(" {}", when.relative(at)));
            Some(format!("it probes by itself{at}; halfopen release {id} --probe-now probes with the next call"))
        }
        (State::HalfOpen, _) => Some("the next calls are probes; nothing is to be done".to_owned()),
        (State::Closed, _) if status.throttled_until.is_some_and(|at| at > when.now) => {
            Some(format!("calls go on by themselves; halfopen reset {id} forgets the wait"))
        }
        (State::Closed, _) => None,
    }
}
