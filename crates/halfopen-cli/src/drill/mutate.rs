//! Removes each mechanism in turn and demands that a row goes red: a drill that cannot fail shows nothing.
//!
//! A mutant is first met by the row that is about its mechanism; if that row stays green, by all others. A mutant whose
//! own row means nothing for this policy, and that no other row catches, cannot be told from its absence under this
//! policy: it is reported as n/a with the reason, and does not count.

use serde::Serialize;

use super::mechanisms::{Mechanisms, Mutant};
use super::rehearsal::Rehearsal;
use super::row::{Row, RowVerdict, played};
use super::scenario::Scenario;
use super::world::PlayError;

/// What became of one mutant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Killed {
    /// The mechanism that was off.
    pub(super) name: String,
    /// Whether a row saw it.
    pub(super) result: MutantResult,
    /// The row that did, or the reason why none could.
    pub(super) row: Option<String>,
    /// What that row saw.
    #[serde(skip)]
    pub(super) seen: String,
}

/// How a mutant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum MutantResult {
    /// A row went red.
    #[serde(rename = "killed")]
    Killed,
    /// None did.
    #[serde(rename = "survived")]
    Survived,
    /// The policy does not use the mechanism.
    #[serde(rename = "n/a")]
    NotApplicable,
}

impl MutantResult {
    /// Returns the word used in reports.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Survived => "SURVIVED",
            Self::NotApplicable => "n/a",
        }
    }
}

/// Removes each mechanism in turn.
///
/// # Errors
///
/// As [`played`].
pub(super) fn mutated(rehearsal: &Rehearsal, scenarios: &[Scenario]) -> Result<Vec<Killed>, PlayError> {
    // A row that is red with everything in place would be red without anything, too.
    let mut sound = Vec::new();
    for scenario in scenarios {
        if played(rehearsal, scenario, Mechanisms::default())?.verdict != RowVerdict::Fail {
            sound.push(scenario);
        }
    }
    Mutant::ALL.into_iter().map(|mutant| met(rehearsal, &sound, mutant)).collect()
}

fn met(rehearsal: &Rehearsal, scenarios: &[&Scenario], mutant: Mutant) -> Result<Killed, PlayError> {
    let mechanisms = Mechanisms::without(mutant);
    let (own, others): (Vec<_>, Vec<_>) = scenarios.iter().partition(|scenario| scenario.kills.contains(&mutant));
    let mut nothing_to_show = None;
    for scenario in own.into_iter().chain(others) {
        let Row { row, expected, seen, verdict, .. } = played(rehearsal, scenario, mechanisms)?;
        match verdict {
            RowVerdict::Fail => {
                let (name, row) = (mutant.name().to_owned(), Some(row));
                return Ok(Killed { name, result: MutantResult::Killed, row, seen });
            }
            RowVerdict::NotApplicable if scenario.kills.contains(&mutant) => {
                nothing_to_show.get_or_insert((row, expected));
            }
            RowVerdict::NotApplicable | RowVerdict::Pass => {}
        }
    }
    let name = mutant.name().to_owned();
    Ok(match nothing_to_show {
        Some((row, why)) => {
            Killed { name, result: MutantResult::NotApplicable, row: None, seen: format!("{row}: {why}") }
        }
        None => Killed { name, result: MutantResult::Survived, row: None, seen: String::new() },
    })
}
