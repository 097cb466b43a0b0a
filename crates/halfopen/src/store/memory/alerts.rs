//! Keeps alerts and incidents in memory.
//!
//! A transaction that changes them works on a copy, which takes their place when it commits: there are few alerts, and
//! what programs are told of jobs is shared with the copy, and apart by dependency.

use std::collections::BTreeMap;
use std::sync::Arc;

use halfopen_core::snapshot::{IncidentRecord, PostRecord};
use halfopen_core::time::Timestamp;

use super::super::alerts::{DONE_MAX, KEEP_DONE, NoticeFigures, OPEN_MAX};

/// All alerts and incidents of a store in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Alerts {
    last_seq: u64,
    posts: BTreeMap<u64, Post>,
    incidents: BTreeMap<String, IncidentRecord>,
    notices: BTreeMap<String, Arc<Notices>>,
}

/// What programs are told of the jobs of one dependency, in the order in which they ended.
#[derive(Clone, Debug, Default)]
struct Notices {
    posts: BTreeMap<u64, Arc<Post>>,
    figures: NoticeFigures,
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

    pub(super) fn has_due_notices(&self, dependency: &str, now: Timestamp) -> bool {
        let notices = self.notices.get(dependency);
        notices.is_some_and(|notices| notices.posts.values().any(|post| post.due_at.is_some_and(|due| due <= now)))
    }

    pub(super) fn add_notice(&mut self, dependency: &str, record: &PostRecord, now: Timestamp) -> u64 {
        self.last_seq += 1;
        let notices = Arc::make_mut(self.notices.entry(dependency.to_owned()).or_default());
        notices.posts.insert(self.last_seq, Arc::new(Post { due_at: Some(now), record: record.clone() }));
        self.last_seq
    }

    pub(super) fn drop_notices(&mut self, dependency: &str, old: Timestamp, most: usize) -> u64 {
        let notices = Arc::make_mut(self.notices.entry(dependency.to_owned()).or_default());
        let before = notices.posts.len();
        notices.posts.retain(|_, post| post.record.alert.at_ms >= old.as_millis());
        while notices.posts.len() > most {
            notices.posts.pop_first();
        }
        (before - notices.posts.len()) as u64
    }

    pub(super) fn due_notices(&self, dependency: &str, now: Timestamp, max: usize) -> Vec<PostRecord> {
        let posts = self.notices.get(dependency).into_iter().flat_map(|notices| notices.posts.values());
        let mut due: Vec<&Arc<Post>> = posts.filter(|post| post.due_at.is_some_and(|due| due <= now)).collect();
        due.sort_by_key(|post| post.due_at);
        due.into_iter().take(max).map(|post| post.record.clone()).collect()
    }

    pub(super) fn remove_post(&mut self, id: &str) {
        self.posts.retain(|_, post| post.record.alert.id != id);
        for notices in self.notices.values_mut() {
            Arc::make_mut(notices).posts.retain(|_, post| post.record.alert.id != id);
        }
    }

    pub(super) fn count_notices(&mut self, dependency: &str, more: NoticeFigures) {
        let figures = &mut Arc::make_mut(self.notices.entry(dependency.to_owned()).or_default()).figures;
        figures.told += more.told;
        figures.given_up += more.given_up;
        figures.dropped += more.dropped;
    }

    pub(super) fn notice_figures(&self) -> BTreeMap<String, NoticeFigures> {
        let of = |notices: &Notices| NoticeFigures { waiting: notices.posts.len() as u64, ..notices.figures };
        self.notices.iter().map(|(dependency, notices)| (dependency.clone(), of(notices))).collect()
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
        let notices = self.notices.values().flat_map(|notices| notices.posts.values()).map(|post| &**post);
        self.posts.values().chain(notices).find(|post| post.record.alert.id == id).map(|post| post.record.clone())
    }

    pub(super) fn save(&mut self, record: &PostRecord, due_at: Option<Timestamp>) {
        if let Some(post) = self.posts.values_mut().find(|post| post.record.alert.id == record.alert.id) {
            *post = Post { due_at, record: record.clone() };
        }
        if let Some(end) = &record.alert.job
            && let Some(notices) = self.notices.get_mut(&end.dependency)
            && let Some(post) =
                Arc::make_mut(notices).posts.values_mut().find(|post| post.record.alert.id == record.alert.id)
        {
            *post = Arc::new(Post { due_at, record: record.clone() });
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
