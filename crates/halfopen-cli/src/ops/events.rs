//! `halfopen events`: what happened to circuits, from the journal.

use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen::store::EventFilter;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;
use serde_json::Value;

use super::place::{self, Place};
use super::remote::{At, Remote, encoded};
use super::{Done, OK, out};
use crate::args::Shared;
use crate::duration::parse_positive;
use crate::shown::{When, circuit_of, event_json, read_event};
use crate::ui;

/// Arguments of `halfopen events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Print a JSON list
    #[arg(long, env = "HALFOPEN_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Only what happened so recently
    #[arg(long, env = "HALFOPEN_EVENTS_SINCE", value_name = "DURATION", value_parser = |w: &str| parse_positive(w))]
    pub since: Option<Duration>,
    /// Only this dependency
    #[arg(long, env = "HALFOPEN_EVENTS_DEP", value_name = "NAME")]
    pub dep: Option<String>,
    /// At most so many, the newest
    #[arg(long, env = "HALFOPEN_EVENTS_LIMIT", value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
    /// Also what is no change of state: waits, probes, holds, the ramp
    #[arg(long, env = "HALFOPEN_EVENTS_ALL", value_parser = BoolishValueParser::new())]
    pub all: bool,
    /// Which gateway is asked, if one is.
    #[command(flatten)]
    pub at: At,
}

pub(super) fn run(shared: &Shared, args: &EventsArgs) -> Done {
    if let Some(gateway) = Remote::named(&args.at)? {
        return of_gateway(&gateway, args);
    }
    let place = Place::find(shared)?;
    let handle = place.open()?;
    let when = place::when(&handle);
    let filter = EventFilter {
        dependency: args.dep.clone(),
        since_ms: args.since.map(|since| (when.now - since).as_millis()),
        transitions_only: !args.all,
        limit: usize::try_from(args.limit).unwrap_or(usize::MAX),
    };
    let events = handle.events(&filter).map_err(place::store_failure)?;
    // The journal may know a name that has left the policy and the store.
    if let Some(name) = args.dep.as_deref().filter(|_| events.is_empty()) {
        place.known_dependency(&handle, name)?;
    }
    if args.json {
        out::json(&events.iter().map(|event| event_json(event, &when)).collect::<Vec<_>>())?;
        return OK;
    }
    show(&events, &when, args)
}

/// Lists what happened to the circuits of a running gateway.
fn of_gateway(gateway: &Remote, args: &EventsArgs) -> Done {
    let mut target = format!("/events?format=json&limit={}&all={}", args.limit, args.all);
    if let Some(since) = args.since {
        target.push_str(&format!("&since={}ms", since.as_millis()));
    }
    if let Some(dependency) = &args.dep {
        target.push_str(&format!("&dependency={}", encoded(dependency)));
    }
    if args.json {
        out::text(&gateway.get(&target)?)?;
        return OK;
    }
    let when = When::of_reader();
    let events: Result<Vec<EventRecord>, String> =
        gateway.list(&target)?.into_iter().map(|document| read_event(document, &when)).collect();
    show(&events.map_err(|why| gateway.strange(&why))?, &when, args)
}

/// Lists events for a person.
fn show(events: &[EventRecord], when: &When, args: &EventsArgs) -> Done {
    if events.is_empty() {
        ui::say(if args.all { "nothing has happened" } else { "no circuit has changed its state" });
        return OK;
    }
    let rows: Vec<Vec<String>> = events.iter().map(|event| row(event, when)).collect();
    out::text(&out::table(&["when", "circuit", "event", "change", "reason"], &rows))?;
    OK
}

fn row(event: &EventRecord, when: &When) -> Vec<String> {
    let change = if event.from_state == event.to_state {
        event.to_state.clone()
    } else {
        format!("{} → {}", event.from_state, event.to_state)
    };
    let mut why: Vec<String> = event.reason.iter().cloned().collect();
    why.extend(event.probe_result.as_ref().map(|result| format!("probe: {result}")));
    why.extend(event.details.get("who").and_then(Value::as_str).map(|who| format!("by {who}")));
    vec![
        when.local(Timestamp::from_millis(event.at_ms)),
        circuit_of(event),
        event.event.clone(),
        change,
        if why.is_empty() { "-".to_owned() } else { why.join(", ") },
    ]
}
