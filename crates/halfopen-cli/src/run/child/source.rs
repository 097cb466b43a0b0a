//! Feeds standard input to one attempt after the other, so that each reads the same.
//!
//! What it is decides how:
//!
//! - a *file* is handed on as it is and rewound before the next attempt;
//! - a *pipe* is copied into a pipe of the child's with `tee`, which takes nothing away, and then exactly as much is
//!   taken from ours as the child has read. So a command that does not read leaves the input to whoever comes next, as
//!   it would without us, and a `while read` loop loses no line. What was taken is kept for the next attempt up to a
//!   bound; past it the rest flows without a copy and there is no next attempt;
//! - a *socket* cannot be copied like that and is read one page ahead;
//! - a *terminal* and everything else is handed on untouched.
//!
//! A thread would be simpler; it would also cost the closed success path more than all the rest of a run.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FileType, SeekFrom};
use rustix::io::{Errno, ioctl_fionbio, ioctl_fionread};
use rustix::pipe::{PipeFlags, SpliceFlags};
use rustix::process::Signal;

use super::poll;
use super::signals::{Asked, Signals};

/// The first pause after a copy before looking how much of it the child has read.
const LOOK_FIRST: Duration = Duration::from_millis(1);
/// The longest such pause; reached when a child leaves its input alone.
const LOOK_LATEST: Duration = Duration::from_millis(100);
/// What a socket is read ahead by: the least that a pipe is guaranteed to take whole.
const PAGE: usize = 4096;

/// Standard input, as every attempt of a call sees it.
#[derive(Debug)]
pub struct Source {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Handed on; nothing is done for a further attempt.
    AsItIs,
    /// Nothing at all.
    Empty,
    /// A file, and where it stood.
    File { input: OwnedFd, start: u64 },
    /// Something that can be read only once.
    Once(Once),
}

/// Whether the input can be given to a further attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// It can.
    Yes,
    /// More was read than is kept.
    TooLong,
}

/// Why the whole of the input is not to be had.
#[derive(Debug)]
pub enum Unread {
    /// It is longer than was asked for.
    TooLong,
    /// It does not end.
    Endless,
    /// A signal to us came first.
    Cancelled(Signal),
    /// It cannot be read.
    Failed(io::Error),
}

#[derive(Debug)]
struct Once {
    input: File,
    copy: Copying,
    kept: Vec<u8>,
    kept_max: u64,
    again: Again,
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copying {
    Tee,
    ReadAhead,
}

impl Source {
    /// Returns a source that is empty for every attempt.
    #[must_use]
    pub fn empty() -> Self {
        Self { kind: Kind::Empty }
    }

    /// Returns the source for the process's own standard input, of which at most `kept_max` bytes are kept.
    ///
    /// # Errors
    ///
    /// If the descriptor cannot be looked at or duplicated.
    pub fn standard(kept_max: u64) -> io::Result<Self> {
        Self::of(std::io::stdin().as_fd(), kept_max)
    }

    /// Returns the source for `input`.
    ///
    /// # Errors
    ///
    /// As [`Source::standard`].
    pub fn of(input: BorrowedFd<'_>, kept_max: u64) -> io::Result<Self> {
        let kind = match FileType::from_raw_mode(rustix::fs::fstat(input)?.st_mode) {
            FileType::RegularFile => {
                Kind::File { input: input.try_clone_to_owned()?, start: rustix::fs::tell(input).unwrap_or(0) }
            }
            found @ (FileType::Fifo | FileType::Socket) => Kind::Once(Once {
                input: File::from(input.try_clone_to_owned()?),
                copy: if found == FileType::Fifo { Copying::Tee } else { Copying::ReadAhead },
                kept: Vec::new(),
                kept_max,
                again: Again::Yes,
                ended: false,
            }),
            _ => Kind::AsItIs,
        };
        Ok(Self { kind })
    }

    /// Returns whether a further attempt can be given the same input.
    #[must_use]
    pub fn again(&self) -> Again {
        match &self.kind {
            Kind::AsItIs | Kind::Empty | Kind::File { .. } => Again::Yes,
            Kind::Once(once) => once.again,
        }
    }

    /// Returns whether somebody has given the command something to read: a file, a pipe, a socket.
    #[must_use]
    pub fn is_piped(&self) -> bool {
        match &self.kind {
            Kind::AsItIs | Kind::Empty => false,
            Kind::File { .. } | Kind::Once(_) => true,
        }
    }

    /// Returns the whole of it, to be given to an attempt that another process makes. A pipe is read to its end, and what
    /// was read is kept here as well.
    ///
    /// # Errors
    ///
    /// [`Unread`]; what has been read stays kept, as far as it fits.
    pub fn whole(&mut self, bytes_max: u64, within: Duration, signals: &mut Signals) -> Result<Vec<u8>, Unread> {
        match &mut self.kind {
            Kind::AsItIs | Kind::Empty => Ok(Vec::new()),
            Kind::File { input, start } => {
                let file = File::from(input.try_clone().map_err(Unread::Failed)?);
                read_file(&file, *start, bytes_max)
            }
            Kind::Once(once) => {
                once.read_to_end(within, signals)?;
                if once.kept.len() as u64 > bytes_max { Err(Unread::TooLong) } else { Ok(once.kept.clone()) }
            }
        }
    }

    /// Opens the input for the next attempt: what the child is given, and what has to be fed into it.
    ///
    /// # Errors
    ///
    /// If a pipe cannot be made or a descriptor duplicated.
    pub fn open(&mut self) -> io::Result<(Given, Feed<'_>)> {
        match &mut self.kind {
            Kind::AsItIs => Ok((Given::AsItIs, Feed::nothing())),
            Kind::Empty => Ok((Given::Empty, Feed::nothing())),
            Kind::File { input, start } => {
                // Not an error where it cannot be done: the first attempt reads on from where the file stands.
                let _ = rustix::fs::seek(&*input, SeekFrom::Start(*start));
                Ok((Given::This(input.try_clone()?), Feed::nothing()))
            }
            Kind::Once(once) => {
                let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
                ioctl_fionbio(&write, true)?;
                let seen = read.try_clone()?;
                let feed = Feed { once: Some(once), to: Some(write), seen: Some(seen), ..Feed::nothing() };
                Ok((Given::This(read), feed))
            }
        }
    }
}

/// What a child is given as its standard input.
#[derive(Debug)]
pub enum Given {
    /// Ours.
    AsItIs,
    /// Nothing.
    Empty,
    /// This.
    This(OwnedFd),
}

impl Given {
    /// Returns it in the form a command takes.
    ///
    /// # Errors
    ///
    /// If the descriptor cannot be duplicated.
    pub fn stdio(&self) -> io::Result<Stdio> {
        Ok(match self {
            Self::AsItIs => Stdio::inherit(),
            Self::Empty => Stdio::null(),
            Self::This(fd) => Stdio::from(fd.try_clone()?),
        })
    }
}

/// The feeding of one attempt.
#[derive(Debug)]
pub struct Feed<'a> {
    once: Option<&'a mut Once>,
    /// The child's pipe, until everything is in it.
    to: Option<OwnedFd>,
    /// The other end of it, kept only to see how much lies unread.
    seen: Option<OwnedFd>,
    /// How much of what is kept has been written.
    fed: usize,
    /// Bytes that lie in the child's pipe and still in ours.
    copied: u64,
    /// How long to wait before looking again, while a copy lies unread.
    pause: Option<Duration>,
    /// Whether the child's pipe is full, so that there is no point in asking whether there is more.
    full: bool,
}

impl Feed<'_> {
    fn nothing() -> Self {
        Feed { once: None, to: None, seen: None, fed: 0, copied: 0, pause: None, full: false }
    }

    /// Returns what to poll for.
    #[must_use]
    pub fn poll(&self) -> Option<PollFd<'_>> {
        let (once, to) = (self.once.as_ref()?, self.to.as_ref()?);
        if self.full || self.fed < once.kept.len() {
            return Some(PollFd::new(to, PollFlags::OUT));
        }
        if self.copied > 0 || once.ended {
            return None;
        }
        Some(PollFd::from_borrowed_fd(once.input.as_fd(), PollFlags::IN))
    }

    /// Returns how long to wait at most before calling [`Feed::step`], whatever `poll` says.
    #[must_use]
    pub fn pause(&self) -> Option<Duration> {
        self.pause
    }

    /// Moves on as far as can be done without waiting. `ready` says that what [`Feed::poll`] asked for has come.
    ///
    /// A child that has closed its input is no error: it has read enough.
    pub fn step(&mut self, ready: bool) {
        let outcome = self.try_step(ready);
        if outcome.is_err() {
            self.to = None;
            self.pause = None;
        }
    }

    fn try_step(&mut self, ready: bool) -> io::Result<()> {
        let Some(once) = self.once.as_deref_mut() else { return Ok(()) };
        if self.copied > 0 {
            let unread = self.seen.as_ref().map_or(Ok(0), ioctl_fionread)?;
            // Never more than is there: somebody else may read from the same pipe.
            let read = self.copied.saturating_sub(unread).min(ioctl_fionread(&once.input)?);
            once.take(read)?;
            self.fed = once.kept.len();
            self.copied -= read;
            self.pause = match (read, self.pause) {
                _ if self.copied == 0 => None,
                (0, Some(pause)) => Some((pause * 2).min(LOOK_LATEST)),
                _ => Some(LOOK_FIRST),
            };
            if self.copied > 0 {
                return Ok(());
            }
        } else if !ready {
            return Ok(());
        }
        self.full = false;
        let Some(to) = &self.to else { return Ok(()) };
        while self.fed < once.kept.len() {
            match rustix::io::write(to, &once.kept[self.fed..]) {
                Ok(written) => self.fed += written,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if once.ended {
            self.to = None;
            return Ok(());
        }
        if once.again == Again::TooLong {
            return self.flow();
        }
        match once.copy {
            Copying::Tee => self.copy(),
            Copying::ReadAhead => self.read_ahead(),
        }
    }

    /// Copies what lies in our pipe into the child's and leaves it in ours.
    fn copy(&mut self) -> io::Result<()> {
        let (Some(once), Some(to)) = (self.once.as_deref_mut(), &self.to) else { return Ok(()) };
        match rustix::pipe::tee(&once.input, to, 1 << 20, SpliceFlags::NONBLOCK) {
            Ok(0) => {
                once.ended = true;
                self.to = None;
            }
            Ok(copied) => {
                self.copied = copied as u64;
                self.pause = Some(LOOK_FIRST);
                // If nobody can write any more and everything is copied, the child need not wait for its end.
                if ioctl_fionread(&once.input)? == self.copied && writers_gone(&once.input) {
                    self.to = None;
                    self.pause = None;
                }
            }
            Err(Errno::AGAIN) => self.full = ioctl_fionread(&once.input)? > 0,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Lets the rest flow through without keeping it.
    fn flow(&mut self) -> io::Result<()> {
        let (Some(once), Some(to)) = (self.once.as_deref_mut(), &self.to) else { return Ok(()) };
        match rustix::pipe::splice(&once.input, None, to, None, 1 << 20, SpliceFlags::NONBLOCK) {
            Ok(0) => {
                once.ended = true;
                self.to = None;
            }
            Ok(_) => {}
            Err(Errno::AGAIN) => self.full = ioctl_fionread(&once.input)? > 0,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Reads one page and passes it on.
    fn read_ahead(&mut self) -> io::Result<()> {
        let Some(once) = self.once.as_deref_mut() else { return Ok(()) };
        once.take(PAGE as u64)?;
        if let Some(to) = &self.to {
            // A page goes in whole or not at all; what does not is written when there is room.
            while self.fed < once.kept.len() {
                match rustix::io::write(to, &once.kept[self.fed..]) {
                    Ok(written) => self.fed += written,
                    Err(Errno::AGAIN | Errno::INTR) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        if once.ended && self.fed == once.kept.len() {
            self.to = None;
        }
        Ok(())
    }

    /// Settles at the end of an attempt how much the child has read.
    pub fn finish(mut self) {
        if self.copied > 0 {
            self.step(false);
        }
    }
}

/// Reads a file from `start` on, without moving where it stands.
fn read_file(file: &File, start: u64, bytes_max: u64) -> Result<Vec<u8>, Unread> {
    let mut all = Vec::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read_at(&mut piece, start + all.len() as u64) {
            Ok(0) => return Ok(all),
            Ok(read) => all.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Unread::Failed(error)),
        }
        if all.len() as u64 > bytes_max {
            return Err(Unread::TooLong);
        }
    }
}

impl Once {
    /// Reads the rest of the input.
    fn read_to_end(&mut self, within: Duration, signals: &mut Signals) -> Result<(), Unread> {
        let until = Instant::now() + within;
        while !self.ended {
            if self.again == Again::TooLong {
                return Err(Unread::TooLong);
            }
            let mut fds = [
                PollFd::from_borrowed_fd(self.input.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(signals.fd(), PollFlags::IN),
            ];
            let ready = poll(&mut fds, Some(until)).map_err(Unread::Failed)?;
            let readable = !fds[0].revents().is_empty();
            if let Some(signal) = signals.take().into_iter().find_map(Asked::ends) {
                return Err(Unread::Cancelled(signal));
            }
            if readable {
                // At an end that somebody has closed nothing is there to be counted, and a read says so.
                let there = ioctl_fionread(&self.input).unwrap_or(0).max(1);
                self.take(there).map_err(Unread::Failed)?;
            } else if ready == 0 && Instant::now() >= until {
                return Err(Unread::Endless);
            }
        }
        Ok(())
    }

    /// Takes `bytes` from the input, which has them, and keeps them if they fit.
    fn take(&mut self, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let mut piece = vec![0; usize::try_from(bytes).unwrap_or(PAGE)];
        let mut taken = 0;
        while taken < piece.len() {
            match self.input.read(&mut piece[taken..]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(more) => taken += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            if self.copy == Copying::ReadAhead {
                break;
            }
        }
        if self.kept.len() as u64 + taken as u64 > self.kept_max {
            self.again = Again::TooLong;
            if self.copy == Copying::Tee {
                self.kept = Vec::new();
                return Ok(());
            }
        }
        self.kept.write_all(&piece[..taken])
    }
}

/// Returns whether every writer of a pipe has closed it.
fn writers_gone(pipe: &File) -> bool {
    let mut fds = [PollFd::new(pipe, PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::HUP)
}
