//! Turns an outcome into a verdict by rules that are data.

pub mod raw;

use crate::outcome::{CommandOutcome, Excerpt, Exit, HttpOutcome};
use crate::time::ReadAt;
use crate::verdict::Verdict;
use std::time::Duration;

/// What a pack says beside its rules.
#[derive(Clone, Debug, PartialEq)]
pub struct PackDefaults {
    /// How long one attempt may take.
    pub timeout: Duration,
    /// Whether a failed attempt had effects: `false` means it may always be run again.
    pub failed_attempts_have_effects: bool,
    /// How an interrupted run goes on in its session, if the tool can.
    pub resume: Option<Resume>,
    /// Whether exit code 0 can carry an error, so that the output of a success must be looked at.
    pub success_may_lie: bool,
}

/// How an interrupted run goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// Arguments that make the first attempt use a session we choose, with `{session}` in them; empty if the tool
    /// names its session itself.
    pub open_with: Vec<String>,
    /// The arguments that go on, with `{session}` in them; they replace the command's own prompt arguments.
    pub go_on_with: Vec<String>,
}

/// A rule pack with the rules of the policy before it and those of `generic` behind it.
#[derive(Debug)]
pub struct Classifier {
    profile: String,
}

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// No such pack.
    #[error("unknown profile `{name}`; known are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is, with commas between.
        known: String,
    },
    /// An own rule cannot be used.
    #[error("rule `{rule}` cannot be used: {cause}")]
    Rule {
        /// Its name.
        rule: String,
        /// Why.
        cause: String,
    },
}

/// A verdict with the way that led to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The verdict.
    pub verdict: Verdict,
    /// Rules that also matched but were overruled, and rules of which a part matched: `pack/rule` and why not.
    pub nearly: Vec<(String, String)>,
}

/// Returns the names of the embedded packs, sorted.
#[must_use]
pub fn profiles() -> Vec<&'static str> {
    unimplemented!()
}

/// Returns the pack for a command, by its base name; `generic` if none fits.
#[must_use]
pub fn profile_for_command(_base_name: &str) -> &'static str {
    unimplemented!()
}

/// Returns the pack for a host; `generic` if none fits.
#[must_use]
pub fn profile_for_host(_host: &str) -> &'static str {
    unimplemented!()
}

impl Classifier {
    /// Returns the classifier of `profile`, with `own` rules tried before the pack's. Nothing is compiled until an
    /// outcome needs it.
    ///
    /// # Errors
    ///
    /// [`ProfileError`] if there is no such pack or an own rule cannot be used.
    pub fn new(_profile: &str, _own: Vec<raw::RawRule>) -> Result<Self, ProfileError> {
        unimplemented!()
    }

    /// Returns the pack's name.
    #[must_use]
    pub fn profile(&self) -> &str {
        &self.profile
    }

    /// Returns what the pack says beside its rules.
    #[must_use]
    pub fn defaults(&self) -> &PackDefaults {
        unimplemented!()
    }

    /// Judges a finished command.
    #[must_use]
    pub fn command(&self, _outcome: &CommandOutcome<'_>, _at: &ReadAt) -> Verdict {
        unimplemented!()
    }

    /// Judges a finished HTTP exchange.
    #[must_use]
    pub fn http(&self, _outcome: &HttpOutcome<'_>, _at: &ReadAt) -> Verdict {
        unimplemented!()
    }

    /// Judges a finished command and says what else was considered.
    #[must_use]
    pub fn explain_command(&self, _outcome: &CommandOutcome<'_>, _at: &ReadAt) -> Explanation {
        unimplemented!()
    }

    /// Judges a finished HTTP exchange and says what else was considered.
    #[must_use]
    pub fn explain_http(&self, _outcome: &HttpOutcome<'_>, _at: &ReadAt) -> Explanation {
        unimplemented!()
    }

    /// Returns an ear for a running command: it is given all output and keeps a bounded part.
    #[must_use]
    pub fn listen(&self) -> Ear<'_> {
        unimplemented!()
    }
}

/// Listens to a running command with bounded memory and judges it at its end.
#[derive(Debug)]
pub struct Ear<'a> {
    classifier: &'a Classifier,
}

/// What has been heard so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// A line that is an error of the tool itself.
    pub error_line: bool,
    /// A turn or a tool use.
    pub work: bool,
    /// An event that shows that the dependency answers.
    pub answering: bool,
}

impl Ear<'_> {
    /// Takes in a piece of standard output, cut anywhere.
    pub fn stdout(&mut self, _piece: &[u8]) {
        unimplemented!()
    }

    /// Takes in a piece of standard error, cut anywhere.
    pub fn stderr(&mut self, _piece: &[u8]) {
        unimplemented!()
    }

    /// Returns what has been heard so far.
    #[must_use]
    pub fn heard(&self) -> Heard {
        let _ = (self.classifier, Excerpt::whole(b""));
        unimplemented!()
    }

    /// Judges the command now that it ended.
    #[must_use]
    pub fn finish(self, _exit: Exit, _elapsed: Duration, _at: &ReadAt) -> Verdict {
        unimplemented!()
    }
}
