//! The targets G1 to G8: what is compared with what, and how far it may be off.
//!
//! Each is a ratio (or a difference) to something measured in the same repetition; only memory and the start are absolute,
//! since they hardly depend on who else is at work. The median decides, the spread is shown beside it: a verdict
//! whose bar lies within the spread wants more repetitions, not a conclusion.

use std::io::{self, Write};

use crate::sheet::{Cell, Figure, Sheet, Source, Spread};

/// What a bar says of a figure.
#[derive(Clone, Copy, Debug)]
enum Bar {
    AtMost(f64),
    AtLeast(f64),
}

/// One line of the verdicts.
struct Target {
    id: &'static str,
    what: String,
    bar: Bar,
    unit: &'static str,
    seen: Spread,
    /// Whether missing it is no miss of the target, because it is only what lies beyond.
    stretch: bool,
}

const HALFOPEN: &str = "halfopen";

/// Gateways with a bar of their own, as multiples of their CPU time per request.
const GATEWAYS: [(&str, f64); 5] =
    [("caddy", 0.3), ("pingora", 0.7), ("envoy", 0.45), ("portkey", 1.0 / 40.0), ("litellm", 1.0 / 300.0)];

/// Writes one line per target.
pub(crate) fn write_verdicts(out: &mut impl Write, sheet: &Sheet) -> io::Result<()> {
    writeln!(out, "\n## Targets\n\n| target | what | seen | bar | verdict |\n|---|---|---|---|---|")?;
    for target in targets(sheet) {
        let (sign, bar) = match target.bar {
            Bar::AtMost(bar) => ("<=", bar),
            Bar::AtLeast(bar) => (">=", bar),
        };
        let verdict = match target.seen.median() {
            None => "not measured",
            Some(median) => {
                let met = match target.bar {
                    Bar::AtMost(bar) => median <= bar,
                    Bar::AtLeast(bar) => median >= bar,
                };
                match (met, target.stretch) {
                    (true, _) => "met",
                    (false, false) => "**missed**",
                    (false, true) => "out of reach yet",
                }
            }
        };
        let digits = if bar < 0.1 { 4 } else { 2 };
        let (seen, unit) = (target.seen, target.unit);
        writeln!(
            out,
            "| {} | {} | {seen:.digits$} | {sign} {bar:.digits$} {unit} | {verdict} |",
            target.id, target.what
        )?;
    }
    Ok(())
}

fn targets(sheet: &Sheet) -> Vec<Target> {
    let mut targets = Vec::new();
    let mut add = |id, what: String, bar, unit, seen| {
        targets.push(Target { id, what, bar, unit, seen, stretch: false });
    };
    let cpu = |peer, callers| -> Source<'_> { (peer, Cell::Load { delay_ms: 0, callers }, Figure::Cpu) };
    let cpu_ratio = |peer, callers| sheet.ratio(cpu(HALFOPEN, callers), cpu(peer, callers));
    for callers in [32, 256] {
        let what = format!("CPU per request, {callers} callers, over hyper");
        add("G1", what, Bar::AtMost(1.15), "x", cpu_ratio("hyper", callers));
    }
    for peer in ["nginx", "haproxy"] {
        for callers in [32, 256] {
            let what = format!("CPU per request, {callers} callers, over {peer}");
            add("G2", what, Bar::AtMost(1.35), "x", cpu_ratio(peer, callers));
        }
    }
    for (peer, bar) in GATEWAYS {
        for callers in [32, 256] {
            let what = format!("CPU per request, {callers} callers, over {peer}");
            add("G3", what, Bar::AtMost(bar), "x", cpu_ratio(peer, callers));
        }
    }
    let one = Cell::Load { delay_ms: 0, callers: 1 };
    let added = sheet
        .paired((HALFOPEN, one, Figure::Median), ("hyper", one, Figure::Median), |ours, theirs| (ours - theirs) * 1e3);
    add("G4", "median of an answer, 1 caller, over hyper".to_owned(), Bar::AtMost(15.0), "µs", added);
    let late = sheet.ratio((HALFOPEN, one, Figure::P99), ("hyper", one, Figure::P99));
    add("G4", "99th percentile, 1 caller, over hyper".to_owned(), Bar::AtMost(1.3), "x", late);

    let (alone, crowd) = (Cell::Stream { streams: 1 }, Cell::Stream { streams: 256 });
    let first =
        sheet.paired((HALFOPEN, alone, Figure::Median), ("hyper", alone, Figure::Median), |ours, theirs| ours - theirs);
    add("G5", "first event, 1 stream, over hyper".to_owned(), Bar::AtMost(0.1), "ms", first);
    let first = sheet.ratio((HALFOPEN, crowd, Figure::Median), ("hyper", crowd, Figure::Median));
    add("G5", "first event, 256 streams, over hyper".to_owned(), Bar::AtMost(2.0), "x", first);
    for streams in [1, 32, 256] {
        let cell = Cell::Stream { streams };
        let gap = sheet.ratio((HALFOPEN, cell, Figure::Gap), ("direct", cell, Figure::Gap));
        add("G5", format!("largest gap, streams: {streams}, over direct"), Bar::AtMost(1.2), "x", gap);
        let cpu = sheet.ratio((HALFOPEN, cell, Figure::Cpu), ("hyper", cell, Figure::Cpu));
        add("G5", format!("CPU per event, streams: {streams}, over hyper"), Bar::AtMost(1.15), "x", cpu);
    }

    let idle = sheet.of((HALFOPEN, Cell::Start, Figure::Memory));
    add("G6", "memory, idle".to_owned(), Bar::AtMost(10.0), "MiB", idle);
    let busy = sheet.of((HALFOPEN, Cell::Load { delay_ms: 0, callers: 256 }, Figure::Memory));
    add("G6", "memory after 256 callers".to_owned(), Bar::AtMost(25.0), "MiB", busy);
    let growth = sheet.of((HALFOPEN, Cell::Growth, Figure::Growth));
    add("G6", "memory gained by the long run".to_owned(), Bar::AtMost(2.0), "MiB", growth);

    let start = sheet.of((HALFOPEN, Cell::Start, Figure::FirstAnswer));
    add("G7", "start to first answer".to_owned(), Bar::AtMost(0.1), "s", start);

    for callers in [32, 256] {
        let refused = Cell::Refused { callers };
        let floor = sheet.ratio((HALFOPEN, refused, Figure::Cpu), cpu("hyper-server", callers));
        let what = format!("CPU per refusal, {callers} callers, over the hyper server");
        add("G8", what, Bar::AtMost(1.2), "x", floor);
        let load = Cell::Load { delay_ms: 0, callers };
        let rate = sheet.ratio((HALFOPEN, refused, Figure::Rate), (HALFOPEN, load, Figure::Rate));
        add("G8", format!("refusals per second, {callers} callers, over calls"), Bar::AtLeast(2.0), "x", rate);
    }
    for callers in [32, 256] {
        targets.push(Target {
            id: "G1+",
            what: format!("CPU per request, {callers} callers, over hyper with its own pool"),
            bar: Bar::AtMost(1.15),
            unit: "x",
            seen: cpu_ratio("hyper-pool", callers),
            stretch: true,
        });
    }
    targets
}
