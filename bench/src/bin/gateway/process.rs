//! Starts what is measured on a core of its own, and reads from `/proc` what it costs.
//!
//! A gateway may be several processes (nginx is two), so everything is summed over the tree. CPU time is read from
//! `schedstat`, in nanoseconds, because the ticks of `stat` are 10 ms and a cell of one event stream costs 60; `stat`
//! alone counts threads that have ended, so the larger of the two is taken. Memory is Pss, in which a page that two
//! processes of a tree share counts once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

/// Clock ticks per second of `/proc/PID/stat`; Linux shows 100 to programs whatever the kernel counts in.
const TICKS: f64 = 100.0;

/// How long a process may take to end by itself once asked.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running process and its log; it and its children end with this value.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts `words` on `core`, what it prints kept in `log`.
    pub(crate) fn start(core: usize, words: &[String], folder: &Path, log: PathBuf) -> Result<Self> {
        let file = fs::File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
        let child = Command::new("taskset")
            .args(["-c", &core.to_string()])
            .args(words)
            .current_dir(folder)
            // Caddy keeps its state below HOME, and one worker each is the rule of the comparison.
            .env("HOME", folder)
            .env("GOMAXPROCS", "1")
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("{} does not start", words.join(" ")))?;
        Ok(Self { child, log })
    }

    /// Returns whether the process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns the end of what the process printed, for a message.
    pub(crate) fn last_words(&self) -> String {
        let printed = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = printed.lines().rev().take(6).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n  ")
    }

    /// Returns the CPU seconds, user and system, that the tree has used since its start.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.tree().into_iter().map(cpu_seconds_of).sum()
    }

    /// Returns the proportional share of memory of the tree, in MiB.
    pub(crate) fn pss_mib(&self) -> f64 {
        let of = |pid: u32| -> Option<f64> {
            let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
            let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
            line.split_whitespace().next()?.parse().ok()
        };
        self.tree().into_iter().filter_map(of).sum::<f64>() / 1024.0
    }

    fn tree(&self) -> Vec<u32> {
        let (mut found, mut left) = (Vec::new(), vec![self.child.id()]);
        while let Some(pid) = left.pop() {
            found.push(pid);
            for thread in threads(pid) {
                let children = fs::read_to_string(thread.join("children")).unwrap_or_default();
                left.extend(children.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
            }
        }
        found
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let tree = self.tree();
        signal(&tree[..1], Signal::TERM);
        let asked = Instant::now();
        while !self.has_ended() && asked.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        // A parent that ends when asked takes its children along; one that does not is ended together with them.
        if !self.has_ended() {
            signal(&tree, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

fn signal(pids: &[u32], signal: Signal) {
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
        let _ = kill_process(pid, signal);
    }
}

fn threads(pid: u32) -> Vec<PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"));
    entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn cpu_seconds_of(pid: u32) -> f64 {
    let of_thread = |thread: PathBuf| -> Option<f64> {
        let nanos: f64 = fs::read_to_string(thread.join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()?;
        Some(nanos / 1e9)
    };
    let by_schedstat: f64 = threads(pid).into_iter().filter_map(of_thread).sum();
    let by_stat = || -> Option<f64> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may contain blanks; the fields after it are counted from the third, the state.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let user: f64 = fields.next()?.parse().ok()?;
        let system: f64 = fields.next()?.parse().ok()?;
        Some((user + system) / TICKS)
    };
    by_schedstat.max(by_stat().unwrap_or_default())
}
