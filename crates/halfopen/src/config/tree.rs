//! Reads YAML into a tree in which every value knows where it stands.
//!
//! A typed reader stops at the first value it cannot take. A policy file is corrected by a person, who wants to see
//! every mistake at once, so the text is first read into this tree, which takes any YAML, and judged afterwards.
//! Repeated keys are kept for the same reason. Expansion of aliases is bounded before anything is built, so that a
//! few hundred bytes cannot become gigabytes.

use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, NonFiniteFloatPolicy, Spanned};

/// The largest policy file, in bytes. A list of a thousand dependencies has about a quarter of it.
pub(super) const FILE_BYTES_MAX: usize = 4 << 20;
/// The deepest nesting; the deepest key of the policy has 8.
const DEPTH_MAX: usize = 32;
/// Scalars, lists and mappings after aliases are expanded.
const NODES_MAX: usize = 100_000;
/// Aliases in a file.
const ALIASES_MAX: usize = 2_000;

/// A value and the bytes of the file it was written in.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) span: Range<usize>,
}

/// A value of YAML's core schema.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    /// In the order of the file, repeated keys repeated.
    Map(Vec<(Node, Node)>),
}

impl Value {
    /// Returns what a person calls this kind of value.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

/// Why a text is no YAML, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) message: String,
    /// What to do about it.
    pub(super) help: &'static str,
    pub(super) at: Range<usize>,
}

/// Reads a text of one YAML document; an empty one is [`Value::Null`].
///
/// # Errors
///
/// [`Malformed`] for the first place at which the text is no YAML, or is beyond the bounds above.
pub(super) fn parse(text: &str) -> Result<Node, Malformed> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: Some(FILE_BYTES_MAX),
            max_depth: DEPTH_MAX,
            max_nodes: NODES_MAX,
            max_events: 2 * NODES_MAX,
            max_aliases: ALIASES_MAX,
            max_recorded_anchor_events: NODES_MAX,
            max_recorded_anchor_bytes: FILE_BYTES_MAX,
            max_documents: 1,
            max_total_scalar_bytes: FILE_BYTES_MAX,
            max_merge_keys: 1_000,
        },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        strict_booleans: true,
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: NODES_MAX,
            max_replay_stack_depth: 16,
        },
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
    };
    match serde_saphyr::from_str_with_options::<Spanned<Tree>>(text, options) {
        Ok(tree) => Ok(node(tree, text)),
        Err(error) => Err(malformed(&error, text)),
    }
}

fn malformed(error: &serde_saphyr::Error, text: &str) -> Malformed {
    let error = error.without_snippet();
    let at = error.location().map_or(0..0, |location| span_of(location, text));
    let message = match error {
        serde_saphyr::Error::Budget { breach, .. } => beyond(&format!("{breach:?}")),
        serde_saphyr::Error::RecursiveReferencesRequireWeakTypes { .. } => "an alias contains itself".to_owned(),
        other => {
            let options = serde_saphyr::render_options! { snippets: serde_saphyr::SnippetMode::Off };
            let rendered = other.render_with_options(options);
            // The place is shown by the caller, in its own way.
            let message = rendered.split(" at line ").next().unwrap_or_default();
            message.lines().next().unwrap_or_default().to_owned()
        }
    };
    let help = help_for(&message);
    Malformed { message, help, at }
}

/// Returns what to do about a text that is no YAML: what usually is behind such a message.
fn help_for(message: &str) -> &'static str {
    const HELP: [(&str, &str); 10] = [
        ("unclosed bracket", "close it on the same line, or write the list with `- ` below the key"),
        ("unclosed quote", "close the quote on the same line"),
        ("mapping values are not allowed", "a text that holds `: ` stands in quotes; a key begins a line of its own"),
        ("unknown anchor", "write `&NAME` where the value stands first, or write the value here"),
        ("contains itself", "write the value where the alias stands"),
        ("second one", "join both into one file without `---`, or name them in two policies"),
        ("tab", "indent with spaces"),
        (
            "nested too deeply",
            "the deepest key of a policy stands 8 levels down; look for a stray indentation or bracket",
        ),
        (
            "too much for a policy file",
            "take aliases and lists apart; a policy of a thousand dependencies is well below it",
        ),
        ("invalid", "write the value without its tag, or one that is what the tag says"),
    ];
    let known = HELP.iter().find(|(part, _)| message.contains(part));
    known.map_or(
        "look for a wrong indentation, an unclosed quote or a missing `: ` there or in the line above",
        |(_, help)| help,
    )
}

/// Says which bound a file is beyond.
fn beyond(breach: &str) -> String {
    if breach.starts_with("Documents") {
        return "a policy file holds one YAML document; this is the start of a second one".to_owned();
    }
    if breach.starts_with("Depth") {
        return format!("nested too deeply; at most {DEPTH_MAX} levels are allowed");
    }
    format!("too much for a policy file: at most {NODES_MAX} values after aliases, {ALIASES_MAX} aliases")
}

/// Returns the bytes of a location, kept inside the text and on the borders of characters.
fn span_of(location: serde_saphyr::Location, text: &str) -> Range<usize> {
    let span = location.span();
    let start = span.byte_offset().and_then(|at| usize::try_from(at).ok()).unwrap_or_else(|| {
        let line = usize::try_from(location.line()).unwrap_or(1).saturating_sub(1);
        let column = usize::try_from(location.column()).unwrap_or(1).saturating_sub(1);
        text.split_inclusive('\n').take(line).map(str::len).sum::<usize>() + column
    });
    let len = span.byte_len().and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
    let start = border(text, start.min(text.len()));
    let end = border(text, start.saturating_add(len).min(text.len()));
    start..end.max(start)
}

fn border(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Returns a node as JSON; `None` if a key is no text, or a number none of JSON's.
pub(super) fn to_json(node: &Node) -> Option<serde_json::Value> {
    Some(match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => i64::try_from(*value).ok()?.into(),
        Value::Float(value) => serde_json::Number::from_f64(*value)?.into(),
        Value::Text(value) => value.clone().into(),
        Value::List(items) => items.iter().map(to_json).collect::<Option<Vec<_>>>()?.into(),
        Value::Map(entries) => {
            let mut map = serde_json::Map::new();
            for (key, value) in entries {
                let Value::Text(word) = &key.value else { return None };
                map.insert(word.clone(), to_json(value)?);
            }
            map.into()
        }
    })
}

/// The tree as the YAML reader hands it over.
enum Tree {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<Self>, Spanned<Self>)>),
}

fn node(tree: Spanned<Tree>, text: &str) -> Node {
    // For an alias the place of the definition is shown: that is the text to correct.
    let mut span = span_of(tree.defined, text);
    let value = match tree.value {
        Tree::Null => Value::Null,
        Tree::Bool(value) => Value::Bool(value),
        Tree::Int(value) => Value::Int(value),
        Tree::Float(value) => Value::Float(value),
        Tree::Text(value) => Value::Text(value),
        Tree::List(items) => Value::List(items.into_iter().map(|item| node(item, text)).collect()),
        Tree::Map(entries) => {
            Value::Map(entries.into_iter().map(|(key, value)| (node(key, text), node(value, text))).collect())
        }
    };
    // A caret under a whole block would underline half the file: its first line is enough.
    if let Some(line_end) = text.get(span.clone()).and_then(|slice| slice.find('\n')) {
        span.end = span.start + line_end;
    }
    Node { value, span }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Int(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Tree, E> {
        Ok(Tree::Int(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Tree, E> {
        Ok(Tree::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Tree::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn show(text: &str) -> String {
        fn walk(node: &Node, text: &str, depth: usize, out: &mut String) {
            let at = text.get(node.span.clone()).unwrap_or("<outside>");
            match &node.value {
                Value::List(items) => {
                    out.push_str(&format!("{:depth$}list {at:?}\n", ""));
                    items.iter().for_each(|item| walk(item, text, depth + 2, out));
                }
                Value::Map(entries) => {
                    out.push_str(&format!("{:depth$}map {at:?}\n", ""));
                    for (key, value) in entries {
                        walk(key, text, depth + 2, out);
                        walk(value, text, depth + 4, out);
                    }
                }
                value => out.push_str(&format!("{:depth$}{value:?} {at:?}\n", "")),
            }
        }
        let mut out = String::new();
        walk(&parse(text).expect("YAML"), text, 0, &mut out);
        out
    }

    #[test]
    fn every_value_knows_its_place() {
        insta::assert_snapshot!(show(
            "a: 1\nb: [x, \"y z\", 'ö']\nc:\n  d: 0.5\n  d: .nan\n  e: -3\n  ö: yes\nf: ~\n1: 99999999999999999999\n"
        ));
    }

    #[test]
    fn a_value_behind_an_alias_stands_where_it_was_defined() {
        insta::assert_snapshot!(show("x: &a {k: v}\ny: *a\nz:\n  <<: *a\n  q: |\n    two\n    lines\n"));
    }

    #[test]
    fn an_empty_text_is_nothing() {
        assert_eq!(parse("").map(|node| node.value), Ok(Value::Null));
        assert_eq!(parse("# a comment\n").map(|node| node.value), Ok(Value::Null));
    }

    #[test_case("a: [1" => "unclosed bracket '[' at 3..3")]
    #[test_case("a: b: c" => "mapping values are not allowed in this context at 4..4")]
    #[test_case("a: *x" => "alias references unknown anchor at 3..3")]
    #[test_case("a: 1\n---\nb: 2\n" => "a policy file holds one YAML document; this is the start of a second one at 5..8")]
    #[test_case("a: &a [*a]" => "an alias contains itself at 7..9")]
    #[test_case("key: \"unclosed\nb: 1" => "unclosed quote at 5..5")]
    #[test_case("a: !!int x" => "invalid u64 at 9..10")]
    fn a_text_that_is_no_yaml_says_where(text: &str) -> String {
        parse(text).map_or_else(|bad| format!("{} at {}..{}", bad.message, bad.at.start, bad.at.end), |_| String::new())
    }

    #[test]
    fn aliases_that_multiply_are_refused_before_they_are_built() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for n in 1..12 {
            let before = n - 1;
            let ten = vec![format!("*a{before}"); 10].join(", ");
            bomb.push_str(&format!("a{n}: &a{n} [{ten}]\n"));
        }
        assert!(parse(&bomb).is_err());
        assert!(parse(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))).is_err());
        assert!(parse(&"- ".repeat(100_000)).is_err());
        assert!(parse(&"a:\n ".repeat(NODES_MAX / 2 + 1)).is_err());
    }
}
