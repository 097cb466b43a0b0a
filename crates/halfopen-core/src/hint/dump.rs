//! Finds headers that a program printed in the middle of its text: a Python `dict`, a Node object, a broken JSON.
//!
//! Only headers about limits are looked for, and what they say goes through the same rules as real headers: a reset
//! counts only if its counter is at 0. `Retry-After` is left to the grammar of sentences, which knows it as a verb.

use super::headers::Headers;
use regex::Regex;
use std::sync::LazyLock;

/// Over cleaned text, in which `X-RateLimit` reads `x-rate_limit`.
#[expect(clippy::expect_used, reason = "the pattern is a constant and a test compiles it")]
static PAIR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r#"["']?\b((?:[a-z0-9]+[-_]){0,6}(?:ratelimit|rate[_-]limit|codex)(?:[-_][a-z0-9]+){0,6})\\?["']?\s{0,2}(?::|=>|=)\s{0,2}\[?"#,
        r#"(?:\\?"([^"\\]+)\\?"|'([^']+)'|([^\s,;}\]"']+))"#,
    ))
    .expect("a valid pattern")
});

/// A longer value is none. Not counted in the expression: a class of characters that may stand 120 times is compiled 120
/// times, which took longer than all else that is done with a failure.
const VALUE_CHARS_MAX: usize = 120;

/// No dump has more headers about limits than this.
const PAIRS_MAX: usize = 64;

/// Returns the headers about limits in a cleaned text, if there are any.
pub(super) fn headers(text: &str) -> Option<Headers> {
    if !text.contains("limit") && !text.contains("codex") {
        return None;
    }
    let pairs: Vec<(String, String)> = PAIR
        .captures_iter(text)
        .take(PAIRS_MAX)
        .filter_map(|found| {
            let name = found.get(1)?.as_str().replace("rate_limit", "ratelimit").replace("rate-limit", "ratelimit");
            // A name without a hyphen is a variable, not a header.
            let value = found.get(2).or_else(|| found.get(3)).or_else(|| found.get(4))?.as_str();
            (name.contains('-') && value.chars().nth(VALUE_CHARS_MAX).is_none()).then(|| (name, value.to_owned()))
        })
        .collect();
    (!pairs.is_empty()).then(|| Headers::new(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))))
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;
    use test_case::test_case;

    #[test_case("headers={'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': '1772452845'}" => 2)]
    #[test_case("\"headers\":{\"X-Codex-Primary-Used-Percent\":\"100\"}" => 1)]
    #[test_case("{ 'x-ratelimit-reset-tokens': '6m0s', date: 'Mon' }" => 1)]
    #[test_case("x-ratelimit-reset: [ '42' ]" => 1)]
    #[test_case("rate_limit = 5" => 0; "a variable")]
    #[test_case("the rate limit is 5" => 0)]
    fn printed_headers_are_found(dump: &str) -> usize {
        headers(&text::clean(dump)).map_or(0, |headers| headers.iter().count())
    }
}
