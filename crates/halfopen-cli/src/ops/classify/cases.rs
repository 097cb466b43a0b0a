//! The form of labelled outcomes, and what each becomes.

use std::collections::BTreeMap;
use std::time::Duration;

use halfopen_core::classify::Classifier;
use halfopen_core::outcome::{CommandOutcome, Excerpt, Exit, HttpOutcome, Reached};
use halfopen_core::time::{ReadAt, Timestamp};
use halfopen_core::verdict::Verdict;
use serde::Deserialize;

/// One outcome of a file, with what it is expected to be.
#[derive(Debug, Deserialize)]
pub(super) struct Case {
    /// Its name.
    #[serde(default)]
    pub(super) id: String,
    /// `cli` or `http`; without it, `http` if there is a status.
    #[serde(default)]
    pub(super) kind: Option<String>,
    /// The program or service.
    #[serde(default)]
    pub(super) tool: String,
    #[serde(default)]
    exit_code: Option<i32>,
    #[serde(default)]
    stdout: String,
    #[serde(default)]
    stderr: String,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    body: String,
    #[serde(default)]
    now: Option<String>,
    #[serde(default)]
    local_tz: Option<String>,
    /// What it means.
    #[serde(default)]
    pub(super) expect: Option<Expect>,
}

/// What an outcome is expected to mean.
#[derive(Debug, Deserialize)]
pub(super) struct Expect {
    pub(super) class: String,
    #[serde(default)]
    also_ok: Vec<String>,
    #[serde(default)]
    wait_s: Option<f64>,
    #[serde(default)]
    also_wait_s: Waits,
    #[serde(default)]
    wait_until: Option<String>,
    #[serde(default)]
    wait_optional: bool,
}

/// No further wait, one, or several, in seconds.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
enum Waits {
    #[default]
    None,
    One(f64),
    Several(Vec<f64>),
}

impl Waits {
    fn as_slice(&self) -> &[f64] {
        match self {
            Self::None => &[],
            Self::One(wait) => std::slice::from_ref(wait),
            Self::Several(waits) => waits,
        }
    }
}

/// How far a hint may be off, in seconds.
const TOLERANCE_S: f64 = 1.0;

impl Case {
    /// Returns whether the outcome is a command's.
    pub(super) fn is_command(&self) -> bool {
        match self.kind.as_deref() {
            Some("http") => false,
            Some(_) => true,
            None => self.status.is_none(),
        }
    }

    /// Returns the instant at which the outcome is read: `now`, else the answer's `Date`, else `clock`.
    pub(super) fn read_at(&self, clock: Timestamp) -> ReadAt {
        let date = || {
            let (_, value) = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("date"))?;
            let zoned = jiff::fmt::rfc2822::parse(value.as_str()?).ok()?;
            Some(zoned.timestamp().as_millisecond())
        };
        let millis = self.now.as_deref().and_then(instant_ms).or_else(date);
        let at = ReadAt::utc(millis.map_or(clock, Timestamp::from_millis));
        let zone = self.local_tz.as_deref().and_then(|name| jiff::tz::TimeZone::get(name).ok());
        ReadAt { zone: zone.unwrap_or_else(jiff::tz::TimeZone::system), ..at }
    }

    /// Judges the outcome; one whose exit code is not known, with 0 and with 1.
    pub(super) fn judge(&self, classifier: &Classifier, at: &ReadAt) -> Vec<Verdict> {
        if self.is_command() {
            let codes = self.exit_code.map_or_else(|| vec![0, 1], |code| vec![code]);
            return codes
                .into_iter()
                .map(|code| {
                    let outcome = CommandOutcome {
                        exit: Exit::Code(code),
                        stdout: Excerpt::whole(self.stdout.as_bytes()),
                        stderr: Excerpt::whole(self.stderr.as_bytes()),
                        elapsed: Duration::ZERO,
                    };
                    classifier.command(&outcome, at)
                })
                .collect();
        }
        let headers: Vec<(&str, String)> = self
            .headers
            .iter()
            .flat_map(|(name, value)| match value {
                serde_json::Value::Array(list) => list.iter().map(|v| (name.as_str(), plain(v))).collect(),
                other => vec![(name.as_str(), plain(other))],
            })
            .collect();
        let pairs: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let status = self.status.unwrap_or(0);
        let outcome = HttpOutcome {
            method: self.method.as_deref().unwrap_or("GET"),
            status,
            headers: &pairs,
            body: Excerpt::whole(self.body.as_bytes()),
            reached: if status == 0 { Reached::Unknown } else { Reached::Answered },
            elapsed: Duration::ZERO,
        };
        vec![classifier.http(&outcome, at)]
    }
}

impl Expect {
    /// Returns whether the class is right.
    pub(super) fn class_is_met(&self, verdict: &Verdict) -> bool {
        let class = verdict.class.as_str();
        self.class == class || self.also_ok.iter().any(|also| also == class)
    }

    /// Returns whether the hint is right.
    pub(super) fn hint_is_met(&self, verdict: &Verdict, at: &ReadAt) -> bool {
        let until = self.wait_until.as_deref().and_then(instant_ms);
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of this age are exact in an f64")]
        let until = until.map(|until| (until - at.now.as_millis()).max(0) as f64 / 1000.0);
        let stated = [self.wait_s, until];
        let mut wanted = stated.iter().flatten().chain(self.also_wait_s.as_slice()).peekable();
        match &verdict.hint {
            None => self.wait_optional || wanted.peek().is_none(),
            Some(_) if wanted.peek().is_none() => self.wait_optional,
            Some(hint) => wanted.any(|wanted| (hint.wait.as_secs_f64() - wanted).abs() <= TOLERANCE_S),
        }
    }

    /// Returns the expected wait, to be shown.
    pub(super) fn wait(&self) -> String {
        match (self.wait_s, &self.wait_until) {
            (Some(seconds), _) => format!("{seconds} s"),
            (None, Some(until)) => format!("until {until}"),
            (None, None) => "none".to_owned(),
        }
    }
}

fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn instant_ms(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

/// A response as it is split: status, headers, body.
type Response<'r> = (u16, Vec<(String, String)>, &'r [u8]);

/// Splits a raw HTTP response.
pub(super) fn split_response(raw: &[u8]) -> Option<Response<'_>> {
    if !raw.starts_with(b"HTTP/") {
        return None;
    }
    let (head, body) = match find(raw, b"\r\n\r\n").map(|at| (at, 4)).or_else(|| find(raw, b"\n\n").map(|at| (at, 2))) {
        Some((at, len)) => (&raw[..at], &raw[at + len..]),
        None => (raw, &raw[raw.len()..]),
    };
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let status = lines.next()?.split_whitespace().nth(1)?.parse().ok()?;
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect();
    Some((status, headers, body))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_response_is_split() {
        let (status, headers, body) = split_response(b"HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\n\r\nslow").unwrap();
        assert_eq!((status, headers, body), (429, vec![("Retry-After".into(), "7".into())], &b"slow"[..]));
        assert!(split_response(b"{}").is_none());
    }
}
