//! What an operator does: look, steer, check, explain. One file per command.
//!
//! Each command returns what it found or a [`Failure`]; this file alone turns that into messages and exit codes. Data
//! goes to standard output, all else to standard error. No command waits for a dependency or starts anything.

mod out;
mod place;
pub mod remote;
mod steer;
pub mod alerts;
pub mod status;
pub mod why;
pub mod hold;
pub mod release;
pub mod reset;
pub mod check;
mod schema;
pub mod init;
pub mod events;
pub mod report;
pub mod jobs;
pub mod audit;
pub mod classify;
pub mod completions;
pub mod man;
pub mod token;

use clap::Subcommand;

use crate::args::Shared;
use crate::{exit, ui};

/// Commands of the operator.
#[derive(Debug, Subcommand)]
pub enum OpsCommand {
    /// Show every circuit
    Status(status::StatusArgs),
    /// Explain the state of a circuit: evidence, rule, hint, when it changes, what to do
    Why(why::WhyArgs),
    /// Keep a circuit open or closed, whatever it learns
    Hold(hold::HoldArgs),
    /// End a hold
    Release(release::ReleaseArgs),
    /// Clear a circuit's history
    Reset(reset::ResetArgs),
    /// Check a policy file and explain every mistake in it
    Check(check::CheckArgs),
    /// Print the JSON Schema of the policy file
    Schema,
    /// Write a commented policy to start from
    Init(init::InitArgs),
    /// List what happened to circuits
    Events(events::EventsArgs),
    /// Add up what the protection did, zeros included
    Report(report::ReportArgs),
    /// Look at what was queued, and decide what only a person may decide
    Jobs(jobs::JobsArgs),
    /// Prove that every job that was ever accepted stands somewhere; exit with 1 if not
    Audit(audit::AuditArgs),
    /// Try the channels of an owner; list alerts that have not got through
    Alerts(alerts::AlertsArgs),
    /// Say what an outcome means, by which rule, and what follows
    Classify(Box<classify::ClassifyArgs>),
    /// Make a token for an operator or a caller of a gateway
    Token(token::TokenArgs),
    /// Print completions for a shell
    Completions(completions::CompletionsArgs),
    /// Write the manual pages
    #[command(hide = true)]
    Man(man::ManArgs),
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
struct Failure {
    /// The exit code.
    code: u8,
    /// What went wrong, without a full stop.
    message: String,
    /// What to do next.
    hint: Option<String>,
}

impl Failure {
    fn new(code: u8, message: impl ToString) -> Self {
        Self { code, message: message.to_string(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Carries out a command; returns the exit code.
pub fn run(shared: &Shared, command: &OpsCommand) -> u8 {
    let done = match command {
        OpsCommand::Status(args) => status::run(shared, args),
        OpsCommand::Why(args) => why::run(shared, args),
        OpsCommand::Hold(args) => hold::run(shared, args),
        OpsCommand::Release(args) => release::run(shared, args),
        OpsCommand::Reset(args) => reset::run(shared, args),
        OpsCommand::Check(args) => check::run(shared, args),
        OpsCommand::Schema => schema::run(),
        OpsCommand::Init(args) => init::run(shared, args),
        OpsCommand::Events(args) => events::run(shared, args),
        OpsCommand::Report(args) => report::run(shared, args),
        OpsCommand::Jobs(args) => jobs::run(shared, args),
        OpsCommand::Audit(args) => audit::run(shared, args),
        OpsCommand::Alerts(args) => alerts::run(shared, args),
        OpsCommand::Classify(args) => Ok(classify::run(shared, args)),
        OpsCommand::Token(args) => token::run(args),
        OpsCommand::Completions(args) => completions::run(args),
        OpsCommand::Man(args) => man::run(args),
    };
    match done {
        Ok(code) => code,
        Err(Failure { code, message, hint }) => {
            let text = format!("error: {message}");
            match hint {
                Some(hint) => ui::say_with_hint(&text, &hint),
                None => ui::say(&text),
            }
            code
        }
    }
}

/// How a command ended: the exit code, or what went wrong.
type Done = Result<u8, Failure>;

/// Nothing more to say.
const OK: Done = Ok(exit::OK);
