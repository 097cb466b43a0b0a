//! The door for alerts: what is told commits with its event, and whoever delivers claims first.
//!
//! Every journal record that is appended behind the door passes `note`, in the transaction of the event. Delivery is
//! at least once: [`Handle::claim_alerts`] hands an alert to one process for a while; [`Handle::finish_alert`] writes down
//! what each channel made of it. A process that dies in between leaves the alert to the next one, under the same name, so
//! that a receiver can tell.
//!
//! Who claims must know the channels, which stand in the policy file; a process without that file leaves alerts alone.

use std::time::Duration;

use halfopen_core::alert::{self, Beside, DELIVER_FOR, Delivered};
use halfopen_core::circuit::Status;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::{AlertRecord, DeliveryRecord, DeliveryState, EventRecord, PostRecord};
use halfopen_core::time::Timestamp;
use serde_json::{Map, Value};

use super::{Handle, jobs};
use crate::store::alerts::NoticeFigures;
use crate::store::{StoreError, Txn};

/// How many incidents one sweep tells again at most.
const WOKEN_MAX: usize = 64;

/// How long a delivery stays away that another of the same thread goes before.
const BEHIND: Duration = Duration::from_secs(2);

/// An alert that this process may deliver, and by which channels.
#[derive(Clone, Debug)]
pub struct ClaimedAlert {
    /// The alert.
    pub alert: AlertRecord,
    /// The channels by which it is due.
    pub channels: Vec<String>,
    claim: u64,
}

/// Takes note of a record that was appended to the journal, in the same transaction.
pub(super) fn note(
    txn: &mut Txn<'_>,
    policy: &Policy,
    record: &EventRecord,
    status: Option<&Status>,
) -> Result<(), StoreError> {
    let Some(name) = alert::incident_name(record) else { return Ok(()) };
    let before = txn.incident(&name)?;
    if before.is_none() && policy.owner.is_none() {
        return Ok(());
    }
    let circuit = match &record.partition {
        Some(partition) => format!("{}@{partition}", record.dependency),
        None => record.dependency.clone(),
    };
    let jobs_waiting = match circuit.parse::<CircuitId>() {
        Ok(id) => Some(jobs::facts_of(txn, &id)?.jobs_queued),
        Err(_) => None,
    };
    let (owner, runbook) = (policy.owner.as_deref(), policy.runbook.as_deref());
    let beside = Beside { owner, runbook, status, jobs_waiting };
    let (after, told) = alert::note(before.clone(), record, beside, txn.now());
    if after != before {
        txn.set_incident(&name, after.as_ref())?;
    }
    post(txn, told)
}

fn post(txn: &mut Txn<'_>, told: Vec<AlertRecord>) -> Result<(), StoreError> {
    let mut dropped = 0;
    for alert in told {
        dropped += txn.add_post(&PostRecord::new(alert))?.unwrap_or(0);
    }
    // An alert about it would push out one more; the journal says it, and whoever reads that.
    if dropped > 0 { dropped_told(txn, dropped) } else { Ok(()) }
}

/// Tells the journal that alerts which nobody had been told made room for newer ones.
fn dropped_told(txn: &mut Txn<'_>, dropped: usize) -> Result<(), StoreError> {
    let state = "closed".to_owned();
    let mut details = Map::new();
    details.insert("alerts".to_owned(), dropped.into());
    txn.append(&EventRecord {
        at_ms: txn.now().as_millis(),
        event: "alerts_dropped".to_owned(),
        dependency: alert::CHANNELS.to_owned(),
        partition: None,
        from_state: state.clone(),
        to_state: state,
        generation: 0,
        reason: Some("too_many_wait".to_owned()),
        queued_count: None,
        probe_result: None,
        details,
    })
}

impl Handle {
    /// Returns whether an alert is to be sent, or an incident to be told again. Costs one look at the ends of two indices.
    #[must_use]
    pub fn has_due_alerts(&self) -> bool {
        self.store().is_some_and(|(store, writable)| writable && store.has_due_alerts().unwrap_or(false))
    }

    /// Tells again what lasts, and forgets what is over: a bounded number of incidents.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn sweep_alerts(&self) -> Result<(), StoreError> {
        self.readable()?.transact(|txn| {
            for (name, incident) in txn.woken_incidents(WOKEN_MAX)? {
                let (after, told) = alert::remind(incident, txn.now());
                txn.set_incident(&name, after.as_ref())?;
                post(txn, told)?;
            }
            Ok(())
        })
    }

    /// Takes alerts that are due, at most `max`, for `lease`; nobody else gets them until then. `channels_of` names the
    /// channels of an owner; those of an owner that has none are left to whoever knows more, and are given up when they
    /// are old.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn claim_alerts(
        &self,
        channels_of: &dyn Fn(&str) -> Vec<String>,
        lease: Duration,
        max: usize,
    ) -> Result<Vec<ClaimedAlert>, StoreError> {
        self.readable()?.transact(|txn| {
            let now = txn.now();
            let open = txn.open_posts()?;
            let mut claimed = Vec::new();
            for (place, (is_due, post)) in open.iter().enumerate() {
                if claimed.len() >= max {
                    break;
                }
                if !is_due {
                    continue;
                }
                let mut post = post.clone();
                let known = channels_of(&post.alert.owner);
                if known.is_empty() && post.deliveries.is_empty() {
                    if Timestamp::from_millis(post.alert.at_ms).until(now) >= DELIVER_FOR {
                        let why = format!("nobody knows a channel of the owner `{}`", post.alert.owner);
                        post.deliveries.push(failed("none", why));
                        txn.save_post(&post, None)?;
                    }
                    continue;
                }
                spread(&mut post, &known, now);
                // What this process takes along it sends in order itself.
                let earlier = open[..place].iter().map(|(_, earlier)| earlier).filter(|earlier| {
                    earlier.alert.thread == post.alert.thread
                        && claimed.iter().all(|mine: &ClaimedAlert| mine.alert.id != earlier.alert.id)
                });
                let earlier: Vec<&PostRecord> = earlier.collect();
                wait_behind(&mut post, &earlier, now);
                claimed.extend(take(txn, post, lease)?);
            }
            Ok(claimed)
        })
    }

    /// Writes down what each channel made of a claimed alert; returns whether that was still this process's to say.
    /// `policy_of` gives the rules of a channel's circuit, whose owner hears if it was given up.
    ///
    /// # Errors
    ///
    /// If the store cannot be written; the alert is then delivered again.
    pub fn finish_alert(
        &self,
        claimed: &ClaimedAlert,
        how: &[(String, Delivered)],
        policy: &Policy,
    ) -> Result<bool, StoreError> {
        self.readable()?.transact(|txn| {
            let now = txn.now();
            let Some(mut post) = txn.post(&claimed.alert.id)? else { return Ok(false) };
            if post.claim != claimed.claim {
                return Ok(false);
            }
            let mut said = Vec::new();
            for delivery in &mut post.deliveries {
                let Some((_, how)) = how.iter().find(|(channel, _)| *channel == delivery.channel) else { continue };
                if alert::settle(delivery, &post.alert, how.clone(), now) {
                    said.push((delivery.channel.clone(), "alert_given_up", delivery.error.clone()));
                } else if delivery.state == DeliveryState::Delivered {
                    said.push((delivery.channel.clone(), "alert_delivered", None));
                }
            }
            put_back(txn, &post)?;
            for (channel, word, why) in said {
                tell_of_channel(txn, policy, &channel, word, why, &post.alert)?;
            }
            Ok(true)
        })
    }

    /// Returns how many alerts are not done.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn alerts_waiting(&self) -> Result<u64, StoreError> {
        self.readable()?.alerts_waiting()
    }

    /// Returns the newest alerts with what became of them, oldest first.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn alerts(&self, max: usize) -> Result<Vec<PostRecord>, StoreError> {
        self.readable()?.look(|txn| txn.posts(max))
    }

    /// Takes note of what the figures of a dependency say (`silent`, `unclassified_rising`): told once while it lasts.
    /// `found` holds the details, `None` if it is not so.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn note_condition(
        &self,
        dependency: &str,
        policy: &Policy,
        word: &str,
        found: Option<Map<String, Value>>,
    ) -> Result<(), StoreError> {
        let store = self.readable()?;
        let holds = found.is_some();
        let state = "closed".to_owned();
        let record = EventRecord {
            at_ms: 0,
            event: word.to_owned(),
            dependency: dependency.to_owned(),
            partition: None,
            from_state: state.clone(),
            to_state: state,
            generation: 0,
            reason: Some(word.to_owned()),
            queued_count: None,
            probe_result: None,
            details: found.unwrap_or_default(),
        };
        let Some(name) = alert::incident_name(&record) else { return Ok(()) };
        let as_known = |txn: &Txn<'_>| Ok(txn.incident(&name)?.is_some() == holds);
        // Nearly always nothing has changed, and nothing is written.
        if store.look(as_known)? {
            return Ok(());
        }
        store.transact(|txn| {
            if as_known(txn)? {
                return Ok(());
            }
            if !holds {
                return txn.set_incident(&name, None);
            }
            let id: CircuitId = match dependency.parse() {
                Ok(id) => id,
                Err(_) => return Ok(()),
            };
            let status = txn.load(&id)?.unwrap_or_default().status(policy, txn.now());
            let state = status.state.as_str();
            let record = EventRecord {
                at_ms: txn.now().as_millis(),
                from_state: state.to_owned(),
                to_state: state.to_owned(),
                generation: status.generation,
                ..record.clone()
            };
            txn.append(&record)?;
            note(txn, policy, &record, Some(&status))
        })
    }
}

/// Takes what a program is to be told, for `lease`, if one of its receivers may be asked now.
pub(super) fn claim(
    txn: &mut Txn<'_>,
    mut post: PostRecord,
    receivers: &[String],
    lease: Duration,
) -> Result<Option<ClaimedAlert>, StoreError> {
    spread(&mut post, receivers, txn.now());
    take(txn, post, lease)
}

/// Takes an alert for `lease`, if one of its channels may be asked now.
fn take(txn: &mut Txn<'_>, mut post: PostRecord, lease: Duration) -> Result<Option<ClaimedAlert>, StoreError> {
    let now = txn.now();
    let ready = |delivery: &&DeliveryRecord| {
        // No wait is that long: a boot with another wall clock has set it.
        let is_over = delivery.next_at_ms <= now.as_millis();
        let is_strange = delivery.next_at_ms > (now + DELIVER_FOR).as_millis();
        delivery.state == DeliveryState::Due && (is_over || is_strange)
    };
    let channels: Vec<String> = post.deliveries.iter().filter(ready).map(|delivery| delivery.channel.clone()).collect();
    if channels.is_empty() {
        put_back(txn, &post)?;
        return Ok(None);
    }
    post.claim += 1;
    txn.save_post(&post, Some(now + lease))?;
    Ok(Some(ClaimedAlert { alert: post.alert, channels, claim: post.claim }))
}

/// Saves an alert until it is due again. What a program was told, or will not be told, is counted and not kept.
fn put_back(txn: &mut Txn<'_>, post: &PostRecord) -> Result<(), StoreError> {
    let due_at = post.due_at_ms().map(Timestamp::from_millis);
    match &post.alert.job {
        Some(end) if due_at.is_none() => {
            let told = post.deliveries.iter().all(|delivery| delivery.state == DeliveryState::Delivered);
            let (told, given_up) = (u64::from(told), u64::from(!told));
            txn.count_notices(&end.dependency, NoticeFigures { told, given_up, ..NoticeFigures::default() })?;
            txn.remove_post(&post.alert.id)
        }
        Some(_) | None => txn.save_post(post, due_at),
    }
}

/// Gives an alert its channels, and gives up what was to go by one that is there no more.
fn spread(post: &mut PostRecord, known: &[String], now: Timestamp) {
    if post.deliveries.is_empty() {
        let except = post.alert.except.as_deref();
        let due = |channel: &String| DeliveryRecord {
            channel: channel.clone(),
            state: DeliveryState::Due,
            attempts: 0,
            next_at_ms: now.as_millis(),
            error: None,
        };
        post.deliveries = known.iter().filter(|channel| except != Some(channel.as_str())).map(due).collect();
        if post.deliveries.is_empty() {
            post.deliveries.push(failed("none", "the owner has no other channel".to_owned()));
        }
        return;
    }
    if known.is_empty() {
        return;
    }
    for delivery in &mut post.deliveries {
        if delivery.state == DeliveryState::Due && !known.contains(&delivery.channel) {
            (delivery.state, delivery.error) = (DeliveryState::Failed, Some("the channel is there no more".to_owned()));
        }
    }
}

/// The alerts of one incident go out in their order: what an earlier one has not got through yet, a later one waits for.
fn wait_behind(post: &mut PostRecord, earlier: &[&PostRecord], now: Timestamp) {
    let mut busy: Vec<&str> = Vec::new();
    for earlier in earlier {
        if earlier.deliveries.is_empty() {
            return postpone(post, |_| true, now);
        }
        let due = earlier.deliveries.iter().filter(|delivery| delivery.state == DeliveryState::Due);
        busy.extend(due.map(|delivery| delivery.channel.as_str()));
    }
    postpone(post, |channel| busy.contains(&channel), now);
}

fn postpone(post: &mut PostRecord, which: impl Fn(&str) -> bool, now: Timestamp) {
    for delivery in &mut post.deliveries {
        if delivery.state == DeliveryState::Due && which(&delivery.channel) {
            delivery.next_at_ms = delivery.next_at_ms.max((now + BEHIND).as_millis());
        }
    }
}

fn failed(channel: &str, error: String) -> DeliveryRecord {
    DeliveryRecord {
        channel: channel.to_owned(),
        state: DeliveryState::Failed,
        attempts: 0,
        next_at_ms: 0,
        error: Some(error),
    }
}

/// Tells the journal that a channel did not take an alert, or that one which did not take alerts does again.
fn tell_of_channel(
    txn: &mut Txn<'_>,
    policy: &Policy,
    channel: &str,
    word: &str,
    why: Option<String>,
    told: &AlertRecord,
) -> Result<(), StoreError> {
    let (id, of_a_job) = (told.id.as_str(), told.job.is_some());
    let Ok(circuit) = CircuitId::part(alert::CHANNELS, "channel", channel) else { return Ok(()) };
    let status = txn.load(&circuit)?.unwrap_or_default().status(policy, txn.now());
    let state = status.state.as_str();
    let mut details = Map::new();
    details.insert("alert".to_owned(), id.into());
    let record = EventRecord {
        at_ms: txn.now().as_millis(),
        event: word.to_owned(),
        dependency: alert::CHANNELS.to_owned(),
        partition: Some(format!("channel={channel}")),
        from_state: state.to_owned(),
        to_state: state.to_owned(),
        generation: status.generation,
        reason: why,
        queued_count: None,
        probe_result: None,
        details,
    };
    // What is as it should be is worth a row only where it ends something; what is told of each job and is not taken,
    // only where it begins something.
    let lasts = match alert::incident_name(&record) {
        Some(name) => txn.incident(&name)?.is_some(),
        None => false,
    };
    let says_nothing = match word {
        "alert_delivered" => !lasts,
        _ => of_a_job && lasts,
    };
    if says_nothing {
        return Ok(());
    }
    txn.append(&record)?;
    note(txn, policy, &record, Some(&status))
}
