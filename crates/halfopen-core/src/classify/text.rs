//! Folds text so that a phrase is found however it was printed, and finds phrases in it.
//!
//! Terminals wrap lines, tools colour and decorate them, and an apostrophe may be curly. Rules are written in plain
//! lower case; texts are folded once and then searched many times with plain substring search, which costs nanoseconds
//! per phrase and needs no compiled automaton on the failure path of a process that lives for milliseconds.

/// A text that rules may look at, with the place where it stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    /// Where it was found (`stderr, last lines`).
    pub(crate) place: String,
    /// As it was written, without terminal escapes.
    pub(crate) shown: String,
    /// Folded.
    pub(crate) folded: String,
}

impl Text {
    pub(crate) fn new(place: &str, shown: &str) -> Self {
        Self { place: place.to_owned(), folded: fold(shown), shown: shown.to_owned() }
    }
}

/// Returns `text` in lower case, with every run of white space as one space, plain apostrophes and plain colons, and
/// nothing around it.
#[must_use]
pub(crate) fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let mut space = false;
    for ch in text.chars() {
        if ch.is_whitespace() || ch == '\u{feff}' || ch == '\u{200b}' {
            space = true;
            continue;
        }
        if space && !folded.is_empty() {
            folded.push(' ');
        }
        space = false;
        match ch {
            '\u{2018}' | '\u{2019}' | '\u{02bc}' => folded.push('\''),
            '\u{201c}' | '\u{201d}' => folded.push('"'),
            '\u{ff1a}' => folded.push(':'),
            '\u{2010}' | '\u{2011}' => folded.push('-'),
            _ if ch.is_ascii() => folded.push(ch.to_ascii_lowercase()),
            _ => folded.extend(ch.to_lowercase()),
        }
    }
    folded
}

/// Returns where `phrase` (folded) stands in `folded` as whole words.
#[must_use]
pub(crate) fn find_phrase(folded: &str, phrase: &str) -> Option<usize> {
    if phrase.is_empty() {
        return None;
    }
    memchr::memmem::find_iter(folded.as_bytes(), phrase.as_bytes()).find(|&at| {
        let before = folded[..at].chars().next_back();
        let after = folded[at + phrase.len()..].chars().next();
        !(joins(before) && joins(phrase.chars().next()) || joins(after) && joins(phrase.chars().next_back()))
    })
}

/// Returns whether a character would go on a word. Scripts without spaces between words never do.
fn joins(ch: Option<char>) -> bool {
    ch.is_some_and(|ch| ch.is_ascii_alphanumeric() || ch == '_')
}

/// Returns `line` without what tools put before their messages: bullets, crosses, boxes, brackets, quotes.
#[must_use]
pub(crate) fn undecorated(line: &str) -> &str {
    line.trim_start_matches(|ch: char| {
        ch.is_whitespace() || matches!(ch, '>' | '*' | '|' | '[' | '!' | '"' | '\'' | '-') || is_glyph(ch)
    })
}

/// Returns whether a character is drawn rather than read: arrows, boxes, dingbats, emoji.
pub(crate) fn is_glyph(ch: char) -> bool {
    matches!(u32::from(ch), 0x2190..=0x2bff | 0x1f300..=0x1faff | 0xfe0f | 0xb7 | 0x2022)
}

/// Returns `text` without terminal escape sequences (CSI, OSC, single-character) and without carriage returns that only
/// redraw a line.
#[must_use]
pub(crate) fn without_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(ch) = chars.next() {
        match ch {
            '\u{1b}' => match chars.next() {
                Some('[') => while chars.next().is_some_and(|c| !('\u{40}'..='\u{7e}').contains(&c)) {},
                Some(']') => {
                    while let Some(c) = chars.next() {
                        if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                            break;
                        }
                    }
                }
                _ => {}
            },
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' => out.push('\n'),
            '\u{8}' => {}
            _ => out.push(ch),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test]
    fn folding_undoes_wrapping_case_and_typography() {
        assert_eq!(fold("  You\u{2019}ve hit\n   your  LIMIT\u{ff1a} now "), "you've hit your limit: now");
    }

    #[test_case("rate limit exceeded", "rate limit", true; "words")]
    #[test_case("rate_limits table", "rate_limit", false; "longer word")]
    #[test_case("test_rate_limit", "rate_limit", false; "tail of an identifier")]
    #[test_case("\"rate_limit\"", "rate_limit", true; "quoted")]
    #[test_case("您的限额将在", "限额", true; "script without spaces")]
    fn phrases_are_whole_words(text: &str, phrase: &str, found: bool) {
        assert_eq!(find_phrase(text, phrase).is_some(), found);
    }

    #[test]
    fn escapes_are_removed_and_text_stays() {
        assert_eq!(without_escapes("\u{1b}[31mred\u{1b}[0m \u{1b}]8;;http://x\u{7}link\r\nend"), "red link\nend");
        assert_eq!(without_escapes("cut \u{1b}["), "cut ");
    }

    #[test]
    fn decoration_is_taken_off() {
        assert_eq!(undecorated("  ⎿  Claude usage"), "Claude usage");
        assert_eq!(undecorated("✕ [API Error: x]"), "API Error: x]");
        assert_eq!(undecorated("■ exceeded"), "exceeded");
    }
}
