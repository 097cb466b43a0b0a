//! Assigns every exit code of halfopen, in one place.
//!
//! A wrapper has two duties that collide: to be transparent (a child's code is the child's business) and to be clear
//! (a script must tell "try again later" from "broken"). So the final *class* decides first, and our own code is used
//! where the class heals by waiting, whatever the child said, and where the child said 0 although it failed. Everywhere
//! else the child's code stands.

use halfopen_core::outcome::Exit;
use halfopen_core::verdict::Class;

/// All is well.
pub const OK: u8 = 0;
/// A command found what it was asked to look for (`check --strict`, `report --check`).
pub const FOUND: u8 = 1;
/// Usage error (EX_USAGE of sysexits.h).
pub const USAGE: u8 = 64;
/// The call itself is wrong (EX_DATAERR).
pub const INVALID_REQUEST: u8 = 65;
/// Refused, and time alone does not heal it (EX_UNAVAILABLE).
pub const QUOTA_EXHAUSTED: u8 = 69;
/// Any other failure of a child that said 0 (EX_SOFTWARE).
pub const FAILED: u8 = 70;
/// The store or a file cannot be read or written (EX_IOERR).
pub const IO: u8 = 74;
/// Try again later (EX_TEMPFAIL).
pub const TRY_LATER: u8 = 75;
/// The credential was refused (EX_NOPERM).
pub const AUTH: u8 = 77;
/// The policy file cannot be used (EX_CONFIG).
pub const POLICY: u8 = 78;
/// Accepted and queued.
pub const QUEUED: u8 = 79;
/// Our timeout, as timeout(1).
pub const TIMED_OUT: u8 = 124;
/// The command cannot be run, as env(1).
pub const NOT_EXECUTABLE: u8 = 126;
/// The command was not found, as env(1).
pub const NOT_FOUND: u8 = 127;

/// How a `halfopen run` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Final {
    /// The last attempt was judged, and its verdict stands.
    Judged {
        /// Its class.
        class: Class,
        /// How the child ended.
        exit: Exit,
    },
    /// Only watched (`mode: observe`): nothing is mapped.
    Observed {
        /// How the child ended.
        exit: Exit,
    },
    /// The door refused, and waiting was not possible.
    Refused {
        /// Whether an end of the refusal is known.
        end_known: bool,
    },
    /// The call was accepted and is stored, to be done later or for a person.
    Queued,
    /// The call was refused and was to be stored, and the store cannot keep it.
    NotDurable,
    /// A signal to us ended the call.
    Cancelled {
        /// Which.
        signal: i32,
    },
    /// The command's output could not be handed on.
    OutputLost {
        /// Whether the reader had gone, as after `| head`.
        reader_gone: bool,
    },
    /// The policy file cannot be used.
    BadPolicy,
    /// Something on the command line makes no sense.
    BadUsage,
}

/// Who chose an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetBy {
    /// The wrapped command.
    Command,
    /// We.
    Halfopen,
    /// A signal.
    Signal,
}

impl SetBy {
    /// Returns the word used in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Halfopen => "halfopen",
            Self::Signal => "signal",
        }
    }
}

/// Returns the exit code of a run, and who chose it.
#[must_use]
pub fn code(end: Final) -> (u8, SetBy) {
    match end {
        Final::Judged { class, exit } => match class {
            Class::RateLimited | Class::Overloaded | Class::UsageLimit => match exit {
                Exit::Cancelled | Exit::NotFound | Exit::NotExecutable => own_unless_zero(exit, TRY_LATER),
                Exit::Code(_) | Exit::Signal(_) | Exit::TimedOut => (TRY_LATER, SetBy::Halfopen),
            },
            Class::Success => child(exit),
            Class::QuotaExhausted => own_unless_zero(exit, QUOTA_EXHAUSTED),
            Class::Auth => own_unless_zero(exit, AUTH),
            Class::InvalidRequest => own_unless_zero(exit, INVALID_REQUEST),
            Class::Timeout | Class::ConnectionFailure | Class::ServerError | Class::UnknownFailure => {
                own_unless_zero(exit, FAILED)
            }
        },
        Final::Observed { exit } => child(exit),
        Final::Refused { end_known: true } => (TRY_LATER, SetBy::Halfopen),
        Final::Refused { end_known: false } => (QUOTA_EXHAUSTED, SetBy::Halfopen),
        Final::Queued => (QUEUED, SetBy::Halfopen),
        Final::NotDurable => (IO, SetBy::Halfopen),
        Final::Cancelled { signal } => (signalled(signal), SetBy::Signal),
        Final::OutputLost { reader_gone: true } => (signalled(SIGPIPE), SetBy::Signal),
        Final::OutputLost { reader_gone: false } => (FAILED, SetBy::Halfopen),
        Final::BadPolicy => (POLICY, SetBy::Halfopen),
        Final::BadUsage => (USAGE, SetBy::Halfopen),
    }
}

/// SIGPIPE on every Unix we know.
const SIGPIPE: i32 = 13;

/// Returns the code that says that a child ended as it did.
fn child(exit: Exit) -> (u8, SetBy) {
    match exit {
        // Codes are 0–255 on every Unix; anything else would be a failure that must not look like 0.
        Exit::Code(code) => (u8::try_from(code).unwrap_or(FAILED), SetBy::Command),
        Exit::Signal(signal) => (signalled(signal), SetBy::Signal),
        Exit::TimedOut => (TIMED_OUT, SetBy::Halfopen),
        Exit::Cancelled => (signalled(2), SetBy::Signal),
        Exit::NotFound => (NOT_FOUND, SetBy::Halfopen),
        Exit::NotExecutable => (NOT_EXECUTABLE, SetBy::Halfopen),
    }
}

/// Returns `own` if the child claimed success, else what the child said.
fn own_unless_zero(exit: Exit, own: u8) -> (u8, SetBy) {
    match child(exit) {
        (0, _) => (own, SetBy::Halfopen),
        said => said,
    }
}

/// Returns 128 + n, as shells do.
fn signalled(signal: i32) -> u8 {
    u8::try_from(signal).ok().and_then(|n| 128_u8.checked_add(n)).unwrap_or(FAILED)
}

/// Returns whether the last attempt's output belongs on standard output: not if waiting heals the class, because the
/// caller is told to come back and must not take an error page for an answer.
#[must_use]
pub fn passes_output(class: Class) -> bool {
    match class {
        Class::RateLimited | Class::Overloaded | Class::UsageLimit => false,
        Class::Success
        | Class::Timeout
        | Class::ConnectionFailure
        | Class::ServerError
        | Class::QuotaExhausted
        | Class::Auth
        | Class::InvalidRequest
        | Class::UnknownFailure => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case(Class::Success, Exit::Code(0), 0)]
    #[test_case(Class::Success, Exit::Code(3), 3; "a child whose 3 is no failure keeps it")]
    #[test_case(Class::RateLimited, Exit::Code(0), 75)]
    #[test_case(Class::RateLimited, Exit::Code(1), 75)]
    #[test_case(Class::Overloaded, Exit::Code(22), 75)]
    #[test_case(Class::UsageLimit, Exit::Code(1), 75)]
    #[test_case(Class::UsageLimit, Exit::TimedOut, 75)]
    #[test_case(Class::QuotaExhausted, Exit::Code(0), 69)]
    #[test_case(Class::QuotaExhausted, Exit::Code(1), 1)]
    #[test_case(Class::Auth, Exit::Code(0), 77)]
    #[test_case(Class::Auth, Exit::Code(22), 22)]
    #[test_case(Class::InvalidRequest, Exit::Code(0), 65)]
    #[test_case(Class::InvalidRequest, Exit::Code(1), 1)]
    #[test_case(Class::ServerError, Exit::Code(0), 70)]
    #[test_case(Class::ServerError, Exit::Code(6), 6)]
    #[test_case(Class::UnknownFailure, Exit::Code(3), 3; "S020 three stays three")]
    #[test_case(Class::UnknownFailure, Exit::Signal(15), 143; "S020 a signal is never a success")]
    #[test_case(Class::UnknownFailure, Exit::Signal(9), 137)]
    #[test_case(Class::UnknownFailure, Exit::Signal(11), 139)]
    #[test_case(Class::Timeout, Exit::TimedOut, 124)]
    #[test_case(Class::UnknownFailure, Exit::NotFound, 127)]
    #[test_case(Class::UnknownFailure, Exit::NotExecutable, 126)]
    fn the_final_class_decides(class: Class, exit: Exit, expected: u8) {
        assert_eq!(code(Final::Judged { class, exit }).0, expected);
    }

    #[test]
    fn our_own_noes_have_their_codes() {
        assert_eq!(code(Final::Refused { end_known: true }), (75, SetBy::Halfopen));
        assert_eq!(code(Final::Refused { end_known: false }), (69, SetBy::Halfopen));
        assert_eq!(code(Final::Queued), (79, SetBy::Halfopen));
        assert_eq!(code(Final::NotDurable), (74, SetBy::Halfopen));
        assert_eq!(code(Final::Cancelled { signal: 2 }), (130, SetBy::Signal));
        assert_eq!(code(Final::OutputLost { reader_gone: true }).0, 141);
        assert_eq!(code(Final::OutputLost { reader_gone: false }).0, 70);
        assert_eq!(code(Final::BadPolicy).0, 78);
        assert_eq!(code(Final::BadUsage).0, 64);
    }

    #[test]
    fn no_failure_ends_with_zero() {
        let exits = [
            Exit::Code(0),
            Exit::Code(1),
            Exit::Code(-1),
            Exit::Code(256),
            Exit::Signal(1),
            Exit::Signal(64),
            Exit::Signal(200),
            Exit::TimedOut,
            Exit::Cancelled,
            Exit::NotFound,
            Exit::NotExecutable,
        ];
        for class in Class::ALL.into_iter().filter(|class| *class != Class::Success) {
            for exit in exits {
                assert_ne!(code(Final::Judged { class, exit }).0, 0, "{class} {exit:?}");
            }
        }
    }
}
