//! Keeps the last good answer of a request, for the time when there is no other.
//!
//! It is never used while the dependency answers: it is not here to spare calls, and what it gives is marked as old.
//! What may be kept is decided as a shared cache must (RFC 9111), and more narrowly where that costs an owner little:
//!
//! - Which requests: GET and HEAD; and POST where the policy says `replay: always`, because then a second time of the
//!   same bytes is declared to mean the same as the first, and the first one's answer is what it would be told. Not PUT,
//!   PATCH or DELETE: their answer says that something was written, and nothing was. Nothing with `Range`; nothing that
//!   says `no-store`.
//! - Which answers: 200, 203, 204, judged a success, complete by their own framing. Not those that say `no-store` or
//!   `private`, set a cookie, or vary by everything. `no-cache` and `must-revalidate` forbid to answer with it once it is
//!   stale, so it is kept as long as its own `max-age`, if that is shorter than the policy's. No streams of events: what was
//!   a conversation is none when it comes at once.
//! - Who gets it: only who brings the same credentials. `private` is not kept although the caller is part of the key,
//!   because callers without credentials cannot be told apart, and because it says so.
//!
//! A successful write drops what is kept for the same path (RFC 9111 section 4.4). Memory is bounded by `max_bytes`, what
//! is being filled included; the answer that was not used for longest goes first.

mod key;
mod rules;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use halfopen::config;
use halfopen::fingerprint::Fingerprint;
use halfopen_core::time::Timestamp;
use http::{HeaderMap, StatusCode};

pub(in crate::serve) use key::{Key, Of};

/// What an answer costs beside its bytes: its place in the maps, and what the fields hold beside their text.
const OVERHEAD_BYTES: u64 = 512;

/// How many variants of one path are kept.
const VARIANTS_MAX: usize = 64;

/// The kept answers of one dependency.
#[derive(Debug)]
pub(in crate::serve) struct Cache {
    bounds: config::Cache,
    kept: Mutex<Kept>,
    /// Bytes of answers that are on their way and may be kept.
    filling: AtomicU64,
}

#[derive(Debug, Default)]
struct Kept {
    by_target: HashMap<Fingerprint, Vec<Entry>>,
    /// When each was used last, oldest first.
    by_use: BTreeMap<u64, Fingerprint>,
    bytes: u64,
    uses: u64,
}

#[derive(Debug)]
struct Entry {
    request: Fingerprint,
    /// The fields it varies by, and what they held.
    vary: rules::Vary,
    answer: Arc<Answer>,
    used: u64,
    bytes: u64,
}

/// An answer that was kept.
#[derive(Debug)]
pub(in crate::serve) struct Answer {
    /// Its status.
    pub(in crate::serve) status: StatusCode,
    /// Its fields, as they went to the caller, without `Age`.
    pub(in crate::serve) headers: HeaderMap,
    /// Its body, as it was encoded.
    pub(in crate::serve) body: Bytes,
    kept_at: Timestamp,
    /// How old it was by its own word when it came.
    aged: Duration,
    /// How long it counts as fresh by its own word.
    fresh: Option<Duration>,
    /// How long it may be used.
    usable: Duration,
}

/// An answer on its way to its caller that is to be kept if it ends well. Dropped, it is not.
#[derive(Debug)]
pub(in crate::serve) struct Filling {
    cache: Arc<Cache>,
    key: Arc<Key>,
    answer: Option<Box<Answer>>,
    vary: rules::Vary,
    body: Vec<u8>,
    reserved: u64,
}

impl Cache {
    /// Returns an empty one.
    pub(in crate::serve) fn new(bounds: config::Cache) -> Self {
        Self { bounds, kept: Mutex::new(Kept::default()), filling: AtomicU64::new(0) }
    }

    /// Returns the bounds it keeps.
    pub(in crate::serve) fn bounds(&self) -> config::Cache {
        self.bounds
    }

    /// Returns how many bytes are kept.
    #[cfg(test)]
    pub(in crate::serve) fn bytes(&self) -> u64 {
        self.kept().bytes
    }

    /// Returns the answer that was kept for such a request, if there is one that is not too old, and its age.
    pub(in crate::serve) fn find(&self, key: &Key, now: Timestamp) -> Option<(Arc<Answer>, Duration)> {
        if key.refuses_old() {
            return None;
        }
        let request = key.request()?;
        let mut kept = self.kept();
        let uses = kept.uses;
        let entries = kept.by_target.get_mut(&key.target)?;
        let at = entries.iter().position(|entry| entry.request == request && entry.vary.is_met_by(key))?;
        let entry = entries.get_mut(at)?;
        let age = entry.answer.age(now);
        if age > entry.answer.usable {
            let gone = entries.remove(at);
            kept.forget(&gone, key.target);
            return None;
        }
        let (answer, before) = (Arc::clone(&entry.answer), std::mem::replace(&mut entry.used, uses));
        kept.by_use.remove(&before);
        kept.by_use.insert(uses, key.target);
        kept.uses += 1;
        Some((answer, age))
    }

    /// Drops what is kept for the path of a request that has changed something.
    pub(in crate::serve) fn drop_target(&self, key: &Key) {
        let mut kept = self.kept();
        for gone in kept.by_target.remove(&key.target).unwrap_or_default() {
            kept.by_use.remove(&gone.used);
            kept.bytes -= gone.bytes;
        }
    }

    /// Begins to keep an answer; `None` if it may not be kept. `came` are its fields as they came, `headers` as they go on.
    pub(in crate::serve) fn begin(
        self: &Arc<Self>,
        key: &Arc<Key>,
        status: StatusCode,
        came: &HeaderMap,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Option<Filling> {
        if !key.is_kept() {
            return None;
        }
        let allowed = rules::allowed(status, came, key.is_head(), self.bounds.max_age)?;
        let vary = rules::Vary::read(came, key)?;
        if rules::length(came).is_some_and(|length| length > self.bounds.bytes_max) {
            return None;
        }
        let mut headers = headers.clone();
        headers.remove(http::header::AGE);
        let fields: u64 = headers.iter().map(|(name, value)| (name.as_str().len() + value.len()) as u64).sum();
        let answer = Answer {
            status,
            headers,
            body: Bytes::new(),
            kept_at: now,
            aged: allowed.aged,
            fresh: allowed.fresh,
            usable: allowed.usable,
        };
        let mut filling = Filling {
            cache: Arc::clone(self),
            key: Arc::clone(key),
            answer: Some(Box::new(answer)),
            vary,
            body: Vec::new(),
            reserved: 0,
        };
        filling.reserve(fields + OVERHEAD_BYTES).then_some(filling)
    }

    fn keep(&self, key: &Key, request: Fingerprint, vary: rules::Vary, answer: Answer, bytes: u64) {
        if bytes > self.bounds.bytes_max {
            return;
        }
        let mut kept = self.kept();
        let used = kept.uses;
        kept.uses += 1;
        let entries = kept.by_target.entry(key.target).or_default();
        let same = entries.iter().position(|entry| entry.request == request && entry.vary == vary);
        let full = (entries.len() >= VARIANTS_MAX).then_some(0);
        let gone = same.or(full).map(|at| entries.remove(at));
        entries.push(Entry { request, vary, answer: Arc::new(answer), used, bytes });
        kept.bytes += bytes;
        kept.by_use.insert(used, key.target);
        if let Some(gone) = gone {
            kept.forget(&gone, key.target);
        }
        while kept.bytes > self.bounds.bytes_max {
            let Some((used, target)) = kept.by_use.first_key_value().map(|(used, target)| (*used, *target)) else {
                break;
            };
            let entries = kept.by_target.get_mut(&target);
            let gone = entries
                .and_then(|entries| entries.iter().position(|entry| entry.used == used).map(|at| entries.remove(at)));
            match gone {
                Some(gone) => kept.forget(&gone, target),
                None => drop(kept.by_use.remove(&used)),
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Forgets an entry that was taken out of the entries of `target`.
    fn forget(&mut self, gone: &Entry, target: Fingerprint) {
        self.by_use.remove(&gone.used);
        self.bytes -= gone.bytes;
        if self.by_target.get(&target).is_some_and(Vec::is_empty) {
            self.by_target.remove(&target);
        }
    }
}

impl Answer {
    /// Returns how long ago the dependency said it.
    fn age(&self, now: Timestamp) -> Duration {
        self.kept_at.until(now).saturating_add(self.aged)
    }

    /// Returns for how many seconds it is fresh by its own word, negative if it is not any more.
    pub(in crate::serve) fn fresh_for(&self, age: Duration) -> i64 {
        let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        seconds(self.fresh.unwrap_or_default()).saturating_sub(seconds(age))
    }
}

impl Filling {
    /// Adds the next piece of the body; returns whether it still is to be kept.
    pub(in crate::serve) fn push(&mut self, piece: &[u8]) -> bool {
        if self.answer.is_some() && self.reserve(piece.len() as u64) {
            self.body.extend_from_slice(piece);
            return true;
        }
        self.answer = None;
        self.body = Vec::new();
        false
    }

    /// Keeps it: it has ended well, and is whole.
    pub(in crate::serve) fn keep(mut self) {
        let (Some(mut answer), Some(request)) = (self.answer.take(), self.key.request()) else { return };
        self.body.shrink_to_fit();
        answer.body = Bytes::from(std::mem::take(&mut self.body));
        let vary = std::mem::take(&mut self.vary);
        self.cache.keep(&self.key, request, vary, *answer, self.reserved);
    }

    /// Counts bytes against what may be filled at once.
    fn reserve(&mut self, bytes: u64) -> bool {
        let max = self.cache.bounds.bytes_max;
        let room = |filling: u64| filling.checked_add(bytes).filter(|filling| *filling <= max);
        let fits = self.cache.filling.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok();
        if fits {
            self.reserved += bytes;
        }
        fits
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        self.cache.filling.fetch_sub(self.reserved, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
