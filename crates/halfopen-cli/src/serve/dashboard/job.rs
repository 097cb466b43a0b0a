//! Shows one job: what it does, where it is and why, what happened to it, and what came back.
//!
//! Of what it sends only the first line is shown, without secrets; of what came back the beginning, if it is text.

use askama::Template;
use halfopen::handle::jobs::JobDetail;
use halfopen_core::job::{Entry as HistoryEntry, JobId, JobResult, JobState};
use halfopen_core::outcome::Exit;

use super::super::problem::{Kind, Problem};
use super::jobs::badge;
use super::look::Look;
use super::page::{Fragment, Link, Rendered, markup};
use super::say::{Moment, Say, fill};
use super::view::{Act, Decide, circuit_path};
use super::words::Words;
use crate::serve::api::{shown, unreadable};
use crate::shown::does;

/// How much of what came back is shown, in bytes.
const BODY_MAX: usize = 4_096;

#[derive(Template)]
#[template(path = "dashboard/job.html")]
struct JobTemplate<'a> {
    w: &'a Words,
    id: String,
    badge: String,
    beware: Option<&'static str>,
    actions: Vec<Link>,
    facts: Vec<Fact>,
    body: Option<String>,
}

#[derive(Debug, Default)]
struct Fact {
    name: &'static str,
    text: String,
    href: Option<String>,
    code: bool,
    at: Option<Moment>,
    evidence: Option<String>,
}

#[derive(Template)]
#[template(path = "dashboard/journal.html")]
struct History<'a> {
    w: &'a Words,
    entries: Vec<Entry>,
}

struct Entry {
    kind: &'static str,
    at: Moment,
    text: String,
    change: Option<String>,
}

/// Returns the job of a name.
pub(super) fn found(look: &Look<'_>, name: &str) -> Result<JobDetail, Problem> {
    let none = || {
        let detail = format!("There is no job `{}`; ended jobs are kept for `queue.keep_done_hours`.", shown(name));
        Problem::new(Kind::NotFound, detail)
    };
    let id: JobId = name.parse().map_err(|_| none())?;
    look.handle.job(id).map_err(unreadable)?.ok_or_else(none)
}

/// Renders a job.
pub(super) fn render(look: &Look<'_>, name: &str) -> Result<Rendered, Problem> {
    let (say, w) = (&look.say, look.say.w);
    let detail = found(look, name)?;
    let state = detail.view.job.state();
    let id = detail.view.id.to_string();
    let words = [w.requeue, w.resolve, w.discard, w.cancel];
    let actions = Decide::ALL.into_iter().zip(words).filter(|(decide, _)| decide.allowed(state));
    let actions = actions.map(|(decide, text)| Link {
        text: text.to_owned(),
        href: Act::Decide(decide, id.clone()).path(),
        here: false,
    });
    let page = JobTemplate {
        w,
        badge: badge(state, say)?,
        beware: (state != JobState::Done && detail.view.job.may_have_run()).then_some(w.may_have_run),
        actions: actions.collect(),
        facts: facts(look, &detail)?,
        body: detail.result.as_ref().and_then(body),
        id: id.clone(),
    };
    let entries = detail.history.iter().rev().map(|entry| history(entry, say)).collect();
    Ok(Rendered {
        said: Some(format!("{id}: {}", say.job_state(state))),
        title: id,
        fragments: vec![
            Fragment::new("job", markup(&page)?),
            Fragment::new("history", markup(&History { w, entries })?),
        ],
    })
}

fn facts(look: &Look<'_>, detail: &JobDetail) -> Result<Vec<Fact>, Problem> {
    let (say, w) = (&look.say, look.say.w);
    let job = &detail.view.job;
    let terms = job.terms();
    let fact = |name, text: String| Fact { name, text, ..Fact::default() };
    let at = |name, at| Fact { name, at: Some(say.moment(at)), ..Fact::default() };
    let mut facts = Vec::new();
    if let Some(request) = look.handle.request(detail.view.id).map_err(unreadable)? {
        facts.push(Fact { name: w.does, text: does(&request), code: true, ..Fact::default() });
    }
    if let Some(key) = &detail.view.key {
        facts.push(Fact { name: w.key, text: key.clone(), code: true, ..Fact::default() });
    }
    let circuit = terms.place.to_string();
    facts.push(Fact { name: w.circuit, href: Some(circuit_path(&circuit)), text: circuit, ..Fact::default() });
    if let Some(account) = &terms.account {
        facts.push(fact(w.account, account.to_string()));
    }
    if let Some(reason) = job.reason() {
        facts.push(fact(w.why, say.job_reason(reason).to_owned()));
    }
    facts.push(at(w.accepted, job.accepted_at()));
    if job.state().is_open() {
        facts.push(at(w.expires, job.expires_at()));
    }
    if let Some(not_before) = job.not_before() {
        facts.push(at(w.not_before, not_before));
    }
    if let Some((worker, ends_at)) = job.lease() {
        facts.push(Fact { name: w.held_by, text: worker.to_owned(), at: Some(say.moment(ends_at)), ..Fact::default() });
    }
    if let Some(ended) = job.ended_at() {
        facts.push(at(w.ended, ended));
    }
    let (sent, charged) = (job.sent().to_string(), job.attempts().to_string());
    facts.push(fact(w.attempts, fill(w.n_sent_charged, &[("sent", &sent), ("charged", &charged)])));
    if let Some(last) = job.last() {
        facts.push(Fact {
            name: w.last_verdict,
            text: format!("{} · {}", say.class(last.class), last.rule),
            at: Some(say.moment(last.at)),
            evidence: (!last.excerpt.is_empty()).then(|| last.excerpt.clone()),
            ..Fact::default()
        });
    }
    if let Some(result) = &detail.result {
        facts.push(fact(w.result, result_of(result, say)));
    }
    Ok(facts)
}

fn result_of(result: &JobResult, say: &Say) -> String {
    let w = say.w;
    let size = |bytes: usize, cut: bool| {
        let text = fill(w.n_bytes, &[("n", &bytes.to_string())]);
        if cut { format!("{text}, {}", w.cut) } else { text }
    };
    match result {
        JobResult::Http { status, body, cut, .. } => format!("HTTP {status} · {}", size(body.len(), *cut)),
        JobResult::Command { exit, stdout, cut, took, .. } => {
            let ended = match exit {
                Exit::Code(code) => format!("exit {code}"),
                Exit::Signal(signal) => format!("signal {signal}"),
                Exit::TimedOut => w.timed_out.to_owned(),
                Exit::Cancelled | Exit::NotFound | Exit::NotExecutable => w.not_run.to_owned(),
            };
            format!("{ended} · {} · {}", say.span(*took), size(stdout.len(), *cut))
        }
        JobResult::Stated(words) => format!("{}: {words}", w.stated),
    }
}

/// Returns the beginning of what came back, if it is text.
fn body(result: &JobResult) -> Option<String> {
    let bytes = match result {
        JobResult::Http { body, .. } => body,
        JobResult::Command { stdout, .. } => stdout,
        JobResult::Stated(_) => return None,
    };
    let begin = bytes.get(..bytes.len().min(BODY_MAX)).unwrap_or_default();
    let text = match std::str::from_utf8(begin) {
        Ok(text) => text,
        // A letter may be cut in the middle.
        Err(error) if error.error_len().is_none() => {
            begin.get(..error.valid_up_to()).and_then(|b| std::str::from_utf8(b).ok())?
        }
        Err(_) => return None,
    };
    let readable = !text.is_empty() && !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'));
    readable.then(|| if bytes.len() > begin.len() { format!("{text}…") } else { text.to_owned() })
}

fn history(entry: &HistoryEntry, say: &Say) -> Entry {
    let mut parts = vec![say.job_what(entry.what).to_owned()];
    parts.extend(entry.reason.map(|reason| say.job_reason(reason).to_owned()));
    parts.extend(entry.class.map(|class| say.class(class).to_owned()));
    parts.extend(entry.note.clone());
    parts.extend(entry.worker.clone());
    parts.extend(entry.retry_at.map(|at| fill(say.w.again_at, &[("at", &say.when.local(at))])));
    if let Some(by) = &entry.by {
        parts.push(if by.reason.is_empty() { by.who.clone() } else { format!("{}: {}", by.who, by.reason) });
    }
    let change = entry.from.filter(|from| *from != entry.to);
    Entry {
        kind: super::jobs::kind(entry.to),
        at: say.moment(entry.at),
        text: parts.join(" · "),
        change: change.map(|from| format!("{} → {}", say.job_state(from), say.job_state(entry.to))),
    }
}
