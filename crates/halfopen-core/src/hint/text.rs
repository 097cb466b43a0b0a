//! Cleans text before it is read: colours, frames, typographic signs, markup, and lines that a terminal broke.
//!
//! What comes out is lower case with plain signs, so that the grammars need one spelling of everything. The borders of
//! camel case become `_` first: `retryAfterMs` and `retry_after_ms` are then the same three words. Lines keep their
//! ends; [`joined`] gives the other reading, in which a line's end was put into the middle of a word.

use std::borrow::Cow;

/// How much of one text is read: the head, where a page's title stands, and the tail, where the last word stands.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const TAIL_BYTES_MAX: usize = 48 * 1024;

/// Returns the part of `text` that is read.
pub(super) fn bounded(text: &str) -> Cow<'_, str> {
    if text.len() <= HEAD_BYTES_MAX + TAIL_BYTES_MAX {
        return Cow::Borrowed(text);
    }
    let head = text.floor_char_boundary(HEAD_BYTES_MAX);
    let tail = text.ceil_char_boundary(text.len() - TAIL_BYTES_MAX);
    Cow::Owned(format!("{}\n\n{}", &text[..head], &text[tail..]))
}

/// Returns `text` cleaned: see the module.
pub(super) fn clean(text: &str) -> String {
    let bounded = bounded(text);
    let plain = without_escapes(&bounded);
    let unmarked = if plain.contains(['<', '&']) { without_markup(&plain) } else { plain };
    let mut out = String::with_capacity(unmarked.len() + 16);
    for line in unmarked.split('\n') {
        let line = line.trim_matches(|c: char| c.is_whitespace() || is_frame(c));
        if !out.is_empty() {
            out.push('\n');
        }
        push_line(&mut out, line);
    }
    out
}

/// Returns cleaned text with every line's end taken out, as if a terminal had broken words at its width.
pub(super) fn joined(clean: &str) -> String {
    clean.replace('\n', "")
}

fn push_line(out: &mut String, line: &str) {
    let mut before = ' ';
    for c in line.chars() {
        if c.is_uppercase() && before.is_lowercase() && before.is_ascii() {
            out.push('_');
        }
        before = c;
        match plain(c) {
            Plain::As(text) => out.push_str(text),
            Plain::Itself => out.extend(c.to_lowercase()),
            Plain::Nothing => {}
        }
    }
}

enum Plain {
    As(&'static str),
    Itself,
    Nothing,
}

/// Returns the plain spelling of a character.
fn plain(c: char) -> Plain {
    Plain::As(match c {
        '\u{2018}' | '\u{2019}' | '\u{201b}' | '\u{2032}' | '\u{ff07}' => "'",
        '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{ff02}' | '«' | '»' => "\"",
        '\u{a0}' | '\u{202f}' | '\u{2007}' | '\u{2009}' | '\u{3000}' | '\t' | '\r' => " ",
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{ad}' => {
            return Plain::Nothing;
        }
        '\u{b7}' | '\u{2219}' | '\u{2022}' | '\u{22c5}' | '\u{30fb}' => "·",
        '\u{2010}'..='\u{2012}' | '\u{2212}' => "-",
        '\u{2014}' => "–",
        '\u{ff1a}' | '\u{fe55}' => ":",
        '\u{ff0c}' => ",",
        '\u{ff08}' => "(",
        '\u{ff09}' => ")",
        '\u{ff5e}' | '\u{301c}' | '≈' => "~",
        '\u{2026}' => "...",
        'á' | 'à' | 'â' | 'ã' | 'ä' | 'å' | 'Á' | 'À' | 'Â' | 'Ã' | 'Ä' | 'Å' | 'ą' => "a",
        'é' | 'è' | 'ê' | 'ë' | 'É' | 'È' | 'Ê' | 'Ë' | 'ę' => "e",
        'í' | 'ì' | 'î' | 'ï' | 'Í' | 'Ì' | 'Î' | 'Ï' => "i",
        'ó' | 'ò' | 'ô' | 'õ' | 'ö' | 'Ó' | 'Ò' | 'Ô' | 'Õ' | 'Ö' | 'ø' | 'Ø' => "o",
        'ú' | 'ù' | 'û' | 'ü' | 'Ú' | 'Ù' | 'Û' | 'Ü' => "u",
        'ç' | 'Ç' | 'ć' => "c",
        'ñ' | 'Ñ' | 'ń' => "n",
        'ś' => "s",
        'ł' => "l",
        'ź' | 'ż' => "z",
        'ß' => "ss",
        '\u{ff10}'..='\u{ff19}' => FULLWIDTH_DIGITS[(u32::from(c) - 0xff10) as usize],
        _ => return Plain::Itself,
    })
}

const FULLWIDTH_DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// Returns whether a character belongs to a frame that a program draws around its lines.
fn is_frame(c: char) -> bool {
    matches!(c, '\u{2500}'..='\u{259f}' | '|' | '⎿' | '⏺')
}

/// Returns `text` without terminal escape sequences (colours, links, titles) and other control characters.
fn without_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.next() {
                Some('[') => while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
                Some(']') => {
                    // Ends with BEL or with ESC and a backslash.
                    while let Some(c) = chars.next() {
                        if c == '\u{7}' {
                            break;
                        }
                        if c == '\u{1b}' {
                            chars.next();
                            break;
                        }
                    }
                }
                _ => {}
            },
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' => out.push('\n'),
            '\n' | '\t' => out.push(c),
            // Colours whose escape character was lost: `[31m`.
            '[' if lost_colour(&chars) => while chars.next().is_some_and(|c| c != 'm') {},
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

fn lost_colour(rest: &std::iter::Peekable<std::str::Chars<'_>>) -> bool {
    let mut digits = 0;
    for c in rest.clone().take(12) {
        match c {
            '0'..='9' | ';' => digits += 1,
            'm' => return digits > 0,
            _ => return false,
        }
    }
    false
}

/// Elements that only shape a page; any other element's name may be a field's.
const PAGE_ELEMENTS: [&str; 34] = [
    "a", "abbr", "article", "b", "body", "br", "center", "code", "dd", "div", "dl", "dt", "em", "font", "footer", "h1",
    "h2", "h3", "h4", "head", "header", "hr", "html", "i", "li", "main", "p", "pre", "section", "small", "span",
    "strong", "td", "title",
];

/// Returns `text` with a page's markup gone; `<RetryAfter>5</RetryAfter>` becomes `RetryAfter: 5`.
fn without_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('<') {
        out.push_str(&rest[..open]);
        rest = &rest[open..];
        let lower_head: String = rest.chars().take(8).collect::<String>().to_ascii_lowercase();
        if let Some(raw) =
            ["script", "style"].into_iter().find(|name| lower_head.get(1..).is_some_and(|h| h.starts_with(name)))
        {
            let close = format!("</{raw}");
            let Some(end) = find_ignoring_case(&rest[1..], &close) else { break };
            rest = &rest[1 + end..];
        }
        if let Some(comment) = rest.strip_prefix("<!--") {
            let Some(end) = comment.find("-->") else {
                rest = "";
                break;
            };
            rest = &comment[end + 3..];
            continue;
        }
        let name: &str = {
            let inner = rest[1..].trim_start_matches(['/', '!', '?']);
            &inner[..inner
                .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, ':' | '_' | '-'))
                .unwrap_or(inner.len())]
        };
        let close = rest.find('>').filter(|end| *end < 4096 && !rest[1..*end].contains('<'));
        let (Some(end), false) = (close, name.is_empty()) else {
            out.push('<');
            rest = &rest[1..];
            continue;
        };
        let local = name.rsplit(':').next().unwrap_or(name);
        let lower = local.to_ascii_lowercase();
        if matches!(lower.as_str(), "b" | "i" | "em" | "strong" | "span" | "a" | "code" | "small" | "font" | "abbr") {
            // A figure set in bold still belongs to its sentence.
        } else if PAGE_ELEMENTS.contains(&lower.as_str()) || rest.starts_with("</") {
            out.push('\n');
        } else {
            out.push('\n');
            out.push_str(local);
            out.push_str(": ");
        }
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    for (entity, plain) in [
        ("&nbsp;", " "),
        ("&#39;", "'"),
        ("&apos;", "'"),
        ("&quot;", "\""),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
    ] {
        if out.contains(entity) {
            out = out.replace(entity, plain);
        }
    }
    out
}

fn find_ignoring_case(text: &str, needle: &str) -> Option<usize> {
    text.as_bytes().windows(needle.len()).position(|window| window.eq_ignore_ascii_case(needle.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("\u{1b}[31mRetry\u{1b}[0m after" => "retry after")]
    #[test_case("\u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{7}" => "link")]
    #[test_case("[1;33mresets 3pm[0m" => "resets 3pm")]
    #[test_case("│ You’ve hit │\n│ it ∙ resets │" => "you've hit\nit · resets")]
    #[test_case("retryAfterMs" => "retry_after_ms")]
    #[test_case("\u{91cd}\u{ff1a}\u{ff13}\u{ff10}" => "\u{91cd}:30"; "wide digits")]
    #[test_case("Réessayez" => "reessayez")]
    #[test_case("<p>Retry after <b>30</b> s</p>" => "retry after 30 s")]
    #[test_case("<RetryAfterSeconds>30</RetryAfterSeconds>" => "retry_after_seconds: 30")]
    #[test_case("<style>p{x:5s}</style>hi" => "hi")]
    #[test_case("a < b > c" => "a < b > c")]
    #[test_case("5:00\u{202f}PM" => "5:00 pm")]
    #[test_case("“a” „b‟ «c» ＂d＂" => "\"a\" \"b‟ \"c\" \"d\"")]
    #[test_case("re\u{ad}try\u{200b} \u{202a}in\u{2066} 5\u{feff}s" => "retry in 5s"; "signs without a width")]
    #[test_case("5\u{2010}10 \u{2212}3 a\u{2014}b" => "5-10 -3 a–b"; "dashes")]
    #[test_case("请\u{ff08}5\u{ff09}\u{ff0c}\u{ff5e}5 \u{301c}5 ≈5\u{2026}" => "请(5),~5 ~5 ~5..."; "wide signs")]
    #[test_case("ÀÉÍì ÓÚ ñÑń śłźż ß çÇć ąę" => "aeii ou nnn slzz ss ccc ae"; "letters with marks")]
    #[test_case("a\r\nb" => "a\nb"; "the end of a line in two signs")]
    #[test_case("5%\rretry" => "5%\nretry"; "a line that is written over")]
    #[test_case("retry\u{c}after" => "retry after"; "a form feed")]
    #[test_case("[most recent" => "[most recent")]
    #[test_case("a<!-- retry in 5 s -->b<!-- in 6 s" => "ab"; "comments")]
    #[test_case("1<y <b>5</b>" => "1<y 5"; "a sign that opens nothing")]
    #[test_case("You&#39;re &quot;out&quot;&nbsp;&amp; over" => "you're \"out\" & over"; "a page's signs without a page")]
    fn text_is_cleaned(text: &str) -> String {
        clean(text).trim().to_owned()
    }

    #[test]
    fn a_long_text_keeps_its_head_and_its_tail() {
        let text = format!("head{}é{}tail", "x".repeat(80_000), "y".repeat(80_000));
        let kept = bounded(&text);
        assert!(kept.len() <= HEAD_BYTES_MAX + TAIL_BYTES_MAX + 2);
        assert!(kept.starts_with("head") && kept.ends_with("tail"));
    }
}
