//! Lets an operator act: a page that says what will happen and asks for a reason, and the act itself.
//!
//! Every act has a page of its own, so that nothing happens by one slip, with or without scripts. The form carries the
//! word of its session; who acted and why stands in the journal, as with the operators' API. What is wrong with a form is
//! said above it, with what was written still in it.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use halfopen::handle::Handle;
use halfopen::handle::jobs::JobError;
use halfopen_core::event::{By, State};
use halfopen_core::job::JobState;
use http::{Method, Response, StatusCode};

use super::super::access::{Arrival, Right};
use super::super::problem::{Kind, Problem};
use super::form::{Form, REASON_CHARS_MAX};
use super::look::Look;
use super::page::{Fragment, Frame, go, markup};
use super::say::{Say, fill};
use super::session::Visitor;
use super::sign_in::known;
use super::view::{Act, Decide, Steer};
use super::words::Words;
use super::{Asked, circuit, job};
use crate::duration;
use crate::serve::api::{at_the_store, job_refused, unwritable};
use crate::serve::body::Body;
use crate::serve::gateway::Gateway;

/// The longest words about what became of a job, in characters.
const RESULT_CHARS_MAX: usize = 10_000;
/// How long a hold lasts unless something else is written.
const HOLD_FOR: &str = "1h";

#[derive(Template)]
#[template(path = "dashboard/act.html")]
struct ActTemplate<'a> {
    w: &'a Words,
    title: &'static str,
    about: String,
    target: String,
    back: String,
    action: String,
    word: String,
    error: Option<String>,
    beware: Option<&'static str>,
    holds: bool,
    held_open: bool,
    held_closed: bool,
    releases: bool,
    requeues: bool,
    resolves: bool,
    may_have_run: bool,
    ticked: bool,
    grave: bool,
    lasting: String,
    result: String,
    reason: String,
}

impl<'a> ActTemplate<'a> {
    fn blank(w: &'a Words) -> Self {
        Self {
            w,
            title: "",
            about: String::new(),
            target: String::new(),
            back: String::new(),
            action: String::new(),
            word: String::new(),
            error: None,
            beware: None,
            holds: false,
            held_open: false,
            held_closed: false,
            releases: false,
            requeues: false,
            resolves: false,
            may_have_run: false,
            ticked: false,
            grave: false,
            lasting: String::new(),
            result: String::new(),
            reason: String::new(),
        }
    }
}

/// What was written into a form, checked.
pub(super) struct Wish {
    state: Option<State>,
    pub(super) lasting: Option<Duration>,
    pub(super) ticked: bool,
    pub(super) result: Option<String>,
    pub(super) reason: String,
}

/// Returns what a page says after an act.
pub(super) fn told(word: &str, w: &Words) -> Option<&'static str> {
    Some(match word {
        "hold" => w.done_hold,
        "release" => w.done_release,
        "reset" => w.done_reset,
        "requeue" => w.done_requeue,
        "resolve" => w.done_resolve,
        "discard" => w.done_discard,
        "cancel" => w.done_cancel,
        _ => return None,
    })
}

/// Answers the page of an act: its form, or what it was sent with.
pub(super) async fn answer(
    gateway: &Arc<Gateway>,
    arrival: &Arrival,
    asked: Asked,
    act: Act,
    who: String,
) -> Result<Response<Body>, Problem> {
    let Asked { parts, body, visitor, words, .. } = asked;
    if parts.method != Method::POST {
        // Whoever may look and not act is asked for a token before the form is written, not after.
        gateway.access.page(&parts, arrival, Right::Change, visitor.name.as_deref())?;
        return at_the_store(gateway, move |gateway, _| form(&Look::now(gateway, words), &visitor, &act, None, None))
            .await;
    }
    let sent = Form::read(&parts.headers, body).await?;
    known(gateway, &visitor, &sent)?;
    let back = act.back();
    let word = match &act {
        Act::Steer(steer, _) => steer.word(),
        Act::Decide(decide, _) => decide.word(),
    };
    let done = at_the_store(gateway, move |gateway, handle| {
        let look = Look::now(gateway, words);
        let refused = match wish(&act, &sent, look.say.w) {
            Ok(wish) => match carry_out(&look, handle, &act, wish, &who) {
                Ok(dependency) => return Ok(Ok(dependency)),
                // What the state of a job does not allow can be read beside the form.
                Err(problem) if problem.kind() == Kind::WrongState => problem.detail().to_owned(),
                Err(problem) => return Err(problem),
            },
            Err(error) => error,
        };
        let mut response = form(&look, &visitor, &act, Some(refused), Some(&sent))?;
        *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
        Ok(Err(response))
    })
    .await?;
    match done {
        Ok(queued_again) => {
            if let Some(dependency) = queued_again {
                gateway.queue.bell.ring(&dependency);
            }
            Ok(go(&format!("{back}?done={word}"), None))
        }
        Err(response) => Ok(response),
    }
}

/// Reads what is wished, or says what is wrong with it.
pub(super) fn wish(act: &Act, sent: &Form, w: &Words) -> Result<Wish, String> {
    let reason = sent.text("reason");
    if reason.is_empty() {
        return Err(w.reason_missing.to_owned());
    }
    if reason.chars().count() > REASON_CHARS_MAX || reason.chars().any(char::is_control) {
        return Err(fill(w.reason_wrong, &[("max", &REASON_CHARS_MAX.to_string())]));
    }
    let mut wish = Wish { state: None, lasting: None, ticked: false, result: None, reason: reason.to_owned() };
    let span = |name: &str| match sent.text(name) {
        "" => Ok(None),
        written => duration::parse_positive(written).map(Some).map_err(|_| fill(w.span_wrong, &[("written", written)])),
    };
    match act {
        Act::Steer(Steer::Hold, _) => {
            wish.state = Some(match sent.text("state") {
                "open" => State::Open,
                "closed" => State::Closed,
                _ => return Err(w.hold_state_missing.to_owned()),
            });
            wish.lasting = span("for")?;
        }
        Act::Steer(Steer::Release, _) => wish.ticked = sent.ticked("probe_now"),
        Act::Decide(Decide::Requeue, _) => {
            wish.lasting = span("ttl")?;
            wish.ticked = sent.ticked("may_have_run");
        }
        Act::Decide(Decide::Resolve, _) => {
            let result = sent.text("result");
            if result.chars().count() > RESULT_CHARS_MAX {
                return Err(fill(w.result_wrong, &[("max", &RESULT_CHARS_MAX.to_string())]));
            }
            wish.result = (!result.is_empty()).then(|| result.to_owned());
        }
        Act::Steer(Steer::Reset, _) | Act::Decide(Decide::Discard | Decide::Cancel, _) => {}
    }
    Ok(wish)
}

/// Does it; returns the dependency of a job that is queued again.
fn carry_out(look: &Look<'_>, door: &Handle, act: &Act, wish: Wish, who: &str) -> Result<Option<String>, Problem> {
    match act {
        Act::Steer(steer, name) => {
            let (view, _) = circuit::found(look, name)?;
            let policy = look.gateway.policy_of(view.id.dependency());
            let reason = wish.reason.as_str();
            let steered = match (steer, wish.state) {
                (Steer::Hold, Some(state)) => door.hold(&view.id, &policy, state, wish.lasting, who, reason),
                (Steer::Hold, None) => Ok(Vec::new()),
                (Steer::Release, _) => door.release(&view.id, &policy, wish.ticked, who, reason),
                (Steer::Reset, _) => door.reset(&view.id, &policy, who, reason),
            };
            steered.map(|_| None).map_err(unwritable)
        }
        Act::Decide(decide, name) => {
            let detail = job::found(look, name)?;
            let dependency = detail.view.job.terms().dependency().to_owned();
            let (id, policy) = (detail.view.id, look.gateway.policy_of(&dependency));
            let by = By { who: who.to_owned(), reason: wish.reason };
            let decided: Result<_, JobError> = match decide {
                Decide::Requeue => door.requeue_job(id, &policy, wish.lasting, wish.ticked, &by),
                Decide::Resolve => door.resolve_job(id, &policy, wish.result, &by),
                Decide::Discard => door.discard_job(id, &policy, &by),
                Decide::Cancel => door.cancel_job(id, &policy, &by),
            };
            let (view, _) = decided.map_err(job_refused)?;
            Ok((view.job.state() == JobState::Queued).then_some(dependency))
        }
    }
}

/// Returns the page of an act; `sent` is what was written into it already.
fn form(
    look: &Look<'_>,
    visitor: &Visitor,
    act: &Act,
    error: Option<String>,
    sent: Option<&Form>,
) -> Result<Response<Body>, Problem> {
    let (say, w) = (&look.say, look.say.w);
    let written = |name: &str| sent.map_or("", |sent| sent.text(name)).to_owned();
    let mut page = ActTemplate::blank(w);
    (page.back, page.action, page.error) = (act.back(), act.path(), error);
    page.word = look.gateway.dashboard.sessions.word(visitor);
    (page.reason, page.result) = (written("reason"), written("result"));
    match act {
        Act::Steer(steer, name) => {
            let (view, _) = circuit::found(look, name)?;
            let target = view.id.to_string();
            let now = say.state(view.status.state);
            let values = [("circuit", target.as_str()), ("state", now)];
            match steer {
                Steer::Hold => {
                    (page.title, page.about, page.holds) = (w.hold, fill(w.hold_about, &values), true);
                    page.held_open = written("state") == "open" || sent.is_none();
                    page.held_closed = written("state") == "closed";
                    page.lasting = if sent.is_some() { written("for") } else { HOLD_FOR.to_owned() };
                }
                Steer::Release => {
                    (page.title, page.about, page.releases) = (w.release, fill(w.release_about, &values), true);
                    let open = view.status.hold.is_none() && view.status.state == State::Open;
                    page.ticked = sent.map_or(open, |sent| sent.ticked("probe_now"));
                }
                Steer::Reset => {
                    (page.title, page.about, page.grave) = (w.reset, fill(w.reset_about, &values), true);
                }
            }
            page.target = target;
        }
        Act::Decide(decide, name) => {
            let detail = job::found(look, name)?;
            let state = detail.view.job.state();
            let values = [("job", name.as_str()), ("state", say.job_state(state))];
            let may_have_run = detail.view.job.may_have_run();
            match decide {
                Decide::Requeue => {
                    (page.title, page.about, page.requeues) = (w.requeue, fill(w.requeue_about, &values), true);
                    page.may_have_run = may_have_run;
                    page.ticked = sent.is_some_and(|sent| sent.ticked("may_have_run"));
                    page.lasting = written("ttl");
                    page.beware = may_have_run.then_some(w.may_have_run);
                }
                Decide::Resolve => {
                    (page.title, page.about, page.resolves) = (w.resolve, fill(w.resolve_about, &values), true);
                }
                Decide::Discard => {
                    (page.title, page.about, page.grave) = (w.discard, fill(w.discard_about, &values), true);
                }
                Decide::Cancel => {
                    (page.title, page.about, page.grave) = (w.cancel, fill(w.cancel_about, &values), true);
                }
            }
            if !decide.allowed(state) && page.error.is_none() {
                page.error = Some(fill(w.not_allowed, &values));
            }
            page.target = detail.view.id.to_string();
        }
    }
    let title = format!("{} · {}", page.title, page.target);
    let html = markup(&page)?;
    frame(look, visitor, act, say).around(&title, &[Fragment::new("act", html)])
}

fn frame<'a>(look: &'a Look<'_>, visitor: &'a Visitor, act: &Act, say: &'a Say) -> Frame<'a> {
    Frame { gateway: look.gateway, say, visitor, here: act.path(), watches: None, told: None }
}
