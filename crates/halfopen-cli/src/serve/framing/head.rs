//! Judges the head of a request line by line, as it arrives.

use super::Ambiguity;

/// How long a head may be, in bytes.
pub(super) const HEAD_BYTES_MAX: usize = 64 << 10;
/// How many fields it may have; hyper takes no more either.
pub(super) const FIELDS_MAX: usize = 100;
/// What a target may hold besides letters and digits.
const PUNCTUATION: &[u8] = b"/-_.?=&%+:,;~@!$'()*[]";
/// How many empty lines may stand before it (RFC 9112 section 2.2 asks to ignore one).
const EMPTY_LINES_MAX: usize = 2;

/// How the body behind a head ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// After so many bytes.
    Counted(u64),
    /// With a chunk of size 0.
    Chunked,
}

/// A head as far as it is known. All offsets count from its first byte.
#[derive(Debug)]
pub(super) struct Head {
    /// Where the line begins that is not complete yet.
    line: usize,
    /// How far line ends were searched for, so that a head that drips in is not searched over and over.
    searched: usize,
    empty_lines: usize,
    request_line: Option<Version>,
    fields: usize,
    length: Option<u64>,
    chunked: bool,
    host: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Http10,
    Http11,
}

impl Head {
    pub(super) const fn new() -> Self {
        Self {
            line: 0,
            searched: 0,
            empty_lines: 0,
            request_line: None,
            fields: 0,
            length: None,
            chunked: false,
            host: false,
        }
    }

    /// Looks at the head's bytes, all of them from its first; returns its length and its body once it is complete.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Result<Option<(usize, Body)>, Ambiguity> {
        while let Some(found) = memchr::memchr(b'\n', &bytes[self.searched..]) {
            let feed = self.searched + found;
            let [line @ .., b'\r'] = &bytes[self.line..feed] else { return Err(Ambiguity::BadLineEnd) };
            self.line = feed + 1;
            self.searched = self.line;
            if self.line > HEAD_BYTES_MAX {
                return Err(Ambiguity::HeadTooLarge);
            }
            match (self.request_line, line) {
                (None, []) => {
                    self.empty_lines += 1;
                    if self.empty_lines > EMPTY_LINES_MAX {
                        return Err(Ambiguity::BadRequestLine);
                    }
                }
                (None, line) => self.request_line = Some(request_line(line)?),
                (Some(version), []) => return self.end(version).map(|body| Some((self.line, body))),
                (Some(_), line) => self.field(line)?,
            }
        }
        self.searched = bytes.len();
        if bytes.len() > HEAD_BYTES_MAX { Err(Ambiguity::HeadTooLarge) } else { Ok(None) }
    }

    fn end(&self, version: Version) -> Result<Body, Ambiguity> {
        match (self.length, self.chunked, version) {
            (Some(_), true, _) => Err(Ambiguity::LengthAndCoding),
            // HTTP/1.0 knows no chunks: whoever believes the version ends the body elsewhere.
            (None, true, Version::Http10) => Err(Ambiguity::OtherCoding),
            (None, true, Version::Http11) => Ok(Body::Chunked),
            (length, false, _) => Ok(Body::Counted(length.unwrap_or(0))),
        }
    }

    fn field(&mut self, line: &[u8]) -> Result<(), Ambiguity> {
        self.fields += 1;
        if self.fields > FIELDS_MAX {
            return Err(Ambiguity::HeadTooLarge);
        }
        if matches!(line.first(), Some(b' ' | b'\t')) {
            return Err(Ambiguity::FoldedLine);
        }
        let colon = memchr::memchr(b':', line).ok_or(Ambiguity::BadName)?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
            return Err(Ambiguity::BadName);
        }
        value_is_plain(value)?;
        // Only three names matter here; their lengths tell almost everything else apart from them.
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                let twice = std::mem::replace(&mut self.host, true);
                if twice {
                    return Err(Ambiguity::TwoHosts);
                }
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let length = plain_length(value.trim_ascii()).ok_or(Ambiguity::BadLength)?;
                if self.length.replace(length).is_some() {
                    return Err(Ambiguity::TwoLengths);
                }
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                let chunked = value.trim_ascii().eq_ignore_ascii_case(b"chunked");
                if !chunked || std::mem::replace(&mut self.chunked, true) {
                    return Err(Ambiguity::OtherCoding);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn request_line(line: &[u8]) -> Result<Version, Ambiguity> {
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Ambiguity::BadRequestLine);
    };
    let is_target = |byte: &u8| !byte.is_ascii_control() && *byte != b' ';
    if method.is_empty() || !method.iter().all(|byte| is_token(*byte)) || target.is_empty() {
        return Err(Ambiguity::BadRequestLine);
    }
    if !target.iter().all(is_target) {
        return Err(Ambiguity::ControlByte);
    }
    // hyper would refuse it too, without a word.
    let is_plain = target.starts_with(b"/")
        && target.iter().all(|byte| byte.is_ascii_alphanumeric() || PUNCTUATION.contains(byte));
    if !is_plain && http::Uri::try_from(target).is_err() {
        return Err(Ambiguity::BadRequestLine);
    }
    match version {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        _ => Err(Ambiguity::BadRequestLine),
    }
}

/// Refuses control bytes but the tab.
pub(super) fn value_is_plain(value: &[u8]) -> Result<(), Ambiguity> {
    // Without an early end the loop is one the compiler makes wide.
    let bad = value.iter().fold(false, |bad, byte| bad | (*byte < b' ') & (*byte != b'\t') | (*byte == 0x7f));
    if !bad {
        return Ok(());
    }
    Err(if value.contains(&b'\r') { Ambiguity::BadLineEnd } else { Ambiguity::ControlByte })
}

/// Reads digits and nothing else; `None` also for more than a file can have.
fn plain_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let length: u64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    (length <= i64::MAX.unsigned_abs()).then_some(length)
}

/// Returns whether a byte may stand in a name (RFC 9110 section 5.6.2).
pub(super) const fn is_token(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// One look-up a byte: names are most of what is read here.
static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128_u8 {
        table[byte as usize] = byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
            );
        byte += 1;
    }
    table
};
