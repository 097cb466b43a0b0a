//! Reads what a command printed: which lines are an error of the tool itself, and which statuses and codes stand there.
//!
//! A number is only a status where something says so (`HTTP 429`, `error: 429`, `429 Too Many Requests`): line numbers,
//! ports, ids and durations have three digits too. What is no error at all is left out before ([`super::quoted`]).

use super::Facts;
use crate::classify::text::{fold, undecorated};

/// Reason phrases by status, folded, as tools print them after the number.
const REASONS: &[(u16, &[&str])] = &[
    (400, &["bad request", "client error"]),
    (401, &["unauthorized", "unauthorised", "authorization required", "client error"]),
    (402, &["payment required", "client error", "you have", "insufficient"]),
    (403, &["forbidden", "client error", "rate limit", "access denied"]),
    (404, &["not found", "client error"]),
    (405, &["method not allowed", "client error"]),
    (408, &["request timeout", "request time-out", "client error"]),
    (409, &["conflict", "client error"]),
    (410, &["gone", "client error"]),
    (413, &["payload too large", "request entity too large", "content too large", "client error"]),
    (422, &["unprocessable", "client error"]),
    (
        429,
        &[
            "too many",
            "client error",
            "rate limit",
            "quota exceeded",
            "resource exhausted",
            "resource has been",
            "resource_exhausted",
            "rate limited",
            "ratelimit",
            "throttled",
            "zu viele",
            "trop de",
            "demasiad",
            "muitas",
            "troppe",
            "请求过",
            "リクエスト",
            "요청",
        ],
    ),
    (500, &["internal server error", "internal error", "server error"]),
    (501, &["not implemented"]),
    (502, &["bad gateway", "server error", "proxy error"]),
    (
        503,
        &[
            "service unavailable",
            "service temporarily",
            "server error",
            "slow down",
            "unavailable",
            "overloaded",
            "backend fetch failed",
            "the model is overloaded",
            "service overloaded",
        ],
    ),
    (504, &["gateway time", "server error", "deadline exceeded"]),
    (507, &["insufficient storage"]),
    (520, &["web server returned", "unknown error", "server error"]),
    (521, &["web server is down", "server error"]),
    (522, &["connection timed out", "server error"]),
    (523, &["origin is unreachable", "server error"]),
    (524, &["a timeout occurred", "server error"]),
    (525, &["ssl handshake failed", "server error"]),
    (526, &["invalid ssl certificate", "server error"]),
    (529, &["overloaded", "site is overloaded", "server error", "service overloaded"]),
    (530, &["server error", "origin dns"]),
    (598, &["network read timeout"]),
    (599, &["network connect timeout"]),
];

/// What before a number says that it is a status.
const STRONG: &[&str] = &[
    "http ",
    "http/1.1 ",
    "http/1.0 ",
    "http/2 ",
    "http/2.0 ",
    "http/3 ",
    "http status ",
    "http status: ",
    "http status code ",
    "http status code: ",
    "http code ",
    "http error ",
    "httperror ",
    "http error: ",
    "http response code: ",
    "http response code ",
    "status code ",
    "status code: ",
    "status code: http ",
    "statuscode: ",
    "statuscode=",
    "statuscode ",
    "status_code: ",
    "status_code=",
    "status_code ",
    "status=",
    "status: ",
    "status ",
    "http_status=",
    "http_status: ",
    "http_code=",
    "httpcode=",
    "returned error: ",
    "api error: ",
    "api error (",
    "error code: ",
    "error code ",
    "unexpected status ",
    "last status: ",
    "response status ",
    "response status: ",
    "response status is ",
    "response code ",
    "response code: ",
    "response ",
    "response... ",
    "server response ",
    "server returned ",
    "server returned http ",
    "responded with ",
    "responded with status ",
    "replied with ",
    "rejected (",
    "http:",
    "status code '",
    "status code (",
    "status (",
    "status_code':",
    "status_code': ",
    "status code=",
    "resp.status=",
    "got status ",
    "got http ",
    "received http ",
    "received status ",
    "returned status ",
    "returned http ",
    "returned a ",
    "returned an http ",
    "code = code(",
    "error: http ",
    "error http ",
    "error=http ",
    "httperror: ",
    "http error code: ",
    "err http ",
    "error response: ",
    "error response ",
    "googleapi: error ",
    "googleapi: got http ",
    "(http ",
    "(status ",
    "(status code ",
    "(code ",
    "[http ",
    "server error ",
    "client error ",
    "http client error ",
    "http server error ",
    "returned http status ",
    "exit with status http ",
    "http-code: ",
    "http-status: ",
    "h2 ",
    "error occurred (",
    "http-fehler ",
    "http エラー ",
    "httpエラー ",
    "http 错误 ",
    "http 오류 ",
    "erreur http ",
    "error http: ",
    "erro http ",
    "ステータスコード ",
    "ステータスコード: ",
    "ステータス ",
    "状态码 ",
    "状态码: ",
    "状态码:",
    "状态码",
    "상태 코드 ",
    "상태 코드: ",
    "código de estado ",
    "código de estado: ",
    "código de status ",
    "code d'état ",
    "code de statut ",
];

/// What before a number makes it a status if the number ends its clause.
const MEDIUM: &[&str] = &[
    "error ",
    "error: ",
    "error=",
    "error (",
    "error [",
    "errors: ",
    "code ",
    "code: ",
    "code=",
    "returned ",
    "answered ",
    "answered with ",
    "got ",
    "got a ",
    "got an ",
    "received ",
    "received a ",
    "failed: ",
    "failed with ",
    "failed with: ",
    "failed (",
    "failed with code ",
    "with a ",
    "with ",
    "request failed: ",
    "rejected: ",
    "fatal: ",
    "err: ",
    "e: ",
    "fehler ",
    "fehler: ",
    "erreur ",
    "erreur: ",
    "erreur : ",
    "erro ",
    "erro: ",
    "errore ",
    "エラー",
    "エラー ",
    "エラー: ",
    "错误 ",
    "错误: ",
    "错误:",
    "错误",
    "오류 ",
    "오류: ",
];

/// Returns the HTTP status that `folded` states, and where it stands.
pub(crate) fn status(folded: &str) -> Option<(u16, usize)> {
    let bytes = folded.as_bytes();
    let mut at = 0;
    let mut medium = None;
    while at + 3 <= bytes.len() {
        if !matches!(bytes[at], b'4' | b'5') || !number_stands_alone(bytes, at) {
            at += 1;
            continue;
        }
        let number: u16 = folded[at..at + 3].parse().unwrap_or(0);
        let before = &folded[..at];
        let after = &folded[at + 3..];
        if reason(number, after)
            || reason_before(number, before)
            || STRONG.iter().any(|words| ends_with_words(before, words)) && !goes_on(after)
        {
            return Some((number, at));
        }
        let named = || after_address(before) || MEDIUM.iter().any(|words| ends_with_words(before, words));
        if medium.is_none() && closes(number, after) && named() {
            medium = Some((number, at));
        }
        at += 3;
    }
    medium
}

/// Returns whether the three digits at `at` are a number of their own: no part of a longer one, an id, a time, a path.
fn number_stands_alone(bytes: &[u8], at: usize) -> bool {
    if !bytes[at..at + 3].iter().all(u8::is_ascii_digit) {
        return false;
    }
    let before = at.checked_sub(1).map(|i| bytes[i]);
    let (after, second) = (bytes.get(at + 3).copied(), bytes.get(at + 4).copied());
    let goes_back =
        before.is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'/' | b'#' | b'$'));
    let goes_on = after.is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'%' | b'/'));
    let fraction = matches!(after, Some(b'.' | b',' | b'-' | b':')) && second.is_some_and(|b| b.is_ascii_digit());
    !(goes_back || goes_on || fraction)
}

fn ends_with_words(before: &str, words: &str) -> bool {
    before.ends_with(words) && {
        let head = before[..before.len() - words.len()].chars().next_back();
        !words.starts_with(|c: char| c.is_ascii_alphanumeric()) || !head.is_some_and(|c| c.is_ascii_alphanumeric())
    }
}

/// Returns whether what follows counts something rather than naming a status (`status 500 lines`).
fn goes_on(after: &str) -> bool {
    let word = after.trim_start_matches([' ', '-']);
    ["lines", "bytes", "files", "items", "ms", "seconds", "requests", "tests", "times", "records", "rows", "tokens"]
        .iter()
        .any(|unit| word.starts_with(unit))
}

fn reason(number: u16, after: &str) -> bool {
    let Some(after) = after.strip_prefix([' ', ':', '-', ')', '(', ',', '.']) else { return false };
    let after = after.trim_start_matches([' ', '-', ':', '(', '"', '\'', ',']);
    REASONS.iter().any(|(status, words)| *status == number && words.iter().any(|word| after.starts_with(word)))
}

/// Returns whether the phrase of the status stands before it (`Too Many Requests - 429`, `Not Found (404)`).
fn reason_before(number: u16, before: &str) -> bool {
    let Some(phrase) = before.strip_suffix(" - ").or_else(|| before.strip_suffix(" (")) else { return false };
    let phrase = if number == 429 { phrase.strip_suffix(" requests").unwrap_or(phrase) } else { phrase };
    REASONS.iter().any(|(status, words)| *status == number && words.iter().any(|word| ends_with_words(phrase, word)))
}

/// Returns whether an address stands before the number (`GET https://registry.example/x - 429`).
fn after_address(before: &str) -> bool {
    let head = before.trim_end_matches([' ', '-', ':']);
    let word = head.rsplit([' ', '"', '(']).next().unwrap_or(head);
    head.len() < before.len() && (word.starts_with("https://") || word.starts_with("http://"))
}

/// Returns whether the clause ends with the number or goes on as after a status.
fn closes(number: u16, after: &str) -> bool {
    match after.chars().next() {
        None => true,
        Some(':' | ';' | ',' | ')' | ']' | '}' | '"' | '\'' | '.' | '{') => !goes_on(&after[1..]),
        Some(' ') => {
            reason(number, after)
                || [" {", " -", " (", " for ", " from ", " error", " on ", " when ", " while ", " response", " status"]
                    .iter()
                    .any(|next| after.starts_with(next))
                || after[1..].starts_with(|c: char| !c.is_ascii())
        }
        Some(_) => false,
    }
}

/// Adds the error codes that `text` states to `facts`.
pub(crate) fn codes(facts: &mut Facts, text: &str, place: &str) {
    for line in text.lines() {
        let bare = undecorated(line);
        parenthesised(facts, bare, place);
        named(facts, bare, place);
        exception_name(facts, bare, place);
        class_in_brackets(facts, bare, place);
        for word in bare.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
            if is_errno(word) || is_constant(word) {
                facts.add_code(word, place);
            }
        }
        if let Some(tag) = bare.split_whitespace().next_back().and_then(|word| word.strip_suffix("/.")) {
            facts.add_code(tag, place);
        }
    }
}

/// `An error occurred (ThrottlingException) when calling`, `ERROR: (SubscriptionRequestsThrottled) Number of`.
fn parenthesised(facts: &mut Facts, line: &str, place: &str) {
    for opener in ["error occurred (", "ERROR: (", "Error: (", "error: ("] {
        let Some(start) = line.find(opener) else { continue };
        let inner = &line[start + opener.len()..];
        if let Some(code) = inner.split(')').next().filter(|code| is_identifier(code)) {
            facts.add_code(code, place);
        }
    }
}

/// `ERROR CODE: X`, `npm error code X`, `code = Unavailable desc`, `Code: X`, `code: 'x'`, `(code: X)`.
fn named(facts: &mut Facts, line: &str, place: &str) {
    let lower = line.to_ascii_lowercase();
    let mut from = 0;
    while let Some(found) = lower[from..].find("code") {
        let at = from + found;
        from = at + 4;
        if lower[..at].ends_with(|c: char| c.is_ascii_alphanumeric()) && !lower[..at].ends_with("error") {
            continue;
        }
        let rest = &line[from..];
        let value = rest.trim_start_matches([' ', ':', '=', '"', '\'']);
        if value.len() == rest.len() || value.is_empty() {
            continue;
        }
        let end =
            value.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))).unwrap_or(value.len());
        if is_identifier(&value[..end]) {
            facts.add_code(&value[..end], place);
        }
    }
}

/// `google.api_core.exceptions.ResourceExhausted: 429 Quota`, `TerminalQuotaError: You have`.
fn exception_name(facts: &mut Facts, line: &str, place: &str) {
    for part in line.split(": ").take(3) {
        let word = part.rsplit([' ', '=', '"']).next().unwrap_or(part);
        let last = word.rsplit(['.', ':', '/', '\\', '$']).next().unwrap_or(word);
        let camel = last.starts_with(|c: char| c.is_ascii_uppercase()) && last.chars().any(|c| c.is_ascii_lowercase());
        if camel && last.len() > 5 && last.len() < 60 && is_identifier(last) {
            facts.add_code(last, place);
        }
    }
}

/// `app.rb:12:in 'call': the server responded with status 429 (Faraday::TooManyRequestsError)`.
fn class_in_brackets(facts: &mut Facts, line: &str, place: &str) {
    let Some((head, name)) = line.trim_end().strip_suffix(')').and_then(|head| head.rsplit_once(" (")) else { return };
    let last = name.rsplit([':', '\\', '.']).next().unwrap_or(name);
    let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b':' | b'\\' | b'.' | b'_'));
    if is_name && (name.contains("::") || head.contains(":in ")) && last.starts_with(|c: char| c.is_ascii_uppercase()) {
        facts.add_code(last, place);
    }
}

fn is_identifier(word: &str) -> bool {
    (3..=80).contains(&word.len())
        && word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

/// `ECONNREFUSED`, `EAI_AGAIN`.
fn is_errno(word: &str) -> bool {
    word.len() >= 4 && word.starts_with('E') && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
}

/// `RESOURCE_EXHAUSTED`, `UNAVAILABLE`.
fn is_constant(word: &str) -> bool {
    word.len() >= 8
        && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        && word.bytes().filter(u8::is_ascii_uppercase).count() >= 8
}

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
