//! Finds the numbers that tests name, by reading their sources line by line.
//!
//! A number belongs to the test below it if it stands in the comments and attributes right above that test, to the test
//! around it if it stands inside one, and to every test of a file if it stands in the file's own comment. What stands
//! anywhere else (beside a helper, in the product) is no test and does not count. A parser of Rust would know no more
//! than this needs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One test.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Named {
    /// Its file, from the root of the repository.
    pub(crate) file: String,
    /// Its name.
    pub(crate) test: String,
}

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Returns every number that a test names, with the test.
pub(crate) fn named_by_tests() -> BTreeSet<(String, Named)> {
    let mut found = BTreeSet::new();
    for file in rust_files(&root().join("crates")) {
        let text = std::fs::read_to_string(&file).unwrap();
        let shown = file.strip_prefix(root()).unwrap().display().to_string();
        for (number, test) in named_in(&text) {
            found.insert((number, Named { file: shown.clone(), test }));
        }
    }
    found
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // What this test says about itself names no number of a test.
            if !path.ends_with("tests/scenarios") && !path.ends_with("target") {
                files.extend(rust_files(&path));
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// One function as it stands in a file.
struct Function {
    name: String,
    is_test: bool,
    indent: usize,
    numbers: BTreeSet<String>,
}

/// Returns the numbers that the tests of a file name.
fn named_in(text: &str) -> BTreeSet<(String, String)> {
    let mut whole_file = BTreeSet::new();
    let mut above = (BTreeSet::new(), false);
    let mut functions: Vec<Function> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        if code.starts_with("//!") {
            whole_file.extend(numbers(code));
        } else if let Some(name) = function(code) {
            let (mut numbers, is_test) = std::mem::take(&mut above);
            numbers.extend(number_of_name(name));
            functions.push(Function { name: name.to_owned(), is_test, indent, numbers });
            inside = !code.ends_with('}');
        } else if inside {
            let current = functions.last_mut().expect("a function was begun");
            current.numbers.extend(numbers(code));
            // The closing brace stands under the beginning: the code is formatted.
            inside = !(indent == current.indent && code.starts_with('}'));
        } else if code.starts_with("//") || code.starts_with("#[") || !above.0.is_empty() || above.1 {
            above.0.extend(numbers(code));
            above.1 |= code.starts_with("#[test") || code.starts_with("#[tokio::test");
            if code.is_empty() {
                above = (BTreeSet::new(), false);
            }
        }
    }
    let tests = functions.into_iter().filter(|function| function.is_test);
    tests
        .flat_map(|Function { name, numbers, .. }| {
            numbers.into_iter().chain(whole_file.iter().cloned()).map(move |number| (number, name.clone()))
        })
        .collect()
}

/// Returns the name of the function that a line begins.
fn function(code: &str) -> Option<&str> {
    let mut rest = code;
    for word in ["pub(crate) ", "pub(super) ", "pub ", "const ", "async "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let rest = rest.strip_prefix("fn ")?;
    rest.split(['(', '<']).next()
}

/// Returns the numbers in a line.
fn numbers(line: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in line.match_indices('S') {
        let before = line[..at].chars().next_back();
        let digits: String = line[at + 1..].chars().take_while(char::is_ascii_digit).collect();
        let after = line[at + 1 + digits.len()..].chars().next();
        let apart = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        if digits.len() == 3 && apart(before) && apart(after) {
            found.insert(format!("S{digits}"));
        }
    }
    found
}

/// Returns the number that a name ends with: `extreme_settings_stay_below_the_cap_s108`.
fn number_of_name(name: &str) -> Option<String> {
    let (_, last) = name.rsplit_once("_s")?;
    (last.len() == 3 && last.bytes().all(|b| b.is_ascii_digit())).then(|| format!("S{last}"))
}

#[test]
fn numbers_are_found_above_and_inside_a_test_and_nowhere_else() {
    let text = "\
//! A file.
/// S900: beside a helper.
fn helper() {
    // S901: inside a helper.
}

/// S902, S903.
#[test_case(1; \"S904 a row\")]
fn a_table(n: u32) {
    assert!(n > 0, \"S905\");
}

/// XS906 and S9067 are no numbers.
#[test]
fn a_name_s907() {}

// S908: above a table.
#[test]
fn after_a_comment() {
}
";
    let found: Vec<String> = named_in(text).into_iter().map(|(number, test)| format!("{number} {test}")).collect();
    let wanted =
        ["S902 a_table", "S903 a_table", "S904 a_table", "S905 a_table", "S907 a_name_s907", "S908 after_a_comment"];
    assert_eq!(found, wanted);
}
