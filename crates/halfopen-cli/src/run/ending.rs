//! Lists how a call can end, and why a failed attempt is not repeated.

use std::time::Duration;

use halfopen::activation::Figures;
use halfopen_core::outcome::Exit;
use halfopen_core::pair::Side;
use halfopen_core::permit::Refusal;
use halfopen_core::retry::GiveUp;
use halfopen_core::verdict::{Class, Verdict};
use rustix::process::Signal;

use super::child::sink::Stdout;
use super::child::source::Source;
use super::earlier::Earlier;

/// The last attempt, as far as it still matters.
#[derive(Debug)]
pub(super) struct Last {
    /// How the child ended.
    pub exit: Exit,
    /// What it meant.
    pub verdict: Verdict,
}

/// How a call ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// The last attempt stands.
    Judged {
        /// The attempt.
        last: Last,
        /// Its output.
        stdout: Stdout,
        /// Why it was not repeated, if it failed.
        gave_up: Option<Reason>,
    },
    /// We only watched.
    Observed {
        /// How the child ended.
        exit: Exit,
        /// Its output.
        stdout: Stdout,
        /// What it meant.
        verdict: Option<Verdict>,
    },
    /// The command could not be run.
    NotRun {
        /// Whether it was not found or not executable.
        exit: Exit,
    },
    /// The door refused, and waiting was not possible.
    Refused {
        /// Which circuit.
        side: Side,
        /// Why, and until when.
        refusal: Refusal,
        /// The last attempt of this call, if there was one.
        last: Option<Last>,
    },
    /// It was not begun, because an earlier job stands before it.
    Earlier(Earlier),
    /// A signal to us ended it.
    Cancelled {
        /// Which.
        signal: Signal,
        /// What the command had written.
        stdout: Option<Stdout>,
    },
    /// Whoever reads our output has gone, and the child went with it.
    ReaderGone,
    /// We could not run anything.
    Broken(std::io::Error),
}

/// Why a failed attempt was not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The core said so.
    Core(GiveUp),
    /// It failed twice in the very same way, known only by its text: a third time will be no different.
    SameAgain,
    /// Part of its output has been seen.
    OutputSeen,
    /// Its input cannot be given a second time.
    InputTooLong,
    /// The run around us repeats.
    Nested,
}

impl Reason {
    /// Returns the word used in reports.
    #[must_use]
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Core(GiveUp::AttemptsUsed) => "attempts_used",
            Self::Core(GiveUp::DoesNotHeal) => "does_not_heal",
            Self::Core(GiveUp::Forbidden) => "forbidden",
            Self::Core(GiveUp::WaitTooLong { .. }) => "wait_too_long",
            Self::Core(GiveUp::DeadlineTooNear) => "deadline_too_near",
            Self::Core(GiveUp::BudgetUsed) => "budget_used",
            Self::Core(GiveUp::UnknownEnd) => "unknown_end",
            Self::Core(GiveUp::WorkShown) => "work_shown",
            Self::SameAgain => "same_again",
            Self::OutputSeen => "output_seen",
            Self::InputTooLong => "input_too_long",
            Self::Nested => "nested",
        }
    }
}

/// What a call leaves behind.
pub(super) struct Done {
    /// How it ended.
    pub ending: Ending,
    /// Whether it has begun something in the tool's own session, which a beginning anew would do twice.
    pub goes_on: bool,
    /// Its input.
    pub source: Source,
    /// How often the command was run.
    pub attempts: u32,
    /// The whole call, waits included.
    pub elapsed: Duration,
    /// What the protection did.
    pub figures: Figures,
    /// First lines of failures that no rule knew.
    pub unclassified: Vec<String>,
    /// Where it is recorded.
    pub trace: Option<Box<super::trace::Trace>>,
}

impl Ending {
    /// Returns whether the call may be done later by somebody else: it was refused, or it gave up on a class that heals,
    /// with an end that is known and nothing of it seen.
    pub(super) fn may_be_kept(&self, at_terminal: bool) -> bool {
        match self {
            Self::Refused { .. } => true,
            Self::Judged { last, stdout, gave_up: Some(Reason::Core(why)) } => {
                let known = match why {
                    // That a second time is safe has been asked before these.
                    GiveUp::AttemptsUsed
                    | GiveUp::WaitTooLong { .. }
                    | GiveUp::DeadlineTooNear
                    | GiveUp::BudgetUsed => true,
                    GiveUp::DoesNotHeal | GiveUp::Forbidden | GiveUp::UnknownEnd | GiveUp::WorkShown => false,
                };
                known && last.verdict.class.heals() && (at_terminal || stdout.passed() == 0)
            }
            Self::Judged { .. }
            | Self::Earlier(_)
            | Self::Observed { .. }
            | Self::NotRun { .. }
            | Self::Cancelled { .. }
            | Self::ReaderGone
            | Self::Broken(_) => false,
        }
    }

    /// Returns whether the call's work was left undone because of the dependency.
    pub(super) fn is_degraded(&self) -> bool {
        match self {
            Self::Refused { .. } => true,
            Self::Judged { last, .. } => last.verdict.class.heals() || last.verdict.class == Class::QuotaExhausted,
            Self::Earlier(_)
            | Self::Observed { .. }
            | Self::NotRun { .. }
            | Self::Cancelled { .. }
            | Self::ReaderGone
            | Self::Broken(_) => false,
        }
    }
}
