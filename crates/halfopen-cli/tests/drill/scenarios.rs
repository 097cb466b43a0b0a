//! Scenarios of a user's own.

use test_case::test_case;

use crate::world::{DOCUMENT_OCR, Said, World};

const OWN: &str = "\
row: Z1 two in a row
injected: \"500 to the first two of {half_open_max_calls + 1} calls\"
expected: the third succeeds
dependency:
- {answer: server_error}
- {from: 10s, answer: ok}
calls:
- {name: first, count: 2, every: 1s, attempts: 1}
- {name: third, at: 11s}
expect:
- opens: {is: 0}
- ends: {of: third, as: [success]}
";

fn with(scenario: &str) -> Said {
    let world = World::new();
    let file = world.write("own.yaml", scenario).display().to_string();
    world.drill_policy(DOCUMENT_OCR, &["--scenario", &file, "--row", "Z1", "--json"])
}

#[test]
fn a_scenario_of_ones_own_is_a_row_like_any_other() {
    let said = with(OWN);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert_eq!(said.json()["rows"][0]["injected"], "500 to the first two of 3 calls");
}

#[test]
fn a_scenario_that_expects_something_else_is_red_and_says_what_was_seen() {
    let said = with(&OWN.replace("opens: {is: 0}", "opens: {is: 1}"));
    assert_eq!(said.code, Some(1));
    assert_eq!(said.json()["rows"][0]["seen"], "opened never, not 1");
}

#[test_case("expect:", "expects:", "expects"; "an unknown key")]
#[test_case("server_error", "sever_error", "sever_error"; "an unknown answer")]
#[test_case("at: 11s", "at: openend + 1s", "openend"; "an unknown instant")]
#[test_case("at: 11s", "at: open_for + 3", "mixes times and plain numbers"; "a number without a unit")]
#[test_case("at: 11s", "at: 11 parsecs", "parsecs"; "an unknown unit")]
#[test_case("as: [success]", "as: [succes]", "succes"; "an unknown end")]
#[test_case("count: 2", "count: 20000", "20000"; "too many calls")]
#[test_case("calls:", "processes: 3\ncalls:", "store: file"; "several processes without a file")]
fn a_mistake_in_a_scenario_is_named(right: &str, wrong: &str, says: &str) {
    let said = with(&OWN.replace(right, wrong));
    assert_eq!(said.code, Some(64), "{}{}", said.out, said.err);
    assert!(said.err.contains(says), "{}", said.err);
    assert!(said.err.contains("docs/drill.md"), "{}", said.err);
}

#[test]
fn a_scenario_that_is_not_there_is_named() {
    let said = World::new().drill(&["--scenario", "nowhere.yaml"]);
    assert_eq!(said.code, Some(74));
    assert!(said.err.contains("nowhere.yaml"), "{}", said.err);
}

/// Workers take what was queued; without any, it lies there.
#[test_case("workers:\n- {at: 1s}\n", "pass", "jobs of batch: 3 done")]
#[test_case("", "fail", "jobs of batch: 3 queued")]
fn what_becomes_of_queued_calls_can_be_asked(workers: &str, verdict: &str, seen: &str) {
    let said = with(&format!(
        "row: Z1 queued\ninjected: nothing\nexpected: done\ndependency:\n- answer: ok\n\
         calls:\n- {{name: batch, count: 3, queued: true}}\n{workers}expect:\n- jobs: {{of: batch, are: done}}\n"
    ));
    let row = &said.json()["rows"][0];
    assert_eq!((row["verdict"].as_str(), row["seen"].as_str()), (Some(verdict), Some(seen)));
}

/// A check that speaks of an instant that never comes is a failure and no success.
#[test]
fn what_never_comes_is_not_passed_over() {
    let said = with(&OWN.replace("opens: {is: 0}", "sent: {after: recovered, count: {is: 0}}"));
    assert_eq!(said.code, Some(1));
    assert_eq!(said.json()["rows"][0]["seen"], "`recovered` never came");
}
