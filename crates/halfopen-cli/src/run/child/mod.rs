//! Runs one child process to its end: feeds it, hears it, passes signals on, ends it when its time is over.
//!
//! One thread, one `poll` over everything that can happen: the child's end, its output, its input, our signals, our
//! outlets, the next deadline. Nothing here knows classes or circuits; a [`Listener`] is told what the child says.
//!
//! What holds whatever the child does:
//!
//! - when its time is over, or we are asked to end, its whole process group gets SIGTERM, then, after a grace, SIGKILL;
//! - helpers that a finished command left behind do not delay us, and are left alone;
//! - everything the child itself wrote before it ended is heard and passed on;
//! - a reader of ours that has stopped reading slows the child, as it would without us, and does not make us deaf.
//!
//! Unattended, the child leads a process group of its own. With a person at the terminal it stays in ours, so that
//! keys and prompts work as if we were not there; then we end it and its descendants one by one. What is not possible
//! without `unsafe` is to have the kernel end the child when *we* are killed by SIGKILL (`PR_SET_PDEATHSIG` must be set
//! between fork and exec): such a child runs on until it writes to a pipe nobody reads, and its permit ends by lease.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use halfopen_core::outcome::Exit;
use rustix::event::{PollFd, Timespec};
use rustix::io::Errno;
use rustix::process::Signal;

pub mod signals;
pub mod sink;
pub mod source;
mod lines;
mod running;
mod terminal;
mod tree;

use lines::Lines;
use running::Running;
use signals::{Attended, Signals};
use sink::Stdout;
use source::{Given, Source};

/// Hears a running child.
pub trait Listener {
    /// Hears a piece of standard output, cut anywhere.
    fn stdout(&mut self, piece: &[u8]);
    /// Hears a piece of standard error, cut anywhere.
    fn stderr(&mut self, piece: &[u8]);
    /// Does what is due, and returns when it wants to be called again.
    fn tick(&mut self) -> Option<Instant>;
}

/// What is run, and within which bounds.
#[derive(Clone, Debug)]
pub struct Spec<'a> {
    /// The command and its arguments; never empty.
    pub command: &'a [OsString],
    /// Variables added to its environment.
    pub env: &'a [(&'static str, OsString)],
    /// Where it runs, if not where and as what we do.
    pub elsewhere: Option<Elsewhere<'a>>,
    /// Whether a person sits at the terminal.
    pub attended: Attended,
    /// What happens to its standard output.
    pub out: Out,
    /// How long it may take.
    pub limits: Limits,
}

/// Where and as what a command runs that was asked for at another time.
#[derive(Clone, Copy, Debug)]
pub struct Elsewhere<'a> {
    /// The file that is executed; the first word of the command is the name it is called by.
    pub executable: &'a OsStr,
    /// The folder it runs in.
    pub cwd: &'a Path,
    /// All variables it finds, beside those of [`Spec::env`].
    pub env: &'a [(OsString, OsString)],
}

/// What happens to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// It is held, up to so many bytes; a terminal's is passed on.
    Held {
        /// The bound, in bytes.
        bytes_max: u64,
    },
    /// It is passed on as it comes.
    Live,
    /// Only the listener hears it, and standard error as well.
    Heard,
}

/// How long a child may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From start to end.
    pub timeout: Option<Duration>,
    /// From start to the first byte of output.
    pub first_byte: Option<Duration>,
    /// Without any output.
    pub idle: Option<Duration>,
    /// From the request to end until it is made to.
    pub grace: Duration,
}

/// How a child ended.
#[derive(Debug)]
pub struct Ended {
    /// How.
    pub exit: Exit,
    /// The signal to us that ended it.
    pub cancelled_by: Option<Signal>,
    /// How long it ran.
    pub elapsed: Duration,
    /// Its standard output, and what has become of it.
    pub stdout: Stdout,
    /// Whether standard output went to a person's terminal, where a second beginning does no harm.
    pub to_terminal: bool,
}

/// Runs a child to its end.
///
/// # Errors
///
/// If we cannot make pipes or wait: our own fault, not the command's. A command that cannot be started is an [`Ended`].
pub fn run(
    spec: &Spec<'_>,
    source: &mut Source,
    signals: &mut Signals,
    listener: &mut dyn Listener,
) -> io::Result<Ended> {
    let saved = terminal::Saved::of_stdin();
    let mut lines = Lines::lay(spec)?;
    let (stdin, feed) = source.open()?;
    let started = Instant::now();
    let spawned = spawn(spec, &stdin, &mut lines);
    drop(stdin);
    let child = match spawned {
        Ok(child) => child,
        Err(error) => {
            let exit = if error.kind() == io::ErrorKind::NotFound { Exit::NotFound } else { Exit::NotExecutable };
            return Ok(Ended {
                exit,
                cancelled_by: None,
                elapsed: started.elapsed(),
                stdout: lines.stdout,
                to_terminal: lines.to_terminal,
            });
        }
    };
    let mut running = Running::watch(child, spec, started)?;
    let status = running.until_it_ends(&mut lines, feed, signals, listener)?;
    let exit = running.exit(status);
    if !matches!(exit, Exit::Code(_)) {
        saved.restore();
    }
    Ok(Ended {
        exit,
        cancelled_by: running.cancelled_by(exit),
        elapsed: started.elapsed(),
        stdout: lines.stdout,
        to_terminal: lines.to_terminal,
    })
}

/// Starts the command. A script without a `#!` line is given to the shell, as `env` and `timeout` do.
fn spawn(spec: &Spec<'_>, stdin: &Given, lines: &mut Lines) -> io::Result<Child> {
    // Ours to close, whether it starts or not: an open copy would keep us waiting for the child's last word.
    let Some((out, err)) = lines.childs.take() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let Some((program, arguments)) = spec.command.split_first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    if spec.attended == Attended::Yes {
        // So that we can still find the descendants of a child whose group is ours.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    }
    let start = |mut command: Command| {
        if let Some(elsewhere) = &spec.elsewhere {
            let theirs = elsewhere.env.iter().map(|(name, value)| (name, value));
            command.env_clear().envs(theirs).current_dir(elsewhere.cwd);
        }
        command.args(arguments).envs(spec.env.iter().map(|(name, value)| (name, value)));
        command.stdin(stdin.stdio()?).stdout(out.try_clone()?).stderr(err.try_clone()?);
        if spec.attended == Attended::No {
            command.process_group(0);
        }
        command.spawn()
    };
    let file = spec.elsewhere.as_ref().map_or(program.as_os_str(), |elsewhere| elsewhere.executable);
    let mut direct = Command::new(file);
    direct.arg0(program);
    match start(direct) {
        Err(error) if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
            let mut shell = Command::new("/bin/sh");
            shell.arg(file);
            start(shell)
        }
        started => started,
    }
}

/// Polls until `wake`; a signal that interrupts it is found in the self-pipe the next time.
pub(crate) fn poll(fds: &mut [PollFd<'_>], wake: Option<Instant>) -> io::Result<usize> {
    let left = wake.map(|at| at.saturating_duration_since(Instant::now()));
    let left = left.map(|left| Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(left.subsec_nanos()),
    });
    match rustix::event::poll(fds, left.as_ref()) {
        Ok(ready) => Ok(ready),
        Err(Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
