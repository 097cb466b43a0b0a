//! What the gateway knows about one dependency while one policy is in force.

use std::sync::Arc;

use halfopen::config;
use halfopen_core::classify::{Classifier, profile_for_host};
use halfopen_core::policy::Policy;

use super::gateway::StartError;
use super::problem::Dialect;
use super::target::Upstream;

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
    /// The shape of an error that its callers expect.
    pub(super) dialect: Dialect,
    /// Its base URL; without one every call is answered with what is missing.
    pub(super) upstream: Option<Upstream>,
}

impl Dependency {
    /// Makes it out of the policy; `upstream` goes before the policy's own.
    pub(super) fn make(name: &str, dependency: config::Dependency, upstream: Option<&str>) -> Result<Self, StartError> {
        let config::Dependency { policy, wiring, classify } = dependency;
        let upstream = match upstream.or(wiring.upstream.as_deref()) {
            None => None,
            Some(url) => Some(Upstream::parse(url).map_err(|cause| StartError::Upstream {
                dependency: name.to_owned(),
                url: halfopen_core::redact::redact(url),
                cause,
            })?),
        };
        let by_host = upstream.as_ref().map_or(GENERIC, |upstream| profile_for_host(upstream.host()));
        let profile = policy.profile.as_deref().unwrap_or(by_host);
        let dialect = Dialect::of(profile);
        let classifier = Classifier::new(profile, classify)
            .map_err(|cause| StartError::Rules { dependency: name.to_owned(), cause })?;
        Ok(Self { name: name.to_owned(), policy: Arc::new(policy), wiring, classifier, dialect, upstream })
    }
}
