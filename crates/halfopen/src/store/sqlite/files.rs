//! Prepares the place of a store file: folders and modes, and the file systems on which it must not lie.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::super::StoreError;

/// The identity of a file, to tell it from one that took its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(file: &fs::Metadata) -> Self {
        Self { device: file.dev(), inode: file.ino() }
    }

    fn at(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|file| Self::of(&file))
    }
}

/// The files that an open store consists of.
///
/// SQLite works on open files and asks for no name again: a process goes on happily in a file or a log that was
/// removed, where nobody else will ever see it, and, worse, writes its log back into a removed file while the log is
/// another store's by now. So every operation looks whether the names still lead to the same files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    path: PathBuf,
    /// Where the log is. SQLite follows links to the file before it adds the ending.
    log_path: PathBuf,
    file: FileId,
    /// `None` where nobody could make one.
    log: Option<FileId>,
}

/// No store is shorter than this, in bytes: SQLite's smallest page.
const FILE_BYTES_MIN: u64 = 512;

/// A disk with less room than this, in bytes, counts as full: a batch of changes and a write-back need about as much.
const ROOM_BYTES_MIN: u64 = 256 * 1024;

/// How every SQLite file begins (<https://www.sqlite.org/fileformat.html>, section 1.2).
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

impl Files {
    /// Notes which files stand at `path` now.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let file = FileId::at(path)?;
        let log_path = beside(&fs::canonicalize(path)?, "-wal");
        let log = FileId::at(&log_path).ok();
        Ok(Self { path: path.to_owned(), log_path, file, log })
    }

    /// Notes the log, which SQLite makes when it is first read.
    pub(super) fn note_log(&mut self) {
        self.log = FileId::at(&self.log_path).ok();
    }

    pub(super) fn log_path(&self) -> &Path {
        &self.log_path
    }

    /// Refuses files that are not those that were opened, and one that was cut to nothing.
    pub(in crate::store) fn still_there(&self) -> Result<(), StoreError> {
        self.looked_at().map(drop)
    }

    /// As [`Self::still_there`]; refuses also what its owner took the right to write from. A process that has it open,
    /// and one of the superuser, could write all the same; who took the right away meant them, too.
    pub(super) fn still_writable(&self) -> Result<(), StoreError> {
        let file = self.looked_at()?;
        if file.mode() & 0o222 == 0 {
            let cause = format!("nobody has the right to (mode {:04o})", file.mode() & 0o7777);
            return Err(StoreError::ReadOnly { path: self.path.clone(), cause });
        }
        Ok(())
    }

    fn looked_at(&self) -> Result<fs::Metadata, StoreError> {
        let replaced =
            || self.refuse_stranger().err().unwrap_or_else(|| StoreError::Replaced { path: self.path.clone() });
        let file = fs::metadata(&self.path).map_err(|_| replaced())?;
        if FileId::of(&file) != self.file {
            return Err(replaced());
        }
        if let Some(log) = self.log
            && !FileId::at(&self.log_path).is_ok_and(|found| found == log)
        {
            return Err(replaced());
        }
        if file.len() < FILE_BYTES_MIN {
            let cause = format!("it is cut to {} bytes", file.len());
            return Err(StoreError::Corrupt { path: self.path.clone(), cause });
        }
        Ok(file)
    }

    /// Refuses a disk on which the next changes would find no room. A few may still fit into what the log has already.
    pub(in crate::store) fn has_room(&self) -> Result<(), StoreError> {
        let Some(disk) = self.path.parent().and_then(|folder| rustix::fs::statvfs(folder).ok()) else {
            // Who cannot be asked is tried.
            return Ok(());
        };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free < ROOM_BYTES_MIN {
            let cause = format!("{free} bytes are free, {ROOM_BYTES_MIN} are needed");
            return Err(StoreError::Full { path: self.path.clone(), cause });
        }
        Ok(())
    }

    /// Refuses what stands there now, unless it is the file that was opened: another would be mixed with it, or hide what was
    /// accepted in it.
    pub(super) fn refuse_stranger(&self) -> Result<(), StoreError> {
        let file = FileId::at(&self.path).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                StoreError::Gone { path: self.path.clone(), left: left_overs(&self.path) }
            }
            _ => StoreError::Unusable { path: self.path.clone(), cause: cause.to_string() },
        })?;
        if file == self.file {
            return Ok(());
        }
        // Nobody here has this file open, so that reading it drops no lock.
        let mut begins = [0; MAGIC.len()];
        if fs::File::open(&self.path).and_then(|mut file| file.read_exact(&mut begins)).is_ok() && begins != *MAGIC {
            let cause = "file is not a database".to_owned();
            return Err(StoreError::Corrupt { path: self.path.clone(), cause });
        }
        let log = fs::metadata(&self.log_path).ok().filter(|log| log.len() > 0);
        if log.is_some_and(|log| Some(FileId::of(&log)) == self.log) {
            return Err(StoreError::ForeignLog { path: self.path.clone(), log: self.log_path.clone() });
        }
        // Whatever made it, it knows nothing of what was accepted here.
        Err(StoreError::Replaced { path: self.path.clone() })
    }
}

/// Returns which files of the store at `path` are there beside it: its log, if something is in it, and what processes
/// that have it open share.
fn left_overs(path: &Path) -> Vec<PathBuf> {
    let log = beside(path, "-wal");
    let shared = beside(path, "-shm");
    let mut left = Vec::new();
    if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        left.push(log);
    }
    if shared.exists() {
        left.push(shared);
    }
    left
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Makes the folders (0700) and the file (0600) if they are absent, and refuses file systems on which SQLite's locks
/// do not hold. Returns the absolute path.
///
/// A new file is made under another name by `make` and moved into place whole, so that nobody ever sees a store
/// without a schema, and two hundred first processes do not queue for the right to make it. It is made with its mode
/// because SQLite would make it readable for everybody; `-wal` and `-shm` take over its mode. What exists keeps its
/// mode: it is its owner's business.
///
/// None is made beside the log of an earlier one: nothing in a log says which file it belongs to, and SQLite would
/// write its pages into the new file.
pub(super) fn prepare(path: &Path, make: impl FnOnce(&Path) -> Result<(), StoreError>) -> Result<PathBuf, StoreError> {
    let unusable = |cause: io::Error| StoreError::Unusable { path: path.to_owned(), cause: cause.to_string() };
    // Also keeps SQLite from reading a name like `file:x?mode=memory` as a URI.
    let absolute = std::path::absolute(path).map_err(unusable)?;
    refuse_network(&absolute)?;
    if is_there(&absolute).map_err(unusable)? {
        return Ok(absolute);
    }
    let left = left_overs(&absolute);
    if !left.is_empty() {
        // Another process may have made the store, and begun its log, since it was looked for.
        return if is_there(&absolute).map_err(unusable)? {
            Ok(absolute)
        } else {
            Err(StoreError::LeftOvers { path: absolute, left })
        };
    }
    if let Some(folder) = absolute.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(unusable)?;
    }
    let draft = draft_name(&absolute);
    let made = create(&draft).map_err(unusable).and_then(|()| make(&draft));
    let placed = made.and_then(|()| place(&draft, &absolute).map_err(unusable));
    if placed.is_err() {
        let _ = fs::remove_file(&draft);
    }
    placed.map(|()| absolute)
}

fn is_there(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(_) => Ok(true),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(cause),
    }
}

/// Makes an empty file. It is closed at once, before SQLite opens it: closing any handle of a file drops the locks that
/// the process has on it.
fn create(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

fn draft_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}-{:08x}.new", std::process::id(), fastrand::u32(..)));
    name.into()
}

/// Moves the draft to where the store is to be, unless another process was first.
fn place(draft: &Path, path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, draft, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => return Ok(()),
        Err(rustix::io::Errno::EXIST) => return fs::remove_file(draft),
        // A file system that cannot move without replacing.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {}
        Err(cause) => return Err(cause.into()),
    }
    match fs::hard_link(draft, path) {
        Ok(()) => {}
        Err(exists) if exists.kind() == io::ErrorKind::AlreadyExists => {}
        Err(cause) => return Err(cause),
    }
    fs::remove_file(draft)
}

fn refuse_network(path: &Path) -> Result<(), StoreError> {
    // The folder may not be there yet: what counts is the file system it will be made on.
    let folder = path.ancestors().skip(1).find(|folder| folder.exists());
    match folder.and_then(network_kind) {
        Some(kind) => Err(StoreError::NetworkFileSystem { path: path.to_owned(), kind }),
        None => Ok(()),
    }
}

/// Returns the name of the network file system that `folder` lies on, if it does.
///
/// Refused is what several machines can mount at once. FUSE serves both kinds and is told apart by its subtype. 9p and
/// virtiofs stay allowed: they share a folder of the host with one guest (or are a sandbox's own root), and all
/// processes of that guest see one kernel's locks; halfopen on the host and in the guest must use two files.
fn network_kind(folder: &Path) -> Option<String> {
    let magic = rustix::fs::statfs(folder).ok()?.f_type;
    // `f_type` is a signed word on some machines: compare the low 32 bits, as the kernel's <linux/magic.h> lists them.
    kind_of_magic(magic as u32).map(str::to_owned).or_else(|| {
        let fuse = magic as u32 == FUSE;
        fuse.then(|| fs::canonicalize(folder).ok()).flatten().and_then(|folder| {
            let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
            network_fuse(&mounts, &folder)
        })
    })
}

const FUSE: u32 = 0x6573_5546;

/// Magic numbers of <linux/magic.h> and of the projects themselves (CephFS `ceph/super.h`, Lustre `lustre_user.h`,
/// IBM Spectrum Scale `gpfs.h`, OCFS2 `ocfs2_fs.h`, BeeGFS `Config.h`).
fn kind_of_magic(magic: u32) -> Option<&'static str> {
    match magic {
        0x6969 => Some("nfs"),
        0x517B => Some("smb"),
        0xFF53_4D42 => Some("cifs"),
        0xFE53_4D42 => Some("smb2"),
        0x5346_414F => Some("afs"),
        0x7375_7245 => Some("coda"),
        0x564C => Some("ncp"),
        0x00C3_6400 => Some("ceph"),
        0x0BD0_0BD0 => Some("lustre"),
        0x4750_4653 => Some("gpfs"),
        0x7461_636F => Some("ocfs2"),
        0x0116_1970 => Some("gfs2"),
        0x1983_0326 => Some("beegfs"),
        _ => None,
    }
}

/// Finds the mount that `folder` lies on and returns its type if that is FUSE over a network.
fn network_fuse(mountinfo: &str, folder: &Path) -> Option<String> {
    let kind = mountinfo
        .lines()
        .filter_map(|line| {
            // proc_pid_mountinfo(5): id parent device root MOUNTPOINT options … - TYPE source options.
            let (left, right) = line.split_once(" - ")?;
            let point = left.split(' ').nth(4)?.replace("\\040", " ");
            folder.starts_with(&point).then(|| (point.len(), right.split(' ').next().unwrap_or_default()))
        })
        // Later mounts lie over earlier ones at the same point; `max_by_key` keeps the last.
        .max_by_key(|(length, _)| *length)
        .map(|(_, kind)| kind)?;
    let subtype = kind.strip_prefix("fuse.")?;
    const NETWORK: [&str; 17] = [
        "sshfs",
        "rclone",
        "s3fs",
        "goofys",
        "mountpoint-s3",
        "gcsfuse",
        "blobfuse",
        "blobfuse2",
        "glusterfs",
        "ceph",
        "ceph-fuse",
        "davfs",
        "davfs2",
        "juicefs",
        "curlftpfs",
        "google-drive-ocamlfuse",
        "seaweedfs",
    ];
    (NETWORK.contains(&subtype) || subtype.starts_with("JuiceFS")).then(|| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use test_case::test_case;

    #[test]
    fn new_store_is_readable_for_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = prepare(&dir.path().join("a/b/h.db"), |_| Ok(())).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
    }

    #[test]
    fn who_comes_second_takes_the_file_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h.db");
        let second = |_: &Path| fs::write(&path, "first").map_err(|_| StoreError::NoHome);
        prepare(&path, second).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn store_in_the_place_of_a_folder_says_so() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let error = prepare(&dir.path().join("file/h.db"), |_| Ok(())).unwrap_err();
        assert!(matches!(error, StoreError::Unusable { .. }), "{error}");
    }

    #[test_case(0x6969, Some("nfs"))]
    #[test_case(0xFF53_4D42, Some("cifs"))]
    #[test_case(0xEF53, None; "ext4")]
    #[test_case(0x0102_1997, None; "9p")]
    fn file_systems_shared_by_machines_are_refused(magic: u32, kind: Option<&str>) {
        assert_eq!(kind_of_magic(magic), kind);
    }

    #[test_case("/mnt/far/x", Some("fuse.sshfs"))]
    #[test_case("/mnt/far", Some("fuse.sshfs"))]
    #[test_case("/mnt/near/x", None)]
    #[test_case("/mnt/with space/x", Some("fuse.rclone"))]
    #[test_case("/home", None)]
    fn fuse_is_refused_where_it_reaches_over_a_network(folder: &str, kind: Option<&str>) {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      40 22 0:50 / /mnt/far rw,nosuid - fuse.sshfs u@h:/ rw\n\
                      41 22 0:51 / /mnt/near rw - fuse.gocryptfs /c rw\n\
                      42 22 0:52 / /mnt/with\\040space rw - fuse.rclone r: rw\n";
        assert_eq!(network_fuse(mounts, Path::new(folder)).as_deref(), kind);
    }
}
