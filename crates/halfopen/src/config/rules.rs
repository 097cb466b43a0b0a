//! Reads a user's own classification rules from the tree, so that a mistake in one is shown where it stands.
//!
//! The grammar of rules is `halfopen_core::classify::raw`, shared with the embedded packs. This file hands the tree to
//! its serde form and remembers which value was being read when that form refused.

use std::fmt;
use std::ops::Range;

use halfopen_core::classify::raw::RawRule;
use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};

use super::tree::{Node, Value};

/// Why a rule cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuleError {
    pub(super) message: String,
    /// The innermost value that was refused.
    pub(super) span: Option<Range<usize>>,
}

impl RuleError {
    fn at(mut self, node: &Node) -> Self {
        self.span.get_or_insert_with(|| node.span.clone());
        self
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RuleError {}

impl de::Error for RuleError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { message: message.to_string(), span: None }
    }
}

/// Reads one rule.
pub(super) fn rule(node: &Node) -> Result<RawRule, RuleError> {
    RawRule::deserialize(At(node))
}

/// Returns the place in a rule that a complaint is about. Complaints begin with the fields that lead there, in
/// backticks: "`when`: `matches`: …", "`examples.speaks` 2: …".
pub(super) fn blamed(rule: &Node, complaint: &str) -> Range<usize> {
    let mut node = rule;
    let mut span = below(rule, "name").map_or_else(|| rule.span.clone(), |(_, value)| value.span.clone());
    let mut rest = complaint;
    while let Some((path, after)) = rest.strip_prefix('`').and_then(|rest| rest.split_once('`')) {
        for word in path.split('.') {
            let Some((key, value)) = below(node, word) else { return span };
            node = value;
            span = if matches!(value.value, Value::List(_) | Value::Map(_)) { &key.span } else { &value.span }.clone();
        }
        let digits = after.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        if let (Ok(n), Value::List(items)) = (digits.parse::<usize>(), &node.value) {
            let Some(item) = n.checked_sub(1).and_then(|index| items.get(index)) else { return span };
            node = item;
            span = first_of(item);
        }
        rest = after.trim_start_matches([':', ' ']);
    }
    span
}

/// Returns the entry `word` of a mapping, or of the first mapping of a list that has it.
fn below<'n>(node: &'n Node, word: &str) -> Option<(&'n Node, &'n Node)> {
    match &node.value {
        Value::Map(entries) => entries
            .iter()
            .find(|(key, _)| matches!(&key.value, Value::Text(text) if text == word))
            .map(|(key, value)| (key, value)),
        Value::List(items) => items.iter().find_map(|item| match item.value {
            Value::Map(_) => below(item, word).or_else(|| match &item.value {
                // A condition wraps its test: `- stdout: {says: …}`.
                Value::Map(entries) => entries.iter().find_map(|(_, value)| below(value, word)),
                _ => None,
            }),
            _ => None,
        }),
        _ => None,
    }
}

/// Returns a place that can be underlined: a mapping in block style begins before its first key.
fn first_of(node: &Node) -> Range<usize> {
    match &node.value {
        Value::Map(entries) => entries.first().map_or_else(|| node.span.clone(), |(key, _)| key.span.clone()),
        _ => node.span.clone(),
    }
}

/// A node as serde reads it.
#[derive(Clone, Copy)]
struct At<'n>(&'n Node);

impl<'de> Deserializer<'de> for At<'de> {
    type Error = RuleError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RuleError> {
        let node = self.0;
        let read = match &node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            // Serde's buffer for untagged forms knows no wider integers than these.
            Value::Int(value) => match (i64::try_from(*value), u64::try_from(*value)) {
                (Ok(value), _) => visitor.visit_i64(value),
                (_, Ok(value)) => visitor.visit_u64(value),
                _ => visitor.visit_i128(*value),
            },
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(value) => visitor.visit_borrowed_str(value),
            Value::List(items) => visitor.visit_seq(Items(items.iter())),
            Value::Map(entries) => visitor.visit_map(Entries { rest: entries.iter(), value: None }),
        };
        read.map_err(|error| error.at(node))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RuleError> {
        match self.0.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, RuleError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, RuleError> {
        let node = self.0;
        let read = match &node.value {
            Value::Text(word) => visitor.visit_enum(word.as_str().into_deserializer()),
            Value::Map(entries) if entries.len() == 1 => match entries.first() {
                Some((key, value)) => visitor.visit_enum(Variant { key, value }),
                None => Err(de::Error::custom("expected one key")),
            },
            other => {
                Err(de::Error::custom(format!("expected a word or a mapping with one key, found {}", other.kind())))
            }
        };
        read.map_err(|error: RuleError| error.at(node))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Items<'n>(std::slice::Iter<'n, Node>);

impl<'n> SeqAccess<'n> for Items<'n> {
    type Error = RuleError;

    fn next_element_seed<T: DeserializeSeed<'n>>(&mut self, seed: T) -> Result<Option<T::Value>, RuleError> {
        self.0.next().map(|node| seed.deserialize(At(node)).map_err(|error| error.at(node))).transpose()
    }
}

struct Entries<'n> {
    rest: std::slice::Iter<'n, (Node, Node)>,
    value: Option<&'n Node>,
}

impl<'n> MapAccess<'n> for Entries<'n> {
    type Error = RuleError;

    fn next_key_seed<K: DeserializeSeed<'n>>(&mut self, seed: K) -> Result<Option<K::Value>, RuleError> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(At(key)).map(Some).map_err(|error| error.at(key))
    }

    fn next_value_seed<T: DeserializeSeed<'n>>(&mut self, seed: T) -> Result<T::Value, RuleError> {
        match self.value.take() {
            Some(node) => seed.deserialize(At(node)).map_err(|error| error.at(node)),
            None => Err(de::Error::custom("value asked for before its key")),
        }
    }
}

struct Variant<'n> {
    key: &'n Node,
    value: &'n Node,
}

impl<'n> EnumAccess<'n> for Variant<'n> {
    type Error = RuleError;
    type Variant = At<'n>;

    fn variant_seed<V: DeserializeSeed<'n>>(self, seed: V) -> Result<(V::Value, At<'n>), RuleError> {
        let word = match &self.key.value {
            Value::Text(word) => word.as_str(),
            _ => "",
        };
        let variant = seed.deserialize(StrDeserializer::new(word)).map_err(|error: RuleError| error.at(self.key))?;
        Ok((variant, At(self.value)))
    }
}

impl<'n> VariantAccess<'n> for At<'n> {
    type Error = RuleError;

    fn unit_variant(self) -> Result<(), RuleError> {
        match self.0.value {
            Value::Null => Ok(()),
            _ => Err(RuleError::at(de::Error::custom("takes no value"), self.0)),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'n>>(self, seed: T) -> Result<T::Value, RuleError> {
        seed.deserialize(self).map_err(|error| error.at(self.0))
    }

    fn tuple_variant<V: Visitor<'n>>(self, _len: usize, visitor: V) -> Result<V::Value, RuleError> {
        self.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'n>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, RuleError> {
        self.deserialize_any(visitor)
    }
}
