//! What is shown and kept of a job: its words, its instants, how large it is, and when it need not be kept any longer.

use std::time::Duration;

use halfopen_core::job::{
    Admitted, CommandRequest, Entrance, Entry, HttpRequest, Job, JobKind, JobRequest, JobResult, JobState, KEY_LIVES,
    Reason, ReleaseCause, STDERR_BYTES_MAX, Safety, Sent, Step, UnknownJobKind, What, ttl,
};
use halfopen_core::outcome::{Exit, Reached};
use halfopen_core::policy::{Policy, Surface};
use halfopen_core::verdict::{Class, Verdict};
use test_case::test_case;

use super::steps::{NOON, by, claimed, finish, queued, requeue, secs, sending, step, terms};

#[test]
fn what_may_still_become_something_is_open() {
    let open = JobState::ALL.into_iter().filter(|state| state.is_open());
    assert_eq!(open.collect::<Vec<_>>(), [JobState::Queued, JobState::Running, JobState::ManualReview]);
}

#[test]
fn words_are_shown_in_any_width_and_read_back() {
    assert_eq!(format!("[{:>14}] [{:<8}]", JobState::ManualReview, JobState::Done), "[ manual_review] [done    ]");
    assert_eq!(format!("[{:>9}]", Reason::TtlOver), "[ ttl_over]");
    for kind in [JobKind::Http, JobKind::Command { host: "a:b".to_owned(), user: 1000 }] {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    assert_eq!(JobKind::Command { host: "box".to_owned(), user: 7 }.to_string(), "command:7:box");
    assert_eq!("ftp".parse::<JobKind>(), Err(UnknownJobKind("ftp".to_owned())));
}

#[test]
fn a_call_is_worth_doing_as_long_as_the_policy_says_or_a_day() {
    let mut policy = Policy::built_in("ocr", Surface::Serve);
    let day = secs(86_400);
    assert_eq!((ttl(&policy), KEY_LIVES), (day, day));
    policy.on_open.queue_ttl = Some(secs(1800));
    assert_eq!(ttl(&policy), secs(1800));
}

#[test]
fn a_job_shows_whose_it_is_when_it_came_and_when_it_ended() {
    let mut job = queued(Safety::Idempotent);
    assert_eq!((job.terms().dependency(), job.accepted_at(), job.ended_at()), ("ocr", NOON, None));
    step(&mut job, Step::Cancel { by: by() }, NOON + secs(9)).unwrap();
    assert_eq!((job.accepted_at(), job.ended_at()), (NOON, Some(NOON + secs(9))));
    let (review, _) = Job::accept(terms(Safety::Unsafe), Entrance::Review(Reason::Policy), NOON);
    assert_eq!(review.ended_at(), Some(NOON), "since then it is with a person");
}

#[test]
fn an_ended_job_is_kept_for_its_time_and_one_that_is_open_for_ever() {
    let mut job = queued(Safety::Idempotent);
    let kept = secs(72 * 3600);
    assert!(!job.is_prunable(NOON + secs(3600)), "a queued job has to expire first");
    step(&mut job, Step::Cancel { by: by() }, NOON).unwrap();
    assert_eq!(job.next_wake(), Some(NOON + kept));
    assert!(!job.is_prunable(NOON + kept - Duration::from_millis(1)));
    assert!(job.is_prunable(NOON + kept));
    let (review, _) = Job::accept(terms(Safety::Unsafe), Entrance::Review(Reason::Policy), NOON);
    assert!(!review.is_prunable(NOON + kept * 1000));
    assert_eq!(review.next_wake(), None);
}

/// The history of a job answers who did what, why, under which lease, and when it is tried again.
#[test]
fn every_entry_says_who_did_what_and_why() {
    let plain = |what, from, to| Entry {
        at: NOON,
        what,
        from: Some(from),
        to,
        reason: None,
        grant: None,
        worker: None,
        charged: false,
        class: None,
        note: None,
        retry_at: None,
        by: None,
    };
    let leased = |what, from, to| Entry { grant: Some(1), worker: Some("w".to_owned()), ..plain(what, from, to) };
    let (queue, run, review) = (JobState::Queued, JobState::Running, JobState::ManualReview);

    let (mut job, entry) = Job::accept(terms(Safety::Idempotent), Entrance::Queue, NOON);
    assert_eq!(entry, Entry { from: None, ..plain(What::Accepted, queue, queue) });
    let (_, entry) = Job::accept(terms(Safety::Unsafe), Entrance::Review(Reason::Policy), NOON);
    assert_eq!(entry, Entry { from: None, reason: Some(Reason::Policy), ..plain(What::Accepted, queue, review) });
    let entry = step(&mut job, Step::Claim { worker: "w", grant: 1 }, NOON).unwrap().unwrap();
    assert_eq!(entry, leased(What::Claimed, queue, run));
    let entry = step(&mut job, Step::NoteSending { grant: 1 }, NOON).unwrap().unwrap();
    assert_eq!(entry, leased(What::Sending, run, run));

    let failed = Verdict::plain(Class::ServerError, "test/rule", Reached::Answered);
    let mut lost = job.clone();
    let judged = Entry {
        class: Some(Class::ServerError),
        note: Some("test/rule".to_owned()),
        ..leased(What::Returned, run, queue)
    };
    let again = Some(NOON + secs(5));
    assert_eq!(
        finish(&mut job, &failed, Admitted::Regularly),
        Entry { reason: Some(Reason::Healing), charged: true, retry_at: again, ..judged.clone() }
    );
    let late = Entry { what: What::Late, from: Some(queue), ..judged };
    assert_eq!(job.late(1, "w", &failed, NOON), late);

    let over = lost.next_wake().unwrap();
    let entry = step(&mut lost, Step::PassTime, over).unwrap().unwrap();
    let died =
        Entry { at: over, reason: Some(Reason::WorkerDied), charged: true, ..leased(What::Returned, run, queue) };
    assert_eq!(entry, Entry { retry_at: Some(over + secs(5)), ..died });

    let mut stopped = claimed(Safety::Unsafe, 1);
    let release = Step::Release { grant: 1, cause: ReleaseCause::Shutdown { sent: Sent::Nothing } };
    let entry = step(&mut stopped, release, NOON).unwrap().unwrap();
    assert_eq!(entry, Entry { reason: Some(Reason::Shutdown), ..leased(What::Returned, run, queue) });

    let (mut held, _) = Job::accept(terms(Safety::Unsafe), Entrance::Review(Reason::Policy), NOON);
    let entry = step(&mut held, requeue(false), NOON).unwrap().unwrap();
    let by_hand = Entry { reason: Some(Reason::Operator), by: Some(by()), ..plain(What::Requeued, review, queue) };
    assert_eq!(entry, by_hand);
}

#[test]
fn the_end_of_standard_error_that_is_kept_has_64_kib() {
    assert_eq!(STDERR_BYTES_MAX, 65_536);
}

fn bytes(count: usize) -> Vec<u8> {
    vec![b'x'; count]
}

/// The queue's bound is in bytes: what a caller can make large is counted.
#[test]
fn a_request_is_as_large_as_all_that_its_caller_sent() {
    let http = HttpRequest {
        method: "POST".to_owned(),
        target: "/v1/scan".to_owned(),
        headers: vec![("name".to_owned(), bytes(100)), ("x".to_owned(), bytes(1000))],
        credential: Some("main".to_owned()),
        body: bytes(100_000),
    };
    assert_eq!(JobRequest::Http(http).bytes(), 4 + 8 + (4 + 100) + (1 + 1000) + 100_000);
    let command = CommandRequest {
        host: "box".to_owned(),
        user: 1000,
        executable: bytes(7),
        argv: vec![bytes(20), bytes(300)],
        cwd: bytes(11),
        env: vec![(bytes(5), bytes(4000)), (bytes(3), bytes(2))],
        env_from: vec!["TOKEN".to_owned()],
        stdin: bytes(50_000),
        output: None,
        profile: None,
        timeout: None,
    };
    assert_eq!(JobRequest::Command(command).bytes(), 7 + (20 + 300) + 11 + (5 + 4000) + (3 + 2) + 50_000);
}

#[test_case(5, b"abcde", false; "as long as the bound")]
#[test_case(6, b"abcde", false; "shorter")]
#[test_case(4, b"abcd", true; "longer")]
#[test_case(0, b"", true; "no room")]
fn a_result_is_cut_to_its_bound_and_says_so(bound: usize, kept: &[u8], was_cut: bool) {
    let http = JobResult::Http { status: 200, headers: vec![], body: b"abcde".to_vec(), cut: false };
    let command = JobResult::Command {
        exit: Exit::Code(0),
        stdout: b"abcde".to_vec(),
        stderr: "not counted".to_owned(),
        cut: false,
        took: secs(1),
    };
    for mut result in [http, command] {
        result.cut_to(bound);
        match &result {
            JobResult::Http { body, cut, .. } | JobResult::Command { stdout: body, cut, .. } => {
                assert_eq!((body.as_slice(), *cut), (kept, was_cut));
            }
            JobResult::Stated(_) => panic!("{result:?}"),
        }
    }
}

#[test_case(9, "größer!"; "as long as the bound")]
#[test_case(8, "größer"; "one byte less")]
#[test_case(5, "grö"; "in the middle of a letter")]
#[test_case(0, "")]
fn an_operators_words_are_cut_between_letters(bound: usize, kept: &str) {
    let mut result = JobResult::Stated("größer!".to_owned());
    result.cut_to(bound);
    assert_eq!(result, JobResult::Stated(kept.to_owned()));
}

#[test]
fn the_last_verdict_is_kept_cut_to_a_line() {
    let mut job = sending(Safety::Idempotent);
    let mut verdict = Verdict::plain(Class::ServerError, "test/rule", Reached::Answered);
    verdict.evidence.excerpt = "é".repeat(300);
    finish(&mut job, &verdict, Admitted::Regularly);
    let last = job.last().unwrap();
    assert_eq!((last.at, last.rule.as_str()), (NOON, "test/rule"));
    assert_eq!(last.excerpt, "é".repeat(240));
}
