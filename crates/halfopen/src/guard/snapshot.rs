//! Publishes what a guard may answer without asking the door, and carries out the rest.
//!
//! What is published is one word: the answer, the number of the generations it rests on, and the coarse time until
//! which it may be used. A reader needs that word and nothing else; a refusal's end stands beside it and is believed
//! only if the word is still the same afterwards.
//!
//! What the core foretells holds until time changes a circuit by itself or somebody commits to the store, so a snapshot
//! is kept good without reading the circuits as long as the store's mark is the same and no wake has come.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use halfopen_core::pair::{Answer, Pass, Side};
use halfopen_core::permit::{Ask, Permit, PermitId, PermitKind, Refusal, RefusalReason};
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::Verdict;

use super::shards::Counter;
use super::{Figures, Refused, coarse};
use crate::handle::{Handle, Route, Says, StoreMark};

/// How old a snapshot may be, in milliseconds of the coarse time.
const FRESH_MS: u64 = 250;

/// How often a thread that counts its calls looks at a real clock: often enough to notice that the coarse time stands
/// still, too rarely to be felt.
const CORRECT_EVERY: u64 = 64;

/// One guard: its door, its route, and the snapshot in front of them.
#[derive(Debug)]
pub(super) struct Inner {
    handle: Arc<Handle>,
    route: Route,
    policy: Policy,
    fast: Fast,
    admitted: Counter,
    refused: Counter,
    reads: AtomicU64,
    /// Whether somebody keeps the snapshot good; else there is none.
    watched: AtomicBool,
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
    /// What was foretold last.
    seen: Option<Seen>,
}

/// What was foretold, and how long that holds.
#[derive(Debug)]
struct Seen {
    /// The answer and the generations, as in a [`Word`] without its time.
    answer: u64,
    number: u64,
    /// The state of the store before it was read.
    mark: StoreMark,
    /// When time alone changes it.
    wake_at: Option<Timestamp>,
}

/// How many generations are remembered: a result of an older one is stale in any case.
const GENERATIONS_MAX: usize = 64;

/// A snapshot in one word: what is answered, under which generations, and until when that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(u64);

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
    pub(super) fn is_good(self, now_ms: u64) -> bool {
        now_ms < self.0 & Self::UNTIL_MASK
    }

    #[inline]
    pub(super) fn is_free(self, now_ms: u64) -> bool {
        self.answer() == FREE && self.is_good(now_ms)
    }

    #[inline]
    pub(super) fn is_refusal(self) -> bool {
        self.answer() > FREE
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

impl Inner {
    pub(super) fn new(handle: &Arc<Handle>, route: Route, policy: Policy) -> Self {
        Self {
            handle: Arc::clone(handle),
            route,
            policy,
            fast: Fast::default(),
            admitted: Counter::new(),
            refused: Counter::new(),
            reads: AtomicU64::new(0),
            watched: AtomicBool::new(false),
            slow: Mutex::new(Slow::default()),
        }
    }

    pub(super) fn figures(&self) -> Figures {
        Figures {
            admitted: self.admitted.total(),
            refused: self.refused.total(),
            reads: self.reads.load(Ordering::Relaxed),
        }
    }

    pub(super) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Asks the door.
    pub(super) fn ask(&self, ask: Ask) -> Result<Pass, Refused> {
        match self.handle.admit(&self.route, &self.policy, ask) {
            Answer::Granted(pass) => Ok(pass),
            Answer::Refused { side, refusal } => {
                self.refused.add_one();
                Err(Refused { side, refusal })
            }
        }
    }

    #[inline]
    pub(super) fn word(&self) -> Word {
        Word(self.fast.word.load(Ordering::Acquire))
    }

    /// Counts a success of a call that was admitted from `word`, if the circuit still says that it changes nothing.
    #[inline]
    pub(super) fn settles_free(&self, word: Word) -> bool {
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
    pub(super) fn refused_from(&self, word: Word) -> Option<Refused> {
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
    pub(super) fn pass_of(&self, word: Word, admitted_ms: u64) -> Pass {
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

    /// Ends a call through the door.
    pub(super) fn settle(&self, pass: Pass, verdict: &Verdict) -> Vec<EventRecord> {
        self.admitted.add_one();
        self.write(|handle| handle.settle(&self.route, &self.policy, pass, verdict))
    }

    pub(super) fn give_back(&self, pass: Pass) {
        self.write(|handle| handle.give_back(&self.route, &self.policy, pass));
    }

    pub(super) fn hold_back(&self, side: Side) {
        self.write(|handle| handle.hold_back(&self.route, &self.policy, side));
    }

    pub(super) fn settle_early(&self, pass: &Pass) -> (Pass, Vec<EventRecord>) {
        self.write(|handle| handle.settle_early(&self.route, &self.policy, pass))
    }

    /// A lease is not part of what is published.
    pub(super) fn renew(&self, pass: &Pass) -> bool {
        self.handle.renew(&self.route, &self.policy, pass)
    }

    pub(super) fn route(&self) -> &Route {
        &self.route
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Lets `write` change the circuit while nobody is admitted from a snapshot, then takes a new one.
    fn write<T>(&self, write: impl FnOnce(&Handle) -> T) -> T {
        let mut slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        slow.writes += 1;
        self.fast.word.store(Word::ASK.0, Ordering::Release);
        drop(slow);
        let _writing = Writing(self);
        write(&self.handle)
    }

    /// Takes the snapshot anew.
    pub(super) fn refresh(&self) {
        let mut slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        self.publish(&mut slow);
    }

    /// Notes that somebody keeps the snapshot good.
    pub(super) fn is_watched(&self) {
        self.watched.store(true, Ordering::Relaxed);
    }

    /// Takes the first snapshot, unless there is one.
    pub(super) fn look_once(&self) {
        if self.word() != Word::ASK {
            return;
        }
        let mut slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        if slow.seen.is_none() {
            self.publish(&mut slow);
        }
    }

    /// Keeps the snapshot good: without reading the circuits if they are as they were. `mark` is the state of the store,
    /// read before.
    pub(super) fn keep(&self, mark: Option<&StoreMark>) {
        let mut slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.handle.clock().now();
        let holds = slow.seen.as_ref().filter(|seen| mark == Some(&seen.mark) && seen.is_good(now));
        match holds {
            Some(seen) if slow.writes == 0 => {
                self.fast.word.store(seen.word(coarse::correct(), now).0, Ordering::Release);
            }
            Some(_) => {}
            None => self.publish(&mut slow),
        }
    }

    /// Reads the circuits and writes down what may be answered from them. The lock is held over the reading, so that
    /// no older state is published after a newer one.
    fn publish(&self, slow: &mut Slow) {
        if slow.writes > 0 || !self.watched.load(Ordering::Relaxed) {
            return;
        }
        let (now_ms, now) = (coarse::correct(), self.handle.clock().now());
        // Read first: what is committed in between is then read twice, not never.
        let mark = self.handle.mark();
        self.reads.fetch_add(1, Ordering::Relaxed);
        let forecast = self.handle.forecast(&self.route, &self.policy);
        slow.seen = None;
        let (Some(mark), Some(forecast)) = (mark, forecast) else {
            self.fast.word.store(Word::ASK.0, Ordering::Release);
            return;
        };
        let (answer, retry_at) = match forecast.says {
            Says::Ask => (0, None),
            Says::Free => (FREE, None),
            Says::Refused(side, refusal) => {
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
        let seen = Seen { answer, number, mark, wake_at: forecast.wake_at };
        self.fast.word.store(seen.word(now_ms, now).0, Ordering::Release);
        slow.seen = Some(seen);
    }
}

impl Seen {
    /// Returns whether time has not changed it by `now`. What must be asked for anyway stays so.
    fn is_good(&self, now: Timestamp) -> bool {
        self.answer == 0 || self.wake_at.is_none_or(|wake_at| now < wake_at)
    }

    /// Returns the word to be published, good for a moment: a process that stands still must not go on believing it.
    fn word(&self, now_ms: u64, now: Timestamp) -> Word {
        let lasts = |wake_at| u64::try_from(now.until(wake_at).as_millis()).unwrap_or(u64::MAX);
        let lasts_ms = self.wake_at.map_or(FRESH_MS, lasts).min(FRESH_MS);
        if self.answer == 0 { Word::ASK } else { Word::new(self.answer, self.number, now_ms.saturating_add(lasts_ms)) }
    }
}

/// A write under way; ends also if it panics.
struct Writing<'a>(&'a Inner);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut slow = self.0.slow.lock().unwrap_or_else(PoisonError::into_inner);
        slow.writes -= 1;
        self.0.publish(&mut slow);
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
