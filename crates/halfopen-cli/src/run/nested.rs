//! Keeps two runs that are inside one another from repeating, and from judging the same thing twice.
//!
//! A run tells its child in `HALFOPEN_RUN_OUTER` which circuits it was admitted to, and with which permits. An inner
//! run then never repeats anything: that is the outer one's to decide, and two layers that repeat multiply. If it is of
//! the same circuit and the outer permit is a live probe (asked of the store, never believed), it uses that permit
//! instead of asking for one that is not to be had; whatever the outer run settles afterwards is stale and changes
//! nothing.
//!
//! An inner run that did not succeed says so in one line of JSON on standard error. The outer run reads it: that
//! failure has been judged where it happened, so the outer call settles neutral on its own circuit, whichever that is,
//! and decides on a repetition by the inner class and time.

use std::ffi::OsString;
use std::time::Duration;

use halfopen::handle::Route;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::pair::Pass;
use halfopen_core::permit::{Permit, PermitId, PermitKind};
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{About, Class, Hint, HintSource, Scope};
use serde::{Deserialize, Serialize};

/// The variable an inner run is told by.
pub(super) const VARIABLE: &str = "HALFOPEN_RUN_OUTER";

/// How a line of a report begins on standard error, before it is worth parsing.
const LINE_BEGINS: &[u8] = b"{\"halfopen\":";

/// The longest line that is looked at.
const LINE_BYTES_MAX: usize = 16 << 10;

/// The run we are inside of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Outer {
    place: String,
    account: Option<String>,
    place_permit: StoredPermit,
    account_permit: Option<StoredPermit>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredPermit {
    id: u64,
    probe: bool,
    generation: u64,
    admitted_at: i64,
    expires_at: i64,
    ramped: bool,
}

impl Outer {
    /// Reads what the run around us says; a variable that does not read as ours still means that there is one.
    #[must_use]
    pub(super) fn from_env() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty())?;
        Some(serde_json::from_str(&text).unwrap_or_else(|_| Self::unreadable()))
    }

    fn unreadable() -> Self {
        let nothing = StoredPermit { id: 0, probe: false, generation: 0, admitted_at: 0, expires_at: 0, ramped: false };
        Self { place: String::new(), account: None, place_permit: nothing, account_permit: None }
    }

    /// Returns what a child of a run that was admitted with `pass` is told.
    #[must_use]
    pub(super) fn told(route: &Route, pass: &Pass) -> OsString {
        let outer = Self {
            place: route.place.to_string(),
            account: route.account.as_ref().map(CircuitId::to_string),
            place_permit: StoredPermit::of(&pass.place),
            account_permit: pass.account.as_ref().map(StoredPermit::of),
        };
        serde_json::to_string(&outer).unwrap_or_else(|_| "{}".to_owned()).into()
    }

    /// Returns the outer pass, if it is a probe of the very same circuits.
    #[must_use]
    pub(super) fn probe_of(&self, route: &Route) -> Option<Pass> {
        let same =
            self.place == route.place.to_string() && self.account == route.account.as_ref().map(CircuitId::to_string);
        let probe = self.place_permit.probe || self.account_permit.as_ref().is_some_and(|permit| permit.probe);
        (same && probe).then(|| Pass {
            place: self.place_permit.permit(),
            account: self.account_permit.as_ref().map(StoredPermit::permit),
        })
    }
}

impl StoredPermit {
    fn of(permit: &Permit) -> Self {
        Self {
            id: permit.id.0,
            probe: permit.kind == PermitKind::Probe,
            generation: permit.generation,
            admitted_at: permit.admitted_at.as_millis(),
            expires_at: permit.expires_at.as_millis(),
            ramped: permit.ramped,
        }
    }

    fn permit(&self) -> Permit {
        Permit {
            id: PermitId(self.id),
            kind: if self.probe { PermitKind::Probe } else { PermitKind::Regular },
            generation: self.generation,
            admitted_at: Timestamp::from_millis(self.admitted_at),
            expires_at: Timestamp::from_millis(self.expires_at),
            ramped: self.ramped,
        }
    }
}

/// What an inner run said about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Inner {
    /// What it was about.
    pub class: Class,
    /// When it can be tried again, in milliseconds of the wall clock.
    pub retry_at_ms: Option<i64>,
    /// The circuit that judged it.
    pub circuit: String,
    /// Whether it was refused, and the command not run.
    pub refused: bool,
    /// What its rule saw, if it ran.
    pub excerpt: String,
}

/// The part of an inner report that the outer run goes by.
#[derive(Debug, Deserialize)]
struct InnerLine {
    class: Option<String>,
    retry_at_ms: Option<i64>,
    circuit: Option<String>,
    error: Option<String>,
    attempts: Option<u32>,
    evidence: Option<InnerEvidence>,
}

#[derive(Debug, Deserialize)]
struct InnerEvidence {
    excerpt: String,
}

impl Inner {
    /// Returns the stated time as a hint, given the wall clock and the steady one at the same instant.
    #[must_use]
    pub(super) fn hint(&self, wall_ms: i64, now: Timestamp) -> Option<Hint> {
        let wait = u64::try_from(self.retry_at_ms?.saturating_sub(wall_ms)).unwrap_or(0);
        let wait = Duration::from_millis(wait);
        Some(Hint { until: now + wait, wait, source: HintSource::Body, scope: Scope::Whole })
    }

    /// Returns what there is to see of it, for the outer run.
    #[must_use]
    pub(super) fn seen(&self) -> String {
        match (self.refused, self.excerpt.as_str()) {
            (true, _) => format!("the inner halfopen refused it ({})", self.circuit),
            (false, "") => format!("it failed inside ({})", self.circuit),
            (false, excerpt) => excerpt.to_owned(),
        }
    }

    /// Returns whom the inner failure was about, for the outer run: nobody, it has been settled.
    #[must_use]
    pub(super) const fn about() -> About {
        About::Nobody
    }
}

/// Finds the report of an inner run in what the child writes to standard error.
#[derive(Debug, Default)]
pub(super) struct InnerEar {
    line: Vec<u8>,
    found: Option<Inner>,
}

impl InnerEar {
    /// Takes in a piece, cut anywhere.
    pub(super) fn hear(&mut self, mut piece: &[u8]) {
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = piece.split_at(end);
            self.append(line);
            self.end_line();
            piece = &rest[1..];
        }
        self.append(piece);
    }

    fn append(&mut self, part: &[u8]) {
        // Only what begins like ours is kept.
        let begins = |line: &[u8]| line.iter().zip(LINE_BEGINS).all(|(a, b)| a == b);
        if self.line.len() < LINE_BYTES_MAX && begins(&self.line) {
            self.line.extend_from_slice(&part[..part.len().min(LINE_BYTES_MAX)]);
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if !line.starts_with(LINE_BEGINS) {
            return;
        }
        let Ok(read) = serde_json::from_slice::<InnerLine>(&line) else { return };
        let class = read.class.and_then(|class| class.parse().ok()).unwrap_or(Class::UnknownFailure);
        let circuit = read.circuit.unwrap_or_default();
        let refused = read.attempts == Some(0) && matches!(read.error.as_deref(), Some("circuit_open" | "throttled"));
        let excerpt = read.evidence.map(|evidence| evidence.excerpt).unwrap_or_default();
        self.found = Some(Inner { class, retry_at_ms: read.retry_at_ms, circuit, refused, excerpt });
    }

    /// Returns what was found last.
    #[must_use]
    pub(super) fn found(&self) -> Option<&Inner> {
        self.found.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass() -> Pass {
        let permit = Permit {
            id: PermitId(7),
            kind: PermitKind::Probe,
            generation: 3,
            admitted_at: Timestamp::from_millis(1),
            expires_at: Timestamp::from_millis(2),
            ramped: false,
        };
        Pass { place: permit, account: None }
    }

    fn route(name: &str) -> Route {
        Route { place: CircuitId::whole(name).unwrap(), account: None }
    }

    #[test]
    fn s016_the_outer_probe_is_taken_over_by_the_same_circuit_only() {
        let told = Outer::told(&route("ocr"), &pass());
        let outer: Outer = serde_json::from_str(told.to_str().unwrap()).unwrap();
        assert_eq!(outer.probe_of(&route("ocr")), Some(pass()));
        assert_eq!(outer.probe_of(&route("crm")), None);
    }

    #[test]
    fn a_report_of_an_inner_run_is_found_between_other_lines_cut_anywhere() {
        let text =
            b"noise\n{\"halfopen\":1,\"class\":\"rate_limited\",\"retry_at_ms\":5000,\"circuit\":\"ocr\"}\nmore\n";
        for cut in 0..text.len() {
            let mut ear = InnerEar::default();
            ear.hear(&text[..cut]);
            ear.hear(&text[cut..]);
            let inner = ear.found().unwrap();
            assert_eq!((inner.class, inner.retry_at_ms), (Class::RateLimited, Some(5000)));
        }
    }

    #[test]
    fn a_line_that_only_speaks_of_one_is_none() {
        let mut ear = InnerEar::default();
        ear.hear(b"see {\"halfopen\":1,\"class\":\"auth\"}\n{\"halfopen\": broken\n");
        assert_eq!(ear.found(), None);
    }
}
