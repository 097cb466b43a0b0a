//! Follows the journal for everybody who listens.
//!
//! One loop reads the store a few times a second, as long as somebody listens, and keeps the newest entries in a ring
//! that all listeners share. A listener knows its position; what it needs from before the ring it reads itself. So a
//! hundred listeners cost the store as much as one, and none misses an entry or gets one twice: entries are found by
//! position, never by having been there when they came.
//!
//! Positions are those of this store. A store that was replaced begins anew, and so do its listeners.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use halfopen::handle::Handle;
use halfopen::store::{EventFilter, JournalEntry, StoreError};
use tokio::sync::watch;

/// How often the store is asked for what is new.
const EVERY: Duration = Duration::from_millis(200);
/// How many entries are kept for all.
const RING_MAX: usize = 1024;
/// How many entries are read at once.
const PAGE: usize = 512;
/// How many may listen at once.
pub(super) const LISTENERS_MAX: usize = 64;

/// The newest part of the journal.
#[derive(Clone, Debug, Default)]
struct Recent {
    /// Every entry behind this position is in the ring.
    begin: i64,
    /// The position of the newest entry.
    end: i64,
    /// Grows when the store was replaced.
    epoch: u64,
    ring: VecDeque<Arc<JournalEntry>>,
}

/// The journal as it grows.
#[derive(Debug)]
pub(super) struct Feed {
    recent: watch::Sender<Arc<Recent>>,
    listeners: AtomicUsize,
    wake: tokio::sync::Notify,
}

/// One who listens.
#[derive(Debug)]
pub(super) struct Listener {
    feed: Arc<Feed>,
    handle: Arc<Handle>,
    recent: watch::Receiver<Arc<Recent>>,
    position: i64,
    epoch: u64,
}

impl Feed {
    /// Returns a feed that nobody listens to.
    pub(super) fn new() -> Self {
        Self {
            recent: watch::Sender::new(Arc::new(Recent::default())),
            listeners: AtomicUsize::new(0),
            wake: tokio::sync::Notify::new(),
        }
    }

    /// Returns how many listen.
    pub(super) fn listeners(&self) -> usize {
        self.listeners.load(Ordering::Relaxed)
    }

    /// Begins to listen behind `position`, or at the end of the journal; `None` if as many listen as may.
    pub(super) async fn listen(
        self: &Arc<Self>,
        handle: &Arc<Handle>,
        position: Option<i64>,
    ) -> Result<Option<Listener>, StoreError> {
        let admitted = self
            .listeners
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < LISTENERS_MAX).then_some(n + 1))
            .is_ok();
        if !admitted {
            return Ok(None);
        }
        // From here on the count is given back by dropping the listener.
        let mut listener = Listener {
            feed: Arc::clone(self),
            handle: Arc::clone(handle),
            recent: self.recent.subscribe(),
            position: 0,
            epoch: 0,
        };
        let end = blocking(handle, Handle::journal_end).await?;
        // A position from beyond the end is one of another store.
        listener.position = position.filter(|at| *at <= end).unwrap_or(end);
        listener.epoch = listener.recent.borrow().epoch;
        self.wake.notify_one();
        Ok(Some(listener))
    }

    /// Reads the store for all listeners, for ever.
    pub(super) async fn follow(self: Arc<Self>, handle: Arc<Handle>) {
        loop {
            if self.listeners() == 0 {
                self.wake.notified().await;
                // What happened meanwhile is read by whoever wants it.
                if let Ok(end) = blocking(&handle, Handle::journal_end).await {
                    self.begin_at(end);
                }
            }
            if let Ok(end) = blocking(&handle, Handle::journal_end).await {
                self.catch_up(&handle, end).await;
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    fn begin_at(&self, end: i64) {
        let replaced = end < self.recent.borrow().end;
        self.recent.send_modify(|recent| {
            let epoch = recent.epoch + u64::from(replaced);
            *recent = Arc::new(Recent { begin: end, end, epoch, ring: VecDeque::new() });
        });
    }

    async fn catch_up(&self, handle: &Arc<Handle>, end: i64) {
        let known = self.recent.borrow().end;
        if end < known {
            return self.begin_at(end);
        }
        if end == known {
            return;
        }
        let filter = EventFilter { limit: PAGE, ..EventFilter::default() };
        let Ok(page) = blocking(handle, move |handle| handle.events_after(known, &filter)).await else { return };
        if page.is_empty() {
            return;
        }
        self.recent.send_modify(|recent| {
            let mut next = Recent::clone(recent);
            for entry in page {
                next.end = entry.position;
                next.ring.push_back(Arc::new(entry));
            }
            while next.ring.len() > RING_MAX {
                if let Some(dropped) = next.ring.pop_front() {
                    next.begin = dropped.position;
                }
            }
            *recent = Arc::new(next);
        });
    }
}

impl Listener {
    /// Returns where this one stands.
    pub(super) fn position(&self) -> i64 {
        self.position
    }

    /// Returns the next entries, at least one; waits until there are some.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub(super) async fn next(&mut self) -> Result<Vec<Arc<JournalEntry>>, StoreError> {
        loop {
            let recent = Arc::clone(&self.recent.borrow_and_update());
            if recent.epoch != self.epoch {
                (self.epoch, self.position) = (recent.epoch, recent.begin);
            }
            let entries = if self.position < recent.begin {
                let (position, filter) = (self.position, EventFilter { limit: PAGE, ..EventFilter::default() });
                let page = blocking(&self.handle, move |handle| handle.events_after(position, &filter)).await?;
                page.into_iter().map(Arc::new).collect()
            } else {
                let begin = recent.ring.partition_point(|entry| entry.position <= self.position);
                recent.ring.range(begin..).take(PAGE).map(Arc::clone).collect::<Vec<_>>()
            };
            if let Some(last) = entries.last() {
                self.position = last.position;
                return Ok(entries);
            }
            self.position = self.position.max(recent.begin);
            // The sender lives as long as the feed, which this listener holds.
            let _ = self.recent.changed().await;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.feed.listeners.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn blocking<T: Send + 'static>(
    handle: &Arc<Handle>,
    ask: impl FnOnce(&Handle) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let handle = Arc::clone(handle);
    tokio::task::spawn_blocking(move || ask(&handle))
        .await
        .unwrap_or_else(|_| Err(StoreError::Lost("the thread that asked it ended".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfopen::store::Location;
    use halfopen_core::event::State;
    use halfopen_core::policy::{Policy, Surface};

    fn hold(handle: &Handle, name: &str) {
        let policy = Policy::built_in(name, Surface::Serve);
        handle.hold(&name.parse().unwrap(), &policy, State::Open, None, "test", "").unwrap();
    }

    fn names(entries: &[Arc<JournalEntry>]) -> Vec<&str> {
        entries.iter().map(|entry| entry.event.dependency.as_str()).collect()
    }

    #[tokio::test]
    async fn a_listener_gets_every_entry_behind_its_position_once() {
        let handle = Arc::new(Handle::open(&Location::Memory).unwrap());
        let feed = Arc::new(Feed::new());
        let following = tokio::spawn(Arc::clone(&feed).follow(Arc::clone(&handle)));
        hold(&handle, "before");
        let mut live = feed.listen(&handle, None).await.unwrap().unwrap();
        hold(&handle, "a");
        assert_eq!(names(&live.next().await.unwrap()), ["a"]);
        let position = live.position();
        drop(live);
        hold(&handle, "b");
        hold(&handle, "c");
        let mut again = feed.listen(&handle, Some(position)).await.unwrap().unwrap();
        let mut seen = again.next().await.unwrap();
        while seen.len() < 2 {
            seen.extend(again.next().await.unwrap());
        }
        assert_eq!(names(&seen), ["b", "c"]);
        let mut whole = feed.listen(&handle, Some(0)).await.unwrap().unwrap();
        assert_eq!(names(&whole.next().await.unwrap()), ["before", "a", "b", "c"]);
        following.abort();
    }

    #[tokio::test]
    async fn no_more_listen_than_may() {
        let handle = Arc::new(Handle::open(&Location::Memory).unwrap());
        let feed = Arc::new(Feed::new());
        let mut all = Vec::new();
        for _ in 0..LISTENERS_MAX {
            all.push(feed.listen(&handle, None).await.unwrap().unwrap());
        }
        assert!(feed.listen(&handle, None).await.unwrap().is_none());
        all.pop();
        assert!(feed.listen(&handle, None).await.unwrap().is_some());
    }
}
