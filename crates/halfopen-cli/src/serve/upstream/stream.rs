//! The bytes to and from a dependency, plain or under TLS, and how many were written.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// How many bytes were handed to the system, by whoever drives the connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Written(Arc<AtomicU64>);

impl Written {
    /// Returns how many bytes were written since the connection was made.
    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection to a dependency.
#[derive(Debug)]
pub(super) struct Stream {
    kind: Kind,
    written: Written,
}

#[derive(Debug)]
enum Kind {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(super) fn plain(stream: TcpStream) -> Self {
        Self { kind: Kind::Plain(stream), written: Written::default() }
    }

    pub(super) fn tls(stream: TlsStream<TcpStream>) -> Self {
        Self { kind: Kind::Tls(Box::new(stream)), written: Written::default() }
    }

    /// Returns what tells how much was written.
    pub(super) fn written(&self) -> Written {
        self.written.clone()
    }

    fn count(&self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = written {
            self.written.0.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Kind::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Kind::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = match &mut self.kind {
            Kind::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Kind::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        };
        self.count(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.kind {
            Kind::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Kind::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        };
        self.count(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        match &self.kind {
            Kind::Plain(stream) => stream.is_write_vectored(),
            Kind::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Kind::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Kind::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Kind::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Kind::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
