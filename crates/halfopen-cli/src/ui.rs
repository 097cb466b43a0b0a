//! Writes to people: warnings, hints, refusals. Data goes to standard output, everything here to standard error.
//!
//! Every line of ours begins with `halfopen: `, so that it can be told from the wrapped command's own, and a next step
//! stands on a `hint:` line of its own. Nothing here depends on colour. A message is written with one `write`, because
//! forty processes may share one log.
//!
//! Where the process has a log of its own ([`crate::log`]), what is said here becomes lines of it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use halfopen::config::{Finding, Level as FindingLevel};
use serde_json::json;

use crate::log::{self, Format, Level};

/// Writes one line of ours to standard error.
///
/// A standard error that cannot be written is no reason to fail: the exit code and `--report` say the same.
pub fn say(text: &str) {
    tell(Level::Info, text, "");
}

/// Writes one line of ours and, after an empty line, what can be done next.
pub fn say_with_hint(text: &str, hint: &str) {
    if log::has_begun() {
        let (level, text) = match text.strip_prefix("error: ") {
            Some(text) => (Level::Error, text),
            None => (Level::Info, text),
        };
        return log::line(level, text, &[("hint", json!(hint))]);
    }
    let mut block = prefixed(text);
    let _ = write!(block, "\nhint: {hint}\n");
    write_stderr(&block);
}

/// Writes a warning.
pub fn warn(text: &str) {
    tell(Level::Warn, text, "warning: ");
}

/// Writes an error.
pub fn error(text: &str) {
    tell(Level::Error, text, "error: ");
}

/// Writes what there is to say about a policy file: as a person reads it, or where there is a log as one line of it, with
/// the place as fields.
pub fn finding(file: &Path, finding: &Finding) {
    if !log::has_begun() {
        return raw(&format!("{}\n", finding.rendered.trim_end()));
    }
    let level = match finding.level {
        FindingLevel::Error => Level::Error,
        FindingLevel::Warning => Level::Warn,
        FindingLevel::Note => Level::Info,
    };
    let key = Some(&finding.key).filter(|key| !key.is_empty());
    let fields = [
        ("file", json!(file.display().to_string())),
        ("line", json!(finding.line)),
        ("column", json!(finding.column)),
        ("key", json!(key)),
        ("hint", json!(finding.help)),
    ];
    // The value it names may hold a password, and a log is kept.
    log::line(level, &halfopen_core::redact::redact(&finding.message), &fields);
}

/// Writes text to standard error as it is; in a log of objects it is the message of one.
pub fn raw(text: &str) {
    if log::format() == Some(Format::Json) {
        return log::line(Level::Warn, text.trim_end(), &[]);
    }
    write_stderr(text);
}

/// Writes data: one line, or several, to standard output. A reader that went away is no error of ours.
pub fn data(text: &str) {
    let mut out = anstream::stdout().lock();
    let _ = writeln!(out, "{text}");
}

fn tell(level: Level, text: &str, word: &str) {
    if log::has_begun() {
        return log::line(level, text, &[]);
    }
    write_stderr(&prefixed(&format!("{word}{text}")));
}

fn prefixed(text: &str) -> String {
    let mut block = String::with_capacity(text.len() + 16);
    for line in text.lines() {
        let _ = writeln!(block, "halfopen: {line}");
    }
    block
}

fn write_stderr(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Returns `text` as a word of a POSIX shell, quoted only where it must be.
#[must_use]
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("ocr@region=eu", "ocr@region=eu")]
    #[test_case("", "''")]
    #[test_case("a b", "'a b'")]
    #[test_case("it's", r"'it'\''s'")]
    #[test_case("$(rm)", "'$(rm)'")]
    fn a_word_survives_the_shell(text: &str, word: &str) {
        assert_eq!(shell_word(text), word);
    }

    #[test]
    fn every_line_of_ours_can_be_told() {
        assert_eq!(prefixed("one\ntwo"), "halfopen: one\nhalfopen: two\n");
    }
}
