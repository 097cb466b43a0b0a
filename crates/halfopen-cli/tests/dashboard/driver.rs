//! A browser, driven over WebDriver: a client of the few verbs that the tests need.
//!
//! Chromium and chromedriver are those of the system (`apt-get install chromium chromium-driver`). A profile is new for each
//! browser and goes with it. A crate for WebDriver was considered; it brings an HTTP stack of its own for ten requests.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

use crate::client::Client;

/// How long a page may take to become what is waited for; a browser on a busy machine is slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// The key under which WebDriver names an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one tab.
#[derive(Debug)]
pub(crate) struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    /// Its profile; goes with it.
    _profile: tempfile::TempDir,
}

impl Browser {
    pub(crate) fn start() -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver is needed: apt-get install chromium chromium-driver");
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.unwrap();
            line.split_once("successfully on port ")?.1.trim_end_matches('.').parse::<u16>().ok()
        });
        // Whatever else it says is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.count());
        let profile = tempfile::tempdir().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port.expect("chromedriver says its port")));
        let mut browser = Self { driver, address, session: String::new(), _profile: profile };
        let flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
        ];
        let mut args: Vec<String> = flags.map(str::to_owned).into();
        args.push(format!("--user-data-dir={}", browser._profile.path().display()));
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "args": args },
        } } });
        let begun = browser.ask("POST", "/session", &wanted);
        browser.session = begun["sessionId"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned();
        browser
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let mut client = Client::connect(self.address);
        client.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let answer = client.call(method, path, &[("content-type", "application/json")], body.as_bytes());
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text());
        answer.json()["value"].clone()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("/session/{}{path}", self.session), body)
    }

    /// Sends a command of the browser's own protocol.
    pub(crate) fn command(&self, name: &str, params: Value) -> Value {
        self.post("/goog/cdp/execute", &json!({ "cmd": name, "params": params }))
    }

    /// Goes to a page.
    pub(crate) fn go(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// Returns what an expression of the page's script world is.
    pub(crate) fn says(&self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true });
        self.command("Runtime.evaluate", params)["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&self, what: &str, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.says(expression) != Value::Bool(true) {
            assert!(Instant::now() < deadline, "never: {what}\n{}", self.says("document.body.innerText"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until something is on the page.
    pub(crate) fn sees(&self, selector: &str) {
        self.until(selector, &format!("document.querySelector({}) !== null", json!(selector)));
    }

    fn element(&self, selector: &str) -> String {
        let found = self.post("/element", &json!({ "using": "css selector", "value": selector }));
        found[ELEMENT].as_str().unwrap_or_else(|| panic!("no {selector}: {found}")).to_owned()
    }

    /// Clicks as a person does: on something that can be seen.
    pub(crate) fn click(&self, selector: &str) {
        self.post(&format!("/element/{}/click", self.element(selector)), &json!({}));
    }

    /// Types into a field.
    pub(crate) fn write(&self, selector: &str, text: &str) {
        self.post(&format!("/element/{}/value", self.element(selector)), &json!({ "text": text }));
    }

    /// Presses a key where the focus is.
    pub(crate) fn press(&self, key: char) {
        let actions = json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        self.post("/actions", &json!({ "actions": [{ "type": "key", "id": "keys", "actions": actions }] }));
    }

    /// Shows pages so wide, and in that theme.
    pub(crate) fn looks(&self, width: u32, theme: &str) {
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.command("Emulation.setDeviceMetricsOverride", metrics);
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": theme }] });
        self.command("Emulation.setEmulatedMedia", media);
    }

    /// Lets pages run scripts, or not.
    pub(crate) fn scripts(&self, run: bool) {
        self.command("Emulation.setScriptExecutionDisabled", json!({ "value": !run }));
    }

    /// Takes a picture of the whole page; returns where it lies.
    pub(crate) fn picture(&self, name: &str) -> PathBuf {
        let taken = self.command("Page.captureScreenshot", json!({ "captureBeyondViewport": true }));
        let bytes = base64::engine::general_purpose::STANDARD.decode(taken["data"].as_str().unwrap()).unwrap();
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pictures");
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{name}.png"));
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Returns what the browser complained about since it was asked last: scripts that failed, files that were missing,
    /// what a policy forbade.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = self.post("/se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().cloned().unwrap_or_default();
        entries.iter().map(|entry| entry["message"].to_string()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.ask("DELETE", &format!("/session/{}", self.session), &Value::Null);
        } else if !self.session.is_empty() {
            // A second panic would hide the first; the session ends all the same.
            let end = format!("DELETE /session/{} HTTP/1.1\r\nhost: localhost\r\n\r\n", self.session);
            if let Ok(mut stream) = std::net::TcpStream::connect(self.address) {
                use std::io::{Read as _, Write as _};
                let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
                let _ = stream.write_all(end.as_bytes()).and_then(|()| stream.read(&mut [0; 1]));
            }
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
