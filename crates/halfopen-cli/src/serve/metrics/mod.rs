//! Every figure of the gateway, read at one instant: what a scrape shows and what is exported are the same.
//!
//! Nothing is kept for it: a reading asks the store and the counts, so a breaker whose cooldown ended while nobody called
//! is half-open in the very next one, and after a restart the states are those of the store. Every series of every
//! dependency of the policy is there from the start, at 0, because a series that appears with its first failure cannot
//! be alerted on.
//!
//! Labels are bounded: names of the policy, circuits of the store (which folds partitions beyond their bound into one),
//! and our own words. Nothing that a caller sends becomes a label.

mod circuits;
mod counted;
mod house;
mod queues;
pub(super) mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use halfopen::handle::{CircuitView, Handle};
use halfopen::store::alerts::NoticeFigures;
use halfopen_core::circuit::Circuit;
use halfopen_core::time::Timestamp;

use super::counts::{Counts, Spread};
use super::gateway::Gateway;
use super::queue::progress::Progress;

/// How many circuits one reading shows at most.
const CIRCUITS_MAX: usize = 2000;

/// The first part of every name.
pub(super) const PREFIX: &str = "halfopen";

/// One figure, with all its series.
#[derive(Debug)]
pub(super) struct Family {
    /// Its name without [`PREFIX`] and without what a form adds to counters.
    pub(super) name: &'static str,
    /// What it says, in a few words.
    pub(super) help: &'static str,
    /// What its numbers mean.
    pub(super) kind: Kind,
    /// One for each set of labels.
    pub(super) series: Vec<Series>,
}

/// What the numbers of a figure mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It only grows while the process lives.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Seconds, sorted into spans.
    Histogram,
}

/// One number, or one set of spans, with its labels.
#[derive(Debug)]
pub(super) struct Series {
    /// Names and values.
    pub(super) labels: Vec<(&'static str, String)>,
    /// What was read.
    pub(super) value: Value,
}

/// What was read of a series.
#[derive(Debug)]
pub(super) enum Value {
    /// Of a counter.
    Count(u64),
    /// Of a gauge.
    Level(f64),
    /// Of a histogram.
    Times(Spread),
}

/// Everything that the families are made of, read at one instant.
#[derive(Debug)]
struct Reading<'a> {
    gateway: &'a Gateway,
    now: Timestamp,
    /// The circuits that are shown.
    circuits: Vec<CircuitView>,
    /// How many are not.
    hidden: usize,
    counts: Vec<(String, Arc<Counts>)>,
    queues: BTreeMap<String, Progress>,
    /// Alerts that are not done; `None` if the store cannot be read.
    alerts_waiting: Option<u64>,
    /// Of how many jobs programs are to be told, were told, and were not.
    on_done: BTreeMap<String, NoticeFigures>,
}

/// Reads every figure. Waits for the store.
pub(super) fn read(gateway: &Gateway, handle: &Handle) -> Vec<Family> {
    let now = handle.clock().now();
    // A store that cannot be read shows as such, and not as circuits that are all well.
    let known = handle.circuits(&|dependency| gateway.policy_of(dependency)).unwrap_or_default();
    let queues = Progress::read(handle, &known, now);
    let mut circuits: BTreeMap<_, _> = known.into_iter().map(|view| (view.id.clone(), view)).collect();
    let live = gateway.live();
    for dependency in live.dependencies() {
        let status = || Circuit::new().status(&dependency.policy, now);
        if let Ok(id) = dependency.name.parse::<halfopen_core::circuit_id::CircuitId>() {
            circuits.entry(id.clone()).or_insert_with(|| CircuitView { id, status: status() });
        }
    }
    let counts = live.dependencies().map(|dependency| (dependency.name.clone(), Arc::clone(&dependency.counts)));
    let reading = Reading {
        gateway,
        now,
        hidden: circuits.len().saturating_sub(CIRCUITS_MAX),
        circuits: circuits.into_values().take(CIRCUITS_MAX).collect(),
        counts: counts.collect(),
        queues,
        alerts_waiting: handle.alerts_waiting().ok(),
        on_done: handle.notice_figures().unwrap_or_default(),
    };
    let mut families = house::families(&reading);
    families.extend(counted::families(&reading));
    families.extend(queues::families(&reading));
    families.extend(circuits::families(&reading));
    families
}

impl Family {
    fn counter(name: &'static str, help: &'static str, series: impl IntoIterator<Item = (Labels, u64)>) -> Self {
        let of = |(labels, count)| Series { labels, value: Value::Count(count) };
        Self { name, help, kind: Kind::Counter, series: series.into_iter().map(of).collect() }
    }

    fn gauge(name: &'static str, help: &'static str, series: impl IntoIterator<Item = (Labels, f64)>) -> Self {
        let of = |(labels, level)| Series { labels, value: Value::Level(level) };
        Self { name, help, kind: Kind::Gauge, series: series.into_iter().map(of).collect() }
    }

    fn histogram(name: &'static str, help: &'static str, series: impl IntoIterator<Item = (Labels, Spread)>) -> Self {
        let of = |(labels, spread)| Series { labels, value: Value::Times(spread) };
        Self { name, help, kind: Kind::Histogram, series: series.into_iter().map(of).collect() }
    }

    /// A gauge without labels.
    fn single(name: &'static str, help: &'static str, level: f64) -> Self {
        Self::gauge(name, help, [(Vec::new(), level)])
    }
}

/// The labels of a series.
type Labels = Vec<(&'static str, String)>;

fn of_dependency(dependency: &str) -> Labels {
    vec![("dependency", dependency.to_owned())]
}

fn with(mut labels: Labels, name: &'static str, value: impl Into<String>) -> Labels {
    labels.push((name, value.into()));
    labels
}

/// Returns a number of things as a level.
fn level(things: u64) -> f64 {
    f64::from(u32::try_from(things).unwrap_or(u32::MAX))
}

fn truth(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}
