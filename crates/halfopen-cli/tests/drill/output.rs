//! What a drill prints.

use crate::world::{DOCUMENT_OCR, World};

#[test]
fn rows_are_a_table_a_person_can_read() {
    let said = World::new().drill_policy(DOCUMENT_OCR, &["--row", "A1", "--row", "C4"]);
    assert_eq!(said.code, Some(0));
    insta::assert_snapshot!(format!("{}---\n{}", said.out, said.err));
}

#[test]
fn rows_are_json_with_these_fields() {
    let said = World::new().drill_policy(DOCUMENT_OCR, &["--row", "A1", "--json"]);
    insta::assert_snapshot!(said.out);
}

#[test]
fn mutants_are_a_table_and_json_with_these_fields() {
    let world = World::new();
    let table = world.drill_policy(DOCUMENT_OCR, &["--mutate", "--row", "B6"]);
    assert_eq!(table.code, Some(1));
    let json = world.drill_policy(DOCUMENT_OCR, &["--mutate", "--row", "B6", "--json"]).json();
    let first = &json["mutants"][0];
    insta::assert_snapshot!(format!("{}---\n{}---\n{first:#}", table.out, table.err));
}

/// Two drills of one policy see the same: chance is drawn from a fixed seed.
#[test]
fn a_drill_can_be_repeated_exactly() {
    let world = World::new();
    let once = world.drill_policy(DOCUMENT_OCR, &["--json"]);
    assert_eq!(world.drill_policy(DOCUMENT_OCR, &["--json"]).out, once.out);
}

#[test]
fn junit_names_every_row_and_what_a_failed_one_saw() {
    let world = World::new();
    let xml = world.path("drill.xml");
    let policy = "dependency_guard:\n  name: ocr\n  circuit: {failure_window_sec: 1, open_after_failures: 100}\n";
    let said = world.drill_policy(policy, &["--row", "A6", "--row", "B5 key", "--junit", xml.to_str().unwrap()]);
    assert_eq!(said.code, Some(1));
    insta::assert_snapshot!(std::fs::read_to_string(xml).unwrap());
}

#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let said = World::new().drill_policy(DOCUMENT_OCR, &["--row", "A1", "--junit", "no/such/folder.xml"]);
    assert_eq!(said.code, Some(74));
    assert!(said.err.contains("no/such/folder.xml"), "{}", said.err);
}

#[test]
fn flags_that_contradict_each_other_are_a_usage_error() {
    let world = World::new();
    for words in
        [&["--mutate", "--through", "x"][..], &["--tool", "x"], &["--row", "Z9"], &["--mutate", "--junit", "x"]]
    {
        assert_eq!(world.drill(words).code, Some(64), "{words:?}");
    }
}
