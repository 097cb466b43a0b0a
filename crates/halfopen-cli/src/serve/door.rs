//! The one door, for callers that must not block.
//!
//! What the snapshot can answer is answered at once. Everything else is asked on a thread that may wait for the store,
//! a bounded number at a time: whoever comes when all are busy waits here, without a thread. A caller that goes away
//! while its question is out gives back what it is granted; an attempt that ends is settled also if nobody waits for
//! that any more.

use std::sync::Arc;

use halfopen::guard::{Guard, Permitted, Refused};
use halfopen_core::pair::Side;
use halfopen_core::permit::Ask;
use halfopen_core::verdict::{Class, Verdict};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::counts::Counts;

/// Questions to the store that are out at once.
static TURNS: Semaphore = Semaphore::const_new(32);

/// An attempt that was let through. Dropped without being settled, it gives its permit back, on another thread.
#[must_use = "dropping it gives the permit back"]
#[derive(Debug)]
pub(super) struct Admitted {
    /// Nothing if we only watch and would have been refused, or after it was settled.
    permitted: Option<Permitted>,
    renewing: Option<Renewing>,
    probe: bool,
    counts: Arc<Counts>,
}

/// Keeps a lease alive until it is dropped.
#[derive(Debug)]
struct Renewing(JoinHandle<()>);

impl Drop for Renewing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Asks whether an attempt may be made now.
///
/// # Errors
///
/// The refusal.
pub(super) async fn ask(guard: &Guard, ask: Ask, counts: &Arc<Counts>) -> Result<Admitted, Refused> {
    if ask == Ask::Fresh
        && let Some(answer) = guard.quick()
    {
        return answer.map(|permitted| Admitted::new(permitted, counts));
    }
    let asked = guard.clone();
    blocking(move || asked.ask_owned(ask)).await.map(|permitted| Admitted::new(permitted, counts))
}

/// Notes that a caller is going to wait and come back.
pub(super) async fn hold_back(guard: &Guard, side: Side) {
    let guard = guard.clone();
    blocking(move || guard.hold_back(side)).await;
}

/// Does something that may wait for the store.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    // Nobody closes it; if somebody did, the work would still have to be done.
    let _turn = TURNS.acquire().await;
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is being taken down; so are we.
            Err(_) => std::future::pending().await,
        },
    }
}

impl Admitted {
    fn new(permitted: Permitted, counts: &Arc<Counts>) -> Self {
        let probe = permitted.is_probe();
        if probe {
            counts.probes.add();
        }
        Self { permitted: Some(permitted), renewing: None, probe, counts: Arc::clone(counts) }
    }

    /// Returns an attempt that is made without a permit, because we only watch.
    pub(super) fn without(counts: &Arc<Counts>) -> Self {
        Self { permitted: None, renewing: None, probe: false, counts: Arc::clone(counts) }
    }

    /// Returns whether the breaker waits for its verdict.
    pub(super) fn is_probe(&self) -> bool {
        self.probe
    }

    /// Keeps its lease alive, if it has one, for at most `longest`: an attempt that is still going on then has no
    /// progress that anybody could see.
    pub(super) fn keep_alive(&mut self, longest: std::time::Duration) {
        let Some((renewal, every)) = self.permitted.as_ref().and_then(Permitted::renewal) else { return };
        let renewal = Arc::new(renewal);
        self.renewing = Some(Renewing(tokio::spawn(async move {
            let _ = tokio::time::timeout(longest, async {
                loop {
                    tokio::time::sleep(every).await;
                    let renewal = Arc::clone(&renewal);
                    if !blocking(move || renewal.renew()).await {
                        return;
                    }
                }
            })
            .await;
        })));
    }

    /// Judges a probe as a success while its attempt goes on.
    pub(super) async fn settle_early(&mut self) {
        if !self.probe {
            return;
        }
        self.renewing = None;
        let Some(mut permitted) = self.permitted.take() else { return };
        let (permitted, events) = blocking(move || {
            let events = permitted.settle_early();
            (permitted, events)
        })
        .await;
        self.permitted = Some(permitted);
        self.probe = false;
        self.counts.settled(&events);
    }

    /// Ends the attempt with its verdict, and waits until that is done.
    pub(super) async fn settle(self, verdict: &Verdict) {
        if let Some(settling) = self.settling(verdict) {
            // It panicked, or the runtime ends: nobody can do anything about it here.
            let _ = settling.await;
        }
    }

    /// Ends the attempt with its verdict; it is done whether anybody waits for it or not.
    pub(super) fn settle_soon(self, verdict: &Verdict) {
        drop(self.settling(verdict));
    }

    /// Counts a verdict and begins to settle it, unless that is nothing to do.
    fn settling(mut self, verdict: &Verdict) -> Option<JoinHandle<()>> {
        self.renewing = None;
        self.counts.judged(verdict);
        let mut permitted = self.permitted.take()?;
        if verdict.class == Class::Success {
            permitted = match permitted.succeed_quickly() {
                Ok(()) => return None,
                Err(permitted) => permitted,
            };
        }
        let (verdict, counts) = (verdict.clone(), Arc::clone(&self.counts));
        let settle = move || counts.settled(&permitted.settle(&verdict));
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            settle();
            return None;
        };
        Some(runtime.spawn(blocking(settle)))
    }

    /// Ends an attempt that went well and whose answer nobody had to look at.
    pub(super) fn succeed(mut self) {
        let Some(permitted) = self.permitted.take() else {
            self.counts.success();
            return;
        };
        match permitted.succeed_quickly() {
            Ok(()) => self.counts.success(),
            Err(permitted) => {
                self.permitted = Some(permitted);
                self.settle_soon(&Verdict::plain(
                    Class::Success,
                    "halfopen/success",
                    halfopen_core::outcome::Reached::Answered,
                ));
            }
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let Some(permitted) = self.permitted.take() else { return };
        if !permitted.holds() {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(blocking(move || drop(permitted)))),
            Err(_) => drop(permitted),
        }
    }
}
