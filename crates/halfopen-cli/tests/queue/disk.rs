//! A disk that a test can fill: a small file system of its own, or, where none may be mounted, a limit on files.
//!
//! The limit stands in for it: every write of the gateway fails as well, but as one that is too large, so that the reason
//! told is another.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::world::{Gateway, Starting};

/// How large it is, in MiB.
const MIB: u32 = 4;

/// A gateway with its store on a disk of its own. The disk goes first when both are dropped: it lies in the gateway's home.
#[derive(Debug)]
pub(crate) struct OnDisk {
    disk: Disk,
    pub(crate) gateway: Gateway,
}

/// The disk.
#[derive(Debug)]
struct Disk {
    folder: PathBuf,
    mounted: bool,
}

impl OnDisk {
    pub(crate) fn start(policy: &str) -> Self {
        let starting = Starting::new(policy);
        let folder = starting.path("disk");
        fs::create_dir(&folder).unwrap();
        let options = format!("size={MIB}m,mode=0700");
        let mounted = is_done(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&folder));
        let disk = Disk { folder, mounted };
        let store = disk.store();
        let starting = starting.variable("HALFOPEN_STORE", store.to_str().unwrap()).outlives_file_limits();
        Self { disk, gateway: starting.start() }
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.disk.store()
    }

    /// Whether it is a disk, so that what is told about it is what is told about one that is full.
    pub(crate) fn is_one(&self) -> bool {
        self.disk.mounted
    }

    /// Leaves no byte free.
    pub(crate) fn fill(&self) {
        if !self.disk.mounted {
            return self.gateway.limit_files(Some(1));
        }
        let mut filler = File::create(self.disk.folder.join("filler")).unwrap();
        for length in [1 << 20, 4096, 1] {
            while filler.write_all(&vec![b'x'; length]).is_ok() {}
        }
    }

    /// Makes room again.
    pub(crate) fn free(&self) {
        if self.disk.mounted {
            fs::remove_file(self.disk.folder.join("filler")).unwrap();
        } else {
            self.gateway.limit_files(None);
        }
    }
}

impl Disk {
    fn store(&self) -> PathBuf {
        self.folder.join("halfopen.db")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            is_done(Command::new("umount").arg("-l").arg(Path::new(&self.folder)));
        }
    }
}

fn is_done(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
