//! Finds the instant that a date, a clock time, or both together mean, seen from the moment they were said.
//!
//! What is missing is filled from that moment: a clock time without a day is the next such time, a day without a year
//! the nearest such day. A clock time of the very minute that is running counts as reached, not as tomorrow's: limits
//! are printed cut to the minute. A day whose last return lies only weeks back has passed and is not awaited for a
//! year. A time that a change of daylight saving skips is the one an hour later; one that happens twice is the first
//! that still lies ahead.

use super::date::{self, Day};
use super::duration::decimal;
use super::lex::{Kind, Token};
use super::zone::{self, Read};
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, Timestamp};

/// In which zone a time without one is meant.
#[derive(Clone, Debug)]
pub(super) enum Zoneless {
    /// In this one.
    In(TimeZone),
    /// Nobody knows; such a time says nothing.
    Unknown,
}

/// The moment at which something was said, and where.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    /// The clock of whoever said it, as far as it is known.
    pub(super) now: Timestamp,
    /// The zone of a time without one.
    pub(super) zoneless: Zoneless,
    /// The reader's own zone, for `local time`.
    pub(super) local: Zoneless,
}

/// What has been gathered so far.
#[derive(Default)]
struct Parts {
    day: Option<Day>,
    weekday: Option<i8>,
    days_ahead: Option<i64>,
    time: Option<Time>,
    zone: Option<Zoneless>,
}

/// No date phrase has more tokens than this.
const TOKENS_MAX: usize = 40;

/// Reads the instant that begins at token `at` of `text`, and returns it with the place after it.
pub(super) fn read(text: &str, tokens: &[Token<'_>], at: usize, moment: &Moment) -> Option<(Timestamp, usize)> {
    let mut parts = Parts::default();
    let mut next = at;
    let mut end = at;
    while next < at + TOKENS_MAX {
        let Some(token) = tokens.get(next) else { break };
        if let Some(after) = parts.take(text, tokens, next, moment)? {
            next = after;
            end = after;
        } else if is_filler(token) {
            next += 1;
        } else {
            break;
        }
    }
    Some((parts.resolve(moment)?, end))
}

/// Reads a text that is nothing but one instant.
pub(super) fn whole(text: &str, tokens: &[Token<'_>], moment: &Moment) -> Option<Timestamp> {
    let (instant, end) = read(text, tokens, 0, moment)?;
    tokens[end..].iter().all(|t| matches!(t.text, "." | ")")).then_some(instant)
}

fn is_filler(token: &Token<'_>) -> bool {
    token.kind == Kind::Break
        || matches!(
            token.text,
            "," | "at"
                | "on"
                | "the"
                | "of"
                | "de"
                | "um"
                | "as"
                | "a"
                | "las"
                | "'"
                | "\""
                | "`"
                | "*"
                | "·"
                | "–"
                // `2026-03-02T12:05`.
                | "t"
        )
}

impl Parts {
    /// Takes in what stands at `at`, if it is a part of an instant: the place after it. The outer `None` says that
    /// the whole phrase cannot be read.
    #[expect(clippy::option_option, reason = "`?` ends the phrase, the inner value says whether there was a part")]
    fn take(&mut self, text: &str, tokens: &[Token<'_>], at: usize, moment: &Moment) -> Option<Option<usize>> {
        let token = &tokens[at];
        if self.day.is_none()
            && let Some((day, next)) = date::read(tokens, at)
        {
            self.day = Some(day);
            return Some(Some(next));
        }
        if self.time.is_none() {
            match clock(tokens, at) {
                Clock::Time(time, next) => {
                    self.time = Some(time);
                    return Some(Some(next));
                }
                Clock::Impossible => return None,
                Clock::None => {}
            }
        }
        // `Nov 6 08:49:37 1994`: the year at the end.
        if let Some(day) = self.day.as_mut().filter(|d| d.year.is_none())
            && self.time.is_some()
            && let Some(year) = token.whole(4).filter(|y| (1970..=9999).contains(y))
        {
            day.year = i16::try_from(year).ok();
            return Some(Some(at + 1));
        }
        if self.zone.is_none() && (self.time.is_some() || self.day.is_some()) {
            match zone::read(text, tokens, at) {
                Read::Zone(zone, next) => {
                    self.zone = Some(Zoneless::In(zone));
                    return Some(Some(next));
                }
                Read::Local(next) => {
                    self.zone = Some(moment.local.clone());
                    return Some(Some(next));
                }
                Read::Unknown => return None,
                Read::Nothing => {}
            }
        } else if self.zone.is_some()
            && let Some(next) = after_zone(text, tokens, at)
        {
            return Some(Some(next));
        }
        if let Some(word) = token.word() {
            if self.weekday.is_none()
                && let Some(weekday) = date::weekday(word)
            {
                self.weekday = Some(weekday);
                return Some(Some(at + 1));
            }
            let ahead = match word {
                "today" | "tonight" | "hoy" | "hoje" | "heute" | "oggi" => Some(0),
                "tomorrow" | "manana" | "amanha" | "demain" | "morgen" | "domani" | "завтра" => Some(1),
                _ => None,
            };
            if ahead.is_some() && self.days_ahead.is_none() {
                self.days_ahead = ahead;
                return Some(Some(at + 1));
            }
        }
        Some(None)
    }

    fn resolve(&self, moment: &Moment) -> Option<Timestamp> {
        let zoneless = self.zone.as_ref().unwrap_or(&moment.zoneless);
        let Zoneless::In(zone) = zoneless else { return None };
        let here = zone.to_datetime(moment.now);
        let time = self.time.unwrap_or(Time::midnight());
        if let Some(day) = self.day {
            return dated(day, time, here, zone);
        }
        if let Some(ahead) = self.days_ahead {
            self.time?;
            let date = here.date().checked_add(Span::new().try_days(ahead).ok()?).ok()?;
            return instant(date.to_datetime(time), zone, moment.now);
        }
        if let Some(weekday) = self.weekday {
            let today = here.date().weekday().to_monday_zero_offset();
            let mut ahead = i64::from((weekday - today).rem_euclid(7));
            if ahead == 0 && here.time() >= time && !(self.time.is_some() && same_minute(here.time(), time)) {
                ahead = 7;
            }
            let date = here.date().checked_add(Span::new().try_days(ahead).ok()?).ok()?;
            return instant(date.to_datetime(time), zone, moment.now);
        }
        self.time?;
        let today = here.date().to_datetime(time);
        let found = instant(today, zone, moment.now)?;
        if found >= moment.now || same_minute(here.time(), time) {
            return Some(found);
        }
        instant(here.date().tomorrow().ok()?.to_datetime(time), zone, moment.now)
    }
}

/// `12:00:00 +0000 UTC m=+0.5`, `GMT+0100 (Central European Standard Time)`: what may follow a zone.
fn after_zone(text: &str, tokens: &[Token<'_>], at: usize) -> Option<usize> {
    if let Read::Zone(_, next) = zone::read(text, tokens, at) {
        return Some(next);
    }
    if tokens.get(at)?.is("(") {
        let words = tokens[at + 1..].iter().take(6).take_while(|t| t.kind == Kind::Word).count();
        if tokens.get(at + 1 + words).is_some_and(|t| t.is(")")) {
            return Some(at + words + 2);
        }
    }
    None
}

fn same_minute(a: Time, b: Time) -> bool {
    a.hour() == b.hour() && a.minute() == b.minute()
}

/// How long ago the last return of a day without a year may be for it to count as passed rather than as next year's.
const RECENT_DAYS: i32 = 60;

/// Returns the instant of a calendar day.
fn dated(day: Day, time: Time, here: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let now = zone.to_timestamp(here).ok()?;
    let in_year = |year: i16| Date::new(year, day.month, day.day).ok();
    if let (Some(year), true) = (day.year, day.short_year) {
        // RFC 9110 section 5.6.7: more than 50 years ahead means the past century.
        let century = here.year() / 100 * 100;
        let full = if century + year > here.year() + 50 { century + year - 100 } else { century + year };
        return instant(in_year(full)?.to_datetime(time), zone, now);
    }
    if let Some(year) = day.year {
        return instant(in_year(year)?.to_datetime(time), zone, now);
    }
    let this = here.year();
    // 29 February has to look further than a year.
    let ahead = (this..=this.saturating_add(8))
        .filter_map(in_year)
        .map(|date| date.to_datetime(time))
        .find(|at| *at >= here)?;
    let back = (this.saturating_sub(1)..=this)
        .rev()
        .filter_map(in_year)
        .map(|date| date.to_datetime(time))
        .find(|at| *at < here);
    let recent = back.filter(|at| here.date().since(at.date()).is_ok_and(|gone| gone.get_days() <= RECENT_DAYS));
    instant(recent.unwrap_or(ahead), zone, now)
}

/// Returns when a clock in `zone` shows `at`; of two such instants the first that is not over at `now`.
fn instant(at: DateTime, zone: &TimeZone, now: Timestamp) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(at);
    if let AmbiguousOffset::Fold { after, .. } = ambiguous.offset() {
        let first = zone.to_ambiguous_timestamp(at).earlier().ok()?;
        return if first >= now { Some(first) } else { after.to_timestamp(at).ok() };
    }
    ambiguous.compatible().ok()
}

enum Clock {
    /// The time and the place after it.
    Time(Time, usize),
    /// Written like a time, but no clock shows it.
    Impossible,
    None,
}

/// Reads a time of day: `5pm`, `9:30 AM`, `00:00`, `23:59:59.25`, `noon`, `17h30`, `15 Uhr`.
fn clock(tokens: &[Token<'_>], at: usize) -> Clock {
    let Some(first) = tokens.get(at) else { return Clock::None };
    match first.text {
        "noon" | "midday" | "mediodia" => return Clock::Time(Time::constant(12, 0, 0, 0), at + 1),
        "midnight" | "medianoche" | "minuit" | "mitternacht" | "mezzanotte" => {
            return Clock::Time(Time::midnight(), at + 1);
        }
        _ => {}
    }
    if let Some((hour, half)) = eastern_half(tokens, at) {
        return eastern(tokens, hour, half);
    }
    let Some(hour) = first.whole(2) else { return Clock::None };
    let mut minute = 0;
    let mut second = None;
    let mut next = at + 1;
    let mut minutes_given = false;
    let glued = |at: usize| tokens.get(at).filter(|t| !t.spaced && t.kind == Kind::Number);
    if tokens.get(next).is_some_and(|t| t.is(":") && !t.spaced) {
        let Some(value) = glued(next + 1).filter(|t| t.text.len() == 2).and_then(|t| t.whole(2)) else {
            return Clock::None;
        };
        minute = value;
        minutes_given = true;
        next += 2;
        if tokens.get(next).is_some_and(|t| t.is(":") && !t.spaced)
            && let Some(seconds) = glued(next + 1)
        {
            second = decimal(seconds);
            next += 2;
        }
    } else if tokens.get(next).is_some_and(|t| t.is("h") && !t.spaced)
        && let Some(value) = glued(next + 1).filter(|t| t.text.len() == 2).and_then(|t| t.whole(2))
        && !tokens.get(next + 2).is_some_and(|t| !t.spaced && t.kind == Kind::Word)
    {
        minute = value;
        minutes_given = true;
        next += 2;
    }
    let half = half_of_day(tokens, next);
    if let Some((_, after)) = half {
        next = after;
    }
    let uhr = tokens.get(next).is_some_and(|t| t.is("uhr"));
    if uhr {
        next += 1;
    }
    if !minutes_given && half.is_none() && !uhr {
        return Clock::None;
    }
    build(hour, minute, second, half.map(|(half, _)| half), minutes_given, next)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Am,
    Pm,
}

/// `am`, `p.m.`, `a. m.`.
fn half_of_day(tokens: &[Token<'_>], at: usize) -> Option<(Half, usize)> {
    let word = tokens.get(at)?.word()?;
    let half = match word {
        "am" | "a" => Half::Am,
        "pm" | "p" => Half::Pm,
        _ => return None,
    };
    if word.len() == 2 {
        return Some((half, at + 1));
    }
    let dot = |at: usize| tokens.get(at).is_some_and(|t| t.is("."));
    if dot(at + 1) && tokens.get(at + 2).is_some_and(|t| t.is("m")) {
        return Some((half, if dot(at + 3) { at + 4 } else { at + 3 }));
    }
    None
}

/// `午後3時`, `上午 9:30`: where the time begins, and the half of the day.
fn eastern_half(tokens: &[Token<'_>], at: usize) -> Option<(usize, Option<Half>)> {
    let word = tokens.get(at)?;
    match word.text {
        "午前" | "上午" | "早上" | "凌晨" | "오전" => Some((at + 1, Some(Half::Am))),
        "午後" | "下午" | "晚上" | "오후" => Some((at + 1, Some(Half::Pm))),
        _ if tokens.get(at + 1).is_some_and(|t| is_hour_sign(t)) => Some((at, None)),
        _ => None,
    }
}

fn is_hour_sign(token: &Token<'_>) -> bool {
    token.kind == Kind::Word
        && ["時", "时", "点", "點", "시"].iter().any(|sign| token.text.starts_with(sign))
        && !token.text.starts_with("時間")
}

fn eastern(tokens: &[Token<'_>], at: usize, half: Option<Half>) -> Clock {
    let Some(hour) = tokens.get(at).and_then(|t| t.whole(2)) else { return Clock::None };
    let mut next = at + 1;
    let mut minute = 0;
    let sign = tokens.get(next);
    if sign.is_some_and(|t| is_hour_sign(t) || t.is(":")) {
        next += 1;
        let minutes = tokens.get(next).and_then(|t| t.whole(2));
        let marked = tokens.get(next + 1).is_some_and(|t| t.text.starts_with('分') || t.text.starts_with('분'));
        if let Some(value) = minutes.filter(|_| marked || sign.is_some_and(|t| t.is(":"))) {
            minute = value;
            next += if marked { 2 } else { 1 };
        }
    } else {
        return Clock::None;
    }
    build(hour, minute, None, half, true, next)
}

fn build(
    hour: u32,
    minute: u32,
    second: Option<super::number::Decimal>,
    half: Option<Half>,
    minutes_given: bool,
    next: usize,
) -> Clock {
    let hour = match half {
        Some(_) if hour > 12 && !minutes_given => return Clock::Impossible,
        Some(Half::Am) if hour == 12 => 0,
        Some(Half::Pm) if hour < 12 => hour + 12,
        Some(_) | None => hour,
    };
    let nanos = second.and_then(|s| s.nanos(1_000_000_000)).unwrap_or(0);
    // A leap second is the next minute's first; 24:00 is the day's end.
    let (Ok(hour), Ok(minute), Ok(nanos)) = (i8::try_from(hour), i8::try_from(minute), i64::try_from(nanos)) else {
        return Clock::Impossible;
    };
    if hour == 24 && minute == 0 && nanos == 0 {
        return Clock::Time(Time::MAX, next);
    }
    let clamped = nanos.min(59_999_999_999);
    let (Ok(seconds), Ok(subsec)) = (i8::try_from(clamped / 1_000_000_000), i32::try_from(clamped % 1_000_000_000))
    else {
        return Clock::Impossible;
    };
    if nanos > 61_000_000_000 {
        return Clock::Impossible;
    }
    Time::new(hour, minute, seconds, subsec).map_or(Clock::Impossible, |time| Clock::Time(time, next))
}

#[cfg(test)]
mod tests {
    use super::super::lex::lex;
    use super::*;
    use test_case::test_case;

    fn seen_from(text: &str, now: &str, local: &str) -> Option<String> {
        let zone = Zoneless::In(TimeZone::get(local).expect("a zone"));
        let moment = Moment { now: now.parse().expect("an instant"), zoneless: zone.clone(), local: zone };
        let lower = text.to_lowercase();
        whole(&lower, &lex(&lower), &moment).map(|at| at.to_string())
    }

    #[test_case("Wed, 21 Oct 2026 07:28:00 GMT" => "2026-10-21T07:28:00Z")]
    #[test_case("Fri, 31 Dec 1999 23:59:59 GMT" => "1999-12-31T23:59:59Z")]
    #[test_case("Friday, 31-Dec-99 23:59:59 GMT" => "1999-12-31T23:59:59Z")]
    #[test_case("Sunday, 06-Nov-44 08:49:37 GMT" => "2044-11-06T08:49:37Z"; "within fifty years")]
    #[test_case("Fri Dec 31 23:59:59 1999" => "1999-12-31T23:59:59Z")]
    #[test_case("Sun Nov  6 08:49:37 1994" => "1994-11-06T08:49:37Z")]
    #[test_case("02 Mar 2026 12:01:00 GMT" => "2026-03-02T12:01:00Z")]
    #[test_case("Fri, 02 Mar 2026 12:01:00 GMT" => "2026-03-02T12:01:00Z"; "wrong weekday")]
    #[test_case("Mon, 02 Mar 2026 21:01:00 +0900" => "2026-03-02T12:01:00Z")]
    #[test_case("Mon, 02 Mar 2026 12:01:00 UTC" => "2026-03-02T12:01:00Z")]
    #[test_case("2026-03-03T00:00:00Z" => "2026-03-03T00:00:00Z")]
    #[test_case("2026-03-02T12:05Z" => "2026-03-02T12:05:00Z")]
    #[test_case("2026-03-02T12:05:00+09:00" => "2026-03-02T03:05:00Z")]
    #[test_case("2026-03-02T12:05:00.5-0300" => "2026-03-02T15:05:00.5Z")]
    #[test_case("2022-01-14T09:38:49.9856571Z" => "2022-01-14T09:38:49.9856571Z")]
    #[test_case("2019-Sep-18 05:34:00+0000 UTC" => "2019-09-18T05:34:00Z")]
    #[test_case("2025-05-12 12:01:00" => "2025-05-12T12:01:00Z")]
    #[test_case("2026-03-02 12:00:00 +0000 UTC" => "2026-03-02T12:00:00Z")]
    #[test_case("Tue Feb 16 2021 09:02:42 GMT+0100 (Central European Standard Time)" => "2021-02-16T08:02:42Z")]
    #[test_case("2025-07-01 at 00:00 UTC" => "2025-07-01T00:00:00Z")]
    #[test_case("2026-08-25" => "2026-08-25T00:00:00Z")]
    #[test_case("2026-03-02T12:05+0900" => "2026-03-02T03:05:00Z")]
    #[test_case("2026-03-02+02:00" => "2026-03-01T22:00:00Z")]
    #[test_case("Wednesday, 01-Jan-76 08:49:37 GMT" => "2076-01-01T08:49:37Z"; "fifty years ahead")]
    #[test_case("02-Mar-2026 12:01:00 GMT" => "2026-03-02T12:01:00Z")]
    #[test_case("2 -Mar-2026 12:01:00 GMT" => "2026-03-02T12:01:00Z")]
    fn a_full_date_needs_no_guess(text: &str) -> String {
        seen_from(text, "2026-03-02T12:00:00Z", "UTC").unwrap_or_default()
    }

    #[test_case("5pm (Europe/Warsaw)", "2025-08-19T14:08:25Z" => "2025-08-19T15:00:00Z")]
    #[test_case("1pm (Etc/GMT+5)", "2025-08-19T14:08:25Z" => "2025-08-19T18:00:00Z")]
    #[test_case("10:57 PM GMT-3", "2026-03-13T20:00:00Z" => "2026-03-14T01:57:00Z")]
    #[test_case("2am", "2025-09-04T17:42:27Z" => "2025-09-05T02:00:00Z"; "tomorrow")]
    #[test_case("12am (Asia/Singapore)", "2026-06-25T12:00:00Z" => "2026-06-25T16:00:00Z")]
    #[test_case("12pm", "2026-06-25T11:00:00Z" => "2026-06-25T12:00:00Z")]
    #[test_case("12:16 PM", "2025-11-12T11:47:04Z" => "2025-11-12T12:16:00Z")]
    #[test_case("2:30pm (Pacific/Auckland)", "2026-07-16T00:30:00Z" => "2026-07-16T02:30:00Z")]
    #[test_case("2:30am (America/New_York)", "2026-03-08T05:00:00Z" => "2026-03-08T07:30:00Z"; "skipped by daylight saving")]
    #[test_case("1:30am (America/New_York)", "2026-11-01T04:00:00Z" => "2026-11-01T05:30:00Z"; "the first of two")]
    #[test_case("1:30am (America/New_York)", "2026-11-01T05:45:00Z" => "2026-11-01T06:30:00Z"; "the second of two")]
    #[test_case("5pm", "2026-03-02T17:00:40Z" => "2026-03-02T17:00:00Z"; "the running minute is reached")]
    #[test_case("Oct 6, 6pm", "2025-10-01T09:00:00Z" => "2025-10-06T18:00:00Z")]
    #[test_case("Jan 2, 9am", "2025-12-30T10:00:00Z" => "2026-01-02T09:00:00Z"; "next year")]
    #[test_case("Jan 2, 9am", "2026-06-30T10:00:00Z" => "2027-01-02T09:00:00Z"; "half a year gone")]
    #[test_case("Jan 2, 9am", "2026-01-02T11:00:00Z" => "2026-01-02T09:00:00Z"; "just gone")]
    #[test_case("Dec 31, 11pm", "2026-01-01T00:30:00Z" => "2025-12-31T23:00:00Z"; "just gone, last year")]
    #[test_case("Oct 24", "2025-10-20T10:00:00Z" => "2025-10-24T00:00:00Z")]
    #[test_case("Jun 18th, 2026 8:41 AM", "2026-06-01T00:00:00Z" => "2026-06-18T08:41:00Z")]
    #[test_case("Jul 25, 2026, 11:09 AM", "2026-06-01T00:00:00Z" => "2026-07-25T11:09:00Z")]
    #[test_case("10 de jul. de 2026, 11:52", "2026-06-13T12:07:00Z" => "2026-07-10T11:52:00Z")]
    #[test_case("tomorrow at 9:00 AM", "2026-06-13T12:07:00Z" => "2026-06-14T09:00:00Z")]
    #[test_case("Monday 9am", "2026-06-13T12:07:00Z" => "2026-06-15T09:00:00Z")]
    #[test_case("Saturday at 9am", "2026-06-13T12:07:00Z" => "2026-06-20T09:00:00Z"; "a week on")]
    #[test_case("midnight Pacific Time", "2026-06-13T12:07:00Z" => "2026-06-14T07:00:00Z")]
    #[test_case("00:00 UTC", "2026-06-13T12:07:00Z" => "2026-06-14T00:00:00Z")]
    #[test_case("3 p.m. EST", "2026-01-13T12:07:00Z" => "2026-01-13T20:00:00Z")]
    #[test_case("today at 5pm", "2026-06-13T12:07:00Z" => "2026-06-13T17:00:00Z")]
    #[test_case("tonight at 11pm", "2026-06-13T12:07:00Z" => "2026-06-13T23:00:00Z")]
    #[test_case("Thursday 9am", "2026-06-13T12:07:00Z" => "2026-06-18T09:00:00Z")]
    #[test_case("noon", "2026-06-13T12:07:00Z" => "2026-06-14T12:00:00Z")]
    #[test_case("tomorrow noon (Europe/Warsaw)", "2026-06-13T12:07:00Z" => "2026-06-14T10:00:00Z")]
    #[test_case("3 p.m", "2026-01-13T12:07:00Z" => "2026-01-13T15:00:00Z"; "without the last point")]
    #[test_case("3 a. m. UTC", "2026-01-13T12:07:00Z" => "2026-01-14T03:00:00Z")]
    #[test_case("17h30", "2026-01-13T12:07:00Z" => "2026-01-13T17:30:00Z")]
    #[test_case("17h30 CET", "2026-01-13T12:07:00Z" => "2026-01-13T16:30:00Z")]
    #[test_case("9: 30 AM", "2026-01-13T12:07:00Z" => "")]
    #[test_case("3 p.x", "2026-01-13T12:07:00Z" => "")]
    #[test_case("17h5", "2026-01-13T12:07:00Z" => "")]
    #[test_case("17h 30", "2026-01-13T12:07:00Z" => "")]
    #[test_case("17 h30", "2026-01-13T12:07:00Z" => "")]
    #[test_case("17h30m", "2026-01-13T12:07:00Z" => ""; "a span is no time of day")]
    #[test_case("17h30 m", "2026-01-13T12:07:00Z" => "")]
    #[test_case("24:00", "2026-01-13T12:07:00Z" => "2026-01-13T23:59:59.999999999Z"; "the end of the day")]
    #[test_case("24:01", "2026-01-13T12:07:00Z" => "")]
    #[test_case("24:00:05", "2026-01-13T12:07:00Z" => "")]
    #[test_case("23:00", "2026-01-13T12:07:00Z" => "2026-01-13T23:00:00Z")]
    #[test_case("5pm Europe/Warsaw or later", "2026-01-13T12:07:00Z" => "")]
    #[test_case("上午 9:30", "2026-01-13T12:07:00Z" => "2026-01-14T09:30:00Z")]
    #[test_case("下午3点", "2026-01-13T12:07:00Z" => "2026-01-13T15:00:00Z")]
    #[test_case("下午3:05", "2026-01-13T12:07:00Z" => "2026-01-13T15:05:00Z")]
    #[test_case("午後3時30分", "2026-01-13T12:07:00Z" => "2026-01-13T15:30:00Z")]
    #[test_case("오후 3시 30분", "2026-01-13T12:07:00Z" => "2026-01-13T15:30:00Z")]
    #[test_case("15時30", "2026-01-13T12:07:00Z" => ""; "minutes without their sign")]
    #[test_case("午後3時", "2026-01-13T12:07:00Z" => "2026-01-13T15:00:00Z")]
    #[test_case("15 Uhr", "2026-01-13T12:07:00Z" => "2026-01-13T15:00:00Z")]
    #[test_case("tomorrow", "2026-06-13T12:07:00Z" => ""; "no hour")]
    #[test_case("5", "2026-06-13T12:07:00Z" => "")]
    #[test_case("25:00", "2026-06-13T12:07:00Z" => "")]
    #[test_case("13pm", "2026-06-13T12:07:00Z" => "")]
    #[test_case("3pm (Mars/Phobos)", "2026-06-13T12:07:00Z" => "")]
    #[test_case("soon", "2026-06-13T12:07:00Z" => "")]
    #[test_case("-3", "2026-06-13T12:07:00Z" => "")]
    #[test_case("2026", "2026-06-13T12:07:00Z" => "")]
    #[test_case("2026-02-30T00:00:00Z", "2026-06-13T12:07:00Z" => "")]
    fn what_is_missing_is_filled_from_now(text: &str, now: &str) -> String {
        seen_from(text, now, "UTC").unwrap_or_default()
    }

    #[test]
    fn extreme_moments_do_not_panic() {
        for now in [Timestamp::MIN, Timestamp::MAX, Timestamp::UNIX_EPOCH] {
            for zone in ["UTC", "Pacific/Apia", "America/New_York"] {
                let zone = Zoneless::In(TimeZone::get(zone).expect("a zone"));
                let moment = Moment { now, zoneless: zone.clone(), local: zone };
                for text in [
                    "feb 29, 9am",
                    "3am",
                    "monday 4pm",
                    "tomorrow at 5pm",
                    "31-dec-99 10:00 gmt",
                    "9999-12-31t23:59:59z",
                ] {
                    let _ = whole(text, &lex(text), &moment);
                }
            }
        }
    }
}
