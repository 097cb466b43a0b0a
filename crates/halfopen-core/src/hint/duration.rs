//! Reads spans of time: `1m0s`, `2 days 17 hours 14 minutes`, `PT30S`, `00:00:00.033`, `5 à 10 minutes`.
//!
//! One grammar serves headers, fields and sentences; a header must be used up by it, a sentence goes on after it. A
//! number without a unit is the caller's affair, because only the name or the verb before it says what it may mean.

use super::lex::{Kind, Token};
use super::number::{Decimal, span};
use std::time::Duration;

const MS: u128 = 1_000_000;
const SECOND: u128 = 1000 * MS;
const MINUTE: u128 = 60 * SECOND;
const HOUR: u128 = 60 * MINUTE;
const DAY: u128 = 24 * HOUR;
const WEEK: u128 = 7 * DAY;

/// Returns the length of the unit called `word`, in nanoseconds.
pub(super) fn unit(word: &str) -> Option<u128> {
    Some(match word {
        "ns" | "nanosecond" | "nanoseconds" => 1,
        "us" | "µs" | "μs" | "microsecond" | "microseconds" => 1000,
        "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" | "milisegundos" | "millisekunden" => MS,
        "s" | "sec" | "secs" | "second" | "seconds" | "seg" | "segs" | "segundo" | "segundos" | "seconde"
        | "secondes" | "secondi" | "secondo" | "sek" | "sekunde" | "sekunden" | "seconden" | "sekund" | "sekundy"
        | "sekunder" | "saniye" | "с" | "сек" | "секунд" | "секунды" | "секунду" | "секунда" => {
            SECOND
        }
        "m" | "mn" | "min" | "mins" | "minute" | "minutes" | "minuto" | "minutos" | "minuti" | "minuten" | "minut"
        | "minuty" | "minuter" | "dakika" | "мин" | "минут" | "минуты" | "минуту" | "минута" => {
            MINUTE
        }
        "h" | "hr" | "hrs" | "hour" | "hours" | "hora" | "horas" | "heure" | "heures" | "ora" | "ore" | "std"
        | "stunde" | "stunden" | "uur" | "uren" | "godzin" | "godziny" | "godzine" | "timmar" | "saat" | "ч"
        | "час" | "часа" | "часов" => HOUR,
        "d" | "day" | "days" | "dia" | "dias" | "jour" | "jours" | "giorno" | "giorni" | "tag" | "tage" | "tagen"
        | "dag" | "dagen" | "dagar" | "dni" | "dzien" | "gun" | "дн" | "день" | "дня" | "дней" => DAY,
        "w" | "wk" | "wks" | "week" | "weeks" | "semana" | "semanas" | "semaine" | "semaines" | "woche" | "wochen"
        | "settimana" | "settimane" => WEEK,
        _ => return None,
    })
}

/// Returns a small number that is written as a word.
fn spelled(word: &str) -> Option<u64> {
    const WORDS: [&str; 12] =
        ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
    WORDS.iter().position(|w| *w == word).map(|at| at as u64 + 1)
}

/// Returns the number a token writes.
pub(super) fn decimal(token: &Token<'_>) -> Option<Decimal> {
    if token.kind != Kind::Number {
        return token.word().and_then(spelled).map(Decimal::from_whole);
    }
    if token.text.contains(',') {
        return Decimal::parse(&token.text.replace(',', ""));
    }
    Decimal::parse(token.text)
}

/// Reads the span that begins at token `at`, and returns it with the place after it. It always has a unit.
pub(super) fn spoken(tokens: &[Token<'_>], at: usize) -> Option<(Duration, usize)> {
    iso(tokens, at).or_else(|| clock(tokens, at)).or_else(|| units(tokens, at))
}

/// Reads a text that is nothing but one span.
pub(super) fn whole(tokens: &[Token<'_>]) -> Option<Duration> {
    let (span, end) = spoken(tokens, 0)?;
    let rest_is_dots = tokens[end..].iter().all(|token| token.is(".") || token.kind == Kind::Break);
    rest_is_dots.then_some(span)
}

/// `1h30m`, `2 days, 3 hours and 5 minutes`, `1,5 Stunden`, `5-10 minutes` (the upper end).
fn units(tokens: &[Token<'_>], at: usize) -> Option<(Duration, usize)> {
    let mut total: u128 = 0;
    let mut smallest = u128::MAX;
    let mut next = at;
    while let Some((nanos, unit, end)) = one(tokens, next) {
        // Units go from large to small; `5 minutes, 2 minutes` are two spans.
        if unit >= smallest {
            break;
        }
        smallest = unit;
        total = total.checked_add(nanos)?;
        next = end;
        let mut joint = end;
        while tokens
            .get(joint)
            .is_some_and(|t| t.kind == Kind::Break || matches!(t.text, "," | "and" | "&" | "e" | "y" | "et" | "und"))
        {
            joint += 1;
        }
        if one(tokens, joint).is_none_or(|(_, unit, _)| unit >= smallest) {
            break;
        }
        next = joint;
    }
    if smallest == u128::MAX {
        return None;
    }
    Some((span(total)?, next))
}

/// One number with its unit: nanoseconds, the unit's length, the place after it.
fn one(tokens: &[Token<'_>], at: usize) -> Option<(u128, u128, usize)> {
    let first = tokens.get(at)?;
    // `an hour`, `a day`: exact enough to be kept. `a minute` is a manner of speaking.
    if first.is("an") || first.is("a") {
        let length = unit(tokens.get(at + 1)?.word()?)?;
        return (length >= HOUR && tokens[at + 1].text.len() > 1).then_some((length, length, at + 2));
    }
    if first.is("half") {
        let hour = (at + 1..at + 3).find(|i| tokens.get(*i).is_some_and(|t| t.is("hour")))?;
        return (hour == at + 1 || tokens[at + 1].is("an")).then_some((HOUR / 2, HOUR, hour + 1));
    }
    let mut number = decimal(first)?;
    let mut next = at + 1;
    // A decimal comma: `1,5 Stunden`.
    if tokens.get(next).is_some_and(|t| t.is(",") && !t.spaced)
        && let Some(fraction) = tokens.get(next + 1).filter(|t| !t.spaced && t.whole(2).is_some())
        && first.whole(9).is_some()
    {
        number = Decimal::parse(&format!("{}.{}", first.text, fraction.text))?;
        next += 2;
    }
    // A range: its upper end. A broken bar or a second figure without a dash is something else.
    if tokens.get(next).is_some_and(|t| matches!(t.text, "-" | "–" | "to" | "a" | "or" | "bis"))
        && let Some(upper) = tokens.get(next + 1).filter(|t| t.kind == Kind::Number).and_then(decimal)
    {
        number = upper;
        next += 2;
    }
    while tokens
        .get(next)
        .is_some_and(|t| t.kind == Kind::Break || matches!(t.text, "'" | "\"" | "`" | "*" | "-" | "("))
    {
        next += 1;
    }
    let word = tokens.get(next)?.word()?;
    let length = unit(word)?;
    next += 1;
    // `second(s)`, `sec.`
    if tokens.get(next).is_some_and(|t| t.is("(") && !t.spaced) && tokens.get(next + 1).is_some_and(|t| t.is("s")) {
        next += if tokens.get(next + 2).is_some_and(|t| t.is(")")) { 3 } else { 2 };
    }
    Some((number.nanos(length)?, length, next))
}

/// ISO 8601: `PT1H30M`, `P1DT2H`. Months and years have no fixed length and are not read.
fn iso(tokens: &[Token<'_>], at: usize) -> Option<(Duration, usize)> {
    let mut in_time = match tokens.get(at)?.word()? {
        "p" => false,
        "pt" => true,
        _ => return None,
    };
    let mut total: u128 = 0;
    let mut next = at + 1;
    while let Some(number) = tokens.get(next).filter(|t| t.kind == Kind::Number && !t.spaced) {
        let word = tokens.get(next + 1).filter(|t| !t.spaced)?.word()?;
        let (name, enters_time) = match word.strip_suffix('t') {
            Some(name) => (name, true),
            None => (word, false),
        };
        let length = match (in_time, name) {
            (false, "d") => DAY,
            (false, "w") => WEEK,
            (true, "h") => HOUR,
            (true, "m") => MINUTE,
            (true, "s") => SECOND,
            _ => return None,
        };
        in_time |= enters_time;
        total = total.checked_add(decimal(number)?.nanos(length)?)?;
        next += 2;
    }
    (next > at + 1).then_some((span(total)?, next))
}

/// `hh:mm:ss`, `hh:mm:ss.fff`, `d.hh:mm:ss`, and `m:ss`.
fn clock(tokens: &[Token<'_>], at: usize) -> Option<(Duration, usize)> {
    let colon = |at: usize| tokens.get(at).is_some_and(|t| t.is(":") && !t.spaced);
    let glued = |at: usize| tokens.get(at).filter(|t| t.kind == Kind::Number && !t.spaced);
    let first = tokens.get(at).filter(|t| t.kind == Kind::Number)?;
    if !colon(at + 1) {
        return None;
    }
    let second = glued(at + 2)?.whole(2);
    if !colon(at + 3) {
        // Two parts are minutes and seconds only if the seconds have two digits and nothing makes it a time of day.
        let seconds = second.filter(|s| *s < 60 && tokens[at + 2].text.len() == 2)?;
        let minutes = first.whole(3)?;
        let follows = tokens.get(at + 3);
        let daytime =
            follows.and_then(Token::word).is_some_and(|w| !matches!(w, "min" | "mins" | "minutes" | "remaining"));
        return (!daytime && follows.is_none_or(|t| !matches!(t.text, "+" | "-" | "(")))
            .then_some((Duration::from_secs(u64::from(minutes * 60 + seconds)), at + 3));
    }
    let (days, hours) = match first.text.split_once('.') {
        Some((days, hours)) => (days.parse::<u32>().ok()?, hours.parse::<u32>().ok()?),
        None => (0, first.whole(4)?),
    };
    let minutes = second.filter(|m| *m < 60)?;
    let last = glued(at + 4)?;
    let seconds = decimal(last).filter(|s| !s.at_least(60))?;
    let whole = u128::from(days) * DAY + u128::from(hours) * HOUR + u128::from(minutes) * MINUTE;
    Some((span(whole.checked_add(seconds.nanos(SECOND)?)?)?, at + 5))
}

#[cfg(test)]
mod tests {
    use super::super::lex::lex;
    use super::*;
    use test_case::test_case;

    #[test_case("1m0s" => Some(60_000))]
    #[test_case("6m0s" => Some(360_000))]
    #[test_case("12ms" => Some(12))]
    #[test_case("1500ms" => Some(1_500))]
    #[test_case("7.66s" => Some(7_660))]
    #[test_case("2m59.56s" => Some(179_560))]
    #[test_case("9m38.016s" => Some(578_016))]
    #[test_case("33740.910400305s" => Some(33_740_911))]
    #[test_case("8h44m7s" => Some(31_447_000))]
    #[test_case("9h22m20s" => Some(33_740_000))]
    #[test_case("24h" => Some(86_400_000))]
    #[test_case("2 days 17 hours 14 minutes" => Some(234_840_000))]
    #[test_case("5 days 22 hours 11\nminutes." => Some(511_860_000))]
    #[test_case("1 minute and 30 seconds" => Some(90_000))]
    #[test_case("1 hour, 2 minutes" => Some(3_720_000))]
    #[test_case("1d 2h" => Some(93_600_000))]
    #[test_case("one hour" => Some(3_600_000))]
    #[test_case("an hour" => Some(3_600_000))]
    #[test_case("half an hour" => Some(1_800_000))]
    #[test_case("1,200 seconds" => Some(1_200_000))]
    #[test_case("1,5 stunden" => Some(5_400_000))]
    #[test_case("5-10 minutes" => Some(600_000))]
    #[test_case("5 to 10 minutes" => Some(600_000))]
    #[test_case("10 second(s)" => Some(10_000))]
    #[test_case("372' seconds" => Some(372_000))]
    #[test_case("30 segundos" => Some(30_000))]
    #[test_case("15 минут" => Some(900_000))]
    #[test_case("pt30s" => Some(30_000))]
    #[test_case("pt1h30m" => Some(5_400_000))]
    #[test_case("p1dt2h" => Some(93_600_000))]
    #[test_case("p1m" => None; "a month has no fixed length")]
    #[test_case("00:00:00.033" => Some(33))]
    #[test_case("00:05:00" => Some(300_000))]
    #[test_case("1.02:03:04" => Some(93_784_000))]
    #[test_case("4:59" => Some(299_000))]
    #[test_case("2500us" => Some(3))]
    #[test_case("2500µs" => Some(3); "micro")]
    #[test_case("1500000ns" => Some(2))]
    #[test_case("30s.\n" => Some(30_000))]
    #[test_case("2 days and an hour" => Some(176_400_000))]
    #[test_case("1 hour and five minutes" => Some(3_900_000))]
    #[test_case("5 minutes, 2 minutes" => None; "two spans")]
    #[test_case("an hr" => Some(3_600_000))]
    #[test_case("half hour" => Some(1_800_000))]
    #[test_case("1 minute 10 second(s)" => Some(70_000))]
    #[test_case("p2w" => Some(1_209_600_000))]
    #[test_case("p" => None)]
    #[test_case("pt" => None)]
    #[test_case("a h" => None)]
    #[test_case("half the hour" => None)]
    #[test_case("1, 5 stunden" => None; "a list is no decimal comma")]
    #[test_case("30s later" => None)]
    #[test_case("4 :59" => None)]
    #[test_case("4:5" => None)]
    #[test_case("4:60" => None)]
    #[test_case("1:60:00" => None)]
    #[test_case("a minute" => None)]
    #[test_case("a few minutes" => None)]
    #[test_case("5 regions" => None)]
    #[test_case("30" => None; "no unit")]
    #[test_case("4 months" => None)]
    #[test_case("99999999999999999999h" => None)]
    #[test_case("-5s" => None)]
    #[test_case("" => None)]
    fn a_span_is_read_and_nothing_else(text: &str) -> Option<u128> {
        whole(&lex(text)).map(|span| span.as_nanos().div_ceil(1_000_000))
    }
}
