//! The dashboard: what an operator sees in a browser, and does there.
//!
//! Pages are made here, whole, and need no script to be read or acted on; a small script keeps an open page current
//! ([`live`]). A program of its own in the browser was considered: it would need a second tool chain, and show nothing
//! until it has run. What pages show is what the operators' API says, in pictures and in the reader's language.
//!
//! The way of a request: [`view`] reads what is meant, [`session`] and [`super::access`] say who asks, [`look`] reads the
//! store, a module for each page renders it, [`page`] puts the frame around it. What is done ([`act`]) goes through the
//! same door as the API's verbs, with the same words in the journal.

mod act;
mod alerts;
mod assets;
mod circuit;
mod depth;
mod figures;
mod form;
mod history;
mod incidents;
mod job;
mod jobs;
mod live;
mod look;
mod many;
mod needs;
mod overview;
mod page;
mod policy;
mod say;
mod session;
mod sign_in;
mod timeline;
mod view;
mod words;

use std::sync::Arc;

use askama::Template;
use http::header::{ACCEPT_LANGUAGE, ORIGIN, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use hyper::body::Incoming;

use super::access::{Arrival, Right, Serves};
use super::api;
use super::body::Body;
use super::gateway::Gateway;
use super::problem::{Dialect, Kind, Problem};
use crate::shown::When;
use depth::Depths;
use live::Live;
use look::{Look, Recently};
use page::{Fragment, Frame, Rendered, markup};
use say::Say;
use session::{Sessions, Visitor, cookie_of};
use view::{Found, Query, View};
use words::Words;

pub(super) use view::is_page;

/// What remembers the language that was chosen.
const LANGUAGE: &str = "halfopen_lang";

/// What pages share.
#[derive(Debug)]
pub(super) struct Dashboard {
    sessions: Sessions,
    live: Live,
    depths: Depths,
    recently: Recently,
}

impl Dashboard {
    /// Returns a dashboard that nobody looks at.
    pub(super) fn new() -> Self {
        Self {
            sessions: Sessions::new(),
            live: Live::default(),
            depths: Depths::default(),
            recently: Recently::default(),
        }
    }
}

/// Remembers how many jobs wait, for ever.
pub(super) async fn remember(gateway: Arc<Gateway>) {
    let mut looks = tokio::time::interval(depth::EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let looked = Arc::clone(&gateway);
        // What cannot be read now is seen at the next look.
        let _ = tokio::task::spawn_blocking(move || {
            let handle = looked.dashboard.recently.reader(&looked.door.handle);
            let now = handle.clock().now();
            for (dependency, tally) in handle.job_tallies().unwrap_or_default() {
                looked.dashboard.depths.note(&dependency, tally.queued, now);
            }
        })
        .await;
    }
}

/// What a page is asked with.
struct Asked {
    parts: Parts,
    body: Incoming,
    query: Query,
    visitor: Visitor,
    words: &'static Words,
}

/// Answers a request for a page.
pub(super) async fn answer(gateway: &Arc<Gateway>, arrival: &Arrival, request: Request<Incoming>) -> Response<Body> {
    if arrival.serves == Serves::Calls {
        let detail = "Operators' paths are answered at the address given with --admin-listen.";
        return Problem::new(Kind::NotFound, detail).answer(Dialect::Problem);
    }
    let (parts, body) = request.into_parts();
    let head = parts.method == Method::HEAD;
    let query = Query::read(parts.uri.query().unwrap_or_default());
    let visitor = gateway.dashboard.sessions.visitor(&gateway.access, &parts.headers, arrival);
    let words = language(&parts.headers, &query);
    let chosen = query.text("lang").and_then(words::of);
    let here = here(&parts);
    let (asked, seen) = (Asked { parts, body, query, visitor: visitor.clone(), words }, visitor);
    let mut response = match operate(gateway, arrival, asked, &here).await {
        Ok(response) => response,
        Err(problem) => refused(gateway, words, &seen, &here, &problem),
    };
    if let Some(chosen) = chosen {
        let cookie = format!("{LANGUAGE}={}; Path=/; Max-Age=31536000; SameSite=Lax; HttpOnly", chosen.code);
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
    }
    api::harden(&mut response);
    if head {
        *response.body_mut() = super::body::full("");
    }
    response
}

async fn operate(
    gateway: &Arc<Gateway>,
    arrival: &Arrival,
    asked: Asked,
    here: &str,
) -> Result<Response<Body>, Problem> {
    let found = view::find(asked.parts.uri.path(), &asked.query)?;
    let posted = asked.parts.method == Method::POST;
    let looks = asked.parts.method == Method::GET || asked.parts.method == Method::HEAD;
    let takes = match found {
        Found::Act(_) | Found::Many | Found::SignIn => looks || posted,
        Found::SignOut => posted,
        Found::View(_) | Found::Live | Found::Asset(_) => looks,
        Found::Nothing => true,
    };
    if !takes {
        return Err(Problem::new(Kind::MethodNotAllowed, "Pages take GET, and their forms POST."));
    }
    // A page that anybody may see is still none of a stranger's: the name and the origin are looked at all the same.
    let right = match found {
        Found::Asset(_) | Found::SignIn | Found::Nothing => Right::Nobody,
        Found::View(_) | Found::Live => Right::Read,
        Found::Act(_) | Found::Many | Found::SignOut if posted => Right::Change,
        Found::Act(_) | Found::Many | Found::SignOut => Right::Read,
    };
    let checked = if posted { Right::Change } else { right };
    gateway.access.is_of_our_pages(&asked.parts, arrival, checked)?;
    let name = asked.visitor.name.clone();
    match found {
        Found::Asset(name) => assets::answer(&name).ok_or_else(nothing),
        Found::Nothing => Err(nothing()),
        Found::SignIn => sign_in::answer(gateway, arrival, asked).await,
        Found::SignOut => sign_in::leave(gateway, arrival, asked).await,
        Found::Live => {
            gateway.access.page(&asked.parts, arrival, right, name.as_deref())?;
            live::open(gateway, arrival, asked).await
        }
        Found::View(view) => {
            gateway.access.page(&asked.parts, arrival, right, name.as_deref())?;
            show(gateway, asked, view, here).await
        }
        Found::Act(act) => {
            let who = gateway.access.page(&asked.parts, arrival, right, name.as_deref())?;
            act::answer(gateway, arrival, asked, act, who).await
        }
        Found::Many => {
            let who = gateway.access.page(&asked.parts, arrival, right, name.as_deref())?;
            many::answer(gateway, arrival, asked, who).await
        }
    }
}

fn nothing() -> Problem {
    Problem::new(Kind::NotFound, "There is no such page.")
}

async fn show(gateway: &Arc<Gateway>, asked: Asked, view: View, here: &str) -> Result<Response<Body>, Problem> {
    let words = asked.words;
    let (shown, here) = (view.clone(), here.to_owned());
    let told = asked.query.text("done").and_then(|word| act::told(word, words));
    api::at_the_store(gateway, move |gateway, _| {
        let rendered = render(gateway, words, &shown)?;
        let say = Say { w: words, when: When::read(&gateway.door.handle.clock().read()) };
        let visitor = &asked.visitor;
        let frame = Frame { gateway, say: &say, visitor, here, watches: Some(&shown), told };
        frame.around(&rendered.title, &rendered.fragments)
    })
    .await
}

/// Renders a view, for whoever looks at it.
fn render(gateway: &Gateway, words: &'static Words, view: &View) -> Result<Rendered, Problem> {
    let look = Look::now(gateway, words);
    match view {
        View::Overview(range) => overview::render(&look, *range),
        View::Circuit(id, range) => circuit::render(&look, id, *range),
        View::Incidents(days) => history::render(&look, *days),
        View::Jobs(asked) => jobs::render(&look, asked),
        View::Job(id) => job::render(&look, id),
        View::Policy => policy::render(&look),
        View::Alerts => alerts::render(&look),
    }
}

#[derive(Template)]
#[template(path = "dashboard/problem.html")]
struct ProblemTemplate<'a> {
    w: &'a Words,
    title: &'a str,
    detail: &'a str,
}

/// Returns the page of a problem; where a token is needed, the one to sign in.
fn refused(
    gateway: &Gateway,
    words: &'static Words,
    visitor: &Visitor,
    here: &str,
    problem: &Problem,
) -> Response<Body> {
    let say = Say { w: words, when: When::read(&gateway.door.handle.clock().read()) };
    let frame = Frame { gateway, say: &say, visitor, here: here.to_owned(), watches: None, told: None };
    let page = if problem.kind() == Kind::TokenRequired {
        sign_in::form(&frame, here, false)
    } else {
        let title = problem.kind().title();
        let template = ProblemTemplate { w: words, title, detail: problem.detail() };
        markup(&template).and_then(|html| frame.around(title, &[Fragment::new("problem", html)]))
    };
    match page {
        Ok(mut response) => {
            let bare = super::access::refusal(problem);
            *response.status_mut() = bare.status();
            response
        }
        Err(problem) => problem.answer(Dialect::Problem),
    }
}

/// Returns the path of a request with its query, without what was said once.
fn here(parts: &Parts) -> String {
    let path = parts.uri.path();
    let query = parts.uri.query().unwrap_or_default();
    let keeps = |pair: &&str| !pair.is_empty() && !pair.starts_with("lang=") && !pair.starts_with("done=");
    let kept: Vec<&str> = query.split('&').filter(keeps).collect();
    if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) }
}

/// Returns the reader's language: what was chosen now, what was chosen before, what the browser prefers.
fn language(headers: &HeaderMap, query: &Query) -> &'static Words {
    let chosen = query.text("lang").or_else(|| cookie_of(headers, LANGUAGE)).and_then(words::of);
    let accepted = || words::accepted(headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()).unwrap_or(""));
    chosen.unwrap_or_else(accepted)
}

/// Returns whether a browser reached us over TLS, as far as it says: something before us ends it then.
fn over_tls(headers: &HeaderMap) -> bool {
    headers.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"))
}
