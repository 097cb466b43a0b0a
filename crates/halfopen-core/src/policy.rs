//! Holds the resolved rules of one dependency: every value checked, every default filled in.
//!
//! Rough forms (YAML with missing keys and human durations) live at the edge in `config::raw`; what arrives here was
//! parsed once and cannot switch the protection off. The fields are public because each type already excludes the
//! values that would break it, or has no invariant; the defaults below are the documented ones.

use std::num::NonZeroU32;
use std::time::Duration;

/// The rules of one dependency.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Name of the dependency, as written in status, metrics and commands.
    pub dependency: String,
    /// Name of the rule pack, or `None` to choose by command or host name.
    pub profile: Option<String>,
    /// How long one attempt may take; `None` takes the pack's default.
    pub timeout: Option<Duration>,
    /// How long the first byte of an answer may take.
    pub first_byte: Option<Duration>,
    /// How long an answer may be silent between two bytes.
    pub idle: Option<Duration>,
    /// When a call is tried again.
    pub retry: RetryPolicy,
    /// When the breaker opens and how it closes.
    pub circuit: CircuitPolicy,
    /// What happens to a call that is refused.
    pub on_open: OnOpen,
    /// How what was held back returns.
    pub drain: DrainPolicy,
    /// Whether an attempt with an unknown end may be sent again.
    pub replay: Replay,
    /// Which parts of the dependency are judged apart.
    pub split_by: Vec<String>,
    /// How many partitions are told apart before further ones fold into one.
    pub max_partitions: NonZeroU32,
    /// Whether decisions are carried out or only noted.
    pub mode: Mode,
    /// Who is told.
    pub owner: Option<String>,
    /// Where the owner reads what to do.
    pub runbook: Option<String>,
    /// How soon after its start a failed command counts as having done nothing.
    pub rerun_within: Duration,
    /// The longest time a circuit believes a hint.
    pub hint_ceiling: Duration,
    /// How often calls are expected; silence for longer is reported.
    pub expect_calls_every: Option<Duration>,
    /// How much standard output is held back at most, in bytes.
    pub stdout_hold_bytes_max: u64,
    /// How much of a request or of piped standard input is kept for a further attempt, in bytes.
    pub replay_body_bytes_max: u64,
    /// How long journal entries are kept.
    pub journal_keep: Duration,
    /// A cheap command or URL tried before real work is.
    pub probe: Option<ProbeWith>,
}

/// When a call is tried again.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Attempts of one call, the first included.
    pub max_attempts: NonZeroU32,
    /// The waits we compute.
    pub backoff: Backoff,
    /// Whether a stated wait is obeyed.
    pub honor_retry_after: bool,
    /// The longest wait that is slept; a longer one opens the breaker.
    pub max_wait: Duration,
    /// The time all attempts and waits of one call may take together.
    pub deadline: Option<Duration>,
    /// The share of calls that may be retries no hint has spaced.
    pub budget: RetryBudget,
}

/// The waits we compute between attempts: `base × 2^(n−1)`, at most `max`, jittered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The wait after the first attempt.
    pub base: Duration,
    /// No computed wait is longer.
    pub max: Duration,
    /// Whether the wait grows.
    pub growth: Growth,
    /// How it is spread.
    pub jitter: Jitter,
}

/// How a computed wait grows from attempt to attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// It doubles.
    Exponential,
    /// It stays.
    Constant,
}

/// How a computed wait is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// Half fixed, half random.
    Equal,
    /// All random.
    Full,
    /// None.
    None,
}

/// How many retries are allowed beside the calls that succeed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryBudget {
    /// Retries per call, in `[0, 1]`.
    pub ratio: f64,
    /// Retries per minute that are always allowed.
    pub per_minute: u32,
}

/// When the breaker opens and how it closes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CircuitPolicy {
    /// The span over which failures add up.
    pub window: Duration,
    /// Failures in the window that open the breaker.
    pub open_after_failures: NonZeroU32,
    /// The first cooldown.
    pub open_for: Duration,
    /// The longest cooldown we choose ourselves; a hint may be longer. At least `open_for`.
    pub max_open_for: Duration,
    /// What a failed probe multiplies the cooldown by; at least 1.
    pub cooldown_factor: f64,
    /// Probes in flight at once (k).
    pub half_open_max_calls: NonZeroU32,
    /// Probes that must succeed in a row (m).
    pub close_after_successes: NonZeroU32,
    /// How long a probe may go unrenewed before it counts as lost.
    pub probe_lease: Duration,
    /// How long a job may go unrenewed before it counts as lost.
    pub lease: Duration,
    /// Whether a failure that no rule knows counts as one.
    pub count_unclassified: bool,
}

/// What happens to a call that is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct OnOpen {
    /// What is tried, in this order; never empty.
    pub actions: Vec<OnOpenAction>,
    /// A refusal that ends sooner is waited for.
    pub wait: Duration,
    /// How long a queued call is worth doing.
    pub queue_ttl: Option<Duration>,
    /// Where a queued call goes when that is over.
    pub on_expiry: OnExpiry,
    /// What the caller is told.
    pub user_message: Option<String>,
}

/// One thing that can be done with a refused call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnOpenAction {
    /// Store it and do it later.
    Queue,
    /// Store it for a person.
    ManualReview,
    /// Answer with the last good answer.
    Cache,
    /// Ask another dependency.
    Fallback,
    /// Say no at once.
    FailFast,
}

impl OnOpenAction {
    /// Returns the word used in policies and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::ManualReview => "manual_review",
            Self::Cache => "cache",
            Self::Fallback => "fallback",
            Self::FailFast => "fail_fast",
        }
    }
}

/// Where a queued call goes when its time to live is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExpiry {
    /// To a person.
    ManualReview,
    /// Nowhere: it is noted as expired.
    Expired,
}

/// How what was held back returns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrainPolicy {
    /// Starts per second at first; above 0.
    pub rate_per_sec: f64,
    /// Starts per second at most; at least `rate_per_sec`.
    pub max_per_sec: f64,
    /// Held-back calls in flight at first.
    pub max_in_flight: NonZeroU32,
    /// Held-back calls in flight at most; at least `max_in_flight`.
    pub max_in_flight_max: NonZeroU32,
}

/// Whether an attempt with an unknown end may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Yes.
    Always,
    /// Only where the call is idempotent.
    IfIdempotent,
    /// No.
    Never,
}

/// Whether decisions are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They are.
    Enforce,
    /// They are only noted, on a circuit of their own.
    Observe,
}

/// What is tried before real work is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeWith {
    /// A command.
    Command(Vec<String>),
    /// A URL, by GET.
    Url(String),
}

/// Which surface a policy is for, where the defaults differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// `halfopen run`.
    Run,
    /// `halfopen serve`.
    Serve,
}

/// How long `quota_exhausted` keeps a breaker open before the first probe. It does not heal by waiting, but the owner
/// may top up at any time.
pub const QUOTA_COOLDOWN: Duration = Duration::from_secs(600);

/// How many neutral probes in a row send the breaker back to open.
pub const NEUTRAL_PROBES_MAX: u32 = 5;

impl Policy {
    /// Returns the built-in policy of `dependency`: what holds where no file says otherwise.
    #[must_use]
    pub fn built_in(dependency: &str, surface: Surface) -> Self {
        let (attempts, window, probes, successes, deadline, wait) = match surface {
            Surface::Run => (3, 900, 1, 1, None, 300),
            Surface::Serve => (2, 60, 2, 2, Some(Duration::from_secs(120)), 2),
        };
        Self {
            dependency: dependency.to_owned(),
            profile: None,
            timeout: None,
            first_byte: None,
            idle: None,
            retry: RetryPolicy {
                max_attempts: count(attempts),
                backoff: Backoff {
                    base: Duration::from_millis(1000),
                    max: Duration::from_millis(60_000),
                    growth: Growth::Exponential,
                    jitter: Jitter::Equal,
                },
                honor_retry_after: true,
                max_wait: Duration::from_secs(300),
                deadline,
                budget: RetryBudget { ratio: 0.2, per_minute: 3 },
            },
            circuit: CircuitPolicy {
                window: Duration::from_secs(window),
                open_after_failures: count(5),
                open_for: Duration::from_secs(120),
                max_open_for: Duration::from_secs(3600),
                cooldown_factor: 2.0,
                half_open_max_calls: count(probes),
                close_after_successes: count(successes),
                probe_lease: Duration::from_secs(30),
                lease: Duration::from_secs(30),
                count_unclassified: false,
            },
            on_open: OnOpen {
                actions: vec![OnOpenAction::FailFast],
                wait: Duration::from_secs(wait),
                queue_ttl: None,
                on_expiry: OnExpiry::ManualReview,
                user_message: None,
            },
            drain: DrainPolicy {
                rate_per_sec: 1.0,
                max_per_sec: 20.0,
                max_in_flight: count(2),
                max_in_flight_max: count(16),
            },
            replay: Replay::IfIdempotent,
            split_by: vec!["credential".to_owned()],
            max_partitions: count(64),
            mode: Mode::Enforce,
            owner: None,
            runbook: None,
            rerun_within: Duration::from_secs(300),
            hint_ceiling: Duration::from_secs(192 * 3600),
            expect_calls_every: None,
            stdout_hold_bytes_max: 1 << 30,
            replay_body_bytes_max: 8 << 20,
            journal_keep: Duration::from_secs(30 * 24 * 3600),
            probe: None,
        }
    }
}

/// Returns `n` as a count; the callers pass constants above 0.
const fn count(n: u32) -> NonZeroU32 {
    match NonZeroU32::new(n) {
        Some(n) => n,
        None => NonZeroU32::MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_has_the_word_of_the_policy_file() {
        use OnOpenAction::{Cache, FailFast, Fallback, ManualReview, Queue};
        let words = [Queue, ManualReview, Cache, Fallback, FailFast].map(OnOpenAction::as_str);
        assert_eq!(words, ["queue", "manual_review", "cache", "fallback", "fail_fast"]);
    }

    /// docs/policy.md gives these as the defaults.
    #[test]
    fn what_is_kept_without_a_policy_is_what_the_docs_say() {
        let policy = Policy::built_in("any", Surface::Run);
        assert_eq!(policy.stdout_hold_bytes_max, 1_073_741_824, "1 GiB");
        assert_eq!(policy.replay_body_bytes_max, 8_388_608, "8 MiB");
        assert_eq!(policy.journal_keep, Duration::from_secs(2_592_000), "30 days");
        assert_eq!(policy.hint_ceiling, Duration::from_secs(691_200), "192 hours");
    }
}
