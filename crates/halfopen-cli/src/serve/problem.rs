//! Builds every answer that the gateway gives by itself: RFC 9457 problem documents, in the caller's dialect.
//!
//! [`Kind`] says what is wrong, [`Dialect`] in which shape it is told. `type` is a URN, not a URL: nobody owns a page that
//! could go stale, and nothing can be fetched by following it. Kinds are stable; callers may branch on them.
//!
//! SDKs of some dependencies read the error out of a body of their vendor's shape and show nothing else. Which shape a
//! dependency's callers expect follows from its profile ([`Dialect::of`]). Every shape carries the members of the problem
//! beside its own, and `x-should-retry: false`: whatever can be tried again was tried, and an SDK that adds two attempts
//! of its own to ours makes one call three.
//!
//! What a dependency answered is never rewritten here: its errors pass as they are.

mod dialect;
mod kind;

use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderValue, Response};

use super::body::{self, Body};
pub(super) use dialect::Dialect;
use dialect::Document;
pub(super) use kind::Kind;

/// How the call ended, in one word.
pub(super) const OUTCOME: HeaderName = HeaderName::from_static("halfopen-outcome");
/// How many attempts were made.
pub(super) const ATTEMPTS: HeaderName = HeaderName::from_static("halfopen-attempts");
/// Which circuit judged the call.
pub(super) const CIRCUIT: HeaderName = HeaderName::from_static("halfopen-circuit");
/// Tells SDKs whether they may repeat the call on their own.
pub(super) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// More bytes than most bodies have, so that writing one moves nothing.
const BYTES_MOSTLY: usize = 1024;
/// As many fields as an answer of ours has, those of its caller's connection included.
const FIELDS_MAX: usize = 12;

/// From when on asking again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RetryAt {
    /// How long that is from now.
    pub(super) after: Duration,
    /// The same on the wall clock.
    pub(super) at: jiff::Timestamp,
}

impl RetryAt {
    /// Returns the value of `Retry-After`: whole seconds, rounded up, at least one.
    fn seconds(self) -> u64 {
        let whole = self.after.as_secs();
        let part = u64::from(self.after.subsec_nanos() > 0);
        whole.saturating_add(part).max(1)
    }
}

/// One answer of the gateway's own.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    kind: Kind,
    detail: String,
    dependency: Option<String>,
    circuit: Option<String>,
    state: Option<&'static str>,
    reason: Option<String>,
    retry_at: Option<RetryAt>,
    attempts: u32,
    class: Option<&'static str>,
    user_message: Option<String>,
}

impl Problem {
    /// Returns what is wrong this time, as the caller is told.
    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns a problem; `detail` says in whole sentences what is wrong this time and what can be done.
    ///
    /// It must hold no secret and nothing of the request that has not passed [`halfopen_core::redact`].
    pub(super) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            dependency: None,
            circuit: None,
            state: None,
            reason: None,
            retry_at: None,
            attempts: 0,
            class: None,
            user_message: None,
        }
    }

    /// Returns what kind it is.
    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Names the dependency that was called.
    pub(super) fn dependency(mut self, name: &str) -> Self {
        self.dependency = Some(name.to_owned());
        self
    }

    /// Names the circuit that judged, and its breaker's state: `closed`, `open`, `half_open`.
    pub(super) fn circuit(mut self, circuit: &str, state: Option<&'static str>) -> Self {
        self.circuit = Some(circuit.to_owned());
        self.state = state;
        self
    }

    /// Says why, in a word that scripts may read.
    pub(super) fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Says from when on asking again can help.
    pub(super) fn retry_at(mut self, retry_at: Option<RetryAt>) -> Self {
        self.retry_at = retry_at;
        self
    }

    /// Says how many attempts were made.
    pub(super) fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Names the class of the last attempt.
    pub(super) fn class(mut self, class: &'static str) -> Self {
        self.class = Some(class);
        self
    }

    /// Passes on what the policy wants people to be told.
    pub(super) fn user_message(mut self, message: Option<&str>) -> Self {
        self.user_message = message.map(str::to_owned);
        self
    }

    /// Returns the answer, in the shape its reader expects.
    pub(super) fn answer(&self, dialect: Dialect) -> Response<Body> {
        let mut bytes = Vec::with_capacity(BYTES_MOSTLY);
        if serde_json::to_writer(&mut bytes, &self.document(dialect)).is_err() {
            bytes.clear();
        }
        bytes.push(b'\n');
        let mut response = Response::new(body::full(bytes));
        *response.status_mut() = self.kind.status();
        let media_type = match dialect {
            Dialect::Problem | Dialect::OpenAi | Dialect::Google => "application/problem+json",
            // Its `type` is not the problem's.
            Dialect::Anthropic => "application/json",
        };
        let headers = response.headers_mut();
        headers.reserve(FIELDS_MAX);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        headers.insert(OUTCOME, HeaderValue::from_static(self.kind.outcome()));
        headers.insert(ATTEMPTS, attempts_field(self.attempts));
        if let Some(retry_at) = self.retry_at {
            headers.insert(RETRY_AFTER, HeaderValue::from(retry_at.seconds()));
        }
        if let Some(circuit) = self.circuit.as_deref().and_then(|circuit| HeaderValue::from_str(circuit).ok()) {
            headers.insert(CIRCUIT, circuit);
        }
        response
    }

    /// Returns the body, in the shape its reader expects.
    fn document(&self, dialect: Dialect) -> Document<'_> {
        Document { problem: self, dialect }
    }
}

/// Returns the value of `Halfopen-Attempts`.
pub(super) fn attempts_field(attempts: u32) -> HeaderValue {
    // Hardly ever another.
    match attempts {
        0 => HeaderValue::from_static("0"),
        1 => HeaderValue::from_static("1"),
        more => HeaderValue::from(more),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn refused(after: Duration) -> Problem {
        let at = jiff::Timestamp::from_second(1_796_000_042).unwrap();
        Problem::new(Kind::CircuitOpen, "The breaker of `llm` is open after 5 failures. Nothing was sent.")
            .dependency("llm")
            .circuit("llm@region=eu", Some("open"))
            .reason("open")
            .retry_at(Some(RetryAt { after, at }))
    }

    fn pretty(problem: &Problem, dialect: Dialect) -> String {
        serde_json::to_string_pretty(&problem.document(dialect)).unwrap()
    }

    /// S154
    #[test]
    fn a_refusal_is_told_in_the_dialect_of_its_reader() {
        let problem = refused(Duration::from_secs(42));
        insta::assert_snapshot!("problem", pretty(&problem, Dialect::Problem));
        insta::assert_snapshot!("openai", pretty(&problem, Dialect::OpenAi));
        insta::assert_snapshot!("anthropic", pretty(&problem, Dialect::Anthropic));
        insta::assert_snapshot!("google", pretty(&problem, Dialect::Google));
    }

    #[test_case(Duration::ZERO, "1"; "now")]
    #[test_case(Duration::from_millis(200), "1"; "a part of a second")]
    #[test_case(Duration::from_millis(1001), "2"; "rounded up")]
    #[test_case(Duration::from_secs(42), "42"; "whole seconds")]
    fn retry_after_is_never_earlier_than_the_end_of_the_refusal(after: Duration, expected: &str) {
        assert_eq!(refused(after).answer(Dialect::Problem).headers()[RETRY_AFTER], expected);
    }

    #[test]
    fn a_refusal_tells_sdks_not_to_repeat_and_caches_not_to_keep() {
        let answer = refused(Duration::from_secs(3)).answer(Dialect::OpenAi);
        assert_eq!(answer.status(), 503);
        assert_eq!(answer.headers()[SHOULD_RETRY], "false");
        assert_eq!(answer.headers()[CACHE_CONTROL], "no-store");
        assert_eq!(answer.headers()[OUTCOME], "refused");
        assert_eq!(answer.headers()[ATTEMPTS], "0");
        assert_eq!(answer.headers()[CIRCUIT], "llm@region=eu");
    }
}
