//! Says what an outcome means, in words or as JSON.

use halfopen_core::classify::Explanation;
use halfopen_core::policy::Policy;
use halfopen_core::verdict::{About, Class, RetryAdvice, Verdict, Work};
use serde_json::{Value, json};

use super::ClassifyArgs;
use crate::{duration, ui};

/// Prints an explanation; `suggest` makes a rule if one was asked for.
pub(super) fn print(
    explanation: &Explanation,
    policy: &Policy,
    args: &ClassifyArgs,
    suggest: impl FnOnce() -> Option<String>,
) {
    let verdict = &explanation.verdict;
    if args.json {
        ui::data(&json_line(None, verdict));
        return;
    }
    if args.suggest {
        if verdict.class != Class::UnknownFailure {
            ui::say(&format!("{} already knows this outcome as {}", verdict.rule, verdict.class));
        } else if let Some(rule) = suggest() {
            ui::data(rule.trim_end());
        } else {
            ui::say("the outcome offers nothing a rule could go by");
        }
        return;
    }
    ui::data(&words(explanation, policy));
}

/// Returns the explanation in words.
fn words(explanation: &Explanation, policy: &Policy) -> String {
    let verdict = &explanation.verdict;
    let mut lines = vec![format!("class     {}", verdict.class)];
    lines.push(format!("rule      {}", verdict.rule));
    if !verdict.evidence.excerpt.is_empty() {
        let evidence = &verdict.evidence;
        lines.push(format!("evidence  {} ({}): {}", evidence.kind.as_str(), evidence.place, evidence.excerpt));
    }
    lines.push(format!("about     {}", about(verdict.about)));
    lines.push(format!("wait      {}", wait_words(verdict)));
    match verdict.retry {
        RetryAdvice::Unsaid => {}
        RetryAdvice::Allowed => lines.push("retry     it says that trying again is fine".to_owned()),
        RetryAdvice::Forbidden => lines.push("retry     it says not to try again".to_owned()),
    }
    match verdict.work {
        Work::Unknown => {}
        Work::None => lines.push("work      none: no turn and no tool use".to_owned()),
        Work::Shown => lines.push("work      shown: a second run would repeat it".to_owned()),
    }
    if let Some(session) = &verdict.session {
        lines.push(format!("session   {session}"));
    }
    if let Some(account) = &verdict.account {
        lines.push(format!("account   {account}"));
    }
    if let Some(model) = &verdict.model {
        lines.push(format!("model     {model}"));
    }
    lines.push(format!("policy    {}", follows(verdict, policy)));
    if !explanation.nearly.is_empty() {
        lines.push("nearly".to_owned());
        lines.extend(explanation.nearly.iter().map(|(rule, why)| format!("  {rule}: {why}")));
    }
    if verdict.class == Class::UnknownFailure && verdict.rule.ends_with("/unclassified") {
        lines
            .push("\nno rule knows this outcome\n\nhint: add --suggest for a rule to paste into the policy".to_owned());
    }
    lines.join("\n")
}

fn about(about: About) -> &'static str {
    match about {
        About::Place => "the dependency or its region",
        About::Account => "the account or credential",
        About::Caller => "the call itself",
        About::Nobody => "nobody in particular",
    }
}

/// Says what the policy does with such an outcome.
fn follows(verdict: &Verdict, policy: &Policy) -> String {
    let retry = &policy.retry;
    let attempts = match retry.max_attempts.get() {
        1 => "is not tried again (max_attempts 1)".to_owned(),
        attempts => format!("is tried again, {attempts} attempts in all"),
    };
    let attempts = if verdict.retry == RetryAdvice::Forbidden { "is not tried again".to_owned() } else { attempts };
    let failure = format!(
        "one failure of {} in {} that open the breaker",
        policy.circuit.open_after_failures,
        duration::show(policy.circuit.window)
    );
    let wait = verdict.hint.as_ref().filter(|_| retry.honor_retry_after).map(|hint| hint.wait);
    let long = wait.is_some_and(|wait| wait > retry.max_wait);
    match verdict.class {
        Class::Success => "counts as a success".to_owned(),
        Class::RateLimited | Class::Overloaded | Class::UsageLimit if long => format!(
            "the wait is longer than max_wait_sec ({}): the breaker opens until then, the call gives up",
            duration::show(retry.max_wait)
        ),
        Class::UsageLimit if wait.is_none() => {
            format!("no time is stated: the breaker opens for {}", duration::show(policy.circuit.open_for))
        }
        Class::RateLimited | Class::Overloaded | Class::UsageLimit => match wait {
            Some(wait) => format!("holds everyone for {}; the call {attempts}; {failure}", duration::show(wait)),
            None => format!("the call {attempts}, by our own backoff; {failure}"),
        },
        Class::Timeout | Class::ServerError => format!("the call {attempts}, if a second time is safe; {failure}"),
        Class::ConnectionFailure => format!("the call {attempts}, if nothing was sent; {failure}"),
        Class::QuotaExhausted => "opens the breaker at once, first probe after 10 min; the owner is told".to_owned(),
        Class::Auth => "the call fails; neutral for the breaker; three in a row tell the owner".to_owned(),
        Class::InvalidRequest => "the call fails; neutral for the breaker".to_owned(),
        Class::UnknownFailure if policy.circuit.count_unclassified => {
            format!("the call fails; {failure} (count_unclassified)")
        }
        Class::UnknownFailure => "the call fails; neutral for the breaker, counted as unclassified".to_owned(),
    }
}

/// Returns the hint in words.
pub(super) fn wait_words(verdict: &Verdict) -> String {
    match &verdict.hint {
        None => "none stated".to_owned(),
        Some(hint) => {
            format!("{}, until {} ({})", duration::show(hint.wait), until(hint.until.as_millis()), hint.source.as_str())
        }
    }
}

fn until(millis: i64) -> String {
    jiff::Timestamp::from_millisecond(millis).map_or_else(|_| "never".to_owned(), |instant| instant.to_string())
}

/// Returns a verdict as one line of JSON.
pub(super) fn json_line(id: Option<&str>, verdict: &Verdict) -> String {
    let wait = verdict.hint.as_ref().map(|hint| hint.wait.as_secs_f64());
    let line = json!({
        "id": id,
        "class": verdict.class.as_str(),
        "wait_s": wait,
        "wait_until": verdict.hint.as_ref().map(|hint| until(hint.until.as_millis())),
        "rule": verdict.rule,
        "evidence": {
            "kind": verdict.evidence.kind.as_str(),
            "place": verdict.evidence.place,
            "excerpt": verdict.evidence.excerpt,
        },
    });
    Value::to_string(&line)
}
