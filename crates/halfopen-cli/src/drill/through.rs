//! Shows that a user's own script goes through halfopen: a fake tool stands first on PATH and tells who called it.
//!
//! The rows of the drill show what a policy does. Whether the script at hand asks at all is another question, and the
//! one that goes wrong in silence: an absolute path, a PATH that cron resets, a library that calls the service itself.
//! So the script is run for real, twice, with a store of its own: once while all is well, and once while an operator
//! holds the circuit open, when nothing at all may reach the tool. The fake tool writes down what `halfopen run` told
//! it (`HALFOPEN_RUN_OUTER`); whoever calls it without that is not guarded.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use halfopen::activation;
use halfopen::handle::Handle;
use halfopen::store::Location;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::event::State;
use halfopen_core::policy::Policy;

use super::row::{Row, RowVerdict};

/// The variable by which a run tells its child that it is guarded, and by which circuit.
const OUTER: &str = "HALFOPEN_RUN_OUTER";
/// How long the script may take each time.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(600);
/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What is driven.
#[derive(Debug)]
pub(super) struct Through<'a> {
    /// The script, as a shell reads it.
    pub(super) script: &'a str,
    /// The name of the tool that it calls.
    pub(super) tool: &'a str,
    /// The policy of the dependency.
    pub(super) policy: &'a Policy,
    /// The policy file, which the script's own runs read, too.
    pub(super) file: Option<&'a Path>,
}

/// One call of the fake tool.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reached {
    /// Guarded, by this circuit.
    Guarded(String),
    /// Not guarded.
    Unguarded,
}

/// Runs the script and returns what was seen.
///
/// # Errors
///
/// If the fake tool cannot be put in place or the script cannot be started.
pub(super) fn rows(through: &Through<'_>) -> io::Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let stage = Stage::set(folder.path(), through)?;
    let status = stage.run(through)?;
    let well = stage.take_reached()?;
    let line = activation::read(&stage.location, 0, i64::MAX).ok();
    let calls =
        line.and_then(|report| report.dependencies.get(&through.policy.dependency).map(|one| one.figures.calls));
    stage.hold_open(through.policy)?;
    stage.run(through)?;
    let held = stage.take_reached()?;
    let name = &through.policy.dependency;
    Ok(vec![
        reached(through, &well, status),
        guarded(through, &well),
        Row {
            row: "T3 activation line".to_owned(),
            injected: format!("`{}` while all is well", through.script),
            expected: format!("each guarded call leaves a line for `{name}` beside the store"),
            seen: match calls {
                None => format!("no line for `{name}`: no `halfopen run --dep {name}` ended in the store it was given"),
                Some(calls) => format!("{calls} calls"),
            },
            verdict: verdict(calls.is_some_and(|calls| calls > 0)),
            virtual_s: 0.0,
        },
        Row {
            row: "T4 outage".to_owned(),
            injected: format!("`{}` while `{name}` is held open", through.script),
            expected: "the tool is not reached".to_owned(),
            seen: match held.len() {
                0 => "not reached".to_owned(),
                n => format!("reached {n} times: what was asked was another circuit or store, or nobody"),
            },
            verdict: verdict(held.is_empty()),
            virtual_s: 0.0,
        },
    ])
}

fn reached(through: &Through<'_>, well: &[Reached], status: Option<ExitStatus>) -> Row {
    let ended = match status {
        None => format!("was ended after {} min", SCRIPT_TIMEOUT.as_secs() / 60),
        Some(status) => format!("ended with {status}"),
    };
    let tool = through.tool;
    Row {
        row: "T1 reached".to_owned(),
        injected: format!("`{}` with a fake `{tool}` first on PATH", through.script),
        expected: format!("the script calls `{tool}`"),
        seen: match well.len() {
            0 => format!(
                "never called; the script {ended}. It calls `{tool}` by an absolute path, resets PATH, calls something \
                 else (--tool NAME), or had nothing to do"
            ),
            n => format!("called {n} times; the script {ended}"),
        },
        verdict: verdict(!well.is_empty() && status.is_some()),
        virtual_s: 0.0,
    }
}

fn guarded(through: &Through<'_>, well: &[Reached]) -> Row {
    let (tool, name) = (through.tool, &through.policy.dependency);
    let unguarded = well.iter().filter(|one| **one == Reached::Unguarded).count();
    let other = well.iter().find_map(|one| match one {
        Reached::Guarded(circuit) if circuit_of(circuit) != name => Some(circuit),
        Reached::Guarded(_) | Reached::Unguarded => None,
    });
    let seen = match (unguarded, other) {
        (0, None) => format!("{} of {} guarded", well.len(), well.len()),
        (0, Some(other)) => format!("guarded as `{other}` and not as `{name}`: name it with --dep {name}"),
        (n, _) => {
            format!(
                "{n} of {} calls reached `{tool}` unguarded: write `halfopen run --dep {name} -- {tool} …`",
                well.len()
            )
        }
    };
    Row {
        row: "T2 guarded".to_owned(),
        injected: format!("`{}` with a fake `{tool}` first on PATH", through.script),
        expected: format!("each call of `{tool}` comes through `halfopen run` and holds a permit of `{name}`"),
        seen,
        verdict: verdict(!well.is_empty() && unguarded == 0 && other.is_none()),
        virtual_s: 0.0,
    }
}

fn verdict(good: bool) -> RowVerdict {
    if good { RowVerdict::Pass } else { RowVerdict::Fail }
}

/// Returns the dependency of a circuit's name.
fn circuit_of(circuit: &str) -> &str {
    circuit.split('@').next().unwrap_or(circuit)
}

/// The folder with the fake tool, what it wrote down, and the store.
struct Stage {
    bin: PathBuf,
    log: PathBuf,
    location: Location,
}

impl Stage {
    fn set(folder: &Path, through: &Through<'_>) -> io::Result<Self> {
        let bin = folder.join("bin");
        std::fs::create_dir(&bin)?;
        let log = folder.join("log");
        std::fs::write(&log, "")?;
        let tool = bin.join(through.tool);
        let quoted = crate::ui::shell_word(&log.display().to_string());
        // One `printf` is one write: calls side by side do not mix.
        let text = format!("#!/bin/sh\nprintf '%s\\n' \"call ${OUTER}\" >> {quoted}\necho 'the drill answers'\n");
        std::fs::write(&tool, text)?;
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755))?;
        Ok(Self { bin, log, location: Location::Sqlite(folder.join("drill.db")) })
    }

    /// Runs the script to its end; `None` if it had to be ended.
    fn run(&self, through: &Through<'_>) -> io::Result<Option<ExitStatus>> {
        let mut path = OsString::from(&self.bin);
        if let Some(before) = std::env::var_os("PATH") {
            path.push(":");
            path.push(before);
        }
        let mut command = Command::new("/bin/sh");
        command.args(["-c", through.script]).env("PATH", path).env("HALFOPEN_STORE", self.location.to_string());
        command.env_remove(OUTER).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        if let Some(file) = through.file {
            command.env("HALFOPEN_POLICY", file);
        }
        let mut child = command.spawn()?;
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if began.elapsed() >= SCRIPT_TIMEOUT {
                if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
                    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                }
                child.wait()?;
                return Ok(None);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Returns who reached the fake tool since the last time.
    fn take_reached(&self) -> io::Result<Vec<Reached>> {
        let text = std::fs::read_to_string(&self.log)?;
        std::fs::write(&self.log, "")?;
        Ok(text.lines().filter_map(|line| line.strip_prefix("call ")).map(told).collect())
    }

    fn hold_open(&self, policy: &Policy) -> io::Result<()> {
        let id = CircuitId::whole(&policy.dependency).map_err(io::Error::other)?;
        let door = Handle::open(&self.location).map_err(io::Error::other)?;
        door.hold(&id, policy, State::Open, None, "halfopen drill", "an outage that is rehearsed")
            .map_err(io::Error::other)?;
        Ok(())
    }
}

/// Reads what the fake tool was told.
fn told(outer: &str) -> Reached {
    let place = serde_json::from_str::<serde_json::Value>(outer)
        .ok()
        .and_then(|outer| outer.get("place").and_then(serde_json::Value::as_str).map(str::to_owned));
    place.filter(|place| !place.is_empty()).map_or(Reached::Unguarded, Reached::Guarded)
}
