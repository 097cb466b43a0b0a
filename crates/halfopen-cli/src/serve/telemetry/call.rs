//! Follows one call of a caller, from its head to the head of its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::HeaderMap;
use http::{Method, Response};
use serde_json::json;

use super::super::problem::{ATTEMPTS, CIRCUIT, OUTCOME};
use super::Telemetry;
use crate::log::{self, Level};
use crate::otlp::context::{Context, TRACEPARENT, TRACESTATE};
use crate::otlp::span::{Kind, Span, method_word};

/// A call that is followed. Dropped without an answer, it says that the caller went away.
#[derive(Debug)]
pub(in crate::serve) struct CallSpan(Option<Box<Following>>);

#[derive(Debug)]
struct Following {
    telemetry: Arc<Telemetry>,
    dependency: String,
    method: Method,
    began: Instant,
    /// Where it is recorded.
    span: Option<Span>,
}

impl CallSpan {
    /// Begins to follow a call. Where it is recorded, its fields name our span from here on, so that attempts, and jobs
    /// that are made of it, belong to it.
    pub(in crate::serve) fn begin(
        telemetry: &Arc<Telemetry>,
        dependency: &str,
        method: &Method,
        path: &str,
        headers: &mut HeaderMap,
    ) -> Self {
        let before = if telemetry.records() { Context::of(headers) } else { None };
        let context = if telemetry.records() { Context::begin(before, telemetry.settings.sampler) } else { None };
        if context.is_none() && !log::is_on(Level::Debug) {
            return Self(None);
        }
        let span = context.map(|context| {
            let word = method_word(method);
            let name = format!("{} /d/{dependency}", if word == "_OTHER" { "HTTP" } else { word });
            let mut span = Span::new(context, before.map(|before| before.span), name, Kind::Server);
            if before.is_some() {
                span.state = headers.get(TRACESTATE).and_then(|state| state.to_str().ok()).unwrap_or("").to_owned();
            }
            span.tell("http.request.method", word);
            span.tell("http.route", format!("/d/{dependency}/{{path}}"));
            let path = path.split('?').next().unwrap_or_default();
            span.tell("url.path", halfopen_core::redact::line(&format!("/d/{dependency}{path}")));
            span.tell("url.scheme", "http");
            span.tell("halfopen.dependency", dependency);
            headers.insert(TRACEPARENT, context.field());
            span
        });
        let (telemetry, method) = (Arc::clone(telemetry), method.clone());
        let dependency = dependency.to_owned();
        Self(Some(Box::new(Following { telemetry, dependency, method, began: Instant::now(), span })))
    }

    /// Ends it with the head of its answer.
    pub(in crate::serve) fn end<B>(mut self, response: &Response<B>) {
        let Some(following) = self.0.take() else { return };
        let field = |name| response.headers().get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
        let outcome = field(OUTCOME).unwrap_or("none");
        let attempts: u32 = field(ATTEMPTS).and_then(|text| text.parse().ok()).unwrap_or(0);
        following.over(Some(response.status().as_u16()), outcome, attempts, field(CIRCUIT));
    }
}

impl Drop for CallSpan {
    fn drop(&mut self) {
        if let Some(following) = self.0.take() {
            following.over(None, "caller_gone", 0, None);
        }
    }
}

impl Following {
    fn over(self: Box<Self>, status: Option<u16>, outcome: &str, attempts: u32, circuit: Option<&str>) {
        let took = self.began.elapsed();
        if log::is_on(Level::Debug) {
            log::line(
                Level::Debug,
                "call",
                &[
                    ("dependency", json!(self.dependency)),
                    ("method", json!(self.method.as_str())),
                    ("status", json!(status)),
                    ("outcome", json!(outcome)),
                    ("attempts", json!(attempts)),
                    ("circuit", json!(circuit)),
                    ("took_ms", json!(millis(took))),
                ],
            );
        }
        let Some(mut span) = self.span else { return };
        if let Some(status) = status {
            span.tell("http.response.status_code", status);
        }
        // Of a server's answers those of 500 and above are errors, the others are the caller's business.
        if status.is_none_or(|status| status >= 500) {
            let word = status.map_or_else(|| outcome.to_owned(), |status| status.to_string());
            span.tell("error.type", word);
            span.error = Some(outcome.to_owned());
        }
        span.tell("halfopen.outcome", outcome);
        span.tell("halfopen.attempts", attempts);
        if let Some(circuit) = circuit {
            span.tell("halfopen.circuit", circuit);
        }
        span.end();
        self.telemetry.put(span);
    }
}

/// Returns milliseconds with what is behind the point, as people compare them.
pub(super) fn millis(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e3
}
