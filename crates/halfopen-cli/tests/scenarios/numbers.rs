//! Reads the lists of numbers that stand beside this file.

use std::collections::BTreeMap;

/// Numbers of one kind.
pub(crate) struct Part {
    /// What they are about.
    pub(crate) title: String,
    /// Each with its title, in the order of the list.
    pub(crate) numbers: Vec<(String, String)>,
}

/// Returns all numbers.
pub(crate) fn listed() -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for line in include_str!("numbers.txt").lines() {
        if let Some(title) = line.strip_prefix("## ") {
            parts.push(Part { title: title.to_owned(), numbers: Vec::new() });
        } else if let Some(numbered) = numbered(line) {
            parts.last_mut().expect("a heading stands above the first number").numbers.push(numbered);
        }
    }
    parts
}

/// Returns the numbers without a test, each with its reason.
pub(crate) fn untested() -> BTreeMap<String, String> {
    include_str!("untested.txt").lines().filter_map(numbered).collect()
}

fn numbered(line: &str) -> Option<(String, String)> {
    let (number, text) = line.split_once(' ')?;
    let is_number = number.len() == 4 && number.starts_with('S') && number[1..].bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| (number.to_owned(), text.to_owned()))
}

#[test]
fn no_number_is_listed_twice() {
    let mut numbers: Vec<String> = listed().into_iter().flat_map(|part| part.numbers).map(|(n, _)| n).collect();
    let count = numbers.len();
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), count);
    assert_eq!(count, 137);
}
