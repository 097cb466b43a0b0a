//! The operators' side: circuits and how they are steered, the journal, metrics, health, and what all that is.
//!
//! [`route::Operation`] lists every path once; the answer, the right it takes, and the entry in `/openapi.json` follow
//! from it, so that none of the three can drift. A router crate with its own extractors was considered and refused: ten
//! paths are a `match`, and here every mistake of a request must be told in our words, with field, value and what is
//! allowed.

mod answer;
mod ask;
mod audit;
mod circuits;
mod drills;
mod edges;
mod events;
mod health;
mod jobs;
mod metrics;
mod openapi;
mod route;

use std::sync::Arc;

use http::{Method, Request, Response};
use hyper::body::Incoming;

use super::access::{self, Arrival, Right, Serves};
use super::body::Body;
use super::gateway::Gateway;
use super::problem::{Kind, Problem};
pub(super) use answer::harden;
pub(super) use ask::{bad, decoded, shown};
pub(super) use circuits::{at_the_store, unreadable, unwritable};
pub(super) use edges::understood;
pub(super) use events::Chunks;
pub(super) use health::LastLook;
use jobs::Deed;
pub(super) use jobs::refused as job_refused;
use route::{Found, Operation};

/// What an operation is given.
struct Asked {
    /// The circuit or the job in the path, percent-decoded; empty where the path has none.
    circuit: String,
    /// The query, decoded.
    query: ask::Query,
    /// Who asks, as the journal names them.
    who: String,
    /// Whether the one who asks may see what anybody may not.
    trusted: bool,
    /// The request.
    request: Request<Incoming>,
}

/// Answers a request for an operators' path.
pub(super) async fn answer(gateway: &Arc<Gateway>, arrival: &Arrival, request: Request<Incoming>) -> Response<Body> {
    let head = request.method() == Method::HEAD;
    let mut response = match operate(gateway, arrival, request).await {
        Ok(response) => response,
        Err(problem) => access::refusal(&problem),
    };
    answer::harden(&mut response);
    if head {
        *response.body_mut() = super::body::full("");
    }
    response
}

async fn operate(
    gateway: &Arc<Gateway>,
    arrival: &Arrival,
    request: Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    let (operation, circuit) = match route::find(request.method(), request.uri().path()) {
        Found::Operation(operation, circuit) => (operation, circuit),
        Found::Method(allowed) => {
            let detail = format!("This path takes {allowed}.");
            return Err(Problem::new(Kind::MethodNotAllowed, detail));
        }
        Found::Nothing => {
            let detail = "Calls go to /d/DEPENDENCY/PATH; operators' paths are listed in /openapi.json.";
            return Err(Problem::new(Kind::NotFound, detail));
        }
    };
    if arrival.serves == Serves::Calls && operation != Operation::Healthz {
        let detail = "Operators' paths are answered at the address given with --admin-listen.";
        return Err(Problem::new(Kind::NotFound, detail));
    }
    let (parts, body) = request.into_parts();
    let who = gateway.access.operator(&parts, arrival, operation.right())?;
    let trusted = operation.right() != Right::Nobody || gateway.access.is_operator(&parts, arrival);
    let query = ask::Query::read(parts.uri.query().unwrap_or_default(), operation)?;
    let asked = Asked { circuit, query, who, trusted, request: Request::from_parts(parts, body) };
    match operation {
        Operation::Circuits => circuits::list(gateway, asked).await,
        Operation::Circuit => circuits::one(gateway, asked).await,
        Operation::Hold => circuits::hold(gateway, asked).await,
        Operation::Release => circuits::release(gateway, asked).await,
        Operation::Reset => circuits::reset(gateway, asked).await,
        Operation::Jobs => jobs::list(gateway, asked).await,
        Operation::Job => jobs::one(gateway, asked).await,
        Operation::JobResult => jobs::result(gateway, asked).await,
        Operation::Requeue => jobs::act(gateway, asked, Deed::Requeue).await,
        Operation::Resolve => jobs::act(gateway, asked, Deed::Resolve).await,
        Operation::Discard => jobs::act(gateway, asked, Deed::Discard).await,
        Operation::Cancel => jobs::act(gateway, asked, Deed::Cancel).await,
        Operation::Audit => audit::show(gateway).await,
        Operation::Events => events::show(gateway, asked).await,
        Operation::Drills => Ok(drills::list(gateway)?),
        Operation::BeginDrill => drills::begin(gateway, asked).await,
        Operation::EndDrill => drills::end(gateway, asked).await,
        Operation::Metrics => metrics::show(gateway, asked).await,
        Operation::Healthz => Ok(health::alive(asked.trusted)),
        Operation::Readyz => health::ready(gateway, asked).await,
        Operation::OpenApi => Ok(openapi::describe()),
    }
}
