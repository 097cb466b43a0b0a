//! A home of its own for each test, and circuits to look at.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use halfopen::activation::{self, Figures};
use halfopen::handle::{Handle, Route};
use halfopen::store::Location;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::outcome::Reached;
use halfopen_core::pair::Answer;
use halfopen_core::permit::Ask;
use halfopen_core::policy::{Policy, Surface};
use halfopen_core::verdict::{Class, Evidence, EvidenceKind, Hint, HintSource, Scope, Verdict};

/// A home with nothing in it.
pub(crate) struct World {
    home: tempfile::TempDir,
}

/// What a command said.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
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

    /// The command with a cleared environment.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_halfopen"));
        command
            .args(words)
            .env_clear()
            .env("HOME", self.home.path())
            .env("USER", "marie")
            .env("TZ", "UTC")
            .current_dir(self.home.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn halfopen(&self, words: &[&str]) -> Said {
        Self::said(&mut self.command(words))
    }

    pub(crate) fn said(command: &mut Command) -> Said {
        let output = command.output().unwrap();
        Said {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(crate) fn store(&self) -> Location {
        Location::Sqlite(self.path(".local/state/halfopen/halfopen.db"))
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle::open(&self.store()).unwrap()
    }

    /// Lets `times` calls to a circuit end with `class`, and with a stated wait if there is one.
    pub(crate) fn calls(&self, circuit: &str, class: Class, wait: Option<Duration>, times: u32) {
        let handle = self.handle();
        let id: CircuitId = circuit.parse().unwrap();
        let policy = Policy::built_in(id.dependency(), Surface::Run);
        let route = Route { place: id, account: None };
        for _ in 0..times {
            let Answer::Granted(pass) = handle.admit(&route, &policy, Ask::Fresh) else { panic!("refused") };
            let now = handle.clock().now();
            let verdict = Verdict {
                hint: wait.map(|wait| Hint {
                    until: now + wait,
                    wait,
                    source: HintSource::RetryAfter,
                    scope: Scope::Whole,
                }),
                evidence: Evidence {
                    kind: EvidenceKind::Text,
                    place: "stderr, last line".to_owned(),
                    excerpt: "it said no".to_owned(),
                },
                ..Verdict::plain(class, "test/rule", Reached::Answered)
            };
            handle.settle(&route, &policy, pass, &verdict);
        }
    }

    /// Leaves an activation line of a run that ended `ago`.
    pub(crate) fn ran(&self, dependency: &str, figures: &Figures, lines: &[&str], ago: Duration) {
        drop(self.handle());
        let now =
            i64::try_from(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis())
                .unwrap();
        let at = now - i64::try_from(ago.as_millis()).unwrap();
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        activation::record(&self.store(), dependency, figures, &lines, at).unwrap();
    }
}
