//! Follows a body in chunks to its end, without keeping any of it.
//!
//! Stricter than the standard asks where lenience only serves attacks: no white space around a size, no bare line feed,
//! no size of more than fifteen digits, no extension longer than anybody sends.

use super::Ambiguity;
use super::head::is_token;

/// How many digits a size may have: less than would overflow.
const DIGITS_MAX: u8 = 15;
/// How long the extension of one chunk may be, in bytes.
const EXTENSION_BYTES_MAX: u16 = 1024;
/// How long all trailer fields may be, in bytes.
const TRAILER_BYTES_MAX: u16 = 16 << 10;

/// Where in a body in chunks the next byte stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunked {
    at: At,
    /// The size of the chunk, then what is left of it.
    left: u64,
    digits: u8,
    extension: u16,
    trailer: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Size,
    Extension,
    SizeFeed,
    Data,
    DataReturn,
    DataFeed,
    /// At the start of a line behind the last chunk.
    TrailerLine,
    TrailerName,
    TrailerValue,
    TrailerFeed,
    EndFeed,
}

impl Chunked {
    pub(super) const fn new() -> Self {
        Self { at: At::Size, left: 0, digits: 0, extension: 0, trailer: 0 }
    }

    /// Looks at the next bytes; returns how many belong to the body, and whether it has ended with them.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> (usize, Result<bool, Ambiguity>) {
        let mut passed = 0;
        while passed < bytes.len() {
            if self.at == At::Data {
                let here = u64::try_from(bytes.len() - passed).unwrap_or(u64::MAX).min(self.left);
                self.left -= here;
                passed += usize::try_from(here).unwrap_or(bytes.len() - passed);
                if self.left == 0 {
                    self.at = At::DataReturn;
                }
                continue;
            }
            match self.step(bytes[passed]) {
                Ok(ended) => {
                    passed += 1;
                    if ended {
                        return (passed, Ok(true));
                    }
                }
                Err(ambiguity) => return (passed, Err(ambiguity)),
            }
        }
        (passed, Ok(false))
    }

    /// Takes one byte that is not data.
    fn step(&mut self, byte: u8) -> Result<bool, Ambiguity> {
        if matches!(self.at, At::TrailerLine | At::TrailerName | At::TrailerValue) {
            self.trailer += 1;
            if self.trailer > TRAILER_BYTES_MAX {
                return Err(Ambiguity::BadTrailer);
            }
        }
        self.at = match (self.at, byte) {
            (At::Size, b'\r') if self.digits > 0 => At::SizeFeed,
            (At::Size, b';') if self.digits > 0 => At::Extension,
            (At::Size, digit) => {
                let value = char::from(digit).to_digit(16).ok_or(Ambiguity::BadChunk)?;
                self.digits += 1;
                if self.digits > DIGITS_MAX {
                    return Err(Ambiguity::BadChunk);
                }
                self.left = self.left << 4 | u64::from(value);
                At::Size
            }
            (At::Extension, b'\r') => At::SizeFeed,
            (At::Extension, byte) => {
                self.extension += 1;
                if self.extension > EXTENSION_BYTES_MAX || byte.is_ascii_control() && byte != b'\t' {
                    return Err(Ambiguity::BadChunk);
                }
                At::Extension
            }
            (At::SizeFeed, b'\n') => {
                self.digits = 0;
                self.extension = 0;
                if self.left == 0 { At::TrailerLine } else { At::Data }
            }
            (At::DataReturn, b'\r') => At::DataFeed,
            (At::DataFeed, b'\n') => At::Size,
            (At::SizeFeed | At::Data | At::DataReturn | At::DataFeed, _) => return Err(Ambiguity::BadChunk),
            (At::TrailerLine, b'\r') => At::EndFeed,
            (At::TrailerLine | At::TrailerName, byte) if is_token(byte) => At::TrailerName,
            (At::TrailerName, b':') => At::TrailerValue,
            (At::TrailerValue, b'\r') => At::TrailerFeed,
            (At::TrailerValue, byte) if !byte.is_ascii_control() || byte == b'\t' => At::TrailerValue,
            (At::TrailerFeed, b'\n') => At::TrailerLine,
            (At::EndFeed, b'\n') => return Ok(true),
            (At::TrailerLine | At::TrailerName | At::TrailerValue | At::TrailerFeed | At::EndFeed, _) => {
                return Err(Ambiguity::BadTrailer);
            }
        };
        Ok(false)
    }
}
