//! Turns an outcome that no rule knows into a rule to paste under `classify:`.
//!
//! The suggestion is a beginning: it takes the strongest thing the outcome offers (an error code, then the words of
//! the message that are no numbers or ids), names the class nothing follows from, and brings the outcome along as its
//! example. The person who pastes it says what it means.

use super::Classifier;
use super::facts::{self, Facts};
use super::text::fold;
use crate::outcome::{CommandOutcome, HttpOutcome};
use crate::redact;

/// The most words of a message that make a phrase.
const WORDS_MAX: usize = 7;

/// Returns YAML to paste under `classify:` for a command's outcome, or `None` if it offers nothing to go by.
#[must_use]
pub fn suggest_command(classifier: &Classifier, outcome: &CommandOutcome<'_>) -> Option<String> {
    let (captured, _) = classifier.hear(outcome);
    let (stdout, stderr) = (captured.stdout.head.clone(), captured.stderr.head.clone());
    let reading = facts::command::read(&classifier.pack.output, outcome.exit, captured);
    let code = match outcome.exit {
        crate::outcome::Exit::Code(code) => code,
        crate::outcome::Exit::Signal(signal) => signal + 128,
        _ => 1,
    };
    let mut example = format!("        - exit: {code}\n");
    for (name, text) in [("stdout", stdout), ("stderr", stderr)] {
        if !text.trim().is_empty() {
            example.push_str(&format!("          {name}: {}\n", quoted(&sample(&text))));
        }
    }
    let stderr_first = reading.facts.stderr.as_ref().filter(|text| !text.folded().is_empty());
    let fallback = stderr_first.or(reading.facts.stdout.as_ref()).map(|text| text.shown.clone());
    rule(&reading.facts, fallback.as_deref(), outcome.exit == crate::outcome::Exit::Code(0), &example)
}

/// Returns YAML to paste under `classify:` for an HTTP outcome, or `None` if it offers nothing to go by.
#[must_use]
pub fn suggest_http(_classifier: &Classifier, outcome: &HttpOutcome<'_>) -> Option<String> {
    let reading = facts::http::read(outcome, true);
    let mut example = format!("        - status: {}\n", outcome.status);
    let kind = outcome.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if let Some((_, kind)) = kind {
        example.push_str(&format!("          headers: [{}]\n", quoted(&format!("content-type: {kind}"))));
    }
    let body = String::from_utf8_lossy(outcome.body.head);
    if !body.trim().is_empty() {
        example.push_str(&format!("          body: {}\n", quoted(&sample(&body))));
    }
    let success = (200..400).contains(&outcome.status);
    rule(&reading.facts, Some(&body), success, &example)
}

fn rule(facts: &Facts, fallback: Option<&str>, success: bool, example: &str) -> Option<String> {
    let mut conditions = Vec::new();
    if success {
        conditions.push(match facts.exit {
            Some(_) => "      - exit: 0".to_owned(),
            None => "      - status: 2xx".to_owned(),
        });
    }
    let code = facts
        .codes
        .iter()
        .map(|code| code.value.as_str())
        .find(|code| code.len() > 3 && code.contains(|c: char| c.is_ascii_alphabetic()) && !code.contains(' '));
    let message = facts.messages.first().map(|message| message.shown.as_str()).or(fallback);
    let phrase = message.and_then(phrase);
    let name = match (code, &phrase) {
        (Some(code), _) => {
            conditions.push(format!("      - code: [{}]", quoted(code)));
            code.to_owned()
        }
        (None, Some(phrase)) => {
            let place = if !facts.messages.is_empty() {
                "message"
            } else if facts.exit.is_some() {
                if facts.stderr.as_ref().is_some_and(|text| !text.folded().is_empty()) { "stderr" } else { "stdout" }
            } else {
                "body"
            };
            conditions.push(format!("      - {place}: {{says: [{}]}}", quoted(phrase)));
            phrase.split(' ').take(4).collect::<Vec<_>>().join("-")
        }
        (None, None) => return None,
    };
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    let name = name.trim_matches('-').to_owned();
    Some(format!(
        "classify:\n  - name: {}\n    when:\n{}\n    # One of: {}.\n    class: server_error\n    examples:\n      speaks:\n{example}",
        if name.is_empty() { "my-rule" } else { &name },
        conditions.join("\n"),
        crate::verdict::Class::ALL.map(crate::verdict::Class::as_str).join(", "),
    ))
}

/// Returns the longest run of words in the first line of a message that are no numbers, ids or paths.
fn phrase(message: &str) -> Option<String> {
    let line = message.lines().map(str::trim).find(|line| line.chars().filter(|c| c.is_alphabetic()).count() > 3)?;
    let folded = fold(line);
    let mut best: Vec<&str> = Vec::new();
    let mut run: Vec<&str> = Vec::new();
    for word in folded.split(' ') {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        let plain = !bare.is_empty() && bare.chars().all(|c| c.is_alphabetic() || matches!(c, '\'' | '-' | '_'));
        if plain && !word.starts_with(bare) {
            best = longer(best, std::mem::take(&mut run));
        }
        if plain && run.len() < WORDS_MAX {
            run.push(bare);
            // A mark between two words breaks the phrase: it must stand in the text as it is.
            if !word.ends_with(bare) {
                best = longer(best, std::mem::take(&mut run));
            }
        } else {
            best = longer(best, std::mem::take(&mut run));
        }
    }
    best = longer(best, run);
    (!best.is_empty()).then(|| best.join(" "))
}

fn longer<'w>(one: Vec<&'w str>, other: Vec<&'w str>) -> Vec<&'w str> {
    if other.len() > one.len() { other } else { one }
}

/// Returns a short, redacted sample of a text.
fn sample(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(12).collect();
    redact::redact(facts::cut(&lines.join("\n"), 1500))
}

/// Returns `text` as a double-quoted YAML scalar.
fn quoted(text: &str) -> String {
    // JSON strings are YAML strings.
    serde_json::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("Error 4711: the flux capacitor is not charged (id 9a)", "the flux capacitor is not charged")]
    #[test_case("backend says: no", "backend says")]
    fn a_phrase_is_the_longest_run_of_plain_words(message: &str, expected: &str) {
        assert_eq!(phrase(message).as_deref(), Some(expected));
    }
}
