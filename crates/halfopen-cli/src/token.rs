//! Makes, keeps and compares the tokens that callers and operators of a gateway show.
//!
//! A token is 256 random bits, so a plain SHA-256 of it is enough to keep: nobody can guess through a hash what they
//! could not guess without one. A file of tokens holds one a line, `NAME sha256:HEX`; empty lines and `#` comments are
//! allowed. A plain token is taken too, as `NAME:TOKEN` or alone, because that is what secret stores of container
//! platforms mount; it is hashed when it is read, and who starts the gateway is told. What looks like neither is an
//! error: a slip in a hash must not become a token by itself.
//!
//! All tokens of a file are compared, each in constant time, so that the time taken says nothing about any.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

/// The largest file that is read, in bytes: some thousands of tokens.
const FILE_BYTES_MAX: usize = 256 * 1024;
/// The longest name of a token.
const NAME_BYTES_MAX: usize = 64;
/// The shortest plain token: shorter ones can be guessed.
const PLAIN_BYTES_MIN: usize = 16;
/// The longest plain token.
const PLAIN_BYTES_MAX: usize = 512;
/// Begins every token that is made here, so that secret scanners know it.
const PREFIX: &str = "hop_";
/// Begins a hash.
const SCHEME: &str = "sha256:";
/// The name of a plain token that has none.
const NAMELESS: &str = "token";

/// The tokens of one file.
#[derive(Clone, Debug)]
pub(crate) struct Tokens {
    tokens: Vec<Token>,
    /// Whether one of them stood there in plain.
    plain: bool,
}

#[derive(Clone)]
struct Token {
    name: String,
    digest: [u8; 32],
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why a file of tokens cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum TokenFileError {
    /// It cannot be read.
    #[error("token file {path} cannot be read: {cause}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// It is larger than anybody needs.
    #[error("token file {path} has {bytes} bytes, at most {FILE_BYTES_MAX} are read", path = path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: usize,
    },
    /// A line is neither.
    #[error("token file {path}, line {line}: {cause}; write NAME {SCHEME}HEX, as halfopen token NAME --file FILE does", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it. Never the line itself.
        cause: &'static str,
    },
    /// It holds no token.
    #[error("token file {path} holds no token; halfopen token NAME --file FILE makes one", path = path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl Tokens {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`TokenFileError`], which names no token.
    pub(crate) fn read(path: &Path) -> Result<Self, TokenFileError> {
        let owned = || path.to_owned();
        let bytes = std::fs::read(path).map_err(|cause| TokenFileError::Unreadable { path: owned(), cause })?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(TokenFileError::TooLarge { path: owned(), bytes: bytes.len() });
        }
        let text = String::from_utf8(bytes).map_err(|_| TokenFileError::Line {
            path: owned(),
            line: 1,
            cause: "the file is no text",
        })?;
        let mut tokens = Self { tokens: Vec::new(), plain: false };
        for (at, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (token, plain) =
                token(line).map_err(|cause| TokenFileError::Line { path: owned(), line: at, cause })?;
            if tokens.tokens.iter().any(|known| known.name == token.name) {
                let cause = "the name stands there twice";
                return Err(TokenFileError::Line { path: owned(), line: at, cause });
            }
            tokens.plain |= plain;
            tokens.tokens.push(token);
        }
        if tokens.tokens.is_empty() { Err(TokenFileError::Empty { path: owned() }) } else { Ok(tokens) }
    }

    /// Returns the name of a token, if it is one of these.
    pub(crate) fn name_of(&self, shown: &[u8]) -> Option<&str> {
        self.name_of_digest(&Sha256::digest(shown).into())
    }

    /// Returns the name of the token with this digest, if there is one.
    pub(crate) fn name_of_digest(&self, digest: &[u8; 32]) -> Option<&str> {
        let mut at = u64::MAX;
        for (index, token) in (0_u64..).zip(&self.tokens) {
            let same: Choice = token.digest.ct_eq(digest);
            at.conditional_assign(&index, same);
        }
        usize::try_from(at).ok().and_then(|at| self.tokens.get(at)).map(|token| token.name.as_str())
    }

    /// Returns whether a token has this name.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.tokens.iter().any(|token| token.name == name)
    }

    /// Returns whether a token stood in the file as it is, and not hashed.
    pub(crate) fn has_plain(&self) -> bool {
        self.plain
    }
}

/// Reads one line; says whether the token stood there in plain.
fn token(line: &str) -> Result<(Token, bool), &'static str> {
    if let Some((name, hash)) = line.split_once(char::is_whitespace) {
        let hex = hash.trim().strip_prefix(SCHEME).ok_or("behind the name stands no sha256:HEX")?;
        let digest = from_hex(hex).ok_or("the hash is not 64 hexadecimal digits")?;
        return Ok((Token { name: name_of(name)?, digest }, false));
    }
    if line.starts_with(SCHEME) {
        return Err("the name before the hash is missing");
    }
    let (name, plain) = line.split_once(':').unwrap_or((NAMELESS, line));
    if plain.starts_with(SCHEME) {
        return Err("between name and hash stands no space");
    }
    match plain.len() {
        ..PLAIN_BYTES_MIN => Err("the token is shorter than 16 bytes"),
        PLAIN_BYTES_MIN..=PLAIN_BYTES_MAX => {
            Ok((Token { name: name_of(name)?, digest: Sha256::digest(plain).into() }, true))
        }
        _ => Err("the token is longer than 512 bytes"),
    }
}

/// Checks the name of a token: it stands in the journal and in metrics.
pub(crate) fn name_of(word: &str) -> Result<String, &'static str> {
    let fits = (1..=NAME_BYTES_MAX).contains(&word.len());
    if fits && word.chars().all(|c| c.is_ascii_alphanumeric() || "._-@".contains(c)) {
        Ok(word.to_owned())
    } else {
        Err("a name has 1 to 64 letters, digits, `.`, `_`, `-` or `@`")
    }
}

/// Makes a new token; returns it, and the line of a file that knows it.
///
/// # Errors
///
/// If the operating system gives no random numbers.
pub(crate) fn make(name: &str) -> Result<(String, String), getrandom::Error> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)?;
    let token = format!("{PREFIX}{}", hex(&bytes));
    let line = format!("{name} {SCHEME}{}", hex(&Sha256::digest(&token)));
    Ok((token, line))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0_u8; 32];
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn read(text: &str) -> Result<Tokens, TokenFileError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        std::fs::write(&path, text).unwrap();
        Tokens::read(&path)
    }

    #[test]
    fn a_token_is_known_by_the_line_that_was_made_with_it() {
        let (token, line) = make("marie").unwrap();
        let (other, _) = make("marie").unwrap();
        assert_ne!(token, other);
        assert!(!line.contains(&token[PREFIX.len()..]));
        let tokens = read(&format!("# ours\n\nbot {SCHEME}{}\n{line}\n", "0".repeat(64))).unwrap();
        assert_eq!(tokens.name_of(token.as_bytes()), Some("marie"));
        assert_eq!(tokens.name_of(other.as_bytes()), None);
        assert_eq!(tokens.name_of(b""), None);
        assert!(!tokens.has_plain());
    }

    #[test_case("0123456789abcdef", "token"; "alone")]
    #[test_case("bot:0123456789abcdef", "bot"; "with a name")]
    fn a_plain_token_is_taken_and_told(line: &str, name: &str) {
        let tokens = read(line).unwrap();
        assert_eq!(tokens.name_of(b"0123456789abcdef"), Some(name));
        assert!(tokens.has_plain());
        assert!(!format!("{tokens:?}").contains("0123456789abcdef"));
    }

    #[test_case("short"; "short")]
    #[test_case("marie sha256:abc"; "half a hash")]
    #[test_case("sha256:0123456789abcdef0123456789abcdef"; "no name")]
    #[test_case("marie:sha256:0123456789abcdef0123456789abcdef"; "a colon for the space")]
    #[test_case("marie 0123456789abcdef0123456789abcdef"; "no scheme")]
    #[test_case("ma/rie sha256:0000000000000000000000000000000000000000000000000000000000000000"; "a strange name")]
    #[test_case("# nothing\n"; "nothing")]
    fn a_line_that_is_neither_is_an_error_that_shows_no_token(line: &str) {
        let error = read(line).unwrap_err().to_string();
        assert!(!error.contains("0123456789abcdef"), "{error}");
    }
}
