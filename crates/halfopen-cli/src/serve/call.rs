//! Carries one call of a caller through: the door, the attempts, the waits between them.

use std::sync::Arc;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;

use super::body::{self, Body};
use super::dependency::Dependency;
use super::gateway::Gateway;

/// Carries a call to `dependency` through; `path` is what stood behind its name, with its leading slash and query.
pub(super) async fn carry(
    _gateway: &Arc<Gateway>,
    dependency: &Arc<Dependency>,
    _path: &str,
    _request: Request<Incoming>,
) -> Response<Body> {
    let text = match &dependency.upstream {
        None => format!(
            "dependency `{}` has no `upstream`; add it to the policy, or start with --upstream\n",
            dependency.name
        ),
        Some(_) => "not reached\n".to_owned(),
    };
    let mut response = Response::new(body::full(text));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}
