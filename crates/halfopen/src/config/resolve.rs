//! Turns what is written into trusted policies: defaults filled in, pairs of keys checked against each other.

use std::num::NonZeroU32;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use halfopen_core::policy::{Growth, Jitter, Mode, OnExpiry, OnOpenAction, Policy, Replay, Surface};

use super::Dependency;
use super::finding::Level;
use super::raw::{Raw, RawFile, RawOwner, Written};
use super::reader::Reader;
use super::suggest;
use super::wiring::{Cache, Credential, Idempotency, OrderBy, Owners, QueueBounds, SecretFrom, Wiring};

/// Returns the dependency that `raw` describes, with the defaults of `surface` where it is silent.
pub(super) fn dependency(raw: &Raw, name: &str, surface: Surface) -> Dependency {
    Dependency { policy: policy(raw, name, surface), wiring: wiring(raw), classify: classify(raw) }
}

fn policy(raw: &Raw, name: &str, surface: Surface) -> Policy {
    let mut policy = Policy::built_in(name, surface);
    let p = &mut policy;
    p.profile = raw.text("profile").or_else(|| p.profile.take());
    set(&mut p.split_by, raw.words("split_by"));
    set_count(&mut p.max_partitions, raw.count("max_partitions"));
    p.timeout = raw.time("timeout_ms").or(p.timeout);
    p.first_byte = raw.time("first_byte_ms").or(p.first_byte);
    p.idle = raw.time("idle_ms").or(p.idle);

    set_count(&mut p.retry.max_attempts, raw.count("retry.max_attempts"));
    set(&mut p.retry.backoff.growth, raw.text("retry.backoff").map(|word| growth(&word)));
    set(&mut p.retry.backoff.base, raw.time("retry.base_ms"));
    set(&mut p.retry.backoff.max, raw.time("retry.max_backoff_ms"));
    set(&mut p.retry.backoff.jitter, raw.text("retry.jitter").map(|word| jitter(&word)));
    set(&mut p.retry.honor_retry_after, raw.bool("retry.honor_retry_after"));
    set(&mut p.retry.max_wait, raw.time("retry.max_wait_sec"));
    p.retry.deadline = raw.time("retry.deadline_sec").or(p.retry.deadline);
    set(&mut p.retry.budget.ratio, raw.number("retry.budget.ratio"));
    set(&mut p.retry.budget.per_minute, raw.count("retry.budget.per_minute").map(narrow));

    set(&mut p.circuit.window, raw.time("circuit.failure_window_sec"));
    set_count(&mut p.circuit.open_after_failures, raw.count("circuit.open_after_failures"));
    set(&mut p.circuit.open_for, raw.time("circuit.open_for_sec"));
    set(&mut p.circuit.max_open_for, raw.time("circuit.max_open_for_sec"));
    // Where the cap is not written it gives way; where it is, `checked` has refused a smaller one.
    p.circuit.max_open_for = p.circuit.max_open_for.max(p.circuit.open_for);
    set(&mut p.circuit.cooldown_factor, raw.number("circuit.cooldown_factor"));
    set_count(&mut p.circuit.half_open_max_calls, raw.count("circuit.half_open_max_calls"));
    set_count(&mut p.circuit.close_after_successes, raw.count("circuit.close_after_successes"));
    set(&mut p.circuit.probe_lease, raw.time("circuit.probe_lease_sec"));
    set(&mut p.circuit.lease, raw.time("lease_sec"));
    set(&mut p.circuit.count_unclassified, raw.bool("circuit.count_unclassified"));

    if raw.get("on_open").is_some() {
        p.on_open.wait = Duration::ZERO;
    }
    set(&mut p.on_open.wait, raw.time("on_open.wait_sec"));
    set(&mut p.on_open.actions, raw.words("on_open.action").map(|words| words.iter().map(|w| action(w)).collect()));
    p.on_open.queue_ttl = raw.time("on_open.queue_ttl_min").or(p.on_open.queue_ttl);
    set(&mut p.on_open.on_expiry, raw.text("on_open.on_expiry").map(|word| on_expiry(&word)));
    p.on_open.user_message = raw.text("on_open.user_message").or_else(|| p.on_open.user_message.take());

    set(&mut p.drain.rate_per_sec, raw.number("drain.rate_per_sec"));
    set(&mut p.drain.max_per_sec, raw.number("drain.max_per_sec"));
    set_count(&mut p.drain.max_in_flight, raw.count("drain.max_in_flight"));
    set_count(&mut p.drain.max_in_flight_max, raw.count("drain.max_in_flight_max"));
    // As for the cooldown: what is written wins over a default beside it.
    if raw.get("drain.rate_per_sec").is_none() {
        p.drain.rate_per_sec = p.drain.rate_per_sec.min(p.drain.max_per_sec);
    }
    p.drain.max_per_sec = p.drain.max_per_sec.max(p.drain.rate_per_sec);
    if raw.get("drain.max_in_flight").is_none() {
        p.drain.max_in_flight = p.drain.max_in_flight.min(p.drain.max_in_flight_max);
    }
    p.drain.max_in_flight_max = p.drain.max_in_flight_max.max(p.drain.max_in_flight);

    set(&mut p.replay, raw.text("replay").map(|word| replay(&word)));
    set(&mut p.mode, raw.text("mode").map(|word| mode(&word)));
    p.owner = owner(raw).or_else(|| p.owner.take());
    p.runbook = raw.text("runbook").or_else(|| p.runbook.take());
    set(&mut p.rerun_within, raw.time("rerun_within_sec"));
    set(&mut p.hint_ceiling, raw.time("hint_ceiling_hours"));
    p.expect_calls_every = raw.time("expect_calls_every").or(p.expect_calls_every);
    set(&mut p.stdout_hold_bytes_max, raw.count("stdout_hold_bytes_max"));
    set(&mut p.replay_body_bytes_max, raw.count("replay_body_bytes_max"));
    set(&mut p.journal_keep, raw.time("journal_keep_days"));
    if let Some(Written::Probe(probe)) = raw.get("probe").map(|given| &given.value) {
        p.probe = Some(probe.clone());
    }
    policy
}

fn wiring(raw: &Raw) -> Wiring {
    let bounds = QueueBounds::default();
    Wiring {
        upstream: raw.text("upstream"),
        credentials: credentials(raw),
        fallback: raw.text("fallback"),
        cache: raw
            .time("cache.max_age_sec")
            .map(|max_age| Cache { max_age, bytes_max: raw.count("cache.max_bytes").unwrap_or(64 << 20) }),
        order_by: raw.text("order_by").map(|word| order_by(&word)),
        idempotency: raw.get("idempotency").map(|_| Idempotency {
            header: raw.text("idempotency.header"),
            lifetime: raw.time("idempotency.lifetime_hours"),
        }),
        queue: QueueBounds {
            jobs_max: raw.count("queue.max_jobs").unwrap_or(bounds.jobs_max),
            bytes_max: raw.count("queue.max_bytes").unwrap_or(bounds.bytes_max),
            keep_done: raw.time("queue.keep_done_hours").unwrap_or(bounds.keep_done),
        },
        on_done: match raw.get("on_done").map(|given| &given.value) {
            Some(Written::Receivers(receivers)) => receivers.clone(),
            _ => Vec::new(),
        },
    }
}

fn credentials(raw: &Raw) -> Vec<Credential> {
    let Some(Written::Credentials(written)) = raw.get("credentials").map(|given| &given.value) else {
        return Vec::new();
    };
    let secret = |from_env: &Option<String>, from_file: &Option<String>| match (from_env, from_file) {
        (Some(variable), _) => Some(SecretFrom::Env(variable.clone())),
        (None, Some(file)) => Some(SecretFrom::File(PathBuf::from(file))),
        (None, None) => None,
    };
    written
        .iter()
        .filter_map(|credential| {
            let header = credential.header.clone().unwrap_or_else(|| "Authorization".to_owned());
            // `Authorization` without a scheme is no valid header; other headers carry the bare key.
            let bearer = header.eq_ignore_ascii_case("authorization").then(|| "Bearer".to_owned());
            Some(Credential {
                name: credential.name.clone(),
                from: secret(&credential.from_env, &credential.from_file)?,
                header,
                scheme: credential.scheme.clone().or(bearer),
            })
        })
        .collect()
}

fn classify(raw: &Raw) -> Vec<halfopen_core::classify::raw::RawRule> {
    match raw.get("classify").map(|given| &given.value) {
        Some(Written::Rules(rules)) => rules.iter().map(|(rule, _)| rule.clone()).collect(),
        _ => Vec::new(),
    }
}

/// Returns the channels of each owner.
pub(super) fn owners(written: &[RawOwner]) -> Owners {
    written.iter().map(|owner| (owner.name.clone(), owner.channels.clone())).collect()
}

/// Refuses what no two keys of a file may say together.
pub(super) fn checked(reader: &mut Reader<'_>, file: &RawFile) {
    let mut seen: Vec<(String, Range<usize>)> = Vec::new();
    for own in &file.dependencies {
        let Some(name) = own.text("name") else { continue };
        let span = own.span_of("name");
        if let Some((_, first)) = seen.iter().find(|(other, _)| *other == name) {
            let help = format!("`{name}` stands on line {} already", reader.source.line(first.start));
            reader.remark_at("name", Level::Error, &span, format!("two dependencies are named `{name}`"), Some(help));
        }
        seen.push((name, span));
    }
    let names: Vec<String> = seen.into_iter().map(|(name, _)| name).collect();
    for own in &file.dependencies {
        let raw = own.over(&file.defaults);
        pairs(reader, &raw);
        fallback(reader, &raw, &names);
    }
    if file.dependencies.is_empty() {
        pairs(reader, &file.defaults);
    }
    circles(reader, file);
}

/// Refuses pairs of values that contradict each other.
fn pairs(reader: &mut Reader<'_>, raw: &Raw) {
    let resolved = policy(raw, "", Surface::Run);
    let wrong_age = reader.remarks.iter().any(|remark| remark.key.ends_with("cache.max_age_sec"));
    let mut refuse = |path: &str, message: String, help: String| {
        let span = raw.span_of(path);
        if !reader.remarks.iter().any(|remark| remark.span == span && remark.message == message) {
            reader.remark_at(path, Level::Error, &span, message, Some(help));
        }
    };
    if let Some(cap) = raw.time("circuit.max_open_for_sec") {
        let first = raw.time("circuit.open_for_sec").unwrap_or(Duration::from_secs(120));
        if cap < first {
            let (cap, first) = (cap.as_secs_f64(), first.as_secs_f64());
            refuse(
                "circuit.max_open_for_sec",
                format!("`circuit.max_open_for_sec` is {cap}, less than the first cooldown of {first} seconds"),
                format!("write at least {first}, or make `open_for_sec` shorter"),
            );
        }
    }
    if resolved.journal_keep < resolved.circuit.max_open_for {
        let keep = resolved.journal_keep.as_secs_f64();
        let cap = resolved.circuit.max_open_for.as_secs_f64();
        refuse(
            if raw.get("journal_keep_days").is_some() { "journal_keep_days" } else { "circuit.max_open_for_sec" },
            format!("the journal is kept for {keep} seconds, less than a cooldown may last ({cap} seconds)"),
            "raise `journal_keep_days` or lower `circuit.max_open_for_sec`".to_owned(),
        );
    }
    let ordered = [("drain.rate_per_sec", "drain.max_per_sec"), ("drain.max_in_flight", "drain.max_in_flight_max")];
    for (low, high) in ordered {
        let value = |path: &str| {
            raw.number(path).or_else(|| raw.count(path).and_then(|n| u32::try_from(n).ok().map(f64::from)))
        };
        if let (Some(from), Some(to)) = (value(low), value(high))
            && to < from
        {
            refuse(
                high,
                format!("`{high}` is {to}, less than `{low}`, which is {from}"),
                format!("write at least {from}"),
            );
        }
    }
    let owners: Vec<(&str, String)> = ["owner", "alert_owner", "on_open.alert_owner"]
        .into_iter()
        .filter_map(|path| Some((path, raw.text(path)?)))
        .collect();
    if let [(_, first), rest @ ..] = owners.as_slice() {
        for (path, other) in rest.iter().filter(|(_, other)| other != first) {
            refuse(
                path,
                format!("`{path}` is `{other}`, but the owner is `{first}`"),
                "there is one owner; name several channels under `alerts`".to_owned(),
            );
        }
    }
    // One that is written and wrong has been refused where it stands.
    let written = raw.get("cache.max_age_sec").is_some() || wrong_age;
    if raw.get("cache").is_some() && !written {
        refuse(
            "cache",
            "`cache` has no `max_age_sec`".to_owned(),
            "say how old an answer may be, such as `max_age_sec: 3600`".to_owned(),
        );
    }
}

fn fallback(reader: &mut Reader<'_>, raw: &Raw, names: &[String]) {
    let Some(to) = raw.text("fallback") else { return };
    let span = raw.span_of("fallback");
    if raw.text("name").as_deref() == Some(to.as_str()) {
        reader.remark_at(
            "fallback",
            Level::Error,
            &span,
            format!("`fallback` of `{to}` is `{to}` itself"),
            Some("name another dependency of this file, or take the key out".to_owned()),
        );
    } else if !names.contains(&to) {
        let help = match suggest::nearest(&to, names.iter().map(String::as_str)) {
            Some(near) => format!("the nearest name is `{near}`"),
            None => format!("this file names {}", names.join(", ")),
        };
        reader.remark_at(
            "fallback",
            Level::Error,
            &span,
            format!("`fallback` is `{to}`, which this file does not name"),
            Some(help),
        );
    }
}

/// Refuses fallbacks that lead back to where they began.
fn circles(reader: &mut Reader<'_>, file: &RawFile) {
    let next = |name: &str| {
        let own = file.dependencies.iter().find(|raw| raw.text("name").as_deref() == Some(name))?;
        own.over(&file.defaults).text("fallback")
    };
    for own in &file.dependencies {
        let Some(start) = own.text("name") else { continue };
        let mut way = vec![start.clone()];
        while let Some(to) = way.last().and_then(|name| next(name)) {
            if to == start && way.len() > 1 {
                way.push(to);
                let span = own.over(&file.defaults).span_of("fallback");
                reader.remark_at(
                    "fallback",
                    Level::Error,
                    &span,
                    format!("fallbacks go round in a circle: {}", way.join(" → ")),
                    Some("take `fallback` out of one of them".to_owned()),
                );
                // One report for the whole circle.
                return;
            }
            if way.contains(&to) {
                break;
            }
            way.push(to);
        }
    }
}

/// Returns who is told.
pub(super) fn owner(raw: &Raw) -> Option<String> {
    ["owner", "alert_owner", "on_open.alert_owner"].into_iter().find_map(|path| raw.text(path))
}

fn set<T>(field: &mut T, written: Option<T>) {
    if let Some(value) = written {
        *field = value;
    }
}

fn set_count(field: &mut NonZeroU32, written: Option<u64>) {
    // The ranges of counts begin at 1 and end below 2³².
    set(field, written.map(narrow).and_then(NonZeroU32::new));
}

fn narrow(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn growth(word: &str) -> Growth {
    if word == "constant" { Growth::Constant } else { Growth::Exponential }
}

fn jitter(word: &str) -> Jitter {
    match word {
        "full" => Jitter::Full,
        "none" => Jitter::None,
        _ => Jitter::Equal,
    }
}

fn action(word: &str) -> OnOpenAction {
    match word {
        "queue" => OnOpenAction::Queue,
        "manual_review" => OnOpenAction::ManualReview,
        "cache" => OnOpenAction::Cache,
        "fallback" => OnOpenAction::Fallback,
        _ => OnOpenAction::FailFast,
    }
}

fn on_expiry(word: &str) -> OnExpiry {
    if word == "expired" { OnExpiry::Expired } else { OnExpiry::ManualReview }
}

fn replay(word: &str) -> Replay {
    match word {
        "always" => Replay::Always,
        "never" => Replay::Never,
        _ => Replay::IfIdempotent,
    }
}

fn mode(word: &str) -> Mode {
    if word == "observe" { Mode::Observe } else { Mode::Enforce }
}

fn order_by(word: &str) -> OrderBy {
    match word.split_once(':') {
        Some(("header", name)) => OrderBy::Header(name.to_owned()),
        Some((_, name)) => OrderBy::Argument(name.to_owned()),
        None if word == "none" => OrderBy::Nothing,
        None => OrderBy::Path,
    }
}
