//! S200: the command sees a terminal exactly where the caller has one.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::pty::OpenptFlags;

use crate::sandbox::{LIMITED, Sandbox};

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
