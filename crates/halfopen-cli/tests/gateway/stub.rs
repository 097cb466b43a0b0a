//! A dependency that does what it is told: answers, hangs, drips, breaks off, resets.
//!
//! Raw TCP on threads, because no HTTP library lets a server misbehave on purpose. Each request takes the next reply of
//! the queue, or the default one, and is recorded with everything that was received.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long a test waits for something that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// How often a blocked read looks whether the stub is gone.
const TICK: Duration = Duration::from_millis(50);

/// A request as it was received.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The head, raw, without the empty line.
    pub(crate) head: String,
    pub(crate) method: String,
    pub(crate) target: String,
    /// The decoded body.
    pub(crate) body: Vec<u8>,
    /// The lines behind a body in chunks.
    pub(crate) trailer: Vec<String>,
    /// Which connection it came on, from 0.
    pub(crate) connection: usize,
}

impl Seen {
    /// Returns all values of a field.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        fields(&self.head).filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }

    /// Returns the only value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() <= 1, "{name} more than once: {all:?}");
        all.first().copied()
    }
}

pub(crate) fn fields(head: &str) -> impl Iterator<Item = (&str, &str)> {
    head.split("\r\n").skip(1).filter_map(|line| line.split_once(':')).map(|(name, value)| (name, value.trim()))
}

/// One thing the stub does.
#[derive(Clone, Debug)]
enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    /// Until the test lets it go on.
    Gate(Gate),
    /// Until the other side closes or the stub ends.
    Hang,
    /// Reads the body of the request, if that has not been done.
    ReadBody,
}

/// What a reply waits at until the test opens it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<AtomicBool>);

impl Gate {
    pub(crate) fn open(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What happens to the connection after a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    KeepOpen,
    Close,
    Reset,
}

/// What the stub does with one request.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    steps: Vec<Step>,
    after: After,
}

impl Reply {
    /// Reads the whole request, and then does what is added.
    pub(crate) fn new() -> Self {
        Self { steps: vec![Step::ReadBody], after: After::KeepOpen }
    }

    /// Answers at once, without reading the body.
    pub(crate) fn early() -> Self {
        Self { steps: Vec::new(), after: After::Close }
    }

    /// Answers as most dependencies do most of the time.
    pub(crate) fn ok(body: &str) -> Self {
        Self::status(200, body)
    }

    pub(crate) fn status(status: u16, body: &str) -> Self {
        Self::full(status, &[("content-type", "application/json")], body.as_bytes())
    }

    /// A whole answer with its length.
    pub(crate) fn full(status: u16, fields: &[(&str, &str)], body: &[u8]) -> Self {
        Self::new().and_full(status, fields, body)
    }

    pub(crate) fn and_full(self, status: u16, fields: &[(&str, &str)], body: &[u8]) -> Self {
        let length = body.len().to_string();
        let mut fields = fields.to_vec();
        fields.push(("content-length", &length));
        self.head(status, &fields).send(body)
    }

    /// The beginning of an answer in chunks.
    pub(crate) fn chunked(status: u16, fields: &[(&str, &str)]) -> Self {
        let mut fields = fields.to_vec();
        fields.push(("transfer-encoding", "chunked"));
        Self::new().head(status, &fields)
    }

    /// The beginning of a stream of events.
    pub(crate) fn events() -> Self {
        Self::chunked(200, &[("content-type", "text/event-stream")])
    }

    pub(crate) fn head(self, status: u16, fields: &[(&str, &str)]) -> Self {
        let mut head = format!("HTTP/1.1 {status} Said\r\n");
        for (name, value) in fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        self.send(head.as_bytes())
    }

    pub(crate) fn send(mut self, bytes: &[u8]) -> Self {
        self.steps.push(Step::Send(bytes.to_vec()));
        self
    }

    pub(crate) fn chunk(self, bytes: &[u8]) -> Self {
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.send(&chunk)
    }

    pub(crate) fn event(self, data: &str) -> Self {
        self.chunk(format!("data: {data}\n\n").as_bytes())
    }

    /// The last chunk.
    pub(crate) fn end(self) -> Self {
        self.send(b"0\r\n\r\n")
    }

    pub(crate) fn wait(mut self, duration: Duration) -> Self {
        self.steps.push(Step::Wait(duration));
        self
    }

    pub(crate) fn gate(mut self, gate: &Gate) -> Self {
        self.steps.push(Step::Gate(gate.clone()));
        self
    }

    /// Sends one byte at a time.
    pub(crate) fn drip(mut self, bytes: &[u8], every: Duration) -> Self {
        for byte in bytes {
            self.steps.push(Step::Send(vec![*byte]));
            self.steps.push(Step::Wait(every));
        }
        self
    }

    pub(crate) fn hang(mut self) -> Self {
        self.steps.push(Step::Hang);
        self
    }

    pub(crate) fn read_body(mut self) -> Self {
        self.steps.push(Step::ReadBody);
        self
    }

    pub(crate) fn close(mut self) -> Self {
        self.after = After::Close;
        self
    }

    pub(crate) fn reset(mut self) -> Self {
        self.after = After::Reset;
        self
    }
}

#[derive(Debug, Default)]
struct Book {
    replies: VecDeque<Reply>,
    default: Option<Reply>,
    seen: Vec<Seen>,
    /// What is said before anything was received.
    greeting: Vec<u8>,
}

#[derive(Debug)]
struct Shared {
    book: Mutex<Book>,
    changed: Condvar,
    gone: AtomicBool,
    connections: AtomicUsize,
    /// Connections that are open at the moment, and the most that were at once.
    open: AtomicUsize,
    open_max: AtomicUsize,
    /// Replies that were given to their end.
    given: AtomicUsize,
    /// Bytes that were sent in all.
    sent: AtomicUsize,
    /// How long a connection may be idle before the stub closes it, in milliseconds; 0: for ever.
    idle_ms: AtomicUsize,
}

/// A running stub; it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Stub {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

impl Stub {
    /// Starts one that answers everything with 200 and `{}`.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let book = Book { default: Some(Reply::ok("{}")), ..Book::default() };
        let shared = Arc::new(Shared {
            book: Mutex::new(book),
            changed: Condvar::new(),
            gone: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            open_max: AtomicUsize::new(0),
            given: AtomicUsize::new(0),
            sent: AtomicUsize::new(0),
            idle_ms: AtomicUsize::new(0),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.gone.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let number = accepting.connections.fetch_add(1, Ordering::Relaxed);
                let open = accepting.open.fetch_add(1, Ordering::Relaxed) + 1;
                accepting.open_max.fetch_max(open, Ordering::Relaxed);
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || {
                    let _ = Connection { stream, held: Vec::new(), number, shared: &shared }.serve();
                    shared.open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Puts replies behind those that are queued.
    pub(crate) fn then(&self, replies: impl IntoIterator<Item = Reply>) -> &Self {
        self.shared.book.lock().unwrap().replies.extend(replies);
        self
    }

    /// Says what is done when no reply is queued.
    pub(crate) fn always(&self, reply: Reply) -> &Self {
        self.shared.book.lock().unwrap().default = Some(reply);
        self
    }

    /// Says something as soon as somebody connects.
    pub(crate) fn greet(&self, bytes: &[u8]) -> &Self {
        self.shared.book.lock().unwrap().greeting = bytes.to_vec();
        self
    }

    pub(crate) fn close_when_idle(&self, after: Duration) -> &Self {
        self.shared.idle_ms.store(usize::try_from(after.as_millis()).unwrap(), Ordering::Relaxed);
        self
    }

    /// Returns what was received so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.book.lock().unwrap().seen.clone()
    }

    /// Returns what was received once there are so many.
    pub(crate) fn seen_at_least(&self, count: usize) -> Vec<Seen> {
        let book = self.shared.book.lock().unwrap();
        let (book, timeout) =
            self.shared.changed.wait_timeout_while(book, PATIENCE, |book| book.seen.len() < count).unwrap();
        assert!(!timeout.timed_out(), "only {} of {count} requests: {:#?}", book.seen.len(), book.seen);
        book.seen.clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// Returns how many replies were given to their end.
    pub(crate) fn given(&self) -> usize {
        self.shared.given.load(Ordering::Relaxed)
    }

    pub(crate) fn sent(&self) -> usize {
        self.shared.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn open_max(&self) -> usize {
        self.shared.open_max.load(Ordering::Relaxed)
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.shared.gone.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

struct Connection<'a> {
    stream: TcpStream,
    held: Vec<u8>,
    number: usize,
    shared: &'a Shared,
}

impl Connection<'_> {
    fn serve(&mut self) -> std::io::Result<()> {
        self.stream.set_nodelay(true)?;
        self.stream.set_read_timeout(Some(TICK))?;
        let greeting = self.shared.book.lock().unwrap().greeting.clone();
        self.stream.write_all(&greeting)?;
        while let Some(head) = self.read_head()? {
            let reply = {
                let mut book = self.shared.book.lock().unwrap();
                let reply = book.replies.pop_front().or_else(|| book.default.clone());
                reply.unwrap_or_else(|| Reply::ok("{}"))
            };
            let mut words = head.split(' ');
            let mut seen = Seen {
                method: words.next().unwrap_or("").to_owned(),
                target: words.next().unwrap_or("").to_owned(),
                head: head.clone(),
                body: Vec::new(),
                trailer: Vec::new(),
                connection: self.number,
            };
            let reads = reply.steps.iter().any(|step| matches!(step, Step::ReadBody));
            if !reads {
                self.note(seen.clone());
            }
            for step in &reply.steps {
                match step {
                    Step::ReadBody => {
                        let body = self.read_body(&head);
                        match body {
                            Ok(body) => (seen.body, seen.trailer) = body,
                            Err(error) => {
                                self.note(seen);
                                return Err(error);
                            }
                        }
                        self.note(seen.clone());
                    }
                    Step::Send(bytes) => {
                        self.stream.write_all(bytes)?;
                        self.shared.sent.fetch_add(bytes.len(), Ordering::Relaxed);
                    }
                    Step::Wait(duration) => self.pause(*duration),
                    Step::Gate(Gate(open)) => {
                        while !open.load(Ordering::Relaxed) && !self.shared.gone.load(Ordering::Relaxed) {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                    Step::Hang => while self.fill(None)? {},
                }
            }
            self.shared.given.fetch_add(1, Ordering::Relaxed);
            match reply.after {
                After::KeepOpen => {}
                After::Close => {
                    self.stream.shutdown(Shutdown::Write)?;
                    // What was not read would turn the close into a reset.
                    while self.fill(Some(Instant::now() + Duration::from_secs(1)))? {}
                    return Ok(());
                }
                After::Reset => {
                    // Whatever is in the socket's buffers has time to be read by the other side: nothing may be lost
                    // of what was sent before, or the test would show something else.
                    std::thread::sleep(Duration::from_millis(30));
                    rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO))?;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn note(&self, seen: Seen) {
        self.shared.book.lock().unwrap().seen.push(seen);
        self.shared.changed.notify_all();
    }

    fn pause(&self, duration: Duration) {
        let until = Instant::now() + duration;
        while !self.shared.gone.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(TICK));
        }
    }

    /// Reads some more; `false` at the end, or when `until` has passed.
    fn fill(&mut self, until: Option<Instant>) -> std::io::Result<bool> {
        let mut room = [0; 16 << 10];
        loop {
            if self.shared.gone.load(Ordering::Relaxed) || until.is_some_and(|until| Instant::now() > until) {
                return Ok(false);
            }
            match self.stream.read(&mut room) {
                Ok(0) => return Ok(false),
                Ok(length) => {
                    self.held.extend_from_slice(&room[..length]);
                    return Ok(true);
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn read_head(&mut self) -> std::io::Result<Option<String>> {
        let idle = self.shared.idle_ms.load(Ordering::Relaxed);
        let until = (idle > 0).then(|| Instant::now() + Duration::from_millis(u64::try_from(idle).unwrap()));
        loop {
            if let Some(end) = self.held.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.held[..end]).into_owned();
                self.held.drain(..end + 4);
                return Ok(Some(head));
            }
            if idle > 0 {
                self.stream.set_read_timeout(Some(Duration::from_millis(2)))?;
            }
            if !self.fill(until)? {
                return Ok(None);
            }
            self.stream.set_read_timeout(Some(TICK))?;
        }
    }

    fn read_body(&mut self, head: &str) -> std::io::Result<(Vec<u8>, Vec<String>)> {
        let field = |name: &str| {
            fields(head).find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
        };
        if field("transfer-encoding").is_some() {
            let mut body = Vec::new();
            loop {
                let line = self.read_line()?;
                let size = usize::from_str_radix(line.split(';').next().unwrap_or("").trim(), 16)
                    .map_err(std::io::Error::other)?;
                if size == 0 {
                    let mut trailer = Vec::new();
                    loop {
                        let line = self.read_line()?;
                        if line.is_empty() {
                            return Ok((body, trailer));
                        }
                        trailer.push(line);
                    }
                }
                body.extend(self.take(size)?);
                self.read_line()?;
            }
        }
        let length = field("content-length").map_or(0, |length| length.parse().unwrap());
        Ok((self.take(length)?, Vec::new()))
    }

    fn read_line(&mut self) -> std::io::Result<String> {
        loop {
            if let Some(end) = self.held.windows(2).position(|bytes| bytes == b"\r\n") {
                let line = String::from_utf8_lossy(&self.held[..end]).into_owned();
                self.held.drain(..end + 2);
                return Ok(line);
            }
            if !self.fill(None)? {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn take(&mut self, length: usize) -> std::io::Result<Vec<u8>> {
        while self.held.len() < length {
            if !self.fill(None)? {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.held.drain(..length).collect())
    }
}
