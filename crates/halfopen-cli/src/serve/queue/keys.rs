//! Keeps two calls with one idempotency key from being carried at once.
//!
//! The second waits for the first, briefly: then it finds the job that came of it, or has the turn. A client that repeats
//! a call because its answer was lost is the common case, and must not be carried beside the first one.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use halfopen::handle::jobs::JobKey;
use tokio::sync::Notify;

/// How long a call waits for an earlier one with its key.
const WAIT: Duration = Duration::from_secs(2);

/// The keys of calls that are under way.
#[derive(Clone, Debug, Default)]
pub(in crate::serve) struct Keys(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    taken: Mutex<HashSet<(String, String, String)>>,
    freed: Notify,
}

/// A key that is taken until this is dropped.
#[derive(Debug)]
pub(in crate::serve) struct Taken {
    keys: Keys,
    name: (String, String, String),
}

impl Keys {
    /// Takes a key of a dependency; `None` if another call has it for longer than is waited.
    pub(in crate::serve) async fn take(&self, dependency: &str, key: &JobKey) -> Option<Taken> {
        let name = (dependency.to_owned(), key.caller.clone(), key.key.clone());
        let taking = async {
            loop {
                let freed = self.0.freed.notified();
                let mut freed = std::pin::pin!(freed);
                // Listened to before looking, so that no end falls between the two.
                freed.as_mut().enable();
                if self.0.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone()) {
                    return Taken { keys: self.clone(), name };
                }
                freed.await;
            }
        };
        tokio::time::timeout(WAIT, taking).await.ok()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.keys.0.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
        self.keys.0.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S066
    #[tokio::test(start_paused = true)]
    async fn a_key_is_taken_by_one_call_at_a_time() {
        let keys = Keys::default();
        let key = JobKey { caller: String::new(), key: "k1".to_owned() };
        let first = keys.take("ocr", &key).await.unwrap();
        assert!(keys.take("ocr", &key).await.is_none());
        assert!(keys.take("crm", &key).await.is_some());
        let waiting = tokio::spawn({
            let (keys, key) = (keys.clone(), key.clone());
            async move { keys.take("ocr", &key).await.is_some() }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waiting.await.unwrap());
    }
}
