//! Says which events a person should hear of, once for each incident.
//!
//! The rule reads journal records and nothing else: what is told is what the journal says, and whoever commits the event
//! commits the alert with it. One **incident** is one thread. It begins with a trip and is over when the circuit has
//! recovered; one that comes back within [`FOLD`] is the same incident and says nothing until its reminder is due. So a
//! dependency that flaps for hours costs its owner the first word, reminders at growing intervals, and the last word.
//! The owner is never left believing what is no longer so: a reminder tells that it came back, and after that its end is
//! told again.
//!
//! A program can be told of each job that ends ([`job_ended`]); it is sent by the same rules, to the receivers of the job's
//! dependency, and belongs to no incident.
//!
//! What concerns jobs, credentials and recognition is told in **sums**: the first at once, what follows together, after
//! [`SUM_EVERY`].
//!
//! Names of threads and alerts are computed from the circuit and the event that began it. Whoever computes them again,
//! in another process or after a restart, gets the same.
//!
//! What was refused: a timer that keeps `recovered` back until the dependency has been well for a while. It would make
//! every good message late to spare a few.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::circuit::{LastFailure, Status};
use crate::snapshot::{
    AlertRecord, DeliveryRecord, DeliveryState, EventRecord, EvidenceRecord, IncidentRecord, JobEndRecord,
};
use crate::time::{Timestamp, millis};

/// The dependency whose partitions are the channels that alerts go out by.
pub const CHANNELS: &str = "halfopen-alerts";

/// What stands in the place of a circuit where an alert is about the store.
pub const STORE: &str = "halfopen-store";

/// What stands behind a dependency's name in the circuits that only watch; nobody is told about those.
pub const SHADOW: &str = "~observe";

/// What stands in the names of dependencies that a running gateway makes for a rehearsal, between the name of the one
/// that is rehearsed and what tells rehearsals apart. No policy may name such a one, and nobody is told about them.
pub const DRILL: &str = "~drill-";

/// One that comes back so soon after its end is the same incident.
pub const FOLD: Duration = Duration::from_secs(10 * 60);

/// When the first reminder of an incident is due; each following interval is twice as long.
pub const REMIND_FIRST: Duration = Duration::from_secs(15 * 60);

/// No interval between reminders is longer.
pub const REMIND_MAX: Duration = Duration::from_secs(24 * 3600);

/// When an owner who was told the end hears that it came back.
pub const REMIND_RETURNED: Duration = Duration::from_secs(5 * 60);

/// How often sums are told.
pub const SUM_EVERY: Duration = Duration::from_secs(3600);

/// The first wait between two deliveries of one alert on one channel; each following one is three times as long.
const REDELIVER_FIRST: Duration = Duration::from_secs(2);

/// No wait between deliveries that the receiver did not state is longer.
const REDELIVER_MAX: Duration = Duration::from_secs(3600);

/// How long an alert is delivered at most before it is given up.
pub const DELIVER_FOR: Duration = Duration::from_secs(24 * 3600);

/// How often an alert is delivered at most before it is given up.
pub const ATTEMPTS_MAX: u32 = 40;

/// The type of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A circuit opened.
    Opened,
    /// The first probe of an incident failed.
    ProbeFailed,
    /// An incident lasts.
    StillOpen,
    /// An incident is over.
    Recovered,
    /// Time alone does not heal it: a quota, a credential, a wait too long to be believed.
    NeedsPerson,
    /// Jobs wait for a person.
    ManualReview,
    /// Jobs will not be done in time, or were not.
    TtlAtRisk,
    /// More failures than before are known to no rule.
    UnclassifiedRising,
    /// No call for longer than the policy expects.
    Silent,
    /// A channel takes no alerts.
    AlertFailing,
    /// The store is lost, or cannot be written.
    StoreLost,
    /// The store is back.
    StoreBack,
    /// Somebody tries the channels.
    Test,
}

impl Kind {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 13] = [
        Self::Opened,
        Self::ProbeFailed,
        Self::StillOpen,
        Self::Recovered,
        Self::NeedsPerson,
        Self::ManualReview,
        Self::TtlAtRisk,
        Self::UnclassifiedRising,
        Self::Silent,
        Self::AlertFailing,
        Self::StoreLost,
        Self::StoreBack,
        Self::Test,
    ];

    /// Returns the name used in events and in `--json`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "dev.halfopen.circuit.opened",
            Self::ProbeFailed => "dev.halfopen.circuit.probe_failed",
            Self::StillOpen => "dev.halfopen.circuit.still_open",
            Self::Recovered => "dev.halfopen.circuit.recovered",
            Self::NeedsPerson => "dev.halfopen.circuit.needs_person",
            Self::ManualReview => "dev.halfopen.jobs.manual_review",
            Self::TtlAtRisk => "dev.halfopen.jobs.ttl_at_risk",
            Self::UnclassifiedRising => "dev.halfopen.unclassified_rising",
            Self::Silent => "dev.halfopen.silent",
            Self::AlertFailing => "dev.halfopen.alert_failing",
            Self::StoreLost => "dev.halfopen.store_lost",
            Self::StoreBack => "dev.halfopen.store_back",
            Self::Test => "dev.halfopen.test",
        }
    }
}

/// Whom an alert is for, and what stood beside its event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside<'a> {
    /// The owner, as the policy names it.
    pub owner: Option<&'a str>,
    /// Where the owner reads what to do.
    pub runbook: Option<&'a str>,
    /// The circuit as it stands after the event.
    pub status: Option<&'a Status>,
    /// Jobs that wait for the circuit, if somebody has counted them.
    pub jobs_waiting: Option<u64>,
}

/// What an event is to the rule.
enum Meaning {
    /// A circuit opened.
    Trip,
    /// It is closed again.
    End,
    /// Something that is told in sums, so many of it.
    Sum { kind: Kind, count: u64, every: Duration },
    /// A channel takes no alerts.
    ChannelFails,
    /// A channel takes alerts again.
    ChannelWorks,
}

/// Returns under which name the incident is remembered that a record belongs to; `None` if nobody needs to hear of it.
#[must_use]
pub fn incident_name(record: &EventRecord) -> Option<String> {
    let circuit = circuit_of(record);
    match meaning(record)? {
        Meaning::Trip | Meaning::End => Some(circuit),
        Meaning::Sum { kind, .. } => Some(format!("{circuit} {}", kind.as_str())),
        Meaning::ChannelFails | Meaning::ChannelWorks => Some(format!("{circuit} {}", Kind::AlertFailing.as_str())),
    }
}

/// Takes note of a journal record: returns the incident as it is remembered from here on, and what the owner is told.
#[must_use]
pub fn note(
    before: Option<IncidentRecord>,
    record: &EventRecord,
    beside: Beside<'_>,
    now: Timestamp,
) -> (Option<IncidentRecord>, Vec<AlertRecord>) {
    let Some(meaning) = meaning(record) else { return (before, Vec::new()) };
    let known = before.as_ref().map(|incident| incident.last.owner.clone());
    let Some(owner) = beside.owner.map(str::to_owned).or(known) else { return (before, Vec::new()) };
    let fresh = || fresh(record, &owner, beside);
    let mut told = Vec::new();
    let after = match meaning {
        Meaning::Trip => Some(tripped(before, record, fresh(), &mut told, now)),
        Meaning::End => before.map(|incident| ended(incident, fresh(), &mut told, now)),
        Meaning::Sum { kind, count, every } => Some(summed(before, fresh(), (kind, count, every), &mut told, now)),
        Meaning::ChannelFails => Some(match before {
            Some(incident) => incident,
            None => {
                let mut begun = begin(fresh(), now);
                begun.last.except = record.partition.as_deref().and_then(channel_of).map(str::to_owned);
                tell(&mut begun, Kind::AlertFailing, &mut told, now);
                begun
            }
        }),
        Meaning::ChannelWorks => None,
    };
    (after, told)
}

/// Lets time pass for an incident whose wake has come: returns how it is remembered, `None` once it is over and need not
/// be, and what the owner is told.
#[must_use]
pub fn remind(mut incident: IncidentRecord, now: Timestamp) -> (Option<IncidentRecord>, Vec<AlertRecord>) {
    let mut told = Vec::new();
    let sum = [Kind::ManualReview, Kind::TtlAtRisk, Kind::UnclassifiedRising, Kind::Silent, Kind::NeedsPerson]
        .into_iter()
        .find(|kind| is_sum(&incident) && incident.last.kind == kind.as_str());
    if let Some(kind) = sum {
        if incident.pending == 0 {
            return (None, told);
        }
        incident.last.jobs = Some(incident.pending);
        incident.last.more.insert("count".to_owned(), Value::from(incident.pending));
        incident.pending = 0;
        incident.wake_at_ms = Some((now + SUM_EVERY).as_millis());
        tell(&mut incident, kind, &mut told, now);
        return (Some(incident), told);
    }
    if incident.ended_at_ms.is_some() {
        // It has been over for as long as it could have been the same.
        return (None, told);
    }
    incident.reminders = incident.reminders.saturating_add(1);
    incident.wake_at_ms = Some((now + reminder(incident.reminders)).as_millis());
    incident.told = true;
    tell(&mut incident, Kind::StillOpen, &mut told, now);
    (Some(incident), told)
}

/// Returns an alert by which somebody tries the channels of an owner.
#[must_use]
pub fn test(owner: &str, draw: u64, now: Timestamp) -> AlertRecord {
    let record = EventRecord {
        at_ms: now.as_millis(),
        event: "test".to_owned(),
        dependency: CHANNELS.to_owned(),
        partition: None,
        from_state: "closed".to_owned(),
        to_state: "closed".to_owned(),
        generation: draw,
        reason: Some("halfopen alerts test".to_owned()),
        queued_count: None,
        probe_result: None,
        details: Map::new(),
    };
    let mut begun = begin(fresh(&record, owner, Beside::default()), now);
    let mut told = Vec::new();
    tell(&mut begun, Kind::Test, &mut told, now);
    told.pop().unwrap_or(*begun.last)
}

/// What a process has met of its store.
#[derive(Clone, Copy, Debug)]
pub struct StoreTrouble<'a> {
    /// The store, as it is written on the command line.
    pub store: &'a str,
    /// What is wrong with it, as a word: `store_lost` or `store_read_only`.
    pub reason: &'a str,
    /// What is wrong with it, as a sentence.
    pub why: &'a str,
    /// Drawn by the process, so that two of them do not take their alerts for one.
    pub draw: u64,
    /// When it began.
    pub began: Timestamp,
}

/// Returns an alert that the store is lost, or back ([`Kind::StoreLost`], [`Kind::StoreBack`]). It stands outside of the rule:
/// the store that would keep it is the thing that is broken, so whoever has met it sends it by itself, and it says so.
#[must_use]
pub fn store_trouble(owner: &str, trouble: StoreTrouble<'_>, kind: Kind, now: Timestamp) -> AlertRecord {
    let mut details = Map::new();
    details.insert("store".to_owned(), trouble.store.into());
    details.insert("why".to_owned(), trouble.why.into());
    let record = EventRecord {
        at_ms: trouble.began.as_millis(),
        event: "store_lost".to_owned(),
        dependency: STORE.to_owned(),
        partition: None,
        from_state: "closed".to_owned(),
        to_state: "closed".to_owned(),
        generation: trouble.draw,
        reason: Some(trouble.reason.to_owned()),
        queued_count: None,
        probe_result: None,
        details,
    };
    let mut begun = begin(fresh(&record, owner, Beside::default()), trouble.began);
    begun.last.more.insert("direct".to_owned(), true.into());
    let mut told = Vec::new();
    tell(&mut begun, kind, &mut told, now);
    told.pop().unwrap_or(*begun.last)
}

/// Returns what a program is told of a job that has ended. `nth` is the place of the end in the job's history: with the
/// job's name it names what is told, the same whoever computes it and however often it is sent.
#[must_use]
pub fn job_ended(end: JobEndRecord, circuit: &str, nth: u32) -> AlertRecord {
    let state = "closed".to_owned();
    let event = EventRecord {
        at_ms: end.ended_at_ms,
        event: "job_ended".to_owned(),
        dependency: end.dependency.clone(),
        partition: None,
        from_state: state.clone(),
        to_state: state,
        generation: 0,
        reason: end.reason.clone(),
        queued_count: None,
        probe_result: None,
        details: Map::new(),
    };
    AlertRecord {
        id: format!("{}-{nth}", end.id),
        thread: end.id.clone(),
        kind: format!("dev.halfopen.job.{}", end.state),
        at_ms: end.ended_at_ms,
        began_at_ms: end.accepted_at_ms,
        circuit: circuit.to_owned(),
        owner: String::new(),
        runbook: None,
        event,
        evidence: None,
        next_probe_at_ms: None,
        jobs: None,
        flaps: 0,
        except: None,
        more: Map::new(),
        job: Some(Box::new(end)),
    }
}

/// How a delivery went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// The receiver took it.
    Yes,
    /// Not this time; why, and how long the receiver asked to be left alone.
    NotNow {
        /// Why, secrets replaced.
        error: String,
        /// What was stated.
        wait: Option<Duration>,
    },
    /// Never: the receiver said so, or the channel cannot be used.
    Never {
        /// Why, secrets replaced.
        error: String,
    },
    /// It was not tried, and costs no attempt: the channel's circuit is open, or an earlier alert goes first.
    NotTried {
        /// Why.
        why: String,
        /// When it may be.
        at: Timestamp,
    },
}

/// Writes down how a delivery went; returns whether it was given up by this.
pub fn settle(delivery: &mut DeliveryRecord, alert: &AlertRecord, how: Delivered, now: Timestamp) -> bool {
    let (error, wait) = match how {
        Delivered::NotTried { why, at } => {
            delivery.error = Some(why);
            delivery.next_at_ms = at.as_millis();
            return too_old(alert, now) && give_up(delivery);
        }
        Delivered::Yes => {
            delivery.attempts = delivery.attempts.saturating_add(1);
            (delivery.state, delivery.error) = (DeliveryState::Delivered, None);
            return false;
        }
        Delivered::Never { error } => {
            delivery.attempts = delivery.attempts.saturating_add(1);
            delivery.error = Some(error);
            return give_up(delivery);
        }
        Delivered::NotNow { error, wait } => (error, wait),
    };
    delivery.attempts = delivery.attempts.saturating_add(1);
    delivery.error = Some(error);
    let ours = REDELIVER_FIRST.saturating_mul(3_u32.saturating_pow((delivery.attempts - 1).min(10))).min(REDELIVER_MAX);
    // Stated waits are obeyed, within what an alert is kept for.
    delivery.next_at_ms = (now + ours.max(wait.unwrap_or_default()).min(DELIVER_FOR)).as_millis();
    (delivery.attempts >= ATTEMPTS_MAX || too_old(alert, now)) && give_up(delivery)
}

fn give_up(delivery: &mut DeliveryRecord) -> bool {
    delivery.state = DeliveryState::Failed;
    true
}

fn too_old(alert: &AlertRecord, now: Timestamp) -> bool {
    Timestamp::from_millis(alert.at_ms).until(now) >= DELIVER_FOR
}

/// Returns what a record means, if a person may need to hear of it.
fn meaning(record: &EventRecord) -> Option<Meaning> {
    if record.dependency.ends_with(SHADOW) || record.dependency.contains(DRILL) {
        return None;
    }
    if record.dependency == CHANNELS {
        return match record.event.as_str() {
            "tripped" | "alert_given_up" => Some(Meaning::ChannelFails),
            "recovered" | "reset" | "alert_delivered" => Some(Meaning::ChannelWorks),
            _ => None,
        };
    }
    let number = |key: &str| record.details.get(key).and_then(Value::as_u64).unwrap_or(1);
    let sum = |kind, count, every| Some(Meaning::Sum { kind, count, every });
    match record.event.as_str() {
        "tripped" => Some(Meaning::Trip),
        "recovered" | "reset" => Some(Meaning::End),
        "auth_failed" | "hint_cut" => sum(Kind::NeedsPerson, 1, REMIND_MAX),
        "jobs_to_review" => sum(Kind::ManualReview, number("jobs"), SUM_EVERY),
        "jobs_will_expire" | "jobs_expired" => sum(Kind::TtlAtRisk, number("jobs"), SUM_EVERY),
        "unclassified_rising" => sum(Kind::UnclassifiedRising, number("unclassified"), REMIND_MAX),
        "silent" => sum(Kind::Silent, 1, REMIND_MAX),
        _ => None,
    }
}

fn tripped(
    before: Option<IncidentRecord>,
    record: &EventRecord,
    fresh: AlertRecord,
    told: &mut Vec<AlertRecord>,
    now: Timestamp,
) -> IncidentRecord {
    let needs_person = record.reason.as_deref() == Some("quota_exhausted");
    let probe_failed = record.from_state == "half_open";
    let is_same = |incident: &IncidentRecord| {
        incident.ended_at_ms.is_none_or(|ended| Timestamp::from_millis(ended).until(now) < FOLD)
    };
    let mut incident = match before.filter(is_same) {
        None => {
            let mut begun = begin(fresh, now);
            begun.wake_at_ms = Some((now + reminder(0)).as_millis());
            tell(&mut begun, Kind::Opened, told, now);
            begun
        }
        Some(mut incident) => {
            adopt(&mut incident, fresh);
            if incident.ended_at_ms.take().is_some() {
                // Ended → Lasting: it came back, and the owner hears of it if it stays.
                incident.flaps = incident.flaps.saturating_add(1);
                incident.wake_at_ms = Some((now + REMIND_RETURNED).as_millis());
            }
            if probe_failed && !incident.probe_told {
                incident.probe_told = true;
                incident.told = true;
                tell(&mut incident, Kind::ProbeFailed, told, now);
            }
            incident
        }
    };
    if needs_person && !incident.person_told {
        incident.person_told = true;
        incident.told = true;
        tell(&mut incident, Kind::NeedsPerson, told, now);
    }
    incident
}

/// Lasting → Ended. The owner hears of it unless that is what they believe.
fn ended(
    mut incident: IncidentRecord,
    fresh: AlertRecord,
    told: &mut Vec<AlertRecord>,
    now: Timestamp,
) -> IncidentRecord {
    if incident.ended_at_ms.is_some() {
        return incident;
    }
    adopt(&mut incident, fresh);
    incident.ended_at_ms = Some(now.as_millis());
    incident.wake_at_ms = Some((now + FOLD).as_millis());
    if incident.told {
        tell(&mut incident, Kind::Recovered, told, now);
        incident.told = false;
    }
    incident
}

fn summed(
    before: Option<IncidentRecord>,
    fresh: AlertRecord,
    (kind, count, every): (Kind, u64, Duration),
    told: &mut Vec<AlertRecord>,
    now: Timestamp,
) -> IncidentRecord {
    if let Some(mut incident) = before {
        adopt(&mut incident, fresh);
        incident.pending = incident.pending.saturating_add(count);
        return incident;
    }
    let mut begun = begin(fresh, now);
    begun.wake_at_ms = Some((now + every).as_millis());
    begun.last.more.insert("count".to_owned(), Value::from(count));
    if matches!(kind, Kind::ManualReview | Kind::TtlAtRisk) {
        begun.last.jobs = Some(count);
    }
    tell(&mut begun, kind, told, now);
    begun
}

/// An incident that is told in sums has a thread of its own beside the circuit's.
fn is_sum(incident: &IncidentRecord) -> bool {
    incident.last.more.contains_key("count")
}

/// Returns how long after the last one the reminder after so many is due.
fn reminder(so_many: u32) -> Duration {
    REMIND_FIRST.saturating_mul(2_u32.saturating_pow(so_many.min(16))).min(REMIND_MAX)
}

fn begin(fresh: AlertRecord, now: Timestamp) -> IncidentRecord {
    let event = &fresh.event;
    let thread = named("inc", &[&fresh.circuit, &event.event, &event.at_ms.to_string(), &event.generation.to_string()]);
    let began_at_ms = now.as_millis();
    let last = Box::new(AlertRecord { thread: thread.clone(), began_at_ms, ..fresh });
    IncidentRecord {
        thread,
        began_at_ms,
        ended_at_ms: None,
        told: true,
        probe_told: false,
        person_told: false,
        flaps: 0,
        alerts: 0,
        reminders: 0,
        pending: 0,
        wake_at_ms: None,
        last,
    }
}

/// Takes over what a new event says; the thread stays.
fn adopt(incident: &mut IncidentRecord, fresh: AlertRecord) {
    let (kind, more) = (std::mem::take(&mut incident.last.kind), std::mem::take(&mut incident.last.more));
    let evidence = fresh.evidence.or_else(|| incident.last.evidence.take());
    *incident.last = AlertRecord {
        thread: incident.thread.clone(),
        began_at_ms: incident.began_at_ms,
        kind,
        more,
        evidence,
        ..fresh
    };
}

fn tell(incident: &mut IncidentRecord, kind: Kind, told: &mut Vec<AlertRecord>, now: Timestamp) {
    incident.alerts = incident.alerts.saturating_add(1);
    let id = named("alr", &[&incident.thread, kind.as_str(), &incident.alerts.to_string()]);
    let last = &mut incident.last;
    (last.id, last.at_ms, last.flaps) = (id, now.as_millis(), incident.flaps);
    kind.as_str().clone_into(&mut last.kind);
    told.push((**last).clone());
}

/// Returns an alert with all that the event and the circuit say, without name, thread and type.
fn fresh(record: &EventRecord, owner: &str, beside: Beside<'_>) -> AlertRecord {
    let stated = |key: &str| record.details.get(key).and_then(Value::as_i64);
    let evidence = |failure: &LastFailure| EvidenceRecord {
        class: failure.class.as_str().to_owned(),
        rule: failure.rule.clone(),
        excerpt: failure.excerpt.clone(),
    };
    let status = beside.status;
    let open_until = status.and_then(|status| status.open_until).map(Timestamp::as_millis);
    let jobs = record.queued_count.or(beside.jobs_waiting);
    AlertRecord {
        id: String::new(),
        thread: String::new(),
        kind: String::new(),
        at_ms: record.at_ms,
        began_at_ms: record.at_ms,
        circuit: circuit_of(record),
        owner: owner.to_owned(),
        runbook: beside.runbook.map(str::to_owned),
        event: EventRecord { queued_count: jobs, ..record.clone() },
        evidence: status.and_then(|status| status.last_failure.as_ref()).map(evidence),
        next_probe_at_ms: stated("open_until_ms").or(open_until),
        jobs,
        flaps: 0,
        except: None,
        more: Map::new(),
        job: None,
    }
}

fn circuit_of(record: &EventRecord) -> String {
    match &record.partition {
        Some(partition) => format!("{}@{partition}", record.dependency),
        None => record.dependency.clone(),
    }
}

fn channel_of(partition: &str) -> Option<&str> {
    partition.strip_prefix("channel=")
}

/// Returns a name made of words: FNV-1a of 128 bits, which is no secret and need not be one; it must only be the same
/// wherever it is computed. <http://www.isthe.com/chongo/tech/comp/fnv/>
fn named(prefix: &str, words: &[&str]) -> String {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let bytes = words.iter().flat_map(|word| word.bytes().chain([0]));
    let hash = bytes.fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    format!("{prefix}_{hash:032x}")
}

/// Returns the longest time that an incident waits for its wake; a boot cuts what lies further ahead.
#[must_use]
pub fn wake_ms_max() -> u64 {
    millis(REMIND_MAX)
}

#[cfg(test)]
mod tests;
