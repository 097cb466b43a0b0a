//! The durable queue as the gateway has it: what wakes its worker, who performs, and how jobs are answered.
//!
//! What is stored and what becomes of it the door decides ([`halfopen::handle::jobs`]); when a job may start, the circuits;
//! [`crate::work`] is the loop. Here is what only a gateway knows: how a stored request is sent ([`perform`]), what the
//! caller of a queued call is told ([`answer`]), what it may prefer ([`prefer`]), and that two calls with one key are not
//! carried at once ([`keys`]).

pub(super) mod answer;
pub(super) mod keys;
mod hand;
mod perform;
pub(super) mod prefer;
pub(super) mod progress {
    //! How far queues are, which the command line shows too.
    pub(in crate::serve) use crate::shown::Progress;
}
mod performer;

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::gateway::Gateway;
use crate::ui;
use crate::work::{Bell, Pace, Stop, Worker};
pub(crate) use hand::HttpHand;
use keys::Keys;
use performer::GatewayPerformer;

/// What the calls of a gateway share about its queue.
#[derive(Debug)]
pub(super) struct Queue {
    /// Wakes the worker, and says what has ended.
    pub(super) bell: Arc<Bell>,
    /// Ends the worker.
    pub(super) stop: Stop,
    /// Keys of calls that are under way.
    pub(super) keys: Keys,
}

impl Queue {
    /// Returns that of a gateway that has just begun.
    pub(super) fn new() -> Self {
        Self { bell: Bell::new(), stop: Stop::new(), keys: Keys::default() }
    }
}

/// Starts the gateway's worker.
pub(super) fn start(gateway: &Arc<Gateway>) -> JoinHandle<()> {
    if let Err(error) = gateway.door.handle.commit_in_groups() {
        // The store may come back; until then every call that is to be queued is told.
        ui::warn(&format!("jobs cannot be kept as it is: {error}"));
    }
    let orphans = Arc::clone(&gateway.door.handle);
    tokio::task::spawn_blocking(move || match orphans.remove_orphans() {
        Ok(0) => {}
        Ok(files) => ui::say(&format!("{files} files that belonged to no job, left by a crash, were removed")),
        // The next start tries again; an audit names them.
        Err(error) => ui::warn(&format!("files that belong to no job could not be looked for: {error}")),
    });
    let performer = Arc::new(GatewayPerformer::new(gateway));
    let queue = &gateway.queue;
    let handle = Arc::clone(&gateway.door.handle);
    let worker = Worker::new("serve", handle, performer, Arc::clone(&queue.bell), queue.stop.clone());
    tokio::spawn(async move { worker.work().await })
}

/// Ends the worker: nothing more is claimed, what is held is finished.
pub(super) fn finish(gateway: &Gateway) {
    gateway.queue.stop.at(Pace::Finishing);
}

/// Ends the worker at once: what is held is given back.
pub(super) fn leave(gateway: &Gateway) {
    gateway.queue.stop.at(Pace::Leaving);
}
