//! Finds the key a caller brings, and tells one that stays from one that changes by the hour.
//!
//! A key that stays names an account: its limit, its credit, its revocation. A token that is fetched anew each hour
//! names nobody for longer than that; told apart by it, every hour would begin with breakers that know nothing, and a
//! partition would be lost to each. Where it cannot be told, a key counts as one that stays: most do.

use http::HeaderMap;
use http::header::AUTHORIZATION;

/// Fields that hold a key and nothing else.
pub(in crate::serve) const KEY_FIELDS: &[&str] = &[
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "xi-api-key",
    "x-subscription-token",
    "ocp-apim-subscription-key",
    "private-token",
    "dd-api-key",
    "x-auth-token",
    "x-api-token",
    "apikey",
];

/// Beginnings of tokens that are issued for hours: Google's access tokens, GitHub's for installations and users, Slack's
/// that rotate, Dropbox's, Microsoft's opaque ones.
const CHANGING: &[&str] = &["ya29.", "ghs_", "ghu_", "xoxe.", "sl.", "EwB", "EwA"];

/// A key of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// It stays; these characters tell it from others.
    Static(&'a str),
    /// It changes by the hour.
    Changing,
}

/// Returns the key of a request, if it brings one. A key that stays goes before one that changes.
pub(super) fn find(headers: &HeaderMap) -> Option<Token<'_>> {
    // One look at the fields that there are is cheaper than one question for each that there could be.
    let any = headers.keys().any(|name| KEY_FIELDS.contains(&name.as_str()));
    let names = if any { KEY_FIELDS } else { &[] };
    let named = names.iter().filter_map(|name| headers.get(*name)?.to_str().ok().and_then(judged));
    let authorized = headers.get_all(AUTHORIZATION).iter().filter_map(|value| authorization(value.to_str().ok()?));
    let mut changing = None;
    for token in named.chain(authorized) {
        match token {
            Token::Static(_) => return Some(token),
            Token::Changing => changing = Some(token),
        }
    }
    changing
}

fn authorization(value: &str) -> Option<Token<'_>> {
    let value = value.trim();
    let Some((scheme, rest)) = value.split_once(' ') else {
        // A scheme without anything behind it is no key.
        let alone = ["bearer", "basic", "token"].iter().any(|scheme| value.eq_ignore_ascii_case(scheme));
        return if alone { None } else { judged(value) };
    };
    let rest = rest.trim();
    match scheme.to_ascii_lowercase().as_str() {
        // Each request is signed anew; the id of the key stays, unless it is one of a session (`ASIA`).
        "aws4-hmac-sha256" | "aws4-ecdsa-p256-sha256" => {
            let id = rest.split(',').find_map(|part| part.trim().strip_prefix("Credential="))?.split('/').next()?;
            (!id.is_empty()).then_some(if id.starts_with("ASIA") { Token::Changing } else { Token::Static(id) })
        }
        // `AWS ID:SIGNATURE`, `SharedKey ACCOUNT:SIGNATURE`.
        "aws" | "sharedkey" | "sharedkeylite" => rest.split(':').next().filter(|id| !id.is_empty()).map(Token::Static),
        "digest" | "negotiate" | "ntlm" | "oauth" | "hawk" | "dpop" | "signature" | "gnap" => Some(Token::Changing),
        _ => judged(rest),
    }
}

fn judged(token: &str) -> Option<Token<'_>> {
    let token = token.trim();
    if token.is_empty() {
        return None;
    }
    // Salesforce's session ids: the organisation, `!`, the session.
    let of_session = token.starts_with("00D") && token.contains('!');
    let changes = of_session || CHANGING.iter().any(|start| token.starts_with(start)) || expires(token);
    Some(if changes { Token::Changing } else { Token::Static(token) })
}

/// Returns whether a token says of itself that it ends: a JSON Web Token (RFC 7519) with `exp`, or one that cannot be
/// read (an encrypted one has five parts).
fn expires(token: &str) -> bool {
    if !token.starts_with("eyJ") {
        return false;
    }
    let parts: Vec<&str> = token.split('.').take(6).collect();
    match parts.as_slice() {
        [_, claims, _] => base64url(claims).is_none_or(|claims| holds(&claims, b"\"exp\"")),
        [_, _, _, _, _] => true,
        _ => false,
    }
}

fn holds(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}

/// Decodes base64 in its alphabet for URLs, without padding (RFC 4648 section 5).
fn base64url(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for c in text.trim_end_matches('=').bytes() {
        let six = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'-' | b'+' => 62,
            b'_' | b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::HeaderName;
    use test_case::test_case;

    fn found(fields: &[(&str, &str)]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        find(&headers).map(|token| match token {
            Token::Static(key) => key.to_owned(),
            Token::Changing => "(changing)".to_owned(),
        })
    }

    /// {"sub":"1","iat":1,"exp":2} and {"sub":"1","iat":1}
    const ENDS: &str = "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIiwiaWF0IjoxLCJleHAiOjJ9.sig";
    const STAYS: &str = "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIiwiaWF0IjoxfQ.sig";
    const SIGNED: &str = "AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/20260101/us-east-1/textract/aws4_request, \
                          SignedHeaders=host, Signature=00ff";

    #[test_case(&[("x-api-key", "sk-1")], "sk-1")]
    #[test_case(&[("api-key", " k ")], "k"; "with white space")]
    #[test_case(&[("authorization", "Bearer sk-1")], "sk-1")]
    #[test_case(&[("authorization", "bearer  sk-1")], "sk-1"; "another spelling of bearer")]
    #[test_case(&[("authorization", "Basic dTpw")], "dTpw")]
    #[test_case(&[("authorization", "Token t1")], "t1")]
    #[test_case(&[("authorization", "t1")], "t1"; "without a scheme")]
    #[test_case(&[("authorization", STAYS)], STAYS.strip_prefix("Bearer ").unwrap(); "a web token without an end")]
    #[test_case(&[("authorization", SIGNED)], "AKIAEXAMPLE"; "a signature")]
    #[test_case(&[("authorization", "AWS AKIAEXAMPLE:c2ln")], "AKIAEXAMPLE"; "an old signature")]
    #[test_case(&[("authorization", "SharedKey account:c2ln")], "account")]
    #[test_case(&[("authorization", "Bearer ya29.abc"), ("x-api-key", "sk-1")], "sk-1"; "what stays goes first")]
    fn a_key_that_stays_is_told_by_its_characters(fields: &[(&str, &str)], expected: &str) {
        assert_eq!(found(fields).as_deref(), Some(expected));
    }

    #[test_case("Bearer ya29.a0AfH6SM"; "google")]
    #[test_case(ENDS; "a web token with an end")]
    #[test_case("Bearer eyJ!!.not-base64!.sig"; "a web token that cannot be read")]
    #[test_case("Bearer eyJh.a.b.c.d"; "an encrypted one")]
    #[test_case("AWS4-HMAC-SHA256 Credential=ASIAEXAMPLE/20260101/x/y/z, Signature=0"; "a session of aws")]
    #[test_case("Digest username=\"u\", nonce=\"n\""; "digest")]
    #[test_case("Bearer 00D000000000001!AQcAQ"; "salesforce")]
    fn a_token_of_the_hour_tells_nobody_apart(value: &str) {
        assert_eq!(found(&[("authorization", value)]).as_deref(), Some("(changing)"));
    }

    #[test_case(&[]; "nothing")]
    #[test_case(&[("authorization", "Bearer ")]; "no token")]
    #[test_case(&[("x-api-key", "")]; "an empty key")]
    #[test_case(&[("authorization", "AWS4-HMAC-SHA256 garbage")]; "a signature without a key")]
    fn what_brings_no_key_has_no_account(fields: &[(&str, &str)]) {
        assert_eq!(found(fields), None);
    }
}
