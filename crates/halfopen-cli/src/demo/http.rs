//! The few words of HTTP/1.1 that both ends of the demo speak: one request, one answer, on a blocking socket.
//!
//! The caller and the stand-in of an OCR live in this process and talk to the gateway only, so a head with a length is
//! all that is understood; whatever is longer than the bounds, or has another framing, is an error and not read. A
//! client library would bring a runtime into a command that does one thing after another.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// The longest head that is read, in bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The longest body that is read, in bytes: a journal of a minute has a fraction of it.
const BODY_BYTES_MAX: usize = 8 << 20;
/// How long each step of a request of ours may take. The gateway answers within its own timeouts.
const WITHIN: Duration = Duration::from_secs(30);

/// A request or an answer, as it came.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// The first line.
    start: String,
    /// The fields behind it, names in lower case.
    fields: Vec<(String, String)>,
    /// What follows the head.
    pub(super) body: Vec<u8>,
}

impl Message {
    /// Reads a message; `None` if the other side closed before it began one.
    ///
    /// # Errors
    ///
    /// Whatever the socket says, and `InvalidData` for what is no message or is longer than the bounds.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut seen = Vec::new();
        let mut piece = [0; 4096];
        let head_ends = loop {
            if let Some(at) = memchr::memmem::find(&seen, b"\r\n\r\n") {
                break at;
            }
            if seen.len() > HEAD_BYTES_MAX {
                return Err(strange("a head of more than 64 KiB"));
            }
            match from.read(&mut piece)? {
                0 if seen.is_empty() => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => seen.extend_from_slice(piece.get(..read).unwrap_or_default()),
            }
        };
        let mut body = seen.split_off(head_ends + 4);
        let head = String::from_utf8_lossy(&seen).into_owned();
        let mut lines = head.trim_end().split("\r\n");
        let start = lines.next().unwrap_or_default().to_owned();
        let fields = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let message = Self { start, fields, body: Vec::new() };
        if message.field("transfer-encoding").is_some() {
            return Err(strange("a body without a length"));
        }
        let length = match message.field("content-length").map(str::parse::<usize>) {
            None => 0,
            Some(Ok(length)) if length <= BODY_BYTES_MAX => length,
            Some(_) => return Err(strange("a body of more than 8 MiB")),
        };
        while body.len() < length {
            match from.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => body.extend_from_slice(piece.get(..read).unwrap_or_default()),
            }
        }
        body.truncate(length);
        Ok(Some(Self { body, ..message }))
    }

    /// Returns a field by its name in lower case.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Returns an answer's status; 0 for what is no answer.
    pub(super) fn status(&self) -> u16 {
        self.start.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
    }

    /// Returns the body as JSON; null for what is none.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Sends one request on a connection of its own and reads the answer.
///
/// # Errors
///
/// If the gateway cannot be reached, does not answer in time, or answers something that is not understood.
pub(super) fn ask(at: SocketAddr, method: &str, target: &str, body: Option<&(String, String)>) -> io::Result<Message> {
    let mut stream = TcpStream::connect_timeout(&at, WITHIN)?;
    stream.set_read_timeout(Some(WITHIN))?;
    stream.set_write_timeout(Some(WITHIN))?;
    let mut request = format!("{method} {target} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n");
    if let Some((body, key)) = body {
        request.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
        if !key.is_empty() {
            request.push_str(&format!("idempotency-key: {key}\r\n"));
        }
        request.push_str("\r\n");
        request.push_str(body);
    } else {
        request.push_str("\r\n");
    }
    stream.write_all(request.as_bytes())?;
    Message::read(&mut stream)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Writes an answer in JSON.
///
/// # Errors
///
/// Whatever the socket says.
pub(super) fn answer(to: &mut impl Write, status: &str, body: &Value) -> io::Result<()> {
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    to.write_all((head + &body).as_bytes())
}

fn strange(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test]
    fn a_message_is_read_to_its_length_and_no_further() {
        let text = b"HTTP/1.1 202 Accepted\r\nLocation: /jobs/j1\r\nContent-Length: 2\r\n\r\n{}HTTP";
        let message = Message::read(&mut &text[..]).unwrap().unwrap();
        assert_eq!(
            (message.status(), message.field("location"), message.body.as_slice()),
            (202, Some("/jobs/j1"), &b"{}"[..])
        );
    }

    #[test]
    fn a_connection_that_ends_before_a_message_is_no_error() {
        assert!(Message::read(&mut io::empty()).unwrap().is_none());
    }

    #[test_case("HTTP/1.1 200 OK\r\nContent-Le"; "a head that breaks off")]
    #[test_case("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"; "a body that breaks off")]
    #[test_case("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"; "a body beyond the bound")]
    #[test_case("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"; "another framing")]
    fn what_is_no_whole_message_is_an_error(text: &str) {
        assert!(Message::read(&mut text.as_bytes()).is_err());
    }
}
