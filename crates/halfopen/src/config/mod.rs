//! Reads the policy file: a rough form with every key optional in, trusted policies out, checked once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use halfopen_core::classify::raw::RawRule;
use halfopen_core::policy::{Policy, Surface};

/// A policy file that was read and checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it was read; `None` for the built-in policy.
    pub path: Option<PathBuf>,
    /// The dependencies it names.
    pub dependencies: BTreeMap<String, Dependency>,
}

/// One dependency of a policy file.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// Its resolved rules.
    pub policy: Policy,
    /// Its own classification rules.
    pub classify: Vec<RawRule>,
}

/// Something to say about a policy file, with the place it stands at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it stops the file from being used.
    pub level: Level,
    /// 1-based.
    pub line: usize,
    /// 1-based.
    pub column: usize,
    /// One line.
    pub message: String,
    /// The message with file, line, excerpt and caret, as a person reads it.
    pub rendered: String,
}

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Worth knowing.
    Note,
    /// Probably not what was meant.
    Warning,
    /// The file cannot be used.
    Error,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("policy file {path} cannot be read: {cause}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The file has errors.
    #[error("policy file {path} has {} error(s)", findings.iter().filter(|f| f.level == Level::Error).count(), path = path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        findings: Vec<Finding>,
    },
}

impl Config {
    /// Returns the configuration without a file.
    #[must_use]
    pub fn built_in() -> Self {
        Self { path: None, dependencies: BTreeMap::new() }
    }

    /// Reads and checks a policy file for `surface`.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Unreadable`], or [`ConfigError::Invalid`] with every error found.
    pub fn load(_path: &Path, _surface: Surface) -> Result<(Self, Vec<Finding>), ConfigError> {
        unimplemented!()
    }

    /// Returns the dependency `name`: as the file says, else built-in.
    #[must_use]
    pub fn dependency(&self, name: &str, surface: Surface) -> Dependency {
        self.dependencies
            .get(name)
            .cloned()
            .unwrap_or_else(|| Dependency { policy: Policy::built_in(name, surface), classify: Vec::new() })
    }
}
