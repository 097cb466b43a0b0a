//! Reads JSON as tools print it: cut off, wrapped by a terminal, as a Python or Node representation, inside a sentence.
//!
//! `serde_json` is tried first by the callers; this reader is for what it refuses. It never fails on a value it has
//! begun to read as long as the beginning looks like an object or a list: what is missing at the end is closed. What is
//! plainly something else (a block of code in braces) is refused at its first key.

use serde_json::{Map, Number, Value};

/// How deep values may be nested; deeper ones are read as null.
const DEPTH_MAX: usize = 24;

/// How many members one document may have in all.
const MEMBERS_MAX: usize = 4096;

/// Returns the value that begins at the start of `text`, and how many bytes it takes.
pub(crate) fn read(text: &str) -> Option<(Value, usize)> {
    let mut reader = Reader { text, at: 0, members: 0 };
    reader.space();
    let value = match reader.peek()? {
        '{' => reader.object(0)?,
        '[' => reader.list(0)?,
        _ => return None,
    };
    Some((value, reader.at))
}

/// Returns every object or list of objects that stands in `text`, outermost first, at most `max`.
pub(crate) fn embedded(text: &str, max: usize) -> Vec<Value> {
    let mut found = Vec::new();
    let mut at = 0;
    while found.len() < max {
        let Some(next) = memchr::memchr2(b'{', b'[', &text.as_bytes()[at..]) else { break };
        at += next;
        let list = text.as_bytes()[at] == b'[';
        match strict(&text[at..]).or_else(|| read(&text[at..])) {
            Some((value, len)) if !list || holds_object(&value) => {
                at += len.max(1);
                if holds_object(&value) {
                    found.push(value);
                }
            }
            _ => at += 1,
        }
    }
    found
}

/// Returns the value at the start of `text` if it is proper JSON, and its length.
fn strict(text: &str) -> Option<(Value, usize)> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = stream.next()?.ok()?;
    Some((value, stream.byte_offset()))
}

/// Returns whether there is an object with a member in it, at the top or in a list.
fn holds_object(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => list.iter().any(holds_object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    members: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let ch = self.peek()?;
        self.at += ch.len_utf8();
        Some(ch)
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        self.next();
        let mut map = Map::new();
        loop {
            self.space();
            match self.peek() {
                None => break,
                Some('}') => {
                    self.next();
                    break;
                }
                Some(',') => {
                    self.next();
                    continue;
                }
                Some(_) => {}
            }
            let Some(key) = self.key() else {
                // Nothing that could be a key: what was read so far stands if there is any.
                if map.is_empty() {
                    return None;
                }
                break;
            };
            self.space();
            if self.rest().starts_with("=>") {
                self.at += 2;
            } else {
                match self.peek() {
                    Some(':' | '=') => {
                        self.next();
                    }
                    None => break,
                    Some(_) if map.is_empty() => return None,
                    Some(_) => break,
                }
            }
            self.members += 1;
            if self.members > MEMBERS_MAX {
                break;
            }
            let value = self.value(depth + 1).unwrap_or(Value::Null);
            map.insert(key, value);
        }
        Some(Value::Object(map))
    }

    fn list(&mut self, depth: usize) -> Option<Value> {
        self.next();
        let mut list = Vec::new();
        loop {
            self.space();
            match self.peek() {
                None => break,
                Some(']') => {
                    self.next();
                    break;
                }
                Some(',') => {
                    self.next();
                }
                Some('}') => break,
                Some(_) => {
                    self.members += 1;
                    if self.members > MEMBERS_MAX {
                        break;
                    }
                    list.push(self.value(depth + 1)?);
                }
            }
        }
        Some(Value::Array(list))
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.space();
        if depth > DEPTH_MAX {
            return None;
        }
        match self.peek()? {
            '{' => self.object(depth).or_else(|| Some(Value::String(self.bare()))),
            '[' => self.list(depth),
            _ => self.quoted(Wrap::Space).map(Value::String).or_else(|| Some(word(&self.bare()))),
        }
    }

    fn key(&mut self) -> Option<String> {
        if let Some(key) = self.quoted(Wrap::Nothing) {
            return Some(key);
        }
        // Ruby's `{:code=>429}`.
        let rest = self.rest();
        let rest = rest.strip_prefix(':').unwrap_or(rest);
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '$' | '@')))
            .unwrap_or(rest.len());
        if end == 0 || end > 64 {
            return None;
        }
        self.at += end + (self.rest().len() - rest.len());
        Some(rest[..end].to_owned())
    }

    /// Reads a quoted string, also with Python's prefixes; `wrap` says what a line break in it stood for.
    fn quoted(&mut self, wrap: Wrap) -> Option<String> {
        let rest = self.rest();
        let skip = usize::from(rest.starts_with(['b', 'u', 'r']) && rest[1..].starts_with(['"', '\'']));
        let quote = rest[skip..].chars().next().filter(|c| matches!(c, '"' | '\'' | '`'))?;
        self.at += skip + 1;
        let mut text = String::new();
        while let Some(ch) = self.next() {
            match ch {
                _ if ch == quote => return Some(text),
                '\\' => self.escape(&mut text),
                '\n' | '\r' => {
                    self.space();
                    if matches!(wrap, Wrap::Space) && !text.ends_with(' ') {
                        text.push(' ');
                    }
                }
                _ => text.push(ch),
            }
        }
        Some(text)
    }

    fn escape(&mut self, text: &mut String) {
        match self.next() {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('u') => {
                let hex = self.rest().get(..4).and_then(|hex| u32::from_str_radix(hex, 16).ok());
                if let Some(code) = hex {
                    self.at += 4;
                    text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
            }
            Some(ch) => text.push(ch),
            None => {}
        }
    }

    fn bare(&mut self) -> String {
        let rest = self.rest();
        let end = rest.find([',', '}', ']', '\n']).unwrap_or(rest.len());
        self.at += end;
        rest[..end].trim().to_owned()
    }
}

/// What a line break inside a quoted string stood for.
#[derive(Clone, Copy)]
enum Wrap {
    /// A space of a sentence.
    Space,
    /// Nothing: names have no spaces.
    Nothing,
}

fn word(bare: &str) -> Value {
    match bare {
        "null" | "None" | "undefined" | "nil" | "" => Value::Null,
        "true" | "True" => Value::Bool(true),
        "false" | "False" => Value::Bool(false),
        _ => match serde_json::from_str::<Number>(bare) {
            Ok(number) => Value::Number(number),
            Err(_) => Value::String(bare.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use test_case::test_case;

    #[test_case("{'a': {'b': \"we're\", 'c': None}}", json!({"a": {"b": "we're", "c": null}}); "python")]
    #[test_case("{\"a\": \"one\n  two\", \"lo\n ng\": 3}", json!({"a": "one two", "long": 3}); "wrapped")]
    #[test_case("{\"a\": {\"b\": [1, 2", json!({"a": {"b": [1, 2]}}); "cut off")]
    #[test_case("{ type: 'x', code: 'y',\n  inner: [Object] }", json!({"type": "x", "code": "y", "inner": ["Object"]}); "node")]
    #[test_case("{'m': b'{\"k\":1}'}", json!({"m": "{\"k\":1}"}); "bytes")]
    #[test_case("{\"a\": \"it\\\"s\\n\\t\\u00e9\\u\", 'b': 'it\\'s'}", json!({"a": "it\"s\n\té", "b": "it's"}); "escapes")]
    #[test_case("{:a => 1, 'b' => 2}", json!({"a": 1, "b": 2}); "ruby")]
    fn what_tools_print_is_read(text: &str, value: Value) {
        assert_eq!(read(text).unwrap().0, value);
    }

    #[test_case("{ let x = 1; }")]
    #[test_case("{}")]
    #[test_case("[1, 2]")]
    #[test_case("[0m")]
    fn what_is_no_document_is_not_found(text: &str) {
        assert_eq!(embedded(text, 4), Vec::<Value>::new());
    }

    #[test]
    fn documents_are_found_inside_sentences() {
        let found = embedded("API Error: 529 {\"type\":\"error\"} after [{\"a\":1}] and {'b': 2}", 4);
        assert_eq!(found, [json!({"type": "error"}), json!([{"a": 1}]), json!({"b": 2})]);
    }

    #[test]
    fn deep_nesting_ends() {
        let _ = read(&"[".repeat(10_000));
        let _ = read(&"{a:".repeat(10_000));
    }
}
