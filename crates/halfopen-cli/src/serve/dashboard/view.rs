//! Lists what the dashboard can show and do, and reads it out of a path.
//!
//! A view is a value: what a browser watches is named by it, and everybody who watches the same shares one rendering.
//! Everything below `/ui/` is the dashboard's; `/` is its overview. The operators' API keeps the short paths.

use std::fmt::Write as _;

use halfopen_core::job::{JobId, JobState};

use super::super::problem::Problem;
use super::timeline::Range;
use crate::serve::api::{bad, decoded, shown};

/// How many days of incidents can be asked for.
const DAYS: [u32; 3] = [1, 7, 30];

/// Something that can be looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum View {
    /// Everything at a glance.
    Overview(Range),
    /// One circuit.
    Circuit(String, Range),
    /// What went wrong in so many days.
    Incidents(u32),
    /// Some jobs.
    Jobs(JobsAsked),
    /// One job.
    Job(String),
    /// The policy in force.
    Policy,
    /// What was told to owners.
    Alerts,
}

/// Which jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct JobsAsked {
    pub(super) dependency: Option<String>,
    pub(super) state: Option<JobState>,
    /// Behind which one the page begins.
    pub(super) after: Option<JobId>,
}

/// What an operator does with a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Steer {
    Hold,
    Release,
    Reset,
}

/// What an operator does with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decide {
    Requeue,
    Resolve,
    Discard,
    Cancel,
}

/// Something that can be done, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Steer(Steer, String),
    Decide(Decide, String),
}

/// What lies at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    View(View),
    Act(Act),
    /// A decision about several jobs.
    Many,
    /// What changes in a view, as it changes.
    Live,
    /// A file that pages refer to, by name.
    Asset(String),
    SignIn,
    SignOut,
    Nothing,
}

/// The query of a page. What is not known there is left alone: links come from everywhere.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query; of a key that stands twice the first counts.
    pub(super) fn read(raw: &str) -> Self {
        let pairs = raw.split('&').filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(key, true)?, decoded(value, true)?))
        });
        Self(pairs.collect())
    }

    /// Returns the value of a key, unless it is empty.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Returns all values of a key.
    pub(super) fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    fn read_as<T>(&self, key: &str, allowed: &str, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Problem> {
        let Some(word) = self.text(key) else { return Ok(None) };
        let read = read(word);
        read.map(Some).ok_or_else(|| bad(format!("`{key}` is `{}`; allowed is {allowed}.", shown(word))))
    }
}

impl Steer {
    pub(super) const ALL: [Self; 3] = [Self::Hold, Self::Release, Self::Reset];

    /// Returns the word in paths.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Reset => "reset",
        }
    }
}

impl Decide {
    pub(super) const ALL: [Self; 4] = [Self::Requeue, Self::Resolve, Self::Discard, Self::Cancel];

    /// Returns the word in paths.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Requeue => "requeue",
            Self::Resolve => "resolve",
            Self::Discard => "discard",
            Self::Cancel => "cancel",
        }
    }

    /// Returns whether a job in this state allows it.
    pub(super) const fn allowed(self, state: JobState) -> bool {
        let over = matches!(state, JobState::Failed | JobState::Expired | JobState::ManualReview);
        match self {
            Self::Requeue | Self::Resolve | Self::Discard => over,
            Self::Cancel => matches!(state, JobState::Queued | JobState::Running | JobState::ManualReview),
        }
    }
}

impl Act {
    /// Returns where its form is.
    pub(super) fn path(&self) -> String {
        match self {
            Self::Steer(steer, circuit) => format!("{}/{}", circuit_path(circuit), steer.word()),
            Self::Decide(decide, job) => format!("{}/{}", job_path(job), decide.word()),
        }
    }

    /// Returns where what it is done with is shown.
    pub(super) fn back(&self) -> String {
        match self {
            Self::Steer(_, circuit) => circuit_path(circuit),
            Self::Decide(_, job) => job_path(job),
        }
    }
}

impl View {
    /// Returns the path of it, with its query.
    pub(super) fn path(&self) -> String {
        let ranged = |path: String, range: Range| match range {
            Range::Hour => path,
            range => format!("{path}?range={}", range.word()),
        };
        match self {
            Self::Overview(range) => ranged("/".to_owned(), *range),
            Self::Circuit(id, range) => ranged(circuit_path(id), *range),
            Self::Incidents(7) => "/ui/incidents".to_owned(),
            Self::Incidents(days) => format!("/ui/incidents?days={days}"),
            Self::Jobs(asked) => asked.path(),
            Self::Job(id) => job_path(id),
            Self::Policy => "/ui/policy".to_owned(),
            Self::Alerts => "/ui/alerts".to_owned(),
        }
    }
}

impl JobsAsked {
    /// Returns the path of this list.
    pub(super) fn path(&self) -> String {
        let mut path = "/ui/jobs".to_owned();
        let pairs = [
            ("dependency", self.dependency.as_deref().map(segment)),
            ("state", self.state.map(|state| state.as_str().to_owned())),
            ("after", self.after.map(|id| id.to_string())),
        ];
        let mut mark = '?';
        for (key, value) in pairs {
            if let Some(value) = value {
                let _ = write!(path, "{mark}{key}={value}");
                mark = '&';
            }
        }
        path
    }
}

/// Returns where a circuit is shown.
pub(super) fn circuit_path(id: &str) -> String {
    format!("/ui/circuits/{}", segment(id))
}

/// Returns where a job is shown.
pub(super) fn job_path(id: &str) -> String {
    format!("/ui/jobs/{}", segment(id))
}

/// Returns a text as one segment of a path, or one value of a query.
pub(super) fn segment(text: &str) -> String {
    let mut segment = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'@' => segment.push(byte.into()),
            other => {
                let _ = write!(segment, "%{other:02X}");
            }
        }
    }
    segment
}

/// Returns whether a path is the dashboard's.
pub(in crate::serve) fn is_page(path: &str) -> bool {
    path == "/" || path == "/ui" || path.starts_with("/ui/")
}

/// Finds what lies at a path.
///
/// # Errors
///
/// A key of the query with a value that it cannot have.
pub(super) fn find(path: &str, query: &Query) -> Result<Found, Problem> {
    let range = || query.read_as("range", "1h, 6h, 24h or 7d", Range::read).map(Option::unwrap_or_default);
    let mut segments = Vec::new();
    for segment in path.split('/').skip(1) {
        match decoded(segment, false) {
            Some(segment) => segments.push(segment),
            None => return Ok(Found::Nothing),
        }
    }
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    Ok(match segments.as_slice() {
        [""] | ["ui"] | ["ui", ""] => Found::View(View::Overview(range()?)),
        ["ui", "circuits", id] if !id.is_empty() => Found::View(View::Circuit((*id).to_owned(), range()?)),
        ["ui", "circuits", id, word] if !id.is_empty() => {
            let steer = Steer::ALL.into_iter().find(|steer| steer.word() == *word);
            steer.map_or(Found::Nothing, |steer| Found::Act(Act::Steer(steer, (*id).to_owned())))
        }
        ["ui", "incidents"] => {
            let days =
                query.read_as("days", "1, 7 or 30", |word| word.parse().ok().filter(|days| DAYS.contains(days)))?;
            Found::View(View::Incidents(days.unwrap_or(7)))
        }
        ["ui", "jobs"] => Found::View(View::Jobs(JobsAsked {
            dependency: query.text("dependency").map(str::to_owned),
            state: query
                .read_as("state", "a state of jobs, such as queued or manual_review", |word| word.parse().ok())?,
            after: query.read_as("after", "the id of a job", |word| word.parse().ok())?,
        })),
        ["ui", "jobs", id] if !id.is_empty() => Found::View(View::Job((*id).to_owned())),
        ["ui", "jobs", id, word] if !id.is_empty() => {
            let decide = Decide::ALL.into_iter().find(|decide| decide.word() == *word);
            decide.map_or(Found::Nothing, |decide| Found::Act(Act::Decide(decide, (*id).to_owned())))
        }
        ["ui", "decide"] => Found::Many,
        ["ui", "policy"] => Found::View(View::Policy),
        ["ui", "alerts"] => Found::View(View::Alerts),
        ["ui", "live"] => Found::Live,
        ["ui", "assets", name] => Found::Asset((*name).to_owned()),
        ["ui", "sign-in"] => Found::SignIn,
        ["ui", "sign-out"] => Found::SignOut,
        _ => Found::Nothing,
    })
}

/// Returns the days of incidents that are offered.
pub(super) const fn days() -> [u32; 3] {
    DAYS
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn found(target: &str) -> Result<Found, String> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        find(path, &Query::read(query)).map_err(|problem| problem.detail().to_owned())
    }

    #[test_case("/")]
    #[test_case("/?range=7d")]
    #[test_case("/ui/circuits/ocr@region%3Deu?range=6h")]
    #[test_case("/ui/circuits/x%27onmouseover%3D%27")]
    #[test_case("/ui/incidents?days=30")]
    #[test_case("/ui/jobs?dependency=a%20b&state=manual_review&after=j17-9f3ac2d1")]
    #[test_case("/ui/jobs/j17-9f3ac2d1")]
    #[test_case("/ui/policy")]
    #[test_case("/ui/alerts")]
    fn a_view_leads_to_its_path_and_back(target: &str) {
        let Ok(Found::View(view)) = found(target) else { panic!("{target} is no view") };
        assert_eq!(view.path(), target);
    }

    #[test_case("/ui/circuits/ocr/hold")]
    #[test_case("/ui/jobs/j17-9f3ac2d1/requeue")]
    fn an_act_leads_to_its_path_and_back(target: &str) {
        let Ok(Found::Act(act)) = found(target) else { panic!("{target} is no act") };
        assert_eq!(act.path(), target);
        assert!(target.starts_with(&act.back()));
    }

    #[test_case("/ui/nothing")]
    #[test_case("/ui/circuits/")]
    #[test_case("/ui/circuits/ocr/drop")]
    #[test_case("/ui/circuits/%ff"; "no text")]
    fn what_is_not_there_is_not_found(target: &str) {
        assert_eq!(found(target), Ok(Found::Nothing));
    }

    #[test]
    fn a_value_that_cannot_be_is_named_with_what_can() {
        assert_eq!(found("/?range=2h").unwrap_err(), "`range` is `2h`; allowed is 1h, 6h, 24h or 7d.");
        assert!(found("/ui/jobs?state=dead").unwrap_err().contains("`state` is `dead`"));
    }
}
