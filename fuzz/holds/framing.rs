// What must hold for any bytes on a connection. Shared by the fuzz target and the test that replays its corpus.

use halfopen_cli::edges::{Framed, framed};

/// Follows `bytes` as they are and in pieces; returns what became of them.
pub(crate) fn framing(bytes: &[u8]) -> Framed {
    let whole = framed([bytes]);
    assert!(whole.passed <= bytes.len(), "more passed than came");
    for size in [1, 2, 7] {
        assert_eq!(framed(bytes.chunks(size)), whole, "pieces of {size} bytes changed what passes");
    }
    // What passed once passes again, and nothing in it is ambiguous.
    let again = framed([&bytes[..whole.passed]]);
    assert_eq!((again.passed, again.ambiguity), (whole.passed, None), "what passed is ambiguous");
    whole
}
