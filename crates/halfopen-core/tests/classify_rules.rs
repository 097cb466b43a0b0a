//! What rules and the engine around them say of outcomes that no service or tool is known for: every condition of the
//! grammar where it holds and where it does not, and the ends in which the dependency has no part.

use halfopen_core::classify::raw::RawRule;
use halfopen_core::classify::{Classifier, check_rules, suggest_command};
use halfopen_core::outcome::{CommandOutcome, Excerpt, Exit, HttpOutcome, Reached};
use halfopen_core::time::{ReadAt, Timestamp};
use halfopen_core::verdict::{About, Class, Verdict, Work};
use serde_json::{Value, json};
use std::time::Duration;
use test_case::test_case;

fn noon() -> ReadAt {
    ReadAt::utc(Timestamp::from_millis(1_772_452_800_000))
}

fn rule(value: Value) -> RawRule {
    serde_json::from_value(value).expect("a rule")
}

/// A policy's own rule with one condition.
fn own(condition: &Value) -> Vec<RawRule> {
    vec![rule(json!({"name": "x", "class": "auth", "when": [condition]}))]
}

fn command<'a>(exit: Exit, stdout: &'a str, stderr: &'a str) -> CommandOutcome<'a> {
    let (stdout, stderr) = (Excerpt::whole(stdout.as_bytes()), Excerpt::whole(stderr.as_bytes()));
    CommandOutcome { exit, stdout, stderr, elapsed: Duration::ZERO }
}

fn answer<'a>(status: u16, headers: &'a [(&'a str, &'a str)], body: &'a str) -> HttpOutcome<'a> {
    HttpOutcome {
        method: "POST",
        status,
        headers,
        body: Excerpt::whole(body.as_bytes()),
        reached: Reached::Answered,
        elapsed: Duration::ZERO,
    }
}

fn run(profile: &str, exit: Exit, stdout: &str, stderr: &str) -> Verdict {
    Classifier::new(profile, Vec::new()).expect("a pack").command(&command(exit, stdout, stderr), &noon())
}

#[test_case("nonzero", Exit::Code(3), true)]
#[test_case("nonzero", Exit::Signal(9), true)]
#[test_case("nonzero", Exit::Code(0), false)]
#[test_case("nonzero", Exit::TimedOut, false)]
#[test_case("signal", Exit::Signal(9), true)]
#[test_case("signal", Exit::Code(137), false)]
#[test_case("timeout", Exit::TimedOut, true)]
#[test_case("timeout", Exit::Code(124), false)]
#[test_case("137", Exit::Signal(9), true; "a shell's number of a signal")]
#[test_case("137", Exit::Code(137), true)]
#[test_case("137", Exit::Code(9), false)]
#[test_case("0", Exit::Code(0), true)]
fn a_rule_names_how_a_command_ended(word: &str, exit: Exit, holds: bool) {
    let classifier = Classifier::new("generic", own(&json!({"exit": [word]}))).expect("a sound rule");
    assert_eq!(classifier.command(&command(exit, "", "alpha"), &noon()).rule == "own/x", holds);
}

#[test_case(json!({"stderr": {"part": "first_line", "says": ["alpha"]}}), "\nalpha\nbeta\n", true)]
#[test_case(json!({"stderr": {"part": "first_line", "says": ["alpha"]}}), "beta\nalpha", false)]
#[test_case(json!({"stderr": {"part": "last_line", "says": ["alpha"]}}), "beta\nalpha\n\n", true)]
#[test_case(json!({"stderr": {"part": "last_line", "says": ["alpha"]}}), "alpha\nbeta", false)]
#[test_case(json!({"stderr": {"part": "any_line", "says": ["alpha"]}}), "beta\nalpha\ngamma", true)]
#[test_case(json!({"stderr": {"part": "any_line", "is": ["alpha beta"]}}), "alpha\nbeta", false)]
#[test_case(json!({"stderr": {"part": "whole", "is": ["alpha beta"]}}), "alpha\nbeta", true)]
#[test_case(json!({"stderr": {"present": false}}), "alpha", false)]
#[test_case(json!({"over_limit": true}), "error: limit 5, requested 9", true)]
#[test_case(json!({"over_limit": true}), "error: limit 9, requested 5", false)]
#[test_case(json!({"over_limit": false}), "error: limit 9, requested 5", true)]
#[test_case(json!({"over_limit": false}), "error: limit 5, requested 9", false)]
fn a_rule_names_what_standard_error_says(condition: Value, stderr: &str, holds: bool) {
    let classifier = Classifier::new("generic", own(&condition)).expect("a sound rule");
    assert_eq!(classifier.command(&command(Exit::Code(1), "", stderr), &noon()).rule == "own/x", holds);
}

#[test_case(json!({"json": {"path": "error.code", "present": false}}), r#"{"error": {"message": "x"}}"#, true)]
#[test_case(json!({"json": {"path": "error.code", "present": false}}), r#"{"error": {"code": null, "message": "x"}}"#, true)]
#[test_case(json!({"json": {"path": "error.code", "present": false}}), r#"{"error": {"code": 5}}"#, false)]
#[test_case(json!({"json": {"path": "error.code", "present": true}}), r#"{"error": {"code": 5}}"#, true)]
#[test_case(json!({"json": {"path": "error.details", "present": true}}), r#"{"error": {"details": [1]}}"#, true; "a list is there")]
#[test_case(json!({"json": {"path": "error.*.reason", "is": ["x"]}}), r#"{"error": [{"reason": "x"}]}"#, true; "any of a list")]
#[test_case(json!({"json": {"path": "*.reason", "is": ["x"]}}), r#"[{"error": "a", "reason": "x"}]"#, true; "any of the root")]
#[test_case(json!({"method": ["POST"]}), "{}", true)]
#[test_case(json!({"method": ["GET"]}), "{}", false)]
#[test_case(json!({"status": ["4xx"]}), "{}", true)]
#[test_case(json!({"status": ["500-511"]}), "{}", false)]
#[test_case(json!({"header": {"name": "x-kind", "is": ["Alpha"]}}), "{}", true)]
#[test_case(json!({"header": {"name": "x-kind", "present": false}}), "{}", false)]
#[test_case(json!({"header": {"name": "x-other", "present": false}}), "{}", true)]
fn a_rule_names_what_an_answer_says(condition: Value, body: &str, holds: bool) {
    let classifier = Classifier::new("generic", own(&condition)).expect("a sound rule");
    let headers = [("content-type", "application/json"), ("x-kind", "alpha")];
    assert_eq!(classifier.http(&answer(400, &headers, body), &noon()).rule == "own/x", holds);
}

#[test_case(json!({"sse": {"event": "error", "path": "error.type", "is": ["odd"]}}), true)]
#[test_case(json!({"sse": {"path": "error.type", "is": ["odd"]}}), true; "of any name")]
#[test_case(json!({"sse": {"event": "message", "path": "error.type", "is": ["odd"]}}), false)]
#[test_case(json!({"sse": {"event": "error", "path": "error.type", "present": false}}), false)]
#[test_case(json!({"sse": {"event": "error", "path": "error.code", "present": false}}), true)]
fn a_rule_names_an_event_of_a_stream(condition: Value, holds: bool) {
    let classifier = Classifier::new("generic", own(&condition)).expect("a sound rule");
    let headers = [("content-type", "text/event-stream")];
    let body = "event: error\ndata: {\"error\": {\"type\": \"odd\", \"message\": \"it broke\"}}\n\n";
    assert_eq!(classifier.http(&answer(200, &headers, body), &noon()).rule == "own/x", holds);
}

#[test_case(json!({"event": {"event": "result", "path": "is_error", "is": [true]}}), true)]
#[test_case(json!({"event": {"event": "init", "path": "is_error", "is": [true]}}), false)]
#[test_case(json!({"event": {"event": "result", "path": "missing", "present": false}}), true)]
#[test_case(json!({"event": {"event": "result", "path": "is_error", "present": false}}), false)]
fn a_rule_names_an_event_that_a_command_printed(condition: Value, holds: bool) {
    let classifier = Classifier::new("claude-code", own(&condition)).expect("a sound rule");
    let stdout = r#"{"type":"result","is_error":true,"result":"it broke"}"#;
    assert_eq!(classifier.command(&command(Exit::Code(1), stdout, ""), &noon()).rule == "own/x", holds);
}

#[test]
fn an_explanation_says_what_nearly_spoke_and_why_it_did_not() {
    let rule = rule(json!({
        "name": "x", "class": "auth",
        "when": [{"message": {"says": ["alpha"]}}],
        "any": [{"status": ["400"]}, {"status": ["401"]}],
        "unless": [{"message": {"says": ["beta"]}}],
    }));
    let classifier = Classifier::new("generic", vec![rule]).expect("a sound rule");
    let why = |status, body| {
        let nearly = classifier.explain_http(&answer(status, &[], body), &noon()).nearly;
        nearly.into_iter().find(|(id, _)| id == "own/x").map(|(_, why)| why)
    };
    assert_eq!(why(400, "alpha"), None, "it speaks");
    assert_eq!(why(400, "alpha beta").as_deref(), Some("auth (alpha beta), but an exception of it holds"));
    assert_eq!(why(500, "alpha").as_deref(), Some("auth (alpha), but its other conditions do not hold"));
    assert_eq!(why(400, "gamma"), None);
}

#[test]
fn own_rules_need_names_of_their_own_and_examples_that_hold() {
    let of = |name: &str, examples: Value| {
        rule(json!({"name": name, "class": "auth", "when": [{"message": {"says": ["alpha"]}}], "examples": examples}))
    };
    let error = Classifier::new("generic", vec![of("x", json!({})), of("x", json!({}))]).unwrap_err();
    assert!(error.to_string().contains("`name`: another rule has it"), "{error}");
    Classifier::new("generic", vec![of("x", json!({})), of("y", json!({}))]).expect("two names");

    let spoken =
        json!({"speaks": [{"stderr": "alpha"}, {"body": "alpha", "status": 400}], "silent": [{"stderr": "beta"}]});
    assert_eq!(check_rules("generic", &[of("x", spoken)]), Ok(()));
    let wrong = |examples| check_rules("generic", &[of("x", examples)]).unwrap_err().remove(0).to_string();
    assert!(wrong(json!({"speaks": [{"stderr": "beta"}]})).contains("`examples.speaks` 1: "));
    assert!(
        wrong(json!({"speaks": [{"stderr": "alpha"}, {"body": "beta", "status": 400}]}))
            .contains("`examples.speaks` 2: ")
    );
    assert!(wrong(json!({"silent": [{"stderr": "alpha"}]})).contains("`examples.silent` 1: the rule decides"));
    let other = json!({"silent": [{"stderr": "rate limit exceeded", "class": "overloaded"}]});
    assert!(wrong(other).contains("rate_limited comes out, not overloaded"));
    assert_eq!(
        check_rules(
            "generic",
            &[of("x", json!({"silent": [{"stderr": "rate limit exceeded", "class": "rate_limited"}]}))]
        ),
        Ok(())
    );
}

#[test]
fn a_classifier_names_its_pack() {
    assert_eq!(Classifier::new("codex", Vec::new()).expect("a pack").profile(), "codex");
}

#[test]
fn an_answer_is_looked_at_where_its_words_or_a_rule_on_successes_ask_for_it() {
    let generic = Classifier::new("generic", Vec::new()).expect("a pack");
    assert!(!generic.suspects(br#"{"pages":[{"text":"Invoice 17"}]}"#));
    assert!(generic.suspects(br#"{"ok":false}"#));
    let own = Classifier::new("generic", own(&json!({"status": ["2xx"]}))).expect("a sound rule");
    assert!(own.suspects(br#"{"pages":[{"text":"Invoice 17"}]}"#));
}

/// The wait of the last error counts, not that of one before it.
#[test]
fn a_failure_waits_as_its_last_error_says() {
    let verdict = run(
        "generic",
        Exit::Code(1),
        "",
        "error: rate limit exceeded, try again in 700 seconds\nerror: rate limit exceeded, try again in 11 seconds",
    );
    assert_eq!((verdict.class, verdict.reached), (Class::RateLimited, Reached::Refused));
    assert_eq!(verdict.hint.map(|hint| hint.wait.as_secs()), Some(11));
}

/// S123: a document behind a success is an error where it is all that was printed, but for a short note.
#[test_case("", Class::RateLimited)]
#[test_case("\n(see the documentation)", Class::RateLimited)]
#[test_case("\nfirst of two lines\nsecond of two lines", Class::Success)]
#[test_case(
    "\nand this is how the service answers when its limit is reached, as the chapter before described it",
    Class::Success
)]
fn a_success_that_prints_an_error_document_and_nothing_else_is_none(rest: &str, class: Class) {
    let stdout =
        format!("Error: 429 {{\"error\":{{\"code\":\"rate_limit_exceeded\",\"message\":\"slow down\"}}}}{rest}");
    assert_eq!(run("generic", Exit::Code(0), &stdout, "").class, class);
}

/// An error that a later turn overcame is left out.
#[test]
fn only_errors_after_the_last_turn_that_went_well_count() {
    let codex = |events: &[&str]| run("codex", Exit::Code(1), &events.join("\n"), "").class;
    let limit = r#"{"type":"error","message":"rate limit exceeded"}"#;
    let done = r#"{"type":"turn.completed","usage":{"output_tokens":1}}"#;
    let other = r#"{"type":"error","message":"the frobnicator is wedged"}"#;
    assert_eq!(codex(&[limit]), Class::RateLimited);
    assert_eq!(codex(&[limit, other]), Class::RateLimited);
    assert_eq!(codex(&[limit, done, other]), Class::UnknownFailure);
    assert_eq!(codex(&[done, limit]), Class::RateLimited);
}

/// An answer that `curl -i` printed is cut off where it ends too early, but not where we left out its middle.
#[test]
fn a_printed_answer_that_ends_too_early_is_a_failure() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
    assert_ne!(run("curl", Exit::Code(0), &format!("{head}{{\"items\": [1, 2"), "").class, Class::Success);
    assert_eq!(run("curl", Exit::Code(0), &format!("{head}{{\"items\": [1, 2]}}"), "").class, Class::Success);
    let long = format!("{head}{{\"items\": [{}0]}}", "0, ".repeat(100_000));
    assert_eq!(run("curl", Exit::Code(0), &long, "").class, Class::Success);
}

/// The caller left, or there was nothing to run: the dependency had no part in it.
#[test]
fn an_end_of_ours_says_nothing_of_the_dependency() {
    let verdict = run("generic", Exit::Cancelled, "", "rate limit exceeded");
    assert_eq!((verdict.rule.as_str(), verdict.about), ("halfopen/cancelled", About::Nobody));
    assert_eq!((verdict.work, verdict.reached), (Work::Unknown, Reached::Unknown));
    for (exit, rule) in
        [(Exit::NotFound, "halfopen/command-not-found"), (Exit::NotExecutable, "halfopen/not-executable")]
    {
        let verdict = run("generic", exit, "", "rate limit exceeded");
        assert_eq!((verdict.rule.as_str(), verdict.about), (rule, About::Nobody));
        assert_eq!((verdict.work, verdict.reached), (Work::None, Reached::NotSent));
    }
}

#[test_case(Exit::Code(75), "halfopen: api is open until 12:00", true)]
#[test_case(Exit::Code(79), "{\"halfopen\":\"refused\"}", true)]
#[test_case(Exit::Code(75), "note\n{\"reason\":\"open\",\"set_by\":\"halfopen\"}\n\n\n", true)]
#[test_case(Exit::Code(75), "halfopen: open\n\na\n\nb\n\nc", true; "four lines from the end")]
#[test_case(Exit::Code(75), "halfopen: open\na\nb\nc\nd", false; "further up")]
#[test_case(Exit::Code(75), "the halfopen: circuit", false)]
#[test_case(Exit::Code(76), "halfopen: api is open", false)]
fn a_refusal_of_an_inner_halfopen_is_ours(exit: Exit, stderr: &str, ours: bool) {
    let verdict = run("generic", exit, "", stderr);
    assert_eq!(verdict.rule == "halfopen/inner-refusal", ours, "{}", verdict.rule);
}

#[test_case("refused", true)]
#[test_case(" queued ", true)]
#[test_case("success", false)]
fn an_answer_that_another_gateway_refused_is_ours(outcome: &str, ours: bool) {
    let classifier = Classifier::new("generic", Vec::new()).expect("a pack");
    let headers = [("Halfopen-Outcome", outcome), ("Retry-After", "5")];
    let verdict = classifier.http(&answer(503, &headers, ""), &noon());
    assert_eq!(verdict.rule == "halfopen/inner-refusal", ours, "{}", verdict.rule);
    let hint = verdict.hint.expect("a wait");
    assert_eq!((hint.wait, hint.until), (Duration::from_secs(5), noon().now + Duration::from_secs(5)));
}

#[test]
fn a_timeout_is_one_unless_the_output_says_what_was_waited_for() {
    let verdict = run("generic", Exit::TimedOut, "", "still waiting for a page");
    assert_eq!((verdict.class, verdict.rule.as_str()), (Class::Timeout, "halfopen/timed-out"));
    let verdict = run("generic", Exit::TimedOut, "", "error: rate limit exceeded");
    assert_eq!(verdict.class, Class::RateLimited);
}

#[test]
fn what_was_not_sent_was_not_begun() {
    let classifier = Classifier::new("generic", Vec::new()).expect("a pack");
    for reached in [Reached::NotSent, Reached::Unknown] {
        let outcome = HttpOutcome { reached, ..answer(0, &[], "it went wrong") };
        assert_eq!(classifier.http(&outcome, &noon()).reached, reached);
    }
}

/// What no rule knows is shown by its end where it said nothing.
#[test_case(Exit::Code(3), "exit code 3, no output")]
#[test_case(Exit::Signal(11), "signal 11, no output")]
fn a_silent_end_is_named(exit: Exit, excerpt: &str) {
    let verdict = run("generic", exit, "", "");
    assert_eq!((verdict.class, verdict.evidence.excerpt.as_str()), (Class::UnknownFailure, excerpt));
}

#[test]
fn an_empty_answer_is_named_by_its_status() {
    let classifier = Classifier::new("generic", Vec::new()).expect("a pack");
    let verdict = classifier.http(&answer(418, &[], ""), &noon());
    assert!(verdict.evidence.excerpt.contains("status 418"), "{}", verdict.evidence.excerpt);
}

/// A success with nothing but a sentence on standard error, in a tool that is known to end so: only one that a rule
/// knows by its words, at its beginning, makes it a failure, and only a failure that heals.
#[test_case("The rate limit was exceeded, rate limit reached for this model", Class::RateLimited)]
#[test_case("[INFO] rate limit reached for this model", Class::Success; "a line of a log")]
#[test_case("The request was malformed: invalid request", Class::Success; "what does not heal")]
#[test_case("Loaded the configuration.", Class::Success)]
fn a_success_may_lie_in_a_sentence(stderr: &str, class: Class) {
    assert_eq!(run("claude-code", Exit::Code(0), "", stderr).class, class);
    let long = format!("{stderr}. {}", "And so it went on, as it had before. ".repeat(20));
    assert_eq!(run("claude-code", Exit::Code(0), "", &long).class, Class::Success);
}

#[test_case(json!({"usage": {"output_tokens": 5}}), Work::Shown)]
#[test_case(json!({"usage": {"output_tokens": 0}}), Work::None)]
#[test_case(json!({"num_turns": 2}), Work::Shown)]
#[test_case(json!({"num_turns": 1}), Work::None)]
#[test_case(json!({"usage": {"output_tokens": 0}, "num_turns": 2}), Work::Shown)]
#[test_case(json!({}), Work::Unknown)]
fn a_result_counts_the_work(counts: Value, work: Work) {
    let mut event = json!({"type": "result", "is_error": true, "result": "API Error: Rate limit reached"});
    event.as_object_mut().expect("an object").extend(counts.as_object().expect("an object").clone());
    assert_eq!(run("claude-code", Exit::Code(1), &event.to_string(), "").work, work);
}

/// However much comes, in pieces of whatever size, the ends are kept: the session of the first event, the last error.
#[test]
fn the_ends_of_an_output_are_kept_in_pieces_of_any_size() {
    let retry = "{\"type\":\"system\",\"subtype\":\"api_retry\",\"error\":\"x\"}\n";
    let stdout = format!(
        "{}\n{}{}\n",
        r#"{"type":"system","subtype":"init","session_id":"s-1"}"#,
        retry.repeat(5_000),
        r#"{"type":"result","is_error":true,"result":"API Error: Rate limit reached"}"#
    );
    let stderr = format!("{}error: rate limit exceeded\n", "a line of progress é\n".repeat(20_000));
    for size in [1_000, 32 << 10, 33 << 10, 100_000, usize::MAX] {
        let claude = Classifier::new("claude-code", Vec::new()).expect("a pack");
        let mut ear = claude.listen();
        stdout.as_bytes().chunks(size).for_each(|piece| ear.stdout(piece));
        let verdict = ear.finish(Exit::Code(1), Duration::ZERO, &noon());
        assert_eq!((verdict.class, verdict.session.as_deref()), (Class::RateLimited, Some("s-1")), "{size}");

        let generic = Classifier::new("generic", Vec::new()).expect("a pack");
        let mut ear = generic.listen();
        stderr.as_bytes().chunks(size).for_each(|piece| ear.stderr(piece));
        let verdict = ear.finish(Exit::Code(1), Duration::ZERO, &noon());
        assert_eq!(verdict.class, Class::RateLimited, "{size}");
    }
}

#[test]
fn a_suggestion_writes_a_signal_as_shells_do() {
    let classifier = Classifier::new("generic", Vec::new()).expect("a pack");
    let suggested = |exit| suggest_command(&classifier, &command(exit, "", "the frobnicator is wedged"));
    assert!(suggested(Exit::Signal(9)).expect("a rule").contains("- exit: 137\n"));
    assert!(suggested(Exit::Code(3)).expect("a rule").contains("- exit: 3\n"));
}
