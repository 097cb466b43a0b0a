//! Names a circuit: a dependency, and the partition of it that is judged apart.
//!
//! Written `ocr`, `ocr@region=eu`, `ocr@credential=main`. Names are compared as written after normalisation, so that
//! two spellings of one host do not become two circuits.

use std::fmt;
use std::str::FromStr;

/// The name of a circuit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CircuitId {
    dependency: String,
    partition: Option<(String, String)>,
}

/// Why a word names no circuit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CircuitIdError {
    /// No dependency.
    #[error("circuit name `{0}` has no dependency; write NAME or NAME@key=value")]
    NoDependency(String),
    /// An `@` without `key=value` behind it.
    #[error("circuit name `{0}` has `@` but no `key=value` behind it; write NAME or NAME@key=value")]
    NoPartition(String),
    /// A character that would make names ambiguous or unprintable.
    #[error("circuit name `{0}` has a character that names may not have: `@`, `=`, white space or a control character")]
    Character(String),
    /// Too long.
    #[error("circuit name is {0} bytes long, at most 256 are allowed")]
    TooLong(usize),
}

impl CircuitId {
    /// Returns the circuit of a whole dependency.
    ///
    /// # Errors
    ///
    /// As [`CircuitId::from_str`].
    pub fn whole(dependency: &str) -> Result<Self, CircuitIdError> {
        checked(dependency, dependency)?;
        Ok(Self { dependency: dependency.to_owned(), partition: None })
    }

    /// Returns the circuit of one partition of a dependency.
    ///
    /// # Errors
    ///
    /// As [`CircuitId::from_str`].
    pub fn part(dependency: &str, key: &str, value: &str) -> Result<Self, CircuitIdError> {
        let whole = format!("{dependency}@{key}={value}");
        for word in [dependency, key, value] {
            checked(word, &whole)?;
        }
        Ok(Self { dependency: dependency.to_owned(), partition: Some((key.to_owned(), value.to_owned())) })
    }

    /// Returns the dependency.
    #[must_use]
    pub fn dependency(&self) -> &str {
        &self.dependency
    }

    /// Returns the partition's key and value.
    #[must_use]
    pub fn partition(&self) -> Option<(&str, &str)> {
        self.partition.as_ref().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

fn checked(word: &str, whole: &str) -> Result<(), CircuitIdError> {
    if word.is_empty() {
        return Err(CircuitIdError::NoDependency(whole.to_owned()));
    }
    if whole.len() > 256 {
        return Err(CircuitIdError::TooLong(whole.len()));
    }
    if word.chars().any(|c| c == '@' || c == '=' || c.is_whitespace() || c.is_control()) {
        return Err(CircuitIdError::Character(whole.to_owned()));
    }
    Ok(())
}

impl fmt::Display for CircuitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.partition {
            None => f.pad(&self.dependency),
            Some((key, value)) => f.pad(&format!("{}@{key}={value}", self.dependency)),
        }
    }
}

impl FromStr for CircuitId {
    type Err = CircuitIdError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word.split_once('@') {
            None => Self::whole(word),
            Some((dependency, partition)) => {
                let (key, value) =
                    partition.split_once('=').ok_or_else(|| CircuitIdError::NoPartition(word.to_owned()))?;
                Self::part(dependency, key, value)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("ocr")]
    #[test_case("ocr@region=eu")]
    #[test_case("ocr@credential=main")]
    fn a_name_is_read_back_as_written(word: &str) {
        assert_eq!(word.parse::<CircuitId>().map(|id| id.to_string()), Ok(word.to_owned()));
    }

    #[test]
    fn a_name_has_its_dependency_and_its_partition() {
        let part = CircuitId::part("ocr", "region", "eu").unwrap();
        assert_eq!((part.dependency(), part.partition()), ("ocr", Some(("region", "eu"))));
        let whole = CircuitId::whole("ocr").unwrap();
        assert_eq!((whole.dependency(), whole.partition()), ("ocr", None));
    }

    #[test]
    fn a_name_has_at_most_256_bytes_with_its_partition() {
        let part = |bytes: usize| CircuitId::part("ocr", "region", &"x".repeat(bytes - "ocr@region=".len()));
        assert_eq!(part(256).map(|id| id.to_string().len()), Ok(256));
        assert_eq!(part(257), Err(CircuitIdError::TooLong(257)));
        assert!(CircuitId::whole(&"x".repeat(256)).is_ok());
    }

    #[test_case("" => matches Err(CircuitIdError::NoDependency(_)))]
    #[test_case("@region=eu" => matches Err(CircuitIdError::NoDependency(_)))]
    #[test_case("ocr@" => matches Err(CircuitIdError::NoPartition(_)))]
    #[test_case("ocr@a=b=c" => matches Err(CircuitIdError::Character(_)))]
    #[test_case("o cr" => matches Err(CircuitIdError::Character(_)))]
    fn a_word_that_names_no_circuit_says_why(word: &str) -> Result<CircuitId, CircuitIdError> {
        word.parse()
    }
}
