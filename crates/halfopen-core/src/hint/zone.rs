//! Reads the zone of a clock time: `(Europe/Warsaw)`, `GMT-3`, `+09:00`, `PST`, `Pacific Time`.
//!
//! `GMT-3` has its true sign; `Etc/GMT-3` has the opposite one, and the database knows that. A name that the database
//! does not know makes the whole time unreadable: guessing would be hours off.

use super::lex::Token;
use jiff::tz::{Offset, TimeZone};

/// What stands where a zone may stand.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Read {
    /// A zone, and the place after it.
    Zone(TimeZone, usize),
    /// The reader's own zone, and the place after it.
    Local(usize),
    /// Something that is meant as a zone but is none that exists.
    Unknown,
    /// No zone.
    Nothing,
}

/// Returns the zone the database calls `name`, in any case.
pub(super) fn named(name: &str) -> Option<TimeZone> {
    TimeZone::get(name).ok().or_else(|| TimeZone::get(&name.replace('_', "")).ok())
}

/// Zones that are written by abbreviation: with an offset in minutes, or a place where the abbreviation follows
/// daylight saving.
fn abbreviated(word: &str) -> Option<TimeZone> {
    let minutes = match word {
        "utc" | "gmt" | "z" | "ut" | "wet" => 0,
        "pst" => -480,
        "pdt" | "mst" => -420,
        "mdt" | "cst" => -360,
        "cdt" | "est" => -300,
        "edt" => -240,
        "brt" | "art" => -180,
        "bst" | "cet" | "mez" | "west" => 60,
        "cest" | "mesz" | "eet" | "sast" => 120,
        "eest" | "msk" => 180,
        "ist" => 330,
        "wib" => 420,
        "sgt" | "hkt" | "awst" => 480,
        "jst" | "kst" => 540,
        "aest" => 600,
        "aedt" => 660,
        "nzst" => 720,
        "nzdt" => 780,
        "pt" => return named("america/los_angeles"),
        "mt" => return named("america/denver"),
        "ct" => return named("america/chicago"),
        "et" => return named("america/new_york"),
        _ => return None,
    };
    Some(fixed(minutes))
}

/// Returns the zone of a region's everyday name.
fn regional(word: &str) -> Option<TimeZone> {
    match word {
        "pacific" => named("america/los_angeles"),
        "mountain" => named("america/denver"),
        "central" => named("america/chicago"),
        "eastern" => named("america/new_york"),
        "beijing" | "china" => named("asia/shanghai"),
        "japan" | "tokyo" => named("asia/tokyo"),
        "korea" | "seoul" => named("asia/seoul"),
        "india" => named("asia/kolkata"),
        _ => None,
    }
}

fn fixed(minutes: i32) -> TimeZone {
    Offset::from_seconds(minutes * 60).map_or(TimeZone::UTC, TimeZone::fixed)
}

/// Reads a zone at token `at` of `text`.
pub(super) fn read(text: &str, tokens: &[Token<'_>], at: usize) -> Read {
    let Some(first) = tokens.get(at) else { return Read::Nothing };
    if !(first.is("(") || first.is("[")) {
        return bare(text, tokens, at);
    }
    match bare(text, tokens, at + 1) {
        Read::Zone(zone, end) => Read::Zone(zone, past_bracket(tokens, end)),
        Read::Local(end) => Read::Local(past_bracket(tokens, end)),
        other @ (Read::Unknown | Read::Nothing) => other,
    }
}

/// Reads a zone without brackets.
fn bare(text: &str, tokens: &[Token<'_>], at: usize) -> Read {
    let Some(first) = tokens.get(at) else { return Read::Nothing };
    if let Some((minutes, end)) = offset(tokens, at) {
        return minutes.map_or(Read::Unknown, |minutes| Read::Zone(fixed(minutes), end));
    }
    let Some(word) = first.word() else { return Read::Nothing };
    if tokens.get(at + 1).is_some_and(|t| t.is("/") && !t.spaced) && tokens.get(at + 2).is_some_and(|t| !t.spaced) {
        return from_database(text, tokens, at);
    }
    if matches!(word, "local" | "your") {
        let end = skip_words(tokens, at + 1, &["local", "time", "timezone", "zone"]);
        return if end > at + 1 { Read::Local(end) } else { Read::Nothing };
    }
    if let Some(zone) = regional(word) {
        let end = skip_words(tokens, at + 1, &["standard", "daylight", "time"]);
        return if end > at + 1 { Read::Zone(zone, end) } else { Read::Nothing };
    }
    let Some(zone) = abbreviated(word) else { return Read::Nothing };
    // `GMT-3`, `UTC+05:30`, `GMT+0100`: the offset belongs to the name.
    if matches!(word, "utc" | "gmt")
        && let Some(sign) = tokens.get(at + 1)
        && !sign.spaced
        && let Some((minutes, end)) = offset(tokens, at + 1)
    {
        return minutes.map_or(Read::Unknown, |minutes| Read::Zone(fixed(minutes), end));
    }
    Read::Zone(zone, skip_words(tokens, at + 1, &["time"]))
}

/// `+0900`, `-03`, `+05:30`: minutes east of Greenwich, or `None` inside if no place is that far off.
fn offset(tokens: &[Token<'_>], at: usize) -> Option<(Option<i32>, usize)> {
    let sign = match tokens.get(at)?.text {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let figure = tokens.get(at + 1).filter(|t| !t.spaced)?;
    let value = i32::try_from(figure.whole(4)?).ok()?;
    if figure.text.len() > 2 {
        return Some((minutes(value / 100, value % 100, sign), at + 2));
    }
    let colon = tokens.get(at + 2).is_some_and(|t| t.is(":") && !t.spaced);
    if colon && let Some(low) = tokens.get(at + 3).filter(|t| !t.spaced).and_then(|t| t.whole(2)) {
        return Some((minutes(value, i32::try_from(low).ok()?, sign), at + 4));
    }
    Some((minutes(value, 0, sign), at + 2))
}

fn minutes(hours: i32, minutes: i32, sign: i32) -> Option<i32> {
    (hours <= 14 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// A name of the database: everything up to the next character that no zone name has.
fn from_database(text: &str, tokens: &[Token<'_>], at: usize) -> Read {
    let start = tokens[at].start;
    let name = &text[start..];
    let end =
        name.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+'))).unwrap_or(name.len());
    let name = name[..end].trim_end_matches('-');
    let Some(zone) = named(name) else { return Read::Unknown };
    let mut next = at;
    while tokens.get(next).is_some_and(|t| t.start < start + name.len()) {
        next += 1;
    }
    Read::Zone(zone, skip_words(tokens, next, &["time"]))
}

fn past_bracket(tokens: &[Token<'_>], at: usize) -> usize {
    if tokens.get(at).is_some_and(|t| t.is(")") || t.is("]")) { at + 1 } else { at }
}

fn skip_words(tokens: &[Token<'_>], mut at: usize, words: &[&str]) -> usize {
    while tokens.get(at).is_some_and(|t| words.contains(&t.text)) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::super::lex::lex;
    use super::*;
    use jiff::Timestamp;
    use test_case::test_case;

    /// Offsets in minutes on 1 July 2026, or -1 for local, -2 for unknown.
    #[test_case("(europe/warsaw)" => Some(120))]
    #[test_case("(etc/gmt+5)" => Some(-300); "posix sign")]
    #[test_case("gmt-3" => Some(-180); "true sign")]
    #[test_case("gmt+0100 (central european standard time)" => Some(60))]
    #[test_case("utc" => Some(0))]
    #[test_case("(utc)" => Some(0))]
    #[test_case("utc+5:30" => Some(330))]
    #[test_case("+09:00" => Some(540))]
    #[test_case("+0000 utc" => Some(0))]
    #[test_case("pst" => Some(-480))]
    #[test_case("pacific time" => Some(-420))]
    #[test_case("pt" => Some(-420))]
    #[test_case("america/argentina/buenos_aires" => Some(-180))]
    #[test_case("asia/ho_chi_minh" => Some(420))]
    #[test_case("local time" => Some(-1))]
    #[test_case("(mars/phobos)" => Some(-2))]
    #[test_case("gmt+99" => Some(-2))]
    #[test_case("(utc/ gmt)" => Some(0); "two names are none of the database")]
    #[test_case("+5 :30" => Some(300))]
    #[test_case("+05:60" => Some(-2))]
    #[test_case("local" => None)]
    #[test_case("your" => None)]
    #[test_case("pacific" => None)]
    #[test_case("again" => None)]
    #[test_case("" => None)]
    fn a_zone_is_read(text: &str) -> Option<i32> {
        offset_of(text)
    }

    fn offset_of(text: &str) -> Option<i32> {
        let at = Timestamp::from_second(1_782_900_000).expect("a valid instant");
        match read(text, &lex(text), 0) {
            Read::Zone(zone, _) => Some(zone.to_offset(at).seconds() / 60),
            Read::Local(_) => Some(-1),
            Read::Unknown => Some(-2),
            Read::Nothing => None,
        }
    }

    /// Words by the minutes east of Greenwich that they mean, in July where daylight saving decides.
    #[test]
    fn every_zone_that_people_abbreviate_has_its_offset() {
        let table = [
            ("utc gmt z ut wet", 0),
            ("pst", -480),
            ("pdt mst", -420),
            ("mdt cst", -360),
            ("cdt est", -300),
            ("edt", -240),
            ("brt art", -180),
            ("bst cet mez west", 60),
            ("cest mesz eet sast", 120),
            ("eest msk", 180),
            ("ist", 330),
            ("wib", 420),
            ("sgt hkt awst", 480),
            ("jst kst", 540),
            ("aest", 600),
            ("aedt", 660),
            ("nzst", 720),
            ("nzdt", 780),
            ("pt", -420),
            ("mt", -360),
            ("ct", -300),
            ("et", -240),
        ];
        for (word, minutes) in table.iter().flat_map(|(words, m)| words.split(' ').map(move |word| (word, *m))) {
            assert_eq!(offset_of(word), Some(minutes), "{word}");
            assert_eq!(offset_of(&format!("({word} time)")), Some(minutes), "{word}");
        }
        let regions = [
            ("pacific", -420),
            ("mountain", -360),
            ("central", -300),
            ("eastern", -240),
            ("beijing", 480),
            ("china", 480),
            ("japan", 540),
            ("tokyo", 540),
            ("korea", 540),
            ("seoul", 540),
            ("india", 330),
        ];
        for (region, minutes) in regions {
            assert_eq!(offset_of(&format!("{region} standard time")), Some(minutes), "{region}");
            assert_eq!(offset_of(region), None, "{region} alone is a place");
        }
    }
}
