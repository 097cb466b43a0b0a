//! Prepares the place of a store file: folders and modes, and the file systems on which it must not lie.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::super::StoreError;

/// The identity of a file, to tell it from one that took its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// Returns the identity of the file at `path`.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|file| Self { device: file.dev(), inode: file.ino() })
    }
}

/// Makes the folders (0700) and the file (0600) if they are absent, and refuses file systems on which SQLite's locks
/// do not hold. Returns the absolute path and the file's identity.
///
/// A new file is made under another name by `make` and moved into place whole, so that nobody ever sees a store
/// without a schema, and two hundred first processes do not queue for the right to make it. It is made with its mode
/// because SQLite would make it readable for everybody; `-wal` and `-shm` take over its mode. What exists keeps its
/// mode: it is its owner's business.
pub(super) fn prepare(
    path: &Path,
    make: impl FnOnce(&Path) -> Result<(), StoreError>,
) -> Result<(PathBuf, FileId), StoreError> {
    let unusable = |cause: io::Error| StoreError::Unusable { path: path.to_owned(), cause: cause.to_string() };
    // Also keeps SQLite from reading a name like `file:x?mode=memory` as a URI.
    let absolute = std::path::absolute(path).map_err(unusable)?;
    refuse_network(&absolute)?;
    match FileId::of(&absolute) {
        Ok(id) => return Ok((absolute, id)),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {}
        Err(cause) => return Err(unusable(cause)),
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
    placed?;
    FileId::of(&absolute).map(|id| (absolute, id)).map_err(unusable)
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
        let (path, _) = prepare(&dir.path().join("a/b/h.db"), |_| Ok(())).unwrap();
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
