//! What the gateway reads of strangers: requests on a connection, events of a stream, what operators ask.

use std::time::Duration;

use halfopen::clock::{Clock, ManualClock};
use halfopen_core::classify::Classifier;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use super::api;
use super::framing::followed;
use super::judge::{Copy, FirstEvent, Judged, Kind};

/// The wall clock of everything that is judged here.
const NOON_MS: i64 = 1_772_452_800_000;

/// What became of the bytes of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framed {
    /// How many bytes the parser is given.
    pub passed: usize,
    /// Why no more.
    pub ambiguity: Option<&'static str>,
    /// Whether the last of them is inside a body.
    pub in_body: bool,
}

/// Follows the requests of a connection whose bytes arrive in these pieces.
#[must_use]
pub fn framed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Framed {
    let (passed, ambiguity, in_body) = followed(pieces);
    Framed { passed, ambiguity, in_body }
}

/// What was understood of a stream of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// How far it came: `not_yet`, `comment` or `whole`.
    pub first: &'static str,
    /// The class, the rule and the wait.
    pub verdict: String,
    /// The excerpt that stands as evidence.
    pub excerpt: String,
}

/// Listens to a stream of events, encoded in `coding`, that arrives in these pieces.
#[must_use]
pub fn heard<'a>(coding: &'static str, pieces: impl IntoIterator<Item = &'a [u8]>) -> Heard {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
    let mut copy = Copy::new(&headers, Kind::of(&headers));
    for piece in pieces {
        copy.add(piece);
    }
    let first = match copy.first_event() {
        FirstEvent::NotYet => "not_yet",
        FirstEvent::Comment => "comment",
        FirstEvent::Whole => "whole",
    };
    let classifier = Classifier::new("generic", Vec::new()).expect("the generic pack is embedded");
    let verdict = copy.judge(&Judged {
        classifier: &classifier,
        clock: &Clock::manual(&ManualClock::new(NOON_MS)),
        method: &Method::POST,
        status: StatusCode::OK,
        headers: &headers,
        elapsed: Duration::ZERO,
    });
    let wait = verdict.hint.as_ref().map(|hint| hint.wait);
    Heard { first, verdict: format!("{} {} {wait:?}", verdict.class, verdict.rule), excerpt: verdict.evidence.excerpt }
}

/// Reads what an operator asks: the operation, or what is wrong with the request, as the operator is told.
///
/// # Errors
///
/// The detail of the problem document.
pub fn asked(method: &str, path: &str, query: &str, body: &[u8]) -> Result<String, String> {
    api::understood(&Method::from_bytes(method.as_bytes()).unwrap_or(Method::GET), path, query, body)
}
