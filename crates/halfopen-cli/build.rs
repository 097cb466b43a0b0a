//! Links the command at a fixed address, so that it starts faster; `docs/design/start.md` argues it.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=HALFOPEN_PIE");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    // Elsewhere the linker has no such option, or the position of a program cannot be chosen.
    let fixed = is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && !features.split(',').any(|feature| feature == "crt-static");
    if fixed && !is("HALFOPEN_PIE", "1") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
