//! Writes what became of the rows and the mutants: a table for people, JSON, JUnit XML.

use std::fmt::Write as _;

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use serde::Serialize;

use super::mutate::{Killed, MutantResult};
use super::row::{Row, RowVerdict};

/// How wide a table is where nobody says how wide the terminal is, in columns; and the least.
const WIDTH: u16 = 160;
const WIDTH_MIN: u16 = 80;

/// What was drilled for one dependency.
#[derive(Clone, Debug)]
pub(super) struct Drilled<T> {
    /// Its name.
    pub(super) dependency: String,
    /// What came of it.
    pub(super) found: Vec<T>,
}

/// Returns the rows as a table a person can read.
pub(super) fn table(drilled: &[Drilled<Row>], time: &str, width: Option<u16>) -> String {
    let mut text = String::new();
    for Drilled { dependency, found } in drilled {
        let mut table = framed(&["ROW", "INJECTED", "EXPECTED", "SEEN", "VERDICT", time], width);
        for row in found {
            table.add_row([
                row.row.clone(),
                row.injected.clone(),
                row.expected.clone(),
                row.seen.clone(),
                row.verdict.as_str().to_owned(),
                virtual_time(row),
            ]);
        }
        narrow(&mut table, &[0, 4, 5]);
        let _ = write!(text, "{dependency}\n{}\n", trimmed(&table));
    }
    text
}

/// Returns the mutants as a table a person can read.
pub(super) fn mutants_table(drilled: &[Drilled<Killed>], width: Option<u16>) -> String {
    let mut text = String::new();
    for Drilled { dependency, found } in drilled {
        let mut table = framed(&["SWITCHED OFF", "RESULT", "ROW", "SEEN"], width);
        for killed in found {
            table.add_row([
                killed.name.clone(),
                killed.result.as_str().to_owned(),
                killed.row.clone().unwrap_or_default(),
                killed.seen.clone(),
            ]);
        }
        narrow(&mut table, &[0, 1, 2]);
        let _ = write!(text, "{dependency}\n{}\n", trimmed(&table));
    }
    text
}

fn framed(head: &[&str], width: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width.unwrap_or(WIDTH).max(WIDTH_MIN));
    table.set_header(head.iter().copied());
    table
}

/// Gives columns of short words no more than they need.
fn narrow(table: &mut Table, columns: &[usize]) {
    for column in columns {
        if let Some(column) = table.column_mut(*column) {
            column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(22)));
        }
    }
}

fn trimmed(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn virtual_time(row: &Row) -> String {
    match row.verdict {
        RowVerdict::NotApplicable => String::new(),
        RowVerdict::Pass | RowVerdict::Fail => {
            crate::duration::show(std::time::Duration::try_from_secs_f64(row.virtual_s).unwrap_or_default())
        }
    }
}

/// Returns the sum of it in one line.
pub(super) fn summary(drilled: &[Drilled<Row>]) -> String {
    let count = |verdict| drilled.iter().flat_map(|one| &one.found).filter(|row| row.verdict == verdict).count();
    let rows: usize = drilled.iter().map(|one| one.found.len()).sum();
    format!(
        "{rows} rows: {} passed, {} failed, {} n/a",
        count(RowVerdict::Pass),
        count(RowVerdict::Fail),
        count(RowVerdict::NotApplicable)
    )
}

/// Returns the sum of the mutants in one line.
pub(super) fn mutants_summary(drilled: &[Drilled<Killed>]) -> String {
    let count = |result| drilled.iter().flat_map(|one| &one.found).filter(|one| one.result == result).count();
    format!(
        "{} mechanisms switched off: {} noticed, {} NOT noticed, {} n/a",
        drilled.iter().map(|one| one.found.len()).sum::<usize>(),
        count(MutantResult::Killed),
        count(MutantResult::Survived),
        count(MutantResult::NotApplicable)
    )
}

/// Returns the rows as JSON.
pub(super) fn json(drilled: &[Drilled<Row>]) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Report {
        rows: Vec<Row>,
    }
    let name = |dependency: &str, row: &Row| Row { row: named(drilled.len(), dependency, &row.row), ..row.clone() };
    let rows = drilled.iter().flat_map(|one| one.found.iter().map(move |row| name(&one.dependency, row))).collect();
    serde_json::to_string_pretty(&Report { rows })
}

/// Returns the mutants as JSON.
pub(super) fn mutants_json(drilled: &[Drilled<Killed>]) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Report {
        mutants: Vec<Killed>,
    }
    let name =
        |dependency: &str, one: &Killed| Killed { name: named(drilled.len(), dependency, &one.name), ..one.clone() };
    let mutants = drilled.iter().flat_map(|one| one.found.iter().map(move |mutant| name(&one.dependency, mutant)));
    serde_json::to_string_pretty(&Report { mutants: mutants.collect() })
}

/// Returns a name, with the dependency before it where there are several.
fn named(dependencies: usize, dependency: &str, name: &str) -> String {
    if dependencies > 1 { format!("{dependency}: {name}") } else { name.to_owned() }
}

/// Returns the rows as JUnit XML, one suite for each dependency. Times are virtual.
pub(super) fn junit(drilled: &[Drilled<Row>]) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"halfopen drill\">\n");
    for Drilled { dependency, found } in drilled {
        let count = |verdict| found.iter().filter(|row| row.verdict == verdict).count();
        let _ = writeln!(
            xml,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">",
            escaped(dependency),
            found.len(),
            count(RowVerdict::Fail),
            count(RowVerdict::NotApplicable)
        );
        for row in found {
            let (class, name) = (escaped(dependency), escaped(&row.row));
            let _ = write!(xml, "    <testcase classname=\"{class}\" name=\"{name}\" time=\"{:.3}\"", row.virtual_s);
            let (injected, expected, seen) = (escaped(&row.injected), escaped(&row.expected), escaped(&row.seen));
            let _ = match row.verdict {
                RowVerdict::Pass => writeln!(xml, "/>"),
                RowVerdict::NotApplicable => writeln!(xml, "><skipped message=\"{expected}\"/></testcase>"),
                RowVerdict::Fail => writeln!(
                    xml,
                    "><failure message=\"{seen}\">injected: {injected}\nexpected: {expected}\nseen: {seen}\
                     </failure></testcase>"
                ),
            };
        }
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}

/// Returns a text as it may stand in XML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            // XML 1.0 has no way to write them.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(verdict: RowVerdict) -> Row {
        Row {
            row: "X1 \"quoted\" & <odd>".to_owned(),
            injected: "a\u{1}b".to_owned(),
            expected: "nothing".to_owned(),
            seen: "1 < 2".to_owned(),
            verdict,
            virtual_s: 1.5,
        }
    }

    #[test]
    fn junit_is_well_formed_whatever_a_row_is_called() {
        let found = vec![row(RowVerdict::Pass), row(RowVerdict::Fail), row(RowVerdict::NotApplicable)];
        insta::assert_snapshot!(junit(&[Drilled { dependency: "a&b".to_owned(), found }]));
    }

    #[test]
    fn several_dependencies_are_told_apart_in_json() {
        let one = |name: &str| Drilled { dependency: name.to_owned(), found: vec![row(RowVerdict::Pass)] };
        let json = json(&[one("ocr"), one("crm")]).unwrap();
        assert!(json.contains("\"row\": \"crm: X1"), "{json}");
        assert!(!super::json(&[one("ocr")]).unwrap().contains("ocr: "), "a single one needs no name");
    }
}
