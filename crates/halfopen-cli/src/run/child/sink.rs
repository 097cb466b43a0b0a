//! Receives an attempt's output: holds standard output until the verdict, passes standard error on as it comes.
//!
//! Held output lies in memory, then in a file that has no name any more, up to a bound. Past the bound, or where the
//! file cannot be written, it is let go: what was held is passed on, the rest follows live, and the call is never
//! repeated, because a reader must never see two beginnings.
//!
//! Writing never waits: a reader that has stopped reading must not keep us from hearing a signal or a timeout. A pipe
//! that `poll` calls writable takes a page without waiting (POSIX, PIPE_BUF), so no piece is larger than that unless
//! the other side is a file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// How much is held in memory before a file is used.
const IN_MEMORY_MAX: usize = 1 << 20;
/// What a writable pipe takes without waiting.
const PIECE: usize = 4096;
/// What is written to a file at once.
const FILE_PIECE: usize = 1 << 16;

/// Why output could not be handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Nobody reads any more, as after `| head`.
    ReaderGone,
    /// It could not be written: the disk is full, the device failed.
    Failed(Errno),
}

/// A descriptor that output is passed on to, piece by piece.
#[derive(Debug)]
pub struct Outlet {
    to: OwnedFd,
    piece: usize,
    lost: Option<Lost>,
}

impl Outlet {
    /// Returns the outlet into `to`.
    ///
    /// # Errors
    ///
    /// If the descriptor cannot be duplicated.
    pub fn new(to: BorrowedFd<'_>) -> io::Result<Self> {
        let is_file =
            rustix::fs::fstat(to).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        let piece = if is_file { FILE_PIECE } else { PIECE };
        Ok(Self { to: to.try_clone_to_owned()?, piece, lost: None })
    }

    /// Returns why output is no longer passed on, if it is not.
    #[must_use]
    pub fn lost(&self) -> Option<Lost> {
        self.lost
    }

    /// Writes a piece of `bytes`; call it when the descriptor is writable. Returns how many were taken; once the outlet
    /// is lost, all of them.
    fn write(&mut self, bytes: &[u8]) -> usize {
        if self.lost.is_some() {
            return bytes.len();
        }
        match rustix::io::write(&self.to, &bytes[..bytes.len().min(self.piece)]) {
            Ok(written) => written,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(Errno::PIPE) => {
                self.lost = Some(Lost::ReaderGone);
                bytes.len()
            }
            Err(error) => {
                self.lost = Some(Lost::Failed(error));
                bytes.len()
            }
        }
    }
}

/// Output that waits for its outlet to take it: as much as was read at once, no more.
#[derive(Debug)]
pub struct Live {
    outlet: Outlet,
    waiting: Vec<u8>,
    passed: u64,
}

impl Live {
    /// Returns a live sink into `outlet`.
    #[must_use]
    pub fn new(outlet: Outlet) -> Self {
        Self { outlet, waiting: Vec::new(), passed: 0 }
    }

    /// Returns whether it can take more; if not, the child waits, as it would for a slow reader.
    #[must_use]
    pub fn takes(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a piece of output.
    pub fn take(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
        self.passed += bytes.len() as u64;
    }

    /// Returns how many bytes have been passed on.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Returns what to poll for.
    #[must_use]
    pub fn poll(&self) -> Option<PollFd<'_>> {
        (!self.waiting.is_empty()).then(|| PollFd::new(&self.outlet.to, PollFlags::OUT))
    }

    /// Passes a piece on; call it when [`Live::poll`] is ready.
    pub fn step(&mut self) {
        let written = self.outlet.write(&self.waiting);
        self.waiting.drain(..written);
    }

    /// Returns why output is no longer passed on, if it is not.
    #[must_use]
    pub fn lost(&self) -> Option<Lost> {
        self.outlet.lost()
    }
}

/// Where an attempt's standard output goes.
#[derive(Debug)]
pub enum Stdout {
    /// It is held until the verdict.
    Held {
        /// What is held.
        held: Held,
        /// How much at most, in bytes.
        bytes_max: u64,
    },
    /// Too much was held: it is on its way out, the rest waits behind it.
    LettingGo {
        /// What was held.
        releasing: Releasing,
        /// Where it goes.
        outlet: Outlet,
        /// How much that is, in bytes.
        bytes: u64,
    },
    /// It is passed on as it comes.
    Live(Live),
    /// It could not even be let go; the descriptor cannot be used.
    Broken,
}

impl Stdout {
    /// Returns whether it can take more.
    #[must_use]
    pub fn takes(&self) -> bool {
        match self {
            Self::Held { .. } | Self::Broken => true,
            Self::LettingGo { .. } => false,
            Self::Live(live) => live.takes(),
        }
    }

    /// Takes a piece of output.
    pub fn take(&mut self, bytes: &[u8]) {
        match self {
            Self::Held { held, bytes_max } => {
                if held.take(bytes, *bytes_max, &std::env::temp_dir()) == Fits::No {
                    let held = std::mem::take(held);
                    let bytes = held.bytes();
                    *self = match Outlet::new(std::io::stdout().as_fd()) {
                        Ok(outlet) => Self::LettingGo { releasing: held.release(), outlet, bytes },
                        Err(_) => Self::Broken,
                    };
                }
            }
            Self::LettingGo { releasing, bytes: all, .. } => {
                releasing.take(bytes);
                *all += bytes.len() as u64;
            }
            Self::Live(live) => live.take(bytes),
            Self::Broken => {}
        }
    }

    /// Returns what to poll for.
    #[must_use]
    pub fn poll(&self) -> Option<PollFd<'_>> {
        match self {
            Self::Held { .. } | Self::Broken => None,
            Self::LettingGo { outlet, .. } => Some(PollFd::new(&outlet.to, PollFlags::OUT)),
            Self::Live(live) => live.poll(),
        }
    }

    /// Passes a piece on; call it when [`Stdout::poll`] is ready.
    pub fn step(&mut self) {
        match self {
            Self::Held { .. } | Self::Broken => {}
            Self::Live(live) => live.step(),
            Self::LettingGo { releasing, outlet, bytes } => {
                if releasing.step(outlet) {
                    let (bytes, lost) = (*bytes, outlet.lost());
                    if let Self::LettingGo { outlet, .. } = std::mem::replace(self, Self::Broken) {
                        *self = Self::Live(Live { outlet, waiting: Vec::new(), passed: bytes });
                    }
                    debug_assert_eq!(self.lost(), lost);
                }
            }
        }
    }

    /// Returns whether nothing is left that could be passed on.
    #[must_use]
    pub fn is_out(&self) -> bool {
        match self {
            Self::Held { .. } | Self::Broken => true,
            Self::LettingGo { .. } => false,
            Self::Live(live) => live.takes(),
        }
    }

    /// Returns how many bytes a reader may have seen.
    #[must_use]
    pub fn passed(&self) -> u64 {
        match self {
            Self::Held { .. } | Self::Broken => 0,
            Self::LettingGo { bytes, .. } => *bytes,
            Self::Live(live) => live.passed(),
        }
    }

    /// Returns why output is no longer passed on, if it is not.
    #[must_use]
    pub fn lost(&self) -> Option<Lost> {
        match self {
            Self::Held { .. } => None,
            Self::LettingGo { outlet, .. } => outlet.lost(),
            Self::Live(live) => live.lost(),
            Self::Broken => Some(Lost::Failed(Errno::BADF)),
        }
    }
}

/// Output that is held until somebody decides what becomes of it.
#[derive(Debug, Default)]
pub struct Held {
    memory: Vec<u8>,
    file: Option<File>,
    bytes: u64,
}

/// Whether held output still fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fits {
    /// It does.
    Yes,
    /// It does not: it must be let go.
    No,
}

impl Held {
    /// Takes a piece of output; `bytes_max` bounds all of it.
    #[must_use]
    pub fn take(&mut self, bytes: &[u8], bytes_max: u64, folder: &Path) -> Fits {
        self.bytes += bytes.len() as u64;
        if self.file.is_none() {
            self.memory.extend_from_slice(bytes);
            if self.memory.len() > IN_MEMORY_MAX {
                match nameless_file(folder).and_then(|mut file| file.write_all(&self.memory).map(|()| file)) {
                    Ok(file) => {
                        self.file = Some(file);
                        self.memory = Vec::new();
                    }
                    Err(_) => return Fits::No,
                }
            }
        } else if let Some(file) = &mut self.file
            && let Err(_full) = write_whole(file, bytes, &mut self.memory)
        {
            return Fits::No;
        }
        if self.bytes > bytes_max { Fits::No } else { Fits::Yes }
    }

    /// Returns how many bytes are held.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Turns it into something that can be passed on from its beginning.
    #[must_use]
    pub fn release(mut self) -> Releasing {
        if let Some(file) = &mut self.file {
            // A nameless file of ours can always be rewound; if not, nothing is lost that could be saved.
            let _ = file.seek(SeekFrom::Start(0));
        }
        Releasing { file: self.file, waiting: Vec::new(), rest: self.memory }
    }
}

/// Appends `bytes` to the file; what does not fit stays in `beside`, so that nothing is lost.
fn write_whole(file: &mut File, bytes: &[u8], beside: &mut Vec<u8>) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(0) => break,
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    if written == bytes.len() {
        return Ok(());
    }
    beside.extend_from_slice(&bytes[written..]);
    Err(io::Error::from(io::ErrorKind::StorageFull))
}

impl Outlet {
    /// Returns the descriptor, to poll for when something is left to pass on.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.to.as_fd()
    }
}

/// Held output on its way out.
#[derive(Debug)]
pub struct Releasing {
    file: Option<File>,
    waiting: Vec<u8>,
    rest: Vec<u8>,
}

impl Releasing {
    /// Passes a piece on; call it when the outlet is writable. Returns whether everything is out.
    pub fn step(&mut self, outlet: &mut Outlet) -> bool {
        if self.waiting.is_empty() {
            self.refill();
        }
        if self.waiting.is_empty() {
            return true;
        }
        let written = outlet.write(&self.waiting);
        self.waiting.drain(..written);
        if outlet.lost().is_some() {
            *self = Self { file: None, waiting: Vec::new(), rest: Vec::new() };
        }
        self.waiting.is_empty() && self.rest.is_empty() && self.file.is_none()
    }

    /// Adds what comes after what is held.
    pub fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    fn refill(&mut self) {
        if let Some(file) = &mut self.file {
            let mut piece = vec![0; FILE_PIECE];
            match file.read(&mut piece) {
                Ok(read) if read > 0 => {
                    piece.truncate(read);
                    self.waiting = piece;
                    return;
                }
                _ => self.file = None,
            }
        }
        self.waiting = std::mem::take(&mut self.rest);
    }
}

/// Makes a file that has no name, readable by nobody else, gone with its last descriptor.
fn nameless_file(folder: &Path) -> io::Result<File> {
    let mode = Mode::RUSR | Mode::WUSR;
    let direct = rustix::fs::open(folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC, mode);
    if let Ok(file) = direct {
        return Ok(File::from(file));
    }
    // File systems without such files: make one, and take its name away at once.
    let path = folder.join(format!(".halfopen-{:016x}", fastrand::u64(..)));
    let file = rustix::fs::open(&path, OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC, mode)?;
    std::fs::remove_file(&path)?;
    Ok(File::from(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn everything(held: Held) -> Vec<u8> {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let mut outlet = Outlet::new(write.as_fd()).unwrap();
        drop(write);
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            File::from(read).read_to_end(&mut all).unwrap();
            all
        });
        let mut releasing = held.release();
        while !releasing.step(&mut outlet) {}
        drop(outlet);
        reader.join().unwrap()
    }

    #[test]
    fn what_is_held_comes_out_as_it_went_in() {
        let folder = tempfile::tempdir().unwrap();
        let text: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 251) as u8).collect();
        let mut held = Held::default();
        for piece in text.chunks(70_001) {
            assert_eq!(held.take(piece, 1 << 30, folder.path()), Fits::Yes);
        }
        assert!(held.file.is_some(), "so much lies in a file");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
        assert!(everything(held) == text);
    }

    #[test]
    fn what_does_not_fit_is_let_go_whole() {
        let mut held = Held::default();
        assert_eq!(held.take(b"abc", 4, Path::new("/nowhere")), Fits::Yes);
        assert_eq!(held.take(b"def", 4, Path::new("/nowhere")), Fits::No);
        assert_eq!(everything(held), b"abcdef");
    }

    #[test]
    fn without_a_place_for_a_file_nothing_is_lost() {
        let mut held = Held::default();
        let big = vec![7; IN_MEMORY_MAX + 1];
        assert_eq!(held.take(&big, 1 << 30, Path::new("/nowhere")), Fits::No);
        assert!(everything(held) == big);
    }

    #[test]
    fn a_reader_that_left_is_noticed() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let mut live = Live::new(Outlet::new(write.as_fd()).unwrap());
        drop(read);
        live.take(b"x");
        live.step();
        assert_eq!(live.lost(), Some(Lost::ReaderGone));
        assert!(live.takes(), "what nobody reads does not hold the child up");
    }
}
