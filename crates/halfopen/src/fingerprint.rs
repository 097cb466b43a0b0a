//! Gives a secret a name by which it can be told apart and not be found out.
//!
//! Circuits of a credential that the policy does not name, and the answers kept for one caller, need a name that is the
//! same after a restart. The secret itself must stand in no store, and a plain hash of it can be tried out by whoever
//! has the store and a list of keys. So the hash is keyed, with 32 random bytes in a file beside the store (mode 0600):
//! the names are worth nothing anywhere else, and whoever reads the store alone learns nothing from them.
//!
//! The key is not kept in the store itself because stores are copied, mailed and shown. A key that is lost costs
//! nothing but new names.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::store::Location;

/// What is put behind the name of a store's file.
const SUFFIX: &str = ".fingerprint-key";

/// The length of a key, in bytes.
const KEY_BYTES: usize = 32;

/// The length of a block of SHA-256, in bytes: a key that fills one is hashed once and for all.
const BLOCK_BYTES: usize = 64;

/// The length of a written fingerprint, in hexadecimal digits.
const DIGITS: usize = 12;

/// Makes fingerprints with one key.
#[derive(Clone)]
pub struct Fingerprints {
    /// The hash after the key.
    keyed: Sha256,
}

/// A name for a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 16]);

impl std::fmt::Debug for Fingerprints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fingerprints(***)")
    }
}

impl std::fmt::Display for Fingerprint {
    /// Writes the first 48 bits: enough to tell a few thousand keys apart, too little to check a guess against.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().take(DIGITS / 2).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Fingerprints {
    /// Returns those of the store at `location`, with the key that lies beside it; it is made if it is not there. A
    /// store in memory has a key of its own, gone with it.
    ///
    /// # Errors
    ///
    /// The key can neither be read nor made; [`Fingerprints::of_this_process`] does without.
    pub fn beside(location: &Location) -> io::Result<Self> {
        match location.path() {
            None => Ok(Self::of_this_process()),
            Some(store) => kept(&beside(store)).map(|key| Self::with(&key)),
        }
    }

    /// Returns those with a key that nobody keeps: the names change with every start.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self::with(&random())
    }

    fn with(key: &[u8; KEY_BYTES]) -> Self {
        let mut block = [0; BLOCK_BYTES];
        block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
        Self { keyed: Sha256::new().chain_update(block) }
    }

    /// Returns the name of a secret that consists of these parts. Parts are told apart: `["a", "b"]` is not `["ab"]`.
    #[must_use]
    pub fn of<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> Fingerprint {
        let mut hash = self.keyed.clone();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Fingerprint::cut(hash)
    }

    /// Returns the name of something long that comes in pieces, wherever it is cut.
    #[must_use]
    pub fn of_whole<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Fingerprint {
        let mut hash = self.keyed.clone();
        pieces.into_iter().for_each(|piece| hash.update(piece));
        Fingerprint::cut(hash)
    }
}

impl Fingerprint {
    fn cut(hash: Sha256) -> Self {
        let mut short = [0; 16];
        short.iter_mut().zip(hash.finalize()).for_each(|(to, from)| *to = from);
        Self(short)
    }

    /// Returns all of it, to make another one of.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn beside(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(SUFFIX);
    name.into()
}

/// Reads the key, or makes it. Of several processes that make it at once, all use that of the first.
fn kept(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    match read(path) {
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {}
        result => return result,
    }
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}-{:08x}.new", std::process::id(), fastrand::u32(..)));
    let draft = PathBuf::from(draft);
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).and_then(|mut file| {
        file.write_all(&random())?;
        file.sync_all()
    });
    // A link appears whole or not at all, and not over another.
    let placed = made.and_then(|()| match fs::hard_link(&draft, path) {
        Err(exists) if exists.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // A file system without hard links: the last one wins, and the others read it below.
        Err(_) => fs::rename(&draft, path),
        Ok(()) => Ok(()),
    });
    let _ = fs::remove_file(&draft);
    placed?;
    read(path)
}

fn read(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    File::open(path)?.read_exact(&mut key).map_err(|cause| match cause.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(
            cause.kind(),
            format!("{} is shorter than {KEY_BYTES} bytes; remove it and it is made anew", path.display()),
        ),
        _ => cause,
    })?;
    Ok(key)
}

fn random() -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    let drawn = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty());
    if drawn != Ok(KEY_BYTES) {
        // A kernel without the call, or one that is still gathering: the keys of hashers come from the same source.
        use std::hash::{BuildHasher, RandomState};
        for (n, chunk) in key.chunks_mut(8).enumerate() {
            let word = RandomState::new().hash_one(n).to_le_bytes();
            chunk.iter_mut().zip(word).for_each(|(to, from)| *to = from);
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn store_in(folder: &tempfile::TempDir) -> Location {
        Location::Sqlite(folder.path().join("h.db"))
    }

    /// S037
    #[test]
    fn a_secret_has_the_same_name_after_a_restart_and_another_one_beside_another_store() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let name = |folder| Fingerprints::beside(&store_in(folder)).unwrap().of([&b"sk-secret"[..]]);
        assert_eq!(name(&here), name(&here));
        assert_ne!(name(&here), name(&there));
        assert_ne!(name(&here), Fingerprints::beside(&Location::Memory).unwrap().of([&b"sk-secret"[..]]));
    }

    /// S037
    #[test]
    fn the_key_is_for_its_owner_only_and_nothing_else_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        Fingerprints::beside(&store_in(&folder)).unwrap();
        let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap()).collect();
        let names: Vec<_> = files.iter().map(|entry| entry.file_name().into_string().unwrap()).collect();
        assert_eq!(names, ["h.db.fingerprint-key"]);
        assert_eq!(files[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn processes_that_start_together_agree_on_a_key() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_in(&folder);
        let names: Vec<Fingerprint> = std::thread::scope(|scope| {
            let made: Vec<_> =
                (0..8).map(|_| scope.spawn(|| Fingerprints::beside(&store).unwrap().of([&b"k"[..]]))).collect();
            made.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
    }

    #[test]
    fn parts_are_told_apart_and_nothing_shows_the_key() {
        let names = Fingerprints::of_this_process();
        assert_ne!(names.of([&b"a"[..], b"b"]), names.of([&b"ab"[..]]));
        assert_ne!(names.of([&b""[..], b"a"]), names.of([&b"a"[..], b""]));
        assert_eq!(names.of([&b"a"[..]]).to_string().len(), DIGITS);
        assert_eq!(format!("{names:?}"), "Fingerprints(***)");
    }

    #[test]
    fn a_key_that_is_cut_short_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("h.db.fingerprint-key"), "short").unwrap();
        let error = Fingerprints::beside(&store_in(&folder)).unwrap_err().to_string();
        assert!(error.contains("shorter than 32 bytes"), "{error}");
    }
}
