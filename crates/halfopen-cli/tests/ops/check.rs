//! `check` and `schema`: a policy file is explained.

use crate::world::World;

const BLOCK: &str = "dependency_guard:
  name: document-ocr
  timeout_ms: 8000
  retry:
    max_attempts: 2
    backoff: exponential
    jitter: true
    honor_retry_after: true
  circuit:
    failure_window_sec: 60
    open_after_failures: 5
    open_for_sec: 120
    half_open_max_calls: 2
    close_after_successes: 2
  on_open:
    action: queue
    queue_ttl_min: 30
    user_message: processing_delayed
    alert_owner: platform-oncall
";

#[test]
fn the_block_of_the_design_passes_with_remarks() {
    let world = World::new();
    world.write("policy.yaml", BLOCK);
    let said = world.halfopen(&["check", "policy.yaml"]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.err.contains("policy.yaml is good: 1 dependency, 2 warnings"), "{}", said.err);
    assert_eq!(world.halfopen(&["check", "policy.yaml", "--strict"]).code, Some(1));
    let production = world.halfopen(&["check", "policy.yaml", "--production"]);
    assert_eq!(production.code, Some(78));
    assert!(production.out.contains("has no `runbook`, which production demands"), "{}", production.out);
}

#[test]
fn a_mistake_is_shown_with_file_line_column_and_caret() {
    let world = World::new();
    world.write(
        "policy.yaml",
        "dependency_guard:\n  name: ocr\n  circuit:\n    open_for_sec: 30s\n    opne_after_failures: 0\n",
    );
    let said = world.halfopen(&["check", "policy.yaml"]);
    assert_eq!(said.code, Some(78));
    insta::assert_snapshot!(format!("{}---\n{}", said.out, said.err));
    let json = world.halfopen(&["check", "policy.yaml", "--json"]);
    assert_eq!(json.code, Some(78));
    let json = json.json();
    assert_eq!(
        (&json["errors"], &json["findings"][0]["line"], &json["findings"][0]["column"]),
        (&2.into(), &4.into(), &19.into())
    );
    assert_eq!(json["findings"][0]["key"], "dependency_guard.circuit.open_for_sec");
}

#[test]
fn check_takes_the_file_of_the_folder_and_the_others_do_not() {
    let world = World::new();
    world.write("halfopen.yaml", "dependency_guard: {name: ocr, timeout_ms: 0}\n");
    assert_eq!(world.halfopen(&["check"]).code, Some(78));
    assert_eq!(world.halfopen(&["status", "--json"]).code, Some(0));
    world.write(".config/halfopen/halfopen.yaml", "dependency_guard: {name: ocr}\n");
    let own = world.halfopen(&["check"]);
    assert_eq!(own.code, Some(0), "a person's own policy comes first: {}", own.out);
    let mut named = world.command(&["check"]);
    assert_eq!(World::said(named.env("HALFOPEN_POLICY", "halfopen.yaml")).code, Some(78));
    let mut elsewhere = world.command(&["check"]);
    assert_eq!(World::said(elsewhere.env("XDG_CONFIG_HOME", world.path("empty"))).code, Some(78));
}

#[test]
fn a_policy_with_errors_stops_every_command_that_needs_it() {
    let world = World::new();
    world.write("policy.yaml", "dependency_guard: {name: ocr, timeout_ms: 0}\n");
    let said = world.halfopen(&["status", "--policy", "policy.yaml"]);
    assert_eq!((said.code, said.out.as_str()), (Some(78), ""));
    assert!(said.err.contains("policy.yaml:1:43") && said.err.contains("has 1 error"), "{}", said.err);
    assert!(said.err.contains("hint: halfopen check policy.yaml "), "{}", said.err);
    let ran = world.halfopen(&["run", "--policy", "policy.yaml", "--", "true"]);
    assert_eq!(ran.code, Some(78));
    assert!(ran.err.contains("hint: halfopen check policy.yaml\n"), "{}", ran.err);
    let absent = world.halfopen(&["status", "--policy", "absent.yaml"]);
    assert_eq!(absent.code, Some(78));
    assert!(absent.err.contains("absent.yaml cannot be read"), "{}", absent.err);
}

#[test]
fn without_a_file_there_is_nothing_wrong() {
    let world = World::new();
    let said = world.halfopen(&["check", "--strict"]);
    assert_eq!(said.code, Some(0));
    assert!(said.err.contains("the built-in policy holds"), "{}", said.err);
    assert_eq!(world.halfopen(&["check", "--json"]).json()["findings"], serde_json::json!([]));
}

/// S083: the calls of the last week tell what a file cannot.
#[test]
fn a_threshold_that_the_observed_calls_cannot_reach_is_warned_about() {
    let world = World::new();
    let policy = "dependency_guard: {name: ocr, circuit: {failure_window_sec: 600, open_after_failures: 3}}\n";
    world.write("policy.yaml", policy);
    let one = halfopen::activation::Figures { calls: 1, ..Default::default() };
    for hour in 1..=24 {
        world.ran("ocr", &one, &[], std::time::Duration::from_secs(hour * 3_600));
    }
    let said = world.halfopen(&["check", "policy.yaml", "--strict"]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.contains("`ocr` made at most 1 calls within 10 min"), "{}", said.out);
}

#[test]
fn the_schema_is_json() {
    let said = World::new().halfopen(&["schema"]);
    assert_eq!(said.json()["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

#[test]
fn the_examples_pass_the_strictest_check_and_guard_a_command() {
    let world = World::new();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let file = path.to_str().unwrap();
        let said = world.halfopen(&["check", "--strict", file]);
        assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
        let config = halfopen::config::Config::check(&path, halfopen::config::Demand::Usable).unwrap().0;
        for name in config.dependencies.keys() {
            let ran = world.halfopen(&["run", "--policy", file, "--dep", name, "--", "true"]);
            assert_eq!(ran.code, Some(0), "{file} {name}: {}", ran.err);
        }
        seen += 1;
    }
    assert!(seen >= 3);
}

#[test]
fn a_probe_that_the_gateway_would_not_run_is_warned_about() {
    let world = World::new();
    let file = |upstream: &str| format!("dependency_guard:\n  name: ocr\n  probe: [\"true\"]\n{upstream}");
    world.write("policy.yaml", &file("  upstream: http://127.0.0.1:1\n"));
    let said = world.halfopen(&["check", "policy.yaml"]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.out.contains("`probe` is a command, which `halfopen serve` does not run"), "{}{}", said.out, said.err);
    world.write("policy.yaml", &file(""));
    assert!(!world.halfopen(&["check", "policy.yaml"]).out.contains("`probe` is a command"));
}
