//! Says whether the process lives, and whether it can serve.
//!
//! Alive is whoever answers. Ready is who can read and write the store and is not ending; an open breaker is no reason
//! not to be: that is what the gateway is for, and a balancer that took it away would make one outage two. The store is
//! looked at no more than once a second, however often anybody asks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use halfopen::handle::StoreHealth;
use http::{Response, StatusCode};
use serde_json::json;

use super::super::body::Body;
use super::super::gateway::Gateway;
use super::super::problem::{Kind, Problem};
use super::circuits::at_the_store;
use super::{Asked, answer};

/// How long what was found is believed.
const BELIEVED: Duration = Duration::from_secs(1);

/// What was found when the store was looked at last.
#[derive(Debug, Default)]
pub(in crate::serve) struct LastLook(tokio::sync::Mutex<Option<(Instant, StoreHealth)>>);

impl LastLook {
    /// Returns how well the store serves.
    pub(in crate::serve) async fn health(&self, gateway: &Arc<Gateway>) -> Result<StoreHealth, Problem> {
        // Whoever comes while somebody looks waits for what that one finds.
        let mut last = self.0.lock().await;
        if let Some((at, health)) = &*last
            && at.elapsed() < BELIEVED
        {
            return Ok(health.clone());
        }
        let health = at_the_store(gateway, |_, handle| Ok(handle.check())).await?;
        *last = Some((Instant::now(), health.clone()));
        Ok(health)
    }
}

/// Answers `GET /healthz`.
pub(super) fn alive(trusted: bool) -> Response<Body> {
    let version = trusted.then_some(env!("CARGO_PKG_VERSION"));
    let mut document = json!({ "status": "ok" });
    if let Some(version) = version {
        document["version"] = json!(version);
    }
    answer::with_type(format!("{document}\n"), "application/json")
}

/// Answers `GET /readyz`.
pub(super) async fn ready(gateway: &Arc<Gateway>, asked: Asked) -> Result<Response<Body>, Problem> {
    if gateway.shutdown.is_draining() {
        return Err(Problem::new(Kind::ShuttingDown, "Running calls are being finished.").reason("shutting_down"));
    }
    let not = |reason: &str, why: &str| {
        // Where the store is and how it fails is for operators.
        let detail = if asked.trusted {
            format!("The store is not usable: {why}.")
        } else {
            "The store is not usable.".to_owned()
        };
        Problem::new(Kind::NotReady, detail).reason(reason)
    };
    match gateway.last_look.health(gateway).await? {
        StoreHealth::Good => {
            let dependencies = gateway.live().dependencies().count();
            let mut response = answer::with_type(
                format!("{}\n", json!({ "status": "ready", "dependencies": dependencies })),
                "application/json",
            );
            *response.status_mut() = StatusCode::OK;
            Ok(response)
        }
        StoreHealth::ReadOnly(why) => Err(not("store_read_only", &why)),
        StoreHealth::Lost(why) => Err(not("store_lost", &why)),
    }
}
