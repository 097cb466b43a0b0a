//! Finds the error codes that a tool printed: in brackets, by name, as an exception's name, as an errno.

use super::super::Facts;
use crate::classify::text::undecorated;

/// Adds the error codes that `text` states to `facts`.
pub(crate) fn codes(facts: &mut Facts, text: &str, place: &str) {
    for line in text.lines() {
        let bare = undecorated(line);
        parenthesised(facts, bare, place);
        named(facts, bare, place);
        exception_name(facts, bare, place);
        class_in_brackets(facts, bare, place);
        for word in bare.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
            if is_errno(word) || is_constant(word) {
                facts.add_code(word, place);
            }
        }
        if let Some(tag) = bare.split_whitespace().next_back().and_then(|word| word.strip_suffix("/.")) {
            facts.add_code(tag, place);
        }
    }
}

/// `An error occurred (ThrottlingException) when calling`, `ERROR: (SubscriptionRequestsThrottled) Number of`.
fn parenthesised(facts: &mut Facts, line: &str, place: &str) {
    for opener in ["error occurred (", "ERROR: (", "Error: (", "error: ("] {
        let Some(start) = line.find(opener) else { continue };
        let inner = &line[start + opener.len()..];
        if let Some(code) = inner.split(')').next().filter(|code| is_identifier(code)) {
            facts.add_code(code, place);
        }
    }
}

/// `ERROR CODE: X`, `npm error code X`, `code = Unavailable desc`, `Code: X`, `code: 'x'`, `(code: X)`.
fn named(facts: &mut Facts, line: &str, place: &str) {
    let lower = line.to_ascii_lowercase();
    let mut from = 0;
    while let Some(found) = lower[from..].find("code") {
        let at = from + found;
        from = at + 4;
        if lower[..at].ends_with(|c: char| c.is_ascii_alphanumeric()) && !lower[..at].ends_with("error") {
            continue;
        }
        let rest = &line[from..];
        let value = rest.trim_start_matches([' ', ':', '=', '"', '\'']);
        if value.len() == rest.len() || value.is_empty() {
            continue;
        }
        let end =
            value.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))).unwrap_or(value.len());
        if is_identifier(&value[..end]) {
            facts.add_code(&value[..end], place);
        }
    }
}

/// `google.api_core.exceptions.ResourceExhausted: 429 Quota`, `TerminalQuotaError: You have`.
fn exception_name(facts: &mut Facts, line: &str, place: &str) {
    for part in line.split(": ").take(3) {
        let word = part.rsplit([' ', '=', '"']).next().unwrap_or(part);
        let last = word.rsplit(['.', ':', '/', '\\', '$']).next().unwrap_or(word);
        let camel = last.starts_with(|c: char| c.is_ascii_uppercase()) && last.chars().any(|c| c.is_ascii_lowercase());
        if camel && last.len() > 5 && last.len() < 60 && is_identifier(last) {
            facts.add_code(last, place);
        }
    }
}

/// `app.rb:12:in 'call': the server responded with status 429 (Faraday::TooManyRequestsError)`.
fn class_in_brackets(facts: &mut Facts, line: &str, place: &str) {
    let Some((head, name)) = line.trim_end().strip_suffix(')').and_then(|head| head.rsplit_once(" (")) else { return };
    let last = name.rsplit([':', '\\', '.']).next().unwrap_or(name);
    let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b':' | b'\\' | b'.' | b'_'));
    if is_name && (name.contains("::") || head.contains(":in ")) && last.starts_with(|c: char| c.is_ascii_uppercase()) {
        facts.add_code(last, place);
    }
}

fn is_identifier(word: &str) -> bool {
    (3..=80).contains(&word.len())
        && word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

/// `ECONNREFUSED`, `EAI_AGAIN`.
fn is_errno(word: &str) -> bool {
    word.len() >= 4 && word.starts_with('E') && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
}

/// `RESOURCE_EXHAUSTED`, `UNAVAILABLE`.
fn is_constant(word: &str) -> bool {
    word.len() >= 8
        && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        && word.bytes().filter(u8::is_ascii_uppercase).count() >= 8
}
