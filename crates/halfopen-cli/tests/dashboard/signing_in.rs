//! Who signs in, how long that holds, and what stays shut without it.

use crate::client::Client;
use crate::html::{cookie, encoded, leads, page, send, word};
use crate::stub::Stub;
use crate::world::{Gateway, Starting, policy};

/// A gateway with a token for operators, listening where others reach it.
fn guarded(listen: &str) -> (Gateway, String) {
    let stub = Stub::start();
    let starting = Starting::new(&policy(&stub.url(), "")).listen(listen);
    let token = starting.token("marie", "operators");
    (starting.word("--admin-token-file").word("operators").start(), token)
}

fn sign_in(gateway: &Gateway, token: &str) -> crate::client::Answer {
    let word = word(&gateway.ask("GET", "/ui/sign-in", &[], "").text());
    send(gateway, "/ui/sign-in", &[("word", &word), ("token", token), ("next", "/ui/jobs?state=queued")], &[])
}

#[test]
fn an_operator_signs_in_acts_and_signs_out() {
    let (gateway, token) = guarded("127.0.0.1:0");
    // On this machine looking is free, and acting is not.
    assert!(page(&gateway, "/").contains("Sign in"));
    let shut = gateway.ask("GET", "/ui/circuits/up/hold", &[], "");
    assert_eq!(shut.status, 401);
    assert!(shut.text().contains("name=\"token\"") && shut.text().contains("value=\"/ui/circuits/up/hold\""));
    let wrong = sign_in(&gateway, "hop_wrongwrongwrongwrongwrong");
    assert_eq!((wrong.status, wrong.field("set-cookie")), (401, None));
    assert!(wrong.text().contains("not an operator") && !wrong.text().contains("hop_wrong"), "{}", wrong.text());

    let signed = sign_in(&gateway, &token);
    assert_eq!(leads(&signed), "/ui/jobs?state=queued");
    let full = signed.field("set-cookie").unwrap_or_default();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(full.contains(part), "{part} in {full}");
    }
    let cookie = cookie(&signed);
    assert!(!cookie.contains(&token) && !full.contains("marie"), "a session is not the token");
    let with = |method: &str, target: &str, body: &str| {
        let fields = [("cookie", cookie.as_str()), ("content-type", "application/x-www-form-urlencoded")];
        gateway.ask(method, target, &fields, body)
    };
    let form = with("GET", "/ui/circuits/up/hold", "").text();
    assert!(form.contains("marie") && form.contains("Sign out"), "{form}");
    let known = word(&form);
    let fields = |word: &str| encoded(&[("word", word), ("state", "closed"), ("for", ""), ("reason", "by hand")]);
    // The word of somebody who did not sign in is not this session's.
    let stranger = word(&gateway.ask("GET", "/ui/sign-in", &[], "").text());
    assert_eq!(with("POST", "/ui/circuits/up/hold", &fields(&stranger)).status, 403);
    assert_eq!(leads(&with("POST", "/ui/circuits/up/hold", &fields(&known))), "/ui/circuits/up?done=hold");
    assert!(gateway.halfopen(&["events", "--all", "--json"]).contains("\"marie\""), "the journal names the token");
    // The cookie alone opens no path of the API: it takes no form, and no cookie.
    let api = gateway.ask("POST", "/circuits/up/reset", &[("cookie", &cookie)], "{}");
    assert_eq!(api.status, 401);

    assert_eq!(with("POST", "/ui/sign-out", "word=x").status, 403, "nobody else signs out");
    let out = with("POST", "/ui/sign-out", &encoded(&[("word", &known)]));
    assert_eq!(leads(&out), "/");
    assert!(out.field("set-cookie").unwrap_or_default().contains("Max-Age=0"));
    assert_eq!(with("GET", "/ui/circuits/up/hold", "").status, 401, "the old cookie is worth nothing");
}

/// S012: where others reach the gateway, no page is shown without a token.
#[test]
fn where_others_reach_it_every_page_is_shut() {
    let (gateway, token) = guarded("0.0.0.0:0");
    let at = format!("127.0.0.1:{}", gateway.address.port());
    let get = |target: &str, fields: &[(&str, &str)]| {
        let mut all = vec![("host", at.as_str())];
        all.extend(fields);
        Client::connect(at.parse().unwrap_or(gateway.address)).call("GET", target, &all, b"")
    };
    for target in ["/", "/ui/circuits/up", "/ui/incidents", "/ui/jobs", "/ui/jobs/j1-1", "/ui/policy", "/ui/alerts"] {
        let answer = get(target, &[]);
        assert_eq!(answer.status, 401, "{target}");
        assert!(answer.text().contains("name=\"token\"") && !answer.text().contains("badge"), "{}", answer.text());
        assert_eq!(answer.field("cache-control"), Some("no-store"));
    }
    assert_eq!(get("/ui/live?view=/", &[]).status, 401);
    assert_eq!(get("/", &[("authorization", &format!("Bearer {token}"))]).status, 200);
    assert_eq!(get("/", &[("cookie", "halfopen_session=x")]).status, 401);
}

#[test]
fn a_token_that_is_taken_back_takes_its_sessions_along() {
    let (gateway, token) = guarded("127.0.0.1:0");
    let cookie = cookie(&sign_in(&gateway, &token));
    let opens = || gateway.ask("GET", "/ui/circuits/up/hold", &[("cookie", &cookie)], "").status;
    assert_eq!(opens(), 200);
    let other = gateway.halfopen(&["token", "paul", "--file", "others"]);
    assert!(other.starts_with("hop_"), "{other}");
    let copied = std::fs::copy(gateway.path("others"), gateway.path("operators"));
    assert!(copied.is_ok());
    gateway.signal(rustix::process::Signal::HUP);
    crate::world::until("the session ends", || opens() == 401);
}
