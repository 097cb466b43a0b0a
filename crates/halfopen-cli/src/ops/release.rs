//! `halfopen release CIRCUIT`: ends a hold, and with `--probe-now` the cooldown too.

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen_core::event::State;

use super::place::{self, Place};
use super::{Done, OK, steer};
use crate::args::Shared;
use crate::ui;

/// Arguments of `halfopen release`.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// The circuit; without @ all circuits of that dependency
    #[arg(value_name = "CIRCUIT")]
    pub circuit: String,
    /// End the cooldown too: the next call is a probe
    #[arg(long, env = "HALFOPEN_PROBE_NOW", value_parser = BoolishValueParser::new())]
    pub probe_now: bool,
    /// Why, for the journal and for whoever asks
    #[arg(long, env = "HALFOPEN_REASON", value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
}

pub(super) fn run(shared: &Shared, args: &ReleaseArgs) -> Done {
    let place = Place::find(shared)?;
    let handle = place.open()?;
    let circuits = place.named(&handle, &args.circuit)?;
    let who = steer::who();
    for view in &circuits {
        let policy = place.policy(view.id.dependency());
        handle.release(&view.id, &policy, args.probe_now, &who, &args.reason).map_err(place::store_failure)?;
        let held = view.status.hold.is_some();
        let probes = args.probe_now && view.status.state == State::Open;
        let said = match (held, probes) {
            (true, true) => "is no longer held; its next call is a probe",
            (true, false) => "is no longer held",
            (false, true) => "was not held; its next call is a probe",
            (false, false) => "was not held; nothing changed",
        };
        ui::say(&format!("{} {said}", view.id));
    }
    OK
}
