//! Stories of two circuits that judge one call: whom a verdict is about, and that both grant or neither does.

use halfopen_core::chance::Chance;
use halfopen_core::circuit::{Circuit, Facts};
use halfopen_core::event::State;
use halfopen_core::pair::{self, Answer, Pair, Pass, Side};
use halfopen_core::permit::{Ask, PermitKind, Refusal, RefusalReason};
use halfopen_core::policy::Policy;
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{About, Class, Verdict};
use proptest::prelude::*;
use test_case::test_case;

use crate::world::{World, failure, hinted, millis, secs, success};

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

    fn states(&self) -> (State, State) {
        (self.place.status(&self.policy, self.now).state, self.account.status(&self.policy, self.now).state)
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

#[test]
fn when_both_refuse_the_later_end_is_told() {
    let mut two = Two::new();
    let passes: Vec<_> = (0..2).map(|_| two.ask(Ask::Fresh).unwrap()).collect();
    two.settle(&passes[0], &hinted(Class::RateLimited, two.now, secs(20)));
    two.settle(&passes[1], &hinted(Class::Overloaded, two.now, secs(50)));
    let (side, refusal) = two.ask(Ask::Fresh).unwrap_err();
    assert_eq!((side, refusal.retry_at), (Side::Place, Some(two.now + secs(50))));
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
