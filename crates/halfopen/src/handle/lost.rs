//! Protects while the store is lost, and hands over what was learned when it is back.
//!
//! The breakers here start from what was last read: a deadline that is stored is honoured as long as it can be read.
//! Past it, every process probes for itself, with one probe at a time. When the store is back, failures are settled
//! there with the times they had, and hints extend what is stored by themselves. State, generation and escalation are
//! never merged: they were this process's view, and the store's is everybody's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

use halfopen_core::chance::Chance;
use halfopen_core::circuit::{Circuit, Facts};
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::event::State;
use halfopen_core::pair::{self, Answer, Pair, PairEvents, Pass};
use halfopen_core::permit::{Ask, Permit, PermitId, PermitKind, RefusalReason};
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::{self, EventRecord};
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{Class, Verdict};

use super::registry::Seats;
use super::{Route, Seen};
use crate::store::{StoreError, Txn};

/// How many circuits are kept in memory at most. Beyond it all partitions of a dependency share its whole.
const CIRCUITS_MAX: usize = 1024;
/// How many verdicts are remembered at most, the newest.
const REMEMBERED_MAX: usize = 1024;
/// How many passes granted here are remembered at most.
const PASSES_MAX: usize = 4096;

/// What is known without the store.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// The last state that was read of circuits that have one.
    seen: BTreeMap<CircuitId, Circuit>,
    /// The breakers in memory.
    circuits: BTreeMap<CircuitId, Circuit>,
    /// Passes that were granted here; their generations mean nothing to the store.
    passes: BTreeSet<PermitId>,
    remembered: VecDeque<Remembered>,
}

/// A verdict that the store has not seen.
#[derive(Clone, Debug)]
struct Remembered {
    route: Route,
    policy: Policy,
    verdict: Verdict,
    pass: Pass,
    at: Timestamp,
}

impl Lost {
    /// Notes what was read, to start from if the next reading fails.
    pub(super) fn note_seen(&mut self, route: &Route, seen: &Seen) {
        let mut note = |id: &CircuitId, circuit: &Circuit| {
            // Most circuits are new and clean, and cost nothing here.
            if *circuit == Circuit::new() {
                self.seen.remove(id);
            } else if self.seen.get(id) != Some(circuit)
                && (self.seen.len() < CIRCUITS_MAX || self.seen.contains_key(id))
            {
                self.seen.insert(id.clone(), circuit.clone());
            }
        };
        note(&route.place, &seen.place);
        if let (Some(id), Some(circuit)) = (route.account(), &seen.account) {
            note(id, circuit);
        }
    }

    /// Answers an ask. `seen` is what the store shows, if it can be read.
    pub(super) fn admit(
        &mut self,
        route: &Route,
        seen: Option<&Seen>,
        policy: &Policy,
        ask: Ask,
        now: Timestamp,
        chance: Chance,
    ) -> Answer {
        if let Some(seen) = seen
            && let Some(refused) = stored_deadline(seen, policy, ask, now, chance)
        {
            return refused;
        }
        let policy = alone(policy);
        let (answer, _) = self.with_pair(route, |pair| pair.admit(&policy, ask, now, chance));
        if let Answer::Granted(pass) = &answer {
            if self.passes.len() >= PASSES_MAX {
                self.passes.pop_first();
            }
            self.passes.insert(pass.place.id);
        }
        answer
    }

    /// Ends an attempt, and remembers what the store should know.
    pub(super) fn settle(
        &mut self,
        route: &Route,
        policy: &Policy,
        pass: &Pass,
        verdict: &Verdict,
        now: Timestamp,
        chance: Chance,
    ) -> Vec<EventRecord> {
        if verdict.class != Class::Success {
            if self.remembered.len() >= REMEMBERED_MAX {
                self.remembered.pop_front();
            }
            let (route, policy, verdict, pass) = (route.clone(), policy.clone(), verdict.clone(), pass.clone());
            self.remembered.push_back(Remembered { route, policy, verdict, pass, at: now });
        }
        let policy = alone(policy);
        let ((), events) =
            self.with_pair(route, |pair| ((), pair.settle(&policy, pass, verdict, Facts::default(), now, chance)));
        let record = |id: &CircuitId, events: &[halfopen_core::event::Event]| {
            let partition = id.partition().map(|(key, value)| format!("{key}={value}"));
            events
                .iter()
                .map(|event| snapshot::record(event, id.dependency(), partition.as_deref(), None))
                .collect::<Vec<_>>()
        };
        let mut records = record(&route.place, &events.place);
        if let Some(account) = route.account() {
            records.extend(record(account, &events.account));
        }
        records
    }

    /// Ends an attempt without a verdict.
    pub(super) fn give_back(&mut self, route: &Route, policy: &Policy, pass: &Pass, now: Timestamp, chance: Chance) {
        let policy = alone(policy);
        self.with_pair(route, |pair| ((), pair.give_back(&policy, pass, Facts::default(), now, chance)));
    }

    /// Returns whether a pass was granted here, and forgets it.
    pub(super) fn forget_pass(&mut self, pass: &Pass) -> bool {
        self.passes.remove(&pass.place.id)
    }

    /// Returns the breakers in memory, or else what was last read.
    pub(super) fn circuits(&self) -> BTreeMap<CircuitId, Circuit> {
        let mut circuits = self.seen.clone();
        circuits.extend(self.circuits.iter().map(|(id, circuit)| (id.clone(), circuit.clone())));
        circuits
    }

    /// Moves all remembered instants by `by_ms`: the clock got another anchor.
    pub(super) fn shift(&mut self, by_ms: i64) {
        let shift = |at: &mut Timestamp| *at = Timestamp::from_millis(at.as_millis().saturating_add(by_ms));
        for remembered in &mut self.remembered {
            shift(&mut remembered.at);
            shift(&mut remembered.pass.place.admitted_at);
            if let Some(permit) = &mut remembered.pass.account {
                shift(&mut permit.admitted_at);
            }
            if let Some(hint) = &mut remembered.verdict.hint {
                shift(&mut hint.until);
            }
        }
    }

    /// Settles in the store what it has not seen.
    pub(super) fn replay(&self, txn: &mut Txn<'_>, chance: Chance) -> Result<(), StoreError> {
        let now = txn.now();
        for (n, remembered) in (0..).zip(&self.remembered) {
            let Remembered { route, policy, verdict, pass, at } = remembered;
            // A failure that has left the window would only make noise; a hint that is over changes nothing.
            let hint_counts = verdict.hint.as_ref().is_some_and(|hint| hint.until > now);
            if now.since(*at) > policy.circuit.window && !hint_counts {
                continue;
            }
            let mut seats = Seats::take(txn, route)?;
            let mut pair = seats.pair();
            let pass = adopt(pass, &mut pair, policy, now);
            let events = pair.settle(policy, &pass, verdict, Facts::default(), *at, chance.nth(n));
            seats.put_back(txn, policy, &events)?;
        }
        Ok(())
    }

    /// Forgets what the store knows by now. Passes stay: their attempts are still out.
    pub(super) fn clear(&mut self) {
        self.circuits.clear();
        self.remembered.clear();
    }

    /// Lets `act` work on the breakers of a route, making them from what was last read if need be.
    fn with_pair<T>(&mut self, route: &Route, act: impl FnOnce(&mut Pair<'_>) -> (T, PairEvents)) -> (T, PairEvents) {
        let place_id = self.bounded(&route.place);
        let account_id = route.account().map(|id| self.bounded(id)).filter(|id| *id != place_id);
        let mut place = self.take(&place_id);
        let mut account = account_id.as_ref().map(|id| self.take(id));
        let done = act(&mut Pair { place: &mut place, account: account.as_mut() });
        self.circuits.insert(place_id, place);
        if let (Some(id), Some(circuit)) = (account_id, account) {
            self.circuits.insert(id, circuit);
        }
        done
    }

    fn take(&mut self, id: &CircuitId) -> Circuit {
        self.circuits.remove(id).or_else(|| self.seen.get(id).cloned()).unwrap_or_default()
    }

    fn bounded(&self, id: &CircuitId) -> CircuitId {
        if self.circuits.len() < CIRCUITS_MAX || self.circuits.contains_key(id) {
            return id.clone();
        }
        CircuitId::whole(id.dependency()).unwrap_or_else(|_| id.clone())
    }
}

/// Returns the refusal that a stored deadline or hold demands, if one does.
fn stored_deadline(seen: &Seen, policy: &Policy, ask: Ask, now: Timestamp, chance: Chance) -> Option<Answer> {
    let answer = pair::peek(&seen.place, seen.account.as_ref(), policy, ask, now, chance)?;
    let refused = match &answer {
        Answer::Granted(_) => false,
        Answer::Refused { refusal, .. } => match refusal.reason {
            RefusalReason::Open | RefusalReason::Throttled | RefusalReason::Held => true,
            // Others' probes and places in the ramp cannot be waited for: nobody can note that they ended.
            RefusalReason::ProbesOut | RefusalReason::Ramp => false,
        },
    };
    refused.then_some(answer)
}

/// Returns the policy of a process that cannot see the others: one probe at a time.
fn alone(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    policy.circuit.half_open_max_calls = NonZeroU32::MIN;
    policy
}

/// Returns a pass for an attempt that was admitted without the store, as the store would have granted it: a regular
/// one where the breaker is closed, and one that changes no state where it is not.
pub(super) fn adopt(pass: &Pass, pair: &mut Pair<'_>, policy: &Policy, now: Timestamp) -> Pass {
    let one = |permit: &Permit, circuit: &Circuit| Permit {
        kind: PermitKind::Regular,
        ramped: false,
        generation: match circuit.status(policy, now).state {
            State::Closed => circuit.generation(),
            State::Open | State::HalfOpen => u64::MAX,
        },
        expires_at: permit.expires_at.max(now + Duration::from_millis(1)),
        ..permit.clone()
    };
    Pass {
        place: one(&pass.place, pair.place),
        account: match (&pass.account, &pair.account) {
            (Some(permit), Some(circuit)) => Some(one(permit, circuit)),
            (Some(_) | None, None) => None,
            (None, Some(circuit)) => Some(one(&pass.place, circuit)),
        },
    }
}
