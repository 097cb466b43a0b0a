//! Reads the rough form of a policy file: every key optional, every value of the kind and in the range its key allows.
//!
//! Nothing is decided here about two keys together: that is `resolve` and `check`. A value that cannot be taken is
//! remarked and left out, and reading goes on, so that a person sees every mistake at once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use halfopen_core::classify::raw::RawRule;
use halfopen_core::policy::ProbeWith;

use super::finding::{Level, Remark, Source};
use super::keys::{self, Key, Kind, Unit};
use super::tree::{Node, Value};
use super::{rules, suggest};

/// More remarks than this help nobody.
const REMARKS_MAX: usize = 500;
/// The longest text of a value, in characters.
const TEXT_CHARS_MAX: usize = 2_000;
/// Keys of the whole file.
const TOP: &[&str] = &["dependency_guard", "dependencies", "defaults", "alerts", "store"];
/// What a channel of `alerts` may be.
pub(super) const CHANNELS: &[&str] = &["webhook", "webhook_from_env", "slack", "slack_from_env", "email", "command"];

/// A file as it is written.
#[derive(Clone, Debug, Default)]
pub(super) struct RawFile {
    pub(super) dependencies: Vec<Raw>,
    pub(super) defaults: Raw,
    pub(super) alerts: Vec<RawOwner>,
    pub(super) store: Option<String>,
}

/// The keys of one dependency as they are written, by path.
#[derive(Clone, Debug, Default)]
pub(super) struct Raw {
    given: BTreeMap<&'static str, Given>,
    /// Where the block begins.
    pub(super) span: Range<usize>,
}

/// A written value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) value: Written,
    pub(super) span: Range<usize>,
}

/// A value of the kind its key allows.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Written {
    Group,
    Text(String),
    Bool(bool),
    Count(u64),
    Number(f64),
    Time(Duration),
    Words(Vec<String>),
    Probe(ProbeWith),
    Credentials(Vec<RawCredential>),
    /// Each with the block it was read from.
    Rules(Vec<(RawRule, Node)>),
}

/// A credential as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawCredential {
    pub(super) name: String,
    pub(super) from_env: Option<String>,
    pub(super) from_file: Option<String>,
    pub(super) header: Option<String>,
    pub(super) scheme: Option<String>,
}

/// An owner and how to reach them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawOwner {
    pub(super) name: String,
    /// Kind and value of each channel.
    pub(super) channels: Vec<(String, Vec<String>)>,
    pub(super) span: Range<usize>,
}

impl Raw {
    /// Returns what is written at `path`.
    pub(super) fn get(&self, path: &str) -> Option<&Given> {
        self.given.get(path)
    }

    /// Returns where `path` is written, else where the block begins.
    pub(super) fn span_of(&self, path: &str) -> Range<usize> {
        self.get(path).map_or_else(|| self.span.clone(), |given| given.span.clone())
    }

    /// Returns this block with the keys of `defaults` where it is silent.
    pub(super) fn over(&self, defaults: &Self) -> Self {
        let mut given = defaults.given.clone();
        given.extend(self.given.iter().map(|(path, value)| (*path, value.clone())));
        Self { given, span: self.span.clone() }
    }

    pub(super) fn text(&self, path: &str) -> Option<String> {
        match &self.get(path)?.value {
            Written::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    pub(super) fn bool(&self, path: &str) -> Option<bool> {
        match self.get(path)?.value {
            Written::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn count(&self, path: &str) -> Option<u64> {
        match self.get(path)?.value {
            Written::Count(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn number(&self, path: &str) -> Option<f64> {
        match self.get(path)?.value {
            Written::Number(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn time(&self, path: &str) -> Option<Duration> {
        match self.get(path)?.value {
            Written::Time(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn words(&self, path: &str) -> Option<Vec<String>> {
        match &self.get(path)?.value {
            Written::Words(words) => Some(words.clone()),
            _ => None,
        }
    }
}

/// Reads a tree and gathers what there is to say.
pub(super) struct Reader<'a> {
    pub(super) source: Source<'a>,
    pub(super) remarks: Vec<Remark>,
    /// Where the reader is, from the top of the file.
    at: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: Source<'a>) -> Self {
        Self { source, remarks: Vec::new(), at: Vec::new() }
    }

    /// Adds a remark about what stands at `span`.
    pub(super) fn remark(&mut self, level: Level, span: &Range<usize>, message: String, help: Option<String>) {
        let key = self.at.join(".").replace(".[", "[");
        self.remark_at(&key, level, span, message, help);
    }

    /// Adds a remark about `key`, which stands at `span`.
    pub(super) fn remark_at(
        &mut self,
        key: &str,
        level: Level,
        span: &Range<usize>,
        message: String,
        help: Option<String>,
    ) {
        if self.remarks.len() < REMARKS_MAX {
            self.remarks.push(Remark { level, span: span.clone(), key: key.to_owned(), message, help });
        }
    }

    fn error(&mut self, span: &Range<usize>, message: String) {
        self.remark(Level::Error, span, message, None);
    }

    /// Reads a whole file.
    pub(super) fn file(&mut self, root: &Node) -> RawFile {
        let mut file = RawFile::default();
        let entries = match &root.value {
            Value::Null => {
                let help = "an empty policy is the built-in one; halfopen init writes a policy to start from";
                self.remark(
                    Level::Warning,
                    &root.span,
                    "the file names no dependency".to_owned(),
                    Some(help.to_owned()),
                );
                return file;
            }
            Value::Map(_) => self.entries(root),
            other => {
                let message = format!("a policy file is a mapping, this is {}", other.kind());
                self.remark(Level::Error, &root.span, message, Some(format!("known keys here are {}", TOP.join(", "))));
                return file;
            }
        };
        for (word, key, value) in entries {
            self.at.push(word.clone());
            match word.as_str() {
                "dependency_guard" => {
                    let raw = self.dependency(value, &key.span);
                    file.dependencies.extend(raw);
                }
                "dependencies" => file.dependencies.extend(self.dependencies(value)),
                "defaults" => file.defaults = self.block(value, &key.span, Block::Defaults).unwrap_or_default(),
                "alerts" => file.alerts = self.alerts(value),
                "store" => file.store = self.line(value, "store"),
                _ => {
                    let message = format!("unknown key `{}`", self.source.excerpt(&key.span));
                    let help = if keys::find(&word).is_some() {
                        format!("`{word}` stands under `dependency_guard`, or in an item of `dependencies`")
                    } else if let Some(near) = suggest::nearest(&word, TOP.iter().copied()) {
                        format!("the nearest known key is `{near}`")
                    } else {
                        format!("known keys here are {}", TOP.join(", "))
                    };
                    self.remark(Level::Error, &key.span, message, Some(help));
                }
            }
            self.at.pop();
        }
        file
    }

    fn dependencies(&mut self, node: &Node) -> Vec<Raw> {
        match &node.value {
            Value::Null => Vec::new(),
            Value::List(items) => {
                let mut read = Vec::new();
                for (index, item) in items.iter().enumerate() {
                    self.at.push(format!("[{index}]"));
                    let span = match &item.value {
                        Value::Map(entries) => {
                            entries.first().map_or_else(|| item.span.clone(), |(key, _)| key.span.clone())
                        }
                        _ => item.span.clone(),
                    };
                    read.extend(self.dependency(item, &span));
                    self.at.pop();
                }
                read
            }
            other => {
                let message = format!("`dependencies` is {}; it is a list of dependencies", other.kind());
                self.remark(Level::Error, &node.span, message, Some("write `- name: NAME` below it".to_owned()));
                Vec::new()
            }
        }
    }

    fn dependency(&mut self, node: &Node, span: &Range<usize>) -> Option<Raw> {
        let raw = self.block(node, span, Block::Dependency)?;
        let written = match &node.value {
            Value::Map(entries) => entries.iter().any(|(key, _)| key.value == Value::Text("name".to_owned())),
            _ => false,
        };
        if !written {
            let help = Some("write `name: NAME`, as `halfopen run --dep NAME` will say it".to_owned());
            self.remark(Level::Error, span, "a dependency has no `name`".to_owned(), help);
        }
        Some(raw)
    }

    fn block(&mut self, node: &Node, span: &Range<usize>, block: Block) -> Option<Raw> {
        let mut raw = Raw { given: BTreeMap::new(), span: span.clone() };
        match &node.value {
            Value::Null => {}
            Value::Map(_) => self.group(node, "", block, &mut raw),
            other => {
                self.error(&node.span, format!("this is {}; it is a mapping of keys", other.kind()));
                return None;
            }
        }
        Some(raw)
    }

    /// Reads the keys of one mapping.
    fn group(&mut self, node: &Node, group: &'static str, block: Block, raw: &mut Raw) {
        for (word, key_node, value) in self.entries(node) {
            self.at.push(word.clone());
            match keys::below(group).find(|(known, _)| *known == word) {
                Some((_, key)) if key.path == "name" && block == Block::Defaults => {
                    self.error(&key_node.span, "`defaults` has no `name`: it holds for every dependency".to_owned());
                }
                Some((_, key)) if key.kind == Kind::Group => {
                    raw.given.insert(key.path, Given { value: Written::Group, span: key_node.span.clone() });
                    match &value.value {
                        Value::Null => {}
                        Value::Map(_) => self.group(value, key.path, block, raw),
                        other => {
                            let kind = other.kind();
                            self.error(&value.span, format!("`{}` is {kind}; it is a mapping of keys", key.path));
                        }
                    }
                }
                Some((_, key)) => {
                    if let Some(read) = self.value(key, value, &key_node.span) {
                        raw.given.insert(key.path, Given { value: read, span: value.span.clone() });
                    }
                }
                None => {
                    let message = format!("unknown key `{}`", self.source.excerpt(&key_node.span));
                    let help = suggest::for_key(&word, group);
                    self.remark(Level::Error, &key_node.span, message, Some(help));
                }
            }
            self.at.pop();
        }
    }

    /// Returns the entries of a mapping whose keys are words; of repeated keys the first.
    fn entries<'n>(&mut self, node: &'n Node) -> Vec<(String, &'n Node, &'n Node)> {
        let Value::Map(entries) = &node.value else { return Vec::new() };
        let mut seen: BTreeMap<String, Range<usize>> = BTreeMap::new();
        let mut read = Vec::new();
        for (key, value) in entries {
            let word = match &key.value {
                Value::Text(word) => word.clone(),
                Value::Bool(_) | Value::Int(_) | Value::Float(_) => self.source.excerpt(&key.span),
                other => {
                    self.error(&key.span, format!("a key is a word, this is {}", other.kind()));
                    continue;
                }
            };
            if let Some(first) = seen.get(&word) {
                let line = self.source.line(first.start);
                let message = format!("`{}` is written twice", self.source.excerpt(&key.span));
                self.remark(Level::Error, &key.span, message, Some(format!("it stands on line {line} already")));
                continue;
            }
            seen.insert(word.clone(), key.span.clone());
            read.push((word, key, value));
        }
        read
    }

    /// Reads the value of a key.
    fn value(&mut self, key: &Key, node: &Node, key_span: &Range<usize>) -> Option<Written> {
        if node.value == Value::Null {
            let help = Some(format!("allowed is {}; leave the key out for the default", key.allowed()));
            self.remark(Level::Error, key_span, format!("`{}` has no value", key.path), help);
            return None;
        }
        match key.kind {
            Kind::Group => None,
            Kind::Bool => match truth(&node.value) {
                Some(value) => Some(Written::Bool(value)),
                None => self.out_of_range(key, node),
            },
            Kind::Count { min, max } => match node.value {
                Value::Int(n) if n >= i128::from(min) && n <= i128::from(max) => {
                    u64::try_from(n).ok().map(Written::Count)
                }
                _ => self.out_of_range(key, node),
            },
            Kind::Number { min, max } => match number(&node.value) {
                // A NaN is in no range.
                Some(n) if n >= min && n <= max => Some(Written::Number(n)),
                _ => self.out_of_range(key, node),
            },
            Kind::Time { unit, min, max } => match number(&node.value) {
                Some(n) if n >= min && n <= max => {
                    Duration::try_from_secs_f64(n * unit.seconds()).ok().map(Written::Time)
                }
                _ => self.out_of_range(key, node),
            },
            Kind::Span { min, max } => match &node.value {
                Value::Text(text) => match span_seconds(text) {
                    Some(n) if n >= min && n <= max => Duration::try_from_secs_f64(n).ok().map(Written::Time),
                    _ => self.out_of_range(key, node),
                },
                _ => self.out_of_range(key, node),
            },
            Kind::Bytes { min, max } => match byte_count(&node.value) {
                Some(n) if n >= min && n <= max => Some(Written::Count(n)),
                _ => self.out_of_range(key, node),
            },
            Kind::Word(words) => self.word(key, node, words).map(Written::Text),
            Kind::WordOrBool(words) => match &node.value {
                value if truth(value) == Some(true) => words.first().map(|word| Written::Text((*word).to_owned())),
                value if truth(value) == Some(false) => words.last().map(|word| Written::Text((*word).to_owned())),
                _ => self.word(key, node, words).map(Written::Text),
            },
            Kind::Words(words) => self.list(key, node, |reader, item| reader.word(key, item, words)),
            Kind::Parts => {
                self.list(key, node, |reader, item| reader.part(key, item, &["region", "credential", "model"]))
            }
            Kind::Order => self.part(key, node, &["path", "none"]).map(Written::Text),
            Kind::Text => self.line(node, key.path).map(Written::Text),
            Kind::Name => {
                let name = self.line(node, key.path)?;
                match halfopen_core::circuit_id::CircuitId::whole(&name) {
                    Ok(_) => Some(Written::Text(name)),
                    Err(_) => self.out_of_range(key, node),
                }
            }
            Kind::Header => {
                let name = self.line(node, key.path)?;
                if is_header(&name) { Some(Written::Text(name)) } else { self.out_of_range(key, node) }
            }
            Kind::Url => {
                let url = self.line(node, key.path)?;
                if is_url(&url) && !url.contains(['?', '#']) {
                    Some(Written::Text(url))
                } else {
                    self.out_of_range(key, node)
                }
            }
            Kind::Probe => self.probe(key, node),
            Kind::Credentials => self.credentials(node),
            Kind::Rules => self.rules(node),
        }
    }

    /// Remarks that a value is not what its key allows, and says what to write if that can be seen.
    fn out_of_range<T>(&mut self, key: &Key, node: &Node) -> Option<T> {
        let written = match &node.value {
            Value::List(_) | Value::Map(_) => node.value.kind().to_owned(),
            Value::Text(text) if text.is_empty() => "empty".to_owned(),
            Value::Text(_) => format!("`{}`", self.source.excerpt(&node.span)),
            _ => self.source.excerpt(&node.span),
        };
        let help = instead(key, &node.value).map(|value| format!("write {value}"));
        let message = format!("`{}` is {written}; allowed is {}", key.path, key.allowed());
        self.remark(Level::Error, &node.span, message, help);
        None
    }

    fn word(&mut self, key: &Key, node: &Node, words: &[&str]) -> Option<String> {
        match &node.value {
            Value::Text(word) if words.contains(&word.as_str()) => Some(word.clone()),
            Value::Text(word) => {
                let near = suggest::nearest(word, words.iter().copied());
                let message =
                    format!("`{}` is `{}`; allowed is {}", key.path, self.source.excerpt(&node.span), key.allowed());
                self.remark(Level::Error, &node.span, message, near.map(|near| format!("write {near}")));
                None
            }
            _ => self.out_of_range(key, node),
        }
    }

    fn list(
        &mut self,
        key: &Key,
        node: &Node,
        mut item: impl FnMut(&mut Self, &Node) -> Option<String>,
    ) -> Option<Written> {
        let items: Vec<&Node> = match &node.value {
            Value::List(items) if !items.is_empty() => items.iter().collect(),
            Value::Text(_) => vec![node],
            _ => return self.out_of_range(key, node),
        };
        let mut words: Vec<String> = Vec::new();
        for node in items {
            let word = item(self, node)?;
            if words.contains(&word) {
                self.error(&node.span, format!("`{}` names `{word}` twice", key.path));
                return None;
            }
            words.push(word);
        }
        Some(Written::Words(words))
    }

    /// Reads one of `words`, or `header:NAME`, or `argument:NAME`.
    fn part(&mut self, key: &Key, node: &Node, words: &[&str]) -> Option<String> {
        let Value::Text(text) = &node.value else { return self.out_of_range(key, node) };
        let fits = words.contains(&text.as_str())
            || text.strip_prefix("header:").is_some_and(is_header)
            || text.strip_prefix("argument:").is_some_and(|name| {
                !name.is_empty() && !name.chars().any(|c| c.is_whitespace() || c.is_control() || c == '=' || c == '@')
            });
        if fits { Some(text.clone()) } else { self.out_of_range(key, node) }
    }

    /// Reads a text on one line. A number is taken as it is written: `name: 7` is a name.
    fn line(&mut self, node: &Node, path: &str) -> Option<String> {
        let text = match &node.value {
            Value::Text(text) => text.clone(),
            Value::Bool(_) | Value::Int(_) | Value::Float(_) => self.source.excerpt(&node.span),
            other => {
                self.error(&node.span, format!("`{path}` is {}; allowed is text on one line", other.kind()));
                return None;
            }
        };
        let text = text.trim().to_owned();
        if text.is_empty() || text.chars().any(char::is_control) || text.chars().count() > TEXT_CHARS_MAX {
            let message = format!("`{path}` is empty, longer than {TEXT_CHARS_MAX} characters, or not on one line");
            self.error(&node.span, message);
            return None;
        }
        Some(text)
    }

    fn probe(&mut self, key: &Key, node: &Node) -> Option<Written> {
        match &node.value {
            Value::Text(text) if is_url(text) => Some(Written::Probe(ProbeWith::Url(text.clone()))),
            // A text is split at white space, as far as that is unambiguous: there is no shell behind it.
            Value::Text(text)
                if !text.trim().is_empty() && !text.contains(['"', '\'', '\\', '|', ';', '&', '$', '`']) =>
            {
                let words = text.split_whitespace().map(str::to_owned).collect();
                Some(Written::Probe(ProbeWith::Command(words)))
            }
            Value::Text(_) => {
                let message = format!("`{}` is `{}`, which needs a shell", key.path, self.source.excerpt(&node.span));
                let help = "write the command as a list, such as [sh, -c, 'curl -fsS … | grep -q ok']";
                self.remark(Level::Error, &node.span, message, Some(help.to_owned()));
                None
            }
            Value::List(items) if !items.is_empty() => {
                let words = items.iter().map(|item| self.line(item, key.path)).collect::<Option<Vec<_>>>()?;
                Some(Written::Probe(ProbeWith::Command(words)))
            }
            _ => self.out_of_range(key, node),
        }
    }

    fn credentials(&mut self, node: &Node) -> Option<Written> {
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

    fn variable(&mut self, node: &Node) -> Option<String> {
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

    fn rules(&mut self, node: &Node) -> Option<Written> {
        let Value::List(items) = &node.value else {
            return keys::find("classify").and_then(|key| self.out_of_range(key, node));
        };
        let mut read = Vec::new();
        for (index, item) in items.iter().enumerate() {
            match rules::rule(item) {
                Ok(rule) => read.push((rule, item.clone())),
                Err(error) => {
                    let span = error.span.unwrap_or_else(|| item.span.clone());
                    self.at.push(format!("[{index}]"));
                    self.error(&span, format!("rule cannot be read: {}", error.message));
                    self.at.pop();
                }
            }
        }
        Some(Written::Rules(read))
    }

    fn alerts(&mut self, node: &Node) -> Vec<RawOwner> {
        let mut owners = Vec::new();
        match &node.value {
            Value::Null => {}
            Value::Map(_) => {
                for (name, key, value) in self.entries(node) {
                    self.at.push(name.clone());
                    let items = match &value.value {
                        Value::List(items) => items.iter().collect(),
                        Value::Null => Vec::new(),
                        _ => vec![value],
                    };
                    let channels = items.into_iter().flat_map(|item| self.channel(item)).collect();
                    owners.push(RawOwner { name, channels, span: key.span.clone() });
                    self.at.pop();
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

/// Whose keys a mapping holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Dependency,
    Defaults,
}

/// What a name may be.
const NAME: &str = "a name without white space, `@` and `=`";

/// Reads a truth value, in the words of YAML 1.1 too: other tools take them.
fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(value) => Some(*value),
        Value::Text(word) => match word.as_str() {
            "yes" | "on" => Some(true),
            "no" | "off" => Some(false),
            _ => None,
        },
        Value::Null | Value::Int(_) | Value::Float(_) | Value::List(_) | Value::Map(_) => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number that long is outside every range anyway")]
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(n) => Some(*n as f64),
        Value::Float(n) => Some(*n),
        _ => None,
    }
}

/// Returns the value that was probably meant, if it can be seen from what is written.
fn instead(key: &Key, value: &Value) -> Option<String> {
    match (key.kind, value) {
        (Kind::Time { unit, min, max }, Value::Text(text)) => {
            let bare = text.trim().parse::<f64>().ok();
            let n = bare.or_else(|| Some(span_seconds(text)? / unit.seconds()))?;
            // Seconds to milliseconds and back leaves a trace in the last digits.
            let n = (n * 1e6).round() / 1e6;
            let why = if bare.is_some() { "without quotes" } else { unit.plural() };
            (n >= min && n <= max).then(|| format!("{n} ({why})"))
        }
        (Kind::Count { min, max }, Value::Text(text)) => {
            let n: u64 = text.trim().parse().ok()?;
            (n >= min && n <= max).then(|| format!("{n} without quotes"))
        }
        (Kind::Number { min, max }, Value::Text(text)) => {
            if let Some(percent) = text.trim().strip_suffix('%') {
                let n = percent.trim().parse::<f64>().ok()? / 100.0;
                return (n >= min && n <= max).then(|| n.to_string());
            }
            let n: f64 = text.trim().parse().ok()?;
            (n >= min && n <= max).then(|| format!("{n} without quotes"))
        }
        (Kind::Span { .. }, Value::Int(_) | Value::Float(_)) => {
            Some("the unit behind it, such as 90s, 30m, 26h or 2d".to_owned())
        }
        (Kind::Time { unit: Unit::Millis, .. }, Value::Float(_) | Value::Int(_)) => None,
        _ => None,
    }
}

/// Reads `90s`, `1.5h`, `250ms`, `2d` as seconds.
fn span_seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit {
        "ms" => 0.001,
        "s" | "sec" | "secs" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    };
    let n: f64 = number.trim().parse().ok()?;
    (n.is_finite() && n >= 0.0).then_some(n * seconds)
}

/// Reads a number of bytes, plain or with a binary unit.
fn byte_count(value: &Value) -> Option<u64> {
    match value {
        Value::Int(n) => u64::try_from(*n).ok(),
        Value::Text(text) => {
            let (number, unit) = text.trim().split_at(text.trim().find(|c: char| c.is_ascii_alphabetic())?);
            let size: u64 = match unit {
                "B" => 1,
                "KiB" => 1 << 10,
                "MiB" => 1 << 20,
                "GiB" => 1 << 30,
                "TiB" => 1 << 40,
                _ => return None,
            };
            number.trim().parse::<u64>().ok()?.checked_mul(size)
        }
        _ => None,
    }
}

fn is_header(name: &str) -> bool {
    // A token of RFC 9110 section 5.6.2.
    !name.is_empty()
        && name.len() <= 100
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// Returns whether `text` is an http or https address without a user name in it.
fn is_url(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    !authority.is_empty()
        && !authority.starts_with(':')
        && !authority.contains('@')
        && !text.chars().any(|c| c.is_whitespace() || c.is_control())
}
