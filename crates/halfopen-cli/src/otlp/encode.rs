//! Writes spans as OTLP does, in protobuf, and what goes with every message: who we are.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as Sent, Status, span, status};
use prost::Message as _;

use super::span::{Kind, Span, Told};

/// Who we say we are, as names and values.
pub(crate) type Who<'a> = &'a [(String, String)];

/// Returns spans as one message.
pub(crate) fn spans(spans: &[Span], who: Who<'_>) -> Vec<u8> {
    let scope_spans =
        ScopeSpans { scope: Some(scope()), spans: spans.iter().map(sent).collect(), ..ScopeSpans::default() };
    let resource_spans =
        ResourceSpans { resource: Some(resource(who)), scope_spans: vec![scope_spans], ..ResourceSpans::default() };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }.encode_to_vec()
}

fn sent(span: &Span) -> Sent {
    let kind = match span.kind {
        Kind::Server => span::SpanKind::Server,
        Kind::Client => span::SpanKind::Client,
        Kind::Internal => span::SpanKind::Internal,
    };
    let status = span.error.as_ref().map(|why| Status { message: why.clone(), code: status::StatusCode::Error.into() });
    Sent {
        trace_id: span.context.trace.to_vec(),
        span_id: span.context.span.to_vec(),
        trace_state: span.state.clone(),
        parent_span_id: span.parent.map(|parent| parent.to_vec()).unwrap_or_default(),
        flags: span.context.flags.into(),
        name: span.name.clone(),
        kind: kind.into(),
        start_time_unix_nano: span.began_ns,
        end_time_unix_nano: span.ended_ns,
        attributes: span.told.iter().map(|(name, told)| pair(name, value(told))).collect(),
        status,
        ..Sent::default()
    }
}

fn value(told: &Told) -> any_value::Value {
    match told {
        Told::Text(text) => any_value::Value::StringValue(text.clone()),
        Told::Whole(number) => any_value::Value::IntValue(*number),
        Told::Truth(truth) => any_value::Value::BoolValue(*truth),
    }
}

/// Returns a name with its value.
pub(crate) fn pair(name: &str, value: any_value::Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// Returns who we are, as every message says it.
pub(crate) fn resource(who: Who<'_>) -> Resource {
    let attributes = who.iter().map(|(name, value)| pair(name, any_value::Value::StringValue(value.clone())));
    Resource { attributes: attributes.collect(), ..Resource::default() }
}

/// Returns by what the message was made.
pub(crate) fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "halfopen".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}
