//! Many processes at one queue, real ones that are killed: this test binary starts itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use halfopen::config::QueueBounds;
use halfopen::handle::jobs::{Claim, Ending, EnqueueError, JobKey, NewJob};
use halfopen::handle::{Handle, StoreHealth};
use halfopen::store::jobs::{INLINE_BYTES_MAX, JobFilter};
use halfopen::store::{Location, StoreError};
use halfopen_core::job::{HttpRequest, JobId, JobRequest, JobState, Safety, Terms};
use halfopen_core::pair::Answer;
use halfopen_core::permit::Ask;
use halfopen_core::policy::{OnExpiry, Policy};

use crate::world::{Place, failure, route, success};

const ROLE: &str = "HALFOPEN_TEST_JOBS_ROLE";
const FOLDER: &str = "HALFOPEN_TEST_JOBS_FOLDER";

/// Nothing here takes long; a deadline only keeps a broken build from hanging.
const DEADLINE: Duration = Duration::from_secs(60);

/// The children's side of the tests below. Run as an ordinary test it does nothing.
#[test]
fn role_of_a_child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    match role.as_str() {
        "enqueue_for_ever" => enqueue_for_ever(&folder, false),
        "enqueue_in_groups_for_ever" => enqueue_for_ever(&folder, true),
        "work_for_ever" => work(&folder, None),
        "enqueue_many" => enqueue_many(&folder),
        "fill_the_disk" => fill_the_disk(&folder),
        other => panic!("no such role: {other}"),
    }
}

fn door(folder: &Path) -> Handle {
    Handle::open(&Location::Sqlite(folder.join("halfopen.db"))).unwrap()
}

/// A policy whose leases are short, and which is never full.
fn policy() -> Policy {
    let mut policy = crate::jobs::policy();
    policy.circuit.lease = Duration::from_millis(300);
    policy.retry.backoff.base = Duration::from_millis(1);
    policy
}

fn new_job(key: &str, body: Vec<u8>) -> NewJob {
    NewJob {
        terms: Terms {
            place: "ocr".parse().unwrap(),
            account: None,
            ttl: Duration::from_secs(3600),
            on_expiry: OnExpiry::ManualReview,
            safety: Safety::Unsafe,
            keep: Duration::from_secs(3600),
        },
        request: JobRequest::Http(HttpRequest {
            method: "POST".to_owned(),
            target: "/pay".to_owned(),
            headers: vec![],
            credential: None,
            body,
        }),
        key: Some(JobKey { caller: String::new(), key: key.to_owned() }),
        order_key: None,
        review: None,
        retry_at: None,
        bounds: QueueBounds::default(),
        caller: None,
        on_done: false,
    }
}

/// One line in a file that all children append to: what they were told, or what they did.
fn append(path: &Path, line: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn enqueue_for_ever(folder: &Path, in_groups: bool) {
    let door = door(folder);
    if in_groups {
        door.commit_in_groups().unwrap();
    }
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let door = &door;
            scope.spawn(move || {
                for n in 0.. {
                    let key = format!("{}-{thread}-{n}", std::process::id());
                    // Some bodies lie in files.
                    let length = if n % 8 == 0 { INLINE_BYTES_MAX + 1 } else { 100 };
                    let accepted = door.enqueue(new_job(&key, vec![b'x'; length])).unwrap();
                    append(&folder.join("acknowledged"), &format!("{} {key}", accepted.receipt().id));
                }
            });
        }
    });
}

/// Does jobs until `until` of them have ended, or for ever.
fn work(folder: &Path, until: Option<usize>) {
    let door = door(folder);
    let name = format!("worker-{}", std::process::id());
    let mut ended = 0;
    loop {
        door.sweep(&|_| policy()).unwrap();
        match door.claim_job("ocr", &policy(), &name).unwrap() {
            Claim::Taken(lease) => {
                if door.note_sending(&lease, &policy()).is_err() {
                    continue;
                }
                // The effect that must not happen twice.
                append(&folder.join("effects"), &lease.id.to_string());
                let ending = Ending { verdict: success(), took: Duration::from_millis(1), command: None, result: None };
                if door.finish_job(&lease, &policy(), &ending).is_ok() {
                    ended += 1;
                }
            }
            Claim::Nothing { .. } | Claim::Refused { .. } | Claim::Full => {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        if until.is_some_and(|until| ended >= until) {
            return;
        }
    }
}

fn enqueue_many(folder: &Path) {
    let door = door(folder);
    door.commit_in_groups().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let door = &door;
            scope.spawn(move || {
                for n in 0..50 {
                    let key = format!("{}-{thread}-{n}", std::process::id());
                    door.enqueue(new_job(&key, vec![b'x'; 600])).unwrap();
                }
            });
        }
    });
}

/// Enqueues until nothing more can be written.
fn fill_the_disk(folder: &Path) {
    let door = door(folder);
    door.commit_in_groups().unwrap();
    for n in 0..10_000 {
        match door.enqueue(new_job(&n.to_string(), vec![b'x'; 4000])) {
            Ok(accepted) => append(&folder.join("acknowledged"), &accepted.receipt().id.to_string()),
            Err(EnqueueError::Store(
                StoreError::Full { .. } | StoreError::Unusable { .. } | StoreError::ReadOnly { .. },
            )) => {
                // Calls that need no queue go on.
                assert!(matches!(door.admit(&route("ocr"), &policy(), Ask::Fresh), Answer::Granted(_)));
                return;
            }
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the disk was never full");
}

fn start(role: &str, folder: &Path) -> Child {
    start_by(&mut Command::new(std::env::current_exe().unwrap()), role, folder)
}

fn start_by(command: &mut Command, role: &str, folder: &Path) -> Child {
    command
        .args(["--exact", "jobs_processes::role_of_a_child", "--test-threads=1"])
        .env(ROLE, role)
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn kill(children: &mut [Child]) {
    for child in children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < DEADLINE, "{what} never came");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn all_jobs(door: &Handle) -> BTreeMap<JobId, JobState> {
    let mut all = BTreeMap::new();
    let mut filter = JobFilter { limit: 1000, ..JobFilter::default() };
    loop {
        let page = door.jobs(&filter).unwrap();
        all.extend(page.jobs.iter().map(|view| (view.id, view.job.state())));
        match page.next {
            Some(next) => filter.after = Some(next),
            None => return all,
        }
    }
}

fn audit(door: &Handle) {
    assert_eq!(door.audit().unwrap().wrong, Vec::<String>::new());
    for figures in door.job_figures().unwrap().values() {
        assert!(figures.tally.adds_up(), "{figures:?}");
    }
}

/// Promise 3: what was acknowledged is there, and once.
#[test]
fn killed_processes_lose_no_job_they_acknowledged() {
    let place = Place::new();
    let folder = place.dir.path();
    let mut chance = fastrand::Rng::with_seed(3);
    for round in 0..6 {
        let before = lines(&folder.join("acknowledged")).len();
        let roles = ["enqueue_for_ever", "enqueue_in_groups_for_ever", "enqueue_in_groups_for_ever"];
        let mut children: Vec<Child> = roles.iter().map(|role| start(role, folder)).collect();
        wait_until("an acknowledgement", || lines(&folder.join("acknowledged")).len() > before + 20);
        std::thread::sleep(Duration::from_micros(chance.u64(0..20_000)));
        kill(&mut children);
        let door = door(folder);
        let there = all_jobs(&door);
        let acknowledged = lines(&folder.join("acknowledged"));
        for line in acknowledged.iter().filter(|line| line.contains(' ') && line.contains('-')) {
            let (id, key) = line.split_once(' ').unwrap();
            let Ok(id) = id.parse::<JobId>() else { continue };
            assert_eq!(there.get(&id), Some(&JobState::Queued), "round {round}: {id}");
            let length = if key.rsplit('-').next().unwrap().parse::<u32>().unwrap() % 8 == 0 {
                INLINE_BYTES_MAX + 1
            } else {
                100
            };
            if round == 5 {
                let Some(JobRequest::Http(http)) = door.request(id).unwrap() else { panic!("no request") };
                assert_eq!(http.body.len(), length, "{id}");
            }
        }
        // One in the middle of being told is there too, and nothing is half there.
        assert!(there.len() >= acknowledged.len());
        audit(&door);
    }
}

/// Promise 3: what may have been executed is never sent again. S002.
#[test]
fn killed_workers_send_nothing_twice() {
    let place = Place::new();
    let folder = place.dir.path();
    let jobs = 150;
    let door = door(folder);
    for n in 0..jobs {
        door.enqueue(new_job(&n.to_string(), vec![b'x'; 100])).unwrap();
    }
    let mut chance = fastrand::Rng::with_seed(5);
    let ended = || {
        let tally = door.job_figures().unwrap()["ocr"].tally;
        tally.done + tally.manual_review
    };
    while lines(&folder.join("effects")).len() < 100 {
        let before = lines(&folder.join("effects")).len();
        let mut children: Vec<Child> = (0..3).map(|_| start("work_for_ever", folder)).collect();
        wait_until("an effect", || lines(&folder.join("effects")).len() > before + 3 || ended() == jobs);
        std::thread::sleep(Duration::from_micros(chance.u64(0..5000)));
        kill(&mut children);
    }
    // Somebody comes who is not killed.
    let mut last = start("work_for_ever", folder);
    wait_until("the end of the queue", || ended() == jobs);
    kill(std::slice::from_mut(&mut last));
    let effects: Vec<String> = lines(&folder.join("effects"));
    let once: BTreeSet<&String> = effects.iter().collect();
    assert_eq!(once.len(), effects.len(), "nothing was sent twice");
    for (id, state) in all_jobs(&door) {
        let sent = once.contains(&id.to_string());
        match state {
            JobState::Done => assert!(sent, "{id} is done and was never sent"),
            JobState::ManualReview => {}
            other => panic!("{id} is {other}"),
        }
    }
    audit(&door);
}

/// S019: four processes that commit in groups, and circuits that fail meanwhile, never see a locked store.
#[test]
fn groups_of_many_processes_let_circuits_and_each_other_in() {
    let place = Place::new();
    let folder = place.dir.path();
    let door = door(folder);
    let mut children: Vec<Child> = (0..4).map(|_| start("enqueue_many", folder)).collect();
    let mut policy = policy();
    policy.circuit.open_after_failures = std::num::NonZeroU32::MAX;
    let mut failures = 0;
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        if let Answer::Granted(pass) = door.admit(&route("crm"), &policy, Ask::Fresh) {
            door.settle(&route("crm"), &policy, pass, &failure());
            failures += 1;
        }
        assert_eq!(door.health(), StoreHealth::Good, "after {failures} failures");
    }
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    assert_eq!(door.job_figures().unwrap()["ocr"].tally.queued, 1600);
    audit(&door);
}

/// S009: a full disk refuses, and what was acknowledged before is there when there is room again.
#[test]
fn a_full_disk_refuses_jobs_and_loses_none() {
    let place = Place::new();
    let folder = place.dir.path();
    drop(door(folder));
    let mut limited = Command::new("sh");
    // Writes beyond the limit fail with an error instead of a signal.
    limited.args(["-c", "trap '' XFSZ; ulimit -f 2000; exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
    let output = start_by(&mut limited, "fill_the_disk", folder).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let door = door(folder);
    let there = all_jobs(&door);
    let acknowledged = lines(&folder.join("acknowledged"));
    assert!(!acknowledged.is_empty());
    for id in acknowledged {
        assert!(there.contains_key(&id.parse().unwrap()), "{id}");
    }
    door.enqueue(new_job("room again", vec![])).unwrap();
    audit(&door);
}
