//! What must hold of every embedded pack: each rule can be used, has examples both ways, and they come out.

use super::packs::{PACKS, Pack};
use super::raw::RawPack;
use super::rule::{Rule, Test};
use super::{Classifier, examples};
use crate::outcome::Exit;
use crate::time::{ReadAt, Timestamp};
use crate::verdict::Class;
use std::time::Duration;
use test_case::test_case;

fn written(name: &str) -> RawPack {
    let (_, text) = SOURCES.iter().find(|(pack, _)| *pack == name).expect("every pack has its source");
    serde_saphyr::from_str(text).expect("the build script has read it")
}

include!(concat!(env!("OUT_DIR"), "/sources.rs"));

#[test]
fn every_pack_says_what_it_is_for_and_what_it_rests_on() {
    for pack in PACKS {
        let raw = written(pack.name);
        assert!(!raw.about.is_empty() && !raw.sources.is_empty(), "{}: about, sources", pack.name);
        assert_eq!(raw.checked.len(), 10, "{}: checked", pack.name);
        Pack::new(&raw, false).unwrap_or_else(|error| panic!("{}: {error}", pack.name));
    }
}

#[test]
fn every_expression_about_lines_of_output_can_be_compiled() {
    for pack in PACKS {
        let output = written(pack.name).output;
        for line in output.error_lines.iter().chain(&output.continuation_lines).chain(&output.noise_lines) {
            let checked = Test::new(line, "output").and_then(|test| test.check("output"));
            checked.unwrap_or_else(|error| panic!("{}: {error}", pack.name));
        }
    }
}

#[test]
fn every_rule_of_every_pack_can_be_used() {
    for pack in PACKS {
        let raw = written(pack.name);
        let mut names = std::collections::BTreeSet::new();
        for rule in &raw.rules {
            assert!(names.insert(&rule.name), "{}/{}: twice", pack.name, rule.name);
            let read = Rule::new(pack.name, rule).and_then(|rule| rule.check().map(|()| rule));
            read.unwrap_or_else(|error| panic!("{}/{}: {error}", pack.name, rule.name));
        }
        assert_eq!(pack.rules().len(), raw.rules.len(), "{}: none is lost on the way", pack.name);
    }
}

#[test]
fn every_rule_of_every_pack_has_examples_both_ways() {
    for pack in PACKS {
        for rule in &written(pack.name).rules {
            let both = !rule.examples.speaks.is_empty() && !rule.examples.silent.is_empty();
            assert!(both, "{}/{}", pack.name, rule.name);
        }
    }
}

#[test]
fn every_example_comes_out_as_its_rule_says() {
    let mut wrong = Vec::new();
    for pack in PACKS {
        let classifier = Classifier::new(pack.name, Vec::new()).expect("it is embedded");
        for rule in &written(pack.name).rules {
            let failures = examples::failures(&classifier, pack.name, rule);
            wrong.extend(failures.into_iter().map(|failure| format!("{}/{}: {failure}", pack.name, rule.name)));
        }
    }
    assert!(wrong.is_empty(), "{} examples:\n{}", wrong.len(), wrong.join("\n"));
}

/// A pack says where the account and the model stand; the verdict carries the bare values.
#[test]
fn an_answer_names_its_account_and_its_model() {
    let outcome = crate::outcome::HttpOutcome {
        method: "POST",
        status: 429,
        headers: &[("openai-model", "gpt-4o-2024"), ("OpenAI-Organization", "org-example")],
        body: crate::outcome::Excerpt::whole(br#"{"error":{"code":"rate_limit_exceeded","message":"Slow down"}}"#),
        reached: crate::outcome::Reached::Answered,
        elapsed: std::time::Duration::from_secs(1),
    };
    let at = crate::time::ReadAt::utc(crate::time::Timestamp::from_millis(1_800_000_000_000));
    let verdict = Classifier::new("openai", Vec::new()).expect("it is embedded").http(&outcome, &at);
    assert_eq!(verdict.account.as_deref(), Some("org-example"));
    assert_eq!(verdict.model.as_deref(), Some("gpt-4o-2024"));
}

/// What [`Classifier::suspects`] knows and what judges must not drift apart: whatever an example of any pack shows as a
/// failure behind a status of success is suspect.
#[test]
fn nothing_that_is_judged_a_failure_is_above_suspicion() {
    let at = crate::time::ReadAt::utc(crate::time::Timestamp::from_millis(1_800_000_000_000));
    let mut failures = 0;
    for pack in PACKS {
        let classifier = Classifier::new(pack.name, Vec::new()).expect("it is embedded");
        let rules = written(pack.name).rules;
        let examples = rules.iter().flat_map(|rule| rule.examples.speaks.iter().chain(&rule.examples.silent));
        for example in examples.filter(|example| !example.body.is_empty()) {
            for content_type in ["application/json", "text/xml"] {
                let outcome = crate::outcome::HttpOutcome {
                    method: "POST",
                    status: 200,
                    headers: &[("content-type", content_type)],
                    body: crate::outcome::Excerpt::whole(example.body.as_bytes()),
                    reached: crate::outcome::Reached::Answered,
                    elapsed: std::time::Duration::ZERO,
                };
                if classifier.http(&outcome, &at).class != crate::verdict::Class::Success {
                    failures += 1;
                    assert!(classifier.suspects(example.body.as_bytes()), "{}: {}", pack.name, example.body);
                }
            }
        }
    }
    assert!(failures > 300, "only {failures} bodies were judged failures");
}

/// What a pack's `fails_when` rests on is found by the quick look, so that its answers need not be judged in full.
#[test]
fn what_a_pack_fails_by_is_suspect_in_itself() {
    use super::raw::RawCondition;
    for pack in PACKS {
        let classifier = Classifier::new(pack.name, Vec::new()).expect("it is embedded");
        for condition in written(pack.name).fails_when {
            let words: Vec<String> = match &condition {
                RawCondition::Json(test) => test.path.split('.').map(|member| format!("\"{member}\"")).collect(),
                RawCondition::Body(test) => test.starts.0.iter().chain(&test.says.0).cloned().collect(),
                // Of commands, whose output is never looked at so quickly.
                RawCondition::Stdout(_) | RawCondition::Stderr(_) | RawCondition::Event(_) | RawCondition::Exit(_) => {
                    continue;
                }
                other => panic!("{}: fails_when of an answer is about its body, not {other:?}", pack.name),
            };
            let words: Vec<String> = words.into_iter().map(|word| word.replace("[]", "")).collect();
            assert!(words.iter().any(|word| classifier.suspects(word.as_bytes())), "{}: {words:?}", pack.name);
        }
    }
}

/// Over HTTP an overload proves nothing about what was done, unless the pack says so; a rate limit does.
#[test]
fn an_overload_over_http_leaves_the_end_unknown() {
    let at = crate::time::ReadAt::utc(crate::time::Timestamp::from_millis(1_800_000_000_000));
    let verdict = |pack: &str, status: u16, body: &str| {
        let outcome = crate::outcome::HttpOutcome {
            method: "POST",
            status,
            headers: &[("content-type", "application/json")],
            body: crate::outcome::Excerpt::whole(body.as_bytes()),
            reached: crate::outcome::Reached::Answered,
            elapsed: std::time::Duration::from_secs(1),
        };
        let verdict = Classifier::new(pack, Vec::new()).expect("it is embedded").http(&outcome, &at);
        (verdict.class.as_str(), verdict.reached)
    };
    use crate::outcome::Reached;
    assert_eq!(verdict("generic", 503, "{}"), ("overloaded", Reached::Unknown));
    assert_eq!(verdict("anthropic", 529, "{}"), ("overloaded", Reached::Unknown));
    assert_eq!(verdict("generic", 429, "{}"), ("rate_limited", Reached::Refused));
    assert_eq!(verdict("twilio", 429, "{}").1, Reached::Refused);
}

#[test]
fn a_tool_finds_its_pack() {
    assert_eq!(super::profile_for_command("claude"), "claude-code");
    assert_eq!(super::profile_for_command("no-such-tool"), "generic");
    assert_eq!(super::profile_for_tool("claude-code+kimi"), "claude-code");
    assert_eq!(super::profile_for_host("api.example.invalid"), "generic");
}

#[test]
fn every_pack_is_found_by_its_name() {
    for pack in PACKS {
        assert_eq!(super::packs::embedded(pack.name).map(|found| found.name), Some(pack.name));
    }
}

#[test]
fn a_pattern_of_hosts_begins_at_a_border() {
    for pack in PACKS {
        for host in pack.hosts.iter().filter(|host| host.contains('*')) {
            assert!(host.starts_with("*.") || host.starts_with("*-"), "{}: {host}", pack.name);
        }
    }
}

#[test]
fn no_two_packs_claim_the_same_name_or_host() {
    let mut claimed = std::collections::BTreeMap::new();
    for pack in PACKS {
        let kinds = [("alias", pack.aliases), ("command", pack.commands), ("host", pack.hosts)];
        for (kind, name) in kinds.iter().flat_map(|(kind, names)| names.iter().map(move |name| (*kind, *name))) {
            let before = claimed.insert((kind, name), pack.name);
            assert_eq!(before.unwrap_or(pack.name), pack.name, "{kind} {name}");
        }
    }
}

#[test_case("api.github.com", "github")]
#[test_case("sheets.googleapis.com", "google")]
#[test_case("generativelanguage.googleapis.com", "gemini")]
#[test_case("search-x.eu-west-1.es.amazonaws.com", "elasticsearch"; "the longest pattern wins")]
#[test_case("acme.myshopify.com", "shopify")]
#[test_case("acme.openai.azure.com", "azure-openai")]
#[test_case("acme.blob.core.windows.net", "azure")]
#[test_case("graph.microsoft.com.", "microsoft-graph")]
#[test_case("myshopify.com.example.org", "generic")]
fn a_host_finds_its_pack(host: &str, pack: &str) {
    assert_eq!(super::profile_for_host(host), pack);
}

/// DESIGN section 3: the way of a success costs no matching. A pack that must look at its successes says so itself.
#[test]
fn success_loads_no_rules_where_exit_0_is_trusted() {
    let at = ReadAt::utc(Timestamp::from_millis(0));
    let mut trusting = 0;
    for name in super::profiles() {
        let classifier = Classifier::new(name, Vec::new()).unwrap();
        let mut ear = classifier.listen();
        ear.stdout(b"error: HTTP 429, try again in 20 s\n");
        let verdict = ear.finish(Exit::Code(0), Duration::from_secs(1), &at);
        if !classifier.looks_at_success() {
            assert_eq!(verdict.class, Class::Success, "{name}");
            assert!(classifier.rules_if_loaded().is_none(), "{name}");
            trusting += 1;
        }
    }
    assert!(trusting > 1 && !Classifier::new("generic", Vec::new()).unwrap().looks_at_success());
}
