//! Guards calls inside a long-lived process, at the price of a few loads.
//!
//! A [`Guard`] is the door ([`Handle`]) for one route, with a snapshot in front of it. While the circuit is closed and
//! a success would change nothing, a call costs one load of the snapshot, one of a coarse time, and a count in a cell
//! of its own thread: no shared write, no lock, no allocation, no clock. While it is open, a refusal costs the same
//! loads. Everything else (failures, probes, waits, holds, a snapshot that is too old) goes through the door.
//!
//! The snapshot is taken by asking the core, not by a rule of its own: it says "free" only if the core would grant a
//! fresh ask without a change and settle its success without a change. It is taken anew every 100 ms, whenever other
//! processes wrote, and after every write of this guard; during such a write nobody is admitted from it. So nothing is
//! sent in this process after a trip by this process, and nothing later than 250 ms after a trip by another.
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
mod shards;
mod watch;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use halfopen_core::outcome::Reached;
use halfopen_core::pair::{Answer, Pass, Side};
use halfopen_core::permit::{Ask, Permit, PermitId, PermitKind, Refusal, RefusalReason};
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{Class, Verdict};

use crate::handle::{Handle, Route};
use shards::Counter;

/// How old a snapshot may be, in milliseconds of the coarse time.
const FRESH_MS: u64 = 250;

/// How often a thread that counts its calls looks at a real clock: often enough to notice that the coarse time stands
/// still, too rarely to be felt.
const CORRECT_EVERY: u64 = 64;

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

#[derive(Debug)]
pub(crate) struct Inner {
    handle: Arc<Handle>,
    route: Route,
    policy: Policy,
    fast: Fast,
    admitted: Counter,
    refused: Counter,
    slow: Mutex<Slow>,
}

/// What calls read. On cache lines of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Fast {
    /// A [`Word`].
    word: AtomicU64,
    /// The end of a refusal, in milliseconds of the steady clock; `i64::MAX` if it is not known.
    retry_at_ms: AtomicI64,
}

/// What publishes it.
#[derive(Debug, Default)]
struct Slow {
    /// Writes of this guard that are under way; meanwhile nothing is published.
    writes: u32,
    /// What the published numbers stand for, the newest last.
    generations: Vec<(u64, Option<u64>)>,
    /// The number of the first of them.
    first_number: u64,
}

/// How many generations are remembered: a result of an older one is stale in any case.
const GENERATIONS_MAX: usize = 64;

/// A snapshot in one word: what is answered, under which generations, and until when that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word(u64);

impl Word {
    /// Nothing is known: ask the door.
    const ASK: Self = Self(0);
    const UNTIL_BITS: u32 = 40;
    const NUMBER_BITS: u32 = 20;
    const UNTIL_MASK: u64 = (1 << Self::UNTIL_BITS) - 1;
    const NUMBER_MASK: u64 = (1 << Self::NUMBER_BITS) - 1;

    /// `answer` 1 is free; 2 and above are refusals.
    fn new(answer: u64, number: u64, until_ms: u64) -> Self {
        let number = (number & Self::NUMBER_MASK) << Self::UNTIL_BITS;
        Self(answer << (Self::UNTIL_BITS + Self::NUMBER_BITS) | number | until_ms.min(Self::UNTIL_MASK))
    }

    #[inline]
    fn answer(self) -> u64 {
        self.0 >> (Self::UNTIL_BITS + Self::NUMBER_BITS)
    }

    #[inline]
    fn is_good(self, now_ms: u64) -> bool {
        now_ms < self.0 & Self::UNTIL_MASK
    }

    #[inline]
    fn is_free(self, now_ms: u64) -> bool {
        self.answer() == FREE && self.is_good(now_ms)
    }

    /// Returns everything but the time.
    #[inline]
    fn meaning(self) -> u64 {
        self.0 >> Self::UNTIL_BITS
    }

    fn number(self) -> u64 {
        self.meaning() & Self::NUMBER_MASK
    }
}

const FREE: u64 = 1;

/// Refusals that can be given from a snapshot, numbered from 2.
const REFUSALS: [(RefusalReason, Side); 8] = [
    (RefusalReason::Open, Side::Place),
    (RefusalReason::Open, Side::Account),
    (RefusalReason::Throttled, Side::Place),
    (RefusalReason::Throttled, Side::Account),
    (RefusalReason::Held, Side::Place),
    (RefusalReason::Held, Side::Account),
    (RefusalReason::ProbesOut, Side::Place),
    (RefusalReason::ProbesOut, Side::Account),
];

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
        let inner = Arc::new(Inner {
            handle: Arc::clone(handle),
            route,
            policy,
            fast: Fast::default(),
            admitted: Counter::new(),
            refused: Counter::new(),
            slow: Mutex::new(Slow::default()),
        });
        // Without its threads a guard works, by asking the door each time.
        if coarse::start() && watch::watch(&inner) {
            inner.refresh();
        }
        Self { inner }
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
        let inner = &*self.inner;
        match inner.handle.admit(&inner.route, &inner.policy, ask) {
            Answer::Granted(pass) => Ok(Ticket { guard: self, state: TicketState::Pass(Box::new(pass)) }),
            Answer::Refused { side, refusal } => {
                inner.refused.add_one();
                Err(Refused { side, refusal })
            }
        }
    }

    /// Returns what this guard has done in this process.
    #[must_use]
    pub fn figures(&self) -> Figures {
        Figures { admitted: self.inner.admitted.total(), refused: self.inner.refused.total() }
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
        inner.admitted.add_one();
        match std::mem::replace(&mut self.state, TicketState::Settled) {
            TicketState::Free(word, admitted_ms) => inner.settle(inner.pass_of(word, admitted_ms), verdict),
            TicketState::Pass(pass) => inner.settle(*pass, verdict),
            TicketState::Settled => Vec::new(),
        }
    }
}

impl Drop for Ticket<'_> {
    #[inline]
    fn drop(&mut self) {
        // Whoever was admitted from a snapshot holds nothing that could be given back.
        if let TicketState::Pass(_) = &self.state {
            self.guard.inner.give_back(std::mem::replace(&mut self.state, TicketState::Settled));
        }
    }
}

impl Inner {
    #[inline]
    fn word(&self) -> Word {
        Word(self.fast.word.load(Ordering::Acquire))
    }

    /// Counts a success of a call that was admitted from `word`, if the circuit still says that it changes nothing.
    #[inline]
    fn settles_free(&self, word: Word) -> bool {
        if self.word().meaning() != word.meaning() {
            return false;
        }
        if self.admitted.add_one().is_multiple_of(CORRECT_EVERY) {
            coarse::correct();
        }
        true
    }

    /// Returns the refusal that a snapshot stands for.
    #[inline]
    fn refused_from(&self, word: Word) -> Option<Refused> {
        let (reason, side) = *REFUSALS.get(usize::try_from(word.answer().checked_sub(2)?).ok()?)?;
        let retry_at_ms = self.fast.retry_at_ms.load(Ordering::Acquire);
        // The two are one only if the word is still the same.
        if self.word().meaning() != word.meaning() {
            return None;
        }
        if self.refused.add_one().is_multiple_of(CORRECT_EVERY) {
            coarse::correct();
        }
        let retry_at = (retry_at_ms != i64::MAX).then(|| Timestamp::from_millis(retry_at_ms));
        Some(Refused { side, refusal: Refusal { reason, retry_at, slot: None } })
    }

    /// Returns the pass that a call would have got from the door when it was admitted from a snapshot.
    fn pass_of(&self, word: Word, admitted_ms: u64) -> Pass {
        let now = self.handle.clock().now();
        let ago = coarse::correct().saturating_sub(admitted_ms);
        let slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        let place_in = word.number().wrapping_sub(slow.first_number) & Word::NUMBER_MASK;
        let known = usize::try_from(place_in).ok().and_then(|n| slow.generations.get(n)).copied();
        drop(slow);
        // What is not remembered is many transitions old: no generation is as high, so it is stale.
        let (place, account) = known.unwrap_or_else(|| (u64::MAX, self.route.account.is_some().then_some(u64::MAX)));
        let permit = |generation| Permit {
            id: PermitId(self.handle.chance().bits()),
            kind: PermitKind::Regular,
            generation,
            admitted_at: now - Duration::from_millis(ago),
            expires_at: now + Duration::from_secs(1),
            ramped: false,
        };
        Pass { place: permit(place), account: account.map(permit) }
    }

    fn settle(&self, pass: Pass, verdict: &Verdict) -> Vec<EventRecord> {
        self.write(|handle| handle.settle(&self.route, &self.policy, pass, verdict))
    }

    #[cold]
    fn give_back(&self, state: TicketState) {
        if let TicketState::Pass(pass) = state {
            self.write(|handle| handle.give_back(&self.route, &self.policy, *pass));
        }
    }

    /// Lets `write` change the circuit while nobody is admitted from a snapshot, then takes a new one.
    fn write<T>(&self, write: impl FnOnce(&Handle) -> T) -> T {
        /// Ends the write also if it panics.
        struct Writing<'a>(&'a Inner);
        impl Drop for Writing<'_> {
            fn drop(&mut self) {
                let mut slow = self.0.slow.lock().unwrap_or_else(PoisonError::into_inner);
                slow.writes -= 1;
                self.0.publish(&mut slow);
            }
        }
        let mut slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        slow.writes += 1;
        self.fast.word.store(Word::ASK.0, Ordering::Release);
        drop(slow);
        let _writing = Writing(self);
        write(&self.handle)
    }

    /// Takes the snapshot anew.
    pub(crate) fn refresh(&self) {
        let mut slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        self.publish(&mut slow);
    }

    /// Reads the circuits and writes down what may be answered from them. The lock is held over the reading, so that
    /// no older state is published after a newer one.
    fn publish(&self, slow: &mut Slow) {
        if slow.writes > 0 {
            return;
        }
        let now_ms = coarse::correct();
        let word = match self.handle.forecast(&self.route, &self.policy) {
            None => Word::ASK,
            Some(forecast) => {
                let lasts_ms = forecast
                    .lasts
                    .map_or(FRESH_MS, |lasts| u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX).min(FRESH_MS));
                let (answer, retry_at) = match forecast.refused {
                    None => (FREE, None),
                    Some((side, refusal)) => {
                        let known = REFUSALS.iter().position(|known| *known == (refusal.reason, side));
                        (known.map_or(0, |n| n as u64 + 2), refusal.retry_at)
                    }
                };
                let retry_at_ms = retry_at.map_or(i64::MAX, Timestamp::as_millis);
                if self.fast.retry_at_ms.load(Ordering::Relaxed) != retry_at_ms {
                    // A reader must not join the new time to the old word.
                    self.fast.word.store(Word::ASK.0, Ordering::Release);
                    self.fast.retry_at_ms.store(retry_at_ms, Ordering::Release);
                }
                let number = slow.number(forecast.generations);
                if answer == 0 { Word::ASK } else { Word::new(answer, number, now_ms.saturating_add(lasts_ms)) }
            }
        };
        self.fast.word.store(word.0, Ordering::Release);
    }
}

impl Slow {
    /// Returns the number that stands for these generations.
    fn number(&mut self, generations: (u64, Option<u64>)) -> u64 {
        if self.generations.last() != Some(&generations) {
            if self.generations.len() >= GENERATIONS_MAX {
                self.generations.remove(0);
                self.first_number += 1;
            }
            self.generations.push(generations);
        }
        self.first_number + self.generations.len() as u64 - 1
    }
}
