//! Reads calendar dates as services and people write them: `2026-03-02`, `Jun 18th, 2026`, `31-Dec-99`,
//! `10 de jul. de 2026`, `2019-Sep-18`, `3/25/2026`.
//!
//! Only what is unmistakable is read: `3/4/2026` could be two days, so it is none. A year may be missing; the caller
//! finds the nearest one.

use super::lex::{Kind, Token};

/// A day of the calendar, perhaps without its year.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Day {
    pub(super) year: Option<i16>,
    /// Two digits only, as RFC 850 writes a year; the century is found by the distance from now.
    pub(super) short_year: bool,
    pub(super) month: i8,
    pub(super) day: i8,
}

/// Returns the number of a month, by its name in a dozen languages or the name's beginning.
fn month(word: &str) -> Option<i8> {
    const NAMES: [(&str, i8); 46] = [
        ("jan", 1),
        ("gen", 1),
        ("ene", 1),
        ("янв", 1),
        ("feb", 2),
        ("fev", 2),
        ("fevr", 2),
        ("фев", 2),
        ("mar", 3),
        ("maerz", 3),
        ("marz", 3),
        ("maart", 3),
        ("мар", 3),
        ("apr", 4),
        ("abr", 4),
        ("avr", 4),
        ("апр", 4),
        ("may", 5),
        ("mai", 5),
        ("mei", 5),
        ("maj", 5),
        ("mag", 5),
        ("мая", 5),
        ("май", 5),
        ("jun", 6),
        ("juin", 6),
        ("giu", 6),
        ("июн", 6),
        ("jul", 7),
        ("juil", 7),
        ("lug", 7),
        ("июл", 7),
        ("aug", 8),
        ("ago", 8),
        ("aou", 8),
        ("авг", 8),
        ("sep", 9),
        ("set", 9),
        ("сен", 9),
        ("oct", 10),
        ("okt", 10),
        ("out", 10),
        ("ott", 10),
        ("окт", 10),
        ("nov", 11),
        ("ноя", 11),
    ];
    const DECEMBER: [&str; 4] = ["dec", "dez", "dic", "дек"];
    // Words that begin like a month but are none.
    if matches!(
        word,
        "maybe" | "outside" | "output" | "setting" | "settings" | "second" | "general" | "march" | "marcha"
    ) {
        return (word == "march").then_some(3);
    }
    let begins = |name: &str| word.starts_with(name) && word.chars().count() <= 10;
    // `juil` before `jul`, `juin` before `jun`: the longer names differ in their first three letters, so order is free.
    NAMES
        .iter()
        .find(|(name, _)| begins(name))
        .map(|(_, month)| *month)
        .or_else(|| DECEMBER.iter().any(|n| begins(n)).then_some(12))
}

/// Returns the weekday called `word`, Monday as 0.
pub(super) fn weekday(word: &str) -> Option<i8> {
    Some(match word {
        "mon" | "monday" | "lunes" | "lundi" | "montag" => 0,
        "tue" | "tues" | "tuesday" | "martes" | "mardi" | "dienstag" => 1,
        "wed" | "weds" | "wednesday" | "miercoles" | "mercredi" | "mittwoch" => 2,
        "thu" | "thur" | "thurs" | "thursday" | "jueves" | "jeudi" | "donnerstag" => 3,
        "fri" | "friday" | "viernes" | "vendredi" | "freitag" => 4,
        "sat" | "saturday" | "sabado" | "samedi" | "samstag" => 5,
        "sun" | "sunday" | "domingo" | "dimanche" | "sonntag" => 6,
        _ => return None,
    })
}

/// Reads the day that begins at token `at`, and returns it with the place after it.
pub(super) fn read(tokens: &[Token<'_>], at: usize) -> Option<(Day, usize)> {
    year_first(tokens, at)
        .or_else(|| eastern(tokens, at))
        .or_else(|| month_first(tokens, at))
        .or_else(|| day_first(tokens, at))
        .or_else(|| slashed(tokens, at))
}

fn is_joint(token: &Token<'_>) -> bool {
    matches!(token.text, "-" | "/" | ".")
}

/// A day as it stands in the calendar, if such a day exists in some year.
fn day(year: Option<u32>, month: i8, day: u32) -> Option<Day> {
    let longest = match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let day = i8::try_from(day).ok().filter(|d| (1..=longest).contains(d))?;
    let year = match year {
        Some(year) => Some(i16::try_from(year).ok().filter(|y| (1970..=9999).contains(y))?),
        None => None,
    };
    (1..=12).contains(&month).then_some(Day { year, short_year: false, month, day })
}

/// `2026-03-02`, `2026/03/02`, `2019-Sep-18`.
fn year_first(tokens: &[Token<'_>], at: usize) -> Option<(Day, usize)> {
    let year = tokens.get(at).filter(|t| t.text.len() == 4)?.whole(4)?;
    let (joint, again) = (tokens.get(at + 1)?, tokens.get(at + 3)?);
    if !is_joint(joint) || joint.text != again.text || joint.spaced || again.spaced {
        return None;
    }
    let middle = tokens.get(at + 2)?;
    let month_number = match middle.kind {
        Kind::Number => i8::try_from(middle.whole(2)?).ok()?,
        Kind::Word => month(middle.text)?,
        Kind::Sign | Kind::Break => return None,
    };
    let last = tokens.get(at + 4).filter(|t| !t.spaced)?.whole(2)?;
    Some((day(Some(year), month_number, last)?, at + 5))
}

/// `2026年3月10日`, with a blank or a sign behind it.
fn eastern(tokens: &[Token<'_>], at: usize) -> Option<(Day, usize)> {
    let figure = |at: usize, signs: [&str; 2]| {
        tokens.get(at + 1).filter(|sign| signs.contains(&sign.text)).and_then(|_| tokens.get(at)?.whole(4))
    };
    let year = figure(at, ["年", "년"])?;
    let month = i8::try_from(figure(at + 2, ["月", "월"])?).ok()?;
    Some((day(Some(year), month, figure(at + 4, ["日", "일"])?)?, at + 6))
}

/// `Oct 31`, `June 18th, 2026`, `Mar 02 2026`.
fn month_first(tokens: &[Token<'_>], at: usize) -> Option<(Day, usize)> {
    let month_number = month(tokens.get(at)?.word()?)?;
    let mut next = at + 1;
    if tokens.get(next).is_some_and(|t| t.is(".") && !t.spaced) {
        next += 1;
    }
    let figure = tokens.get(next)?.whole(2)?;
    next = past_ordinal(tokens, next + 1);
    // `Oct 6:30` is no day.
    if tokens.get(next).is_some_and(|t| t.is(":")) {
        return None;
    }
    let (year, next) = year_after(tokens, next);
    Some((day(year, month_number, figure)?, next))
}

/// `18 June 2026`, `02-Mar-2026`, `31-Dec-99`, `10 de jul. de 2026`, `4. März`.
fn day_first(tokens: &[Token<'_>], at: usize) -> Option<(Day, usize)> {
    let figure = tokens.get(at)?.whole(2)?;
    let mut next = past_ordinal(tokens, at + 1);
    let dashed = tokens.get(next).is_some_and(|t| t.is("-"));
    while tokens.get(next).is_some_and(|t| matches!(t.text, "de" | "of" | "." | "-")) {
        next += 1;
    }
    let month_number = month(tokens.get(next)?.word()?)?;
    next += 1;
    if dashed && tokens.get(next).is_some_and(|t| t.is("-")) {
        let figures = tokens.get(next + 1).filter(|t| !t.spaced)?;
        let year = figures.whole(4)?;
        if figures.text.len() == 2 {
            let mut found = day(None, month_number, figure)?;
            found.year = i16::try_from(year).ok();
            found.short_year = true;
            return Some((found, next + 2));
        }
        return Some((day(Some(year), month_number, figure)?, next + 2));
    }
    if tokens.get(next).is_some_and(|t| t.is(".") && !t.spaced) {
        next += 1;
    }
    let (year, next) = year_after(tokens, next);
    Some((day(year, month_number, figure)?, next))
}

/// `3/25/2026`, `25/03/2026`, `25.03.2026`: only where one of the two must be the day, or both are the same.
fn slashed(tokens: &[Token<'_>], at: usize) -> Option<(Day, usize)> {
    let dotted = |token: &Token<'_>| {
        let (a, b) = token.text.split_once('.')?;
        Some((a.parse::<u32>().ok()?, b.parse::<u32>().ok()?))
    };
    // `25.03` is cut as one number; the year follows its second point.
    let (a, b, joint, next) = match tokens.get(at).and_then(dotted) {
        Some((a, b)) => (a, b, ".", at + 1),
        None => {
            let joint = tokens.get(at + 1).filter(|t| t.is("/") && !t.spaced)?;
            (tokens.get(at)?.whole(2)?, tokens.get(at + 2).filter(|t| !t.spaced)?.whole(2)?, joint.text, at + 3)
        }
    };
    if !tokens.get(next).is_some_and(|t| t.is(joint) && !t.spaced) {
        return None;
    }
    let year = tokens.get(next + 1).filter(|t| !t.spaced && t.text.len() == 4)?.whole(4)?;
    let (month_number, figure) = match (a, b) {
        // With points the day always comes first.
        (a, b) if joint == "." || a > 12 => (b, a),
        (a, b) if b > 12 || a == b => (a, b),
        // Who writes `1:00 PM` puts the month first.
        (a, b) if tokens[next..].iter().take(10).any(|t| t.is("am") || t.is("pm")) => (a, b),
        _ => return None,
    };
    Some((day(Some(year), i8::try_from(month_number).ok()?, figure)?, next + 2))
}

fn past_ordinal(tokens: &[Token<'_>], at: usize) -> usize {
    let ordinal = tokens.get(at).is_some_and(|t| !t.spaced && matches!(t.text, "st" | "nd" | "rd" | "th" | "º" | "er"));
    if ordinal { at + 1 } else { at }
}

/// A year of four digits after a comma, `de` or a blank.
fn year_after(tokens: &[Token<'_>], at: usize) -> (Option<u32>, usize) {
    let mut next = at;
    while next < at + 2 && tokens.get(next).is_some_and(|t| matches!(t.text, "," | "de" | "'") || t.kind == Kind::Break)
    {
        next += 1;
    }
    let year =
        tokens.get(next).filter(|t| t.text.len() == 4).and_then(|t| t.whole(4)).filter(|y| (1970..=9999).contains(y));
    if year.is_some() && !tokens.get(next + 1).is_some_and(|t| t.is(":") && !t.spaced) {
        (year, next + 1)
    } else {
        (None, at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::lex::lex;
    use super::*;
    use test_case::test_case;

    #[test_case("2026-03-02" => Some((Some(2026), 3, 2)))]
    #[test_case("2026/03/02" => Some((Some(2026), 3, 2)))]
    #[test_case("2019-sep-18" => Some((Some(2019), 9, 18)))]
    #[test_case("oct 31, 9am" => Some((None, 10, 31)))]
    #[test_case("oct 24" => Some((None, 10, 24)))]
    #[test_case("jun 18th, 2026 8:41" => Some((Some(2026), 6, 18)))]
    #[test_case("jul 25, 2026, 11:09" => Some((Some(2026), 7, 25)))]
    #[test_case("march 2" => Some((None, 3, 2)))]
    #[test_case("2 march 2026" => Some((Some(2026), 3, 2)))]
    #[test_case("02-mar-2026" => Some((Some(2026), 3, 2)))]
    #[test_case("31-dec-99" => Some((Some(99), 12, 31)))]
    #[test_case("10 de jul. de 2026" => Some((Some(2026), 7, 10)))]
    #[test_case("4. marz 2026" => Some((Some(2026), 3, 4)))]
    #[test_case("3 juillet" => Some((None, 7, 3)))]
    #[test_case("3 июля 2026" => Some((Some(2026), 7, 3)))]
    #[test_case("25/03/2026" => Some((Some(2026), 3, 25)))]
    #[test_case("3/25/2026" => Some((Some(2026), 3, 25)))]
    #[test_case("25.03.2026" => Some((Some(2026), 3, 25)))]
    #[test_case("feb 29" => Some((None, 2, 29)))]
    #[test_case("3/4/2026 1:00:00 pm" => Some((Some(2026), 3, 4)))]
    #[test_case("3/4/2026" => None; "two days at once")]
    #[test_case("oct. 31, 2026" => Some((Some(2026), 10, 31)))]
    #[test_case("oct31" => Some((None, 10, 31)))]
    #[test_case("10-mar 2026" => Some((Some(2026), 3, 10)))]
    #[test_case("3jul2026" => Some((Some(2026), 7, 3)))]
    #[test_case("oct 31,\n2026" => Some((Some(2026), 10, 31)))]
    #[test_case("oct 31\n\n\n2026" => Some((None, 10, 31)); "a number further down is no year")]
    #[test_case("mar 5 2030:15" => Some((None, 3, 5)); "a time is no year")]
    #[test_case("mar 5 2030 :15" => Some((Some(2030), 3, 5)))]
    #[test_case("apr 30" => Some((None, 4, 30)))]
    #[test_case("apr 31" => None)]
    #[test_case("2026:03:02" => None)]
    #[test_case("2026-03/02" => None)]
    #[test_case("2026 -03-02" => None)]
    #[test_case("2026-03 -02" => None)]
    #[test_case("25 /03/2026" => None)]
    #[test_case("25/03 /2026" => None)]
    #[test_case("25/03/ 2026" => None)]
    #[test_case("12/5/2026" => None; "two days at once, the later first")]
    #[test_case("5/12/2026" => None; "two days at once, the earlier first")]
    #[test_case("feb 30" => None)]
    #[test_case("2026-13-01" => None)]
    #[test_case("0000-01-01" => None)]
    #[test_case("may 5:30" => None)]
    #[test_case("maybe 5" => None)]
    #[test_case("second 5" => None)]
    fn a_day_is_read(text: &str) -> Option<(Option<i16>, i8, i8)> {
        read(&lex(text), 0).map(|(day, _)| (day.year, day.month, day.day))
    }
}
