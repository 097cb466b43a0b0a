//! What all calls share: the door, the policy in force, the way to stop.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};
use halfopen::config::{Config, ConfigError, Here, Level, locate};
use halfopen::fingerprint::Fingerprints;
use halfopen::handle::{Handle, StoreHealth};
use halfopen::store::{Location, StoreError};
use halfopen_core::circuit_id::CircuitIdError;
use halfopen_core::classify::ProfileError;
use halfopen_core::policy::{Policy, Surface};

use super::access::{self, Access};
use super::api::LastLook;
use super::args::{NamedUrl, ServeArgs};
use super::counts::Register;
use super::dashboard::Dashboard;
use super::dependency::Dependency;
use super::drills::{self, Drills};
use super::feed::Feed;
use super::journal::Journal;
use super::pulse::Lines;
use super::queue::Queue;
use super::reload::{Changes, Reloads, Stamp};
use super::shutdown::Shutdown;
use super::target::UpstreamError;
use super::telemetry::Telemetry;
use super::tell::Told;
use crate::args::Shared;
use crate::shown::SHADOW;
use crate::token::TokenFileError;
use crate::{exit, log, ui};

/// What all calls share.
#[derive(Debug)]
pub(super) struct Gateway {
    /// The one door.
    pub(super) door: Door,
    /// How far it is from its end.
    pub(super) shutdown: Shutdown,
    /// Who may ask what.
    pub(super) access: Access,
    /// The journal as it grows.
    pub(super) feed: Arc<Feed>,
    /// What the journal said since we began.
    pub(super) journal: Journal,
    /// What became of alerts that we delivered.
    pub(super) told: Told,
    /// What stands in the activation lines already.
    pub(super) lines: tokio::sync::Mutex<Lines>,
    /// How well the store served when it was looked at last.
    pub(super) last_look: LastLook,
    /// What its calls share about the queue.
    pub(super) queue: Queue,
    /// What the pages of the dashboard share.
    pub(super) dashboard: Dashboard,
    /// What is left to do about drills that have ended.
    pub(super) drills: Drills,
    live: ArcSwap<Live>,
    /// Held while what is in force is replaced, so that nobody puts something older in its place.
    changing: Mutex<()>,
    /// Where the policy was read, to read it again.
    policy_path: Option<PathBuf>,
    upstreams: Vec<NamedUrl>,
    /// The store as the file named it at the start; `None` where the command line or the environment did.
    store_of_file: Option<Option<String>>,
    /// How often the policy was read again.
    pub(super) reloads: Reloads,
}

/// The one door, the names of those who are not named, and what was counted: what outlives a policy.
#[derive(Debug)]
pub(super) struct Door {
    /// The door.
    pub(super) handle: Arc<Handle>,
    /// Names for secrets.
    pub(super) fingerprints: Arc<Fingerprints>,
    /// What was counted for each dependency.
    pub(super) counts: Register,
    /// What is exported.
    pub(super) telemetry: Arc<Telemetry>,
}

/// The policy in force, ready to be used.
#[derive(Debug)]
pub(super) struct Live {
    /// As it was read.
    pub(super) config: Config,
    dependencies: BTreeMap<String, Arc<Dependency>>,
}

/// Why the gateway does not serve.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    /// The policy file cannot be used.
    #[error(transparent)]
    Policy(#[from] ConfigError),
    /// The rules of a dependency cannot be used.
    #[error("dependency `{dependency}`: {cause}")]
    Rules {
        /// Which.
        dependency: String,
        /// Why.
        cause: ProfileError,
    },
    /// The base URL of a dependency cannot be used.
    #[error("dependency `{dependency}`: upstream `{url}` cannot be used: {cause}")]
    Upstream {
        /// Which.
        dependency: String,
        /// As written, without secrets.
        url: String,
        /// Why.
        cause: UpstreamError,
    },
    /// The name of a dependency cannot be used.
    #[error("dependency: {0}")]
    Name(CircuitIdError),
    /// The word that names the store makes no sense.
    #[error(transparent)]
    StoreName(StoreError),
    /// The store must not be used by design.
    #[error(transparent)]
    Store(StoreError),
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        cause: std::io::Error,
    },
    /// A file of tokens cannot be used.
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    /// Other machines would reach the operators' paths, and nothing keeps them out.
    #[error("operators' paths at {address} are reached by other machines, and no --admin-token-file keeps them out")]
    NoAdminToken {
        /// The address.
        address: String,
    },
    /// Other machines would make calls with our credential, and nothing keeps them out.
    #[error(
        "calls to `{dependency}` at {address} are sent with its credential by whoever reaches that address, and no \
         --caller-token-file keeps others out"
    )]
    NoCallerToken {
        /// The address.
        address: String,
        /// One dependency to whose calls a credential is added.
        dependency: String,
    },
    /// The threads cannot be started.
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
}

impl StartError {
    /// Returns the exit code.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Policy(_) | Self::Rules { .. } | Self::Upstream { .. } => exit::POLICY,
            Self::StoreName(_) | Self::Name(_) | Self::NoAdminToken { .. } | Self::NoCallerToken { .. } => exit::USAGE,
            Self::Store(_) | Self::Listen { .. } | Self::Tokens(_) | Self::Runtime(_) => exit::IO,
        }
    }

    /// Returns what can be done about it.
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Policy(ConfigError::Invalid { .. }) => Some("halfopen check says the same, with the places"),
            Self::Rules { .. } => Some("halfopen check names the rule; halfopen classify tries it"),
            Self::Upstream { .. } => Some("write upstream: https://HOST/PATH in the policy, or --upstream NAME=URL"),
            Self::NoAdminToken { .. } => Some(
                "halfopen token NAME --file FILE makes one; or keep operators here with --admin-listen 127.0.0.1:4142",
            ),
            Self::NoCallerToken { .. } => Some("halfopen token NAME --file FILE makes a token for a caller"),
            Self::StoreName(_) => Some("name a file with --store PATH or HALFOPEN_STORE"),
            Self::Listen { .. } => {
                Some("choose another with --listen HOST:PORT (port 0: any), or end whoever holds it")
            }
            Self::Policy(_) | Self::Name(_) | Self::Store(_) | Self::Tokens(_) | Self::Runtime(_) => None,
        }
    }
}

impl Gateway {
    /// Reads the policy and opens the store.
    pub(super) fn start(shared: &Shared, args: &ServeArgs) -> Result<Arc<Self>, StartError> {
        let policy_path = locate(shared.policy.as_deref(), Here::Taken);
        let stamp = policy_path.as_deref().and_then(Stamp::of);
        let config = read(policy_path.as_deref(), Reading::ToStart)?;
        let adding = config.dependencies.iter().find(|(_, dependency)| !dependency.wiring.credentials.is_empty());
        access::demands(args, adding.map(|(name, _)| name.as_str()))?;
        let access = Access::read(args)?;
        let named = shared.store.as_ref().filter(|word| !word.is_empty());
        let store_of_file = named.is_none().then(|| config.store.clone());
        let store = match named.or(config.store.as_ref()).filter(|word| !word.is_empty()) {
            Some(word) => word.parse().map_err(StartError::StoreName)?,
            None => Location::default_place().map_err(StartError::StoreName)?,
        };
        let handle = Arc::new(Handle::open(&store).map_err(StartError::Store)?);
        match handle.health() {
            StoreHealth::Good => {}
            StoreHealth::ReadOnly(why) => ui::warn(&format!("the store can only be read: {why}")),
            StoreHealth::Lost(why) => {
                ui::warn(&format!("the store cannot be used, circuits are kept in memory: {why}"))
            }
        }
        let fingerprints = Fingerprints::beside(&store).unwrap_or_else(|cause| {
            ui::warn(&format!(
                "the key for fingerprints cannot be kept beside the store, so circuits of callers' own keys get new \
                 names at the next start: {cause}"
            ));
            Fingerprints::of_this_process()
        });
        let telemetry = Arc::new(Telemetry::from_environment());
        let door = Door { handle, fingerprints: Arc::new(fingerprints), counts: Register::default(), telemetry };
        let live = Live::make(config, &args.upstreams, &door, None)?;
        live.warn();
        Ok(Arc::new(Self {
            door,
            shutdown: Shutdown::new(),
            access,
            feed: Arc::new(Feed::new()),
            journal: Journal::default(),
            told: Told::default(),
            lines: tokio::sync::Mutex::default(),
            last_look: LastLook::default(),
            queue: Queue::new(),
            dashboard: Dashboard::new(),
            drills: Drills::default(),
            live: ArcSwap::from_pointee(live),
            changing: Mutex::default(),
            policy_path,
            upstreams: args.upstreams.clone(),
            store_of_file,
            reloads: Reloads::after(stamp),
        }))
    }

    /// Returns the policy in force.
    pub(super) fn live(&self) -> Guard<Arc<Live>> {
        self.live.load()
    }

    /// Returns the policy file, if there is one.
    pub(super) fn policy_path(&self) -> Option<&Path> {
        self.policy_path.as_deref()
    }

    /// Returns the rules of a circuit's dependency. One that is not the gateway's belongs to `halfopen run`.
    pub(super) fn policy_of(&self, dependency: &str) -> Policy {
        let name = dependency.strip_suffix(SHADOW).unwrap_or(dependency);
        let live = self.live();
        match live.dependency(name) {
            Some(dependency) => Policy::clone(&dependency.policy),
            // A drill of another gateway, or of one that is gone.
            None => match drills::rehearsed_by(name) {
                Some(rehearsed) => live.config.dependency(rehearsed, Surface::Serve).policy,
                None => live.config.dependency(name, Surface::Run).policy,
            },
        }
    }

    /// Puts another set of dependencies in force, made out of the one that is.
    ///
    /// # Errors
    ///
    /// What `change` says; then everything stays as it is.
    pub(super) fn change<T, E>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, Arc<Dependency>>) -> Result<T, E>,
    ) -> Result<T, E> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.live.load_full();
        let mut dependencies = before.dependencies.clone();
        let changed = change(&mut dependencies)?;
        self.live.store(Arc::new(Live { config: before.config.clone(), dependencies }));
        Ok(changed)
    }

    /// Reads the policy again and puts it in force, or leaves everything as it is.
    pub(super) fn read_again(&self) -> Result<Changes, StartError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.live.load_full();
        let live = Live::make(read(self.policy_path(), Reading::Again)?, &self.upstreams, &self.door, Some(&before))?;
        let mut changes = live.changes_since(&before);
        changes.store = self.store_of_file.as_ref().is_some_and(|store| *store != live.config.store);
        live.warn();
        self.live.store(Arc::new(live));
        Ok(changes)
    }
}

/// What a policy is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// A gateway that is being started, by somebody who reads what it says.
    ToStart,
    /// One that serves already.
    Again,
}

fn read(path: Option<&Path>, reading: Reading) -> Result<Config, StartError> {
    let Some(path) = path else { return Ok(Config::built_in()) };
    let (config, findings) = Config::load(path, Surface::Serve).inspect_err(|error| show(error, reading))?;
    findings.iter().for_each(|finding| ui::finding(path, finding));
    Ok(config)
}

impl Live {
    /// Makes it out of a policy file, with what of `before` is still the same.
    fn make(config: Config, upstreams: &[NamedUrl], door: &Door, before: Option<&Self>) -> Result<Self, StartError> {
        let mut dependencies = BTreeMap::new();
        let named = config.dependencies.keys().map(String::as_str);
        for name in named.chain(upstreams.iter().map(|upstream| upstream.name.as_str())) {
            let url = upstreams.iter().find(|upstream| upstream.name == name).map(|upstream| upstream.url.as_str());
            let old = before.and_then(|before| before.dependencies.get(name));
            let written = config.dependency(name, Surface::Serve);
            dependencies.insert(name.to_owned(), Dependency::make(name, written, url, door, old)?);
        }
        // A drill goes on under the policy that it began with.
        let drills = before.into_iter().flat_map(|before| &before.dependencies);
        let drills = drills.filter(|(_, dependency)| dependency.drill.is_some());
        dependencies.extend(drills.map(|(name, dependency)| (name.clone(), Arc::clone(dependency))));
        Ok(Self { config, dependencies })
    }

    /// Says what will not work, although the policy can be used.
    fn warn(&self) {
        self.dependencies.values().flat_map(|dependency| dependency.doubts()).for_each(|doubt| ui::warn(&doubt));
    }

    fn changes_since(&self, before: &Self) -> Changes {
        let mut changes = Changes::default();
        for (name, dependency) in &self.dependencies {
            match before.dependencies.get(name) {
                None => changes.added.push(name.clone()),
                Some(old) if !Arc::ptr_eq(old, dependency) => changes.changed.push(name.clone()),
                Some(_) => {}
            }
        }
        let gone = before.dependencies.keys().filter(|name| !self.dependencies.contains_key(*name));
        changes.removed = gone.cloned().collect();
        changes
    }

    /// Returns a dependency by its name.
    pub(super) fn dependency(&self, name: &str) -> Option<Arc<Dependency>> {
        self.dependencies.get(name).cloned()
    }

    /// Returns all dependencies, sorted by name.
    pub(super) fn dependencies(&self) -> impl Iterator<Item = &Arc<Dependency>> {
        self.dependencies.values()
    }
}

/// Shows the mistakes of a policy file with the places they stand at. Whoever just started it reads them as `check` shows
/// them, unless the log is for programs.
fn show(error: &ConfigError, reading: Reading) {
    let ConfigError::Invalid { path, findings } = error else { return };
    for finding in findings.iter().filter(|finding| finding.level == Level::Error) {
        if reading == Reading::ToStart && log::format() != Some(log::Format::Json) {
            ui::raw(&format!("{}\n", finding.rendered.trim_end()));
        } else {
            ui::finding(path, finding);
        }
    }
}
