//! Reads what a dependency said about waiting, wherever and however it said it.
//!
//! The class is known before: a success has no hint (a 202 with `Retry-After` is a polling delay), and neither has a
//! failure that no waiting heals. Then the sources are asked in this order, and the first that says something usable
//! counts: headers in milliseconds, `Retry-After` and its kin, fields of structured bodies, reset headers of a limiter
//! that is empty, sentences, and at last what the pack knows. Two things stand outside the order. A *window* that says
//! it refused (a subscription's five hours, its week) beats anything shorter. And a limiter of minutes has nothing to
//! say about an allowance of a day.
//!
//! A hint is never cut and never earlier than what was said; what cannot be read is no hint, and the next source is
//! asked. Instants are measured against the dependency's own `Date` where there is one, so that a wrong clock on
//! either side does not matter.
//!
//! Considered and refused: one big regular expression per wording. Services change their wording, terminals break
//! lines, and every pattern needs the same dozen forms of numbers, spans and dates behind it. So there is one small
//! grammar, anchored on verbs, over tokens.

mod number;
mod lex;
mod text;
mod duration;
mod date;
mod zone;
mod when;
mod headers;
mod resets;
mod body;
mod words;
mod follow;
mod prose;
mod east;
mod refresh;
mod dump;
mod scope;
#[cfg(test)]
mod testing;

pub use headers::advice;
pub use number::Unit;

use crate::time::ReadAt;
use crate::verdict::{Class, Hint, HintSource, Scope};
use headers::{Found, Headers};
use jiff::tz::TimeZone;
use number::Stated;
use std::time::Duration;
use when::{Moment, Zoneless};

/// Where an outcome came from; a time without a zone means something else in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surroundings {
    /// An HTTP exchange: a time without a zone is UTC unless the pack knows better.
    Http,
    /// A command on this machine: a time without a zone is local unless the pack knows better.
    Command,
}

/// The parts of an outcome in which a hint may stand.
#[derive(Clone, Copy, Debug)]
pub struct HintInput<'a> {
    /// What the outcome means.
    pub class: Class,
    /// Headers in any order and case, repeated names repeated; for a command, header-like lines that it printed.
    pub headers: &'a [(&'a str, &'a str)],
    /// Structured bodies and events that describe the failure, the oldest first.
    pub json: &'a [serde_json::Value],
    /// Text that describes the failure, the oldest first.
    pub texts: &'a [&'a str],
    /// Where the outcome came from.
    pub kind: Surroundings,
    /// What the pack knows.
    pub pack: &'a PackHints,
}

/// What a pack knows about a dependency's way of speaking about waits. The default knows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PackHints {
    /// The wait where none is stated, in milliseconds.
    pub default_wait_ms: Option<u64>,
    /// The zone at whose midnight a daily allowance refills (`America/Los_Angeles`); used where a usage limit or an
    /// exhausted quota states no time and there is no default wait.
    pub daily_reset_zone: Option<String>,
    /// Units of bare numbers, by lower-case name of header or field, where the name does not tell.
    pub units: Vec<(String, Unit)>,
    /// Headers and fields that never count, by lower-case name.
    pub ignore: Vec<String>,
    /// The zone in which a date without one is meant (`Asia/Shanghai`).
    pub zone: Option<String>,
    /// No hint is shorter than this, in milliseconds.
    pub floor_ms: u64,
}

impl PackHints {
    /// Returns the zone names that the time zone database does not know; a sound pack has none.
    #[must_use]
    pub fn unknown_zones(&self) -> Vec<&str> {
        let zones = [self.daily_reset_zone.as_deref(), self.zone.as_deref()];
        zones.into_iter().flatten().filter(|name| zone::named(name).is_none()).collect()
    }

    fn unit_of(&self, name: &str) -> Option<Unit> {
        self.units.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, unit)| *unit)
    }

    fn ignores(&self, name: &str) -> bool {
        self.ignore.iter().any(|n| n.eq_ignore_ascii_case(name))
    }
}

/// What every reader of a source needs to know.
struct Reading<'a> {
    class: Class,
    pack: &'a PackHints,
    kind: Surroundings,
    /// The answer is Z.ai's, whose dates are Beijing's.
    zai: bool,
    /// The quota that ran out is one of a day, whatever a sentence says.
    per_day: bool,
    /// The moment of the answer, as its sender's clock shows it.
    server: Moment,
}

impl Reading<'_> {
    /// Returns the moment for sentences of `text` (cleaned): the pack's zone, else that of the text's language, else
    /// the reader's own for a command and UTC for a service.
    fn spoken(&self, text: &str) -> Moment {
        let of_text =
            || if self.zai || text.contains("\"1308\"") { Some("asia/shanghai") } else { east::zone_of(text) };
        let zoneless = match (&self.pack.zone, of_text().and_then(zone::named), self.kind) {
            (Some(_), _, _) | (None, None, Surroundings::Http) => self.server.zoneless.clone(),
            (None, Some(zone), _) => Zoneless::In(zone),
            (None, None, Surroundings::Command) => self.server.local.clone(),
        };
        Moment { now: self.server.now, zoneless, local: self.server.local.clone() }
    }

    /// Turns what was said into a wait. The past is now.
    fn found(&self, stated: Stated) -> Found {
        match stated {
            Stated::After(wait) => Found { wait, absolute: false },
            Stated::At(instant) => {
                let nanos = instant.as_nanosecond() - self.server.now.as_nanosecond();
                let nanos = u128::try_from(nanos).unwrap_or(0);
                let secs = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
                let rest = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
                Found { wait: Duration::new(secs, rest), absolute: true }
            }
        }
    }
}

/// Reads what the dependency said about waiting, or `None` if it said nothing usable.
#[must_use]
pub fn read(input: &HintInput<'_>, at: &ReadAt) -> Option<Hint> {
    if !may_have_hint(input.class) {
        return None;
    }
    let headers = Headers::new(input.headers.iter().copied());
    let pack_zone = input.pack.zone.as_deref().and_then(zone::named);
    let local = if at.zone.is_unknown() { Zoneless::Unknown } else { Zoneless::In(at.zone.clone()) };
    let server_zone = Zoneless::In(pack_zone.unwrap_or(TimeZone::UTC));
    let now = answered_at(&headers, at, &local);
    let server = Moment { now, zoneless: server_zone, local };
    let mut reading =
        Reading { class: input.class, pack: input.pack, kind: input.kind, zai: false, per_day: false, server };
    let body = body::read(input.json, &reading);
    (reading.zai, reading.per_day) = (body.from_zai, body.per_day);

    let (found, source) = stated(input, &headers, &reading, &body).or_else(|| known(&reading))?;
    let floor = Duration::from_millis(input.pack.floor_ms);
    let wait = whole_millis(found.wait.max(floor));
    let of_model = body.windows.iter().any(|window| window.of_model && window.found == found);
    let scope = if of_model { Scope::Part("model".to_owned()) } else { scope::read(input) };
    Some(Hint { until: at.now + wait, wait, source, scope })
}

/// Returns whether waiting can be an answer to this class at all.
const fn may_have_hint(class: Class) -> bool {
    match class {
        Class::RateLimited
        | Class::Overloaded
        | Class::UsageLimit
        | Class::Timeout
        | Class::ConnectionFailure
        | Class::ServerError
        | Class::QuotaExhausted
        | Class::UnknownFailure => true,
        Class::Success | Class::Auth | Class::InvalidRequest => false,
    }
}

/// The shortest wait that a sentence or a field can mean for an allowance that time alone does not refill.
const QUOTA_WAIT_MIN: Duration = Duration::from_secs(600);

/// Asks the sources in their order.
fn stated(
    input: &HintInput<'_>,
    headers: &Headers,
    reading: &Reading<'_>,
    body: &body::Body,
) -> Option<(Found, HintSource)> {
    // What a program prints may be anything; a failure that no rule knows is believed only where a server speaks.
    let unknown = input.class == Class::UnknownFailure;
    if unknown && input.kind == Surroundings::Command {
        return None;
    }
    // Money does not come back in seconds: such a delay was made for another limit.
    let credible = |found: &Found| input.class != Class::QuotaExhausted || found.wait >= QUOTA_WAIT_MIN;
    let first = headers::retry_after(headers, reading)
        .map(|(found, source)| (seconds_or_millis(found, [body.found, resets::reset(headers, reading)]), source))
        .or_else(|| body.found.filter(credible).map(|found| (found, HintSource::Body)))
        .or_else(|| resets::reset(headers, reading).map(|found| (found, HintSource::ResetHeader)))
        .or_else(|| body.reset.map(|found| (found, HintSource::ResetHeader)))
        .or_else(|| {
            prose::read(input.texts, reading)
                .filter(credible)
                .filter(|_| !unknown)
                .map(|found| (found, HintSource::Text))
        })
        .or_else(|| dumped(input, reading).filter(|_| !unknown))
        .or_else(|| refresh::read(input.texts).filter(|_| !unknown).map(|found| (found, HintSource::Text)));
    let of_headers =
        resets::windows(headers, reading).into_iter().map(|window| (window.found, HintSource::ResetHeader));
    let of_bodies = body.windows.iter().map(|window| (window.found, HintSource::Body));
    of_headers.chain(of_bodies).fold(first, |best, window| match best {
        Some(best) if best.0.wait >= window.0.wait => Some(best),
        Some(_) | None => Some(window),
    })
}

/// Returns a stated wait; or, if it is longer than a day and another source names just a thousandth of it, that one:
/// then it was in milliseconds.
fn seconds_or_millis(found: Found, others: [Option<Found>; 2]) -> Found {
    let thousandth = found.wait / 1000;
    let near = |other: &Found| other.wait.abs_diff(thousandth) < Duration::from_secs(1) && !other.wait.is_zero();
    let long = !found.absolute && found.wait > Duration::from_secs(86_400);
    others
        .into_iter()
        .flatten()
        .find(|other| long && near(other))
        .map_or(found, |other| Found { wait: thousandth, ..other }.longer(other))
}

/// Returns what headers say that a program printed inside its text, however it printed them.
fn dumped(input: &HintInput<'_>, reading: &Reading<'_>) -> Option<(Found, HintSource)> {
    input.texts.iter().rev().find_map(|raw| {
        let cleaned = text::clean(raw);
        [&cleaned, &text::joined(&cleaned)].into_iter().find_map(|text| {
            let headers = dump::headers(text)?;
            let window = resets::windows(&headers, reading).into_iter().map(|w| w.found).reduce(Found::longer);
            let found = window.or_else(|| resets::reset(&headers, reading))?;
            Some((found, HintSource::ResetHeader))
        })
    })
}

/// Returns what the pack knows where nothing was said.
fn known(reading: &Reading<'_>) -> Option<(Found, HintSource)> {
    let pack = reading.pack;
    let wait = match (pack.default_wait_ms, pack.daily_reset_zone.as_deref()) {
        (Some(ms), _) => Duration::from_millis(ms),
        (None, Some(zone)) if matches!(reading.class, Class::UsageLimit | Class::QuotaExhausted) => {
            let here = reading.server.now.to_zoned_datetime(zone::named(zone)?);
            let midnight = here.tomorrow().ok()?.start_of_day().ok()?;
            reading.found(Stated::At(midnight.timestamp())).wait
        }
        (None, _) => return None,
    };
    Some((Found { wait, absolute: false }, HintSource::PackDefault))
}

/// Returns when the answer was given, by its sender's clock: `Date`, plus `Age` if a cache kept it; else by ours.
fn answered_at(headers: &Headers, at: &ReadAt, local: &Zoneless) -> jiff::Timestamp {
    let ours = wall(at.wall_ms);
    let moment = Moment { now: ours, zoneless: Zoneless::In(TimeZone::UTC), local: local.clone() };
    let dates = headers.all("date").filter_map(|raw| match headers::stated(raw, &moment) {
        Some(Stated::At(instant)) => Some(instant),
        Some(Stated::After(_)) | None => None,
    });
    let Some(date) = dates.max() else { return ours };
    let age = headers.get("age").and_then(number::Decimal::parse).and_then(|age| age.stated(Unit::Seconds));
    match age {
        Some(Stated::After(age)) => date.saturating_add(age).unwrap_or(date),
        Some(Stated::At(_)) | None => date,
    }
}

/// Returns the wall clock as an instant; a clock beyond the calendar is at its end.
fn wall(ms: i64) -> jiff::Timestamp {
    let (first, last) = (jiff::Timestamp::MIN, jiff::Timestamp::MAX);
    jiff::Timestamp::from_millisecond(ms.clamp(first.as_millisecond(), last.as_millisecond())).unwrap_or(last)
}

/// Rounds up to whole milliseconds, so that a hint is never earlier than what was said.
fn whole_millis(wait: Duration) -> Duration {
    let ms = wait.as_nanos().div_ceil(1_000_000);
    Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))
}
