//! Replays the corpus of the fuzz target `stored`: what held when a form was added must go on holding.

use std::path::Path;

use proptest::strategy::Strategy;

#[path = "../../../fuzz/holds/stored.rs"]
mod holds;

fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/stored");
    let mut texts: Vec<(String, Vec<u8>)> = folder
        .read_dir()
        .expect("the corpus is there")
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            #[expect(clippy::disallowed_methods, reason = "a test reads its corpus")]
            let bytes = std::fs::read(path).expect("a readable text");
            (name, bytes)
        })
        .collect();
    texts.sort();
    texts
}

#[test]
fn every_form_of_the_corpus_is_read_or_refused_as_it_was() {
    let corpus = corpus();
    for (name, bytes) in &corpus {
        assert_eq!(holds::stored(bytes), !name.starts_with("bad-"), "{name}");
    }
    assert!(corpus.len() >= 20, "only {} texts in the corpus", corpus.len());
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

    /// A byte that flips on a disk is refused or read as another value; it never ends the process.
    #[test]
    fn a_form_with_a_wrong_place_keeps_the_promises(
        which in 0..1000_usize,
        at in 0..2000_usize,
        put in proptest::prop_oneof![
            proptest::sample::select(vec![
                "-", "9", "99999999999999999999", "-9223372036854775808", "18446744073709551615", "null", "[]", "{}", "\"\"", ",", "}",
                "1e400", "0.5", "\\u0000", "\"state\":", "true",
            ]).prop_map(str::to_owned),
            proptest::string::string_regex(".{1,3}").expect("a pattern"),
        ],
        instead_of in 0..6_usize,
    ) {
        let corpus = corpus();
        let (_, mut bytes) = corpus[which % corpus.len()].clone();
        let at = at % bytes.len();
        let end = (at + instead_of).min(bytes.len());
        bytes.splice(at..end, put.bytes());
        holds::stored(&bytes);
    }
}
