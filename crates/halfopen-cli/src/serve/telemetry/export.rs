//! Sends what is exported: one loop for each signal, and one last time when the gateway ends.
//!
//! What a collector cannot take now is sent again after a pause that doubles, to a minute, or as long as it says; what
//! it does not want is counted and gone. Figures are not kept for that: the next reading holds everything that the last
//! one did.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::super::gateway::Gateway;
use super::super::metrics;
use super::{Fate, Telemetry, figures};
use crate::otlp::settings::Target;
use crate::otlp::span::{Span, now_ns};
use crate::otlp::{Signal, Took, ask, encode};
use crate::ui;

/// The pause after the first failure in a row, and the longest one.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// How long the end of the gateway waits for a collector.
const FLUSH_WITHIN: Duration = Duration::from_secs(3);

/// The loops.
#[derive(Debug)]
pub(in crate::serve) struct Exporting {
    telemetry: Arc<Telemetry>,
    loops: Vec<JoinHandle<()>>,
}

/// Starts to export what the environment asks for.
pub(in crate::serve) fn start(gateway: &Arc<Gateway>) -> Exporting {
    let telemetry = Arc::clone(&gateway.door.telemetry);
    let mut loops = Vec::new();
    if let (Some(target), Some(queue)) = (telemetry.settings.traces.clone(), telemetry.take_queue()) {
        ui::say(&format!("spans are exported to {}", target.shown()));
        loops.push(tokio::spawn(send_spans(Arc::clone(&telemetry), target, queue)));
    }
    if let Some(target) = telemetry.settings.metrics.clone() {
        ui::say(&format!("figures are exported to {}", target.shown()));
        loops.push(tokio::spawn(send_figures(Arc::clone(gateway), target)));
    }
    Exporting { telemetry, loops }
}

impl Exporting {
    /// Sends what is left, for a bounded time.
    pub(in crate::serve) async fn finish(self) {
        self.telemetry.stop.send_replace(true);
        let all = async {
            for one in self.loops {
                // One that panicked has nothing to send.
                let _ = one.await;
            }
        };
        let _ = tokio::time::timeout(FLUSH_WITHIN + Duration::from_secs(1), all).await;
    }
}

async fn send_spans(telemetry: Arc<Telemetry>, target: Target, mut queue: mpsc::Receiver<Span>) {
    let (every, most) = (telemetry.settings.spans_every, telemetry.settings.batch_max);
    let mut batch = Vec::new();
    let mut trouble = Trouble::new(Signal::Traces);
    loop {
        let filled = tokio::time::timeout(every, fill(&mut queue, &mut batch, most));
        let stops = tokio::select! {
            _ = filled => false,
            () = stopped(&telemetry) => true,
        };
        if stops {
            break;
        }
        if batch.is_empty() {
            continue;
        }
        let pause = match sent(&telemetry, &target, &batch).await {
            Took::Whole => {
                trouble.over();
                batch.clear();
                continue;
            }
            Took::Never(why) => {
                trouble.met(&target, &why, None);
                batch.clear();
                continue;
            }
            Took::Later(why, wait) => trouble.met(&target, &why, wait),
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stopped(&telemetry) => break,
        }
    }
    let rest = async {
        loop {
            while batch.len() < most
                && let Ok(span) = queue.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                return;
            }
            match sent(&telemetry, &target, &batch).await {
                Took::Whole | Took::Never(_) => batch.clear(),
                Took::Later(..) => return,
            }
        }
    };
    let _ = tokio::time::timeout(FLUSH_WITHIN, rest).await;
    let mut lost = batch.len();
    while queue.try_recv().is_ok() {
        lost += 1;
    }
    telemetry.count(Fate::Lost, lost as u64);
}

/// Fills a batch; returns when it is full.
async fn fill(queue: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>, most: usize) {
    while batch.len() < most {
        // The sender lives as long as the gateway.
        if queue.recv_many(batch, most - batch.len()).await == 0 {
            std::future::pending::<()>().await;
        }
    }
}

async fn sent(telemetry: &Telemetry, target: &Target, batch: &[Span]) -> Took {
    let took = ask(target, encode::spans(batch, &telemetry.settings.resource)).await;
    let many = batch.len() as u64;
    match &took {
        Took::Whole => telemetry.count(Fate::Sent, many),
        Took::Never(_) => {
            telemetry.failed(Signal::Traces);
            telemetry.count(Fate::Refused, many);
        }
        Took::Later(..) => telemetry.failed(Signal::Traces),
    }
    took
}

async fn send_figures(gateway: Arc<Gateway>, target: Target) {
    let telemetry = Arc::clone(&gateway.door.telemetry);
    let (every, since_ns) = (telemetry.settings.metrics_every, now_ns());
    let mut trouble = Trouble::new(Signal::Metrics);
    let mut pause = every;
    loop {
        let stops = tokio::select! {
            () = tokio::time::sleep(pause) => false,
            () = stopped(&telemetry) => true,
        };
        let within = if stops { FLUSH_WITHIN } else { Duration::MAX };
        pause = match tokio::time::timeout(within, figures_once(&gateway, &target, since_ns)).await {
            Err(_) | Ok(Took::Whole) => {
                trouble.over();
                every
            }
            Ok(Took::Never(why)) => {
                telemetry.failed(Signal::Metrics);
                trouble.met(&target, &why, None).max(every)
            }
            Ok(Took::Later(why, wait)) => {
                telemetry.failed(Signal::Metrics);
                trouble.met(&target, &why, wait).max(every)
            }
        };
        if stops {
            return;
        }
    }
}

async fn figures_once(gateway: &Arc<Gateway>, target: &Target, since_ns: u64) -> Took {
    let asked = Arc::clone(gateway);
    let read = tokio::task::spawn_blocking(move || metrics::read(&asked, &asked.door.handle)).await;
    let Ok(families) = read else { return Took::Later("the figures cannot be read".to_owned(), None) };
    let telemetry = &gateway.door.telemetry;
    let (durations, who) = (telemetry.durations.read(), &telemetry.settings.resource);
    ask(target, figures::written(&families, &durations, who, (since_ns, now_ns()))).await
}

async fn stopped(telemetry: &Telemetry) {
    // The sender lives as long as `telemetry`.
    let _ = telemetry.stop.subscribe().wait_for(|stop| *stop).await;
}

/// Failures in a row: how long the collector is left alone, and what is said once.
struct Trouble {
    signal: Signal,
    in_a_row: u32,
}

impl Trouble {
    const fn new(signal: Signal) -> Self {
        Self { signal, in_a_row: 0 }
    }

    /// Takes note of a failure; returns the pause before the next try.
    fn met(&mut self, target: &Target, why: &str, stated: Option<Duration>) -> Duration {
        if self.in_a_row == 0 {
            let signal = self.signal.as_str();
            ui::warn(&format!("{signal} are not taken by the collector at {}: {why}", target.shown()));
        }
        let ours = PAUSE_FIRST.saturating_mul(2_u32.saturating_pow(self.in_a_row.min(10))).min(PAUSE_MAX);
        self.in_a_row = self.in_a_row.saturating_add(1);
        stated.map_or(ours, |stated| stated.clamp(ours, PAUSE_MAX.max(ours))).mul_f64(1.0 + fastrand::f64() / 10.0)
    }

    fn over(&mut self) {
        if self.in_a_row > 0 {
            ui::say(&format!("{} are taken by the collector again", self.signal.as_str()));
        }
        self.in_a_row = 0;
    }
}
