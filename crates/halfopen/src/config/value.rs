//! Reads one value: of the kind its key allows, in its range, or refused with the range and what to write instead.

use std::ops::Range;
use std::time::Duration;

use halfopen_core::alert::DRILL;
use halfopen_core::policy::ProbeWith;

use super::finding::Level;
use super::keys::{self, Key, Kind, Unit};
use super::raw::Written;
use super::reader::Reader;
use super::tree::{Node, Value};
use super::{rules, suggest};

/// The longest text of a value, in characters.
const TEXT_CHARS_MAX: usize = 2_000;

impl Reader<'_> {
    /// Reads the value of a key.
    pub(super) fn value(&mut self, key: &Key, node: &Node, key_span: &Range<usize>) -> Option<Written> {
        if node.value == Value::Null {
            let help = Some(format!("allowed is {}; leave the key out for the default", key.allowed()));
            self.remark(Level::Error, key_span, format!("`{}` has no value", key.path), help);
            return None;
        }
        match key.kind {
            Kind::Group => None,
            Kind::Bool => match truth(&node.value) {
                Some(value) => Some(Written::Bool(value)),
                None => self.out_of_range(key, node),
            },
            Kind::Count { min, max } => match node.value {
                Value::Int(n) if n >= i128::from(min) && n <= i128::from(max) => {
                    u64::try_from(n).ok().map(Written::Count)
                }
                _ => self.out_of_range(key, node),
            },
            Kind::Number { min, max } => match number(&node.value) {
                // A NaN is in no range.
                Some(n) if n >= min && n <= max => Some(Written::Number(n)),
                _ => self.out_of_range(key, node),
            },
            Kind::Time { unit, min, max } => match number(&node.value) {
                Some(n) if n >= min && n <= max => {
                    Duration::try_from_secs_f64(n * unit.seconds()).ok().map(Written::Time)
                }
                _ => self.out_of_range(key, node),
            },
            Kind::Span { min, max } => match &node.value {
                Value::Text(text) => match span_seconds(text) {
                    Some(n) if n >= min && n <= max => Duration::try_from_secs_f64(n).ok().map(Written::Time),
                    _ => self.out_of_range(key, node),
                },
                _ => self.out_of_range(key, node),
            },
            Kind::Bytes { min, max } => match byte_count(&node.value) {
                Some(n) if n >= min && n <= max => Some(Written::Count(n)),
                _ => self.out_of_range(key, node),
            },
            Kind::Word(words) => self.word(key, node, words).map(Written::Text),
            Kind::WordOrBool(words) => match &node.value {
                value if truth(value) == Some(true) => words.first().map(|word| Written::Text((*word).to_owned())),
                value if truth(value) == Some(false) => words.last().map(|word| Written::Text((*word).to_owned())),
                _ => self.word(key, node, words).map(Written::Text),
            },
            Kind::Words(words) => self.list(key, node, |reader, item| reader.word(key, item, words)),
            Kind::Parts => {
                self.list(key, node, |reader, item| reader.part(key, item, &["region", "credential", "model"]))
            }
            Kind::Order => self.part(key, node, &["path", "none"]).map(Written::Text),
            Kind::Text => self.line(node, key.path).map(Written::Text),
            Kind::Name => {
                let name = self.line(node, key.path)?;
                if name.contains(DRILL) {
                    let message =
                        format!("`{}` is `{}`; names with `{DRILL}` in them are those of rehearsals", key.path, name);
                    let help = Some("write a name without it".to_owned());
                    self.remark(Level::Error, &node.span, message, help);
                    return None;
                }
                match halfopen_core::circuit_id::CircuitId::whole(&name) {
                    Ok(_) => Some(Written::Text(name)),
                    Err(_) => self.out_of_range(key, node),
                }
            }
            Kind::Header => {
                let name = self.line(node, key.path)?;
                if is_header(&name) { Some(Written::Text(name)) } else { self.out_of_range(key, node) }
            }
            Kind::Url => {
                let url = self.line(node, key.path)?;
                if is_url(&url) && !url.contains(['?', '#']) {
                    Some(Written::Text(url))
                } else {
                    self.out_of_range(key, node)
                }
            }
            Kind::Probe => self.probe(key, node),
            Kind::Credentials => self.credentials(node),
            Kind::Receivers => self.receivers(key, node),
            Kind::Rules => self.rules(node),
        }
    }

    /// Remarks that a value is not what its key allows, and says what to write if that can be seen.
    pub(super) fn out_of_range<T>(&mut self, key: &Key, node: &Node) -> Option<T> {
        let written = self.written(node, &node.value);
        let help = match instead(key, &node.value) {
            Some(value) => format!("write {value}"),
            None => example(key),
        };
        self.error(&node.span, format!("`{}` is {written}; allowed is {}", key.path, key.allowed()), help);
        None
    }

    fn word(&mut self, key: &Key, node: &Node, words: &[&str]) -> Option<String> {
        match &node.value {
            Value::Text(word) if words.contains(&word.as_str()) => Some(word.clone()),
            Value::Text(word) => {
                let near = suggest::nearest(word, words.iter().copied());
                let message =
                    format!("`{}` is `{}`; allowed is {}", key.path, self.source.excerpt(&node.span), key.allowed());
                self.error(&node.span, message, near.map_or_else(|| example(key), |near| format!("write {near}")));
                None
            }
            _ => self.out_of_range(key, node),
        }
    }

    fn list(
        &mut self,
        key: &Key,
        node: &Node,
        mut item: impl FnMut(&mut Self, &Node) -> Option<String>,
    ) -> Option<Written> {
        let items: Vec<&Node> = match &node.value {
            Value::List(items) if !items.is_empty() => items.iter().collect(),
            Value::Text(_) => vec![node],
            _ => return self.out_of_range(key, node),
        };
        let mut words: Vec<String> = Vec::new();
        for node in items {
            let word = item(self, node)?;
            if words.contains(&word) {
                self.error(&node.span, format!("`{}` names `{word}` twice", key.path), "take one of them out");
                return None;
            }
            words.push(word);
        }
        Some(Written::Words(words))
    }

    /// Reads one of `words`, or `header:NAME`, or `argument:NAME`.
    fn part(&mut self, key: &Key, node: &Node, words: &[&str]) -> Option<String> {
        let Value::Text(text) = &node.value else { return self.out_of_range(key, node) };
        let fits = words.contains(&text.as_str())
            || text.strip_prefix("header:").is_some_and(is_header)
            || text.strip_prefix("argument:").is_some_and(|name| {
                !name.is_empty() && !name.chars().any(|c| c.is_whitespace() || c.is_control() || c == '=' || c == '@')
            });
        if fits { Some(text.clone()) } else { self.out_of_range(key, node) }
    }

    /// Reads a text on one line. A number is taken as it is written: `name: 7` is a name.
    pub(super) fn line(&mut self, node: &Node, path: &str) -> Option<String> {
        let text = match &node.value {
            Value::Text(text) => text.clone(),
            Value::Bool(_) | Value::Int(_) | Value::Float(_) => self.source.excerpt(&node.span),
            other => {
                let help = keys::find(path).map_or_else(|| "write a text on one line".to_owned(), example);
                self.error(&node.span, format!("`{path}` is {}; allowed is text on one line", other.kind()), help);
                return None;
            }
        };
        let text = text.trim().to_owned();
        if text.is_empty() || text.chars().any(char::is_control) || text.chars().count() > TEXT_CHARS_MAX {
            let is = match text.chars().count() {
                0 => "empty".to_owned(),
                n if n > TEXT_CHARS_MAX => format!("{n} characters long"),
                _ => "written over several lines".to_owned(),
            };
            let message =
                format!("`{path}` is {is}; allowed is text on one line of at most {TEXT_CHARS_MAX} characters");
            let help = keys::find(path).map_or_else(|| "write a text on one line".to_owned(), example);
            self.error(&node.span, message, help);
            return None;
        }
        Some(text)
    }

    fn probe(&mut self, key: &Key, node: &Node) -> Option<Written> {
        match &node.value {
            Value::Text(text) if is_url(text) => Some(Written::Probe(ProbeWith::Url(text.clone()))),
            // A text is split at white space, as far as that is unambiguous: there is no shell behind it.
            Value::Text(text)
                if !text.trim().is_empty() && !text.contains(['"', '\'', '\\', '|', ';', '&', '$', '`']) =>
            {
                let words = text.split_whitespace().map(str::to_owned).collect();
                Some(Written::Probe(ProbeWith::Command(words)))
            }
            Value::Text(_) => {
                let message = format!("`{}` is `{}`, which needs a shell", key.path, self.source.excerpt(&node.span));
                let help = "write the command as a list, such as [sh, -c, 'curl -fsS … | grep -q ok']";
                self.remark(Level::Error, &node.span, message, Some(help.to_owned()));
                None
            }
            Value::List(items) if !items.is_empty() => {
                let words = items.iter().map(|item| self.line(item, key.path)).collect::<Option<Vec<_>>>()?;
                Some(Written::Probe(ProbeWith::Command(words)))
            }
            _ => self.out_of_range(key, node),
        }
    }

    fn rules(&mut self, node: &Node) -> Option<Written> {
        let Value::List(items) = &node.value else {
            return keys::find("classify").and_then(|key| self.out_of_range(key, node));
        };
        let mut read = Vec::new();
        for (index, item) in items.iter().enumerate() {
            match rules::rule(item) {
                Ok(rule) => read.push((rule, item.clone())),
                Err(error) => {
                    let span = error.span.unwrap_or_else(|| item.span.clone());
                    self.enter(format!("[{index}]"));
                    let help = "docs/classes.md shows rules; halfopen classify tries one";
                    self.error(&span, format!("rule cannot be read: {}", error.message), help);
                    self.leave();
                }
            }
        }
        Some(Written::Rules(read))
    }
}

/// Returns a line that would be taken, for whoever wrote another.
fn example(key: &Key) -> String {
    format!("write for example `{}: {}`", key.word(), key.example)
}

/// Reads a truth value, in the words of YAML 1.1 too: other tools take them.
fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(value) => Some(*value),
        Value::Text(word) => match word.as_str() {
            "yes" | "on" => Some(true),
            "no" | "off" => Some(false),
            _ => None,
        },
        Value::Null | Value::Int(_) | Value::Float(_) | Value::List(_) | Value::Map(_) => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number that long is outside every range anyway")]
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(n) => Some(*n as f64),
        Value::Float(n) => Some(*n),
        _ => None,
    }
}

/// Returns the value that was probably meant, if it can be seen from what is written.
fn instead(key: &Key, value: &Value) -> Option<String> {
    match (key.kind, value) {
        (Kind::Time { unit, min, max }, Value::Text(text)) => {
            let bare = text.trim().parse::<f64>().ok();
            let n = bare.or_else(|| Some(span_seconds(text)? / unit.seconds()))?;
            // Seconds to milliseconds and back leaves a trace in the last digits.
            let n = (n * 1e6).round() / 1e6;
            let why = if bare.is_some() { "without quotes" } else { unit.plural() };
            (n >= min && n <= max).then(|| format!("{n} ({why})"))
        }
        (Kind::Count { min, max }, Value::Text(text)) => {
            let n: u64 = text.trim().parse().ok()?;
            (n >= min && n <= max).then(|| format!("{n} without quotes"))
        }
        (Kind::Number { min, max }, Value::Text(text)) => {
            if let Some(percent) = text.trim().strip_suffix('%') {
                let n = percent.trim().parse::<f64>().ok()? / 100.0;
                return (n >= min && n <= max).then(|| n.to_string());
            }
            let n: f64 = text.trim().parse().ok()?;
            (n >= min && n <= max).then(|| format!("{n} without quotes"))
        }
        (Kind::Span { .. }, Value::Int(_) | Value::Float(_)) => {
            Some("the unit behind it, such as 90s, 30m, 26h or 2d".to_owned())
        }
        (Kind::Time { unit: Unit::Millis, .. }, Value::Float(_) | Value::Int(_)) => None,
        _ => None,
    }
}

/// Reads `90s`, `1.5h`, `250ms`, `2d` as seconds.
fn span_seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit {
        "ms" => 0.001,
        "s" | "sec" | "secs" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    };
    let n: f64 = number.trim().parse().ok()?;
    (n.is_finite() && n >= 0.0).then_some(n * seconds)
}

/// Reads a number of bytes, plain or with a binary unit.
fn byte_count(value: &Value) -> Option<u64> {
    match value {
        Value::Int(n) => u64::try_from(*n).ok(),
        Value::Text(text) => {
            let (number, unit) = text.trim().split_at(text.trim().find(|c: char| c.is_ascii_alphabetic())?);
            let size: u64 = match unit {
                "B" => 1,
                "KiB" => 1 << 10,
                "MiB" => 1 << 20,
                "GiB" => 1 << 30,
                "TiB" => 1 << 40,
                _ => return None,
            };
            number.trim().parse::<u64>().ok()?.checked_mul(size)
        }
        _ => None,
    }
}

pub(super) fn is_header(name: &str) -> bool {
    // A token of RFC 9110 section 5.6.2.
    !name.is_empty()
        && name.len() <= 100
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// Returns whether `text` is an http or https address without a user name in it.
pub(super) fn is_url(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    !authority.is_empty()
        && !authority.starts_with(':')
        && !authority.contains('@')
        && !text.chars().any(|c| c.is_whitespace() || c.is_control())
}
