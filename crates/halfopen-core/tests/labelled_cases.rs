//! Outcomes with what they mean, in the form that `halfopen classify --corpus` reads.
//!
//! They are many and of every kind on purpose: each guards a kind of mistake (a number that is no status, a word that
//! lies, a success that talks about errors), not one sentence.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use halfopen_core::classify::{Classifier, profile_for_tool, profiles};
use halfopen_core::outcome::{CommandOutcome, Excerpt, Exit, HttpOutcome, Reached};
use halfopen_core::time::{ReadAt, Timestamp};
use halfopen_core::verdict::{Class, Verdict};
use serde_json::Value;

const COMMANDS: &str = include_str!("cases/commands.jsonl");
const HTTP: &str = include_str!("cases/http.jsonl");
const TOOLS: &str = include_str!("cases/tools.jsonl");
const KINDS: &str = include_str!("cases/kinds.jsonl");

fn cases(text: &str) -> impl Iterator<Item = Value> + '_ {
    text.lines().map(|line| serde_json::from_str(line).expect("a case is JSON"))
}

fn text<'v>(case: &'v Value, key: &str) -> &'v str {
    case[key].as_str().unwrap_or("")
}

fn read_at(case: &Value) -> ReadAt {
    let now = case["now"].as_str().map(|now| now.parse::<jiff::Timestamp>().expect("`now` is RFC 3339"));
    ReadAt::utc(Timestamp::from_millis(now.map_or(1_772_452_800_000, jiff::Timestamp::as_millisecond)))
}

/// Returns the classifier for a case; each pack's is made once, for its rules are read when they are first asked.
fn classifier(case: &Value) -> &'static Classifier {
    static MADE: OnceLock<BTreeMap<&str, Classifier>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let new = |name| Classifier::new(name, Vec::new()).expect("the pack is embedded");
        profiles().into_iter().map(|name| (name, new(name))).collect()
    });
    &made[profile_for_tool(text(case, "tool"))]
}

fn judge(case: &Value) -> Vec<Verdict> {
    let (classifier, at) = (classifier(case), read_at(case));
    if case["kind"] == "cli" {
        let codes =
            case["exit_code"].as_i64().map_or_else(|| vec![0, 1], |code| vec![i32::try_from(code).expect("a code")]);
        return codes
            .into_iter()
            .map(|code| {
                let outcome = CommandOutcome {
                    exit: Exit::Code(code),
                    stdout: Excerpt::whole(text(case, "stdout").as_bytes()),
                    stderr: Excerpt::whole(text(case, "stderr").as_bytes()),
                    elapsed: Duration::ZERO,
                };
                classifier.command(&outcome, &at)
            })
            .collect();
    }
    let headers = headers(case);
    vec![classifier.http(&http(case, &headers), &at)]
}

fn headers(case: &Value) -> Vec<(&str, &str)> {
    let map = case["headers"].as_object().expect("headers are a map");
    map.iter().map(|(name, value)| (name.as_str(), value.as_str().unwrap_or(""))).collect()
}

fn http<'c>(case: &'c Value, headers: &'c [(&'c str, &'c str)]) -> HttpOutcome<'c> {
    HttpOutcome {
        method: text(case, "method"),
        status: u16::try_from(case["status"].as_u64().unwrap_or(0)).expect("a status"),
        headers,
        body: Excerpt::whole(text(case, "body").as_bytes()),
        reached: Reached::Answered,
        elapsed: Duration::ZERO,
    }
}

/// Returns what came out otherwise than expected.
fn missed(case: &Value, verdict: &Verdict) -> Option<String> {
    let expect = &case["expect"];
    let class = verdict.class.as_str();
    let also = expect["also_ok"].as_array().is_some_and(|list| list.iter().any(|also| also == class));
    if expect["class"] != class && !also {
        return Some(format!("class {class} by {} on {:?}", verdict.rule, verdict.evidence));
    }
    let until = expect["wait_until"].as_str().map(|until| {
        let until = until.parse::<jiff::Timestamp>().expect("`wait_until` is RFC 3339").as_millisecond();
        Duration::from_millis(u64::try_from(until - read_at(case).now.as_millis()).unwrap_or(0)).as_secs_f64()
    });
    let wanted = expect["wait_s"].as_f64().or(until);
    let found = verdict.hint.as_ref().map(|hint| hint.wait.as_secs_f64());
    let right = match (wanted, found) {
        (None, None) => true,
        (None, Some(_)) => expect["wait_optional"] == true,
        (Some(_), None) => expect["wait_optional"] == true,
        (Some(wanted), Some(found)) => (wanted - found).abs() <= 1.0,
    };
    (!right).then(|| format!("wait {found:?}, not {wanted:?}"))
}

fn all_missed(text: &str) -> Vec<String> {
    cases(text)
        .flat_map(|case| {
            let id = case["id"].as_str().unwrap_or("").to_owned();
            let missed: Vec<String> = judge(&case).iter().filter_map(|verdict| missed(&case, verdict)).collect();
            missed.into_iter().map(move |what| format!("{id}: {what}"))
        })
        .collect()
}

#[test]
fn commands_mean_what_their_labels_say() {
    assert_eq!(all_missed(COMMANDS), Vec::<String>::new());
    assert_eq!(all_missed(TOOLS), Vec::<String>::new());
    assert_eq!(all_missed(KINDS), Vec::<String>::new());
}

#[test]
fn http_answers_mean_what_their_labels_say() {
    assert_eq!(all_missed(HTTP), Vec::<String>::new());
}

#[test]
fn evidence_is_one_short_line() {
    for case in cases(COMMANDS).chain(cases(HTTP)) {
        for verdict in judge(&case) {
            let excerpt = &verdict.evidence.excerpt;
            assert!(excerpt.chars().count() <= 240 && !excerpt.contains('\n'), "{}: {excerpt}", case["id"]);
        }
    }
}

/// S198: whatever the borders of the pieces, characters and lines torn, the verdict is the same.
#[test]
fn the_borders_of_pieces_do_not_matter() {
    for case in cases(COMMANDS) {
        let (classifier, at) = (classifier(&case), read_at(&case));
        let exit = Exit::Code(i32::try_from(case["exit_code"].as_i64().unwrap_or(1)).unwrap());
        let whole = CommandOutcome {
            exit,
            stdout: Excerpt::whole(text(&case, "stdout").as_bytes()),
            stderr: Excerpt::whole(text(&case, "stderr").as_bytes()),
            elapsed: Duration::ZERO,
        };
        let expected = classifier.command(&whole, &at);
        for size in [1, 2, 3, 7, 64] {
            let mut ear = classifier.listen();
            text(&case, "stdout").as_bytes().chunks(size).for_each(|piece| ear.stdout(piece));
            text(&case, "stderr").as_bytes().chunks(size).for_each(|piece| ear.stderr(piece));
            assert_eq!(ear.finish(exit, Duration::ZERO, &at), expected, "{} in pieces of {size}", case["id"]);
        }
    }
}

/// S123: what a success says does not make it a failure, whatever it talks about.
#[test]
fn text_about_errors_added_to_a_success_changes_nothing() {
    let talk = "\nWhen it is overloaded it answers HTTP 429 Too Many Requests: \"rate limit exceeded, try again in 20s\".\n\
                You've hit your usage limit. Error: quota exceeded. {\"error\":{\"code\":\"rate_limit_exceeded\"}}\n";
    for tool in
        ["generic", "claude-code", "codex", "gemini-cli", "curl", "gh", "git", "aws", "kubectl", "cat", "opencode"]
    {
        let classifier = Classifier::new(profile_for_tool(tool), Vec::new()).unwrap();
        let stdout = format!("Here is the summary of the incident.\n{talk}");
        let outcome = CommandOutcome {
            exit: Exit::Code(0),
            stdout: Excerpt::whole(stdout.as_bytes()),
            stderr: Excerpt::whole(b"Error: HTTP 429 Too Many Requests\n"),
            elapsed: Duration::ZERO,
        };
        let verdict = classifier.command(&outcome, &ReadAt::utc(Timestamp::from_millis(0)));
        assert_eq!(verdict.class, Class::Success, "{tool}: {verdict:?}");
        assert_eq!(verdict.hint, None);
    }
}

#[test]
fn the_order_of_headers_does_not_matter() {
    for case in cases(HTTP) {
        let (classifier, at) = (classifier(&case), read_at(&case));
        let mut headers = headers(&case);
        let forward = classifier.http(&http(&case, &headers), &at);
        headers.reverse();
        let backward = classifier.http(&http(&case, &headers), &at);
        assert_eq!((forward.class, forward.hint), (backward.class, backward.hint), "{}", case["id"]);
    }
}

#[test]
fn an_output_of_any_size_is_judged_by_its_ends() {
    let classifier = Classifier::new("claude-code", Vec::new()).unwrap();
    let at = ReadAt::utc(Timestamp::from_millis(1_772_452_800_000));
    let mut ear = classifier.listen();
    ear.stdout(b"{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s-1\"}\n");
    let line = format!(
        "{{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}]}}}}\n",
        "x".repeat(900)
    );
    for _ in 0..20_000 {
        ear.stdout(line.as_bytes());
    }
    assert!(ear.heard().answering && !ear.heard().error_line);
    ear.stdout(b"{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"result\":\"API Error: Rate limit reached\"}\n");
    let verdict = ear.finish(Exit::Code(0), Duration::ZERO, &at);
    assert_eq!(verdict.class, Class::RateLimited);
    assert_eq!(verdict.session.as_deref(), Some("s-1"));
    assert_eq!(verdict.work, halfopen_core::verdict::Work::Shown);
}
