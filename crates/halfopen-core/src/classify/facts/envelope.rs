//! Says whether an answer that calls itself a success carries an error instead.
//!
//! Only structure counts: a member that exists to say so, at the place where an envelope has it. The words of a
//! success are never read. A listing of failed builds, a support ticket about a quota and a document full of error
//! messages all stay successes.

use serde_json::{Map, Value};

/// Returns what says that `value` is an error, as (place, excerpt).
pub(crate) fn failure(value: &Value) -> Option<(String, String)> {
    match value {
        Value::Object(map) => object(map),
        Value::Array(list) => match list.as_slice() {
            // Google's errors and Salesforce's come as a list of one; a list of records is none, whatever they hold.
            [Value::Object(map)] if map.len() == 1 && map.get("error").is_some_and(Value::is_object) => object(map),
            [Value::Object(map)] if map.get("success") == Some(&Value::Bool(false)) => object(map),
            [Value::Object(map)] if map.len() <= 3 => salesforce(map),
            _ => None,
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn salesforce(map: &Map<String, Value>) -> Option<(String, String)> {
    let code = map.get("errorCode")?.as_str()?;
    map.get("message")?;
    Some(("body[].errorCode".to_owned(), code.to_owned()))
}

fn object(map: &Map<String, Value>) -> Option<(String, String)> {
    // A stored log line is about an error somewhere else.
    if map.contains_key("@timestamp") {
        return None;
    }
    let resource = is_resource(map);
    let said = |key: &str, value: &Value| Some((format!("body.{key}"), format!("{key}: {}", short(value))));
    if let Some((key, value)) = first(map, &["error", "Error", "fault", "Fault", "exception"])
        && is_error(value)
        // A record of something may have a text member named `error`; an error has no id of its own.
        && !(value.is_string() && (is_answer(map) || map.contains_key("id")))
    {
        return said(key, value);
    }
    if let Some((key, value)) = first(map, &["errors", "Errors"]) {
        let full = match value {
            Value::Array(list) => !list.is_empty() && list.iter().any(|e| e.is_object() || e.is_string()),
            Value::Object(inner) => inner.values().any(is_reason),
            Value::String(text) => !text.is_empty(),
            // Elasticsearch's bulk answer: true if an item failed.
            Value::Bool(yes) => *yes,
            Value::Null | Value::Number(_) => false,
        };
        if full {
            return said(key, value);
        }
    }
    for key in ["ok", "success", "Success", "succeeded", "isSuccess", "is_success"] {
        if map.get(key) == Some(&Value::Bool(false)) {
            return said(key, &Value::Bool(false));
        }
    }
    for key in ["is_error", "isError", "IsErroredOnProcessing", "hasError", "has_error"] {
        if map.get(key) == Some(&Value::Bool(true)) {
            return said(key, &Value::Bool(true));
        }
    }
    if let Some(status) = map.get("status").or_else(|| map.get("Status")).and_then(Value::as_str).filter(|_| !resource)
    {
        let reason = first(map, REASONS).is_some_and(|(_, value)| is_reason(value));
        let failed = match status.to_ascii_lowercase().as_str() {
            "error" => true,
            "failed" | "fail" | "failure" => reason,
            _ => false,
        };
        if failed {
            return said("status", &Value::String(status.to_owned()));
        }
    }
    if map.get("type").and_then(Value::as_str) == Some("error") && first(map, REASONS).is_some() {
        return said("type", &Value::String("error".to_owned()));
    }
    if map.get("object").and_then(Value::as_str) == Some("error") {
        return said("object", &Value::String("error".to_owned()));
    }
    if let Some((key, value)) = first(map, &["errcode", "error_code", "errorCode", "ErrorCode"]).filter(|_| !resource) {
        let zero = value.as_i64() == Some(0) || matches!(value.as_str(), Some("" | "0" | "OK" | "SUCCESS" | "success"));
        let reason = first(map, &["errmsg", "error_msg", "errorMessage", "error_message", "ErrorMessage", "message"]);
        if !zero && !value.is_null() && reason.is_some_and(|(_, value)| is_reason(value)) {
            return said(key, value);
        }
    }
    for key in ["code", "statusCode", "status_code", "status"] {
        let number = map.get(key).and_then(|v| v.as_u64().or_else(|| v.as_str()?.parse().ok()));
        let status = number.filter(|code| (400..=599).contains(code));
        if let Some(status) =
            status.filter(|_| !resource && first(map, REASONS).is_some_and(|(_, value)| is_reason(value)))
        {
            return said(key, &Value::from(status));
        }
    }
    if map.len() <= 4 && map.get("message").is_some_and(Value::is_string) && map.contains_key("documentation_url") {
        return said("message", &map["message"]);
    }
    if map.contains_key("__type") && map.len() <= 4 && first(map, &["message", "Message"]).is_some() {
        return said("__type", &map["__type"]);
    }
    job(map).or_else(|| items(map)).or_else(|| wrapped(map))
}

/// An error inside the only member: `{"Response": {"Error": {…}}}`.
fn wrapped(map: &Map<String, Value>) -> Option<(String, String)> {
    let (_, inner) = map.iter().find(|(key, _)| key.eq_ignore_ascii_case("response"))?;
    let (_, error) = inner.as_object()?.iter().find(|(key, _)| key.eq_ignore_ascii_case("error"))?;
    let said = map.len() <= 2 && error.is_object() && is_error(error);
    said.then(|| ("body.response.error".to_owned(), short(error)))
}

/// Returns whether an object is a thing that has an identity: what it says about failing is its own state (a build, a
/// refund, a message that bounced), not the end of the call that asked for it.
fn is_resource(map: &Map<String, Value>) -> bool {
    ["id", "_id", "sid", "uuid", "guid", "arn"].iter().any(|key| map.contains_key(*key)) && !map.contains_key("jsonrpc")
}

/// Members that say why.
const REASONS: &[&str] = &[
    "error",
    "message",
    "msg",
    "error_message",
    "errorMessage",
    "detail",
    "details",
    "reason",
    "errors",
    "description",
    "incomplete_details",
    "failure_reason",
    "statusMessage",
    "error_description",
    "title",
];

/// A job whose polling call went well while the job did not.
fn job(map: &Map<String, Value>) -> Option<(String, String)> {
    let key = ["JobStatus", "jobStatus"].into_iter().find(|key| map.contains_key(*key))?;
    let failed = map[key].as_str().is_some_and(|s| s.eq_ignore_ascii_case("FAILED"));
    failed.then(|| (format!("body.{key}"), format!("{key}: FAILED")))
}

/// A batch of which items failed.
fn items(map: &Map<String, Value>) -> Option<(String, String)> {
    for key in ["FailedRecordCount", "FailedPutCount", "FailedEntryCount"] {
        if map.get(key).and_then(Value::as_u64).is_some_and(|failed| failed > 0) {
            return Some((format!("body.{key}"), format!("{key}: {}", map[key])));
        }
    }
    let responses = map.get("responses")?;
    let inner: Vec<&Value> = match responses {
        Value::Array(list) => list.iter().take(200).collect(),
        Value::Object(map) => map.values().take(200).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    let failed = inner.iter().find(|item| {
        let status = item.get("status").and_then(Value::as_u64).is_some_and(|s| s == 429 || s >= 500);
        let error = item.get("error").is_some_and(is_error)
            || item.get("errors").is_some_and(|e| e.as_array().is_some_and(|list| !list.is_empty()));
        status || error
    })?;
    Some(("body.responses[]".to_owned(), short(failed)))
}

/// Returns whether the value of an `error` member is one.
fn is_error(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty() && !map.values().all(Value::is_null),
        Value::String(text) => {
            !text.is_empty() && !matches!(text.to_ascii_lowercase().as_str(), "none" | "ok" | "null" | "false")
        }
        Value::Array(list) => !list.is_empty(),
        Value::Bool(yes) => *yes,
        Value::Number(number) => number.as_i64() != Some(0),
        Value::Null => false,
    }
}

/// Returns whether the value of a member that says why says anything.
fn is_reason(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns whether an object plainly is an answer, so that a text member named `error` is part of it.
fn is_answer(map: &Map<String, Value>) -> bool {
    ["choices", "data", "result", "results", "content", "items"]
        .iter()
        .any(|key| map.get(*key).is_some_and(|value| !value.is_null() && *value != Value::Array(Vec::new())))
}

fn first<'m>(map: &'m Map<String, Value>, keys: &[&'static str]) -> Option<(&'static str, &'m Value)> {
    keys.iter().find_map(|key| map.get(*key).map(|value| (*key, value)))
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use test_case::test_case;

    #[test_case(json!({"error": {"message": "x", "code": 429}}))]
    #[test_case(json!({"ok": false, "error": "ratelimited"}))]
    #[test_case(json!({"success": false}))]
    #[test_case(json!({"error": "rate limit", "data": null}))]
    #[test_case(json!({"error": "rate limit", "data": []}))]
    #[test_case(json!({"error": ["rate limit"]}))]
    #[test_case(json!({"errors": [{"message": "x"}]}))]
    #[test_case(json!({"status": "error", "message": "Locked"}))]
    #[test_case(json!({"status": "failed", "error": {"code": "x"}}))]
    #[test_case(json!({"status": "error", "code": "rate_limit"}))]
    #[test_case(json!({"type": "error", "message": "x"}))]
    #[test_case(json!({"errcode": 45009, "errmsg": "reach max api daily quota limit"}))]
    #[test_case(json!({"code": 429, "message": "slow down"}))]
    #[test_case(json!({"JobStatus": "FAILED"}))]
    #[test_case(json!({"FailedRecordCount": 1, "Records": []}))]
    #[test_case(json!({"responses": [{"id": "1", "status": 200}, {"id": "2", "status": 429}]}))]
    #[test_case(json!([{"error": {"code": 503}}]))]
    #[test_case(json!({"message": "Bad credentials", "documentation_url": "https://x", "status": "401"}))]
    #[test_case(json!({"message": "API rate limit exceeded", "documentation_url": "https://x"}))]
    #[test_case(json!({"Response": {"Error": {"Code": "RequestLimitExceeded"}, "RequestId": "x"}}))]
    #[test_case(json!({"errors": {"title": ["can't be blank"]}}))]
    #[test_case(json!({"id": "resp_1", "status": "failed", "error": {"code": "server_error"}}))]
    fn an_envelope_that_says_so_is_a_failure(body: Value) {
        assert!(failure(&body).is_some());
    }

    #[test_case(json!({"error": null, "status": "completed"}))]
    #[test_case(json!({"errors": []}))]
    #[test_case(json!({"error": [], "id": 1}))]
    #[test_case(json!({"ok": true, "error": "rate limit", "data": [1]}))]
    #[test_case(json!({"error": "rate limit", "data": [1]}))]
    #[test_case(json!({"errors": false, "items": []}))]
    #[test_case(json!({"errcode": 0, "errmsg": "ok"}))]
    #[test_case(json!({"status": "failed", "id": "build_1"}))]
    #[test_case(json!({"deliveries": [{"response_status": 429}]}))]
    #[test_case(json!({"quota": {"exceeded": true}, "message": "quota exceeded emails sent: 0"}))]
    #[test_case(json!({"responses": [{"id": "1", "status": 200}]}))]
    #[test_case(json!({"choices": [{"message": {"content": "{\"error\": {}}"}}]}))]
    #[test_case(json!({"code": 0, "message": "ok"}))]
    #[test_case(json!({"error": false, "message": "saved"}))]
    #[test_case(json!([{"id": 1}, {"error": "x"}]))]
    #[test_case(json!([{"id": 1, "error": "rate limit"}]))]
    #[test_case(json!({"id": 1, "state": "done", "error": "rate limit"}))]
    #[test_case(json!({"id": "job_1", "status": "error", "name": "nightly"}))]
    #[test_case(json!({"id": 7, "status": "failed", "title": "Import of contacts"}))]
    #[test_case(json!({"id": "re_1", "status": "failed", "failure_reason": "expired_or_canceled_card"}))]
    #[test_case(json!({"sid": "SM1", "status": "failed", "error_code": 30001, "error_message": "Queue overflow"}))]
    #[test_case(json!({"id": 1, "code": 500, "title": "Sofia"}))]
    #[test_case(json!({"errors": {"count": 0, "items": []}, "data": [1]}))]
    #[test_case(json!({"@timestamp": "x", "error": {"message": "quota exceeded"}, "host": "b"}))]
    #[test_case(json!({"response": {"error": null, "docs": []}}))]
    fn an_answer_is_not(body: Value) {
        assert_eq!(failure(&body), None);
    }
}
