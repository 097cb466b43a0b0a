//! What a service manager hears, on a real datagram socket.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::Signal;

use crate::stub::Stub;
use crate::world::{Gateway, Starting, policy, until};

/// A service manager that listens.
struct Manager {
    socket: UnixDatagram,
    heard: Vec<String>,
}

impl Manager {
    fn start(starting: Starting, watchdog: Option<Duration>) -> (Self, Gateway) {
        let path = starting.path("notify.sock");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut starting = starting.variable("NOTIFY_SOCKET", path.to_str().unwrap());
        if let Some(within) = watchdog {
            starting = starting.variable("WATCHDOG_USEC", &within.as_micros().to_string());
        }
        (Self { socket, heard: Vec::new() }, starting.start())
    }

    /// Waits until a message has all these lines; returns which it was.
    fn hears(&mut self, lines: &[&str]) -> String {
        let mut found = None;
        until(&format!("{lines:?} is heard"), || {
            let mut bytes = [0; 4096];
            if let Ok(length) = self.socket.recv(&mut bytes) {
                self.heard.push(String::from_utf8(bytes[..length].to_vec()).unwrap());
            }
            found = self
                .heard
                .iter()
                .position(|message| lines.iter().all(|line| message.lines().any(|known| known.starts_with(line))));
            found.is_some()
        });
        self.heard.remove(found.unwrap())
    }
}

/// Ready is said when calls are answered; reloading with its time, and ready again; stopping when the end begins.
#[test]
fn a_service_manager_hears_of_beginning_reload_and_end() {
    let (mut manager, mut gateway) = Manager::start(Starting::new(&policy(&Stub::start().url(), "")), None);
    manager.hears(&["READY=1"]);
    assert_eq!(gateway.get("/readyz").status, 200);
    manager.hears(&["STATUS=1 dependency, all closed"]);
    gateway.failures("up", 5);
    manager.hears(&["STATUS=1 dependency, up open"]);
    gateway.signal(Signal::HUP);
    manager.hears(&["RELOADING=1", "MONOTONIC_USEC="]);
    manager.hears(&["READY=1"]);
    gateway.signal(Signal::TERM);
    manager.hears(&["STOPPING=1", "STATUS=finishing"]);
    assert_eq!(gateway.ended().code(), Some(0));
    assert!(manager.heard.iter().all(|message| !message.contains("WATCHDOG")), "nobody asked for it");
}

/// The watchdog is fed while the beat goes on, and not while the process stands still.
#[test]
fn the_watchdog_is_fed_while_the_gateway_lives() {
    let starting = Starting::new(&policy(&Stub::start().url(), ""));
    let (mut manager, gateway) = Manager::start(starting, Some(Duration::from_secs(3)));
    for _ in 0..3 {
        manager.hears(&["WATCHDOG=1"]);
    }
    drop(gateway);
}
