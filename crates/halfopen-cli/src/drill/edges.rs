//! What the drill reads of strangers: scenarios that users write.

use halfopen::config::Config;
use halfopen_core::policy::Surface;

use super::mechanisms::Mechanisms;
use super::rehearsal::Rehearsal;
use super::row::{RowVerdict, played};
use super::scenario::{Kept, Scenario};

/// Calls of a scenario that is played here at most; the longest are for people who wait.
const CALLS_MAX: usize = 12;

/// What became of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rehearsed {
    /// It is none; why.
    Unreadable(String),
    /// It makes no sense for this policy; why.
    Senseless(String),
    /// It was read, and is too large to be played here.
    Read,
    /// It was played: passed, failed, or n/a.
    Played(&'static str),
}

/// Reads a scenario and plays it under the built-in policy, if it is small.
#[must_use]
pub fn rehearsed(text: &str) -> Rehearsed {
    let scenario = match Scenario::read("fuzz.yaml", text) {
        Ok(scenario) => scenario,
        Err(error) => return Rehearsed::Unreadable(error.to_string()),
    };
    let dependency = Config::built_in().dependency("ocr", Surface::Run);
    let rehearsal = Rehearsal::of(dependency).expect("the built-in policy can be rehearsed");
    let names = rehearsal.names();
    let mut calls = 0;
    for count in scenario.calls.iter().map(|group| &group.count).chain(scenario.workers.iter().map(|crew| &crew.count))
    {
        let count = match count.as_ref().map(|count| count.number(&names)).transpose() {
            Ok(count) => count.flatten().unwrap_or(1.0),
            Err(error) => return Rehearsed::Senseless(error.to_string()),
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped")]
        let count = count.clamp(0.0, 10_000.0) as usize;
        calls += count;
    }
    if calls > CALLS_MAX || scenario.store == Kept::File {
        return Rehearsed::Read;
    }
    match played(&rehearsal, &scenario, Mechanisms::default()) {
        Ok(row) => Rehearsed::Played(match row.verdict {
            RowVerdict::Pass => "pass",
            RowVerdict::Fail => "fail",
            RowVerdict::NotApplicable => "n/a",
        }),
        Err(error) => Rehearsed::Senseless(error.to_string()),
    }
}
