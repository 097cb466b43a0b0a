//! Lists why a store cannot do what was asked.

use std::path::PathBuf;
use std::time::Duration;

use halfopen_core::snapshot::SnapshotError;

/// Why a store cannot do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The word names no store.
    #[error("store `{word}` cannot be used: {cause}")]
    BadLocation {
        /// What was written.
        word: String,
        /// Why it is no store.
        cause: &'static str,
    },
    /// PostgreSQL was asked for.
    #[error("a PostgreSQL store is not in this version; name a local file (a path, or sqlite:PATH)")]
    NoPostgres,
    /// SQLite was asked for, and this build has none.
    #[error("this build has no SQLite store (its feature `sqlite` is off)")]
    NoSqlite,
    /// There is no default place.
    #[error(
        "there is no place for the store: neither XDG_STATE_HOME nor HOME is an absolute path; name a file with --store or HALFOPEN_STORE"
    )]
    NoHome,
    /// The file lies on a network file system, where locks and shared memory between machines do not hold.
    #[error("store {} lies on a network file system ({kind}), where SQLite's locks cannot be trusted; name a file on a local disk with --store or HALFOPEN_STORE", path.display())]
    NetworkFileSystem {
        /// The file.
        path: PathBuf,
        /// The file system.
        kind: String,
    },
    /// A newer version of halfopen wrote it.
    #[error("store {} has schema {found}, this version reads up to {known}; use the newer halfopen, or another file", path.display())]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema this version knows.
        known: i64,
    },
    /// The file is damaged, or no store at all. It is left as it is.
    #[error("store {} is damaged ({cause}); it was left as it is: move it aside with its -wal and -shm to begin anew", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        cause: String,
    },
    /// One circuit in it cannot be read.
    #[error("circuit {id} cannot be read")]
    Circuit {
        /// Its name.
        id: String,
        /// Why.
        #[source]
        cause: SnapshotError,
    },
    /// One job in it cannot be read.
    #[error("job {id} cannot be read")]
    Job {
        /// Its name.
        id: String,
        /// Why.
        #[source]
        cause: SnapshotError,
    },
    /// The file, or its log, was removed or replaced while it was in use.
    #[error(
        "store {} was replaced while it was in use; put the one that was opened back, or start anew to use the one that is \
         there",
        path.display()
    )]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// The file was removed while this process used it. It makes no new one in its place: a volume that is not mounted
    /// for a moment would otherwise hide what was accepted meanwhile.
    #[error("store {} is gone{}; put it back, or start anew to begin an empty one", path.display(), beside(left))]
    Gone {
        /// The file.
        path: PathBuf,
        /// Files of it that are still there.
        left: Vec<PathBuf>,
    },
    /// The file is not there, and files that belong to it are: a new one would take over what stands in them.
    #[error(
        "store {} is not there, but {} of an earlier one still is; put the store back, or move that aside as well to begin anew",
        path.display(),
        listed(left)
    )]
    LeftOvers {
        /// The file.
        path: PathBuf,
        /// What is left of an earlier one.
        left: Vec<PathBuf>,
    },
    /// Another file stands in its place, and the log beside it belongs to the one before.
    #[error(
        "store {} was replaced while {} still belongs to the one before, and would be written into it; end every halfopen that uses it, move that aside, and start again",
        path.display(),
        log.display()
    )]
    ForeignLog {
        /// The file.
        path: PathBuf,
        /// The log.
        log: PathBuf,
    },
    /// It can be read but not written.
    #[error("store {} cannot be written: {cause}", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        cause: String,
    },
    /// The disk is full.
    #[error("store {} cannot be written: the disk is full ({cause})", path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        cause: String,
    },
    /// Other processes held it all the time.
    #[error("store {} is busy: other processes held it for {} ms", path.display(), waited.as_millis())]
    Busy {
        /// The file.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// It was found to be unusable before, and still is.
    #[error("{0}")]
    Lost(String),
    /// It cannot be reached or read.
    #[error("store {} cannot be used: {cause}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: String,
    },
}

impl StoreError {
    /// Returns whether the location is impossible by design, so that trying again cannot help and going on without a
    /// store would hide a mistake.
    #[must_use]
    pub fn is_by_design(&self) -> bool {
        match self {
            Self::BadLocation { .. }
            | Self::NoPostgres
            | Self::NoSqlite
            | Self::NoHome
            | Self::NetworkFileSystem { .. }
            | Self::NewerSchema { .. } => true,
            Self::Corrupt { .. }
            | Self::Circuit { .. }
            | Self::Job { .. }
            | Self::Replaced { .. }
            | Self::Gone { .. }
            | Self::LeftOvers { .. }
            | Self::ForeignLog { .. }
            | Self::ReadOnly { .. }
            | Self::Full { .. }
            | Self::Busy { .. }
            | Self::Lost(_)
            | Self::Unusable { .. } => false,
        }
    }

    /// Returns whether it is certain that nothing of a change reached the file, so that what was prepared for it may go.
    pub(crate) fn is_certain(&self) -> bool {
        match self {
            Self::BadLocation { .. }
            | Self::NoPostgres
            | Self::NoSqlite
            | Self::NoHome
            | Self::NetworkFileSystem { .. }
            | Self::NewerSchema { .. }
            | Self::Replaced { .. }
            | Self::Gone { .. }
            | Self::LeftOvers { .. }
            | Self::ForeignLog { .. }
            | Self::ReadOnly { .. }
            | Self::Full { .. }
            | Self::Busy { .. } => true,
            Self::Corrupt { .. } | Self::Circuit { .. } | Self::Job { .. } | Self::Lost(_) | Self::Unusable { .. } => {
                false
            }
        }
    }

    /// Returns the same error for another caller: of the same batch, or of a store that failed before.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::ReadOnly { path, cause } => Self::ReadOnly { path: path.clone(), cause: cause.clone() },
            Self::Full { path, cause } => Self::Full { path: path.clone(), cause: cause.clone() },
            Self::Busy { path, waited } => Self::Busy { path: path.clone(), waited: *waited },
            Self::Replaced { path } => Self::Replaced { path: path.clone() },
            Self::Gone { path, left } => Self::Gone { path: path.clone(), left: left.clone() },
            Self::LeftOvers { path, left } => Self::LeftOvers { path: path.clone(), left: left.clone() },
            Self::ForeignLog { path, log } => Self::ForeignLog { path: path.clone(), log: log.clone() },
            Self::Corrupt { path, cause } => Self::Corrupt { path: path.clone(), cause: cause.clone() },
            Self::Unusable { path, cause } => Self::Unusable { path: path.clone(), cause: cause.clone() },
            Self::BadLocation { .. }
            | Self::NoPostgres
            | Self::NoSqlite
            | Self::NoHome
            | Self::NetworkFileSystem { .. }
            | Self::NewerSchema { .. }
            | Self::Circuit { .. }
            | Self::Job { .. }
            | Self::Lost(_) => Self::Lost(self.to_string()),
        }
    }
}

fn listed(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" and ")
}

fn beside(left: &[PathBuf]) -> String {
    if left.is_empty() { String::new() } else { format!(", and {} of it is still there", listed(left)) }
}
