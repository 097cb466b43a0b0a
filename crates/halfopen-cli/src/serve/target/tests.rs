use proptest::prelude::*;
use test_case::test_case;

use super::*;

fn upstream(url: &str) -> Upstream {
    Upstream::parse(url).unwrap()
}

fn sent(base: &str, rest: &str) -> String {
    upstream(base).target(rest).unwrap().to_string()
}

#[test_case("https://up.example/api/v1/", "/chat?n=1", "https://up.example/api/v1/chat?n=1"; "base with a slash")]
#[test_case("https://up.example/api/v1", "/chat", "https://up.example/api/v1/chat"; "base without a slash")]
#[test_case("https://up.example/api/v1", "", "https://up.example/api/v1"; "nothing behind the name")]
#[test_case("https://up.example/api/v1/", "", "https://up.example/api/v1/"; "nothing behind the name keeps the slash")]
#[test_case("https://up.example/api/v1", "?a=b", "https://up.example/api/v1?a=b"; "only a query")]
#[test_case("https://up.example/api/v1", "/", "https://up.example/api/v1/"; "only a slash")]
#[test_case("https://up.example", "", "https://up.example/"; "no path at all")]
#[test_case("http://127.0.0.1:80", "/x/", "http://127.0.0.1:80/x/"; "an address with a port")]
#[test_case("http://[::1]:80/p", "/x", "http://[::1]:80/p/x"; "an IPv6 address")]
fn a_path_is_put_behind_the_base_url(base: &str, rest: &str, expected: &str) {
    assert_eq!(sent(base, rest), expected);
}

/// What is data for some API goes through byte for byte.
#[test_case("/projects/group%2Fname/issues"; "an encoded slash")]
#[test_case("/@scope/package"; "an at sign")]
#[test_case("/models/gemini:generateContent"; "a colon")]
#[test_case("/compare/main...topic"; "dots inside a segment")]
#[test_case("/.well-known/x"; "a hidden name")]
#[test_case("/a;b=c/d"; "parameters")]
#[test_case("/a//b"; "an empty segment inside")]
#[test_case("/https://example.com/page"; "a URL as data")]
#[test_case("/caf%C3%A9/100%25"; "text and a percent sign")]
#[test_case("/x?next=/../..&at=%00%0d%0a//evil"; "anything in the query")]
fn what_is_data_is_passed_on_unchanged(rest: &str) {
    assert_eq!(sent("https://up.example/api/v1", rest), format!("https://up.example/api/v1{rest}"));
}

/// S075
#[test_case("/../admin", PathFault::DotSegment)]
#[test_case("/a/../../admin", PathFault::DotSegment)]
#[test_case("/%2e%2e%2fadmin", PathFault::DotSegment)]
#[test_case("/%2E./admin", PathFault::DotSegment; "half encoded")]
#[test_case("/%252e%252e%252fadmin", PathFault::DotSegment; "encoded twice")]
#[test_case("/%25252e%25252e/admin", PathFault::DotSegment; "encoded three times")]
#[test_case("/%2525252e%2525252e/admin", PathFault::TooOftenEncoded; "encoded four times")]
#[test_case("/%%32%65%%32%65/admin", PathFault::BadEscape; "an escape made of escapes")]
#[test_case("/..%5cadmin", PathFault::DotSegment; "an encoded backslash")]
#[test_case("/..\\admin", PathFault::DotSegment; "a backslash")]
#[test_case("/x/..;/admin", PathFault::DotSegment; "a parameter behind dots")]
#[test_case("/..%3b/admin", PathFault::DotSegment; "an encoded semicolon")]
#[test_case("/..;x%2f..%2fadmin", PathFault::DotSegment; "a parameter with a slash")]
#[test_case("/..%20/admin", PathFault::DotSegment; "a space behind dots")]
#[test_case("/..%23/admin", PathFault::DotSegment; "an encoded fragment")]
#[test_case("/.../admin", PathFault::DotSegment; "three dots")]
#[test_case("/./admin", PathFault::DotSegment; "one dot")]
#[test_case("/%c0%ae%c0%ae/admin", PathFault::DotSegment; "overlong dots")]
#[test_case("/..%c0%afadmin", PathFault::DotSegment; "an overlong slash")]
#[test_case("/%e0%80%ae%e0%80%ae/admin", PathFault::DotSegment; "longer dots")]
#[test_case("/%ef%bc%8e%ef%bc%8e/admin", PathFault::DotSegment; "fullwidth dots")]
#[test_case("//evil/x", PathFault::EmptyFirstSegment)]
#[test_case("/x%00", PathFault::ControlByte)]
#[test_case("/x%0d%0aHost:evil", PathFault::ControlByte)]
#[test_case("/x%250a", PathFault::ControlByte; "a control byte encoded twice")]
#[test_case("/100%", PathFault::BadEscape)]
#[test_case("/%zz", PathFault::BadEscape; "no digits")]
#[test_case("@evil.example/x", PathFault::NoPath; "an at sign in the place of the slash")]
#[test_case(".evil.example/x", PathFault::NoPath; "a dot in the place of the slash")]
#[test_case(":8080/x", PathFault::NoPath; "a port in the place of the slash")]
fn what_could_lead_elsewhere_is_refused(rest: &str, fault: PathFault) {
    assert_eq!(upstream("https://up.example/api/v1").target(rest), Err(fault));
}

#[test_case("/%2fevil/x"; "an encoded slash first")]
#[test_case("/\\evil/x"; "a backslash first")]
#[test_case("/%5cevil/x"; "an encoded backslash first")]
fn at_the_root_nothing_may_read_as_a_host(rest: &str) {
    assert_eq!(upstream("https://up.example").target(rest), Err(PathFault::EmptyFirstSegment));
    assert!(upstream("https://up.example/api").target(rest).is_ok());
}

#[test_case("up.example/v1", UpstreamError::NoUrl; "no scheme")]
#[test_case("/v1", UpstreamError::NoHost; "only a path")]
#[test_case("ftp://up.example", UpstreamError::NoHost; "another scheme")]
#[test_case("https://user:pw@up.example/v1", UpstreamError::UserPart; "a user part")]
#[test_case("https://up.example/v1?key=x", UpstreamError::Query; "a query")]
#[test_case("https://up.example/a/../b", UpstreamError::Path(PathFault::DotSegment); "dots")]
#[test_case("https://", UpstreamError::NoUrl; "nothing behind the scheme")]
#[test_case("", UpstreamError::NoUrl; "nothing")]
fn what_is_no_base_url_is_refused(url: &str, error: UpstreamError) {
    assert_eq!(Upstream::parse(url), Err(error));
}

#[test_case("/api/v1/batches/7?x=1", Some("/d/llm/batches/7?x=1"); "a path below the base URL")]
#[test_case("/api/v1", Some("/d/llm"); "the base URL itself")]
#[test_case("/api/v10/x", None; "another path that begins alike")]
#[test_case("/login", None; "a path outside")]
#[test_case("https://up.example/api/v1/x", None; "a whole URL")]
#[test_case("//evil/x", None; "a host")]
fn a_location_that_names_a_path_is_put_behind_the_gateway(location: &str, expected: Option<&str>) {
    let location = HeaderValue::from_str(location).unwrap();
    let moved = upstream("https://up.example/api/v1/").location_for_caller("llm", &location);
    assert_eq!(moved.as_ref().map(|value| value.to_str().unwrap()), expected);
}

/// How a server may read a path: how often it decodes, whether a backslash separates, whether it cuts parameters, folds
/// empty segments, and trims blanks.
#[derive(Clone, Copy, Debug)]
struct Reading {
    layers: usize,
    backslash: bool,
    parameters: bool,
    folds: bool,
    trims: bool,
}

impl Reading {
    /// Returns how the path reads once dot segments are resolved, or `None` if it climbs out of the root.
    fn resolve(self, path: &str) -> Option<Vec<Vec<u8>>> {
        let mut bytes = path.as_bytes().to_vec();
        for _ in 0..self.layers {
            bytes = decode::decoded(&bytes);
        }
        let mut resolved: Vec<Vec<u8>> = Vec::new();
        for segment in bytes.split(|byte| *byte == b'/' || self.backslash && *byte == b'\\').skip(1) {
            let mut segment = segment;
            if self.parameters {
                segment = segment.split(|byte| *byte == b';').next().unwrap_or_default();
            }
            if self.trims {
                segment = segment.trim_ascii();
            }
            match segment {
                b"." => {}
                b".." => {
                    resolved.pop()?;
                }
                b"" if self.folds => {}
                _ => resolved.push(segment.to_vec()),
            }
        }
        Some(resolved)
    }
}

fn readings() -> impl Strategy<Value = Reading> {
    (0_usize..=3, any::<[bool; 4]>()).prop_map(|(layers, [backslash, parameters, folds, trims])| Reading {
        layers,
        backslash,
        parameters,
        folds,
        trims,
    })
}

/// Paths made of what attacks are made of.
fn hostile_paths() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        ".", "..", "/", "//", "\\", ";", "%", "%2e", "%2E", "%2f", "%5c", "%25", "2e", "2f", "%252e", "%3b", "%20",
        "a", "admin", "@", ":", "%c0%ae", "?", "#", "%00", "..;", "5c", "%23",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| format!("/{}", pieces.concat()))
}

proptest! {
    /// S011, S075
    #[test]
    fn no_reading_of_a_forwarded_path_leaves_the_prefix(rest in hostile_paths(), reading in readings()) {
        if let Ok(uri) = upstream("https://up.example/api/v1/").target(&rest) {
            prop_assert_eq!(uri.host(), Some("up.example"));
            prop_assert!(uri.path().starts_with("/api/v1/"), "{}", uri);
            let resolved = reading.resolve(uri.path());
            prop_assert!(
                resolved.as_ref().is_some_and(|path| path.starts_with(&[b"api".to_vec(), b"v1".to_vec()])),
                "{} reads as {:?} by {:?}", uri, resolved, reading,
            );
        }
    }

    #[test]
    fn whatever_the_caller_sends_the_origin_is_the_policys(rest in "\\PC{0,40}", base in prop::bool::ANY) {
        let base = upstream(if base { "https://up.example" } else { "https://up.example/api" });
        if let Ok(uri) = base.target(&rest) {
            prop_assert_eq!(uri.scheme_str(), Some("https"));
            prop_assert_eq!(uri.authority().map(Authority::as_str), Some("up.example"));
        }
    }

    #[test]
    fn an_accepted_path_keeps_its_bytes(rest in "(/[a-z0-9%2f@:.-]{1,8}){1,4}(\\?[a-z=&/.]{0,9})?") {
        if let Ok(uri) = upstream("https://up.example/v1").target(&rest) {
            prop_assert_eq!(uri.to_string(), format!("https://up.example/v1{rest}"));
        }
    }
}
