//! The OCR of the demo: a dependency that hangs, breaks or reads, and counts what it was asked by invoice number.
//!
//! It is the witness: whether the gateway kept away from it, and how often each invoice was booked, is read here and not
//! in what the gateway says about itself. It executes whatever it is sent and recognises no repeats, so that an invoice
//! that is sent again after it was booked is seen. It listens on the loopback, holds 64 connections at most, and a
//! request that hangs ends when the caller goes away or the demo ends; it is never executed late.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use super::http::{self, Message};

/// Connections at once.
const CONNECTIONS_MAX: usize = 64;
/// How often a request that hangs looks whether its caller is still there.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What the OCR does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// It takes the request and never answers.
    Hangs,
    /// It answers 503 and does nothing.
    Breaks,
    /// It reads the invoice and books it.
    Reads,
}

/// A request that reached the OCR.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// When.
    pub(super) at: Instant,
    /// For which invoice.
    pub(super) invoice: String,
    /// What it did with it.
    pub(super) mood: Mood,
}

/// A running OCR; it stops listening when it is dropped.
#[derive(Debug)]
pub(super) struct Ocr {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    mood: Mutex<Mood>,
    asked: Mutex<Vec<Asked>>,
    takes: Duration,
    connections: AtomicUsize,
    over: AtomicBool,
}

impl Ocr {
    /// Starts it, hanging. `takes` is how long it reads one invoice.
    ///
    /// # Errors
    ///
    /// If there is no port on the loopback, or no thread.
    pub(super) fn start(takes: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            mood: Mutex::new(Mood::Hangs),
            asked: Mutex::default(),
            takes,
            connections: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        });
        let serves = Arc::clone(&shared);
        std::thread::Builder::new().name("ocr".to_owned()).spawn(move || serves.listen(&listener))?;
        Ok(Self { address, shared })
    }

    /// Returns where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what it does with the requests that come from here on.
    pub(super) fn becomes(&self, mood: Mood) {
        *lock(&self.shared.mood) = mood;
    }

    /// Returns what it does with requests.
    pub(super) fn mood(&self) -> Mood {
        *lock(&self.shared.mood)
    }

    /// Returns every request that reached it, in the order of arrival.
    pub(super) fn asked(&self) -> Vec<Asked> {
        lock(&self.shared.asked).clone()
    }
}

impl Drop for Ocr {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        // Wakes the thread that waits for a connection.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
    }
}

impl Shared {
    fn listen(self: &Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming() {
            if self.over.load(Ordering::Acquire) {
                return;
            }
            let Ok(stream) = stream else { continue };
            if self.connections.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
                self.connections.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let serves = Arc::clone(self);
            let started = std::thread::Builder::new().name("ocr".to_owned()).spawn(move || {
                // What goes wrong with a connection is seen in what was asked.
                let _ = serves.connection(stream);
                serves.connections.fetch_sub(1, Ordering::AcqRel);
            });
            if started.is_err() {
                self.connections.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    fn connection(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        while let Some(request) = Message::read(&mut stream)? {
            let invoice = request.json()["invoice"].as_str().unwrap_or("?").to_owned();
            let mood = *lock(&self.mood);
            lock(&self.asked).push(Asked { at: Instant::now(), invoice: invoice.clone(), mood });
            match mood {
                Mood::Hangs => return self.hang(&mut stream),
                Mood::Breaks => {
                    http::answer(&mut stream, "503 Service Unavailable", &json!({ "error": "still starting" }))?;
                }
                Mood::Reads => {
                    std::thread::sleep(self.takes);
                    http::answer(&mut stream, "200 OK", &json!({ "invoice": invoice, "booked": true }))?;
                }
            }
        }
        Ok(())
    }

    /// Says nothing until the caller has gone.
    fn hang(&self, stream: &mut TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(LOOK_EVERY))?;
        let mut piece = [0; 256];
        while !self.over.load(Ordering::Acquire) {
            match stream.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns how often each invoice was booked.
pub(super) fn booked(asked: &[Asked]) -> BTreeMap<&str, u32> {
    let mut booked = BTreeMap::new();
    for asked in asked.iter().filter(|asked| asked.mood == Mood::Reads) {
        *booked.entry(asked.invoice.as_str()).or_default() += 1;
    }
    booked
}

/// A thread that panicked has left whole values behind: each is written at once.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invoice(number: &str) -> (String, String) {
        (json!({ "invoice": number }).to_string(), String::new())
    }

    #[test]
    fn an_invoice_that_comes_twice_is_booked_twice_and_counted() {
        let ocr = Ocr::start(Duration::ZERO).unwrap();
        ocr.becomes(Mood::Reads);
        for number in ["INV-1", "INV-2", "INV-1"] {
            let answer = http::ask(ocr.address(), "POST", "/", Some(&invoice(number))).unwrap();
            assert_eq!(answer.status(), 200);
        }
        assert_eq!(booked(&ocr.asked()), BTreeMap::from([("INV-1", 2), ("INV-2", 1)]));
    }

    #[test]
    fn what_it_breaks_on_is_counted_and_not_booked() {
        let ocr = Ocr::start(Duration::ZERO).unwrap();
        ocr.becomes(Mood::Breaks);
        assert_eq!(http::ask(ocr.address(), "POST", "/", Some(&invoice("INV-1"))).unwrap().status(), 503);
        assert_eq!((ocr.asked().len(), booked(&ocr.asked()).len()), (1, 0));
    }
}
