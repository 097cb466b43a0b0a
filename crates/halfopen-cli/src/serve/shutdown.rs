//! How the gateway ends: no longer ready, then no longer accepting, then gone.

use tokio::sync::watch;

/// How far the gateway is from its end.
#[derive(Debug)]
pub(super) struct Shutdown {
    draining: watch::Sender<bool>,
    stop: watch::Sender<bool>,
}

impl Shutdown {
    /// Returns that of a gateway that has just begun.
    pub(super) fn new() -> Self {
        Self { draining: watch::Sender::new(false), stop: watch::Sender::new(false) }
    }

    /// Returns whether it has been told to end: it is no longer ready.
    pub(super) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Notes that it has been told to end.
    pub(super) fn begin(&self) {
        self.draining.send_replace(true);
    }

    /// Resolves when it has been told to end.
    pub(super) async fn draining(&self) {
        // The sender lives as long as `self`.
        let _ = self.draining.subscribe().wait_for(|draining| *draining).await;
    }

    /// Tells everybody who listens that connections are to be closed as soon as their answer is given.
    pub(super) fn stop_accepting(&self) {
        self.stop.send_replace(true);
    }

    /// Resolves when connections are to be closed.
    pub(super) async fn stopped(&self) {
        // The sender lives as long as `self`.
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }
}
