//! Holds scenarios: what the dependency does when, who calls when, and what must be seen.
//!
//! A scenario is a YAML file that a person can read and a user can write (`--scenario FILE`). Everything that depends
//! on the policy is a [`Quantity`] in the policy's own values, so one file fits every policy; where a policy has nothing
//! to show (`needs`), the row says so and why. The shipped ones are embedded, in the order of their file names.

use serde::Deserialize;

use super::mechanisms::Mutant;
use super::quantity::{self, Names, Quantity, QuantityError};
use super::rehearsal::Rehearsal;
use super::spoken::{Meaning, WrittenAs};

/// One row of the drill.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenario {
    /// The row's name.
    pub(super) row: String,
    /// What the policy must have for the row to mean anything.
    #[serde(default)]
    pub(super) needs: Vec<Need>,
    /// Why it cannot be played at a running gateway, if it cannot.
    #[serde(default)]
    pub(super) not_live: Option<String>,
    /// The mechanisms it is about: without any of them it must go red.
    #[serde(default)]
    pub(super) kills: Vec<Mutant>,
    /// What goes wrong, for people; `{quantities}` are filled in.
    pub(super) injected: String,
    /// What must be seen, for people.
    pub(super) expected: String,
    /// Where circuits are kept.
    #[serde(default)]
    pub(super) store: Kept,
    /// Processes that share the store; more than one needs `store: file`.
    #[serde(default = "one")]
    pub(super) processes: usize,
    /// What the dependency answers, from when on.
    pub(super) dependency: Vec<Answer>,
    /// What the cheap probe of the policy says, from when on; well where nothing is written.
    #[serde(default)]
    pub(super) cheap_probe: Vec<Answer>,
    /// Who calls.
    pub(super) calls: Vec<Group>,
    /// Who works off what was queued; nobody where there is nothing.
    #[serde(default)]
    pub(super) workers: Vec<Crew>,
    /// What else happens.
    #[serde(default)]
    pub(super) acts: Vec<Act>,
    /// What must be seen.
    pub(super) expect: Vec<Check>,
}

/// Where circuits are kept during a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kept {
    /// In memory.
    #[default]
    Memory,
    /// In a file, as between processes.
    File,
}

/// What a policy must have.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Need {
    /// Stated waits are honoured.
    Hints,
    /// A call has more than one attempt.
    Retries,
    /// A refused attempt of a call is repeated, whatever its output shows.
    RefusedRepeated,
    /// `on_open` queues.
    Queue,
    /// An error inside a success can be seen.
    ErrorsInSuccess,
    /// An attempt with an unknown end is not sent again.
    UnknownEndsKept,
    /// Somebody is told.
    Owner,
    /// A cheap probe is tried before real work.
    CheapProbe,
    /// A quantity must be more than another; `else` says what it means if it is not.
    More {
        /// The quantity that must be larger.
        of: Quantity,
        /// The one that it must exceed.
        than: Quantity,
        /// Why the row means nothing otherwise.
        r#else: String,
    },
}

/// What the dependency answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    /// From when on; without it from the beginning.
    #[serde(default)]
    pub(super) from: Option<Quantity>,
    /// What it means.
    pub(super) answer: Meaning,
    /// The wait it states.
    #[serde(default)]
    pub(super) retry_after: Option<Quantity>,
    /// How that is written.
    #[serde(default)]
    pub(super) written_as: WrittenAs,
    /// How long it takes; a second, or less where the timeout is short.
    #[serde(default)]
    pub(super) takes: Option<Quantity>,
}

/// Calls that are alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    /// What checks call them.
    pub(super) name: String,
    /// How many.
    #[serde(default)]
    pub(super) count: Option<Quantity>,
    /// When the first begins.
    #[serde(default)]
    pub(super) at: Option<Quantity>,
    /// How far apart they begin.
    #[serde(default)]
    pub(super) every: Option<Quantity>,
    /// Whether each waits for the end of the one before.
    #[serde(default)]
    pub(super) one_by_one: bool,
    /// What they meet, attempt by attempt (the last answer repeats), instead of what the dependency does for others.
    #[serde(default)]
    pub(super) meets: Vec<Answer>,
    /// Attempts at most, instead of the policy's.
    #[serde(default)]
    pub(super) attempts: Option<Quantity>,
    /// How their processes end in the middle of an attempt.
    #[serde(default)]
    pub(super) leaves: Option<Leaves>,
    /// Their processes are frozen during the attempt, and report then.
    #[serde(default)]
    pub(super) reports: Option<Quantity>,
    /// They are queued at once, as `Prefer: respond-async` asks for.
    #[serde(default)]
    pub(super) queued: bool,
    /// The idempotency key that all of them carry, with one and the same payload.
    #[serde(default)]
    pub(super) key: Option<String>,
    /// The order key of their jobs: they are done in the order in which they came.
    #[serde(default)]
    pub(super) order: Option<String>,
    /// The credential they use.
    #[serde(default)]
    pub(super) credential: Option<String>,
    /// Each uses a credential of its own.
    #[serde(default)]
    pub(super) own_credentials: bool,
    /// Another dependency that they call.
    #[serde(default)]
    pub(super) dependency: Option<String>,
}

/// Workers that are alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Crew {
    /// How many.
    #[serde(default)]
    pub(super) count: Option<Quantity>,
    /// From when on.
    #[serde(default)]
    pub(super) at: Option<Quantity>,
    /// What happens to each with the first job it takes.
    #[serde(default)]
    pub(super) fate: Option<Fate>,
}

/// What happens to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fate {
    /// Its process is frozen between its claim and its attempt, for three leases.
    FrozenBeforeSending,
    /// `kill -9` right after the attempt was sent.
    KilledAfterSending,
}

/// How a guarded section is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Leaves {
    /// The command is not there.
    NotFound,
    /// The program panics.
    Panic,
    /// The caller goes away.
    Cancelled,
    /// `kill -9`.
    Killed,
}

/// What else happens.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Act {
    /// When.
    pub(super) at: Quantity,
    /// What.
    pub(super) r#do: Deed,
    /// How far, for a step of the clock; for how long, for a hold.
    #[serde(default)]
    pub(super) by: Option<Quantity>,
}

/// Something that happens to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Deed {
    /// The wall clock is stepped.
    StepWallClock,
    /// The store cannot be used any more.
    LoseStore,
    /// It can again.
    RestoreStore,
    /// An operator holds the circuit open.
    HoldOpen,
    /// An operator holds it closed.
    HoldClosed,
    /// An operator lets it go.
    Release,
}

/// How much is allowed of something.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bounds {
    /// Exactly.
    #[serde(default)]
    pub(super) is: Option<Quantity>,
    /// No less.
    #[serde(default)]
    pub(super) at_least: Option<Quantity>,
    /// No more.
    #[serde(default)]
    pub(super) at_most: Option<Quantity>,
}

/// Which part of what was seen a check looks at.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Span {
    /// Only these calls.
    #[serde(default)]
    pub(super) of: Option<String>,
    /// From this instant on.
    #[serde(default)]
    pub(super) after: Option<Quantity>,
    /// Before this instant.
    #[serde(default)]
    pub(super) before: Option<Quantity>,
    /// How many.
    pub(super) count: Bounds,
}

/// What must be seen.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Check {
    /// So often the breaker opens.
    Opens(Bounds),
    /// Why it opens the first time.
    OpensBecause(String),
    /// So many failures are counted.
    FailuresCounted(Bounds),
    /// So many attempts reach the dependency.
    Sent(Span),
    /// So many probes are in flight at once at most.
    ProbesAtOnce(Bounds),
    /// The breaker's state at an instant.
    State {
        /// When.
        at: Quantity,
        /// `closed`, `open` or `half_open`.
        is: String,
    },
    /// How long the n-th cooldown lasts.
    Cooldown {
        /// Which opening, 1-based.
        nth: usize,
        /// How long.
        lasts: Bounds,
    },
    /// How calls end: `success`, `on_open`, `gave_up`, `failed`, `unknown_end`, `left`.
    Ends {
        /// Which.
        of: String,
        /// One of these.
        r#as: Vec<String>,
    },
    /// What the last attempt of calls is judged as.
    Class {
        /// Which.
        of: String,
        /// The class.
        is: String,
    },
    /// Attempts of each call.
    Attempts {
        /// Which.
        of: String,
        /// How many.
        each: Bounds,
    },
    /// The longest single wait of each call.
    Sleeps {
        /// Which.
        of: String,
        /// How long.
        each: Bounds,
    },
    /// How long a call takes altogether.
    Takes {
        /// Which.
        of: String,
        /// How long.
        each: Bounds,
    },
    /// Attempts that start within any one second.
    StartsPerSecond(Span),
    /// The journal has so many entries of a kind.
    Event {
        /// Its name.
        named: String,
        /// How many.
        count: Bounds,
    },
    /// What became of the jobs of calls: a state, or `on_expiry` for the one that the policy names.
    Jobs {
        /// Which.
        of: String,
        /// The state.
        are: String,
    },
    /// So many jobs were made of calls.
    JobsMade {
        /// Of which.
        of: String,
        /// How many.
        count: Bounds,
    },
    /// The owner hears of a kind of thing so often: `opened`, `probe_failed`, `recovered` and so on.
    Told {
        /// The kind.
        of: String,
        /// How often.
        count: Bounds,
    },
    /// So many partitions of the dependency have a circuit.
    Partitions(Bounds),
    /// The cheap probe is asked so often.
    CheapProbes(Bounds),
    /// No call is carried out twice.
    NoneTwice(String),
    /// Each call is carried out exactly once.
    Once(String),
    /// Calls start in the order in which they were made.
    OldestFirst(String),
    /// The activation line stands beside the store and says this of `calls`.
    ActivationLine {
        /// Calls.
        calls: Bounds,
    },
    /// A success leaves a trace in no failure count.
    StoreIs {
        /// `good` or `lost` at the end.
        at_end: String,
    },
}

fn one() -> usize {
    1
}

/// The shipped scenarios, in the order in which they are run.
const SHIPPED: &[(&str, &str)] = &[
    ("a0-variant.yaml", include_str!("scenarios/a0-variant.yaml")),
    ("a0-whole-story.yaml", include_str!("scenarios/a0-whole-story.yaml")),
    ("a1-late-answers.yaml", include_str!("scenarios/a1-late-answers.yaml")),
    ("a2-retry-after-date.yaml", include_str!("scenarios/a2-retry-after-date.yaml")),
    ("a2-retry-after-seconds.yaml", include_str!("scenarios/a2-retry-after-seconds.yaml")),
    ("a3-probe-fails.yaml", include_str!("scenarios/a3-probe-fails.yaml")),
    ("a4-recovers.yaml", include_str!("scenarios/a4-recovers.yaml")),
    ("a5-ttl.yaml", include_str!("scenarios/a5-ttl.yaml")),
    ("a6-one-worker.yaml", include_str!("scenarios/a6-one-worker.yaml")),
    ("b1-backs-off.yaml", include_str!("scenarios/b1-backs-off.yaml")),
    ("b2-series-opens.yaml", include_str!("scenarios/b2-series-opens.yaml")),
    ("b3-long-wait.yaml", include_str!("scenarios/b3-long-wait.yaml")),
    ("b4-others.yaml", include_str!("scenarios/b4-others.yaml")),
    ("b5-auth.yaml", include_str!("scenarios/b5-auth.yaml")),
    ("b5-timeout.yaml", include_str!("scenarios/b5-timeout.yaml")),
    ("b6-cancelled.yaml", include_str!("scenarios/b6-cancelled.yaml")),
    ("b6-killed.yaml", include_str!("scenarios/b6-killed.yaml")),
    ("b6-neutral.yaml", include_str!("scenarios/b6-neutral.yaml")),
    ("b6-not-found.yaml", include_str!("scenarios/b6-not-found.yaml")),
    ("b6-panic.yaml", include_str!("scenarios/b6-panic.yaml")),
    ("c01-slow-death.yaml", include_str!("scenarios/c01-slow-death.yaml")),
    ("c02-flapping.yaml", include_str!("scenarios/c02-flapping.yaml")),
    ("c03-usage-limit.yaml", include_str!("scenarios/c03-usage-limit.yaml")),
    ("c04-error-in-stream.yaml", include_str!("scenarios/c04-error-in-stream.yaml")),
    ("c05-quota.yaml", include_str!("scenarios/c05-quota.yaml")),
    ("c06-unknown-end.yaml", include_str!("scenarios/c06-unknown-end.yaml")),
    ("c07-reset-in-the-past.yaml", include_str!("scenarios/c07-reset-in-the-past.yaml")),
    ("c08-clock-step.yaml", include_str!("scenarios/c08-clock-step.yaml")),
    ("c09-herd.yaml", include_str!("scenarios/c09-herd.yaml")),
    ("c10-store-lost.yaml", include_str!("scenarios/c10-store-lost.yaml")),
    ("c11-processes.yaml", include_str!("scenarios/c11-processes.yaml")),
    ("c12-late-results.yaml", include_str!("scenarios/c12-late-results.yaml")),
    ("c13-talk-of-limits.yaml", include_str!("scenarios/c13-talk-of-limits.yaml")),
    ("c14-hint-of-a-year.yaml", include_str!("scenarios/c14-hint-of-a-year.yaml")),
    ("c15-activation-line.yaml", include_str!("scenarios/c15-activation-line.yaml")),
    ("d1-worker-killed.yaml", include_str!("scenarios/d1-worker-killed.yaml")),
    ("d2-worker-frozen.yaml", include_str!("scenarios/d2-worker-frozen.yaml")),
    ("d3-same-key.yaml", include_str!("scenarios/d3-same-key.yaml")),
    ("d4-hint-beyond-ttl.yaml", include_str!("scenarios/d4-hint-beyond-ttl.yaml")),
    ("d5-order.yaml", include_str!("scenarios/d5-order.yaml")),
    ("e1-owner-told.yaml", include_str!("scenarios/e1-owner-told.yaml")),
    ("e2-hold.yaml", include_str!("scenarios/e2-hold.yaml")),
    ("e3-cheap-probe.yaml", include_str!("scenarios/e3-cheap-probe.yaml")),
    ("e4-partitions.yaml", include_str!("scenarios/e4-partitions.yaml")),
];

/// Why a scenario cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("scenario {name} cannot be used: {why}")]
pub(super) struct ScenarioError {
    /// The file.
    pub(super) name: String,
    /// What is wrong.
    pub(super) why: String,
}

/// The longest scenario file, the most calls of one, and the most processes.
const FILE_BYTES_MAX: usize = 256 << 10;
/// Calls of one scenario at most.
pub(super) const CALLS_MAX: usize = 10_000;
const PROCESSES_MAX: usize = 64;

impl Scenario {
    /// Returns the shipped scenarios.
    ///
    /// # Errors
    ///
    /// If one does not read; a test reads them all.
    pub(super) fn shipped() -> Result<Vec<Self>, ScenarioError> {
        SHIPPED.iter().map(|(name, text)| Self::read(name, text)).collect()
    }

    /// Reads a scenario called `name` in messages.
    ///
    /// # Errors
    ///
    /// If the text is no scenario.
    pub(super) fn read(name: &str, text: &str) -> Result<Self, ScenarioError> {
        let wrong = |why: String| ScenarioError { name: name.to_owned(), why };
        if text.len() > FILE_BYTES_MAX {
            return Err(wrong(format!("it has {} bytes, and {FILE_BYTES_MAX} are allowed", text.len())));
        }
        let scenario: Self = serde_saphyr::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if !(1..=PROCESSES_MAX).contains(&scenario.processes) {
            return Err(wrong(format!("`processes` is {}, and 1 to {PROCESSES_MAX} are allowed", scenario.processes)));
        }
        if scenario.processes > 1 && scenario.store == Kept::Memory {
            return Err(wrong("`processes` above 1 need `store: file`".to_owned()));
        }
        if scenario.dependency.is_empty() || scenario.calls.is_empty() || scenario.expect.is_empty() {
            return Err(wrong("`dependency`, `calls` and `expect` need at least one entry each".to_owned()));
        }
        Ok(scenario)
    }

    /// Returns why this policy has nothing to show in this row, if it has not.
    ///
    /// # Errors
    ///
    /// If a quantity cannot be computed.
    pub(super) fn not_for(&self, rehearsal: &Rehearsal, names: &Names) -> Result<Option<String>, QuantityError> {
        for need in &self.needs {
            if let Some(why) = need.unmet(rehearsal, names)? {
                return Ok(Some(why));
            }
        }
        Ok(None)
    }
}

impl Need {
    fn unmet(&self, rehearsal: &Rehearsal, names: &Names) -> Result<Option<String>, QuantityError> {
        let (met, why) = match self {
            Self::Hints => (rehearsal.policy.retry.honor_retry_after, "honor_retry_after is false".to_owned()),
            Self::Retries => {
                (rehearsal.policy.retry.max_attempts.get() > 1, "max_attempts is 1: nothing is repeated".to_owned())
            }
            Self::RefusedRepeated => (
                rehearsal.repeats_refused(),
                "replay: never runs a command again only if its output shows that it did nothing".to_owned(),
            ),
            Self::Queue => (rehearsal.queues(), "on_open does not queue".to_owned()),
            Self::ErrorsInSuccess => (
                rehearsal.sees_errors_in_success(),
                format!(
                    "a command's exit code 0 is its word for the profile {}; errors inside a success are looked for \
                     where a profile knows their form",
                    rehearsal.classifier.profile()
                ),
            ),
            Self::UnknownEndsKept => {
                (!rehearsal.repeats_unknown_ends(), "replay: always sends again whatever happened".to_owned())
            }
            Self::Owner => (rehearsal.policy.owner.is_some(), "no `owner` is named: nobody is told".to_owned()),
            Self::CheapProbe => (
                rehearsal.policy.probe.is_some(),
                "no `probe` is named: real work finds out whether it is well".to_owned(),
            ),
            Self::More { of, than, r#else } => {
                let (of, than) = (of.value(names)?, than.value(names)?);
                let more = match (of, than) {
                    (Some(quantity::Value::Time(of)), Some(quantity::Value::Time(than)))
                    | (Some(quantity::Value::Plain(of)), Some(quantity::Value::Plain(than))) => of > than,
                    _ => false,
                };
                (more, quantity::filled(r#else, names)?)
            }
        };
        Ok((!met).then_some(why))
    }
}
