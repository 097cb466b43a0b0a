// What must hold for any text as a scenario of the drill. Shared by the fuzz target and the test that replays its corpus.

use halfopen_cli::edges::{Rehearsed, rehearsed};

/// Reads `text` as a scenario, and plays it if it is small; twice, with one result.
pub(crate) fn drill(text: &str) -> Rehearsed {
    let once = rehearsed(text);
    match &once {
        Rehearsed::Unreadable(why) | Rehearsed::Senseless(why) => assert!(!why.is_empty(), "a mistake without a word"),
        Rehearsed::Read => {}
        Rehearsed::Played(_) => assert_eq!(rehearsed(text), once, "one scenario has two results"),
    }
    once
}
