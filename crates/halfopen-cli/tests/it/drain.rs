//! What was queued is done: once, in order, paced, and whatever happens to whoever does it.

use std::process::Stdio;
use std::time::Duration;

use halfopen::config::QueueBounds;
use halfopen::handle::jobs::{JobDetail, JobView, NewJob};
use halfopen::store::jobs::JobFilter;
use halfopen_core::job::{CLAIMS_LOST_MAX, CommandRequest, JobId, JobRequest, JobResult, JobState, Reason, What};
use rustix::process::Signal;

use crate::sandbox::{Ran, Sandbox, alive, finished, send, until, wait_for};

/// A secret of a known form, in two parts so that this file holds none.
const SECRET: &str = concat!("sk-ant-api03-", "Zx81kQpLm4vT9wYb2NcR7sJd5HgF3eUa");

const POLICY: &str = "retry: {max_attempts: 3, base_ms: 10}\n\
                      circuit: {open_after_failures: 1, open_for_sec: 0.3, probe_lease_sec: 1, half_open_max_calls: 2, close_after_successes: 2}\n\
                      on_open: {action: queue, queue_ttl_min: 30}\n\
                      drain: {rate_per_sec: 20, max_per_sec: 20}";

/// Works as soon as the file `well` is there.
const HEALS: &str = "[ -e $D/well ] || { echo 'HTTP 500 Internal Server Error' >&2; exit 1; }";

/// Returns a place whose dependency is down, and refuses.
fn down(policy: &str, script: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.policy(policy).tool(&format!("{HEALS}\n{script}"));
    // So that a refusal does not turn into a probe under the test's hands, the first cooldown is held.
    assert_eq!(sandbox.run(&["--on-open", "fail_fast", "--attempts", "1"]).code, 1);
    assert_eq!(finished(&mut sandbox.halfopen(&["hold", "tool", "open"])).code, 0);
    std::fs::remove_file(sandbox.path("calls")).expect("the first call");
    sandbox
}

fn queue(sandbox: &Sandbox, flags: &[&str], words: &[&str]) -> JobId {
    // The fake command looks for its folder there.
    id_of(&sandbox.run_command(&[flags, &["--env", "D"]].concat(), &[&["tool"], words].concat()))
}

fn id_of(ran: &Ran) -> JobId {
    assert_eq!(ran.code, 79, "{}", ran.stderr);
    ran.stdout.trim_end().parse().unwrap_or_else(|error| panic!("{error}: {}", ran.stdout))
}

fn heal(sandbox: &Sandbox) {
    std::fs::write(sandbox.path("well"), "").expect("a file");
    assert_eq!(finished(&mut sandbox.halfopen(&["release", "tool"])).code, 0);
}

fn drain(sandbox: &Sandbox, flags: &[&str]) -> Ran {
    finished(&mut sandbox.halfopen(&[&["drain", "--once"], flags].concat()))
}

fn detail(sandbox: &Sandbox, id: JobId) -> JobDetail {
    sandbox.handle().job(id).expect("the store").expect("the job")
}

fn state(sandbox: &Sandbox, id: JobId) -> JobState {
    detail(sandbox, id).view.job.state()
}

fn jobs(sandbox: &Sandbox) -> Vec<JobView> {
    sandbox.handle().jobs(&JobFilter::default()).expect("jobs").jobs
}

/// Returns when each job was claimed, in milliseconds of the store's clock, oldest job first.
fn claims(sandbox: &Sandbox) -> Vec<i64> {
    let claimed = |view: &JobView| {
        let history = detail(sandbox, view.id).history;
        history.iter().filter(|entry| entry.what == What::Claimed).map(|entry| entry.at.as_millis()).collect::<Vec<_>>()
    };
    jobs(sandbox).iter().flat_map(claimed).collect()
}

fn is_sound(sandbox: &Sandbox) {
    let audit = finished(&mut sandbox.halfopen(&["audit"]));
    assert_eq!(audit.code, 0, "{}{}", audit.stdout, audit.stderr);
}

/// The story: it is down, cron asks again and again, it heals, and everything is done once, oldest first, paced.
#[test]
fn an_outage_s_work_is_done_once_oldest_first_and_paced() {
    let sandbox = down(POLICY, "cat; echo \"did $1\"");
    let ids: Vec<JobId> = (0..12).map(|n| queue(&sandbox, &["-n"], &[&n.to_string()])).collect();
    for _ in 0..5 {
        assert_eq!(queue(&sandbox, &["-n"], &["0"]), ids[0], "the same again");
    }
    assert_eq!(sandbox.call_count(), 0);
    let status = finished(&mut sandbox.halfopen(&["status"])).stdout;
    let row = status.lines().last().unwrap_or_default().split_whitespace().collect::<Vec<_>>();
    assert_eq!(row[..2], ["tool", "12"], "{status}");
    heal(&sandbox);
    let ran = drain(&sandbox, &["--max-wait", "20s"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("tool: 12 done"), "{}", ran.stderr);
    let mut did: Vec<u32> = sandbox.calls().iter().map(|(_, word)| word.parse().unwrap()).collect();
    did.sort_unstable();
    assert_eq!(did, (0..12).collect::<Vec<_>>(), "each once");
    let claims = claims(&sandbox);
    assert!(claims.is_sorted() && claims.len() == 12, "oldest first: {claims:?}");
    // 20 a second: of twelve, after the two probes and the first start, nine wait for a slot of 50 ms each.
    assert!(claims[11] - claims[0] >= 400, "{claims:?}");
    assert!(ids.iter().all(|id| state(&sandbox, *id) == JobState::Done));
    let output = finished(&mut sandbox.halfopen(&["jobs", "output", &ids[3].to_string()]));
    assert_eq!((output.code, output.stdout.as_str()), (0, "did 3\n"));
    let figures = |name: &str| sandbox.activation().iter().map(|line| line[name].as_u64().unwrap_or(0)).sum::<u64>();
    assert_eq!((figures("queued"), figures("drained")), (12, 12));
    is_sound(&sandbox);
}

/// S078: several drains at once keep the rate of one.
#[test]
fn several_drains_share_one_pace() {
    let sandbox = down(&POLICY.replace("rate_per_sec: 20, max_per_sec: 20", "rate_per_sec: 4, max_per_sec: 4"), "");
    for n in 0..12 {
        queue(&sandbox, &["-n"], &[&n.to_string()]);
    }
    heal(&sandbox);
    let drains: Vec<_> = (0..3)
        .map(|_| sandbox.halfopen(&["drain", "--once", "--max-wait", "20s"]).spawn().expect("halfopen starts"))
        .collect();
    for child in drains {
        let ran = wait_for(child);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    assert_eq!(sandbox.call_count(), 12);
    let mut claims = claims(&sandbox);
    claims.sort_unstable();
    // The two probes stand before the ramp.
    for window in claims[2..].windows(6) {
        assert!(window[5] - window[0] >= 1_000, "no six starts within a second: {claims:?}");
    }
}

/// A circuit that refuses for longer than is waited: what is left is said, and the code tells cron.
#[test]
fn a_dependency_that_is_still_down_leaves_its_jobs() {
    let sandbox = down(&POLICY.replace("open_for_sec: 0.3", "open_for_sec: 600"), "");
    let id = queue(&sandbox, &["-n"], &["a"]);
    let ran = drain(&sandbox, &["--max-wait", "0s", "--json"]);
    assert_eq!(ran.code, 75, "{}", ran.stderr);
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!((&told["left"], &told["dependencies"][0]["left"]), (&1.into(), &1.into()));
    assert!(told["dependencies"][0]["why"].as_str().is_some_and(|why| why.contains("refuses")), "{told}");
    assert_eq!((state(&sandbox, id), sandbox.call_count()), (JobState::Queued, 0));
    // And nobody who was here is missed.
    assert!(!halfopen::attendance::is_missed(&halfopen::store::Location::Sqlite(sandbox.store())));
}

#[test]
fn nothing_queued_is_nothing_to_do() {
    let sandbox = Sandbox::new();
    sandbox.policy(POLICY).tool("exit 0");
    let ran = drain(&sandbox, &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
    assert_eq!(finished(&mut sandbox.halfopen(&["drain"])).code, 64, "a drain that stays is another command");
}

#[test]
fn a_limit_and_a_name_bound_what_is_done() {
    let sandbox = down(POLICY, "");
    for n in 0..4 {
        queue(&sandbox, &["-n"], &[&n.to_string()]);
    }
    heal(&sandbox);
    let other = drain(&sandbox, &["--dep", "other"]);
    assert_eq!((other.code, sandbox.call_count()), (64, 0), "{}", other.stderr);
    assert!(other.stderr.contains("known are: tool"), "{}", other.stderr);
    let some = drain(&sandbox, &["--limit", "2", "--max-wait", "20s"]);
    assert_eq!((some.code, sandbox.call_count()), (75, 2), "{}", some.stderr);
    let rest = drain(&sandbox, &["--max-wait", "20s"]);
    assert_eq!((rest.code, sandbox.call_count()), (0, 4), "{}", rest.stderr);
}

/// A job finds what it was given, where it was given, and nothing else; its secret is read when it runs. S037, S171
#[test]
fn a_job_runs_as_it_was_asked_for_and_its_secret_is_nowhere() {
    let sandbox = down(
        POLICY,
        "pwd; cat; echo \"$OCR_LANG\"; echo \"${OTHER-unset}\"; echo \"$OCR_TOKEN\" > $D/seen; echo \"token $OCR_TOKEN\" >&2",
    );
    std::fs::create_dir(sandbox.path("work")).expect("a folder");
    let mut run = sandbox.halfopen(&["run", "--env", "OCR_LANG,D", "--env-from", "OCR_TOKEN", "--", "tool"]);
    run.current_dir(sandbox.path("work")).env("OCR_LANG", "de").env("OTHER", "x").env("OCR_TOKEN", SECRET);
    let mut child = run.stdin(Stdio::piped()).spawn().expect("halfopen starts");
    std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), b"invoice\n").expect("it reads");
    let id = id_of(&wait_for(child));
    heal(&sandbox);
    // Without the variable the job waits for a worker that has it, and is not touched.
    let without = drain(&sandbox, &["--max-wait", "20s"]);
    assert_eq!((without.code, sandbox.call_count()), (75, 0), "{}", without.stderr);
    assert!(without.stderr.contains("`OCR_TOKEN`"), "{}", without.stderr);
    assert_eq!((state(&sandbox, id), detail(&sandbox, id).view.job.attempts()), (JobState::Queued, 0));
    let mut with = sandbox.halfopen(&["drain", "--once", "--max-wait", "20s"]);
    let ran = finished(with.env("OCR_TOKEN", SECRET));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let Some(JobResult::Command { stdout, stderr, .. }) = detail(&sandbox, id).result else { panic!("a result") };
    let work = sandbox.path("work").canonicalize().expect("a folder");
    assert_eq!(String::from_utf8_lossy(&stdout), format!("{}\ninvoice\nde\nunset\n", work.display()));
    assert_eq!(sandbox.text("seen").trim_end(), SECRET);
    assert!(!stderr.contains(SECRET), "{stderr}");
    std::fs::remove_file(sandbox.path("seen")).expect("a file");
    for entry in std::fs::read_dir(sandbox.path("")).expect("a folder").flatten().filter(|entry| entry.path().is_file())
    {
        let bytes = std::fs::read(entry.path()).expect("a file");
        let found = bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
        assert!(!found, "{} holds the secret", entry.path().display());
    }
    let error = finished(&mut sandbox.halfopen(&["jobs", "output", &id.to_string(), "--stderr"]));
    assert!(error.stdout.starts_with("token "), "{}", error.stdout);
}

/// A folder or an executable that is not there is the worker's fault: no job suffers, and it is said.
#[test]
fn what_a_worker_lacks_touches_no_job() {
    let sandbox = down(POLICY, "");
    std::fs::create_dir(sandbox.path("work")).expect("a folder");
    let mut run = sandbox.halfopen(&["run", "-n", "--env", "D", "--", "tool", "a"]);
    let id = id_of(&finished(run.current_dir(sandbox.path("work"))));
    std::fs::remove_dir(sandbox.path("work")).expect("a folder");
    heal(&sandbox);
    let ran = drain(&sandbox, &["--max-wait", "20s"]);
    assert_eq!(ran.code, 75, "{}", ran.stderr);
    assert!(ran.stderr.contains("the folder") && ran.stderr.contains("work"), "{}", ran.stderr);
    std::fs::create_dir(sandbox.path("work")).expect("a folder");
    std::fs::rename(sandbox.path("bin/tool"), sandbox.path("bin/away")).expect("a command");
    let ran = drain(&sandbox, &["--max-wait", "20s"]);
    assert!(ran.code == 75 && ran.stderr.contains("the executable"), "{}", ran.stderr);
    let job = detail(&sandbox, id).view.job;
    assert_eq!((job.state(), job.attempts(), job.sent()), (JobState::Queued, 0, 0));
    std::fs::rename(sandbox.path("bin/away"), sandbox.path("bin/tool")).expect("a command");
    assert_eq!(drain(&sandbox, &["--max-wait", "20s"]).code, 0);
    assert_eq!((state(&sandbox, id), sandbox.call_count()), (JobState::Done, 1));
}

/// A command runs where and as whom it was accepted: one of another host or user is left, untouched, and stops nobody.
#[test]
fn a_command_of_another_host_or_user_is_left_alone() {
    let sandbox = down(POLICY, "");
    let ours = queue(&sandbox, &["-n"], &["a"]);
    let Some(JobRequest::Command(here)) = sandbox.handle().request(ours).expect("the store") else {
        panic!("no command")
    };
    let terms = detail(&sandbox, ours).view.job.terms().clone();
    let elsewhere = CommandRequest { host: format!("not-{}", here.host), ..here.clone() };
    let somebody = CommandRequest { user: here.user + 1, ..here };
    let others: Vec<JobId> = [elsewhere, somebody]
        .into_iter()
        .map(|command| {
            let new = NewJob {
                terms: terms.clone(),
                request: JobRequest::Command(command),
                key: None,
                order_key: None,
                review: None,
                retry_at: None,
                bounds: QueueBounds::default(),
                caller: None,
                on_done: false,
            };
            sandbox.handle().enqueue(new).expect("room").receipt().id
        })
        .collect();
    let last = queue(&sandbox, &["-n"], &["b"]);
    heal(&sandbox);
    let ran = drain(&sandbox, &["--max-wait", "20s"]);
    assert_eq!(ran.code, 75, "{}", ran.stderr);
    assert_eq!([ours, last].map(|id| state(&sandbox, id)), [JobState::Done; 2]);
    for id in others {
        assert_eq!((state(&sandbox, id), detail(&sandbox, id).history.len()), (JobState::Queued, 1));
    }
    assert!(ran.stderr.contains("run only there and as that"), "{}", ran.stderr);
    assert!(ran.took < Duration::from_secs(15), "it waits for nothing: {:?}", ran.took);
    is_sound(&sandbox);
}

/// Starts a drain whose job hangs, and kills it with the job under way.
fn killed_in_the_middle(policy: &str) -> (Sandbox, JobId) {
    let sandbox = down(
        policy,
        "[ -e $D/quick ] && exit 0; echo $$ > $D/pid; while [ -d $D ] && [ ! -e $D/go ]; do sleep 0.05; done",
    );
    let id = queue(&sandbox, &["-n"], &["a"]);
    heal(&sandbox);
    let mut child = sandbox.halfopen(&["drain", "--once", "--max-wait", "20s"]).spawn().expect("halfopen starts");
    until("the job runs", || !sandbox.text("pid").trim().is_empty());
    send(&child, Signal::KILL);
    child.wait().expect("it is gone");
    std::fs::write(sandbox.path("go"), "").expect("a file");
    std::fs::write(sandbox.path("quick"), "").expect("a file");
    (sandbox, id)
}

const SHORT: &str = "lease_sec: 1\nreplay: if_idempotent";

/// Killed in the middle of a job, nobody knows how far it got: a person must look.
#[test]
fn a_drain_that_is_killed_leaves_its_job_to_a_person() {
    let (sandbox, id) = killed_in_the_middle(&format!("{POLICY}\n{SHORT}"));
    until("the lease is over", || {
        drain(&sandbox, &["--max-wait", "20s"]);
        state(&sandbox, id) == JobState::ManualReview
    });
    assert_eq!(detail(&sandbox, id).view.job.reason(), Some(Reason::WorkerDied));
    assert_eq!(sandbox.call_count(), 1, "it is not run a second time");
    let refused = finished(&mut sandbox.halfopen(&["jobs", "requeue", &id.to_string()]));
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("--may-have-run"), "{}", refused.stderr);
    let requeue = ["jobs", "requeue", &id.to_string(), "--may-have-run", "--reason", "it was not booked"];
    assert_eq!(finished(&mut sandbox.halfopen(&requeue)).code, 0);
    assert_eq!(drain(&sandbox, &["--max-wait", "20s"]).code, 0);
    assert_eq!((state(&sandbox, id), sandbox.call_count()), (JobState::Done, 2));
    is_sound(&sandbox);
}

/// With a licence to repeat, the next drain does it.
#[test]
fn a_job_that_may_be_repeated_is_done_by_the_next_drain() {
    let (sandbox, id) = killed_in_the_middle(&format!("{POLICY}\nlease_sec: 1\nreplay: always"));
    until("the lease is over and it is done", || {
        drain(&sandbox, &["--max-wait", "20s"]);
        state(&sandbox, id) == JobState::Done
    });
    assert_eq!(sandbox.call_count(), 2);
    is_sound(&sandbox);
}

/// S046: a job that kills its worker does so no more often than it may fail, and the others are done.
#[test]
fn a_job_that_kills_its_worker_ends_with_a_person() {
    let sandbox = down(
        &format!("{POLICY}\nlease_sec: 0.5\nreplay: always"),
        "if [ \"$1\" = poison ]; then kill -9 $PPID; while [ -d $D ] && [ ! -e $D/go ]; do sleep 0.05; done; fi",
    );
    let poison = queue(&sandbox, &["-n"], &["poison"]);
    let good: Vec<JobId> = ["a", "b", "c"].iter().map(|word| queue(&sandbox, &["-n"], &[word])).collect();
    heal(&sandbox);
    until("the job is given to a person", || {
        drain(&sandbox, &["--max-wait", "2s"]);
        state(&sandbox, poison) == JobState::ManualReview
    });
    std::fs::write(sandbox.path("go"), "").expect("a file");
    assert_eq!(sandbox.calls().iter().filter(|(_, word)| word == "poison").count(), 3);
    until("the others are done", || {
        drain(&sandbox, &["--max-wait", "2s"]);
        good.iter().all(|id| state(&sandbox, *id) == JobState::Done)
    });
    is_sound(&sandbox);
}

/// Starts a drain that is killed before it has sent the job it claimed, and waits until that is seen. The cheap command
/// before a probe is tried between the two, and hangs.
fn killed_before_sending(sandbox: &Sandbox, id: JobId) {
    let mut child = sandbox.halfopen(&["drain", "--once", "--max-wait", "20s"]).spawn().expect("halfopen starts");
    until("the cheap command runs", || sandbox.path("pinged").exists());
    send(&child, Signal::KILL);
    child.wait().expect("it is gone");
    std::fs::remove_file(sandbox.path("pinged")).expect("a file");
    until("the lease is over", || {
        finished(&mut sandbox.halfopen(&["status"]));
        state(sandbox, id) != JobState::Running
    });
}

/// Queues a job that may be attempted once, before a dependency whose cheap command hangs.
fn queued_behind_a_cheap_command() -> (Sandbox, JobId) {
    let policy = POLICY.replace("max_attempts: 3", "max_attempts: 1");
    let sandbox = down(&format!("{policy}\n{SHORT}\nprobe: [ping]").replace("lease_sec: 1\n", "lease_sec: 0.5\n"), "");
    sandbox.command("ping", "touch $D/pinged; while [ -d $D ] && [ ! -e $D/go ]; do sleep 0.05; done");
    let id = queue(&sandbox, &["-n"], &["a"]);
    heal(&sandbox);
    (sandbox, id)
}

/// S046: what was never sent was never attempted, also where one attempt is all there is.
#[test]
fn a_drain_that_is_killed_before_it_sends_costs_the_job_nothing() {
    let (sandbox, id) = queued_behind_a_cheap_command();
    for _ in 0..2 {
        killed_before_sending(&sandbox, id);
        assert_eq!(state(&sandbox, id), JobState::Queued);
    }
    std::fs::write(sandbox.path("go"), "").expect("a file");
    until("it is done", || {
        drain(&sandbox, &["--max-wait", "20s"]);
        state(&sandbox, id) == JobState::Done
    });
    let job = detail(&sandbox, id).view.job;
    assert_eq!((job.attempts(), job.sent(), job.interrupted()), (0, 1, 2));
    assert_eq!(sandbox.calls().iter().filter(|(_, word)| word == "a").count(), 1);
    is_sound(&sandbox);
}

/// S046: what ends whoever prepares it is taken away from them, with a reason of its own; and it may be requeued without
/// a licence, as nothing was executed.
#[test]
fn a_job_that_loses_worker_after_worker_before_it_is_sent_ends_with_a_person() {
    let (sandbox, id) = queued_behind_a_cheap_command();
    for _ in 0..CLAIMS_LOST_MAX {
        assert_eq!(state(&sandbox, id), JobState::Queued);
        killed_before_sending(&sandbox, id);
    }
    let job = detail(&sandbox, id).view.job;
    assert_eq!((job.state(), job.reason()), (JobState::ManualReview, Some(Reason::ClaimsLost)));
    assert_eq!((job.attempts(), job.sent(), job.may_have_run()), (0, 0, false));
    let list = finished(&mut sandbox.halfopen(&["jobs", "list", "--state", "manual_review"]));
    assert!(list.stdout.contains("claims lost; a person must decide"), "{}", list.stdout);
    is_sound(&sandbox);
    std::fs::write(sandbox.path("go"), "").expect("a file");
    assert_eq!(finished(&mut sandbox.halfopen(&["jobs", "requeue", &id.to_string()])).code, 0);
    until("it is done", || {
        drain(&sandbox, &["--max-wait", "20s"]);
        state(&sandbox, id) == JobState::Done
    });
    is_sound(&sandbox);
}

/// S164: what fails at once does not keep the others.
#[test]
fn a_job_that_fails_at_once_lets_the_others_pass() {
    let policy =
        POLICY.replace("base_ms: 10", "base_ms: 30000").replace("open_after_failures: 1", "open_after_failures: 50");
    let sandbox = Sandbox::new();
    sandbox.policy(&policy).tool("[ \"$1\" = bad ] && { echo 'HTTP 503 Service Unavailable' >&2; exit 1; }; exit 0");
    assert_eq!(finished(&mut sandbox.halfopen(&["hold", "tool", "open"])).code, 0);
    let bad = queue(&sandbox, &["-n"], &["bad"]);
    let good: Vec<JobId> = (0..20).map(|n| queue(&sandbox, &["-n"], &[&n.to_string()])).collect();
    assert_eq!(finished(&mut sandbox.halfopen(&["release", "tool"])).code, 0);
    let ran = drain(&sandbox, &["--max-wait", "2s"]);
    assert_eq!(ran.code, 75, "{}", ran.stderr);
    assert!(good.iter().all(|id| state(&sandbox, *id) == JobState::Done), "{}", ran.stderr);
    assert!(sandbox.calls().iter().filter(|(_, word)| word == "bad").count() <= 3);
    assert_eq!(state(&sandbox, bad), JobState::Queued);
}

/// A signal ends it in order: what runs may finish; a second one ends that too, with all it has started.
#[test]
fn a_drain_that_is_told_to_end_ends_in_order() {
    let hangs = "echo $$ > $D/pid; while [ -d $D ] && [ ! -e $D/go ]; do sleep 0.05; done";
    let sandbox = down(POLICY, hangs);
    let (first, second) = (queue(&sandbox, &["-n"], &["a"]), queue(&sandbox, &["-n"], &["b"]));
    heal(&sandbox);
    let start = || {
        let child = sandbox.halfopen(&["drain", "--once", "--max-wait", "20s", "--limit", "1"]).spawn();
        until("a job runs", || !sandbox.text("pid").trim().is_empty());
        child.expect("halfopen starts")
    };
    let child = start();
    send(&child, Signal::TERM);
    std::fs::write(sandbox.path("go"), "").expect("a file");
    assert_eq!(wait_for(child).code, 75);
    assert_eq!((state(&sandbox, first), state(&sandbox, second)), (JobState::Done, JobState::Queued));
    std::fs::remove_file(sandbox.path("go")).expect("a file");
    std::fs::remove_file(sandbox.path("pid")).expect("a file");
    let child = std::cell::RefCell::new(start());
    let pid = sandbox.text("pid").trim().to_owned();
    until("it ends, the second time it is told", || {
        send(&child.borrow(), Signal::TERM);
        child.borrow_mut().try_wait().expect("it is ours").is_some()
    });
    until("the command is gone", || !alive(&pid));
    assert_eq!(detail(&sandbox, second).view.job.reason(), Some(Reason::Shutdown));
}

/// A run inside a job is no second attempt, and its failure is the job's.
#[test]
fn a_run_inside_a_job_counts_once() {
    let sandbox = down(POLICY, "");
    let us = env!("CARGO_BIN_EXE_halfopen");
    sandbox.command("script", &format!("exec {us} run --dep tool -- tool \"$1\""));
    let id = id_of(&sandbox.run_command(&["-n", "--dep", "tool", "--env", "D"], &["script", "a"]));
    std::fs::remove_file(sandbox.path("calls")).unwrap_or_default();
    assert_eq!(finished(&mut sandbox.halfopen(&["release", "tool"])).code, 0);
    // Still down: the job goes back, and nothing new is queued by what runs inside it.
    let ran = drain(&sandbox, &["--max-wait", "0s"]);
    assert_eq!(ran.code, 75, "{}", ran.stderr);
    assert_eq!((jobs(&sandbox).len(), state(&sandbox, id)), (1, JobState::Queued));
    heal(&sandbox);
    let ran = drain(&sandbox, &["--max-wait", "20s"]);
    assert_eq!((ran.code, state(&sandbox, id)), (0, JobState::Done), "{}", ran.stderr);
}
