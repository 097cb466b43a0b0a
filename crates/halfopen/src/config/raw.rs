//! Holds the rough form of a policy file: every key optional, every value of the kind and in the range its key allows.
//!
//! `reader` and `value` fill it. Nothing is decided here about two keys together: that is `resolve` and `check`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use halfopen_core::classify::raw::RawRule;
use halfopen_core::policy::ProbeWith;

use super::tree::Node;
use super::wiring::Channel;

/// What a channel of `alerts` may be.
pub(super) const CHANNELS: &[&str] = &["webhook", "webhook_from_env", "slack", "slack_from_env", "email", "command"];

/// What a receiver of `on_done` may be.
pub(super) const RECEIVERS: &[&str] = &["webhook", "webhook_from_env", "command"];

/// How many receivers a dependency has at most.
pub(super) const RECEIVERS_MAX: usize = 8;

/// A file as it is written.
#[derive(Clone, Debug, Default)]
pub(super) struct RawFile {
    pub(super) dependencies: Vec<Raw>,
    pub(super) defaults: Raw,
    pub(super) alerts: Vec<RawOwner>,
    pub(super) store: Option<String>,
}

/// The keys of one dependency as they are written, by path.
#[derive(Clone, Debug, Default)]
pub(super) struct Raw {
    pub(super) given: BTreeMap<&'static str, Given>,
    /// Where the block begins.
    pub(super) span: Range<usize>,
}

/// A written value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) value: Written,
    pub(super) span: Range<usize>,
}

/// A value of the kind its key allows.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Written {
    Group,
    Text(String),
    Bool(bool),
    Count(u64),
    Number(f64),
    Time(Duration),
    Words(Vec<String>),
    Probe(ProbeWith),
    Credentials(Vec<RawCredential>),
    Receivers(Vec<Channel>),
    /// Each with the block it was read from.
    Rules(Vec<(RawRule, Node)>),
}

/// A credential as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawCredential {
    pub(super) name: String,
    pub(super) from_env: Option<String>,
    pub(super) from_file: Option<String>,
    pub(super) header: Option<String>,
    pub(super) scheme: Option<String>,
}

/// An owner and how to reach them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawOwner {
    pub(super) name: String,
    /// How they are reached.
    pub(super) channels: Vec<Channel>,
    pub(super) span: Range<usize>,
}

impl Raw {
    /// Returns what is written at `path`.
    pub(super) fn get(&self, path: &str) -> Option<&Given> {
        self.given.get(path)
    }

    /// Returns where `path` is written, else where the block begins.
    pub(super) fn span_of(&self, path: &str) -> Range<usize> {
        self.get(path).map_or_else(|| self.span.clone(), |given| given.span.clone())
    }

    /// Returns this block with the keys of `defaults` where it is silent.
    pub(super) fn over(&self, defaults: &Self) -> Self {
        let mut given = defaults.given.clone();
        given.extend(self.given.iter().map(|(path, value)| (*path, value.clone())));
        Self { given, span: self.span.clone() }
    }

    pub(super) fn text(&self, path: &str) -> Option<String> {
        match &self.get(path)?.value {
            Written::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    pub(super) fn bool(&self, path: &str) -> Option<bool> {
        match self.get(path)?.value {
            Written::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn count(&self, path: &str) -> Option<u64> {
        match self.get(path)?.value {
            Written::Count(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn number(&self, path: &str) -> Option<f64> {
        match self.get(path)?.value {
            Written::Number(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn time(&self, path: &str) -> Option<Duration> {
        match self.get(path)?.value {
            Written::Time(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn words(&self, path: &str) -> Option<Vec<String>> {
        match &self.get(path)?.value {
            Written::Words(words) => Some(words.clone()),
            _ => None,
        }
    }
}
