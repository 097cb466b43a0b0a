//! Spans and figures, received by a collector that decodes them.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric::Data, number_data_point};
use opentelemetry_proto::tonic::trace::v1::Span;
use rustix::process::Signal;

use crate::collector::{Collector, hex, told};
use crate::metrics::{series, value};
use crate::stub::{Reply, Stub};
use crate::world::{Gateway, Starting, policy, until};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// Returns a gateway that exports to a collector, soon.
fn exporting(collector: &Collector, policy: &str) -> Starting {
    Starting::new(policy)
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url())
        .variable("OTEL_BSP_SCHEDULE_DELAY", "50")
        .variable("OTEL_METRIC_EXPORT_INTERVAL", "100")
}

fn fates(gateway: &Gateway, fate: &str) -> f64 {
    let text = gateway.ask("GET", "/metrics", &[], "").text();
    value(&text, &format!(r#"halfopen_telemetry_spans_total{{fate="{fate}"}}"#))
}

/// A call and each of its attempts are spans of the caller's trace, and the dependency is told its attempt's own place.
#[test]
fn a_call_and_its_attempts_are_spans_of_the_callers_trace() {
    let (stub, collector) = (Stub::start(), Collector::start());
    stub.then([Reply::status(503, "no"), Reply::ok("well")]);
    let gateway = exporting(&collector, &policy(&stub.url(), "retry: { max_attempts: 2, base_ms: 20 }"))
        .variable("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20collector-s3cret")
        .variable("OTEL_SERVICE_NAME", "edge")
        .variable("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        .variable("HALFOPEN_LOG_LEVEL", "trace")
        .start();
    let place = format!("00-{TRACE}-b7ad6b7169203331-01");
    let fields = [("traceparent", place.as_str()), ("tracestate", "vendor=1")];
    let answer = gateway.call("GET", "/d/up/v1/x?api_key=sk-query-111122223333444455556666", &fields, b"");
    assert_eq!(answer.status, 200);
    until("three spans are received", || collector.spans().len() == 3);
    let spans = collector.spans();
    assert!(
        spans.iter().all(|span| hex(&span.trace_id) == TRACE && span.end_time_unix_nano >= span.start_time_unix_nano)
    );
    let call = spans.iter().find(|span| span.kind == 2).unwrap();
    assert_eq!((call.name.as_str(), hex(&call.parent_span_id).as_str()), ("GET /d/up", "b7ad6b7169203331"));
    assert_eq!(call.trace_state, "vendor=1");
    let of = |span: &Span, name: &str| told(&span.attributes, name);
    for (name, expected) in [
        ("http.request.method", "GET"),
        ("http.response.status_code", "200"),
        ("http.route", "/d/up/{path}"),
        ("halfopen.outcome", "success"),
        ("halfopen.attempts", "2"),
        ("halfopen.circuit", "up"),
    ] {
        assert_eq!(of(call, name).as_deref(), Some(expected), "{name}");
    }
    let mut attempts: Vec<&Span> = spans.iter().filter(|span| span.kind == 3).collect();
    attempts.sort_by_key(|span| of(span, "halfopen.attempt"));
    for attempt in &attempts {
        assert_eq!(attempt.parent_span_id, call.span_id);
        assert_eq!(attempt.name, "GET");
        assert_eq!(of(attempt, "server.address").as_deref(), Some("127.0.0.1"));
        assert_eq!(of(attempt, "server.port"), Some(stub.url().rsplit(':').next().unwrap().to_owned()));
        let url = of(attempt, "url.full").unwrap();
        assert!(url.starts_with(&format!("{}/v1/x", stub.url())) && !url.contains("sk-query"), "S036: {url}");
    }
    let first = attempts[0];
    assert_eq!(of(first, "http.response.status_code").as_deref(), Some("503"));
    assert_eq!(of(first, "error.type").as_deref(), Some("503"));
    assert_eq!(of(first, "halfopen.class").as_deref(), Some("overloaded"));
    assert_eq!(first.status.as_ref().unwrap().code, 2);
    assert_eq!(of(first, "http.request.resend_count"), None);
    assert_eq!(of(attempts[1], "http.request.resend_count").as_deref(), Some("1"));
    assert_eq!(of(attempts[1], "error.type"), None);
    let told_to: Vec<String> = stub.seen().iter().map(|seen| seen.field("traceparent").unwrap().to_owned()).collect();
    let expected: Vec<String> = attempts.iter().map(|span| format!("00-{TRACE}-{}-01", hex(&span.span_id))).collect();
    assert_eq!(told_to, expected);
    let received = collector.received.lock().unwrap();
    assert!(
        received.heads.iter().all(|head| head.to_ascii_lowercase().contains("authorization: bearer collector-s3cret"))
    );
    assert_eq!(told(&received.who, "service.name").as_deref(), Some("edge"));
    assert!(!gateway.said().contains("collector-s3cret") && !gateway.said().contains("sk-query"), "S036");
}

/// What the caller does not record is not recorded here, and its place is passed on as it came.
#[test]
fn a_trace_that_is_not_recorded_passes_as_it_came() {
    let (stub, collector) = (Stub::start(), Collector::start());
    stub.always(Reply::ok("well"));
    let mut gateway = exporting(&collector, &policy(&stub.url(), "")).start();
    let place = format!("00-{TRACE}-b7ad6b7169203331-00");
    gateway.call("GET", "/d/up/x", &[("traceparent", &place)], b"");
    assert_eq!(stub.seen()[0].field("traceparent"), Some(place.as_str()));
    gateway.get("/d/up/x");
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.ended().code(), Some(0));
    // At the end everything was sent.
    let spans = collector.spans();
    assert_eq!(spans.len(), 2, "one call without a word of its caller");
    assert!(spans.iter().all(|span| hex(&span.trace_id) != TRACE));
}

/// Without a collector the caller's place passes as it came, and none is made up.
#[test]
fn without_a_collector_places_pass_as_they_came() {
    let stub = Stub::start();
    stub.always(Reply::ok("well"));
    let gateway = Starting::new(&policy(&stub.url(), ""))
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
        .variable("OTEL_SDK_DISABLED", "true")
        .start();
    let place = format!("00-{TRACE}-b7ad6b7169203331-01");
    gateway.call("GET", "/d/up/x", &[("traceparent", &place)], b"");
    gateway.get("/d/up/x");
    assert_eq!(stub.seen()[0].field("traceparent"), Some(place.as_str()));
    assert_eq!(stub.seen()[1].field("traceparent"), None);
}

/// The figures are those of a scrape: the same names, the same labels, the same numbers.
#[test]
fn figures_are_those_of_a_scrape() {
    let (stub, collector) = (Stub::start(), Collector::start());
    stub.then([Reply::ok("well"), Reply::status(500, "no")]);
    let gateway = exporting(&collector, &policy(&stub.url(), "")).variable("OTEL_TRACES_EXPORTER", "none").start();
    gateway.get("/d/up/x");
    gateway.get("/d/up/x");
    let metric = |metrics: &[Metric], name: &str| metrics.iter().find(|metric| metric.name == name).cloned();
    let calls = |metrics: &[Metric]| match metric(metrics, "halfopen_calls")?.data? {
        Data::Sum(sum) => {
            assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
            match sum.data_points[0].value? {
                number_data_point::Value::AsInt(number) => Some(number),
                number_data_point::Value::AsDouble(_) => None,
            }
        }
        _ => None,
    };
    until("both calls are told", || {
        collector.received.lock().unwrap().figures.last().and_then(|figures| calls(figures)) == Some(2)
    });
    assert!(collector.spans().is_empty(), "only figures are exported");
    let last = collector.received.lock().unwrap().figures.last().unwrap().clone();
    let Some(Data::Histogram(heads)) = metric(&last, "halfopen_attempt_head_seconds").unwrap().data else { panic!() };
    assert_eq!((heads.data_points[0].count, heads.data_points[0].bucket_counts.iter().sum::<u64>()), (2, 2));
    assert_eq!(heads.data_points[0].bucket_counts.len(), heads.data_points[0].explicit_bounds.len() + 1);
    let durations = metric(&last, "http.client.request.duration").unwrap();
    assert_eq!(durations.unit, "s");
    let Some(Data::Histogram(durations)) = durations.data else { panic!() };
    let point = |status: &str| {
        let status_of = |point: &&opentelemetry_proto::tonic::metrics::v1::HistogramDataPoint| {
            told(&point.attributes, "http.response.status_code").as_deref() == Some(status)
        };
        durations.data_points.iter().find(status_of).unwrap()
    };
    assert_eq!((point("200").count, point("500").count), (1, 1));
    for (name, expected) in
        [("http.request.method", Some("GET")), ("server.address", Some("127.0.0.1")), ("error.type", Some("500"))]
    {
        assert_eq!(told(&point("500").attributes, name).as_deref(), expected, "{name}");
    }
    assert_eq!(told(&point("200").attributes, "error.type"), None);
    let Some(Data::Gauge(states)) = metric(&last, "halfopen_circuit_state").unwrap().data else { panic!() };
    let closed = states.data_points.iter().find(|point| told(&point.attributes, "state").as_deref() == Some("closed"));
    assert_eq!(closed.unwrap().value, Some(number_data_point::Value::AsDouble(1.0)));
    // Every series of a scrape is told, and no other.
    let mut exported = std::collections::BTreeSet::new();
    for metric in last.iter().filter(|metric| metric.name != "http.client.request.duration") {
        let (points, suffix): (Vec<Vec<KeyValue>>, &str) = match metric.data.clone().unwrap() {
            Data::Gauge(gauge) => (gauge.data_points.into_iter().map(|point| point.attributes).collect(), ""),
            Data::Sum(sum) => (sum.data_points.into_iter().map(|point| point.attributes).collect(), "_total"),
            Data::Histogram(all) => (all.data_points.into_iter().map(|point| point.attributes).collect(), "_count"),
            other => panic!("{other:?}"),
        };
        for attributes in points {
            let labels: Vec<String> = attributes
                .iter()
                .map(|pair| format!("{}=\"{}\"", pair.key, told(&attributes, &pair.key).unwrap()))
                .collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            exported.insert(format!("{}{suffix}{labels}", metric.name));
        }
    }
    let text = gateway.ask("GET", "/metrics", &[], "").text();
    let scraped: std::collections::BTreeSet<String> = series(&text)
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| !name.contains("_seconds_bucket{") && !name.contains("_seconds_sum{"))
        .collect();
    assert_eq!(exported, scraped);
}

/// A collector that is away, or hangs, costs no call anything; what does not fit is counted; the end does not wait for it.
#[test]
fn a_collector_that_hangs_blocks_nothing_and_what_is_lost_is_counted() {
    let (stub, collector) = (Stub::start(), Collector::start());
    stub.always(Reply::ok("well"));
    collector.received.lock().unwrap().hangs = true;
    let mut gateway = exporting(&collector, &policy(&stub.url(), ""))
        .variable("OTEL_BSP_MAX_QUEUE_SIZE", "4")
        .variable("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")
        .start();
    until("spans are dropped", || {
        assert_eq!(gateway.get("/d/up/x").status, 200);
        fates(&gateway, "queue_full") >= 2.0
    });
    assert_eq!(fates(&gateway, "sent"), 0.0);
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.ended().code(), Some(0));
}

/// What a collector cannot take now is sent again; what it does not want is counted; both are said once.
#[test]
fn a_collector_that_is_busy_gets_spans_again_and_one_that_refuses_does_not() {
    let (stub, collector) = (Stub::start(), Collector::start());
    stub.always(Reply::ok("well"));
    let gateway = exporting(&collector, &policy(&stub.url(), "")).variable("OTEL_METRICS_EXPORTER", "none").start();
    collector.received.lock().unwrap().next = vec![503];
    gateway.get("/d/up/x");
    until("they are sent again", || collector.spans().len() == 2 && fates(&gateway, "sent") == 2.0);
    let text = gateway.ask("GET", "/metrics", &[], "").text();
    assert_eq!(value(&text, r#"halfopen_telemetry_exports_failed_total{signal="traces"}"#), 1.0);
    until("it is said", || gateway.said().contains("traces are taken by the collector again"));
    assert!(gateway.said().contains("it answered 503"), "{}", gateway.said());
    collector.received.lock().unwrap().next = vec![400];
    gateway.get("/d/up/x");
    until("they are refused", || fates(&gateway, "refused") == 2.0);
    assert_eq!(collector.spans().len(), 2);
}

/// The attempt of a job belongs to the call that it was made of, however late it is made.
#[test]
fn attempts_of_a_job_belong_to_the_call_that_was_kept() {
    let (stub, collector) = (Stub::start(), Collector::start());
    stub.always(Reply::ok("done"));
    let keys = "replay: always
on_open: { action: queue, queue_ttl_min: 30 }
circuit: { open_after_failures: 2, open_for_sec: 600, half_open_max_calls: 1, close_after_successes: 1 }";
    let gateway = exporting(&collector, &policy(&stub.url(), keys)).start();
    gateway.failures("up", 2);
    let place = format!("00-{TRACE}-b7ad6b7169203331-01");
    until("a call is kept", || gateway.call("POST", "/d/up/x", &[("traceparent", &place)], b"{}").status == 202);
    gateway.halfopen(&["release", "up", "--probe-now"]);
    let of = |span: &Span, name: &str| told(&span.attributes, name);
    let find = |name: &str, is: &str| collector.spans().into_iter().find(|span| of(span, name).as_deref() == Some(is));
    until("its attempt is told", || find("halfopen.job", "true").is_some());
    let (call, attempt) = (find("halfopen.outcome", "queued").unwrap(), find("halfopen.job", "true").unwrap());
    assert_eq!((hex(&attempt.trace_id).as_str(), &attempt.parent_span_id), (TRACE, &call.span_id));
    assert_eq!(of(&attempt, "halfopen.class").as_deref(), Some("success"));
    assert_eq!(of(&attempt, "http.response.status_code").as_deref(), Some("200"));
    let told_to = stub.seen().last().unwrap().field("traceparent").unwrap().to_owned();
    assert_eq!(told_to, format!("00-{TRACE}-{}-01", hex(&attempt.span_id)));
    let text = gateway.ask("GET", "/metrics", &[], "").text();
    assert_eq!(value(&text, r#"halfopen_job_age_seconds_count{dependency="up"}"#), 1.0);
}
