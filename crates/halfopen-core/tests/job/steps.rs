//! One job: where it may go, what an attempt's end means for it, and what it never does.

use std::num::NonZeroU32;
use std::time::Duration;

use halfopen_core::chance::Chance;
use halfopen_core::event::By;
use halfopen_core::job::{
    Admitted, CLAIMS_LOST_MAX, CommandRequest, Entrance, Entry, HttpRequest, IllegalStep, Job, JobId, JobRequest,
    JobResult, JobState, Reason, ReleaseCause, Safety, Sent, Shelf, Step, Terms, What, is_worth_queueing,
};
use halfopen_core::outcome::{Exit, Reached};
use halfopen_core::policy::{Jitter, OnExpiry, Policy, Replay, Surface};
use halfopen_core::retry::{CommandRerun, Repeatable};
use halfopen_core::snapshot::{
    SnapshotError, decode_entry, decode_job, decode_request, decode_result, encode_entry, encode_job, encode_request,
    encode_result,
};
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{Class, Hint, HintSource, RetryAdvice, Scope, Verdict, Work};
use proptest::prelude::*;
use test_case::test_case;

pub(crate) const NOON: Timestamp = Timestamp::from_millis(1_796_040_000_000);
const TTL: Duration = Duration::from_secs(1800);

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn policy() -> Policy {
    let mut policy = Policy::built_in("ocr", Surface::Serve);
    policy.retry.max_attempts = NonZeroU32::new(3).unwrap();
    policy.retry.backoff.base = secs(5);
    policy.retry.backoff.jitter = Jitter::None;
    policy
}

pub(crate) fn terms(safety: Safety) -> Terms {
    Terms {
        place: "ocr".parse().unwrap(),
        account: Some("ocr@credential=main".parse().unwrap()),
        ttl: TTL,
        on_expiry: OnExpiry::Expired,
        safety,
        keep: secs(72 * 3600),
    }
}

pub(crate) fn queued(safety: Safety) -> Job {
    Job::accept(terms(safety), Entrance::Queue, NOON).0
}

pub(crate) fn step(job: &mut Job, step: Step<'_>, now: Timestamp) -> Result<Option<Entry>, IllegalStep> {
    job.step(&policy(), step, now, Chance::from_seed(1))
}

pub(crate) fn claimed(safety: Safety, grant: u64) -> Job {
    let mut job = queued(safety);
    step(&mut job, Step::Claim { worker: "w", grant }, NOON).unwrap();
    job
}

pub(crate) fn sending(safety: Safety) -> Job {
    let mut job = claimed(safety, 1);
    step(&mut job, Step::NoteSending { grant: 1 }, NOON).unwrap();
    job
}

fn verdict(class: Class, reached: Reached) -> Verdict {
    Verdict::plain(class, "test/rule", reached)
}

fn hinted(class: Class, wait: Duration) -> Verdict {
    let hint = Hint { until: NOON + wait, wait, source: HintSource::RetryAfter, scope: Scope::Whole };
    Verdict { hint: Some(hint), ..verdict(class, Reached::Refused) }
}

pub(crate) fn finish(job: &mut Job, verdict: &Verdict, admitted: Admitted) -> Entry {
    let done = Step::Finish { grant: job.grant(), verdict, admitted, took: secs(1), command: None };
    step(job, done, NOON).unwrap().unwrap()
}

pub(crate) fn by() -> By {
    By { who: "ann".to_owned(), reason: "asked the vendor".to_owned() }
}

pub(crate) fn requeue(may_have_run: bool) -> Step<'static> {
    Step::Requeue { ttl: None, may_have_run, behind: false, by: by() }
}

const DAY: Safety = Safety::Keyed { lifetime: Duration::from_secs(24 * 3600) };

// What an attempt through a closed breaker means: class and how far it got, for a call that may be repeated, one that
// may not, and whether it is charged. S001, S008.
#[test_case(Class::Success, Reached::Answered, JobState::Done, JobState::Done, false)]
#[test_case(Class::RateLimited, Reached::Refused, JobState::Queued, JobState::Queued, false)]
#[test_case(Class::RateLimited, Reached::Unknown, JobState::Queued, JobState::ManualReview, false)]
#[test_case(Class::Overloaded, Reached::Refused, JobState::Queued, JobState::Queued, false)]
#[test_case(Class::Overloaded, Reached::Unknown, JobState::Queued, JobState::ManualReview, false)]
#[test_case(Class::UsageLimit, Reached::Refused, JobState::Queued, JobState::Queued, false)]
#[test_case(Class::ConnectionFailure, Reached::NotSent, JobState::Queued, JobState::Queued, false)]
#[test_case(Class::ConnectionFailure, Reached::Unknown, JobState::Queued, JobState::ManualReview, false)]
#[test_case(Class::QuotaExhausted, Reached::Answered, JobState::Queued, JobState::Queued, false)]
#[test_case(Class::Timeout, Reached::Unknown, JobState::Queued, JobState::ManualReview, true)]
#[test_case(Class::Timeout, Reached::NotSent, JobState::Queued, JobState::Queued, true)]
#[test_case(Class::ServerError, Reached::Answered, JobState::Queued, JobState::ManualReview, true)]
#[test_case(Class::Auth, Reached::Refused, JobState::Queued, JobState::Queued, true)]
#[test_case(Class::InvalidRequest, Reached::Answered, JobState::Failed, JobState::Failed, false)]
#[test_case(Class::UnknownFailure, Reached::Answered, JobState::Failed, JobState::Failed, false)]
fn a_verdict_leads_where_how_far_it_got_allows(
    class: Class,
    reached: Reached,
    if_safe: JobState,
    else_: JobState,
    charged: bool,
) {
    for (safety, to) in [(Safety::Idempotent, if_safe), (DAY, if_safe), (Safety::Unsafe, else_)] {
        let mut job = sending(safety);
        let entry = finish(&mut job, &verdict(class, reached), Admitted::Regularly);
        assert_eq!((job.state(), entry.to, entry.charged), (to, to, charged), "{safety:?}");
        assert_eq!(job.attempts(), u32::from(charged));
        assert_eq!(job.last().unwrap().class, class);
    }
}

/// S008: probes that fail belong to the outage.
#[test]
fn a_failed_probe_is_not_charged_until_another_call_has_shown_that_the_job_is_to_blame() {
    let mut job = queued(Safety::Idempotent);
    for (n, others_succeeded, charged) in [(1, false, 0), (2, false, 0), (3, true, 1)] {
        let at = NOON + secs(n * 300);
        step(&mut job, Step::Claim { worker: "w", grant: n }, at).unwrap();
        step(&mut job, Step::NoteSending { grant: n }, at).unwrap();
        let timeout = verdict(Class::Timeout, Reached::Unknown);
        let admitted = Admitted::AsProbe { others_succeeded };
        let done = Step::Finish { grant: n, verdict: &timeout, admitted, took: secs(1), command: None };
        step(&mut job, done, at).unwrap();
        assert_eq!((job.attempts(), u64::from(job.failed_probes())), (charged, n));
        assert_eq!(job.state(), JobState::Queued);
    }
    let mut due = job.clone();
    step(&mut due, Step::PassTime, job.not_before().unwrap()).unwrap();
    assert_eq!(due.shelf(), Shelf::Suspect);
    due.forgive();
    assert_eq!(due.shelf(), Shelf::Ready);
}

/// A poisoned job is one that failed twice where another call succeeded; once may have been the outage.
#[test_case(&[true], 0)]
#[test_case(&[true, true], 1)]
#[test_case(&[false, true], 1; "the first is remembered")]
#[test_case(&[true, false], 0; "nobody has succeeded since")]
fn the_second_failed_probe_is_charged_where_another_call_has_succeeded(others: &[bool], charged: u32) {
    let mut job = queued(Safety::Idempotent);
    for (nth, others_succeeded) in (1..).zip(others) {
        let at = NOON + secs(nth * 300);
        step(&mut job, Step::Claim { worker: "w", grant: nth }, at).unwrap();
        step(&mut job, Step::NoteSending { grant: nth }, at).unwrap();
        let timeout = verdict(Class::Timeout, Reached::Unknown);
        let admitted = Admitted::AsProbe { others_succeeded: *others_succeeded };
        let done = Step::Finish { grant: nth, verdict: &timeout, admitted, took: secs(1), command: None };
        step(&mut job, done, at).unwrap();
    }
    assert_eq!(job.attempts(), charged);
}

/// S164: a job that fails in a millisecond waits before it is tried again, and longer each time.
#[test]
fn a_job_that_fails_at_once_does_not_spin() {
    let mut job = sending(Safety::Idempotent);
    finish(&mut job, &verdict(Class::ServerError, Reached::Answered), Admitted::Regularly);
    assert_eq!(job.not_before(), Some(NOON + secs(5)));
    assert_eq!(step(&mut job, Step::Claim { worker: "w", grant: 2 }, NOON + secs(4)), Err(IllegalStep::NotReady));
    step(&mut job, Step::Claim { worker: "w", grant: 2 }, NOON + secs(5)).unwrap();
    step(&mut job, Step::NoteSending { grant: 2 }, NOON + secs(5)).unwrap();
    finish_at(&mut job, NOON + secs(6));
    assert_eq!(job.not_before(), Some(NOON + secs(16)));
}

fn finish_at(job: &mut Job, now: Timestamp) {
    let refused = verdict(Class::ConnectionFailure, Reached::NotSent);
    let (grant, admitted) = (job.grant(), Admitted::Regularly);
    step(job, Step::Finish { grant, verdict: &refused, admitted, took: secs(1), command: None }, now).unwrap();
}

#[test]
fn attempts_of_its_own_are_used_up_and_a_person_must_look() {
    let mut job = queued(Safety::Idempotent);
    for grant in 1..=3 {
        let at = NOON + secs(grant * 60);
        step(&mut job, Step::Claim { worker: "w", grant }, at).unwrap();
        step(&mut job, Step::NoteSending { grant }, at).unwrap();
        let failed = verdict(Class::ServerError, Reached::Answered);
        let admitted = Admitted::Regularly;
        step(&mut job, Step::Finish { grant, verdict: &failed, admitted, took: secs(1), command: None }, at).unwrap();
    }
    assert_eq!((job.state(), job.reason()), (JobState::ManualReview, Some(Reason::AttemptsUsed)));
}

#[test]
fn a_no_after_an_unknown_end_is_for_a_person_because_it_may_be_an_echo() {
    let mut job = sending(DAY);
    finish(&mut job, &verdict(Class::Timeout, Reached::Unknown), Admitted::Regularly);
    assert!(job.may_have_run());
    step(&mut job, Step::Claim { worker: "w", grant: 2 }, NOON + secs(60)).unwrap();
    finish(&mut job, &verdict(Class::InvalidRequest, Reached::Answered), Admitted::Regularly);
    assert_eq!((job.state(), job.reason()), (JobState::ManualReview, Some(Reason::UnknownEnd)));
}

/// A key protects only within its lifetime: what waited longer is not sent, although it was safe when it was returned.
#[test]
fn a_key_that_has_died_while_the_job_waited_protects_nothing() {
    let mut job = sending(Safety::Keyed { lifetime: secs(600) });
    finish(&mut job, &verdict(Class::Timeout, Reached::Unknown), Admitted::Regularly);
    assert_eq!(job.state(), JobState::Queued);
    let mut in_time = job.clone();
    step(&mut in_time, Step::Claim { worker: "w", grant: 2 }, NOON + secs(599)).unwrap();
    assert_eq!(in_time.state(), JobState::Running);
    step(&mut job, Step::Claim { worker: "w", grant: 2 }, NOON + secs(600)).unwrap();
    assert_eq!((job.state(), job.reason()), (JobState::ManualReview, Some(Reason::UnknownEnd)));
}

#[test_case(Replay::Always, Safety::Unsafe, JobState::Queued)]
#[test_case(Replay::IfIdempotent, Safety::Unsafe, JobState::ManualReview)]
#[test_case(Replay::IfIdempotent, Safety::Idempotent, JobState::Queued)]
#[test_case(Replay::Never, Safety::Idempotent, JobState::ManualReview)]
fn the_policy_says_what_becomes_of_an_unknown_end(replay: Replay, safety: Safety, to: JobState) {
    let policy = Policy { replay, ..policy() };
    let mut job = sending(safety);
    let timeout = verdict(Class::Timeout, Reached::Unknown);
    let done =
        Step::Finish { grant: 1, verdict: &timeout, admitted: Admitted::Regularly, took: secs(1), command: None };
    job.step(&policy, done, NOON, Chance::from_seed(1)).unwrap();
    assert_eq!(job.state(), to);
}

#[test_case(Work::None, false, JobState::Queued, None; "its output shows no work")]
#[test_case(Work::Shown, false, JobState::ManualReview, Some(Reason::WorkShown))]
#[test_case(Work::None, true, JobState::ManualReview, Some(Reason::UnknownEnd); "our own timeout")]
fn a_command_is_judged_by_the_work_it_shows(work: Work, timed_out: bool, to: JobState, reason: Option<Reason>) {
    let mut job = sending(Safety::Unsafe);
    let overloaded = Verdict { work, ..verdict(Class::Overloaded, Reached::Unknown) };
    let command = Some(CommandRerun { rerun_within: secs(300), effects: true, timed_out });
    let (admitted, took) = (Admitted::Regularly, secs(3000));
    step(&mut job, Step::Finish { grant: 1, verdict: &overloaded, admitted, took, command }, NOON).unwrap();
    assert_eq!((job.state(), job.reason()), (to, reason));
}

#[test]
fn what_the_dependency_forbids_has_failed() {
    let mut job = sending(Safety::Idempotent);
    let forbidden = Verdict { retry: RetryAdvice::Forbidden, ..verdict(Class::ServerError, Reached::Answered) };
    finish(&mut job, &forbidden, Admitted::Regularly);
    assert_eq!((job.state(), job.reason()), (JobState::Failed, Some(Reason::Forbidden)));
}

#[test_case(1799, JobState::Queued, None)]
#[test_case(1800, JobState::Expired, Some(Reason::HintBeyondTtl))]
fn a_hint_beyond_the_ttl_ends_the_job_at_once(wait: u64, to: JobState, reason: Option<Reason>) {
    let mut job = sending(Safety::Unsafe);
    finish(&mut job, &hinted(Class::RateLimited, secs(wait)), Admitted::Regularly);
    assert_eq!((job.state(), job.reason()), (to, reason));
    assert_eq!(job.not_before(), reason.is_none().then(|| NOON + secs(wait)));
    assert_eq!(is_worth_queueing(Some(NOON + secs(wait)), TTL, NOON).is_ok(), reason.is_none());
}

/// S068: not a millisecond later, whoever comes first.
#[test]
fn a_job_whose_ttl_is_over_is_never_claimed() {
    let mut job = queued(Safety::Idempotent);
    assert_eq!(job.next_wake(), Some(NOON + TTL));
    assert!(step(&mut job, Step::PassTime, NOON + TTL - Duration::from_millis(1)).unwrap().is_none());
    let mut swept = job.clone();
    let entry = step(&mut swept, Step::PassTime, NOON + TTL).unwrap().unwrap();
    assert_eq!(
        (swept.state(), swept.reason(), entry.to),
        (JobState::Expired, Some(Reason::TtlOver), JobState::Expired)
    );
    step(&mut job, Step::Claim { worker: "w", grant: 1 }, NOON + TTL).unwrap();
    assert_eq!((job.state(), job.grant()), (JobState::Expired, 0));
}

#[test]
fn what_may_have_been_executed_does_not_expire_silently() {
    let mut job = sending(DAY);
    finish(&mut job, &verdict(Class::Timeout, Reached::Unknown), Admitted::Regularly);
    step(&mut job, Step::PassTime, NOON + TTL).unwrap();
    assert_eq!((job.state(), job.reason()), (JobState::ManualReview, Some(Reason::TtlOver)));
}

/// S006, S063: the newest grant rules, and only while its lease lasts.
#[test]
fn a_lost_lease_confers_no_right() {
    let success = verdict(Class::Success, Reached::Answered);
    let attempt = |job: &mut Job, grant: u64, now: Timestamp| {
        let admitted = Admitted::Regularly;
        let done = Step::Finish { grant, verdict: &success, admitted, took: secs(1), command: None };
        let release = Step::Release { grant, cause: ReleaseCause::NotStarted };
        for step in [Step::Renew { grant }, Step::NoteSending { grant }, release, done] {
            let before = job.clone();
            let refused = job.step(&policy(), step, now, Chance::from_seed(1));
            assert!(matches!(refused, Err(IllegalStep::LeaseLost { shown, .. }) if shown == grant), "{refused:?}");
            assert_eq!(*job, before);
        }
    };
    let mut job = claimed(Safety::Idempotent, 1);
    let over = NOON + policy().circuit.lease;
    attempt(&mut job, 2, NOON);
    attempt(&mut job, 1, over);
    step(&mut job, Step::PassTime, over).unwrap();
    assert_eq!(job.state(), JobState::Queued);
    attempt(&mut job, 1, over);
    let again = job.not_before().unwrap();
    step(&mut job, Step::Claim { worker: "w", grant: 2 }, again).unwrap();
    attempt(&mut job, 1, again);
    let late = job.late(1, "w", &success, again);
    assert_eq!((late.what, late.from, late.to), (What::Late, Some(JobState::Running), JobState::Running));
}

#[test]
fn a_renewed_lease_lasts() {
    let mut job = claimed(Safety::Idempotent, 1);
    let lease = policy().circuit.lease;
    for n in 1..10 {
        let now = NOON + lease / 2 * n;
        step(&mut job, Step::Renew { grant: 1 }, now).unwrap();
        assert!(step(&mut job, Step::PassTime, now).unwrap().is_none());
        assert_eq!(job.next_wake(), Some(now + lease));
    }
}

/// S002, S046.
#[test_case(Safety::Unsafe, true, JobState::ManualReview, Some(Reason::WorkerDied); "it may have been executed")]
#[test_case(Safety::Unsafe, false, JobState::Queued, None; "it was never sent")]
#[test_case(Safety::Idempotent, true, JobState::Queued, None)]
fn a_dead_worker_leaves_a_job_that_is_seen(safety: Safety, noted: bool, to: JobState, reason: Option<Reason>) {
    let mut job = if noted { sending(safety) } else { claimed(safety, 1) };
    let over = job.next_wake().unwrap();
    let entry = step(&mut job, Step::PassTime, over).unwrap().unwrap();
    assert_eq!((job.state(), job.reason(), job.interrupted()), (to, reason, 1));
    assert_eq!((entry.reason, entry.charged, entry.worker.as_deref()), (Some(Reason::WorkerDied), noted, Some("w")));
    assert_eq!((job.attempts(), job.claims_lost()), (u32::from(noted), u32::from(!noted)));
}

/// Lets a job lose its worker under the lease `grant`, before or after the note.
fn loses_its_worker(job: &mut Job, policy: &Policy, grant: u64, noted: bool) {
    let mut step = |step, now| job.step(policy, step, now, Chance::from_seed(1)).unwrap();
    let now = NOON + secs(grant * 90);
    step(Step::PassTime, now);
    step(Step::Claim { worker: "w", grant }, now);
    if noted {
        step(Step::NoteSending { grant }, now);
    }
    step(Step::PassTime, now + policy.circuit.lease);
}

/// S046: work that kills its worker is limited like any other failure.
#[test]
fn a_job_that_kills_its_workers_is_taken_away_from_them() {
    let mut job = queued(Safety::Idempotent);
    for grant in 1..=3 {
        assert_eq!(job.state(), JobState::Queued);
        loses_its_worker(&mut job, &policy(), grant, true);
    }
    assert_eq!((job.state(), job.reason()), (JobState::ManualReview, Some(Reason::AttemptsUsed)));
    assert_eq!((job.interrupted(), job.attempts()), (3, 3));
}

/// S046: what was never sent was never attempted; but what ends whoever prepares it ends them a bounded number of times.
#[test]
fn lost_claims_that_were_never_sent_are_no_attempts_and_bounded_by_themselves() {
    let mut policy = policy();
    policy.retry.max_attempts = NonZeroU32::MIN;
    policy.retry.backoff.max = secs(30);
    let mut job = queued(Safety::Unsafe);
    for grant in 1..u64::from(CLAIMS_LOST_MAX) {
        loses_its_worker(&mut job, &policy, grant, false);
        assert_eq!((job.state(), job.attempts(), u64::from(job.claims_lost())), (JobState::Queued, 0, grant));
    }
    let mut sent = job.clone();
    loses_its_worker(&mut job, &policy, 10, false);
    assert_eq!((job.state(), job.reason()), (JobState::ManualReview, Some(Reason::ClaimsLost)));
    assert_eq!((job.attempts(), job.sent(), job.may_have_run()), (0, 0, false));
    // A person may send it again without a licence: nothing was executed.
    step(&mut job, requeue(false), NOON + secs(3600)).unwrap();
    assert_eq!((job.state(), job.claims_lost(), job.interrupted()), (JobState::Queued, 0, 0));
    // One that comes to be sent has shown that it can be prepared.
    policy.replay = Replay::Always;
    policy.retry.max_attempts = NonZeroU32::new(2).unwrap();
    loses_its_worker(&mut sent, &policy, 10, true);
    assert_eq!((sent.state(), sent.attempts(), sent.claims_lost()), (JobState::Queued, 1, 0));
}

/// S166.
#[test_case(false, Sent::Maybe, JobState::Queued; "not noted, so not sent")]
#[test_case(true, Sent::Nothing, JobState::Queued)]
#[test_case(true, Sent::Maybe, JobState::ManualReview)]
fn a_shutdown_is_told_apart_and_not_charged(noted: bool, sent: Sent, to: JobState) {
    let mut job = if noted { sending(Safety::Unsafe) } else { claimed(Safety::Unsafe, 1) };
    let release = Step::Release { grant: 1, cause: ReleaseCause::Shutdown { sent } };
    let entry = step(&mut job, release, NOON).unwrap().unwrap();
    assert_eq!((job.state(), job.attempts(), entry.charged), (to, 0, false));
    assert_eq!(entry.reason, Some(Reason::Shutdown));
}

#[test]
fn requeueing_what_may_have_been_executed_needs_an_operators_word() {
    let mut job = sending(Safety::Unsafe);
    finish(&mut job, &verdict(Class::Timeout, Reached::Unknown), Admitted::Regularly);
    assert_eq!(step(&mut job, requeue(false), NOON), Err(IllegalStep::MayHaveRun));
    let later = NOON + secs(3600);
    let entry = step(&mut job, requeue(true), later).unwrap().unwrap();
    assert_eq!((job.state(), job.attempts(), job.expires_at()), (JobState::Queued, 0, later + TTL));
    assert_eq!((entry.what, entry.by), (What::Requeued, Some(by())));
    step(&mut job, Step::Claim { worker: "w", grant: 2 }, later).unwrap();
    assert_eq!(job.state(), JobState::Running);
}

/// The operator takes it on himself; a key protects the new sending only for what is left of its lifetime.
#[test_case(599, 1; "the key still lives, until then")]
#[test_case(600, 600; "it has died, so the next sending begins a lifetime")]
fn a_requeued_job_is_protected_by_what_is_left_of_its_key(requeued_at: u64, left: u64) {
    let lifetime = secs(600);
    let mut job = sending(Safety::Keyed { lifetime });
    finish(&mut job, &verdict(Class::InvalidRequest, Reached::Answered), Admitted::Regularly);
    assert_eq!(job.state(), JobState::Failed);
    let now = NOON + secs(requeued_at);
    step(&mut job, requeue(false), now).unwrap();
    step(&mut job, Step::Claim { worker: "w", grant: 2 }, now).unwrap();
    step(&mut job, Step::NoteSending { grant: 2 }, now).unwrap();
    assert_eq!(job.repeatable(&policy(), now + secs(left) - Duration::from_millis(1)), Repeatable::Yes);
    assert_eq!(job.repeatable(&policy(), now + secs(left)), Repeatable::No);
}

#[test]
fn what_was_being_sent_when_it_was_cancelled_may_have_been_executed() {
    let mut sent = sending(Safety::Unsafe);
    step(&mut sent, Step::Cancel { by: by() }, NOON).unwrap();
    assert!(sent.may_have_run());
    let mut claimed = claimed(Safety::Unsafe, 1);
    step(&mut claimed, Step::Cancel { by: by() }, NOON).unwrap();
    assert!(!claimed.may_have_run());
    // An unknown end of before is not forgotten by a later step that sent nothing.
    let mut queued = sending(DAY);
    finish(&mut queued, &verdict(Class::Timeout, Reached::Unknown), Admitted::Regularly);
    let mut cancelled = queued.clone();
    step(&mut cancelled, Step::Cancel { by: by() }, NOON).unwrap();
    assert!(cancelled.may_have_run());
    let later = NOON + secs(60);
    step(&mut queued, Step::Claim { worker: "w", grant: 2 }, later).unwrap();
    let release = Step::Release { grant: 2, cause: ReleaseCause::Shutdown { sent: Sent::Nothing } };
    step(&mut queued, release, later).unwrap();
    assert_eq!((queued.state(), queued.may_have_run()), (JobState::Queued, true));
}

#[test]
fn what_the_dependency_forbids_after_an_unknown_end_is_for_a_person() {
    let mut job = sending(DAY);
    finish(&mut job, &verdict(Class::Timeout, Reached::Unknown), Admitted::Regularly);
    step(&mut job, Step::Claim { worker: "w", grant: 2 }, NOON + secs(60)).unwrap();
    let forbidden = Verdict { retry: RetryAdvice::Forbidden, ..verdict(Class::RateLimited, Reached::Refused) };
    finish(&mut job, &forbidden, Admitted::Regularly);
    assert_eq!((job.state(), job.reason()), (JobState::ManualReview, Some(Reason::Forbidden)));
}

#[test]
fn hints_that_are_not_honoured_delay_no_job() {
    let mut policy = policy();
    policy.retry.honor_retry_after = false;
    let mut job = sending(Safety::Unsafe);
    let hint = hinted(Class::RateLimited, secs(1800));
    let done = Step::Finish { grant: 1, verdict: &hint, admitted: Admitted::Regularly, took: secs(1), command: None };
    job.step(&policy, done, NOON, Chance::from_seed(1)).unwrap();
    assert_eq!((job.state(), job.not_before()), (JobState::Queued, Some(NOON + secs(5))));
}

#[test]
fn a_job_that_may_be_tried_at_once_is_ready_at_once() {
    let mut policy = policy();
    policy.retry.backoff.base = Duration::ZERO;
    let mut job = sending(Safety::Idempotent);
    let failed = verdict(Class::ServerError, Reached::Answered);
    let done = Step::Finish { grant: 1, verdict: &failed, admitted: Admitted::Regularly, took: secs(1), command: None };
    job.step(&policy, done, NOON, Chance::from_seed(1)).unwrap();
    assert_eq!((job.shelf(), job.not_before()), (Shelf::Ready, None));
}

#[test]
fn a_requeue_gives_a_new_time_to_live_and_forgives_failed_probes() {
    let mut job = sending(Safety::Idempotent);
    let timeout = verdict(Class::Timeout, Reached::Unknown);
    finish(&mut job, &timeout, Admitted::AsProbe { others_succeeded: false });
    assert_eq!(job.failed_probes(), 1);
    step(&mut job, Step::PassTime, NOON + TTL).unwrap();
    assert_eq!(job.state(), JobState::Expired);
    let later = NOON + secs(7200);
    let hour = Step::Requeue { ttl: Some(secs(3600)), may_have_run: true, behind: false, by: by() };
    step(&mut job, hour, later).unwrap();
    assert_eq!((job.expires_at(), job.terms().ttl), (later + secs(3600), secs(3600)));
    assert_eq!((job.failed_probes(), job.shelf()), (0, Shelf::Ready));
}

#[test]
fn what_an_operator_says_was_done_is_done() {
    let mut job = sending(Safety::Unsafe);
    finish(&mut job, &verdict(Class::Timeout, Reached::Unknown), Admitted::Regularly);
    let later = NOON + secs(600);
    let entry = step(&mut job, Step::Resolve { by: by() }, later).unwrap().unwrap();
    assert_eq!((job.state(), job.ended_at()), (JobState::Done, Some(later)));
    assert_eq!((entry.what, entry.to, entry.by), (What::Resolved, JobState::Done, Some(by())));
}

/// A key whose first sending lies in the future would protect for a day longer than the dependency remembers it.
#[test]
fn a_key_protects_no_longer_after_a_clock_step_than_its_lifetime() {
    let mut job = sending(Safety::Keyed { lifetime: secs(600) });
    let before = NOON - secs(86_400);
    job.after_reboot(before);
    assert_eq!(job.repeatable(&policy(), before + secs(599)), Repeatable::Yes);
    assert_eq!(job.repeatable(&policy(), before + secs(600)), Repeatable::No);
}

#[test]
fn a_job_that_waits_behind_another_is_not_claimed_and_still_expires() {
    let (mut job, entry) = Job::accept(terms(Safety::Idempotent), Entrance::QueueBehind, NOON);
    assert_eq!((entry.what, entry.from, job.shelf()), (What::Accepted, None, Shelf::Behind));
    assert_eq!(step(&mut job, Step::Claim { worker: "w", grant: 1 }, NOON), Err(IllegalStep::NotReady));
    let mut unblocked = job.clone();
    step(&mut unblocked, Step::Unblock, NOON).unwrap().unwrap();
    assert_eq!(unblocked.shelf(), Shelf::Ready);
    step(&mut job, Step::PassTime, NOON + TTL).unwrap();
    assert_eq!(job.state(), JobState::Expired);
}

#[test]
fn a_rebooted_machine_has_no_workers_and_its_deadlines_are_their_own_length() {
    let before = NOON - secs(86_400);
    let mut running = sending(Safety::Unsafe);
    running.after_reboot(before);
    assert_eq!(running.next_wake(), Some(before));
    let mut waiting = queued(Safety::Unsafe);
    waiting.after_reboot(before);
    assert_eq!(waiting.expires_at(), before + TTL);
}

#[test_case("j17-9f3ac2d1", true)]
#[test_case("j9223372036854775807-00000000", true)]
#[test_case("j9223372036854775808-00000000", false; "beyond what a store counts")]
#[test_case("j17-9f3ac2d", false)]
#[test_case("j17-9F3AC2D1", false; "one spelling only")]
#[test_case("j+17-9f3ac2d1", false)]
#[test_case("j17", false)]
#[test_case("17-9f3ac2d1", false)]
#[test_case("jä-9f3ac2d1", false)]
#[test_case("", false)]
fn a_job_id_is_read_back_as_written(word: &str, good: bool) {
    assert_eq!(word.parse::<JobId>().map(|id| id.to_string()).ok().as_deref(), good.then_some(word));
}

#[test]
fn requests_and_results_are_stored_to_the_byte() {
    let http = JobRequest::Http(HttpRequest {
        method: "POST".to_owned(),
        target: "/v1/charge?x=%20".to_owned(),
        headers: vec![("idempotency-key".to_owned(), b"a".to_vec()), ("x".to_owned(), vec![0xff, 0])],
        credential: Some("main".to_owned()),
        body: vec![0, 159, 146, 150],
    });
    let command = JobRequest::Command(CommandRequest {
        host: "h".to_owned(),
        user: 1000,
        executable: b"/bin/sh".to_vec(),
        argv: vec![b"sh".to_vec(), vec![0xff]],
        cwd: b"/".to_vec(),
        env: vec![(b"A".to_vec(), b"b".to_vec())],
        env_from: vec!["TOKEN".to_owned()],
        stdin: b"in".to_vec(),
        output: None,
        profile: Some("curl".to_owned()),
        timeout: Some(secs(5)),
    });
    for request in [http, command] {
        let (text, body) = encode_request(request.clone());
        assert_eq!(decode_request(&text, body).unwrap(), request);
    }
    let answer = JobResult::Http { status: 200, headers: vec![], body: vec![1, 2, 3], cut: false };
    let ended = JobResult::Command {
        exit: Exit::Code(3),
        stdout: b"out".to_vec(),
        stderr: "why".to_owned(),
        cut: true,
        took: secs(2),
    };
    for result in [answer, ended, JobResult::Stated("booked by hand".to_owned())] {
        let (text, body) = encode_result(result.clone());
        assert_eq!(decode_result(&text, body).unwrap(), result);
    }
}

#[test]
fn a_job_of_a_newer_form_is_refused_with_both_numbers() {
    let text = r#"{"form":2,"everything":"else"}"#;
    let read = decode_job(text, "ocr".parse().unwrap(), None);
    assert!(matches!(read, Err(SnapshotError::Newer { found: 2, known: 1 })), "{read:?}");
}

/// A file written by this form must load for ever.
#[test]
fn a_job_of_form_1_loads() {
    let text = concat!(
        r#"{"form":1,"accepted":1796040000000,"ttl_ms":1800000,"expires":[1796041800000,1800000],"#,
        r#""on_expiry":"expired","keep_ms":259200000,"safety":{"keyed":{"lifetime_ms":86400000}},"#,
        r#""stage":{"running":{"worker":"w","lease":[1796040030000,30000],"claimed":1796040000000,"#,
        r#""sending":1796040000000}},"grant":4,"sent":1,"first_sent":1796040000000}"#,
    );
    let job = decode_job(text, "ocr".parse().unwrap(), None).unwrap();
    assert_eq!((job.state(), job.grant(), job.sent()), (JobState::Running, 4, 1));
    assert_eq!(encode_job(&job), text);
}

/// One thing that may happen in a walk.
#[derive(Clone, Debug)]
enum Act {
    Claim,
    Note(bool),
    Renew(bool),
    Finish(bool, Class, Reached, bool),
    Release(bool, bool),
    Wait(u64),
    Requeue(bool),
    Resolve,
    Cancel,
}

fn acts() -> impl Strategy<Value = Act> {
    let class = proptest::sample::select(Class::ALL.to_vec());
    let reached =
        proptest::sample::select(vec![Reached::NotSent, Reached::Unknown, Reached::Refused, Reached::Answered]);
    prop_oneof![
        6 => Just(Act::Claim),
        4 => any::<bool>().prop_map(Act::Note),
        1 => any::<bool>().prop_map(Act::Renew),
        6 => (prop::bool::weighted(0.9), class, reached, any::<bool>())
            .prop_map(|(own, class, reached, probe)| Act::Finish(own, class, reached, probe)),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(own, sent)| Act::Release(own, sent)),
        6 => (0u64..120).prop_map(Act::Wait),
        1 => any::<bool>().prop_map(Act::Requeue),
        1 => Just(Act::Resolve),
        1 => Just(Act::Cancel),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_a_job_keeps_its_promises(
        safety in proptest::sample::select(vec![Safety::Idempotent, Safety::Unsafe, DAY]),
        acts in prop::collection::vec(acts(), 1..60),
        seed in any::<u64>(),
    ) {
        let policy = policy();
        let mut job = queued(safety);
        let (mut now, mut grant) = (NOON, 0);
        // An attempt that was noted and whose end nobody knows, since the last requeue.
        let mut unknown = false;
        for act in acts {
            let before = job.clone();
            let chance = Chance::from_seed(seed);
            let own = |own: bool| if own { before.grant() } else { before.grant() + 7 };
            let was_sending = encode_job(&before).contains("\"sending\"");
            let step = match &act {
                Act::Claim => { grant += 1; Step::Claim { worker: "w", grant } }
                Act::Note(o) => Step::NoteSending { grant: own(*o) },
                Act::Renew(o) => Step::Renew { grant: own(*o) },
                Act::Finish(o, class, reached, probe) => {
                    let verdict = verdict(*class, *reached);
                    let admitted =
                        if *probe { Admitted::AsProbe { others_succeeded: true } } else { Admitted::Regularly };
                    let step =
                        Step::Finish { grant: own(*o), verdict: &verdict, admitted, took: secs(1), command: None };
                    let result = job.step(&policy, step, now, chance);
                    check(&before, &job, &result)?;
                    if result.is_ok() && was_sending && *reached == Reached::Unknown && *class != Class::Success {
                        unknown |= !matches!(class, Class::QuotaExhausted | Class::Auth);
                    }
                    continue;
                }
                Act::Release(o, sent) => {
                    let sent = if *sent { Sent::Maybe } else { Sent::Nothing };
                    unknown |= *o && was_sending && sent == Sent::Maybe;
                    Step::Release { grant: own(*o), cause: ReleaseCause::Shutdown { sent } }
                }
                Act::Wait(secs) => {
                    now = now + Duration::from_secs(*secs);
                    let wakes = before.next_wake();
                    let result = job.step(&policy, Step::PassTime, now, chance);
                    // The wake is the first instant at which anything changes.
                    if !before.is_prunable(now) {
                        prop_assert_eq!(wakes.is_some_and(|at| at <= now), job != before);
                    }
                    unknown |= was_sending && job != before;
                    prop_assert!(was_sending || job.attempts() == before.attempts(), "charged, and not sent");
                    check(&before, &job, &result)?;
                    continue;
                }
                Act::Requeue(word) => {
                    let refused = before.needs_licence() && !word;
                    let result = job.step(&policy, requeue(*word), now, chance);
                    if result.is_ok() {
                        prop_assert!(!refused);
                        unknown = false;
                    }
                    check(&before, &job, &result)?;
                    continue;
                }
                Act::Resolve => Step::Resolve { by: by() },
                Act::Cancel => Step::Cancel { by: by() },
            };
            let result = job.step(&policy, step, now, chance);
            check(&before, &job, &result)?;
            if let Act::Claim = act {
                // What may have been executed and may not be repeated is never in a worker's hands again.
                if job.state() == JobState::Running && before.state() == JobState::Queued {
                    prop_assert!(!(unknown && safety == Safety::Unsafe), "sent twice without a licence");
                    prop_assert!(now < job.expires_at());
                }
            }
        }
    }
}

/// What holds for every step.
fn check(before: &Job, after: &Job, result: &Result<Option<Entry>, IllegalStep>) -> Result<(), TestCaseError> {
    if result.is_err() {
        prop_assert_eq!(before, after, "a refused step changes nothing");
    }
    // No transition leads out of done or cancelled.
    if matches!(before.state(), JobState::Done | JobState::Cancelled) {
        prop_assert_eq!(before, after);
    }
    prop_assert!(after.grant() >= before.grant());
    prop_assert!(after.claims_lost() < CLAIMS_LOST_MAX || after.state() != JobState::Queued);
    prop_assert!(after.attempts() <= policy().retry.max_attempts.get() || after.state() == JobState::ManualReview);
    match result {
        Ok(Some(entry)) => {
            prop_assert_eq!(entry.from, Some(before.state()));
            prop_assert_eq!(entry.to, after.state());
            prop_assert_eq!(&decode_entry(&encode_entry(entry)).unwrap(), entry);
        }
        // A change of state always has its entry.
        Ok(None) | Err(_) => prop_assert_eq!(before.state(), after.state()),
    }
    let terms = after.terms();
    let read = decode_job(&encode_job(after), terms.place.clone(), terms.account.clone()).unwrap();
    prop_assert_eq!(&read, after, "stored and read back it is the same job");
    Ok(())
}
