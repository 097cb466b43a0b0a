//! Says which gateway is asked, and with which token: `--url` and `--token-file` of every command that asks one.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

/// Which gateway is asked, if one is.
#[derive(Clone, Debug, Args)]
pub struct At {
    /// Ask the gateway there instead of opening the store: http://HOST:PORT, or unix:PATH
    #[arg(long, env = "HALFOPEN_URL", value_name = "URL")]
    pub url: Option<GatewayUrl>,
    /// File with the operator's token; HALFOPEN_TOKEN may hold the token itself
    #[arg(long, env = "HALFOPEN_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// Where a gateway is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatewayUrl {
    /// Host and port.
    Tcp(String),
    /// A unix socket.
    Unix(PathBuf),
}

/// Why there is no token although one was named.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenFault {
    /// Its file cannot be read.
    #[error("token file {path} cannot be read: {cause}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// It is not what a token is.
    #[error("the token is no single word")]
    NoWord,
}

impl At {
    /// Returns the operator's token, if one is named.
    ///
    /// # Errors
    ///
    /// [`TokenFault`].
    pub(crate) fn token(&self) -> Result<Option<String>, TokenFault> {
        token(self.token_file.as_ref(), "HALFOPEN_TOKEN")
    }
}

/// Returns the token in a file, else the one in a variable of the environment.
///
/// # Errors
///
/// [`TokenFault`].
pub(crate) fn token(file: Option<&PathBuf>, variable: &str) -> Result<Option<String>, TokenFault> {
    let token = match file {
        Some(path) => {
            Some(std::fs::read_to_string(path).map_err(|cause| TokenFault::Unreadable { path: path.clone(), cause })?)
        }
        None => std::env::var(variable).ok(),
    };
    let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
    match token {
        Some(token) if !token.bytes().all(|byte| byte.is_ascii_graphic()) => Err(TokenFault::NoWord),
        token => Ok(token),
    }
}

impl FromStr for GatewayUrl {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let wrong = || "write http://HOST:PORT or unix:PATH".to_owned();
        if let Some(path) = word.strip_prefix("unix:") {
            return if path.is_empty() { Err(wrong()) } else { Ok(Self::Unix(PathBuf::from(path))) };
        }
        if word.starts_with("https://") {
            return Err(
                "TLS is not spoken here; ask on the gateway's machine, at http://HOST:PORT or unix:PATH".to_owned()
            );
        }
        let authority = word.strip_prefix("http://").ok_or_else(wrong)?.trim_end_matches('/');
        let plain = !authority.is_empty() && authority.bytes().all(|byte| byte.is_ascii_graphic());
        if !plain || authority.contains(['/', '?', '#', '@']) {
            return Err(wrong());
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        Ok(Self::Tcp(if has_port { authority.to_owned() } else { format!("{authority}:80") }))
    }
}

impl std::fmt::Display for GatewayUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(authority) => write!(f, "http://{authority}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("http://127.0.0.1:4141" => Ok("http://127.0.0.1:4141".to_owned()))]
    #[test_case("http://localhost/" => Ok("http://localhost:80".to_owned()))]
    #[test_case("http://[::1]:4141" => Ok("http://[::1]:4141".to_owned()))]
    #[test_case("unix:/run/h.sock" => Ok("unix:/run/h.sock".to_owned()))]
    #[test_case("127.0.0.1:4141" => matches Err(_))]
    #[test_case("http://a/d/b" => matches Err(_))]
    #[test_case("https://a" => matches Err(_))]
    #[test_case("unix:" => matches Err(_))]
    fn a_gateway_is_named_by_host_or_socket(word: &str) -> Result<String, String> {
        word.parse::<GatewayUrl>().map(|url| url.to_string())
    }
}
