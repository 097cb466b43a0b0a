//! Drills a running gateway: `halfopen drill --live`.
//!
//! The other drill shows what a policy does; that the process which runs tonight does it too is shown here. The gateway makes
//! a shadow of a dependency for each row ([`super::super::serve`] has the other half, `POST /drills`): its own policy,
//! shortened, through its own dispatch, door, store, connections and worker, in front of a stand-in of ours. The same
//! scenarios are played in real time ([`play`]) and looked at by the same checks; what is known of the gateway is what
//! anybody sees of it: its answers, its journal, and what reaches the dependency.
//!
//! A row is first played in virtual time, under the policy that the shadow is under. What is red there would be red here,
//! and says nothing about the gateway: shortened values can make a row senseless (a time to live shorter than a cooldown),
//! and it is n/a with that reason. So is one that takes too long, and one for which this machine was too slow, because a
//! drill that is red by chance is not looked at twice. What cannot be done to a gateway from outside is left out with a
//! reason ([`fit`]).
//!
//! Checks of instants and durations allow for what a machine takes ([`SLACK`], and by how much it was late while the row was
//! played); nothing else is let through.

mod calls;
mod fit;
mod gateway;
mod own;
mod play;
mod row;
mod stage;
mod standin;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use halfopen::config::{Config, ConfigError, Demand};
use halfopen_core::policy::{Mode, Surface};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::expect::Slack;
use super::rehearsal::Rehearsal;
use super::report::Drilled;
use super::row::Row;
use super::scenario::Scenario;
use super::{DrillArgs, DrillError};
use crate::{exit, ui};
use gateway::{Gateway, encoded};
use stage::{Clock, Shadow};
use standin::Place;

/// By how much what was seen may miss what a scenario says.
pub(super) const SLACK: Slack =
    Slack { begins: 0.1, ceases: 0.1, late: 0.4, shorter: 0.05, longer: 0.4, done_later: true };
/// The rows that no scenario plays.
pub(super) const OWN: [&str; 2] = [own::FIGURES, own::UNTOUCHED];
/// How many rows are played at once.
const AT_ONCE: usize = 6;
/// How long a shadow may last that no row is played at.
const OWN_LAST: Duration = Duration::from_secs(60);
/// How long a gateway lets a shadow last at most, in seconds.
const LASTS_MAX_SEC: u64 = 900;
/// How many times shorter a time is at least that a scenario writes.
const WRITTEN_SHORTER: f64 = 60.0;

/// What all rows of one dependency share.
#[derive(Debug)]
struct House {
    gateway: Arc<Gateway>,
    dependency: String,
    /// The policy that its shadows are under.
    rehearsal: Arc<Rehearsal>,
    /// That policy as the gateway writes it, without the address of the stand-in.
    written: Value,
    shorten: f64,
    /// Whether the gateway only watches.
    observes: bool,
    /// The shadows that have begun and not ended.
    begun: Mutex<BTreeSet<String>>,
}

/// A shadow that has begun; whoever holds it ends it.
#[derive(Debug)]
struct Begun {
    shadow: Shadow,
    shorten: f64,
    clock: Clock,
    policy: Value,
}

/// Drills the dependencies of a running gateway.
///
/// # Errors
///
/// If there is no gateway, if it does not allow it, or if a scenario makes no sense.
pub(super) fn drilled(args: &DrillArgs, scenarios: Vec<Scenario>) -> Result<Vec<Drilled<Row>>, DrillError> {
    let gateway = Gateway::of(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| DrillError::Io(format!("no thread can be started: {error}")))?;
    runtime.block_on(all(args, Arc::new(gateway), scenarios))
}

async fn all(
    args: &DrillArgs,
    gateway: Arc<Gateway>,
    scenarios: Vec<Scenario>,
) -> Result<Vec<Drilled<Row>>, DrillError> {
    let known = gateway.ask(Method::GET, "/drills", None).await?;
    let known: Vec<String> = known["dependencies"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|name| Some(name.as_str()?.to_owned()))
        .collect();
    let wanted = match &args.dep {
        None => known.clone(),
        Some(name) if known.contains(name) => vec![name.clone()],
        Some(name) => {
            return Err(DrillError::usage(
                format!("the gateway at {} has no dependency `{name}`", gateway.url()),
                format!("known are {}", known.join(", ")),
            ));
        }
    };
    if wanted.is_empty() {
        return Err(DrillError::usage(
            format!("the policy of the gateway at {} names no dependency", gateway.url()),
            "write one, or start the gateway with --upstream NAME=URL",
        ));
    }
    let scenarios: Vec<Arc<Scenario>> = scenarios.into_iter().map(Arc::new).collect();
    let mut drilled = Vec::new();
    for dependency in wanted {
        let found = one(args, Arc::clone(&gateway), &dependency, &scenarios).await?;
        drilled.push(Drilled { dependency, found });
    }
    Ok(drilled)
}

/// Returns whether an operator keeps a circuit of a dependency closed, so that nothing protects it.
async fn held_closed(gateway: &Gateway, dependency: &str) -> Result<bool, DrillError> {
    let target = format!("/circuits?full=true&dependency={}", encoded(dependency));
    let circuits = gateway.ask(Method::GET, &target, None).await?;
    Ok(circuits.as_array().into_iter().flatten().any(|circuit| circuit["hold"]["state"] == "closed"))
}

/// Drills one dependency.
async fn one(
    args: &DrillArgs,
    gateway: Arc<Gateway>,
    dependency: &str,
    scenarios: &[Arc<Scenario>],
) -> Result<Vec<Row>, DrillError> {
    let before = own::Untouched::read(&gateway, dependency).await?;
    let place = Place::take().map_err(|error| no_port(&error))?;
    let begun = begin(&gateway, dependency, &place.url(), args.shorten, OWN_LAST).await?;
    let house = House::of(Arc::clone(&gateway), dependency, &begun);
    end(&gateway, &begun.shadow.name).await;
    let house = Arc::new(house?);
    if house.observes {
        ui::warn(&format!("{dependency} only observes: rows in which the gateway must refuse something fail"));
    }
    if held_closed(&gateway, dependency).await? {
        ui::warn(&format!(
            "{dependency} is held closed by an operator: its calls pass whatever happens, and its shadows do not show that; \
             halfopen release {dependency}"
        ));
    }
    ui::say(&format!("{dependency}: durations divided by {:.4}", house.shorten));
    let played = all_rows(&house, scenarios).await;
    if played.is_err() {
        // Rows that were broken off end nothing themselves.
        house.end_all().await;
    }
    let mut found = played?;
    let wanted = |name: &str| args.row.is_empty() || args.row.iter().any(|begins| name.starts_with(begins.as_str()));
    if wanted(own::FIGURES) {
        found.push(own::figures(&house).await?);
    }
    if wanted(own::UNTOUCHED) {
        found.push(before.still(&gateway, dependency).await?);
    }
    Ok(found)
}

/// Plays all rows, several at once; returns them in their order.
async fn all_rows(house: &Arc<House>, scenarios: &[Arc<Scenario>]) -> Result<Vec<Row>, DrillError> {
    let seats = Arc::new(Semaphore::new(AT_ONCE));
    let mut rows = JoinSet::new();
    for (index, scenario) in scenarios.iter().enumerate() {
        let (house, scenario, seats) = (Arc::clone(house), Arc::clone(scenario), Arc::clone(&seats));
        rows.spawn(async move { (index, row::played(&house, scenario, &seats).await) });
    }
    let mut found = Vec::new();
    while let Some(joined) = rows.join_next().await {
        match joined {
            Ok((index, row)) => found.push((index, row?)),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => return Err(DrillError::Io("the drill was broken off".to_owned())),
            },
        }
    }
    found.sort_by_key(|(index, _)| *index);
    Ok(found.into_iter().map(|(_, row)| row).collect())
}

impl House {
    fn of(gateway: Arc<Gateway>, dependency: &str, begun: &Begun) -> Result<Self, DrillError> {
        let strange = |why: String| DrillError::Gateway {
            code: exit::IO,
            message: format!("the policy that {} writes is not understood: {why}", gateway.url()),
            hint: Some("the gateway may be of another version; GET /healthz tells it".to_owned()),
        };
        let text = json!({ "dependency_guard": begun.policy }).to_string();
        let path = std::path::Path::new("the gateway's policy");
        let read = Config::parse(&text, path, Some(Surface::Serve), Demand::Usable);
        let (config, _) = read.map_err(|error| match &error {
            ConfigError::Invalid { findings, .. } => {
                strange(findings.first().map_or_else(|| error.to_string(), |finding| finding.rendered.clone()))
            }
            _ => strange(error.to_string()),
        })?;
        let dependency_read = config.dependencies.into_values().next();
        let dependency_read = dependency_read.ok_or_else(|| strange("it names no dependency".to_owned()))?;
        let mut rehearsal = Rehearsal::of(dependency_read).map_err(|error| strange(error.to_string()))?;
        let shorter = begun.shorten.max(WRITTEN_SHORTER);
        // What is expected of a gateway that only watches is what its policy says; that it does not do it is what is seen.
        let observes = std::mem::replace(&mut rehearsal.policy.mode, Mode::Enforce) == Mode::Observe;
        rehearsal.written_second = Some(Duration::from_secs(1).div_f64(shorter));
        Ok(Self {
            dependency: dependency.to_owned(),
            rehearsal: Arc::new(rehearsal),
            written: without_address(&begun.policy),
            shorten: begun.shorten,
            observes,
            begun: Mutex::default(),
            gateway,
        })
    }

    /// Begins a shadow of the dependency in front of a stand-in; it ends by itself after `lasts`.
    ///
    /// # Errors
    ///
    /// If the gateway does not, or does so under another policy than before.
    async fn shadow(&self, place: &Place, lasts: Duration) -> Result<Begun, DrillError> {
        let begun = begin(&self.gateway, &self.dependency, &place.url(), Some(self.shorten), lasts).await?;
        self.begun().insert(begun.shadow.name.clone());
        if without_address(&begun.policy) == self.written {
            return Ok(begun);
        }
        self.end(&begun.shadow).await;
        Err(DrillError::Gateway {
            code: exit::IO,
            message: format!("the policy of {} changed while it was drilled", self.dependency),
            hint: Some("drill again".to_owned()),
        })
    }

    /// Ends a shadow.
    async fn end(&self, shadow: &Shadow) {
        end(&self.gateway, &shadow.name).await;
        self.begun().remove(&shadow.name);
    }

    /// Ends what has begun and not ended.
    async fn end_all(&self) {
        let names = std::mem::take(&mut *self.begun());
        for name in names {
            end(&self.gateway, &name).await;
        }
    }

    fn begun(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn without_address(policy: &Value) -> Value {
    let mut policy = policy.clone();
    if let Some(keys) = policy.as_object_mut() {
        keys.remove("upstream");
    }
    policy
}

async fn begin(
    gateway: &Gateway,
    dependency: &str,
    upstream: &str,
    shorten: Option<f64>,
    lasts: Duration,
) -> Result<Begun, DrillError> {
    // A drill that is broken off ends nothing, and what it began ends soon.
    let for_sec = lasts.as_secs().clamp(1, LASTS_MAX_SEC);
    let mut body = json!({ "dependency": dependency, "upstream": upstream, "for_sec": for_sec });
    if let Some(shorten) = shorten {
        body["shorten"] = shorten.into();
    }
    let document = gateway.ask(Method::POST, "/drills", Some(&body)).await?;
    let text = |key: &str| document[key].as_str().map(str::to_owned);
    let (Some(name), Some(path), Some(clock)) = (text("name"), text("path"), Clock::of(&document["clock"])) else {
        return Err(DrillError::Gateway {
            code: exit::IO,
            message: format!("{} began a drill and does not say which", gateway.url()),
            hint: Some("the gateway may be of another version; GET /healthz tells it".to_owned()),
        });
    };
    let shorten = document["shorten"].as_f64().unwrap_or(1.0);
    Ok(Begun { shadow: Shadow { name, path }, shorten, clock, policy: document["policy"].clone() })
}

/// Ends a shadow. One that cannot be ended now ends by itself.
async fn end(gateway: &Gateway, name: &str) {
    let _ = gateway.ask(Method::DELETE, &format!("/drills/{}", encoded(name)), None).await;
}

fn no_port(error: &std::io::Error) -> DrillError {
    DrillError::Io(format!("no port of 127.0.0.1 can be had for the stand-in: {error}"))
}
