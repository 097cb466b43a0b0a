//! Says what an outcome means: its class, whom it is about, what it says about waiting, and on which evidence.
//!
//! The eleven classes are the vocabulary everything else acts on. Their effects stand here, in exhaustive matches, and
//! nowhere else; which facts lead to which class is data (the rule packs).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::outcome::Reached;
use crate::time::Timestamp;

/// What an attempt's outcome means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// It worked.
    Success,
    /// Too many calls of this account; heals soon.
    RateLimited,
    /// The dependency has too much to do; heals soon.
    Overloaded,
    /// A subscription window or daily allowance is used up; heals at a known hour.
    UsageLimit,
    /// No answer in time.
    Timeout,
    /// Not reached: refused, name not found, TLS.
    ConnectionFailure,
    /// The dependency failed, or broke off.
    ServerError,
    /// Money or an allowance ran out that time alone does not refill.
    QuotaExhausted,
    /// The credential was refused.
    Auth,
    /// The call itself is wrong; sending it again changes nothing.
    InvalidRequest,
    /// It failed and nothing was recognised.
    UnknownFailure,
}

impl Class {
    /// Every class, in the order of the documentation.
    pub const ALL: [Self; 11] = [
        Self::Success,
        Self::RateLimited,
        Self::Overloaded,
        Self::UsageLimit,
        Self::Timeout,
        Self::ConnectionFailure,
        Self::ServerError,
        Self::QuotaExhausted,
        Self::Auth,
        Self::InvalidRequest,
        Self::UnknownFailure,
    ];

    /// Returns the name used in policies, reports, metrics and `--json`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::UsageLimit => "usage_limit",
            Self::Timeout => "timeout",
            Self::ConnectionFailure => "connection_failure",
            Self::ServerError => "server_error",
            Self::QuotaExhausted => "quota_exhausted",
            Self::Auth => "auth",
            Self::InvalidRequest => "invalid_request",
            Self::UnknownFailure => "unknown_failure",
        }
    }

    /// Returns whom a verdict of this class is about unless its rule says otherwise.
    #[must_use]
    pub const fn about(self) -> About {
        match self {
            Self::Overloaded | Self::Timeout | Self::ConnectionFailure | Self::ServerError => About::Place,
            Self::RateLimited | Self::UsageLimit | Self::QuotaExhausted | Self::Auth => About::Account,
            Self::InvalidRequest => About::Caller,
            Self::Success | Self::UnknownFailure => About::Nobody,
        }
    }

    /// Returns whether time alone heals this class, soon or at a known hour.
    #[must_use]
    pub const fn heals(self) -> bool {
        match self {
            Self::RateLimited
            | Self::Overloaded
            | Self::UsageLimit
            | Self::Timeout
            | Self::ConnectionFailure
            | Self::ServerError => true,
            Self::Success | Self::QuotaExhausted | Self::Auth | Self::InvalidRequest | Self::UnknownFailure => false,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that names no class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown class `{0}`")]
pub struct UnknownClass(pub String);

impl FromStr for Class {
    type Err = UnknownClass;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|class| class.as_str() == word).ok_or_else(|| UnknownClass(word.to_owned()))
    }
}

/// Whom a verdict is about, and so which of a call's circuits it settles on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The dependency, or its region.
    Place,
    /// The credential, its owner's allowance, or one model of it.
    Account,
    /// The call itself.
    Caller,
    /// Nobody in particular.
    Nobody,
}

/// Where a hint was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintSource {
    /// A header in milliseconds (`retry-after-ms` and kin).
    MillisHeader,
    /// `Retry-After` (RFC 9110 section 10.2.3).
    RetryAfter,
    /// A field of a structured body or event.
    Body,
    /// A reset header whose counter is exhausted.
    ResetHeader,
    /// A sentence.
    Text,
    /// The pack's own knowledge: no time was stated.
    PackDefault,
}

impl HintSource {
    /// Returns the name used in reports and `--json`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MillisHeader => "millis_header",
            Self::RetryAfter => "retry_after",
            Self::Body => "body",
            Self::ResetHeader => "reset_header",
            Self::Text => "text",
            Self::PackDefault => "pack_default",
        }
    }
}

/// How much of the account or place a hint speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of it.
    Whole,
    /// Only the part that this `split_by` key would tell apart (`model`, `region`, …).
    Part(String),
}

/// What the dependency said about waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The instant before which no further call should be sent: the reading's `now` plus `wait`. Never cut.
    pub until: Timestamp,
    /// The wait, counted from the reading.
    pub wait: Duration,
    /// Where it was read.
    pub source: HintSource,
    /// What it covers.
    pub scope: Scope,
}

/// What the dependency said about trying again, beside the class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RetryAdvice {
    /// Nothing.
    #[default]
    Unsaid,
    /// `x-should-retry: true` and kin.
    Allowed,
    /// `x-should-retry: false`, a negative pushback and kin.
    Forbidden,
}

/// Whether a failed command had already done something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Work {
    /// Its output cannot tell.
    #[default]
    Unknown,
    /// Its output shows that no turn and no tool use took place.
    None,
    /// Its output shows a turn or a tool use.
    Shown,
}

/// What kind of fact a verdict rests on, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvidenceKind {
    /// A known error code.
    Code,
    /// The name of the limiter that fired.
    Limiter,
    /// A counter that reads 0.
    Counter,
    /// An envelope that says it failed (`is_error`, `ok: false`).
    Envelope,
    /// The text of a message.
    Text,
    /// The status or exit code alone.
    Status,
    /// Nothing spoke against success.
    Nothing,
}

impl EvidenceKind {
    /// Returns the name used in reports and `--json`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Limiter => "limiter",
            Self::Counter => "counter",
            Self::Envelope => "envelope",
            Self::Text => "text",
            Self::Status => "status",
            Self::Nothing => "nothing",
        }
    }
}

/// The fact a verdict rests on, fit to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// What kind of fact it is.
    pub kind: EvidenceKind,
    /// Where it was found (`stderr, last line`, `header x-amzn-errortype`, `exit code`).
    pub place: String,
    /// What stood there: one line, at most 240 characters, secrets replaced.
    pub excerpt: String,
}

/// What an outcome means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its class.
    pub class: Class,
    /// Whom it is about.
    pub about: About,
    /// What was said about waiting.
    pub hint: Option<Hint>,
    /// What was said about trying again.
    pub retry: RetryAdvice,
    /// How far the attempt got.
    pub reached: Reached,
    /// Whether the attempt shows work.
    pub work: Work,
    /// The rule that spoke, as `pack/rule`.
    pub rule: String,
    /// What it spoke on.
    pub evidence: Evidence,
    /// The session in which the tool can go on, if it named one.
    pub session: Option<String>,
    /// The account the output names, if it does.
    pub account: Option<String>,
    /// The model it names, if it does: what `split_by: [model]` would tell apart.
    pub model: Option<String>,
}

impl Verdict {
    /// Returns a verdict of `class` that no rule pack was asked for: `rule` names who speaks.
    #[must_use]
    pub fn plain(class: Class, rule: &str, reached: Reached) -> Self {
        Self {
            class,
            about: class.about(),
            hint: None,
            retry: RetryAdvice::Unsaid,
            reached,
            work: Work::Unknown,
            rule: rule.to_owned(),
            evidence: Evidence { kind: EvidenceKind::Nothing, place: String::new(), excerpt: String::new() },
            session: None,
            account: None,
            model: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_read_back_from_its_name() {
        for class in Class::ALL {
            assert_eq!(class.as_str().parse(), Ok(class));
        }
        assert_eq!("overload".parse::<Class>(), Err(UnknownClass("overload".into())));
    }

    #[test]
    fn a_class_is_shown_as_its_name_in_any_width() {
        assert_eq!(format!("[{:>9}] [{:<5}]", Class::Timeout, Class::Auth), "[  timeout] [auth ]");
    }

    /// `--json` and reports say these words; scripts branch on them.
    #[test]
    fn every_source_and_every_kind_of_evidence_has_its_word() {
        use HintSource::{Body, MillisHeader, PackDefault, ResetHeader, RetryAfter, Text};
        let sources = [MillisHeader, RetryAfter, Body, ResetHeader, Text, PackDefault].map(HintSource::as_str);
        assert_eq!(sources, ["millis_header", "retry_after", "body", "reset_header", "text", "pack_default"]);
        use EvidenceKind as Kind;
        let kinds = [Kind::Code, Kind::Limiter, Kind::Counter, Kind::Envelope, Kind::Text, Kind::Status, Kind::Nothing];
        let words = ["code", "limiter", "counter", "envelope", "text", "status", "nothing"];
        assert_eq!(kinds.map(EvidenceKind::as_str), words);
        assert!(kinds.is_sorted(), "strongest first");
    }
}
