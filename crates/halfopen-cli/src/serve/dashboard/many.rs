//! Lets an operator decide about several jobs at once: those that are ticked in a list.
//!
//! The list is a form that changes nothing and leads here, where it is said which jobs are meant before it is asked why. The jobs
//! stand in the address and in the form, so that nothing is remembered between the two, and both work without scripts.
//! What is sent goes through the same door as `halfopen jobs … ID ID`, with the word of its session as the single acts.
//! One job that cannot be changed so keeps no other; which those are is said above the form that is left.

use std::collections::BTreeSet;
use std::sync::Arc;

use askama::Template;
use halfopen::handle::Handle;
use halfopen::handle::jobs::{Became, DECIDED_MAX, Deed};
use halfopen_core::event::By;
use halfopen_core::job::{JobId, JobState};
use http::{Method, Response, StatusCode};

use super::super::access::{Arrival, Right};
use super::super::problem::Problem;
use super::Asked;
use super::act::wish;
use super::form::Form;
use super::jobs::badge;
use super::look::Look;
use super::page::{Fragment, Frame, go, markup};
use super::say::fill;
use super::session::Visitor;
use super::sign_in::known;
use super::view::{Act, Decide, JobsAsked, Query, job_path};
use super::words::Words;
use crate::serve::api::{at_the_store, bad, job_refused, shown, unreadable};
use crate::serve::body::Body;
use crate::serve::gateway::Gateway;

/// Where the form is.
const PATH: &str = "/ui/decide";

#[derive(Template)]
#[template(path = "dashboard/many.html")]
struct ManyTemplate<'a> {
    w: &'a Words,
    title: &'static str,
    about: String,
    back: String,
    word: String,
    deed: &'static str,
    ids: String,
    jobs: Vec<Chosen>,
    error: Option<String>,
    left: Vec<String>,
    requeues: bool,
    resolves: bool,
    may_have_run: bool,
    ticked: bool,
    grave: bool,
    lasting: String,
    result: String,
    reason: String,
}

/// One of the jobs that are meant.
struct Chosen {
    id: String,
    href: String,
    badge: String,
    reason: Option<&'static str>,
    beware: bool,
}

/// What is meant: what is to be done, and with which jobs.
struct Meant {
    decide: Decide,
    ids: Vec<JobId>,
}

impl Meant {
    /// Reads what a list has sent: the ticked jobs, or all of its page.
    fn of_list(query: &Query) -> Result<Self, Problem> {
        let page = query.text("page").filter(|_| query.text("whole").is_some());
        match page {
            Some(page) => Self::read(query.text("do"), page.split(',')),
            None => Self::read(query.text("do"), query.all("job")),
        }
    }

    fn read<'a>(word: Option<&str>, ids: impl Iterator<Item = &'a str>) -> Result<Self, Problem> {
        let word = word.unwrap_or_default();
        let decide = Decide::ALL.into_iter().find(|decide| decide.word() == word);
        let decide = decide.ok_or_else(|| {
            let known = Decide::ALL.map(Decide::word).join(", ");
            bad(format!("`do` is `{}`; allowed is one of {known}.", shown(word)))
        })?;
        let mut seen = BTreeSet::new();
        let mut read = Vec::new();
        for id in ids.filter(|id| !id.is_empty()) {
            let id: JobId = id.parse().map_err(|_| bad(format!("`{}` is no job id.", shown(id))))?;
            if seen.insert(id) {
                read.push(id);
            }
        }
        if read.len() > DECIDED_MAX {
            return Err(bad(format!(
                "{} jobs are meant; at most {DECIDED_MAX} are decided about at once.",
                read.len()
            )));
        }
        Ok(Self { decide, ids: read })
    }

    /// Returns what is to be done, with what was written into the form.
    fn deed(&self, wish: &super::act::Wish) -> Deed {
        match self.decide {
            Decide::Requeue => Deed::Requeue { ttl: wish.lasting, may_have_run: wish.ticked },
            Decide::Resolve => Deed::Resolve { result: wish.result.clone() },
            Decide::Discard => Deed::Discard,
            Decide::Cancel => Deed::Cancel,
        }
    }
}

/// What became of them.
#[derive(Default)]
struct Done {
    changed: usize,
    /// Dependencies whose jobs are queued again.
    queued: BTreeSet<String>,
    /// Those that stay as they are, each with why.
    left: Vec<(JobId, String)>,
}

/// Answers the form, or what it was sent with.
pub(super) async fn answer(
    gateway: &Arc<Gateway>,
    arrival: &Arrival,
    asked: Asked,
    who: String,
) -> Result<Response<Body>, Problem> {
    let Asked { parts, body, visitor, words, query } = asked;
    if parts.method != Method::POST {
        // Whoever may look and not act is asked for a token before the form is written, not after.
        gateway.access.page(&parts, arrival, Right::Change, visitor.name.as_deref())?;
        let meant = Meant::of_list(&query)?;
        return at_the_store(gateway, move |gateway, _| {
            let look = Look::now(gateway, words);
            let error = meant.ids.is_empty().then(|| words.none_chosen.to_owned());
            form(&look, &visitor, &meant, error, &[], None)
        })
        .await;
    }
    let sent = Form::read(&parts.headers, body).await?;
    known(gateway, &visitor, &sent)?;
    let meant = Meant::read(Some(sent.text("do")), sent.text("jobs").split(','))?;
    let word = meant.decide.word();
    let done = at_the_store(gateway, move |gateway, handle| {
        let look = Look::now(gateway, words);
        let act = Act::Decide(meant.decide, String::new());
        let wish = match wish(&act, &sent, words) {
            Ok(_) if meant.ids.is_empty() => Err(words.none_chosen.to_owned()),
            wish => wish,
        };
        let (done, error) = match wish {
            Err(error) => (Done::default(), error),
            Ok(wish) => {
                let by = By { who, reason: wish.reason.clone() };
                let done = carry_out(&look, handle, &meant, &meant.deed(&wish), &by)?;
                if done.left.is_empty() {
                    return Ok((done, None));
                }
                let values = [("done", done.changed.to_string()), ("left", done.left.len().to_string())];
                let error = fill(words.some_left, &values.each_ref().map(|(name, value)| (*name, value.as_str())));
                (done, error)
            }
        };
        // What is left to be decided about is left in the form.
        let ids = if done.left.is_empty() { meant.ids } else { done.left.iter().map(|(id, _)| *id).collect() };
        let meant = Meant { decide: meant.decide, ids };
        let mut response = form(&look, &visitor, &meant, Some(error), &done.left, Some(&sent))?;
        *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
        Ok((done, Some(response)))
    })
    .await?;
    let (done, response) = done;
    for dependency in &done.queued {
        gateway.queue.bell.ring(dependency);
    }
    Ok(response.unwrap_or_else(|| go(&format!("{}&done={word}", back()), None)))
}

fn carry_out(look: &Look<'_>, door: &Handle, meant: &Meant, deed: &Deed, by: &By) -> Result<Done, Problem> {
    let policy_of = |dependency: &str| look.gateway.policy_of(dependency);
    let became = door.decide_jobs(&meant.ids, &policy_of, deed, by).map_err(job_refused)?;
    let mut done = Done::default();
    for (id, became) in meant.ids.iter().zip(became) {
        match became {
            Became::Changed { view, .. } => {
                done.changed += 1;
                if view.job.state() == JobState::Queued {
                    done.queued.insert(view.job.terms().dependency().to_owned());
                }
            }
            // Somebody else was faster, with the same answer.
            Became::Already(_) => {}
            Became::Refused(error) => done.left.push((*id, error.to_string())),
        }
    }
    Ok(done)
}

/// Returns where the jobs are listed that wait for a person.
fn back() -> String {
    JobsAsked { state: Some(JobState::ManualReview), ..JobsAsked::default() }.path()
}

/// Returns the page; `sent` is what was written into its form already.
fn form(
    look: &Look<'_>,
    visitor: &Visitor,
    meant: &Meant,
    error: Option<String>,
    left: &[(JobId, String)],
    sent: Option<&Form>,
) -> Result<Response<Body>, Problem> {
    let (say, w) = (&look.say, look.say.w);
    let written = |name: &str| sent.map_or("", |sent| sent.text(name)).to_owned();
    let mut jobs = Vec::new();
    let mut may_have_run = false;
    for id in &meant.ids {
        let Some(detail) = look.handle.job(*id).map_err(unreadable)? else { continue };
        let job = &detail.view.job;
        may_have_run |= job.may_have_run();
        jobs.push(Chosen {
            id: id.to_string(),
            href: job_path(&id.to_string()),
            badge: badge(job.state(), say)?,
            reason: job.reason().map(|reason| say.job_reason(reason)),
            beware: job.may_have_run(),
        });
    }
    let (title, requeues, resolves, grave) = match meant.decide {
        Decide::Requeue => (w.requeue, true, false, false),
        Decide::Resolve => (w.resolve, false, true, false),
        Decide::Discard => (w.discard, false, false, true),
        Decide::Cancel => (w.cancel, false, false, true),
    };
    let page = ManyTemplate {
        w,
        title,
        about: fill(w.many_about, &[("n", &jobs.len().to_string())]),
        back: back(),
        word: look.gateway.dashboard.sessions.word(visitor),
        deed: meant.decide.word(),
        ids: meant.ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        jobs,
        error,
        left: left.iter().map(|(id, why)| format!("{id}: {why}")).collect(),
        requeues,
        resolves,
        may_have_run,
        ticked: sent.is_some_and(|sent| sent.ticked("may_have_run")),
        grave,
        lasting: written("ttl"),
        result: written("result"),
        reason: written("reason"),
    };
    let frame = Frame { gateway: look.gateway, say, visitor, here: PATH.to_owned(), watches: None, told: None };
    let html = markup(&page)?;
    frame.around(&format!("{title} · {}", w.jobs), &[Fragment::new("act", html)])
}
