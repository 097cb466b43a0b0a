//! Shows figures to Prometheus, in its own text form or in that of OpenMetrics.
//!
//! Nothing is kept for it: a scrape asks the store and the counts, so a breaker whose cooldown ended while nobody called
//! is half-open in the very next scrape, and after a restart the states are those of the store. Every series of every
//! dependency of the policy is there from the start, at 0, because a series that appears with its first failure cannot
//! be alerted on.
//!
//! Labels are bounded: names of the policy, circuits of the store (which folds partitions beyond their bound into one),
//! and our own words. Nothing that a caller sends becomes a label.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use halfopen::handle::{CircuitView, StoreHealth};
use halfopen_core::circuit::{Circuit, Status};
use halfopen_core::event::State;
use halfopen_core::job::JobState;
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::Class;
use http::Response;
use http::header::ACCEPT;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric as _, MetricEncoder, NoLabelSet, prometheus_text, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::super::body::Body;
use super::super::counts::{Counts, REASONS, SPANS};
use super::super::gateway::Gateway;
use super::super::problem::{Kind, Problem};
use super::super::queue::progress::Progress;
use super::circuits::at_the_store;
use super::{Asked, answer};

/// How many circuits one scrape shows at most.
const CIRCUITS_MAX: usize = 2000;

/// The form that Prometheus has read since its beginning.
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The form of the standard.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The states of a breaker, each a series of its own.
const STATES: [State; 3] = [State::Closed, State::Open, State::HalfOpen];

/// A counter of every dependency: its name, what it counts, and where that is.
type Counted = (&'static str, &'static str, fn(&Counts) -> u64);

const COUNTERS: [Counted; 16] = [
    ("jobs_queued", "Calls that were kept for later, or for a person", |counts| counts.queued.total()),
    ("jobs_claimed", "Jobs that this process claimed", |counts| counts.jobs_claimed.total()),
    ("calls", "Calls", |counts| counts.calls()),
    ("retries", "Attempts after the first of their call", |counts| counts.retries.total()),
    ("waits", "Waits that were slept", |counts| counts.waits.total()),
    ("hints_read", "Stated waits that were read", |counts| counts.hints_read.total()),
    ("opened", "Breakers that this process opened", |counts| counts.opened.total()),
    ("probes", "Attempts that were probes", |counts| counts.probes.total()),
    ("degraded", "Calls that ended without their work done", |counts| counts.degraded.total()),
    ("unclassified", "Failures that no rule knew", |counts| counts.attempts_of(Class::UnknownFailure)),
    ("client_aborts", "Calls whose caller went away", |counts| counts.client_abort.total()),
    ("would_refuse", "Calls that an enforcing policy would have refused", |counts| counts.would_refuse.total()),
    ("cache_answers", "Calls answered with an earlier answer", |counts| counts.cache_answers.total()),
    ("fallback_answers", "Calls answered by another dependency", |counts| counts.fallback_answers.total()),
    ("body_not_replayable", "Calls not tried again for the length of their body", |counts| {
        counts.body_not_replayable.total()
    }),
    ("panics", "Panics caught while a call was carried through", |counts| counts.panics.total()),
];

/// Answers `GET /metrics`.
pub(super) async fn show(gateway: &Arc<Gateway>, asked: Asked) -> Result<Response<Body>, Problem> {
    let open_metrics = asked
        .request
        .headers()
        .get_all(ACCEPT)
        .iter()
        .any(|accept| accept.to_str().is_ok_and(|accept| accept.contains("application/openmetrics-text")));
    let scrape = at_the_store(gateway, |gateway, handle| {
        let now = handle.clock().now();
        // A store that cannot be read shows as such, and not as circuits that are all well.
        let circuits = handle.circuits(&|dependency| gateway.policy_of(dependency)).unwrap_or_default();
        let queues = Progress::read(handle, &circuits, now);
        Ok(Scrape { queues, ..Scrape::new(gateway, circuits, now) })
    })
    .await?;
    let mut registry = Registry::with_prefix("halfopen");
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    let written =
        if open_metrics { text::encode(&mut text, &registry) } else { prometheus_text::encode(&mut text, &registry) };
    written.map_err(|_| Problem::new(Kind::Internal, "The figures cannot be written."))?;
    Ok(answer::with_type(text, if open_metrics { OPEN_METRICS } else { PLAIN }))
}

/// Everything that one scrape shows, read at one instant.
#[derive(Debug)]
struct Scrape {
    now: Timestamp,
    circuits: Vec<CircuitView>,
    hidden: usize,
    health: StoreHealth,
    ready: bool,
    listeners: usize,
    reloads: [(&'static str, u64); 2],
    counts: Vec<(String, Arc<Counts>)>,
    queues: BTreeMap<String, Progress>,
}

impl Scrape {
    fn new(gateway: &Gateway, known: Vec<CircuitView>, now: Timestamp) -> Self {
        let mut circuits: BTreeMap<_, _> = known.into_iter().map(|view| (view.id.clone(), view)).collect();
        for dependency in gateway.live().dependencies() {
            let status = || Circuit::new().status(&dependency.policy, now);
            if let Ok(id) = dependency.name.parse::<halfopen_core::circuit_id::CircuitId>() {
                circuits.entry(id.clone()).or_insert_with(|| CircuitView { id, status: status() });
            }
        }
        let live = gateway.live();
        let counts = live.dependencies().map(|dependency| (dependency.name.clone(), Arc::clone(&dependency.counts)));
        let counts = counts.collect();
        let hidden = circuits.len().saturating_sub(CIRCUITS_MAX);
        let circuits = circuits.into_values().take(CIRCUITS_MAX).collect();
        let health = gateway.door.handle.health();
        let ready = health == StoreHealth::Good && !gateway.shutdown.is_draining();
        Self {
            now,
            circuits,
            hidden,
            counts,
            queues: BTreeMap::new(),
            ready,
            health,
            listeners: gateway.feed.listeners(),
            reloads: [("ok", gateway.reloads.done()), ("failed", gateway.reloads.refused())],
        }
    }

    /// Writes one gauge of every circuit.
    fn of_circuits(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        value: impl Fn(&Status) -> f64,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for view in &self.circuits {
            let circuit = view.id.to_string();
            let labels = [("dependency", view.id.dependency()), ("circuit", circuit.as_str())];
            gauge(&mut family, &labels, value(&view.status))?;
        }
        Ok(())
    }

    fn states(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Whether the breaker is in this state at this instant";
        let mut family = encoder.encode_descriptor("circuit_state", help, None, MetricType::Gauge)?;
        for view in &self.circuits {
            let circuit = view.id.to_string();
            for state in STATES {
                let labels =
                    [("dependency", view.id.dependency()), ("circuit", circuit.as_str()), ("state", state.as_str())];
                gauge(&mut family, &labels, f64::from(u8::from(view.status.state == state)))?;
            }
        }
        let help = "Whether an operator holds the circuit in this state";
        let mut family = encoder.encode_descriptor("circuit_held", help, None, MetricType::Gauge)?;
        for view in &self.circuits {
            let circuit = view.id.to_string();
            let held = view.status.hold.as_ref().map(|hold| hold.state);
            for state in [State::Closed, State::Open] {
                let labels =
                    [("dependency", view.id.dependency()), ("circuit", circuit.as_str()), ("state", state.as_str())];
                gauge(&mut family, &labels, f64::from(u8::from(held == Some(state))))?;
            }
        }
        Ok(())
    }

    /// Writes what was counted for each dependency.
    fn counted(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, value) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (dependency, counts) in &self.counts {
                counter(&mut family, &[("dependency", dependency)], value(counts))?;
            }
        }
        let help = "Calls that the door refused, by why";
        let mut family = encoder.encode_descriptor("refused", help, None, MetricType::Counter)?;
        for (dependency, counts) in &self.counts {
            for reason in REASONS {
                let labels = [("dependency", dependency.as_str()), ("reason", reason.as_str())];
                counter(&mut family, &labels, counts.refused_for(reason))?;
            }
        }
        let help = "Attempts that ended, by what they turned out to be";
        let mut family = encoder.encode_descriptor("attempts", help, None, MetricType::Counter)?;
        for (dependency, counts) in &self.counts {
            for class in Class::ALL {
                let labels = [("dependency", dependency.as_str()), ("class", class.as_str())];
                counter(&mut family, &labels, counts.attempts_of(class))?;
            }
        }
        let help = "Seconds until the head of the answer to an attempt came, or its failure";
        let mut family = encoder.encode_descriptor("attempt_head_seconds", help, None, MetricType::Histogram)?;
        for (dependency, counts) in &self.counts {
            let (spans, longer, micros) = counts.to_head.read();
            let mut buckets: Vec<(f64, u64)> = SPANS.into_iter().zip(spans).collect();
            buckets.push((f64::MAX, longer));
            let all = buckets.iter().map(|(_, times)| times).sum();
            let seconds = Duration::from_micros(micros).as_secs_f64();
            let labels = [("dependency", dependency.as_str())];
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(seconds, all, &buckets, None)?;
        }
        Ok(())
    }

    /// Writes how far the queue of each dependency is.
    fn queues(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let none = Progress::default();
        let of = |dependency: &str| self.queues.get(dependency).unwrap_or(&none);
        let help = "Jobs in this state";
        let mut family = encoder.encode_descriptor("jobs", help, None, MetricType::Gauge)?;
        for (dependency, _) in &self.counts {
            for state in JobState::ALL {
                let labels = [("dependency", dependency.as_str()), ("state", state.as_str())];
                let jobs = of(dependency).figures.tally.of(state);
                gauge(&mut family, &labels, count(usize::try_from(jobs).unwrap_or(usize::MAX)))?;
            }
        }
        let help = "Seconds since the oldest job in this state was accepted";
        let mut family = encoder.encode_descriptor("jobs_oldest_seconds", help, None, MetricType::Gauge)?;
        for (dependency, _) in &self.counts {
            for state in JobState::ALL {
                let labels = [("dependency", dependency.as_str()), ("state", state.as_str())];
                let oldest = of(dependency).figures.oldest.get(&state);
                gauge(&mut family, &labels, oldest.map_or(0.0, |at| self.now.since(*at).as_secs_f64()))?;
            }
        }
        let mut progress = |name: &str, help: &str, value: fn(&Progress) -> f64| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            self.counts.iter().try_for_each(|(dependency, _)| {
                gauge(&mut family, &[("dependency", dependency.as_str())], value(of(dependency)))
            })
        };
        progress("drain_rate_per_second", "Held-back starts per second, 0 while there is no ramp", |progress| {
            progress.rate.unwrap_or(0.0)
        })?;
        progress("drain_seconds_left", "Seconds until all that waits has started, at this rate", |progress| {
            progress.left.map_or(0.0, |left| left.as_secs_f64())
        })?;
        progress("drain_late", "Waiting jobs that expire before their turn, at this rate", |progress| {
            count(usize::try_from(progress.late).unwrap_or(usize::MAX))
        })?;
        let help = "Jobs that ended in this process, or went to a person, by state";
        let mut family = encoder.encode_descriptor("jobs_ended", help, None, MetricType::Counter)?;
        for (dependency, counts) in &self.counts {
            for state in
                JobState::ALL.into_iter().filter(|state| *state != JobState::Queued && *state != JobState::Running)
            {
                let labels = [("dependency", dependency.as_str()), ("state", state.as_str())];
                counter(&mut family, &labels, counts.jobs_ended(state))?;
            }
        }
        Ok(())
    }

    fn own(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut single = |name: &str, help: &str, labels: &[(&str, &str)], value: f64| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            gauge(&mut family, labels, value)
        };
        let truth = |holds: bool| f64::from(u8::from(holds));
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        single("build_info", "Always 1; says which build this is", &version, 1.0)?;
        let readable = !matches!(self.health, StoreHealth::Lost(_));
        single("store_readable", "Whether the store can be read", &[], truth(readable))?;
        single("store_writable", "Whether the store can be written", &[], truth(self.health == StoreHealth::Good))?;
        single(
            "ready",
            "Whether /readyz says yes, as far as is known without asking the store",
            &[],
            truth(self.ready),
        )?;
        single("event_listeners", "Streams of events that are open", &[], count(self.listeners))?;
        single("circuits_hidden", "Circuits beyond the number that a scrape shows", &[], count(self.hidden))?;
        let help = "How often the policy was read again, by how that ended";
        let mut family = encoder.encode_descriptor("policy_reloads", help, None, MetricType::Counter)?;
        for (result, times) in self.reloads {
            counter(&mut family, &[("result", result)], times)?;
        }
        Ok(())
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.own(&mut encoder)?;
        self.counted(&mut encoder)?;
        self.queues(&mut encoder)?;
        self.states(&mut encoder)?;
        let left = |at: Option<Timestamp>| at.map_or(Duration::ZERO, |at| self.now.until(at)).as_secs_f64();
        let encoder = &mut encoder;
        self.of_circuits(encoder, "circuit_open_seconds_left", "Seconds until the cooldown ends", |status| {
            left(status.open_until)
        })?;
        self.of_circuits(
            encoder,
            "circuit_throttled_seconds_left",
            "Seconds for which the dependency asked everybody to wait",
            |status| left(status.throttled_until),
        )?;
        self.of_circuits(encoder, "circuit_failures_in_window", "Failures that count at this instant", |status| {
            status.failures_in_window.into()
        })?;
        self.of_circuits(encoder, "circuit_probes_in_flight", "Probes that are out", |status| {
            status.probes_in_flight.into()
        })?;
        self.of_circuits(encoder, "circuit_waiting", "Callers that wait, as far as is known", |status| {
            status.waiting.into()
        })
    }
}

fn gauge(family: &mut MetricEncoder<'_>, labels: &[(&str, &str)], value: f64) -> fmt::Result {
    if labels.is_empty() {
        return family.encode_gauge(&value);
    }
    ConstGauge::new(value).encode(family.encode_family(&labels)?)
}

fn counter(family: &mut MetricEncoder<'_>, labels: &[(&str, &str)], value: u64) -> fmt::Result {
    ConstCounter::new(value).encode(family.encode_family(&labels)?)
}

/// Returns a number of things as the number of a series.
fn count(things: usize) -> f64 {
    f64::from(u32::try_from(things).unwrap_or(u32::MAX))
}
