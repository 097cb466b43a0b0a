//! Turns an outcome into facts that rules can be asked about: status, headers, error codes, error messages.
//!
//! This is where it is decided what may be looked at. A rule never sees a whole output: it sees the parts that are the
//! error itself. What a model, a document or another program wrote is left out here, once, so that no rule has to think
//! of it. The price is that extraction is code while recognition is data; it has been kept to shapes that many services
//! and tools share.

pub(crate) mod command;
pub(crate) mod envelope;
pub(crate) mod frames;
pub(crate) mod http;
pub(crate) mod lenient;
pub(crate) mod markup;
pub(crate) mod printed;
pub(crate) mod quoted;
pub(crate) mod tree;

use serde_json::Value;

use super::text::{Text, fold};
use crate::outcome::Exit;

/// The most messages and codes kept of one outcome.
const KEPT_MAX: usize = 64;

/// The longest message that is looked at, in bytes.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// What rules can be asked about.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// The HTTP status, of the answer or as it was printed; 0 if there was no answer.
    pub(crate) status: Option<Fact<u16>>,
    /// How the command ended.
    pub(crate) exit: Option<Exit>,
    /// The request's method.
    pub(crate) method: String,
    /// Headers: of the answer, printed by a tool, or inside a body.
    pub(crate) headers: Vec<Header>,
    /// Error codes.
    pub(crate) codes: Vec<Fact<String>>,
    /// Error messages.
    pub(crate) messages: Vec<Text>,
    /// JSON that is the error.
    pub(crate) json: Vec<Fact<Value>>,
    /// Elements of the XML that is the error, as `Error/Code`.
    pub(crate) xml: Vec<(String, String)>,
    /// Error events of a stream, by name.
    pub(crate) sse: Vec<(String, Value)>,
    /// JSON events that the command printed.
    pub(crate) events: Vec<Value>,
    /// The command's standard output, as far as it is kept.
    pub(crate) stdout: Option<Text>,
    /// The command's standard error, as far as it is kept.
    pub(crate) stderr: Option<Text>,
    /// The answer's body, as far as it is kept.
    pub(crate) body: Option<Text>,
    /// The raw text of an HTML or XML body, for hints that stand in its markup.
    pub(crate) markup: Option<String>,
}

/// Something found, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fact<T> {
    pub(crate) value: T,
    pub(crate) place: String,
}

/// A header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Lower case.
    pub(crate) name: String,
    pub(crate) value: String,
    /// Whether it came with the answer, rather than inside a text or a body.
    pub(crate) own: bool,
}

impl Facts {
    /// Adds an error code, in all the forms in which it may be compared.
    pub(crate) fn add_code(&mut self, written: &str, place: &str) {
        for code in code_forms(written) {
            if self.codes.len() < KEPT_MAX && !self.codes.iter().any(|known| known.value == code) {
                self.codes.push(Fact { value: code, place: place.to_owned() });
            }
        }
    }

    /// Adds an error message.
    pub(crate) fn add_message(&mut self, text: &str, place: &str) {
        let text = cut(text.trim(), MESSAGE_BYTES_MAX);
        if text.is_empty() || self.messages.len() >= KEPT_MAX {
            return;
        }
        let message = Text::new(place, text);
        if !self.messages.iter().any(|known| known.shown == message.shown) {
            self.messages.push(message);
        }
    }

    /// Notes a status if none is known yet.
    pub(crate) fn add_status(&mut self, status: u16, place: &str) {
        if self.status.is_none() {
            self.status = Some(Fact { value: status, place: place.to_owned() });
        }
    }

    /// Adds a header that stood inside a text or a body.
    pub(crate) fn add_inner_header(&mut self, name: &str, value: &str) {
        if self.headers.len() < KEPT_MAX {
            self.headers.push(Header { name: name.to_ascii_lowercase(), value: value.trim().to_owned(), own: false });
        }
    }

    /// Returns the values of a header, in order.
    pub(crate) fn header<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f Header> {
        self.headers.iter().filter(move |header| header.name == name)
    }
}

/// Returns the forms in which an error code is compared: folded, without namespace, URL tail and decoration.
fn code_forms(written: &str) -> Vec<String> {
    let folded = fold(written);
    let mut code = folded.as_str();
    if code.is_empty() || code.len() > 160 {
        return Vec::new();
    }
    if let Some((head, tail)) = code.split_once(":http") {
        // `ThrottlingException:http://internal.amazon.com/coral/`
        code = if tail.starts_with("://") || tail.starts_with("s://") { head } else { code };
    }
    let code = code.rsplit('#').next().unwrap_or(code);
    let code = code.trim_matches(|c: char| matches!(c, '.' | '/' | '"' | '\'' | '[' | ']' | '(' | ')' | ':' | ','));
    let mut forms = vec![code.to_owned()];
    if code.contains('/') {
        // `path/insufficient_space/..`, `https://api.example.com/problems/credits`
        forms.extend(code.split('/').filter(|part| !part.is_empty() && !part.contains(':')).map(str::to_owned));
    }
    if let Some((first, _)) = code.split_once('.').filter(|(first, _)| first.len() > 3 && !first.contains(['/', ' '])) {
        // `Throttling.User`, `InvalidParameter.Format`
        forms.push(first.to_owned());
    }
    if let Some((_, last)) = code.rsplit_once('.').filter(|(_, last)| last.len() > 3 && !last.contains('/')) {
        forms.push(last.to_owned());
    }
    forms.retain(|form| !form.is_empty());
    forms
}

/// Returns at most `max` bytes of the start of `text`, cut at a character.
pub(crate) fn cut(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns at most `max` bytes of the end of `text`, cut at a character.
pub(crate) fn cut_front(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut start = text.len() - max;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("abc", "abc", "abc"; "short enough")]
    #[test_case("abcd", "abc", "bcd")]
    #[test_case("abécd", "ab", "cd"; "no character is halved")]
    fn a_text_is_cut_at_a_character(text: &str, start: &str, end: &str) {
        assert_eq!((cut(text, 3), cut_front(text, 3)), (start, end));
    }

    #[test_case("com.amazonaws.textract#ThrottlingException", "throttlingexception")]
    #[test_case("ThrottlingException:http://internal.amazon.com/coral/", "throttlingexception")]
    #[test_case("too_many_requests/.", "too_many_requests")]
    #[test_case("path/insufficient_space/..", "insufficient_space")]
    #[test_case("google.api_core.exceptions.ResourceExhausted", "resourceexhausted")]
    #[test_case("https://iana.org/assignments/http-problem-types#quota-exceeded", "quota-exceeded")]
    #[test_case("invalid_request_error", "invalid_request_error")]
    #[test_case("Throttling.User", "throttling")]
    fn codes_are_compared_without_namespace(written: &str, form: &str) {
        assert!(code_forms(written).iter().any(|f| f == form), "{:?}", code_forms(written));
    }
}
