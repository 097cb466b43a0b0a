//! Writes down how a run ended, for scripts: `--report FILE`, and `--json` on standard error.
//!
//! One JSON object, the same in both places. It answers what an exit code cannot: who set the code, what it was about,
//! when to come back. Keys are only ever added.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use halfopen_core::circuit::LastFailure;
use halfopen_core::verdict::Verdict;
use serde::Serialize;

/// The form of the report.
const FORM: u32 = 1;

/// How a run ended.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    /// The form of this report; first, so that a line of it can be told.
    pub halfopen: u32,
    /// The dependency.
    pub dependency: String,
    /// The circuit that decided, as the command line takes it.
    pub circuit: String,
    /// What the call ended with: `success`, a class, or what the last known failure of the circuit was.
    pub class: Option<String>,
    /// What kept the call from being done, if it was not its own outcome: `circuit_open`, `throttled`, `cancelled`, …
    pub error: Option<String>,
    /// Our exit code.
    pub exit_code: u8,
    /// Who set it: `command`, `halfopen` or `signal`.
    pub set_by: &'static str,
    /// What the command itself said last; null if it never ended by itself.
    pub command_code: Option<i32>,
    /// When it can be tried again, in UTC.
    pub retry_at: Option<String>,
    /// The same in milliseconds since the unix epoch.
    pub retry_at_ms: Option<i64>,
    /// How often the command was run.
    pub attempts: u32,
    /// Why it was not run again.
    pub gave_up: Option<&'static str>,
    /// The tool's own session, if its output named one: in it the work can be continued by hand.
    pub session: Option<String>,
    /// The whole call, waits included, in seconds.
    pub elapsed_s: f64,
    /// The rule that judged the last attempt.
    pub rule: Option<String>,
    /// What that rule saw.
    pub evidence: Option<Evidence>,
    /// The last real failure behind a refusal.
    pub last_failure: Option<Failure>,
    /// What the policy wants the caller to be told (`on_open.user_message`), if the call was not done.
    pub user_message: Option<String>,
    /// The job that will do it later.
    pub job_id: Option<String>,
    /// The state of that job: `queued`, or `manual_review`.
    pub job_state: Option<&'static str>,
    /// When that job's time to live ends, in UTC.
    pub job_expires_at: Option<String>,
    /// Why the call was not queued, if it was to be.
    pub not_queued: Option<&'static str>,
}

/// What a rule saw, secrets replaced.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Evidence {
    /// What kind of fact.
    pub kind: &'static str,
    /// Where it stood.
    pub place: String,
    /// What stood there.
    pub excerpt: String,
}

/// A failure that the circuit remembers.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Failure {
    /// When, in milliseconds of the steady clock.
    pub at_ms: i64,
    /// Its class.
    pub class: String,
    /// The rule that spoke.
    pub rule: String,
    /// Where the evidence stood.
    pub place: String,
    /// The evidence.
    pub excerpt: String,
}

impl Report {
    /// Returns a report in which nothing has happened yet.
    #[must_use]
    pub(super) fn new(dependency: &str, circuit: &str) -> Self {
        Self {
            halfopen: FORM,
            dependency: dependency.to_owned(),
            circuit: circuit.to_owned(),
            class: None,
            error: None,
            exit_code: 0,
            set_by: "halfopen",
            command_code: None,
            retry_at: None,
            retry_at_ms: None,
            attempts: 0,
            gave_up: None,
            session: None,
            elapsed_s: 0.0,
            rule: None,
            evidence: None,
            last_failure: None,
            user_message: None,
            job_id: None,
            job_state: None,
            job_expires_at: None,
            not_queued: None,
        }
    }

    /// Returns it as one line.
    #[must_use]
    pub(super) fn line(&self) -> String {
        let mut line = serde_json::to_string(self).unwrap_or_else(|_| "{}".to_owned());
        line.push('\n');
        line
    }

    /// Writes it to a file that is there whole or not at all.
    ///
    /// # Errors
    ///
    /// If the file cannot be written; a device or a pipe is written as it is.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let line = self.line();
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return fs::OpenOptions::new().write(true).open(path)?.write_all(line.as_bytes());
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
        let beside = folder.join(format!(".{name}.{:016x}", fastrand::u64(..)));
        let written = fs::write(&beside, line).and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written
    }
}

impl Evidence {
    /// Returns what a verdict rests on; `None` if it rests on nothing.
    #[must_use]
    pub(super) fn of(verdict: &Verdict) -> Option<Self> {
        let evidence = &verdict.evidence;
        (!evidence.excerpt.is_empty() || !evidence.place.is_empty()).then(|| Self {
            kind: evidence.kind.as_str(),
            place: evidence.place.clone(),
            excerpt: evidence.excerpt.clone(),
        })
    }
}

impl Failure {
    /// Returns a failure as a circuit remembers it.
    #[must_use]
    pub(super) fn remembered(last: &LastFailure) -> Self {
        Self {
            at_ms: last.at.as_millis(),
            class: last.class.to_string(),
            rule: last.rule.clone(),
            place: last.place.clone(),
            excerpt: last.excerpt.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_there_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        let mut report = Report::new("ocr", "ocr@credential=main");
        report.write(&path).unwrap();
        report.exit_code = 75;
        report.write(&path).unwrap();
        let read: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(read["exit_code"], 75);
        assert_eq!(read["circuit"], "ocr@credential=main");
        assert_eq!(read["job_id"], serde_json::Value::Null);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_report_into_a_device_or_nowhere() {
        let report = Report::new("ocr", "ocr");
        report.write(Path::new("/dev/null")).unwrap();
        assert!(report.write(Path::new("/nowhere/report.json")).is_err());
    }

    #[test]
    fn a_line_of_a_report_can_be_told_by_its_beginning() {
        assert!(Report::new("ocr", "ocr").line().starts_with("{\"halfopen\":1,"));
    }
}
