//! Ends a run: hands on the output, says what there is to say, writes the report and the activation line, returns the
//! code.

use std::io::IsTerminal as _;
use std::os::fd::AsFd as _;

use halfopen::activation;
use halfopen::attendance;
use halfopen::handle::{Handle, StoreHealth};
use halfopen_core::circuit::{LastFailure, Status};
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::event::{By, State};
use halfopen_core::job::{self, JobState};
use halfopen_core::outcome::Exit;
use halfopen_core::pair::Side;
use halfopen_core::permit::RefusalReason;
use halfopen_core::policy::{OnExpiry, OnOpenAction};
use halfopen_core::retry::GiveUp;
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{Class, Verdict};
use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;

use super::RunArgs;
use super::child::poll;
use super::child::signals::{Asked, Signals};
use super::child::sink::{Lost, Outlet, Stdout};
use super::earlier::{self, Earlier};
use super::ending::{Done, Ending, Reason};
use super::keep::{Keeper, Kept, NotKept};
use super::plan::Plan;
use super::report::{Evidence, Failure, Report};
use super::say::{self, Message};
use super::wait::{iso_time, wall_ms_of, wall_now_ms};
use crate::exit::{self, Final};
use crate::{alerts, ui};

/// What is needed to end a run.
pub(super) struct Finish<'a> {
    /// What was planned.
    pub plan: &'a Plan,
    /// What was asked for.
    pub args: &'a RunArgs,
    /// The door.
    pub handle: &'a Handle,
    /// Signals to us, also while output is handed on.
    pub signals: &'a mut Signals,
    /// How well the store served at the beginning.
    pub health: StoreHealth,
}

impl Finish<'_> {
    /// Ends the run; returns its exit code.
    pub(super) fn finish(mut self, mut done: Done) -> u8 {
        let mut report = Report::new(&self.plan.policy.dependency, &self.plan.circuit().to_string());
        report.attempts = done.attempts;
        report.elapsed_s = done.elapsed.as_secs_f64();
        if done.ending.is_degraded() {
            report.user_message.clone_from(&self.plan.policy.on_open.user_message);
        }
        let end = if let Ending::Earlier(earlier) = done.ending {
            self.behind(earlier, &mut done, &mut report)
        } else {
            match self.keep(&mut done) {
                Some(Ok(kept)) => {
                    done.figures.queued += u64::from(!kept.joined);
                    self.kept(&done.ending, &kept, &mut report)
                }
                Some(Err(not_kept)) => self.not_kept(done.ending, &not_kept, &mut report),
                None => self.end(done.ending, &mut report),
            }
        };
        let (code, set_by) = exit::code(end);
        (report.exit_code, report.set_by) = (code, set_by.as_str());
        self.say_if_the_store_was_lost();
        // Whoever is around us need not repeat what succeeded or is going to be done.
        let inside = self.plan.outer.is_some() && report.job_id.is_none() && report.class.as_deref() != Some("success");
        write(&report, self.args, inside);
        self.record(&done.figures, &done.unclassified);
        self.tell_owners(&done.unclassified);
        if let Some(trace) = done.trace {
            trace.send(code, done.attempts);
        }
        code
    }

    /// Ends a call that was not begun: it is an earlier job, or goes behind one.
    fn behind(&mut self, earlier: Earlier, done: &mut Done, report: &mut Report) -> Final {
        let plan = self.plan;
        let queues = plan.policy.on_open.actions.contains(&OnOpenAction::Queue);
        let (id, comes_before) = match earlier {
            Earlier::Same(id) => (id, false),
            Earlier::Before(id) => (id, true),
        };
        report.job_id = Some(id.to_string());
        let not_kept = if comes_before && !queues {
            report.error = Some("order_held".to_owned());
            None
        } else {
            let source = &mut done.source;
            let mut keeper = Keeper {
                plan,
                args: self.args,
                handle: self.handle,
                signals: &mut *self.signals,
                source,
                stated: None,
            };
            match keeper.keep(None) {
                Ok(kept) => {
                    let detail = self.handle.job(kept.receipt.id).ok().flatten();
                    if let Some(detail) = detail.filter(|detail| !detail.view.job.state().is_open()) {
                        report.job_state = Some(detail.view.job.state().as_str());
                        if let Some(end) = earlier::given(detail, self.args.quiet) {
                            return end;
                        }
                    }
                    done.figures.queued += u64::from(!kept.joined);
                    return self.kept(&done.ending, &kept, report);
                }
                Err(NotKept::Cancelled(signal)) => {
                    report.error = Some("cancelled".to_owned());
                    return Final::Cancelled { signal: signal.as_raw() };
                }
                Err(why) => Some(why),
            }
        };
        let circuit = plan.circuit();
        let mut text = match comes_before {
            true => format!("{circuit}: job {id} has this order key, comes before it and has not ended"),
            false => format!("{circuit}: job {id} has this idempotency key"),
        };
        let mut hint = format!("halfopen jobs show {id}");
        if let Some(why) = &not_kept {
            report.not_queued = Some(why.word());
            text.push_str(&format!("; not queued: {why}"));
            hint = why.hint().map_or(hint, str::to_owned);
        }
        self.say(Some(Message { text, hint: Some(hint) }));
        match not_kept {
            Some(NotKept::KeyTaken(_)) => Final::BadUsage,
            Some(NotKept::NotDurable(_)) => Final::NotDurable,
            Some(_) | None => Final::Refused { end_known: true },
        }
    }

    /// Hands on the output and fills in the report.
    fn end(&mut self, ending: Ending, report: &mut Report) -> Final {
        let message = self.undone(&ending, report);
        self.say(message);
        match ending {
            Ending::Judged { last, stdout, .. } => {
                let judged = Final::Judged { class: last.verdict.class, exit: last.exit };
                if exit::passes_output(last.verdict.class) { self.hand_on(stdout, judged, report) } else { judged }
            }
            Ending::Observed { exit, stdout, verdict } => {
                if let Some(verdict) = &verdict {
                    note_verdict(report, verdict, exit);
                }
                self.hand_on(stdout, Final::Observed { exit }, report)
            }
            Ending::NotRun { exit } => {
                let command = self.args.command.first().map(|c| c.to_string_lossy().into_owned()).unwrap_or_default();
                let (error, what) = match exit {
                    Exit::NotFound => ("not_found", "not found"),
                    Exit::NotExecutable | Exit::Code(_) | Exit::Signal(_) | Exit::TimedOut | Exit::Cancelled => {
                        ("not_executable", "cannot be executed")
                    }
                };
                report.error = Some(error.to_owned());
                ui::error(&format!("command `{command}` {what}"));
                Final::Judged { class: Class::UnknownFailure, exit }
            }
            Ending::Refused { refusal, .. } => Final::Refused { end_known: refusal.retry_at.is_some() },
            // `behind` has ended it.
            Ending::Earlier(_) => Final::Refused { end_known: true },
            Ending::Cancelled { signal, stdout } => {
                report.error = Some("cancelled".to_owned());
                let end = Final::Cancelled { signal: signal.as_raw() };
                match stdout {
                    Some(stdout) => self.hand_on(stdout, end, report),
                    None => end,
                }
            }
            Ending::ReaderGone => {
                report.error = Some("reader_gone".to_owned());
                Final::OutputLost { reader_gone: true }
            }
            Ending::Broken(error) => {
                report.error = Some("broken".to_owned());
                ui::error(&format!("cannot run anything: {error}"));
                Final::Judged { class: Class::UnknownFailure, exit: Exit::NotExecutable }
            }
        }
    }

    /// Keeps the call for later, if the policy says so and it may be done later; `None` if neither is the case.
    fn keep(&mut self, done: &mut Done) -> Option<Result<Kept, NotKept>> {
        let at_terminal = std::io::stdout().is_terminal();
        if self.plan.observes() || done.goes_on || !done.ending.may_be_kept(at_terminal) {
            return None;
        }
        let stated = self.stated(&done.ending);
        let (plan, source) = (self.plan, &mut done.source);
        let mut keeper =
            Keeper { plan, args: self.args, handle: self.handle, signals: &mut *self.signals, source, stated };
        let mut first = None;
        for action in &plan.policy.on_open.actions {
            let review = match action {
                OnOpenAction::Queue => None,
                OnOpenAction::ManualReview => Some(job::Reason::Policy),
                OnOpenAction::FailFast => return first.map(Err),
                OnOpenAction::Cache | OnOpenAction::Fallback => continue,
            };
            match keeper.keep(review) {
                Ok(kept) => return Some(Ok(kept)),
                Err(not_kept) => first = first.or(Some(not_kept)),
            }
        }
        match first? {
            NotKept::Beyond(beyond) if plan.policy.on_open.on_expiry == OnExpiry::ManualReview => {
                let kept = keeper.keep(Some(job::Reason::HintBeyondTtl));
                Some(kept.map(|kept| Kept { beyond: Some(beyond), ..kept }))
            }
            not_kept => Some(Err(not_kept)),
        }
    }

    /// Returns before when the call cannot be done, by the dependency's own word: a cooldown of ours is none.
    fn stated(&self, ending: &Ending) -> Option<Timestamp> {
        match ending {
            Ending::Refused { side, refusal, .. } => {
                let stated = match refusal.reason {
                    RefusalReason::Throttled => true,
                    RefusalReason::Open => {
                        self.status(self.circuit(*side)).is_some_and(|status| status.reason == Some("long_wait"))
                    }
                    RefusalReason::ProbesOut | RefusalReason::Ramp | RefusalReason::Held => false,
                };
                refusal.retry_at.filter(|_| stated)
            }
            Ending::Judged { last, .. } => {
                let honours = self.plan.policy.retry.honor_retry_after;
                last.verdict.hint.as_ref().filter(|_| honours).map(|hint| hint.until)
            }
            Ending::Earlier(_)
            | Ending::Observed { .. }
            | Ending::NotRun { .. }
            | Ending::Cancelled { .. }
            | Ending::ReaderGone
            | Ending::Broken(_) => None,
        }
    }

    /// Says what was kept: the job's id on standard output and nothing else, the rest on standard error.
    fn kept(&mut self, ending: &Ending, kept: &Kept, report: &mut Report) -> Final {
        let clock = self.handle.clock();
        let why = self.undone(ending, report);
        let receipt = &kept.receipt;
        report.job_id = Some(receipt.id.to_string());
        report.job_state = Some(receipt.state.as_str());
        report.job_expires_at = iso_time(receipt.expires_at, clock);
        let kept = say::kept(self.plan, kept, report.user_message.as_deref(), clock);
        let text = why.into_iter().map(|message| message.text).chain([kept.text]).collect::<Vec<_>>().join("\n");
        self.say(Some(Message { text, hint: kept.hint }));
        ui::data(&receipt.id.to_string());
        if receipt.state == JobState::Queued && !self.args.quiet && attendance::is_missed(&self.plan.store) {
            ui::warn(&say::nobody_works(&self.plan.store, self.plan.policy_file()));
        }
        Final::Queued
    }

    /// Ends a call that was to be kept and was not, as if nobody had asked for that, and says why.
    fn not_kept(&mut self, ending: Ending, not_kept: &NotKept, report: &mut Report) -> Final {
        if let NotKept::Cancelled(signal) = not_kept {
            report.error = Some("cancelled".to_owned());
            return Final::Cancelled { signal: signal.as_raw() };
        }
        let refused = matches!(ending, Ending::Refused { .. });
        let end = self.end(ending, report);
        report.not_queued = Some(not_kept.word());
        let text = format!("{}: not queued: {not_kept}", self.plan.circuit());
        self.say(Some(Message { text, hint: not_kept.hint().map(str::to_owned) }));
        // A store that cannot keep anything is not healed by coming back later.
        if refused && matches!(not_kept, NotKept::NotDurable(_)) { Final::NotDurable } else { end }
    }

    /// Fills in why a call was not done; returns what to say about it.
    fn undone(&self, ending: &Ending, report: &mut Report) -> Option<Message> {
        let clock = self.handle.clock();
        match ending {
            Ending::Refused { side, refusal, last } => {
                let behind = self.last_failure(*side);
                if let Some(last) = last {
                    note_verdict(report, &last.verdict, last.exit);
                } else {
                    report.class = behind.as_ref().map(|behind| behind.class.to_string());
                }
                report.circuit = say::circuit_of(self.plan, *side);
                report.error = Some(say::error_of(refusal.reason).to_owned());
                report.last_failure = behind.as_ref().map(Failure::remembered);
                self.note_time(report, refusal.retry_at);
                let held = self.held_by(*side);
                Some(say::refused(self.plan, *side, refusal, held.as_ref(), behind.as_ref(), clock))
            }
            Ending::Judged { last, gave_up, .. } => {
                note_verdict(report, &last.verdict, last.exit);
                report.gave_up = gave_up.map(Reason::as_str);
                let again_at = self.again_at(&last.verdict, *gave_up);
                self.note_time(report, again_at);
                say::failed(self.plan, last, *gave_up, again_at, report.attempts, clock)
            }
            Ending::Earlier(_)
            | Ending::Observed { .. }
            | Ending::NotRun { .. }
            | Ending::Cancelled { .. }
            | Ending::ReaderGone
            | Ending::Broken(_) => None,
        }
    }

    /// Passes on what was held; a signal to us ends that too.
    fn hand_on(&mut self, stdout: Stdout, end: Final, report: &mut Report) -> Final {
        let lost = match stdout {
            Stdout::Held { held, .. } if held.bytes() == 0 => None,
            Stdout::Held { held, .. } => {
                let mut releasing = held.release();
                match Outlet::new(std::io::stdout().as_fd()) {
                    Err(_) => Some(Lost::Failed(rustix::io::Errno::BADF)),
                    Ok(mut outlet) => loop {
                        if let Some(signal) = self.wait_for_room(&outlet) {
                            report.error = Some("cancelled".to_owned());
                            return Final::Cancelled { signal: signal.as_raw() };
                        }
                        if releasing.step(&mut outlet) {
                            break outlet.lost();
                        }
                    },
                }
            }
            passed @ (Stdout::LettingGo { .. } | Stdout::Live(_) | Stdout::Broken) => passed.lost(),
        };
        match lost {
            None => end,
            Some(lost) => {
                report.error = Some("output_lost".to_owned());
                if let Lost::Failed(error) = lost {
                    ui::error(&format!("standard output cannot be written: {error}"));
                }
                // A failure of the command itself says more than the loss of what it printed about it.
                if exit::code(end).0 == 0 { Final::OutputLost { reader_gone: lost == Lost::ReaderGone } } else { end }
            }
        }
    }

    /// Waits until the outlet takes a piece; returns the signal that ends the wait.
    fn wait_for_room(&mut self, outlet: &Outlet) -> Option<Signal> {
        loop {
            let mut fds = [
                PollFd::from_borrowed_fd(outlet.fd(), PollFlags::OUT),
                PollFd::from_borrowed_fd(self.signals.fd(), PollFlags::IN),
            ];
            if poll(&mut fds, None).is_err() || !fds[0].revents().is_empty() {
                return None;
            }
            for asked in self.signals.take() {
                match asked {
                    Asked::End(signal) => return Some(signal),
                    Asked::Pause => {
                        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
                    }
                    Asked::PassOn(_) | Asked::WindowChanged => {}
                }
            }
        }
    }

    fn note_time(&self, report: &mut Report, at: Option<Timestamp>) {
        let clock = self.handle.clock();
        if let Some(at) = at {
            report.retry_at = iso_time(at, clock);
            report.retry_at_ms = Some(wall_ms_of(at, clock.now(), wall_now_ms()));
        }
    }

    fn say(&self, message: Option<Message>) {
        match message {
            Some(Message { text, hint: Some(hint) }) if !self.args.quiet => ui::say_with_hint(&text, &hint),
            Some(Message { text, hint: None }) if !self.args.quiet => ui::say(&text),
            Some(_) | None => {}
        }
    }

    fn say_if_the_store_was_lost(&self) {
        if self.health == StoreHealth::Good
            && let Some(warning) = say::store_warning(&self.handle.health())
        {
            ui::warn(&warning);
        }
    }

    /// Returns when a call that failed can be made again, as far as that is known: not before the time that was stated,
    /// and not before its circuits let it through.
    fn again_at(&self, verdict: &Verdict, gave_up: Option<Reason>) -> Option<Timestamp> {
        if !verdict.class.heals() && verdict.class != Class::QuotaExhausted {
            return None;
        }
        let route = &self.plan.route;
        let circuits = [Some(&route.place), route.account.as_ref()].into_iter().flatten();
        let held =
            circuits.filter_map(|id| self.status(id)).flat_map(|status| [status.open_until, status.throttled_until]);
        let stated = match gave_up {
            Some(Reason::Core(GiveUp::WaitTooLong { retry_at })) => Some(retry_at),
            Some(_) | None => verdict.hint.as_ref().map(|hint| hint.until),
        };
        held.chain([stated]).flatten().max()
    }

    fn status(&self, id: &CircuitId) -> Option<Status> {
        Some(self.handle.why(id, &self.plan.policy).ok().flatten()?.view.status)
    }

    /// Returns the last failure that a circuit of ours saw, for an error that must name its cause.
    fn last_failure(&self, side: Side) -> Option<LastFailure> {
        self.status(self.circuit(side))?.last_failure
    }

    /// Returns the operator who holds a circuit of ours open.
    fn held_by(&self, side: Side) -> Option<By> {
        let hold = self.status(self.circuit(side))?.hold?;
        (hold.state != State::Closed).then_some(hold.by)
    }

    fn circuit(&self, side: Side) -> &CircuitId {
        match (side, &self.plan.route.account) {
            (Side::Account, Some(account)) => account,
            (Side::Place | Side::Account, _) => &self.plan.route.place,
        }
    }

    /// Sends the alerts that are due, this call's own and whatever others left, when everything else is done: the caller
    /// has its output, and waits at most five seconds more, and only where an alert is due.
    fn tell_owners(&self, unclassified: &[String]) {
        let (handle, config, store) = (self.handle, self.plan.config(), &self.plan.store);
        if !unclassified.is_empty() {
            alerts::watch::figures(handle, config, store);
        }
        alerts::deliver(handle, config, store);
    }

    /// Leaves the line that says that the protection was there, also if nothing happened.
    fn record(&self, figures: &activation::Figures, unclassified: &[String]) {
        let name = &self.plan.policy.dependency;
        match activation::record(&self.plan.store, name, figures, unclassified, wall_now_ms()) {
            Ok(recorded) if recorded.store_anew && !self.args.quiet => ui::warn(
                "the store was created anew on three runs in a row, so nothing is remembered: \
                 a container without a volume, or another HOME each time? set HALFOPEN_STORE",
            ),
            Ok(_) => {}
            Err(error) if !self.args.quiet => ui::warn(&error.to_string()),
            Err(_) => {}
        }
    }
}

fn note_verdict(report: &mut Report, verdict: &Verdict, exit: Exit) {
    report.class = Some(verdict.class.to_string());
    report.rule = Some(verdict.rule.clone());
    report.evidence = Evidence::of(verdict);
    report.session.clone_from(&verdict.session);
    report.command_code = match exit {
        Exit::Code(code) => Some(code),
        Exit::Signal(_) | Exit::TimedOut | Exit::Cancelled | Exit::NotFound | Exit::NotExecutable => None,
    };
}

/// Writes the report where it was asked for, and, `inside` another run, where that one reads it.
pub(super) fn write(report: &Report, args: &RunArgs, inside: bool) {
    if let Some(path) = &args.report
        && let Err(error) = report.write(path)
    {
        ui::error(&format!("report {} cannot be written: {error}", path.display()));
    }
    if args.json || inside {
        ui::raw(&report.line());
    }
}
