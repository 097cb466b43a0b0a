//! Says what is to be said about a policy file: what is wrong, where it stands, what may be written instead.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level as Look, Renderer, Snippet};

/// Something to say about a policy file, with the place it stands at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it stops the file from being used.
    pub level: Level,
    /// 1-based.
    pub line: usize,
    /// 1-based, in characters.
    pub column: usize,
    /// The key it is about, with dots, from the top of the file; empty if it is about the whole file.
    pub key: String,
    /// One line.
    pub message: String,
    /// What to do instead, in one line.
    pub help: Option<String>,
    /// The message with file, line, excerpt and caret, as a person reads it; without colour.
    pub rendered: String,
}

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Worth knowing.
    Note,
    /// Probably not what was meant.
    Warning,
    /// The file cannot be used.
    Error,
}

impl Level {
    /// Returns the word that is printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rendered)
    }
}

/// A finding before it is rendered. Rendering costs more than all the rest of reading a file, and a run that goes well
/// shows none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remark {
    pub(super) level: Level,
    pub(super) span: Range<usize>,
    pub(super) key: String,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

/// The text that findings point into.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    /// What the file is called in messages.
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

impl<'a> Source<'a> {
    /// Returns what is written at `span`, on one line and at most 40 characters of it.
    pub(super) fn excerpt(&self, span: &Range<usize>) -> String {
        let written = self.text.get(span.clone()).unwrap_or_default();
        let mut line: String = written.chars().map(|c| if c.is_control() { ' ' } else { c }).take(40).collect();
        if written.chars().nth(40).is_some() {
            line.push('…');
        }
        line
    }

    /// Renders a remark.
    pub(super) fn finding(&self, remark: &Remark) -> Finding {
        let (line, column) = self.position(remark.span.start);
        Finding {
            level: remark.level,
            line,
            column,
            key: remark.key.clone(),
            message: remark.message.clone(),
            help: remark.help.clone(),
            rendered: self.render(remark, line),
        }
    }

    /// Returns the 1-based line of a place.
    pub(super) fn line(&self, at: usize) -> usize {
        self.position(at).0
    }

    fn position(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        (line, before.get(line_start..).unwrap_or_default().chars().count() + 1)
    }

    fn render(&self, remark: &Remark, line: usize) -> String {
        let look = match remark.level {
            Level::Note => Look::NOTE,
            Level::Warning => Look::WARNING,
            Level::Error => Look::ERROR,
        };
        // Only the line itself is handed over: a file may be large, and a caret needs one line.
        let start = self.text.get(..remark.span.start).and_then(|text| text.rfind('\n')).map_or(0, |at| at + 1);
        let rest = self.text.get(start..).unwrap_or_default();
        let excerpt = rest.lines().next().unwrap_or_default();
        let from = (remark.span.start - start).min(excerpt.len());
        let to = remark.span.end.saturating_sub(start).min(excerpt.len()).max(from);
        let snippet = Snippet::source(excerpt)
            .path(self.name)
            .line_start(line)
            .annotation(AnnotationKind::Primary.span(from..to));
        let mut group = look.primary_title(remark.message.as_str()).element(snippet);
        if let Some(help) = &remark.help {
            group = group.element(Look::HELP.message(help.as_str()));
        }
        let mut rendered = Renderer::plain().render(&[group]);
        rendered.push('\n');
        rendered
    }
}
