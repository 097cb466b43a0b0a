//! Receives alerts over HTTP, and misbehaves when told to: a real listener on the loopback.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What a receiver does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Does {
    /// Answers with this status and these header lines.
    Answers(u16, &'static str),
    /// Reads and says nothing.
    Hangs,
    /// Closes the connection.
    Resets,
}

/// One request that was received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("a JSON body")
    }

    pub(crate) fn kind(&self) -> String {
        self.json()["type"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn field(&self, name: &str) -> Option<String> {
        self.head.lines().find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }
}

/// A receiver on a port of its own.
pub(crate) struct Receiver {
    port: u16,
    seen: Arc<Mutex<Vec<Received>>>,
    next: Arc<Mutex<VecDeque<Does>>>,
    always: Arc<Mutex<Does>>,
}

impl Receiver {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let receiver = Self {
            port,
            seen: Arc::default(),
            next: Arc::default(),
            always: Arc::new(Mutex::new(Does::Answers(204, ""))),
        };
        let (seen, next, always) =
            (Arc::clone(&receiver.seen), Arc::clone(&receiver.next), Arc::clone(&receiver.always));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let does = next
                    .lock()
                    .expect("nobody panicked with it")
                    .pop_front()
                    .unwrap_or_else(|| always.lock().expect("nobody panicked with it").clone());
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || serve(stream, &does, &seen));
            }
        });
        receiver
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook/s3cr3t-path", self.port)
    }

    /// Lets the next requests be met so, one after the other.
    pub(crate) fn next(&self, does: &[Does]) {
        self.next.lock().expect("nobody panicked with it").extend(does.iter().cloned());
    }

    /// Lets all further requests be met so.
    pub(crate) fn always(&self, does: Does) {
        *self.always.lock().expect("nobody panicked with it") = does;
    }

    pub(crate) fn seen(&self) -> Vec<Received> {
        self.seen.lock().expect("nobody panicked with it").clone()
    }

    pub(crate) fn kinds(&self) -> Vec<String> {
        self.seen().iter().map(|received| received.kind().replace("dev.halfopen.", "")).collect()
    }
}

fn serve(stream: TcpStream, does: &Does, seen: &Mutex<Vec<Received>>) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let length = |line: &str| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok();
    let mut body = vec![0; head.lines().find_map(length).unwrap_or(0)];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let received = Received { head, body: String::from_utf8_lossy(&body).into_owned() };
    seen.lock().expect("nobody panicked with it").push(received);
    match does {
        Does::Answers(status, fields) => {
            let _ = write!(
                reader.get_mut(),
                "HTTP/1.1 {status} X\r\n{fields}connection: close\r\ncontent-length: 0\r\n\r\n"
            );
        }
        Does::Hangs => {
            // Until the other side gives up.
            let _ = reader.read_to_end(&mut Vec::new());
        }
        Does::Resets => {}
    }
}

/// Starts a mail server on a port of its own; returns what it has been told.
pub(crate) fn mail_server() -> (u16, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let said = Arc::new(Mutex::new(String::new()));
    let mails = Arc::clone(&said);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let mut in_data = false;
            let _ = write!(reader.get_mut(), "220 test\r\n");
            let mut line = String::new();
            while reader.read_line(&mut line).unwrap_or(0) > 0 {
                mails.lock().expect("nobody panicked with it").push_str(&line);
                let answer = match line.trim_end() {
                    "." => Some("250 taken\r\n"),
                    "DATA" => Some("354 go on\r\n"),
                    _ if in_data => None,
                    _ => Some("250 test\r\n"),
                };
                in_data = (in_data || line.starts_with("DATA")) && line.trim_end() != ".";
                if let Some(answer) = answer {
                    let _ = reader.get_mut().write_all(answer.as_bytes());
                }
                line.clear();
            }
        }
    });
    (port, said)
}
