//! What pages say, to whom, and what they never do.

use crate::html::page;
use crate::ledger::{opened, opens_for, queue, queueing, trip};
use crate::stub::{Reply, Stub};
use crate::world::{Starting, gateway, policy};

const PAGES: [&str; 8] = [
    "/",
    "/?range=7d",
    "/ui/circuits/up",
    "/ui/circuits/up?range=24h",
    "/ui/incidents",
    "/ui/jobs",
    "/ui/policy",
    "/ui/alerts",
];

#[test]
fn every_page_is_whole_without_scripts_and_loads_nothing_but_its_own() {
    let stub = Stub::start();
    let gateway = opened(&stub, &queueing(&opens_for(60.0)));
    let id = queue(&gateway, "inv-1");
    let job = format!("/ui/jobs/{id}");
    let forms = ["/ui/circuits/up/hold", "/ui/circuits/up/release", "/ui/circuits/up/reset"];
    let cancel = format!("{job}/cancel");
    for target in PAGES.into_iter().chain(forms).chain([job.as_str(), cancel.as_str()]) {
        let answer = gateway.ask("GET", target, &[], "");
        assert_eq!(answer.status, 200, "{target}: {}", answer.text());
        let allowed = answer.field("content-security-policy").unwrap_or_default();
        assert!(allowed.contains("default-src 'self'") && allowed.contains("frame-ancestors 'none'"), "{allowed}");
        assert!(!allowed.contains("unsafe"), "{allowed}");
        assert_eq!(answer.field("cache-control"), Some("no-store"), "{target}");
        assert_eq!(answer.field("x-content-type-options"), Some("nosniff"), "{target}");
        let html = answer.text();
        // Nothing is inline, so the policy needs no exception.
        for inline in ["<style", " style=", "onclick", "javascript:"] {
            assert!(!html.contains(inline), "{target} has {inline}");
        }
        assert_eq!(html.matches("<script").count(), 1, "{target}");
        assert_eq!((html.matches("<main").count(), html.matches("<h1").count()), (1, 1), "{target}");
        assert!(html.contains("<html lang=\"en\">") && !html.contains("https://cdn"), "{target}");
        for file in html.split(['"']).filter(|word| word.starts_with("/ui/assets/")) {
            let asset = gateway.ask("GET", file, &[], "");
            assert_eq!((asset.status, asset.field("x-content-type-options")), (200, Some("nosniff")), "{file}");
            assert!(asset.field("cache-control").is_some_and(|value| value.contains("immutable")), "{file}");
        }
        let head = gateway.ask("HEAD", target, &[], "");
        assert_eq!((head.status, head.body.len()), (200, 0), "{target}");
    }
}

#[test]
fn the_overview_shows_state_reason_and_what_comes_next() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &queueing(&opens_for(600.0)));
    let before = page(&gateway, "/");
    // A dependency that was never called stands there, and so do the zeros.
    assert!(before.contains("class=\"badge closed\"") && before.contains("nothing is due"), "{before}");
    assert!(before.matches("class=\"n zero\">0<").count() >= 26, "the figures stand there at 0");
    trip(&stub, &gateway);
    queue(&gateway, "inv-1");
    let html = page(&gateway, "/");
    assert!(html.contains("class=\"badge open\""), "{html}");
    assert!(html.contains("Failures within 1 min: 1, the last: server error"), "{html}");
    assert!(html.contains("probes begin") && (html.contains("in 10 min") || html.contains("in 9 min")), "{html}");
    assert!(html.contains("class=\"s-open\"") && html.contains("class=\"s-failures\""), "it is drawn");
    assert!(html.contains("are refused") && html.contains("waits for the circuit"), "{html}");
    // What is drawn stands there as a table too.
    assert!(html.matches("<figure").count() == html.matches("<details class=\"data\"").count(), "{html}");
}

/// S189: what time alone changed shows, though nobody called and nobody wrote it down.
#[test]
fn a_cooldown_that_is_over_shows_as_half_open_with_no_time_left() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &opens_for(0.2));
    gateway.failures("up", 1);
    crate::world::until("it is half-open", || page(&gateway, "/").contains("class=\"badge half-open\""));
    let html = page(&gateway, "/ui/circuits/up");
    assert!(html.contains("the next call is a probe") && !html.contains("class=\"badge open\""), "{html}");
}

/// S169: whatever a job, a dependency or an error says is text.
#[test]
fn hostile_texts_stay_texts() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &queueing(&opens_for(600.0)));
    let evil = "<img src=x onerror=alert(1)></script>\"'";
    stub.then([Reply::status(503, &format!("{{\"error\":{{\"message\":{}}}}}", serde_json::json!(evil)))]);
    gateway.post("/d/up/x", "{}");
    gateway.becomes("up", "open");
    let target = "/d/up/%3Cimg%20src=x%20onerror=alert(1)%3E?q=%22'%3E%3Csvg/onload=alert(2)%3E";
    let id = gateway.post(target, "{}").json()["id"].as_str().map(str::to_owned).unwrap_or_default();
    let hold = serde_json::json!({ "state": "open", "reason": evil }).to_string();
    assert_eq!(gateway.ask("POST", "/circuits/up/hold", &[], &hold).status, 200);
    for target in ["/", "/ui/circuits/up", "/ui/incidents", "/ui/jobs", &format!("/ui/jobs/{id}"), "/ui/policy"] {
        let html = page(&gateway, target);
        for tag in ["<img", "<svg/onload", "</script>\"", "onerror=alert(1)>"] {
            assert!(!html.contains(tag), "{target} has {tag}");
        }
    }
    let circuit = page(&gateway, "/ui/circuits/up");
    assert!(circuit.contains("&#60;img src=x onerror=alert(1)&#62;"), "{circuit}");
    for target in ["/ui/jobs/x'onmouseover='alert(1)", "/ui/circuits/%3Cscript%3E", "/ui/%3Cscript%3E?range=%3Cb%3E"] {
        let answer = gateway.ask("GET", target, &[], "");
        assert_eq!(answer.status, 404, "{target}");
        assert!(!answer.text().contains("<script>") && !answer.text().contains("'onmouseover"), "{}", answer.text());
    }
    let wrong = gateway.ask("GET", "/?range=%3Cb%3E", &[], "");
    assert_eq!(wrong.status, 400);
    assert!(wrong.text().contains("&#60;b&#62;") && wrong.text().contains("1h, 6h, 24h or 7d"), "{}", wrong.text());
}

/// S036: a page never says a secret that a call brought or the policy adds.
#[test]
fn no_page_says_a_secret() {
    let stub = Stub::start();
    let keys = queueing("credentials: { main: { from_env: UP_KEY, header: authorization, scheme: Bearer } }");
    let starting = Starting::new(&policy(&stub.url(), &keys));
    let gateway = starting.variable("UP_KEY", "sk-live-0123456789abcdef0123456789abcdef").start();
    stub.always(Reply::status(503, "{\"error\":\"bad key sk-live-0123456789abcdef0123456789abcdef\"}"));
    for _ in 0..5 {
        gateway.post("/d/up/x?api_key=sk-other-0123456789abcdef0123456789", "{}");
    }
    for target in PAGES {
        let html = page(&gateway, target);
        assert!(!html.contains("0123456789abcdef"), "{target}: {html}");
    }
    assert!(page(&gateway, "/ui/policy").contains("main ($UP_KEY)"), "the credential is named");
}

#[test]
fn a_language_is_taken_from_the_browser_or_chosen_and_remembered() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let get = |target: &str, fields: &[(&str, &str)]| gateway.ask("GET", target, fields, "");
    assert!(page(&gateway, "/").contains("<html lang=\"en\">"));
    let japanese = get("/", &[("accept-language", "ja-JP,ja;q=0.9,en;q=0.8")]);
    assert!(japanese.text().contains("<html lang=\"ja\">") && japanese.text().contains("ハーフオープン"));
    assert_eq!(japanese.field("content-language"), Some("ja"));
    let chosen = get("/?range=6h&lang=ja", &[]);
    let cookie = chosen.field("set-cookie").unwrap_or_default().to_owned();
    assert!(cookie.starts_with("halfopen_lang=ja; Path=/; Max-Age=31536000; SameSite=Lax"), "{cookie}");
    assert!(chosen.text().contains("href=\"/?range=6h&#38;lang=en\""), "the other language keeps the range");
    let remembered = get("/ui/jobs", &[("cookie", "halfopen_lang=ja"), ("accept-language", "en")]);
    assert!(remembered.text().contains("<html lang=\"ja\">"));
    let every: Vec<String> = PAGES.iter().map(|target| get(target, &[("accept-language", "ja")]).text()).collect();
    for (target, html) in PAGES.iter().zip(every) {
        assert!(html.contains("<html lang=\"ja\">") && html.contains("概要"), "{target}");
    }
}

#[test]
fn another_name_than_ours_gets_no_page() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    for target in PAGES {
        // A name that somebody else made lead here.
        let answer = gateway.call("GET", target, &[("host", "evil.example")], b"");
        assert_eq!(answer.status, 421, "{target}");
        let answer = gateway.ask("GET", target, &[("origin", "http://evil.example")], "");
        assert_eq!(answer.status, 403, "{target}");
    }
    assert_eq!(gateway.ask("POST", "/", &[], "{}").status, 405);
}

#[test]
fn pages_stand_where_operators_do() {
    let stub = Stub::start();
    let gateway = Starting::new(&policy(&stub.url(), "")).word("--admin-listen").word("127.0.0.1:0").start();
    assert_eq!(gateway.ask("GET", "/", &[], "").status, 404);
    let answer = crate::client::Client::connect(gateway.operators()).call("GET", "/", &[], b"");
    assert_eq!(answer.status, 200);
}

/// What no rule knew stands there with the rule to add, from whatever process it came.
#[test]
fn a_failure_that_no_rule_knew_brings_the_rule_to_add() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    assert!(!page(&gateway, "/").contains("id=\"unknown\""));
    let script = "echo 'flux capacitor <b>not</b> charged' >&2; exit 7";
    gateway.halfopen(&["run", "--dep", "agent", "--", "sh", "-c", script]);
    // What other processes noted is read again every few seconds.
    crate::world::until("it is shown", || page(&gateway, "/").contains("id=\"unknown\""));
    let html = page(&gateway, "/");
    assert!(html.contains("flux capacitor &#60;b&#62;not"), "{html}");
    assert!(html.contains("classify:") && html.contains("message: {says: [&#34;flux capacitor&#34;]}"), "{html}");
}

/// A store that is gone costs the history and not the page: what is known in memory is shown, and said to be.
#[test]
fn the_overview_stands_when_the_store_is_lost() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &opens_for(600.0));
    stub.then([Reply::new().reset()]);
    gateway.post("/d/up/x", "{}");
    gateway.becomes("up", "open");
    let store = crate::ledger::store_file(&gateway);
    assert!(std::fs::rename(&store, store.with_extension("gone")).is_ok());
    assert!(std::fs::create_dir(&store).is_ok());
    crate::world::until("it is noticed", || {
        gateway.post("/d/up/x", "{}");
        let answer = gateway.ask("GET", "/", &[], "");
        answer.status == 200 && answer.text().contains("The store is lost")
    });
    let html = page(&gateway, "/");
    assert!(
        html.contains("class=\"title\" href=\"/ui/circuits/up\"") && html.contains("class=\"s-unknown\""),
        "{html}"
    );
}

/// What owners were told stands there with whether it arrived.
#[test]
fn alerts_are_shown_with_what_became_of_them() {
    let stub = Stub::start();
    let keys = format!("owner: oncall\n{}", opens_for(600.0));
    let alerts = "alerts:\n  oncall:\n    - command: [\"false\"]\n";
    let gateway = Starting::new(&(policy(&stub.url(), &keys) + alerts)).start();
    gateway.failures("up", 1);
    crate::world::until("it was tried", || page(&gateway, "/ui/alerts").contains("on its way"));
    let html = page(&gateway, "/ui/alerts");
    assert!(html.contains("<b>opened</b>") && html.contains("oncall/command-1"), "{html}");
    // The channel's own circuit is on no list, and can be looked at.
    let channel = "/ui/circuits/halfopen-alerts@channel%3Doncall%2Fcommand-1";
    crate::world::until("it is there", || gateway.ask("GET", channel, &[], "").status == 200);
}
