//! Keeps a panic to the call it happened in: the caller gets a 500, everybody else notices nothing.
//!
//! What the call held is dropped while the stack unwinds, its permit among it, and goes back. A panic behind the head of
//! an answer ends the caller's connection, which is all that can still be said.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::task::Poll;

use http::Response;

use super::body::Body;
use super::counts::Counts;
use super::problem::{Dialect, Kind, Problem};
use crate::log::{self, Level};

/// Has panics said in the log, as one line with the place, in the form of all others. What a panic says may hold anything,
/// so it passes the redaction.
pub(super) fn told() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let said = panic.payload_as_str().map(halfopen_core::redact::line);
        log::line(Level::Error, "panic", &[("at", place.into()), ("said", said.into())]);
    }));
}

/// Returns what `call` answers, or says that we failed.
pub(super) async fn caught(
    counts: &Counts,
    dialect: Dialect,
    call: impl Future<Output = Response<Body>>,
) -> Response<Body> {
    let ended = {
        let mut call = pin!(call);
        std::future::poll_fn(|cx| {
            // A call that panicked is not polled again.
            match std::panic::catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx))) {
                Ok(polled) => polled.map(Some),
                Err(_) => Poll::Ready(None),
            }
        })
        .await
    };
    ended.unwrap_or_else(|| {
        counts.panics.add();
        let text = "This is a fault of the gateway; its log says where. Whether the call was sent is not known.";
        Problem::new(Kind::Internal, text).answer(dialect)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_500_and_what_the_call_held_is_dropped() {
        struct Held<'a>(&'a std::cell::Cell<bool>);
        impl Drop for Held<'_> {
            fn drop(&mut self) {
                self.0.set(true);
            }
        }
        let given_back = std::cell::Cell::new(false);
        let counts = Counts::default();
        let answer = caught(&counts, Dialect::Problem, async {
            let _held = Held(&given_back);
            tokio::task::yield_now().await;
            std::panic::resume_unwind(Box::new("on purpose"))
        })
        .await;
        assert_eq!((answer.status().as_u16(), given_back.get(), counts.panics.total()), (500, true, 1));
    }
}
