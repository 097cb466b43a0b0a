//! What is stored: old files load and mean what they meant, and nothing foreign is half understood.

use std::path::Path;

use halfopen_core::circuit::Circuit;
use halfopen_core::event::{By, Event, EventKind, ProbeResult, State, TripReason};
use halfopen_core::snapshot::{SnapshotError, decode, encode, record};
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::Class;
use test_case::test_case;

use crate::world::{DAWN, World, millis, secs};

fn golden(name: &str) -> Circuit {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/circuit/golden").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let circuit = decode(text.trim_end()).unwrap();
    assert_eq!(encode(&circuit), text.trim_end(), "{name} is written as it was read");
    circuit
}

fn now() -> Timestamp {
    Timestamp::from_millis(DAWN)
}

#[test]
fn a_new_circuit_of_form_1_loads() {
    assert_eq!(golden("form-1-new.json"), Circuit::new());
}

#[test]
fn an_open_circuit_of_form_1_loads() {
    let status = golden("form-1-open.json").status(&World::ocr().policy, now());
    assert_eq!((status.state, status.generation, status.escalation), (State::Open, 7, 2));
    assert_eq!((status.open_until, status.since), (Some(now() + secs(40)), now() - secs(80)));
    assert_eq!((status.reason, status.failures_in_window), (Some("failures"), 2));
    let failure = status.last_failure.unwrap();
    assert_eq!((failure.class, failure.rule.as_str()), (Class::RateLimited, "openai/rate-limit"));
    assert_eq!((failure.hint_wait, failure.narrower.as_deref()), (Some(millis(1500)), Some("model")));
}

#[test]
fn a_half_open_circuit_of_form_1_loads() {
    let status = golden("form-1-half-open.json").status(&World::ocr().policy, now());
    assert_eq!((status.state, status.probes_in_flight, status.probe_successes), (State::HalfOpen, 1, 1));
    assert_eq!((status.throttled_until, status.waiting), (Some(now() + secs(9)), 4));
    let hold = status.hold.unwrap();
    assert_eq!((hold.state, hold.until, hold.by.who.as_str()), (State::Open, Some(now() + secs(600)), "ops"));
}

#[test]
fn a_ramping_circuit_of_form_1_loads() {
    let status = golden("form-1-ramp.json").status(&World::ocr().policy, now());
    assert_eq!((status.state, status.ramp_per_sec, status.waiting), (State::Closed, Some(2.0), 12));
}

#[test_case("" => matches Err(SnapshotError::Malformed(_)))]
#[test_case("{}" => matches Err(SnapshotError::Malformed(_)))]
#[test_case("null" => matches Err(SnapshotError::Malformed(_)))]
#[test_case(r#"{"form":1}"# => matches Err(SnapshotError::Malformed(_)))]
#[test_case(r#"{"form":0,"generation":0,"since":0,"state":"closed"}"# => matches Err(SnapshotError::Malformed(_)))]
#[test_case(r#"{"form":2,"generation":0,"since":0,"state":"closed"}"# => matches Err(SnapshotError::Newer { found: 2, known: 1 }))]
#[test_case(r#"{"form":9,"breaker":["quite","different"]}"# => matches Err(SnapshotError::Newer { found: 9, known: 1 }))]
#[test_case(r#"{"form":1,"generation":0,"since":0,"state":"ajar"}"# => matches Err(SnapshotError::Malformed(_)))]
#[test_case(r#"{"form":1,"generation":0,"since":0,"state":{"open":{"until":[1,2],"reason":{"probe_failed":{"class":"tired"}}}}}"# => matches Err(SnapshotError::Malformed(_)))]
#[test_case(r#"{"form":1,"generation":0,"since":0,"state":"closed","later":true}"# => matches Ok(_); "an unknown field is ignored")]
fn what_is_read_is_understood_or_refused(text: &str) -> Result<Circuit, SnapshotError> {
    decode(text)
}

/// The journal's six fields, null where nothing is known.
#[test]
fn a_transition_is_recorded_with_its_six_fields() {
    let trip = Event {
        at: now(),
        from: State::HalfOpen,
        to: State::Open,
        generation: 3,
        kind: EventKind::Tripped {
            reason: TripReason::ProbeFailed { class: Class::Timeout },
            open_until: now() + secs(240),
            escalation: 1,
            probe: Some(ProbeResult::Failure),
        },
    };
    insta::assert_json_snapshot!("a_probe_failed", record(&trip, "ocr", Some("region=eu"), Some(20)));
    let half = Event { to: State::HalfOpen, from: State::Open, kind: EventKind::HalfOpened { by: None }, ..trip };
    insta::assert_json_snapshot!("a_cooldown_over", record(&half, "ocr", None, None));
    let by = By { who: "ops".into(), reason: String::new() };
    let reset = Event { to: State::Closed, kind: EventKind::Reset { by }, ..half };
    insta::assert_json_snapshot!("a_reset", record(&reset, "ocr", None, None));
}
