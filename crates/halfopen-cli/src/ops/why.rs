//! `halfopen why CIRCUIT`: what happened, on which evidence, when it changes, what to do.

use std::fmt::Write as _;

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen_core::circuit::{LastFailure, Status};
use halfopen_core::event::State;
use halfopen_core::policy::Policy;
use halfopen_core::time::Timestamp;

use super::place::{self, Place};
use super::remote::{At, Remote, encoded};
use super::{Done, OK, out};
use crate::args::Shared;
use crate::shown::{Told, When, fate, next_step, state_word};
use crate::{duration, ui};

/// Arguments of `halfopen why`.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// The circuit; without @ all circuits of that dependency
    #[arg(value_name = "CIRCUIT")]
    pub circuit: String,
    /// Print a JSON list
    #[arg(long, env = "HALFOPEN_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Which gateway is asked, if one is.
    #[command(flatten)]
    pub at: At,
}

pub(super) fn run(shared: &Shared, args: &WhyArgs) -> Done {
    if let Some(gateway) = Remote::named(&args.at)? {
        return of_gateway(&gateway, args);
    }
    let place = Place::find(shared)?;
    let handle = place.open()?;
    let circuits = place.named(&handle, &args.circuit)?;
    let when = place::when(&handle);
    let mut told = Vec::new();
    for view in circuits {
        let policy = place.policy(view.id.dependency());
        told.push(Told::look_up(&handle, view, policy).map_err(place::store_failure)?);
    }
    if args.json {
        out::json(&told.iter().map(|told| told.document(&when)).collect::<Vec<_>>())?;
        return OK;
    }
    tell(&told, &when)
}

/// Explains the circuits of a running gateway.
fn of_gateway(gateway: &Remote, args: &WhyArgs) -> Done {
    let target = format!("/circuits/{}", encoded(&args.circuit));
    if args.json {
        out::text(&gateway.get(&target)?)?;
        return OK;
    }
    let when = When::of_reader();
    let told: Result<Vec<Told>, String> =
        gateway.list(&target)?.into_iter().map(|document| Told::read(document, &when)).collect();
    tell(&told.map_err(|why| gateway.strange(&why))?, &when)
}

/// Explains circuits to a person.
fn tell(told: &[Told], when: &When) -> Done {
    let texts: Vec<String> = told.iter().map(|told| as_text(told, when)).collect();
    out::text(&texts.join("\n"))?;
    for Told { view, policy, .. } in told {
        if let Some(step) = next_step(view, policy, when) {
            ui::raw(&format!("\nhint: {step}\n"));
        }
    }
    OK
}

fn as_text(told: &Told, when: &When) -> String {
    let Told { view, policy, events } = told;
    let status = &view.status;
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{:<14}{value}", format!("{name}:"));
    };
    line("circuit", &view.id.to_string());
    match status.since.as_millis() {
        // A circuit that never changed has no beginning.
        ..=0 => line("state", state_word(status.state)),
        _ => line("state", &format!("{} since {}", state_word(status.state), when.both(status.since))),
    }
    if let Some(reason) = status.reason {
        line("opened", &because(reason, status, policy));
    }
    line("calls now", &fate(status, policy, when));
    if let Some(hold) = &status.hold {
        let until =
            hold.until.map_or_else(|| "until it is released".to_owned(), |at| format!("until {}", when.both(at)));
        let reason = if hold.by.reason.is_empty() { "no reason given" } else { &hold.by.reason };
        line("hold", &format!("{} by {}, {until}: {reason}", state_word(hold.state), hold.by.who));
    }
    if let Some(at) = status.throttled_until.filter(|at| *at > when.now) {
        line("asked to wait", &format!("until {}", when.both(at)));
    }
    if let (State::Open, Some(at)) = (status.state, status.open_until) {
        line("next probe", &when.both(at));
    }
    let window = duration::show(policy.circuit.window);
    let n = policy.circuit.open_after_failures;
    line("failures", &format!("{} of {n} within {window}", status.failures_in_window));
    if status.escalation > 0 {
        let rounds = if status.escalation == 1 { "round" } else { "rounds" };
        line("escalation", &format!("{} {rounds} of probes failed, so the cooldown is longer", status.escalation));
    }
    if let Some(rate) = status.ramp_per_sec {
        line("ramp", &format!("what was held back returns at {rate} starts a second"));
    }
    if status.waiting > 0 {
        line("waiting", &status.waiting.to_string());
    }
    match &status.last_failure {
        None => line("last failure", "none known"),
        Some(last) => {
            line("last failure", &format!("{}, {}", last.class, when.both(last.at)));
            line("  rule", &last.rule);
            line("  evidence", &evidence(last));
            match last.hint_wait {
                Some(wait) => line("  hint", &format!("wait {}", duration::show(wait))),
                None => line("  hint", "none was stated"),
            }
            if let Some(key) = &last.narrower {
                line("  covers", &format!("only one {key}, which `split_by: [{key}]` would judge apart"));
            }
        }
    }
    if let Some(owner) = &policy.owner {
        line("owner", owner);
    }
    if let Some(runbook) = &policy.runbook {
        line("runbook", runbook);
    }
    for (index, event) in events.iter().enumerate() {
        let at = Timestamp::from_millis(event.at_ms);
        let reason = event.reason.as_deref().map_or_else(String::new, |reason| format!(" ({reason})"));
        let name = if index == 0 { "history" } else { "" };
        let name = if name.is_empty() { String::new() } else { format!("{name}:") };
        let _ = writeln!(text, "{name:<14}{} {} → {}{reason}", when.local(at), event.from_state, event.to_state);
    }
    text
}

/// Says why a breaker opened, with the figures that made it.
fn because(reason: &str, status: &Status, policy: &Policy) -> String {
    match reason {
        "failures" => {
            format!("{} failures within {}", policy.circuit.open_after_failures, duration::show(policy.circuit.window))
        }
        "long_wait" => format!("a wait was stated that is longer than {}", duration::show(policy.retry.max_wait)),
        "quota_exhausted" => "the allowance is used up, which time alone does not refill".to_owned(),
        "probe_failed" => match &status.last_failure {
            Some(last) => format!("a probe failed ({})", last.class),
            None => "a probe failed".to_owned(),
        },
        "probe_stalled" => "a probe made no progress".to_owned(),
        "probes_inconclusive" => "probe after probe ended without saying anything about the dependency".to_owned(),
        other => other.replace('_', " "),
    }
}

fn evidence(last: &LastFailure) -> String {
    match (last.place.as_str(), last.excerpt.as_str()) {
        ("", "") => "none".to_owned(),
        ("", excerpt) => excerpt.to_owned(),
        (place, "") => place.to_owned(),
        (place, excerpt) => format!("{place}: {excerpt}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use halfopen_core::circuit::Hold;
    use halfopen_core::event::By;
    use halfopen_core::policy::Surface;
    use halfopen_core::snapshot::EventRecord;
    use halfopen_core::verdict::Class;

    use super::*;
    use crate::ops::status::tests::{closed, view};
    use crate::shown::when::tests::tokyo;

    fn open() -> Status {
        let when = tokyo();
        Status {
            state: State::Open,
            open_until: Some(when.now + Duration::from_secs(7_320)),
            reason: Some("long_wait"),
            since: when.now - Duration::from_secs(600),
            generation: 3,
            failures_in_window: 1,
            last_failure: Some(LastFailure {
                at: when.now - Duration::from_secs(600),
                class: Class::UsageLimit,
                rule: "claude-code/usage-limit".to_owned(),
                place: "stdout, last line".to_owned(),
                excerpt: "You've hit your limit · resets 12:02am (Asia/Tokyo)".to_owned(),
                hint_wait: Some(Duration::from_secs(7_920)),
                narrower: None,
            }),
            ..closed()
        }
    }

    fn shown(status: Status, policy: &Policy) -> String {
        let view = view("claude@credential=main", status);
        let event = EventRecord {
            at_ms: (tokyo().now - Duration::from_secs(600)).as_millis(),
            event: "tripped".to_owned(),
            dependency: "claude".to_owned(),
            partition: Some("credential=main".to_owned()),
            from_state: "closed".to_owned(),
            to_state: "open".to_owned(),
            generation: 3,
            reason: Some("long_wait".to_owned()),
            queued_count: None,
            probe_result: None,
            details: serde_json::Map::new(),
        };
        let step = next_step(&view, policy, &tokyo()).unwrap_or_default();
        let told = Told { view, policy: policy.clone(), events: vec![event] };
        let (json, text) = (told.document(&tokyo()), as_text(&told, &tokyo()));
        let read = Told::read(json.clone(), &tokyo()).unwrap();
        assert_eq!((read.document(&tokyo()), as_text(&read, &tokyo())), (json.clone(), text.clone()));
        format!("{text}\nhint: {step}\n\n{json:#}")
    }

    #[test]
    fn an_open_circuit_is_explained_by_its_evidence() {
        insta::assert_snapshot!(shown(open(), &Policy::built_in("claude", Surface::Run)));
    }

    #[test]
    fn a_held_circuit_names_who_holds_it_and_a_narrow_hint_its_remedy() {
        let mut policy = Policy::built_in("claude", Surface::Run);
        policy.owner = Some("me".to_owned());
        policy.runbook = Some("https://wiki.example.com/claude".to_owned());
        let hold = Hold {
            state: State::Open,
            until: Some(tokyo().now + Duration::from_secs(3_600)),
            by: By { who: "marie (uid 1000)".to_owned(), reason: "provider announced maintenance".to_owned() },
        };
        let status = open();
        let last = status.last_failure.clone().map(|last| LastFailure { narrower: Some("model".to_owned()), ..last });
        insta::assert_snapshot!(shown(Status { hold: Some(hold), last_failure: last, ..status }, &policy));
    }

    #[test]
    fn each_state_has_its_next_step() {
        let policy = Policy::built_in("a", Surface::Run);
        let step = |status: Status| next_step(&view("a", status), &policy, &tokyo());
        assert_eq!(step(closed()), None);
        let throttled = Status { throttled_until: Some(tokyo().now + Duration::from_secs(9)), ..closed() };
        assert!(step(throttled).is_some_and(|step| step.contains("halfopen reset a")));
        let quota = Status { reason: Some("quota_exhausted"), ..open() };
        assert!(step(quota).is_some_and(|step| step.starts_with("top up")));
        let half = Status { state: State::HalfOpen, open_until: None, ..open() };
        assert!(step(half).is_some_and(|step| step.contains("probes")));
    }
}
