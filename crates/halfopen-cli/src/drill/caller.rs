//! Carries calls through in virtual time: ask the door, wait if that helps, attempt, settle, decide, again.
//!
//! This is the loop that `run/call.rs` and the gateway have, without processes and sockets: the same questions to the
//! same door in the same order. It is written a second time on purpose. The drill shows what a policy does; that a
//! surface asks the door at all is shown by driving that surface (`--through`, and the tests of each).

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use halfopen::handle::{Handle, Route};
use halfopen_core::outcome::{Exit, Reached};
use halfopen_core::pair::{Answer as Admitted, Pass, Side};
use halfopen_core::permit::{Ask, Permit, PermitKind, Refusal, RefusalReason};
use halfopen_core::policy::{OnOpenAction, Policy, Replay};
use halfopen_core::retry::{self, CallSoFar, CommandRerun, Decision, GiveUp, Recent, Repeatable};
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{About, Class, Verdict};

use super::quantity::{Names, span};
use super::scenario::{Answer, Group, Leaves};
use super::spoken::{self, Meaning, Said, Stated, Tongue};
use super::trace::{End, Seen, Sent};
use super::worker::Queued;
use super::world::{Due, PlayError, World};

/// How long a caller that waits for somebody else's probe stays away, half to one and a half times.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// Nobody asks the door again sooner.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// How far back retries count against the budget.
const BUDGET_SPAN: Duration = Duration::from_secs(60);
/// How long an answer takes where the scenario does not say, if the timeout allows.
const TAKES: Duration = Duration::from_secs(1);
/// How long a process lives on that is about to go away in the middle of an attempt.
pub(super) const LEAVES_AFTER: Duration = Duration::from_millis(500);

/// One call under way.
#[derive(Debug)]
pub(super) struct Call {
    group: usize,
    nth: usize,
    process: usize,
    route: Route,
    began_at: Timestamp,
    ask: Ask,
    attempt: Option<Attempt>,
    held_back: Vec<Side>,
    unspaced: Vec<Timestamp>,
}

/// One attempt under way.
#[derive(Debug)]
struct Attempt {
    /// The pass; `None` if it went past the door, which only happens under a mutation.
    pass: Option<Pass>,
    started_at: Timestamp,
    /// Its place among what was sent.
    sent: usize,
    said: Said,
    leaves: Option<Leaves>,
}

impl World<'_> {
    /// A call begins.
    pub(super) fn begin(&mut self, group: usize, nth: usize) -> Result<(), PlayError> {
        let spec = &self.scenario.calls[group];
        let process = if self.mechanisms.share_a_store() { nth % self.doors() } else { self.open_door()? };
        let began_at = self.now();
        let call = self.calls.len();
        self.calls.push(Call {
            group,
            nth,
            process,
            route: self.route(spec, nth)?,
            began_at,
            ask: Ask::Fresh,
            attempt: None,
            held_back: Vec::new(),
            unspaced: Vec::new(),
        });
        self.figures.calls += 1;
        self.trace.calls.push(Seen {
            group: spec.name.clone(),
            began_at,
            ended: None,
            attempts: 0,
            slept: Duration::ZERO,
            class: None,
            job: None,
            job_state: None,
        });
        if spec.queued {
            let end = match self.enqueue(call, None, None)? {
                Queued::Accepted => End::OnOpen(OnOpenAction::Queue),
                Queued::BeyondTtl | Queued::NotDurable => End::Failed,
            };
            return self.end(call, end);
        }
        self.ask(call)
    }

    /// Returns the process, the group and the circuits of a call.
    pub(super) fn of_call(&self, call: usize) -> (usize, usize, Route) {
        let state = &self.calls[call];
        (state.process, state.group, state.route.clone())
    }

    /// A call asks the door.
    pub(super) fn ask(&mut self, call: usize) -> Result<(), PlayError> {
        let ask = self.mechanisms.ask(self.calls[call].ask);
        let state = &self.calls[call];
        match self.door(state.process).admit(&state.route, &self.policy, ask) {
            Admitted::Granted(pass) => {
                self.calls[call].held_back.clear();
                self.try_cheaply(call, pass)
            }
            Admitted::Refused { refusal, .. } if !self.mechanisms.obey(&refusal) => self.start(call, None),
            Admitted::Refused { side, refusal } => self.refused(call, side, &refusal),
        }
    }

    /// Tries the policy's cheap probe before real work is risked as one. It may fail the round; it may not deliver the
    /// success that closes the circuit.
    fn try_cheaply(&mut self, call: usize, pass: Pass) -> Result<(), PlayError> {
        if self.policy.probe.is_none() || !is_probe(&pass) {
            return self.start(call, Some(pass));
        }
        self.trace.cheap_probes += 1;
        if self.cheap_probe_is_well()? {
            return self.start(call, Some(pass));
        }
        self.figures.probes += 1;
        let failed = Verdict::plain(Class::ServerError, "drill/probe", Reached::Answered);
        self.settle(call, pass, &failed);
        self.ask(call)
    }

    /// The door said no: wait for it, or do what `on_open` says.
    fn refused(&mut self, call: usize, side: Side, refusal: &Refusal) -> Result<(), PlayError> {
        let now = self.now();
        self.figures.refused += 1;
        let Some(at) = self.worth_waiting(call, refusal) else {
            let end = self.apply_on_open(call, refusal.retry_at)?;
            return self.end(call, end);
        };
        self.hold_back(call, side);
        let at = match refusal.reason {
            // A probe is judged as soon as it answers, long before its lease is over.
            RefusalReason::ProbesOut => at.min(now + ASK_AGAIN.mul_f64(0.5 + self.chance().unit())),
            RefusalReason::Open | RefusalReason::Throttled | RefusalReason::Ramp | RefusalReason::Held => at,
        };
        self.sleep(call, at.max(now + PAUSE_MIN), Ask::Waited(refusal.slot));
        Ok(())
    }

    /// Returns until when a refusal is waited for, if it is.
    fn worth_waiting(&self, call: usize, refusal: &Refusal) -> Option<Timestamp> {
        let at = refusal.retry_at?;
        let (wait, max_wait) = (self.policy.on_open.wait, self.policy.retry.max_wait);
        let longest = match refusal.reason {
            RefusalReason::Throttled | RefusalReason::Ramp => max_wait.max(wait),
            RefusalReason::Open | RefusalReason::ProbesOut | RefusalReason::Held => wait,
        };
        let deadline = self.policy.retry.deadline.map(|deadline| self.calls[call].began_at + deadline);
        (self.now().until(at) <= longest && deadline.is_none_or(|deadline| at < deadline)).then_some(at)
    }

    /// Notes that a caller is going to come back, once for each time that it is held.
    fn hold_back(&mut self, call: usize, side: Side) {
        let state = &mut self.calls[call];
        if !state.held_back.contains(&side) {
            state.held_back.push(side);
            let state = &self.calls[call];
            self.door(state.process).hold_back(&state.route, &self.policy, side);
        }
    }

    fn sleep(&mut self, call: usize, at: Timestamp, ask: Ask) {
        let slept = self.now().until(at);
        let seen = &mut self.trace.calls[call];
        seen.slept = seen.slept.max(slept);
        self.figures.waits += 1;
        self.calls[call].ask = ask;
        self.at(at, Due::Ask { call });
    }

    /// An attempt reaches the dependency.
    fn start(&mut self, call: usize, pass: Option<Pass>) -> Result<(), PlayError> {
        let now = self.now();
        let group = self.calls[call].group;
        let spec: &Group = &self.scenario.calls[group];
        self.trace.calls[call].attempts += 1;
        let attempt = self.trace.calls[call].attempts;
        let Sending { said, takes, done } = self.sending(group, attempt)?;
        let probe = pass.as_ref().is_some_and(is_probe);
        let tracked = pass.as_ref().is_some_and(is_tracked);
        self.figures.probes += u64::from(probe);
        self.trace.sent.push(Sent { at: now, call, probe, ended_at: None, done });
        let sent = self.trace.sent.len() - 1;
        self.calls[call].attempt = Some(Attempt { pass, started_at: now, sent, said, leaves: spec.leaves });
        match (&spec.reports, spec.leaves) {
            // A frozen process renews nothing.
            (Some(reports), _) => return self.when(reports.clone(), Due::Ends { call }),
            (None, Some(_)) => self.at(now + LEAVES_AFTER.min(takes), Due::Ends { call }),
            (None, None) => self.at(now + takes, Due::Ends { call }),
        }
        if tracked {
            self.at(now + self.renew_every(), Due::Renew { call, attempt });
        }
        Ok(())
    }

    /// Returns what an attempt that starts now comes to.
    pub(super) fn sending(&self, group: usize, attempt: u32) -> Result<Sending, PlayError> {
        let answer = self.answer(&self.scenario.calls[group], attempt)?;
        let timeout = self.rehearsal.policy.timeout.unwrap_or(Duration::MAX);
        let (meaning, takes) = lasting(answer, &self.names, timeout)?;
        let wait = answer.retry_after.as_ref().map(|wait| wait.seconds(&self.names)).transpose()?.flatten();
        let stated = wait.map(|seconds| Stated { seconds, written_as: answer.written_as });
        // The answer states its wait when it is given.
        #[expect(clippy::cast_possible_truncation, reason = "an answer takes less than a century")]
        let wall_ms = self.read_clock().wall_ms.saturating_add(takes.as_millis() as i64);
        let done = matches!(meaning, Meaning::Ok | Meaning::OkExplainsLimits);
        Ok(Sending { said: spoken::said(meaning, stated, wall_ms), takes, done })
    }

    /// Reads what the dependency said.
    pub(super) fn judge(&mut self, said: &Said, took: Duration) -> Verdict {
        let (read_at, searched) = (self.read_clock(), self.mechanisms.success_searched());
        let rehearsal = self.rehearsal;
        let verdict = spoken::judged(&rehearsal.classifier, rehearsal.tongue, said, took, &read_at, searched);
        let verdict = self.mechanisms.verdict(verdict);
        self.count(&verdict);
        verdict
    }

    pub(super) fn renew_every(&self) -> Duration {
        self.policy.circuit.probe_lease.min(self.policy.circuit.lease) / 3
    }

    /// A living process renews its lease.
    pub(super) fn renew(&mut self, call: usize, attempt: u32) {
        if self.trace.calls[call].attempts != attempt {
            return;
        }
        let state = &self.calls[call];
        let Some(Attempt { pass: Some(pass), .. }) = &state.attempt else { return };
        if self.door(state.process).renew(&state.route, &self.policy, pass) {
            self.at(self.now() + self.renew_every(), Due::Renew { call, attempt });
        }
    }

    /// An attempt ends: it is judged, settled, and the call decides what comes next.
    pub(super) fn attempt_ends(&mut self, call: usize) -> Result<(), PlayError> {
        let Some(attempt) = self.calls[call].attempt.take() else { return Ok(()) };
        let now = self.now();
        self.trace.sent[attempt.sent].ended_at = Some(now);
        if let Some(leaves) = attempt.leaves {
            self.trace.sent[attempt.sent].done = false;
            self.leave(call, attempt.pass, leaves);
            return self.end(call, End::Left);
        }
        let took = attempt.started_at.until(now);
        let verdict = self.judge(&attempt.said, took);
        self.trace.calls[call].class = Some(verdict.class);
        if let Some(pass) = attempt.pass {
            self.settle(call, pass, &verdict);
        }
        self.decide(call, &verdict, attempt.said.exit(), took)
    }

    fn settle(&mut self, call: usize, pass: Pass, verdict: &Verdict) {
        let state = &self.calls[call];
        let door = self.door(state.process);
        let view = door.circuit(&state.route.place, &self.policy).ok().flatten();
        let generation = view.map_or(pass.place.generation, |view| view.status.generation);
        if let Some(pass) = self.mechanisms.settled(pass, verdict, generation, self.now()) {
            let events = door.settle(&state.route, &self.policy, pass, verdict);
            self.figures.opened += events.iter().filter(|event| event.event == "tripped").count() as u64;
        }
    }

    /// A process goes away in the middle of an attempt.
    fn leave(&mut self, call: usize, pass: Option<Pass>, leaves: Leaves) {
        let Some(pass) = pass.filter(|_| self.mechanisms.give_back()) else { return };
        let state = &self.calls[call];
        let (door, route, policy) = (self.door(state.process), &state.route, &self.policy);
        match leaves {
            Leaves::NotFound | Leaves::Cancelled => door.give_back(route, policy, pass),
            Leaves::Panic => {
                let guarded = AssertUnwindSafe(|| {
                    let _held = Held { door, route, policy, pass: Some(pass) };
                    resume_unwind(Box::new("a panic inside the guarded section"));
                });
                let _ = catch_unwind(guarded);
            }
            Leaves::Killed => {}
        }
    }

    /// Decides whether there is another attempt, and when.
    fn decide(&mut self, call: usize, verdict: &Verdict, exit: Exit, took: Duration) -> Result<(), PlayError> {
        let now = self.now();
        let group = self.calls[call].group;
        let mut so_far = self.so_far(call, exit, took);
        let mut policy = self.policy.clone();
        if let Some(most) = &self.scenario.calls[group].attempts {
            let most = most.number(&self.names)?.unwrap_or(1.0).clamp(1.0, 1_000_000.0);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was clamped")]
            let most = std::num::NonZeroU32::new(most as u32).unwrap_or(std::num::NonZeroU32::MIN);
            policy.retry.max_attempts = most;
        }
        let chance = self.chance();
        let mut decision = retry::decide(&policy, &so_far, verdict, now, chance);
        if self.mechanisms.resend_unknown() && matches!(decision, Decision::GiveUp(GiveUp::UnknownEnd)) {
            so_far.repeatable = Repeatable::Yes;
            decision = retry::decide(&policy, &so_far, verdict, now, chance);
        }
        match decision {
            Decision::Finish => self.end(call, End::Success),
            Decision::RetryAt(at) => {
                let ask = match &verdict.hint {
                    Some(_) => {
                        let on_account = verdict.about == About::Account && self.calls[call].route.account.is_some();
                        self.hold_back(call, if on_account { Side::Account } else { Side::Place });
                        Ask::Waited(None)
                    }
                    None => {
                        self.calls[call].unspaced.push(now);
                        Ask::Fresh
                    }
                };
                self.sleep(call, at, ask);
                Ok(())
            }
            Decision::GiveUp(GiveUp::UnknownEnd | GiveUp::WorkShown) => self.end(call, End::Unknown),
            Decision::GiveUp(
                GiveUp::AttemptsUsed
                | GiveUp::Forbidden
                | GiveUp::WaitTooLong { .. }
                | GiveUp::DeadlineTooNear
                | GiveUp::BudgetUsed
                | GiveUp::DoesNotHeal,
            ) => {
                let hint = verdict.hint.as_ref().filter(|_| self.policy.retry.honor_retry_after);
                let end = if verdict.class.heals() {
                    self.apply_on_open(call, hint.map(|hint| hint.until))?
                } else {
                    End::Failed
                };
                self.end(call, end)
            }
        }
    }

    /// Returns what a further run of a command depends on, if the dependency is one.
    pub(super) fn command_rerun(&self, timed_out: bool) -> Option<CommandRerun> {
        let never = self.policy.replay == Replay::Never;
        let defaults = self.rehearsal.classifier.defaults();
        (self.rehearsal.tongue == Tongue::Command).then_some(CommandRerun {
            rerun_within: if never { Duration::ZERO } else { self.policy.rerun_within },
            effects: never || defaults.failed_attempts_have_effects,
            timed_out,
        })
    }

    fn so_far(&self, call: usize, exit: Exit, took: Duration) -> CallSoFar {
        let state = &self.calls[call];
        let now = self.now();
        let retries = state.unspaced.iter().filter(|at| at.until(now) < BUDGET_SPAN).count();
        CallSoFar {
            attempts: self.trace.calls[call].attempts,
            started_at: state.began_at,
            last_took: took,
            repeatable: if self.policy.replay == Replay::Always { Repeatable::Yes } else { Repeatable::No },
            command: self.command_rerun(exit == Exit::TimedOut),
            recent: Recent { calls: 1, retries: u32::try_from(retries).unwrap_or(u32::MAX) },
            max_wait: self.policy.retry.max_wait,
        }
    }

    fn end(&mut self, call: usize, end: End) -> Result<(), PlayError> {
        let now = self.now();
        self.trace.calls[call].ended = Some((now, end));
        self.figures.degraded += u64::from(end != End::Success);
        let Call { group, nth, .. } = self.calls[call];
        let spec = &self.scenario.calls[group];
        if spec.one_by_one && nth + 1 < self.count_of(spec)? {
            let every = spec.every.as_ref().map_or(Ok(Some(0.0)), |every| every.seconds(&self.names))?;
            self.at(now + span(every.unwrap_or(0.0)), Due::Begin { group, nth: nth + 1 });
        }
        Ok(())
    }

    /// Counts what an attempt was, for the activation line.
    fn count(&mut self, verdict: &Verdict) {
        let figures = &mut self.figures;
        match verdict.class {
            Class::Success => return,
            Class::RateLimited => figures.rate_limited += 1,
            Class::Overloaded => figures.overloaded += 1,
            Class::UnknownFailure => figures.unclassified += 1,
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

/// What an attempt comes to.
#[derive(Debug)]
pub(super) struct Sending {
    /// What is said.
    pub(super) said: Said,
    /// How long it takes.
    pub(super) takes: Duration,
    /// Whether the dependency does what was asked.
    pub(super) done: bool,
}

/// Returns what an answer comes to within a timeout, and after how long.
pub(super) fn lasting(answer: &Answer, names: &Names, timeout: Duration) -> Result<(Meaning, Duration), PlayError> {
    let takes = match &answer.takes {
        Some(takes) => takes.seconds(names)?.map_or(TAKES, span),
        None => TAKES.min(timeout / 4),
    };
    let late = answer.answer == Meaning::Late || takes >= timeout;
    Ok(if late { (Meaning::Late, timeout) } else { (answer.answer, takes) })
}

/// Gives a pass back while the stack unwinds, as every surface's guard does.
struct Held<'a> {
    door: &'a Handle,
    route: &'a Route,
    policy: &'a Policy,
    pass: Option<Pass>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.door.give_back(self.route, self.policy, pass);
        }
    }
}

fn is_probe(pass: &Pass) -> bool {
    let probe = |permit: &Permit| permit.kind == PermitKind::Probe;
    probe(&pass.place) || pass.account.as_ref().is_some_and(probe)
}

fn is_tracked(pass: &Pass) -> bool {
    is_probe(pass) || pass.place.ramped || pass.account.as_ref().is_some_and(|permit| permit.ramped)
}
