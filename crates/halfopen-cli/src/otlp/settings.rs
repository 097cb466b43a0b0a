//! Reads what is exported from the variables that OpenTelemetry defines.
//!
//! <https://opentelemetry.io/docs/specs/otel/protocol/exporter/> and
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>. One thing differs: without an
//! endpoint nothing is exported, because most machines have no collector and a gateway should not knock at a port for
//! ever. A variable that makes no sense is said and counts as absent; a value that may be a secret is never shown.

use std::fmt;
use std::time::Duration;

use http::Uri;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::Signal;

/// How long a request to the collector may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often figures are sent.
const METRICS_EVERY: Duration = Duration::from_secs(60);
/// How long a span waits for others.
const SPANS_EVERY: Duration = Duration::from_secs(5);
/// How many spans wait, and how many are sent at once.
const QUEUE_MAX: usize = 2048;
const BATCH_MAX: usize = 512;
/// Nobody needs more, and each is memory.
const QUEUE_LIMIT: usize = 65_536;

/// What is exported where, and how.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Where spans go.
    pub(crate) traces: Option<Target>,
    /// Where figures go.
    pub(crate) metrics: Option<Target>,
    /// How often figures are sent.
    pub(crate) metrics_every: Duration,
    /// How long a span waits for others.
    pub(crate) spans_every: Duration,
    /// How many spans wait at most.
    pub(crate) queue_max: usize,
    /// How many are sent at once.
    pub(crate) batch_max: usize,
    /// Which calls without a caller's word are recorded.
    pub(crate) sampler: Sampler,
    /// Who we are, as names and values.
    pub(crate) resource: Vec<(String, String)>,
    /// What of it makes no sense.
    pub(crate) doubts: Vec<String>,
}

/// Where one signal goes.
#[derive(Clone)]
pub(crate) struct Target {
    /// The whole address.
    pub(crate) url: Uri,
    /// Fields of each request; their values are secrets.
    pub(crate) headers: HeaderMap,
    /// How long a request may take.
    pub(crate) timeout: Duration,
    /// Whether bodies are compressed.
    pub(crate) gzip: bool,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl Target {
    /// Returns the address without what may be a secret.
    pub(crate) fn shown(&self) -> String {
        let host = self.url.host().unwrap_or_default();
        let port = self.url.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}://{host}{port}/…", self.url.scheme_str().unwrap_or("http"))
    }
}

/// Which calls are recorded where no caller has decided that, and what a caller's word is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampler {
    /// Whether a caller's word goes before.
    pub(crate) by_parent: bool,
    /// The share of the others, in [0, 1].
    pub(crate) share: f64,
}

impl Settings {
    /// Reads the variables.
    pub(crate) fn read(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut reader = Reader { variable, doubts: Vec::new() };
        let disabled = reader.text("OTEL_SDK_DISABLED").is_some_and(|word| word.eq_ignore_ascii_case("true"));
        let mut target = |signal| if disabled { None } else { reader.target(signal) };
        let (traces, metrics) = (target(Signal::Traces), target(Signal::Metrics));
        let queue_max = reader.number("OTEL_BSP_MAX_QUEUE_SIZE", QUEUE_MAX).clamp(1, QUEUE_LIMIT);
        Self {
            metrics_every: reader.millis("OTEL_METRIC_EXPORT_INTERVAL", METRICS_EVERY),
            spans_every: reader.millis("OTEL_BSP_SCHEDULE_DELAY", SPANS_EVERY),
            batch_max: reader.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", BATCH_MAX).clamp(1, queue_max),
            queue_max,
            sampler: reader.sampler(),
            resource: reader.resource(),
            traces,
            metrics,
            doubts: reader.doubts,
        }
    }
}

struct Reader<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
    doubts: Vec<String>,
}

impl Reader<'_> {
    /// An empty variable is an absent one.
    fn text(&self, name: &str) -> Option<String> {
        (self.variable)(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// Returns the variable of one signal, else the one for all.
    fn of(&self, signal: Signal, what: &str) -> Option<(String, String)> {
        let signal = signal.as_str().to_ascii_uppercase();
        let names = [format!("OTEL_EXPORTER_OTLP_{signal}_{what}"), format!("OTEL_EXPORTER_OTLP_{what}")];
        names.into_iter().find_map(|name| self.text(&name).map(|text| (name, text)))
    }

    fn target(&mut self, signal: Signal) -> Option<Target> {
        let exporter = format!("OTEL_{}_EXPORTER", signal.as_str().to_ascii_uppercase());
        match self.text(&exporter).as_deref() {
            Some("none") => return None,
            None | Some("otlp") => {}
            Some(other) => {
                let other = halfopen_core::redact::line(other);
                self.doubts.push(format!("{exporter} is `{other}`; only otlp and none are known, nothing is exported"));
                return None;
            }
        }
        let own = format!("OTEL_EXPORTER_OTLP_{}_ENDPOINT", signal.as_str().to_ascii_uppercase());
        let (name, url) = match self.text(&own) {
            Some(url) => (own, url),
            None => {
                let name = "OTEL_EXPORTER_OTLP_ENDPOINT";
                // Only the common one is a base to which the signal's path is added.
                let url = format!("{}/v1/{}", self.text(name)?.trim_end_matches('/'), signal.as_str());
                (name.to_owned(), url)
            }
        };
        let url = match url.parse::<Uri>() {
            Ok(url) if matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some() => url,
            Ok(_) | Err(_) => {
                let signal = signal.as_str();
                self.doubts.push(format!("{name} is no address such as http://HOST:4318; no {signal} are exported"));
                return None;
            }
        };
        if let Some((name, protocol)) = self.of(signal, "PROTOCOL").filter(|(_, word)| word != "http/protobuf") {
            let protocol = halfopen_core::redact::line(&protocol);
            self.doubts
                .push(format!("{name} is `{protocol}`; http/protobuf is spoken, which collectors take at port 4318"));
        }
        let gzip = match self.of(signal, "COMPRESSION") {
            None => false,
            Some((_, word)) if word == "none" => false,
            Some((_, word)) if word == "gzip" => true,
            Some((name, _)) => {
                self.doubts.push(format!("{name} is neither gzip nor none; nothing is compressed"));
                false
            }
        };
        let timeout = self.of(signal, "TIMEOUT").map(|(name, text)| self.as_millis(&name, &text, TIMEOUT));
        let headers = self.of(signal, "HEADERS").map(|(name, text)| self.headers(&name, &text)).unwrap_or_default();
        Some(Target { url, headers, timeout: timeout.unwrap_or(TIMEOUT), gzip })
    }

    /// Reads `name=value,name=value` with percent-encoded values. <https://www.w3.org/TR/baggage/>
    fn headers(&mut self, variable: &str, text: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            let read = pair.split_once('=').and_then(|(name, value)| {
                let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
                let mut value = HeaderValue::from_bytes(&unescaped(value.trim())).ok()?;
                value.set_sensitive(true);
                Some((name, value))
            });
            match read {
                Some((name, value)) => drop(headers.insert(name, value)),
                None => self.doubts.push(format!("{variable} holds a part that is no NAME=VALUE; it is left out")),
            }
        }
        headers
    }

    fn number(&mut self, name: &str, otherwise: usize) -> usize {
        let Some(text) = self.text(name) else { return otherwise };
        text.parse().ok().filter(|number| *number > 0).unwrap_or_else(|| {
            self.doubts.push(format!("{name} is no number above 0; {otherwise} is used"));
            otherwise
        })
    }

    fn millis(&mut self, name: &str, otherwise: Duration) -> Duration {
        match self.text(name) {
            Some(text) => self.as_millis(name, &text, otherwise),
            None => otherwise,
        }
    }

    fn as_millis(&mut self, name: &str, text: &str, otherwise: Duration) -> Duration {
        text.parse().ok().filter(|ms| *ms > 0).map(Duration::from_millis).unwrap_or_else(|| {
            self.doubts.push(format!("{name} is no number of milliseconds above 0; {} is used", otherwise.as_millis()));
            otherwise
        })
    }

    fn sampler(&mut self) -> Sampler {
        let word = self.text("OTEL_TRACES_SAMPLER");
        let share = |reader: &mut Self| {
            let text = reader.text("OTEL_TRACES_SAMPLER_ARG");
            let share = text.as_deref().map(|text| text.parse().ok().filter(|share| (0.0..=1.0).contains(share)));
            if share == Some(None) {
                reader.doubts.push("OTEL_TRACES_SAMPLER_ARG is no number from 0 to 1; 1 is used".to_owned());
            }
            share.flatten().unwrap_or(1.0)
        };
        let (by_parent, share) = match word.as_deref() {
            None | Some("parentbased_always_on") => (true, 1.0),
            Some("parentbased_always_off") => (true, 0.0),
            Some("parentbased_traceidratio") => (true, share(self)),
            Some("always_on") => (false, 1.0),
            Some("always_off") => (false, 0.0),
            Some("traceidratio") => (false, share(self)),
            Some(_) => {
                self.doubts.push("OTEL_TRACES_SAMPLER is not known; parentbased_always_on is used".to_owned());
                (true, 1.0)
            }
        };
        Sampler { by_parent, share }
    }

    fn resource(&mut self) -> Vec<(String, String)> {
        let text = self.text("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let mut all: Vec<(String, String)> = Vec::new();
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            match pair.split_once('=') {
                Some((name, value)) => {
                    let value = String::from_utf8_lossy(&unescaped(value.trim())).into_owned();
                    all.push((name.trim().to_owned(), value));
                }
                None => self
                    .doubts
                    .push("OTEL_RESOURCE_ATTRIBUTES holds a part that is no NAME=VALUE; it is left out".to_owned()),
            }
        }
        let mut say = |name: &str, value: Option<String>, over: bool| {
            let Some(value) = value else { return };
            match all.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) if over => *known = value,
                Some(_) => {}
                None => all.push((name.to_owned(), value)),
            }
        };
        say("service.name", self.text("OTEL_SERVICE_NAME"), true);
        say("service.name", Some("halfopen".to_owned()), false);
        say("service.version", Some(env!("CARGO_PKG_VERSION").to_owned()), false);
        say("service.instance.id", Some(format!("{:032x}", fastrand::u128(..))), false);
        all
    }
}

/// Returns the bytes behind percent-encoding; what is none stays.
fn unescaped(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escaped = (*byte == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 3;
            }
            None => {
                plain.push(*byte);
                at += 1;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn read(variables: &[(&str, &str)]) -> Settings {
        Settings::read(&|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn without_an_endpoint_nothing_is_exported() {
        let settings = read(&[("OTEL_SERVICE_NAME", "gateway")]);
        assert!(settings.traces.is_none() && settings.metrics.is_none() && settings.doubts.is_empty());
    }

    #[test]
    fn the_common_endpoint_is_a_base_and_that_of_a_signal_is_whole() {
        let settings = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/base/"),
            ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "https://other/in"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cret, x-tenant=a"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500"),
        ]);
        let (traces, metrics) = (settings.traces.unwrap(), settings.metrics.unwrap());
        assert_eq!(traces.url, "http://collector:4318/base/v1/traces");
        assert_eq!(metrics.url, "https://other/in");
        assert_eq!(traces.headers["authorization"], "Bearer s3cret");
        assert_eq!(traces.timeout, Duration::from_millis(1500));
        assert!(!format!("{traces:?} {:?}", traces.headers).contains("s3cret"), "S036");
    }

    #[test_case(&[("OTEL_SDK_DISABLED", "TRUE")]; "all of it")]
    #[test_case(&[("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")]; "each signal")]
    fn it_can_be_switched_off(variables: &[(&str, &str)]) {
        let endpoint = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")];
        let settings = read(&[&endpoint, variables].concat());
        assert!(settings.traces.is_none() && settings.metrics.is_none() && settings.doubts.is_empty());
    }

    #[test_case("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "no address")]
    #[test_case("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf is spoken")]
    #[test_case("OTEL_EXPORTER_OTLP_HEADERS", "s3cret", "NAME=VALUE")]
    #[test_case("OTEL_BSP_MAX_QUEUE_SIZE", "s3cret", "no number above 0")]
    #[test_case("OTEL_METRIC_EXPORT_INTERVAL", "0", "milliseconds above 0")]
    #[test_case("OTEL_TRACES_SAMPLER", "s3cret", "parentbased_always_on is used")]
    fn what_makes_no_sense_is_said_and_not_shown(name: &str, value: &str, said: &str) {
        let settings = read(&[(name, value), ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4318/x")]);
        let doubts = settings.doubts.join("\n");
        assert!(doubts.contains(said) && doubts.contains(name) && !doubts.contains("s3cret"), "{doubts}");
    }

    #[test]
    fn who_we_are_is_what_the_environment_says_and_else_our_name() {
        let of = |settings: &Settings, name: &str| {
            settings.resource.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        assert_eq!(of(&read(&[]), "service.name").as_deref(), Some("halfopen"));
        let settings = read(&[
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,deployment.environment.name=prod%2Ceu"),
            ("OTEL_SERVICE_NAME", "b"),
        ]);
        assert_eq!(of(&settings, "service.name").as_deref(), Some("b"));
        assert_eq!(of(&settings, "deployment.environment.name").as_deref(), Some("prod,eu"));
    }
}
