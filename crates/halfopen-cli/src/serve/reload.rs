//! Puts a changed policy file in force while calls go on, or leaves everything as it is.
//!
//! A reload builds the new policy whole, beside the old one, and then puts it in the old one's place at once: a file
//! with a mistake anywhere changes nothing anywhere. A dependency about which the new file says the same is carried over
//! as it is, with its connections, its partitions and its kept answers; circuits and counts are not part of a policy and
//! stay in any case. A call in flight holds the dependency it began with and ends under its rules, also if the new file
//! no longer names it.
//!
//! The file is looked at twice a second, by its metadata. Notification by the kernel was considered: it watches a name in a
//! folder, misses files that are mounted or linked into place (as container platforms do), and needs a second way for
//! network file systems. A change is taken only when two looks in a row see the same, so that a file in the middle of
//! being written is not read.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::gateway::{Gateway, StartError};
use crate::ui;

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often the policy was read again, and the file that was read last.
#[derive(Debug, Default)]
pub(super) struct Reloads {
    done: AtomicU64,
    refused: AtomicU64,
    /// Held while a policy is read and put in force, so that the last one to be read is the one in force.
    last: Mutex<Option<Stamp>>,
}

/// What a reload changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Dependencies that the old policy did not name.
    pub(super) added: Vec<String>,
    /// Those it says something else about.
    pub(super) changed: Vec<String>,
    /// Those it no longer names.
    pub(super) removed: Vec<String>,
    /// Whether the file names another store, which takes a restart.
    pub(super) store: bool,
}

/// What changes when a file does, or when another takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Returns that of the file at `path`, if there is one.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let file = std::fs::metadata(path).ok()?;
        Some(Self {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }
}

impl Reloads {
    /// Returns those of a gateway that has just read its file.
    pub(super) fn after(first: Option<Stamp>) -> Self {
        Self { last: Mutex::new(first), ..Self::default() }
    }

    /// Returns how many times a policy was put in force after the first.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Returns how many times a file could not be used and the old policy stayed.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Gateway {
    /// Reads the policy again, puts it in force or leaves everything as it is, and says which.
    pub(super) fn reload(&self) {
        let mut last = self.reloads.last.lock().unwrap_or_else(PoisonError::into_inner);
        // Before reading: what is written while we read is seen as one more change.
        *last = self.policy_path().and_then(Stamp::of);
        match self.read_again() {
            Ok(changes) => {
                self.reloads.done.fetch_add(1, Ordering::Relaxed);
                say(&changes);
            }
            Err(error) => {
                self.reloads.refused.fetch_add(1, Ordering::Relaxed);
                refuse(&error);
            }
        }
    }

    fn was_read(&self, stamp: Stamp) -> bool {
        *self.reloads.last.lock().unwrap_or_else(PoisonError::into_inner) == Some(stamp)
    }
}

/// Looks at the policy file for as long as it is polled, and reads it again when it changes.
pub(super) async fn watch(gateway: Arc<Gateway>) {
    let Some(path) = gateway.policy_path().map(Path::to_owned) else { return };
    let mut seen = None;
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (gateway, path) = (Arc::clone(&gateway), path.clone());
        // A file system that hangs must not take a thread that carries calls.
        let looked = tokio::task::spawn_blocking(move || {
            // A file that is gone is about to be replaced, or a mistake: the policy in force stays.
            let now = Stamp::of(&path);
            if now.is_some() && now == seen && !now.is_some_and(|now| gateway.was_read(now)) {
                gateway.reload();
            }
            now
        });
        seen = looked.await.unwrap_or_default();
    }
}

fn say(changes: &Changes) {
    if changes.store {
        ui::warn("the policy names another store now, which takes a restart; the old one is still used");
    }
    let parts = [("added", &changes.added), ("changed", &changes.changed), ("removed", &changes.removed)];
    let named: Vec<String> = parts
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what} {}", names.join(", ")))
        .collect();
    if named.is_empty() {
        ui::say("policy reloaded: no dependency changed");
    } else {
        ui::say(&format!("policy reloaded: {}", named.join("; ")));
    }
}

fn refuse(error: &StartError) {
    let text = format!("error: policy not reloaded, the old one stays in force: {error}");
    match error.hint() {
        Some(hint) => ui::say_with_hint(&text, hint),
        None => ui::say(&text),
    }
}
