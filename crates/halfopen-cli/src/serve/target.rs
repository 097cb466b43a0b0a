//! Decides where a call goes: the base URL of its dependency, and behind it the path and query of the caller.
//!
//! The caller chooses neither the host nor anything beside the base URL's path, because what leaves here may carry a
//! credential of ours. Nothing is ever put together as text and parsed again: scheme and host come from the policy as
//! parsed values, and the caller's part only ever becomes path and query.
//!
//! Whether a path stays inside is judged on its decoded form, and the original bytes are sent: an encoded slash may be
//! data (`projects/group%2Fname`), so rewriting a path would break as many calls as it protects. Servers differ in how
//! often they decode, whether a backslash separates, what they cut off behind `;`, and whether they fold `//`. So the
//! rule leaves nothing to such differences: after decoding until nothing changes (four times at most, else the path is
//! refused), **no segment may consist of dots only**. Without dot segments no reading of the path climbs. Refused was to
//! count how deep a path goes: `a%2Fb/../..` is inside for one server and outside for the next.
//!
//! Queries are passed on as they are; they cannot change the path.

mod decode;

use std::fmt;

use bytes::{BufMut as _, BytesMut};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Uri};

/// The base URL of a dependency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Upstream {
    scheme: Scheme,
    authority: Authority,
    host: HeaderValue,
    /// Begins with a slash and ends without one, or is empty.
    prefix: String,
    /// What an empty rest becomes: the path as it was written.
    bare: String,
}

/// Why a word is no base URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UpstreamError {
    /// It cannot be parsed.
    #[error("it is no URL")]
    NoUrl,
    /// It has another scheme, or none, or no host.
    #[error("it must begin with http:// or https:// and a host")]
    NoHost,
    /// It carries a user name.
    #[error("it holds a user name; name a secret under `credentials` instead")]
    UserPart,
    /// It carries a query.
    #[error("it has a query; a base URL has none")]
    Query,
    /// Its path could be read as another one.
    #[error("its path holds {0}")]
    Path(PathFault),
}

/// What makes a path one that may lead elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathFault {
    /// A segment of dots only, in whatever disguise.
    DotSegment,
    /// A doubled slash at its start.
    EmptyFirstSegment,
    /// A control byte, plain or encoded.
    ControlByte,
    /// A percent sign without two hexadecimal digits.
    BadEscape,
    /// More layers of percent-encoding than anybody means.
    TooOftenEncoded,
    /// Something that is neither a path nor a query behind the dependency's name.
    NoPath,
    /// More than a URL can hold.
    TooLong,
}

impl PathFault {
    /// Returns what can be done about it, as a sentence.
    pub(super) const fn advice(self) -> &'static str {
        match self {
            Self::DotSegment => "Resolve `.` and `..` before sending; they are not forwarded, encoded or not.",
            Self::EmptyFirstSegment => {
                "Remove the doubled slash behind the dependency's name; often the base URL ends with one too many."
            }
            Self::ControlByte => "Remove it; no path needs one.",
            Self::BadEscape => "Write a percent sign that is meant as such as %25.",
            Self::TooOftenEncoded => "Encode the path once.",
            Self::NoPath => "Begin the path with a slash.",
            Self::TooLong => "Send what is long in the body.",
        }
    }
}

impl fmt::Display for PathFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DotSegment => "a segment of dots only",
            Self::EmptyFirstSegment => "an empty first segment",
            Self::ControlByte => "a control byte",
            Self::BadEscape => "a percent sign without two hexadecimal digits",
            Self::TooOftenEncoded => "more than three layers of percent-encoding",
            Self::NoPath => "no slash where its path begins",
            Self::TooLong => "more than a URL can hold",
        })
    }
}

impl Upstream {
    /// Reads the `upstream` of a policy.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`] says what is wrong with it.
    pub(super) fn parse(url: &str) -> Result<Self, UpstreamError> {
        let uri: Uri = url.parse().map_err(|_| UpstreamError::NoUrl)?;
        let parts = uri.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(UpstreamError::NoHost);
        };
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS || authority.host().is_empty() {
            return Err(UpstreamError::NoHost);
        }
        if authority.as_str().contains('@') {
            return Err(UpstreamError::UserPart);
        }
        let path = parts.path_and_query.as_ref().map_or("", PathAndQuery::path);
        if parts.path_and_query.as_ref().is_some_and(|path| path.query().is_some()) {
            return Err(UpstreamError::Query);
        }
        let prefix = path.trim_end_matches('/');
        inside(prefix, true).map_err(UpstreamError::Path)?;
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| UpstreamError::NoUrl)?;
        let bare = if path.is_empty() { "/" } else { path };
        Ok(Self { scheme, authority, host, prefix: prefix.to_owned(), bare: bare.to_owned() })
    }

    /// Returns the host's name or address, without the port.
    pub(super) fn host(&self) -> &str {
        self.authority.host()
    }

    /// Returns the port, as written or by the scheme.
    pub(super) fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(if self.scheme == Scheme::HTTPS { 443 } else { 80 })
    }

    /// Returns a whole address on it, secrets replaced.
    pub(super) fn shown(&self, target: &Uri) -> String {
        let path = target.path_and_query().map_or("/", PathAndQuery::as_str);
        halfopen_core::redact::line(&format!("{}://{}{path}", self.scheme, self.authority))
    }

    /// Returns the value of the `Host` field of every request to it.
    pub(super) fn host_field(&self) -> &HeaderValue {
        &self.host
    }

    /// Returns where a request goes; `rest` is what stood behind the dependency's name, path and query, as received.
    ///
    /// # Errors
    ///
    /// [`PathFault`] if some server could read the path as one that leads outside the base URL.
    pub(super) fn target(&self, rest: &str) -> Result<Uri, PathFault> {
        let path_end = memchr::memchr(b'?', rest.as_bytes()).unwrap_or(rest.len());
        let (path, query) = rest.split_at(path_end);
        inside(path, self.prefix.is_empty())?;
        let whole = if path.is_empty() && query.is_empty() {
            PathAndQuery::try_from(self.bare.as_str())
        } else {
            let (prefix, path) = if path.is_empty() { (self.bare.as_str(), "") } else { (self.prefix.as_str(), path) };
            let mut whole = BytesMut::with_capacity(prefix.len() + rest.len());
            whole.put_slice(prefix.as_bytes());
            whole.put_slice(path.as_bytes());
            whole.put_slice(query.as_bytes());
            PathAndQuery::from_maybe_shared(whole.freeze())
        };
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(whole.map_err(|_| PathFault::TooLong)?);
        Uri::from_parts(parts).map_err(|_| PathFault::TooLong)
    }

    /// Returns where a `Location` that names only a path lies for the caller, or `None` if it stands as it is.
    ///
    /// The caller resolves `/v1/batches/7` against the gateway, where nothing lies at that path; the dependency meant
    /// its own origin. What names a host is left alone: the caller is told what the dependency said.
    pub(super) fn location_for_caller(&self, dependency: &str, location: &HeaderValue) -> Option<HeaderValue> {
        let rest = location.to_str().ok()?.strip_prefix(self.prefix.as_str())?;
        let named_path = rest.is_empty() || rest.starts_with('/') && !rest.starts_with("//");
        if !named_path || self.prefix.is_empty() && rest.is_empty() {
            return None;
        }
        HeaderValue::try_from(format!("/d/{dependency}{rest}")).ok()
    }
}

/// Judges a path; `at_root` if nothing stands before it, so that a double slash would name a host.
fn inside(path: &str, at_root: bool) -> Result<(), PathFault> {
    if path.is_empty() {
        return Ok(());
    }
    if !path.starts_with('/') {
        return Err(PathFault::NoPath);
    }
    if path.starts_with("//") {
        return Err(PathFault::EmptyFirstSegment);
    }
    // Nothing can be read in two ways: the common case, decided without a copy.
    if !path.bytes().any(decode::is_ambiguous) {
        return if path.split('/').any(is_dots) { Err(PathFault::DotSegment) } else { Ok(()) };
    }
    let plain = decode::fully(path.as_bytes())?;
    if plain.iter().any(u8::is_ascii_control) {
        return Err(PathFault::ControlByte);
    }
    if at_root && plain.get(1).copied().is_some_and(is_separator) {
        return Err(PathFault::EmptyFirstSegment);
    }
    let climbs = plain.split(|byte| is_separator(*byte)).any(|segment| {
        // What stands behind these is a parameter, a query or a fragment for a server that parses what it decoded.
        let end = segment.iter().position(|byte| matches!(byte, b';' | b'?' | b'#')).unwrap_or(segment.len());
        is_dots(std::str::from_utf8(segment[..end].trim_ascii()).unwrap_or(""))
    });
    if climbs { Err(PathFault::DotSegment) } else { Ok(()) }
}

fn is_dots(segment: &str) -> bool {
    !segment.is_empty() && segment.bytes().all(|byte| byte == b'.')
}

const fn is_separator(byte: u8) -> bool {
    matches!(byte, b'/' | b'\\')
}

#[cfg(test)]
mod tests;
