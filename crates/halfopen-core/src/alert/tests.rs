//! Stories of incidents: what an owner hears, event by event.

use super::*;
use test_case::test_case;

const NOON_MS: i64 = 1_796_040_000_000;

/// One incident's name with what is remembered of it, and the instant.
struct Story {
    incident: Option<IncidentRecord>,
    now: Timestamp,
    told: Vec<AlertRecord>,
}

impl Story {
    fn new() -> Self {
        Self { incident: None, now: Timestamp::from_millis(NOON_MS), told: Vec::new() }
    }

    fn record(&self, event: &str, from: &str, to: &str, reason: &str) -> EventRecord {
        EventRecord {
            at_ms: self.now.as_millis(),
            event: event.to_owned(),
            dependency: "ocr".to_owned(),
            partition: Some("region=eu".to_owned()),
            from_state: from.to_owned(),
            to_state: to.to_owned(),
            generation: 3,
            reason: Some(reason.to_owned()),
            queued_count: None,
            probe_result: None,
            details: Map::new(),
        }
    }

    fn happens(&mut self, record: &EventRecord) -> Vec<&'static str> {
        let beside = Beside { owner: Some("oncall"), runbook: Some("https://x"), status: None, jobs_waiting: Some(4) };
        let (after, told) = note(self.incident.take(), record, beside, self.now);
        self.incident = after;
        self.heard(told)
    }

    /// Lets time pass until the incident's wake, and no further than `longest`.
    fn passes(&mut self, longest: Duration) -> Vec<&'static str> {
        let end = self.now + longest;
        let mut heard = Vec::new();
        while let Some(wake) = self.incident.as_ref().and_then(|incident| incident.wake_at_ms)
            && wake <= end.as_millis()
        {
            self.now = Timestamp::from_millis(wake);
            if let Some(incident) = self.incident.take() {
                let (after, told) = remind(incident, self.now);
                self.incident = after;
                heard.extend(self.heard(told));
            }
        }
        self.now = end;
        heard
    }

    fn heard(&mut self, told: Vec<AlertRecord>) -> Vec<&'static str> {
        let kind = |alert: &AlertRecord| {
            let found = Kind::ALL.into_iter().find(|kind| kind.as_str() == alert.kind).map(Kind::as_str);
            found.unwrap_or_default().trim_start_matches("dev.halfopen.")
        };
        let kinds = told.iter().map(kind).collect();
        self.told.extend(told);
        kinds
    }

    fn trips(&mut self) -> Vec<&'static str> {
        self.happens(&self.record("tripped", "closed", "open", "failures"))
    }

    fn probe_fails(&mut self) -> Vec<&'static str> {
        self.happens(&self.record("tripped", "half_open", "open", "probe_failed"))
    }

    fn recovers(&mut self) -> Vec<&'static str> {
        self.happens(&self.record("recovered", "half_open", "closed", "probes_succeeded"))
    }
}

const NOTHING: [&str; 0] = [];
const MINUTE: Duration = Duration::from_secs(60);

/// S186: two hours of it are a first word, a failed probe, reminders ever further apart, and a last word.
#[test]
fn a_long_incident_is_told_in_few_words() {
    let mut story = Story::new();
    assert_eq!(story.trips(), ["circuit.opened"]);
    assert_eq!(story.probe_fails(), ["circuit.probe_failed"]);
    let mut reminders = 0;
    for _ in 0..60 {
        assert_eq!(story.probe_fails(), NOTHING);
        reminders += story.passes(2 * MINUTE).len();
    }
    assert_eq!(reminders, 3);
    let reminded = story.told.iter().filter(|alert| alert.kind == Kind::StillOpen.as_str()).map(|alert| alert.at_ms);
    assert_eq!(reminded.collect::<Vec<_>>(), [15, 45, 105].map(|minutes| NOON_MS + minutes * 60_000));
    assert_eq!(story.recovers(), ["circuit.recovered"]);
    assert_eq!(story.recovers(), NOTHING);
    let threads: std::collections::BTreeSet<_> = story.told.iter().map(|alert| &alert.thread).collect();
    let names: std::collections::BTreeSet<_> = story.told.iter().map(|alert| &alert.id).collect();
    assert_eq!((threads.len(), names.len()), (1, story.told.len()));
    assert!(story.told.iter().all(|alert| alert.event.queued_count == Some(4) && alert.owner == "oncall"));
}

/// One that comes back soon is the same incident: the owner, who was told its end, hears of it if it stays, and then of
/// its end again.
#[test]
fn flapping_is_folded_and_nobody_is_left_with_a_wrong_belief() {
    let mut story = Story::new();
    story.trips();
    assert_eq!(story.recovers(), ["circuit.recovered"]);
    for _ in 0..5 {
        story.passes(MINUTE);
        assert_eq!(story.trips(), NOTHING);
        story.passes(MINUTE);
        assert_eq!(story.recovers(), NOTHING);
    }
    story.passes(MINUTE);
    assert_eq!(story.trips(), NOTHING);
    assert_eq!(story.passes(6 * MINUTE), ["circuit.still_open"]);
    assert_eq!(story.told.last().map(|alert| alert.flaps), Some(6));
    assert_eq!(story.recovers(), ["circuit.recovered"]);
    assert_eq!(story.passes(FOLD), NOTHING);
    assert_eq!(story.trips(), ["circuit.opened"], "a new one");
}

/// The instant at which an incident stops being the same is the instant at which it is forgotten.
#[test]
fn one_that_comes_back_when_the_fold_is_over_is_a_new_one() {
    let mut story = Story::new();
    story.trips();
    story.recovers();
    let mut early = Story { incident: story.incident.clone(), now: story.now, told: Vec::new() };
    early.now = early.now + FOLD - Duration::from_millis(1);
    assert_eq!(early.trips(), NOTHING);
    story.now = story.now + FOLD;
    assert_eq!(story.trips(), ["circuit.opened"]);
}

#[test]
fn an_alert_says_what_its_own_event_says_on_the_thread_of_the_first() {
    let mut story = Story::new();
    story.trips();
    story.now = story.now + MINUTE;
    story.probe_fails();
    let [first, second] = story.told.as_slice() else { panic!("{:?}", story.told) };
    assert_eq!((first.circuit.as_str(), first.began_at_ms), ("ocr@region=eu", NOON_MS));
    assert_eq!(second.event.reason.as_deref(), Some("probe_failed"));
    assert_eq!((&second.thread, second.began_at_ms), (&first.thread, NOON_MS));
    let mut whole = Story::new();
    let mut record = whole.record("tripped", "closed", "open", "failures");
    record.partition = None;
    whole.happens(&record);
    assert_eq!(whole.told[0].circuit, "ocr");
}

/// A store looks an incident up by this name, so an event must find the one that it belongs to and no other.
#[test_case("tripped", Some("ocr@region=eu"))]
#[test_case("recovered", Some("ocr@region=eu"))]
#[test_case("jobs_expired", Some("ocr@region=eu dev.halfopen.jobs.ttl_at_risk"))]
#[test_case("auth_failed", Some("ocr@region=eu dev.halfopen.circuit.needs_person"))]
#[test_case("throttled", None)]
fn an_event_names_its_incident(event: &str, name: Option<&str>) {
    let record = Story::new().record(event, "closed", "closed", "x");
    assert_eq!(incident_name(&record).as_deref(), name);
    let channel = EventRecord { dependency: CHANNELS.to_owned(), ..record };
    let told = name.is_some() && matches!(event, "tripped" | "recovered");
    let expected = told.then(|| format!("{CHANNELS}@region=eu {}", Kind::AlertFailing.as_str()));
    assert_eq!(incident_name(&channel), expected);
}

/// docs/alerts.md gives these to those who are woken by them.
#[test]
fn the_spans_of_an_incident_are_what_the_docs_say() {
    assert_eq!((FOLD, REMIND_FIRST, REMIND_RETURNED), (10 * MINUTE, 15 * MINUTE, 5 * MINUTE));
    assert_eq!((REMIND_MAX, SUM_EVERY, DELIVER_FOR), (24 * 60 * MINUTE, 60 * MINUTE, 24 * 60 * MINUTE));
}

/// An event is dated with the instant at which it was due; the owner is told, and the incident begins, when it is seen.
#[test]
fn an_incident_begins_when_its_event_is_seen_and_repeats_its_facts() {
    let mut story = Story::new();
    let record = story.record("tripped", "closed", "open", "failures");
    story.now = story.now + MINUTE;
    story.happens(&record);
    let alert = story.told[0].clone();
    assert_eq!((alert.event.at_ms, alert.began_at_ms), (NOON_MS, NOON_MS + 60_000));
    // A later event that tells nothing leaves the last alert what it was, and takes no evidence away from it.
    let mut incident = story.incident.take().expect("it lasts");
    let evidence =
        EvidenceRecord { class: "timeout".to_owned(), rule: "test/rule".to_owned(), excerpt: "too late".to_owned() };
    incident.last.evidence = Some(evidence.clone());
    story.incident = Some(incident);
    assert_eq!(story.trips(), NOTHING);
    let last = story.incident.expect("it lasts").last;
    assert_eq!((last.kind.as_str(), last.evidence), (Kind::Opened.as_str(), Some(evidence)));
}

#[test]
fn no_wake_of_an_incident_lies_further_ahead_than_a_day() {
    assert_eq!(wake_ms_max(), 86_400_000);
}

#[test]
fn a_post_is_due_when_the_first_of_its_channels_is() {
    let now = Timestamp::from_millis(NOON_MS);
    let delivery = |state, minutes: i64| DeliveryRecord {
        channel: "c".to_owned(),
        state,
        attempts: 0,
        next_at_ms: NOON_MS + minutes * 60_000,
        error: None,
    };
    let mut post = crate::snapshot::PostRecord::new(test("oncall", 1, now));
    assert_eq!(post.due_at_ms(), None, "nobody has claimed it yet");
    let (due, done) = (DeliveryState::Due, DeliveryState::Delivered);
    post.deliveries = vec![delivery(done, 1), delivery(due, 5), delivery(due, 3), delivery(DeliveryState::Failed, 2)];
    assert_eq!(post.due_at_ms(), Some(NOON_MS + 180_000));
    post.deliveries.retain(|delivery| delivery.state != due);
    assert_eq!(post.due_at_ms(), None);
    let words = [due, done, DeliveryState::Failed].map(DeliveryState::as_str);
    assert_eq!(words, ["due", "delivered", "failed"]);
}

#[test]
fn a_quota_needs_a_person_once() {
    let mut story = Story::new();
    let quota = story.record("tripped", "closed", "open", "quota_exhausted");
    assert_eq!(story.happens(&quota), ["circuit.opened", "circuit.needs_person"]);
    assert_eq!(story.happens(&quota), NOTHING);
    assert_eq!(story.passes(15 * MINUTE), ["circuit.still_open"], "it is an incident like any other");
}

/// Who was told the end, and then that a probe failed or that a person is needed, is told the end again.
#[test_case("half_open", "probe_failed", "circuit.probe_failed")]
#[test_case("closed", "quota_exhausted", "circuit.needs_person")]
fn whatever_is_told_of_one_that_came_back_is_followed_by_its_end(from: &str, reason: &str, kind: &str) {
    let mut story = Story::new();
    story.trips();
    assert_eq!(story.recovers(), ["circuit.recovered"]);
    story.passes(MINUTE);
    let back = story.record("tripped", from, "open", reason);
    assert_eq!(story.happens(&back), [kind]);
    assert_eq!(story.recovers(), ["circuit.recovered"]);
}

/// What is over is remembered for as long as it could come back, and then no longer: stores stay small.
#[test]
fn an_incident_is_forgotten_when_it_can_no_longer_come_back() {
    let mut story = Story::new();
    story.trips();
    story.passes(MINUTE);
    story.recovers();
    assert_eq!(story.passes(FOLD - Duration::from_millis(1)), NOTHING);
    assert!(story.incident.is_some());
    assert_eq!(story.passes(Duration::from_millis(1)), NOTHING);
    assert!(story.incident.is_none());
}

#[test_case("jobs_to_review", "jobs.manual_review")]
#[test_case("jobs_will_expire", "jobs.ttl_at_risk")]
#[test_case("jobs_expired", "jobs.ttl_at_risk")]
fn jobs_are_told_at_once_and_then_in_sums(event: &str, kind: &str) {
    let mut story = Story::new();
    let mut record = story.record(event, "closed", "closed", "x");
    record.details.insert("jobs".to_owned(), 2.into());
    assert_eq!(story.happens(&record), [kind]);
    assert_eq!((story.told[0].jobs, story.told[0].more["count"].as_u64()), (Some(2), Some(2)));
    for _ in 0..50 {
        assert_eq!(story.happens(&record), NOTHING);
    }
    assert_eq!(story.passes(SUM_EVERY), [kind]);
    assert_eq!(story.told.last().map(|alert| (alert.jobs, alert.at_ms)), Some((Some(100), NOON_MS + 3_600_000)));
    assert_eq!(story.told.last().and_then(|alert| alert.more["count"].as_u64()), Some(100));
    assert_eq!(story.happens(&record), NOTHING);
    assert_eq!(story.passes(SUM_EVERY), [kind], "the next hour has its own sum");
    assert_eq!(story.told.last().and_then(|alert| alert.jobs), Some(2));
    assert_eq!(story.passes(SUM_EVERY), NOTHING);
    assert!(story.incident.is_none(), "forgotten");
}

#[test_case("auth_failed", "circuit.needs_person")]
#[test_case("hint_cut", "circuit.needs_person")]
#[test_case("silent", "silent")]
#[test_case("unclassified_rising", "unclassified_rising")]
fn what_is_no_transition_has_its_alert(event: &str, kind: &str) {
    let mut story = Story::new();
    assert_eq!(story.happens(&story.record(event, "closed", "closed", "x")), [kind]);
    assert_eq!(story.happens(&story.record(event, "closed", "closed", "x")), NOTHING);
}

/// The failure of a channel is told once, and not by the channel; it never causes an incident of its own kind.
#[test]
fn a_failing_channel_is_told_once_until_it_works() {
    let mut story = Story::new();
    let mut record = story.record("tripped", "closed", "open", "failures");
    (record.dependency, record.partition) = (CHANNELS.to_owned(), Some("channel=oncall/webhook-1".to_owned()));
    assert_eq!(story.happens(&record), ["alert_failing"]);
    assert_eq!(story.told[0].except.as_deref(), Some("oncall/webhook-1"));
    record.event = "alert_given_up".to_owned();
    assert_eq!(story.happens(&record), NOTHING);
    record.event = "alert_delivered".to_owned();
    assert_eq!(story.happens(&record), NOTHING);
    record.event = "tripped".to_owned();
    assert_eq!(story.happens(&record), ["alert_failing"], "again, after it had worked");
}

#[test]
fn nobody_hears_of_circuits_that_only_watch_nor_of_those_without_an_owner() {
    let mut story = Story::new();
    let mut record = story.record("tripped", "closed", "open", "failures");
    let (incident, told) = note(None, &record, Beside::default(), story.now);
    assert!(incident.is_none() && told.is_empty());
    record.dependency.push_str("~observe");
    assert_eq!(story.happens(&record), NOTHING);
}

/// Whoever computes it again gets the same name.
#[test]
fn names_are_computed_and_not_drawn() {
    let (mut one, mut other) = (Story::new(), Story::new());
    one.trips();
    other.trips();
    assert_eq!(one.told, other.told);
    assert!(one.told[0].id.starts_with("alr_") && one.told[0].thread.starts_with("inc_"));
}

#[test]
fn deliveries_are_repeated_ever_later_and_given_up_in_the_end() {
    let alert = test("oncall", 1, Timestamp::from_millis(NOON_MS));
    let mut delivery = DeliveryRecord {
        channel: "oncall/webhook-1".to_owned(),
        state: DeliveryState::Due,
        attempts: 0,
        next_at_ms: NOON_MS,
        error: None,
    };
    let mut now = Timestamp::from_millis(NOON_MS);
    let mut waits = Vec::new();
    while delivery.state == DeliveryState::Due {
        let not_now = Delivered::NotNow { error: "500".to_owned(), wait: None };
        let given_up = settle(&mut delivery, &alert, not_now, now);
        assert_eq!(given_up, delivery.state == DeliveryState::Failed);
        let next = Timestamp::from_millis(delivery.next_at_ms);
        waits.push(now.until(next).as_secs());
        now = next;
    }
    assert_eq!(waits[..8], [2, 6, 18, 54, 162, 486, 1458, 3600]);
    assert!(delivery.attempts <= ATTEMPTS_MAX);
    assert!(Timestamp::from_millis(NOON_MS).until(now) <= DELIVER_FOR + REDELIVER_MAX * 2);
}

/// S184: a stated wait is obeyed; what was not tried costs no attempt; what is refused for good is over.
#[test]
fn a_delivery_obeys_what_the_receiver_says() {
    let now = Timestamp::from_millis(NOON_MS);
    let alert = test("oncall", 1, now);
    let due = DeliveryRecord {
        channel: "c".to_owned(),
        state: DeliveryState::Due,
        attempts: 0,
        next_at_ms: NOON_MS,
        error: None,
    };
    let mut delivery = due.clone();
    let wait = Some(Duration::from_secs(100));
    assert!(!settle(&mut delivery, &alert, Delivered::NotNow { error: String::new(), wait }, now));
    assert_eq!((delivery.attempts, delivery.next_at_ms), (1, NOON_MS + 100_000));
    let mut delivery = due.clone();
    let not_tried = Delivered::NotTried { why: "its circuit is open".to_owned(), at: now + MINUTE };
    assert!(!settle(&mut delivery, &alert, not_tried, now));
    assert_eq!((delivery.attempts, delivery.next_at_ms), (0, NOON_MS + 60_000));
    assert_eq!(delivery.error.as_deref(), Some("its circuit is open"));
    let mut delivery = due.clone();
    assert!(settle(&mut delivery, &alert, Delivered::Never { error: "404".to_owned() }, now));
    let of = |delivery: &DeliveryRecord| (delivery.state, delivery.attempts, delivery.error.clone());
    assert_eq!(of(&delivery), (DeliveryState::Failed, 1, Some("404".to_owned())));
    let mut delivery = due;
    let not_now = Delivered::NotNow { error: "500".to_owned(), wait: None };
    assert!(!settle(&mut delivery, &alert, not_now, now));
    assert_eq!(of(&delivery), (DeliveryState::Due, 1, Some("500".to_owned())));
    assert!(!settle(&mut delivery, &alert, Delivered::Yes, now));
    assert_eq!(of(&delivery), (DeliveryState::Delivered, 2, None));
}

/// Its end is of the same incident, and two processes that meet it do not take their alerts for one.
#[test]
fn a_lost_store_and_its_return_are_one_thread_for_each_process() {
    let at = Timestamp::from_millis(1_796_040_000_000);
    let trouble = StoreTrouble { store: "sqlite:/a.db", reason: "store_lost", why: "it is gone", draw: 1, began: at };
    let lost = store_trouble("oncall", trouble, Kind::StoreLost, at + Duration::from_secs(3));
    let back = store_trouble("oncall", trouble, Kind::StoreBack, at + Duration::from_secs(90));
    assert_eq!((lost.kind.as_str(), back.kind.as_str()), ("dev.halfopen.store_lost", "dev.halfopen.store_back"));
    assert!(lost.thread == back.thread && lost.id != back.id);
    assert_eq!((lost.began_at_ms, lost.more["direct"].as_bool()), (at.as_millis(), Some(true)));
    let other = store_trouble("oncall", StoreTrouble { draw: 2, ..trouble }, Kind::StoreLost, at);
    assert_ne!(lost.thread, other.thread);
}
