//! Many processes at once.

use halfopen_core::event::State;

use crate::sandbox::{BROKEN, LIMITED, Ran, Sandbox, until, wait_for};

fn all_at_once(sandbox: &Sandbox, count: usize, command: impl Fn(usize) -> Vec<String>) -> Vec<Ran> {
    let children: Vec<_> = (0..count)
        .map(|n| {
            let words = command(n);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            sandbox.halfopen(&[&["run"], words.as_slice()].concat()).spawn().expect("halfopen starts")
        })
        .collect();
    children.into_iter().map(wait_for).collect()
}

fn plain(_: usize) -> Vec<String> {
    ["--", "tool"].map(String::from).to_vec()
}

fn nothing_went_wrong(runs: &[Ran]) {
    for ran in runs {
        for word in ["locked", "panicked", "NOT protected", "cannot be written"] {
            assert!(!ran.stderr.contains(word), "{}", ran.stderr);
        }
    }
}

/// 200 at once, one of which is told to wait for hours: after that is written no further one starts its command.
#[test]
fn a_limit_of_hours_stops_two_hundred() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {max_attempts: 1}\non_open: {action: fail_fast}")
        .tool(&format!("if mkdir $D/first 2> /dev/null; then MS=9000000; {LIMITED}; fi; echo done"));
    let runs = all_at_once(&sandbox, 200, plain);
    nothing_went_wrong(&runs);
    let done = runs.iter().filter(|ran| ran.code == 0).count();
    let refused = runs.iter().filter(|ran| ran.code == 75).count();
    assert_eq!(done + refused, 200);
    assert_eq!(sandbox.call_count(), done + 1, "whoever was refused did not start, the one with the limit did");
    // By now it is written for certain.
    let runs = all_at_once(&sandbox, 200, plain);
    nothing_went_wrong(&runs);
    assert!(runs.iter().all(|ran| ran.code == 75 && ran.stdout.is_empty()));
    assert_eq!(sandbox.call_count(), done + 1, "nobody starts any more");
}

/// 200 fail at once: no update is lost, nothing is locked, the journal has one transition.
#[test]
fn two_hundred_failures_at_once_are_two_hundred_and_one_transition() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {max_attempts: 1}\ncircuit: {open_after_failures: 200, open_for_sec: 600}\non_open: {action: fail_fast}")
        .tool(BROKEN);
    let runs = all_at_once(&sandbox, 200, plain);
    nothing_went_wrong(&runs);
    assert_eq!(runs.iter().filter(|ran| ran.code == 1).count(), 200);
    assert_eq!(sandbox.state("tool"), State::Open, "the two hundredth opened it");
    let transitions = sandbox.transitions();
    assert_eq!(transitions.len(), 1, "{transitions:?}");
    assert_eq!(sandbox.activation().len(), 200);
}

/// 40 meet a short limit together: all wait, nobody comes too early, they come back spread out, and all end with their
/// output.
#[test]
fn forty_that_meet_a_limit_together_all_end_with_their_output() {
    let sandbox = Sandbox::new();
    // The limit stands for three seconds from the first call on, and every answer says how much of that is left.
    let script = "now=$(date +%s%3N); (set -C; echo $now > $D/began) 2> /dev/null; \
        left=$(( $(cat $D/began) + 3000 - now )); \
        if [ $left -gt 0 ]; then MS=$left; ";
    sandbox
        .policy("drain: {rate_per_sec: 20, max_per_sec: 20, max_in_flight: 16}")
        .tool(&format!("{script}{LIMITED}; fi; echo \"answer to $1\""));
    let runs = all_at_once(&sandbox, 40, |n| ["--", "tool", &n.to_string()].map(String::from).to_vec());
    nothing_went_wrong(&runs);
    for (n, ran) in runs.iter().enumerate() {
        assert_eq!((ran.code, ran.stdout.clone()), (0, format!("answer to {n}\n")), "{}", ran.stderr);
    }
    let began: i64 = sandbox.text("began").trim().parse().expect("an instant");
    let calls = sandbox.calls();
    let mut back: Vec<i64> = calls.iter().map(|(at, _)| *at).filter(|at| *at >= began + 3000).collect();
    back.sort_unstable();
    let early = calls.len() - back.len();
    assert!(early <= 40, "each met the limit at most once: {early}");
    assert_eq!(back.len(), 40);
    if early > 10 {
        // At 20 a second, so many take their time.
        let spread = back[39] - back[40 - early];
        let least = (i64::try_from(early).expect("few") - 2) * 1000 / 20 / 2;
        assert!(spread >= least, "{early} came back within {spread} ms");
    }
    assert!(sandbox.transitions().is_empty(), "one episode is one failure: the size of the herd opens nothing");
}

/// Callers that waited for a circuit to close return at the ramp's rate, not all at once.
#[test]
fn callers_that_waited_for_a_circuit_return_one_by_one() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {max_attempts: 1}\ncircuit: {open_after_failures: 1, open_for_sec: 1}\non_open: {action: fail_fast, wait_sec: 50}\ndrain: {rate_per_sec: 2, max_per_sec: 2}")
        .tool(BROKEN);
    assert_eq!(sandbox.run(&["--max-wait", "0s"]).code, 1);
    sandbox.tool("echo done");
    let runs = all_at_once(&sandbox, 12, plain);
    assert!(runs.iter().all(|ran| ran.code == 0 && ran.stdout == "done\n"));
    let mut back: Vec<i64> = sandbox.calls().iter().skip(1).map(|(at, _)| *at).collect();
    back.sort_unstable();
    assert_eq!(back.len(), 12);
    // One is the probe and one may start at once; at two a second the other ten take five seconds.
    assert!(back[11] - back[1] >= 4000, "back within {} ms", back[11] - back[1]);
}

/// The whole batch under `xargs -P`, as a nightly script has it.
#[test]
fn a_batch_under_xargs_keeps_its_outputs() {
    let sandbox = Sandbox::new();
    sandbox.tool("echo \"did $1\"");
    let halfopen = env!("CARGO_BIN_EXE_halfopen");
    let script = format!("seq 1 24 | xargs -P 8 -n 1 {halfopen} run -- tool > $D/all");
    let mut command = sandbox.halfopen::<&str>(&[]);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).env_clear();
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command = shell;
    assert!(command.status().expect("a shell").success());
    let mut lines: Vec<String> = sandbox.text("all").lines().map(String::from).collect();
    lines.sort();
    assert_eq!(lines.len(), 24);
    assert!(lines.iter().all(|line| line.starts_with("did ")));
    until("every run left its line", || sandbox.activation().len() == 24);
}

/// A caller that is held, and then takes its turn to come back, was refused once, however often it asked.
#[test]
fn a_caller_that_waits_is_counted_as_refused_once() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {max_attempts: 1}\ndrain: {rate_per_sec: 10, max_per_sec: 10, max_in_flight: 16}")
        .tool(&format!("[ -e $D/once ] && exit 0; touch $D/once; MS=2500; {LIMITED}"));
    assert_eq!(sandbox.run(&[]).code, 75, "it is told to wait");
    let runs = all_at_once(&sandbox, 12, plain);
    nothing_went_wrong(&runs);
    assert!(runs.iter().all(|ran| ran.code == 0), "{runs:?}");
    let refused: Vec<_> = sandbox.activation().iter().map(|line| line["refused"].as_u64().unwrap_or(99)).collect();
    assert!(refused.iter().all(|refused| *refused <= 1), "{refused:?}");
}
