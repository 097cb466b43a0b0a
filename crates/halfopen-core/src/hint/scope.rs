//! Finds out how much a hint covers: everything, or one model, where the dependency says so.

use super::{HintInput, text};
use crate::verdict::Scope;
use regex::Regex;
use serde_json::Value;
use std::sync::LazyLock;

/// Sentences that speak of one model's limit. Over cleaned text.
#[expect(clippy::expect_used, reason = "the pattern is a constant and a test compiles it")]
static ONE_MODEL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"\b(?:opus|sonnet|haiku)\b(?:[ -][0-9.]+)? (?:weekly |daily |5-hour |usage |session )?limit\b",
        r"|\bon this model\b|\bfor this model\b|\bthis model'?s? (?:is |has |limit|quota|capacity)",
        r"|\blimit (?:reached|exceeded) for (?:model )?[`'\x22]?(?:gpt|o[1-9]|claude|gemini|llama|mistral|qwen|deepseek|grok|codex|kimi|glm)",
        r"|\brequests to (?:gpt|o[1-9]|claude|gemini|llama)",
        r"|_per_model|per model\b",
    ))
    .expect("a valid pattern")
});

/// Each sentence above holds one of these.
const WORDS: [&str; 7] =
    ["model", "opus", "sonnet", "haiku", "limit reached for ", "limit exceeded for ", "requests to "];

/// Returns whether a cleaned text speaks of one model's limit. Without one of these words it does not, and the
/// expression need not be compiled.
fn is_of_one_model(text: &str) -> bool {
    WORDS.iter().any(|word| text.contains(word)) && ONE_MODEL.is_match(text)
}

/// Returns what a hint in these parts of an outcome covers.
pub(super) fn read(input: &HintInput<'_>) -> Scope {
    let in_text = || input.texts.iter().any(|raw| is_of_one_model(&text::clean(raw)));
    let in_json = || input.json.iter().any(|body| says(body, 0));
    if in_text() || in_json() { Scope::Part("model".to_owned()) } else { Scope::Whole }
}

fn says(body: &Value, depth: usize) -> bool {
    match body {
        Value::String(sentence) => sentence.len() <= 64 * 1024 && is_of_one_model(&text::clean(sentence)),
        Value::Array(items) => depth < 16 && items.iter().any(|item| says(item, depth + 1)),
        Value::Object(fields) => {
            depth < 16
                && fields.iter().any(|(key, value)| match key.as_str() {
                    "quotaDimensions" | "quota_dimensions" => value.get("model").is_some(),
                    _ => says(value, depth + 1),
                })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("Opus weekly limit reached ∙ resets Oct 31, 9am" => true)]
    #[test_case("You have exhausted your capacity on this model." => true)]
    #[test_case("Usage limit reached for gemini-3-flash-preview." => true)]
    #[test_case("Rate limit reached for gpt-4o in organization org-example" => true)]
    #[test_case("You've hit your weekly limit · resets Jun 29, 3am (Asia/Singapore)" => false)]
    #[test_case("Too Many Requests: retry after 35" => false)]
    fn one_models_limit_is_told_from_the_whole(sentence: &str) -> bool {
        is_of_one_model(&text::clean(sentence))
    }
}
