//! A home of its own for each drill.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The block of the documentation, exactly as it must work.
pub(crate) const DOCUMENT_OCR: &str = "\
dependency_guard:
  name: document-ocr
  timeout_ms: 8000
  retry:
    max_attempts: 2
    backoff: exponential
    jitter: true
    honor_retry_after: true
  circuit:
    failure_window_sec: 60
    open_after_failures: 5
    open_for_sec: 120
    half_open_max_calls: 2
    close_after_successes: 2
  on_open:
    action: queue
    queue_ttl_min: 30
    user_message: processing_delayed
    alert_owner: platform-oncall
";

/// A home with nothing in it.
pub(crate) struct World {
    home: tempfile::TempDir,
}

/// What a drill said.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }

    /// The rows as name, verdict, what was expected and what was seen.
    pub(crate) fn rows(&self) -> Vec<(String, String, String)> {
        let text = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap().to_owned();
        let rows = self.json()["rows"].as_array().unwrap().clone();
        rows.iter().map(|row| (text(row, "row"), text(row, "verdict"), text(row, "seen"))).collect()
    }

    /// The names of the rows with this verdict.
    pub(crate) fn with(&self, verdict: &str) -> Vec<String> {
        self.rows().into_iter().filter(|(_, is, _)| is == verdict).map(|(row, _, _)| row).collect()
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Writes a program that can be called by its name.
    pub(crate) fn script(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.write(&format!("bin/{name}"), text);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Returns whether `check` accepts a policy, and what it doubts.
    pub(crate) fn checked(&self, policy: &str) -> (bool, String) {
        let file = self.write("policy.yaml", policy).display().to_string();
        let said = self.halfopen("check", &["--policy", &file]);
        (said.code == Some(0), said.out + &said.err)
    }

    /// Drills in a cleared environment, in a folder without a policy.
    pub(crate) fn drill(&self, words: &[&str]) -> Said {
        self.halfopen("drill", words)
    }

    /// Returns a command of ours in a cleared environment, in a folder without a policy of its own.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let built = Path::new(env!("CARGO_BIN_EXE_halfopen")).parent().unwrap();
        let path = format!("{}:{}:/usr/bin:/bin", self.path("bin").display(), built.display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_halfopen"));
        command
            .args(words)
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", path)
            .env("TZ", "UTC")
            .current_dir(self.home.path())
            .stdin(Stdio::null());
        command
    }

    fn halfopen(&self, command: &str, words: &[&str]) -> Said {
        let words: Vec<&str> = [command].into_iter().chain(words.iter().copied()).collect();
        let output = self.command(&words).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Drills a policy with that text.
    pub(crate) fn drill_policy(&self, policy: &str, words: &[&str]) -> Said {
        let file = self.write("policy.yaml", policy).display().to_string();
        let words: Vec<&str> = ["--policy", &file].into_iter().chain(words.iter().copied()).collect();
        self.drill(&words)
    }
}

/// The examples of the repository.
pub(crate) fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join("examples")
}
