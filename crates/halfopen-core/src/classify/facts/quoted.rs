//! Says what of a command's output is quoted: source lines, stack frames, test reports, names and values.
//!
//! A failing command prints much that is not its error, and what it quotes may read like one: a test called
//! `too_many_requests`, a file `429.json`, a value that could not be read. None of it is shown to rules.

use super::printed::{Level, level};
use crate::classify::text::is_glyph;

/// The most lines of the end of a stream that are looked at.
const LINES_MAX: usize = 80;

/// Returns whether the output is the report of a test run or of a linter: what it quotes is what is under test.
pub(crate) fn is_test_report(text: &str) -> bool {
    text.lines().rev().take(LINES_MAX).any(|line| {
        let line = line.trim_matches(|c: char| c.is_whitespace() || c == '=' || is_glyph(c));
        let folded = line.to_ascii_lowercase();
        let counts = |what: &str| {
            folded.split(what).next().is_some_and(|head| {
                head.len() < folded.len() && head.trim_end().ends_with(|c: char| c.is_ascii_digit())
            })
        };
        folded.starts_with("test result:")
            || folded.starts_with("failed tests/")
            || line.starts_with("--- FAIL")
            || line.starts_with("FAIL\t")
            || line.starts_with("FAIL ") && folded.contains("test")
            || line.starts_with("Tests:") && folded.contains("failed")
            || (counts(" failed") || counts(" failing"))
                && (folded.contains(" passed")
                    || folded.contains(" passing")
                    || folded.contains(" in ")
                    || folded.len() < 16)
            || folded.starts_with("not ok ")
            || line.starts_with("Failure/Error: ")
            || line == "FAILURES!"
            || line.starts_with("Tests: ") && folded.contains("assertions: ")
            || line == "FAIL"
            || line.starts_with("FAILED ") && line.contains("::")
            || line.starts_with("Test Suites:") && folded.contains("failed")
            || line.starts_with("Test Files") && folded.contains("failed")
            || line.starts_with("Tests ") && counts(" failed")
            || line.contains("Tests run:") && folded.contains("failures:")
            || line.starts_with("Failed!  - Failed:")
            || folded.contains("tests failed out of")
            || (counts(" failures") || counts(" failure")) && (counts(" examples") || counts(" example"))
            || (counts(" failures") || counts(" failure"))
                && (counts(" assertions") || counts(" tests") || counts(" test"))
            || folded.contains("short test summary info")
            || line.starts_with("FAILED (failures=")
            || line.starts_with("FAILED (errors=")
    })
}

/// Returns whether a line is something the command quotes: source text, a stack frame, the result of a test.
fn is_quoted(line: &str, after_frame: bool) -> bool {
    let trimmed = line.trim();
    let frame = trimmed.starts_with("File \"")
        || trimmed.starts_with("at ") && (trimmed.ends_with(')') || ends_with_position(trimmed))
        || trimmed.starts_with("goroutine ")
        || trimmed.starts_with("--> ")
        || trimmed.starts_with("::: ");
    let gutter = trimmed.split_once('|').is_some_and(|(number, _)| {
        let number = number.trim();
        number.is_empty() && line.starts_with(' ') || !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    });
    let test = ["PASS ", "PASSED ", "FAILED ", "ok ", "not ok ", "--- ", "E   ", "test "].iter().any(|start| {
        trimmed.starts_with(start) && (trimmed.contains("::") || trimmed.contains("test") || *start == "E   ")
    });
    frame
        || gutter
        || test
        || compiler_message(trimmed)
        || build_target(trimmed)
        || programming_error(trimmed)
        || unreadable_value(trimmed)
        || after_frame && line.starts_with("    ")
}

/// `make: *** [Makefile:503: overloaded.o] Error 1`, `make[2]: *** No rule to make target 'x'.  Stop.`,
/// `ninja: error: '429.c', needed by …`: a build names its targets.
fn build_target(line: &str) -> bool {
    let tool = line.split([':', '[']).next().unwrap_or("");
    ["make", "gmake", "bmake"].contains(&tool) && line.contains(": *** ")
        || tool == "ninja" && line.starts_with("ninja: error: '")
}

/// Returns whether a line is an exception that speaks of the program rather than of what it called: its text quotes
/// names and values (`KeyError: 'rate_limit_exceeded'`).
fn programming_error(line: &str) -> bool {
    const NAMES: &[&str] = &[
        "KeyError",
        "AssertionError",
        "AttributeError",
        "NameError",
        "IndexError",
        "SyntaxError",
        "IndentationError",
        "ImportError",
        "ModuleNotFoundError",
        "NotImplementedError",
        "ZeroDivisionError",
        "RecursionError",
        "UnboundLocalError",
        "ReferenceError",
        "RangeError",
        "TypeError",
        "UnicodeDecodeError",
        "UnicodeEncodeError",
    ];
    // Node says `TypeError: fetch failed` when it was not connected.
    let name = line.strip_prefix("Uncaught ").unwrap_or(line).split([':', ' ']).next().unwrap_or("");
    NAMES.contains(&name) && !line.contains("fetch failed")
}

/// Returns whether a line says that a value or a name could not be understood, and quotes it
/// (`ValueError: invalid literal for int() with base 10: '429 Too Many'`, `undefined: TooManyRequests`).
fn unreadable_value(line: &str) -> bool {
    const QUOTING: &[&str] = &[
        "invalid literal for",
        "could not convert string",
        "input_value=",
        "call to undefined function",
        "for input string:",
        "does not match format",
        "invalid value for integer(",
        "invalid value for float(",
        ": invalid syntax",
        "invalid digit found in string",
        "undefined reference to",
        "undefined symbol",
        "cannot find symbol",
        "undefined local variable",
        "undefined method",
        "undefined variable",
        "has no attribute",
        "cannot import name",
        "no module named",
        "unresolved import",
        "cannot find module",
    ];
    // What command lines are refused with; they name options and values.
    const USAGE: &[&str] = &[
        "error: argument ",
        "unrecognized argument",
        "the following arguments are required",
        "the following required arguments",
        "unexpected argument",
        "invalid int value",
        "invalid float value",
        "invalid choice:",
        "unrecognized option",
        "unrecognised option",
        "invalid option",
        "illegal option",
        "no such option",
        "unknown option",
        "invalid value for '-",
        "invalid value for \"-",
        "' for '--",
        "flag provided but not defined",
        "requires an argument",
        "too many arguments",
        "too few arguments",
        "too many positional",
    ];
    let folded = line.to_ascii_lowercase();
    if folded.starts_with("assert") || folded.contains("assertion failed") || folded.contains(", want ") {
        return true;
    }
    QUOTING.iter().any(|words| folded.contains(words))
        || USAGE.iter().any(|words| folded.contains(words)) && !folded.contains("http")
}

fn ends_with_position(line: &str) -> bool {
    line.rsplit(':').next().is_some_and(|last| !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()))
}

/// `src/a.c:429:17: error: …`, `a.ts(429,5): error TS2322`, `error[E0425]: …`, `a.py:429: error: …`.
fn compiler_message(line: &str) -> bool {
    if line.starts_with("error[E") || line.starts_with("warning[") {
        return true;
    }
    if line.starts_with("psql:") {
        // Its place is a line of a script; the message is the server's.
        return false;
    }
    if positioned(line) {
        return true;
    }
    let Some(at) = line.find(": error").or_else(|| line.find(": warning")).or_else(|| line.find(": note")) else {
        return false;
    };
    let place = &line[..at];
    let position = place.rsplit([':', '(']).next().unwrap_or("");
    !place.contains(' ')
        && place.contains(['.', '/'])
        && !position.is_empty()
        && position.bytes().all(|b| b.is_ascii_digit() || matches!(b, b',' | b')'))
}

/// Returns whether a line is followed by lines of a source: a compiler's message, or a place that stands alone
/// (`/srv/app.js:29`).
fn shows_source(line: &str) -> bool {
    let place = line.rsplit_once(':').is_some_and(|(place, row)| {
        place.contains(['.', '/']) && !place.contains(' ') && !row.is_empty() && row.bytes().all(|b| b.is_ascii_digit())
    });
    let address = line.contains("://") && !line.starts_with("file://");
    compiler_message(line) || place && !address && line.contains('/')
}

/// `./limiter.go:429:5: undefined: TooManyRequests`, `  12:5  error  'x' is not defined  no-undef`.
fn positioned(line: &str) -> bool {
    let number = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or("");
    let mut parts = first.split(':');
    let (place, row, column) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let file = place
        .rsplit_once('.')
        .is_some_and(|(_, end)| (1..=5).contains(&end.len()) && end.starts_with(|c: char| c.is_ascii_alphabetic()));
    let listed = number(place) && number(row) && column.is_empty() && matches!(words.next(), Some("error" | "warning"));
    listed || file && number(row) && number(column) && first.ends_with(':')
}

/// Returns `line` without the names it quotes, if it says that something is not there or cannot be found: files,
/// columns and modules are called `too_many_requests` too.
pub(crate) fn without_missing_names(line: &str) -> String {
    const MISSING: &[&str] = &[
        "no such file",
        "not found",
        "does not exist",
        "doesn't exist",
        "did not match",
        "can't resolve",
        "cannot resolve",
        "not exported",
        "cannot find",
        "could not find",
        "can't find",
        "already exists",
        "cannot open",
        "permission denied",
    ];
    let missing = |text: &str| {
        let folded = text.to_ascii_lowercase();
        MISSING.iter().any(|words| folded.contains(words))
    };
    if line.contains(['{', '<']) || !missing(line) {
        return line.to_owned();
    }
    let mut left = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(['\'', '"', '`']) {
        let quote = rest[at..].chars().next().unwrap_or('"');
        let inner = &rest[at + 1..];
        // An apostrophe within a word opens nothing.
        let word = rest[..at].ends_with(char::is_alphanumeric);
        let Some(end) = inner.find(quote).filter(|_| !word) else {
            left.push_str(&rest[..=at]);
            rest = inner;
            continue;
        };
        left.push_str(&rest[..at]);
        left.push_str(if inner[..end].contains("://") { &rest[at..at + end + 2] } else { "''" });
        rest = &inner[end + 1..];
    }
    left.push_str(rest);
    // `'404 Not Found' for url`: what is quoted says it.
    if missing(&left) { left } else { line.to_owned() }
}

/// Returns the end of `text` without what the command quotes and without notes below an error.
pub(crate) fn own_lines(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let mut kept = Vec::new();
    let mut after_frame = false;
    let mut in_source = false;
    for line in &lines[lines.len().saturating_sub(LINES_MAX)..] {
        let trimmed = line.trim();
        in_source = in_source && (line.starts_with([' ', '\t']) || trimmed.is_empty()) || shows_source(trimmed);
        let quoted = is_quoted(line, after_frame) || in_source && !trimmed.is_empty();
        after_frame = trimmed.starts_with("File \"");
        if !quoted && level(line.trim_start()) != Some(Level::Lower) {
            kept.push(*line);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("2 failed, 427 passed in 5.29s", true)]
    #[test_case("test result: FAILED. 3 passed; 1 failed", true)]
    #[test_case("Tests:       1 failed, 4 passed, 5 total", true)]
    #[test_case("3 examples, 1 failure", true)]
    #[test_case("Test Suites: 1 failed, 1 total", true)]
    #[test_case("Tests: 3, Assertions: 5, Failures: 1.", true)]
    #[test_case("Tests run: 4, Failures: 1, Errors: 0", true)]
    #[test_case("     Failure/Error: expect(x)", true)]
    #[test_case("1 failed to start", false)]
    #[test_case("Error: 3 failed requests", false)]
    fn test_reports_are_known(line: &str, is: bool) {
        assert_eq!(is_test_report(line), is);
    }

    #[test_case("make: *** [Makefile:503: overloaded.o] Error 1", true)]
    #[test_case("make[2]: *** No rule to make target 'rate-limit.o', needed by 'all'.  Stop.", true)]
    #[test_case("ninja: error: '429.c', needed by 'app', missing and no known rule to make it", true)]
    #[test_case("makers: error: HTTP 429 Too Many Requests", false)]
    #[test_case("./limiter.go:429:5: undefined: TooManyRequests", true)]
    #[test_case("  12:5  error  'tooManyRequests' is not defined  no-undef", true)]
    #[test_case("ValueError: invalid literal for int() with base 10: '429 Too Many'", true)]
    #[test_case("main.c:(.text+0x1d): undefined reference to `rate_limited'", true)]
    #[test_case("sync.py: error: argument --qps: invalid int value: '529/sec'", true)]
    #[test_case("error: unexpected argument '--retry-on-rate-limit' found", true)]
    #[test_case("Error: HTTP 400: unknown option `limit`", false)]
    #[test_case("10:15:29: error: rate limit exceeded", false)]
    #[test_case("https://h:443: 429 Too Many Requests", false)]
    fn what_speaks_of_the_program_is_quoted(line: &str, is: bool) {
        assert_eq!(is_quoted(line, false), is);
    }

    #[test_case("file 'too many requests' not found", "file '' not found")]
    #[test_case("fatal: repository 'https://h/a.git' not found", "fatal: repository 'https://h/a.git' not found")]
    #[test_case("Can't resolve './tooManyRequests'", "Can't resolve ''")]
    #[test_case("Error: 'too many requests'", "Error: 'too many requests'")]
    #[test_case("Client error '404 Not Found' for url", "Client error '404 Not Found' for url")]
    #[test_case("{'message': 'model not found'}", "{'message': 'model not found'}")]
    fn names_of_what_is_missing_are_left_out(line: &str, left: &str) {
        assert_eq!(without_missing_names(line), left);
    }

    #[test]
    fn source_below_a_place_is_left_out() {
        let text =
            "/srv/n/a.js:29\n    throw new RateLimitError('429');\n    ^\n\nError: it broke\n    at /srv/n/a.js:29:7\n";
        assert_eq!(own_lines(text), ["", "Error: it broke"]);
    }

    #[test]
    fn quoted_lines_are_left_out() {
        let text = "Traceback (most recent call last):\n  File \"x.py\", line 429, in f\n    raise RateLimitError('429')\n\
                    a.c:429:17: error: no\n429 | x\n    at f (a.js:429:17)\nlast: it broke\n";
        assert_eq!(own_lines(text), ["Traceback (most recent call last):", "last: it broke"]);
    }
}
