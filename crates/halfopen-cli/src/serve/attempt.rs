//! Makes one attempt: connects, sends, waits for the answer, and judges as much of it as can be judged before a byte of
//! it goes to the caller.
//!
//! An answer is held back only where that can spare the caller a failure, and only for a moment: a failure, to see what
//! it means; a short document, because an error or a cut inside it can still be tried again; a stream of events, until
//! its first one has come. Everything else passes at once and is judged at its end ([`super::relay`]).
//!
//! A connection that turns out to be closed before a byte of the request was written is no attempt: the request never
//! left, and it is sent on a new connection, once. That is the only repetition here.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use halfopen::handle::Handle;
use halfopen_core::outcome::Reached;
use halfopen_core::verdict::{About, Class, Verdict};
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, response};
use tokio::time::Instant;

use super::body::{self, Body};
use super::dependency::Dependency;
use super::door::Admitted;
use super::headers;
use super::judge::{Copy, FirstEvent, Judged, Kind};
use super::refuse::cache::{Cache, Filling, Key};
use super::relay::{Bounds, Relay, Rest, Watch, broken_off, plain, text_of, timed_out};
use super::upload::{Outgoing, Upload, Word};
use super::upstream::{Choose, ConnectError, Exchange, Lost, Pool};
use crate::otlp::context::TRACEPARENT;

/// How long connecting may take, all steps together; never more than half of an attempt's time.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How much of an answer is held back before a byte of it goes to the caller.
const HELD_BYTES_MAX: usize = 64 << 10;
/// How long a failure is read before it is judged by what has come.
const FAILURE_WITHIN: Duration = Duration::from_secs(5);
/// How long a short answer is held back.
const DOCUMENT_WITHIN: Duration = Duration::from_secs(1);

/// A request that can be sent any number of times.
#[derive(Debug)]
pub(super) struct Sendable {
    pub(super) method: Method,
    /// Path and query.
    pub(super) target: Uri,
    /// The fields as the dependency gets them.
    pub(super) headers: HeaderMap,
    pub(super) upload: Upload,
    /// Whether the caller can leave this answer unread and go on with others.
    pub(super) one_of_many: bool,
}

/// How long an attempt and its parts may take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    /// All of it.
    pub(super) whole: Option<Duration>,
    /// Until the head of the answer has come, from the last progress of the request.
    pub(super) first_byte: Option<Duration>,
    /// Between two pieces of the answer.
    pub(super) idle: Option<Duration>,
}

/// Who says that what came is no HTTP answer.
pub(super) const ANSWER_INVALID: &str = "halfopen/answer-invalid";

/// What an attempt came to.
#[derive(Debug)]
pub(super) enum Ended {
    /// It went well, and the answer is whole or on its way; nothing is left to do.
    Well(Response<Body>),
    /// It failed; this is settled.
    Failed(Box<Failed>),
    /// The caller's request broke off.
    CallerBrokeOff,
    /// The caller's request did not come to its end in time.
    CallerTooSlow,
}

/// An attempt that failed.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) verdict: Verdict,
    /// What the dependency answered, if it did.
    pub(super) answer: Option<Response<Body>>,
    /// Whether an old connection just ended as it was used: then it may be tried again at once.
    pub(super) raced: bool,
    /// Whether the rest of the answer is still to come, on a connection that it keeps.
    pub(super) coming: bool,
}

/// Everything one attempt needs but the permit.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    pub(super) handle: &'a Arc<Handle>,
    pub(super) dependency: &'a Arc<Dependency>,
    pub(super) pool: &'a Arc<Pool>,
    pub(super) request: &'a Sendable,
    /// Where its answer is kept, if it goes well.
    pub(super) cached: Option<&'a (Arc<Cache>, Arc<Key>)>,
    pub(super) limits: Limits,
    /// Whether this is only watched: then nothing is held back for another attempt.
    pub(super) choose: Choose,
    /// Where the request belongs, if the dependency is told another place than the caller's.
    pub(super) place: Option<HeaderValue>,
}

/// Holds the permit until the dependency's answer begins, whatever happens to us.
struct Underway<'a> {
    admitted: Option<Admitted>,
    started: Instant,
    whole: Option<Duration>,
    sent: bool,
    dependency: &'a Dependency,
}

impl Underway<'_> {
    /// Returns the permit: from here on a caller that leaves is nobody's fault.
    fn take(&mut self) -> Option<Admitted> {
        self.admitted.take()
    }
}

impl Drop for Underway<'_> {
    /// The caller went away. If it had waited for more than half of our own timeout, that was the dependency's doing.
    fn drop(&mut self) {
        let Some(admitted) = self.admitted.take() else { return };
        if std::thread::panicking() {
            return;
        }
        self.dependency.counts.client_abort.add();
        let long = self.whole.is_some_and(|whole| self.started.elapsed() * 2 >= whole);
        if self.sent && long {
            admitted.settle_soon(&timed_out("the caller gave up waiting for the first byte"));
        }
    }
}

impl Attempt<'_> {
    /// Makes it, under the permit that was granted.
    pub(super) async fn make(&self, mut admitted: Admitted) -> Ended {
        let started = Instant::now();
        if let Some(whole) = self.limits.whole {
            let lease = self.dependency.policy.circuit.probe_lease;
            admitted.keep_alive(whole + lease);
        }
        let (dependency, whole) = (&**self.dependency, self.limits.whole);
        let mut underway = Underway { admitted: Some(admitted), started, whole, sent: false, dependency };
        let came = self.head(&mut underway).await;
        let Some(mut admitted) = underway.take() else { return Ended::CallerBrokeOff };
        if let Head::Came(parts, _) = &came {
            admitted.answered(parts.status);
        }
        self.dependency.counts.to_head.add(started.elapsed());
        match came {
            Head::Came(parts, exchange) => self.judge_early(*parts, exchange, admitted, started).await,
            Head::Failed(verdict, raced) => {
                admitted.settle(&verdict).await;
                Ended::Failed(Box::new(Failed { verdict, answer: None, raced, coming: false }))
            }
            Head::CallerBrokeOff => {
                self.dependency.counts.client_abort.add();
                Ended::CallerBrokeOff
            }
            Head::CallerTooSlow => Ended::CallerTooSlow,
        }
    }

    /// Sends the request and waits for the head of its answer.
    async fn head(&self, underway: &mut Underway<'_>) -> Head {
        let mut choose = self.choose;
        loop {
            let within = self.limits.whole.map_or(CONNECT_WITHIN, |whole| CONNECT_WITHIN.min(whole / 2));
            let ready = match self.pool.ready(choose, within).await {
                Ok(ready) => ready,
                Err(error) => return Head::Failed(not_reached(&error), false),
            };
            underway.sent = true;
            let lost = match self.wait_for_head(ready.send(self.outgoing()), underway.started).await {
                Ok(Ok((parts, _))) if parts.status == StatusCode::SWITCHING_PROTOCOLS => {
                    // Nobody asked, and what follows is no HTTP.
                    return Head::Failed(broken_off("an answer of 101 that nobody asked for"), false);
                }
                Ok(Ok((parts, exchange))) => return Head::Came(Box::new(parts), exchange),
                Ok(Err(lost)) => lost,
                Err(TooLate) if self.request.upload.waits_for_caller() => return Head::CallerTooSlow,
                Err(TooLate) => return Head::Failed(timed_out("no answer in time"), false),
            };
            if self.request.upload.is_broken_off() {
                return Head::CallerBrokeOff;
            }
            if !lost.sent && choose == Choose::Any && self.request.upload.can_be_sent_again() {
                // It never left: the connection had ended before.
                choose = Choose::New;
                continue;
            }
            let raced = lost.sent && lost.reused && !lost.cause.is_parse();
            return Head::Failed(lost_verdict(&lost, raced), raced);
        }
    }

    /// Returns the request for one sending.
    fn outgoing(&self) -> Request<Outgoing> {
        let request = self.request;
        let asks = request.headers.contains_key(header::EXPECT);
        let word = (asks && !request.upload.is_begun()).then(|| Arc::new(Word::default()));
        let mut outgoing = Request::new(request.upload.outgoing(word.clone()));
        *outgoing.method_mut() = request.method.clone();
        *outgoing.uri_mut() = request.target.clone();
        *outgoing.headers_mut() = request.headers.clone();
        if let Some(place) = &self.place {
            outgoing.headers_mut().insert(TRACEPARENT, place.clone());
        }
        match word {
            Some(word) if matches!(request.upload, Upload::Arriving(_)) => {
                hyper::ext::on_informational(&mut outgoing, move |answer| {
                    if answer.status() == StatusCode::CONTINUE {
                        word.go();
                    }
                });
            }
            Some(_) | None => {
                outgoing.headers_mut().remove(header::EXPECT);
            }
        }
        outgoing
    }

    async fn wait_for_head<T>(&self, sending: impl Future<Output = T>, started: Instant) -> Result<T, TooLate> {
        let mut sending = pin!(sending);
        let until = self.limits.whole.map(|whole| started + whole);
        let (mut moved_at, mut moved) = (started, self.request.upload.progress());
        loop {
            let by_silence = self.limits.first_byte.map(|first_byte| moved_at + first_byte);
            let Some(at) = [until, by_silence].into_iter().flatten().min() else { return Ok(sending.await) };
            if let Ok(answer) = tokio::time::timeout_at(at, sending.as_mut()).await {
                return Ok(answer);
            }
            let progress = self.request.upload.progress();
            if progress == moved || until.is_some_and(|until| Instant::now() >= until) {
                return Err(TooLate);
            }
            (moved_at, moved) = (Instant::now(), progress);
        }
    }

    /// Looks at an answer as far as that can be done before it goes to the caller.
    async fn judge_early(
        &self,
        parts: response::Parts,
        mut exchange: Exchange,
        admitted: Admitted,
        started: Instant,
    ) -> Ended {
        let failure = parts.status.as_u16() >= 400;
        // An answer of an inner halfopen says in a field what it is.
        let inner = parts.headers.contains_key(super::problem::OUTCOME);
        let bodiless = self.request.method == Method::HEAD || headers::is_bodiless(parts.status);
        let kind = Kind::of(&parts.headers);
        let look = failure || inner || (kind != Kind::Opaque && !bodiless && !parts.status.is_redirection());
        let mut answer = Answer { parts, copy: None, held: VecDeque::new(), held_bytes: 0, trailers: None };
        let copied_as = if failure { Kind::Document } else { kind };
        if look && copied_as == Kind::Events {
            // Its first event is looked for as it comes.
            answer.copy = Some(Copy::new(&answer.parts.headers, kind));
        }
        let until = self.limits.whole.map(|whole| started + whole);
        let within = |span: Duration| {
            let at = Instant::now() + span;
            until.map_or(at, |until| until.min(at))
        };
        let short = exchange.size_hint().exact().is_some_and(|bytes| bytes <= HELD_BYTES_MAX as u64);
        let came = if exchange.is_over() {
            Came::Over
        } else if failure || inner {
            answer.hold(&mut exchange, within(FAILURE_WITHIN), false).await
        } else if kind == Kind::Events {
            let patience = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            answer.hold(&mut exchange, within(patience.min(Duration::from_secs(24 * 3600))), true).await
        } else if kind == Kind::Document || short {
            if kind == Kind::Stream {
                Came::Part
            } else {
                answer.hold(&mut exchange, within(DOCUMENT_WITHIN), false).await
            }
        } else {
            Came::Part
        };
        if look && answer.copy.is_none() {
            let plain = matches!(came, Came::Over) && !failure && !inner && !answer.is_suspect(self.dependency);
            answer.copy = if plain { None } else { Some(answer.copied(copied_as)) };
        }
        let judged = match &came {
            Came::Broken(why) if !failure => Some(broken_off(why)),
            Came::Part if !failure && !inner => None,
            Came::Late if kind == Kind::Events && until.is_some_and(|until| Instant::now() >= until) => {
                Some(timed_out("no event in time"))
            }
            Came::Late if !failure && !inner => None,
            Came::Over | Came::Part | Came::Late | Came::FirstEvent | Came::Broken(_) => {
                answer.copy.as_ref().map(|copy| copy.judge(&self.judged(&answer.parts, started)))
            }
        };
        match judged {
            Some(verdict) if verdict.class != Class::Success => {
                let coming = matches!(came, Came::Part | Came::FirstEvent | Came::Late);
                let answer = answer.passed_on(exchange, came, self, (None, None), kind, started);
                admitted.settle(&verdict).await;
                let answer = Some(answer);
                Ended::Failed(Box::new(Failed { verdict, answer, raced: false, coming }))
            }
            Some(verdict) if matches!(came, Came::Over) => {
                let filling = self.filling(&answer);
                let answer = answer.passed_on(exchange, came, self, (None, filling), kind, started);
                admitted.settle(&verdict).await;
                Ended::Well(answer)
            }
            None if matches!(came, Came::Over) => {
                admitted.succeed();
                let filling = self.filling(&answer);
                Ended::Well(answer.passed_on(exchange, came, self, (None, filling), kind, started))
            }
            Some(_) | None => {
                let mut admitted = admitted;
                if matches!(came, Came::FirstEvent) {
                    admitted.settle_early();
                }
                let filling = self.filling(&answer);
                Ended::Well(answer.passed_on(exchange, came, self, (Some(admitted), filling), kind, started))
            }
        }
    }

    /// Begins to keep an answer, where the policy says so and it may be kept.
    fn filling(&self, answer: &Answer) -> Option<Filling> {
        let (cache, key) = self.cached?;
        if !key.has_body() {
            // An answer that came before the end of the request is to something else.
            key.body_is(self.request.upload.whole()?.iter().map(|piece| &**piece));
        }
        let mut headers = answer.parts.headers.clone();
        self.to_caller(&mut headers);
        let parts = &answer.parts;
        cache.begin(key, parts.status, &parts.headers, &headers, self.handle.clock().now())
    }

    fn judged<'a>(&'a self, parts: &'a response::Parts, started: Instant) -> Judged<'a> {
        Judged {
            classifier: &self.dependency.classifier,
            clock: self.handle.clock(),
            method: &self.request.method,
            status: parts.status,
            headers: &parts.headers,
            elapsed: started.elapsed(),
        }
    }
}

/// What became of a request.
enum Head {
    Came(Box<response::Parts>, Exchange),
    /// With whether an old connection ended under it.
    Failed(Verdict, bool),
    CallerBrokeOff,
    CallerTooSlow,
}

/// The time was up.
struct TooLate;

/// How far an answer has come.
#[derive(Debug)]
enum Came {
    /// To its end.
    Over,
    /// As far as it is held back.
    Part,
    /// To the end of its first event.
    FirstEvent,
    /// Not far enough in the time that it was given.
    Late,
    /// To where the dependency broke off.
    Broken(String),
}

/// An answer of which nothing has gone to the caller.
struct Answer {
    parts: response::Parts,
    copy: Option<Copy>,
    held: VecDeque<Bytes>,
    held_bytes: usize,
    trailers: Option<HeaderMap>,
}

impl Answer {
    /// Holds back what comes: to its end, to its first event if it has `events`, to a bound, until an instant.
    async fn hold(&mut self, exchange: &mut Exchange, until: Instant, events: bool) -> Came {
        loop {
            let frame = match tokio::time::timeout_at(until, exchange.frame()).await {
                Err(_) => return Came::Late,
                Ok(None) => return Came::Over,
                Ok(Some(Err(error))) => return Came::Broken(text_of(&error)),
                Ok(Some(Ok(frame))) => frame,
            };
            match frame.into_data() {
                Ok(piece) => {
                    if let Some(copy) = &mut self.copy {
                        copy.add(&piece);
                    }
                    self.held_bytes += piece.len();
                    self.held.push_back(piece);
                }
                Err(frame) => {
                    if let Ok(mut fields) = frame.into_trailers() {
                        headers::trailers(&mut fields);
                        self.trailers = Some(fields);
                    }
                }
            }
            if exchange.is_over() {
                return Came::Over;
            }
            if events {
                match self.copy.as_ref().map(Copy::first_event) {
                    Some(FirstEvent::Whole) => return Came::FirstEvent,
                    Some(FirstEvent::Comment) => return Came::Part,
                    Some(FirstEvent::NotYet) | None => {}
                }
            }
            if self.held_bytes >= HELD_BYTES_MAX {
                return Came::Part;
            }
        }
    }

    /// Returns whether a whole document must be judged by what stands in it.
    fn is_suspect(&self, dependency: &Dependency) -> bool {
        let fields = &self.parts.headers;
        if fields.contains_key(header::CONTENT_ENCODING) || fields.contains_key("grpc-status") {
            return true;
        }
        match self.held.len() {
            0 => false,
            1 => self.held.front().is_some_and(|body| dependency.classifier.suspects(body)),
            // Words may lie on the borders of pieces.
            _ => dependency.classifier.suspects(&self.held.iter().flatten().copied().collect::<Vec<u8>>()),
        }
    }

    /// Returns a copy of what has come.
    fn copied(&self, kind: Kind) -> Copy {
        let mut copy = Copy::new(&self.parts.headers, kind);
        self.held.iter().for_each(|piece| copy.add(piece));
        copy
    }

    /// Makes it the answer to the caller; with a permit the rest of it is judged at its end.
    fn passed_on(
        self,
        exchange: Exchange,
        came: Came,
        attempt: &Attempt<'_>,
        (admitted, mut filling): (Option<Admitted>, Option<Filling>),
        kind: Kind,
        started: Instant,
    ) -> Response<Body> {
        let Self { parts, copy, mut held, trailers, held_bytes: _ } = self;
        let mut response = Response::new(());
        *response.status_mut() = parts.status;
        let watch = admitted.map(|admitted| {
            // Where there is no copy, nobody asks for the fields.
            let headers = if copy.is_some() { parts.headers.clone() } else { HeaderMap::new() };
            Box::new(Watch {
                admitted,
                dependency: Arc::clone(attempt.dependency),
                handle: Arc::clone(attempt.handle),
                method: attempt.request.method.clone(),
                status: parts.status,
                kind,
                headers,
                copy,
                started,
            })
        });
        *response.headers_mut() = parts.headers;
        attempt.to_caller(response.headers_mut());
        let over = matches!(came, Came::Over);
        if let Some(kept) = &mut filling {
            // What has become too much gives up by itself.
            let _ = held.iter().all(|piece| kept.push(piece));
        }
        if over && trailers.is_none() {
            filling.take().into_iter().for_each(Filling::keep);
        }
        if over && trailers.is_none() && held.len() <= 1 && watch.is_none() {
            return response.map(|()| body::full(held.pop_front().unwrap_or_default()));
        }
        let rest = match came {
            Came::Over => Rest::Nothing,
            Came::Broken(why) => Rest::BrokenOff(why),
            Came::Part | Came::FirstEvent | Came::Late => Rest::Coming(exchange),
        };
        let limits = attempt.limits;
        let bounds = if kind.is_endless() && parts.status.is_success() {
            Bounds { until: None, idle: limits.idle.or(limits.whole) }
        } else {
            Bounds { until: limits.whole.map(|whole| started + whole), idle: limits.idle }
        };
        let relay = Relay::new(held, trailers, rest, bounds, (watch, filling));
        response.map(|()| if attempt.request.one_of_many { body::watched(relay) } else { body::streamed(relay) })
    }
}

impl Attempt<'_> {
    /// Makes a dependency's fields those of the answer to the caller.
    fn to_caller(&self, fields: &mut HeaderMap) {
        headers::to_caller(fields);
        let Some(upstream) = &self.dependency.upstream else { return };
        let ours: Option<HeaderValue> = fields
            .get(header::LOCATION)
            .and_then(|location| upstream.location_for_caller(&self.dependency.name, location));
        if let Some(location) = ours {
            fields.insert(header::LOCATION, location);
        }
    }
}

/// Returns the verdict of an attempt that got no connection.
pub(super) fn not_reached(error: &ConnectError) -> Verdict {
    let mut verdict =
        plain(Class::ConnectionFailure, "halfopen/not-reached", Reached::NotSent, "connection", &text_of(error));
    if error.is_ours() {
        // It says nothing about the dependency.
        verdict.about = About::Nobody;
    }
    verdict
}

/// Returns the verdict of an attempt whose connection broke off before an answer.
pub(super) fn lost_verdict(lost: &Lost, raced: bool) -> Verdict {
    let why = text_of(&lost.cause);
    let reached = if lost.sent { Reached::Unknown } else { Reached::NotSent };
    if !lost.sent {
        return plain(Class::ConnectionFailure, "halfopen/not-sent", reached, "connection", &why);
    }
    let rule = if lost.cause.is_parse() { ANSWER_INVALID } else { "halfopen/no-answer" };
    let mut verdict = plain(Class::ServerError, rule, reached, "connection", &why);
    if raced {
        // Servers close idle connections; meeting one in that moment is no outage.
        verdict.about = About::Nobody;
    }
    verdict
}
