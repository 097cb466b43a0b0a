//! Posts alerts over HTTP: webhooks and Slack.
//!
//! Addresses are shown by their host alone, because the rest of a webhook's address is its secret.

use std::time::Duration;

use bytes::Bytes;
use halfopen_core::alert::Delivered;
use halfopen_core::verdict::Class;
use http::header::CONTENT_TYPE;
use http::{HeaderName, Request, StatusCode, Uri};

use super::message::Message;
use super::{Outcome, sign};
use crate::post;

/// Posts an alert as a CloudEvent, signed if there is a key.
pub(super) fn webhook(url: &str, keys: Option<&str>, message: &Message, within: Duration) -> Outcome {
    let body = message.cloud_event();
    let mut fields = vec![(CONTENT_TYPE, "application/cloudevents+json; charset=utf-8".to_owned())];
    fields.push((HeaderName::from_static("webhook-id"), message.id.clone()));
    fields.push((HeaderName::from_static("webhook-timestamp"), message.sent_at_sec.to_string()));
    if let Some(keys) = keys {
        match sign::signature(keys, &message.id, message.sent_at_sec, body.as_bytes()) {
            Ok(signature) => fields.push((HeaderName::from_static("webhook-signature"), signature)),
            Err(why) => return Outcome::never(why),
        }
    }
    send(url, fields, body, within)
}

/// Posts an alert to a Slack webhook.
pub(super) fn slack(url: &str, message: &Message, within: Duration) -> Outcome {
    send(url, vec![(CONTENT_TYPE, "application/json; charset=utf-8".to_owned())], message.slack(), within)
}

fn send(url: &str, fields: Vec<(HeaderName, String)>, body: String, within: Duration) -> Outcome {
    let Ok(uri) = url.parse::<Uri>() else { return Outcome::never("the address is no URL") };
    let Some(authority) = uri.authority() else { return Outcome::never("the address has no host") };
    let shown = format!("{}://{}/…", uri.scheme_str().unwrap_or("http"), authority.host());
    let mut request = Request::post(uri.path_and_query().map_or("/", |path| path.as_str()));
    for (name, value) in fields {
        request = request.header(name, value);
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Outcome::not_now(Class::InvalidRequest, format!("cannot start: {error}")),
    };
    let asked = async { tokio::time::timeout(within, post::post(&uri, request, Bytes::from(body))).await };
    let asked = runtime.block_on(asked);
    // A resolver that hangs must not keep the process.
    runtime.shutdown_background();
    match asked {
        Err(_) => {
            Outcome::not_now(Class::Timeout, format!("{shown} did not answer within {:.1} s", within.as_secs_f64()))
        }
        Ok(Err(error)) => Outcome::not_now(Class::ConnectionFailure, format!("{shown} cannot be reached: {error}")),
        Ok(Ok(answer)) => judged(&shown, answer.status, answer.retry_after),
    }
}

/// A receiver that says no for good is not asked again; one that is busy or broken is.
fn judged(shown: &str, status: StatusCode, wait: Option<Duration>) -> Outcome {
    if status.is_success() {
        return Outcome::taken();
    }
    let error = format!("{shown} answered {}", status.as_u16());
    match status {
        StatusCode::TOO_MANY_REQUESTS => {
            Outcome { delivered: Delivered::NotNow { error, wait }, class: Class::RateLimited }
        }
        StatusCode::REQUEST_TIMEOUT => Outcome { delivered: Delivered::NotNow { error, wait }, class: Class::Timeout },
        _ if status.is_server_error() => {
            Outcome { delivered: Delivered::NotNow { error, wait }, class: Class::ServerError }
        }
        _ => Outcome::never(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case(200, "yes")]
    #[test_case(204, "yes")]
    #[test_case(301, "never"; "an address that moved is for a person")]
    #[test_case(403, "never")]
    #[test_case(404, "never")]
    #[test_case(408, "not now")]
    #[test_case(429, "not now")]
    #[test_case(500, "not now")]
    #[test_case(503, "not now")]
    fn s184_only_what_may_heal_is_tried_again(status: u16, expected: &str) {
        let outcome = judged("https://x/…", StatusCode::from_u16(status).unwrap(), None);
        let seen = match outcome.delivered {
            Delivered::Yes => "yes",
            Delivered::NotNow { .. } => "not now",
            Delivered::Never { .. } => "never",
            Delivered::NotTried { .. } => "not tried",
        };
        assert_eq!(seen, expected);
    }
}
