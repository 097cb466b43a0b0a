//! Exports spans and figures to a collector, as OTLP over HTTP.
//!
//! A call is a span, and so is each of its attempts, which carries its own name on to the dependency; the figures are
//! those of `/metrics`. Calls never wait for a collector: a span goes into a queue that has a bound, and what does not fit
//! is counted and gone. One loop for each signal sends, on the gateway's own runtime and by its own way of speaking HTTP;
//! a collector that does not answer is left alone for longer and longer, up to a minute.
//!
//! Messages are built by ourselves ([`crate::otlp`]) and not by the OpenTelemetry SDK. Its instruments cannot be read from histograms that exist
//! already, so the figures could not be the same as those of a scrape; its batch processor drops without saying how much;
//! and its asynchronous exporters need a runtime that the thread they are called on does not have.
//!
//! Nothing is exported unless the environment names a collector ([`crate::otlp::settings`]).

mod attempt;
mod call;
mod durations;
mod export;
mod figures;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::{mpsc, watch};

pub(super) use attempt::{About, AttemptSpan};
pub(super) use call::CallSpan;
pub(super) use export::start;

pub(super) use crate::otlp::Signal;
use crate::otlp::settings::Settings;
use crate::otlp::span::Span;
use durations::Durations;

/// What became of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The collector took it.
    Sent,
    /// Too many waited.
    QueueFull,
    /// The collector does not want it.
    Refused,
    /// The gateway ended before the collector took it.
    Lost,
}

impl Fate {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [Self::Sent, Self::QueueFull, Self::Refused, Self::Lost];

    /// Returns its name.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::QueueFull => "queue_full",
            Self::Refused => "refused",
            Self::Lost => "lost",
        }
    }
}

/// What is exported, and what became of it.
#[derive(Debug)]
pub(super) struct Telemetry {
    settings: Settings,
    queue: Option<mpsc::Sender<Span>>,
    /// How long requests took, where figures are exported.
    durations: Durations,
    /// Until the loop takes it.
    waiting: Mutex<Option<mpsc::Receiver<Span>>>,
    stop: watch::Sender<bool>,
    fates: [AtomicU64; Fate::ALL.len()],
    failures: [AtomicU64; Signal::ALL.len()],
}

impl Telemetry {
    /// Reads from the environment what is exported where. What cannot be used there is said and left out: those variables
    /// are shared with other programs, and none of them is a reason not to serve.
    pub(super) fn from_environment() -> Self {
        let settings = Settings::read(&|name| std::env::var(name).ok());
        settings.doubts.iter().for_each(|doubt| crate::ui::warn(doubt));
        Self::new(settings)
    }

    fn new(settings: Settings) -> Self {
        let (sender, receiver) = match &settings.traces {
            Some(_) => {
                let (sender, receiver) = mpsc::channel(settings.queue_max);
                (Some(sender), Some(receiver))
            }
            None => (None, None),
        };
        Self {
            settings,
            queue: sender,
            durations: Durations::default(),
            waiting: Mutex::new(receiver),
            stop: watch::Sender::new(false),
            fates: Default::default(),
            failures: Default::default(),
        }
    }

    /// Returns whether spans are exported.
    fn records(&self) -> bool {
        self.queue.is_some()
    }

    /// Returns whether figures are exported.
    fn measures(&self) -> bool {
        self.settings.metrics.is_some()
    }

    /// Queues a span; never waits.
    fn put(&self, span: Span) {
        if let Some(queue) = &self.queue
            && queue.try_send(span).is_err()
        {
            self.count(Fate::QueueFull, 1);
        }
    }

    fn take_queue(&self) -> Option<mpsc::Receiver<Span>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn count(&self, fate: Fate, spans: u64) {
        if let Some(at) = Fate::ALL.iter().position(|known| *known == fate) {
            self.fates[at].fetch_add(spans, Ordering::Relaxed);
        }
    }

    fn failed(&self, signal: Signal) {
        if let Some(at) = Signal::ALL.iter().position(|known| *known == signal) {
            self.failures[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how many spans had a fate.
    pub(super) fn spans_of(&self, fate: Fate) -> u64 {
        Fate::ALL.iter().position(|known| *known == fate).map_or(0, |at| self.fates[at].load(Ordering::Relaxed))
    }

    /// Returns how many requests to the collector failed.
    pub(super) fn failures_of(&self, signal: Signal) -> u64 {
        Signal::ALL.iter().position(|known| *known == signal).map_or(0, |at| self.failures[at].load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::context::Context;
    use crate::otlp::span::Kind;

    #[test]
    fn what_does_not_fit_is_counted_and_gone() {
        let vars = |name: &str| match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some("http://127.0.0.1:4318".to_owned()),
            "OTEL_BSP_MAX_QUEUE_SIZE" => Some("2".to_owned()),
            _ => None,
        };
        let telemetry = Telemetry::new(Settings::read(&vars));
        for _ in 0..5 {
            telemetry.put(Span::new(Context::root(), None, "x".to_owned(), Kind::Client));
        }
        assert_eq!(telemetry.spans_of(Fate::QueueFull), 3);
    }
}
