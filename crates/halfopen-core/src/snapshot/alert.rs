//! The stored form of alerts and of the incidents that they belong to, and of what a program is told of an ended job.
//!
//! These are plain records, as the journal's are: the rule in `alert` makes them out of journal records, and nothing in
//! the core's decisions depends on them. Every field that may be absent has a default, so that older rows load.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::EventRecord;

/// One alert: what a person should hear, in the words of the event that caused it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlertRecord {
    /// Its name, the same in every delivery: `alr_` and 32 hexadecimal digits.
    pub id: String,
    /// The incident that it belongs to: `inc_` and 32 hexadecimal digits.
    pub thread: String,
    /// Its type, such as `dev.halfopen.circuit.opened`.
    pub kind: String,
    /// When it came to be, in milliseconds of the steady clock.
    pub at_ms: i64,
    /// When its incident began, in milliseconds of the steady clock.
    pub began_at_ms: i64,
    /// The circuit.
    pub circuit: String,
    /// Who is told.
    pub owner: String,
    /// Where the owner reads what to do.
    #[serde(default)]
    pub runbook: Option<String>,
    /// The event that caused it: the six fields of a transition, and its details.
    pub event: EventRecord,
    /// The last failure of the circuit: class, rule and excerpt, secrets replaced.
    #[serde(default)]
    pub evidence: Option<EvidenceRecord>,
    /// When the next probe may go, in milliseconds of the steady clock.
    #[serde(default)]
    pub next_probe_at_ms: Option<i64>,
    /// Jobs that wait for the circuit, or, for alerts about jobs, how many those are.
    #[serde(default)]
    pub jobs: Option<u64>,
    /// How often the incident came back after it had seemed over.
    #[serde(default)]
    pub flaps: u32,
    /// The channel that must not be used, because the alert is about it.
    #[serde(default)]
    pub except: Option<String>,
    /// Whatever else there is to say.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub more: Map<String, Value>,
    /// Set if a program is told that a job has ended, and not a person of an incident.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Box<JobEndRecord>>,
}

/// What a program is told of a job that has ended, or went to a person: never what it sent, nor what came back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEndRecord {
    /// The job's name.
    pub id: String,
    /// Its dependency.
    pub dependency: String,
    /// The state it is in.
    pub state: String,
    /// Why, where there is a choice.
    #[serde(default)]
    pub reason: Option<String>,
    /// Who asked for it, where callers are told apart.
    #[serde(default)]
    pub caller: Option<String>,
    /// The idempotency key that came with it.
    #[serde(default)]
    pub key: Option<String>,
    /// When it was accepted, in milliseconds of the steady clock.
    pub accepted_at_ms: i64,
    /// When its time to live ends or ended, in milliseconds of the steady clock.
    pub expires_at_ms: i64,
    /// When it ended, in milliseconds of the steady clock.
    pub ended_at_ms: i64,
    /// How many attempts were charged.
    pub attempts: u32,
    /// The class of its last attempt that was judged.
    #[serde(default)]
    pub class: Option<String>,
    /// Whether an attempt of it may have been executed without anybody knowing.
    #[serde(default)]
    pub may_have_run: bool,
}

/// The evidence of an alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceRecord {
    /// The class of the failure.
    pub class: String,
    /// The rule that spoke.
    pub rule: String,
    /// What it saw, secrets replaced.
    pub excerpt: String,
}

/// What is remembered of one incident, so that it is told once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncidentRecord {
    /// Its name.
    pub thread: String,
    /// When it began, in milliseconds of the steady clock.
    pub began_at_ms: i64,
    /// When it was over, in milliseconds of the steady clock; absent while it lasts.
    #[serde(default)]
    pub ended_at_ms: Option<i64>,
    /// Whether the owner believes that it lasts, because nothing else was said.
    pub told: bool,
    /// Whether the first failed probe was told.
    #[serde(default)]
    pub probe_told: bool,
    /// Whether it was told that waiting does not help.
    #[serde(default)]
    pub person_told: bool,
    /// How often it came back after it had seemed over.
    #[serde(default)]
    pub flaps: u32,
    /// How many alerts it has had.
    pub alerts: u32,
    /// How many reminders it has had.
    #[serde(default)]
    pub reminders: u32,
    /// What has been counted since the last alert, for incidents that are told in sums.
    #[serde(default)]
    pub pending: u64,
    /// When it is to be told again, in milliseconds of the steady clock.
    #[serde(default)]
    pub wake_at_ms: Option<i64>,
    /// The last alert, of which a reminder repeats the facts.
    pub last: Box<AlertRecord>,
}

/// An alert on its way: what each channel has made of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PostRecord {
    /// The alert.
    pub alert: AlertRecord,
    /// One for each channel of the owner; empty until somebody who knows the channels has claimed it.
    #[serde(default)]
    pub deliveries: Vec<DeliveryRecord>,
    /// Grows with every claim; a result that comes with an older number is not taken.
    #[serde(default)]
    pub claim: u64,
}

/// What became of one alert on one channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryRecord {
    /// The channel's name, such as `platform-oncall/webhook-1`.
    pub channel: String,
    /// How it stands: `due`, `delivered` or `failed`.
    pub state: DeliveryState,
    /// How often it was tried.
    #[serde(default)]
    pub attempts: u32,
    /// When it may be tried next, in milliseconds of the steady clock.
    #[serde(default)]
    pub next_at_ms: i64,
    /// Why it was not delivered the last time, secrets replaced.
    #[serde(default)]
    pub error: Option<String>,
}

/// How a delivery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It is to be made, or made again.
    Due,
    /// It was taken.
    Delivered,
    /// It was given up.
    Failed,
}

impl DeliveryState {
    /// Returns the word used in `--json`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }
}

impl PostRecord {
    /// Returns an alert that nobody has seen yet.
    #[must_use]
    pub fn new(alert: AlertRecord) -> Self {
        Self { alert, deliveries: Vec::new(), claim: 0 }
    }

    /// Returns when it is due next; `None` once every channel is done with it.
    #[must_use]
    pub fn due_at_ms(&self) -> Option<i64> {
        let due = self.deliveries.iter().filter(|delivery| delivery.state == DeliveryState::Due);
        due.map(|delivery| delivery.next_at_ms).min()
    }
}
