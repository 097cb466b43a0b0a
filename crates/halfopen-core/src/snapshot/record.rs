//! Writes events as journal entries: six fields that every transition has, and the rest as details.

use serde_json::{Map, Value, json};

use crate::event::{By, Event, EventKind, TripReason};

/// The stored and printed form of an event: the six fields every transition has, and the rest as details.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct EventRecord {
    /// Milliseconds since the unix epoch, steady clock.
    pub at_ms: i64,
    /// What happened, as a word (`tripped`, `half_opened`, `recovered`, `throttled`, …).
    pub event: String,
    /// The dependency.
    pub dependency: String,
    /// The partition, as `key=value`.
    pub partition: Option<String>,
    /// The state before.
    pub from_state: String,
    /// The state after.
    pub to_state: String,
    /// The generation after.
    pub generation: u64,
    /// Why.
    pub reason: Option<String>,
    /// Jobs that wait, if that is known.
    pub queued_count: Option<u64>,
    /// How the probe ended, if one did.
    pub probe_result: Option<String>,
    /// Whatever else the event says.
    #[serde(default)]
    pub details: Map<String, Value>,
}

/// What an event says beyond the fields it shares with all others.
struct Told {
    word: &'static str,
    reason: Option<String>,
    probe: Option<&'static str>,
    details: Map<String, Value>,
}

/// Returns the stored form of an event of the circuit `dependency@partition`.
#[must_use]
pub fn record(event: &Event, dependency: &str, partition: Option<&str>, queued: Option<u64>) -> EventRecord {
    let Told { word, reason, probe, details } = told(&event.kind);
    EventRecord {
        at_ms: event.at.as_millis(),
        event: word.to_owned(),
        dependency: dependency.to_owned(),
        partition: partition.map(str::to_owned),
        from_state: event.from.as_str().to_owned(),
        to_state: event.to.as_str().to_owned(),
        generation: event.generation,
        reason,
        queued_count: queued,
        probe_result: probe.map(str::to_owned),
        details,
    }
}

fn told(kind: &EventKind) -> Told {
    match kind {
        EventKind::Tripped { reason, open_until, escalation, probe } => {
            let mut details =
                fields([("open_until_ms", json!(open_until.as_millis())), ("escalation", json!(escalation))]);
            trip_details(reason, &mut details);
            let probe = probe.map(|result| result.as_str());
            Told { word: "tripped", reason: Some(reason.as_str().to_owned()), probe, details }
        }
        EventKind::HalfOpened { by } => {
            let (reason, details) = by_hand(by.as_ref(), "cooldown_over");
            Told { word: "half_opened", reason, probe: None, details }
        }
        EventKind::Recovered => Told {
            word: "recovered",
            reason: Some("probes_succeeded".to_owned()),
            probe: Some("success"),
            details: Map::new(),
        },
        EventKind::Reset { by } => {
            let (reason, details) = by_hand(Some(by), "reset");
            Told { word: "reset", reason, probe: None, details }
        }
        EventKind::Throttled { until, source, class, episode } => Told {
            word: "throttled",
            reason: Some(class.as_str().to_owned()),
            probe: None,
            details: fields([
                ("until_ms", json!(until.as_millis())),
                ("source", json!(source.as_str())),
                ("episode", json!(episode)),
            ]),
        },
        EventKind::HintCut { wait, until } => Told {
            word: "hint_cut",
            reason: None,
            probe: None,
            details: fields([("wait_ms", json!(crate::time::millis(*wait))), ("until_ms", json!(until.as_millis()))]),
        },
        EventKind::FailureCounted { class, failures } => Told {
            word: "failure_counted",
            reason: Some(class.as_str().to_owned()),
            probe: None,
            details: fields([("failures", json!(failures))]),
        },
        EventKind::ProbeAdmitted { in_flight } => Told {
            word: "probe_admitted",
            reason: None,
            probe: None,
            details: fields([("in_flight", json!(in_flight))]),
        },
        EventKind::ProbeEnded { result, class, successes } => Told {
            word: "probe_ended",
            reason: class.map(|class| class.as_str().to_owned()),
            probe: Some(result.as_str()),
            details: fields([("successes", json!(successes))]),
        },
        EventKind::RampBegan { rate_millis } => Told {
            word: "ramp_began",
            reason: None,
            probe: None,
            details: fields([("rate_millis", json!(rate_millis))]),
        },
        EventKind::RampStepped { rate_millis, in_flight_max } => Told {
            word: "ramp_stepped",
            reason: None,
            probe: None,
            details: fields([("rate_millis", json!(rate_millis)), ("in_flight_max", json!(in_flight_max))]),
        },
        EventKind::RampEnded => Told { word: "ramp_ended", reason: None, probe: None, details: Map::new() },
        EventKind::HoldPlaced { state, until, by } => {
            let (reason, mut details) = by_hand(Some(by), "hold");
            details.insert("hold".to_owned(), json!(state.as_str()));
            details.insert("until_ms".to_owned(), json!(until.map(|until| until.as_millis())));
            Told { word: "hold_placed", reason, probe: None, details }
        }
        EventKind::HoldEnded { by } => {
            let (reason, details) = by_hand(by.as_ref(), "hold_over");
            Told { word: "hold_ended", reason, probe: None, details }
        }
        EventKind::AuthFailed { in_a_row } => Told {
            word: "auth_failed",
            reason: Some("auth".to_owned()),
            probe: None,
            details: fields([("in_a_row", json!(in_a_row))]),
        },
    }
}

/// Adds what a trip says beyond its reason's name.
fn trip_details(reason: &TripReason, details: &mut Map<String, Value>) {
    match reason {
        TripReason::Failures { failures, last } => {
            details.insert("failures".to_owned(), json!(failures));
            details.insert("class".to_owned(), json!(last.as_str()));
        }
        TripReason::LongWait { class } | TripReason::ProbeFailed { class } => {
            details.insert("class".to_owned(), json!(class.as_str()));
        }
        TripReason::QuotaExhausted | TripReason::ProbeStalled | TripReason::ProbesInconclusive => {}
    }
}

/// Returns the reason of something done by hand: what was given, else the name of the act.
fn by_hand(by: Option<&By>, act: &str) -> (Option<String>, Map<String, Value>) {
    let Some(by) = by else { return (Some(act.to_owned()), Map::new()) };
    let given = if by.reason.is_empty() { act } else { &by.reason };
    (Some(given.to_owned()), fields([("who", json!(by.who))]))
}

fn fields<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
