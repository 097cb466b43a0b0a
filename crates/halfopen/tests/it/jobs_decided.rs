//! What an operator decides about many jobs at once, on every kind of store.

use std::time::Duration;

use halfopen::handle::jobs::{Became, DECIDED_MAX, Deed, JobError};
use halfopen::store::jobs::JobFilter;
use halfopen_core::event::By;
use halfopen_core::job::{IllegalStep, JobId, JobResult, JobState, Reason, Safety};

use crate::jobs::{World, new_job, on_each_store, policy, terms};

fn by() -> By {
    By { who: "marie".to_owned(), reason: "the vendor was asked".to_owned() }
}

fn in_review(world: &World, reason: Reason) -> JobId {
    world.enqueue_as(halfopen::handle::jobs::NewJob { review: Some(reason), ..new_job(b"x") })
}

fn decide(world: &World, ids: &[JobId], deed: &Deed) -> Vec<Became> {
    world.door.decide_jobs(ids, &|_| policy(), deed, &by()).expect("the store")
}

const REQUEUE: Deed = Deed::Requeue { ttl: None, may_have_run: false };

/// One answer for all: in parts, each told to the journal once; and said again it changes nothing.
#[test]
fn what_is_decided_about_many_is_told_once_for_each_part() {
    on_each_store(|world| {
        let number = DECIDED_MAX * 2 + 5;
        let ids: Vec<JobId> = (0..number).map(|_| in_review(world, Reason::Policy)).collect();
        let became = decide(world, &ids, &REQUEUE);
        let changed = |became: &Became| matches!(became, Became::Changed { before: JobState::ManualReview, .. });
        assert!(became.iter().all(changed), "{became:?}");
        let told = world.events("jobs_requeued");
        let counts: Vec<_> = told.iter().map(|event| event.details["jobs"].as_u64()).collect();
        assert_eq!(counts, [DECIDED_MAX as u64, DECIDED_MAX as u64, 5].map(Some));
        assert_eq!((&told[0].details["who"], told[0].reason.as_deref()), (&"marie".into(), Some("policy")));
        let history = world.door.job(ids[number - 1]).expect("the store").expect("the job").history;
        assert_eq!(history.last().and_then(|entry| entry.by.clone()), Some(by()));
        let again = decide(world, &ids, &REQUEUE);
        assert!(again.iter().all(|became| matches!(became, Became::Already(JobState::Queued))), "{again:?}");
        assert_eq!(world.events("jobs_requeued").len(), 3);
    });
}

/// One that cannot be changed so keeps nobody else.
#[test]
fn a_job_that_cannot_be_changed_keeps_no_other() {
    on_each_store(|world| {
        let queued = world.enqueue_as(new_job(b"q"));
        let review = in_review(world, Reason::Policy);
        let unclear =
            world.enqueue_as(halfopen::handle::jobs::NewJob { terms: terms(Safety::Unsafe), ..new_job(b"u") });
        world.door.cancel_job(queued, &policy(), &by()).expect("it was queued");
        let lease = world.taken();
        assert_eq!(lease.id, unclear);
        world.door.note_sending(&lease, &policy()).expect("it is noted");
        world.advance(policy().circuit.lease.as_secs());
        world.sweep();
        let nowhere = JobId { seq: 99, mark: 0 };
        let became = decide(world, &[queued, unclear, nowhere, review], &REQUEUE);
        let [a, b, c, d] = became.as_slice() else { panic!("{became:?}") };
        assert!(matches!(a, Became::Refused(JobError::Illegal(IllegalStep::WrongState { .. }))), "{a:?}");
        assert!(matches!(b, Became::Refused(JobError::Illegal(IllegalStep::MayHaveRun))), "{b:?}");
        assert!(matches!(c, Became::Refused(JobError::NoSuchJob(id)) if *id == nowhere), "{c:?}");
        assert!(matches!(d, Became::Changed { .. }), "{d:?}");
        let resolved = decide(world, &[unclear], &Deed::Resolve { result: Some("booked by hand".to_owned()) });
        assert!(matches!(resolved[0], Became::Changed { .. }));
        let result = world.door.job(unclear).expect("the store").expect("the job").result;
        assert_eq!(result, Some(JobResult::Stated("booked by hand".to_owned())));
    });
}

#[test]
fn jobs_are_found_by_reason_and_by_age() {
    on_each_store(|world| {
        let old: Vec<JobId> = (0..30).map(|_| in_review(world, Reason::Policy)).collect();
        world.advance(100);
        let young = in_review(world, Reason::HintBeyondTtl);
        let found = |filter: JobFilter| {
            let page = world.door.jobs(&filter).expect("the store");
            (page.jobs.iter().map(|view| view.id).collect::<Vec<_>>(), page.next)
        };
        let few = JobFilter { limit: 7, ..JobFilter::default() };
        let because = JobFilter { reason: Some(Reason::HintBeyondTtl), ..few.clone() };
        assert_eq!(found(because), (vec![young], None), "also behind a page of others");
        let before = world.door.clock().now() - Duration::from_secs(50);
        let aged = JobFilter { accepted_before: Some(before), ..few };
        assert_eq!(found(aged.clone()), (old[..7].to_vec(), Some(old[6])));
        assert_eq!(found(JobFilter { after: Some(old[27]), ..aged }), (old[28..].to_vec(), None));
    });
}
