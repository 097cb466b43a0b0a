//! Says in a line each what does not get through: alerts to owners, and what programs are to be told of jobs.

use halfopen::handle::Handle;
use halfopen::store::EventFilter;
use halfopen::store::alerts::KEEP_DONE;
use halfopen_core::alert::CHANNELS;
use halfopen_core::snapshot::{DeliveryState, PostRecord};
use serde_json::Value;

/// How many alerts are looked at.
pub const LOOKED_AT: usize = 3000;

/// Returns what a person who looks at the circuits must hear; nothing if all got through.
#[must_use]
pub fn undelivered(handle: &Handle) -> Vec<String> {
    let mut lines: Vec<String> = to_owners(&handle.alerts(LOOKED_AT).unwrap_or_default()).into_iter().collect();
    lines.extend(dropped(handle));
    for (dependency, figures) in handle.notice_figures().unwrap_or_default() {
        if figures.waiting + figures.given_up + figures.dropped > 0 {
            lines.push(format!(
                "on_done of {dependency}: {} jobs are still to be told, {} were given up, {} dropped; halfopen status shows \
                 the circuits of its receivers",
                figures.waiting, figures.given_up, figures.dropped
            ));
        }
    }
    lines
}

fn to_owners(posts: &[PostRecord]) -> Option<String> {
    let of = |state: DeliveryState| {
        posts.iter().filter(|post| post.deliveries.iter().any(|delivery| delivery.state == state)).count()
    };
    let tried = |post: &&PostRecord| {
        post.deliveries.iter().any(|delivery| delivery.state == DeliveryState::Due && delivery.attempts > 0)
    };
    let (waiting, given_up) = (posts.iter().filter(tried).count(), of(DeliveryState::Failed));
    (waiting + given_up > 0).then(|| {
        format!("alert delivery is failing: {waiting} wait, {given_up} were given up; halfopen alerts list says why")
    })
}

/// Returns what a person must hear about alerts that nobody was told, because too many waited; `None` if there were none.
fn dropped(handle: &Handle) -> Option<String> {
    let since = handle.clock().now() - KEEP_DONE;
    let filter = EventFilter {
        dependency: Some(CHANNELS.to_owned()),
        since_ms: Some(since.as_millis()),
        limit: LOOKED_AT,
        ..EventFilter::default()
    };
    let events = handle.events(&filter).unwrap_or_default();
    let dropped = events.iter().filter(|event| event.event == "alerts_dropped");
    let alerts: u64 = dropped.filter_map(|event| event.details.get("alerts").and_then(Value::as_u64)).sum();
    (alerts > 0).then(|| {
        format!("{alerts} alerts of the last days were dropped because too many waited; halfopen events has what they were about")
    })
}
