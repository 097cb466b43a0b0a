//! How long requests to dependencies took, as the conventions for HTTP clients ask: `http.client.request.duration`.
//!
//! <https://opentelemetry.io/docs/specs/semconv/http/http-metrics/#metric-httpclientrequestduration>. It is told by method,
//! host, port, status and error, so it is kept only where figures are exported, and has a bound: a dependency that invents
//! statuses fills no memory. A scrape has the same times by dependency (`attempt_head_seconds`).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::super::counts::{Spread, Times};

/// What is told apart at most.
const SETS_MAX: usize = 1000;

/// The upper ends of the spans, in seconds, as the conventions advise.
const SPANS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// What is known of a request before its answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Request {
    pub(super) dependency: String,
    pub(super) method: &'static str,
    pub(super) address: String,
    pub(super) port: u16,
}

/// A request with how it ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ended {
    pub(super) request: Request,
    pub(super) status: Option<u16>,
    pub(super) error: Option<String>,
}

/// The durations of all requests.
#[derive(Debug, Default)]
pub(super) struct Durations(Mutex<BTreeMap<Ended, Times>>);

impl Durations {
    /// Adds one.
    pub(super) fn add(&self, request: Request, status: Option<u16>, error: Option<&str>, took: Duration) {
        let ended = Ended { request, status, error: error.map(str::to_owned) };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= SETS_MAX && !all.contains_key(&ended) {
            return;
        }
        all.entry(ended).or_insert_with(|| Times::of(&SPANS)).add(took);
    }

    /// Returns what was added so far.
    pub(super) fn read(&self) -> Vec<(Ended, Spread)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(ended, times)| (ended.clone(), times.read())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_dependency_invents_fills_no_memory() {
        let durations = Durations::default();
        let request = |port| Request { dependency: "up".to_owned(), method: "GET", address: "a".to_owned(), port };
        for n in 0..5000 {
            durations.add(request(n), Some(200), None, Duration::from_millis(7));
        }
        durations.add(request(0), Some(200), None, Duration::from_millis(7));
        let all = durations.read();
        assert_eq!((all.len(), all[0].1.all()), (SETS_MAX, 2));
    }
}
