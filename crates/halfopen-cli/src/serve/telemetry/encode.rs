//! Writes spans and figures as OTLP does, in protobuf.
//!
//! Names are those of `/metrics` without what a text form adds, so that whatever a collector writes for Prometheus has
//! the names that the dashboard and the rules know.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as Sent, Status, span, status};
use prost::Message as _;

use super::super::metrics::{Family, Kind as FamilyKind, PREFIX, Series, Value};
use super::span::{Kind, Span, Told};

/// Who we say we are, as names and values.
type Who<'a> = &'a [(String, String)];

/// Returns spans as one message.
pub(super) fn spans(spans: &[Span], who: Who<'_>) -> Vec<u8> {
    let scope_spans =
        ScopeSpans { scope: Some(scope()), spans: spans.iter().map(sent).collect(), ..ScopeSpans::default() };
    let resource_spans =
        ResourceSpans { resource: Some(resource(who)), scope_spans: vec![scope_spans], ..ResourceSpans::default() };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }.encode_to_vec()
}

/// Returns figures as one message; they have been counted since `since_ns` and were read at `now_ns`.
pub(super) fn figures(families: &[Family], who: Who<'_>, since_ns: u64, now_ns: u64) -> Vec<u8> {
    let metrics = families.iter().map(|family| figure(family, since_ns, now_ns)).collect();
    let scope_metrics = ScopeMetrics { scope: Some(scope()), metrics, ..ScopeMetrics::default() };
    let resource_metrics = ResourceMetrics {
        resource: Some(resource(who)),
        scope_metrics: vec![scope_metrics],
        ..ResourceMetrics::default()
    };
    ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }.encode_to_vec()
}

fn sent(span: &Span) -> Sent {
    let kind = match span.kind {
        Kind::Server => span::SpanKind::Server,
        Kind::Client => span::SpanKind::Client,
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

fn figure(family: &Family, since_ns: u64, now_ns: u64) -> Metric {
    let cumulative = AggregationTemporality::Cumulative.into();
    let numbers = || family.series.iter().filter_map(|series| number(series, since_ns, now_ns)).collect();
    let data = match family.kind {
        FamilyKind::Gauge => metric::Data::Gauge(Gauge { data_points: numbers() }),
        FamilyKind::Counter => {
            metric::Data::Sum(Sum { data_points: numbers(), aggregation_temporality: cumulative, is_monotonic: true })
        }
        FamilyKind::Histogram => metric::Data::Histogram(Histogram {
            data_points: family.series.iter().filter_map(|series| times(series, since_ns, now_ns)).collect(),
            aggregation_temporality: cumulative,
        }),
    };
    Metric {
        name: format!("{PREFIX}_{}", family.name),
        description: family.help.to_owned(),
        unit: if family.name.ends_with("_seconds") { "s".to_owned() } else { String::new() },
        data: Some(data),
        ..Metric::default()
    }
}

fn number(series: &Series, since_ns: u64, now_ns: u64) -> Option<NumberDataPoint> {
    let value = match &series.value {
        Value::Count(count) => number_data_point::Value::AsInt(i64::try_from(*count).unwrap_or(i64::MAX)),
        Value::Level(level) => number_data_point::Value::AsDouble(*level),
        Value::Times(_) => return None,
    };
    Some(NumberDataPoint {
        attributes: labels(series),
        start_time_unix_nano: since_ns,
        time_unix_nano: now_ns,
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

fn times(series: &Series, since_ns: u64, now_ns: u64) -> Option<HistogramDataPoint> {
    let Value::Times(spread) = &series.value else { return None };
    Some(HistogramDataPoint {
        attributes: labels(series),
        start_time_unix_nano: since_ns,
        time_unix_nano: now_ns,
        count: spread.all(),
        sum: Some(spread.seconds()),
        bucket_counts: spread.times.clone(),
        explicit_bounds: spread.bounds.to_vec(),
        ..HistogramDataPoint::default()
    })
}

fn labels(series: &Series) -> Vec<KeyValue> {
    series.labels.iter().map(|(name, value)| pair(name, any_value::Value::StringValue(value.clone()))).collect()
}

fn value(told: &Told) -> any_value::Value {
    match told {
        Told::Text(text) => any_value::Value::StringValue(text.clone()),
        Told::Whole(number) => any_value::Value::IntValue(*number),
        Told::Truth(truth) => any_value::Value::BoolValue(*truth),
    }
}

fn pair(name: &str, value: any_value::Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn resource(who: Who<'_>) -> Resource {
    let attributes = who.iter().map(|(name, value)| pair(name, any_value::Value::StringValue(value.clone())));
    Resource { attributes: attributes.collect(), ..Resource::default() }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "halfopen".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}
