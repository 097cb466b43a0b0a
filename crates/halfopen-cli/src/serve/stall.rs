//! Ends an answer on HTTP/2 that its caller leaves unread.
//!
//! On HTTP/1 a caller that stops reading stops the whole connection, and the socket notices ([`super::framing`]). On
//! HTTP/2 it stops one stream: the connection goes on, the body of that stream is not polled any more, and nothing in it
//! could look at a clock. So a watcher beside it does. A caller that has read nothing of what was there for
//! [`STALL_MAX`] loses the stream, and the connection to the dependency is closed. Waiting for the dependency is no
//! stall, however long it takes; that has bounds of its own.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::body::BodyError;

/// How long a caller may read nothing while there is something to read, as on HTTP/1.
const STALL_MAX: Duration = Duration::from_secs(120);

/// A body that is dropped when it has not been asked for more for too long.
#[derive(Debug)]
pub(super) struct Watched<B> {
    shared: Arc<Mutex<Shared<B>>>,
    watcher: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared<B> {
    /// `None` after a stall.
    body: Option<B>,
    /// Since when there has been something to read; `None` while the dependency is waited for.
    unread_since: Option<Instant>,
}

/// Why a body ends early.
#[derive(Debug, thiserror::Error)]
#[error("the caller has read nothing for {} s", STALL_MAX.as_secs())]
struct Stalled;

impl<B: Send + 'static> Watched<B> {
    /// Watches a body that is about to be sent.
    pub(super) fn new(body: B) -> Self {
        let shared = Shared { body: Some(body), unread_since: Some(Instant::now()) };
        let shared = Arc::new(Mutex::new(shared));
        let watcher = tokio::spawn(watch(Arc::clone(&shared)));
        Self { shared, watcher }
    }
}

async fn watch<B>(shared: Arc<Mutex<Shared<B>>>) {
    loop {
        let due = lock(&shared).unread_since.unwrap_or_else(Instant::now) + STALL_MAX;
        tokio::time::sleep_until(due).await;
        let mut held = lock(&shared);
        if held.unread_since.is_some_and(|since| since.elapsed() >= STALL_MAX) {
            let body = held.body.take();
            // What its end does takes locks of its own.
            drop(held);
            drop(body);
            return;
        }
    }
}

fn lock<B>(shared: &Mutex<Shared<B>>) -> MutexGuard<'_, Shared<B>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<B> Body for Watched<B>
where
    B: Body<Data = Bytes, Error = BodyError> + Unpin,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut shared = lock(&self.shared);
        let Some(body) = &mut shared.body else { return Poll::Ready(Some(Err(Box::new(Stalled)))) };
        let polled = Pin::new(body).poll_frame(cx);
        shared.unread_since = polled.is_ready().then(Instant::now);
        polled
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.shared).body.as_ref().is_some_and(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        lock(&self.shared).body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl<B> Drop for Watched<B> {
    fn drop(&mut self) {
        self.watcher.abort();
        // The watcher holds the rest of it until it is told, and what hangs on it ends now.
        let body = lock(&self.shared).body.take();
        drop(body);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use http_body_util::BodyExt as _;

    use super::*;

    /// Gives what is in it, then nothing, and says when it is dropped.
    #[derive(Debug)]
    struct Pieces {
        left: VecDeque<&'static str>,
        _held: Arc<()>,
    }

    impl Body for Pieces {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            match self.left.pop_front() {
                Some(piece) => Poll::Ready(Some(Ok(Frame::data(piece.into())))),
                None => Poll::Pending,
            }
        }
    }

    fn pieces(pieces: &[&'static str]) -> (Watched<Pieces>, std::sync::Weak<()>) {
        let alive = Arc::new(());
        let gone = Arc::downgrade(&alive);
        (Watched::new(Pieces { left: pieces.iter().copied().collect(), _held: alive }), gone)
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_reads_is_let_go_and_ends_with_an_error() {
        let (mut body, held) = pieces(&["a", "b"]);
        assert!(body.frame().await.is_some_and(|frame| frame.is_ok()));
        tokio::time::sleep(STALL_MAX - Duration::from_secs(1)).await;
        assert!(held.upgrade().is_some());
        tokio::time::sleep(STALL_MAX).await;
        assert!(held.upgrade().is_none(), "the connection behind it is closed, although nobody has dropped the stream");
        let ended = body.frame().await.expect("an end").expect_err("an error");
        assert!(ended.to_string().contains("read nothing"), "{ended}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_never_asked_for_is_let_go() {
        let (_body, held) = pieces(&["a"]);
        tokio::time::sleep(STALL_MAX * 2).await;
        assert!(held.upgrade().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_the_dependency_is_no_stall() {
        let (mut body, held) = pieces(&["a"]);
        assert!(body.frame().await.is_some_and(|frame| frame.is_ok()));
        assert!(tokio::time::timeout(STALL_MAX * 10, body.frame()).await.is_err(), "nothing has come");
        assert!(held.upgrade().is_some());
        drop(body);
        assert!(held.upgrade().is_none());
    }
}
