//! The policy file as its writer meets it: what is taken, what is refused, what is said.

use std::path::Path;
use std::time::Duration;

use halfopen::config::keys::{KEYS, Key, Kind};
use halfopen::config::{Config, ConfigError, Demand, Finding, Level};
use halfopen::core::classify::raw::{RawCondition, RawExample, RawRule, RawTest};
use halfopen::core::policy::{Jitter, OnOpenAction, Policy, Surface};
use test_case::test_case;

/// The block of the design, to the letter.
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

fn parse(text: &str) -> Result<(Config, Vec<Finding>), ConfigError> {
    Config::parse(text, Path::new("halfopen.yaml"), None, Demand::Usable)
}

fn findings(text: &str, demand: Demand) -> Vec<Finding> {
    match Config::parse(text, Path::new("halfopen.yaml"), None, demand) {
        Ok((_, findings)) | Err(ConfigError::Invalid { findings, .. }) => findings,
        Err(other) => panic!("{other}"),
    }
}

fn rendered(text: &str) -> String {
    findings(text, Demand::Usable).iter().map(|finding| finding.rendered.as_str()).collect::<Vec<_>>().join("\n")
}

/// One dependency with `line` below it, in which `/` stands for a new level.
fn guard(line: &str) -> String {
    let mut text = String::from("dependency_guard:\n  name: ocr\n");
    let mut indent = 2;
    for part in line.split(" / ") {
        text.push_str(&format!("{:indent$}{part}\n", ""));
        indent += 2;
    }
    text
}

#[test]
fn the_block_of_the_design_is_taken_as_it_stands() -> Result<(), ConfigError> {
    let (config, findings) = parse(BLOCK)?;
    assert!(findings.iter().all(|finding| finding.level < Level::Error));
    let policy = config.dependency("document-ocr", Surface::Run).policy;
    let mut expected = Policy::built_in("document-ocr", Surface::Run);
    expected.timeout = Some(Duration::from_secs(8));
    expected.retry.max_attempts = 2.try_into().expect("above 0");
    expected.circuit.window = Duration::from_secs(60);
    expected.circuit.half_open_max_calls = 2.try_into().expect("above 0");
    expected.circuit.close_after_successes = 2.try_into().expect("above 0");
    expected.on_open.actions = vec![OnOpenAction::Queue];
    expected.on_open.wait = Duration::ZERO;
    expected.on_open.queue_ttl = Some(Duration::from_secs(1800));
    expected.on_open.user_message = Some("processing_delayed".to_owned());
    expected.owner = Some("platform-oncall".to_owned());
    assert_eq!(policy, expected);
    insta::assert_snapshot!(rendered(BLOCK));
    Ok(())
}

#[test]
fn every_mistake_of_a_file_is_reported_with_its_place() {
    insta::assert_snapshot!(rendered(
        "dependency_guard:
  name: ocr
  timeout_ms: 8s
  max_retries: 3
  retry:
    max_attempts: 0
    jiter: true
    jitter: 1.5
  circuit:
    open_after_failures: 5
    open_after_failures: 6
    open_for_sec: '30'
    max_open_for_sec: 10
    cooldown_factor: 0.5
    lease_sec: 30
  on_open:
    action: que
    queue_ttl_min: -5
  expect_calls_every: 30
  queue: 7
alert:
  x: []
"
    ));
}

// S081: values that switch the protection off.
#[test_case("circuit: / open_after_failures: 0", "1 to 1000"; "no failures")]
#[test_case("circuit: / open_after_failures: -1", "1 to 1000"; "fewer than none")]
#[test_case("circuit: / open_after_failures: 1000000", "1 to 1000"; "never reached")]
#[test_case("circuit: / open_after_failures: 2.5", "1 to 1000"; "half a failure")]
#[test_case("circuit: / open_after_failures: '5'", "1 to 1000"; "a count as text")]
#[test_case("circuit: / failure_window_sec: 0", "0.001 to 604800 seconds"; "no window")]
#[test_case("circuit: / open_for_sec: 0", "0.001 to 604800 seconds"; "no cooldown")]
#[test_case("circuit: / open_for_sec: .nan", "0.001 to 604800 seconds"; "not a number")]
#[test_case("circuit: / open_for_sec: .inf", "0.001 to 604800 seconds"; "for ever")]
#[test_case("circuit: / open_for_sec: 1e300", "0.001 to 604800 seconds"; "absurdly long")]
#[test_case("circuit: / open_for_sec: 120s", "0.001 to 604800 seconds"; "a unit too many")]
#[test_case("circuit: / open_for_sec: yes", "0.001 to 604800 seconds"; "a yes for a time")]
#[test_case("circuit: / open_for_sec: [1]", "0.001 to 604800 seconds"; "a list for a time")]
#[test_case("circuit: / max_open_for_sec: 0", "0.001 to 691200 seconds"; "no cap")]
#[test_case("circuit: / half_open_max_calls: 0", "1 to 1000"; "no probes")]
#[test_case("circuit: / close_after_successes: 0", "1 to 1000"; "no successes")]
#[test_case("circuit: / probe_lease_sec: 0", "0.1 to 86400 seconds"; "no probe lease")]
#[test_case("circuit: / cooldown_factor: 0.99", "1 to 100"; "a shrinking cooldown")]
#[test_case("circuit: / cooldown_factor: 1e9", "1 to 100"; "an exploding cooldown")]
#[test_case("circuit: / cooldown_factor: -.inf", "1 to 100"; "minus infinity")]
#[test_case("circuit: / count_unclassified: maybe", "true or false"; "neither true nor false")]
#[test_case("on_open: / queue_ttl_min: 0", "0.001 to 525600 minutes"; "no time to live")]
#[test_case("on_open: / wait_sec: -1", "0 to 691200 seconds"; "a negative wait")]
#[test_case("on_open: / action: []", "queue, manual_review"; "no action")]
#[test_case("on_open: / action: drop", "queue, manual_review"; "an unknown action")]
#[test_case("on_open: / on_expiry: drop", "manual_review or expired"; "an unknown end")]
#[test_case("timeout_ms: 0", "1 to 604800000 milliseconds"; "no timeout")]
#[test_case("timeout_ms: 99999999999999999999999", "1 to 604800000 milliseconds"; "beyond 64 bits")]
#[test_case("drain: / rate_per_sec: 0", "0.001 to 10000"; "no rate")]
#[test_case("drain: / max_per_sec: 0", "0.001 to 10000"; "no highest rate")]
#[test_case("drain: / max_in_flight: 0", "1 to 10000"; "nothing in flight")]
#[test_case("retry: / jitter: 1.5", "true, false, equal, full or none"; "more than all")]
#[test_case("retry: / max_attempts: 0", "1 to 100"; "no attempt")]
#[test_case("retry: / base_ms: 0", "1 to 3600000 milliseconds"; "no base")]
#[test_case("retry: / base_ms: 18446744073709551615", "1 to 3600000 milliseconds"; "the largest base")]
#[test_case("retry: / max_backoff_ms: 0", "1 to 86400000 milliseconds"; "no longest wait")]
#[test_case("retry: / deadline_sec: 0", "0.001 to 691200 seconds"; "no time")]
#[test_case("retry: / backoff: linear", "exponential or constant"; "an unknown growth")]
#[test_case("retry: / budget: / ratio: 20%", "0 to 1"; "a percentage")]
#[test_case("retry: / budget: / per_minute: -1", "0 to 100000"; "a negative budget")]
#[test_case("lease_sec: 0", "0.1 to 86400 seconds"; "no lease")]
#[test_case("hint_ceiling_hours: 0", "0.001 to 8784 hours"; "no ceiling")]
#[test_case("max_partitions: 0", "1 to 10000"; "no partitions")]
#[test_case("journal_keep_days: 0", "0.001 to 3660 days"; "no journal")]
#[test_case("expect_calls_every: 30", "1s to 366d"; "a time without its unit")]
#[test_case("expect_calls_every: 0s", "1s to 366d"; "all the time")]
#[test_case("replay: maybe", "always, if_idempotent or never"; "an unknown replay")]
#[test_case("mode: off", "enforce or observe"; "an unknown mode")]
#[test_case("queue: / max_jobs: 0", "1 to 1000000000"; "an empty queue")]
#[test_case("queue: / max_bytes: 10 GB", "1 KiB to 1024 TiB"; "a decimal unit")]
#[test_case("stdout_hold_bytes_max: -1", "0 bytes to 16 TiB"; "fewer than no bytes")]
#[test_case("upstream: ftp://x", "an http or https URL"; "another scheme")]
#[test_case("upstream: https://user:secret@x", "an http or https URL"; "a secret in a URL")]
#[test_case("split_by: [zone]", "region, credential, model"; "an unknown part")]
#[test_case("order_by: priority", "path, none, header:NAME"; "an unknown order")]
#[test_case("name: a@b", "a name without white space"; "a name that is no name")]
#[test_case("idempotency: / header: 'a b'", "the name of an HTTP header"; "no header")]
#[test_case("probe: 7", "a command as a list of words"; "a number for a command")]
fn a_value_outside_its_range_is_refused_with_the_range(line: &str, range: &str) {
    let text = if line.starts_with("name:") { format!("dependency_guard:\n  {line}\n") } else { guard(line) };
    let findings = findings(&text, Demand::Usable);
    let error = findings.iter().find(|finding| finding.level == Level::Error).expect("an error");
    assert!(error.message.contains(range), "{}", error.message);
    let key = line
        .split(" / ")
        .flat_map(|part| part.split(':'))
        .map(str::trim)
        .filter(|word| text.contains(&format!("{word}: ")))
        .last()
        .unwrap_or("");
    assert!(error.message.contains(key), "{}", error.message);
    assert_eq!(error.line, text.lines().count(), "{}", error.rendered);
    assert!(error.rendered.contains("halfopen.yaml:"), "{}", error.rendered);
    assert!(error.rendered.contains('^'), "{}", error.rendered);
}

#[test_case("circuit: / open_for_sec: 120s", "write 120 (seconds)")]
#[test_case("circuit: / open_for_sec: 2m", "write 120 (seconds)")]
#[test_case("circuit: / open_for_sec: '30'", "write 30 (without quotes)")]
#[test_case("timeout_ms: 8s", "write 8000 (milliseconds)")]
#[test_case("on_open: / queue_ttl_min: 0.5h", "write 30 (minutes)")]
#[test_case("circuit: / open_after_failures: '5'", "write 5 without quotes")]
#[test_case("retry: / budget: / ratio: 20%", "write 0.2")]
#[test_case("expect_calls_every: 30", "write the unit behind it")]
#[test_case("on_open: / action: que", "write queue")]
fn a_slip_of_the_unit_is_answered_with_the_value_to_write(line: &str, help: &str) {
    let findings = findings(&guard(line), Demand::Usable);
    assert!(findings.iter().any(|f| f.help.as_deref().is_some_and(|text| text.contains(help))), "{findings:?}");
}

// S196: any number of successes is reachable with any number of probes. S108: odd backoffs are taken as they are.
#[test_case("circuit: {half_open_max_calls: 1, close_after_successes: 3}")]
#[test_case("circuit: {half_open_max_calls: 3, close_after_successes: 1}")]
#[test_case("circuit: {half_open_max_calls: 2, close_after_successes: 5}")]
#[test_case("circuit: {open_for_sec: 0.5}")]
#[test_case("circuit: {open_for_sec: 7200}"; "the cap gives way where it is not written")]
#[test_case("retry: {base_ms: 1000, max_backoff_ms: 10}"; "the cap cuts the base")]
#[test_case("retry: {jitter: none}")]
#[test_case("retry: {jitter: no}")]
#[test_case("retry:"; "an empty group")]
#[test_case("on_open: {action: [cache, fallback, queue, fail_fast]}")]
#[test_case("probe: curl -fsS https://example.com/health")]
#[test_case("split_by: [region, 'header:X-Tenant', 'argument:--project']")]
#[test_case("runbook: 7")]
fn a_value_that_means_something_is_taken(line: &str) {
    let result = parse(&guard(line));
    assert!(result.is_ok(), "{}", rendered(&guard(line)));
}

#[test]
fn a_cap_below_the_first_cooldown_is_refused() {
    let text = guard("circuit: {open_for_sec: 60, max_open_for_sec: 30}");
    assert!(rendered(&text).contains("less than the first cooldown of 60 seconds"));
    assert!(
        rendered(&guard("circuit: {max_open_for_sec: 30}")).contains("less than the first cooldown of 120 seconds")
    );
}

#[test_case("cache: {max_age_sec: 60}", "`cache` is written, but `on_open.action` never comes to it")]
#[test_case("on_open: {action: [cache, fail_fast]}", "`cache` is an action, but no cache is kept")]
#[test_case(
    "on_open: {action: cache}\n  cache: {max_age_sec: 60}",
    "to a POST its last answer is given only with `replay: always`"
)]
#[test_case("profile: vertex\n  upstream: https://a.example.com", "`profile` is `vertex`, and there is no such pack")]
#[test_case(
    "upstream: https://api.openai.com/v1\n  on_open: {action: queue}",
    "SDKs for `openai` take for a broken answer"
)]
fn what_only_the_gateway_does_is_checked(lines: &str, expected: &str) {
    assert!(rendered(&guard(lines)).contains(expected), "{}", rendered(&guard(lines)));
}

#[test]
fn a_fallback_that_the_gateway_cannot_reach_is_warned_about() {
    let text = |upstream: &str| {
        format!(
            "dependencies:\n- name: a\n  upstream: https://a.example.com\n  on_open: {{action: fallback}}\n  \
             fallback: b\n- name: b\n{upstream}"
        )
    };
    assert!(rendered(&text("")).contains("`b` has no `upstream`, so no call can go there"));
    assert!(!rendered(&text("  upstream: https://b.example.com\n")).contains("no call can go there"));
}

/// S030: an open breaker must outlive any clean-up.
#[test]
fn a_journal_kept_for_less_than_a_cooldown_is_refused() {
    let text = guard("journal_keep_days: 0.01");
    assert!(rendered(&text).contains("error: the journal is kept for 864 seconds"), "{}", rendered(&text));
}

/// S083: a rarely called dependency must be able to trip, or its owner must be told that it cannot.
#[test]
fn a_window_in_which_the_failures_never_come_together_is_noted() {
    let text = guard("{circuit: {open_after_failures: 3, failure_window_sec: 600}, expect_calls_every: 1h}")
        .replace("{circuit", "circuit")
        .replace(", expect", "\n  expect")
        .replace("1h}", "1h");
    assert!(
        rendered(&text).contains("only every 60 min, there are never 3 failures within 10 min"),
        "{}",
        rendered(&text)
    );
}

#[test]
fn what_a_writer_probably_did_not_mean_is_warned_about() {
    insta::assert_snapshot!(without_pack_names(&rendered(
        "dependencies:
- name: a
  timeout_ms: 30000
  retry: {honor_retry_after: false, max_wait_sec: 300, deadline_sec: 60}
  circuit: {failure_window_sec: 60, count_unclassified: true}
  on_open: {action: [fail_fast, queue], queue_ttl_min: 1}
  owner: nobody
- name: b
  profile: openai
  upstream: https://api.example.com
  on_open: {action: [cache, fallback, queue]}
  mode: observe
- name: c
  first_byte_ms: 9000
  timeout_ms: 8000
  on_open: {queue_ttl_min: 5}
  retry: {base_ms: 500, max_backoff_ms: 100}
alerts:
  forgotten: [email: a@example.com]
"
    )));
}

#[test]
fn production_demands_what_a_night_needs() {
    let text = findings(&guard("on_open: {action: queue}"), Demand::Production);
    let missing: Vec<&str> = text.iter().filter(|f| f.level == Level::Error).map(|f| f.message.as_str()).collect();
    assert_eq!(
        missing,
        [
            "`ocr` has no `owner`, which production demands",
            "`ocr` has no `runbook`, which production demands",
            "`ocr` has no `on_open.queue_ttl_min`, which production demands",
        ]
    );
    let whole = "dependency_guard:
  name: ocr
  owner: oncall
  runbook: https://wiki.example.com/ocr
  on_open: {action: fail_fast}
alerts:
  oncall:
  - email: oncall@example.com
  - slack_from_env: SLACK_URL
  - command: [page, ocr]
  - webhook: {url: https://hooks.example.com/x, secret_from_env: HOOK_SECRET}
  - slack: {url_from_env: SLACK_URL}
  - email: {to: [a@example.com, b@example.com], from: c@example.com, smtp_from_env: SMTP_URL}
";
    let said = findings(whole, Demand::Production);
    let said: Vec<_> = said.iter().map(|f| (f.level, f.message.as_str())).collect();
    assert_eq!(said, [], "an owner who can be reached is enough");
    let unreachable = whole.replace("oncall:\n", "someone:\n");
    assert!(findings(&unreachable, Demand::Production).iter().any(|f| f.level == Level::Error));
}

/// Rules under `defaults` judge what the file does not name; without any dependency they are tried all the same.
#[test_case("defaults:\n  classify:\n  - {name: broken, when: [{stderr: {matches: '('}}], class: overloaded}\n", "broken"; "a rule that cannot be used")]
#[test_case("defaults: {profile: nonsense}\n", "nonsense"; "a pack that is not there")]
fn defaults_without_a_dependency_are_checked(text: &str, said: &str) {
    let found = findings(text, Demand::Usable);
    assert!(found.iter().any(|f| f.level == Level::Error && f.message.contains(said)), "{found:?}");
}

#[test]
fn defaults_hold_for_every_dependency_and_for_those_the_file_does_not_name() -> Result<(), ConfigError> {
    let (config, _) = parse(
        "defaults:
  retry: {max_attempts: 4, jitter: full}
  circuit: {open_after_failures: 9}
dependencies:
- name: a
  retry: {max_attempts: 7}
- name: b
store: sqlite:/var/lib/halfopen.db
",
    )?;
    let a = config.dependency("a", Surface::Run).policy;
    assert_eq!((a.retry.max_attempts.get(), a.retry.backoff.jitter), (7, Jitter::Full));
    assert_eq!(a.circuit.open_after_failures.get(), 9);
    assert_eq!(config.dependency("b", Surface::Run).policy.retry.max_attempts.get(), 4);
    let unnamed = config.dependency("c", Surface::Run).policy;
    assert_eq!((unnamed.dependency.as_str(), unnamed.retry.max_attempts.get()), ("c", 4));
    assert_eq!(config.store.as_deref(), Some("sqlite:/var/lib/halfopen.db"));
    Ok(())
}

#[test_case("dependencies:\n- name: a\n- name: a\n", "two dependencies are named `a`")]
#[test_case("dependencies:\n- name: a\n  fallback: b\n", "which this file does not name")]
#[test_case("dependencies:\n- name: a\n  fallback: a\n", "is `a` itself")]
#[test_case("dependencies:\n- {name: a, fallback: b}\n- {name: b, fallback: a}\n", "a → b → a")]
#[test_case("dependencies:\n- timeout_ms: 5\n", "a dependency has no `name`")]
#[test_case("dependencies: 7\n", "it is a list of dependencies")]
#[test_case("dependencies:\n- 7\n", "it is a mapping of keys")]
#[test_case("defaults:\n  name: x\n", "`defaults` has no `name`")]
#[test_case("- a\n", "a policy file is a mapping")]
#[test_case("circuit: {open_for_sec: 5}\n", "stands under `dependency_guard`")]
#[test_case("dependency_guard: {name: a, owner: x, alert_owner: y}\n", "there is one owner")]
#[test_case("dependency_guard: {name: a, cache: {max_bytes: 1 MiB}}\n", "say how old an answer may be")]
#[test_case("dependency_guard: {name: a, drain: {rate_per_sec: 5, max_per_sec: 2}}\n", "write at least 5")]
#[test_case("dependency_guard: {name: a, credentials: {main: {value: s3cret}}}\n", "secrets do not stand in a policy")]
#[test_case("dependency_guard: {name: a, credentials: {main: {from_env: sk-abc-def}}}\n", "not the secret")]
#[test_case("dependency_guard: {name: a, credentials: {main: {header: X}}}\n", "either `from_env` or `from_file`")]
#[test_case("dependency_guard: {name: a, probe: 'x | y'}\n", "needs a shell")]
#[test_case("dependency_guard: {name: a, on_done: {slack: 'http://x'}}\n", "a receiver is one of webhook")]
#[test_case("dependency_guard: {name: a, on_done: {webhook: x}}\n", "no http or https URL")]
#[test_case(
    "dependency_guard: {name: a, on_done: {webhook: {url: 'http://x', secret_from_env: a+b}}}\n",
    "not the secret"
)]
#[test_case("dependency_guard: {name: a, on_done: []}\n", "`on_done` is a list; allowed is")]
#[test_case("dependency_guard: {name: a, on_done: yes}\n", "`on_done` is")]
#[test_case("alerts: {o: [{pager: x}]}\n", "a channel is one of")]
#[test_case("alerts: {o: [{webhook: x}]}\n", "no http or https URL")]
#[test_case("alerts: {o: [{webhook: {secret_from_env: S}}]}\n", "either `url` or `url_from_env`")]
#[test_case(
    "alerts: {o: [{webhook: {url: 'http://x', secret: s}}]}\n",
    "`webhook` has url, url_from_env, secret_from_env"
)]
#[test_case("alerts: {o: [{webhook: {url: 'http://x', secret_from_env: whsec_a+b}}]}\n", "not the secret")]
#[test_case("alerts: {o: [{slack: {}}]}\n", "either `url` or `url_from_env`")]
#[test_case("alerts: {o: [{email: {from: a@example.com}}]}\n", "`email` needs `to`")]
#[test_case("alerts: {o: [{email: {to: [nobody]}}]}\n", "no mail address")]
#[test_case("dependency_guard:\n\tname: a\n", "tab")]
fn what_cannot_stand_is_refused(text: &str, said: &str) {
    assert!(parse(text).is_err(), "{}", rendered(text));
    assert!(rendered(text).contains(said), "{}", rendered(text));
}

#[test]
fn an_empty_file_is_the_built_in_policy_with_a_warning() -> Result<(), ConfigError> {
    let (config, findings) = parse("# nothing yet\n")?;
    assert_eq!(config.dependency("x", Surface::Serve).policy, Policy::built_in("x", Surface::Serve));
    assert_eq!(findings.iter().map(|f| f.level).collect::<Vec<_>>(), [Level::Warning]);
    Ok(())
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let dir = tempfile::tempdir().expect("a folder");
    let absent = Config::load(&dir.path().join("absent.yaml"), Surface::Run).expect_err("absent");
    assert!(absent.to_string().contains("cannot be read: No such file"), "{absent}");
    let folder = Config::load(dir.path(), Surface::Run).expect_err("a folder");
    assert!(folder.to_string().contains("cannot be read"), "{folder}");
    let endless = Config::load(Path::new("/dev/zero"), Surface::Run).expect_err("endless");
    assert!(endless.to_string().contains("larger than 4 MiB"), "{endless}");
    let bytes = dir.path().join("bytes.yaml");
    std::fs::write(&bytes, b"name: \xff\n").expect("written");
    assert!(Config::load(&bytes, Surface::Run).expect_err("bytes").to_string().contains("byte 6 is not UTF-8"));
}

const RULE: &str = "dependency_guard:
  name: ocr
  profile: curl
  classify:
  - name: backlog
    when:
    - stderr: {says: backlog too large}
    class: overloaded
    wait: 30s
    examples:
      speaks:
      - stderr: 'ocr: backlog too large, come back later'
        exit: 3
      silent:
      - stderr: 'ocr: no such page'
        exit: 3
";

#[test]
fn own_rules_are_read_tried_and_handed_on() -> Result<(), ConfigError> {
    let (config, findings) = parse(RULE)?;
    assert_eq!(findings, []);
    let rules = config.dependency("ocr", Surface::Run).classify;
    assert_eq!(rules.iter().map(|rule| rule.name.as_str()).collect::<Vec<_>>(), ["backlog"]);
    Ok(())
}

#[test_case("says: backlog", "say: backlog", "stderr: {say", "unknown field `say`"; "an unknown field of a test")]
#[test_case("class: overloaded", "clas: overloaded", "clas:", "unknown field `clas`"; "an unknown field of a rule")]
#[test_case("class: overloaded", "class: overload", "class: overload", "unknown class"; "an unknown class")]
#[test_case("- stderr: {says", "- stdrr: {says", "- stdrr", "unknown variant `stdrr`"; "an unknown place")]
#[test_case("wait: 30s", "wait: soon", "wait: soon", "`wait`"; "no duration")]
#[test_case("says: backlog too large", "matches: '(unclosed'", "matches: '(unclosed'", "`when.matches`: regex parse error"; "no regular expression")]
#[test_case("name: backlog", "name: back log", "name: back log", "`name`"; "no name")]
#[test_case("'ocr: backlog too large, come back later'", "'ocr: all is well'", "'ocr: all is well'", "`examples.speaks` 1"; "an example on which it does not speak")]
#[test_case("no such page", "backlog too large", "'ocr: backlog too large'", "`examples.silent` 1: the rule decides"; "an example on which it should not speak")]
fn a_mistake_in_a_rule_is_shown_where_it_stands(right: &str, wrong: &str, line: &str, said: &str) {
    let text = RULE.replace(right, wrong);
    assert_ne!(text, RULE);
    let findings = findings(&text, Demand::Usable);
    let error = findings.iter().find(|finding| finding.level == Level::Error).expect("an error");
    assert!(error.message.contains(said), "{}", error.rendered);
    let shown = text.lines().nth(error.line - 1).expect("a line");
    assert!(shown.contains(line), "{}", error.rendered);
    assert!(!error.message.contains('\n'), "{}", error.message);
}

#[test]
fn a_profile_that_is_none_is_refused_with_the_nearest() {
    assert!(rendered(&guard("profile: claud-code")).contains("the nearest pack is `claude-code`"));
    assert!(rendered(&guard("profile: zzzzz")).contains("known packs are "));
}

/// Returns the policy files a user can copy.
fn examples() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|ext| ext == "yaml") {
            found.push((path.display().to_string(), std::fs::read_to_string(&path).expect("text")));
        }
    }
    assert!(found.len() >= 3);
    found
}

fn as_json(text: &str) -> serde_json::Value {
    serde_saphyr::from_str(text).expect("YAML that is JSON too")
}

#[test]
fn the_examples_are_good_for_production() {
    for (path, text) in examples() {
        let findings = findings(&text, Demand::Usable);
        assert!(findings.iter().all(|finding| finding.level == Level::Note), "{path}: {findings:#?}");
    }
}

#[test]
fn the_schema_takes_the_examples_and_every_example_of_a_key() {
    let validator = jsonschema::validator_for(&halfopen::config::schema::schema()).expect("a schema");
    let mut texts = examples();
    texts.push(("the block of the design".to_owned(), BLOCK.to_owned()));
    texts.push(("an empty file".to_owned(), String::new()));
    texts.push(("a rule".to_owned(), RULE.to_owned()));
    for key in KEYS.iter().filter(|key| key.kind != Kind::Group) {
        texts.push((key.path.to_owned(), with(key, key.example)));
    }
    for (path, text) in texts {
        let errors: Vec<String> = validator.iter_errors(&as_json(&text)).map(|error| error.to_string()).collect();
        assert_eq!(errors, [""; 0], "{path}");
    }
}

#[test_case("circuit: {open_after_failures: 0}")]
#[test_case("circuit: {open_for_sec: 30s}")]
#[test_case("circuit: {opne_for_sec: 30}")]
#[test_case("on_open: {action: que}")]
#[test_case("on_open: {action: []}")]
#[test_case("retry: {jitter: 1.5}")]
#[test_case("expect_calls_every: 30")]
#[test_case("upstream: ftp://x")]
#[test_case("split_by: [zone]")]
#[test_case("name: a@b")]
#[test_case("credentials: {main: {from_env: A, from_file: b}}")]
#[test_case("on_done: {slack: 'http://x'}")]
#[test_case("on_done: []")]
fn the_schema_refuses_what_the_reader_refuses(line: &str) {
    let validator = jsonschema::validator_for(&halfopen::config::schema::schema()).expect("a schema");
    let text = guard(line).replace("  name: ocr\n", if line.starts_with("name") { "" } else { "  name: ocr\n" });
    assert!(parse(&text).is_err());
    assert!(!validator.is_valid(&as_json(&text)), "{text}");
}

/// The written form of a rule and its schema name the same keys.
#[test]
fn the_schema_knows_the_keys_of_a_rule() {
    let schema = halfopen::config::schema::schema();
    let keys = |value: &serde_json::Value| -> Vec<String> {
        let mut keys: Vec<String> = value.as_object().expect("an object").keys().cloned().collect();
        keys.sort();
        keys
    };
    let rule = serde_json::to_value(RawRule::default()).expect("JSON");
    assert_eq!(keys(&schema["$defs"]["rule"]["properties"]), keys(&rule));
    let test = serde_json::to_value(RawTest::default()).expect("JSON");
    assert_eq!(keys(&schema["$defs"]["test"]["properties"]), keys(&test));
    let example = serde_json::to_value(RawExample::default()).expect("JSON");
    assert_eq!(keys(&schema["$defs"]["example"]["properties"]), keys(&example));
    // The grammar itself lists the conditions it knows.
    let condition = serde_json::from_str::<RawCondition>(r#"{"nothing": 1}"#).expect_err("unknown").to_string();
    for name in keys(&schema["$defs"]["condition"]["properties"]) {
        assert!(condition.contains(&format!("`{name}`")), "{name} in {condition}");
    }
    assert_eq!(condition.matches('`').count() / 2 - 1, keys(&schema["$defs"]["condition"]["properties"]).len());
}

/// Returns a policy in which `key` is written as `value`.
fn with(key: &Key, value: &str) -> String {
    let mut text = String::from("dependency_guard:\n");
    if key.path != "name" {
        text.push_str("  name: zebra\n");
    }
    let words: Vec<&str> = key.path.split('.').collect();
    for (depth, word) in words.iter().enumerate() {
        let end = if depth + 1 == words.len() { format!(" {value}") } else { String::new() };
        text.push_str(&format!("{:indent$}{word}:{end}\n", "", indent = 2 * depth + 2));
    }
    match key.path {
        "fallback" => text = format!("dependencies:\n- {}- name: {value}\n", text.split_once("  ").expect("keys").1),
        "cache.max_bytes" => text.push_str("    max_age_sec: 5\n"),
        _ => {}
    }
    text
}

/// A key that changes nothing would be a promise that is not kept.
#[test]
fn every_key_changes_what_a_policy_says() {
    let of = |text: &str| -> String {
        let (config, _) = parse(text).unwrap_or_else(|_| panic!("{}\n{text}", rendered(text)));
        let name = config.dependencies.keys().last().expect("a dependency").clone();
        format!("{:?}", config.dependency(&name, Surface::Run))
    };
    let silent = of("dependency_guard: {name: zebra}\n");
    for key in KEYS.iter().filter(|key| key.kind != Kind::Group) {
        assert_ne!(of(&with(key, key.example)), silent, "{}", key.path);
    }
}

/// `docs/policy.md` lists every key with its default, unit and range. Run with `UPDATE_DOCS=1` to write it anew.
#[test]
fn the_documented_keys_are_the_keys() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policy.md");
    let text = std::fs::read_to_string(&path).expect("docs/policy.md");
    let (begin, end) = ("<!-- keys: written by a test -->\n", "<!-- end of keys -->");
    let (before, rest) = text.split_once(begin).expect("the beginning of the keys");
    let (listed, after) = rest.split_once(end).expect("the end of the keys");
    let expected = key_tables();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{begin}{expected}{end}{after}")).expect("written");
    } else {
        assert_eq!(listed, expected, "run this test with UPDATE_DOCS=1");
    }
}

fn key_tables() -> String {
    let mut text = String::new();
    let mut groups = vec![("", "what stands at the dependency itself")];
    groups.extend(KEYS.iter().filter(|key| key.kind == Kind::Group).map(|key| (key.path, key.meaning)));
    for (group, meaning) in groups {
        let title = if group.is_empty() { "The dependency".to_owned() } else { format!("`{group}`") };
        text.push_str(&format!("\n### {title}\n\n{}\n\n", sentence(meaning)));
        text.push_str("| key | default | allowed | example | meaning |\n|---|---|---|---|---|\n");
        for key in KEYS {
            let (parent, word) = key.path.rsplit_once('.').unwrap_or(("", key.path));
            if parent != group || key.kind == Kind::Group {
                continue;
            }
            let cell = |text: &str| text.replace('|', "\\|");
            text.push_str(&format!(
                "| `{word}` | {} | {} | `{}` | {} |\n",
                cell(key.default),
                cell(&key.allowed()),
                cell(key.example),
                cell(key.meaning)
            ));
        }
    }
    text.push('\n');
    text
}

fn sentence(fragment: &str) -> String {
    let mut chars = fragment.chars();
    let first = chars.next().map(char::to_uppercase);
    format!("{}{}.", first.into_iter().flatten().collect::<String>(), chars.as_str())
}

/// Leaves the list of packs out of what people read: it grows.
fn without_pack_names(text: &str) -> String {
    let line = |line: &str| match line.split_once("known packs are ") {
        Some((head, _)) => format!("{head}known packs are [packs]"),
        None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}
