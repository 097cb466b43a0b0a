//! Paths into JSON: `error.details[].reason`, `**.code`, `error.".tag"`.
//!
//! A small language on purpose: keys without regard to ASCII case, `[]` for every element of a list, `*` for every
//! value, `**` for any depth. A list on the way is entered by itself, because several services wrap the same error in
//! a list on some days (Google's is sometimes a list of one).

use serde_json::Value;

/// How deep `**` looks.
const DEPTH_MAX: usize = 16;

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    steps: Vec<Step>,
    written: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Each,
    Any,
    Deep,
}

impl Path {
    /// Parses a path.
    ///
    /// # Errors
    ///
    /// One line if a step is empty or a quote is not closed.
    pub(crate) fn parse(written: &str) -> Result<Self, String> {
        let bad = || format!("`path`: `{written}` has an empty step or an open quote");
        let mut steps = Vec::new();
        let mut rest = written;
        while !rest.is_empty() {
            let word;
            if let Some(quoted) = rest.strip_prefix('"') {
                let end = quoted.find('"').ok_or_else(bad)?;
                word = &quoted[..end];
                rest = &quoted[end + 1..];
                steps.push(Step::Key(word.to_owned()));
            } else {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                word = &rest[..end];
                rest = &rest[end..];
                match word {
                    "" if rest.starts_with("[]") => {}
                    "" => return Err(bad()),
                    "*" => steps.push(Step::Any),
                    "**" => steps.push(Step::Deep),
                    key => steps.push(Step::Key(key.to_owned())),
                }
            }
            while let Some(after) = rest.strip_prefix("[]") {
                steps.push(Step::Each);
                rest = after;
            }
            if let Some(after) = rest.strip_prefix('.') {
                if after.is_empty() {
                    return Err(bad());
                }
                rest = after;
            } else if !rest.is_empty() {
                return Err(bad());
            }
        }
        if steps.is_empty() {
            return Err(bad());
        }
        Ok(Self { steps, written: written.to_owned() })
    }

    /// Returns the path as it was written.
    pub(crate) fn as_str(&self) -> &str {
        &self.written
    }

    /// Calls `found` with every value the path leads to, until it returns true; returns whether it did.
    pub(crate) fn any<'v>(&self, root: &'v Value, found: &mut dyn FnMut(&'v Value) -> bool) -> bool {
        walk(&self.steps, root, 0, found)
    }
}

fn walk<'v>(steps: &[Step], value: &'v Value, depth: usize, found: &mut dyn FnMut(&'v Value) -> bool) -> bool {
    if depth > DEPTH_MAX {
        return false;
    }
    let Some((step, rest)) = steps.split_first() else { return found(value) };
    match (step, value) {
        (Step::Key(key), Value::Object(map)) => {
            map.iter().any(|(name, inner)| name.eq_ignore_ascii_case(key) && walk(rest, inner, depth + 1, found))
        }
        (Step::Each, Value::Array(list)) => list.iter().any(|inner| walk(rest, inner, depth + 1, found)),
        (Step::Each, _) => walk(rest, value, depth + 1, found),
        (Step::Key(_), Value::Array(list)) => list.iter().any(|inner| walk(steps, inner, depth + 1, found)),
        (Step::Any, Value::Object(map)) => map.values().any(|inner| walk(rest, inner, depth + 1, found)),
        (Step::Any, Value::Array(list)) => list.iter().any(|inner| walk(rest, inner, depth + 1, found)),
        (Step::Deep, _) => {
            walk(rest, value, depth + 1, found)
                || match value {
                    Value::Object(map) => map.values().any(|inner| walk(steps, inner, depth + 1, found)),
                    Value::Array(list) => list.iter().any(|inner| walk(steps, inner, depth + 1, found)),
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
                }
        }
        (Step::Key(_) | Step::Any, Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => false,
    }
}

/// Returns a scalar as text; a list or an object is none.
pub(crate) fn scalar(value: &Value) -> Option<std::borrow::Cow<'_, str>> {
    match value {
        Value::String(text) => Some(text.as_str().into()),
        Value::Number(number) => Some(number.to_string().into()),
        Value::Bool(yes) => Some(if *yes { "true" } else { "false" }.into()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use test_case::test_case;

    #[test_case("error.code", true; "keys")]
    #[test_case("error.details[].reason", true; "each")]
    #[test_case("error.details.reason", true; "a list is entered by itself")]
    #[test_case("[].error.code", true; "each of the root")]
    #[test_case("**.reason", true; "any depth")]
    #[test_case("*.code", true; "any key")]
    #[test_case("Error.CODE", true; "case does not matter")]
    #[test_case("error.\".tag\"", true; "quoted key")]
    #[test_case("code", false; "not at the root")]
    fn paths_lead_to_values(path: &str, leads: bool) {
        let root = json!({"error": {"code": 429, "details": [{"reason": "X"}], ".tag": "other"}});
        assert_eq!(Path::parse(path).unwrap().any(&root, &mut |_| true), leads);
    }

    #[test_case("")]
    #[test_case("a..b")]
    #[test_case("a.")]
    #[test_case("a.\"b")]
    fn broken_paths_are_refused(path: &str) {
        assert!(Path::parse(path).is_err());
    }
}
