//! Carries one call through: ask the door, wait if that helps, run, judge, decide, again.
//!
//! This is the whole loop of `halfopen run`, to be read aloud. Waiting holds no permit and uses no attempt; whoever has
//! waited asks the door again. Nothing here decides what a verdict means for a circuit or for a repetition: the core
//! does. What is decided here is what only a wrapper can know: that output has been seen by somebody, that input cannot
//! be given twice, that a person has pressed a key.

use std::time::{Duration, Instant};

use halfopen::activation::Figures;
use halfopen::handle::Handle;
use halfopen_core::chance::Chance;
use halfopen_core::outcome::{Exit, Reached};
use halfopen_core::pair::{Answer, Side};
use halfopen_core::permit::{Ask, Refusal, RefusalReason};
use halfopen_core::policy::{ProbeWith, Replay};
use halfopen_core::retry::{self, CallSoFar, CommandRerun, Decision, GiveUp, Recent, Repeatable};
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{About, Class, EvidenceKind, Verdict};
use rustix::process::Signal;

use super::RunArgs;
use super::attempt::{self, Attempted};
use super::child::signals::{Attended, Signals};
use super::child::source::{Again, Source};
use super::child::{Limits, Out, Spec};
use super::door;
use super::earlier::Earlier;
use super::ending::{Done, Ending, Last, Reason};
use super::guard::Guard;
use super::nested::Outer;
use super::plan::Plan;
use super::resume::Session;
use super::say;
use super::trace::Trace;
use super::wait::{self, Notice, Woke};

/// How long a child that is to end may take for it.
const GRACE: Duration = Duration::from_millis(2_500);
/// No attempt starts with less than this left of the call's deadline, or a tenth of it, if that is less.
const ATTEMPT_MIN: Duration = Duration::from_secs(1);
/// How long a caller that waits for somebody else's probe stays away, half to one and a half times.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// Nobody asks the door again sooner.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// How long the cheap command before a probe may take.
const CHEAP_TIMEOUT: Duration = Duration::from_secs(30);
/// How far back retries count against the budget.
const BUDGET_SPAN: Duration = Duration::from_secs(60);

/// One call of a command.
pub(super) struct Call<'a> {
    plan: &'a Plan,
    args: &'a RunArgs,
    handle: &'a Handle,
    signals: &'a mut Signals,
    attended: Attended,
    source: Source,
    session: Option<Session<'a>>,
    started: Instant,
    started_at: Timestamp,
    attempts: u32,
    /// When attempts were repeated without a hint that had spaced them.
    unspaced: Vec<Instant>,
    /// At which circuits we count among those who wait.
    held_back: Vec<Side>,
    figures: Figures,
    unclassified: Vec<String>,
    last: Option<Last>,
    /// Where it is recorded.
    trace: Option<Box<Trace>>,
}

impl<'a> Call<'a> {
    /// Returns a call that has not begun.
    pub(super) fn new(
        plan: &'a Plan,
        args: &'a RunArgs,
        handle: &'a Handle,
        signals: &'a mut Signals,
        attended: Attended,
        source: Source,
    ) -> Self {
        let how = plan.classifier.defaults().resume.as_ref();
        Self {
            plan,
            args,
            handle,
            signals,
            attended,
            source,
            session: how.filter(|_| args.resume).zip(plan.tool_at).map(|(how, at)| Session::new(how, at)),
            started: Instant::now(),
            started_at: handle.clock().now(),
            attempts: 0,
            unspaced: Vec::new(),
            held_back: Vec::new(),
            figures: Figures { calls: 1, ..Figures::default() },
            unclassified: Vec::new(),
            last: None,
            trace: Trace::begin(plan),
        }
    }

    /// Carries it through.
    #[must_use]
    pub(super) fn carry_through(mut self) -> Done {
        let ending = self.until_it_ends();
        if ending.is_degraded() {
            self.figures.degraded += 1;
        }
        Done {
            ending,
            goes_on: self.attempts > 0 && self.goes_on().is_some(),
            source: self.source,
            attempts: self.attempts,
            elapsed: self.started.elapsed(),
            figures: self.figures,
            unclassified: self.unclassified,
            trace: self.trace,
        }
    }

    /// Leaves it: an earlier job stands before it.
    #[must_use]
    pub(super) fn not_begun(self, earlier: Earlier) -> Done {
        Done {
            ending: Ending::Earlier(earlier),
            goes_on: false,
            source: self.source,
            attempts: 0,
            elapsed: self.started.elapsed(),
            figures: self.figures,
            unclassified: self.unclassified,
            trace: self.trace,
        }
    }

    fn until_it_ends(&mut self) -> Ending {
        let mut ask = Ask::Fresh;
        loop {
            let guard = match self.admitted(ask) {
                Ok(guard) => guard,
                Err(ending) => return *ending,
            };
            let guard = match self.tried_cheaply(guard) {
                Ok(Tried::Well(guard)) => guard,
                Ok(Tried::Failed) => {
                    ask = Ask::Waited(None);
                    continue;
                }
                Ok(Tried::Cancelled(signal)) => return Ending::Cancelled { signal, stdout: None },
                Err(error) => return Ending::Broken(error),
            };
            let attempted = match self.attempt(guard) {
                Ok(attempted) => attempted,
                Err(error) => return Ending::Broken(error),
            };
            match self.judged(attempted) {
                Next::End(ending) => return *ending,
                Next::Again { at, ask: next, waits_for } => {
                    let what = say::waits_to_repeat(self.plan, self.attempts, self.last.as_ref());
                    if let Woke::Cancelled(signal) = self.wait(at, Some(what), waits_for) {
                        return Ending::Cancelled { signal, stdout: None };
                    }
                    ask = next;
                }
            }
        }
    }

    /// Asks the door until it lets us through, or until waiting is no longer possible.
    fn admitted(&mut self, mut ask: Ask) -> Result<Guard<'a>, Box<Ending>> {
        let (handle, plan) = (self.handle, self.plan);
        let (route, policy) = (&plan.route, &plan.policy);
        if let Some(pass) = plan.outer.as_ref().and_then(|outer| outer.probe_of(route))
            && handle.renew(route, policy, &pass)
        {
            return Ok(Guard::outers(handle, route, policy, pass));
        }
        let mut said = None;
        let mut refused_for = Vec::new();
        loop {
            let (side, refusal) = match handle.admit(route, policy, ask) {
                Answer::Granted(pass) => {
                    self.held_back.clear();
                    return Ok(Guard::own(handle, route, policy, pass));
                }
                Answer::Refused { side, refusal } => (side, refusal),
            };
            // Whoever asks again for the same reason, or takes its turn to come back, is no further refusal.
            let takes_its_turn = refusal.reason == RefusalReason::Ramp && !self.held_back.is_empty();
            let refused_before = refused_for.contains(&refusal.reason);
            if !refused_before {
                refused_for.push(refusal.reason);
            }
            self.figures.refused += u64::from(!refused_before && !takes_its_turn);
            if plan.observes() {
                return Ok(Guard::without(handle, route, policy));
            }
            let Some(at) = self.worth_waiting(&refusal) else {
                return Err(Box::new(Ending::Refused { side, refusal, last: self.last.take() }));
            };
            self.hold_back(side);
            // One line for each reason to wait, however often we come back to ask.
            let what = (said != Some(refusal.reason)).then(|| say::waits_for_the_door(plan, side, &refusal));
            said = Some(refusal.reason);
            let now = handle.clock().now();
            let (at, waits_for) = match refusal.reason {
                // A probe is judged as soon as it answers, long before its lease is over.
                RefusalReason::ProbesOut => {
                    (at.min(now + ASK_AGAIN.mul_f64(0.5 + fastrand::f64())), WaitsFor::TheInstant)
                }
                RefusalReason::Ramp => (at, WaitsFor::TheInstant),
                RefusalReason::Open | RefusalReason::Throttled | RefusalReason::Held => {
                    (at, WaitsFor::TheCircuit { ends: None })
                }
            };
            if let Woke::Cancelled(signal) = self.wait(at.max(now + PAUSE_MIN), what, waits_for) {
                return Err(Box::new(Ending::Cancelled { signal, stdout: None }));
            }
            ask = Ask::Waited(refusal.slot);
        }
    }

    /// Returns until when a refusal is waited for, if it is.
    fn worth_waiting(&self, refusal: &Refusal) -> Option<Timestamp> {
        let at = refusal.retry_at?;
        let now = self.handle.clock().now();
        let longest = match refusal.reason {
            RefusalReason::Throttled | RefusalReason::Ramp => self.plan.max_wait.max(self.plan.refusal_wait),
            RefusalReason::Open | RefusalReason::ProbesOut | RefusalReason::Held => self.plan.refusal_wait,
        };
        let fits = now.until(at) <= longest && self.deadline().is_none_or(|deadline| at < deadline);
        fits.then_some(at)
    }

    /// Notes that we are going to come back, once for each time that we are held.
    fn hold_back(&mut self, side: Side) {
        if !self.held_back.contains(&side) {
            self.handle.hold_back(&self.plan.route, &self.plan.policy, side);
            self.held_back.push(side);
        }
    }

    /// Waits; `what` is said, unless it has been.
    fn wait(&mut self, at: Timestamp, what: Option<String>, waits_for: WaitsFor) -> Woke {
        self.figures.waits += u64::from(what.is_some());
        let silent = self.args.quiet || what.is_none();
        let (handle, plan) = (self.handle, self.plan);
        let clock = handle.clock();
        let notice = Notice::new(what.unwrap_or_default(), silent);
        match waits_for {
            WaitsFor::TheInstant => wait::until(at, clock, self.signals, notice, None),
            WaitsFor::TheCircuit { ends } => {
                let let_go = || ends.is_none_or(|ends| clock.now() < ends) && door::is_free(handle, plan);
                wait::until(at, clock, self.signals, notice, Some(&let_go))
            }
        }
    }

    /// Returns the instant by which the call must be over.
    fn deadline(&self) -> Option<Timestamp> {
        self.plan.policy.retry.deadline.map(|deadline| self.started_at + deadline)
    }

    /// Runs the policy's cheap command before real work is risked as a probe. It may fail the round; it may not deliver
    /// the success that closes the circuit.
    fn tried_cheaply(&mut self, guard: Guard<'a>) -> std::io::Result<Tried<'a>> {
        let policy = &self.plan.policy;
        let Some(ProbeWith::Command(words)) = policy.probe.as_ref().filter(|_| guard.is_probe()) else {
            return Ok(Tried::Well(guard));
        };
        let command: Vec<std::ffi::OsString> = words.iter().map(std::ffi::OsString::from).collect();
        let spec = Spec {
            command: &command,
            env: &[],
            elsewhere: None,
            attended: self.attended,
            out: Out::Held { bytes_max: policy.stdout_hold_bytes_max },
            limits: Limits {
                timeout: Some(policy.timeout.map_or(CHEAP_TIMEOUT, |timeout| timeout.min(CHEAP_TIMEOUT))),
                first_byte: None,
                idle: None,
                grace: GRACE,
            },
        };
        let (exit, signal) = attempt::cheaply(&spec, &guard, self.signals)?;
        if let Some(signal) = signal {
            return Ok(Tried::Cancelled(signal));
        }
        match exit {
            Exit::Code(0) => Ok(Tried::Well(guard)),
            // Our own fault: it says nothing, and must not keep the circuit open for ever.
            Exit::NotFound | Exit::NotExecutable => {
                crate::ui::warn(&format!("probe command `{}` cannot be run", words.join(" ")));
                Ok(Tried::Well(guard))
            }
            Exit::Code(_) | Exit::Signal(_) | Exit::TimedOut | Exit::Cancelled => {
                let failed = Verdict::plain(Class::ServerError, "halfopen/probe", Reached::Answered);
                let events = guard.settle(&failed);
                self.figures.probes += 1;
                self.figures.opened += events.iter().filter(|event| is_trip(event)).count() as u64;
                Ok(Tried::Failed)
            }
        }
    }

    /// Returns the command that goes on in the tool's session, if that is asked for and possible.
    fn goes_on(&self) -> Option<Vec<std::ffi::OsString>> {
        self.session.as_ref()?.next(&self.args.command, self.source.is_piped())
    }

    /// Makes one attempt.
    fn attempt(&mut self, guard: Guard<'a>) -> std::io::Result<Attempted> {
        let (plan, policy) = (self.plan, &self.plan.policy);
        self.attempts += 1;
        let going_on = if self.attempts > 1 { self.goes_on() } else { None };
        let resumed = going_on.is_some();
        let command = match (going_on, &mut self.session) {
            (Some(command), _) => command,
            (None, Some(session)) => session.first(&self.args.command),
            (None, None) => self.args.command.clone(),
        };
        let told = guard.pass().map(|pass| Outer::told(&plan.route, pass));
        let place = self.trace.as_mut().map(|trace| trace.attempt(self.attempts, command.first()));
        let env = attempt::environment(told, self.args.idempotency_key.as_deref(), place);
        let live = self.args.stream || plan.observes();
        let spec = Spec {
            command: &command,
            env: &env,
            elsewhere: None,
            attended: self.attended,
            out: if live { Out::Live } else { Out::Held { bytes_max: policy.stdout_hold_bytes_max } },
            limits: self.limits(),
        };
        let mut nothing = Source::empty();
        // The prompt may have come this way, and must not be sent again.
        let source = if resumed { &mut nothing } else { &mut self.source };
        let attempted = attempt::make(&spec, &plan.classifier, self.handle.clock(), guard, source, self.signals)?;
        if let Some(trace) = &mut self.trace {
            trace.ended(&attempted);
        }
        Ok(attempted)
    }

    fn limits(&self) -> Limits {
        let policy = &self.plan.policy;
        if self.plan.observes() {
            return Limits { timeout: None, first_byte: None, idle: None, grace: GRACE };
        }
        let left = self.deadline().map(|deadline| self.handle.clock().now().until(deadline));
        Limits {
            timeout: [policy.timeout, left].into_iter().flatten().min(),
            first_byte: policy.first_byte,
            idle: policy.idle,
            grace: GRACE,
        }
    }

    /// Turns an attempt that ended into what comes next.
    fn judged(&mut self, attempted: Attempted) -> Next {
        self.count(&attempted);
        if attempted.reader_gone {
            return Next::End(Box::new(Ending::ReaderGone));
        }
        let exit = attempted.exit;
        let Some(verdict) = attempted.judged else {
            return Next::End(Box::new(match (exit, attempted.cancelled_by) {
                (Exit::NotFound | Exit::NotExecutable, _) => Ending::NotRun { exit },
                (_, signal) => {
                    Ending::Cancelled { signal: signal.unwrap_or(Signal::INT), stdout: Some(attempted.stdout) }
                }
            }));
        };
        if self.plan.observes() {
            let stdout = attempted.stdout;
            return Next::End(Box::new(Ending::Observed { exit, stdout, verdict: Some(verdict) }));
        }
        if let Some(session) = &mut self.session {
            session.named(verdict.session.as_ref());
        }
        let took = attempted.took;
        let seen = attempted.stdout.passed() > 0 && !attempted.to_terminal;
        let decision = self.decide(&verdict, exit, took, seen, attempted.crashed);
        let spaced_by = verdict.hint.as_ref().map(|_| match verdict.about {
            About::Account if self.plan.route.account.is_some() => Side::Account,
            About::Account | About::Place | About::Caller | About::Nobody => Side::Place,
        });
        let last = Last { exit, verdict };
        match decision {
            Ok(at) => {
                let (ask, ends) = if let Some(side) = spaced_by {
                    // Looked at first: whoever sees us wait may lift what we wait for.
                    let ends = door::ends(self.handle, self.plan);
                    // Everybody was told to wait: whoever comes back does so in turn.
                    self.hold_back(side);
                    (Ask::Waited(None), ends)
                } else {
                    self.unspaced.push(Instant::now());
                    (Ask::Fresh, None)
                };
                self.last = Some(last);
                // A hint that throttled no circuit binds this call alone, and nobody can lift it.
                let waits_for = ends.map_or(WaitsFor::TheInstant, |_| WaitsFor::TheCircuit { ends });
                Next::Again { at, ask, waits_for }
            }
            Err(gave_up) => Next::End(Box::new(Ending::Judged { last, stdout: attempted.stdout, gave_up })),
        }
    }

    /// Decides whether there is another attempt, and when.
    fn decide(
        &self,
        verdict: &Verdict,
        exit: Exit,
        took: Duration,
        seen: bool,
        crashed: bool,
    ) -> Result<Timestamp, Option<Reason>> {
        let plan = self.plan;
        let defaults = plan.classifier.defaults();
        let goes_on = self.goes_on().is_some();
        let keyed = plan.honours_key && self.args.idempotency_key.is_some();
        let repeatable = match plan.policy.replay {
            Replay::Always => true,
            Replay::IfIdempotent => keyed || goes_on,
            Replay::Never => goes_on,
        };
        let never = plan.policy.replay == Replay::Never;
        let so_far = CallSoFar {
            attempts: self.attempts,
            started_at: self.started_at,
            last_took: took,
            repeatable: if repeatable { Repeatable::Yes } else { Repeatable::No },
            command: Some(CommandRerun {
                // `never` leaves only what is known to have done nothing: neither time nor the pack's opinion counts.
                rerun_within: if never { Duration::ZERO } else { plan.policy.rerun_within },
                effects: never || defaults.failed_attempts_have_effects,
                timed_out: exit == Exit::TimedOut,
            }),
            recent: Recent {
                calls: 1,
                retries: u32::try_from(self.unspaced.iter().filter(|at| at.elapsed() < BUDGET_SPAN).count())
                    .unwrap_or(u32::MAX),
            },
            max_wait: plan.max_wait,
        };
        let now = self.handle.clock().now();
        let at = match retry::decide(&plan.policy, &so_far, verdict, now, Chance::from_seed(fastrand::u64(..))) {
            Decision::Finish => return Err(None),
            Decision::RetryAt(at) => at,
            Decision::GiveUp(GiveUp::AttemptsUsed) if plan.outer.is_some() => return Err(Some(Reason::Nested)),
            Decision::GiveUp(why) => return Err(Some(Reason::Core(why))),
        };
        if seen {
            return Err(Some(Reason::OutputSeen));
        }
        if self.source.again() == Again::TooLong && !goes_on {
            return Err(Some(Reason::InputTooLong));
        }
        if crashed && self.same_again(verdict, exit) {
            return Err(Some(Reason::SameAgain));
        }
        if let (Some(end), Some(whole)) = (self.deadline(), plan.policy.retry.deadline)
            && at + ATTEMPT_MIN.min(whole / 10) > end
        {
            return Err(Some(Reason::Core(GiveUp::DeadlineTooNear)));
        }
        Ok(at)
    }

    /// Returns whether this failure and the one before are the same, known by their text only: from a crash that quotes
    /// foreign words, and not from an outage.
    fn same_again(&self, verdict: &Verdict, exit: Exit) -> bool {
        self.last.as_ref().is_some_and(|last| {
            verdict.evidence.kind == EvidenceKind::Text
                && verdict.hint.is_none()
                && last.exit == exit
                && last.verdict.class == verdict.class
                && last.verdict.evidence.excerpt == verdict.evidence.excerpt
        })
    }

    /// Counts what an attempt was, for the activation line.
    fn count(&mut self, attempted: &Attempted) {
        let figures = &mut self.figures;
        figures.probes += u64::from(attempted.was_probe);
        figures.opened += attempted.events.iter().filter(|event| is_trip(event)).count() as u64;
        let Some(verdict) = &attempted.judged else { return };
        match verdict.class {
            Class::Success => return,
            Class::RateLimited => figures.rate_limited += 1,
            Class::Overloaded => figures.overloaded += 1,
            Class::UnknownFailure => {
                figures.unclassified += 1;
                self.unclassified.push(verdict.evidence.excerpt.clone());
            }
            Class::UsageLimit
            | Class::Timeout
            | Class::ConnectionFailure
            | Class::ServerError
            | Class::QuotaExhausted
            | Class::Auth
            | Class::InvalidRequest => {}
        }
        figures.failed += 1;
        figures.hints_read += u64::from(verdict.hint.is_some());
    }
}

/// What the cheap command before a probe said.
enum Tried<'a> {
    /// Go on.
    Well(Guard<'a>),
    /// The round has failed: the door must be asked again.
    Failed,
    /// A signal to us ended it.
    Cancelled(Signal),
}

/// What follows an attempt.
enum Next {
    End(Box<Ending>),
    Again { at: Timestamp, ask: Ask, waits_for: WaitsFor },
}

/// What a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitsFor {
    /// Its instant, come what may: a backoff, a turn.
    TheInstant,
    /// A circuit that keeps callers out, which an operator may let go sooner. Once it `ends` by itself the rest of the
    /// wait only spreads those who return.
    TheCircuit { ends: Option<Timestamp> },
}

fn is_trip(event: &EventRecord) -> bool {
    event.event == "tripped"
}
