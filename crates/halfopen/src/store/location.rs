//! Says where a store is: reads the word of `--store` and `HALFOPEN_STORE`, and knows the default place.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::StoreError;

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In this process only, gone with it; every opening is a store of its own.
    Memory,
    /// A SQLite file.
    Sqlite(PathBuf),
}

impl Location {
    /// Returns the place that is used where none is named: `$XDG_STATE_HOME/halfopen/halfopen.db`, or
    /// `~/.local/state/halfopen/halfopen.db`.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoHome`] if neither variable is an absolute path.
    pub fn default_place() -> Result<Self, StoreError> {
        Self::default_place_of(
            std::env::var_os("XDG_STATE_HOME").map(PathBuf::from),
            std::env::var_os("HOME").map(PathBuf::from),
        )
    }

    fn default_place_of(state: Option<PathBuf>, home: Option<PathBuf>) -> Result<Self, StoreError> {
        // The XDG base directory specification: a relative path is to be ignored.
        let absolute = |path: PathBuf| path.is_absolute().then_some(path);
        let state = state.and_then(absolute).or_else(|| home.and_then(absolute).map(|home| home.join(".local/state")));
        state.map(|dir| Self::Sqlite(dir.join("halfopen/halfopen.db"))).ok_or(StoreError::NoHome)
    }

    /// Returns the file, if there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Memory => None,
            Self::Sqlite(path) => Some(path),
        }
    }
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Sqlite(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for Location {
    type Err = StoreError;

    /// Reads a path, `sqlite:PATH` or `memory:`.
    fn from_str(word: &str) -> Result<Self, StoreError> {
        let refuse = |cause| Err(StoreError::BadLocation { word: word.to_owned(), cause });
        if word == "memory:" {
            return Ok(Self::Memory);
        }
        if word.starts_with("postgres://") || word.starts_with("postgresql://") {
            return Err(StoreError::NoPostgres);
        }
        let path = word.strip_prefix("sqlite:").unwrap_or(word);
        if path.is_empty() {
            return refuse("it names no file");
        }
        if path.contains('\0') {
            return refuse("a file name cannot contain a zero byte");
        }
        if path.ends_with('/') {
            return refuse("it names a directory; name a file in it");
        }
        if path == word && word.split_once("://").is_some_and(|(scheme, _)| !scheme.contains('/')) {
            return refuse("no such kind of store is known; write a path, sqlite:PATH or memory:");
        }
        Ok(Self::Sqlite(PathBuf::from(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("memory:", Location::Memory)]
    #[test_case("/var/lib/h.db", Location::Sqlite("/var/lib/h.db".into()))]
    #[test_case("sqlite:/var/lib/h.db", Location::Sqlite("/var/lib/h.db".into()))]
    #[test_case("state/h.db", Location::Sqlite("state/h.db".into()))]
    #[test_case("sqlite:h.db", Location::Sqlite("h.db".into()))]
    #[test_case("odd/a://b", Location::Sqlite("odd/a://b".into()))]
    fn word_names_a_store(word: &str, location: Location) {
        assert_eq!(word.parse::<Location>().unwrap(), location);
    }

    #[test_case("", "names no file")]
    #[test_case("sqlite:", "names no file")]
    #[test_case("/var/lib/", "names a directory")]
    #[test_case("mysql://h/x", "no such kind of store")]
    #[test_case("postgres://db/halfopen", "not in this version")]
    #[test_case("postgresql://db/halfopen", "not in this version")]
    fn word_that_names_no_store_says_why(word: &str, cause: &str) {
        let error = word.parse::<Location>().unwrap_err().to_string();
        assert!(error.contains(cause), "{error}");
    }

    #[test_case(Some("/s"), Some("/home/u"), "/s/halfopen/halfopen.db")]
    #[test_case(None, Some("/home/u"), "/home/u/.local/state/halfopen/halfopen.db")]
    #[test_case(Some("relative"), Some("/home/u"), "/home/u/.local/state/halfopen/halfopen.db"; "a relative state home is ignored")]
    fn default_place_follows_the_base_directories(state: Option<&str>, home: Option<&str>, path: &str) {
        let place = Location::default_place_of(state.map(PathBuf::from), home.map(PathBuf::from)).unwrap();
        assert_eq!(place, Location::Sqlite(path.into()));
    }

    #[test]
    fn without_a_home_there_is_no_default_place() {
        let error = Location::default_place_of(None, None).unwrap_err();
        assert!(matches!(error, StoreError::NoHome), "{error}");
    }
}
