//! Performs jobs for the gateway: finds what a stored request needs now, and counts what became of it.
//!
//! Policy, address and credential are those in force when the job is sent, not when it was accepted: a queue that was
//! filled with a dead key is drained with the new one. What is missing is this gateway's fault and touches no job.

use std::sync::{Arc, Weak};

use halfopen_core::job::{Admitted, HttpRequest, JobKind, JobRequest, JobState};
use halfopen_core::policy::{Policy, ProbeWith, Surface};
use http::header::{HOST, HeaderMap, HeaderName};
use http::{HeaderValue, Method, Uri};

use super::super::dependency::Dependency;
use super::super::drills;
use super::super::gateway::Gateway;
use super::super::probe;
use super::perform::{self, Outward};
use crate::work::{Assigned, Attempt, Doing, Fault, News, Performer, Unready};

/// Performs the jobs that a gateway claims.
#[derive(Debug)]
pub(super) struct GatewayPerformer(Weak<Gateway>);

impl GatewayPerformer {
    pub(super) fn new(gateway: &Arc<Gateway>) -> Self {
        Self(Arc::downgrade(gateway))
    }

    fn dependency(&self, name: &str) -> Result<(Arc<Gateway>, Arc<Dependency>), Fault> {
        let gateway = self.0.upgrade().ok_or_else(|| Fault("the gateway is ending".to_owned()))?;
        let dependency = gateway.live().dependency(name);
        let dependency = dependency.ok_or_else(|| Fault("the policy names no such dependency".to_owned()))?;
        Ok((gateway, dependency))
    }
}

impl Performer for GatewayPerformer {
    fn policy(&self, dependency: &str) -> Arc<Policy> {
        match self.dependency(dependency) {
            Ok((_, dependency)) => Arc::clone(&dependency.policy),
            Err(_) => Arc::new(Policy::built_in(dependency, Surface::Serve)),
        }
    }

    fn fit(&self, dependency: &str) -> Result<(), Fault> {
        let (_, dependency) = self.dependency(dependency)?;
        if dependency.upstream.is_none() {
            return Err(Fault("there is no `upstream` to send jobs to".to_owned()));
        }
        dependency.credentials.iter().next().map_or(Ok(()), |credential| match credential.secret() {
            Ok(_) => Ok(()),
            Err(missing) => Err(Fault(missing.to_string())),
        })
    }

    fn is_over(&self, dependency: &str) -> bool {
        drills::is_one(dependency) && self.dependency(dependency).is_err()
    }

    fn kinds(&self, _dependency: &str) -> Vec<JobKind> {
        vec![JobKind::Http]
    }

    fn prepare(self: Arc<Self>, assigned: Assigned) -> Doing<Result<Attempt, Unready>> {
        Box::pin(async move {
            let Assigned { lease, request, policy } = assigned;
            let (gateway, dependency) = self.dependency(lease.job.terms().dependency()).map_err(Unready::Fault)?;
            let http = match request {
                JobRequest::Http(http) => http,
                JobRequest::Command(_) => {
                    return Err(Unready::Fault(Fault(format!(
                        "job {} is a command, which a gateway does not run",
                        lease.id
                    ))));
                }
            };
            let probes = matches!(lease.admitted, Admitted::AsProbe { .. });
            let mut outward = outward(gateway, &dependency, http).map_err(Unready::Fault)?;
            outward.circuit = lease.route.place.to_string();
            outward.number = lease.job.attempts().saturating_add(1);
            outward.probe = probes;
            if let (true, Some(ProbeWith::Url(url))) = (probes, &policy.probe) {
                probe::ask(url, policy.timeout).await.map_err(|verdict| Unready::Judged(Box::new(verdict)))?;
            }
            let attempt: Attempt = Box::new(move |stop| Box::pin(perform::perform(outward, stop)));
            Ok(attempt)
        })
    }

    fn hear(&self, dependency: &str, news: &News<'_>) {
        let Ok((gateway, _)) = self.dependency(dependency) else { return };
        let counts = gateway.door.counts.of(dependency);
        match news {
            News::Claimed { age, admitted } => {
                counts.jobs_claimed.add();
                counts.job_ages.add(*age);
                if let Admitted::AsProbe { .. } = admitted {
                    counts.probes.add();
                }
            }
            News::Ended(ended, verdict) => {
                if let Some(verdict) = verdict {
                    counts.judged(verdict);
                }
                counts.settled(&ended.events);
                if ended.state != JobState::Queued {
                    counts.job_ended(ended.state);
                }
            }
            News::Swept(records) => counts.swept(records),
        }
    }
}

/// Returns a stored request as it is sent now.
fn outward(gateway: Arc<Gateway>, dependency: &Arc<Dependency>, http: HttpRequest) -> Result<Outward, Fault> {
    let (Some(upstream), Some(pool)) = (&dependency.upstream, &dependency.pool) else {
        return Err(Fault("there is no `upstream` to send jobs to".to_owned()));
    };
    let whole = upstream.target(&http.target).map_err(|fault| Fault(format!("the path of a job holds {fault}")))?;
    let target = whole.path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from);
    let method = Method::from_bytes(http.method.as_bytes()).map_err(|_| Fault("a job has no method".to_owned()))?;
    let mut headers = HeaderMap::with_capacity(http.headers.len() + 2);
    for (name, value) in &http.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    headers.insert(HOST, upstream.host_field().clone());
    let credential = match &http.credential {
        None => dependency.credentials.iter().next(),
        Some(name) => {
            let named = dependency.credentials.iter().find(|credential| credential.name == *name);
            Some(named.ok_or_else(|| Fault(format!("the policy names no credential `{name}` any more")))?)
        }
    };
    if let Some(credential) = credential {
        credential.put(&mut headers).map_err(|missing| Fault(missing.to_string()))?;
    }
    Ok(Outward {
        gateway,
        dependency: Arc::clone(dependency),
        pool: Arc::clone(pool),
        method,
        target,
        headers,
        body: http.body.into(),
        circuit: String::new(),
        number: 1,
        probe: false,
    })
}
