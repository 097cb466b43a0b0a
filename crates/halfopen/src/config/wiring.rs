//! Holds what a policy says about the ways to and from a dependency: what the surfaces and workers need, and no
//! decision depends on.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The ways to and from one dependency.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Wiring {
    /// The base URL for the gateway.
    pub upstream: Option<String>,
    /// What is added when a call is sent; the first is the default.
    pub credentials: Vec<Credential>,
    /// The other dependency that is asked.
    pub fallback: Option<String>,
    /// The last good answers, kept to answer with.
    pub cache: Option<Cache>,
    /// What calls are kept in order by; `None` is the path for PUT, PATCH and DELETE.
    pub order_by: Option<OrderBy>,
    /// The idempotency key that the dependency honours, as far as the policy says.
    pub idempotency: Option<Idempotency>,
    /// How much may be queued.
    pub queue: QueueBounds,
    /// The programs that are told when a job ends.
    pub on_done: Vec<Channel>,
}

/// A secret, named, and how it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Its name in status and metrics.
    pub name: String,
    /// Where the secret is read.
    pub from: SecretFrom,
    /// The header it is sent in.
    pub header: String,
    /// The word before it, such as `Bearer`.
    pub scheme: Option<String>,
}

/// Where a secret is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretFrom {
    /// A variable of the environment.
    Env(String),
    /// A file, without the white space at its end.
    File(PathBuf),
}

/// How long and how many answers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// How old an answer may be.
    pub max_age: Duration,
    /// How much is kept in all, in bytes.
    pub bytes_max: u64,
}

/// What calls are kept in order by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderBy {
    /// The path.
    Path,
    /// Nothing: they may overtake each other.
    Nothing,
    /// The value of a request header.
    Header(String),
    /// The value of a command's argument.
    Argument(String),
}

/// The idempotency key that a dependency honours.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Idempotency {
    /// The header it is sent in; `None` is the pack's.
    pub header: Option<String>,
    /// How long the dependency remembers it; `None` is the pack's.
    pub lifetime: Option<Duration>,
}

/// How much may be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBounds {
    /// Jobs at most.
    pub jobs_max: u64,
    /// Bytes of their payloads at most.
    pub bytes_max: u64,
    /// How long a finished job is kept.
    pub keep_done: Duration,
}

impl Default for QueueBounds {
    fn default() -> Self {
        Self { jobs_max: 1_000_000, bytes_max: 10 << 30, keep_done: Duration::from_secs(72 * 3600) }
    }
}

/// How an owner is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Channel {
    /// A POST to a URL.
    Webhook {
        /// Where to.
        url: SecretUrl,
        /// The variable of the environment that holds the secret it is signed with.
        secret: Option<String>,
    },
    /// A message to a Slack webhook.
    Slack(SecretUrl),
    /// A mail.
    Email {
        /// To whom.
        to: Vec<String>,
        /// From whom; `None` is the first of those it is for.
        from: Option<String>,
        /// The variable of the environment that holds the mail server's URL.
        smtp: String,
    },
    /// A command with the alert on its standard input.
    Command(Vec<String>),
}

/// An address that may itself be the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretUrl {
    /// As written.
    Written(String),
    /// In a variable of the environment.
    Env(String),
}

/// Owners and how they are reached.
pub type Owners = BTreeMap<String, Vec<Channel>>;
