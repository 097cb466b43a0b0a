//! Reads what an operator sends: the query, and a JSON object in the body.
//!
//! Whoever steers a circuit with a slip of the pen must hear of it, so nothing is guessed: a key that is not known, a
//! value of another kind, a key twice, an empty body are all 400, with the key, the value and what is allowed. An empty
//! body is not an empty object: a page of another origin can send the one, and not the other.

use std::time::Duration;

use halfopen_core::redact;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde_json::{Map, Value};

use super::super::access::Right;
use super::super::problem::{Kind, Problem};
use super::route::Operation;

/// The longest body that is read, in bytes.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// How long it may take to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(10);
/// The longest reason, in characters.
const REASON_CHARS_MAX: usize = 500;

/// Returns the problem of a request that cannot be understood.
pub(in crate::serve) fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(Kind::BadRequest, detail)
}

/// Returns a value as it may be repeated to whoever sent it.
pub(in crate::serve) fn shown(value: &str) -> String {
    const CHARS_MAX: usize = 80;
    let line = redact::line(value);
    if line.chars().count() <= CHARS_MAX { line } else { line.chars().take(CHARS_MAX).chain(['…']).collect() }
}

/// Decodes a percent-encoded word; `None` if it is not text afterwards. In a query `+` is a space.
pub(in crate::serve) fn decoded(word: &str, query: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            b'+' if query => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// The query of a request, decoded; every key is one that is known, and stands there once.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the query of a request.
    pub(super) fn read(raw: &str, operation: Operation) -> Result<Self, Problem> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        if operation.right() == Right::Nobody {
            // Whoever probes whether we live may add what it likes against caches.
            return Ok(Self::default());
        }
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Some(key), Some(value)) = (decoded(key, true), decoded(value, true)) else {
                return Err(bad(format!("`{}` in the query is not percent-encoded text.", shown(pair))));
            };
            if !operation.query().iter().any(|param| param.name == key) {
                let known: Vec<&str> = operation.query().iter().map(|param| param.name).collect();
                let known = if known.is_empty() { "none is".to_owned() } else { known.join(", ") };
                return Err(bad(format!("`{}` is no key of this query; known: {known}.", shown(&key))));
            }
            if pairs.iter().any(|(known, _)| *known == key) {
                return Err(bad(format!("`{key}` stands twice in the query.")));
            }
            pairs.push((key, value));
        }
        Ok(Self(pairs))
    }

    /// Returns the value of a key.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// Returns whether a key is set.
    pub(super) fn flag(&self, key: &str) -> Result<bool, Problem> {
        match self.text(key) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1" | "") => Ok(true),
            Some(other) => Err(bad(format!("`{key}` is `{}`; allowed are true and false.", shown(other)))),
        }
    }
}

/// The JSON object of a body. Keys are taken out one by one; one that is left is not known.
#[derive(Debug)]
pub(super) struct Object(Map<String, Value>);

impl Object {
    /// Reads the body of a request; `example` shows what a right one looks like.
    pub(super) async fn read(body: Incoming, example: &str) -> Result<Self, Problem> {
        let collected = tokio::time::timeout(BODY_WITHIN, Limited::new(body, BODY_BYTES_MAX).collect()).await;
        let bytes = match collected {
            Err(_) => {
                let detail = format!("The body did not arrive within {} s.", BODY_WITHIN.as_secs());
                return Err(Problem::new(Kind::CallerTooSlow, detail));
            }
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                let detail = format!("The body is longer than {BODY_BYTES_MAX} bytes.");
                return Err(Problem::new(Kind::BodyTooLarge, detail));
            }
            Ok(Err(_)) => return Err(bad("The body broke off.")),
            Ok(Ok(whole)) => whole.to_bytes(),
        };
        Self::parse(&bytes, example)
    }

    /// Reads a body that has arrived.
    pub(super) fn parse(bytes: &[u8], example: &str) -> Result<Self, Problem> {
        if bytes.trim_ascii().is_empty() {
            return Err(bad(format!("The body is empty; send a JSON object, for example {example}.")));
        }
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(map)) => Ok(Self(map)),
            Ok(_) => Err(bad(format!("The body is no JSON object; send for example {example}."))),
            // The message of the parser names places and kinds, never what stands there.
            Err(error) => Err(bad(format!("The body is no JSON: {error}; send for example {example}."))),
        }
    }

    /// Takes a value out.
    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.0.remove(key).filter(|value| !value.is_null())
    }

    /// Takes the reason out; without one it is empty.
    pub(super) fn reason(&mut self) -> Result<String, Problem> {
        let reason = match self.take("reason") {
            None => return Ok(String::new()),
            Some(Value::String(reason)) => reason,
            Some(other) => return Err(bad(wrong("reason", &other, "a text"))),
        };
        if reason.chars().count() > REASON_CHARS_MAX || reason.chars().any(char::is_control) {
            return Err(bad(format!(
                "`reason` is `{}`; allowed are up to {REASON_CHARS_MAX} characters on one line.",
                shown(&reason)
            )));
        }
        Ok(reason)
    }

    /// Ends the reading: whatever was not taken is not known.
    pub(super) fn end(self, known: &str) -> Result<(), Problem> {
        match self.0.iter().find(|(_, value)| !value.is_null()).or_else(|| self.0.iter().next()) {
            None => Ok(()),
            Some((key, _)) => Err(bad(format!("`{}` is no key of this body; known are {known}.", shown(key)))),
        }
    }
}

/// Says what is wrong with a value.
pub(super) fn wrong(key: &str, value: &Value, allowed: &str) -> String {
    format!("`{key}` is `{}`; allowed is {allowed}.", shown(&value.to_string()))
}
