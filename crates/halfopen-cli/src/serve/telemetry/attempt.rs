//! Follows one attempt at a dependency, from its permit to its verdict.
//!
//! As the conventions for HTTP clients say: <https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-client-span>.

use std::sync::Arc;
use std::time::Instant;

use halfopen_core::verdict::{Class, Verdict};
use http::header::{HeaderMap, HeaderValue};
use http::{Method, Uri};
use serde_json::json;

use super::super::target::Upstream;
use super::Telemetry;
use super::call::millis;
use crate::log::{self, Level};
use crate::otlp::context::{Context, TRACEPARENT};
use crate::otlp::span::{Kind, Span, method_word};

use super::durations::Request;

/// An attempt that is followed. Dropped without a verdict, it says that nobody waited for its end.
#[derive(Debug)]
pub(in crate::serve) struct AttemptSpan(Option<Box<Following>>);

#[derive(Debug)]
struct Following {
    telemetry: Arc<Telemetry>,
    dependency: String,
    number: u32,
    status: Option<u16>,
    began: Instant,
    /// What its duration is told by, where figures are exported.
    request: Option<Request>,
    /// Where it is recorded.
    span: Option<Span>,
}

/// What is known of an attempt before it is sent.
#[derive(Debug)]
pub(in crate::serve) struct About<'a> {
    pub(in crate::serve) dependency: &'a str,
    pub(in crate::serve) circuit: Option<&'a str>,
    pub(in crate::serve) upstream: Option<&'a Upstream>,
    pub(in crate::serve) method: &'a Method,
    /// Path and query.
    pub(in crate::serve) target: &'a Uri,
    /// With the place of the call.
    pub(in crate::serve) headers: &'a HeaderMap,
    /// Which one of its call, 1-based.
    pub(in crate::serve) number: u32,
    pub(in crate::serve) probe: bool,
    pub(in crate::serve) job: bool,
}

impl AttemptSpan {
    /// Returns one that follows nothing.
    pub(in crate::serve) const fn none() -> Self {
        Self(None)
    }

    /// Begins to follow an attempt, where its call is recorded or the log tells of attempts.
    pub(in crate::serve) fn begin(telemetry: &Arc<Telemetry>, about: &About<'_>) -> Self {
        let call = if telemetry.records() { Context::of(about.headers).filter(|call| call.is_sampled()) } else { None };
        if call.is_none() && !telemetry.measures() && !log::is_on(Level::Debug) {
            return Self::none();
        }
        let method = method_word(about.method);
        let address = |upstream: &Upstream| upstream.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let request = about.upstream.filter(|_| telemetry.measures()).map(|upstream| {
            let (dependency, address, port) = (about.dependency.to_owned(), address(upstream), upstream.port());
            Request { dependency, method, address, port }
        });
        let span = call.map(|call| {
            let name = if method == "_OTHER" { "HTTP" } else { method };
            let mut span = Span::new(call.child(), Some(call.span), name.to_owned(), Kind::Client);
            span.tell("http.request.method", method);
            if let Some(upstream) = about.upstream {
                span.tell("server.address", address(upstream));
                span.tell("server.port", upstream.port());
                span.tell("url.full", upstream.shown(about.target));
            }
            if about.number > 1 {
                span.tell("http.request.resend_count", about.number - 1);
            }
            span.tell("halfopen.dependency", about.dependency);
            if let Some(circuit) = about.circuit {
                span.tell("halfopen.circuit", circuit);
            }
            span.tell("halfopen.attempt", about.number);
            span.tell("halfopen.probe", about.probe);
            span.tell("halfopen.job", about.job);
            span
        });
        Self(Some(Box::new(Following {
            telemetry: Arc::clone(telemetry),
            dependency: about.dependency.to_owned(),
            number: about.number,
            status: None,
            began: Instant::now(),
            request,
            span,
        })))
    }

    /// Returns the field that tells the dependency where its request belongs, if ours says more than the caller's.
    pub(in crate::serve) fn field(&self) -> Option<HeaderValue> {
        self.0.as_ref()?.span.as_ref().map(|span| span.context.field())
    }

    /// Puts the field into the request.
    pub(in crate::serve) fn put(&self, headers: &mut HeaderMap) {
        if let Some(field) = self.field() {
            headers.insert(TRACEPARENT, field);
        }
    }

    /// Notes the status of the answer.
    pub(in crate::serve) fn answered(&mut self, status: u16) {
        if let Some(following) = &mut self.0 {
            following.status = Some(status);
        }
    }

    /// Ends it with its verdict.
    pub(in crate::serve) fn end(mut self, verdict: &Verdict) {
        if let Some(following) = self.0.take() {
            following.over(verdict.class.as_str(), Some(verdict));
        }
    }

    /// Ends it as one that went well and that nobody had to look at.
    pub(in crate::serve) fn succeed(mut self) {
        if let Some(following) = self.0.take() {
            following.over(Class::Success.as_str(), None);
        }
    }
}

impl Drop for AttemptSpan {
    fn drop(&mut self) {
        if let Some(following) = self.0.take() {
            following.over("caller_gone", None);
        }
    }
}

impl Following {
    fn over(self: Box<Self>, class: &str, verdict: Option<&Verdict>) {
        let took = self.began.elapsed();
        let rule = verdict.map(|verdict| verdict.rule.as_str());
        if log::is_on(Level::Debug) {
            let mut fields = vec![
                ("dependency", json!(self.dependency)),
                ("attempt", json!(self.number)),
                ("status", json!(self.status)),
                ("class", json!(class)),
                ("rule", json!(rule)),
                ("took_ms", json!(millis(took))),
            ];
            if log::is_on(Level::Trace) {
                // An excerpt is one line without secrets.
                fields.push(("evidence", json!(verdict.map(|verdict| verdict.evidence.excerpt.as_str()))));
            }
            log::line(Level::Debug, "attempt", &fields);
        }
        let error = (class != Class::Success.as_str()).then(|| {
            let status = self.status.filter(|status| *status >= 400);
            status.map_or_else(|| class.to_owned(), |status| status.to_string())
        });
        if let Some(request) = self.request {
            self.telemetry.durations.add(request, self.status, error.as_deref(), took);
        }
        let Some(mut span) = self.span else { return };
        if let Some(status) = self.status {
            span.tell("http.response.status_code", status);
        }
        span.tell("halfopen.class", class);
        if let Some(rule) = rule {
            span.tell("halfopen.rule", rule);
        }
        if let Some(error) = error {
            span.tell("error.type", error);
            span.error = Some(class.to_owned());
        }
        span.end();
        self.telemetry.put(span);
    }
}
