//! A caller that sends any bytes and sees exactly what comes back: interim answers, framing, and how it ended.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::stub::{PATIENCE, fields};

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// As its framing promised.
    Whole,
    /// The connection was closed or reset before that.
    CutShort,
    /// A body without length or chunks ended with the connection; nobody can tell whether it was all.
    WithConnection,
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) end: End,
    /// The statuses of interim answers before it.
    pub(crate) interim: Vec<u16>,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        fields(&self.head).find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        fields(&self.head).filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}\n{}", self.head, self.text()))
    }

    /// Returns the end of a problem's type.
    pub(crate) fn problem(&self) -> String {
        let json = self.json();
        let kind = json["problem"].as_str().or_else(|| json["type"].as_str()).unwrap_or("");
        kind.strip_prefix("urn:halfopen:problem:").unwrap_or_else(|| panic!("no problem: {}", self.text())).to_owned()
    }
}

/// A connection of a caller.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    held: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream, held: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.stream.write_all(bytes.as_ref()).unwrap();
        self
    }

    /// Sends a whole request and reads its answer.
    pub(crate) fn call(&mut self, method: &str, target: &str, fields: &[(&str, &str)], body: &[u8]) -> Answer {
        let host = self.stream.peer_addr().unwrap().to_string();
        let mut fields = fields.to_vec();
        if !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            fields.push(("host", &host));
        }
        self.send(request(method, target, &fields, body));
        self.answer_to(method)
    }

    pub(crate) fn answer(&mut self) -> Answer {
        self.answer_to("GET")
    }

    /// Reads an answer with everything before it.
    pub(crate) fn answer_to(&mut self, method: &str) -> Answer {
        let mut interim = Vec::new();
        loop {
            let head = self.head().expect("the connection was closed without an answer");
            let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap();
            if (100..200).contains(&status) {
                interim.push(status);
                continue;
            }
            let mut answer = Answer { status, head, body: Vec::new(), end: End::Whole, interim };
            if method != "HEAD" && status != 204 && status != 304 {
                self.body(&mut answer);
            }
            return answer;
        }
    }

    /// Returns the next head, or `None` if the connection ends first.
    pub(crate) fn head(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.held.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let head = String::from_utf8(self.held[..end].to_vec()).unwrap();
                self.held.drain(..end + 4);
                return Some(head);
            }
            if !self.fill() {
                assert!(self.held.is_empty(), "half a head: {}", String::from_utf8_lossy(&self.held));
                return None;
            }
        }
    }

    /// Returns the next chunk of a body in chunks; the last one is empty.
    pub(crate) fn chunk(&mut self) -> Vec<u8> {
        let line = self.line().expect("a chunk");
        let size = usize::from_str_radix(&line, 16).unwrap();
        let mut whole =
            Answer { status: 0, head: String::new(), body: Vec::new(), end: End::Whole, interim: Vec::new() };
        assert!(self.take(size, &mut whole), "cut inside a chunk");
        self.line().expect("the end of a chunk");
        whole.body
    }

    /// Returns whether the gateway closed the connection and sent nothing more.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.held.is_empty() && !self.fill()
    }

    fn body(&mut self, answer: &mut Answer) {
        if answer.field("transfer-encoding").is_some() {
            loop {
                let Some(line) = self.line() else { return answer.end = End::CutShort };
                let size = usize::from_str_radix(line.split(';').next().unwrap().trim(), 16).unwrap();
                if size == 0 {
                    while let Some(line) = self.line() {
                        if line.is_empty() {
                            return;
                        }
                        answer.head.push_str(&format!("\r\n{line}"));
                    }
                    return answer.end = End::CutShort;
                }
                if !self.take(size, answer) || self.line().is_none() {
                    return answer.end = End::CutShort;
                }
            }
        }
        if let Some(length) = answer.field("content-length").map(|length| length.parse().unwrap()) {
            if !self.take(length, answer) {
                answer.end = End::CutShort;
            }
            return;
        }
        while self.fill() {}
        answer.body.append(&mut self.held);
        answer.end = End::WithConnection;
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.held.windows(2).position(|bytes| bytes == b"\r\n") {
                let line = String::from_utf8_lossy(&self.held[..end]).into_owned();
                self.held.drain(..end + 2);
                return Some(line);
            }
            if !self.fill() {
                return None;
            }
        }
    }

    fn take(&mut self, mut length: usize, answer: &mut Answer) -> bool {
        loop {
            let here = length.min(self.held.len());
            if here > 0 {
                answer.body.extend(self.held.drain(..here));
                length -= here;
            }
            if length == 0 {
                return true;
            }
            if !self.fill() {
                return false;
            }
        }
    }

    fn fill(&mut self) -> bool {
        let mut room = [0; 64 << 10];
        match self.stream.read(&mut room) {
            Ok(0) => false,
            Ok(length) => {
                self.held.extend_from_slice(&room[..length]);
                true
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("nothing came for {PATIENCE:?}; before that: {}", String::from_utf8_lossy(&self.held))
            }
            Err(_) => false,
        }
    }
}

impl Client {
    /// Returns whether nothing arrives for a while.
    pub(crate) fn is_silent_for(&mut self, duration: Duration) -> bool {
        self.stream.set_read_timeout(Some(duration)).unwrap();
        let silent = matches!(
            self.stream.peek(&mut [0]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
        );
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        silent && self.held.is_empty()
    }
}

/// Returns a request with its length, if it has a body.
pub(crate) fn request(method: &str, target: &str, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {target} HTTP/1.1\r\n");
    if !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head.push_str("host: gateway\r\n");
    }
    for (name, value) in fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() || matches!(method, "POST" | "PUT" | "PATCH") {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}
