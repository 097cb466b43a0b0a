//! `halfopen release CIRCUIT`: ends a hold, and with `--probe-now` the cooldown too.

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen_core::event::State;
use serde_json::json;

use super::place::{self, Place};
use super::remote::{At, Remote, encoded};
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
    /// Which gateway is asked, if one is.
    #[command(flatten)]
    pub at: At,
}

pub(super) fn run(shared: &Shared, args: &ReleaseArgs) -> Done {
    if let Some(gateway) = Remote::named(&args.at)? {
        return of_gateway(&gateway, args);
    }
    let place = Place::find(shared)?;
    let handle = place.open()?;
    let circuits = place.named(&handle, &args.circuit)?;
    let who = steer::who();
    for view in &circuits {
        let policy = place.policy(view.id.dependency());
        handle.release(&view.id, &policy, args.probe_now, &who, &args.reason).map_err(place::store_failure)?;
        let held = view.status.hold.is_some();
        let probes = args.probe_now && view.status.state == State::Open;
        ui::say(&format!("{} {}", view.id, what_changed(held, probes)));
    }
    OK
}

/// Releases circuits of a running gateway.
fn of_gateway(gateway: &Remote, args: &ReleaseArgs) -> Done {
    let body = json!({ "reason": args.reason, "probe_now": args.probe_now });
    for line in gateway.post(&format!("/circuits/{}/release", encoded(&args.circuit)), &body)? {
        let before = &line["before"];
        let probes = args.probe_now && before["state"] == State::Open.as_str();
        let id = line["circuit"].as_str().unwrap_or(&args.circuit);
        ui::say(&format!("{id} {}", what_changed(!before["hold"].is_null(), probes)));
    }
    OK
}

/// Says what a release changed, of a circuit that was `held` or not, and whose next call is a probe or not.
const fn what_changed(held: bool, probes: bool) -> &'static str {
    match (held, probes) {
        (true, true) => "is no longer held; its next call is a probe",
        (true, false) => "is no longer held",
        (false, true) => "was not held; its next call is a probe",
        (false, false) => "was not held; nothing changed",
    }
}
