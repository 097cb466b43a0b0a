//! The dependency behind every compared gateway, and the bare hyper server that a refusal is measured against.
//!
//! ```text
//! stub PORT
//! ```
//!
//! Any request gets a chat completion of about 600 bytes; a path that begins with `/20ms` (or another number) gets it
//! after that many milliseconds, and a body with `"stream":true` gets 50 server-sent events 5 ms apart and `[DONE]`,
//! each in a chunk of its own. One thread, so that one core is what it can take. It checks nothing else: what a real
//! dependency would refuse is no concern of a bench.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, Sleep};

/// The answer to a request that does not stream.
const COMPLETION: &str = r#"{"id":"chatcmpl-0001","object":"chat.completion","created":1790000000,"model":"gpt-stub","choices":[{"index":0,"message":{"role":"assistant","content":"Hello. This answer has the size of a short answer of a language model, so that copying it costs a gateway what copying such an answer costs, and no more than that.","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":34,"total_tokens":53,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},"service_tier":"default"}"#;

/// One event of a stream.
const EVENT: &str = concat!(
    r#"data: {"id":"chatcmpl-0001","object":"chat.completion.chunk","created":1790000000,"model":"gpt-stub","#,
    r#""choices":[{"index":0,"delta":{"role":"assistant","content":" word"},"finish_reason":null}]}"#,
    "\n\n"
);

/// Events of one stream before `[DONE]`.
const EVENTS: u32 = 50;

/// From one event to the next.
const PACE: Duration = Duration::from_millis(5);

/// What the stub answers with.
enum Answer {
    /// One piece, handed out once.
    Whole(Option<Bytes>),
    /// Events, each when it is due.
    Events { sent: u32, due: Pin<Box<Sleep>> },
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let (sent, due) = match &mut *self {
            Self::Whole(bytes) => return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Events { sent, due } => (sent, due),
        };
        if *sent > EVENTS {
            return Poll::Ready(None);
        }
        if *sent < EVENTS {
            ready!(due.as_mut().poll(cx));
            due.as_mut().reset(Instant::now() + PACE);
        }
        *sent += 1;
        let event = if *sent <= EVENTS { EVENT } else { "data: [DONE]\n\n" };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(event.as_bytes())))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Events { .. } => SizeHint::default(),
        }
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Answer>, hyper::Error> {
    let delay = delay_of(request.uri().path());
    let body = request.into_body().collect().await?.to_bytes();
    let mut response = Response::new(Answer::Whole(None));
    let json = if body.windows(13).any(|bytes| bytes == br#""stream":true"#) {
        let due = Box::pin(tokio::time::sleep(Duration::ZERO));
        *response.body_mut() = Answer::Events { sent: 0, due };
        "text/event-stream"
    } else {
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        *response.body_mut() = Answer::Whole(Some(Bytes::from_static(COMPLETION.as_bytes())));
        "application/json"
    };
    response.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static(json));
    Ok(response)
}

/// Reads the delay from a first path segment such as `20ms`.
fn delay_of(path: &str) -> Option<Duration> {
    let first = path.trim_start_matches('/').split('/').next()?;
    first.strip_suffix("ms")?.parse().ok().map(Duration::from_millis)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let port: u16 = std::env::args().nth(1).context("usage: stub PORT")?.parse().context("PORT is not a port")?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.context("cannot listen")?;
    loop {
        let (stream, _) = listener.accept().await.context("cannot accept")?;
        stream.set_nodelay(true)?;
        // A caller that leaves in the middle is no failure of a bench; whoever measures counts what it got.
        tokio::spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)),
        );
    }
}
