//! Tells the incidents of the last days out of the journal: from the trip to the recovery.
//!
//! An incident of a circuit begins when its breaker leaves closed and ends when it is closed again, by probes or by an
//! operator. What the journal does not hold is not guessed: of an incident that began before the span, the beginning is
//! unknown. Calls spared are counted by the lines that every process leaves ([`halfopen::activation`]), which know their
//! dependency and not their circuit; a line counts for the incident that began last before it.

use std::collections::BTreeMap;
use std::time::Duration;

use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;

use crate::serve::drills::is_one;
use crate::shown::{SHADOW, circuit_of};

/// How long after an incident its last line may come: gateways write one a minute.
const LATE: Duration = Duration::from_secs(90);

/// One incident.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Incident {
    pub(super) circuit: String,
    pub(super) dependency: String,
    /// The trip that began it; `None` if that was before the span.
    pub(super) trip: Option<EventRecord>,
    pub(super) began_at: Timestamp,
    /// What ended it; `None` while it lasts.
    pub(super) end: Option<EventRecord>,
    /// Probes that ended, and how many of them failed.
    pub(super) probes: u32,
    pub(super) failed_probes: u32,
    /// Calls that were kept as jobs meanwhile, or the most that were seen waiting.
    pub(super) jobs: u64,
    /// Calls that were refused meanwhile.
    pub(super) spared: u64,
}

impl Incident {
    /// Returns when it ended.
    pub(super) fn ended_at(&self) -> Option<Timestamp> {
        self.end.as_ref().map(|event| Timestamp::from_millis(event.at_ms))
    }

    fn begun_by(event: &EventRecord) -> Self {
        Self {
            circuit: circuit_of(event),
            dependency: event.dependency.clone(),
            trip: (event.from_state == "closed").then(|| event.clone()),
            began_at: Timestamp::from_millis(event.at_ms),
            end: None,
            probes: 0,
            failed_probes: 0,
            jobs: 0,
            spared: 0,
        }
    }
}

/// Returns the incidents that `events` tell of, the newest first. `events` are in the order of their instants.
pub(super) fn told_by(events: &[EventRecord]) -> Vec<Incident> {
    let mut open: BTreeMap<String, Incident> = BTreeMap::new();
    let mut over = Vec::new();
    for event in events.iter().filter(|event| !event.dependency.ends_with(SHADOW) && !is_one(&event.dependency)) {
        let circuit = circuit_of(event);
        if event.to_state != "closed" || event.from_state != "closed" {
            let incident = open.entry(circuit.clone()).or_insert_with(|| Incident::begun_by(event));
            incident.jobs = incident.jobs.max(event.queued_count.unwrap_or(0));
            if event.event == "probe_ended" {
                incident.probes += 1;
                incident.failed_probes += u32::from(event.probe_result.as_deref() == Some("failure"));
            }
        }
        if event.from_state != "closed"
            && event.to_state == "closed"
            && let Some(mut incident) = open.remove(&circuit)
        {
            incident.end = Some(event.clone());
            over.push(incident);
        }
    }
    over.extend(open.into_values());
    over.sort_by_key(|incident| std::cmp::Reverse(incident.began_at));
    over
}

/// Calls that were kept off a dependency, as one line noted them.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptOff {
    pub(super) at: Timestamp,
    pub(super) refused: u64,
    pub(super) queued: u64,
}

/// Adds to the incidents of one dependency what was kept off it meanwhile.
pub(super) fn spare(incidents: &mut [Incident], dependency: &str, noted: &[KeptOff]) {
    let mut queued = vec![0; incidents.len()];
    for KeptOff { at, refused, queued: jobs } in noted {
        let mut of = incidents.iter_mut().zip(&mut queued).filter(|(incident, _)| incident.dependency == dependency);
        // The newest stand first.
        let last = of.find(|(incident, _)| {
            let until = incident.ended_at().map(|ended| ended + LATE);
            incident.began_at <= *at && until.is_none_or(|until| *at <= until)
        });
        if let Some((incident, queued)) = last {
            incident.spared += refused;
            *queued += jobs;
        }
    }
    for (incident, queued) in incidents.iter_mut().zip(queued) {
        incident.jobs = incident.jobs.max(queued);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(word: &str, at_ms: i64, from: &str, to: &str) -> EventRecord {
        EventRecord {
            at_ms,
            event: word.to_owned(),
            dependency: "ocr".to_owned(),
            partition: None,
            from_state: from.to_owned(),
            to_state: to.to_owned(),
            generation: 1,
            reason: None,
            queued_count: (word == "half_opened").then_some(7),
            probe_result: (word == "probe_ended").then(|| "failure".to_owned()),
            details: serde_json::Map::new(),
        }
    }

    #[test]
    fn an_incident_lasts_from_the_trip_to_the_recovery_over_all_its_rounds() {
        let events = [
            event("recovered", 5, "half_open", "closed"),
            event("failure_counted", 8, "closed", "closed"),
            event("tripped", 10, "closed", "open"),
            event("half_opened", 20, "open", "half_open"),
            event("probe_ended", 21, "half_open", "half_open"),
            event("tripped", 21, "half_open", "open"),
            event("half_opened", 30, "open", "half_open"),
            event("recovered", 40, "half_open", "closed"),
            event("tripped", 100, "closed", "open"),
        ];
        let mut found = told_by(&events);
        let times: Vec<_> =
            found.iter().map(|i| (i.began_at.as_millis(), i.ended_at().map(Timestamp::as_millis))).collect();
        assert_eq!(times, [(100, None), (10, Some(40)), (5, Some(5))]);
        assert_eq!((found[1].probes, found[1].failed_probes, found[1].jobs), (1, 1, 7));
        assert!(found[2].trip.is_none(), "it began before the span");
        let at = |ms: i64, refused: u64| KeptOff { at: Timestamp::from_millis(ms), refused, queued: 2 * refused };
        spare(&mut found, "ocr", &[at(15, 3), at(60_000, 4), at(1, 9)]);
        spare(&mut found, "crm", &[at(15, 3)]);
        assert_eq!([found[0].spared, found[1].spared], [4, 3]);
        assert_eq!([found[0].jobs, found[1].jobs], [8, 7], "what was noted, or the most that was seen waiting");
    }
}
