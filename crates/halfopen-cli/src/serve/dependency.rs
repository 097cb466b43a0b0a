//! What the gateway knows about one dependency while one policy is in force.

use std::sync::Arc;

use halfopen::config;
use halfopen_core::classify::{Classifier, profile_for_host};
use halfopen_core::policy::Policy;

use super::gateway::StartError;

/// The profile of whatever no other knows.
const GENERIC: &str = "generic";

/// One dependency under one policy.
#[derive(Debug)]
#[expect(dead_code, reason = "the live path reads them")]
pub(super) struct Dependency {
    /// Its name in paths, status and metrics.
    pub(super) name: String,
    /// Its rules.
    pub(super) policy: Arc<Policy>,
    /// The ways to and from it.
    pub(super) wiring: config::Wiring,
    /// What its answers mean.
    pub(super) classifier: Classifier,
    /// Its base URL; without one every call is answered with what is missing.
    pub(super) upstream: Option<http::Uri>,
}

impl Dependency {
    /// Makes it out of the policy; `upstream` goes before the policy's own.
    pub(super) fn make(name: &str, dependency: config::Dependency, upstream: Option<&str>) -> Result<Self, StartError> {
        let config::Dependency { policy, wiring, classify } = dependency;
        let upstream = match upstream.or(wiring.upstream.as_deref()) {
            None => None,
            Some(url) => Some(base_url(name, url)?),
        };
        let by_host = upstream.as_ref().and_then(http::Uri::host).map_or(GENERIC, profile_for_host);
        let profile = policy.profile.as_deref().unwrap_or(by_host);
        let classifier = Classifier::new(profile, classify)
            .map_err(|cause| StartError::Rules { dependency: name.to_owned(), cause })?;
        Ok(Self { name: name.to_owned(), policy: Arc::new(policy), wiring, classifier, upstream })
    }
}

fn base_url(name: &str, url: &str) -> Result<http::Uri, StartError> {
    let wrong = |cause: &str| StartError::Upstream {
        dependency: name.to_owned(),
        url: halfopen_core::redact::redact(url),
        cause: cause.to_owned(),
    };
    let uri: http::Uri = url.parse().map_err(|_| wrong("it is no URL"))?;
    match (uri.scheme_str(), uri.authority()) {
        (Some("http" | "https"), Some(authority)) if authority.as_str().contains('@') => {
            Err(wrong("it holds a user name; name a secret under `credentials` instead"))
        }
        (Some("http" | "https"), Some(_)) if uri.query().is_some() => Err(wrong("it has a query; a base URL has none")),
        (Some("http" | "https"), Some(_)) => Ok(uri),
        _ => Err(wrong("it must begin with http:// or https:// and a host")),
    }
}
