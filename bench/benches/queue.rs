//! Measures the queue beside what bounds it, in one run: a flush of the disk, and SQLite committing groups by hand.
//!
//! ```text
//! cargo bench -p halfopen-bench --bench queue -- [JOBS] [DEPTH]
//! ```
//!
//! JOBS are enqueued and drained in each row (default 2000), DEPTH is the longer queue of the last row (default
//! 100000). Rows of one question alternate within the run, because the disk and the two cores move from minute to minute:
//! what counts is the ratio beside a figure. The folder is the one of `TMPDIR`; on a memory file system no flush costs
//! anything, and the figures say nothing.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use halfopen::config::QueueBounds;
use halfopen::core::job::{HttpRequest, JobRequest, Safety, Terms};
use halfopen::core::outcome::Reached;
use halfopen::core::policy::{OnExpiry, Policy, Surface};
use halfopen::core::verdict::{Class, Verdict};
use halfopen::handle::Handle;
use halfopen::handle::jobs::{Claim, Ending, NewJob};
use halfopen::store::Location;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

/// The size of a payload, in bytes: as in the peers' runs.
const PAYLOAD: usize = 600;

/// How many changes the raw writer commits at most together.
const RAW_BATCH: usize = 64;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse::<usize>().ok());
    let jobs = numbers.next().unwrap_or(2000);
    let depth = numbers.next().unwrap_or(100_000);
    flush();
    for producers in [1, 8, 32, 64] {
        let raw = raw_enqueue(producers, jobs);
        let ours = enqueue(producers, jobs);
        let ratio = ours.per_second / raw.per_second;
        say(&format!("enqueue, {producers:>2} producers   raw {raw}   ours {ours}   ratio {ratio:.2}"));
    }
    for workers in [1, 8, 32] {
        let ours = drain(workers, jobs);
        say(&format!("claim + note + finish, {workers:>2} workers   ours {ours}"));
    }
    let raw = raw_drain(jobs);
    say(&format!("raw take + ack, one at a time   {raw}"));
    for queued in [1000, depth] {
        let (claims, grown) = claim(queued);
        say(&format!("claim with {queued:>7} queued   {claims}   memory {grown}"));
    }
}

#[expect(clippy::print_stdout, reason = "the figures are this program's output")]
fn say(line: &str) {
    println!("{line}");
}

/// A rate with the times of single operations.
struct Figure {
    per_second: f64,
    median: Duration,
    slowest_hundredth: Duration,
}

impl Figure {
    fn of(mut times: Vec<Duration>, took: Duration) -> Self {
        times.sort_unstable();
        let at = |share: usize| times.get(times.len().saturating_sub(1) * share / 100).copied().unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
        let per_second = times.len() as f64 / took.as_secs_f64();
        Self { per_second, median: at(50), slowest_hundredth: at(99) }
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (p50, p99) = (self.median.as_micros(), self.slowest_hundredth.as_micros());
        write!(f, "{:.0}/s (p50 {p50} µs, p99 {p99} µs)", self.per_second)
    }
}

/// Runs `one` from many threads, `jobs` times in all.
fn from_many(threads: usize, jobs: usize, one: impl Fn() + Sync) -> Figure {
    let began = Instant::now();
    let times = std::thread::scope(|scope| {
        let each = jobs.div_ceil(threads);
        let one = &one;
        let running: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(move || {
                    let timed = |_| {
                        let began = Instant::now();
                        one();
                        began.elapsed()
                    };
                    (0..each).map(timed).collect::<Vec<_>>()
                })
            })
            .collect();
        running.into_iter().flat_map(|thread| thread.join().expect("no thread panics")).collect()
    });
    Figure::of(times, began.elapsed())
}

fn flush() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut file = OpenOptions::new().create(true).append(true).open(dir.path().join("log")).expect("a file");
    let times: Vec<Duration> = (0..500)
        .map(|_| {
            let began = Instant::now();
            file.write_all(&[0; 512]).expect("it can be written");
            file.sync_data().expect("it can be flushed");
            began.elapsed()
        })
        .collect();
    let took = times.iter().sum();
    say(&format!("append 512 bytes and flush   {}", Figure::of(times, took)));
}

fn raw_store(path: &Path) -> Connection {
    let conn = Connection::open(path).expect("a file");
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
         CREATE TABLE jobs (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, payload BLOB NOT NULL); \
         CREATE INDEX ready ON jobs (id) WHERE state = 0;",
    )
    .expect("a table");
    conn
}

/// N threads that wait until their own row is durable, one that writes what is queued, at most 64 at once.
fn raw_enqueue(producers: usize, jobs: usize) -> Figure {
    let dir = tempfile::tempdir().expect("a folder");
    let conn = raw_store(&dir.path().join("raw.db"));
    let (submit, submitted): (SyncSender<SyncSender<()>>, Receiver<SyncSender<()>>) = sync_channel(4096);
    let writer = std::thread::spawn(move || {
        let payload = vec![0_u8; PAYLOAD];
        while let Ok(first) = submitted.recv() {
            let waiting: Vec<_> = std::iter::once(first).chain(submitted.try_iter().take(RAW_BATCH - 1)).collect();
            let tx = Transaction::new_unchecked(&conn, TransactionBehavior::Immediate).expect("the lock is free");
            for _ in &waiting {
                tx.prepare_cached("INSERT INTO jobs (state, payload) VALUES (0, ?1)")
                    .and_then(|mut insert| insert.execute(params![payload]))
                    .expect("a row");
            }
            tx.commit().expect("a commit");
            for told in waiting {
                let _ = told.send(());
            }
        }
    });
    let figure = from_many(producers, jobs, || {
        let (tell, told) = sync_channel(1);
        submit.send(tell).expect("the writer is there");
        told.recv().expect("the writer answers");
    });
    drop(submit);
    writer.join().expect("the writer ends");
    figure
}

/// Takes and removes one row after the other, each in a commit of its own.
fn raw_drain(jobs: usize) -> Figure {
    let dir = tempfile::tempdir().expect("a folder");
    let conn = raw_store(&dir.path().join("raw.db"));
    let tx = Transaction::new_unchecked(&conn, TransactionBehavior::Immediate).expect("the lock is free");
    for _ in 0..jobs {
        tx.execute("INSERT INTO jobs (state, payload) VALUES (0, ?1)", params![vec![0_u8; PAYLOAD]]).expect("a row");
    }
    tx.commit().expect("a commit");
    let conn = std::sync::Mutex::new(conn);
    from_many(1, jobs, || {
        let conn = conn.lock().expect("nobody panicked");
        let id: i64 = conn
            .prepare_cached("UPDATE jobs SET state = 1 WHERE id = (SELECT id FROM jobs WHERE state = 0 ORDER BY id LIMIT 1) RETURNING id")
            .and_then(|mut take| take.query_row([], |row| row.get(0)))
            .expect("a row");
        conn.prepare_cached("DELETE FROM jobs WHERE id = ?1").and_then(|mut ack| ack.execute([id])).expect("it goes");
    })
}

fn policy() -> Policy {
    let mut policy = Policy::built_in("ocr", Surface::Serve);
    policy.drain.max_in_flight_max = std::num::NonZeroU32::MAX;
    policy
}

fn new_job() -> NewJob {
    NewJob {
        terms: Terms {
            place: "ocr".parse().expect("a name"),
            account: Some("ocr@credential=main".parse().expect("a name")),
            ttl: Duration::from_secs(3600),
            on_expiry: OnExpiry::ManualReview,
            safety: Safety::Idempotent,
            keep: Duration::from_secs(3600),
        },
        request: JobRequest::Http(HttpRequest {
            method: "POST".to_owned(),
            target: "/v1/scan".to_owned(),
            headers: vec![("content-type".to_owned(), b"application/json".to_vec())],
            credential: None,
            body: vec![0; PAYLOAD],
        }),
        key: None,
        order_key: None,
        review: None,
        retry_at: None,
        bounds: QueueBounds { jobs_max: u64::MAX, bytes_max: u64::MAX, ..QueueBounds::default() },
        caller: None,
        on_done: false,
    }
}

fn open(path: &Path) -> Handle {
    let handle = Handle::open(&Location::Sqlite(path.to_owned())).expect("the store opens");
    handle.commit_in_groups().expect("the threads start");
    handle
}

fn enqueue(producers: usize, jobs: usize) -> Figure {
    let dir = tempfile::tempdir().expect("a folder");
    let handle = open(&dir.path().join("halfopen.db"));
    from_many(producers, jobs, || {
        handle.enqueue(new_job()).expect("it is accepted");
    })
}

/// Fills a queue without waiting for each.
fn fill(handle: &Handle, jobs: usize) {
    let (tell, told) = std::sync::mpsc::channel();
    let mut waiting = 0;
    for _ in 0..jobs {
        let tell = tell.clone();
        handle.enqueue_then(new_job(), move |accepted| {
            accepted.expect("it is accepted");
            let _ = tell.send(());
        });
        waiting += 1;
        if waiting == 4096 {
            told.recv().expect("it is told");
            waiting -= 1;
        }
    }
    for _ in 0..waiting {
        told.recv().expect("it is told");
    }
}

fn drain(workers: usize, jobs: usize) -> Figure {
    let dir = tempfile::tempdir().expect("a folder");
    let handle = open(&dir.path().join("halfopen.db"));
    let jobs = jobs.div_ceil(workers) * workers;
    fill(&handle, jobs);
    let policy = policy();
    let verdict = Verdict::plain(Class::Success, "bench/success", Reached::Answered);
    let ending = Ending { verdict, took: Duration::from_millis(1), command: None, result: None };
    from_many(workers, jobs, || {
        let Claim::Taken(lease) = handle.claim_job("ocr", &policy, "bench").expect("the store answers") else {
            panic!("there is a job for everybody")
        };
        handle.note_sending(&lease, &policy).expect("it is noted");
        handle.finish_job(&lease, &policy, &ending).expect("it is done");
    })
}

/// Measures 500 claims of a queue of that depth, and what memory the process holds with it: a queue lies on the disk.
fn claim(depth: usize) -> (Figure, String) {
    let dir = tempfile::tempdir().expect("a folder");
    let handle = open(&dir.path().join("halfopen.db"));
    let opened = resident_kib();
    fill(&handle, depth);
    let filled = resident_kib();
    let policy = policy();
    let figure = from_many(1, 500, || {
        let Claim::Taken(lease) = handle.claim_job("ocr", &policy, "bench").expect("the store answers") else {
            panic!("there is a job")
        };
        std::hint::black_box(lease.id);
    });
    let claimed = resident_kib();
    (figure, format!("{opened} KiB when opened, {filled} filled, {claimed} after 500 claims"))
}

/// Returns the memory that the process holds, in KiB, as Linux counts it; 0 where it does not say.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
