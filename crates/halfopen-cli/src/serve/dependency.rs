//! What the gateway knows about one dependency while one policy is in force.

use std::sync::Arc;
use std::time::{Duration, Instant};

use halfopen::config;
use halfopen_core::classify::raw::RawRule;
use halfopen_core::classify::{Classifier, profile_for_host};
use halfopen_core::policy::{Mode, OnOpenAction, Policy, ProbeWith, Replay};
use http::Method;
use http::header::HeaderName;

use super::budget::Budget;
use super::counts::Counts;
use super::credentials::Credentials;
use super::drills::Drill;
use super::gateway::{Door, StartError};
use super::partition::Partitions;
use super::problem::Dialect;
use super::refuse::cache::Cache;
use super::target::Upstream;
use super::telemetry::Telemetry;
use super::upstream::{Origin, Pool};

/// The profile of whatever no other knows.
const GENERIC: &str = "generic";

/// The field of an idempotency key where neither the policy nor the pack names another.
const KEY_FIELD: &str = "idempotency-key";

/// For how long it is remembered where neither says.
const KEY_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// One dependency under one policy.
#[derive(Debug)]
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
    /// What is added when a call is sent.
    pub(super) credentials: Credentials,
    /// The circuits that judge its calls.
    pub(super) partitions: Partitions,
    /// The connections to it.
    pub(super) pool: Option<Arc<Pool>>,
    /// The field of the idempotency key that it honours, if it honours one.
    pub(super) key_field: Option<HeaderName>,
    /// For how long it does.
    pub(super) key_lifetime: Duration,
    /// What was done for it since the process began.
    pub(super) counts: Arc<Counts>,
    /// What is exported of its calls.
    pub(super) telemetry: Arc<Telemetry>,
    /// The retries it may have.
    pub(super) budget: Budget,
    /// Its last good answers, where the policy keeps them.
    pub(super) cache: Option<Arc<Cache>>,
    /// Its own classification rules, as written.
    pub(super) classify: Vec<RawRule>,
    /// What it rehearses, where it is made for a drill.
    pub(super) drill: Option<Drill>,
}

impl Dependency {
    /// Makes it out of the policy; `upstream` goes before the policy's own. What says the same as `before` is `before`,
    /// with everything it has learned and holds open.
    pub(super) fn make(
        name: &str,
        written: config::Dependency,
        upstream: Option<&str>,
        door: &Door,
        before: Option<&Arc<Self>>,
    ) -> Result<Arc<Self>, StartError> {
        Self::build(name, written, upstream, door, before, None)
    }

    /// Makes the shadow of one for a drill: nothing is carried over from the one it rehearses.
    pub(super) fn shadow(
        name: &str,
        written: config::Dependency,
        door: &Door,
        drill: Drill,
    ) -> Result<Arc<Self>, StartError> {
        Self::build(name, written, None, door, None, Some(drill))
    }

    fn build(
        name: &str,
        written: config::Dependency,
        upstream: Option<&str>,
        door: &Door,
        before: Option<&Arc<Self>>,
        drill: Option<Drill>,
    ) -> Result<Arc<Self>, StartError> {
        let config::Dependency { policy, mut wiring, classify } = written;
        if let Some(url) = upstream {
            wiring.upstream = Some(url.to_owned());
        }
        if let Some(before) = before
            && *before.policy == policy
            && before.wiring == wiring
            && before.classify == classify
        {
            return Ok(Arc::clone(before));
        }
        let upstream = match wiring.upstream.as_deref() {
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
        let classifier = Classifier::new(profile, classify.clone())
            .map_err(|cause| StartError::Rules { dependency: name.to_owned(), cause })?;
        let policy = Arc::new(policy);
        let partitions = Partitions::make(&door.handle, &door.fingerprints, &policy).map_err(StartError::Name)?;
        let credentials = Credentials::make(&wiring.credentials);
        // What was kept stays good as long as it would have come from the same place.
        let same_place = before.filter(|before| before.wiring.upstream == wiring.upstream);
        let kept = same_place.and_then(|before| before.cache.clone());
        let cache = wiring
            .cache
            .map(|bounds| kept.filter(|kept| kept.bounds() == bounds).unwrap_or_else(|| Arc::new(Cache::new(bounds))));
        let origin = upstream.as_ref().and_then(|upstream| Origin::of(&upstream.target("").ok()?));
        let counts = door.counts.of(name);
        Ok(Arc::new(Self {
            name: name.to_owned(),
            policy,
            key_field: key_field(&wiring, &classifier),
            key_lifetime: key_lifetime(&wiring, &classifier),
            wiring,
            classifier,
            dialect,
            upstream,
            credentials,
            partitions,
            pool: origin.map(|origin| Arc::new(Pool::new(origin))),
            budget: Budget::new(counts.calls(), Instant::now()),
            counts,
            telemetry: Arc::clone(&door.telemetry),
            cache,
            classify,
            drill,
        }))
    }

    /// Returns how much of a request is kept, in bytes: for another attempt, for another dependency, or to know whether it
    /// is the same as an earlier one.
    pub(super) fn kept_bytes_max(&self, method: &Method) -> u64 {
        let policy = &self.policy;
        let compared = self.cache.is_some() && *method == Method::POST && policy.replay == Replay::Always;
        let again = policy.retry.max_attempts.get() > 1 || self.falls_back() || self.keeps() || compared;
        if policy.mode == Mode::Enforce && again { policy.replay_body_bytes_max } else { 0 }
    }

    /// Returns whether its calls may be kept for later.
    pub(super) fn keeps(&self) -> bool {
        let kept = [OnOpenAction::Queue, OnOpenAction::ManualReview];
        self.policy.mode == Mode::Enforce && self.policy.on_open.actions.iter().any(|action| kept.contains(action))
    }

    /// Returns whether a credential of ours is added to its calls, or to those of the one that it rehearses: whoever may
    /// not make the ones makes no others either.
    pub(super) fn adds_credential(&self) -> bool {
        !self.wiring.credentials.is_empty() || self.drill.as_ref().is_some_and(|drill| drill.adds_credential)
    }

    /// Returns whether another dependency may be asked in its place.
    pub(super) fn falls_back(&self) -> bool {
        let named = self.wiring.fallback.is_some() && self.policy.mode == Mode::Enforce;
        named && self.policy.on_open.actions.contains(&OnOpenAction::Fallback)
    }

    /// Returns what of it will not work, although its rules can be used.
    pub(super) fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        let name = &self.name;
        if self.upstream.is_none() {
            doubts.push(format!("{name}: there is no `upstream`, so every call to it is answered with 503"));
        }
        for credential in self.credentials.iter() {
            if let Err(missing) = credential.secret() {
                doubts.push(format!("{name}: {missing}, so calls with it are answered with 503"));
            }
        }
        if let Some(ProbeWith::Command(_)) = &self.policy.probe {
            doubts.push(format!(
                "{name}: `probe` is a command, which the gateway does not run, so a call is the probe; write a URL"
            ));
        }
        doubts
    }
}

/// Returns the field of the idempotency key that a dependency honours: as the policy says, else as its pack does.
fn key_field(wiring: &config::Wiring, classifier: &Classifier) -> Option<HeaderName> {
    let by_pack = classifier.defaults().idempotency.as_ref().map(|key| key.header.as_str());
    let name = match &wiring.idempotency {
        Some(key) => key.header.as_deref().or(by_pack).unwrap_or(KEY_FIELD),
        None => by_pack?,
    };
    HeaderName::from_bytes(name.as_bytes()).ok()
}

/// Returns for how long a dependency remembers such a key: as the policy says, else as its pack does.
fn key_lifetime(wiring: &config::Wiring, classifier: &Classifier) -> Duration {
    let by_pack = classifier.defaults().idempotency.as_ref().map(|key| key.lifetime);
    wiring.idempotency.as_ref().and_then(|key| key.lifetime).or(by_pack).unwrap_or(KEY_LIFETIME)
}
