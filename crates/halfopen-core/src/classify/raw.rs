//! The written form of rule packs: what stands in `profiles/*.yaml` and under `classify:` in a policy.
//!
//! One form for both, so that a rule tried in a policy can be moved into a pack as it stands. It is rough on purpose:
//! words where the engine has enums, nothing checked beyond its shape. [`super::rule`] turns it into a trusted rule and
//! says what is wrong with it. The build script reads the packs through this same file and embeds them as postcard, so
//! nothing here may use untagged enums or flattening; lists that people may write as a single value are [`Words`].
//!
//! `docs/design/rule-grammar.md` explains how to write a pack.

use std::fmt;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// A list of words that may also be written as one word, number or boolean.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Words(pub Vec<String>);

/// A whole rule pack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawPack {
    /// Its name: the file's name without `.yaml`.
    pub pack: String,
    /// Why it exists: where `generic` would be wrong.
    pub about: String,
    /// When its sources were last looked at (`2026-11-30`).
    pub checked: String,
    /// Where its knowledge comes from.
    pub sources: Vec<String>,
    /// Base names of the commands it is for.
    pub commands: Vec<String>,
    /// Further names by which labelled cases and users call the tool or service.
    pub aliases: Vec<String>,
    /// Hosts it is for; `*.example.com` takes every name below it, `*-api.example.com` every region's.
    pub hosts: Vec<String>,
    /// What holds beside the rules.
    pub defaults: RawDefaults,
    /// How the command's output is to be read.
    pub output: RawOutput,
    /// What makes a failure of an outcome that says it is a success (exit code 0, status 2xx).
    pub fails_when: Vec<RawCondition>,
    /// What the pack knows about wait hints.
    pub hints: RawHints,
    /// Where the session, the account and the model stand.
    pub found: RawFound,
    /// The rules, more specific ones first.
    pub rules: Vec<RawRule>,
}

/// What a pack says beside its rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawDefaults {
    /// How long one attempt may take (`10m`, `4h`).
    pub timeout: Option<String>,
    /// Whether a failed attempt may have had effects; true unless said otherwise.
    pub failed_attempts_have_effects: Option<bool>,
    /// How an interrupted run goes on.
    pub resume: Option<RawResume>,
    /// The idempotency key this service honours.
    pub idempotency: Option<RawIdempotency>,
    /// Classes that are proof that nothing was executed, beside the usual ones.
    pub not_processed: Words,
    /// Classes that are, against the usual reading, no such proof.
    pub maybe_processed: Words,
}

/// How an interrupted run of a command goes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawResume {
    /// Arguments of the first attempt, with `{session}` in them.
    pub open_with: Vec<String>,
    /// Arguments that go on, with `{session}` in them.
    pub go_on_with: Vec<String>,
    /// Flags of the user by which the command already names a session; then `open_with` is left out.
    pub session_flags: Vec<String>,
    /// Flags of the command that take a value, so that the prompt can be told from a value.
    pub value_flags: Vec<String>,
}

/// An idempotency key that a service honours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawIdempotency {
    /// The header it travels in.
    pub header: String,
    /// For how long the service remembers it.
    pub lifetime_hours: f64,
    /// Whether failures are remembered too, so that the same key gives the same failure again.
    pub remembers_failures: bool,
}

/// How a command's output is to be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawOutput {
    /// Standard output is content that a model or another program wrote: it is never read as an error, except for
    /// `events` and `error_lines`.
    pub stdout_is_content: bool,
    /// Standard error is content too: only `error_lines` count in it.
    pub stderr_is_content: bool,
    /// Exit code 0 is never questioned: what it prints may be somebody else's errors (`docker logs`).
    pub trust_success: bool,
    /// The reason may stand anywhere on standard error: the last error is not asked before the others (`pip` ends every
    /// failure with the same two lines).
    pub whole_stderr: bool,
    /// Standard output may be JSON: one object, a list, or one object a line.
    pub events: bool,
    /// Standard output may be the body of an HTTP answer, with or without its headers (`curl`).
    pub http_body: bool,
    /// How a line begins or reads that is the tool's own error message. With exit code 0, output that consists of such
    /// a message and nothing else is an error if `success_may_lie`.
    pub error_lines: Vec<RawTest>,
    /// Whether an error message may be all there is on an exit code of 0.
    pub success_may_lie: bool,
    /// Lines that belong to an error message that stands before them (`/upgrade to increase …`).
    pub continuation_lines: Vec<RawTest>,
    /// Lines that are never an error: notes about retries the tool makes itself, advice.
    pub noise_lines: Vec<RawTest>,
}

/// What a pack knows about wait hints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawHints {
    /// The wait where none is stated, in milliseconds. A rule's own `wait` goes before it.
    pub default_wait_ms: Option<u64>,
    /// The zone at whose midnight a daily allowance refills (`America/Los_Angeles`).
    pub daily_reset_zone: Option<String>,
    /// Units of bare numbers, where the name of the header or field does not tell.
    pub units: Vec<RawUnit>,
    /// Headers and fields that never count.
    pub ignore: Vec<String>,
    /// The zone of dates written without one (`Asia/Shanghai`).
    pub zone: Option<String>,
    /// No hint is shorter than this, in milliseconds.
    pub floor_ms: u64,
}

/// The unit of a bare number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawUnit {
    /// The header or field.
    pub name: String,
    /// `ms`, `seconds`, `minutes`, `hours`.
    pub unit: String,
}

/// Where an output names what is worth keeping; the first that is there wins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawFound {
    /// The session in which the tool can go on.
    pub session: Vec<RawCondition>,
    /// The account.
    pub account: Vec<RawCondition>,
    /// The model.
    pub model: Vec<RawCondition>,
}

/// One rule as it is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawRule {
    /// Its name, unique in its pack.
    pub name: String,
    /// What must hold, all of it.
    pub when: Vec<RawCondition>,
    /// Of which at least one must hold, if there are any.
    pub any: Vec<RawCondition>,
    /// Of which none may hold.
    pub unless: Vec<RawCondition>,
    /// What it means: one of the eleven classes.
    pub class: String,
    /// The kind of evidence; by default the strongest of its conditions.
    pub kind: Option<String>,
    /// The rule speaks only if no message text does: its code is vague.
    pub weak: bool,
    /// Whom it is about, where that differs from the class: `place`, `account`, `caller`, `nobody`.
    pub about: Option<String>,
    /// The part of the account or place it covers (`model`, `region`), if not all of it.
    pub scope: Option<String>,
    /// How far the attempt got, where that differs from the class: `not_sent`, `unknown`, `refused`, `answered`.
    pub reached: Option<String>,
    /// What it says about trying again: `allowed`, `forbidden`.
    pub retry: Option<String>,
    /// Whether it shows work: `none`, `shown`.
    pub work: Option<String>,
    /// The wait if the outcome states none (`30s`); `none` if nobody knows, also not the pack.
    pub wait: Option<String>,
    /// Whether stated waits are not to be believed: they belong to another limit than this one.
    pub ignore_hints: bool,
    /// Outcomes it must and must not speak on.
    pub examples: RawExamples,
}

/// One condition: where to look and what to find there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RawCondition {
    /// The HTTP status, of the answer or as a tool printed it: `429`, `5xx`, `500-511`.
    Status(Words),
    /// The exit code: `22`, `nonzero`, `signal`, `timeout`.
    Exit(Words),
    /// An error code anywhere in the error: compared without namespace and without regard to case.
    Code(Words),
    /// The text of the error: any of its messages.
    Message(RawTest),
    /// A header; `name`.
    Header(RawTest),
    /// A value in the error's JSON; `path`.
    Json(RawTest),
    /// An element of the error's XML; `element`.
    Xml(RawTest),
    /// An event of a `text/event-stream`; `event`, `path`.
    Sse(RawTest),
    /// A JSON event that the command printed; `event` names its type, `path` a value in it.
    Event(RawTest),
    /// The command's standard output; `part`.
    Stdout(RawTest),
    /// The command's standard error; `part`.
    Stderr(RawTest),
    /// The answer's body as text.
    Body(RawTest),
    /// The request's method.
    Method(Words),
    /// A requested amount above the limit that no wait makes possible (`Limit 30000, Requested 342389`).
    OverLimit(bool),
    /// A counter that reads 0: the words are its windows (`second`, `minute`, `hour`, `day`, `month`, `any`).
    Exhausted(Words),
}

/// Where exactly to look, and what to find.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawTest {
    /// Header name.
    pub name: String,
    /// JSON path: `error.details[].reason`, `**.code`.
    pub path: String,
    /// XML element: `Error/Code`, or `Code` at any depth.
    pub element: String,
    /// Event name or type.
    pub event: String,
    /// `whole`, `first_line`, `last_line`, `any_line`.
    pub part: String,
    /// Equals one of these, without regard to case.
    pub is: Words,
    /// Contains one of these phrases, as whole words, without regard to case, wrapping and kind of apostrophe.
    pub says: Words,
    /// Begins with one of these, after decoration.
    pub starts: Words,
    /// Matches this regular expression (linear time, size-limited); with `says`, both must hold.
    pub matches: Option<String>,
    /// Is a number above this.
    pub above: Option<f64>,
    /// Is a number below this.
    pub below: Option<f64>,
    /// Is there at all (`true`), or not (`false`).
    pub present: Option<bool>,
}

/// Outcomes that a rule must and must not speak on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawExamples {
    /// The rule decides these.
    pub speaks: Vec<RawExample>,
    /// The rule does not decide these.
    pub silent: Vec<RawExample>,
}

/// One outcome as an example. With `status` or `body` it is an HTTP answer, else a command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawExample {
    /// Exit code; 1 if not given.
    pub exit: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// HTTP status.
    pub status: Option<u16>,
    /// HTTP method; `POST` if not given.
    pub method: String,
    /// Headers, one `name: value` each.
    pub headers: Vec<String>,
    /// Body.
    pub body: String,
    /// The class that must come out, for examples of another rule's.
    pub class: Option<String>,
}

impl Words {
    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(OneOrMany)
        } else {
            Vec::deserialize(deserializer).map(Self)
        }
    }
}

/// A word of a list: text, or a number or boolean read as text.
struct Word(String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrMany).map(|words| Self(words.0.into_iter().next().unwrap_or_default()))
    }
}

struct OneOrMany;

impl<'de> Visitor<'de> for OneOrMany {
    type Value = Words;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word or a list of words")
    }

    fn visit_str<E>(self, word: &str) -> Result<Words, E> {
        Ok(Words(vec![word.to_owned()]))
    }

    fn visit_bool<E>(self, word: bool) -> Result<Words, E> {
        Ok(Words(vec![word.to_string()]))
    }

    fn visit_i64<E>(self, word: i64) -> Result<Words, E> {
        Ok(Words(vec![word.to_string()]))
    }

    fn visit_u64<E>(self, word: u64) -> Result<Words, E> {
        Ok(Words(vec![word.to_string()]))
    }

    fn visit_f64<E>(self, word: f64) -> Result<Words, E> {
        Ok(Words(vec![word.to_string()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Words, A::Error> {
        let mut words = Vec::new();
        while let Some(Word(word)) = list.next_element()? {
            words.push(word);
        }
        Ok(Words(words))
    }
}
