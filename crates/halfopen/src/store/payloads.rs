//! Keeps large bodies in files beside the store.
//!
//! A file is durable before its row is: it is written under another name, flushed, moved into place, and its folder is
//! flushed. A crash between the file and the row leaves an orphan, which nobody refers to and which is removed later;
//! the other order would leave a job without its body.
//!
//! Names are drawn by chance, so that nobody has to know a job's number before it has one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::StoreError;

/// How old a file without a row must be before it counts as an orphan: longer than any enqueue takes.
const ORPHAN_AFTER: Duration = Duration::from_secs(3600);

/// The folder of a store's large bodies.
#[derive(Clone, Debug)]
pub(crate) struct Payloads {
    folder: PathBuf,
}

impl Payloads {
    /// Returns the folder that belongs to the store at `path`. It is made when the first body is kept.
    pub(crate) fn beside(path: &Path) -> Self {
        let mut name = path.as_os_str().to_owned();
        name.push("-payloads");
        Self { folder: name.into() }
    }

    /// Keeps a body; returns the name of its file once that is durable.
    pub(crate) fn keep(&self, body: &[u8]) -> Result<String, StoreError> {
        let name = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let draft = self.folder.join(format!("{name}.new"));
        let kept = self.write(&draft, body).and_then(|()| {
            fs::rename(&draft, self.folder.join(&name))?;
            File::open(&self.folder)?.sync_all()
        });
        kept.map(|()| name).map_err(|cause| {
            let _ = fs::remove_file(&draft);
            self.failed(&cause)
        })
    }

    fn write(&self, draft: &Path, body: &[u8]) -> io::Result<()> {
        if !self.folder.is_dir() {
            // Not the folders above it: where the store's own folder is gone, nothing belongs.
            match DirBuilder::new().mode(0o700).create(&self.folder) {
                Err(exists) if exists.kind() == io::ErrorKind::AlreadyExists => {}
                other => other?,
            }
            if let Some(parent) = self.folder.parent() {
                File::open(parent)?.sync_all()?;
            }
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
        file.write_all(body)?;
        file.sync_all()
    }

    /// Reads a body.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        let mut body = Vec::new();
        File::open(self.folder.join(name))
            .and_then(|mut file| file.read_to_end(&mut body))
            .map_err(|cause| self.failed(&cause))?;
        Ok(body)
    }

    /// Removes bodies that nobody needs any more. One that is left is an orphan.
    pub(crate) fn forget(&self, names: &[String]) {
        for name in names {
            let _ = fs::remove_file(self.folder.join(name));
        }
    }

    /// Returns whether a body is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.folder.join(name).is_file()
    }

    /// Returns the names of files that are old enough to be orphans.
    pub(crate) fn old_files(&self) -> Result<Vec<String>, StoreError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(cause) => return Err(self.failed(&cause)),
        };
        let is_old = |modified: SystemTime| modified.elapsed().is_ok_and(|age| age >= ORPHAN_AFTER);
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|cause| self.failed(&cause))?;
            let old = entry.metadata().and_then(|file| file.modified()).is_ok_and(is_old);
            if old && let Ok(name) = entry.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn failed(&self, cause: &io::Error) -> StoreError {
        let (path, text) = (self.folder.clone(), cause.to_string());
        match cause.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                StoreError::Full { path, cause: text }
            }
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                StoreError::ReadOnly { path, cause: text }
            }
            _ => StoreError::Unusable { path, cause: text },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_kept_body_is_its_owners_only_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let payloads = Payloads::beside(&dir.path().join("h.db"));
        let name = payloads.keep(b"body").unwrap();
        assert_eq!(payloads.read(&name).unwrap(), b"body");
        let folder = dir.path().join("h.db-payloads");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join(&name))), (0o700, 0o600));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no draft is left");
        payloads.forget(std::slice::from_ref(&name));
        assert!(!payloads.has(&name));
    }

    #[test]
    fn a_young_file_is_no_orphan() {
        let dir = tempfile::tempdir().unwrap();
        let payloads = Payloads::beside(&dir.path().join("h.db"));
        assert_eq!(payloads.old_files().unwrap(), Vec::<String>::new());
        let name = payloads.keep(b"body").unwrap();
        assert_eq!(payloads.old_files().unwrap(), Vec::<String>::new());
        let file = File::options().write(true).open(dir.path().join("h.db-payloads").join(&name)).unwrap();
        file.set_modified(SystemTime::now() - ORPHAN_AFTER * 2).unwrap();
        assert_eq!(payloads.old_files().unwrap(), [name]);
    }
}
