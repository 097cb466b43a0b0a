//! The figures of circuits: state, hold, and what is left of their waits, as they are at this instant.

use std::time::Duration;

use halfopen::handle::CircuitView;
use halfopen_core::circuit::Status;
use halfopen_core::event::State;
use halfopen_core::time::Timestamp;

use super::{Family, Labels, Reading, of_dependency, truth, with};

/// The states of a breaker, each a series of its own.
const STATES: [State; 3] = [State::Closed, State::Open, State::HalfOpen];

pub(super) fn families(reading: &Reading<'_>) -> Vec<Family> {
    let left = |at: Option<Timestamp>| at.map_or(Duration::ZERO, |at| reading.now.until(at)).as_secs_f64();
    let each = |name, help, value: &dyn Fn(&Status) -> f64| {
        Family::gauge(name, help, reading.circuits.iter().map(|view| (labels(view), value(&view.status))))
    };
    vec![
        states(reading),
        held(reading),
        each("circuit_open_seconds_left", "Seconds until the cooldown ends", &|status| left(status.open_until)),
        each("circuit_throttled_seconds_left", "Seconds for which the dependency asked everybody to wait", &|status| {
            left(status.throttled_until)
        }),
        each("circuit_failures_in_window", "Failures that count at this instant", &|status| {
            status.failures_in_window.into()
        }),
        each("circuit_probes_in_flight", "Probes that are out", &|status| status.probes_in_flight.into()),
        each("circuit_waiting", "Callers that wait, as far as is known", &|status| status.waiting.into()),
    ]
}

fn states(reading: &Reading<'_>) -> Family {
    let one = |view: &CircuitView, state: State| {
        (with(labels(view), "state", state.as_str()), truth(view.status.state == state))
    };
    let all = reading.circuits.iter().flat_map(|view| STATES.map(|state| one(view, state)));
    Family::gauge("circuit_state", "Whether the breaker is in this state at this instant", all)
}

fn held(reading: &Reading<'_>) -> Family {
    let one = |view: &CircuitView, state: State| {
        let held = view.status.hold.as_ref().map(|hold| hold.state);
        (with(labels(view), "state", state.as_str()), truth(held == Some(state)))
    };
    let all = reading.circuits.iter().flat_map(|view| [State::Closed, State::Open].map(|state| one(view, state)));
    Family::gauge("circuit_held", "Whether an operator holds the circuit in this state", all)
}

fn labels(view: &CircuitView) -> Labels {
    with(of_dependency(view.id.dependency()), "circuit", view.id.to_string())
}
