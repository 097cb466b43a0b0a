//! Does what is due without anybody's call: lets time pass for circuits, tidies the store, leaves the activation lines.
//!
//! No breaker needs this loop to leave the open state; that follows from stored deadlines. What needs it is the journal
//! (a cooldown that is over is an event when it is over, not when the next caller comes) and the proof that the gateway
//! is wired: one line per dependency and interval, also when every figure is 0.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use halfopen::activation::{self, Figures};
use halfopen::handle::StoreHealth;

use super::drills;
use super::gateway::Gateway;
use super::notify::Notify;
use super::storeless::Storeless;
use crate::log::{self, Level};
use crate::ui;

/// How often time passes for circuits that nobody calls.
const EVERY: Duration = Duration::from_secs(1);
/// How often is tried whether the store can be written, where nothing else tries.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// What was written into the lines already.
#[derive(Debug, Default)]
pub(super) struct Lines {
    told: BTreeMap<String, Figures>,
    failed: bool,
}

/// How often what is written down.
#[derive(Clone, Copy, Debug)]
pub(super) struct Intervals {
    /// The activation lines.
    pub(super) lines: Duration,
    /// The sums in the log.
    pub(super) sums: Duration,
}

/// Does what is due, once a second, for ever.
pub(super) async fn beat(gateway: Arc<Gateway>, intervals: Intervals, notify: Arc<Notify>) {
    let mut lines = Lines::default();
    let mut beats = tokio::time::interval(EVERY);
    beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut next_lines = tokio::time::Instant::now() + intervals.lines;
    let mut next_sums = tokio::time::Instant::now() + intervals.sums;
    let mut summed = BTreeMap::new();
    let mut storeless = Storeless::default();
    let mut health = gateway.door.handle.health();
    let mut next_look = tokio::time::Instant::now() + LOOK_EVERY;
    let mut looked = StoreHealth::Good;
    loop {
        tokio::select! {
            _ = beats.tick() => {
                let (beaten, heard) = (Arc::clone(&gateway), Arc::clone(&notify));
                let swept = tokio::task::spawn_blocking(move || {
                    // What cannot be written now is done by the next beat; health says why.
                    let swept = beaten.door.handle.sweep(&|dependency| beaten.policy_of(dependency));
                    for record in swept.unwrap_or_default() {
                        beaten.door.counts.of(&record.dependency).swept(&[&record]);
                    }
                    drills::end_what_is_due(&beaten);
                    beaten.door.handle.tidy();
                    (beaten.door.handle.health(), heard.status(&beaten))
                });
                if let Ok((mut now, status)) = swept.await {
                    // Where nothing is to be written, only a look that writes finds that nothing can be.
                    if tokio::time::Instant::now() >= next_look {
                        next_look = tokio::time::Instant::now() + LOOK_EVERY;
                        looked = gateway.last_look.health(&gateway).await.unwrap_or(StoreHealth::Good);
                    }
                    if now == StoreHealth::Good && matches!(looked, StoreHealth::ReadOnly(_)) {
                        now = looked.clone();
                    }
                    tell(&health, &now);
                    storeless.see(&gateway, &now);
                    health = now;
                    // The runtime, a thread that may block, and the store have answered.
                    notify.alive(status);
                }
            }
            () = tokio::time::sleep_until(next_lines) => {
                next_lines += intervals.lines;
                lines = written(&gateway, lines).await;
            }
            () = tokio::time::sleep_until(next_sums) => {
                next_sums += intervals.sums;
                sum(&gateway, &mut summed, intervals.sums);
            }
            () = gateway.shutdown.stopped() => {
                // The last calls are not over yet; their figures are written by `last_lines`.
                *gateway.lines.lock().await = lines;
                return;
            }
        }
    }
}

/// Writes what happened since the last lines; for the end.
pub(super) async fn last_lines(gateway: &Arc<Gateway>) {
    let lines = std::mem::take(&mut *gateway.lines.lock().await);
    written(gateway, lines).await;
}

/// Says once that the store is lost or back.
fn tell(before: &StoreHealth, now: &StoreHealth) {
    match (before, now) {
        (before, now) if std::mem::discriminant(before) == std::mem::discriminant(now) => {}
        (_, StoreHealth::Good) => ui::say("the store is back; what was learned without it was handed over"),
        (_, StoreHealth::ReadOnly(why)) => ui::warn(&format!("the store can only be read: {why}")),
        (_, StoreHealth::Lost(why)) => ui::warn(&format!("the store is lost, circuits are kept in memory: {why}")),
    }
}

/// Says what each dependency did since the last sum, also when that is nothing: a log that is silent proves nothing.
fn sum(gateway: &Gateway, summed: &mut BTreeMap<String, Figures>, over: Duration) {
    for dependency in gateway.live().dependencies() {
        let figures = dependency.counts.figures();
        let before = summed.insert(dependency.name.clone(), figures).unwrap_or_default();
        let mut fields = vec![("dependency", dependency.name.as_str().into()), ("over_sec", over.as_secs().into())];
        fields.extend(since(&figures, &before).named().map(|(name, figure)| (name, figure.into())));
        log::line(Level::Info, "activation", &fields);
    }
}

async fn written(gateway: &Arc<Gateway>, lines: Lines) -> Lines {
    let gateway = Arc::clone(gateway);
    tokio::task::spawn_blocking(move || write(&gateway, lines)).await.unwrap_or_default()
}

/// Appends one line for each dependency of the policy in force, and for those that had calls before a reload.
fn write(gateway: &Gateway, mut lines: Lines) -> Lines {
    // Where the store's folder is gone, a new one would be in the way of the old one's return. The figures wait.
    let folder = gateway.door.handle.location().path().and_then(std::path::Path::parent);
    if folder.is_some_and(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        return lines;
    }
    let at_ms = jiff::Timestamp::now().as_millisecond();
    let mut names: Vec<String> = gateway.live().dependencies().map(|dependency| dependency.name.clone()).collect();
    names.extend(lines.told.keys().cloned());
    names.extend(gateway.drills.without_last_line());
    names.sort();
    names.dedup();
    for name in names {
        let over = drills::is_one(&name) && gateway.live().dependency(&name).is_none();
        let counts = gateway.door.counts.of(&name);
        let figures = counts.figures();
        let told = lines.told.entry(name.clone()).or_default();
        let unclassified = counts.take_unclassified();
        match activation::record(gateway.door.handle.location(), &name, &since(&figures, told), &unclassified, at_ms) {
            Ok(_) => {
                *told = figures;
                lines.failed = false;
                if over {
                    // A drill that has ended had its last line.
                    lines.told.remove(&name);
                    gateway.drills.note_last_line(&name);
                    gateway.door.counts.forget_unless(&name, &[]);
                }
            }
            // Figures that could not be written are in the next line that can.
            Err(error) if !lines.failed => {
                ui::warn(&error.to_string());
                lines.failed = true;
            }
            Err(_) => {}
        }
    }
    lines
}

/// Returns what was counted since `told`.
fn since(now: &Figures, told: &Figures) -> Figures {
    let new = |now: u64, told: u64| now.saturating_sub(told);
    Figures {
        calls: new(now.calls, told.calls),
        rate_limited: new(now.rate_limited, told.rate_limited),
        overloaded: new(now.overloaded, told.overloaded),
        hints_read: new(now.hints_read, told.hints_read),
        waits: new(now.waits, told.waits),
        opened: new(now.opened, told.opened),
        refused: new(now.refused, told.refused),
        degraded: new(now.degraded, told.degraded),
        probes: new(now.probes, told.probes),
        queued: new(now.queued, told.queued),
        drained: new(now.drained, told.drained),
        expired: new(now.expired, told.expired),
        unclassified: new(now.unclassified, told.unclassified),
        failed: new(now.failed, told.failed),
    }
}
