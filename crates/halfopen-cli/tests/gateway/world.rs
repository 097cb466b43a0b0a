//! A gateway of its own for each test, with a home, a policy, and a stub behind it.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::{Answer, Client};
use crate::stub::{PATIENCE, Stub};

/// A running gateway; it is ended when it is dropped.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    home: Arc<tempfile::TempDir>,
    child: Child,
    said: Arc<(Mutex<String>, Condvar)>,
}

/// Starts a gateway with one dependency, `up`, at `stub`; `keys` are lines of its policy.
pub(crate) fn gateway(stub: &Stub, keys: &str) -> Gateway {
    gateway_at(&stub.url(), keys)
}

pub(crate) fn gateway_at(url: &str, keys: &str) -> Gateway {
    Starting::new(&policy(url, keys)).start()
}

/// Returns a policy with one dependency, `up`; what `keys` does not say is quick and makes one attempt.
pub(crate) fn policy(url: &str, keys: &str) -> String {
    let mut text = format!("dependencies:\n  - name: up\n    upstream: {url}\n");
    let has = |key: &str| keys.lines().any(|line| line.trim_start().starts_with(key));
    for (key, line) in [
        ("timeout_ms:", "timeout_ms: 5000"),
        ("retry:", "retry: { max_attempts: 1 }"),
        ("profile:", "profile: generic"),
        ("on_open:", "on_open: { action: fail_fast }"),
    ] {
        if !has(key) {
            text.push_str(&format!("    {line}\n"));
        }
    }
    for line in keys.lines().filter(|line| !line.trim().is_empty()) {
        text.push_str(&format!("    {line}\n"));
    }
    text
}

/// A gateway that is about to be started.
#[derive(Debug)]
pub(crate) struct Starting {
    home: Arc<tempfile::TempDir>,
    words: Vec<String>,
    variables: Vec<(String, String)>,
    files_max: Option<u32>,
    /// Whether a write beyond a limit on files fails instead of killing.
    outlives: bool,
}

impl Starting {
    pub(crate) fn new(policy: &str) -> Self {
        let home = Arc::new(tempfile::tempdir().unwrap());
        std::fs::write(home.path().join("policy.yaml"), policy).unwrap();
        let words = ["serve", "--policy", "policy.yaml", "--listen", "127.0.0.1:0"];
        Self { home, words: words.map(str::to_owned).into(), variables: Vec::new(), files_max: None, outlives: false }
    }

    /// One more gateway in the home of another: with its policy, on its store.
    pub(crate) fn beside(gateway: &Gateway) -> Self {
        let words = ["serve", "--policy", "policy.yaml", "--listen", "127.0.0.1:0"];
        let words = words.map(str::to_owned).into();
        Self { home: Arc::clone(&gateway.home), words, variables: Vec::new(), files_max: None, outlives: false }
    }

    pub(crate) fn word(mut self, word: &str) -> Self {
        self.words.push(word.to_owned());
        self
    }

    /// Listens elsewhere than at any port of the loopback.
    pub(crate) fn listen(mut self, address: &str) -> Self {
        if let Some(word) = self.words.iter_mut().find(|word| *word == "127.0.0.1:0") {
            *word = address.to_owned();
        }
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Makes a token in a file of tokens, and returns it.
    pub(crate) fn token(&self, name: &str, file: &str) -> String {
        let words = ["token", name, "--file", file].map(str::to_owned);
        let output = command(self.home.path(), &words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Starts a gateway that does not serve; returns its exit code and what it said.
    pub(crate) fn fails(self) -> (Option<i32>, String) {
        let output = command(self.home.path(), &self.words).envs(self.variables).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes a file into its home and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    }

    /// Lets it have no more files open at once than this, half of it until it asks for more.
    pub(crate) fn files_max(mut self, files: u32) -> Self {
        self.files_max = Some(files);
        self
    }

    /// Lets a write beyond a limit on the length of files fail instead of killing it.
    pub(crate) fn outlives_file_limits(mut self) -> Self {
        self.outlives = true;
        self
    }

    pub(crate) fn start(self) -> Gateway {
        let mut command = command(self.home.path(), &self.words);
        if self.outlives || self.files_max.is_some() {
            let mut limited = Command::new("sh");
            let mut script = String::new();
            if let Some(files) = self.files_max {
                script.push_str(&format!("ulimit -S -n {}; ulimit -H -n {files}; ", files / 2));
            }
            if self.outlives {
                script.push_str("trap '' XFSZ; ");
            }
            script.push_str("exec \"$@\"");
            limited.args(["-c", &script, "sh"]).arg(command.get_program()).args(command.get_args());
            limited.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            limited.current_dir(self.home.path()).stdin(Stdio::null());
            command = limited;
        }
        let mut child = command.envs(self.variables).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new((Mutex::new(String::new()), Condvar::new()));
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let hears = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let (text, changed) = &*hears;
                text.lock().unwrap().push_str(&format!("{line}\n"));
                changed.notify_all();
            }
            hears.0.lock().unwrap().push_str("(end)\n");
            hears.1.notify_all();
        });
        let (text, changed) = &*said;
        let text = text.lock().unwrap();
        let (text, _) = changed
            .wait_timeout_while(text, PATIENCE, |text| !text.contains("/d/NAME for ") && !text.contains("(end)"))
            .unwrap();
        let address = match text.split_once("serving http://") {
            Some((_, rest)) => rest.split_once('/').and_then(|(address, _)| address.parse().ok()),
            // A socket in the file system has none.
            None => text.contains("serving unix:").then(|| SocketAddr::from(([127, 0, 0, 1], 0))),
        };
        let address = address.unwrap_or_else(|| panic!("no address: {text}"));
        drop(text);
        Gateway { address, home: self.home, child, said }
    }
}

/// Returns a command of ours in a cleared environment.
pub(crate) fn command(home: &std::path::Path, words: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_halfopen"));
    command.args(words).env_clear().env("HOME", home).env("TZ", "UTC").current_dir(home).stdin(Stdio::null());
    command
}

impl Gateway {
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Makes one call on a connection of its own.
    pub(crate) fn call(&self, method: &str, target: &str, fields: &[(&str, &str)], body: &[u8]) -> Answer {
        self.connect().call(method, target, fields, body)
    }

    pub(crate) fn get(&self, target: &str) -> Answer {
        self.call("GET", target, &[], b"")
    }

    pub(crate) fn post(&self, target: &str, body: &str) -> Answer {
        self.call("POST", target, &[("content-type", "application/json")], body.as_bytes())
    }

    /// Returns where the operators' own listener is.
    pub(crate) fn operators(&self) -> SocketAddr {
        let said = self.said();
        let address = said.split_once("operators at http://").and_then(|(_, rest)| rest.split_whitespace().next());
        address.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("no operators: {said}"))
    }

    /// Asks as an operator on this machine does: under the address that is listened on.
    pub(crate) fn ask(&self, method: &str, target: &str, fields: &[(&str, &str)], body: &str) -> Answer {
        let host = self.address.to_string();
        let mut all = vec![("host", host.as_str())];
        if !body.is_empty() && !fields.iter().any(|(name, _)| *name == "content-type") {
            all.push(("content-type", "application/json"));
        }
        all.extend(fields);
        self.call(method, target, &all, body.as_bytes())
    }

    /// Opens the gateway's store as another process does.
    pub(crate) fn store(&self) -> halfopen::handle::Handle {
        let file = self.path(".local/state/halfopen/halfopen.db");
        halfopen::handle::Handle::open(&halfopen::store::Location::Sqlite(file)).unwrap()
    }

    /// Lets calls of another process to a circuit fail.
    pub(crate) fn failures(&self, circuit: &str, times: u32) {
        use halfopen_core::{outcome::Reached, pair::Answer, permit::Ask, policy::Surface, verdict::*};
        let handle = self.store();
        let route = halfopen::handle::Route { place: circuit.parse().unwrap(), account: None };
        let config = halfopen::config::Config::load(&self.path("policy.yaml"), Surface::Serve).unwrap().0;
        let policy = config.dependency(route.place.dependency(), Surface::Serve).policy;
        for _ in 0..times {
            let Answer::Granted(pass) = handle.admit(&route, &policy, Ask::Fresh) else { panic!("refused") };
            let verdict = Verdict::plain(Class::ServerError, "test/rule", Reached::Answered);
            handle.settle(&route, &policy, pass, &verdict);
        }
    }

    /// Runs another command of ours on the same store and policy.
    pub(crate) fn halfopen(&self, words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let output = command(self.home.path(), &words).output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    }

    /// Returns the state of a circuit as the command line sees it; `closed` if there is no record.
    pub(crate) fn state(&self, circuit: &str) -> String {
        let output = self.halfopen(&["status", "--json", "--policy", "policy.yaml"]);
        let list: serde_json::Value = serde_json::from_str(&output).unwrap_or_else(|_| panic!("{output}"));
        let found = list.as_array().unwrap().iter().find(|entry| entry["circuit"] == circuit);
        found.map_or_else(|| "closed".to_owned(), |entry| entry["state"].as_str().unwrap().to_owned())
    }

    /// Waits until a circuit is in a state.
    pub(crate) fn becomes(&self, circuit: &str, state: &str) {
        until(&format!("{circuit} is {state}"), || self.state(circuit) == state);
    }

    /// Returns where a file of its home is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Limits the length of the files it writes, in bytes, from now on.
    pub(crate) fn limit_files(&self, bytes: Option<u64>) {
        use rustix::process::{Resource, Rlimit, prlimit};
        let pid = Pid::from_child(&self.child);
        prlimit(Some(pid), Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
    }

    /// Waits until it has ended.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        until("the gateway ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Returns what it has written to stderr.
    pub(crate) fn said(&self) -> String {
        self.said.0.lock().unwrap().clone()
    }

    /// Returns a line of its memory figures, in KiB.
    pub(crate) fn memory(&self, line: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let figure = text.lines().find_map(|found| found.strip_prefix(line)).unwrap();
        figure.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Returns every file below its home, read as bytes.
    pub(crate) fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut folders = vec![self.home.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Ok(bytes) = std::fs::read(&path) {
                    found.push((path, bytes));
                }
            }
        }
        found
    }
}

#[expect(clippy::print_stderr, reason = "shown where a test failed, and nowhere else")]
impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the gateway said:\n{}", self.said());
        }
    }
}

/// Polls until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
