//! Writes an alert for its readers: a CloudEvent for programs, a line and a text for people.
//!
//! Instants of the steady clock are shown on the wall clock as it stands when the alert is written. Whatever came from a
//! dependency or an operator passes the redaction once more here, because from here it leaves the machine.

use halfopen_core::alert::{Kind, STORE};
use halfopen_core::redact;
use halfopen_core::snapshot::{AlertRecord, JobEndRecord};
use halfopen_core::time::ReadAt;
use serde_json::{Map, Value, json};

/// The longest body that is sent, in bytes: it must fit into a pipe.
const BODY_BYTES_MAX: usize = 32 * 1024;

/// Where it stands what to do, if the policy names no runbook of the dependency.
const RUNBOOKS: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/operate.md");

/// The last instant that is shown, in milliseconds since the unix epoch.
const LAST_SHOWN_MS: i64 = 253_402_000_000_000;

/// One alert, ready to be sent.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its name, the same in every delivery.
    pub id: String,
    /// Its incident's name.
    pub thread: String,
    /// Its type.
    pub kind: String,
    /// What it is about: a circuit, or a job.
    pub subject: String,
    /// The circuit.
    pub circuit: String,
    /// What happened, in one line.
    pub headline: String,
    /// When it is sent, in seconds since the unix epoch.
    pub sent_at_sec: i64,
    time: String,
    data: Map<String, Value>,
    /// What a command finds in its environment.
    variables: Vec<(&'static str, String)>,
}

impl Message {
    /// Writes an alert. `calls_spared` are the calls that were refused since the incident began, if that is known.
    #[must_use]
    pub fn of(alert: &AlertRecord, calls_spared: Option<u64>, clocks: &ReadAt) -> Self {
        let wall = |steady_ms: i64| {
            let ms = i128::from(steady_ms) - i128::from(clocks.now.as_millis()) + i128::from(clocks.wall_ms);
            let ms = i64::try_from(ms.clamp(0, i128::from(LAST_SHOWN_MS))).unwrap_or(0);
            format!("{:.3}", jiff::Timestamp::from_millisecond(ms).unwrap_or_default())
        };
        if let Some(end) = &alert.job {
            return Self::of_job(alert, end, clocks.wall_ms.div_euclid(1000), wall);
        }
        let headline = redact::line(&headline(alert));
        let event = &alert.event;
        let reason = event.reason.as_deref().map(redact::line);
        let evidence = alert.evidence.as_ref().map(|evidence| {
            let excerpt = redact::line(&evidence.excerpt);
            json!({ "class": evidence.class, "rule": evidence.rule, "excerpt": excerpt })
        });
        let data = json!({
            "summary": headline,
            "thread": alert.thread,
            "circuit": alert.circuit,
            "dependency": event.dependency,
            "partition": event.partition,
            "from_state": event.from_state,
            "to_state": event.to_state,
            "reason": reason,
            "queued_count": event.queued_count,
            "probe_result": event.probe_result,
            "event": event.event,
            "event_at": wall(event.at_ms),
            "began_at": wall(alert.began_at_ms),
            "evidence": evidence,
            "calls_spared": calls_spared,
            "jobs_waiting": alert.jobs,
            "next_probe_at": alert.next_probe_at_ms.map(wall),
            "came_back": alert.flaps,
            "owner": alert.owner,
            "runbook": alert.runbook.clone().unwrap_or_else(|| runbook(&alert.kind)),
            "details": clean(&Value::Object(event.details.clone())),
            "more": clean(&Value::Object(alert.more.clone())),
        });
        let variables = vec![
            ("HALFOPEN_ALERT_ID", alert.id.clone()),
            ("HALFOPEN_ALERT_TYPE", alert.kind.clone()),
            ("HALFOPEN_ALERT_CIRCUIT", alert.circuit.clone()),
        ];
        Self {
            id: alert.id.clone(),
            thread: alert.thread.clone(),
            kind: alert.kind.clone(),
            subject: alert.circuit.clone(),
            circuit: alert.circuit.clone(),
            variables,
            headline,
            sent_at_sec: clocks.wall_ms.div_euclid(1000),
            time: wall(alert.at_ms),
            data: match data {
                Value::Object(data) => data,
                _ => Map::new(),
            },
        }
    }

    /// Writes what a program is told of a job that has ended. Neither what the job sent nor what came back is part of it;
    /// where that can be read, is.
    fn of_job(alert: &AlertRecord, end: &JobEndRecord, sent_at_sec: i64, wall: impl Fn(i64) -> String) -> Self {
        let has_result = end.state == "done" || end.state == "failed";
        let data = json!({
            "job": end.id,
            "dependency": end.dependency,
            "circuit": alert.circuit,
            "state": end.state,
            "reason": end.reason,
            "caller": end.caller,
            "idempotency_key": end.key,
            "accepted_at": wall(end.accepted_at_ms),
            "expires_at": wall(end.expires_at_ms),
            "ended_at": wall(end.ended_at_ms),
            "attempts": end.attempts,
            "class": end.class,
            "may_have_run": end.may_have_run,
            "location": format!("/jobs/{}", end.id),
            "result": has_result.then(|| format!("/jobs/{}/result", end.id)),
        });
        let mut variables = vec![
            ("HALFOPEN_JOB_ID", end.id.clone()),
            ("HALFOPEN_JOB_STATE", end.state.clone()),
            ("HALFOPEN_JOB_DEPENDENCY", end.dependency.clone()),
            ("HALFOPEN_EVENT_ID", alert.id.clone()),
            ("HALFOPEN_EVENT_TYPE", alert.kind.clone()),
        ];
        variables.extend(end.reason.clone().map(|reason| ("HALFOPEN_JOB_REASON", reason)));
        variables.extend(end.key.clone().map(|key| ("HALFOPEN_IDEMPOTENCY_KEY", key)));
        Self {
            id: alert.id.clone(),
            thread: alert.thread.clone(),
            kind: alert.kind.clone(),
            subject: end.id.clone(),
            circuit: alert.circuit.clone(),
            headline: format!("job {} of {} is {}", end.id, end.dependency, end.state),
            sent_at_sec,
            time: wall(end.ended_at_ms),
            data: match data {
                Value::Object(data) => data,
                _ => Map::new(),
            },
            variables,
        }
    }

    /// Returns what a command finds in its environment.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.variables.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// Returns it as a CloudEvent 1.0 in structured JSON. <https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md>
    #[must_use]
    pub fn cloud_event(&self) -> String {
        let event = |data: &Map<String, Value>| {
            json!({
                "specversion": "1.0",
                "id": self.id,
                "source": "/halfopen",
                "type": self.kind,
                "subject": self.subject,
                "time": self.time,
                "datacontenttype": "application/json",
                "thread": self.thread,
                "data": data,
            })
            .to_string()
        };
        let whole = event(&self.data);
        if whole.len() <= BODY_BYTES_MAX {
            return whole;
        }
        // Only what is open-ended can be so long.
        let mut short = self.data.clone();
        short.insert("details".to_owned(), json!({ "left_out": "too long" }));
        short.insert("more".to_owned(), json!({}));
        event(&short)
    }

    /// Returns it as Slack's incoming webhooks take it. <https://docs.slack.dev/messaging/formatting-message-text>
    #[must_use]
    pub fn slack(&self) -> String {
        let escaped = self.text().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        json!({ "text": escaped }).to_string()
    }

    /// Returns it as a person reads it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = vec![self.headline.clone(), String::new()];
        let plain = |value: &Value| match value {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        let rows = [
            ("since", "began_at"),
            ("state", "to_state"),
            ("why", "reason"),
            ("next probe", "next_probe_at"),
            ("jobs waiting", "jobs_waiting"),
            ("calls spared", "calls_spared"),
            ("runbook", "runbook"),
        ];
        for (word, key) in rows {
            if let Some(text) = self.data.get(key).and_then(plain) {
                lines.push(format!("{word}: {text}"));
            }
        }
        if let Some(evidence) = self.data.get("evidence").and_then(Value::as_object) {
            let part = |key: &str| evidence.get(key).and_then(plain).unwrap_or_default();
            lines.push(format!("evidence: {} by {}: {}", part("class"), part("rule"), part("excerpt")));
        }
        lines.push(String::new());
        lines.push(match self.circuit.as_str() {
            STORE => "halfopen status".to_owned(),
            circuit => format!("halfopen why {}", crate::ui::shell_word(circuit)),
        });
        lines.push(format!("incident {}", self.thread));
        lines.join("\n") + "\n"
    }
}

/// Returns what an alert says, in one line.
#[must_use]
pub fn headline(alert: &AlertRecord) -> String {
    let circuit = &alert.circuit;
    let because = || alert.event.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.as_str() == alert.kind) else {
        return format!("{circuit}: {}", alert.kind);
    };
    let jobs = alert.jobs.unwrap_or(1);
    match kind {
        Kind::Opened => format!("{circuit} is open{}: calls are refused", because()),
        Kind::ProbeFailed => format!("{circuit} is still not well: the first probe failed"),
        Kind::StillOpen => match alert.flaps {
            0 => format!("{circuit} is still not well"),
            n => format!("{circuit} is not well: it came back {n} times after it had seemed over"),
        },
        Kind::Recovered => format!("{circuit} is well again{}", because()),
        Kind::NeedsPerson => format!("{circuit} needs a person{}: waiting does not heal it", because()),
        Kind::ManualReview => format!("{circuit}: {jobs} jobs wait for a person"),
        Kind::TtlAtRisk => format!("{circuit}: {jobs} jobs will not be done in time"),
        Kind::UnclassifiedRising => format!("{circuit}: failures that no rule knows are rising"),
        Kind::Silent => format!("{circuit}: no call for longer than its policy expects"),
        Kind::AlertFailing => format!("alerts do not get through by {}{}", circuit, because()),
        Kind::StoreLost => {
            format!("the store cannot be used{}: circuits are kept in memory, no job is taken", because())
        }
        Kind::StoreBack => "the store can be used again".to_owned(),
        Kind::Test => format!("a test alert for {}", alert.owner),
    }
}

/// Returns where it stands what an alert of this type means and what to do.
#[must_use]
pub fn runbook(kind: &str) -> String {
    // As a heading becomes the name of its place.
    format!("{RUNBOOKS}#{}", kind.trim_start_matches("dev.halfopen.").replace('.', ""))
}

/// Takes secrets out of every text of a value.
fn clean(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(redact::line(text)),
        Value::Array(items) => Value::Array(items.iter().map(clean).collect()),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), clean(value))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfopen_core::time::Timestamp;

    #[test]
    fn an_alert_is_a_cloud_event_that_fits_into_a_pipe_and_holds_no_secret() {
        let now = Timestamp::from_millis(1_796_040_000_000);
        let mut alert = halfopen_core::alert::test("oncall", 7, now);
        alert.event.reason = Some("Authorization: Bearer abcdefghijklmnop1234567890".to_owned());
        alert.event.details.insert("long".to_owned(), json!(vec!["x".repeat(200); 1000]));
        let body = Message::of(&alert, Some(3), &ReadAt::utc(now)).cloud_event();
        assert!(body.len() < BODY_BYTES_MAX && !body.contains("abcdefghijklmnop"), "{body}");
        let event: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(event["specversion"], "1.0");
        assert_eq!(event["type"], "dev.halfopen.test");
        assert_eq!(event["time"], "2026-11-30T12:00:00.000Z");
        assert_eq!(event["data"]["calls_spared"], 3);
    }

    #[test]
    fn slack_takes_nothing_for_markup() {
        let now = Timestamp::from_millis(0);
        let alert = halfopen_core::alert::test("<!channel>", 7, now);
        assert!(!Message::of(&alert, None, &ReadAt::utc(now)).slack().contains("<!"));
    }
}
