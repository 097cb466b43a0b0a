//! Replays what the fuzzer has found, and checks that its corpus still reaches every corner.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use halfopen_core::snapshot::record;

use crate::holds;
use crate::walk::Walk;

fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/circuit");
    let entries = std::fs::read_dir(&folder).expect("the corpus stands beside the fuzz target");
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn every_walk_of_the_corpus_keeps_the_promises() {
    for (_, bytes) in corpus() {
        holds::circuit(&bytes);
    }
}

/// Names what a walk has seen: events, reasons of trips, ends of probes, reasons of refusals.
fn corners(bytes: &[u8]) -> BTreeSet<String> {
    let mut corners = BTreeSet::new();
    Walk::along(bytes, |_, _, done| {
        for event in &done.events {
            let record = record(event, "ocr", None, None);
            corners.insert(record.event.clone());
            if record.event == "tripped" {
                corners.insert(format!("tripped {} from {}", record.reason.unwrap_or_default(), record.from_state));
            }
            corners.extend(record.probe_result.map(|result| format!("probe {result}")));
        }
        match &done.answer {
            None => {}
            Some(Ok(permit)) => {
                corners.insert(format!("granted {:?}{}", permit.kind, if permit.ramped { " ramped" } else { "" }));
            }
            Some(Err(refusal)) => {
                corners.insert(format!("refused {}", refusal.reason.as_str()));
            }
        }
    });
    corners
}

#[test]
fn the_corpus_reaches_every_corner() {
    let reached: BTreeSet<String> = corpus().iter().flat_map(|(_, bytes)| corners(bytes)).collect();
    for corner in [
        "auth_failed",
        "failure_counted",
        "granted Held",
        "granted Probe",
        "granted Regular",
        "granted Regular ramped",
        "half_opened",
        "hint_cut",
        "hold_ended",
        "hold_placed",
        "probe failure",
        "probe lost",
        "probe neutral",
        "probe success",
        "ramp_began",
        "ramp_ended",
        "ramp_stepped",
        "recovered",
        "refused held",
        "refused open",
        "refused probes_out",
        "refused ramp",
        "refused throttled",
        "reset",
        "throttled",
        "tripped failures from closed",
        "tripped long_wait from closed",
        "tripped probe_failed from half_open",
        "tripped probe_stalled from half_open",
        "tripped probes_inconclusive from half_open",
        "tripped quota_exhausted from closed",
        "tripped quota_exhausted from half_open",
        "tripped quota_exhausted from open",
    ] {
        assert!(reached.contains(corner), "no walk of the corpus reaches `{corner}`; they reach {reached:#?}");
    }
}
