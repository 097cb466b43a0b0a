//! Writes figures as OTLP does, in protobuf.
//!
//! Names are those of `/metrics` without what a text form adds, so that whatever a collector writes for Prometheus has
//! the names that the dashboard and the rules know.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, metric, number_data_point,
};
use prost::Message as _;

use super::super::counts::Spread;
use super::super::metrics::{Family, Kind, PREFIX, Series, Value};
use super::durations::Ended;
use crate::otlp::encode::{Who, pair, resource, scope};

/// When figures begin and when they were read, in nanoseconds since the unix epoch.
type Since = (u64, u64);

/// Returns figures as one message, with how long requests took.
pub(super) fn written(families: &[Family], durations: &[(Ended, Spread)], who: Who<'_>, at: Since) -> Vec<u8> {
    let (since_ns, now_ns) = at;
    let mut metrics: Vec<Metric> = families.iter().map(|family| figure(family, since_ns, now_ns)).collect();
    if !durations.is_empty() {
        metrics.push(requests(durations, at));
    }
    let scope_metrics = ScopeMetrics { scope: Some(scope()), metrics, ..ScopeMetrics::default() };
    let resource_metrics = ResourceMetrics {
        resource: Some(resource(who)),
        scope_metrics: vec![scope_metrics],
        ..ResourceMetrics::default()
    };
    ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }.encode_to_vec()
}

fn requests(durations: &[(Ended, Spread)], at: Since) -> Metric {
    let text = |name: &str, value: &str| pair(name, any_value::Value::StringValue(value.to_owned()));
    let whole = |name: &str, value: u16| pair(name, any_value::Value::IntValue(value.into()));
    let point = |(ended, spread): &(Ended, Spread)| {
        let request = &ended.request;
        let mut attributes = vec![
            text("http.request.method", request.method),
            text("server.address", &request.address),
            whole("server.port", request.port),
            text("halfopen.dependency", &request.dependency),
        ];
        attributes.extend(ended.status.map(|status| whole("http.response.status_code", status)));
        attributes.extend(ended.error.as_deref().map(|error| text("error.type", error)));
        spread_point(attributes, spread, at)
    };
    Metric {
        name: "http.client.request.duration".to_owned(),
        description: "Duration of HTTP client requests.".to_owned(),
        unit: "s".to_owned(),
        data: Some(metric::Data::Histogram(Histogram {
            data_points: durations.iter().map(point).collect(),
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
        })),
        ..Metric::default()
    }
}

fn figure(family: &Family, since_ns: u64, now_ns: u64) -> Metric {
    let cumulative = AggregationTemporality::Cumulative.into();
    let numbers = || family.series.iter().filter_map(|series| number(series, since_ns, now_ns)).collect();
    let data = match family.kind {
        Kind::Gauge => metric::Data::Gauge(Gauge { data_points: numbers() }),
        Kind::Counter => {
            metric::Data::Sum(Sum { data_points: numbers(), aggregation_temporality: cumulative, is_monotonic: true })
        }
        Kind::Histogram => metric::Data::Histogram(Histogram {
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
    Some(spread_point(labels(series), spread, (since_ns, now_ns)))
}

fn spread_point(attributes: Vec<KeyValue>, spread: &Spread, (since_ns, now_ns): Since) -> HistogramDataPoint {
    HistogramDataPoint {
        attributes,
        start_time_unix_nano: since_ns,
        time_unix_nano: now_ns,
        count: spread.all(),
        sum: Some(spread.seconds()),
        bucket_counts: spread.times.clone(),
        explicit_bounds: spread.bounds.to_vec(),
        ..HistogramDataPoint::default()
    }
}

fn labels(series: &Series) -> Vec<KeyValue> {
    series.labels.iter().map(|(name, value)| pair(name, any_value::Value::StringValue(value.clone()))).collect()
}
