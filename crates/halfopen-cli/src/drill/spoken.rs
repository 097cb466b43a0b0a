//! Speaks as a misbehaving dependency does: answers in words that real tools print and real services send.
//!
//! A scenario says what the dependency means (`rate_limited`, wait 30 s); here it becomes what a caller sees of that, as
//! a command's exit code and output or as an HTTP answer, whichever the policy is for. The classifier then has to find
//! the meaning again, with the policy's own rules and pack. Nothing else in the drill knows a verdict that was not read.

use std::time::Duration;

use halfopen_core::classify::Classifier;
use halfopen_core::outcome::{CommandOutcome, Excerpt, Exit, HttpOutcome, Reached};
use halfopen_core::time::ReadAt;
use halfopen_core::verdict::Verdict;
use serde::Deserialize;

/// What a dependency means by an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Meaning {
    /// It worked.
    Ok,
    /// It worked, and the answer explains rate limits.
    OkExplainsLimits,
    /// No answer before the caller's timeout.
    Late,
    /// 429.
    RateLimited,
    /// 503.
    Overloaded,
    /// 500.
    ServerError,
    /// The connection is refused.
    NotReached,
    /// A subscription's window is used up.
    UsageLimit,
    /// The credit is used up.
    QuotaExhausted,
    /// The credential was revoked.
    Auth,
    /// The call itself is wrong.
    InvalidRequest,
    /// A success that breaks off with an error event.
    ErrorInStream,
    /// The command dies by a signal that nobody here sent.
    Crash,
}

/// How a wait is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WrittenAs {
    /// In seconds.
    #[default]
    Seconds,
    /// As a date.
    Date,
}

/// A stated wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stated {
    /// Seconds from the answer; negative is in the past.
    pub(super) seconds: f64,
    /// How it is written.
    pub(super) written_as: WrittenAs,
}

/// How the dependency is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tongue {
    /// A command.
    Command,
    /// HTTP.
    Http,
}

/// Whether the text of a success is read as if it were a failure. Always `No`, except under a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SuccessSearched {
    /// It is not, as it must be.
    No,
    /// It is.
    Yes,
}

/// What a caller sees.
#[derive(Clone, Debug)]
pub(super) struct Said {
    exit: Exit,
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
    reached: Reached,
}

impl Said {
    /// Returns the status, the fields and the body of an HTTP answer that says this.
    pub(super) fn http(&self) -> (u16, &[(&'static str, String)], String) {
        (self.status, &self.headers, self.body_over_http())
    }

    fn body_over_http(&self) -> String {
        let is_stream = self.headers.iter().any(|(_, value)| value == "text/event-stream");
        if is_stream { format!("event: error\ndata: {}\n", self.body) } else { self.body.clone() }
    }

    /// Returns how a command ends that says this.
    pub(super) fn exit(&self) -> Exit {
        self.exit
    }
}

/// Returns what a caller sees of `meaning` at the wall clock time `wall_ms`.
pub(super) fn said(meaning: Meaning, stated: Option<Stated>, wall_ms: i64) -> Said {
    let (exit, status, body, reached) = match meaning {
        Meaning::Ok => (Exit::Code(0), 200, "{\"text\":\"done\"}\n", Reached::Answered),
        Meaning::OkExplainsLimits => (Exit::Code(0), 200, EXPLAINS_LIMITS, Reached::Answered),
        Meaning::Late => (Exit::TimedOut, 0, "operation timed out", Reached::Unknown),
        Meaning::RateLimited => (
            Exit::Code(22),
            429,
            "{\"error\":{\"type\":\"rate_limit_error\",\"message\":\"Too many requests\"}}\n",
            Reached::Answered,
        ),
        Meaning::Overloaded => (Exit::Code(22), 503, "", Reached::Answered),
        Meaning::ServerError => (Exit::Code(22), 500, "", Reached::Answered),
        Meaning::NotReached => (Exit::Code(7), 0, NOT_REACHED, Reached::NotSent),
        Meaning::UsageLimit => (
            Exit::Code(1),
            429,
            "{\"error\":{\"type\":\"usage_limit_reached\",\"message\":\"You have reached your usage limit.\"}}\n",
            Reached::Answered,
        ),
        Meaning::QuotaExhausted => (
            Exit::Code(1),
            429,
            "{\"error\":{\"code\":\"insufficient_quota\",\"message\":\"You exceeded your current quota, please check \
             your plan and billing details.\"}}\n",
            Reached::Answered,
        ),
        Meaning::Auth => (
            Exit::Code(1),
            401,
            "{\"error\":{\"type\":\"authentication_error\",\"message\":\"invalid x-api-key\"}}\n",
            Reached::Answered,
        ),
        Meaning::InvalidRequest => (
            Exit::Code(1),
            400,
            "{\"error\":{\"type\":\"invalid_request_error\",\"message\":\"the image is not readable\"}}\n",
            Reached::Answered,
        ),
        Meaning::ErrorInStream => (
            Exit::Code(0),
            200,
            "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n",
            Reached::Answered,
        ),
        Meaning::Crash => (Exit::Signal(11), 0, "", Reached::Unknown),
    };
    let mut headers = vec![("date", date(wall_ms))];
    if meaning == Meaning::ErrorInStream {
        headers.push(("content-type", "text/event-stream".to_owned()));
    }
    if let Some(stated) = stated {
        headers.push(("retry-after", stated.written(wall_ms)));
    }
    Said { exit, status, headers, body: body.to_owned(), reached }
}

const NOT_REACHED: &str = "curl: (7) Failed to connect to 127.0.0.1 port 9 after 0 ms: Connection refused\n";

/// An answer about rate limits, as an agent gives it. It is a success.
const EXPLAINS_LIMITS: &str = "HTTP/1.1 429 Too Many Requests\nretry-after: 3600\n\nmeans that a server asks you to \
                               wait an hour; the body may read {\"error\":{\"type\":\"rate_limit_error\"}}.\n";

impl Stated {
    fn written(self, wall_ms: i64) -> String {
        match self.written_as {
            WrittenAs::Seconds => format!("{:.0}", self.seconds.ceil()),
            #[expect(clippy::cast_possible_truncation, reason = "scenarios state less than a century")]
            // A date has no fractions; one that is cut would be earlier than what is meant.
            WrittenAs::Date => date(wall_ms.saturating_add((self.seconds * 1000.0) as i64 + 999)),
        }
    }
}

/// Returns a date as HTTP writes it (RFC 9110 section 5.6.7).
fn date(wall_ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(wall_ms).unwrap_or_default();
    at.to_zoned_datetime(jiff::tz::TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// Reads what a dependency said, as the surfaces do.
pub(super) fn judged(
    classifier: &Classifier,
    tongue: Tongue,
    said: &Said,
    took: Duration,
    at: &ReadAt,
    searched: SuccessSearched,
) -> Verdict {
    let as_failure = searched == SuccessSearched::Yes && said.exit == Exit::Code(0);
    match tongue {
        Tongue::Http => {
            let headers: Vec<(&str, &str)> = said.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let body = said.body_over_http();
            let outcome = HttpOutcome {
                method: "POST",
                status: if as_failure { 500 } else { said.status },
                headers: &headers,
                body: Excerpt::whole(body.as_bytes()),
                reached: said.reached,
                elapsed: took,
            };
            classifier.http(&outcome, at)
        }
        Tongue::Command => {
            let spoken = said.printed();
            let printed = spoken.as_bytes();
            let success = said.exit == Exit::Code(0);
            let (stdout, stderr) = if success && !as_failure { (printed, &b""[..]) } else { (&b""[..], printed) };
            let outcome = CommandOutcome {
                exit: if as_failure { Exit::Code(1) } else { said.exit },
                stdout: Excerpt::whole(stdout),
                stderr: Excerpt::whole(stderr),
                elapsed: took,
            };
            classifier.command(&outcome, at)
        }
    }
}

impl Said {
    /// Returns what a command prints of it, as `curl --fail-with-body -i` and most agents do.
    fn printed(&self) -> String {
        if self.status < 400 {
            return self.body.clone();
        }
        let mut text = format!("HTTP/1.1 {} {}\n", self.status, reason(self.status));
        for (name, value) in self.headers.iter().filter(|(name, _)| *name == "retry-after") {
            text.push_str(&format!("{name}: {value}\n"));
        }
        text.push('\n');
        text.push_str(&self.body);
        text
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        429 => "Too Many Requests",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfopen_core::time::Timestamp;
    use halfopen_core::verdict::Class;
    use test_case::test_case;

    const NOON_MS: i64 = 1_772_452_800_000;

    /// What is meant is what is understood, by either surface and by every pack that a script is likely to have.
    #[test_case(Meaning::Ok, Class::Success)]
    #[test_case(Meaning::OkExplainsLimits, Class::Success)]
    #[test_case(Meaning::Late, Class::Timeout)]
    #[test_case(Meaning::RateLimited, Class::RateLimited)]
    #[test_case(Meaning::Overloaded, Class::Overloaded)]
    #[test_case(Meaning::ServerError, Class::ServerError)]
    #[test_case(Meaning::NotReached, Class::ConnectionFailure)]
    #[test_case(Meaning::UsageLimit, Class::UsageLimit)]
    #[test_case(Meaning::QuotaExhausted, Class::QuotaExhausted)]
    #[test_case(Meaning::Auth, Class::Auth)]
    #[test_case(Meaning::InvalidRequest, Class::InvalidRequest)]
    fn every_meaning_is_understood(meaning: Meaning, class: Class) {
        let at = ReadAt::utc(Timestamp::from_millis(NOON_MS));
        for pack in ["generic", "claude-code", "codex", "gemini-cli", "openai", "anthropic"] {
            let classifier = Classifier::new(pack, Vec::new()).unwrap();
            for tongue in [Tongue::Command, Tongue::Http] {
                let said = said(meaning, None, NOON_MS);
                let verdict = judged(&classifier, tongue, &said, Duration::ZERO, &at, SuccessSearched::No);
                assert_eq!(verdict.class, class, "{pack} {tongue:?}: {verdict:?}");
            }
        }
    }

    #[test_case(WrittenAs::Seconds)]
    #[test_case(WrittenAs::Date)]
    fn a_stated_wait_is_read_back(written_as: WrittenAs) {
        let at = ReadAt::utc(Timestamp::from_millis(NOON_MS));
        let classifier = Classifier::new("generic", Vec::new()).unwrap();
        for tongue in [Tongue::Command, Tongue::Http] {
            let said = said(Meaning::Overloaded, Some(Stated { seconds: 30.0, written_as }), NOON_MS);
            let verdict = judged(&classifier, tongue, &said, Duration::ZERO, &at, SuccessSearched::No);
            assert_eq!(verdict.hint.unwrap().wait, Duration::from_secs(30), "{tongue:?}");
        }
    }
}
