//! Shows the policy in force, as it was resolved: every key with the value that holds, written or by default.
//!
//! Addresses are shown without secrets, credentials by their names and by where they are read.

use askama::Template;
use halfopen::config::{OrderBy, SecretFrom};
use halfopen_core::policy::{Growth, Jitter, Mode, OnExpiry, ProbeWith, Replay};
use halfopen_core::redact;

use super::super::problem::Problem;
use super::look::Look;
use super::page::{Fragment, Rendered, markup};
use super::say::fill;
use super::view::segment;
use super::words::Words;

/// How many dependencies are shown.
const SHOWN_MAX: usize = 200;

/// Rules that belong together.
pub(super) struct RuleGroup {
    name: &'static str,
    rows: Vec<(&'static str, String)>,
}

/// The rules of a dependency.
#[derive(Template)]
#[template(path = "dashboard/rules.html")]
pub(super) struct Rules {
    pub(super) anchor: String,
    pub(super) title: String,
    pub(super) groups: Vec<RuleGroup>,
}

#[derive(Template)]
#[template(path = "dashboard/policy.html")]
struct Intro<'a> {
    w: &'a Words,
    about: String,
    names: Vec<(String, String)>,
}

/// Renders the policy.
pub(super) fn render(look: &Look<'_>) -> Result<Rendered, Problem> {
    let w = look.say.w;
    let names: Vec<String> =
        look.gateway.live().dependencies().take(SHOWN_MAX).map(|dependency| dependency.name.clone()).collect();
    let anchor = |name: &String| format!("p-{}", segment(name));
    let about = match look.gateway.policy_path() {
        Some(path) => fill(w.policy_from, &[("path", &path.display().to_string())]),
        None => w.policy_built_in.to_owned(),
    };
    let intro = Intro { w, about, names: names.iter().map(|name| (anchor(name), name.clone())).collect() };
    let mut all = String::new();
    for name in &names {
        let rules = Rules { anchor: anchor(name), title: name.clone(), groups: rules_of(look, name) };
        all.push_str(&markup(&rules)?);
    }
    Ok(Rendered {
        title: w.policy.to_owned(),
        said: None,
        fragments: vec![Fragment::new("policy", markup(&intro)?), Fragment::new("rules", all)],
    })
}

/// Returns the rules of a dependency as they hold.
pub(super) fn rules_of(look: &Look<'_>, dependency: &str) -> Vec<RuleGroup> {
    let (say, w) = (&look.say, look.say.w);
    let policy = look.gateway.policy_of(dependency);
    let span = |span| say.exact(span);
    let maybe = |span: Option<_>| span.map_or_else(|| w.by_pack.to_owned(), |span| say.exact(span));
    let yes = |holds: bool| if holds { w.yes } else { w.no }.to_owned();
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let (circuit, retry, on_open, drain) = (&policy.circuit, &policy.retry, &policy.on_open, &policy.drain);
    let mut groups = vec![
        RuleGroup {
            name: w.rules_circuit,
            rows: vec![
                ("circuit.failure_window_sec", span(circuit.window)),
                ("circuit.open_after_failures", circuit.open_after_failures.to_string()),
                ("circuit.open_for_sec", span(circuit.open_for)),
                ("circuit.max_open_for_sec", span(circuit.max_open_for)),
                ("circuit.cooldown_factor", circuit.cooldown_factor.to_string()),
                ("circuit.half_open_max_calls", circuit.half_open_max_calls.to_string()),
                ("circuit.close_after_successes", circuit.close_after_successes.to_string()),
                ("circuit.probe_lease_sec", span(circuit.probe_lease)),
                ("circuit.count_unclassified", yes(circuit.count_unclassified)),
                ("split_by", policy.split_by.join(", ")),
                ("max_partitions", policy.max_partitions.to_string()),
                ("hint_ceiling_hours", span(policy.hint_ceiling)),
                ("probe", or_none(policy.probe.as_ref().map(probe))),
                ("mode", mode(policy.mode).to_owned()),
            ],
        },
        RuleGroup {
            name: w.rules_retry,
            rows: vec![
                ("retry.max_attempts", retry.max_attempts.to_string()),
                ("retry.base_ms", span(retry.backoff.base)),
                ("retry.max_backoff_ms", span(retry.backoff.max)),
                ("retry.backoff", growth(retry.backoff.growth).to_owned()),
                ("retry.jitter", jitter(retry.backoff.jitter).to_owned()),
                ("retry.honor_retry_after", yes(retry.honor_retry_after)),
                ("retry.max_wait_sec", span(retry.max_wait)),
                ("retry.deadline_sec", or_none(retry.deadline.map(span))),
                ("retry.budget", format!("{:.0} % + {}/min", retry.budget.ratio * 100.0, retry.budget.per_minute)),
                ("timeout_ms", maybe(policy.timeout)),
                ("first_byte_ms", or_none(policy.first_byte.map(span))),
                ("idle_ms", or_none(policy.idle.map(span))),
                ("replay", replay(policy.replay).to_owned()),
                ("replay_body_bytes_max", bytes(policy.replay_body_bytes_max)),
            ],
        },
        RuleGroup {
            name: w.rules_on_open,
            rows: vec![
                ("on_open.action", on_open.actions.iter().map(|a| a.as_str()).collect::<Vec<_>>().join(", ")),
                ("on_open.wait_sec", span(on_open.wait)),
                ("on_open.queue_ttl_min", or_none(on_open.queue_ttl.map(span))),
                ("on_open.on_expiry", expiry(on_open.on_expiry).to_owned()),
                ("on_open.user_message", or_none(on_open.user_message.clone())),
                ("drain.rate_per_sec", drain.rate_per_sec.to_string()),
                ("drain.max_per_sec", drain.max_per_sec.to_string()),
                ("drain.max_in_flight", format!("{} … {}", drain.max_in_flight, drain.max_in_flight_max)),
                ("lease_sec", span(circuit.lease)),
                ("owner", or_none(policy.owner.clone())),
                ("runbook", or_none(policy.runbook.clone())),
                ("expect_calls_every", or_none(policy.expect_calls_every.map(span))),
                ("journal_keep_days", span(policy.journal_keep)),
            ],
        },
    ];
    if let Some(known) = look.gateway.live().dependency(dependency) {
        let wiring = &known.wiring;
        let credentials: Vec<String> = wiring
            .credentials
            .iter()
            .map(|credential| match &credential.from {
                SecretFrom::Env(name) => format!("{} (${name})", credential.name),
                SecretFrom::File(path) => format!("{} ({})", credential.name, path.display()),
            })
            .collect();
        let order = wiring.order_by.as_ref().map_or_else(
            || "path: PUT, PATCH, DELETE".to_owned(),
            |order| match order {
                OrderBy::Path => "path".to_owned(),
                OrderBy::Nothing => "–".to_owned(),
                OrderBy::Header(name) => format!("header {name}"),
                OrderBy::Argument(name) => format!("argument {name}"),
            },
        );
        groups.push(RuleGroup {
            name: w.rules_ways,
            rows: vec![
                ("upstream", or_none(wiring.upstream.as_deref().map(redact::redact))),
                ("profile", policy.profile.clone().unwrap_or_else(|| w.by_host.to_owned())),
                ("credentials", if credentials.is_empty() { "–".to_owned() } else { credentials.join(", ") }),
                ("idempotency", or_none(known.key_field.as_ref().map(ToString::to_string))),
                ("order_by", order),
                ("fallback", or_none(wiring.fallback.clone())),
                (
                    "cache",
                    or_none(
                        wiring.cache.map(|cache| format!("{}, {}", say.exact(cache.max_age), bytes(cache.bytes_max))),
                    ),
                ),
                ("queue.max_jobs", wiring.queue.jobs_max.to_string()),
                ("queue.max_bytes", bytes(wiring.queue.bytes_max)),
                ("queue.keep_done_hours", span(wiring.queue.keep_done)),
            ],
        });
    }
    groups
}

/// Returns a number of bytes in the largest unit it is a whole number of.
fn bytes(n: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| n >= *unit && n.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{n} B"), |(unit, word)| format!("{} {word}", n / unit))
}

fn probe(probe: &ProbeWith) -> String {
    match probe {
        ProbeWith::Command(words) => redact::line(&words.join(" ")),
        ProbeWith::Url(url) => redact::redact(url),
    }
}

const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Observe => "observe",
    }
}

const fn growth(growth: Growth) -> &'static str {
    match growth {
        Growth::Exponential => "exponential",
        Growth::Constant => "constant",
    }
}

const fn jitter(jitter: Jitter) -> &'static str {
    match jitter {
        Jitter::Equal => "equal",
        Jitter::Full => "full",
        Jitter::None => "none",
    }
}

const fn replay(replay: Replay) -> &'static str {
    match replay {
        Replay::Always => "always",
        Replay::IfIdempotent => "if_idempotent",
        Replay::Never => "never",
    }
}

const fn expiry(expiry: OnExpiry) -> &'static str {
    match expiry {
        OnExpiry::ManualReview => "manual_review",
        OnExpiry::Expired => "expired",
    }
}
