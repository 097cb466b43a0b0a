//! Reads and writes durations as people do on a command line: `2s`, `1.5s`, `10m`, `6h`, `1h30m`.
//!
//! One parser for every flag, so that no two flags understand a number differently. A number without a unit is refused
//! and not guessed: `--timeout 30` means seconds to one reader and minutes to another, and a wrong guess ends a night's
//! work early. Zero is a duration; whether a flag accepts it is the flag's business.

use std::time::Duration;

/// The longest duration that is accepted: a year. Anything longer is a typing error.
pub const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// Why a word is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// Nothing at all.
    #[error("a duration is missing; write for example `30s`, `1.5s`, `10m` or `6h`")]
    Empty,
    /// A number without a unit.
    #[error("`{0}` has no unit; write `{0}s` for seconds, `{0}m` for minutes or `{0}h` for hours")]
    NoUnit(String),
    /// A unit we do not know.
    #[error("`{unit}` in `{word}` is no unit; known are ms, s, m, h and d")]
    Unit {
        /// The whole word.
        word: String,
        /// The part that is no unit.
        unit: String,
    },
    /// No number where one must stand.
    #[error("`{0}` is no duration; write for example `30s`, `1.5s`, `10m` or `6h`")]
    Number(String),
    /// Longer than [`LONGEST`].
    #[error("`{0}` is longer than a year")]
    TooLong(String),
}

/// Reads a duration: one or more numbers with units, decimals allowed (`1.5s`, `1h30m`).
///
/// # Errors
///
/// [`DurationError`], whose message says what to write instead.
pub fn parse(word: &str) -> Result<Duration, DurationError> {
    let text = word.trim();
    if text.is_empty() {
        return Err(DurationError::Empty);
    }
    let mut rest = text;
    let mut seconds = 0.0_f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, next) = tail.split_at(letters);
        let number: f64 = number.parse().map_err(|_| DurationError::Number(word.to_owned()))?;
        seconds += number
            * match unit.trim() {
                "ms" => 0.001,
                "s" | "sec" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                "" => return Err(DurationError::NoUnit(word.to_owned())),
                other => return Err(DurationError::Unit { word: word.to_owned(), unit: other.to_owned() }),
            };
        rest = next.trim_start();
    }
    if seconds > LONGEST.as_secs_f64() {
        return Err(DurationError::TooLong(word.to_owned()));
    }
    // Whole milliseconds, so that `1.1s` is what it says and not a binary fraction below it.
    let millis = (seconds * 1000.0).round();
    Ok(Duration::from_secs_f64(millis / 1000.0))
}

/// Reads a duration that must be longer than zero.
///
/// # Errors
///
/// As [`parse`]; zero is an error too.
pub fn parse_positive(word: &str) -> Result<Duration, String> {
    match parse(word) {
        Ok(duration) if duration.is_zero() => Err(format!("`{word}` is zero; it must be longer")),
        Ok(duration) => Ok(duration),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns a duration as a person reads it, rounded up so that nobody comes back too early: `0.4 s`, `42 s`,
/// `4 min 10 s`, `5 h 3 min`, `3 d 4 h`.
#[must_use]
pub fn show(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis < 10_000 && !millis.is_multiple_of(1000) {
        let tenths = millis.div_ceil(100);
        return format!("{}.{} s", tenths / 10, tenths % 10);
    }
    let seconds = millis.div_ceil(1000);
    let two = |big: u128, big_unit: &str, small: u128, small_unit: &str| {
        if small == 0 { format!("{big} {big_unit}") } else { format!("{big} {big_unit} {small} {small_unit}") }
    };
    if seconds < 60 {
        format!("{seconds} s")
    } else if seconds < 3600 {
        two(seconds / 60, "min", seconds % 60, "s")
    } else {
        let minutes = seconds.div_ceil(60);
        if minutes < 24 * 60 {
            two(minutes / 60, "h", minutes % 60, "min")
        } else {
            let hours = minutes.div_ceil(60);
            two(hours / 24, "d", hours % 24, "h")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("2s", 2_000)]
    #[test_case("1.5s", 1_500)]
    #[test_case("0.5s", 500)]
    #[test_case("250ms", 250)]
    #[test_case("10m", 600_000)]
    #[test_case("6h", 21_600_000)]
    #[test_case("1h30m", 5_400_000)]
    #[test_case("1h 30m", 5_400_000)]
    #[test_case("2d", 172_800_000)]
    #[test_case("0s", 0)]
    #[test_case(" 3s ", 3_000)]
    fn a_duration_is_read(word: &str, millis: u64) {
        assert_eq!(parse(word), Ok(Duration::from_millis(millis)));
    }

    #[test_case("" => matches DurationError::Empty)]
    #[test_case("30" => matches DurationError::NoUnit(_))]
    #[test_case("1h30" => matches DurationError::NoUnit(_))]
    #[test_case("30x" => matches DurationError::Unit { .. })]
    #[test_case("5 parsecs" => matches DurationError::Unit { .. })]
    #[test_case("s" => matches DurationError::Number(_))]
    #[test_case("-3s" => matches DurationError::Number(_))]
    #[test_case("1.2.3s" => matches DurationError::Number(_))]
    #[test_case("inf" => matches DurationError::Number(_))]
    #[test_case("99999999999d" => matches DurationError::TooLong(_))]
    fn a_word_that_is_no_duration_says_why(word: &str) -> DurationError {
        parse(word).expect_err("no duration")
    }

    #[test_case(0, "0 s")]
    #[test_case(350, "0.4 s")]
    #[test_case(1_000, "1 s")]
    #[test_case(41_001, "42 s")]
    #[test_case(250_000, "4 min 10 s")]
    #[test_case(18_180_000, "5 h 3 min")]
    #[test_case(21_600_000, "6 h")]
    #[test_case(273_600_000, "3 d 4 h")]
    fn a_duration_is_shown_rounded_up(millis: u64, shown: &str) {
        assert_eq!(show(Duration::from_millis(millis)), shown);
    }
}
