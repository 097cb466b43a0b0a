//! Follows the requests of one connection: head, body, head.

use super::Ambiguity;
use super::chunked::Chunked;
use super::head::{Body, Head};

/// What an HTTP/2 connection begins with (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Where in the sequence of requests a connection is.
#[derive(Debug)]
pub(super) struct Scanner {
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// At the very beginning, where HTTP/2 shows itself.
    Beginning,
    /// In a head.
    Head(Head),
    /// In a body of which so many bytes are to come.
    Counted(u64),
    /// In a body in chunks.
    Chunked(Chunked),
    /// In something whose framing means one thing.
    Opaque,
}

/// What [`Scanner::advance`] saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// How many bytes may pass. The rest is the beginning of a head, unless it is ambiguous.
    pub(super) passed: usize,
    /// What is wrong behind them.
    pub(super) ambiguity: Option<Ambiguity>,
}

impl Scanner {
    pub(super) const fn new() -> Self {
        Self { place: Place::Beginning }
    }

    /// Returns whether nothing was understood yet.
    pub(super) const fn is_at_the_beginning(&self) -> bool {
        matches!(self.place, Place::Beginning)
    }

    /// Returns whether a body has begun and not ended.
    pub(super) const fn is_in_body(&self) -> bool {
        matches!(self.place, Place::Counted(_) | Place::Chunked(_))
    }

    /// Looks at what was received. Bytes that did not pass must be shown again, with more behind them.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Seen {
        let mut passed = 0;
        while passed < bytes.len() {
            let rest = &bytes[passed..];
            match &mut self.place {
                Place::Opaque => passed = bytes.len(),
                Place::Beginning => {
                    let shown = rest.len().min(PREFACE.len());
                    if rest[..shown] != PREFACE[..shown] {
                        self.place = Place::Head(Head::new());
                    } else if shown == PREFACE.len() {
                        self.place = Place::Opaque;
                    } else {
                        break;
                    }
                }
                Place::Head(head) => match head.advance(rest) {
                    Ok(None) => break,
                    Ok(Some((length, body))) => {
                        passed += length;
                        self.place = match body {
                            Body::Counted(0) => Place::Head(Head::new()),
                            Body::Counted(length) => Place::Counted(length),
                            Body::Chunked => Place::Chunked(Chunked::new()),
                        };
                    }
                    Err(ambiguity) => return Seen { passed, ambiguity: Some(ambiguity) },
                },
                Place::Counted(left) => {
                    let here = u64::try_from(rest.len()).unwrap_or(u64::MAX).min(*left);
                    *left -= here;
                    if *left == 0 {
                        self.place = Place::Head(Head::new());
                    }
                    passed += usize::try_from(here).unwrap_or(rest.len());
                }
                Place::Chunked(chunked) => {
                    let (length, result) = chunked.advance(rest);
                    passed += length;
                    match result {
                        Ok(true) => self.place = Place::Head(Head::new()),
                        Ok(false) => {}
                        Err(ambiguity) => return Seen { passed, ambiguity: Some(ambiguity) },
                    }
                }
            }
        }
        Seen { passed, ambiguity: None }
    }
}
