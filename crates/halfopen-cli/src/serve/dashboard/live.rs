//! Keeps open pages current: what changed of a view is sent to everybody who watches it.
//!
//! Those who watch the same view in the same language sit in one room. As long as somebody sits there, one task renders
//! the view about once a second, compares, and keeps what it looks like; whoever watches is sent the fragments that are
//! newer than what it has. So a hundred tabs cost as much as one, and a tab that reads slowly skips what is outdated
//! instead of queueing it. A view that is slow to render is rendered less often: never more than a fifth of the time is
//! spent on it.
//!
//! The id of an event says which rendering it was. A browser that lost its connection says it, and is sent what changed
//! since, or everything if that was another process or another room.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Response};
use http_body_util::BodyExt as _;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, watch};

use super::super::access::{Arrival, Right};
use super::super::problem::{Kind, Problem};
use super::view::{self, Found, Query, View};
use super::words::Words;
use super::{Asked, render};
use crate::serve::api::{Chunks, bad};
use crate::serve::body::{self, Body};
use crate::serve::gateway::Gateway;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// How often a view that is watched is rendered.
const EVERY: Duration = Duration::from_millis(750);
/// A rendering is followed by a pause of so many times what it took.
const PAUSE_TIMES: u32 = 4;
/// How many watch at once at most.
pub(super) const WATCHERS_MAX: usize = 64;
/// How often a stream on which nothing happens says that it lives, and is asked whether it still may.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a watcher may leave what it was sent unread.
const UNREAD_MAX: Duration = Duration::from_secs(30);
/// How long a browser waits before it comes back.
const COME_BACK: &str = "retry: 2000\n\n";

/// Everybody who watches something.
#[derive(Debug, Default)]
pub(super) struct Live {
    rooms: Mutex<BTreeMap<(View, &'static str), Weak<Room>>>,
    watchers: Arc<AtomicUsize>,
    opened: AtomicU64,
}

/// Those who watch one view in one language.
#[derive(Debug)]
struct Room {
    /// Which room of this process it is.
    number: u64,
    shown: watch::Sender<Arc<Shown>>,
}

/// What a view looks like.
#[derive(Debug, Default)]
struct Shown {
    /// How often it has changed.
    version: u64,
    /// The parts, and the version each changed in last.
    parts: BTreeMap<&'static str, (u64, String)>,
}

/// Counts one watcher as long as it is there.
#[derive(Debug)]
struct Seat(Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Live {
    fn seat(&self) -> Option<Seat> {
        let taken =
            self.watchers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < WATCHERS_MAX).then_some(n + 1));
        taken.is_ok().then(|| Seat(Arc::clone(&self.watchers)))
    }

    /// Returns the room of a view, and whether it is new.
    fn room(&self, view: &View, words: &'static Words) -> (Arc<Room>, bool) {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        rooms.retain(|_, room| room.strong_count() > 0);
        let key = (view.clone(), words.code);
        if let Some(room) = rooms.get(&key).and_then(Weak::upgrade) {
            return (room, false);
        }
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let room = Arc::new(Room { number, shown: watch::Sender::new(Arc::new(Shown::default())) });
        rooms.insert(key, Arc::downgrade(&room));
        (room, true)
    }
}

impl Shown {
    /// Returns what it looks like after a rendering; `None` if that is the same.
    fn after(&self, parts: Vec<(&'static str, String)>) -> Option<Self> {
        let changed = |(name, html): &(&'static str, String)| self.parts.get(name).is_none_or(|(_, old)| old != html);
        if !parts.iter().any(changed) {
            return None;
        }
        let version = self.version + 1;
        let parts = parts.into_iter().map(|part| {
            let at = if changed(&part) { version } else { self.parts.get(part.0).map_or(version, |(at, _)| *at) };
            (part.0, (at, part.1))
        });
        Some(Self { version, parts: parts.collect() })
    }

    /// Writes what is newer than a version as one event; `None` if nothing is.
    fn newer(&self, than: u64, room: u64) -> Option<Bytes> {
        let newer = self.parts.iter().filter(|(_, (at, _))| *at > than);
        let parts: Map<String, Value> =
            newer.map(|(name, (_, html))| ((*name).to_owned(), Value::from(html.as_str()))).collect();
        if parts.is_empty() {
            return None;
        }
        let mut text = String::new();
        // JSON on one line has no line breaks, whatever the texts in it hold.
        let _ = write!(text, "id: {}\nevent: parts\ndata: {}\n\n", id(room, self.version), Value::Object(parts));
        Some(Bytes::from(text))
    }
}

/// Returns the id of a rendering: which process, which room, which version.
fn id(room: u64, version: u64) -> String {
    format!("{}-{room}-{version}", std::process::id())
}

/// Returns the version that a browser has, if it is one of this room.
fn had(headers: &HeaderMap, room: u64) -> Option<u64> {
    let word = headers.get(LAST_EVENT_ID)?.to_str().ok()?;
    let (before, version) = word.rsplit_once('-')?;
    (before == format!("{}-{room}", std::process::id())).then(|| version.parse().ok()).flatten()
}

/// Answers `GET /ui/live?view=PATH`.
pub(super) async fn open(gateway: &Arc<Gateway>, arrival: &Arrival, asked: Asked) -> Result<Response<Body>, Problem> {
    let target = asked.query.text("view").unwrap_or("/");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let Found::View(view) = view::find(path, &Query::read(query))? else {
        return Err(bad("`view` is the path of a page, such as `/` or `/ui/jobs`."));
    };
    if asked.parts.method == Method::HEAD {
        return Ok(stream(body::full("")));
    }
    if gateway.shutdown.is_draining() {
        return Err(Problem::new(Kind::ShuttingDown, "No stream is begun any more."));
    }
    let Some(seat) = gateway.dashboard.live.seat() else {
        let detail =
            format!("{WATCHERS_MAX} pages are kept current already, and no more may be; this one is as it was.");
        return Err(Problem::new(Kind::TooManyCalls, detail));
    };
    let (room, new) = gateway.dashboard.live.room(&view, asked.words);
    if new {
        tokio::spawn(keep(Arc::clone(gateway), Arc::downgrade(&room), view, asked.words));
    }
    let has = had(&asked.parts.headers, room.number).unwrap_or(0);
    let (sender, receiver) = mpsc::channel(2);
    tokio::spawn(send(Arc::clone(gateway), arrival.clone(), asked, (room, has), sender, seat));
    Ok(stream(Chunks(receiver).boxed_unsync()))
}

fn stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Between a proxy's buffer and a reader a change may lie for minutes.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Renders a view as long as somebody watches it.
async fn keep(gateway: Arc<Gateway>, room: Weak<Room>, view: View, words: &'static Words) {
    loop {
        let Some(room) = room.upgrade() else { return };
        let begun = Instant::now();
        let (looked, shown) = (Arc::clone(&gateway), view.clone());
        let rendered = tokio::task::spawn_blocking(move || render(&looked, words, &shown)).await;
        // What cannot be read now stays as it was; the next rendering may be luckier.
        if let Ok(Ok(rendered)) = rendered {
            let mut parts: Vec<(&'static str, String)> =
                rendered.fragments.into_iter().map(|fragment| (fragment.name, fragment.html)).collect();
            parts.push(("said", rendered.said.unwrap_or_default()));
            let after = room.shown.borrow().after(parts);
            if let Some(after) = after {
                room.shown.send_replace(Arc::new(after));
            }
        }
        drop(room);
        tokio::time::sleep(EVERY.max(begun.elapsed() * PAUSE_TIMES)).await;
    }
}

/// Sends what changes to one watcher, until it goes, may not watch any more, or the gateway ends.
async fn send(
    gateway: Arc<Gateway>,
    arrival: Arrival,
    asked: Asked,
    (room, mut has): (Arc<Room>, u64),
    sender: mpsc::Sender<Bytes>,
    _seat: Seat,
) {
    let mut shown = room.shown.subscribe();
    let mut chunk = Some(Bytes::from_static(COME_BACK.as_bytes()));
    loop {
        if let Some(chunk) = chunk.take()
            && !matches!(tokio::time::timeout(UNREAD_MAX, sender.send(chunk)).await, Ok(Ok(())))
        {
            return;
        }
        let now = Arc::clone(&shown.borrow_and_update());
        if now.version > has {
            chunk = now.newer(has, room.number);
            has = now.version;
            continue;
        }
        tokio::select! {
            () = sender.closed() => return,
            () = gateway.shutdown.draining() => return,
            () = tokio::time::sleep(KEEP_ALIVE) => {
                let visitor = gateway.dashboard.sessions.visitor(&gateway.access, &asked.parts.headers, &arrival);
                if gateway.access.page(&asked.parts, &arrival, Right::Read, visitor.name.as_deref()).is_err() {
                    return;
                }
                chunk = Some(Bytes::from_static(b": alive\n\n"));
            }
            changed = shown.changed() => if changed.is_err() { return },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::{EN, JA};
    use super::*;

    fn parts(people: &str, tiles: &str) -> Vec<(&'static str, String)> {
        vec![("people", people.to_owned()), ("tiles", tiles.to_owned())]
    }

    #[test]
    fn only_what_changed_is_sent_and_nothing_twice() {
        let first = Shown::default().after(parts("a", "b")).unwrap();
        assert!(first.after(parts("a", "b")).is_none(), "the same is no change");
        let second = first.after(parts("a", "c\nd")).unwrap();
        let sent = String::from_utf8(second.newer(first.version, 7).unwrap().to_vec()).unwrap();
        assert_eq!(sent, format!("id: {}\nevent: parts\ndata: {{\"tiles\":\"c\\nd\"}}\n\n", id(7, 2)));
        let all = String::from_utf8(second.newer(0, 7).unwrap().to_vec()).unwrap();
        assert!(all.contains("people") && all.contains("tiles"), "{all}");
        assert!(second.newer(second.version, 7).is_none());
    }

    #[test]
    fn a_browser_that_comes_back_goes_on_where_it_was_in_the_same_room_alone() {
        let mut headers = HeaderMap::new();
        headers.insert(LAST_EVENT_ID, HeaderValue::try_from(id(7, 42)).unwrap());
        assert_eq!((had(&headers, 7), had(&headers, 8)), (Some(42), None));
        headers.insert(LAST_EVENT_ID, HeaderValue::from_static("1-7-42-"));
        assert_eq!(had(&headers, 7), None);
    }

    #[test]
    fn those_who_watch_the_same_share_a_room_and_no_more_watch_than_may() {
        let live = Live::default();
        let view = View::Policy;
        let (room, new) = live.room(&view, &EN);
        assert!(new);
        assert_eq!(live.room(&view, &EN).0.number, room.number);
        assert!(live.room(&view, &JA).1, "another language is another room");
        let number = room.number;
        drop(room);
        assert_ne!(live.room(&view, &EN).0.number, number, "an empty room is given up");
        let seats: Vec<Seat> = (0..WATCHERS_MAX).map(|_| live.seat().unwrap()).collect();
        assert!(live.seat().is_none());
        drop(seats);
        assert!(live.seat().is_some());
    }
}
