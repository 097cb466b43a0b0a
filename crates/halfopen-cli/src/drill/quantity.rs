//! Reads and computes the quantities of a scenario: `opened + 1s`, `min({timeout} / 2, 10s)`, `open_after_failures`.
//!
//! A scenario must fit every policy, so it speaks in the policy's own values and in instants that the run itself
//! brings about (`opened`, `probing`, `recovered`, …). A quantity is therefore kept as an expression and computed when
//! it is needed; one whose instant has not come yet has no value. Times and plain numbers are told apart, so that
//! `opened + 3` is a mistake that is named and not three milliseconds.
//!
//! Braces group, as parentheses do, so that `{open_for}` means the same in a text and in a quantity.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

use crate::duration;

/// The deepest nesting of parentheses, and the longest text of a quantity.
const DEPTH_MAX: usize = 16;
const CHARS_MAX: usize = 500;

/// A computed quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    /// A duration, or an instant counted from the beginning, in seconds.
    Time(f64),
    /// A count or a factor.
    Plain(f64),
}

/// What stands for a second that a scenario writes, where that is not a second: no name that a scenario can write.
pub(super) const WRITTEN_SECOND: &str = "1s";
/// What stays of a time that a scenario writes, whatever a written second lasts: so much a machine needs.
const UNSHORTENED: f64 = 0.5;

/// What the names in an expression stand for; a name that is known and has no value yet is `None`.
pub(super) type Names = BTreeMap<String, Option<Value>>;

/// An expression that was read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Quantity {
    text: String,
    tree: Tree,
}

#[derive(Clone, Debug, PartialEq)]
enum Tree {
    Value(Value),
    Name(String),
    Of(Operation, Box<Self>, Box<Self>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Plus,
    Minus,
    Times,
    Per,
    Least,
    Most,
}

/// Why a quantity has no value, and never will.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum QuantityError {
    /// It cannot be read.
    #[error("`{text}` is no quantity: {why}; write for example `opened + 1s`, `{{timeout}} / 2` or `3`")]
    Unreadable {
        /// What is written.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// A name that stands for nothing.
    #[error("`{text}`: `{name}` is not known here; known are {known}")]
    Unknown {
        /// What is written.
        text: String,
        /// The name.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Times and numbers are mixed.
    #[error("`{text}` mixes times and plain numbers; write a unit: 3s, 200ms, 2m, 1h")]
    Mixed {
        /// What is written.
        text: String,
    },
    /// A time stands where a number must, or the other way round.
    #[error("`{text}` is {is}, and {wanted} is needed")]
    Kind {
        /// What is written.
        text: String,
        /// What it is.
        is: &'static str,
        /// What must stand there.
        wanted: &'static str,
    },
}

impl Value {
    /// Returns the value as a person reads it.
    pub(super) fn shown(self) -> String {
        match self {
            Self::Time(seconds) => duration::show(span(seconds)),
            Self::Plain(number) if number.fract() == 0.0 => format!("{number:.0}"),
            Self::Plain(number) => format!("{number:.2}"),
        }
    }
}

/// Returns the value of a duration.
pub(super) fn time(duration: Duration) -> Value {
    Value::Time(duration.as_secs_f64())
}

/// Returns seconds as a duration; what is negative or no number is zero.
pub(super) fn span(seconds: f64) -> Duration {
    Duration::try_from_secs_f64((seconds * 1000.0).round() / 1000.0).unwrap_or_default()
}

impl Quantity {
    /// Reads an expression.
    ///
    /// # Errors
    ///
    /// [`QuantityError::Unreadable`].
    pub(super) fn read(text: &str) -> Result<Self, QuantityError> {
        let unreadable = |why: String| QuantityError::Unreadable { text: text.to_owned(), why };
        if text.len() > CHARS_MAX {
            return Err(unreadable(format!("it is longer than {CHARS_MAX} characters")));
        }
        let mut reading = Reading { rest: text, depth: 0 };
        let tree = reading.sum().map_err(unreadable)?;
        match reading.rest.trim() {
            "" => Ok(Self { text: text.to_owned(), tree }),
            rest => Err(unreadable(format!("`{rest}` is left over"))),
        }
    }

    /// Returns the beginning.
    pub(super) fn beginning() -> Self {
        Self { text: "0s".to_owned(), tree: Tree::Value(Value::Time(0.0)) }
    }

    /// Returns the value, or `None` while an instant it depends on has not come.
    ///
    /// # Errors
    ///
    /// If a name is unknown or kinds are mixed.
    pub(super) fn value(&self, names: &Names) -> Result<Option<Value>, QuantityError> {
        self.computed(&self.tree, names)
    }

    /// Returns the value of a time, in seconds.
    ///
    /// # Errors
    ///
    /// As [`Quantity::value`], and if it is a plain number.
    pub(super) fn seconds(&self, names: &Names) -> Result<Option<f64>, QuantityError> {
        match self.value(names)? {
            None => Ok(None),
            Some(Value::Time(seconds)) => Ok(Some(seconds)),
            Some(Value::Plain(0.0)) => Ok(Some(0.0)),
            Some(Value::Plain(_)) => Err(self.kind("a plain number", "a time")),
        }
    }

    /// Returns the value of a number.
    ///
    /// # Errors
    ///
    /// As [`Quantity::value`], and if it is a time.
    pub(super) fn number(&self, names: &Names) -> Result<Option<f64>, QuantityError> {
        match self.value(names)? {
            None => Ok(None),
            Some(Value::Plain(number)) => Ok(Some(number)),
            Some(Value::Time(_)) => Err(self.kind("a time", "a plain number")),
        }
    }

    fn kind(&self, is: &'static str, wanted: &'static str) -> QuantityError {
        QuantityError::Kind { text: self.text.clone(), is, wanted }
    }

    fn computed(&self, tree: &Tree, names: &Names) -> Result<Option<Value>, QuantityError> {
        let (operation, left, right) = match tree {
            Tree::Value(Value::Time(seconds)) => return Ok(Some(Value::Time(lasting(*seconds, names)))),
            Tree::Value(value @ Value::Plain(_)) => return Ok(Some(*value)),
            Tree::Name(name) => {
                return names.get(name).copied().ok_or_else(|| QuantityError::Unknown {
                    text: self.text.clone(),
                    name: name.clone(),
                    known: names
                        .keys()
                        .map(String::as_str)
                        .filter(|name| *name != WRITTEN_SECOND)
                        .collect::<Vec<_>>()
                        .join(", "),
                });
            }
            Tree::Of(operation, left, right) => (*operation, self.computed(left, names)?, self.computed(right, names)?),
        };
        let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
        operation.of(left, right).map(Some).ok_or_else(|| QuantityError::Mixed { text: self.text.clone() })
    }
}

/// Returns how long a time lasts that a scenario writes.
fn lasting(seconds: f64, names: &Names) -> f64 {
    match names.get(WRITTEN_SECOND) {
        Some(Some(Value::Time(second))) if seconds > UNSHORTENED => UNSHORTENED + (seconds - UNSHORTENED) * second,
        Some(_) | None => seconds,
    }
}

impl Operation {
    /// Returns the result, or `None` where times and numbers do not go together.
    fn of(self, left: Value, right: Value) -> Option<Value> {
        use Value::{Plain, Time};
        match (self, left, right) {
            (Self::Times, Plain(a), Plain(b)) => Some(Plain(a * b)),
            (Self::Times, Time(a), Plain(b)) | (Self::Times, Plain(a), Time(b)) => Some(Time(a * b)),
            (Self::Times, Time(_), Time(_)) | (Self::Per, Plain(_), Time(_)) => None,
            (Self::Per, Time(a), Plain(b)) => Some(Time(a / b)),
            (Self::Per, Time(a), Time(b)) | (Self::Per, Plain(a), Plain(b)) => Some(Plain(a / b)),
            (_, Time(a), Time(b)) => Some(Time(self.alike(a, b))),
            (_, Plain(a), Plain(b)) => Some(Plain(self.alike(a, b))),
            (_, Time(a), Plain(b)) if b == 0.0 => Some(Time(self.alike(a, b))),
            (_, Time(_), Plain(_)) | (_, Plain(_), Time(_)) => None,
        }
    }

    fn alike(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Plus => a + b,
            Self::Minus => a - b,
            Self::Times => a * b,
            Self::Per => a / b,
            Self::Least => a.min(b),
            Self::Most => a.max(b),
        }
    }
}

/// Reads an expression from left to right.
struct Reading<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Reading<'a> {
    fn sum(&mut self) -> Result<Tree, String> {
        let mut left = self.product()?;
        loop {
            let operation = match self.peeked() {
                Some('+') => Operation::Plus,
                Some('-') => Operation::Minus,
                Some(_) | None => return Ok(left),
            };
            self.skip();
            left = Tree::Of(operation, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Tree, String> {
        let mut left = self.atom()?;
        loop {
            let operation = match self.peeked() {
                Some('*') => Operation::Times,
                Some('/') => Operation::Per,
                Some(_) | None => return Ok(left),
            };
            self.skip();
            left = Tree::Of(operation, Box::new(left), Box::new(self.atom()?));
        }
    }

    fn atom(&mut self) -> Result<Tree, String> {
        match self.peeked() {
            Some(open @ ('(' | '{')) => {
                self.skip();
                let inner = self.within(Self::sum)?;
                self.expect(if open == '(' { ')' } else { '}' })?;
                Ok(inner)
            }
            Some(c) if c.is_ascii_digit() => self.literal(),
            Some(c) if c.is_ascii_alphabetic() => self.named(),
            Some(c) => Err(format!("`{c}` cannot stand there")),
            None => Err("it breaks off".to_owned()),
        }
    }

    fn literal(&mut self) -> Result<Tree, String> {
        let digits = self.take(|c| c.is_ascii_digit() || c == '.');
        let number: f64 = digits.parse().map_err(|_| format!("`{digits}` is no number"))?;
        let unit = self.take(|c| c.is_ascii_alphabetic());
        if unit.is_empty() {
            return Ok(Tree::Value(Value::Plain(number)));
        }
        let time = duration::parse(&format!("{digits}{unit}")).map_err(|error| error.to_string())?;
        Ok(Tree::Value(Value::Time(time.as_secs_f64())))
    }

    fn named(&mut self) -> Result<Tree, String> {
        let name = self.take(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.').to_owned();
        let operation = match name.as_str() {
            "min" => Operation::Least,
            "max" => Operation::Most,
            _ => return Ok(Tree::Name(name)),
        };
        self.expect('(')?;
        let left = self.within(Self::sum)?;
        self.expect(',')?;
        let right = self.within(Self::sum)?;
        self.expect(')')?;
        Ok(Tree::Of(operation, Box::new(left), Box::new(right)))
    }

    fn within(&mut self, read: impl FnOnce(&mut Self) -> Result<Tree, String>) -> Result<Tree, String> {
        if self.depth == DEPTH_MAX {
            return Err(format!("it is nested deeper than {DEPTH_MAX}"));
        }
        self.depth += 1;
        let tree = read(self);
        self.depth -= 1;
        tree
    }

    fn peeked(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn skip(&mut self) {
        let mut chars = self.rest.chars();
        chars.next();
        self.rest = chars.as_str();
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.peeked() == Some(wanted) {
            self.skip();
            Ok(())
        } else {
            Err(format!("`{wanted}` is missing"))
        }
    }

    fn take(&mut self, of: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !of(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}

/// Returns a text with its `{quantities}` filled in; one that cannot be computed yet stands as `?`.
///
/// # Errors
///
/// As [`Quantity::read`] and [`Quantity::value`].
pub(super) fn filled(text: &str, names: &Names) -> Result<String, QuantityError> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((inside, behind)) = after.split_once('}') else {
            let why = "`}` is missing".to_owned();
            return Err(QuantityError::Unreadable { text: text.to_owned(), why });
        };
        out.push_str(before);
        let value = Quantity::read(inside)?.value(names)?;
        out.push_str(&value.map_or_else(|| "?".to_owned(), Value::shown));
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl Visitor<'_> for Written {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity, such as `opened + 1s` or `3`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
                Quantity::read(text).map_err(E::custom)
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(Written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn names() -> Names {
        let time = |seconds| Some(Value::Time(seconds));
        Names::from([
            ("open_for".to_owned(), time(120.0)),
            ("opened".to_owned(), None),
            ("probes".to_owned(), Some(Value::Plain(2.0))),
        ])
    }

    #[test_case("1s + 2 * 3s", Value::Time(7.0); "times before plus")]
    #[test_case("(1s + 2s) * 3", Value::Time(9.0); "parentheses")]
    #[test_case("{open_for} / 2 - 1m", Value::Time(0.0); "braces group")]
    #[test_case("open_for / 60s", Value::Plain(2.0); "a time per time is a number")]
    #[test_case("min(open_for, 1m) + max(1s, 500ms)", Value::Time(61.0))]
    #[test_case("probes + 1", Value::Plain(3.0))]
    fn a_quantity_is_computed(text: &str, value: Value) {
        assert_eq!(Quantity::read(text).unwrap().value(&names()), Ok(Some(value)));
    }

    #[test]
    fn an_instant_that_has_not_come_has_no_value() {
        assert_eq!(Quantity::read("opened + 1s").unwrap().value(&names()), Ok(None));
    }

    #[test_case("10ms", 0.01; "a moment stays")]
    #[test_case("10500ms", 0.6; "what is beyond a moment is shortened")]
    #[test_case("open_for + 500ms", 120.5; "values of the policy stay")]
    fn a_written_time_may_be_shortened(text: &str, seconds: f64) {
        let mut names = names();
        names.insert(WRITTEN_SECOND.to_owned(), Some(Value::Time(0.01)));
        let value = Quantity::read(text).unwrap().seconds(&names).unwrap().unwrap();
        assert!((value - seconds).abs() < 1e-9, "{value}");
    }

    #[test_case("open_for + 3" => true; "times and numbers")]
    #[test_case("3 / open_for" => true; "a number per time")]
    #[test_case("open_fro" => true; "an unknown name")]
    fn a_mistake_is_found_when_it_is_computed(text: &str) -> bool {
        Quantity::read(text).unwrap().value(&names()).is_err()
    }

    #[test_case("")]
    #[test_case("1x")]
    #[test_case("1s +")]
    #[test_case("(1s")]
    #[test_case("1s 2s")]
    #[test_case("min(1s)")]
    #[test_case(&"(".repeat(400))]
    fn nonsense_is_refused(text: &str) {
        assert!(matches!(Quantity::read(text), Err(QuantityError::Unreadable { .. })), "{text}");
    }

    #[test]
    fn a_text_is_filled_in() {
        assert_eq!(filled("{probes} after {open_for / 2}, {opened}", &names()).unwrap(), "2 after 1 min, ?");
        assert!(filled("{probes", &names()).is_err());
    }
}
