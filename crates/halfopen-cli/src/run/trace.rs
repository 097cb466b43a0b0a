//! Tells a collector of a run and its attempts, if the environment names one.
//!
//! The run is a span behind the place that `TRACEPARENT` says, each attempt a span behind the run, and the command finds
//! its attempt's place in its own `TRACEPARENT`: what it records itself belongs there. Without a collector the variable
//! reaches the command as it is, because a place that nobody tells of would tear the trace apart.
//!
//! Spans are sent once, when the output has been handed on, and for a second at most; a collector that is away changes
//! neither the output nor the code. Nothing of the command but its name is told: arguments hold prompts and secrets.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use halfopen_core::outcome::Exit;
use halfopen_core::verdict::Class;

use super::attempt::Attempted;
use super::plan::Plan;
use crate::otlp::context::Context;
use crate::otlp::settings::{Settings, Target};
use crate::otlp::span::{Kind, Span};
use crate::otlp::{ask, encode};

/// Where a command finds its place.
const VARIABLE: &str = "TRACEPARENT";
/// The variables without which nothing is exported.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
/// How long a run waits for a collector at its end.
const WITHIN: Duration = Duration::from_secs(1);
/// Attempts of one run that are told of.
const ATTEMPTS_MAX: usize = 256;

/// A run that is recorded.
#[derive(Debug)]
pub(super) struct Trace {
    who: Vec<(String, String)>,
    target: Target,
    run: Span,
    attempts: Vec<Span>,
}

impl Trace {
    /// Begins to record a run; `None` if there is no collector, or whoever called us does not record.
    pub(super) fn begin(plan: &Plan) -> Option<Box<Self>> {
        // Looked at first: nearly nobody has one, and a run may cost a millisecond.
        if ENDPOINTS.iter().all(|name| std::env::var_os(name).is_none()) {
            return None;
        }
        let settings = Settings::read(&|name| std::env::var(name).ok());
        let target = settings.traces?;
        let before = std::env::var(VARIABLE).ok().and_then(|text| Context::parse(text.trim()));
        let context = Context::begin(before, settings.sampler)?;
        let dependency = &plan.policy.dependency;
        let parent = before.map(|before| before.span);
        let mut run = Span::new(context, parent, format!("run {dependency}"), Kind::Internal);
        run.tell("halfopen.dependency", dependency.as_str());
        run.tell("halfopen.circuit", plan.circuit().to_string());
        Some(Box::new(Self { who: settings.resource, target, run, attempts: Vec::new() }))
    }

    /// Begins an attempt; returns the variable that its command finds.
    pub(super) fn attempt(&mut self, number: u32, program: Option<&OsString>) -> (&'static str, OsString) {
        let name = program.map(OsString::as_os_str).unwrap_or_else(|| OsStr::new("command"));
        let name = std::path::Path::new(name).file_name().unwrap_or(name).to_string_lossy().into_owned();
        let mut span = Span::new(self.run.context.child(), Some(self.run.context.span), name.clone(), Kind::Client);
        span.tell("process.executable.name", name);
        span.tell("halfopen.dependency", dependency_of(&self.run));
        span.tell("halfopen.attempt", number);
        let place = OsString::from(span.context.to_string());
        if self.attempts.len() < ATTEMPTS_MAX {
            self.attempts.push(span);
        }
        (VARIABLE, place)
    }

    /// Ends the attempt that was begun last.
    pub(super) fn ended(&mut self, attempted: &Attempted) {
        let Some(span) = self.attempts.last_mut().filter(|span| span.ended_ns == span.began_ns) else { return };
        if let Exit::Code(code) = attempted.exit {
            span.tell("process.exit.code", i64::from(code));
        }
        span.tell("halfopen.probe", attempted.was_probe);
        let word = match &attempted.judged {
            Some(verdict) => {
                span.tell("halfopen.class", verdict.class.as_str());
                span.tell("halfopen.rule", verdict.rule.as_str());
                (verdict.class != Class::Success).then(|| verdict.class.as_str())
            }
            None => Some("cancelled"),
        };
        if let Some(word) = word {
            span.tell("error.type", word);
            span.error = Some(word.to_owned());
        }
        span.end();
    }

    /// Sends everything, with the code that the run ends with.
    pub(super) fn send(mut self, code: u8, attempts: u32) {
        self.run.tell("process.exit.code", i64::from(code));
        self.run.tell("halfopen.attempts", attempts);
        if code != 0 {
            self.run.tell("error.type", code.to_string());
            self.run.error = Some(format!("exit code {code}"));
        }
        self.run.end();
        let mut spans = self.attempts;
        spans.push(self.run);
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        let message = encode::spans(&spans, &self.who);
        // Whatever the collector makes of it, the run is over.
        let sending = async { tokio::time::timeout(WITHIN, ask(&self.target, message)).await };
        let _ = runtime.block_on(sending);
        runtime.shutdown_background();
    }
}

fn dependency_of(run: &Span) -> String {
    run.name.trim_start_matches("run ").to_owned()
}
