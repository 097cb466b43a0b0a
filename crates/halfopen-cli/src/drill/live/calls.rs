//! Makes the calls of a row, each over a connection of its own, and notes how they end as their callers are told.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use halfopen_core::policy::OnOpenAction;
use halfopen_core::verdict::Class;
use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue};

use super::super::caller::LEAVES_AFTER;
use super::super::quantity::span;
use super::super::scenario::{Group, Leaves};
use super::super::trace::End;
use super::gateway::Answer;
use super::stage::Stage;

/// How long after an answer the next call of a row of calls begins at least: a caller has its answer a moment before the
/// gateway has written down what it was.
const PAUSE: Duration = Duration::from_millis(100);
const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const PREFER: HeaderName = HeaderName::from_static("prefer");

/// Makes the calls of a group that wait for each other, from the first one on.
pub(super) async fn one_by_one(stage: Arc<Stage>, group: usize, count: usize, every: Duration) {
    for nth in 0..count {
        if nth > 0 {
            tokio::time::sleep(every.max(PAUSE)).await;
        }
        one(Arc::clone(&stage), group, nth).await;
    }
}

/// Makes one call.
pub(super) async fn one(stage: Arc<Stage>, group: usize, nth: usize) {
    let scenario = Arc::clone(&stage.scenario);
    let spec = &scenario.calls[group];
    let call = stage.begin_call(group);
    let shadow = match &spec.dependency {
        Some(name) => stage.others.get(name).unwrap_or(&stage.shadow),
        None => &stage.shadow,
    };
    // With one key comes one payload, and the path is part of it.
    let named = match &spec.key {
        Some(_) => stage.noted().groups.iter().position(|of| *of == group).unwrap_or(call),
        None => call,
    };
    let target = format!("{}/drill/{named}", shadow.path);
    let body = Bytes::from(format!("{{\"call\":{named}}}\n"));
    let calling = stage.gateway.call(&target, fields(spec, nth), body);
    let ended = match spec.leaves {
        Some(Leaves::Cancelled) => tokio::select! {
            answer = calling => Some(answer),
            () = leaving(&stage, call) => None,
        },
        Some(Leaves::NotFound | Leaves::Panic | Leaves::Killed) | None => Some(calling.await),
    };
    let now = stage.clock.now();
    let mut noted = stage.noted();
    let seen = &mut noted.trace.calls[call];
    match ended {
        None => {
            seen.ended = Some((now, End::Left));
            seen.attempts = 1;
        }
        Some(Ok(answer)) => {
            seen.ended = Some((now, end(&answer)));
            seen.class = class(&answer);
            seen.attempts = answer.field("halfopen-attempts").and_then(|word| word.parse().ok()).unwrap_or(0);
            seen.job = answer.field("location").and_then(|at| at.strip_prefix("/jobs/")?.parse().ok());
        }
        // A caller that was left without an answer has no end, and the checks say so.
        Some(Err(_)) => {}
    }
    drop(noted);
    stage.look.notify_one();
    stage.changed.notify_waiters();
}

/// Waits until a call is in the middle of its attempt.
async fn leaving(stage: &Stage, call: usize) {
    loop {
        let changed = stage.changed.notified();
        let mut changed = std::pin::pin!(changed);
        changed.as_mut().enable();
        if stage.noted().trace.sent_by(call).next().is_some() {
            break;
        }
        changed.await;
    }
    let quick = stage.known_span("swift").unwrap_or(LEAVES_AFTER);
    tokio::time::sleep(LEAVES_AFTER.min(quick * 2)).await;
}

fn fields(spec: &Group, nth: usize) -> HeaderMap {
    let mut fields = HeaderMap::new();
    let mut add = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            fields.insert(name, value);
        }
    };
    if let Some(key) = &spec.key {
        add(KEY, key);
    }
    if spec.queued {
        add(PREFER, "respond-async");
    }
    // Keys of nobody, by which the gateway tells callers apart.
    if spec.own_credentials {
        add(AUTHORIZATION, &format!("Bearer drill-{}-{nth}", spec.name));
    } else if let Some(credential) = &spec.credential {
        add(AUTHORIZATION, &format!("Bearer drill-{credential}"));
    }
    fields
}

/// Returns how a call ended, as its caller is told.
fn end(answer: &Answer) -> End {
    let word = answer.field("halfopen-outcome").unwrap_or_default();
    if answer.status.as_u16() == 202 {
        let review = word == "manual_review";
        return End::OnOpen(if review { OnOpenAction::ManualReview } else { OnOpenAction::Queue });
    }
    match word {
        "success" => End::Success,
        "refused" => End::OnOpen(OnOpenAction::FailFast),
        "outcome_unknown" => End::Unknown,
        word => match word.parse::<Class>() {
            Ok(class) if class.heals() => End::OnOpen(OnOpenAction::FailFast),
            Ok(_) => End::Failed,
            Err(_) if answer.status.is_success() => End::OnOpen(OnOpenAction::Cache),
            Err(_) => End::Failed,
        },
    }
}

/// Returns what the last attempt of a call was judged as.
fn class(answer: &Answer) -> Option<Class> {
    let word = answer.field("halfopen-outcome").and_then(|word| word.parse().ok());
    word.or_else(|| answer.json()["class"].as_str()?.parse().ok())
}

impl Stage {
    /// Returns how long something named in scenarios lasts.
    fn known_span(&self, name: &str) -> Option<Duration> {
        match self.noted().names.get(name)?.as_ref()? {
            super::super::quantity::Value::Time(seconds) => Some(span(*seconds)),
            super::super::quantity::Value::Plain(_) => None,
        }
    }
}
