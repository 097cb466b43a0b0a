//! One request and its answer on one connection, driven by whoever waits for it.
//!
//! How far a request got is known here and nowhere else. Bytes of it were handed to the system, or none were: only in
//! the second case it provably never left. An answer that breaks off is an error of its body, so that nobody takes a
//! part for the whole.

use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, response};
use hyper::body::{Body as _, Frame, Incoming, SizeHint};

use super::pool::{Pool, Seated};
use super::{Choose, ConnectError};
use crate::serve::upload::Outgoing;

/// Why there is no answer to a request that had a connection.
#[derive(Debug)]
pub(in crate::serve) struct Lost {
    /// What the connection says.
    pub(in crate::serve) cause: hyper::Error,
    /// Whether bytes of the request were handed to the system.
    pub(in crate::serve) sent: bool,
    /// Whether the connection had been used before: then the other side may just have closed it.
    pub(in crate::serve) reused: bool,
}

/// Why an answer's body ends too early.
pub(in crate::serve) type Broken = hyper::Error;

/// An answer whose body is still coming.
#[derive(Debug)]
pub(in crate::serve) struct Exchange {
    pool: Arc<Pool>,
    /// Until the body has ended.
    seated: Option<Seated>,
    body: Incoming,
}

/// A connection that nothing was sent on yet.
#[derive(Debug)]
pub(in crate::serve) struct Ready {
    pool: Arc<Pool>,
    seated: Seated,
}

impl Pool {
    /// Gets ready for an exchange.
    pub(in crate::serve) async fn ready(
        self: &Arc<Self>,
        choose: Choose,
        within: std::time::Duration,
    ) -> Result<Ready, ConnectError> {
        Ok(Ready { pool: Arc::clone(self), seated: self.take(choose, within).await? })
    }
}

impl Ready {
    /// Sends a request and waits for the head of its answer. Dropping the future closes the connection.
    pub(in crate::serve) async fn send(self, request: Request<Outgoing>) -> Result<(response::Parts, Exchange), Lost> {
        let Self { pool, mut seated } = self;
        let connection = &mut seated.connection;
        let before = connection.written();
        let mut answer = pin!(connection.send.send_request(request));
        let answered = poll_fn(|cx| {
            connection.poll_drive(cx);
            answer.as_mut().poll(cx)
        })
        .await;
        match answered {
            Ok(response) => {
                let (parts, body) = response.into_parts();
                let mut exchange = Exchange { pool, seated: Some(seated), body };
                exchange.put_back_if_over();
                Ok((parts, exchange))
            }
            Err(cause) => Err(Lost { cause, sent: connection.written() > before, reused: connection.used }),
        }
    }
}

impl Exchange {
    /// Returns the next frame of the body, letting the connection work.
    pub(in crate::serve) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let mut polled = Pin::new(&mut self.body).poll_frame(cx);
        if polled.is_pending()
            && let Some(seated) = &mut self.seated
        {
            seated.connection.poll_drive(cx);
            polled = Pin::new(&mut self.body).poll_frame(cx);
        }
        match &polled {
            Poll::Ready(Some(Ok(_))) => self.put_back_if_over(),
            Poll::Ready(None) => self.put_back(),
            Poll::Ready(Some(Err(_))) => self.seated = None,
            Poll::Pending => {}
        }
        polled
    }

    /// Waits for the next frame.
    pub(in crate::serve) async fn frame(&mut self) -> Option<Result<Frame<Bytes>, Broken>> {
        poll_fn(|cx| self.poll_frame(cx)).await
    }

    /// Returns whether the body is known to have ended.
    pub(in crate::serve) fn is_over(&self) -> bool {
        self.body.is_end_stream()
    }

    /// Returns how much of the body is to come, as far as its head said.
    pub(in crate::serve) fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }

    fn put_back_if_over(&mut self) {
        if self.body.is_end_stream() {
            self.put_back();
        }
    }

    fn put_back(&mut self) {
        if let Some(seated) = self.seated.take() {
            self.pool.put_back(seated);
        }
    }
}
