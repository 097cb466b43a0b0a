//! Every write of one job's life is the last one of its process, one after the other.
//!
//! Where the other rounds kill at random, this goes through all points: the limit on files starts at the length of the
//! store's log and grows by half a frame of SQLite's log from try to try, until a process comes through. So each write
//! is met twice: before its first byte, and torn in its middle. The file is the same each time: a copy.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::Instant;

use halfopen::handle::Handle;
use halfopen::store::Location;
use rustix::process::Signal;

use crate::PATIENCE;
use crate::books::{Books, Outcome, Told};
use crate::processes::halfopen;

/// Half a frame of the log (<https://www.sqlite.org/fileformat.html>, section 4.1): 24 and 4096 bytes.
const HALF_FRAME: u64 = 2060;

/// More points than any of these lives has; who comes to it does not come to an end.
const POINTS_MAX: u64 = 400;

/// In what a shell counts the length of files, in bytes.
const BLOCK: u64 = 512;

/// A command that a job runs, its store, and nothing else.
#[derive(Debug)]
pub(crate) struct Life {
    home: tempfile::TempDir,
}

impl Life {
    /// Makes a store in which `tool` is held open, so that what is run is kept.
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("bin")).unwrap();
        fs::create_dir(home.path().join("base")).unwrap();
        let tool = home.path().join("bin/tool");
        fs::write(&tool, "#!/bin/sh\necho \"$1\" >> \"$D/did\"\n").unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        let policy = "dependency_guard:\n  name: tool\n  profile: generic\n  lease_sec: 0.3\n  \
                      on_open: { action: queue, queue_ttl_min: 30 }\n";
        fs::write(home.path().join("policy.yaml"), policy).unwrap();
        let life = Self { home };
        let base = life.home.path().join("base");
        assert!(life.ends(&base, &["hold", "tool", "open"]).status.success());
        life
    }

    /// Queues the job in the base, and lets the circuit go, so that a drain performs it.
    pub(crate) fn queue(&self) -> Told {
        let base = self.home.path().join("base");
        let kept = told(&self.ends(&base, &KEEP));
        assert!(matches!(kept.outcome, Outcome::Kept(_)), "{kept:?}");
        self.release(&base);
        kept
    }

    /// Runs `words` on copies of the base, each with a further point at which it dies, every `stride`-th of them from
    /// `first` on, until one comes through; returns how many died. `check` is asked about each.
    pub(crate) fn each(
        &self,
        words: &[&str],
        first: u64,
        stride: usize,
        check: impl Fn(&Self, &Path, &Output),
    ) -> usize {
        for (died, point) in (first..POINTS_MAX).step_by(stride).enumerate() {
            let place = self.copy(point);
            let log = fs::metadata(place.join("halfopen.db-wal")).unwrap().len();
            let output = self.limited(&place, (log + point * HALF_FRAME) / BLOCK, words);
            let was_killed = output.status.signal() == Some(Signal::XFSZ.as_raw());
            assert!(was_killed || output.status.code().is_some(), "point {point}: {}", output.status);
            check(self, &place, &output);
            fs::remove_dir_all(&place).unwrap();
            if !was_killed {
                return died;
            }
        }
        panic!("{words:?} never comes through");
    }

    /// Lets drains come until nothing waits, and holds what is there against what was told.
    pub(crate) fn settle(&self, place: &Path, told: Told) {
        let began = Instant::now();
        let door = || Handle::open(&Location::Sqlite(place.join("halfopen.db"))).unwrap();
        loop {
            let figures = door().job_figures().unwrap();
            let waits = figures.values().map(|figures| figures.tally.queued + figures.tally.running).sum::<u64>();
            if waits == 0 {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{}: {figures:?}", place.display());
            self.ends(place, &["drain", "--once", "--max-wait", "500ms"]);
        }
        let executed = fs::read_to_string(place.join("did")).unwrap_or_default();
        let executed = executed.lines().map(|invoice| (invoice.to_owned(), executed.lines().count())).collect();
        let books = Books::default();
        books.note(told);
        let wrong = books.balance(&door(), &executed);
        assert!(wrong.is_empty(), "{}: {}", place.display(), wrong.join("\n"));
        let audit = self.ends(place, &["audit"]);
        assert!(audit.status.success(), "{}", String::from_utf8_lossy(&audit.stdout));
    }

    /// Lets the circuit of a copy go.
    pub(crate) fn release(&self, place: &Path) {
        assert!(self.ends(place, &["release", "tool"]).status.success());
    }

    fn copy(&self, point: u64) -> PathBuf {
        let place = self.home.path().join(format!("at-{point}"));
        fs::create_dir(&place).unwrap();
        for entry in fs::read_dir(self.home.path().join("base")).unwrap() {
            let entry = entry.unwrap();
            // What processes share is made anew by the first one.
            if entry.file_type().unwrap().is_file() && !entry.file_name().to_string_lossy().ends_with("-shm") {
                fs::copy(entry.path(), place.join(entry.file_name())).unwrap();
            }
        }
        place
    }

    fn ends(&self, place: &Path, words: &[&str]) -> Output {
        output(self.ours(place, words))
    }

    fn limited(&self, place: &Path, blocks: u64, words: &[&str]) -> Output {
        let ours = self.ours(place, words);
        let mut limited = Command::new("sh");
        limited.args(["-c", &format!("ulimit -f {blocks}; exec \"$@\""), "sh"]);
        limited.arg(ours.get_program()).args(ours.get_args()).env_clear();
        limited.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        limited.current_dir(self.home.path());
        output(limited)
    }

    fn ours(&self, place: &Path, words: &[&str]) -> Command {
        let mut command = halfopen(self.home.path(), &place.join("halfopen.db"), words);
        // Where the command writes what it did.
        command.env("D", place);
        command
    }
}

/// Keeps a command; where it writes is told to it when it runs.
pub(crate) const KEEP: [&str; 11] =
    ["run", "--dep", "tool", "--on-open", "queue", "--env-from", "D", "-n", "--", "tool", "inv-1"];

/// Performs what was kept.
pub(crate) const DRAIN: [&str; 4] = ["drain", "--once", "--max-wait", "0s"];

/// Returns what the caller of [`KEEP`] was told.
pub(crate) fn told(output: &Output) -> Told {
    let id = String::from_utf8_lossy(&output.stdout).trim_end().parse();
    let outcome = match (code(output.status), id) {
        (79, Ok(id)) => Outcome::Kept(id),
        _ => Outcome::Other,
    };
    Told { invoice: "inv-1".to_owned(), repeatable: false, outcome }
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or(-1)
}

fn output(mut command: Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap()
}
