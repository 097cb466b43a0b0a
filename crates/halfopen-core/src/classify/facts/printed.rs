//! Reads what a command printed: which lines are an error of the tool itself, and which statuses and codes stand there.
//!
//! A number is only a status where something says so (`HTTP 429`, `error: 429`, `429 Too Many Requests`): line numbers,
//! ports, ids and durations have three digits too. What is no error at all is left out before ([`super::quoted`]).

use crate::classify::text::{fold, undecorated};

mod codes;
mod status;

pub(crate) use codes::codes;
pub(crate) use status::status;

/// Returns whether a line begins like an error message of the tool that prints it.
pub(crate) fn is_error_line(line: &str) -> bool {
    let trimmed = line.trim_start();
    if trimmed.len() < 3 || trimmed.len() + 8 < line.len() {
        return false;
    }
    if trimmed.starts_with(['✕', '✘', '✗', '■', '❌', '×', '⨯', '✖']) {
        return true;
    }
    let bare = fold(undecorated(&line.chars().take(160).collect::<String>()));
    const STARTS: &[&str] = &[
        "error",
        "err:",
        "err!",
        "fatal",
        "fata[",
        "failed to",
        "failure",
        "exception",
        "panic:",
        "api error",
        "http/1",
        "http/2",
        "http error",
        "http 4",
        "http 5",
        "response 4",
        "response 5",
        "curl: (",
        "npm err",
        "npm error",
        "e: ",
        "critical",
        "unable to",
        "could not",
        "cannot connect",
        "can't connect",
        "can't reach",
        "request failed",
        "uncaught",
        "unhandled",
        "llm provider error",
        "aborted",
        "access denied",
        "authentication failed",
        "connection failed",
        "connection refused",
        "connection error",
        "unexpected status",
        "unexpected error",
        "stream error",
        "server error",
        "request error",
        "network error",
        "provider error",
        "model call failed",
        "execution failed",
        "something went wrong",
        "call failed",
        "remote: ",
        "mysqldump: error",
        "rpc error",
        "@error",
        "ssh: ",
        "fehler:",
        "fehler ",
        "erreur",
        "erro:",
        "エラー",
        "错误",
        "오류",
    ];
    if bare.starts_with("errors: 0") || bare.starts_with("error: 0") || bare.starts_with("error count") {
        return false;
    }
    let begins = |start: &&str| {
        // `error_count = 3` is a name, `error: …` and `errors were found` are sentences.
        bare.strip_prefix(*start).is_some_and(|rest| !start.ends_with(char::is_alphanumeric) || !rest.starts_with('_'))
    };
    STARTS.iter().any(begins)
        || level(trimmed) == Some(Level::Error)
        || named_exception(&bare)
        || bare.split_once(": ").is_some_and(|(tool, rest)| {
            // `git: error: …`, `terraform: Error: …`
            tool.len() <= 24 && !tool.contains(' ') && (rest.starts_with("error") || rest.starts_with("fatal"))
        })
}

/// Returns whether a line is an error that a tool ends with: not one of the other side (`remote: …`), of a log, or a
/// sum (`errors so far: 3`).
///
/// After exit code 0 nothing less makes standard error one.
pub(crate) fn is_final_error(line: &str) -> bool {
    const STARTS: &[&str] = &[
        "error:",
        "error (",
        "error [",
        "error code:",
        "err:",
        "fatal:",
        "fatal error:",
        "fata[",
        "panic:",
        "api error",
        "http error",
        "npm err",
        "curl: (",
        "uncaught",
        "unhandled",
        "exception in thread",
        "e: ",
        "codex error:",
    ];
    let trimmed = line.trim_start();
    let bare = fold(undecorated(&line.chars().take(160).collect::<String>()));
    let tool = || {
        bare.split_once(": ").is_some_and(|(tool, rest)| {
            tool.len() <= 24 && !tool.contains(' ') && (rest.starts_with("error:") || rest.starts_with("fatal:"))
        })
    };
    is_error_line(line)
        && (trimmed.starts_with(['✕', '✘', '✗', '■', '❌', '⨯', '✖'])
            || STARTS.iter().any(|start| bare.starts_with(start))
            || named_exception(&bare)
                && bare.split([':', ' ']).next().is_some_and(|w| bare[w.len()..].starts_with(": "))
            || tool())
        && !is_retry_note(line)
}

/// Returns `line` without the time, level and names that a log puts before a message.
pub(crate) fn without_log_prefix(line: &str) -> &str {
    let mut rest = line.trim_start();
    let mut level = false;
    for _ in 0..6 {
        let end = if rest.starts_with('[') { rest.find(']').map(|at| at + 1) } else { rest.find(' ') };
        let Some(end) = end.filter(|end| *end <= 40) else { break };
        let word = rest[..end].trim_matches(|c: char| matches!(c, '[' | ']' | ':' | '|' | '(' | ')' | '-'));
        let timed = word.starts_with(|c: char| c.is_ascii_digit())
            && word.len() >= 5
            && word.bytes().all(|b| {
                b.is_ascii_digit() || matches!(b, b'-' | b':' | b'.' | b',' | b'/' | b'T' | b'Z' | b' ' | b'+')
            });
        let levelled =
            matches!(word.to_ascii_uppercase().as_str(), "ERROR" | "ERR" | "FATAL" | "CRITICAL" | "WARN" | "WARNING");
        if !(timed || levelled && !level && !rest.starts_with(|c: char| c.is_ascii_lowercase()) || word.is_empty()) {
            break;
        }
        level |= levelled;
        rest = rest[end..].trim_start();
    }
    rest
}

/// Returns whether a folded line begins with the name of an exception (`openai.ratelimiterror: …`).
fn named_exception(bare: &str) -> bool {
    let word = bare.split([':', ' ', '(']).next().unwrap_or("");
    let last = word.rsplit('.').next().unwrap_or(word);
    bare.len() > word.len()
        && ["error", "exception", "exhausted", "fault", "timeout", "unavailable", "refused", "requests"]
            .iter()
            .any(|end| last.ends_with(end) && (last.len() > end.len() || *end == "error"))
}

/// The level of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Error,
    Warning,
    Lower,
}

/// Returns the level a log line names in its beginning.
pub(crate) fn level(line: &str) -> Option<Level> {
    let head: String = line.chars().take(80).collect();
    let mut words = head.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).take(14);
    let logged = head.starts_with(|c: char| c.is_ascii_digit() || c == '[' || c == '{')
        || head.contains("level=")
        || head.contains(": ")
        || words.clone().next().is_some_and(|w| w.bytes().all(|b| b.is_ascii_uppercase()));
    if !logged {
        return None;
    }
    words.find_map(|word| match word {
        "ERROR" | "FATAL" | "CRITICAL" | "ERRO" | "CRIT" | "EMERG" | "SEVERE" => Some(Level::Error),
        "WARN" | "WARNING" => Some(Level::Warning),
        "INFO" | "DEBUG" | "TRACE" | "NOTICE" | "VERBOSE" | "DEBU" => Some(Level::Lower),
        "error" | "fatal" | "critical"
            if head.contains(&format!("level={word}")) || head.contains(&format!("[{word}]")) =>
        {
            Some(Level::Error)
        }
        "info" | "debug" | "trace"
            if head.contains(&format!("level={word}"))
                || head.contains(&format!("[{word}]"))
                || head.contains(&format!("\"level\":\"{word}\"")) =>
        {
            Some(Level::Lower)
        }
        _ => None,
    })
}

/// Returns whether a line is a client's note that it will try again by itself.
pub(crate) fn is_retry_note(line: &str) -> bool {
    let folded = fold(line);
    ["retrying in", "retrying after", "will retry", "retrying...", "retrying (", "retrying request", "; retrying"]
        .iter()
        .any(|words| folded.contains(words))
}

#[cfg(test)]
mod tests {
    use super::super::Facts;
    use super::*;
    use test_case::test_case;

    #[test_case("gh: slow down (http 403)", Some(403))]
    #[test_case("curl: (22) the requested url returned error: 429", Some(429))]
    #[test_case("error code: 429 - {'error'", Some(429))]
    #[test_case("exceeded retry limit, last status: 429 too many requests, request id: 4290-529", Some(429))]
    #[test_case("api error: 529 overloaded.", Some(529))]
    #[test_case("error 503: service unavailable", Some(503))]
    #[test_case("server error '503 service unavailable' for url", Some(503))]
    #[test_case("request rejected (429) - insufficient balance", Some(429))]
    #[test_case("requests.exceptions.httperror: 429 client error: too many", Some(429))]
    #[test_case("unexpected status code https://x/sha256:7a54: 429 too many requests", Some(429))]
    #[test_case("error 429", Some(429))]
    #[test_case("error 500 lines changed", None)]
    #[test_case("key (quota_id)=(429) is not present", None)]
    #[test_case("src/main.rs:429:17", None)]
    #[test_case("no such job: job_429529", None)]
    #[test_case("failed after 503 ms", None)]
    #[test_case("connect to 10.0.0.1 port 443", None)]
    #[test_case("read 429 records", None)]
    #[test_case("line 429: syntax error", None)]
    #[test_case("429 |     let x = limit;", None)]
    #[test_case("error: pathspec '429' did not match", None)]
    #[test_case("get https://registry.example.com/x: too many requests - 429", Some(429))]
    #[test_case("error: get https://registry.example.com/x - 503", Some(503))]
    #[test_case("an error occurred (404) when calling the headobject operation: not found", Some(404))]
    #[test_case("fehler 429: zu viele anfragen", Some(429))]
    #[test_case("error: 429 요청이 너무 많습니다", Some(429))]
    #[test_case("エラー: 503", Some(503))]
    #[test_case("see https://example.com/issues - 429 people did", None)]
    fn a_number_is_a_status_only_where_something_says_so(folded: &str, status: Option<u16>) {
        assert_eq!(super::status(folded).map(|(status, _)| status), status);
    }

    #[test_case("An error occurred (ThrottlingException) when calling", "throttlingexception")]
    #[test_case("ERROR: (SubscriptionRequestsThrottled) Number", "subscriptionrequeststhrottled")]
    #[test_case("npm error code ECONNREFUSED", "econnrefused")]
    #[test_case("rpc error: code = Unavailable desc = x", "unavailable")]
    #[test_case("google.api_core.exceptions.ResourceExhausted: 429", "resourceexhausted")]
    #[test_case("ERROR: (gcloud.x) RESOURCE_EXHAUSTED: Quota", "resource_exhausted")]
    #[test_case("ERROR : a/b: error reading: too_many_requests/.", "too_many_requests")]
    #[test_case("    code: 'rate_limit_exceeded',", "rate_limit_exceeded")]
    #[test_case("openai.RateLimitError: Error code: 429", "ratelimiterror")]
    fn codes_are_found_in_sentences(line: &str, code: &str) {
        let mut facts = Facts::default();
        codes(&mut facts, line, "stderr");
        assert!(facts.codes.iter().any(|c| c.value == code), "{:?}", facts.codes);
    }

    #[test_case("✕ [API Error: x]", true)]
    #[test_case("Error: Codex error: {", true)]
    #[test_case("litellm.APIError: APIError: x", true)]
    #[test_case("2017/10/31 09:40:42 ERROR : x", true)]
    #[test_case("fatal: unable to access", true)]
    #[test_case("terraform: error: no", true)]
    #[test_case("Detected 529 diacritics", false)]
    #[test_case("2017/08/10 DEBUG : pacer: Resetting", false)]
    #[test_case("The error was fixed.", false)]
    #[test_case("All 14 tests pass now.", false)]
    #[test_case("    error_count = 3", false; "deep in a text")]
    #[test_case("errors: 0", false; "a sum")]
    fn error_lines_begin_like_one(line: &str, is: bool) {
        assert_eq!(is_error_line(line), is);
    }

    #[test_case("[2026-01-12 08:15:29] [ERROR] API Error: 529", "API Error: 529")]
    #[test_case("2026-01-12T08:15:29.100Z ERROR API Error: 529", "API Error: 529")]
    #[test_case("08:15:29 [warn] - You've hit", "You've hit")]
    #[test_case("API Error: 529", "API Error: 529")]
    #[test_case("error: no", "error: no")]
    fn times_and_levels_before_a_message_are_left_out(line: &str, rest: &str) {
        assert_eq!(without_log_prefix(line), rest);
    }

    #[test_case("fatal: no", true)]
    #[test_case("ERROR: no", true)]
    #[test_case("remote: Enumerating objects: 429, done.", false)]
    #[test_case("Could not find a cache, starting without one", false)]
    #[test_case("errors so far: 3", false)]
    #[test_case("ERROR : Attempt 2/3 succeeded", false)]
    #[test_case("error rate 0.5 %", false)]
    #[test_case("openai.RateLimitError: Error code: 429", true)]
    #[test_case("git: error: no", true)]
    fn few_lines_end_a_success_as_a_failure(line: &str, is: bool) {
        assert_eq!(is_final_error(line), is);
    }
}
