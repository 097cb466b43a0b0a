//! Shares the open files that the system allows between callers, dependencies and the rest.
//!
//! Every caller needs one, every connection to a dependency another. Without a bound of our own the first to notice that
//! there are none left would be a connection to a dependency, or the store. So the soft bound is raised to the hard one,
//! as far as that is ours to decide, and callers get half of what is left after a reserve; who comes when that is used up
//! waits in the system's queue.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for the store, the listener, the runtime, and what else is open.
const RESERVED: u64 = 64;
/// Callers at once where the system sets no bound, and at most.
const CALLERS_MAX: u64 = 65_536;
/// Callers at once however tight the system's bound is.
const CALLERS_MIN: u64 = 8;

/// Raises the bound as far as is allowed and returns how many callers may be connected at once.
pub(super) fn callers_max() -> usize {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // If it is refused, what there is has to do.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    share(getrlimit(Resource::Nofile).current)
}

fn share(limit: Option<u64>) -> usize {
    let callers = limit.map_or(CALLERS_MAX, |limit| limit.saturating_sub(RESERVED) / 2);
    usize::try_from(callers.clamp(CALLERS_MIN, CALLERS_MAX)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case(Some(1024), 480; "a common bound")]
    #[test_case(Some(16), 8; "a tight bound")]
    #[test_case(Some(1 << 30), 65_536; "a wide bound")]
    #[test_case(None, 65_536; "no bound")]
    fn callers_get_half_of_what_is_left(limit: Option<u64>, callers: usize) {
        assert_eq!(share(limit), callers);
    }
}
