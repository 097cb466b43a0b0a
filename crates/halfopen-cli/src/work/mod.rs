//! The worker: takes jobs from the queue and has them performed, paced by what the door answers.
//!
//! One worker serves all dependencies of a process. Each has a *line* of its own ([`line`]), so that one that hangs
//! keeps nobody else's jobs: the line claims as long as the door gives, and what it has claimed runs beside it
//! ([`held`]). When a job may start is decided by the circuits, in the transaction of the claim; there is no second
//! pacer here, which is why any number of workers in any number of processes keep one rate. Who performs an attempt is
//! the surface's business ([`Performer`]): the gateway sends requests, the command line runs commands.
//!
//! A line that has nothing to do sleeps until time changes a job, until this process enqueues one ([`Bell`]), or until
//! a look at the figures, every one to two seconds, shows jobs of another process. Looks are spread by chance and the
//! first one comes somewhere within two seconds, so that many instances that start together do not meet at the store.
//!
//! What the worker does not do: it starts no runtime, reads no policy and knows no protocol.

mod bell;
mod held;
mod line;
mod performer;
mod quota;
mod stop;
mod trouble;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use halfopen::handle::Handle;
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::EventRecord;
use tokio::task::JoinSet;

pub(crate) use bell::Bell;
pub(crate) use line::Left;
pub(crate) use performer::{Assigned, Attempt, Doing, Fault, News, Performed, Performer, Unready};
pub(crate) use quota::Quota;
pub(crate) use stop::{Pace, Stop};

use line::Line;

/// How often the figures are looked at for jobs of other processes, one to two times that.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Within what the first look comes.
const FIRST_LOOK_WITHIN: Duration = Duration::from_secs(2);

/// Takes jobs and has them performed.
#[derive(Debug)]
pub(crate) struct Worker {
    shop: Arc<Shop>,
}

/// What all lines of a worker share.
#[derive(Debug)]
struct Shop {
    handle: Arc<Handle>,
    performer: Arc<dyn Performer>,
    bell: Arc<Bell>,
    stop: Stop,
    /// Under which name jobs are held.
    name: String,
}

impl Worker {
    /// Makes a worker; `surface` is the first word of its name in leases and histories.
    pub(crate) fn new(
        surface: &str,
        handle: Arc<Handle>,
        performer: Arc<dyn Performer>,
        bell: Arc<Bell>,
        stop: Stop,
    ) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let name = format!("{surface}-{host}-{}", std::process::id());
        Self { shop: Arc::new(Shop { handle, performer, bell, stop, name }) }
    }

    /// Works until it is told to stop, and returns when nothing is held any more.
    pub(crate) async fn work(&self) {
        let shop = &self.shop;
        let mut lines: JoinSet<String> = JoinSet::new();
        let mut running = BTreeMap::new();
        let mut pause = FIRST_LOOK_WITHIN.mul_f64(fastrand::f64());
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = shop.bell.any() => {}
                () = shop.stop.finishing() => break,
            }
            pause = LOOK_EVERY.mul_f64(1.0 + fastrand::f64());
            shop.sweep().await;
            while let Some(over) = lines.try_join_next() {
                let Ok(dependency) = over else { continue };
                running.remove(&dependency);
                shop.bell.forget(&dependency);
            }
            let waiting = shop.waiting().await;
            for (dependency, queued) in waiting {
                if queued == 0 || shop.performer.is_over(&dependency) {
                    continue;
                }
                if !running.contains_key(&dependency) {
                    let line = Line::new(Arc::clone(shop), &dependency);
                    let name = dependency.clone();
                    lines.spawn(async move {
                        line.work().await;
                        name
                    });
                    running.insert(dependency.clone(), ());
                }
                shop.bell.wake(&dependency);
            }
        }
        while lines.join_next().await.is_some() {}
    }

    /// Works until nothing is due, or nothing has moved for `patience`; returns what is left of each dependency.
    /// Jobs of one dependency `only`, if one is named, and no more than there is `quota` for.
    pub(crate) async fn drain(&self, patience: Duration, only: Option<&str>, quota: Quota) -> Vec<Left> {
        let mut lines = JoinSet::new();
        for (dependency, queued) in self.shop.waiting().await {
            if queued > 0 && only.is_none_or(|only| only == dependency) {
                lines.spawn(Line::new(Arc::clone(&self.shop), &dependency).drain(patience, quota.clone()));
            }
        }
        let mut left = Vec::new();
        while let Some(ended) = lines.join_next().await {
            left.extend(ended.ok());
        }
        left.sort_by(|a, b| a.dependency.cmp(&b.dependency));
        left
    }
}

impl Shop {
    /// Returns how many jobs of each dependency wait that can be performed here. What cannot be read now is read with the next look.
    async fn waiting(self: &Arc<Self>) -> BTreeMap<String, u64> {
        let waiting = self.at_the_store(|handle| handle.jobs_waiting()).await.unwrap_or_default();
        let mut ours: BTreeMap<String, u64> = BTreeMap::new();
        for ((dependency, kind), queued) in waiting {
            if kind.is_none_or(|kind| self.performer.kinds(&dependency).contains(&kind)) {
                *ours.entry(dependency).or_default() += queued;
            }
        }
        ours
    }

    /// Lets time pass for circuits and jobs that nobody calls. What cannot be written now is done with the next look.
    async fn sweep(self: &Arc<Self>) {
        let performer = Arc::clone(&self.performer);
        let policy_of = move |dependency: &str| Policy::clone(&performer.policy(dependency));
        let records = self.at_the_store(move |handle| handle.sweep(&policy_of)).await.unwrap_or_default();
        let mut told: BTreeMap<&str, Vec<&EventRecord>> = BTreeMap::new();
        for record in &records {
            told.entry(record.dependency.as_str()).or_default().push(record);
        }
        for (dependency, records) in told {
            self.performer.hear(dependency, &News::Swept(&records));
        }
    }

    /// Does something that may wait for the store, on a thread that may.
    async fn at_the_store<T: Send + 'static>(self: &Arc<Self>, act: impl FnOnce(&Handle) -> T + Send + 'static) -> T {
        let handle = Arc::clone(&self.handle);
        match tokio::task::spawn_blocking(move || act(&handle)).await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is being taken down; so are we.
                Err(_) => std::future::pending().await,
            },
        }
    }
}
