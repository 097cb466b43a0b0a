//! Holds what is drilled: one dependency's policy with its classifier, and the names a scenario may use.

use std::time::Duration;

use halfopen::config::Dependency;
use halfopen_core::classify::{Classifier, ProfileError, profile_for_host, profile_for_tool};
use halfopen_core::job::ttl;
use halfopen_core::policy::{OnOpenAction, Policy, QUOTA_COOLDOWN, Replay};
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;

use super::quantity::{Names, Value, WRITTEN_SECOND, time};
use super::spoken::Tongue;

/// The pack of what no other knows, and the one of tools that reach no dependency.
const GENERIC: &str = "generic";
const TEXT_TOOLS: &str = "text-tools";

/// How long an attempt through the gateway may take where the policy does not say.
const SERVE_TIMEOUT: Duration = Duration::from_secs(60);

/// One dependency, ready to be drilled.
#[derive(Debug)]
pub(super) struct Rehearsal {
    /// Its rules, with the timeout filled in.
    pub(super) policy: Policy,
    /// Reads what it says.
    pub(super) classifier: Classifier,
    /// How it is spoken to.
    pub(super) tongue: Tongue,
    /// How long a second lasts that a scenario writes, where that is not a second.
    pub(super) written_second: Option<Duration>,
}

impl Rehearsal {
    /// Returns the rehearsal of a dependency: as `serve` would speak to it if it has an `upstream`, else as `run`.
    ///
    /// # Errors
    ///
    /// If its profile or its own rules cannot be used.
    pub(super) fn of(dependency: Dependency) -> Result<Self, ProfileError> {
        let Dependency { mut policy, wiring, classify } = dependency;
        let tongue = if wiring.upstream.is_some() { Tongue::Http } else { Tongue::Command };
        let by_name = match wiring.upstream.as_deref().and_then(host) {
            Some(host) => profile_for_host(host),
            // `test` or `join` are good names for a dependency, and say nothing about it.
            None => match profile_for_tool(&policy.dependency) {
                TEXT_TOOLS => GENERIC,
                pack => pack,
            },
        };
        let classifier = Classifier::new(policy.profile.as_deref().unwrap_or(by_name), classify)?;
        policy.timeout.get_or_insert_with(|| match tongue {
            Tongue::Command => classifier.defaults().timeout,
            Tongue::Http => SERVE_TIMEOUT,
        });
        Ok(Self { policy, classifier, tongue, written_second: None })
    }

    /// Returns whether a refused call is queued.
    pub(super) fn queues(&self) -> bool {
        self.policy.on_open.actions.first() == Some(&OnOpenAction::Queue)
    }

    /// Returns whether an error inside a success can be seen: in any HTTP stream, and where the profile looks for it.
    pub(super) fn sees_errors_in_success(&self) -> bool {
        match self.tongue {
            Tongue::Http => true,
            Tongue::Command => self.classifier.defaults().success_may_lie,
        }
    }

    /// Returns whether an attempt that a limit turned away is repeated although its output says nothing else.
    pub(super) fn repeats_refused(&self) -> bool {
        self.tongue == Tongue::Http || self.policy.replay != Replay::Never
    }

    /// Returns whether an attempt with an unknown end may be sent again.
    pub(super) fn repeats_unknown_ends(&self) -> bool {
        match self.policy.replay {
            Replay::Always => true,
            Replay::IfIdempotent | Replay::Never => {
                self.tongue == Tongue::Command && !self.classifier.defaults().failed_attempts_have_effects
            }
        }
    }

    /// Returns a stated wait that nobody sleeps: hours in virtual time, some seconds more than is slept where time is real.
    fn unbearable(&self) -> Duration {
        let beyond =
            if self.written_second.is_some() { Duration::from_secs(10) } else { Duration::from_secs(2 * 3600) };
        self.policy.retry.max_wait + beyond
    }

    /// Returns the names of the policy's values, and of the instants that a run brings about, which have none yet.
    pub(super) fn names(&self) -> Names {
        let policy = &self.policy;
        let (retry, circuit, drain) = (&policy.retry, &policy.circuit, &policy.drain);
        let plain = |count: u32| Value::Plain(f64::from(count));
        let timeout = policy.timeout.unwrap_or_default();
        let mut names: Names = [
            ("timeout", time(timeout)),
            ("max_attempts", plain(retry.max_attempts.get())),
            ("base", time(retry.backoff.base)),
            ("max_backoff", time(retry.backoff.max)),
            ("max_wait", time(retry.max_wait)),
            ("failure_window", time(circuit.window)),
            ("open_after_failures", plain(circuit.open_after_failures.get())),
            ("open_for", time(circuit.open_for)),
            ("max_open_for", time(circuit.max_open_for)),
            ("cooldown_factor", Value::Plain(circuit.cooldown_factor)),
            ("half_open_max_calls", plain(circuit.half_open_max_calls.get())),
            ("close_after_successes", plain(circuit.close_after_successes.get())),
            ("probe_lease", time(circuit.probe_lease)),
            ("lease", time(circuit.lease)),
            ("quota_cooldown", time(QUOTA_COOLDOWN)),
            ("hint_ceiling", time(policy.hint_ceiling)),
            ("wait", time(policy.on_open.wait)),
            ("rate", Value::Plain(drain.rate_per_sec)),
            ("max_rate", Value::Plain(drain.max_per_sec)),
            ("max_in_flight", plain(drain.max_in_flight.get())),
            ("queue_ttl", time(ttl(policy))),
            ("max_partitions", plain(policy.max_partitions.get())),
            ("apart", time(apart(policy))),
            ("swift", time(Duration::from_millis(200).min(timeout / 20))),
            ("bearable", time(bearable(policy))),
            ("unbearable", time(self.unbearable())),
            ("second", time(Duration::from_secs(1))),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), Some(value)))
        .collect();
        if let Some(second) = self.written_second {
            names.insert(WRITTEN_SECOND.to_owned(), Some(time(second)));
        }
        for instant in INSTANTS {
            names.insert(instant.to_owned(), None);
            names.extend((2..=INSTANTS_COUNTED).map(|nth| (format!("{instant}.{nth}"), None)));
        }
        names
    }
}

/// Gives instants their values by what the engine stated; returns whether one has a new value. `happened` counts what has
/// come so far, in the order of [`INSTANTS`].
pub(super) fn note(names: &mut Names, happened: &mut [usize; 6], began: Timestamp, event: &EventRecord) -> bool {
    let ms = |key: &str| event.details.get(key).and_then(serde_json::Value::as_i64).unwrap_or(event.at_ms);
    let pairs: &[(usize, i64)] = match event.event.as_str() {
        "tripped" => &[(0, event.at_ms), (1, ms("open_until_ms"))],
        "half_opened" => &[(2, event.at_ms)],
        "recovered" => &[(3, event.at_ms)],
        "throttled" => &[(4, event.at_ms), (5, ms("until_ms"))],
        _ => return false,
    };
    for (kind, at_ms) in pairs {
        happened[*kind] += 1;
        let (nth, name) = (happened[*kind], INSTANTS[*kind]);
        if nth <= INSTANTS_COUNTED {
            let name = if nth == 1 { name.to_owned() } else { format!("{name}.{nth}") };
            let after = began.until(Timestamp::from_millis(*at_ms)).as_secs_f64();
            names.insert(name, Some(Value::Time(after)));
        }
    }
    true
}

/// Returns how far apart failures may lie so that all of them stand in the window.
fn apart(policy: &Policy) -> Duration {
    let together = policy.circuit.window / (4 * policy.circuit.open_after_failures.get().min(1 << 20));
    together.min(Duration::from_secs(1))
}

/// Returns a wait that is slept, with time left for what comes after: whole seconds, because a date has no fractions;
/// at least one.
fn bearable(policy: &Policy) -> Duration {
    let retry = &policy.retry;
    let longest = retry.deadline.map_or(retry.max_wait / 2, |deadline| (retry.max_wait / 2).min(deadline / 4));
    Duration::from_secs(longest.as_secs().clamp(1, 30))
}

/// The instants that a run brings about; `.2` and so on are their repetitions.
pub(super) const INSTANTS: [&str; 6] =
    ["opened", "probing", "half_opened", "recovered", "throttled", "throttled_until"];

/// How many repetitions have names.
pub(super) const INSTANTS_COUNTED: usize = 5;

/// Returns the host of a URL.
fn host(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    Some(host.split(':').next().unwrap_or(host))
}
