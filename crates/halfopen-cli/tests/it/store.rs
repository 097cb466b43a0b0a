//! Without a store that serves, a run goes on, loudly.

use std::os::unix::fs::PermissionsExt as _;

use crate::sandbox::{BROKEN, Sandbox, finished};

/// A store that cannot be used: one attempt, and a loud warning.
#[test]
fn a_store_that_is_no_store_costs_the_repetitions_not_the_run() {
    let sandbox = Sandbox::new();
    sandbox.policy("retry: {base_ms: 1, max_attempts: 3}").tool("echo fine");
    std::fs::write(sandbox.store(), "this is not a database, and never was one. ".repeat(100)).expect("a file");
    let ran = sandbox.run(&[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "fine\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("NOT protected"), "{}", ran.stderr);
    sandbox.tool(BROKEN);
    let before = sandbox.call_count();
    assert_eq!(sandbox.run(&[]).code, 1);
    assert_eq!(sandbox.call_count() - before, 1, "one attempt");
}

/// A place that cannot be written.
#[test]
fn a_store_that_cannot_be_made_costs_no_run() {
    let sandbox = Sandbox::new();
    sandbox.tool("echo fine");
    let ran = finished(sandbox.run_of(&[]).env("HALFOPEN_STORE", "/proc/nowhere/store.db"));
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "fine\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("warning"), "{}", ran.stderr);
}

/// A store is nobody else's to read.
#[test]
fn a_store_is_made_for_its_owner_alone() {
    let sandbox = Sandbox::new();
    sandbox.tool("exit 0");
    sandbox.run(&[]);
    let mode = std::fs::metadata(sandbox.store()).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// A store that makes no sense is a usage error.
#[test]
fn a_store_of_a_kind_that_is_not_known_is_64() {
    let sandbox = Sandbox::new();
    sandbox.tool("exit 0");
    let ran = finished(sandbox.run_of(&[]).env("HALFOPEN_STORE", "mysql://here/there"));
    assert_eq!((ran.code, sandbox.call_count()), (64, 0), "{}", ran.stderr);
}
