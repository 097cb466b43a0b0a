//! `halfopen hold CIRCUIT open|closed`: an operator knows better for a while.

use std::time::Duration;

use clap::{Args, ValueEnum};
use halfopen::handle::Handle;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::event::State;
use serde_json::json;

use super::place::{self, Place};
use super::remote::{At, Remote, encoded};
use super::{Done, Failure, OK, steer};
use crate::args::Shared;
use crate::duration::parse_positive;
use crate::shown::{When, named};
use crate::{exit, ui};

/// Arguments of `halfopen hold`.
#[derive(Debug, Args)]
pub struct HoldArgs {
    /// The circuit; without @ all circuits of that dependency
    #[arg(value_name = "CIRCUIT")]
    pub circuit: String,
    /// Whether calls are refused (open) or pass (closed) meanwhile
    #[arg(value_name = "open|closed")]
    pub state: HeldState,
    /// How long the hold lasts [default: until it is released]
    #[arg(long = "for", env = "HALFOPEN_FOR", value_name = "DURATION", value_parser = |w: &str| parse_positive(w))]
    pub lasting: Option<Duration>,
    /// Why, for the journal and for whoever asks
    #[arg(long, env = "HALFOPEN_REASON", value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
    /// Which gateway is asked, if one is.
    #[command(flatten)]
    pub at: At,
}

/// A state in which a circuit can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HeldState {
    /// Every call is refused
    Open,
    /// Every call passes
    Closed,
}

pub(super) fn run(shared: &Shared, args: &HoldArgs) -> Done {
    let state = match args.state {
        HeldState::Open => State::Open,
        HeldState::Closed => State::Closed,
    };
    if let Some(gateway) = Remote::named(&args.at)? {
        return of_gateway(&gateway, args, state);
    }
    let place = Place::find(shared)?;
    let handle = place.open()?;
    let who = steer::who();
    let ids = ids(&place, &handle, &args.circuit)?;
    let when = place::when(&handle);
    let until = until(args, &when);
    for id in &ids {
        let policy = place.policy(id.dependency());
        handle.hold(id, &policy, state, args.lasting, &who, &args.reason).map_err(place::store_failure)?;
        ui::say(&format!("{id} is held {} {until}", state.as_str()));
    }
    hint(args)
}

/// Holds circuits of a running gateway.
fn of_gateway(gateway: &Remote, args: &HoldArgs, state: State) -> Done {
    let mut body = json!({ "state": state.as_str(), "reason": args.reason });
    if let Some(lasting) = args.lasting {
        body["for_sec"] = json!(lasting.as_secs_f64());
    }
    let held = gateway.post(&format!("/circuits/{}/hold", encoded(&args.circuit)), &body)?;
    let until = until(args, &When::of_reader());
    for line in &held {
        let id = line["circuit"].as_str().unwrap_or(&args.circuit);
        ui::say(&format!("{id} is held {} {until}", state.as_str()));
    }
    hint(args)
}

/// Says until when a hold lasts.
fn until(args: &HoldArgs, when: &When) -> String {
    match args.lasting {
        Some(lasting) => format!("until {}", when.both(when.now + lasting)),
        None => "until it is released".to_owned(),
    }
}

/// Says how a hold is ended that has no end.
fn hint(args: &HoldArgs) -> Done {
    if args.lasting.is_none() {
        let name = ui::shell_word(&args.circuit);
        ui::raw(&format!("\nhint: halfopen release {name} ends it; --for 2h would have ended it by itself\n"));
    }
    OK
}

/// Returns the circuits to hold. One that is not known yet may be held before its first failure, but is not taken for
/// granted: it may be a slip of the pen.
fn ids(place: &Place, handle: &Handle, word: &str) -> Result<Vec<CircuitId>, Failure> {
    let id: CircuitId = word.parse().map_err(|error| Failure::new(exit::USAGE, error))?;
    let all = place.circuits(handle)?;
    let found: Vec<CircuitId> = named(&all, &id).map(|view| view.id.clone()).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    if !place.config.dependencies.contains_key(id.dependency()) && !all.is_empty() {
        ui::warn(&format!("{id} has had no failure or hold yet; known are {}", place::known(&all)));
    }
    Ok(vec![id])
}
