//! The contract of `handle/jobs.rs` and `store/jobs.rs`, run on every kind of store.

use std::num::NonZeroU32;
use std::time::Duration;

use halfopen::clock::Clock;
use halfopen::config::QueueBounds;
use halfopen::handle::jobs::{Accepted, Claim, Ending, EnqueueError, JobError, JobKey, Lease, NewJob};
use halfopen::handle::{Handle, StoreHealth};
use halfopen::store::jobs::{INLINE_BYTES_MAX, JobFilter, RESULT_BYTES_MAX};
use halfopen::store::{EventFilter, Location};
use halfopen_core::event::{By, State};
use halfopen_core::job::{
    CommandRequest, HttpRequest, IllegalStep, JobId, JobKind, JobRequest, JobResult, JobState, Reason, ReleaseCause,
    Safety, Sent, Terms, What,
};
use halfopen_core::outcome::Reached;
use halfopen_core::permit::{Ask, PermitKind, RefusalReason};
use halfopen_core::policy::{Jitter, OnExpiry, Policy, Surface};
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{Class, Verdict};

use crate::world::{NOON_MS, Place, failure, granted, route, success};

const TTL: Duration = Duration::from_secs(1800);

/// One door to a new store of some kind.
pub(crate) struct World {
    pub(crate) place: Place,
    pub(crate) door: Handle,
    kind: &'static str,
}

impl World {
    pub(crate) fn new(kind: &'static str) -> Self {
        let place = Place::new();
        let door = Self::open(&place, kind);
        Self { place, door, kind }
    }

    fn open(place: &Place, kind: &str) -> Handle {
        let location = if kind == "memory" { Location::Memory } else { place.location() };
        let door = Handle::open_with(&location, Clock::manual(&place.machine)).unwrap();
        if kind == "sqlite in groups" {
            door.commit_in_groups().unwrap();
        }
        door
    }

    pub(crate) fn advance(&self, secs: u64) {
        self.place.machine.advance(Duration::from_secs(secs));
    }

    pub(crate) fn sweep(&self) {
        self.door.sweep(&|_| policy()).unwrap();
    }

    fn enqueue(&self, body: &[u8]) -> JobId {
        self.enqueue_as(new_job(body))
    }

    pub(crate) fn enqueue_as(&self, new: NewJob) -> JobId {
        self.door.enqueue(new).unwrap().receipt().id
    }

    fn claim(&self) -> Claim {
        self.door.claim_job("ocr", &policy(), "w").unwrap()
    }

    fn claim_id(&self) -> Option<JobId> {
        if let Claim::Taken(lease) = self.claim() { Some(lease.id) } else { None }
    }

    pub(crate) fn taken(&self) -> Lease {
        taken(self.claim())
    }

    fn state(&self, id: JobId) -> JobState {
        self.door.job(id).unwrap().unwrap().view.job.state()
    }

    pub(crate) fn finish(&self, lease: &Lease, verdict: &Verdict) -> JobState {
        self.door.note_sending(lease, &policy()).unwrap();
        self.door.finish_job(lease, &policy(), &ending(verdict)).unwrap().state
    }

    fn trip(&self) {
        for _ in 0..5 {
            let pass = granted(self.door.admit(&route("ocr"), &policy(), Ask::Fresh));
            self.door.settle(&route("ocr"), &policy(), pass, &failure());
        }
    }

    /// All figures of `ocr` add up, and nothing is wrong.
    pub(crate) fn audit(&self) {
        let report = self.door.audit().unwrap();
        assert_eq!(report.wrong, Vec::<String>::new(), "{}", self.kind);
        let figures = self.door.job_figures().unwrap();
        let tallies = self.door.job_tallies().unwrap();
        assert_eq!(figures.len(), tallies.len());
        for (name, figures) in &figures {
            assert!(figures.tally.adds_up(), "{figures:?}");
            assert_eq!(figures.tally, tallies[name]);
        }
    }

    pub(crate) fn events(&self, word: &str) -> Vec<halfopen_core::snapshot::EventRecord> {
        let mut events = self.door.events(&EventFilter::default()).unwrap();
        events.retain(|event| event.event == word);
        events
    }
}

/// Runs `test` on a new store of every kind, and audits it afterwards.
pub(crate) fn on_each_store(test: impl Fn(&World)) {
    for kind in ["memory", "sqlite", "sqlite in groups"] {
        let world = World::new(kind);
        test(&world);
        world.audit();
        assert_eq!(world.door.health(), StoreHealth::Good);
    }
}

pub(crate) fn policy() -> Policy {
    let mut policy = Policy::built_in("ocr", Surface::Serve);
    policy.retry.max_attempts = NonZeroU32::new(3).unwrap();
    policy.retry.backoff.base = Duration::from_secs(5);
    policy.retry.backoff.jitter = Jitter::None;
    policy.circuit.open_for = Duration::from_secs(120);
    policy
}

pub(crate) fn terms(safety: Safety) -> Terms {
    Terms {
        place: "ocr".parse().unwrap(),
        account: None,
        ttl: TTL,
        on_expiry: OnExpiry::Expired,
        safety,
        keep: Duration::from_secs(3600),
    }
}

fn request(body: &[u8]) -> JobRequest {
    JobRequest::Http(HttpRequest {
        method: "POST".to_owned(),
        target: "/v1/scan".to_owned(),
        headers: vec![("content-type".to_owned(), b"application/pdf".to_vec())],
        credential: None,
        body: body.to_vec(),
    })
}

pub(crate) fn new_job(body: &[u8]) -> NewJob {
    NewJob {
        terms: terms(Safety::Idempotent),
        request: request(body),
        key: None,
        order_key: None,
        review: None,
        retry_at: None,
        bounds: QueueBounds::default(),
        caller: None,
        on_done: false,
    }
}

pub(crate) fn keyed(body: &[u8], key: &str) -> NewJob {
    NewJob { key: Some(JobKey { caller: "ann".to_owned(), key: key.to_owned() }), ..new_job(body) }
}

fn ordered(body: &[u8]) -> NewJob {
    NewJob { order_key: Some("/invoice/7".to_owned()), ..new_job(body) }
}

fn unsafe_job(body: &[u8]) -> NewJob {
    NewJob { terms: terms(Safety::Unsafe), ..new_job(body) }
}

fn ending(verdict: &Verdict) -> Ending {
    Ending { verdict: verdict.clone(), took: Duration::from_secs(1), command: None, result: None }
}

fn taken(claim: Claim) -> Lease {
    match claim {
        Claim::Taken(lease) => *lease,
        other => panic!("not taken: {other:?}"),
    }
}

fn nothing(claim: Claim) -> Option<Timestamp> {
    match claim {
        Claim::Nothing { next_at } => next_at,
        other => panic!("not nothing: {other:?}"),
    }
}

fn refused(claim: Claim) -> (RefusalReason, Option<Timestamp>) {
    match claim {
        Claim::Refused { refusal, .. } => (refusal.reason, refusal.retry_at),
        other => panic!("not refused: {other:?}"),
    }
}

fn lost(result: Result<impl std::fmt::Debug, JobError>) {
    assert!(matches!(result, Err(JobError::Illegal(IllegalStep::LeaseLost { .. }))), "{result:?}");
}

fn at(secs: u64) -> Timestamp {
    Timestamp::from_millis(NOON_MS) + Duration::from_secs(secs)
}

fn by() -> By {
    By { who: "ann".to_owned(), reason: "asked the vendor".to_owned() }
}

fn timeout() -> Verdict {
    Verdict::plain(Class::Timeout, "test/timeout", Reached::Unknown)
}

fn permanent() -> Verdict {
    Verdict::plain(Class::InvalidRequest, "test/invalid", Reached::Answered)
}

fn whats(world: &World, id: JobId) -> Vec<What> {
    world.door.job(id).unwrap().unwrap().history.iter().map(|entry| entry.what).collect()
}

#[test]
fn a_job_goes_its_way_and_every_step_of_it_can_be_seen() {
    on_each_store(|world| {
        let id = world.enqueue(b"invoice");
        let lease = world.taken();
        assert_eq!((lease.id, lease.grant, lease.job.state()), (id, 1, JobState::Running));
        assert_eq!(world.door.request(id).unwrap(), Some(request(b"invoice")));
        world.door.note_sending(&lease, &policy()).unwrap();
        let answer = JobResult::Http { status: 200, headers: vec![], body: b"text".to_vec(), cut: false };
        let ending = Ending { result: Some(answer.clone()), ..ending(&success()) };
        assert_eq!(world.door.finish_job(&lease, &policy(), &ending).unwrap().state, JobState::Done);
        let detail = world.door.job(id).unwrap().unwrap();
        assert_eq!(detail.result, Some(answer));
        assert_eq!(whats(world, id), [What::Accepted, What::Claimed, What::Sending, What::Ended]);
        let tally = world.door.job_figures().unwrap()["ocr"].tally;
        assert_eq!((tally.accepted, tally.done, tally.queued, tally.open_bytes), (1, 1, 0, 0));
    });
}

#[test]
fn the_oldest_job_goes_first() {
    on_each_store(|world| {
        let ids: Vec<JobId> = (0..5).map(|n| world.enqueue(&[n])).collect();
        let claimed: Vec<JobId> = (0..5).map(|_| world.taken().id).collect();
        assert_eq!(claimed, ids);
        assert!(nothing(world.claim()).is_some(), "the leases are what happens next");
    });
}

#[test]
fn a_number_without_its_mark_names_nothing() {
    on_each_store(|world| {
        let id = world.enqueue(b"x");
        let guessed = JobId { mark: id.mark.wrapping_add(1), ..id };
        assert_eq!(world.door.job(guessed).unwrap(), None);
        assert_eq!(world.door.request(guessed).unwrap(), None);
        let cancelled = world.door.cancel_job(guessed, &policy(), &by());
        assert!(matches!(cancelled, Err(JobError::NoSuchJob(named)) if named == guessed), "{cancelled:?}");
    });
}

/// S023.
#[test]
fn the_same_key_and_payload_are_the_same_job() {
    on_each_store(|world| {
        let first = world.door.enqueue(keyed(b"body", "X")).unwrap();
        let again = world.door.enqueue(keyed(b"body", "X")).unwrap();
        let (Accepted::New(new), Accepted::Replayed(replayed)) = (first, again) else { panic!("not as it was") };
        assert_eq!(new.id, replayed.id);
        world.finish(&world.taken(), &success());
        let done = world.door.enqueue(keyed(b"body", "X")).unwrap();
        assert_eq!((done.receipt().id, done.receipt().state), (new.id, JobState::Done));
        assert_eq!(world.door.job_figures().unwrap()["ocr"].tally.accepted, 1);
        // As long as its job, and that at least a day.
        world.advance(24 * 3600 - 1);
        world.sweep();
        assert_eq!(world.door.enqueue(keyed(b"body", "X")).unwrap().receipt().id, new.id);
        world.advance(2);
        world.sweep();
        assert_ne!(world.door.enqueue(keyed(b"body", "X")).unwrap().receipt().id, new.id);
    });
}

/// S023: twenty at once.
#[test]
fn twenty_parallel_enqueues_with_one_key_make_one_job() {
    on_each_store(|world| {
        let ids: Vec<JobId> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..20).map(|_| scope.spawn(|| world.enqueue_as(keyed(b"body", "X")))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]));
        assert_eq!(world.door.job_figures().unwrap()["ocr"].tally.accepted, 1);
    });
}

/// S066.
#[test]
fn the_same_key_with_another_payload_is_refused() {
    on_each_store(|world| {
        let id = world.enqueue_as(keyed(b"B1", "X"));
        let other = world.door.enqueue(keyed(b"B2", "X"));
        assert!(matches!(other, Err(EnqueueError::KeyTaken(taken)) if taken == id), "{other:?}");
        let mut elsewhere = keyed(b"B2", "X");
        elsewhere.terms.place = "crm".parse().unwrap();
        assert_ne!(world.enqueue_as(elsewhere), id);
        let mut somebody = keyed(b"B2", "X");
        somebody.key.as_mut().unwrap().caller = "bob".to_owned();
        assert_ne!(world.enqueue_as(somebody), id);
        assert_eq!(world.door.request(id).unwrap(), Some(request(b"B1")));
    });
}

/// What is asked for again and again is done once as long as it waits, and once more if it is asked for after that.
#[test]
fn the_same_work_joins_the_job_that_waits_and_is_new_once_that_was_begun() {
    on_each_store(|world| {
        let ask = |body: &[u8]| world.door.enqueue_or_join(keyed(body, "X")).unwrap();
        let first = ask(b"body").receipt().id;
        let joined = ask(b"with something else in it");
        assert!(matches!(joined, Accepted::Replayed(_)), "{joined:?}");
        assert_eq!(joined.receipt().id, first);
        let lease = world.taken();
        let second = ask(b"body").receipt().id;
        assert_ne!(second, first, "the one that runs may be past what is asked for now");
        assert_eq!(world.finish(&lease, &success()), JobState::Done);
        assert_eq!(ask(b"body").receipt().id, second);
        assert_eq!(world.door.audit().unwrap().wrong, Vec::<String>::new());
    });
}

#[test]
fn a_full_queue_says_which_bound_it_has_reached() {
    on_each_store(|world| {
        let with = |jobs_max, bytes_max| NewJob {
            bounds: QueueBounds { jobs_max, bytes_max, ..QueueBounds::default() },
            ..new_job(&[0; 100])
        };
        world.door.enqueue(with(1, 1000)).unwrap();
        let jobs = world.door.enqueue(with(1, 1000));
        assert!(matches!(jobs, Err(EnqueueError::TooManyJobs { open: 1, max: 1, .. })), "{jobs:?}");
        let bytes = world.door.enqueue(with(9, 200));
        assert!(matches!(bytes, Err(EnqueueError::TooManyBytes { max: 200, .. })), "{bytes:?}");
        world.finish(&world.taken(), &success());
        world.door.enqueue(with(1, 200)).unwrap();
    });
}

#[test]
fn a_call_that_would_expire_before_it_can_be_sent_is_not_queued() {
    on_each_store(|world| {
        let new = |retry_at| NewJob { retry_at: Some(retry_at), ..new_job(b"x") };
        assert!(matches!(world.door.enqueue(new(at(1800))), Err(EnqueueError::BeyondTtl(_))));
        world.door.enqueue(new(at(1799))).unwrap();
    });
}

#[test]
fn large_bodies_and_results_come_back_to_the_byte() {
    on_each_store(|world| {
        let large: Vec<u8> = (0..INLINE_BYTES_MAX + 1).map(|n| n as u8).collect();
        let id = world.enqueue(&large);
        assert_eq!(world.door.request(id).unwrap(), Some(request(&large)));
        let lease = world.taken();
        let body = vec![7; RESULT_BYTES_MAX + 1];
        let result = Some(JobResult::Http { status: 200, headers: vec![], body: body.clone(), cut: false });
        world.door.finish_job(&lease, &policy(), &Ending { result, ..ending(&success()) }).unwrap();
        let Some(JobResult::Http { body: kept, cut: true, .. }) = world.door.job(id).unwrap().unwrap().result else {
            panic!("the answer was not kept")
        };
        assert_eq!(kept, body[..RESULT_BYTES_MAX]);
        // Whose job is pruned, its files go too.
        world.advance(3600);
        world.sweep();
        assert_eq!(world.door.job(id).unwrap(), None);
        let folder = format!("{}-payloads", world.place.file().display());
        assert_eq!(std::fs::read_dir(folder).map_or(0, Iterator::count), 0);
        assert_eq!(world.door.job_figures().unwrap()["ocr"].tally.pruned, 1);
    });
}

/// A worker is given what it can perform, oldest first, and finds it at one end of an index however many others wait
/// before; what it cannot perform is not touched.
#[test]
fn a_worker_is_given_only_what_it_can_perform() {
    on_each_store(|world| {
        let command = |host: &str, user| {
            JobRequest::Command(CommandRequest {
                host: host.to_owned(),
                user,
                executable: b"/bin/true".to_vec(),
                argv: vec![b"true".to_vec()],
                cwd: b"/".to_vec(),
                env: Vec::new(),
                env_from: Vec::new(),
                stdin: Vec::new(),
                output: None,
                profile: None,
                timeout: None,
            })
        };
        let enqueue = |request| world.enqueue_as(NewJob { request, ..new_job(b"") });
        let elsewhere = enqueue(command("b:1", 1));
        let here = enqueue(command("a", 1));
        let as_other = enqueue(command("a", 2));
        let http = enqueue(request(b"x"));
        let claim = |kinds: &[JobKind]| {
            let claimed = world.door.claim_job_and_tell("ocr", &policy(), "w", Some(kinds)).unwrap().0;
            if let Claim::Taken(lease) = claimed { Some(lease.id) } else { None }
        };
        let of = |host: &str, user| JobKind::Command { host: host.to_owned(), user };
        assert_eq!(claim(&[]), None);
        assert_eq!(claim(&[JobKind::Http]), Some(http));
        assert_eq!(claim(&[JobKind::Http]), None, "only commands wait");
        assert_eq!(claim(&[JobKind::Http, of("a", 1)]), Some(here));
        assert_eq!(claim(&[of("a", 1), of("a", 3), of("b", 1)]), None);
        for id in [elsewhere, as_other] {
            assert_eq!(world.door.job(id).unwrap().unwrap().history.len(), 1, "untouched");
        }
        let waiting = world.door.jobs_waiting().unwrap();
        assert_eq!(waiting[&("ocr".to_owned(), Some(of("b:1", 1)))], 1);
        assert_eq!(claim(&[of("b:1", 1)]), Some(elsewhere));
        assert_eq!(world.claim_id(), Some(as_other), "who names no kinds is given any");
    });
}

/// A call with the key of an open job waits behind it, whatever becomes of that.
#[test]
fn jobs_with_one_order_key_never_overtake_each_other() {
    on_each_store(|world| {
        let ids: Vec<JobId> = (0..4).map(|n| world.enqueue_as(ordered(&[n]))).collect();
        let free = world.enqueue(b"free");
        assert_eq!(world.door.order_held("ocr", "/invoice/7").unwrap(), Some(ids[0]));
        assert_eq!(world.door.order_held("crm", "/invoice/7").unwrap(), None);
        let first = world.taken();
        assert_eq!(first.id, ids[0]);
        let second = world.taken();
        assert_eq!(second.id, free, "the others wait behind the one that runs");
        // The one in the middle of the line goes; nobody else moves.
        world.door.cancel_job(ids[1], &policy(), &by()).unwrap();
        nothing(world.claim());
        world.finish(&first, &success());
        let third = world.taken();
        assert_eq!(third.id, ids[2]);
        world.door.cancel_job(ids[2], &policy(), &by()).unwrap();
        assert_eq!(world.taken().id, ids[3]);
        world.door.cancel_job(ids[3], &policy(), &by()).unwrap();
        assert_eq!(world.door.order_held("ocr", "/invoice/7").unwrap(), None);
    });
}

#[test]
fn a_job_in_review_keeps_later_ones_of_its_key_waiting_and_a_requeued_one_waits_its_turn() {
    on_each_store(|world| {
        let mut first = ordered(b"1");
        first.terms.safety = Safety::Unsafe;
        let first = world.enqueue_as(first);
        let second = world.enqueue_as(ordered(b"2"));
        assert_eq!(world.finish(&world.taken(), &timeout()), JobState::ManualReview);
        nothing(world.claim());
        // Failed is over: the next may go, and a requeue waits behind it.
        world.door.requeue_job(first, &policy(), None, true, &by()).unwrap();
        assert_eq!(world.finish(&world.taken(), &permanent()), JobState::Failed);
        let lease = world.taken();
        assert_eq!(lease.id, second);
        world.door.requeue_job(first, &policy(), None, false, &by()).unwrap();
        nothing(world.claim());
        world.finish(&lease, &success());
        assert_eq!(world.taken().id, first);
    });
}

/// S006, S063: nothing that a lost lease does counts, also for a worker of the same name.
#[test]
fn a_worker_that_lost_its_lease_changes_nothing_and_leaves_evidence() {
    on_each_store(|world| {
        let id = world.enqueue(b"x");
        let late = world.taken();
        world.door.note_sending(&late, &policy()).unwrap();
        world.place.machine.advance(policy().circuit.lease);
        // Nobody has claimed it yet, and still the lease confers no right.
        lost(world.door.renew_lease(&late, &policy()));
        world.sweep();
        world.advance(60);
        let newer = world.taken();
        assert_eq!((newer.id, newer.grant, &newer.worker), (id, 2, &late.worker));
        lost(world.door.renew_lease(&late, &policy()));
        lost(world.door.note_sending(&late, &policy()));
        lost(world.door.release_job(&late, &policy(), ReleaseCause::NotStarted));
        lost(world.door.finish_job(&late, &policy(), &ending(&success())));
        let answer = JobResult::Http { status: 200, headers: vec![], body: b"R2".to_vec(), cut: false };
        world.door.note_sending(&newer, &policy()).unwrap();
        let done = Ending { result: Some(answer.clone()), ..ending(&success()) };
        assert_eq!(world.door.finish_job(&newer, &policy(), &done).unwrap().state, JobState::Done);
        let stale = JobResult::Http { status: 200, headers: vec![], body: b"R1".to_vec(), cut: false };
        lost(world.door.finish_job(&late, &policy(), &Ending { result: Some(stale), ..ending(&failure()) }));
        let detail = world.door.job(id).unwrap().unwrap();
        assert_eq!((detail.view.job.state(), detail.result), (JobState::Done, Some(answer)));
        let evidence: Vec<_> = detail.history.iter().filter(|entry| entry.what == What::Late).collect();
        assert_eq!(
            evidence.iter().map(|entry| entry.class).collect::<Vec<_>>(),
            [Some(Class::Success), Some(Class::ServerError)]
        );
    });
}

/// S003: while its worker lives and renews, nobody else gets it.
#[test]
fn a_job_longer_than_its_lease_is_not_given_to_another() {
    on_each_store(|world| {
        world.enqueue(b"x");
        let lease = world.taken();
        world.door.note_sending(&lease, &policy()).unwrap();
        for _ in 0..12 {
            world.place.machine.advance(policy().circuit.lease / 3);
            world.door.renew_lease(&lease, &policy()).unwrap();
            world.sweep();
            nothing(world.claim());
        }
        assert_eq!(world.door.finish_job(&lease, &policy(), &ending(&success())).unwrap().state, JobState::Done);
    });
}

/// S047: leases are of the steady clock.
#[test]
fn a_step_of_the_wall_clock_frees_no_lease_and_expires_no_job() {
    on_each_store(|world| {
        world.enqueue(b"x");
        let waiting = world.enqueue(b"y");
        let lease = world.taken();
        for hours in [-3, 6] {
            world.place.machine.step_wall(hours * 3_600_000);
            world.sweep();
            assert_eq!(world.state(waiting), JobState::Queued);
            world.door.renew_lease(&lease, &policy()).unwrap();
        }
    });
}

/// S002.
#[test]
fn a_dead_worker_s_job_is_seen_within_a_lease_and_not_sent_twice() {
    on_each_store(|world| {
        let (once, again) = (world.enqueue_as(unsafe_job(b"pay")), world.enqueue(b"scan"));
        for lease in [world.taken(), world.taken()] {
            world.door.note_sending(&lease, &policy()).unwrap();
        }
        world.place.machine.advance(policy().circuit.lease);
        world.sweep();
        let job = world.door.job(once).unwrap().unwrap().view.job;
        assert_eq!((job.state(), job.reason()), (JobState::ManualReview, Some(Reason::WorkerDied)));
        assert_eq!(world.state(again), JobState::Queued);
        let told = world.events("jobs_to_review");
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].details["ids"][0], once.to_string());
        world.advance(60);
        assert_eq!(world.taken().id, again);
    });
}

/// S068, S069: fifty expire without any consumer, are told in one event, and can still be seen.
#[test]
fn jobs_expire_although_nobody_consumes_and_are_told_together() {
    on_each_store(|world| {
        let ids: Vec<JobId> = (0..50).map(|n| world.enqueue(&[n])).collect();
        world.advance(1799);
        world.sweep();
        assert_eq!(world.state(ids[0]), JobState::Queued);
        world.advance(1);
        // A claim in the same instant gets none of them.
        nothing(world.claim());
        world.sweep();
        assert!(ids.iter().all(|id| world.state(*id) == JobState::Expired));
        let told = world.events("jobs_expired");
        assert_eq!(told.iter().map(|event| event.details["jobs"].as_u64().unwrap()).sum::<u64>(), 50);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].reason.as_deref(), Some("ttl_over"));
        let last = world.door.job(ids[7]).unwrap().unwrap();
        assert_eq!((last.view.job.accepted_at(), last.view.job.terms().ttl), (at(0), TTL));
        assert_eq!(world.door.request(ids[7]).unwrap(), Some(request(&[7])));
    });
}

/// A wait that pushes jobs past their time to live is told when it begins, with their number.
#[test]
fn jobs_that_a_wait_will_let_expire_are_told_of_at_once() {
    on_each_store(|world| {
        for n in 0..3 {
            world.enqueue(&[n]);
        }
        world.advance(900);
        world.enqueue(b"younger");
        let pass = granted(world.door.admit(&route("ocr"), &policy(), Ask::Fresh));
        let wait = crate::world::wait_failure(&world.door, Duration::from_secs(1000));
        world.door.settle(&route("ocr"), &policy(), pass, &wait);
        let told = world.events("jobs_will_expire");
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].details["jobs"].as_u64(), told[0].queued_count), (Some(3), Some(4)));
    });
}

/// S164.
#[test]
fn a_job_that_fails_at_once_lets_the_others_pass() {
    on_each_store(|world| {
        let bad = world.enqueue(b"bad");
        for n in 0..20 {
            world.enqueue(&[n]);
        }
        let mut tries = 0;
        for _ in 0..10 {
            world.advance(1);
            while let Claim::Taken(lease) = world.claim() {
                let verdict = if lease.id == bad { failure() } else { success() };
                tries += u32::from(lease.id == bad);
                world.finish(&lease, &verdict);
            }
        }
        assert!(tries <= 3, "{tries}");
        assert_eq!(world.door.job_figures().unwrap()["ocr"].tally.done, 20);
    });
}

/// S165: what is delayed lies in the store, and is found when it is due.
#[test]
fn a_delayed_job_is_found_when_it_is_due() {
    on_each_store(|world| {
        let id = world.enqueue(b"x");
        world.finish(&world.taken(), &failure());
        assert_eq!(nothing(world.claim()), Some(at(5)));
        world.advance(5);
        assert_eq!(world.taken().id, id);
    });
}

/// S166.
#[test]
fn a_shutdown_gives_jobs_back_uncharged() {
    on_each_store(|world| {
        let id = world.enqueue(b"x");
        let lease = world.taken();
        let cause = ReleaseCause::Shutdown { sent: Sent::Nothing };
        assert_eq!(world.door.release_job(&lease, &policy(), cause).unwrap().state, JobState::Queued);
        let detail = world.door.job(id).unwrap().unwrap();
        assert_eq!(detail.view.job.attempts(), 0);
        assert_eq!(detail.history.last().unwrap().reason, Some(Reason::Shutdown));
        assert_eq!(world.taken().id, id);
    });
}

/// The whole way through an outage: nothing is sent while it is open, two probes decide, the rest follows paced. S008.
#[test]
fn after_an_outage_two_probes_decide_and_the_backlog_returns_one_by_one() {
    on_each_store(|world| {
        world.trip();
        let ids: Vec<JobId> = (0..20).map(|n| world.enqueue(&[n])).collect();
        let (reason, retry_at) = refused(world.claim());
        assert_eq!(reason, RefusalReason::Open);
        world.place.machine.advance(at(0).until(retry_at.unwrap()));
        let probes = [world.taken(), world.taken()];
        assert_eq!([probes[0].id, probes[1].id], [ids[0], ids[1]]);
        assert!(probes.iter().all(|lease| lease.pass.place.kind == PermitKind::Probe));
        assert_eq!(refused(world.claim()).0, RefusalReason::ProbesOut);
        for lease in &probes {
            assert_eq!(world.finish(lease, &success()), JobState::Done);
        }
        let status = world.door.circuit(&route("ocr").place, &policy()).unwrap().unwrap().status;
        assert_eq!((status.state, status.ramp_per_sec), (State::Closed, Some(1.0)), "the queue was seen");
        for (n, id) in ids.iter().enumerate().skip(2) {
            let lease = world.taken();
            assert_eq!(lease.id, *id);
            assert_eq!(world.finish(&lease, &success()), JobState::Done);
            if n < 19 {
                assert_eq!(refused(world.claim()).0, RefusalReason::Ramp);
                world.advance(1);
            }
        }
        let tally = world.door.job_figures().unwrap()["ocr"].tally;
        assert_eq!((tally.accepted, tally.done), (20, 20));
    });
}

/// S008: however many probes fail, no job is used up by it.
#[test]
fn failed_probes_are_not_charged_and_take_turns() {
    on_each_store(|world| {
        world.trip();
        let ids: Vec<JobId> = (0..3).map(|n| world.enqueue(&[n])).collect();
        let mut tried = Vec::new();
        for _ in 0..3 {
            world.sweep();
            let (_, retry_at) = refused(world.claim());
            world.place.machine.advance(world.door.clock().now().until(retry_at.unwrap()));
            let lease = world.taken();
            tried.push(lease.id);
            assert_eq!(world.finish(&lease, &failure()), JobState::Queued);
        }
        assert_eq!(tried, ids, "one that has failed as a probe lets the others go first");
        for id in ids {
            let job = world.door.job(id).unwrap().unwrap().view.job;
            assert_eq!((job.attempts(), job.failed_probes()), (0, 1));
        }
    });
}

#[test]
fn what_may_not_be_repeated_is_a_probe_only_alone_and_last() {
    on_each_store(|world| {
        world.trip();
        let pay = world.enqueue_as(unsafe_job(b"pay"));
        let scan = world.enqueue(b"scan");
        let (_, retry_at) = refused(world.claim());
        world.place.machine.advance(at(0).until(retry_at.unwrap()));
        let probe = world.taken();
        assert_eq!(probe.id, scan);
        assert_eq!(refused(world.claim()).0, RefusalReason::ProbesOut);
        world.finish(&probe, &success());
        assert_eq!(world.taken().id, pay);
    });
}

#[test]
fn a_region_that_is_down_keeps_nobody_else_s_jobs() {
    on_each_store(|world| {
        let (eu, us) = ("ocr@region=eu", "ocr@region=us");
        for _ in 0..5 {
            let pass = granted(world.door.admit(&route(eu), &policy(), Ask::Fresh));
            world.door.settle(&route(eu), &policy(), pass, &failure());
        }
        let at_place = |name: &str| {
            let mut new = new_job(name.as_bytes());
            new.terms.place = name.parse().unwrap();
            new
        };
        world.enqueue_as(at_place(eu));
        let here = world.enqueue_as(at_place(us));
        assert_eq!(world.taken().id, here);
        assert_eq!(refused(world.claim()).0, RefusalReason::Open);
    });
}

/// Three refused credentials in a row pause that credential's jobs; then one at a time tries.
#[test]
fn a_dead_credential_pauses_its_jobs_and_one_finds_out_when_it_is_repaired() {
    on_each_store(|world| {
        let auth = Verdict::plain(Class::Auth, "test/auth", Reached::Refused);
        for n in 0..6 {
            world.enqueue(&[n]);
        }
        for _ in 0..3 {
            assert_eq!(world.finish(&world.taken(), &auth), JobState::Queued);
        }
        assert_eq!(refused(world.claim()), (RefusalReason::Held, Some(at(600))));
        world.advance(600);
        let lease = world.taken();
        assert_eq!(refused(world.claim()).0, RefusalReason::Held);
        world.finish(&lease, &success());
        let _two = [world.taken(), world.taken()];
    });
}

#[test]
fn no_more_jobs_run_than_may_be_in_flight() {
    on_each_store(|world| {
        let max = policy().drain.max_in_flight_max.get();
        for n in 0..=max {
            world.enqueue(&n.to_le_bytes());
        }
        let leases: Vec<Lease> = (0..max).map(|_| world.taken()).collect();
        assert!(matches!(world.claim(), Claim::Full));
        world.finish(&leases[0], &success());
        let _next = world.taken();
    });
}

#[test]
fn an_operator_decides_and_it_is_written_down_who_and_why() {
    on_each_store(|world| {
        let ids: Vec<JobId> = (0..4).map(|n| world.enqueue_as(unsafe_job(&[n]))).collect();
        for _ in 0..3 {
            assert_eq!(world.finish(&world.taken(), &timeout()), JobState::ManualReview);
        }
        let blind = world.door.requeue_job(ids[0], &policy(), None, false, &by());
        assert!(matches!(blind, Err(JobError::Illegal(IllegalStep::MayHaveRun))), "{blind:?}");
        let (view, events) = world.door.requeue_job(ids[0], &policy(), Some(TTL * 2), true, &by()).unwrap();
        assert_eq!((view.job.state(), view.job.expires_at()), (JobState::Queued, at(3600)));
        assert_eq!((events[0].event.as_str(), &events[0].details["who"]), ("jobs_requeued", &"ann".into()));
        world.door.resolve_job(ids[1], &policy(), Some("booked by hand".to_owned()), &by()).unwrap();
        let resolved = world.door.job(ids[1]).unwrap().unwrap();
        assert_eq!(resolved.view.job.state(), JobState::Done);
        assert_eq!(resolved.result, Some(JobResult::Stated("booked by hand".to_owned())));
        assert_eq!(resolved.history.last().unwrap().by, Some(by()));
        world.door.discard_job(ids[2], &policy(), &by()).unwrap();
        assert_eq!(world.state(ids[2]), JobState::Cancelled);
        let early = world.door.discard_job(ids[3], &policy(), &by());
        assert!(matches!(early, Err(JobError::Illegal(IllegalStep::WrongState { .. }))), "{early:?}");
        world.door.cancel_job(ids[3], &policy(), &by()).unwrap();
        let twice = world.door.cancel_job(ids[3], &policy(), &by());
        assert!(matches!(twice, Err(JobError::Illegal(IllegalStep::WrongState { .. }))), "{twice:?}");
    });
}

#[test]
fn jobs_are_listed_page_by_page_and_by_what_is_asked_for() {
    on_each_store(|world| {
        let ids: Vec<JobId> = (0..25).map(|n| world.enqueue(&[n])).collect();
        let mut other = new_job(b"crm");
        other.terms.place = "crm".parse().unwrap();
        let crm = world.enqueue_as(other);
        world.finish(&world.taken(), &success());
        let page = |filter: JobFilter| {
            let page = world.door.jobs(&filter).unwrap();
            (page.jobs.iter().map(|view| view.id).collect::<Vec<_>>(), page.next)
        };
        let ten = JobFilter { limit: 10, ..JobFilter::default() };
        assert_eq!(page(ten.clone()), (ids[..10].to_vec(), Some(ids[9])));
        let rest = JobFilter { after: Some(ids[19]), ..ten.clone() };
        assert_eq!(page(rest), ([&ids[20..], &[crm]].concat(), None));
        let queued = JobFilter { state: Some(JobState::Queued), dependency: Some("ocr".to_owned()), ..ten };
        assert_eq!(page(queued.clone()), (ids[1..11].to_vec(), Some(ids[10])));
        assert_eq!(page(JobFilter { state: Some(JobState::Done), ..queued }), (vec![ids[0]], None));
        let figures = &world.door.job_figures().unwrap()["ocr"];
        assert_eq!(figures.oldest.keys().copied().collect::<Vec<_>>(), [JobState::Queued, JobState::Done]);
        assert_eq!(world.door.jobs_expiring_before("ocr", at(1800), 1000).unwrap(), 24);
    });
}

#[test]
fn a_job_for_a_person_goes_to_one_at_once() {
    on_each_store(|world| {
        let id = world.enqueue_as(NewJob { review: Some(Reason::Policy), ..new_job(b"x") });
        assert_eq!(world.state(id), JobState::ManualReview);
        nothing(world.claim());
        world.door.requeue_job(id, &policy(), None, false, &by()).unwrap();
        assert_eq!(world.taken().id, id);
    });
}

/// What the gateway does: no thread waits for the disk.
#[test]
fn an_enqueue_can_be_told_of_later() {
    on_each_store(|world| {
        let (tell, told) = std::sync::mpsc::channel();
        for n in 0..100_u8 {
            let tell = tell.clone();
            world.door.enqueue_then(new_job(&[n]), move |outcome| tell.send(outcome.map(|a| a.receipt().id)).unwrap());
        }
        let mut ids: Vec<JobId> = (0..100).map(|_| told.recv().unwrap().unwrap()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 100);
        assert_eq!(world.door.job_figures().unwrap()["ocr"].tally.queued, 100);
    });
}

/// After a reboot the workers are gone, and a wrong wall clock stretches no time to live.
#[test]
fn a_reboot_ends_all_leases() {
    let place = Place::new();
    let world = World { door: World::open(&place, "sqlite"), place, kind: "sqlite" };
    let (held, waiting) = (world.enqueue(b"x"), world.enqueue(b"y"));
    let lease = world.taken();
    world.place.machine.step_wall(-86_400_000);
    world.place.machine.reboot("boot-2", Duration::from_secs(1));
    let world = World { door: World::open(&world.place, "sqlite"), ..world };
    world.sweep();
    assert_eq!(world.state(held), JobState::Queued);
    lost(world.door.finish_job(&lease, &policy(), &ending(&success())));
    let now = world.door.clock().now();
    assert!(world.door.job(waiting).unwrap().unwrap().view.job.expires_at() <= now + TTL);
    world.audit();
}
