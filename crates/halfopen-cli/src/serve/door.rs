//! The one door, for callers that must not block.
//!
//! What the snapshot can answer is answered at once. Everything else is asked on a thread that may wait for the store,
//! a bounded number at a time: whoever comes when all are busy waits here, without a thread. A caller that goes away
//! while its question is out gives back what it is granted; an attempt that ends is settled also if nobody waits for
//! that any more.

use std::sync::Arc;

use halfopen::clock::Clock;
use halfopen::guard::{Guard, Permitted, Refused};
use halfopen_core::outcome::Reached;
use halfopen_core::pair::Side;
use halfopen_core::permit::Ask;
use halfopen_core::verdict::{Class, Verdict};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use super::counts::Counts;
use super::telemetry::AttemptSpan;

/// Questions to the store that are out at once.
static TURNS: Semaphore = Semaphore::const_new(32);

/// An attempt that was let through. Dropped without being settled, it gives its permit back, on another thread.
#[must_use = "dropping it gives the permit back"]
#[derive(Debug)]
pub(super) struct Admitted {
    permitted: Held,
    renewing: Option<Renewing>,
    probe: bool,
    counts: Arc<Counts>,
    span: AttemptSpan,
}

/// Where a permit is.
#[derive(Debug)]
enum Held {
    /// Nowhere: we only watch and would have been refused, or it was settled.
    Nothing,
    Here(Permitted),
    /// On the thread that judges it early, and on its way back.
    Away(oneshot::Receiver<Permitted>),
}

impl Held {
    fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Nothing)
    }
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
pub(super) async fn ask(guard: &Guard, ask: Ask, clock: &Clock, counts: &Arc<Counts>) -> Result<Admitted, Refused> {
    if ask == Ask::Fresh {
        match guard.quick() {
            Some(Ok(permitted)) => return Ok(Admitted::new(permitted, counts)),
            // A snapshot's time is coarse; a refusal whose end has come by the real one is none.
            Some(Err(refused)) if refused.refusal.retry_at.is_none_or(|at| at > clock.now()) => return Err(refused),
            Some(Err(_)) | None => {}
        }
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
        let span = AttemptSpan::none();
        Self { permitted: Held::Here(permitted), renewing: None, probe, counts: Arc::clone(counts), span }
    }

    /// Returns an attempt that is made without a permit, because we only watch.
    pub(super) fn without(counts: &Arc<Counts>) -> Self {
        let span = AttemptSpan::none();
        Self { permitted: Held::Nothing, renewing: None, probe: false, counts: Arc::clone(counts), span }
    }

    /// Lets `span` end with the attempt.
    pub(super) fn follow(&mut self, span: AttemptSpan) {
        self.span = span;
    }

    /// Notes the status of its answer.
    pub(super) fn answered(&mut self, status: http::StatusCode) {
        self.span.answered(status.as_u16());
    }

    /// Returns whether the breaker waits for its verdict.
    pub(super) fn is_probe(&self) -> bool {
        self.probe
    }

    /// Keeps its lease alive, if it has one, for at most `longest`: an attempt that is still going on then has no
    /// progress that anybody could see.
    pub(super) fn keep_alive(&mut self, longest: std::time::Duration) {
        let Held::Here(permitted) = &self.permitted else { return };
        let Some((renewal, every)) = permitted.renewal() else { return };
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

    /// Judges a probe as a success while its attempt goes on. Nobody waits for it.
    pub(super) fn settle_early(&mut self) {
        if !self.probe {
            return;
        }
        self.probe = false;
        let mut permitted = match self.permitted.take() {
            Held::Here(permitted) => permitted,
            other @ (Held::Nothing | Held::Away(_)) => {
                self.permitted = other;
                return;
            }
        };
        self.renewing = None;
        let (back, away) = oneshot::channel();
        self.permitted = Held::Away(away);
        let counts = Arc::clone(&self.counts);
        tokio::spawn(blocking(move || {
            counts.settled(&permitted.settle_early());
            // If the attempt has ended without a verdict, there is nothing left to give back.
            let _ = back.send(permitted);
        }));
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
        std::mem::replace(&mut self.span, AttemptSpan::none()).end(verdict);
        self.counts.judged(verdict);
        let counts = Arc::clone(&self.counts);
        let permitted = match self.permitted.take() {
            Held::Nothing => return None,
            Held::Here(permitted) if verdict.class == Class::Success => match permitted.succeed_quickly() {
                Ok(()) => return None,
                Err(permitted) => permitted,
            },
            Held::Here(permitted) => permitted,
            Held::Away(away) => {
                let verdict = verdict.clone();
                return Some(tokio::spawn(async move {
                    // Without an answer the thread that had it has panicked, and its permit was given back.
                    if let Ok(permitted) = away.await {
                        blocking(move || counts.settled(&permitted.settle(&verdict))).await;
                    }
                }));
            }
        };
        let verdict = verdict.clone();
        let settle = move || counts.settled(&permitted.settle(&verdict));
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            settle();
            return None;
        };
        Some(runtime.spawn(blocking(settle)))
    }

    /// Ends an attempt that went well and whose answer nobody had to look at.
    pub(super) fn succeed(mut self) {
        std::mem::replace(&mut self.span, AttemptSpan::none()).succeed();
        match self.permitted.take() {
            Held::Nothing => self.counts.success(),
            Held::Here(permitted) => match permitted.succeed_quickly() {
                Ok(()) => self.counts.success(),
                Err(permitted) => {
                    self.permitted = Held::Here(permitted);
                    self.settle_soon(&success());
                }
            },
            away @ Held::Away(_) => {
                self.permitted = away;
                self.settle_soon(&success());
            }
        }
    }
}

fn success() -> Verdict {
    Verdict::plain(Class::Success, "halfopen/success", Reached::Answered)
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let Held::Here(permitted) = self.permitted.take() else { return };
        if !permitted.holds() {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(blocking(move || drop(permitted)))),
            Err(_) => drop(permitted),
        }
    }
}
