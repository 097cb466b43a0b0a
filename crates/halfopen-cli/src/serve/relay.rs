//! Carries an answer to the caller while it comes, and has it judged when it has ended.
//!
//! Frames pass as they are, at once; a copy is kept where the judgement needs one. The caller never gets a part for
//! the whole: where the dependency broke off, the body ends with an error, and with it the caller's connection, short
//! of the declared length or without the last chunk.
//!
//! `timeout_ms` bounds a document to its last byte. A stream may go on for as long as it likes: once it has begun it is
//! bounded by its silence alone (`idle_ms`, else as long as `timeout_ms`), and everything counts that comes, comments
//! too. Silence is counted from when we began to wait: a caller that reads slowly makes nobody silent.
//!
//! A caller that goes away is not the dependency's fault: the connection is closed and the permit given back. Only an
//! error that had already come counts, because programs leave as soon as they have read it.

use std::collections::VecDeque;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use halfopen::handle::Handle;
use halfopen_core::outcome::Reached;
use halfopen_core::verdict::{Class, Evidence, EvidenceKind, Verdict};
use http::{HeaderMap, Method, StatusCode};
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::body::BodyError;
use super::dependency::Dependency;
use super::door::Admitted;
use super::headers;
use super::judge::{Copy, FirstEvent, Judged, Kind};
use super::refuse::cache::Filling;
use super::upstream::Exchange;

/// An answer on its way.
#[derive(Debug)]
pub(super) struct Relay {
    /// What has come already.
    held: VecDeque<Bytes>,
    trailers: Option<HeaderMap>,
    rest: Rest,
    bounds: Bounds,
    /// When we began to wait for the next frame.
    waits_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Until it is judged.
    watch: Option<Box<Watch>>,
    /// Until it is known whether it is kept.
    filling: Option<Filling>,
}

/// What is still to come.
#[derive(Debug)]
pub(super) enum Rest {
    /// It comes.
    Coming(Exchange),
    /// The dependency broke off; why.
    BrokenOff(String),
    /// The same, and what came before has been given time to leave.
    Breaks(String),
    /// Nothing.
    Nothing,
}

/// How long an answer may take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    /// When it must have ended.
    pub(super) until: Option<Instant>,
    /// How long it may be silent.
    pub(super) idle: Option<Duration>,
}

/// What is needed to judge an answer at its end.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) admitted: Admitted,
    pub(super) dependency: Arc<Dependency>,
    pub(super) handle: Arc<Handle>,
    pub(super) method: Method,
    pub(super) status: StatusCode,
    pub(super) kind: Kind,
    /// The fields as they came, where the judgement needs them.
    pub(super) headers: HeaderMap,
    pub(super) copy: Option<Copy>,
    pub(super) started: Instant,
}

/// Why a body ends early.
#[derive(Debug, thiserror::Error)]
#[error("the dependency's answer broke off: {0}")]
struct BrokenOff(String);

impl Relay {
    /// Returns an answer of which `held` has come. With a watch it is judged at its end.
    pub(super) fn new(
        held: VecDeque<Bytes>,
        trailers: Option<HeaderMap>,
        rest: Rest,
        bounds: Bounds,
        (watch, filling): (Option<Box<Watch>>, Option<Filling>),
    ) -> Self {
        Self { held, trailers, rest, bounds, waits_since: None, timer: None, watch, filling }
    }

    fn end(&mut self) {
        self.rest = Rest::Nothing;
        let filling = self.filling.take();
        let Some(watch) = self.watch.take() else { return };
        if let Some(copy) = &watch.copy {
            let verdict = watch.judged(copy);
            watch.admitted.settle_soon(&verdict);
            if verdict.class != Class::Success {
                return;
            }
        } else {
            watch.admitted.succeed();
        }
        filling.into_iter().for_each(Filling::keep);
    }

    fn fail(
        &mut self,
        verdict: &Verdict,
        why: String,
        cx: &Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.timer = None;
        if let Some(watch) = self.watch.take() {
            watch.admitted.settle_soon(verdict);
        }
        self.break_off(why, cx)
    }

    /// An error of a body throws away what was not written yet. So what came before it leaves first.
    fn break_off(&mut self, why: String, cx: &Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.rest = Rest::Breaks(why);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Returns whether we have waited too long for the next frame.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let since = *self.waits_since.get_or_insert_with(Instant::now);
        let by_silence = self.bounds.idle.map(|idle| since + idle);
        let Some(at) = [self.bounds.until, by_silence].into_iter().flatten().min() else { return false };
        // The timer is not moved for each frame: when it goes off, it is seen whether it was meant.
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        while timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= at {
                return true;
            }
            timer.as_mut().reset(at);
        }
        if timer.deadline() > at {
            timer.as_mut().reset(at);
            return timer.as_mut().poll(cx).is_ready();
        }
        false
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(piece) = self.held.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        let exchange = match &mut self.rest {
            Rest::Coming(exchange) => exchange,
            Rest::BrokenOff(why) => {
                let why = std::mem::take(why);
                return self.break_off(why, cx);
            }
            Rest::Breaks(why) => {
                let why = std::mem::take(why);
                self.rest = Rest::Nothing;
                return Poll::Ready(Some(Err(Box::new(BrokenOff(why)))));
            }
            Rest::Nothing => return Poll::Ready(self.trailers.take().map(|fields| Ok(Frame::trailers(fields)))),
        };
        match exchange.poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let over = exchange.is_over();
                self.waits_since = None;
                let frame = match frame.into_data() {
                    Ok(piece) => {
                        if let Some(watch) = &mut self.watch {
                            watch.hear(&piece);
                        }
                        if let Some(filling) = &mut self.filling
                            && !filling.push(&piece)
                        {
                            self.filling = None;
                        }
                        Frame::data(piece)
                    }
                    Err(frame) => match frame.into_trailers() {
                        Ok(mut fields) => {
                            self.filling = None;
                            headers::trailers(&mut fields);
                            Frame::trailers(fields)
                        }
                        Err(frame) => frame,
                    },
                };
                if over {
                    self.end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                self.end();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                let why = text_of(&error);
                let verdict = broken_off(&why);
                self.fail(&verdict, why, cx)
            }
            Poll::Pending if self.is_late(cx) => {
                self.fail(&timed_out("no further byte in time"), "it was silent for too long".to_owned(), cx)
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && self.trailers.is_none() && matches!(self.rest, Rest::Nothing)
    }

    fn size_hint(&self) -> SizeHint {
        let held: u64 = self.held.iter().map(|piece| piece.len() as u64).sum();
        match &self.rest {
            Rest::Nothing if self.trailers.is_none() => SizeHint::with_exact(held),
            Rest::Nothing | Rest::BrokenOff(_) | Rest::Breaks(_) => SizeHint::default(),
            Rest::Coming(exchange) => {
                exchange.size_hint().exact().map_or_else(SizeHint::default, |rest| SizeHint::with_exact(held + rest))
            }
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let Some(watch) = self.watch.take() else { return };
        watch.dependency.counts.client_abort.add();
        if let Some(copy) = watch.copy.as_ref().filter(|_| watch.kind == Kind::Events) {
            let verdict = watch.judged(copy);
            if verdict.class != Class::Success {
                watch.admitted.settle_soon(&verdict);
            }
        }
    }
}

impl Watch {
    /// Keeps a piece; a probe whose stream has begun well is judged.
    fn hear(&mut self, piece: &[u8]) {
        let Some(copy) = &mut self.copy else { return };
        copy.add(piece);
        // Where only a comment had come before, this may be the first event.
        let begun = self.kind == Kind::Events && self.admitted.is_probe() && copy.first_event() == FirstEvent::Whole;
        if begun && self.judged_so_far().is_some_and(|verdict| verdict.class == Class::Success) {
            self.admitted.settle_early();
        }
    }

    fn judged_so_far(&self) -> Option<Verdict> {
        self.copy.as_ref().map(|copy| self.judged(copy))
    }

    fn judged(&self, copy: &Copy) -> Verdict {
        copy.judge(&Judged {
            classifier: &self.dependency.classifier,
            clock: self.handle.clock(),
            method: &self.method,
            status: self.status,
            headers: &self.headers,
            elapsed: self.started.elapsed(),
        })
    }
}

/// Returns what an error says, with its causes.
pub(super) fn text_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Returns the verdict of an answer that broke off.
pub(super) fn broken_off(why: &str) -> Verdict {
    plain(Class::ServerError, "halfopen/broken-off", Reached::Unknown, "body", why)
}

/// Returns the verdict of an attempt that we ended.
pub(super) fn timed_out(what: &str) -> Verdict {
    plain(Class::Timeout, "halfopen/timed-out", Reached::Unknown, "time", what)
}

/// Returns a verdict that no rule was asked for.
pub(super) fn plain(class: Class, rule: &str, reached: Reached, place: &str, excerpt: &str) -> Verdict {
    let mut verdict = Verdict::plain(class, rule, reached);
    verdict.evidence =
        Evidence { kind: EvidenceKind::Status, place: place.to_owned(), excerpt: halfopen_core::redact::line(excerpt) };
    verdict
}
