//! `report`: what the protection did, zeros included.

use std::time::Duration;

use halfopen::activation::Figures;
use serde_json::json;
use test_case::test_case;

use crate::world::World;

const AN_HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn figures_are_added_up_and_zeros_are_shown() {
    let world = World::new();
    world.write("policy.yaml", "dependencies: [{name: ocr}, {name: never-called}]\n");
    world.ran("ocr", &Figures { calls: 2, rate_limited: 1, ..Default::default() }, &[], AN_HOUR);
    world.ran(
        "ocr",
        &Figures { calls: 1, waits: 3, unclassified: 1, failed: 1, ..Default::default() },
        &["boom"],
        AN_HOUR,
    );
    world.ran("ocr", &Figures { calls: 9, ..Default::default() }, &[], 48 * AN_HOUR);
    let list = world.halfopen(&["report", "--json", "--policy", "policy.yaml"]).json();
    let zeros = json!({
        "dependency": "never-called", "calls": 0, "rate_limited": 0, "overloaded": 0, "hints_read": 0, "waits": 0,
        "opened": 0, "refused": 0, "degraded": 0, "probes": 0, "queued": 0, "drained": 0, "expired": 0,
        "unclassified": 0, "unclassified_lines": [],
    });
    assert_eq!(list[0], zeros);
    assert_eq!((&list[1]["calls"], &list[1]["waits"]), (&json!(3), &json!(3)));
    assert_eq!(list[1]["unclassified_lines"], json!(["boom"]));
    let longer = world.halfopen(&["report", "--json", "--since", "3d"]).json();
    assert_eq!(longer[0]["calls"], 12);
    let text = world.halfopen(&["report", "--policy", "policy.yaml"]).out;
    assert!(text.lines().next().unwrap().contains("never-called"), "{text}");
    assert!(text.contains("1 × boom"), "{text}");
    let failed: Vec<&str> = text.lines().find(|line| line.starts_with("failed ")).unwrap().split_whitespace().collect();
    assert_eq!(failed, ["failed", "0", "1"], "what has no figure of its own is seen there: {text}");
}

/// A folder may hold two stores: a trial beside the real one, two teams of a machine.
#[test]
fn two_stores_in_one_folder_are_reported_apart() {
    let world = World::new();
    for (store, dependency, times) in [("a.db", "ocr", 1), ("b.db", "crm", 2)] {
        for _ in 0..times {
            let ran = world.halfopen(&["run", "--store", store, "--dep", dependency, "--", "true"]);
            assert_eq!(ran.code, Some(0), "{}", ran.err);
        }
    }
    for (store, dependency, calls) in [("a.db", "ocr", 1), ("b.db", "crm", 2), ("./b.db", "crm", 2)] {
        let list = world.halfopen(&["report", "--store", store, "--json"]).json();
        let found: Vec<_> = list.as_array().unwrap().iter().map(|line| (&line["dependency"], &line["calls"])).collect();
        assert_eq!(found, [(&json!(dependency), &json!(calls))], "{store}");
    }
}

#[test]
fn sixty_runs_at_once_leave_sixty_lines() {
    let world = World::new();
    let children: Vec<_> =
        (0..60).map(|_| world.command(&["run", "--dep", "batch", "--", "true"]).spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let list = world.halfopen(&["report", "--json", "--check"]);
    assert_eq!((list.code, list.json()[0]["calls"].clone()), (Some(0), json!(60)), "{}", list.err);
    assert!(!list.err.contains("could not be read"), "{}", list.err);
}

#[test]
fn a_command_whose_failures_nobody_knows_is_noticed() {
    let world = World::new();
    let ran = world.halfopen(&["run", "--dep", "odd", "--", "sh", "-c", "echo 'it broke, somehow' >&2; exit 3"]);
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    let report = world.halfopen(&["report", "--check"]);
    assert_eq!(report.code, Some(1), "{}", report.err);
    assert!(report.out.contains("1 × it broke, somehow"), "{}", report.out);
}

#[test]
fn no_line_at_all_is_said_with_its_likely_cause() {
    let said = World::new().halfopen(&["report"]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""));
    assert!(said.err.contains("activation.jsonl") && said.err.contains("hint: nothing is guarded"), "{}", said.err);
}

/// A monitor must hear of a protection that is not there.
#[test_case(None, None, 1; "no file at all")]
#[test_case(Some(25), None, 1; "only lines from before")]
#[test_case(Some(1), None, 0; "a line")]
#[test_case(None, Some("dependency_guard: {name: ocr}\n"), 1; "a dependency of which nothing is expected")]
fn no_line_at_all_fails_the_check(hours: Option<u32>, policy: Option<&str>, code: i32) {
    let world = World::new();
    if let Some(hours) = hours {
        world.ran("ocr", &QUIET, &[], hours * AN_HOUR);
    }
    let mut words = vec!["report", "--check"];
    if let Some(policy) = policy {
        world.write("policy.yaml", policy);
        words.extend(["--policy", "policy.yaml"]);
    }
    for json in [&[][..], &["--json"]] {
        let said = world.halfopen(&[&words[..], json].concat());
        assert_eq!(said.code, Some(code), "{}", said.err);
        let clear = "during the last 1 d: nothing is guarded, or it runs under another HOME or --store";
        assert_eq!(said.err.contains(clear), code == 1, "{}", said.err);
    }
}

const QUIET: Figures = Figures {
    calls: 10,
    rate_limited: 0,
    overloaded: 0,
    hints_read: 0,
    waits: 0,
    opened: 0,
    refused: 0,
    degraded: 0,
    probes: 0,
    queued: 0,
    drained: 0,
    expired: 0,
    unclassified: 0,
    failed: 0,
};

#[test_case(&[(1, QUIET)], 0, ""; "calls without a failure")]
#[test_case(&[(1, Figures { unclassified: 2, failed: 2, ..QUIET })], 1, "0 of 2 failures were recognised"; "no failure recognised")]
#[test_case(&[(1, Figures { unclassified: 2, failed: 9, ..QUIET })], 0, ""; "some failures recognised")]
#[test_case(&[(20, Figures { unclassified: 1, failed: 9, ..QUIET }), (1, Figures { unclassified: 4, failed: 9, ..QUIET })], 1, "are growing, from 1"; "growing")]
#[test_case(&[(20, Figures { unclassified: 4, failed: 9, ..QUIET }), (1, Figures { unclassified: 4, failed: 9, ..QUIET })], 0, ""; "not growing")]
#[test_case(&[(20, Figures { unclassified: 1, failed: 9, ..QUIET }), (1, Figures { calls: 90, unclassified: 4, failed: 9, ..QUIET })], 0, ""; "more only because more was called")]
#[test_case(&[(30, QUIET)], 1, "no call during the last 1 d 2 h"; "silence")]
#[test_case(&[(1, Figures { calls: 0, ..QUIET })], 1, "no call during the last 1 d 2 h"; "a run without a call is silence too")]
#[test_case(&[(25, QUIET)], 0, ""; "a call within what is expected, but before what was asked for")]
fn check_exits_with_1_on_what_a_monitor_must_know(runs: &[(u32, Figures)], code: i32, said: &str) {
    let world = World::new();
    world.write("policy.yaml", "dependency_guard: {name: ocr, expect_calls_every: 26h}\n");
    for (hours, figures) in runs {
        world.ran("ocr", figures, &[], *hours * AN_HOUR);
    }
    let answer = world.halfopen(&["report", "--check", "--policy", "policy.yaml"]);
    assert_eq!(answer.code, Some(code), "{}", answer.err);
    assert!(answer.err.contains(said), "{}", answer.err);
}
