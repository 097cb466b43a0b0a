//! Torture: real processes on one store, and everything that can happen to them while they work.
//!
//! A round starts a gateway with its worker, callers that want their calls kept, `halfopen run --on-open queue` and
//! `halfopen drain --once`, all on one store, before a stand-in that misbehaves and writes down every execution. Into
//! that comes one [`Fault`]: kills at the store's writes and at random, a full disk, a store that cannot be written, is
//! held or is away, cut connections, stepped clocks, a frozen worker. Then everything is healed, the backlog returns by
//! itself, and the books must balance: the audit is clean, every acknowledged job stands in a state, nothing was
//! executed twice without a licence, and what was executed and is not done waits for a person ([`books`]).
//!
//! Beside the rounds, every write of one worker and of one caller is its last, one after the other ([`points`]).
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
mod points;
#[expect(clippy::unwrap_used, reason = "what cannot be tried is a failed test")]
mod processes;
#[expect(clippy::unwrap_used, reason = "what cannot be tried is a failed test")]
mod standin;
#[expect(clippy::unwrap_used, reason = "what cannot be tried is a failed test")]
mod world;

use std::time::{Duration, Instant};

use faults::Fault;
use points::{DRAIN, KEEP, Life, told};
use world::World;

/// How long anything may take before a round gives up on it.
const PATIENCE: Duration = Duration::from_secs(60);

/// After so many rounds a new store is begun, so that a round does not cost what all before it left.
const ROUNDS_PER_STORE: usize = 12;

/// Returns a number from the environment.
fn number(name: &str) -> Option<u64> {
    let word = std::env::var(name).ok()?;
    Some(word.parse().unwrap_or_else(|_| panic!("{name} is `{word}`, not a number")))
}

/// How many points are gone over at once, and where it begins: all are met in a long run, a third of them in a short one.
fn stride() -> (u64, usize) {
    if number("HALFOPEN_TORTURE_ROUNDS").is_some_and(|rounds| rounds >= 100) {
        return (0, 1);
    }
    (number("HALFOPEN_TORTURE_SEED").unwrap_or_else(|| fastrand::u64(..)) % 3, 3)
}

/// A worker that dies in any of its writes leaves a job that is done once, or that a person is told about.
#[test]
#[expect(clippy::print_stderr, reason = "how many points there were is what a person wants of it")]
fn every_write_of_a_worker_may_be_its_last() {
    let (life, (first, stride)) = (Life::new(), stride());
    let kept = life.queue();
    let died = life.each(&DRAIN, first, stride, |life, place, _| life.settle(place, kept.clone()));
    eprintln!("torture: a worker died in {died} of its writes, half and whole, every {stride} tried");
    assert!(died > 2, "{died}");
}

/// A caller that dies in any of its writes was told nothing, and one that was told has its job.
#[test]
#[expect(clippy::print_stderr, reason = "how many points there were is what a person wants of it")]
fn every_write_of_a_caller_may_be_its_last() {
    let (life, (first, stride)) = (Life::new(), stride());
    let died = life.each(&KEEP, first, stride, |life, place, output| {
        let told = told(output);
        // What was kept without anybody being told is done as well, once.
        life.release(place);
        life.settle(place, told);
    });
    eprintln!("torture: a caller died in {died} of its writes, half and whole, every {stride} tried");
    assert!(died > 0, "{died}");
}

/// What is tried is in the name of this file.
#[test]
#[expect(clippy::print_stderr, reason = "the seed and the figures are what a person wants of it")]
fn whatever_happens_nothing_is_lost_and_nothing_is_doubled() {
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
