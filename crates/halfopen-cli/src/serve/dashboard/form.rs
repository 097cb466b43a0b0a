//! Reads the forms that pages send.

use std::time::Duration;

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;

use super::super::problem::{Kind, Problem};
use crate::serve::api::{bad, decoded};

/// The longest form that is read, in bytes: the words of a result, percent-encoded.
const BYTES_MAX: usize = 128 * 1024;
/// How long it may take to arrive.
const WITHIN: Duration = Duration::from_secs(10);
/// The longest reason, in characters.
pub(super) const REASON_CHARS_MAX: usize = 500;

/// What a form holds.
#[derive(Debug)]
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads the body of a request.
    ///
    /// # Errors
    ///
    /// What is no form, too long, or late.
    pub(super) async fn read(headers: &HeaderMap, body: Incoming) -> Result<Self, Problem> {
        let media = headers.get(CONTENT_TYPE).map(|value| value.as_bytes().split(|byte| *byte == b';'));
        let media = media.and_then(|mut parts| parts.next()).unwrap_or_default().trim_ascii();
        if !media.eq_ignore_ascii_case(b"application/x-www-form-urlencoded") {
            return Err(Problem::new(Kind::UnsupportedMediaType, "This path takes the form of its page."));
        }
        let bytes = match tokio::time::timeout(WITHIN, Limited::new(body, BYTES_MAX).collect()).await {
            Err(_) => {
                let detail = format!("The form did not arrive within {} s.", WITHIN.as_secs());
                return Err(Problem::new(Kind::CallerTooSlow, detail));
            }
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                return Err(Problem::new(Kind::BodyTooLarge, format!("The form is longer than {BYTES_MAX} bytes.")));
            }
            Ok(Err(_)) => return Err(bad("The form broke off.")),
            Ok(Ok(whole)) => whole.to_bytes(),
        };
        let text = std::str::from_utf8(&bytes).map_err(|_| bad("The form is no text."))?;
        let mut pairs = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Some(key), Some(value)) = (decoded(key, true), decoded(value, true)) else {
                return Err(bad("The form is not percent-encoded text."));
            };
            pairs.push((key, value));
        }
        Ok(Self(pairs))
    }

    /// Returns a field, without the white space around it; empty if it is not there.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.trim())
    }

    /// Returns whether a box is ticked.
    pub(super) fn ticked(&self, name: &str) -> bool {
        !self.text(name).is_empty()
    }
}
