//! `halfopen status`: every circuit at a glance.

use std::collections::BTreeMap;

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen::activation;
use halfopen::handle::CircuitView;
use halfopen_core::circuit::Circuit;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::event::State;
use halfopen_core::policy::{Policy, Surface};
use halfopen_core::redact;
use halfopen_core::time::Timestamp;
use serde_json::Value;

use super::place::{self, Place};
use super::remote::{At, Remote};
use super::{Done, OK, out};
use crate::args::Shared;
use crate::shown::{Line, Progress, Told, When, jobs_json, state_word};
use crate::{duration, ui};

/// Arguments of `halfopen status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print a JSON list
    #[arg(long, env = "HALFOPEN_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Which gateway is asked, if one is.
    #[command(flatten)]
    pub at: At,
}

pub(super) fn run(shared: &Shared, args: &StatusArgs) -> Done {
    if let Some(gateway) = Remote::named(&args.at)? {
        return of_gateway(&gateway, args);
    }
    let place = Place::find(shared)?;
    let handle = place.open()?;
    crate::alerts::watch::figures(&handle, &place.config, &place.store);
    crate::alerts::deliver(&handle, &place.config, &place.store);
    let circuits = place.circuits(&handle)?;
    let when = place::when(&handle);
    let queues = Progress::read(&handle, &circuits, when.now);
    if args.json {
        let circuits = with_all_that_queue(circuits, &queues, &place, when.now);
        let lines: Vec<Line> = circuits.iter().map(|view| Line::of(view, &queues, &when)).collect();
        out::json(&lines)?;
        return OK;
    }
    ui::say(&about_store(&place, &when));
    place.warn_of_new_stores();
    crate::alerts::undelivered(&handle).iter().for_each(|line| ui::warn(line));
    let queues: Vec<(String, Value)> =
        queues.iter().map(|(name, progress)| (name.clone(), jobs_json(Some(progress), &when))).collect();
    let jobs = jobs(&queues, &when);
    let shown = show(&circuits, &when, &|dependency| place.policy(dependency))?;
    if let Some(jobs) = jobs {
        out::text(&format!("\n{jobs}"))?;
    }
    Ok(shown)
}

/// Returns the circuits, and a blank one for each dependency that has open jobs and no circuit yet.
fn with_all_that_queue(
    mut circuits: Vec<CircuitView>,
    queues: &BTreeMap<String, Progress>,
    place: &Place,
    now: Timestamp,
) -> Vec<CircuitView> {
    let open = queues.iter().filter(|(_, progress)| progress.figures.tally.open() > 0);
    for name in open.map(|(name, _)| name) {
        if let (false, Ok(id)) = (circuits.iter().any(|view| view.id.dependency() == name), name.parse::<CircuitId>()) {
            let status = Circuit::new().status(&place.policy(name), now);
            circuits.push(CircuitView { id, status });
        }
    }
    circuits
}

/// Returns how far the queue of each dependency is that has open jobs, from the form that a gateway gives as well.
fn jobs(queues: &[(String, Value)], when: &When) -> Option<String> {
    let rows: Vec<Vec<String>> = queues
        .iter()
        .filter(|(_, jobs)| jobs.is_object())
        .map(|(name, jobs)| {
            let count = |key: &str| jobs[key].as_u64().unwrap_or(0).to_string();
            let at = |key: &str| jobs[key].as_str().and_then(|at| when.read_rfc3339(at));
            let or = |shown: Option<String>| shown.unwrap_or_else(|| "-".to_owned());
            vec![
                name.clone(),
                count("queued"),
                or(at("oldest_queued_at").map(|at| when.relative(at))),
                count("running"),
                count("manual_review"),
                or(jobs["rate_per_sec"].as_f64().map(|rate| format!("{rate}/s"))),
                or(at("done_at").map(|at| when.relative(at))),
                count("late"),
            ]
        })
        .collect();
    let head = ["jobs of", "queued", "oldest", "running", "manual review", "rate", "all started", "too late"];
    (!rows.is_empty()).then(|| out::table(&head, &rows))
}

/// Shows the circuits of a running gateway.
fn of_gateway(gateway: &Remote, args: &StatusArgs) -> Done {
    if args.json {
        out::text(&gateway.get("/circuits")?)?;
        return OK;
    }
    let when = When::of_reader();
    let documents = gateway.list("/circuits?full=true")?;
    let mut queues: Vec<(String, Value)> = documents
        .iter()
        .filter_map(|document| Some((document["dependency"].as_str()?.to_owned(), document["jobs"].clone())))
        .collect();
    queues.dedup_by(|a, b| a.0 == b.0);
    let told: Result<Vec<Told>, String> = documents.into_iter().map(|document| Told::read(document, &when)).collect();
    let told = told.map_err(|why| gateway.strange(&why))?;
    ui::say(&format!("gateway {}", gateway.url()));
    let policies: BTreeMap<String, Policy> =
        told.iter().map(|told| (told.view.id.dependency().to_owned(), told.policy.clone())).collect();
    let circuits: Vec<CircuitView> = told.into_iter().map(|told| told.view).collect();
    let shown = show(&circuits, &when, &|dependency| {
        policies.get(dependency).cloned().unwrap_or_else(|| Policy::built_in(dependency, Surface::Serve))
    })?;
    if let Some(jobs) = jobs(&queues, &when) {
        out::text(&format!("\n{jobs}"))?;
    }
    Ok(shown)
}

/// Shows circuits to a person.
fn show(circuits: &[CircuitView], when: &When, policy_of: &dyn Fn(&str) -> Policy) -> Done {
    if circuits.is_empty() {
        ui::say_with_hint(
            "no circuit is known yet",
            "one appears with its first failure or hold; successes leave none",
        );
        return OK;
    }
    out::text(&table(circuits, when, policy_of))?;
    if let Some(held) = held(circuits) {
        ui::warn(&held);
    }
    OK
}

fn table(circuits: &[CircuitView], when: &When, policy_of: &dyn Fn(&str) -> Policy) -> String {
    let rows: Vec<Vec<String>> = circuits
        .iter()
        .map(|view| {
            let status = &view.status;
            let policy = policy_of(view.id.dependency());
            let circuit = &policy.circuit;
            vec![
                view.id.to_string(),
                state_word(status.state).to_owned(),
                format!("{}/{}", status.failures_in_window, circuit.open_after_failures),
                format!("{}/{}", status.probes_in_flight, circuit.half_open_max_calls),
                next(view, &policy, when),
            ]
        })
        .collect();
    out::table(&["circuit", "state", "failures", "probes", "what holds"], &rows)
}

/// Says which circuits an operator holds, because the state beside them is the breaker's and not what calls meet.
fn held(circuits: &[CircuitView]) -> Option<String> {
    let mut ids = circuits.iter().filter(|view| view.status.hold.is_some()).map(|view| view.id.to_string());
    let first = ids.next()?;
    let others = match ids.count() {
        0 => String::new(),
        n => format!(" (and {n} more)"),
    };
    Some(format!("{first}{others} is held by an operator, whatever its state: halfopen release {first}"))
}

/// Says what keeps calls from passing freely, and for how long.
fn next(view: &CircuitView, policy: &Policy, when: &When) -> String {
    let status = &view.status;
    let mut parts = Vec::new();
    if let Some(hold) = &status.hold {
        let until = hold.until.map_or_else(String::new, |at| format!(", ends {}", when.relative(at)));
        let why = if hold.by.reason.is_empty() { "no reason given" } else { &hold.by.reason };
        let state = state_word(hold.state).to_uppercase();
        parts.push(format!("HELD {state} by {}{until}: {}", hold.by.who, redact::line(why)));
    }
    match (status.state, status.open_until) {
        (State::Open, Some(at)) => parts.push(format!("{}: probe {}", reason(view), when.relative(at))),
        (State::Open, None) => parts.push(reason(view)),
        (State::HalfOpen, _) => {
            let m = policy.circuit.close_after_successes;
            parts.push(format!("{}: {} of {m} probes good", reason(view), status.probe_successes));
        }
        (State::Closed, _) => {}
    }
    if let Some(at) = status.throttled_until.filter(|at| *at > when.now) {
        parts.push(format!("asked to wait, ends {}", when.relative(at)));
    }
    if let Some(rate) = status.ramp_per_sec {
        parts.push(format!("{} held back, returning at {rate}/s", status.waiting));
    } else if status.waiting > 0 {
        parts.push(format!("{} waiting", status.waiting));
    }
    if parts.is_empty() { "-".to_owned() } else { parts.join("; ") }
}

fn reason(view: &CircuitView) -> String {
    view.status.reason.map_or_else(|| "open".to_owned(), |reason| reason.replace('_', " "))
}

/// Names the store and its age: two people who see different circuits mostly look at different stores.
fn about_store(place: &Place, when: &When) -> String {
    let store = activation::named(&place.store);
    match activation::born_ms(&place.store) {
        Some(born) => {
            let age = when.now.since(halfopen_core::time::Timestamp::from_millis(born));
            format!("store {store}, created {} ago", duration::show(std::time::Duration::from_secs(age.as_secs())))
        }
        None => format!("store {store}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use halfopen_core::circuit::{Hold, Status};
    use halfopen_core::event::By;

    use super::*;
    use crate::shown::when::tests::tokyo;

    /// A circuit about which nothing is known.
    pub(in crate::ops) fn closed() -> Status {
        halfopen_core::circuit::Circuit::new().status(&Policy::built_in("a", Surface::Run), tokyo().now)
    }

    pub(in crate::ops) fn view(name: &str, status: Status) -> CircuitView {
        CircuitView { id: name.parse().unwrap(), status }
    }

    fn circuits() -> Vec<CircuitView> {
        let now = tokyo().now;
        let hold = |until| Hold {
            state: State::Open,
            until,
            by: By { who: "marie (uid 1000)".into(), reason: "maintenance".into() },
        };
        vec![
            view("claude", Status { failures_in_window: 2, ..closed() }),
            view(
                "claude@credential=main",
                Status {
                    state: State::Open,
                    generation: 4,
                    reason: Some("failures"),
                    open_until: Some(now + Duration::from_secs(95)),
                    failures_in_window: 5,
                    ..closed()
                },
            ),
            view("gh", Status { throttled_until: Some(now + Duration::from_millis(18_250)), waiting: 39, ..closed() }),
            view(
                "ocr@region=eu",
                Status { state: State::HalfOpen, probes_in_flight: 1, reason: Some("probe_failed"), ..closed() },
            ),
            view("crm", Status { hold: Some(hold(Some(now + Duration::from_secs(7_200)))), ..closed() }),
            view("mail", Status { ramp_per_sec: Some(2.0), waiting: 7, hold: Some(hold(None)), ..closed() }),
        ]
    }

    #[test]
    fn every_circuit_is_one_line_that_says_what_holds_it() {
        insta::assert_snapshot!(table(&circuits(), &tokyo(), &|name| Policy::built_in(name, Surface::Run)));
    }

    #[test]
    fn the_json_has_the_keys_that_scripts_rely_on() {
        let lines: Vec<Line> = circuits().iter().map(|view| Line::of(view, &BTreeMap::new(), &tokyo())).collect();
        insta::assert_json_snapshot!(lines);
    }
}
