//! Writes data to standard output.

use std::io::{ErrorKind, Write as _};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use super::Failure;
use crate::exit;

/// Writes text to standard output. A reader that left (`| head -1`) has what it wanted.
pub(super) fn text(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::new(exit::IO, format!("standard output cannot be written: {error}"))),
    }
}

/// Writes a value as JSON, indented as a person can read it.
pub(super) fn json(value: &impl Serialize) -> Result<(), Failure> {
    match serde_json::to_string_pretty(value) {
        Ok(json) => text(&(json + "\n")),
        Err(error) => Err(Failure::new(exit::FAILED, format!("JSON cannot be written: {error}"))),
    }
}

/// Returns a table without lines: columns apart by spaces, so that it can be read, cut and searched.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|word| word.to_uppercase()).collect();
    laid_out(&head, rows)
}

/// Returns a table whose head holds names that are to be read as they are.
pub(super) fn table_as_written(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|word| (*word).to_owned()).collect();
    laid_out(&head, rows)
}

fn laid_out(head: &[String], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
