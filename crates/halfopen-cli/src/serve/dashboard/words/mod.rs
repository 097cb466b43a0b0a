//! Lists every text of the dashboard, once for each language.
//!
//! A language is one table, and the compiler demands all of it: a text that is missing in one does not build. A crate for
//! messages with plurals and genders was considered; the texts here are written so that they need neither.

mod en;
mod ja;

pub(super) use en::EN;
pub(super) use ja::JA;

/// All languages, the one that is spoken where none is asked for first.
pub(super) const ALL: [&Words; 2] = [&EN, &JA];

macro_rules! words {
    ($($key:ident),* $(,)?) => {
        /// The texts of one language; the English ones say what each is for.
        #[derive(Debug)]
        pub(super) struct Words {
            $(pub(super) $key: &'static str,)*
        }

        #[cfg(test)]
        impl Words {
            /// Returns all texts by their names.
            pub(super) fn named(&self) -> Vec<(&'static str, &'static str)> {
                vec![$((stringify!($key), self.$key)),*]
            }
        }
    };
}

words! {
    code, name, overview, incidents, jobs, policy, alerts, skip, nav, language, sign_in, sign_out, as_of,
    reload, link_live, link_lost, back_to_overview, range, as_table, all, show, yes, no, comma, n_hidden,
    in_span, ago, just_now, now, time, unit_ms, unit_s, unit_min, unit_h, unit_d, since, lasted, last_day,
    since_start, state, closed, open, half_open, held, held_in, throttled, ramp, observe, not_shown, circuit,
    circuits, dependency, dependencies, owner, why, calls_now, next, failures, probes, probe_good, probe_bad,
    no_circuits, why_failures, why_long_wait, why_quota, why_probe_failed, why_probe_stalled,
    why_probes_inconclusive, why_throttled, why_closed, fate_closed, fate_open, fate_half_open,
    fate_throttled, fate_held_open, fate_held_closed, fate_observe, next_probe, next_probes_end,
    next_call_probes, next_throttle_over, next_hold_over, next_released, next_probe_lease, next_ramp_step,
    next_forgotten, next_nothing, states_over_time, timeline_summary, timeline_failed, n_failures,
    n_of_m_within, probes_now, escalation, escalation_about, ramp_about, callers_waiting, last_failure,
    hint_stated, advice, split_advice, no_reason, runbook, history, no_history, rules_of, queued, running,
    done, failed, expired, manual_review, cancelled, queue_of, queue_over_time, queue_summary, oldest, drain,
    drain_nothing, drain_rate, drain_late, drain_waits, jobs_waiting, calls_spared, of_n_circuits,
    needs_person, look, decide, need_store_read_only, need_store_lost, need_quota, need_credential,
    need_release, need_split, need_review, need_late, need_alerts, figures, figures_about, figure, fig_calls,
    fig_failed, fig_rate_limited, fig_overloaded, fig_hints_read, fig_waits, fig_opened, fig_refused,
    fig_degraded, fig_probes, fig_queued, fig_drained, fig_expired, fig_unclassified, unclassified,
    unclassified_about, rule_to_add, times, class_success, class_rate_limited, class_overloaded,
    class_usage_limit, class_timeout, class_connection_failure, class_server_error, class_quota_exhausted,
    class_auth, class_invalid_request, class_unknown_failure, trip_failures, trip_long_wait, event_tripped,
    event_half_opened, event_half_opened_by, event_recovered, event_reset, event_throttled, event_hint_cut,
    event_failure, event_probe_admitted, event_probe_success, event_probe_failure, event_probe_lost,
    event_probe_neutral, event_ramp_began, event_ramp_stepped, event_ramp_ended, event_hold_placed,
    event_hold_over, event_released, event_auth_failed, event_jobs_failed, event_jobs_expired,
    event_jobs_to_review, event_jobs_will_expire, event_jobs_requeued, event_jobs_resolved,
    event_jobs_cancelled, no_incidents, incidents_about, cause, over, lasting, n_lasting, began_before,
    jobs_kept, n_probes_failed, job, no_jobs, pages, first_page, next_page, accepted, expires, not_before,
    held_by, ended, attempts, n_sent_charged, last_verdict, result, does, account, reason, what_came_back,
    n_bytes, cut, timed_out, not_run, stated, again_at, key, may_have_run, may_have_run_short, job_worker_died, job_shutdown,
    job_not_started, job_unknown_end, job_work_shown, job_ttl_over, job_hint_beyond_ttl, job_attempts_used, job_claims_lost,
    job_permanent, job_forbidden, job_healing, job_policy, job_operator, what_accepted, what_claimed,
    what_sending, what_returned, what_ended, what_unblocked, what_requeued, what_resolved, what_cancelled,
    what_late, policy_from, policy_built_in, rules_circuit, rules_retry, rules_on_open, rules_ways, by_pack,
    by_host, alerts_about, no_alerts, alert_opened, alert_probe_failed, alert_still_open, alert_recovered,
    alert_needs_person, alert_manual_review, alert_ttl_at_risk, alert_unclassified, alert_silent,
    alert_failing, alert_store_lost, alert_store_back, alert_test, delivery_due, delivery_done, delivery_failed, hold, release, reset, requeue,
    resolve, discard, cancel, probe_now_short, leave_it, hold_about, hold_state, hold_open_about,
    hold_closed_about, hold_for, hold_for_about, release_about, probe_now, reset_about, requeue_about,
    new_ttl, new_ttl_about, may_have_run_tick, resolve_about, result_about, discard_about, cancel_about,
    reason_about, reason_missing, reason_wrong, span_wrong, hold_state_missing, result_wrong, not_allowed,
    done_hold, done_release, done_reset, done_requeue, done_resolve, done_discard, done_cancel,
    choose, whole_page, with_chosen, none_chosen, many_about, many_may_have_run, some_left,
    sign_in_about, sign_in_refused, sign_in_session, token,
}

/// Returns the language of a code.
pub(super) fn of(code: &str) -> Option<&'static Words> {
    ALL.into_iter().find(|words| words.code == code)
}

/// Returns the language that a browser prefers among ours, by RFC 9110 section 12.5.4.
pub(super) fn accepted(field: &str) -> &'static Words {
    let mut best: (&'static Words, f32) = (&EN, 0.0);
    for part in field.split(',').take(32) {
        let mut words = part.split(';').map(str::trim);
        let tag = words.next().unwrap_or_default().to_ascii_lowercase();
        let weight = words.find_map(|word| word.strip_prefix("q=")).map_or(1.0, |q| q.parse().unwrap_or(0.0));
        let found = ALL.into_iter().find(|known| tag.split('-').next() == Some(known.code));
        if let Some(found) = found.filter(|_| weight > best.1) {
            best = (found, weight);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use test_case::test_case;

    /// Returns the names in braces.
    fn places(text: &str) -> BTreeSet<&str> {
        text.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name).collect()
    }

    #[test]
    fn every_language_has_every_text_and_fills_in_the_same() {
        let english = EN.named();
        for words in ALL {
            let texts = words.named();
            assert_eq!(texts.len(), english.len());
            for ((name, text), (_, meant)) in texts.into_iter().zip(&english) {
                assert!(!text.trim().is_empty(), "{}: {name} is empty", words.code);
                assert_eq!(places(text), places(meant), "{}: {name}", words.code);
            }
        }
    }

    #[test]
    fn what_is_japanese_is_not_english() {
        // Units of the policy are the same everywhere.
        let same: Vec<&str> =
            EN.named().into_iter().zip(JA.named()).filter(|(en, ja)| en.1 == ja.1).map(|(en, _)| en.0).collect();
        assert_eq!(same, Vec::<&str>::new());
    }

    #[test_case("ja" => "ja")]
    #[test_case("ja-JP,ja;q=0.9,en;q=0.8" => "ja")]
    #[test_case("en-GB,en;q=0.9,ja;q=0.8" => "en")]
    #[test_case("fr,ja;q=0.5" => "ja")]
    #[test_case("fr" => "en"; "a language that is not ours")]
    #[test_case("ja;q=0" => "en"; "a language that is not wanted")]
    #[test_case("" => "en"; "no wish")]
    fn the_browsers_wish_is_heard(field: &str) -> &'static str {
        accepted(field).code
    }
}
