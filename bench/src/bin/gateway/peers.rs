//! What is compared, how each is started, and where its door is.
//!
//! Every one gets one worker, the same dependency and connections that are kept. A peer is left out only if its program
//! is not installed, and then the report says which package has it. Of the gateways that no Debian package has, a user
//! names the command (`--peer`); their settings are too much their own to guess.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::load::ask;
use crate::process::Running;

/// The core of wrk, of the stream reader and of the dependency.
pub(crate) const CALLERS_CORE: usize = 0;
/// The core that the measured gateway has for itself.
pub(crate) const GATEWAY_CORE: usize = 1;

/// How long a gateway may take to its first answer.
const START_DEADLINE: Duration = Duration::from_secs(30);

/// Where the programs and the settings of one run are.
#[derive(Debug)]
pub(crate) struct World {
    /// Scratch files, gone at the end.
    pub(crate) folder: PathBuf,
    /// The folder of halfopen and of the bench's own programs.
    pub(crate) programs: PathBuf,
    /// The port of the dependency.
    pub(crate) dependency: u16,
}

/// One of the compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// No gateway: the callers speak to the dependency, on their own core. What latencies are compared with.
    Direct,
    /// No gateway: the bare hyper server on the gateway's core. The floor for an answer of one's own.
    Server,
    /// The bare proxy with a pool of its own.
    HyperPool,
    /// The bare proxy with the pooled client of hyper-util.
    Hyper,
    /// HAProxy.
    Haproxy,
    /// nginx.
    Nginx,
    /// Caddy.
    Caddy,
    /// halfopen itself.
    Halfopen,
    /// A gateway that the user names: `{port}` and `{dependency}` in its command are replaced by ports.
    Named {
        /// Its name in the tables.
        name: String,
        /// Its command, split at blanks.
        command: String,
    },
}

/// A peer that runs, and what its start cost.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) running: Running,
    pub(crate) port: u16,
    pub(crate) first_answer: Duration,
}

impl Peer {
    /// Returns those that are always compared, in the order of the tables.
    pub(crate) fn all() -> Vec<Self> {
        use Peer::{Caddy, Direct, Halfopen, Haproxy, Hyper, HyperPool, Nginx, Server};
        vec![Direct, Server, HyperPool, Hyper, Haproxy, Nginx, Caddy, Halfopen]
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Direct => "direct",
            Self::Server => "hyper-server",
            Self::HyperPool => "hyper-pool",
            Self::Hyper => "hyper",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
            Self::Caddy => "caddy",
            Self::Halfopen => "halfopen",
            Self::Named { name, .. } => name,
        }
    }

    /// Returns the Debian package and the program in it, of a peer that comes from there.
    pub(crate) fn package(&self) -> Option<&'static str> {
        match self {
            Self::Haproxy => Some("haproxy"),
            Self::Nginx => Some("nginx"),
            Self::Caddy => Some("caddy"),
            Self::Direct | Self::Server | Self::HyperPool | Self::Hyper | Self::Halfopen | Self::Named { .. } => None,
        }
    }

    /// Returns what stands before the dependency's own path in the URL.
    pub(crate) fn prefix(&self) -> &'static str {
        if *self == Self::Halfopen { "/d/stub" } else { "" }
    }

    /// Starts the peer and waits for its first good answer.
    pub(crate) fn start(&self, world: &World, repetition: usize) -> Result<Started> {
        let port = free_port()?;
        let folder = world.folder.join(format!("{repetition}-{}", self.name()));
        std::fs::create_dir_all(&folder)?;
        let words = self.command(world, &folder, port)?;
        let begin = Instant::now();
        let mut running = Running::start(GATEWAY_CORE, &words, &folder, folder.join("log"))?;
        let path = format!("{}/v1/chat/completions", self.prefix());
        loop {
            let answer = ask(port, &path);
            if matches!(&answer, Ok(head) if head.starts_with("HTTP/1.1 200")) {
                return Ok(Started { running, port, first_answer: begin.elapsed() });
            }
            if running.has_ended() || begin.elapsed() > START_DEADLINE {
                let answer = answer.unwrap_or_else(|error| format!("{error:#}"));
                bail!(
                    "{} gave no good answer; the last: {}; its log:\n  {}",
                    words.join(" "),
                    answer.lines().next().unwrap_or_default(),
                    running.last_words()
                );
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn command(&self, world: &World, folder: &Path, port: u16) -> Result<Vec<String>> {
        let settings = |name: &str, text: &str| -> Result<String> {
            let text = text
                .replace("@PORT@", &port.to_string())
                .replace("@DEPENDENCY@", &world.dependency.to_string())
                .replace("@FOLDER@", &folder.display().to_string());
            let file = folder.join(name);
            std::fs::write(&file, text)?;
            Ok(file.display().to_string())
        };
        let own = |name: &str| world.programs.join(name).display().to_string();
        let words = match self {
            Self::Direct => bail!("the dependency runs already"),
            Self::Server => vec![own("stub"), port.to_string()],
            Self::HyperPool => vec![own("hyper_pool"), port.to_string(), world.dependency.to_string()],
            Self::Hyper => vec![own("hyper_proxy"), port.to_string(), world.dependency.to_string()],
            Self::Haproxy => {
                let file = settings("haproxy.cfg", include_str!("../../../gateway/conf/haproxy.cfg"))?;
                vec!["haproxy".to_owned(), "-db".to_owned(), "-f".to_owned(), file]
            }
            Self::Nginx => {
                let file = settings("nginx.conf", include_str!("../../../gateway/conf/nginx.conf"))?;
                vec!["nginx".to_owned(), "-p".to_owned(), folder.display().to_string(), "-c".to_owned(), file]
            }
            Self::Caddy => {
                let file = settings("Caddyfile", include_str!("../../../gateway/conf/Caddyfile"))?;
                ["caddy", "run", "--adapter", "caddyfile", "--config", &file].map(str::to_owned).to_vec()
            }
            Self::Halfopen => {
                let policy = settings("halfopen.yaml", include_str!("../../../gateway/conf/halfopen.yaml"))?;
                let (store, listen) = (store_in(folder), format!("127.0.0.1:{port}"));
                let flags = ["serve", "--threads", "1", "--policy", &policy, "--store", &store, "--listen", &listen];
                [vec![own("halfopen")], flags.map(str::to_owned).to_vec()].concat()
            }
            Self::Named { command, .. } => command
                .replace("{port}", &port.to_string())
                .replace("{dependency}", &world.dependency.to_string())
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
        };
        Ok(words)
    }
}

/// Holds the second dependency of halfopen open by command, and waits until the running gateway refuses calls to it.
pub(crate) fn hold_open(world: &World, repetition: usize, port: u16) -> Result<()> {
    let store = store_in(&world.folder.join(format!("{repetition}-halfopen")));
    let output = Command::new(world.programs.join("halfopen"))
        .args(["hold", "--store", &store, "held", "open", "--reason", "bench"])
        .output()
        .context("halfopen hold does not start")?;
    if !output.status.success() {
        bail!("halfopen hold ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let begin = Instant::now();
    loop {
        let answer = ask(port, "/d/held/v1/chat/completions")?;
        if answer.starts_with("HTTP/1.1 503") && answer.to_ascii_lowercase().contains("halfopen-outcome: refused") {
            return Ok(());
        }
        if begin.elapsed() > Duration::from_secs(5) {
            bail!("a circuit held open by command is not refused by the gateway; it answers:\n{answer}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn store_in(folder: &Path) -> String {
    folder.join("halfopen.db").display().to_string()
}

/// Returns a port that nobody listens on at this moment.
pub(crate) fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0)).context("cannot find a free port")?.local_addr()?.port())
}
