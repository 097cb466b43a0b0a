// What must hold for any outcome that hints are looked for in. Shared by the fuzz target and the test that replays its corpus.

use halfopen_core::hint::{HintInput, PackHints, Surroundings, advice, read};
use halfopen_core::time::{ReadAt, Timestamp};
use halfopen_core::verdict::Class;

/// Reads `bytes` as an outcome and checks what is promised about its hint.
///
/// The form is that of an HTTP message: a first line of words (`usage_limit command Europe/Warsaw 1772452800000`, each
/// optional), header lines, a blank line, and a body. The body is one text, and one JSON value if it is one.
pub(crate) fn hint(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\n\n").unwrap_or((&*text, ""));
    let mut lines = head.lines();
    let words: Vec<&str> = lines.next().unwrap_or("").split_whitespace().collect();
    let class = words.iter().find_map(|word| word.parse().ok()).unwrap_or(Class::RateLimited);
    let kind = if words.contains(&"command") { Surroundings::Command } else { Surroundings::Http };
    let millis = words.iter().find_map(|word| word.parse().ok()).unwrap_or(1_772_452_800_000);
    let zone = words.iter().find_map(|word| jiff::tz::TimeZone::get(word).ok()).unwrap_or(jiff::tz::TimeZone::UTC);
    let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
    let json: Vec<serde_json::Value> = serde_json::from_str(body).into_iter().collect();
    let at = ReadAt { now: Timestamp::from_millis(millis), wall_ms: millis, zone };
    let pack = PackHints::default();
    let ask = |headers: &[(&str, &str)], class| {
        let input = HintInput { class, headers, json: &json, texts: &[body], kind, pack: &pack };
        read(&input, &at)
    };

    let found = ask(&headers, class);
    if let Some(hint) = &found {
        assert!(hint.until >= at.now, "a hint lies in the past");
        assert_eq!(hint.until, at.now + hint.wait, "the instant is not the wait from now");
        assert!(!matches!(class, Class::Success | Class::Auth | Class::InvalidRequest), "{class} has a hint");
    }
    let mut turned = headers.clone();
    turned.reverse();
    assert_eq!(ask(&turned, class), found, "the order of headers changed the hint");
    assert_eq!(advice(&turned), advice(&headers), "the order of headers changed the advice");
    assert_eq!(ask(&headers, Class::Success), None, "a success has a hint");
}
