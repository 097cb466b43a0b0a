//! Reads a finished command: did it fail, and which part of its output is its error.
//!
//! Exit code 0 is a success unless the output is nothing but an error message of a tool known to do that, or an event
//! says so. For the others the error is looked for where tools put it: in JSON events, in the last lines of standard
//! error, and on standard output only in lines that begin like an error.

use serde_json::Value;

use super::http::Reading;
use super::{Fact, Facts, cut_front, envelope, lenient, printed, quoted, tree};
use crate::classify::packs::Output;
use crate::classify::text::{Text, fold};
use crate::outcome::Exit;

/// The longest output that can be nothing but an error message, in bytes and in lines.
const MESSAGE_BYTES_MAX: usize = 6 << 10;
const MESSAGE_LINES_MAX: usize = 40;

/// How much of the end of a stream is read.
const TAIL_BYTES: usize = 24 << 10;

/// A line this long was probably wrapped where it ends.
const WRAP_COLUMNS: usize = 60;

/// A message wrapped over more lines than this is a text.
const WRAPPED_LINES_MAX: usize = 6;

/// What is kept of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    /// The beginning, without terminal escapes.
    pub(crate) head: String,
    /// The end, if something between is missing.
    pub(crate) tail: String,
    /// Whether something between is missing.
    pub(crate) cut: bool,
}

impl Stream {
    fn is_blank(&self) -> bool {
        self.head.trim().is_empty() && self.tail.trim().is_empty()
    }

    /// Returns the last part there is.
    fn end(&self) -> &str {
        cut_front(if self.cut { &self.tail } else { &self.head }, TAIL_BYTES)
    }

    fn whole(&self) -> Option<&str> {
        let text = self.head.trim();
        (!self.cut && text.len() <= MESSAGE_BYTES_MAX && text.lines().count() <= MESSAGE_LINES_MAX).then_some(text)
    }
}

/// What is kept of a command's output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Captured {
    pub(crate) stdout: Stream,
    pub(crate) stderr: Stream,
    /// The JSON events that matter, in order.
    pub(crate) events: Vec<Value>,
}

/// Reads a command.
pub(crate) fn read(output: &Output, exit: Exit, captured: Captured) -> Reading {
    let mut facts = Facts { exit: Some(exit), ..Facts::default() };
    facts.events.clone_from(&captured.events);
    facts.stdout = Some(Text::new("stdout", captured.stdout.end()));
    facts.stderr = Some(Text::new("stderr", captured.stderr.end()));
    let mut reading = Reading { failed: exit != Exit::Code(0), facts, ..Reading::default() };
    if reading.failed {
        failed(&mut reading, output, &captured);
    } else {
        succeeded(&mut reading, output, &captured);
    }
    reading
}

/// Looks for an error behind exit code 0.
fn succeeded(reading: &mut Reading, output: &Output, captured: &Captured) {
    if output.trust_success {
        return;
    }
    if output.events && !captured.events.is_empty() {
        // An object without a type is an answer that was asked for in JSON, not an event.
        let typed = |event: &&Value| event.get("type").is_some_and(Value::is_string);
        let errors: Vec<&Value> = captured.events.iter().filter(typed).filter(|event| is_error_event(event)).collect();
        let judged = captured.events.iter().rev().find(|event| event["type"] == "result");
        let failed = judged.map_or_else(|| !errors.is_empty() && !answered(&captured.events), is_error_event);
        if failed {
            reading.failed = true;
            reading.envelope = errors.last().map(|event| ("stdout, event".to_owned(), event.to_string()));
            add_events(&mut reading.facts, &captured.events);
        }
        return;
    }
    if output.http_body && http_body(reading, captured) {
        return;
    }
    if output.success_may_lie
        && let Some(text) = captured.stdout.whole().filter(|text| is_message(text, output))
    {
        claim(reading, text, "stdout");
        return;
    }
    if (output.events || !output.stdout_is_content)
        && let Some(text) = captured.stdout.whole().filter(|text| is_structured_error(text))
    {
        claim(reading, text, "stdout");
        return;
    }
    if captured.stdout.is_blank() && !captured.stderr.is_blank() {
        let lines = kept_lines(captured.stderr.end(), output);
        let (start, marked) = last_block(&lines, output);
        let block = lines[start..].join("\n");
        let end = lines.iter().rfind(|line| !line.trim().is_empty()).map_or("", String::as_str);
        let note = printed::is_retry_note(end) && !output.is_error_line(end);
        let ends = ends_with_error(&lines[start..], end, output);
        if !block.trim().is_empty() && !note && (ends || output.success_may_lie) {
            // Without a mark only a sentence that a rule knows makes it an error; the judge asks.
            let facts = &mut reading.facts;
            text_facts(facts, &block, "stderr, last lines");
            reading.failed = marked && ends;
            reading.envelope = Some(("stderr, last lines".to_owned(), block));
        }
    }
}

/// Returns whether standard error of a success ends with an error of the tool: in its last line, or in a document that
/// its last line closes.
fn ends_with_error(block: &[String], end: &str, output: &Output) -> bool {
    if output.is_own_error_line(end) || printed::is_final_error(end) {
        return true;
    }
    let first = block.first().map_or("", String::as_str);
    output.is_own_error_line(first) || printed::is_final_error(first) && end.trim_start().starts_with(['}', ']', ')'])
}

/// Takes the whole of a stream as an error message.
fn claim(reading: &mut Reading, text: &str, place: &str) {
    reading.failed = true;
    reading.envelope = Some((place.to_owned(), text.to_owned()));
    text_facts(&mut reading.facts, text, place);
}

/// Looks for the error of a command that said it failed.
fn failed(reading: &mut Reading, output: &Output, captured: &Captured) {
    if output.events && !captured.events.is_empty() {
        add_events(&mut reading.facts, &captured.events);
    } else if output.http_body {
        http_body(reading, captured);
    }
    let own = own_message(captured.stdout.end(), output);
    let stdout = own.as_ref().map(|(text, _)| text.clone());
    if let Some((text, last)) = &own {
        if last.len() < text.len() {
            // Of several errors the last counts.
            let mut facts = Facts::default();
            text_facts(&mut facts, last, "stdout, last lines");
            reading.last = Some(facts);
        }
        text_facts(&mut reading.facts, text, "stdout, last lines");
    }
    let lines = if output.stderr_is_content {
        own_message(captured.stderr.end(), output)
            .map(|(text, _)| text.lines().map(str::to_owned).collect())
            .unwrap_or_default()
    } else {
        kept_lines(captured.stderr.end(), output)
    };
    if quoted::is_test_report(captured.stdout.end()) || quoted::is_test_report(captured.stderr.end()) {
        return;
    }
    let all = lines.join("\n");
    if !all.trim().is_empty() {
        let (start, _) = last_block(&lines, output);
        if start > 0 && stdout.is_none() && !output.whole_stderr {
            // Without the exit code: it belongs to all of it.
            let mut last = Facts::default();
            text_facts(&mut last, &lines[start..].join("\n"), "stderr, last lines");
            reading.last = Some(last);
        }
        text_facts(&mut reading.facts, &all, "stderr");
    } else if !output.stdout_is_content && !output.http_body && stdout.is_none() {
        let lines = kept_lines(captured.stdout.end(), output);
        if let Some(value) = whole_json(captured.stdout.end()) {
            if envelope::failure(&value).is_some() {
                tree::add(&mut reading.facts, &value, "stdout");
                reading.facts.json.push(Fact { value, place: "stdout".to_owned() });
            }
        } else if let Some(start) = lines.iter().position(|line| output.is_error_line(line)) {
            text_facts(&mut reading.facts, &lines[start..].join("\n"), "stdout, last lines");
        }
    }
}

fn whole_json(text: &str) -> Option<Value> {
    let text = text.trim();
    text.starts_with(['{', '[']).then(|| serde_json::from_str(text).ok()).flatten()
}

/// Reads standard output as an HTTP answer or its body; returns whether that says that it failed.
fn http_body(reading: &mut Reading, captured: &Captured) -> bool {
    let text = captured.stdout.head.trim_start();
    let (status, headers, body) = split_http(text);
    if status.is_none() && !text.starts_with(['{', '[', '<', '"']) && !text.starts_with("error code: ") {
        return false;
    }
    let pairs: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, *value)).collect();
    let outcome = crate::outcome::HttpOutcome {
        method: "GET",
        status: status.unwrap_or(if reading.failed { 400 } else { 200 }),
        headers: &pairs,
        body: crate::outcome::Excerpt::whole(body.as_bytes()),
        reached: crate::outcome::Reached::Answered,
        elapsed: std::time::Duration::ZERO,
    };
    let whole = !captured.stdout.cut;
    let mut inner = super::http::read(&outcome, false);
    if inner.facts.codes.iter().any(|code| code.value == "truncated_body") && !whole {
        return false;
    }
    let page = (status.is_none() && !reading.failed && whole).then(|| error_page(body)).flatten();
    if let Some((status, title)) = page {
        inner.failed = true;
        inner.facts.status = None;
        inner.facts.add_status(status, "stdout, title");
        inner.facts.add_message(&title, "stdout, title");
        inner.envelope = Some(("stdout, title".to_owned(), title));
    }
    if !inner.failed {
        return false;
    }
    let exit = reading.facts.exit;
    let (stdout, stderr) = (reading.facts.stdout.take(), reading.facts.stderr.take());
    if status.is_none() && inner.facts.status.as_ref().is_some_and(|s| s.place == "status") {
        // The body alone: the status was ours, not the answer's. What the body itself names counts.
        let known = std::mem::take(&mut inner.facts.json);
        inner.facts.status = None;
        for fact in &known {
            let mut named = Facts::default();
            tree::add(&mut named, &fact.value, "stdout");
            inner.facts.status = inner.facts.status.or(named.status);
        }
        inner.facts.json = known;
    }
    for message in &mut inner.facts.messages {
        message.place = message.place.replacen("body", "stdout", 1);
    }
    reading.facts = Facts { exit, stdout, stderr, ..inner.facts };
    reading.failed = true;
    reading.envelope = inner.envelope.or_else(|| Some(("stdout".to_owned(), super::cut(text, 240).to_owned())));
    true
}

/// Returns the status and title of a page that a gateway shows instead of an answer.
fn error_page(body: &str) -> Option<(u16, String)> {
    if let Some(number) = body.trim().strip_prefix("error code: ") {
        // Cloudflare's plain text: `error code: 1015`, `error code: 502`.
        let status = match number.trim() {
            "1015" => 429,
            "1020" => 403,
            number => number.parse().ok().filter(|status| (400..=599).contains(status))?,
        };
        return Some((status, body.trim().to_owned()));
    }
    let (title, text) = super::markup::page(super::cut(body, 8 << 10), 2 << 10);
    let title = title?;
    let status: u16 = title.get(..3)?.parse().ok().filter(|status| (400..=599).contains(status))?;
    let folded = fold(&title);
    let known = printed::status(&folded).is_some_and(|(found, _)| found == status);
    (known && text.len() < 1500).then_some((status, title))
}

/// Splits what `curl -i` prints; the last answer counts where there are several (redirects, 100-continue).
fn split_http(text: &str) -> (Option<u16>, Vec<(&str, &str)>, &str) {
    let (mut status, mut headers, mut rest) = (None, Vec::new(), text);
    while rest.starts_with("HTTP/") {
        let (head, after) =
            match rest.find("\r\n\r\n").map(|at| (at, 4)).or_else(|| rest.find("\n\n").map(|at| (at, 2))) {
                Some((at, len)) => (&rest[..at], &rest[at + len..]),
                None => (rest, ""),
            };
        let mut lines = head.lines();
        status = lines.next().and_then(|line| line.split_whitespace().nth(1)).and_then(|word| word.parse().ok());
        headers = lines.filter_map(|line| line.split_once(':')).map(|(n, v)| (n.trim(), v.trim())).collect();
        rest = after;
    }
    (status, headers, rest)
}

/// Returns whether a JSON event says that the tool failed.
pub(crate) fn is_error_event(event: &Value) -> bool {
    let kind = event["type"].as_str().unwrap_or("");
    if matches!(kind, "user" | "tool_result" | "stream_event" | "item.completed" | "item.started" | "tool_use") {
        return false;
    }
    let limit = event.get("rate_limit_info").is_some_and(|info| info["status"] == "rejected");
    event["is_error"] == true
        || matches!(kind, "error" | "turn.failed" | "response.failed" | "session.error")
        || limit
        || event.get("error").is_some_and(|e| e.is_object() || e.is_string())
        || event["isApiErrorMessage"] == true
}

/// Returns whether the events end with an answer rather than with an error.
fn answered(events: &[Value]) -> bool {
    events
        .iter()
        .rev()
        .find(|event| {
            is_error_event(event)
                || matches!(event["type"].as_str(), Some("turn.completed" | "result" | "step_finish" | "agent_end"))
        })
        .is_some_and(|event| !is_error_event(event))
}

/// Returns whether an event says that the run ended well; the rest of one that was cut off says nothing.
fn went_well(event: &Value) -> bool {
    let said = event["is_error"].is_boolean() || event["status"].is_string() || event.get("result").is_some();
    event["type"] == "result" && said && !is_error_event(event)
}

/// Adds what the error events say. An error that a later turn overcame is left out.
fn add_events(facts: &mut Facts, events: &[Value]) {
    let from = events.iter().rposition(|event| event["type"] == "turn.completed" || went_well(event)).unwrap_or(0);
    for event in events[from..].iter().rev().filter(|event| is_error_event(event)).take(8) {
        tree::add(facts, event, "stdout, event");
        facts.json.push(Fact { value: event.clone(), place: "stdout, event".to_owned() });
    }
    let messages: Vec<String> = facts.messages.iter().map(|m| m.shown.clone()).collect();
    for message in messages {
        inner_facts(facts, &message, "stdout, event");
    }
}

/// Adds a text as a message, with the statuses, codes, headers and documents that stand in it.
pub(crate) fn text_facts(facts: &mut Facts, text: &str, place: &str) {
    let text = cut_front(text, TAIL_BYTES);
    facts.add_message(text, place);
    inner_facts(facts, text, place);
}

fn inner_facts(facts: &mut Facts, text: &str, place: &str) {
    let folded = fold(text);
    if let Some((status, _)) = printed::status(&folded) {
        facts.add_status(status, place);
    }
    printed::codes(facts, text, place);
    for value in lenient::embedded(text, 8) {
        tree::add(facts, &value, place);
        facts.json.push(Fact { value, place: place.to_owned() });
    }
    for line in text.lines() {
        if let Some((name, value)) = header_line(line) {
            facts.add_inner_header(name, value);
        }
    }
}

/// Returns the header that a line prints (`retry-after: 7`, `< X-RateLimit-Reset: 5`).
fn header_line(line: &str) -> Option<(&str, &str)> {
    let (name, value) =
        line.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '<' | '*' | '-' | '|')).split_once(':')?;
    let lower = name.to_ascii_lowercase();
    let known = !name.contains(' ')
        && (lower.contains("retry-after") || lower.contains("ratelimit") || lower.contains("rate-limit"));
    (known && !value.trim().is_empty()).then(|| (name, value.trim()))
}

/// Returns the lines of a stream that are the command's own.
fn kept_lines(text: &str, output: &Output) -> Vec<String> {
    quoted::own_lines(text)
        .into_iter()
        .filter(|line| !output.is_noise(line))
        .map(quoted::without_missing_names)
        .collect()
}

/// Returns where the last run of error lines begins, and whether it begins with one that is marked as such.
fn last_block(lines: &[String], output: &Output) -> (usize, bool) {
    // A line that is indented belongs to the one above it (`  error: {` in a printed object).
    let marked = |line: &String| output.is_error_line(line);
    let begins = |line: &String| marked(line) && !line.starts_with([' ', '\t']);
    let last = lines
        .iter()
        .rposition(begins)
        .filter(|&at| goes_on_to_end(&lines[at..], output))
        .or_else(|| lines.iter().rposition(marked));
    let Some(last) = last else {
        let line = lines.iter().rposition(|line| !line.trim().is_empty()).unwrap_or(0);
        return (line, false);
    };
    if !goes_on_to_end(&lines[last..], output) {
        // Something else was printed after the error: the last line decides by itself.
        let line = lines.iter().rposition(|line| !line.trim().is_empty()).unwrap_or(0);
        return (line, false);
    }
    let mut start = last;
    while start > 0 && output.is_error_line(&lines[start - 1]) {
        start -= 1;
    }
    (start, true)
}

/// Returns where the last lines begin if they are a message of the tool that was wrapped within its first words.
fn wrapped_message(lines: &[String], output: &Output) -> Option<usize> {
    let end = lines.iter().rposition(|line| !line.trim().is_empty())? + 1;
    let start = lines[..end].iter().rposition(|line| line.trim().is_empty()).map_or(0, |at| at + 1);
    let block = &lines[start..end];
    (is_wrapped(block) && output.is_own_error_line(&block.join(" "))).then_some(start)
}

/// Returns whether lines are one sentence that was wrapped: no line had room for the first word of the next, and none
/// says something of its own (`ok`).
fn is_wrapped(lines: &[String]) -> bool {
    let end = lines.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |at| at + 1);
    let lines = &lines[..end];
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let goes_on = |line: &str| {
        let line = line.trim_start();
        let starts = line.starts_with(|c: char| c.is_lowercase() || c.is_ascii_digit() || matches!(c, '(' | '·' | '∙'));
        let told = line.contains(|c: char| c.is_ascii_digit() || matches!(c, '(' | ')' | '·' | '∙'));
        starts && (told || line.split_whitespace().count() >= 3)
    };
    (2..=WRAPPED_LINES_MAX).contains(&lines.len())
        && lines.windows(2).all(|pair| {
            let first = pair[1].split_whitespace().next().map_or(0, |word| word.chars().count());
            pair[0].chars().count() + 1 + first > width && goes_on(&pair[1])
        })
}

/// Returns whether everything after an error line belongs to it.
fn goes_on_to_end(lines: &[String], output: &Output) -> bool {
    let own = || output.is_own_error_line(&lines[0]) || output.is_own_error_line(&lines.join(" "));
    if is_wrapped(lines) && own() && !lines[1..].iter().any(|line| output.is_error_line(line)) {
        return true;
    }
    let mut open = 0_i32;
    let mut previous = 0;
    lines.iter().enumerate().all(|(at, line)| {
        let goes_on = at == 0
            || line.trim().is_empty()
            || open > 0
            || line.starts_with([' ', '\t'])
            || output.is_error_line(line)
            || output.is_continuation(line)
            || previous >= WRAP_COLUMNS && line.starts_with(|c: char| !c.is_ascii_uppercase() || c.is_ascii_digit())
            || line.trim_start().starts_with(['}', ']', ')', '<']);
        open +=
            line.chars().map(|c| i32::from(matches!(c, '{' | '[')) - i32::from(matches!(c, '}' | ']'))).sum::<i32>();
        previous = line.chars().count();
        goes_on
    })
}

/// Returns whether `text` is nothing but a message of the tool, by the pack's own lines.
fn is_message(text: &str, output: &Output) -> bool {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.first().is_some_and(|line| output.is_own_error_line(line) || output.is_own_error_line(&lines.join(" ")))
        && goes_on_to_end(&lines, output)
}

/// Returns whether `text` is an error message with an error document in it, and nothing else.
fn is_structured_error(text: &str) -> bool {
    let Some(first) = text.lines().next() else { return false };
    if !printed::is_error_line(first) || printed::level(first).is_some() {
        return false;
    }
    let Some(at) = text.find('{') else { return false };
    // Prose that explains an error has its document in a paragraph or a sentence of its own.
    let before = text[..at].trim_end();
    at < 200
        && (before.len() < first.len() || before == first.trim_end() && before.ends_with(|c: char| c.is_ascii_digit()))
        && before.ends_with(|c: char| matches!(c, ':' | '-' | '(' | '=' | '|') || c.is_ascii_digit())
        && lenient::read(&text[at..]).is_some_and(|(value, len)| {
            let after = text[at + len..].trim();
            let rest = after.trim_start_matches(|c: char| !c.is_alphanumeric());
            envelope::failure(&value).is_some()
                && (rest.len() < 80 && (rest.is_empty() || printed::is_retry_note(rest) || rest.lines().count() == 1))
        })
}

/// Returns the messages of the tool itself that end a stream of content, and the last of them alone.
fn own_message(text: &str, output: &Output) -> Option<(String, String)> {
    if output.error_lines.is_empty() {
        return None;
    }
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let own =
        |line: &str| output.is_own_error_line(line) || output.is_own_error_line(printed::without_log_prefix(line));
    let last = lines.iter().rposition(|line| own(line) && !output.is_continuation(line));
    let last = last.or_else(|| lines.iter().rposition(|line| own(line)));
    let last = last.or_else(|| wrapped_message(&lines, output))?;
    if !goes_on_to_end(&lines[last..], output) {
        return None;
    }
    let mut start = last;
    while start > 0 && own(&lines[start - 1]) {
        start -= 1;
    }
    Some((lines[start..].join("\n"), lines[last..].join("\n")))
}
