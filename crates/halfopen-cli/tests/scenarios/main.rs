//! Holds the tests of the workspace against the list of what goes wrong in the field, and keeps docs/scenarios.md true.
//!
//! A test says which kind of trouble it stands for by naming its number (`S017`) in its doc comment, in a comment beside
//! or inside it, or in its name (`…_s107`). The numbers are in `numbers.txt`; those without a test are in
//! `untested.txt`, with the reason. The table is generated and not written, because a written one tells what somebody
//! once meant to test.
//!
//! `HALFOPEN_UPDATE_SCENARIOS=1 cargo test -p halfopen-cli --test scenarios` rewrites the table.
//!
//! It does not judge whether a test is a good one; a reader follows the table for that.

#![expect(clippy::unwrap_used, reason = "a source file that cannot be read is a failed test")]

mod numbers;
mod sources;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use numbers::{listed, untested};
use sources::{Named, named_by_tests, root};

/// Set to rewrite docs/scenarios.md.
const UPDATE: &str = "HALFOPEN_UPDATE_SCENARIOS";

fn by_number() -> BTreeMap<String, BTreeSet<Named>> {
    let mut tests: BTreeMap<String, BTreeSet<Named>> = BTreeMap::new();
    for (number, named) in named_by_tests() {
        tests.entry(number).or_default().insert(named);
    }
    tests
}

#[test]
fn every_number_has_a_test_or_a_reason() {
    let (tests, reasons) = (by_number(), untested());
    let numbers: BTreeSet<String> = listed().into_iter().flat_map(|part| part.numbers).map(|(n, _)| n).collect();
    let lacking: Vec<_> = numbers.iter().filter(|n| !tests.contains_key(*n) && !reasons.contains_key(*n)).collect();
    assert!(
        lacking.is_empty(),
        "no test names {lacking:?}: name them in the tests that stand for them, or say why not"
    );
    let both: Vec<_> = reasons.keys().filter(|n| tests.contains_key(*n)).collect();
    assert!(both.is_empty(), "{both:?} have a test and need no reason in untested.txt");
    let unknown: Vec<_> = tests.keys().chain(reasons.keys()).filter(|n| !numbers.contains(*n)).collect();
    assert!(unknown.is_empty(), "{unknown:?} are in no list: numbers.txt");
}

#[test]
fn the_table_in_the_docs_is_that_of_the_tests() {
    let path = root().join("docs/scenarios.md");
    let table = table::written(&listed(), &by_number(), &untested());
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &table).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let different = table.lines().zip(kept.lines()).find(|(new, old)| new != old);
    assert!(
        kept == table,
        "docs/scenarios.md is not what the tests say; rewrite it with: {UPDATE}=1 cargo test -p halfopen-cli --test \
         scenarios\nfirst difference: {different:?}"
    );
}
