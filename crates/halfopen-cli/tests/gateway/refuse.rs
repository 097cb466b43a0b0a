//! What is done with a call that was refused, and who judges it: caches, fallbacks, credentials, partitions.

use std::time::Duration;

use crate::client::End;
use crate::stub::{Reply, Stub};
use crate::world::{Gateway, Starting, gateway, until};

const OPENS: &str = "circuit: { open_after_failures: 1, open_for_sec: 60 }";
const JSON: (&str, &str) = ("content-type", "application/json");

fn keys(lines: &[&str]) -> String {
    lines.join("\n")
}

/// Opens the circuit by one failure at another path.
fn open(gateway: &Gateway, stub: &Stub) {
    stub.always(Reply::status(500, "{\"error\":\"broken\"}"));
    assert_eq!(gateway.get("/d/up/broken").status, 500);
    assert_eq!(gateway.get("/d/up/broken").problem(), "circuit_open");
}

fn caching(more: &[&str]) -> String {
    let mut lines = vec![OPENS, "cache: { max_age_sec: 600 }", "on_open: { action: [cache, fail_fast] }"];
    lines.extend(more);
    keys(&lines)
}

/// S152
#[test]
fn the_last_good_answer_is_given_while_there_is_no_other() {
    let stub = Stub::start();
    let body = b"\x1f\x8b\x08 not really gzip, and nobody looks";
    let fields = [JSON, ("content-encoding", "gzip"), ("x-seen", "1"), ("cache-control", "max-age=1")];
    stub.then([Reply::full(200, &fields, body)]);
    let gateway = gateway(&stub, &caching(&[]));
    let accepts = [("accept-encoding", "gzip")];
    let fresh = gateway.call("GET", "/d/up/page?n=1", &accepts, b"");
    assert_eq!((fresh.field("halfopen-outcome"), fresh.field("age")), (Some("success"), None));
    open(&gateway, &stub);
    let sent = stub.seen().len();
    let kept = gateway.call("GET", "/d/up/page?n=1", &accepts, b"");
    assert_eq!((kept.status, kept.body.as_slice(), kept.end), (200, &body[..], End::Whole));
    assert_eq!(kept.field("halfopen-outcome"), Some("cached"));
    assert_eq!(kept.field("halfopen-stale"), Some("true"));
    assert_eq!(kept.field("halfopen-attempts"), Some("0"));
    assert_eq!(kept.field("halfopen-circuit"), Some("up"));
    assert!(kept.field("age").unwrap().parse::<u64>().unwrap() < 600);
    assert!(kept.field("cache-status").unwrap().starts_with("halfopen; hit; ttl="));
    assert_eq!(kept.field("x-seen"), Some("1"));
    assert_eq!(
        (kept.field("content-encoding"), kept.all("content-length")),
        (Some("gzip"), vec![&*body.len().to_string()])
    );
    assert_eq!(gateway.call("GET", "/d/up/page?n=2", &accepts, b"").problem(), "circuit_open");
    assert_eq!(gateway.get("/d/up/page?n=1").problem(), "circuit_open", "who does not accept gzip gets none");
    let nothing_old = [("accept-encoding", "gzip"), ("cache-control", "no-cache")];
    assert_eq!(gateway.call("GET", "/d/up/page?n=1", &nothing_old, b"").problem(), "circuit_open");
    assert_eq!(stub.seen().len(), sent, "nothing was sent");
}

#[test]
fn a_caller_never_gets_the_answer_of_another() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &caching(&["split_by: [region]"]));
    let mine = [("authorization", "Bearer sk-mine")];
    stub.then([Reply::ok("{\"of\":\"mine\"}")]);
    assert_eq!(gateway.call("GET", "/d/up/me", &mine, b"").status, 200);
    open(&gateway, &stub);
    assert_eq!(gateway.call("GET", "/d/up/me", &mine, b"").json()["of"], "mine");
    for other in [[("authorization", "Bearer sk-other")], [("x-api-key", "sk-mine")], [("cookie", "a=b")]] {
        assert_eq!(gateway.call("GET", "/d/up/me", &other, b"").problem(), "circuit_open", "{other:?}");
    }
    assert_eq!(gateway.get("/d/up/me").problem(), "circuit_open");
}

#[test]
fn what_may_not_be_kept_is_not_given() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &caching(&[]));
    let refuse = [
        ("/no-store", Reply::full(200, &[JSON, ("cache-control", "no-store")], b"{}")),
        ("/private", Reply::full(200, &[JSON, ("cache-control", "private")], b"{}")),
        ("/cookie", Reply::full(200, &[JSON, ("set-cookie", "a=b")], b"{}")),
        ("/created", Reply::full(201, &[JSON], b"{}")),
        ("/missing", Reply::full(404, &[JSON], b"{}")),
        ("/events", Reply::events().event("one").event("[DONE]").end()),
    ];
    for (path, reply) in &refuse {
        stub.then([reply.clone()]);
        gateway.get(&format!("/d/up{path}"));
    }
    stub.then([Reply::ok("{}")]);
    gateway.get("/d/up/kept");
    open(&gateway, &stub);
    assert_eq!(gateway.get("/d/up/kept").field("halfopen-outcome"), Some("cached"));
    for (path, _) in &refuse {
        assert_eq!(gateway.get(&format!("/d/up{path}")).problem(), "circuit_open", "{path}");
    }
}

#[test]
fn an_error_inside_a_200_and_a_cut_are_not_kept() {
    let stub = Stub::start();
    let gateway =
        gateway(&stub, &caching(&["circuit: { open_after_failures: 3, open_for_sec: 60 }"]).replacen(OPENS, "", 1));
    let error = "{\"error\":{\"message\":\"The server had an error\",\"type\":\"server_error\"}}";
    stub.then([Reply::ok(error)]);
    gateway.get("/d/up/error");
    let head = [("content-type", "application/octet-stream"), ("content-length", "200000")];
    stub.then([Reply::new().head(200, &head).send(&[7; 100_000]).close()]);
    assert_eq!(gateway.get("/d/up/cut").end, End::CutShort);
    let whole = vec![7; 200_000];
    stub.then([Reply::full(200, &head[..1], &whole)]);
    assert_eq!(gateway.get("/d/up/whole").body.len(), whole.len());
    stub.always(Reply::status(500, "{}"));
    gateway.get("/d/up/broken");
    until("the circuit is open", || gateway.get("/d/up/broken").status == 503);
    assert_eq!(gateway.get("/d/up/whole").body, whole);
    assert_eq!(gateway.get("/d/up/error").problem(), "circuit_open");
    assert_eq!(gateway.get("/d/up/cut").problem(), "circuit_open");
}

#[test]
fn a_post_is_answered_from_the_cache_only_where_a_second_time_is_harmless() {
    for (replay, kept) in [("replay: always", true), ("replay: if_idempotent", false)] {
        let stub = Stub::start();
        let gateway = gateway(&stub, &caching(&[replay]));
        stub.then([Reply::ok("{\"text\":\"page one\"}")]);
        assert_eq!(gateway.post("/d/up/ocr", "{\"page\":1}").status, 200);
        open(&gateway, &stub);
        let again = gateway.post("/d/up/ocr", "{\"page\":1}");
        if kept {
            assert_eq!(again.json()["text"], "page one");
        } else {
            assert_eq!(again.problem(), "circuit_open");
        }
        assert_eq!(gateway.post("/d/up/ocr", "{\"page\":2}").problem(), "circuit_open");
    }
}

#[test]
fn a_write_drops_what_was_kept_before_it() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &caching(&[]));
    gateway.get("/d/up/thing");
    gateway.get("/d/up/other");
    assert_eq!(gateway.call("PUT", "/d/up/thing", &[JSON], b"{}").status, 200);
    open(&gateway, &stub);
    assert_eq!(gateway.get("/d/up/other").field("halfopen-outcome"), Some("cached"));
    assert_eq!(gateway.get("/d/up/thing").problem(), "circuit_open");
}

/// A call that gave up on what heals is answered from the cache too; and if there is nothing, by the dependency's own word.
#[test]
fn a_limit_that_is_too_far_away_is_passed_on_unless_there_is_something_better() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &caching(&["retry: { max_attempts: 3, max_wait_sec: 1 }"]));
    gateway.get("/d/up/kept");
    let limited = || Reply::full(429, &[JSON, ("retry-after", "3600")], b"{\"error\":\"slow down\"}");
    stub.always(limited());
    let kept = gateway.get("/d/up/kept");
    assert_eq!((kept.status, kept.field("halfopen-outcome")), (200, Some("cached")));
    assert_eq!(kept.field("halfopen-attempts"), Some("1"));
    let stub = Stub::start();
    stub.always(limited());
    let gateway = crate::world::gateway(&stub, "retry: { max_attempts: 3, max_wait_sec: 1 }");
    let own = gateway.get("/d/up/x");
    assert_eq!(
        (own.status, own.field("retry-after"), own.text().as_str()),
        (429, Some("3600"), "{\"error\":\"slow down\"}")
    );
    assert_eq!(own.field("halfopen-outcome"), Some("rate_limited"));
    let refused = gateway.get("/d/up/x");
    assert_eq!((refused.status, refused.problem().as_str()), (503, "circuit_open"));
    assert_eq!(refused.field("x-should-retry"), Some("false"));
    assert_eq!(stub.seen().len(), 1);
}

/// S037
#[test]
fn what_cannot_be_queued_says_so() {
    let stub = Stub::start();
    let gateway = gateway(
        &stub,
        &keys(&[OPENS, "on_open: { action: queue, queue_ttl_min: 30, user_message: processing_delayed }"]),
    );
    stub.always(Reply::new().reset());
    assert_eq!(gateway.post("/d/up/x", "{}").problem(), "outcome_unknown");
    let answer = gateway.call("POST", "/d/up/x", &[("authorization", "Bearer sk-of-the-caller")], b"{}");
    assert_eq!((answer.status, answer.field("halfopen-outcome")), (503, Some("refused")));
    let json = answer.json();
    assert_eq!((&json["reason"], &json["user_message"]), (&"caller_secret".into(), &"processing_delayed".into()));
    assert!(json["detail"].as_str().unwrap().contains("a secret in `authorization`"), "{json}");
    assert_eq!(stub.seen().len(), 1);
}

/// Starts a gateway with `up`, which falls back to `spare`.
fn two(up: &Stub, spare: &Stub, more_up: &str, more_spare: &str) -> Gateway {
    starting_two(up, spare, more_up, more_spare).start()
}

fn starting_two(up: &Stub, spare: &Stub, more_up: &str, more_spare: &str) -> Starting {
    let one = |name: &str, stub: &Stub, more: &str| {
        let url = stub.url();
        format!(
            "- name: {name}\n  upstream: {url}\n  profile: generic\n  timeout_ms: 5000\n  retry: {{ max_attempts: 1 }}\n  \
             {OPENS}\n{more}"
        )
    };
    let falls = format!("  on_open: {{ action: [fallback, fail_fast] }}\n  fallback: spare\n{more_up}");
    Starting::new(&format!("dependencies:\n{}{}", one("up", up, &falls), one("spare", spare, more_spare)))
}

/// S011
#[test]
fn another_dependency_does_it_with_its_own_credential() {
    let (up, spare) = (Stub::start(), Stub::start());
    let gateway = starting_two(
        &up,
        &spare,
        "  credentials: { first: { from_env: FIRST, header: x-first } }\n",
        "  on_open: { action: fail_fast }\n  credentials: { second: { from_env: SECOND } }\n",
    )
    .variable("FIRST", "sk-first")
    .variable("SECOND", "sk-second")
    .start();
    up.always(Reply::full(429, &[JSON, ("retry-after", "3600")], b"{}"));
    spare.always(Reply::ok("{\"by\":\"spare\"}"));
    let fields = [JSON, ("authorization", "Bearer sk-caller"), ("x-api-key", "sk-caller"), ("cookie", "sk-caller=1")];
    // The first one gave up on what heals; the second one is refused before anything is sent.
    for attempts in ["2", "1"] {
        let answer = gateway.call("POST", "/d/up/v1/scan?page=1&key=sk-caller", &fields, b"{\"page\":1}");
        assert_eq!(
            (answer.status, answer.json()["by"].as_str()),
            (200, Some("spare")),
            "{} {}",
            answer.head,
            answer.text()
        );
        assert_eq!(answer.field("halfopen-outcome"), Some("fallback"));
        assert_eq!(answer.field("halfopen-fallback"), Some("spare"));
        assert_eq!(answer.field("halfopen-attempts"), Some(attempts));
        assert_eq!(answer.field("halfopen-circuit"), Some("spare@credential=second"));
    }
    assert_eq!((up.seen().len(), spare.seen().len()), (1, 2));
    assert_eq!(up.seen()[0].field("x-first"), Some("sk-first"));
    for seen in spare.seen() {
        assert_eq!((seen.target.as_str(), seen.body.as_slice()), ("/v1/scan?page=1", &b"{\"page\":1}"[..]));
        assert_eq!(seen.field("authorization"), Some("Bearer sk-second"));
        assert!(!seen.head.contains("sk-caller") && !seen.head.contains("sk-first"), "{}", seen.head);
    }
}

#[test]
fn a_fallback_keeps_its_own_breaker() {
    let (up, spare) = (Stub::start(), Stub::start());
    let gateway = two(&up, &spare, "", "");
    up.always(Reply::status(503, "{\"error\":\"first\"}"));
    spare.always(Reply::status(503, "{\"error\":\"second\"}"));
    let both = gateway.get("/d/up/x");
    assert_eq!((both.status, both.text().as_str()), (503, "{\"error\":\"first\"}"), "the first one's own answer");
    assert_eq!(gateway.get("/d/up/x").problem(), "circuit_open");
    assert_eq!(gateway.get("/d/up/x").json()["dependency"], "up");
    assert_eq!((up.seen().len(), spare.seen().len()), (1, 1));
    assert_eq!((gateway.state("up"), gateway.state("spare")), ("open".to_owned(), "open".to_owned()));
}

#[test]
fn what_may_have_been_done_is_not_done_elsewhere() {
    let (up, spare) = (Stub::start(), Stub::start());
    let gateway = two(&up, &spare, "", "");
    up.then([Reply::new().reset()]);
    let answer = gateway.post("/d/up/pay", "{}");
    assert_eq!((answer.status, answer.problem().as_str()), (504, "outcome_unknown"));
    assert!(spare.seen().is_empty());
}

#[test]
fn what_waiting_does_not_heal_goes_nowhere_else() {
    let (up, spare) = (Stub::start(), Stub::start());
    let gateway = two(&up, &spare, "", "");
    up.always(Reply::status(400, "{\"error\":\"bad\"}"));
    assert_eq!(gateway.post("/d/up/x", "{}").status, 400);
    assert!(spare.seen().is_empty());
}

#[test]
fn fallbacks_that_go_round_in_a_circle_are_refused() {
    let policy = "dependencies:\n- {name: a, upstream: 'http://127.0.0.1:1', fallback: b}\n\
                  - {name: b, upstream: 'http://127.0.0.1:2', fallback: a}\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.yaml");
    std::fs::write(&path, policy).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_halfopen"))
        .args(["serve", "--listen", "127.0.0.1:0", "--policy"])
        .arg(&path)
        .env_clear()
        .env("HOME", folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(78));
    assert!(String::from_utf8_lossy(&output.stderr).contains("fallbacks go round in a circle: a → b → a"));
}

const TWO_KEYS: &str = "credentials: { main: { from_env: MAIN }, spare: { from_file: spare.key, header: x-api-key } }";

/// S100 and the reason for accounts: one bad key never opens its siblings, an outage opens once.
#[test]
fn a_limit_of_one_credential_does_not_stop_the_other_and_an_outage_stops_both() {
    let stub = Stub::start();
    let policy =
        crate::world::policy(&stub.url(), &keys(&[OPENS, TWO_KEYS, "retry: { max_attempts: 1, max_wait_sec: 1 }"]));
    let starting = Starting::new(&policy).variable("MAIN", "sk-main");
    let gateway = starting.start();
    std::fs::write(gateway.path("spare.key"), "sk-spare\n").unwrap();
    let with = |name: &str| gateway.call("GET", "/d/up/x", &[("halfopen-credential", name)], b"");
    stub.then([Reply::full(429, &[JSON, ("retry-after", "3600")], b"{}")]);
    assert_eq!(with("main").status, 429);
    assert_eq!(with("main").problem(), "circuit_open");
    let answer = with("spare");
    assert_eq!((answer.status, answer.field("halfopen-circuit")), (200, Some("up@credential=spare")));
    assert_eq!(stub.seen().last().unwrap().field("x-api-key"), Some("sk-spare"));
    stub.then([Reply::status(401, "{}"), Reply::status(401, "{}"), Reply::status(401, "{}")]);
    for _ in 0..3 {
        assert_eq!(with("spare").status, 401);
    }
    assert_eq!(with("spare").status, 200, "a key that is refused is nobody's outage");
    stub.always(Reply::status(503, "{}"));
    assert_eq!(with("spare").status, 503);
    assert_eq!(with("spare").problem(), "circuit_open");
    assert_eq!(gateway.state("up"), "open");
    assert_eq!(gateway.state("up@credential=spare"), "closed");
}

/// S052
#[test]
fn no_attempt_changes_the_credential() {
    let stub = Stub::start();
    stub.always(Reply::full(429, &[JSON, ("retry-after", "0")], b"{}"));
    let policy = crate::world::policy(&stub.url(), &keys(&[TWO_KEYS, "retry: { max_attempts: 3, base_ms: 1 }"]));
    let gateway = Starting::new(&policy).variable("MAIN", "sk-main").start();
    assert_eq!(gateway.get("/d/up/x").field("halfopen-attempts"), Some("3"));
    assert!(stub.seen().iter().all(|seen| seen.field("authorization") == Some("Bearer sk-main")));
    assert!(stub.seen().iter().all(|seen| seen.field("x-api-key").is_none()));
}

#[test]
fn a_credential_that_is_not_there_is_our_fault_and_says_nothing_to_the_circuit() {
    let stub = Stub::start();
    let policy = crate::world::policy(&stub.url(), &keys(&[OPENS, TWO_KEYS]));
    let gateway = Starting::new(&policy).start();
    assert!(gateway.said().contains("credential `main`: the variable MAIN is not set"), "{}", gateway.said());
    for _ in 0..3 {
        let answer = gateway.get("/d/up/x");
        assert_eq!((answer.status, answer.problem().as_str()), (503, "no_credential"));
        assert!(answer.text().contains("the variable MAIN is not set"), "{}", answer.text());
    }
    let spare = || gateway.call("GET", "/d/up/x", &[("halfopen-credential", "spare")], b"");
    assert!(spare().text().contains("spare.key cannot be read"), "{}", spare().text());
    assert!(stub.seen().is_empty());
    assert_eq!(gateway.state("up"), "closed");
    std::fs::write(gateway.path("spare.key"), "sk-spare").unwrap();
    assert_eq!(spare().status, 200, "no restart is needed");
    std::fs::write(gateway.path("spare.key"), "sk-rotated").unwrap();
    assert_eq!(spare().status, 200);
    assert_eq!(stub.seen().last().unwrap().field("x-api-key"), Some("sk-rotated"));
    let unknown = gateway.call("GET", "/d/up/x", &[("halfopen-credential", "other")], b"");
    assert_eq!((unknown.status, unknown.problem().as_str()), (400, "bad_field"));
    assert!(unknown.text().contains("`main`, `spare`"), "{}", unknown.text());
}

/// S036, S037
#[test]
fn a_secret_is_found_nowhere() {
    let stub = Stub::start();
    let policy = crate::world::policy(&stub.url(), &keys(&[TWO_KEYS, "circuit: { open_after_failures: 2 }"]));
    let gateway = Starting::new(&policy).variable("MAIN", "sk-secret-main-0123456789").start();
    let callers = [("x-api-key", "sk-secret-caller-0123456789"), ("cookie", "sk-secret-cookie-0123456789")];
    let mut told = String::new();
    let echo =
        "{\"error\":{\"message\":\"Incorrect API key provided: sk-secret-main-0123456789\",\"type\":\"server_error\"}}";
    for status in [500, 401, 400, 429, 503, 500, 200] {
        stub.then([Reply::status(status, echo)]);
        let answer = gateway.call("GET", "/d/up/x?api_key=sk-secret-query-0123456789", &callers, b"");
        // What the dependency says to its caller is between the two.
        if answer.field("halfopen-attempts") == Some("0") {
            told += &answer.text();
        }
        told += &answer.head;
    }
    for words in [&["status", "--json"][..], &["why", "up"], &["events"], &["report"]] {
        told += &gateway.halfopen(words);
    }
    told += &gateway.said();
    assert!(!told.contains("sk-secret"), "{told}");
    for (path, bytes) in gateway.files() {
        let found = bytes.windows(9).any(|window| window == b"sk-secret");
        assert!(!found, "{}", path.display());
    }
}

/// S098
#[test]
fn the_capacity_of_one_model_does_not_stop_another() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &keys(&[OPENS, "split_by: [model]", "retry: { max_attempts: 1, max_wait_sec: 1 }"]));
    let of = |model: &str| gateway.post("/d/up/v1/chat", &format!("{{\"messages\":[],\"model\":\"{model}\"}}"));
    stub.then([Reply::full(429, &[JSON, ("retry-after", "3600")], b"{}")]);
    assert_eq!(of("a").status, 429);
    assert_eq!(of("a").problem(), "circuit_open");
    let other = of("b");
    assert_eq!((other.status, other.field("halfopen-circuit")), (200, Some("up@model=b")));
    assert_eq!(stub.seen().last().unwrap().body, b"{\"messages\":[],\"model\":\"b\"}");
}

/// S099
#[test]
fn a_region_is_judged_apart_and_has_one_spelling() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &keys(&[OPENS, "split_by: [region]"]));
    let at = |region: &str| gateway.call("GET", "/d/up/x", &[("halfopen-region", region)], b"");
    stub.then([Reply::status(503, "{}")]);
    assert_eq!(at("us-east.example.com").status, 503);
    for spelling in ["US-East.example.com", "us-east.example.com.", "us-east.example.com:443"] {
        assert_eq!(at(spelling).problem(), "circuit_open", "{spelling}");
    }
    let other = at("eu-west");
    assert_eq!((other.status, other.field("halfopen-circuit")), (200, Some("up@region=eu-west")));
    assert_eq!(stub.seen().last().unwrap().field("halfopen-region"), None);
}

#[test]
fn too_many_partitions_share_one_and_that_is_said_once() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &keys(&["split_by: ['header:X-Tenant']", "max_partitions: 2"]));
    let of = |tenant: &str| {
        let answer = gateway.call("GET", "/d/up/x", &[("x-tenant", tenant)], b"");
        answer.field("halfopen-circuit").unwrap().to_owned()
    };
    assert_eq!((of("a"), of("b")), ("up@x-tenant=a".to_owned(), "up@x-tenant=b".to_owned()));
    assert_eq!((of("c"), of("d")), ("up@x-tenant=other".to_owned(), "up@x-tenant=other".to_owned()));
    until("it is said", || gateway.said().contains("more than 2 partitions are told apart"));
    assert_eq!(gateway.said().matches("partitions are told apart").count(), 1);
}

/// S154
#[test]
fn a_refusal_says_when_it_ends_and_that_shrinks() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &keys(&["circuit: { open_after_failures: 1, open_for_sec: 42 }", "profile: openai"]));
    open(&gateway, &stub);
    let seconds = || gateway.get("/d/up/x").field("retry-after").unwrap().parse::<u64>().unwrap();
    let first = seconds();
    // The cooldown is spread by up to a tenth.
    assert!((1..=47).contains(&first), "{first}");
    until("it shrinks", || seconds() < first);
    let json = gateway.get("/d/up/x").json();
    assert_eq!((json["error"]["code"].as_str(), json["dependency"].as_str()), (Some("circuit_open"), Some("up")));
    assert_eq!(json["may_have_run"], false);
}

/// A wait for the refusal's end comes before everything that stands in for an answer.
#[test]
fn a_refusal_that_ends_soon_is_waited_for() {
    let stub = Stub::start();
    let gateway = gateway(
        &stub,
        &keys(&[
            "circuit: { open_after_failures: 1, open_for_sec: 0.2, half_open_max_calls: 1, close_after_successes: 1 }",
            "cache: { max_age_sec: 600 }",
            "on_open: { action: [cache, fail_fast], wait_sec: 10 }",
        ]),
    );
    gateway.get("/d/up/x");
    stub.then([Reply::status(500, "{}")]);
    gateway.get("/d/up/other");
    let started = std::time::Instant::now();
    assert_eq!(gateway.get("/d/up/x").field("halfopen-outcome"), Some("success"));
    assert!(started.elapsed() < Duration::from_secs(10));
}
