//! Finds the policy file where nobody names one.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

/// Whether the current folder may supply a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Here {
    /// It may: a person looks at what is found.
    Taken,
    /// It may not: a cloned folder must not choose what runs.
    Ignored,
}

/// Returns where a person's own policy stands: `$XDG_CONFIG_HOME/halfopen/halfopen.yaml`, else the same below
/// `~/.config`; `None` without a home.
#[must_use]
pub fn default_path() -> Option<PathBuf> {
    let base = etcetera::base_strategy::Xdg::new().ok()?;
    Some(base.config_dir().join("halfopen").join("halfopen.yaml"))
}

/// Returns the policy file to read: the one that was `named` (which then must exist), else a person's own, else the
/// one in the current folder if that is taken; `None` if there is none.
#[must_use]
pub fn locate(named: Option<&Path>, here: Here) -> Option<PathBuf> {
    if let Some(path) = named.filter(|path| !path.as_os_str().is_empty()) {
        return Some(path.to_owned());
    }
    // A file that exists and cannot be read is an error later on, never silently no policy.
    if let Some(path) = default_path().filter(|path| path.symlink_metadata().is_ok()) {
        return Some(path);
    }
    match here {
        Here::Taken => Some(PathBuf::from("halfopen.yaml")).filter(|path| path.symlink_metadata().is_ok()),
        Here::Ignored => None,
    }
}
