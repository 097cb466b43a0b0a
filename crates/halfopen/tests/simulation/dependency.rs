//! The dependency of the simulation: well, ill in one of several ways, and remembering what it has carried out.

use std::collections::BTreeMap;
use std::time::Duration;

use halfopen_core::outcome::Reached;
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{Class, Hint, HintSource, Scope, Verdict};

use crate::chance::Draws;

/// How it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// It answers well.
    Well,
    /// It answers with errors, after which nobody knows what was done.
    Failing,
    /// It does not answer in time.
    Hanging,
    /// It cannot be reached.
    Away,
    /// It says "wait".
    Limiting,
    /// It says no to what is asked, and is well.
    Refusing,
}

impl Health {
    pub(crate) const ALL: [Self; 6] =
        [Self::Well, Self::Failing, Self::Hanging, Self::Away, Self::Limiting, Self::Refusing];
}

/// What an attempt will come to.
#[derive(Clone, Debug)]
pub(crate) struct Coming {
    pub(crate) takes: Duration,
    /// What it was when it was sent; the wait it states begins with the answer.
    health: Health,
    wait: Duration,
}

/// The dependency.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) health: Health,
    /// The longest answer of one that is well, and the longest wait that is stated.
    pub(crate) swift: Duration,
    pub(crate) wait_max: Duration,
    timeout: Duration,
    /// How often each piece of work was carried out, as far as somebody could see it from inside.
    pub(crate) done: BTreeMap<u64, u32>,
}

impl Dependency {
    pub(crate) fn new(timeout: Duration, draws: &mut Draws) -> Self {
        let swift = (timeout / 4).max(Duration::from_millis(1));
        Self { health: Health::Well, swift, wait_max: draws.millis(500, 90_000), timeout, done: BTreeMap::new() }
    }

    /// Takes a request; returns what will come of it. `work` is what it would carry out.
    pub(crate) fn asked(&mut self, work: u64, draws: &mut Draws) -> Coming {
        let swift = u64::try_from(self.swift.as_millis()).unwrap();
        let takes = match self.health {
            Health::Hanging => self.timeout,
            _ => draws.millis(1, swift.max(1)),
        };
        // What hangs or breaks may have been carried out all the same; half of it was.
        let carried_out = match self.health {
            Health::Well => true,
            Health::Failing | Health::Hanging => draws.once_in(2),
            Health::Away | Health::Limiting | Health::Refusing => false,
        };
        if carried_out {
            *self.done.entry(work).or_default() += 1;
        }
        let wait = draws.millis(100, u64::try_from(self.wait_max.as_millis()).unwrap());
        Coming { takes, health: self.health, wait }
    }
}

impl Coming {
    /// Returns the verdict on it at the instant at which it is over.
    pub(crate) fn verdict(&self, now: Timestamp) -> Verdict {
        match self.health {
            Health::Well => Verdict::plain(Class::Success, "sim/well", Reached::Answered),
            Health::Failing => Verdict::plain(Class::ServerError, "sim/failing", Reached::Unknown),
            Health::Hanging => Verdict::plain(Class::Timeout, "sim/hanging", Reached::Unknown),
            Health::Away => Verdict::plain(Class::ConnectionFailure, "sim/away", Reached::NotSent),
            Health::Refusing => Verdict::plain(Class::InvalidRequest, "sim/refusing", Reached::Answered),
            Health::Limiting => {
                let (wait, until) = (self.wait, now + self.wait);
                let hint = Hint { until, wait, source: HintSource::RetryAfter, scope: Scope::Whole };
                Verdict { hint: Some(hint), ..Verdict::plain(Class::RateLimited, "sim/limiting", Reached::Refused) }
            }
        }
    }
}
