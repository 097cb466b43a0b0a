//! The stored form of what a job sends and of what came back, form 1: one JSON object without the part that may be
//! large, which a store keeps beside it as it is.
//!
//! Bytes that are no text (a file name, a header's value) are written as lists of numbers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::SnapshotError;
use crate::job::{CommandRequest, HttpRequest, JobRequest, JobResult};
use crate::outcome::Exit;
use crate::time::millis;

/// The form that is written.
const FORM: u32 = 1;

/// Bytes, as text where they are text.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Bytes {
    Text(String),
    Raw(Vec<u8>),
}

impl Bytes {
    fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Raw(bytes.to_vec()),
        }
    }

    fn into_vec(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Raw(bytes) => bytes,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct StoredRequest {
    form: u32,
    #[serde(flatten)]
    what: StoredCall,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredCall {
    Http {
        method: String,
        target: String,
        headers: Vec<(String, Bytes)>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        credential: Option<String>,
    },
    Command {
        host: String,
        user: u32,
        executable: Bytes,
        argv: Vec<Bytes>,
        cwd: Bytes,
        env: Vec<(Bytes, Bytes)>,
        env_from: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Bytes>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    },
}

#[derive(Serialize, Deserialize)]
struct StoredResult {
    form: u32,
    #[serde(flatten)]
    what: StoredAnswer,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredAnswer {
    Http {
        status: u16,
        headers: Vec<(String, Bytes)>,
        cut: bool,
    },
    Command {
        exit: StoredExit,
        cut: bool,
        took_ms: u64,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        stderr: String,
    },
    Stated(String),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredExit {
    Code(i32),
    Signal(i32),
    TimedOut,
    Cancelled,
    NotFound,
    NotExecutable,
}

/// Returns the stored form of a request, and apart from it the part that may be large.
///
/// # Panics
///
/// Never: the stored form has no map keys and no numbers that JSON cannot carry.
#[must_use]
pub fn encode_request(mut request: JobRequest) -> (String, Vec<u8>) {
    let body = request.take_body();
    let what = match request {
        JobRequest::Http(http) => StoredCall::Http {
            method: http.method,
            target: http.target,
            headers: pairs_of(&http.headers),
            credential: http.credential,
        },
        JobRequest::Command(command) => StoredCall::Command {
            host: command.host,
            user: command.user,
            executable: Bytes::of(&command.executable),
            argv: command.argv.iter().map(|arg| Bytes::of(arg)).collect(),
            cwd: Bytes::of(&command.cwd),
            env: command.env.iter().map(|(name, value)| (Bytes::of(name), Bytes::of(value))).collect(),
            env_from: command.env_from,
            output: command.output.as_deref().map(Bytes::of),
            profile: command.profile,
            timeout_ms: command.timeout.map(millis),
        },
    };
    let text = serde_json::to_string(&StoredRequest { form: FORM, what });
    (text.expect("plain structs of numbers and strings are always JSON"), body)
}

/// Reads a stored request.
///
/// # Errors
///
/// As [`super::decode_job`].
pub fn decode_request(text: &str, body: Vec<u8>) -> Result<JobRequest, SnapshotError> {
    let stored = super::read_form(text, |stored: &StoredRequest| stored.form, FORM)?;
    let mut request = match stored.what {
        StoredCall::Http { method, target, headers, credential } => {
            JobRequest::Http(HttpRequest { method, target, headers: pairs(headers), credential, body: Vec::new() })
        }
        StoredCall::Command { host, user, executable, argv, cwd, env, env_from, output, profile, timeout_ms } => {
            JobRequest::Command(CommandRequest {
                host,
                user,
                executable: executable.into_vec(),
                argv: argv.into_iter().map(Bytes::into_vec).collect(),
                cwd: cwd.into_vec(),
                env: env.into_iter().map(|(name, value)| (name.into_vec(), value.into_vec())).collect(),
                env_from,
                stdin: Vec::new(),
                output: output.map(Bytes::into_vec),
                profile,
                timeout: timeout_ms.map(Duration::from_millis),
            })
        }
    };
    request.put_body(body);
    Ok(request)
}

/// Returns the stored form of a result, and apart from it the part that may be large.
///
/// # Panics
///
/// Never, as [`encode_request`].
#[must_use]
pub fn encode_result(mut result: JobResult) -> (String, Vec<u8>) {
    let body = result.take_body();
    let what = match result {
        JobResult::Http { status, headers, cut, .. } => StoredAnswer::Http { status, headers: pairs_of(&headers), cut },
        JobResult::Command { exit, stderr, cut, took, .. } => {
            StoredAnswer::Command { exit: exit_of(exit), cut, took_ms: millis(took), stderr }
        }
        JobResult::Stated(words) => StoredAnswer::Stated(words),
    };
    let text = serde_json::to_string(&StoredResult { form: FORM, what });
    (text.expect("plain structs of numbers and strings are always JSON"), body)
}

/// Reads a stored result.
///
/// # Errors
///
/// As [`super::decode_job`].
pub fn decode_result(text: &str, bytes: Vec<u8>) -> Result<JobResult, SnapshotError> {
    let stored = super::read_form(text, |stored: &StoredResult| stored.form, FORM)?;
    let mut result = match stored.what {
        StoredAnswer::Http { status, headers, cut } => {
            JobResult::Http { status, headers: pairs(headers), body: Vec::new(), cut }
        }
        StoredAnswer::Command { exit: ended, cut, took_ms, stderr } => JobResult::Command {
            exit: exit(&ended),
            stdout: Vec::new(),
            stderr,
            cut,
            took: Duration::from_millis(took_ms),
        },
        StoredAnswer::Stated(words) => JobResult::Stated(words),
    };
    result.put_body(bytes);
    Ok(result)
}

fn pairs_of(pairs: &[(String, Vec<u8>)]) -> Vec<(String, Bytes)> {
    pairs.iter().map(|(name, value)| (name.clone(), Bytes::of(value))).collect()
}

fn pairs(pairs: Vec<(String, Bytes)>) -> Vec<(String, Vec<u8>)> {
    pairs.into_iter().map(|(name, value)| (name, value.into_vec())).collect()
}

fn exit_of(exit: Exit) -> StoredExit {
    match exit {
        Exit::Code(code) => StoredExit::Code(code),
        Exit::Signal(signal) => StoredExit::Signal(signal),
        Exit::TimedOut => StoredExit::TimedOut,
        Exit::Cancelled => StoredExit::Cancelled,
        Exit::NotFound => StoredExit::NotFound,
        Exit::NotExecutable => StoredExit::NotExecutable,
    }
}

fn exit(stored: &StoredExit) -> Exit {
    match stored {
        StoredExit::Code(code) => Exit::Code(*code),
        StoredExit::Signal(signal) => Exit::Signal(*signal),
        StoredExit::TimedOut => Exit::TimedOut,
        StoredExit::Cancelled => Exit::Cancelled,
        StoredExit::NotFound => Exit::NotFound,
        StoredExit::NotExecutable => Exit::NotExecutable,
    }
}
