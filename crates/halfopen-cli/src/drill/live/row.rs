//! Plays one row at the gateway and says what became of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use halfopen_core::time::Timestamp;
use tokio::sync::Semaphore;

use super::super::expect::{Finding, Looker, Slack};
use super::super::mechanisms::Mechanisms;
use super::super::quantity::{Names, filled};
use super::super::row::{Row, RowVerdict};
use super::super::scenario::{Crew, Kept, Scenario};
use super::super::trace::Trace;
use super::super::world::{PlayError, World};
use super::super::{DrillError, played_wrong};
use super::fit::unfit;
use super::play::{Broken, play};
use super::stage::{Shadow, Stage};
use super::standin::{Place, stand_in};
use super::{AT_ONCE, House, SLACK, no_port};
use crate::duration::show;

/// A row that takes longer than this in virtual time is not played in real time.
const LASTS_MAX: Duration = Duration::from_secs(60);
/// How much longer than in virtual time a row may take: the half, and so much.
const LONGER: Duration = Duration::from_secs(20);
/// What happens later than this after it was due shows that the machine is too slow.
const LATE_MAX: Duration = Duration::from_millis(400);
/// How many workers are taken to work off what is queued: a gateway has always some.
const WORKERS: &str = "4";

/// A row with more calls than this is played alone.
const HERD: usize = 100;

/// What a row was in virtual time.
#[derive(Clone, Copy, Debug)]
struct Before {
    /// How long it takes until everything that is looked at has happened.
    lasts: Duration,
    /// How many calls it has.
    calls: usize,
}

/// What a row is without being played.
struct Untold<'a> {
    scenario: &'a Scenario,
    injected: String,
}

impl Untold<'_> {
    fn not_for(&self, why: &str) -> Row {
        Row {
            row: self.scenario.row.clone(),
            injected: self.injected.clone(),
            expected: format!("n/a: {why}"),
            seen: String::new(),
            verdict: RowVerdict::NotApplicable,
            virtual_s: 0.0,
        }
    }
}

/// Plays a row when there is a seat for it.
///
/// # Errors
///
/// If the scenario makes no sense, or the gateway does not do its part.
pub(super) async fn played(house: &Arc<House>, scenario: Arc<Scenario>, seats: &Semaphore) -> Result<Row, DrillError> {
    let names = house.rehearsal.names();
    let wrong = |error: PlayError| played_wrong(&error);
    let fill = |text: &str| filled(text, &names).map_err(|error| wrong(error.into()));
    let untold = Untold { scenario: &scenario, injected: fill(&scenario.injected)? };
    if let Some(why) = unfit(&scenario) {
        return Ok(untold.not_for(why));
    }
    if let Some(why) = scenario.not_for(&house.rehearsal, &names).map_err(|error| wrong(error.into()))? {
        return Ok(untold.not_for(&why));
    }
    let expected = fill(&scenario.expected)?;
    let before = match rehearsed(house, &scenario).await? {
        Ok(before) if before.lasts > LASTS_MAX => {
            let (lasts, by) = (show(before.lasts), house.shorten);
            return Ok(untold.not_for(&format!("it takes {lasts}, although durations are divided by {by:.0}")));
        }
        Ok(before) => before,
        Err(why) => {
            let by = house.shorten;
            return Ok(untold.not_for(&format!("divided by {by:.0}, the policy does not show it: {why}")));
        }
    };
    // What comes in a herd is played alone: beside others it would be late by their doing.
    let wants = if before.calls > HERD { AT_ONCE } else { 1 };
    let wants = u32::try_from(wants).unwrap_or(1);
    let Ok(_seats) = seats.acquire_many(wants).await else {
        return Err(DrillError::Io("the drill is over".to_owned()));
    };
    let limit = before.lasts.mul_f64(1.5) + LONGER;
    let (stage, played) = at_the_gateway(house, Arc::clone(&scenario), limit).await?;
    match played {
        Ok(()) => {}
        Err(Broken::Scenario(error)) => return Err(wrong(error)),
        Err(Broken::Gateway(error)) => return Err(error),
    }
    let noted = stage.noted();
    let (late, what) = &noted.late;
    let by = late.as_secs_f64();
    // A stated wait is counted from the answer, and written down a moment later.
    let slack = Slack {
        begins: SLACK.begins + by,
        ceases: SLACK.ceases + by,
        shorter: SLACK.shorter + by,
        longer: SLACK.longer + by,
        ..SLACK
    };
    let looked = looked_at(house, &scenario, (&noted.trace, &noted.names, stage.began), slack).map_err(wrong)?;
    let was_late = *late > LATE_MAX;
    if was_late && (looked.good == Good::No || what.starts_with("a call")) {
        return Ok(untold.not_for(&format!("too slow here: {what} came {} late", show(*late))));
    }
    Ok(Row {
        row: scenario.row.clone(),
        injected: untold.injected,
        expected,
        seen: looked.seen,
        verdict: match looked.good {
            Good::Yes => RowVerdict::Pass,
            Good::No => RowVerdict::Fail,
        },
        virtual_s: stage.began.until(noted.trace.ended_at).as_secs_f64(),
    })
}

/// Plays a row at shadows of its own, and ends them.
async fn at_the_gateway(
    house: &House,
    scenario: Arc<Scenario>,
    limit: Duration,
) -> Result<(Arc<Stage>, Result<(), Broken>), DrillError> {
    let place = Arc::new(Place::take().map_err(|error| no_port(&error))?);
    let lasts = limit + LONGER;
    let begun = house.shadow(&place, lasts).await?;
    let mut others: BTreeMap<String, Shadow> = BTreeMap::new();
    for name in scenario.calls.iter().filter_map(|group| group.dependency.as_ref()) {
        if !others.contains_key(name) {
            match house.shadow(&place, lasts).await {
                Ok(other) => drop(others.insert(name.clone(), other.shadow)),
                Err(error) => {
                    end_all(house, &begun.shadow, &others).await;
                    return Err(error);
                }
            }
        }
    }
    let shadows = (begun.shadow.clone(), others.clone());
    let (rehearsal, gateway) = (Arc::clone(&house.rehearsal), Arc::clone(&house.gateway));
    let stage = Arc::new(Stage::set(scenario, rehearsal, gateway, shadows, begun.clock));
    let standing = tokio::spawn(stand_in(place, Arc::clone(&stage)));
    let played = play(&stage, limit).await;
    standing.abort();
    end_all(house, &begun.shadow, &others).await;
    Ok((stage, played))
}

async fn end_all(house: &House, shadow: &Shadow, others: &BTreeMap<String, Shadow>) {
    house.end(shadow).await;
    for other in others.values() {
        house.end(other).await;
    }
}

/// Plays a row in virtual time, under the policy that its shadow is under; returns what it was, or why the policy does not
/// show it.
async fn rehearsed(house: &Arc<House>, scenario: &Arc<Scenario>) -> Result<Result<Before, String>, DrillError> {
    let (house, mut scenario) = (Arc::clone(house), Scenario::clone(scenario));
    // What a running gateway has is what is rehearsed: one process, workers from the beginning, the policy's attempts.
    scenario.store = Kept::Memory;
    scenario.calls.iter_mut().for_each(|group| group.attempts = None);
    let count = super::super::quantity::Quantity::read(WORKERS).ok();
    scenario.workers = vec![Crew { count, at: None, fate: None }];
    let playing = move || -> Result<Result<Before, String>, PlayError> {
        let (trace, names, began) = World::play(&house.rehearsal, &scenario, Mechanisms::default())?;
        let exact = Slack { done_later: true, ..Slack::default() };
        let looked = looked_at(&house, &scenario, (&trace, &names, began), exact)?;
        Ok(match looked.good {
            Good::No => Err(looked.seen),
            Good::Yes => Ok(Before { lasts: began.until(settled_at(&trace)), calls: trace.calls.len() }),
        })
    };
    match tokio::task::spawn_blocking(playing).await {
        Ok(played) => played.map_err(|error| played_wrong(&error)),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(DrillError::Io("the drill was broken off".to_owned())),
        },
    }
}

/// Returns when the last thing happened that anybody looks at: what is due after it changes nothing.
fn settled_at(trace: &Trace) -> Timestamp {
    let calls = trace.calls.iter().filter_map(|call| Some(call.ended?.0));
    let sent = trace.sent.iter().map(|sent| sent.ended_at.unwrap_or(sent.at));
    let events = trace.events.iter().map(|event| Timestamp::from_millis(event.at_ms));
    let looks = trace.looks.iter().map(|(at, _)| *at);
    calls.chain(sent).chain(events).chain(looks).max().unwrap_or(trace.ended_at)
}

/// Whether all was as expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Good {
    Yes,
    No,
}

struct Looked {
    good: Good,
    seen: String,
}

fn looked_at(
    house: &House,
    scenario: &Scenario,
    (trace, names, began): (&Trace, &Names, Timestamp),
    slack: Slack,
) -> Result<Looked, PlayError> {
    let looker = Looker::new(trace, names, began, house.rehearsal.policy.on_open.on_expiry).with_slack(slack);
    let mut found = scenario.expect.iter().map(|check| looker.found(check)).collect::<Result<Vec<_>, _>>()?;
    found.extend(trace.endless.then(Finding::endless));
    let good = found.iter().all(|finding| finding.good);
    let shown = found.iter().filter(|finding| finding.good == good).map(|finding| finding.seen.as_str());
    Ok(Looked { good: if good { Good::Yes } else { Good::No }, seen: shown.collect::<Vec<_>>().join("; ") })
}
