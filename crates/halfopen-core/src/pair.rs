//! Judges a call by up to two circuits at once: its place and its account.

use crate::chance::Chance;
use crate::circuit::{Circuit, Facts, Peek};
use crate::event::Event;
use crate::permit::{Ask, Permit, Refusal};
use crate::policy::Policy;
use crate::time::Timestamp;
use crate::verdict::Verdict;

/// The circuits that judge one call. Without an account there is one circuit, which takes both kinds of verdict.
#[derive(Debug)]
pub struct Pair<'a> {
    /// The dependency, or its region.
    pub place: &'a mut Circuit,
    /// The credential, or the model.
    pub account: Option<&'a mut Circuit>,
}

/// Which circuit of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The place.
    Place,
    /// The account.
    Account,
}

/// The permits of one attempt, one for each circuit that judges it.
#[must_use = "a pass that is dropped without being settled keeps a probe's slot until its lease ends"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The place's permit.
    pub place: Permit,
    /// The account's permit.
    pub account: Option<Permit>,
}

/// What a pair answers.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Both let it through.
    Granted(Pass),
    /// One did not.
    Refused {
        /// Which.
        side: Side,
        /// Why, and until when; the later of two ends if both refuse.
        refusal: Refusal,
    },
}

/// The events of both circuits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairEvents {
    /// The place's.
    pub place: Vec<Event>,
    /// The account's.
    pub account: Vec<Event>,
}

/// Answers from snapshots, without changing them; `None` if one of them must be changed to answer.
#[must_use]
pub fn peek(
    place: &Circuit,
    account: Option<&Circuit>,
    policy: &Policy,
    ask: Ask,
    now: Timestamp,
    chance: Chance,
) -> Option<Answer> {
    let _ = (place, account, policy, ask, now, chance, Peek::MustLock);
    unimplemented!()
}

impl Pair<'_> {
    /// Asks both circuits; both grant, or neither gives anything away.
    pub fn admit(&mut self, _policy: &Policy, _ask: Ask, _now: Timestamp, _chance: Chance) -> (Answer, PairEvents) {
        unimplemented!()
    }

    /// Settles a verdict on the circuit it is about, and neutrally on the other.
    pub fn settle(
        &mut self,
        _policy: &Policy,
        _pass: &Pass,
        _verdict: &Verdict,
        _facts: Facts,
        _now: Timestamp,
        _chance: Chance,
    ) -> PairEvents {
        unimplemented!()
    }

    /// Gives both permits back without a verdict.
    pub fn give_back(
        &mut self,
        _policy: &Policy,
        _pass: &Pass,
        _facts: Facts,
        _now: Timestamp,
        _chance: Chance,
    ) -> PairEvents {
        unimplemented!()
    }
}

/// Returns whether settling would change neither circuit.
#[must_use]
pub fn settles_for_free(
    place: &Circuit,
    account: Option<&Circuit>,
    policy: &Policy,
    pass: &Pass,
    verdict: &Verdict,
    now: Timestamp,
) -> bool {
    let _ = (place, account, policy, pass, verdict, now);
    unimplemented!()
}
