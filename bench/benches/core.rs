//! Measures a guarded call in a long-lived process: rows L1 to L5, against what the machine itself can do.
//!
//! Two cores shared with others move by a factor of two from minute to minute, so repetitions are the outer loop and
//! the compared things the inner one, and what counts is the ratio to a floor of the same repetition. Criterion runs
//! one thing after the other and cannot do that; so this is a loop of its own.
//!
//! A figure is wall time over the calls of all threads: perfect scaling on two cores halves the figure of one thread,
//! so one that rises with the threads means contention.
//!
//! ```text
//! cargo bench -p halfopen-bench --bench core [-- REPETITIONS CELL_MS]
//! ```

use std::hint::black_box;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use halfopen::core::event::State;
use halfopen::core::policy::{Policy, Surface};
use halfopen::guard::Guard;
use halfopen::handle::{Handle, Route};
use halfopen::store::Location;

/// Calls between two looks at whether the cell is over.
const BATCH: u64 = 1000;

/// One measured thing; it is run by several threads at once.
struct Row<'a> {
    name: &'static str,
    call: Box<dyn Fn(u64) + Sync + 'a>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let repetitions = numbers.first().copied().unwrap_or(9);
    let cell = Duration::from_millis(numbers.get(1).copied().unwrap_or(40));

    let state = AtomicU8::new(0);
    let failures = AtomicU32::new(0);
    let count = AtomicU64::new(0);
    let closed = guard("closed", 0, false)?;
    let window = guard("window", 4, false)?;
    let open = guard("open", 0, true)?;
    let rows = rows(&state, &failures, &count, &closed, &window, &open);

    let mut out = std::io::stdout().lock();
    for threads in [1, 2, 8] {
        let mut cells: Vec<Vec<f64>> = vec![Vec::new(); rows.len()];
        for _ in 0..repetitions {
            for (row, cells) in rows.iter().zip(&mut cells) {
                cells.push(nanos_per_call(row, threads, cell));
            }
        }
        writeln!(
            out,
            "\n{threads} thread(s)\n\n| | ns per call (min–max) | x two loads | x fetch_add | x Instant::now |"
        )?;
        writeln!(out, "|---|---|---|---|---|")?;
        for (row, own) in rows.iter().zip(&cells) {
            let ratio = |floor: usize| median(own.iter().zip(&cells[floor]).map(|(own, floor)| own / floor).collect());
            let (low, high) = own.iter().fold((f64::MAX, 0f64), |(low, high), ns| (low.min(*ns), high.max(*ns)));
            writeln!(
                out,
                "| {} | {:.2} ({low:.2}–{high:.2}) | {:.2} | {:.2} | {:.2} |",
                row.name,
                median(own.clone()),
                ratio(0),
                ratio(1),
                ratio(2)
            )?;
        }
    }
    Ok(())
}

fn rows<'a>(
    state: &'a AtomicU8,
    failures: &'a AtomicU32,
    count: &'a AtomicU64,
    closed: &'a Guard,
    window: &'a Guard,
    open: &'a Guard,
) -> Vec<Row<'a>> {
    let row = |name, call: Box<dyn Fn(u64) + Sync + 'a>| Row { name, call };
    vec![
        row(
            "floor: two loads",
            Box::new(|calls| {
                for _ in 0..calls {
                    black_box(state.load(Ordering::Acquire));
                    black_box(failures.load(Ordering::Acquire));
                }
            }),
        ),
        row(
            "floor: fetch_add on one counter",
            Box::new(|calls| {
                for _ in 0..calls {
                    black_box(count.fetch_add(1, Ordering::Relaxed));
                }
            }),
        ),
        row(
            "floor: Instant::now",
            Box::new(|calls| {
                for _ in 0..calls {
                    black_box(Instant::now());
                }
            }),
        ),
        row("L1, L2: closed, success", Box::new(|calls| succeed(closed, calls))),
        row("L3, L4: closed, success, four failures in the window", Box::new(|calls| succeed(window, calls))),
        row(
            "L5: open, refused",
            Box::new(|calls| {
                for _ in 0..calls {
                    let _ = black_box(open.admit().map(drop));
                }
            }),
        ),
    ]
}

fn succeed(guard: &Guard, calls: u64) {
    for n in 0..calls {
        let _ = black_box(guard.call(|| Ok::<_, ()>(black_box(n))));
    }
}

/// Returns a guard whose circuit has seen so many failures, and is held open if wanted.
fn guard(name: &str, failures: u32, open: bool) -> Result<Guard, Box<dyn std::error::Error>> {
    let handle = Arc::new(Handle::open(&Location::Memory)?);
    let route = Route { place: name.parse()?, account: None };
    let policy = Policy::built_in(name, Surface::Serve);
    let failures = if open { 5 } else { failures };
    let guard = Guard::new(&handle, route, policy.clone());
    for _ in 0..failures {
        let _ = guard.call(|| Err::<(), ()>(()));
    }
    let state = handle.circuits(&|_| policy.clone())?.first().map_or(State::Closed, |view| view.status.state);
    assert_eq!(state == State::Open, open, "{name} is as it should be");
    Ok(guard)
}

/// Runs a row on so many threads for about `cell`.
fn nanos_per_call(row: &Row<'_>, threads: usize, cell: Duration) -> f64 {
    let over = AtomicBool::new(false);
    let calls = AtomicU64::new(0);
    let barrier = Barrier::new(threads + 1);
    let mut elapsed = Duration::ZERO;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                barrier.wait();
                let mut done = 0;
                while !over.load(Ordering::Relaxed) {
                    (row.call)(BATCH);
                    done += BATCH;
                }
                calls.fetch_add(done, Ordering::Relaxed);
                barrier.wait();
            });
        }
        barrier.wait();
        let began = Instant::now();
        std::thread::sleep(cell);
        over.store(true, Ordering::Relaxed);
        barrier.wait();
        elapsed = began.elapsed();
    });
    elapsed.as_nanos() as f64 / calls.load(Ordering::Relaxed) as f64
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
