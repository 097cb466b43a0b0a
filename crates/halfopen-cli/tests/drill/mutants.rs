//! Each mechanism switched off in turn: a drill that stays green then shows nothing.

use std::collections::BTreeMap;

use test_case::test_case;

use crate::world::{DOCUMENT_OCR, Said, World, examples};

fn results(said: &Said) -> BTreeMap<String, (String, Option<String>)> {
    let mutants = said.json()["mutants"].as_array().unwrap().clone();
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    mutants
        .iter()
        .map(|one| (text(&one["name"]).unwrap(), (text(&one["result"]).unwrap(), text(&one["row"]))))
        .collect()
}

/// Under the documented policy every mechanism is missed, by a row that is about it.
#[test]
fn every_mutant_of_the_documented_policy_is_killed_by_its_own_row() {
    let said = World::new().drill_policy(DOCUMENT_OCR, &["--mutate", "--json"]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let killed: Vec<String> = results(&said)
        .into_iter()
        .map(|(name, (result, row))| format!("{name}: {result} by {}", row.unwrap_or_default()))
        .collect();
    insta::assert_snapshot!(killed.join("\n"));
}

#[test_case("document-ocr.yaml")]
#[test_case("agents.yaml")]
#[test_case("outside-services.yaml")]
fn no_mutant_survives_under_an_example(file: &str) {
    let file = examples().join(file).display().to_string();
    let said = World::new().drill(&["--mutate", "--json", "--policy", &file]);
    let survived: Vec<_> = results(&said).into_iter().filter(|(_, (result, _))| result == "survived").collect();
    assert!(survived.is_empty(), "{survived:?}");
    assert_eq!(said.code, Some(0), "{}", said.err);
}

/// The demand can fail, too: without the rows that would notice, mutants survive and the command says so.
#[test]
fn a_drill_without_the_right_rows_lets_mutants_survive() {
    let said = World::new().drill_policy(DOCUMENT_OCR, &["--mutate", "--json", "--row", "B5"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert_eq!(results(&said)["breaker never opens"], ("survived".to_owned(), None));
}
