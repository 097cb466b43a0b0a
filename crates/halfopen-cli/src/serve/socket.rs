//! Takes the place of a unix socket, and gives it back.
//!
//! Only its owner may connect (mode 0600), from the first instant on. A socket that another gateway left behind when it
//! was killed is removed; one that somebody listens on, somebody else's, and what is no socket at all are left alone and
//! named.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;

/// A socket that we made.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    inode: (u64, u64),
}

impl Socket {
    /// Listens at `path`.
    pub(super) fn bind(path: &Path) -> io::Result<(UnixListener, Self)> {
        make_way(path)?;
        // Stricter for whatever else is made in this instant, never laxer.
        let before = rustix::process::umask(Mode::from_raw_mode(0o177));
        let listener = UnixListener::bind(path);
        rustix::process::umask(before);
        let listener = listener?;
        listener.set_nonblocking(true)?;
        let made = std::fs::symlink_metadata(path)?;
        Ok((listener, Self { path: path.to_owned(), inode: (made.dev(), made.ino()) }))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let ours = std::fs::symlink_metadata(&self.path).is_ok_and(|there| (there.dev(), there.ino()) == self.inode);
        if ours {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes what a gateway that was killed left behind.
fn make_way(path: &Path) -> io::Result<()> {
    let there = match std::fs::symlink_metadata(path) {
        Ok(there) => there,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !there.file_type().is_socket() {
        return Err(io::Error::other("something that is no socket has this name"));
    }
    if there.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("the socket there belongs to another user"));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "somebody listens there")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_its_owners_and_goes_with_its_gateway() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h.sock");
        let (listener, socket) = Socket::bind(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Socket::bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop((listener, socket));
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_that_was_left_behind_is_replaced_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let bound = Socket::bind(&path).unwrap();
        // What another made in our place meanwhile is not removed.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        drop(bound);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        assert!(Socket::bind(&path).unwrap_err().to_string().contains("no socket"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }
}
