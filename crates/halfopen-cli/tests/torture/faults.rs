//! What happens to the processes of a round while they work, and how it is made good.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use fastrand::Rng;
use rusqlite::Connection;
use rustix::process::Signal;

use crate::processes::writes;
use crate::world::{Busy, World};

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// SIGKILL at a random moment, again and again.
    Kill,
    /// SIGKILL right behind the k-th write to a file of the store.
    KillAtWrite,
    /// Death inside the write that makes a file of the store longer than a chosen length.
    KillInWrite,
    /// No room for a while.
    DiskFull,
    /// The right to write is taken away for a while.
    ReadOnly,
    /// Another process holds the write lock, for less or for more than a lease.
    Locked,
    /// The store's folder is not there for a while.
    Away,
    /// Connections to the dependency are reset before, after and inside the answer.
    Cut,
    /// The wall clock was wrong until a reboot.
    ClockStep,
    /// A gateway stands still for longer than its lease, and goes on.
    Freeze,
}

impl Fault {
    pub(crate) const ALL: [Self; 10] = [
        Self::Kill,
        Self::KillAtWrite,
        Self::KillInWrite,
        Self::DiskFull,
        Self::ReadOnly,
        Self::Locked,
        Self::Away,
        Self::Cut,
        Self::ClockStep,
        Self::Freeze,
    ];

    /// Lets it happen among busy processes, and makes it good.
    pub(crate) fn happen(self, world: &World, busy: &Busy<'_>, chance: &mut Rng) {
        match self {
            Self::Kill => {
                for _ in 0..chance.usize(1..4) {
                    moment(chance, 20..300);
                    busy.kill_a_drain();
                    busy.kill_gateway();
                    busy.start_gateway();
                }
            }
            Self::KillAtWrite => {
                for _ in 0..chance.usize(2..6) {
                    writes(&world.folder(), chance.usize(1..120), Duration::from_secs(1));
                    std::thread::sleep(Duration::from_micros(chance.u64(0..300)));
                    busy.kill_gateway();
                    busy.start_gateway();
                }
            }
            Self::KillInWrite => {
                for _ in 0..chance.usize(2..5) {
                    let length = fs::metadata(world.log()).map_or(0, |log| log.len());
                    // A frame is 24 and 4096 bytes; anywhere in one of the next.
                    busy.die_beyond(length + chance.u64(1..40_000), Duration::from_millis(chance.u64(300..900)));
                    busy.start_gateway();
                }
            }
            Self::DiskFull => {
                for _ in 0..chance.usize(1..4) {
                    moment(chance, 20..200);
                    world.fill(busy, chance.usize(0..4));
                    moment(chance, 50..600);
                    if chance.bool() {
                        // Who begins on a full disk must come up, too.
                        busy.kill_gateway();
                        busy.start_gateway();
                    }
                    world.free(busy);
                }
            }
            Self::ReadOnly => {
                let mode = |mode: u32| fs::set_permissions(world.store(), fs::Permissions::from_mode(mode)).unwrap();
                for _ in 0..chance.usize(1..4) {
                    moment(chance, 20..200);
                    mode(0o400);
                    moment(chance, 50..600);
                    mode(0o600);
                }
            }
            Self::Locked => {
                moment(chance, 20..200);
                let other = Connection::open(world.store()).unwrap();
                other.busy_timeout(Duration::from_secs(10)).unwrap();
                other.execute_batch("BEGIN IMMEDIATE").unwrap();
                moment(chance, 50..1800);
                other.execute_batch("ROLLBACK").unwrap();
            }
            Self::Away => {
                let aside = world.folder().with_extension("aside");
                moment(chance, 20..200);
                // Who begins meanwhile would make a store of its own in its place.
                busy.rest(|| {
                    fs::rename(world.folder(), &aside).unwrap();
                    moment(chance, 50..600);
                    fs::rename(&aside, world.folder()).unwrap();
                });
            }
            Self::Cut => {
                world.standin.misbehave(50, true);
                moment(chance, 300..900);
                world.standin.misbehave(10, false);
            }
            Self::ClockStep => {
                moment(chance, 50..300);
                busy.kill_gateway();
                busy.rest(|| world.boot_again());
                busy.start_gateway();
            }
            Self::Freeze => {
                moment(chance, 20..200);
                let other = busy.another();
                busy.signal_gateway(Signal::STOP);
                moment(chance, 1200..2200);
                busy.signal_gateway(Signal::CONT);
                drop(other);
            }
        }
    }
}

/// Lets a while pass: not a wait for anything, the moment is what is tried.
fn moment(chance: &mut Rng, millis: std::ops::Range<u64>) {
    std::thread::sleep(Duration::from_millis(chance.u64(millis)));
}
