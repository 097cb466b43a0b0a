//! Makes the attempt of a job: sends the stored bytes, reads the whole answer, has it judged.
//!
//! It differs from the live path in three ways. Nobody waits, so nothing is passed on before it is whole, and a stream is
//! read to its end. Every attempt gets a connection of its own: one that stood idle may be closed in the moment it is
//! used, and for a job that must not be repeated that race would end in a person's hands. And there is one attempt: what
//! comes next the queue decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use halfopen::handle::jobs::Ending;
use halfopen::store::jobs::RESULT_BYTES_MAX;
use halfopen_core::job::{JobResult, Sent};
use halfopen_core::outcome::Reached;
use halfopen_core::verdict::{Class, Verdict};
use http::header::{CONTENT_LENGTH, SET_COOKIE};
use http::{HeaderMap, Method, Request, StatusCode, Uri, response};
use tokio::time::Instant;

use super::super::attempt::{lost_verdict, not_reached};
use super::super::dependency::Dependency;
use super::super::gateway::Gateway;
use super::super::headers;
use super::super::judge::{Copy, Judged, Kind};
use super::super::problem::OUTCOME;
use super::super::relay::{broken_off, text_of, timed_out};
use super::super::telemetry::{About as Followed, AttemptSpan};
use super::super::upload::Outgoing;
use super::super::upstream::{Choose, Exchange, Pool};
use crate::work::{Performed, Stop};

/// How long an attempt may take where the policy says nothing.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long connecting may take; never more than half of an attempt's time.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long a stream may go on once it has begun.
const STREAM_MAX: Duration = Duration::from_secs(3600);

/// A stored request, ready to leave.
#[derive(Debug)]
pub(super) struct Outward {
    pub(super) gateway: Arc<Gateway>,
    pub(super) dependency: Arc<Dependency>,
    pub(super) pool: Arc<Pool>,
    pub(super) method: Method,
    /// Path and query.
    pub(super) target: Uri,
    /// The fields, with the credential.
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The circuit of its place.
    pub(super) circuit: String,
    /// Which attempt of the job it is, 1-based.
    pub(super) number: u32,
    /// Whether the breaker waits for its verdict.
    pub(super) probe: bool,
}

/// What came back, as far as it came.
struct Came {
    verdict: Verdict,
    result: Option<JobResult>,
}

/// Makes the attempt, unless it is told to leave.
pub(super) async fn perform(mut outward: Outward, stop: Stop) -> Performed {
    let started = Instant::now();
    let mut span = AttemptSpan::begin(
        &outward.dependency.telemetry,
        &Followed {
            dependency: &outward.dependency.name,
            circuit: Some(&outward.circuit),
            upstream: outward.dependency.upstream.as_ref(),
            method: &outward.method,
            target: &outward.target,
            headers: &outward.headers,
            number: outward.number,
            probe: outward.probe,
            job: true,
        },
    );
    span.put(&mut outward.headers);
    let sent = AtomicBool::new(false);
    let came = tokio::select! {
        came = outward.exchange(started, &sent) => came,
        () = stop.leaving() => {
            return Performed::Left(if sent.load(Ordering::Relaxed) { Sent::Maybe } else { Sent::Nothing });
        }
    };
    if let Some(JobResult::Http { status, .. }) = &came.result {
        span.answered(*status);
    }
    span.end(&came.verdict);
    let ending = Ending { verdict: came.verdict, took: started.elapsed(), command: None, result: came.result };
    Performed::Ended(Box::new(ending))
}

impl Outward {
    async fn exchange(&self, started: Instant, sent: &AtomicBool) -> Came {
        let without = |verdict| Came { verdict, result: None };
        let whole = self.dependency.policy.timeout.unwrap_or(TIMEOUT);
        let until = started + whole;
        let ready = match self.pool.ready(Choose::New, CONNECT_WITHIN.min(whole / 2)).await {
            Ok(ready) => ready,
            Err(error) => return without(not_reached(&error)),
        };
        sent.store(true, Ordering::Relaxed);
        let first_byte = self.dependency.policy.first_byte.map_or(until, |wait| until.min(Instant::now() + wait));
        match tokio::time::timeout_at(first_byte, ready.send(self.request())).await {
            Err(_) => without(timed_out("no answer in time")),
            Ok(Err(lost)) => without(lost_verdict(&lost, false)),
            Ok(Ok((parts, _))) if parts.status == StatusCode::SWITCHING_PROTOCOLS => {
                without(broken_off("an answer of 101 that nobody asked for"))
            }
            Ok(Ok((parts, exchange))) => self.read(parts, exchange, started, until).await,
        }
    }

    fn request(&self) -> Request<Outgoing> {
        let mut request = Request::new(Outgoing::stored(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.target.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }

    /// Reads an answer to its end, and has it judged.
    async fn read(&self, parts: response::Parts, mut exchange: Exchange, started: Instant, until: Instant) -> Came {
        let failure = parts.status.as_u16() >= 400;
        let inner = parts.headers.contains_key(OUTCOME);
        let kind = if failure { Kind::Document } else { Kind::of(&parts.headers) };
        let mut copy = Copy::new(&parts.headers, kind);
        let (mut body, mut cut) = (Vec::new(), false);
        let idle = self.dependency.policy.idle;
        let silence = idle.or(self.dependency.policy.timeout).unwrap_or(TIMEOUT);
        let last = if kind.is_endless() && !failure { started + STREAM_MAX } else { until };
        let ended = loop {
            if exchange.is_over() {
                break Ok(());
            }
            let quiet = if kind.is_endless() { Some(silence) } else { idle };
            let at = quiet.map_or(last, |quiet| last.min(Instant::now() + quiet));
            let piece = match tokio::time::timeout_at(at, exchange.frame()).await {
                Err(_) => break Err(timed_out("the answer did not end in time")),
                Ok(None) => break Ok(()),
                Ok(Some(Err(error))) => break Err(broken_off(&text_of(&error))),
                Ok(Some(Ok(frame))) => frame.into_data(),
            };
            // What comes behind the body is not kept.
            let Ok(piece) = piece else { continue };
            copy.add(&piece);
            let room = RESULT_BYTES_MAX - body.len();
            cut |= piece.len() > room;
            body.extend_from_slice(&piece[..piece.len().min(room)]);
        };
        let looked_at = failure || inner || (kind != Kind::Opaque && !parts.status.is_redirection());
        let verdict = match ended {
            // A failure is judged by what has come of it.
            Err(verdict) if !failure => verdict,
            Ok(()) | Err(_) if looked_at => copy.judge(&Judged {
                classifier: &self.dependency.classifier,
                clock: self.gateway.door.handle.clock(),
                method: &self.method,
                status: parts.status,
                headers: &parts.headers,
                elapsed: started.elapsed(),
            }),
            Ok(()) | Err(_) => Verdict::plain(Class::Success, "halfopen/success", Reached::Answered),
        };
        let result = JobResult::Http { status: parts.status.as_u16(), headers: kept_fields(parts.headers), body, cut };
        Came { verdict, result: Some(result) }
    }
}

/// Returns the fields of an answer that are kept: none of one connection, and no cookie, which is a secret.
fn kept_fields(mut fields: HeaderMap) -> Vec<(String, Vec<u8>)> {
    headers::to_caller(&mut fields);
    fields.remove(CONTENT_LENGTH);
    fields.remove(SET_COOKIE);
    fields.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}
