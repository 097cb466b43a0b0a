//! Stories of two circuits that judge one call: whom a verdict is about, and that both grant or neither does.

use std::time::Duration;

use halfopen_core::chance::Chance;
use halfopen_core::circuit::{Circuit, Facts, Hold};
use halfopen_core::event::State;
use halfopen_core::pair::{self, Answer, Pair, PairEvents, Pass, Side};
use halfopen_core::permit::{Admission, Ask, Permit, PermitKind, Refusal, RefusalReason, Slot};
use halfopen_core::policy::Policy;
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{About, Class, Verdict};
use proptest::prelude::*;
use test_case::test_case;

use crate::world::{World, by, failure, hinted, millis, secs, success};

/// A place, an account, and their clock.
#[derive(Clone)]
struct Two {
    policy: Policy,
    place: Circuit,
    account: Circuit,
    now: Timestamp,
    draws: u64,
}

impl Two {
    fn new() -> Self {
        let World { policy, circuit, now, .. } = World::ocr();
        Self { policy, place: circuit.clone(), account: circuit, now, draws: 0 }
    }

    fn pair(&mut self) -> (Pair<'_>, &Policy, Timestamp, Chance) {
        self.draws += 1;
        let chance = Chance::from_seed(self.draws);
        let pair = Pair { place: &mut self.place, account: Some(&mut self.account) };
        (pair, &self.policy, self.now, chance)
    }

    fn ask(&mut self, ask: Ask) -> Result<Pass, (Side, Refusal)> {
        let (mut pair, policy, now, chance) = self.pair();
        match pair.admit(policy, ask, now, chance).0 {
            Answer::Granted(pass) => Ok(pass),
            Answer::Refused { side, refusal } => Err((side, refusal)),
        }
    }

    fn settle(&mut self, pass: &Pass, verdict: &Verdict) {
        let (mut pair, policy, now, chance) = self.pair();
        let _ = pair.settle(policy, pass, verdict, Facts::default(), now, chance);
    }

    fn call(&mut self, verdict: &Verdict) {
        let pass = self.ask(Ask::Fresh).expect("nothing keeps anybody out");
        self.settle(&pass, verdict);
    }

    fn hold_back(&mut self, side: Side, callers: u32) {
        for _ in 0..callers {
            let (mut pair, policy, now, _) = self.pair();
            let _ = pair.hold_back(policy, side, now);
        }
    }

    /// Ends two attempts with waits that are stated by the place and by the account.
    fn throttle(&mut self, place: Duration, account: Duration) {
        let passes: Vec<_> = (0..2).map(|_| self.ask(Ask::Fresh).unwrap()).collect();
        self.settle(&passes[0], &hinted(Class::RateLimited, self.now, account));
        self.settle(&passes[1], &hinted(Class::Overloaded, self.now, place));
    }

    /// Lets a ramp begin on both sides, at one start in a second and with room for ten.
    fn ramps(&mut self) {
        self.throttle(secs(20), secs(20));
        self.hold_back(Side::Place, 10);
        self.hold_back(Side::Account, 10);
        self.now = self.now + secs(20);
        let (mut pair, policy, now, _) = self.pair();
        let _ = pair.expire(policy, Facts::default().into(), now);
    }

    /// Opens both breakers and lets their cooldowns pass.
    fn open_both(&mut self) {
        let passes: Vec<_> = (0..10).map(|_| self.ask(Ask::Fresh).unwrap()).collect();
        for (nth, pass) in passes.iter().enumerate() {
            self.settle(pass, &failure(if nth < 5 { Class::ServerError } else { Class::RateLimited }));
        }
        assert_eq!(self.states(), (State::Open, State::Open));
        self.now = self.now + secs(132);
    }

    /// Asks one of the circuits as a caller of its own that waited.
    fn alone(&mut self, side: Side) -> Result<Permit, Refusal> {
        self.draws += 1;
        let circuit = if side == Side::Place { &mut self.place } else { &mut self.account };
        match circuit.admit(&self.policy, Ask::Waited(None), self.now, Chance::from_seed(self.draws)).0 {
            Admission::Granted(permit) => Ok(permit),
            Admission::Refused(refusal) => Err(refusal),
        }
    }

    fn renew(&mut self, pass: &Pass) -> bool {
        let (mut pair, policy, now, _) = self.pair();
        pair.renew(policy, pass, now)
    }

    fn give_back(&mut self, pass: &Pass) {
        let (mut pair, policy, now, chance) = self.pair();
        let _ = pair.give_back(policy, pass, Facts::default(), now, chance);
    }

    fn is_free(&self, pass: &Pass, verdict: &Verdict) -> bool {
        pair::settles_for_free(&self.place, Some(&self.account), &self.policy, pass, verdict, self.now)
    }

    fn probes(&self) -> (u32, u32) {
        let probes = |circuit: &Circuit| circuit.status(&self.policy, self.now).probes_in_flight;
        (probes(&self.place), probes(&self.account))
    }

    fn states(&self) -> (State, State) {
        (self.place.status(&self.policy, self.now).state, self.account.status(&self.policy, self.now).state)
    }
}

fn other(side: Side) -> Side {
    match side {
        Side::Place => Side::Account,
        Side::Account => Side::Place,
    }
}

/// An outage opens once, and one bad key never opens its siblings.
#[test_case(Class::ServerError, State::Open, State::Closed)]
#[test_case(Class::Timeout, State::Open, State::Closed)]
#[test_case(Class::RateLimited, State::Closed, State::Open)]
#[test_case(Class::QuotaExhausted, State::Closed, State::Open)]
#[test_case(Class::Auth, State::Closed, State::Closed)]
#[test_case(Class::InvalidRequest, State::Closed, State::Closed)]
fn a_verdict_settles_on_the_circuit_it_is_about(class: Class, place: State, account: State) {
    let mut two = Two::new();
    let passes: Vec<_> = (0..5).map(|_| two.ask(Ask::Fresh).unwrap()).collect();
    for pass in &passes {
        two.settle(pass, &failure(class));
    }
    assert_eq!(two.states(), (place, account));
}

#[test]
fn a_rule_may_say_that_a_class_is_about_somebody_else() {
    let mut two = Two::new();
    let verdict = Verdict { about: About::Place, ..failure(Class::RateLimited) };
    for _ in 0..5 {
        two.call(&verdict);
    }
    assert_eq!(two.states(), (State::Open, State::Closed));
}

#[test]
fn without_an_account_one_circuit_takes_both_kinds_of_verdict() {
    let mut two = Two::new();
    for class in [Class::ServerError, Class::RateLimited, Class::ServerError, Class::RateLimited, Class::Timeout] {
        let mut pair = Pair { place: &mut two.place, account: None };
        let (answer, _) = pair.admit(&two.policy, Ask::Fresh, two.now, Chance::from_seed(1));
        let Answer::Granted(pass) = answer else { panic!("closed") };
        let _ = pair.settle(&two.policy, &pass, &failure(class), Facts::default(), two.now, Chance::from_seed(1));
    }
    assert_eq!(two.states().0, State::Open);
}

#[test]
fn a_success_closes_both() {
    let mut two = Two::new();
    for class in [Class::ServerError, Class::RateLimited] {
        let passes: Vec<_> = (0..5).map(|_| two.ask(Ask::Fresh).unwrap()).collect();
        for pass in &passes {
            two.settle(pass, &failure(class));
        }
        if class == Class::ServerError {
            // The account must still be reachable to be judged: bring the place back first.
            two.now = two.now + secs(132);
            two.call(&success());
            two.call(&success());
        }
    }
    two.now = two.now + secs(132);
    assert_eq!(two.states(), (State::Closed, State::HalfOpen));
    two.call(&success());
    two.call(&success());
    assert_eq!(two.states(), (State::Closed, State::Closed));
}

/// A probe slot taken on one side is returned when the other side refuses.
#[test]
fn both_grant_or_neither_gives_anything_away() {
    let mut two = Two::new();
    for _ in 0..5 {
        two.call(&failure(Class::ServerError));
    }
    two.now = two.now + secs(132);
    let pass = two.ask(Ask::Fresh).unwrap();
    two.settle(&pass, &hinted(Class::RateLimited, two.now, secs(60)));
    let before = two.place.clone();
    for _ in 0..10 {
        let (side, refusal) = two.ask(Ask::Fresh).unwrap_err();
        assert_eq!((side, refusal.reason), (Side::Account, RefusalReason::Throttled));
    }
    assert_eq!(two.place, before, "no probe slot of the place was used");
    two.now = two.now + secs(60);
    let pass = two.ask(Ask::Fresh).unwrap();
    let account = pass.account.as_ref().unwrap();
    assert_eq!((pass.place.kind, account.kind), (PermitKind::Probe, PermitKind::Regular));
    assert_ne!(pass.place.id, account.id);
}

#[test_case(50, 20, Side::Place)]
#[test_case(20, 50, Side::Account)]
#[test_case(50, 50, Side::Place; "of two equal ends the place's")]
fn when_both_refuse_the_later_end_is_told(place: u64, account: u64, told: Side) {
    let mut two = Two::new();
    two.throttle(secs(place), secs(account));
    let (side, refusal) = two.ask(Ask::Fresh).unwrap_err();
    assert_eq!((side, refusal.retry_at), (told, Some(two.now + secs(50))));
    let peeked = pair::peek(&two.place, Some(&two.account), &two.policy, Ask::Fresh, two.now, Chance::from_seed(1));
    assert_eq!(peeked, Some(Answer::Refused { side, refusal }));
}

#[test]
fn callers_wait_for_the_circuit_that_refused_them() {
    let mut two = Two::new();
    two.throttle(secs(20), secs(50));
    two.hold_back(Side::Place, 3);
    two.hold_back(Side::Account, 2);
    let waiting = |circuit: &Circuit| circuit.status(&two.policy, two.now).waiting;
    assert_eq!((waiting(&two.place), waiting(&two.account)), (3, 2));
}

#[test]
fn what_both_would_grant_and_what_changes_neither_needs_no_lock() {
    let mut two = Two::new();
    let peeked = pair::peek(&two.place, Some(&two.account), &two.policy, Ask::Fresh, two.now, Chance::from_seed(1));
    assert!(matches!(peeked, Some(Answer::Granted(Pass { account: Some(_), .. }))), "{peeked:?}");
    let pass = two.ask(Ask::Fresh).unwrap();
    assert!(two.is_free(&pass, &success()));
    assert!(!two.is_free(&pass, &failure(Class::ServerError)) && !two.is_free(&pass, &failure(Class::RateLimited)));
    // What nobody recognises says nothing about the place, what is the caller's own fault nothing about the account.
    let about_account = Verdict { about: About::Account, ..failure(Class::InvalidRequest) };
    for neutral in [failure(Class::UnknownFailure), about_account] {
        assert!(two.is_free(&pass, &neutral));
    }
}

/// What time has to change is changed first, on whichever side.
#[test_case(Side::Place, Verdict { about: About::Account, ..failure(Class::InvalidRequest) }; "the place's")]
#[test_case(Side::Account, failure(Class::UnknownFailure); "the account's")]
fn nothing_is_free_on_a_circuit_whose_time_has_come(side: Side, neutral: Verdict) {
    let mut two = Two::new();
    let held = Hold { state: State::Closed, until: Some(two.now + secs(60)), by: by() };
    let circuit = if side == Side::Place { &mut two.place } else { &mut two.account };
    let _ = circuit.hold(&two.policy, held, two.now);
    let pass = two.ask(Ask::Fresh).unwrap();
    two.now = two.now + millis(59_999);
    assert!(two.is_free(&pass, &neutral));
    two.now = two.now + millis(1);
    assert!(!two.is_free(&pass, &neutral));
}

#[test]
fn both_probes_are_renewed_and_given_back_together() {
    let mut two = Two::new();
    two.open_both();
    let pass = two.ask(Ask::Fresh).unwrap();
    assert_eq!(pass.account.as_ref().map(|permit| permit.kind), Some(PermitKind::Probe));
    two.now = two.now + secs(20);
    assert!(two.renew(&pass));
    two.now = two.now + millis(17_999);
    assert_eq!(two.probes(), (1, 1), "both leases were extended");
    let mut other = two.clone();
    other.give_back(&pass);
    assert_eq!(other.probes(), (0, 0));
    // One that is lost on either side is lost.
    for side in [Side::Place, Side::Account] {
        let mut one = two.clone();
        let circuit = if side == Side::Place { &mut one.place } else { &mut one.account };
        let _ = circuit.reset(&one.policy, by(), one.now);
        assert!(!one.renew(&pass), "{side:?}");
    }
}

#[test]
fn time_passes_for_both() {
    let mut two = Two::new();
    two.throttle(secs(20), secs(20));
    two.hold_back(Side::Place, 1);
    two.hold_back(Side::Account, 1);
    two.now = two.now + secs(20);
    let (mut pair, policy, now, _) = two.pair();
    let mut events = pair.expire(policy, Facts::default().into(), now);
    assert_eq!((events.place.len(), events.account.len()), (1, 1), "a ramp begins on either side");
    let first = events.clone();
    assert!(!events.is_empty());
    events.append(first.clone());
    assert_eq!((events.place.len(), events.account.len()), (2, 2));
    let place = PairEvents { account: Vec::new(), ..first.clone() };
    let account = PairEvents { place: Vec::new(), ..first };
    assert!(!place.is_empty() && !account.is_empty() && PairEvents::default().is_empty());
}

#[test]
fn both_are_told_how_many_jobs_wait() {
    let mut two = Two::new();
    two.open_both();
    for _ in 0..2 {
        let pass = two.ask(Ask::Fresh).unwrap();
        let (mut pair, policy, now, chance) = two.pair();
        let _ = pair.settle(policy, &pass, &success(), Facts { jobs_queued: 5 }, now, chance);
    }
    let rate = |circuit: &Circuit| circuit.status(&two.policy, two.now).ramp_per_sec;
    assert_eq!((rate(&two.place), rate(&two.account)), (Some(1.0), Some(1.0)), "jobs are left, so they return paced");
}

/// A caller can keep one appointment: the ramp whose slot it shows paces it, the other only counts the start.
#[test_case(Side::Place)]
#[test_case(Side::Account)]
fn a_slot_of_one_ramp_passes_the_other_which_moves_on(side: Side) {
    let mut two = Two::new();
    two.ramps();
    let begun = two.now;
    // The ramp that is to give out the slot is one start ahead of the other.
    let _ = two.alone(side).unwrap();
    let _ = two.alone(side).unwrap_err();
    let _ = two.alone(other(side)).unwrap();
    let (told, refusal) = two.ask(Ask::Waited(None)).unwrap_err();
    let slot = refusal.slot.unwrap();
    assert_eq!((told, slot.side, slot.at), (side, side, begun + secs(2)));
    two.now = slot.at;
    let _ = two.alone(other(side)).expect("the other ramp's start of this instant is somebody else's");
    let _ = two.ask(Ask::Waited(Some(slot))).expect("it keeps its appointment");
    let next = two.alone(other(side)).unwrap_err().retry_at;
    assert_eq!(next, Some(begun + secs(2 + 2)), "two have started there");
}

#[test_case(Side::Place)]
#[test_case(Side::Account)]
fn a_slot_of_a_ramp_that_is_over_passes_no_other(over: Side) {
    let mut two = Two::new();
    two.ramps();
    let circuit = if over == Side::Place { &mut two.place } else { &mut two.account };
    *circuit = Circuit::new();
    let _ = two.alone(other(over)).expect("the first start is at once");
    let stale = Slot { side: over, at: two.now, schedule: 1 };
    let (side, refusal) = two.ask(Ask::Waited(Some(stale))).unwrap_err();
    assert_eq!((side, refusal.reason), (other(over), RefusalReason::Ramp));
}

/// Two ramps at once do not send a caller from one to the other for ever.
#[test]
fn callers_held_by_both_ramps_all_start() {
    let mut two = Two::new();
    let passes: Vec<_> = (0..2).map(|_| two.ask(Ask::Fresh).unwrap()).collect();
    two.settle(&passes[0], &hinted(Class::RateLimited, two.now, secs(20)));
    two.settle(&passes[1], &hinted(Class::Overloaded, two.now, secs(20)));
    two.hold_back(Side::Place, 20);
    two.hold_back(Side::Account, 20);
    let back = two.now + secs(20);
    let mut due: Vec<_> = (0..40).map(|_| (back, Ask::Waited(None))).collect();
    let (mut started, mut asks) = (0, 0);
    while !due.is_empty() {
        due.sort_by_key(|(at, _)| *at);
        let (at, ask) = due.remove(0);
        two.now = at;
        asks += 1;
        // Each asks once for its slot and once with it; a few slots are lost where the two ramps meet.
        assert!(at <= back + secs(60) && asks <= 100, "{started} of 40 have started after {asks} asks at {at:?}");
        match two.ask(ask) {
            Ok(pass) => {
                started += 1;
                two.settle(&pass, &success());
            }
            Err((_, refusal)) => due.push((refusal.retry_at.unwrap(), Ask::Waited(refusal.slot))),
        }
    }
    assert_eq!(started, 40);
}

proptest! {
    /// A snapshot of two answers what both would under the lock; what settles for free changes neither.
    #[test]
    fn peeking_and_free_settling_agree_with_the_lock(
        steps in prop::collection::vec((0usize..11, 0u64..40, any::<bool>(), 0u64..200), 1..60)
    ) {
        let mut two = Two::new();
        for (class, hint, settle, wait) in steps {
            two.now = two.now + millis(wait * 500);
            let chance = Chance::from_seed(two.draws + 1);
            let peeked = pair::peek(&two.place, Some(&two.account), &two.policy, Ask::Fresh, two.now, chance);
            let before = (two.place.clone(), two.account.clone());
            let answer = two.ask(Ask::Fresh);
            if let Some(peeked) = peeked {
                prop_assert_eq!((&before.0, &before.1), (&two.place, &two.account));
                match peeked {
                    Answer::Granted(pass) => prop_assert_eq!(answer.clone().unwrap(), pass),
                    Answer::Refused { side, refusal } => prop_assert_eq!(answer.clone().unwrap_err(), (side, refusal)),
                }
            }
            if answer.is_err() {
                let probes = |circuit: &Circuit| circuit.status(&two.policy, two.now).probes_in_flight;
                prop_assert!(probes(&two.place) <= before.0.status(&two.policy, two.now).probes_in_flight);
                prop_assert!(probes(&two.account) <= before.1.status(&two.policy, two.now).probes_in_flight);
            }
            if let Ok(pass) = answer && settle {
                let class = Class::ALL[class];
                let verdict =
                    if hint < 20 { failure(class) } else { hinted(class, two.now, secs(hint)) };
                let free =
                    pair::settles_for_free(&two.place, Some(&two.account), &two.policy, &pass, &verdict, two.now);
                let before = (two.place.clone(), two.account.clone());
                two.settle(&pass, &verdict);
                if free {
                    prop_assert_eq!((&before.0, &before.1), (&two.place, &two.account));
                }
            }
        }
    }
}
