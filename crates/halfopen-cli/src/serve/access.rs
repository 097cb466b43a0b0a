//! Decides who may ask what: the closed door of the operators' side, and the tokens of callers.
//!
//! Two kinds of attacker are meant. Somebody on the network meets no listener at all, or one that demands a token: a
//! listener that others reach does not start without ([`demands`]). A web page in a browser on the same machine reaches
//! the loopback; it is kept out because it cannot send our `Host` from another name (DNS rebinding ends with 421), cannot
//! hide its `Origin` (403), and cannot send JSON without asking first.
//!
//! Whether a listener is local is decided by where it listens, never by the peer's address: behind a proxy on the same
//! machine everybody comes from the loopback.
//!
//! Callers show `Halfopen-Token`, which never crosses to the dependency. `Authorization` was refused as its place: it
//! belongs to the dependency, and a token that is sent on by mistake is a token lost. `Proxy-Authorization` too: client
//! libraries set it only for forward proxies, which the gateway is not.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, ORIGIN, WWW_AUTHENTICATE};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Response, Uri};

use super::args::{Address, ServeArgs};
use super::body::Body;
use super::dependency::Dependency;
use super::gateway::StartError;
use super::problem::{Dialect, Kind, Problem};
use crate::token::{TokenFileError, Tokens};
use crate::ui;

/// Where a caller shows its token; an operator may, too.
pub(super) const TOKEN: HeaderName = HeaderName::from_static("halfopen-token");
/// Where a caller that showed a token is named from then on: callers that are told apart share no kept answer. Whatever a
/// caller writes there itself is taken out, and like all fields of ours it goes no further than the gateway.
pub(super) const CALLER: HeaderName = HeaderName::from_static("halfopen-caller");
/// Where browsers say from where a request comes.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Serves {
    /// Calls and operators.
    Both,
    /// Calls; of the operators' paths only `/healthz`.
    Calls,
    /// Operators.
    Operators,
}

/// One connection: where it arrived, and whose it is.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    /// What the listener serves.
    pub(super) serves: Serves,
    /// Whether only this machine reaches the listener.
    pub(super) local: bool,
    /// Our end of the connection; `None` on a unix socket.
    pub(super) at: Option<SocketAddr>,
    /// The peer as the journal names it: `http:127.0.0.1`, `unix:uid 1000`.
    pub(super) peer: String,
}

/// What an operator's path allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    /// Anybody may ask, under any name: whether we are alive and ready.
    Nobody,
    /// Looking.
    Read,
    /// Steering.
    Change,
}

/// A name under which operators reach the gateway from outside: `NAME`, or `NAME:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicHost {
    name: String,
    port: Option<u16>,
}

impl FromStr for PublicHost {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let wrong = || "write NAME or NAME:PORT, for example halfopen.example.com".to_owned();
        let authority: Authority = word.parse().map_err(|_| wrong())?;
        if word.contains('@') || authority.host().is_empty() || word.ends_with(':') {
            return Err(wrong());
        }
        Ok(Self { name: plain(authority.host()), port: authority.port_u16() })
    }
}

/// Who may ask what.
#[derive(Debug)]
pub(super) struct Access {
    operators: File,
    callers: File,
    public_hosts: Vec<PublicHost>,
}

/// A file of tokens, and what it held when it was last read.
#[derive(Debug)]
struct File {
    path: Option<PathBuf>,
    tokens: ArcSwapOption<Tokens>,
}

impl File {
    fn read(path: Option<&PathBuf>) -> Result<Self, TokenFileError> {
        let file = Self { path: path.cloned(), tokens: ArcSwapOption::empty() };
        file.read_again()?;
        if let Some(path) = path.filter(|_| file.tokens.load().as_ref().is_some_and(|tokens| tokens.has_plain())) {
            ui::warn(&format!(
                "{} holds a token as it is; halfopen token NAME makes a line that is safe to be read",
                path.display()
            ));
        }
        Ok(file)
    }

    fn read_again(&self) -> Result<(), TokenFileError> {
        if let Some(path) = &self.path {
            self.tokens.store(Some(Arc::new(Tokens::read(path)?)));
        }
        Ok(())
    }

    fn is_set(&self) -> bool {
        self.path.is_some()
    }

    fn name_of(&self, token: &[u8]) -> Option<String> {
        self.tokens.load().as_ref().and_then(|tokens| tokens.name_of(token).map(str::to_owned))
    }
}

impl Access {
    /// Reads the files of tokens.
    pub(super) fn read(args: &ServeArgs) -> Result<Self, StartError> {
        Ok(Self {
            operators: File::read(args.admin_token_file.as_ref())?,
            callers: File::read(args.caller_token_file.as_ref())?,
            public_hosts: args.public_hosts.clone(),
        })
    }

    /// Reads the files of tokens again; one that cannot be used leaves its old tokens in force, and is told.
    pub(super) fn reload(&self) {
        for file in [&self.operators, &self.callers] {
            if let Err(error) = file.read_again() {
                ui::error(&format!("tokens not read again, the old ones stay in force: {error}"));
            }
        }
    }

    /// Lets a call through, and names its caller in [`CALLER`] if callers have names here.
    pub(super) fn caller(
        &self,
        headers: &mut HeaderMap,
        arrival: &Arrival,
        dependency: &Dependency,
    ) -> Result<(), Problem> {
        let shown = headers.remove(TOKEN);
        headers.remove(CALLER);
        if !self.callers.is_set() {
            // The policy may have gained a credential since the start.
            if !arrival.local && dependency.adds_credential() {
                let detail = "Halfopen adds a credential to these calls, and this listener is reached from other machines. \
                              Start it with --caller-token-file FILE.";
                return Err(Problem::new(Kind::TokenRefused, detail).dependency(&dependency.name));
            }
            return Ok(());
        }
        let Some(shown) = shown else {
            let detail = "Send the caller's token in the field Halfopen-Token.";
            return Err(Problem::new(Kind::TokenRequired, detail).dependency(&dependency.name));
        };
        let name = self.callers.name_of(shown.as_bytes()).and_then(|name| HeaderValue::from_str(&name).ok());
        let Some(name) = name else {
            let detail = "The token in Halfopen-Token is not one of a caller of this gateway.";
            return Err(Problem::new(Kind::TokenRequired, detail).dependency(&dependency.name));
        };
        headers.insert(CALLER, name);
        Ok(())
    }

    /// Lets an operator's request through and returns who asks.
    pub(super) fn operator(&self, request: &Parts, arrival: &Arrival, right: Right) -> Result<String, Problem> {
        if right == Right::Nobody {
            return Ok(arrival.peer.clone());
        }
        self.host(request, arrival)?;
        self.origin(&request.headers, arrival, right)?;
        if right == Right::Change {
            media_type(&request.headers)?;
        }
        self.token(&request.headers, arrival, right)
    }

    /// Returns whether the request may see what anybody may not: for paths that anybody may ask.
    pub(super) fn is_operator(&self, request: &Parts, arrival: &Arrival) -> bool {
        self.operator(request, arrival, Right::Read).is_ok()
    }

    /// Lets a request for a page through, or a form of one, and returns who asks: a token that is shown, an operator who
    /// signed in, or whoever may without either. What a form must carry beside that is the dashboard's business.
    pub(super) fn page(
        &self,
        request: &Parts,
        arrival: &Arrival,
        right: Right,
        signed_in: Option<&str>,
    ) -> Result<String, Problem> {
        self.is_of_our_pages(request, arrival, right)?;
        match signed_in {
            Some(name) if shown(&request.headers).is_none() => Ok(name.to_owned()),
            Some(_) | None => self.token(&request.headers, arrival, right),
        }
    }

    /// Refuses what comes under another name than ours, or from a page that is not ours.
    pub(super) fn is_of_our_pages(&self, request: &Parts, arrival: &Arrival, right: Right) -> Result<(), Problem> {
        self.host(request, arrival)?;
        self.origin(&request.headers, arrival, right)
    }

    /// Returns the name of an operator's token.
    pub(super) fn operator_named(&self, token: &[u8]) -> Option<String> {
        self.operators.name_of(token)
    }

    /// Returns the name of the operator's token that has this digest, if it is still one.
    pub(super) fn operator_of(&self, digest: &[u8; 32]) -> Option<String> {
        self.operators.tokens.load().as_ref().and_then(|tokens| tokens.name_of_digest(digest).map(str::to_owned))
    }

    /// Returns whether operators have tokens here.
    pub(super) fn has_operators(&self) -> bool {
        self.operators.is_set()
    }

    /// A name that is not ours was made to lead here by somebody else.
    fn host(&self, request: &Parts, arrival: &Arrival) -> Result<(), Problem> {
        let field = request.headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = match request.uri.authority() {
            Some(authority) => Some(authority.clone()),
            None => field.and_then(|host| host.parse().ok()),
        };
        if host.is_some_and(|host| self.is_ours(&host, 80, arrival)) {
            return Ok(());
        }
        let detail = "Operators' paths are answered under localhost, the address that is listened on, and the names given \
                      with --public-host NAME.";
        Err(Problem::new(Kind::ForeignHost, detail))
    }

    fn origin(&self, headers: &HeaderMap, arrival: &Arrival, right: Right) -> Result<(), Problem> {
        let foreign = |detail: &str| Err(Problem::new(Kind::ForeignOrigin, detail));
        if let Some(origin) = headers.get(ORIGIN) {
            let uri = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
            let ours = uri.as_ref().is_some_and(|uri| match (uri.scheme_str(), uri.authority()) {
                (Some("http"), Some(authority)) => self.is_ours(authority, 80, arrival),
                (Some("https"), Some(authority)) => self.is_ours(authority, 443, arrival),
                (Some(_) | None, Some(_) | None) => false,
            });
            if !ours {
                return foreign("The field Origin names a page that is not the gateway's own.");
            }
        }
        let site = headers.get(FETCH_SITE).map(HeaderValue::as_bytes);
        match (right, site) {
            (Right::Change, Some(site)) if site != b"same-origin" && site != b"none" => {
                foreign("The browser says that a page of another site sent this.")
            }
            (Right::Change | Right::Read | Right::Nobody, Some(_) | None) => Ok(()),
        }
    }

    /// Returns whether a name leads here.
    fn is_ours(&self, authority: &Authority, default_port: u16, arrival: &Arrival) -> bool {
        if authority.as_str().contains('@') {
            return false;
        }
        let name = plain(authority.host());
        let port = authority.port_u16();
        if authority.port().is_some() && port.is_none() {
            return false;
        }
        if self.public_hosts.iter().any(|host| host.name == name && (host.port.is_none() || host.port == port)) {
            return true;
        }
        let address: Option<IpAddr> = name.parse().ok().map(|address: IpAddr| address.to_canonical());
        let loopback = name == "localhost" || address.is_some_and(|address| address.is_loopback());
        match arrival.at {
            None => loopback,
            Some(at) => {
                (loopback || address == Some(at.ip().to_canonical())) && port.unwrap_or(default_port) == at.port()
            }
        }
    }

    fn token(&self, headers: &HeaderMap, arrival: &Arrival, right: Right) -> Result<String, Problem> {
        let Some(shown) = shown(headers) else {
            let free = match right {
                Right::Nobody | Right::Read => arrival.local,
                Right::Change => arrival.local && !self.operators.is_set(),
            };
            if free {
                return Ok(arrival.peer.clone());
            }
            let detail = "Send the operator's token in the field Authorization, as Bearer, or in Halfopen-Token.";
            return Err(Problem::new(Kind::TokenRequired, detail));
        };
        if let Some(name) = self.operators.name_of(shown) {
            return Ok(name);
        }
        // A token that is shown is meant: it is never ignored because none would have been needed.
        if self.callers.name_of(shown).is_some() {
            return Err(Problem::new(
                Kind::TokenRefused,
                "This is a caller's token; it does not open operators' paths.",
            ));
        }
        Err(Problem::new(Kind::TokenRequired, "The token is not one of an operator of this gateway."))
    }
}

/// Returns the token that an operator shows.
fn shown(headers: &HeaderMap) -> Option<&[u8]> {
    if let Some(token) = headers.get(TOKEN) {
        return Some(token.as_bytes());
    }
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// JSON is what a page of another origin cannot send without asking first.
fn media_type(headers: &HeaderMap) -> Result<(), Problem> {
    let from_browser =
        headers.contains_key(ORIGIN) || headers.keys().any(|name| name.as_str().starts_with("sec-fetch"));
    let json = match headers.get(CONTENT_TYPE) {
        None => !from_browser,
        Some(value) => {
            let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
            essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
        }
    };
    if json {
        return Ok(());
    }
    Err(Problem::new(Kind::UnsupportedMediaType, "Send the field Content-Type: application/json, and a JSON object."))
}

/// Returns a host without brackets, in lower case, without the dot of the root.
fn plain(host: &str) -> String {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

/// Returns the answer to who may not; 401 names the way to show a token.
pub(super) fn refusal(problem: &Problem) -> Response<Body> {
    let mut response = problem.answer(Dialect::Problem);
    if response.status() == http::StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"halfopen\""));
    }
    response
}

/// Refuses to listen where others would find the door open.
pub(super) fn demands(args: &ServeArgs, adds_credential: Option<&str>) -> Result<(), StartError> {
    let operators_at = args.admin_listen.as_ref().unwrap_or(&args.listen);
    let open = |address: &Address| !address.is_local();
    if open(operators_at) && args.admin_token_file.is_none() {
        return Err(StartError::NoAdminToken { address: operators_at.to_string() });
    }
    if let Some(dependency) = adds_credential.filter(|_| open(&args.listen) && args.caller_token_file.is_none()) {
        return Err(StartError::NoCallerToken { address: args.listen.to_string(), dependency: dependency.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn access(public_hosts: &[&str]) -> Access {
        let file = || File { path: None, tokens: ArcSwapOption::empty() };
        let public_hosts = public_hosts.iter().map(|host| host.parse().unwrap()).collect();
        Access { operators: file(), callers: file(), public_hosts }
    }

    fn arrival(at: Option<&str>) -> Arrival {
        let at = at.map(|at| at.parse().unwrap());
        Arrival { serves: Serves::Both, local: true, at, peer: "http:127.0.0.1".to_owned() }
    }

    fn request(fields: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().uri("/circuits");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn status(fields: &[(&str, &str)], right: Right) -> u16 {
        let access = access(&["ops.example.com", "short:8080"]);
        match access.operator(&request(fields), &arrival(Some("127.0.0.1:4141")), right) {
            Ok(_) => 200,
            Err(problem) => problem.answer(Dialect::Problem).status().as_u16(),
        }
    }

    /// S072
    #[test_case("localhost:4141", 200)]
    #[test_case("LOCALHOST.:4141", 200)]
    #[test_case("127.0.0.1:4141", 200)]
    #[test_case("[::1]:4141", 200)]
    #[test_case("ops.example.com", 200; "a public name")]
    #[test_case("ops.example.com:443", 200; "a public name with a port")]
    #[test_case("short:8080", 200; "a public name with its port")]
    #[test_case("short:8081", 421; "a public name with another port")]
    #[test_case("evil.example:4141", 421; "a name that was made to lead here")]
    #[test_case("localhost", 421; "another port")]
    #[test_case("localhost:4142", 421; "one port further")]
    #[test_case("10.0.0.1:4141", 421; "another address")]
    #[test_case("localhost:99999", 421; "no port")]
    #[test_case("evil@localhost:4141", 421; "a user name")]
    #[test_case("", 421; "nothing")]
    fn operators_are_answered_under_our_names_only(host: &str, expected: u16) {
        assert_eq!(status(&[("host", host)], Right::Read), expected);
    }

    /// S072
    #[test_case(&[("origin", "http://localhost:4141")], 200; "our own page")]
    #[test_case(&[("origin", "https://ops.example.com"), ("sec-fetch-site", "same-origin")], 200; "our page behind a proxy")]
    #[test_case(&[("origin", "http://localhost:3000")], 403; "another program on this machine")]
    #[test_case(&[("origin", "null")], 403; "a sandboxed page")]
    #[test_case(&[("origin", "file:///x.html")], 403; "a file")]
    #[test_case(&[("origin", "https://evil.example")], 403; "a foreign page")]
    #[test_case(&[("sec-fetch-site", "cross-site")], 403; "a foreign page without an origin")]
    #[test_case(&[("sec-fetch-site", "same-site")], 403; "a neighbour")]
    #[test_case(&[("sec-fetch-site", "same-origin"), ("content-type", "")], 415; "a page without a type")]
    #[test_case(&[("content-type", "text/plain")], 415; "a form")]
    #[test_case(&[("content-type", "application/x-www-form-urlencoded")], 415; "another form")]
    #[test_case(&[("content-type", "Application/JSON; charset=utf-8")], 200; "json in other letters")]
    #[test_case(&[], 200; "our own command")]
    fn no_page_of_another_origin_changes_anything(fields: &[(&str, &str)], expected: u16) {
        let mut all = vec![("host", "127.0.0.1:4141")];
        all.extend(fields);
        if fields.iter().any(|(name, _)| *name == "origin") {
            all.push(("content-type", "application/json"));
        }
        assert_eq!(status(&all, Right::Change), expected);
    }

    #[test]
    fn a_unix_socket_is_reached_under_the_name_of_this_machine() {
        let ask = |host: &str| access(&[]).operator(&request(&[("host", host)]), &arrival(None), Right::Read).is_ok();
        assert!(ask("localhost") && ask("localhost:80") && !ask("evil.example"));
    }

    #[test_case("ops.example.com" => true)]
    #[test_case("ops.example.com:8443" => true)]
    #[test_case("http://ops.example.com" => false)]
    #[test_case("me@ops.example.com" => false)]
    #[test_case("ops.example.com:" => false)]
    #[test_case("" => false)]
    fn a_public_host_is_a_name(word: &str) -> bool {
        word.parse::<PublicHost>().is_ok()
    }
}
