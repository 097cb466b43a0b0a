//! Plays the outage and watches it: calls as a caller does, looks as an operator does, both over HTTP.
//!
//! Nothing is known here that a user could not know. What the gateway does is read from `/circuits`, `/events` and
//! `/jobs`, ten times a second; what reached the OCR is read from the OCR. The two are held against each other at every
//! look: until the breaker has closed again, whatever reached the OCR must be one of the calls before it opened, or a
//! probe that the journal names. What reached the OCR is read first, and a probe is in the journal before it is sent, so a
//! request that is not accounted for was let through by nobody.
//!
//! A stage that does not come about ends the story early; the judge then says what did not hold.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::gateway::Times;
use super::http::{self, Message};
use super::judge::{Figures, INVOICES, PROBES};
use super::ocr::{Asked, Mood, Ocr, booked};
use super::screen::{Panel, Screen};
use crate::duration;
use crate::shown::When;

/// How many calls time out before the breaker opens, by the policy.
const CALLS: usize = 5;
/// How often the gateway is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How much longer than it should a stage may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much time one mark of the panel stands for, in milliseconds.
const MARK_MS: u128 = 500;

/// Why the story ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// A signal asked for it.
    Interrupted,
    /// Nobody reads what is said.
    Unread,
    /// The gateway cannot be asked.
    Gateway(String),
    /// Something did not come about in time.
    Never(String),
}

/// What was last seen of the gateway.
#[derive(Debug, Default)]
struct Seen {
    state: String,
    open_until: Option<String>,
    failures: u64,
    /// State of each job, by its id.
    jobs: BTreeMap<String, String>,
    events: Vec<Value>,
}

/// The story, as far as it was told.
pub(super) struct Story<'a> {
    at: std::net::SocketAddr,
    ocr: &'a Ocr,
    screen: &'a mut Screen,
    times: Times,
    stopped: &'a dyn Fn() -> bool,
    seen: Seen,
    looked_at: Option<Instant>,
    /// How many requests of the OCR's were told.
    told: usize,
    /// What callers were answered, and when.
    answers: Vec<(Duration, char)>,
    began: Instant,
    /// Calls made before anything was queued.
    calls: usize,
    /// Accepted invoices with their jobs.
    accepted: Vec<(String, String)>,
    figures: Figures,
}

impl<'a> Story<'a> {
    /// Begins a story with a gateway and the OCR behind it.
    pub(super) fn new(
        at: std::net::SocketAddr,
        ocr: &'a Ocr,
        screen: &'a mut Screen,
        times: Times,
        stopped: &'a dyn Fn() -> bool,
    ) -> Self {
        Self {
            at,
            ocr,
            screen,
            times,
            stopped,
            seen: Seen::default(),
            looked_at: None,
            told: 0,
            answers: Vec::new(),
            began: Instant::now(),
            calls: 0,
            accepted: Vec::new(),
            figures: Figures::default(),
        }
    }

    /// Tells it from the outage to the last invoice.
    ///
    /// # Errors
    ///
    /// [`Stop`]: whatever ended it early. [`Story::figures`] holds what was seen by then.
    pub(super) fn tell(&mut self, probe_fails: bool) -> Result<(), Stop> {
        self.figures.probe_fails = probe_fails;
        self.outage()?;
        self.invoices()?;
        self.screen.say(&format!(
            "{} invoices wait; meanwhile {} calls reached the OCR",
            self.accepted.len(),
            self.figures.calls_while_open
        ));
        if probe_fails {
            self.ocr.becomes(Mood::Breaks);
            self.screen.say("the OCR is being restarted: it answers 503; nobody tells the gateway");
            let within = self.times.open_for * 2;
            self.until("a probe fails", within, |story| !story.figures.probes_failed.is_empty())?;
            self.ocr.becomes(Mood::Reads);
            self.screen.say("the OCR is well again; nobody tells the gateway");
        } else {
            self.ocr.becomes(Mood::Reads);
            self.screen.say("the OCR is repaired; nobody tells the gateway");
        }
        let within = self.times.open_for * 4;
        self.until("the breaker closes", within, |story| story.figures.probes_deciding > 0)?;
        let within = Duration::from_secs_f64(INVOICES as f64 / self.times.per_sec);
        self.until("all invoices are processed", within, Self::all_ended)?;
        self.look()
    }

    /// Calls time out until the breaker opens.
    fn outage(&mut self) -> Result<(), Stop> {
        self.screen.say("the OCR hangs: it takes requests and answers none");
        let within = duration::show(self.times.timeout);
        for number in 1..=CALLS {
            let answer = self.call(json!({ "invoice": format!("OLD-{number}") }), "")?;
            self.calls += 1;
            if answer.status() == 504 {
                self.figures.timed_out += 1;
                self.answered('x');
                self.screen.say(&format!("call {number}: no answer within {within}; its caller is told so: 504"));
            } else {
                self.answered('?');
                self.screen.say(&format!("call {number}: answered with {}", answer.status()));
            }
            self.look()?;
        }
        self.until("the breaker opens", Duration::ZERO, |story| story.figures.opened > 0)
    }

    /// Invoices come in, and each becomes a job.
    fn invoices(&mut self) -> Result<(), Stop> {
        for number in 1..=INVOICES {
            let invoice = format!("INV-{number:02}");
            let answer = self.call(json!({ "invoice": invoice }), &invoice)?;
            let told = answer.json();
            let job = answer.field("location").and_then(|at| at.strip_prefix("/jobs/")).map(str::to_owned);
            match (answer.status(), job) {
                (202, Some(job)) => {
                    self.answered('+');
                    self.screen.say(&format!("{invoice} comes in: 202, job {job}, position {}", told["position"]));
                    self.accepted.push((invoice, job));
                }
                (status, _) => {
                    self.answered('?');
                    self.screen.say(&format!("{invoice} comes in: {status}"));
                    self.figures.turned_away.push(format!("{invoice} was answered with {status}"));
                }
            }
            self.figures.accepted = self.accepted.len();
            self.pause(self.times.between)?;
        }
        self.look()
    }

    /// Makes one call, and goes on looking while it lasts.
    fn call(&mut self, body: Value, key: &str) -> Result<Message, Stop> {
        let (at, body) = (self.at, (body.to_string(), key.to_owned()));
        let called = std::thread::Builder::new()
            .name("caller".to_owned())
            .spawn(move || http::ask(at, "POST", "/d/ocr/invoices", Some(&body)))
            .map_err(|error| Stop::Gateway(error.to_string()))?;
        while !called.is_finished() {
            self.pause(Duration::from_millis(5))?;
        }
        match called.join() {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.lost(&error)),
            Err(_) => Err(Stop::Gateway("a caller broke off".to_owned())),
        }
    }

    /// Lets time pass, looking.
    fn pause(&mut self, pause: Duration) -> Result<(), Stop> {
        let ends = Instant::now() + pause;
        loop {
            self.go_on()?;
            if self.looked_at.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
                self.look()?;
            }
            let left = ends.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK_EVERY / 4));
        }
    }

    /// Looks until something has come about.
    fn until(&mut self, what: &str, within: Duration, holds: fn(&Self) -> bool) -> Result<(), Stop> {
        let deadline = Instant::now() + within + PATIENCE;
        loop {
            self.look()?;
            if holds(self) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Stop::Never(what.to_owned()));
            }
            self.pause(LOOK_EVERY)?;
        }
    }

    fn all_ended(&self) -> bool {
        let ended =
            |job: &String| self.seen.jobs.get(job).is_some_and(|state| !matches!(state.as_str(), "queued" | "running"));
        self.accepted.iter().all(|(_, job)| ended(job))
    }

    fn go_on(&self) -> Result<(), Stop> {
        if (self.stopped)() {
            Err(Stop::Interrupted)
        } else if self.screen.closed() {
            Err(Stop::Unread)
        } else {
            Ok(())
        }
    }

    /// Returns why an answer did not come: because we end, or because the gateway is not there.
    fn lost(&self, error: &std::io::Error) -> Stop {
        self.go_on().err().unwrap_or_else(|| Stop::Gateway(error.to_string()))
    }

    /// Looks at everything once, tells what is new, and draws.
    fn look(&mut self) -> Result<(), Stop> {
        self.go_on()?;
        // First the witness, then the journal, then the circuit: what the header promises depends on this order.
        let asked = self.ocr.asked();
        let events = self.get("/events?format=json&all=true&dependency=ocr&limit=2000")?;
        let circuits = self.get("/circuits?dependency=ocr")?;
        let jobs = self.get("/jobs?dependency=ocr&limit=100")?;
        let listed = |list: &Value| list.as_array().cloned().unwrap_or_default();
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if let Some(circuit) = listed(&circuits).iter().find(|circuit| circuit["circuit"] == "ocr") {
            self.seen.state = word(&circuit["state"]);
            self.seen.open_until = circuit["open_until"].as_str().map(str::to_owned);
            self.seen.failures = circuit["failures_in_window"].as_u64().unwrap_or(0);
        }
        self.seen.jobs = listed(&jobs["jobs"]).iter().map(|job| (word(&job["id"]), word(&job["state"]))).collect();
        let heard = std::mem::replace(&mut self.seen.events, listed(&events)).len();
        let fresh = self.seen.events.get(heard..).unwrap_or_default().to_vec();
        self.count(asked.len());
        for event in &fresh {
            // A probe that ended had reached the OCR before.
            if event["event"] == "probe_ended" {
                self.tell_reached(&asked);
            }
            self.narrate(event);
        }
        self.tell_reached(&asked);
        self.looked_at = Some(Instant::now());
        let panel = self.panel();
        self.screen.draw(&panel);
        Ok(())
    }

    /// Tells what has reached the OCR since this was last told; what hung is told by whoever called.
    fn tell_reached(&mut self, asked: &[Asked]) {
        for asked in asked.iter().skip(self.told) {
            match asked.mood {
                Mood::Hangs => {}
                Mood::Breaks => self.screen.say(&format!("{} reaches the OCR: 503", asked.invoice)),
                Mood::Reads => self.screen.say(&format!("{} reaches the OCR and is booked", asked.invoice)),
            }
        }
        self.told = self.told.max(asked.len());
    }

    fn get(&self, target: &str) -> Result<Value, Stop> {
        let answer = http::ask(self.at, "GET", target, None).map_err(|error| self.lost(&error))?;
        match answer.status() {
            200 => Ok(answer.json()),
            status => Err(Stop::Gateway(format!("GET {target} is answered with {status}"))),
        }
    }

    /// Counts rounds of probes, and what reached the OCR without being accounted for.
    fn count(&mut self, asked: usize) {
        let (mut opened, mut admitted, mut round, mut succeeded) = (0, 0, 0, 0);
        let mut failed = Vec::new();
        for event in &self.seen.events {
            match event["event"].as_str().unwrap_or_default() {
                "half_opened" => (round, succeeded) = (0, 0),
                "probe_admitted" => {
                    round += 1;
                    admitted += 1;
                }
                "probe_ended" if event["probe_result"] == "success" => succeeded += 1,
                "tripped" => {
                    opened += 1;
                    if event["from_state"] == "half_open" {
                        failed.push(round);
                    }
                }
                "recovered" => {
                    self.figures.probes_deciding = round;
                    self.figures.probes_succeeded = succeeded;
                }
                _ => {}
            }
        }
        self.figures.opened = opened;
        self.figures.probes_failed = failed;
        if opened > 0 && self.figures.probes_deciding == 0 {
            let unaccounted = asked.saturating_sub(self.calls + admitted);
            self.figures.calls_while_open = self.figures.calls_while_open.max(unaccounted);
        }
    }

    /// Tells a journal entry.
    fn narrate(&mut self, event: &Value) {
        let reason = event["reason"].as_str().unwrap_or_default();
        let class = event["details"]["class"].as_str().unwrap_or_default();
        let text = match event["event"].as_str().unwrap_or_default() {
            "tripped" => {
                let until = self.until_words(event);
                let why = match reason {
                    "failures" => {
                        format!("{} failures within 60 s, the last one: {class}", event["details"]["failures"])
                    }
                    "probe_failed" => format!("a probe failed ({class}), and the cooldown doubles"),
                    other => other.to_owned(),
                };
                format!("the breaker OPENS: {why}; {until}")
            }
            "half_opened" => format!("the cooldown is over: HALF-OPEN, {PROBES} probes may pass"),
            "probe_admitted" => format!("probe {} goes out", event["details"]["in_flight"]),
            "probe_ended" => format!("a probe ended: {}", event["probe_result"].as_str().unwrap_or("?")),
            "recovered" => format!(
                "{PROBES} probes succeeded: CLOSED; the backlog returns, oldest first, {} a second",
                self.times.per_sec
            ),
            "ramp_ended" => "nothing is held back any more".to_owned(),
            _ => return,
        };
        self.screen.say(&text);
    }

    /// Says until when a breaker that has just opened stays open, and keeps it.
    fn until_words(&mut self, event: &Value) -> String {
        let when = When::of_reader();
        let read = |text: Option<&str>| text.and_then(|text| when.read_rfc3339(text));
        match (read(event["at"].as_str()), read(self.seen.open_until.as_deref())) {
            (Some(at), Some(until)) => {
                self.figures.cooldowns_ms.push(until.as_millis() - at.as_millis());
                format!("open until {} ({})", clock(&when.local(until)), when.relative(until))
            }
            _ => "open".to_owned(),
        }
    }

    fn answered(&mut self, mark: char) {
        self.answers.push((self.began.elapsed(), mark));
    }

    /// Returns what the panel shows.
    fn panel(&self) -> Panel {
        let when = When::of_reader();
        let asked = self.ocr.asked();
        let waits = self.seen.jobs.values().filter(|state| matches!(state.as_str(), "queued" | "running")).count();
        let about = match self.seen.open_until.as_deref().and_then(|until| when.read_rfc3339(until)) {
            Some(until) if self.seen.state == "open" => {
                format!("until {}, {}", clock(&when.local(until)), when.relative(until))
            }
            _ if self.seen.state == "half_open" => format!("{PROBES} probes decide"),
            _ => format!("{} of {CALLS} failures", self.seen.failures),
        };
        let does = match self.ocr.mood() {
            Mood::Hangs => "hangs",
            Mood::Breaks => "answers 503",
            Mood::Reads => "is well",
        };
        let now = self.began.elapsed();
        let reached = asked.iter().map(|asked| {
            let mark = match asked.mood {
                Mood::Hangs => 'x',
                Mood::Breaks => '!',
                Mood::Reads => 'o',
            };
            (asked.at.saturating_duration_since(self.began), mark)
        });
        Panel {
            state: self.seen.state.clone(),
            about,
            depth: waits,
            accepted: self.accepted.len(),
            ocr: format!("{does}; asked {} times, booked {}", asked.len(), booked(&asked).len()),
            callers: marks(self.answers.iter().copied(), now),
            reached: marks(reached, now),
        }
    }

    /// Returns what was seen, the audit aside.
    pub(super) fn figures(self) -> Figures {
        let asked = self.ocr.asked();
        let booked = booked(&asked);
        let mut figures = self.figures;
        for (invoice, job) in &self.accepted {
            let state = self.seen.jobs.get(job).map_or("not there", String::as_str);
            match booked.get(invoice.as_str()) {
                Some(_) if state == "done" => figures.booked += 1,
                Some(_) => figures.lost.push(format!("{invoice} was booked, but its job {job} is {state}")),
                None => figures.lost.push(format!("{invoice} was not booked, its job {job} is {state}")),
            }
        }
        figures.doubled = booked
            .iter()
            .filter(|(_, times)| **times > 1)
            .map(|(invoice, times)| format!("{invoice} {times} times"))
            .collect();
        let returned: Vec<&str> = asked
            .iter()
            .filter(|asked| asked.mood == Mood::Reads)
            .skip(PROBES)
            .map(|asked| asked.invoice.as_str())
            .collect();
        figures.oldest_first = returned.is_sorted();
        figures
    }
}

/// Returns the time of day in what [`When::local`] writes.
fn clock(local: &str) -> &str {
    local.get(11..19).unwrap_or(local)
}

/// Returns one mark for each half second: the last thing that happened in it, or a dot.
fn marks(of: impl Iterator<Item = (Duration, char)>, now: Duration) -> String {
    let place = |at: Duration| usize::try_from(at.as_millis() / MARK_MS).unwrap_or(usize::MAX);
    let mut marks = vec!['.'; place(now).saturating_add(1).min(10_000)];
    for (at, mark) in of {
        if let Some(cell) = marks.get_mut(place(at)) {
            *cell = mark;
        }
    }
    marks.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_stands_where_its_half_second_is() {
        let at = Duration::from_millis;
        assert_eq!(marks([(at(100), 'x'), (at(1700), 'o')].into_iter(), at(2100)), "x..o.");
        assert_eq!(marks(std::iter::empty(), at(900)), "..");
    }
}
