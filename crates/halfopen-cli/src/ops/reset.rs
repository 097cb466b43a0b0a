//! `halfopen reset CIRCUIT`: what the circuit has learned no longer holds.

use clap::Args;
use serde_json::json;

use super::place::{self, Place};
use super::remote::{At, Remote, encoded};
use super::{Done, OK, steer};
use crate::args::Shared;
use crate::shown::state_word;
use crate::ui;

/// Arguments of `halfopen reset`.
#[derive(Debug, Args)]
pub struct ResetArgs {
    /// The circuit; without @ all circuits of that dependency
    #[arg(value_name = "CIRCUIT")]
    pub circuit: String,
    /// Why, for the journal and for whoever asks
    #[arg(long, env = "HALFOPEN_REASON", value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
    /// Which gateway is asked, if one is.
    #[command(flatten)]
    pub at: At,
}

pub(super) fn run(shared: &Shared, args: &ResetArgs) -> Done {
    if let Some(gateway) = Remote::named(&args.at)? {
        return of_gateway(&gateway, args);
    }
    let place = Place::find(shared)?;
    let handle = place.open()?;
    let circuits = place.named(&handle, &args.circuit)?;
    let who = steer::who();
    for view in &circuits {
        let policy = place.policy(view.id.dependency());
        handle.reset(&view.id, &policy, &who, &args.reason).map_err(place::store_failure)?;
        let before = state_word(view.status.state);
        ui::say(&format!("{} is closed and has forgotten its failures (it was {before})", view.id));
    }
    hint(args, circuits.iter().any(|view| view.status.hold.is_some()))
}

/// Resets circuits of a running gateway.
fn of_gateway(gateway: &Remote, args: &ResetArgs) -> Done {
    let lines =
        gateway.post(&format!("/circuits/{}/reset", encoded(&args.circuit)), &json!({ "reason": args.reason }))?;
    for line in &lines {
        let id = line["circuit"].as_str().unwrap_or(&args.circuit);
        let before = line["before"]["state"].as_str().unwrap_or("unknown").replace('_', "-");
        ui::say(&format!("{id} is closed and has forgotten its failures (it was {before})"));
    }
    hint(args, lines.iter().any(|line| !line["hold"].is_null()))
}

/// Says what a reset leaves.
fn hint(args: &ResetArgs, held: bool) -> Done {
    if held {
        let name = ui::shell_word(&args.circuit);
        ui::raw(&format!("\nhint: a hold outlives a reset; halfopen release {name} ends it\n"));
    }
    OK
}
