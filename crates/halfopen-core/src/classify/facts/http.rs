//! Reads an HTTP exchange: did it fail, and what does the error say.
//!
//! The status decides for 4xx, 5xx and no answer at all. For the others only the envelope is looked at, and only in a
//! part of bounded size; of a large body the beginning is enough, because an envelope stands there. SSE is looked at
//! from both ends: an error ends a stream.

use serde_json::Value;

use super::{Fact, Facts, Header, cut, cut_front, envelope, frames, lenient, markup, tree};
use crate::classify::text::Text;
use crate::outcome::{Excerpt, HttpOutcome};

/// Bodies up to this size are parsed as a whole.
const WHOLE_BYTES_MAX: usize = 256 << 10;

/// How much of the beginning of a larger body is looked at.
const HEAD_BYTES: usize = 4 << 10;

/// How much of the end of a stream is looked at.
const TAIL_BYTES: usize = 64 << 10;

/// An outcome as far as it was read.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// Whether it failed, as far as the outcome says itself.
    pub(crate) failed: bool,
    /// What said so, if it was not the status or exit code: (place, excerpt).
    pub(crate) envelope: Option<(String, String)>,
    /// Everything there is.
    pub(crate) facts: Facts,
    /// The last error alone, if there was something before it.
    pub(crate) last: Option<Facts>,
}

/// Reads an exchange. `with_body` asks for the parsed body of a success too, because the pack has rules about it.
pub(crate) fn read(outcome: &HttpOutcome<'_>, with_body: bool) -> Reading {
    let mut facts = Facts { method: outcome.method.to_ascii_uppercase(), ..Facts::default() };
    facts.add_status(outcome.status, "status");
    facts.headers = outcome
        .headers
        .iter()
        .map(|(name, value)| Header { name: name.to_ascii_lowercase(), value: value.trim().to_owned(), own: true })
        .collect();
    let mut reading = Reading { facts, ..Reading::default() };
    let status = outcome.status;
    reading.failed = status == 0 || status >= 400;
    if let Some(code) = reading.facts.header("grpc-status").map(|h| h.value.clone()).find(|v| v != "0" && !v.is_empty())
    {
        reading.failed = true;
        reading.envelope = Some(("header grpc-status".to_owned(), format!("grpc-status: {code}")));
    }
    if !reading.failed && (300..400).contains(&status) {
        return reading;
    }
    body(&mut reading, outcome, with_body);
    if reading.failed {
        header_codes(&mut reading.facts);
    } else if let Some(said) = truncated(outcome, &reading.facts) {
        reading.failed = true;
        reading.envelope = Some(said);
        reading.facts.add_code("truncated_body", "body");
    }
    reading
}

/// Reads what the body says.
fn body(reading: &mut Reading, outcome: &HttpOutcome<'_>, with_body: bool) {
    let content_type =
        reading.facts.header("content-type").next().map(|h| h.value.to_ascii_lowercase()).unwrap_or_default();
    let binary =
        ["image/", "audio/", "video/", "application/pdf", "application/zip", "application/octet-stream", "font/"]
            .iter()
            .any(|kind| content_type.starts_with(kind));
    if outcome.body.is_empty() || ((binary || is_stored(outcome, &reading.facts)) && !reading.failed) {
        return;
    }
    let failed = reading.failed;
    let start = outcome.body.head.trim_ascii_start();
    // Who asked for a stream and is refused often gets plain JSON under the stream's type.
    let streams = content_type.starts_with("text/event-stream") && !matches!(start.first(), Some(b'{' | b'['));
    if frames::is_frames(&content_type) {
        frames::amazon(reading, &outcome.body);
    } else if streams || starts_like_stream(start) {
        stream(reading, &outcome.body);
        return;
    } else if frames::is_lines(&content_type) {
        frames::lines(reading, &outcome.body);
    }
    if reading.failed && !failed {
        return;
    }
    let whole = outcome.body.tail.is_empty() && outcome.body.head.len() <= WHOLE_BYTES_MAX;
    let head = if whole { outcome.body.head } else { &outcome.body.head[..outcome.body.head.len().min(HEAD_BYTES)] };
    let text = String::from_utf8_lossy(head);
    let text = text.trim_start_matches('\u{feff}').trim();
    let first = text.chars().next();
    if let Some(value) = json(text, first, failed) {
        document(reading, value, with_body);
    } else if markup::is_html(text) {
        if failed {
            page(&mut reading.facts, text);
        }
    } else if first == Some('<') && markup::root(text).is_some() {
        xml(reading, text);
    } else if failed {
        reading.facts.add_message(text, "body");
        for value in lenient::embedded(cut(text, super::MESSAGE_BYTES_MAX), 4) {
            tree::add(&mut reading.facts, &value, "body");
            reading.facts.json.push(Fact { value, place: "body".to_owned() });
        }
        let message = super::printed::status(&crate::classify::text::fold(cut(text, 400)));
        if let Some((status, _)) = message.filter(|_| outcome.status == 0) {
            reading.facts.status = Some(Fact { value: status, place: "body".to_owned() });
        }
    }
    if failed || with_body || reading.failed {
        reading.facts.body = Some(Text::new("body", cut(text, super::MESSAGE_BYTES_MAX)));
    }
}

/// Returns whether the body is what somebody stored there: an object store's answer to a GET. Its own errors have a
/// status that says so.
fn is_stored(outcome: &HttpOutcome<'_>, facts: &Facts) -> bool {
    let server = facts.header("server").any(|h| {
        ["amazons3", "windows-azure-blob", "uploadserver", "minio", "ceph"]
            .iter()
            .any(|name| h.value.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)))
    });
    let tagged = ["etag", "x-goog-generation", "x-ms-blob-type"].iter().any(|name| facts.header(name).next().is_some());
    outcome.method.eq_ignore_ascii_case("GET") && tagged && server
}

/// Returns the body as JSON: strictly, or if it is an error, as well as can be.
fn json(text: &str, first: Option<char>, failed: bool) -> Option<Value> {
    match first? {
        '{' | '[' => match serde_json::from_str(text) {
            Ok(value) => Some(value),
            Err(_) if failed => lenient::read(text).map(|(value, _)| value),
            // The head of a body that goes on; or several values, one a line.
            Err(error) if error.is_eof() => lenient::read(cut(text, HEAD_BYTES)).map(|(value, _)| value),
            Err(_) => None,
        },
        '"' => serde_json::from_str(text).ok(),
        _ => None,
    }
}

fn document(reading: &mut Reading, value: Value, with_body: bool) {
    if !reading.failed
        && let Some(said) = envelope::failure(&value)
    {
        reading.failed = true;
        reading.envelope = Some(said);
    }
    if reading.failed {
        tree::add(&mut reading.facts, &value, "body");
        inner_status(&mut reading.facts, &value);
    }
    if reading.failed || with_body {
        reading.facts.json.push(Fact { value, place: "body".to_owned() });
    }
}

/// Puts the status that an error states in its body in the place of one that says that all went well.
fn inner_status(facts: &mut Facts, value: &Value) {
    if facts.status.as_ref().is_some_and(|status| (200..300).contains(&status.value)) {
        let mut inner = Facts::default();
        tree::add(&mut inner, value, "body");
        if let Some(status) = inner.status {
            facts.status = Some(status);
        }
    }
}

fn page(facts: &mut Facts, html: &str) {
    let (title, text) = markup::page(html, super::MESSAGE_BYTES_MAX);
    if let Some(title) = title {
        facts.add_message(&title, "body, title");
    }
    facts.add_message(&text, "body, text");
    facts.markup = Some(cut(html, super::MESSAGE_BYTES_MAX).to_owned());
}

fn xml(reading: &mut Reading, text: &str) {
    let root = markup::root(text).unwrap_or_default().to_ascii_lowercase();
    let elements = markup::elements(text);
    if !reading.failed {
        let second = elements.iter().map(|(path, _)| path.split('/').take(3).collect::<Vec<_>>()).any(|path| {
            path.iter().skip(1).any(|name| name.eq_ignore_ascii_case("fault"))
                || path.get(1).is_some_and(|name| name.eq_ignore_ascii_case("errors"))
        });
        let error = matches!(root.as_str(), "error" | "errorresponse" | "errors" | "fault" | "exception")
            || second && matches!(root.as_str(), "envelope" | "response" | "intuitresponse");
        if !error {
            return;
        }
        reading.failed = true;
        reading.envelope = Some(("body".to_owned(), format!("<{}>", markup::root(text).unwrap_or_default())));
    }
    for (path, value) in &elements {
        let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
        let place = format!("body, {path}");
        match name.as_str() {
            "code" | "@code" | "faultcode" | "errorcode" | "reason" | "status" | "type" | "@type" | "subcode" => {
                reading.facts.add_code(value.rsplit(':').next().unwrap_or(value), &place);
                if value.contains(' ') {
                    reading.facts.add_message(value, &place);
                }
            }
            "message" | "faultstring" | "detail" | "description" | "text" | "title" | "msg" | "error" => {
                reading.facts.add_message(value, &place);
            }
            _ => {}
        }
    }
    reading.facts.xml = elements;
}

fn starts_like_stream(head: &[u8]) -> bool {
    head.starts_with(b"event:") || head.starts_with(b"data:") || head.starts_with(b":")
}

/// Reads the events of a stream from both ends.
fn stream(reading: &mut Reading, body: &Excerpt<'_>) {
    let head = String::from_utf8_lossy(&body.head[..body.head.len().min(TAIL_BYTES)]).into_owned();
    let rest = if body.tail.is_empty() { &body.head[body.head.len().min(TAIL_BYTES)..] } else { body.tail };
    let tail = String::from_utf8_lossy(rest);
    // A cut may fall inside an event; what stands before the first border is not read.
    let tail = cut_front(&tail, TAIL_BYTES);
    let border = ["\n\n", "\r\n\r\n"].iter().filter_map(|end| tail.find(end).map(|at| at + end.len())).min();
    let tail = border.map_or("", |at| &tail[at..]);
    for (name, data) in events(&head).chain(events(tail)) {
        let value = serde_json::from_str(&data).ok().or_else(|| lenient::read(&data).map(|(value, _)| value));
        let kind = value.as_ref().and_then(|v| v.get("type")).and_then(Value::as_str).unwrap_or("").to_owned();
        const ERRORS: [&str; 4] = ["error", "response.failed", "response.error", "exception"];
        let error = ERRORS.contains(&name.as_str())
            || ERRORS.contains(&kind.as_str())
            || value.as_ref().is_some_and(|v| {
                v.get("error").is_some_and(|e| e.is_object() || e.is_string() && v.get("choices").is_none())
                    && v.get("delta").is_none()
            });
        if !error {
            continue;
        }
        if !reading.failed {
            reading.failed = true;
            reading.envelope = Some(("body, event".to_owned(), cut(&format!("{name}: {data}"), 240).to_owned()));
        }
        let value = value.unwrap_or_else(|| Value::String(data.clone()));
        tree::add(&mut reading.facts, &value, "body, event");
        reading.facts.json.push(Fact { value: value.clone(), place: "body, event".to_owned() });
        reading.facts.sse.push((if name.is_empty() { kind } else { name }, value));
    }
}

/// Returns the events of a stream as (name, data).
fn events(text: &str) -> impl Iterator<Item = (String, String)> {
    let mut lines = text.lines();
    std::iter::from_fn(move || {
        let (mut name, mut data, mut any) = (String::new(), String::new(), false);
        loop {
            match lines.next() {
                None if any => return Some((name, data)),
                None => return None,
                Some(line) if line.trim_end().is_empty() => {
                    if any {
                        return Some((name, data));
                    }
                }
                Some(line) => {
                    any = true;
                    if let Some(value) = line.strip_prefix("event:") {
                        name = value.trim().to_owned();
                    } else if let Some(value) = line.strip_prefix("data:") {
                        if !data.is_empty() {
                            data.push('\n');
                        }
                        data.push_str(value.trim_start());
                    }
                }
            }
        }
    })
}

/// Adds the error codes that stand in headers.
fn header_codes(facts: &mut Facts) {
    for name in
        ["x-amzn-errortype", "x-amz-error-code", "x-ms-error-code", "x-error-code", "x-goog-error", "x-request-error"]
    {
        let codes: Vec<String> = facts.header(name).map(|h| h.value.clone()).collect();
        for code in codes {
            facts.add_code(&code, &format!("header {name}"));
        }
    }
    let challenges: Vec<String> = facts.header("www-authenticate").map(|h| h.value.clone()).collect();
    for challenge in challenges {
        if let Some((_, rest)) = challenge.split_once("error=\"") {
            facts.add_code(rest.split('"').next().unwrap_or(""), "header www-authenticate");
        }
    }
    let message = facts.header("grpc-message").next().map(|h| h.value.clone());
    if let Some(message) = message {
        facts.add_message(&percent_decoded(&message), "header grpc-message");
    }
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns what says that the body of a success ends too early.
fn truncated(outcome: &HttpOutcome<'_>, facts: &Facts) -> Option<(String, String)> {
    if outcome.method.eq_ignore_ascii_case("HEAD") || matches!(outcome.status, 204 | 205 | 304) {
        return None;
    }
    let encoded = facts.header("content-encoding").any(|h| !h.value.eq_ignore_ascii_case("identity"));
    let length = facts.header("content-length").next().and_then(|h| h.value.parse::<u64>().ok());
    if let Some(length) = length.filter(|&length| !encoded && length > outcome.body.len() && !outcome.body.is_empty()) {
        return Some(("body".to_owned(), format!("{} of {length} bytes", outcome.body.len())));
    }
    let is_type = |kind: &str| facts.header("content-type").any(|h| h.value.to_ascii_lowercase().starts_with(kind));
    if is_type("text/event-stream") {
        return ends_inside_event(&outcome.body).then(|| ("body".to_owned(), "stream ends inside an event".to_owned()));
    }
    let json = is_type("application/json");
    if !json || !outcome.body.tail.is_empty() || outcome.body.head.len() > WHOLE_BYTES_MAX {
        return None;
    }
    let text = std::str::from_utf8(outcome.body.head).ok()?.trim();
    let cut_off = text.starts_with(['{', '['])
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err_and(|error| error.is_eof());
    cut_off.then(|| ("body".to_owned(), "JSON ends too early".to_owned()))
}

/// Returns whether a stream ends in the middle of the JSON of an event.
fn ends_inside_event(body: &Excerpt<'_>) -> bool {
    let end = if body.tail.is_empty() { body.head } else { body.tail };
    let end = &end[end.len().saturating_sub(TAIL_BYTES)..];
    let Some(at) = memchr::memrchr(b'\n', end) else { return false };
    let Some(data) = end[at + 1..].strip_prefix(b"data:") else { return false };
    let data = data.trim_ascii();
    data.starts_with(b"{") && serde_json::from_slice::<serde::de::IgnoredAny>(data).is_err_and(|e| e.is_eof())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Reached;
    use std::time::Duration;
    use test_case::test_case;

    fn reading(status: u16, headers: &[(&str, &str)], body: &str) -> Reading {
        let outcome = HttpOutcome {
            method: "POST",
            status,
            headers,
            body: Excerpt::whole(body.as_bytes()),
            reached: Reached::Answered,
            elapsed: Duration::ZERO,
        };
        read(&outcome, false)
    }

    #[test_case("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n", true)]
    #[test_case("data: {\"error\":{\"message\":\"x\"}}\n\ndata: [DONE]\n\n", true)]
    #[test_case("data: {\"choices\":[{\"delta\":{\"content\":\"event: error\"}}]}\n\ndata: [DONE]\n\n", false)]
    #[test_case("event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{},\"error\":null}\n\n", false)]
    #[test_case("event: response.failed\ndata: {\"response\":{}}\n\n", true; "by its name alone")]
    #[test_case("{\"error\":{\"message\":\"x\"}}", true; "json under the type of a stream")]
    #[test_case("{\"choices\":[]}", false; "an answer under the type of a stream")]
    #[test_case(": ping\n\ndata: {\"type\":\"text\",\"delta\":\"Par", true; "ends inside an event")]
    #[test_case("data: {\"a\":1}\n\ndata: [DONE]", false; "no line end after the last event")]
    #[test_case("data: {\"a\":1}\n\ndata: {\"a\":2}", false; "no line end after whole json")]
    #[test_case("data: Hello\n\ndata: {wor", false; "no json")]
    fn an_error_event_makes_a_stream_a_failure(body: &str, failed: bool) {
        assert_eq!(reading(200, &[("content-type", "text/event-stream")], body).failed, failed);
    }

    #[test_case("{\"code\":429,\"msg\":\"request too frequent\",\"data\":null}", 429; "stated")]
    #[test_case("{\"ok\":false,\"error\":\"x\"}", 200; "not stated")]
    #[test_case("{\"count\":429,\"name\":\"x\"}", 200; "no error")]
    fn an_error_under_a_success_has_the_status_it_states(body: &str, status: u16) {
        let read = reading(200, &[("content-type", "application/json")], body);
        assert_eq!(read.facts.status.map(|s| s.value), Some(status));
    }

    #[test]
    fn what_is_stored_is_content() {
        let headers = [("server", "AmazonS3"), ("etag", "\"x\"")];
        let outcome = HttpOutcome {
            method: "GET",
            status: 200,
            headers: &headers,
            body: Excerpt::whole(b"{\"Error\":{\"Code\":\"SlowDown\"}}"),
            reached: Reached::Answered,
            elapsed: Duration::ZERO,
        };
        assert!(!read(&outcome, false).failed);
        assert!(read(&HttpOutcome { method: "POST", ..outcome }, false).failed);
    }

    #[test_case("{\"error\":{\"code\":\"x\"}}", true)]
    #[test_case("{\"error\":\"it broke\"}", true)]
    #[test_case("{\"error\":\"it broke\",\"choices\":[]}", false; "a part of an answer")]
    #[test_case("{\"error\":null,\"id\":1}", false)]
    fn an_event_with_an_error_is_one(data: &str, failed: bool) {
        let body = format!("data: {data}\n\n");
        assert_eq!(reading(200, &[("content-type", "text/event-stream")], &body).failed, failed);
    }

    #[test]
    fn an_error_at_the_end_of_a_long_stream_is_found() {
        let delta = "data: {\"choices\":[{\"delta\":{\"content\":\"word\"}}]}\n\n".repeat(20_000);
        let body = format!("{delta}data: {{\"error\":{{\"code\":\"server_error\"}}}}\n\n");
        assert!(reading(200, &[("content-type", "text/event-stream")], &body).failed);
    }

    #[test]
    fn an_error_at_the_end_of_a_long_stream_with_crlf_is_found() {
        let delta = "data: {\"choices\":[{\"delta\":{\"content\":\"word\"}}]}\r\n\r\n".repeat(20_000);
        let body = format!("{delta}data: {{\"error\":{{\"code\":\"server_error\"}}}}\r\n\r\n");
        assert!(reading(200, &[("content-type", "text/event-stream")], &body).failed);
    }

    #[test]
    fn an_error_behind_an_answer_is_found_in_lines_and_frames() {
        let lines = "{\"response\":\"a\"}\n{\"error\":\"the model stopped\"}\n";
        assert!(reading(200, &[("content-type", "application/x-ndjson")], lines).failed);
        assert!(!reading(200, &[("content-type", "text/plain")], lines).failed);
        let frame = ":exception-type\u{7}\u{0}\u{13}throttlingException{\"message\":\"x\"}";
        assert!(reading(200, &[("content-type", "application/vnd.amazon.eventstream")], frame).failed);
    }

    #[test_case(&[("content-type", "application/json")], "{\"a\": [1, 2", true; "json that ends too early")]
    #[test_case(&[("content-length", "99")], "short", true; "fewer bytes than announced")]
    #[test_case(&[("content-length", "99"), ("content-encoding", "gzip")], "decoded", false; "length of the encoded form")]
    #[test_case(&[("content-type", "application/x-ndjson")], "{\"a\":1}\n{\"b\"", false; "lines")]
    #[test_case(&[("content-type", "application/json")], "{\"a\":1}", false; "whole")]
    fn truncated_bodies_are_failures(headers: &[(&str, &str)], body: &str, failed: bool) {
        assert_eq!(reading(200, headers, body).failed, failed);
    }

    #[test]
    fn a_body_of_any_size_is_read_in_part() {
        let body = format!("{{\"errors\":true,\"items\":[{}0]}}", "0,".repeat(1 << 20));
        assert!(reading(200, &[], &body).failed);
        let body = format!("{{\"items\":[{}0],\"error\":{{\"code\":1}}}}", "0,".repeat(1 << 20));
        assert!(!reading(200, &[], &body).failed);
    }
}
