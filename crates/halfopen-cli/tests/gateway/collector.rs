//! A collector that takes OTLP over HTTP and decodes it: a real listener on the loopback.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

/// What a collector has received.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) heads: Vec<String>,
    pub(crate) spans: Vec<Span>,
    pub(crate) figures: Vec<Vec<Metric>>,
    pub(crate) who: Vec<KeyValue>,
    /// What the next requests are answered with; then 200.
    pub(crate) next: Vec<u16>,
    pub(crate) hangs: bool,
}

/// A collector on a port of its own.
pub(crate) struct Collector {
    port: u16,
    pub(crate) received: Arc<Mutex<Received>>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::new(Mutex::new(Received::default()));
        let shared = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || take(stream, &shared));
            }
        });
        Self { port, received }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.received.lock().unwrap().spans.clone()
    }
}

fn take(stream: TcpStream, received: &Mutex<Received>) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    let mut body = vec![0; length.unwrap()];
    reader.read_exact(&mut body).unwrap();
    if lower.contains("content-encoding: gzip") {
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
        body = plain;
    }
    let mut all = received.lock().unwrap();
    if all.hangs {
        drop(all);
        let _ = reader.read_to_end(&mut Vec::new());
        return;
    }
    let status = if all.next.is_empty() { 200 } else { all.next.remove(0) };
    if status == 200 && head.starts_with("POST /v1/traces ") {
        for resource in ExportTraceServiceRequest::decode(&body[..]).unwrap().resource_spans {
            all.who = resource.resource.unwrap().attributes;
            all.spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    } else if status == 200 && head.starts_with("POST /v1/metrics ") {
        for resource in ExportMetricsServiceRequest::decode(&body[..]).unwrap().resource_metrics {
            let metrics = resource.scope_metrics.into_iter().flat_map(|scope| scope.metrics).collect();
            all.figures.push(metrics);
        }
    }
    all.heads.push(head);
    drop(all);
    let _ = write!(reader.get_mut(), "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
}

/// Returns a value by its name, as text.
pub(crate) fn told(attributes: &[KeyValue], name: &str) -> Option<String> {
    let value = attributes.iter().find(|pair| pair.key == name)?.value.clone()?.value?;
    Some(match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(truth) => truth.to_string(),
        other => panic!("{other:?}"),
    })
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
