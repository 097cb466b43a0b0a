//! Builds every answer that the gateway gives by itself: RFC 9457 problem documents, in the caller's dialect.
//!
//! [`Kind`] is the exhaustive list of what can be wrong, and one `match` each assigns its status, its title and whether
//! the call may have been executed. `type` is a URN, not a URL: nobody owns a page that could go stale, and nothing can
//! be fetched by following it. Kinds are stable; callers may branch on them.
//!
//! SDKs of some dependencies read the error out of a body of their vendor's shape and show nothing else. Which shape a
//! dependency's callers expect follows from its profile ([`Dialect::of`]). Every shape carries the members of the problem
//! beside its own, and `x-should-retry: false`: whatever can be tried again was tried, and an SDK that adds two attempts
//! of its own to ours makes one call three. No sentence here tells anybody to try again; `retry_at` and `Retry-After` say
//! from when on that can help.
//!
//! What a dependency answered is never rewritten here: its errors pass as they are.

use std::fmt;
use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::body::{self, Body};

/// How the call ended, in one word.
pub(super) const OUTCOME: HeaderName = HeaderName::from_static("halfopen-outcome");
/// How many attempts were made.
pub(super) const ATTEMPTS: HeaderName = HeaderName::from_static("halfopen-attempts");
/// Which circuit judged the call.
pub(super) const CIRCUIT: HeaderName = HeaderName::from_static("halfopen-circuit");
/// Tells SDKs whether they may repeat the call on their own.
pub(super) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// What begins the `type` of every problem.
const TYPE_PREFIX: &str = "urn:halfopen:problem:";

/// More bytes than most bodies have, so that writing one moves nothing.
const BYTES_MOSTLY: usize = 1024;
/// As many fields as an answer of ours has, those of its caller's connection included.
const FIELDS_MAX: usize = 12;

/// Everything the gateway answers by itself.
#[cfg_attr(not(test), expect(dead_code, reason = "some are for what is not built yet"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The door refused the call.
    CircuitOpen,
    /// The dependency could not be reached: name, connection, TLS.
    NotReached,
    /// The dependency did not answer in time, and the call was one that may be repeated.
    Timeout,
    /// The dependency's connection or answer broke off, and the call was one that may be repeated.
    AnswerLost,
    /// The dependency sent what is no HTTP answer.
    AnswerInvalid,
    /// The call was sent, its end is not known, and repeating it could do its work twice.
    OutcomeUnknown,
    /// The policy names no base URL for the dependency.
    NoUpstream,
    /// The credential that the policy names is not there.
    NoCredential,
    /// What had to be kept could not be written.
    NotDurable,
    /// The gateway cannot serve as it should.
    NotReady,
    /// The gateway is ending.
    ShuttingDown,
    /// The gateway carries as many calls as it may.
    TooManyCalls,
    /// The dependency's queue is full.
    QueueFull,
    /// The disk of the store is full.
    StorageFull,
    /// An earlier call with the same order key is still to be done.
    OrderHeld,
    /// No dependency has this name.
    UnknownDependency,
    /// Nothing lies at this path.
    NotFound,
    /// This path is not asked in this way.
    MethodNotAllowed,
    /// The body of the request has another media type than this path takes.
    UnsupportedMediaType,
    /// The request's framing could be read in two ways.
    BadFraming,
    /// The request is not well-formed.
    BadRequest,
    /// The path could lead outside the dependency's base URL.
    PathOutside,
    /// The request names a host as if the gateway were a forward proxy.
    ForwardProxy,
    /// A `Halfopen-*` field holds what it cannot hold.
    BadField,
    /// The request has more head than anybody needs.
    HeadTooLarge,
    /// The request has more body than is taken here.
    BodyTooLarge,
    /// The caller took too long to send its request.
    CallerTooSlow,
    /// The caller wants the connection to become something else.
    UpgradeRefused,
    /// The request has passed this gateway too often.
    Loop,
    /// A token is needed.
    TokenRequired,
    /// The token is not one that may do this.
    TokenRefused,
    /// The request comes from a page of another origin.
    ForeignOrigin,
    /// The request is meant for another host.
    ForeignHost,
    /// The idempotency key is in use by a call that has not ended.
    KeyInUse,
    /// The idempotency key was used with another payload.
    KeyReused,
    /// The state of a job does not allow what was asked.
    WrongState,
    /// Something of ours failed.
    Internal,
}

impl Kind {
    /// Returns the stable name: the end of `type`, and the code in other dialects.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::CircuitOpen => "circuit_open",
            Self::NotReached => "not_reached",
            Self::Timeout => "timeout",
            Self::AnswerLost => "answer_lost",
            Self::AnswerInvalid => "answer_invalid",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::NoUpstream => "no_upstream",
            Self::NoCredential => "no_credential",
            Self::NotDurable => "not_durable",
            Self::NotReady => "not_ready",
            Self::ShuttingDown => "shutting_down",
            Self::TooManyCalls => "too_many_calls",
            Self::QueueFull => "queue_full",
            Self::StorageFull => "storage_full",
            Self::OrderHeld => "order_held",
            Self::UnknownDependency => "unknown_dependency",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::BadFraming => "bad_framing",
            Self::BadRequest => "bad_request",
            Self::PathOutside => "path_outside",
            Self::ForwardProxy => "forward_proxy",
            Self::BadField => "bad_field",
            Self::HeadTooLarge => "head_too_large",
            Self::BodyTooLarge => "body_too_large",
            Self::CallerTooSlow => "caller_too_slow",
            Self::UpgradeRefused => "upgrade_refused",
            Self::Loop => "loop",
            Self::TokenRequired => "token_required",
            Self::TokenRefused => "token_refused",
            Self::ForeignOrigin => "foreign_origin",
            Self::ForeignHost => "foreign_host",
            Self::KeyInUse => "key_in_use",
            Self::KeyReused => "key_reused",
            Self::WrongState => "wrong_state",
            Self::Internal => "internal",
        }
    }

    /// Returns the status.
    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::BadFraming | Self::BadRequest | Self::PathOutside | Self::ForwardProxy | Self::BadField => {
                StatusCode::BAD_REQUEST
            }
            Self::TokenRequired => StatusCode::UNAUTHORIZED,
            Self::TokenRefused | Self::ForeignOrigin => StatusCode::FORBIDDEN,
            Self::UnknownDependency | Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::CallerTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::KeyInUse | Self::OrderHeld | Self::WrongState => StatusCode::CONFLICT,
            Self::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::ForeignHost => StatusCode::MISDIRECTED_REQUEST,
            Self::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::QueueFull => StatusCode::TOO_MANY_REQUESTS,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::UpgradeRefused => StatusCode::NOT_IMPLEMENTED,
            Self::NotReached | Self::AnswerLost | Self::AnswerInvalid => StatusCode::BAD_GATEWAY,
            Self::CircuitOpen
            | Self::NoUpstream
            | Self::NoCredential
            | Self::NotDurable
            | Self::NotReady
            | Self::ShuttingDown
            | Self::TooManyCalls => StatusCode::SERVICE_UNAVAILABLE,
            Self::Timeout | Self::OutcomeUnknown => StatusCode::GATEWAY_TIMEOUT,
            Self::Loop => StatusCode::LOOP_DETECTED,
        }
    }

    /// Returns the sentence that says it for every case of this kind.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::CircuitOpen => "The call was refused and not sent",
            Self::NotReached => "The dependency was not reached",
            Self::Timeout => "The dependency did not answer in time",
            Self::AnswerLost => "The dependency's answer was lost",
            Self::AnswerInvalid => "The dependency's answer cannot be read",
            Self::OutcomeUnknown => "The call was sent and its end is not known",
            Self::NoUpstream => "The policy names no base URL for this dependency",
            Self::NoCredential => "The credential of this dependency is missing",
            Self::NotDurable => "The call could not be kept safely",
            Self::NotReady => "The gateway is not ready",
            Self::ShuttingDown => "The gateway is shutting down",
            Self::TooManyCalls => "The gateway carries as many calls as it may",
            Self::QueueFull => "The queue of this dependency is full",
            Self::StorageFull => "The disk that keeps calls is full",
            Self::OrderHeld => "An earlier call with the same order key is still to be done",
            Self::UnknownDependency => "No dependency has this name",
            Self::NotFound => "Nothing lies at this path",
            Self::MethodNotAllowed => "This method is not answered here",
            Self::UnsupportedMediaType => "The body has a media type that is not taken here",
            Self::BadFraming => "The request's framing is ambiguous",
            Self::BadRequest => "The request is not well-formed",
            Self::PathOutside => "The path could lead outside the dependency's base URL",
            Self::ForwardProxy => "The gateway is not a forward proxy",
            Self::BadField => "A Halfopen field cannot be understood",
            Self::HeadTooLarge => "The request's head is too large",
            Self::BodyTooLarge => "The request's body is too large",
            Self::CallerTooSlow => "The request took too long to arrive",
            Self::UpgradeRefused => "The connection cannot be upgraded",
            Self::Loop => "The request is going round in circles",
            Self::TokenRequired => "A token is required",
            Self::TokenRefused => "The token does not allow this",
            Self::ForeignOrigin => "The request comes from a foreign origin",
            Self::ForeignHost => "The request is meant for another host",
            Self::KeyInUse => "A call with this idempotency key has not ended",
            Self::KeyReused => "This idempotency key was used with another payload",
            Self::WrongState => "The state of the job does not allow this",
            Self::Internal => "The gateway failed",
        }
    }

    /// Returns whether the dependency may have acted on the call.
    const fn may_have_run(self) -> bool {
        match self {
            Self::Timeout | Self::AnswerLost | Self::AnswerInvalid | Self::OutcomeUnknown | Self::Internal => true,
            Self::CircuitOpen
            | Self::NotReached
            | Self::NoUpstream
            | Self::NoCredential
            | Self::NotDurable
            | Self::NotReady
            | Self::ShuttingDown
            | Self::TooManyCalls
            | Self::QueueFull
            | Self::StorageFull
            | Self::OrderHeld
            | Self::UnknownDependency
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::UnsupportedMediaType
            | Self::BadFraming
            | Self::BadRequest
            | Self::PathOutside
            | Self::ForwardProxy
            | Self::BadField
            | Self::HeadTooLarge
            | Self::BodyTooLarge
            | Self::CallerTooSlow
            | Self::UpgradeRefused
            | Self::Loop
            | Self::TokenRequired
            | Self::TokenRefused
            | Self::ForeignOrigin
            | Self::ForeignHost
            | Self::KeyInUse
            | Self::KeyReused
            | Self::WrongState => false,
        }
    }

    /// Returns the word of `Halfopen-Outcome`; `refused` is one that an outer halfopen never takes for a failure.
    pub(super) const fn outcome(self) -> &'static str {
        match self {
            Self::CircuitOpen
            | Self::QueueFull
            | Self::StorageFull
            | Self::OrderHeld
            | Self::ShuttingDown
            | Self::TooManyCalls => "refused",
            Self::NotReached => "connection_failure",
            Self::Timeout => "timeout",
            Self::AnswerLost | Self::AnswerInvalid => "server_error",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::NoUpstream | Self::NoCredential | Self::NotDurable | Self::NotReady | Self::Internal | Self::Loop => {
                "failed"
            }
            Self::UnknownDependency
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::UnsupportedMediaType
            | Self::BadFraming
            | Self::BadRequest
            | Self::PathOutside
            | Self::ForwardProxy
            | Self::BadField
            | Self::HeadTooLarge
            | Self::BodyTooLarge
            | Self::CallerTooSlow
            | Self::UpgradeRefused
            | Self::TokenRequired
            | Self::TokenRefused
            | Self::ForeignOrigin
            | Self::ForeignHost
            | Self::KeyInUse
            | Self::KeyReused
            | Self::WrongState => "rejected",
        }
    }
}

/// The shape of an error that a dependency's callers expect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Dialect {
    /// A problem document and nothing beside it.
    #[default]
    Problem,
    /// `{"error":{"message","type","code","param"}}`: <https://platform.openai.com/docs/guides/error-codes>.
    OpenAi,
    /// `{"type":"error","error":{"type","message"}}`: <https://docs.anthropic.com/en/api/errors>.
    Anthropic,
    /// `{"error":{"code","message","status"}}`: <https://cloud.google.com/apis/design/errors>.
    Google,
}

/// The profiles whose callers expect another shape than a problem document.
const DIALECTS: &[(Dialect, &[&str])] = &[
    (
        Dialect::OpenAi,
        &[
            "openai",
            "codex",
            "azure-openai",
            "openrouter",
            "groq",
            "mistral",
            "together",
            "fireworks",
            "deepseek",
            "xai",
            "cerebras",
            "moonshot",
            "kimi",
            "zai",
            "dashscope",
            "nvidia-nim",
            "ollama",
            "litellm",
            "github-models",
            "huggingface",
        ],
    ),
    (Dialect::Anthropic, &["anthropic", "claude-code"]),
    (Dialect::Google, &["gemini", "gemini-cli", "google"]),
];

impl Dialect {
    /// Returns the shape that callers of a dependency with this profile expect.
    pub(super) fn of(profile: &str) -> Self {
        DIALECTS.iter().find(|(_, profiles)| profiles.contains(&profile)).map_or(Self::Problem, |(dialect, _)| *dialect)
    }
}

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

/// The body of a [`Problem`]: the shape's own members first, then those of the problem. It is written as it is read, for
/// refusals come by the thousand.
struct Document<'a> {
    problem: &'a Problem,
    dialect: Dialect,
}

/// The member `error` of OpenAI's shape.
#[derive(Serialize)]
struct OpenAiError<'a> {
    message: fmt::Arguments<'a>,
    r#type: &'static str,
    code: &'static str,
    /// Always `null`.
    param: (),
}

/// The member `error` of Anthropic's shape.
#[derive(Serialize)]
struct AnthropicError<'a> {
    r#type: &'static str,
    message: fmt::Arguments<'a>,
}

/// The member `error` of Google's shape.
#[derive(Serialize)]
struct GoogleError<'a> {
    code: u16,
    message: fmt::Arguments<'a>,
    status: &'static str,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { problem, dialect } = self;
        let kind = problem.kind;
        let (title, name, status) = (kind.title(), kind.name(), kind.status().as_u16());
        let detail = problem.detail.as_str();
        let mut members = serializer.serialize_map(None)?;
        match dialect {
            Dialect::Problem => {}
            Dialect::OpenAi => members.serialize_entry(
                "error",
                &OpenAiError {
                    message: format_args!("{title}. {detail}"),
                    r#type: openai_type(status),
                    code: name,
                    param: (),
                },
            )?,
            Dialect::Anthropic => {
                members.serialize_entry("type", "error")?;
                members.serialize_entry(
                    "error",
                    &AnthropicError { r#type: anthropic_type(status), message: format_args!("{title}. {detail}") },
                )?;
            }
            Dialect::Google => members.serialize_entry(
                "error",
                &GoogleError {
                    code: status,
                    message: format_args!("{title}. {detail}"),
                    status: google_status(status),
                },
            )?,
        }
        let of_type = if *dialect == Dialect::Anthropic { "problem" } else { "type" };
        members.serialize_entry(of_type, &format_args!("{TYPE_PREFIX}{name}"))?;
        members.serialize_entry("title", title)?;
        members.serialize_entry("status", &status)?;
        members.serialize_entry("detail", detail)?;
        let words = [
            ("dependency", problem.dependency.as_deref()),
            ("circuit", problem.circuit.as_deref()),
            ("state", problem.state),
            ("reason", problem.reason.as_deref()),
            ("class", problem.class),
            ("user_message", problem.user_message.as_deref()),
        ];
        for (name, word) in words {
            if let Some(word) = word {
                members.serialize_entry(name, word)?;
            }
        }
        if let Some(retry_at) = problem.retry_at {
            members.serialize_entry("retry_at", &format_args!("{:.3}", retry_at.at))?;
        }
        members.serialize_entry("attempts", &problem.attempts)?;
        members.serialize_entry("may_have_run", &kind.may_have_run())?;
        members.end()
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

const fn openai_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    }
}

const fn anthropic_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        400..=499 => "invalid_request_error",
        // Never `overloaded_error`: agents take that for an invitation.
        _ => "api_error",
    }
}

const fn google_status(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ABORTED",
        429 => "RESOURCE_EXHAUSTED",
        400..=499 => "INVALID_ARGUMENT",
        501 => "UNIMPLEMENTED",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INTERNAL",
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

    #[test]
    fn every_kind_has_a_status_a_name_and_a_title() {
        let rows: Vec<String> = KINDS
            .iter()
            .map(|kind| {
                format!("{} {:<22} {:<18} {}", kind.status().as_u16(), kind.name(), kind.outcome(), kind.title())
            })
            .collect();
        insta::assert_snapshot!("kinds", rows.join("\n"));
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

    /// S154
    #[test]
    fn no_sentence_invites_to_try_again() {
        for kind in KINDS {
            for word in ["again", "retry", "later"] {
                assert!(!kind.title().contains(word), "{}", kind.title());
            }
        }
    }

    #[test]
    fn every_profile_of_the_table_exists() {
        for profile in DIALECTS.iter().flat_map(|(_, profiles)| profiles.iter()) {
            let found = halfopen_core::classify::Classifier::new(profile, Vec::new());
            assert!(found.is_ok(), "{profile}");
        }
        assert_eq!(Dialect::of("stripe"), Dialect::Problem);
    }

    const KINDS: &[Kind] = &[
        Kind::CircuitOpen,
        Kind::NotReached,
        Kind::Timeout,
        Kind::AnswerLost,
        Kind::AnswerInvalid,
        Kind::OutcomeUnknown,
        Kind::NoUpstream,
        Kind::NoCredential,
        Kind::NotDurable,
        Kind::NotReady,
        Kind::ShuttingDown,
        Kind::TooManyCalls,
        Kind::QueueFull,
        Kind::StorageFull,
        Kind::OrderHeld,
        Kind::UnknownDependency,
        Kind::NotFound,
        Kind::MethodNotAllowed,
        Kind::UnsupportedMediaType,
        Kind::BadFraming,
        Kind::BadRequest,
        Kind::PathOutside,
        Kind::ForwardProxy,
        Kind::BadField,
        Kind::HeadTooLarge,
        Kind::BodyTooLarge,
        Kind::CallerTooSlow,
        Kind::UpgradeRefused,
        Kind::Loop,
        Kind::TokenRequired,
        Kind::TokenRefused,
        Kind::ForeignOrigin,
        Kind::ForeignHost,
        Kind::KeyInUse,
        Kind::KeyReused,
        Kind::WrongState,
        Kind::Internal,
    ];
}
