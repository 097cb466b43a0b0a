//! The table of the operators' paths.

use http::Method;

use super::super::access::Right;
use super::ask::decoded;

/// Everything an operator can ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// All circuits.
    Circuits,
    /// What explains a circuit.
    Circuit,
    /// Keep a circuit open or closed.
    Hold,
    /// End a hold.
    Release,
    /// Clear a circuit's history.
    Reset,
    /// Some jobs.
    Jobs,
    /// One job with its history.
    Job,
    /// What came back from a job.
    JobResult,
    /// Make a job queued again.
    Requeue,
    /// Say what became of a job.
    Resolve,
    /// End a job that nobody will look at again.
    Discard,
    /// End a job that is open.
    Cancel,
    /// Whether all jobs are accounted for.
    Audit,
    /// The journal, as a list or as it grows.
    Events,
    /// The drills that go on, and what can be drilled.
    Drills,
    /// Begin a drill.
    BeginDrill,
    /// End a drill.
    EndDrill,
    /// Figures for Prometheus.
    Metrics,
    /// Whether the process lives.
    Healthz,
    /// Whether it can serve.
    Readyz,
    /// This table.
    OpenApi,
}

/// One key of a query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Param {
    /// The key.
    pub(super) name: &'static str,
    /// What it is for.
    pub(super) about: &'static str,
    /// Its JSON type.
    pub(super) kind: &'static str,
}

const fn text(name: &'static str, about: &'static str) -> Param {
    Param { name, about, kind: "string" }
}

const fn flag(name: &'static str, about: &'static str) -> Param {
    Param { name, about, kind: "boolean" }
}

const CIRCUITS: &[Param] = &[
    text("dependency", "only the circuits of this dependency"),
    flag("full", "with everything that explains each, as /circuits/{id} gives it"),
];

const JOBS: &[Param] = &[
    text("state", "only in this state: queued, running, done, failed, expired, manual_review, cancelled"),
    text("dependency", "only of this dependency"),
    text("reason", "only those that ended, or went to a person, for this reason"),
    text("older_than", "only those accepted longer ago than this (90s, 10m, 6h)"),
    Param { name: "limit", about: "at most so many, the oldest, 1 to 1000, default 100", kind: "integer" },
    text("after", "begin behind this job: the `next` of the page before"),
];

const EVENTS: &[Param] = &[
    text("format", "json: a list; sse: as it grows. Without it the field Accept decides, and sse is the default"),
    text("dependency", "only of this dependency"),
    text("since", "only what happened so recently (90s, 10m, 6h), or at or after an instant in RFC 3339; for a list"),
    Param {
        name: "limit",
        about: "at most so many, the newest, 1 to 100000, default 100; for a list",
        kind: "integer",
    },
    flag("all", "also what is no change of state: waits, probes, holds, the ramp"),
    Param { name: "after", about: "begin behind this position, as Last-Event-ID does; for a stream", kind: "integer" },
];

impl Operation {
    /// All of them, in the order of the documentation.
    pub(super) const ALL: [Self; 21] = [
        Self::Circuits,
        Self::Circuit,
        Self::Hold,
        Self::Release,
        Self::Reset,
        Self::Jobs,
        Self::Job,
        Self::JobResult,
        Self::Requeue,
        Self::Resolve,
        Self::Discard,
        Self::Cancel,
        Self::Audit,
        Self::Events,
        Self::Drills,
        Self::BeginDrill,
        Self::EndDrill,
        Self::Metrics,
        Self::Healthz,
        Self::Readyz,
        Self::OpenApi,
    ];

    /// Returns the path; `{id}` stands for one segment.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Circuits => "/circuits",
            Self::Circuit => "/circuits/{id}",
            Self::Hold => "/circuits/{id}/hold",
            Self::Release => "/circuits/{id}/release",
            Self::Reset => "/circuits/{id}/reset",
            Self::Jobs => "/jobs",
            Self::Job => "/jobs/{id}",
            Self::JobResult => "/jobs/{id}/result",
            Self::Requeue => "/jobs/{id}/requeue",
            Self::Resolve => "/jobs/{id}/resolve",
            Self::Discard => "/jobs/{id}/discard",
            Self::Cancel => "/jobs/{id}/cancel",
            Self::Audit => "/audit",
            Self::Events => "/events",
            Self::Drills | Self::BeginDrill => "/drills",
            Self::EndDrill => "/drills/{id}",
            Self::Metrics => "/metrics",
            Self::Healthz => "/healthz",
            Self::Readyz => "/readyz",
            Self::OpenApi => "/openapi.json",
        }
    }

    /// Returns the method; GET answers HEAD too.
    pub(super) const fn method(self) -> Method {
        match self {
            Self::Hold
            | Self::Release
            | Self::Reset
            | Self::Requeue
            | Self::Resolve
            | Self::Discard
            | Self::Cancel
            | Self::BeginDrill => Method::POST,
            Self::EndDrill => Method::DELETE,
            Self::Drills
            | Self::Jobs
            | Self::Job
            | Self::JobResult
            | Self::Circuits
            | Self::Circuit
            | Self::Audit
            | Self::Events
            | Self::Metrics
            | Self::Healthz
            | Self::Readyz
            | Self::OpenApi => Method::GET,
        }
    }

    /// Returns the right it takes.
    pub(super) const fn right(self) -> Right {
        match self {
            Self::Hold
            | Self::Release
            | Self::Reset
            | Self::Requeue
            | Self::Resolve
            | Self::Discard
            | Self::Cancel
            | Self::BeginDrill
            | Self::EndDrill => Right::Change,
            Self::Healthz | Self::Readyz => Right::Nobody,
            Self::Circuits
            | Self::Circuit
            | Self::Jobs
            | Self::Job
            | Self::JobResult
            | Self::Audit
            | Self::Events
            | Self::Drills
            | Self::Metrics
            | Self::OpenApi => Right::Read,
        }
    }

    /// Returns the keys its query may have.
    pub(super) const fn query(self) -> &'static [Param] {
        match self {
            Self::Circuits => CIRCUITS,
            Self::Events => EVENTS,
            Self::Jobs => JOBS,
            Self::Audit
            | Self::Job
            | Self::JobResult
            | Self::Requeue
            | Self::Resolve
            | Self::Discard
            | Self::Cancel
            | Self::Circuit
            | Self::Hold
            | Self::Release
            | Self::Reset
            | Self::Drills
            | Self::BeginDrill
            | Self::EndDrill
            | Self::Metrics
            | Self::Healthz
            | Self::Readyz
            | Self::OpenApi => &[],
        }
    }
}

/// What lies at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// This, and the circuit that the path names.
    Operation(Operation, String),
    /// Something that takes other methods.
    Method(String),
    /// Nothing.
    Nothing,
}

/// Finds what lies at a path.
pub(super) fn find(method: &Method, path: &str) -> Found {
    let asked = if *method == Method::HEAD { &Method::GET } else { method };
    let mut others = Vec::new();
    for operation in Operation::ALL {
        let Some(circuit) = matched(operation.path(), path) else { continue };
        if operation.method() == *asked {
            return Found::Operation(operation, circuit);
        }
        others.push(operation.method().to_string());
    }
    if others.is_empty() { Found::Nothing } else { Found::Method(others.join(", ")) }
}

/// Returns the circuit in `path`, decoded, if the path has the form of `template`. A segment that cannot be decoded
/// names nothing.
fn matched(template: &str, path: &str) -> Option<String> {
    let mut circuit = String::new();
    let (mut template, mut path) = (template.split('/'), path.split('/'));
    loop {
        match (template.next(), path.next()) {
            (None, None) => return Some(circuit),
            (Some("{id}"), Some(segment)) if !segment.is_empty() => circuit = decoded(segment, false)?,
            (Some(expected), Some(segment)) if expected == segment => {}
            (Some(_) | None, Some(_) | None) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("/circuits" => "Circuits ")]
    #[test_case("/circuits/ocr@region=eu" => "Circuit ocr@region=eu")]
    #[test_case("/circuits/ocr%40region%3Deu" => "Circuit ocr@region=eu"; "percent-encoded")]
    #[test_case("/circuits/a%2Fb" => "Circuit a/b"; "a slash in a name")]
    #[test_case("/circuits/a+b" => "Circuit a+b"; "a plus is a plus")]
    #[test_case("/circuits/%ff" => "nothing"; "no text")]
    #[test_case("/circuits/%4" => "nothing"; "half an escape")]
    #[test_case("/circuits/" => "nothing")]
    #[test_case("/circuits/a/hold" => "only POST")]
    #[test_case("/circuits/a/b/hold" => "nothing")]
    #[test_case("//circuits" => "nothing")]
    fn a_path_leads_to_one_operation(path: &str) -> String {
        match find(&Method::GET, path) {
            Found::Operation(operation, circuit) => format!("{operation:?} {circuit}"),
            Found::Method(allowed) => format!("only {allowed}"),
            Found::Nothing => "nothing".to_owned(),
        }
    }

    #[test]
    fn head_is_answered_where_get_is_and_nothing_else() {
        assert_eq!(find(&Method::HEAD, "/healthz"), Found::Operation(Operation::Healthz, String::new()));
        assert_eq!(find(&Method::DELETE, "/circuits/a"), Found::Method("GET".to_owned()));
    }
}
