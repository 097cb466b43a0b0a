//! Does with a call that its dependency cannot do now what the policy says: `on_open`, in order.
//!
//! It applies to a call that was refused, and to one that gave up on a class that heals. A call one of whose attempts has
//! an unknown end (sent, and neither answered nor proved unsent) is told so and nothing else: elsewhere it would be done
//! a second time. Only what changes nothing (GET, HEAD, OPTIONS) and what the policy declares harmless (`replay: always`)
//! goes on; a key does not help, because the other dependency does not know it.
//!
//! The first action that can be done is done. A fallback can be done if the other dependency lets the call through and
//! does it: one that refuses or fails in a way that heals leaves the turn to the next action. The other's own cache and
//! fallback come before that; a chain ends, because the policy's reader refuses circles, and a bound stands behind it for
//! policies that change under a call.

use std::sync::Arc;
use std::time::Duration;

use halfopen::guard::Refused;
use halfopen_core::outcome::Reached;
use halfopen_core::policy::{OnOpenAction, Replay};
use halfopen_core::verdict::Class;
use http::header::{AGE, AUTHORIZATION, COOKIE, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION, WARNING};
use http::{Method, Response};

use super::super::attempt::Failed;
use super::super::body::{self, Body};
use super::super::credentials::CHOOSES;
use super::super::partition::KEY_FIELDS;
use super::super::problem::OUTCOME;
use super::super::refuse::queue::NotKept;
use super::kept::{Because, Known};
use super::{Arrived, Call, Carried, GaveUp, Hop};

/// Says that an answer is an old one.
const STALE: HeaderName = HeaderName::from_static("halfopen-stale");
/// Says which other dependency answered.
const FALLBACK: HeaderName = HeaderName::from_static("halfopen-fallback");
/// RFC 9211.
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// How many dependencies a call may come to, one after the other.
const HOPS_MAX: u32 = 8;

/// How long the rest of a request may take to arrive before it is compared with others.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// Names of query parameters that hold a key.
pub(super) const KEY_PARAMETERS: &[&str] = &["key", "api_key", "api-key", "apikey", "access_token", "token", "sig"];

/// Why a call was not done.
pub(super) enum Undone {
    /// The door refused it, before its first attempt.
    Refused(Refused),
    /// Its last attempt failed.
    GaveUp(Box<Failed>, Option<GaveUp>),
}

impl Call<'_> {
    /// Answers a call that was not done.
    pub(super) async fn instead(mut self, undone: Undone) -> Carried {
        let mut not_kept = None;
        if self.on_open_applies(&undone) {
            let dependency = Arc::clone(self.dependency);
            for action in &dependency.policy.on_open.actions {
                match action {
                    OnOpenAction::Cache => {
                        if let Some(response) = self.kept_answer().await {
                            dependency.counts.cache_answers.add();
                            return Carried { response, done: true };
                        }
                    }
                    OnOpenAction::Fallback => {
                        if let Some(carried) = self.by_fallback().await {
                            dependency.counts.fallback_answers.add();
                            return carried;
                        }
                    }
                    OnOpenAction::Queue | OnOpenAction::ManualReview => {
                        let refused = match &undone {
                            Undone::Refused(refused) => Ok(*refused),
                            Undone::GaveUp(failed, _) => Err(failed.verdict.hint.as_ref().map(|hint| hint.until)),
                        };
                        let known = match refused {
                            Ok(refused) => self.known_of(refused).await,
                            Err(hint) => {
                                let honoured = dependency.policy.retry.honor_retry_after;
                                Known { retry_at: hint, stated: hint.filter(|_| honoured) }
                            }
                        };
                        match self.keep(Because::OnOpen(*action), known).await {
                            Ok(carried) => return carried,
                            Err(why) => not_kept = Some(why),
                        }
                    }
                    OnOpenAction::FailFast => break,
                }
            }
        }
        if let Some(why) = &not_kept
            && let Some(carried) = self.review_beyond_ttl(why).await
        {
            return carried;
        }
        self.told(undone, not_kept)
    }

    /// Tells the caller that its call was not done.
    fn told(&self, undone: Undone, not_kept: Option<NotKept>) -> Carried {
        match undone {
            Undone::Refused(refused) => Carried { response: self.refused(refused, not_kept), done: false },
            Undone::GaveUp(failed, why) => {
                // What no wait and no other dependency changes is an answer; what may have been done must not be done
                // elsewhere.
                let class = failed.verdict.class;
                let ours = matches!(class, Class::Auth | Class::QuotaExhausted);
                let done = !(class.heals() || ours) || self.may_have_run();
                Carried { response: self.gave_up(failed, why, not_kept), done }
            }
        }
    }

    fn on_open_applies(&self, undone: &Undone) -> bool {
        let heals = match undone {
            Undone::Refused(_) => true,
            Undone::GaveUp(failed, _) => failed.verdict.class.heals(),
        };
        heals && !self.observes() && !self.may_have_run()
    }

    /// Returns whether doing it elsewhere could do it twice.
    fn may_have_run(&self) -> bool {
        let harmless = is_safe(&self.request.method) || self.dependency.policy.replay == Replay::Always;
        self.unknown_end && !harmless
    }

    /// Notes how far a failed attempt got.
    pub(super) fn note_end(&mut self, failed: &Failed) {
        self.unknown_end |= failed.verdict.reached == Reached::Unknown;
    }

    /// Returns the last good answer of the same request.
    async fn kept_answer(&mut self) -> Option<Response<Body>> {
        let (cache, key) = self.cached.as_ref()?;
        if !key.has_body() {
            let within = self.left().map_or(BODY_WITHIN, |left| left.min(BODY_WITHIN));
            let pieces = self.request.upload.all(within).await?;
            key.body_is(pieces.iter().map(|piece| &**piece));
        }
        let now = self.gateway.door.handle.clock().now();
        let (answer, age) = cache.find(key, now)?;
        let bytes = if self.request.method == Method::HEAD { bytes::Bytes::new() } else { answer.body.clone() };
        let mut response = Response::new(body::full(bytes));
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers.clone();
        let mut response = self.passed_on(response, Class::Success);
        let fields = response.headers_mut();
        let status = format!("halfopen; hit; ttl={}", answer.fresh_for(age));
        fields.insert(OUTCOME, HeaderValue::from_static("cached"));
        fields.insert(STALE, HeaderValue::from_static("true"));
        fields.insert(AGE, HeaderValue::from(age.as_secs()));
        fields.append(WARNING, HeaderValue::from_static("110 halfopen \"Response is Stale\""));
        if let Ok(status) = HeaderValue::from_str(&status) {
            fields.append(CACHE_STATUS, status);
        }
        Some(response)
    }

    /// Has another dependency do it; `None` if that cannot do it either.
    async fn by_fallback(&mut self) -> Option<Carried> {
        let arrived = self.arrived.as_ref()?;
        let name = self.dependency.wiring.fallback.as_deref()?;
        if self.hop.passed >= HOPS_MAX {
            return None;
        }
        if !self.request.upload.can_be_sent_again() {
            self.dependency.counts.body_not_replayable.add();
            return None;
        }
        let other = self.gateway.live().dependency(name)?;
        let mut headers = arrived.headers.clone();
        let own = self.dependency.credentials.iter().map(|credential| credential.header().clone());
        forget_caller(&mut headers, own);
        let path = without_keys(&arrived.path);
        let next = Arrived {
            method: arrived.method.clone(),
            path: path.into(),
            headers,
            version: arrived.version,
            upload: self.request.upload.clone(),
        };
        let until = self.left().map(|left| std::time::Instant::now() + left);
        let hop = Hop { passed: self.hop.passed + 1, until, attempts: self.attempts };
        let mut carried = Box::pin(super::carry_on(self.gateway, &other, next, hop)).await;
        if !carried.done {
            return None;
        }
        let fields = carried.response.headers_mut();
        if fields.get(OUTCOME).is_some_and(|outcome| outcome == Class::Success.as_str()) {
            fields.insert(OUTCOME, HeaderValue::from_static("fallback"));
        }
        // The last one of a chain has said so already.
        if let (false, Ok(name)) = (fields.contains_key(&FALLBACK), HeaderValue::from_str(&other.name)) {
            fields.insert(FALLBACK, name);
        }
        Some(carried)
    }

    /// Notes a success of the request: what it may have changed is not answered from what was kept.
    pub(super) fn note_success(&self) {
        if let Some((cache, key)) = self.cached.as_ref().filter(|(_, key)| key.changes_something()) {
            cache.drop_target(key);
        }
    }
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
}

/// Takes out by what the caller is known to the first dependency: it is nobody else's business.
fn forget_caller(headers: &mut HeaderMap, own: impl Iterator<Item = HeaderName>) {
    let known_by = KEY_FIELDS.iter().map(|name| HeaderName::from_static(name));
    let rest = [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE, CHOOSES];
    for name in known_by.chain(rest).chain(own) {
        headers.remove(name);
    }
}

/// Returns a path without the parameters of its query that hold a key.
fn without_keys(path: &str) -> String {
    let Some((path, query)) = path.split_once('?') else { return path.to_owned() };
    let is_key = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or("");
        KEY_PARAMETERS.iter().any(|key| name.eq_ignore_ascii_case(key))
    };
    let rest: Vec<&str> = query.split('&').filter(|pair| !is_key(pair)).collect();
    if rest.is_empty() { path.to_owned() } else { format!("{path}?{}", rest.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("/v1/x", "/v1/x"; "no query")]
    #[test_case("/v1/x?key=AIza&alt=sse", "/v1/x?alt=sse"; "a key first")]
    #[test_case("/v1/x?alt=sse&API_KEY=1&n=2", "/v1/x?alt=sse&n=2"; "in the middle")]
    #[test_case("/v1/x?key=1", "/v1/x"; "nothing else")]
    #[test_case("/v1/x?keys=1", "/v1/x?keys=1"; "another name")]
    fn keys_in_a_query_stay_here(path: &str, expected: &str) {
        assert_eq!(without_keys(path), expected);
    }

    /// S011
    #[test]
    fn what_the_caller_is_known_by_goes_nowhere_else() {
        let mut headers = HeaderMap::new();
        for name in ["authorization", "x-api-key", "cookie", "x-own", "halfopen-credential", "content-type"] {
            headers.insert(name, HeaderValue::from_static("v"));
        }
        forget_caller(&mut headers, [HeaderName::from_static("x-own")].into_iter());
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["content-type"]);
    }
}
