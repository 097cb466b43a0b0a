//! A live run neither doubles nor overtakes what is queued under its key.

use halfopen_core::job::{JobId, JobState};

use crate::sandbox::{Ran, Sandbox, finished};

const POLICY: &str = "on_open: {action: queue, queue_ttl_min: 30}\nretry: {max_attempts: 1}";

/// Returns a place whose dependency refuses until [`lets_go`].
fn refusing(policy: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.policy(policy).tool("echo \"did $1\"; echo noise >&2; exit ${2:-0}");
    assert_eq!(finished(&mut sandbox.halfopen(&["hold", "tool", "open"])).code, 0);
    sandbox
}

fn lets_go(sandbox: &Sandbox) {
    assert_eq!(finished(&mut sandbox.halfopen(&["release", "tool"])).code, 0);
}

fn run(sandbox: &Sandbox, flags: &[&str], words: &[&str]) -> Ran {
    sandbox.run_command(&[&["-n", "--env", "D"], flags].concat(), &[&["tool"], words].concat())
}

fn queued(ran: &Ran) -> JobId {
    assert_eq!(ran.code, 79, "{}", ran.stderr);
    ran.stdout.trim_end().parse().unwrap_or_else(|error| panic!("{error}: {}", ran.stdout))
}

fn drain(sandbox: &Sandbox) {
    let ran = finished(&mut sandbox.halfopen(&["drain", "--once"]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

/// S023, S066: the circuit is well again and the command could be run; but it is queued under its key, and one that is done
/// gives what it gave, with its code.
#[test]
fn a_key_names_one_call_whoever_makes_it() {
    let sandbox = refusing(POLICY);
    let key = ["--idempotency-key", "invoice-7"];
    let id = queued(&run(&sandbox, &key, &["a"]));
    lets_go(&sandbox);
    let again = run(&sandbox, &key, &["a"]);
    assert_eq!((queued(&again), sandbox.call_count()), (id, 0), "it is not run beside its job");
    let other = run(&sandbox, &key, &["b"]);
    assert_eq!((other.code, sandbox.call_count()), (64, 0), "{}", other.stderr);
    assert!(other.stderr.contains("with another command or input"), "{}", other.stderr);
    drain(&sandbox);
    let given = run(&sandbox, &key, &["a"]);
    assert_eq!((given.code, given.stdout.as_str()), (0, "did a\n"), "{}", given.stderr);
    assert!(given.stderr.contains(&format!("belongs to job {id}, which is done")), "{}", given.stderr);
    assert_eq!(sandbox.call_count(), 1, "once");
    let free = run(&sandbox, &["--idempotency-key", "invoice-8"], &["a"]);
    assert_eq!((free.code, free.stdout.as_str(), sandbox.call_count()), (0, "did a\n", 2));
}

/// A job that failed gives its code again, and one that was cancelled says so.
#[test]
fn a_key_of_a_job_that_was_not_done_gives_its_code() {
    let sandbox =
        refusing(&format!("{POLICY}\nclassify: [{{name: bad, when: [{{exit: 3}}], class: invalid_request}}]"));
    let (bad, gone) = (["--idempotency-key", "bad"], ["--idempotency-key", "gone"]);
    queued(&run(&sandbox, &bad, &["a", "3"]));
    let cancelled = queued(&run(&sandbox, &gone, &["b"]));
    let cancel = ["jobs", "cancel", &cancelled.to_string(), "--reason", "not needed"];
    assert_eq!(finished(&mut sandbox.halfopen(&cancel)).code, 0);
    lets_go(&sandbox);
    drain(&sandbox);
    let given = run(&sandbox, &bad, &["a", "3"]);
    assert_eq!((given.code, given.stdout.as_str()), (3, "did a\n"), "{}", given.stderr);
    let given = run(&sandbox, &gone, &["b"]);
    assert_eq!((given.code, sandbox.call_count()), (69, 1), "{}", given.stderr);
    assert!(given.stderr.contains("which is cancelled and was not done"), "{}", given.stderr);
}

/// A later call with the order key of an open job goes behind it, also through a closed circuit; where nothing queues it is
/// refused, and says by what.
#[test]
fn an_order_key_is_not_overtaken() {
    let sandbox = refusing(POLICY);
    let order = ["--order-key", "customer-7"];
    let first = queued(&run(&sandbox, &order, &["a"]));
    lets_go(&sandbox);
    let refused = run(&sandbox, &[&order[..], &["--on-open", "fail_fast"]].concat(), &["b"]);
    assert_eq!((refused.code, sandbox.call_count()), (75, 0), "{}", refused.stderr);
    assert!(refused.stderr.contains(&format!("job {first} has this order key")), "{}", refused.stderr);
    let second = queued(&run(&sandbox, &order, &["b"]));
    drain(&sandbox);
    let did: Vec<String> = sandbox.calls().into_iter().map(|(_, word)| word).collect();
    assert_eq!(did, ["a", "b"], "in the order in which they came");
    let state = |id| sandbox.handle().job(id).expect("the store").expect("the job").view.job.state();
    assert_eq!([state(first), state(second)], [JobState::Done; 2]);
    assert_eq!(run(&sandbox, &order, &["c"]).stdout, "did c\n", "the line is empty, and it runs at once");
}
