//! Carries one call of a caller through: the door, the attempts, the waits between them.
//!
//! This is the whole loop of the gateway, to be read aloud: admitted, attempted, judged, decided, again. Waiting holds
//! no permit and uses no attempt; whoever has waited asks the door again. What a verdict means for a circuit or for a
//! repetition the core decides. What is decided here is what only a gateway knows: whether the request can be sent
//! again, whether its key is honoured, and what the caller is told.
//!
//! The dependency's own answer goes to the caller as it came, the last one if there were several. An answer of our own
//! is given only where there is none: refused, not reached, too late, or sent and of unknown end.

mod instead;
mod kept;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use halfopen::guard::Refused;
use halfopen_core::chance::Chance;
use halfopen_core::outcome::Reached;
use halfopen_core::pair::Side;
use halfopen_core::permit::{Ask, Refusal, RefusalReason};
use halfopen_core::policy::{Mode, ProbeWith, Replay};
use halfopen_core::retry::{self, CallSoFar, Decision, GiveUp, Repeatable};
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{About, Class, Verdict};
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, Version};
use hyper::body::Incoming;

use super::access::CALLER;
use super::attempt::{ANSWER_INVALID, Attempt, Ended, Failed, Limits, Sendable};
use super::body::Body;
use super::credentials::{Credential, Missing};
use super::dependency::Dependency;
use super::door::{self, Admitted};
use super::gateway::Gateway;
use super::headers;
use super::partition::{Asked, Judges};
use super::probe;
use super::problem::{ATTEMPTS, CIRCUIT, Kind, OUTCOME, Problem, RetryAt, SHOULD_RETRY, attempts_field};
use super::queue::prefer::{APPLIED, Prefer};
use super::refuse::cache::{Cache, Key, Of};
use super::refuse::queue::NotKept;
use super::telemetry::{About as Followed, AttemptSpan, CallSpan};
use super::upload::Upload;
use super::upstream::{Choose, Pool};
use instead::Undone;

/// How long an attempt may take where the policy says nothing.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a caller that waits for somebody else's probe stays away, half to one and a half times.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Nobody asks the door again sooner.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// How often a caller that waits for a circuit looks whether it was let go.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// No attempt starts with less than this left of the call's deadline, or a tenth of it, if that is less.
const ATTEMPT_MIN: Duration = Duration::from_secs(1);

/// When a full queue is worth another look.
const FULL_FOR: Duration = Duration::from_secs(30);

/// Says why a call had no further attempt, or was not kept, where its answer does not say it.
const REASON: HeaderName = HeaderName::from_static("halfopen-reason");

/// Says why a call that was to be queued at once (`Prefer: respond-async`) was not.
const NOT_QUEUED: HeaderName = HeaderName::from_static("halfopen-not-queued");

/// Carries a call to `dependency` through; `path` is what stood behind its name, with its leading slash and query.
pub(super) async fn carry(
    gateway: &Arc<Gateway>,
    dependency: &Arc<Dependency>,
    path: &str,
    request: Request<Incoming>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let (method, mut headers, version) = (parts.method, parts.headers, parts.version);
    let span = CallSpan::begin(&dependency.telemetry, &dependency.name, &method, path, &mut headers);
    let upload = Upload::new(body, dependency.kept_bytes_max(&method), dependency.partitions.body_bytes_wanted());
    let arrived = Arrived { method, path: path.into(), headers, version, upload };
    let response = carry_on(gateway, dependency, arrived, Hop::default()).await.response;
    span.end(&response);
    response
}

async fn carry_on(gateway: &Arc<Gateway>, dependency: &Arc<Dependency>, arrived: Arrived<'_>, hop: Hop) -> Carried {
    match Call::begin(gateway, dependency, arrived, hop).await {
        Ok(call) => call.carry_through().await,
        Err(problem) => {
            let response = problem.dependency(&dependency.name).answer(dependency.dialect);
            Carried { response, done: false }
        }
    }
}

/// A request as the caller sent it.
#[derive(Clone, Debug)]
struct Arrived<'p> {
    method: Method,
    /// What stood behind the dependency's name.
    path: Cow<'p, str>,
    headers: HeaderMap,
    version: Version,
    upload: Upload,
}

/// The way of a call before it came to this dependency.
#[derive(Clone, Copy, Debug, Default)]
struct Hop {
    /// Dependencies that could not do it.
    passed: u32,
    /// When it must be over.
    until: Option<Instant>,
    /// Attempts that were made there.
    attempts: u32,
}

/// What became of a call.
struct Carried {
    response: Response<Body>,
    /// Whether that is its answer; if not, somebody else may have a better one.
    done: bool,
}

/// One call.
struct Call<'a> {
    gateway: &'a Arc<Gateway>,
    dependency: &'a Arc<Dependency>,
    pool: &'a Arc<Pool>,
    judges: Arc<Judges>,
    request: Sendable,
    repeatable: Repeatable,
    started: Instant,
    attempts: u32,
    /// At which circuits we count among those who wait.
    held_back: Vec<Side>,
    credential: Option<&'a Credential>,
    /// The request as it came, where another dependency may get it.
    arrived: Option<Box<Arrived<'a>>>,
    /// Where its last good answer is kept, and under which name.
    cached: Option<(Arc<Cache>, Arc<Key>)>,
    hop: Hop,
    /// Whether an attempt was sent and neither answered nor proved unsent.
    unknown_end: bool,
    /// What stood behind the dependency's name.
    path: Cow<'a, str>,
    /// What the caller prefers.
    prefer: Prefer,
    /// Why it was not queued at once, although the caller prefers it.
    unmet: Option<&'static str>,
    /// Who calls, where callers are told apart.
    caller: Option<HeaderValue>,
    /// Its idempotency key, which no other call may have meanwhile.
    key_taken: kept::KeyTaken,
}

impl<'a> Call<'a> {
    /// Makes a call out of a request, or says why it is none.
    async fn begin(
        gateway: &'a Arc<Gateway>,
        dependency: &'a Arc<Dependency>,
        arrived: Arrived<'a>,
        hop: Hop,
    ) -> Result<Self, Box<Problem>> {
        let (Some(upstream), Some(pool)) = (&dependency.upstream, &dependency.pool) else {
            let text =
                format!("Add `upstream` to `{0}` in the policy, or start with --upstream {0}=URL.", dependency.name);
            return Err(Box::new(Problem::new(Kind::NoUpstream, text)));
        };
        let whole = upstream.target(&arrived.path).map_err(|fault| {
            let text = format!("The path holds {fault}. {}", fault.advice());
            Box::new(Problem::new(Kind::PathOutside, text))
        })?;
        let target = whole.path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from);
        let credential = dependency
            .credentials
            .chosen(&dependency.name, &arrived.headers)
            .map_err(|unknown| Box::new(unknown.problem()))?;
        let looked_at = dependency.partitions.body_bytes_wanted();
        let beginning = if looked_at > 0 { arrived.upload.beginning(looked_at).await } else { Vec::new() };
        let judges = dependency.partitions.judges(&Asked {
            headers: &arrived.headers,
            path: &arrived.path,
            body: &beginning,
            credential: credential.map(|credential| credential.name.as_str()),
        });
        let credential_name = credential.map(|credential| credential.name.as_str());
        let cached = dependency.cache.as_ref().filter(|_| dependency.policy.mode == Mode::Enforce).map(|cache| {
            let key = Key::of(
                &gateway.door.fingerprints,
                &Of {
                    dependency: &dependency.name,
                    partition: judges.field.to_str().unwrap_or_default(),
                    credential: credential_name,
                    method: &arrived.method,
                    path: &arrived.path,
                    headers: &arrived.headers,
                    bodiless: matches!(arrived.upload, Upload::Empty),
                    harmless: dependency.policy.replay == Replay::Always,
                },
            );
            (Arc::clone(cache), Arc::new(key))
        });
        let kept = dependency.falls_back().then(|| Box::new(arrived.clone()));
        let Arrived { method, path, mut headers, version, upload } = arrived;
        let caller = headers.get(CALLER).cloned();
        let prefer = Prefer::read(&headers);
        headers::to_dependency(&mut headers, upstream.host_field(), version);
        let repeatable = repeatable(dependency, &method, &headers);
        Ok(Self {
            gateway,
            dependency,
            pool,
            judges,
            request: Sendable { method, target, headers, upload, one_of_many: version == Version::HTTP_2 },
            repeatable,
            started: Instant::now(),
            attempts: 0,
            held_back: Vec::new(),
            credential,
            arrived: kept,
            cached,
            hop,
            unknown_end: false,
            path,
            prefer,
            unmet: None,
            caller,
            key_taken: None,
        })
    }

    async fn carry_through(mut self) -> Carried {
        self.dependency.counts.call();
        if let Some(carried) = self.before_the_door().await {
            return carried;
        }
        let unmet = self.unmet;
        let mut carried = self.through_the_door().await;
        if let Some(why) = unmet
            && !carried.response.headers().contains_key(APPLIED)
        {
            // RFC 7240 lets a preference be ignored; whoever sent it counts on its call being stored.
            carried.response.headers_mut().insert(NOT_QUEUED, HeaderValue::from_static(why));
        }
        carried
    }

    async fn through_the_door(mut self) -> Carried {
        let mut ask = Ask::Fresh;
        let mut choose = Choose::Any;
        let mut last = None;
        loop {
            // Before a permit is asked for that could not be used, and again before it is used: a secret may change.
            if let Err(missing) = self.put_credential() {
                return self.without_credential(&missing);
            }
            let admitted = match self.admitted(ask).await {
                Ok(admitted) => admitted,
                // Where an attempt has been made, its own answer says more.
                Err(refused) => {
                    let undone = last.map_or(Undone::Refused(refused), |failed| Undone::GaveUp(failed, None));
                    return self.instead(undone).await;
                }
            };
            let Some(admitted) = self.tried_cheaply(admitted).await else {
                ask = Ask::Waited(None);
                continue;
            };
            if let Err(missing) = self.put_credential() {
                return self.without_credential(&missing);
            }
            let mut failed = match self.attempt(admitted, choose).await {
                Ended::Well(response) => {
                    self.note_success();
                    return Carried { response: self.passed_on(response, Class::Success), done: true };
                }
                Ended::Failed(failed) => failed,
                Ended::CallerBrokeOff => {
                    let problem = match self.request.upload.ambiguity() {
                        Some(ambiguity) => ambiguity.problem().dependency(&self.dependency.name).attempts(self.tried()),
                        None => self.problem(Kind::BadRequest, "The request's body broke off."),
                    };
                    return self.done(&problem);
                }
                Ended::CallerTooSlow => {
                    let text = "The request's body did not come to its end within `timeout_ms`.";
                    return self.done(&self.problem(Kind::CallerTooSlow, text));
                }
            };
            self.note_end(&failed);
            if self.observes() {
                return self.instead(Undone::GaveUp(failed, None)).await;
            }
            let raced = failed.raced;
            let at = match self.decide(&failed) {
                Ok(at) => at,
                Err(why) => return self.instead(Undone::GaveUp(failed, Some(why))).await,
            };
            if failed.coming {
                // The rest of a long answer would keep its connection for as long as we wait, and a part is no answer.
                failed.answer = None;
            }
            ask = if raced { Ask::Fresh } else { self.before_the_next(&failed.verdict, at).await };
            choose = if raced { Choose::New } else { Choose::Any };
            last = Some(failed);
        }
    }

    /// Puts the secret into the request, as it is now.
    fn put_credential(&mut self) -> Result<(), Missing> {
        self.credential.map_or(Ok(()), |credential| credential.put(&mut self.request.headers))
    }

    fn without_credential(&self, missing: &Missing) -> Carried {
        let problem = missing.problem(&self.dependency.name).attempts(self.tried());
        Carried { response: problem.answer(self.dependency.dialect), done: false }
    }

    fn done(&self, problem: &Problem) -> Carried {
        Carried { response: problem.answer(self.dependency.dialect), done: true }
    }

    /// Returns how many attempts were made, at other dependencies too.
    fn tried(&self) -> u32 {
        self.hop.attempts.saturating_add(self.attempts)
    }

    fn observes(&self) -> bool {
        self.dependency.policy.mode == Mode::Observe
    }

    /// Asks the door until it lets us through, or until waiting is no longer possible.
    async fn admitted(&mut self, mut ask: Ask) -> Result<Admitted, Refused> {
        let counts = &self.dependency.counts;
        let mut refused_for: Vec<RefusalReason> = Vec::new();
        loop {
            let refused = match door::ask(&self.judges.guard, ask, self.gateway.door.handle.clock(), counts).await {
                Ok(admitted) => {
                    self.held_back.clear();
                    return Ok(admitted);
                }
                Err(refused) => refused,
            };
            if self.observes() {
                counts.would_refuse.add();
                return Ok(Admitted::without(counts));
            }
            let Refused { side, refusal } = refused;
            // Whoever asks again for the same reason, or takes its turn to come back, is no further refusal.
            let takes_its_turn = refusal.reason == RefusalReason::Ramp && !self.held_back.is_empty();
            if !refused_for.contains(&refusal.reason) {
                refused_for.push(refusal.reason);
                if !takes_its_turn {
                    counts.refuse(refusal.reason);
                }
            }
            let Some(at) = self.worth_waiting(&refusal) else { return Err(refused) };
            self.hold_back(side).await;
            counts.waits.add();
            let begun = Instant::now();
            self.wait_at_the_door(at, refusal.reason).await;
            counts.slept.add(begun.elapsed());
            ask = Ask::Waited(refusal.slot);
        }
    }

    /// Returns until when a refusal is waited for, if it is.
    fn worth_waiting(&self, refusal: &Refusal) -> Option<Timestamp> {
        let at = refusal.retry_at?;
        let policy = &self.dependency.policy;
        let longest = match refusal.reason {
            RefusalReason::Throttled | RefusalReason::Ramp => policy.retry.max_wait.max(policy.on_open.wait),
            RefusalReason::Open | RefusalReason::ProbesOut | RefusalReason::Held => policy.on_open.wait,
        };
        let now = self.gateway.door.handle.clock().now();
        // What was waited for before counts too: a refusal that is renewed again and again has no end.
        let spent = if self.attempts == 0 { self.started.elapsed() } else { Duration::ZERO };
        let wait = now.until(at);
        let fits = wait.saturating_add(spent) <= longest;
        (fits && self.left().is_none_or(|left| wait < left)).then_some(at)
    }

    /// Waits for a refusal to end: until its instant, or until the circuit lets callers through again.
    async fn wait_at_the_door(&self, at: Timestamp, reason: RefusalReason) {
        let now = self.gateway.door.handle.clock().now();
        let stated = now.until(at).max(PAUSE_MIN);
        match reason {
            RefusalReason::Ramp => tokio::time::sleep(stated).await,
            // A probe is judged as soon as it answers, long before its lease is over.
            RefusalReason::ProbesOut => {
                tokio::time::sleep(stated.min(ASK_AGAIN.mul_f64(0.5 + fastrand::f64()))).await;
            }
            RefusalReason::Open | RefusalReason::Throttled | RefusalReason::Held => {
                let end = tokio::time::Instant::now() + stated;
                while tokio::time::Instant::now() < end && self.judges.guard.looks_refused() {
                    tokio::time::sleep_until(end.min(tokio::time::Instant::now() + LOOK_EVERY)).await;
                }
            }
        }
    }

    /// Notes that we are going to come back, once for each time that we are held.
    async fn hold_back(&mut self, side: Side) {
        if !self.held_back.contains(&side) {
            self.held_back.push(side);
            door::hold_back(&self.judges.guard, side).await;
        }
    }

    /// Asks the policy's cheap URL before real work is risked as a probe. It may fail the round; it may not deliver the
    /// success that closes the circuit.
    async fn tried_cheaply(&self, admitted: Admitted) -> Option<Admitted> {
        let Some(ProbeWith::Url(url)) = self.dependency.policy.probe.as_ref().filter(|_| admitted.is_probe()) else {
            return Some(admitted);
        };
        match probe::ask(url, self.limits().whole).await {
            Ok(()) => Some(admitted),
            Err(verdict) => {
                admitted.settle(&verdict).await;
                None
            }
        }
    }

    /// Makes one attempt.
    async fn attempt(&mut self, mut admitted: Admitted, choose: Choose) -> Ended {
        self.attempts += 1;
        if self.attempts > 1 {
            self.dependency.counts.retries.add();
        }
        let probe = admitted.is_probe();
        let span = AttemptSpan::begin(
            &self.dependency.telemetry,
            &Followed {
                dependency: &self.dependency.name,
                circuit: self.judges.field.to_str().ok(),
                upstream: self.dependency.upstream.as_ref(),
                method: &self.request.method,
                target: &self.request.target,
                headers: &self.request.headers,
                number: self.attempts,
                probe,
                job: false,
            },
        );
        let place = span.field();
        admitted.follow(span);
        let attempt = Attempt {
            handle: &self.gateway.door.handle,
            dependency: self.dependency,
            pool: self.pool,
            request: &self.request,
            cached: self.cached.as_ref(),
            limits: self.limits(),
            // A probe asks whether the dependency can be reached, not whether an old connection still stands.
            choose: if probe { Choose::New } else { choose },
            place,
        };
        attempt.make(admitted).await
    }

    fn limits(&self) -> Limits {
        if self.observes() {
            return Limits::default();
        }
        let policy = &self.dependency.policy;
        let timeout = policy.timeout.unwrap_or(TIMEOUT);
        Limits {
            whole: Some(self.left().map_or(timeout, |left| timeout.min(left))),
            first_byte: policy.first_byte,
            idle: policy.idle,
        }
    }

    /// Returns how much of the call's time is left.
    fn left(&self) -> Option<Duration> {
        let own = self.dependency.policy.retry.deadline.map(|deadline| deadline.saturating_sub(self.started.elapsed()));
        let of_the_call = self.hop.until.map(|until| until.saturating_duration_since(Instant::now()));
        own.into_iter().chain(of_the_call).min()
    }

    /// Decides whether there is another attempt, and when.
    fn decide(&self, failed: &Failed) -> Result<Timestamp, GaveUp> {
        let policy = &self.dependency.policy;
        let now = self.gateway.door.handle.clock().now();
        let clock_start = now - self.started.elapsed();
        let so_far = CallSoFar {
            attempts: self.attempts,
            started_at: clock_start,
            last_took: Duration::ZERO,
            repeatable: self.repeatable,
            command: None,
            recent: self.dependency.budget.recent(self.dependency.counts.calls(), Instant::now()),
            max_wait: policy.retry.max_wait,
        };
        let chance = Chance::from_seed(fastrand::u64(..));
        let at = match retry::decide(policy, &so_far, &failed.verdict, now, chance) {
            // A failure is never finished.
            Decision::Finish => return Err(GaveUp::Core(GiveUp::DoesNotHeal)),
            // The dependency closed a connection that it had no use for, and we were a moment late. That is no failure
            // of its, so the budget that keeps failures from multiplying has nothing to say.
            Decision::RetryAt(_) | Decision::GiveUp(GiveUp::BudgetUsed) if failed.raced => now,
            Decision::RetryAt(at) => at,
            Decision::GiveUp(why) => return Err(GaveUp::Core(why)),
        };
        if !self.request.upload.can_be_sent_again() {
            return Err(GaveUp::BodyNotReplayable);
        }
        if let (Some(left), Some(whole)) = (self.left(), policy.retry.deadline)
            && now.until(at) + ATTEMPT_MIN.min(whole / 10) > left
        {
            return Err(GaveUp::Core(GiveUp::DeadlineTooNear));
        }
        Ok(at)
    }

    /// Waits until the next attempt; returns how it asks the door.
    async fn before_the_next(&mut self, verdict: &Verdict, at: Timestamp) -> Ask {
        let ask = if verdict.hint.is_some() {
            // Everybody was told to wait: whoever comes back does so in turn.
            let side = match verdict.about {
                About::Account if self.judges.route.account.is_some() => Side::Account,
                About::Account | About::Place | About::Caller | About::Nobody => Side::Place,
            };
            self.hold_back(side).await;
            Ask::Waited(None)
        } else {
            self.dependency.budget.spend(Instant::now());
            Ask::Fresh
        };
        let wait = self.gateway.door.handle.clock().now().until(at);
        if !wait.is_zero() {
            self.dependency.counts.waits.add();
            tokio::time::sleep(wait).await;
            self.dependency.counts.slept.add(wait);
        }
        ask
    }

    /// Returns the answer to a call that was refused.
    fn refused(&self, refused: Refused, not_kept: Option<NotKept>) -> Response<Body> {
        let Refused { side, refusal } = refused;
        self.dependency.counts.degraded.add();
        let route = &self.judges.route;
        let circuit = match side {
            Side::Account => route.account.as_ref().unwrap_or(&route.place),
            Side::Place => &route.place,
        };
        let state = match refusal.reason {
            RefusalReason::Open | RefusalReason::Held => Some("open"),
            RefusalReason::ProbesOut => Some("half_open"),
            RefusalReason::Throttled | RefusalReason::Ramp => None,
        };
        let clock = self.gateway.door.handle.clock();
        let read = clock.read();
        let retry_at = refusal.retry_at.and_then(|at| {
            let after = read.now.until(at);
            let at = jiff::Timestamp::from_millisecond(read.wall_ms).ok()?.checked_add(after).ok()?;
            Some(RetryAt { after, at })
        });
        let text = match &not_kept {
            None => "It was not sent.".to_owned(),
            Some(why) => format!("It was not sent. {}", why.sentence()),
        };
        let kind = not_kept.as_ref().and_then(NotKept::kind);
        // A queue or a disk that is full has no hour at which it is not.
        let retry_at = retry_at.or_else(|| kind.and_then(|_| self.retry_in(FULL_FOR)));
        self.problem(kind.unwrap_or(Kind::CircuitOpen), text)
            .user_message(self.dependency.policy.on_open.user_message.as_deref())
            .circuit(&circuit.to_string(), state)
            .reason(not_kept.as_ref().map_or(refusal.reason.as_str(), NotKept::word))
            .retry_at(retry_at)
            .answer(self.dependency.dialect)
    }

    /// Returns the answer to a call whose last attempt failed.
    fn gave_up(&self, failed: Box<Failed>, why: Option<GaveUp>, not_kept: Option<NotKept>) -> Response<Body> {
        let counts = &self.dependency.counts;
        counts.degraded.add();
        let class = failed.verdict.class;
        let mut response = match failed.answer {
            Some(answer) => self.passed_on(answer, class),
            None => self.no_answer(&failed.verdict).answer(self.dependency.dialect),
        };
        // What may be tried again was tried. An SDK that adds attempts of its own would send again what we would not, or
        // sleep out a `Retry-After` of hours within the call.
        // What no SDK repeats passes as it came.
        if !self.observes() && (class.heals() || class == Class::QuotaExhausted) {
            response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        if why == Some(GaveUp::BodyNotReplayable) {
            counts.body_not_replayable.add();
            response.headers_mut().insert(REASON, HeaderValue::from_static("body_not_replayable"));
        }
        if let Some(why) = not_kept {
            response.headers_mut().insert(REASON, HeaderValue::from_static(why.word()));
        }
        response
    }

    /// Returns the problem of a call without an answer.
    fn no_answer(&self, verdict: &Verdict) -> Problem {
        let shown = &verdict.evidence.excerpt;
        let unknown = verdict.reached == Reached::Unknown && self.repeatable == Repeatable::No;
        let problem = match verdict.class {
            Class::ConnectionFailure => self.problem(Kind::NotReached, format!("{shown}.")),
            _ if unknown => {
                let text = format!("{shown}. It may have been executed; look before you send it again.");
                self.problem(Kind::OutcomeUnknown, text)
            }
            Class::Timeout => self.problem(Kind::Timeout, format!("{shown}.")),
            _ if verdict.rule == ANSWER_INVALID => self.problem(Kind::AnswerInvalid, format!("{shown}.")),
            _ => self.problem(Kind::AnswerLost, format!("{shown}.")),
        };
        problem.class(verdict.class.as_str()).circuit(&self.judges.route.place.to_string(), None)
    }

    fn problem(&self, kind: Kind, detail: impl Into<String>) -> Problem {
        Problem::new(kind, detail).dependency(&self.dependency.name).attempts(self.tried())
    }

    /// Adds to an answer what became of the call.
    fn passed_on(&self, mut response: Response<Body>, class: Class) -> Response<Body> {
        let fields = response.headers_mut();
        // Grown once instead of twice.
        fields.reserve(3);
        fields.insert(OUTCOME, HeaderValue::from_static(class.as_str()));
        fields.insert(ATTEMPTS, attempts_field(self.tried()));
        fields.insert(CIRCUIT, self.judges.field.clone());
        response
    }
}

/// Why there is no further attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GaveUp {
    /// The core says so.
    Core(GiveUp),
    /// The request's body was longer than is kept.
    BodyNotReplayable,
}

/// Returns whether a second time is safe whatever happened to the first.
fn repeatable(dependency: &Dependency, method: &Method, fields: &HeaderMap) -> Repeatable {
    let idempotent =
        matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE | Method::TRACE);
    let keyed = || dependency.key_field.as_ref().is_some_and(|name| fields.contains_key(name));
    let safe = match dependency.policy.replay {
        Replay::Always => true,
        Replay::IfIdempotent => idempotent || keyed(),
        Replay::Never => false,
    };
    if safe { Repeatable::Yes } else { Repeatable::No }
}
