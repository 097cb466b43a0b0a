//! The dashboard in a real browser: live, acted on, and looked at.

use std::time::{Duration, Instant};

use crate::driver::Browser;
use crate::html::{kept, page};
use crate::ledger::{opened, opens_for, queue, queueing, state, trip};
use crate::stub::{Reply, Stub};
use crate::world::{Gateway, Starting, gateway, policy, until};

/// The key of the tabulator in WebDriver.
const TAB: char = '\u{E004}';

fn url(gateway: &Gateway, target: &str) -> String {
    format!("http://{}{target}", gateway.address)
}

/// A tick stays with its job while the list changes around it: a decision never slips to the next row.
#[test]
fn what_is_chosen_stays_chosen_while_the_list_is_kept_current() {
    let stub = Stub::start();
    let review = format!("{}\non_open: {{ action: manual_review }}", opens_for(600.0));
    let gateway = opened(&stub, &review);
    let ids: Vec<String> = (0..3).map(|n| queue(&gateway, &format!("inv-{n}"))).collect();
    let browser = Browser::start();
    browser.looks(1440, "light");
    browser.go(&url(&gateway, "/ui/jobs?state=manual_review"));
    browser.until("the page is kept current", "document.documentElement.dataset.link === 'live'");
    browser.click(&format!("input[name=job][value='{}']", ids[1]));
    // Somebody else decides about the first one, and its row goes.
    let resolved = gateway.ask("POST", &format!("/jobs/{}/resolve", ids[0]), &[], "{\"reason\":\"booked\"}");
    assert_eq!(resolved.status, 200, "{}", resolved.text());
    browser.until("its row is gone", "document.querySelectorAll('input[name=job]').length === 2");
    let chosen = "[...document.querySelectorAll('input[name=job]:checked')].map((box) => box.value).join()";
    assert_eq!(browser.says(chosen), ids[1].as_str());
    // Without scripts the rest is the same.
    browser.scripts(false);
    browser.click("button[name=do][value=requeue]");
    browser.sees(".chosen");
    browser.write("#reason", "the supplier has not got it");
    browser.click(".form .primary");
    browser.sees(".told");
    let states: Vec<String> = ids.iter().map(|id| state(&gateway, id)).collect();
    assert_eq!(states, ["done", "queued", "manual_review"]);
}

/// An outage is watched from its beginning to its end on a page that is loaded once.
#[test]
fn an_outage_is_seen_live_and_a_job_and_a_circuit_are_handled_in_the_browser() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &queueing(&opens_for(1.0)));
    let browser = Browser::start();
    browser.looks(1440, "light");
    browser.go(&url(&gateway, "/"));
    browser.until("the page is kept current", "document.documentElement.dataset.link === 'live'");
    browser.says("window.loadedOnce = true");
    browser.sees("#f-circuits .badge.closed");

    // The outage, and a job whose end nobody knows.
    stub.then([Reply::new().reset(), Reply::new().reset()]);
    gateway.post("/d/up/trip", "{}");
    browser.sees("#f-circuits .badge.open");
    let id = kept(&gateway, "inv-<b>1");
    browser.sees("#f-people .people");
    until("it waits for a person", || state(&gateway, &id) == "manual_review");
    browser.until("it is read aloud", "document.getElementById('said').textContent.includes('up:')");
    assert_eq!(browser.says("window.loadedOnce"), true, "nobody loaded the page again");

    // A person decides, by the links that a person sees.
    browser.click("#f-people .button");
    browser.sees(".jobs .badge.review");
    browser.click(".jobs tbody a");
    browser.sees(".beware");
    browser.click(&format!("a[href='/ui/jobs/{id}/requeue']"));
    browser.write("#reason", "the supplier has not got it");
    browser.click("input[name=may_have_run]");
    browser.click(".form .primary");
    browser.sees(".told");
    browser.sees("#f-job .badge.done");
    assert_eq!(state(&gateway, &id), "done");

    // The same without scripts: held, and released.
    browser.scripts(false);
    browser.go(&url(&gateway, "/ui/circuits/up"));
    browser.click("a[href='/ui/circuits/up/hold']");
    browser.write("#reason", "maintenance");
    browser.click(".form .primary");
    let held = || page(&gateway, "/ui/circuits/up").contains("class=\"badge held\"");
    until("it is held", held);
    browser.go(&url(&gateway, "/ui/circuits/up"));
    browser.click("a[href='/ui/circuits/up/release']");
    browser.write("#reason", "over");
    browser.click(".form .primary");
    until("it is released", || !held());
    browser.scripts(true);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Every page at the width of a phone and of a desk, light and dark: nothing runs out of the page, nothing is forbidden by
/// its own policy, what is hostile stays text. The pictures lie in the target folder, to be looked at.
#[test]
fn every_page_fits_a_phone_and_a_desk_in_both_themes() {
    let stub = Stub::start();
    let keys = "retry: { max_attempts: 1 }\nowner: platform-oncall\nrunbook: https://wiki.example.com/up\n";
    let mut rules = policy(&stub.url(), &queueing(&format!("{}\n{keys}", opens_for(0.5))));
    for name in ["crm-of-the-whole-company", "llm", "payments"] {
        rules.push_str(&format!("  - name: {name}\n    upstream: {}\n", stub.url()));
    }
    rules.push_str("alerts:\n  platform-oncall:\n    - command: [\"false\"]\n");
    let gateway = Starting::new(&rules).start();
    trip(&stub, &gateway);
    stub.then([Reply::new().reset()]);
    let evil = "<img src=x onerror=\"window.hit=1\"><script>window.hit=2</script>";
    let review = kept(&gateway, evil);
    until("it waits for a person", || state(&gateway, &review) == "manual_review");
    stub.always(Reply::ok("{}"));
    let done = [1, 2, 3].map(|n| kept(&gateway, &format!("ahead-{n}")));
    until("they are done", || done.iter().all(|id| state(&gateway, id) == "done"));
    stub.then([Reply::status(503, &serde_json::json!({ "error": { "message": evil } }).to_string())]);
    gateway.post("/d/up/a%3Cimg%20src=x%20onerror=window.hit=3%3E", "{}");
    trip_again(&stub, &gateway);
    let pages = [
        ("overview", "/".to_owned()),
        ("circuit", "/ui/circuits/up?range=6h".to_owned()),
        ("incidents", "/ui/incidents".to_owned()),
        ("jobs", "/ui/jobs".to_owned()),
        ("job", format!("/ui/jobs/{review}")),
        ("requeue", format!("/ui/jobs/{review}/requeue")),
        ("hold", "/ui/circuits/up/hold".to_owned()),
        ("policy", "/ui/policy".to_owned()),
        ("alerts", "/ui/alerts".to_owned()),
        ("nothing", "/ui/nothing".to_owned()),
    ];
    let browser = Browser::start();
    for (width, theme, lang) in [(390, "light", "en"), (390, "dark", "ja"), (1440, "light", "ja"), (1440, "dark", "en")]
    {
        browser.looks(width, theme);
        for (name, target) in &pages {
            let mark = if target.contains('?') { '&' } else { '?' };
            browser.go(&url(&gateway, &format!("{target}{mark}lang={lang}")));
            let over = browser.says("document.documentElement.scrollWidth - document.documentElement.clientWidth");
            browser.picture(&format!("{name}-{width}-{theme}"));
            assert_eq!(over, 0, "{name} at {width} is wider than the screen");
            assert_eq!(browser.says("typeof window.hit"), "undefined", "{name}: a text ran as a script");
            assert_eq!(browser.says("document.documentElement.lang"), lang, "{name}");
        }
    }
    let complaints = browser.complaints();
    // The page that is not there is the only thing that may be missing.
    let others: Vec<&String> = complaints.iter().filter(|line| !line.contains("/ui/nothing")).collect();
    assert_eq!(others, Vec::<&String>::new());

    // By keyboard: the first stop leads past the head of the page, and what has the focus shows it.
    browser.go(&url(&gateway, "/?lang=en"));
    browser.press(TAB);
    assert_eq!(browser.says("document.activeElement.className"), "skip");
    browser.press(TAB);
    assert_eq!(browser.says("document.activeElement.className"), "brand");
    let outline = browser.says("getComputedStyle(document.activeElement).outlineStyle");
    assert_eq!(outline, "solid", "what has the focus shows it");
    // Everything that takes input has a name.
    browser.go(&url(&gateway, "/ui/circuits/up/hold"));
    let nameless = "[...document.querySelectorAll('input:not([type=hidden]),select,textarea,button')]\
                    .filter((each) => !(each.labels?.length || each.textContent.trim())).length";
    assert_eq!(browser.says(nameless), 0);
}

/// Lets calls fail until the breaker is open again, for as long as pictures are taken.
fn trip_again(stub: &Stub, gateway: &Gateway) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while gateway.state("up") != "open" && Instant::now() < deadline {
        stub.then([Reply::new().reset()]);
        gateway.post("/d/up/trip", "{}");
    }
    let hold = "{\"state\":\"open\",\"reason\":\"for the pictures\",\"for_sec\":600}";
    assert_eq!(gateway.ask("POST", "/circuits/up/hold", &[], hold).status, 200);
}
