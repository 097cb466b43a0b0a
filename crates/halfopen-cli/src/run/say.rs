//! Finds the words for what a run does: which circuit, why, how long, what next. A run that went well says nothing.

use std::path::Path;
use std::time::Duration;

use halfopen::clock::Clock;
use halfopen::handle::StoreHealth;
use halfopen::handle::jobs::Receipt;
use halfopen::store::Location;
use halfopen_core::circuit::LastFailure;
use halfopen_core::event::By;
use halfopen_core::job::JobState;
use halfopen_core::outcome::Exit;
use halfopen_core::pair::Side;
use halfopen_core::permit::{Refusal, RefusalReason};
use halfopen_core::retry::GiveUp;
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{Class, Verdict};

use super::ending::{Last, Reason};
use super::keep::Kept;
use super::plan::Plan;
use super::wait::clock_time;
use crate::duration::show;
use crate::ui::shell_word;

/// A message and the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// What happened.
    pub text: String,
    /// What can be done.
    pub hint: Option<String>,
}

/// Returns the circuit of one side, as the command line takes it.
#[must_use]
pub(super) fn circuit_of(plan: &Plan, side: Side) -> String {
    match (side, &plan.route.account) {
        (Side::Account, Some(account)) => account.to_string(),
        (Side::Place | Side::Account, _) => plan.route.place.to_string(),
    }
}

/// Returns what a caller waits for that the door holds back.
#[must_use]
pub(super) fn waits_for_the_door(plan: &Plan, side: Side, refusal: &Refusal) -> String {
    let circuit = circuit_of(plan, side);
    match refusal.reason {
        RefusalReason::Open => format!("{circuit}: circuit open"),
        RefusalReason::ProbesOut => format!("{circuit}: circuit half-open, somebody else probes"),
        RefusalReason::Throttled => format!("{circuit}: asked to wait"),
        RefusalReason::Ramp => format!("{circuit}: coming back one by one"),
        RefusalReason::Held => format!("{circuit}: held open by an operator"),
    }
}

/// Returns what a caller waits for before it repeats its attempt.
#[must_use]
pub(super) fn waits_to_repeat(plan: &Plan, attempts: u32, last: Option<&Last>) -> String {
    let class = last.map_or("failed", |last| last.verdict.class.as_str());
    let why = last.map(|last| quoted(&last.verdict)).unwrap_or_default();
    format!("{}: {class}{why}, attempt {attempts} of {}", plan.circuit(), plan.policy.retry.max_attempts)
}

/// Returns what to say about a refusal that was not waited for. It names the failure behind it.
#[must_use]
pub(super) fn refused(
    plan: &Plan,
    side: Side,
    refusal: &Refusal,
    held: Option<&By>,
    behind: Option<&LastFailure>,
    clock: &Clock,
) -> Message {
    let circuit = circuit_of(plan, side);
    let now = clock.now();
    let kind = error_of(refusal.reason);
    let why = match refusal.reason {
        RefusalReason::Open => "the circuit is open".to_owned(),
        RefusalReason::ProbesOut => "the circuit is half-open and somebody else probes".to_owned(),
        RefusalReason::Throttled => "it asked everybody to wait".to_owned(),
        RefusalReason::Ramp => "what was held back returns one by one".to_owned(),
        RefusalReason::Held => held_open_by(held),
    };
    let until = match refusal.retry_at {
        Some(at) => format!("; try again in {} (at {})", show(now.until(at)), clock_time(at, clock)),
        None => String::new(),
    };
    let behind = behind.map(|last| remembered(last, now)).unwrap_or_default();
    let target = shell_word(&circuit);
    let hint = match (refusal.reason, refusal.retry_at) {
        (RefusalReason::Held, _) => format!("halfopen release {target}"),
        (_, Some(at)) if now.until(at) > plan.refusal_wait => format!(
            "halfopen why {target}; to sleep until then: halfopen run --max-wait {} …",
            flag_duration(now.until(at))
        ),
        _ => format!("halfopen why {target}"),
    };
    Message { text: format!("{circuit}: {kind}: {why}{until}{behind}"), hint: Some(hint) }
}

/// Returns what to say about a call that was kept.
#[must_use]
pub(super) fn kept(plan: &Plan, kept: &Kept, user_message: Option<&str>, clock: &Clock) -> Message {
    let Receipt { id, state, expires_at, position } = kept.receipt;
    let circuit = plan.circuit();
    let left = show(clock.now().until(expires_at));
    let mut text = match (state, kept.joined) {
        (JobState::Queued, false) => format!("{circuit}: queued as job {id}; {position} wait, it expires in {left}"),
        (JobState::Queued, true) => format!("{circuit}: the same waits already as job {id}, which expires in {left}"),
        (JobState::ManualReview, false) => format!("{circuit}: kept as job {id}, for a person to decide"),
        (_, _) => format!("{circuit}: it is job {id}, which is {state}"),
    };
    if let Some(beyond) = &kept.beyond {
        text.push_str(&format!(": {beyond}"));
    }
    if let Some(message) = user_message {
        text.push_str(&format!("\n{message}"));
    }
    Message { text, hint: Some(format!("halfopen jobs show {id}")) }
}

/// Returns what to say where something was queued and nobody seems to do it.
#[must_use]
pub(super) fn nobody_works(store: &Location, policy: Option<&Path>) -> String {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let us = std::env::current_exe().map_or_else(|_| "halfopen".to_owned(), |path| path.display().to_string());
    let mut line = format!("* * * * * {}", shell_word(&us));
    if let Some(path) = store.path() {
        line.push_str(&format!(" --store {}", shell_word(&absolute(path).display().to_string())));
    }
    if let Some(path) = policy {
        line.push_str(&format!(" --policy {}", shell_word(&absolute(path).display().to_string())));
    }
    // In a crontab `%` ends a line.
    let line = line.replace('%', "\\%");
    format!(
        "no worker was seen for a quarter of an hour, so nobody would do this job; add to your \
         crontab:\n{line} drain --once"
    )
}

/// Returns who holds a circuit open, and why, as far as that is known.
fn held_open_by(held: Option<&By>) -> String {
    match held {
        Some(By { who, reason }) if reason.is_empty() => format!("{who} holds it open"),
        Some(By { who, reason }) => format!("{who} holds it open: \"{reason}\""),
        None => "an operator holds it open".to_owned(),
    }
}

/// Returns the word for a refusal in reports and messages.
#[must_use]
pub(super) const fn error_of(reason: RefusalReason) -> &'static str {
    match reason {
        RefusalReason::Open | RefusalReason::ProbesOut | RefusalReason::Held => "circuit_open",
        RefusalReason::Throttled | RefusalReason::Ramp => "throttled",
    }
}

fn remembered(last: &LastFailure, now: Timestamp) -> String {
    let excerpt = if last.excerpt.is_empty() { String::new() } else { format!(" \"{}\"", last.excerpt) };
    format!("; last failure {} ago: {}{excerpt} ({})", show(now.since(last.at)), last.class, last.rule)
}

/// Returns what to say about a failed last attempt; nothing if it went well.
#[must_use]
pub(super) fn failed(
    plan: &Plan,
    last: &Last,
    gave_up: Option<Reason>,
    again_at: Option<Timestamp>,
    attempts: u32,
    clock: &Clock,
) -> Option<Message> {
    let verdict = &last.verdict;
    if verdict.class == Class::Success {
        return None;
    }
    let circuit = plan.circuit();
    let ended = match last.exit {
        Exit::Code(code) => format!("exit {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::TimedOut => match plan.policy.timeout {
            Some(timeout) => format!("ended by us after {}", show(timeout)),
            None => "ended by us".to_owned(),
        },
        Exit::Cancelled | Exit::NotFound | Exit::NotExecutable => "not run to its end".to_owned(),
    };
    let often = if attempts == 1 { String::new() } else { format!(" after {attempts} attempts") };
    let mut text = format!("{circuit}: {}{often} ({ended}){}", verdict.class, quoted(verdict));
    let mut hint = None;
    if let Some(at) = again_at {
        let left = clock.now().until(at);
        text.push_str(&format!("; try again in {} (at {})", show(left), clock_time(at, clock)));
        // A longer wait helps only where the wait was too long.
        hint = match gave_up {
            Some(Reason::Core(GiveUp::WaitTooLong { .. })) => {
                Some(format!("to sleep until then: halfopen run --max-wait {} …", flag_duration(left)))
            }
            Some(Reason::Core(GiveUp::AttemptsUsed)) => {
                Some(format!("to be tried more often: halfopen run --attempts {} …", attempts + 1))
            }
            Some(_) | None => None,
        };
    }
    let why = gave_up.and_then(|reason| why_not(plan, reason));
    if let Some(why) = why {
        text.push_str(&format!("; {why}"));
    }
    let next = match verdict.class {
        Class::UnknownFailure => Some(format!(
            "no rule knows this failure; see halfopen report, and halfopen classify --dep {} to teach it",
            shell_word(&plan.policy.dependency)
        )),
        Class::Auth => Some("check the credential; it is not tried again, because waiting does not heal it".to_owned()),
        Class::QuotaExhausted => {
            Some(format!("top up, then: halfopen release --probe-now {}", shell_word(&circuit.to_string())))
        }
        Class::RateLimited | Class::Overloaded | Class::UsageLimit => hint,
        Class::Success | Class::Timeout | Class::ConnectionFailure | Class::ServerError | Class::InvalidRequest => None,
    };
    Some(Message { text, hint: next })
}

/// Returns why there is no further attempt, where that is not plain from the class.
fn why_not(plan: &Plan, reason: Reason) -> Option<String> {
    Some(match reason {
        Reason::Core(GiveUp::AttemptsUsed | GiveUp::DoesNotHeal) | Reason::Nested => return None,
        Reason::Core(GiveUp::Forbidden) => "the dependency said not to try again".to_owned(),
        Reason::Core(GiveUp::WaitTooLong { .. }) => {
            format!("that is longer than this run may sleep ({})", show(plan.max_wait))
        }
        Reason::Core(GiveUp::DeadlineTooNear) => "not repeated: the call's deadline is too near".to_owned(),
        Reason::Core(GiveUp::BudgetUsed) => "not repeated: the retry budget is used up".to_owned(),
        Reason::Core(GiveUp::UnknownEnd) => {
            "not repeated: it may have done its work (replay: always, or --resume where the tool can)".to_owned()
        }
        Reason::Core(GiveUp::WorkShown) => {
            "not repeated: it had begun its work (replay: always, or --resume where the tool can)".to_owned()
        }
        Reason::SameAgain => "not repeated: it failed the same way twice".to_owned(),
        Reason::OutputSeen => "not repeated: part of its output has been passed on".to_owned(),
        Reason::InputTooLong => format!(
            "not repeated: its standard input is longer than is kept (replay_body_bytes_max, {} bytes)",
            plan.policy.replay_body_bytes_max
        ),
    })
}

fn quoted(verdict: &Verdict) -> String {
    if verdict.evidence.excerpt.is_empty() { String::new() } else { format!(": \"{}\"", verdict.evidence.excerpt) }
}

/// Returns what there is to say about the store, if it does not serve.
#[must_use]
pub(super) fn store_warning(health: &StoreHealth) -> Option<String> {
    match health {
        StoreHealth::Good => None,
        StoreHealth::ReadOnly(why) => Some(format!(
            "the store cannot be written ({why}): what it says is honoured, what this run learns is not shared"
        )),
        StoreHealth::Lost(why) => Some(format!(
            "the store cannot be used ({why}): this run is NOT protected by what others learned, and makes one attempt"
        )),
    }
}

/// Returns a duration as our own flags take it, rounded up.
fn flag_duration(duration: Duration) -> String {
    let seconds = duration.as_secs() + 1;
    if seconds < 120 {
        format!("{seconds}s")
    } else if seconds < 7200 {
        format!("{}m", seconds.div_ceil(60))
    } else {
        format!("{}h", seconds.div_ceil(3600))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case(1, "2s")]
    #[test_case(119, "2m")]
    #[test_case(7_199, "2h")]
    #[test_case(18_000, "6h")]
    fn a_duration_is_shown_as_a_flag_takes_it(seconds: u64, flag: &str) {
        let text = flag_duration(Duration::from_secs(seconds));
        assert_eq!(text, flag);
        assert!(crate::duration::parse(&text).unwrap() > Duration::from_secs(seconds));
    }
}
