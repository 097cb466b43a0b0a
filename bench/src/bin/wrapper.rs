//! Measures what `halfopen run` costs over the bare command, beside `timeout` and a Python tenacity wrapper.
//!
//! Two cores shared with others move by a factor of two from minute to minute, so repetitions are the outer loop and
//! the commands the inner one: every figure is a median over repetitions of medians, and what counts is a ratio to
//! another command of the same run.
//!
//! ```text
//! cargo build --release --locked && cargo run --release -p halfopen-bench --bin wrapper -- [RUNS] [REPETITIONS]
//! ```
//!
//! `PYTHON` names an interpreter that has tenacity; without one that row is left out.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// One compared command.
struct Row {
    name: &'static str,
    command: Vec<String>,
    /// Exit code that proves that the row did what its name says.
    expect: i32,
    /// Divides the number of runs, for rows that are slow.
    scale: usize,
}

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<usize>());
    let runs = numbers.next().transpose().context("RUNS is not a number")?.unwrap_or(200);
    let repetitions = numbers.next().transpose().context("REPETITIONS is not a number")?.unwrap_or(5);
    let binary = std::env::current_exe()?.with_file_name("halfopen");
    if !binary.exists() {
        bail!("{} is missing; run `cargo build --release --locked` first", binary.display());
    }
    let folder = tempfile::tempdir()?;
    let rows = rows(&binary, folder.path())?;

    let mut medians: Vec<Vec<Duration>> = vec![Vec::new(); rows.len()];
    for _ in 0..repetitions {
        for (row, medians) in rows.iter().zip(&mut medians) {
            medians.push(median((0..(runs / row.scale).max(5)).map(|_| once(row)).collect::<Result<_>>()?));
        }
    }

    let mut out = std::io::stdout().lock();
    writeln!(out, "| command | median ms (min–max) | over bare ms | x bare | x timeout |\n|---|---|---|---|---|")?;
    let bare = median(medians[0].clone());
    let timeout = median(medians[1].clone());
    for (row, medians) in rows.iter().zip(medians) {
        let middle = median(medians.clone());
        writeln!(
            out,
            "| {} | {} ({}–{}) | {:+.3} | {:.2} | {:.2} |",
            row.name,
            millis(middle),
            millis(medians.iter().copied().min().unwrap_or_default()),
            millis(medians.iter().copied().max().unwrap_or_default()),
            (middle.as_secs_f64() - bare.as_secs_f64()) * 1e3,
            middle.as_secs_f64() / bare.as_secs_f64(),
            middle.as_secs_f64() / timeout.as_secs_f64(),
        )?;
    }
    Ok(())
}

fn rows(binary: &Path, folder: &Path) -> Result<Vec<Row>> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let halfopen = |store: &str, dependency: &str| {
        let store = folder.join(store);
        words(&format!("{} run --store {} --dep {dependency} -- /bin/true", binary.display(), store.display()))
    };
    let mut rows = vec![
        Row { name: "`/bin/true`", command: words("/bin/true"), expect: 0, scale: 1 },
        Row { name: "`timeout 10 /bin/true`", command: words("timeout 10 /bin/true"), expect: 0, scale: 1 },
        Row { name: "`env /bin/true`", command: words("env /bin/true"), expect: 0, scale: 1 },
        Row { name: "`sh -c /bin/true`", command: words("sh -c /bin/true"), expect: 0, scale: 1 },
        Row { name: "`halfopen run`, closed", command: halfopen("closed.db", "bench"), expect: 0, scale: 1 },
        Row { name: "`halfopen run`, open", command: halfopen("open.db", "bench"), expect: 69, scale: 1 },
    ];
    // The open row needs an open circuit: an operator's hold without an end is the one that stays.
    once(&Row { name: "warm up", command: halfopen("closed.db", "bench"), expect: 0, scale: 1 })?;
    let hold = format!("{} hold --store {} bench open", binary.display(), folder.join("open.db").display());
    once(&Row { name: "hold", command: words(&hold), expect: 0, scale: 1 })?;
    if let Some(python) = std::env::var_os("PYTHON").map(PathBuf::from) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("wrapper/tenacity_wrap.py");
        let line = format!("{} {} /bin/true", python.display(), script.display());
        rows.push(Row { name: "Python tenacity", command: words(&line), expect: 0, scale: 10 });
    }
    Ok(rows)
}

/// Runs a row once and returns how long it took, from before the start to after the end.
fn once(row: &Row) -> Result<Duration> {
    let (program, arguments) = row.command.split_first().context("empty command")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status().with_context(|| format!("{program} does not start"))?;
    let took = start.elapsed();
    if status.code() != Some(row.expect) {
        bail!("{} ended with {status}, expected {}", row.command.join(" "), row.expect);
    }
    Ok(took)
}

fn median(mut durations: Vec<Duration>) -> Duration {
    durations.sort_unstable();
    durations.get(durations.len() / 2).copied().unwrap_or_default()
}

fn millis(duration: Duration) -> String {
    format!("{:.3}", duration.as_secs_f64() * 1e3)
}
