//! Tells calls from operators' questions, and both from mistakes.

use std::sync::Arc;

use halfopen_core::redact;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;

use super::body::{self, Body};
use super::call;
use super::gateway::Gateway;
use super::problem::{Dialect, Kind, Problem};

/// Answers one request.
pub(super) async fn answer(gateway: &Arc<Gateway>, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path_and_query().map_or_else(|| "/".to_owned(), |path| path.as_str().to_owned());
    if let Some(rest) = path.strip_prefix("/d/") {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        return match gateway.live().dependency(name) {
            Some(dependency) => call::carry(gateway, &dependency, rest, request).await,
            None => Problem::new(Kind::UnknownDependency, format!("The policy names no `{}`.", redact::line(name)))
                .answer(Dialect::Problem),
        };
    }
    match request.uri().path() {
        "/healthz" => Response::new(body::full("ok\n")),
        "/readyz" if gateway.shutdown.is_draining() => {
            let mut response = Response::new(body::full("shutting down\n"));
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            response
        }
        "/readyz" => Response::new(body::full("ready\n")),
        _ => Problem::new(Kind::NotFound, "Calls go to /d/DEPENDENCY/PATH.").answer(Dialect::Problem),
    }
}
