//! Replays the corpora of the fuzz targets of what strangers send: what held once must go on holding.
//!
//! Files whose name begins with `bad-` must be refused, all others understood. What a fuzzer has found is minimised, put
//! beside them, and stays.

#![expect(clippy::unwrap_used, reason = "a corpus that cannot be read is a failed test")]

use std::path::Path;

use halfopen_cli::edges::Rehearsed;
use proptest::prelude::*;

#[path = "../../../../fuzz/holds/admin.rs"]
mod admin;
#[path = "../../../../fuzz/holds/drill.rs"]
mod drill;
#[path = "../../../../fuzz/holds/events.rs"]
mod events;
#[path = "../../../../fuzz/holds/framing.rs"]
mod framing;

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<(String, Vec<u8>)> = folder
        .read_dir()
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(path).unwrap())
        })
        .collect();
    files.sort();
    assert!(files.len() >= 12, "only {} files in the corpus {target}", files.len());
    files
}

fn is_bad(name: &str) -> bool {
    name.starts_with("bad-")
}

/// S074
#[test]
fn bytes_of_a_connection_pass_or_are_refused_as_they_were() {
    for (name, bytes) in corpus("framing") {
        assert_eq!(framing::framing(&bytes).ambiguity.is_some(), is_bad(&name), "{name}");
    }
}

#[test]
fn streams_of_events_are_understood_as_they_were() {
    for (name, bytes) in corpus("events") {
        let heard = events::events(&bytes);
        match name.as_str() {
            "whole" | "crlf" | "comment-then-event" | "done" | "many-lines" => {
                assert_eq!((heard.first, heard.verdict.starts_with("success")), ("whole", true), "{name}: {heard:?}");
            }
            "overloaded" | "gzip" => assert!(heard.verdict.starts_with("overloaded"), "{name}: {heard:?}"),
            "comment" => assert_eq!(heard.first, "comment"),
            _ => {}
        }
    }
}

#[test]
fn what_operators_ask_is_understood_or_refused_as_it_was() {
    for (name, bytes) in corpus("admin") {
        let understood = admin::admin(&bytes);
        assert_eq!(understood.is_err(), is_bad(&name), "{name}: {understood:?}");
    }
}

#[test]
fn scenarios_are_played_or_refused_as_they_were() {
    for (name, bytes) in corpus("drill") {
        let Ok(text) = std::str::from_utf8(&bytes) else { continue };
        let rehearsed = drill::drill(text);
        let refused = matches!(rehearsed, Rehearsed::Unreadable(_) | Rehearsed::Senseless(_));
        assert_eq!(refused, is_bad(&name), "{name}: {rehearsed:?}");
    }
}

/// Puts other bytes in a place of a file.
fn spoiled(files: &[(String, Vec<u8>)], which: usize, at: usize, put: &[u8], instead_of: usize) -> Vec<u8> {
    let mut bytes = files[which % files.len()].1.clone();
    let at = at % (bytes.len() + 1);
    let end = (at + instead_of).min(bytes.len());
    bytes.splice(at..end, put.iter().copied());
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn spoiled_bytes_keep_the_promises(
        which in 0..1000_usize,
        at in 0..2000_usize,
        put in prop::collection::vec(any::<u8>(), 0..4),
        instead_of in 0..6_usize,
    ) {
        let _ = framing::framing(&spoiled(&corpus("framing"), which, at, &put, instead_of));
        let _ = events::events(&spoiled(&corpus("events"), which, at, &put, instead_of));
        let _ = admin::admin(&spoiled(&corpus("admin"), which, at, &put, instead_of));
    }
}
