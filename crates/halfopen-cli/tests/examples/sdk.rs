//! The official SDKs, unchanged, through the gateway to a dependency that speaks as their API does.
//!
//! Between the SDK and the gateway stands a relay that counts requests: how often an SDK tries is what several of these
//! promises are about, and neither end can see it (the gateway would count its own mistake along).

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use test_case::test_case;

use crate::stub::{Reply, Stub};
use crate::{command, python_with, root, texts};

/// How long an example may take; none waits for more than a second of the dependency's.
const PATIENCE: Duration = Duration::from_secs(150);

/// The header in which both SDKs send their key; that of Anthropic had another in its first major version.
const KEY_HEADER: &str = "authorization: Bearer sk-of-a-test";

/// An SDK and its example.
#[derive(Clone, Copy)]
struct Sdk {
    /// The dependency's name in the policy, and the package's.
    name: &'static str,
    key_variable: &'static str,
    /// The request line that reaches the dependency.
    asks: &'static str,
}

const OPENAI: Sdk = Sdk { name: "openai", key_variable: "OPENAI_API_KEY", asks: "POST /v1/chat/completions HTTP/1.1" };

const ANTHROPIC: Sdk = Sdk { name: "anthropic", key_variable: "ANTHROPIC_API_KEY", asks: "POST /v1/messages HTTP/1.1" };

/// A dependency, the gateway in front of it, and the relay in front of that.
struct World {
    home: tempfile::TempDir,
    stub: Stub,
    gateway: Child,
    relay: Relay,
}

impl World {
    /// Starts all three; the dependency gives these replies first.
    fn start(replies: &[Reply]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let stub = Stub::start(replies);
        let mut gateway = command(env!("CARGO_BIN_EXE_halfopen"), home.path())
            .args(["serve", "--listen", "127.0.0.1:0", "--policy"])
            .arg(root().join("examples/serve.yaml"))
            .args(["--upstream", &format!("openai=http://{}", stub.address)])
            .args(["--upstream", &format!("anthropic=http://{}", stub.address)])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(gateway.stderr.take().unwrap()).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.split_once("serving http://")?.1.split_once('/')?.0.parse().ok())
            .expect("the gateway says where it serves");
        // A gateway whose stderr nobody reads would stop at a full pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self { home, stub, gateway, relay: Relay::start(address) }
    }

    /// Runs the SDK's example to its end. An SDK that sleeps out a long `Retry-After` is ended and fails the test.
    fn run(&self, sdk: Sdk) -> Output {
        let python = python_with(sdk.name, &root().join(format!("examples/requirements-{}.txt", sdk.name)));
        let mut running = command(python, self.home.path())
            .arg(root().join(format!("examples/{}_sdk.py", sdk.name)))
            .env("HALFOPEN_URL", format!("http://{}", self.relay.address))
            .env(sdk.key_variable, "sk-of-a-test")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let begin = Instant::now();
        while running.try_wait().unwrap().is_none() {
            if begin.elapsed() > PATIENCE {
                running.kill().unwrap();
                panic!("the SDK does not return\n{}", texts(&running.wait_with_output().unwrap()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        running.wait_with_output().unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.gateway.kill();
        let _ = self.gateway.wait();
    }
}

/// Passes bytes on to the gateway and keeps what callers sent.
struct Relay {
    address: SocketAddr,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Relay {
    fn start(gateway: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sent: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let kept = Arc::clone(&sent);
        std::thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                let Ok(there) = TcpStream::connect(gateway) else { continue };
                let (Ok(mut back), Ok(mut from)) = (caller.try_clone(), there.try_clone()) else { continue };
                let connection = {
                    let mut kept = kept.lock().unwrap();
                    kept.push(Vec::new());
                    kept.len() - 1
                };
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || {
                    let _ = pass(caller, &there, |bytes| kept.lock().unwrap()[connection].extend_from_slice(bytes));
                    let _ = there.shutdown(Shutdown::Write);
                });
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut back);
                    let _ = back.shutdown(Shutdown::Both);
                });
            }
        });
        Self { address, sent }
    }

    /// Returns how many requests callers have sent.
    fn requests(&self) -> usize {
        let sent = self.sent.lock().unwrap();
        sent.iter().map(|bytes| String::from_utf8_lossy(bytes).matches("POST /d/").count()).sum()
    }
}

fn pass(mut from: TcpStream, mut to: &TcpStream, mut keep: impl FnMut(&[u8])) -> std::io::Result<()> {
    let mut buffer = [0; 8192];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            length => {
                keep(&buffer[..length]);
                to.write_all(&buffer[..length])?;
            }
        }
    }
}

#[test_case(OPENAI; "openai")]
#[test_case(ANTHROPIC; "anthropic")]
fn an_sdk_gets_whole_and_streamed_answers_with_only_its_base_url_changed(sdk: Sdk) {
    let world = World::start(&[]);
    let output = world.run(sdk);
    let said = texts(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Hello, whole.\nHello, streamed.\n", "{said}");
    let seen = world.stub.seen();
    assert_eq!(seen.iter().map(|seen| seen.line.as_str()).collect::<Vec<_>>(), [sdk.asks, sdk.asks]);
    for seen in seen {
        assert!(seen.headers.iter().any(|header| header == KEY_HEADER), "the key is passed on: {:?}", seen.headers);
        let host = format!("host: {}", world.stub.address);
        assert!(seen.headers.contains(&host), "the dependency is asked by its own name: {:?}", seen.headers);
    }
}

#[test_case(OPENAI; "openai")]
#[test_case(ANTHROPIC; "anthropic")]
fn a_rate_limit_is_waited_out_by_the_gateway_and_not_seen_by_the_sdk(sdk: Sdk) {
    let world = World::start(&[Reply::RateLimited { retry_after: 1 }]);
    let output = world.run(sdk);
    let said = texts(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Hello, whole.\nHello, streamed.\n", "{said}");
    assert_eq!(world.relay.requests(), 2, "one request for each answer");
    assert_eq!(world.stub.seen().len(), 3, "and one more attempt behind the gateway");
}

/// Without `x-should-retry: false` both SDKs would take the 503 for a hiccup, sleep out its `Retry-After` and come again.
#[test_case(OPENAI; "openai")]
#[test_case(ANTHROPIC; "anthropic")]
fn an_open_circuit_is_one_exception_after_one_attempt_that_says_when_to_come_back(sdk: Sdk) {
    let world = World::start(&[]);
    let hold = ["hold", sdk.name, "open", "--for", "110s", "--reason", "maintenance"];
    let output = command(env!("CARGO_BIN_EXE_halfopen"), world.home.path()).args(hold).output().unwrap();
    assert!(output.status.success(), "{}", texts(&output));
    let output = world.run(sdk);
    let said = texts(&output);
    assert_eq!(output.status.code(), Some(75), "{said}");
    let told = String::from_utf8_lossy(&output.stderr);
    let at = told.trim_end().rsplit_once("again at ").unwrap_or_else(|| panic!("{said}")).1;
    assert!(at.len() >= 20 && at.ends_with('Z') && at.contains('T'), "an instant, to the letter of RFC 3339: {said}");
    assert_eq!(world.relay.requests(), 1, "the SDK asked once");
    assert_eq!(world.stub.seen().len(), 0, "the dependency was left alone");
}

/// The dependency's wait is longer than anyone sleeps. Its own answer is the first caller's, its circuit opens, and the
/// next caller is told the hour at once. Left alone, the Anthropic SDK would sleep out the hour within the call.
#[test_case(OPENAI; "openai")]
#[test_case(ANTHROPIC; "anthropic")]
fn a_limit_of_an_hour_opens_the_circuit_for_everyone(sdk: Sdk) {
    let world = World::start(&[Reply::RateLimited { retry_after: 3600 }]);
    let first = world.run(sdk);
    assert_eq!(first.status.code(), Some(1), "{}", texts(&first));
    assert!(texts(&first).contains("429"), "{}", texts(&first));
    assert_eq!(world.relay.requests(), 1, "the SDK asked once");
    let second = world.run(sdk);
    assert_eq!(second.status.code(), Some(75), "{}", texts(&second));
    assert!(texts(&second).contains("again at "), "{}", texts(&second));
    assert_eq!(world.relay.requests(), 2, "and once again");
    assert_eq!(world.stub.seen().len(), 1, "nothing is sent to it before its time");
}

#[test_case(OPENAI; "openai")]
#[test_case(ANTHROPIC; "anthropic")]
fn an_error_in_the_middle_of_a_stream_reaches_the_program(sdk: Sdk) {
    let world = World::start(&[Reply::Good, Reply::ErrorInStream]);
    let output = world.run(sdk);
    let said = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.to_lowercase().contains("overloaded"), "{said}");
    assert_eq!(world.stub.seen().len(), 2, "what has begun to arrive is not asked for again");
}
