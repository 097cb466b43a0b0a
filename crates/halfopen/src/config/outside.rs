//! Reads the two blocks in which a secret could end up: credentials and the channels of owners.
//!
//! Neither takes a secret itself, only the variable or the file that holds one, and no message repeats a value that
//! may be a secret in the wrong place.

use super::finding::Level;
use super::keys;
use super::raw::{CHANNELS, RawCredential, RawOwner, Written};
use super::reader::Reader;
use super::suggest;
use super::tree::{Node, Value};
use super::value::{is_header, is_url};

/// What a name may be.
const NAME: &str = "a name without white space, `@` and `=`";

impl Reader<'_> {
    pub(super) fn credentials(&mut self, node: &Node) -> Option<Written> {
        const KNOWN: [&str; 4] = ["from_env", "from_file", "header", "scheme"];
        if !matches!(node.value, Value::Map(_)) {
            return keys::find("credentials").and_then(|key| self.out_of_range(key, node));
        }
        let mut read = Vec::new();
        for (name, name_node, value) in self.entries(node) {
            if halfopen_core::circuit_id::CircuitId::part("d", "credential", &name).is_err() {
                self.error(&name_node.span, format!("`{name}` is no name for a credential; allowed is {NAME}"));
                continue;
            }
            if !matches!(value.value, Value::Map(_)) {
                let message = format!("credential `{name}` is {}; it is a mapping", value.value.kind());
                let help = "secrets do not stand in a policy: write {from_env: VARIABLE} or {from_file: PATH}";
                self.remark(Level::Error, &value.span, message, Some(help.to_owned()));
                continue;
            }
            let mut credential =
                RawCredential { name: name.clone(), from_env: None, from_file: None, header: None, scheme: None };
            for (word, word_node, value) in self.entries(value) {
                match word.as_str() {
                    "from_env" => credential.from_env = self.variable(value),
                    "from_file" => credential.from_file = self.line(value, "from_file"),
                    "header" => match self.line(value, "header") {
                        Some(header) if is_header(&header) => credential.header = Some(header),
                        Some(header) => self.error(&value.span, format!("`{header}` is no name of an HTTP header")),
                        None => {}
                    },
                    "scheme" => credential.scheme = self.line(value, "scheme"),
                    _ => {
                        let message = format!("unknown key `{}`", self.source.excerpt(&word_node.span));
                        let help = match suggest::nearest(&word, KNOWN.into_iter()) {
                            Some(near) => format!("the nearest known key is `{near}`"),
                            None => "secrets do not stand in a policy: write from_env or from_file".to_owned(),
                        };
                        self.remark(Level::Error, &word_node.span, message, Some(help));
                    }
                }
            }
            if credential.from_env.is_some() == credential.from_file.is_some() {
                let message = format!("credential `{name}` needs either `from_env` or `from_file`");
                self.error(&name_node.span, message);
            }
            read.push(credential);
        }
        Some(Written::Credentials(read))
    }

    pub(super) fn variable(&mut self, node: &Node) -> Option<String> {
        let name = self.line(node, "from_env")?;
        let fits = name
            .chars()
            .enumerate()
            .all(|(index, c)| c == '_' || c.is_ascii_alphabetic() || (index > 0 && c.is_ascii_digit()));
        if fits {
            return Some(name);
        }
        // It may be the secret itself, so it is not repeated.
        let help = "write the name of the variable that holds the secret, not the secret";
        let message = "`from_env` is no name of an environment variable".to_owned();
        self.remark(Level::Error, &node.span, message, Some(help.to_owned()));
        None
    }

    pub(super) fn alerts(&mut self, node: &Node) -> Vec<RawOwner> {
        let mut owners = Vec::new();
        match &node.value {
            Value::Null => {}
            Value::Map(_) => {
                for (name, key, value) in self.entries(node) {
                    self.enter(name.clone());
                    let items = match &value.value {
                        Value::List(items) => items.iter().collect(),
                        Value::Null => Vec::new(),
                        _ => vec![value],
                    };
                    let channels = items.into_iter().flat_map(|item| self.channel(item)).collect();
                    owners.push(RawOwner { name, channels, span: key.span.clone() });
                    self.leave();
                }
            }
            other => {
                let message = format!("`alerts` is {}; it maps each owner to a list of channels", other.kind());
                self.error(&node.span, message);
            }
        }
        owners
    }

    fn channel(&mut self, node: &Node) -> Vec<(String, Vec<String>)> {
        let known = || format!("a channel is one of {}", CHANNELS.join(", "));
        if !matches!(node.value, Value::Map(_)) {
            let message = format!("a channel is a mapping such as `webhook: URL`, this is {}", node.value.kind());
            self.remark(Level::Error, &node.span, message, Some(known()));
            return Vec::new();
        }
        let mut read = Vec::new();
        for (word, key, value) in self.entries(node) {
            match word.as_str() {
                "command" => {
                    if let Value::List(items) = &value.value {
                        let words: Option<Vec<_>> = items.iter().map(|item| self.line(item, "command")).collect();
                        read.extend(words.filter(|words| !words.is_empty()).map(|words| (word, words)));
                    } else if let Some(text) = self.line(value, "command") {
                        read.push((word, text.split_whitespace().map(str::to_owned).collect()));
                    }
                }
                "webhook" | "slack" => match self.line(value, &word) {
                    Some(url) if is_url(&url) => read.push((word, vec![url])),
                    Some(_) => self.error(&value.span, format!("`{word}` is no http or https URL")),
                    None => {}
                },
                "webhook_from_env" | "slack_from_env" => {
                    read.extend(self.variable(value).map(|name| (word, vec![name])));
                }
                "email" => match self.line(value, "email") {
                    Some(to) if to.split('@').filter(|part| !part.is_empty()).count() == 2 => {
                        read.push((word, vec![to]));
                    }
                    Some(to) => self.error(&value.span, format!("`{to}` is no mail address")),
                    None => {}
                },
                _ => {
                    let message = format!("unknown key `{}`", self.source.excerpt(&key.span));
                    self.remark(Level::Error, &key.span, message, Some(known()));
                }
            }
        }
        read
    }
}
