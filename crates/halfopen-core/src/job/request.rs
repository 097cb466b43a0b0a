//! Holds what a job sends, and what came back.
//!
//! The exact bytes are kept, because a key protects only the same bytes: a request that is written anew with a fresh
//! time stamp is another request to the dependency. Secrets are not among them: whoever makes a request leaves out what
//! is added at sending, and names the credential instead. The stored form is [`crate::snapshot`]'s business.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::outcome::Exit;

/// How much of a command's standard error is kept, in bytes: its end, where tools say why.
pub const STDERR_BYTES_MAX: usize = 64 << 10;

/// What a job sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobRequest {
    /// An HTTP request.
    Http(HttpRequest),
    /// A command.
    Command(CommandRequest),
}

/// Who can perform a job. Jobs of different kinds lie in different lanes, so that no worker meets one that it cannot do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobKind {
    /// Whoever knows where the dependency's requests go to.
    Http,
    /// A worker on the host and of the user that the command was accepted from.
    Command {
        /// The host.
        host: String,
        /// The numeric user.
        user: u32,
    },
}

/// A word that names no kind of job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no kind of job; kinds are `http` and `command:UID:HOST`")]
pub struct UnknownJobKind(pub String);

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http => f.write_str("http"),
            // The host stands last, because it may hold anything.
            Self::Command { host, user } => write!(f, "command:{user}:{host}"),
        }
    }
}

impl FromStr for JobKind {
    type Err = UnknownJobKind;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let command = || {
            let (user, host) = word.strip_prefix("command:")?.split_once(':')?;
            Some(Self::Command { host: host.to_owned(), user: user.parse().ok()? })
        };
        if word == "http" { Ok(Self::Http) } else { command().ok_or_else(|| UnknownJobKind(word.to_owned())) }
    }
}

/// An HTTP request as it was accepted, without what is added when it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method, upper case.
    pub method: String,
    /// Path and query below the dependency's upstream; the host is never the caller's choice.
    pub target: String,
    /// The headers that are sent, in their order; none that is a secret or belongs to one connection.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The name of the credential that is added; `None` is the policy's first.
    pub credential: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// A command as it was accepted, pinned to whom and where it may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRequest {
    /// The host it was accepted on; it runs on no other.
    pub host: String,
    /// The numeric user it was accepted from; it runs as no other.
    pub user: u32,
    /// The absolute path of the executable, as bytes of the platform.
    pub executable: Vec<u8>,
    /// The arguments, the name it is called by first.
    pub argv: Vec<Vec<u8>>,
    /// The working directory.
    pub cwd: Vec<u8>,
    /// Variables that are set, with their values.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Variables that are read from the worker's own environment.
    pub env_from: Vec<String>,
    /// What it reads on standard input.
    pub stdin: Vec<u8>,
    /// Where its standard output is to be written, if it was asked for.
    pub output: Option<Vec<u8>>,
    /// The rule pack that judges it, if its caller named one.
    pub profile: Option<String>,
    /// How long an attempt may take, if its caller said so.
    pub timeout: Option<Duration>,
}

/// What came back from the attempt that ended a job, or what an operator said became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobResult {
    /// An HTTP answer.
    Http {
        /// Its status.
        status: u16,
        /// Its headers, in their order.
        headers: Vec<(String, Vec<u8>)>,
        /// Its body, cut to the store's bound.
        body: Vec<u8>,
        /// Whether the body was cut.
        cut: bool,
    },
    /// The end of a command.
    Command {
        /// How it ended.
        exit: Exit,
        /// Its standard output, cut to the store's bound.
        stdout: Vec<u8>,
        /// The end of its standard error, at most [`STDERR_BYTES_MAX`] bytes, without secrets.
        stderr: String,
        /// Whether its standard output was cut.
        cut: bool,
        /// How long it ran.
        took: Duration,
    },
    /// An operator's words.
    Stated(String),
}

impl JobRequest {
    /// Returns who can perform it.
    #[must_use]
    pub fn kind(&self) -> JobKind {
        match self {
            Self::Http(_) => JobKind::Http,
            Self::Command(command) => JobKind::Command { host: command.host.clone(), user: command.user },
        }
    }

    /// Returns how many bytes it holds, for the queue's bound.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let pairs = |pairs: &[(String, Vec<u8>)]| pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
        let sum: usize = match self {
            Self::Http(http) => {
                let headers: usize = pairs(&http.headers);
                http.method.len() + http.target.len() + headers + http.body.len()
            }
            Self::Command(command) => {
                let env: usize = command.env.iter().map(|(name, value)| name.len() + value.len()).sum();
                let argv: usize = command.argv.iter().map(Vec::len).sum();
                command.executable.len() + argv + command.cwd.len() + env + command.stdin.len()
            }
        };
        sum as u64
    }

    /// Takes the part out that may be large, to be kept apart: the body, or standard input.
    pub fn take_body(&mut self) -> Vec<u8> {
        match self {
            Self::Http(http) => std::mem::take(&mut http.body),
            Self::Command(command) => std::mem::take(&mut command.stdin),
        }
    }

    /// Puts back what [`JobRequest::take_body`] took out.
    pub fn put_body(&mut self, bytes: Vec<u8>) {
        match self {
            Self::Http(http) => http.body = bytes,
            Self::Command(command) => command.stdin = bytes,
        }
    }
}

impl JobResult {
    /// Takes the part out that may be large.
    pub fn take_body(&mut self) -> Vec<u8> {
        match self {
            Self::Http { body, .. } => std::mem::take(body),
            Self::Command { stdout, .. } => std::mem::take(stdout),
            Self::Stated(_) => Vec::new(),
        }
    }

    /// Puts back what [`JobResult::take_body`] took out.
    pub fn put_body(&mut self, bytes: Vec<u8>) {
        match self {
            Self::Http { body, .. } => *body = bytes,
            Self::Command { stdout, .. } => *stdout = bytes,
            Self::Stated(_) => {}
        }
    }

    /// Cuts the part that may be large to `bytes_max`, and says so in the result.
    pub fn cut_to(&mut self, bytes_max: usize) {
        match self {
            Self::Http { body, cut, .. } | Self::Command { stdout: body, cut, .. } => {
                if body.len() > bytes_max {
                    body.truncate(bytes_max);
                    *cut = true;
                }
            }
            Self::Stated(words) => {
                let end =
                    words.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= bytes_max).last();
                words.truncate(end.unwrap_or(0));
            }
        }
    }
}
