//! What is shipped beside the program says what the program does: the unit, the dashboard, the rules, the runbooks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser as _;
use halfopen_cli::args::Cli;
use halfopen_core::alert::Kind;
use serde_json::Value;

use crate::metrics::series;
use crate::stub::{Reply, Stub};
use crate::world::{Starting, policy};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn file(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The labels of each metric of a real gateway, with the values they had.
type Labels = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Scrapes a gateway with an owner and a call behind it.
fn scraped() -> Labels {
    let stub = Stub::start();
    stub.always(Reply::ok("well"));
    let channels = "alerts:\n  oncall:\n  - webhook: http://127.0.0.1:9/x\n";
    let gateway = Starting::new(&format!("{}{channels}", policy(&stub.url(), "owner: oncall"))).start();
    gateway.get("/d/up/x");
    let mut known = Labels::new();
    for (name, _) in series(&gateway.ask("GET", "/metrics", &[], "").text()) {
        let (name, labels) = name.split_once('{').unwrap_or((&name, ""));
        let of = known.entry(name.to_owned()).or_default();
        for pair in labels.trim_end_matches('}').split("\",").filter(|pair| !pair.is_empty()) {
            let (label, value) = pair.split_once("=\"").unwrap();
            of.entry(label.to_owned()).or_default().insert(value.trim_end_matches('"').to_owned());
        }
    }
    known
}

/// Holds every metric, label and value in an expression against what a gateway shows.
fn holds(expression: &str, known: &Labels) {
    let mut rest = expression;
    let mut all_labels: BTreeSet<&str> = BTreeSet::new();
    while let Some(at) = rest.find("halfopen_") {
        let tail = &rest[at..];
        let end = tail.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(tail.len());
        let (name, after) = tail.split_at(end);
        let labels = known.get(name).unwrap_or_else(|| panic!("no metric {name}, in {expression}"));
        all_labels.extend(labels.keys().map(String::as_str));
        rest = after;
        let Some(matchers) = after.strip_prefix('{') else { continue };
        let (matchers, _) = matchers.split_once('}').unwrap();
        for matcher in matchers.split("\",") {
            let end = matcher.find(['=', '!']).unwrap();
            let (label, value) = matcher.split_at(end);
            let values = labels.get(label).unwrap_or_else(|| panic!("{name} has no label {label}, in {expression}"));
            let value = value.trim_start_matches(['=', '!', '~']).trim_matches('"');
            for word in value.split('|').filter(|word| !word.starts_with('$')) {
                assert!(values.contains(word), "{name} is never {label}={word}, in {expression}");
            }
        }
    }
    // What is grouped by stands on some metric of the expression; `le` ends a span.
    for grouped in expression.split(" by (").skip(1) {
        for label in grouped.split(')').next().unwrap().split(',').map(str::trim) {
            assert!(all_labels.contains(label), "nothing has the label {label}, in {expression}");
        }
    }
}

fn rules() -> Vec<Value> {
    let read: Value = serde_saphyr::from_str(&file("packaging/prometheus/halfopen.rules.yaml")).unwrap();
    let groups = read["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

#[test]
fn every_rule_is_about_a_metric_there_is_and_has_a_runbook() {
    let known = scraped();
    let operate = file("docs/operate.md");
    for rule in rules() {
        let name = rule["alert"].as_str().unwrap();
        holds(rule["expr"].as_str().unwrap(), &known);
        assert!(["info", "warning", "critical"].contains(&rule["labels"]["severity"].as_str().unwrap()), "{name}");
        let summary = rule["annotations"]["summary"].as_str().unwrap();
        assert!(!summary.is_empty());
        let expected = format!("{}/blob/main/docs/operate.md#{}", env!("CARGO_PKG_REPOSITORY"), name.to_lowercase());
        assert_eq!(rule["annotations"]["runbook_url"], expected, "{name}");
        assert!(operate.contains(&format!("\n### {name}\n")), "{name} has no section");
    }
    // A promtool on the machine knows the language better than we do.
    if let Ok(checked) = Command::new("promtool")
        .args(["check", "rules"])
        .arg(root().join("packaging/prometheus/halfopen.rules.yaml"))
        .output()
    {
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    }
}

#[test]
fn every_panel_is_about_metrics_there_are() {
    let known = scraped();
    let board: Value = serde_json::from_str(&file("packaging/grafana/halfopen.json")).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    let mut used = String::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        assert!(!panel["title"].as_str().unwrap().is_empty() && !panel["description"].as_str().unwrap().is_empty());
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            holds(expression, &known);
            used.push_str(expression);
        }
    }
    for metric in
        ["circuit_state", "calls_total", "attempts_total", "jobs_oldest_seconds", "alerts_waiting", "wait_seconds"]
    {
        assert!(used.contains(metric), "{metric} is on no panel");
    }
    let query = board["templating"]["list"][1]["query"].as_str().unwrap();
    holds(query, &known);
}

#[test]
fn every_type_of_alert_has_a_runbook_and_links_to_it() {
    let operate = file("docs/operate.md");
    for kind in Kind::ALL {
        let heading = kind.as_str().trim_start_matches("dev.halfopen.");
        let (_, section) = operate
            .split_once(&format!("\n### {heading}\n"))
            .unwrap_or_else(|| panic!("{heading} has no section in docs/operate.md"));
        let section = section.split("\n#").next().unwrap();
        for part in ["**It means**", "**Look at**", "**Do**"] {
            assert!(section.contains(part), "{heading} does not say {part}");
        }
        let link = halfopen_cli::alerts::runbook(kind.as_str());
        // As GitHub names the place of a heading.
        assert!(link.ends_with(&format!("docs/operate.md#{}", heading.replace('.', ""))), "{link}");
    }
}

/// Every command that a runbook names is one that this version understands.
#[test]
fn every_command_in_the_runbooks_can_be_written_so() {
    let operate = file("docs/operate.md");
    let parts: Vec<&str> = operate.split("```").collect();
    // In the text what stands between two backticks, in blocks each line.
    let inline = parts.iter().step_by(2).flat_map(|text| text.split('`').skip(1).step_by(2));
    let lines = parts.iter().skip(1).step_by(2).flat_map(|block| block.lines());
    let commands: Vec<String> = inline
        .chain(lines)
        .map(|line| line.split(" # ").next().unwrap_or_default().split(" > ").next().unwrap_or_default().to_owned())
        .collect();
    let (mut seen, mut faults) = (0, Vec::new());
    for command in commands.iter().map(|command| command.split_whitespace().collect::<Vec<_>>().join(" ")) {
        if !command.starts_with("halfopen ") {
            continue;
        }
        let words = words(&command.replace(" ID", " j17-9f3ac2d1"));
        // A command that is named without its arguments is a name.
        if words.len() <= 2 || words[1].contains('.') {
            continue;
        }
        seen += 1;
        if let Err(error) = Cli::try_parse_from(&words) {
            // One that is only named stands without what it needs.
            if error.kind() != clap::error::ErrorKind::MissingRequiredArgument {
                faults.push(format!("`{command}`: {error}"));
            }
        }
    }
    assert!(faults.is_empty() && seen >= 15, "{seen}: {faults:#?}");
}

/// Splits a command at its spaces, outside of quotes.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut quote) = (vec![String::new()], None);
    for c in command.chars() {
        match (c, quote) {
            (' ', None) => words.push(String::new()),
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (c, _) => words.last_mut().unwrap().push(c),
        }
    }
    words
}

/// The unit starts what there is, with variables that there are, and systemd understands it where it is installed.
#[test]
fn the_unit_starts_this_program() {
    let unit = file("packaging/systemd/halfopen.service");
    let of = |key: &str| {
        unit.lines().find_map(|line| line.strip_prefix(&format!("{key}="))).unwrap_or_else(|| panic!("{key}"))
    };
    assert_eq!(
        (of("Type"), of("DynamicUser"), of("ProtectSystem"), of("NoNewPrivileges")),
        ("notify", "yes", "strict", "yes")
    );
    assert!(of("WatchdogSec").parse::<u64>().unwrap() >= 10);
    let words: Vec<&str> = of("ExecStart").split(' ').collect();
    assert!(Cli::try_parse_from(&words).is_ok(), "{words:?}");
    let help = Command::new(env!("CARGO_BIN_EXE_halfopen")).args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for variable in unit.lines().filter_map(|line| line.strip_prefix("Environment=")) {
        let (name, _) = variable.split_once('=').unwrap();
        assert!(help.split_whitespace().collect::<String>().contains(&format!("[env:{name}=")), "{name}");
    }
    let Ok(systemd) = Command::new("systemd-analyze").arg("--version").output() else { return };
    assert!(systemd.status.success());
    let home = tempfile::tempdir().unwrap();
    let here = unit.replace("/usr/bin/halfopen", env!("CARGO_BIN_EXE_halfopen"));
    for (name, text) in [("halfopen.service", here)].into_iter().chain(
        ["nightly.service", "nightly.timer", "halfopen-drain.service", "halfopen-drain.timer"].map(|name| {
            let text = file(&format!("examples/systemd/{name}"));
            (name, text.replace("/usr/bin/halfopen", env!("CARGO_BIN_EXE_halfopen")))
        }),
    ) {
        std::fs::write(home.path().join(name), text).unwrap();
    }
    for name in ["halfopen.service", "nightly.timer", "halfopen-drain.timer"] {
        let checked = Command::new("systemd-analyze")
            .args(["verify", "--man=no", "--recursive-errors=no"])
            .arg(home.path().join(name))
            .env("SYSTEMD_UNIT_PATH", format!("{}:", home.path().display()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        let about_it: Vec<&str> = said.lines().filter(|line| line.contains(home.path().to_str().unwrap())).collect();
        assert!(about_it.is_empty(), "{name}: {said}");
    }
}

/// Credentials that systemd passes are read where it keeps them.
#[test]
fn a_credential_is_read_from_the_folder_that_systemd_names() {
    let stub = Stub::start();
    stub.always(Reply::ok("well"));
    let keys = "credentials: { main: { from_file: $CREDENTIALS_DIRECTORY/up } }";
    let starting = Starting::new(&policy(&stub.url(), keys));
    starting.write("up", "sk-passed-0123456789\n");
    let folder = starting.path("").to_str().unwrap().to_owned();
    let gateway = starting.variable("CREDENTIALS_DIRECTORY", &folder).start();
    assert_eq!(gateway.get("/d/up/x").status, 200);
    assert_eq!(stub.seen()[0].field("authorization"), Some("Bearer sk-passed-0123456789"));
    let without = Starting::new(&policy(&stub.url(), keys)).start();
    assert_eq!(without.get("/d/up/x").status, 503);
    assert!(without.said().contains("$CREDENTIALS_DIRECTORY/up"), "{}", without.said());
}

/// The manual has a page for each command, with every flag that `--help` shows.
#[test]
fn the_manual_has_a_page_for_each_command() {
    let home = tempfile::tempdir().unwrap();
    let pages = home.path().join("man1");
    let man = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_halfopen")).arg("man").args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(man(&[]).contains(".TH halfopen 1"));
    man(&[pages.to_str().unwrap()]);
    let page = |name: &str| {
        let text = std::fs::read_to_string(pages.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        text.replace("\\-", "-")
    };
    for command in
        ["run", "serve", "drill", "drain", "status", "why", "hold", "jobs-requeue", "alerts-test", "classify"]
    {
        assert!(page(&format!("halfopen-{command}.1")).contains(".SH SYNOPSIS"), "{command}");
    }
    for flag in ["--log-format", "--activation-interval", "--admin-token-file", "HALFOPEN_LISTEN"] {
        assert!(page("halfopen-serve.1").contains(flag), "{flag}");
    }
    // An option that takes a value is written with it.
    let synopsis = |name: &str| {
        let page = page(name);
        let (_, rest) = page.split_once(".SH SYNOPSIS").unwrap();
        rest.split_once(".SH ").unwrap().0.replace(['\n', '\\'], " ")
    };
    for (name, words) in [
        ("halfopen-run.1", "[--dep <NAME>]"),
        ("halfopen-run.1", "[--stream]"),
        ("halfopen-run.1", "-- <CMD>..."),
        ("halfopen-jobs-requeue.1", "[--ttl <DURATION>]"),
        ("halfopen-drain.1", "--once"),
    ] {
        let synopsis = synopsis(name);
        assert!(synopsis.contains(words), "{name}: {words} in {synopsis}");
    }
    // A groff on the machine finds no mistake in it.
    if let Ok(read) =
        Command::new("groff").args(["-man", "-ww", "-Tutf8", "-z"]).arg(pages.join("halfopen-serve.1")).output()
    {
        let said = String::from_utf8_lossy(&read.stderr).into_owned();
        assert!(read.status.success() && said.is_empty(), "{said}");
    }
}
