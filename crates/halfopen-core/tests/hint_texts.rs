//! Replays the corpus of the fuzz target `hint`: what held when a text was added must go on holding.

use std::path::Path;

#[path = "../../../fuzz/holds/hint.rs"]
mod holds;

#[test]
fn every_text_of_the_corpus_keeps_its_promises() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/hint");
    let mut texts = 0;
    for entry in folder.read_dir().expect("the corpus is there") {
        #[expect(clippy::disallowed_methods, reason = "a test reads its corpus")]
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("a readable text");
        holds::hint(&bytes);
        texts += 1;
    }
    assert!(texts >= 30, "only {texts} texts in the corpus");
}
