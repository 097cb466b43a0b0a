//! Turns signals to us into something a `poll` can wait for.
//!
//! One self-pipe for the whole run, so that a signal is heard in a wait as well as beside a child. A signal that was
//! ignored when we started (`nohup`, a background job of a plain shell) stays ignored, and the child inherits that: a
//! handler of ours would undo it.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

/// Who holds the terminal, and so who hears what its keys send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attended {
    /// A person sits at a terminal that is one of our standard streams: the child stays in our process group, as
    /// with `timeout --foreground`, and hears the terminal's keys by itself.
    Yes,
    /// Nobody does: the child gets a process group of its own, which can be ended as a whole.
    No,
}

/// What a signal to us asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To end: SIGHUP, SIGINT, SIGQUIT, SIGTERM.
    End(Signal),
    /// To pass it on: SIGUSR1, SIGUSR2, SIGALRM.
    PassOn(Signal),
    /// To tell the child that the window has another size.
    WindowChanged,
    /// To pause until further notice.
    Pause,
}

/// Hears signals to this process.
#[derive(Debug)]
pub struct Signals {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
    /// Set once somebody in this process has asked us to end.
    told: Option<Arc<AtomicBool>>,
}

impl Asked {
    /// Returns the signal that asks to end, if it is one.
    #[must_use]
    pub const fn ends(self) -> Option<Signal> {
        match self {
            Self::End(signal) => Some(signal),
            Self::PassOn(_) | Self::WindowChanged | Self::Pause => None,
        }
    }
}

/// Asks the holder of [`Signals`] to end, from another thread.
#[derive(Debug)]
pub struct Ender {
    told: Arc<AtomicBool>,
    pipe: UnixStream,
}

impl Ender {
    /// Asks it to end, as SIGTERM to us would.
    pub fn end(&self) {
        self.told.store(true, Ordering::Release);
        // A pipe that is full wakes as well; one whose reader is gone has nobody to tell.
        let _ = (&self.pipe).write(&[0]);
    }
}

/// Signals whose number is the same on every Linux and BSD we build for come from rustix; these are all we hear.
const HEARD: [(Signal, Asked); 8] = [
    (Signal::HUP, Asked::End(Signal::HUP)),
    (Signal::INT, Asked::End(Signal::INT)),
    (Signal::QUIT, Asked::End(Signal::QUIT)),
    (Signal::TERM, Asked::End(Signal::TERM)),
    (Signal::USR1, Asked::PassOn(Signal::USR1)),
    (Signal::USR2, Asked::PassOn(Signal::USR2)),
    (Signal::ALARM, Asked::PassOn(Signal::ALARM)),
    (Signal::WINCH, Asked::WindowChanged),
];

impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    ///
    /// If the self-pipe or a handler cannot be made.
    pub fn listen(attended: Attended) -> io::Result<Self> {
        let ignored = ignored_at_start();
        let (read, write) = UnixStream::pair()?;
        let mut wanted: Vec<i32> = HEARD.iter().map(|(signal, _)| signal.as_raw()).collect();
        if attended == Attended::No {
            // A person's Ctrl-Z stops the whole group by itself; without one the child's group hears it from us.
            wanted.push(Signal::TSTP.as_raw());
        }
        wanted.retain(|signal| !is_set(ignored, *signal));
        let delivery = SignalDelivery::with_pipe(read, write, SignalOnly, &wanted)?;
        Ok(Self { delivery, told: None })
    }

    /// Returns signals of which none is the process's: what hears them ends when its [`Ender`] says so. For children that
    /// run side by side in one process, which decides itself what a signal to it means for each.
    ///
    /// # Errors
    ///
    /// If the self-pipe cannot be made.
    pub fn told() -> io::Result<(Self, Ender)> {
        let (read, write) = UnixStream::pair()?;
        let pipe = write.try_clone()?;
        pipe.set_nonblocking(true)?;
        let none: [i32; 0] = [];
        let delivery = SignalDelivery::with_pipe(read, write, SignalOnly, none)?;
        let told = Arc::new(AtomicBool::new(false));
        Ok((Self { delivery, told: Some(Arc::clone(&told)) }, Ender { told, pipe }))
    }

    /// Returns the descriptor that becomes readable when a signal has come.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }

    /// Takes what has come, in no particular order, each kind once.
    pub fn take(&mut self) -> Vec<Asked> {
        let pending = self.delivery.pending().filter_map(|raw| {
            if raw == Signal::TSTP.as_raw() {
                return Some(Asked::Pause);
            }
            HEARD.iter().find(|(signal, _)| signal.as_raw() == raw).map(|(_, asked)| *asked)
        });
        // Looked at after the pipe was emptied, so that no call of the ender falls between the two.
        let mut asked: Vec<Asked> = pending.collect();
        if self.told.as_ref().is_some_and(|told| told.swap(false, Ordering::AcqRel)) {
            asked.push(Asked::End(Signal::TERM));
        }
        asked
    }
}

/// Returns the mask of ignored signals as the kernel shows it, 0 if it does not.
fn ignored_at_start() -> u64 {
    // One read: the kernel makes the whole text at once, and what matters stands in its first half.
    let mut text = [0; 4096];
    let read = File::open("/proc/self/status").and_then(|mut file| file.read(&mut text)).unwrap_or(0);
    String::from_utf8_lossy(&text[..read])
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Returns whether `signal` (1-based, as numbered by the system) is in the mask.
fn is_set(mask: u64, signal: i32) -> bool {
    u32::try_from(signal - 1).is_ok_and(|bit| bit < 64 && mask >> bit & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_names_its_signals() {
        assert!(is_set(0b1, 1));
        assert!(!is_set(0b1, 2));
        assert!(is_set(1 << 14, 15));
        assert!(!is_set(u64::MAX, 65));
    }
}
