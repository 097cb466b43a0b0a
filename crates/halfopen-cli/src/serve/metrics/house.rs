//! The figures of the gateway itself: its store, its journal, its alerts, its export, its policy.

use halfopen::handle::StoreHealth;
use halfopen_core::alert::CHANNELS;

use super::super::journal::{EVENTS, OTHER};
use super::super::telemetry::{Fate, Signal};
use super::{Family, Labels, Reading, level, of_dependency, truth, with};
use crate::alerts::{self, Trouble};

pub(super) fn families(reading: &Reading<'_>) -> Vec<Family> {
    let gateway = reading.gateway;
    let health = gateway.door.handle.health();
    let ready = health == StoreHealth::Good && !gateway.shutdown.is_draining();
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    let mut families = vec![
        Family::gauge("build_info", "Always 1; says which build this is", [(version, 1.0)]),
        Family::single(
            "store_readable",
            "Whether the store can be read",
            truth(!matches!(health, StoreHealth::Lost(_))),
        ),
        Family::single("store_writable", "Whether the store can be written", truth(health == StoreHealth::Good)),
        Family::single("ready", "Whether /readyz says yes, as far as is known without asking the store", truth(ready)),
        Family::single("event_listeners", "Streams of events that are open", level(gateway.feed.listeners() as u64)),
        Family::single(
            "circuits_hidden",
            "Circuits beyond the number that a scrape shows",
            level(reading.hidden as u64),
        ),
        Family::counter(
            "policy_reloads",
            "How often the policy was read again, by how that ended",
            [("ok", gateway.reloads.done()), ("failed", gateway.reloads.refused())]
                .map(|(result, times)| (vec![("result", result.to_owned())], times)),
        ),
    ];
    families.push(journal(reading));
    families.extend(told(reading));
    families.extend(exported(reading));
    families
}

/// What the journal said since this process began, whichever process said it.
fn journal(reading: &Reading<'_>) -> Family {
    let seen = &reading.gateway.journal;
    let names = reading.counts.iter().map(|(name, _)| name.as_str()).chain([CHANNELS]);
    let words = || EVENTS.into_iter().chain([OTHER]);
    Family::counter(
        "journal_events",
        "Entries of the journal since this process began, of all processes on its store",
        names.flat_map(|name| words().map(move |word| (with(of_dependency(name), "event", word), seen.of(name, word)))),
    )
}

/// How alerts get through.
fn told(reading: &Reading<'_>) -> Vec<Family> {
    let gateway = reading.gateway;
    let live = gateway.live();
    let owners = &live.config.owners;
    let receivers = live
        .config
        .dependencies
        .iter()
        .flat_map(|(name, known)| alerts::receivers(name, &known.wiring.on_done, known.policy.owner.as_deref()));
    let channels: Vec<String> =
        owners.keys().flat_map(|owner| alerts::named(owners, owner)).chain(receivers).map(|named| named.name).collect();
    let labels = |channel: &str| -> Labels { with(of_dependency(CHANNELS), "channel", channel) };
    vec![
        Family::gauge(
            "alerts_waiting",
            "Alerts that are not delivered yet",
            [(of_dependency(CHANNELS), level(reading.alerts_waiting.unwrap_or(0)))],
        ),
        Family::counter(
            "alerts_dropped",
            "Alerts that made room for newer ones because too many waited",
            [(of_dependency(CHANNELS), gateway.journal.alerts_dropped())],
        ),
        Family::gauge(
            "on_done_jobs",
            "Ended jobs of the store that programs are to be told of, were told of, and were not",
            reading.counts.iter().flat_map(|(name, _)| {
                let of = reading.on_done.get(name).copied().unwrap_or_default();
                let figures =
                    [("waiting", of.waiting), ("told", of.told), ("given_up", of.given_up), ("dropped", of.dropped)];
                figures.map(|(word, jobs)| (with(of_dependency(name), "result", word), level(jobs)))
            }),
        ),
        Family::counter(
            "alert_deliveries",
            "Alerts that this process delivered, by channel",
            channels.iter().map(|channel| (labels(channel), gateway.told.delivered(channel))),
        ),
        Family::counter(
            "alert_delivery_failures",
            "Deliveries of this process that failed, by channel and why",
            channels.iter().flat_map(|channel| {
                Trouble::ALL.map(|trouble| {
                    (with(labels(channel), "reason", trouble.as_str()), gateway.told.failed(channel, trouble))
                })
            }),
        ),
    ]
}

/// How spans and figures get to a collector.
fn exported(reading: &Reading<'_>) -> Vec<Family> {
    let telemetry = &reading.gateway.door.telemetry;
    vec![
        Family::counter(
            "telemetry_spans",
            "Spans, by what became of them; all 0 where none are exported",
            Fate::ALL.map(|fate| (vec![("fate", fate.as_str().to_owned())], telemetry.spans_of(fate))),
        ),
        Family::counter(
            "telemetry_exports_failed",
            "Requests to the collector that failed",
            Signal::ALL.map(|signal| (vec![("signal", signal.as_str().to_owned())], telemetry.failures_of(signal))),
        ),
    ]
}
