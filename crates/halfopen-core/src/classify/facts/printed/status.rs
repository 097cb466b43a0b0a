//! Finds the HTTP status that a tool printed, and tells it from a number that only looks like one.
//!
//! A number of three digits is a status where a word before it says so (`HTTP 429`, `status code: 503`), where its own
//! reason phrase stands beside it, or where it ends an error about an address. Line numbers, ports, counts and ids are
//! not.

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
