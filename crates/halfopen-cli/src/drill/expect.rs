//! Asks of what was seen whether it is what was expected; every answer is a phrase that stands in the report.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use halfopen_core::event::State;
use halfopen_core::job::{JobState, UnknownJobState};
use halfopen_core::policy::OnExpiry;
use halfopen_core::time::Timestamp;

use super::quantity::{Names, Quantity, QuantityError, Value, span};
use super::scenario::{Bounds, Check, Span};
use super::trace::{End, Seen, Trace};
use super::world::PlayError;
use crate::duration::show;

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// Whether it is what was expected.
    pub(super) good: bool,
    /// What was seen, as a phrase.
    pub(super) seen: String,
}

impl Finding {
    /// Returns what is found of a row that had to be broken off.
    pub(super) fn endless() -> Self {
        wrong("it does not end by itself".to_owned())
    }
}

/// Looks at what was seen of one row.
pub(super) struct Looker<'a> {
    trace: &'a Trace,
    names: &'a Names,
    began: Timestamp,
    on_expiry: OnExpiry,
    slack: Slack,
}

/// By how much what was seen in real time may miss what a scenario says, in seconds. Nothing in virtual time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slack {
    /// An instant at which something begins to hold is looked at so much later.
    pub(super) begins: f64,
    /// One at which it ceases to hold, so much earlier.
    pub(super) ceases: f64,
    /// What must be seen by an instant may be seen so much later.
    pub(super) late: f64,
    /// A duration may be so much shorter.
    pub(super) shorter: f64,
    /// And so much longer.
    pub(super) longer: f64,
    /// Whether a call that was queued and done by the end counts as one that succeeded: where workers are always there, a
    /// caller cannot choose whether it is first at the door.
    pub(super) done_later: bool,
}

impl<'a> Looker<'a> {
    /// Returns one that looks at a row that was played.
    pub(super) fn new(trace: &'a Trace, names: &'a Names, began: Timestamp, on_expiry: OnExpiry) -> Self {
        Self { trace, names, began, on_expiry, slack: Slack::default() }
    }

    /// Returns one that allows for the time that a machine takes.
    pub(super) fn with_slack(self, slack: Slack) -> Self {
        Self { slack, ..self }
    }

    /// Returns what a check found.
    ///
    /// # Errors
    ///
    /// If the check itself makes no sense.
    pub(super) fn found(&self, check: &'a Check) -> Result<Finding, PlayError> {
        match check {
            Check::Opens(bounds) => {
                let opened = self.events("tripped");
                self.judged(bounds, Value::Plain(opened), |n| format!("opened {}", times(n)))
            }
            Check::OpensBecause(reason) => Ok(self.opens_because(reason)),
            Check::FailuresCounted(bounds) => {
                let counted = self.events("failure_counted");
                self.judged(bounds, Value::Plain(counted), |n| format!("failures counted: {n}"))
            }
            Check::Sent(span) => self.sent(span),
            Check::ProbesAtOnce(bounds) => {
                let most = self.probes_at_once();
                self.judged(bounds, Value::Plain(most), |n| format!("probes at once: {n}"))
            }
            Check::State { at, is } => self.state(at, is),
            Check::Cooldown { nth, lasts } => self.cooldown(*nth, lasts),
            Check::Ends { of, r#as } => self.ends(of, r#as),
            Check::Class { of, is } => self.class(of, is),
            Check::Attempts { of, each } => {
                self.each(of, each, "attempts", |call| Some(Value::Plain(f64::from(call.attempts))))
            }
            Check::Sleeps { of, each } => {
                self.each(of, each, "slept", |call| Some(Value::Time(call.slept.as_secs_f64())))
            }
            Check::Takes { of, each } => self.each(of, each, "took", |call| {
                let (ended_at, _) = call.ended?;
                Some(Value::Time(call.began_at.until(ended_at).as_secs_f64()))
            }),
            Check::StartsPerSecond(span) => self.starts_per_second(span),
            Check::Event { named, count } => {
                let named = match (named.as_str(), self.on_expiry) {
                    ("jobs_past_ttl", OnExpiry::ManualReview) => "jobs_to_review",
                    ("jobs_past_ttl", OnExpiry::Expired) => "jobs_expired",
                    (named, _) => named,
                };
                let seen = self.events(named);
                self.judged(count, Value::Plain(seen), |n| format!("{named} {}", times(n)))
            }
            Check::Jobs { of, are } => self.jobs(of, are),
            Check::JobsMade { of, count } => self.jobs_made(of, count),
            Check::Told { of, count } => {
                let told = self.trace.told.iter().filter(|kind| kind.rsplit('.').next() == Some(of.as_str())).count();
                #[expect(clippy::cast_precision_loss, reason = "alerts of one row are few")]
                self.judged(count, Value::Plain(told as f64), |n| format!("owner told `{of}` {}", times(n)))
            }
            Check::Partitions(count) =>
            {
                #[expect(clippy::cast_precision_loss, reason = "partitions are bounded")]
                self.judged(count, Value::Plain(self.trace.partitions as f64), |n| {
                    format!("{n} partitions have circuits")
                })
            }
            Check::CheapProbes(count) =>
            {
                #[expect(clippy::cast_precision_loss, reason = "probes of one row are few")]
                self.judged(count, Value::Plain(self.trace.cheap_probes as f64), |n| {
                    format!("the cheap probe ran {}", times(n))
                })
            }
            Check::NoneTwice(of) => self.carried_out(of, |_, twice| twice == 0),
            Check::Once(of) => self.once(of),
            Check::OldestFirst(of) => self.oldest_first(of),
            Check::ActivationLine { calls } => match self.trace.line_calls {
                None => Ok(wrong("no activation line was left".to_owned())),
                Some(line) =>
                {
                    #[expect(clippy::cast_precision_loss, reason = "calls of one row are few")]
                    self.judged(calls, Value::Plain(line as f64), |n| format!("the line says {n} calls"))
                }
            },
            Check::StoreIs { at_end } => {
                let is = if self.trace.store_good { "good" } else { "lost" };
                Ok(Finding { good: at_end == is, seen: format!("the store is {is} at the end") })
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "events of one row are few")]
    fn events(&self, named: &str) -> f64 {
        self.trace.events.iter().filter(|event| event.event == named).count() as f64
    }

    fn opens_because(&self, reason: &str) -> Finding {
        let first = self.trace.events.iter().find(|event| event.event == "tripped");
        match first.and_then(|event| event.reason.as_deref()) {
            None => wrong("the breaker did not open".to_owned()),
            Some(seen) => Finding { good: seen == reason, seen: format!("opened because of {seen}") },
        }
    }

    fn sent(&self, asked: &Span) -> Result<Finding, PlayError> {
        let (after, before) = match self.bounds_of(asked)? {
            Ok(bounds) => bounds,
            Err(never) => return Ok(never),
        };
        let within = |after: f64, before: f64| {
            #[expect(clippy::cast_precision_loss, reason = "attempts of one row are few")]
            {
                self.sent_within(asked.of.as_deref(), after, before).count() as f64
            }
        };
        let Slack { begins, ceases, late, .. } = self.slack;
        // At least so many, about so many, at most so many, by clocks that are that exact.
        let sent =
            [within(after + begins, before - ceases), within(after, before), within(after - begins, before + late)];
        let span = spoken(asked);
        self.judged_between(&asked.count, sent.map(Value::Plain), |n| format!("{n} sent{span}"))
    }

    /// Returns the ends of a span in seconds, or the finding that one of its instants never came.
    fn bounds_of(&self, asked: &Span) -> Result<Result<(f64, f64), Finding>, QuantityError> {
        let mut ends = [f64::NEG_INFINITY, f64::INFINITY];
        for (end, quantity) in ends.iter_mut().zip([&asked.after, &asked.before]) {
            let Some(quantity) = quantity else { continue };
            match quantity.seconds(self.names)? {
                Some(seconds) => *end = seconds,
                None => return Ok(Err(wrong(format!("`{quantity}` never came")))),
            }
        }
        Ok(Ok((ends[0], ends[1])))
    }

    fn sent_within<'b>(&'b self, of: Option<&'b str>, after: f64, before: f64) -> impl Iterator<Item = f64> + 'b {
        self.trace
            .sent
            .iter()
            .filter(move |sent| of.is_none_or(|of| self.trace.calls[sent.call].group == of))
            .map(|sent| self.seconds(sent.at))
            .filter(move |at| *at >= after - HALF_A_MILLI && *at < before - HALF_A_MILLI)
    }

    fn seconds(&self, at: Timestamp) -> f64 {
        self.began.until(at).as_secs_f64()
    }

    fn probes_at_once(&self) -> f64 {
        let probes: Vec<_> = self.trace.sent.iter().filter(|sent| sent.probe).collect();
        let at_once = |at: Timestamp| {
            probes.iter().filter(|probe| probe.at <= at && probe.ended_at.is_none_or(|ended| ended > at)).count()
        };
        let most = probes.iter().map(|probe| at_once(probe.at)).max().unwrap_or(0);
        #[expect(clippy::cast_precision_loss, reason = "probes of one row are few")]
        {
            most as f64
        }
    }

    fn state(&self, at: &Quantity, is: &str) -> Result<Finding, PlayError> {
        let wanted = [State::Closed, State::Open, State::HalfOpen].into_iter().find(|state| state.as_str() == is);
        let Some(wanted) = wanted else {
            return Err(PlayError::Scenario(format!("`{is}` is no state; states are closed, open and half_open")));
        };
        let Some(seconds) = at.seconds(self.names)? else { return Ok(wrong(format!("`{at}` never came"))) };
        let instant = self.began + span(seconds);
        let look = self.trace.looks.iter().find(|(at, _)| *at == instant);
        let state = match look {
            None => return Ok(wrong(format!("`{at}` never came"))),
            Some((_, state)) => state.unwrap_or(State::Closed),
        };
        Ok(Finding { good: state == wanted, seen: format!("{} at {}", state.as_str(), show(span(seconds))) })
    }

    fn cooldown(&self, nth: usize, lasts: &Bounds) -> Result<Finding, PlayError> {
        let trip = self.trace.events.iter().filter(|event| event.event == "tripped").nth(nth.saturating_sub(1));
        let until = trip.and_then(|event| Some((event.at_ms, event.details.get("open_until_ms")?.as_i64()?)));
        let Some((at_ms, until_ms)) = until else {
            return Ok(wrong(format!("the breaker did not open a {nth}. time")));
        };
        let lasted = Duration::from_millis(u64::try_from(until_ms.saturating_sub(at_ms)).unwrap_or(0));
        // From the verdict to the trip some time may pass, and a stated wait is counted from the verdict.
        let lasted = lasted.as_secs_f64();
        let between = [lasted, lasted, lasted + self.slack.shorter].map(Value::Time);
        self.judged_between(lasts, between, |time| format!("cooldown {nth} lasts {time}"))
    }

    fn calls_of(&self, of: &'a str) -> Result<Vec<(usize, &'a Seen)>, Finding> {
        let calls: Vec<_> = self.trace.group(of).collect();
        if calls.is_empty() { Err(wrong(format!("no call `{of}` was made"))) } else { Ok(calls) }
    }

    fn ends(&self, of: &'a str, allowed: &[String]) -> Result<Finding, PlayError> {
        const WORDS: [&str; 5] = ["success", "on_open", "failed", "unknown_end", "left"];
        if let Some(word) = allowed.iter().find(|word| !WORDS.contains(&word.as_str())) {
            return Err(PlayError::Scenario(format!("`{word}` is no end of a call; ends are {}", WORDS.join(", "))));
        }
        let calls = match self.calls_of(of) {
            Ok(calls) => calls,
            Err(none) => return Ok(none),
        };
        let allows = |wanted: &str| allowed.iter().any(|word| word == wanted);
        let later = |call: &Seen| self.slack.done_later && call.job_state == Some(JobState::Done) && allows("success");
        let good = |call: &Seen| later(call) || call.ended.is_some_and(|(_, end)| allows(end.as_str()));
        let shown: BTreeSet<&str> =
            calls.iter().map(|(_, call)| call.ended.map_or("never", |(_, end)| End::shown(end))).collect();
        let shown = shown.into_iter().collect::<Vec<_>>().join(", ");
        Ok(Finding { good: calls.iter().all(|(_, call)| good(call)), seen: format!("{of}: {shown}") })
    }

    fn class(&self, of: &'a str, is: &str) -> Result<Finding, PlayError> {
        let calls = match self.calls_of(of) {
            Ok(calls) => calls,
            Err(none) => return Ok(none),
        };
        let shown: BTreeSet<&str> =
            calls.iter().map(|(_, call)| call.class.map_or("nothing", |class| class.as_str())).collect();
        let good = shown.iter().all(|seen| *seen == is);
        Ok(Finding { good, seen: format!("{of} judged {}", shown.into_iter().collect::<Vec<_>>().join(", ")) })
    }

    fn each(
        &self,
        of: &'a str,
        each: &Bounds,
        what: &str,
        value: impl Fn(&Seen) -> Option<Value>,
    ) -> Result<Finding, PlayError> {
        let calls = match self.calls_of(of) {
            Ok(calls) => calls,
            Err(none) => return Ok(none),
        };
        let mut shown = None;
        for (_, call) in calls {
            let Some(value) = value(call) else { return Ok(wrong(format!("a call `{of}` did not end"))) };
            let Slack { shorter, longer, .. } = self.slack;
            let between = match value {
                Value::Time(time) => [time - longer, time, time + shorter].map(Value::Time),
                Value::Plain(_) => [value; 3],
            };
            let found = self.judged_between(each, between, |value| format!("{of}: {what} {value}"))?;
            if !found.good {
                return Ok(found);
            }
            shown = Some(found);
        }
        Ok(shown.unwrap_or_else(|| wrong(format!("no call `{of}` was made"))))
    }

    fn starts_per_second(&self, asked: &Span) -> Result<Finding, PlayError> {
        let (after, before) = match self.bounds_of(asked)? {
            Ok(bounds) => bounds,
            Err(never) => return Ok(never),
        };
        let at: Vec<f64> = self.sent_within(asked.of.as_deref(), after, before).collect();
        let within = |from: f64| {
            at.iter().filter(|at| **at >= from && **at < from + 1.0 - HALF_A_MILLI - self.slack.begins).count()
        };
        let most = at.iter().map(|from| within(*from)).max().unwrap_or(0);
        #[expect(clippy::cast_precision_loss, reason = "attempts of one row are few")]
        self.judged(&asked.count, Value::Plain(most as f64), |n| format!("at most {n} starts in a second"))
    }

    fn jobs(&self, of: &'a str, are: &str) -> Result<Finding, PlayError> {
        let wanted = match (are, self.on_expiry) {
            ("on_expiry", OnExpiry::ManualReview) => JobState::ManualReview,
            ("on_expiry", OnExpiry::Expired) => JobState::Expired,
            (are, _) => are.parse().map_err(|error: UnknownJobState| PlayError::Scenario(error.to_string()))?,
        };
        let calls = match self.calls_of(of) {
            Ok(calls) => calls,
            Err(none) => return Ok(none),
        };
        // Calls with one key are one job, and are not counted as several.
        let mut jobs = BTreeMap::new();
        let mut states = BTreeMap::new();
        for (number, call) in &calls {
            let job = call.job.map_or_else(|| format!("call {number}"), |id| id.to_string());
            jobs.insert(job, call.job_state.map_or("never queued", JobState::as_str));
        }
        for state in jobs.values() {
            *states.entry(*state).or_insert(0_usize) += 1;
        }
        let good = states.get(wanted.as_str()) == Some(&jobs.len());
        let shown = states.iter().map(|(state, n)| format!("{n} {state}")).collect::<Vec<_>>().join(", ");
        Ok(Finding { good, seen: format!("jobs of {of}: {shown}") })
    }

    fn jobs_made(&self, of: &'a str, count: &Bounds) -> Result<Finding, PlayError> {
        let calls = match self.calls_of(of) {
            Ok(calls) => calls,
            Err(none) => return Ok(none),
        };
        let made: BTreeSet<String> = calls.iter().filter_map(|(_, call)| Some(call.job?.to_string())).collect();
        #[expect(clippy::cast_precision_loss, reason = "calls of one row are few")]
        self.judged(count, Value::Plain(made.len() as f64), |n| {
            format!("{n} jobs made of {} calls of {of}", calls.len())
        })
    }

    fn once(&self, of: &'a str) -> Result<Finding, PlayError> {
        self.carried_out(of, |missing, twice| missing == 0 && twice == 0)
    }

    fn carried_out(&self, of: &'a str, good: impl Fn(usize, usize) -> bool) -> Result<Finding, PlayError> {
        let calls = match self.calls_of(of) {
            Ok(calls) => calls,
            Err(none) => return Ok(none),
        };
        let done: Vec<usize> =
            calls.iter().map(|(call, _)| self.trace.sent_by(*call).filter(|sent| sent.done).count()).collect();
        let (missing, twice) = (done.iter().filter(|n| **n == 0).count(), done.iter().filter(|n| **n > 1).count());
        let seen = match (missing, twice) {
            (0, 0) => format!("{of}: all {} done, none twice", done.len()),
            _ => format!("{of}: {missing} not done, {twice} done twice"),
        };
        Ok(Finding { good: good(missing, twice), seen })
    }

    fn oldest_first(&self, of: &'a str) -> Result<Finding, PlayError> {
        let calls = match self.calls_of(of) {
            Ok(calls) => calls,
            Err(none) => return Ok(none),
        };
        let starts: Vec<Timestamp> =
            calls.iter().filter_map(|(call, _)| self.trace.sent_by(*call).next()).map(|sent| sent.at).collect();
        // Two that start together may arrive in either order.
        let slack = Duration::from_secs_f64(self.slack.begins);
        let good = starts.len() == calls.len() && starts.is_sorted_by(|one, next| *one <= *next + slack);
        Ok(Finding { good, seen: format!("{of}: {}", if good { "oldest first" } else { "out of order" }) })
    }

    /// Judges a value by bounds.
    fn judged(&self, bounds: &Bounds, value: Value, phrase: impl Fn(&str) -> String) -> Result<Finding, PlayError> {
        self.judged_between(bounds, [value; 3], phrase)
    }

    /// Judges a value that is known to lie between two others, which stand before and behind it.
    fn judged_between(
        &self,
        bounds: &Bounds,
        [least, value, most]: [Value; 3],
        phrase: impl Fn(&str) -> String,
    ) -> Result<Finding, PlayError> {
        let number = |value| match value {
            Value::Time(number) | Value::Plain(number) => number,
        };
        let mut good = true;
        let mut wanted = Vec::new();
        let mut shown = value;
        let (least, most) = (number(least), number(most));
        type Holds = fn(f64, f64, f64) -> bool;
        let limits: [(&Option<Quantity>, &str, Holds); 3] = [
            (&bounds.is, "", |least, most, limit| least - HALF_A_MILLI < limit && limit < most + HALF_A_MILLI),
            (&bounds.at_least, "at least ", |_, most, limit| most >= limit - HALF_A_MILLI),
            (&bounds.at_most, "at most ", |least, _, limit| least <= limit + HALF_A_MILLI),
        ];
        for (limit, word, holds) in limits {
            let Some(quantity) = limit else { continue };
            let limit = match value {
                Value::Time(_) => quantity.seconds(self.names)?.map(Value::Time),
                Value::Plain(_) => quantity.number(self.names)?.map(Value::Plain),
            };
            let Some(limit) = limit else { return Ok(wrong(format!("`{quantity}` never came"))) };
            if holds(least, most, number(limit)) {
                // What holds only by slack is shown as what it is taken for.
                if !holds(number(shown), number(shown), number(limit)) {
                    shown = limit;
                }
            } else {
                good = false;
                wanted.push(format!("{word}{}", limit.shown()));
            }
        }
        let seen = phrase(&(if good { shown } else { value }).shown());
        let seen = if good { seen } else { format!("{seen}, not {}", wanted.join(" and ")) };
        Ok(Finding { good, seen })
    }
}

/// Instants are whole milliseconds.
const HALF_A_MILLI: f64 = 0.000_5;

fn wrong(seen: String) -> Finding {
    Finding { good: false, seen }
}

fn times(n: &str) -> String {
    match n {
        "0" => "never".to_owned(),
        "1" => "once".to_owned(),
        n => format!("{n} times"),
    }
}

/// Returns the span as a person reads it.
fn spoken(asked: &Span) -> String {
    let of = asked.of.as_ref().map(|of| format!(" by {of}"));
    let span = match (&asked.after, &asked.before) {
        (None, None) => None,
        (Some(after), None) => Some(format!(" from {after}")),
        (None, Some(before)) => Some(format!(" before {before}")),
        (Some(after), Some(before)) => Some(format!(" between {after} and {before}")),
    };
    [of, span].into_iter().flatten().collect()
}
