//! Puts what was rendered into a page, and a page into an answer.
//!
//! A page is a frame with fragments in it. The frame is rendered for whoever asks; a fragment is the same for everybody
//! who watches the same view, holds no form and no secret, and is sent again when it changes ([`super::live`]).

use askama::Template;
use http::header::{
    CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, SET_COOKIE, VARY,
};
use http::{HeaderValue, Response, StatusCode};

use super::super::problem::{Kind, Problem};
use super::assets::{self, Paths};
use super::say::{Moment, Say};
use super::session::Visitor;
use super::view::{View, segment};
use super::words::{ALL, Words};
use crate::serve::body::{self, Body};
use crate::serve::gateway::Gateway;

/// What pages may load and where forms may go. Nothing is inline, so nothing that slipped into a page can run.
const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      font-src 'none'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// A link.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) text: String,
    pub(super) href: String,
    /// Whether it leads to where it stands.
    pub(super) here: bool,
}

/// A part of a page that is sent again when it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) name: &'static str,
    pub(super) html: String,
}

impl Fragment {
    pub(super) fn new(name: &'static str, html: String) -> Self {
        Self { name, html }
    }
}

/// A view as it was rendered, for everybody who watches it.
#[derive(Clone, Debug)]
pub(super) struct Rendered {
    pub(super) title: String,
    pub(super) fragments: Vec<Fragment>,
    /// What is read aloud when it changes.
    pub(super) said: Option<String>,
}

/// For whom a frame is made, and where it stands.
pub(super) struct Frame<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) say: &'a Say,
    pub(super) visitor: &'a Visitor,
    /// The path with its query, without the language.
    pub(super) here: String,
    /// What is watched; `None` if nothing is.
    pub(super) watches: Option<&'a View>,
    /// What was just done.
    pub(super) told: Option<&'static str>,
}

#[derive(Template)]
#[template(path = "dashboard/page.html")]
struct Page<'a> {
    w: &'a Words,
    title: &'a str,
    assets: Paths,
    live: Option<String>,
    nav: Vec<NavLink>,
    langs: Vec<LangLink>,
    signed_in: Option<&'a str>,
    offers_sign_in: bool,
    word: String,
    here: &'a str,
    here_encoded: String,
    told: Option<&'a str>,
    fragments: &'a [Fragment],
    as_of: Moment,
    version: &'static str,
}

struct NavLink {
    text: &'static str,
    href: &'static str,
    here: bool,
}

struct LangLink {
    text: &'static str,
    code: &'static str,
    href: String,
    here: bool,
}

/// Returns what a template makes.
pub(super) fn markup(template: &impl Template) -> Result<String, Problem> {
    template.render().map_err(|error| Problem::new(Kind::Internal, format!("The page cannot be written: {error}.")))
}

impl Frame<'_> {
    /// Returns the page around what was rendered.
    pub(super) fn around(&self, title: &str, fragments: &[Fragment]) -> Result<Response<Body>, Problem> {
        let w = self.say.w;
        let path = self.here.split('?').next().unwrap_or_default();
        let nav = [
            (w.overview, "/", path == "/" || path.starts_with("/ui/circuits/")),
            (w.incidents, "/ui/incidents", path == "/ui/incidents"),
            (w.jobs, "/ui/jobs", path.starts_with("/ui/jobs")),
            (w.policy, "/ui/policy", path == "/ui/policy"),
            (w.alerts, "/ui/alerts", path == "/ui/alerts"),
        ];
        let nav = nav.map(|(text, href, here)| NavLink { text, href, here }).into();
        let mark = if self.here.contains('?') { '&' } else { '?' };
        let lang = |words: &&Words| LangLink {
            text: words.name,
            code: words.code,
            href: format!("{}{mark}lang={}", self.here, words.code),
            here: words.code == w.code,
        };
        let page = Page {
            w,
            title,
            assets: assets::paths(),
            live: self.watches.map(|view| format!("/ui/live?lang={}&view={}", w.code, segment(&view.path()))),
            nav,
            langs: ALL.iter().map(lang).collect(),
            signed_in: self.visitor.name.as_deref(),
            offers_sign_in: self.gateway.access.has_operators() && !path.starts_with("/ui/sign-in"),
            word: self.gateway.dashboard.sessions.word(self.visitor),
            here: &self.here,
            here_encoded: segment(&self.here),
            told: self.told,
            fragments,
            as_of: self.say.moment(self.say.when.now),
            version: env!("CARGO_PKG_VERSION"),
        };
        let mut response = html(markup(&page)?);
        response.headers_mut().insert(CONTENT_LANGUAGE, HeaderValue::from_static(w.code));
        Ok(response)
    }
}

/// Returns a page as an answer.
fn html(text: String) -> Response<Body> {
    let mut response = Response::new(body::full(text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Without any referrer a browser would hide the origin of our own forms too.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(VARY, HeaderValue::from_static("Accept-Language, Cookie"));
    response
}

/// Returns an answer that sends a browser elsewhere on this gateway.
pub(super) fn go(path: &str, cookie: Option<HeaderValue>) -> Response<Body> {
    let mut response = html(String::new());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    headers.insert(LOCATION, HeaderValue::try_from(path).unwrap_or_else(|_| HeaderValue::from_static("/")));
    if let Some(cookie) = cookie {
        headers.insert(SET_COOKIE, cookie);
    }
    response
}
