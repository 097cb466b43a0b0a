//! Reads headers that say when a limiter refills: `X-RateLimit-Reset` in its dialects, the IETF drafts' `RateLimit`,
//! and the windows that subscriptions report.
//!
//! Services send these on nearly every answer, so one counts only if its own limiter is the empty one: its `remaining`
//! is 0, or nothing is said about it. Of several empty limiters the latest counts. A *window* is a limiter whose header
//! says outright that it refused (`status: rejected`, `used-percent: 100`); such a one even beats a shorter
//! `Retry-After`, and a window that did not refuse never counts.

use super::Reading;
use super::headers::{Found, Headers, longest, value};
use super::number::{Decimal, Unit};
use crate::verdict::Class;
use sfv::{BareItem, List, ListEntry, Parser};
use std::collections::BTreeMap;
use std::time::Duration;

/// Whether a limiter has something left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Empty,
    Some,
    Unknown,
}

#[derive(Debug, Default)]
struct Limiter {
    left: Option<Left>,
    found: Option<Found>,
}

impl Limiter {
    fn add(&mut self, found: Found) {
        // A span needs no clock of ours, so it beats an instant of the same limiter.
        self.found = Some(match self.found {
            Some(before) if before.absolute && !found.absolute => found,
            Some(before) if !before.absolute && found.absolute => before,
            Some(before) => before.longer(found),
            None => found,
        });
    }
}

/// What a window that refused said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) found: Found,
    /// The window is one model's.
    pub(super) of_model: bool,
}

/// Returns the wait stated by the reset headers of a failure.
pub(super) fn reset(headers: &Headers, reading: &Reading<'_>) -> Option<Found> {
    let mut limiters: BTreeMap<String, Limiter> = BTreeMap::new();
    for (name, raw) in headers.iter() {
        if reading.pack.ignores(name) || is_window_report(name) {
            continue;
        }
        if name == "ratelimit" || name.ends_with("-ratelimit") {
            for item in structured(raw) {
                let limiter = limiters.entry(format!("ratelimit {}", item.name)).or_default();
                limiter.left = Some(item.left);
                if let Some(span) = item.reset {
                    limiter.add(Found { wait: span, absolute: false });
                }
            }
        } else if name.starts_with("zendesk-ratelimit-") {
            vendor_counter(name, raw, reading, &mut limiters);
        } else if let Some((key, part)) = split(name) {
            let limiter = limiters.entry(key).or_default();
            match part {
                Part::Remaining => limiter.left = Some(left(raw)),
                Part::Reset(unit) => {
                    if let Some(found) = value(raw, reading.pack.unit_of(name).unwrap_or(unit), reading) {
                        limiter.add(found);
                    }
                }
            }
        }
    }
    let mut empty = Vec::new();
    let mut silent = Vec::new();
    for (key, limiter) in &limiters {
        let Some(found) = limiter.found else { continue };
        if is_beside_the_point(key, found.wait, reading.class) {
            continue;
        }
        match left_of(key, &limiters) {
            Some(Left::Empty) => empty.push(found),
            Some(Left::Some) => {}
            // -1 means that nobody knows; a wait of 0 then says nothing either.
            Some(Left::Unknown) => {
                if !found.wait.is_zero() {
                    silent.push(found);
                }
            }
            None => silent.push(found),
        }
    }
    let regain = longest(usage_reports(headers));
    if empty.is_empty() { longest(silent.into_iter().chain(regain)) } else { longest(empty.into_iter().chain(regain)) }
}

/// A limiter of seconds or minutes does not speak for an allowance of a day or a month.
fn is_beside_the_point(key: &str, wait: Duration, class: Class) -> bool {
    let named_long = ["day", "daily", "month", "monthly", "week", "weekly", "quota"].iter().any(|w| key.contains(w));
    let least = match class {
        Class::QuotaExhausted => 3600,
        Class::UsageLimit => 61,
        Class::Success
        | Class::RateLimited
        | Class::Overloaded
        | Class::Timeout
        | Class::ConnectionFailure
        | Class::ServerError
        | Class::Auth
        | Class::InvalidRequest
        | Class::UnknownFailure => 0,
    };
    !named_long && wait < Duration::from_secs(least)
}

/// Returns what is left of the limiter `key`: by its own counter, by those of its parts, or by that of its whole.
fn left_of(key: &str, limiters: &BTreeMap<String, Limiter>) -> Option<Left> {
    if let Some(left) = limiters.get(key).and_then(|limiter| limiter.left) {
        return Some(left);
    }
    let prefix = format!("{key} ");
    let parts: Vec<_> = limiters.iter().filter(|(k, _)| k.starts_with(&prefix)).filter_map(|(_, l)| l.left).collect();
    if parts.contains(&Left::Empty) {
        return Some(Left::Empty);
    }
    if parts.contains(&Left::Some) {
        return Some(Left::Some);
    }
    let (whole, _) = key.rsplit_once(' ')?;
    limiters.get(whole).and_then(|limiter| limiter.left)
}

enum Part {
    Remaining,
    Reset(Unit),
}

/// Splits a header's name into its limiter and its part: `x-ratelimit-remaining-tokens` is what remains of
/// `ratelimit tokens`.
fn split(name: &str) -> Option<(String, Part)> {
    let name = name.replace("rate-limit", "ratelimit");
    let mut part = None;
    let mut millis = false;
    let mut rest = Vec::new();
    for token in name.split('-') {
        match token {
            "remaining" => part = Some(Part::Remaining),
            "reset" | "resets" | "resettime" | "resetat" | "resetafter" | "resetin" | "resettimestamp" => {
                part = Some(Part::Reset(Unit::Seconds));
            }
            "ms" | "millis" | "milliseconds" => millis = true,
            "interval" | "window" | "policy" | "period" => return None,
            "x" | "after" | "at" | "in" | "time" | "timestamp" | "seconds" | "secs" | "sec" | "utc" | "epoch" => {}
            _ => rest.push(token),
        }
    }
    let key = rest.join(" ");
    let known = key.is_empty()
        || ["limit", "quota", "throttl", "usage", "credit", "rate"].iter().any(|word| key.contains(word));
    match (part, known) {
        (Some(Part::Reset(_)), true) if millis => Some((key, Part::Reset(Unit::Ms))),
        (Some(part), true) => Some((key, part)),
        _ => None,
    }
}

/// Reads a counter: `0`, `0.0`, `0;w=21600`, `-1`.
fn left(raw: &str) -> Left {
    let first = raw.split([';', ',', '/']).next().unwrap_or("").trim().trim_matches('"');
    match Decimal::parse(first) {
        Some(number) if number.is_zero() => Left::Empty,
        Some(_) => Left::Some,
        None => Left::Unknown,
    }
}

/// `zendesk-ratelimit-*: total=100; remaining=0; resets=41`.
fn vendor_counter(name: &str, raw: &str, reading: &Reading<'_>, limiters: &mut BTreeMap<String, Limiter>) {
    let limiter = limiters.entry(format!("ratelimit {name}")).or_default();
    for pair in raw.split([';', ',']) {
        let Some((key, figure)) = pair.split_once('=') else { continue };
        match key.trim() {
            "remaining" => limiter.left = Some(left(figure)),
            "resets" | "reset" => {
                if let Some(found) = value(figure, Unit::Seconds, reading) {
                    limiter.add(found);
                }
            }
            _ => {}
        }
    }
}

/// One item of a `RateLimit` header.
struct Item {
    name: String,
    left: Left,
    reset: Option<Duration>,
}

/// Reads a `RateLimit` header: a list of items as the later drafts have it
/// (<https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/> section 4), a dictionary as the earlier
/// ones had it, or something near to them.
fn structured(raw: &str) -> Vec<Item> {
    let Ok(list) = Parser::new(raw).parse::<List>() else { return loose(raw) };
    let items: Vec<Item> = list
        .iter()
        .filter_map(|entry| {
            let ListEntry::Item(item) = entry else { return None };
            let name = match &item.bare_item {
                BareItem::String(name) => name.as_str().to_owned(),
                BareItem::Token(name) => name.as_str().to_owned(),
                _ => return None,
            };
            let figure = |key: &str| {
                let (_, value) = item.params.iter().find(|(k, _)| k.as_str() == key)?;
                match value {
                    BareItem::Integer(number) => Decimal::parse(&number.to_string()),
                    BareItem::Decimal(number) => Decimal::parse(&number.to_string()),
                    _ => None,
                }
            };
            Some(item_of(name, figure("r"), figure("t")))
        })
        .collect();
    if items.is_empty() { loose(raw) } else { items }
}

fn item_of(name: String, remaining: Option<Decimal>, reset: Option<Decimal>) -> Item {
    let left = match remaining {
        Some(number) if number.is_zero() => Left::Empty,
        Some(_) => Left::Some,
        None => Left::Unknown,
    };
    // Always a span, never an epoch.
    let reset = reset.and_then(|number| super::number::span(number.nanos(Unit::Seconds.nanos())?));
    Item { name, left, reset }
}

/// `limit=10, remaining=0, reset=30`, and items whose names are no tokens.
fn loose(raw: &str) -> Vec<Item> {
    let (mut name, mut remaining, mut reset) = (String::new(), None, None);
    let mut items = Vec::new();
    for part in raw.split(',') {
        for (place, pair) in part.split(';').enumerate() {
            match pair.trim().split_once('=') {
                Some((key, figure)) => {
                    let figure = Decimal::parse(figure.trim().trim_matches('"'));
                    match key.trim() {
                        "r" | "remaining" => remaining = remaining.or(figure),
                        "t" | "reset" => reset = reset.or(figure),
                        _ => {}
                    }
                }
                None if place == 0 => {
                    if reset.is_some() || remaining.is_some() {
                        items.push(item_of(std::mem::take(&mut name), remaining.take(), reset.take()));
                    }
                    name = pair.trim().trim_matches('"').to_owned();
                }
                None => {}
            }
        }
    }
    if reset.is_some() || remaining.is_some() {
        items.push(item_of(name, remaining, reset));
    }
    items
}

/// Headers that report the windows of a subscription; see [`windows`].
fn is_window_report(name: &str) -> bool {
    name.starts_with("anthropic-ratelimit-unified-") || name.starts_with("x-codex-")
}

/// Returns the windows that refused.
pub(super) fn windows(headers: &Headers, reading: &Reading<'_>) -> Vec<Window> {
    let mut refused = unified(headers, reading);
    refused.extend(percentages(headers, reading));
    refused
}

/// `anthropic-ratelimit-unified-5h-status: rejected` with `…-5h-reset`.
fn unified(headers: &Headers, reading: &Reading<'_>) -> Vec<Window> {
    const PREFIX: &str = "anthropic-ratelimit-unified-";
    let reset_of = |window: &str| {
        let name = if window.is_empty() { format!("{PREFIX}reset") } else { format!("{PREFIX}{window}-reset") };
        longest(headers.all(&name).filter_map(|raw| value(raw, Unit::Seconds, reading)))
    };
    let names = |suffix: &'static str| {
        headers.iter().filter_map(move |(name, raw)| {
            let window = name.strip_prefix(PREFIX)?.strip_suffix(suffix)?.trim_end_matches('-');
            (!window.contains("overage") && !window.contains("fallback")).then_some((window, raw))
        })
    };
    let is_rejected = |raw: &str| raw.eq_ignore_ascii_case("rejected");
    let mut refused: Vec<Window> = names("status")
        .filter(|(window, raw)| !window.is_empty() && is_rejected(raw))
        .filter_map(|(window, _)| {
            let of_model = ["opus", "sonnet", "haiku", "model"].iter().any(|m| window.contains(m));
            Some(Window { found: reset_of(window)?, of_model })
        })
        .collect();
    if refused.is_empty() {
        let any_status = names("status").next().is_some();
        let whole_refused = names("status").any(|(window, raw)| window.is_empty() && is_rejected(raw));
        let part_refused = names("status").any(|(_, raw)| is_rejected(raw));
        if part_refused || !any_status {
            refused.extend(reset_of("").map(|found| Window { found, of_model: false }));
        }
        if refused.is_empty() && (whole_refused || !any_status) {
            // No status per window: the one that is used up.
            refused.extend(names("utilization").filter_map(|(window, raw)| {
                Decimal::parse(raw).filter(|used| used.at_least(1))?;
                Some(Window { found: reset_of(window)?, of_model: false })
            }));
        }
    }
    refused
}

/// `x-codex-primary-used-percent: 100` with `…-reset-after-seconds` or `…-reset-at`.
fn percentages(headers: &Headers, reading: &Reading<'_>) -> Vec<Window> {
    let mut refused = Vec::new();
    let mut reported = false;
    for (name, raw) in headers.iter() {
        let Some(window) = name.strip_suffix("-used-percent").filter(|w| w.starts_with("x-codex-")) else { continue };
        reported = true;
        if Decimal::parse(raw).is_some_and(|used| used.at_least(100)) {
            refused.extend(refill_of(window, headers, reading));
        }
    }
    if !reported {
        let windows = headers.iter().filter_map(|(name, _)| {
            name.strip_suffix("-reset-after-seconds")
                .or_else(|| name.strip_suffix("-reset-at"))
                .filter(|w| w.starts_with("x-codex-"))
        });
        refused.extend(windows.filter_map(|window| refill_of(window, headers, reading)));
    }
    refused.into_iter().map(|found| Window { found, of_model: false }).collect()
}

/// Returns when a window refills; one that says 0 or nothing is not in use.
fn refill_of(window: &str, headers: &Headers, reading: &Reading<'_>) -> Option<Found> {
    let read = |name: String| longest(headers.all(&name).filter_map(|raw| value(raw, Unit::Seconds, reading)));
    let used = |found: &Found| !found.wait.is_zero();
    read(format!("{window}-reset-after-seconds"))
        .filter(used)
        .or_else(|| read(format!("{window}-reset-at")).filter(used))
}

/// `x-business-use-case-usage` and kin: JSON in a header, `estimated_time_to_regain_access` in minutes.
fn usage_reports(headers: &Headers) -> Vec<Found> {
    let mut found = Vec::new();
    for (name, raw) in headers.iter() {
        if matches!(name, "x-business-use-case-usage" | "x-app-usage" | "x-ad-account-usage")
            && let Ok(report) = serde_json::from_str::<serde_json::Value>(raw)
        {
            collect_regain(&report, &mut found);
        }
    }
    found
}

/// Goes through a report; the parser lets none be so deep that this could matter.
fn collect_regain(report: &serde_json::Value, found: &mut Vec<Found>) {
    match report {
        serde_json::Value::Object(fields) => {
            for (key, inner) in fields {
                let unit = match key.as_str() {
                    "estimated_time_to_regain_access" => Some(Unit::Minutes),
                    "reset_time_duration" => Some(Unit::Seconds),
                    _ => None,
                };
                let figure = inner.as_number().and_then(|number| Decimal::parse(&number.to_string()));
                if let (Some(unit), Some(figure)) = (unit, figure.filter(|figure| !figure.is_zero())) {
                    let wait = figure.nanos(unit.nanos()).and_then(super::number::span);
                    found.extend(wait.map(|wait| Found { wait, absolute: false }));
                } else {
                    collect_regain(inner, found);
                }
            }
        }
        serde_json::Value::Array(items) => {
            for inner in items {
                collect_regain(inner, found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, noon};
    use super::*;
    use crate::verdict::HintSource;
    use test_case::test_case;

    type Pairs = &'static [(&'static str, &'static str)];

    /// S116: relative, or an instant in whatever form.
    #[test_case(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1772452845")] => Some(45_000); "epoch seconds")]
    #[test_case(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1772452845000")] => Some(45_000); "epoch milliseconds")]
    #[test_case(&[("x-ratelimit-reset", "42")] => Some(42_000); "a span is not 1970")]
    #[test_case(&[("x-ratelimit-reset", "1m30s")] => Some(90_000))]
    #[test_case(&[("X-RateLimit-Reset", "2026-03-02T12:05Z")] => Some(300_000))]
    #[test_case(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "2026-03-02 12:01:00")] => Some(60_000))]
    #[test_case(&[("x-ratelimit-reset", "Mon Mar 02 2026 13:01:00 GMT+0100 (Central European Standard Time)")] => Some(60_000))]
    #[test_case(&[("x-ratelimit-remaining", "0.0"), ("x-ratelimit-reset", "363")] => Some(363_000))]
    #[test_case(&[("x-ratelimit-remaining", "14"), ("x-ratelimit-reset", "1772455200")] => None; "another limiter fired")]
    #[test_case(&[("x-rate-limit-remaining", "3000"), ("x-rate-limit-reset", "1772454300"),
        ("x-intensive-rate-limit-remaining", "0"), ("x-intensive-rate-limit-reset", "1772452830")] => Some(30_000))]
    #[test_case(&[("x-ratelimit-remaining-requests", "59"), ("x-ratelimit-reset-requests", "1s"),
        ("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6m0s")] => Some(360_000))]
    #[test_case(&[("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "20s"),
        ("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "7s")] => Some(20_000); "both empty: the latest")]
    #[test_case(&[("x-ratelimit-remaining-tokens", "-1"), ("x-ratelimit-reset-tokens", "0")] => None; "minus one is unknown")]
    #[test_case(&[("ratelimit-remaining", "0"), ("ratelimit-reset", "50")] => Some(50_000))]
    #[test_case(&[("ratelimit-remaining", "0"), ("ratelimit-reset", "1772452834"),
        ("ratelimit-resettime", "Mon, 02 Mar 2026 12:00:34 GMT")] => Some(34_000))]
    #[test_case(&[("x-ratelimit-reset", "1470173023.123"), ("x-ratelimit-reset-after", "64.57")] => Some(64_570); "the span beats the instant")]
    #[test_case(&[("x-ratelimit-reset", "1772452900"), ("x-ratelimit-reset-after", "64.57")] => Some(64_570); "a shorter span too")]
    #[test_case(&[("x-ratelimit-reset-after", "64.57"), ("x-ratelimit-resettime", "1772452900")] => Some(64_570); "a span that comes first")]
    #[test_case(&[("x-ratelimit-reset", "1772452845"), ("x-ratelimit-resettime", "1772452840")] => Some(45_000); "the later of two instants")]
    #[test_case(&[("x-ratelimit-reset", "1772452840"), ("x-ratelimit-resettime", "1772452845")] => Some(45_000))]
    #[test_case(&[("x-ratelimit-reset", "42"), ("x-ratelimit-reset-after", "50")] => Some(50_000); "the longer of two spans")]
    #[test_case(&[("x-ratelimit-reset", "50"), ("x-ratelimit-reset-after", "42")] => Some(50_000))]
    #[test_case(&[("x-rate-limit-reset-ms", "600000")] => Some(600_000))]
    #[test_case(&[("x-rate-limit-reset-milliseconds", "600000")] => Some(600_000))]
    #[test_case(&[("x-ratelimit-reset-interval", "60")] => None; "a window is no wait")]
    #[test_case(&[("x-ratelimit-remaining", "5"), ("ratelimit-reset", "30")] => None; "one limiter in two spellings")]
    #[test_case(&[("ratelimit", "\"a;r=5\";r=0;t=30")] => Some(30_000); "a name in quotes")]
    #[test_case(&[("ratelimit", "\"a\";r=5;t=900, b;r=0;t=10")] => Some(10_000))]
    #[test_case(&[("ratelimit", "my policy;r=5;t=30")] => None)]
    #[test_case(&[("ratelimit", "my policy;r=5;t=30, your policy;r=0;t=9")] => Some(9_000))]
    #[test_case(&[("ratelimit", "my policy;t=30, your policy;r=5;t=9")] => Some(30_000))]
    #[test_case(&[("ratelimit", "your policy;r=5;t=9, my policy;t=30")] => Some(30_000))]
    #[test_case(&[("ratelimit", "my policy;t=30;burst;r=5")] => None; "a parameter without a value")]
    #[test_case(&[("rate-limit-reset", "58.37")] => Some(58_370))]
    #[test_case(&[("anthropic-ratelimit-requests-remaining", "12"), ("anthropic-ratelimit-requests-reset", "2026-03-02T12:30:00Z"),
        ("anthropic-ratelimit-tokens-remaining", "0"), ("anthropic-ratelimit-tokens-reset", "2026-03-02T12:00:20Z")] => Some(20_000))]
    #[test_case(&[("x-ms-user-quota-remaining", "0"), ("x-ms-user-quota-resets-after", "00:00:05")] => Some(5_000))]
    #[test_case(&[("ratelimit", "\"default\";r=0;t=124"), ("ratelimit-policy", "\"default\";q=1200;w=300")] => Some(124_000))]
    #[test_case(&[("ratelimit", "default;r=0;t=30"), ("ratelimit-policy", "default;q=100;w=60")] => Some(30_000))]
    #[test_case(&[("ratelimit", "\"a\";r=5;t=900, \"b\";r=0;t=10")] => Some(10_000))]
    #[test_case(&[("ratelimit", "\"a\";r=5;t=900")] => None)]
    #[test_case(&[("ratelimit", "limit=10, remaining=0, reset=30")] => Some(30_000); "an earlier draft")]
    #[test_case(&[("ratelimit", "my policy;r=0;t=30")] => Some(30_000))]
    #[test_case(&[("ratelimit", "\"a\";r=0;t=30.5")] => Some(30_500))]
    #[test_case(&[("x-app-usage", "{\"call_count\":100,\"reset_time_duration\":90}")] => Some(90_000); "seconds")]
    #[test_case(&[("ratelimit-limit", "100;w=21600"), ("ratelimit-remaining", "0;w=21600")] => None)]
    #[test_case(&[("zendesk-ratelimit-tickets-index", "total=100; remaining=0; resets=41")] => Some(41_000))]
    #[test_case(&[("zendesk-ratelimit-tickets-index", "total=100; remaining=7; resets=41")] => None)]
    #[test_case(&[("x-business-use-case-usage",
        "{\"1\":[{\"type\":\"ads\",\"call_count\":100,\"estimated_time_to_regain_access\":5}]}")] => Some(300_000); "minutes")]
    #[test_case(&[("x-business-use-case-usage", "{\"1\":[{\"estimated_time_to_regain_access\":0}]}")] => None)]
    #[test_case(&[("x-hubspot-ratelimit-interval-milliseconds", "10000"), ("x-hubspot-ratelimit-remaining", "0")] => None)]
    #[test_case(&[("x-amzn-ratelimit-limit", "0.0167")] => None)]
    #[test_case(&[("x-ratelimit-limit-day", "5000"), ("x-ratelimit-remaining-day", "0")] => None)]
    #[test_case(&[("retry-after", "60"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1772455200")] => Some(60_000))]
    #[test_case(&[("password-reset-after", "60")] => None)]
    fn a_reset_counts_if_its_limiter_is_empty(pairs: Pairs) -> Option<u128> {
        testing::headers(pairs).map(|hint| hint.wait.as_millis())
    }

    #[test_case(&[("retry-after", "13262"), ("anthropic-ratelimit-unified-status", "rejected"),
        ("anthropic-ratelimit-unified-5h-status", "rejected")] => Some(13_262_000))]
    #[test_case(&[("retry-after", "30"), ("anthropic-ratelimit-unified-status", "rejected"),
        ("anthropic-ratelimit-unified-5h-status", "rejected"), ("anthropic-ratelimit-unified-5h-reset", "1772460000"),
        ("anthropic-ratelimit-unified-7d-status", "rejected"), ("anthropic-ratelimit-unified-7d-reset", "1772712000")]
        => Some(259_200_000); "the later of two that refused, though Retry-After is shorter")]
    #[test_case(&[("anthropic-ratelimit-unified-5h-status", "rejected"), ("anthropic-ratelimit-unified-5h-reset", "1772460000"),
        ("anthropic-ratelimit-unified-7d-status", "allowed_warning"), ("anthropic-ratelimit-unified-7d-reset", "1772712000"),
        ("anthropic-ratelimit-unified-overage-status", "rejected"), ("anthropic-ratelimit-unified-overage-reset", "1779999999")]
        => Some(7_200_000))]
    #[test_case(&[("anthropic-ratelimit-unified-status", "allowed"), ("anthropic-ratelimit-unified-reset", "1772460000")] => None)]
    #[test_case(&[("anthropic-ratelimit-unified-status", "rejected"), ("anthropic-ratelimit-unified-reset", "1772460000")] => Some(7_200_000))]
    #[test_case(&[("anthropic-ratelimit-unified-5h-utilization", "1.0"), ("anthropic-ratelimit-unified-5h-reset", "1772460000"),
        ("anthropic-ratelimit-unified-7d-utilization", "0.4"), ("anthropic-ratelimit-unified-7d-reset", "1772712000")]
        => Some(7_200_000); "no status: the window that is used up")]
    #[test_case(&[("anthropic-ratelimit-unified-status", "rejected"), ("anthropic-ratelimit-unified-5h-utilization", "1.0"),
        ("anthropic-ratelimit-unified-5h-reset", "1772460000")] => Some(7_200_000))]
    #[test_case(&[("anthropic-ratelimit-unified-status", "allowed"), ("anthropic-ratelimit-unified-5h-utilization", "1.0"),
        ("anthropic-ratelimit-unified-5h-reset", "1772460000")] => None)]
    #[test_case(&[("anthropic-ratelimit-unified-status", "rejected"), ("anthropic-ratelimit-unified-reset", "1772454600"),
        ("anthropic-ratelimit-unified-5h-utilization", "1.0"), ("anthropic-ratelimit-unified-5h-reset", "1772460000")]
        => Some(1_800_000); "the answer to the whole question")]
    #[test_case(&[("anthropic-ratelimit-unified-reset", "1772454600")] => Some(1_800_000))]
    #[test_case(&[("anthropic-ratelimit-unified-7d-status", "rejected"), ("anthropic-ratelimit-unified-reset", "1772454600")] => Some(1_800_000))]
    #[test_case(&[("x-codex-primary-used-percent", "100"), ("x-codex-primary-reset-after-seconds", "471285"),
        ("x-codex-secondary-used-percent", "0"), ("x-codex-secondary-reset-after-seconds", "0")] => Some(471_285_000))]
    #[test_case(&[("x-codex-primary-used-percent", "100"), ("x-codex-primary-reset-after-seconds", "13873"),
        ("x-codex-secondary-used-percent", "80"), ("x-codex-secondary-reset-after-seconds", "316705")] => Some(13_873_000))]
    #[test_case(&[("x-codex-primary-used-percent", "100"), ("x-codex-primary-reset-at", "1772453400"),
        ("x-codex-secondary-used-percent", "3"), ("x-codex-secondary-reset-at", "")] => Some(600_000))]
    #[test_case(&[("x-codex-primary-reset-after-seconds", "471285"), ("x-codex-secondary-reset-after-seconds", "0")] => Some(471_285_000))]
    fn windows_count_where_they_refused(pairs: Pairs) -> Option<u128> {
        testing::failure(Class::UsageLimit, pairs, &noon()).map(|hint| hint.wait.as_millis())
    }

    #[test]
    fn a_burst_limiter_does_not_speak_for_a_daily_quota() {
        let burst = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "2")];
        assert_eq!(testing::failure(Class::QuotaExhausted, &burst, &noon()), None);
        let reset = |class, value| {
            testing::failure(class, &[("x-ratelimit-reset", value)], &noon()).map(|hint| hint.wait.as_secs())
        };
        assert_eq!(reset(Class::QuotaExhausted, "3599"), None);
        assert_eq!(reset(Class::QuotaExhausted, "3600"), Some(3600));
        assert_eq!(reset(Class::UsageLimit, "60"), None);
        assert_eq!(reset(Class::UsageLimit, "61"), Some(61));
        let daily = [("ratelimit", "\"daily\";r=0;t=412")];
        let hint = testing::failure(Class::QuotaExhausted, &daily, &noon()).expect("a hint");
        assert_eq!((hint.wait.as_secs(), hint.source), (412, HintSource::ResetHeader));
    }

    #[test]
    fn seconds_that_another_source_calls_milliseconds_are_milliseconds() {
        let both = [("retry-after", "600000"), ("x-ratelimit-reset-after", "600"), ("x-ratelimit-remaining", "0")];
        assert_eq!(testing::headers(&both).map(|h| h.wait.as_secs()), Some(600));
        let alone = [("retry-after", "600000")];
        assert_eq!(testing::headers(&alone).map(|h| h.wait.as_secs()), Some(600_000));

        let wait = |said, other| {
            let both = [("retry-after", said), ("x-ratelimit-reset-after", other), ("x-ratelimit-remaining", "0")];
            testing::headers(&both).map(|hint| hint.wait.as_millis())
        };
        assert_eq!(wait("600000", "600.9"), Some(600_900), "less than a second beside it");
        assert_eq!(wait("600000", "601"), Some(600_000_000), "a second beside it");
        assert_eq!(wait("600000", "50"), Some(600_000_000), "another limiter's");
        assert_eq!(wait("600", "0"), Some(600_000));
        assert_eq!(wait("86400", "86.4"), Some(86_400_000), "a day may be meant");
        assert_eq!(wait("50000", "50"), Some(50_000_000));
        // An instant has no unit: a week from noon.
        assert_eq!(wait("Mon, 09 Mar 2026 12:00:00 GMT", "604.8"), Some(604_800_000));
    }

    #[test]
    fn instants_are_measured_by_the_senders_clock() {
        let skewed = [("date", "Mon, 02 Mar 2026 13:00:00 GMT"), ("retry-after", "Mon, 02 Mar 2026 13:00:30 GMT")];
        assert_eq!(testing::headers(&skewed).map(|h| h.wait.as_secs()), Some(30));
        let aged = [
            ("date", "Mon, 02 Mar 2026 12:00:00 GMT"),
            ("age", "20"),
            ("retry-after", "Mon, 02 Mar 2026 12:00:30 GMT"),
        ];
        assert_eq!(testing::headers(&aged).map(|h| h.wait.as_secs()), Some(10));
    }
}
