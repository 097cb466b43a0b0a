// What must hold for any outcome that is judged. Shared by the fuzz target and the test that replays its corpus.

use std::time::Duration;

use halfopen_core::classify::{Classifier, profiles, suggest_command, suggest_http};
use halfopen_core::outcome::{CommandOutcome, Excerpt, Exit, HttpOutcome, Reached};
use halfopen_core::time::{ReadAt, Timestamp};
use halfopen_core::verdict::{Class, Verdict};

/// Reads `bytes` as an outcome and checks what is promised about its verdict.
///
/// A first line of words: a pack, and an exit code (`claude-code exit 1`) or a status (`generic status 429`). Then, for
/// a command, standard output and, behind a line `---`, standard error; for HTTP, header lines, a blank line, a body.
pub(crate) fn classify(bytes: &[u8]) {
    let first = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let line = String::from_utf8_lossy(&bytes[..first]).into_owned();
    let rest = bytes.get(first + 1..).unwrap_or(&[]);
    let words: Vec<&str> = line.split_whitespace().collect();
    let pack = words.iter().find(|word| profiles().contains(*word)).copied().unwrap_or("generic");
    let number = words.iter().find_map(|word| word.parse::<u16>().ok());
    let classifier = Classifier::new(pack, Vec::new()).expect("the pack is embedded");
    let at = ReadAt::utc(Timestamp::from_millis(1_772_452_800_000));
    if words.contains(&"status") {
        http(&classifier, number.unwrap_or(500), rest, &at);
    } else {
        command(&classifier, Exit::Code(i32::from(number.unwrap_or(1) % 256)), rest, &at);
    }
}

fn command(classifier: &Classifier, exit: Exit, rest: &[u8], at: &ReadAt) {
    let border = rest.windows(5).position(|window| window == b"\n---\n");
    let (stdout, stderr) = border.map_or((rest, &[][..]), |at| (&rest[..at], &rest[at + 5..]));
    let outcome = CommandOutcome {
        exit,
        stdout: Excerpt::whole(stdout),
        stderr: Excerpt::whole(stderr),
        elapsed: Duration::ZERO,
    };
    let verdict = classifier.command(&outcome, at);
    sound(&verdict, at);
    // Cut anywhere, it is the same output.
    let mut ear = classifier.listen();
    stdout.chunks(3).for_each(|piece| ear.stdout(piece));
    stderr.chunks(5).for_each(|piece| ear.stderr(piece));
    assert_eq!(ear.finish(exit, Duration::ZERO, at), verdict, "the borders of pieces changed the verdict");
    assert_eq!(classifier.explain_command(&outcome, at).verdict, verdict, "explaining changed the verdict");
    let _ = suggest_command(classifier, &outcome);
}

fn http(classifier: &Classifier, status: u16, rest: &[u8], at: &ReadAt) {
    let border = rest.windows(2).position(|window| window == b"\n\n");
    let (head, body) = border.map_or((rest, &[][..]), |at| (&rest[..at], &rest[at + 2..]));
    let head = String::from_utf8_lossy(head).into_owned();
    let headers: Vec<(&str, &str)> = head.lines().filter_map(|line| line.split_once(':')).collect();
    let outcome = HttpOutcome {
        method: "POST",
        status,
        headers: &headers,
        body: Excerpt::whole(body),
        reached: Reached::Answered,
        elapsed: Duration::ZERO,
    };
    let verdict = classifier.http(&outcome, at);
    sound(&verdict, at);
    assert_eq!(classifier.explain_http(&outcome, at).verdict, verdict, "explaining changed the verdict");
    let _ = suggest_http(classifier, &outcome);
}

fn sound(verdict: &Verdict, at: &ReadAt) {
    let excerpt = &verdict.evidence.excerpt;
    assert!(excerpt.chars().count() <= 240, "evidence is too long");
    assert!(!excerpt.contains('\n'), "evidence is more than a line");
    assert!(verdict.hint.is_none() || verdict.class != Class::Success, "a success has a hint");
    assert!(verdict.hint.as_ref().is_none_or(|hint| hint.until >= at.now), "a hint lies in the past");
    assert!(!verdict.rule.is_empty(), "nobody speaks");
}
