//! Decodes a path as far as any server might.
//!
//! Besides percent signs, two disguises of ASCII are folded: overlong UTF-8 (`%c0%ae` for a dot), which lenient decoders
//! still accept, and fullwidth forms (`．`, `／`, `＼`), which some map to ASCII. Only the judgement sees the result.

use super::PathFault;

/// How many layers of encoding are taken off before the path is refused.
const LAYERS_MAX: u32 = 3;

/// Returns whether a byte could stand for something else than itself.
pub(super) const fn is_ambiguous(byte: u8) -> bool {
    matches!(byte, b'%' | b'\\' | b';' | b'#') || !byte.is_ascii_graphic()
}

/// Returns `path` with every layer taken off.
///
/// # Errors
///
/// [`PathFault::BadEscape`] if the outermost layer is malformed, [`PathFault::TooOftenEncoded`] if there are more than
/// three.
pub(super) fn fully(path: &[u8]) -> Result<Vec<u8>, PathFault> {
    let well_formed = memchr::memchr_iter(b'%', path).all(|at| escaped(&path[at..]).is_some());
    if !well_formed {
        return Err(PathFault::BadEscape);
    }
    let mut plain = path.to_vec();
    for _ in 0..=LAYERS_MAX {
        let next = folded(&decoded(&plain));
        if next == plain {
            return Ok(plain);
        }
        plain = next;
    }
    Err(PathFault::TooOftenEncoded)
}

/// Takes one layer of percent-encoding off; what is no escape stays.
pub(super) fn decoded(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        match escaped(rest) {
            Some(byte) => {
                out.push(byte);
                rest = &rest[3..];
            }
            None => {
                out.push(*first);
                rest = &rest[1..];
            }
        }
    }
    out
}

/// Returns the byte that an escape at the start stands for.
fn escaped(bytes: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = bytes else { return None };
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// Replaces what some decoders take for ASCII by that ASCII.
fn folded(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        let (byte, length) = match rest {
            [0xc0 | 0xc1, low @ 0x80..=0xbf, ..] => ((first & 1) << 6 | low & 0x3f, 2),
            [0xe0, high @ (0x80 | 0x81), low @ 0x80..=0xbf, ..] => ((high & 1) << 6 | low & 0x3f, 3),
            // U+FF01 to U+FF5E are the fullwidth forms of 0x21 to 0x7e.
            [0xef, 0xbc, low @ 0x81..=0xbf, ..] => (low - 0x81 + 0x21, 3),
            [0xef, 0xbd, low @ 0x80..=0x9e, ..] => (low - 0x80 + 0x60, 3),
            _ => (*first, 1),
        };
        out.push(byte);
        rest = &rest[length..];
    }
    out
}
