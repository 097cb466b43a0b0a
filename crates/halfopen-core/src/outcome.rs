//! Holds the facts of one finished attempt: what was seen, before anybody judges it.
//!
//! Facts only. What they mean is [`crate::verdict`]; how they are found out is the edge's work. Outputs and bodies may
//! be of any size, so an outcome carries [`Excerpt`]s: the head and the tail, and how much lies between.

use std::time::Duration;

/// How far an attempt got. This, not the class, decides whether it may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reached {
    /// Nothing left this machine: connection refused, name not found, command not started.
    NotSent,
    /// It was sent, and neither an answer nor a proof of the opposite came back. It may have been executed.
    Unknown,
    /// The dependency refused it before doing anything: a rate limit, an overload answer, a rejected credential.
    Refused,
    /// It was sent and answered; what the answer says was done, was done.
    Answered,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited by itself with this code (0–255).
    Code(i32),
    /// A signal that was not ours ended it.
    Signal(i32),
    /// Our timeout ended it.
    TimedOut,
    /// The caller went away (Ctrl-C, SIGTERM to the wrapper) and it was ended with it.
    Cancelled,
    /// The executable was not found (as 127).
    NotFound,
    /// The executable could not be run (as 126).
    NotExecutable,
}

/// The head and the tail of a text of any size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Excerpt<'a> {
    /// The first bytes.
    pub head: &'a [u8],
    /// The last bytes; empty if `head` is all there is. Never overlaps `head`.
    pub tail: &'a [u8],
    /// How many bytes between head and tail are not here.
    pub omitted_bytes: u64,
}

impl<'a> Excerpt<'a> {
    /// Returns the excerpt that holds a whole text.
    #[must_use]
    pub const fn whole(text: &'a [u8]) -> Self {
        Self { head: text, tail: &[], omitted_bytes: 0 }
    }

    /// Returns the full length of the text in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.head.len() as u64 + self.omitted_bytes + self.tail.len() as u64
    }

    /// Returns whether the text has no byte at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The facts of a finished command.
#[derive(Clone, Copy, Debug)]
pub struct CommandOutcome<'a> {
    /// How it ended.
    pub exit: Exit,
    /// What it wrote to standard output.
    pub stdout: Excerpt<'a>,
    /// What it wrote to standard error.
    pub stderr: Excerpt<'a>,
    /// How long it ran.
    pub elapsed: Duration,
}

/// The facts of an HTTP exchange.
#[derive(Clone, Copy, Debug)]
pub struct HttpOutcome<'a> {
    /// The request's method, upper case.
    pub method: &'a str,
    /// The status, or 0 if no answer came; then `body` is the transport error's text.
    pub status: u16,
    /// The answer's headers in the order of arrival; names in any case, repeated names repeated.
    pub headers: &'a [(&'a str, &'a str)],
    /// The answer's body, decoded.
    pub body: Excerpt<'a>,
    /// How far the attempt got, as the transport knows it.
    pub reached: Reached,
    /// How long it took.
    pub elapsed: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_as_long_as_the_text_it_is_of() {
        let cut = Excerpt { head: b"abc", tail: b"yz", omitted_bytes: 40 };
        assert_eq!(cut.len(), 45);
        assert!(!cut.is_empty());
        assert!(Excerpt::whole(b"").is_empty());
        assert!(!Excerpt { omitted_bytes: 1, ..Excerpt::default() }.is_empty());
    }
}
