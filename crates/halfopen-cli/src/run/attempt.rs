//! Makes one attempt: runs the child with an ear on it, keeps its lease, settles what it turned out to be.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use halfopen::clock::Clock;
use halfopen_core::classify::{Classifier, Ear, PackDefaults};
use halfopen_core::outcome::Exit;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::ReadAt;
use halfopen_core::verdict::{Class, Verdict};
use rustix::process::Signal;

use super::child::signals::Signals;
use super::child::sink::{Lost, Stdout};
use super::child::source::Source;
use super::child::{self, Ended, Listener, Spec};
use super::guard::Guard;
use super::nested::{Inner, InnerEar};

/// An agent that has run so long without an error line shows that the dependency answers (DESIGN.md section 7).
const EARLY_AFTER: Duration = Duration::from_secs(60);
/// A pack that allows an attempt this long is an agent's.
const AGENT_TIMEOUT: Duration = Duration::from_secs(3600);
/// How often a probe that may be judged early is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How much of standard error is kept to tell a crash.
const STDERR_HEAD_MAX: usize = 8 << 10;
/// How a line begins that only a crashing program prints: Python, Rust, Go, Node, Java, the C library, a shell.
const CRASHES: [&str; 8] = [
    "Traceback (most recent call last)",
    "thread '",
    "panic: ",
    "goroutine ",
    "at Object.",
    "Exception in thread ",
    "terminate called",
    "Segmentation fault",
];

/// What one attempt came to.
#[derive(Debug)]
pub(super) struct Attempted {
    /// How the child ended.
    pub exit: Exit,
    /// What it means, if it was judged.
    pub judged: Option<Verdict>,
    /// The signal to us that ended it.
    pub cancelled_by: Option<Signal>,
    /// Whether whoever reads our standard output had gone.
    pub reader_gone: bool,
    /// Its standard output, and what has become of it.
    pub stdout: Stdout,
    /// Whether standard output went to a person's terminal.
    pub to_terminal: bool,
    /// How long it ran.
    pub took: Duration,
    /// Whether the breaker waited for its verdict.
    pub was_probe: bool,
    /// Whether standard error begins like a crash of the command itself.
    pub crashed: bool,
    /// What settling it changed.
    pub events: Vec<EventRecord>,
}

/// Makes one attempt.
///
/// # Errors
///
/// If we cannot run anything at all: no pipes, no memory. The guard then gives the pass back.
pub(super) fn make(
    spec: &Spec<'_>,
    classifier: &Classifier,
    clock: &Clock,
    guard: Guard<'_>,
    source: &mut Source,
    signals: &mut Signals,
) -> std::io::Result<Attempted> {
    let was_probe = guard.is_probe();
    let mut hearing = Hearing::new(classifier, guard);
    let ended = child::run(spec, source, signals, &mut hearing)?;
    Ok(hearing.settle(ended, clock, was_probe))
}

/// Runs a command only to see whether it succeeds, while the pass of `guard` is kept alive.
///
/// # Errors
///
/// As [`make`].
pub(super) fn cheaply(
    spec: &Spec<'_>,
    guard: &Guard<'_>,
    signals: &mut Signals,
) -> std::io::Result<(Exit, Option<Signal>)> {
    struct Deaf<'a, 'b>(&'a Guard<'b>);
    impl Listener for Deaf<'_, '_> {
        fn stdout(&mut self, _piece: &[u8]) {}
        fn stderr(&mut self, _piece: &[u8]) {}
        fn tick(&mut self) -> Option<Instant> {
            self.0.renew();
            self.0.renew_every().map(|every| Instant::now() + every)
        }
    }
    let ended = child::run(spec, &mut Source::empty(), signals, &mut Deaf(guard))?;
    Ok((ended.exit, ended.cancelled_by))
}

/// Hears one child, and keeps its pass alive.
#[derive(Debug)]
struct Hearing<'a> {
    ear: Ear<'a>,
    inner: InnerEar,
    /// How standard error begins.
    stderr_head: Vec<u8>,
    guard: Guard<'a>,
    /// Whether a success can be seen before the end, and is worth looking for.
    early: Early,
    started: Instant,
    renew_at: Option<Instant>,
    events: Vec<EventRecord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Early {
    /// Nobody waits for this verdict.
    NotNeeded,
    /// The first good event judges it.
    ByEvent,
    /// That, or a good minute.
    ByEventOrTime,
}

impl<'a> Hearing<'a> {
    fn new(classifier: &'a Classifier, guard: Guard<'a>) -> Self {
        let early = match (guard.is_probe(), is_agent(classifier.defaults())) {
            (false, _) => Early::NotNeeded,
            (true, false) => Early::ByEvent,
            (true, true) => Early::ByEventOrTime,
        };
        let started = Instant::now();
        let renew_at = guard.renew_every().map(|every| started + every);
        Self {
            ear: classifier.listen(),
            inner: InnerEar::default(),
            stderr_head: Vec::new(),
            guard,
            early,
            started,
            renew_at,
            events: Vec::new(),
        }
    }

    /// Judges a probe before its end, if what was heard shows that the dependency answers.
    fn look(&mut self) {
        if self.early == Early::NotNeeded {
            return;
        }
        let heard = self.ear.heard();
        let long = self.early == Early::ByEventOrTime && self.started.elapsed() >= EARLY_AFTER;
        if !heard.error_line && (heard.answering || long) {
            self.events.extend(self.guard.settle_early());
            self.early = Early::NotNeeded;
            self.renew_at = None;
        }
    }

    /// Settles the attempt that ended.
    fn settle(mut self, ended: Ended, clock: &Clock, was_probe: bool) -> Attempted {
        let reader_gone = ended.stdout.lost() == Some(Lost::ReaderGone) && ended.exit != Exit::Code(0);
        // Whoever goes away, and a command that is not there, say nothing about the dependency: the guard gives the
        // pass back.
        let judge = match ended.exit {
            Exit::Cancelled | Exit::NotFound | Exit::NotExecutable => false,
            Exit::Code(_) | Exit::Signal(_) | Exit::TimedOut => !reader_gone,
        };
        let inner = self.inner.found().cloned();
        let mut judged = None;
        if judge {
            let at = reading(clock, &self.ear, ended.exit);
            let mut verdict = self.ear.finish(ended.exit, ended.elapsed, &at);
            if let Some(inner) = inner.filter(|_| ended.exit != Exit::Code(0)) {
                take_over(&mut verdict, &inner, &at);
            } else {
                self.events.extend(self.guard.settle(&verdict));
            }
            judged = Some(verdict);
        }
        let judged_failure = judged.as_ref().is_some_and(|verdict: &Verdict| verdict.class != Class::Success);
        Attempted {
            exit: ended.exit,
            judged,
            cancelled_by: ended.cancelled_by,
            reader_gone,
            stdout: ended.stdout,
            to_terminal: ended.to_terminal,
            took: ended.elapsed,
            was_probe,
            crashed: judged_failure && is_crash(&self.stderr_head),
            events: self.events,
        }
    }
}

/// Returns the clocks for reading an outcome. The local zone is looked up only where a clock time may have been printed:
/// it costs as much as all the rest of a run that went well.
pub(super) fn reading(clock: &Clock, ear: &Ear<'_>, exit: Exit) -> ReadAt {
    if exit == Exit::Code(0) && !ear.heard().error_line { ReadAt::utc(clock.now()) } else { clock.read() }
}

/// Puts the verdict of an inner run in the place of ours: it knew what it was looking at.
pub(super) fn take_over(verdict: &mut Verdict, inner: &Inner, at: &ReadAt) {
    verdict.class = inner.class;
    verdict.about = Inner::about();
    verdict.hint = inner.hint(at.wall_ms, at.now);
    verdict.rule = format!("halfopen/nested ({})", inner.circuit);
    verdict.evidence.place = "the report of the inner run".to_owned();
    verdict.evidence.excerpt = inner.seen();
}

/// Returns whether a text is the trace of a crash: it may quote anything, and says nothing about a dependency.
fn is_crash(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    CRASHES.iter().any(|begin| text.lines().any(|line| line.trim_start().starts_with(begin)))
}

/// Returns whether a pack is that of an agent, whose runs are long.
fn is_agent(defaults: &PackDefaults) -> bool {
    defaults.resume.is_some() || defaults.timeout >= AGENT_TIMEOUT
}

impl Listener for Hearing<'_> {
    fn stdout(&mut self, piece: &[u8]) {
        self.ear.stdout(piece);
        self.look();
    }

    fn stderr(&mut self, piece: &[u8]) {
        self.ear.stderr(piece);
        self.inner.hear(piece);
        let room = STDERR_HEAD_MAX.saturating_sub(self.stderr_head.len());
        self.stderr_head.extend_from_slice(&piece[..piece.len().min(room)]);
        self.look();
    }

    fn tick(&mut self) -> Option<Instant> {
        let now = Instant::now();
        if let (Some(at), Some(every)) = (self.renew_at, self.guard.renew_every())
            && now >= at
        {
            self.guard.renew();
            self.renew_at = Some(now + every);
        }
        self.look();
        let look_at = (self.early == Early::ByEventOrTime).then(|| now + LOOK_EVERY);
        [self.renew_at, look_at].into_iter().flatten().min()
    }
}

/// The variables a child finds beside its own.
#[must_use]
pub(super) fn environment(
    told: Option<OsString>,
    key: Option<&str>,
    place: Option<(&'static str, OsString)>,
) -> Vec<(&'static str, OsString)> {
    let outer = told.map(|told| (super::nested::VARIABLE, told));
    let key = key.map(|key| (super::keep::KEY_VARIABLE, OsString::from(key)));
    outer.into_iter().chain(key).chain(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("Traceback (most recent call last):\n  File \"x.py\"" => true)]
    #[test_case("noise\nthread 'main' panicked at src/main.rs:1:1" => true)]
    #[test_case("panic: runtime error\n\ngoroutine 1 [running]:" => true)]
    #[test_case("HTTP 500 Internal Server Error" => false)]
    #[test_case("curl: (7) Failed to connect" => false)]
    fn a_crash_is_told_from_a_message(stderr: &str) -> bool {
        is_crash(stderr.as_bytes())
    }
}
