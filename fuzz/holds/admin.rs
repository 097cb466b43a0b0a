// What must hold for anything that an operator may ask. Shared by the fuzz target and the test that replays its corpus.

use halfopen_cli::edges::asked;

/// Reads `bytes` as a request (`POST /circuits/ocr/hold?full=true`, a line break, a body) and returns what was understood.
pub(crate) fn admin(bytes: &[u8]) -> Result<String, String> {
    let first = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let line = String::from_utf8_lossy(&bytes[..first]).into_owned();
    let body = bytes.get(first + 1..).unwrap_or(&[]);
    let (method, target) = line.split_once(' ').unwrap_or(("GET", &line));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let understood = asked(method, path, query, body);
    assert_eq!(asked(method, path, query, body), understood, "the same request means two things");
    if let Err(detail) = &understood {
        assert!(detail.ends_with('.'), "what is wrong is no sentence: {detail}");
        assert!(!detail.contains(['\n', '\r', '\0']), "what is wrong takes more than a line: {detail:?}");
        assert!(detail.chars().count() <= 1200, "what is wrong is too long: {detail}");
    }
    understood
}
