//! `halfopen run`: wraps a command.
//!
//! One process, one thread, one child at a time: plan, open the store, carry the call through, hand on what the command
//! wrote, report. The way of one attempt is `call` → `attempt` → `child`; what a run says and writes about itself is
//! `say` and `report`.

mod args;
mod attempt;
mod behind;
mod call;
pub mod child;
mod door;
mod earlier;
mod ending;
mod finish;
mod guard;
mod job;
mod keep;
mod nested;
mod plan;
mod report;
mod resume;
mod say;
mod trace;
mod wait;

use std::io::IsTerminal as _;

use halfopen::handle::{Handle, StoreHealth};

pub use args::{ActionArg, RunArgs};
pub(crate) use job::CommandPerformer;

use crate::args::Shared;
use crate::exit::{self, Final};
use crate::ui;
use call::Call;
use child::signals::{Attended, Signals};
use child::source::Source;
use finish::Finish;
use plan::{Plan, PlanError};
use report::Report;

/// Runs a command; returns the exit code.
#[must_use]
pub fn run(shared: &Shared, args: &RunArgs) -> u8 {
    let mut plan = match Plan::make(shared, args) {
        Ok(plan) => plan,
        Err(error) => return not_begun(args, &error),
    };
    let handle = match Handle::open(&plan.store) {
        Ok(handle) => handle,
        Err(error) => return not_begun(args, &PlanError::Unusable(error)),
    };
    if !args.quiet {
        plan.warnings.iter().for_each(|warning| ui::warn(warning));
    }
    let health = handle.health();
    if let Some(warning) = say::store_warning(&health) {
        ui::warn(&warning);
    }
    if matches!(health, StoreHealth::Lost(_)) {
        plan.policy.retry.max_attempts = std::num::NonZeroU32::MIN;
    }
    if health == StoreHealth::Good {
        // Without a daemon, whoever comes by lets time pass for everybody. What cannot be done now is done by the next.
        if let Ok(records) = handle.sweep(&|name| plan.policy_of(name)) {
            // A figure that cannot be left here is not worth a word.
            let _ = halfopen::activation::record_expired(&plan.store, &records, wait::wall_now_ms());
        }
    }
    let attended = attended(args);
    let prepared = Signals::listen(attended).and_then(|signals| {
        let source = if args.no_stdin { Source::empty() } else { Source::standard(plan.policy.replay_body_bytes_max)? };
        Ok((signals, source))
    });
    let (mut signals, source) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            ui::error(&format!("cannot prepare to run anything: {error}"));
            return exit::NOT_EXECUTABLE;
        }
    };
    let call = Call::new(&plan, args, &handle, &mut signals, attended, source);
    let done = match earlier::look(&plan, args, &handle) {
        None => call.carry_through(),
        Some(earlier) => call.not_begun(earlier),
    };
    Finish { plan: &plan, args, handle: &handle, signals: &mut signals, health }.finish(done)
}

/// Says why nothing was begun.
fn not_begun(args: &RunArgs, error: &PlanError) -> u8 {
    let end = if error.is_usage() { Final::BadUsage } else { Final::BadPolicy };
    let (code, set_by) = exit::code(end);
    ui::raw(&error.shown());
    let dependency = args.dep.as_deref().unwrap_or_default();
    let mut report = Report::new(dependency, dependency);
    report.error = Some(error.word().to_owned());
    (report.exit_code, report.set_by) = (code, set_by.as_str());
    finish::write(&report, args, false);
    code
}

/// Returns whether a person sits at the terminal.
fn attended(args: &RunArgs) -> Attended {
    let at_stdin = !args.no_stdin && std::io::stdin().is_terminal();
    if at_stdin || std::io::stdout().is_terminal() || std::io::stderr().is_terminal() {
        Attended::Yes
    } else {
        Attended::No
    }
}
