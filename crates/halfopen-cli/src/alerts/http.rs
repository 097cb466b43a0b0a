//! Posts alerts over HTTP: webhooks and Slack.
//!
//! One connection, one request, no redirects: an address that moved is for a person to write down, and a signed message is
//! not handed to whoever a receiver points at. The answer's body is not read. Addresses are shown by their host alone,
//! because the rest of a webhook's address is its secret.

use std::time::Duration;

use bytes::Bytes;
use halfopen_core::verdict::Class;
use http::header::{CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{HeaderName, Request, StatusCode, Uri};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::message::Message;
use super::{Outcome, sign};
use halfopen_core::alert::Delivered;

/// No stated wait is obeyed beyond this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// Who we say we are.
const AGENT: &str = concat!("halfopen/", env!("CARGO_PKG_VERSION"));

/// Posts an alert as a CloudEvent, signed if there is a key.
pub(super) fn webhook(url: &str, keys: Option<&str>, message: &Message, within: Duration) -> Outcome {
    let body = message.cloud_event();
    let mut fields = vec![(CONTENT_TYPE, "application/cloudevents+json; charset=utf-8".to_owned())];
    fields.push((HeaderName::from_static("webhook-id"), message.id.clone()));
    fields.push((HeaderName::from_static("webhook-timestamp"), message.sent_at_sec.to_string()));
    if let Some(keys) = keys {
        match sign::signature(keys, &message.id, message.sent_at_sec, body.as_bytes()) {
            Ok(signature) => fields.push((HeaderName::from_static("webhook-signature"), signature)),
            Err(why) => return Outcome::never(why),
        }
    }
    post(url, fields, body, within)
}

/// Posts an alert to a Slack webhook.
pub(super) fn slack(url: &str, message: &Message, within: Duration) -> Outcome {
    post(url, vec![(CONTENT_TYPE, "application/json; charset=utf-8".to_owned())], message.slack(), within)
}

fn post(url: &str, fields: Vec<(HeaderName, String)>, body: String, within: Duration) -> Outcome {
    let Ok(uri) = url.parse::<Uri>() else { return Outcome::never("the address is no URL") };
    let Some(authority) = uri.authority().cloned() else { return Outcome::never("the address has no host") };
    let shown = format!("{}://{}/…", uri.scheme_str().unwrap_or("http"), authority.host());
    let mut request = Request::post(uri.path_and_query().map_or("/", |path| path.as_str()))
        .header(HOST, host_of(&authority))
        .header(USER_AGENT, AGENT);
    for (name, value) in fields {
        request = request.header(name, value);
    }
    let Ok(request) = request.body(Full::new(Bytes::from(body))) else {
        return Outcome::never(format!("{shown} cannot be asked: the address has characters that HTTP does not allow"));
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Outcome::not_now(Class::InvalidRequest, format!("cannot start: {error}")),
    };
    let asked = runtime.block_on(async { tokio::time::timeout(within, ask(&uri, request)).await });
    // A resolver that hangs must not keep the process.
    runtime.shutdown_background();
    match asked {
        Err(_) => {
            Outcome::not_now(Class::Timeout, format!("{shown} did not answer within {:.1} s", within.as_secs_f64()))
        }
        Ok(Err(error)) => Outcome::not_now(Class::ConnectionFailure, format!("{shown} cannot be reached: {error}")),
        Ok(Ok((status, wait))) => judged(&shown, status, wait),
    }
}

/// A receiver that says no for good is not asked again; one that is busy or broken is.
fn judged(shown: &str, status: StatusCode, wait: Option<Duration>) -> Outcome {
    if status.is_success() {
        return Outcome::taken();
    }
    let error = format!("{shown} answered {}", status.as_u16());
    match status {
        StatusCode::TOO_MANY_REQUESTS => {
            Outcome { delivered: Delivered::NotNow { error, wait }, class: Class::RateLimited }
        }
        StatusCode::REQUEST_TIMEOUT => Outcome { delivered: Delivered::NotNow { error, wait }, class: Class::Timeout },
        _ if status.is_server_error() => {
            Outcome { delivered: Delivered::NotNow { error, wait }, class: Class::ServerError }
        }
        _ => Outcome::never(error),
    }
}

async fn ask(uri: &Uri, request: Request<Full<Bytes>>) -> Result<(StatusCode, Option<Duration>), String> {
    let secure = uri.scheme_str() == Some("https");
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let stream = TcpStream::connect((host.as_str(), port)).await.map_err(|error| error.to_string())?;
    if !secure {
        return exchange(stream, request).await;
    }
    let name = ServerName::try_from(host).map_err(|_| "its host is no name that TLS knows".to_owned())?;
    let connector = TlsConnector::from(crate::tls::client().map_err(|error| error.to_string())?);
    exchange(connector.connect(name, stream).await.map_err(|error| error.to_string())?, request).await
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<(StatusCode, Option<Duration>), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // It ends with the runtime, if it has not ended with the answer.
    tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let seconds = |value: &HeaderValue| value.to_str().ok()?.trim().parse::<u64>().ok();
    let wait = answer.headers().get(RETRY_AFTER).and_then(seconds).map(Duration::from_secs);
    Ok((answer.status(), wait.map(|wait| wait.min(RETRY_AFTER_MAX))))
}

/// The host as it stands in a request, without a user's name or password.
fn host_of(authority: &http::uri::Authority) -> String {
    authority.port().map_or_else(|| authority.host().to_owned(), |port| format!("{}:{port}", authority.host()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case(200, "yes")]
    #[test_case(204, "yes")]
    #[test_case(301, "never"; "an address that moved is for a person")]
    #[test_case(403, "never")]
    #[test_case(404, "never")]
    #[test_case(408, "not now")]
    #[test_case(429, "not now")]
    #[test_case(500, "not now")]
    #[test_case(503, "not now")]
    fn s184_only_what_may_heal_is_tried_again(status: u16, expected: &str) {
        let outcome = judged("https://x/…", StatusCode::from_u16(status).unwrap(), None);
        let seen = match outcome.delivered {
            Delivered::Yes => "yes",
            Delivered::NotNow { .. } => "not now",
            Delivered::Never { .. } => "never",
            Delivered::NotTried { .. } => "not tried",
        };
        assert_eq!(seen, expected);
    }
}
