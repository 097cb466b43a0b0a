//! Decides whether the story went as it must: four conditions, each with what was seen.
//!
//! The figures come from three witnesses: the OCR (what reached it), the gateway's journal and list of jobs, and the
//! audit of the store after the gateway has ended. All four conditions must hold; none is made up for by another.

use serde_json::{Value, json};

/// What was seen of the whole story.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// Whether a probe was made to fail first.
    pub(super) probe_fails: bool,
    /// Calls that timed out before the breaker opened.
    pub(super) timed_out: usize,
    /// How often the breaker opened.
    pub(super) opened: usize,
    /// How long it was to stay open each time, in milliseconds.
    pub(super) cooldowns_ms: Vec<i64>,
    /// Requests that reached the OCR without a permit before the breaker had closed again.
    pub(super) calls_while_open: usize,
    /// Invoices that were answered with 202 and a job.
    pub(super) accepted: usize,
    /// Invoices that were answered otherwise, with the status.
    pub(super) turned_away: Vec<String>,
    /// Probes of each round that failed.
    pub(super) probes_failed: Vec<usize>,
    /// Probes of the round that closed the breaker; 0 if none did.
    pub(super) probes_deciding: usize,
    /// How many of them succeeded.
    pub(super) probes_succeeded: usize,
    /// Accepted invoices that were booked.
    pub(super) booked: usize,
    /// Accepted invoices that were not booked, or whose job is not there or not done, with its state.
    pub(super) lost: Vec<String>,
    /// Invoices that the OCR booked more than once.
    pub(super) doubled: Vec<String>,
    /// Whether what followed the probes came in the order of acceptance.
    pub(super) oldest_first: bool,
    /// Jobs in the store, by the audit.
    pub(super) audited: u64,
    /// What the audit found wrong.
    pub(super) wrong: Vec<String>,
}

/// One thing that must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    /// What must hold.
    pub(super) claim: &'static str,
    /// Whether it does.
    pub(super) holds: bool,
    /// What was seen.
    pub(super) seen: String,
}

/// How many invoices come in while the breaker is open.
pub(super) const INVOICES: usize = 20;
/// How many probes decide a recovery.
pub(super) const PROBES: usize = 2;

/// Returns the four conditions.
pub(super) fn judge(figures: &Figures) -> [Condition; 4] {
    let Figures { opened, calls_while_open, accepted, probes_deciding, probes_succeeded, .. } = figures;
    let rounds_as_told = figures.probe_fails != figures.probes_failed.is_empty();
    let mut missing = figures.turned_away.clone();
    missing.extend(figures.wrong.iter().map(|wrong| format!("the audit says: {wrong}")));
    let all_there = *accepted == INVOICES && figures.audited == INVOICES as u64 && missing.is_empty();
    [
        Condition {
            claim: "calls to the OCR stopped while it was open",
            holds: *opened > 0 && *calls_while_open == 0,
            seen: if *opened == 0 { "it never opened".to_owned() } else { format!("{calls_while_open} reached it") },
        },
        Condition {
            claim: "nothing is missing from the queue",
            holds: all_there,
            seen: with(&format!("{accepted} accepted, {} in the store", figures.audited), &missing),
        },
        Condition {
            claim: "exactly two probes decided the recovery",
            holds: *probes_deciding == PROBES && *probes_succeeded == PROBES && rounds_as_told,
            seen: match (*probes_deciding, figures.probes_failed.len()) {
                (0, _) => "it never closed again".to_owned(),
                (probes, 0) => format!("{probes} probes, {probes_succeeded} succeeded"),
                (probes, rounds) => {
                    format!("{probes} probes, {probes_succeeded} succeeded, {rounds} failed round before")
                }
            },
        },
        Condition {
            claim: "all 20 were processed, none twice",
            holds: figures.booked == INVOICES && figures.lost.is_empty() && figures.doubled.is_empty(),
            seen: with(
                &format!("{} booked, {} lost, {} doubled", figures.booked, figures.lost.len(), figures.doubled.len()),
                &[figures.lost.as_slice(), figures.doubled.as_slice()].concat(),
            ),
        },
    ]
}

/// Returns figures and conditions as one document.
pub(super) fn document(figures: &Figures, conditions: &[Condition]) -> Value {
    json!({
        "held": conditions.iter().all(|condition| condition.holds),
        "conditions": conditions.iter().map(|condition| json!({
            "claim": condition.claim,
            "holds": condition.holds,
            "seen": condition.seen,
        })).collect::<Vec<_>>(),
        "calls_timed_out": figures.timed_out,
        "times_opened": figures.opened,
        "cooldowns_ms": figures.cooldowns_ms,
        "calls_while_open": figures.calls_while_open,
        "invoices_accepted": figures.accepted,
        "probes_failed": figures.probes_failed,
        "probes": figures.probes_deciding,
        "probes_succeeded": figures.probes_succeeded,
        "invoices_booked": figures.booked,
        "lost": figures.lost,
        "doubled": figures.doubled,
        "oldest_first": figures.oldest_first,
        "audit": { "jobs": figures.audited, "wrong": figures.wrong },
    })
}

fn with(seen: &str, names: &[String]) -> String {
    if names.is_empty() { seen.to_owned() } else { format!("{seen}: {}", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn good() -> Figures {
        Figures {
            timed_out: 5,
            opened: 1,
            cooldowns_ms: vec![10_000],
            accepted: 20,
            probes_deciding: 2,
            probes_succeeded: 2,
            booked: 20,
            oldest_first: true,
            audited: 20,
            ..Figures::default()
        }
    }

    fn broken(figures: &Figures) -> Vec<&'static str> {
        judge(figures).into_iter().filter(|condition| !condition.holds).map(|condition| condition.claim).collect()
    }

    #[test]
    fn a_story_that_went_well_holds() {
        assert_eq!(broken(&good()), Vec::<&str>::new());
        let varied = Figures { probe_fails: true, opened: 2, probes_failed: vec![2], ..good() };
        assert_eq!(broken(&varied), Vec::<&str>::new());
    }

    #[test_case(|f| f.opened = 0, "calls to the OCR stopped while it was open"; "it never opened")]
    #[test_case(|f| f.calls_while_open = 1, "calls to the OCR stopped while it was open"; "a call reached it")]
    #[test_case(|f| f.accepted = 19, "nothing is missing from the queue"; "one was not accepted")]
    #[test_case(|f| f.audited = 19, "nothing is missing from the queue"; "one is not in the store")]
    #[test_case(|f| f.wrong = vec!["a lease".into()], "nothing is missing from the queue"; "the audit finds something")]
    #[test_case(|f| f.probes_deciding = 1, "exactly two probes decided the recovery"; "one probe")]
    #[test_case(|f| f.probes_deciding = 3, "exactly two probes decided the recovery"; "three probes")]
    #[test_case(|f| f.probes_succeeded = 1, "exactly two probes decided the recovery"; "one success")]
    #[test_case(|f| f.probe_fails = true, "exactly two probes decided the recovery"; "the round that was to fail did not")]
    #[test_case(|f| f.booked = 19, "all 20 were processed, none twice"; "one was not booked")]
    #[test_case(|f| f.lost = vec!["INV-01".into()], "all 20 were processed, none twice"; "one is lost")]
    #[test_case(|f| f.doubled = vec!["INV-01".into()], "all 20 were processed, none twice"; "one came twice")]
    fn each_condition_can_fail_alone(break_it: fn(&mut Figures), claim: &str) {
        let mut figures = good();
        break_it(&mut figures);
        assert_eq!(broken(&figures), [claim]);
        assert_eq!(document(&figures, &judge(&figures))["held"], false);
    }
}
