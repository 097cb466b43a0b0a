//! Guesses which key was meant.

use super::keys::{self, KEYS};

/// Words of other tools for what a key of ours does.
const SYNONYMS: &[(&str, &str)] = &[
    ("max_retries", "retry.max_attempts"),
    ("retries", "retry.max_attempts"),
    ("attempts", "retry.max_attempts"),
    ("failure_threshold", "circuit.open_after_failures"),
    ("threshold", "circuit.open_after_failures"),
    ("success_threshold", "circuit.close_after_successes"),
    ("cooldown_sec", "circuit.open_for_sec"),
    ("reset_timeout_sec", "circuit.open_for_sec"),
    ("reset_timeout", "circuit.open_for_sec"),
    ("sleep_window_sec", "circuit.open_for_sec"),
    ("window_sec", "circuit.failure_window_sec"),
    ("timeout", "timeout_ms"),
    ("url", "upstream"),
    ("base_url", "upstream"),
    ("endpoint", "upstream"),
    ("ttl_min", "on_open.queue_ttl_min"),
    ("partition_by", "split_by"),
    ("rules", "classify"),
];

/// Endings that are units.
const UNITS: &[&str] =
    &["_ms", "_msec", "_s", "_sec", "_secs", "_seconds", "_min", "_mins", "_minutes", "_h", "_hours", "_days", "_d"];

/// Returns what to write instead of `word`, which is no key of `group` (`""` for the dependency itself).
pub(super) fn for_key(word: &str, group: &str) -> String {
    let here: Vec<&str> = keys::below(group).map(|(word, _)| word).collect();
    if let Some((_, path)) = SYNONYMS.iter().find(|(synonym, _)| *synonym == word) {
        return meant(path, group);
    }
    // The right word in the wrong place.
    if let Some(key) = KEYS.iter().find(|key| key.path.rsplit('.').next() == Some(word)) {
        return meant(key.path, group);
    }
    // The right stem with another unit.
    if let Some(stem) = stem(word)
        && let Some(near) = here.iter().find(|near| self::stem(near) == Some(stem))
    {
        return format!("the nearest known key is `{near}`; mind the unit");
    }
    if let Some(near) = nearest(word, here.iter().copied()) {
        return format!("the nearest known key is `{near}`");
    }
    if let Some(near) = nearest(word, KEYS.iter().map(|key| key.path.rsplit('.').next().unwrap_or(key.path)))
        && let Some(key) = KEYS.iter().find(|key| key.path.rsplit('.').next() == Some(near))
    {
        return meant(key.path, group);
    }
    format!("known keys here are {}", here.join(", "))
}

fn meant(path: &str, group: &str) -> String {
    match path.rsplit_once('.') {
        Some((parent, word)) if parent == group => format!("the nearest known key is `{word}`"),
        Some((parent, word)) => format!("the nearest known key is `{word}`, which stands under `{parent}`"),
        None if group.is_empty() => format!("the nearest known key is `{path}`"),
        None => format!("the nearest known key is `{path}`, which stands beside `{}`", top(group)),
    }
}

fn top(group: &str) -> &str {
    group.split('.').next().unwrap_or(group)
}

fn stem(word: &str) -> Option<&str> {
    UNITS.iter().filter_map(|unit| word.strip_suffix(unit)).min_by_key(|stem| stem.len())
}

/// Returns the word that differs least, if it differs by at most a third.
pub(super) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Beyond any key's length there is nothing near, and the distance costs the product of both lengths.
    if word.len() > 64 {
        return None;
    }
    let limit = (word.chars().count() / 3).max(1);
    let near = |near: &&str| {
        let d = distance(word, near);
        // A word that breaks off was not finished, whatever is missing.
        if d > limit && word.len() >= 3 && near.starts_with(word) { limit } else { d }
    };
    known.map(|word| (near(&word), word)).filter(|(d, _)| *d <= limit).min_by_key(|(d, _)| *d).map(|(_, word)| word)
}

/// Returns how many characters must be put in, taken out, replaced or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.to_lowercase().chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("open_after_failure", "circuit", "`open_after_failures`"; "a letter is missing")]
    #[test_case("opne_for_sec", "circuit", "`open_for_sec`"; "two letters are swapped")]
    #[test_case("open_for_ms", "circuit", "`open_for_sec`; mind the unit"; "another unit")]
    #[test_case("lease_sec", "circuit", "`lease_sec`, which stands beside `circuit`"; "one level too deep")]
    #[test_case("open_for_sec", "", "`open_for_sec`, which stands under `circuit`"; "one level too high")]
    #[test_case("max_retries", "retry", "`max_attempts`"; "the word of another tool")]
    #[test_case("Replay", "", "`replay`"; "a capital")]
    #[test_case("zzz", "drain", "known keys here are rate_per_sec"; "nothing near")]
    fn the_key_that_was_meant_is_named(word: &str, group: &str, expected: &str) {
        let help = for_key(word, group);
        assert!(help.contains(expected), "{help}");
    }
}
