//! What all calls share: the door, the policy in force, the way to stop.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use halfopen::config::{Config, ConfigError, Here, Level, locate};
use halfopen::handle::{Handle, StoreHealth};
use halfopen::store::{Location, StoreError};
use halfopen_core::classify::ProfileError;
use halfopen_core::policy::Surface;

use super::args::{NamedUrl, ServeArgs};
use super::dependency::Dependency;
use super::shutdown::Shutdown;
use super::target::UpstreamError;
use crate::args::Shared;
use crate::{exit, ui};

/// What all calls share.
#[derive(Debug)]
pub(super) struct Gateway {
    /// The one door.
    #[expect(dead_code, reason = "the live path asks it")]
    pub(super) handle: Arc<Handle>,
    /// How far it is from its end.
    pub(super) shutdown: Shutdown,
    live: ArcSwap<Live>,
    /// Where the policy was read, to read it again.
    policy_path: Option<PathBuf>,
    upstreams: Vec<NamedUrl>,
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
    /// The threads cannot be started.
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
}

impl StartError {
    /// Returns the exit code.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Policy(_) | Self::Rules { .. } | Self::Upstream { .. } => exit::POLICY,
            Self::StoreName(_) => exit::USAGE,
            Self::Store(_) | Self::Listen { .. } | Self::Runtime(_) => exit::IO,
        }
    }

    /// Returns what can be done about it.
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Policy(ConfigError::Invalid { .. }) => Some("halfopen check says the same, with the places"),
            Self::Rules { .. } => Some("halfopen check names the rule; halfopen classify tries it"),
            Self::Upstream { .. } => Some("write upstream: https://HOST/PATH in the policy, or --upstream NAME=URL"),
            Self::StoreName(_) => Some("name a file with --store PATH or HALFOPEN_STORE"),
            Self::Listen { .. } => {
                Some("choose another with --listen HOST:PORT (port 0: any), or end whoever holds it")
            }
            Self::Policy(_) | Self::Store(_) | Self::Runtime(_) => None,
        }
    }
}

impl Gateway {
    /// Reads the policy and opens the store.
    pub(super) fn start(shared: &Shared, args: &ServeArgs) -> Result<Arc<Self>, StartError> {
        let policy_path = locate(shared.policy.as_deref(), Here::Taken);
        let live = Live::read(policy_path.as_deref(), &args.upstreams)?;
        let store = match shared.store.as_ref().or(live.config.store.as_ref()).filter(|word| !word.is_empty()) {
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
        let live = ArcSwap::from_pointee(live);
        Ok(Arc::new(Self { handle, shutdown: Shutdown::new(), live, policy_path, upstreams: args.upstreams.clone() }))
    }

    /// Returns the policy in force.
    pub(super) fn live(&self) -> Guard<Arc<Live>> {
        self.live.load()
    }

    /// Reads the policy again and puts it in force, or leaves everything as it is.
    pub(super) fn reload(&self) -> Result<(), StartError> {
        let live = Live::read(self.policy_path.as_deref(), &self.upstreams)?;
        self.live.store(Arc::new(live));
        Ok(())
    }
}

impl Live {
    fn read(path: Option<&std::path::Path>, upstreams: &[NamedUrl]) -> Result<Self, StartError> {
        let config = match path {
            None => Config::built_in(),
            Some(path) => {
                let (config, findings) = Config::load(path, Surface::Serve).inspect_err(show)?;
                findings.iter().for_each(|finding| ui::raw(&format!("{}\n", finding.rendered.trim_end())));
                config
            }
        };
        let mut dependencies = BTreeMap::new();
        let named = config.dependencies.keys().map(String::as_str);
        for name in named.chain(upstreams.iter().map(|upstream| upstream.name.as_str())) {
            let url = upstreams.iter().find(|upstream| upstream.name == name).map(|upstream| upstream.url.as_str());
            let dependency = Dependency::make(name, config.dependency(name, Surface::Serve), url)?;
            dependencies.insert(name.to_owned(), Arc::new(dependency));
        }
        Ok(Self { config, dependencies })
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

/// Shows the mistakes of a policy file with the places they stand at.
fn show(error: &ConfigError) {
    if let ConfigError::Invalid { findings, .. } = error {
        for finding in findings.iter().filter(|finding| finding.level == Level::Error) {
            ui::raw(&format!("{}\n", finding.rendered.trim_end()));
        }
    }
}
