//! Says which answers may be kept and for how long, from their fields alone (RFC 9111).

use std::time::Duration;

use halfopen::fingerprint::Fingerprint;
use http::StatusCode;
use http::header::{
    self, AGE, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, SET_COOKIE,
    TRANSFER_ENCODING, VARY,
};

use super::key::Key;

/// How an answer may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    /// How old it is by its own word.
    pub(super) aged: Duration,
    /// How long it counts as fresh by its own word.
    pub(super) fresh: Option<Duration>,
    /// How long it may be used.
    pub(super) usable: Duration,
}

/// The request fields an answer varies by, and a name for what they held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Vary {
    names: Vec<HeaderName>,
    held: Option<Fingerprint>,
}

/// Returns how an answer may be kept, if it may be.
pub(super) fn allowed(status: StatusCode, fields: &HeaderMap, to_head: bool, max_age: Duration) -> Option<Allowed> {
    let good = matches!(status, StatusCode::OK | StatusCode::NON_AUTHORITATIVE_INFORMATION | StatusCode::NO_CONTENT);
    // A body that ends with its connection may be a part.
    let framed = fields.contains_key(CONTENT_LENGTH) || fields.contains_key(TRANSFER_ENCODING);
    let bodiless = to_head || status == StatusCode::NO_CONTENT;
    let events = fields.get(CONTENT_TYPE).is_some_and(|media| media.as_bytes().starts_with(b"text/event-stream"));
    if !good || !(framed || bodiless) || events || fields.contains_key(SET_COOKIE) {
        return None;
    }
    let mut usable = max_age;
    let mut fresh = None;
    let mut shared = None;
    let mut must_be_fresh = false;
    for (name, value) in directives(fields) {
        match name.as_str() {
            "no-store" | "private" => return None,
            "no-cache" => usable = Duration::ZERO,
            "must-revalidate" | "proxy-revalidate" => must_be_fresh = true,
            "max-age" => fresh = Some(seconds(&value)),
            "s-maxage" => {
                shared = Some(seconds(&value));
                // RFC 9111 section 5.2.2.10: it implies `proxy-revalidate`.
                must_be_fresh = true;
            }
            _ => {}
        }
    }
    let fresh = shared.or(fresh);
    if must_be_fresh {
        usable = usable.min(fresh.unwrap_or_default());
    }
    let aged = fields.get(AGE).and_then(|age| age.to_str().ok()).map(seconds).unwrap_or_default();
    (aged < usable).then_some(Allowed { aged, fresh, usable })
}

/// Returns whether a request forbids to keep its answer, and whether it forbids to be answered with an old one.
pub(super) fn wishes(fields: &HeaderMap) -> (bool, bool) {
    let (mut no_store, mut no_old) = (false, false);
    for (name, value) in directives(fields) {
        match name.as_str() {
            "no-store" => (no_store, no_old) = (true, true),
            "no-cache" => no_old = true,
            "max-age" if seconds(&value).is_zero() => no_old = true,
            _ => {}
        }
    }
    (no_store, no_old || fields.contains_key(header::RANGE))
}

/// Returns the length that an answer states.
pub(super) fn length(fields: &HeaderMap) -> Option<u64> {
    fields.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl Vary {
    /// Reads by what an answer to the request of `key` varies; `None` if by everything.
    pub(super) fn read(fields: &HeaderMap, key: &Key) -> Option<Self> {
        let mut names = Vec::new();
        for value in fields.get_all(VARY) {
            for word in value.to_str().ok()?.split(',').map(str::trim).filter(|word| !word.is_empty()) {
                if word == "*" {
                    return None;
                }
                names.push(HeaderName::from_bytes(word.as_bytes()).ok()?);
            }
        }
        // A dependency that encodes for some callers only, and does not say so.
        if fields.contains_key(CONTENT_ENCODING) {
            names.push(header::ACCEPT_ENCODING);
        }
        names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        names.dedup();
        let held = (!names.is_empty()).then(|| key.held(&names));
        Some(Self { names, held })
    }

    /// Returns whether a request holds the same in these fields.
    pub(super) fn is_met_by(&self, key: &Key) -> bool {
        self.held.is_none_or(|held| key.held(&self.names) == held)
    }
}

/// Returns the directives of `Cache-Control`, in lower case.
fn directives(fields: &HeaderMap) -> impl Iterator<Item = (String, String)> {
    fields.get_all(CACHE_CONTROL).iter().flat_map(|value| value.to_str().unwrap_or("no-store").split(',')).map(|word| {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        (name.trim().to_ascii_lowercase(), value.trim().trim_matches('"').to_owned())
    })
}

/// Reads a number of seconds; what is none is 0, the careful reading (RFC 9111 section 1.2.2).
fn seconds(text: &str) -> Duration {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits {
        return Duration::ZERO;
    }
    // More than fits is "for ever".
    text.parse().map_or(Duration::from_secs(1 << 31), Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use test_case::test_case;

    const HOUR: Duration = Duration::from_secs(3600);

    fn fields(fields: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        map.insert(CONTENT_LENGTH, HeaderValue::from_static("2"));
        for (name, value) in fields {
            map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        map
    }

    fn usable(status: u16, sent: &[(&str, &str)]) -> Option<u64> {
        let status = StatusCode::from_u16(status).unwrap();
        allowed(status, &fields(sent), false, HOUR).map(|allowed| allowed.usable.as_secs())
    }

    #[test_case(200, &[]; "plain")]
    #[test_case(203, &[]; "from a cache before us")]
    #[test_case(204, &[]; "without a body")]
    #[test_case(200, &[("cache-control", "public, max-age=60")]; "stale is what it is for")]
    #[test_case(200, &[("age", "100")]; "already old")]
    fn a_good_answer_is_kept_as_long_as_the_policy_says(status: u16, fields: &[(&str, &str)]) {
        assert_eq!(usable(status, fields), Some(3600));
    }

    #[test_case(200, &[("cache-control", "no-store")]; "no store")]
    #[test_case(200, &[("cache-control", "max-age=60, Private")]; "private")]
    #[test_case(200, &[("cache-control", "private=\"set-cookie\"")]; "private by field")]
    #[test_case(200, &[("cache-control", "no-cache")]; "no cache")]
    #[test_case(200, &[("cache-control", "must-revalidate")]; "must be fresh and never is")]
    #[test_case(200, &[("set-cookie", "a=b")]; "a cookie")]
    #[test_case(200, &[("content-type", "text/event-stream; charset=utf-8")]; "events")]
    #[test_case(200, &[("age", "3600")]; "too old already")]
    #[test_case(201, &[]; "created")]
    #[test_case(206, &[]; "a part")]
    #[test_case(301, &[]; "moved")]
    #[test_case(404, &[]; "not found")]
    #[test_case(500, &[]; "an error")]
    fn what_may_not_be_kept_is_not(status: u16, fields: &[(&str, &str)]) {
        assert_eq!(usable(status, fields), None);
    }

    #[test_case("must-revalidate, max-age=60", 60)]
    #[test_case("proxy-revalidate, max-age=60", 60)]
    #[test_case("max-age=600, s-maxage=60", 60)]
    #[test_case("must-revalidate, max-age=99999", 3600)]
    #[test_case("must-revalidate, max-age=99999999999999999999999", 3600; "more than fits")]
    fn what_must_be_fresh_is_used_only_while_it_is(control: &str, expected: u64) {
        assert_eq!(usable(200, &[("cache-control", control)]), Some(expected));
    }

    #[test]
    fn a_body_that_ends_with_its_connection_is_not_kept() {
        let mut unframed = fields(&[]);
        unframed.remove(CONTENT_LENGTH);
        assert_eq!(allowed(StatusCode::OK, &unframed, false, HOUR), None);
        assert!(allowed(StatusCode::OK, &unframed, true, HOUR).is_some());
        unframed.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        assert!(allowed(StatusCode::OK, &unframed, false, HOUR).is_some());
    }

    #[test_case(&[], (false, false); "nothing")]
    #[test_case(&[("cache-control", "no-store")], (true, true))]
    #[test_case(&[("cache-control", "no-cache")], (false, true))]
    #[test_case(&[("cache-control", "max-age=0")], (false, true))]
    #[test_case(&[("range", "bytes=0-1")], (false, true); "a range")]
    fn a_caller_may_refuse_what_is_old(sent: &[(&str, &str)], expected: (bool, bool)) {
        assert_eq!(wishes(&fields(sent)), expected);
    }
}
