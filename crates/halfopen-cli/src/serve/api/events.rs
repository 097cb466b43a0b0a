//! Shows the journal: as a list, or as a stream of server-sent events.
//!
//! A stream's `id:` is the position in the journal, so a browser that lost its connection goes on where it was. Entries
//! have no `event:` field: then `onmessage` sees all of them, and the word stands in the data. A listener that does not
//! read is let go after a while; it will come back and resume.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use halfopen::store::{EventFilter, JournalEntry};
use halfopen_core::time::Timestamp;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::BodyExt as _;
use hyper::body::Frame;
use serde_json::Value;
use tokio::sync::mpsc;

use super::super::body::{Body, BodyError};
use super::super::feed::{LISTENERS_MAX, Listener};
use super::super::gateway::Gateway;
use super::super::problem::{Kind, Problem};
use super::ask::{Query, bad, shown};
use super::circuits::{at_the_store, known, unreadable};
use super::{Asked, answer};
use crate::duration;
use crate::shown::{When, event_json};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// How many entries a list has unless more are asked for, and at most.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 100_000;
/// How often a stream on which nothing happens says that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a listener may leave what it was sent unread.
const UNREAD_MAX: Duration = Duration::from_secs(30);
/// How many chunks wait for a listener that reads slowly.
const CHUNKS_MAX: usize = 8;
/// How long a browser waits before it comes back.
const COME_BACK: &str = "retry: 2000\n\n";

/// Answers `GET /events`.
pub(super) async fn show(gateway: &Arc<Gateway>, asked: Asked) -> Result<Response<Body>, Problem> {
    let headers = asked.request.headers();
    let stream = match asked.query.text("format") {
        Some("json") => false,
        Some("sse") => true,
        Some(other) => return Err(bad(format!("`format` is `{}`; allowed are json and sse.", shown(other)))),
        None => wants_stream(headers),
    };
    let unread: &[&str] = if stream { &["since", "limit"] } else { &["after"] };
    if let Some(name) = unread.iter().find(|name| asked.query.text(name).is_some()) {
        return Err(bad(if stream {
            format!("`{name}` is for a list, and this is a stream; add format=json for a list.")
        } else {
            format!("`{name}` is for a stream, and this is a list; leave it out, or leave out format=json.")
        }));
    }
    if !stream {
        return list(gateway, &asked.query).await;
    }
    let position = position(&asked.query, headers)?;
    if asked.request.method() == http::Method::HEAD {
        return Ok(with_body(super::super::body::full("")));
    }
    open(gateway, &asked.query, position).await
}

async fn list(gateway: &Arc<Gateway>, query: &Query) -> Result<Response<Body>, Problem> {
    let limit = match query.text("limit") {
        None => LIMIT,
        Some(word) => match word.parse() {
            Ok(limit) if (1..=LIMIT_MAX).contains(&limit) => limit,
            Ok(_) | Err(_) => {
                return Err(bad(format!("`limit` is `{}`; allowed is 1 to {LIMIT_MAX}.", shown(word))));
            }
        },
    };
    let since = query.text("since").map(Since::read).transpose()?;
    let dependency = query.text("dependency").map(str::to_owned);
    let transitions_only = !query.flag("all")?;
    let events: Vec<Value> = at_the_store(gateway, move |gateway, handle| {
        let when = When::read(&handle.clock().read());
        let since_ms = since.and_then(|since| since.at(&when)).map(Timestamp::as_millis);
        let filter = EventFilter { dependency, since_ms, transitions_only, limit };
        let events = handle.events(&filter).map_err(unreadable)?;
        // The journal may know a name that has left the policy and the store.
        if events.is_empty() {
            known(gateway, handle, filter.dependency.as_deref())?;
        }
        Ok(events.iter().map(|event| event_json(event, &when)).collect())
    })
    .await?;
    answer::json(&events)
}

/// Since when entries are wanted.
#[derive(Clone, Debug)]
enum Since {
    Ago(Duration),
    At(String),
}

impl Since {
    fn read(word: &str) -> Result<Self, Problem> {
        if word.parse::<jiff::Timestamp>().is_ok() {
            return Ok(Self::At(word.to_owned()));
        }
        duration::parse_positive(word).map(Self::Ago).map_err(|_| {
            bad(format!("`since` is `{}`; allowed are 90s, 10m, 6h, or an instant in RFC 3339.", shown(word)))
        })
    }

    fn at(&self, when: &When) -> Option<Timestamp> {
        match self {
            Self::Ago(ago) => Some(when.now - *ago),
            Self::At(word) => when.read_rfc3339(word),
        }
    }
}

/// Returns whether a stream is meant: it is, unless JSON is asked for and a stream is not.
fn wants_stream(headers: &HeaderMap) -> bool {
    let accepts = |media_type: &str| {
        headers.get_all(ACCEPT).iter().any(|accept| accept.to_str().is_ok_and(|accept| accept.contains(media_type)))
    };
    accepts("text/event-stream") || !accepts("application/json")
}

/// Returns behind which position a stream begins. A browser says so in its own field; `after` is for the first time.
fn position(query: &Query, headers: &HeaderMap) -> Result<Option<i64>, Problem> {
    let field = headers.get(LAST_EVENT_ID).map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
    let Some(word) = field.as_deref().filter(|id| !id.is_empty()).or_else(|| query.text("after")) else {
        return Ok(None);
    };
    match word.parse() {
        Ok(position) if position >= 0 => Ok(Some(position)),
        Ok(_) | Err(_) => {
            Err(bad(format!("`{}` is no position in the journal; it is the `id` of an earlier event.", shown(word))))
        }
    }
}

/// Which entries a listener wants.
struct Wanted {
    dependency: Option<String>,
    all: bool,
}

impl Wanted {
    fn takes(&self, entry: &JournalEntry) -> bool {
        let event = &entry.event;
        self.dependency.as_ref().is_none_or(|name| *name == event.dependency)
            && (self.all || event.from_state != event.to_state || event.event == "reset")
    }
}

async fn open(gateway: &Arc<Gateway>, query: &Query, position: Option<i64>) -> Result<Response<Body>, Problem> {
    let wanted = Wanted { dependency: query.text("dependency").map(str::to_owned), all: query.flag("all")? };
    if gateway.shutdown.is_draining() {
        return Err(Problem::new(Kind::ShuttingDown, "No stream is begun any more."));
    }
    let listener = gateway.feed.listen(&gateway.door.handle, position).await.map_err(unreadable)?;
    let Some(listener) = listener else {
        let detail = format!("{LISTENERS_MAX} listen already, and no more may; /events?format=json gives a list.");
        return Err(Problem::new(Kind::TooManyCalls, detail));
    };
    let (sender, receiver) = mpsc::channel(CHUNKS_MAX);
    tokio::spawn(send(Arc::clone(gateway), listener, wanted, sender));
    Ok(with_body(Chunks(receiver).boxed_unsync()))
}

fn with_body(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Between a proxy's buffer and a listener an event may lie for minutes.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Sends entries until the listener goes, the gateway ends, or the store cannot be read any more.
async fn send(gateway: Arc<Gateway>, mut listener: Listener, wanted: Wanted, sender: mpsc::Sender<Bytes>) {
    let hello = format!("{COME_BACK}id: {}\n: listening\n\n", listener.position());
    let mut chunk = Some(Bytes::from(hello));
    loop {
        if let Some(chunk) = chunk.take()
            && !matches!(tokio::time::timeout(UNREAD_MAX, sender.send(chunk)).await, Ok(Ok(())))
        {
            return;
        }
        chunk = tokio::select! {
            () = sender.closed() => return,
            () = gateway.shutdown.draining() => return,
            () = tokio::time::sleep(KEEP_ALIVE) => Some(Bytes::from_static(b": alive\n\n")),
            entries = listener.next() => match entries {
                Ok(entries) => written(&gateway, &entries, &wanted),
                Err(_) => return,
            },
        };
    }
}

/// Writes entries; `None` if none is wanted.
fn written(gateway: &Gateway, entries: &[Arc<JournalEntry>], wanted: &Wanted) -> Option<Bytes> {
    let when = When::read(&gateway.door.handle.clock().read());
    let mut text = String::new();
    for entry in entries.iter().filter(|entry| wanted.takes(entry)) {
        // JSON on one line has no line breaks, whatever the texts in it hold.
        text.push_str(&format!("id: {}\ndata: {}\n\n", entry.position, event_json(&entry.event, &when)));
    }
    (!text.is_empty()).then(|| Bytes::from(text))
}

/// The body of a stream.
pub(in crate::serve) struct Chunks(pub(in crate::serve) mpsc::Receiver<Bytes>);

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        self.0.poll_recv(cx).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}
