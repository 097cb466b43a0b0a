//! Lists every key of the policy file once: its kind, its range, its default, what it means.
//!
//! The reader, the JSON Schema and the table in `docs/policy.md` are all made from this list, so that a key cannot be
//! accepted and undocumented, or documented and ignored. Ranges are wide on purpose: they keep out what would switch
//! the protection off or can only be a slip of the unit, not what is merely unusual.

/// A key of one dependency.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Where it stands below the dependency, with dots.
    pub path: &'static str,
    /// What may be written there.
    pub kind: Kind,
    /// What holds if it is absent, as a person reads it.
    pub default: &'static str,
    /// What it means, in one sentence without a full stop.
    pub meaning: &'static str,
    /// A value as it can be written.
    pub example: &'static str,
}

/// What may be written at a key.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// A mapping of further keys of this list.
    Group,
    /// A name: no white space, no `@`, no `=`.
    Name,
    /// Any text on one line.
    Text,
    /// The name of an HTTP header.
    Header,
    /// An `http` or `https` address.
    Url,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Count {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// A number, decimals allowed.
    Number {
        /// The smallest.
        min: f64,
        /// The largest.
        max: f64,
    },
    /// A time as a plain number in the unit that the key's name ends with, decimals allowed.
    Time {
        /// The unit.
        unit: Unit,
        /// The shortest, in the unit.
        min: f64,
        /// The longest, in the unit.
        max: f64,
    },
    /// A time with its unit written behind it: `90s`, `30m`, `26h`, `2d`.
    Span {
        /// The shortest, in seconds.
        min: f64,
        /// The longest, in seconds.
        max: f64,
    },
    /// A number of bytes, plain or with `KiB`, `MiB`, `GiB` behind it.
    Bytes {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words, or `true` or `false`, which mean the first and the last of them.
    WordOrBool(&'static [&'static str]),
    /// One of these words, or a list of them, tried in order.
    Words(&'static [&'static str]),
    /// A list of parts: `region`, `credential`, `model`, `header:NAME`, `argument:NAME`.
    Parts,
    /// What calls are kept in order by: `path`, `none`, `header:NAME`, `argument:NAME`.
    Order,
    /// A command as a list or a text, or an address.
    Probe,
    /// Named credentials.
    Credentials,
    /// Programs that are told: a webhook, a command, or a list of these.
    Receivers,
    /// Own classification rules.
    Rules,
}

/// The unit of a time, which the key's name ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `_ms`
    Millis,
    /// `_sec`
    Seconds,
    /// `_min`
    Minutes,
    /// `_hours`
    Hours,
    /// `_days`
    Days,
}

impl Unit {
    /// Returns how many seconds one of it has.
    #[must_use]
    pub const fn seconds(self) -> f64 {
        match self {
            Self::Millis => 0.001,
            Self::Seconds => 1.0,
            Self::Minutes => 60.0,
            Self::Hours => 3600.0,
            Self::Days => 86_400.0,
        }
    }

    /// Returns the word for more than one of it.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Millis => "milliseconds",
            Self::Seconds => "seconds",
            Self::Minutes => "minutes",
            Self::Hours => "hours",
            Self::Days => "days",
        }
    }
}

const fn key(
    path: &'static str,
    kind: Kind,
    default: &'static str,
    example: &'static str,
    meaning: &'static str,
) -> Key {
    Key { path, kind, default, meaning, example }
}

const fn millis(min: f64, max: f64) -> Kind {
    Kind::Time { unit: Unit::Millis, min, max }
}

const fn seconds(min: f64, max: f64) -> Kind {
    Kind::Time { unit: Unit::Seconds, min, max }
}

/// The most attempts that one call may be given.
pub const ATTEMPTS_MAX: u32 = 100;

const fn count(min: u64, max: u64) -> Kind {
    Kind::Count { min, max }
}

/// A week in milliseconds.
const WEEK_MS: f64 = 604_800_000.0;
/// A week in seconds.
const WEEK: f64 = 604_800.0;
/// The default of `hint_ceiling_hours` in seconds.
const CEILING: f64 = 691_200.0;

/// The actions of `on_open.action`.
pub(super) const ACTIONS: &[&str] = &["queue", "manual_review", "cache", "fallback", "fail_fast"];

/// Every key of a dependency, in the order of the documentation. A group stands before its keys.
pub const KEYS: &[Key] = &[
    key("name", Kind::Name, "required", "ocr", "what commands, status and metrics call the dependency"),
    key("profile", Kind::Name, "by command or host name, else `generic`", "claude-code", "which rule pack classifies"),
    key(
        "upstream",
        Kind::Url,
        "none",
        "https://api.example.com/v1",
        "base URL for `serve`; the caller can never choose another host",
    ),
    key(
        "split_by",
        Kind::Parts,
        "[credential]",
        "[region, credential]",
        "which parts of the dependency are judged apart",
    ),
    key(
        "max_partitions",
        count(1, 10_000),
        "64",
        "200",
        "how many partitions are told apart before further ones fold into one",
    ),
    key(
        "timeout_ms",
        millis(1.0, WEEK_MS),
        "run: from the pack (10 minutes, agents 4 hours); serve: 60000",
        "8000",
        "how long one attempt may take",
    ),
    key("first_byte_ms", millis(1.0, WEEK_MS), "none", "5000", "how long the first byte of an answer may take"),
    key("idle_ms", millis(1.0, WEEK_MS), "none", "30000", "how long an answer may be silent between two bytes"),
    key("retry", Kind::Group, "", "", "when a call is tried again"),
    key(
        "retry.max_attempts",
        count(1, ATTEMPTS_MAX as u64),
        "run: 3; serve: 2",
        "2",
        "attempts of one call, the first included",
    ),
    key(
        "retry.backoff",
        Kind::Word(&["exponential", "constant"]),
        "exponential",
        "constant",
        "whether the waits we compute double or stay",
    ),
    key("retry.base_ms", millis(1.0, 3_600_000.0), "1000", "250", "the wait after the first attempt"),
    key(
        "retry.max_backoff_ms",
        millis(1.0, 86_400_000.0),
        "60000",
        "20000",
        "no wait that we compute is longer; it also cuts `base_ms`",
    ),
    key(
        "retry.jitter",
        Kind::WordOrBool(&["equal", "full", "none"]),
        "equal",
        "full",
        "how such a wait is spread: `equal` (or `true`) half fixed and half random, `full` all random, `none` (or \
         `false`) not at all",
    ),
    key("retry.honor_retry_after", Kind::Bool, "true", "false", "whether a wait that the dependency states is obeyed"),
    key(
        "retry.max_wait_sec",
        seconds(0.0, CEILING),
        "300",
        "60",
        "a longer wait is never slept: the breaker opens until then and the call degrades; 0 sleeps no stated wait",
    ),
    key(
        "retry.deadline_sec",
        seconds(0.001, CEILING),
        "run: none; serve: 120",
        "90",
        "the time all attempts and waits of one call may take together",
    ),
    key("retry.budget", Kind::Group, "", "", "how many retries that no hint has spaced are allowed, per process"),
    key(
        "retry.budget.ratio",
        Kind::Number { min: 0.0, max: 1.0 },
        "0.2",
        "0.1",
        "retries per call; with `per_minute: 0` beside it, 0 allows none",
    ),
    key("retry.budget.per_minute", count(0, 100_000), "3", "10", "retries a minute that are always allowed"),
    key("circuit", Kind::Group, "", "", "when the breaker opens and how it closes"),
    key(
        "circuit.failure_window_sec",
        seconds(0.001, WEEK),
        "run: 900; serve: 60",
        "60",
        "the span over which failures add up",
    ),
    key("circuit.open_after_failures", count(1, 1_000), "5", "8", "failures in the window that open the breaker"),
    key("circuit.open_for_sec", seconds(0.001, WEEK), "120", "30", "the first cooldown"),
    key(
        "circuit.max_open_for_sec",
        seconds(0.001, CEILING),
        "3600, or `open_for_sec` if that is longer",
        "1800",
        "the longest cooldown we choose ourselves, at least `open_for_sec`; a hint may be longer",
    ),
    key(
        "circuit.cooldown_factor",
        Kind::Number { min: 1.0, max: 100.0 },
        "2",
        "1.5",
        "what a failed probe multiplies the cooldown by",
    ),
    key(
        "circuit.half_open_max_calls",
        count(1, 1_000),
        "run: 1; serve: 2",
        "2",
        "probes in flight at once, over all processes",
    ),
    key(
        "circuit.close_after_successes",
        count(1, 1_000),
        "run: 1; serve: 2",
        "2",
        "probes that must succeed in a row to close the breaker",
    ),
    key(
        "circuit.probe_lease_sec",
        seconds(0.1, 86_400.0),
        "30",
        "10",
        "how long a probe may go unrenewed before it counts as lost",
    ),
    key(
        "circuit.count_unclassified",
        Kind::Bool,
        "false",
        "true",
        "whether a failure that no rule knows counts as a failure of the dependency",
    ),
    key("lease_sec", seconds(0.1, 86_400.0), "30", "60", "how long a job may go unrenewed before it counts as lost"),
    key("on_open", Kind::Group, "", "", "what happens to a call that is refused"),
    key(
        "on_open.action",
        Kind::Words(ACTIONS),
        "fail_fast",
        "[fallback, queue]",
        "what is done with it; of a list, the first that can be done",
    ),
    key(
        "on_open.wait_sec",
        seconds(0.0, CEILING),
        "0 where `on_open` is written; else run: 300, serve: 2",
        "10",
        "a refusal that ends sooner is waited for",
    ),
    key(
        "on_open.queue_ttl_min",
        Kind::Time { unit: Unit::Minutes, min: 0.001, max: 525_600.0 },
        "none",
        "30",
        "how long a queued call is worth doing",
    ),
    key(
        "on_open.on_expiry",
        Kind::Word(&["manual_review", "expired"]),
        "manual_review",
        "expired",
        "where a queued call goes when that is over",
    ),
    key("on_open.user_message", Kind::Text, "none", "processing_delayed", "what the caller is told"),
    key("on_open.alert_owner", Kind::Text, "none", "platform-oncall", "another place to write `owner`"),
    key("drain", Kind::Group, "", "", "how what was held back returns"),
    key(
        "drain.rate_per_sec",
        Kind::Number { min: 0.001, max: 10_000.0 },
        "1",
        "0.5",
        "starts per second at first; it doubles while all goes well",
    ),
    key("drain.max_per_sec", Kind::Number { min: 0.001, max: 10_000.0 }, "20", "5", "starts per second at most"),
    key("drain.max_in_flight", count(1, 10_000), "2", "1", "held-back calls in flight at first; it doubles likewise"),
    key("drain.max_in_flight_max", count(1, 10_000), "16", "8", "held-back calls in flight at most"),
    key(
        "replay",
        Kind::Word(&["always", "if_idempotent", "never"]),
        "if_idempotent",
        "always",
        "whether an attempt with an unknown end may be sent again",
    ),
    key("idempotency", Kind::Group, "", "", "that this dependency honours an idempotency key"),
    key("idempotency.header", Kind::Header, "from the pack", "Idempotency-Key", "the header it is sent in"),
    key(
        "idempotency.lifetime_hours",
        Kind::Time { unit: Unit::Hours, min: 0.01, max: 8_784.0 },
        "from the pack",
        "24",
        "how long the dependency remembers it",
    ),
    key(
        "order_by",
        Kind::Order,
        "`path` for PUT, PATCH, DELETE",
        "header:X-Account",
        "a later call with the same key queues behind an earlier job",
    ),
    key(
        "probe",
        Kind::Probe,
        "none",
        "[curl, -fsS, https://api.example.com/health]",
        "a cheap command or URL tried before real work is",
    ),
    key(
        "mode",
        Kind::Word(&["enforce", "observe"]),
        "enforce",
        "observe",
        "whether decisions are carried out or only noted, on a circuit of their own",
    ),
    key("owner", Kind::Text, "none", "platform-oncall", "who is told, as named under `alerts`"),
    key("alert_owner", Kind::Text, "none", "platform-oncall", "another place to write `owner`"),
    key("runbook", Kind::Text, "none", "https://wiki.example.com/ocr-down", "where the owner reads what to do"),
    key(
        "credentials",
        Kind::Credentials,
        "none",
        "{main: {from_env: OCR_TOKEN, header: Authorization, scheme: Bearer}}",
        "what is added when a call is sent; the first is the default",
    ),
    key(
        "on_done",
        Kind::Receivers,
        "none",
        "{webhook: {url: https://app.example.com/jobs, secret_from_env: JOBS_SECRET}}",
        "programs that are told when a job ends or goes to a person, so that nobody needs to ask (`docs/queue.md`)",
    ),
    key("fallback", Kind::Name, "none", "ocr-backup", "the other dependency that is asked"),
    key("cache", Kind::Group, "", "", "the last good answers, kept to answer with"),
    key("cache.max_age_sec", seconds(0.001, 31_622_400.0), "none", "3600", "how old such an answer may be"),
    key("cache.max_bytes", Kind::Bytes { min: 1 << 10, max: 1 << 44 }, "64 MiB", "16 MiB", "how much is kept in all"),
    key(
        "rerun_within_sec",
        seconds(0.0, 86_400.0),
        "300",
        "60",
        "how soon after its start a failed command counts as having done nothing; 0 never assumes it",
    ),
    key(
        "hint_ceiling_hours",
        Kind::Time { unit: Unit::Hours, min: 0.001, max: 8_784.0 },
        "192",
        "24",
        "the longest time a circuit believes a hint; then the owner is told and a probe goes out",
    ),
    key(
        "expect_calls_every",
        Kind::Span { min: 1.0, max: 31_622_400.0 },
        "none",
        "26h",
        "how often calls are expected; `report --check` fails on a longer silence",
    ),
    key("queue", Kind::Group, "", "", "how much may be queued, and how long it is remembered"),
    key("queue.max_jobs", count(1, 1_000_000_000), "1000000", "50000", "jobs at most; then new ones are refused"),
    key(
        "queue.max_bytes",
        Kind::Bytes { min: 1 << 10, max: 1 << 50 },
        "10 GiB",
        "1 GiB",
        "bytes of their payloads at most",
    ),
    key(
        "queue.keep_done_hours",
        Kind::Time { unit: Unit::Hours, min: 0.0, max: 87_840.0 },
        "72",
        "24",
        "how long a finished job is kept; 0 drops it at once",
    ),
    key(
        "journal_keep_days",
        Kind::Time { unit: Unit::Days, min: 0.001, max: 3_660.0 },
        "30",
        "90",
        "how long journal entries are kept; not shorter than `max_open_for_sec`",
    ),
    key(
        "replay_body_bytes_max",
        Kind::Bytes { min: 0, max: 1 << 40 },
        "8 MiB",
        "1 MiB",
        "how much of a request or of piped standard input is kept for a further attempt; 0 keeps nothing",
    ),
    key(
        "stdout_hold_bytes_max",
        Kind::Bytes { min: 0, max: 1 << 44 },
        "1 GiB",
        "64 MiB",
        "how much standard output is held back until the verdict; 0 holds nothing",
    ),
    key(
        "classify",
        Kind::Rules,
        "none",
        "[{name: backlog, when: [{stderr: {says: backlog too large}}], class: overloaded}]",
        "own classification rules, tried before the pack's (`docs/classes.md` explains them)",
    ),
];

/// Returns the key at `path`.
pub(super) fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// Returns the keys directly below `group`, or those of the dependency itself for `""`, with their last words.
pub(super) fn below(group: &str) -> impl Iterator<Item = (&'static str, &'static Key)> {
    KEYS.iter().filter_map(move |key| {
        let rest = if group.is_empty() { key.path } else { key.path.strip_prefix(group)?.strip_prefix('.')? };
        (!rest.contains('.')).then_some((rest, key))
    })
}

impl Key {
    /// Returns the word it is written with.
    #[must_use]
    pub fn word(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }

    /// Returns what may be written, as it stands behind "allowed is" in a message.
    #[must_use]
    pub fn allowed(&self) -> String {
        match self.kind {
            Kind::Group => "a mapping".to_owned(),
            Kind::Name => "a name without white space, `@` and `=`".to_owned(),
            Kind::Text => "text on one line".to_owned(),
            Kind::Header => "the name of an HTTP header".to_owned(),
            Kind::Url => "an http or https URL without user name, query and fragment".to_owned(),
            Kind::Bool => "true or false".to_owned(),
            Kind::Count { min, max } => format!("{min} to {max}"),
            Kind::Number { min, max } => format!("{min} to {max}"),
            Kind::Time { unit, min, max } => {
                format!("{min} to {max} {}, written as a plain number", unit.plural())
            }
            Kind::Span { min, max } => format!("{min}s to {}d, with its unit", max / 86_400.0),
            Kind::Bytes { min, max } => format!("{} to {}", bytes(min), bytes(max)),
            Kind::Word(words) => either(words),
            Kind::WordOrBool(words) => format!("true, false, {}", either(words)),
            Kind::Words(words) => format!("{}, or a list of these", either(words)),
            Kind::Parts => "a list of region, credential, model, header:NAME, argument:NAME".to_owned(),
            Kind::Order => "path, none, header:NAME, argument:NAME".to_owned(),
            Kind::Probe => "a command as a list of words, or an http or https URL".to_owned(),
            Kind::Credentials => "a mapping of names, each with from_env or from_file, header, scheme".to_owned(),
            Kind::Receivers => {
                "{webhook: {url or url_from_env, secret_from_env}} or {command: [words]}, or a list of up to 8"
                    .to_owned()
            }
            Kind::Rules => "a list of rules".to_owned(),
        }
    }
}

fn either(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Writes a number of bytes with the largest unit that divides it.
pub(super) fn bytes(n: u64) -> String {
    for (unit, size) in [("TiB", 1_u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if n >= size && n.is_multiple_of(size) {
            return format!("{} {unit}", n / size);
        }
    }
    format!("{n} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_listed_once_and_below_a_group() {
        for (index, key) in KEYS.iter().enumerate() {
            assert!(!KEYS.iter().take(index).any(|other| other.path == key.path), "{} twice", key.path);
            if let Some((group, _)) = key.path.rsplit_once('.') {
                assert_eq!(find(group).map(|group| group.kind), Some(Kind::Group), "{}", key.path);
            }
            assert!(!key.meaning.ends_with('.'), "{}", key.path);
        }
    }

    #[test]
    fn the_name_of_a_time_ends_with_its_unit() {
        for key in KEYS {
            if let Kind::Time { unit, .. } = key.kind {
                let suffix = match unit {
                    Unit::Millis => "_ms",
                    Unit::Seconds => "_sec",
                    Unit::Minutes => "_min",
                    Unit::Hours => "_hours",
                    Unit::Days => "_days",
                };
                assert!(key.path.ends_with(suffix), "{}", key.path);
            }
        }
    }
}
