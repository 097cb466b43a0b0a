//! Runs told to a collector: where a command belongs, and what becomes of it when the collector is away.

use std::time::Duration;

use crate::collector::{Collector, hex, told};
use crate::sandbox::{BROKEN, Sandbox, finished};

const PLACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const RULES: &str = "retry: {max_attempts: 2, base_ms: 1}\nreplay: always";

/// A run and its attempts are spans of the caller's trace, and the command finds its attempt's place.
#[test]
fn a_run_and_its_attempts_are_spans_and_the_command_finds_its_place() {
    let (sandbox, collector) = (Sandbox::new(), Collector::start());
    sandbox.policy(RULES);
    sandbox.tool(&format!(
        "echo $TRACEPARENT >> $D/places; [ $(wc -l < $D/places) -gt 1 ] && echo done && exit 0; {BROKEN}"
    ));
    let ran = finished(
        sandbox
            .run_of(&[])
            .env("TRACEPARENT", PLACE)
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
            .env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=collector-s3cret"),
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("s3cret"));
    let spans = collector.spans();
    assert_eq!(spans.len(), 3);
    let of = |span: &opentelemetry_proto::tonic::trace::v1::Span, name: &str| told(&span.attributes, name);
    let run = spans.iter().find(|span| span.name == "run tool").unwrap();
    assert_eq!((hex(&run.trace_id), hex(&run.parent_span_id)), (PLACE[3..35].to_owned(), PLACE[36..52].to_owned()));
    assert_eq!(
        (of(run, "process.exit.code").as_deref(), of(run, "halfopen.attempts").as_deref()),
        (Some("0"), Some("2"))
    );
    let mut attempts: Vec<_> = spans.iter().filter(|span| span.name == "tool").collect();
    attempts.sort_by_key(|span| of(span, "halfopen.attempt"));
    assert_eq!(of(attempts[0], "halfopen.class").as_deref(), Some("server_error"));
    assert_eq!(of(attempts[0], "error.type").as_deref(), Some("server_error"));
    assert_eq!(of(attempts[1], "error.type"), None);
    let places: Vec<String> = sandbox.text("places").lines().map(str::to_owned).collect();
    let expected: Vec<String> =
        attempts.iter().map(|span| format!("00-{}-{}-01", &PLACE[3..35], hex(&span.span_id))).collect();
    assert_eq!(places, expected);
    assert!(attempts.iter().all(|span| span.parent_span_id == run.span_id));
}

/// Without a collector a place reaches the command as it came, and none is made up.
#[test]
fn without_a_collector_a_place_passes_as_it_came() {
    let sandbox = Sandbox::new();
    sandbox.tool("echo place=$TRACEPARENT");
    assert_eq!(finished(sandbox.run_of(&[]).env("TRACEPARENT", PLACE)).stdout, format!("place={PLACE}\n"));
    assert_eq!(sandbox.run(&[]).stdout, "place=\n");
}

/// A collector that hangs changes neither the output nor the code, and delays the end by its bound.
#[test]
fn a_collector_that_hangs_costs_a_run_no_more_than_its_bound() {
    let (sandbox, collector) = (Sandbox::new(), Collector::start());
    collector.received.lock().unwrap().hangs = true;
    sandbox.tool("echo done; exit 3");
    let ran = finished(sandbox.run_of(&[]).env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()));
    assert_eq!((ran.code, ran.stdout.as_str()), (3, "done\n"));
    // Its bound is a second; what is above that is the machine's.
    assert!(ran.took < Duration::from_secs(15), "{:?}", ran.took);
}
