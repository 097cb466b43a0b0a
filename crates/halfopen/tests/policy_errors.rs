//! Wrong policies, one of each kind, and what must be said about each: where, which key, what stands there, what may, and what
//! to do next. One mistake is one error.

use std::path::Path;

use halfopen::config::keys::{KEYS, Key, Kind};
use halfopen::config::{Config, ConfigError, Demand, Finding, Level};
use test_case::test_case;

fn errors(text: &str) -> Vec<Finding> {
    let all = match Config::parse(text, Path::new("halfopen.yaml"), None, Demand::Usable) {
        Ok((_, findings)) | Err(ConfigError::Invalid { findings, .. }) => findings,
        Err(other) => panic!("{other}"),
    };
    all.into_iter().filter(|finding| finding.level == Level::Error).collect()
}

/// A dependency with one key that is written so; every mapping on a line of its own, so that lines tell places.
fn with(path: &str, value: &str) -> String {
    let name = if path == "name" { "" } else { "  name: ocr\n" };
    let mut text = format!("dependency_guard:\n{name}");
    let words: Vec<&str> = path.split('.').collect();
    // This one must not stand alone.
    let beside = if path == "cache.max_bytes" { "max_age_sec: 60\n    " } else { "" };
    for (depth, word) in words.iter().enumerate() {
        let indent = 2 * (depth + 1);
        let value = if depth + 1 == words.len() { format!(" {value}") } else { String::new() };
        let beside = if depth == 1 { beside } else { "" };
        text.push_str(&format!("{:indent$}{beside}{word}:{value}\n", ""));
    }
    text
}

/// Values that no key of this kind takes.
fn wrong(key: &Key) -> Vec<String> {
    let mut values: Vec<String> = match key.kind {
        Kind::Group => ["7", "soon", "[a]", "true"].map(str::to_owned).into(),
        Kind::Name => ["{a: b}", "[a]", "a@b", "''"].map(str::to_owned).into(),
        Kind::Text => ["{a: b}", "[a]", "''"].map(str::to_owned).into(),
        Kind::Header => ["{a: b}", "[a]", "a b", "''"].map(str::to_owned).into(),
        Kind::Url => ["{a: b}", "[a]", "notaurl", "ftp://x", "7"].map(str::to_owned).into(),
        Kind::Bool => ["{a: b}", "[a]", "perhaps", "7", "'true '"].map(str::to_owned).into(),
        Kind::Count { .. } | Kind::Number { .. } | Kind::Time { .. } => {
            ["{a: b}", "[1]", "true", "soon", "-1", "1e300", ".nan", "''"].map(str::to_owned).into()
        }
        Kind::Span { .. } => ["{a: b}", "[1]", "true", "soon", "7", "-1s", "99999d"].map(str::to_owned).into(),
        Kind::Bytes { .. } => ["{a: b}", "[1]", "true", "soon", "-1", "1.5", "10 GB"].map(str::to_owned).into(),
        Kind::Word(_) | Kind::WordOrBool(_) | Kind::Words(_) | Kind::Order => {
            ["{a: b}", "7", "nonsense", "''"].map(str::to_owned).into()
        }
        Kind::Parts => ["{a: b}", "7", "[zone]", "[]"].map(str::to_owned).into(),
        Kind::Probe => ["{a: b}", "7", "[]", "'a | b'", "''"].map(str::to_owned).into(),
        Kind::Credentials => ["7", "soon", "[a]", "{main: 7}", "{main: {}}"].map(str::to_owned).into(),
        Kind::Receivers => ["7", "soon", "[]", "{pager: x}", "{webhook: {}}"].map(str::to_owned).into(),
        Kind::Rules => ["7", "soon", "{a: b}", "[7]", "[{name: a, class: nonsense}]"].map(str::to_owned).into(),
        other => panic!("{}: what is wrong for {other:?}?", key.path),
    };
    if key.kind != Kind::Group {
        values.push("~".to_owned());
    }
    if let Kind::Count { min: 1.., .. } = key.kind {
        values.push("0".to_owned());
    }
    values
}

/// Returns what of what whoever has to mend it needs an error does not say.
fn lacks(error: &Finding, line: usize) -> Vec<&'static str> {
    let place = error.line == line && error.column > 0 && error.rendered.contains('^');
    let place = place && error.rendered.contains("halfopen.yaml:");
    let said = [
        (place, "the place"),
        (!error.key.is_empty(), "the field"),
        (error.help.as_ref().is_some_and(|help| help.len() > 8), "the next step"),
    ];
    said.into_iter().filter(|(said, _)| !said).map(|(_, what)| what).collect()
}

/// S081. Every key of the policy, with every kind of wrong value.
#[test]
fn a_wrong_value_is_one_error_with_field_value_range_and_next_step() {
    let mut lacking = Vec::new();
    for key in KEYS {
        for value in wrong(key) {
            let text = with(key.path, &value);
            let found = errors(&text);
            let shown: String = found.iter().map(|error| error.rendered.as_str()).collect();
            let [error] = found.as_slice() else {
                lacking.push(format!("{}: {value}: {} errors\n{shown}", key.path, found.len()));
                continue;
            };
            let mut what = lacks(error, text.lines().count());
            let (message, last) = (&error.message, key.word());
            if !message.contains(last) && !error.key.contains(last) {
                what.push("the field");
            }
            let allowed = ["allowed is", "it is a mapping", "known", "is one of", "needs", "docs/classes.md"];
            let helps = |word: &&str| error.help.as_ref().is_some_and(|help| help.contains(*word));
            if !allowed.iter().any(|word| message.contains(*word) || helps(word)) {
                what.push("what is allowed");
            }
            let plain = value.trim_matches('\'').trim();
            if !value.contains(['[', '{', '~']) && !plain.is_empty() && !message.contains(plain) {
                what.push("the value");
            }
            if !what.is_empty() {
                lacking.push(format!("{}: {value}: lacks {}\n{shown}", key.path, what.join(", ")));
            }
        }
    }
    assert!(lacking.is_empty(), "{}\n{}", lacking.len(), lacking.join("\n"));
}

/// Every group, and the file itself, with a key that is none.
#[test]
fn an_unknown_key_is_one_error_with_a_next_step() {
    let groups = KEYS.iter().filter(|key| key.kind == Kind::Group).map(|key| key.path);
    let mut lacking = Vec::new();
    for group in groups.chain([""]) {
        for word in ["nonsense_at_all", "nam", "max_attempt", "7"] {
            let path = if group.is_empty() { word.to_owned() } else { format!("{group}.{word}") };
            let text = with(&path, "1");
            let found = errors(&text);
            // A group may demand a key beside it.
            let unknown: Vec<_> = found.iter().filter(|error| error.message.contains("unknown key")).collect();
            let [error] = unknown.as_slice() else {
                lacking.push(format!("{path}: {found:#?}"));
                continue;
            };
            let mut what = lacks(error, text.lines().count());
            if !error.message.contains(word) || !error.help.as_ref().is_some_and(|help| help.contains("known key")) {
                what.push("the value and what is known");
            }
            if !what.is_empty() {
                lacking.push(format!("{path}: lacks {}\n{}", what.join(", "), error.rendered));
            }
        }
    }
    assert!(lacking.is_empty(), "{}", lacking.join("\n"));
}

// What is wrong in a nested block is told where it stands, and nothing follows from it.
#[test_case("on_done: {webhook: {url: notaurl}}", "`url` is no http or https URL")]
#[test_case("on_done: {webhook: notaurl}", "`webhook` is no http or https URL")]
#[test_case("on_done: [{webhook: {url: notaurl}}, {command: [a]}]", "`url` is no http or https URL")]
#[test_case("on_done: {webhook: {url_from_env: 'a b'}}", "no name of an environment variable")]
#[test_case("on_done: {webhook: {secret_from_env: S}}", "and has neither")]
#[test_case("credentials: {main: {from_env: 'a b'}}", "no name of an environment variable")]
#[test_case("credentials: {main: {from_file: ''}}", "`from_file` is empty")]
#[test_case("credentials: {main: {from_env: A, from_file: b}}", "has both")]
#[test_case("credentials: {main: {from_env: A, header: 'a b'}}", "`header` is `a b`")]
#[test_case("credentials: {main: {from_env: A, heder: X}}", "unknown key `heder`")]
#[test_case("credentials: {'a@b': {from_env: A}}", "no name for a credential")]
#[test_case("split_by: [region, region]", "names `region` twice")]
#[test_case("fallback: ocr", "is `ocr` itself")]
#[test_case("upstream: notaurl\n  cache: {max_age_sec: 60}\n  on_open: {action: cache}", "`upstream` is `notaurl`")]
#[test_case("upstream: https://a.example.com\n  profile: nonsense", "there is no such pack")]
fn one_mistake_is_one_error(line: &str, said: &str) {
    let text = format!("dependency_guard:\n  name: ocr\n  {line}\n");
    let found = errors(&text);
    let [error] = found.as_slice() else { panic!("{line}: {found:#?}") };
    assert!(error.message.contains(said), "{}", error.rendered);
    assert!(error.help.is_some(), "{}", error.rendered);
}

#[test_case("alerts: {o: [{slack: {url: notaurl}}]}", "`url` is no http or https URL")]
#[test_case("alerts: {o: [{email: {to: nobody}}]}", "`nobody` is no mail address")]
#[test_case("alerts: {o: [{email: {to: []}}]}", "`email` needs `to`")]
#[test_case("alerts: {o: [7]}", "is a mapping such as")]
#[test_case("alerts: 7", "`alerts` is 7")]
#[test_case("store: 'mysql://x'", "`store` is `mysql://x`")]
#[test_case("store: [a]", "`store` is a list")]
#[test_case("dependencies: [7]", "is 7; it is a mapping of keys")]
#[test_case("dependencies: 7", "`dependencies` is 7")]
#[test_case("dependencies: [{timeout_ms: 5}]", "has no `name`")]
#[test_case("defaults: {name: x}", "`defaults` has no `name`")]
#[test_case("defaults: 7", "`defaults` is 7")]
#[test_case("nonsense: 7", "unknown key `nonsense`")]
#[test_case("[a]: 7", "a key is a word")]
#[test_case("- a", "a policy file is a mapping")]
fn a_mistake_beside_the_dependencies_is_one_error(text: &str, said: &str) {
    let found = errors(text);
    let [error] = found.as_slice() else { panic!("{text}: {found:#?}") };
    assert!(error.message.contains(said), "{}", error.rendered);
    assert!(error.help.is_some(), "{}", error.rendered);
}

// What is no YAML at all.
#[test_case("a: [1", "close it"; "a bracket")]
#[test_case("name: \"x\nb: 1", "close the quote"; "a quote")]
#[test_case("a: b: c", "in quotes"; "two colons")]
#[test_case("a: *x", "&NAME"; "an alias of nothing")]
#[test_case("a: &a [*a]", "where the alias stands"; "an alias of itself")]
#[test_case("a: 1\n---\nb: 2\n", "one file"; "two documents")]
#[test_case("dependency_guard:\n\tname: a\n", "spaces"; "a tab")]
#[test_case("a:\n  b: 1\n c: 2\n", "indentation"; "an indentation")]
#[test_case("a: @b\n", "look for"; "a reserved character")]
#[test_case("a: !!int x\n", "tag"; "a tag that is not true")]
fn a_text_that_is_no_yaml_says_what_to_do(text: &str, help: &str) {
    let found = errors(text);
    let [error] = found.as_slice() else { panic!("{text}: {found:#?}") };
    assert!(error.help.as_ref().is_some_and(|given| given.contains(help)), "{}", error.rendered);
    assert!(error.rendered.contains('^'), "{}", error.rendered);
}

/// A list that names none is easily taken for what holds.
#[test_case("dependency_guard: {name: a}\ndependencies: []\n"; "beside a dependency")]
#[test_case("dependencies: []\n"; "alone")]
#[test_case("dependencies:\n"; "nothing below it")]
fn an_empty_list_of_dependencies_is_warned_about(text: &str) {
    let (_, findings) = Config::parse(text, Path::new("halfopen.yaml"), None, Demand::Usable).expect("it is taken");
    let told = findings.iter().find(|finding| finding.message == "`dependencies` names none").expect("a warning");
    assert_eq!((told.level, told.help.is_some()), (Level::Warning, true));
}
