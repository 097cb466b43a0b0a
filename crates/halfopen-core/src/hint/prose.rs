//! Reads sentences: `Please try again in 2m30s`, `resets 3pm (Asia/Tokyo)`, `blocked until 18:30 UTC`.
//!
//! A sentence says something only through a verb: retry, try again, wait, available, reset, regain, resume, until. A
//! number with a unit on its own is a limit, a window, a port or a line number, and is never read. Between the verb
//! and its value stand a few harmless words and a connector; anything else makes it another sentence.
//!
//! A client that says "Retrying in 18 seconds" tells of its own backoff. That is no hint, unless the figure is so
//! large that no client would choose it: then it is what the server said, copied.
//!
//! Of several sentences the last counts, because earlier ones are stale; in one line, "try again" beats "resets", and
//! of two resets the later counts.

use super::follow::{Sentences, Shape};
use super::headers::Found;
use super::lex::{Kind, Token, lex};
use super::number::{Stated, Unit};
use super::words::{Lead, Rank, closes, foreign_verb, is_barrier, is_deed, is_shut, lead};
use super::{Reading, duration, east, text};
use std::time::Duration;

/// The shortest wait that no client chooses by itself.
pub(super) const COPIED_MIN: Duration = Duration::from_secs(600);

/// A value that a sentence states.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) found: Found,
    pub(super) rank: Rank,
    /// The line of its verb.
    pub(super) line: usize,
}

/// Returns what the texts say, the last of them that says anything.
pub(super) fn read(texts: &[&str], reading: &Reading<'_>) -> Option<Found> {
    texts.iter().rev().find_map(|text| in_text(text, reading))
}

/// Returns what one text says.
pub(super) fn in_text(raw: &str, reading: &Reading<'_>) -> Option<Found> {
    let clean = text::clean(raw);
    if !may_speak(&clean) {
        return None;
    }
    let moment = reading.spoken(&clean);
    let per_day = reading.per_day || clean.contains("per_day_") || clean.contains("_per_day");
    [clean.clone(), text::joined(&clean)].iter().find_map(|text| {
        let tokens = lex(text);
        let mut hits = Sentences { text, tokens: &tokens, reading, moment: &moment }.hits();
        hits.extend(east::hits(text, &tokens, reading, &moment));
        // A quota of a day makes any delay of seconds a lie.
        if per_day {
            hits.retain(|hit| hit.rank == Rank::Reset);
        }
        last(&hits)
    })
}

/// Returns whether a text could hold a value at all.
fn may_speak(clean: &str) -> bool {
    clean.bytes().any(|b| b.is_ascii_digit())
        || ["midnight", "noon", "hour", "one ", "two ", "three ", "five ", "ten "]
            .iter()
            .any(|word| clean.contains(word))
}

/// Returns the hit that counts.
fn last(hits: &[Hit]) -> Option<Found> {
    let line = hits.iter().map(|hit| hit.line).max()?;
    let on_line = || hits.iter().filter(|hit| hit.line == line);
    let retries = || on_line().filter(|hit| hit.rank == Rank::Retry).map(|hit| hit.found);
    // The same wait rounded and unrounded: the longer.
    let unrounded = |last: Found| {
        retries().filter(|found| found.wait.abs_diff(last.wait) < Duration::from_secs(1)).fold(last, Found::longer)
    };
    retries().next_back().map(unrounded).or_else(|| on_line().map(|hit| hit.found).reduce(Found::longer))
}

impl Sentences<'_, '_> {
    fn hits(&self) -> Vec<Hit> {
        let mut hits = Vec::new();
        let mut line = 0;
        for (at, token) in self.tokens.iter().enumerate() {
            let hit = match token.kind {
                Kind::Break => {
                    line += 1;
                    None
                }
                Kind::Word => self.at_word(at, token.text),
                Kind::Number => self.at_number(at),
                Kind::Sign => self.at_pipe(at),
            };
            hits.extend(hit.map(|(found, rank)| Hit { found, rank, line }));
        }
        hits
    }

    fn at_word(&self, at: usize, word: &str) -> Option<(Found, Rank)> {
        // `?wait=30&retry=5`: part of an address.
        if at > 0 && matches!(self.tokens[at - 1].text, "?" | "&" | "/") && !self.tokens[at].spaced {
            return None;
        }
        match word {
            "retry" => self.retry(at),
            "try" => {
                let own = matches!(self.before(at), Some("ll" | "will" | "we" | "i"));
                if own || self.word(at + 1) == Some("to") {
                    return None;
                }
                let (found, end) = self.follow(at + 1, Shape::RETRY)?;
                (!self.own_attempt_after(end) || found.wait >= COPIED_MIN).then_some((found, Rank::Retry))
            }
            "again"
                if !self
                    .words_before(at, 3)
                    .any(|w| matches!(w, "once" | "yet" | "over" | "time" | "try" | "trying")) =>
            {
                let shape = Shape { between_max: 1, bare_number: false, ..Shape::RETRY };
                Some((self.follow(at + 1, shape)?.0, Rank::Retry))
            }
            "retrying" | "sleeping" | "backoff" | "backing" | "pausing" | "waiting" => self.own_backoff(at, word),
            "wait" => self.wait(at),
            "available" | "accessible" | "usable" => {
                if self.before(at) == Some("not") {
                    return None;
                }
                Some((self.follow(at + 1, Shape::AVAILABLE)?.0, Rank::Reset))
            }
            "off" | "pause" if self.words_before(at, 3).any(|w| matches!(w, "please" | "must" | "should")) => {
                let from = if self.word(at + 1) == Some("for") { at + 2 } else { at + 1 };
                Some((self.value(from, Lead::For, false)?.0, Rank::Retry))
            }
            "ready" if self.before(at) == Some("be") => Some((self.follow(at + 1, Shape::AVAILABLE)?.0, Rank::Reset)),
            "reset" | "resets" | "resetting" | "renews" | "renew" | "renewal" | "replenishes" | "refills"
            | "refill" | "refreshes" => self.reset(at),
            "regain" | "resume" | "resumes" | "recover" | "recovers" | "reopen" | "reopens" | "unlock" | "unlocks"
            | "unblock" | "unblocks" | "refresh" | "return" | "returns" | "restart" | "restarts" => self.resume(at),
            "restored" | "lifted" | "renewed" | "refreshed" | "replenished" | "unlocked" | "unblocked"
            | "reinstated" | "reactivated" | "reenabled" | "enabled" | "removed" | "cleared" | "resumed"
            | "refilled" => {
                let promised = self.words_before(at, 3).any(|w| matches!(w, "be" | "are" | "is" | "get"));
                if promised { self.resume(at) } else { None }
            }
            "back" if matches!(self.before(at), Some("be" | "come" | "check" | "try" | "online" | "expected")) => {
                Some((self.follow(at + 1, Shape { between_max: 3, ..Shape::AVAILABLE })?.0, Rank::Retry))
            }
            "ends" | "end" | "expires" | "expire" | "over" | "complete" => {
                let barred = self.words_before(at, 6).any(is_barrier);
                let shape = Shape { between_max: 1, ..Shape::AVAILABLE };
                if barred { Some((self.follow(at + 1, shape)?.0, Rank::Reset)) } else { None }
            }
            "until" | "till" if self.words_before(at, 8).any(is_shut) => {
                Some((self.value(at + 1, Lead::Until, false)?.0, Rank::Reset))
            }
            "for" if self.was_shut_out(at) => Some((self.value(at + 1, Lead::For, false)?.0, Rank::Reset)),
            "next" => self.next(at),
            "can" | "may" | "could" => self.permission(at),
            "cooldown" | "cool" | "cooling" | "penalty" => self.cooldown(at),
            "in" | "after" if self.starts_sentence(at) => self.leading(at),
            "seconds" | "minutes" | "hours" | "estimated" => self.named(at),
            _ => self.other_language(at, word),
        }
    }

    /// `retry after 30s`, `retryAfterMs: 500`, `retry_delay { seconds: 39 }`.
    fn retry(&self, at: usize) -> Option<(Found, Rank)> {
        let before = self.word(self.joint_before(at));
        if matches!(before, Some("max" | "maximum" | "exceeded" | "no" | "last" | "first" | "without")) {
            return None;
        }
        if matches!(self.word(at + 1), Some("delay" | "wait" | "interval" | "timeout"))
            || self.is(at + 1, "_") && matches!(self.word(at + 2), Some("delay" | "wait"))
        {
            let shape = Shape { leads: &[Lead::Colon], between_max: 3, ..Shape::RETRY };
            return Some((self.follow(at + 1, shape)?.0, Rank::Retry));
        }
        let shape = match before {
            Some("earliest") => Shape { leads: &[Lead::Colon, Lead::At, Lead::In], bare_number: false, ..Shape::RETRY },
            Some(_) | None => Shape::RETRY,
        };
        let (found, end) = self.follow(at + 1, shape)?;
        let own = matches!(before, Some("will" | "auto" | "automatic" | "automatically" | "ll" | "next" | "we"))
            || self.words_before(at, 3).any(|w| matches!(w, "will" | "going"))
            || self.own_attempt_after(end);
        (!own || found.wait >= COPIED_MIN).then_some((found, Rank::Retry))
    }

    /// `Retrying in 2892 seconds… (attempt 1/10)`: a hint only if the figure was copied.
    fn own_backoff(&self, at: usize, word: &str) -> Option<(Found, Rank)> {
        if self.words_before(at, 2).any(|w| matches!(w, "timed" | "timeout" | "after")) {
            return None;
        }
        let limit_near = || {
            self.tokens[at..].iter().take(16).take_while(|t| t.kind != Kind::Break).filter_map(Token::word).any(|w| {
                w.starts_with("limit") || w.starts_with("reset") || matches!(w, "rate" | "quota" | "retry" | "retrying")
            })
        };
        if word == "waiting" && !limit_near() {
            return None;
        }
        let line = self.tokens[at + 1..].iter().take(12).take_while(|t| t.kind != Kind::Break).count();
        let value = (at + 1..=at + line).find_map(|i| {
            let token = &self.tokens[i];
            let led = self.tokens[i - 1].word().and_then(lead).is_some()
                || i == at + 1
                || self.is(i - 1, ":")
                || self.word(i - 1) == Some("to")
                || self.word(i - 1) == Some("off");
            (token.kind == Kind::Number && led).then(|| duration::spoken(self.tokens, i)).flatten()
        });
        let (wait, _) = value?;
        (wait >= COPIED_MIN).then_some((Found { wait, absolute: false }, Rank::Retry))
    }

    fn wait(&self, at: usize) -> Option<(Found, Rank)> {
        if self.words_before(at, 1).any(|w| matches!(w, "lock" | "timed" | "timeout" | "max" | "o" | "will" | "ll")) {
            return None;
        }
        // `FLOOD_WAIT_42`.
        if self.before(at) == Some("flood") && self.is(at + 1, "_") {
            let number = self.tokens.get(at + 2).filter(|t| t.kind == Kind::Number).and_then(duration::decimal)?;
            let Stated::After(wait) = number.stated(Unit::Seconds)? else { return None };
            return Some((Found { wait, absolute: false }, Rank::Retry));
        }
        let mut next = at + 1;
        let mut led = Lead::Bare;
        for _ in 0..6 {
            match self.tokens.get(next).map(|t| t.text) {
                Some("for") => led = Lead::For,
                Some("until" | "till") => led = Lead::Until,
                Some(":" | "=") => led = Lead::Colon,
                Some(
                    "time" | "period" | "is" | "_" | "up" | "to" | "a" | "an" | "minimum" | "about" | "at" | "least"
                    | "another" | "additional",
                ) => {}
                Some("\n") => {}
                _ => break,
            }
            // `wait an hour` begins with its article.
            if matches!(self.word(next), Some("a" | "an")) && duration::spoken(self.tokens, next).is_some() {
                break;
            }
            next += 1;
        }
        let (found, end) = match led {
            Lead::Bare => self.value(next, Lead::For, false)?,
            Lead::Colon => self.value(next, Lead::Colon, true)?,
            led => self.value(next, led, false)?,
        };
        (!self.own_attempt_after(end) || found.wait >= COPIED_MIN).then_some((found, Rank::Retry))
    }

    fn reset(&self, at: usize) -> Option<(Found, Rank)> {
        let before = self.before(at);
        let other_reset = matches!(
            before,
            Some(
                "connection"
                    | "stream"
                    | "socket"
                    | "password"
                    | "tcp"
                    | "hard"
                    | "soft"
                    | "factory"
                    | "git"
                    | "rst"
                    | "was"
                    | "been"
                    | "device"
                    | "last"
                    | "previous"
            )
        );
        // `x-ratelimit-reset: …` is a header, and its counter decides.
        let in_header_name = at >= 2 && self.is(at - 1, "-") && !self.tokens[at].spaced;
        let by_peer = matches!(self.word(at + 1), Some("by" | "reason" | "before" | "password"));
        if other_reset || in_header_name || by_peer || self.before(at.saturating_sub(1)) == Some("disconnect") {
            return None;
        }
        Some((self.follow(at + 1, Shape::RESET)?.0, Rank::Reset))
    }

    fn resume(&self, at: usize) -> Option<(Found, Rank)> {
        let shape = Shape { between_max: 5, ..Shape::AVAILABLE };
        Some((self.follow(at + 1, shape)?.0, Rank::Reset))
    }

    /// `blocked for`, `locked out for`: not `rate limited, sleeping for`.
    fn was_shut_out(&self, at: usize) -> bool {
        let shut = |word: Option<&str>| {
            matches!(
                word,
                Some("blocked" | "banned" | "locked" | "suspended" | "throttled" | "paused" | "restricted" | "limited")
            )
        };
        let behind = at.checked_sub(1).and_then(|i| self.word(i));
        shut(behind) || behind == Some("out") && shut(at.checked_sub(2).and_then(|i| self.word(i)))
    }

    /// `next request allowed in 12s`, `next window: 2026-…`.
    fn next(&self, at: usize) -> Option<(Found, Rank)> {
        let noun = self.skip_joints(at + 1);
        let named = matches!(
            self.word(noun),
            Some(
                "request"
                    | "call"
                    | "attempt"
                    | "window"
                    | "reset"
                    | "slot"
                    | "access"
                    | "available"
                    | "allowed"
                    | "message"
                    | "token"
                    | "renewal"
            )
        );
        if !named {
            return None;
        }
        let shape = Shape {
            leads: &[Lead::In, Lead::After, Lead::At, Lead::On, Lead::Colon],
            between_max: 5,
            ..Shape::AVAILABLE
        };
        Some((self.follow(noun + 1, shape)?.0, Rank::Reset))
    }

    /// `you can submit the request after 49 seconds`.
    fn permission(&self, at: usize) -> Option<(Found, Rank)> {
        let mut deed = None;
        for next in at + 1..(at + 5).min(self.tokens.len()) {
            let word = self.word(next)?;
            if matches!(word, "only" | "not" | "also") {
                return None;
            }
            if is_deed(word) {
                deed = Some(next);
                break;
            }
        }
        let shape =
            Shape { leads: &[Lead::In, Lead::After, Lead::At], between_max: 6, bare_number: false, ..Shape::RETRY };
        let singular = self.words_after(deed?, 8).any(|w| matches!(w, "one" | "single" | "most"));
        if singular {
            return None;
        }
        Some((self.follow(deed? + 1, shape)?.0, Rank::Retry))
    }

    /// `cooldown: 30s`, `cool down for 5 minutes`.
    fn cooldown(&self, at: usize) -> Option<(Found, Rank)> {
        let mut next = at + 1;
        for _ in 0..5 {
            match self.tokens.get(next).map(|t| t.text) {
                Some(
                    ":" | "=" | "of" | "for" | "is" | "down" | "period" | "time" | "remaining" | "_" | "\"" | "'"
                    | "active" | "ends" | "in",
                ) => next += 1,
                _ => break,
            }
        }
        if next == at + 1 {
            return None;
        }
        Some((self.value(next, Lead::For, false)?.0, Rank::Retry))
    }

    /// `In 30 seconds you can try again`.
    fn leading(&self, at: usize) -> Option<(Found, Rank)> {
        let (wait, end) = duration::spoken(self.tokens, at + 1)?;
        let mut next = end;
        while self.tokens.get(next).is_some_and(|t| matches!(t.text, "," | "please" | "you" | "can" | "may")) {
            next += 1;
        }
        let deed =
            self.word(next).is_some_and(is_deed) && next > end || matches!(self.word(next), Some("retry" | "try"));
        deed.then_some((Found { wait, absolute: false }, Rank::Retry))
    }

    /// `seconds until reset: 30`, `estimated_time: 20.0`.
    fn named(&self, at: usize) -> Option<(Found, Rank)> {
        let unit = match self.word(at)? {
            "minutes" => Unit::Minutes,
            "hours" => Unit::Hours,
            _ => Unit::Seconds,
        };
        let words: Vec<(usize, &str)> =
            (at + 1..self.tokens.len().min(at + 10)).filter_map(|i| Some((i, self.word(i)?))).take(3).collect();
        let last = match words.as_slice() {
            [(end, "time"), ..] if self.word(at) == Some("estimated") => *end,
            [(_, "until" | "till" | "to"), (end, "reset" | "retry"), ..] => *end,
            _ => return None,
        };
        let mut next = last + 1;
        while self.tokens.get(next).is_some_and(|t| matches!(t.text, "\"" | "'" | ":" | "=" | "\\")) {
            next += 1;
        }
        let signed = self.tokens[last + 1..next].iter().any(|t| t.is(":") || t.is("="));
        let number = self.tokens.get(next).filter(|_| signed).and_then(duration::decimal)?;
        let Stated::After(wait) = number.stated(unit)? else { return None };
        Some((Found { wait, absolute: false }, Rank::Reset))
    }

    /// `30 seconds until reset`, `12s remaining before the next request`.
    fn at_number(&self, at: usize) -> Option<(Found, Rank)> {
        let unit_follows = self.tokens.get(at + 1).and_then(Token::word).and_then(duration::unit).is_some();
        if !unit_follows
            || at > 0 && self.tokens[at - 1].kind == Kind::Word && duration::unit(self.tokens[at - 1].text).is_some()
        {
            return None;
        }
        let (wait, end) = duration::spoken(self.tokens, at)?;
        let mut words = self.words_after(end.checked_sub(1)?, 5);
        let mut first = words.next()?;
        if matches!(first, "remaining" | "left" | "more") {
            first = words.next()?;
        }
        if !matches!(first, "until" | "till" | "before" | "to") {
            return None;
        }
        let rest: Vec<&str> = words.collect();
        let about_reset = rest.iter().any(|w| w.starts_with("reset")) && !rest.contains(&"connection");
        let about_retry = matches!(
            rest.first(),
            Some(&("retrying" | "retry" | "trying" | "next" | "making" | "sending" | "another"))
        );
        let own = self.words_before(at, 4).any(|w| {
            matches!(
                w,
                "sleeping"
                    | "waiting"
                    | "backing"
                    | "pausing"
                    | "delaying"
                    | "backoff"
                    | "sleep"
                    | "slept"
                    | "waited"
                    | "elapsed"
            )
        });
        if own && wait < COPIED_MIN {
            return None;
        }
        let found = Found { wait, absolute: false };
        (about_reset || about_retry).then_some((found, if about_retry { Rank::Retry } else { Rank::Reset }))
    }

    /// `usage limit reached|1760004000`.
    fn at_pipe(&self, at: usize) -> Option<(Found, Rank)> {
        if !self.is(at, "|")
            || !self.words_before(at, 4).any(|w| matches!(w, "limit" | "reached" | "exceeded" | "resets" | "reset"))
        {
            return None;
        }
        let number = self.tokens.get(at + 1).and_then(duration::decimal)?;
        match number.stated(Unit::Seconds)? {
            stated @ Stated::At(_) => Some((self.reading.found(stated), Rank::Reset)),
            Stated::After(_) => None,
        }
    }

    fn other_language(&self, at: usize, word: &str) -> Option<(Found, Rank)> {
        if let Some(rank) = closes(word) {
            // Looks back for the value that ends here.
            let found = (at.saturating_sub(14)..at).find_map(|from| {
                let lead = match self.word(from)? {
                    "in" | "over" | "om" => Lead::In,
                    "um" | "am" => Lead::At,
                    "nach" => Lead::After,
                    _ => return None,
                };
                let (found, end) = self.value(from + 1, lead, false)?;
                (end <= at && at - end <= 2).then_some(found)
            });
            // `30 saniye sonra tekrar`.
            let found = found.or_else(|| {
                let from = at.checked_sub(3)?;
                let (wait, end) = duration::spoken(self.tokens, from)?;
                (end + 1 == at && self.word(end) == Some("sonra")).then_some(Found { wait, absolute: false })
            });
            if let Some(found) = found {
                return Some((found, rank));
            }
        }
        let rank = foreign_verb(word)?;
        Some((self.follow(at + 1, Shape::FOREIGN)?.0, rank))
    }
}
