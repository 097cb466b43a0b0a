//! Says which scenarios cannot be played at a running gateway from outside, and why.
//!
//! What is left out is left out with a reason that stands in the report. Nothing is played in part: a row of which one
//! check cannot be seen would be green without it.

use super::super::scenario::{Check, Deed, Leaves, Need, Scenario};
use super::super::spoken::Meaning;

/// Returns why a scenario is not played live, if it is not.
pub(super) fn unfit(scenario: &Scenario) -> Option<&str> {
    if let Some(why) = &scenario.not_live {
        return Some(why);
    }
    if scenario.processes > 1 {
        return Some("it takes several processes, and one gateway is drilled");
    }
    let needs = scenario.needs.iter().find_map(|need| match need {
        Need::Owner => Some("a live drill tells nobody"),
        Need::CheapProbe => Some("a shadow has no `probe`: it would ask the real dependency"),
        Need::Hints
        | Need::Retries
        | Need::RefusedRepeated
        | Need::Queue
        | Need::ErrorsInSuccess
        | Need::UnknownEndsKept
        | Need::More { .. } => None,
    });
    let acts = scenario.acts.iter().find_map(|act| match act.r#do {
        Deed::StepWallClock => Some("the clock of a running gateway is not stepped from outside"),
        Deed::LoseStore | Deed::RestoreStore => Some("the store of a running gateway is not taken away"),
        Deed::HoldOpen | Deed::HoldClosed | Deed::Release => None,
    });
    let workers = scenario.workers.iter().any(|crew| crew.fate.is_some());
    let workers = workers.then_some("the worker of a running gateway is neither frozen nor killed");
    needs.or(acts).or(workers).or_else(|| calls(scenario)).or_else(|| scenario.expect.iter().find_map(unseen))
}

fn calls(scenario: &Scenario) -> Option<&'static str> {
    scenario.calls.iter().find_map(|group| {
        if group.reports.is_some() {
            return Some("no process of a running gateway is frozen");
        }
        if group.order.is_some() {
            return Some("where an order key stands is for the policy to say (`order_by`)");
        }
        if group.meets.iter().any(|answer| answer.answer == Meaning::NotReached) {
            return Some("one call alone cannot be refused the connection");
        }
        match group.leaves {
            Some(Leaves::NotFound) => Some("a gateway runs no command"),
            Some(Leaves::Panic) => Some("a running gateway does not panic on demand"),
            Some(Leaves::Killed) => Some("a running gateway is not killed"),
            Some(Leaves::Cancelled) | None => None,
        }
    })
}

/// Returns why a check has nothing to look at, if it has not.
fn unseen(check: &Check) -> Option<&'static str> {
    match check {
        Check::Told { .. } => Some("a live drill tells nobody"),
        Check::CheapProbes(_) => Some("a shadow has no `probe`: it would ask the real dependency"),
        Check::ActivationLine { .. } => Some("L1 shows the figures of the running gateway"),
        Check::StoreIs { .. } => Some("the store of a running gateway is not taken away"),
        Check::Event { named, .. } if named == "partitions_folded" => {
            Some("a gateway folds partitions before the journal hears of them")
        }
        Check::Opens(_)
        | Check::OpensBecause(_)
        | Check::FailuresCounted(_)
        | Check::Sent(_)
        | Check::ProbesAtOnce(_)
        | Check::State { .. }
        | Check::Cooldown { .. }
        | Check::Ends { .. }
        | Check::Class { .. }
        | Check::Attempts { .. }
        | Check::Sleeps { .. }
        | Check::Takes { .. }
        | Check::StartsPerSecond(_)
        | Check::Event { .. }
        | Check::Jobs { .. }
        | Check::JobsMade { .. }
        | Check::Partitions(_)
        | Check::NoneTwice(_)
        | Check::Once(_)
        | Check::OldestFirst(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is new among the shipped rows is either played live or left out with a reason that was written for it.
    #[test]
    fn the_shipped_rows_that_are_not_played_live_are_these() {
        let rows = Scenario::shipped().unwrap();
        let left_out: Vec<String> =
            rows.iter().filter_map(|row| Some(format!("{}: {}", row.row, unfit(row)?))).collect();
        insta::assert_snapshot!(left_out.join("\n"));
    }
}
