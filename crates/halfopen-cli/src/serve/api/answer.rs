//! Builds the answers of the operators' side.

use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Response};
use serde::Serialize;

use super::super::body::{self, Body};
use super::super::problem::{Kind, Problem};

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Returns a value as JSON, byte for byte as the command line prints it.
pub(super) fn json(value: &impl Serialize) -> Result<Response<Body>, Problem> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Problem::new(Kind::Internal, format!("The answer cannot be written: {error}.")))?;
    Ok(with_type(text + "\n", "application/json"))
}

/// Returns a text of a media type.
pub(super) fn with_type(text: String, media_type: &'static str) -> Response<Body> {
    let mut response = Response::new(body::full(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Adds what keeps browsers from making more of an answer than it is. A page of its own brings its own policy.
pub(in crate::serve) fn harden(response: &mut Response<Body>) {
    let headers = response.headers_mut();
    let mut add = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    add(X_CONTENT_TYPE_OPTIONS, "nosniff");
    add(CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
    add(CACHE_CONTROL, "no-store");
    add(REFERRER_POLICY, "no-referrer");
    add(RESOURCE_POLICY, "same-origin");
}
