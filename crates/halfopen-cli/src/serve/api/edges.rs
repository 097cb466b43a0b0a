//! Reads what an operator asks as far as it can be read without a gateway, for the fuzz target of these readers.

use http::Method;
use serde_json::Value;

use super::ask::{Object, Query, wrong};
use super::circuits::lasting;
use super::jobs::ttl;
use super::route::{Found, Operation, find};

/// Returns the operation with what was understood of it, or the detail that the operator is told.
pub(in crate::serve) fn understood(method: &Method, path: &str, query: &str, body: &[u8]) -> Result<String, String> {
    let Found::Operation(operation, circuit) = find(method, path) else { return Ok("no operation".to_owned()) };
    let read = || {
        let query = Query::read(query, operation)?;
        let flags: Vec<bool> = ["full", "all"].iter().map(|key| query.flag(key)).collect::<Result<_, _>>()?;
        if operation.method() != Method::POST {
            return Ok(format!("{operation:?} {circuit:?} {flags:?}"));
        }
        let mut object = Object::parse(body, "{}")?;
        let reason = object.reason()?;
        let state = object.take("state");
        let ended = match operation {
            Operation::Hold => lasting(object.take("for_sec"), object.take("for"))?,
            _ => ttl(object.take("ttl_sec"))?,
        };
        if let Some(state) = state.filter(|state| !state.is_string()) {
            return Err(super::ask::bad(wrong("state", &state, "\"open\" or \"closed\"")));
        }
        let words: Vec<Option<String>> = ["result", "probe_now", "may_have_run"]
            .iter()
            .map(|key| object.take(key).as_ref().map(Value::to_string))
            .collect();
        object.end("those of the operation")?;
        Ok(format!("{operation:?} {circuit:?} {reason:?} {ended:?} {words:?}"))
    };
    read().map_err(|problem: super::super::problem::Problem| problem.detail().to_owned())
}
