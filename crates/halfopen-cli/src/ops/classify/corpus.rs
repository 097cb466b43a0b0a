//! Judges a file of outcomes and checks those that say what they mean.

use std::collections::BTreeMap;

use halfopen::config::Config;
use halfopen_core::classify::Classifier;
use halfopen_core::time::ReadAt;
use halfopen_core::verdict::{Class, Verdict};

use super::cases::Case;
use super::explain::{json_line, wait_words};
use super::{ClassifyArgs, ClassifyError, classifier, now};
use crate::ui;

/// What came of a file.
#[derive(Debug, Default)]
struct Tally {
    judged: usize,
    expected: usize,
    class_missed: usize,
    hint_missed: usize,
    /// (expected, found) → how often.
    table: BTreeMap<(String, &'static str), usize>,
}

/// Judges every line of `text`; returns whether all expectations were met.
pub(super) fn check(text: &str, args: &ClassifyArgs, config: &Config) -> Result<bool, ClassifyError> {
    let clock = now();
    let mut tally = Tally::default();
    let mut classifiers: BTreeMap<String, Classifier> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let mut case: Case = serde_json::from_str(line)
            .map_err(|error| ClassifyError::Usage(format!("line {} is no outcome: {error}", index + 1)))?;
        if case.id.is_empty() {
            case.id = format!("line-{}", index + 1);
        }
        if !classifiers.contains_key(&case.tool) {
            classifiers.insert(case.tool.clone(), classifier(config, args, Some(&case.tool))?.0);
        }
        let at = case.read_at(clock);
        for verdict in case.judge(&classifiers[&case.tool], &at) {
            tally.judged += 1;
            if args.json {
                ui::data(&json_line(Some(&case.id), &verdict));
            }
            compare(&case, &verdict, &at, &mut tally, args.json);
        }
    }
    summary(&tally, args.json);
    Ok(tally.class_missed + tally.hint_missed == 0)
}

fn compare(case: &Case, verdict: &Verdict, at: &ReadAt, tally: &mut Tally, json: bool) {
    let Some(expect) = &case.expect else {
        if !json {
            ui::data(&format!("{}: {} by {}", case.id, verdict.class, verdict.rule));
        }
        return;
    };
    tally.expected += 1;
    let class_met = expect.class_is_met(verdict);
    let shown = if class_met { verdict.class.as_str().to_owned() } else { expect.class.clone() };
    *tally.table.entry((shown, verdict.class.as_str())).or_default() += 1;
    let hint_met = expect.hint_is_met(verdict, at);
    let say = |text: String| {
        if json {
            ui::say(&text);
        } else {
            ui::data(&text);
        }
    };
    if !class_met {
        tally.class_missed += 1;
        say(format!(
            "{}: expected {}, found {} by {} ({}: {})",
            case.id, expect.class, verdict.class, verdict.rule, verdict.evidence.place, verdict.evidence.excerpt
        ));
    }
    if !hint_met {
        tally.hint_missed += 1;
        say(format!("{}: expected wait {}, found {}", case.id, expect.wait(), wait_words(verdict)));
    }
}

fn summary(tally: &Tally, json: bool) {
    if tally.expected == 0 {
        return;
    }
    let percent = |missed: usize| {
        let right = tally.expected - missed;
        let tenths = right * 1000 / tally.expected;
        format!("{right} of {} ({}.{} %)", tally.expected, tenths / 10, tenths % 10)
    };
    let line = format!("classes right: {}; waits right: {}", percent(tally.class_missed), percent(tally.hint_missed));
    if json {
        ui::say(&line);
        return;
    }
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    let found: Vec<&str> =
        Class::ALL.map(Class::as_str).into_iter().filter(|class| tally.table.keys().any(|(_, f)| f == class)).collect();
    table.set_header(std::iter::once("expected \\ found").chain(found.iter().copied()));
    for expected in Class::ALL.map(Class::as_str) {
        if !tally.table.keys().any(|(e, _)| e == expected) {
            continue;
        }
        let counts = found
            .iter()
            .map(|f| tally.table.get(&(expected.to_owned(), *f)).map_or_else(|| "·".to_owned(), usize::to_string));
        table.add_row(std::iter::once(expected.to_owned()).chain(counts));
    }
    ui::data(&format!("\n{table}\n\n{line}"));
}
