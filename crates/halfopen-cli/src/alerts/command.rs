//! Tells a command: the alert, or the end of a job, as JSON on its standard input, its end as the answer.
//!
//! The command runs in a process group of its own and is killed with all it started when its time is over. It inherits no
//! variable whose name says that it holds a secret: a hook that posts a message needs none of the credentials of the
//! program that was guarded. What it prints is dropped.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use halfopen_core::verdict::Class;
use rustix::process::{Pid, Signal, kill_process_group};

use super::Outcome;
use super::message::Message;

/// Words in the name of a variable that holds a secret.
const SECRET_WORDS: [&str; 13] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "KEY",
    "CREDENTIAL",
    "AUTH",
    "COOKIE",
    "SESSION",
    "DSN",
    "WEBHOOK",
    "SMTP",
];

/// The shortest and the longest pause between two looks at whether it has ended.
const LOOK_FIRST: Duration = Duration::from_millis(2);
const LOOK_MAX: Duration = Duration::from_millis(50);

/// Runs the command with the alert; a code other than 0 means that it did not take it.
pub(super) fn tell(words: &[String], message: &Message, within: Duration) -> Outcome {
    let Some((program, arguments)) = words.split_first() else { return Outcome::never("the command is empty") };
    let until = Instant::now() + within;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, value)| !is_secret(&name.to_string_lossy(), &value.to_string_lossy())))
        .envs(message.variables())
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            return Outcome::not_now(Class::InvalidRequest, format!("command `{program}` cannot be run: {error}"));
        }
    };
    if let Some(mut stdin) = child.stdin.take() {
        // It fits into the pipe, so this never waits; a command that does not read it may have its reasons.
        let _ = stdin.write_all(message.cloud_event().as_bytes());
    }
    match ended(&mut child, until) {
        Some(status) if status.success() => Outcome::taken(),
        Some(status) => Outcome::not_now(Class::ServerError, format!("command `{program}` ended with {status}")),
        None => {
            let error = format!("command `{program}` did not end within {:.1} s and was killed", within.as_secs_f64());
            Outcome::not_now(Class::Timeout, error)
        }
    }
}

/// Waits for its end; kills its group when the time is over.
fn ended(child: &mut Child, until: Instant) -> Option<ExitStatus> {
    let mut pause = LOOK_FIRST;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < until => {}
            Ok(None) | Err(_) => {
                let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
                let _ = child.wait();
                return None;
            }
        }
        std::thread::sleep(pause.min(until.saturating_duration_since(Instant::now())));
        pause = (pause * 2).min(LOOK_MAX);
    }
}

/// Returns whether a variable looks as if it held a secret, by its name or by what a URL in it holds.
fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word)) || halfopen_core::redact::redact(value) != value
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("OPENAI_API_KEY", "x", true)]
    #[test_case("github_token", "x", true)]
    #[test_case("DATABASE_URL", "postgres://ops:hunter2@db/x", true; "by what it holds")]
    #[test_case("PATH", "/usr/bin:/bin", false)]
    #[test_case("HOME", "/home/ops", false)]
    #[test_case("LANG", "C.UTF-8", false)]
    fn s171_secret_looking_variables_stay_here(name: &str, value: &str, secret: bool) {
        assert_eq!(is_secret(name, value), secret);
    }
}
