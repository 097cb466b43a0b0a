//! `halfopen demo`: an outage in a minute, from the first timeout to the audit, for somebody who has just installed this.
//!
//! A real gateway (our own binary, on any port of the loopback, with a policy and a store in a temporary folder) stands
//! before an OCR that hangs. The command calls, watches and tells; at the end it holds four conditions against what
//! three witnesses saw, and exits with 0 only if all hold. It is a demonstration that can fail, not a film.
//!
//! Nothing of the user's is touched, nothing outlives it: a signal ends the gateway and removes the folder. `--keep`
//! leaves the folder for who wants to look into the store with `status`, `events` or `why`.

mod http;
mod ocr;
mod gateway;
mod screen;
mod story;
mod judge;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;
use clap::builder::BoolishValueParser;

use crate::args::Shared;
use crate::exit::{self, Final};
use crate::ui;
use gateway::{Gateway, StartError, Times};
use judge::{Condition, Figures};
use ocr::Ocr;
use screen::Screen;
use story::{Stop, Story};

/// The flags of `halfopen demo`.
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// Let the first probes fail: the breaker opens again, for twice as long
    #[arg(long, env = "HALFOPEN_DEMO_PROBE_FAILS", value_parser = BoolishValueParser::new())]
    pub probe_fails: bool,
    /// Print the final figures as one JSON document; the story goes to standard error
    #[arg(long, env = "HALFOPEN_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Leave the folder with policy, store and the gateway's log behind
    #[arg(long, env = "HALFOPEN_DEMO_KEEP", value_parser = BoolishValueParser::new())]
    pub keep: bool,
    /// Tell it so many times as fast, 0.5 to 10; a timeout and a cooldown stay long enough for a busy machine
    #[arg(long, env = "HALFOPEN_DEMO_SPEED", value_name = "N", default_value = "1", value_parser = speed)]
    pub speed: f64,
    /// The demo that this process becomes the gateway of.
    #[arg(long, hide = true, value_name = "PID")]
    pub gateway_of: Option<i32>,
}

fn speed(word: &str) -> Result<f64, String> {
    match word.parse::<f64>() {
        Ok(speed) if (0.5..=10.0).contains(&speed) => Ok(speed),
        Ok(_) | Err(_) => Err("allowed are 0.5 to 10, for example 2".to_owned()),
    }
}

/// Shows an outage; returns the exit code.
#[must_use]
pub fn demo(shared: &Shared, args: &DemoArgs) -> u8 {
    if let Some(parent) = args.gateway_of {
        ui::error(&format!("the gateway cannot be started: {}", gateway::become_gateway(shared, parent)));
        return exit::FAILED;
    }
    if shared.policy.is_some() || shared.store.is_some() {
        ui::say("note: the demo has a policy and a store of its own; yours are left alone");
    }
    let signal = Arc::new(AtomicUsize::new(0));
    for number in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        let value = usize::try_from(number).unwrap_or(usize::MAX);
        if let Err(error) = signal_hook::flag::register_usize(number, Arc::clone(&signal), value) {
            ui::error(&format!("signals cannot be heard: {error}"));
            return exit::FAILED;
        }
    }
    let ended = play(args, &|| signal.load(Ordering::Acquire) != 0);
    let signal = i32::try_from(signal.load(Ordering::Acquire)).unwrap_or(0);
    match ended {
        Ok(true) => exit::OK,
        Ok(false) => exit::FOUND,
        Err(Failure::Interrupted) => exit::code(Final::Cancelled { signal }).0,
        Err(Failure::Unread) => exit::code(Final::OutputLost { reader_gone: true }).0,
        Err(Failure::Other { code, message }) => {
            ui::error(&message);
            code
        }
    }
}

/// Why there is nothing to judge.
enum Failure {
    Interrupted,
    Unread,
    Other { code: u8, message: String },
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let code = match &error {
            StartError::Interrupted => return Self::Interrupted,
            StartError::Folder { .. } => exit::IO,
            StartError::Spawn(_) | StartError::Silent(_) => exit::FAILED,
        };
        Self::Other { code, message: error.to_string() }
    }
}

/// Plays it; returns whether all conditions hold.
fn play(args: &DemoArgs, stopped: &dyn Fn() -> bool) -> Result<bool, Failure> {
    let times = Times::at(args.speed);
    let ocr = Ocr::start(times.reads)
        .map_err(|error| Failure::Other { code: exit::IO, message: format!("no OCR can be started: {error}") })?;
    let mut gateway = Gateway::start(&times, ocr.address(), stopped)?;
    let mut screen = Screen::new(args.json);
    screen.say(&format!("a gateway at http://{}/d/ocr (process {}), an OCR behind it", gateway.address, gateway.pid()));
    screen.say(&format!("its policy: {}", gateway.policy().display()));
    let mut story = Story::new(gateway.address, &ocr, &mut screen, times, stopped);
    let told = story.tell(args.probe_fails);
    let mut figures = story.figures();
    screen.end_panel();
    match told {
        Ok(()) => {}
        Err(Stop::Never(what)) => screen.say(&format!("waited for it and it never happened: {what}")),
        Err(Stop::Interrupted) => return Err(Failure::Interrupted),
        Err(Stop::Unread) => return Err(Failure::Unread),
        Err(Stop::Gateway(why)) => {
            let message = format!("the gateway cannot be asked: {why}");
            return Err(Failure::Other { code: exit::FAILED, message });
        }
    }
    match gateway.audit() {
        Ok(report) => (figures.audited, figures.wrong) = (report.jobs, report.wrong),
        Err(error) => figures.wrong.push(format!("the store cannot be read: {error}")),
    }
    screen.say(&format!(
        "the gateway has ended; the audit of its store: {} jobs, {}",
        figures.audited,
        if figures.wrong.is_empty() { "nothing wrong".to_owned() } else { figures.wrong.join("; ") }
    ));
    let conditions = judge::judge(&figures);
    screen.print(&table(&figures, &conditions));
    let folder = args.keep.then(|| gateway.kept());
    if let Some(folder) = &folder {
        let store = ui::shell_word(&folder.join("halfopen.db").display().to_string());
        screen.print(&format!("\nkept: {}\nlook into it: halfopen events --all --store {store}\n", folder.display()));
    }
    if args.json {
        let mut document = judge::document(&figures, &conditions);
        document["folder"] = folder.map(|folder| folder.display().to_string()).into();
        ui::data(&format!("{document:#}"));
    }
    Ok(conditions.iter().all(|condition| condition.holds))
}

/// Returns the last figures and the four conditions, for a person.
fn table(figures: &Figures, conditions: &[Condition]) -> String {
    let mut text = String::from("\n");
    for (name, figure) in [
        ("calls to the OCR while open", figures.calls_while_open),
        ("probes that decided", figures.probes_deciding),
        ("invoices booked", figures.booked),
        ("lost", figures.lost.len()),
        ("doubled", figures.doubled.len()),
    ] {
        text.push_str(&format!("{name:<28}{figure:>3}\n"));
    }
    text.push('\n');
    for Condition { claim, holds, seen } in conditions {
        text.push_str(&format!("{}  {claim} ({seen})\n", if *holds { "yes" } else { "NO " }));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("0"; "zero")]
    #[test_case("11"; "too fast")]
    #[test_case("NaN"; "no number")]
    #[test_case("fast"; "a word")]
    fn a_speed_out_of_range_is_refused(word: &str) {
        assert!(speed(word).is_err());
    }
}
