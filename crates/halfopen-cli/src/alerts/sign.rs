//! Signs webhooks as Standard Webhooks says: `v1,BASE64(HMAC-SHA256(key, "ID.TIMESTAMP.BODY"))`.
//! <https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

/// What the text form of a key begins with.
const PREFIX: &str = "whsec_";

/// How many keys sign at once while one replaces another.
const KEYS_MAX: usize = 4;

/// Returns the value of `webhook-signature`: one signature for each key in `keys`, which stand apart by white space.
///
/// # Errors
///
/// What is wrong with the keys, without them.
pub(super) fn signature(keys: &str, id: &str, timestamp: i64, body: &[u8]) -> Result<String, &'static str> {
    let mut signatures = Vec::new();
    for word in keys.split_whitespace().take(KEYS_MAX) {
        let text = word.strip_prefix(PREFIX).ok_or("the signing secret does not begin with `whsec_`")?;
        let text = text.trim_end_matches('=');
        let key = STANDARD_NO_PAD.decode(text).map_err(|_| "the signing secret is not base64 behind `whsec_`")?;
        if key.len() < 16 {
            return Err("the signing secret has less than 16 bytes");
        }
        let mut signing = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &key));
        signing.update(format!("{id}.{timestamp}.").as_bytes());
        signing.update(body);
        signatures.push(format!("v1,{}", STANDARD.encode(signing.sign())));
    }
    if signatures.is_empty() { Err("the signing secret is empty") } else { Ok(signatures.join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    /// The example of the specification's reference implementations.
    #[test]
    fn the_published_example_is_signed_as_published() {
        let signed = signature(
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signed.as_deref(), Ok("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
    }

    #[test]
    fn while_a_key_is_replaced_both_sign() {
        let both = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        assert_eq!(signature(both, "a", 1, b"x").unwrap().split(' ').count(), 2);
    }

    #[test_case("", "empty")]
    #[test_case("secret", "whsec_")]
    #[test_case("whsec_!!", "base64")]
    #[test_case("whsec_AAAA", "16 bytes")]
    fn what_is_no_key_is_said_without_repeating_it(keys: &str, said: &str) {
        assert!(signature(keys, "a", 1, b"x").unwrap_err().contains(said));
    }
}
