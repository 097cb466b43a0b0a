//! Listens to a running command with bounded memory.
//!
//! Kept of each stream: its first and its last [`KEPT_BYTES`]. Of JSON events, in packs whose tool prints them: the
//! first one (it names the session), and the last ones that say how the run is going, at most [`EVENTS_MAX`] and
//! [`EVENTS_BYTES_MAX`] together; a line longer than [`LINE_BYTES_MAX`] is read from its beginning, where a tool puts
//! the members that matter. So an ear of a command that writes for hours holds less than two megabytes. What is cut, is
//! cut at bytes; text is decoded at the end, so no character is torn except at a declared cut.

use std::time::Duration;

use serde_json::Value;

use super::facts::command::{Captured, Stream, is_error_event};
use super::facts::lenient;
use super::packs::Output;
use super::text::without_escapes;
use super::{Classifier, Heard};
use crate::outcome::{CommandOutcome, Exit};
use crate::time::ReadAt;
use crate::verdict::{Verdict, Work};

/// How much is kept of each end of a stream.
pub(crate) const KEPT_BYTES: usize = 32 << 10;

/// How much of one line is looked at as an event.
const LINE_BYTES_MAX: usize = 256 << 10;

/// How many events are kept.
const EVENTS_MAX: usize = 24;

/// How much the kept events may take together, as they were written.
const EVENTS_BYTES_MAX: usize = 768 << 10;

/// How much of a plain line is looked at as it comes.
const PLAIN_LINE_BYTES: usize = 512;

/// Listens to a running command with bounded memory and judges it at its end.
#[derive(Debug)]
pub struct Ear<'a> {
    classifier: &'a Classifier,
    stdout: Kept,
    stderr: Kept,
    lines: Lines,
    error_lines: Lines,
    events: Events,
    heard: Heard,
}

/// The two ends of a stream.
#[derive(Debug, Default)]
struct Kept {
    head: Vec<u8>,
    tail: Vec<u8>,
    /// Whether something between the two was left out.
    cut: bool,
    closed: bool,
}

impl Kept {
    fn push(&mut self, piece: &[u8]) {
        let room = if self.closed { 0 } else { KEPT_BYTES.saturating_sub(self.head.len()) };
        let (head, rest) = piece.split_at(room.min(piece.len()));
        self.head.extend_from_slice(head);
        for part in rest.chunks(KEPT_BYTES) {
            self.tail.extend_from_slice(part);
            // Moved only when it has doubled, so that each byte is moved once on average.
            if self.tail.len() > 2 * KEPT_BYTES {
                self.tail.drain(..self.tail.len() - KEPT_BYTES);
                self.cut = true;
            }
        }
    }

    /// Notes that bytes were left out here; the head ends.
    fn pass_over(&mut self, bytes: u64) {
        self.cut |= bytes > 0;
        self.closed |= bytes > 0;
    }

    fn stream(&self) -> Stream {
        if !self.cut {
            let mut whole = self.head.clone();
            whole.extend_from_slice(&self.tail);
            return Stream { head: text(&whole), tail: String::new(), cut: false };
        }
        // The tail begins somewhere in a line, and perhaps in a character.
        let start = memchr::memchr(b'\n', &self.tail).map_or(0, |at| at + 1);
        Stream { head: text(&self.head), tail: text(&self.tail[start..]), cut: true }
    }
}

fn text(bytes: &[u8]) -> String {
    without_escapes(&String::from_utf8_lossy(bytes))
}

/// Puts lines together from pieces.
#[derive(Debug, Default)]
struct Lines {
    line: Vec<u8>,
}

impl Lines {
    /// Calls `each` with every line that `piece` ends, at most `max` bytes of it.
    fn push(&mut self, piece: &[u8], max: usize, mut each: impl FnMut(&[u8])) {
        let mut rest = piece;
        while let Some(at) = memchr::memchr(b'\n', rest) {
            if self.line.is_empty() {
                each(&rest[..at.min(max)]);
            } else {
                self.keep(&rest[..at], max);
                each(&self.line);
                self.line.clear();
            }
            rest = &rest[at + 1..];
        }
        self.keep(rest, max);
    }

    fn keep(&mut self, piece: &[u8], max: usize) {
        let room = max.saturating_sub(self.line.len());
        self.line.extend_from_slice(&piece[..piece.len().min(room)]);
    }
}

/// The events that matter.
#[derive(Debug, Default)]
struct Events {
    /// Whether standard output is JSON; unknown until its first character that is no space.
    speaking: Option<bool>,
    kept: Vec<(Value, usize)>,
    bytes: usize,
    turns: bool,
}

impl Events {
    /// Takes in a line.
    fn line(&mut self, line: &[u8], heard: &mut Heard) {
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        let kind = kind_of(line);
        let works = [
            &b"\"tool_use\""[..],
            b"\"command_execution\"",
            b"\"file_change\"",
            b"\"mcp_tool_call\"",
            b"\"tool_call\"",
            b"\"functionCall\"",
        ];
        match kind {
            b"user" | b"tool_result" => {
                heard.work = true;
                return;
            }
            b"stream_event" | b"message" | b"text" | b"step_start" | b"content" | b"item.started" | b"item.updated"
            | b"item.completed" => {
                heard.answering = true;
                heard.work |= works.iter().any(|word| memchr::memmem::find(line, word).is_some());
                self.turns = true;
                if kind != b"item.completed" || memchr::memmem::find(line, b"\"error\"").is_none() {
                    return;
                }
            }
            b"assistant" => {
                let synthetic = memchr::memmem::find(line, b"<synthetic>").is_some();
                let error = memchr::memmem::find(line, b"\"error\":\"").is_some()
                    || memchr::memmem::find(line, b"isApiErrorMessage").is_some();
                if !synthetic {
                    heard.answering = true;
                    self.turns = true;
                    heard.work |= works.iter().any(|word| memchr::memmem::find(line, word).is_some());
                }
                if !error && !synthetic {
                    return;
                }
            }
            _ => {}
        }
        let Some(value) = parse(line) else { return };
        heard.error_line = is_error_event(&value);
        self.keep(value, line.len());
    }

    fn keep(&mut self, value: Value, bytes: usize) {
        self.kept.push((value, bytes));
        self.bytes += bytes;
        // The first is kept for the session it names, the last for how it ended.
        while (self.kept.len() > EVENTS_MAX || self.bytes > EVENTS_BYTES_MAX) && self.kept.len() > 2 {
            let (_, bytes) = self.kept.remove(1);
            self.bytes -= bytes;
        }
    }

    fn values(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.kept).into_iter().map(|(value, _)| value).collect()
    }
}

/// Returns the value of the first `type` member near the beginning of a line.
fn kind_of(line: &[u8]) -> &[u8] {
    let head = &line[..line.len().min(400)];
    let Some(at) = memchr::memmem::find(head, b"\"type\"") else { return b"" };
    let rest = head[at + 6..].trim_ascii_start();
    let Some(rest) = rest.strip_prefix(b":") else { return b"" };
    let Some(rest) = rest.trim_ascii_start().strip_prefix(b"\"") else { return b"" };
    &rest[..memchr::memchr(b'"', rest).unwrap_or(0)]
}

fn parse(line: &[u8]) -> Option<Value> {
    if !matches!(line.first(), Some(b'{' | b'[')) {
        return None;
    }
    serde_json::from_slice(line).ok().or_else(|| lenient::read(&String::from_utf8_lossy(line)).map(|(value, _)| value))
}

impl<'a> Ear<'a> {
    pub(crate) fn new(classifier: &'a Classifier) -> Self {
        Self {
            classifier,
            stdout: Kept::default(),
            stderr: Kept::default(),
            lines: Lines::default(),
            error_lines: Lines::default(),
            events: Events::default(),
            heard: Heard::default(),
        }
    }

    fn output(&self) -> &'a Output {
        &self.classifier.pack.output
    }

    /// Takes in a piece of standard output, cut anywhere.
    pub fn stdout(&mut self, piece: &[u8]) {
        self.stdout.push(piece);
        let output = self.output();
        if output.events && self.events.speaking.is_none() {
            let first = piece.iter().find(|byte| !byte.is_ascii_whitespace());
            self.events.speaking = first.map(|byte| matches!(byte, b'{' | b'['));
        }
        if output.events && self.events.speaking == Some(true) {
            let Self { lines, events, heard, .. } = self;
            lines.push(piece, LINE_BYTES_MAX, |line| events.line(line, heard));
        } else if output.events || !output.error_lines.is_empty() {
            let Self { lines, heard, .. } = self;
            lines.push(piece, PLAIN_LINE_BYTES, |line| plain_line(line, output, heard));
        } else {
            self.heard.answering |= piece.iter().any(|byte| !byte.is_ascii_whitespace());
        }
    }

    /// Takes in a piece of standard error, cut anywhere.
    pub fn stderr(&mut self, piece: &[u8]) {
        self.stderr.push(piece);
        let output = self.output();
        if output.error_lines.is_empty() {
            return;
        }
        let Self { error_lines, heard, .. } = self;
        error_lines.push(piece, PLAIN_LINE_BYTES, |line| {
            let line = String::from_utf8_lossy(line);
            heard.error_line |= output.is_own_error_line(&without_escapes(&line));
        });
    }

    /// Returns what has been heard so far.
    #[must_use]
    pub fn heard(&self) -> Heard {
        self.heard
    }

    /// Judges the command now that it ended.
    #[must_use]
    pub fn finish(mut self, exit: Exit, elapsed: Duration, at: &ReadAt) -> Verdict {
        let _ = elapsed;
        let success = exit == Exit::Code(0);
        if success && !self.classifier.looks_at_success() && self.nothing_said() {
            return self.classifier.plain_success();
        }
        let (captured, work) = self.captured();
        self.classifier.judge_command(exit, captured, work, at)
    }

    /// Returns whether a success leaves nothing to be looked at: something on standard output that cannot be an error
    /// message with its document, or nothing on either stream.
    fn nothing_said(&self) -> bool {
        let blank = |kept: &Kept| kept.head.iter().all(u8::is_ascii_whitespace) && kept.tail.is_empty();
        if blank(&self.stdout) {
            return blank(&self.stderr);
        }
        !self.stdout.tail.is_empty() || memchr::memchr(b'{', &self.stdout.head).is_none()
    }

    /// Returns what is kept.
    pub(crate) fn captured(&mut self) -> (Captured, Work) {
        let output = self.output();
        let eventful = self.events.speaking == Some(true);
        if eventful {
            let last = std::mem::take(&mut self.lines.line);
            self.events.line(&last, &mut self.heard);
        }
        let stdout = self.stdout.stream();
        let mut events = self.events.values();
        if eventful {
            events = flat(events);
            if !stdout.cut && !events.iter().any(|event| event.is_object() && event.get("type").is_some()) {
                // One document over several lines.
                if let Ok(value) = serde_json::from_str::<Value>(stdout.head.trim()) {
                    events = flat(vec![value]);
                }
            }
        }
        let work =
            if eventful && output.events { work_of(&events, self.heard, self.events.turns) } else { Work::Unknown };
        (Captured { stdout, stderr: self.stderr.stream(), events }, work)
    }
}

/// Returns events out of lists of events.
fn flat(events: Vec<Value>) -> Vec<Value> {
    events
        .into_iter()
        .flat_map(|event| match event {
            Value::Array(list) => list,
            other => vec![other],
        })
        .filter(Value::is_object)
        .collect()
}

/// Says whether the events show work.
fn work_of(events: &[Value], heard: Heard, turns: bool) -> Work {
    let result = events.iter().rev().find(|event| event["type"] == "result");
    let tokens = result.and_then(|r| r["usage"]["output_tokens"].as_u64());
    let turns_counted = result.and_then(|r| r["num_turns"].as_u64());
    let tool = events.iter().any(|event| event["type"] == "user");
    if heard.work || tool || turns || tokens.is_some_and(|n| n > 0) || turns_counted.is_some_and(|n| n > 1) {
        return Work::Shown;
    }
    match result {
        // A result that counts neither tokens nor turns does not say.
        Some(_) if tokens.is_none() && turns_counted.is_none() => Work::Unknown,
        _ => Work::None,
    }
}

fn plain_line(line: &[u8], output: &Output, heard: &mut Heard) {
    if line.trim_ascii().is_empty() {
        return;
    }
    let line = without_escapes(&String::from_utf8_lossy(line));
    if output.is_own_error_line(&line) {
        heard.error_line = true;
    } else {
        heard.answering = true;
    }
}

impl Classifier {
    /// Hears a finished command as if it were running.
    pub(crate) fn hear(&self, outcome: &CommandOutcome<'_>) -> (Captured, Work) {
        let mut ear = self.listen();
        ear.stdout(outcome.stdout.head);
        ear.stdout.pass_over(outcome.stdout.omitted_bytes);
        ear.stdout(outcome.stdout.tail);
        ear.stderr(outcome.stderr.head);
        ear.stderr.pass_over(outcome.stderr.omitted_bytes);
        ear.stderr(outcome.stderr.tail);
        ear.captured()
    }
}
