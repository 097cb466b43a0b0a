//! Looks from outside at what keeps a caller waiting, without asking: whether it has been let go before its time.

use halfopen::handle::Handle;
use halfopen_core::circuit::Status;
use halfopen_core::event::State;
use halfopen_core::policy::Policy;
use halfopen_core::time::Timestamp;

use super::plan::Plan;

/// Returns whether every circuit of the call would let a caller try. One that cannot be read is not let go.
#[must_use]
pub(super) fn is_free(handle: &Handle, plan: &Plan) -> bool {
    circuits(handle, plan).is_some_and(|circuits| circuits.iter().all(|status| lets_try(status, &plan.policy)))
}

/// Returns when the circuits of the call let go by themselves, if something that ends by itself keeps callers out.
#[must_use]
pub(super) fn ends(handle: &Handle, plan: &Plan) -> Option<Timestamp> {
    let circuits = circuits(handle, plan)?;
    circuits.iter().flat_map(|status| [status.open_until, status.throttled_until]).flatten().max()
}

/// Returns the circuits of which anything is known; `None` if they cannot be read.
fn circuits(handle: &Handle, plan: &Plan) -> Option<Vec<Status>> {
    let mut known = Vec::new();
    for id in [Some(&plan.route.place), plan.route.account.as_ref()].into_iter().flatten() {
        known.extend(handle.circuit(id, &plan.policy).ok()?.map(|view| view.status));
    }
    Some(known)
}

/// Returns whether a circuit would let a caller try.
fn lets_try(status: &Status, policy: &Policy) -> bool {
    match (status.hold.as_ref().map(|hold| hold.state), status.state) {
        (Some(State::Closed), _) => true,
        (Some(State::Open | State::HalfOpen), _) | (None, State::Open) => false,
        (None, State::Closed) => status.throttled_until.is_none(),
        (None, State::HalfOpen) => {
            let (most, needed) = (policy.circuit.half_open_max_calls.get(), policy.circuit.close_after_successes.get());
            let probes = status.probes_in_flight.saturating_add(status.probe_successes.min(needed - 1));
            status.throttled_until.is_none() && status.probes_in_flight < most && probes < most.max(needed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfopen_core::circuit::{Circuit, Hold};
    use halfopen_core::event::By;
    use halfopen_core::policy::Surface;
    use test_case::test_case;

    fn lets(change: impl Fn(&mut Status)) -> bool {
        let policy = Policy::built_in("ocr", Surface::Run);
        let mut status = Circuit::new().status(&policy, Timestamp::from_millis(0));
        change(&mut status);
        lets_try(&status, &policy)
    }

    fn held(status: &mut Status, state: State) {
        let by = By { who: "ops".to_owned(), reason: String::new() };
        status.hold = Some(Hold { state, until: None, by });
    }

    #[test_case(State::Closed, 0, false => true)]
    #[test_case(State::Closed, 0, true => false; "throttled")]
    #[test_case(State::Open, 0, false => false)]
    #[test_case(State::HalfOpen, 0, false => true; "a probe may go")]
    #[test_case(State::HalfOpen, 1, false => false; "the probe is out")]
    #[test_case(State::HalfOpen, 0, true => false; "a probe may go, but is throttled")]
    fn a_circuit_lets_try_only_where_the_door_would(state: State, probes: u32, throttled: bool) -> bool {
        lets(|status| {
            (status.state, status.probes_in_flight) = (state, probes);
            status.throttled_until = throttled.then(|| Timestamp::from_millis(1));
        })
    }

    #[test]
    fn a_hold_goes_before_the_breaker() {
        assert!(!lets(|status| held(status, State::Open)));
        assert!(lets(|status| {
            status.state = State::Open;
            held(status, State::Closed);
        }));
    }
}
