//! Shows the story while it happens: on a terminal lines above a panel that is drawn anew, elsewhere the lines alone.
//!
//! Plain ANSI: the panel is taken away, the line that is news is written where it stood, and the panel is drawn below.
//! So the terminal scrolls as it always does, and nothing is lost when the demo is over. Nothing depends on colour, and
//! there is none where `NO_COLOR` or the terminal says so. The cursor is hidden while there is a panel, and given back
//! whichever way this ends; what ends us without asking us (`kill -9`) leaves it hidden, as in every such program.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};

/// A terminal narrower than this gets lines that it breaks itself.
const NARROWEST: usize = 40;
/// Nothing is gained by a wider panel.
const WIDEST: usize = 100;
/// How wide the names at the left of the panel are.
const NAMES: usize = 9;

/// What the panel shows.
#[derive(Clone, Debug, Default)]
pub(super) struct Panel {
    /// The breaker's state, as the gateway says it.
    pub(super) state: String,
    /// What there is to say about it: how long still, how many failures.
    pub(super) about: String,
    /// Jobs that wait or run.
    pub(super) depth: usize,
    /// Invoices that were accepted.
    pub(super) accepted: usize,
    /// What the OCR does and was asked.
    pub(super) ocr: String,
    /// One mark for each half second: what callers were answered.
    pub(super) callers: String,
    /// One mark for each half second: what reached the OCR.
    pub(super) reached: String,
}

/// Where the story is shown.
#[derive(Debug)]
pub(super) struct Screen {
    began: Instant,
    /// Whether there is a panel.
    panel: bool,
    colour: bool,
    /// Lines go to standard error, because standard output is for the document.
    apart: bool,
    /// How many lines the panel has that is on the screen.
    drawn: usize,
    /// Whether what we write cannot be read any more.
    closed: bool,
}

impl Screen {
    /// Begins to show. `apart`: standard output is kept for something else.
    pub(super) fn new(apart: bool) -> Self {
        let stdout = io::stdout();
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        let panel = !apart && stdout.is_terminal() && !dumb && width().is_some_and(|width| width >= NARROWEST);
        let colour = panel && anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
        let mut screen = Self { began: Instant::now(), panel, colour, apart, drawn: 0, closed: false };
        if panel {
            screen.write("\x1b[?25l");
        }
        screen
    }

    /// Returns how long it has been shown.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns whether nobody reads any more.
    pub(super) fn closed(&self) -> bool {
        self.closed
    }

    /// Says what has just happened.
    pub(super) fn say(&mut self, text: &str) {
        let at = self.elapsed().as_secs_f64();
        let taken_away = self.taken_away();
        self.write(&format!("{taken_away}{at:5.1} s  {text}\n"));
    }

    /// Writes text as it is, without a time.
    pub(super) fn print(&mut self, text: &str) {
        let taken_away = self.taken_away();
        self.write(&format!("{taken_away}{text}"));
    }

    /// Draws the panel, if there is one.
    pub(super) fn draw(&mut self, panel: &Panel) {
        if !self.panel {
            return;
        }
        let width = width().unwrap_or(80);
        let lines = lines(panel, width.clamp(NARROWEST, WIDEST) - 1, self.colour);
        let mut text = self.taken_away();
        for line in &lines {
            let _ = writeln!(text, "{line}");
        }
        self.drawn = lines.len();
        self.write(&text);
    }

    /// Takes the panel away and gives the cursor back.
    pub(super) fn end_panel(&mut self) {
        if self.panel {
            let taken_away = self.taken_away();
            self.write(&format!("{taken_away}\x1b[?25h"));
            self.panel = false;
        }
    }

    /// Returns what takes the panel away.
    fn taken_away(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\r\x1b[J"),
        }
    }

    /// One write, so that a panel is never seen half drawn.
    fn write(&mut self, text: &str) {
        let written = if self.apart {
            io::stderr().lock().write_all(text.as_bytes())
        } else {
            let mut stdout = io::stdout().lock();
            stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
        };
        // Without standard error the document still says it all.
        self.closed |= written.is_err() && !self.apart;
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.end_panel();
    }
}

/// Returns how many columns the terminal has, if it says.
fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    // A terminal that does not know says 0.
    Some(if size.ws_col == 0 { 80 } else { size.ws_col.into() })
}

/// Returns the lines of the panel, none longer than `width` columns.
fn lines(panel: &Panel, width: usize, colour: bool) -> Vec<String> {
    let room = width - NAMES;
    let state = match panel.state.as_str() {
        "open" => ("OPEN", AnsiColor::Red),
        "half_open" => ("HALF-OPEN", AnsiColor::Yellow),
        _ => ("CLOSED", AnsiColor::Green),
    };
    let painted = |text: &str, with: AnsiColor| {
        let style = if colour { Style::new().bold().fg_color(Some(with.into())) } else { Style::new() };
        format!("{style}{text}{style:#}")
    };
    let about = cut(&panel.about, room.saturating_sub(state.0.len() + 2));
    let figures = format!("{} of {} wait", panel.depth, panel.accepted);
    let cells = room.saturating_sub(figures.len() + 2).min(20);
    let full = if panel.accepted == 0 { 0 } else { (panel.depth * cells).div_ceil(panel.accepted).min(cells) };
    let bar = format!("{}{}", "█".repeat(full), "░".repeat(cells - full));
    vec![
        "─".repeat(width),
        format!("{:NAMES$}{}  {about}", "breaker", painted(state.0, state.1)),
        format!("{:NAMES$}{}  {figures}", "queue", painted(&bar, AnsiColor::Cyan)),
        format!("{:NAMES$}{}", "OCR", cut(&panel.ocr, room)),
        format!("{:NAMES$}{}", "callers", last(&panel.callers, room)),
        format!("{:NAMES$}{}", "reached", last(&panel.reached, room)),
        cut(&format!("{:NAMES$}x no answer  ! 503  + queued  o booked  . nothing", ""), width),
    ]
}

/// Returns the first characters of a text.
fn cut(text: &str, room: usize) -> String {
    text.chars().take(room).collect()
}

/// Returns the last characters of a text.
fn last(text: &str, room: usize) -> String {
    let count = text.chars().count();
    text.chars().skip(count.saturating_sub(room)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn panel() -> Panel {
        Panel {
            state: "open".to_owned(),
            about: "until 22:05:10, 7 s left; 5 failures in the window of 60 s".to_owned(),
            depth: 12,
            accepted: 20,
            ocr: "answers nothing; asked 5 times, booked 0 invoices".to_owned(),
            callers: "x".repeat(200),
            reached: ".".repeat(200),
        }
    }

    #[test_case(40)]
    #[test_case(64)]
    #[test_case(100)]
    fn no_line_of_the_panel_is_wider_than_the_terminal(width: usize) {
        for line in lines(&panel(), width - 1, false) {
            assert!(line.chars().count() < width, "{line}");
            assert!(!line.contains('\x1b'), "{line}");
        }
    }

    #[test]
    fn an_empty_queue_has_an_empty_bar_and_a_full_one_a_full_bar() {
        let shown = |depth, accepted| lines(&Panel { depth, accepted, ..panel() }, 79, false)[2].clone();
        assert!(!shown(0, 20).contains('█') && !shown(0, 0).contains('█'));
        assert!(!shown(20, 20).contains('░'));
        assert!(shown(1, 20).contains('█'));
    }
}
