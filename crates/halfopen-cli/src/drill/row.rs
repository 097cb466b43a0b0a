//! Plays one row and says what became of it.

use serde::Serialize;

use super::expect::{Finding, Looker};
use super::mechanisms::Mechanisms;
use super::quantity::filled;
use super::rehearsal::Rehearsal;
use super::scenario::Scenario;
use super::world::{PlayError, World};

/// What became of one row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    /// Its name.
    pub(super) row: String,
    /// What went wrong.
    pub(super) injected: String,
    /// What had to be seen, or why there is nothing to see.
    pub(super) expected: String,
    /// What was seen.
    pub(super) seen: String,
    /// Whether it was what was expected.
    pub(super) verdict: RowVerdict,
    /// How much virtual time passed, in seconds.
    pub(super) virtual_s: f64,
}

/// How a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum RowVerdict {
    /// Everything was as expected.
    #[serde(rename = "pass")]
    Pass,
    /// Something was not.
    #[serde(rename = "fail")]
    Fail,
    /// The policy has nothing to show here.
    #[serde(rename = "n/a")]
    NotApplicable,
}

impl RowVerdict {
    /// Returns the word used in reports.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "FAIL",
            Self::NotApplicable => "n/a",
        }
    }
}

/// Plays a row.
///
/// # Errors
///
/// If the scenario makes no sense for any policy, or the drill's own store fails.
pub(super) fn played(rehearsal: &Rehearsal, scenario: &Scenario, mechanisms: Mechanisms) -> Result<Row, PlayError> {
    let names = rehearsal.names();
    let injected = filled(&scenario.injected, &names)?;
    if let Some(why) = scenario.not_for(rehearsal, &names)? {
        return Ok(Row {
            row: scenario.row.clone(),
            injected,
            expected: format!("n/a: {why}"),
            seen: String::new(),
            verdict: RowVerdict::NotApplicable,
            virtual_s: 0.0,
        });
    }
    let expected = filled(&scenario.expected, &names)?;
    let (trace, names, began) = World::play(rehearsal, scenario, mechanisms)?;
    let looker = Looker::new(&trace, &names, began, rehearsal.policy.on_open.on_expiry);
    let mut found = scenario.expect.iter().map(|check| looker.found(check)).collect::<Result<Vec<_>, _>>()?;
    found.extend(trace.endless.then(Finding::endless));
    let good = found.iter().all(|finding| finding.good);
    // What is wrong is what a reader needs; what is right only if all of it is.
    let shown = found.iter().filter(|finding| finding.good == good).map(|finding| finding.seen.as_str());
    let elapsed = began.until(trace.ended_at);
    Ok(Row {
        row: scenario.row.clone(),
        injected,
        expected,
        seen: shown.collect::<Vec<_>>().join("; "),
        verdict: if good { RowVerdict::Pass } else { RowVerdict::Fail },
        virtual_s: elapsed.as_secs_f64(),
    })
}
