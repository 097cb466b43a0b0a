//! Lays the lines a child's output comes in on: pipes where it is captured, pseudo-terminals where a person looks on.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use super::sink::{self, Live, Outlet, Stdout};
use super::{Listener, Out, Spec, terminal};

/// The child's two outputs: what arrives, and where it goes.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) out: Option<OwnedFd>,
    pub(super) err: Option<OwnedFd>,
    /// The child's ends, until it has them.
    pub(super) childs: Option<(OwnedFd, OwnedFd)>,
    pub(super) stdout: Stdout,
    pub(super) stderr: Live,
    pub(super) to_terminal: bool,
    /// Whether both outputs arrive on `out`.
    merged: bool,
}

impl Lines {
    pub(super) fn lay(spec: &Spec<'_>) -> io::Result<Self> {
        if spec.out == Out::Heard {
            return Self::to_the_listener();
        }
        let (our_out, our_err) = (std::io::stdout(), std::io::stderr());
        let (out_tty, err_tty) = (is_terminal(&our_out), is_terminal(&our_err));
        let stderr = Live::new(Outlet::new(our_err.as_fd())?);
        let out_pair = out_tty.then(|| terminal::pair(our_out.as_fd()).ok()).flatten();
        let to_terminal = out_pair.is_some();
        let stdout = match spec.out {
            Out::Held { bytes_max } if !to_terminal => Stdout::Held { held: sink::Held::default(), bytes_max },
            Out::Held { .. } | Out::Live | Out::Heard => Stdout::Live(Live::new(Outlet::new(our_out.as_fd())?)),
        };
        let (out, out_childs) = match out_pair {
            Some(pair) if err_tty => {
                let childs = (pair.childs.try_clone()?, pair.childs);
                return Ok(Self {
                    out: Some(pair.ours),
                    err: None,
                    childs: Some(childs),
                    stdout,
                    stderr,
                    to_terminal,
                    merged: true,
                });
            }
            Some(pair) => (pair.ours, pair.childs),
            None => pipe()?,
        };
        let err_pair = err_tty.then(|| terminal::pair(our_err.as_fd()).ok()).flatten();
        let (err, err_childs) = match err_pair {
            Some(pair) => (pair.ours, pair.childs),
            None => pipe()?,
        };
        Ok(Self {
            out: Some(out),
            err: Some(err),
            childs: Some((out_childs, err_childs)),
            stdout,
            stderr,
            to_terminal,
            merged: false,
        })
    }

    /// Lays lines of which only the listener hears.
    fn to_the_listener() -> io::Result<Self> {
        let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
        let (out, out_childs) = pipe()?;
        let (err, err_childs) = pipe()?;
        Ok(Self {
            out: Some(out),
            err: Some(err),
            childs: Some((out_childs, err_childs)),
            stdout: Stdout::Live(Live::new(Outlet::new(nowhere.as_fd())?)),
            stderr: Live::new(Outlet::new(nowhere.as_fd())?),
            to_terminal: false,
            merged: false,
        })
    }

    /// Reads what has come on standard output, as far as it can be taken.
    pub(super) fn hear_stdout(&mut self, buffer: &mut Vec<u8>, listener: &mut dyn Listener) -> usize {
        let Some(out) = &self.out else { return 0 };
        let piece = match read(out, buffer) {
            Heard::Piece => buffer.as_slice(),
            Heard::NothingYet => return 0,
            Heard::End => {
                self.out = None;
                return 0;
            }
        };
        listener.stdout(piece);
        if self.merged {
            listener.stderr(piece);
        }
        self.stdout.take(piece);
        piece.len()
    }

    pub(super) fn hear_stderr(&mut self, buffer: &mut Vec<u8>, listener: &mut dyn Listener) -> usize {
        let Some(err) = &self.err else { return 0 };
        let piece = match read(err, buffer) {
            Heard::Piece => buffer.as_slice(),
            Heard::NothingYet => return 0,
            Heard::End => {
                self.err = None;
                return 0;
            }
        };
        listener.stderr(piece);
        self.stderr.take(piece);
        piece.len()
    }

    /// Returns how much lies unread in the child's pipes.
    pub(super) fn unread(&self) -> u64 {
        let of = |fd: &Option<OwnedFd>| fd.as_ref().and_then(|fd| rustix::io::ioctl_fionread(fd).ok()).unwrap_or(0);
        of(&self.out) + of(&self.err)
    }

    pub(super) fn all_out(&self) -> bool {
        self.stdout.is_out() && self.stderr.takes()
    }
}

enum Heard {
    Piece,
    NothingYet,
    End,
}

/// Reads a piece into the room that `buffer` has.
fn read(from: &OwnedFd, buffer: &mut Vec<u8>) -> Heard {
    buffer.clear();
    match rustix::io::read(from, spare_capacity(buffer)) {
        Ok(0) => Heard::End,
        Ok(_) => Heard::Piece,
        Err(Errno::AGAIN | Errno::INTR) => Heard::NothingYet,
        // A pseudo-terminal whose other side is closed reads as an IO error.
        Err(_) => Heard::End,
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok((read, write))
}

fn is_terminal(fd: &impl AsFd) -> bool {
    rustix::termios::isatty(fd)
}
