//! The gateway is killed at random moments under load, again and again.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;

use crate::ledger::{audited, invoices, queueing};
use crate::stub::{Reply, Stub};
use crate::world::{Starting, gateway, until};

/// Sends an invoice and returns its job, if that was acknowledged before the gateway went away.
fn acknowledged(address: SocketAddr, invoice: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let body = format!("{{\"invoice\":\"{invoice}\"}}");
    let request = format!(
        "POST /d/up/invoices HTTP/1.1\r\nhost: x\r\nprefer: respond-async\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    if !head.starts_with("HTTP/1.1 202") {
        return None;
    }
    let told: serde_json::Value = serde_json::from_str(body).ok()?;
    told["id"].as_str().map(str::to_owned)
}

/// Nothing that was acknowledged is lost, nothing is executed twice, and what may have been waits for a person.
#[test]
fn kills_at_random_moments_lose_nothing_and_double_nothing() {
    const ROUNDS: usize = 8;
    let stub = Stub::start();
    stub.always(Reply::new().wait(Duration::from_millis(15)).and_full(200, &[], b"{}"));
    let keys = queueing("lease_sec: 1\nretry: { max_attempts: 20, base_ms: 10 }\ndrain: { max_in_flight: 4 }");
    let mut gateway = gateway(&stub, &keys);
    let mut accepted = BTreeSet::new();
    for round in 0..ROUNDS {
        let (address, over) = (gateway.address, AtomicBool::new(false));
        let again = Starting::beside(&gateway);
        std::thread::scope(|scope| {
            let senders: Vec<_> = (0..3)
                .map(|sender| {
                    let over = &over;
                    scope.spawn(move || {
                        let mut ids = Vec::new();
                        for n in 0.. {
                            if over.load(Ordering::Relaxed) {
                                return ids;
                            }
                            ids.extend(acknowledged(address, &format!("{round}-{sender}-{n}")));
                        }
                        ids
                    })
                })
                .collect();
            // Not a wait for anything: the moment is what is tried.
            std::thread::sleep(Duration::from_millis(100 + fastrand::u64(0..400)));
            gateway.signal(Signal::KILL);
            gateway.ended();
            over.store(true, Ordering::Relaxed);
            for sender in senders {
                accepted.extend(sender.join().unwrap());
            }
        });
        gateway = again.start();
    }
    assert!(accepted.len() > 20, "{}", accepted.len());
    let open = |state: &str| {
        let page = gateway.ask("GET", &format!("/jobs?state={state}&limit=1"), &[], "").json();
        !page["jobs"].as_array().unwrap().is_empty()
    };
    until("nothing is queued or running", || !open("queued") && !open("running"));
    let mut states = std::collections::BTreeMap::<String, usize>::new();
    for id in &accepted {
        let shown = crate::ledger::job(&gateway, id);
        *states.entry(crate::ledger::word(&shown["state"])).or_default() += 1;
        assert!(shown["state"] == "done" || shown["reason"] == "worker_died", "{shown}");
    }
    let twice: Vec<_> = invoices(&stub).into_iter().filter(|(_, times)| *times > 1).collect();
    assert!(twice.is_empty(), "{twice:?} of {states:?}");
    let report = audited(&gateway);
    assert!(report.jobs >= accepted.len() as u64, "{} of {}", report.jobs, accepted.len());
}
