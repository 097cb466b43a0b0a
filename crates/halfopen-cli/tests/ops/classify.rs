//! `classify`: an outcome is explained, a file of outcomes is checked, an unknown one becomes a rule.

use crate::world::World;

#[test]
fn an_outcome_is_explained_by_rule_evidence_and_consequence() {
    let world = World::new();
    world.write("err", "gh: API rate limit exceeded for user ID 7. (HTTP 403)\n");
    let said = world.halfopen(&["classify", "--profile", "gh", "--exit-code", "1", "--stderr", "err"]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    for line in ["class     rate_limited", "rule      gh/limited", "evidence  code (stderr", "nearly", "generic/"] {
        assert!(said.out.contains(line), "{line}: {}", said.out);
    }
}

#[test]
fn a_raw_http_answer_is_read_with_its_headers() {
    let world = World::new();
    world.write("answer", "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\n\r\n{\"error\":\"slow\"}");
    let said = world.halfopen(&["classify", "--http", "answer", "--json"]);
    let line: serde_json::Value = serde_json::from_str(said.out.trim()).unwrap();
    assert_eq!((&line["class"], line["wait_s"].as_f64()), (&"rate_limited".into(), Some(7.0)), "{line}");
}

#[test]
fn a_file_of_outcomes_is_checked_against_its_labels() {
    let world = World::new();
    let good = r#"{"id":"a","kind":"http","tool":"x","method":"GET","status":503,"headers":{"retry-after":"5"},"body":"","expect":{"class":"overloaded","wait_s":9,"also_wait_s":[5,7]}}"#;
    let both = r#"{"id":"b","kind":"cli","tool":"claude-code","exit_code":null,"stdout":"Credit balance is too low\n","stderr":"","expect":{"class":"quota_exhausted"}}"#;
    let bad =
        r#"{"id":"c","kind":"cli","tool":"x","exit_code":0,"stdout":"fine","stderr":"","expect":{"class":"auth"}}"#;
    world.write("good", &format!("{good}\n{both}\n"));
    world.write("bad", &format!("{good}\n{bad}\n"));
    let said = world.halfopen(&["classify", "--corpus", "good", "--json"]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert_eq!(said.out.lines().count(), 3, "one line for each exit code of `b`: {}", said.out);
    let said = world.halfopen(&["classify", "--corpus", "bad"]);
    assert_eq!(said.code, Some(1));
    assert!(said.out.contains("c: expected auth, found success"), "{}", said.out);
    assert!(said.out.contains("classes right: 1 of 2 (50.0 %)"), "{}", said.out);
}

/// Every labelled case that the project keeps comes out through the command, with dates, zones and both exit codes.
#[test]
fn every_labelled_case_comes_out_as_labelled() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../halfopen-core/tests/cases");
    let world = World::new();
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        let said = world.halfopen(&["classify", "--corpus", file.to_str().unwrap()]);
        assert_eq!(said.code, Some(0), "{}:\n{}{}", file.display(), said.out, said.err);
        files += 1;
    }
    assert!(files >= 6, "{files} files of cases");
}

#[test]
fn an_unknown_outcome_becomes_a_rule_that_check_takes() {
    let world = World::new();
    world.write("err", "ocrd: the drum is jammed (tray 4711)\n");
    let said = world.halfopen(&["classify", "--stderr", "err", "--suggest"]);
    assert!(said.out.starts_with("classify:\n  - name: the-drum-is-jammed\n"), "{}{}", said.out, said.err);
    let rule = said.out.replace("\n", "\n    ");
    world.write("policy.yaml", &format!("dependency_guard:\n    name: ocr\n    {rule}\n"));
    let checked = world.halfopen(&["check", "policy.yaml"]);
    assert_eq!(checked.code, Some(0), "{}{}", checked.out, checked.err);
    let said = world.halfopen(&["classify", "--policy", "policy.yaml", "--dep", "ocr", "--stderr", "err", "--json"]);
    assert!(said.out.contains("\"rule\":\"own/the-drum-is-jammed\""), "{}", said.out);
}

#[test]
fn nothing_to_classify_is_a_usage_error() {
    let world = World::new();
    assert_eq!(world.halfopen(&["classify"]).code, Some(64));
    assert_eq!(world.halfopen(&["classify", "--http", "missing"]).code, Some(64));
    assert_eq!(world.halfopen(&["classify", "--profile", "nope", "--exit-code", "1"]).code, Some(78));
}
