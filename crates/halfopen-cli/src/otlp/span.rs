//! One span: what is told of a call or of an attempt when it is over.

use std::time::{SystemTime, UNIX_EPOCH};

use super::context::Context;

/// Which side of a request a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A caller asked us.
    Server,
    /// We ask a dependency.
    Client,
    /// Neither.
    Internal,
}

/// Returns a method as spans name it: a caller's own invention is no name. <https://opentelemetry.io/docs/specs/semconv/http/http-spans/>
pub(crate) fn method_word(method: &http::Method) -> &'static str {
    const KNOWN: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("_OTHER")
}

/// A value that is told beside a span.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told {
    /// A text, secrets replaced.
    Text(String),
    /// A number.
    Whole(i64),
    /// A truth.
    Truth(bool),
}

impl From<&str> for Told {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Told {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u32> for Told {
    fn from(number: u32) -> Self {
        Self::Whole(number.into())
    }
}

impl From<u16> for Told {
    fn from(number: u16) -> Self {
        Self::Whole(number.into())
    }
}

impl From<i64> for Told {
    fn from(number: i64) -> Self {
        Self::Whole(number)
    }
}

impl From<bool> for Told {
    fn from(truth: bool) -> Self {
        Self::Truth(truth)
    }
}

/// A span.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    /// Where it belongs.
    pub(crate) context: Context,
    /// The span before it.
    pub(crate) parent: Option<[u8; 8]>,
    /// What vendors said beside the caller's place.
    pub(crate) state: String,
    /// Its name.
    pub(crate) name: String,
    /// Its side.
    pub(crate) kind: Kind,
    /// When it began and ended, in nanoseconds since the unix epoch.
    pub(crate) began_ns: u64,
    pub(crate) ended_ns: u64,
    /// What is told.
    pub(crate) told: Vec<(&'static str, Told)>,
    /// Why it failed, in a word, if it did.
    pub(crate) error: Option<String>,
}

impl Span {
    /// Begins a span.
    pub(crate) fn new(context: Context, parent: Option<[u8; 8]>, name: String, kind: Kind) -> Self {
        let began_ns = now_ns();
        let (state, told) = (String::new(), Vec::with_capacity(12));
        Self { context, parent, state, name, kind, began_ns, ended_ns: began_ns, told, error: None }
    }

    /// Tells something.
    pub(crate) fn tell(&mut self, name: &'static str, value: impl Into<Told>) {
        self.told.push((name, value.into()));
    }

    /// Ends it.
    pub(crate) fn end(&mut self) {
        self.ended_ns = now_ns().max(self.began_ns);
    }
}

/// Returns the wall clock's time, which is what a collector compares.
pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
