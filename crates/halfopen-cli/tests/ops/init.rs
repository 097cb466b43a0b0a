//! `init`: a policy to start from.

use std::path::Path;

use halfopen::config::{Config, Demand};
use halfopen_core::policy::{Policy, Surface};

use crate::world::World;

#[test]
fn it_is_written_once_and_only_overwritten_by_force() {
    let world = World::new();
    let said = world.halfopen(&["init"]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""), "{}", said.err);
    let path = world.path(".config/halfopen/halfopen.yaml");
    std::fs::write(&path, "# mine\n").unwrap();
    let again = world.halfopen(&["init"]);
    assert_eq!(again.code, Some(64));
    assert!(again.err.contains("was left as it is") && again.err.contains("\nhint: "), "{}", again.err);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "# mine\n");
    assert_eq!(world.halfopen(&["init", "--force"]).code, Some(0));
    assert_ne!(std::fs::read_to_string(&path).unwrap(), "# mine\n");
    assert_eq!(world.halfopen(&["check", "--strict"]).code, Some(0));
    assert_eq!(world.halfopen(&["init", "deep/er/policy.yaml"]).code, Some(0));
    assert!(world.path("deep/er/policy.yaml").exists());
}

#[test]
fn it_changes_nothing_and_each_of_its_lines_can_be_used() {
    let world = World::new();
    world.halfopen(&["init", "policy.yaml"]);
    let text = std::fs::read_to_string(world.path("policy.yaml")).unwrap();
    let read = |text: &str| match Config::parse(text, Path::new("starter"), None, Demand::Usable) {
        Ok((config, findings)) => (config, findings),
        Err(error) => panic!("{error:#?}\n{text}"),
    };
    let (config, findings) = read(&text);
    assert_eq!(findings, []);
    let claude = config.dependency("claude", Surface::Run).policy;
    assert_eq!(claude, Policy::built_in("claude", Surface::Run), "a starter shows the defaults");
    // Without the marks of comments every key is accepted, too.
    let prose = |line: &str| line.starts_with("# ") && (line.ends_with('.') || line.ends_with("docs/policy.md"));
    let bare: String = text
        .lines()
        .filter(|line| !prose(line))
        .map(|line| format!("{}\n", line.replacen("# ", "", usize::from(line.trim_start().starts_with("# ")))))
        .collect();
    let (config, _) = read(&bare);
    let names: Vec<&String> = config.dependencies.keys().collect();
    assert_eq!(names, ["claude", "codex", "ocr"]);
    assert!(config.owners.contains_key("me"));
}
