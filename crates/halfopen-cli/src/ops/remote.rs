//! Asks a running gateway instead of opening its store: `--url`.
//!
//! The commands need one request and one answer at a time, so this is a blocking client of a hundred lines and no async
//! runtime: HTTP/1.1 on a connection of its own, a bound on what is read, a deadline on every step. TLS is left to
//! whoever puts a gateway behind it; a gateway on this machine is reached on the loopback or by its unix socket.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;

use super::Failure;
use crate::exit;
use crate::gateway_url::TokenFault;
pub use crate::gateway_url::{At, GatewayUrl};

/// How long a connection, and each piece of an answer, may take. A gateway waits up to five seconds for its store.
const WITHIN: Duration = Duration::from_secs(15);
/// How long what looks at every job may take.
const THOROUGHLY_WITHIN: Duration = Duration::from_secs(600);
/// The longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// What begins the type of every problem of a gateway.
const PROBLEM: &str = "urn:halfopen:problem:";

/// A gateway that is asked.
pub(super) struct Remote {
    url: GatewayUrl,
    token: Option<String>,
    /// How long each piece of an answer may take.
    patience: Duration,
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl Remote {
    /// Returns the gateway that is to be asked, if one is named.
    pub(super) fn named(at: &At) -> Result<Option<Self>, Failure> {
        let Some(url) = at.url.clone() else { return Ok(None) };
        let token = at.token().map_err(|fault| match &fault {
            TokenFault::Unreadable { .. } => Failure::new(exit::IO, fault),
            TokenFault::NoWord => Failure::new(exit::USAGE, fault)
                .hint("the file holds what halfopen token NAME printed, not the gateway's file of hashes"),
        })?;
        Ok(Some(Self { url, token, patience: WITHIN }))
    }

    /// Returns the URL.
    pub(super) fn url(&self) -> &GatewayUrl {
        &self.url
    }

    /// Asks for a document, as text.
    pub(super) fn get(&self, target: &str) -> Result<String, Failure> {
        self.ask("GET", target, None)
    }

    /// Asks for a list of documents.
    pub(super) fn list(&self, target: &str) -> Result<Vec<Value>, Failure> {
        self.parsed(&self.get(target)?)
    }

    /// Asks for a change; returns what was changed.
    pub(super) fn post(&self, target: &str, body: &Value) -> Result<Vec<Value>, Failure> {
        self.parsed(&self.ask("POST", target, Some(&body.to_string()))?)
    }

    /// Returns the failure of an answer that is not what a gateway of this version gives.
    pub(super) fn strange(&self, why: &str) -> Failure {
        Failure::new(exit::IO, format!("what {} answers is not understood: {why}", self.url))
            .hint("the gateway may be of another version; halfopen --version and GET /healthz tell")
    }

    fn parsed(&self, text: &str) -> Result<Vec<Value>, Failure> {
        serde_json::from_str(text).map_err(|error| self.strange(&error.to_string()))
    }

    /// Asks for one document.
    pub(super) fn document(&self, target: &str) -> Result<Value, Failure> {
        serde_json::from_str(&self.get(target)?).map_err(|error| self.strange(&error.to_string()))
    }

    /// Asks for a change of one thing; returns it as it is now.
    pub(super) fn change(&self, target: &str, body: &Value) -> Result<Value, Failure> {
        let text = self.ask("POST", target, Some(&body.to_string()))?;
        serde_json::from_str(&text).map_err(|error| self.strange(&error.to_string()))
    }

    /// Asks for something that was kept as it came, whatever its status; `None` if nothing was. The last word says whether
    /// it was cut when it was kept.
    pub(super) fn kept(&self, target: &str) -> Result<(Vec<u8>, bool), Failure> {
        let answer = self.answered("GET", target, None)?;
        if answer.field("halfopen-job").is_some() {
            let cut = answer.field("halfopen-result-cut").is_some();
            return Ok((answer.body, cut));
        }
        let status = answer.status;
        Err(match answer.text() {
            Some(text) => self.refused(status, &text),
            None => self.strange("its answer is no text"),
        })
    }

    fn ask(&self, method: &str, target: &str, body: Option<&str>) -> Result<String, Failure> {
        let answer = self.answered(method, target, body)?;
        let status = answer.status;
        let text = answer.text().ok_or_else(|| self.strange("its answer is no text"))?;
        if (200..300).contains(&status) {
            return Ok(text);
        }
        Err(self.refused(status, &text))
    }

    fn answered(&self, method: &str, target: &str, body: Option<&str>) -> Result<Answer, Failure> {
        self.exchange(method, target, body).map_err(|error| {
            let failure = Failure::new(exit::IO, format!("gateway {} cannot be reached: {error}", self.url));
            failure.hint(
                "halfopen serve says at its start where operators are answered; without --url the store is opened",
            )
        })
    }

    fn refused(&self, status: u16, text: &str) -> Failure {
        let problem: Value = serde_json::from_str(text).unwrap_or_default();
        if !problem["type"].as_str().is_some_and(|kind| kind.starts_with(PROBLEM)) {
            let message = format!("{} is no gateway of halfopen: it answers {status}", self.url);
            return Failure::new(exit::IO, message).hint("operators may be answered elsewhere: --admin-listen");
        }
        let say = |key: &str| problem[key].as_str().unwrap_or_default().trim_end_matches('.').to_owned();
        let message = format!("{} refuses ({status}): {}. {}", self.url, say("title"), say("detail"));
        match status {
            401 => {
                Failure::new(exit::AUTH, message).hint("name the operator's token with --token-file or HALFOPEN_TOKEN")
            }
            403 => Failure::new(exit::AUTH, message),
            421 => Failure::new(exit::AUTH, message)
                .hint("start the gateway with --public-host NAME to be asked under that name"),
            400 | 404 => Failure::new(exit::USAGE, message),
            // What was asked for is understood, and the state of the thing does not allow it.
            409 => Failure::new(exit::FOUND, message),
            _ => Failure::new(exit::IO, message),
        }
    }

    /// Waits longer for answers, for what looks at every job.
    pub(super) fn patient(self) -> Self {
        Self { patience: THOROUGHLY_WITHIN, ..self }
    }

    fn exchange(&self, method: &str, target: &str, body: Option<&str>) -> io::Result<Answer> {
        let (mut stream, host): (Box<dyn Stream>, &str) = match &self.url {
            GatewayUrl::Tcp(authority) => (Box::new(connect(authority, self.patience)?), authority),
            GatewayUrl::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(self.patience))?;
                stream.set_write_timeout(Some(WITHIN))?;
                (Box::new(stream), "localhost")
            }
        };
        let mut head =
            format!("{method} {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\naccept: application/json\r\n");
        let _ = write!(head, "user-agent: halfopen/{}\r\n", env!("CARGO_PKG_VERSION"));
        if let Some(token) = &self.token {
            let _ = write!(head, "authorization: Bearer {token}\r\n");
        }
        if let Some(body) = body {
            let _ = write!(head, "content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        }
        let _ = write!(head, "\r\n{}", body.unwrap_or_default());
        stream.write_all(head.as_bytes())?;
        stream.flush()?;
        let mut bytes = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
        answer(&bytes)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is no whole answer of HTTP"))
    }
}

fn connect(authority: &str, patience: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in authority.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, WITHIN) {
            Ok(stream) => {
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(WITHIN))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// One answer, whole.
#[derive(Debug)]
struct Answer {
    status: u16,
    /// Names in lower case.
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns its body as text; `None` if it is none.
    fn text(self) -> Option<String> {
        String::from_utf8(self.body).ok()
    }
}

/// Reads one answer that ends with its connection; `None` if it is cut or none.
fn answer(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    let fields = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut answer = Answer { status, fields, body: Vec::new() };
    let body = bytes.get(end + 4..)?;
    answer.body = match (answer.field("transfer-encoding"), answer.field("content-length")) {
        (Some(_), _) => unchunked(body)?,
        (None, Some(length)) => body.get(..length.parse().ok()?)?.to_vec(),
        (None, None) => body.to_vec(),
    };
    Some(answer)
}

fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(rest.get(..end)?).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        rest = rest.get(end + 2..)?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size.checked_add(2)?..)?;
    }
}

/// Returns a word as one segment of a path, or as a value of a query.
pub(super) fn encoded(word: &str) -> String {
    word.bytes().fold(String::with_capacity(word.len()), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]" => Some((200, "[]".to_owned())))]
    #[test_case(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n[\r\n1;x=y\r\n]\r\n0\r\n\r\n" => Some((200, "[]".to_owned())))]
    #[test_case(b"HTTP/1.0 404 no\r\n\r\ngone" => Some((404, "gone".to_owned())))]
    #[test_case(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n[]" => None; "cut")]
    #[test_case(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n[" => None; "a chunk beyond all bounds")]
    #[test_case(b"SSH-2.0-x\r\n\r\n" => None; "another server")]
    fn an_answer_is_read_whole_or_not_at_all(bytes: &[u8]) -> Option<(u16, String)> {
        let read = answer(bytes)?;
        Some((read.status, read.text()?))
    }

    #[test]
    fn a_circuit_is_one_segment() {
        assert_eq!(encoded("ocr@region=eu/1"), "ocr%40region%3Deu%2F1");
    }
}
