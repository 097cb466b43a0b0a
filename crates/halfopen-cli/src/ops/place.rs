//! Finds what all commands work on: the policy file and the store.

use halfopen::activation;
use halfopen::config::{Config, ConfigError};
use halfopen::handle::{CircuitView, Handle, StoreHealth};
use halfopen::store::{Location, StoreError};
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::policy::{Policy, Surface};

use super::Failure;
use crate::args::Shared;
use crate::shown::when::wall_ms;
use crate::shown::{SHADOW, When, named};
use crate::{exit, shown, ui};

/// The policy and the store that a command works on.
pub(super) struct Place {
    pub(super) config: Config,
    pub(super) store: Location,
}

impl Place {
    /// Finds both, and opens neither the store nor anything else.
    pub(super) fn find(shared: &Shared) -> Result<Self, Failure> {
        let config = Config::find_as_written(shared.policy.as_deref()).map_err(|error| policy_failure(&error))?;
        Self::find_with(shared, config)
    }

    /// Finds the store, for a policy that was read already.
    pub(super) fn find_with(shared: &Shared, config: Config) -> Result<Self, Failure> {
        let word = shared.store.as_ref().or(config.store.as_ref()).filter(|word| !word.is_empty());
        let store = match word {
            Some(word) => word.parse(),
            None => Location::default_place(),
        };
        let store = store.map_err(|error: StoreError| {
            Failure::new(exit::USAGE, error).hint("name a file with --store PATH or HALFOPEN_STORE")
        })?;
        Ok(Self { config, store })
    }

    /// Opens a store that is there: who asks what became of work must not be told of an empty one that the question made.
    pub(super) fn open_existing(&self) -> Result<Handle, Failure> {
        if let Location::Sqlite(path) = &self.store
            && !path.exists()
            && !path.parent().is_some_and(|folder| folder.join(format!("{}-wal", name_of(path))).exists())
        {
            return Err(Failure::new(exit::IO, format!("there is no store at {}", path.display())).hint(
                "name the one that is meant with --store PATH or HALFOPEN_STORE; a first run or a gateway begins one",
            ));
        }
        self.open()
    }

    /// Opens the store and lets time pass for what is due, as every command does: no process runs in between.
    pub(super) fn open(&self) -> Result<Handle, Failure> {
        let handle = Handle::open(&self.store).map_err(store_failure)?;
        match handle.health() {
            StoreHealth::Good => {}
            StoreHealth::ReadOnly(why) => ui::warn(&format!("the store can only be read: {why}")),
            StoreHealth::Lost(why) => return Err(Failure::new(exit::IO, why)),
        }
        // What cannot be written now is seen as it would be, and written by whoever comes next.
        if let Ok(records) = handle.sweep(&|dependency| self.policy(dependency)) {
            let _ = activation::record_expired(&self.store, &records, wall_ms());
        }
        Ok(handle)
    }

    /// Warns if each of the last runs found the store created anew.
    pub(super) fn warn_of_new_stores(&self) {
        if activation::created_anew(&self.store) {
            ui::warn(&format!(
                "{} was created anew on each of the last three runs, so nothing is remembered from run to run; \
                 put it on a disk that stays: --store PATH or HALFOPEN_STORE",
                activation::named(&self.store)
            ));
        }
    }

    /// Returns the rules of a circuit's dependency.
    pub(super) fn policy(&self, dependency: &str) -> Policy {
        let name = dependency.strip_suffix(SHADOW).unwrap_or(dependency);
        self.config.dependency(name, Surface::Run).policy
    }

    /// Returns all circuits as they stand.
    pub(super) fn circuits(&self, handle: &Handle) -> Result<Vec<CircuitView>, Failure> {
        handle.circuits(&|dependency| self.policy(dependency)).map_err(store_failure)
    }

    /// Returns the circuits that `word` names: one, or without `@` all of that dependency.
    ///
    /// An unknown name is an error that lists the known ones: a name that is silently taken for a new circuit would
    /// hide a slip of the pen in the very moment in which somebody steers.
    pub(super) fn named(&self, handle: &Handle, word: &str) -> Result<Vec<CircuitView>, Failure> {
        let id: CircuitId = word.parse().map_err(|error| Failure::new(exit::USAGE, error))?;
        let all = self.circuits(handle)?;
        let found: Vec<CircuitView> = named(&all, &id).cloned().collect();
        if found.is_empty() { Err(self.unknown(word, &all)) } else { Ok(found) }
    }

    /// Refuses a dependency of which neither the policy nor the store knows anything.
    pub(super) fn known_dependency(&self, handle: &Handle, name: &str) -> Result<(), Failure> {
        let policy = self.config.dependencies.keys().map(String::as_str);
        let known = shown::dependencies(policy, handle).map_err(store_failure)?;
        if known.contains(name) {
            return Ok(());
        }
        let failure = Failure::new(exit::USAGE, format!("no dependency is named `{name}`"));
        Err(failure.hint(match known.is_empty() {
            true => "neither the policy nor the store knows one yet".to_owned(),
            false => format!("known are {}", known.into_iter().collect::<Vec<_>>().join(", ")),
        }))
    }

    fn unknown(&self, word: &str, all: &[CircuitView]) -> Failure {
        let failure = Failure::new(exit::USAGE, format!("no circuit is named `{word}`"));
        if all.is_empty() {
            let store = &self.store;
            return failure
                .hint(format!("the store {store} knows no circuit yet; one appears with its first failure or hold"));
        }
        failure.hint(format!("known are {}", known(all)))
    }
}

/// Returns the last part of a path, as text.
fn name_of(path: &std::path::Path) -> std::borrow::Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// Lists the names of circuits, as far as they fit into a message.
pub(super) fn known(all: &[CircuitView]) -> String {
    const SHOWN_MAX: usize = 20;
    let mut names: Vec<String> = all.iter().take(SHOWN_MAX).map(|view| view.id.to_string()).collect();
    if all.len() > SHOWN_MAX {
        names.push(format!("and {} more (halfopen status)", all.len() - SHOWN_MAX));
    }
    names.join(", ")
}

/// Reads the clocks of a store.
pub(super) fn when(handle: &Handle) -> When {
    When::read(&handle.clock().read())
}

/// Returns the failure of a store that cannot be read or written.
pub(super) fn store_failure(error: StoreError) -> Failure {
    Failure::new(exit::IO, error)
}

/// Returns the failure of a policy file; shows its errors as `check` does.
pub(super) fn policy_failure(error: &ConfigError) -> Failure {
    let failure = Failure::new(exit::POLICY, error);
    match error {
        ConfigError::Invalid { path, findings } => {
            for finding in findings {
                ui::raw(&format!("{}\n", finding.rendered));
            }
            let file = ui::shell_word(&path.display().to_string());
            failure.hint(format!("halfopen check {file} says the same, and what else it found"))
        }
        _ => failure,
    }
}
