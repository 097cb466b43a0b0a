//! The stretch: the same proxy as `hyper_proxy` with a pool of its own, a plain stack of connections.
//!
//! ```text
//! hyper_pool PORT DEPENDENCY_PORT
//! ```
//!
//! The connection used last is taken first, a connection comes back when the answer's body has ended, bodies are not
//! boxed and no connect races another. What it saves over the pooled client of hyper-util is what a gateway could save.
//! A connection that the dependency closed while it lay idle costs the next request a 502 here; a gateway must do better.
//! One thread.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;

const HOP_BY_HOP: [HeaderName; 4] = [header::CONNECTION, header::TE, header::TRANSFER_ENCODING, header::UPGRADE];

type Connection = SendRequest<Incoming>;

/// Idle connections to the one dependency.
struct Pool {
    idle: Mutex<Vec<Connection>>,
    port: u16,
    host: HeaderValue,
}

impl Pool {
    async fn take(&self) -> Result<Connection> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(mut connection) = idle else { break };
            if connection.ready().await.is_ok() {
                return Ok(connection);
            }
        }
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        let (sender, driver) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(driver);
        Ok(sender)
    }

    fn put(&self, connection: Connection) {
        if !connection.is_closed() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}

/// The body on its way to the caller, with the connection that it comes from.
#[derive(Default)]
struct Passing {
    body: Option<Incoming>,
    home: Option<(Connection, Arc<Pool>)>,
}

impl Body for Passing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.body.as_mut().map_or(Poll::Ready(None), |body| Pin::new(body).poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Incoming::size_hint)
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if self.is_end_stream()
            && let Some((connection, pool)) = self.home.take()
        {
            pool.put(connection);
        }
    }
}

async fn forward(mut request: Request<Incoming>, pool: Arc<Pool>) -> Result<Response<Passing>> {
    *request.uri_mut() = request.uri().path_and_query().map_or("/", |path| path.as_str()).parse()?;
    strip(request.headers_mut());
    request.headers_mut().insert(header::HOST, pool.host.clone());
    let answered = match pool.take().await {
        Ok(mut connection) => connection.send_request(request).await.ok().map(|response| (connection, response)),
        Err(_) => None,
    };
    let Some((connection, mut response)) = answered else {
        let mut bad = Response::new(Passing::default());
        *bad.status_mut() = StatusCode::BAD_GATEWAY;
        return Ok(bad);
    };
    strip(response.headers_mut());
    Ok(response.map(|body| Passing { body: Some(body), home: Some((connection, pool)) }))
}

fn strip(headers: &mut HeaderMap) {
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut ports = std::env::args().skip(1).map(|word| word.parse::<u16>().context("not a port"));
    let port = ports.next().context("usage: hyper_pool PORT DEPENDENCY_PORT")??;
    let dependency = ports.next().context("DEPENDENCY_PORT is missing")??;
    let host = format!("127.0.0.1:{dependency}").parse()?;
    let pool = Arc::new(Pool { idle: Mutex::default(), port: dependency, host });
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.context("cannot listen")?;
    loop {
        let (stream, _) = listener.accept().await.context("cannot accept")?;
        stream.set_nodelay(true)?;
        let pool = pool.clone();
        let service = service_fn(move |request| forward(request, pool.clone()));
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}
