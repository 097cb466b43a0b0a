//! Lists jobs: by dependency and state, the oldest first, a page at a time.
//!
//! A page begins behind a job and not at a number, so that the thousandth page costs what the first one does. How many
//! there are is counted by the store, and read and not found out.

use askama::Template;
use halfopen::handle::jobs::JobView;
use halfopen::store::jobs::{JobFilter, Tally};
use halfopen_core::job::{JobState, Reason};

use super::super::problem::Problem;
use super::look::Look;
use super::page::{Fragment, Rendered, markup};
use super::say::{Moment, Say};
use super::view::{Decide, JobsAsked, job_path};
use super::words::Words;
use crate::serve::api::unreadable;

/// How many jobs a page has.
const PAGE: usize = 50;

#[derive(Template)]
#[template(path = "dashboard/jobs.html")]
struct Filter<'a> {
    w: &'a Words,
    dependencies: Vec<(String, bool)>,
    state: Option<&'static str>,
}

#[derive(Template)]
#[template(path = "dashboard/jobs_list.html")]
struct List<'a> {
    w: &'a Words,
    counts: Vec<Count>,
    jobs: Vec<Shown>,
    /// Whether a person may decide about some of them.
    picks: bool,
    /// The ids of those, apart by commas.
    page: String,
    first: Option<String>,
    next: Option<String>,
}

struct Count {
    text: &'static str,
    n: u64,
    href: String,
    here: bool,
}

struct Shown {
    id: String,
    /// Whether it can be chosen: a person may decide about it.
    pick: bool,
    href: String,
    /// What the caller called it by: of two jobs alike it tells which invoice is which.
    key: Option<String>,
    badge: String,
    reason: Option<&'static str>,
    beware: bool,
    circuit: String,
    accepted: Moment,
    last: Option<String>,
}

#[derive(Template)]
#[template(path = "dashboard/badge.html")]
struct Badge<'a> {
    kind: &'static str,
    text: &'a str,
}

/// Renders a page of jobs.
pub(super) fn render(look: &Look<'_>, asked: &JobsAsked) -> Result<Rendered, Problem> {
    let (say, w) = (&look.say, look.say.w);
    let tallies = look.handle.job_tallies().map_err(unreadable)?;
    let filter = JobFilter {
        dependency: asked.dependency.clone(),
        state: asked.state,
        after: asked.after,
        limit: PAGE,
        ..JobFilter::default()
    };
    let page = look.handle.jobs(&filter).map_err(unreadable)?;
    let mut names: Vec<String> = tallies.keys().cloned().collect();
    names.extend(look.gateway.live().dependencies().map(|dependency| dependency.name.clone()));
    names.sort();
    names.dedup();
    let chosen = |name: &String| asked.dependency.as_ref() == Some(name);
    let counted = tallies.iter().filter(|(name, _)| asked.dependency.is_none() || chosen(name));
    let counted: Vec<&Tally> = counted.map(|(_, tally)| tally).collect();
    let count = |state: JobState| Count {
        text: say.job_state(state),
        n: counted.iter().map(|tally| tally.of(state)).sum(),
        href: JobsAsked { state: Some(state), after: None, ..asked.clone() }.path(),
        here: asked.state == Some(state),
    };
    let all = Count {
        text: w.all,
        n: counted.iter().map(|tally| JobState::ALL.into_iter().map(|state| tally.of(state)).sum::<u64>()).sum(),
        href: JobsAsked { state: None, after: None, ..asked.clone() }.path(),
        here: asked.state.is_none(),
    };
    let filter = Filter {
        w,
        dependencies: names
            .into_iter()
            .map(|name| {
                let here = chosen(&name);
                (name, here)
            })
            .collect(),
        state: asked.state.map(JobState::as_str),
    };
    let jobs = page.jobs.iter().map(|view| show(view, say)).collect::<Result<Vec<_>, _>>()?;
    let pickable: Vec<&str> = jobs.iter().filter(|job| job.pick).map(|job| job.id.as_str()).collect();
    let (picks, ids) = (!pickable.is_empty(), pickable.join(","));
    let list = List {
        w,
        counts: std::iter::once(all).chain(JobState::ALL.map(count)).collect(),
        jobs,
        picks,
        page: ids,
        first: asked.after.map(|_| JobsAsked { after: None, ..asked.clone() }.path()),
        next: page.next.map(|after| JobsAsked { after: Some(after), ..asked.clone() }.path()),
    };
    Ok(Rendered {
        title: w.jobs.to_owned(),
        said: None,
        fragments: vec![Fragment::new("filter", markup(&filter)?), Fragment::new("jobs", markup(&list)?)],
    })
}

/// Returns the state of a job as a class of the style sheet.
pub(super) const fn kind(state: JobState) -> &'static str {
    match state {
        JobState::Queued => "queued",
        JobState::Running => "running",
        JobState::Done => "done",
        JobState::Failed => "failed",
        JobState::Expired => "expired",
        JobState::ManualReview => "review",
        JobState::Cancelled => "cancelled",
    }
}

/// Returns the state of a job with its word, shape and colour.
pub(super) fn badge(state: JobState, say: &Say) -> Result<String, Problem> {
    markup(&Badge { kind: kind(state), text: say.job_state(state) })
}

fn show(view: &JobView, say: &Say) -> Result<Shown, Problem> {
    let id = view.id.to_string();
    Ok(Shown {
        href: job_path(&id),
        pick: Decide::Requeue.allowed(view.job.state()),
        badge: badge(view.job.state(), say)?,
        key: view.key.clone(),
        reason: view.job.reason().map(|reason| say.job_reason(reason)),
        // Where that is the reason itself, it is said.
        beware: view.job.state() == JobState::ManualReview
            && view.job.may_have_run()
            && view.job.reason() != Some(Reason::UnknownEnd),
        circuit: view.job.terms().place.to_string(),
        accepted: say.moment(view.job.accepted_at()),
        last: view.job.last().map(|last| say.class(last.class).to_owned()),
        id,
    })
}
