//! Answers for jobs: the 202 of a call that was kept, and the kept answer of a job that has ended.

use bytes::Bytes;
use halfopen::handle::jobs::{JobDetail, Receipt};
use halfopen_core::job::{JobId, JobResult, JobState};
use halfopen_core::time::ReadAt;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, LOCATION, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;

use super::super::body::{self, Body};
use super::super::problem::OUTCOME;
use crate::shown::When;

/// Names the job whose answer this is.
pub(in crate::serve) const JOB: HeaderName = HeaderName::from_static("halfopen-job");
/// Says that the key was known, and that this is the earlier job.
pub(in crate::serve) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Says that the kept answer is not whole.
const CUT: HeaderName = HeaderName::from_static("halfopen-result-cut");

/// What is told of a call that was kept.
#[derive(Clone, Copy, Debug)]
pub(in crate::serve) struct Told<'a> {
    pub(in crate::serve) dependency: &'a str,
    pub(in crate::serve) receipt: Receipt,
    /// What the policy wants people to be told.
    pub(in crate::serve) message: Option<&'a str>,
    /// Why, where it is more than that the dependency could not do it.
    pub(in crate::serve) reason: Option<&'a str>,
    /// In how many seconds a look at the job can show more.
    pub(in crate::serve) look_in_secs: u64,
}

impl Told<'_> {
    /// Returns the 202.
    pub(in crate::serve) fn answer(&self, read: &ReadAt) -> Response<Body> {
        let Receipt { id, state, expires_at, position } = self.receipt;
        let mut document = json!({
            "id": id.to_string(),
            "dependency": self.dependency,
            "state": state.as_str(),
            "message": self.message,
            "expires_at": When::read(read).rfc3339(expires_at),
            "position": position,
        });
        if let Some(reason) = self.reason {
            document["reason"] = reason.into();
        }
        let mut response = Response::new(body::full(document.to_string() + "\n"));
        *response.status_mut() = StatusCode::ACCEPTED;
        let fields = response.headers_mut();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        fields.insert(OUTCOME, HeaderValue::from_static(state.as_str()));
        fields.insert(RETRY_AFTER, HeaderValue::from(self.look_in_secs.max(1)));
        if let Ok(location) = HeaderValue::from_str(&format!("/jobs/{id}")) {
            fields.insert(LOCATION, location);
        }
        name_job(&mut response, id);
        response
    }
}

/// Returns the answer that was kept of a job which has ended, as it came: its status, its fields, its bytes. `None` if
/// there is none.
pub(in crate::serve) fn kept(detail: JobDetail) -> Option<Response<Body>> {
    let state = detail.view.job.state();
    if !matches!(state, JobState::Done | JobState::Failed | JobState::ManualReview) {
        return None;
    }
    let (status, headers, body, cut) = match detail.result? {
        JobResult::Http { status, headers, body, cut } => (status, headers, body, cut),
        JobResult::Command { stdout, cut, .. } => (200, typed("application/octet-stream"), stdout, cut),
        JobResult::Stated(words) => (200, typed("text/plain; charset=utf-8"), words.into_bytes(), false),
    };
    let mut response = Response::new(body::full(Bytes::from(body)));
    *response.status_mut() = StatusCode::from_u16(status).ok()?;
    let fields = response.headers_mut();
    for (name, value) in &headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value)) {
            fields.append(name, value);
        }
    }
    // The length is that of what was kept; whoever sends it says it.
    fields.remove(CONTENT_LENGTH);
    if cut {
        fields.insert(CUT, HeaderValue::from_static("true"));
    }
    let class = detail.view.job.last().map_or("success", |last| last.class.as_str());
    fields.insert(OUTCOME, HeaderValue::from_static(class));
    name_job(&mut response, detail.view.id);
    Some(response)
}

fn typed(media_type: &str) -> Vec<(String, Vec<u8>)> {
    vec![(CONTENT_TYPE.as_str().to_owned(), media_type.as_bytes().to_vec())]
}

/// Names the job in an answer.
pub(in crate::serve) fn name_job(response: &mut Response<Body>, id: JobId) {
    if let Ok(id) = HeaderValue::from_str(&id.to_string()) {
        response.headers_mut().insert(JOB, id);
    }
}
