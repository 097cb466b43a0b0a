//! Claims the jobs of one dependency, one after the other, as fast as the door gives them.
//!
//! The door says in each refusal when asking again can help; the line sleeps until then, but never for longer than a
//! look, because an operator, a live call or another process may end the refusal sooner. A line that has nothing to
//! claim sleeps until it is woken or time changes a job.
//!
//! A fault of our own (a missing credential, a binary that is not there) stops the claiming here of jobs of the kind that
//! it was met with, not the jobs: they wait for a worker that can. Kinds that cannot be performed here are not claimed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use halfopen::handle::StoreHealth;
use halfopen::handle::jobs::Claim;
use halfopen_core::job::JobKind;
use halfopen_core::permit::RefusalReason;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::held::{self, Done};
use super::performer::News;
use super::trouble::Trouble;
use super::{Pace, Quota, Shop};

/// How long a line sleeps at most while jobs wait and the door refuses, half to one and a half times.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Nobody asks the door again sooner.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// How often a line that leaves the store alone looks whether others found it good; that asks nobody.
const GOOD_AGAIN_LOOK: Duration = Duration::from_millis(250);
/// How long nothing is claimed after a fault of our own.
const PAUSE_FAULT: Duration = Duration::from_secs(10);

/// The jobs of one dependency.
pub(super) struct Line {
    shop: Arc<Shop>,
    dependency: String,
    woken: Arc<Notify>,
    held: JoinSet<Done>,
    trouble: Trouble,
    /// Nothing of a kind is claimed before then, by our own fault.
    faulty: BTreeMap<JobKind, (Instant, String)>,
    moved_at: Instant,
    quota: Quota,
}

/// What is left of a dependency's jobs when a drain ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// Which dependency.
    pub(crate) dependency: String,
    /// How many jobs still wait.
    pub(crate) queued: u64,
    /// Why no more of them was started.
    pub(crate) why: Option<String>,
}

/// What comes after an ask.
enum Next {
    /// Ask again at once.
    Ask,
    /// Rest for so long, or until something held has ended. What is enqueued meanwhile changes nothing.
    Rest(Duration),
    /// Rest for so long, or until the store is known to be good again.
    Recover(Duration),
    /// Sleep until something is enqueued; at most so long, if time changes a job by itself.
    Sleep(Option<Duration>),
}

/// What a line that drains once learned of the last ask.
#[derive(Debug, Default)]
struct Said {
    why: Option<String>,
    /// When asking again can help, if that is known; `Duration::MAX` if it never does by itself.
    again_in: Option<Duration>,
}

impl Line {
    pub(super) fn new(shop: Arc<Shop>, dependency: &str) -> Self {
        let woken = shop.bell.of(dependency);
        Self {
            shop,
            woken,
            dependency: dependency.to_owned(),
            held: JoinSet::new(),
            trouble: Trouble::default(),
            faulty: BTreeMap::new(),
            moved_at: Instant::now(),
            quota: Quota::boundless(),
        }
    }

    /// Works until the worker is told to stop; returns when nothing is held any more.
    pub(super) async fn work(mut self) {
        while self.shop.stop.pace() == Pace::Working && !self.shop.performer.is_over(&self.dependency) {
            let next = self.ask(&mut Said::default()).await;
            self.rest(next).await;
        }
        self.finish().await;
    }

    /// Works until no job is left, or nothing has moved for `patience`, or the door refuses for longer than that.
    pub(super) async fn drain(mut self, patience: Duration, quota: Quota) -> Left {
        self.quota = quota;
        let mut said = Said::default();
        while self.shop.stop.pace() == Pace::Working {
            said = Said::default();
            let next = self.ask(&mut said).await;
            let idle = self.held.is_empty() && !matches!(next, Next::Ask);
            let hopeless = said.again_in.is_some_and(|wait| wait > patience);
            if idle && (hopeless || self.queued().await == 0 || self.moved_at.elapsed() >= patience) {
                break;
            }
            let next = match next {
                Next::Sleep(_) => Next::Rest(PAUSE_MIN.saturating_mul(10)),
                Next::Ask | Next::Rest(_) | Next::Recover(_) => next,
            };
            self.rest(next).await;
        }
        self.finish().await;
        let queued = self.queued().await;
        Left { dependency: self.dependency, queued, why: said.why }
    }

    async fn queued(&self) -> u64 {
        self.shop.waiting().await.get(&self.dependency).copied().unwrap_or(0)
    }

    /// Asks the door for one job, and starts it.
    async fn ask(&mut self, said: &mut Said) -> Next {
        while let Some(done) = self.held.try_join_next() {
            self.note(done.ok());
        }
        let now = Instant::now();
        self.faulty.retain(|_, (until, _)| *until > now);
        let mut kinds = self.shop.performer.kinds(&self.dependency);
        kinds.retain(|kind| !self.faulty.contains_key(kind));
        if let (true, Some((until, fault))) = (kinds.is_empty(), self.faulty.values().min()) {
            said.why = Some(fault.clone());
            return self.faulty(until.saturating_duration_since(now), said);
        }
        let policy = self.shop.performer.policy(&self.dependency);
        if let Err(fault) = self.shop.performer.fit(&self.dependency) {
            self.trouble.fault(&self.dependency, &fault.0);
            said.why = Some(fault.0);
            return self.faulty(ASK_AGAIN, said);
        }
        if !self.quota.take() {
            said.why = Some("as many jobs were begun as were asked for".to_owned());
            said.again_in = Some(Duration::MAX);
            return Next::Rest(ASK_AGAIN);
        }
        let (dependency, name, rules) = (self.dependency.clone(), self.shop.name.clone(), Arc::clone(&policy));
        let claimed =
            self.shop.at_the_store(move |handle| handle.claim_job_and_tell(&dependency, &rules, &name, Some(&kinds)));
        let claimed = claimed.await;
        if !matches!(claimed, Ok((Claim::Taken(_), _))) {
            self.quota.give_back();
        }
        let claim = match claimed {
            Ok((claim, records)) => {
                let records: Vec<_> = records.iter().collect();
                self.shop.performer.hear(&self.dependency, &News::Swept(&records));
                claim
            }
            Err(error) => {
                said.why = Some(error.to_string());
                let pause = self.trouble.met(&self.dependency, &error);
                said.again_in = Some(pause);
                return Next::Recover(pause);
            }
        };
        match claim {
            Claim::Taken(lease) => {
                self.trouble.over(&self.dependency);
                self.moved_at = Instant::now();
                let age = self.shop.handle.clock().now().since(lease.job.accepted_at());
                let admitted = lease.admitted;
                self.shop.performer.hear(&self.dependency, &News::Claimed { age, admitted });
                self.held.spawn(held::perform(Arc::clone(&self.shop), *lease, policy));
                Next::Ask
            }
            Claim::Refused { circuit, refusal } => {
                let now = self.shop.handle.clock().now();
                let wait = refusal.retry_at.map(|at| now.until(at));
                said.why = Some(format!("{circuit} refuses: {}", refusal.reason.as_str()));
                said.again_in = match refusal.reason {
                    // A probe is judged when it ends, long before its lease is over.
                    RefusalReason::ProbesOut => None,
                    RefusalReason::Open | RefusalReason::Throttled | RefusalReason::Ramp | RefusalReason::Held => {
                        Some(wait.unwrap_or(Duration::MAX))
                    }
                };
                let look = ASK_AGAIN.mul_f64(0.5 + fastrand::f64());
                Next::Rest(wait.map_or(look, |wait| wait.clamp(PAUSE_MIN, look)))
            }
            Claim::Nothing { next_at } => {
                if let Some((_, fault)) = self.faulty.values().min() {
                    (said.why, said.again_in) = (Some(fault.clone()), Some(Duration::MAX));
                }
                let now = self.shop.handle.clock().now();
                // What is due already is somebody else's, or a sweep's.
                Next::Sleep(next_at.filter(|at| *at > now).map(|at| now.until(at).max(PAUSE_MIN)))
            }
            Claim::Full => {
                said.why = Some("as many jobs run as drain.max_in_flight allows".to_owned());
                Next::Rest(ASK_AGAIN.mul_f64(0.5 + fastrand::f64()))
            }
        }
    }

    fn faulty(&self, left: Duration, said: &mut Said) -> Next {
        said.why = said.why.take().or_else(|| Some("jobs cannot be performed here".to_owned()));
        // By itself it does not get better.
        said.again_in = Some(Duration::MAX);
        Next::Rest(left)
    }

    /// Rests until the time is over, something was enqueued, something held has ended, or it is time to stop.
    async fn rest(&mut self, next: Next) {
        let (pause, listens) = match next {
            Next::Ask => return,
            Next::Rest(pause) => (Some(pause), false),
            Next::Recover(pause) => return self.recover(pause).await,
            Next::Sleep(pause) => (pause, true),
        };
        let timer = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        let done = tokio::select! {
            () = timer => return,
            () = self.woken.notified(), if listens => return,
            () = self.shop.stop.finishing() => return,
            Some(done) = self.held.join_next() => done,
        };
        self.note(done.ok());
    }

    /// Leaves a store that failed alone for so long, unless somebody else of this process finds it good before: a person who
    /// made room does not wait half a minute for the queue to move.
    async fn recover(&self, pause: Duration) {
        let is_good = || self.shop.handle.health() == StoreHealth::Good;
        let until = Instant::now() + pause;
        // What is good and failed all the same was no fault of the store's.
        let may_end = !is_good();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || (may_end && is_good()) {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(left.min(GOOD_AGAIN_LOOK)) => {}
                () = self.shop.stop.finishing() => return,
            }
        }
    }

    /// Notes what became of something that was held. A panic is no news of the job: its lease runs out.
    fn note(&mut self, done: Option<Done>) {
        self.moved_at = Instant::now();
        match done {
            Some(Done::Over) | None => {}
            Some(Done::OwnFault(fault, kind)) => {
                self.trouble.fault(&self.dependency, &fault);
                // Where kinds share a lane, the next one may be the same job again.
                let kinds = kind.map_or_else(|| self.shop.performer.kinds(&self.dependency), |kind| vec![kind]);
                let until = Instant::now() + PAUSE_FAULT;
                self.faulty.extend(kinds.into_iter().map(|kind| (kind, (until, fault.clone()))));
            }
        }
    }

    async fn finish(&mut self) {
        while let Some(done) = self.held.join_next().await {
            self.note(done.ok());
        }
    }
}
