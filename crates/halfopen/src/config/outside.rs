//! Reads the blocks in which a secret could end up: credentials, the channels of owners, the receivers of `on_done`.
//!
//! None takes a secret itself, only the variable or the file that holds one, and no message repeats a value that
//! may be a secret in the wrong place.

use std::ops::Range;

use super::finding::Level;
use super::keys;
use super::keys::Key;
use super::raw::{CHANNELS, RECEIVERS, RECEIVERS_MAX, RawCredential, RawOwner, Written};
use super::reader::Reader;
use super::suggest;
use super::tree::{Node, Value};
use super::value::{is_header, is_url};
use super::wiring::{Channel, SecretUrl};

/// The variable that holds the mail server's URL where the policy names no other.
const SMTP_VARIABLE: &str = "HALFOPEN_SMTP_URL";

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
                let message = format!("`{name}` is no name for a credential; allowed is {NAME}");
                self.error(&name_node.span, message, "write for example `main`");
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
            let entries = self.entries(value);
            let from = |word: &str| entries.iter().filter(|(known, ..)| known == word).count();
            let sources = from("from_env") + from("from_file");
            for (word, word_node, value) in entries {
                match word.as_str() {
                    "from_env" => credential.from_env = self.variable(value),
                    "from_file" => credential.from_file = self.line(value, "from_file"),
                    "header" => match self.line(value, "header") {
                        Some(header) if is_header(&header) => credential.header = Some(header),
                        Some(header) => {
                            let message = format!("`header` is `{header}`; allowed is the name of an HTTP header");
                            self.error(&value.span, message, "write for example `header: X-Api-Key`");
                        }
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
            if sources != 1 {
                let has = if sources == 0 { "has neither" } else { "has both" };
                let message = format!("credential `{name}` needs either `from_env` or `from_file`, and {has}");
                self.error(&name_node.span, message, "write for example `from_env: OCR_TOKEN`");
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
                    let channels =
                        items.into_iter().flat_map(|item| self.channel(item, "a channel", CHANNELS)).collect();
                    owners.push(RawOwner { name, channels, span: key.span.clone() });
                    self.leave();
                }
            }
            other => {
                let written = self.written(node, other);
                let message = format!("`alerts` is {written}; it maps each owner to a list of channels");
                self.error(&node.span, message, "write for example `alerts: {platform: [{email: ops@example.com}]}`");
            }
        }
        owners
    }

    /// Reads the programs that are told of ended jobs.
    pub(super) fn receivers(&mut self, key: &Key, node: &Node) -> Option<Written> {
        let items: Vec<&Node> = match &node.value {
            Value::List(items) => items.iter().collect(),
            Value::Map(_) => vec![node],
            _ => return self.out_of_range(key, node),
        };
        let before = self.remarks.len();
        let read: Vec<Channel> =
            items.into_iter().flat_map(|item| self.channel(item, "a receiver", RECEIVERS)).collect();
        // What is wrong with one of them has been said.
        if self.remarks.len() == before && !(1..=RECEIVERS_MAX).contains(&read.len()) {
            return self.out_of_range(key, node);
        }
        Some(Written::Receivers(read))
    }

    fn channel(&mut self, node: &Node, what: &str, words: &[&str]) -> Vec<Channel> {
        let known = || format!("{what} is one of {}", words.join(", "));
        if !matches!(node.value, Value::Map(_)) {
            let message = format!("{what} is a mapping such as `webhook: URL`, this is {}", node.value.kind());
            self.remark(Level::Error, &node.span, message, Some(known()));
            return Vec::new();
        }
        let mut read = Vec::new();
        for (word, key, value) in self.entries(node) {
            match Some(word.as_str()).filter(|word| words.contains(word)).unwrap_or_default() {
                "command" => {
                    if let Value::List(items) = &value.value {
                        let words: Option<Vec<_>> = items.iter().map(|item| self.line(item, "command")).collect();
                        read.extend(words.filter(|words| !words.is_empty()).map(Channel::Command));
                    } else if let Some(text) = self.line(value, "command") {
                        read.push(Channel::Command(text.split_whitespace().map(str::to_owned).collect()));
                    }
                }
                "webhook" => read.extend(self.webhook(value)),
                "slack" => read.extend(self.slack(value)),
                "webhook_from_env" => {
                    let url = self.variable(value).map(SecretUrl::Env);
                    read.extend(url.map(|url| Channel::Webhook { url, secret: None }));
                }
                "slack_from_env" => read.extend(self.variable(value).map(|name| Channel::Slack(SecretUrl::Env(name)))),
                "email" => read.extend(self.email(value)),
                _ => {
                    let message = format!("unknown key `{}`", self.source.excerpt(&key.span));
                    self.remark(Level::Error, &key.span, message, Some(known()));
                }
            }
        }
        read
    }

    fn webhook(&mut self, node: &Node) -> Option<Channel> {
        if !matches!(node.value, Value::Map(_)) {
            return Some(Channel::Webhook { url: self.written_url(node, "webhook")?, secret: None });
        }
        let (mut url, mut secret, mut named) = (None, None, false);
        for (word, key, value) in self.entries(node) {
            named |= ["url", "url_from_env"].contains(&word.as_str());
            match word.as_str() {
                "url" => url = self.written_url(value, "url"),
                "url_from_env" => url = self.variable(value).map(SecretUrl::Env),
                "secret_from_env" => secret = self.variable(value),
                _ => self.unknown_in("webhook", &key.span, &["url", "url_from_env", "secret_from_env"]),
            }
        }
        self.demanded(named, "webhook", node);
        url.map(|url| Channel::Webhook { url, secret })
    }

    fn slack(&mut self, node: &Node) -> Option<Channel> {
        if !matches!(node.value, Value::Map(_)) {
            return Some(Channel::Slack(self.written_url(node, "slack")?));
        }
        let (mut url, mut named) = (None, false);
        for (word, key, value) in self.entries(node) {
            named |= ["url", "url_from_env"].contains(&word.as_str());
            match word.as_str() {
                "url" => url = self.written_url(value, "url"),
                "url_from_env" => url = self.variable(value).map(SecretUrl::Env),
                _ => self.unknown_in("slack", &key.span, &["url", "url_from_env"]),
            }
        }
        self.demanded(named, "slack", node);
        url.map(Channel::Slack)
    }

    fn email(&mut self, node: &Node) -> Option<Channel> {
        let smtp = SMTP_VARIABLE.to_owned();
        if !matches!(node.value, Value::Map(_)) {
            return Some(Channel::Email { to: vec![self.address(node)?], from: None, smtp });
        }
        let (mut to, mut from, mut server, mut named) = (Vec::new(), None, Some(smtp), false);
        for (word, key, value) in self.entries(node) {
            named |= word == "to" && !matches!(&value.value, Value::List(items) if items.is_empty());
            match (word.as_str(), &value.value) {
                ("to", Value::List(items)) => to = items.iter().filter_map(|item| self.address(item)).collect(),
                ("to", _) => to.extend(self.address(value)),
                ("from", _) => from = self.address(value),
                ("smtp_from_env", _) => server = self.variable(value),
                _ => self.unknown_in("email", &key.span, &["to", "from", "smtp_from_env"]),
            }
        }
        if !named {
            let message = "`email` needs `to`: an address, or a list of them".to_owned();
            self.error(&node.span, message, "write for example `to: ops@example.com`");
        }
        if to.is_empty() {
            return None;
        }
        server.map(|smtp| Channel::Email { to, from, smtp })
    }

    fn address(&mut self, node: &Node) -> Option<String> {
        let to = self.line(node, "email")?;
        if to.split('@').filter(|part| !part.is_empty()).count() == 2 {
            return Some(to);
        }
        let message = format!("`{to}` is no mail address; allowed is NAME@DOMAIN");
        self.error(&node.span, message, "write for example `ops@example.com`");
        None
    }

    fn written_url(&mut self, node: &Node, word: &str) -> Option<SecretUrl> {
        let url = self.line(node, word)?;
        if is_url(&url) {
            return Some(SecretUrl::Written(url));
        }
        // What stands there may be a secret, and is not repeated.
        let message = format!("`{word}` is no http or https URL without a user name");
        self.error(
            &node.span,
            message,
            "write for example `https://hooks.example.com/ours`; one that is a secret stands in a variable",
        );
        None
    }

    /// Demands that an address is named. One that is named and wrong has been refused where it stands.
    fn demanded(&mut self, named: bool, word: &str, node: &Node) {
        if !named {
            let message = format!("`{word}` needs either `url` or `url_from_env`, and has neither");
            self.error(&node.span, message, "write for example `url_from_env: WEBHOOK_URL`");
        }
    }

    fn unknown_in(&mut self, word: &str, span: &Range<usize>, known: &[&str]) {
        let message = format!("unknown key `{}`", self.source.excerpt(span));
        self.remark(Level::Error, span, message, Some(format!("`{word}` has {}", known.join(", "))));
    }
}
