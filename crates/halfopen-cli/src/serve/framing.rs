//! Refuses HTTP/1 requests whose framing could be read in two ways, before the parser sees them.
//!
//! Where one reader ends a request by `Content-Length` and the next by `Transfer-Encoding`, a caller can hide a second
//! request in the body of the first. hyper is strict where it must be and lenient where it may be: it drops a
//! `Content-Length` that stands beside `Transfer-Encoding`, takes two equal lengths for one, and tells nobody. What
//! stands before the gateway may have read them otherwise. So the raw bytes are watched between the socket and hyper:
//! [`Scanner`] follows head, body, head over a connection, and [`Watched`] is the socket that holds a head back until
//! it is complete and known to mean one thing.
//!
//! The bytes of a well-formed request are passed on unchanged and, unless a head arrives in pieces, without a copy:
//! they are judged where hyper asked for them. In the place of an ambiguous head hyper is given a request of ours for
//! [`REFUSED_PATH`], so that the refusal is answered like everything else, after the answers that are still due, and
//! then the connection is closed. Writing a refusal past hyper was refused: it could land inside another answer. An
//! ambiguity inside a body becomes an error of that body, which [`Ambiguity::in_error`] finds again.
//!
//! A head that is held back is out of sight of hyper's clocks, so its time is bounded here, and so is the time a caller
//! may leave an answer unread.
//!
//! Connections that begin with the HTTP/2 preface are passed through: HTTP/2 frames mean one thing.

mod chunked;
mod head;
mod scanner;

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::problem::{Kind, Problem};
use scanner::{Scanner, Seen};

/// The path that stands in the place of an ambiguous request. Whoever asks for it is told the same.
pub(super) const REFUSED_PATH: &str = "/.halfopen/refused/";

/// How long the head of a request may take: from its first byte, or from the connection's beginning. What comes between
/// two requests of a connection is bounded by hyper.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// How long a caller may read nothing while there is something to read. Without a bound, whoever stops reading keeps a
/// connection to the dependency for ever.
const STALL_MAX: Duration = Duration::from_secs(120);
/// How long a closed connection is still read, so that what the caller is sending does not reset the connection under
/// the answer it has not read yet (RFC 9112 section 9.6).
const LINGER: Duration = Duration::from_secs(1);
/// How much is read meanwhile, in bytes.
const LINGER_BYTES_MAX: usize = 16 << 20;
/// How much is read at once where hyper's buffer cannot be used, in bytes.
const READ_BYTES: usize = 4096;

/// Why a request could be read in two ways, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Ambiguity {
    /// Both `Content-Length` and `Transfer-Encoding`.
    #[error("Content-Length beside Transfer-Encoding")]
    LengthAndCoding,
    /// More than one `Content-Length`, equal or not.
    #[error("more than one Content-Length")]
    TwoLengths,
    /// A `Content-Length` that is not a plain decimal number.
    #[error("a Content-Length that is not a plain number")]
    BadLength,
    /// A `Transfer-Encoding` other than exactly one `chunked`.
    #[error("a Transfer-Encoding other than chunked")]
    OtherCoding,
    /// A chunk size that is not a plain hexadecimal number, or what follows it.
    #[error("a malformed chunk")]
    BadChunk,
    /// A trailer field that is malformed, or too many.
    #[error("a malformed trailer")]
    BadTrailer,
    /// A line that continues the one before.
    #[error("a folded header line")]
    FoldedLine,
    /// A carriage return or line feed on its own.
    #[error("a line end that is not CR LF")]
    BadLineEnd,
    /// A NUL or another control byte.
    #[error("a control byte")]
    ControlByte,
    /// White space before the colon, or no colon, or a name that is no name.
    #[error("a malformed header name")]
    BadName,
    /// More than one `Host`.
    #[error("more than one Host")]
    TwoHosts,
    /// A first line that is not `METHOD TARGET HTTP/1.1`.
    #[error("a malformed request line")]
    BadRequestLine,
    /// More than a head may hold.
    #[error("more than 64 KiB or 100 lines of head")]
    HeadTooLarge,
    /// A head that does not come to its end.
    #[error("a head that took more than 30 seconds to arrive")]
    HeadTooSlow,
}

impl Ambiguity {
    const ALL: [Self; 14] = [
        Self::LengthAndCoding,
        Self::TwoLengths,
        Self::BadLength,
        Self::OtherCoding,
        Self::BadChunk,
        Self::BadTrailer,
        Self::FoldedLine,
        Self::BadLineEnd,
        Self::ControlByte,
        Self::BadName,
        Self::TwoHosts,
        Self::BadRequestLine,
        Self::HeadTooLarge,
        Self::HeadTooSlow,
    ];

    /// Returns the word that stands behind [`REFUSED_PATH`] and in the answer.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::LengthAndCoding => "length_and_coding",
            Self::TwoLengths => "two_lengths",
            Self::BadLength => "bad_length",
            Self::OtherCoding => "other_coding",
            Self::BadChunk => "bad_chunk",
            Self::BadTrailer => "bad_trailer",
            Self::FoldedLine => "folded_line",
            Self::BadLineEnd => "bad_line_end",
            Self::ControlByte => "control_byte",
            Self::BadName => "bad_name",
            Self::TwoHosts => "two_hosts",
            Self::BadRequestLine => "bad_request_line",
            Self::HeadTooLarge => "head_too_large",
            Self::HeadTooSlow => "head_too_slow",
        }
    }

    /// Returns the ambiguity that a request for this path stands for.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        let name = path.strip_prefix(REFUSED_PATH)?;
        Self::ALL.into_iter().find(|ambiguity| ambiguity.name() == name)
    }

    /// Returns the ambiguity that made reading a request's body fail, if that was it.
    pub(super) fn in_error(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref::<Self>() {
                return Some(*found);
            }
            // An io::Error shows the source of what it holds, not what it holds.
            let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            if let Some(found) = held.and_then(|held| held.downcast_ref::<Self>()) {
                return Some(*found);
            }
            next = error.source();
        }
        None
    }

    /// Returns what the caller is told.
    pub(super) fn problem(self) -> Problem {
        let kind = match self {
            Self::HeadTooLarge => Kind::HeadTooLarge,
            Self::HeadTooSlow => Kind::CallerTooSlow,
            Self::BadRequestLine => Kind::BadRequest,
            Self::LengthAndCoding
            | Self::TwoLengths
            | Self::BadLength
            | Self::OtherCoding
            | Self::BadChunk
            | Self::BadTrailer
            | Self::FoldedLine
            | Self::BadLineEnd
            | Self::ControlByte
            | Self::BadName
            | Self::TwoHosts => Kind::BadFraming,
        };
        Problem::new(kind, format!("It has {self}. The connection is closed.")).reason(self.name())
    }

    /// Returns the request that hyper is given instead.
    fn stand_in(self) -> String {
        format!("GET {REFUSED_PATH}{} HTTP/1.1\r\nHost: halfopen\r\nConnection: close\r\n\r\n", self.name())
    }
}

/// What reading yields once everything that was released has been handed out.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// The socket's next bytes.
    Read,
    /// Nothing: hyper closes the connection after the answer to the stand-in.
    Wait,
    /// An error of the body that is being read.
    Fail(Ambiguity),
}

/// A caller's socket whose requests each mean one thing.
#[derive(Debug)]
pub(super) struct Watched<S> {
    inner: S,
    scanner: Scanner,
    /// What hyper has not been given yet: first `released` bytes that may pass, then an unfinished head.
    held: BytesMut,
    released: usize,
    then: Then,
    /// When the head that is awaited has taken too long.
    head_until: Option<Pin<Box<Sleep>>>,
    /// When what is written has been unread for too long.
    unread_until: Option<Pin<Box<Sleep>>>,
    closing: Option<Closing>,
}

/// The end of a connection: our side is closed, and the caller's is read for a moment.
#[derive(Debug)]
struct Closing {
    until: Pin<Box<Sleep>>,
    bytes_left: usize,
}

impl<S> Watched<S> {
    /// Returns a socket that has just been accepted.
    pub(super) fn new(inner: S) -> Self {
        Self {
            inner,
            scanner: Scanner::new(),
            held: BytesMut::new(),
            released: 0,
            then: Then::Read,
            head_until: None,
            unread_until: None,
            closing: None,
        }
    }

    /// Returns whether the head that is awaited, if one is, has taken too long.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        if self.held.is_empty() && !self.scanner.is_at_the_beginning() {
            return false;
        }
        self.head_until.get_or_insert_with(|| Box::pin(tokio::time::sleep(HEAD_WITHIN))).as_mut().poll(cx).is_ready()
    }

    /// Takes note of what the scanner saw.
    fn note(&mut self, seen: Seen) {
        if seen.passed > 0 {
            self.head_until = None;
        }
        if let Some(ambiguity) = seen.ambiguity {
            self.refuse(ambiguity);
        }
    }

    /// Bounds how long a write may wait.
    fn written<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.unread_until = None;
            return polled;
        }
        let until = self.unread_until.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL_MAX)));
        ready!(until.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the caller reads nothing")))
    }

    /// Puts in the place of everything from here on what hyper is to see of an ambiguity.
    fn refuse(&mut self, ambiguity: Ambiguity) {
        self.held.truncate(self.released);
        if self.scanner.is_in_body() {
            self.then = Then::Fail(ambiguity);
        } else {
            self.held.extend_from_slice(ambiguity.stand_in().as_bytes());
            self.released = self.held.len();
            self.then = Then::Wait;
        }
    }
}

/// Follows the requests of a connection whose bytes arrive in these pieces: how many bytes pass, why no more, and whether
/// the last of them is inside a body.
pub(super) fn followed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (usize, Option<&'static str>, bool) {
    let (mut scanner, mut held, mut passed) = (Scanner::new(), Vec::new(), 0);
    for piece in pieces {
        held.extend_from_slice(piece);
        let seen = scanner.advance(&held);
        passed += seen.passed;
        held.drain(..seen.passed);
        if let Some(ambiguity) = seen.ambiguity {
            return (passed, Some(ambiguity.name()), scanner.is_in_body());
        }
    }
    (passed, None, scanner.is_in_body())
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.released > 0 {
                let length = this.released.min(buf.remaining());
                buf.put_slice(&this.held[..length]);
                this.held.advance(length);
                this.released -= length;
                return Poll::Ready(Ok(()));
            }
            match this.then {
                Then::Read => {}
                Then::Wait => return Poll::Pending,
                Then::Fail(ambiguity) => {
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, ambiguity)));
                }
            }
            if this.held.is_empty() {
                let before = buf.filled().len();
                match Pin::new(&mut this.inner).poll_read(cx, buf) {
                    Poll::Ready(read) => read?,
                    // Whoever says nothing at all is told nothing.
                    Poll::Pending if this.is_late(cx) => return Poll::Ready(Ok(())),
                    Poll::Pending => return Poll::Pending,
                }
                let fresh = &buf.filled()[before..];
                if fresh.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                let seen = this.scanner.advance(fresh);
                if seen.passed < fresh.len() {
                    this.held.extend_from_slice(&fresh[seen.passed..]);
                    buf.set_filled(before + seen.passed);
                }
                this.note(seen);
                if seen.passed > 0 {
                    return Poll::Ready(Ok(()));
                }
            } else {
                let mut room = [0; READ_BYTES];
                let mut room = ReadBuf::new(&mut room);
                match Pin::new(&mut this.inner).poll_read(cx, &mut room) {
                    Poll::Ready(read) => read?,
                    Poll::Pending if this.is_late(cx) => {
                        this.refuse(Ambiguity::HeadTooSlow);
                        continue;
                    }
                    Poll::Pending => return Poll::Pending,
                }
                if room.filled().is_empty() {
                    // The caller stopped in the middle of a head; hyper knows what to do with half of one.
                    this.released = this.held.len();
                    continue;
                }
                this.held.extend_from_slice(room.filled());
                let seen = this.scanner.advance(&this.held);
                this.released = seen.passed;
                this.note(seen);
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.written(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.closing.is_none() {
            ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
            let unread = !matches!(this.then, Then::Read) || this.scanner.is_in_body();
            if !unread {
                return Poll::Ready(Ok(()));
            }
        }
        let closing = this.closing.get_or_insert_with(|| Closing {
            until: Box::pin(tokio::time::sleep(LINGER)),
            bytes_left: LINGER_BYTES_MAX,
        });
        let mut room = [0; READ_BYTES];
        loop {
            if closing.until.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut room = ReadBuf::new(&mut room);
            let read = ready!(Pin::new(&mut this.inner).poll_read(cx, &mut room));
            let length = room.filled().len();
            closing.bytes_left = closing.bytes_left.saturating_sub(length);
            if read.is_err() || length == 0 || closing.bytes_left == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(cx, bytes);
        self.written(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests;
