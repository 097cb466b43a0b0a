//! Writes docs/scenarios.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::numbers::Part;
use crate::sources::Named;

/// Returns the document.
pub(crate) fn written(
    parts: &[Part],
    tests: &BTreeMap<String, BTreeSet<Named>>,
    untested: &BTreeMap<String, String>,
) -> String {
    let all: usize = parts.iter().map(|part| part.numbers.len()).sum();
    let tested = parts.iter().flat_map(|part| &part.numbers).filter(|(n, _)| tests.contains_key(n)).count();
    let mut text = format!(
        "# What goes wrong in the field, and the tests that stand for it\n\n\
         Kinds of trouble seen in public bug reports of comparable tools; the number orders them by harm, S001 being the\n\
         worst. {tested} of {all} have tests that name them; the others say why not.\n\n\
         This file is generated from the tests: `HALFOPEN_UPDATE_SCENARIOS=1 cargo test -p halfopen-cli --test scenarios`\n\
         rewrites it, and a test holds it against them. A test names its number in its comment or in its name.\n",
    );
    for part in parts {
        let _ = write!(text, "\n## {}\n\n| number | what must hold | tests |\n|---|---|---|\n", part.title);
        for (number, title) in &part.numbers {
            let shown = match (tests.get(number), untested.get(number)) {
                (Some(tests), _) => listed(tests),
                (None, Some(reason)) => format!("none: {reason}"),
                (None, None) => "**none**".to_owned(),
            };
            let _ = writeln!(text, "| {number} | {title} | {shown} |");
        }
    }
    text
}

/// Returns tests, gathered by their files.
fn listed(tests: &BTreeSet<Named>) -> String {
    let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for Named { file, test } in tests {
        files.entry(file).or_default().push(format!("`{test}`"));
    }
    let shown: Vec<_> = files.into_iter().map(|(file, tests)| format!("{file}: {}", tests.join(", "))).collect();
    shown.join("<br>")
}
