//! Guards calls inside a long-lived process, at the price of a few loads.
//!
//! A [`Guard`] is the door ([`Handle`]) for one route, with a snapshot in front of it. While the circuit is closed and
//! a success would change nothing, a call costs one load of the snapshot, one of a coarse time, and a count in a cell
//! of its own thread: no shared write, no lock, no allocation, no clock. While it is open, a refusal costs the same
//! loads. Everything else (failures, probes, waits, holds, a snapshot that is too old) goes through the door.
//!
//! The snapshot is taken by asking the core, not by a rule of its own: it says "free" only if the core would grant a
//! fresh ask without a change and settle its success without a change. Every 100 ms it is seen whether anybody wrote or
//! time changed a circuit, and then it is taken anew, as it is after every write of this guard; during such a write nobody is admitted from it. So nothing is
//! sent in this process after a trip or an operator's act by this process, and nothing later than 250 ms after one by another.
//!
//! ```
//! use std::sync::Arc;
//! use halfopen::core::policy::{Policy, Surface};
//! use halfopen::guard::Guard;
//! use halfopen::handle::{Handle, Route};
//! use halfopen::store::Location;
//!
//! let handle = Arc::new(Handle::open(&Location::Memory)?);
//! let route = Route { place: "ocr".parse()?, account: None };
//! let guard = Guard::new(&handle, route, Policy::built_in("ocr", Surface::Serve));
//! let page = guard.call(|| Ok::<_, std::io::Error>("scanned"))?;
//! assert_eq!(page, "scanned");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod coarse;
mod owned;
mod shards;
mod snapshot;
pub(crate) mod watch;

use std::sync::Arc;

use halfopen_core::outcome::Reached;
use halfopen_core::pair::{Pass, Side};
use halfopen_core::permit::{Ask, Refusal};
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::verdict::{Class, Verdict};

use crate::handle::{Handle, Route};
use snapshot::{Inner, Word};

pub use owned::{Permitted, Renewal};

/// Guards the calls of one route. Cheap to clone; clones are the same guard.
#[derive(Clone, Debug)]
pub struct Guard {
    inner: Arc<Inner>,
}

/// What this guard has done in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Calls that were let through.
    pub admitted: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// Times the circuits were read for the snapshot.
    pub reads: u64,
}

/// A call that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refused ({}) by its {}", refusal.reason.as_str(), match side { Side::Place => "place", Side::Account => "account" })]
pub struct Refused {
    /// Which circuit refused.
    pub side: Side,
    /// Why, and until when.
    pub refusal: Refusal,
}

/// Why a guarded call gave no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError<E> {
    /// It was refused, and not made.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// It was made and failed.
    #[error("{0}")]
    Failed(E),
}

/// A call that was let through. Dropped without being settled, it gives its permit back.
#[must_use = "dropping it gives the permit back"]
#[derive(Debug)]
pub struct Ticket<'a> {
    guard: &'a Guard,
    state: TicketState,
}

#[derive(Debug)]
enum TicketState {
    /// Admitted from a snapshot: the word, and the coarse time.
    Free(Word, u64),
    /// Admitted by the door.
    Pass(Box<Pass>),
    Settled,
}

impl Guard {
    /// Returns a guard for the calls of `route`.
    #[must_use]
    pub fn new(handle: &Arc<Handle>, route: Route, policy: Policy) -> Self {
        let guard = Self::unread(handle, route, policy);
        guard.inner.look_once();
        guard
    }

    /// Makes a call if the circuit lets it through. An error counts as a failure of the dependency
    /// (`server_error`); [`Guard::call_judged`] says more.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] without calling, or [`CallError::Failed`] with the call's own error.
    #[inline]
    pub fn call<T, E>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E>> {
        self.call_judged(call, |_| Verdict::plain(Class::ServerError, "guard/error", Reached::Unknown))
    }

    /// Makes a call if the circuit lets it through, and settles an error as `judge` says.
    ///
    /// # Errors
    ///
    /// As [`Guard::call`].
    #[inline]
    pub fn call_judged<T, E>(
        &self,
        call: impl FnOnce() -> Result<T, E>,
        judge: impl FnOnce(&E) -> Verdict,
    ) -> Result<T, CallError<E>> {
        let word = self.inner.word();
        let now_ms = coarse::now_ms();
        if !word.is_free(now_ms) {
            return self.call_by_ticket(call, judge);
        }
        // As with a ticket, but without one: on this path nothing has to be given back, also if the call panics.
        match call() {
            Ok(value) => {
                if !self.inner.settles_free(word) {
                    self.late(word, now_ms).end(&success());
                }
                Ok(value)
            }
            Err(error) => {
                self.late(word, now_ms).settle(&judge(&error));
                Err(CallError::Failed(error))
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn call_by_ticket<T, E>(
        &self,
        call: impl FnOnce() -> Result<T, E>,
        judge: impl FnOnce(&E) -> Verdict,
    ) -> Result<T, CallError<E>> {
        let ticket = self.admit()?;
        match call() {
            Ok(value) => {
                ticket.succeed();
                Ok(value)
            }
            Err(error) => {
                ticket.settle(&judge(&error));
                Err(CallError::Failed(error))
            }
        }
    }

    #[cold]
    fn late(&self, word: Word, admitted_ms: u64) -> Ticket<'_> {
        Ticket { guard: self, state: TicketState::Free(word, admitted_ms) }
    }

    /// Asks whether a call may be made now.
    ///
    /// # Errors
    ///
    /// The refusal.
    #[inline]
    pub fn admit(&self) -> Result<Ticket<'_>, Refused> {
        let word = self.inner.word();
        let now_ms = coarse::now_ms();
        if word.is_free(now_ms) {
            return Ok(Ticket { guard: self, state: TicketState::Free(word, now_ms) });
        }
        if word.is_good(now_ms)
            && let Some(refused) = self.inner.refused_from(word)
        {
            return Err(refused);
        }
        self.ask(Ask::Fresh)
    }

    /// Asks the door: for callers that were refused and waited, and where the snapshot cannot answer.
    ///
    /// # Errors
    ///
    /// The refusal.
    #[cold]
    pub fn ask(&self, ask: Ask) -> Result<Ticket<'_>, Refused> {
        let pass = self.inner.ask(ask)?;
        Ok(Ticket { guard: self, state: TicketState::Pass(Box::new(pass)) })
    }

    /// Returns what this guard has done in this process.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.inner.figures()
    }

    /// Takes the snapshot anew, without waiting for the next tick.
    pub fn refresh(&self) {
        self.inner.refresh();
    }
}

#[cold]
fn success() -> Verdict {
    Verdict::plain(Class::Success, "guard/success", Reached::Answered)
}

impl Ticket<'_> {
    /// Ends the call as a success.
    #[inline]
    pub fn succeed(mut self) {
        if let TicketState::Free(word, _) = self.state
            && self.guard.inner.settles_free(word)
        {
            self.state = TicketState::Settled;
            return;
        }
        self.end(&success());
    }

    /// Ends the call with its verdict; returns what that changed.
    #[cold]
    pub fn settle(mut self, verdict: &Verdict) -> Vec<EventRecord> {
        self.end(verdict)
    }

    #[cold]
    fn end(&mut self, verdict: &Verdict) -> Vec<EventRecord> {
        let inner = &*self.guard.inner;
        match std::mem::replace(&mut self.state, TicketState::Settled) {
            TicketState::Free(word, admitted_ms) => inner.settle(inner.pass_of(word, admitted_ms), verdict),
            TicketState::Pass(pass) => inner.settle(*pass, verdict),
            TicketState::Settled => Vec::new(),
        }
    }
}

impl Ticket<'_> {
    #[cold]
    fn give_back(&mut self) {
        if let TicketState::Pass(pass) = std::mem::replace(&mut self.state, TicketState::Settled) {
            self.guard.inner.give_back(*pass);
        }
    }
}

impl Drop for Ticket<'_> {
    #[inline]
    fn drop(&mut self) {
        // Whoever was admitted from a snapshot holds nothing that could be given back.
        if matches!(self.state, TicketState::Pass(_)) {
            self.give_back();
        }
    }
}
