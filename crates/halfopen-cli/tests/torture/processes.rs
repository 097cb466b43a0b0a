//! Processes of ours, and ways to stop them at a chosen point.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::fs::inotify;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use crate::PATIENCE;

/// A process that was started here; it is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    pid: Pid,
    child: Mutex<Child>,
    /// Where its stderr goes.
    pub(crate) said: PathBuf,
}

impl Process {
    pub(crate) fn start(command: &mut Command, said: PathBuf) -> Self {
        let stderr = File::options().create(true).append(true).open(&said).unwrap();
        let child = command.stdin(Stdio::null()).stderr(stderr).spawn().unwrap();
        Self { pid: Pid::from_child(&child), child: Mutex::new(child), said }
    }

    /// Sends a signal, unless it has ended: its number may be another's by then.
    pub(crate) fn signal(&self, signal: Signal) {
        let mut child = self.child.lock().unwrap();
        if child.try_wait().unwrap().is_none() {
            let _ = kill_process(self.pid, signal);
        }
    }

    /// Kills it at the write that makes a file longer than so many bytes, inside that write if it crosses the length.
    pub(crate) fn limit_files(&self, bytes: u64) {
        let mut child = self.child.lock().unwrap();
        if child.try_wait().unwrap().is_none() {
            let _ = prlimit(Some(self.pid), Resource::Fsize, Rlimit { current: Some(bytes), maximum: None });
        }
    }

    pub(crate) fn has_ended(&self) -> Option<ExitStatus> {
        self.child.lock().unwrap().try_wait().unwrap()
    }

    /// Waits for its end; one that does not end is a failed test.
    pub(crate) fn end(&self, what: &str) -> ExitStatus {
        let mut status = None;
        until(what, || {
            status = self.has_ended();
            status.is_some()
        });
        status.unwrap()
    }

    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
        self.end("a killed process ends");
    }

    /// Waits until it says where it serves; `None` if it ends instead.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let mut address = None;
        until("the gateway serves", || {
            let text = std::fs::read_to_string(&self.said).unwrap_or_default();
            address = text
                .split_once("serving http://")
                .filter(|(_, rest)| rest.contains("/d/NAME for "))
                .and_then(|(_, rest)| rest.split_once('/')?.0.parse().ok());
            address.is_some() || self.has_ended().is_some()
        });
        address
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Returns a command of ours in a cleared environment.
pub(crate) fn halfopen(home: &Path, store: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(words);
    in_place(&mut command, home, store);
    command
}

/// As [`halfopen`], but a write that is not allowed fails instead of killing.
pub(crate) fn halfopen_that_survives_its_limits(home: &Path, store: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(binary()).args(words);
    in_place(&mut command, home, store);
    command
}

/// Returns what is tortured: the binary of this build, or another one.
fn binary() -> std::ffi::OsString {
    std::env::var_os("HALFOPEN_TORTURE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_halfopen").into())
}

fn in_place(command: &mut Command, home: &Path, store: &Path) {
    command
        .env_clear()
        .env("HOME", home)
        .env("PATH", format!("{}:/usr/bin:/bin", home.join("bin").display()))
        .env("D", home)
        .env("TZ", "UTC")
        .env("HALFOPEN_STORE", store)
        .env("HALFOPEN_POLICY", home.join("policy.yaml"))
        .current_dir(home)
        .stdout(Stdio::null());
}

/// Waits until so many writes to files in a folder were seen, at most for a while; returns whether they were.
pub(crate) fn writes(folder: &Path, mut count: usize, within: Duration) -> bool {
    use inotify::{CreateFlags, WatchFlags};
    let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    let flags = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE;
    inotify::add_watch(&watch, folder, flags).unwrap();
    let payloads = folder.join("halfopen.db-payloads");
    if payloads.is_dir() {
        inotify::add_watch(&watch, payloads, flags).unwrap();
    }
    let deadline = Instant::now() + within;
    let mut room = [std::mem::MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&watch, &mut room);
    while count > 0 {
        match events.next() {
            Ok(_) => count -= 1,
            Err(rustix::io::Errno::AGAIN) if Instant::now() < deadline => std::thread::yield_now(),
            Err(_) => return false,
        }
    }
    true
}

/// Polls until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
