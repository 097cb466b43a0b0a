//! `halfopen drill --live` against a real gateway: green where it protects, red where it does not, and nothing left behind.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::world::{DOCUMENT_OCR, Said, World};

/// How long a test waits for something that must happen.
const PATIENCE: Duration = Duration::from_secs(30);
const SECRET: &str = "sk-real-0123456789abcdef0123456789";

/// A running gateway in a world; it is ended when it is dropped.
struct Gateway {
    address: SocketAddr,
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Gateway {
    fn start(world: &World, policy: &str, words: &[&str]) -> Self {
        world.write("policy.yaml", policy);
        let mut all = vec!["serve", "--policy", "policy.yaml", "--listen", "127.0.0.1:0"];
        all.extend(words);
        let mut child =
            world.command(&all).env("UP_TOKEN", SECRET).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (stderr, hears) = (BufReader::new(child.stderr.take().unwrap()), Arc::clone(&said));
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                hears.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        let until = Instant::now() + PATIENCE;
        let address = loop {
            let text = said.lock().unwrap().clone();
            let found = text.split_once("serving http://").and_then(|(_, rest)| rest.split('/').next()?.parse().ok());
            if let Some(address) = found {
                break address;
            }
            assert!(Instant::now() < until, "it does not serve: {text}");
            std::thread::sleep(Duration::from_millis(5));
        };
        Self { address, child, said }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Asks as an operator on this machine.
    fn ask(&self, method: &str, target: &str, body: &str) -> Value {
        let text = exchange(self.address, method, target, body);
        let (_, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}"));
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn drill(&self, world: &World, words: &[&str]) -> Said {
        let url = self.url();
        let mut all = vec!["--live", "--url", url.as_str()];
        all.extend(words);
        world.drill(&all)
    }
}

fn exchange(address: SocketAddr, method: &str, target: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The block of the documentation in front of a dependency that must not be called, with a secret that must not be told.
fn documented(real: &TcpListener, more: &str) -> String {
    let upstream = format!("  upstream: http://{}\n", real.local_addr().unwrap());
    let credentials = "  credentials: { main: { from_env: UP_TOKEN, header: X-Key, scheme: Key } }\n";
    // Twenty jobs at one a second outlast no cooldown of a test.
    format!("{DOCUMENT_OCR}{upstream}{credentials}  drain: {{ rate_per_sec: 10 }}\n{more}")
}

fn nobody() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

/// Rows that say something about every part: the breaker, hints, probes, the queue, leaving, an operator's hold, figures.
const ROWS: [&str; 12] =
    ["A0 whole", "A1", "A2 Retry-After in", "A3", "A4", "B1", "B6 way out: cancelled", "C4", "D3", "D4", "L1", "L2"];

fn rows<'a>(names: &[&'a str]) -> Vec<&'a str> {
    names.iter().flat_map(|name| ["--row", name]).collect()
}

/// Returns the verdict and what was seen of the row whose name begins like this.
fn of(said: &Said, name: &str) -> (String, String) {
    let found = said.rows().into_iter().find(|(row, _, _)| row.starts_with(name));
    let (_, verdict, seen) = found.unwrap_or_else(|| panic!("no row {name}: {}{}", said.out, said.err));
    (verdict, seen)
}

#[test]
fn the_documented_policy_is_green_at_a_running_gateway_and_nothing_stays() {
    let (world, real) = (World::new(), nobody());
    let gateway = Gateway::start(&world, &documented(&real, ""), &[]);
    let mut words = rows(&ROWS);
    words.extend(["--shorten", "80", "--json"]);
    let mut missing: Vec<&str> = ROWS.to_vec();
    // Where the machine was too slow for a row it says so, and the row is played once more.
    for _ in 0..3 {
        let said = gateway.drill(&world, &words);
        assert!(said.with("fail").is_empty(), "{}{}", said.out, said.err);
        missing.retain(|name| of(&said, name).0 != "pass");
        assert!(!said.out.contains(SECRET) && !said.err.contains(SECRET));
        if missing.is_empty() {
            assert_eq!(said.code, Some(0), "{}", said.err);
            break;
        }
        assert!(said.out.contains("too slow here"), "{missing:?} in {}", said.out);
    }
    assert!(missing.is_empty(), "never played: {missing:?}");
    assert_eq!(gateway.ask("GET", "/drills", "")["drills"], serde_json::json!([]));
    assert_eq!(gateway.ask("GET", "/circuits", ""), serde_json::json!([]));
    assert_eq!(gateway.ask("GET", "/jobs", "")["jobs"], serde_json::json!([]));
    assert!(real.accept().is_err(), "nobody called the real one");
    let said = gateway.said.lock().unwrap().clone();
    assert!(said.contains("drill document-ocr~drill-") && !said.contains(SECRET), "{said}");
    assert!(!said.contains("its jobs wait until"), "the worker leaves what has ended: {said}");
}

/// A gateway that only watches protects nobody: the drill says so, and is red.
#[test]
fn a_gateway_that_only_observes_is_red() {
    let (world, real) = (World::new(), nobody());
    let gateway = Gateway::start(&world, &documented(&real, "  mode: observe\n"), &[]);
    let said = gateway.drill(&world, &["--row", "A6", "--row", "B2", "--shorten", "80", "--json"]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.err.contains("only observes"), "{}", said.err);
    let (verdict, seen) = of(&said, "A6");
    assert_eq!(verdict, "fail", "{seen}");
    assert!(seen.contains("the breaker did not open"), "{seen}");
}

/// A hold of the real dependency is not one of its shadows: that nothing protects it is said beside what they show.
#[test]
fn a_dependency_that_is_held_closed_is_warned_about() {
    let (world, real) = (World::new(), nobody());
    let gateway = Gateway::start(&world, &documented(&real, ""), &[]);
    exchange(gateway.address, "POST", "/circuits/document-ocr/hold", r#"{"state":"closed"}"#);
    let said = gateway.drill(&world, &["--row", "L2", "--json"]);
    assert!(said.err.contains("document-ocr is held closed"), "{}{}", said.out, said.err);
}

/// The wiring is broken from outside: whatever the breaker learns, somebody holds it closed.
#[test]
fn a_breaker_that_refuses_nobody_is_red() {
    let (world, real) = (World::new(), nobody());
    let gateway = Gateway::start(&world, &documented(&real, ""), &[]);
    let over = AtomicBool::new(false);
    let said = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut held = BTreeSet::new();
            while !over.load(Ordering::Relaxed) {
                for drill in gateway.ask("GET", "/drills", "")["drills"].as_array().unwrap() {
                    let name = drill["name"].as_str().unwrap().to_owned();
                    if held.insert(name.clone()) {
                        exchange(gateway.address, "POST", &format!("/circuits/{name}/hold"), r#"{"state":"closed"}"#);
                    }
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let said = gateway.drill(&world, &["--row", "A1", "--row", "A6", "--shorten", "80", "--json"]);
        over.store(true, Ordering::Relaxed);
        said
    });
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    for name in ["A1", "A6"] {
        let (verdict, seen) = of(&said, name);
        assert_eq!(verdict, "fail", "{seen}");
        assert!(seen.contains("the breaker did not open"), "{seen}");
    }
}

/// Between callers and gateway, or in it, answers lose the field by which callers are told what became of their call.
#[test]
fn answers_that_do_not_say_what_became_of_a_call_are_red() {
    let (world, real) = (World::new(), nobody());
    let gateway = Gateway::start(&world, &documented(&real, ""), &[]);
    let lossy = TcpListener::bind("127.0.0.1:0").unwrap();
    let (calls, to) = (format!("http://{}", lossy.local_addr().unwrap()), gateway.address);
    std::thread::spawn(move || {
        for caller in lossy.incoming().map_while(Result::ok) {
            std::thread::spawn(move || lose(caller, to));
        }
    });
    let said = gateway.drill(&world, &["--row", "B5", "--shorten", "80", "--json", "--calls-url", &calls]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    let (verdict, seen) = of(&said, "B5 one timeout");
    assert_eq!(verdict, "fail", "{seen}");
}

/// Passes one request and its answer on, without the fields that are ours.
fn lose(mut caller: TcpStream, to: SocketAddr) {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    while !request.windows(4).any(|window| window == b"\r\n\r\n") || !request.ends_with(b"}\n") {
        match caller.read(&mut piece) {
            Ok(read) if read > 0 => request.extend_from_slice(&piece[..read]),
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&request).replacen("\r\n", "\r\nconnection: close\r\n", 1);
    let Ok(mut gateway) = TcpStream::connect(to) else { return };
    let mut answer = Vec::new();
    if gateway.write_all(request.as_bytes()).is_ok() && gateway.read_to_end(&mut answer).is_ok() {
        let kept: Vec<String> = String::from_utf8_lossy(&answer)
            .split("\r\n")
            .filter(|line| !line.to_ascii_lowercase().starts_with("halfopen-"))
            .map(str::to_owned)
            .collect();
        let _ = caller.write_all(kept.join("\r\n").as_bytes());
    }
}

#[test]
fn a_scenario_of_ones_own_is_played_live_and_can_fail() {
    let (world, real) = (World::new(), nobody());
    let gateway = Gateway::start(&world, &documented(&real, ""), &[]);
    let scenario = |opens: u32| {
        format!(
            "row: Z1 month end\ninjected: 500 to all\nexpected: it opens\ndependency:\n- {{answer: server_error, takes: swift}}\n\
             - {{from: opened, answer: ok}}\ncalls:\n- {{name: batch, count: open_after_failures, every: apart}}\nexpect:\n\
             - opens: {{is: {opens}}}\n"
        )
    };
    world.write("good.yaml", &scenario(1));
    world.write("bad.yaml", &scenario(2));
    let played = |file: &str| {
        let xml = world.path("drill.xml");
        let words = ["--row", "Z1", "--scenario", file, "--shorten", "80", "--json", "--junit", xml.to_str().unwrap()];
        let said = gateway.drill(&world, &words);
        (said.code, of(&said, "Z1"), std::fs::read_to_string(&xml).unwrap())
    };
    let (code, (verdict, seen), xml) = played("good.yaml");
    assert_eq!((code, verdict.as_str()), (Some(0), "pass"), "{seen}");
    assert!(xml.contains("name=\"Z1 month end\"") && xml.contains("failures=\"0\""), "{xml}");
    // What is red in virtual time says nothing about the gateway.
    let (code, (verdict, _), _) = played("bad.yaml");
    assert_eq!((code, verdict.as_str()), (Some(1), "n/a"), "nothing was shown, and that is not green");
}

#[test]
fn what_cannot_be_drilled_says_what_to_do() {
    let (world, real) = (World::new(), nobody());
    let closed = nobody().local_addr().unwrap();
    let said = world.drill(&["--live", "--url", &format!("http://{closed}")]);
    assert_eq!(said.code, Some(74), "{}", said.err);
    assert!(said.err.contains("cannot be reached") && said.err.contains("halfopen serve"), "{}", said.err);
    for words in [
        &["--live", "--mutate"][..],
        &["--live", "--through", "x"],
        &["--shorten", "60"],
        &["--live", "--shorten", "0"],
    ] {
        assert_eq!(world.drill(words).code, Some(64), "{words:?}");
    }
    let token = world.command(&["token", "ops", "--file", "admins"]).output().unwrap();
    let token = String::from_utf8(token.stdout).unwrap();
    let gateway = Gateway::start(&world, &documented(&real, ""), &["--admin-token-file", "admins"]);
    let said = gateway.drill(&world, &["--row", "L2"]);
    assert_eq!(said.code, Some(77), "{}", said.err);
    assert!(said.err.contains("--token-file"), "{}", said.err);
    world.write("token", &token);
    let said = gateway.drill(&world, &["--row", "L2", "--token-file", "token"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let said = gateway.drill(&world, &["--row", "L2", "--token-file", "token", "--dep", "crm"]);
    assert_eq!(said.code, Some(64), "{}", said.err);
    assert!(said.err.contains("no dependency `crm`") && said.err.contains("document-ocr"), "{}", said.err);
    let said = gateway.drill(&world, &["--row", "L2", "--token-file", "token", "--policy", "policy.yaml"]);
    assert!(said.err.contains("--policy is not read"), "{}", said.err);
}

/// A gateway of an earlier version knows no drills; it is not taken for one that protects.
#[test]
fn a_gateway_that_is_too_old_is_told_from_none() {
    let old = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", old.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut caller in old.incoming().map_while(Result::ok) {
            let mut piece = [0; 4096];
            let _ = caller.read(&mut piece);
            let body = r#"{"type":"urn:halfopen:problem:not_found","title":"Nothing lies at this path","status":404,
                "detail":"Calls go to /d/DEPENDENCY/PATH; operators' paths are listed in /openapi.json."}"#;
            let head = format!("HTTP/1.1 404 Not Found\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = caller.write_all(format!("{head}{body}").as_bytes());
        }
    });
    let said = World::new().drill(&["--live", "--url", &url]);
    assert_eq!(said.code, Some(74), "{}", said.err);
    assert!(said.err.contains("too old to be drilled"), "{}", said.err);
}
