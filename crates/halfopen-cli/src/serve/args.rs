//! Lists the flags of `halfopen serve`.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use halfopen_core::alert::DRILL;

use super::access::PublicHost;
use crate::duration;
use crate::log::{Format, Level};

/// The flags of `halfopen serve`.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Address to serve on: an IP address or localhost and a port (port 0: any), or unix:PATH
    #[arg(long, env = "HALFOPEN_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:4141")]
    pub listen: Address,
    /// Address of the operators' paths, if they are not to stand beside the calls
    #[arg(long, env = "HALFOPEN_ADMIN_LISTEN", value_name = "ADDRESS")]
    pub admin_listen: Option<Address>,
    /// Tokens of operators, one a line as halfopen token prints it; needed where other machines reach them
    #[arg(long, env = "HALFOPEN_ADMIN_TOKEN_FILE", value_name = "FILE")]
    pub admin_token_file: Option<PathBuf>,
    /// Tokens of callers, shown in Halfopen-Token; needed where other machines call and a credential is added
    #[arg(long, env = "HALFOPEN_CALLER_TOKEN_FILE", value_name = "FILE")]
    pub caller_token_file: Option<PathBuf>,
    /// A further name under which operators reach this gateway, NAME or NAME:PORT
    #[arg(long = "public-host", env = "HALFOPEN_PUBLIC_HOST", value_name = "NAME", value_delimiter = ',')]
    pub public_hosts: Vec<PublicHost>,
    /// Connections at most; further ones wait to be accepted
    #[arg(long, env = "HALFOPEN_MAX_CONNECTIONS", value_name = "N", default_value = "4096", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_connections: u32,
    /// How often the figures of each dependency are written down, also when all are 0
    #[arg(long, env = "HALFOPEN_ACTIVATION_INTERVAL", value_name = "DURATION", default_value = "60s", value_parser = duration::parse_positive)]
    pub activation_interval: Duration,
    /// How often the figures of each dependency are said in the log, also when all are 0
    #[arg(long, env = "HALFOPEN_SUMMARY_INTERVAL", value_name = "DURATION", default_value = "24h", value_parser = duration::parse_positive)]
    pub summary_interval: Duration,
    /// The form of the log on standard error
    #[arg(long, env = "HALFOPEN_LOG_FORMAT", value_name = "FORM", value_enum, default_value = "text")]
    pub log_format: Format,
    /// Lines of lower levels are not written
    #[arg(long, env = "HALFOPEN_LOG_LEVEL", value_name = "LEVEL", value_enum, default_value = "info")]
    pub log_level: Level,
    /// Base URL of a dependency, as if it stood in the policy file; may be given again, or several with spaces
    #[arg(long = "upstream", env = "HALFOPEN_UPSTREAM", value_name = "NAME=URL", value_delimiter = ' ')]
    pub upstreams: Vec<NamedUrl>,
    /// Worker threads [default: one for each core]
    #[arg(long, env = "HALFOPEN_THREADS", value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// How long calls may take to finish after SIGTERM; a second SIGTERM ends them at once
    #[arg(long, env = "HALFOPEN_SHUTDOWN_GRACE", value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    pub shutdown_grace: Duration,
    /// How long new calls are still accepted after SIGTERM, while /readyz already says no
    #[arg(long, env = "HALFOPEN_SHUTDOWN_PAUSE", value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    pub shutdown_pause: Duration,
}

/// Where a listener stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An IP address and a port.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Returns whether only this machine reaches it.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        if let Some(path) = word.strip_prefix("unix:") {
            return if path.is_empty() {
                Err("no path behind `unix:`; write unix:/run/halfopen.sock".to_owned())
            } else {
                Ok(Self::Unix(PathBuf::from(path)))
            };
        }
        let word = word.strip_prefix("localhost:").map_or_else(|| word.to_owned(), |port| format!("127.0.0.1:{port}"));
        word.parse().map(Self::Tcp).map_err(|_| {
            "no address; write an IP address or localhost and a port (127.0.0.1:4141, [::1]:4141, localhost:4141), or \
             unix:PATH"
                .to_owned()
        })
    }
}

/// The base URL of a dependency, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedUrl {
    /// The dependency.
    pub name: String,
    /// Its base URL, as written.
    pub url: String,
}

impl FromStr for NamedUrl {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word.split_once('=') {
            Some((name, _)) if name.contains(DRILL) => {
                Err(format!("names with `{DRILL}` in them are those of rehearsals; name it without"))
            }
            Some((name, url)) if !name.is_empty() && !url.is_empty() => {
                Ok(Self { name: name.to_owned(), url: url.to_owned() })
            }
            _ => Err("write NAME=URL, for example ocr=https://ocr.example.com/v1".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("127.0.0.1:4141", true)]
    #[test_case("localhost:4141", true)]
    #[test_case("[::1]:0", true)]
    #[test_case("0.0.0.0:4141", false)]
    #[test_case("unix:/run/halfopen.sock", true)]
    fn an_address_is_local_or_not(word: &str, local: bool) {
        assert_eq!(word.parse::<Address>().unwrap().is_local(), local);
    }

    #[test_case("4141"; "a port alone")]
    #[test_case("ocr.example.com:80"; "a name")]
    #[test_case("unix:"; "no path")]
    #[test_case(""; "nothing")]
    fn what_is_no_address_is_refused(word: &str) {
        assert!(word.parse::<Address>().is_err());
    }
}
