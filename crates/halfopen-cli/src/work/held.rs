//! Carries one job that was claimed to its end: prepare, note, perform, finish.
//!
//! The lease is renewed as long as this attempt goes on, and by nobody else: a process that lives and has forgotten the
//! job lets it run out. What the attempt came to is told to the store again and again until the lease is over; whoever
//! finds the job after that knows that it was noted, and that nothing came back.

use std::sync::Arc;
use std::time::Duration;

use halfopen::handle::jobs::{Ended, Ending, JobError, Lease};
use halfopen_core::job::{JobKind, JobState, ReleaseCause, Sent};
use halfopen_core::outcome::Reached;
use halfopen_core::policy::Policy;
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::Verdict;

use super::performer::{Assigned, News, Performed, Unready};
use super::{Pace, Shop};
use crate::ui;

/// The first pause before the store is told again.
const TELL_AGAIN: Duration = Duration::from_millis(20);
/// The longest one.
const TELL_AGAIN_MAX: Duration = Duration::from_secs(1);

/// What the line has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// It is over, one way or another.
    Over,
    /// It could not be started, by our own fault: why, and which kind of jobs it is a fault for, if that is known.
    OwnFault(String, Option<JobKind>),
}

/// What the store is told at the end.
enum Told {
    Finished(Box<Ending>),
    Released(ReleaseCause),
}

/// Performs one job.
pub(super) async fn perform(shop: Arc<Shop>, lease: Lease, policy: Arc<Policy>) -> Done {
    let job = Held { shop, lease, policy };
    job.carry().await
}

struct Held {
    shop: Arc<Shop>,
    lease: Lease,
    policy: Arc<Policy>,
}

impl Held {
    async fn carry(self) -> Done {
        let id = self.lease.id;
        let request = match self.shop.at_the_store(move |handle| handle.request(id)).await {
            Ok(Some(request)) => request,
            // It was cancelled and is gone.
            Ok(None) => return Done::Over,
            Err(error) => return self.own_fault(format!("job {id} cannot be read: {error}")).await,
        };
        let assigned = Assigned { lease: self.lease.clone(), request, policy: Arc::clone(&self.policy) };
        let preparing = Arc::clone(&self.shop.performer).prepare(assigned);
        let attempt = match self.while_renewed(preparing).await {
            Ok(attempt) => attempt,
            Err(Unready::Fault(fault)) => return self.own_fault(fault.0).await,
            Err(Unready::Judged(mut verdict)) => {
                // It was about the dependency, not about the job, of which nothing was sent.
                verdict.reached = Reached::NotSent;
                let ending = Ending { verdict: *verdict, took: Duration::ZERO, command: None, result: None };
                self.tell(Told::Finished(Box::new(ending))).await;
                return Done::Over;
            }
        };
        if self.shop.stop.pace() != Pace::Working {
            self.tell(Told::Released(ReleaseCause::Shutdown { sent: Sent::Nothing })).await;
            return Done::Over;
        }
        let (lease, policy) = (self.lease.clone(), Arc::clone(&self.policy));
        match self.shop.at_the_store(move |handle| handle.note_sending(&lease, &policy)).await {
            Ok(()) => {}
            // Somebody else has it, or nobody any more.
            Err(JobError::Illegal(_) | JobError::NoSuchJob(_)) => return Done::Over,
            // What cannot be noted is not sent.
            Err(_) => {
                self.tell(Told::Released(ReleaseCause::Shutdown { sent: Sent::Nothing })).await;
                return Done::Over;
            }
        }
        let told = match self.while_renewed(attempt(self.shop.stop.clone())).await {
            Performed::Ended(ending) => Told::Finished(ending),
            Performed::Left(sent) => Told::Released(ReleaseCause::Shutdown { sent }),
        };
        self.tell(told).await;
        Done::Over
    }

    async fn own_fault(&self, fault: String) -> Done {
        self.tell(Told::Released(ReleaseCause::NotStarted)).await;
        Done::OwnFault(fault, self.lease.kind.clone())
    }

    /// Waits for something while the lease is renewed every third of its length. A lease that is lost ends nothing: what
    /// the attempt comes to is evidence then.
    async fn while_renewed<T>(&self, doing: impl Future<Output = T>) -> T {
        let mut doing = std::pin::pin!(doing);
        let every = self.policy.circuit.lease.min(self.policy.circuit.probe_lease) / 3;
        let mut renews = true;
        loop {
            tokio::select! {
                done = doing.as_mut() => return done,
                () = tokio::time::sleep(every), if renews => {
                    let (lease, policy) = (self.lease.clone(), Arc::clone(&self.policy));
                    let renewing = self.shop.at_the_store(move |handle| handle.renew_lease(&lease, &policy));
                    let renewed = tokio::select! {
                        done = doing.as_mut() => return done,
                        renewed = renewing => renewed,
                    };
                    renews = !matches!(renewed, Err(JobError::Illegal(_) | JobError::NoSuchJob(_)));
                }
            }
        }
    }

    /// Tells the store what became of it, until it has heard or the lease is over.
    async fn tell(&self, told: Told) {
        let told = Arc::new(told);
        let ends_at = self.lease_ends_at();
        let mut pause = TELL_AGAIN;
        loop {
            let (lease, policy, what) = (self.lease.clone(), Arc::clone(&self.policy), Arc::clone(&told));
            let heard = self.shop.at_the_store(move |handle| match &*what {
                Told::Finished(ending) => handle.finish_job(&lease, &policy, ending),
                Told::Released(cause) => handle.release_job(&lease, &policy, *cause),
            });
            match heard.await {
                Ok(ended) => return self.heard(&ended, &told),
                Err(JobError::Illegal(_)) => {
                    let dependency = self.lease.job.terms().dependency();
                    ui::warn(&format!(
                        "{dependency}: the lease of job {} was lost; what came back is kept in its history only",
                        self.lease.id
                    ));
                    return;
                }
                Err(JobError::NoSuchJob(_)) => return,
                Err(error) => {
                    if self.shop.handle.clock().now() >= ends_at {
                        ui::warn(&format!("what became of job {} could not be kept: {error}", self.lease.id));
                        return;
                    }
                    tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
                    pause = (pause * 2).min(TELL_AGAIN_MAX);
                }
            }
        }
    }

    /// Returns when the lease is over, if the last renewal came a moment ago.
    fn lease_ends_at(&self) -> Timestamp {
        self.lease.ends_at.max(self.shop.handle.clock().now() + self.policy.circuit.lease)
    }

    fn heard(&self, ended: &Ended, told: &Told) {
        let verdict: Option<&Verdict> = match told {
            Told::Finished(ending) => Some(&ending.verdict),
            Told::Released(_) => None,
        };
        let dependency = self.lease.job.terms().dependency();
        self.shop.performer.hear(dependency, &News::Ended(ended, verdict));
        match ended.state {
            JobState::Queued | JobState::Running => {}
            JobState::Done | JobState::Failed | JobState::Expired | JobState::ManualReview | JobState::Cancelled => {
                self.shop.bell.ended(self.lease.id)
            }
        }
    }
}
