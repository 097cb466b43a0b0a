//! Judges a call by up to two circuits at once: its place and its account.
//!
//! A verdict settles on the circuit it is about and is neutral on the other, so an outage opens once and not once per
//! key, and one bad key never opens its siblings. A success speaks for both. Without an account the place's circuit
//! takes both kinds of verdict.
//!
//! Both grant, or neither gives anything away: each circuit is asked on a copy, and a copy whose grant is not used is
//! thrown away, with its probe slot and its start slot. Copies are made only where both have a say and the answer may
//! change something; the plain case is answered by [`peek`] without one.
//!
//! **Two ramps.** A caller that was held back can show only one start slot, so it cannot be asked to meet two
//! schedules at the same instant: it would be sent from one to the other for ever. The ramp whose slot it shows paces
//! it; the other ramp counts the start and moves on by one interval.

use crate::chance::Chance;
use crate::circuit::{Circuit, Facts, Pacing, Peek};
use crate::event::Event;
use crate::permit::{Admission, Ask, Permit, Refusal};
use crate::policy::Policy;
use crate::time::Timestamp;
use crate::verdict::{About, Class, Verdict};

pub use crate::permit::Side;

/// The circuits that judge one call. Without an account there is one circuit, which takes both kinds of verdict.
#[derive(Debug)]
pub struct Pair<'a> {
    /// The dependency, or its region.
    pub place: &'a mut Circuit,
    /// The credential, or the model.
    pub account: Option<&'a mut Circuit>,
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

/// What the caller knows beside the verdict, for either circuit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairFacts {
    /// For the place's.
    pub place: Facts,
    /// For the account's.
    pub account: Facts,
}

impl From<Facts> for PairFacts {
    /// Takes the same for both.
    fn from(facts: Facts) -> Self {
        Self { place: facts, account: facts }
    }
}

impl PairEvents {
    /// Adds later events.
    pub fn append(&mut self, mut later: Self) {
        self.place.append(&mut later.place);
        self.account.append(&mut later.account);
    }

    /// Returns whether nothing happened on either side.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.place.is_empty() && self.account.is_empty()
    }
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
    let on_place = match place.peek(policy, ask_of(Side::Place, ask), now, chance.nth(PLACE)) {
        Peek::Granted(permit) => Ok(permit),
        Peek::Refused(refusal) => Err(refusal),
        Peek::MustLock => return None,
    };
    let on_account = match account.map(|account| account.peek(policy, ask_of(Side::Account, ask), now, on_side(chance)))
    {
        None => None,
        Some(Peek::Granted(permit)) => Some(Ok(permit)),
        Some(Peek::Refused(refusal)) => Some(Err(refusal)),
        Some(Peek::MustLock) => return None,
    };
    Some(match (on_place, on_account) {
        (Ok(place), None) => Answer::Granted(Pass { place, account: None }),
        (Ok(place), Some(Ok(account))) => Answer::Granted(Pass { place, account: Some(account) }),
        (Err(refusal), None | Some(Ok(_))) => refused(Side::Place, refusal),
        (Ok(_), Some(Err(refusal))) => refused(Side::Account, refusal),
        (Err(place), Some(Err(account))) => later(place, account),
    })
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
    let (Some(account), Some(permit)) = (account, &pass.account) else {
        return place.settles_for_free(policy, &pass.place, verdict, now);
    };
    match Target::of(verdict) {
        Target::Both => {
            place.settles_for_free(policy, &pass.place, verdict, now)
                && account.settles_for_free(policy, permit, verdict, now)
        }
        Target::One(Side::Place) => {
            place.settles_for_free(policy, &pass.place, verdict, now) && account.neutral_is_free(policy, permit, now)
        }
        Target::One(Side::Account) => {
            place.neutral_is_free(policy, &pass.place, now) && account.settles_for_free(policy, permit, verdict, now)
        }
    }
}

/// Whom a verdict is settled on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// Both; what the verdict means is the same for either.
    Both,
    /// One, and the other neutrally.
    One(Side),
}

impl Target {
    fn of(verdict: &Verdict) -> Self {
        match (verdict.class, verdict.about) {
            (Class::Success, _) => Self::Both,
            // A failure that nobody knows may be counted; then it is the dependency's.
            (Class::UnknownFailure, _) => Self::One(Side::Place),
            (_, About::Place) => Self::One(Side::Place),
            (_, About::Account) => Self::One(Side::Account),
            // Nobody's fault is neutral wherever it is settled.
            (_, About::Caller | About::Nobody) => Self::Both,
        }
    }
}

impl Pair<'_> {
    /// Lets time pass for both circuits.
    pub fn expire(&mut self, policy: &Policy, facts: PairFacts, now: Timestamp) -> PairEvents {
        PairEvents {
            place: self.place.expire(policy, facts.place, now),
            account: match self.account.as_deref_mut() {
                Some(account) => account.expire(policy, facts.account, now),
                None => Vec::new(),
            },
        }
    }

    /// Asks both circuits; both grant, or neither gives anything away.
    pub fn admit(&mut self, policy: &Policy, ask: Ask, now: Timestamp, chance: Chance) -> (Answer, PairEvents) {
        let Some(account) = self.account.as_deref_mut() else {
            let (admission, place) = self.place.admit(policy, ask_of(Side::Place, ask), now, chance.nth(PLACE));
            let answer = match admission {
                Admission::Granted(permit) => Answer::Granted(Pass { place: permit, account: None }),
                Admission::Refused(refusal) => refused(Side::Place, refusal),
            };
            return (answer, PairEvents { place, account: Vec::new() });
        };
        let mut events = PairEvents {
            place: self.place.pass_time(policy, None, now),
            account: account.pass_time(policy, None, now),
        };
        let (by_place, by_account) = pacing(self.place, account, ask);
        let mut place_after =
            Asked::new(self.place, policy, ask_of(Side::Place, ask), by_place, now, chance.nth(PLACE));
        let mut account_after =
            Asked::new(account, policy, ask_of(Side::Account, ask), by_account, now, on_side(chance));
        let answer = match (place_after.admission.clone(), account_after.admission.clone()) {
            (Admission::Granted(place), Admission::Granted(account)) => {
                Answer::Granted(Pass { place, account: Some(account) })
            }
            (Admission::Refused(refusal), Admission::Granted(_)) => refused(Side::Place, refusal),
            (Admission::Granted(_), Admission::Refused(refusal)) => refused(Side::Account, refusal),
            (Admission::Refused(place), Admission::Refused(account)) => later(place, account),
        };
        let (keep_place, keep_account) = match &answer {
            Answer::Granted(_) => (true, true),
            Answer::Refused { side: Side::Place, .. } => (true, false),
            Answer::Refused { side: Side::Account, .. } => (false, true),
        };
        if keep_place {
            events.place.append(&mut place_after.events);
            *self.place = place_after.circuit;
        }
        if keep_account {
            events.account.append(&mut account_after.events);
            *account = account_after.circuit;
        }
        (answer, events)
    }

    /// Notes that a caller which `side` refused is going to wait and come back: once for each caller.
    pub fn hold_back(&mut self, policy: &Policy, side: Side, now: Timestamp) -> PairEvents {
        match (side, self.account.as_deref_mut()) {
            (Side::Account, Some(account)) => PairEvents { place: Vec::new(), account: account.hold_back(policy, now) },
            (Side::Place, _) | (Side::Account, None) => {
                PairEvents { place: self.place.hold_back(policy, now), account: Vec::new() }
            }
        }
    }

    /// Settles a verdict on the circuit it is about, and neutrally on the other.
    pub fn settle(
        &mut self,
        policy: &Policy,
        pass: &Pass,
        verdict: &Verdict,
        facts: impl Into<PairFacts>,
        now: Timestamp,
        chance: Chance,
    ) -> PairEvents {
        let PairFacts { place: facts, account: account_facts } = facts.into();
        let place_chance = chance.nth(PLACE);
        let (Some(account), Some(permit)) = (self.account.as_deref_mut(), &pass.account) else {
            let place = self.place.settle(policy, &pass.place, verdict, facts, now, place_chance);
            return PairEvents { place, account: Vec::new() };
        };
        let class = Some(verdict.class);
        let target = Target::of(verdict);
        let place = match target {
            Target::Both | Target::One(Side::Place) => {
                self.place.settle(policy, &pass.place, verdict, facts, now, place_chance)
            }
            Target::One(Side::Account) => {
                self.place.settle_neutral(policy, &pass.place, class, facts, now, place_chance)
            }
        };
        let account = match target {
            Target::Both | Target::One(Side::Account) => {
                account.settle(policy, permit, verdict, account_facts, now, on_side(chance))
            }
            Target::One(Side::Place) => {
                account.settle_neutral(policy, permit, class, account_facts, now, on_side(chance))
            }
        };
        PairEvents { place, account }
    }

    /// Judges long work early as a success on both circuits; returns the pass under which the attempt goes on.
    pub fn settle_early(
        &mut self,
        policy: &Policy,
        pass: &Pass,
        facts: impl Into<PairFacts>,
        now: Timestamp,
    ) -> (Pass, PairEvents) {
        let PairFacts { place: facts, account: account_facts } = facts.into();
        let (place, place_events) = self.place.settle_early(policy, &pass.place, facts, now);
        let mut events = PairEvents { place: place_events, account: Vec::new() };
        let account = match (self.account.as_deref_mut(), &pass.account) {
            (Some(account), Some(permit)) => {
                let (permit, account_events) = account.settle_early(policy, permit, account_facts, now);
                events.account = account_events;
                Some(permit)
            }
            (None, permit) | (Some(_), permit @ None) => permit.clone(),
        };
        (Pass { place, account }, events)
    }

    /// Gives both permits back without a verdict.
    pub fn give_back(
        &mut self,
        policy: &Policy,
        pass: &Pass,
        facts: impl Into<PairFacts>,
        now: Timestamp,
        chance: Chance,
    ) -> PairEvents {
        let PairFacts { place: facts, account: account_facts } = facts.into();
        let place = self.place.give_back(policy, &pass.place, facts, now, chance.nth(PLACE));
        let account = match (self.account.as_deref_mut(), &pass.account) {
            (Some(account), Some(permit)) => account.give_back(policy, permit, account_facts, now, on_side(chance)),
            (None, _) | (Some(_), None) => Vec::new(),
        };
        PairEvents { place, account }
    }

    /// Extends the leases of both permits; returns whether both are still live.
    pub fn renew(&mut self, policy: &Policy, pass: &Pass, now: Timestamp) -> bool {
        let on_place = self.place.renew(policy, &pass.place, now);
        let on_account = match (self.account.as_deref_mut(), &pass.account) {
            (Some(account), Some(permit)) => account.renew(policy, permit, now),
            (None, _) | (Some(_), None) => true,
        };
        on_place && on_account
    }
}

/// One circuit's answer, and the circuit as it is if the answer is used.
struct Asked {
    circuit: Circuit,
    admission: Admission,
    events: Vec<Event>,
}

impl Asked {
    fn new(circuit: &Circuit, policy: &Policy, ask: Ask, pacing: Pacing, now: Timestamp, chance: Chance) -> Self {
        let mut circuit = circuit.clone();
        let mut events = Vec::new();
        let admission = circuit.answer(policy, ask, pacing, now, chance, &mut events);
        Self { circuit, admission, events }
    }
}

/// Draws for the two circuits must differ, or their probes would carry one identity.
const PLACE: u64 = 10;
const ACCOUNT: u64 = 11;

fn on_side(chance: Chance) -> Chance {
    chance.nth(ACCOUNT)
}

/// Returns the ask as `side` may see it: the slot of the other circuit's ramp means nothing to it.
fn ask_of(side: Side, ask: Ask) -> Ask {
    match ask {
        Ask::Waited(slot) => Ask::Waited(slot.filter(|slot| slot.side == side)),
        Ask::Fresh | Ask::Job => ask,
    }
}

/// Returns who paces a caller on either side: the ramp whose slot it shows, if that is still good.
fn pacing(place: &Circuit, account: &Circuit, ask: Ask) -> (Pacing, Pacing) {
    match ask {
        Ask::Waited(Some(slot)) => match slot.side {
            Side::Place if place.honours(slot) => (Pacing::Own, Pacing::Other),
            Side::Account if account.honours(slot) => (Pacing::Other, Pacing::Own),
            Side::Place | Side::Account => (Pacing::Own, Pacing::Own),
        },
        Ask::Waited(None) | Ask::Fresh | Ask::Job => (Pacing::Own, Pacing::Own),
    }
}

/// Returns the refusal of `side`; its slot says whose it is.
fn refused(side: Side, mut refusal: Refusal) -> Answer {
    refusal.slot = refusal.slot.map(|slot| crate::permit::Slot { side, ..slot });
    Answer::Refused { side, refusal }
}

/// Returns the refusal that ends later; one without an end ends last.
fn later(place: Refusal, account: Refusal) -> Answer {
    let account_is_later = match (place.retry_at, account.retry_at) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(place), Some(account)) => account > place,
    };
    if account_is_later { refused(Side::Account, account) } else { refused(Side::Place, place) }
}
