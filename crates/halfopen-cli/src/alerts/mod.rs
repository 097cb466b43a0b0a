//! Delivers alerts: whoever has just made a transition, or comes by while one is due, claims it and sends it.
//!
//! There is no daemon to leave this to, so it is bounded: [`WITHIN`] for everything together, and nothing at all, not even
//! a runtime, where nothing is due. Each channel is a dependency like any other: it has a circuit of its own behind the
//! one door (`halfopen-alerts@channel=OWNER/KIND-N`), so a receiver that hangs costs a few callers their five seconds and
//! then nobody any; whether alerts get through is seen in `halfopen status`. What fails stays due, under the same name.
//!
//! Programs are told of ended jobs (`on_done`) in the same way, through circuits of their own. Where a process stays, the two
//! are sent apart ([`deliver_to_owners`], [`deliver_to_programs`]), so that a receiver that hangs keeps no alert.
//!
//! One thread for each channel: three of the four kinds block, there are a handful of channels, and no other shape ends
//! on time whatever the receiver does. The alerts of one channel go out in their order.
//!
//! `run`, `serve` and `ops` use this; it uses none of them.

mod banner;
mod channel;
mod command;
mod http;
mod mail;
mod message;
mod sign;
pub mod watch;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use halfopen::config::{Config, Owners};
use halfopen::handle::{ClaimedAlert, Handle, Route};
use halfopen::store::Location;
use halfopen_core::alert::{CHANNELS, Delivered};
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::outcome::Reached;
use halfopen_core::permit::Ask;
use halfopen_core::policy::{Policy, Surface};
use halfopen_core::snapshot::AlertRecord;
use halfopen_core::verdict::{Class, Verdict};

pub use banner::{LOOKED_AT, undelivered};
pub use channel::{Named, named, receivers};
pub use message::{Message, headline, runbook};

/// How long all deliveries of one sweep may take together.
pub const WITHIN: Duration = Duration::from_secs(5);

/// How long one delivery may take: less than [`WITHIN`], so that what is slow is told from what is not tried.
const ONE_WITHIN: Duration = Duration::from_millis(4_500);

/// How long a claimed alert is this process's own.
const LEASE: Duration = Duration::from_secs(30);

/// How long what a program is told is this process's own: a sweep is over long before.
const LEASE_PROGRAMS: Duration = Duration::from_secs(10);

/// How many alerts one sweep claims at most.
const CLAIM_MAX: usize = 16;

/// Of how many jobs of a dependency one sweep tells at most.
const CLAIM_JOBS_MAX: usize = 64;

/// How many channels are served at once.
const AT_ONCE: usize = 8;

/// How long a channel is left alone first, and at most, when it has failed so often in a row.
const OPEN_FOR: Duration = Duration::from_secs(30);
const OPEN_FOR_MAX: Duration = Duration::from_secs(900);
const OPEN_AFTER: u32 = 3;

/// Why a delivery failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No answer in time.
    Timeout,
    /// There was nobody.
    Unreachable,
    /// Too many came at once.
    RateLimited,
    /// The receiver does not work.
    Broken,
    /// The receiver refuses it, or the channel cannot be used as it is written.
    Refused,
    /// It was not tried: the channel has failed too often, or an earlier alert goes first.
    NotTried,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Timeout, Self::Unreachable, Self::RateLimited, Self::Broken, Self::Refused, Self::NotTried];

    /// Returns the word used in figures.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::RateLimited => "rate_limited",
            Self::Broken => "broken",
            Self::Refused => "refused",
            Self::NotTried => "not_tried",
        }
    }

    /// Returns what a delivery met, `None` if the receiver took it.
    fn of(delivered: &Delivered, class: Class) -> Option<Self> {
        match delivered {
            Delivered::Yes => None,
            Delivered::NotTried { .. } => Some(Self::NotTried),
            Delivered::Never { .. } => Some(Self::Refused),
            Delivered::NotNow { .. } => Some(match class {
                Class::Timeout => Self::Timeout,
                Class::ConnectionFailure => Self::Unreachable,
                Class::RateLimited => Self::RateLimited,
                Class::InvalidRequest => Self::Refused,
                _ => Self::Broken,
            }),
        }
    }
}

/// What came of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Deliveries that a receiver took.
    pub delivered: usize,
    /// Deliveries that failed, or were given up.
    pub failed: usize,
    /// Each delivery by its channel, with what it met.
    pub each: Vec<(String, Option<Trouble>)>,
}

/// How one delivery went: what it is to the alert, and what it says about the channel.
#[derive(Clone, Debug)]
struct Outcome {
    delivered: Delivered,
    class: Class,
}

impl Outcome {
    fn taken() -> Self {
        Self { delivered: Delivered::Yes, class: Class::Success }
    }

    fn not_now(class: Class, error: impl Into<String>) -> Self {
        Self { delivered: Delivered::NotNow { error: error.into(), wait: None }, class }
    }

    /// The receiver refuses this alert, or the channel cannot be used as it is written: no reason to stop trying others.
    fn never(error: impl Into<String>) -> Self {
        Self { delivered: Delivered::Never { error: error.into() }, class: Class::InvalidRequest }
    }
}

impl Sent {
    fn and(mut self, more: Self) -> Self {
        self.each.extend(more.each);
        Self { delivered: self.delivered + more.delivered, failed: self.failed + more.failed, each: self.each }
    }
}

/// Sends what is due to owners and programs, within [`WITHIN`]. Costs a look or two at the store where nothing is.
pub fn deliver(handle: &Handle, config: &Config, store: &Location) -> Sent {
    let until = Instant::now() + WITHIN;
    to_owners(handle, config, store, until).and(to_programs(handle, config, store, until))
}

/// Sends the alerts that are due, within [`WITHIN`].
pub fn deliver_to_owners(handle: &Handle, config: &Config, store: &Location) -> Sent {
    to_owners(handle, config, store, Instant::now() + WITHIN)
}

/// Tells programs of the jobs that have ended, some of them, within [`WITHIN`].
pub fn deliver_to_programs(handle: &Handle, config: &Config, store: &Location) -> Sent {
    to_programs(handle, config, store, Instant::now() + WITHIN)
}

fn to_programs(handle: &Handle, config: &Config, store: &Location, until: Instant) -> Sent {
    let mut sent = Sent::default();
    let with = |name: &&String| config.dependencies.get(*name).is_some_and(|known| !known.wiring.on_done.is_empty());
    let names: Vec<&String> = config.dependencies.keys().filter(with).collect();
    if names.is_empty() || !handle.has_due_notices(names.iter().map(|name| name.as_str())) {
        return sent;
    }
    let receivers = |dependency: &str| {
        let known = config.dependencies.get(dependency);
        let named = |known: &halfopen::config::Dependency| {
            channel::receivers(dependency, &known.wiring.on_done, known.policy.owner.as_deref())
        };
        known.map(named).unwrap_or_default()
    };
    let mut claimed = Vec::new();
    for name in names {
        let channels: Vec<String> = receivers(name).into_iter().map(|named| named.name).collect();
        // A store that cannot be written keeps them for whoever finds it well.
        claimed.extend(handle.claim_notices(name, &channels, LEASE_PROGRAMS, CLAIM_JOBS_MAX).unwrap_or_default());
    }
    let channels_of = |alert: &AlertRecord| receivers(&alert.event.dependency);
    let all = results(handle, &channels_of, store, &claimed, until);
    for (claimed, how) in claimed.iter().zip(all) {
        let owner =
            config.dependencies.get(&claimed.alert.event.dependency).and_then(|known| known.policy.owner.clone());
        sent = sent.and(finished(handle, claimed, how, &channel_policy(owner)));
    }
    sent
}

fn to_owners(handle: &Handle, config: &Config, store: &Location, until: Instant) -> Sent {
    let mut sent = Sent::default();
    if config.owners.is_empty() || !handle.has_due_alerts() {
        return sent;
    }
    let names = |owner: &str| named(&config.owners, owner).into_iter().map(|named| named.name).collect();
    // A store that cannot be written keeps its alerts for whoever finds it well.
    let claimed = handle.sweep_alerts().and_then(|()| handle.claim_alerts(&names, LEASE, CLAIM_MAX));
    let Ok(claimed) = claimed else { return sent };
    let channels_of = |alert: &AlertRecord| named(&config.owners, &alert.owner);
    let all = results(handle, &channels_of, store, &claimed, until);
    for (claimed, how) in claimed.iter().zip(all) {
        let policy = channel_policy(Some(claimed.alert.owner.clone()));
        sent = sent.and(finished(handle, claimed, how, &policy));
    }
    sent
}

/// Writes down how it went with one alert.
fn finished(handle: &Handle, claimed: &ClaimedAlert, how: Met, policy: &Policy) -> Sent {
    let mut sent = Sent::default();
    for (channel, _, trouble) in &how {
        match trouble {
            None => sent.delivered += 1,
            Some(Trouble::NotTried) => {}
            Some(_) => sent.failed += 1,
        }
        sent.each.push((channel.clone(), *trouble));
    }
    let how: Vec<(String, Delivered)> = how.into_iter().map(|(channel, how, _)| (channel, how)).collect();
    // If this cannot be written, the lease runs out and it is sent again under the same name.
    let _ = handle.finish_alert(claimed, &how, policy);
    sent
}

/// Sends one alert to every channel of its owner, whatever their circuits say, for who wants to know now; returns each
/// channel with how it went.
#[must_use]
pub fn try_all(handle: &Handle, owners: &Owners, alert: &AlertRecord) -> Vec<(Named, Delivered)> {
    let tried = tried(handle, &named(owners, &alert.owner), alert);
    tried.into_iter().map(|(named, outcome)| (named, outcome.delivered)).collect()
}

/// Sends one alert by `channels`, past the store, which cannot keep it; returns what came of it, and the channels that may
/// be tried again.
pub fn deliver_past_the_store(handle: &Handle, channels: &[Named], alert: &AlertRecord) -> (Sent, Vec<Named>) {
    let (mut sent, mut left) = (Sent::default(), Vec::new());
    for (named, Outcome { delivered, class }) in tried(handle, channels, alert) {
        let trouble = Trouble::of(&delivered, class);
        sent.delivered += usize::from(trouble.is_none());
        sent.failed += usize::from(trouble.is_some());
        sent.each.push((named.name.clone(), trouble));
        match delivered {
            Delivered::Yes | Delivered::Never { .. } => {}
            Delivered::NotNow { .. } | Delivered::NotTried { .. } => left.push(named),
        }
    }
    (sent, left)
}

fn tried(handle: &Handle, channels: &[Named], alert: &AlertRecord) -> Vec<(Named, Outcome)> {
    let message = Message::of(alert, None, &handle.clock().read());
    let until = Instant::now() + WITHIN;
    let mut tried = Vec::new();
    for some in channels.chunks(AT_ONCE) {
        let threads: Vec<Outcome> = std::thread::scope(|scope| {
            let send = |named| {
                let message = &message;
                scope.spawn(move || send(named, message, until))
            };
            let running: Vec<_> = some.iter().map(send).collect();
            running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect()
        });
        tried.extend(some.iter().cloned().zip(threads));
    }
    tried
}

/// How it went with one alert by each channel, and what it met.
type Met = Vec<(String, Delivered, Option<Trouble>)>;

/// The result of each claimed alert.
type Results = Vec<Met>;

fn results(
    handle: &Handle,
    channels_of: &dyn Fn(&AlertRecord) -> Vec<Named>,
    store: &Location,
    claimed: &[ClaimedAlert],
    until: Instant,
) -> Results {
    let results: Mutex<Results> = Mutex::new(vec![Vec::new(); claimed.len()]);
    let messages: Vec<Message> = claimed
        .iter()
        .map(|claimed| {
            let of_incident = claimed.alert.job.is_none();
            let spared =
                of_incident.then(|| watch::calls_spared(store, &claimed.alert, &handle.clock().read())).flatten();
            Message::of(&claimed.alert, spared, &handle.clock().read())
        })
        .collect();
    let mut channels: Vec<(Named, Vec<usize>)> = Vec::new();
    for (place, claimed) in claimed.iter().enumerate() {
        for named in channels_of(&claimed.alert) {
            if !claimed.channels.contains(&named.name) {
                continue;
            }
            match channels.iter_mut().find(|(known, _)| known.name == named.name) {
                Some((_, places)) => places.push(place),
                None => channels.push((named, vec![place])),
            }
        }
    }
    for some in channels.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            for (named, places) in some {
                let (results, messages) = (&results, &messages);
                scope.spawn(move || {
                    in_order(handle, named, places, (claimed, messages), until, &|place, how, class| {
                        let mut results = results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        let met = Trouble::of(&how, class);
                        results[place].push((named.name.clone(), how, met));
                    });
                });
            }
        });
    }
    results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Sends the alerts of one channel one after the other, through the channel's circuit. Of an incident whose alert did not
/// get through, no later one goes before it.
fn in_order(
    handle: &Handle,
    named: &Named,
    places: &[usize],
    (claimed, messages): (&[ClaimedAlert], &[Message]),
    until: Instant,
    put: &dyn Fn(usize, Delivered, Class),
) {
    let Ok(place) = CircuitId::part(CHANNELS, "channel", &named.name) else { return };
    let route = Route { place, account: None };
    let policy = channel_policy(named.owner.clone());
    let mut stuck: Vec<&str> = Vec::new();
    for &at in places {
        let thread = claimed[at].alert.thread.as_str();
        let now = handle.clock().now();
        if stuck.contains(&thread) || Instant::now() >= until {
            let why = "an earlier one goes first".to_owned();
            put(at, Delivered::NotTried { why, at: now + Duration::from_secs(2) }, Class::UnknownFailure);
            continue;
        }
        let (delivered, class) = match handle.attempt(&route, &policy, Ask::Fresh) {
            Ok(attempt) => {
                let Outcome { delivered, class } = send(named, &messages[at], until);
                let _events = attempt.settle(&Verdict::plain(class, "halfopen/alert", Reached::Answered));
                (delivered, class)
            }
            Err((_, refusal)) => {
                let why = "the channel has failed too often and is left alone for a while".to_owned();
                let at = refusal.retry_at.unwrap_or(now + OPEN_FOR);
                (Delivered::NotTried { why, at }, Class::UnknownFailure)
            }
        };
        match delivered {
            Delivered::Yes | Delivered::Never { .. } => {}
            Delivered::NotNow { .. } | Delivered::NotTried { .. } => stuck.push(thread),
        }
        put(at, delivered, class);
    }
}

fn send(named: &Named, message: &Message, until: Instant) -> Outcome {
    let within = until.saturating_duration_since(Instant::now()).min(ONE_WITHIN);
    channel::send(&named.channel, message, within)
}

fn panicked() -> Outcome {
    Outcome::never("the delivery broke off")
}

/// Returns the rules of a channel's circuit. Its owner is the one who is reached by it, so that the other channels tell;
/// of a program's, the dependency's.
fn channel_policy(owner: Option<String>) -> Policy {
    let mut policy = Policy::built_in(CHANNELS, Surface::Serve);
    policy.circuit.open_after_failures = std::num::NonZeroU32::new(OPEN_AFTER).unwrap_or(std::num::NonZeroU32::MIN);
    policy.circuit.window = Duration::from_secs(900);
    policy.circuit.open_for = OPEN_FOR;
    policy.circuit.max_open_for = OPEN_FOR_MAX;
    policy.circuit.half_open_max_calls = std::num::NonZeroU32::MIN;
    policy.circuit.close_after_successes = std::num::NonZeroU32::MIN;
    policy.owner = owner;
    policy
}
