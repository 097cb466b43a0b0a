//! Tells calls from operators' questions, and both from mistakes.

use std::sync::Arc;

use halfopen_core::redact;
use http::{Request, Response, Version};
use hyper::body::Incoming;

use super::access::{self, Arrival, Serves};
use super::api;
use super::body::Body;
use super::call;
use super::dashboard;
use super::framing::Ambiguity;
use super::gateway::Gateway;
use super::headers::{self, Upgrade};
use super::panics;
use super::problem::{Dialect, Kind, Problem};

/// Answers one request.
pub(super) async fn answer(
    gateway: &Arc<Gateway>,
    arrival: &Arrival,
    mut request: Request<Incoming>,
) -> Response<Body> {
    if let Some(problem) = misdirected(&request) {
        return problem.answer(Dialect::Problem);
    }
    // Shared, not copied.
    let path = request.uri().path_and_query().cloned();
    if let Some(rest) = path.as_ref().and_then(|path| path.as_str().strip_prefix("/d/")) {
        if arrival.serves == Serves::Operators {
            let detail = "Calls are answered at the address given with --listen.";
            return Problem::new(Kind::NotFound, detail).answer(Dialect::Problem);
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let Some(dependency) = gateway.live().dependency(name) else {
            return Problem::new(Kind::UnknownDependency, format!("The policy names no `{}`.", redact::line(name)))
                .answer(Dialect::Problem);
        };
        return match gateway.access.caller(request.headers_mut(), arrival, &dependency) {
            Ok(()) => {
                let call = call::carry(gateway, &dependency, rest, request);
                panics::caught(&dependency.counts, dependency.dialect, call).await
            }
            Err(problem) => access::refusal(&problem),
        };
    }
    if let Some(ambiguity) = Ambiguity::of_path(request.uri().path()) {
        return ambiguity.problem().answer(Dialect::Problem);
    }
    if dashboard::is_page(request.uri().path()) {
        return dashboard::answer(gateway, arrival, request).await;
    }
    api::answer(gateway, arrival, request).await
}

/// Returns what is wrong with a request that no path of the gateway can answer.
fn misdirected(request: &Request<Incoming>) -> Option<Problem> {
    // In HTTP/2 every request names its authority; there it is what `Host` is in HTTP/1.
    if request.version() < Version::HTTP_2 && request.uri().authority().is_some() {
        let detail = "Its target names a host. Set the base URL to http://ADDRESS/d/DEPENDENCY instead of a proxy.";
        return Some(Problem::new(Kind::ForwardProxy, detail));
    }
    if headers::upgrade(request.headers()) == Upgrade::WebSocket {
        let detail = "WebSockets are not carried. Connect to the dependency itself.";
        return Some(Problem::new(Kind::UpgradeRefused, detail));
    }
    if headers::is_loop(request.headers()) {
        let detail = "It has passed eight gateways of this kind. Look for an `upstream` that leads back to a gateway.";
        return Some(Problem::new(Kind::Loop, detail));
    }
    None
}
