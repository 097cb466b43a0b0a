//! Shows one circuit: its state and why, what comes next, its states over time, its queue, its journal, its rules.

use askama::Template;
use halfopen::handle::CircuitView;
use halfopen_core::circuit::Wake;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::event::State;
use halfopen_core::snapshot::EventRecord;

use super::super::problem::{Kind, Problem};
use super::look::Look;
use super::overview::{badges, drawing, queue, ranges};
use super::page::{Fragment, Link, Rendered, markup};
use super::policy::{Rules, rules_of};
use super::say::{Moment, Say, fill};
use super::timeline::Range;
use super::view::{Act, Steer, View};
use super::words::Words;
use crate::serve::api::{shown, unreadable};

/// How many entries of the journal are shown, and among how many they are looked for.
const ENTRIES_MAX: usize = 40;
const LOOKED_AT_MAX: usize = 1_000;

#[derive(Template)]
#[template(path = "dashboard/circuit_head.html")]
struct Head<'a> {
    w: &'a Words,
    name: String,
    badges: String,
    actions: Vec<Link>,
    runbook: Option<String>,
    facts: Vec<Fact>,
}

/// Something that is known, with its instant and its evidence.
#[derive(Debug, Default)]
struct Fact {
    name: &'static str,
    text: String,
    at: Option<Moment>,
    evidence: Option<String>,
}

#[derive(Template)]
#[template(path = "dashboard/circuit_timeline.html")]
struct Over<'a> {
    w: &'a Words,
    ranges: Vec<Link>,
    timeline: String,
    queue: Option<String>,
}

#[derive(Template)]
#[template(path = "dashboard/journal.html")]
struct JournalTemplate<'a> {
    w: &'a Words,
    entries: Vec<Entry>,
}

struct Entry {
    kind: &'static str,
    at: Moment,
    text: String,
    change: Option<String>,
}

/// Renders a circuit.
pub(super) fn render(look: &Look<'_>, id: &str, range: Range) -> Result<Rendered, Problem> {
    let (say, w) = (&look.say, look.say.w);
    let (view, wake) = found(look, id)?;
    let dependency = view.id.dependency().to_owned();
    let policy = look.gateway.policy_of(&dependency);
    let name = view.id.to_string();
    let since = say.when.now - Range::Week.span() * 5;
    let journal = look.read_journal(&dependency, since, LOOKED_AT_MAX).unwrap_or_default();
    let own = journal.of(&view.id);
    let progress = look.progress(&[(view.clone(), wake)]);
    let acts = [(Steer::Hold, w.hold), (Steer::Release, w.release), (Steer::Reset, w.reset)];
    let held = view.status.hold.is_some();
    let actions = acts.into_iter().filter(|(steer, _)| {
        // A release is of use where something is held, or a cooldown could end sooner.
        *steer != Steer::Release || held || view.status.state == State::Open
    });
    let actions = actions.map(|(steer, text)| Link {
        text: if steer == Steer::Release && !held { w.probe_now_short } else { text }.to_owned(),
        href: Act::Steer(steer, name.clone()).path(),
        here: false,
    });
    let head = Head {
        w,
        badges: badges(&view.status, &policy, &name, say)?,
        actions: actions.collect(),
        runbook: policy.runbook.clone().filter(|url| url.starts_with("https://") || url.starts_with("http://")),
        facts: facts(look, &view, wake),
        name: name.clone(),
    };
    let over = Over {
        w,
        ranges: ranges(range, |range| View::Circuit(name.clone(), range)),
        timeline: drawing(look, &view, range)?,
        queue: queue(look, &dependency, progress.get(&dependency), range)?,
    };
    let entries: Vec<Entry> = own.iter().rev().take(ENTRIES_MAX).map(|event| entry(event, say)).collect();
    let said = own.iter().rev().find(|event| event.from_state != event.to_state);
    let said = said.map(|event| format!("{name}: {}", say.event(event)));
    let title = fill(w.rules_of, &[("dependency", &dependency)]);
    let rules = Rules { anchor: "rules".to_owned(), title, groups: rules_of(look, &dependency) };
    Ok(Rendered {
        title: name,
        said,
        fragments: vec![
            Fragment::new("head", markup(&head)?),
            Fragment::new("over", markup(&over)?),
            Fragment::new("journal", markup(&JournalTemplate { w, entries })?),
            Fragment::new("rules", markup(&rules)?),
        ],
    })
}

/// Returns the circuit of a name. One of a dependency of the policy may be looked at before anything is known of it.
pub(super) fn found(look: &Look<'_>, name: &str) -> Result<(CircuitView, Option<Wake>), Problem> {
    let none = || Problem::new(Kind::NotFound, format!("No circuit is named `{}`.", shown(name)));
    let id: CircuitId = name.parse().map_err(|_| none())?;
    if let Some(found) = look.circuits()?.into_iter().find(|(view, _)| view.id == id) {
        return Ok(found);
    }
    // Those of alert channels stand on no list, and are linked from the alerts.
    let policy = look.gateway.policy_of(id.dependency());
    if let Some(view) = look.handle.circuit(&id, &policy).map_err(unreadable)? {
        return Ok((view, None));
    }
    let known = look.gateway.live().dependency(id.dependency()).ok_or_else(none)?;
    Ok((look.blank(id, &known.policy), None))
}

fn facts(look: &Look<'_>, view: &CircuitView, wake: Option<Wake>) -> Vec<Fact> {
    let (say, w) = (&look.say, look.say.w);
    let status = &view.status;
    let policy = look.gateway.policy_of(view.id.dependency());
    let fact = |name, text: String| Fact { name, text, ..Fact::default() };
    let mut facts = Vec::new();
    let since = (status.since.as_millis() > 0).then(|| say.moment(status.since));
    facts.push(Fact { name: w.state, text: say.state(status.state).to_owned(), at: since, evidence: None });
    facts.push(fact(w.why, say.why(status, &policy)));
    facts.push(fact(w.calls_now, say.fate(status, &policy)));
    let (next, at) = say.next(status, &policy, wake);
    facts.push(Fact { name: w.next, text: next, at: at.map(|at| say.moment(at)), evidence: None });
    if let Some(hold) = &status.hold {
        let reason = if hold.by.reason.is_empty() { w.no_reason } else { hold.by.reason.as_str() };
        let text = format!("{} · {}: {reason}", say.state(hold.state), hold.by.who);
        facts.push(Fact { name: w.held, text, at: hold.until.map(|at| say.moment(at)), evidence: None });
    }
    let window = say.exact(policy.circuit.window);
    let n = policy.circuit.open_after_failures.to_string();
    let count = status.failures_in_window.to_string();
    facts.push(fact(w.failures, fill(w.n_of_m_within, &[("failures", &count), ("n", &n), ("window", &window)])));
    if status.state == State::HalfOpen {
        let (out, good) = (status.probes_in_flight.to_string(), status.probe_successes.to_string());
        let m = policy.circuit.close_after_successes.to_string();
        facts.push(fact(w.probes, fill(w.probes_now, &[("out", &out), ("good", &good), ("m", &m)])));
    }
    if status.escalation > 0 {
        facts.push(fact(w.escalation, fill(w.escalation_about, &[("n", &status.escalation.to_string())])));
    }
    if let Some(rate) = status.ramp_per_sec {
        facts.push(fact(w.ramp, fill(w.ramp_about, &[("rate", &rate.to_string())])));
    }
    if status.waiting > 0 {
        facts.push(fact(w.callers_waiting, status.waiting.to_string()));
    }
    if let Some(last) = &status.last_failure {
        let hint = last.hint_wait.map(|wait| fill(w.hint_stated, &[("span", &say.exact(wait))]));
        let text = [Some(say.class(last.class).to_owned()), Some(last.rule.clone()), hint];
        let text: Vec<String> = text.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        let evidence = (!last.excerpt.is_empty()).then(|| last.excerpt.clone());
        let at = Some(say.moment(last.at));
        facts.push(Fact { name: w.last_failure, text: text.join(" · "), at, evidence });
        if let Some(key) = &last.narrower {
            facts.push(fact(w.advice, fill(w.split_advice, &[("key", key)])));
        }
    }
    if let Some(owner) = policy.owner {
        facts.push(fact(w.owner, owner));
    }
    facts
}

fn entry(event: &EventRecord, say: &Say) -> Entry {
    let changes = event.from_state != event.to_state;
    let kind = match (changes, event.to_state.as_str()) {
        (true, "open") => "open",
        (true, "half_open") => "half-open",
        (true, _) => "closed",
        (false, _) => "plain",
    };
    let change =
        changes.then(|| format!("{} → {}", say.state_named(&event.from_state), say.state_named(&event.to_state)));
    Entry { kind, at: say.moment_ms(event.at_ms), text: say.event(event), change }
}
