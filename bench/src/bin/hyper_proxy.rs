//! The bar: the smallest proxy that hyper and the pooled client of hyper-util make, and nothing of halfopen.
//!
//! ```text
//! hyper_proxy PORT DEPENDENCY_PORT
//! ```
//!
//! Bodies stream both ways, hop-by-hop headers go, connections are kept and used again. No timeout, no limit, no log:
//! whatever a gateway does beyond this is what it charges for. One thread.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, combinators::BoxBody};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

const HOP_BY_HOP: [HeaderName; 4] = [header::CONNECTION, header::TE, header::TRANSFER_ENCODING, header::UPGRADE];

type Pooled = Client<HttpConnector, Incoming>;

async fn forward(
    mut request: Request<Incoming>,
    client: Pooled,
    authority: Arc<str>,
) -> Result<Response<BoxBody<Bytes, hyper::Error>>> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = Uri::builder().scheme("http").authority(&*authority).path_and_query(path).build()?;
    strip(request.headers_mut());
    request.headers_mut().insert(header::HOST, authority.parse()?);
    let Ok(mut response) = client.request(request).await else {
        let mut bad = Response::new(Empty::new().map_err(|never| match never {}).boxed());
        *bad.status_mut() = StatusCode::BAD_GATEWAY;
        return Ok(bad);
    };
    strip(response.headers_mut());
    Ok(response.map(|body| body.boxed()))
}

fn strip(headers: &mut HeaderMap) {
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut ports = std::env::args().skip(1).map(|word| word.parse::<u16>().context("not a port"));
    let port = ports.next().context("usage: hyper_proxy PORT DEPENDENCY_PORT")??;
    let authority: Arc<str> = format!("127.0.0.1:{}", ports.next().context("DEPENDENCY_PORT is missing")??).into();
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Pooled = Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(1024)
        .pool_idle_timeout(Duration::from_secs(60))
        .pool_timer(TokioTimer::new())
        .build(connector);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.context("cannot listen")?;
    loop {
        let (stream, _) = listener.accept().await.context("cannot accept")?;
        stream.set_nodelay(true)?;
        let (client, authority) = (client.clone(), authority.clone());
        let service = service_fn(move |request| forward(request, client.clone(), authority.clone()));
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}
