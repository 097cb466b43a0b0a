//! Asks the policy's cheap URL whether a dependency is there again, before real work is risked on it.

use std::sync::Arc;
use std::time::Duration;

use halfopen_core::outcome::Reached;
use halfopen_core::verdict::{Class, Verdict};
use http::header::{HOST, USER_AGENT};
use http::{HeaderValue, Request, Uri};

use super::relay::{plain, text_of, timed_out};
use super::upload::Outgoing;
use super::upstream::{Choose, Origin, Pool};

/// How long it may take, or as long as an attempt, if that is shorter.
const WITHIN: Duration = Duration::from_secs(10);

/// Asks; a status below 400 says that it is there.
///
/// # Errors
///
/// The verdict that fails the round.
pub(super) async fn ask(url: &str, timeout: Option<Duration>) -> Result<(), Verdict> {
    let within = timeout.map_or(WITHIN, |timeout| timeout.min(WITHIN));
    match tokio::time::timeout(within, once(url, within)).await {
        Ok(answered) => answered,
        Err(_) => Err(timed_out("no answer of the probe URL in time")),
    }
}

async fn once(url: &str, within: Duration) -> Result<(), Verdict> {
    let failed = |class, why: &str| plain(class, "halfopen/probe", Reached::Answered, "probe URL", why);
    let uri: Uri = url.parse().map_err(|_| failed(Class::ConnectionFailure, "it is no URL"))?;
    let Some(origin) = Origin::of(&uri) else { return Err(failed(Class::ConnectionFailure, "it has no host")) };
    let host = origin.host_header.clone();
    let pool = Arc::new(Pool::new(origin));
    let ready =
        pool.ready(Choose::New, within).await.map_err(|error| failed(Class::ConnectionFailure, &text_of(&error)))?;
    let mut request = Request::new(Outgoing::Empty);
    *request.uri_mut() = uri.path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from);
    request.headers_mut().insert(HOST, host);
    request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("halfopen"));
    let answered = ready.send(request).await;
    let (parts, _) = answered.map_err(|lost| failed(Class::ServerError, &text_of(&lost.cause)))?;
    if parts.status.as_u16() < 400 {
        Ok(())
    } else {
        Err(failed(Class::ServerError, &format!("it answers {}", parts.status)))
    }
}
