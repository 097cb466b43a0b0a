//! The bodies the gateway answers with: its own short ones, and a dependency's, frame by frame.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};

use super::relay::Relay;
use super::stall::Watched;

/// Why a body cannot be finished. The connection is then cut, so that nobody takes a part for the whole.
pub(super) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A body of an answer.
pub(super) type Body = UnsyncBoxBody<Bytes, BodyError>;

/// Returns a body that is known as a whole.
pub(super) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Returns the body of an answer that is passed on.
pub(super) fn streamed(relay: Relay) -> Body {
    relay.boxed_unsync()
}

/// As [`streamed`], for a caller whose connection goes on when it stops reading this answer.
pub(super) fn watched(relay: Relay) -> Body {
    Watched::new(relay).boxed_unsync()
}
