//! Proves that the protection is wired: one line per dependency at the end of every run, also when all figures are 0.
//!
//! A breaker that never trips and a breaker that was never asked look the same from outside. So every run leaves one
//! line of JSON in `activation.jsonl` beside the store, whether anything happened or not, and `halfopen report` adds
//! the lines up: a dependency with calls and no failures is quiet, one without lines is not wired.
//!
//! Stores in one folder share the file, and each line names its store: what is added up is that of one store. It is told by the
//! name of its file, because the folder is the same and has many spellings. A file for each store was refused: whoever
//! watches the lines of a machine follows one name, and a folder with two stores is rare.
//!
//! A line is one `write(2)` on a file opened for appending, so two hundred processes at once neither mix nor lose
//! lines, without a lock. Past [`FILE_BYTES_MAX`] the file becomes `activation.1.jsonl`, and an older one of that name
//! is dropped; the lock that this takes is never waited for. The store itself was considered as the place and refused:
//! the figures must arrive even when the store is the thing that is broken.
//!
//! Nothing here may fail a run: every error is returned for the caller to mention, or not.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use halfopen_core::snapshot::EventRecord;
use serde::{Deserialize, Serialize};

use crate::store::Location;

/// Past this many bytes the file is put aside. About thirty thousand runs.
pub const FILE_BYTES_MAX: u64 = 8 << 20;
/// Unclassified lines kept of one run, and characters kept of each.
const UNCLASSIFIED_LINES_MAX: usize = 5;
const UNCLASSIFIED_CHARS_MAX: usize = 240;
/// So many stores created anew in a row are no accident.
const ANEW_MAX: usize = 3;
/// How much of the end of the file is looked at for that: first the last lines, which nearly always settle it, because
/// every run does this.
const TAIL_BYTES: [u64; 2] = [1 << 10, 16 << 10];
/// Begins every line; a cut line is told from the one behind it by this.
const BEGIN: &str = "{\"v\":1,";

const NAME: &str = "activation.jsonl";
const NAME_BEFORE: &str = "activation.1.jsonl";

/// What the protection of one dependency did in one run, or in many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// Calls that were guarded.
    pub calls: u64,
    /// Attempts that were rate-limited.
    pub rate_limited: u64,
    /// Attempts that met an overloaded dependency.
    pub overloaded: u64,
    /// Stated waits that were read.
    pub hints_read: u64,
    /// Waits that were slept.
    pub waits: u64,
    /// Breakers that this run opened.
    pub opened: u64,
    /// Attempts that the door refused.
    pub refused: u64,
    /// Calls that ended without their work done.
    pub degraded: u64,
    /// Attempts that were probes.
    pub probes: u64,
    /// Calls that were queued.
    pub queued: u64,
    /// Jobs that were drained.
    pub drained: u64,
    /// Jobs that expired.
    pub expired: u64,
    /// Failed attempts that no rule knew.
    pub unclassified: u64,
    /// Failed attempts in all, known or not; tells whether any failure was known.
    pub failed: u64,
}

impl Figures {
    /// Adds other figures to these.
    pub fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.calls, other.calls),
            (&mut self.rate_limited, other.rate_limited),
            (&mut self.overloaded, other.overloaded),
            (&mut self.hints_read, other.hints_read),
            (&mut self.waits, other.waits),
            (&mut self.opened, other.opened),
            (&mut self.refused, other.refused),
            (&mut self.degraded, other.degraded),
            (&mut self.probes, other.probes),
            (&mut self.queued, other.queued),
            (&mut self.drained, other.drained),
            (&mut self.expired, other.expired),
            (&mut self.unclassified, other.unclassified),
            (&mut self.failed, other.failed),
        ];
        for (sum, more) in pairs {
            *sum = sum.saturating_add(more);
        }
    }

    /// Returns the figures that are reported, in the order of the documentation, with their names.
    #[must_use]
    pub const fn named(&self) -> [(&'static str, u64); 13] {
        [
            ("calls", self.calls),
            ("rate_limited", self.rate_limited),
            ("overloaded", self.overloaded),
            ("hints_read", self.hints_read),
            ("waits", self.waits),
            ("opened", self.opened),
            ("refused", self.refused),
            ("degraded", self.degraded),
            ("probes", self.probes),
            ("queued", self.queued),
            ("drained", self.drained),
            ("expired", self.expired),
            ("unclassified", self.unclassified),
        ]
    }
}

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The form of the line.
    v: u32,
    /// When the run ended, in milliseconds since the unix epoch.
    pub at_ms: i64,
    /// The dependency.
    pub dependency: String,
    /// Where circuits were kept.
    pub store: String,
    /// When that store was created, in milliseconds since the unix epoch, if the file system knows.
    #[serde(default)]
    pub store_born_ms: Option<i64>,
    /// How old the store was, in seconds.
    #[serde(default)]
    pub store_age_sec: Option<i64>,
    /// What the protection did.
    #[serde(flatten)]
    pub figures: Figures,
    /// The first lines of failures that no rule knew, secrets replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unclassified_lines: Vec<String>,
}

/// What a line says about its store, for who looks at nothing else.
#[derive(Deserialize)]
struct Birth<'a> {
    #[serde(borrow)]
    store: Cow<'a, str>,
    #[serde(default)]
    store_born_ms: Option<i64>,
}

/// What was noticed while a line was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Whether this and the runs before it each found a store created anew, so that nothing is remembered.
    pub store_anew: bool,
}

/// Why there is no line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActivationError {
    /// The file cannot be opened, written or read.
    #[error("activation file {path} cannot be used: {cause}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The file is far beyond its bound, because it cannot be put aside.
    #[error("activation file {path} is full: it has {bytes} bytes and cannot be renamed", path = path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
}

/// Returns where the lines of a store stand; `None` for a store in memory, which has no beside.
#[must_use]
pub fn file_of(store: &Location) -> Option<PathBuf> {
    match store {
        Location::Memory => None,
        Location::Sqlite(path) => Some(path.with_file_name(NAME)),
    }
}

/// Appends the line of one run. `unclassified_lines` must be redacted already.
///
/// # Errors
///
/// [`ActivationError`]; the run goes on.
pub fn record(
    store: &Location,
    dependency: &str,
    figures: &Figures,
    unclassified_lines: &[String],
    at_ms: i64,
) -> Result<Recorded, ActivationError> {
    let Some(path) = file_of(store) else { return Ok(Recorded::default()) };
    let store_born_ms = born_ms(store);
    let entry = Entry {
        v: 1,
        at_ms,
        dependency: dependency.to_owned(),
        store: named(store),
        store_born_ms,
        store_age_sec: store_born_ms.map(|born| at_ms.saturating_sub(born).max(0) / 1000),
        figures: *figures,
        unclassified_lines: unclassified_lines
            .iter()
            .take(UNCLASSIFIED_LINES_MAX)
            .map(|line| shortened(line))
            .collect(),
    };
    let mut line = serde_json::to_string(&entry).unwrap_or_default();
    line.push('\n');
    let io = |cause| ActivationError::Io { path: path.clone(), cause };
    let (mut file, bytes) = open(&path).map_err(io)?;
    if bytes > 2 * FILE_BYTES_MAX {
        return Err(ActivationError::Full { path, bytes });
    }
    let store_anew = store_born_ms.is_some() && all_born_apart(&file, bytes, &entry.store, store_born_ms);
    // One write: what another process appends lands before or behind it, never in it.
    let written = file.write(line.as_bytes()).map_err(io)?;
    if written < line.len() {
        return Err(io(io::ErrorKind::WriteZero.into()));
    }
    Ok(Recorded { store_anew })
}

/// Appends a line for each dependency whose jobs a sweep let expire, to be counted; `records` is what the sweep told the
/// journal. Costs nothing where nothing expired.
///
/// # Errors
///
/// As [`record`].
pub fn record_expired(store: &Location, records: &[EventRecord], at_ms: i64) -> Result<(), ActivationError> {
    for (dependency, expired) in expired_of(records) {
        let _ = record(store, dependency, &Figures { expired, ..Figures::default() }, &[], at_ms)?;
    }
    Ok(())
}

/// Returns how many jobs of each dependency went past their time to live, wherever that led them.
#[must_use]
pub fn expired_of<'a>(records: impl IntoIterator<Item = &'a EventRecord>) -> BTreeMap<&'a str, u64> {
    let mut expired = BTreeMap::new();
    for record in records {
        let over = matches!(record.reason.as_deref(), Some("ttl_over" | "hint_beyond_ttl"));
        if over && matches!(record.event.as_str(), "jobs_expired" | "jobs_to_review") {
            let jobs = record.details.get("jobs").and_then(serde_json::Value::as_u64).unwrap_or(1);
            *expired.entry(record.dependency.as_str()).or_default() += jobs;
        }
    }
    expired
}

/// Opens the file for appending and says how large it is; a file past its bound is put aside before.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let append = || OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path);
    let file = match append() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().unwrap_or(path);
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            append()?
        }
        other => other?,
    };
    let bytes = file.metadata()?.len();
    if bytes <= FILE_BYTES_MAX || !put_aside(&file, path) {
        return Ok((file, bytes));
    }
    let file = append()?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

/// Renames the file if it is still the one at `path`; returns whether `path` is now free or new.
///
/// Only who holds the lock of the file that stands at `path` may rename it, and it is looked at again under that lock.
/// So of two hundred processes that find it too large, one renames it, and nobody renames the small one behind it.
fn put_aside(file: &File, path: &Path) -> bool {
    if file.try_lock().is_err() {
        // Somebody is at it; this line still fits.
        return false;
    }
    let current = match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(there)) => same(&ours, &there),
        (_, Err(error)) => return error.kind() == io::ErrorKind::NotFound,
        (Err(_), Ok(_)) => return false,
    };
    !current || fs::rename(path, path.with_file_name(NAME_BEFORE)).is_ok()
}

/// Returns whether two names are of one file.
fn same(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    a.ino() == b.ino() && a.dev() == b.dev()
}

/// Returns whether each of the last runs found the store created anew, so that nothing is remembered: a container
/// without a volume, a folder that is cleaned.
#[must_use]
pub fn created_anew(store: &Location) -> bool {
    let file = file_of(store).and_then(|path| File::open(path).ok());
    file.is_some_and(|file| {
        let bytes = file.metadata().map_or(0, |there| there.len());
        all_born_apart(&file, bytes, &named(store), None)
    })
}

/// Returns whether the last [`ANEW_MAX`] births of this store all differ: that of `now`, if it is given, and those in
/// the last lines.
fn all_born_apart(file: &File, bytes: u64, store: &str, now: Option<i64>) -> bool {
    TAIL_BYTES.iter().find_map(|tail| born_apart_within(file, bytes, *tail, store, now)).unwrap_or(false)
}

/// Returns the same from no more than the last `tail` bytes; `None` if they hold too few births to tell.
fn born_apart_within(file: &File, bytes: u64, tail: u64, store: &str, now: Option<i64>) -> Option<bool> {
    let mut buffer = vec![0; usize::try_from(tail.min(bytes)).ok()?];
    file.read_exact_at(&mut buffer, bytes.saturating_sub(tail)).ok()?;
    let mut births: Vec<i64> = now.into_iter().collect();
    for line in buffer.rsplit(|byte| *byte == b'\n') {
        let Some(birth) = std::str::from_utf8(line).ok().and_then(whole::<Birth<'_>>) else { continue };
        if birth.store != store {
            continue;
        }
        let Some(born) = birth.store_born_ms else { return Some(false) };
        if births.contains(&born) {
            return Some(false);
        }
        births.push(born);
        if births.len() == ANEW_MAX {
            return Some(true);
        }
    }
    None
}

/// Returns when the store's file was created.
#[must_use]
pub fn born_ms(store: &Location) -> Option<i64> {
    match store {
        Location::Memory => None,
        Location::Sqlite(path) => {
            let born: SystemTime = fs::metadata(path).ok()?.created().ok()?;
            i64::try_from(born.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
        }
    }
}

/// Returns how a store is written on the command line.
#[must_use]
pub fn named(store: &Location) -> String {
    match store {
        Location::Memory => "memory".to_owned(),
        Location::Sqlite(path) => format!("sqlite:{}", path.display()),
    }
}

fn shortened(line: &str) -> String {
    line.chars().filter(|c| !c.is_control()).take(UNCLASSIFIED_CHARS_MAX).collect()
}

/// Reads one line; of a line that was cut and run into by the next, the next.
fn whole<'a, T: Deserialize<'a>>(line: &'a str) -> Option<T> {
    let begin = line.rfind(BEGIN)?;
    serde_json::from_str(line.get(begin..)?).ok()
}

/// Calls that one line noted as kept off their dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptOff {
    /// When the line was written, in milliseconds of the wall clock.
    pub at_ms: i64,
    /// How many were refused.
    pub refused: u64,
    /// How many were queued.
    pub queued: u64,
}

/// What was read of a dependency's lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many runs left a line.
    pub runs: u64,
    /// Their figures, added up.
    pub figures: Figures,
    /// The figures of the earlier and the later half of the time that was asked for.
    pub halves: [Figures; 2],
    /// When how many calls ended, in the order of the lines.
    pub calls_at_ms: Vec<(i64, u64)>,
    /// When how many calls were refused and how many queued, in the order of the lines that noted some.
    pub kept_off: Vec<KeptOff>,
    /// When the first of them ended.
    pub first_at_ms: Option<i64>,
    /// When the last of them ended that made a call.
    pub last_call_at_ms: Option<i64>,
    /// First lines of failures that no rule knew, and how often each was seen.
    pub unclassified_lines: BTreeMap<String, u64>,
}

impl Summary {
    /// Returns the largest number of calls that ended within any `window_ms`.
    #[must_use]
    pub fn busiest(&self, window_ms: i64) -> u64 {
        let mut calls = self.calls_at_ms.clone();
        calls.sort_unstable();
        let (mut most, mut sum, mut first) = (0, 0_u64, 0);
        for (at, n) in &calls {
            sum = sum.saturating_add(*n);
            while let Some((_, m)) = calls.get(first).filter(|(old, _)| at.saturating_sub(*old) > window_ms) {
                sum = sum.saturating_sub(*m);
                first += 1;
            }
            most = most.max(sum);
        }
        most
    }
}

/// What was read of all lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// By dependency.
    pub dependencies: BTreeMap<String, Summary>,
    /// Lines that could not be read: cut by a full disk, or nobody's.
    pub unreadable: u64,
}

/// How many different unclassified lines of one dependency a report holds.
const LINES_HELD_MAX: usize = 100;

/// Returns whether a line that names its store so is one of the store at `path`, beside which it stands.
fn is_of(named: &str, path: &Path) -> bool {
    let there = named.strip_prefix("sqlite:").unwrap_or(named);
    Path::new(there).file_name() == path.file_name()
}

/// Adds up the lines of a store since `since_ms`, as of `now_ms`. A file that does not exist has no lines.
///
/// # Errors
///
/// [`ActivationError::Io`] if a file exists and cannot be read.
pub fn read(store: &Location, since_ms: i64, now_ms: i64) -> Result<Report, ActivationError> {
    let mut report = Report::default();
    let (Some(path), Location::Sqlite(own)) = (file_of(store), store) else { return Ok(report) };
    let middle = since_ms.saturating_add(now_ms.saturating_sub(since_ms) / 2);
    let opened = |path: PathBuf| match File::open(&path) {
        Ok(file) => Ok(Some((path, file))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(ActivationError::Io { path, cause }),
    };
    // The newer file first: if it is put aside in between, it is met again under its other name, and not missed.
    let newer = opened(path.clone())?;
    let older = opened(path.with_file_name(NAME_BEFORE))?.filter(|(_, older)| {
        !newer
            .as_ref()
            .is_some_and(|(_, newer)| matches!((newer.metadata(), older.metadata()), (Ok(a), Ok(b)) if same(&a, &b)))
    });
    for (path, file) in older.into_iter().chain(newer) {
        let io = |cause| ActivationError::Io { path: path.clone(), cause };
        let mut lines = BufReader::new(file.take(4 * FILE_BYTES_MAX));
        let mut line = Vec::new();
        loop {
            line.clear();
            if lines.read_until(b'\n', &mut line).map_err(io)? == 0 {
                break;
            }
            match whole::<Entry>(&String::from_utf8_lossy(&line)) {
                Some(entry) if entry.at_ms >= since_ms && is_of(&entry.store, own) => report.take_in(entry, middle),
                Some(_) => {}
                None if line.iter().all(u8::is_ascii_whitespace) => {}
                None => report.unreadable += 1,
            }
        }
    }
    Ok(report)
}

impl Report {
    fn take_in(&mut self, entry: Entry, middle_ms: i64) {
        let summary = self.dependencies.entry(entry.dependency).or_default();
        summary.runs += 1;
        summary.figures.add(&entry.figures);
        let [earlier, later] = &mut summary.halves;
        if entry.at_ms < middle_ms { earlier } else { later }.add(&entry.figures);
        summary.first_at_ms = Some(summary.first_at_ms.map_or(entry.at_ms, |first| first.min(entry.at_ms)));
        if entry.figures.calls > 0 {
            summary.last_call_at_ms = summary.last_call_at_ms.max(Some(entry.at_ms));
            summary.calls_at_ms.push((entry.at_ms, entry.figures.calls));
        }
        let Figures { refused, queued, .. } = entry.figures;
        if refused > 0 || queued > 0 {
            summary.kept_off.push(KeptOff { at_ms: entry.at_ms, refused, queued });
        }
        for line in entry.unclassified_lines {
            let known =
                summary.unclassified_lines.len() < LINES_HELD_MAX || summary.unclassified_lines.contains_key(&line);
            if known {
                *summary.unclassified_lines.entry(line).or_default() += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn store() -> (tempfile::TempDir, Location) {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("state").join("halfopen.db");
        fs::create_dir(dir.path().join("state")).expect("a folder");
        fs::write(&path, b"").expect("a store");
        (dir, Location::Sqlite(path))
    }

    fn file(store: &Location) -> PathBuf {
        file_of(store).expect("a place")
    }

    #[test]
    fn a_run_without_any_event_leaves_a_line_of_zeros() {
        let (_dir, store) = store();
        record(&store, "ocr", &Figures::default(), &[], 5_000).expect("recorded");
        let report = read(&store, 0, 10_000).expect("read");
        let summary = &report.dependencies["ocr"];
        assert_eq!((summary.runs, summary.figures), (1, Figures::default()));
        let text = fs::read_to_string(file(&store)).expect("text");
        for (name, _) in Figures::default().named() {
            assert!(text.contains(&format!("\"{name}\":0")), "{name} in {text}");
        }
        assert!(text.contains("\"store\":\"sqlite:/"), "{text}");
        assert!(text.contains("\"store_age_sec\":"), "{text}");
        assert_eq!(fs::metadata(file(&store)).expect("there").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn lines_are_added_up_since_an_instant() {
        let (_dir, store) = store();
        for at in [1_000, 2_000, 9_000] {
            let refused = u64::from(at == 9_000);
            let figures = Figures { calls: 1, unclassified: 1, failed: 1, refused, ..Figures::default() };
            record(&store, "ocr", &figures, &["boom\u{1b}[31m".to_owned()], at).expect("recorded");
        }
        record(&store, "crm", &Figures::default(), &[], 3_000).expect("recorded");
        let report = read(&store, 2_000, 10_000).expect("read");
        let ocr = &report.dependencies["ocr"];
        assert_eq!((ocr.figures.calls, ocr.halves[0].calls, ocr.halves[1].calls), (2, 1, 1));
        assert_eq!((ocr.first_at_ms, ocr.last_call_at_ms), (Some(2_000), Some(9_000)));
        assert_eq!(ocr.kept_off, [KeptOff { at_ms: 9_000, refused: 1, queued: 0 }]);
        assert_eq!(ocr.unclassified_lines, BTreeMap::from([("boom[31m".to_owned(), 2)]));
        assert_eq!(report.dependencies["crm"].last_call_at_ms, None);
    }

    #[test]
    fn stores_in_one_folder_do_not_mix_their_figures() {
        let (dir, store) = store();
        let other = Location::Sqlite(dir.path().join("state").join("other.db"));
        assert_eq!(file(&store), file(&other));
        let calls = |calls| Figures { calls, ..Figures::default() };
        record(&store, "ocr", &calls(3), &[], 1_000).expect("recorded");
        record(&other, "crm", &calls(5), &[], 2_000).expect("recorded");
        // As an earlier version wrote it, by another spelling of the same folder.
        let old =
            format!("{BEGIN}\"at_ms\":3000,\"dependency\":\"ocr\",\"store\":\"sqlite:halfopen.db\",\"calls\":4}}\n");
        OpenOptions::new()
            .append(true)
            .open(file(&store))
            .and_then(|mut file| file.write_all(old.as_bytes()))
            .expect("a line");
        let sums = |store: &Location| -> Vec<(String, u64)> {
            let report = read(store, 0, 10_000).expect("read");
            assert_eq!(report.unreadable, 0);
            report.dependencies.into_iter().map(|(name, summary)| (name, summary.figures.calls)).collect()
        };
        assert_eq!(sums(&store), [("ocr".to_owned(), 7)]);
        assert_eq!(sums(&other), [("crm".to_owned(), 5)]);
    }

    #[test]
    fn the_busiest_window_is_found_in_any_order_of_lines() {
        let summary =
            Summary { calls_at_ms: vec![(100, 1), (0, 2), (250, 1), (300, 4), (50, 1)], ..Summary::default() };
        assert_eq!(summary.busiest(60), 5);
        assert_eq!(summary.busiest(100), 5);
        assert_eq!(summary.busiest(10), 4);
        assert_eq!(summary.busiest(1_000), 9);
        assert_eq!(Summary::default().busiest(1_000), 0);
    }

    #[test]
    fn a_cut_line_costs_nothing_but_itself() {
        let (_dir, store) = store();
        record(&store, "a", &Figures::default(), &[], 1).expect("recorded");
        let whole = fs::read_to_string(file(&store)).expect("text");
        let cut = &whole[..whole.len() / 2];
        fs::write(file(&store), format!("{cut}{whole}garbage\n\n\u{0}\n{whole}{cut}")).expect("written");
        let report = read(&store, 0, 10).expect("read");
        assert_eq!(report.dependencies["a"].runs, 2);
        assert_eq!(report.unreadable, 3);
    }

    #[test]
    fn no_file_is_no_line_and_a_store_in_memory_has_none() {
        let (_dir, store) = store();
        assert_eq!(read(&store, 0, 10).expect("read"), Report::default());
        assert_eq!(record(&Location::Memory, "a", &Figures::default(), &[], 1).expect("nothing"), Recorded::default());
    }

    #[test]
    fn a_file_past_its_bound_is_put_aside_once_and_no_line_is_lost() {
        let (_dir, store) = store();
        let filler = format!("{}\n", "x".repeat(1023)).repeat(8 << 10);
        fs::write(file(&store), filler + "\n").expect("written");
        std::thread::scope(|scope| {
            for n in 0..50 {
                let store = store.clone();
                scope.spawn(move || record(&store, "a", &Figures { calls: 1, ..Figures::default() }, &[], n));
            }
        });
        let report = read(&store, 0, 100).expect("read");
        assert_eq!(report.dependencies["a"].runs, 50);
        assert!(file(&store).with_file_name(NAME_BEFORE).exists());
        assert!(fs::metadata(file(&store)).expect("there").len() < FILE_BYTES_MAX);
        assert!(report.unreadable >= 8 << 10);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_an_error_and_no_panic() {
        let store = Location::Sqlite(PathBuf::from("/proc/self/nowhere/halfopen.db"));
        assert!(record(&store, "a", &Figures::default(), &[], 1).is_err());
        let (dir, _) = self::store();
        fs::create_dir(dir.path().join(NAME)).expect("a folder in the way");
        let store = Location::Sqlite(dir.path().join("halfopen.db"));
        assert!(record(&store, "a", &Figures::default(), &[], 1).is_err());
    }

    #[test]
    fn a_store_created_anew_three_times_in_a_row_is_noticed() {
        let (_dir, store) = store();
        let Location::Sqlite(path) = &store else { panic!("a file") };
        let mut noticed = Vec::new();
        for at in 0..3 {
            // A new file, told apart from the one before by its time of birth.
            let before = born_ms(&store);
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
            while born_ms(&store) == before && std::time::Instant::now() < deadline {
                fs::remove_file(path).expect("removed");
                fs::write(path, b"").expect("created");
            }
            noticed.push(record(&store, "a", &Figures::default(), &[], at).expect("recorded").store_anew);
            noticed.push(record(&store, "a", &Figures::default(), &[], at).expect("recorded").store_anew);
        }
        // Two runs on one store are proof that it lasts.
        assert_eq!(noticed, [false; 6]);
        fs::remove_file(file(&store)).expect("removed");
        let name = named(&store);
        let lines: String = [(1, 11), (2, 22)]
            .map(|(at, born)| {
                format!("{BEGIN}\"at_ms\":{at},\"dependency\":\"a\",\"store\":\"{name}\",\"store_born_ms\":{born}}}\n")
            })
            .concat();
        fs::write(file(&store), lines).expect("written");
        assert!(!created_anew(&store));
        assert!(record(&store, "a", &Figures::default(), &[], 3).expect("recorded").store_anew);
        assert!(created_anew(&store));
        assert!(!record(&store, "a", &Figures::default(), &[], 4).expect("recorded").store_anew);
    }
}
