//! Asks rules about facts, in the order of evidence, and says which one decides.
//!
//! The order: own rules; then what the pack knows by code, limiter, counter, envelope and text; then what `generic`
//! knows of these; and only then vague codes and bare statuses, the pack's before the generic ones. So a service's own
//! meaning of a code beats everybody's, and no status speaks before everything else is silent.

use serde_json::Value;

use super::facts::{Facts, cut};
use super::path::scalar;
use super::rule::{Condition, ExitIs, Part, Rule, Test};
use super::text::fold;
use crate::outcome::Exit;
use crate::verdict::EvidenceKind;

/// Whose rule it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// The policy's.
    Own,
    /// The pack's.
    Pack,
    /// The generic pack's.
    Generic,
}

/// Rules in the order in which they are asked.
#[derive(Debug)]
pub(crate) struct Rules {
    ordered: Vec<(Owner, Rule)>,
}

/// A rule that speaks, with what it speaks on.
#[derive(Clone, Debug)]
pub(crate) struct Said<'r> {
    pub(crate) rule: &'r Rule,
    pub(crate) hit: Hit,
}

/// Where a condition held, and on what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) place: String,
    pub(crate) excerpt: String,
}

impl Rules {
    pub(crate) fn new(own: Vec<Rule>, pack: Vec<Rule>, generic: Vec<Rule>) -> Self {
        let mut ordered: Vec<(Owner, Rule)> = own
            .into_iter()
            .map(|rule| (Owner::Own, rule))
            .chain(pack.into_iter().map(|rule| (Owner::Pack, rule)))
            .chain(generic.into_iter().map(|rule| (Owner::Generic, rule)))
            .collect();
        ordered.sort_by_key(|(owner, rule)| {
            let tier = match owner {
                Owner::Own => 0,
                Owner::Pack | Owner::Generic if is_strong(rule) => 1,
                Owner::Pack | Owner::Generic => 2,
            };
            let kind = match owner {
                // An own rule stands where its writer put it.
                Owner::Own => EvidenceKind::Code,
                Owner::Pack | Owner::Generic => rule.kind,
            };
            (tier, *owner, kind)
        });
        Self { ordered }
    }

    /// Returns the rule that decides.
    pub(crate) fn decide(&self, facts: &Facts) -> Option<Said<'_>> {
        self.ordered.iter().find_map(|(_, rule)| ask(rule, facts).map(|hit| Said { rule, hit }))
    }

    /// Returns the rule that decides about an outcome that says it is a success: only rules that name one.
    pub(crate) fn decide_success(&self, facts: &Facts) -> Option<Said<'_>> {
        self.ordered
            .iter()
            .filter(|(_, rule)| names_success(rule))
            .find_map(|(_, rule)| ask(rule, facts).map(|hit| Said { rule, hit }))
    }

    /// Returns the rule with this id.
    pub(crate) fn by_id(&self, id: &str) -> Option<&Rule> {
        self.ordered.iter().map(|(_, rule)| rule).find(|rule| rule.id == id)
    }

    /// Returns every rule that matched, or of which a part did, with why it did not decide.
    pub(crate) fn nearly(&self, facts: &Facts, decided: &str) -> Vec<(String, String)> {
        let mut nearly = Vec::new();
        for (_, rule) in &self.ordered {
            if rule.id == decided || nearly.len() >= 16 {
                continue;
            }
            if let Some(hit) = ask(rule, facts) {
                let what = cut(&hit.excerpt, 80);
                nearly.push((rule.id.clone(), format!("{} ({what}), but {decided} speaks first", rule.class)));
            } else if let Some(why) = partly(rule, facts) {
                nearly.push((rule.id.clone(), why));
            }
        }
        nearly
    }
}

/// Returns whether a rule rests on more than a vague code, a status or an exit code.
pub(crate) fn is_strong(rule: &Rule) -> bool {
    !rule.weak && rule.kind < EvidenceKind::Status
}

/// Returns whether a rule names a success as what it is about.
pub(crate) fn names_success(rule: &Rule) -> bool {
    rule.when.iter().chain(&rule.any).any(|condition| match condition {
        Condition::Exit(list) => list.contains(&ExitIs::Code(0)),
        Condition::Status(spans) => spans.iter().any(|(low, high)| *low < 400 && *high >= 200),
        _ => false,
    })
}

/// Asks one rule.
pub(crate) fn ask(rule: &Rule, facts: &Facts) -> Option<Hit> {
    let mut best: Option<(EvidenceKind, Hit)> = None;
    let mut note = |condition: &Condition, hit: Hit| {
        if best.as_ref().is_none_or(|(kind, _)| condition.kind() < *kind) {
            best = Some((condition.kind(), hit));
        }
    };
    for condition in &rule.when {
        let hit = holds(condition, facts)?;
        note(condition, hit);
    }
    if !rule.any.is_empty() {
        let (condition, hit) = rule.any.iter().find_map(|c| holds(c, facts).map(|hit| (c, hit)))?;
        note(condition, hit);
    }
    if rule.unless.iter().any(|condition| holds(condition, facts).is_some()) {
        return None;
    }
    best.map(|(_, hit)| hit)
}

/// Says which part of a rule held that rests on more than a status, and what was missing.
fn partly(rule: &Rule, facts: &Facts) -> Option<String> {
    let held = |c: &Condition| holds(c, facts).filter(|_| c.kind() < EvidenceKind::Status);
    let hit = rule.when.iter().chain(&rule.any).find_map(held)?;
    let missing = rule.when.iter().find(|c| holds(c, facts).is_none());
    let what = cut(&hit.excerpt, 80);
    if missing.is_some() || !rule.any.is_empty() && !rule.any.iter().any(|c| holds(c, facts).is_some()) {
        return Some(format!("{} ({what}), but its other conditions do not hold", rule.class));
    }
    Some(format!("{} ({what}), but an exception of it holds", rule.class))
}

/// Returns where a condition holds.
pub(crate) fn holds(condition: &Condition, facts: &Facts) -> Option<Hit> {
    match condition {
        Condition::Status(spans) => {
            let status = facts.status.as_ref()?;
            let within = spans.iter().any(|(low, high)| (*low..=*high).contains(&status.value));
            within.then(|| Hit { place: status.place.clone(), excerpt: format!("status {}", status.value) })
        }
        Condition::Exit(list) => exit(list, facts.exit?),
        Condition::Code(list) => {
            let code = facts.codes.iter().find(|code| list.binary_search(&code.value).is_ok())?;
            Some(Hit { place: code.place.clone(), excerpt: code.value.clone() })
        }
        Condition::Message(test) => absent_or(test, facts.messages.is_empty(), || {
            let message = facts.messages.iter().find(|message| test.holds_for(message))?;
            Some(Hit { place: message.place.clone(), excerpt: message.shown.clone() })
        }),
        Condition::Header(name, test) => absent_or(test, facts.header(name).next().is_none(), || {
            let header = facts.header(name).find(|header| test.holds(&fold(&header.value)))?;
            Some(Hit { place: format!("header {name}"), excerpt: format!("{name}: {}", header.value) })
        }),
        Condition::Json(path, test) => {
            json(facts.json.iter().map(|fact| (&fact.value, fact.place.as_str())), path, test)
        }
        Condition::Xml(element, test) => {
            let mut fitting = facts.xml.iter().filter(|(path, _)| xml_fits(path, element)).peekable();
            absent_or(test, fitting.peek().is_none(), || {
                let (path, text) = fitting.find(|(_, text)| test.holds(&fold(text)))?;
                Some(Hit { place: format!("body, {path}"), excerpt: text.clone() })
            })
        }
        Condition::Sse(name, path, test) => {
            facts.sse.iter().filter(|(event, _)| name.as_ref().is_none_or(|name| fold(event) == *name)).find_map(
                |(event, value)| {
                    at_path(value, path.as_ref(), test).map(|excerpt| Hit { place: format!("event {event}"), excerpt })
                },
            )
        }
        Condition::Event(kind, path, test) => facts
            .events
            .iter()
            .rev()
            .filter(|event| kind.as_ref().is_none_or(|kind| event["type"].as_str().is_some_and(|t| fold(t) == *kind)))
            .find_map(|event| {
                at_path(event, path.as_ref(), test).map(|excerpt| Hit { place: "stdout, event".to_owned(), excerpt })
            }),
        Condition::Stdout(part, test) => stream(facts.stdout.as_ref(), *part, test),
        Condition::Stderr(part, test) => stream(facts.stderr.as_ref(), *part, test),
        Condition::Body(test) => stream(facts.body.as_ref(), Part::Whole, test),
        Condition::Method(list) => {
            list.contains(&facts.method).then(|| Hit { place: "method".to_owned(), excerpt: facts.method.clone() })
        }
        Condition::OverLimit(wanted) => {
            let over = facts.messages.iter().find_map(|message| over_limit(message.folded()).then(|| message.clone()));
            match (over, wanted) {
                (Some(message), true) => Some(Hit { place: message.place, excerpt: message.shown }),
                (None, false) => Some(Hit::default()),
                _ => None,
            }
        }
        Condition::Exhausted(windows) => exhausted(facts, windows),
    }
}

/// Returns the value at the place of a condition that holds: what its expression captures, or all that stands there.
pub(crate) fn capture(condition: &Condition, facts: &Facts) -> Option<String> {
    let hit = holds(condition, facts)?;
    let test = condition.test()?;
    // The expression is asked again of what was shown: ids must not be folded to lower case.
    let shown = match condition {
        Condition::Header(..) => hit.excerpt.split_once(": ").map_or(hit.excerpt.as_str(), |(_, value)| value),
        _ => hit.excerpt.as_str(),
    };
    let value = test.capture(shown)?.trim();
    (!value.is_empty() && value.len() <= 200).then(|| value.to_owned())
}

/// Returns a hit for an absence that was asked for, else what `find` finds.
fn absent_or(test: &Test, is_absent: bool, find: impl FnOnce() -> Option<Hit>) -> Option<Hit> {
    if test.wants_absence() {
        return is_absent.then(Hit::default);
    }
    find()
}

fn exit(list: &[ExitIs], exit: Exit) -> Option<Hit> {
    let fits = list.iter().any(|is| match (is, exit) {
        (ExitIs::Code(wanted), Exit::Code(code)) => *wanted == code,
        (ExitIs::Code(wanted), Exit::Signal(signal)) => *wanted == signal + 128,
        (ExitIs::Nonzero, Exit::Code(code)) => code != 0,
        (ExitIs::Nonzero | ExitIs::Signal, Exit::Signal(_)) => true,
        (ExitIs::Timeout, Exit::TimedOut) => true,
        _ => false,
    });
    fits.then(|| Hit {
        place: "exit code".to_owned(),
        excerpt: match exit {
            Exit::Code(code) => format!("exit code {code}"),
            Exit::Signal(signal) => format!("signal {signal}"),
            Exit::TimedOut => "timed out".to_owned(),
            Exit::Cancelled => "cancelled".to_owned(),
            Exit::NotFound => "not found".to_owned(),
            Exit::NotExecutable => "not executable".to_owned(),
        },
    })
}

fn json<'v>(
    documents: impl Iterator<Item = (&'v Value, &'v str)>,
    path: &super::path::Path,
    test: &Test,
) -> Option<Hit> {
    let mut any = false;
    for (document, place) in documents {
        let mut excerpt = None;
        path.any(document, &mut |value| {
            any |= !value.is_null();
            excerpt = value_holds(value, test);
            excerpt.is_some()
        });
        if let Some(excerpt) = excerpt.filter(|_| !test.wants_absence()) {
            return Some(Hit { place: format!("{place}, {}", path.as_str()), excerpt });
        }
    }
    (test.wants_absence() && !any).then(Hit::default)
}

fn at_path(value: &Value, path: Option<&super::path::Path>, test: &Test) -> Option<String> {
    let Some(path) = path else { return Some(cut(&value.to_string(), 400).to_owned()) };
    let (mut found, mut any) = (None, false);
    path.any(value, &mut |inner| {
        any |= !inner.is_null();
        found = value_holds(inner, test);
        found.is_some()
    });
    if test.wants_absence() {
        return (!any).then(String::new);
    }
    found
}

fn value_holds(value: &Value, test: &Test) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Array(_) | Value::Object(_) => {
            // A list or an object is there, and it has no text.
            test.holds("").then(|| cut(&value.to_string(), 400).to_owned())
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let text = scalar(value)?;
            test.holds(&fold(&text)).then(|| text.into_owned())
        }
    }
}

fn xml_fits(path: &str, element: &str) -> bool {
    path.len() >= element.len()
        && path[path.len() - element.len()..].eq_ignore_ascii_case(element)
        && (path.len() == element.len() || path.as_bytes()[path.len() - element.len() - 1] == b'/')
}

fn stream(text: Option<&super::text::Text>, part: Part, test: &Test) -> Option<Hit> {
    let text = text?;
    let hit = |shown: &str| Some(Hit { place: text.place.clone(), excerpt: shown.to_owned() });
    if test.wants_absence() {
        return if text.folded().is_empty() { hit("") } else { None };
    }
    let mut lines = text.shown.lines().filter(|line| !line.trim().is_empty());
    match part {
        Part::Whole => (!text.folded().is_empty() && test.holds_for(text)).then(|| hit(&text.shown)).flatten(),
        Part::FirstLine => lines.next().filter(|line| test.holds(&fold(line))).and_then(hit),
        Part::LastLine => lines.next_back().filter(|line| test.holds(&fold(line))).and_then(hit),
        Part::AnyLine => lines.find(|line| test.holds(&fold(line))).and_then(hit),
    }
}

/// Returns whether a message states a limit and a request above it that nothing else has used up.
///
/// `Limit 30000, Requested 342389` can never be granted; `Limit 30000, Used 14567, Requested 24754` can, later.
fn over_limit(folded: &str) -> bool {
    let number_at = |rest: &str| {
        let rest = rest.trim_start_matches([' ', ':', '=', '(', '`', '\'', '"']);
        let digits: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == ',' || *c == '_').collect();
        let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
        digits.parse::<u64>().ok()
    };
    // The word may stand before without a number: `for limit gpt-long … Limit 200000`.
    let number_after = |words: &[&str]| {
        words.iter().find_map(|word| {
            let mut from = 0;
            while let Some(at) = super::text::find_phrase(&folded[from..], word) {
                from += at + word.len();
                if let Some(number) = number_at(&folded[from..]) {
                    return Some(number);
                }
            }
            None
        })
    };
    let limit = number_after(&["limit", "limit is", "limit of", "maximum", "maximum of"]);
    let requested = number_after(&["requested", "request", "requested tokens", "you requested", "requesting"]);
    matches!((limit, requested), (Some(limit), Some(requested)) if requested > limit)
}

/// Returns the counter that reads 0 for one of the windows.
fn exhausted(facts: &Facts, windows: &[String]) -> Option<Hit> {
    facts.headers.iter().find_map(|header| {
        let name = header.name.as_str();
        let counter = name.contains("remaining")
            && (name.contains("limit") || name.contains("quota") || name.contains("request"));
        let empty = if counter {
            let number = header.value.split([';', ',']).next().unwrap_or("").trim();
            number.parse::<f64>().is_ok_and(|left| left == 0.0).then_some(header.value.as_str())
        } else if name == "ratelimit" || name == "x-ratelimit" {
            // A list of limiters: only the empty one has fired.
            header.value.split(',').find(|item| item.split(';').any(|part| part.trim() == "r=0"))
        } else {
            None
        };
        let empty = empty?.to_ascii_lowercase();
        let window = window_of(name).or_else(|| window_of(&empty));
        let fits = windows.iter().any(|wanted| wanted == "any" || window == Some(wanted.as_str()));
        fits.then(|| Hit { place: format!("header {name}"), excerpt: format!("{name}: {}", header.value) })
    })
}

/// Returns the window that the name of a counter or limiter speaks of.
fn window_of(name: &str) -> Option<&'static str> {
    [
        ("month", "month"),
        ("daily", "day"),
        ("day", "day"),
        ("hour", "hour"),
        ("minute", "minute"),
        ("min", "minute"),
        ("second", "second"),
    ]
    .into_iter()
    .find(|(word, _)| name.contains(word))
    .map(|(_, window)| window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("\"burst\";r=0;t=8, \"day\";r=7429;t=30000", "day", false)]
    #[test_case("\"burst\";r=9;t=8, \"day\";r=0;t=30000", "day", true)]
    #[test_case("\"burst\";r=0;t=8, \"day\";r=7429;t=30000", "any", true)]
    #[test_case("\"a\";r=07;t=8", "any", false)]
    fn of_several_limiters_the_empty_one_counts(value: &str, window: &str, expected: bool) {
        let outcome = crate::outcome::HttpOutcome {
            method: "GET",
            status: 429,
            headers: &[("RateLimit", value)],
            body: crate::outcome::Excerpt::whole(b""),
            reached: crate::outcome::Reached::Answered,
            elapsed: std::time::Duration::ZERO,
        };
        let facts = super::super::facts::http::read(&outcome, true).facts;
        assert_eq!(exhausted(&facts, &[window.to_owned()]).is_some(), expected);
    }

    #[test_case("limit 30000, requested 342389", true)]
    #[test_case("limit 6000, requested 14810, please reduce", true)]
    #[test_case("limit 30000, used 14567, requested 24754", false)]
    #[test_case("limit: 8,000 requested: 9,000", true)]
    #[test_case("too large (for limit long) on tokens: limit 200000, requested 201000", true)]
    #[test_case("rate limit reached", false)]
    fn a_request_above_its_limit_is_seen(folded: &str, over: bool) {
        assert_eq!(over_limit(folded), over);
    }
}
