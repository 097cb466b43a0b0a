//! Shows figures to Prometheus, in the form that it asks for.

use std::sync::Arc;

use http::Response;
use http::header::ACCEPT;

use super::super::body::Body;
use super::super::gateway::Gateway;
use super::super::metrics;
use super::super::metrics::text::{self, Form};
use super::super::problem::{Kind, Problem};
use super::circuits::at_the_store;
use super::{Asked, answer};

/// Answers `GET /metrics`.
pub(super) async fn show(gateway: &Arc<Gateway>, asked: Asked) -> Result<Response<Body>, Problem> {
    let mut accepts = asked.request.headers().get_all(ACCEPT).iter();
    let standard =
        accepts.any(|field| field.to_str().is_ok_and(|field| field.contains("application/openmetrics-text")));
    let form = if standard { Form::OpenMetrics } else { Form::Plain };
    let families = at_the_store(gateway, |gateway, handle| Ok(metrics::read(gateway, handle))).await?;
    let written =
        text::write(families, form).map_err(|_| Problem::new(Kind::Internal, "The figures cannot be written."))?;
    Ok(answer::with_type(written, form.media_type()))
}
