//! A place of its own for one test: home, store, policy, fake commands, and what they were called with.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use halfopen::handle::{CircuitView, Handle};
use halfopen::store::{EventFilter, Location};
use halfopen_core::event::State;
use halfopen_core::policy::{Policy, Surface};
use halfopen_core::snapshot::EventRecord;

/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A place of its own.
pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let sandbox = Self { folder: tempfile::tempdir().expect("a folder") };
        fs::create_dir(sandbox.path("bin")).expect("a folder for commands");
        sandbox
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path("store.db")
    }

    /// Writes the policy of the dependency `tool`: `lines` stand below `dependency_guard:`.
    pub(crate) fn policy(&self, lines: &str) -> &Self {
        self.policy_of("tool", lines)
    }

    /// Writes the policy of one dependency.
    pub(crate) fn policy_of(&self, name: &str, lines: &str) -> &Self {
        let mut text = format!("dependency_guard:\n  name: {name}\n");
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            text.push_str("  ");
            text.push_str(line);
            text.push('\n');
        }
        fs::write(self.path("policy.yaml"), text).expect("a policy");
        self
    }

    /// Writes a command. It is called in a folder of ours as `$D`, and `calls` grows by a line with each call.
    pub(crate) fn command(&self, name: &str, script: &str) -> &Self {
        let path = self.path("bin").join(name);
        let text = format!("#!/bin/sh\necho \"$(date +%s%3N) $*\" >> \"$D/calls\"\n{script}\n");
        // Written beside and renamed, so that nobody runs half of it, nor finds it busy.
        let beside = self.path("bin").join(format!(".{name}"));
        fs::write(&beside, text).expect("a command");
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o755)).expect("a command");
        fs::rename(beside, path).expect("a command");
        self
    }

    /// Writes the command `tool`.
    pub(crate) fn tool(&self, script: &str) -> &Self {
        self.command("tool", script)
    }

    /// Returns `halfopen`, in a cleared environment, reading nothing.
    pub(crate) fn halfopen<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_halfopen"));
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.folder.path())
            .env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()))
            .env("D", self.folder.path())
            .env("TZ", "UTC")
            .env("HALFOPEN_STORE", self.store())
            // Whatever goes wrong, no test hangs.
            .env("HALFOPEN_TIMEOUT", "50s")
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if self.path("policy.yaml").exists() {
            command.env("HALFOPEN_POLICY", self.path("policy.yaml"));
        }
        command
    }

    /// Returns `halfopen run FLAGS… -- tool`.
    pub(crate) fn run_of(&self, flags: &[&str]) -> Command {
        self.halfopen(&[&["run"], flags, &["--", "tool"]].concat())
    }

    /// Runs `halfopen run FLAGS… -- tool` to its end.
    pub(crate) fn run(&self, flags: &[&str]) -> Ran {
        finished(&mut self.run_of(flags))
    }

    /// Runs `halfopen run FLAGS… -- COMMAND…` to its end.
    pub(crate) fn run_command(&self, flags: &[&str], command: &[&str]) -> Ran {
        finished(&mut self.halfopen(&[&["run"], flags, &["--"], command].concat()))
    }

    /// Starts `halfopen run FLAGS… -- tool`.
    pub(crate) fn start(&self, flags: &[&str]) -> Child {
        self.run_of(flags).spawn().expect("halfopen starts")
    }

    /// Returns the instants (milliseconds of the wall clock) and arguments of the fake commands' calls.
    pub(crate) fn calls(&self) -> Vec<(i64, String)> {
        let text = fs::read_to_string(self.path("calls")).unwrap_or_default();
        text.lines()
            .map(|line| {
                let (at, words) = line.split_once(' ').unwrap_or((line, ""));
                (at.parse().expect("an instant"), words.to_owned())
            })
            .collect()
    }

    pub(crate) fn call_count(&self) -> usize {
        self.calls().len()
    }

    /// Returns what stands in a file that a command wrote; empty if there is none.
    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle::open(&Location::Sqlite(self.store())).expect("the store opens")
    }

    /// Returns a circuit as it stands, if it is known.
    pub(crate) fn circuit(&self, id: &str) -> Option<CircuitView> {
        let circuits = self.handle().circuits(&|name| Policy::built_in(name, Surface::Run)).expect("circuits");
        circuits.into_iter().find(|view| view.id.to_string() == id)
    }

    /// Returns the state of a circuit; one that is not known is closed.
    pub(crate) fn state(&self, id: &str) -> State {
        self.circuit(id).map_or(State::Closed, |view| view.status.state)
    }

    /// Returns the transitions in the journal.
    pub(crate) fn transitions(&self) -> Vec<EventRecord> {
        let filter = EventFilter { transitions_only: true, limit: 10_000, ..EventFilter::default() };
        self.handle().events(&filter).expect("events")
    }

    /// Returns the journal.
    pub(crate) fn events(&self) -> Vec<EventRecord> {
        self.handle().events(&EventFilter { limit: 10_000, ..EventFilter::default() }).expect("events")
    }

    /// Returns the lines of the activation file.
    pub(crate) fn activation(&self) -> Vec<serde_json::Value> {
        self.text("activation.jsonl").lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    /// Returns the report that the last run wrote to `report.json`.
    pub(crate) fn report(&self) -> serde_json::Value {
        serde_json::from_str(&self.text("report.json")).expect("a report")
    }
}

/// Runs a command to its end.
pub(crate) fn finished(command: &mut Command) -> Ran {
    wait_for(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("halfopen starts"))
}

/// Waits for a started command; one that does not end is told to, so that what hangs fails.
pub(crate) fn wait_for(child: Child) -> Ran {
    let began = Instant::now();
    let pid = rustix::process::Pid::from_child(&child);
    let (ended, has_ended) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if has_ended.recv_timeout(PATIENCE).is_err() {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    });
    let output = child.wait_with_output().expect("halfopen ends");
    let _ = ended.send(());
    watchdog.join().expect("a thread");
    ran(&output, began.elapsed())
}

fn ran(output: &Output, took: Duration) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        took,
    }
}

/// Polls until `holds`, and gives up after a while with what was expected.
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal to a process that a test has started.
pub(crate) fn send(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).expect("the process is there");
}

/// Returns whether a process is there and no zombie.
pub(crate) fn alive(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// A limit whose end a command states in milliseconds, on standard error, as many tools print an answer's head.
pub(crate) const LIMITED: &str = "echo 'HTTP 429 Too Many Requests' >&2; echo \"retry-after-ms: $MS\" >&2; exit 1";
/// A failure of the dependency.
pub(crate) const BROKEN: &str = "echo 'HTTP 500 Internal Server Error' >&2; exit 1";
