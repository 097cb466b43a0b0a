//! Shows everything at a glance: what needs a person, every circuit with its last hour, every queue, the figures.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use halfopen::handle::CircuitView;
use halfopen_core::circuit::{Status, Wake};
use halfopen_core::event::State;
use halfopen_core::policy::{Mode, Policy};

use super::super::problem::Problem;
use super::depth::Curve;
use super::look::{Journal, Look};
use super::page::{Fragment, Link, Rendered, markup};
use super::say::{Moment, Say, fill};
use super::timeline::{Range, Timeline};
use super::view::{JobsAsked, View, circuit_path};
use super::words::Words;
use super::{figures, needs};
use crate::serve::queue::progress::Progress;
use crate::shown::{SHADOW, circuit_of};

/// How many circuits the overview shows, the worst first.
const CARDS_MAX: usize = 60;

#[derive(Template)]
#[template(path = "dashboard/tiles.html")]
struct Tiles {
    tiles: Vec<Tile>,
}

struct Tile {
    kind: &'static str,
    name: &'static str,
    value: String,
    more: String,
}

#[derive(Template)]
#[template(path = "dashboard/badge.html")]
struct Badge {
    kind: &'static str,
    text: String,
}

#[derive(Template)]
#[template(path = "dashboard/timeline.html")]
struct Drawing<'a> {
    w: &'a Words,
    t: Timeline,
}

#[derive(Template)]
#[template(path = "dashboard/queue.html")]
struct QueueTemplate<'a> {
    w: &'a Words,
    label: String,
    href: String,
    queued: String,
    oldest: Option<String>,
    running: String,
    done: String,
    review: String,
    drain: String,
    curve: Option<Curve>,
}

#[derive(Template)]
#[template(path = "dashboard/circuits.html")]
struct Circuits<'a> {
    w: &'a Words,
    ranges: Vec<Link>,
    groups: Vec<Group>,
    hidden: Option<String>,
}

struct Group {
    anchor: String,
    name: String,
    owner: Option<String>,
    cards: Vec<Card>,
    queue: Option<String>,
    /// How bad the worst of it is.
    rank: u8,
}

struct Card {
    kind: &'static str,
    name: String,
    href: String,
    badges: String,
    since: Option<Moment>,
    why: String,
    evidence: Option<String>,
    fate: String,
    next: String,
    next_at: Option<Moment>,
    timeline: String,
}

/// Renders the overview.
pub(super) fn render(look: &Look<'_>, range: Range) -> Result<Rendered, Problem> {
    let w = look.say.w;
    let mut circuits = look.circuits()?;
    let progress = look.progress(&circuits);
    let all = circuits.len();
    let tiles = tiles(look, &circuits, &progress);
    let people = needs::render(look, &circuits, &progress)?;
    circuits.sort_by_key(|(view, _)| rank(&view.status));
    circuits.truncate(CARDS_MAX);
    let hidden = all.saturating_sub(circuits.len());
    let hidden = (hidden > 0).then(|| fill(w.n_hidden, &[("n", &hidden.to_string())]));
    let groups = groups(look, circuits, &progress, range)?;
    let ranges = ranges(range, View::Overview);
    Ok(Rendered {
        title: w.overview.to_owned(),
        said: said(look, range, &groups),
        fragments: vec![
            Fragment::new("people", people),
            Fragment::new("tiles", markup(&Tiles { tiles })?),
            Fragment::new("circuits", markup(&Circuits { w, ranges, groups, hidden })?),
            Fragment::new("figures", figures::render(look)?),
            Fragment::new("unknown", figures::unknown(look)?),
        ],
    })
}

/// Returns the links to the other ranges of a view.
pub(super) fn ranges(here: Range, view: impl Fn(Range) -> View) -> Vec<Link> {
    let link = |range: Range| Link { text: range.word().to_owned(), href: view(range).path(), here: range == here };
    Range::ALL.into_iter().map(link).collect()
}

/// Returns how bad the state of a circuit is, the worst first.
fn rank(status: &Status) -> u8 {
    match (status.state, &status.hold) {
        (State::Open, _) => 0,
        (_, Some(hold)) if hold.state == State::Open => 0,
        (State::HalfOpen, _) => 1,
        (State::Closed, Some(_)) => 2,
        (State::Closed, None) if status.throttled_until.is_some() => 3,
        (State::Closed, None) => 4,
    }
}

/// Returns a state as a class of the style sheet.
pub(super) const fn kind(state: State) -> &'static str {
    match state {
        State::Closed => "closed",
        State::Open => "open",
        State::HalfOpen => "half-open",
    }
}

/// Returns the state of a circuit and what stands beside it, each with a word, a shape and a colour.
pub(super) fn badges(status: &Status, policy: &Policy, id: &str, say: &Say) -> Result<String, Problem> {
    let w = say.w;
    let badge = |kind, text: &str| markup(&Badge { kind, text: text.to_owned() });
    let mut badges = badge(kind(status.state), say.state(status.state))?;
    if let Some(hold) = &status.hold {
        badges.push_str(&badge("held", &fill(w.held_in, &[("state", say.state(hold.state))]))?);
    }
    if status.throttled_until.is_some() {
        badges.push_str(&badge("throttled", w.throttled)?);
    }
    if status.ramp_per_sec.is_some() {
        badges.push_str(&badge("ramp", w.ramp)?);
    }
    if policy.mode == Mode::Observe || id.contains(SHADOW) {
        badges.push_str(&badge("observe", w.observe)?);
    }
    Ok(badges)
}

/// Returns the drawing of a circuit.
pub(super) fn drawing(look: &Look<'_>, view: &CircuitView, range: Range) -> Result<String, Problem> {
    // While the journal cannot be read, what is known of the circuit is shown all the same.
    let unread = || Arc::new(Journal { events: Vec::new(), known_from: Some(look.say.when.now) });
    let journal = look.journal(view.id.dependency(), range).unwrap_or_else(|_| unread());
    let own = journal.of(&view.id);
    // A store that was copied is younger than what it tells of.
    let oldest = journal.events.first().map(|event| event.at_ms);
    let born_at = look.born_at().filter(|born| oldest.is_none_or(|oldest| oldest >= born.as_millis()));
    let known_from = journal.known_from.max(born_at);
    let t = Timeline::draw(&own, &view.status, range, known_from, &look.say);
    markup(&Drawing { w: look.say.w, t })
}

/// Returns the evidence of the last failure, as far as it explains the state.
pub(super) fn evidence(status: &Status) -> Option<String> {
    let last = status.last_failure.as_ref()?;
    let explains = status.state != State::Closed || status.throttled_until.is_some() || status.failures_in_window > 0;
    (explains && !last.excerpt.is_empty()).then(|| last.excerpt.clone())
}

fn groups(
    look: &Look<'_>,
    circuits: Vec<(CircuitView, Option<Wake>)>,
    progress: &BTreeMap<String, Progress>,
    range: Range,
) -> Result<Vec<Group>, Problem> {
    let say = &look.say;
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for (view, wake) in circuits {
        let dependency = view.id.dependency();
        let policy = look.gateway.policy_of(dependency);
        let (next, next_at) = say.next(&view.status, &policy, wake);
        let name = view.id.to_string();
        let card = Card {
            // Held open it refuses, whatever its breaker would do.
            kind: match &view.status.hold {
                Some(hold) if hold.state == State::Open => "held",
                Some(_) | None => kind(view.status.state),
            },
            href: circuit_path(&name),
            badges: badges(&view.status, &policy, &name, say)?,
            since: (view.status.since.as_millis() > 0).then(|| say.moment(view.status.since)),
            why: say.why(&view.status, &policy),
            evidence: evidence(&view.status),
            fate: say.fate(&view.status, &policy),
            next,
            next_at: next_at.map(|at| say.moment(at)),
            timeline: drawing(look, &view, range)?,
            name,
        };
        let group = match groups.entry(dependency.to_owned()) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => entry.insert(Group {
                anchor: format!("d-{}", super::view::segment(dependency)),
                name: dependency.to_owned(),
                owner: policy.owner.clone(),
                cards: Vec::new(),
                queue: queue(look, dependency, progress.get(dependency), range)?,
                rank: u8::MAX,
            }),
        };
        group.rank = group.rank.min(rank(&view.status));
        group.cards.push(card);
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_key(|group| group.rank);
    Ok(groups)
}

/// Renders the queue of a dependency; `None` if it never had a job.
pub(super) fn queue(
    look: &Look<'_>,
    dependency: &str,
    progress: Option<&Progress>,
    range: Range,
) -> Result<Option<String>, Problem> {
    let (say, w) = (&look.say, look.say.w);
    let Some(progress) = progress.filter(|progress| progress.figures.tally.accepted > 0) else { return Ok(None) };
    let tally = &progress.figures.tally;
    let oldest = progress.figures.oldest.get(&halfopen_core::job::JobState::Queued);
    let drain = match (progress.rate, progress.left) {
        _ if tally.queued == 0 => w.drain_nothing.to_owned(),
        (Some(rate), Some(left)) => {
            let text = fill(w.drain_rate, &[("rate", &rate.to_string()), ("left", &say.span(left))]);
            match progress.late {
                0 => text,
                late => text + &fill(w.drain_late, &[("n", &late.to_string())]),
            }
        }
        (_, _) => w.drain_waits.to_owned(),
    };
    let href = JobsAsked { dependency: Some(dependency.to_owned()), ..JobsAsked::default() }.path();
    markup(&QueueTemplate {
        w,
        label: fill(w.queue_of, &[("dependency", dependency)]),
        href,
        queued: tally.queued.to_string(),
        oldest: oldest.map(|at| fill(w.oldest, &[("span", &say.span(at.until(say.when.now)))])),
        running: tally.running.to_string(),
        done: tally.done.to_string(),
        review: tally.manual_review.to_string(),
        drain,
        curve: Curve::draw(&look.gateway.dashboard.depths, dependency, progress, range, say),
    })
    .map(Some)
}

fn tiles(
    look: &Look<'_>,
    circuits: &[(CircuitView, Option<Wake>)],
    progress: &BTreeMap<String, Progress>,
) -> Vec<Tile> {
    let w = look.say.w;
    let in_state = |state: State| circuits.iter().filter(|(view, _)| view.status.state == state).count();
    let (open, half) = (in_state(State::Open), in_state(State::HalfOpen));
    let sum = |of: fn(&Progress) -> u64| progress.values().map(of).sum::<u64>();
    let (queued, review) = (sum(|p| p.figures.tally.queued), sum(|p| p.figures.tally.manual_review));
    let report = look.figures(1);
    // Lines are written once a minute; what this process has counted since it began is never more than the truth.
    let spared = |name: &str| {
        let noted = report.dependencies.get(name).map_or(0, |summary| summary.figures.refused);
        noted.max(look.counted(name).refused)
    };
    let names: std::collections::BTreeSet<&str> = circuits.iter().map(|(view, _)| view.id.dependency()).collect();
    let spared: u64 = names.into_iter().map(spared).sum();
    let tile = |kind, name, value: u64, more: String| Tile { kind, name, value: value.to_string(), more };
    let of_all = fill(w.of_n_circuits, &[("n", &circuits.len().to_string())]);
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    vec![
        tile(if open > 0 { "open" } else { "calm" }, w.open, count(open), of_all),
        tile(if half > 0 { "half-open" } else { "calm" }, w.half_open, count(half), String::new()),
        tile(if queued > 0 { "busy" } else { "calm" }, w.jobs_waiting, queued, String::new()),
        tile(if review > 0 { "held" } else { "calm" }, w.manual_review, review, String::new()),
        tile("calm", w.calls_spared, spared, w.last_day.to_owned()),
    ]
}

/// Says the newest change of state of all that is shown.
fn said(look: &Look<'_>, range: Range, groups: &[Group]) -> Option<String> {
    let mut newest: Option<(i64, String)> = None;
    for group in groups {
        let Ok(journal) = look.journal(&group.name, range) else { continue };
        let last = journal.events.iter().rev().find(|event| event.from_state != event.to_state);
        if let Some(event) = last
            && newest.as_ref().is_none_or(|(at, _)| event.at_ms > *at)
        {
            newest = Some((event.at_ms, format!("{}: {}", circuit_of(event), look.say.event(event))));
        }
    }
    newest.map(|(_, text)| text)
}
