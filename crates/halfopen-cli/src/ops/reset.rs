//! `halfopen reset CIRCUIT`: what the circuit has learned no longer holds.

use clap::Args;

use super::place::{self, Place};
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
}

pub(super) fn run(shared: &Shared, args: &ResetArgs) -> Done {
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
    if circuits.iter().any(|view| view.status.hold.is_some()) {
        let name = ui::shell_word(&args.circuit);
        ui::raw(&format!("\nhint: a hold outlives a reset; halfopen release {name} ends it\n"));
    }
    OK
}
