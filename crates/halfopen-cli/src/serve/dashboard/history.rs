//! Shows the incidents of the last days: when each began, why, how it ended, and what was spared meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use askama::Template;
use halfopen_core::alert::CHANNELS;
use halfopen_core::time::Timestamp;

use super::super::problem::Problem;
use super::incidents::{Incident, KeptOff, spare, told_by};
use super::look::Look;
use super::page::{Fragment, Link, Rendered, markup};
use super::say::{Moment, fill};
use super::view::{View, circuit_path, days};
use super::words::Words;

/// How many entries of one dependency's journal are read at most.
const EVENTS_MAX: usize = 4_000;
/// How many incidents are shown.
const SHOWN_MAX: usize = 100;

#[derive(Template)]
#[template(path = "dashboard/incidents.html")]
struct Incidents<'a> {
    w: &'a Words,
    ranges: Vec<Link>,
    tiles: Vec<Tile>,
    incidents: Vec<Shown>,
    hidden: Option<String>,
}

struct Tile {
    kind: &'static str,
    name: &'static str,
    value: String,
    more: String,
}

struct Shown {
    kind: &'static str,
    circuit: String,
    href: String,
    badge: String,
    began: Moment,
    ended: Option<Moment>,
    how_ended: String,
    lasted: String,
    x: f64,
    width: f64,
    cause: String,
    probes: String,
    spared: u64,
    jobs: u64,
}

#[derive(Template)]
#[template(path = "dashboard/badge.html")]
struct Badge<'a> {
    kind: &'static str,
    text: &'a str,
}

/// Renders the incidents of so many days.
pub(super) fn render(look: &Look<'_>, asked: u32) -> Result<Rendered, Problem> {
    let (say, w) = (&look.say, look.say.w);
    let span = Duration::from_secs(u64::from(asked) * 86_400);
    let since = say.when.now - span;
    let names: BTreeSet<String> =
        look.circuits()?.into_iter().map(|(view, _)| view.id.dependency().to_owned()).collect();
    let report = look.figures(asked);
    let mut all = Vec::new();
    for name in names.iter().filter(|name| *name != CHANNELS) {
        let mut found = told_by(&look.read_journal(name, since, EVENTS_MAX)?.events);
        if let Some(summary) = report.dependencies.get(name) {
            let noted = summary.kept_off.iter().map(|noted| KeptOff {
                at: say.when.of_wall_ms(noted.at_ms),
                refused: noted.refused,
                queued: noted.queued,
            });
            spare(&mut found, name, &noted.collect::<Vec<_>>());
        }
        all.extend(found);
    }
    all.sort_by_key(|incident| std::cmp::Reverse(incident.began_at));
    let sum = |of: fn(&Incident) -> u64| all.iter().map(of).sum::<u64>().to_string();
    let lasting = all.iter().filter(|incident| incident.end.is_none()).count();
    let tile = |kind, name, value, more| Tile { kind, name, value, more };
    let tiles = vec![
        tile(
            if lasting > 0 { "open" } else { "calm" },
            w.incidents,
            all.len().to_string(),
            fill(w.n_lasting, &[("n", &lasting.to_string())]),
        ),
        tile("calm", w.calls_spared, sum(|incident| incident.spared), String::new()),
        tile("calm", w.jobs_kept, sum(|incident| incident.jobs), String::new()),
    ];
    let hidden = all.len().saturating_sub(SHOWN_MAX);
    all.truncate(SHOWN_MAX);
    let incidents = all.iter().map(|incident| show(look, incident, since)).collect::<Result<_, _>>()?;
    let link = |days: u32| Link {
        text: say.exact(Duration::from_secs(u64::from(days) * 86_400)),
        href: View::Incidents(days).path(),
        here: days == asked,
    };
    let page = Incidents {
        w,
        ranges: days().into_iter().map(link).collect(),
        tiles,
        incidents,
        hidden: (hidden > 0).then(|| fill(w.n_hidden, &[("n", &hidden.to_string())])),
    };
    Ok(Rendered {
        title: w.incidents.to_owned(),
        said: None,
        fragments: vec![Fragment::new("incidents", markup(&page)?)],
    })
}

fn show(look: &Look<'_>, incident: &Incident, since: Timestamp) -> Result<Shown, Problem> {
    let (say, w) = (&look.say, look.say.w);
    let now = say.when.now;
    let ended_at = incident.ended_at();
    let (kind, text) = if ended_at.is_some() { ("closed", w.over) } else { ("open", w.lasting) };
    let whole = since.until(now).as_secs_f64().max(1.0);
    let share = |span: Duration| (span.as_secs_f64() / whole * 10_000.0).round() / 100.0;
    let lasted = incident.began_at.until(ended_at.unwrap_or(now));
    let cause = incident.trip.as_ref().map_or_else(|| w.began_before.to_owned(), |trip| say.trip(trip));
    let probes = match incident.probes {
        0 => "0".to_owned(),
        n => fill(w.n_probes_failed, &[("n", &n.to_string()), ("failed", &incident.failed_probes.to_string())]),
    };
    let width = share(lasted).max(0.5);
    Ok(Shown {
        kind: if ended_at.is_some() { "over" } else { "open" },
        circuit: incident.circuit.clone(),
        href: circuit_path(&incident.circuit),
        badge: markup(&Badge { kind, text })?,
        began: say.moment(incident.began_at),
        ended: ended_at.map(|at| say.moment(at)),
        how_ended: incident.end.as_ref().map(|event| say.event(event)).unwrap_or_default(),
        lasted: say.span(lasted),
        x: share(since.until(incident.began_at)).min(100.0 - width),
        width,
        cause,
        probes,
        spared: incident.spared,
        jobs: incident.jobs,
    })
}
