//! `halfopen jobs list`: jobs in the order in which they were accepted, page by page.

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen_core::job::{JobId, JobState};
use serde_json::Value;

use super::super::place::{self, Place};
use super::super::remote::{At, Remote};
use super::super::{Done, Failure, OK, out};
use super::choose::Filters;
use crate::shown::When;
use crate::ui;

/// Arguments of `halfopen jobs list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Which of all jobs.
    #[command(flatten)]
    pub filters: Filters,
    /// At most so many
    #[arg(long, env = "HALFOPEN_JOBS_LIMIT", value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
    /// Only those accepted after this one: the next page
    #[arg(long, env = "HALFOPEN_AFTER", value_name = "ID")]
    pub after: Option<JobId>,
    /// Print a JSON object: jobs, and after which the next page begins
    #[arg(long, env = "HALFOPEN_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Which gateway is asked, if one is.
    #[command(flatten)]
    pub at: At,
}

pub(super) fn run(place: &Place, args: &ListArgs) -> Done {
    let handle = place.open_existing()?;
    if let Some(dep) = &args.filters.dep {
        place.known_dependency(&handle, dep)?;
    }
    let page = args.filters.page(&handle, args.after, usize::from(args.limit))?;
    show(args, &page, &place::when(&handle))
}

/// Lists the jobs that a running gateway knows.
pub(super) fn of_gateway(gateway: &Remote, args: &ListArgs) -> Done {
    let target = args.filters.target(args.after, usize::from(args.limit));
    show(args, &gateway.document(&target)?, &When::of_reader())
}

/// Shows a page.
fn show(args: &ListArgs, page: &Value, when: &When) -> Done {
    if args.json {
        out::json(page)?;
        return OK;
    }
    let jobs = page["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
    if jobs.is_empty() {
        ui::say(if args.filters.leave_out_some() { "no such job" } else { "no job" });
    }
    table(jobs, when)?;
    if let Some(next) = page["next"].as_str() {
        ui::raw(&format!("\nhint: there may be more: halfopen jobs list --after {next}\n"));
    }
    OK
}

/// Writes jobs as a table, or nothing where there is none.
pub(super) fn table(jobs: &[Value], when: &When) -> Result<(), Failure> {
    if jobs.is_empty() {
        return Ok(());
    }
    let rows: Vec<Vec<String>> = jobs.iter().map(|job| row(job, when)).collect();
    out::text(&out::table(&["job", "dependency", "state", "accepted", "what next"], &rows))
}

fn row(job: &Value, when: &When) -> Vec<String> {
    let word = |key: &str| job[key].as_str().unwrap_or("-").to_owned();
    let at = |key: &str| job[key].as_str().and_then(|at| when.read_rfc3339(at));
    let relative = |key: &str| at(key).map_or_else(|| "-".to_owned(), |at| when.relative(at));
    let why = job["reason"].as_str().map(|reason| format!("{}; ", reason.replace('_', " "))).unwrap_or_default();
    let next = match job["state"].as_str().and_then(|state| state.parse().ok()) {
        Some(JobState::Queued) => match at("not_before") {
            Some(at) => format!("tried {}, expires {}", when.relative(at), relative("expires_at")),
            None => format!("expires {}", relative("expires_at")),
        },
        Some(JobState::Running) => "a worker holds it".to_owned(),
        Some(JobState::ManualReview) => format!("{why}a person must decide"),
        Some(JobState::Failed | JobState::Expired) => format!("{why}it can be requeued"),
        Some(JobState::Done | JobState::Cancelled) | None => "-".to_owned(),
    };
    vec![word("id"), word("dependency"), word("state"), relative("accepted_at"), next]
}
