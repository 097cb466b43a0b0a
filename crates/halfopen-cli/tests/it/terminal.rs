//! S200: the command sees a terminal exactly where the caller has one.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::pty::OpenptFlags;

use crate::sandbox::{LIMITED, Sandbox, alive, until};

const TELLS: &str =
    "for fd in 0 1 2; do if [ -t $fd ]; then echo $fd=tty >> $D/seen; else echo $fd=no >> $D/seen; fi; done";

/// Returns a terminal: the person's side and the caller's.
fn terminal() -> (File, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let person = rustix::pty::openpt(flags).expect("a terminal");
    rustix::pty::grantpt(&person).expect("a terminal");
    rustix::pty::unlockpt(&person).expect("a terminal");
    let name = rustix::pty::ptsname(&person, Vec::new()).expect("a terminal");
    let open = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let callers = rustix::fs::open(name.as_c_str(), open, rustix::fs::Mode::empty()).expect("a terminal");
    (File::from(person), callers)
}

/// Reads what a person sees until the terminal is closed.
fn screen(person: &mut File) -> String {
    let mut seen = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(read) = person.read(&mut piece) {
        if read == 0 {
            break;
        }
        seen.extend_from_slice(&piece[..read]);
    }
    String::from_utf8_lossy(&seen).replace("\r\n", "\n")
}

fn copy(terminal: &OwnedFd) -> Stdio {
    Stdio::from(terminal.try_clone().expect("a descriptor"))
}

#[test]
fn with_a_terminal_everywhere_the_command_sees_one_everywhere() {
    let sandbox = Sandbox::new();
    sandbox.tool(&format!("{TELLS}; echo out; echo err >&2; echo out again"));
    let (mut person, callers) = terminal();
    let mut command = sandbox.run_of(&[]);
    command.stdin(copy(&callers)).stdout(copy(&callers)).stderr(copy(&callers));
    let mut child = command.spawn().expect("halfopen starts");
    drop((command, callers));
    // S201: on one terminal the order is that of writing.
    assert_eq!(screen(&mut person), "out\nerr\nout again\n");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert_eq!(sandbox.text("seen"), "0=tty\n1=tty\n2=tty\n");
}

#[test]
fn where_output_is_captured_the_command_sees_no_terminal() {
    let sandbox = Sandbox::new();
    sandbox.tool(TELLS);
    let (mut person, callers) = terminal();
    let mut command = sandbox.run_of(&[]);
    command.stdin(copy(&callers)).stdout(Stdio::piped()).stderr(copy(&callers));
    let mut child = command.spawn().expect("halfopen starts");
    drop((command, callers));
    assert_eq!(screen(&mut person), "");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert_eq!(sandbox.text("seen"), "0=tty\n1=no\n2=tty\n");
}

/// What a person sees is heard as well, and a failed attempt is repeated before their eyes.
#[test]
fn a_limit_on_a_terminal_is_heard_and_waited_for() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {base_ms: 1}\ndrain: {rate_per_sec: 50, max_per_sec: 50}")
        .tool(&format!("[ -e $D/once ] && {{ echo good; exit 0; }}; touch $D/once; MS=300; {LIMITED}"));
    let (mut person, callers) = terminal();
    let mut command = sandbox.run_of(&[]);
    command.stdin(copy(&callers)).stdout(copy(&callers)).stderr(copy(&callers));
    let mut child = command.spawn().expect("halfopen starts");
    drop((command, callers));
    let seen = screen(&mut person);
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "{seen}");
    assert!(seen.contains("rate_limited") && seen.contains("waiting"), "a countdown: {seen}");
    assert!(seen.ends_with("good\n"), "{seen}");
}

/// A question on the terminal is answered on the terminal.
#[test]
fn a_prompt_works() {
    let sandbox = Sandbox::new();
    sandbox.tool("printf 'name? '; read name; echo \"hello $name\"");
    let (mut person, callers) = terminal();
    let mut command = sandbox.run_of(&[]);
    command.stdin(copy(&callers)).stdout(copy(&callers)).stderr(copy(&callers));
    let mut child = command.spawn().expect("halfopen starts");
    drop((command, callers));
    let mut question = [0; 6];
    person.read_exact(&mut question).expect("the question comes before the answer");
    assert_eq!(&question, b"name? ");
    person.write_all(b"ada\n").expect("an answer");
    assert!(screen(&mut person).contains("hello ada"));
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

/// Starts `halfopen run -- tool` as the foreground job of a terminal of its own.
fn in_the_foreground(sandbox: &Sandbox, callers: &OwnedFd) -> std::process::Command {
    let like = sandbox.halfopen::<&str>(&[]);
    let mut command = std::process::Command::new("setsid");
    command.args(["--ctty", "--wait", env!("CARGO_BIN_EXE_halfopen"), "run", "--", "tool"]).env_clear();
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(sandbox.path(""));
    command.stdin(copy(callers)).stdout(copy(callers)).stderr(copy(callers));
    command
}

/// Ctrl-C on the terminal ends the command and is nobody's fault; a terminal that the command left raw is restored.
#[test]
fn a_key_ends_the_command_and_the_terminal_is_as_before() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("circuit: {open_after_failures: 1}")
        .tool("stty -echo; echo $$ > $D/pid; echo ready; exec sleep 300");
    let (mut person, callers) = terminal();
    let mut child = in_the_foreground(&sandbox, &callers).spawn().expect("setsid starts");
    let mut ready = [0; 5];
    person.read_exact(&mut ready).expect("it speaks");
    until("it runs", || sandbox.text("pid").ends_with('\n'));
    person.write_all(b"\x03").expect("a key");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(!alive(sandbox.text("pid").trim()));
    let modes = rustix::termios::tcgetattr(&callers).expect("a terminal").local_modes;
    assert!(modes.contains(rustix::termios::LocalModes::ECHO), "echo is back");
    assert!(sandbox.transitions().is_empty());
}

/// A key that the command handles is the command's business: it is not ended.
#[test]
fn a_key_that_the_command_handles_does_not_end_it() {
    let sandbox = Sandbox::new();
    sandbox.tool("trap 'echo caught; exit 0' INT; echo ready; while :; do sleep 0.05; done");
    let (mut person, callers) = terminal();
    let mut child = in_the_foreground(&sandbox, &callers).spawn().expect("setsid starts");
    let mut ready = [0; 5];
    person.read_exact(&mut ready).expect("it speaks");
    person.write_all(b"\x03").expect("a key");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    drop(callers);
    assert!(screen(&mut person).contains("caught"));
}

/// A timeout at a terminal ends the helpers too, although they are in our own process group.
#[test]
fn a_timeout_at_a_terminal_ends_the_helpers_too() {
    let sandbox = Sandbox::new();
    sandbox.policy("timeout_ms: 500").tool("sleep 300 & echo $! > $D/helper; wait");
    let (person, callers) = terminal();
    let mut command = in_the_foreground(&sandbox, &callers);
    let mut child = command.env_remove("HALFOPEN_TIMEOUT").spawn().expect("setsid starts");
    assert_eq!(child.wait().expect("it ends").code(), Some(124));
    until("the helper is gone", || !alive(sandbox.text("helper").trim()));
    drop(person);
}
