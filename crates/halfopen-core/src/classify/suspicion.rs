//! Tells at a glance that an answer is what its status says, so that a success costs no parsing.
//!
//! An envelope that says that a call failed says so in words that hardly any answer has in it: the names of its members
//! and what they are set to. Where none of them stands anywhere in a body, no envelope is in it, and it need not be
//! read. The words are pieces of the names that [`super::facts::envelope`] and the packs' `fails_when` know, which a
//! test holds together; a piece too much costs time, a piece too few would lose an error. A document that ends too
//! early is suspect as well.
//!
//! Refused was to look for members only: that is parsing.

use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, MatchKind};

/// Pieces of what an envelope of a failure says, in any case of letters.
const PIECES: &[&str] =
    &["err", "fault", "exception", "\"ok\"", "succe", "status", "code\"", "fail", "documentation_url", "__type"];

/// A word that holds a piece and says nothing: every answer of some APIs has `"service_tier": "default"`. No piece reaches
/// out of it, so what stands beside it is found all the same.
const HARMLESS: &str = "default";

/// Returns whether a document may hold an envelope of a failure, or may be cut off.
pub(super) fn suspects(body: &[u8]) -> bool {
    static FINDER: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    let finder = FINDER.get_or_init(|| {
        let words = PIECES.iter().chain([&HARMLESS]);
        AhoCorasick::builder().ascii_case_insensitive(true).match_kind(MatchKind::LeftmostFirst).build(words).ok()
    });
    let Some(finder) = finder else { return true };
    let speaks = finder.find_iter(body).any(|found| found.pattern().as_usize() < PIECES.len());
    speaks || is_cut_off(body)
}

/// Returns whether a body begins as JSON and does not end as what it began as.
fn is_cut_off(body: &[u8]) -> bool {
    let text = body.trim_ascii();
    matches!(text.first(), Some(b'{' | b'[')) && serde_json::from_slice::<serde::de::IgnoredAny>(text).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case(r#"{"id":"chatcmpl-1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":12}}"#; "a chat completion")]
    #[test_case(r#"{"pages":[{"text":"Invoice 17"}]}"#; "a page")]
    #[test_case(r#"{"id":"chatcmpl-1","choices":[],"service_tier":"default"}"#; "a tier of service")]
    #[test_case("[]"; "an empty list")]
    #[test_case(""; "nothing")]
    #[test_case("scanned"; "plain text")]
    fn a_plain_answer_is_above_suspicion(body: &str) {
        assert!(!suspects(body.as_bytes()));
    }

    #[test_case(r#"{"pages":[{"text":"Invoice"#; "cut off")]
    #[test_case(r#"{"Error":{"Message":"x"}}"#; "capitals")]
    #[test_case(r#"{"defaultFault":{"code":1}}"#; "behind a harmless word")]
    #[test_case(r#"{"ok" : false}"#)]
    fn an_answer_that_may_be_a_failure_is_looked_at(body: &str) {
        assert!(suspects(body.as_bytes()));
    }
}
