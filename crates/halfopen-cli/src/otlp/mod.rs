//! What OTLP asks of whoever exports: where to, as the environment says; a place in a trace; spans; one request.
//!
//! `serve` sends from loops that stay, `run` once when its command is over. Neither waits for a collector longer than it
//! says, and neither fails because of one.

pub(crate) mod context;
pub(crate) mod encode;
pub(crate) mod settings;
pub(crate) mod span;

use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{Request, StatusCode};

use crate::post;
use settings::Target;

/// What is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Calls and attempts.
    Traces,
    /// Figures.
    Metrics,
}

impl Signal {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Traces, Self::Metrics];

    /// Returns its name.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
        }
    }
}

/// What a collector made of a request.
#[derive(Debug)]
pub(crate) enum Took {
    /// All of it.
    Whole,
    /// Nothing, and it will not.
    Never(String),
    /// Nothing yet; with what it says about when.
    Later(String, Option<Duration>),
}

/// Sends a message.
pub(crate) async fn ask(target: &Target, message: Vec<u8>) -> Took {
    let mut request = Request::post(target.url.path_and_query().map_or("/", |path| path.as_str()));
    if let Some(fields) = request.headers_mut() {
        fields.extend(target.headers.clone());
        fields.insert(CONTENT_TYPE, http::HeaderValue::from_static("application/x-protobuf"));
        if target.gzip {
            fields.insert(CONTENT_ENCODING, http::HeaderValue::from_static("gzip"));
        }
    }
    let body = if target.gzip { compressed(&message) } else { message };
    match tokio::time::timeout(target.timeout, post::post(&target.url, request, Bytes::from(body))).await {
        Err(_) => Took::Later(format!("it did not answer within {:.1} s", target.timeout.as_secs_f64()), None),
        Ok(Err(why)) => Took::Later(why, None),
        Ok(Ok(answer)) if answer.status.is_success() => Took::Whole,
        Ok(Ok(answer)) => {
            let why = format!("it answered {}", answer.status.as_u16());
            match answer.status {
                // <https://opentelemetry.io/docs/specs/otlp/#retryable-response-codes>
                StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT => Took::Later(why, answer.retry_after),
                _ => Took::Never(why),
            }
        }
    }
}

fn compressed(message: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // Memory takes everything.
    let _ = encoder.write_all(message);
    encoder.finish().unwrap_or_default()
}
