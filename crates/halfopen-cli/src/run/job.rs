//! Runs commands that were queued: the performer of command jobs.
//!
//! A job runs as it was accepted: its own executable, arguments, folder, environment and input, on the host and for the
//! user it was accepted from. What differs from a run is where it goes to: nothing reaches our own output, the job's
//! result keeps it up to a bound, and there is one attempt, because what comes next the queue decides. It is judged by
//! the same rules.
//!
//! Everything that can be missing is looked for before the attempt is noted: another host or user, a folder, an
//! executable, a variable. That is the worker's fault and touches no job. A command that cannot be started although all
//! of that is there was not sent either.
//!
//! A job tells runs inside it what it was admitted with, as a run does (`nested`), so that what happens inside counts
//! once; and that they are inside a job (`HALFOPEN_JOB`), so that none of them queues the same work again.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::{Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use halfopen::activation::{self, Figures};
use halfopen::clock::Clock;
use halfopen::config::Config;
use halfopen::handle::Handle;
use halfopen::handle::jobs::{Ending, Lease};
use halfopen::store::jobs::RESULT_BYTES_MAX;
use halfopen_core::classify::{Classifier, Ear};
use halfopen_core::job::{
    Admitted, CommandRequest, JobId, JobKind, JobRequest, JobResult, JobState, STDERR_BYTES_MAX, Sent,
};
use halfopen_core::outcome::{Exit, Reached};
use halfopen_core::policy::{Policy, ProbeWith, Replay, Surface};
use halfopen_core::redact;
use halfopen_core::retry::CommandRerun;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::verdict::{Class, Verdict};

use super::attempt::{reading, take_over};
use super::behind::look_through;
use super::child::signals::{Attended, Signals};
use super::child::source::Source;
use super::child::{self, Elsewhere, Limits, Listener, Out, Spec};
use super::keep::{self, JOB_VARIABLE};
use super::nested::{InnerEar, Outer};
use super::plan::pack_of;
use crate::work::{Assigned, Attempt, Doing, Fault, News, Performed, Performer, Unready};

/// How long a child that is to end may take for it.
const GRACE: Duration = Duration::from_millis(2_500);
/// How long the cheap command before a probe may take.
const CHEAP_TIMEOUT: Duration = Duration::from_secs(30);
/// Variables that a job has from its worker, so that a run inside it meets the same circuits.
const FROM_WORKER: [&str; 2] = ["HALFOPEN_STORE", "HALFOPEN_POLICY"];

/// Performs the command jobs that a worker claims.
#[derive(Debug)]
pub(crate) struct CommandPerformer {
    config: Arc<Config>,
    handle: Arc<Handle>,
    /// What a run inside a job must find: where circuits are kept, and by which rules.
    surroundings: Vec<(OsString, OsString)>,
    done: Mutex<BTreeMap<String, Figures>>,
}

impl CommandPerformer {
    /// Returns the performer of a worker on `handle`, by the rules of `config`.
    pub(crate) fn new(config: Arc<Config>, handle: Arc<Handle>, store: Option<&Path>, policy: Option<&Path>) -> Self {
        let given = [store, policy].map(|path| path.map(|path| path.as_os_str().to_owned()));
        let surroundings =
            FROM_WORKER.iter().zip(given).filter_map(|(name, given)| Some((OsString::from(name), given?)));
        Self { config, handle, surroundings: surroundings.collect(), done: Mutex::default() }
    }

    /// Returns what became of the jobs of each dependency.
    pub(crate) fn figures(&self) -> BTreeMap<String, Figures> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count(&self, dependency: &str, change: impl FnOnce(&mut Figures)) {
        change(self.done.lock().unwrap_or_else(PoisonError::into_inner).entry(dependency.to_owned()).or_default());
    }

    /// Gets a command ready.
    fn made_ready(&self, lease: Lease, command: CommandRequest, policy: &Policy) -> Result<Ready, Fault> {
        let id = lease.id;
        pinned(id, &command)?;
        let words: Vec<OsString> = command.argv.into_iter().map(OsString::from_vec).collect();
        let cwd = PathBuf::from(OsString::from_vec(command.cwd));
        if !cwd.is_dir() {
            return Err(Fault(format!("the folder {} of job {id} is not there", cwd.display())));
        }
        let executable = PathBuf::from(OsString::from_vec(command.executable));
        if !keep::is_executable(&executable) {
            return Err(Fault(format!("the executable {} of job {id} is not there", executable.display())));
        }
        let mut env: Vec<(OsString, OsString)> = command
            .env
            .into_iter()
            .map(|(name, value)| (OsString::from_vec(name), OsString::from_vec(value)))
            .collect();
        for name in command.env_from {
            let value = std::env::var_os(&name);
            let value =
                value.ok_or_else(|| Fault(format!("variable `{name}`, which job {id} needs, is not set here")))?;
            env.push((OsString::from(name), value));
        }
        env.extend(self.surroundings.iter().cloned());
        env.push((super::nested::VARIABLE.into(), Outer::told(&lease.route, &lease.pass)));
        env.push((JOB_VARIABLE.into(), id.to_string().into()));
        let dependency = self.config.dependency(lease.job.terms().dependency(), Surface::Run);
        let profile = command.profile.or_else(|| policy.profile.clone());
        let profile =
            profile.unwrap_or_else(|| pack_of(&look_through(&words), lease.job.terms().dependency()).to_owned());
        let classifier = Classifier::new(&profile, dependency.classify)
            .map_err(|error| Fault(format!("job {id} cannot be judged: {error}")))?;
        let source = given(&command.stdin).map_err(|error| Fault(format!("the input of job {id}: {error}")))?;
        let timeout = command.timeout.or(policy.timeout).unwrap_or_else(|| classifier.defaults().timeout);
        let never = policy.replay == Replay::Never;
        let rerun = CommandRerun {
            rerun_within: if never { Duration::ZERO } else { policy.rerun_within },
            effects: never || classifier.defaults().failed_attempts_have_effects,
            timed_out: false,
        };
        let limits = Limits { timeout: Some(timeout), first_byte: policy.first_byte, idle: policy.idle, grace: GRACE };
        let clock = Arc::clone(&self.handle);
        Ok(Ready { words, executable, cwd, env, source, limits, classifier, rerun, handle: clock })
    }
}

impl Performer for CommandPerformer {
    fn policy(&self, dependency: &str) -> Arc<Policy> {
        Arc::new(self.config.dependency(dependency, Surface::Run).policy)
    }

    fn fit(&self, _dependency: &str) -> Result<(), Fault> {
        Ok(())
    }

    fn kinds(&self, _dependency: &str) -> Vec<JobKind> {
        vec![JobKind::Command { host: keep::host(), user: rustix::process::getuid().as_raw() }]
    }

    fn prepare(self: Arc<Self>, assigned: Assigned) -> Doing<Result<Attempt, Unready>> {
        Box::pin(async move {
            let Assigned { lease, request, policy } = assigned;
            let JobRequest::Command(command) = request else {
                let fault = format!("job {} is an HTTP request, which `halfopen serve` sends", lease.id);
                return Err(Unready::Fault(Fault(fault)));
            };
            let probes = matches!(lease.admitted, Admitted::AsProbe { .. });
            let ready = self.made_ready(lease, command, &policy).map_err(Unready::Fault)?;
            if let (true, Some(ProbeWith::Command(words))) = (probes, &policy.probe) {
                let words: Vec<OsString> = words.iter().map(OsString::from).collect();
                let timeout = policy.timeout.map_or(CHEAP_TIMEOUT, |timeout| timeout.min(CHEAP_TIMEOUT));
                let tried = tokio::task::spawn_blocking(move || tried_cheaply(&words, timeout)).await;
                match tried {
                    Ok(Ok(true)) => {}
                    Ok(Ok(false)) => {
                        let failed = Verdict::plain(Class::ServerError, "halfopen/probe", Reached::Answered);
                        return Err(Unready::Judged(Box::new(failed)));
                    }
                    Ok(Err(error)) => return Err(Unready::Fault(Fault(format!("the probe command: {error}")))),
                    Err(error) => return Err(Unready::Fault(Fault(format!("the probe command: {error}")))),
                }
            }
            let attempt: Attempt = Box::new(move |stop| {
                Box::pin(async move {
                    let Ok((signals, ender)) = Signals::told() else { return Performed::Left(Sent::Nothing) };
                    let mut running = tokio::task::spawn_blocking(move || ready.run(signals));
                    let ended = tokio::select! {
                        ended = &mut running => ended,
                        () = stop.leaving() => {
                            ender.end();
                            running.await
                        }
                    };
                    // A thread that went down took its child with it, at whatever point that was.
                    ended.unwrap_or(Performed::Left(Sent::Maybe))
                })
            });
            Ok(attempt)
        })
    }

    fn hear(&self, dependency: &str, news: &News<'_>) {
        match news {
            News::Claimed { admitted: Admitted::AsProbe { .. }, .. } => {
                self.count(dependency, |figures| figures.probes += 1);
            }
            News::Claimed { admitted: Admitted::Regularly, .. } => {}
            News::Ended(ended, verdict) => {
                let opened = ended.events.iter().filter(|event| event.event == "tripped").count() as u64;
                self.count(dependency, |figures| {
                    figures.drained += u64::from(ended.state == JobState::Done);
                    figures.opened += opened;
                    if let Some(verdict) = verdict {
                        note(figures, verdict);
                    }
                });
                self.count_expired(&ended.events.iter().collect::<Vec<_>>());
            }
            News::Swept(records) => self.count_expired(records),
        }
    }
}

impl CommandPerformer {
    fn count_expired(&self, records: &[&EventRecord]) {
        for (dependency, jobs) in activation::expired_of(records.iter().copied()) {
            self.count(dependency, |figures| figures.expired += jobs);
        }
    }
}

/// Counts what an attempt came to.
fn note(figures: &mut Figures, verdict: &Verdict) {
    match verdict.class {
        Class::Success => return,
        Class::RateLimited => figures.rate_limited += 1,
        Class::Overloaded => figures.overloaded += 1,
        Class::UnknownFailure => figures.unclassified += 1,
        Class::UsageLimit
        | Class::Timeout
        | Class::ConnectionFailure
        | Class::ServerError
        | Class::QuotaExhausted
        | Class::Auth
        | Class::InvalidRequest => {}
    }
    figures.failed += 1;
    figures.hints_read += u64::from(verdict.hint.is_some());
}

/// Answers whether a job may run here.
fn pinned(id: JobId, command: &CommandRequest) -> Result<(), Fault> {
    let (host, user) = (keep::host(), rustix::process::getuid().as_raw());
    if command.host != host {
        return Err(Fault(format!(
            "job {id} was accepted on host {} and runs only there; this is {host}",
            command.host
        )));
    }
    if command.user != user {
        return Err(Fault(format!(
            "job {id} was accepted from uid {} and runs only as that; this is {user}",
            command.user
        )));
    }
    Ok(())
}

/// Returns the source of stored bytes: a file without a name, as it was when somebody redirected one.
fn given(bytes: &[u8]) -> std::io::Result<Source> {
    if bytes.is_empty() {
        return Ok(Source::empty());
    }
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    file.rewind()?;
    Source::of(file.as_fd(), 0)
}

/// Runs the policy's cheap command; returns whether real work may be risked.
fn tried_cheaply(words: &[OsString], timeout: Duration) -> std::io::Result<bool> {
    struct Deaf;
    impl Listener for Deaf {
        fn stdout(&mut self, _piece: &[u8]) {}
        fn stderr(&mut self, _piece: &[u8]) {}
        fn tick(&mut self) -> Option<Instant> {
            None
        }
    }
    let limits = Limits { timeout: Some(timeout), first_byte: None, idle: None, grace: GRACE };
    let spec = Spec { command: words, env: &[], elsewhere: None, attended: Attended::No, out: Out::Heard, limits };
    let (mut signals, _ender) = Signals::told()?;
    let ended = child::run(&spec, &mut Source::empty(), &mut signals, &mut Deaf)?;
    match ended.exit {
        Exit::Code(0) => Ok(true),
        // Our own fault: it says nothing, and must not keep the circuit open for ever.
        Exit::NotFound | Exit::NotExecutable => Ok(true),
        Exit::Code(_) | Exit::Signal(_) | Exit::TimedOut | Exit::Cancelled => Ok(false),
    }
}

/// A command that is ready to run.
#[derive(Debug)]
struct Ready {
    words: Vec<OsString>,
    executable: PathBuf,
    cwd: PathBuf,
    env: Vec<(OsString, OsString)>,
    source: Source,
    limits: Limits,
    classifier: Classifier,
    rerun: CommandRerun,
    handle: Arc<Handle>,
}

impl Ready {
    /// Runs it to its end, on a thread of its own.
    fn run(mut self, mut signals: Signals) -> Performed {
        let elsewhere = Elsewhere { executable: self.executable.as_os_str(), cwd: &self.cwd, env: &self.env };
        let spec = Spec {
            command: &self.words,
            env: &[],
            elsewhere: Some(elsewhere),
            attended: Attended::No,
            out: Out::Heard,
            limits: self.limits,
        };
        let mut hearing = Hearing::new(&self.classifier);
        let Ok(ended) = child::run(&spec, &mut self.source, &mut signals, &mut hearing) else {
            // It may have been started before we lost sight of it.
            return Performed::Left(Sent::Maybe);
        };
        match ended.exit {
            Exit::NotFound | Exit::NotExecutable => Performed::Left(Sent::Nothing),
            Exit::Cancelled => Performed::Left(Sent::Maybe),
            exit @ (Exit::Code(_) | Exit::Signal(_) | Exit::TimedOut) => {
                let rerun = CommandRerun { timed_out: exit == Exit::TimedOut, ..self.rerun };
                Performed::Ended(Box::new(hearing.ending(exit, ended.elapsed, rerun, self.handle.clock())))
            }
        }
    }
}

/// Hears a job's command, and keeps what it says.
struct Hearing<'a> {
    ear: Ear<'a>,
    inner: InnerEar,
    stdout: Vec<u8>,
    cut: bool,
    stderr: VecDeque<u8>,
}

impl<'a> Hearing<'a> {
    fn new(classifier: &'a Classifier) -> Self {
        Self {
            ear: classifier.listen(),
            inner: InnerEar::default(),
            stdout: Vec::new(),
            cut: false,
            stderr: VecDeque::new(),
        }
    }

    fn ending(self, exit: Exit, took: Duration, rerun: CommandRerun, clock: &Clock) -> Ending {
        let at = reading(clock, &self.ear, exit);
        let inner = self.inner.found().cloned();
        let mut verdict = self.ear.finish(exit, took, &at);
        if let Some(inner) = inner.filter(|_| exit != Exit::Code(0)) {
            take_over(&mut verdict, &inner, &at);
        }
        let stderr: Vec<u8> = self.stderr.into();
        let stderr = redact::redact(&String::from_utf8_lossy(&stderr));
        let result = JobResult::Command { exit, stdout: self.stdout, stderr, cut: self.cut, took };
        Ending { verdict, took, command: Some(rerun), result: Some(result) }
    }
}

impl Listener for Hearing<'_> {
    fn stdout(&mut self, piece: &[u8]) {
        self.ear.stdout(piece);
        let room = RESULT_BYTES_MAX.saturating_sub(self.stdout.len());
        self.cut |= piece.len() > room;
        self.stdout.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    fn stderr(&mut self, piece: &[u8]) {
        self.ear.stderr(piece);
        self.inner.hear(piece);
        self.stderr.extend(piece);
        let over = self.stderr.len().saturating_sub(STDERR_BYTES_MAX);
        self.stderr.drain(..over);
    }

    fn tick(&mut self) -> Option<Instant> {
        None
    }
}
