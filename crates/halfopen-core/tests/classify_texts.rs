//! Replays the corpus of the fuzz target `classify`: what held when a text was added must go on holding.

use std::path::Path;

use proptest::strategy::Strategy;

#[path = "../../../fuzz/holds/classify.rs"]
mod holds;

#[test]
fn every_text_of_the_corpus_keeps_its_promises() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/classify");
    let mut texts = 0;
    for entry in folder.read_dir().expect("the corpus is there") {
        #[expect(clippy::disallowed_methods, reason = "a test reads its corpus")]
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("a readable text");
        holds::classify(&bytes);
        texts += 1;
    }
    assert!(texts >= 30, "only {texts} texts in the corpus");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_mixture_of_what_tools_print_keeps_the_promises(
        head in proptest::sample::select(vec![
            "claude-code exit 0\n", "claude-code exit 1\n", "codex exit 0\n", "curl exit 0\n", "generic exit 1\n",
            "generic status 200\ncontent-type: application/json\n\n", "generic status 429\nretry-after: 1\n\n",
            "generic status 200\ncontent-type: text/event-stream\n\n", "generic status 0\n\n", "npm exit 1\n",
        ]),
        parts in proptest::collection::vec(
            proptest::prop_oneof![
                proptest::sample::select(vec![
                    "{\"error\":{\"code\":429,\"message\":\"", "Error code: 429 - {'error': ", "API Error: 529 {", "}}", "\n", "\n---\n",
                    "{\"type\":\"result\",\"is_error\":true,\"result\":\"", "event: error\ndata: ", "<Error><Code>", "</Code>",
                    "You've hit your limit · resets 3pm", "HTTP/1.1 503 x\r\nretry-after: 7\r\n\r\n", "<html><title>", "429", "\u{1b}[31m",
                    "[", "\"", "'", "\\u", "…", "limit 5, requested 9", "Traceback", "  File \"", "try again in 5s", ": ", " ",
                ]).prop_map(str::to_owned),
                proptest::string::string_regex(".{0,12}").expect("a pattern"),
            ],
            0..24,
        ),
    ) {
        holds::classify(format!("{head}{}", parts.concat()).as_bytes());
    }
}
