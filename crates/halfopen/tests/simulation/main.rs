//! Many processes on one store, with crashes, freezes and steps of the clock, against a model that knows only promises.
//!
//! The doors, the circuits, the queue and the store are the product's own; what is played are the processes, the clock
//! and the dependency. One seed is one history, and the same seed makes it again: a failure names its seed. After each
//! step the promises are checked (`promises.rs`); then the dependency is well for good, and from wherever the history
//! has led, traffic must flow within a time that is computed from the policy (`world.rs`, `bound`).
//!
//! Most histories are kept in memory; some are kept in a file, where each process has a connection of its own.
//!
//! `HALFOPEN_SIMULATION_SEEDS=10000 cargo test -p halfopen --test simulation` plays more, and
//! `HALFOPEN_SIMULATION_SEED=7` one of them.

#![cfg(feature = "sqlite")]
#![expect(clippy::unwrap_used, reason = "a history that cannot go on is a failed test")]

mod chance;
mod dependency;
mod promises;
mod world;

use test_case::test_case;
use world::{Kept, Off, World};

/// How many histories are played in memory where nobody says otherwise, and each how-manieth is played in a file, too.
const SEEDS: u64 = 200;
const FILE_EACH: u64 = 40;
const MORE: &str = "HALFOPEN_SIMULATION_SEEDS";
const ONE: &str = "HALFOPEN_SIMULATION_SEED";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn seeds() -> std::ops::Range<u64> {
    match number(ONE) {
        Some(seed) => seed..seed + 1,
        None => 0..number(MORE).unwrap_or(SEEDS),
    }
}

/// S001, S002, S004, S005, S031, S061, S065: what is promised holds after each step of any history, and from wherever it
/// leads, traffic flows again within a bound that the policy gives.
#[test]
#[expect(clippy::print_stderr, reason = "figures for whoever plays more, shown with --nocapture")]
fn every_history_keeps_the_promises_and_ends_well() {
    let mut seen = world::Seen::default();
    for seed in seeds() {
        seen.add(World::play(seed, Kept::InMemory));
    }
    // A simulation in which nothing happens shows nothing.
    if number(ONE).is_none() {
        assert!(seen.is_rich(), "{seen:?}");
    }
    eprintln!("{seen:?}");
}

#[test]
fn every_history_keeps_the_promises_in_a_file() {
    for seed in seeds().filter(|seed| seed % FILE_EACH == 7) {
        World::play(seed, Kept::InFile);
    }
}

/// The same seed is the same history, or no failure could be looked into.
#[test]
fn a_history_can_be_played_again() {
    for seed in 0..8 {
        assert_eq!(World::play(seed, Kept::InMemory), World::play(seed, Kept::InMemory), "seed {seed}");
    }
}

/// A promise that nobody could break would not be watched: without each of these mechanisms, some history breaks one.
#[test_case(Off::ProbesBounded)]
#[test_case(Off::DrainPaced)]
#[test_case(Off::HintsRead)]
#[test_case(Off::LeasesExpire)]
#[test_case(Off::CooldownCapped)]
#[test_case(Off::NoteBeforeSending)]
fn a_mechanism_that_is_off_is_noticed(off: Off) {
    assert!((0..200).any(|seed| !World::keeps_promises_without(off, seed)), "{off:?} is missed by nobody");
}
