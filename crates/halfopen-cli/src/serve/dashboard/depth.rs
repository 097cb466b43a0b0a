//! Remembers how many jobs waited, and draws how a queue fills and drains.
//!
//! The store counts jobs as they are and not as they were, so the gateway looks every few seconds, also when nobody
//! watches, and keeps what it saw at three resolutions for an hour, a day and a week. It begins anew with the process.
//! Writing it into the store was refused: a drawing is not worth a write every few seconds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use halfopen_core::time::Timestamp;

use super::say::{Say, fill};
use super::timeline::Range;
use crate::serve::queue::progress::Progress;

/// How often the queues are looked at.
pub(super) const EVERY: Duration = Duration::from_secs(5);
/// How wide a step is at each resolution, in milliseconds, and how many are kept.
const RESOLUTIONS: [(i64, usize); 3] = [(5_000, 720), (60_000, 1440), (600_000, 1008)];
/// How many dependencies are remembered at most.
const DEPENDENCIES_MAX: usize = 256;

/// How many jobs waited, at one resolution: the beginning of a step and the most that waited in it.
type Ring = VecDeque<(i64, u64)>;

/// How many jobs waited for each dependency.
#[derive(Debug, Default)]
pub(super) struct Depths(Mutex<BTreeMap<String, [Ring; 3]>>);

impl Depths {
    /// Remembers how many wait for a dependency now. One for which none has ever waited is not remembered.
    pub(super) fn note(&self, dependency: &str, queued: u64, now: Timestamp) {
        let mut all = self.lock();
        if !all.contains_key(dependency) && (queued == 0 || all.len() >= DEPENDENCIES_MAX) {
            return;
        }
        let rings = all.entry(dependency.to_owned()).or_default();
        for (ring, (step, kept)) in rings.iter_mut().zip(RESOLUTIONS) {
            let begin = now.as_millis() - now.as_millis().rem_euclid(step);
            match ring.back_mut() {
                Some((last, most)) if *last == begin => *most = queued.max(*most),
                Some(_) | None => ring.push_back((begin, queued)),
            }
            while ring.len() > kept {
                ring.pop_front();
            }
        }
    }

    /// Returns what is remembered of a range.
    fn of(&self, dependency: &str, range: Range, since: Timestamp) -> Vec<(i64, u64)> {
        let at = match range {
            Range::Hour => 0,
            Range::SixHours | Range::Day => 1,
            Range::Week => 2,
        };
        let all = self.lock();
        let ring = all.get(dependency).and_then(|rings| rings.get(at));
        ring.map(|ring| ring.iter().filter(|(at, _)| *at >= since.as_millis()).copied().collect()).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, [Ring; 3]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue as it is drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Curve {
    /// The area below the number of jobs, in a drawing of 1000 by 100.
    pub(super) area: String,
    /// The line of it.
    pub(super) line: String,
    /// The line of what is to come at the present rate; empty if there is none.
    pub(super) ahead: String,
    /// Where now is, in thousandths.
    pub(super) now: f64,
    /// The most that waited.
    pub(super) most: u64,
    /// What stands below: the beginning; now, with the end of what is to come.
    pub(super) ticks: Vec<String>,
    /// What it shows, in a sentence.
    pub(super) summary: String,
    /// The same as rows: when, how many.
    pub(super) rows: Vec<(String, u64)>,
}

/// How many rows the table has at most.
const ROWS_MAX: usize = 24;

impl Curve {
    /// Draws the queue of a dependency; `None` if nothing is remembered of it.
    pub(super) fn draw(
        depths: &Depths,
        dependency: &str,
        progress: &Progress,
        range: Range,
        say: &Say,
    ) -> Option<Self> {
        let now = range.end(say.when.now);
        let since = now - range.span();
        let queued = progress.figures.tally.queued;
        let mut points = depths.of(dependency, range, since);
        if points.is_empty() && queued == 0 {
            return None;
        }
        points.push((say.when.now.as_millis(), queued));
        let ahead = progress.left.filter(|_| queued > 0).map(|left| left.clamp(range.span() / 60, range.span() / 2));
        let whole = (range.span() + ahead.unwrap_or_default()).as_secs_f64();
        let most = points.iter().map(|(_, n)| *n).max().unwrap_or(0).max(1);
        let x = |ms: i64| {
            let from = Duration::from_millis(u64::try_from(ms - since.as_millis()).unwrap_or(0));
            (from.as_secs_f64() / whole * 10_000.0).round() / 10.0
        };
        let y = |n: u64| ((1.0 - count(n) / count(most)) * 920.0 + 40.0).round() / 10.0;
        let mut line = String::new();
        for (at, n) in &points {
            // Jobs come and go one by one between two looks; a step would claim that they came at once.
            line.push_str(&format!("{}{} {}", if line.is_empty() { "M" } else { "L" }, x(*at), y(*n)));
        }
        let (first, last) = (points.first()?, points.last()?);
        let area = format!("{line}L{} 100L{} 100Z", x(last.0), x(first.0));
        let ahead_line = ahead.map(|ahead| {
            let end = x(say.when.now.as_millis() + i64::try_from(ahead.as_millis()).unwrap_or(0));
            format!("M{} {}L{end} {}", x(last.0), y(queued), y(0))
        });
        let mut end = say.w.now.to_owned();
        if let (Some(_), Some(left)) = (ahead, progress.left) {
            end.push_str(&format!(" → {}", fill(say.w.in_span, &[("span", &say.span(left))])));
        }
        let ticks = vec![say.when.written(since, tick(range)), end];
        let each = points.len().div_ceil(ROWS_MAX).max(1);
        let rows = points.iter().rev().step_by(each);
        let rows = rows.map(|(at, n)| (say.when.local(Timestamp::from_millis(*at)), *n)).collect();
        let summary = fill(
            say.w.queue_summary,
            &[("n", &queued.to_string()), ("most", &most.to_string()), ("span", &say.span(range.span()))],
        );
        let now = x(say.when.now.as_millis());
        Some(Self { area, line, ahead: ahead_line.unwrap_or_default(), now, most, ticks, summary, rows })
    }
}

const fn tick(range: Range) -> &'static str {
    match range {
        Range::Week => "%m-%d %H:%M",
        Range::Hour | Range::SixHours | Range::Day => "%H:%M",
    }
}

fn count(n: u64) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::super::words::EN;
    use super::*;
    use crate::shown::when::tests::tokyo;

    fn progress(queued: u64, left: Option<u64>) -> Progress {
        let mut progress = Progress { left: left.map(Duration::from_secs), ..Progress::default() };
        progress.figures.tally.queued = queued;
        progress
    }

    #[test]
    fn what_is_remembered_is_bounded_at_every_resolution() {
        let depths = Depths::default();
        let mut now = tokyo().now;
        for n in 0..3_000 {
            depths.note("ocr", n + 1, now);
            now = now + EVERY;
        }
        let all = depths.lock();
        let lengths: Vec<usize> = all["ocr"].iter().map(VecDeque::len).collect();
        assert_eq!(lengths, [720, 250, 26]);
        assert_eq!(all["ocr"][2].back().map(|(_, n)| *n), Some(3_000));
    }

    #[test]
    fn a_queue_that_drains_is_drawn_to_its_end() {
        let (depths, say) = (Depths::default(), Say { w: &EN, when: tokyo() });
        assert_eq!(Curve::draw(&depths, "ocr", &progress(0, None), Range::Hour, &say), None);
        depths.note("ocr", 40, say.when.now - Duration::from_secs(1800));
        let curve = Curve::draw(&depths, "ocr", &progress(10, Some(600)), Range::Hour, &say).unwrap();
        assert_eq!((curve.most, curve.ticks[1].as_str()), (40, "now → in 10 min"));
        assert_eq!(curve.line, "M428.6 4L857.1 73");
        assert_eq!(curve.ahead, "M857.1 73L1000 96");
        assert_eq!(curve.rows.first().map(|(_, n)| *n), Some(10));
    }

    #[test]
    fn a_dependency_that_never_queued_costs_nothing() {
        let depths = Depths::default();
        depths.note("ocr", 0, tokyo().now);
        assert!(depths.lock().is_empty());
    }
}
