//! `--url`: the commands ask a running gateway instead of opening the store, and say the same.

use crate::stub::Stub;
use crate::world::{Gateway, Starting, command, gateway, policy};

/// Runs a command in an empty home, so that only the gateway can know anything.
fn elsewhere(words: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let home = tempfile::tempdir().unwrap();
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let output = command(home.path(), &words).envs(variables.iter().copied()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn url(gateway: &Gateway) -> String {
    format!("http://{}", gateway.address)
}

#[test]
fn what_a_gateway_tells_is_what_the_store_tells() {
    // Where a policy leaves a key out, a gateway and a command have defaults of their own.
    let keys = "circuit: { half_open_max_calls: 2, close_after_successes: 2, failure_window_sec: 60 }";
    let gateway = gateway(&Stub::start(), keys);
    gateway.failures("up@region=eu", 5);
    gateway.failures("crm", 1);
    let url = url(&gateway);
    let words: [&[&str]; 3] = [&["status"], &["why", "up@region=eu"], &["events", "--all"]];
    for words in words {
        let mut at = words.to_vec();
        at.extend(["--url", &url]);
        let (code, out, err) = elsewhere(&at, &[]);
        assert_eq!(code, Some(0), "{err}");
        // Remaining times are read at different instants; the words and figures around them are the same.
        let same = |text: &str| {
            text.split_whitespace()
                .filter(|word| !word.contains(['.', ':']) && word.parse::<u32>().is_err())
                .collect::<Vec<_>>()
                .join(" ")
        };
        let mut local = words.to_vec();
        local.extend(["--policy", "policy.yaml"]);
        let said = gateway.halfopen(&local);
        for line in out.lines() {
            assert!(same(&said).contains(&same(line)), "{line}\nnot in\n{said}");
        }
        at.push("--json");
        let (code, out, err) = elsewhere(&at, &[]);
        assert_eq!(code, Some(0), "{err}");
        let list: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert!(!list.as_array().unwrap().is_empty());
    }
    // Byte for byte, where no instant is printed that is read anew.
    let (_, asked, _) = elsewhere(&["status", "--json", "--url", &url], &[]);
    let printed = gateway.halfopen(&["status", "--json", "--policy", "policy.yaml"]);
    let without = |text: &str| text.lines().filter(|line| !line.contains("_until")).collect::<Vec<_>>().join("\n");
    assert_eq!(without(&asked), without(&printed));
}

#[test]
fn a_gateway_is_steered_from_elsewhere() {
    let gateway = gateway(&Stub::start(), "");
    gateway.failures("up", 5);
    let url = url(&gateway);
    let at = |words: &[&str]| {
        let (code, out, err) = elsewhere(words, &[("HALFOPEN_URL", &url)]);
        assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
        err
    };
    let said = at(&["hold", "up", "open", "--for", "2h", "--reason", "maintenance"]);
    assert!(said.contains("up is held open until ") && said.contains("(in 2 h)"), "{said}");
    let said = at(&["release", "up", "--probe-now"]);
    assert!(said.contains("up is no longer held; its next call is a probe"), "{said}");
    let said = at(&["reset", "up"]);
    assert!(said.contains("up is closed and has forgotten its failures (it was half-open)"), "{said}");
    assert_eq!(gateway.state("up"), "closed");
}

#[test]
fn what_goes_wrong_is_told_apart() {
    let stub = Stub::start();
    let starting = Starting::new(&policy(&stub.url(), ""));
    let token = starting.token("marie", "ops.tokens");
    let gateway = starting.word("--admin-token-file").word("ops.tokens").start();
    let url = url(&gateway);
    let (code, _, err) = elsewhere(&["hold", "up", "open", "--url", &url], &[]);
    assert_eq!(code, Some(77), "{err}");
    assert!(err.contains("401") && err.contains("hint: name the operator's token"), "{err}");
    let (code, _, err) = elsewhere(&["hold", "up", "open", "--url", &url], &[("HALFOPEN_TOKEN", &token)]);
    assert_eq!(code, Some(0), "{err}");
    let (code, _, err) = elsewhere(&["why", "pu", "--url", &url], &[]);
    assert_eq!(code, Some(64), "{err}");
    assert!(err.contains("No circuit is named `pu`") && err.contains("known are up"), "{err}");
    let (code, _, err) = elsewhere(&["status", "--url", &format!("http://{}", stub.address)], &[]);
    assert_eq!(code, Some(74), "{err}");
    assert!(
        err.contains("is no gateway") || err.contains("not understood") || err.contains("cannot be reached"),
        "{err}"
    );
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, _, err) = elsewhere(&["status", "--url", &format!("http://{free}")], &[]);
    assert_eq!(code, Some(74), "{err}");
    assert!(err.contains("cannot be reached") && err.contains("hint: "), "{err}");
    let (code, _, err) = elsewhere(&["status", "--url", "https://example.com"], &[]);
    assert_eq!(code, Some(64), "{err}");
}
