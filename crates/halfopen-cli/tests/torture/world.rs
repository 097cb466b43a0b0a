//! A place with one store, the processes that use it, and one round of work in it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use fastrand::Rng;
use halfopen::handle::Handle;
use halfopen::store::{Location, StoreError};
use halfopen_core::job::JobState;
use rusqlite::Connection;
use rustix::process::Signal;

use crate::books::{Books, Outcome, Sum, Told};
use crate::faults::Fault;
use crate::processes::{Process, halfopen, halfopen_that_survives_its_limits};
use crate::standin::StandIn;

/// How large the disk of a store is, in MiB: room for the large bodies of all its rounds.
const DISK_MIB: u32 = 48;

/// How far the wall clock is wrong at most, in milliseconds.
const STEP_MS_MAX: i64 = 2 * 3_600_000;

/// A place with one store.
#[derive(Debug)]
pub(crate) struct World {
    home: tempfile::TempDir,
    /// Whether the store has a disk of its own; else a full one is stood in for by a limit on files.
    mounted: bool,
    pub(crate) standin: StandIn,
    books: Books,
    calls: AtomicUsize,
    kills: AtomicUsize,
    in_writes: AtomicUsize,
    /// How far the clock of the store is ahead.
    ahead_ms: AtomicI64,
    chance: Mutex<Rng>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut chance = Rng::with_seed(seed);
        let standin = StandIn::start(chance.u64(..));
        let path = |name: &str| home.path().join(name);
        for folder in ["bin", "disk"] {
            fs::create_dir(path(folder)).unwrap();
        }
        let mounted = is_done(
            Command::new("mount")
                .args(["-t", "tmpfs", "-o", &format!("size={DISK_MIB}m,mode=0700"), "tmpfs"])
                .arg(path("disk")),
        );
        fs::create_dir(path("disk/store")).unwrap();
        fs::write(path("policy.yaml"), policy(standin.address)).unwrap();
        let tool = "#!/bin/sh\n[ -e \"$D/down\" ] && { echo 'HTTP 503 Service Unavailable' >&2; exit 1; }\n\
                    sleep 0.0$(( $$ % 9 ))\necho \"$1\" >> \"$D/did\"\n";
        fs::write(path("bin/tool"), tool).unwrap();
        fs::set_permissions(path("bin/tool"), fs::Permissions::from_mode(0o755)).unwrap();
        Self {
            home,
            mounted,
            standin,
            books: Books::default(),
            calls: AtomicUsize::new(0),
            kills: AtomicUsize::new(0),
            in_writes: AtomicUsize::new(0),
            ahead_ms: AtomicI64::new(0),
            chance: Mutex::new(chance),
        }
    }

    pub(crate) fn disk(&self) -> &'static str {
        if self.mounted { "a small one of its own" } else { "stood in for by a limit on files" }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// The folder of the store.
    pub(crate) fn folder(&self) -> PathBuf {
        self.path("disk/store")
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path("disk/store/halfopen.db")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path("disk/store/halfopen.db-wal")
    }

    /// Lets everybody work, the fault happen, everything heal, and the books be balanced.
    pub(crate) fn round(&mut self, told: &str, fault: Fault, chance: &mut Rng) -> Sum {
        let (kept_before, calls_before) = self.books.count();
        let executed_before = self.executed().len();
        let figures_before = self.figures();
        let (kills_before, in_writes_before) = self.killed();
        let this = &*self;
        let busy = Busy::start(this, fault);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let (busy, mut chance) = (&busy, chance.fork());
                scope.spawn(move || busy.send(&mut chance));
            }
            scope.spawn(|| busy.run_commands());
            scope.spawn(|| busy.drain_again_and_again());
            // Whatever goes wrong, the others must see that it is over.
            let happened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                fault.happen(this, &busy, chance);
            }));
            std::thread::sleep(Duration::from_millis(chance.u64(50..250)));
            busy.over.store(true, Ordering::Relaxed);
            let _ = fs::remove_file(this.path("down"));
            if let Err(panic) = happened {
                std::panic::resume_unwind(panic);
            }
        });
        busy.settle(told);
        let figures = self.figures();
        let wrong = self.balance();
        assert!(wrong.is_empty(), "{told}: {}\n{}", wrong.join("\n"), self.kept());
        let (kept, calls) = self.books.count();
        let more = |state: JobState| figures.get(&state).unwrap_or(&0) - figures_before.get(&state).unwrap_or(&0);
        Sum {
            calls: calls - calls_before,
            acknowledged: kept - kept_before,
            executed: self.executed().len() - executed_before,
            done: more(JobState::Done),
            in_review: more(JobState::ManualReview),
            kills: self.killed().0 - kills_before,
            in_writes: self.killed().1 - in_writes_before,
            ..Sum::default()
        }
    }

    /// Returns how many processes were killed, and how many of them inside a write.
    fn killed(&self) -> (usize, usize) {
        (self.kills.load(Ordering::Relaxed), self.in_writes.load(Ordering::Relaxed))
    }

    /// Leaves what a person needs to look into it; returns where.
    fn kept(&self) -> String {
        let place = std::env::temp_dir().join(format!("halfopen-torture-{}", std::process::id()));
        let copied = is_done(Command::new("cp").arg("-a").arg(self.home.path()).arg(&place));
        format!("kept in {} ({copied})", place.display())
    }

    fn balance(&self) -> Vec<String> {
        let mut wrong = match self.door() {
            Ok(door) => self.books.balance(&door, &self.executed()),
            Err(error) => vec![format!("the store does not open: {error}")],
        };
        let mut audit = halfopen(self.home.path(), &self.store(), &["audit"]);
        let audit = audit.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
        if !audit.status.success() {
            let told = [audit.stdout, audit.stderr].concat();
            wrong.push(format!("the audit says {}: {}", audit.status, String::from_utf8_lossy(&told)));
        }
        for entry in fs::read_dir(self.home.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "said")
                && let Ok(text) = fs::read_to_string(&path)
                && text.contains("panicked at")
            {
                wrong.push(format!("a process panicked:\n{text}"));
            }
        }
        wrong
    }

    fn door(&self) -> Result<Handle, StoreError> {
        Handle::open(&Location::Sqlite(self.store()))
    }

    /// Returns how many jobs there are of each state; nothing where there is no store yet.
    fn figures(&self) -> BTreeMap<JobState, u64> {
        let figures = self.store().exists().then(|| self.door().and_then(|door| door.job_figures()));
        let mut sum = BTreeMap::new();
        for figures in figures.and_then(Result::ok).unwrap_or_default().values() {
            for state in JobState::ALL {
                *sum.entry(state).or_default() += figures.tally.of(state);
            }
        }
        sum
    }

    /// Returns how often each invoice was executed, by either dependency.
    fn executed(&self) -> BTreeMap<String, usize> {
        let mut executed = self.standin.executed();
        for invoice in fs::read_to_string(self.path("did")).unwrap_or_default().lines() {
            *executed.entry(invoice.to_owned()).or_default() += 1;
        }
        executed
    }

    /// Leaves so many pages free on the store's disk.
    pub(crate) fn fill(&self, busy: &Busy<'_>, pages: usize) {
        if !self.mounted {
            busy.gateway().limit_files(1);
            return;
        }
        let mut filler = fs::File::options().create(true).append(true).open(self.path("disk/filler")).unwrap();
        for length in [1 << 20, 4096] {
            while filler.write_all(&vec![b'x'; length]).is_ok() {}
        }
        let length = filler.metadata().unwrap().len();
        filler.set_len(length.saturating_sub(4096 * pages as u64)).unwrap();
    }

    /// Makes room again.
    pub(crate) fn free(&self, busy: &Busy<'_>) {
        if self.mounted {
            fs::remove_file(self.path("disk/filler")).unwrap();
        } else {
            busy.gateway().limit_files(u64::MAX);
        }
    }

    /// Lets the machine come up again with a wall clock that was wrong before, or is wrong from now on. Nobody may have
    /// the store open.
    pub(crate) fn boot_again(&self) {
        let conn = Connection::open(self.store()).unwrap();
        conn.busy_timeout(Duration::from_secs(10)).unwrap();
        let ahead_ms = self.ahead_ms.load(Ordering::Relaxed);
        if ahead_ms == 0 {
            let step_ms = self.chance.lock().unwrap().i64(1000..STEP_MS_MAX);
            conn.execute("UPDATE boot SET anchor_ms = anchor_ms + ?1", [step_ms]).unwrap();
            self.ahead_ms.store(step_ms, Ordering::Relaxed);
        } else {
            // Another boot finds its own anchor, by the right clock: it lies back by what was wrong.
            conn.execute("UPDATE boot SET boot_id = 'an earlier one'", []).unwrap();
            self.ahead_ms.store(0, Ordering::Relaxed);
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.mounted {
            is_done(Command::new("umount").arg("-l").arg(self.path("disk")));
        }
    }
}

fn is_done(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// A breaker that opens soon and not for long, short leases, and a rate that brings a backlog back within a round.
fn policy(address: SocketAddr) -> String {
    let shared = "profile: generic\n    timeout_ms: 3000\n    lease_sec: 1\n    \
                  retry: { max_attempts: 50, base_ms: 5, max_backoff_ms: 50 }\n    \
                  circuit: { open_after_failures: 3, open_for_sec: 0.2, max_open_for_sec: 0.5, probe_lease_sec: 1, half_open_max_calls: 2, close_after_successes: 1 }\n    \
                  drain: { rate_per_sec: 200, max_per_sec: 200, max_in_flight: 8 }\n    \
                  on_open: { action: queue, queue_ttl_min: 30 }";
    format!(
        "dependencies:\n  - name: up\n    upstream: http://{address}\n    {shared}\n  \
         - name: safe\n    upstream: http://{address}\n    replay: always\n    {shared}\n  \
         - name: tool\n    {shared}\n"
    )
}

/// The processes of a round.
#[derive(Debug)]
pub(crate) struct Busy<'a> {
    world: &'a World,
    fault: Fault,
    gateway: Mutex<Arc<Process>>,
    address: Mutex<SocketAddr>,
    drains: Mutex<Vec<Arc<Process>>>,
    /// Held for reading by whoever has a short process out.
    resting: RwLock<()>,
    over: AtomicBool,
}

impl<'a> Busy<'a> {
    fn start(world: &'a World, fault: Fault) -> Self {
        let (gateway, address) = gateway(world, fault);
        Self {
            world,
            fault,
            gateway: Mutex::new(Arc::new(gateway)),
            address: Mutex::new(address),
            drains: Mutex::default(),
            resting: RwLock::default(),
            over: AtomicBool::new(false),
        }
    }

    pub(crate) fn gateway(&self) -> Arc<Process> {
        Arc::clone(&self.gateway.lock().unwrap())
    }

    /// Starts one more gateway on the store.
    pub(crate) fn another(&self) -> Process {
        gateway(self.world, self.fault).0
    }

    pub(crate) fn signal_gateway(&self, signal: Signal) {
        self.gateway().signal(signal);
    }

    pub(crate) fn kill_gateway(&self) {
        self.gateway().kill();
        self.world.kills.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn start_gateway(&self) {
        let (gateway, address) = gateway(self.world, self.fault);
        *self.gateway.lock().unwrap() = Arc::new(gateway);
        *self.address.lock().unwrap() = address;
    }

    pub(crate) fn kill_a_drain(&self) {
        if let Some(drain) = self.drains.lock().unwrap().pop() {
            drain.kill();
            self.world.kills.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lets the gateway die in the write that makes a file longer than this; kills it if none does.
    pub(crate) fn die_beyond(&self, bytes: u64, within: Duration) {
        let gateway = self.gateway();
        gateway.limit_files(bytes);
        let until = std::time::Instant::now() + within;
        while gateway.has_ended().is_none() && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        if gateway.has_ended().is_some_and(|status| status.signal() == Some(Signal::XFSZ.as_raw())) {
            self.world.in_writes.fetch_add(1, Ordering::Relaxed);
        }
        self.kill_gateway();
    }

    /// Does something while no short process has the store open.
    pub(crate) fn rest(&self, act: impl FnOnce()) {
        let _rests = self.resting.write().unwrap();
        act();
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn invoice(&self, word: &str) -> String {
        format!("{word}-{}", self.world.calls.fetch_add(1, Ordering::Relaxed))
    }

    /// Sends invoices to the gateway, one after the other.
    fn send(&self, chance: &mut Rng) {
        while !self.is_over() {
            let repeatable = chance.u32(..4) == 0;
            let invoice = self.invoice(if repeatable { "safe" } else { "up" });
            let pad = if chance.u32(..16) == 0 { "x".repeat(80_000) } else { String::new() };
            let body = format!("{{\"invoice\":\"{invoice}\",\"pad\":\"{pad}\"}}");
            let prefer = if chance.u32(..3) == 0 { "" } else { "prefer: respond-async\r\n" };
            let address = *self.address.lock().unwrap();
            let dependency = if repeatable { "safe" } else { "up" };
            let request = format!(
                "POST /d/{dependency}/invoices HTTP/1.1\r\nhost: x\r\n{prefer}connection: close\r\ncontent-type: \
                 application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            let outcome = told(address, &request).unwrap_or(Outcome::Other);
            if matches!(outcome, Outcome::Other) {
                // Who is not served comes back after a breath.
                std::thread::sleep(Duration::from_millis(chance.u64(1..20)));
            }
            self.world.books.note(Told { invoice, repeatable, outcome });
        }
    }

    /// Runs commands that are kept when their dependency refuses, one after the other, while it comes and goes.
    fn run_commands(&self) {
        let home = self.world.home.path();
        for n in 0.. {
            if self.is_over() {
                return;
            }
            if n % 8 < 5 {
                fs::write(self.world.path("down"), "").unwrap();
            } else {
                let _ = fs::remove_file(self.world.path("down"));
            }
            let invoice = self.invoice("tool");
            let words =
                ["run", "--dep", "tool", "--on-open", "queue", "--attempts", "1", "--env", "D", "-n", "--", "tool"];
            let mut command = halfopen(home, &self.world.store(), &words);
            command.arg(&invoice).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            let _rests = self.resting.read().unwrap_or_else(PoisonError::into_inner);
            let output = command.output().unwrap();
            let word = String::from_utf8_lossy(&output.stdout);
            let outcome = match (output.status.code(), word.trim_end().parse()) {
                (Some(79), Ok(id)) => Outcome::Kept(id),
                (Some(0), _) => Outcome::Done,
                _ => Outcome::Other,
            };
            self.world.books.note(Told { invoice, repeatable: false, outcome });
        }
    }

    fn drain_again_and_again(&self) {
        while !self.is_over() {
            let works = self.resting.read().unwrap_or_else(PoisonError::into_inner);
            self.drain("200ms");
            drop(works);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn drain(&self, max_wait: &str) {
        let world = self.world;
        let words = ["drain", "--once", "--max-wait", max_wait];
        let mut command = halfopen(world.home.path(), &world.store(), &words);
        let drain = Arc::new(Process::start(&mut command, world.path("drain.said")));
        self.drains.lock().unwrap().push(Arc::clone(&drain));
        drain.end("a drain ends");
        self.drains.lock().unwrap().retain(|other| !Arc::ptr_eq(other, &drain));
    }

    /// Waits until nothing waits any more, and ends the gateway in order.
    fn settle(self, told: &str) {
        let world = self.world;
        let gateway = self.gateway();
        if let Some(status) = gateway.has_ended() {
            panic!("{told}: the gateway ended by itself: {status}\n{}\n{}", said(&gateway), world.kept());
        }
        let began = std::time::Instant::now();
        loop {
            self.drain("200ms");
            let figures = world.figures();
            let waits = |state| figures.get(&state).copied().unwrap_or(0);
            if !figures.is_empty() && waits(JobState::Queued) == 0 && waits(JobState::Running) == 0 {
                break;
            }
            if began.elapsed() >= crate::PATIENCE {
                panic!("{told}: the backlog does not return: {figures:?}\n{}\n{}", said(&gateway), world.kept());
            }
        }
        gateway.signal(Signal::TERM);
        let status = gateway.end("the gateway ends in order");
        assert!(status.success(), "{told}: {status}\n{}\n{}", said(&gateway), world.kept());
    }
}

fn said(gateway: &Process) -> String {
    fs::read_to_string(&gateway.said).unwrap_or_default()
}

/// Starts a gateway; one that does not come up is a failed test, whatever state the store is in.
fn gateway(world: &World, fault: Fault) -> (Process, SocketAddr) {
    let words = ["serve", "--listen", "127.0.0.1:0", "--shutdown-grace", "5s", "--shutdown-pause", "1ms"];
    let home = world.home.path();
    let limited = fault == Fault::DiskFull && !world.mounted;
    let mut command = if limited {
        halfopen_that_survives_its_limits(home, &world.store(), &words)
    } else {
        halfopen(home, &world.store(), &words)
    };
    let said = world.path(&format!("gateway-{}.said", world.calls.fetch_add(1, Ordering::Relaxed)));
    let gateway = Process::start(&mut command, said);
    match gateway.address() {
        Some(address) => (gateway, address),
        None => panic!("the gateway does not come up:\n{}\n{}", self::said(&gateway), world.kept()),
    }
}

/// Sends a request and returns what was told about it, if the answer came.
fn told(address: SocketAddr, request: &str) -> Option<Outcome> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    let whole = stream.read_to_end(&mut answer).is_ok();
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n")?;
    if head.starts_with("HTTP/1.1 200") {
        return Some(Outcome::Done);
    }
    if !head.starts_with("HTTP/1.1 202") || !whole {
        return None;
    }
    let told: serde_json::Value = serde_json::from_str(body).ok()?;
    told["id"].as_str()?.parse().ok().map(Outcome::Kept)
}
