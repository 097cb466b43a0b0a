//! Measures `halfopen serve` beside the proxies people know, in one run: the targets G1 to G8.
//!
//! The callers (wrk, the stream reader) and the dependency share one core, the measured gateway has the other for itself,
//! one worker each, so that a gateway's CPU time per request is its capacity and nothing else. Repetitions are the outer
//! loop, cells the next, the compared gateways the innermost, and their order turns with each repetition. Every
//! repetition starts every gateway anew, which is also how starts are measured. halfopen runs as a user runs it: a policy
//! file, a rule pack, its store on disk.
//!
//! `bench/gateway/run.sh` builds all of it and runs it in a network namespace of its own. The report goes to stdout,
//! progress to stderr. The exit code is 1 only if something that is installed failed to run or answered wrongly; a missed
//! target is a finding, and a peer that is not installed is named with what installs it.

mod load;
mod options;
mod peers;
mod process;
mod report;
mod run;
mod sheet;
mod targets;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

use crate::options::Options;
use crate::peers::{CALLERS_CORE, Peer, World, free_port};
use crate::process::Running;
use crate::run::Run;
use crate::sheet::{Cell, Figure};

/// Milliseconds of the dependency, and callers.
const LOADS: [(u64, usize); 5] = [(0, 1), (0, 32), (0, 256), (20, 32), (20, 256)];
/// Callers of a held circuit.
const REFUSED: [usize; 2] = [32, 256];
/// Event streams at once, and how often each connection reads one.
const STREAMS: [(usize, usize); 3] = [(1, 12), (32, 4), (256, 3)];

/// Per cent of its core that a saturated gateway gets on a machine where nobody else works; measured 95 to 99.
const QUIET: f64 = 85.0;

fn main() -> Result<ExitCode> {
    let Some(options) = Options::read(std::env::args().skip(1))? else {
        write!(std::io::stdout(), "{}", options::HELP)?;
        return Ok(ExitCode::SUCCESS);
    };
    if std::thread::available_parallelism()?.get() < 2 {
        bail!("the comparison needs two cores, one for the callers and one for the gateway");
    }
    for (program, package) in [("wrk", "wrk"), ("taskset", "util-linux")] {
        if version(program, &["--version"]).is_none() {
            bail!("{program} is missing; install it with: sudo apt-get install {package}");
        }
    }
    let folder = tempfile::tempdir()?;
    let own = std::env::current_exe()?;
    let programs = own.parent().context("a program lies in a folder")?.to_path_buf();
    let world = World { folder: folder.path().to_path_buf(), programs, dependency: free_port()? };

    let mut peers = Vec::new();
    let mut missing = Vec::new();
    let named =
        options.named.iter().map(|(name, command)| Peer::Named { name: name.clone(), command: command.clone() });
    for peer in Peer::all().into_iter().chain(named).filter(|peer| options.wants(peer.name())) {
        match peer.package() {
            Some(package) if version(package, &["-v"]).is_none() => missing.push(package),
            _ => peers.push(peer),
        }
    }
    let _dependency = start_dependency(&world)?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("gateway/load.lua");
    let mut run = Run::new(&world, &options, &script);
    let load_before = load_average();
    for repetition in 0..options.repetitions {
        run.repetition(repetition, &peers);
    }
    if options.growth > 0 && peers.contains(&Peer::Halfopen) {
        run.growth();
    }

    let (sheet, failures) = run.finish();
    let mut out = std::io::stdout().lock();
    writeln!(out, "# The gateway beside its peers\n")?;
    writeln!(
        out,
        "{} repetitions, {} s per cell after 1 s of warming up; median (least–greatest). Machine load before: {load_before}.",
        options.repetitions, options.seconds
    )?;
    let versions = [("wrk", "--version"), ("nginx", "-v"), ("haproxy", "-v"), ("caddy", "version")];
    for (program, flag) in versions {
        writeln!(out, "- {program}: {}", version(program, &[flag]).unwrap_or_else(|| "not installed".to_owned()))?;
    }
    // At 32 callers without a pause a gateway has its core to itself, if nobody else is at work.
    let busy = sheet.of((Peer::Hyper.name(), Cell::Load { delay_ms: 0, callers: 32 }, Figure::Busy));
    if busy.median().is_some_and(|busy| busy < QUIET) {
        writeln!(
            out,
            "\n**The machine was not quiet: hyper got {busy:.0} % of its core. Take no figure from this run.**"
        )?;
    }
    let names: Vec<&str> = peers.iter().map(Peer::name).collect();
    report::write_tables(&mut out, &sheet, &names)?;
    targets::write_verdicts(&mut out, &sheet)?;
    if !missing.is_empty() {
        writeln!(out, "\nNot installed: {}. sudo apt-get install {}", missing.join(", "), missing.join(" "))?;
    }
    let unpackaged: Vec<&str> =
        ["pingora", "envoy", "portkey", "litellm"].into_iter().filter(|name| !names.contains(name)).collect();
    if !unpackaged.is_empty() {
        writeln!(
            out,
            "\nNot compared, since Debian has no package: {}. Name one with --peer 'NAME=COMMAND'.",
            unpackaged.join(", ")
        )?;
    }
    if failures.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "\n## Failed to run\n")?;
    for failure in failures {
        writeln!(out, "- {failure}")?;
    }
    Ok(ExitCode::FAILURE)
}

/// Starts the dependency beside the callers.
fn start_dependency(world: &World) -> Result<Running> {
    let words = [world.programs.join("stub").display().to_string(), world.dependency.to_string()];
    let log = world.folder.join("dependency.log");
    let mut running = Running::start(CALLERS_CORE, &words, &world.folder, log)?;
    let begin = std::time::Instant::now();
    while load::ask(world.dependency, "/v1/chat/completions").is_err() {
        if running.has_ended() || begin.elapsed().as_secs() > 10 {
            bail!("the dependency does not answer: {}", running.last_words());
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Ok(running)
}

/// Returns the first line that a program prints about its version, or nothing if it does not start.
fn version(program: &str, flags: &[&str]) -> Option<String> {
    let output = Command::new(program).args(flags).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&said).lines().next().unwrap_or_default().trim().to_owned())
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}
