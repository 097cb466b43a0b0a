//! Which policies are green, and which are red.

use test_case::test_case;

use crate::world::{DOCUMENT_OCR, Said, World, examples};

fn is_green(said: &Said) {
    let failed: Vec<_> = said.rows().into_iter().filter(|(_, verdict, _)| verdict == "fail").collect();
    assert!(failed.is_empty(), "{failed:#?}\n{}", said.err);
    assert_eq!(said.code, Some(0), "{}", said.err);
}

#[test]
fn the_documented_policy_is_green() {
    let said = World::new().drill_policy(DOCUMENT_OCR, &["--json"]);
    is_green(&said);
    assert_eq!(said.with("n/a"), ["C4 error inside a success", "E3 cheap probe"]);
}

#[test]
fn the_built_in_policy_is_green() {
    is_green(&World::new().drill(&["--json"]));
}

#[test_case("document-ocr.yaml")]
#[test_case("agents.yaml")]
#[test_case("outside-services.yaml")]
#[test_case("serve.yaml")]
fn every_example_is_green(file: &str) {
    let file = examples().join(file).display().to_string();
    is_green(&World::new().drill(&["--json", "--policy", &file]));
}

#[test]
fn every_policy_among_the_examples_is_drilled() {
    let mut files: Vec<String> = std::fs::read_dir(examples())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".yaml"))
        .collect();
    files.sort();
    assert_eq!(files, ["agents.yaml", "document-ocr.yaml", "outside-services.yaml", "serve.yaml"]);
}

/// A policy for the gateway is spoken to by HTTP, with the defaults of the gateway.
#[test]
fn a_gateway_policy_is_green() {
    let policy = "dependency_guard:\n  name: llm\n  upstream: https://api.openai.com/v1\n";
    let said = World::new().drill_policy(policy, &["--json"]);
    is_green(&said);
    assert!(said.with("pass").contains(&"C4 error inside a success".to_owned()), "a stream is looked into");
}

/// Jobs are drilled wherever a policy queues, whatever else it says about them.
#[test_case("  upstream: https://api.openai.com/v1\n  on_open: {action: queue, queue_ttl_min: 60}\n"; "through the gateway")]
#[test_case("  on_open: {action: [queue, fail_fast], queue_ttl_min: 30, on_expiry: expired}\n"; "expired jobs are only noted")]
#[test_case("  on_open: {action: queue}\n  replay: always\n"; "no time to live, and safe to repeat")]
#[test_case("  on_open: {action: queue, queue_ttl_min: 600}\n  drain: {rate_per_sec: 0.5, max_per_sec: 1}\n"; "a slow drain")]
#[test_case("  on_open: {action: queue, queue_ttl_min: 90}\n  circuit: {half_open_max_calls: 3, close_after_successes: 1}\n"; "more probes than successes are needed")]
fn a_policy_that_queues_is_green(keys: &str) {
    let policy = format!("dependency_guard:\n  name: ocr\n  timeout_ms: 8000\n{keys}");
    let said = World::new().drill_policy(&policy, &["--json"]);
    is_green(&said);
    assert!(said.with("pass").contains(&"A0 whole story".to_owned()), "{:?}", said.rows());
}

/// A cheap probe goes before real work, and without it a row notices.
#[test]
fn a_policy_with_a_cheap_probe_is_green_and_needs_it() {
    let policy = "dependency_guard:\n  name: ocr\n  timeout_ms: 8000\n  probe: [\"ocr\", \"--ping\"]\n";
    let world = World::new();
    let said = world.drill_policy(policy, &["--json", "--row", "E3"]);
    assert_eq!(said.with("pass"), ["E3 cheap probe"], "{}", said.out);
    let mutants = world.drill_policy(policy, &["--mutate", "--json", "--row", "E3"]).json();
    let skipped =
        mutants["mutants"].as_array().unwrap().iter().find(|one| one["name"] == "cheap probe skipped").unwrap();
    assert_eq!((&skipped["result"], &skipped["row"]), (&"killed".into(), &"E3 cheap probe".into()));
}

/// What stays allowed and does not protect: `check` accepts each of these.
#[test_case("A6", "  circuit: {failure_window_sec: 1, open_after_failures: 100}\n"; "a window in which so many cannot come together")]
#[test_case("A2", "  classify:\n  - {name: calm, class: invalid_request, when: [{status: [503]}]}\n"; "an own rule that talks an outage away")]
#[test_case("B1", "  retry: {deadline_sec: 1}\n"; "a deadline that leaves no time for a wait")]
fn a_policy_that_does_not_protect_is_red(row: &str, keys: &str) {
    let world = World::new();
    let policy = format!("dependency_guard:\n  name: ocr\n  timeout_ms: 8000\n{keys}");
    let said = world.drill_policy(&policy, &["--json"]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    let failed = said.with("fail");
    assert!(failed.iter().any(|name| name.starts_with(row)), "{failed:?}");
}

#[test]
fn a_policy_that_cannot_be_used_is_said_to_be_so() {
    let said = World::new().drill_policy("dependency_guard:\n  name: ocr\n  timeout_sec: 3\n", &[]);
    assert_eq!(said.code, Some(78));
    assert!(said.err.contains("timeout_sec"), "{}", said.err);
    assert_eq!(said.out, "");
}

#[test]
fn an_unknown_dependency_is_a_slip_of_the_pen() {
    let said = World::new().drill_policy(DOCUMENT_OCR, &["--dep", "document-orc"]);
    assert_eq!(said.code, Some(64));
    assert!(said.err.contains("known are document-ocr"), "{}", said.err);
}

#[test]
fn a_policy_in_the_current_folder_is_taken() {
    let world = World::new();
    world.write("halfopen.yaml", DOCUMENT_OCR);
    assert!(world.drill(&["--row", "A1"]).out.starts_with("document-ocr\n"));
}
