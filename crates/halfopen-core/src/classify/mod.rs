//! Turns an outcome into a verdict by rules that are data.
//!
//! Three steps, each in its own place. *Reading* ([`facts`]) finds out whether the outcome failed and which parts of it
//! are the error; text of a success is never read. *Judging* ([`judge`]) asks rules about those parts in the order of
//! evidence. Then the wait is read ([`crate::hint`]) from the same parts and nothing else.
//!
//! What a tool or service means by its words is data: the packs in `profiles/*.yaml`, embedded by the build script, and
//! the policy's own rules in the same grammar ([`raw`]). A pack exists only where `generic` would be wrong.
//!
//! Considered and refused: one automaton over all phrases of all packs. It is faster per failure and slower per
//! process, and most processes here see one outcome.

pub mod examples;
pub mod raw;
pub(crate) mod ear;
pub(crate) mod facts;
pub(crate) mod judge;
pub(crate) mod packs;
pub(crate) mod path;
pub(crate) mod rule;
pub(crate) mod suggest;
mod suspicion;
pub(crate) mod text;
pub(crate) mod verdicts;
#[cfg(test)]
mod embedded_tests;

use std::sync::OnceLock;
use std::time::Duration;

pub use ear::Ear;
pub use packs::{profile_for_command, profile_for_host, profile_for_tool, profiles};
pub use suggest::{suggest_command, suggest_http};

use crate::outcome::{CommandOutcome, Exit, HttpOutcome};
use crate::time::ReadAt;
use crate::verdict::{Class, EvidenceKind, Verdict, Work};
use facts::command::Captured;
use facts::http::Reading;
use judge::{Rules, Said};
use packs::Pack;
use rule::Rule;

/// What a pack says beside its rules.
#[derive(Clone, Debug, PartialEq)]
pub struct PackDefaults {
    /// How long one attempt may take.
    pub timeout: Duration,
    /// Whether a failed attempt may have had effects: `false` means it may always be run again.
    pub failed_attempts_have_effects: bool,
    /// How an interrupted run goes on in its session, if the tool can.
    pub resume: Option<Resume>,
    /// The idempotency key this service honours, if it does.
    pub idempotency: Option<Idempotency>,
    /// Whether exit code 0 can carry an error, so that the output of a success must be looked at.
    pub success_may_lie: bool,
}

/// How an interrupted run goes on.
///
/// On attempt 1, if none of `session_flags` is among the user's arguments, `open_with` is inserted right after the
/// command's name, with a session id of ours for `{session}`. A later attempt that goes on takes the session of the
/// last verdict ([`Verdict::session`]), else the one it opened with; the user's arguments are kept except the prompt,
/// `open_with` and `session_flags` with their values, and `go_on_with` is put in the prompt's place, so that the prompt
/// is never sent twice. The prompt is the last argument that begins with no dash and is no value of a flag in
/// `value_flags`, and standard input if it is piped; where it cannot be told apart, the run does not go on by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// Arguments that make the first attempt use a session we choose, with `{session}` in them; empty if the tool
    /// names its session itself.
    pub open_with: Vec<String>,
    /// The arguments that go on, with `{session}` in them; they replace the command's own prompt arguments.
    pub go_on_with: Vec<String>,
    /// Flags by which the user has already chosen a session.
    pub session_flags: Vec<String>,
    /// Flags of the command that take a value in the next argument.
    pub value_flags: Vec<String>,
}

/// An idempotency key that a service honours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// The header it travels in.
    pub header: String,
    /// For how long the service remembers it.
    pub lifetime: Duration,
    /// Whether failures are remembered too, so that the same key gives the same failure again.
    pub remembers_failures: bool,
}

/// A rule pack with the rules of the policy before it and those of `generic` behind it.
#[derive(Debug)]
pub struct Classifier {
    pack: Pack,
    /// The policy's rules, until they are put in order with the others.
    own: Vec<raw::RawRule>,
    own_judge_success: bool,
    rules: OnceLock<Rules>,
}

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// No such pack.
    #[error("unknown profile `{name}`; known are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is, with commas between.
        known: String,
    },
    /// An own rule cannot be used.
    #[error("rule `{rule}` cannot be used: {cause}")]
    Rule {
        /// Its name.
        rule: String,
        /// Why, with the field.
        cause: String,
    },
}

/// A verdict with the way that led to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The verdict.
    pub verdict: Verdict,
    /// Rules that also matched but were overruled, and rules of which a part matched: `pack/rule` and why not.
    pub nearly: Vec<(String, String)>,
}

/// Is told the rules, the facts and the rule that decided.
type Explain<'a> = &'a mut dyn FnMut(&Rules, &facts::Facts, &str);

/// What has been heard so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// A line that is an error of the tool itself.
    pub error_line: bool,
    /// A turn or a tool use.
    pub work: bool,
    /// An event that shows that the dependency answers.
    pub answering: bool,
}

impl Classifier {
    /// Returns the classifier of `profile`, with `own` rules tried before the pack's. No rule of a pack is decoded or
    /// compiled until an outcome needs it.
    ///
    /// # Errors
    ///
    /// [`ProfileError`] if there is no such pack or an own rule cannot be used.
    pub fn new(profile: &str, own: Vec<raw::RawRule>) -> Result<Self, ProfileError> {
        let embedded = packs::embedded(profile).ok_or_else(|| packs::unknown(profile))?;
        let mut own_judge_success = false;
        for rule in own_rules(&own)? {
            own_judge_success |= judge::names_success(&rule);
        }
        Ok(Self { pack: embedded.load(), own, own_judge_success, rules: OnceLock::new() })
    }

    /// Returns the pack's name.
    #[must_use]
    pub fn profile(&self) -> &str {
        &self.pack.name
    }

    /// Returns what the pack says beside its rules.
    #[must_use]
    pub fn defaults(&self) -> &PackDefaults {
        &self.pack.defaults
    }

    /// Judges a finished command.
    #[must_use]
    pub fn command(&self, outcome: &CommandOutcome<'_>, at: &ReadAt) -> Verdict {
        let (captured, work) = self.hear(outcome);
        self.judge_command(outcome.exit, captured, work, at)
    }

    /// Judges a finished HTTP exchange.
    #[must_use]
    pub fn http(&self, outcome: &HttpOutcome<'_>, at: &ReadAt) -> Verdict {
        self.judge_http(outcome, at, None)
    }

    /// Returns whether an answer whose status says success must be judged by its body: `false` only if
    /// [`Classifier::http`] would find nothing in this body, read as a document and not as a stream, that says
    /// otherwise. Costs one pass over the body and no memory; fields (`grpc-status`) are not looked at.
    #[must_use]
    pub fn suspects(&self, body: &[u8]) -> bool {
        self.has_rules_on_success() || suspicion::suspects(body)
    }

    /// Judges a finished command and says what else was considered.
    #[must_use]
    pub fn explain_command(&self, outcome: &CommandOutcome<'_>, at: &ReadAt) -> Explanation {
        let (captured, work) = self.hear(outcome);
        let mut nearly = Vec::new();
        let mut explain = |rules: &Rules, facts: &facts::Facts, id: &str| nearly = rules.nearly(facts, id);
        let verdict = self.judge_read(outcome.exit, captured, work, at, Some(&mut explain));
        Explanation { verdict, nearly }
    }

    /// Judges a finished HTTP exchange and says what else was considered.
    #[must_use]
    pub fn explain_http(&self, outcome: &HttpOutcome<'_>, at: &ReadAt) -> Explanation {
        let mut nearly = Vec::new();
        let mut explain = |rules: &Rules, facts: &facts::Facts, id: &str| nearly = rules.nearly(facts, id);
        let verdict = self.judge_http(outcome, at, Some(&mut explain));
        Explanation { verdict, nearly }
    }

    /// Returns an ear for a running command: it is given all output and keeps a bounded part.
    #[must_use]
    pub fn listen(&self) -> Ear<'_> {
        Ear::new(self)
    }

    /// Returns whether exit code 0 is not enough to know that it went well.
    pub(crate) fn looks_at_success(&self) -> bool {
        self.pack.defaults.success_may_lie || self.looks_at_http_success()
    }

    /// Returns the rules, put together when they are first needed.
    fn rules(&self) -> &Rules {
        self.rules.get_or_init(|| {
            let load = |name: &str| packs::embedded(name).map(packs::Embedded::rules).unwrap_or_default();
            let pack = if self.pack.name == packs::GENERIC { Vec::new() } else { load(&self.pack.name) };
            let own = self.own.iter().filter_map(|rule| Rule::new("own", rule).ok()).collect();
            Rules::new(own, pack, load(packs::GENERIC))
        })
    }

    pub(crate) fn judge_command(&self, exit: Exit, captured: Captured, work: Work, at: &ReadAt) -> Verdict {
        self.judge_read(exit, captured, work, at, None)
    }

    fn judge_read(
        &self,
        exit: Exit,
        captured: Captured,
        work: Work,
        at: &ReadAt,
        explain: Option<Explain<'_>>,
    ) -> Verdict {
        if let Some(verdict) = verdicts::not_the_dependency(exit, &captured) {
            return verdict;
        }
        let mut reading = facts::command::read(&self.pack.output, exit, captured);
        let success = exit == Exit::Code(0);
        let mut verdict = if success { self.of_success(&mut reading) } else { None };
        if verdict.is_none() && success && !reading.failed {
            verdict = Some(self.unmarked(&reading).unwrap_or_else(|| self.plain_success()));
        }
        let (mut verdict, facts) = match verdict {
            Some(verdict) => (verdict, &reading.facts),
            None => self.of_failure(&reading),
        };
        if exit == Exit::TimedOut {
            verdicts::timed_out(&mut verdict);
        }
        if let Some(explain) = explain {
            explain(self.rules(), facts, &verdict.rule);
        }
        verdict.work = if verdict.work == Work::Unknown { work } else { verdict.work };
        self.complete(&mut verdict, facts, crate::hint::Surroundings::Command, at);
        if verdict.hint.is_none() && !std::ptr::eq(facts, &raw const reading.facts) {
            // The last error states no wait; what stood before it may, if it says the same.
            let whole = self.rules().decide(&reading.facts);
            if whole.is_some_and(|said| said.rule.class == verdict.class) {
                self.complete(&mut verdict, &reading.facts, crate::hint::Surroundings::Command, at);
            }
        }
        if verdict.class != Class::Success {
            verdict.reached = self.reached(&verdict, facts, None);
        }
        self.found(&mut verdict, &reading.facts);
        verdict
    }

    fn judge_http(&self, outcome: &HttpOutcome<'_>, at: &ReadAt, explain: Option<Explain<'_>>) -> Verdict {
        if let Some(verdict) = verdicts::own_refusal(outcome, at) {
            return verdict;
        }
        let mut reading = facts::http::read(outcome, self.looks_at_http_success());
        let success = outcome.status != 0 && outcome.status < 400;
        let mut verdict = if success { self.of_success(&mut reading) } else { None };
        if verdict.is_none() && !reading.failed {
            verdict = Some(self.plain_success());
        }
        let (mut verdict, facts) = match verdict {
            Some(verdict) => (verdict, &reading.facts),
            None => self.of_failure(&reading),
        };
        if let Some(explain) = explain {
            explain(self.rules(), facts, &verdict.rule);
        }
        self.complete(&mut verdict, facts, crate::hint::Surroundings::Http, at);
        verdict.reached = self.reached(&verdict, facts, Some(outcome.reached));
        self.found(&mut verdict, &reading.facts);
        verdict
    }

    fn looks_at_http_success(&self) -> bool {
        self.has_rules_on_success() || !self.pack.fails_when.is_empty()
    }

    /// Returns whether a rule speaks on a success. Such a rule may name any word; what `fails_when` names is known.
    fn has_rules_on_success(&self) -> bool {
        self.pack.judges_success || self.own_judge_success
    }

    /// Lets the rules that speak on a success speak, and the pack's `fails_when`.
    fn of_success(&self, reading: &mut Reading) -> Option<Verdict> {
        if self.looks_at_http_success()
            && let Some(said) = self.rules().decide_success(&reading.facts)
        {
            return Some(verdicts::of_rule(&said));
        }
        if !reading.failed {
            let hit = self.pack.fails_when.iter().find_map(|condition| judge::holds(condition, &reading.facts));
            if let Some(hit) = hit {
                reading.failed = true;
                reading.envelope = Some((hit.place, hit.excerpt));
                let documents: Vec<_> = reading.facts.json.clone();
                for document in documents {
                    facts::tree::add(&mut reading.facts, &document.value, &document.place);
                }
                for event in reading.facts.events.clone().iter().rev().take(4) {
                    facts::tree::add(&mut reading.facts, event, "stdout, event");
                }
            }
        }
        None
    }

    /// Judges a failure: by its last error alone if that is known, else by all of it.
    fn of_failure<'r>(&self, reading: &'r Reading) -> (Verdict, &'r facts::Facts) {
        let rules = self.rules();
        if let Some(last) = &reading.last
            && let Some(said) = rules.decide(last).filter(|said| judge::is_strong(said.rule))
        {
            return (verdicts::of_rule(&said), last);
        }
        let verdict = match rules.decide(&reading.facts) {
            Some(said) => verdicts::of_rule(&said),
            None => verdicts::unknown(reading, &self.pack.name),
        };
        (verdict, &reading.facts)
    }

    /// Judges standard error of a success without output, whose last line is not marked as an error: only a sentence
    /// at its beginning that a rule knows makes it one.
    fn unmarked(&self, reading: &Reading) -> Option<Verdict> {
        let (_, block) = reading.envelope.as_ref()?;
        let bare = text::fold(text::undecorated(block));
        if facts::printed::level(block.trim_start()).is_some() || bare.len() > 400 {
            return None;
        }
        let Said { rule, hit } = self.rules().decide(&reading.facts)?;
        let heals = !matches!(rule.class, Class::InvalidRequest | Class::UnknownFailure | Class::Success);
        (heals && rule.kind == EvidenceKind::Text && judge::is_strong(rule))
            .then(|| verdicts::of_rule(&Said { rule, hit }))
    }

    /// Returns the verdict of a success that nobody looked at.
    pub(crate) fn plain_success(&self) -> Verdict {
        verdicts::success(&self.pack.name)
    }

    /// Reads the wait and the advice.
    fn complete(
        &self,
        verdict: &mut Verdict,
        facts: &facts::Facts,
        surroundings: crate::hint::Surroundings,
        at: &ReadAt,
    ) {
        let rule = self.rules_if_loaded().and_then(|rules| rules.by_id(&verdict.rule));
        verdicts::read_hint(verdict, rule, facts, &self.pack, surroundings, at);
    }

    fn rules_if_loaded(&self) -> Option<&Rules> {
        self.rules.get()
    }

    fn reached(
        &self,
        verdict: &Verdict,
        facts: &facts::Facts,
        known: Option<crate::outcome::Reached>,
    ) -> crate::outcome::Reached {
        let rule = self.rules_if_loaded().and_then(|rules| rules.by_id(&verdict.rule));
        verdicts::reached(verdict.class, rule, facts, &self.pack, known)
    }

    /// Fills in the session, the account and the model.
    fn found(&self, verdict: &mut Verdict, facts: &facts::Facts) {
        let first = |list: &[rule::Condition]| list.iter().find_map(|condition| judge::capture(condition, facts));
        verdict.session = first(&self.pack.session);
        verdict.account = first(&self.pack.account);
        verdict.model = first(&self.pack.model);
    }
}

/// Turns the policy's rules into ones that can be asked, everything compiled once to find errors.
fn own_rules(own: &[raw::RawRule]) -> Result<Vec<Rule>, ProfileError> {
    let mut names = std::collections::BTreeSet::new();
    own.iter()
        .map(|raw| {
            let error = |cause| ProfileError::Rule { rule: raw.name.clone(), cause };
            let rule = Rule::new("own", raw).map_err(error)?;
            rule.check().map_err(error)?;
            if !names.insert(raw.name.as_str()) {
                return Err(error("`name`: another rule has it".to_owned()));
            }
            Ok(rule)
        })
        .collect()
}

/// Checks the policy's own rules: that each can be used, and that its examples come out as they say.
///
/// # Errors
///
/// The first [`ProfileError::Unknown`], or every [`ProfileError::Rule`] found.
pub fn check_rules(profile: &str, own: &[raw::RawRule]) -> Result<(), Vec<ProfileError>> {
    let mut errors = Vec::new();
    let mut sound = Vec::new();
    for rule in own {
        match own_rules(std::slice::from_ref(rule)) {
            Ok(_) => sound.push(rule.clone()),
            Err(error) => errors.push(error),
        }
    }
    let classifier = match Classifier::new(profile, sound.clone()) {
        Ok(classifier) => classifier,
        Err(error) => {
            errors.push(error);
            return Err(errors);
        }
    };
    for rule in &sound {
        for cause in examples::failures(&classifier, "own", rule) {
            errors.push(ProfileError::Rule { rule: rule.name.clone(), cause });
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}
