//! Finds the model a call asks for: in its path, else in the member `model` of its JSON body.
//!
//! Only the beginning of a body is at hand, so it is walked, not parsed: members of the outermost object are skipped
//! one by one until `model` comes, or the bytes end. Nothing is allocated unless the name holds an escape.

use std::borrow::Cow;

/// The segments of a path behind which a model stands: Google, Bedrock, Azure.
const SEGMENTS: &[&str] = &["models", "model", "deployments"];

/// The longest name of a model that is believed, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// How deep values that are skipped may be nested.
const DEPTH_MAX: usize = 128;

/// Returns the model a call asks for.
pub(super) fn find<'a>(path: &'a str, body: &'a [u8]) -> Option<Cow<'a, str>> {
    in_path(path).map(Cow::Borrowed).or_else(|| in_body(body)).filter(|name| name.len() <= NAME_BYTES_MAX)
}

fn in_path(path: &str) -> Option<&str> {
    let path = path.split('?').next().unwrap_or(path);
    let mut segments = path.split('/');
    segments.find(|segment| SEGMENTS.contains(segment))?;
    // `gemini-2.5-pro:generateContent`, but `anthropic.claude-v2:0` or `…%3A0`: a verb begins with a letter.
    let segment = segments.next().filter(|segment| !segment.is_empty())?;
    let name = match segment.rsplit_once(':') {
        Some((name, verb)) if verb.starts_with(|c: char| c.is_ascii_alphabetic()) => name,
        _ => segment,
    };
    // A list of models asks for none, and neither does a question about one; both cost nothing.
    Some(name).filter(|name| !name.is_empty())
}

fn in_body(body: &[u8]) -> Option<Cow<'_, str>> {
    let mut at = Walk { bytes: body };
    at.white();
    at.take(b'{')?;
    loop {
        at.white();
        let key = at.string()?;
        at.white();
        at.take(b':')?;
        at.white();
        if key == b"model" {
            return unescaped(at.string()?);
        }
        at.skip()?;
        at.white();
        at.take(b',')?;
    }
}

/// A walk through JSON that may end anywhere.
struct Walk<'a> {
    bytes: &'a [u8],
}

impl<'a> Walk<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.first().copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        self.bytes = self.bytes.strip_prefix(&[byte])?;
        Some(())
    }

    fn white(&mut self) {
        self.bytes = self.bytes.trim_ascii_start();
    }

    /// Takes a string, and returns what stands between its quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let whole = self.bytes;
        let mut from = 0;
        loop {
            let found = from + whole.get(from..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
            if whole.get(found) == Some(&b'"') {
                self.bytes = whole.get(found + 1..)?;
                return whole.get(..found);
            }
            from = found + 2;
        }
    }

    /// Skips one value.
    fn skip(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            self.white();
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    if depth > DEPTH_MAX {
                        return None;
                    }
                    self.step();
                    continue;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.step();
                }
                b',' | b':' if depth > 0 => {
                    self.step();
                    continue;
                }
                b',' | b':' => return None,
                _ => {
                    let end = self.bytes.iter().position(|byte| matches!(byte, b',' | b'}' | b']' | b':'))?;
                    self.bytes = self.bytes.get(end..)?;
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    fn step(&mut self) {
        self.bytes = self.bytes.get(1..).unwrap_or_default();
    }
}

fn unescaped(raw: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(raw).ok()?;
    let name = if text.contains('\\') {
        Cow::Owned(serde_json::from_str(&format!("\"{text}\"")).ok()?)
    } else {
        Cow::Borrowed(text)
    };
    (!name.trim().is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case(r#"{"model":"gpt-5","messages":[]}"#, "gpt-5"; "first")]
    #[test_case(r#" { "messages" : [{"role":"user","content":"{\"model\":\"x\"}"}], "n" : 1.5e3, "model" : "gpt-5" } "#, "gpt-5"; "behind others")]
    #[test_case(r#"{"a":{"model":"inner"},"b":[["]",{"c":"}"}]],"t":true,"model":"gpt-5"}"#, "gpt-5"; "not an inner one")]
    #[test_case(r#"{"model":"meta\/llama-3"}"#, "meta/llama-3"; "with an escape")]
    #[test_case(r#"{"model":"gpt-5","messages":[{"role"#, "gpt-5"; "of a body that is cut")]
    fn the_body_names_its_model(body: &str, expected: &str) {
        assert_eq!(find("/v1/chat/completions", body.as_bytes()).unwrap(), expected);
    }

    #[test_case("/v1beta/models/gemini-2.5-pro:generateContent?alt=sse", "gemini-2.5-pro"; "google")]
    #[test_case("/model/anthropic.claude-3-5-sonnet-20241022-v2:0/invoke", "anthropic.claude-3-5-sonnet-20241022-v2:0"; "bedrock")]
    #[test_case("/openai/deployments/my-gpt/chat/completions", "my-gpt"; "azure")]
    fn the_path_names_its_model(path: &str, expected: &str) {
        assert_eq!(find(path, b"{\"model\":\"of the body\"}").unwrap(), expected);
    }

    #[test_case(""; "nothing")]
    #[test_case("model=gpt-5"; "no json")]
    #[test_case(r#"[{"model":"gpt-5"}]"#; "a list")]
    #[test_case(r#"{"model":null}"#; "null")]
    #[test_case(r#"{"model":""}"#; "empty")]
    #[test_case(r#"{"messages":[],"mod"#; "cut before it")]
    #[test_case(r#"{"model":"gpt-"#; "cut inside it")]
    #[test_case(r#"{"a" "model":"gpt-5"}"#; "malformed")]
    fn a_body_without_a_model_names_none(body: &str) {
        assert_eq!(find("/v1/models", body.as_bytes()), None);
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = format!("{{\"a\":{}{},\"model\":\"m\"}}", "[".repeat(1000), "]".repeat(1000));
        assert_eq!(in_body(deep.as_bytes()), None);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let text = br#"{"a":[{"b":"\"\\"},1,null,true],"model":"m\u00e9","c":{}}"#;
        for end in 0..text.len() {
            let _ = in_body(&text[..end]);
            for byte in [b'"', b'\\', b'{', b'}', b'[', b']', b',', b':', 0xff, b' '] {
                let mut changed = text.to_vec();
                changed[end] = byte;
                let _ = in_body(&changed);
            }
        }
        assert_eq!(in_body(text).unwrap(), "mé");
    }
}
