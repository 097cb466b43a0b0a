//! The log of a gateway: one line for each thing that happened, as text or as JSON.

use test_case::test_case;

use crate::stub::{Reply, Stub};
use crate::world::{Starting, gateway, policy, until};

const KEYS: &str = "circuit: { open_after_failures: 2, open_for_sec: 600 }";

/// Every line is an object, from the first to the last, warnings about the policy among them.
#[test]
fn every_line_of_a_json_log_is_an_object() {
    let stub = Stub::start();
    stub.always(Reply::status(500, "no"));
    let mut gateway = Starting::new(&policy(&stub.url(), KEYS))
        .word("--log-format")
        .word("json")
        .variable("HALFOPEN_LOG_LEVEL", "debug")
        .start();
    for _ in 0..2 {
        gateway.get("/d/up/x");
    }
    std::fs::write(gateway.path("policy.yaml"), "nonsense: [").unwrap();
    gateway.signal(rustix::process::Signal::HUP);
    until("a refused reload is said", || gateway.said().contains("policy not reloaded"));
    until("the trip is said", || gateway.said().contains("\"tripped\""));
    gateway.signal(rustix::process::Signal::TERM);
    gateway.ended();
    let said = gateway.said();
    let lines: Vec<serde_json::Value> = said
        .lines()
        .filter(|line| *line != "(end)")
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no object: {line}")))
        .collect();
    assert!(
        lines
            .iter()
            .all(|line| { line["time"].as_str().is_some_and(|time| time.ends_with('Z')) && line["level"].is_string() })
    );
    let of = |message: &str| {
        lines.iter().find(|line| line["message"] == message).unwrap_or_else(|| panic!("{message} in {said}"))
    };
    let tripped = of("tripped");
    assert_eq!((&tripped["level"], &tripped["circuit"]), (&"warn".into(), &"up".into()));
    assert_eq!(
        (&tripped["from"], &tripped["to"], &tripped["reason"]),
        (&"closed".into(), &"open".into(), &"failures".into())
    );
    assert!(tripped["details"]["open_until"].as_str().is_some_and(|until| until.ends_with('Z')), "{tripped}");
    let attempt = of("attempt");
    assert_eq!(
        (&attempt["class"], &attempt["status"], &attempt["attempt"]),
        (&"server_error".into(), &500.into(), &1.into())
    );
    let call = of("call");
    assert_eq!((&call["outcome"], &call["attempts"]), (&"server_error".into(), &1.into()));
    let refused: Vec<_> = lines.iter().filter(|line| line["level"] == "error").collect();
    let [mistake, refused] = refused.as_slice() else { panic!("{refused:?}") };
    assert!(refused["message"].as_str().unwrap().contains("policy not reloaded"), "{refused}");
    // What is wrong is one line, with its place in fields.
    assert_eq!(mistake["message"], "unclosed bracket '['");
    assert_eq!(
        (&mistake["file"], &mistake["line"], &mistake["column"]),
        (&"policy.yaml".into(), &1.into(), &11.into())
    );
    assert!(mistake["hint"].as_str().is_some_and(|hint| hint.contains("close it")), "{mistake}");
}

/// A warning about the policy is a line of the log like any other, whatever its form.
#[test_case("text")]
#[test_case("json")]
fn a_warning_about_the_policy_is_one_line_with_its_place(form: &str) {
    let stub = Stub::start();
    let keys = "on_open: { action: queue }";
    let gateway = Starting::new(&policy(&stub.url(), keys)).word("--log-format").word(form).start();
    let said = gateway.said();
    let about: Vec<&str> = said.lines().filter(|line| line.contains("queues with neither")).collect();
    let [line] = about.as_slice() else { panic!("{said}") };
    let fields = match form {
        "text" => [" warn ", " file=policy.yaml line=", " column=", " key=", " hint=\"write `probe`"],
        _ => ["\"level\":\"warn\"", "\"file\":\"policy.yaml\"", "\"line\":", "\"key\":", "\"hint\":\"write `probe`"],
    };
    assert!(fields.iter().all(|field| line.contains(field)), "{line}");
    let is_whole = |line: &str| match form {
        "text" => line.split(' ').next().is_some_and(|time| time.parse::<jiff::Timestamp>().is_ok()),
        _ => serde_json::from_str::<serde_json::Value>(line).is_ok_and(|line| line["time"].is_string()),
    };
    assert!(said.lines().all(is_whole), "{said}");
}

/// Calls are told to those who look closely, and to nobody else; what happened to circuits is.
#[test]
fn a_text_log_tells_of_circuits_and_not_of_calls() {
    let stub = Stub::start();
    stub.always(Reply::status(500, "no"));
    let gateway = gateway(&stub, KEYS);
    for _ in 0..2 {
        gateway.get("/d/up/x");
    }
    gateway.halfopen(&["hold", "up", "open", "--reason", "repairs"]);
    until("the hold is said", || gateway.said().contains(" info hold_placed event_at="));
    let said = gateway.said();
    assert!(said.contains(" warn tripped event_at="), "{said}");
    assert!(!said.contains("attempt=") && !said.contains("failure_counted"), "{said}");
    for line in said.lines() {
        let time = line.split(' ').next().unwrap();
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{line}");
    }
}

#[test]
fn only_what_is_asked_for_is_written() {
    let stub = Stub::start();
    stub.always(Reply::status(500, "no"));
    let gateway = Starting::new(&policy(&stub.url(), KEYS)).word("--log-format").word("text").start();
    gateway.get("/d/up/x");
    let (code, said) = Starting::new(&policy(&stub.url(), KEYS)).word("--log-level").word("loud").fails();
    assert_eq!(code, Some(64));
    assert!(said.contains("possible values: error, warn, info, debug, trace"), "{said}");
}
