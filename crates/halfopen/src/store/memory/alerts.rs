//! Keeps alerts and incidents in memory.
//!
//! A transaction that changes them works on a copy, which takes their place when it commits: there are few of them.

use std::collections::BTreeMap;

use halfopen_core::snapshot::{IncidentRecord, PostRecord};
use halfopen_core::time::Timestamp;

use super::super::alerts::{DONE_MAX, KEEP_DONE, OPEN_MAX};

/// All alerts and incidents of a store in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Alerts {
    last_seq: u64,
    posts: BTreeMap<u64, Post>,
    incidents: BTreeMap<String, IncidentRecord>,
}

#[derive(Clone, Debug)]
struct Post {
    due_at: Option<Timestamp>,
    record: PostRecord,
}

impl Alerts {
    pub(super) fn has_due(&self, now: Timestamp) -> bool {
        self.posts.values().any(|post| post.due_at.is_some_and(|due| due <= now))
            || self.incidents.values().any(|incident| is_woken(incident, now))
    }

    pub(super) fn waiting(&self) -> u64 {
        self.posts.values().filter(|post| post.due_at.is_some()).count() as u64
    }

    pub(super) fn incident(&self, name: &str) -> Option<IncidentRecord> {
        self.incidents.get(name).cloned()
    }

    pub(super) fn set_incident(&mut self, name: &str, incident: Option<&IncidentRecord>) {
        match incident {
            Some(incident) => self.incidents.insert(name.to_owned(), incident.clone()),
            None => self.incidents.remove(name),
        };
    }

    pub(super) fn woken(&self, now: Timestamp, max: usize) -> Vec<(String, IncidentRecord)> {
        let woken = self.incidents.iter().filter(|(_, incident)| is_woken(incident, now));
        woken.take(max).map(|(name, incident)| (name.clone(), incident.clone())).collect()
    }

    pub(super) fn add(&mut self, record: &PostRecord, now: Timestamp) -> Option<usize> {
        if self.posts.values().any(|post| post.record.alert.id == record.alert.id) {
            return None;
        }
        self.last_seq += 1;
        self.posts.insert(self.last_seq, Post { due_at: Some(now), record: record.clone() });
        Some(self.prune(now))
    }

    pub(super) fn post(&self, id: &str) -> Option<PostRecord> {
        self.posts.values().find(|post| post.record.alert.id == id).map(|post| post.record.clone())
    }

    pub(super) fn save(&mut self, record: &PostRecord, due_at: Option<Timestamp>) {
        if let Some(post) = self.posts.values_mut().find(|post| post.record.alert.id == record.alert.id) {
            *post = Post { due_at, record: record.clone() };
        }
    }

    pub(super) fn open(&self, now: Timestamp) -> Vec<(bool, PostRecord)> {
        let open = self.posts.values().filter_map(|post| Some((post.due_at? <= now, post.record.clone())));
        open.take(OPEN_MAX).collect()
    }

    pub(super) fn posts(&self, max: usize) -> Vec<PostRecord> {
        let mut newest: Vec<_> = self.posts.values().rev().take(max).map(|post| post.record.clone()).collect();
        newest.reverse();
        newest
    }

    /// Returns how many of those that wait made room.
    fn prune(&mut self, now: Timestamp) -> usize {
        let mut dropped = 0;
        let old = (now - KEEP_DONE).as_millis();
        self.posts.retain(|_, post| post.due_at.is_some() || post.record.alert.at_ms >= old);
        for (open, most) in [(true, OPEN_MAX), (false, DONE_MAX)] {
            let all: Vec<u64> =
                self.posts.iter().filter(|(_, post)| post.due_at.is_some() == open).map(|(seq, _)| *seq).collect();
            for seq in &all[..all.len().saturating_sub(most)] {
                self.posts.remove(seq);
                dropped += usize::from(open);
            }
        }
        dropped
    }
}

fn is_woken(incident: &IncidentRecord, now: Timestamp) -> bool {
    incident.wake_at_ms.is_some_and(|wake| wake <= now.as_millis())
}
