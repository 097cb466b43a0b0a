//! Reads the policy file: a rough form with every key optional in, trusted policies out, checked once.
//!
//! The way of a file: `tree` reads any YAML and knows where each value stands; `reader` takes from it what `keys` allows;
//! `resolve` refuses keys that cannot stand together and fills in the defaults; `check` warns of what is allowed and
//! probably not meant. Every mistake of a file is reported, not only the first. `schema` says the same to editors.

pub mod keys;
pub mod schema;
mod tree;
mod raw;
mod reader;
mod value;
mod outside;
mod rules;
mod suggest;
mod finding;
mod resolve;
mod check;
mod locate;
mod wiring;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use halfopen_core::classify::raw::RawRule;
use halfopen_core::policy::{Policy, Surface};

pub use self::check::Demand;
pub use self::finding::{Finding, Level};
pub use self::locate::{Here, default_path, locate};
pub use self::wiring::{
    Cache, Channel, Credential, Idempotency, OrderBy, Owners, QueueBounds, SecretFrom, SecretUrl, Wiring,
};

use self::finding::{Remark, Source};
use self::raw::{Raw, RawFile};
use self::reader::Reader;

/// A policy file that was read and checked.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Where it was read; `None` for the built-in policy.
    pub path: Option<PathBuf>,
    /// The dependencies it names.
    pub dependencies: BTreeMap<String, Dependency>,
    /// Owners and how they are reached.
    pub owners: Owners,
    /// Where circuits are kept, if the file says so.
    pub store: Option<String>,
    /// What holds for a dependency that the file does not name.
    defaults: Raw,
}

/// One dependency of a policy file.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// Its resolved rules.
    pub policy: Policy,
    /// The ways to and from it.
    pub wiring: Wiring,
    /// Its own classification rules.
    pub classify: Vec<RawRule>,
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
    #[error("policy file {path} has {}", counted(findings), path = path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what else there is to say, in the order of the file.
        findings: Vec<Finding>,
    },
}

fn counted(findings: &[Finding]) -> String {
    match findings.iter().filter(|finding| finding.level == Level::Error).count() {
        1 => "1 error".to_owned(),
        n => format!("{n} errors"),
    }
}

impl Config {
    /// Returns the configuration without a file.
    #[must_use]
    pub fn built_in() -> Self {
        Self::default()
    }

    /// Finds and reads the policy file: the one that was `named`, else the person's own, else none. What is found in
    /// the current folder is never taken, and nothing is said about what may be meant otherwise.
    ///
    /// # Errors
    ///
    /// As [`Config::load`].
    pub fn find(named: Option<&Path>, surface: Surface) -> Result<Self, ConfigError> {
        match locate(named, Here::Ignored) {
            Some(path) => Ok(Self::judged(&read(&path)?, &path, Some(surface), Demand::Usable, OwnRules::Taken)?.0),
            None => Ok(Self::built_in()),
        }
    }

    /// Finds and reads the policy file as [`Config::find`] does, each dependency for the surface it is written for: with the
    /// gateway's defaults if the file says where it is, else with the wrapper's. For whoever shows what others do.
    ///
    /// # Errors
    ///
    /// As [`Config::load`].
    pub fn find_as_written(named: Option<&Path>) -> Result<Self, ConfigError> {
        match locate(named, Here::Ignored) {
            Some(path) => Ok(Self::judged(&read(&path)?, &path, None, Demand::Usable, OwnRules::Taken)?.0),
            None => Ok(Self::built_in()),
        }
    }

    /// Reads and checks a policy file for `surface`. The findings are its warnings.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Unreadable`], or [`ConfigError::Invalid`] with every error found.
    pub fn load(path: &Path, surface: Surface) -> Result<(Self, Vec<Finding>), ConfigError> {
        let text = read(path)?;
        let (config, findings) = Self::parse(&text, path, Some(surface), Demand::Usable)?;
        Ok((config, findings.into_iter().filter(|finding| finding.level == Level::Warning).collect()))
    }

    /// Reads a policy file and says all there is to say about it, for the surface each dependency is written for:
    /// the gateway where it has an `upstream`, else the wrapper.
    ///
    /// # Errors
    ///
    /// As [`Config::load`].
    pub fn check(path: &Path, demand: Demand) -> Result<(Self, Vec<Finding>), ConfigError> {
        let text = read(path)?;
        Self::parse(&text, path, None, demand)
    }

    /// Reads the text of a policy file that is called `path` in messages.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with every error found.
    pub fn parse(
        text: &str,
        path: &Path,
        surface: Option<Surface>,
        demand: Demand,
    ) -> Result<(Self, Vec<Finding>), ConfigError> {
        let (config, remarks) = Self::judged(text, path, surface, demand, OwnRules::Tried)?;
        Ok((config, rendered(text, path, &remarks)))
    }

    /// Reads a text and gathers the remarks about it; only errors are rendered.
    fn judged(
        text: &str,
        path: &Path,
        surface: Option<Surface>,
        demand: Demand,
        own: OwnRules,
    ) -> Result<(Self, Vec<Remark>), ConfigError> {
        let mut reader = Reader::new(Source { name: "", text });
        let file = match tree::parse(text) {
            Ok(root) => {
                let file = reader.file(&root);
                resolve::checked(&mut reader, &file);
                check::check(&mut reader, &file, surface, demand);
                if own == OwnRules::Tried {
                    check::own_rules(&mut reader, &file);
                }
                file
            }
            Err(malformed) => {
                reader.error(&malformed.at, malformed.message, malformed.help);
                RawFile::default()
            }
        };
        let mut remarks = reader.remarks;
        remarks.sort_by_key(|remark| (remark.span.start, std::cmp::Reverse(remark.level)));
        if remarks.iter().any(|remark| remark.level == Level::Error) {
            return Err(ConfigError::Invalid { path: path.to_owned(), findings: rendered(text, path, &remarks) });
        }
        Ok((Self::resolved(file, path, surface), remarks))
    }

    fn resolved(file: RawFile, path: &Path, surface: Option<Surface>) -> Self {
        let mut dependencies = BTreeMap::new();
        for own in &file.dependencies {
            let raw = own.over(&file.defaults);
            let Some(name) = own.text("name") else { continue };
            let surface = surface.unwrap_or_else(|| written_for(&raw));
            let dependency = resolve::dependency(&raw, &name, surface);
            dependencies.insert(name, dependency);
        }
        let owners = resolve::owners(&file.alerts);
        Self { path: Some(path.to_owned()), dependencies, owners, store: file.store, defaults: file.defaults }
    }

    /// Returns the dependency `name`: as the file says, else the file's defaults over the built-in policy.
    #[must_use]
    pub fn dependency(&self, name: &str, surface: Surface) -> Dependency {
        match self.dependencies.get(name) {
            Some(dependency) => dependency.clone(),
            None => resolve::dependency(&self.defaults, name, surface),
        }
    }
}

/// What is done about own classification rules while a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnRules {
    /// They are compiled and their examples run.
    Tried,
    /// They are taken as they are: whoever uses them compiles them and says what is wrong.
    Taken,
}

fn rendered(text: &str, path: &Path, remarks: &[Remark]) -> Vec<Finding> {
    let name = path.display().to_string();
    let source = Source { name: &name, text };
    remarks.iter().map(|remark| source.finding(remark)).collect()
}

/// Returns the surface a dependency is written for.
fn written_for(raw: &Raw) -> Surface {
    if raw.get("upstream").is_some() { Surface::Serve } else { Surface::Run }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |cause| ConfigError::Unreadable { path: path.to_owned(), cause };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    // A device or a pipe may never end.
    file.take(tree::FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > tree::FILE_BYTES_MAX {
        let cause = format!("it is larger than {}", keys::bytes(tree::FILE_BYTES_MAX as u64));
        return Err(unreadable(std::io::Error::new(std::io::ErrorKind::FileTooLarge, cause)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let cause = format!("byte {at} is not UTF-8");
        unreadable(std::io::Error::new(std::io::ErrorKind::InvalidData, cause))
    })
}
