//! Shows what was told to owners lately, and whether it arrived.

use askama::Template;
use halfopen_core::alert::Kind as AlertKind;
use halfopen_core::snapshot::DeliveryState;

use super::super::problem::Problem;
use super::look::Look;
use super::page::{Fragment, Rendered, markup};
use super::say::Moment;
use super::view::circuit_path;
use super::words::Words;
use crate::serve::api::unreadable;

/// How many alerts are shown, the newest.
const SHOWN_MAX: usize = 50;

#[derive(Template)]
#[template(path = "dashboard/alerts.html")]
struct Alerts<'a> {
    w: &'a Words,
    alerts: Vec<Shown>,
}

struct Shown {
    kind: &'static str,
    at: Moment,
    text: String,
    circuit: String,
    href: String,
    owner: String,
    deliveries: Vec<Delivery>,
}

struct Delivery {
    kind: &'static str,
    channel: String,
    state: &'static str,
    error: Option<String>,
}

/// Renders the newest alerts.
pub(super) fn render(look: &Look<'_>) -> Result<Rendered, Problem> {
    let (say, w) = (&look.say, look.say.w);
    let posts = look.handle.alerts(SHOWN_MAX).map_err(unreadable)?;
    let alerts = posts.into_iter().rev().map(|post| {
        let deliveries: Vec<Delivery> = post
            .deliveries
            .into_iter()
            .map(|delivery| {
                let (kind, state) = match delivery.state {
                    DeliveryState::Due => ("half-open", w.delivery_due),
                    DeliveryState::Delivered => ("closed", w.delivery_done),
                    DeliveryState::Failed => ("open", w.delivery_failed),
                };
                Delivery { kind, channel: delivery.channel, state, error: delivery.error }
            })
            .collect();
        let failed = deliveries.iter().any(|delivery| delivery.kind == "open");
        let kind = AlertKind::ALL.into_iter().find(|kind| kind.as_str() == post.alert.kind);
        Shown {
            kind: if failed { "open" } else { "plain" },
            at: say.moment_ms(post.alert.at_ms),
            text: kind.map_or_else(|| post.alert.kind.clone(), |kind| name(kind, w).to_owned()),
            href: circuit_path(&post.alert.circuit),
            circuit: post.alert.circuit,
            owner: post.alert.owner,
            deliveries,
        }
    });
    let page = Alerts { w, alerts: alerts.collect() };
    Ok(Rendered { title: w.alerts.to_owned(), said: None, fragments: vec![Fragment::new("alerts", markup(&page)?)] })
}

const fn name(kind: AlertKind, w: &Words) -> &'static str {
    match kind {
        AlertKind::Opened => w.alert_opened,
        AlertKind::ProbeFailed => w.alert_probe_failed,
        AlertKind::StillOpen => w.alert_still_open,
        AlertKind::Recovered => w.alert_recovered,
        AlertKind::NeedsPerson => w.alert_needs_person,
        AlertKind::ManualReview => w.alert_manual_review,
        AlertKind::TtlAtRisk => w.alert_ttl_at_risk,
        AlertKind::UnclassifiedRising => w.alert_unclassified,
        AlertKind::Silent => w.alert_silent,
        AlertKind::AlertFailing => w.alert_failing,
        AlertKind::StoreLost => w.alert_store_lost,
        AlertKind::StoreBack => w.alert_store_back,
        AlertKind::Test => w.alert_test,
    }
}
