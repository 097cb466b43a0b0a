//! Runs the cells: repetitions outside, cells next, the compared innermost.
//!
//! What fails is noted and the run goes on: half a comparison is worth more than none, and the report names the rest.
//! An answer that is not what the cell asks for (a 502 among the 200s) is a failure too, however fast it was.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::load::{Load, load, stream};
use crate::options::Options;
use crate::peers::{Peer, Started, World, hold_open};
use crate::process::Running;
use crate::sheet::{Cell, Figure, Sheet};
use crate::{LOADS, REFUSED, STREAMS};

/// Seconds of load before a cell is measured.
const WARM_UP: u64 = 1;

/// How long a fresh process is left alone before its idle memory is read.
const SETTLE: Duration = Duration::from_millis(500);

/// One run of the comparison.
pub(crate) struct Run<'a> {
    world: &'a World,
    options: &'a Options,
    script: &'a Path,
    sheet: Sheet,
    failures: Vec<String>,
}

/// One of the compared with its process; the dependency itself has none here.
struct Door<'a> {
    peer: &'a Peer,
    port: u16,
    running: Option<Running>,
}

impl Door<'_> {
    fn cpu_seconds(&self) -> f64 {
        self.running.as_ref().map_or(0.0, Running::cpu_seconds)
    }
}

impl<'a> Run<'a> {
    pub(crate) fn new(world: &'a World, options: &'a Options, script: &'a Path) -> Self {
        Self { world, options, script, sheet: Sheet::default(), failures: Vec::new() }
    }

    /// Returns what was measured and what failed.
    pub(crate) fn finish(self) -> (Sheet, Vec<String>) {
        (self.sheet, self.failures)
    }

    /// Starts every peer, measures every cell once, and stops them.
    pub(crate) fn repetition(&mut self, repetition: usize, peers: &[Peer]) {
        let mut doors: Vec<Door<'_>> = peers.iter().filter_map(|peer| self.open(repetition, peer)).collect();
        if doors.is_empty() {
            return;
        }
        // No place in the order may favour one of them: after a heavy neighbour the core is warm, after a pause it sleeps.
        let turn = repetition % doors.len();
        doors.rotate_left(turn);
        for (delay_ms, callers) in LOADS {
            self.tell(&format!("repetition {}: dependency {delay_ms} ms, callers {callers}", repetition + 1));
            for door in &doors {
                let delay = if delay_ms == 0 { String::new() } else { format!("/{delay_ms}ms") };
                let path = format!("{}{delay}/v1/chat/completions", door.peer.prefix());
                self.load(repetition, door, Cell::Load { delay_ms, callers }, &path, callers);
            }
        }
        for door in doors.iter().filter(|door| *door.peer == Peer::Halfopen) {
            if let Err(error) = hold_open(self.world, repetition, door.port) {
                self.fail(door.peer, "refusals", &error);
                continue;
            }
            for callers in REFUSED {
                self.tell(&format!("repetition {}: refusals, callers {callers}", repetition + 1));
                self.load(repetition, door, Cell::Refused { callers }, "/d/held/v1/chat/completions", callers);
            }
        }
        for (streams, rounds) in STREAMS {
            self.tell(&format!("repetition {}: event streams {streams}", repetition + 1));
            for door in &doors {
                if let Err(error) = self.stream(repetition, door, streams, rounds) {
                    self.fail(door.peer, &format!("{streams} event streams"), &error);
                }
            }
        }
    }

    /// Sends many requests to a fresh halfopen and notes by how much its memory grew after its pools and caches were full.
    pub(crate) fn growth(&mut self) {
        self.tell(&format!("memory over {} requests", self.options.growth));
        if let Err(error) = self.try_growth() {
            self.fail(&Peer::Halfopen, "memory over many requests", &error);
        }
    }

    fn try_growth(&mut self) -> Result<()> {
        const CALLERS: usize = 32;
        let started = Peer::Halfopen.start(self.world, self.options.repetitions)?;
        let path = format!("{}/v1/chat/completions", Peer::Halfopen.prefix());
        let send = |at_least: u64| -> Result<()> {
            let mut sent = 0;
            while sent < at_least {
                let load = load(started.port, &path, CALLERS, 2, self.script)?;
                if load.not_2xx + load.broken > 0 {
                    bail!("{} answers of {} were not good", load.not_2xx + load.broken, load.requests);
                }
                sent += load.requests;
            }
            Ok(())
        };
        send(self.options.growth / 10)?;
        let before = started.running.pss_mib();
        send(self.options.growth)?;
        let after = started.running.pss_mib();
        self.sheet.put(0, (Peer::Halfopen.name(), Cell::Growth, Figure::Growth), after - before);
        Ok(())
    }

    fn open<'p>(&mut self, repetition: usize, peer: &'p Peer) -> Option<Door<'p>> {
        if *peer == Peer::Direct {
            return Some(Door { peer, port: self.world.dependency, running: None });
        }
        match peer.start(self.world, repetition) {
            Ok(Started { running, port, first_answer }) => {
                std::thread::sleep(SETTLE);
                let put = [(Figure::FirstAnswer, first_answer.as_secs_f64()), (Figure::Memory, running.pss_mib())];
                for (figure, value) in put {
                    self.sheet.put(repetition, (peer.name(), Cell::Start, figure), value);
                }
                Some(Door { peer, port, running: Some(running) })
            }
            Err(error) => {
                self.fail(peer, "start", &error);
                None
            }
        }
    }

    fn load(&mut self, repetition: usize, door: &Door<'_>, cell: Cell, path: &str, callers: usize) {
        let measured = (|| -> Result<(Load, f64)> {
            load(door.port, path, callers, WARM_UP, self.script)?;
            let before = door.cpu_seconds();
            let load = load(door.port, path, callers, self.options.seconds, self.script)?;
            Ok((load, door.cpu_seconds() - before))
        })();
        let (load, cpu) = match measured.with_context(|| format!("POST {path}")) {
            Ok(measured) => measured,
            Err(error) => return self.fail(door.peer, &format!("{callers} callers"), &error),
        };
        // Of a held circuit every answer is a refusal; a call that got through would be the failure.
        let wrong = load.broken
            + match cell {
                Cell::Refused { .. } => load.requests.saturating_sub(load.not_2xx),
                Cell::Load { .. } | Cell::Start | Cell::Stream { .. } | Cell::Growth => load.not_2xx,
            };
        if wrong > 0 {
            self.failures.push(format!(
                "{}: {wrong} of {} answers of {path} were wrong",
                door.peer.name(),
                load.requests
            ));
        }
        let mut put = |figure, value| self.sheet.put(repetition, (door.peer.name(), cell, figure), value);
        put(Figure::Rate, load.requests as f64 / load.seconds);
        put(Figure::Median, load.p50_ms);
        put(Figure::P99, load.p99_ms);
        put(Figure::Wrong, wrong as f64);
        if let Some(running) = &door.running {
            put(Figure::Cpu, cpu * 1e6 / load.requests as f64);
            put(Figure::Busy, cpu * 100.0 / load.seconds);
            put(Figure::Memory, running.pss_mib());
        }
    }

    fn stream(&mut self, repetition: usize, door: &Door<'_>, streams: usize, rounds: usize) -> Result<()> {
        let path = format!("{}/v1/chat/completions", door.peer.prefix());
        let before = door.cpu_seconds();
        let felt = stream(&self.world.programs.join("sse_client"), door.port, &path, streams, rounds)?;
        let cpu = door.cpu_seconds() - before;
        if let Some(failure) = felt.failure {
            bail!("{} of {} streams were read; the last failure: {failure}", felt.read, felt.asked);
        }
        let cell = Cell::Stream { streams };
        let mut put = |figure, value| self.sheet.put(repetition, (door.peer.name(), cell, figure), value);
        put(Figure::Median, felt.first_p50_ms);
        put(Figure::P99, felt.first_p99_ms);
        put(Figure::Gap, felt.gap_p50_ms);
        put(Figure::Whole, felt.whole_p50_ms);
        put(Figure::Wrong, (felt.asked - felt.read) as f64);
        if let Some(running) = &door.running {
            put(Figure::Cpu, cpu * 1e6 / felt.events as f64);
            put(Figure::Memory, running.pss_mib());
        }
        Ok(())
    }

    fn fail(&mut self, peer: &Peer, what: &str, error: &anyhow::Error) {
        let failure = format!("{}: {what}: {error:#}", peer.name());
        self.tell(&failure);
        self.failures.push(failure);
    }

    fn tell(&self, line: &str) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}
