//! Remembers who signed in, and gives every form a word that no other site knows.
//!
//! A browser shows its token once; from then on it shows a session, a random name in a cookie that scripts cannot read
//! and other sites cannot cause to be sent. Neither token nor session is kept in clear: of each there is a digest. A
//! session ends at its time, by signing out, with the process, and when the token it was made from is no operator's any
//! more. Signed cookies that need no memory here were considered: signing out could not end them.
//!
//! The word of a form is a keyed digest of the session it is shown to. It stands beside the check of `Origin`, which some
//! browsers leave out: whoever cannot read our pages cannot know it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use sha2::{Digest as _, Sha256};

use super::super::access::{Access, Arrival};

/// How long a session lasts.
pub(super) const LASTS: Duration = Duration::from_secs(12 * 3600);
/// How many sessions there are at most; the oldest makes room.
const SESSIONS_MAX: usize = 256;

/// The digest of a session's name.
type SessionId = [u8; 32];

/// One browser that signed in.
#[derive(Debug)]
struct Session {
    /// The digest of the token it was made from.
    token: [u8; 32],
    until: Instant,
}

/// All sessions of this process.
pub(super) struct Sessions {
    all: Mutex<HashMap<SessionId, Session>>,
    key: hmac::Key,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("open", &self.lock().len()).finish_non_exhaustive()
    }
}

/// Whom a request comes from, as far as its cookie says.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    /// The name of the operator who signed in.
    pub(super) name: Option<String>,
    session: Option<SessionId>,
}

impl Sessions {
    /// Returns a memory without sessions.
    pub(super) fn new() -> Self {
        let mut key = [0; 32];
        // Without random numbers nobody can sign in, and no form is taken.
        let drawn = getrandom::fill(&mut key).is_ok();
        let key = if drawn { key.to_vec() } else { Vec::new() };
        Self { all: Mutex::default(), key: hmac::Key::new(hmac::HMAC_SHA256, &key) }
    }

    /// Begins a session for an operator's token; returns the cookie to set, or `None` if the token is not one.
    pub(super) fn begin(&self, access: &Access, token: &[u8], arrival: &Arrival, https: bool) -> Option<HeaderValue> {
        access.operator_named(token)?;
        let mut name = [0; 32];
        getrandom::fill(&mut name).ok()?;
        let name = URL_SAFE_NO_PAD.encode(name);
        let session = Session { token: Sha256::digest(token).into(), until: Instant::now() + LASTS };
        let mut all = self.lock();
        let now = Instant::now();
        all.retain(|_, session| session.until > now);
        if all.len() >= SESSIONS_MAX
            && let Some(oldest) = all.iter().min_by_key(|(_, session)| session.until).map(|(id, _)| *id)
        {
            all.remove(&oldest);
        }
        all.insert(Sha256::digest(name.as_bytes()).into(), session);
        cookie(arrival, &name, LASTS.as_secs(), https)
    }

    /// Ends the session of a visitor; returns the cookie that takes its name back.
    pub(super) fn end(&self, visitor: &Visitor, arrival: &Arrival, https: bool) -> Option<HeaderValue> {
        if let Some(session) = visitor.session {
            self.lock().remove(&session);
        }
        cookie(arrival, "", 0, https)
    }

    /// Returns whom a request comes from.
    pub(super) fn visitor(&self, access: &Access, headers: &HeaderMap, arrival: &Arrival) -> Visitor {
        let nobody = Visitor { name: None, session: None };
        let Some(shown) = cookie_of(headers, &cookie_name(arrival)) else { return nobody };
        let id: SessionId = Sha256::digest(shown.as_bytes()).into();
        let token = match self.lock().get(&id) {
            Some(session) if session.until > Instant::now() => session.token,
            Some(_) | None => return nobody,
        };
        match access.operator_of(&token) {
            Some(name) => Visitor { name: Some(name), session: Some(id) },
            None => {
                self.lock().remove(&id);
                nobody
            }
        }
    }

    /// Returns the word that forms shown to a visitor carry.
    pub(super) fn word(&self, visitor: &Visitor) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.key, &meant(visitor)))
    }

    /// Returns whether a form carries the word of the visitor who sends it.
    pub(super) fn knows_word(&self, visitor: &Visitor, word: &str) -> bool {
        let word = URL_SAFE_NO_PAD.decode(word);
        word.is_ok_and(|word| hmac::verify(&self.key, &meant(visitor), &word).is_ok())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Session>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what the word of a form is made from.
fn meant(visitor: &Visitor) -> Vec<u8> {
    let mut meant = b"form:".to_vec();
    meant.extend(visitor.session.iter().flatten());
    meant
}

/// Browsers keep cookies by host and not by port, so that of another gateway on this machine has another name.
fn cookie_name(arrival: &Arrival) -> String {
    match arrival.at {
        Some(at) => format!("halfopen_session_{}", at.port()),
        None => "halfopen_session".to_owned(),
    }
}

fn cookie(arrival: &Arrival, value: &str, seconds: u64, https: bool) -> Option<HeaderValue> {
    let secure = if https { "; Secure" } else { "" };
    let name = cookie_name(arrival);
    HeaderValue::try_from(format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")).ok()
}

/// Returns the value of a cookie.
pub(super) fn cookie_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_a_form_is_good_for_its_session_alone() {
        let sessions = Sessions::new();
        let of = |session| Visitor { name: None, session };
        let (nobody, one, other) = (of(None), of(Some([1; 32])), of(Some([2; 32])));
        let word = sessions.word(&one);
        assert!(sessions.knows_word(&one, &word));
        for stranger in [&nobody, &other] {
            assert!(!sessions.knows_word(stranger, &word));
        }
        assert!(!sessions.knows_word(&one, ""));
        assert!(!Sessions::new().knows_word(&one, &word), "another process knows no word of this one");
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, HeaderValue::from_static("a=1; halfopen_lang=ja"));
        headers.append(COOKIE, HeaderValue::from_static("b=2"));
        assert_eq!(cookie_of(&headers, "halfopen_lang"), Some("ja"));
        assert_eq!(cookie_of(&headers, "b"), Some("2"));
        assert_eq!(cookie_of(&headers, "lang"), None);
    }
}
