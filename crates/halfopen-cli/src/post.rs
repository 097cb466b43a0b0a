//! Posts something to somebody who is no dependency: a receiver of alerts, a collector.
//!
//! One connection, one request, no redirects: an address that moved is for a person to write down, and what is signed or
//! secret is not handed to whoever a receiver points at. The answer's body is not read. Errors name no address, because
//! a webhook's is its secret; whoever asks knows what of it may be shown.

use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Request, StatusCode, Uri, request};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Who we say we are.
const AGENT: &str = concat!("halfopen/", env!("CARGO_PKG_VERSION"));

/// No stated wait is obeyed beyond this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// What was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// The status.
    pub(crate) status: StatusCode,
    /// How long it asks us to wait, at most an hour.
    pub(crate) retry_after: Option<Duration>,
}

/// Posts `body` to `uri` with the path and the fields of `request`. It takes as long as it takes: whoever asks bounds it,
/// and ends the connection by dropping this.
///
/// # Errors
///
/// Why there is no answer, without the address.
pub(crate) async fn post(uri: &Uri, request: request::Builder, body: Bytes) -> Result<Answer, String> {
    let authority = uri.authority().ok_or_else(|| "the address has no host".to_owned())?;
    // As it stands in a request, without a user's name or password.
    let host_field =
        authority.port().map_or_else(|| authority.host().to_owned(), |port| format!("{}:{port}", authority.host()));
    let request = request.header(HOST, host_field).header(USER_AGENT, AGENT).body(Full::new(body));
    let request = request.map_err(|_| "the address has characters that HTTP does not allow".to_owned())?;
    let secure = uri.scheme_str() == Some("https");
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let stream = TcpStream::connect((host.as_str(), port)).await.map_err(|error| error.to_string())?;
    if !secure {
        return exchange(stream, request).await;
    }
    let name = ServerName::try_from(host).map_err(|_| "its host is no name that TLS knows".to_owned())?;
    let connector = TlsConnector::from(crate::tls::client().map_err(|error| error.to_string())?);
    exchange(connector.connect(name, stream).await.map_err(|error| error.to_string())?, request).await
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Answer, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // It would end with the runtime of a caller that has one of its own; here nobody else ends it.
    let _connection = Ends(tokio::spawn(async move { drop(connection.await) }));
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let seconds = |value: &HeaderValue| value.to_str().ok()?.trim().parse::<u64>().ok();
    let wait = answer.headers().get(RETRY_AFTER).and_then(seconds).map(Duration::from_secs);
    Ok(Answer { status: answer.status(), retry_after: wait.map(|wait| wait.min(RETRY_AFTER_MAX)) })
}

/// Ends a connection when it is dropped.
struct Ends(tokio::task::JoinHandle<()>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}
