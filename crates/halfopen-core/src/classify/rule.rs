//! Turns a written rule into one that can be asked: words into enums, phrases folded, numbers parsed, everything
//! checked once.
//!
//! Regular expressions are checked for own rules at once and for embedded ones by the tests; compiled they are only
//! when a rule's phrases are there, because compiling one costs more than asking all other rules.

use std::sync::OnceLock;
use std::time::Duration;

use super::path::Path;
use super::raw::{RawCondition, RawRule, RawTest, Words};
use super::text::{Phrase, Text, find_phrase, fold, undecorated};
use crate::outcome::Reached;
use crate::verdict::{About, Class, EvidenceKind, RetryAdvice, Work};

/// The largest compiled regular expression, in bytes.
const REGEX_BYTES_MAX: usize = 1 << 18;

/// A rule that can be asked.
#[derive(Debug)]
pub(crate) struct Rule {
    /// `pack/name`.
    pub(crate) id: String,
    pub(crate) when: Vec<Condition>,
    pub(crate) any: Vec<Condition>,
    pub(crate) unless: Vec<Condition>,
    pub(crate) class: Class,
    pub(crate) kind: EvidenceKind,
    /// Speaks only if no message text does.
    pub(crate) weak: bool,
    pub(crate) about: Option<About>,
    pub(crate) scope: Option<String>,
    pub(crate) reached: Option<Reached>,
    pub(crate) retry: Option<RetryAdvice>,
    pub(crate) work: Option<Work>,
    pub(crate) wait: Option<KnownWait>,
    pub(crate) ignore_hints: bool,
}

/// What a rule knows about the wait where the outcome states none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownWait {
    /// This long.
    For(Duration),
    /// Nothing, whatever its pack knows about other failures of this class.
    Unknown,
}

/// A condition that can be asked.
#[derive(Debug)]
pub(crate) enum Condition {
    Status(Vec<(u16, u16)>),
    Exit(Vec<ExitIs>),
    /// Sorted.
    Code(Vec<String>),
    Message(Test),
    Header(String, Test),
    Json(Path, Test),
    Xml(String, Test),
    Sse(Option<String>, Option<Path>, Test),
    Event(Option<String>, Option<Path>, Test),
    Stdout(Part, Test),
    Stderr(Part, Test),
    Body(Test),
    Method(Vec<String>),
    OverLimit(bool),
    Exhausted(Vec<String>),
}

/// How a command ended, as a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitIs {
    Code(i32),
    Nonzero,
    Signal,
    Timeout,
}

/// Which part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    FirstLine,
    LastLine,
    AnyLine,
}

/// What to find at a place.
#[derive(Debug, Default)]
pub(crate) struct Test {
    is: Vec<String>,
    says: Vec<Phrase>,
    starts: Vec<String>,
    regex: Option<LazyRegex>,
    above: Option<f64>,
    below: Option<f64>,
    present: Option<bool>,
}

/// A regular expression that is compiled when it is first needed.
#[derive(Debug)]
pub(crate) struct LazyRegex {
    pattern: String,
    compiled: OnceLock<Option<regex::Regex>>,
}

impl LazyRegex {
    fn new(pattern: &str) -> Self {
        Self { pattern: pattern.to_owned(), compiled: OnceLock::new() }
    }

    pub(crate) fn get(&self) -> Option<&regex::Regex> {
        self.compiled.get_or_init(|| build(&self.pattern).ok()).as_ref()
    }
}

/// Compiles a pattern with our bounds.
fn build(pattern: &str) -> Result<regex::Regex, String> {
    regex::RegexBuilder::new(pattern)
        .case_insensitive(true)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .nest_limit(32)
        .build()
        .map_err(|error| error.to_string())
}

impl Test {
    /// Reads a written test; `field` names its condition in errors.
    pub(crate) fn new(raw: &RawTest, field: &str) -> Result<Self, String> {
        let folded = |words: &Words| words.0.iter().map(|word| fold(word)).collect::<Vec<_>>();
        let test = Self {
            is: folded(&raw.is),
            says: raw.says.0.iter().map(|word| Phrase::new(word)).collect(),
            starts: folded(&raw.starts),
            regex: raw.matches.as_deref().map(LazyRegex::new),
            above: raw.above,
            below: raw.below,
            present: raw.present,
        };
        let empty = test.says.iter().any(|phrase| phrase.text.is_empty());
        if empty || test.is.iter().chain(&test.starts).any(String::is_empty) {
            return Err(format!("`{field}`: an empty word would match everything"));
        }
        Ok(test)
    }

    /// Compiles what is compiled lazily, to find errors.
    pub(crate) fn check(&self, field: &str) -> Result<(), String> {
        match &self.regex {
            Some(regex) => build(&regex.pattern).map(drop).map_err(|e| format!("`{field}.matches`: {e}")),
            None => Ok(()),
        }
    }

    /// Returns whether nothing but presence is asked for.
    fn only_present(&self) -> bool {
        self.is.is_empty()
            && self.says.is_empty()
            && self.starts.is_empty()
            && self.regex.is_none()
            && self.above.is_none()
            && self.below.is_none()
    }

    /// Returns whether absence is asked for.
    pub(crate) fn wants_absence(&self) -> bool {
        self.present == Some(false)
    }

    /// Returns whether a text passes.
    pub(crate) fn holds_for(&self, text: &Text) -> bool {
        self.passes(text.folded(), |phrase| text.says(phrase))
    }

    /// Returns whether a folded text passes.
    pub(crate) fn holds(&self, folded: &str) -> bool {
        self.passes(folded, |phrase| find_phrase(folded, &phrase.text).is_some())
    }

    fn passes(&self, folded: &str, says: impl Fn(&Phrase) -> bool) -> bool {
        if self.only_present() {
            return self.present != Some(false);
        }
        (self.is.is_empty() || self.is.iter().any(|word| word == folded))
            && (self.says.is_empty() || self.says.iter().any(says))
            && (self.starts.is_empty() || {
                let bare = undecorated(folded);
                self.starts.iter().any(|start| bare.starts_with(start.as_str()) || folded.starts_with(start.as_str()))
            })
            && self.number_holds(folded)
            && self.regex.as_ref().is_none_or(|regex| regex.get().is_some_and(|r| r.is_match(folded)))
    }

    fn number_holds(&self, folded: &str) -> bool {
        if self.above.is_none() && self.below.is_none() {
            return true;
        }
        let number: Option<f64> = folded.trim().parse().ok().filter(|n: &f64| n.is_finite());
        number.is_some_and(|n| self.above.is_none_or(|limit| n > limit) && self.below.is_none_or(|limit| n < limit))
    }

    /// Returns the first capture of the expression in `text`, or the whole text if there is no expression.
    pub(crate) fn capture<'t>(&self, text: &'t str) -> Option<&'t str> {
        let Some(regex) = &self.regex else { return Some(text) };
        let captures = regex.get()?.captures(text)?;
        captures.iter().skip(1).flatten().next().or_else(|| captures.get(0)).map(|m| m.as_str())
    }
}

impl Condition {
    /// Reads a written condition.
    ///
    /// # Errors
    ///
    /// One line that names the field and the cause.
    pub(crate) fn new(raw: &RawCondition) -> Result<Self, String> {
        let condition = match raw {
            RawCondition::Status(words) => Self::Status(words.0.iter().map(|w| span(w)).collect::<Result<_, _>>()?),
            RawCondition::Exit(words) => Self::Exit(words.0.iter().map(|w| exit_is(w)).collect::<Result<_, _>>()?),
            RawCondition::Code(words) => {
                let mut codes: Vec<String> = words.0.iter().map(|w| fold(w)).collect();
                codes.sort_unstable();
                Self::Code(codes)
            }
            RawCondition::Method(words) => Self::Method(words.0.iter().map(|w| w.to_ascii_uppercase()).collect()),
            RawCondition::Exhausted(words) => Self::Exhausted(words.0.clone()),
            RawCondition::OverLimit(yes) => Self::OverLimit(*yes),
            RawCondition::Message(test) => Self::Message(Test::new(test, "message")?),
            RawCondition::Body(test) => Self::Body(Test::new(test, "body")?),
            RawCondition::Header(test) => {
                Self::Header(needed(&test.name, "header", "name")?.to_ascii_lowercase(), Test::new(test, "header")?)
            }
            RawCondition::Json(test) => {
                Self::Json(Path::parse(needed(&test.path, "json", "path")?)?, Test::new(test, "json")?)
            }
            RawCondition::Xml(test) => {
                Self::Xml(needed(&test.element, "xml", "element")?.to_owned(), Test::new(test, "xml")?)
            }
            RawCondition::Sse(test) => Self::Sse(some(&test.event), path(&test.path)?, Test::new(test, "sse")?),
            RawCondition::Event(test) => Self::Event(some(&test.event), path(&test.path)?, Test::new(test, "event")?),
            RawCondition::Stdout(test) => Self::Stdout(part(&test.part, "stdout")?, Test::new(test, "stdout")?),
            RawCondition::Stderr(test) => Self::Stderr(part(&test.part, "stderr")?, Test::new(test, "stderr")?),
        };
        if condition.is_empty() {
            return Err("a condition with an empty list would never hold".to_owned());
        }
        Ok(condition)
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Status(list) => list.is_empty(),
            Self::Exit(list) => list.is_empty(),
            Self::Code(list) | Self::Method(list) | Self::Exhausted(list) => list.is_empty(),
            _ => false,
        }
    }

    /// Returns the kind of evidence this condition is by itself.
    pub(crate) fn kind(&self) -> EvidenceKind {
        match self {
            Self::Code(_) | Self::OverLimit(_) => EvidenceKind::Code,
            Self::Exhausted(_) => EvidenceKind::Counter,
            Self::Header(..) | Self::Json(..) | Self::Xml(..) | Self::Sse(..) | Self::Event(..) => EvidenceKind::Code,
            Self::Message(_) | Self::Stdout(..) | Self::Stderr(..) | Self::Body(_) => EvidenceKind::Text,
            Self::Status(_) | Self::Exit(_) | Self::Method(_) => EvidenceKind::Status,
        }
    }

    /// Returns the test of a condition that has one.
    pub(crate) fn test(&self) -> Option<&Test> {
        match self {
            Self::Message(test)
            | Self::Body(test)
            | Self::Header(_, test)
            | Self::Json(_, test)
            | Self::Xml(_, test)
            | Self::Sse(_, _, test)
            | Self::Event(_, _, test)
            | Self::Stdout(_, test)
            | Self::Stderr(_, test) => Some(test),
            Self::Status(_)
            | Self::Exit(_)
            | Self::Code(_)
            | Self::Method(_)
            | Self::OverLimit(_)
            | Self::Exhausted(_) => None,
        }
    }
}

impl Rule {
    /// Reads a written rule of `pack`.
    ///
    /// # Errors
    ///
    /// One line that names the field and the cause.
    pub(crate) fn new(pack: &str, raw: &RawRule) -> Result<Self, String> {
        if raw.name.is_empty() || !raw.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return Err(format!("`name`: `{}` is not made of letters, digits, `-` and `_`", raw.name));
        }
        let conditions = |list: &[RawCondition], field: &str| {
            list.iter().map(|c| Condition::new(c).map_err(|e| format!("`{field}`: {e}"))).collect::<Result<Vec<_>, _>>()
        };
        let when = conditions(&raw.when, "when")?;
        let any = conditions(&raw.any, "any")?;
        let unless = conditions(&raw.unless, "unless")?;
        if when.is_empty() && any.is_empty() {
            return Err("`when` and `any` are both empty: it would speak on everything".to_owned());
        }
        let class = raw.class.parse::<Class>().map_err(|e| format!("`class`: {e}; known are {}", classes()))?;
        let strongest = when.iter().chain(&any).map(Condition::kind).min().unwrap_or(EvidenceKind::Status);
        Ok(Self {
            id: format!("{pack}/{}", raw.name),
            kind: word(raw.kind.as_deref(), "kind", KINDS)?.unwrap_or(strongest),
            when,
            any,
            unless,
            class,
            weak: raw.weak,
            about: word(raw.about.as_deref(), "about", ABOUTS)?,
            scope: raw.scope.clone().filter(|scope| !scope.is_empty()),
            reached: word(raw.reached.as_deref(), "reached", REACHED)?,
            retry: word(raw.retry.as_deref(), "retry", RETRIES)?,
            work: word(raw.work.as_deref(), "work", WORKS)?,
            wait: raw.wait.as_deref().map(known_wait).transpose()?,
            ignore_hints: raw.ignore_hints,
        })
    }

    /// Compiles what is compiled lazily, to find errors.
    ///
    /// # Errors
    ///
    /// One line that names the field and the cause.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.when
            .iter()
            .map(|c| ("when", c))
            .chain(self.any.iter().map(|c| ("any", c)))
            .chain(self.unless.iter().map(|c| ("unless", c)))
            .filter_map(|(field, c)| c.test().map(|test| (field, test)))
            .try_for_each(|(field, test)| test.check(field))
    }
}

const KINDS: &[(&str, EvidenceKind)] = &[
    ("code", EvidenceKind::Code),
    ("limiter", EvidenceKind::Limiter),
    ("counter", EvidenceKind::Counter),
    ("envelope", EvidenceKind::Envelope),
    ("text", EvidenceKind::Text),
    ("status", EvidenceKind::Status),
];
const ABOUTS: &[(&str, About)] =
    &[("place", About::Place), ("account", About::Account), ("caller", About::Caller), ("nobody", About::Nobody)];
const REACHED: &[(&str, Reached)] = &[
    ("not_sent", Reached::NotSent),
    ("unknown", Reached::Unknown),
    ("refused", Reached::Refused),
    ("answered", Reached::Answered),
];
const RETRIES: &[(&str, RetryAdvice)] = &[("allowed", RetryAdvice::Allowed), ("forbidden", RetryAdvice::Forbidden)];
const WORKS: &[(&str, Work)] = &[("none", Work::None), ("shown", Work::Shown), ("unknown", Work::Unknown)];

fn classes() -> String {
    Class::ALL.map(Class::as_str).join(", ")
}

fn word<T: Copy>(given: Option<&str>, field: &str, known: &[(&str, T)]) -> Result<Option<T>, String> {
    let Some(given) = given else { return Ok(None) };
    match known.iter().find(|(name, _)| *name == given) {
        Some((_, value)) => Ok(Some(*value)),
        None => {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            Err(format!("`{field}`: unknown word `{given}`; known are {}", names.join(", ")))
        }
    }
}

fn needed<'w>(word: &'w str, field: &str, key: &str) -> Result<&'w str, String> {
    if word.is_empty() { Err(format!("`{field}` needs `{key}`")) } else { Ok(word) }
}

fn some(word: &str) -> Option<String> {
    (!word.is_empty()).then(|| fold(word))
}

fn path(word: &str) -> Result<Option<Path>, String> {
    if word.is_empty() { Ok(None) } else { Path::parse(word).map(Some) }
}

fn part(word: &str, field: &str) -> Result<Part, String> {
    match word {
        "" | "whole" => Ok(Part::Whole),
        "first_line" => Ok(Part::FirstLine),
        "last_line" => Ok(Part::LastLine),
        "any_line" => Ok(Part::AnyLine),
        _ => Err(format!("`{field}.part`: unknown word `{word}`; known are whole, first_line, last_line, any_line")),
    }
}

/// Reads `429`, `5xx` or `500-511`.
fn span(word: &str) -> Result<(u16, u16), String> {
    let bad = || format!("`status`: `{word}` is no status, no range (500-511) and no hundred (5xx)");
    if let Some(hundred) = word.strip_suffix("xx") {
        let hundred: u16 = hundred.parse().ok().filter(|h| (1..=9).contains(h)).ok_or_else(bad)?;
        return Ok((hundred * 100, hundred * 100 + 99));
    }
    if let Some((low, high)) = word.split_once('-') {
        let (low, high) = (low.trim().parse().map_err(|_| bad())?, high.trim().parse().map_err(|_| bad())?);
        return if low <= high { Ok((low, high)) } else { Err(bad()) };
    }
    word.parse().map(|status| (status, status)).map_err(|_| bad())
}

fn exit_is(word: &str) -> Result<ExitIs, String> {
    match word {
        "nonzero" => Ok(ExitIs::Nonzero),
        "signal" => Ok(ExitIs::Signal),
        "timeout" => Ok(ExitIs::Timeout),
        _ => word
            .parse()
            .ok()
            .filter(|code| (0..=255).contains(code))
            .map(ExitIs::Code)
            .ok_or_else(|| format!("`exit`: `{word}` is no code (0-255) and not nonzero, signal or timeout")),
    }
}

/// Reads a duration or `none`.
fn known_wait(word: &str) -> Result<KnownWait, String> {
    if word == "none" { Ok(KnownWait::Unknown) } else { duration(word, "wait").map(KnownWait::For) }
}

/// Reads `500ms`, `30s`, `1.5m`, `4h`, `2d`.
///
/// # Errors
///
/// One line that names the field and the cause.
pub(crate) fn duration(word: &str, field: &str) -> Result<Duration, String> {
    let bad = || format!("`{field}`: `{word}` is no duration such as 500ms, 30s, 10m, 4h or 2d");
    let split = word.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(bad)?;
    let (number, unit) = word.split_at(split);
    let number: f64 = number.trim().parse().map_err(|_| bad())?;
    let seconds = match unit {
        "ms" => number / 1000.0,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        "d" => number * 86_400.0,
        _ => return Err(bad()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("429", Some((429, 429)))]
    #[test_case("5xx", Some((500, 599)))]
    #[test_case("500-511", Some((500, 511)))]
    #[test_case("511-500", None)]
    #[test_case("many", None)]
    fn statuses_are_numbers_ranges_and_hundreds(word: &str, read: Option<(u16, u16)>) {
        assert_eq!(span(word).ok(), read);
    }

    #[test_case("30s", Some(30_000))]
    #[test_case("1.5m", Some(90_000))]
    #[test_case("250ms", Some(250))]
    #[test_case("4h", Some(14_400_000))]
    #[test_case("1.5d", Some(129_600_000))]
    #[test_case("-1s", None)]
    #[test_case("soon", None)]
    fn durations_need_a_unit(word: &str, millis: Option<u128>) {
        assert_eq!(duration(word, "wait").ok().map(|d| d.as_millis()), millis);
    }

    #[test_case("none", KnownWait::Unknown)]
    #[test_case("90s", KnownWait::For(Duration::from_secs(90)))]
    fn a_rule_may_know_that_nobody_knows_the_wait(word: &str, wait: KnownWait) {
        assert_eq!(known_wait(word), Ok(wait));
    }

    #[test]
    fn an_error_names_field_and_cause() {
        let rule = RawRule { name: "x".into(), class: "slow".into(), ..RawRule::default() };
        assert!(Rule::new("own", &rule).unwrap_err().contains("`when` and `any` are both empty"));
        let rule = RawRule { when: vec![RawCondition::Status(Words(vec!["429".into()]))], ..rule };
        let error = Rule::new("own", &rule).unwrap_err();
        assert!(error.starts_with("`class`: unknown class `slow`") && error.contains("rate_limited, "), "{error}");
        let rule = RawRule {
            class: "auth".into(),
            when: vec![RawCondition::Message(RawTest { matches: Some("(a".into()), ..RawTest::default() })],
            ..rule
        };
        let error = Rule::new("own", &rule).unwrap().check().unwrap_err();
        assert!(error.starts_with("`when.matches`"), "{error}");
    }
}
