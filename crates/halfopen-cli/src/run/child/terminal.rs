//! Lets the child see a terminal exactly where we have one.
//!
//! Output that is captured goes through a pipe, and the child sees none. Output that goes to a person's terminal goes
//! through a pseudo-terminal instead: the child's colours, progress bars and prompts stay as they are, and we still
//! hear what it says. Where standard output and standard error both go to the terminal they share one pseudo-terminal,
//! so their order stays exact. It is raw, so bytes pass unchanged, and it is never the child's controlling terminal:
//! keys, job control and `/dev/tty` remain those of the real one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pty::OpenptFlags;
use rustix::termios::{OptionalActions, Termios, Winsize};

/// A pseudo-terminal: our side and the child's.
#[derive(Debug)]
pub(super) struct Pair {
    /// What the child writes arrives here.
    pub(super) ours: OwnedFd,
    /// What the child is given; to be closed once it has it.
    pub(super) childs: OwnedFd,
}

/// Makes a raw pseudo-terminal of the size of `like`.
///
/// # Errors
///
/// If the system has none to give.
pub(super) fn pair(like: BorrowedFd<'_>) -> io::Result<Pair> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = rustix::pty::openpt(flags)?;
    rustix::pty::grantpt(&ours)?;
    rustix::pty::unlockpt(&ours)?;
    let name = rustix::pty::ptsname(&ours, Vec::new())?;
    let childs = rustix::fs::open(
        name.as_c_str(),
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    let mut termios = rustix::termios::tcgetattr(&childs)?;
    termios.make_raw();
    rustix::termios::tcsetattr(&childs, OptionalActions::Now, &termios)?;
    copy_size(like, ours.as_fd());
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok(Pair { ours, childs })
}

/// Gives `to` the size of `from`; a terminal without a size keeps none.
pub(super) fn copy_size(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    let size: Result<Winsize, _> = rustix::termios::tcgetwinsize(from);
    if let Ok(size) = size {
        let _ = rustix::termios::tcsetwinsize(to, size);
    }
}

/// The settings of a person's terminal, put back if a child that was ended could not do it itself.
#[derive(Debug)]
pub(super) struct Saved(Option<Termios>);

impl Saved {
    /// Notes the settings of standard input's terminal, if it is one.
    #[must_use]
    pub(super) fn of_stdin() -> Self {
        Self(rustix::termios::tcgetattr(std::io::stdin().as_fd()).ok())
    }

    /// Puts them back, unless the terminal belongs to somebody else by now: to touch it then would stop us.
    pub(super) fn restore(&self) {
        let Some(termios) = &self.0 else { return };
        let stdin = std::io::stdin();
        if rustix::termios::tcgetpgrp(&stdin).is_ok_and(|group| group == rustix::process::getpgrp()) {
            let _ = rustix::termios::tcsetattr(&stdin, OptionalActions::Drain, termios);
        }
    }
}
