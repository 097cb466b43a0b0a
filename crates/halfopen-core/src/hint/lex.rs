//! Cuts text into words, numbers and signs, so that every grammar of this module reads the same tokens.
//!
//! The text was cleaned before ([`super::text`]): lower case, one kind of blank, one kind of quote. A change between
//! letters and digits is a border (`5pm`, `9m38.016s`), and so is every `_` and `-`; whether two tokens touch each
//! other is kept, because `test_5` and `5 tests` are not the same.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Letters.
    Word,
    /// Digits, perhaps with one decimal point or with commas between thousands.
    Number,
    /// Any other character but blanks.
    Sign,
    /// The end of a line.
    Break,
}

/// A piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'t> {
    pub(super) kind: Kind,
    pub(super) text: &'t str,
    /// Where it starts, in bytes.
    pub(super) start: usize,
    /// Whether a blank or a line's end stands before it.
    pub(super) spaced: bool,
}

impl<'t> Token<'t> {
    pub(super) fn is(&self, text: &str) -> bool {
        self.text == text
    }

    pub(super) fn word(&self) -> Option<&'t str> {
        (self.kind == Kind::Word).then_some(self.text)
    }

    /// Returns a whole number of at most `digits` digits.
    pub(super) fn whole(&self, digits: usize) -> Option<u32> {
        if self.text.len() <= digits { self.text.parse().ok() } else { None }
    }
}

/// Returns the tokens of `text` in order.
pub(super) fn lex(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut spaced = true;
    let mut chars = text.char_indices().peekable();
    while let Some((start, first)) = chars.next() {
        let kind = match first {
            '\n' => Kind::Break,
            c if c.is_whitespace() => {
                spaced = true;
                continue;
            }
            c if c.is_ascii_digit() => Kind::Number,
            c if c.is_alphabetic() => Kind::Word,
            _ => Kind::Sign,
        };
        let mut end = start + first.len_utf8();
        match kind {
            Kind::Number => {
                end = number_end(bytes, start);
                while chars.peek().is_some_and(|&(at, _)| at < end) {
                    chars.next();
                }
            }
            Kind::Word => {
                while let Some(&(at, c)) = chars.peek() {
                    if !c.is_alphabetic() {
                        break;
                    }
                    end = at + c.len_utf8();
                    chars.next();
                }
            }
            Kind::Sign | Kind::Break => {}
        }
        tokens.push(Token { kind, text: &text[start..end], start, spaced });
        spaced = kind == Kind::Break;
    }
    tokens
}

/// Returns where the number that starts at `start` ends.
fn number_end(bytes: &[u8], start: usize) -> usize {
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut end = start + digits(start);
    // Thousands: one to three digits, then groups of exactly three.
    let mut grouped = end;
    while end - start <= 3 && bytes.get(grouped) == Some(&b',') && digits(grouped + 1) == 3 {
        grouped += 4;
    }
    end = grouped;
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        end += 1 + digits(end + 1);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("resets 5pm (europe/warsaw)" => vec!["resets", "5", "pm", "(", "europe", "/", "warsaw", ")"])]
    #[test_case("in 9m38.016s." => vec!["in", "9", "m", "38.016", "s", "."])]
    #[test_case("1,200 seconds" => vec!["1,200", "seconds"])]
    #[test_case("oct 31,2026" => vec!["oct", "31", ",", "2026"])]
    #[test_case("120, 60" => vec!["120", ",", "60"])]
    #[test_case("12:16" => vec!["12", ":", "16"])]
    #[test_case("через 5" => vec!["через", "5"])]
    #[test_case("a\nb" => vec!["a", "\n", "b"])]
    fn text_is_cut_at_every_border(text: &str) -> Vec<&str> {
        lex(text).into_iter().map(|token| token.text).collect()
    }
}
