//! `halfopen jobs list`: jobs in the order in which they were accepted, page by page.

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen::store::jobs::JobFilter;
use halfopen_core::job::{JobId, JobState};
use serde_json::{Value, json};

use super::super::place::{self, Place};
use super::super::remote::{At, Remote, encoded};
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
    /// Which gateway is asked, if one is.
    #[command(flatten)]
    pub at: At,
}

pub(super) fn run(place: &Place, args: &ListArgs) -> Done {
    let handle = place.open()?;
    if let Some(dep) = &args.dep {
        place.known_dependency(&handle, dep)?;
    }
    let filter = JobFilter {
        dependency: args.dep.clone(),
        state: args.state,
        after: args.after,
        limit: usize::from(args.limit),
    };
    let page = handle.jobs(&filter).map_err(place::store_failure)?;
    let when = place::when(&handle);
    let jobs: Vec<Value> = page.jobs.iter().map(|view| job_line(view, &when)).collect();
    show(args, &json!({ "jobs": jobs, "next": page.next.map(|id| id.to_string()) }), &when)
}

/// Lists the jobs that a running gateway knows.
pub(super) fn of_gateway(gateway: &Remote, args: &ListArgs) -> Done {
    let mut target = format!("/jobs?limit={}", args.limit);
    let more = [
        ("state", args.state.map(|state| state.as_str().to_owned())),
        ("dependency", args.dep.clone()),
        ("after", args.after.map(|id| id.to_string())),
    ];
    for (key, value) in more {
        if let Some(value) = value {
            target.push_str(&format!("&{key}={}", encoded(&value)));
        }
    }
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
        ui::say(if args.dep.is_some() || args.state.is_some() { "no such job" } else { "no job" });
        return OK;
    }
    let rows: Vec<Vec<String>> = jobs.iter().map(|job| row(job, when)).collect();
    out::text(&out::table(&["job", "dependency", "state", "accepted", "what next"], &rows))?;
    if let Some(next) = page["next"].as_str() {
        ui::raw(&format!("\nhint: there may be more: halfopen jobs list --after {next}\n"));
    }
    OK
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
