//! Reads what a caller prefers: `Prefer: respond-async` and `Prefer: wait=N` (RFC 7240 sections 4.1 and 4.3).
//!
//! A preference is a wish: what cannot be read is left out, and what was done is said in `Preference-Applied`.

use std::time::Duration;

use http::HeaderMap;
use http::header::HeaderName;

/// The field.
pub(in crate::serve) const PREFER: HeaderName = HeaderName::from_static("prefer");
/// The field that says what was done.
pub(in crate::serve) const APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// What a caller prefers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::serve) struct Prefer {
    /// To be answered at once, and to have the work done later.
    pub(in crate::serve) respond_async: bool,
    /// To wait so long for the answer of a call that was queued.
    pub(in crate::serve) wait: Option<Duration>,
}

impl Prefer {
    /// Reads it; the first word of each kind stands, as the RFC says.
    pub(in crate::serve) fn read(headers: &HeaderMap) -> Self {
        let mut prefer = Self::default();
        for value in headers.get_all(PREFER) {
            let Ok(value) = value.to_str() else { continue };
            for word in value.split(',') {
                let word = word.split(';').next().unwrap_or("").trim();
                let (name, value) =
                    word.split_once('=').map_or((word, ""), |(name, value)| (name.trim(), value.trim()));
                if name.eq_ignore_ascii_case("respond-async") {
                    prefer.respond_async = true;
                } else if name.eq_ignore_ascii_case("wait") && prefer.wait.is_none() {
                    let seconds = value.trim_matches('"').parse().ok();
                    prefer.wait = seconds.map(|seconds| Duration::from_secs(seconds).min(WAIT_MAX));
                }
            }
        }
        prefer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use test_case::test_case;

    #[test_case(&["respond-async"], true, None; "async")]
    #[test_case(&["Respond-Async, wait=10"], true, Some(10); "both")]
    #[test_case(&["wait=\"3\"", "wait=9"], false, Some(3); "the first stands")]
    #[test_case(&["return=minimal; x=1", "WAIT = 7"], false, Some(7); "among others")]
    #[test_case(&["wait=99999"], false, Some(300); "bounded")]
    #[test_case(&["wait=soon", "wait=-1", "wait"], false, None; "what is no number")]
    fn preferences_are_read(values: &[&'static str], respond_async: bool, wait: Option<u64>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(PREFER, HeaderValue::from_static(value));
        }
        let expected = Prefer { respond_async, wait: wait.map(Duration::from_secs) };
        assert_eq!(Prefer::read(&headers), expected);
    }
}
