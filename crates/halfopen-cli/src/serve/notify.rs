//! Tells systemd how the service is: ready, reloading, stopping, alive.
//!
//! <https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html>. Without `NOTIFY_SOCKET` nothing is told. The
//! watchdog is fed by the beat and by nothing else: after the runtime's timer fired, a thread that may block was had and
//! the store answered, if only that it is lost. A gateway in which one of those hangs is restarted.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use halfopen::handle::StoreHealth;
use halfopen_core::event::State;
use sd_notify::NotifyState;

use super::gateway::Gateway;

/// What is said once the end has begun.
const FINISHING: &str = "finishing what is under way";

/// Speaks to the service manager, if there is one.
#[derive(Debug)]
pub(super) struct Notify {
    spoken_to: bool,
    /// How often it wants to hear that we live; a third of what it allows.
    feed_every: Option<Duration>,
    said: Mutex<Said>,
}

#[derive(Debug, Default)]
struct Said {
    status: String,
    fed_at: Option<Instant>,
}

impl Notify {
    /// Reads where it listens.
    pub(super) fn from_environment() -> Self {
        Self {
            spoken_to: std::env::var_os("NOTIFY_SOCKET").is_some(),
            feed_every: sd_notify::watchdog_enabled().map(|within| within / 3),
            said: Mutex::default(),
        }
    }

    /// Says in one line how things are, if there is somebody to hear it. Waits for the store.
    pub(super) fn status(&self, gateway: &Gateway) -> Option<String> {
        self.spoken_to.then(|| status(gateway))
    }

    /// Tells that everything is open and the policy is in force.
    pub(super) fn ready(&self) {
        self.send(&[NotifyState::Ready]);
    }

    /// Tells that the policy is being read again.
    pub(super) fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.send(&[NotifyState::Reloading, now]),
            Err(_) => self.send(&[NotifyState::Reloading]),
        }
    }

    /// Tells that the end has begun.
    pub(super) fn stopping(&self) {
        self.send(&[NotifyState::Stopping, NotifyState::Status(FINISHING)]);
    }

    /// Tells that we live, as often as that is wanted, and how things are, when that has changed.
    pub(super) fn alive(&self, status: Option<String>) {
        let Some(status) = status else { return };
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if self.feed_every.is_some_and(|every| said.fed_at.is_none_or(|at| at.elapsed() >= every)) {
            said.fed_at = Some(Instant::now());
            self.send(&[NotifyState::Watchdog]);
        }
        if said.status != status {
            self.send(&[NotifyState::Status(&status)]);
            said.status = status;
        }
    }

    fn send(&self, states: &[NotifyState<'_>]) {
        if self.spoken_to {
            // A service manager that does not listen is its own business.
            let _ = sd_notify::notify(states);
        }
    }
}

fn status(gateway: &Gateway) -> String {
    if gateway.shutdown.is_draining() {
        return FINISHING.to_owned();
    }
    let live = gateway.live();
    let dependencies = live.dependencies().count();
    let handle = &gateway.door.handle;
    let store = match handle.health() {
        StoreHealth::Good => String::new(),
        StoreHealth::ReadOnly(_) => "; the store can only be read".to_owned(),
        StoreHealth::Lost(_) => "; the store is lost, circuits are kept in memory".to_owned(),
    };
    let circuits = handle.circuits(&|dependency| gateway.policy_of(dependency)).unwrap_or_default();
    let not_closed: Vec<String> = circuits
        .iter()
        .filter(|view| view.status.state != State::Closed)
        .map(|view| format!("{} {}", view.id, view.status.state.as_str()))
        .collect();
    let shown = not_closed.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
    let open = match not_closed.len() {
        0 => "all closed".to_owned(),
        1..=3 => shown,
        more => format!("{shown} and {} more", more - 3),
    };
    let dependencies = match dependencies {
        1 => "1 dependency".to_owned(),
        several => format!("{several} dependencies"),
    };
    format!("{dependencies}, {open}{store}")
}
