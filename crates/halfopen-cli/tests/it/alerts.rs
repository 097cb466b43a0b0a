//! Alerts, told by real runs to real receivers.

use std::time::Duration;

use base64::Engine as _;
use halfopen_core::event::State;
use halfopen_core::snapshot::DeliveryState;

use crate::receiver::{Does, Receiver, mail_server};
use crate::sandbox::{BROKEN, Sandbox, finished, until, wait_for};

/// Three failures open it, and it may be tried again soon.
const RULES: &str = "owner: oncall
runbook: https://wiki.example.com/tool
retry: {max_attempts: 1}
circuit: {open_after_failures: 3, open_for_sec: 600}
on_open: {action: fail_fast}";

/// Writes a policy whose owner is reached by `channels`.
fn told(sandbox: &Sandbox, rules: &str, channels: &str) {
    sandbox.policy(rules);
    let file = sandbox.path("policy.yaml");
    let text = std::fs::read_to_string(&file).expect("a policy");
    std::fs::write(file, format!("{text}alerts:\n  oncall:\n{channels}")).expect("a policy");
}

fn webhook(receiver: &Receiver) -> String {
    format!("  - webhook: {}\n", receiver.url())
}

fn states(sandbox: &Sandbox) -> Vec<DeliveryState> {
    let posts = sandbox.handle().alerts(100).expect("alerts");
    posts.iter().flat_map(|post| post.deliveries.iter().map(|delivery| delivery.state)).collect()
}

/// S183: twenty processes meet the outage, some of them at once; the owner hears of it once, with what a person needs.
#[test]
fn an_outage_over_twenty_processes_is_told_once() {
    let (sandbox, receiver) = (Sandbox::new(), Receiver::new());
    told(&sandbox, RULES, &webhook(&receiver));
    sandbox.tool(BROKEN);
    let at_once: Vec<_> = (0..12).map(|_| sandbox.start(&[])).collect();
    at_once.into_iter().for_each(|child| drop(wait_for(child)));
    for _ in 0..8 {
        sandbox.run(&[]);
    }
    assert_eq!(sandbox.state("tool"), State::Open);
    assert_eq!(receiver.kinds(), ["circuit.opened"]);
    let received = &receiver.seen()[0];
    assert_eq!(received.field("content-type").as_deref(), Some("application/cloudevents+json; charset=utf-8"));
    let event = received.json();
    assert_eq!((&event["specversion"], &event["subject"]), (&"1.0".into(), &"tool".into()));
    assert_eq!(received.field("webhook-id").as_deref(), event["id"].as_str());
    let data = &event["data"];
    for field in ["dependency", "partition", "from_state", "to_state", "reason", "queued_count", "probe_result"] {
        assert!(data.get(field).is_some(), "{field} of {data}");
    }
    assert_eq!((&data["to_state"], &data["reason"]), (&"open".into(), &"failures".into()));
    assert_eq!(data["evidence"]["class"], "server_error");
    assert_eq!((&data["owner"], &data["jobs_waiting"]), (&"oncall".into(), &0.into()));
    assert_eq!(data["runbook"], "https://wiki.example.com/tool");
    assert!(data["next_probe_at"].is_string() && data["calls_spared"].is_u64(), "{data}");
}

/// S186: the first failed probe and the end belong to the thread of the beginning; rounds between say nothing.
#[test]
fn an_incident_is_one_thread_from_its_beginning_to_its_end() {
    let (sandbox, receiver) = (Sandbox::new(), Receiver::new());
    let rules = RULES.replace(
        "open_for_sec: 600",
        "open_for_sec: 0.05, max_open_for_sec: 0.1, half_open_max_calls: 1, close_after_successes: 1",
    );
    told(&sandbox, &rules, &webhook(&receiver));
    sandbox.tool(&format!("[ -e $D/well ] && exit 0; {BROKEN}"));
    until("six trips", || {
        sandbox.run(&[]);
        sandbox.transitions().iter().filter(|event| event.event == "tripped").count() >= 6
    });
    std::fs::write(sandbox.path("well"), "").unwrap();
    until("it is well", || sandbox.run(&["--max-wait", "10s"]).code == 0 && sandbox.state("tool") == State::Closed);
    // An alert of the same thread may have waited for another's claim.
    until("the end is told", || {
        finished(&mut sandbox.halfopen(&["status"]));
        receiver.kinds().last().is_some_and(|kind| kind == "circuit.recovered")
    });
    assert_eq!(receiver.kinds(), ["circuit.opened", "circuit.probe_failed", "circuit.recovered"]);
    let threads: std::collections::BTreeSet<_> =
        receiver.seen().iter().map(|received| received.json()["thread"].to_string()).collect();
    assert_eq!(threads.len(), 1);
}

/// S184: what a receiver cannot take now stays due, over processes, under the same name.
#[test]
fn an_alert_that_was_lost_is_sent_again_by_a_later_process() {
    let (sandbox, receiver) = (Sandbox::new(), Receiver::new());
    told(&sandbox, RULES, &webhook(&receiver));
    sandbox.tool(BROKEN);
    receiver.next(&[Does::Answers(500, ""), Does::Resets]);
    for _ in 0..3 {
        sandbox.run(&[]);
    }
    assert_eq!(receiver.seen().len(), 1, "tried by the process that made the transition");
    until("a later process gets through", || {
        finished(&mut sandbox.halfopen(&["status"]));
        states(&sandbox) == [DeliveryState::Delivered]
    });
    let names: std::collections::BTreeSet<_> = receiver.seen().iter().map(|r| r.field("webhook-id")).collect();
    assert_eq!((receiver.seen().len(), names.len()), (3, 1));
}

/// S185: a receiver that says no for good is not asked again, and somebody says so, here and by the other channel.
#[test]
fn a_channel_that_refuses_for_good_is_told_once_by_the_others() {
    let (sandbox, gone, other) = (Sandbox::new(), Receiver::new(), Receiver::new());
    told(&sandbox, RULES, &format!("{}{}", webhook(&gone), webhook(&other)));
    sandbox.tool(BROKEN);
    gone.always(Does::Answers(404, ""));
    for _ in 0..3 {
        sandbox.run(&[]);
    }
    until("the other channel tells", || {
        let said = finished(&mut sandbox.halfopen(&["status"]));
        assert!(said.stderr.contains("alert delivery is failing"), "{}", said.stderr);
        assert!(!said.stderr.contains("s3cr3t-path"));
        other.kinds().len() > 1
    });
    let all = finished(&mut sandbox.halfopen(&["alerts", "list", "--all", "--json"])).stdout;
    assert_eq!(other.kinds(), ["circuit.opened", "alert_failing"], "{all}");
    assert_eq!(gone.kinds(), ["circuit.opened"]);
    let listed = finished(&mut sandbox.halfopen(&["alerts", "list", "--json"])).stdout;
    assert!(listed.contains("answered 404") && !listed.contains("s3cr3t-path"), "{listed}");
}

/// A receiver that hangs delays the run that tells by its bound, and is then left alone.
#[test]
fn a_receiver_that_hangs_costs_a_run_no_more_than_its_bound() {
    let (sandbox, receiver) = (Sandbox::new(), Receiver::new());
    told(&sandbox, &RULES.replace("open_after_failures: 3", "open_after_failures: 1"), &webhook(&receiver));
    sandbox.tool(BROKEN);
    receiver.always(Does::Hangs);
    let ran = sandbox.run(&[]);
    assert_eq!((ran.code, receiver.seen().len()), (1, 1), "{}", ran.stderr);
    // Its bound is five seconds; what is above that is the machine's.
    assert!(ran.took < Duration::from_secs(15), "{:?}", ran.took);
    assert_eq!(states(&sandbox), [DeliveryState::Due]);
    let before = receiver.seen().len();
    assert_eq!(sandbox.run(&[]).code, 75);
    assert_eq!(receiver.seen().len(), before, "what is not due yet is not tried");
}

/// Standard Webhooks: whoever knows the secret can tell that a message is ours, and whoever does not sees it nowhere.
#[test]
fn a_webhook_is_signed_and_the_secret_is_nowhere() {
    let (sandbox, receiver) = (Sandbox::new(), Receiver::new());
    let channel = format!("  - webhook: {{url: '{}', secret_from_env: HOOK_SECRET}}\n", receiver.url());
    told(&sandbox, RULES, &channel);
    sandbox.tool(BROKEN);
    let key = [7_u8; 32];
    let secret = format!("whsec_{}", base64::engine::general_purpose::STANDARD.encode(key));
    let mut shown = String::new();
    for _ in 0..4 {
        let ran = finished(sandbox.run_of(&[]).env("HOOK_SECRET", &secret));
        shown.push_str(&(ran.stdout + &ran.stderr));
    }
    let received = receiver.seen().remove(0);
    let (id, at) = (received.field("webhook-id").unwrap(), received.field("webhook-timestamp").unwrap());
    let signed = format!("{id}.{at}.{}", received.body);
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &key);
    let expected = base64::engine::general_purpose::STANDARD.encode(aws_lc_rs::hmac::sign(&key, signed.as_bytes()));
    assert_eq!(received.field("webhook-signature"), Some(format!("v1,{expected}")));
    shown.push_str(&finished(&mut sandbox.halfopen(&["alerts", "list", "--all", "--json"])).stdout);
    shown.push_str(&finished(&mut sandbox.halfopen(&["events", "--json"])).stdout);
    for file in ["store.db", "store.db-wal", "activation.jsonl"] {
        shown.push_str(&String::from_utf8_lossy(&std::fs::read(sandbox.path(file)).unwrap_or_default()));
    }
    assert!(!shown.contains(&secret) && !shown.contains("s3cr3t-path"), "S036");
}

/// A command hears the alert on its standard input, in an environment without secrets, and is ended with all it started.
#[test]
fn a_command_is_told_and_gets_no_secret() {
    let sandbox = Sandbox::new();
    told(&sandbox, RULES, "  - command: [page]\n");
    sandbox.tool(BROKEN).command("page", "cat > $D/alert.json; env > $D/env.txt");
    for _ in 0..3 {
        let ran = finished(sandbox.run_of(&[]).env("OPENAI_API_KEY", "sk-hunter2").env("DB", "postgres://a:b@db/x"));
        assert_eq!(ran.code, 1);
    }
    let event: serde_json::Value = serde_json::from_str(&sandbox.text("alert.json")).unwrap();
    assert_eq!(event["type"], "dev.halfopen.circuit.opened");
    let env = sandbox.text("env.txt");
    assert!(env.contains("HALFOPEN_ALERT_TYPE=dev.halfopen.circuit.opened"), "{env}");
    assert!(!env.contains("hunter2") && !env.contains("postgres"), "S171: {env}");
    assert_eq!(states(&sandbox), [DeliveryState::Delivered]);
}

/// S185: who tries the channels hears of each what happened.
#[test]
fn alerts_test_says_for_each_channel_what_happened() {
    let (sandbox, good, bad) = (Sandbox::new(), Receiver::new(), Receiver::new());
    bad.always(Does::Answers(403, ""));
    let slack = format!("  - slack: {{url: '{}'}}\n", good.url());
    let unset = "  - email: {to: [ops@example.com], smtp_from_env: NOWHERE_SMTP}\n";
    told(&sandbox, RULES, &format!("{}{slack}  - command: ['true']\n", webhook(&good)));
    let said = finished(&mut sandbox.halfopen(&["alerts", "test", "oncall"]));
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert_eq!(good.seen().len(), 2);
    assert!(good.seen().iter().any(|received| received.json()["text"].is_string()), "as Slack takes it");
    told(&sandbox, RULES, &format!("{}{}{unset}", webhook(&good), webhook(&bad)));
    let said = finished(&mut sandbox.halfopen(&["alerts", "test", "oncall", "--json"]));
    assert_eq!(said.code, 1, "{}", said.stderr);
    let list: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(list[0]["delivered"], true);
    assert_eq!(list[1]["channel"], "oncall/webhook-2");
    assert!(list[1]["error"].as_str().is_some_and(|error| error.ends_with("answered 403")), "{list}");
    assert!(list[2]["error"].as_str().is_some_and(|error| error.contains("NOWHERE_SMTP")), "{list}");
    assert!(!said.stdout.contains("s3cr3t-path"));
    let unknown = finished(&mut sandbox.halfopen(&["alerts", "test", "nobody"]));
    assert!(unknown.code == 64 && unknown.stderr.contains("known are oncall"), "{}", unknown.stderr);
}

/// A mail server that speaks just enough SMTP takes the mails of one incident, each referring to the incident.
#[test]
fn a_mail_server_takes_alerts_as_one_thread() {
    let sandbox = Sandbox::new();
    let (port, mails) = mail_server();
    told(&sandbox, RULES, "  - email: {to: [ops@example.com, boss@example.com], from: halfopen@example.com}\n");
    sandbox.tool(BROKEN);
    for _ in 0..3 {
        finished(sandbox.run_of(&[]).env("HALFOPEN_SMTP_URL", format!("smtp://127.0.0.1:{port}")));
    }
    assert_eq!(states(&sandbox), [DeliveryState::Delivered]);
    let mail = mails.lock().expect("nobody panicked with it").clone();
    assert!(mail.contains("RCPT TO:<ops@example.com>") && mail.contains("RCPT TO:<boss@example.com>"), "{mail}");
    assert!(mail.contains("Subject: [halfopen] tool is open"), "{mail}");
    assert!(mail.contains("In-Reply-To: <inc_"), "{mail}");
}
