//! Rows that only a running process can show: that its figures count, and that the real dependency was left alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::Value;

use super::super::DrillError;
use super::super::row::{Row, RowVerdict};
use super::gateway::{Gateway, encoded};
use super::standin::Place;
use super::{House, OWN_LAST, no_port};

/// The row about the figures of the gateway.
pub(super) const FIGURES: &str = "L1 figures count";
/// The row about the real dependency.
pub(super) const UNTOUCHED: &str = "L2 real one untouched";
/// How many calls are counted.
const CALLS: u64 = 3;
/// How long the figures may be behind.
const WITHIN: Duration = Duration::from_secs(5);
/// The figures that a dependency has from the beginning.
const COUNTED: [&str; 5] = ["calls_total", "probes_total", "degraded_total", "opened_total", "unclassified_total"];

/// Shows that the figures of the gateway are there before anything happens, at 0, and count what happens.
pub(super) async fn figures(house: &House) -> Result<Row, DrillError> {
    let began = Instant::now();
    let place = Place::take().map_err(|error| no_port(&error))?;
    let begun = house.shadow(&place, OWN_LAST).await?;
    let seen = counted(house, &begun.shadow.name, &begun.shadow.path).await;
    house.end(&begun.shadow).await;
    let (good, seen) = seen?;
    let found = row(
        FIGURES,
        "nothing, and then three calls to a dependency that is not there",
        "each figure of /metrics is there from the beginning, at 0; then the calls and their failures are counted",
        seen,
        good,
    );
    Ok(Row { virtual_s: began.elapsed().as_secs_f64(), ..found })
}

async fn counted(house: &House, name: &str, path: &str) -> Result<(bool, String), DrillError> {
    let gateway = &house.gateway;
    let before = gateway.text("/metrics").await?;
    for figure in COUNTED {
        match value(&before, &format!("halfopen_{figure}{{dependency=\"{name}\"}}")) {
            Some(0.0) => {}
            Some(other) => return Ok((false, format!("{figure} is {other} before the first call"))),
            None => return Ok((false, format!("{figure} is not there before the first call"))),
        }
    }
    for call in 0..CALLS {
        let target = format!("{path}/drill/{call}");
        let called = gateway.call(&target, HeaderMap::new(), Bytes::from_static(b"{}")).await;
        called.map_err(|error| DrillError::Io(format!("a call was broken off by the gateway: {error}")))?;
    }
    let until = Instant::now() + WITHIN;
    loop {
        let after = gateway.text("/metrics").await?;
        let calls = value(&after, &format!("halfopen_calls_total{{dependency=\"{name}\"}}")).unwrap_or(-1.0);
        let class = "connection_failure";
        let failed = value(&after, &format!("halfopen_attempts_total{{dependency=\"{name}\",class=\"{class}\"}}"));
        #[expect(clippy::cast_precision_loss, reason = "it is three")]
        let good = (calls - CALLS as f64).abs() < 0.5 && failed.is_some_and(|failed| failed >= 1.0);
        if good || Instant::now() > until {
            let failed = failed.unwrap_or(-1.0);
            return Ok((good, format!("0 before; then {calls} calls, {failed} attempts judged {class}")));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the value of a series in the text form of Prometheus.
fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

/// What is seen of the real dependency.
#[derive(Debug, PartialEq)]
pub(super) struct Untouched {
    /// How many calls were made to it.
    calls: Option<f64>,
    /// Its circuits, without what time alone changes.
    circuits: Vec<(String, String, u64, u64)>,
    /// How many entries of the journal are about it.
    entries: usize,
    /// Its jobs by state, as the figures count them.
    jobs: Vec<String>,
}

impl Untouched {
    /// Looks at the real dependency.
    pub(super) async fn read(gateway: &Arc<Gateway>, dependency: &str) -> Result<Self, DrillError> {
        let name = encoded(dependency);
        let metrics = gateway.text("/metrics").await?;
        let circuits = gateway.ask(Method::GET, &format!("/circuits?full=true&dependency={name}"), None).await?;
        let target = format!("/events?format=json&all=true&limit=100000&dependency={name}");
        let entries = gateway.ask(Method::GET, &target, None).await?;
        let label = format!("{{dependency=\"{dependency}\",");
        let jobs = metrics.lines().filter(|line| line.starts_with("halfopen_jobs{") && line.contains(&label));
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(Self {
            calls: value(&metrics, &format!("halfopen_calls_total{{dependency=\"{dependency}\"}}")),
            circuits: circuits
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| {
                    (text(&one["circuit"]), text(&one["state"]), number(&one["generation"]), number(&one["escalation"]))
                })
                .collect(),
            entries: entries.as_array().map_or(0, Vec::len),
            jobs: jobs.map(str::to_owned).collect(),
        })
    }

    /// Says whether the real dependency is as it was.
    pub(super) async fn still(self, gateway: &Arc<Gateway>, dependency: &str) -> Result<Row, DrillError> {
        let now = Self::read(gateway, dependency).await?;
        let (injected, expected) = (
            "all rows before",
            "the state, the generation, the journal, the jobs and the figures of the real dependency are what they were",
        );
        let moves_by_itself = self.circuits.iter().any(|(_, state, _, _)| state != "closed")
            || self.jobs.iter().any(|line| !line.ends_with(" 0"));
        if now.calls != self.calls || (now != self && moves_by_itself) {
            let why = "n/a: the real dependency was in use while it was drilled, and moved by itself";
            let mut row = row(UNTOUCHED, injected, why, String::new(), true);
            row.verdict = RowVerdict::NotApplicable;
            return Ok(row);
        }
        let mut changed = Vec::new();
        if now.circuits != self.circuits {
            changed.push(format!("its circuits were {:?} and are {:?}", self.circuits, now.circuits));
        }
        if now.entries != self.entries {
            changed.push(format!("its journal has {} entries more", now.entries.saturating_sub(self.entries)));
        }
        if now.jobs != self.jobs {
            changed.push(format!("its jobs were {:?} and are {:?}", self.jobs, now.jobs));
        }
        let good = changed.is_empty();
        let seen = if good {
            let calls = self.calls.unwrap_or(0.0);
            format!("{calls} calls, {} circuits, {} entries, as before", self.circuits.len(), self.entries)
        } else {
            changed.join("; ")
        };
        Ok(row(UNTOUCHED, injected, expected, seen, good))
    }
}

fn row(name: &str, injected: &str, expected: &str, seen: String, good: bool) -> Row {
    Row {
        row: name.to_owned(),
        injected: injected.to_owned(),
        expected: expected.to_owned(),
        seen,
        verdict: if good { RowVerdict::Pass } else { RowVerdict::Fail },
        virtual_s: 0.0,
    }
}
