//! Wakes lines that have nothing to do: something was enqueued here, or seen in the store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use halfopen_core::job::JobId;
use tokio::sync::{Notify, broadcast};

/// How many ends of jobs a listener may be behind before it is told that it missed some.
const ENDS_MAX: usize = 1024;

/// Says that there is something to do, and that something has ended.
#[derive(Debug)]
pub(crate) struct Bell {
    any: Notify,
    lines: Mutex<BTreeMap<String, Arc<Notify>>>,
    ends: broadcast::Sender<JobId>,
}

impl Bell {
    /// Returns one that nobody listens to yet.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { any: Notify::new(), lines: Mutex::default(), ends: broadcast::Sender::new(ENDS_MAX) })
    }

    /// Says that a job of `dependency` was enqueued.
    pub(crate) fn ring(&self, dependency: &str) {
        if !self.wake(dependency) {
            self.any.notify_one();
        }
    }

    /// Wakes the line of `dependency`; returns whether there is one.
    pub(super) fn wake(&self, dependency: &str) -> bool {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.get(dependency);
        line.inspect(|line| line.notify_one()).is_some()
    }

    /// Forgets the line of a dependency that is no more.
    pub(super) fn forget(&self, dependency: &str) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).remove(dependency);
    }

    /// Says that a job has ended, or went to a person.
    pub(super) fn ended(&self, id: JobId) {
        // Nobody need listen.
        let _ = self.ends.send(id);
    }

    /// Hears the ends of jobs that this process performs.
    pub(crate) fn ends(&self) -> broadcast::Receiver<JobId> {
        self.ends.subscribe()
    }

    /// Resolves when something was enqueued for which there is no line.
    pub(super) async fn any(&self) {
        self.any.notified().await;
    }

    /// Returns what wakes the line of `dependency`; from then on there is one.
    pub(super) fn of(&self, dependency: &str) -> Arc<Notify> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        match lines.get(dependency) {
            Some(line) => Arc::clone(line),
            None => Arc::clone(lines.entry(dependency.to_owned()).or_default()),
        }
    }
}
