//! `halfopen jobs list`: jobs in the order in which they were accepted, page by page.

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen::handle::jobs::JobView;
use halfopen::store::jobs::JobFilter;
use halfopen_core::job::{JobId, JobState};
use serde_json::{Value, json};

use super::super::place::{self, Place};
use super::super::{Done, OK, out};
use crate::shown::{When, job_line};
use crate::ui;

/// Arguments of `halfopen jobs list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only in this state: queued, running, done, failed, expired, manual_review or cancelled
    #[arg(long, env = "HALFOPEN_STATE", value_name = "STATE")]
    pub state: Option<JobState>,
    /// Only of this dependency
    #[arg(long, env = "HALFOPEN_DEP", value_name = "NAME")]
    pub dep: Option<String>,
    /// At most so many
    #[arg(long, env = "HALFOPEN_LIMIT", value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
    /// Only those accepted after this one: the next page
    #[arg(long, env = "HALFOPEN_AFTER", value_name = "ID")]
    pub after: Option<JobId>,
    /// Print a JSON object: jobs, and after which the next page begins
    #[arg(long, env = "HALFOPEN_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
}

pub(super) fn run(place: &Place, args: &ListArgs) -> Done {
    let handle = place.open()?;
    let filter = JobFilter {
        dependency: args.dep.clone(),
        state: args.state,
        after: args.after,
        limit: usize::from(args.limit),
    };
    let page = handle.jobs(&filter).map_err(place::store_failure)?;
    let when = place::when(&handle);
    if args.json {
        let jobs: Vec<Value> = page.jobs.iter().map(|view| job_line(view, &when)).collect();
        out::json(&json!({ "jobs": jobs, "next": page.next.map(|id| id.to_string()) }))?;
        return OK;
    }
    if page.jobs.is_empty() {
        ui::say(if filter.dependency.is_some() || filter.state.is_some() { "no such job" } else { "no job" });
        return OK;
    }
    let rows: Vec<Vec<String>> = page.jobs.iter().map(|view| row(view, &when)).collect();
    out::text(&out::table(&["job", "dependency", "state", "accepted", "what next"], &rows))?;
    if let Some(next) = page.next {
        ui::raw(&format!("\nhint: there may be more: halfopen jobs list --after {next}\n"));
    }
    OK
}

fn row(view: &JobView, when: &When) -> Vec<String> {
    let job = &view.job;
    let why = job.reason().map(|reason| format!("{}; ", reason.as_str().replace('_', " "))).unwrap_or_default();
    let next = match job.state() {
        JobState::Queued => match job.not_before() {
            Some(at) => format!("tried {}, expires {}", when.relative(at), when.relative(job.expires_at())),
            None => format!("expires {}", when.relative(job.expires_at())),
        },
        JobState::Running => job.lease().map_or_else(String::new, |(worker, _)| format!("held by {worker}")),
        JobState::ManualReview => format!("{why}a person must decide"),
        JobState::Failed | JobState::Expired => format!("{why}it can be requeued"),
        JobState::Done | JobState::Cancelled => "-".to_owned(),
    };
    vec![
        view.id.to_string(),
        job.terms().dependency().to_owned(),
        job.state().as_str().to_owned(),
        when.relative(job.accepted_at()),
        next,
    ]
}
