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
