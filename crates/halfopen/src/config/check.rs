//! Warns of what a policy may say and its writer probably did not mean.
//!
//! A warning never stops a run: the policy is usable and does what it says. Each one names the two things that do not
//! go together and which of them to change. Defaults are taken into account, but two defaults never warn.

use std::time::Duration;

use halfopen_core::classify::raw::RawRule;
use halfopen_core::classify::{ProfileError, check_rules, profile_for_host, profiles};
use halfopen_core::policy::{Mode, OnOpenAction, Policy, ProbeWith, Replay, Surface};

use super::finding::Level;
use super::raw::{Raw, RawFile, Written};
use super::reader::Reader;
use super::{resolve, rules, suggest, written_for};

/// What a policy must be good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// It can be used.
    Usable,
    /// It can be relied on at night: owner, reachable channel, explicit action, TTL and runbook are written.
    Production,
}

/// Packs whose callers are SDKs that take a 202 for the answer.
const LLM_PROFILES: &[&str] = &[
    "openai",
    "anthropic",
    "gemini",
    "azure-openai",
    "openrouter",
    "groq",
    "mistral",
    "cohere",
    "together",
    "fireworks",
    "deepseek",
    "xai",
    "cerebras",
    "moonshot",
    "kimi",
    "zai",
    "dashscope",
    "nvidia-nim",
    "github-models",
    "litellm",
    "huggingface",
    "replicate",
];

/// The places at which an owner is written.
const OWNER: [&str; 3] = ["owner", "alert_owner", "on_open.alert_owner"];

/// Adds the warnings and notes of a file, and with [`Demand::Production`] the errors that only that demand makes.
pub(super) fn check(reader: &mut Reader<'_>, file: &RawFile, surface: Option<Surface>, demand: Demand) {
    for own in &file.dependencies {
        let raw = own.over(&file.defaults);
        let Some(name) = own.text("name") else { continue };
        let resolved = resolve::dependency(&raw, &name, surface.unwrap_or_else(|| written_for(&raw)));
        profile(reader, &raw);
        let mut about = About { reader, raw: &raw, name: &name, policy: &resolved.policy, file };
        about.retry();
        about.circuit();
        about.on_open();
        // The gateway itself says it about its own dependencies.
        if surface.is_none() {
            about.probe();
        }
        about.people(demand);
        if demand == Demand::Production {
            about.production();
        }
    }
    // After the dependencies, one of which may make the same words milder.
    profile(reader, &file.defaults);
    unused_owners(reader, file);
}

/// Refuses own rules that cannot be used, and those whose examples come out differently than they say. Costs as much as
/// the examples do, so only who explains a file asks for it; a surface compiles the rules anyway.
pub(super) fn own_rules(reader: &mut Reader<'_>, file: &RawFile) {
    // The defaults stand for dependencies that the file does not name, too.
    let unnamed = std::iter::once(file.defaults.clone());
    for raw in unnamed.chain(file.dependencies.iter().map(|own| own.over(&file.defaults))) {
        let Some(Written::Rules(written)) = raw.get("classify").map(|given| &given.value) else { continue };
        let profile = raw.text("profile").filter(|name| profiles().contains(&name.as_str()));
        let list: Vec<RawRule> = written.iter().map(|(rule, _)| rule.clone()).collect();
        let Err(errors) = check_rules(profile.as_deref().unwrap_or("generic"), &list) else { continue };
        for error in errors {
            let ProfileError::Rule { rule: name, cause } = &error else { continue };
            let Some((_, node)) = written.iter().find(|(rule, _)| rule.name == *name) else { continue };
            let span = rules::blamed(node, cause);
            // A complaint about a regular expression draws its own caret over several lines.
            let message = error.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ");
            if !reader.remarks.iter().any(|remark| remark.span == span && remark.message == message) {
                let help = "docs/classes.md shows rules; halfopen classify tries one".to_owned();
                reader.remark_at("classify", Level::Error, &span, message, Some(help));
            }
        }
    }
}

/// Refuses a profile that is none.
fn profile(reader: &mut Reader<'_>, raw: &Raw) {
    let Some(name) = raw.text("profile") else { return };
    let known = profiles();
    if known.contains(&name.as_str()) {
        return;
    }
    let span = raw.span_of("profile");
    let help = match suggest::nearest(&name, known.iter().copied()) {
        Some(near) => format!("the nearest pack is `{near}`"),
        None => format!("known packs are {}", known.join(", ")),
    };
    if !reader.remarks.iter().any(|remark| remark.span == span) {
        let message = format!("`profile` is `{name}`, and there is no such pack");
        reader.remark_at("profile", Level::Error, &span, message, Some(help));
    }
}

/// One dependency under examination.
struct About<'r, 'a> {
    reader: &'r mut Reader<'a>,
    raw: &'r Raw,
    name: &'r str,
    policy: &'r Policy,
    file: &'r RawFile,
}

impl About<'_, '_> {
    fn say(&mut self, level: Level, path: &str, message: String, help: &str) {
        let span = self.raw.span_of(path);
        // What stands under `defaults` is said once, not once for each dependency.
        if !self.reader.remarks.iter().any(|remark| remark.span == span && remark.message == message) {
            self.reader.remark_at(path, level, &span, message, Some(help.to_owned()));
        }
    }

    fn warn(&mut self, path: &str, message: String, help: &str) {
        self.say(Level::Warning, path, message, help);
    }

    fn note(&mut self, path: &str, message: String, help: &str) {
        self.say(Level::Note, path, message, help);
    }

    /// Returns the first of these keys that is written.
    fn written<'p>(&self, paths: &[&'p str]) -> Option<&'p str> {
        paths.iter().copied().find(|path| self.raw.get(path).is_some())
    }

    fn retry(&mut self) {
        let retry = &self.policy.retry;
        if !retry.honor_retry_after {
            self.warn(
                "retry.honor_retry_after",
                "with `honor_retry_after: false` a stated wait is not obeyed, and the breaker opens sooner".to_owned(),
                "leave it out unless this dependency is known to state nonsense",
            );
        }
        if let Some(deadline) = retry.deadline {
            let waits = [
                ("retry.max_wait_sec", "max_wait_sec", retry.max_wait),
                ("on_open.wait_sec", "wait_sec", self.policy.on_open.wait),
                ("retry.base_ms", "base_ms", retry.backoff.base.min(retry.backoff.max)),
                ("timeout_ms", "timeout_ms", self.policy.timeout.unwrap_or_default()),
            ];
            for (path, word, wait) in waits {
                if wait > deadline && self.raw.get(path).is_some() {
                    let (wait, deadline) = (text(wait), text(deadline));
                    self.warn(
                        path,
                        format!("`{word}` of {wait} is beyond `deadline_sec` of {deadline}, which ends it sooner"),
                        "make one fit the other",
                    );
                }
            }
        }
        if retry.backoff.max < retry.backoff.base {
            let path = self.written(&["retry.max_backoff_ms", "retry.base_ms"]).unwrap_or("retry");
            self.note(
                path,
                "`max_backoff_ms` is less than `base_ms`: every wait is `max_backoff_ms`".to_owned(),
                "write only one of them if that is meant",
            );
        }
        if let (Some(first_byte), Some(timeout)) = (self.policy.first_byte, self.policy.timeout)
            && first_byte >= timeout
        {
            self.warn(
                "first_byte_ms",
                "`first_byte_ms` is not less than `timeout_ms`, which ends the attempt first".to_owned(),
                "make it shorter, or leave it out",
            );
        }
    }

    fn circuit(&mut self) {
        let circuit = &self.policy.circuit;
        let n = circuit.open_after_failures.get();
        let window = text(circuit.window);
        if let Some(timeout) = self.policy.timeout.filter(|timeout| timeout.saturating_mul(n) > circuit.window) {
            let path = self.written(&["circuit.failure_window_sec", "circuit.open_after_failures", "timeout_ms"]);
            self.warn(
                path.unwrap_or("circuit"),
                format!(
                    "{n} timeouts of {} one after the other do not fit into a window of {window}: one caller alone \
                     never opens the breaker by timeouts",
                    text(timeout)
                ),
                "make `failure_window_sec` longer than N × timeout, or N smaller",
            );
        }
        let rare = |every: &Duration| every.saturating_mul(n - 1) > circuit.window;
        if let Some(every) = self.policy.expect_calls_every.filter(rare) {
            let path = self.written(&["circuit.failure_window_sec", "circuit.open_after_failures"]);
            // A nightly batch makes its calls together, so this is no warning; what was observed makes one.
            self.note(
                path.unwrap_or("expect_calls_every"),
                format!("if calls come only every {}, there are never {n} failures within {window}", text(every)),
                "if they come one by one, make `failure_window_sec` longer or `open_after_failures` smaller",
            );
        }
        if circuit.count_unclassified {
            self.note(
                "circuit.count_unclassified",
                "with `count_unclassified: true` a bug in a script can open the breaker".to_owned(),
                "own rules under `classify` are the finer tool",
            );
        }
        if self.policy.mode == Mode::Observe {
            self.note(
                "mode",
                format!("`mode: observe` protects nothing: decisions about `{}` are only noted", self.name),
                "leave it out once the figures of halfopen report look right",
            );
        }
    }

    fn probe(&mut self) {
        if let (Some(ProbeWith::Command(_)), Some(_)) = (&self.policy.probe, self.raw.text("upstream")) {
            self.warn(
                "probe",
                "`probe` is a command, which `halfopen serve` does not run: there a call is the probe".to_owned(),
                "write a URL that is cheap to ask, or leave `probe` out",
            );
        }
    }

    fn on_open(&mut self) {
        let on_open = &self.policy.on_open;
        let actions = on_open.actions.clone();
        let queues = actions.contains(&OnOpenAction::Queue);
        let action = "on_open.action";
        if let Some(ttl) = on_open.queue_ttl {
            let first = self.policy.circuit.open_for;
            if queues && ttl < first {
                self.warn(
                    "on_open.queue_ttl_min",
                    format!(
                        "a queued call expires after {}, before the first cooldown of {} ends",
                        text(ttl),
                        text(first)
                    ),
                    "make `queue_ttl_min` longer, or `open_for_sec` shorter",
                );
            }
            if !queues {
                self.warn(
                    "on_open.queue_ttl_min",
                    "`queue_ttl_min` is written, but nothing is queued".to_owned(),
                    "write `action: queue`, or leave the TTL out",
                );
            }
        }
        let keeps = queues || actions.contains(&OnOpenAction::ManualReview);
        if self.raw.get("on_done").is_some() && !keeps {
            self.warn(
                "on_done",
                "`on_done` is written, but nothing is queued that could end".to_owned(),
                "write `action: queue` under `on_open`, or leave it out",
            );
        }
        if queues && self.policy.probe.is_none() && !self.replay_is_safe() {
            self.warn(
                action,
                format!("`{}` queues with neither `probe` nor safe replay: a queued call must be the probe", self.name),
                "write `probe`, or `idempotency`, or `replay: always` where a second time does no harm",
            );
        }
        let upstream = self.raw.text("upstream");
        let by_host = || upstream.as_deref().and_then(host).map(profile_for_host).map(str::to_owned);
        let llm = self.policy.profile.clone().or_else(by_host).filter(|name| LLM_PROFILES.contains(&name.as_str()));
        if let Some(profile) = llm.filter(|_| queues && upstream.is_some()) {
            self.warn(
                action,
                format!("`queue` answers 202, which SDKs for `{profile}` take for a broken answer"),
                "let `fail_fast` or `fallback` answer them, and queue only what asks with `Prefer: respond-async`",
            );
        }
        if actions.contains(&OnOpenAction::Cache) && self.raw.get("cache").is_none() {
            self.warn(
                action,
                "`cache` is an action, but no cache is kept".to_owned(),
                "write `cache: {max_age_sec: …}`",
            );
        }
        if actions.contains(&OnOpenAction::Fallback) && self.raw.get("fallback").is_none() {
            self.warn(
                action,
                "`fallback` is an action, but no other dependency is named".to_owned(),
                "write `fallback: NAME` beside `on_open`",
            );
        }
        for (key, kept) in [("cache", OnOpenAction::Cache), ("fallback", OnOpenAction::Fallback)] {
            if self.raw.get(key).is_some() && !actions.contains(&kept) {
                self.warn(
                    key,
                    format!("`{key}` is written, but `on_open.action` never comes to it"),
                    "add it to `on_open.action`, or leave it out",
                );
            }
        }
        if actions.contains(&OnOpenAction::Cache)
            && self.raw.get("cache").is_some()
            && self.policy.replay != Replay::Always
        {
            self.note(
                action,
                "`cache` answers GET and HEAD: to a POST its last answer is given only with `replay: always`"
                    .to_owned(),
                "write it where a second time of the same request does no harm",
            );
        }
        self.fallback_has_an_address(&actions);
        let last =
            actions.iter().position(|action| matches!(action, OnOpenAction::FailFast | OnOpenAction::ManualReview));
        if let Some(last) = last.filter(|last| last + 1 < actions.len()) {
            let word = actions.get(last).map_or("", |action| action.as_str());
            self.warn(
                action,
                format!("`{word}` can always be done: what stands behind it is never tried"),
                "put it last",
            );
        }
    }

    /// Warns of another dependency that the gateway cannot reach, where this one is written for the gateway.
    fn fallback_has_an_address(&mut self, actions: &[OnOpenAction]) {
        let Some(to) = self.raw.text("fallback").filter(|_| actions.contains(&OnOpenAction::Fallback)) else { return };
        let other = self.file.dependencies.iter().find(|other| other.text("name").as_deref() == Some(to.as_str()));
        let reached = other.is_none_or(|other| other.over(&self.file.defaults).get("upstream").is_some());
        if self.raw.get("upstream").is_some() && !reached {
            self.warn(
                "fallback",
                format!("`{to}` has no `upstream`, so no call can go there"),
                &format!("write `upstream` at `{to}`, or start with --upstream {to}=URL"),
            );
        }
    }

    fn replay_is_safe(&self) -> bool {
        self.policy.replay == Replay::Always || self.raw.get("idempotency").is_some()
    }

    fn people(&mut self, demand: Demand) {
        let Some(owner) = self.policy.owner.clone() else { return };
        let reachable = self.file.alerts.iter().any(|known| known.name == owner && !known.channels.is_empty());
        if reachable {
            return;
        }
        let path = self.written(&OWNER).unwrap_or("owner");
        let level = if demand == Demand::Production { Level::Error } else { Level::Warning };
        self.say(
            level,
            path,
            format!("nobody can reach the owner `{owner}`: `alerts` names no channel for it"),
            &format!("write `alerts: {{{owner}: [{{email: someone@example.com}}]}}` beside the dependencies"),
        );
    }

    fn production(&mut self) {
        let name = self.name.to_owned();
        let queues = self.policy.on_open.actions.contains(&OnOpenAction::Queue);
        let demands = [
            (self.policy.owner.is_none(), "owner", "write `owner: NAME`, and its channels under `alerts`"),
            (self.policy.runbook.is_none(), "runbook", "write `runbook: URL`, where the owner reads what to do"),
            (
                self.raw.get("on_open.action").is_none(),
                "on_open.action",
                "write `on_open: {action: fail_fast}` if that is meant",
            ),
            (
                queues && self.policy.on_open.queue_ttl.is_none(),
                "on_open.queue_ttl_min",
                "say how long a queued call is worth doing",
            ),
        ];
        for (missing, key, help) in demands {
            if missing {
                self.say(Level::Error, "name", format!("`{name}` has no `{key}`, which production demands"), help);
            }
        }
    }
}

fn unused_owners(reader: &mut Reader<'_>, file: &RawFile) {
    for owner in &file.alerts {
        let used = std::iter::once(&file.defaults)
            .chain(&file.dependencies)
            .any(|raw| resolve::owner(raw).as_deref() == Some(owner.name.as_str()));
        if !used {
            let message = format!("no dependency has the owner `{}`", owner.name);
            reader.remark_at("alerts", Level::Note, &owner.span, message, None);
        }
    }
}

/// Returns the host of a URL that the reader has let pass.
fn host(url: &str) -> Option<&str> {
    let authority = url.split_once("://")?.1.split(['/', '?', '#']).next()?;
    Some(match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next()?,
        None => authority.split(':').next()?,
    })
}

/// Writes a duration as a person would.
fn text(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let (n, unit) = if seconds < 1.0 {
        (seconds * 1000.0, "ms")
    } else if seconds < 120.0 {
        (seconds, "s")
    } else if seconds < 7_200.0 {
        (seconds / 60.0, "min")
    } else {
        (seconds / 3600.0, "h")
    };
    format!("{} {unit}", (n * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_whose_callers_are_sdks_exists() {
        for name in LLM_PROFILES {
            assert!(profiles().contains(name), "{name}");
        }
    }

    #[test]
    fn the_host_of_a_url_is_found() {
        assert_eq!(host("https://api.openai.com/v1"), Some("api.openai.com"));
        assert_eq!(host("http://[::1]:8080/x"), Some("::1"));
        assert_eq!(host("http://ocr:8080"), Some("ocr"));
    }
}
