//! Reads waits that stand in headers under a name that says "retry": `Retry-After` and everything modelled on it.
//!
//! The unit comes from the name where the name has one, else from the size of the number. A value may also be a span
//! (`1m0s`), a date in any of HTTP's three forms, ISO 8601, or a list that a proxy made of two headers; of several
//! readable values the longest counts. What cannot be read is passed over, and the next source is asked.

use super::lex::lex;
use super::number::{Decimal, Stated, Unit};
use super::when::Moment;
use super::{PackHints, Reading, duration, text, when};
use crate::verdict::{HintSource, RetryAdvice};
use std::time::Duration;

/// Headers by lower-case name, sorted, so that their order of arrival cannot matter.
#[derive(Debug, Default)]
pub(super) struct Headers {
    list: Vec<(String, String)>,
}

/// A wait that was found, and how it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) wait: Duration,
    /// It was an instant, so that it depends on two clocks.
    pub(super) absolute: bool,
}

impl Found {
    /// Returns the longer of two.
    pub(super) fn longer(self, other: Self) -> Self {
        if other.wait > self.wait { other } else { self }
    }
}

/// Returns the longest of some waits.
pub(super) fn longest(found: impl IntoIterator<Item = Found>) -> Option<Found> {
    found.into_iter().reduce(Found::longer)
}

/// No header longer than this is read; the longest form is a JavaScript date of some 70 characters.
const VALUE_BYTES_MAX: usize = 4096;

impl Headers {
    pub(super) fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut list: Vec<_> = pairs
            .into_iter()
            .filter(|(name, value)| name.len() <= 128 && value.len() <= VALUE_BYTES_MAX)
            .map(|(name, value)| (name.trim().to_ascii_lowercase().replace('_', "-"), value.trim().to_owned()))
            .collect();
        list.sort();
        Self { list }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.list.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(super) fn all<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s str> {
        self.iter().filter(move |(n, _)| *n == name).map(|(_, value)| value)
    }

    pub(super) fn get<'s>(&'s self, name: &'s str) -> Option<&'s str> {
        self.all(name).next()
    }
}

/// How near a name is to the standard one; the nearest that can be read counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Unrounded milliseconds.
    Millis,
    /// `Retry-After` itself.
    Standard,
    /// A vendor's spelling of it.
    Kin,
}

/// Returns the rank and unit of a header that says when to retry.
fn retry_name(name: &str, pack: &PackHints) -> Option<(Rank, Unit)> {
    if pack.ignores(name) {
        return None;
    }
    let (rank, unit) = match name {
        "retry-after" => (Rank::Standard, Unit::Seconds),
        "x-amz-retry-after" | "grpc-retry-pushback-ms" => (Rank::Millis, Unit::Ms),
        _ if ["retry-after-ms", "retryafterms", "retry-after-millis", "retry-after-milliseconds", "retry-in-ms"]
            .iter()
            .any(|end| name.ends_with(end)) =>
        {
            (Rank::Millis, Unit::Ms)
        }
        _ if [
            "retry-after",
            "retryafter",
            "retry-after-seconds",
            "retry-after-sec",
            "retry-after-secs",
            "retry-in",
            "retry-at",
        ]
        .iter()
        .any(|end| name.ends_with(end)) =>
        {
            (Rank::Kin, Unit::Seconds)
        }
        _ => return None,
    };
    match pack.unit_of(name) {
        Some(Unit::Ms) => Some((Rank::Millis, Unit::Ms)),
        Some(unit) => Some((rank, unit)),
        None => Some((rank, unit)),
    }
}

/// Returns the wait that the retry headers state, and whether it is a plain number that could be in milliseconds.
pub(super) fn retry_after(headers: &Headers, reading: &Reading<'_>) -> Option<(Found, HintSource)> {
    let mut best: Option<(Rank, Found)> = None;
    for (name, raw) in headers.iter() {
        let Some((rank, unit)) = retry_name(name, reading.pack) else { continue };
        let Some(found) = value(raw, unit, reading) else { continue };
        best = Some(match best {
            Some((had, before)) if had < rank => (had, before),
            Some((had, before)) if had == rank => (had, before.longer(found)),
            Some(_) | None => (rank, found),
        });
    }
    best.map(|(rank, found)| {
        (found, if rank == Rank::Millis { HintSource::MillisHeader } else { HintSource::RetryAfter })
    })
}

/// Reads one value: a number, a span, a date, or a list of them.
pub(super) fn value(raw: &str, unit: Unit, reading: &Reading<'_>) -> Option<Found> {
    let trimmed = unquoted(raw);
    if let Some(found) = single(trimmed, unit, reading) {
        return Some(found);
    }
    // `30;w=60`: the parameters describe the policy.
    if let Some((first, _)) = trimmed.split_once(';') {
        return single(unquoted(first), unit, reading);
    }
    if trimmed.contains(',') {
        return longest(trimmed.split(',').filter_map(|part| single(unquoted(part), unit, reading)));
    }
    None
}

fn unquoted(raw: &str) -> &str {
    let trimmed = raw.trim();
    for quote in ['"', '\''] {
        if let Some(inner) = trimmed.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner.trim();
        }
    }
    trimmed
}

fn single(raw: &str, unit: Unit, reading: &Reading<'_>) -> Option<Found> {
    // Numbers before dates: a lenient date parser reads `1.` as a year.
    if let Some(number) = Decimal::parse(raw) {
        return Some(reading.found(number.stated(unit)?));
    }
    // No script but Latin writes a header's date; what looks like one was made by a localized formatter.
    if !raw.is_ascii() || !raw.bytes().any(|b| b.is_ascii_digit()) {
        return None;
    }
    stated(raw, &reading.server).map(|stated| reading.found(stated))
}

/// Reads a text that is nothing but one span or one instant.
pub(super) fn stated(raw: &str, moment: &Moment) -> Option<Stated> {
    let lower = text::clean(raw);
    let tokens = lex(&lower);
    if let Some(span) = duration::whole(&tokens) {
        return Some(Stated::After(span));
    }
    when::whole(&lower, &tokens, moment).map(Stated::At)
}

/// Returns what the headers say about whether, not when, to try again.
///
/// Any *no* beats any *yes*. A gRPC pushback that is negative or cannot be read is a *no* (gRFC A6).
#[must_use]
pub fn advice(headers: &[(&str, &str)]) -> RetryAdvice {
    let mut said = RetryAdvice::Unsaid;
    for (name, raw) in headers {
        let name = name.trim().to_ascii_lowercase();
        let value = unquoted(raw).to_ascii_lowercase();
        let allowed = if name == "grpc-retry-pushback-ms" {
            Some(Decimal::parse(&value).is_some())
        } else if name.ends_with("should-retry") {
            match value.as_str() {
                "true" | "1" | "yes" => Some(true),
                "false" | "0" | "no" => Some(false),
                _ => None,
            }
        } else {
            None
        };
        match allowed {
            Some(false) => return RetryAdvice::Forbidden,
            Some(true) => said = RetryAdvice::Allowed,
            None => {}
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use test_case::test_case;

    /// S112, S114, S121: dates in three forms, values that are none, numbers that are no years.
    #[test_case("120" => Some(120_000))]
    #[test_case("  120  " => Some(120_000))]
    #[test_case("\"120\"" => Some(120_000))]
    #[test_case("0" => Some(0))]
    #[test_case("2.128" => Some(2_128))]
    #[test_case("2.0" => Some(2_000))]
    #[test_case("1." => Some(1_000))]
    #[test_case("120s" => Some(120_000))]
    #[test_case("1m0s" => Some(60_000))]
    #[test_case("1500ms" => Some(1_500))]
    #[test_case("30 seconds" => Some(30_000))]
    #[test_case("PT1M" => Some(60_000))]
    #[test_case("120, 60" => Some(120_000))]
    #[test_case("30,30" => Some(30_000))]
    #[test_case("5, 10" => Some(10_000))]
    #[test_case("soon, 7" => Some(7_000))]
    #[test_case("1772452830" => Some(30_000))]
    #[test_case("1772452807000" => Some(7_000))]
    #[test_case("Mon, 02 Mar 2026 12:02:00 GMT" => Some(120_000))]
    #[test_case("Monday, 02-Mar-26 12:02:00 GMT" => Some(120_000))]
    #[test_case("Mon Mar  2 12:02:00 2026" => Some(120_000))]
    #[test_case("2026-03-02T12:00:10Z" => Some(10_000))]
    #[test_case("Mon, 02 Mar 2026 11:55:00 GMT" => Some(0); "past means now")]
    #[test_case("1586950800" => Some(0); "past epoch")]
    #[test_case("2026" => Some(2_026_000))]
    #[test_case("-100" => None)]
    #[test_case("-0" => None)]
    #[test_case("NaN" => None)]
    #[test_case("inf" => None)]
    #[test_case("Infinity" => None)]
    #[test_case("1e309" => None)]
    #[test_case("" => None)]
    #[test_case(" " => None)]
    #[test_case("+5" => None)]
    #[test_case("0x10" => None)]
    #[test_case("soon" => None)]
    #[test_case("never" => None)]
    #[test_case("null" => None)]
    #[test_case("99999999999999999999999" => None)]
    #[test_case("2026年3月2日 12:01:00" => None)]
    #[test_case("Mon, 02 Mar 12026 12:02:00 GMT" => None)]
    fn retry_after_is_read_in_every_form(raw: &str) -> Option<u128> {
        testing::headers(&[("Retry-After", raw)]).map(|hint| hint.wait.as_millis())
    }

    /// S114, S117: milliseconds are not seconds, and a value that cannot be read hides no other.
    #[test_case(&[("retry-after-ms", "800"), ("retry-after", "800")] => Some(800))]
    #[test_case(&[("retry-after", "800")] => Some(800_000))]
    #[test_case(&[("retry-after-ms", "1234"), ("retry-after", "2")] => Some(1_234))]
    #[test_case(&[("retry-after-ms", "-1"), ("retry-after", "2")] => Some(2_000))]
    #[test_case(&[("x-ms-retry-after-ms", "100")] => Some(100))]
    #[test_case(&[("x-ms-retry-after-ms", "00:00:00.033")] => Some(33))]
    #[test_case(&[("x-amz-retry-after", "500")] => Some(500))]
    #[test_case(&[("grpc-retry-pushback-ms", "1500")] => Some(1_500))]
    #[test_case(&[("grpc-retry-pushback-ms", "-1")] => None)]
    #[test_case(&[("RetryAfter", "12")] => Some(12_000))]
    #[test_case(&[("X-Retry-After", "1772452860")] => Some(60_000))]
    #[test_case(&[("x-ratelimit-retry-after", "42")] => Some(42_000))]
    #[test_case(&[("retry-after", "60"), ("x-ratelimit-retry-after", "42")] => Some(60_000))]
    #[test_case(&[("retry-after", "30"), ("x-ratelimit-retry-after", "42")] => Some(30_000))]
    #[test_case(&[("retry-after", "5"), ("Retry-After", "9")] => Some(9_000))]
    #[test_case(&[("retry-after", "soon"), ("x-ratelimit-retry-after", "42")] => Some(42_000))]
    #[test_case(&[("retry-after", "5"), ("Retry-After", "10")] => Some(10_000))]
    #[test_case(&[("content-length", "120")] => None)]
    fn the_nearest_readable_name_counts(pairs: &[(&str, &str)]) -> Option<u128> {
        testing::headers(pairs).map(|hint| hint.wait.as_millis())
    }

    #[test]
    fn the_source_says_whether_the_wait_was_rounded() {
        let source = |name| testing::headers(&[(name, "5")]).map(|hint| hint.source);
        assert_eq!(source("retry-after-ms"), Some(HintSource::MillisHeader));
        assert_eq!(source("retry-after"), Some(HintSource::RetryAfter));
        assert_eq!(source("x-ratelimit-retry-after"), Some(HintSource::RetryAfter));
    }

    #[test_case(&[("x-should-retry", "true")] => RetryAdvice::Allowed)]
    #[test_case(&[("Stripe-Should-Retry", "false")] => RetryAdvice::Forbidden)]
    #[test_case(&[("X-Pulumi-Should-Retry", "True"), ("x-should-retry", "false")] => RetryAdvice::Forbidden)]
    #[test_case(&[("grpc-retry-pushback-ms", "-1")] => RetryAdvice::Forbidden)]
    #[test_case(&[("grpc-retry-pushback-ms", "oops")] => RetryAdvice::Forbidden)]
    #[test_case(&[("grpc-retry-pushback-ms", "1500")] => RetryAdvice::Allowed)]
    #[test_case(&[("x-should-retry", "maybe")] => RetryAdvice::Unsaid)]
    #[test_case(&[("retry-after", "5")] => RetryAdvice::Unsaid)]
    fn a_no_beats_a_yes(pairs: &[(&str, &str)]) -> RetryAdvice {
        advice(pairs)
    }
}
