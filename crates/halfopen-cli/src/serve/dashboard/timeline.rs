//! Draws what the states of a circuit were over a span of time, with the failures and probes that made them.
//!
//! A state is told by height and pattern before it is told by colour: closed is a line, half-open a hatched step, open a
//! full block, like a signal on paper. Positions are percentages, so that the drawing is as wide as its place without
//! being distorted. Beside it stands the same as a table.
//!
//! The end of the span is rounded up to a step of the drawing: while it is watched it moves in steps, and what has not
//! moved need not be sent again.

use std::time::Duration;

use halfopen_core::circuit::Status;
use halfopen_core::event::State;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;

use super::say::{Moment, Say, fill};

/// How many steps a drawing has.
const STEPS: i64 = 600;
/// How many bars of failures it has at most.
const BARS: usize = 120;
/// How many changes of state are drawn at most, the newest.
const SPANS_MAX: usize = 300;
/// How many rows the table has at most, the newest.
const ROWS_MAX: usize = 60;
/// No block is narrower, in percent: it could not be seen.
const WIDTH_MIN: f64 = 0.3;

/// A span of time that can be looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Range {
    /// An hour.
    #[default]
    Hour,
    /// Six hours.
    SixHours,
    /// A day.
    Day,
    /// A week.
    Week,
}

impl Range {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [Self::Hour, Self::SixHours, Self::Day, Self::Week];

    /// Returns the word in links.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Hour => "1h",
            Self::SixHours => "6h",
            Self::Day => "24h",
            Self::Week => "7d",
        }
    }

    /// Returns how long it is.
    pub(super) const fn span(self) -> Duration {
        let hours = match self {
            Self::Hour => 1,
            Self::SixHours => 6,
            Self::Day => 24,
            Self::Week => 7 * 24,
        };
        Duration::from_secs(hours * 3600)
    }

    /// Returns the range of a word.
    pub(super) fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|range| range.word() == word)
    }

    fn millis(self) -> i64 {
        i64::try_from(self.span().as_millis()).unwrap_or(i64::MAX)
    }

    /// Returns the end of a drawing that is made now.
    pub(super) fn end(self, now: Timestamp) -> Timestamp {
        let step = self.millis() / STEPS;
        let at = now.as_millis();
        Timestamp::from_millis(at + (step - at.rem_euclid(step)) % step)
    }

    /// Returns where an instant is in a drawing that ends at `end`, in percent.
    fn at(self, at: Timestamp, end: Timestamp) -> f64 {
        let begin = end.as_millis() - self.millis();
        percent(at.as_millis() - begin, self.millis())
    }

    /// Returns what stands below a drawing that ends at `end`.
    pub(super) fn ticks(self, end: Timestamp, say: &Say) -> Vec<String> {
        let form = if self == Self::Week { "%m-%d %H:%M" } else { "%H:%M" };
        let quarter = self.span() / 4;
        (0..5).rev().map(|n| say.when.written(end - quarter * n, form)).collect()
    }
}

/// Returns a share in percent, with two digits.
#[expect(clippy::cast_precision_loss, reason = "spans of a week in milliseconds are far below 2^53")]
fn percent(part: i64, whole: i64) -> f64 {
    ((part as f64) * 10_000.0 / (whole.max(1) as f64)).round().clamp(0.0, 10_000.0) / 100.0
}

/// One block of a drawing.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Block {
    /// What it shows, as a class of the style sheet.
    pub(super) kind: &'static str,
    pub(super) x: f64,
    pub(super) width: f64,
    pub(super) y: u32,
    pub(super) height: u32,
    /// What is told about it.
    pub(super) title: String,
}

/// How many failures there were in one step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bar {
    pub(super) x: f64,
    pub(super) height: u32,
    pub(super) title: String,
}

/// One probe that ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mark {
    pub(super) kind: &'static str,
    pub(super) x: f64,
    pub(super) title: String,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) state: String,
    pub(super) from: Moment,
    pub(super) lasted: String,
    pub(super) failures: usize,
    pub(super) probes: usize,
}

/// A drawing with its table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Timeline {
    /// What it shows, in a sentence.
    pub(super) summary: String,
    pub(super) blocks: Vec<Block>,
    pub(super) bars: Vec<Bar>,
    pub(super) marks: Vec<Mark>,
    pub(super) ticks: Vec<String>,
    /// The table, newest first.
    pub(super) rows: Vec<Row>,
}

/// What is drawn as one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Unknown,
    State(State),
}

/// A stretch of time in one state.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    shape: Shape,
    from: Timestamp,
    to: Timestamp,
}

impl Timeline {
    /// Draws a circuit. `events` are its own, in the order of their instants, from the beginning of the range on, or from
    /// `known_from` if there were more than were read.
    pub(super) fn draw(
        events: &[&EventRecord],
        status: &Status,
        range: Range,
        known_from: Option<Timestamp>,
        say: &Say,
    ) -> Self {
        let end = range.end(say.when.now);
        let begin = end - range.span();
        let stretches = stretches(events, status, (begin, end), known_from);
        let shown = stretches.get(stretches.len().saturating_sub(SPANS_MAX)..).unwrap_or_default();
        let mut blocks: Vec<Block> = shown.iter().map(|stretch| block(stretch, range, end, say)).collect();
        blocks.extend(overlays(events, status, range, end, say));
        let failures = |event: &&&EventRecord| event.event == "failure_counted";
        let ended = |event: &&&EventRecord| event.event == "probe_ended";
        let within = |event: &EventRecord, stretch: &Stretch| {
            event.at_ms >= stretch.from.as_millis() && event.at_ms < stretch.to.as_millis()
        };
        let rows = shown.iter().rev().take(ROWS_MAX).map(|stretch| Row {
            state: name(stretch.shape, say).to_owned(),
            from: say.moment(stretch.from),
            lasted: say.span(stretch.from.until(stretch.to.min(say.when.now))),
            failures: events.iter().filter(failures).filter(|event| within(event, stretch)).count(),
            probes: events.iter().filter(ended).filter(|event| within(event, stretch)).count(),
        });
        Self {
            summary: summary(&stretches, events, range, say),
            rows: rows.collect(),
            blocks,
            bars: bars(events, range, end, say),
            marks: events.iter().filter(ended).map(|event| mark(event, range, end, say)).collect(),
            ticks: range.ticks(end, say),
        }
    }
}

/// Cuts the range into stretches of one state each.
fn stretches(
    events: &[&EventRecord],
    status: &Status,
    (begin, end): (Timestamp, Timestamp),
    known_from: Option<Timestamp>,
) -> Vec<Stretch> {
    let mut found = Vec::new();
    let mut from = begin;
    if let Some(known_from) = known_from.filter(|known| *known > begin) {
        found.push(Stretch { shape: Shape::Unknown, from, to: known_from });
        from = known_from;
    }
    // Where nothing was noted in the range, it is as it was.
    let mut state = events.first().and_then(|event| state_of(&event.from_state)).unwrap_or(status.state);
    let changes = events.iter().filter(|event| event.from_state != event.to_state);
    let mut changes: Vec<(Timestamp, State)> =
        changes.filter_map(|event| Some((Timestamp::from_millis(event.at_ms), state_of(&event.to_state)?))).collect();
    let last = changes.last().map_or(state, |(_, state)| *state);
    if last != status.state {
        // Due, and not written down yet.
        changes.push((status.since.max(from), status.state));
    }
    for (at, next) in changes {
        let at = at.max(from).min(end);
        if at > from {
            found.push(Stretch { shape: Shape::State(state), from, to: at });
        }
        (from, state) = (at, next);
    }
    if end > from {
        found.push(Stretch { shape: Shape::State(state), from, to: end });
    }
    found
}

fn state_of(word: &str) -> Option<State> {
    [State::Closed, State::Open, State::HalfOpen].into_iter().find(|state| state.as_str() == word)
}

fn name(shape: Shape, say: &Say) -> &'static str {
    match shape {
        Shape::Unknown => say.w.not_shown,
        Shape::State(state) => say.state(state),
    }
}

fn block(stretch: &Stretch, range: Range, end: Timestamp, say: &Say) -> Block {
    let (kind, y, height) = match stretch.shape {
        Shape::Unknown => ("unknown", 36, 12),
        Shape::State(State::Closed) => ("closed", 40, 8),
        Shape::State(State::HalfOpen) => ("half-open", 28, 20),
        Shape::State(State::Open) => ("open", 16, 32),
    };
    let (x, width) = place(stretch.from, stretch.to, range, end);
    let title = told(name(stretch.shape, say), stretch.from, stretch.to, say);
    Block { kind, x, width, y, height, title }
}

fn told(name: &str, from: Timestamp, to: Timestamp, say: &Say) -> String {
    let to = to.min(say.when.now);
    format!("{name} · {} · {}", say.when.local(from), say.span(from.until(to)))
}

fn place(from: Timestamp, to: Timestamp, range: Range, end: Timestamp) -> (f64, f64) {
    let x = range.at(from, end);
    let width = ((range.at(to, end) - x) * 100.0).round() / 100.0;
    (x.min(100.0 - WIDTH_MIN), width.max(WIDTH_MIN))
}

/// Draws holds and stated waits: what is beside the state.
fn overlays(events: &[&EventRecord], status: &Status, range: Range, end: Timestamp, say: &Say) -> Vec<Block> {
    let mut blocks = Vec::new();
    let begin = end - range.span();
    let mut held = None;
    let mut hold = |from: Timestamp, to: Timestamp| {
        let (x, width) = place(from, to, range, end);
        blocks.push(Block { kind: "held", x, width, y: 52, height: 4, title: told(say.w.held, from, to, say) });
    };
    for event in events {
        let at = Timestamp::from_millis(event.at_ms);
        match event.event.as_str() {
            "hold_placed" => held = held.or(Some(at)),
            "hold_ended" => hold(held.take().unwrap_or(begin), at),
            _ => {}
        }
    }
    if status.hold.is_some() {
        hold(held.unwrap_or(begin), end);
    }
    for event in events.iter().filter(|event| event.event == "throttled") {
        let from = Timestamp::from_millis(event.at_ms);
        let until = event.details.get("until_ms").and_then(serde_json::Value::as_i64).map(Timestamp::from_millis);
        let to = until.unwrap_or(from).min(end);
        let (x, width) = place(from, to, range, end);
        blocks.push(Block {
            kind: "throttled",
            x,
            width,
            y: 36,
            height: 4,
            title: told(say.w.throttled, from, to, say),
        });
    }
    blocks
}

fn bars(events: &[&EventRecord], range: Range, end: Timestamp, say: &Say) -> Vec<Bar> {
    let mut counts = [0_u32; BARS];
    for event in events.iter().filter(|event| event.event == "failure_counted") {
        let at = range.at(Timestamp::from_millis(event.at_ms), end);
        if let Some(count) = counts.get_mut(step(at)) {
            *count += 1;
        }
    }
    let bar = |(index, count): (usize, &u32)| {
        let x = (usize_f64(index) + 0.5) * 100.0 / usize_f64(BARS);
        let title = fill(say.w.n_failures, &[("n", &count.to_string())]);
        Bar { x: (x * 100.0).round() / 100.0, height: 4 + 2 * (*count).min(6), title }
    };
    counts.iter().enumerate().filter(|(_, count)| **count > 0).map(bar).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a hundred")]
fn step(percent: f64) -> usize {
    ((percent * usize_f64(BARS) / 100.0) as usize).min(BARS - 1)
}

fn usize_f64(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

fn mark(event: &EventRecord, range: Range, end: Timestamp, say: &Say) -> Mark {
    let kind = match event.probe_result.as_deref() {
        Some("success") => "success",
        Some("failure") => "failure",
        Some(_) | None => "neutral",
    };
    let at = Timestamp::from_millis(event.at_ms);
    Mark { kind, x: range.at(at, end), title: format!("{} · {}", say.event(event), say.when.local(at)) }
}

fn summary(stretches: &[Stretch], events: &[&EventRecord], range: Range, say: &Say) -> String {
    let mut parts = Vec::new();
    for state in [State::Open, State::HalfOpen, State::Closed] {
        let mut lasted = Duration::ZERO;
        for stretch in stretches.iter().filter(|stretch| stretch.shape == Shape::State(state)) {
            lasted += stretch.from.until(stretch.to.min(say.when.now));
        }
        if lasted >= Duration::from_secs(1) {
            parts.push(format!("{} {}", say.state(state), say.span(lasted)));
        }
    }
    let count = |word: &str| events.iter().filter(|event| event.event == word).count().to_string();
    let failed =
        |event: &&&EventRecord| event.event == "probe_ended" && event.probe_result.as_deref() == Some("failure");
    let failed = events.iter().filter(failed).count().to_string();
    let (failures, probes) = (count("failure_counted"), count("probe_ended"));
    let span = say.span(range.span());
    let values =
        [("span", span.as_str()), ("states", &parts.join(say.w.comma)), ("failures", &failures), ("probes", &probes)];
    let text = fill(say.w.timeline_summary, &values);
    if failed == "0" { text } else { text + &fill(say.w.timeline_failed, &[("n", &failed)]) }
}

#[cfg(test)]
mod tests {
    use halfopen_core::circuit::Circuit;
    use halfopen_core::policy::{Policy, Surface};

    use super::super::words::EN;
    use super::*;
    use crate::shown::when::tests::tokyo;

    fn event(word: &str, ago_s: u64, from: &str, to: &str) -> EventRecord {
        EventRecord {
            at_ms: (tokyo().now - Duration::from_secs(ago_s)).as_millis(),
            event: word.to_owned(),
            dependency: "ocr".to_owned(),
            partition: None,
            from_state: from.to_owned(),
            to_state: to.to_owned(),
            generation: 1,
            reason: Some("overloaded".to_owned()),
            queued_count: None,
            probe_result: (word == "probe_ended").then(|| "success".to_owned()),
            details: serde_json::Map::new(),
        }
    }

    fn draw(events: &[EventRecord], state: State, known_from: Option<Timestamp>) -> Timeline {
        let policy = Policy::built_in("ocr", Surface::Serve);
        let status = Circuit::new().status(&policy, tokyo().now);
        let status = Status { state, since: tokyo().now - Duration::from_secs(5), ..status };
        let events: Vec<&EventRecord> = events.iter().collect();
        Timeline::draw(&events, &status, Range::Hour, known_from, &Say { w: &EN, when: tokyo() })
    }

    #[test]
    fn an_outage_is_drawn_as_it_went() {
        let events = [
            event("failure_counted", 1810, "closed", "closed"),
            event("tripped", 1800, "closed", "open"),
            event("half_opened", 900, "open", "half_open"),
            event("probe_ended", 850, "half_open", "half_open"),
            event("recovered", 840, "half_open", "closed"),
        ];
        let timeline = draw(&events, State::Closed, None);
        let blocks: Vec<_> = timeline.blocks.iter().map(|block| (block.kind, block.x, block.width)).collect();
        assert_eq!(
            blocks,
            [("closed", 0.0, 50.0), ("open", 50.0, 25.0), ("half-open", 75.0, 1.67), ("closed", 76.67, 23.33)]
        );
        assert_eq!((timeline.bars.len(), timeline.marks.len()), (1, 1));
        assert_eq!(timeline.rows[2].lasted, "15 min");
        assert_eq!((timeline.rows[3].failures, timeline.rows[1].probes), (1, 1));
        insta::assert_snapshot!(
            timeline.summary,
            @"Last 1 h: open 15 min, half-open 1 min, closed 44 min; failures: 1; probes: 1"
        );
        assert_eq!(timeline.ticks, ["20:45", "21:00", "21:15", "21:30", "21:45"]);
    }

    /// S189: what is due shows, though nobody has called and nothing was written down.
    #[test]
    fn a_cooldown_that_is_over_shows_as_half_open_before_anybody_calls() {
        let timeline = draw(&[event("tripped", 600, "closed", "open")], State::HalfOpen, None);
        let kinds: Vec<_> = timeline.blocks.iter().map(|block| block.kind).collect();
        assert_eq!(kinds, ["closed", "open", "half-open"]);
    }

    #[test]
    fn what_was_not_read_is_not_drawn_as_anything() {
        let from = tokyo().now - Duration::from_secs(1800);
        let timeline = draw(&[event("tripped", 900, "closed", "open")], State::Open, Some(from));
        let kinds: Vec<_> = timeline.blocks.iter().map(|block| block.kind).collect();
        assert_eq!(kinds, ["unknown", "closed", "open"]);
    }

    #[test]
    fn a_quiet_hour_is_one_line() {
        let timeline = draw(&[], State::Closed, None);
        assert_eq!(timeline.blocks.len(), 1);
        assert_eq!((timeline.blocks[0].x, timeline.blocks[0].width), (0.0, 100.0));
    }
}
