//! `halfopen jobs show ID`: one job, what it does, and everything that happened to it.

use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen_core::job::JobId;
use halfopen_core::redact;
use serde_json::{Value, json};

use super::super::place::{self, Place};
use super::super::remote::{At, Remote};
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
    /// Which gateway is asked, if one is.
    #[command(flatten)]
    pub at: At,
}

pub(super) fn run(place: &Place, args: &ShowArgs) -> Done {
    let handle = place.open_existing()?;
    let detail = known(place, &handle, args.id)?;
    let request = handle.request(args.id).map_err(place::store_failure)?;
    let does = request.as_ref().map(does);
    let when = place::when(&handle);
    let mut document = job_document(&detail, &when);
    document["does"] = json!(does);
    show(args, &document, &when)
}

/// Shows a job of a running gateway, which does not tell what it does.
pub(super) fn of_gateway(gateway: &Remote, args: &ShowArgs) -> Done {
    show(args, &gateway.document(&format!("/jobs/{}", args.id))?, &When::of_reader())
}

/// Shows what a document says.
fn show(args: &ShowArgs, job: &Value, when: &When) -> Done {
    if args.json {
        out::json(job)?;
        return OK;
    }
    out::text(&about(job, when))?;
    let history = job["history"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<Vec<String>> = history.iter().map(|entry| row(entry, when)).collect();
    out::text(&format!("\n{}", out::table(&["when", "what", "state", "why"], &rows)))?;
    if let Some(state) = job["state"].as_str().and_then(|state| state.parse().ok()) {
        ui::raw(&format!("\nhint: {}\n", possible(args.id, state)));
    }
    OK
}

fn about(job: &Value, when: &When) -> String {
    let text = |key: &str| job[key].as_str();
    let count = |key: &str| job[key].as_u64().unwrap_or(0);
    let at = |key: &str| text(key).and_then(|at| when.read_rfc3339(at));
    let mut lines: Vec<(&str, String)> = Vec::new();
    let mut line = |name: &'static str, value: Option<String>| lines.extend(value.map(|value| (name, value)));
    line("job", text("id").map(str::to_owned));
    line("dependency", text("circuit").map(str::to_owned));
    line("account", text("account").map(str::to_owned));
    line("caller", text("caller").map(redact::line));
    line("key", text("idempotency_key").map(redact::line));
    line("does", text("does").map(str::to_owned));
    let why = text("reason").map(|reason| format!(" ({reason})")).unwrap_or_default();
    line("state", text("state").map(|state| format!("{state}{why}")));
    line("accepted", at("accepted_at").map(|at| when.both(at)));
    line("expires", at("expires_at").map(|at| when.both(at)));
    line("not before", at("not_before").map(|at| when.both(at)));
    let lease = &job["lease"];
    let ends_at = lease["ends_at"].as_str().and_then(|at| when.read_rfc3339(at));
    line(
        "held by",
        lease["worker"].as_str().zip(ends_at).map(|(worker, at)| format!("{worker}, lease ends {}", when.relative(at))),
    );
    line("sent", Some(format!("{} times, {} attempts charged", count("sent"), count("attempts"))));
    // Of one that is done it is no news.
    let beware = job["may_have_run"].as_bool() == Some(true) && job["state"] != "done";
    line("beware", beware.then(|| "an attempt of it may have been executed".to_owned()));
    line("last", of_last(&job["last"]));
    line("result", of_result(&job["result"]));
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    lines.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}

fn of_last(last: &Value) -> Option<String> {
    let text = |key: &str| last[key].as_str().unwrap_or_default();
    let excerpt = if text("excerpt").is_empty() { String::new() } else { format!(": \"{}\"", text("excerpt")) };
    last["class"].as_str().map(|class| format!("{class}{excerpt} ({})", text("rule")))
}

fn of_result(result: &Value) -> Option<String> {
    let cut = if result["cut"].as_bool() == Some(true) { ", cut" } else { "" };
    let bytes = format!("{} bytes{cut}", result["bytes"].as_u64().unwrap_or(0));
    let ended = match result["kind"].as_str()? {
        "http" => return Some(format!("status {}, {bytes}", result["status"])),
        "stated" => return Some(format!("stated: {}", redact::line(result["words"].as_str().unwrap_or_default()))),
        _ => match result["ended"].as_str().unwrap_or_default() {
            "exited" => format!("exit {}", result["code"]),
            "signalled" => format!("signal {}", result["signal"]),
            "timed_out" => "ended by our timeout".to_owned(),
            _ => "not run to its end".to_owned(),
        },
    };
    let took = Duration::from_millis(result["took_ms"].as_u64().unwrap_or(0));
    Some(format!("{ended} after {}, {bytes}", duration::show(took)))
}

fn row(entry: &Value, when: &When) -> Vec<String> {
    let text = |key: &str| entry[key].as_str();
    let to = text("to").unwrap_or("-");
    let change = match text("from") {
        Some(from) if from != to => format!("{from} → {to}"),
        Some(_) | None => to.to_owned(),
    };
    let mut why: Vec<String> = Vec::new();
    why.extend(text("class").map(str::to_owned));
    why.extend(text("reason").map(|reason| reason.replace('_', " ")));
    why.extend(text("note").map(str::to_owned));
    why.extend((entry["charged"].as_bool() == Some(true)).then(|| "charged".to_owned()));
    why.extend(text("worker").map(|worker| format!("by {worker}")));
    if let Some(who) = entry["by"]["who"].as_str() {
        let reason = entry["by"]["reason"].as_str().filter(|reason| !reason.is_empty());
        why.push(format!("by {who}{}", reason.map(|reason| format!(": {}", redact::line(reason))).unwrap_or_default()));
    }
    vec![
        text("at").and_then(|at| when.read_rfc3339(at)).map_or_else(|| "-".to_owned(), |at| when.local(at)),
        text("what").unwrap_or("-").replace('_', " "),
        change,
        if why.is_empty() { "-".to_owned() } else { why.join(", ") },
    ]
}
