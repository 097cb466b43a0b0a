//! Waits: for a throttle to end, a cooldown to be over, a backoff to pass. Holds no permit, hears every signal.
//!
//! The instant is one of the steady clock, which counts suspend; `poll` sleeps by one that does not. So no sleep is
//! longer than a minute, and a laptop that wakes up late notices at once that its wait is over.
//!
//! Who waits for a circuit looks at it every other second: an operator's `release` must not be slept through.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use halfopen::clock::Clock;
use halfopen_core::time::Timestamp;
use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;

use super::child::poll;
use super::child::signals::{Asked, Signals};
use crate::duration::show;
use crate::ui;

/// The longest single sleep.
const SLEEP_MAX: Duration = Duration::from_secs(60);
/// How often a long wait says that it still waits, in a log.
const STILL_EVERY: Duration = Duration::from_secs(15 * 60);
/// How often a wait for a circuit looks whether it has been let go meanwhile, give or take a quarter.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A wait that is over this soon is not worth a look.
const WORTH_A_LOOK: Duration = Duration::from_secs(1);
/// A wait shorter than this is not worth a word.
const WORTH_A_WORD: Duration = Duration::from_millis(200);

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woke {
    /// Its time has come.
    Due,
    /// What it waited for was let go before its time.
    Early,
    /// A signal told us to end.
    Cancelled(Signal),
}

/// Says that we wait, and for what.
#[derive(Debug)]
pub(super) struct Notice {
    what: String,
    look: Look,
    shown: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Silent,
    /// A line that counts down in place.
    Countdown,
    /// A line at the beginning, and one every 15 minutes.
    Log,
}

impl Notice {
    /// Returns a notice that says `what` we wait for (`ocr is throttled`), unless it is to be `quiet`.
    #[must_use]
    pub(super) fn new(what: String, quiet: bool) -> Self {
        let look = if quiet {
            Look::Silent
        } else if std::io::stderr().is_terminal() {
            Look::Countdown
        } else {
            Look::Log
        };
        Self { what, look, shown: 0 }
    }

    fn begin(&mut self, left: Duration, until: &str) {
        if left < WORTH_A_WORD {
            self.look = Look::Silent;
        }
        if self.look == Look::Log {
            ui::say(&format!("{}: waiting {}, until {until}", self.what, show(left)));
        }
    }

    fn count_down(&mut self, left: Duration) {
        if self.look == Look::Countdown {
            let text = format!("halfopen: {}: waiting {}", self.what, show(Duration::from_secs(left.as_secs() + 1)));
            let width = self.shown.max(text.chars().count());
            ui::raw(&format!("\r{text:width$}"));
            self.shown = text.chars().count();
        }
    }

    fn still(&self, left: Duration) {
        if self.look == Look::Log {
            ui::say(&format!("{}: still waiting, {} left", self.what, show(left)));
        }
    }

    fn end(&mut self) {
        if self.look == Look::Countdown && self.shown > 0 {
            ui::raw(&format!("\r{:width$}\r", "", width = self.shown));
            self.shown = 0;
        }
    }
}

/// Waits until `at`, or until `let_go` says that what is waited for has ended before its time.
pub(super) fn until(
    at: Timestamp,
    clock: &Clock,
    signals: &mut Signals,
    mut notice: Notice,
    let_go: Option<&dyn Fn() -> bool>,
) -> Woke {
    let left = clock.now().until(at);
    if notice.look != Look::Silent {
        notice.begin(left, &clock_time(at, clock));
    }
    let mut said_at = Instant::now();
    let mut look_at = let_go.map(|_| next_look());
    let woke = loop {
        let left = clock.now().until(at);
        if left.is_zero() {
            break Woke::Due;
        }
        if let (Some(due), Some(let_go)) = (look_at, let_go)
            && Instant::now() >= due
        {
            if left > WORTH_A_LOOK && let_go() {
                break Woke::Early;
            }
            look_at = Some(next_look());
        }
        notice.count_down(left);
        if said_at.elapsed() >= STILL_EVERY {
            said_at = Instant::now();
            notice.still(left);
        }
        let step = if notice.look == Look::Countdown { Duration::from_secs(1) } else { SLEEP_MAX };
        let mut fds = [PollFd::from_borrowed_fd(signals.fd(), PollFlags::IN)];
        let wake_at = Instant::now() + left.min(step);
        if poll(&mut fds, Some(look_at.map_or(wake_at, |look_at| wake_at.min(look_at)))).is_err() {
            // Without a way to wait there is no waiting: come back and ask the door.
            break Woke::Due;
        }
        if let Some(signal) = told_to_end(signals) {
            break Woke::Cancelled(signal);
        }
    };
    notice.end();
    woke
}

/// Returns when to look again; many who wait do not all look at once.
fn next_look() -> Instant {
    Instant::now() + LOOK_EVERY.mul_f64(0.75 + 0.5 * fastrand::f64())
}

/// Takes what signals have come; pauses if asked to, and returns the one that asks to end.
fn told_to_end(signals: &mut Signals) -> Option<Signal> {
    let mut end = None;
    for asked in signals.take() {
        match asked {
            Asked::End(signal) => end = Some(signal),
            Asked::Pause => {
                let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
            }
            Asked::PassOn(_) | Asked::WindowChanged => {}
        }
    }
    end
}

/// Returns an instant as a wall clock shows it: the time, with the date unless it is today.
#[must_use]
pub(super) fn clock_time(at: Timestamp, clock: &Clock) -> String {
    let read = clock.read();
    let wall_ms = read.wall_ms.saturating_add(at.as_millis().saturating_sub(read.now.as_millis()));
    let zoned = |ms: i64| jiff::Timestamp::from_millisecond(ms).map(|at| at.to_zoned_datetime(read.zone.clone()));
    match (zoned(wall_ms), zoned(read.wall_ms)) {
        (Ok(at), Ok(now)) if at.date() == now.date() => at.strftime("%H:%M:%S").to_string(),
        (Ok(at), _) => at.strftime("%Y-%m-%d %H:%M").to_string(),
        (Err(_), _) => "some day".to_owned(),
    }
}

/// Returns an instant in the form of reports: ISO 8601 in UTC.
#[must_use]
pub(super) fn iso_time(at: Timestamp, clock: &Clock) -> Option<String> {
    let now = clock.now();
    let wall_ms = wall_ms_of(at, now, wall_now_ms());
    jiff::Timestamp::from_millisecond(wall_ms).ok().map(|at| at.to_string())
}

/// Returns what the wall clock will show at `at`.
#[must_use]
pub(super) fn wall_ms_of(at: Timestamp, now: Timestamp, wall_ms: i64) -> i64 {
    wall_ms.saturating_add(at.as_millis().saturating_sub(now.as_millis()))
}

/// Returns the wall clock in milliseconds since the unix epoch.
#[must_use]
pub(super) fn wall_now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
