//! The dependency: answers, fails, is slow, breaks off, and writes down every request that it has read to its end.
//!
//! What it wrote down it has executed; only what it refused (503, 429) or did not read it has not.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request longer than this is none of ours.
const REQUEST_BYTES_MAX: usize = 4 << 20;

/// The dependency's side of a world.
#[derive(Debug)]
pub(crate) struct StandIn {
    pub(crate) address: SocketAddr,
    book: Arc<Book>,
}

#[derive(Debug)]
struct Book {
    executed: Mutex<BTreeMap<String, usize>>,
    chance: Mutex<fastrand::Rng>,
    /// Of a hundred requests so many are met badly.
    bad: AtomicU32,
    /// Whether badly also means that connections are cut.
    cuts: AtomicBool,
}

/// How one request is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Well,
    Slow,
    Overloaded,
    Limited,
    /// Executed, and then an error.
    Broken,
    CutBefore,
    CutAfter,
    CutInside,
}

impl StandIn {
    pub(crate) fn start(seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let book = Arc::new(Book {
            executed: Mutex::default(),
            chance: Mutex::new(fastrand::Rng::with_seed(seed)),
            bad: AtomicU32::new(10),
            cuts: AtomicBool::new(false),
        });
        let kept = Arc::downgrade(&book);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(stream), Some(book)) = (stream, kept.upgrade()) else { return };
                std::thread::spawn(move || book.serve(stream));
            }
        });
        Self { address, book }
    }

    /// Lets so many of a hundred requests be met badly, by cut connections, too, or not.
    pub(crate) fn misbehave(&self, percent: u32, cuts: bool) {
        self.book.bad.store(percent, Ordering::Relaxed);
        self.book.cuts.store(cuts, Ordering::Relaxed);
    }

    /// Returns how often each invoice was executed.
    pub(crate) fn executed(&self) -> BTreeMap<String, usize> {
        self.book.executed.lock().unwrap().clone()
    }
}

impl Drop for StandIn {
    /// Lets the listening thread see that nobody needs it any more.
    fn drop(&mut self) {
        self.book = Arc::new(Book {
            executed: Mutex::default(),
            chance: Mutex::new(fastrand::Rng::with_seed(0)),
            bad: AtomicU32::new(0),
            cuts: AtomicBool::new(false),
        });
        let _ = TcpStream::connect(self.address);
    }
}

impl Book {
    fn mood(&self) -> Mood {
        let mut chance = self.chance.lock().unwrap();
        if chance.u32(..100) >= self.bad.load(Ordering::Relaxed) {
            return if chance.u32(..8) == 0 { Mood::Slow } else { Mood::Well };
        }
        let cuts = self.cuts.load(Ordering::Relaxed);
        let moods: &[Mood] = if cuts {
            &[Mood::CutBefore, Mood::CutAfter, Mood::CutInside, Mood::Overloaded]
        } else {
            &[Mood::Overloaded, Mood::Overloaded, Mood::Limited, Mood::Broken]
        };
        moods[chance.usize(..moods.len())]
    }

    fn serve(&self, mut stream: TcpStream) {
        let mood = self.mood();
        if mood == Mood::CutBefore {
            let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
            return;
        }
        let Some(invoice) = invoice(&mut stream) else { return };
        let pause = self.chance.lock().unwrap().u64(1..20);
        std::thread::sleep(Duration::from_millis(if mood == Mood::Slow { pause * 10 } else { pause }));
        if !matches!(mood, Mood::Overloaded | Mood::Limited) {
            *self.executed.lock().unwrap().entry(invoice).or_default() += 1;
        }
        let (status, body) = match mood {
            Mood::Well | Mood::Slow | Mood::CutInside => ("200 OK", "{\"booked\":true}"),
            Mood::Overloaded => ("503 Service Unavailable", "{}"),
            Mood::Limited => ("429 Too Many Requests\r\nretry-after: 0", "{}"),
            Mood::Broken => ("500 Internal Server Error", "{}"),
            Mood::CutBefore | Mood::CutAfter => {
                let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
                return;
            }
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = answer.as_bytes();
        let length = if mood == Mood::CutInside { answer.len() - 5 } else { answer.len() };
        let _ = stream.write_all(&answer[..length]);
        if mood == Mood::CutInside {
            let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
        }
    }
}

/// Reads a request to its end and returns its invoice; `None` if it does not come whole.
fn invoice(stream: &mut TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let mut bytes = Vec::new();
    let mut room = [0; 16 << 10];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length = head.split("content-length:").nth(1)?.split("\r\n").next()?.trim().parse::<usize>().ok()?;
            if bytes.len() >= end + 4 + length {
                let body: serde_json::Value = serde_json::from_slice(&bytes[end + 4..]).ok()?;
                return body["invoice"].as_str().map(str::to_owned);
            }
        }
        match stream.read(&mut room) {
            Ok(length) if length > 0 && bytes.len() < REQUEST_BYTES_MAX => bytes.extend_from_slice(&room[..length]),
            _ => return None,
        }
    }
}
