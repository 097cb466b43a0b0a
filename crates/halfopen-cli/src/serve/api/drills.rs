//! Begins and ends drills, and names those that go on.

use std::sync::Arc;
use std::time::Duration;

use http::header::LOCATION;
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

use super::super::body::Body;
use super::super::dependency::Dependency;
use super::super::drills::{self, Drill, LASTS, SHORTEN};
use super::super::gateway::Gateway;
use super::super::problem::{Kind, Problem};
use super::ask::{Object, bad, shown, wrong};
use super::circuits::{at_the_store, unwritable};
use super::{Asked, answer};
use crate::shown::When;

/// What a right body looks like.
const EXAMPLE: &str = r#"{"dependency":"ocr","upstream":"http://127.0.0.1:9000","shorten":60}"#;

/// Answers `GET /drills`.
pub(super) fn list(gateway: &Gateway) -> Result<Response<Body>, Problem> {
    let live = gateway.live();
    let (mut dependencies, mut going_on) = (Vec::new(), Vec::new());
    for dependency in live.dependencies() {
        match &dependency.drill {
            None => dependencies.push(dependency.name.clone()),
            Some(drill) => going_on.push(line(dependency, drill)),
        }
    }
    answer::json(&json!({ "dependencies": dependencies, "drills": going_on }))
}

/// Answers `POST /drills`.
pub(super) async fn begin(gateway: &Arc<Gateway>, asked: Asked) -> Result<Response<Body>, Problem> {
    let Asked { who, request, .. } = asked;
    let mut body = Object::read(request.into_body(), EXAMPLE).await?;
    let mut text = |key: &str, allowed: &str| match body.take(key) {
        Some(Value::String(word)) => Ok(word),
        Some(other) => Err(bad(wrong(key, &other, allowed))),
        None => Err(bad(format!("`{key}` is missing; allowed is {allowed}."))),
    };
    let dependency = text("dependency", "the name of a dependency of the policy")?;
    let upstream = text("upstream", "the address of the stand-in, such as \"http://127.0.0.1:9000\"")?;
    let shorten = match body.take("shorten") {
        None => None,
        Some(value) => match value.as_f64().filter(|by| SHORTEN.contains(by)) {
            Some(by) => Some(by),
            None => {
                let allowed = format!("a number from {} to {}", SHORTEN.start(), SHORTEN.end());
                return Err(bad(wrong("shorten", &value, &allowed)));
            }
        },
    };
    let lasts = match body.take("for_sec") {
        None => LASTS,
        Some(value) => {
            match value.as_u64().map(Duration::from_secs).filter(|lasts| !lasts.is_zero() && *lasts <= LASTS) {
                Some(lasts) => lasts,
                None => {
                    return Err(bad(wrong("for_sec", &value, &format!("whole seconds from 1 to {}", LASTS.as_secs()))));
                }
            }
        }
    };
    body.end("dependency, upstream, shorten and for_sec")?;
    if gateway.shutdown.is_draining() {
        return Err(Problem::new(Kind::ShuttingDown, "No drill is begun any more."));
    }
    let shadow = gateway.begin_drill(&drills::Asked { dependency, upstream, shorten, lasts }, &who)?;
    let Some(drill) = &shadow.drill else { return Err(Problem::new(Kind::Internal, "The shadow is no drill.")) };
    let mut document = line(&shadow, drill);
    document["policy"] = drills::written(&shadow);
    let read = gateway.door.handle.clock().read();
    // The journal's details count by a clock that no step of the wall clock moves; this says how the two stand.
    document["clock"] = json!({ "at": When::read(&read).rfc3339(read.now), "steady_ms": read.now.as_millis() });
    let mut response = answer::json(&document)?;
    *response.status_mut() = StatusCode::CREATED;
    if let Ok(location) = HeaderValue::from_str(&format!("/drills/{}", shadow.name)) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// Answers `DELETE /drills/{id}`.
pub(super) async fn end(gateway: &Arc<Gateway>, asked: Asked) -> Result<Response<Body>, Problem> {
    let (name, who) = (asked.circuit, asked.who);
    let document = at_the_store(gateway, move |gateway, _| {
        let why = format!("{who} ended it");
        let Some(forgotten) = gateway.end_drill(&name, &who, &why) else {
            let text = format!("No drill is named `{}`; GET /drills names those that go on.", shown(&name));
            return Err(Problem::new(Kind::NotFound, text));
        };
        let forgotten = forgotten.map_err(unwritable)?;
        Ok(json!({ "name": name, "jobs_ended": forgotten.ended }))
    })
    .await?;
    answer::json(&document)
}

fn line(dependency: &Dependency, drill: &Drill) -> Value {
    let until = jiff::Timestamp::from_millisecond(drill.until_ms).unwrap_or_default();
    json!({
        "name": dependency.name,
        "path": format!("/d/{}", dependency.name),
        "dependency": drill.of,
        "shorten": drill.shorten,
        "until": format!("{until:.3}"),
    })
}
