// What must hold for any stream of events. Shared by the fuzz target and the test that replays its corpus.

use halfopen_cli::edges::{Heard, heard};

/// What a first line may say about how the rest is encoded.
const CODINGS: [&str; 4] = ["gzip", "deflate", "br", "zstd"];

/// Listens to `bytes` as they are and in pieces; returns what was understood.
///
/// The rest behind a first line `gzip`, `deflate`, `br` or `zstd` is encoded so.
pub(crate) fn events(bytes: &[u8]) -> Heard {
    let first = bytes.iter().position(|byte| *byte == b'\n');
    let coding = first.and_then(|at| CODINGS.into_iter().find(|coding| coding.as_bytes() == &bytes[..at]));
    let (coding, rest) = match (coding, first) {
        (Some(coding), Some(at)) => (coding, &bytes[at + 1..]),
        (_, _) => ("identity", bytes),
    };
    let whole = heard(coding, [rest]);
    assert!(whole.excerpt.chars().count() <= 240 && !whole.excerpt.contains('\n'), "evidence is more than a line");
    for size in [1, 3, 11] {
        let pieces = heard(coding, rest.chunks(size));
        // A damaged archive may yield more before its damage is seen, or less.
        assert!(coding != "identity" || pieces == whole, "pieces of {size} bytes changed what was understood");
    }
    if coding == "identity" && whole.first == "whole" {
        let more: Vec<u8> = [rest, b": and so on\n\n"].concat();
        assert_eq!(heard(coding, [&more[..]]).first, "whole", "an event that has come is gone");
    }
    whole
}
