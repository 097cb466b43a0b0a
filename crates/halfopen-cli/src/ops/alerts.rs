//! `halfopen alerts`: tries the channels of an owner, and lists what has not got through.

use clap::builder::BoolishValueParser;
use clap::{Args, Subcommand};
use halfopen_core::alert::{self, Delivered};
use halfopen_core::snapshot::{DeliveryState, PostRecord};
use halfopen_core::time::Timestamp;
use serde_json::{Value, json};

use super::place::{self, Place};
use super::{Done, Failure, OK, out};
use crate::args::Shared;
use crate::shown::When;
use crate::{alerts, exit, ui};

/// Arguments of `halfopen alerts`.
#[derive(Debug, Args)]
pub struct AlertsArgs {
    #[command(subcommand)]
    command: AlertsCommand,
}

/// What can be done about alerts.
#[derive(Debug, Subcommand)]
pub enum AlertsCommand {
    /// Send a test alert by every channel of an owner; exit with 1 if one did not take it
    Test(TestArgs),
    /// List alerts that wait or were given up
    List(ListArgs),
}

/// Arguments of `halfopen alerts test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// The owner, as named under `alerts`
    pub owner: String,
    /// Print a JSON list
    #[arg(long, env = "HALFOPEN_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
}

/// Arguments of `halfopen alerts list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Also those that were delivered
    #[arg(long, env = "HALFOPEN_ALERTS_ALL", value_parser = BoolishValueParser::new())]
    pub all: bool,
    /// Print a JSON list
    #[arg(long, env = "HALFOPEN_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
}

pub(super) fn run(shared: &Shared, args: &AlertsArgs) -> Done {
    match &args.command {
        AlertsCommand::Test(args) => test(shared, args),
        AlertsCommand::List(args) => list(shared, args),
    }
}

fn test(shared: &Shared, args: &TestArgs) -> Done {
    let place = Place::find(shared)?;
    let owners = &place.config.owners;
    if owners.get(&args.owner).is_none_or(Vec::is_empty) {
        let failure = Failure::new(exit::USAGE, format!("the policy names no channel for the owner `{}`", args.owner));
        let known: Vec<&str> =
            owners.iter().filter(|(_, channels)| !channels.is_empty()).map(|(name, _)| name.as_str()).collect();
        return Err(match known.as_slice() {
            [] => failure.hint(format!("write `alerts: {{{}: [{{webhook: URL}}]}}` into the policy", args.owner)),
            known => failure.hint(format!("known are {}", known.join(", "))),
        });
    }
    let handle = place.open()?;
    let alert = alert::test(&args.owner, fastrand::u64(..), handle.clock().now());
    let tried = alerts::try_all(&handle, owners, &alert);
    let failed = tried.iter().filter(|(_, how)| *how != Delivered::Yes).count();
    if args.json {
        let line = |(named, how): &(alerts::Named, Delivered)| json!({ "channel": named.name, "delivered": *how == Delivered::Yes, "error": why(how) });
        out::json(&tried.iter().map(line).collect::<Vec<Value>>())?;
    } else {
        let row = |(named, how): &(alerts::Named, Delivered)| {
            vec![named.name.clone(), why(how).map_or_else(|| "delivered".to_owned(), |why| format!("failed: {why}"))]
        };
        out::text(&out::table(&["channel", "what happened"], &tried.iter().map(row).collect::<Vec<_>>()))?;
    }
    Ok(if failed == 0 { exit::OK } else { exit::FOUND })
}

fn why(how: &Delivered) -> Option<&str> {
    match how {
        Delivered::Yes => None,
        Delivered::NotNow { error, .. } | Delivered::Never { error } => Some(error),
        Delivered::NotTried { why, .. } => Some(why),
    }
}

fn list(shared: &Shared, args: &ListArgs) -> Done {
    let place = Place::find(shared)?;
    let handle = place.open()?;
    alerts::watch::figures(&handle, &place.config, &place.store);
    alerts::deliver(&handle, &place.config, &place.store);
    let when = place::when(&handle);
    let mut posts = handle.alerts(alerts::LOOKED_AT).map_err(place::store_failure)?;
    posts.retain(|post| args.all || !is_delivered(post));
    if args.json {
        out::json(&posts.iter().map(|post| as_json(post, &when)).collect::<Vec<Value>>())?;
        return OK;
    }
    if posts.is_empty() {
        ui::say(if args.all { "no alert is known" } else { "no alert waits, and none was given up" });
        return OK;
    }
    let rows: Vec<Vec<String>> = posts.iter().flat_map(|post| rows(post, &when)).collect();
    out::text(&out::table(&["when", "alert", "owner", "channel", "state", "why"], &rows))?;
    OK
}

fn is_delivered(post: &PostRecord) -> bool {
    !post.deliveries.is_empty() && post.deliveries.iter().all(|delivery| delivery.state == DeliveryState::Delivered)
}

fn as_json(post: &PostRecord, when: &When) -> Value {
    let alert = &post.alert;
    let at = |ms: i64| when.rfc3339(Timestamp::from_millis(ms));
    let deliveries: Vec<Value> = post
        .deliveries
        .iter()
        .map(|delivery| {
            let next = (delivery.state == DeliveryState::Due).then(|| at(delivery.next_at_ms));
            json!({
                "channel": delivery.channel,
                "state": delivery.state.as_str(),
                "attempts": delivery.attempts,
                "next_at": next,
                "error": delivery.error,
            })
        })
        .collect();
    json!({
        "id": alert.id,
        "thread": alert.thread,
        "type": alert.kind,
        "circuit": alert.circuit,
        "owner": alert.owner,
        "at": at(alert.at_ms),
        "summary": alerts::headline(alert),
        "deliveries": deliveries,
    })
}

fn rows(post: &PostRecord, when: &When) -> Vec<Vec<String>> {
    let alert = &post.alert;
    let row = |channel: &str, state: &str, why: &str| {
        let at = when.local(Timestamp::from_millis(alert.at_ms));
        let owner = alert.owner.clone();
        vec![at, alerts::headline(alert), owner, channel.to_owned(), state.to_owned(), why.to_owned()]
    };
    if post.deliveries.is_empty() {
        return vec![row("-", "due", "")];
    }
    let shown = post.deliveries.iter();
    shown
        .map(|delivery| row(&delivery.channel, delivery.state.as_str(), delivery.error.as_deref().unwrap_or_default()))
        .collect()
}
