//! Describes the operators' paths in OpenAPI 3.1, out of the table they are answered by.
//!
//! What stands here beside the table is prose and the forms of documents; a test asks a running gateway for every path of
//! the document and holds each answer against the form that is promised for it.

use http::{Method, Response};
use serde_json::{Map, Value, json};

use super::super::access::Right;
use super::super::body::Body;
use super::answer;
use super::route::Operation;

/// Answers `GET /openapi.json`.
pub(super) fn describe() -> Response<Body> {
    answer::with_type(format!("{:#}\n", document()), "application/json")
}

/// Returns the description.
fn document() -> Value {
    let mut paths = Map::new();
    for operation in Operation::ALL {
        let path = paths.entry(operation.path()).or_insert_with(|| json!({}));
        path[operation.method().as_str().to_ascii_lowercase()] = described(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "halfopen",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The operators' side of halfopen serve. Calls go to /d/{dependency}/{path} and are not described here: \
                            they are the dependency's.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{}, { "bearer": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
            },
            "schemas": schemas(),
        },
    })
}

fn described(operation: Operation) -> Value {
    let mut parameters: Vec<Value> = Vec::new();
    if operation.path().contains("{id}") {
        let about = if operation.path().starts_with("/jobs") {
            "a job: j17-9f3ac2d1"
        } else if operation == Operation::EndDrill {
            "a drill: the `name` that its begin was answered with"
        } else {
            "a circuit, percent-encoded: ocr, ocr@region=eu; without @ all circuits of that dependency"
        };
        parameters.push(json!({
            "name": "id", "in": "path", "required": true, "schema": { "type": "string" }, "description": about,
        }));
    }
    for param in operation.query() {
        parameters.push(json!({
            "name": param.name, "in": "query", "required": false,
            "description": param.about, "schema": { "type": param.kind },
        }));
    }
    let mut described = json!({
        "operationId": id(operation),
        "summary": summary(operation),
        "responses": responses(operation),
    });
    if !parameters.is_empty() {
        described["parameters"] = Value::Array(parameters);
    }
    if let Some(form) = body(operation) {
        described["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": reference(form) } } });
    }
    described
}

const fn id(operation: Operation) -> &'static str {
    match operation {
        Operation::Circuits => "listCircuits",
        Operation::Circuit => "explainCircuit",
        Operation::Hold => "holdCircuit",
        Operation::Release => "releaseCircuit",
        Operation::Reset => "resetCircuit",
        Operation::Jobs => "listJobs",
        Operation::Job => "explainJob",
        Operation::JobResult => "jobResult",
        Operation::Requeue => "requeueJob",
        Operation::Resolve => "resolveJob",
        Operation::Discard => "discardJob",
        Operation::Cancel => "cancelJob",
        Operation::Audit => "audit",
        Operation::Events => "listEvents",
        Operation::Drills => "listDrills",
        Operation::BeginDrill => "beginDrill",
        Operation::EndDrill => "endDrill",
        Operation::Metrics => "metrics",
        Operation::Healthz => "alive",
        Operation::Readyz => "ready",
        Operation::OpenApi => "describe",
    }
}

const fn summary(operation: Operation) -> &'static str {
    match operation {
        Operation::Circuits => "Every circuit, as halfopen status --json",
        Operation::Circuit => "What explains the state of circuits, as halfopen why --json",
        Operation::Hold => "Keep circuits open or closed, whatever they learn",
        Operation::Release => "End a hold, and with probe_now the cooldown too",
        Operation::Reset => "Clear the history of circuits",
        Operation::Jobs => "Jobs in the order in which they were accepted, a page at a time",
        Operation::Job => "One job: its state, its history, its last verdict, what came back",
        Operation::JobResult => "What came back from a job, with the status and the fields it came with",
        Operation::Requeue => "Make a job queued again that failed, expired or waits for a person",
        Operation::Resolve => "Say what became of a job that failed, expired or waits for a person: it counts as done",
        Operation::Discard => "End a job that failed, expired or waits for a person",
        Operation::Cancel => "End a job, also one that is queued or running",
        Operation::Audit => "Whether every job that was ever accepted stands somewhere, as halfopen audit --json",
        Operation::Events => "What happened to circuits: a list, or server-sent events",
        Operation::Drills => "The drills that go on, and the dependencies that can be drilled",
        Operation::BeginDrill => {
            "Make a shadow of a dependency for a drill: its policy, shortened, on circuits of its own, in front of a \
             stand-in on this machine"
        }
        Operation::EndDrill => "End a drill, and forget what it left",
        Operation::Metrics => "Figures for Prometheus",
        Operation::Healthz => "Whether the process lives",
        Operation::Readyz => "Whether the gateway can serve",
        Operation::OpenApi => "This document",
    }
}

/// Returns the form of the body it takes.
const fn body(operation: Operation) -> Option<&'static str> {
    match operation {
        Operation::Hold => Some("HoldBody"),
        Operation::Release => Some("ReleaseBody"),
        Operation::Reset | Operation::Discard | Operation::Cancel => Some("ReasonBody"),
        Operation::Requeue => Some("RequeueBody"),
        Operation::Resolve => Some("ResolveBody"),
        Operation::BeginDrill => Some("DrillBody"),
        Operation::Jobs
        | Operation::Job
        | Operation::JobResult
        | Operation::Circuits
        | Operation::Circuit
        | Operation::Audit
        | Operation::Events
        | Operation::Drills
        | Operation::EndDrill
        | Operation::Metrics
        | Operation::Healthz
        | Operation::Readyz
        | Operation::OpenApi => None,
    }
}

fn reference(form: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{form}") })
}

fn good(operation: Operation) -> (&'static str, Value) {
    let list = |form: &str| json!({ "application/json": { "schema": { "type": "array", "items": reference(form) } } });
    let one = |form: &str| json!({ "application/json": { "schema": reference(form) } });
    match operation {
        Operation::Circuits => (
            "the circuits",
            json!({ "application/json": { "schema": {
                "type": "array", "items": { "anyOf": [reference("Circuit"), reference("Explained")] },
            } } }),
        ),
        Operation::Circuit => ("the circuits that are meant", list("Explained")),
        Operation::Hold | Operation::Release | Operation::Reset => {
            ("the circuits as they stand afterwards", list("Steered"))
        }
        Operation::Jobs => ("a page of jobs", one("JobPage")),
        Operation::Audit => ("what was found; `good` says whether all holds together", one("Audit")),
        Operation::Job => ("the job", one("JobExplained")),
        Operation::JobResult => (
            "what came back; the status is the one it came with",
            json!({ "*/*": { "schema": {} }, "text/plain": { "schema": { "type": "string" } } }),
        ),
        Operation::Requeue | Operation::Resolve | Operation::Discard | Operation::Cancel => {
            ("the job as it stands afterwards", one("JobChanged"))
        }
        Operation::Events => {
            let mut content = list("Event");
            content["text/event-stream"] = json!({ "schema": { "type": "string" } });
            ("a list, or a stream of `id:` and `data:`, the data being an Event", content)
        }
        Operation::Drills => ("the drills", one("Drills")),
        Operation::BeginDrill => ("the drill, which has begun", one("Drill")),
        Operation::EndDrill => ("what was forgotten", one("DrillEnded")),
        Operation::Metrics => (
            "the figures, in the form that the field Accept asks for",
            json!({
                "text/plain": { "schema": { "type": "string" } },
                "application/openmetrics-text": { "schema": { "type": "string" } },
            }),
        ),
        Operation::Healthz | Operation::Readyz => ("it does", one("Health")),
        Operation::OpenApi => ("the description", json!({ "application/json": { "schema": { "type": "object" } } })),
    }
}

fn responses(operation: Operation) -> Value {
    let problem = |about: &str| json!({ "description": about, "content": { "application/problem+json": { "schema": reference("Problem") } } });
    let mut responses = Map::new();
    let (about, content) = good(operation);
    let status = if operation == Operation::BeginDrill { "201" } else { "200" };
    responses.insert(status.to_owned(), json!({ "description": about, "content": content }));
    if operation.right() != Right::Nobody {
        responses.insert("400".to_owned(), problem("a key or a value that is not known; names it and what is allowed"));
        responses.insert("401".to_owned(), problem("a token is needed, or the one shown is not known"));
        responses.insert("403".to_owned(), problem("a foreign origin, or a token that does not allow this"));
        responses.insert("421".to_owned(), problem("a host under which the gateway is not known"));
    }
    if operation.path().contains("{id}") {
        responses.insert("404".to_owned(), problem("nothing has this name"));
    }
    if operation.method() == Method::POST {
        responses.insert("408".to_owned(), problem("the body took too long"));
        responses.insert("413".to_owned(), problem("the body is too long"));
        responses.insert("415".to_owned(), problem("the body is not application/json"));
    }
    match operation {
        Operation::Requeue | Operation::Resolve | Operation::Discard | Operation::Cancel => {
            responses
                .insert("409".to_owned(), problem("the state of the job, or what may have run, does not allow it"));
            responses.insert("503".to_owned(), problem("the store cannot be read or written; nothing was changed"));
        }
        Operation::Jobs
        | Operation::Job
        | Operation::JobResult
        | Operation::Circuits
        | Operation::Circuit
        | Operation::Hold
        | Operation::Release
        | Operation::Reset => {
            responses.insert("503".to_owned(), problem("the store cannot be read or written; nothing was changed"));
        }
        Operation::BeginDrill => {
            responses.insert("404".to_owned(), problem("no dependency of the policy has this name"));
            responses.insert("503".to_owned(), problem("as many drills go on as may, or the gateway is ending"));
        }
        Operation::EndDrill => {
            responses.insert("503".to_owned(), problem("the store cannot be read or written; the drill has ended"));
        }
        Operation::Audit => {
            responses.insert("503".to_owned(), problem("the store cannot be read, or an audit goes on already"));
        }
        Operation::Events => {
            responses.insert("503".to_owned(), problem("the store cannot be read, or as many listen as may"));
        }
        Operation::Readyz => {
            responses.insert("503".to_owned(), problem("it cannot: says why"));
        }
        Operation::Drills | Operation::Metrics | Operation::Healthz | Operation::OpenApi => {}
    }
    Value::Object(responses)
}

/// Adds how far the queue is, which stands only in a list of all circuits.
fn with_queue(queue: Value, mut explained: Value) -> Value {
    explained["properties"]["jobs"] = queue;
    explained
}

fn schemas() -> Value {
    let text = json!({ "type": "string" });
    let maybe_text = json!({ "type": ["string", "null"] });
    let instant = json!({ "type": ["string", "null"], "format": "date-time" });
    let number = json!({ "type": "integer", "minimum": 0 });
    let state = json!({ "enum": ["closed", "open", "half_open"] });
    let held = json!({ "enum": ["closed", "open", null] });
    let queue = json!({ "anyOf": [{ "type": "null" }, whole(json!({
        "queued": number, "running": number, "manual_review": number, "oldest_queued_at": instant,
        "oldest_queued_sec": { "type": ["integer", "null"] }, "rate_per_sec": { "type": ["number", "null"] },
        "done_at": instant, "late": number,
    }))] });
    let line = json!({
        "circuit": text, "dependency": text, "partition": maybe_text, "state": state, "generation": number,
        "open_until": instant, "throttled_until": instant, "failures_in_window": number,
        "probes_in_flight": number, "hold": held, "jobs": queue,
    });
    let mut steered = line.clone();
    steered["before"] = whole(json!({ "state": state, "hold": held }));
    let reason = json!({ "type": "string", "maxLength": 500 });
    let states = json!({ "enum": ["queued", "running", "done", "failed", "expired", "manual_review", "cancelled"] });
    let maybe = |form: Value| json!({ "anyOf": [{ "type": "null" }, form] });
    let truth = json!({ "type": "boolean" });
    let job = json!({
        "id": text, "dependency": text, "circuit": text, "account": maybe_text, "state": states, "reason": maybe_text,
        "caller": maybe_text, "idempotency_key": maybe_text,
        "accepted_at": instant, "expires_at": instant, "not_before": instant, "ended_at": instant, "attempts": number,
        "sent": number, "may_have_run": truth, "bytes": number,
        "last": maybe(whole(json!({ "at": instant, "class": text, "rule": text, "excerpt": text }))),
    });
    let mut changed = job.clone();
    changed["before"] = whole(json!({ "state": states }));
    let mut explained = job.clone();
    let more = json!({
        "ttl_sec": { "type": "number" }, "on_expiry": { "enum": ["manual_review", "expired"] },
        "lease": maybe(whole(json!({ "worker": text, "ends_at": instant }))),
        "interrupted": number, "failed_probes": number, "result": { "type": ["object", "null"] },
        "history": { "type": "array", "items": whole(json!({
            "at": instant, "what": text, "from": maybe(states.clone()), "to": states, "reason": maybe_text,
            "grant": { "type": ["integer", "null"] }, "worker": maybe_text, "charged": truth, "class": maybe_text,
            "note": maybe_text, "retry_at": instant, "by": maybe(whole(json!({ "who": text, "reason": text }))),
        })) },
    });
    for (key, form) in more.as_object().into_iter().flatten() {
        explained[key] = form.clone();
    }
    json!({
        "Circuit": whole(line),
        "Steered": whole(steered),
        "Explained": with_queue(queue, whole(json!({
            "circuit": text, "dependency": text, "partition": maybe_text, "state": state, "since": instant,
            "generation": number, "reason": maybe_text, "open_until": instant, "throttled_until": instant,
            "next_probe_at": instant, "failures_in_window": number, "open_after_failures": number,
            "probes_in_flight": number, "probe_successes": number, "escalation": number,
            "ramp_per_sec": { "type": ["number", "null"] }, "waiting": number,
            "hold": { "anyOf": [{ "type": "null" }, whole(json!({
                "state": held, "until": instant, "by": text, "reason": text,
            }))] },
            "last_failure": { "anyOf": [{ "type": "null" }, whole(json!({
                "at": instant, "class": text, "rule": text, "place": text, "evidence": text,
                "hint_wait_s": { "type": ["number", "null"] }, "split_by": maybe_text,
            }))] },
            "owner": maybe_text, "runbook": maybe_text,
            "policy": whole(json!({
                "mode": { "enum": ["enforce", "observe"] }, "failure_window_sec": { "type": "number" },
                "half_open_max_calls": number, "close_after_successes": number, "max_wait_sec": { "type": "number" },
            })),
            "next_step": maybe_text,
            "events": { "type": "array", "items": reference("Event") },
        }))),
        "Event": whole(json!({
            "at": instant, "event": text, "circuit": text, "dependency": text, "partition": maybe_text,
            "from_state": state, "to_state": state, "generation": number, "reason": maybe_text,
            "queued_count": { "type": ["integer", "null"] }, "probe_result": maybe_text,
            "details": { "type": "object" },
        })),
        "Audit": whole(json!({
            "good": truth, "jobs": number, "wrong": { "type": "array", "items": text }, "more_wrong": number,
            "dependencies": { "type": "object", "additionalProperties": whole(json!({
                "queued": number, "running": number, "done": number, "failed": number, "expired": number,
                "manual_review": number, "cancelled": number, "accepted": number, "pruned": number, "adds_up": truth,
            })) },
        })),
        "JobPage": whole(json!({ "jobs": { "type": "array", "items": whole(job) }, "next": maybe_text })),
        "JobExplained": whole(explained),
        "JobChanged": whole(changed),
        "RequeueBody": {
            "type": "object", "additionalProperties": false,
            "properties": {
                "reason": reason, "may_have_run": truth,
                "ttl_sec": { "type": "number", "exclusiveMinimum": 0, "maximum": 31_622_400 },
            },
        },
        "ResolveBody": {
            "type": "object", "additionalProperties": false,
            "properties": { "reason": reason, "result": { "type": "string", "maxLength": 10_000 } },
        },
        "HoldBody": {
            "type": "object", "additionalProperties": false, "required": ["state"],
            "properties": {
                "state": { "enum": ["open", "closed"] }, "reason": reason,
                "for_sec": { "type": "number", "exclusiveMinimum": 0, "maximum": 31_622_400 },
                "for": { "type": "string", "description": "10m, 6h; instead of for_sec" },
            },
        },
        "ReleaseBody": {
            "type": "object", "additionalProperties": false,
            "properties": { "reason": reason, "probe_now": { "type": "boolean" } },
        },
        "ReasonBody": { "type": "object", "additionalProperties": false, "properties": { "reason": reason } },
        "DrillBody": {
            "type": "object", "additionalProperties": false, "required": ["dependency", "upstream"],
            "properties": {
                "dependency": text,
                "upstream": { "type": "string", "description": "http:// and a literal address of the loopback with a port" },
                "shorten": {
                    "type": "number", "minimum": 1, "maximum": 10_000,
                    "description": "what durations are divided by; without it so that the cooldown lasts about 2 s",
                },
                "for_sec": { "type": "integer", "minimum": 1, "maximum": 900, "description": "when it ends by itself; 900" },
            },
        },
        "Drill": whole(json!({
            "name": text, "path": text, "dependency": text, "shorten": { "type": "number" }, "until": instant,
            "policy": { "type": "object", "description": "the policy it is under, in the keys of a policy file" },
            "clock": whole(json!({ "at": instant, "steady_ms": { "type": "integer" } })),
        })),
        "Drills": whole(json!({
            "dependencies": { "type": "array", "items": text },
            "drills": { "type": "array", "items": whole(json!({
                "name": text, "path": text, "dependency": text, "shorten": { "type": "number" }, "until": instant,
            })) },
        })),
        "DrillEnded": whole(json!({ "name": text, "jobs_ended": number })),
        "Health": {
            "type": "object", "required": ["status"],
            "properties": { "status": text, "version": text, "dependencies": number },
        },
        "Problem": {
            "type": "object", "required": ["type", "title", "status", "detail"],
            "properties": { "type": text, "title": text, "status": { "type": "integer" }, "detail": text, "reason": text },
        },
    })
}

/// Returns the form of an object that has exactly these keys.
fn whole(properties: Value) -> Value {
    let required: Vec<&String> = properties.as_object().map(|keys| keys.keys().collect()).unwrap_or_default();
    json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties })
}
