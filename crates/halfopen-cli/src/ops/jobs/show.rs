//! `halfopen jobs show ID`: one job, what it does, and everything that happened to it.

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen::handle::jobs::JobDetail;
use halfopen_core::job::{Entry, JobId, JobResult};
use halfopen_core::outcome::Exit;
use halfopen_core::redact;
use serde_json::json;

use super::super::place::{self, Place};
use super::super::{Done, OK, out};
use super::{known, possible};
use crate::shown::{When, does, job_document};
use crate::{duration, ui};

/// Arguments of `halfopen jobs show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The job
    #[arg(value_name = "ID")]
    pub id: JobId,
    /// Print a JSON object
    #[arg(long, env = "HALFOPEN_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
}

pub(super) fn run(place: &Place, args: &ShowArgs) -> Done {
    let handle = place.open()?;
    let detail = known(place, &handle, args.id)?;
    let request = handle.request(args.id).map_err(place::store_failure)?;
    let does = request.as_ref().map(does);
    let when = place::when(&handle);
    if args.json {
        let mut document = job_document(&detail, &when);
        document["does"] = json!(does);
        out::json(&document)?;
        return OK;
    }
    out::text(&about(&detail, does.as_deref(), &when))?;
    let rows: Vec<Vec<String>> = detail.history.iter().map(|entry| row(entry, &when)).collect();
    out::text(&format!("\n{}", out::table(&["when", "what", "state", "why"], &rows)))?;
    ui::raw(&format!("\nhint: {}\n", possible(args.id, detail.view.job.state())));
    OK
}

fn about(detail: &JobDetail, does: Option<&str>, when: &When) -> String {
    let job = &detail.view.job;
    let mut lines = vec![("job", detail.view.id.to_string()), ("dependency", job.terms().place.to_string())];
    if let Some(account) = &job.terms().account {
        lines.push(("account", account.to_string()));
    }
    lines.push(("does", does.unwrap_or("-").to_owned()));
    let why = job.reason().map(|reason| format!(" ({})", reason.as_str())).unwrap_or_default();
    lines.push(("state", format!("{}{why}", job.state())));
    lines.push(("accepted", when.both(job.accepted_at())));
    lines.push(("expires", when.both(job.expires_at())));
    if let Some(at) = job.not_before() {
        lines.push(("not before", when.both(at)));
    }
    if let Some((worker, ends_at)) = job.lease() {
        lines.push(("held by", format!("{worker}, lease ends {}", when.relative(ends_at))));
    }
    lines.push(("sent", format!("{} times, {} attempts charged", job.sent(), job.attempts())));
    if job.may_have_run() {
        lines.push(("beware", "an attempt of it may have been executed".to_owned()));
    }
    if let Some(last) = job.last() {
        let excerpt = if last.excerpt.is_empty() { String::new() } else { format!(": \"{}\"", last.excerpt) };
        lines.push(("last", format!("{}{excerpt} ({})", last.class, last.rule)));
    }
    if let Some(result) = &detail.result {
        lines.push(("result", of_result(result)));
    }
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    lines.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}

fn of_result(result: &JobResult) -> String {
    match result {
        JobResult::Http { status, body, cut, .. } => format!("status {status}, {}", bytes(body.len(), *cut)),
        JobResult::Command { exit, stdout, cut, took, .. } => {
            let ended = match exit {
                Exit::Code(code) => format!("exit {code}"),
                Exit::Signal(signal) => format!("signal {signal}"),
                Exit::TimedOut => "ended by our timeout".to_owned(),
                Exit::Cancelled | Exit::NotFound | Exit::NotExecutable => "not run to its end".to_owned(),
            };
            format!("{ended} after {}, {}", duration::show(*took), bytes(stdout.len(), *cut))
        }
        JobResult::Stated(words) => format!("stated: {}", redact::line(words)),
    }
}

fn bytes(bytes: usize, cut: bool) -> String {
    format!("{bytes} bytes{}", if cut { ", cut" } else { "" })
}

fn row(entry: &Entry, when: &When) -> Vec<String> {
    let change = match entry.from {
        Some(from) if from != entry.to => format!("{from} → {}", entry.to),
        Some(_) | None => entry.to.as_str().to_owned(),
    };
    let mut why: Vec<String> = Vec::new();
    why.extend(entry.class.map(|class| class.as_str().to_owned()));
    why.extend(entry.reason.map(|reason| reason.as_str().replace('_', " ")));
    why.extend(entry.note.clone());
    why.extend(entry.charged.then(|| "charged".to_owned()));
    why.extend(entry.worker.as_ref().map(|worker| format!("by {worker}")));
    if let Some(by) = &entry.by {
        let reason = if by.reason.is_empty() { String::new() } else { format!(": {}", redact::line(&by.reason)) };
        why.push(format!("by {}{reason}", by.who));
    }
    vec![
        when.local(entry.at),
        entry.what.as_str().replace('_', " "),
        change,
        if why.is_empty() { "-".to_owned() } else { why.join(", ") },
    ]
}
