//! The supervisor with real children: small shell scripts, bounded in time by what is tested.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::Pid;

use super::source::Again;
use super::*;

#[derive(Default)]
struct Ears {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Listener for Ears {
    fn stdout(&mut self, piece: &[u8]) {
        self.stdout.extend_from_slice(piece);
    }

    fn stderr(&mut self, piece: &[u8]) {
        self.stderr.extend_from_slice(piece);
    }

    fn tick(&mut self) -> Option<Instant> {
        None
    }
}

const UNBOUNDED: Limits = Limits { timeout: None, first_byte: None, idle: None, grace: Duration::from_secs(2) };

fn words(command: &[&str]) -> Vec<OsString> {
    command.iter().map(OsString::from).collect()
}

fn run_with(command: &[&str], limits: Limits, source: &mut Source) -> (Ended, Ears) {
    let command = words(command);
    let spec = Spec {
        command: &command,
        env: &[],
        elsewhere: None,
        attended: Attended::No,
        out: Out::Held { bytes_max: 1 << 30 },
        limits,
    };
    let mut signals = Signals::listen(Attended::No).unwrap();
    let mut ears = Ears::default();
    let ended = run(&spec, source, &mut signals, &mut ears).unwrap();
    (ended, ears)
}

fn sh(script: &str) -> (Ended, Ears) {
    run_with(&["sh", "-c", script], UNBOUNDED, &mut Source::empty())
}

fn held(ended: &Ended) -> u64 {
    match &ended.stdout {
        Stdout::Held { held, .. } => held.bytes(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn output_is_held_and_heard_and_the_code_is_the_childs() {
    let (ended, ears) = sh("echo out; exit 3");
    assert_eq!(ended.exit, Exit::Code(3));
    assert_eq!(ears.stdout, b"out\n");
    assert_eq!(held(&ended), 4);
}

#[test]
fn s020_a_child_that_a_signal_killed_says_which() {
    for (name, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11)] {
        assert_eq!(sh(&format!("kill -{name} $$")).0.exit, Exit::Signal(number));
    }
}

#[test]
fn a_command_that_is_not_there_or_cannot_run_is_told_apart() {
    let nothing = &mut Source::empty();
    assert_eq!(run_with(&["/nowhere/to/be/found"], UNBOUNDED, nothing).0.exit, Exit::NotFound);
    assert_eq!(run_with(&["/"], UNBOUNDED, nothing).0.exit, Exit::NotExecutable);
}

#[test]
fn a_script_without_a_first_line_runs_as_it_would_in_a_shell() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plain");
    std::fs::write(&path, "echo \"plain $1\"\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (ended, ears) = run_with(&[path.to_str().unwrap(), "words"], UNBOUNDED, &mut Source::empty());
    assert_eq!((ended.exit, ears.stdout.as_slice()), (Exit::Code(0), b"plain words\n".as_slice()));
}

#[test]
fn s021_a_timeout_ends_the_whole_group_and_returns_in_time() {
    let limits = Limits { timeout: Some(Duration::from_millis(300)), grace: Duration::from_millis(300), ..UNBOUNDED };
    let began = Instant::now();
    // The helper ignores SIGTERM and holds the pipe.
    let script = "trap '' TERM; sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & wait";
    let (ended, ears) = run_with(&["sh", "-c", script], limits, &mut Source::empty());
    assert_eq!(ended.exit, Exit::TimedOut);
    assert!(began.elapsed() < Duration::from_secs(20), "took {:?}", began.elapsed());
    let helper: i32 = String::from_utf8(ears.stdout).unwrap().trim().parse().unwrap();
    let helper = Pid::from_raw(helper).unwrap();
    // Gone, or a zombie that its new parent has not reaped yet.
    let alive = || {
        std::fs::read_to_string(format!("/proc/{}/stat", helper.as_raw_pid()))
            .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z'))
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    while alive() {
        assert!(Instant::now() < deadline, "a process of the group survived");
        std::thread::yield_now();
    }
}

#[test]
fn silence_and_a_late_first_byte_end_a_child_as_a_timeout_does() {
    let soon = Some(Duration::from_millis(200));
    let nothing = &mut Source::empty();
    let first = Limits { first_byte: soon, ..UNBOUNDED };
    assert_eq!(run_with(&["sleep", "60"], first, nothing).0.exit, Exit::TimedOut);
    let idle = Limits { idle: soon, ..UNBOUNDED };
    let (ended, ears) = run_with(&["sh", "-c", "echo a; exec sleep 60"], idle, nothing);
    assert_eq!((ended.exit, ears.stdout.as_slice()), (Exit::TimedOut, b"a\n".as_slice()));
    assert_eq!(run_with(&["sh", "-c", "echo a; sleep 0.4"], first, nothing).0.exit, Exit::Code(0));
}

#[test]
fn s131_a_helper_that_holds_the_pipe_does_not_delay_the_end_and_lives_on() {
    let began = Instant::now();
    let (ended, ears) = sh("sleep 600 & echo $!");
    assert_eq!(ended.exit, Exit::Code(0));
    assert!(began.elapsed() < Duration::from_secs(10), "took {:?}", began.elapsed());
    let helper = Pid::from_raw(String::from_utf8(ears.stdout).unwrap().trim().parse().unwrap()).unwrap();
    assert!(rustix::process::test_kill_process(helper).is_ok(), "the helper is left alone");
    rustix::process::kill_process(helper, Signal::KILL).unwrap();
}

#[test]
fn a_helper_that_never_stops_writing_does_not_delay_the_end() {
    let began = Instant::now();
    let (ended, ears) = sh("yes & echo $! >&2; exit 4");
    assert_eq!(ended.exit, Exit::Code(4));
    assert!(began.elapsed() < Duration::from_secs(20), "took {:?}", began.elapsed());
    let helper: i32 = String::from_utf8(ears.stderr).unwrap().trim().parse().unwrap();
    let _ = rustix::process::kill_process(Pid::from_raw(helper).unwrap(), Signal::KILL);
}

#[test]
fn s201_the_last_line_before_the_end_is_never_missing() {
    for _ in 0..50 {
        let (_, ears) = sh("i=0; while [ $i -lt 200 ]; do echo line $i; i=$((i+1)); done");
        assert!(ears.stdout.ends_with(b"line 199\n"));
    }
}

#[test]
fn s198_characters_that_a_read_cuts_in_two_arrive_whole() {
    let (_, ears) = sh("i=0; printf x; while [ $i -lt 9000 ]; do printf '€🦀漢'; i=$((i+1)); done");
    assert_eq!(ears.stdout.len(), 1 + 9000 * 10);
    assert!(String::from_utf8(ears.stdout).unwrap().ends_with("€🦀漢"));
}

/// Returns a pipe with `text` in it and its writer.
fn piped(text: &[u8]) -> (OwnedFd, File) {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let mut write = File::from(write);
    write.write_all(text).unwrap();
    (read, write)
}

#[test]
fn s048_a_pipe_is_the_same_on_every_attempt() {
    let (read, write) = piped(b"payload\n");
    drop(write);
    let mut source = Source::of(read.as_fd(), 1 << 20).unwrap();
    for _ in 0..3 {
        assert_eq!(run_with(&["cat"], UNBOUNDED, &mut source).1.stdout, b"payload\n");
    }
    assert_eq!(source.again(), Again::Yes);
}

#[test]
fn a_pipe_is_read_only_as_far_as_the_child_reads() {
    let (read, write) = piped(b"first\nsecond\nthird\n");
    drop(write);
    let mut source = Source::of(read.as_fd(), 1 << 20).unwrap();
    // `read` of a shell takes a byte at a time from a pipe, so that the rest stays for others.
    let (_, ears) = run_with(&["sh", "-c", "read line; echo \"$line\""], UNBOUNDED, &mut source);
    assert_eq!(ears.stdout, b"first\n");
    drop(source);
    let mut rest = String::new();
    File::from(read).read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "second\nthird\n");
}

#[test]
fn an_attempt_that_read_half_does_not_cost_the_next_the_other_half() {
    let (read, write) = piped(b"first\nsecond\n");
    drop(write);
    let mut source = Source::of(read.as_fd(), 1 << 20).unwrap();
    run_with(&["sh", "-c", "read line"], UNBOUNDED, &mut source);
    assert_eq!(run_with(&["cat"], UNBOUNDED, &mut source).1.stdout, b"first\nsecond\n");
    assert_eq!(run_with(&["cat"], UNBOUNDED, &mut source).1.stdout, b"first\nsecond\n");
}

#[test]
fn long_input_flows_through_whole_and_past_the_bound_there_is_no_second_time() {
    for (kept_max, again) in [(1 << 24, Again::Yes), (1 << 17, Again::TooLong)] {
        let (read, mut write) = piped(b"");
        let text: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 253) as u8).collect();
        let copy = text.clone();
        let writer = std::thread::spawn(move || write.write_all(&copy));
        let mut source = Source::of(read.as_fd(), kept_max).unwrap();
        let (_, ears) = run_with(&["cat"], UNBOUNDED, &mut source);
        assert!(ears.stdout == text, "{} bytes arrived", ears.stdout.len());
        writer.join().unwrap().unwrap();
        assert_eq!(source.again(), again);
    }
}

#[test]
fn a_socket_is_the_same_on_every_attempt() {
    let (read, mut write) = std::os::unix::net::UnixStream::pair().unwrap();
    let text = vec![b'x'; 20_000];
    write.write_all(&text).unwrap();
    drop(write);
    let mut source = Source::of(read.as_fd(), 1 << 20).unwrap();
    for _ in 0..2 {
        assert!(run_with(&["cat"], UNBOUNDED, &mut source).1.stdout == text);
    }
}

#[test]
fn a_file_is_rewound_to_where_it_stood() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"head\nbody\n").unwrap();
    file.seek(std::io::SeekFrom::Start(5)).unwrap();
    let mut source = Source::of(file.as_fd(), 1 << 20).unwrap();
    for _ in 0..2 {
        assert_eq!(run_with(&["cat"], UNBOUNDED, &mut source).1.stdout, b"body\n");
    }
}

#[test]
fn a_child_that_does_not_read_is_not_waited_for() {
    let (read, write) = piped(&[b'x'; 60_000]);
    let mut source = Source::of(read.as_fd(), 1 << 20).unwrap();
    assert_eq!(run_with(&["true"], UNBOUNDED, &mut source).0.exit, Exit::Code(0));
    drop(write);
}
