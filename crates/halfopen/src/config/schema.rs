//! Writes the JSON Schema of the policy file, so that an editor completes and checks it while it is written.
//!
//! It is made from [`super::keys`], the list the reader itself goes by, and not derived from types: the rough form has
//! no types that know a range. What two keys may not say together is beyond a schema; `halfopen check` knows.

use halfopen_core::verdict::Class;
use serde_json::{Map, Value, json};

use super::keys::{self, Key, Kind};
use super::raw::{CHANNELS, RECEIVERS, RECEIVERS_MAX};

/// Returns the JSON Schema (draft 2020-12) of a policy file.
#[must_use]
pub fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "halfopen policy",
        "description": "When calls to a dependency wait, stop and return.",
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": {
            "dependency_guard": described("the one dependency of this file", json!({ "$ref": "#/$defs/dependency" })),
            "dependencies": described(
                "the dependencies of this file",
                json!({ "type": ["array", "null"], "items": { "$ref": "#/$defs/dependency" } }),
            ),
            "defaults": described(
                "keys that hold for every dependency that does not say otherwise",
                json!({ "$ref": "#/$defs/defaults" }),
            ),
            "alerts": described(
                "owners and the channels they are reached by",
                json!({
                    "type": ["object", "null"],
                    "additionalProperties": {
                        "anyOf": [
                            { "type": "null" },
                            { "$ref": "#/$defs/channel" },
                            { "type": "array", "items": { "$ref": "#/$defs/channel" } },
                        ],
                    },
                }),
            ),
            "store": described(
                "where circuits are kept: a path, or sqlite:PATH; the flag and HALFOPEN_STORE come first",
                json!({ "type": "string", "minLength": 1 }),
            ),
        },
        "$defs": {
            "dependency": dependency(),
            "defaults": group("", |word| word != "name"),
            "channel": channel(CHANNELS),
            "receiver": channel(RECEIVERS),
            "credential": credential(),
            "rule": rule(),
            "condition": condition(),
            "test": test(),
            "example": example(),
            "words": words(),
        },
    })
}

fn dependency() -> Value {
    let mut schema = group("", |_| true);
    schema["type"] = json!("object");
    schema["required"] = json!(["name"]);
    schema
}

/// Returns the schema of a mapping.
fn group(path: &str, wanted: impl Fn(&str) -> bool) -> Value {
    let properties: Map<String, Value> = keys::below(path)
        .filter(|(word, _)| wanted(word))
        .map(|(word, key)| (word.to_owned(), property(key)))
        .collect();
    json!({ "type": ["object", "null"], "additionalProperties": false, "properties": properties })
}

fn property(key: &Key) -> Value {
    let mut schema = of_kind(key);
    let text = match key.default {
        "" => key.meaning.to_owned(),
        default => format!("{}. Default: {default}", key.meaning),
    };
    schema["description"] = json!(text);
    if !key.example.is_empty()
        && let Some(example) = super::tree::parse(key.example).ok().and_then(|node| super::tree::to_json(&node))
    {
        schema["examples"] = json!([example]);
    }
    schema
}

fn of_kind(key: &Key) -> Value {
    let part = r"^(header:[!#$%&'*+.^_`|~0-9A-Za-z-]+|argument:[^\s=@]+)$";
    match key.kind {
        Kind::Group => group(key.path, |_| true),
        Kind::Name => json!({ "type": ["string", "number"], "pattern": r"^[^\s@=]+$" }),
        Kind::Text => json!({ "type": ["string", "number", "boolean"], "pattern": r"^.*\S.*$" }),
        Kind::Header => json!({ "type": "string", "pattern": r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" }),
        Kind::Url => json!({ "type": "string", "pattern": r"^https?://[^\s@?#/:][^\s@?#]*$" }),
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Count { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Number { min, max } | Kind::Time { min, max, .. } => {
            json!({ "type": "number", "minimum": min, "maximum": max })
        }
        Kind::Span { .. } => json!({
            "type": "string",
            "pattern": r"^\s*[0-9.]+\s*(ms|s|sec|secs|seconds|m|min|mins|minutes|h|hour|hours|d|day|days)\s*$",
        }),
        Kind::Bytes { min, max } => json!({
            "anyOf": [
                { "type": "integer", "minimum": min, "maximum": max },
                { "type": "string", "pattern": r"^\s*[0-9]+\s*(B|KiB|MiB|GiB|TiB)\s*$" },
            ],
        }),
        Kind::Word(words) => json!({ "enum": words }),
        Kind::WordOrBool(words) => {
            let mut all = vec![json!(true), json!(false)];
            all.extend(words.iter().map(|word| json!(word)));
            json!({ "enum": all })
        }
        Kind::Words(words) => json!({
            "anyOf": [
                { "enum": words },
                { "type": "array", "minItems": 1, "uniqueItems": true, "items": { "enum": words } },
            ],
        }),
        Kind::Parts => {
            let item = json!({ "anyOf": [{ "enum": ["region", "credential", "model"] }, { "pattern": part }] });
            json!({
                "anyOf": [
                    { "type": "string", "allOf": [item.clone()] },
                    { "type": "array", "minItems": 1, "uniqueItems": true, "items": item },
                ],
            })
        }
        Kind::Order => json!({ "type": "string", "anyOf": [{ "enum": ["path", "none"] }, { "pattern": part }] }),
        Kind::Probe => json!({
            "anyOf": [
                { "type": "string", "minLength": 1 },
                { "type": "array", "minItems": 1, "items": { "type": ["string", "number", "boolean"] } },
            ],
        }),
        Kind::Credentials => json!({ "type": "object", "additionalProperties": { "$ref": "#/$defs/credential" } }),
        Kind::Receivers => json!({
            "anyOf": [
                { "$ref": "#/$defs/receiver" },
                { "type": "array", "minItems": 1, "maxItems": RECEIVERS_MAX, "items": { "$ref": "#/$defs/receiver" } },
            ],
        }),
        Kind::Rules => json!({ "type": "array", "items": { "$ref": "#/$defs/rule" } }),
    }
}

fn credential() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "oneOf": [{ "required": ["from_env"] }, { "required": ["from_file"] }],
        "properties": {
            "from_env": { "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$",
                "description": "the variable that holds the secret" },
            "from_file": { "type": "string", "minLength": 1, "description": "the file that holds the secret" },
            "header": { "type": "string", "description": "the header it is sent in. Default: Authorization" },
            "scheme": { "type": "string", "description": "the word before it. Default: Bearer in Authorization" },
        },
    })
}

fn channel(words: &[&str]) -> Value {
    let url = || json!({ "type": "string", "pattern": "^https?://" });
    let address = || json!({ "type": "string", "pattern": "^[^@]+@[^@]+$" });
    let variable = || json!({ "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" });
    let mut properties = Map::new();
    for word in words {
        let schema = match *word {
            "command" => json!({
                "anyOf": [{ "type": "string" }, { "type": "array", "minItems": 1, "items": { "type": "string" } }],
            }),
            "webhook" => json!({ "anyOf": [url(), {
                "type": "object",
                "additionalProperties": false,
                "properties": { "url": url(), "url_from_env": variable(), "secret_from_env": variable() },
            }] }),
            "slack" => json!({ "anyOf": [url(), {
                "type": "object",
                "additionalProperties": false,
                "properties": { "url": url(), "url_from_env": variable() },
            }] }),
            "email" => json!({ "anyOf": [address(), {
                "type": "object",
                "additionalProperties": false,
                "required": ["to"],
                "properties": {
                    "to": { "anyOf": [address(), { "type": "array", "minItems": 1, "items": address() }] },
                    "from": address(),
                    "smtp_from_env": variable(),
                },
            }] }),
            _ => variable(),
        };
        properties.insert((*word).to_owned(), schema);
    }
    json!({ "type": "object", "additionalProperties": false, "minProperties": 1, "properties": properties })
}

/// The grammar of own rules. A test holds it against the types that read it.
fn rule() -> Value {
    let classes: Vec<&str> = Class::ALL.iter().map(|class| class.as_str()).collect();
    let conditions = || json!({ "type": "array", "items": { "$ref": "#/$defs/condition" } });
    let examples = || json!({ "type": "array", "items": { "$ref": "#/$defs/example" } });
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["name", "class"],
        "properties": {
            "name": { "type": "string", "pattern": "^[A-Za-z0-9_-]+$" },
            "when": described("what must hold, all of it", conditions()),
            "any": described("of which at least one must hold", conditions()),
            "unless": described("of which none may hold", conditions()),
            "class": described("what it means", json!({ "enum": classes })),
            "kind": described("the kind of evidence", json!({ "type": ["string", "null"] })),
            "weak": described("it speaks only if no message text does", json!({ "type": "boolean" })),
            "about": described("whom it is about", json!({ "enum": ["place", "account", "caller", "nobody", null] })),
            "scope": described("the part it covers, such as model", json!({ "type": ["string", "null"] })),
            "reached": described(
                "how far the attempt got",
                json!({ "enum": ["not_sent", "unknown", "refused", "answered", null] }),
            ),
            "retry": described("what it says about trying again", json!({ "enum": ["allowed", "forbidden", null] })),
            "work": described("whether it shows work", json!({ "enum": ["none", "shown", null] })),
            "wait": described("the wait if none is stated, such as 30s", json!({ "type": ["string", "null"] })),
            "ignore_hints": described("stated waits belong to another limit", json!({ "type": "boolean" })),
            "examples": {
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "speaks": described("the rule decides these", examples()),
                    "silent": described("the rule does not decide these", examples()),
                },
            },
        },
    })
}

fn condition() -> Value {
    let mut properties = Map::new();
    for word in ["status", "exit", "code", "method", "exhausted"] {
        properties.insert(word.to_owned(), json!({ "$ref": "#/$defs/words" }));
    }
    for word in ["message", "header", "json", "xml", "sse", "event", "stdout", "stderr", "body"] {
        properties.insert(word.to_owned(), json!({ "$ref": "#/$defs/test" }));
    }
    properties.insert("over_limit".to_owned(), json!({ "type": "boolean" }));
    json!({
        "type": "object",
        "additionalProperties": false,
        "minProperties": 1,
        "maxProperties": 1,
        "properties": properties,
    })
}

fn test() -> Value {
    let text = || json!({ "type": "string" });
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "name": described("header name", text()),
            "path": described("JSON path", text()),
            "element": described("XML element", text()),
            "event": described("event name or type", text()),
            "part": json!({ "enum": ["", "whole", "first_line", "last_line", "any_line"] }),
            "is": described("equals one of these", json!({ "$ref": "#/$defs/words" })),
            "says": described("contains one of these phrases", json!({ "$ref": "#/$defs/words" })),
            "starts": described("begins with one of these", json!({ "$ref": "#/$defs/words" })),
            "matches": described("matches this regular expression", json!({ "type": ["string", "null"] })),
            "above": { "type": ["number", "null"] },
            "below": { "type": ["number", "null"] },
            "present": described("is there at all, or not", json!({ "type": ["boolean", "null"] })),
        },
    })
}

fn example() -> Value {
    let text = || json!({ "type": "string" });
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "exit": described("exit code; 1 if not given", json!({ "type": ["integer", "null"] })),
            "stdout": text(),
            "stderr": text(),
            "status": described("HTTP status", json!({ "type": ["integer", "null"] })),
            "method": text(),
            "headers": described("one `name: value` each", json!({ "type": "array", "items": { "type": "string" } })),
            "body": text(),
            "class": described("the class that must come out", json!({ "type": ["string", "null"] })),
        },
    })
}

fn words() -> Value {
    let word = || json!({ "type": ["string", "number", "boolean"] });
    json!({ "anyOf": [word(), { "type": "array", "items": word() }] })
}

fn described(meaning: &str, mut schema: Value) -> Value {
    schema["description"] = json!(meaning);
    schema
}
