//! Finds the descendants of a process, where no process group tells them apart.

use rustix::process::Pid;

/// Returns all living descendants of `root`, deepest last, as `/proc` shows them at this instant; nothing where there
/// is no `/proc`.
#[must_use]
pub(super) fn descendants(root: Pid) -> Vec<Pid> {
    let pairs = everybody();
    let mut found = vec![root.as_raw_pid()];
    let mut looked_at = 0;
    while let Some(parent) = found.get(looked_at).copied() {
        found.extend(pairs.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        looked_at += 1;
    }
    found.into_iter().skip(1).filter_map(Pid::from_raw).collect()
}

/// Returns every process with its parent.
fn everybody() -> Vec<(i32, i32)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            Some((pid, parent_in(&stat)?))
        })
        .collect()
}

/// Reads the parent out of a `stat` line; the name before it may hold anything, parentheses included (proc(5)).
fn parent_in(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_hide_the_parent() {
        assert_eq!(parent_in("42 (a) S 1 (b) R 7 42 42 0"), Some(7));
        assert_eq!(parent_in("nonsense"), None);
    }
}
