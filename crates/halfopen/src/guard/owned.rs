//! The same door for programs that must not block: what can be answered from the snapshot at once, and the rest in
//! steps that the program carries to a thread of its choice.
//!
//! [`Guard::unread`] and [`Guard::quick`] never block. Everything else here may read and write the store, so an async program calls it on a
//! thread that may wait. That includes dropping a [`Permitted`] that holds something ([`Permitted::holds`]).

use std::sync::Arc;
use std::time::Duration;

use halfopen_core::pair::{Pass, Side};
use halfopen_core::permit::{Ask, Permit, PermitKind};
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::verdict::Verdict;

use super::snapshot::{Inner, Word};
use super::{Guard, Refused, coarse, success, watch};
use crate::handle::{Handle, Route};

/// Leases are renewed three times before they would end, and not more often than this.
const RENEW_SHORTEST: Duration = Duration::from_millis(20);

/// A call that was let through, with the guard that let it. Dropped without being settled, it gives its permit back.
#[must_use = "dropping it gives the permit back"]
#[derive(Debug)]
pub struct Permitted {
    guard: Guard,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Admitted from a snapshot: the word, and the coarse time.
    Free(Word, u64),
    /// Admitted by the door.
    Pass(Box<Pass>),
    /// What is left of a pass that was judged early.
    Early(Box<Pass>),
    Settled,
}

/// The right to renew the lease of one attempt, apart from the attempt.
#[derive(Debug)]
pub struct Renewal {
    guard: Guard,
    pass: Pass,
}

impl Guard {
    /// Returns a guard without a snapshot: it takes its first one when the door is asked, or within 100 ms.
    #[must_use]
    pub fn unread(handle: &Arc<Handle>, route: Route, policy: Policy) -> Self {
        let inner = Arc::new(Inner::new(handle, route, policy));
        // Without its threads a guard works, by asking the door each time.
        if coarse::start() && watch::watch(&inner) {
            inner.is_watched();
        }
        Self { inner }
    }

    /// Answers from the snapshot, without blocking; `None` if only the door can answer ([`Guard::ask_owned`]).
    #[inline]
    #[must_use]
    pub fn quick(&self) -> Option<Result<Permitted, Refused>> {
        let word = self.inner.word();
        let now_ms = coarse::now_ms();
        if word.is_free(now_ms) {
            return Some(Ok(Permitted { guard: self.clone(), state: State::Free(word, now_ms) }));
        }
        if word.is_good(now_ms) { self.inner.refused_from(word).map(Err) } else { None }
    }

    /// Returns whether the snapshot would refuse a fresh call now. Where it cannot answer, the door is worth asking.
    #[must_use]
    pub fn looks_refused(&self) -> bool {
        let word = self.inner.word();
        word.is_good(coarse::now_ms()) && word.is_refusal()
    }

    /// Asks the door. Blocks.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub fn ask_owned(&self, ask: Ask) -> Result<Permitted, Refused> {
        self.inner.look_once();
        let pass = self.inner.ask(ask)?;
        Ok(Permitted { guard: self.clone(), state: State::Pass(Box::new(pass)) })
    }

    /// Notes that a caller which `side` refused waits and comes back: once for each caller. Blocks.
    pub fn hold_back(&self, side: Side) {
        self.inner.hold_back(side);
    }

    /// Returns whether neither a call nor a circuit needs it any more: nobody else holds it, no call that it let
    /// through goes on, and as far as the snapshot says its circuits let everybody through.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        Arc::strong_count(&self.inner) == 1 && self.inner.word().is_free(coarse::now_ms())
    }

    /// Returns the circuits that judge the calls of this guard.
    #[must_use]
    pub fn route(&self) -> &Route {
        self.inner.route()
    }

    /// Returns the rules it acts by.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        self.inner.policy()
    }
}

impl Permitted {
    /// Ends the call as a success if that changes nothing, without blocking.
    ///
    /// # Errors
    ///
    /// Itself, if a success changes something: then it takes [`Permitted::settle`].
    #[inline]
    pub fn succeed_quickly(mut self) -> Result<(), Self> {
        if let State::Free(word, _) = self.state
            && self.guard.inner.settles_free(word)
        {
            self.state = State::Settled;
            return Ok(());
        }
        Err(self)
    }

    /// Ends the call as a success; returns what that changed. Blocks.
    pub fn succeed(self) -> Vec<EventRecord> {
        self.settle(&success())
    }

    /// Ends the call with its verdict; returns what that changed. Blocks.
    pub fn settle(mut self, verdict: &Verdict) -> Vec<EventRecord> {
        let inner = &self.guard.inner;
        match std::mem::replace(&mut self.state, State::Settled) {
            State::Free(word, admitted_ms) => inner.settle(inner.pass_of(word, admitted_ms), verdict),
            State::Pass(pass) | State::Early(pass) => inner.settle(*pass, verdict),
            State::Settled => Vec::new(),
        }
    }

    /// Judges a probe as a success while its attempt goes on; a failure that follows is a new one. Blocks.
    pub fn settle_early(&mut self) -> Vec<EventRecord> {
        match std::mem::replace(&mut self.state, State::Settled) {
            State::Pass(pass) => {
                let (pass, events) = self.guard.inner.settle_early(&pass);
                self.state = State::Early(Box::new(pass));
                events
            }
            other @ (State::Free(..) | State::Early(_) | State::Settled) => {
                self.state = other;
                Vec::new()
            }
        }
    }

    /// Returns whether the breaker waits for this attempt's verdict.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.any(|permit| permit.kind == PermitKind::Probe)
    }

    /// Returns whether dropping it gives something back, and so may block.
    #[must_use]
    pub fn holds(&self) -> bool {
        matches!(self.state, State::Pass(_))
    }

    /// Returns how the lease is renewed and how often, if there is one.
    #[must_use]
    pub fn renewal(&self) -> Option<(Renewal, Duration)> {
        let State::Pass(pass) = &self.state else { return None };
        if !self.any(|permit| permit.ramped || permit.kind == PermitKind::Probe) {
            return None;
        }
        let circuit = &self.guard.policy().circuit;
        let every = (circuit.probe_lease.min(circuit.lease) / 3).max(RENEW_SHORTEST);
        Some((Renewal { guard: self.guard.clone(), pass: (**pass).clone() }, every))
    }

    fn any(&self, is: impl Fn(&Permit) -> bool) -> bool {
        let State::Pass(pass) = &self.state else { return false };
        is(&pass.place) || pass.account.as_ref().is_some_and(&is)
    }
}

impl Drop for Permitted {
    #[inline]
    fn drop(&mut self) {
        // Whoever was admitted from a snapshot, or judged early, holds nothing that could be given back.
        if let State::Pass(pass) = std::mem::replace(&mut self.state, State::Settled) {
            self.guard.inner.give_back(*pass);
        }
    }
}

impl Renewal {
    /// Extends the lease; returns whether the pass is still live. Blocks.
    #[must_use]
    pub fn renew(&self) -> bool {
        self.guard.inner.renew(&self.pass)
    }
}
