//! Walks the tree of a policy file: which keys stand where, which are unknown, which are written twice.
//!
//! A value that cannot be taken is remarked and left out, and reading goes on, so that a person sees every mistake at
//! once. What a single value may be is [`super::value`]'s business.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::store::Location;

use super::finding::{Level, Remark, Source};
use super::keys::{self, Kind};
use super::raw::{Given, Raw, RawFile, Written};
use super::suggest;
use super::tree::{Node, Value};

/// More remarks than this help nobody.
const REMARKS_MAX: usize = 500;
/// Keys of the whole file.
const TOP: &[&str] = &["dependency_guard", "dependencies", "defaults", "alerts", "store"];

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

    /// Goes down to a key or an item.
    pub(super) fn enter(&mut self, word: String) {
        self.at.push(word);
    }

    /// Goes back up.
    pub(super) fn leave(&mut self) {
        self.at.pop();
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

    /// Refuses what stands at `span`; whoever reads it is told what to do next.
    pub(super) fn error(&mut self, span: &Range<usize>, message: String, help: impl Into<String>) {
        self.remark(Level::Error, span, message, Some(help.into()));
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
            self.enter(word.clone());
            match word.as_str() {
                "dependency_guard" => {
                    let raw = self.dependency(value, &key.span);
                    file.dependencies.extend(raw);
                }
                "dependencies" => file.dependencies.extend(self.dependencies(value)),
                "defaults" => file.defaults = self.block(value, &key.span, Block::Defaults).unwrap_or_default(),
                "alerts" => file.alerts = self.alerts(value),
                "store" => file.store = self.store(value),
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
            self.leave();
        }
        file
    }

    /// Reads where circuits are kept.
    fn store(&mut self, node: &Node) -> Option<String> {
        let word = self.line(node, "store")?;
        match word.parse::<Location>() {
            Err(error) => {
                let help = "write an absolute path, such as `store: /var/lib/halfopen/halfopen.db`";
                self.error(&node.span, format!("`store` is `{word}`: {error}"), help);
            }
            Ok(Location::Sqlite(path)) if path.is_relative() => {
                let message = format!("`{word}` is another store in every folder from which halfopen is started");
                let help = "write an absolute path";
                self.remark(Level::Warning, &node.span, message, Some(help.to_owned()));
            }
            Ok(Location::Sqlite(_) | Location::Memory) => {}
        }
        Some(word)
    }

    fn dependencies(&mut self, node: &Node) -> Vec<Raw> {
        match &node.value {
            Value::List(items) if items.is_empty() => self.no_dependencies(node),
            Value::Null => self.no_dependencies(node),
            Value::List(items) => {
                let mut read = Vec::new();
                for (index, item) in items.iter().enumerate() {
                    self.enter(format!("[{index}]"));
                    let span = match &item.value {
                        Value::Map(entries) => {
                            entries.first().map_or_else(|| item.span.clone(), |(key, _)| key.span.clone())
                        }
                        _ => item.span.clone(),
                    };
                    read.extend(self.dependency(item, &span));
                    self.leave();
                }
                read
            }
            other => {
                let message = format!("`dependencies` is {}; it is a list of dependencies", self.written(node, other));
                self.remark(Level::Error, &node.span, message, Some("write `- name: NAME` below it".to_owned()));
                Vec::new()
            }
        }
    }

    /// Says that a list of dependencies holds none, which beside a `dependency_guard` is easily taken for the other way round.
    fn no_dependencies(&mut self, node: &Node) -> Vec<Raw> {
        let help = "write `- name: NAME` below it, or take the key out; what stands under `dependency_guard` holds";
        self.remark(Level::Warning, &node.span, "`dependencies` names none".to_owned(), Some(help.to_owned()));
        Vec::new()
    }

    /// Returns a value that should have been another kind, as a message shows it.
    pub(super) fn written(&self, node: &Node, value: &Value) -> String {
        match value {
            Value::List(_) | Value::Map(_) | Value::Null => value.kind().to_owned(),
            Value::Text(text) if text.is_empty() => "empty".to_owned(),
            Value::Text(_) => format!("`{}`", self.source.excerpt(&node.span)),
            Value::Bool(_) | Value::Int(_) | Value::Float(_) => self.source.excerpt(&node.span),
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
                let place = self.at.last().cloned().unwrap_or_default();
                let message = format!("`{place}` is {}; it is a mapping of keys", self.written(node, other));
                self.error(&node.span, message, "write `name: NAME` and further keys, each on a line below it");
                return None;
            }
        }
        Some(raw)
    }

    /// Reads the keys of one mapping.
    fn group(&mut self, node: &Node, group: &'static str, block: Block, raw: &mut Raw) {
        for (word, key_node, value) in self.entries(node) {
            self.enter(word.clone());
            match keys::below(group).find(|(known, _)| *known == word) {
                Some((_, key)) if key.path == "name" && block == Block::Defaults => {
                    let message = format!(
                        "`defaults` has no `name`, this is `{}`: it holds for every dependency",
                        self.source.excerpt(&value.span)
                    );
                    self.error(&key_node.span, message, "take it out, or write it under `dependencies`");
                }
                Some((_, key)) if key.kind == Kind::Group => {
                    // What is no group has been refused: nothing follows from it.
                    if matches!(value.value, Value::Null | Value::Map(_)) {
                        raw.given.insert(key.path, Given { value: Written::Group, span: key_node.span.clone() });
                    }
                    match &value.value {
                        Value::Null => {}
                        Value::Map(_) => self.group(value, key.path, block, raw),
                        other => {
                            let written = self.written(value, other);
                            let known: Vec<&str> = keys::below(key.path).map(|(word, _)| word).collect();
                            let message = format!("`{}` is {written}; it is a mapping of keys", key.path);
                            self.error(&value.span, message, format!("keys below it are {}", known.join(", ")));
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
            self.leave();
        }
    }

    /// Returns the entries of a mapping whose keys are words; of repeated keys the first.
    pub(super) fn entries<'n>(&mut self, node: &'n Node) -> Vec<(String, &'n Node, &'n Node)> {
        let Value::Map(entries) = &node.value else { return Vec::new() };
        let mut seen: BTreeMap<String, Range<usize>> = BTreeMap::new();
        let mut read = Vec::new();
        for (key, value) in entries {
            let word = match &key.value {
                Value::Text(word) => word.clone(),
                Value::Bool(_) | Value::Int(_) | Value::Float(_) => self.source.excerpt(&key.span),
                other => {
                    let help = "write a word and a colon, such as `name: ocr`";
                    self.error(&key.span, format!("a key is a word, this is {}", other.kind()), help);
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
}

/// Whose keys a mapping holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Dependency,
    Defaults,
}
