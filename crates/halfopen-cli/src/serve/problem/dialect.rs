//! The shapes of an error body: ours, and those of vendors whose SDKs read nothing else.

use std::fmt;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::Problem;

/// What begins the `type` of every problem.
const TYPE_PREFIX: &str = "urn:halfopen:problem:";

/// The shape of an error that a dependency's callers expect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) enum Dialect {
    /// A problem document and nothing beside it.
    #[default]
    Problem,
    /// `{"error":{"message","type","code","param"}}`: <https://platform.openai.com/docs/guides/error-codes>.
    OpenAi,
    /// `{"type":"error","error":{"type","message"}}`: <https://docs.anthropic.com/en/api/errors>.
    Anthropic,
    /// `{"error":{"code","message","status"}}`: <https://cloud.google.com/apis/design/errors>.
    Google,
}

/// The profiles whose callers expect another shape than a problem document.
const DIALECTS: &[(Dialect, &[&str])] = &[
    (
        Dialect::OpenAi,
        &[
            "openai",
            "codex",
            "azure-openai",
            "openrouter",
            "groq",
            "mistral",
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
            "ollama",
            "litellm",
            "github-models",
            "huggingface",
        ],
    ),
    (Dialect::Anthropic, &["anthropic", "claude-code"]),
    (Dialect::Google, &["gemini", "gemini-cli", "google"]),
];

impl Dialect {
    /// Returns the shape that callers of a dependency with this profile expect.
    pub(in super::super) fn of(profile: &str) -> Self {
        DIALECTS.iter().find(|(_, profiles)| profiles.contains(&profile)).map_or(Self::Problem, |(dialect, _)| *dialect)
    }
}

/// The body of a [`Problem`]: the shape's own members first, then those of the problem. It is written as it is read, for
/// refusals come by the thousand.
pub(super) struct Document<'a> {
    pub(super) problem: &'a Problem,
    pub(super) dialect: Dialect,
}

/// The member `error` of OpenAI's shape.
#[derive(Serialize)]
struct OpenAiError<'a> {
    message: fmt::Arguments<'a>,
    r#type: &'static str,
    code: &'static str,
    /// Always `null`.
    param: (),
}

/// The member `error` of Anthropic's shape.
#[derive(Serialize)]
struct AnthropicError<'a> {
    r#type: &'static str,
    message: fmt::Arguments<'a>,
}

/// The member `error` of Google's shape.
#[derive(Serialize)]
struct GoogleError<'a> {
    code: u16,
    message: fmt::Arguments<'a>,
    status: &'static str,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { problem, dialect } = self;
        let kind = problem.kind;
        let (title, name, status) = (kind.title(), kind.name(), kind.status().as_u16());
        let detail = problem.detail.as_str();
        let mut members = serializer.serialize_map(None)?;
        match dialect {
            Dialect::Problem => {}
            Dialect::OpenAi => members.serialize_entry(
                "error",
                &OpenAiError {
                    message: format_args!("{title}. {detail}"),
                    r#type: openai_type(status),
                    code: name,
                    param: (),
                },
            )?,
            Dialect::Anthropic => {
                members.serialize_entry("type", "error")?;
                members.serialize_entry(
                    "error",
                    &AnthropicError { r#type: anthropic_type(status), message: format_args!("{title}. {detail}") },
                )?;
            }
            Dialect::Google => members.serialize_entry(
                "error",
                &GoogleError {
                    code: status,
                    message: format_args!("{title}. {detail}"),
                    status: google_status(status),
                },
            )?,
        }
        let of_type = if *dialect == Dialect::Anthropic { "problem" } else { "type" };
        members.serialize_entry(of_type, &format_args!("{TYPE_PREFIX}{name}"))?;
        members.serialize_entry("title", title)?;
        members.serialize_entry("status", &status)?;
        members.serialize_entry("detail", detail)?;
        let words = [
            ("dependency", problem.dependency.as_deref()),
            ("circuit", problem.circuit.as_deref()),
            ("state", problem.state),
            ("reason", problem.reason.as_deref()),
            ("class", problem.class),
            ("user_message", problem.user_message.as_deref()),
        ];
        for (name, word) in words {
            if let Some(word) = word {
                members.serialize_entry(name, word)?;
            }
        }
        if let Some(retry_at) = problem.retry_at {
            members.serialize_entry("retry_at", &format_args!("{:.3}", retry_at.at))?;
        }
        members.serialize_entry("attempts", &problem.attempts)?;
        members.serialize_entry("may_have_run", &kind.may_have_run())?;
        members.end()
    }
}

const fn openai_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    }
}

const fn anthropic_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        400..=499 => "invalid_request_error",
        // Never `overloaded_error`: agents take that for an invitation.
        _ => "api_error",
    }
}

const fn google_status(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ABORTED",
        429 => "RESOURCE_EXHAUSTED",
        400..=499 => "INVALID_ARGUMENT",
        501 => "UNIMPLEMENTED",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INTERNAL",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_of_the_table_exists() {
        for profile in DIALECTS.iter().flat_map(|(_, profiles)| profiles.iter()) {
            let found = halfopen_core::classify::Classifier::new(profile, Vec::new());
            assert!(found.is_ok(), "{profile}");
        }
        assert_eq!(Dialect::of("stripe"), Dialect::Problem);
    }
}
