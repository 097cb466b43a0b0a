//! What must hold for any text as a policy file. The fuzz target, the properties and the replay of its corpus share it.

use std::path::Path;
use std::time::Duration;

use halfopen::config::{Config, ConfigError, Demand, Finding, Level};
use halfopen::core::policy::{Policy, Surface};

/// Reads `text` in every way there is and checks what must always hold.
///
/// # Panics
///
/// If it does not hold.
pub(crate) fn policy(text: &str) {
    let name = Path::new("fuzz.yaml");
    for demand in [Demand::Usable, Demand::Production] {
        for surface in [None, Some(Surface::Run), Some(Surface::Serve)] {
            match Config::parse(text, name, surface, demand) {
                Ok((config, findings)) => {
                    assert!(findings.iter().all(|finding| finding.level < Level::Error));
                    inside(text, &findings);
                    for (name, dependency) in &config.dependencies {
                        assert_eq!(*name, dependency.policy.dependency);
                        trusted(&dependency.policy);
                    }
                    trusted(&config.dependency("unnamed", Surface::Run).policy);
                }
                Err(ConfigError::Invalid { findings, .. }) => {
                    assert!(findings.iter().any(|finding| finding.level == Level::Error));
                    inside(text, &findings);
                }
                Err(other) => panic!("no file was read: {other}"),
            }
        }
    }
}

fn inside(text: &str, findings: &[Finding]) {
    let lines = text.lines().count().max(1) + 1;
    for finding in findings {
        assert!(finding.line >= 1 && finding.line <= lines, "{finding:?}");
        assert!(finding.column >= 1, "{finding:?}");
        assert!(!finding.message.is_empty() && !finding.message.contains('\n'), "{finding:?}");
        assert!(finding.rendered.contains("fuzz.yaml:"), "{finding:?}");
    }
}

/// Nothing that was taken switches the protection off.
fn trusted(policy: &Policy) {
    let a_year = Duration::from_secs(366 * 24 * 3600);
    for (span, what) in [
        (policy.circuit.window, "window"),
        (policy.circuit.open_for, "open_for"),
        (policy.circuit.max_open_for, "max_open_for"),
        (policy.circuit.probe_lease, "probe_lease"),
        (policy.circuit.lease, "lease"),
        (policy.hint_ceiling, "hint_ceiling"),
        (policy.retry.backoff.base, "base"),
        (policy.retry.backoff.max, "max"),
    ] {
        assert!(!span.is_zero() && span <= a_year, "{what} is {span:?}");
    }
    assert!(policy.circuit.max_open_for >= policy.circuit.open_for);
    assert!(policy.journal_keep >= policy.circuit.max_open_for);
    assert!(policy.circuit.cooldown_factor >= 1.0 && policy.circuit.cooldown_factor <= 100.0);
    assert!((0.0..=1.0).contains(&policy.retry.budget.ratio));
    assert!(policy.drain.rate_per_sec > 0.0 && policy.drain.rate_per_sec <= policy.drain.max_per_sec);
    assert!(policy.drain.max_in_flight <= policy.drain.max_in_flight_max);
    assert!(!policy.on_open.actions.is_empty());
    assert!(policy.timeout.is_none_or(|timeout| !timeout.is_zero()));
    assert!(policy.on_open.queue_ttl.is_none_or(|ttl| !ttl.is_zero()));
}
