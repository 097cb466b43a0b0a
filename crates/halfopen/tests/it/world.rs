//! What the tests share: places for stores, clocks, circuits that can be told apart.

use std::path::PathBuf;
use std::time::Duration;

use halfopen::clock::{Clock, ManualClock};
use halfopen::handle::{Handle, Route};
use halfopen::store::{Location, Store, StoreError};
use halfopen_core::circuit::{Circuit, Hold, Status};
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::event::{By, State};
use halfopen_core::outcome::Reached;
use halfopen_core::pair::{Answer, Pass};
use halfopen_core::permit::{Ask, Refusal};
use halfopen_core::policy::{Policy, Surface};
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{Class, Hint, HintSource, Scope, Verdict};

/// The wall clock of every test: 2026-11-30T12:00:00Z.
pub(crate) const NOON_MS: i64 = 1_796_040_000_000;

/// A folder that is removed with its store.
pub(crate) struct Place {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) machine: ManualClock,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), machine: ManualClock::new(NOON_MS) }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join("halfopen.db")
    }

    pub(crate) fn location(&self) -> Location {
        Location::Sqlite(self.file())
    }

    pub(crate) fn open(&self) -> Result<Store, StoreError> {
        Store::open(&self.location(), &Clock::manual(&self.machine))
    }
}

pub(crate) fn id(name: &str) -> CircuitId {
    name.parse().unwrap()
}

/// A circuit unlike one with another mark: it is held, and the mark is the reason.
pub(crate) fn circuit(mark: u32) -> Circuit {
    let mut circuit = Circuit::new();
    let by = By { who: "test".to_owned(), reason: mark.to_string() };
    let _ = circuit.hold(&policy(), Hold { state: State::Open, until: None, by }, Timestamp::from_millis(NOON_MS));
    circuit
}

/// The mark of a circuit that was made by [`circuit`].
pub(crate) fn mark(circuit: &Circuit) -> u32 {
    circuit.status(&policy(), Timestamp::from_millis(NOON_MS)).hold.unwrap().by.reason.parse().unwrap()
}

pub(crate) fn policy() -> Policy {
    Policy::built_in("ocr", Surface::Run)
}

pub(crate) fn event(dependency: &str, at_ms: i64, to_state: &str) -> EventRecord {
    EventRecord {
        at_ms,
        event: if to_state == "open" { "tripped".into() } else { "failure_counted".into() },
        dependency: dependency.into(),
        partition: None,
        from_state: "closed".into(),
        to_state: to_state.into(),
        generation: 1,
        reason: None,
        queued_count: None,
        probe_result: None,
        details: serde_json::Map::new(),
    }
}

/// The door of one more process of this machine.
pub(crate) fn door(place: &Place) -> Handle {
    Handle::open_with(&place.location(), Clock::manual(&place.machine)).unwrap()
}

pub(crate) fn route(name: &str) -> Route {
    Route { place: id(name), account: None }
}

pub(crate) fn failure() -> Verdict {
    Verdict::plain(Class::ServerError, "test/failure", Reached::Answered)
}

pub(crate) fn success() -> Verdict {
    Verdict::plain(Class::Success, "test/success", Reached::Answered)
}

/// A failure after which nobody may call for `wait`.
pub(crate) fn wait_failure(door: &Handle, wait: Duration) -> Verdict {
    let until = door.clock().now() + wait;
    let hint = Hint { until, wait, source: HintSource::RetryAfter, scope: Scope::Whole };
    Verdict { hint: Some(hint), ..Verdict::plain(Class::RateLimited, "test/wait", Reached::Refused) }
}

pub(crate) fn granted(answer: Answer) -> Pass {
    match answer {
        Answer::Granted(pass) => pass,
        Answer::Refused { side, refusal } => panic!("refused by {side:?}: {refusal:?}"),
    }
}

pub(crate) fn refused(answer: Answer) -> Refusal {
    match answer {
        Answer::Refused { refusal, .. } => refusal,
        Answer::Granted(pass) => panic!("granted: {pass:?}"),
    }
}

/// One call of a process of its own that fails.
pub(crate) fn fail_once(place: &Place, policy: &Policy) -> Vec<EventRecord> {
    let door = door(place);
    let route = route(&policy.dependency);
    let pass = granted(door.admit(&route, policy, Ask::Fresh));
    door.settle(&route, policy, pass, &failure())
}

/// Opens the breaker by failures of five processes.
pub(crate) fn trip(place: &Place, policy: &Policy) {
    for _ in 0..5 {
        fail_once(place, policy);
    }
    assert_eq!(state(place, policy), State::Open);
}

pub(crate) fn status(place: &Place, policy: &Policy) -> Status {
    let circuits = door(place).circuits(&|_| policy.clone()).unwrap();
    circuits.into_iter().find(|view| view.id.to_string() == policy.dependency).unwrap().status
}

pub(crate) fn state(place: &Place, policy: &Policy) -> State {
    status(place, policy).state
}
