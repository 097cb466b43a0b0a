//! Folds text so that a phrase is found however it was printed, and finds phrases in it.
//!
//! Terminals wrap lines, tools colour and decorate them, and an apostrophe may be curly. Rules are written in plain
//! lower case; texts are folded once and then searched many times with plain substring search, which costs nanoseconds
//! per phrase and needs no compiled automaton on the failure path of a process that lives for milliseconds.

use std::cell::OnceCell;

/// A text that rules may look at, with the place where it stood. It is folded when a rule first looks.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    /// Where it was found (`stderr, last lines`).
    pub(crate) place: String,
    /// As it was written, without terminal escapes.
    pub(crate) shown: String,
    folded: OnceCell<(String, WordSet)>,
}

impl Text {
    pub(crate) fn new(place: &str, shown: &str) -> Self {
        Self { place: place.to_owned(), shown: shown.to_owned(), folded: OnceCell::new() }
    }

    fn read(&self) -> &(String, WordSet) {
        self.folded.get_or_init(|| {
            let folded = fold(&self.shown);
            let words = WordSet::of(&folded);
            (folded, words)
        })
    }

    /// Returns the text folded.
    pub(crate) fn folded(&self) -> &str {
        &self.read().0
    }

    /// Returns whether `phrase` stands in the text.
    pub(crate) fn says(&self, phrase: &Phrase) -> bool {
        let (folded, words) = self.read();
        phrase.first.is_none_or(|bit| words.may_have(bit)) && find_phrase(folded, &phrase.text).is_some()
    }
}

/// Which words a text may have: a small Bloom filter with one bit a word, so that most phrases cost one look.
#[derive(Clone, Debug)]
struct WordSet([u64; 16]);

impl WordSet {
    fn of(folded: &str) -> Self {
        let mut set = Self([0; 16]);
        for word in words(folded) {
            let bit = bit_of(word);
            set.0[usize::from(bit >> 6)] |= 1 << (bit & 63);
        }
        set
    }

    fn may_have(&self, bit: u16) -> bool {
        self.0[usize::from(bit >> 6)] & (1 << (bit & 63)) != 0
    }
}

/// A folded phrase.
#[derive(Clone, Debug)]
pub(crate) struct Phrase {
    pub(crate) text: String,
    /// The bit of its first word; a phrase in a script without spaces has none.
    first: Option<u16>,
}

impl Phrase {
    pub(crate) fn new(written: &str) -> Self {
        let text = fold(written);
        let first = words(&text).next().map(bit_of).filter(|_| text.is_ascii());
        Self { text, first }
    }
}

/// Returns the words of a folded text, as [`find_phrase`] sees their ends.
fn words(folded: &str) -> impl Iterator<Item = &str> {
    folded.split(|ch: char| !joins(Some(ch))).filter(|word| !word.is_empty())
}

/// Returns one of 1024 bits for a word (FNV-1a).
fn bit_of(word: &str) -> u16 {
    let hash = word.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    u16::try_from((hash ^ (hash >> 16)) & 1023).unwrap_or(0)
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
    if memchr::memchr3(b'\x1b', b'\r', b'\x08', text.as_bytes()).is_none() {
        return text.to_owned();
    }
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
        assert_eq!(
            fold("\u{201c}Rate\u{2010}limited\u{201d} re\u{2011}try \u{feff}\u{200b}"),
            "\"rate-limited\" re-try"
        );
    }

    #[test_case("rate limit exceeded", "rate limit", true; "words")]
    #[test_case("rate_limits table", "rate_limit", false; "longer word")]
    #[test_case("test_rate_limit", "rate_limit", false; "tail of an identifier")]
    #[test_case("\"rate_limit\"", "rate_limit", true; "quoted")]
    #[test_case("您的限额将在", "限额", true; "script without spaces")]
    fn phrases_are_whole_words(text: &str, phrase: &str, found: bool) {
        assert_eq!(find_phrase(text, phrase).is_some(), found);
    }

    #[test_case("slow down: rate limit of 5/min reached", "/min")]
    #[test_case("error (toomanyrequests): no", "(toomanyrequests)")]
    #[test_case("You\u{2019}ve hit\nyour limit", "you've hit your")]
    #[test_case("您的限额将在", "限额")]
    #[test_case("api_rate limit", "limit")]
    fn the_filter_never_hides_a_phrase(text: &str, phrase: &str) {
        assert!(Text::new("", text).says(&Phrase::new(phrase)));
    }

    #[test]
    fn escapes_are_removed_and_text_stays() {
        assert_eq!(without_escapes("\u{1b}[31mred\u{1b}[0m \u{1b}]8;;http://x\u{7}link\r\nend"), "red link\nend");
        assert_eq!(without_escapes("cut \u{1b}["), "cut ");
        assert_eq!(without_escapes("5%\u{8}\u{8}6%\rdone"), "5%6%\ndone");
    }

    #[test]
    fn decoration_is_taken_off() {
        assert_eq!(undecorated("  ⎿  Claude usage"), "Claude usage");
        assert_eq!(undecorated("✕ [API Error: x]"), "API Error: x]");
        assert_eq!(undecorated("■ exceeded"), "exceeded");
    }
}
