//! Measures the store as `halfopen run` meets it: opened, asked once, left.
//!
//! The first opening after a quiet time reads the whole write-ahead log again, so the length of the log is the
//! parameter that matters; `kept open` is the case in which some other process has the file open.

use std::hint::black_box;
use std::path::Path;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use halfopen::core::event::State;
use halfopen::core::outcome::Reached;
use halfopen::core::pair::Answer;
use halfopen::core::permit::Ask;
use halfopen::core::policy::{Policy, Surface};
use halfopen::core::verdict::{Class, Verdict};
use halfopen::handle::{Handle, Route};
use halfopen::store::Location;

fn route() -> Route {
    Route { place: "ocr".parse().expect("a name"), account: Some("ocr@credential=main".parse().expect("a name")) }
}

fn open(file: &Path) -> Handle {
    Handle::open(&Location::Sqlite(file.to_owned())).expect("the store opens")
}

/// Makes a store whose log holds so many transactions: each saves a circuit and appends an event.
fn store_with_log(file: &Path, transactions: u32) {
    let handle = open(file);
    let policy = Policy::built_in("ocr", Surface::Run);
    for n in 0..transactions {
        let placed = handle.hold(&route().place, &policy, State::Closed, None, "bench", &n.to_string());
        placed.expect("the store can be written");
    }
    handle.release(&route().place, &policy, false, "bench", "").expect("the store can be written");
}

fn one_run(file: &Path, policy: &Policy) {
    let handle = open(file);
    let route = route();
    match handle.admit(&route, policy, Ask::Fresh) {
        Answer::Granted(pass) => {
            let verdict = Verdict::plain(Class::Success, "bench/success", Reached::Answered);
            black_box(handle.settle(&route, policy, pass, &verdict));
        }
        Answer::Refused { refusal, .. } => {
            black_box(refusal);
        }
    }
}

fn warm_open(c: &mut Criterion) {
    let policy = Policy::built_in("ocr", Surface::Run);
    let mut group = c.benchmark_group("store: open, ask, settle a success");
    for transactions in [0, 3, 6, 12, 24] {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("halfopen.db");
        store_with_log(&file, transactions);
        let pages = std::fs::metadata(dir.path().join("halfopen.db-wal")).map_or(0, |log| log.len() / 4120);
        group.bench_function(BenchmarkId::new("alone", format!("{transactions} writes, {pages} log pages")), |b| {
            b.iter(|| one_run(&file, &policy))
        });
        let _kept = open(&file);
        group.bench_function(BenchmarkId::new("kept open", format!("{transactions} writes, {pages} log pages")), |b| {
            b.iter(|| one_run(&file, &policy))
        });
    }
    group.finish();
}

fn failing_call(c: &mut Criterion) {
    let mut policy = Policy::built_in("ocr", Surface::Run);
    policy.circuit.open_after_failures = std::num::NonZeroU32::MAX;
    policy.circuit.window = std::time::Duration::from_millis(1);
    let dir = tempfile::tempdir().expect("a folder");
    let handle = open(&dir.path().join("halfopen.db"));
    let route = route();
    c.bench_function("store: ask and settle a failure", |b| {
        b.iter(|| {
            if let Answer::Granted(pass) = handle.admit(&route, &policy, Ask::Fresh) {
                let verdict = Verdict::plain(Class::ServerError, "bench/failure", Reached::Answered);
                black_box(handle.settle(&route, &policy, pass, &verdict));
            }
        });
    });
}

criterion_group!(benches, warm_open, failing_call);
criterion_main!(benches);
