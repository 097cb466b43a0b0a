//! Shows everything at a glance: what needs a person, every circuit with its last hour, every queue, the figures.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use halfopen::activation::Figures;
use halfopen::handle::{CircuitView, StoreHealth};
use halfopen_core::circuit::{Status, Wake};
use halfopen_core::classify::{Classifier, suggest_command, suggest_http};
use halfopen_core::event::State;
use halfopen_core::outcome::{CommandOutcome, Excerpt, Exit, HttpOutcome, Reached};
use halfopen_core::policy::{Mode, Policy};
use halfopen_core::snapshot::{DeliveryState, PostRecord};
use halfopen_core::verdict::Class;

use super::super::problem::Problem;
use super::depth::Curve;
use super::look::{Journal, Look};
use super::page::{Fragment, Link, Rendered, markup};
use super::say::{Moment, Say, fill};
use super::timeline::{Range, Timeline};
use super::view::{JobsAsked, View, circuit_path};
use super::words::Words;
use crate::serve::queue::progress::Progress;
use crate::shown::{SHADOW, circuit_of};

/// How many circuits the overview shows, the worst first.
const CARDS_MAX: usize = 60;
/// How many columns the table of figures has at most.
const COLUMNS_MAX: usize = 24;
/// How many different unclassified failures are shown.
const UNKNOWN_MAX: usize = 10;
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

#[derive(Template)]
#[template(path = "dashboard/figures.html")]
struct FiguresTemplate<'a> {
    w: &'a Words,
    names: Vec<String>,
    rows: Vec<FigureRow>,
}

struct FigureRow {
    name: &'static str,
    values: Vec<String>,
}

#[derive(Template)]
#[template(path = "dashboard/unknown.html")]
struct Unknown<'a> {
    w: &'a Words,
    failures: Vec<UnknownFailure>,
}

struct UnknownFailure {
    dependency: String,
    times: String,
    line: String,
    rule: Option<String>,
}

/// Renders the overview.
pub(super) fn render(look: &Look<'_>, range: Range) -> Result<Rendered, Problem> {
    let (say, w) = (&look.say, look.say.w);
    let mut circuits = look.circuits()?;
    let progress = look.progress(&circuits);
    let all = circuits.len();
    let tiles = tiles(look, &circuits, &progress);
    let needs = needs(look, &circuits, &progress);
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
            Fragment::new("people", markup(&People { w, needs })?),
            Fragment::new("tiles", markup(&Tiles { tiles })?),
            Fragment::new("circuits", markup(&Circuits { w, ranges, groups, hidden })?),
            Fragment::new("figures", markup(&figures(look, say))?),
            Fragment::new("unknown", markup(&Unknown { w, failures: unknown(look) })?),
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
            kind: kind(view.status.state),
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
            let oldest = progress.figures.oldest.get(&halfopen_core::job::JobState::ManualReview);
            let age = oldest.map_or_else(String::new, |at| say.span(at.until(say.when.now)));
            let text = fill(w.need_review, &[("n", &review.to_string()), ("dependency", name), ("age", &age)]);
            let asked = JobsAsked {
                dependency: Some(name.clone()),
                state: Some(halfopen_core::job::JobState::ManualReview),
                after: None,
            };
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

fn figures<'a>(look: &Look<'_>, say: &Say) -> FiguresTemplate<'a> {
    let report = look.figures(1);
    let mut names: Vec<String> = look.gateway.live().dependencies().map(|dependency| dependency.name.clone()).collect();
    names.extend(report.dependencies.keys().cloned());
    names.sort();
    names.dedup();
    names.truncate(COLUMNS_MAX);
    let columns: Vec<Figures> = names
        .iter()
        .flat_map(|name| {
            let day = report.dependencies.get(name).map(|summary| summary.figures).unwrap_or_default();
            [day, look.counted(name)]
        })
        .collect();
    let w = say.w;
    let titles = [
        w.fig_calls,
        w.fig_rate_limited,
        w.fig_overloaded,
        w.fig_hints_read,
        w.fig_waits,
        w.fig_opened,
        w.fig_refused,
        w.fig_degraded,
        w.fig_probes,
        w.fig_queued,
        w.fig_drained,
        w.fig_expired,
        w.fig_unclassified,
    ];
    let value = |at: usize| columns.iter().map(move |figures| figures.named()[at].1.to_string());
    let mut rows: Vec<FigureRow> =
        titles.into_iter().enumerate().map(|(at, name)| FigureRow { name, values: value(at).collect() }).collect();
    let failed = columns.iter().map(|figures| figures.failed.to_string()).collect();
    rows.insert(1, FigureRow { name: w.fig_failed, values: failed });
    FiguresTemplate { w, names, rows }
}

fn unknown(look: &Look<'_>) -> Vec<UnknownFailure> {
    let report = look.figures(1);
    let mut found: Vec<(&String, &String, u64)> = report
        .dependencies
        .iter()
        .flat_map(|(name, summary)| summary.unclassified_lines.iter().map(move |(line, n)| (name, line, *n)))
        .collect();
    found.sort_by_key(|(_, _, n)| std::cmp::Reverse(*n));
    found.truncate(UNKNOWN_MAX);
    let shown = found.into_iter().map(|(name, line, n)| UnknownFailure {
        dependency: name.clone(),
        times: fill(look.say.w.times, &[("n", &n.to_string())]),
        line: line.clone(),
        rule: rule(look, name, line),
    });
    shown.collect()
}

/// Returns a rule to paste into the policy, made from the first line of what no rule knew: of an answer where the gateway
/// knows the way to the dependency, else of a command.
fn rule(look: &Look<'_>, dependency: &str, line: &str) -> Option<String> {
    let known = look.gateway.live().dependency(dependency).filter(|known| known.upstream.is_some());
    let Some(dependency) = known else {
        let outcome = CommandOutcome {
            exit: Exit::Code(1),
            stdout: Excerpt::whole(b""),
            stderr: Excerpt::whole(line.as_bytes()),
            elapsed: Duration::ZERO,
        };
        return suggest_command(&Classifier::new("generic", Vec::new()).ok()?, &outcome);
    };
    let outcome = HttpOutcome {
        method: "POST",
        status: 500,
        headers: &[],
        body: Excerpt::whole(line.as_bytes()),
        reached: Reached::Answered,
        elapsed: Duration::ZERO,
    };
    suggest_http(&dependency.classifier, &outcome)
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
