//! The log of a process that stays: a line for each thing that happened, as text or as JSON.
//!
//! `halfopen serve` begins it; everything that [`crate::ui`] says from then on becomes a line of it, with its time and
//! level, so there is one stream and one form. Commands that end have no log: they speak to who called them. The lines
//! are made of events and counts and of nothing else, so they hold what those hold: no secret, no body, no header.
//!
//! A loop that goes wrong must not fill a disk: more than [`BURST`] lines at once, or [`PER_SEC`] a second, are counted
//! and left out, and the next line says how many. Warnings have a measure of their own, so that chatter never hides them.
//!
//! What was refused: the `tracing` crates. They bring macros, a registry and a dozen crates for what is one function
//! here, and a span for each call, which would cost every call something although nobody looks.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use clap::ValueEnum;
use serde_json::{Map, Value};

/// How many lines of one measure may come at once.
const BURST: f64 = 1000.0;
/// How many a second over time.
const PER_SEC: f64 = 100.0;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Level {
    /// Something does not work.
    Error,
    /// Something will not work, or somebody should look.
    Warn,
    /// What an operator would write into a diary.
    Info,
    /// Each call and each attempt too, and every entry of the journal.
    Debug,
    /// With the evidence of each verdict, secrets replaced.
    Trace,
}

impl Level {
    /// Returns its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people: time, level, what happened, then `name=value`.
    Text,
    /// For programs: one JSON object a line.
    Json,
}

#[derive(Debug)]
struct Log {
    format: Format,
    level: Level,
    /// Of warnings and errors, and of the rest.
    measures: [Mutex<Measure>; 2],
}

static LOG: OnceLock<Log> = OnceLock::new();

/// Begins the log of this process. A second beginning changes nothing.
pub fn begin(format: Format, level: Level) {
    let measures = [Mutex::new(Measure::full()), Mutex::new(Measure::full())];
    let _ = LOG.set(Log { format, level, measures });
}

/// Returns whether this process has a log.
#[must_use]
pub fn has_begun() -> bool {
    LOG.get().is_some()
}

/// Returns whether lines of this level are written.
#[must_use]
pub fn is_on(level: Level) -> bool {
    LOG.get().is_some_and(|log| level <= log.level)
}

/// Returns the form of the lines; `None` if there is no log.
#[must_use]
pub fn format() -> Option<Format> {
    LOG.get().map(|log| log.format)
}

/// Writes a line, unless its level is not written or too many came.
pub fn line(level: Level, message: &str, fields: &[(&str, Value)]) {
    let Some(log) = LOG.get().filter(|log| level <= log.level) else { return };
    let measure = &log.measures[usize::from(level > Level::Warn)];
    let Some(left_out) = measure.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now()) else { return };
    let time = format!("{:.3}", jiff::Timestamp::now());
    let mut block = String::new();
    if left_out > 0 {
        let said = "lines were left out, too many came at once";
        block.push_str(&written(log.format, &time, Level::Warn, said, &[("lines", left_out.into())]));
    }
    block.push_str(&written(log.format, &time, level, message, fields));
    // Nobody can be told that standard error is gone.
    let _ = std::io::stderr().write_all(block.as_bytes());
}

fn written(format: Format, time: &str, level: Level, message: &str, fields: &[(&str, Value)]) -> String {
    match format {
        Format::Json => {
            let mut object = Map::new();
            object.insert("time".to_owned(), time.into());
            object.insert("level".to_owned(), level.as_str().into());
            object.insert("message".to_owned(), message.into());
            for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                object.insert((*name).to_owned(), value.clone());
            }
            Value::Object(object).to_string() + "\n"
        }
        Format::Text => {
            // One line is one line, whatever stands in it.
            let mut text = format!("{time} {} {}", level.as_str(), message.replace(['\n', '\r'], " "));
            for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                let _ = write!(text, " {name}={}", plain(value));
            }
            text + "\n"
        }
    }
}

/// A word stands as it is; everything else as JSON writes it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text)
            if !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && !"\"'\\=".contains(c)) =>
        {
            text.clone()
        }
        other => other.to_string(),
    }
}

/// Lines that may still be written.
#[derive(Debug)]
struct Measure {
    lines: f64,
    at: Option<Instant>,
    left_out: u64,
}

impl Measure {
    const fn full() -> Self {
        Self { lines: BURST, at: None, left_out: 0 }
    }

    /// Takes a line; returns how many were left out before it, or `None` if it is left out too.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let since = self.at.map_or(0.0, |at| now.saturating_duration_since(at).as_secs_f64());
        (self.lines, self.at) = ((self.lines + since * PER_SEC).min(BURST), Some(now));
        if self.lines < 1.0 {
            self.left_out += 1;
            return None;
        }
        self.lines -= 1.0;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn a_line_is_one_line_in_both_forms() {
        let fields =
            [("circuit", json!("ocr@region=eu")), ("why", json!("a\nb")), ("probe", Value::Null), ("n", json!(3))];
        let text = written(Format::Text, "T", Level::Warn, "two\nlines", &fields);
        assert_eq!(text, "T warn two lines circuit=\"ocr@region=eu\" why=\"a\\nb\" n=3\n");
        let json = written(Format::Json, "T", Level::Info, "tripped", &fields);
        assert_eq!(json.lines().count(), 1);
        let read: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&read["level"], &read["why"], read.get("probe")), (&json!("info"), &json!("a\nb"), None));
    }

    #[test]
    fn a_flood_is_cut_and_said() {
        let mut measure = Measure::full();
        let begin = Instant::now();
        let written = (0..5000).filter(|_| measure.take(begin).is_some()).count();
        assert_eq!(written, 1000);
        assert_eq!(measure.take(begin + Duration::from_millis(500)), Some(4000));
        assert_eq!(measure.take(begin + Duration::from_millis(500)), Some(0));
    }
}
