//! The body of a caller's request on its way to the dependency, kept so that it can be sent again.
//!
//! It is passed on as it arrives; a copy of what was passed on is kept up to a bound. A further attempt gets the copy
//! first and then whatever still arrives, so that it is byte for byte the same whether the attempt before had read all
//! of it, a part, or nothing. Beyond the bound nothing is kept, and the call has the attempts it has had.
//!
//! A caller that asks first (`Expect: 100-continue`) is answered when the dependency says so, or after a second
//! without a word from it; it is our reading of the body that lets the server side say `100 Continue`.

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Sleep;

use super::framing::Ambiguity;

/// How long a dependency may think about a body before it is sent unasked.
const CONTINUE_WITHIN: Duration = Duration::from_secs(1);
/// How long the beginning of a body is waited for that says by which circuits a call is judged.
const LOOK_WITHIN: Duration = Duration::from_secs(1);
/// The largest piece of a body that comes at once, in bytes.
const PIECE_BYTES: u64 = 1 << 20;

/// How much of all bodies together is kept for further attempts, in bytes. Beyond it a body is sent once.
const KEPT_BYTES_MAX: u64 = 256 << 20;
/// How much of all bodies is kept now.
static KEPT_BYTES: AtomicU64 = AtomicU64::new(0);

/// The body of a call.
#[derive(Clone, Debug)]
pub(super) enum Upload {
    /// There is none.
    Empty,
    /// It arrives.
    Arriving(Arc<Mutex<Arriving>>),
}

/// What has arrived and what is to come.
#[derive(Debug)]
pub(super) struct Arriving {
    source: Incoming,
    length: Option<u64>,
    kept: Vec<Bytes>,
    /// How many pieces were passed on before those in `kept`, and are not there any more.
    gone: usize,
    kept_bytes: u64,
    kept_bytes_max: u64,
    /// Whether what arrives is still kept for a further attempt.
    whole: bool,
    end: End,
    /// Whether the caller was waited for the last time somebody asked.
    waits: bool,
    /// How many frames have come.
    frames: u64,
}

#[derive(Debug)]
enum End {
    Open,
    Came(Option<HeaderMap>),
    /// Whether it was because its framing could be read in two ways.
    BrokenOff(Option<Ambiguity>),
}

/// The body of one attempt.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// There is none.
    Empty,
    /// It was kept, and is sent as a whole; nothing is left once it was.
    Stored(Option<Bytes>),
    /// It is passed on, from the beginning.
    PassedOn {
        /// What has arrived.
        body: Arc<Mutex<Arriving>>,
        /// How many pieces of it were sent.
        sent: usize,
        /// How many bytes were sent.
        sent_bytes: u64,
        /// Whether its end was sent.
        over: bool,
        /// What it waits for before it begins.
        asks: Option<Box<Asks>>,
    },
}

/// A body that waits until the dependency asks for it.
#[derive(Debug)]
pub(super) struct Asks {
    word: Arc<Word>,
    patience: Pin<Box<Sleep>>,
}

/// Whether the dependency has asked for the body.
#[derive(Debug, Default)]
pub(super) struct Word(Mutex<(bool, Option<Waker>)>);

/// The caller broke off its request.
#[derive(Debug, thiserror::Error)]
#[error("the caller's request ended before its body did")]
pub(super) struct CallerBrokeOff;

impl Word {
    /// Notes that the body is wanted.
    pub(super) fn go(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = true;
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }

    fn came(&self, cx: &Context<'_>) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 = Some(cx.waker().clone());
        state.0
    }
}

impl Upload {
    /// Takes a request's body; up to `kept_bytes_max` of it are kept for further attempts, and what `looked_at` asks
    /// for in any case.
    pub(super) fn new(source: Incoming, kept_bytes_max: u64, looked_at: usize) -> Self {
        if source.is_end_stream() {
            return Self::Empty;
        }
        let length = source.size_hint().exact();
        // What is announced to be too long is not begun to be kept.
        let whole = looked_at > 0 || length.is_none_or(|length| length <= kept_bytes_max);
        let kept_bytes_max =
            if looked_at > 0 { kept_bytes_max.max(looked_at as u64 + PIECE_BYTES) } else { kept_bytes_max };
        Self::Arriving(Arc::new(Mutex::new(Arriving {
            source,
            length,
            kept: Vec::new(),
            gone: 0,
            kept_bytes: 0,
            kept_bytes_max,
            whole,
            end: End::Open,
            waits: false,
            frames: 0,
        })))
    }

    /// Returns the body for one attempt, from its beginning. With a word it begins when that has come.
    pub(super) fn outgoing(&self, word: Option<Arc<Word>>) -> Outgoing {
        match self {
            Self::Empty => Outgoing::Empty,
            Self::Arriving(body) => Outgoing::PassedOn {
                body: Arc::clone(body),
                sent: 0,
                sent_bytes: 0,
                over: false,
                asks: word.map(|word| Box::new(Asks { word, patience: Box::pin(tokio::time::sleep(CONTINUE_WITHIN)) })),
            },
        }
    }

    /// Returns the first bytes of the body, `bytes` or more if there are so many, within a second. They are sent too.
    pub(super) async fn beginning(&self, bytes: usize) -> Vec<u8> {
        let Self::Arriving(body) = self else { return Vec::new() };
        let mut beginning = Vec::new();
        let mut pieces = 0;
        let arrived = tokio::time::timeout(LOOK_WITHIN, async {
            while beginning.len() < bytes {
                match poll_fn(|cx| lock(body).poll_piece(pieces, cx)).await {
                    Ok(Some(piece)) => beginning.extend_from_slice(&piece),
                    Ok(None) | Err(CallerBrokeOff) => return,
                }
                pieces += 1;
            }
        });
        // What has come by then has to do.
        let _ = arrived.await;
        beginning
    }

    /// Returns whether a further attempt would get the same bytes.
    pub(super) fn can_be_sent_again(&self) -> bool {
        self.arriving().is_none_or(|body| body.gone == 0)
    }

    /// Returns whether it is longer than is kept, as far as is known.
    pub(super) fn is_too_long(&self) -> bool {
        self.arriving().is_some_and(|body| !body.whole)
    }

    /// Returns all of it, if it has come to its end and was kept.
    pub(super) fn whole(&self) -> Option<Vec<Bytes>> {
        let Some(body) = self.arriving() else { return Some(Vec::new()) };
        // Nobody asks for the end of a body of known length once its last byte has come.
        let ended = match body.end {
            End::Came(None) => true,
            End::Open => body.length == Some(body.kept_bytes),
            End::Came(Some(_)) | End::BrokenOff(_) => false,
        };
        (body.whole && ended).then(|| body.kept.clone())
    }

    /// Waits for all of it; `None` if it is longer than is kept, breaks off, or takes longer than `within`.
    pub(super) async fn all(&self, within: Duration) -> Option<Vec<Bytes>> {
        let Self::Arriving(body) = self else { return Some(Vec::new()) };
        let arrived = async {
            let mut pieces = 0;
            while lock(body).whole && poll_fn(|cx| lock(body).poll_piece(pieces, cx)).await.ok()?.is_some() {
                pieces += 1;
            }
            self.whole()
        };
        tokio::time::timeout(within, arrived).await.ok()?
    }

    /// Returns whether anything of it was asked for.
    pub(super) fn is_begun(&self) -> bool {
        self.arriving().is_some_and(|body| body.frames > 0)
    }

    /// Returns whether the caller broke it off.
    pub(super) fn is_broken_off(&self) -> bool {
        self.arriving().is_some_and(|body| matches!(body.end, End::BrokenOff(_)))
    }

    /// Returns what was wrong with its framing, if that broke it off.
    pub(super) fn ambiguity(&self) -> Option<Ambiguity> {
        self.arriving().and_then(|body| match body.end {
            End::BrokenOff(ambiguity) => ambiguity,
            End::Open | End::Came(_) => None,
        })
    }

    /// Returns whether the caller is what is waited for.
    pub(super) fn waits_for_caller(&self) -> bool {
        self.arriving().is_some_and(|body| body.waits && matches!(body.end, End::Open))
    }

    /// Returns a number that grows as the body arrives.
    pub(super) fn progress(&self) -> u64 {
        self.arriving().map_or(0, |body| body.frames)
    }

    fn arriving(&self) -> Option<MutexGuard<'_, Arriving>> {
        match self {
            Self::Empty => None,
            Self::Arriving(body) => Some(lock(body)),
        }
    }
}

fn lock(body: &Mutex<Arriving>) -> MutexGuard<'_, Arriving> {
    body.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Arriving {
    /// Returns piece `n`, counted from the beginning: one that is kept, or the next one that arrives.
    fn poll_piece(&mut self, n: usize, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, CallerBrokeOff>> {
        match n.checked_sub(self.gone) {
            // A body without its beginning is another body. Nobody may ask for this ([`Upload::can_be_sent_again`]).
            None => return Poll::Ready(Err(CallerBrokeOff)),
            Some(at) => {
                if let Some(piece) = self.kept.get(at) {
                    return Poll::Ready(Ok(Some(piece.clone())));
                }
            }
        }
        if !self.whole {
            // Whoever asks has had everything that is kept, and there will be no second time.
            self.gone += self.kept.len();
            self.forget();
        }
        loop {
            match &self.end {
                End::Open => {}
                End::Came(_) => return Poll::Ready(Ok(None)),
                End::BrokenOff(_) => return Poll::Ready(Err(CallerBrokeOff)),
            }
            let polled = Pin::new(&mut self.source).poll_frame(cx);
            self.waits = polled.is_pending();
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => self.end = End::Came(None),
                Poll::Ready(Some(Err(error))) => self.end = End::BrokenOff(Ambiguity::in_error(&error)),
                Poll::Ready(Some(Ok(frame))) => {
                    self.frames += 1;
                    match frame.into_data() {
                        Ok(piece) => {
                            self.keep(&piece);
                            return Poll::Ready(Ok(Some(piece)));
                        }
                        Err(frame) => self.end = End::Came(frame.into_trailers().ok()),
                    }
                }
            }
        }
    }

    fn keep(&mut self, piece: &Bytes) {
        if !self.whole {
            self.gone += 1;
            return;
        }
        let bytes = piece.len() as u64;
        let all = KEPT_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.kept_bytes += bytes;
        self.whole = self.kept_bytes <= self.kept_bytes_max && all <= KEPT_BYTES_MAX;
        // Also the piece that is too much: it may have been read without being sent yet.
        self.kept.push(piece.clone());
    }

    fn forget(&mut self) {
        self.kept = Vec::new();
        KEPT_BYTES.fetch_sub(std::mem::take(&mut self.kept_bytes), Ordering::Relaxed);
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.forget();
    }
}

impl Outgoing {
    /// Returns the body of a request that was kept.
    pub(super) fn stored(body: Bytes) -> Self {
        if body.is_empty() { Self::Empty } else { Self::Stored(Some(body)) }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = CallerBrokeOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CallerBrokeOff>>> {
        let (body, sent, sent_bytes, over, asks) = match &mut *self {
            Self::Empty => return Poll::Ready(None),
            Self::Stored(body) => return Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Self::PassedOn { body, sent, sent_bytes, over, asks } => (body, sent, sent_bytes, over, asks),
        };
        if *over {
            return Poll::Ready(None);
        }
        if let Some(waiting) = asks {
            if !waiting.word.came(cx) && waiting.patience.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            *asks = None;
        }
        let mut arriving = lock(body);
        match arriving.poll_piece(*sent, cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(Some(piece))) => {
                *sent += 1;
                *sent_bytes += piece.len() as u64;
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Poll::Ready(Ok(None)) => {
                *over = true;
                match &arriving.end {
                    End::Came(Some(trailers)) => Poll::Ready(Some(Ok(Frame::trailers(trailers.clone())))),
                    End::Came(None) | End::Open | End::BrokenOff(_) => Poll::Ready(None),
                }
            }
            Poll::Ready(Err(error)) => {
                *over = true;
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Stored(body) => body.is_none(),
            Self::PassedOn { over, .. } => *over,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Stored(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            Self::PassedOn { body, sent_bytes, .. } => match lock(body).length {
                Some(length) => SizeHint::with_exact(length.saturating_sub(*sent_bytes)),
                None => SizeHint::default(),
            },
        }
    }
}
