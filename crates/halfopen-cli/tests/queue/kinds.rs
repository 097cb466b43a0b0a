//! Requests and commands of one dependency in one store: each is done by whoever can, and nobody disturbs the others.

use halfopen::store::jobs::JobFilter;
use halfopen_core::job::{JobId, JobState, What};

use crate::ledger::{all_done, audited, queueing, send, word};
use crate::stub::Stub;
use crate::world::{Gateway, gateway};

/// Queues a command of the dependency `up` that leaves a line behind; returns its job.
fn command(gateway: &Gateway, says: &str) -> JobId {
    let script = format!("echo {says} >> did");
    let words = ["run", "--policy", "policy.yaml", "--dep", "up", "-n", "--", "/bin/sh", "-c", &script];
    let said = gateway.halfopen(&words);
    let id = said.lines().next().unwrap_or_default().parse();
    id.unwrap_or_else(|_| panic!("{said}"))
}

/// Lets the dependency refuse, has requests and commands queued by turns, and lets it work again.
fn both(gateway: &Gateway) -> (Vec<String>, Vec<JobId>) {
    gateway.halfopen(&["hold", "up", "open", "--policy", "policy.yaml"]);
    let (mut requests, mut commands) = (Vec::new(), Vec::new());
    for n in 0..3 {
        commands.push(command(gateway, &n.to_string()));
        let answer = send(gateway, &format!("inv-{n}"), &[("prefer", "respond-async")]);
        assert_eq!(answer.status, 202, "{}", answer.text());
        requests.push(word(&answer.json()["id"]));
    }
    (requests, commands)
}

fn did(gateway: &Gateway) -> Vec<String> {
    let text = std::fs::read_to_string(gateway.path("did")).unwrap_or_default();
    // They run beside each other.
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// The commands are older than the requests, and the gateway does not so much as touch them: it sends its requests at
/// once, and the drain that comes by runs the commands.
#[test]
fn a_gateway_and_a_drain_on_one_store_do_each_its_own() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &queueing(""));
    let (requests, commands) = both(&gateway);
    gateway.halfopen(&["release", "up"]);
    all_done(&gateway, &requests);
    let store = gateway.store();
    for id in &commands {
        let detail = store.job(*id).expect("the store").expect("the job");
        let what: Vec<What> = detail.history.iter().map(|entry| entry.what).collect();
        assert_eq!(what, [What::Accepted], "the gateway left job {id} alone");
    }
    let said = gateway.said();
    assert!(!said.contains("its jobs wait"), "{said}");
    let said = gateway.halfopen(&["drain", "--once", "--policy", "policy.yaml"]);
    assert_eq!(did(&gateway), ["0", "1", "2"], "{said}");
    let done = JobFilter { state: Some(JobState::Done), ..JobFilter::default() };
    assert_eq!(store.jobs(&done).expect("the store").jobs.len(), 6);
    assert_eq!(stub.seen().len(), 3);
    audited(&gateway);
}

/// No gateway is there: a drain sends the requests to where the policy says, and runs the commands, in one go.
#[test]
fn a_drain_does_requests_and_commands() {
    let stub = Stub::start();
    let mut gateway = gateway(&stub, &queueing("credentials: { main: { from_file: secret } }"));
    std::fs::write(gateway.path("secret"), "sk-1").expect("a file");
    let (requests, commands) = both(&gateway);
    gateway.signal(rustix::process::Signal::KILL);
    gateway.ended();
    gateway.halfopen(&["release", "up"]);
    let said = gateway.halfopen(&["drain", "--once", "--policy", "policy.yaml", "--json"]);
    let told: serde_json::Value = said.lines().find_map(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    assert_eq!((&told["left"], &told["dependencies"][0]["done"]), (&0.into(), &6.into()), "{said}");
    assert_eq!(did(&gateway), ["0", "1", "2"]);
    let seen = stub.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|seen| seen.field("authorization") == Some("Bearer sk-1")), "{}", seen[0].head);
    let store = gateway.store();
    let ids = requests.iter().map(|id| id.parse().unwrap_or_else(|_| panic!("{id}"))).chain(commands);
    for id in ids {
        let detail = store.job(id).expect("the store").expect("the job");
        assert_eq!((detail.view.job.state(), detail.history.len()), (JobState::Done, 4), "{id}");
    }
    audited(&gateway);
}
