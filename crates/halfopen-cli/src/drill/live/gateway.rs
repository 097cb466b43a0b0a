//! Speaks to the gateway that is drilled: as an operator, and as a caller.
//!
//! Every request has a connection of its own, as the callers of an outage have: what one of them does with its own (leave,
//! hang) reaches nobody else. Whoever drops a call drops its connection, which is how a caller leaves in the middle of one.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpStream, UnixStream};

use super::super::{DrillArgs, DrillError};
use crate::exit;
use crate::gateway_url::{GatewayUrl, TokenFault, token};

/// How long an operator's question may take.
const WITHIN: Duration = Duration::from_secs(15);
/// The longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Where a caller shows its token.
const TOKEN: HeaderName = HeaderName::from_static("halfopen-token");
/// What begins the type of every problem of a gateway.
const PROBLEM: &str = "urn:halfopen:problem:";

/// A running gateway.
#[derive(Debug)]
pub(super) struct Gateway {
    operators: GatewayUrl,
    calls: GatewayUrl,
    operator: Option<HeaderValue>,
    caller: Option<HeaderValue>,
}

/// An answer, whole.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    /// Returns a field as text.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the body as JSON; null if it is none.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Ends a connection when whoever uses it goes.
struct Driven(tokio::task::JoinHandle<()>);

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Gateway {
    /// Returns the gateway at `at`, whose calls go to `calls` if that is another place.
    pub(super) fn of(args: &DrillArgs) -> Result<Self, DrillError> {
        let fault = |fault: TokenFault| DrillError::Gateway {
            code: match fault {
                TokenFault::Unreadable { .. } => exit::IO,
                TokenFault::NoWord => exit::USAGE,
            },
            message: fault.to_string(),
            hint: Some("the file holds what halfopen token NAME printed".to_owned()),
        };
        let word = |token: Option<String>, scheme: &str| {
            token.and_then(|token| HeaderValue::from_str(&format!("{scheme}{token}")).ok()).map(|mut value| {
                value.set_sensitive(true);
                value
            })
        };
        let operator = word(args.at.token().map_err(fault)?, "Bearer ");
        let caller = word(token(args.caller_token_file.as_ref(), "HALFOPEN_CALLER_TOKEN").map_err(fault)?, "");
        let operators = args.at.url.clone().unwrap_or_else(|| GatewayUrl::Tcp("127.0.0.1:4141".to_owned()));
        let calls = args.calls_url.as_ref().unwrap_or(&operators).clone();
        Ok(Self { calls, operators, operator, caller })
    }

    /// Returns where operators are answered.
    pub(super) fn url(&self) -> &GatewayUrl {
        &self.operators
    }

    /// Asks as an operator.
    ///
    /// # Errors
    ///
    /// [`DrillError::Gateway`] with what the gateway says, or that it says nothing.
    pub(super) async fn ask(&self, method: Method, target: &str, body: Option<&Value>) -> Result<Value, DrillError> {
        let answer = self.asked(method, target, body).await?;
        if answer.status.is_success() {
            return serde_json::from_slice(&answer.body).map_err(|error| self.strange(&error.to_string()));
        }
        Err(self.refused(target, &answer))
    }

    /// Asks for a text as an operator; `None` if there is none of the kind.
    pub(super) async fn text(&self, target: &str) -> Result<String, DrillError> {
        let answer = self.asked(Method::GET, target, None).await?;
        if answer.status.is_success() {
            return Ok(String::from_utf8_lossy(&answer.body).into_owned());
        }
        Err(self.refused(target, &answer))
    }

    async fn asked(&self, method: Method, target: &str, body: Option<&Value>) -> Result<Answer, DrillError> {
        let mut headers = HeaderMap::new();
        if let Some(operator) = &self.operator {
            headers.insert(AUTHORIZATION, operator.clone());
        }
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers.insert(http::header::ACCEPT, HeaderValue::from_static("application/json"));
        let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let sending = exchange(&self.operators, method, target, headers, body);
        let answer = match tokio::time::timeout(WITHIN, sending).await {
            Ok(answer) => answer,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        answer.map_err(|error| DrillError::Gateway {
            code: exit::IO,
            message: format!("gateway {} cannot be reached: {error}", self.operators),
            hint: Some(
                "start one with halfopen serve, which says where it answers operators, and name it with --url"
                    .to_owned(),
            ),
        })
    }

    /// Makes a call. Dropped, it is broken off.
    pub(super) async fn call(&self, target: &str, mut headers: HeaderMap, body: Bytes) -> io::Result<Answer> {
        if let Some(caller) = &self.caller {
            headers.insert(TOKEN, caller.clone());
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        exchange(&self.calls, Method::POST, target, headers, body).await
    }

    fn strange(&self, why: &str) -> DrillError {
        DrillError::Gateway {
            code: exit::IO,
            message: format!("what {} answers is not understood: {why}", self.operators),
            hint: Some("the gateway may be of another version; GET /healthz tells it".to_owned()),
        }
    }

    fn refused(&self, target: &str, answer: &Answer) -> DrillError {
        let (status, problem) = (answer.status.as_u16(), answer.json());
        let url = &self.operators;
        let of = |code: u8, message: String, hint: Option<&str>| DrillError::Gateway {
            code,
            message,
            hint: hint.map(str::to_owned),
        };
        let Some(kind) = problem["type"].as_str().and_then(|kind| kind.strip_prefix(PROBLEM)) else {
            let hint = Some("operators may be answered elsewhere: --admin-listen");
            return of(exit::IO, format!("{url} is no gateway of halfopen: it answers {status}"), hint);
        };
        let say = |key: &str| problem[key].as_str().unwrap_or_default().trim_end_matches('.').to_owned();
        let message = format!("{url} refuses ({status}): {}. {}", say("title"), say("detail"));
        match (status, kind) {
            (404, "not_found") if target.starts_with("/drills") && !say("detail").contains("drill") => {
                if say("detail").contains("--admin-listen") {
                    return of(
                        exit::USAGE,
                        message,
                        Some("name that address with --url, and this one with --calls-url"),
                    );
                }
                let message = format!("the gateway at {url} is too old to be drilled: it knows no /drills");
                of(exit::IO, message, Some("halfopen drill without --live rehearses the policy by itself"))
            }
            (401, _) => of(exit::AUTH, message, Some("name the operator's token with --token-file or HALFOPEN_TOKEN")),
            (403, _) => of(exit::AUTH, message, None),
            (421, _) => {
                let hint = Some("start the gateway with --public-host NAME to be asked under that name");
                of(exit::AUTH, message, hint)
            }
            (400 | 404, _) => of(exit::USAGE, message, None),
            _ => of(exit::IO, message, None),
        }
    }
}

async fn exchange(
    at: &GatewayUrl,
    method: Method,
    target: &str,
    headers: HeaderMap,
    body: Bytes,
) -> io::Result<Answer> {
    match at {
        GatewayUrl::Tcp(authority) => {
            let stream = TcpStream::connect(authority).await?;
            let _ = stream.set_nodelay(true);
            over(stream, authority, method, target, headers, body).await
        }
        GatewayUrl::Unix(path) => {
            over(UnixStream::connect(path).await?, "localhost", method, target, headers, body).await
        }
    }
}

async fn over<S>(
    stream: S,
    host: &str,
    method: Method,
    target: &str,
    headers: HeaderMap,
    body: Bytes,
) -> io::Result<Answer>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let _driven = Driven(tokio::spawn(async move {
        let _ = connection.await;
    }));
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = target.parse().map_err(io::Error::other)?;
    *request.headers_mut() = headers;
    request.headers_mut().insert(HOST, HeaderValue::from_str(host).map_err(io::Error::other)?);
    let (parts, body) = sender.send_request(request).await.map_err(io::Error::other)?.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(io::Error::other)?.to_bytes();
    Ok(Answer { status: parts.status, headers: parts.headers, body })
}

/// Returns a word as one segment of a path, or as a value of a query.
pub(super) fn encoded(word: &str) -> String {
    word.bytes().fold(String::with_capacity(word.len()), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
        text
    })
}
