//! Any text as a policy file: never a panic, every finding has a place, and what is taken is trusted.

use std::path::Path;

use proptest::prelude::*;

#[path = "../../../fuzz/holds/policy.rs"]
mod holds;

/// Replays the corpus of the fuzz target `policy`.
#[test]
fn the_corpus_of_the_fuzz_target_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/policy");
    let mut texts = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus") {
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("bytes");
        if let Ok(text) = std::str::from_utf8(&bytes) {
            holds::policy(text);
            texts += 1;
        }
    }
    assert!(texts > 20, "{texts}");
}

/// Values that a slip, a script or malice may put behind a key.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| format!("{n:e}")),
        (-10.0..1e7_f64).prop_map(|n| n.to_string()),
        (0_u32..2000).prop_map(|n| n.to_string()),
        "[0-9]{1,3}(ms|s|m|h|d| KiB|%)?",
        "[a-z_]{0,12}",
        Just("true".to_owned()),
        Just("~".to_owned()),
        Just("[]".to_owned()),
        Just("{}".to_owned()),
        Just(".nan".to_owned()),
        Just("-.inf".to_owned()),
        "\\PC{0,12}".prop_map(|text| format!("'{}'", text.replace('\'', "''"))),
        prop::sample::select(halfopen::config::keys::KEYS.to_vec()).prop_map(|key| key.example.to_owned()),
    ]
}

fn line() -> impl Strategy<Value = String> {
    (prop::sample::select(halfopen::config::keys::KEYS.to_vec()), value()).prop_map(|(key, value)| {
        match key.path.rsplit_once('.') {
            Some((group, word)) => format!("  {}: {{{word}: {value}}}\n", group.replace('.', ": {")),
            None => format!("  {}: {value}\n", key.path),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
        holds::policy(&text);
    }

    #[test]
    fn no_yaml_makes_the_reader_panic(text in "[a-c:\\-\\[\\]{}&*!|>'\"#%?,~0-9. \n\t]{0,120}") {
        holds::policy(&text);
    }

    #[test]
    fn no_policy_makes_the_reader_panic(lines in prop::collection::vec(line(), 0..12)) {
        holds::policy(&format!("dependency_guard:\n  name: ocr\n{}", lines.concat()));
    }
}
