//! Writes what was measured as tables of Markdown.

use std::io::{self, Write};

use crate::sheet::{Cell, Figure, Sheet};
use crate::{LOADS, REFUSED, STREAMS};

/// Writes the tables of all cells; `peers` are the names, in the order of the rows.
pub(crate) fn write_tables(out: &mut impl Write, sheet: &Sheet, peers: &[&str]) -> io::Result<()> {
    for (delay_ms, callers) in LOADS {
        let cell = Cell::Load { delay_ms, callers };
        writeln!(out, "\n## Requests: dependency {delay_ms} ms, callers {callers}\n")?;
        load_table(out, sheet, peers, cell)?;
    }
    for callers in REFUSED {
        writeln!(out, "\n## Refusals of an open circuit, callers {callers}\n")?;
        load_table(out, sheet, peers, Cell::Refused { callers })?;
    }
    for (streams, _) in STREAMS {
        writeln!(out, "\n## Event streams at once: {streams}\n")?;
        stream_table(out, sheet, peers, Cell::Stream { streams })?;
    }
    writeln!(
        out,
        "\n## Start and memory\n\n| | start to first answer s | memory MiB, idle | gained by the long run |"
    )?;
    writeln!(out, "|---|---|---|---|")?;
    for peer in peers.iter().filter(|peer| **peer != "direct") {
        let first = sheet.of((peer, Cell::Start, Figure::FirstAnswer));
        let idle = sheet.of((peer, Cell::Start, Figure::Memory));
        let growth = sheet.of((peer, Cell::Growth, Figure::Growth));
        writeln!(out, "| {peer} | {first:.3} | {idle:.1} | {growth:.1} |")?;
    }
    Ok(())
}

fn load_table(out: &mut impl Write, sheet: &Sheet, peers: &[&str], cell: Cell) -> io::Result<()> {
    writeln!(
        out,
        "| | per second | p50 ms | p99 ms | added p50 ms | CPU µs/request | CPU x hyper | its core busy % | memory MiB | wrong |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|---|---|")?;
    for peer in peers {
        let rate = sheet.of((peer, cell, Figure::Rate));
        if rate.median().is_none() {
            continue;
        }
        let added =
            sheet.paired((peer, cell, Figure::Median), ("direct", cell, Figure::Median), |ours, direct| ours - direct);
        writeln!(
            out,
            "| {peer} | {rate:.0} | {:.3} | {:.3} | {added:.3} | {:.1} | {:.2} | {:.0} | {:.1} | {} |",
            sheet.of((peer, cell, Figure::Median)),
            sheet.of((peer, cell, Figure::P99)),
            sheet.of((peer, cell, Figure::Cpu)),
            sheet.ratio((peer, cell, Figure::Cpu), ("hyper", cell, Figure::Cpu)),
            sheet.of((peer, cell, Figure::Busy)),
            sheet.of((peer, cell, Figure::Memory)),
            sheet.of((peer, cell, Figure::Wrong)).sum(),
        )?;
    }
    Ok(())
}

fn stream_table(out: &mut impl Write, sheet: &Sheet, peers: &[&str], cell: Cell) -> io::Result<()> {
    writeln!(
        out,
        "| | first event p50 ms | first event p99 ms | added p50 ms | largest gap ms | whole stream ms | CPU µs/event | CPU x hyper | memory MiB | wrong |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|---|---|")?;
    for peer in peers {
        let first = sheet.of((peer, cell, Figure::Median));
        if first.median().is_none() {
            continue;
        }
        let added =
            sheet.paired((peer, cell, Figure::Median), ("direct", cell, Figure::Median), |ours, direct| ours - direct);
        writeln!(
            out,
            "| {peer} | {first:.2} | {:.2} | {added:.2} | {:.1} | {:.0} | {:.1} | {:.2} | {:.1} | {} |",
            sheet.of((peer, cell, Figure::P99)),
            sheet.of((peer, cell, Figure::Gap)),
            sheet.of((peer, cell, Figure::Whole)),
            sheet.of((peer, cell, Figure::Cpu)),
            sheet.ratio((peer, cell, Figure::Cpu), ("hyper", cell, Figure::Cpu)),
            sheet.of((peer, cell, Figure::Memory)),
            sheet.of((peer, cell, Figure::Wrong)).sum(),
        )?;
    }
    Ok(())
}
