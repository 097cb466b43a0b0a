//! Policies that nobody wrote: whatever `check` accepts without a doubt is green in the drill.
//!
//! A row that goes red must speak of the policy. Where it speaks of a value that the row itself did not reckon with (a
//! cooldown shorter than the second it waits, a cap below the quota's time), it is a mistake of the row: nobody can mend
//! a policy by it. Where `check` warns that failures cannot come together in the window, the rows about that may be red.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::world::World;

/// How many policies are drilled, and which; more or others where these say so.
const CASES: u32 = 10;
const MORE: &str = "HALFOPEN_DRILL_POLICIES";
const SEED: &str = "HALFOPEN_DRILL_SEED";

/// A key that is written or not.
fn maybe(key: &'static str, value: impl Strategy<Value = String> + 'static) -> BoxedStrategy<String> {
    prop_oneof![Just(String::new()), value.prop_map(move |value| format!("{key}: {value}, "))].boxed()
}

/// A number spread over its orders of magnitude.
fn spread(from: f64, to: f64) -> impl Strategy<Value = String> {
    (from.ln()..to.ln()).prop_map(|n| format!("{:.3}", n.exp()))
}

fn whole(from: f64, to: f64) -> impl Strategy<Value = String> {
    (from.ln()..to.ln()).prop_map(|n| format!("{:.0}", n.exp()))
}

fn one_of(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(words).prop_map(str::to_owned)
}

fn retry() -> impl Strategy<Value = String> {
    (
        maybe("max_attempts", whole(1.0, 8.0)),
        maybe("base_ms", whole(1.0, 20_000.0)),
        maybe("jitter", one_of(&["true", "false", "full", "none", "equal"])),
        maybe("honor_retry_after", one_of(&["true", "false"])),
        maybe("max_wait_sec", spread(0.01, 20_000.0)),
        maybe("backoff", one_of(&["constant", "exponential"])),
    )
        .prop_map(|(a, b, c, d, e, f)| format!("  retry: {{{a}{b}{c}{d}{e}{f}}}\n"))
}

fn circuit() -> impl Strategy<Value = String> {
    let cooldown = (0.2_f64.ln()..3000_f64.ln(), 1.0..20.0_f64).prop_map(|(open_for, cap)| {
        let open_for = open_for.exp();
        format!("open_for_sec: {open_for:.3}, max_open_for_sec: {:.3}, ", open_for * cap + 0.001)
    });
    (
        maybe("failure_window_sec", spread(5.0, 8000.0)),
        maybe("open_after_failures", whole(1.0, 30.0)),
        prop_oneof![Just(String::new()), cooldown],
        maybe("cooldown_factor", spread(1.0, 10.0)),
        maybe("half_open_max_calls", whole(1.0, 12.0)),
        maybe("close_after_successes", whole(1.0, 12.0)),
        maybe("probe_lease_sec", spread(0.1, 600.0)),
    )
        .prop_map(|(a, b, c, d, e, f, g)| format!("  circuit: {{{a}{b}{c}{d}{e}{f}{g}}}\n"))
}

fn on_open() -> impl Strategy<Value = String> {
    (
        one_of(&["queue", "[queue, fail_fast]", "[queue, manual_review]", "fail_fast", "manual_review"]),
        maybe("wait_sec", spread(0.01, 600.0)),
        maybe("on_expiry", one_of(&["manual_review", "expired"])),
        spread(0.05, 3000.0),
    )
        .prop_map(|(action, wait, on_expiry, ttl)| {
            let ttl = if action.contains("queue") { format!("queue_ttl_min: {ttl}, ") } else { String::new() };
            format!("  on_open: {{action: {action}, {wait}{on_expiry}{ttl}}}\n")
        })
}

fn policy() -> impl Strategy<Value = String> {
    let drain = (0.05_f64.ln()..50_f64.ln(), 1.0..30.0_f64, 1..8_u32).prop_map(|(rate, times, flight)| {
        let rate = rate.exp();
        format!(
            "  drain: {{rate_per_sec: {rate:.3}, max_per_sec: {:.3}, max_in_flight: {flight}}}\n",
            rate * times + 0.001
        )
    });
    (
        whole(20.0, 600_000.0),
        retry(),
        circuit(),
        prop_oneof![Just(String::new()), on_open()],
        prop_oneof![Just(String::new()), drain],
        one_of(&["", "  replay: always\n", "  replay: never\n"]),
        one_of(&["", "  owner: oncall\n"]),
        one_of(&["", "  probe: [\"true\"]\n", "  max_partitions: 7\n", "  upstream: https://api.example.com/v1\n"]),
        prop_oneof![Just(String::new()), spread(0.1, 600.0).prop_map(|lease| format!("  lease_sec: {lease}\n"))],
    )
        .prop_map(|(timeout, retry, circuit, on_open, drain, replay, owner, more, lease)| {
            format!(
                "dependency_guard:\n  name: ocr\n  timeout_ms: {timeout}\n{retry}{circuit}{on_open}{drain}{replay}{owner}\
                 {more}{lease}"
            )
        })
}

#[test]
fn whatever_check_accepts_is_green_or_doubted() {
    let cases = std::env::var(MORE).ok().and_then(|more| more.parse().ok()).unwrap_or(CASES);
    let seed: u64 = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or_default();
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let tried = TestRunner::new_with_rng(config, rng).run(&policy(), |policy| {
        let world = World::new();
        let (accepted, doubts) = world.checked(&policy);
        prop_assume!(accepted);
        let said = world.drill_policy(&policy, &["--json"]);
        let failed: Vec<_> = said.rows().into_iter().filter(|(_, verdict, _)| verdict == "fail").collect();
        // What cannot come together in its window opens nothing, in whichever way it fails.
        let about_that = |name: &str| ["A6 ", "C10 "].iter().any(|row| name.starts_with(row));
        let doubted = |name: &str| doubts.contains("do not fit into a window") && about_that(name);
        let wrong: Vec<_> = failed.into_iter().filter(|(name, _, _)| !doubted(name)).collect();
        prop_assert!(wrong.is_empty(), "{policy}\n{wrong:#?}\n{doubts}");
        Ok(())
    });
    if let Err(error) = tried {
        panic!("{SEED}={seed}: {error}");
    }
}
