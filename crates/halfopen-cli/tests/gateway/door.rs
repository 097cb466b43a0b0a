//! Callers that come in numbers, and sockets that were left behind.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::client::request;
use crate::stub::Stub;
use crate::world::{Starting, command, gateway, policy, until};

/// More callers than descriptors wait their turn, and no circuit hears of it.
#[test]
fn more_callers_than_files_wait_their_turn() {
    let stub = Stub::start();
    let keys = "circuit: { open_after_failures: 1, open_for_sec: 60 }";
    let gateway = Starting::new(&policy(&stub.url(), keys)).files_max(110).start();
    std::thread::scope(|scope| {
        for _ in 0..120 {
            scope.spawn(|| assert_eq!(gateway.get("/d/up/x").status, 200));
        }
    });
    assert_eq!(stub.seen().len(), 120);
    assert_eq!(gateway.state("up"), "closed");
}

/// Callers that connect and say nothing do not keep others out while there is room.
#[test]
fn silent_callers_do_not_stand_in_the_way() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let silent: Vec<_> = (0..100)
        .map(|n| {
            let mut client = gateway.connect();
            if n % 2 == 0 {
                client.send("GET /d/up/x HTTP/1.1\r\nHost: ");
            }
            client
        })
        .collect();
    assert_eq!(gateway.get("/d/up/x").status, 200);
    drop(silent);
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn on_socket(home: &Path, socket: &Path) -> Ended {
    let words = ["serve", "--policy", "policy.yaml", "--listen", &format!("unix:{}", socket.display())];
    let child = command(home, &words.map(str::to_owned)).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Ended(child.expect("halfopen starts"))
}

fn get(socket: &Path) -> Option<String> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.write_all(&request("GET", "/d/up/x", &[("connection", "close")], b"")).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

#[test]
fn a_socket_that_was_left_behind_is_replaced_and_another_is_not() {
    let stub = Stub::start();
    let home = tempfile::tempdir().expect("a folder");
    std::fs::write(home.path().join("policy.yaml"), policy(&stub.url(), "")).expect("a policy");
    let socket = home.path().join("gateway.sock");
    let answers = || get(&socket).is_some_and(|text| text.starts_with("HTTP/1.1 200"));

    // Killed, so that it cannot take its socket away.
    let first = on_socket(home.path(), &socket);
    until("the first answers", answers);
    drop(first);
    assert!(socket.exists() && !answers());
    let second = on_socket(home.path(), &socket);
    until("the second answers", answers);

    // Somebody listens: a third must not take it over.
    let mut third = on_socket(home.path(), &socket);
    let status = third.0.wait().expect("it ends");
    assert_eq!(status.code(), Some(74));
    assert!(answers());
    drop(second);

    // What is no socket is not ours to remove.
    let file = home.path().join("file");
    std::fs::write(&file, "mine").expect("a file");
    let mut fourth = on_socket(home.path(), &file);
    assert_eq!(fourth.0.wait().expect("it ends").code(), Some(74));
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), "mine");
}
