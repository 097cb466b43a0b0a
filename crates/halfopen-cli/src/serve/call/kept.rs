//! Keeps a call for later: as `on_open` says, as the caller prefers, or because an earlier one is still to be done.
//!
//! Two questions come before any door, for dependencies whose policy queues. A call whose idempotency key belongs to a job
//! is that job, whatever its circuit says by now: the client that repeats it has only lost our answer. And a call that an
//! order key puts behind an open job goes to the end of that line, also when the circuit is closed; past it, it would be
//! undone by the earlier one.
//!
//! What is kept is what would have been sent, without what is added at sending. A secret of the caller makes a call one
//! that is not kept, unless the policy's credential takes its place.

use std::time::Duration;

use halfopen::config::OrderBy;
use halfopen::guard::Refused;
use halfopen::handle::jobs::{Accepted, EnqueueError, JobKey, NewJob};
use halfopen_core::job::{self, HttpRequest, JobId, JobRequest, JobState, Reason, Safety, Terms};
use halfopen_core::pair::Side;
use halfopen_core::permit::RefusalReason;
use halfopen_core::policy::{OnExpiry, OnOpenAction};
use halfopen_core::redact::is_secret_field;
use halfopen_core::time::Timestamp;
use http::header::{
    AUTHORIZATION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderName, HeaderValue, PROXY_AUTHORIZATION, TE,
};
use http::{Method, Response};

use super::super::body::Body;
use super::super::door::blocking;
use super::super::partition::KEY_FIELDS;
use super::super::problem::{ATTEMPTS, CIRCUIT, Kind, RetryAt};
use super::super::queue::answer::{self, REPLAYED, Told};
use super::super::queue::keys::Taken;
use super::super::queue::prefer::{APPLIED, PREFER};
use super::super::refuse::queue::NotKept;
use super::instead::KEY_PARAMETERS;
use super::{Call, Carried};

/// How long the rest of a request may take to arrive before it is kept.
const BODY_WITHIN: Duration = Duration::from_secs(30);
/// How often a caller that waits for its job looks at the store: another process may have done it.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The field of an idempotency key between a caller and us.
const KEY_FIELD: HeaderName = HeaderName::from_static("idempotency-key");

/// Why a call is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Because {
    /// The policy says so.
    OnOpen(OnOpenAction),
    /// The caller prefers it.
    Preferred,
    /// An open job has its order key.
    Order(JobId),
    /// A job has its idempotency key.
    Key,
    /// It would expire before it could be sent, and such calls go to a person.
    Review(Reason),
}

/// When a call may be tried again, as far as is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// Not before then.
    pub(super) retry_at: Option<Timestamp>,
    /// Not before then, by the dependency's own word.
    pub(super) stated: Option<Timestamp>,
}

impl Call<'_> {
    /// Answers a call that does not come to the door: its key belongs to a job, or its order key puts it behind one, or
    /// the caller prefers it. Holds its key as long as the call goes on.
    pub(super) async fn before_the_door(&mut self) -> Option<Carried> {
        // Who only observes changes nothing about a call.
        if !self.dependency.keeps() || self.observes() {
            let why = if self.observes() { "observed" } else { "does_not_queue" };
            self.unmet = self.prefer.respond_async.then_some(why);
            return None;
        }
        if let Some(key) = self.key() {
            let Some(taken) = self.gateway.queue.keys.take(&self.dependency.name, &key).await else {
                let text = "An earlier call with this idempotency key has not ended.";
                let in_a_second = self.retry_in(Duration::from_secs(1));
                return Some(self.done(&self.problem(Kind::KeyInUse, text).retry_at(in_a_second)));
            };
            self.key_taken = Some(taken);
            let (handle, name) = (self.gateway.door.handle.clone(), self.dependency.name.clone());
            let known = blocking(move || handle.job_with_key(&name, &key)).await;
            if let Ok(Some(id)) = known {
                return Some(match self.keep(Because::Key, Known::default()).await {
                    Ok(kept) => kept,
                    Err(why) => {
                        let text = format!("It belongs to job {id}. {}", why.sentence());
                        self.done(&self.problem(Kind::KeyInUse, text))
                    }
                });
            }
        }
        if let Some(order_key) = self.order_key() {
            let (handle, name) = (self.gateway.door.handle.clone(), self.dependency.name.clone());
            let held = blocking(move || handle.order_held(&name, &order_key)).await;
            if let Ok(Some(id)) = held {
                return Some(match self.keep(Because::Order(id), Known::default()).await {
                    Ok(kept) => kept,
                    Err(why) => {
                        let text = format!("Job {id} comes before it and has not ended. {}", why.sentence());
                        self.done(&self.problem(Kind::OrderHeld, text).reason(why.word()))
                    }
                });
            }
        }
        if self.prefer.respond_async {
            // A preference: what cannot be kept is carried at once, and its answer says why.
            match self.keep(Because::Preferred, Known::default()).await {
                Ok(kept) => return Some(kept),
                Err(why) => self.unmet = Some(why.word()),
            }
        }
        None
    }

    /// Keeps the call.
    ///
    /// # Errors
    ///
    /// Why it is not kept. Nothing was changed then.
    pub(super) async fn keep(&mut self, because: Because, known: Known) -> Result<Carried, NotKept> {
        let request = self.stored().await?;
        let policy = &self.dependency.policy;
        let review = match because {
            Because::OnOpen(OnOpenAction::ManualReview) => Some(Reason::Policy),
            Because::Review(reason) => Some(reason),
            Because::OnOpen(_) | Because::Preferred | Because::Order(_) | Because::Key => None,
        };
        let new = NewJob {
            terms: Terms {
                place: self.judges.route.place.clone(),
                account: self.judges.route.account.clone(),
                ttl: job::ttl(policy),
                on_expiry: policy.on_open.on_expiry,
                safety: self.safety(),
                keep: self.dependency.wiring.queue.keep_done,
            },
            request: JobRequest::Http(request),
            key: self.key(),
            order_key: self.order_key(),
            review,
            retry_at: known.stated,
            bounds: self.dependency.wiring.queue,
            caller: self.caller_name(),
            on_done: !self.dependency.wiring.on_done.is_empty(),
        };
        let mut ends = self.gateway.queue.bell.ends();
        let handle = self.gateway.door.handle.clone();
        let accepted = match blocking(move || handle.enqueue(new)).await {
            Ok(accepted) => accepted,
            Err(EnqueueError::KeyTaken(id)) => {
                let text = format!("Job {id} was accepted with it. Send a new key for another payload.");
                return Ok(self.done(&self.problem(Kind::KeyReused, text)));
            }
            Err(error) => match NotKept::of(error) {
                Ok(why) => return Err(why),
                Err(error) => return Err(NotKept::NotDurable(error.to_string())),
            },
        };
        if let Accepted::New(receipt) = &accepted {
            self.dependency.counts.queued.add();
            if receipt.state == JobState::Queued {
                self.gateway.queue.bell.ring(&self.dependency.name);
            }
        }
        let id = accepted.receipt().id;
        if let Some(wait) = self.prefer.wait
            && let Some(answered) = self.wait_for(id, &mut ends, wait).await
        {
            return Ok(self.told_of(answered, &accepted, true));
        }
        let read = self.gateway.door.handle.clock().read();
        let look_in = known.retry_at.map_or(Duration::ZERO, |at| read.now.until(at));
        let response = Told {
            dependency: &self.dependency.name,
            receipt: *accepted.receipt(),
            message: policy.on_open.user_message.as_deref(),
            reason: review.map(Reason::as_str).or_else(|| matches!(because, Because::Order(_)).then_some("order_held")),
            look_in_secs: look_in.as_secs() + u64::from(look_in.subsec_nanos() > 0),
        }
        .answer(&read);
        Ok(self.told_of(response, &accepted, false))
    }

    /// Adds what every answer for a job says.
    fn told_of(&self, mut response: Response<Body>, accepted: &Accepted, waited: bool) -> Carried {
        let fields = response.headers_mut();
        fields.insert(ATTEMPTS, HeaderValue::from(self.tried()));
        fields.insert(CIRCUIT, self.judges.field.clone());
        if let Accepted::Replayed(_) = accepted {
            fields.insert(REPLAYED, HeaderValue::from_static("true"));
        }
        let waits = self.prefer.wait.filter(|_| waited).map(|wait| format!("wait={}", wait.as_secs()));
        let applied = match (self.prefer.respond_async, waits) {
            (true, None) => Some("respond-async".to_owned()),
            (true, Some(waits)) => Some(format!("respond-async, {waits}")),
            (false, waits) => waits,
        };
        if let Some(applied) = applied.and_then(|applied| HeaderValue::from_str(&applied).ok()) {
            fields.insert(APPLIED, applied);
        }
        Carried { response, done: true }
    }

    /// Waits for a job to end; returns its own answer, if it has one by then.
    async fn wait_for(
        &self,
        id: JobId,
        ends: &mut tokio::sync::broadcast::Receiver<JobId>,
        wait: Duration,
    ) -> Option<Response<Body>> {
        let until = tokio::time::Instant::now() + wait;
        loop {
            let handle = self.gateway.door.handle.clone();
            let detail = blocking(move || handle.job(id)).await.ok().flatten()?;
            match detail.view.job.state() {
                JobState::Queued | JobState::Running => {}
                JobState::Done
                | JobState::Failed
                | JobState::Expired
                | JobState::ManualReview
                | JobState::Cancelled => return answer::kept(detail),
            }
            let now = tokio::time::Instant::now();
            if now >= until {
                return None;
            }
            let look = tokio::time::sleep_until(until.min(now + LOOK_EVERY));
            tokio::pin!(look);
            loop {
                tokio::select! {
                    () = &mut look => break,
                    ended = ends.recv() => match ended {
                        Ok(ended) if ended != id => {}
                        // Also if some were missed: the store knows.
                        Ok(_) | Err(_) => break,
                    }
                }
            }
        }
    }

    /// Returns the call as it is stored.
    async fn stored(&mut self) -> Result<HttpRequest, NotKept> {
        let replaced = self.credential.map(|credential| credential.header().clone());
        let keyed = self.dependency.key_field.as_ref();
        for name in self.request.headers.keys() {
            let secret = is_secret(name) && keyed != Some(name);
            if secret && replaced.as_ref() != Some(name) {
                return Err(NotKept::Secret(name.as_str().to_owned()));
            }
        }
        if let Some(key) = key_in_query(&self.path) {
            return Err(NotKept::Secret(key.to_owned()));
        }
        let within = self.left().map_or(BODY_WITHIN, |left| left.min(BODY_WITHIN));
        let Some(pieces) = self.request.upload.all(within).await else {
            let max = self.dependency.policy.replay_body_bytes_max;
            let too_long = self.request.upload.is_too_long();
            return Err(if too_long { NotKept::TooLong(max) } else { NotKept::Incomplete });
        };
        let mut headers = Vec::with_capacity(self.request.headers.len());
        for (name, value) in &self.request.headers {
            let added = [HOST, CONTENT_LENGTH, EXPECT, TE, PREFER].contains(name) || replaced.as_ref() == Some(name);
            if !added {
                headers.push((name.as_str().to_owned(), value.as_bytes().to_vec()));
            }
        }
        Ok(HttpRequest {
            method: self.request.method.as_str().to_owned(),
            target: self.path.to_string(),
            headers,
            credential: self.credential.map(|credential| credential.name.clone()),
            body: pieces.concat(),
        })
    }

    /// Returns who calls, where callers are told apart.
    fn caller_name(&self) -> Option<String> {
        self.caller.as_ref().map(|caller| String::from_utf8_lossy(caller.as_bytes()).into_owned())
    }

    /// Returns the idempotency key, if the caller sent one.
    fn key(&self) -> Option<JobKey> {
        let names = [Some(&KEY_FIELD), self.dependency.key_field.as_ref()];
        let value = names.into_iter().flatten().find_map(|name| self.request.headers.get(name))?;
        let key = String::from_utf8_lossy(value.as_bytes()).trim().to_owned();
        let caller = self.caller_name().unwrap_or_default();
        (!key.is_empty()).then_some(JobKey { caller, key })
    }

    /// Returns what makes a second execution harmless.
    fn safety(&self) -> Safety {
        match self.request.method {
            Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE | Method::TRACE => {
                Safety::Idempotent
            }
            _ => {
                let field = self.dependency.key_field.as_ref();
                let keyed = field.is_some_and(|name| self.request.headers.contains_key(name));
                if keyed { Safety::Keyed { lifetime: self.dependency.key_lifetime } } else { Safety::Unsafe }
            }
        }
    }

    /// Returns what keeps the call in order with others, if anything does.
    fn order_key(&self) -> Option<String> {
        let path = || Some(format!("path {}", self.path.split('?').next().unwrap_or_default()));
        let changes = !matches!(self.request.method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE);
        match &self.dependency.wiring.order_by {
            None if matches!(self.request.method, Method::PUT | Method::PATCH | Method::DELETE) => path(),
            None | Some(OrderBy::Nothing | OrderBy::Argument(_)) => None,
            Some(OrderBy::Path) => changes.then(path).flatten(),
            Some(OrderBy::Header(name)) => {
                let value = self.request.headers.get(name.as_str()).filter(|_| changes)?;
                Some(format!("header {}", String::from_utf8_lossy(value.as_bytes())))
            }
        }
    }

    /// Returns when a call that was refused may be tried again.
    pub(super) async fn known_of(&self, Refused { side, refusal }: Refused) -> Known {
        let stated = match refusal.reason {
            RefusalReason::Throttled => true,
            RefusalReason::Open => self.opened_by_a_hint(side).await,
            RefusalReason::ProbesOut | RefusalReason::Ramp | RefusalReason::Held => false,
        };
        Known { retry_at: refusal.retry_at, stated: refusal.retry_at.filter(|_| stated) }
    }

    /// Returns whether a breaker is open because the dependency stated a long wait: only that tells when it will be back.
    async fn opened_by_a_hint(&self, side: Side) -> bool {
        let route = &self.judges.route;
        let circuit = match side {
            Side::Account => route.account.clone().unwrap_or_else(|| route.place.clone()),
            Side::Place => route.place.clone(),
        };
        let (handle, policy) = (self.gateway.door.handle.clone(), self.dependency.policy.clone());
        let view = blocking(move || handle.circuit(&circuit, &policy)).await;
        view.ok().flatten().is_some_and(|view| view.status.reason == Some("long_wait"))
    }

    /// Keeps a call that would expire before it could be sent, if such calls go to a person.
    pub(super) async fn review_beyond_ttl(&mut self, not_kept: &NotKept) -> Option<Carried> {
        match (not_kept, self.dependency.policy.on_open.on_expiry) {
            (NotKept::BeyondTtl(_), OnExpiry::ManualReview) => {
                self.keep(Because::Review(Reason::HintBeyondTtl), Known::default()).await.ok()
            }
            _ => None,
        }
    }

    /// Returns from when on asking again can help.
    pub(super) fn retry_in(&self, after: Duration) -> Option<RetryAt> {
        let wall_ms = self.gateway.door.handle.clock().read().wall_ms;
        let at = jiff::Timestamp::from_millisecond(wall_ms).ok()?.checked_add(after).ok()?;
        Some(RetryAt { after, at })
    }
}

/// Returns the parameter of a query that holds a key.
/// Returns whether a field carries a secret of the caller.
fn is_secret(name: &HeaderName) -> bool {
    let known = || KEY_FIELDS.contains(&name.as_str());
    [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE].contains(name) || known() || is_secret_field(name.as_str())
}

fn key_in_query(path: &str) -> Option<&str> {
    let (_, query) = path.split_once('?')?;
    let names = query.split('&').filter_map(|pair| pair.split('=').next());
    names
        .into_iter()
        .find(|name| KEY_PARAMETERS.iter().any(|key| name.eq_ignore_ascii_case(key)) || is_secret_field(name))
}

/// The key a call holds.
pub(super) type KeyTaken = Option<Taken>;
