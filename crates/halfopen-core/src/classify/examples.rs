//! Runs the examples that stand beside rules.
//!
//! An example is an outcome. The rule must decide those under `speaks`, and must not decide those under `silent`; there
//! a `class` may say what must come out instead. The tests run the examples of every embedded pack, and `halfopen
//! check` those of a policy.

use std::time::Duration;

use super::Classifier;
use super::raw::{RawExample, RawRule};
use crate::outcome::{CommandOutcome, Excerpt, Exit, HttpOutcome, Reached};
use crate::time::{ReadAt, Timestamp};
use crate::verdict::Verdict;

/// The instant at which examples are read: a Monday noon.
const NOW: Timestamp = Timestamp::from_millis(1_772_452_800_000);

/// Returns what is wrong with the examples of `rule`, which `owner` (`own`, or a pack) has.
#[must_use]
pub fn failures(classifier: &Classifier, owner: &str, rule: &RawRule) -> Vec<String> {
    let id = format!("{owner}/{}", rule.name);
    let mut wrong = Vec::new();
    for (at, example) in rule.examples.speaks.iter().enumerate() {
        let verdict = judge(classifier, example);
        if verdict.rule != id {
            wrong.push(format!(
                "`examples.speaks` {}: {} decides instead ({}, on {:?})",
                at + 1,
                verdict.rule,
                verdict.class,
                verdict.evidence.excerpt
            ));
        }
    }
    for (at, example) in rule.examples.silent.iter().enumerate() {
        let verdict = judge(classifier, example);
        if verdict.rule == id {
            wrong.push(format!("`examples.silent` {}: the rule decides", at + 1));
        } else if let Some(class) = example.class.as_deref().filter(|class| *class != verdict.class.as_str()) {
            wrong.push(format!(
                "`examples.silent` {}: {} comes out, not {class} ({})",
                at + 1,
                verdict.class,
                verdict.rule
            ));
        }
    }
    wrong
}

/// Judges an example.
fn judge(classifier: &Classifier, example: &RawExample) -> Verdict {
    let at = ReadAt::utc(NOW);
    if example.status.is_some() || !example.body.is_empty() || !example.headers.is_empty() {
        let headers: Vec<(&str, &str)> = example
            .headers
            .iter()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim(), value.trim()))
            .collect();
        let method = if example.method.is_empty() { "POST" } else { &example.method };
        let outcome = HttpOutcome {
            method,
            status: example.status.unwrap_or(200),
            headers: &headers,
            body: Excerpt::whole(example.body.as_bytes()),
            reached: Reached::Answered,
            elapsed: Duration::ZERO,
        };
        return classifier.http(&outcome, &at);
    }
    let outcome = CommandOutcome {
        exit: Exit::Code(example.exit.unwrap_or(1)),
        stdout: Excerpt::whole(example.stdout.as_bytes()),
        stderr: Excerpt::whole(example.stderr.as_bytes()),
        elapsed: Duration::ZERO,
    };
    classifier.command(&outcome, &at)
}
