//! A call that is refused is kept, and nothing of it is lost, doubled or given away.

use std::fs::File;
use std::io::Write as _;
use std::process::Stdio;

use halfopen::handle::jobs::JobView;
use halfopen::store::jobs::JobFilter;
use halfopen_core::job::{CommandRequest, JobId, JobRequest, JobState};

use crate::sandbox::{BROKEN, LIMITED, Ran, Sandbox, finished, wait_for};

/// A secret of a known form, in two parts so that this file holds none.
const SECRET: &str = concat!("sk-ant-api03-", "Zx81kQpLm4vT9wYb2NcR7sJd5HgF3eUa");

const QUEUES: &str = "retry: {max_attempts: 1}\n\
                      circuit: {open_after_failures: 1, open_for_sec: 600}\n\
                      on_open: {action: queue, queue_ttl_min: 30, user_message: processing_delayed}\n\
                      drain: {rate_per_sec: 20, max_per_sec: 20}";

/// Returns a place in which the dependency `tool` is refused, and its one call.
fn refusing(policy: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    // Work that may have been done: not queued, and the circuit is open.
    sandbox.policy(policy).tool(BROKEN);
    let opened = sandbox.run(&["--on-open", "fail_fast"]);
    assert_eq!((opened.code, sandbox.call_count()), (1, 1), "{}", opened.stderr);
    sandbox
}

fn jobs(sandbox: &Sandbox) -> Vec<JobView> {
    sandbox.handle().jobs(&JobFilter::default()).expect("jobs").jobs
}

fn command(sandbox: &Sandbox, id: JobId) -> CommandRequest {
    match sandbox.handle().request(id).expect("a request") {
        Some(JobRequest::Command(command)) => command,
        other => panic!("{other:?}"),
    }
}

/// Returns the id that a run printed, which printed nothing else.
fn id_of(ran: &Ran) -> JobId {
    assert_eq!(ran.code, 79, "{}", ran.stderr);
    ran.stdout.trim_end().parse().unwrap_or_else(|error| panic!("{error}: {}", ran.stdout))
}

/// Returns every byte of the store and what lies beside it.
fn stored(sandbox: &Sandbox) -> Vec<u8> {
    let mut all = Vec::new();
    let mut folders = vec![sandbox.path("")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.starts_with(sandbox.path("bin")) {
                all.extend(std::fs::read(path).unwrap_or_default());
            }
        }
    }
    all
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_refused_call_is_kept_with_all_that_it_needs_and_says_who_would_do_it() {
    let sandbox = refusing(QUEUES);
    let words = ["tool", "--page", "a b", "ü"];
    let mut run =
        sandbox.halfopen(&[&["run", "--report", "report.json", "--env", "OCR_LANG", "--"], &words[..]].concat());
    std::fs::write(sandbox.path("in"), "invoice 17\n").expect("a file");
    run.env("OCR_LANG", "de").env("UNASKED", "stays-behind").stdin(File::open(sandbox.path("in")).expect("the file"));
    let ran = finished(&mut run);
    let id = id_of(&ran);
    assert_eq!(sandbox.call_count(), 1, "the command was not started");
    let report = sandbox.report();
    assert_eq!(report["job_id"], id.to_string());
    assert_eq!((&report["job_state"], &report["exit_code"]), (&"queued".into(), &79.into()));
    assert_eq!((&report["error"], &report["user_message"]), (&"circuit_open".into(), &"processing_delayed".into()));
    assert!(report["job_expires_at"].is_string());
    for said in ["queued as job", "processing_delayed", "circuit_open", "drain --once", "* * * * *", "--store"] {
        assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
    }
    let kept = command(&sandbox, id);
    assert_eq!(kept.argv, words.map(|word| word.as_bytes().to_vec()));
    assert_eq!(kept.executable, sandbox.path("bin/tool").as_os_str().as_encoded_bytes());
    assert_eq!(kept.stdin, b"invoice 17\n");
    assert_eq!(std::path::Path::new(std::str::from_utf8(&kept.cwd).unwrap()), sandbox.path("").canonicalize().unwrap());
    assert_eq!(kept.user, rustix::process::getuid().as_raw());
    let names: Vec<&str> = kept.env.iter().map(|(name, _)| std::str::from_utf8(name).unwrap()).collect();
    assert_eq!(names, ["HOME", "OCR_LANG", "PATH", "TZ"]);
    assert!(!holds(&stored(&sandbox), "stays-behind"));
    let lines = sandbox.activation();
    assert_eq!(lines.last().map(|line| line["queued"].clone()), Some(1.into()));
}

/// Whoever does jobs was here a moment ago: nobody is told how to have them done.
#[test]
fn where_a_worker_was_seen_nobody_is_told_to_start_one() {
    let sandbox = refusing(QUEUES);
    halfopen::attendance::mark(&halfopen::store::Location::Sqlite(sandbox.store()));
    let ran = sandbox.run(&[]);
    id_of(&ran);
    assert!(!ran.stderr.contains("no worker"), "{}", ran.stderr);
}

/// Twenty runs of cron while it is down are one piece of work; another input is another one.
#[test]
fn the_same_command_again_and_again_waits_once() {
    let sandbox = refusing(QUEUES);
    let started: Vec<_> = (0..20).map(|_| sandbox.start(&[])).collect();
    let ids: Vec<JobId> = started.into_iter().map(|child| id_of(&wait_for(child))).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(jobs(&sandbox).len(), 1);
    let other = id_of(&sandbox.run_command(&[], &["tool", "other"]));
    let copy = id_of(&sandbox.run(&["--no-coalesce"]));
    assert!(other != ids[0] && copy != ids[0] && copy != other);
    assert_eq!(jobs(&sandbox).len(), 3);
    let queued: u64 = sandbox.activation().iter().map(|line| line["queued"].as_u64().unwrap_or(0)).sum();
    assert_eq!(queued, 3, "what joined a job is no further one");
}

/// An idempotency key is one call for good; the same key with another command is none.
#[test]
fn a_key_of_the_callers_stands_for_one_call() {
    let sandbox = refusing(QUEUES);
    let key = ["--idempotency-key", "invoice-17"];
    let id = id_of(&sandbox.run(&key));
    assert_eq!(id_of(&sandbox.run(&key)), id);
    let other = sandbox.run_command(&[&key[..], &["--report", "report.json"]].concat(), &["tool", "other"]);
    assert_eq!((other.code, other.stdout.as_str()), (64, ""), "{}", other.stderr);
    assert_eq!(sandbox.report()["not_queued"], "key_taken");
    assert!(command(&sandbox, id).env.contains(&(b"HALFOPEN_IDEMPOTENCY_KEY".to_vec(), b"invoice-17".to_vec())));
}

/// S037, S171: a secret is not stored; its name is, if that is what was given.
#[test]
fn a_secret_is_not_kept_and_the_place_it_stood_in_is_named() {
    let sandbox = refusing(QUEUES);
    let header = format!("Authorization: Bearer {SECRET}");
    let ran = sandbox.run_command(&["--report", "report.json"], &["tool", "-H", &header]);
    assert_eq!((ran.code, ran.stdout.as_str()), (75, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("argument 2") && ran.stderr.contains("--env-from"), "{}", ran.stderr);
    assert!(!ran.stderr.contains(SECRET));
    assert_eq!(sandbox.report()["not_queued"], "caller_secret");
    let mut by_value = sandbox.run_of(&["--env", "OCR_TOKEN"]);
    let ran = finished(by_value.env("OCR_TOKEN", SECRET));
    assert_eq!(ran.code, 75);
    assert!(ran.stderr.contains("variable `OCR_TOKEN`") && !ran.stderr.contains(SECRET), "{}", ran.stderr);
    assert!(jobs(&sandbox).is_empty());
    let mut by_name = sandbox.run_of(&["--env-from", "OCR_TOKEN"]);
    let id = id_of(&finished(by_name.env("OCR_TOKEN", SECRET)));
    assert_eq!(command(&sandbox, id).env_from, ["OCR_TOKEN"]);
    let all = stored(&sandbox);
    assert!(holds(&all, "OCR_TOKEN"), "the scan sees what is stored");
    assert!(!holds(&all, SECRET), "no byte of the store or beside it holds the secret");
}

#[test]
fn a_variable_that_is_missing_or_given_with_its_value_is_refused() {
    let sandbox = refusing(QUEUES);
    let ran = sandbox.run(&["--env-from", "NOWHERE"]);
    assert_eq!(ran.code, 75);
    assert!(ran.stderr.contains("`NOWHERE` is not set"), "{}", ran.stderr);
    let ran = sandbox.run(&["--env-from", &format!("TOKEN={SECRET}")]);
    assert_eq!(ran.code, 64, "{}", ran.stderr);
}

#[test]
fn a_pipe_is_kept_to_its_end_and_not_beyond_its_bound() {
    let sandbox = refusing(&format!("{QUEUES}\nreplay_body_bytes_max: 100000"));
    let run = |bytes: &[u8]| {
        let mut child =
            sandbox.run_of(&["--report", "report.json"]).stdin(Stdio::piped()).spawn().expect("halfopen starts");
        // A run that has seen enough stops reading.
        let _ = child.stdin.take().expect("a pipe").write_all(bytes);
        wait_for(child)
    };
    let payload = vec![b'x'; 100_000];
    assert_eq!(command(&sandbox, id_of(&run(&payload))).stdin, payload);
    let ran = run(&vec![b'x'; 300_000]);
    assert_eq!((ran.code, ran.stdout.as_str()), (75, ""));
    assert!(ran.stderr.contains("replay_body_bytes_max, 100000 bytes"), "{}", ran.stderr);
    assert_eq!(sandbox.report()["not_queued"], "input_too_long");
}

/// What a first attempt has read of a pipe is part of what is kept.
#[test]
fn a_call_that_gave_up_is_kept_with_the_input_it_has_read() {
    let sandbox = Sandbox::new();
    sandbox.policy(QUEUES).tool("cat > $D/read; echo 'HTTP 429 Too Many Requests' >&2; exit 1");
    let mut child = sandbox.run_of(&[]).stdin(Stdio::piped()).spawn().expect("halfopen starts");
    child.stdin.take().expect("a pipe").write_all(b"payload").expect("it reads");
    let id = id_of(&wait_for(child));
    assert_eq!((sandbox.text("read").as_str(), sandbox.call_count()), ("payload", 1));
    assert_eq!(command(&sandbox, id).stdin, b"payload");
}

/// What may have been done is not done again by the queue.
#[test]
fn a_call_with_an_unknown_end_is_not_kept() {
    let sandbox = Sandbox::new();
    sandbox.policy(&format!("{QUEUES}\nrerun_within_sec: 0")).tool(BROKEN);
    let ran = sandbox.run(&["--report", "report.json"]);
    assert_eq!((ran.code, sandbox.report()["gave_up"].as_str()), (1, Some("unknown_end")), "{}", ran.stderr);
    assert!(jobs(&sandbox).is_empty());
}

#[test]
fn a_stated_wait_beyond_the_time_to_live_leaves_the_turn_to_the_next_action() {
    for (actions, code) in [("[queue, fail_fast]", 75), ("[queue, manual_review]", 79), ("queue", 79)] {
        let sandbox = Sandbox::new();
        let policy = QUEUES.replace("action: queue", &format!("action: {actions}"));
        sandbox.policy(&policy).tool(&format!("MS=7200000; {LIMITED}"));
        let ran = sandbox.run(&["--report", "report.json"]);
        assert_eq!(ran.code, code, "{actions}: {}", ran.stderr);
        let states: Vec<JobState> = jobs(&sandbox).iter().map(|view| view.job.state()).collect();
        if code == 75 {
            assert_eq!((states.len(), ran.stdout.as_str()), (0, ""));
            assert_eq!(sandbox.report()["not_queued"], "hint_beyond_ttl");
        } else {
            assert_eq!(states, [JobState::ManualReview], "{actions}");
            id_of(&sandbox.run(&[]));
            assert_eq!(jobs(&sandbox).len(), 1, "a person is asked once");
        }
    }
    // A longer time to live makes it worth queueing.
    let sandbox = Sandbox::new();
    sandbox.policy(QUEUES).tool(&format!("MS=7200000; {LIMITED}"));
    id_of(&sandbox.run(&["--ttl", "3h"]));
    assert_eq!(jobs(&sandbox)[0].job.state(), JobState::Queued);
}

#[test]
fn a_full_queue_says_which_bound_and_a_store_in_memory_keeps_nothing() {
    let sandbox = refusing(&format!("{QUEUES}\nqueue: {{max_jobs: 1}}"));
    id_of(&sandbox.run(&[]));
    let ran = sandbox.run_command(&[], &["tool", "second"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (75, ""));
    assert!(ran.stderr.contains("queue.max_jobs is 1"), "{}", ran.stderr);
    let limited = Sandbox::new();
    limited.policy(QUEUES).tool("echo 'HTTP 429 Too Many Requests' >&2; exit 1");
    // Without a home there is no place for a store that outlives the run.
    let ran = finished(limited.run_of(&[]).env_remove("HALFOPEN_STORE").env_remove("HOME"));
    assert_eq!((ran.code, ran.stdout.as_str()), (75, ""));
    assert!(ran.stderr.contains("in memory"), "{}", ran.stderr);
}

/// The job around it goes back to the queue; a second one for the same work would do it twice.
#[test]
fn a_run_inside_a_job_queues_nothing() {
    let sandbox = refusing(QUEUES);
    let ran = finished(sandbox.run_of(&[]).env("HALFOPEN_JOB", "j1-00000000"));
    assert_eq!(ran.code, 75, "{}", ran.stderr);
    assert!(jobs(&sandbox).is_empty());
}
