//! Torture: real processes on one store, and everything that can happen to them while they work.
//!
//! A round starts a gateway with its worker, callers that want their calls kept, `halfopen run --on-open queue` and
//! `halfopen drain --once`, all on one store, before a stand-in that misbehaves and writes down every execution. Into
//! that comes one [`Fault`]: kills at the store's writes and at random, a full disk, a store that cannot be written, is
//! held or is away, cut connections, stepped clocks, a frozen worker. Then everything is healed, the backlog returns by
//! itself, and the books must balance: the audit is clean, every acknowledged job stands in a state, nothing was
//! executed twice without a licence, and what was executed and is not done waits for a person ([`books`]).
//!
//! `HALFOPEN_TORTURE_SEED` repeats the plan of a run (not the interleaving of its processes), `HALFOPEN_TORTURE_ROUNDS`
//! makes it longer. Without it every fault comes once. Kill points need nothing in the program that is tested: a limit
//! on the length of files kills a process inside the write that would pass it, and a watch on the store's folder tells
//! of each write.

#[expect(clippy::unwrap_used, reason = "what cannot be tried is a failed test")]
mod books;
#[expect(clippy::unwrap_used, reason = "what cannot be tried is a failed test")]
mod faults;
#[expect(clippy::unwrap_used, reason = "what cannot be tried is a failed test")]
mod processes;
#[expect(clippy::unwrap_used, reason = "what cannot be tried is a failed test")]
mod standin;
#[expect(clippy::unwrap_used, reason = "what cannot be tried is a failed test")]
mod world;

use std::time::{Duration, Instant};

use faults::Fault;
use world::World;

/// How long anything may take before a round gives up on it.
const PATIENCE: Duration = Duration::from_secs(60);

/// After so many rounds a new store is begun, so that a round does not cost what all before it left.
const ROUNDS_PER_STORE: usize = 12;

/// What is tried is in the name of this file.
#[test]
#[expect(clippy::print_stderr, reason = "the seed and the figures are what a person wants of it")]
fn whatever_happens_nothing_is_lost_and_nothing_is_doubled() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|word| word.parse::<u64>().unwrap_or_else(|_| panic!("{name} is `{word}`, not a number")))
    };
    let seed = number("HALFOPEN_TORTURE_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let rounds = number("HALFOPEN_TORTURE_ROUNDS").map_or(Fault::ALL.len(), |rounds| usize::try_from(rounds).unwrap());
    eprintln!("torture: HALFOPEN_TORTURE_SEED={seed} HALFOPEN_TORTURE_ROUNDS={rounds}");
    let mut chance = fastrand::Rng::with_seed(seed);
    let began = Instant::now();
    let mut sum = books::Sum::default();
    let mut plan = Vec::new();
    let mut world = World::new(chance.u64(..));
    for round in 0..rounds {
        if round > 0 && round.is_multiple_of(ROUNDS_PER_STORE) {
            world = World::new(chance.u64(..));
        }
        if plan.is_empty() {
            plan = Fault::ALL.to_vec();
            chance.shuffle(&mut plan);
        }
        let Some(fault) = plan.pop() else { continue };
        let told = format!("round {round} of seed {seed}, {fault:?}");
        sum.add(fault, world.round(&told, fault, &mut chance));
        if (round + 1).is_multiple_of(25) {
            eprintln!("torture: {} rounds, {:?}: {sum}", round + 1, began.elapsed());
        }
    }
    eprintln!("torture: {rounds} rounds of seed {seed} in {:?}, disk {}: {sum}", began.elapsed(), world.disk());
    assert!(sum.acknowledged > 0 && sum.executed > 0, "nothing was tried: {sum}");
}
