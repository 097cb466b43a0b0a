//! Replays the corpora of the fuzz targets of what strangers send: what held once must go on holding.
//!
//! Files whose name begins with `bad-` must be refused, all others understood. What a fuzzer has found is minimised, put
//! beside them, and stays. Files are also spoiled at random, so many times; `HALFOPEN_EDGES_CASES=1000000` spoils more.

#![expect(clippy::unwrap_used, reason = "a corpus that cannot be read is a failed test")]

use std::path::Path;

use halfopen_cli::edges::Rehearsed;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

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

/// How many spoiled files are read of each kind.
const CASES: u32 = 256;
const MORE: &str = "HALFOPEN_EDGES_CASES";

/// Reads spoiled files of a corpus.
fn spoil(target: &str, one_in: u32, read: impl Fn(&[u8])) {
    let files = corpus(target);
    let cases = std::env::var(MORE).ok().and_then(|more| more.parse().ok()).unwrap_or(CASES) / one_in;
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let change = (0..2000_usize, prop::collection::vec(any::<u8>(), 0..4), 0..6_usize);
    let strategy = (0..1000_usize, prop::collection::vec(change, 1..6));
    let tried = TestRunner::new(config).run(&strategy, |(which, changes)| {
        let mut bytes = files[which % files.len()].1.clone();
        for (at, put, instead_of) in changes {
            let at = at % (bytes.len() + 1);
            let end = (at + instead_of).min(bytes.len());
            bytes.splice(at..end, put);
        }
        read(&bytes);
        Ok(())
    });
    if let Err(error) = tried {
        panic!("{target}: {error}");
    }
}

#[test]
fn spoiled_requests_keep_the_promises() {
    spoil("framing", 1, |bytes| {
        let _ = framing::framing(bytes);
    });
}

#[test]
fn spoiled_events_keep_the_promises() {
    spoil("events", 1, |bytes| {
        let _ = events::events(bytes);
    });
}

#[test]
fn spoiled_questions_keep_the_promises() {
    spoil("admin", 1, |bytes| {
        let _ = admin::admin(bytes);
    });
}

/// A scenario is played, which takes longer than reading one.
#[test]
fn spoiled_scenarios_keep_the_promises() {
    spoil("drill", 8, |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            let _ = drill::drill(text);
        }
    });
}
