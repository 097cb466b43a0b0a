//! Goes from a verb to its value: over harmless words and a connector, to a span, an instant or a number.
//!
//! What a verb allows between itself and its value, and which kinds of value, is its [`Shape`]. Everything here looks
//! a bounded number of tokens ahead or back, so that no text is read in more than linear time.

use super::date::weekday;
use super::headers::Found;
use super::lex::{Kind, Token};
use super::number::{Decimal, Stated, Unit};
use super::when::{self, Moment};
use super::words::{Lead, breaks_off, foreign_lead, lead, softens};
use super::{Reading, duration};

/// How a verb is followed.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// Connectors that may follow.
    pub(super) leads: &'static [Lead],
    /// How many words may stand before the connector.
    pub(super) between_max: usize,
    /// Whether a number without a unit is seconds.
    pub(super) bare_number: bool,
    /// Whether connectors of other languages are meant.
    pub(super) foreign: bool,
}

const SPAN_OR_INSTANT: &[Lead] = &[Lead::In, Lead::After, Lead::At, Lead::On, Lead::Until];

impl Shape {
    pub(super) const RETRY: Self = Self { leads: SPAN_OR_INSTANT, between_max: 8, bare_number: true, foreign: false };
    pub(super) const RESET: Self = Self {
        leads: &[Lead::In, Lead::After, Lead::At, Lead::On, Lead::Within, Lead::Colon, Lead::Bare],
        between_max: 6,
        bare_number: true,
        foreign: false,
    };
    pub(super) const AVAILABLE: Self = Self {
        leads: &[Lead::In, Lead::After, Lead::At, Lead::On],
        between_max: 4,
        bare_number: false,
        foreign: false,
    };
    pub(super) const FOREIGN: Self = Self {
        leads: &[Lead::After, Lead::At, Lead::Until, Lead::Bare],
        between_max: 8,
        bare_number: false,
        foreign: true,
    };
}

/// The grammar over one text.
pub(super) struct Sentences<'t, 'r> {
    pub(super) text: &'t str,
    pub(super) tokens: &'t [Token<'t>],
    pub(super) reading: &'r Reading<'r>,
    pub(super) moment: &'r Moment,
}

impl Sentences<'_, '_> {
    /// Goes on from a verb over harmless words and a connector to its value.
    pub(super) fn follow(&self, from: usize, shape: Shape) -> Option<(Found, usize)> {
        let mut between = 0;
        let mut next = from;
        while let Some(token) = self.tokens.get(next) {
            match token.kind {
                Kind::Number => {
                    let span = if shape.foreign { self.value(next, Lead::For, false) } else { None };
                    let instant =
                        || shape.leads.contains(&Lead::Bare).then(|| self.value(next, Lead::Bare, false)).flatten();
                    return span.or_else(instant);
                }
                Kind::Break => {
                    if !self.was_wrapped(next) {
                        return None;
                    }
                }
                Kind::Sign => match token.text {
                    ":" | "=" | "{" if shape.leads.contains(&Lead::Colon) => {
                        if let Some(found) = self.value(next + 1, Lead::Colon, shape.bare_number) {
                            return Some(found);
                        }
                    }
                    "_" | "-" | "'" | "\"" | "`" | "*" | "(" | ")" | "·" | "–" | "~" | ":" | "\\" => {}
                    _ => return None,
                },
                Kind::Word => {
                    let lead = if shape.foreign { foreign_lead(token.text) } else { lead(token.text) };
                    if let Some(lead) = lead.filter(|lead| shape.leads.contains(lead))
                        && let Some(found) = self.value(next + 1, lead, shape.bare_number)
                    {
                        return Some(found);
                    }
                    // `do not retry before 5pm`, `retry not before 5pm`.
                    if token.is("before")
                        && self.words_before(next, 4).any(|w| matches!(w, "not" | "don" | "t" | "never"))
                    {
                        return self.value(next + 1, Lead::Until, false);
                    }
                    // `every day at 00:00`, `every Monday at 9am`.
                    if matches!(token.text, "every" | "each")
                        && shape.leads.contains(&Lead::Bare)
                        && self
                            .word(next + 1)
                            .is_some_and(|w| matches!(w, "day" | "night" | "morning") || weekday(w).is_some())
                    {
                        next += if self.word(next + 1).is_some_and(|w| weekday(w).is_some()) { 1 } else { 2 };
                        continue;
                    }
                    if shape.leads.contains(&Lead::Bare)
                        && let Some(found) = self.value(next, Lead::Bare, false)
                    {
                        return Some(found);
                    }
                    between += 1;
                    if breaks_off(token.text) || between > shape.between_max + usize::from(lead.is_some()) {
                        return None;
                    }
                }
            }
            next += 1;
        }
        None
    }

    /// Reads the value at `at`, as `lead` allows it.
    pub(super) fn value(&self, at: usize, lead: Lead, bare_number: bool) -> Option<(Found, usize)> {
        let mut next = at;
        let mut colon = lead == Lead::Colon;
        let mut unit = None;
        for _ in 0..8 {
            let token = self.tokens.get(next)?;
            let follows_colon = || {
                self.tokens[next + 1..]
                    .iter()
                    .take(4)
                    .find(|t| !matches!(t.text, "\"" | "'" | "`" | ")" | "\\"))
                    .is_some_and(|t| t.is(":") || t.is("="))
            };
            match token.text {
                ":" | "=" => colon = true,
                "~" | "'" | "\"" | "`" | "(" | ")" | "[" | "*" | "\\" | "_" | "{" | ">" | "<" | "\n" | "≥" => {}
                word if lead != Lead::Bare && softens(word) && duration::spoken(self.tokens, next).is_none() => {}
                // `retry_after_seconds: 30`, `resets_in_ms=500`.
                word if unit.is_none() && duration::unit(word).is_some() && follows_colon() => {
                    unit = duration::unit(word)
                }
                _ => break,
            }
            next += 1;
        }
        let token = self.tokens.get(next)?;
        // `test_retry_after_30`, `-5`: glued to something that is no key.
        if next > 0
            && token.kind == Kind::Number
            && !token.spaced
            && matches!(self.tokens[next - 1].text, "_" | "-" | "#" | "$" | "." | "/")
        {
            return None;
        }
        if let Some(unit) = unit {
            let number = duration::decimal(token).filter(|_| colon)?;
            if number.at_least(1_000_000_000) && unit >= 1_000_000_000 {
                return Some((self.reading.found(number.stated(Unit::Seconds)?), next + 1));
            }
            let wait = super::number::span(number.nanos(unit)?.checked_add(self.nanos_after(next + 1))?)?;
            return Some((Found { wait, absolute: false }, next + 1));
        }
        let span_fits = matches!(lead, Lead::In | Lead::After | Lead::Within | Lead::For | Lead::Colon);
        let instant_fits = matches!(lead, Lead::After | Lead::At | Lead::On | Lead::Until | Lead::Colon | Lead::Bare);
        // `after 14:30` is a time of day, `after 00:05:00` is not.
        let is_clock = self.is(next + 1, ":");
        let span_first = !is_clock || !instant_fits || matches!(token.text, "0" | "00");
        if span_fits
            && span_first
            && let Some((wait, end)) = duration::spoken(self.tokens, next)
        {
            return Some((Found { wait, absolute: false }, end));
        }
        if instant_fits {
            if let Some(found) = self.epoch(next) {
                return Some((found, next + 1));
            }
            if let Some((instant, end)) = when::read(self.text, self.tokens, next, self.moment)
                && (lead != Lead::Bare || end > next)
            {
                return Some((self.reading.found(Stated::At(instant)), end));
            }
        }
        if bare_number && span_fits && lead != Lead::Within {
            return self.bare_number(next).map(|found| (found, next + 1));
        }
        None
    }

    /// `seconds: 24 nanos: 500000000`, as a protobuf message is printed.
    pub(super) fn nanos_after(&self, at: usize) -> u128 {
        let at = if self.tokens.get(at).is_some_and(|t| t.kind == Kind::Break) { at + 1 } else { at };
        let named = self.word(at) == Some("nanos") && self.is(at + 1, ":");
        let figure = self.tokens.get(at + 2).filter(|_| named).and_then(duration::decimal);
        figure.and_then(|figure| figure.nanos(1)).filter(|nanos| *nanos < 1_000_000_000).unwrap_or(0)
    }

    pub(super) fn epoch(&self, at: usize) -> Option<Found> {
        let number = self.tokens.get(at).filter(|t| t.kind == Kind::Number).and_then(duration::decimal)?;
        match number.stated(Unit::Seconds)? {
            stated @ Stated::At(_) => Some(self.reading.found(stated)),
            Stated::After(_) => None,
        }
    }

    /// `retry after 35`: seconds, if nothing follows that makes the number something else.
    pub(super) fn bare_number(&self, at: usize) -> Option<Found> {
        let token = self.tokens.get(at).filter(|t| t.kind == Kind::Number)?;
        let follows = self.tokens.get(at + 1);
        let stands_alone = match follows {
            None => true,
            Some(t) if t.kind == Kind::Break => {
                // A unit or more digits on the next line may belong to this one.
                let broken = match self.tokens.get(at + 2) {
                    Some(t) if t.kind == Kind::Word => t.text.len() <= 3 || duration::unit(t.text).is_some(),
                    Some(t) if t.kind == Kind::Number => self.tokens.get(at + 3).is_none_or(|t| {
                        t.kind == Kind::Break || t.is(".") || t.word().is_some_and(|w| duration::unit(w).is_some())
                    }),
                    Some(_) | None => false,
                };
                !broken || !self.was_wrapped(at + 1)
            }
            Some(t) if t.kind == Kind::Word => matches!(t.text, "before" | "and" | "or" | "to") || self.is_pair(at + 1),
            Some(t) => !matches!(t.text, "/" | ":" | "%" | "-" | "_" | "×" | "*" | "@" | "+") && t.kind == Kind::Sign,
        };
        let number = Decimal::parse(&token.text.replace(',', "")).filter(|_| stands_alone)?;
        match number.stated(Unit::Seconds)? {
            Stated::After(wait) => Some(Found { wait, absolute: false }),
            stated @ Stated::At(_) => Some(self.reading.found(stated)),
        }
    }

    /// Returns whether `name=…` stands at `at`, as log lines write what else they know: `retry-after: 700 request_id=4711`.
    /// A name that is a unit (`30 s=…`) is none.
    fn is_pair(&self, at: usize) -> bool {
        let is_unit = self.word(at).is_some_and(|word| duration::unit(word).is_some());
        let rest = self.tokens[(at + 1).min(self.tokens.len())..].iter().take(8).take_while(|token| !token.spaced);
        let end =
            rest.skip_while(|t| t.kind == Kind::Word || t.kind == Kind::Number || matches!(t.text, "_" | "-" | "."));
        !is_unit && end.take(1).any(|token| token.is("="))
    }

    /// Returns whether the line that ends at token `at` is so long that a terminal may have broken it there.
    pub(super) fn was_wrapped(&self, at: usize) -> bool {
        let end = self.tokens[at].start;
        let start = self.text[..end].rfind('\n').map_or(0, |i| i + 1);
        let next_is_break = self.tokens.get(at + 1).is_some_and(|t| t.kind == Kind::Break);
        !next_is_break && end - start >= 28
    }

    /// `(attempt 6/10)`, `attempt 3`, `try #2` right after a value.
    pub(super) fn own_attempt_after(&self, at: usize) -> bool {
        let near = self.tokens[at.min(self.tokens.len())..].iter().take(8).take_while(|t| t.kind != Kind::Break);
        let near: Vec<_> = near.collect();
        near.windows(2).any(|pair| {
            matches!(pair[0].text, "attempt" | "try" | "retry") && (pair[1].kind == Kind::Number || pair[1].is("#"))
        })
    }

    pub(super) fn word(&self, at: usize) -> Option<&str> {
        self.tokens.get(at).and_then(Token::word)
    }

    pub(super) fn is(&self, at: usize, text: &str) -> bool {
        self.tokens.get(at).is_some_and(|t| t.is(text))
    }

    /// Returns the word before `at`, over line ends and `_`.
    pub(super) fn before(&self, at: usize) -> Option<&str> {
        self.words_before(at, 1).next()
    }

    /// Returns up to `count` words before `at` in the same sentence, the nearest first.
    pub(super) fn words_before(&self, at: usize, count: usize) -> impl Iterator<Item = &str> {
        let ends = |t: &&Token<'_>| !(t.kind == Kind::Sign && matches!(t.text, "." | "!" | "?" | ";"));
        let reach = 4 * count + 8;
        self.tokens[..at.min(self.tokens.len())]
            .iter()
            .rev()
            .take(reach)
            .take_while(ends)
            .filter_map(Token::word)
            .take(count)
    }

    /// Returns up to `count` words after `at` in the same sentence.
    pub(super) fn words_after(&self, at: usize, count: usize) -> impl Iterator<Item = &str> {
        let ends = |t: &&Token<'_>| !(t.kind == Kind::Sign && matches!(t.text, "." | "!" | "?" | ";"));
        let reach = 4 * count + 8;
        self.tokens[(at + 1).min(self.tokens.len())..]
            .iter()
            .take(reach)
            .take_while(ends)
            .filter_map(Token::word)
            .take(count)
    }

    /// Returns the place of the word that stands right before `at`, or a place without a word.
    pub(super) fn joint_before(&self, at: usize) -> usize {
        let mut before = at;
        while before > 0 && matches!(self.tokens[before - 1].text, "_" | "-" | "\n") {
            before -= 1;
        }
        before.checked_sub(1).unwrap_or(usize::MAX)
    }

    pub(super) fn skip_joints(&self, mut at: usize) -> usize {
        while self.tokens.get(at).is_some_and(|t| matches!(t.text, "_" | "-")) {
            at += 1;
        }
        at
    }

    pub(super) fn starts_sentence(&self, at: usize) -> bool {
        at == 0 || matches!(self.tokens[at - 1].text, "." | "!" | "?" | "\n" | "·" | ":" | "(" | "please")
    }
}
