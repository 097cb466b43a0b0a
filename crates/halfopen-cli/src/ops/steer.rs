//! What `hold`, `release` and `reset` share: in whose name they act.

/// Returns who is at the keyboard, as the journal will name them.
///
/// The name can be set by anybody, the number cannot, so both are kept.
pub(super) fn who() -> String {
    let uid = rustix::process::getuid().as_raw();
    match ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty())) {
        Some(name) => {
            let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
            format!("{name} (uid {uid})")
        }
        None => format!("uid {uid}"),
    }
}
