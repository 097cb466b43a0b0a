//! `halfopen drain --once`: does what was queued, as far as circuits let it, and ends.
//!
//! It is a worker that does not stay: for cron, for a person, for machines without a daemon. When a job may start is
//! decided in the circuits, in the transaction of its claim, so two runs of cron, ten at once and a gateway beside them
//! keep one rate; nothing here paces anything. Commands are run here (`run::job`), HTTP jobs are sent as the gateway
//! sends them, if the policy names where to.
//!
//! Owners and programs (`on_done`) are told while it goes on and at its end, within [`TELL_WITHIN`]: no other process need
//! come by. What fails stays due.
//!
//! It ends when nothing is due, or when nothing can be done for longer than `--max-wait`: the exit code says which. A
//! signal ends it in order: nothing more is claimed, what runs may finish for a while, then it is ended and given back.

mod hands;
mod told;

use std::io::IsTerminal as _;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen::config::{Config, ConfigError};
use halfopen::handle::{Handle, StoreHealth};
use halfopen::store::{Location, StoreError};
use halfopen::{activation, attendance};
use halfopen_core::policy::Surface;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use crate::alerts::Sent;
use crate::args::Shared;
use crate::duration::parse;
use crate::run::CommandPerformer;
use crate::work::{Bell, Left, Pace, Quota, Stop, Worker};
use crate::{alerts, exit, shown, ui};
use hands::Hands;

/// How long what runs may finish after the first signal.
const FINISH_WITHIN: Duration = Duration::from_secs(10);
/// How long owners and programs are told at the end, as long as they listen.
const TELL_WITHIN: Duration = Duration::from_secs(30);
/// How often a person at the terminal is told how far it is, and the mark of a worker is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Arguments of `halfopen drain`.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Do what is due and end
    #[arg(long, env = "HALFOPEN_ONCE", required = true, value_parser = BoolishValueParser::new())]
    pub once: bool,
    /// Only jobs of this dependency
    #[arg(long, env = "HALFOPEN_DRAIN_DEP", value_name = "NAME")]
    pub dep: Option<String>,
    /// How long to wait at once for a circuit or a job's time
    #[arg(long, env = "HALFOPEN_DRAIN_MAX_WAIT", value_name = "DURATION", default_value = "5s", value_parser = |w: &str| parse(w))]
    pub max_wait: Duration,
    /// Start at most so many jobs
    #[arg(long, env = "HALFOPEN_DRAIN_LIMIT", value_name = "N")]
    pub limit: Option<NonZeroU64>,
    /// Print a JSON object
    #[arg(long, env = "HALFOPEN_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
}

/// Why nothing was drained.
#[derive(Debug, thiserror::Error)]
enum DrainError {
    #[error(transparent)]
    Policy(#[from] ConfigError),
    #[error(transparent)]
    StoreName(StoreError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("no dependency is named `{name}`; known are: {known}")]
    UnknownDependency { name: String, known: String },
    #[error("jobs cannot be done: {0}")]
    Unwritable(String),
    #[error("cannot start: {0}")]
    Runtime(#[from] std::io::Error),
}

impl DrainError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Policy(_) => exit::POLICY,
            Self::StoreName(_) | Self::UnknownDependency { .. } => exit::USAGE,
            Self::Store(_) | Self::Unwritable(_) | Self::Runtime(_) => exit::IO,
        }
    }
}

/// Drains once; returns the exit code.
#[must_use]
pub fn drain(shared: &Shared, args: &DrainArgs) -> u8 {
    match drained(shared, args) {
        Ok(code) => code,
        Err(error) => {
            if let DrainError::Policy(ConfigError::Invalid { findings, .. }) = &error {
                findings.iter().for_each(|finding| ui::raw(&format!("{}\n", finding.rendered)));
            }
            ui::error(&error.to_string());
            error.exit_code()
        }
    }
}

fn drained(shared: &Shared, args: &DrainArgs) -> Result<u8, DrainError> {
    let config = Config::find(shared.policy.as_deref(), Surface::Run)?;
    let word = shared.store.as_ref().or(config.store.as_ref()).filter(|word| !word.is_empty());
    let store = match word {
        Some(word) => word.parse(),
        None => Location::default_place(),
    };
    let store: Location = store.map_err(DrainError::StoreName)?;
    let handle = Arc::new(Handle::open(&store)?);
    match handle.health() {
        StoreHealth::Good => {}
        // What cannot be noted is not sent.
        StoreHealth::ReadOnly(why) | StoreHealth::Lost(why) => return Err(DrainError::Unwritable(why)),
    }
    if let Some(name) = &args.dep {
        let known = shown::dependencies(config.dependencies.keys().map(String::as_str), &handle)?;
        if !known.contains(name) {
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            return Err(DrainError::UnknownDependency { name: name.clone(), known });
        }
    }
    attendance::mark(&store);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let place = Place { shared, args, config: Arc::new(config), store, handle };
    let code = runtime.block_on(place.work())?;
    // Threads that still wait for the store have nothing to say any more.
    runtime.shutdown_background();
    Ok(code)
}

/// What a drain works on.
struct Place<'a> {
    shared: &'a Shared,
    args: &'a DrainArgs,
    config: Arc<Config>,
    store: Location,
    handle: Arc<Handle>,
}

impl Place<'_> {
    async fn work(&self) -> Result<u8, DrainError> {
        let args = self.args;
        let (config, handle) = (Arc::clone(&self.config), Arc::clone(&self.handle));
        if let Ok(records) = handle.sweep(&|name| config.dependency(name, Surface::Run).policy) {
            let _ = activation::record_expired(&self.store, &records, wall_ms());
        }
        let path = self.store.path().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        let policy =
            self.config.path.as_deref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        let commands = CommandPerformer::new(config, Arc::clone(&handle), path.as_deref(), policy.as_deref());
        let hands = Arc::new(Hands::new(Arc::new(commands), self.over_http(policy.as_deref())));
        let stop = Stop::new();
        let quota = args.limit.map_or(Quota::boundless(), |limit| Quota::of(limit.get()));
        let performer = Arc::clone(&hands);
        let worker = Worker::new("drain", Arc::clone(&handle), performer, Bell::new(), stop.clone());
        let draining = worker.drain(args.max_wait, args.dep.as_deref(), quota);
        let mut draining = std::pin::pin!(draining);
        let mut ending = std::pin::pin!(end_when_told(stop));
        let shows = !args.json && std::io::stderr().is_terminal();
        let mut telling = self.tell();
        let mut left = loop {
            tokio::select! {
                left = &mut draining => break left,
                error = &mut ending => return Err(error.into()),
                () = tokio::time::sleep(LOOK_EVERY) => {
                    attendance::mark(&self.store);
                    if telling.is_finished() {
                        telling = self.tell();
                    }
                    if shows {
                        told::progress(&hands, &handle, args.dep.as_deref());
                    }
                }
            }
        };
        for (dependency, figures) in hands.figures() {
            // A figure that cannot be left here is not worth a word.
            let _ = activation::record(&self.store, &dependency, &figures, &[], wall_ms());
        }
        let queued = told::queued(&handle, args.dep.as_deref())?;
        for ((dependency, kind), waiting) in handle.jobs_waiting()? {
            let why = kind.and_then(|kind| hands.left_to_others(&dependency, &kind));
            match left.iter_mut().find(|left| left.dependency == dependency) {
                Some(left) => left.why = left.why.take().or(why),
                None if args.dep.as_ref().is_none_or(|only| *only == dependency) => {
                    left.push(Left { dependency, queued: waiting, why });
                }
                None => {}
            }
        }
        told::end(&hands, &left, &queued, shows, args.json);
        self.tell_the_rest(telling).await;
        alerts::undelivered(&handle).iter().for_each(|line| ui::warn(line));
        Ok(if queued.values().all(|queued| *queued == 0) { exit::OK } else { exit::TRY_LATER })
    }

    /// Begins to tell owners and programs what is due.
    fn tell(&self) -> JoinHandle<Sent> {
        let (handle, config, store) = (Arc::clone(&self.handle), Arc::clone(&self.config), self.store.clone());
        tokio::task::spawn_blocking(move || alerts::deliver(&handle, &config, &store))
    }

    /// Tells what is still due, as long as somebody takes it.
    async fn tell_the_rest(&self, telling: JoinHandle<Sent>) {
        let until = Instant::now() + TELL_WITHIN;
        // What was noted since it began is not part of it.
        let _ = telling.await;
        while self.tell().await.is_ok_and(|sent| sent.delivered > 0) && Instant::now() < until {}
    }

    /// Returns who sends HTTP jobs, if the policy names where to.
    fn over_http(&self, policy: Option<&Path>) -> Option<crate::serve::HttpHand> {
        let policy = policy?;
        let any = self.config.dependencies.values().any(|dependency| dependency.wiring.upstream.is_some());
        if !any {
            return None;
        }
        let shared = Shared { policy: Some(policy.to_owned()), ..self.shared.clone() };
        crate::serve::HttpHand::of(&shared).inspect_err(|error| ui::warn(&format!("HTTP jobs are left: {error}"))).ok()
    }
}

/// Tells the worker to end when a signal to us says so; returns only if signals cannot be heard.
async fn end_when_told(stop: Stop) -> std::io::Error {
    let heard = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()), signal(SignalKind::hangup()));
    let (mut terminate, mut interrupt, mut hangup) = match heard {
        (Ok(terminate), Ok(interrupt), Ok(hangup)) => (terminate, interrupt, hangup),
        (Err(error), _, _) | (_, Err(error), _) | (_, _, Err(error)) => return error,
    };
    let mut one = async || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    };
    one().await;
    stop.at(Pace::Finishing);
    let _ = tokio::time::timeout(FINISH_WITHIN, one()).await;
    stop.at(Pace::Leaving);
    std::future::pending().await
}

fn wall_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
