//! `/circuits`, `/openapi.json`: circuits are seen and steered over HTTP, and every mistake is told.

use serde_json::{Value, json};
use test_case::test_case;

use crate::stub::Stub;
use crate::world::{Gateway, gateway};

fn idle() -> Gateway {
    gateway(&Stub::start(), "")
}

fn of<'a>(list: &'a Value, circuit: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|line| line["circuit"] == circuit).unwrap_or_else(|| panic!("{list}"))
}

#[test]
fn circuits_are_the_list_of_the_command_line() {
    let gateway = idle();
    assert_eq!(gateway.ask("GET", "/circuits", &[], "").json(), json!([]));
    gateway.failures("up", 5);
    gateway.failures("other@region=eu", 1);
    let answer = gateway.ask("GET", "/circuits", &[], "");
    assert_eq!(answer.status, 200);
    let printed: Value =
        serde_json::from_str(&gateway.halfopen(&["status", "--json", "--policy", "policy.yaml"])).unwrap();
    let keys = |list: &Value| list[0].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&answer.json()), keys(&printed));
    assert_eq!(of(&answer.json(), "up")["state"], "open");
    let one = gateway.ask("GET", "/circuits?dependency=other", &[], "").json();
    assert_eq!(one.as_array().unwrap().len(), 1);
    assert_eq!(one[0]["partition"], "region=eu");
    let full = gateway.ask("GET", "/circuits?full=true", &[], "").json();
    assert_eq!(of(&full, "up")["last_failure"]["rule"], "test/rule");
}

#[test]
fn a_circuit_is_explained_under_its_percent_encoded_name() {
    let gateway = idle();
    gateway.failures("up@region=eu", 5);
    gateway.failures("up@region=us", 1);
    let one = gateway.ask("GET", "/circuits/up%40region%3Deu", &[], "").json();
    assert_eq!(
        (one.as_array().unwrap().len(), &one[0]["state"], &one[0]["reason"]),
        (1, &json!("open"), &json!("failures"))
    );
    assert_eq!(one[0]["events"][0]["event"], "tripped");
    assert!(one[0]["next_step"].as_str().unwrap().contains("it probes by itself"));
    let all = gateway.ask("GET", "/circuits/up", &[], "").json();
    assert_eq!(all.as_array().unwrap().len(), 2);
    let unknown = gateway.ask("GET", "/circuits/pu", &[], "");
    assert_eq!((unknown.status, unknown.problem().as_str()), (404, "not_found"));
    let detail = unknown.json()["detail"].to_string();
    assert!(detail.contains("`pu`") && detail.contains("up@region=eu"), "{detail}");
}

/// What an operator was told is done holds for the very next call, also where calls go by a snapshot of the circuit.
#[test]
fn a_hold_that_is_answered_holds_for_the_next_call() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    assert_eq!(gateway.get("/d/up/x").status, 200);
    for sent in 1..=12 {
        assert_eq!(gateway.ask("POST", "/circuits/up/hold", &[], r#"{"state":"open"}"#).status, 200);
        assert_eq!((gateway.get("/d/up/x").problem().as_str(), stub.seen().len()), ("circuit_open", sent));
        assert_eq!(gateway.ask("POST", "/circuits/up/release", &[], "{}").status, 200);
        assert_eq!((gateway.get("/d/up/x").status, stub.seen().len()), (200, sent + 1));
    }
}

#[test]
fn a_hold_is_placed_journalled_and_released() {
    let gateway = idle();
    let held =
        gateway.ask("POST", "/circuits/up/hold", &[], r#"{"state":"open","reason":"maintenance","for_sec":3600}"#);
    assert_eq!(held.status, 200, "{}", held.text());
    assert_eq!((&held.json()[0]["hold"], &held.json()[0]["before"]["hold"]), (&json!("open"), &Value::Null));
    let told = gateway.ask("GET", "/circuits/up", &[], "").json();
    assert_eq!(told[0]["hold"]["by"], "http:127.0.0.1");
    assert_eq!(told[0]["hold"]["reason"], "maintenance");
    assert!(told[0]["hold"]["until"].is_string());
    assert!(gateway.halfopen(&["status"]).contains("HELD OPEN by http:127.0.0.1"));
    let events = gateway.ask("GET", "/events?format=json&all=true", &[], "").json();
    assert_eq!((&events[0]["event"], &events[0]["details"]["who"]), (&json!("hold_placed"), &json!("http:127.0.0.1")));

    let words = gateway.ask("POST", "/circuits/up/hold", &[], r#"{"state":"closed","for":"10m"}"#);
    assert_eq!((words.status, &words.json()[0]["hold"]), (200, &json!("closed")), "{}", words.text());
    let released = gateway.ask("POST", "/circuits/up/release", &[], r#"{"reason":"over"}"#);
    assert_eq!((released.status, &released.json()[0]["hold"]), (200, &Value::Null));
    assert_eq!(released.json()[0]["before"]["hold"], "closed");
}

#[test]
fn release_probes_now_and_reset_closes_all_circuits_of_the_dependency() {
    let gateway = idle();
    gateway.failures("up@region=eu", 5);
    gateway.failures("up@region=us", 5);
    let probing = gateway.ask("POST", "/circuits/up%40region%3Deu/release", &[], r#"{"probe_now":true}"#);
    assert_eq!((probing.status, &probing.json()[0]["state"]), (200, &json!("half_open")), "{}", probing.text());
    let reset = gateway.ask("POST", "/circuits/up/reset", &[], r#"{"reason":"the cause was found"}"#);
    assert_eq!(reset.status, 200);
    let reset = reset.json();
    assert_eq!(reset.as_array().unwrap().len(), 2);
    assert_eq!(of(&reset, "up@region=us")["before"]["state"], "open");
    assert_eq!(of(&reset, "up@region=us")["state"], "closed");
    assert_eq!(gateway.state("up@region=eu"), "closed");
}

/// S072: a malformed body is never treated as defaults.
#[test_case("hold", "", "empty"; "nothing")]
#[test_case("hold", "{", "no JSON"; "half a body")]
#[test_case("hold", "[]", "no JSON object"; "a list")]
#[test_case("hold", "{}", "`state` is missing"; "no state")]
#[test_case("hold", r#"{"state":"half_open"}"#, "`state` is `\"half_open\"`"; "a state that cannot be held")]
#[test_case("hold", r#"{"state":"open","for_sec":0}"#, "`for_sec` is `0`"; "no time")]
#[test_case("hold", r#"{"state":"open","for_sec":-5}"#, "`for_sec` is `-5`"; "a negative time")]
#[test_case("hold", r#"{"state":"open","for_sec":1e12}"#, "at most 31622400"; "beyond a year")]
#[test_case("hold", r#"{"state":"open","for_sec":"60"}"#, "`for_sec`"; "a text for a number")]
#[test_case("hold", r#"{"state":"open","for":"10"}"#, "has no unit"; "a duration without a unit")]
#[test_case("hold", r#"{"state":"open","for":"1m","for_sec":60}"#, "send one of them"; "the time twice")]
#[test_case("hold", r#"{"state":"open","raeson":"x"}"#, "`raeson` is no key of this body; known are state, reason"; "a slip")]
#[test_case("hold", r#"{"state":"open","reason":7}"#, "`reason` is `7`"; "a reason that is no text")]
#[test_case("release", "", "empty"; "release with nothing")]
#[test_case("release", r#"{"probe_now":"yes"}"#, "allowed is true or false"; "release with a word")]
#[test_case("reset", "", "empty"; "reset with nothing")]
#[test_case("reset", r#"{"probe_now":true}"#, "known are reason"; "reset with another's key")]
fn a_body_that_says_something_else_changes_nothing(what: &str, body: &str, said: &str) {
    let gateway = idle();
    gateway.failures("up", 5);
    let json = [("content-type", "application/json")];
    let answer = gateway.ask("POST", &format!("/circuits/up/{what}"), &json, body);
    assert_eq!(answer.status, 400, "{}", answer.text());
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains(said), "{detail}");
    let told = gateway.ask("GET", "/circuits/up", &[], "").json();
    assert_eq!((&told[0]["state"], &told[0]["hold"]), (&json!("open"), &Value::Null));
}

#[test]
fn what_is_asked_wrongly_is_told() {
    let gateway = idle();
    let status = |method: &str, target: &str| gateway.ask(method, target, &[], "").status;
    assert_eq!(status("GET", "/circuits?dependancy=up"), 400);
    assert_eq!(status("GET", "/circuits?dependency=a&dependency=b"), 400);
    assert_eq!(status("GET", "/events?format=xml"), 400);
    assert_eq!(status("GET", "/events?format=json&limit=0"), 400);
    assert_eq!(status("GET", "/events?format=json&since=yesterday"), 400);
    assert_eq!(status("GET", "/events?format=json&dependency=nobody"), 400);
    assert_eq!(status("GET", "/events?format=json&dependency=up"), 200);
    // What would be ignored is refused.
    for ignored in ["/events?since=1h", "/events?format=sse&limit=5", "/events?format=json&after=7"] {
        assert_eq!(status("GET", ignored), 400, "{ignored}");
    }
    assert_eq!(status("GET", "/events?after=x"), 400);
    assert_eq!(status("GET", "/circuits/up/hold"), 405);
    assert_eq!(status("DELETE", "/circuits"), 405);
    assert_eq!(status("GET", "/nothing"), 404);
    let long = format!(r#"{{"state":"open","reason":"{}"}}"#, "x".repeat(20_000));
    assert_eq!(gateway.ask("POST", "/circuits/up/hold", &[], &long).status, 413);
}

/// S169: what browsers could make more of than it is, they are told not to.
#[test]
fn every_answer_is_what_it_says_and_is_kept_by_nobody() {
    let gateway = idle();
    for target in ["/circuits", "/healthz", "/metrics", "/openapi.json", "/nothing", "/circuits/%3Cimg%20src=x%3E"] {
        let answer = gateway.ask("GET", target, &[], "");
        assert_eq!(answer.field("x-content-type-options"), Some("nosniff"), "{target}");
        assert!(answer.field("content-security-policy").unwrap().starts_with("default-src 'none'"), "{target}");
        assert_eq!(answer.field("cache-control"), Some("no-store"), "{target}");
        assert!(!answer.field("content-type").unwrap().contains("html"), "{target}");
    }
}

/// The description and the routes cannot drift: every path of the document is asked, and every answer has its form.
#[test]
fn the_description_is_true_of_the_running_process() {
    let gateway = idle();
    gateway.failures("up", 5);
    gateway.ask("POST", "/circuits/up/hold", &[], r#"{"state":"open","for_sec":60}"#);
    let document = gateway.ask("GET", "/openapi.json", &[], "").json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let target = match path.as_str() {
                "/events" => "/events?format=json".to_owned(),
                "/drills/{id}" => format!("/drills/{}", drilled(&gateway)),
                path if path.starts_with("/jobs/") => path.replace("{id}", &reviewed(&gateway, path)),
                path => path.replace("{id}", "up"),
            };
            let body = if operation.get("requestBody").is_none() {
                ""
            } else if path == "/drills" {
                DRILL
            } else if path.ends_with("/hold") {
                r#"{"state":"open"}"#
            } else {
                "{}"
            };
            let answer = gateway.ask(&method.to_uppercase(), &target, &[], body);
            let content = &operation["responses"][answer.status.to_string()]["content"];
            let media_type = answer.field("content-type").unwrap().split(';').next().unwrap();
            let good = if (method.as_str(), path.as_str()) == ("post", "/drills") { 201 } else { 200 };
            assert_eq!(answer.status, good, "{method} {path}: {}", answer.text());
            let schema = &content.get(media_type).unwrap_or_else(|| &content["*/*"])["schema"];
            assert!(schema.is_object(), "{method} {path} answers {media_type}");
            if media_type == "application/json" {
                let mut schema = schema.clone();
                schema["components"] = document["components"].clone();
                let validator = jsonschema::validator_for(&schema).unwrap();
                let errors: Vec<String> =
                    validator.iter_errors(&answer.json()).map(|error| error.to_string()).collect();
                assert!(errors.is_empty(), "{method} {path}: {errors:?} in {}", answer.text());
            }
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                assert!(parameter["description"].is_string(), "{path} {parameter}");
            }
            asked += 1;
        }
    }
    assert_eq!(asked, 21);
}

const DRILL: &str = r#"{"dependency":"up","upstream":"http://127.0.0.1:9"}"#;

/// Begins a drill; returns its name.
fn drilled(gateway: &Gateway) -> String {
    let begun = gateway.ask("POST", "/drills", &[], DRILL);
    assert_eq!(begun.status, 201, "{}", begun.text());
    begun.json()["name"].as_str().unwrap().to_owned()
}

/// Puts a job before a person, or has it resolved where a result is asked for; returns its id.
fn reviewed(gateway: &Gateway, path: &str) -> String {
    use halfopen::handle::jobs::NewJob;
    use halfopen_core::job::{HttpRequest, JobRequest, Reason, Safety, Terms};
    let hour = std::time::Duration::from_secs(3600);
    let request = HttpRequest {
        method: "POST".to_owned(),
        target: "/x".to_owned(),
        headers: Vec::new(),
        credential: None,
        body: Vec::new(),
    };
    let accepted = gateway.store().enqueue(NewJob {
        terms: Terms {
            place: "up".parse().unwrap(),
            account: None,
            ttl: hour,
            on_expiry: halfopen_core::policy::OnExpiry::ManualReview,
            safety: Safety::Unsafe,
            keep: hour,
        },
        request: JobRequest::Http(request),
        key: None,
        order_key: None,
        review: Some(Reason::Policy),
        retry_at: None,
        bounds: halfopen::config::QueueBounds::default(),
        caller: None,
        on_done: false,
    });
    let id = accepted.unwrap().receipt().id.to_string();
    if path.ends_with("/result") {
        let body = r#"{"reason":"asked","result":"it was booked"}"#;
        assert_eq!(gateway.ask("POST", &format!("/jobs/{id}/resolve"), &[], body).status, 200);
    }
    id
}

/// What the command line shows is the same, whether it opens the store or asks the gateway.
#[test]
fn the_command_line_shows_the_same_either_way() {
    let gateway = idle();
    gateway.failures("up", 1);
    reviewed(&gateway, "/jobs/{id}");
    let url = format!("http://{}", gateway.address);
    let both = |words: &[&str]| {
        let store = gateway.halfopen(&[words, &["--policy", "policy.yaml"]].concat());
        (store, gateway.halfopen(&[words, &["--url", &url]].concat()))
    };
    let row = |text: &str| text.lines().find(|line| line.starts_with("up ")).map(str::to_owned);
    let (store, asked) = both(&["status"]);
    assert!(row(&store).is_some_and(|row| row.contains("1/5") && row.contains("0/2")), "{store}");
    assert_eq!(row(&store), row(&asked), "one source, whoever is asked");
    let (store, asked) = both(&["audit", "--json"]);
    assert_eq!(store, asked);
    assert!(store.contains("\"good\": true") && store.contains("1 jobs were looked at"), "{store}");
    let (store, asked) = both(&["audit"]);
    assert_eq!(store, asked);
    assert!(row(&store).is_some(), "{store}");
    // What does not hold together is found from elsewhere, too.
    let file = rusqlite::Connection::open(gateway.path(".local/state/halfopen/halfopen.db")).unwrap();
    file.execute("DELETE FROM job_history", []).unwrap();
    let (store, asked) = both(&["audit"]);
    assert!(asked.contains("the history of job"), "{asked}");
    assert_eq!(store, asked);
}
