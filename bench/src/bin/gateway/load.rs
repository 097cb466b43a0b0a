//! Puts load on a door and returns what its callers felt: wrk for requests, the bench's own reader for event streams.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::peers::CALLERS_CORE;

/// What wrk measured in one cell.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Load {
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    /// Requests that got no answer.
    pub(crate) broken: u64,
    pub(crate) not_2xx: u64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

/// What the readers of event streams measured in one cell.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Streams {
    pub(crate) asked: u64,
    pub(crate) read: u64,
    pub(crate) events: u64,
    pub(crate) first_p50_ms: f64,
    pub(crate) first_p99_ms: f64,
    pub(crate) whole_p50_ms: f64,
    pub(crate) gap_p50_ms: f64,
    pub(crate) failure: Option<String>,
}

/// Sends requests from `callers` connections for `seconds`, each as soon as the one before is answered.
pub(crate) fn load(port: u16, path: &str, callers: usize, seconds: u64, script: &Path) -> Result<Load> {
    let output = Command::new("taskset")
        .args(["-c", &CALLERS_CORE.to_string(), "wrk", "-t1", "--timeout", "20s"])
        .args([format!("-c{callers}"), format!("-d{seconds}s"), "-s".to_owned(), script.display().to_string()])
        .arg(format!("http://127.0.0.1:{port}{path}"))
        .output()
        .context("wrk does not start")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let Some(line) = said.lines().find_map(|line| line.strip_prefix("DONE ")) else {
        bail!("wrk measured nothing: {said}{}", String::from_utf8_lossy(&output.stderr));
    };
    let load: Load = serde_json::from_str(line).with_context(|| format!("wrk printed {line}"))?;
    if load.requests == 0 {
        bail!("not one request was answered in {seconds} s by {callers} callers");
    }
    Ok(load)
}

/// Reads `rounds` event streams one after the other on each of `streams` connections.
pub(crate) fn stream(reader: &Path, port: u16, path: &str, streams: usize, rounds: usize) -> Result<Streams> {
    let output = Command::new("taskset")
        .args(["-c", &CALLERS_CORE.to_string()])
        .arg(reader)
        .arg(format!("http://127.0.0.1:{port}{path}"))
        .args([streams.to_string(), rounds.to_string()])
        .output()
        .context("sse_client does not start")?;
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("sse_client failed: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Sends one request and returns the head of the answer.
pub(crate) fn ask(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\
         connection: close\r\n\r\n{{}}"
    )?;
    let mut answer = Vec::new();
    stream.take(1 << 20).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    Ok(answer.split("\r\n\r\n").next().unwrap_or_default().to_owned())
}
