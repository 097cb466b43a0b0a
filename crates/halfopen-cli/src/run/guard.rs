//! Holds the pass of one attempt so that every way out gives it back: a return, an error, a panic.
//!
//! Only SIGKILL goes past it; then the lease in the store ends the pass.

use std::time::Duration;

use halfopen::handle::{Handle, Route};
use halfopen_core::pair::Pass;
use halfopen_core::permit::{Permit, PermitKind};
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::verdict::Verdict;

/// An admitted attempt.
#[must_use = "dropping it gives the pass back"]
#[derive(Debug)]
pub(super) struct Guard<'a> {
    handle: &'a Handle,
    route: &'a Route,
    policy: &'a Policy,
    held: Held,
}

#[derive(Debug)]
enum Held {
    /// Nothing: we only watch and would have been refused.
    Nothing,
    /// A pass of our own.
    Own(Pass),
    /// The live probe of the run around us.
    Outers(Pass),
    /// What is left of a pass that was judged early: it settles what comes after.
    SettledEarly(Pass),
}

impl<'a> Guard<'a> {
    /// Returns the guard of a pass that was granted to us.
    pub(super) fn own(handle: &'a Handle, route: &'a Route, policy: &'a Policy, pass: Pass) -> Self {
        Self { handle, route, policy, held: Held::Own(pass) }
    }

    /// Returns the guard of a pass that the run around us holds.
    pub(super) fn outers(handle: &'a Handle, route: &'a Route, policy: &'a Policy, pass: Pass) -> Self {
        Self { handle, route, policy, held: Held::Outers(pass) }
    }

    /// Returns the guard of an attempt that is made without a pass.
    pub(super) fn without(handle: &'a Handle, route: &'a Route, policy: &'a Policy) -> Self {
        Self { handle, route, policy, held: Held::Nothing }
    }

    /// Returns the pass, as long as it has not been settled.
    #[must_use]
    pub(super) fn pass(&self) -> Option<&Pass> {
        match &self.held {
            Held::Own(pass) | Held::Outers(pass) => Some(pass),
            Held::Nothing | Held::SettledEarly(_) => None,
        }
    }

    /// Returns whether the breaker waits for this attempt's verdict.
    #[must_use]
    pub(super) fn is_probe(&self) -> bool {
        self.any(|permit| permit.kind == PermitKind::Probe)
    }

    fn any(&self, is: impl Fn(&Permit) -> bool) -> bool {
        self.pass().is_some_and(|pass| is(&pass.place) || pass.account.as_ref().is_some_and(&is))
    }

    /// Returns how often the pass must be renewed, if it has a lease.
    #[must_use]
    pub(super) fn renew_every(&self) -> Option<Duration> {
        let leased = self.any(|permit| permit.ramped || permit.kind == PermitKind::Probe);
        leased.then(|| {
            (self.policy.circuit.probe_lease.min(self.policy.circuit.lease) / 3).max(Duration::from_millis(20))
        })
    }

    /// Extends the lease.
    pub(super) fn renew(&self) {
        if let Some(pass) = self.pass() {
            // If it is no longer live there is nothing to do: the verdict will be stale, and is told apart then.
            let _live = self.handle.renew(self.route, self.policy, pass);
        }
    }

    /// Judges a probe as a success while its attempt goes on; a failure that follows is then a new one of a closed breaker.
    pub(super) fn settle_early(&mut self) -> Vec<EventRecord> {
        match std::mem::replace(&mut self.held, Held::Nothing) {
            Held::Own(pass) | Held::Outers(pass) => {
                let (pass, events) = self.handle.settle_early(self.route, self.policy, &pass);
                self.held = Held::SettledEarly(pass);
                events
            }
            other @ (Held::Nothing | Held::SettledEarly(_)) => {
                self.held = other;
                Vec::new()
            }
        }
    }

    /// Ends the attempt with its verdict.
    pub(super) fn settle(mut self, verdict: &Verdict) -> Vec<EventRecord> {
        match std::mem::replace(&mut self.held, Held::Nothing) {
            Held::Own(pass) | Held::Outers(pass) | Held::SettledEarly(pass) => {
                self.handle.settle(self.route, self.policy, pass, verdict)
            }
            Held::Nothing => Vec::new(),
        }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Held::Own(pass) = std::mem::replace(&mut self.held, Held::Nothing) {
            self.handle.give_back(self.route, self.policy, pass);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfopen::store::Location;
    use halfopen_core::circuit_id::CircuitId;
    use halfopen_core::outcome::Reached;
    use halfopen_core::pair::Answer;
    use halfopen_core::permit::Ask;
    use halfopen_core::policy::Surface;
    use halfopen_core::verdict::Class;
    use std::num::NonZeroU32;

    fn granted(handle: &Handle, route: &Route, policy: &Policy) -> Option<Pass> {
        match handle.admit(route, policy, Ask::Fresh) {
            Answer::Granted(pass) => Some(pass),
            Answer::Refused { .. } => None,
        }
    }

    /// Returns the pass of the one probe, as soon as the cooldown is over.
    fn probe(handle: &Handle, route: &Route, policy: &Policy) -> Pass {
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(pass) = granted(handle, route, policy) {
                return pass;
            }
            assert!(std::time::Instant::now() < deadline, "the cooldown does not end");
            std::thread::yield_now();
        }
    }

    /// Drill B: a panic in the guarded section frees the half-open slot.
    #[test]
    fn a_panic_gives_the_probe_back() {
        let handle = Handle::open(&Location::Memory).unwrap();
        let route = Route { place: CircuitId::whole("ocr").unwrap(), account: None };
        let mut policy = Policy::built_in("ocr", Surface::Run);
        policy.circuit.open_after_failures = NonZeroU32::MIN;
        policy.circuit.open_for = Duration::from_millis(10);
        policy.circuit.probe_lease = Duration::from_secs(3600);
        let failed = Verdict::plain(Class::ServerError, "test", Reached::Answered);
        let pass = granted(&handle, &route, &policy).unwrap();
        Guard::own(&handle, &route, &policy, pass).settle(&failed);
        assert!(granted(&handle, &route, &policy).is_none(), "open");

        let pass = probe(&handle, &route, &policy);
        assert!(granted(&handle, &route, &policy).is_none(), "the only probe is out");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let guard = Guard::own(&handle, &route, &policy, pass);
            assert!(guard.is_probe() && guard.renew_every().is_some());
            std::panic::resume_unwind(Box::new("in the guarded section"));
        }));
        assert!(panicked.is_err());
        let pass = granted(&handle, &route, &policy).expect("the slot is free again");
        Guard::own(&handle, &route, &policy, pass).settle(&Verdict::plain(Class::Success, "test", Reached::Answered));
        assert!(granted(&handle, &route, &policy).is_some(), "closed");
    }

    /// DESIGN section 7: long work is judged early, and a later failure of it is one new failure.
    #[test]
    fn a_failure_after_an_early_success_counts() {
        let handle = Handle::open(&Location::Memory).unwrap();
        let route = Route { place: CircuitId::whole("agent").unwrap(), account: None };
        let mut policy = Policy::built_in("agent", Surface::Run);
        policy.circuit.open_after_failures = NonZeroU32::MIN;
        policy.circuit.open_for = Duration::from_millis(10);
        let failed = Verdict::plain(Class::ServerError, "test", Reached::Answered);
        let pass = granted(&handle, &route, &policy).unwrap();
        Guard::own(&handle, &route, &policy, pass).settle(&failed);

        let mut guard = Guard::own(&handle, &route, &policy, probe(&handle, &route, &policy));
        guard.settle_early();
        assert!(granted(&handle, &route, &policy).is_some(), "the early success closed the breaker");
        guard.settle(&failed);
        assert!(granted(&handle, &route, &policy).is_none(), "the failure that followed opened it again");
    }
}
