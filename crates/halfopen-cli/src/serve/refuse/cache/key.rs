//! Tells which requests are the same: dependency, partition, caller, method, path with query, and body.
//!
//! The caller is everything by which it could be known to the dependency, all of its credentials and cookies, and by which
//! it is known here, hashed with the key of this store. Two callers with different keys or tokens never see each other's
//! answers, also where the gateway replaces those keys by its own.

use std::sync::{Arc, OnceLock};

use halfopen::fingerprint::{Fingerprint, Fingerprints};
use http::Method;
use http::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderName, PROXY_AUTHORIZATION, RANGE};

use super::rules;
use crate::serve::access::CALLER;
use crate::serve::partition::KEY_FIELDS;

/// A request, as far as answers to it are told apart.
#[derive(Debug)]
pub(in crate::serve) struct Key {
    fingerprints: Arc<Fingerprints>,
    /// Dependency and path.
    pub(super) target: Fingerprint,
    /// Everything but the body.
    head: Fingerprint,
    method: Method,
    /// The fields as the caller sent them: an answer may vary by any.
    headers: HeaderMap,
    /// The body, once it is known; an empty one from the start.
    body: OnceLock<Fingerprint>,
    keepable: bool,
    no_old: bool,
}

/// What a key is made of.
#[derive(Clone, Copy, Debug)]
pub(in crate::serve) struct Of<'a> {
    /// The dependency.
    pub(in crate::serve) dependency: &'a str,
    /// The circuits that judge the call, as written.
    pub(in crate::serve) partition: &'a str,
    /// The configured credential that is sent.
    pub(in crate::serve) credential: Option<&'a str>,
    /// The method.
    pub(in crate::serve) method: &'a Method,
    /// Path and query behind the dependency's name.
    pub(in crate::serve) path: &'a str,
    /// The fields as the caller sent them.
    pub(in crate::serve) headers: &'a HeaderMap,
    /// Whether there is no body.
    pub(in crate::serve) bodiless: bool,
    /// Whether the policy says that a second time is the same as the first.
    pub(in crate::serve) harmless: bool,
}

impl Key {
    /// Returns the key of a request.
    pub(in crate::serve) fn of(fingerprints: &Arc<Fingerprints>, of: &Of<'_>) -> Self {
        let target = fingerprints.of([of.dependency.as_bytes(), of.path.as_bytes()]);
        let mut caller: Vec<&[u8]> = Vec::new();
        let known_by = KEY_FIELDS.iter().map(|name| HeaderName::from_static(name));
        for name in known_by.chain([AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE, CALLER]) {
            for value in of.headers.get_all(&name) {
                caller.push(value.as_bytes());
            }
            caller.push(b"|");
        }
        let head = [
            of.dependency.as_bytes(),
            of.partition.as_bytes(),
            of.credential.unwrap_or("").as_bytes(),
            of.method.as_str().as_bytes(),
            of.path.as_bytes(),
        ];
        let head = fingerprints.of(head.into_iter().chain(caller));
        let (no_store, no_old) = rules::wishes(of.headers);
        let asks =
            *of.method == Method::GET || *of.method == Method::HEAD || (*of.method == Method::POST && of.harmless);
        let body = OnceLock::new();
        if of.bodiless {
            let _ = body.set(fingerprints.of_whole([]));
        }
        Self {
            fingerprints: Arc::clone(fingerprints),
            target,
            head,
            method: of.method.clone(),
            headers: of.headers.clone(),
            body,
            keepable: asks && !no_store && !of.headers.contains_key(RANGE),
            no_old: no_old || !asks,
        }
    }

    /// Adds the body, when all of it has been seen.
    pub(in crate::serve) fn body_is<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) {
        // Pieces are as the network cut them: only all of them together say anything.
        self.body.get_or_init(|| self.fingerprints.of_whole(pieces));
    }

    /// Returns whether the body is known.
    pub(in crate::serve) fn has_body(&self) -> bool {
        self.body.get().is_some()
    }

    /// Returns whether an answer may be kept.
    pub(in crate::serve) fn is_kept(&self) -> bool {
        self.keepable
    }

    /// Returns whether the request must not be answered with something old.
    pub(super) fn refuses_old(&self) -> bool {
        self.no_old
    }

    /// Returns whether a success of the request may have changed what others read.
    pub(in crate::serve) fn changes_something(&self) -> bool {
        !(self.method.is_safe() || self.keepable)
    }

    pub(super) fn is_head(&self) -> bool {
        self.method == Method::HEAD
    }

    /// Returns the name of the whole request, if its body is known.
    pub(super) fn request(&self) -> Option<Fingerprint> {
        let body = self.body.get()?;
        Some(self.fingerprints.of([self.head.as_bytes(), body.as_bytes()]))
    }

    /// Returns a name for what the request holds in these fields.
    pub(super) fn held(&self, names: &[HeaderName]) -> Fingerprint {
        let mut values: Vec<&[u8]> = Vec::new();
        for name in names {
            values.push(name.as_str().as_bytes());
            values.extend(self.headers.get_all(name).iter().map(http::HeaderValue::as_bytes));
        }
        self.fingerprints.of(values)
    }
}
