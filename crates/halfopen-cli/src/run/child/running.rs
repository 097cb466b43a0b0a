//! Watches one running child: what it says, what it is fed, what signals ask for, when its time is over.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use halfopen_core::outcome::Exit;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal};

use super::lines::Lines;
use super::signals::{Asked, Attended, Signals};
use super::sink::Lost;
use super::source::Feed;
use super::{Limits, Listener, Spec, poll, terminal, tree};

/// How long output may still come from helpers after the command itself has ended. What the command wrote is there at
/// once; this is for the last words of `> >(tee log)` and the like.
const LATE_OUTPUT: Duration = Duration::from_millis(100);
/// How often we look whether the child has ended, where the kernel does not tell.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often we look whether a group that was asked to end is gone.
const GONE_YET: Duration = Duration::from_millis(10);

/// How much is read at once: what a pipe holds.
const PIECE: usize = 64 << 10;

/// Why a child is being ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    TimedOut,
    Cancelled(Signal),
}

/// How far the ending has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    Asked { why: Why, kill_at: Instant },
    Killed { why: Why },
}

/// A child that runs, and what we are about to do to it.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    pid: Pid,
    /// Becomes readable at the child's end; where the kernel gives none, we look every [`LOOK_EVERY`].
    pidfd: Option<OwnedFd>,
    attended: Attended,
    limits: Limits,
    started: Instant,
    last_output: Instant,
    spoke: bool,
    /// How long we were stopped ourselves; the child's time stood still as well.
    paused: Duration,
    ending: Ending,
    /// A key that a person pressed: the child hears it by itself and decides.
    interrupted: Option<Signal>,
    reaped: bool,
}

impl Running {
    pub(super) fn watch(child: Child, spec: &Spec<'_>, started: Instant) -> io::Result<Self> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the child has no process id"))?;
        Ok(Self {
            child,
            pid,
            pidfd: rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok(),
            attended: spec.attended,
            limits: spec.limits,
            started,
            last_output: started,
            spoke: false,
            paused: Duration::ZERO,
            ending: Ending::No,
            interrupted: None,
            reaped: false,
        })
    }

    pub(super) fn until_it_ends(
        &mut self,
        lines: &mut Lines,
        mut feed: Feed<'_>,
        signals: &mut Signals,
        listener: &mut dyn Listener,
    ) -> io::Result<ExitStatus> {
        // Room, not zeros: a page that nothing is read into is never touched.
        let mut buffer = Vec::with_capacity(PIECE);
        let mut next_tick = listener.tick();
        let status = loop {
            let look = if self.pidfd.is_none() { Some(LOOK_EVERY) } else { None };
            let soon = [feed.pause(), look].into_iter().flatten().min().map(|pause| Instant::now() + pause);
            let wake = [self.next_deadline(), next_tick, soon];
            let ready = self.poll(lines, Some(&feed), signals, wake.into_iter().flatten().min())?;
            if ready.signals {
                self.heed(signals, lines);
            }
            feed.step(ready.stdin);
            self.pump(lines, &ready, &mut buffer, listener);
            if next_tick.is_some_and(|at| Instant::now() >= at) {
                next_tick = listener.tick();
            }
            if let Some(status) = self.child.try_wait()? {
                self.reaped = true;
                break status;
            }
            self.check_time();
        };
        feed.finish();
        self.last_words(lines, &mut buffer, signals, listener)?;
        self.clear_up(signals)?;
        Ok(status)
    }

    /// Passes on what is due in both directions.
    fn pump(&mut self, lines: &mut Lines, ready: &Ready, buffer: &mut Vec<u8>, listener: &mut dyn Listener) -> u64 {
        if ready.to_stdout {
            lines.stdout.step();
        }
        if ready.to_stderr {
            lines.stderr.step();
        }
        let mut heard = 0;
        if ready.out && lines.stdout.takes() {
            heard += lines.hear_stdout(buffer, listener) as u64;
        }
        if ready.err && lines.stderr.takes() {
            heard += lines.hear_stderr(buffer, listener) as u64;
        }
        if heard > 0 {
            self.spoke = true;
            self.last_output = Instant::now();
        }
        if lines.stdout.lost() == Some(Lost::ReaderGone) {
            // The child learns it as it would without us: by SIGPIPE.
            lines.out = None;
        }
        heard
    }

    /// Hears what the child wrote before it ended, and a little of what its helpers still say.
    fn last_words(
        &mut self,
        lines: &mut Lines,
        buffer: &mut Vec<u8>,
        signals: &mut Signals,
        listener: &mut dyn Listener,
    ) -> io::Result<()> {
        let late = Instant::now() + LATE_OUTPUT;
        let mut due = lines.unread();
        loop {
            let hearing = lines.out.is_some() || lines.err.is_some();
            let heard_all = !hearing || (due == 0 && Instant::now() >= late);
            if heard_all && lines.all_out() {
                return Ok(());
            }
            if heard_all {
                // Only our reader keeps us: it may take its time, and a signal may end that.
                (lines.out, lines.err) = (None, None);
            }
            let ready = self.poll(lines, None, signals, (!heard_all).then_some(late))?;
            if ready.signals {
                self.heed(signals, lines);
                if !matches!(self.ending, Ending::No) && heard_all {
                    return Ok(());
                }
            }
            due = due.saturating_sub(self.pump(lines, &ready, buffer, listener));
            if ready.nothing {
                due = 0;
            }
        }
    }

    /// Sees to it that nothing of a child that was made to end survives it.
    fn clear_up(&self, signals: &mut Signals) -> io::Result<()> {
        let Ending::Asked { kill_at, .. } = self.ending else {
            if matches!(self.ending, Ending::Killed { .. }) {
                self.kill_all();
            }
            return Ok(());
        };
        while self.attended == Attended::No
            && rustix::process::test_kill_process_group(self.pid).is_ok()
            && Instant::now() < kill_at
        {
            let mut fds = [PollFd::from_borrowed_fd(signals.fd(), PollFlags::IN)];
            poll(&mut fds, Some(Instant::now() + GONE_YET))?;
            signals.take();
        }
        self.kill_all();
        Ok(())
    }

    /// Returns the next instant at which something is over.
    fn next_deadline(&self) -> Option<Instant> {
        match self.ending {
            Ending::Asked { kill_at, .. } => Some(kill_at),
            Ending::Killed { .. } => None,
            Ending::No => {
                let over = self.limits.timeout.map(|limit| self.started + self.paused + limit);
                let first = self.limits.first_byte.filter(|_| !self.spoke);
                let first = first.map(|limit| self.started + self.paused + limit);
                let idle = self.limits.idle.map(|limit| self.last_output + limit);
                [over, first, idle].into_iter().flatten().min()
            }
        }
    }

    fn check_time(&mut self) {
        if self.next_deadline().is_none_or(|at| Instant::now() < at) {
            return;
        }
        match self.ending {
            Ending::No => self.ask_to_end(Why::TimedOut, Signal::TERM),
            Ending::Asked { why, .. } => {
                self.kill_all();
                self.ending = Ending::Killed { why };
            }
            Ending::Killed { .. } => {}
        }
    }

    fn ask_to_end(&mut self, why: Why, signal: Signal) {
        self.send(signal);
        // A stopped process ends only once it goes on.
        self.send(Signal::CONT);
        self.ending = Ending::Asked { why, kill_at: Instant::now() + self.limits.grace };
    }

    /// Does what signals to us ask for.
    fn heed(&mut self, signals: &mut Signals, lines: &Lines) {
        for asked in signals.take() {
            match asked {
                Asked::End(signal) => {
                    let key = signal == Signal::INT || signal == Signal::QUIT;
                    match self.ending {
                        Ending::No if key && self.attended == Attended::Yes => self.interrupted = Some(signal),
                        Ending::No => self.ask_to_end(Why::Cancelled(signal), signal),
                        Ending::Asked { .. } | Ending::Killed { .. } => self.send(signal),
                    }
                }
                Asked::PassOn(signal) => self.send(signal),
                Asked::WindowChanged => {
                    if let Some(out) = lines.out.as_ref().filter(|_| lines.to_terminal) {
                        terminal::copy_size(std::io::stdout().as_fd(), out.as_fd());
                    }
                    if self.attended == Attended::No {
                        self.send(Signal::WINCH);
                    }
                }
                Asked::Pause => {
                    let since = Instant::now();
                    self.send(Signal::TSTP);
                    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
                    // Whoever let us go on meant the child too.
                    self.send(Signal::CONT);
                    self.paused += since.elapsed();
                    self.last_output += since.elapsed();
                }
            }
        }
    }

    /// Sends a signal to the child's group, or, if that is ours too, to the child.
    fn send(&self, signal: Signal) {
        let _ = match self.attended {
            Attended::No => rustix::process::kill_process_group(self.pid, signal),
            Attended::Yes if self.reaped => Ok(()),
            Attended::Yes => rustix::process::kill_process(self.pid, signal),
        };
    }

    /// Ends the child and everything it has started, at once.
    fn kill_all(&self) {
        match self.attended {
            Attended::No => self.send(Signal::KILL),
            Attended::Yes => {
                // Orphans of the child are ours by now, because we are their subreaper.
                for pid in tree::descendants(rustix::process::getpid()) {
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                }
            }
        }
    }

    pub(super) fn exit(&self, status: ExitStatus) -> Exit {
        let why = match self.ending {
            Ending::No => None,
            Ending::Asked { why, .. } | Ending::Killed { why } => Some(why),
        };
        let own = match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Signal(Signal::KILL.as_raw()),
        };
        match why {
            Some(Why::TimedOut) => Exit::TimedOut,
            Some(Why::Cancelled(_)) => Exit::Cancelled,
            // A person pressed a key and the child did not come through it: that is the person's doing.
            None if self.interrupted.is_some() && own != Exit::Code(0) => Exit::Cancelled,
            None => own,
        }
    }

    pub(super) fn cancelled_by(&self, exit: Exit) -> Option<Signal> {
        match self.ending {
            Ending::Asked { why: Why::Cancelled(signal), .. } | Ending::Killed { why: Why::Cancelled(signal) } => {
                Some(signal)
            }
            Ending::No | Ending::Asked { .. } | Ending::Killed { .. } => {
                self.interrupted.filter(|_| exit == Exit::Cancelled)
            }
        }
    }

    /// Waits until something can be done, or until `wake`.
    fn poll(
        &self,
        lines: &Lines,
        feed: Option<&Feed<'_>>,
        signals: &Signals,
        wake: Option<Instant>,
    ) -> io::Result<Ready> {
        let mut list: Vec<(PollFd<'_>, Note)> = Vec::with_capacity(7);
        list.push((PollFd::from_borrowed_fd(signals.fd(), PollFlags::IN), |ready| ready.signals = true));
        if let Some(pidfd) = self.pidfd.as_ref().filter(|_| !self.reaped) {
            list.push((PollFd::new(pidfd, PollFlags::IN), |_| {}));
        }
        if let Some(out) = lines.out.as_ref().filter(|_| lines.stdout.takes()) {
            list.push((PollFd::new(out, PollFlags::IN), |ready| ready.out = true));
        }
        if let Some(err) = lines.err.as_ref().filter(|_| lines.stderr.takes()) {
            list.push((PollFd::new(err, PollFlags::IN), |ready| ready.err = true));
        }
        if let Some(to) = lines.stdout.poll() {
            list.push((to, |ready| ready.to_stdout = true));
        }
        if let Some(to) = lines.stderr.poll() {
            list.push((to, |ready| ready.to_stderr = true));
        }
        if let Some(fd) = feed.and_then(Feed::poll) {
            list.push((fd, |ready| ready.stdin = true));
        }
        let (mut fds, who): (Vec<_>, Vec<_>) = list.into_iter().unzip();
        let mut ready = Ready { nothing: poll(&mut fds, wake)? == 0, ..Ready::default() };
        for (fd, what) in fds.iter().zip(who) {
            if !fd.revents().is_empty() {
                what(&mut ready);
            }
        }
        Ok(ready)
    }
}

impl Drop for Running {
    /// Leaves nothing behind if we unwind: not the child, not its group, not a zombie.
    fn drop(&mut self) {
        if !self.reaped {
            self.kill_all();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// What can be done without waiting.
#[derive(Clone, Copy, Debug, Default)]
struct Ready {
    signals: bool,
    out: bool,
    err: bool,
    to_stdout: bool,
    to_stderr: bool,
    stdin: bool,
    nothing: bool,
}

/// Notes that what a descriptor was polled for has come.
type Note = fn(&mut Ready);
