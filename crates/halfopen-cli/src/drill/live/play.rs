//! Plays a scenario in real time: who calls when, what operators do when, until all of it is over.
//!
//! What waits for an instant waits until the journal says that it has come. What an operator does comes before everything
//! that is due later: the answer to a hold is waited for, so that "right after it" means after it. A row is over when
//! everything that was due has happened and no job is open; one of which nothing moves any more waits for instants that
//! do not come, which its checks then say.

use std::sync::Arc;
use std::time::{Duration, Instant};

use halfopen_core::event::State;
use halfopen_core::job::JobState;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::Class;
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::super::DrillError;
use super::super::quantity::{Quantity, QuantityError, span};
use super::super::scenario::{Act, Check, Deed, Group};
use super::super::spoken::Meaning;
use super::super::trace::{End, Seen, Sent, Trace};
use super::super::world::PlayError;
use super::calls;
use super::gateway::encoded;
use super::stage::Stage;

/// How often the journal is looked at where nobody asks for it.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often is looked whether jobs are open, when nothing else is.
const JOBS_EVERY: Duration = Duration::from_millis(250);
/// How long nothing moves before a row is over that still waits for something.
const IDLE_MAX: Duration = Duration::from_secs(6);
/// How long the journal may be behind at the end.
const LAST_ENTRIES: Duration = Duration::from_millis(300);
/// How often this process looks whether it is on time.
const PULSE: Duration = Duration::from_millis(25);

/// What is due.
#[derive(Clone, Debug)]
enum Due {
    /// The n-th call of a group begins.
    Begin(usize, usize),
    /// The calls of a group begin, each after the end of the one before.
    BeginRow(usize, usize, Duration),
    /// An operator does something.
    Act(usize),
    /// A check looks at the circuit.
    Look,
}

/// Something that is due at an instant, or so many seconds behind it.
#[derive(Clone, Debug)]
struct Planned {
    at: Quantity,
    plus: f64,
    what: Due,
}

/// Why a row could not be played to its end.
#[derive(Debug)]
pub(super) enum Broken {
    /// The scenario makes no sense.
    Scenario(PlayError),
    /// The gateway does not do its part.
    Gateway(DrillError),
}

impl From<PlayError> for Broken {
    fn from(error: PlayError) -> Self {
        Self::Scenario(error)
    }
}

impl From<QuantityError> for Broken {
    fn from(error: QuantityError) -> Self {
        Self::Scenario(error.into())
    }
}

impl From<DrillError> for Broken {
    fn from(error: DrillError) -> Self {
        Self::Gateway(error)
    }
}

/// Plays a row; it is broken off after `limit`.
pub(super) async fn play(stage: &Arc<Stage>, limit: Duration) -> Result<(), Broken> {
    let watching = tokio::spawn(watch(Arc::clone(stage)));
    let pulse = tokio::spawn(pulse(Arc::clone(stage)));
    let played = go_through(stage, limit).await;
    watching.abort();
    pulse.abort();
    played?;
    look_back(stage).await
}

async fn go_through(stage: &Arc<Stage>, limit: Duration) -> Result<(), Broken> {
    let began = Instant::now();
    let mut waiting = planned(stage)?;
    let mut calls = JoinSet::new();
    let mut moved = Instant::now();
    let mut seen = (0, 0);
    loop {
        let changed = stage.changed.notified();
        let mut changed = std::pin::pin!(changed);
        // Listened to before looking, so that nothing falls between the two.
        changed.as_mut().enable();
        while calls.try_join_next().is_some() {}
        if let Some(why) = stage.noted().trouble.clone() {
            return Err(DrillError::Gateway { code: crate::exit::IO, message: why, hint: None }.into());
        }
        if began.elapsed() > limit {
            stage.noted().trace.endless = true;
            return Ok(());
        }
        let progress = {
            let noted = stage.noted();
            (noted.trace.events.len(), noted.trace.sent.len())
        };
        if progress != seen {
            (seen, moved) = (progress, Instant::now());
        }
        let Some((index, at)) = earliest(stage, &waiting)? else {
            // Nothing is due at an instant that is known.
            if calls.is_empty() {
                let open = jobs_open(stage).await?;
                let idle = moved.elapsed() > IDLE_MAX;
                if open == 0 && (waiting.is_empty() || idle) {
                    return Ok(());
                }
                tokio::select! {
                    () = tokio::time::sleep(JOBS_EVERY) => {}
                    () = changed => {}
                }
            } else {
                tokio::select! {
                    Some(_) = calls.join_next() => moved = Instant::now(),
                    () = changed => {}
                    () = tokio::time::sleep(JOBS_EVERY) => {}
                }
            }
            continue;
        };
        let left = at - stage.elapsed();
        if left > 0.0 {
            moved = Instant::now();
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs_f64(left).min(LOOK_EVERY)) => {}
                () = changed => {}
            }
            continue;
        }
        let due = waiting.swap_remove(index).what;
        stage.note_late(span(-left), "a call or an operator");
        match due {
            Due::Begin(group, nth) => drop(calls.spawn(calls::one(Arc::clone(stage), group, nth))),
            Due::BeginRow(group, count, every) => {
                calls.spawn(calls::one_by_one(Arc::clone(stage), group, count, every));
            }
            Due::Act(index) => act(stage, &stage.scenario.acts[index]).await?,
            Due::Look => look(stage, at).await?,
        }
        moved = Instant::now();
    }
}

/// Returns which of what waits is due first, and when, in seconds from the beginning; of several the one that was written
/// first.
fn earliest(stage: &Stage, waiting: &[Planned]) -> Result<Option<(usize, f64)>, Broken> {
    let mut first: Option<(usize, f64)> = None;
    for (index, planned) in waiting.iter().enumerate() {
        let Some(at) = stage.known(&planned.at)? else { continue };
        let at = at + planned.plus;
        if first.is_none_or(|(_, earlier)| at < earlier) {
            first = Some((index, at));
        }
    }
    Ok(first)
}

fn planned(stage: &Stage) -> Result<Vec<Planned>, Broken> {
    let scenario = &stage.scenario;
    let mut planned = Vec::new();
    for (index, act) in scenario.acts.iter().enumerate() {
        planned.push(Planned { at: act.at.clone(), plus: 0.0, what: Due::Act(index) });
    }
    for check in &scenario.expect {
        if let Check::State { at, .. } = check {
            planned.push(Planned { at: at.clone(), plus: 0.0, what: Due::Look });
        }
    }
    for (index, group) in scenario.calls.iter().enumerate() {
        let count = count_of(stage, group)?;
        let at = group.at.clone().unwrap_or_else(Quantity::beginning);
        let every = match &group.every {
            Some(every) => stage.known(every)?.unwrap_or(0.0),
            None => 0.0,
        };
        if group.one_by_one {
            planned.push(Planned { at, plus: 0.0, what: Due::BeginRow(index, count, span(every)) });
            continue;
        }
        #[expect(clippy::cast_precision_loss, reason = "calls of one row are few")]
        planned.extend((0..count).map(|nth| Planned {
            at: at.clone(),
            plus: every * nth as f64,
            what: Due::Begin(index, nth),
        }));
    }
    Ok(planned)
}

/// Returns how many calls a group has.
fn count_of(stage: &Stage, group: &Group) -> Result<usize, Broken> {
    let Some(count) = &group.count else { return Ok(1) };
    let count = count.number(&stage.noted().names)?.unwrap_or(1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped first")]
    Ok(count.ceil().clamp(0.0, 1000.0) as usize)
}

/// Follows the journal: at once when something of ours has ended, else now and then.
async fn watch(stage: Arc<Stage>) {
    loop {
        if let Err(error) = stage.read_journal().await {
            return stage.note_trouble(error.to_string());
        }
        tokio::select! {
            () = stage.look.notified() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

/// Notes when this process does not get to run.
async fn pulse(stage: Arc<Stage>) {
    loop {
        let began = Instant::now();
        tokio::time::sleep(PULSE).await;
        stage.note_late(began.elapsed().saturating_sub(PULSE), "the drill itself");
    }
}

/// An operator holds the drilled circuit, or lets it go.
async fn act(stage: &Stage, act: &Act) -> Result<(), Broken> {
    let name = encoded(&stage.shadow.name);
    let lasting = match &act.by {
        Some(by) => by.seconds(&stage.noted().names)?,
        None => None,
    };
    let (verb, mut body) = match act.r#do {
        Deed::HoldOpen => ("hold", json!({ "state": "open", "reason": "a drill" })),
        Deed::HoldClosed => ("hold", json!({ "state": "closed", "reason": "a drill" })),
        Deed::Release => ("release", json!({ "reason": "a drill" })),
        Deed::StepWallClock | Deed::LoseStore | Deed::RestoreStore => {
            return Err(PlayError::Scenario("this is not done to a running gateway".to_owned()).into());
        }
    };
    if let (Some(lasting), "hold") = (lasting, verb) {
        body["for_sec"] = lasting.into();
    }
    stage.gateway.ask(Method::POST, &format!("/circuits/{name}/{verb}"), Some(&body)).await?;
    Ok(())
}

/// Notes what the drilled circuit shows at an instant.
async fn look(stage: &Stage, at: f64) -> Result<(), Broken> {
    let name = encoded(&stage.shadow.name);
    let list = stage.gateway.ask(Method::GET, &format!("/circuits?dependency={name}"), None).await?;
    let circuits = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let word = circuits.iter().find(|line| line["partition"].is_null()).and_then(|line| line["state"].as_str());
    let state = word
        .and_then(|word| [State::Closed, State::Open, State::HalfOpen].into_iter().find(|one| one.as_str() == word));
    stage.noted().trace.looks.push((stage.began + span(at), state));
    Ok(())
}

async fn jobs_of(stage: &Stage) -> Result<Vec<Value>, DrillError> {
    let name = encoded(&stage.shadow.name);
    let page = stage.gateway.ask(Method::GET, &format!("/jobs?dependency={name}&limit=1000"), None).await?;
    Ok(page["jobs"].as_array().cloned().unwrap_or_default())
}

/// Returns how many jobs are open whose end a check asks for; others end with the row.
async fn jobs_open(stage: &Stage) -> Result<usize, DrillError> {
    let awaited: Vec<String> = {
        let noted = stage.noted();
        let calls = noted.trace.calls.iter().filter(|call| is_awaited(stage, &call.group));
        calls.filter_map(|call| Some(call.job?.to_string())).collect()
    };
    if awaited.is_empty() {
        return Ok(0);
    }
    let open = |job: &&Value| {
        matches!(job["state"].as_str(), Some("queued" | "running"))
            && job["id"].as_str().is_some_and(|id| awaited.iter().any(|one| one == id))
    };
    Ok(jobs_of(stage).await?.iter().filter(open).count())
}

/// Returns whether a check asks what became of the jobs of a group.
fn is_awaited(stage: &Stage, group: &str) -> bool {
    stage.scenario.expect.iter().any(|check| match check {
        Check::Jobs { of, .. } | Check::Once(of) | Check::OldestFirst(of) => of == group,
        // One that may end queued has ended.
        Check::Ends { of, r#as } => of == group && !r#as.iter().any(|word| word == "on_open"),
        // It speaks of jobs of all groups.
        Check::Event { named, .. } => named.starts_with("jobs_past"),
        Check::Opens(_)
        | Check::OpensBecause(_)
        | Check::FailuresCounted(_)
        | Check::Sent(_)
        | Check::ProbesAtOnce(_)
        | Check::State { .. }
        | Check::Cooldown { .. }
        | Check::Class { .. }
        | Check::Attempts { .. }
        | Check::Sleeps { .. }
        | Check::Takes { .. }
        | Check::StartsPerSecond(_)
        | Check::JobsMade { .. }
        | Check::Told { .. }
        | Check::Partitions(_)
        | Check::CheapProbes(_)
        | Check::NoneTwice(_)
        | Check::ActivationLine { .. }
        | Check::StoreIs { .. } => false,
    })
}

/// Looks at what is left when nothing is due any more.
async fn look_back(stage: &Stage) -> Result<(), Broken> {
    stage.noted().trace.ended_at = stage.clock.now();
    note_late_requests(stage);
    // What was decided is written a moment after a caller has its answer.
    stage.read_journal().await?;
    tokio::time::sleep(LAST_ENTRIES).await;
    stage.read_journal().await?;
    let jobs = jobs_of(stage).await?;
    let may_be_refused = stage.scenario.dependency.iter().any(|answer| answer.answer == Meaning::NotReached);
    let mut refused = Vec::new();
    for job in &jobs {
        let Some(id) = job["id"].as_str().and_then(|id| id.parse::<halfopen_core::job::JobId>().ok()) else { continue };
        let call = {
            let mut noted = stage.noted();
            let mut of = None;
            for (number, call) in noted.trace.calls.iter_mut().enumerate().filter(|(_, call)| call.job == Some(id)) {
                call.job_state = job["state"].as_str().and_then(|word| word.parse::<JobState>().ok());
                if call.attempts == 0 {
                    call.class = job["last"]["class"].as_str().and_then(|word| word.parse().ok()).or(call.class);
                }
                of.get_or_insert(number);
            }
            of
        };
        if let (true, Some(call)) = (may_be_refused, call) {
            let told = stage.gateway.ask(Method::GET, &format!("/jobs/{id}"), None).await?;
            let history = told["history"].as_array().cloned().unwrap_or_default();
            let not_reached = history.iter().filter(|entry| entry["class"] == "connection_failure");
            refused.extend(not_reached.filter_map(|entry| Some((call, stage.instant(entry["at"].as_str()?)?))));
        }
    }
    let name = encoded(&stage.shadow.name);
    let circuits = stage.gateway.ask(Method::GET, &format!("/circuits?dependency={name}"), None).await?;
    let circuits = circuits.as_array().cloned().unwrap_or_default();
    let untold = |call: &Seen| call.class.is_none() && call.attempts > 0;
    let class = if stage.noted().trace.calls.iter().any(untold) { only_failure(stage).await? } else { None };
    let mut noted = stage.noted();
    let trace = &mut noted.trace;
    trace.calls.iter_mut().filter(|call| untold(call)).for_each(|call| call.class = class);
    trace.partitions = circuits.iter().filter(|line| !line["partition"].is_null()).count();
    if may_be_refused {
        // A connection that was refused is seen by nobody but the gateway, which says so.
        for call in 0..trace.calls.len() {
            let arrived = trace.sent_by(call).count();
            let (attempts, began_at) = (trace.calls[call].attempts as usize, trace.calls[call].began_at);
            let ended_at = trace.calls[call].ended.map_or(began_at, |(at, _)| at);
            refused.extend((arrived..attempts).map(|_| (call, ended_at)));
        }
    }
    trace.sent.extend(refused.into_iter().map(|(call, at)| Sent {
        at,
        call,
        probe: false,
        ended_at: Some(at),
        done: false,
    }));
    trace.sent.sort_by_key(|sent| sent.at);
    conclude(trace);
    Ok(())
}

/// Notes requests that came to the stand-in so late that their time was over, although it answered at once: that is this
/// machine's doing, and not the gateway's.
fn note_late_requests(stage: &Stage) {
    let late: Vec<Duration> = {
        let noted = stage.noted();
        let trace = &noted.trace;
        let too_late = |(call, seen): (usize, &Seen)| {
            let (ended_at, end) = seen.ended?;
            let timed_out = end == End::Unknown || seen.class == Some(Class::Timeout);
            let came_at = trace.sent_by(call).next().map_or(ended_at, |sent| sent.at);
            (timed_out && !noted.kept_waiting.contains(&call)).then(|| seen.began_at.until(came_at))
        };
        trace.calls.iter().enumerate().filter_map(too_late).collect()
    };
    late.into_iter().for_each(|by| stage.note_late(by, "a request to the stand-in"));
}

/// Returns what failed attempts were judged as, if all of them were judged alike: the caller of a call that was queued is not
/// told what its attempt was, and the figures say it.
async fn only_failure(stage: &Stage) -> Result<Option<Class>, DrillError> {
    let metrics = stage.gateway.text("/metrics").await?;
    let begins = format!("halfopen_attempts_total{{dependency=\"{}\",class=\"", stage.shadow.name);
    let counted = metrics.lines().filter_map(|line| {
        let (class, count) = line.strip_prefix(begins.as_str())?.split_once("\"}")?;
        Some((class.parse::<Class>().ok()?, count.trim().parse::<f64>().ok()?))
    });
    let mut failed = counted.filter(|(class, count)| *class != Class::Success && *count > 0.0).map(|(class, _)| class);
    Ok(failed.next().filter(|_| failed.next().is_none()))
}

/// Adds what follows from what was seen: which attempts were probes, how long calls waited, in which order jobs came.
fn conclude(trace: &mut Trace) {
    let rounds = half_open(&trace.events);
    for sent in &mut trace.sent {
        sent.probe = rounds.iter().any(|(from, to)| *from <= sent.at && to.is_none_or(|to| sent.at <= to));
    }
    for call in 0..trace.calls.len() {
        let (began_at, ended) = (trace.calls[call].began_at, trace.calls[call].ended);
        let Some((ended_at, _)) = ended else { continue };
        // A job's attempts come after its caller has been answered.
        let mut free_at = began_at;
        let mut slept = Duration::ZERO;
        for sent in trace.sent_by(call).filter(|sent| sent.at <= ended_at) {
            slept = slept.max(free_at.until(sent.at));
            free_at = sent.ended_at.unwrap_or(ended_at).min(ended_at);
        }
        trace.calls[call].slept = slept.max(free_at.until(ended_at));
    }
    in_order(trace);
}

/// Returns the spans in which the breaker was half-open.
fn half_open(events: &[EventRecord]) -> Vec<(Timestamp, Option<Timestamp>)> {
    let mut rounds: Vec<(Timestamp, Option<Timestamp>)> = Vec::new();
    for event in events.iter().filter(|event| event.partition.is_none()) {
        let at = Timestamp::from_millis(event.at_ms);
        match event.event.as_str() {
            "half_opened" => rounds.push((at, None)),
            "tripped" | "recovered" | "reset" => {
                if let Some((_, to @ None)) = rounds.last_mut() {
                    *to = Some(at);
                }
            }
            _ => {}
        }
    }
    rounds
}

/// Puts calls that became jobs into the order in which they were accepted: that, and not the order in which this process
/// began them, is the order that a queue keeps.
fn in_order(trace: &mut Trace) {
    let mut order: Vec<usize> = (0..trace.calls.len()).collect();
    order.sort_by_key(|call| (trace.calls[*call].job.map_or(0, |id| id.seq), *call));
    let mut new_of = vec![0; order.len()];
    for (new, old) in order.iter().enumerate() {
        new_of[*old] = new;
    }
    trace.calls = order.iter().map(|old| trace.calls[*old].clone()).collect();
    trace.sent.iter_mut().for_each(|sent| sent.call = new_of[sent.call]);
}
