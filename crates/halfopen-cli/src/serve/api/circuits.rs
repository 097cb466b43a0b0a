//! Shows circuits and steers them.

use std::sync::Arc;
use std::time::Duration;

use halfopen::handle::{CircuitView, Handle};
use halfopen::store::StoreError;
use halfopen_core::circuit::Circuit;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::event::State;
use halfopen_core::policy::Policy;
use http::Response;
use serde_json::{Value, json};

use super::super::body::Body;
use super::super::gateway::Gateway;
use super::super::problem::{Kind, Problem};
use super::ask::{Object, bad, shown, wrong};
use super::{Asked, answer};
use crate::duration;
use crate::shown::{Line, Progress, Told, When, dependencies, jobs_json, named};

/// How many known circuits a 404 names.
const KNOWN_MAX: usize = 20;

/// Answers `GET /circuits`.
pub(super) async fn list(gateway: &Arc<Gateway>, asked: Asked) -> Result<Response<Body>, Problem> {
    let full = asked.query.flag("full")?;
    let dependency = asked.query.text("dependency").map(str::to_owned);
    let documents: Vec<Value> = at_the_store(gateway, move |gateway, handle| {
        let when = When::read(&handle.clock().read());
        known(gateway, handle, dependency.as_deref())?;
        let mut circuits = circuits(gateway, handle)?;
        circuits.retain(|view| dependency.as_ref().is_none_or(|name| *name == view.id.dependency()));
        let queues = Progress::read(handle, &circuits, when.now);
        if full {
            let mut documents = documents(gateway, handle, circuits, &when)?;
            for document in &mut documents {
                let name = document["dependency"].as_str().unwrap_or_default().to_owned();
                document["jobs"] = jobs_json(queues.get(&name), &when);
            }
            return Ok(documents);
        }
        Ok(circuits.iter().map(|view| json!(Line::of(view, &queues, &when))).collect())
    })
    .await?;
    answer::json(&documents)
}

/// Refuses a dependency of which neither the policy nor the store knows anything.
pub(super) fn known(gateway: &Gateway, handle: &Handle, name: Option<&str>) -> Result<(), Problem> {
    let Some(name) = name else { return Ok(()) };
    let live = gateway.live();
    let policy = live.dependencies().map(|dependency| dependency.name.as_str());
    let names = dependencies(policy, handle).map_err(unreadable)?;
    if names.contains(name) {
        return Ok(());
    }
    let some: Vec<String> = names.into_iter().take(KNOWN_MAX).collect();
    let some = if some.is_empty() { "none yet".to_owned() } else { some.join(", ") };
    Err(bad(format!("`dependency` is `{}`, which nothing is known of; known: {some}.", shown(name))))
}

/// Answers `GET /circuits/{id}`.
pub(super) async fn one(gateway: &Arc<Gateway>, asked: Asked) -> Result<Response<Body>, Problem> {
    let documents: Vec<Value> = at_the_store(gateway, move |gateway, handle| {
        let when = When::read(&handle.clock().read());
        let circuits = meant(gateway, handle, &asked.circuit)?;
        documents(gateway, handle, circuits, &when)
    })
    .await?;
    answer::json(&documents)
}

/// Answers `POST /circuits/{id}/hold`.
pub(super) async fn hold(gateway: &Arc<Gateway>, asked: Asked) -> Result<Response<Body>, Problem> {
    let Asked { circuit, who, request, .. } = asked;
    let mut body =
        Object::read(request.into_body(), r#"{"state":"open","reason":"maintenance","for_sec":3600}"#).await?;
    let state = match body.take("state") {
        Some(Value::String(word)) if word == "open" => State::Open,
        Some(Value::String(word)) if word == "closed" => State::Closed,
        Some(other) => return Err(bad(wrong("state", &other, "\"open\" or \"closed\""))),
        None => return Err(bad("`state` is missing; allowed is \"open\" or \"closed\".")),
    };
    let reason = body.reason()?;
    let lasting = lasting(body.take("for_sec"), body.take("for"))?;
    body.end("state, reason, for_sec and for")?;
    steer(gateway, circuit, move |handle, view, policy| {
        handle.hold(&view.id, policy, state, lasting, &who, &reason).map(drop)
    })
    .await
}

/// Answers `POST /circuits/{id}/release`.
pub(super) async fn release(gateway: &Arc<Gateway>, asked: Asked) -> Result<Response<Body>, Problem> {
    let Asked { circuit, who, request, .. } = asked;
    let mut body = Object::read(request.into_body(), r#"{"reason":"it is over","probe_now":true}"#).await?;
    let reason = body.reason()?;
    let probe_now = match body.take("probe_now") {
        None => false,
        Some(Value::Bool(probe_now)) => probe_now,
        Some(other) => return Err(bad(wrong("probe_now", &other, "true or false"))),
    };
    body.end("reason and probe_now")?;
    steer(gateway, circuit, move |handle, view, policy| {
        handle.release(&view.id, policy, probe_now, &who, &reason).map(drop)
    })
    .await
}

/// Answers `POST /circuits/{id}/reset`.
pub(super) async fn reset(gateway: &Arc<Gateway>, asked: Asked) -> Result<Response<Body>, Problem> {
    let Asked { circuit, who, request, .. } = asked;
    let mut body = Object::read(request.into_body(), r#"{"reason":"the cause was found"}"#).await?;
    let reason = body.reason()?;
    body.end("reason")?;
    steer(gateway, circuit, move |handle, view, policy| handle.reset(&view.id, policy, &who, &reason).map(drop)).await
}

/// Steers all circuits that are meant, and shows them as they stand afterwards, each with what it was before.
async fn steer(
    gateway: &Arc<Gateway>,
    circuit: String,
    act: impl Fn(&Handle, &CircuitView, &Policy) -> Result<(), StoreError> + Send + 'static,
) -> Result<Response<Body>, Problem> {
    let lines: Vec<Value> = at_the_store(gateway, move |gateway, handle| {
        let mut lines = Vec::new();
        for before in meant(gateway, handle, &circuit)? {
            let policy = gateway.policy_of(before.id.dependency());
            act(handle, &before, &policy).map_err(unwritable)?;
            let after = handle.circuit(&before.id, &policy).map_err(unreadable)?;
            let after = after.unwrap_or_else(|| blank(before.id.clone(), &policy, handle));
            let when = When::read(&handle.clock().read());
            let queues = Progress::read(handle, std::slice::from_ref(&after), when.now);
            let mut line = json!(Line::of(&after, &queues, &when));
            line["before"] = json!({
                "state": before.status.state.as_str(),
                "hold": before.status.hold.as_ref().map(|hold| hold.state.as_str()),
            });
            lines.push(line);
        }
        Ok(lines)
    })
    .await?;
    answer::json(&lines)
}

/// Reads how long a hold lasts: seconds, or a duration as on the command line.
pub(super) fn lasting(seconds: Option<Value>, words: Option<Value>) -> Result<Option<Duration>, Problem> {
    let longest = duration::LONGEST.as_secs();
    match (seconds, words) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(bad("`for_sec` and `for` say the same; send one of them.")),
        (Some(value), None) => {
            let lasting = value.as_f64().filter(|seconds| *seconds > 0.0).map(Duration::try_from_secs_f64);
            match lasting {
                Some(Ok(lasting)) if lasting <= duration::LONGEST && !lasting.is_zero() => Ok(Some(lasting)),
                Some(_) | None => {
                    Err(bad(wrong("for_sec", &value, &format!("a number of seconds above 0, at most {longest}"))))
                }
            }
        }
        (None, Some(Value::String(word))) => match duration::parse_positive(&word) {
            Ok(lasting) => Ok(Some(lasting)),
            Err(error) => Err(bad(format!("`for` cannot be read: {error}."))),
        },
        (None, Some(other)) => Err(bad(wrong("for", &other, "a duration such as \"10m\""))),
    }
}

/// Returns all circuits as they stand.
fn circuits(gateway: &Gateway, handle: &Handle) -> Result<Vec<CircuitView>, Problem> {
    handle.circuits(&|dependency| gateway.policy_of(dependency)).map_err(unreadable)
}

/// Returns the circuits that a name means. A dependency of the policy may be named before anything is known of it.
fn meant(gateway: &Gateway, handle: &Handle, word: &str) -> Result<Vec<CircuitView>, Problem> {
    let id: CircuitId = word.parse().map_err(|error| bad(format!("The path names no circuit: {error}.")))?;
    let all = circuits(gateway, handle)?;
    let found: Vec<CircuitView> = named(&all, &id).cloned().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let live = gateway.live();
    if live.dependency(id.dependency()).is_some() {
        let policy = gateway.policy_of(id.dependency());
        return Ok(vec![blank(id, &policy, handle)]);
    }
    let mut known: Vec<String> = all.iter().map(|view| view.id.to_string()).collect();
    known.extend(live.dependencies().map(|dependency| dependency.name.clone()));
    known.sort();
    known.dedup();
    let more = known.len().saturating_sub(KNOWN_MAX);
    known.truncate(KNOWN_MAX);
    let known = match (known.is_empty(), more) {
        (true, _) => "none is known yet".to_owned(),
        (false, 0) => format!("known are {}", known.join(", ")),
        (false, more) => format!("known are {} and {more} more", known.join(", ")),
    };
    Err(Problem::new(Kind::NotFound, format!("No circuit is named `{}`; {known}.", shown(word))))
}

fn documents(
    gateway: &Gateway,
    handle: &Handle,
    circuits: Vec<CircuitView>,
    when: &When,
) -> Result<Vec<Value>, Problem> {
    let document = |view: CircuitView| {
        let policy = gateway.policy_of(view.id.dependency());
        Told::look_up(handle, view, policy).map(|told| told.document(when)).map_err(unreadable)
    };
    circuits.into_iter().map(document).collect()
}

/// Returns the view of a circuit about which nothing is known.
fn blank(id: CircuitId, policy: &Policy, handle: &Handle) -> CircuitView {
    let status = Circuit::new().status(policy, handle.clock().now());
    CircuitView { id, status }
}

/// Does something that may have to wait for the store, on a thread that may.
pub(in crate::serve) async fn at_the_store<T: Send + 'static>(
    gateway: &Arc<Gateway>,
    act: impl FnOnce(&Gateway, &Handle) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let gateway = Arc::clone(gateway);
    match tokio::task::spawn_blocking(move || act(&gateway, &gateway.door.handle)).await {
        Ok(done) => done,
        Err(_) => Err(Problem::new(Kind::Internal, "Something of ours failed; nothing is known to have changed.")),
    }
}

/// Returns the problem of a store that cannot be read: an error, never zeros.
pub(in crate::serve) fn unreadable(error: StoreError) -> Problem {
    Problem::new(Kind::NotDurable, format!("The store cannot be read: {error}.")).reason("store_unreadable")
}

pub(in crate::serve) fn unwritable(error: StoreError) -> Problem {
    Problem::new(Kind::NotDurable, format!("The store cannot be written, so nothing was changed: {error}."))
        .reason("store_unwritable")
}
