//! Makes shadows of dependencies for `halfopen drill --live`, and sees to it that nothing of them stays.
//!
//! A shadow is a dependency of this running gateway like any other: the same dispatch, door, store, connections, worker,
//! journal and figures carry its calls, so that what a drill sees is the wiring of this process and not a copy of it. What
//! makes it a shadow is what it has of its own (a name that no policy may use, and with it its circuits, jobs, budget,
//! cache and counts) and what it has not: no credential, no fallback, no cheap probe, no owner, nobody who is told, and
//! an address that is never on another machine. So nothing secret can reach the stand-in, and the one that is rehearsed
//! does not notice.
//!
//! It stands among the dependencies in force, not in a list beside them: whoever looks those up needs to know nothing of
//! drills, and can forget nothing about them. It survives a reload under the policy it began with, because a row of a
//! drill is judged by the values it was told at its begin. It ends when it is told to, after [`LASTS`], or with the
//! process; its name says when, so that whatever is left of it after a crash is found by any gateway of the store.
//!
//! What it does not do: it plays nothing. The stand-in and the callers are `halfopen drill --live`.

mod shorten;
mod written;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use halfopen::handle::jobs::Forgotten;
use halfopen::store::StoreError;
use halfopen_core::alert::DRILL;
use halfopen_core::event::By;
use http::Uri;

use super::api::{bad, shown};
use super::dependency::Dependency;
use super::gateway::Gateway;
use super::problem::{Kind, Problem};
use crate::shown::SHADOW;
use crate::ui;
pub(super) use written::policy as written;

/// How many drills may go on at once.
pub(super) const DRILLS_MAX: usize = 16;
/// How long one lasts at most.
pub(super) const LASTS: Duration = Duration::from_secs(15 * 60);
/// What durations may be divided by.
pub(super) const SHORTEN: std::ops::RangeInclusive<f64> = 1.0..=10_000.0;
/// How long a cooldown lasts where nobody says what durations are divided by.
const COOLDOWN: Duration = Duration::from_secs(2);
/// When is looked again for what attempts put back that were under way at the end.
const LOOK_AGAIN: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(60)];
/// How often is looked for what other processes left.
const LOOK_FOR_OTHERS: Duration = Duration::from_secs(60);
/// How long after its end what is left of another's drill is left alone.
const SPARED: Duration = Duration::from_secs(120);

/// What a shadow rehearses.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Drill {
    /// The dependency.
    pub(super) of: String,
    /// What its durations were divided by.
    pub(super) shorten: f64,
    /// When it ends by itself.
    ends_at: Instant,
    /// The same on the wall clock, in milliseconds since the unix epoch.
    pub(super) until_ms: i64,
    /// Whether calls to the one that it rehearses carry a credential of ours.
    pub(super) adds_credential: bool,
}

/// What is left to do about drills that have ended.
#[derive(Debug, Default)]
pub(super) struct Drills {
    ended: Mutex<BTreeMap<String, Ended>>,
    looked_for_others: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct Ended {
    at: Instant,
    /// How often was looked again.
    looks: usize,
    /// Whether its last activation line is still to be written.
    line_due: bool,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) dependency: String,
    pub(super) upstream: String,
    pub(super) shorten: Option<f64>,
    /// For how long, at most [`LASTS`].
    pub(super) lasts: Duration,
}

/// Returns whether a name is that of a drill.
pub(super) fn is_one(name: &str) -> bool {
    name.contains(DRILL)
}

/// Returns the dependency that a drill of this name rehearses.
pub(super) fn rehearsed_by(name: &str) -> Option<&str> {
    name.split_once(DRILL).map(|(of, _)| of)
}

/// Returns when a drill of this name ends by itself, in seconds since the unix epoch.
fn ends_by(name: &str) -> Option<i64> {
    let (_, word) = name.split_once(DRILL)?;
    i64::from_str_radix(word.get(..word.len().checked_sub(4)?)?, 16).ok()
}

impl Drills {
    /// Returns the drills that ended and have not had their last activation line.
    pub(super) fn without_last_line(&self) -> Vec<String> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.iter().filter(|(_, ended)| ended.line_due).map(|(name, _)| name.clone()).collect()
    }

    /// Notes that a drill's last activation line is written.
    pub(super) fn note_last_line(&self, name: &str) {
        if let Some(ended) = self.ended.lock().unwrap_or_else(PoisonError::into_inner).get_mut(name) {
            ended.line_due = false;
        }
    }

    fn note_end(&self, name: &str) {
        let ended = Ended { at: Instant::now(), looks: 0, line_due: true };
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), ended);
    }

    /// Returns the names of those that are to be looked for again now.
    fn due(&self) -> Vec<String> {
        let mut all = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, ended| ended.looks < LOOK_AGAIN.len() || ended.line_due);
        let is_due = |ended: &Ended| LOOK_AGAIN.get(ended.looks).is_some_and(|after| ended.at.elapsed() >= *after);
        let mut due = Vec::new();
        for (name, ended) in all.iter_mut().filter(|(_, ended)| is_due(ended)) {
            ended.looks += 1;
            due.push(name.clone());
        }
        due
    }

    fn may_look_for_others(&self) -> bool {
        let mut looked = self.looked_for_others.lock().unwrap_or_else(PoisonError::into_inner);
        let may = looked.is_none_or(|at| at.elapsed() >= LOOK_FOR_OTHERS);
        if may {
            *looked = Some(Instant::now());
        }
        may
    }
}

impl Gateway {
    /// Begins a drill.
    ///
    /// # Errors
    ///
    /// What is wrong with what is asked for, or that as many go on as may.
    pub(super) fn begin_drill(&self, asked: &Asked, who: &str) -> Result<Arc<Dependency>, Problem> {
        let upstream = stand_in(&asked.upstream)?;
        let shadow = self.change(|dependencies| {
            let rehearsed = dependencies.get(&asked.dependency).filter(|dependency| dependency.drill.is_none());
            let Some(rehearsed) = rehearsed else {
                let known: Vec<&str> = dependencies
                    .values()
                    .filter(|dependency| dependency.drill.is_none())
                    .map(|dependency| dependency.name.as_str())
                    .collect();
                let known = if known.is_empty() { "it names none".to_owned() } else { known.join(", ") };
                let text = format!("The policy names no `{}`; known: {known}.", shown(&asked.dependency));
                return Err(Problem::new(Kind::UnknownDependency, text));
            };
            if dependencies.values().filter(|dependency| dependency.drill.is_some()).count() >= DRILLS_MAX {
                let text = format!(
                    "{DRILLS_MAX} drills go on already, and no more may; DELETE /drills/NAME ends one, and GET /drills names \
                     them."
                );
                return Err(Problem::new(Kind::TooManyCalls, text));
            }
            let by = asked.shorten.unwrap_or_else(|| {
                let times = rehearsed.policy.circuit.open_for.as_secs_f64() / COOLDOWN.as_secs_f64();
                times.clamp(*SHORTEN.start(), *SHORTEN.end())
            });
            let until_ms = jiff::Timestamp::now().as_millisecond().saturating_add(i64::try_from(asked.lasts.as_millis()).unwrap_or(0));
            let name = format!("{}{DRILL}{:x}{:04x}", rehearsed.name, until_ms / 1000, fastrand::u16(..));
            let drill = Drill {
                of: rehearsed.name.clone(),
                shorten: by,
                ends_at: Instant::now() + asked.lasts,
                until_ms,
                adds_credential: rehearsed.adds_credential(),
            };
            let written = shorten::shortened(rehearsed, &name, &upstream, by);
            let shadow = Dependency::shadow(&name, written, &self.door, drill)
                .map_err(|error| bad(format!("`dependency` cannot be drilled: {error}.")))?;
            dependencies.insert(name, Arc::clone(&shadow));
            Ok(shadow)
        })?;
        ui::say(&format!("drill {} began, asked for by {who}", shadow.name));
        Ok(shadow)
    }

    /// Ends a drill and forgets what it left. `None` if none of this name goes on.
    pub(super) fn end_drill(&self, name: &str, who: &str, why: &str) -> Option<Result<Forgotten, StoreError>> {
        let ended = self.change(|dependencies| {
            let known = dependencies.get(name).is_some_and(|dependency| dependency.drill.is_some());
            if known { dependencies.remove(name).ok_or(()) } else { Err(()) }
        });
        ended.ok()?;
        self.drills.note_end(name);
        // Whoever works off its jobs is told that there are none.
        self.queue.bell.ring(name);
        ui::say(&format!("drill {name} ended: {why}"));
        Some(self.forget(name, who, why))
    }

    /// Removes what a drill left in the store, what it observed included.
    fn forget(&self, name: &str, who: &str, why: &str) -> Result<Forgotten, StoreError> {
        let by = By { who: who.to_owned(), reason: format!("drill: {why}") };
        let policy = self.policy_of(name);
        let handle = &self.door.handle;
        handle.forget_dependency(&format!("{name}{SHADOW}"), &policy, &by)?;
        handle.forget_dependency(name, &policy, &by)
    }
}

/// Ends the drills whose time is over, and looks for what others left. What cannot be removed now is looked for again.
pub(super) fn end_what_is_due(gateway: &Gateway) {
    let now = Instant::now();
    let over = |dependency: &Arc<Dependency>| dependency.drill.as_ref().is_some_and(|drill| drill.ends_at <= now);
    let names: Vec<String> =
        gateway.live().dependencies().filter(|one| over(one)).map(|one| one.name.clone()).collect();
    for name in names {
        let _ = gateway.end_drill(&name, "halfopen", "its time is over");
    }
    for name in gateway.drills.due() {
        let _ = gateway.forget(&name, "halfopen", "it has ended");
        gateway.door.counts.forget_unless(&name, &gateway.drills.without_last_line());
    }
    if gateway.drills.may_look_for_others() {
        forget_what_others_left(gateway);
    }
}

/// Forgets the drills of processes that are gone: what has a name of one, and should have ended a while ago.
fn forget_what_others_left(gateway: &Gateway) {
    let handle = &gateway.door.handle;
    let circuits = handle.circuits(&|dependency| gateway.policy_of(dependency)).unwrap_or_default();
    let mut names: Vec<String> = circuits.iter().map(|view| view.id.dependency().to_owned()).collect();
    names.extend(handle.job_tallies().unwrap_or_default().into_keys());
    let spared = i64::try_from(SPARED.as_secs()).unwrap_or(i64::MAX);
    let now = jiff::Timestamp::now().as_second();
    let mut left: Vec<&str> = names.iter().map(|name| name.strip_suffix(SHADOW).unwrap_or(name)).collect();
    left.retain(|name| ends_by(name).is_some_and(|at| at.saturating_add(spared) < now));
    left.sort_unstable();
    left.dedup();
    for name in left {
        let _ = gateway.forget(name, "halfopen", "its gateway is gone");
    }
}

/// Reads the address of a stand-in: HTTP, and by its literal address on this machine.
fn stand_in(word: &str) -> Result<String, Problem> {
    let refused = || {
        bad(format!(
            "`upstream` is `{}`; allowed is http:// with a literal address of the loopback and a port, such as \
             http://127.0.0.1:9000: a drill sends nothing to another machine.",
            shown(word)
        ))
    };
    let uri: Uri = word.parse().map_err(|_| refused())?;
    let (Some("http"), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return Err(refused()) };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let address: IpAddr = host.parse().map_err(|_| refused())?;
    let bare = uri.query().is_none() && matches!(uri.path(), "" | "/") && !authority.as_str().contains('@');
    if !address.is_loopback() || authority.port_u16().is_none_or(|port| port == 0) || !bare {
        return Err(refused());
    }
    Ok(format!("http://{authority}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("http://127.0.0.1:9000" => true)]
    #[test_case("http://127.9.8.7:9000/" => true)]
    #[test_case("http://[::1]:9000" => true)]
    #[test_case("http://localhost:9000" => false; "a name may lead elsewhere")]
    #[test_case("http://10.0.0.1:9000" => false; "another machine")]
    #[test_case("http://0.0.0.0:9000" => false; "every address")]
    #[test_case("https://127.0.0.1:9000" => false; "TLS")]
    #[test_case("http://127.0.0.1" => false; "no port")]
    #[test_case("http://127.0.0.1:0" => false; "port 0")]
    #[test_case("http://me@127.0.0.1:9000" => false; "a user name")]
    #[test_case("http://127.0.0.1:9000/x" => false; "a path")]
    #[test_case("http://127.0.0.1:9000?x" => false; "a query")]
    #[test_case("127.0.0.1:9000" => false; "no scheme")]
    #[test_case("" => false; "nothing")]
    fn a_stand_in_is_on_this_machine(word: &str) -> bool {
        stand_in(word).is_ok()
    }

    #[test]
    fn a_name_says_what_is_rehearsed_and_until_when() {
        let name = format!("ocr{DRILL}{:x}{:04x}", 1_796_000_000, 0xbeef);
        assert_eq!((rehearsed_by(&name), ends_by(&name)), (Some("ocr"), Some(1_796_000_000)));
        assert_eq!((rehearsed_by("ocr"), ends_by("ocr~drill-x")), (None, None));
    }
}
