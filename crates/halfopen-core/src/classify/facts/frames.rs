//! Reads streams that are no `text/event-stream`: lines of JSON, and the binary frames of AWS.
//!
//! Both carry an answer of any length and may end with an error behind a status of 200. Only that error is looked for:
//! in lines, the last one, if it is an error and nothing else, because lines may as well be records with errors in
//! them; in frames, a header that no content can hold, because its length stands before it in binary.

use serde_json::Value;

use super::http::Reading;
use super::{Fact, cut, lenient, tree};
use crate::outcome::Excerpt;

/// How much of the end of a stream is looked at, and of its beginning for frames.
const END_BYTES: usize = 64 << 10;

/// The longest payload of an exception that is read.
const PAYLOAD_BYTES_MAX: usize = 4 << 10;

/// Members of an object that is an error and nothing else.
const ERROR_MEMBERS: &[&str] = &["error", "errors", "message", "code", "status", "status_code", "statuscode", "type"];

/// Returns whether a content type is that of lines of JSON.
pub(super) fn is_lines(content_type: &str) -> bool {
    [
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/x-jsonlines",
        "application/json-lines",
    ]
    .iter()
    .any(|kind| content_type.starts_with(kind))
}

/// Returns whether a content type is that of AWS's frames.
pub(super) fn is_frames(content_type: &str) -> bool {
    content_type.starts_with("application/vnd.amazon.eventstream")
}

/// Reads the last line; makes the reading a failure if it is an error.
pub(super) fn lines(reading: &mut Reading, body: &Excerpt<'_>) {
    let end = if body.tail.is_empty() { body.head } else { body.tail };
    let end = &end[end.len().saturating_sub(END_BYTES)..];
    let line = end.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).rfind(|line| !line.is_empty());
    let Some(Ok(Value::Object(map))) = line.map(serde_json::from_slice) else { return };
    let is_error = map.get("error").is_some_and(|error| error.is_object() || error.is_string())
        && map.keys().all(|key| ERROR_MEMBERS.contains(&key.to_ascii_lowercase().as_str()));
    if is_error {
        let value = Value::Object(map);
        fail(reading, "error", &value.to_string());
        tree::add(&mut reading.facts, &value, "body, last line");
        reading.facts.json.push(Fact { value: value.clone(), place: "body, last line".to_owned() });
        reading.facts.sse.push(("error".to_owned(), value));
    }
}

/// Looks for the frame of an exception at both ends; makes the reading a failure if there is one.
///
/// A header is its name, the byte 7 for text, a length of two bytes and the text
/// (<https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html>).
pub(super) fn amazon(reading: &mut Reading, body: &Excerpt<'_>) {
    let (head, rest) = body.head.split_at(body.head.len().min(END_BYTES));
    let tail = if body.tail.is_empty() { rest } else { body.tail };
    let tail = &tail[tail.len().saturating_sub(END_BYTES)..];
    for part in [tail, head] {
        for name in [":exception-type", ":error-code"] {
            let Some((code, after)) = header(part, name) else { continue };
            fail(reading, name, &code);
            reading.facts.add_code(&code, "body, frame");
            if let Some((message, _)) = header(part, ":error-message") {
                reading.facts.add_message(&message, "body, frame");
            }
            let payload = &after[..after.len().min(PAYLOAD_BYTES_MAX)];
            let payload = String::from_utf8_lossy(payload);
            let value = lenient::embedded(&payload, 1).into_iter().next().unwrap_or(Value::Null);
            tree::add(&mut reading.facts, &value, "body, frame");
            reading.facts.json.push(Fact { value: value.clone(), place: "body, frame".to_owned() });
            reading.facts.sse.push((code, value));
            return;
        }
    }
}

/// Returns the text of the last header `name`, and what stands behind it.
fn header<'b>(part: &'b [u8], name: &str) -> Option<(String, &'b [u8])> {
    let at = memchr::memmem::rfind(part, name.as_bytes())? + name.len();
    let [7, high, low, rest @ ..] = &part[at..] else { return None };
    let len = usize::from(u16::from_be_bytes([*high, *low]));
    let (text, after) = rest.split_at_checked(len)?;
    Some((std::str::from_utf8(text).ok()?.to_owned(), after))
}

fn fail(reading: &mut Reading, what: &str, said: &str) {
    if !reading.failed {
        reading.failed = true;
        reading.envelope = Some(("body, event".to_owned(), cut(&format!("{what}: {said}"), 240).to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    /// Builds a frame; the checksums are not looked at.
    fn frame(headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
        let mut frame = vec![0, 0, 0, 99, 0, 0, 0, 60, 1, 2, 3, 4];
        for (name, value) in headers {
            frame.push(u8::try_from(name.len()).unwrap());
            frame.extend_from_slice(name.as_bytes());
            frame.push(7);
            frame.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
            frame.extend_from_slice(value.as_bytes());
        }
        frame.extend_from_slice(payload.as_bytes());
        frame.extend_from_slice(&[9, 9, 9, 9]);
        frame
    }

    fn delta() -> Vec<u8> {
        let headers =
            [(":event-type", "contentBlockDelta"), (":content-type", "application/json"), (":message-type", "event")];
        frame(&headers, "{\"delta\":{\"text\":\"a line with :exception-type throttlingException\"}}")
    }

    fn exception() -> Vec<u8> {
        let headers = [
            (":exception-type", "throttlingException"),
            (":content-type", "application/json"),
            (":message-type", "exception"),
        ];
        frame(&headers, "{\"message\":\"Too many tokens, please wait before trying again.\"}")
    }

    #[test]
    fn an_exception_frame_ends_a_stream_however_long() {
        for deltas in [0, 1, 5_000] {
            let mut body = delta().repeat(deltas);
            body.extend(exception());
            let mut reading = Reading::default();
            amazon(&mut reading, &Excerpt::whole(&body));
            assert!(reading.failed, "{deltas}");
            assert_eq!(reading.facts.codes[0].value, "throttlingexception");
            assert!(reading.facts.messages[0].shown.starts_with("Too many tokens"));
        }
    }

    #[test]
    fn content_that_speaks_of_exceptions_is_content() {
        let mut reading = Reading::default();
        amazon(&mut reading, &Excerpt::whole(&delta().repeat(3)));
        assert!(!reading.failed);
        let cut_off = [&delta()[..], b":exception-type\x07\x00\x30thr"].concat();
        amazon(&mut reading, &Excerpt::whole(&cut_off));
        assert!(!reading.failed);
    }

    #[test_case("{\"response\":\"Par\"}\n{\"error\":\"an error was encountered while running the model\"}\n", true)]
    #[test_case("{\"response\":\"Par\"}\n{\"error\":{\"message\":\"x\",\"code\":503}}", true)]
    #[test_case("{\"response\":\"a\"}\n{\"response\":\"\",\"done\":true}\n", false)]
    #[test_case("{\"id\":1,\"error\":\"timeout\"}\n{\"id\":2,\"error\":\"timeout\"}\n", false; "records with errors in them")]
    #[test_case("{\"error\":\"x\"}\n{\"response\":\"b\",\"done\":true}\n", false; "overcome")]
    #[test_case("{\"error\":null}\n", false)]
    #[test_case("", false)]
    fn the_last_of_some_lines_may_be_the_error(body: &str, failed: bool) {
        let mut reading = Reading::default();
        lines(&mut reading, &Excerpt::whole(body.as_bytes()));
        assert_eq!(reading.failed, failed);
    }
}
