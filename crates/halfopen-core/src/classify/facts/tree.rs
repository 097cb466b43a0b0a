//! Finds error codes, messages, statuses and headers in JSON that is an error.
//!
//! Services agree on little, but on the names of these members they nearly do. The names are listed here; everything
//! else is only walked through. Members that echo the request or carry content are not entered.

use serde_json::Value;

use super::{Facts, lenient};
use crate::classify::path::scalar;

const DEPTH_MAX: usize = 12;

/// Members that hold an error code.
const CODES: &[&str] = &[
    "code",
    "type",
    "__type",
    "errorcode",
    "error_code",
    "errortype",
    "error_type",
    "err_code",
    "errcode",
    "status",
    "reason",
    "name",
    "errno",
    ".tag",
    "title",
    "error",
    "errors",
    "category",
    "faultcode",
    ":exception-type",
    "exceptiontype",
    "policyname",
    "errorname",
    "error_subcode",
    "subcode",
    "issue",
    "error_summary",
    "serviceerrorcode",
    "decline_code",
    "exception",
    "kind",
    "ratelimittype",
    "quotaid",
    "quota_unit",
    "quota_limit",
    "jobstatus",
    "statusmessage",
    "statuscode",
    "subtype",
    "error_status",
    "limit_source",
    "fault",
];

/// Members that hold a sentence.
const MESSAGES: &[&str] = &[
    "message",
    "msg",
    "errormessage",
    "error_message",
    "error_msg",
    "errmsg",
    "err_msg",
    "error_description",
    "description",
    "detail",
    "details",
    "title",
    "reason",
    "error",
    "errors",
    "messages",
    "errormessages",
    "raw",
    "body",
    "faultstring",
    "statusmessage",
    "status_message",
    "exception",
    "status",
    "type",
    "usermessage",
    "developermessage",
    "user_message",
    "developer_message",
    "cause",
    "error_detail",
    "result",
    "errordescription",
    "fault",
    "more_info_message",
    "errordetail",
    "info",
    "note",
    "human_message",
    "explanation",
];

/// Members that hold an HTTP status.
const STATUSES: &[&str] = &[
    "status",
    "statuscode",
    "status_code",
    "httpstatus",
    "http_status",
    "httpstatuscode",
    "http_status_code",
    "code",
    "error_code",
    "errorcode",
    "raw_status_code",
    "api_error_status",
    "error",
    "http_code",
    "httpcode",
    "error_status",
];

/// Members that are not entered: they echo the request, carry content, or hold what the client itself is.
const CLOSED: &[&str] = &[
    "input",
    "request",
    "prompt",
    "messages_sent",
    "content",
    "params",
    "config",
    "stack",
    "stacktrace",
    "choices",
    "output",
    "usage",
    "tool_input",
    "arguments",
    "documentation_url",
    "help",
    "debug_id",
    "request_id",
    "requestid",
];

/// Adds what `value` says to `facts`; `place` names where it stood.
pub(crate) fn add(facts: &mut Facts, value: &Value, place: &str) {
    walk(facts, value, place, "", 0);
}

fn walk(facts: &mut Facts, value: &Value, place: &str, key: &str, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                let folded = name.to_ascii_lowercase();
                if folded == "headers" || folded == "response_headers" || folded == "responseheaders" {
                    headers(facts, inner, place);
                } else if !CLOSED.contains(&folded.as_str()) {
                    let here = join(place, name);
                    walk(facts, inner, &here, &folded, depth + 1);
                }
            }
        }
        Value::Array(list) => {
            for inner in list.iter().take(64) {
                walk(facts, inner, place, key, depth + 1);
            }
        }
        Value::String(text) => string(facts, text, place, key, depth),
        Value::Number(_) => {
            let status = value.as_u64().and_then(|n| u16::try_from(n).ok()).filter(|s| (400..=599).contains(s));
            if let Some(status) = status.filter(|_| STATUSES.contains(&key)) {
                facts.add_status(status, place);
            }
            if CODES.contains(&key) {
                facts.add_code(&value.to_string(), place);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn string(facts: &mut Facts, text: &str, place: &str, key: &str, depth: usize) {
    let text = text.trim();
    if text.is_empty() {
        return;
    }
    if depth < DEPTH_MAX && text.len() > 2 && text.contains('{') {
        // An error inside an error: services pass on what their own dependency said as text.
        let inner = lenient::embedded(text, 2);
        for value in &inner {
            walk(facts, value, place, key, depth + 4);
        }
        facts.json.extend(inner.into_iter().map(|value| super::Fact { value, place: place.to_owned() }));
    }
    let one_word = !text.contains(char::is_whitespace);
    if STATUSES.contains(&key)
        && one_word
        && let Some(status) = ending_status(text)
    {
        facts.add_status(status, place);
    }
    if one_word && CODES.contains(&key) || !one_word && key == "error" && text.len() < 40 {
        facts.add_code(text, place);
    }
    if MESSAGES.contains(&key) || key.is_empty() || !one_word && is_in_errors(place) {
        if !one_word || !CODES.contains(&key) || key == "message" {
            facts.add_message(text, place);
        } else if key == "error" || key == "errors" {
            facts.add_message(&text.replace(['_', '-'], " "), place);
        }
    }
}

/// Returns whether the member at `place` is a field that failed: `errors: {product: ["…"]}`.
fn is_in_errors(place: &str) -> bool {
    place.rsplit_once('.').is_some_and(|(parents, _)| parents.ends_with(".errors") || parents.ends_with(".Errors"))
}

/// Returns the HTTP status a code is or ends with (`429`, `InferHub.81101.429`).
fn ending_status(code: &str) -> Option<u16> {
    let digits = code.rsplit(['.', '-', '_', '/']).next()?;
    digits.parse().ok().filter(|status| digits.len() == 3 && (400..=599).contains(status))
}

fn headers(facts: &mut Facts, value: &Value, place: &str) {
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                if name.to_ascii_lowercase().trim_start_matches(':') == "exception-type"
                    && let Some(text) = scalar(inner)
                {
                    facts.add_code(&text, place);
                }
                if let Some(text) = scalar(inner) {
                    facts.add_inner_header(name, &text);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|inner| headers(facts, inner, place)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn join(place: &str, name: &str) -> String {
    if place.len() > 120 { place.to_owned() } else { format!("{place}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn facts(value: &Value) -> Facts {
        let mut facts = Facts::default();
        add(&mut facts, value, "body");
        facts
    }

    fn codes(facts: &Facts) -> Vec<&str> {
        facts.codes.iter().map(|code| code.value.as_str()).collect()
    }

    #[test]
    fn codes_messages_and_status_are_found_by_their_names() {
        let found = facts(&json!({"error": {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED",
            "details": [{"reason": "RATE_LIMIT_EXCEEDED"}]}}));
        assert_eq!(found.status.as_ref().map(|s| s.value), Some(429));
        assert_eq!(codes(&found), ["429", "resource_exhausted", "rate_limit_exceeded"]);
        assert_eq!(found.messages[0].shown, "Slow down.");
        assert_eq!(found.messages[0].place, "body.error.message");
    }

    #[test]
    fn errors_inside_strings_are_read() {
        let found =
            facts(&json!({"error": {"message": "{\n \"error\": {\"code\": 503, \"status\": \"UNAVAILABLE\"}}"}}));
        assert!(codes(&found).contains(&"unavailable"));
    }

    #[test]
    fn nested_lists_of_words_are_codes_and_sentences() {
        let found = facts(&json!({"json": {"errors": [["RATELIMIT", "try again in 9 minutes.", "ratelimit"]]}}));
        assert_eq!(codes(&found), ["ratelimit"]);
        assert!(found.messages.iter().any(|m| m.shown == "try again in 9 minutes."));
    }

    #[test]
    fn sentences_about_single_fields_are_read() {
        let found = facts(&json!({"errors": {"product": ["Daily variant creation limit reached"]}}));
        assert_eq!(found.messages[0].place, "body.errors.product");
        let found = facts(&json!({"success": false, "errors": [{"statusCode": "UNABLE_TO_LOCK_ROW"}]}));
        assert_eq!(codes(&found), ["unable_to_lock_row"]);
    }

    #[test]
    fn the_echoed_request_is_not_read() {
        let found = facts(&json!({"detail": [{"msg": "field required", "input": {"code": "rate_limited"}}]}));
        assert_eq!(codes(&found), Vec::<&str>::new());
    }

    #[test]
    fn headers_inside_a_body_are_headers() {
        let found = facts(&json!({"error": {"metadata": {"headers": {"X-RateLimit-Reset": "1747872000000"}}}}));
        assert_eq!(found.headers[0].name, "x-ratelimit-reset");
    }
}
