//! Chooses who performs a job: commands are run, HTTP requests are sent; counts what became of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use halfopen::activation::Figures;
use halfopen_core::job::{JobKind, JobRequest, JobState};
use halfopen_core::policy::Policy;

use crate::run::CommandPerformer;
use crate::serve::HttpHand;
use crate::work::{Assigned, Attempt, Doing, Fault, News, Performer, Unready};

/// Performs whatever was queued.
#[derive(Debug)]
pub(super) struct Hands {
    commands: Arc<CommandPerformer>,
    http: Option<HttpHand>,
    ended: Mutex<BTreeMap<String, BTreeMap<JobState, u64>>>,
}

impl Hands {
    pub(super) fn new(commands: Arc<CommandPerformer>, http: Option<HttpHand>) -> Self {
        Self { commands, http, ended: Mutex::default() }
    }

    /// Returns how the attempts of each dependency ended: `queued` is back in the queue.
    pub(super) fn ended(&self) -> BTreeMap<String, BTreeMap<JobState, u64>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Answers whether requests to a dependency can be sent from here.
    ///
    /// # Errors
    ///
    /// Why they cannot.
    fn over_http(&self, dependency: &str) -> Result<&HttpHand, Fault> {
        let http =
            self.http.as_ref().ok_or_else(|| Fault("the policy names no `upstream` to send requests to".into()))?;
        http.performer().fit(dependency).map(|()| http)
    }

    /// Returns why jobs of a kind are left to others; `None` if they can be done here.
    pub(super) fn left_to_others(&self, dependency: &str, kind: &JobKind) -> Option<String> {
        match kind {
            JobKind::Http => self
                .over_http(dependency)
                .err()
                .map(|fault| format!("HTTP requests are left to `halfopen serve`: {fault}")),
            JobKind::Command { host, user } => {
                let other = !self.commands.kinds(dependency).contains(kind);
                other.then(|| format!("commands of uid {user} on host {host} run only there and as that"))
            }
        }
    }

    pub(super) fn figures(&self) -> BTreeMap<String, Figures> {
        self.commands.figures()
    }
}

impl Performer for Hands {
    fn policy(&self, dependency: &str) -> Arc<Policy> {
        // A dependency with an address is a gateway's, and its rules are those that the gateway goes by.
        match self.over_http(dependency) {
            Ok(http) => http.performer().policy(dependency),
            Err(_) => self.commands.policy(dependency),
        }
    }

    fn fit(&self, _dependency: &str) -> Result<(), Fault> {
        // What can be done here is known by kind.
        Ok(())
    }

    fn kinds(&self, dependency: &str) -> Vec<JobKind> {
        let mut kinds = self.commands.kinds(dependency);
        if self.over_http(dependency).is_ok() {
            kinds.push(JobKind::Http);
        }
        kinds
    }

    fn prepare(self: Arc<Self>, assigned: Assigned) -> Doing<Result<Attempt, Unready>> {
        match (&assigned.request, &self.http) {
            (JobRequest::Http(_), Some(http)) => Arc::clone(http.performer()).prepare(assigned),
            (JobRequest::Http(_), None) => {
                let fault = format!(
                    "job {} is an HTTP request, and the policy names no `upstream` to send it to",
                    assigned.lease.id
                );
                Box::pin(async move { Err(Unready::Fault(Fault(fault))) })
            }
            (JobRequest::Command(_), _) => Arc::clone(&self.commands).prepare(assigned),
        }
    }

    fn hear(&self, dependency: &str, news: &News<'_>) {
        if let News::Ended(ended, _) = news {
            let mut all = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            *all.entry(dependency.to_owned()).or_default().entry(ended.state).or_default() += 1;
        }
        self.commands.hear(dependency, news);
    }
}
