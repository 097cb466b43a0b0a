//! Which jobs a command is about: those that are named, or all that its filters leave.

use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen::handle::Handle;
use halfopen::store::jobs::JobFilter;
use halfopen_core::job::{JobId, JobState, Reason};
use serde_json::{Value, json};

use super::super::Failure;
use super::super::place::{self, Place};
use super::super::remote::{Remote, encoded};
use crate::duration::parse_positive;
use crate::exit;
use crate::shown::{When, job_line};

/// How many jobs are asked for at once.
const PAGE: usize = 1000;
/// How many jobs of a choice are kept whole, to be shown.
pub(super) const SHOWN_MAX: usize = 1000;

/// What leaves some of all jobs.
#[derive(Clone, Debug, Default, Args)]
pub struct Filters {
    /// Only in this state: queued, running, done, failed, expired, manual_review or cancelled
    #[arg(long, env = "HALFOPEN_STATE", value_name = "STATE")]
    pub state: Option<JobState>,
    /// Only of this dependency
    #[arg(long, env = "HALFOPEN_JOBS_DEP", value_name = "NAME")]
    pub dep: Option<String>,
    /// Only those that ended, or went to a person, for this reason: worker_died, unknown_end, ttl_over, …
    #[arg(long, env = "HALFOPEN_BECAUSE", value_name = "REASON", value_parser = reason)]
    pub because: Option<Reason>,
    /// Only those accepted longer ago than this
    #[arg(long, env = "HALFOPEN_OLDER_THAN", value_name = "DURATION", value_parser = |w: &str| parse_positive(w))]
    pub older_than: Option<Duration>,
}

/// Reads a reason; an unknown one is told with the known ones.
fn reason(word: &str) -> Result<Reason, String> {
    word.parse().map_err(|error| {
        let known: Vec<&str> = Reason::ALL.into_iter().map(Reason::as_str).collect();
        format!("{error}; it is one of {}", known.join(", "))
    })
}

impl Filters {
    /// Returns whether they leave out anything.
    pub(super) fn leave_out_some(&self) -> bool {
        self.state.is_some() || self.dep.is_some() || self.because.is_some() || self.older_than.is_some()
    }

    /// Returns a page of jobs of a store.
    pub(super) fn page(&self, handle: &Handle, after: Option<JobId>, limit: usize) -> Result<Value, Failure> {
        let clock = handle.clock();
        let filter = JobFilter {
            dependency: self.dep.clone(),
            state: self.state,
            reason: self.because,
            accepted_before: self.older_than.map(|age| clock.now() - age),
            after,
            limit,
        };
        let page = handle.jobs(&filter).map_err(place::store_failure)?;
        let when = When::read(&clock.read());
        let jobs: Vec<Value> = page.jobs.iter().map(|view| job_line(view, &when)).collect();
        Ok(json!({ "jobs": jobs, "next": page.next.map(|id| id.to_string()) }))
    }

    /// Returns what a gateway is asked for a page.
    pub(super) fn target(&self, after: Option<JobId>, limit: usize) -> String {
        let mut target = format!("/jobs?limit={limit}");
        let more = [
            ("state", self.state.map(|state| state.as_str().to_owned())),
            ("dependency", self.dep.clone()),
            ("reason", self.because.map(|reason| reason.as_str().to_owned())),
            ("older_than", self.older_than.map(|age| format!("{}ms", age.as_millis()))),
            ("after", after.map(|id| id.to_string())),
        ];
        for (key, value) in more {
            if let Some(value) = value {
                target.push_str(&format!("&{key}={}", encoded(&value)));
            }
        }
        target
    }
}

/// Which jobs are decided about.
#[derive(Clone, Debug, Args)]
pub struct Choice {
    /// The jobs
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    pub ids: Vec<JobId>,
    /// All jobs that the filters leave, instead of named ones
    #[arg(long, env = "HALFOPEN_ALL_JOBS", value_parser = BoolishValueParser::new())]
    pub all: bool,
    /// What leaves some of all.
    #[command(flatten)]
    pub filters: Filters,
    /// Show which jobs these are, and change nothing
    #[arg(long, env = "HALFOPEN_DRY_RUN", value_parser = BoolishValueParser::new())]
    pub dry_run: bool,
    /// With --all: change them if they are not more than N, the number that --dry-run has shown
    #[arg(long, env = "HALFOPEN_CONFIRM", value_name = "N")]
    pub confirm: Option<u64>,
}

/// One chosen job, as far as is needed to decide about it.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) id: JobId,
    pub(super) state: JobState,
    pub(super) may_have_run: bool,
}

/// What was chosen.
#[derive(Debug, Default)]
pub(super) struct Choices {
    pub(super) jobs: Vec<Chosen>,
    /// The first of them, as they are shown.
    pub(super) shown: Vec<Value>,
    /// Those that were named and are not there.
    pub(super) unknown: Vec<JobId>,
}

/// Where jobs are asked for.
pub(super) enum Source<'a> {
    /// The store itself.
    Store(&'a Place, &'a Handle),
    /// A running gateway.
    Gateway(&'a Remote),
}

impl Source<'_> {
    /// Returns how this source tells times.
    pub(super) fn when(&self) -> When {
        match self {
            Self::Store(_, handle) => place::when(handle),
            Self::Gateway(_) => When::of_reader(),
        }
    }

    /// Finds what was chosen.
    pub(super) fn find(&self, choice: &Choice) -> Result<Choices, Failure> {
        let mut found = Choices::default();
        if !choice.all {
            for id in &choice.ids {
                let named_before = found.jobs.iter().any(|job| job.id == *id) || found.unknown.contains(id);
                if named_before {
                    continue;
                }
                match self.one(*id)? {
                    Some(document) => self.add(&mut found, document)?,
                    None => found.unknown.push(*id),
                }
            }
            return Ok(found);
        }
        if let (Self::Store(place, handle), Some(dep)) = (self, &choice.filters.dep) {
            place.known_dependency(handle, dep)?;
        }
        let mut after = None;
        loop {
            let mut page = match self {
                Self::Store(_, handle) => choice.filters.page(handle, after, PAGE)?,
                Self::Gateway(gateway) => gateway.document(&choice.filters.target(after, PAGE))?,
            };
            let Value::Array(jobs) = page["jobs"].take() else { return Err(self.strange()) };
            for document in jobs {
                self.add(&mut found, document)?;
            }
            after = match page["next"].as_str() {
                None => return Ok(found),
                Some(next) => Some(next.parse().map_err(|_| self.strange())?),
            };
        }
    }

    fn one(&self, id: JobId) -> Result<Option<Value>, Failure> {
        match self {
            Self::Store(_, handle) => {
                let detail = handle.job(id).map_err(place::store_failure)?;
                Ok(detail.map(|detail| job_line(&detail.view, &self.when())))
            }
            Self::Gateway(gateway) => match gateway.document(&format!("/jobs/{id}")) {
                Ok(document) => Ok(Some(document)),
                Err(failure) if failure.code == exit::USAGE => Ok(None),
                Err(failure) => Err(failure),
            },
        }
    }

    fn add(&self, found: &mut Choices, document: Value) -> Result<(), Failure> {
        let read = || {
            let id = document["id"].as_str()?.parse().ok()?;
            let state = document["state"].as_str()?.parse().ok()?;
            Some(Chosen { id, state, may_have_run: document["may_have_run"].as_bool()? })
        };
        found.jobs.push(read().ok_or_else(|| self.strange())?);
        if found.shown.len() < SHOWN_MAX {
            found.shown.push(document);
        }
        Ok(())
    }

    fn strange(&self) -> Failure {
        match self {
            Self::Store(..) => Failure::new(exit::FAILED, "a job is not shown as jobs are"),
            Self::Gateway(gateway) => gateway.strange("its list of jobs is none"),
        }
    }
}
