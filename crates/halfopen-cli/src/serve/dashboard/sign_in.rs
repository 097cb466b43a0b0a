//! Lets an operator sign in with a token, and out again.

use std::sync::Arc;

use askama::Template;
use http::{Method, Response, StatusCode};

use super::super::access::Arrival;
use super::super::problem::{Kind, Problem};
use super::form::Form;
use super::page::{Fragment, Frame, go, markup};
use super::say::Say;
use super::words::Words;
use super::{Asked, is_page, over_tls};
use crate::serve::body::Body;
use crate::serve::gateway::Gateway;
use crate::shown::When;

#[derive(Template)]
#[template(path = "dashboard/sign_in.html")]
struct SignIn<'a> {
    w: &'a Words,
    word: String,
    next: &'a str,
    refused: bool,
}

/// Returns the page to sign in; `next` is where it leads.
pub(super) fn form(frame: &Frame<'_>, next: &str, refused: bool) -> Result<Response<Body>, Problem> {
    let w = frame.say.w;
    let word = frame.gateway.dashboard.sessions.word(frame.visitor);
    let html = markup(&SignIn { w, word, next: inside(next), refused })?;
    frame.around(w.sign_in, &[Fragment::new("sign-in", html)])
}

/// Answers `/ui/sign-in`: the form, or what it was sent with.
pub(super) async fn answer(gateway: &Arc<Gateway>, arrival: &Arrival, asked: Asked) -> Result<Response<Body>, Problem> {
    let Asked { parts, body, query, visitor, words } = asked;
    let say = Say { w: words, when: When::read(&gateway.door.handle.clock().read()) };
    let frame =
        Frame { gateway, say: &say, visitor: &visitor, here: "/ui/sign-in".to_owned(), watches: None, told: None };
    if !gateway.access.has_operators() {
        return Ok(go("/", None));
    }
    if parts.method != Method::POST {
        return form(&frame, query.text("next").unwrap_or("/"), false);
    }
    let sent = Form::read(&parts.headers, body).await?;
    known(gateway, &visitor, &sent)?;
    let next = inside(sent.text("next"));
    let https = over_tls(&parts.headers);
    match gateway.dashboard.sessions.begin(&gateway.access, sent.text("token").as_bytes(), arrival, https) {
        Some(cookie) => Ok(go(next, Some(cookie))),
        None => {
            let mut response = form(&frame, next, true)?;
            *response.status_mut() = StatusCode::UNAUTHORIZED;
            Ok(response)
        }
    }
}

/// Answers `/ui/sign-out`.
pub(super) async fn leave(gateway: &Arc<Gateway>, arrival: &Arrival, asked: Asked) -> Result<Response<Body>, Problem> {
    let Asked { parts, body, visitor, .. } = asked;
    let sent = Form::read(&parts.headers, body).await?;
    known(gateway, &visitor, &sent)?;
    Ok(go("/", gateway.dashboard.sessions.end(&visitor, arrival, over_tls(&parts.headers))))
}

/// Refuses a form that does not carry the word of whoever sends it.
pub(super) fn known(gateway: &Gateway, visitor: &super::Visitor, sent: &Form) -> Result<(), Problem> {
    if gateway.dashboard.sessions.knows_word(visitor, sent.text("word")) {
        return Ok(());
    }
    let detail = "The form was not made for this session: it is from before the gateway was started, before you signed \
                  in, or from another site. Open its page again; nothing was changed.";
    Err(Problem::new(Kind::ForeignOrigin, detail))
}

/// Returns a path of ours; whatever leads elsewhere leads to the overview.
fn inside(next: &str) -> &str {
    let path = next.split('?').next().unwrap_or_default();
    let plain = !next.contains(['\\', '\r', '\n', '#']) && !next.contains("//");
    if is_page(path) && plain && !path.starts_with("/ui/sign-") { next } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("/ui/jobs?state=queued" => "/ui/jobs?state=queued")]
    #[test_case("/" => "/")]
    #[test_case("//evil.example/ui/" => "/"; "another host")]
    #[test_case("/ui//evil.example" => "/")]
    #[test_case("/ui/\\evil.example" => "/"; "a backslash")]
    #[test_case("https://evil.example/" => "/"; "a whole url")]
    #[test_case("/ui/sign-in" => "/"; "itself")]
    #[test_case("/d/ocr/x" => "/"; "no page")]
    fn signing_in_leads_to_a_page_of_ours(next: &str) -> &str {
        inside(next)
    }
}
