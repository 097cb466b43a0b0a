//! Shows what only a person can do, at the top of the overview.

use std::collections::BTreeMap;

use askama::Template;
use halfopen::handle::{CircuitView, StoreHealth};
use halfopen_core::circuit::Wake;
use halfopen_core::job::JobState;
use halfopen_core::snapshot::{DeliveryState, PostRecord};
use halfopen_core::verdict::Class;

use super::super::problem::Problem;
use super::look::Look;
use super::page::{Link, markup};
use super::say::fill;
use super::timeline::Range;
use super::view::{JobsAsked, View, circuit_path};
use super::words::Words;
use crate::serve::queue::progress::Progress;

/// How many of the newest alerts are looked at.
const ALERTS_MAX: usize = 100;

#[derive(Template)]
#[template(path = "dashboard/people.html")]
struct People<'a> {
    w: &'a Words,
    needs: Vec<Need>,
}

/// Something that only a person can do.
struct Need {
    text: String,
    /// What it is about, for who hears the link alone.
    about: String,
    link: Option<Link>,
}

/// Renders what needs a person; almost nothing if nothing does.
pub(super) fn render(
    look: &Look<'_>,
    circuits: &[(CircuitView, Option<Wake>)],
    progress: &BTreeMap<String, Progress>,
) -> Result<String, Problem> {
    markup(&People { w: look.say.w, needs: needs(look, circuits, progress) })
}

fn needs(
    look: &Look<'_>,
    circuits: &[(CircuitView, Option<Wake>)],
    progress: &BTreeMap<String, Progress>,
) -> Vec<Need> {
    let (say, w) = (&look.say, look.say.w);
    let mut needs = Vec::new();
    match look.gateway.door.handle.health() {
        StoreHealth::Good => {}
        StoreHealth::ReadOnly(why) => {
            needs.push(Need { text: fill(w.need_store_read_only, &[("why", &why)]), about: String::new(), link: None });
        }
        StoreHealth::Lost(why) => {
            needs.push(Need { text: fill(w.need_store_lost, &[("why", &why)]), about: String::new(), link: None });
        }
    }
    for (view, _) in circuits {
        let name = view.id.to_string();
        let last = view.status.last_failure.as_ref();
        let text = if view.status.reason == Some("quota_exhausted") {
            Some(fill(w.need_quota, &[("circuit", &name)]))
        } else if last.is_some_and(|last| last.class == Class::Auth) {
            Some(fill(w.need_credential, &[("circuit", &name)]))
        } else if view.status.hold.as_ref().is_some_and(|hold| hold.until.is_none()) {
            Some(fill(w.need_release, &[("circuit", &name)]))
        } else {
            last.and_then(|last| last.narrower.as_ref())
                .map(|key| fill(w.need_split, &[("circuit", &name), ("key", key)]))
        };
        if let Some(text) = text {
            let link = Link { text: w.look.to_owned(), href: circuit_path(&name), here: false };
            needs.push(Need { text, about: name, link: Some(link) });
        }
    }
    for (name, progress) in progress {
        let review = progress.figures.tally.manual_review;
        if review > 0 {
            let oldest = progress.figures.oldest.get(&JobState::ManualReview);
            let age = oldest.map_or_else(String::new, |at| say.span(at.until(say.when.now)));
            let text = fill(w.need_review, &[("n", &review.to_string()), ("dependency", name), ("age", &age)]);
            let asked = JobsAsked { dependency: Some(name.clone()), state: Some(JobState::ManualReview), after: None };
            let link = Link { text: w.decide.to_owned(), href: asked.path(), here: false };
            needs.push(Need { text, about: name.clone(), link: Some(link) });
        }
        if progress.late > 0 {
            let text = fill(w.need_late, &[("n", &progress.late.to_string()), ("dependency", name)]);
            needs.push(Need { text, about: name.clone(), link: None });
        }
    }
    let alerts = look.handle.alerts(ALERTS_MAX).unwrap_or_default();
    let day_ago = look.say.when.now - Range::Day.span();
    let recent = alerts.iter().filter(|post| post.alert.at_ms >= day_ago.as_millis());
    let given_up = |post: &&PostRecord| post.deliveries.iter().any(|each| each.state == DeliveryState::Failed);
    let failed = recent.filter(given_up).count();
    if failed > 0 {
        let link = Link { text: w.look.to_owned(), href: View::Alerts.path(), here: false };
        let text = fill(w.need_alerts, &[("n", &failed.to_string())]);
        needs.push(Need { text, about: w.alerts.to_owned(), link: Some(link) });
    }
    needs
}
