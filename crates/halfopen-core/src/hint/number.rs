//! Reads the numbers that waits are written in, exactly: no float ever stands between a stated wait and an obeyed one.
//!
//! A number alone does not say what it is. Its name may (`retry-after-ms`), and its size does: at least 10¹² is an
//! epoch in milliseconds, at least 10⁹ an epoch in seconds, anything smaller a span. Signs, hexadecimal, `NaN` and
//! `inf` are not numbers here, so that nothing negative or endless can come out; rounding is always up.

use jiff::Timestamp;
use std::time::Duration;

/// What a source said: a span from the moment it was said, or an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stated {
    /// A span.
    After(Duration),
    /// An instant.
    At(Timestamp),
}

/// The unit that a name gives to a bare number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Milliseconds.
    Ms,
    /// Seconds.
    Seconds,
    /// Minutes.
    Minutes,
    /// Hours.
    Hours,
}

impl Unit {
    pub(super) const fn nanos(self) -> u128 {
        match self {
            Self::Ms => 1_000_000,
            Self::Seconds => 1_000_000_000,
            Self::Minutes => 60 * 1_000_000_000,
            Self::Hours => 3600 * 1_000_000_000,
        }
    }
}

/// No span longer than this is believed: a hundred years. It is not a cut; such a source has said nothing.
const SPAN_MAX_NANOS: u128 = 100 * 366 * 86_400 * 1_000_000_000;

/// Returns `nanos` as a span, or `None` if nobody can mean that.
pub(super) fn span(nanos: u128) -> Option<Duration> {
    if nanos > SPAN_MAX_NANOS {
        return None;
    }
    let secs = u64::try_from(nanos / 1_000_000_000).ok()?;
    let rest = u32::try_from(nanos % 1_000_000_000).ok()?;
    Some(Duration::new(secs, rest))
}

/// A non-negative decimal number: `digits / 10^scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: u128,
    scale: u32,
}

impl Decimal {
    /// Reads all of `text`: digits, at most one point, at most one exponent. No sign, no spaces.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let mut digits: u128 = 0;
        let mut scale: i32 = 0;
        for byte in whole.bytes() {
            digits = digits.checked_mul(10)?.checked_add(digit(byte)?)?;
        }
        let mut more = false;
        for (place, byte) in fraction.bytes().enumerate() {
            let value = digit(byte)?;
            match digits.checked_mul(10).filter(|_| place < 12).and_then(|tenfold| tenfold.checked_add(value)) {
                Some(finer) => (digits, scale) = (finer, scale + 1),
                None => more |= value != 0,
            }
        }
        // Digits too fine to keep still round up.
        digits = digits.checked_add(u128::from(more))?;
        scale = scale.checked_sub(exponent)?;
        if let Ok(scale) = u32::try_from(scale) {
            return Some(Self { digits, scale });
        }
        let factor = 10_u128.checked_pow(scale.unsigned_abs())?;
        Some(Self { digits: digits.checked_mul(factor)?, scale: 0 })
    }

    pub(super) const fn from_whole(whole: u64) -> Self {
        Self { digits: whole as u128, scale: 0 }
    }

    pub(super) const fn is_zero(self) -> bool {
        self.digits == 0
    }

    /// Returns whether it is at least `bound`.
    pub(super) fn at_least(self, bound: u128) -> bool {
        match 10_u128.checked_pow(self.scale) {
            Some(power) => self.digits / power >= bound,
            None => false,
        }
    }

    /// Returns it in nanoseconds of `unit`, rounded up.
    pub(super) fn nanos(self, unit_nanos: u128) -> Option<u128> {
        let power = 10_u128.checked_pow(self.scale)?;
        Some(self.digits.checked_mul(unit_nanos)?.div_ceil(power))
    }

    /// Returns what it says, by its size and the unit its name gives it.
    pub(super) fn stated(self, unit: Unit) -> Option<Stated> {
        if self.at_least(1_000_000_000_000) {
            return self.epoch(1_000_000);
        }
        if self.at_least(1_000_000_000) && unit == Unit::Seconds {
            return self.epoch(1_000_000_000);
        }
        Some(Stated::After(span(self.nanos(unit.nanos())?)?))
    }

    /// Returns the instant that lies this many units after the epoch; none beyond the year 9999.
    fn epoch(self, unit_nanos: u128) -> Option<Stated> {
        let nanos = i128::try_from(self.nanos(unit_nanos)?).ok()?;
        Some(Stated::At(Timestamp::from_nanosecond(nanos).ok()?))
    }
}

fn digit(byte: u8) -> Option<u128> {
    byte.is_ascii_digit().then(|| u128::from(byte - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn ms(text: &str, unit: Unit) -> Option<i128> {
        match Decimal::parse(text)?.stated(unit)? {
            Stated::After(span) => i128::try_from(span.as_nanos().div_ceil(1_000_000)).ok(),
            Stated::At(instant) => Some(-i128::from(instant.as_millisecond())),
        }
    }

    #[test_case("120", Unit::Seconds => Some(120_000))]
    #[test_case("0", Unit::Seconds => Some(0))]
    #[test_case("007", Unit::Seconds => Some(7_000))]
    #[test_case("2.128", Unit::Seconds => Some(2_128))]
    #[test_case("1.", Unit::Seconds => Some(1_000))]
    #[test_case(".5", Unit::Seconds => Some(500))]
    #[test_case("1e3", Unit::Seconds => Some(1_000_000))]
    #[test_case("1.5e1", Unit::Seconds => Some(15_000))]
    #[test_case("1.5e+1", Unit::Seconds => Some(15_000))]
    #[test_case("15e-1", Unit::Seconds => Some(1_500))]
    #[test_case("1e-99", Unit::Seconds => None)]
    #[test_case("1e-2147483648", Unit::Seconds => None)]
    #[test_case("1e2147483647", Unit::Seconds => None)]
    #[test_case("1e+-1", Unit::Seconds => None)]
    #[test_case("1e1x", Unit::Seconds => None)]
    #[test_case("0.001000000000000000", Unit::Seconds => Some(1); "zeros too fine to keep say nothing")]
    #[test_case("340282366920938463463374607431768211455.9", Unit::Seconds => None; "the largest that is kept, and more")]
    #[test_case("2", Unit::Hours => Some(7_200_000))]
    #[test_case("878400", Unit::Hours => Some(3_162_240_000_000); "a hundred years")]
    #[test_case("878400.001", Unit::Hours => None; "more than a hundred years")]
    #[test_case("0.0000000000000001", Unit::Seconds => Some(1); "too fine to keep rounds up")]
    #[test_case("1234", Unit::Ms => Some(1_234))]
    #[test_case("5", Unit::Minutes => Some(300_000))]
    #[test_case("2026", Unit::Seconds => Some(2_026_000); "a year is a number")]
    #[test_case("1586950800", Unit::Seconds => Some(-1_586_950_800_000); "epoch seconds")]
    #[test_case("1470173023.123", Unit::Seconds => Some(-1_470_173_023_123); "epoch with a fraction")]
    #[test_case("1741305660000", Unit::Seconds => Some(-1_741_305_660_000); "epoch milliseconds")]
    #[test_case("1741305660000", Unit::Ms => Some(-1_741_305_660_000); "epoch milliseconds by a ms name")]
    #[test_case("99999999999999999999999", Unit::Seconds => None)]
    #[test_case("999999999999999", Unit::Seconds => None; "beyond the year 9999 in milliseconds")]
    #[test_case("999999999999", Unit::Seconds => None; "beyond the year 9999 in seconds")]
    #[test_case("1e309", Unit::Seconds => None)]
    #[test_case("1e", Unit::Seconds => None)]
    #[test_case("", Unit::Seconds => None)]
    #[test_case(".", Unit::Seconds => None)]
    #[test_case("-3", Unit::Seconds => None)]
    #[test_case("-0", Unit::Seconds => None)]
    #[test_case("+5", Unit::Seconds => None)]
    #[test_case("0x10", Unit::Seconds => None)]
    #[test_case("NaN", Unit::Seconds => None)]
    #[test_case("inf", Unit::Seconds => None)]
    #[test_case("1_000", Unit::Seconds => None)]
    #[test_case("1.2.3", Unit::Seconds => None)]
    #[test_case("١٢", Unit::Seconds => None; "digits of other scripts")]
    fn a_number_is_read_by_name_and_magnitude(text: &str, unit: Unit) -> Option<i128> {
        ms(text, unit)
    }
}
