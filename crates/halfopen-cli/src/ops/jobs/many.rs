//! Decides about many jobs: several that are named, or all that filters leave.
//!
//! After an outage three hundred jobs wait for a person who has one answer for all of them. Saying it three hundred times
//! is how the wrong one gets it. So it is said once, and in three steps that cannot be mixed up: what it would be about
//! (`--dry-run`), how many that are (a number that is repeated in `--confirm`), and what became of each. Nothing is asked
//! on a terminal: a script and a person say the same words.
//!
//! It may be said again after whatever interrupted it: a job that is already where the deed leads counts as that. One that
//! cannot be changed so keeps nobody else, and the exit code is 1 then.

use halfopen::handle::jobs::{Became, DECIDED_MAX, Deed, JobError};
use halfopen_core::event::By;
use halfopen_core::job::{JobId, JobState};
use serde_json::{Value, json};

use super::super::{Done, Failure, OK, out, steer};
use super::choose::{Choice, Choices, Chosen, Filters, SHOWN_MAX, Source};
use super::decide::Deciding;
use super::list;
use crate::{exit, ui};

/// How many jobs a person is shown, and of how many is said why they were refused.
const SAID_MAX: usize = 20;

/// What became of all of them.
#[derive(Debug, Default)]
struct Sum {
    changed: Vec<JobId>,
    unchanged: Vec<JobId>,
    refused: Vec<(JobId, String)>,
}

/// Returns the deed as the API names it.
pub(super) const fn verb(deed: &Deed) -> &'static str {
    match deed {
        Deed::Requeue { .. } => "requeue",
        Deed::Resolve { .. } => "resolve",
        Deed::Discard => "discard",
        Deed::Cancel => "cancel",
    }
}

const fn participle(deed: &Deed) -> &'static str {
    match deed {
        Deed::Requeue { .. } => "requeued",
        Deed::Resolve { .. } => "resolved",
        Deed::Discard => "discarded",
        Deed::Cancel => "cancelled",
    }
}

/// Returns the states in which the deed changes a job.
const fn changes(deed: &Deed) -> &'static [JobState] {
    match deed {
        Deed::Requeue { .. } | Deed::Resolve { .. } | Deed::Discard => {
            &[JobState::ManualReview, JobState::Failed, JobState::Expired]
        }
        Deed::Cancel => {
            &[JobState::Queued, JobState::Running, JobState::ManualReview, JobState::Failed, JobState::Expired]
        }
    }
}

/// Decides about the chosen jobs.
pub(super) fn run(source: &Source<'_>, args: &Deciding, choice: &Choice, deed: &Deed, body: &Value) -> Done {
    let found = source.find(choice)?;
    let number = found.jobs.len() as u64;
    if choice.dry_run {
        return shown(source, args, deed, &found);
    }
    if choice.all && number > 0 {
        confirmed(choice, deed, &found)?;
    }
    let sum = carried_out(source, args, deed, body, found)?;
    told(args, deed, &sum)
}

/// Returns the choice with the state that `--all` means by itself.
pub(super) fn narrowed(choice: &Choice, deed: &Deed) -> Result<Choice, Failure> {
    let mut choice = choice.clone();
    if !choice.all {
        if choice.filters.leave_out_some() || choice.confirm.is_some() {
            let message = "--state, --dep, --because, --older-than and --confirm go with --all, and jobs were named";
            return Err(Failure::new(exit::USAGE, message).hint("name the jobs, or leave their ids out and say --all"));
        }
        return Ok(choice);
    }
    let allowed = changes(deed);
    let words = allowed.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(", ");
    match (choice.filters.state, deed) {
        (Some(state), _) if allowed.contains(&state) => {}
        (Some(state), _) => {
            let message = format!("a job that is {state} is not {}", participle(deed));
            return Err(Failure::new(exit::USAGE, message).hint(format!("--state may be {words}")));
        }
        (None, Deed::Cancel) => {
            let message = "cancel --all needs a state: it would end what is queued, too";
            return Err(Failure::new(exit::USAGE, message).hint(format!("--state is one of {words}")));
        }
        (None, Deed::Requeue { .. } | Deed::Resolve { .. } | Deed::Discard) => {
            choice.filters.state = Some(JobState::ManualReview);
        }
    }
    Ok(choice)
}

/// Demands the number of those that were chosen. That it is not more is enough, so that saying it again after an
/// interruption does the rest.
fn confirmed(choice: &Choice, deed: &Deed, found: &Choices) -> Result<(), Failure> {
    let number = found.jobs.len() as u64;
    let what = counted(number, &choice.filters);
    match choice.confirm {
        Some(confirmed) if number <= confirmed => Ok(()),
        Some(confirmed) => {
            let message = format!("--confirm says {confirmed}, and there are {what}; nothing was changed");
            Err(Failure::new(exit::USAGE, message).hint("--dry-run shows them"))
        }
        None => {
            let would = if number == 1 { "would be" } else { "would all be" };
            let message = format!("{what} {would} {}; nothing was changed", participle(deed));
            Err(Failure::new(exit::USAGE, message)
                .hint(format!("--dry-run shows them; the same with --confirm {number} does it")))
        }
    }
}

/// Says how many jobs, and which.
fn counted(number: u64, filters: &Filters) -> String {
    let jobs = if number == 1 { "1 job".to_owned() } else { format!("{number} jobs") };
    let of = filters.dep.as_ref().map(|dep| format!(" of {dep}")).unwrap_or_default();
    let state = filters.state.map(|state| format!(" in {state}")).unwrap_or_default();
    format!("{jobs}{of}{state}")
}

/// Shows which jobs were chosen.
fn shown(source: &Source<'_>, args: &Deciding, deed: &Deed, found: &Choices) -> Done {
    let (can, cannot): (Vec<&Chosen>, Vec<&Chosen>) =
        found.jobs.iter().partition(|job| changes(deed).contains(&job.state));
    if args.json {
        out::json(&json!({
            "dry_run": true,
            "matched": found.jobs.len(),
            "would_change": can.len(),
            "jobs": found.shown,
            "more": found.jobs.len().saturating_sub(SHOWN_MAX),
            "unknown": found.unknown.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }))?;
        return OK;
    }
    list::table(&found.shown[..found.shown.len().min(SAID_MAX)], &source.when())?;
    if let Some(more) = found.jobs.len().checked_sub(SAID_MAX).filter(|more| *more > 0) {
        ui::raw(&format!("… and {more} more; --json lists up to {SHOWN_MAX}\n"));
    }
    for id in &found.unknown {
        ui::say(&format!("there is no job {id}"));
    }
    let jobs = if can.len() == 1 { "1 job".to_owned() } else { format!("{} jobs", can.len()) };
    ui::say(&format!("{jobs} would be {}; nothing was changed", participle(deed)));
    if !cannot.is_empty() {
        ui::say(&format!("{} would stay as they are: their state does not allow it", cannot.len()));
    }
    let unclear = can.iter().filter(|job| job.may_have_run).count();
    if let (Deed::Requeue { may_have_run: false, .. }, true) = (deed, unclear > 0) {
        ui::say(&format!(
            "{unclear} of them may have been executed: unless a second time is known to do no harm, they are requeued \
             with --may-have-run only"
        ));
    }
    OK
}

/// Does it, part by part.
fn carried_out(
    source: &Source<'_>,
    args: &Deciding,
    deed: &Deed,
    body: &Value,
    found: Choices,
) -> Result<Sum, Failure> {
    let mut sum = Sum::default();
    for id in found.unknown {
        sum.refused.push((id, JobError::NoSuchJob(id).to_string()));
    }
    let by = By { who: steer::who(), reason: args.reason.clone() };
    let (number, mut done) = (found.jobs.len(), 0);
    for part in found.jobs.chunks(DECIDED_MAX) {
        let decided = match source {
            Source::Store(place, handle) => {
                let ids: Vec<JobId> = part.iter().map(|job| job.id).collect();
                let became = handle.decide_jobs(&ids, &|dependency| place.policy(dependency), deed, &by);
                became.map(|became| sum.add(ids.into_iter().zip(became))).map_err(|error| Failure::new(exit::IO, error))
            }
            Source::Gateway(gateway) => {
                part.iter().try_for_each(|job| {
                    if deed.is_done(job.state) {
                        sum.unchanged.push(job.id);
                        return Ok(());
                    }
                    match gateway.change(&format!("/jobs/{}/{}", job.id, verb(deed)), body) {
                        Ok(_) => sum.changed.push(job.id),
                        // What its state does not allow, or what is gone, keeps nobody else.
                        Err(failure) if [exit::FOUND, exit::USAGE].contains(&failure.code) => {
                            sum.refused.push((job.id, failure.message));
                        }
                        Err(failure) => return Err(failure),
                    }
                    Ok(())
                })
            }
        };
        decided.map_err(|failure| interrupted(failure, &sum, number, deed))?;
        done += part.len();
        if done < number {
            ui::say(&format!("{done} of {number} …"));
        }
    }
    Ok(sum)
}

/// Returns the failure of something that broke off in the middle.
fn interrupted(failure: Failure, sum: &Sum, number: usize, deed: &Deed) -> Failure {
    let done = sum.changed.len();
    let message = format!("{}; {done} of {number} were {} before", failure.message, participle(deed));
    Failure::new(failure.code, message).hint("say the same again: what was done is not done twice")
}

impl Sum {
    fn add(&mut self, became: impl Iterator<Item = (JobId, Became)>) {
        for (id, became) in became {
            match became {
                Became::Changed { .. } => self.changed.push(id),
                Became::Already(_) => self.unchanged.push(id),
                Became::Refused(error) => self.refused.push((id, error.to_string())),
            }
        }
    }
}

/// Says what became of them.
fn told(args: &Deciding, deed: &Deed, sum: &Sum) -> Done {
    let code = if sum.refused.is_empty() { exit::OK } else { exit::FOUND };
    if args.json {
        let ids = |ids: &[JobId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
        let refused = sum.refused.iter().map(|(id, why)| json!({ "id": id.to_string(), "why": why }));
        out::json(&json!({
            "deed": verb(deed),
            "matched": sum.changed.len() + sum.unchanged.len() + sum.refused.len(),
            "changed": ids(&sum.changed),
            "unchanged": ids(&sum.unchanged),
            "refused": refused.collect::<Vec<_>>(),
        }))?;
        return Ok(code);
    }
    let were = |number: usize, what: &str| match number {
        1 => format!("1 job was {what}"),
        _ => format!("{number} jobs were {what}"),
    };
    ui::say(&were(sum.changed.len(), participle(deed)));
    if !sum.unchanged.is_empty() {
        ui::say(&were(sum.unchanged.len(), "so already"));
    }
    for (id, why) in sum.refused.iter().take(SAID_MAX) {
        ui::say(&format!("job {id}: {why}"));
    }
    if let Some(more) = sum.refused.len().checked_sub(SAID_MAX).filter(|more| *more > 0) {
        ui::say(&format!("… and {more} more"));
    }
    if !sum.refused.is_empty() {
        let text = match sum.refused.len() {
            1 => "1 job was left as it was".to_owned(),
            number => format!("{number} jobs were left as they were"),
        };
        ui::say_with_hint(&text, "halfopen jobs show ID says what became of one, and what can be done with it");
    }
    Ok(code)
}
