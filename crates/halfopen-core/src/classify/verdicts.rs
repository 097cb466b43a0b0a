//! Makes verdicts: of a rule that spoke, of silence, of ends that are not the dependency's doing; and fills in the wait
//! and how far the attempt got.

use crate::classify::facts::Facts;
use crate::classify::facts::command::Captured;
use crate::classify::facts::http::Reading;
use crate::classify::judge::Said;
use crate::classify::packs::Pack;
use crate::classify::rule::{KnownWait, Rule};
use crate::hint::{HintInput, Surroundings, advice, read};
use crate::outcome::{Exit, HttpOutcome, Reached};
use crate::redact;
use crate::time::ReadAt;
use crate::verdict::{About, Class, Evidence, EvidenceKind, Hint, HintSource, RetryAdvice, Scope, Verdict, Work};

/// Returns the verdict of a rule that spoke.
pub(crate) fn of_rule(said: &Said<'_>) -> Verdict {
    let rule = said.rule;
    let mut verdict = Verdict::plain(rule.class, &rule.id, Reached::Unknown);
    verdict.about = rule.about.unwrap_or_else(|| rule.class.about());
    verdict.retry = rule.retry.unwrap_or_default();
    verdict.work = rule.work.unwrap_or_default();
    verdict.evidence =
        Evidence { kind: rule.kind, place: said.hit.place.clone(), excerpt: redact::line(&said.hit.excerpt) };
    verdict
}

/// Returns the verdict of a success.
pub(crate) fn success(pack: &str) -> Verdict {
    Verdict::plain(Class::Success, &format!("{pack}/success"), Reached::Answered)
}

/// Returns the verdict of a failure that no rule knows, with the first line of what there is.
pub(crate) fn unknown(reading: &Reading, pack: &str) -> Verdict {
    let facts = &reading.facts;
    let message = facts.messages.first().map(|message| (message.place.as_str(), message.shown.as_str()));
    let shown = message
        .or_else(|| reading.envelope.as_ref().map(|(place, text)| (place.as_str(), text.as_str())))
        .or_else(|| {
            facts.stderr.as_ref().map(|text| ("stderr", text.shown.as_str())).filter(|(_, t)| !t.trim().is_empty())
        })
        .or_else(|| {
            facts.stdout.as_ref().map(|text| ("stdout", text.shown.as_str())).filter(|(_, t)| !t.trim().is_empty())
        });
    let (place, text) = shown.unwrap_or(("exit code", ""));
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
    let mut verdict = Verdict::plain(Class::UnknownFailure, &format!("{pack}/unclassified"), Reached::Unknown);
    let kind = if reading.envelope.is_some() { EvidenceKind::Envelope } else { EvidenceKind::Status };
    let excerpt = if first.is_empty() { end(facts) } else { redact::line(first) };
    verdict.evidence = Evidence { kind, place: place.to_owned(), excerpt };
    verdict
}

fn end(facts: &Facts) -> String {
    match (facts.exit, &facts.status) {
        (Some(Exit::Code(code)), _) => format!("exit code {code}, no output"),
        (Some(Exit::Signal(signal)), _) => format!("signal {signal}, no output"),
        (_, Some(status)) => format!("status {}, empty body", status.value),
        _ => String::new(),
    }
}

/// Returns the verdict where the dependency had no part in the end: the caller left, or there was nothing to run.
pub(crate) fn not_the_dependency(exit: Exit, captured: &Captured) -> Option<Verdict> {
    let (rule, excerpt) = match exit {
        Exit::Cancelled => ("halfopen/cancelled", "the caller went away"),
        Exit::NotFound => ("halfopen/command-not-found", "the command was not found"),
        Exit::NotExecutable => ("halfopen/not-executable", "the command could not be run"),
        // An inner halfopen that refused says so in its last line; the refusal is ours, not the dependency's.
        Exit::Code(75 | 79) if inner_refusal(captured) => ("halfopen/inner-refusal", "an inner halfopen refused"),
        Exit::Code(_) | Exit::Signal(_) | Exit::TimedOut => return None,
    };
    let reached = if exit == Exit::Cancelled { Reached::Unknown } else { Reached::NotSent };
    let mut verdict = Verdict::plain(Class::UnknownFailure, rule, reached);
    verdict.about = About::Nobody;
    if exit != Exit::Cancelled {
        verdict.work = Work::None;
    }
    verdict.evidence =
        Evidence { kind: EvidenceKind::Status, place: "exit code".to_owned(), excerpt: excerpt.to_owned() };
    Some(verdict)
}

/// Returns whether the last lines of standard error are the report of a halfopen.
fn inner_refusal(captured: &Captured) -> bool {
    let text = if captured.stderr.cut { &captured.stderr.tail } else { &captured.stderr.head };
    text.lines().rev().filter(|line| !line.trim().is_empty()).take(4).any(|line| {
        line.starts_with("halfopen: ") || line.starts_with("{\"halfopen\"") || line.contains("\"set_by\":\"halfopen\"")
    })
}

/// Returns the verdict of an answer that is a refusal of another halfopen's gateway: never a failure here.
pub(crate) fn own_refusal(outcome: &HttpOutcome<'_>, at: &ReadAt) -> Option<Verdict> {
    let (name, value) = outcome.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("halfopen-outcome"))?;
    if !matches!(value.trim(), "refused" | "queued") {
        return None;
    }
    let mut verdict = Verdict::plain(Class::UnknownFailure, "halfopen/inner-refusal", Reached::NotSent);
    verdict.about = About::Nobody;
    verdict.evidence = Evidence {
        kind: EvidenceKind::Code,
        place: "header halfopen-outcome".to_owned(),
        excerpt: format!("{name}: {value}"),
    };
    let seconds = outcome.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"));
    let wait = seconds
        .and_then(|(_, value)| value.trim().parse::<u32>().ok())
        .map(|s| std::time::Duration::from_secs(s.into()));
    verdict.hint =
        wait.map(|wait| Hint { until: at.now + wait, wait, source: HintSource::RetryAfter, scope: Scope::Whole });
    Some(verdict)
}

/// Makes a timeout of ours one, unless the output says what it was waiting for.
pub(crate) fn timed_out(verdict: &mut Verdict) {
    let told = match verdict.class {
        Class::RateLimited | Class::Overloaded | Class::UsageLimit | Class::QuotaExhausted | Class::Auth => true,
        Class::Success
        | Class::Timeout
        | Class::ConnectionFailure
        | Class::ServerError
        | Class::InvalidRequest
        | Class::UnknownFailure => false,
    };
    if !told {
        let work = verdict.work;
        *verdict = Verdict::plain(Class::Timeout, "halfopen/timed-out", Reached::Unknown);
        verdict.work = work;
        verdict.evidence = Evidence {
            kind: EvidenceKind::Status,
            place: "exit".to_owned(),
            excerpt: "no end within the attempt's timeout".to_owned(),
        };
    }
}

/// Reads the wait and the advice about trying again from the parts the verdict rests on.
pub(crate) fn read_hint(
    verdict: &mut Verdict,
    rule: Option<&Rule>,
    facts: &Facts,
    pack: &Pack,
    surroundings: Surroundings,
    at: &ReadAt,
) {
    if verdict.class == Class::Success {
        return;
    }
    let headers: Vec<(&str, &str)> = facts.headers.iter().map(|h| (h.name.as_str(), h.value.as_str())).collect();
    if verdict.retry == RetryAdvice::Unsaid {
        verdict.retry = advice(&headers);
    }
    let json: Vec<serde_json::Value> = facts.json.iter().map(|fact| fact.value.clone()).collect();
    let mut texts: Vec<&str> = facts.messages.iter().map(|message| message.shown.as_str()).collect();
    if let Some(markup) = &facts.markup {
        texts.push(markup);
    }
    // What the rule knows goes before what its pack knows in general.
    let mut known = pack.hints.clone();
    match rule.and_then(|rule| rule.wait) {
        Some(KnownWait::For(wait)) => known.default_wait_ms = Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        Some(KnownWait::Unknown) => (known.default_wait_ms, known.daily_reset_zone) = (None, None),
        None => {}
    }
    let ignored = rule.is_some_and(|rule| rule.ignore_hints);
    let input = HintInput {
        class: verdict.class,
        headers: if ignored { &[] } else { &headers },
        json: if ignored { &[] } else { &json },
        texts: if ignored { &[] } else { &texts },
        kind: surroundings,
        pack: &known,
    };
    verdict.hint = read(&input, at);
    if let (Some(hint), Some(scope)) = (&mut verdict.hint, rule.and_then(|rule| rule.scope.as_ref())) {
        hint.scope = Scope::Part(scope.clone());
    }
}

/// Says how far the attempt got.
pub(crate) fn reached(
    class: Class,
    rule: Option<&Rule>,
    facts: &Facts,
    pack: &Pack,
    known: Option<Reached>,
) -> Reached {
    // A transport that sent nothing knows it; a rule only reads words.
    if known == Some(Reached::NotSent) {
        return Reached::NotSent;
    }
    if let Some(reached) = rule.and_then(|rule| rule.reached) {
        return reached;
    }
    if pack.maybe_processed.iter().any(|word| word == class.as_str()) {
        return Reached::Unknown;
    }
    if pack.not_processed.iter().any(|word| word == class.as_str()) {
        return Reached::Refused;
    }
    // An error behind a status of success came after the work had begun.
    let begun = facts.status.as_ref().is_some_and(|s| (200..300).contains(&s.value)) && !facts.sse.is_empty();
    match class {
        Class::Success => Reached::Answered,
        Class::RateLimited | Class::Overloaded | Class::UsageLimit if begun => Reached::Unknown,
        // Over HTTP a service may say that it is overloaded in the middle of its work. Only a pack knows better.
        Class::Overloaded if known.is_some() => Reached::Unknown,
        Class::RateLimited
        | Class::Overloaded
        | Class::UsageLimit
        | Class::QuotaExhausted
        | Class::Auth
        | Class::InvalidRequest => Reached::Refused,
        Class::Timeout | Class::ConnectionFailure | Class::ServerError | Class::UnknownFailure => Reached::Unknown,
    }
}
