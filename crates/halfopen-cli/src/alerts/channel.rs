//! Names the channels of an owner, and sends by each kind.
//!
//! A channel is named after its owner, its kind and its place among those of the kind: `platform-oncall/webhook-1`; one of
//! `on_done` after the dependency: `on_done:ocr/webhook-1`. The name is the same in every process that reads the policy, holds no secret, and is part of a circuit's name.

use std::time::Duration;

use halfopen::config::{Channel, Owners, SecretUrl};

use super::message::Message;
use super::{Outcome, command, http, mail};

/// The longest part of an owner's name that stands in a channel's.
const OWNER_CHARS_MAX: usize = 100;

/// A channel with its name.
#[derive(Clone, Debug)]
pub struct Named {
    /// Such as `platform-oncall/webhook-1`.
    pub name: String,
    /// Whom it reaches, or who hears that it does not; `None` if nobody does.
    pub owner: Option<String>,
    /// How.
    pub channel: Channel,
}

/// Returns the channels of an owner in the order of the policy; none if the policy does not name the owner.
#[must_use]
pub fn named(owners: &Owners, owner: &str) -> Vec<Named> {
    let channels = owners.get(owner).map(Vec::as_slice).unwrap_or_default();
    numbered(&in_a_name(owner), Some(owner), channels)
}

/// Returns the receivers of a dependency's `on_done` in the order of the policy.
#[must_use]
pub fn receivers(dependency: &str, channels: &[Channel], owner: Option<&str>) -> Vec<Named> {
    numbered(&format!("on_done:{}", in_a_name(dependency)), owner, channels)
}

fn numbered(prefix: &str, owner: Option<&str>, channels: &[Channel]) -> Vec<Named> {
    let mut seen: Vec<&str> = Vec::new();
    let number = |channel: &Channel| {
        let kind = kind(channel);
        seen.push(kind);
        let place = seen.iter().filter(|known| **known == kind).count();
        Named { name: format!("{prefix}/{kind}-{place}"), owner: owner.map(str::to_owned), channel: channel.clone() }
    };
    channels.iter().map(number).collect()
}

fn kind(channel: &Channel) -> &'static str {
    match channel {
        Channel::Webhook { .. } => "webhook",
        Channel::Slack(_) => "slack",
        Channel::Email { .. } => "email",
        Channel::Command(_) => "command",
        _ => "other",
    }
}

/// What a circuit's name may not hold becomes `-`.
fn in_a_name(owner: &str) -> String {
    let bad = |c: char| c == '@' || c == '=' || c.is_whitespace() || c.is_control();
    owner.chars().take(OWNER_CHARS_MAX).map(|c| if bad(c) { '-' } else { c }).collect()
}

/// Sends a message by one channel, within `within`.
pub(super) fn send(channel: &Channel, message: &Message, within: Duration) -> Outcome {
    match channel {
        Channel::Webhook { url, secret } => {
            let url = match written(url) {
                Ok(url) => url,
                Err(outcome) => return outcome,
            };
            let keys = match secret.as_deref().map(variable).transpose() {
                Ok(keys) => keys,
                Err(outcome) => return outcome,
            };
            http::webhook(&url, keys.as_deref(), message, within)
        }
        Channel::Slack(url) => match written(url) {
            Ok(url) => http::slack(&url, message, within),
            Err(outcome) => outcome,
        },
        Channel::Email { to, from, smtp } => match variable(smtp) {
            Ok(server) => mail::send(&server, from.as_deref(), to, message, within),
            Err(outcome) => outcome,
        },
        Channel::Command(words) => command::tell(words, message, within),
        _ => Outcome::never("this version does not know this kind of channel"),
    }
}

fn written(url: &SecretUrl) -> Result<String, Outcome> {
    match url {
        SecretUrl::Written(url) => Ok(url.clone()),
        SecretUrl::Env(name) => variable(name),
    }
}

/// Reads a variable. One that is missing here may be there in the next process: the alert stays due.
fn variable(name: &str) -> Result<String, Outcome> {
    let missing = || {
        let error = format!("the variable {name} is not set, or is no text");
        Outcome::not_now(halfopen_core::verdict::Class::InvalidRequest, error)
    };
    std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty()).ok_or_else(missing)
}
