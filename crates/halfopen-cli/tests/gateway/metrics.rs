//! `/metrics`: figures that are right when they are read.

use crate::stub::{Reply, Stub};
use crate::world::{Starting, gateway, policy, until};

/// Returns the value of a series.
pub(crate) fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find(|line| line.split(' ').next() == Some(series));
    line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or_else(|| panic!("{series} in {text}"))
}

#[test]
fn both_forms_are_spoken_and_every_circuit_is_there_from_the_start() {
    let gateway = gateway(&Stub::start(), "");
    let plain = gateway.ask("GET", "/metrics", &[], "");
    assert_eq!(plain.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = plain.text();
    assert_eq!(value(&text, r#"halfopen_circuit_state{dependency="up",circuit="up",state="closed"}"#), 1.0);
    assert_eq!(value(&text, r#"halfopen_circuit_state{dependency="up",circuit="up",state="open"}"#), 0.0);
    assert_eq!(value(&text, r#"halfopen_circuit_open_seconds_left{dependency="up",circuit="up"}"#), 0.0);
    assert_eq!(value(&text, r#"halfopen_policy_reloads_total{result="failed"}"#), 0.0);
    assert_eq!(value(&text, "halfopen_store_writable"), 1.0);
    assert!(text.contains("# TYPE halfopen_policy_reloads_total counter"), "{text}");
    let standard =
        gateway.ask("GET", "/metrics", &[("accept", "application/openmetrics-text;version=1.0.0,*/*;q=0.1")], "");
    assert!(standard.field("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(standard.text().ends_with("# EOF\n"));
}

/// S189: a breaker whose cooldown is over is half-open in the next scrape, though nobody calls.
#[test]
fn states_are_right_at_scrape_time() {
    let gateway = gateway(&Stub::start(), "");
    gateway.failures("up", 5);
    let scrape = || gateway.ask("GET", "/metrics", &[], "").text();
    let state = |text: &str, state: &str| {
        value(text, &format!(r#"halfopen_circuit_state{{dependency="up",circuit="up",state="{state}"}}"#))
    };
    let text = scrape();
    assert_eq!((state(&text, "open"), state(&text, "closed")), (1.0, 0.0));
    let left = value(&text, r#"halfopen_circuit_open_seconds_left{dependency="up",circuit="up"}"#);
    assert!(left > 60.0 && left < 140.0, "{left}");
    gateway.halfopen(&["release", "up", "--probe-now"]);
    let text = scrape();
    assert_eq!((state(&text, "half_open"), state(&text, "open")), (1.0, 0.0));
    gateway.halfopen(&["hold", "up", "closed"]);
    assert_eq!(value(&scrape(), r#"halfopen_circuit_held{dependency="up",circuit="up",state="closed"}"#), 1.0);
}

/// S190: what callers and strangers send becomes no series.
#[test]
fn labels_are_bounded() {
    let gateway = gateway(&Stub::start(), "");
    let before = gateway.ask("GET", "/metrics", &[], "").text().lines().count();
    for n in 0..200 {
        gateway.get(&format!("/d/nobody-{n}/x"));
        gateway.get(&format!("/nothing/{n}"));
        gateway.ask("GET", &format!("/circuits/stranger-{n}"), &[], "");
    }
    assert_eq!(gateway.ask("GET", "/metrics", &[], "").text().lines().count(), before);
}

#[test]
fn reloads_are_counted_by_how_they_ended() {
    let gateway = gateway(&Stub::start(), "");
    std::fs::write(gateway.path("policy.yaml"), "nonsense: [").unwrap();
    gateway.signal(rustix::process::Signal::HUP);
    until("a refused reload is counted", || {
        let text = gateway.ask("GET", "/metrics", &[], "").text();
        value(&text, r#"halfopen_policy_reloads_total{result="failed"}"#) >= 1.0
    });
}

/// What was counted is there from the start, at 0, and grows with calls; the histogram too.
#[test]
fn every_series_of_every_dependency_begins_at_zero() {
    let stub = Stub::start();
    stub.then([Reply::ok("fine"), Reply::status(503, "no")]);
    let gateway = gateway(&stub, "circuit: { open_after_failures: 1, open_for_sec: 60 }");
    let before = gateway.ask("GET", "/metrics", &[], "").text();
    let of = |text: &str, series: &str| value(text, &format!("halfopen_{series}"));
    for series in
        ["calls", "retries", "waits", "hints_read", "opened", "probes", "degraded", "unclassified", "client_aborts"]
    {
        assert_eq!(of(&before, &format!(r#"{series}_total{{dependency="up"}}"#)), 0.0, "{series}");
    }
    for class in halfopen_core::verdict::Class::ALL {
        assert_eq!(of(&before, &format!(r#"attempts_total{{dependency="up",class="{class}"}}"#)), 0.0);
    }
    assert_eq!(of(&before, r#"attempt_head_seconds_count{dependency="up"}"#), 0.0);
    assert_eq!(gateway.get("/d/up/x").status, 200);
    gateway.get("/d/up/x");
    gateway.becomes("up", "open");
    assert_eq!(gateway.get("/d/up/x").status, 503);
    let after = gateway.ask("GET", "/metrics", &[], "").text();
    assert_eq!(of(&after, r#"calls_total{dependency="up"}"#), 3.0);
    assert_eq!(of(&after, r#"attempts_total{dependency="up",class="success"}"#), 1.0);
    assert_eq!(of(&after, r#"attempts_total{dependency="up",class="overloaded"}"#), 1.0);
    assert_eq!(of(&after, r#"refused_total{dependency="up",reason="open"}"#), 1.0);
    assert_eq!(of(&after, r#"refused_total{dependency="up",reason="held"}"#), 0.0);
    assert_eq!(of(&after, r#"opened_total{dependency="up"}"#), 1.0);
    assert_eq!(of(&after, r#"attempt_head_seconds_count{dependency="up"}"#), 2.0);
    assert_eq!(of(&after, r#"attempt_head_seconds_bucket{dependency="up",le="+Inf"}"#), 2.0);
    assert_eq!(before.lines().count(), after.lines().count());
}

/// The activation lines cover the gateway: at intervals and at the end, also when nothing happened.
#[test]
fn report_covers_the_gateway() {
    let stub = Stub::start();
    stub.always(Reply::ok("fine"));
    let mut gateway = Starting::new(&policy(&stub.url(), "")).word("--activation-interval").word("50ms").start();
    let report = |gateway: &crate::world::Gateway| -> serde_json::Value {
        let printed = gateway.halfopen(&["report", "--json"]);
        serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}"))
    };
    until("a line of zeros", || report(&gateway)[0]["dependency"] == "up");
    assert_eq!(report(&gateway)[0]["calls"], 0);
    for _ in 0..3 {
        gateway.get("/d/up/x");
    }
    gateway.signal(rustix::process::Signal::TERM);
    assert_eq!(gateway.ended().code(), Some(0));
    assert_eq!(report(&gateway)[0]["calls"], 3);
}

/// A scrape before the first call shows every series, at 0, in both forms alike.
#[test]
fn a_scrape_before_the_first_call_shows_every_series() {
    use halfopen_core::job::JobState;
    use halfopen_core::verdict::Class;
    let channels = "alerts:\n  oncall:\n  - webhook: http://127.0.0.1:9/x\n";
    let gateway = Starting::new(&format!("{}{channels}", policy("http://127.0.0.1:9", "owner: oncall"))).start();
    let text = gateway.ask("GET", "/metrics", &[], "").text();
    let mut expected: Vec<(String, f64)> = Vec::new();
    let mut all = |name: &str, labels: &str, at: f64| {
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        expected.push((format!("halfopen_{name}{labels}"), at));
    };
    let up = r#"dependency="up""#;
    for name in [
        "jobs_queued",
        "jobs_claimed",
        "calls",
        "retries",
        "waits",
        "hints_read",
        "opened",
        "probes",
        "degraded",
        "unclassified",
        "client_aborts",
        "would_refuse",
        "cache_answers",
        "fallback_answers",
        "body_not_replayable",
        "panics",
    ] {
        all(&format!("{name}_total"), up, 0.0);
    }
    for reason in ["open", "probes_out", "throttled", "ramp", "held"] {
        all("refused_total", &format!(r#"{up},reason="{reason}""#), 0.0);
    }
    Class::ALL.iter().for_each(|class| all("attempts_total", &format!(r#"{up},class="{class}""#), 0.0));
    for state in JobState::ALL.map(JobState::as_str) {
        all("jobs", &format!(r#"{up},state="{state}""#), 0.0);
        all("jobs_oldest_seconds", &format!(r#"{up},state="{state}""#), 0.0);
        if !["queued", "running"].contains(&state) {
            all("jobs_ended_total", &format!(r#"{up},state="{state}""#), 0.0);
        }
    }
    for name in ["drain_rate_per_second", "drain_seconds_left", "drain_late"] {
        all(name, up, 0.0);
    }
    for result in ["waiting", "told", "given_up", "dropped"] {
        all("on_done_jobs", &format!(r#"{up},result="{result}""#), 0.0);
    }
    let circuit = r#"dependency="up",circuit="up""#;
    for (state, at) in [("closed", 1.0), ("open", 0.0), ("half_open", 0.0)] {
        all("circuit_state", &format!(r#"{circuit},state="{state}""#), at);
    }
    for state in ["closed", "open"] {
        all("circuit_held", &format!(r#"{circuit},state="{state}""#), 0.0);
    }
    for name in ["open_seconds_left", "throttled_seconds_left", "failures_in_window", "probes_in_flight", "waiting"] {
        all(&format!("circuit_{name}"), circuit, 0.0);
    }
    let ours = r#"dependency="halfopen-alerts""#;
    all("alerts_waiting", ours, 0.0);
    all("alerts_dropped_total", ours, 0.0);
    let channel = format!(r#"{ours},channel="oncall/webhook-1""#);
    all("alert_deliveries_total", &channel, 0.0);
    for reason in ["timeout", "unreachable", "rate_limited", "broken", "refused", "not_tried"] {
        all("alert_delivery_failures_total", &format!(r#"{channel},reason="{reason}""#), 0.0);
    }
    for event in [
        "tripped",
        "half_opened",
        "recovered",
        "reset",
        "throttled",
        "hint_cut",
        "auth_failed",
        "hold_placed",
        "hold_ended",
        "partitions_folded",
        "jobs_failed",
        "jobs_expired",
        "jobs_will_expire",
        "jobs_to_review",
        "jobs_requeued",
        "jobs_resolved",
        "jobs_cancelled",
        "jobs_discarded",
        "unclassified_rising",
        "silent",
        "alert_given_up",
        "alert_delivered",
        "failure_counted",
        "probe_admitted",
        "probe_ended",
        "ramp_began",
        "ramp_stepped",
        "ramp_ended",
        "alerts_dropped",
        "on_done_dropped",
        "other",
    ] {
        all("journal_events_total", &format!(r#"{up},event="{event}""#), 0.0);
        all("journal_events_total", &format!(r#"{ours},event="{event}""#), 0.0);
    }
    for fate in ["sent", "queue_full", "refused", "lost"] {
        all("telemetry_spans_total", &format!(r#"fate="{fate}""#), 0.0);
    }
    for signal in ["traces", "metrics"] {
        all("telemetry_exports_failed_total", &format!(r#"signal="{signal}""#), 0.0);
    }
    for (name, at) in [
        ("store_readable", 1.0),
        ("store_writable", 1.0),
        ("ready", 1.0),
        ("event_listeners", 0.0),
        ("circuits_hidden", 0.0),
    ] {
        all(name, "", at);
    }
    all("build_info", &format!(r#"version="{}""#, env!("CARGO_PKG_VERSION")), 1.0);
    for result in ["ok", "failed"] {
        all("policy_reloads_total", &format!(r#"result="{result}""#), 0.0);
    }
    for (name, bounds) in [("attempt_head_seconds", 15), ("wait_seconds", 15), ("job_age_seconds", 15)] {
        all(&format!("{name}_sum"), up, 0.0);
        all(&format!("{name}_count"), up, 0.0);
        let buckets: Vec<_> = series(&text)
            .into_iter()
            .filter(|(seen, _)| seen.starts_with(&format!("halfopen_{name}_bucket{{")))
            .collect();
        assert_eq!(buckets.len(), bounds, "{name}");
        buckets.into_iter().for_each(|(bucket, at)| {
            assert_eq!(at, 0.0, "{bucket}");
            all(
                &bucket["halfopen_".len()..bucket.find('{').unwrap()],
                bucket[bucket.find('{').unwrap() + 1..].trim_end_matches('}'),
                0.0,
            );
        });
    }
    let sorted = |mut all: Vec<(String, f64)>| {
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    };
    pretty(&sorted(series(&text)), &sorted(expected));
    let standard =
        gateway.ask("GET", "/metrics", &[("accept", "application/openmetrics-text; version=1.0.0")], "").text();
    assert_eq!(value(&standard, r#"halfopen_wait_seconds_bucket{le="+Inf",dependency="up"}"#), 0.0);
    // The forms write the ends of spans differently.
    let names = |text: &str| {
        let all = sorted(series(text)).into_iter().map(|(name, _)| name);
        all.filter(|name| !name.contains("_bucket{")).collect::<Vec<_>>()
    };
    assert_eq!(names(&standard), names(&text));
}

/// Returns every series of a scrape with its number.
pub(crate) fn series(text: &str) -> Vec<(String, f64)> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| line.rsplit_once(' ').expect("a number"))
        .map(|(name, at)| (name.to_owned(), at.parse().expect("a number")))
        .collect()
}

/// Compares two lists, and shows what only one of them has.
fn pretty(seen: &[(String, f64)], expected: &[(String, f64)]) {
    let only = |a: &[(String, f64)], b: &[(String, f64)]| -> Vec<String> {
        a.iter().filter(|one| !b.contains(one)).map(|(name, at)| format!("{name} {at}")).collect()
    };
    let (more, less) = (only(seen, expected), only(expected, seen));
    assert!(more.is_empty() && less.is_empty(), "shown and not expected: {more:#?}\nexpected and not shown: {less:#?}");
}

/// S189: nobody calls; the cooldown ends all the same, shows as half-open with nothing left, and outlives the process.
#[test]
fn a_cooldown_that_ended_while_nobody_called_is_half_open_and_never_negative() {
    let stub = Stub::start();
    let mut first = gateway(&stub, "circuit: { open_after_failures: 1, open_for_sec: 0.3, max_open_for_sec: 0.3 }");
    first.failures("up", 1);
    let state = |gateway: &crate::world::Gateway, state: &str| {
        let text = gateway.ask("GET", "/metrics", &[], "").text();
        let left = value(&text, r#"halfopen_circuit_open_seconds_left{dependency="up",circuit="up"}"#);
        assert!((0.0..=0.4).contains(&left), "{left}");
        value(&text, &format!(r#"halfopen_circuit_state{{dependency="up",circuit="up",state="{state}"}}"#))
    };
    until("it is half-open", || state(&first, "half_open") == 1.0);
    assert!(stub.seen().is_empty(), "nobody called");
    first.signal(rustix::process::Signal::KILL);
    first.ended();
    let next = Starting::beside(&first).start();
    assert_eq!((state(&next, "half_open"), state(&next, "closed")), (1.0, 0.0));
}

/// S191, S190: a thousand callers' keys become a bounded number of series without a key in them.
#[test]
fn keys_of_callers_become_no_labels() {
    let stub = Stub::start();
    stub.always(Reply::status(429, "slow down"));
    let gateway = gateway(&stub, "max_partitions: 8\ncircuit: { open_after_failures: 1, open_for_sec: 60 }");
    let mut client = gateway.connect();
    for n in 0..1000 {
        let key = format!("Bearer sk-secret-{n:08}-abcdefghijklmnop");
        client.call("GET", &format!("/d/up/{n}"), &[("authorization", &key)], b"");
    }
    let text = gateway.ask("GET", "/metrics", &[], "").text();
    assert!(!text.contains("sk-secret"), "{text}");
    let circuits = series(&text).iter().filter(|(name, _)| name.starts_with("halfopen_circuit_waiting{")).count();
    assert!((2..=10).contains(&circuits), "{circuits} circuits");
    assert!(text.len() < 1 << 20);
}

/// Waits and the ages of jobs are told as histograms.
#[test]
fn waits_are_sorted_into_spans() {
    let stub = Stub::start();
    stub.then([Reply::status(503, "no"), Reply::ok("well")]);
    let gateway = gateway(&stub, "retry: { max_attempts: 2, base_ms: 60, jitter: false }");
    assert_eq!(gateway.get("/d/up/x").status, 200);
    let text = gateway.ask("GET", "/metrics", &[], "").text();
    assert_eq!(value(&text, r#"halfopen_wait_seconds_count{dependency="up"}"#), 1.0);
    assert_eq!(value(&text, r#"halfopen_wait_seconds_bucket{dependency="up",le="0.05"}"#), 0.0);
    assert!(value(&text, r#"halfopen_wait_seconds_sum{dependency="up"}"#) >= 0.05);
    assert_eq!(value(&text, r#"halfopen_attempt_head_seconds_count{dependency="up"}"#), 2.0);
}

/// What was done is said in the log at intervals, also when that is nothing.
#[test]
fn sums_of_the_figures_are_said_in_the_log() {
    let gateway = Starting::new(&policy("http://127.0.0.1:9", "")).word("--summary-interval").word("100ms").start();
    until("a sum of zeros is said", || {
        let said = gateway.said();
        said.contains("info activation dependency=up") && said.contains("calls=0") && said.contains("unclassified=0")
    });
}
