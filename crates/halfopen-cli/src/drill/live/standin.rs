//! Stands in for the dependency: answers over HTTP what the scenario says that it means, when it says it.
//!
//! It is the only end of the drill that sees what really left the gateway, so what it notes is what the row is judged by.
//! A refused connection is a refused connection: the port stays ours by a socket that is bound and does not listen, and
//! whoever listens on it can go and come back.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;

use super::super::spoken::Meaning;
use super::stage::{Meets, Stage};

/// How many connections wait to be accepted.
const WAITING_MAX: u32 = 1024;
/// How often is looked whether the dependency can be reached.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(10);

/// The address of a dependency that is not there yet.
#[derive(Debug)]
pub(super) struct Place {
    address: SocketAddr,
    /// Keeps the port while nobody listens.
    _kept: TcpSocket,
}

impl Place {
    /// Takes a port of the loopback.
    pub(super) fn take() -> io::Result<Self> {
        let kept = socket((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self { address: kept.local_addr()?, _kept: kept })
    }

    /// Returns its base URL.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn listen(&self) -> io::Result<TcpListener> {
        socket(self.address)?.listen(WAITING_MAX)
    }
}

fn socket(at: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // Two sockets of one user may have one port, and only one of them listens.
    socket.set_reuseport(true)?;
    socket.bind(at)?;
    Ok(socket)
}

/// Answers for as long as it is polled.
pub(super) async fn stand_in(place: Arc<Place>, stage: Arc<Stage>) {
    let mut connections = JoinSet::new();
    let mut listener: Option<TcpListener> = None;
    loop {
        match (stage.is_reached(), listener.is_some()) {
            (true, false) => listener = place.listen().ok(),
            (false, true) => {
                // Who holds an old connection is told, too.
                listener = None;
                connections.abort_all();
            }
            (true, true) | (false, false) => {}
        }
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await.ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            accepted = accepted => {
                let Some((stream, _)) = accepted else { continue };
                let _ = stream.set_nodelay(true);
                let stage = Arc::clone(&stage);
                connections.spawn(async move {
                    let service = service_fn(move |request| answer(Arc::clone(&stage), request));
                    let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                    // What goes wrong here is what the scenario wants, or the gateway's end.
                    let _ = connection.await;
                });
            }
            Some(_) = connections.join_next() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

/// The answer's body, which notes its end.
struct Told {
    body: Full<Bytes>,
    stage: Arc<Stage>,
    sent: usize,
    done: bool,
}

impl Body for Told {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(_)) {
            self.stage.answered(self.sent, self.done);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        // One that was never asked for.
        self.stage.left(self.sent);
    }
}

/// Notes that an attempt is over when its connection is gone, whoever ended it.
struct Gone(Option<Arc<Stage>>, usize);

impl Drop for Gone {
    fn drop(&mut self) {
        if let Some(stage) = self.0.take() {
            stage.left(self.1);
        }
    }
}

/// Why there is no answer: the connection is closed.
#[derive(Debug, thiserror::Error)]
#[error("the scenario breaks the connection off")]
struct BreaksOff;

async fn answer(stage: Arc<Stage>, request: hyper::Request<Incoming>) -> Result<Response<Told>, BreaksOff> {
    let call = request.uri().path().rsplit('/').next().and_then(|word| word.parse().ok());
    // It has arrived when its head has; what the body holds is nothing to a stand-in.
    let met = call.and_then(|call| stage.arrive(call));
    let _ = request.into_body().collect().await;
    let Some(Meets { sent, meaning, takes, stated }) = met else { return Err(BreaksOff) };
    let mut gone = Gone(Some(Arc::clone(&stage)), sent);
    let began = std::time::Instant::now();
    // Late is after the timeout: an answer comes, when nobody should wait for it any more.
    tokio::time::sleep(if meaning == Meaning::Late { takes * 2 } else { takes }).await;
    if matches!(meaning, Meaning::Crash | Meaning::NotReached) {
        return Err(BreaksOff);
    }
    if meaning != Meaning::Late {
        stage.note_late(began.elapsed().saturating_sub(takes), "an answer of the stand-in");
    }
    gone.0 = None;
    let spoken = if meaning == Meaning::Late { Meaning::Ok } else { meaning };
    let said = super::super::spoken::said(spoken, stated, stage.wall_ms());
    let (status, fields, body) = said.http();
    let done = matches!(meaning, Meaning::Ok | Meaning::OkExplainsLimits);
    if body.is_empty() {
        // Nobody asks a body for its end that has none.
        stage.answered(sent, done);
    }
    let mut response = Response::new(Told { body: Full::new(Bytes::from(body)), stage, sent, done });
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in fields {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(*name, value);
        }
    }
    Ok(response)
}
