//! Many instances come up at once on one store.

use std::process::Stdio;

use crate::ledger::{all_done, audited, invoices, opened, opens_for, queue, queueing, store_file};
use crate::stub::{Reply, Stub};
use crate::world::{Starting, command, until};

/// How many drains come at once.
const DRAINS: usize = 14;
/// How many jobs wait for them.
const JOBS: usize = 24;

/// S079: three gateways and fourteen drains that start together storm neither the store nor the dependency: never more
/// probes than two, one rate for all, no store error, each job done once.
#[test]
fn many_instances_that_start_together_keep_one_rate_and_one_set_of_probes() {
    let stub = Stub::start();
    stub.always(Reply::new().wait(std::time::Duration::from_millis(30)).and_full(200, &[], b"{}"));
    let keys = format!(
        "{}\ndrain: {{ rate_per_sec: 10, max_per_sec: 10, max_in_flight: 4 }}\nlease_sec: 10",
        opens_for(600.0)
    );
    let first = opened(&stub, &queueing(&keys));
    let ids: Vec<String> = (0..JOBS).map(|n| queue(&first, &format!("inv-{n}"))).collect();
    let file = store_file(&first);
    let words = ["drain", "--once", "--policy", "policy.yaml", "--max-wait", "10s"].map(str::to_owned);
    // Half of them come up while the circuit is open, and meet the end of the cooldown together.
    let drains: Vec<_> = (0..DRAINS)
        .map(|_| {
            let mut drain = command(&first.path(""), &words);
            drain.env("HALFOPEN_STORE", &file).stdout(Stdio::piped()).stderr(Stdio::piped());
            drain
        })
        .collect();
    let others: Vec<_> = (0..2).map(|_| Starting::beside(&first).start()).collect();
    let released = first.ask("POST", "/circuits/up/release", &[], r#"{"probe_now":true,"reason":"it is back"}"#);
    assert_eq!(released.status, 200, "{}", released.text());
    let drains: Vec<_> = drains.into_iter().map(|mut drain| drain.spawn().unwrap()).collect();
    all_done(&first, &ids);
    for drain in drains {
        let output = drain.wait_with_output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(matches!(output.status.code(), Some(0)), "{:?}: {told}", output.status);
        assert!(!told.contains("store"), "{told}");
    }
    assert!(others.iter().chain([&first]).all(|gateway| !gateway.said().contains("the store")));
    assert!(invoices(&stub).values().all(|times| *times == 1), "{:?}", invoices(&stub));
    let events = first.halfopen(&["events", "--all", "--json", "--limit", "1000"]);
    assert_eq!(events.matches("\"probe_admitted\"").count(), 2, "{events}");
    // One rate: behind the two probes and the first start, no eleven claims within a second.
    let mut claims: Vec<i64> = Vec::new();
    for id in &ids {
        let history = crate::ledger::job(&first, id)["history"].clone();
        let claimed = history.as_array().unwrap().iter().find(|entry| entry["what"] == "claimed").unwrap();
        let at = claimed["at"].as_str().unwrap_or_else(|| panic!("{claimed}"));
        claims.push(at.parse::<jiff::Timestamp>().unwrap().as_millisecond());
    }
    claims.sort_unstable();
    for window in claims[2..].windows(12) {
        assert!(window[11] - window[0] >= 1000, "{claims:?}");
    }
    until("nobody holds anything", || first.store().job_figures().unwrap()["up"].tally.running == 0);
    audited(&first);
}
