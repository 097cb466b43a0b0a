//! Standard output and standard error arrive whole, in order, and only once.

use crate::sandbox::{Sandbox, until, wait_for};

/// S198: characters that a read cuts in two arrive whole, and so does everything else, byte for byte.
#[test]
fn bytes_arrive_as_they_were_written() {
    let sandbox = Sandbox::new();
    sandbox.tool("i=0; printf x; while [ $i -lt 9000 ]; do printf '€🦀漢'; i=$((i+1)); done");
    for flags in [&[][..], &["--stream"]] {
        let ran = sandbox.run(flags);
        assert_eq!(ran.stdout, format!("x{}", "€🦀漢".repeat(9000)));
    }
}

/// S201: the last lines before the end are never missing, on either stream.
#[test]
fn the_last_lines_are_never_missing() {
    let sandbox = Sandbox::new();
    sandbox.tool("i=0; while [ $i -lt 500 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done");
    for _ in 0..5 {
        let ran = sandbox.run(&[]);
        assert_eq!((ran.stdout.lines().count(), ran.stderr.lines().count()), (500, 500));
        assert!(ran.stdout.ends_with("out 499\n") && ran.stderr.ends_with("err 499\n"));
    }
}

/// Output that does not fit into memory is held in a file without a name.
#[test]
fn long_output_is_held_whole() {
    let sandbox = Sandbox::new();
    sandbox.tool("head -c 5000000 /dev/zero; echo end");
    let ran = sandbox.run(&[]);
    assert_eq!((ran.code, ran.stdout.len()), (0, 5_000_004));
}

/// Beyond its bound it is let go, and the call is not repeated: nobody sees two beginnings.
#[test]
fn output_beyond_the_bound_is_let_go_and_never_repeated() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {base_ms: 1, max_attempts: 3}\nstdout_hold_bytes_max: 1000")
        .tool("head -c 100000 /dev/zero; echo 'HTTP 503 Service Unavailable' >&2; exit 1");
    let ran = sandbox.run(&["--report", "report.json"]);
    assert_eq!((ran.code, ran.stdout.len(), sandbox.call_count()), (75, 100_000, 1), "{}", ran.stderr);
    assert_eq!(sandbox.report()["gave_up"], "output_seen");
}

/// `--stream` passes output on as it comes, and never repeats an attempt that wrote.
#[test]
fn a_stream_is_live_and_not_repeated_once_it_wrote() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {base_ms: 1, max_attempts: 2}\ncircuit: {open_after_failures: 50}")
        .tool("[ \"$1\" = talk ] && echo first; [ -e $D/live ] || { touch $D/live; while [ -d $D ] && [ ! -e $D/go ]; do sleep 0.05; done; }; echo 'HTTP 503 Service Unavailable' >&2; exit 1");
    let mut child = sandbox.halfopen(&["run", "--stream", "--", "tool", "talk"]).spawn().expect("halfopen starts");
    let mut first = [0; 6];
    let mut stdout = child.stdout.take().expect("a pipe");
    std::io::Read::read_exact(&mut stdout, &mut first).expect("it comes while the command runs");
    assert_eq!(&first, b"first\n");
    std::fs::write(sandbox.path("go"), "").expect("a file");
    assert_eq!(wait_for(child).code, 75);
    assert_eq!(sandbox.call_count(), 1);
    assert_eq!(sandbox.run_command(&["--stream"], &["tool", "silent"]).code, 75);
    assert_eq!(sandbox.call_count(), 3, "an attempt that wrote nothing is repeated");
}

/// Without `--stream` nothing is seen before the verdict.
#[test]
fn output_is_held_until_the_verdict() {
    let sandbox = Sandbox::new();
    sandbox.tool("echo early; touch $D/said; while [ -d $D ] && [ ! -e $D/go ]; do sleep 0.05; done; echo late");
    let mut child = sandbox.start(&[]);
    until("it has spoken", || sandbox.path("said").exists());
    let mut stdout = child.stdout.take().expect("a pipe");
    let unread = rustix::io::ioctl_fionread(&stdout).expect("a pipe");
    assert_eq!(unread, 0, "held");
    std::fs::write(sandbox.path("go"), "").expect("a file");
    let mut all = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut all).expect("text");
    assert_eq!(all, "early\nlate\n");
    assert_eq!(wait_for(child).code, 0);
}

/// Output that cannot be written is not a success.
#[test]
fn output_that_is_lost_is_not_a_success() {
    let sandbox = Sandbox::new();
    sandbox.tool("echo precious");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let status = sandbox.run_of(&[]).stdout(full).status().expect("halfopen runs");
    assert_eq!(status.code(), Some(70));
    let mut child = sandbox.start(&[]);
    drop(child.stdout.take());
    assert_eq!(wait_for(child).code, 141, "as a command that SIGPIPE ended");
}
