//! Audits the store as `halfopen audit` does.
//!
//! It looks at every job, so one goes on at a time: whoever asks meanwhile is told to come back. It reads in steps and keeps no
//! call from the store.

use std::sync::Arc;

use http::Response;
use tokio::sync::Semaphore;

use super::super::body::Body;
use super::super::gateway::Gateway;
use super::super::problem::{Kind, Problem};
use super::answer;
use super::circuits::{at_the_store, unreadable};
use crate::shown::audit_document;

/// The one audit that may go on in this process.
static ONE: Semaphore = Semaphore::const_new(1);

/// Answers `GET /audit`.
pub(super) async fn show(gateway: &Arc<Gateway>) -> Result<Response<Body>, Problem> {
    let Ok(_one) = ONE.try_acquire() else {
        return Err(Problem::new(Kind::TooManyCalls, "An audit goes on already; ask again when it is over."));
    };
    let document = at_the_store(gateway, |gateway, handle| {
        // A lease that has just run out is nothing wrong until somebody had the chance to see it.
        let _ = handle.sweep(&|dependency| gateway.policy_of(dependency));
        let figures = handle.job_figures().map_err(unreadable)?;
        Ok(audit_document(&figures, &handle.audit().map_err(unreadable)?))
    })
    .await?;
    answer::json(&document)
}
