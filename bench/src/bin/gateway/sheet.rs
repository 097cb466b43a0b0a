//! Keeps every figure with its repetition, and compares only within one.
//!
//! Two noisy cores move by a factor of two from minute to minute, so a ratio of figures from different repetitions says
//! nothing. A figure of a report is the median over repetitions, with its least and its greatest.

use std::collections::BTreeMap;
use std::fmt;

/// What was measured, apart from whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cell {
    /// From the start of the process to its first answer, and its memory then.
    Start,
    /// Requests by this many callers at a dependency that takes this many milliseconds.
    Load { delay_ms: u64, callers: usize },
    /// Requests that an open circuit refuses.
    Refused { callers: usize },
    /// This many event streams at once.
    Stream { streams: usize },
    /// Memory before and after many requests.
    Growth,
}

/// What a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Figure {
    /// Answers per second.
    Rate,
    /// Milliseconds: of an answer, or of the first event of a stream.
    Median,
    /// Milliseconds, 99th percentile of the same.
    P99,
    /// Microseconds of CPU for one request or one event.
    Cpu,
    /// Share of its core that the gateway used, in per cent.
    Busy,
    /// MiB when the cell was over.
    Memory,
    /// Milliseconds of a whole stream.
    Whole,
    /// Milliseconds, the largest gap of a stream; the median stream.
    Gap,
    /// Requests or streams that went wrong.
    Wrong,
    /// Seconds to the first answer.
    FirstAnswer,
    /// MiB that memory grew by.
    Growth,
}

/// Whose figure, of which cell.
pub(crate) type Source<'a> = (&'a str, Cell, Figure);

/// The figures of one run.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    figures: BTreeMap<(String, Cell, Figure), BTreeMap<usize, f64>>,
}

impl Sheet {
    pub(crate) fn put(&mut self, repetition: usize, (peer, cell, figure): Source<'_>, value: f64) {
        self.figures.entry((peer.to_owned(), cell, figure)).or_default().insert(repetition, value);
    }

    /// Returns the figure of every repetition that has it.
    pub(crate) fn of(&self, source: Source<'_>) -> Spread {
        Spread(self.column(source).values().copied().collect())
    }

    /// Returns the figure combined with another of the same repetition, for each repetition that has both.
    pub(crate) fn paired(&self, one: Source<'_>, other: Source<'_>, combine: fn(f64, f64) -> f64) -> Spread {
        let others = self.column(other);
        let pairs = self.column(one);
        Spread(pairs.iter().filter_map(|(repetition, one)| Some(combine(*one, *others.get(repetition)?))).collect())
    }

    /// Returns the ratio to another figure of the same repetition.
    pub(crate) fn ratio(&self, one: Source<'_>, other: Source<'_>) -> Spread {
        self.paired(one, other, |one, other| one / other)
    }

    fn column(&self, (peer, cell, figure): Source<'_>) -> BTreeMap<usize, f64> {
        self.figures.get(&(peer.to_owned(), cell, figure)).cloned().unwrap_or_default()
    }
}

/// The values of one figure over the repetitions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread(Vec<f64>);

impl Spread {
    pub(crate) fn median(&self) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }

    pub(crate) fn sum(&self) -> f64 {
        self.0.iter().sum()
    }
}

impl fmt::Display for Spread {
    /// Writes `median (least–greatest)` with the precision of the format, a single value alone, and a dash for none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        let Some(median) = self.median() else { return f.write_str("–") };
        if self.0.len() == 1 {
            return write!(f, "{median:.digits$}");
        }
        let least = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        write!(f, "{median:.digits$} ({least:.digits$}–{greatest:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Cell = Cell::Load { delay_ms: 0, callers: 32 };

    #[test]
    fn a_ratio_compares_only_within_a_repetition() {
        let mut sheet = Sheet::default();
        for (repetition, peer, value) in [(0, "one", 10.0), (0, "other", 5.0), (1, "one", 40.0), (2, "other", 1.0)] {
            sheet.put(repetition, (peer, LOAD, Figure::Cpu), value);
        }
        let ratio = sheet.ratio(("one", LOAD, Figure::Cpu), ("other", LOAD, Figure::Cpu));
        assert_eq!(format!("{ratio:.1}"), "2.0");
    }

    #[test]
    fn a_spread_shows_its_median_its_least_and_its_greatest() {
        assert_eq!(format!("{:.1}", Spread(vec![3.0, 1.0, 20.0])), "3.0 (1.0–20.0)");
        assert_eq!(format!("{:.1}", Spread(Vec::new())), "–");
    }
}
