//! The exhaustive list of what can be wrong, with the status, the title and the meaning of each.
//!
//! One `match` each, so that a new kind cannot be forgotten in one of them. No sentence here tells anybody to try again:
//! `retry_at` and `Retry-After` say from when on that can help.

use http::StatusCode;

/// Everything the gateway answers by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Kind {
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
    pub(in super::super) const fn name(self) -> &'static str {
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
    pub(in super::super) const fn status(self) -> StatusCode {
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
    pub(in super::super) const fn title(self) -> &'static str {
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
    pub(super) const fn may_have_run(self) -> bool {
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
    pub(in super::super) const fn outcome(self) -> &'static str {
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

#[cfg(test)]
mod tests {
    use super::*;

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

    /// S154
    #[test]
    fn no_sentence_invites_to_try_again() {
        for kind in KINDS {
            for word in ["again", "retry", "later"] {
                assert!(!kind.title().contains(word), "{}", kind.title());
            }
        }
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
