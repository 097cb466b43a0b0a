//! Tells calls from operators' questions, and both from mistakes.

use std::sync::Arc;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;

use super::body::{self, Body};
use super::call;
use super::gateway::Gateway;

/// Answers one request.
pub(super) async fn answer(gateway: &Arc<Gateway>, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path_and_query().map_or_else(|| "/".to_owned(), |path| path.as_str().to_owned());
    if let Some(rest) = path.strip_prefix("/d/") {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        return match gateway.live().dependency(name) {
            Some(dependency) => call::carry(gateway, &dependency, rest, request).await,
            None => not_found(&format!("no dependency is named `{name}` in the policy\n")),
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
        _ => not_found("calls go to /d/DEPENDENCY/PATH\n"),
    }
}

fn not_found(text: &str) -> Response<Body> {
    let mut response = Response::new(body::full(text.to_owned()));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
