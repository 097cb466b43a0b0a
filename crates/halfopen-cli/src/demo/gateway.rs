//! The gateway of the demo: our own binary as a child, with a policy and a store in a folder of its own.
//!
//! Nothing of the user's is read or written: the child has an environment of its own, without `HALFOPEN_*`, and its home is
//! the folder. It is in a process group of its own, so that Ctrl-C reaches this process alone, which then ends it in
//! order. Where the system can do it (Linux), the child is also ended when this process is killed: before it becomes
//! `halfopen serve` it asks for a signal on its parent's death, which survives `exec`.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use halfopen::handle::Handle;
use halfopen::handle::jobs::AuditReport;
use halfopen::store::{Location, StoreError};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::args::Shared;
use crate::ui;

/// How long the gateway may take until it serves.
const STARTS_WITHIN: Duration = Duration::from_secs(30);
/// How long it may take to end, its own grace included.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How much of what the gateway said is shown when it does not start, in bytes.
const SAID_MAX: usize = 2000;

/// The times of a story.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Times {
    /// How long an attempt may take.
    pub(super) timeout: Duration,
    /// The first cooldown.
    pub(super) open_for: Duration,
    /// Between two invoices that come in.
    pub(super) between: Duration,
    /// Jobs a second that return.
    pub(super) per_sec: f64,
    /// How long the OCR reads.
    pub(super) reads: Duration,
}

impl Times {
    /// Returns the times of a story that is told `speed` times as fast. A timeout and a
    /// cooldown stay long enough for a busy machine: all invoices must come in while the breaker is open.
    pub(super) fn at(speed: f64) -> Self {
        let faster = |millis: f64| Duration::from_secs_f64(millis / 1000.0 / speed);
        Self {
            timeout: faster(1000.0).max(Duration::from_millis(500)),
            open_for: faster(10_000.0).max(Duration::from_secs(4)),
            between: faster(300.0),
            per_sec: speed,
            reads: faster(150.0),
        }
    }

    /// Returns the policy of the story.
    pub(super) fn policy(&self, ocr: SocketAddr) -> String {
        format!(
            "\
# The policy of halfopen demo: short times, so that an outage can be watched.
dependency_guard:
  name: ocr
  upstream: http://{ocr}
  profile: generic
  timeout_ms: {timeout}
  retry:
    max_attempts: 1
  circuit:
    failure_window_sec: 60
    open_after_failures: 5
    open_for_sec: {open_for}
    half_open_max_calls: 2
    close_after_successes: 2
  on_open:
    action: queue
    queue_ttl_min: 30
    user_message: processing_delayed
  drain:
    rate_per_sec: {per_sec}
    max_per_sec: {per_sec}
    max_in_flight: 2
  idempotency:
    header: Idempotency-Key
    lifetime_hours: 24
",
            timeout = self.timeout.as_millis(),
            open_for = self.open_for.as_secs_f64(),
            per_sec = self.per_sec,
        )
    }
}

/// Why there is no gateway.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    /// There is no folder for it.
    #[error("no folder can be made in {}: {cause}; set TMPDIR to one that can be written", .at.display())]
    Folder {
        /// Where.
        at: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Our binary cannot be started.
    #[error("the gateway cannot be started: {0}")]
    Spawn(#[source] io::Error),
    /// It ended, or said nothing in time.
    #[error("the gateway did not start to serve; it said:\n{0}")]
    Silent(String),
    /// Somebody ended the demo meanwhile.
    #[error("interrupted")]
    Interrupted,
}

/// A running gateway with its folder. Dropped, it is ended, and the folder is gone.
#[derive(Debug)]
pub(super) struct Gateway {
    // Before the folder: the child ends while its store is still there.
    child: Running,
    folder: TempDir,
    /// Where it serves.
    pub(super) address: SocketAddr,
}

impl Gateway {
    /// Starts a gateway in front of an OCR, and waits until it serves.
    ///
    /// # Errors
    ///
    /// [`StartError`]; nothing is left behind.
    pub(super) fn start(times: &Times, ocr: SocketAddr, stopped: &dyn Fn() -> bool) -> Result<Self, StartError> {
        let at = std::env::temp_dir();
        let folder = |cause| StartError::Folder { at: at.clone(), cause };
        let home = tempfile::Builder::new().prefix("halfopen-demo-").tempdir().map_err(folder)?;
        std::fs::write(policy_in(home.path()), times.policy(ocr)).map_err(folder)?;
        let said = File::create(said_in(home.path())).map_err(folder)?;
        let program = std::env::current_exe().map_err(StartError::Spawn)?;
        let mut command = Command::new(program);
        command.args(["demo", "--gateway-of", &std::process::id().to_string(), "--policy"]);
        command.arg(policy_in(home.path())).arg("--store").arg(store_in(home.path()));
        command.env_clear().env("HOME", home.path()).current_dir(home.path()).process_group(0);
        for name in ["PATH", "TZ", "LANG", "LD_LIBRARY_PATH", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        let mut child = Running(command.spawn().map_err(StartError::Spawn)?);
        let deadline = Instant::now() + STARTS_WITHIN;
        loop {
            let text = std::fs::read_to_string(said_in(home.path())).unwrap_or_default();
            if let Some(address) = served_at(&text) {
                return Ok(Self { child, folder: home, address });
            }
            if stopped() {
                return Err(StartError::Interrupted);
            }
            if !child.lives() || Instant::now() > deadline {
                let from = text.len().saturating_sub(SAID_MAX);
                return Err(StartError::Silent(text.get(from..).unwrap_or(&text).trim_end().to_owned()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Returns where its policy is.
    pub(super) fn policy(&self) -> PathBuf {
        policy_in(self.folder.path())
    }

    /// Returns its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Ends it in order and audits what it leaves.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub(super) fn audit(&mut self) -> Result<AuditReport, StoreError> {
        self.child.end();
        Handle::open(&Location::Sqlite(store_in(self.folder.path())))?.audit()
    }

    /// Ends it and keeps its folder; returns where that is.
    pub(super) fn kept(self) -> PathBuf {
        let Self { mut child, mut folder, .. } = self;
        child.end();
        folder.disable_cleanup(true);
        folder.path().to_owned()
    }
}

/// A child that is ended when it is dropped.
#[derive(Debug)]
struct Running(Child);

impl Running {
    fn lives(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }

    /// Asks it to end, and ends it if it does not.
    fn end(&mut self) {
        if !self.lives() {
            return;
        }
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // It is ours and not waited for yet, so the number is its own.
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + ENDS_WITHIN;
        while self.lives() {
            if Instant::now() > deadline {
                let _ = self.0.kill();
                let _ = self.0.wait();
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Becomes the gateway of a demo: the child's side. Returns only if that cannot be done, with why.
pub(super) fn become_gateway(shared: &Shared, parent: i32) -> io::Error {
    #[cfg(target_os = "linux")]
    {
        if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
            ui::warn(&format!("this gateway will outlive a demo that is killed: {error}"));
        }
        // It may have died before we asked.
        if rustix::process::getppid().map(Pid::as_raw_nonzero).map(std::num::NonZeroI32::get) != Some(parent) {
            return io::Error::other("the demo has ended");
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = parent;
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let mut command = Command::new(program);
    command.arg("serve");
    if let Some(policy) = &shared.policy {
        command.arg("--policy").arg(policy);
    }
    if let Some(store) = &shared.store {
        command.arg("--store").arg(store);
    }
    command.args(["--listen", "127.0.0.1:0", "--shutdown-pause", "0s", "--shutdown-grace", "2s"]).exec()
}

fn policy_in(folder: &Path) -> PathBuf {
    folder.join("halfopen.yaml")
}

fn store_in(folder: &Path) -> PathBuf {
    folder.join("halfopen.db")
}

fn said_in(folder: &Path) -> PathBuf {
    folder.join("gateway.log")
}

/// Returns the address that a gateway announces, if it has.
fn served_at(said: &str) -> Option<SocketAddr> {
    let (_, rest) = said.split_once("serving http://")?;
    rest.split_once("/d/NAME for ")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfopen::config::Config;
    use halfopen_core::policy::Surface;
    use test_case::test_case;

    #[test_case(0.5)]
    #[test_case(1.0)]
    #[test_case(10.0)]
    fn the_policy_is_one_that_the_gateway_takes(speed: f64) {
        let folder = tempfile::tempdir().unwrap();
        let times = Times::at(speed);
        std::fs::write(policy_in(folder.path()), times.policy(SocketAddr::from(([127, 0, 0, 1], 9)))).unwrap();
        let config = Config::load(&policy_in(folder.path()), Surface::Serve).unwrap().0;
        let policy = config.dependency("ocr", Surface::Serve).policy;
        assert_eq!((policy.timeout, policy.circuit.open_after_failures.get()), (Some(times.timeout), 5));
    }

    #[test]
    fn the_address_is_read_from_a_whole_line_only() {
        let said = "halfopen: serving http://127.0.0.1:40123/d/NAME for 1 dependencies\n";
        assert_eq!(served_at(said), Some(SocketAddr::from(([127, 0, 0, 1], 40123))));
        assert_eq!(served_at("halfopen: serving http://127.0.0.1:40"), None);
    }
}
