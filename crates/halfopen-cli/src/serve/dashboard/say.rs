//! Says things to a person, in their language: states, reasons, instants, durations.
//!
//! Everything that is chosen by a value of the core is chosen here, by exhaustive matches; the texts themselves are
//! [`super::words`]. A word of the journal that this version does not know is shown as it stands there: an entry that is
//! shown roughly is better than one that is not shown.
//!
//! Durations are coarse on purpose. A page is rendered again while it is watched, and a text that changes every second
//! would be sent every second; what is less than two minutes away is told to the second.

use std::time::Duration;

use halfopen_core::circuit::{Status, Wake, WakeReason};
use halfopen_core::event::State;
use halfopen_core::job::{JobState, Reason, What};
use halfopen_core::policy::{Mode, Policy};
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::Class;

use super::words::Words;
use crate::shown::When;

/// An instant as a page shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// RFC 3339, for programs.
    pub(super) iso: String,
    /// With the zone, for people.
    pub(super) local: String,
    /// How far away it is.
    pub(super) relative: String,
}

/// A language, and the clocks at the instant at which something is said.
#[derive(Clone, Debug)]
pub(super) struct Say {
    /// The texts.
    pub(super) w: &'static Words,
    /// The clocks.
    pub(super) when: When,
}

impl Say {
    /// Returns an instant.
    pub(super) fn moment(&self, at: Timestamp) -> Moment {
        Moment { iso: self.when.rfc3339(at), local: self.when.local(at), relative: self.relative(at) }
    }

    /// Returns an instant of the journal.
    pub(super) fn moment_ms(&self, at_ms: i64) -> Moment {
        self.moment(Timestamp::from_millis(at_ms))
    }

    /// Returns how far away an instant is.
    pub(super) fn relative(&self, at: Timestamp) -> String {
        let now = self.when.now;
        if at > now {
            return fill(self.w.in_span, &[("span", &self.span(now.until(at)))]);
        }
        let past = now.since(at);
        if past < Duration::from_secs(1) {
            return self.w.just_now.to_owned();
        }
        // What is past is cut, not rounded up: nothing depends on it.
        fill(self.w.ago, &[("span", &self.span(Duration::from_secs(past.as_secs())))])
    }

    /// Returns a duration: to the second below two minutes, to the minute below a day, else to the hour.
    pub(super) fn span(&self, span: Duration) -> String {
        let w = self.w;
        let one = |n: u64, unit: &str| format!("{n} {unit}");
        let two = |big: u64, big_unit: &str, small: u64, small_unit: &str| match small {
            0 => one(big, big_unit),
            small => format!("{big} {big_unit} {small} {small_unit}"),
        };
        let millis = span.as_millis();
        if (1..1000).contains(&millis) {
            let tenths = millis.div_ceil(100);
            return if tenths < 10 { format!("0.{tenths} {}", w.unit_s) } else { one(1, w.unit_s) };
        }
        let seconds = u64::try_from(millis.div_ceil(1000)).unwrap_or(u64::MAX);
        match seconds {
            0..60 => one(seconds, w.unit_s),
            60..120 => two(seconds / 60, w.unit_min, seconds % 60, w.unit_s),
            120..3600 => one(seconds / 60, w.unit_min),
            3600..86_400 => two(seconds / 3600, w.unit_h, seconds % 3600 / 60, w.unit_min),
            86_400.. => two(seconds / 86_400, w.unit_d, seconds % 86_400 / 3600, w.unit_h),
        }
    }

    /// Returns a duration of a policy, exactly.
    pub(super) fn exact(&self, span: Duration) -> String {
        let w = self.w;
        let seconds = span.as_secs();
        if span.is_zero() {
            return format!("0 {}", w.unit_s);
        }
        if span.subsec_millis() > 0 || seconds == 0 {
            return if seconds > 0 {
                format!("{} {}", span.as_secs_f64(), w.unit_s)
            } else {
                format!("{} {}", span.as_millis(), w.unit_ms)
            };
        }
        [(86_400, w.unit_d), (3600, w.unit_h), (60, w.unit_min), (1, w.unit_s)]
            .into_iter()
            .find(|(unit, _)| seconds.is_multiple_of(*unit))
            .map_or_else(String::new, |(unit, word)| format!("{} {word}", seconds / unit))
    }

    /// Returns the word of a breaker's state.
    pub(super) fn state(&self, state: State) -> &'static str {
        match state {
            State::Closed => self.w.closed,
            State::Open => self.w.open,
            State::HalfOpen => self.w.half_open,
        }
    }

    /// Returns the word of a state of the journal.
    pub(super) fn state_named<'a>(&self, word: &'a str) -> &'a str
    where
        'static: 'a,
    {
        [State::Closed, State::Open, State::HalfOpen]
            .into_iter()
            .find(|state| state.as_str() == word)
            .map_or(word, |state| self.state(state))
    }

    /// Returns the word of a job's state.
    pub(super) fn job_state(&self, state: JobState) -> &'static str {
        match state {
            JobState::Queued => self.w.queued,
            JobState::Running => self.w.running,
            JobState::Done => self.w.done,
            JobState::Failed => self.w.failed,
            JobState::Expired => self.w.expired,
            JobState::ManualReview => self.w.manual_review,
            JobState::Cancelled => self.w.cancelled,
        }
    }

    /// Returns why a job is where it is.
    pub(super) fn job_reason(&self, reason: Reason) -> &'static str {
        let w = self.w;
        match reason {
            Reason::WorkerDied => w.job_worker_died,
            Reason::Shutdown => w.job_shutdown,
            Reason::NotStarted => w.job_not_started,
            Reason::UnknownEnd => w.job_unknown_end,
            Reason::WorkShown => w.job_work_shown,
            Reason::TtlOver => w.job_ttl_over,
            Reason::HintBeyondTtl => w.job_hint_beyond_ttl,
            Reason::AttemptsUsed => w.job_attempts_used,
            Reason::ClaimsLost => w.job_claims_lost,
            Reason::Permanent => w.job_permanent,
            Reason::Forbidden => w.job_forbidden,
            Reason::Healing => w.job_healing,
            Reason::Policy => w.job_policy,
            Reason::Operator => w.job_operator,
        }
    }

    /// Returns what happened to a job.
    pub(super) fn job_what(&self, what: What) -> &'static str {
        let w = self.w;
        match what {
            What::Accepted => w.what_accepted,
            What::Claimed => w.what_claimed,
            What::Sending => w.what_sending,
            What::Returned => w.what_returned,
            What::Ended => w.what_ended,
            What::Unblocked => w.what_unblocked,
            What::Requeued => w.what_requeued,
            What::Resolved => w.what_resolved,
            What::Cancelled => w.what_cancelled,
            What::Late => w.what_late,
        }
    }

    /// Returns what a class means.
    pub(super) fn class(&self, class: Class) -> &'static str {
        let w = self.w;
        match class {
            Class::Success => w.class_success,
            Class::RateLimited => w.class_rate_limited,
            Class::Overloaded => w.class_overloaded,
            Class::UsageLimit => w.class_usage_limit,
            Class::Timeout => w.class_timeout,
            Class::ConnectionFailure => w.class_connection_failure,
            Class::ServerError => w.class_server_error,
            Class::QuotaExhausted => w.class_quota_exhausted,
            Class::Auth => w.class_auth,
            Class::InvalidRequest => w.class_invalid_request,
            Class::UnknownFailure => w.class_unknown_failure,
        }
    }

    /// Returns what a class of the journal means.
    fn class_named<'a>(&self, word: &'a str) -> &'a str
    where
        'static: 'a,
    {
        word.parse().map_or(word, |class: Class| self.class(class))
    }

    /// Says why a circuit is as it is.
    pub(super) fn why(&self, status: &Status, policy: &Policy) -> String {
        let w = self.w;
        let last = status.last_failure.as_ref();
        let class = last.map_or(w.class_unknown_failure, |last| self.class(last.class));
        let window = self.exact(policy.circuit.window);
        let n = policy.circuit.open_after_failures.to_string();
        match status.reason {
            Some("failures") => fill(w.why_failures, &[("n", &n), ("window", &window), ("class", class)]),
            Some("long_wait") => {
                fill(w.why_long_wait, &[("class", class), ("span", &self.exact(policy.retry.max_wait))])
            }
            Some("quota_exhausted") => w.why_quota.to_owned(),
            Some("probe_failed") => fill(w.why_probe_failed, &[("class", class)]),
            Some("probe_stalled") => w.why_probe_stalled.to_owned(),
            Some("probes_inconclusive") => w.why_probes_inconclusive.to_owned(),
            Some(other) => other.to_owned(),
            None if status.throttled_until.is_some() => fill(w.why_throttled, &[("class", class)]),
            None => {
                let failures = status.failures_in_window.to_string();
                fill(w.why_closed, &[("failures", &failures), ("n", &n), ("window", &window)])
            }
        }
    }

    /// Says what happens to a call that comes now.
    pub(super) fn fate(&self, status: &Status, policy: &Policy) -> String {
        let w = self.w;
        let fate = match (&status.hold, status.state) {
            (Some(hold), _) if hold.state == State::Closed => w.fate_held_closed,
            (Some(_), _) => w.fate_held_open,
            (None, State::Open) => w.fate_open,
            (None, State::HalfOpen) => w.fate_half_open,
            (None, State::Closed) if status.throttled_until.is_some() => w.fate_throttled,
            (None, State::Closed) => w.fate_closed,
        };
        match policy.mode {
            Mode::Enforce => fate.to_owned(),
            Mode::Observe => fill(w.fate_observe, &[("fate", fate)]),
        }
    }

    /// Says what happens next, and when that is known.
    pub(super) fn next(&self, status: &Status, policy: &Policy, wake: Option<Wake>) -> (String, Option<Timestamp>) {
        let w = self.w;
        if let Some(hold) = &status.hold {
            return match hold.until {
                Some(at) => (w.next_hold_over.to_owned(), Some(at)),
                None => (w.next_released.to_owned(), None),
            };
        }
        match (status.state, status.open_until, status.throttled_until) {
            (State::Open, Some(at), _) => return (w.next_probe.to_owned(), Some(at)),
            (State::HalfOpen, _, _) if status.probes_in_flight > 0 => {
                let (out, m) = (status.probes_in_flight.to_string(), policy.circuit.close_after_successes.to_string());
                let good = status.probe_successes.to_string();
                let text = fill(w.next_probes_end, &[("out", &out), ("good", &good), ("m", &m)]);
                return (text, None);
            }
            (State::HalfOpen, _, _) => return (w.next_call_probes.to_owned(), None),
            (State::Closed, _, Some(at)) => return (w.next_throttle_over.to_owned(), Some(at)),
            (State::Open | State::Closed, _, _) => {}
        }
        match wake {
            Some(Wake { at, reason }) => (self.wake(reason).to_owned(), Some(at)),
            None => (w.next_nothing.to_owned(), None),
        }
    }

    fn wake(&self, reason: WakeReason) -> &'static str {
        let w = self.w;
        match reason {
            WakeReason::CooldownOver => w.next_probe,
            WakeReason::ThrottleOver => w.next_throttle_over,
            WakeReason::ProbeLease => w.next_probe_lease,
            WakeReason::HoldOver => w.next_hold_over,
            WakeReason::RampStep => w.next_ramp_step,
            WakeReason::EscalationForgotten => w.next_forgotten,
        }
    }

    /// Says what an entry of the journal is about.
    pub(super) fn event(&self, event: &EventRecord) -> String {
        let w = self.w;
        let reason = event.reason.as_deref().unwrap_or_default();
        let who = event.details.get("who").and_then(serde_json::Value::as_str);
        let jobs = || event.details.get("jobs").and_then(serde_json::Value::as_u64).unwrap_or(1).to_string();
        let why = event.details.get("why").and_then(serde_json::Value::as_str).unwrap_or_default();
        match event.event.as_str() {
            "tripped" => fill(w.event_tripped, &[("why", &self.trip(event))]),
            "half_opened" if who.is_some() => by_hand(w.event_half_opened_by, who, reason),
            "half_opened" => w.event_half_opened.to_owned(),
            "recovered" => w.event_recovered.to_owned(),
            "reset" => by_hand(w.event_reset, who, reason),
            "throttled" => fill(w.event_throttled, &[("class", self.class_named(reason))]),
            "hint_cut" => w.event_hint_cut.to_owned(),
            "failure_counted" => fill(w.event_failure, &[("class", self.class_named(reason))]),
            "probe_admitted" => w.event_probe_admitted.to_owned(),
            "probe_ended" => match event.probe_result.as_deref() {
                Some("success") => w.event_probe_success.to_owned(),
                Some("failure") => fill(w.event_probe_failure, &[("class", self.class_named(reason))]),
                Some("lost") => w.event_probe_lost.to_owned(),
                Some(_) | None => w.event_probe_neutral.to_owned(),
            },
            "ramp_began" => w.event_ramp_began.to_owned(),
            "ramp_stepped" => w.event_ramp_stepped.to_owned(),
            "ramp_ended" => w.event_ramp_ended.to_owned(),
            "hold_placed" => {
                let held = event.details.get("hold").and_then(serde_json::Value::as_str).unwrap_or_default();
                let text = fill(w.event_hold_placed, &[("state", self.state_named(held))]);
                by_hand(&text, who, reason)
            }
            "hold_ended" if who.is_some() => by_hand(w.event_released, who, reason),
            "hold_ended" => w.event_hold_over.to_owned(),
            "auth_failed" => w.event_auth_failed.to_owned(),
            "jobs_failed" => fill(w.event_jobs_failed, &[("n", &jobs())]),
            "jobs_expired" => fill(w.event_jobs_expired, &[("n", &jobs())]),
            "jobs_to_review" => fill(w.event_jobs_to_review, &[("n", &jobs())]),
            "jobs_will_expire" => fill(w.event_jobs_will_expire, &[("n", &jobs())]),
            "jobs_requeued" => by_hand(&fill(w.event_jobs_requeued, &[("n", &jobs())]), who, why),
            "jobs_resolved" => by_hand(&fill(w.event_jobs_resolved, &[("n", &jobs())]), who, why),
            "jobs_cancelled" => by_hand(&fill(w.event_jobs_cancelled, &[("n", &jobs())]), who, why),
            other if reason.is_empty() => other.replace('_', " "),
            other => format!("{} ({reason})", other.replace('_', " ")),
        }
    }

    /// Says why a breaker opened, as far as its entry in the journal knows.
    pub(super) fn trip(&self, event: &EventRecord) -> String {
        let w = self.w;
        let class = event.details.get("class").and_then(serde_json::Value::as_str);
        let class = class.map_or(w.class_unknown_failure, |class| self.class_named(class));
        match event.reason.as_deref() {
            Some("failures") => {
                let n = event.details.get("failures").and_then(serde_json::Value::as_u64).unwrap_or(1);
                fill(w.trip_failures, &[("n", &n.to_string()), ("class", class)])
            }
            Some("long_wait") => fill(w.trip_long_wait, &[("class", class)]),
            Some("quota_exhausted") => w.why_quota.to_owned(),
            Some("probe_failed") => fill(w.why_probe_failed, &[("class", class)]),
            Some("probe_stalled") => w.why_probe_stalled.to_owned(),
            Some("probes_inconclusive") => w.why_probes_inconclusive.to_owned(),
            Some(other) => other.to_owned(),
            None => class.to_owned(),
        }
    }
}

/// Adds who did something by hand, and why.
fn by_hand(text: &str, who: Option<&str>, reason: &str) -> String {
    let mut text = text.to_owned();
    if let Some(who) = who {
        text.push_str(&format!(" · {who}"));
    }
    // An act without a reason has its own name there.
    if !reason.is_empty() && !["reset", "hold", "release"].contains(&reason) {
        text.push_str(&format!(": {reason}"));
    }
    text
}

/// Puts values into a text, each where its name stands in braces.
pub(super) fn fill(text: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(text.len() + 32);
    let mut rest = text;
    // One pass, so that a value that holds braces stays what it is.
    while let Some((before, behind)) = rest.split_once('{') {
        filled.push_str(before);
        let Some((name, after)) = behind.split_once('}') else {
            filled.push('{');
            rest = behind;
            continue;
        };
        match values.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => filled.push_str(value),
            None => filled.push_str(name),
        }
        rest = after;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::super::words::{EN, JA};
    use super::*;
    use crate::shown::when::tests::tokyo;
    use test_case::test_case;

    fn say(w: &'static Words) -> Say {
        Say { w, when: tokyo() }
    }

    #[test_case(350, "0.4 s", "0.4 秒")]
    #[test_case(42_000, "42 s", "42 秒")]
    #[test_case(72_000, "1 min 12 s", "1 分 12 秒")]
    #[test_case(250_000, "4 min", "4 分")]
    #[test_case(18_190_000, "5 h 3 min", "5 時間 3 分")]
    #[test_case(273_600_000, "3 d 4 h", "3 日 4 時間")]
    fn a_duration_is_readable_in_both_languages(millis: u64, en: &str, ja: &str) {
        let span = Duration::from_millis(millis);
        assert_eq!((say(&EN).span(span).as_str(), say(&JA).span(span).as_str()), (en, ja));
    }

    #[test_case(1500, "1.5 s")]
    #[test_case(250, "250 ms")]
    #[test_case(0, "0 s")]
    #[test_case(90_000, "90 s")]
    #[test_case(120_000, "2 min")]
    #[test_case(691_200_000, "8 d")]
    fn a_duration_of_a_policy_is_exact(millis: u64, shown: &str) {
        assert_eq!(say(&EN).exact(Duration::from_millis(millis)), shown);
    }

    #[test]
    fn what_is_filled_in_is_not_read_again() {
        assert_eq!(fill("{a} and {b}", &[("a", "{b}"), ("b", "x")]), "{b} and x");
        assert_eq!(fill("a { b", &[]), "a { b");
    }

    #[test]
    fn an_instant_says_how_far_away_it_is_and_on_whose_clock() {
        let say = say(&EN);
        let moment = say.moment(say.when.now + Duration::from_secs(600));
        assert_eq!(moment.relative, "in 10 min");
        assert_eq!(moment.local, "2026-11-30 21:55:00+09:00");
        assert_eq!(say.moment(say.when.now).relative, "just now");
    }
}
