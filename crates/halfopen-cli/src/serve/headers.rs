//! Decides which header fields cross the gateway, in each direction.
//!
//! A gateway is two connections, and some fields speak about one of them only: hop-by-hop fields and whatever
//! `Connection` names are taken out on both sides (RFC 9110 section 7.6.1). `Connection` cannot name what describes the
//! bytes that are forwarded ([`is_kept_though_named`]): a body whose `Content-Encoding` was dropped is another body. It
//! can name everything else, `Authorization` too: what it names was the caller's own, because everything of ours (host,
//! credential, `Via`) is added after it was obeyed. For the same reason whoever judges a request (its idempotency key,
//! say) must judge what is left.
//!
//! `X-Forwarded-*`, `Forwarded` and the fields by which some servers let a request name another path or host
//! (`X-Original-URL`, `X-Rewrite-URL`) go no further, and none is added: a dependency is somebody else's server, to
//! which our callers' addresses are no business, and a request that carries our credential must not be steered. Trace
//! context, cookies, ranges, conditions and everything unknown pass. `Expect` passes; the live path answers it.
//!
//! A message that has nothing to lose is not copied and nothing is allocated for it.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, Version};

/// The name under which the gateway stands in `Via`.
const PSEUDONYM: &str = "halfopen";

/// How many gateways of this kind a request may have passed. Two in a row are a design; this many are a loop.
const HOPS_MAX: usize = 8;

/// The prefix of the fields between a caller and the gateway, which mean nothing to a dependency.
const OURS: &str = "halfopen-";

/// What a caller wants a connection to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upgrade {
    /// Nothing, or something that may be ignored: an offer of `h2c`, which many clients make once per connection.
    None,
    /// A WebSocket, which the gateway does not carry; without the upgrade the request makes no sense.
    WebSocket,
}

/// Returns what the request wants its connection to become.
pub(super) fn upgrade(headers: &HeaderMap) -> Upgrade {
    let asks =
        headers.get_all(header::UPGRADE).iter().flat_map(words).any(|word| word.eq_ignore_ascii_case("websocket"));
    if asks { Upgrade::WebSocket } else { Upgrade::None }
}

/// Returns whether the request has been here so often that it must be going round in circles.
pub(super) fn is_loop(headers: &HeaderMap) -> bool {
    let hops = headers
        .get_all(header::VIA)
        .iter()
        .flat_map(words)
        .filter(|hop| hop.split_ascii_whitespace().nth(1).is_some_and(|by| by == PSEUDONYM));
    hops.count() >= HOPS_MAX
}

/// Makes a caller's fields those of the request to the dependency whose `Host` is `host`; `version` is the caller's.
pub(super) fn to_dependency(headers: &mut HeaderMap, host: &HeaderValue, version: Version) {
    let wants_trailers =
        headers.get_all(header::TE).iter().flat_map(words).any(|word| {
            word.split(';').next().is_some_and(|coding| coding.trim_ascii().eq_ignore_ascii_case("trailers"))
        });
    strip(headers, |name| is_hop_by_hop(name) || name.as_str().starts_with(OURS) || is_steering(name.as_str()));
    if wants_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    join_cookies(headers);
    headers.insert(header::HOST, host.clone());
    headers.append(header::VIA, HeaderValue::from_static(via(version)));
}

/// Makes a dependency's fields those of the answer to the caller.
///
/// Fields of an outer kind of us (`Halfopen-Outcome`) are taken out too: they must be read before, and ours take their
/// place. `Alt-Svc` goes because it would send callers past the gateway. A length beside a coding is not true of the
/// bytes that follow and must not be forwarded (RFC 9112 section 6.3).
pub(super) fn to_caller(headers: &mut HeaderMap) {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    strip(headers, |name| is_hop_by_hop(name) || name == header::ALT_SVC || name.as_str().starts_with(OURS));
}

/// Takes out of a trailer section what must not stand there: framing, routing, authentication (RFC 9110 section 6.5.1).
pub(super) fn trailers(headers: &mut HeaderMap) {
    strip(headers, |name| {
        is_hop_by_hop(name)
            || name.as_str().starts_with(OURS)
            || is_steering(name.as_str())
            || matches!(
                *name,
                header::CONTENT_LENGTH
                    | header::CONTENT_ENCODING
                    | header::CONTENT_TYPE
                    | header::CONTENT_RANGE
                    | header::HOST
                    | header::AUTHORIZATION
                    | header::WWW_AUTHENTICATE
                    | header::COOKIE
                    | header::SET_COOKIE
                    | header::CACHE_CONTROL
                    | header::EXPECT
                    | header::MAX_FORWARDS
                    | header::RANGE
                    | header::VARY
                    | header::TRAILER
                    | header::RETRY_AFTER
            )
    });
}

/// Returns whether an answer of this status has no body whatever its fields say.
pub(super) fn is_bodiless(status: StatusCode) -> bool {
    status.is_informational() || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED
}

/// Takes out what `unwanted` says and what `Connection` names.
fn strip(headers: &mut HeaderMap, unwanted: impl Fn(&HeaderName) -> bool) {
    // Vectors that stay empty own no memory.
    let mut gone: Vec<HeaderName> = headers.keys().filter(|name| unwanted(name)).cloned().collect();
    for value in headers.get_all(header::CONNECTION) {
        for word in words(value) {
            // `close` and `keep-alive` are options, and no fields of these names exist.
            let Ok(name) = HeaderName::from_bytes(word.as_bytes()) else { continue };
            if !is_kept_though_named(&name) && headers.contains_key(&name) && !gone.contains(&name) {
                gone.push(name);
            }
        }
    }
    for name in gone {
        headers.remove(name);
    }
}

/// Returns whether a field speaks about one connection only.
fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        *name,
        header::CONNECTION
            | header::TE
            | header::TRANSFER_ENCODING
            | header::UPGRADE
            | header::PROXY_AUTHENTICATE
            | header::PROXY_AUTHORIZATION
    ) || matches!(name.as_str(), "keep-alive" | "proxy-connection" | "proxy-authentication-info" | "http2-settings")
}

/// Returns whether `Connection` may not take a field out: what says how to read the bytes that follow, and the host.
fn is_kept_though_named(name: &HeaderName) -> bool {
    matches!(
        *name,
        header::CONTENT_LENGTH
            | header::CONTENT_ENCODING
            | header::CONTENT_TYPE
            | header::CONTENT_RANGE
            | header::HOST
            | header::TRAILER
    )
}

/// Returns whether some servers take another host, path or peer from a field than from the request itself.
fn is_steering(name: &str) -> bool {
    let [b'x', b'-', rest @ ..] = name.as_bytes() else { return name == "forwarded" };
    rest.starts_with(b"forwarded-")
        || matches!(
            rest,
            b"original-url"
                | b"original-uri"
                | b"original-host"
                | b"rewrite-url"
                | b"host"
                | b"real-ip"
                | b"cluster-client-ip"
                | b"client-ip"
        )
}

/// Makes one field of cookies that HTTP/2 sent as several (RFC 9113 section 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(header::COOKIE).iter().nth(1).is_none() {
        return;
    }
    let crumbs: Vec<&[u8]> = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(mut whole) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        whole.set_sensitive(true);
        headers.insert(header::COOKIE, whole);
    }
}

/// Returns the entry for a request that came in this version.
const fn via(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0 halfopen",
        Version::HTTP_2 => "2 halfopen",
        _ => "1.1 halfopen",
    }
}

/// Returns the members of a comma-separated field.
fn words(value: &HeaderValue) -> impl Iterator<Item = &str> {
    value.to_str().unwrap_or("").split(',').map(str::trim_ascii).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn map(fields: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn lines(headers: &HeaderMap) -> Vec<String> {
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
    }

    fn sent(fields: &[(&str, &str)]) -> Vec<String> {
        let mut headers = map(fields);
        to_dependency(&mut headers, &HeaderValue::from_static("up.example"), Version::HTTP_11);
        lines(&headers).into_iter().filter(|line| !line.starts_with("host:") && !line.starts_with("via:")).collect()
    }

    fn answered(fields: &[(&str, &str)]) -> Vec<String> {
        let mut headers = map(fields);
        to_caller(&mut headers);
        lines(&headers)
    }

    /// S074
    #[test_case(&[("connection", "keep-alive"), ("keep-alive", "timeout=5")]; "keep alive")]
    #[test_case(&[("connection", "X-Auth-Internal, close"), ("x-auth-internal", "1")]; "a named field")]
    #[test_case(&[("connection", "x-a"), ("connection", "x-b"), ("x-a", "1"), ("x-b", "2")]; "fields named in two lines")]
    #[test_case(&[("connection", "Authorization"), ("authorization", "Bearer x")]; "a named credential of the caller")]
    #[test_case(&[("te", "gzip")]; "a coding that is not passed on")]
    #[test_case(&[("transfer-encoding", "chunked")]; "framing")]
    #[test_case(&[("connection", "upgrade"), ("upgrade", "h2c"), ("http2-settings", "AAMAAABk")]; "an offer of another protocol")]
    #[test_case(&[("proxy-authorization", "Basic x"), ("proxy-connection", "keep-alive")]; "fields for a proxy")]
    #[test_case(&[("halfopen-region", "eu"), ("halfopen-credential", "main")]; "our own")]
    #[test_case(&[("x-forwarded-host", "evil"), ("x-forwarded-for", "10.0.0.1"), ("forwarded", "host=evil")]; "fields that steer")]
    #[test_case(&[("x-original-url", "/admin"), ("x-rewrite-url", "/admin")]; "fields that name another path")]
    fn what_speaks_of_one_connection_or_steers_is_not_sent(fields: &[(&str, &str)]) {
        assert_eq!(sent(fields), Vec::<String>::new());
    }

    #[test_case(&[("traceparent", "00-1-2-01"), ("tracestate", "a=b"), ("baggage", "k=v")]; "trace context")]
    #[test_case(&[("authorization", "Bearer x"), ("x-api-key", "k")]; "the caller's credential")]
    #[test_case(&[("content-length", "3"), ("content-type", "text/plain"), ("expect", "100-continue")]; "the body's")]
    #[test_case(&[("x-request-id", "1"), ("x-stainless-lang", "python"), ("accept-encoding", "gzip")]; "everything else")]
    fn what_concerns_the_dependency_is_sent(fields: &[(&str, &str)]) {
        let expected: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(sent(fields), expected);
    }

    #[test]
    fn what_describes_the_body_cannot_be_named_away() {
        let fields =
            [("content-encoding", "gzip"), ("content-length", "9"), ("connection", "content-encoding, content-length")];
        assert_eq!(sent(&fields), ["content-encoding: gzip", "content-length: 9"]);
    }

    #[test]
    fn of_te_only_trailers_are_left() {
        assert_eq!(sent(&[("te", "gzip;q=0.5, Trailers"), ("connection", "TE")]), ["te: trailers"]);
    }

    #[test]
    fn the_host_is_the_dependencys_and_the_way_is_noted() {
        let mut headers = map(&[("host", "evil.example"), ("host", "other"), ("via", "1.1 outer")]);
        to_dependency(&mut headers, &HeaderValue::from_static("up.example"), Version::HTTP_2);
        assert_eq!(lines(&headers), ["host: up.example", "via: 1.1 outer", "via: 2 halfopen"]);
    }

    #[test]
    fn cookies_of_http2_become_one_field() {
        assert_eq!(sent(&[("cookie", "a=1"), ("cookie", "b=2")]), ["cookie: a=1; b=2"]);
    }

    #[test_case(&[("connection", "close, X-Foo"), ("x-foo", "1"), ("keep-alive", "timeout=5")]; "hop by hop")]
    #[test_case(&[("halfopen-outcome", "refused"), ("alt-svc", "h3=\":443\"")]; "what would mislead")]
    #[test_case(&[("transfer-encoding", "chunked"), ("proxy-authenticate", "Basic")]; "framing and proxies")]
    #[test_case(&[("content-length", "3"), ("transfer-encoding", "chunked")]; "a length beside a coding")]
    fn what_speaks_of_one_connection_is_not_answered(fields: &[(&str, &str)]) {
        assert_eq!(answered(fields), Vec::<String>::new());
    }

    #[test]
    fn an_answer_without_such_fields_is_left_alone() {
        let fields =
            [("content-type", "text/event-stream"), ("set-cookie", "a=1"), ("set-cookie", "b=2"), ("retry-after", "3")];
        let expected: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(answered(&fields), expected);
    }

    #[test]
    fn trailers_carry_no_framing() {
        let mut headers = map(&[("grpc-status", "0"), ("content-length", "3"), ("transfer-encoding", "chunked")]);
        trailers(&mut headers);
        assert_eq!(lines(&headers), ["grpc-status: 0"]);
    }

    #[test]
    fn a_request_that_has_passed_too_often_is_a_loop() {
        let hops = |count: usize| map(&vec![("via", "1.1 halfopen"); count]);
        assert!(!is_loop(&hops(HOPS_MAX - 1)));
        assert!(is_loop(&hops(HOPS_MAX)));
        assert!(!is_loop(&map(&[("via", "1.1 halfopen.example, 1.1 varnish")])));
    }

    #[test_case("websocket", Upgrade::WebSocket)]
    #[test_case("h2c, WebSocket", Upgrade::WebSocket; "one of several")]
    #[test_case("h2c", Upgrade::None)]
    fn a_websocket_is_told_from_an_offer(value: &str, expected: Upgrade) {
        assert_eq!(upgrade(&map(&[("upgrade", value)])), expected);
    }
}
