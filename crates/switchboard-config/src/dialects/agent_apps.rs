//! Agent Apps: YAML with `metadata.mcp`, in a file or in the front matter of a Markdown file.
//!
//! It has two kinds of references. `${a.b}` is replaced by the document's own metadata when the
//! file is read, never by the environment. `\${NAME}` in `env` becomes a native reference and is
//! expanded at launch. One pass handles both, so replaced text is not expanded again; every other
//! `$` is escaped.

use super::entry_spelling::{EntrySpelling, ReferenceForm, URL};
use super::profile::{DialectProfile, FOREIGN};
use super::recognise::CONTAINERS;
use super::{DialectReader, native};
use crate::diagnostic::{Diagnostics, visible_key};
use crate::fields::{OURS, PROCESS};
use crate::format::Format;
use crate::name::Style;
use crate::raw::{self, AtOffset, FieldTable, FieldValue, RawConfig, RawServer, UNSET};
use crate::reference::{ReferenceSyntax, escape, is_name};
use crate::tree::{Node, TableEntry, Tree};
use crate::{HttpTransportKind, Start};

pub(super) struct AgentApps;

const SECTION: &str = "metadata.mcp";

/// The section in which a file of goose, also YAML, has its servers.
const GOOSE: &str = "extensions";

/// Fields that it shares with the native file.
const NATIVE_FIELDS: &[&[&str]] = &[PROCESS, &["url"], OURS];

const UNRESOLVED: &str = "a reference to something that the document's own metadata does not have";

/// The behaviour of its servers.
pub(super) const PROFILE: DialectProfile = DialectProfile {
    name: "agent-apps",
    format: Format::Yaml,
    naming: Some(Style::ServerDashTool),
    // The reader turns `\${NAME}` into a native reference and escapes every other `$`.
    syntax: ReferenceSyntax::Native,
    start: Start::Lazy,
    wire: HttpTransportKind::Streamable,
    serializes_callers: true,
    // The documentation has no approval of calls.
    ungated_by_default: true,
    entry_spelling: SPELLING,
    ..FOREIGN
};

/// How a new entry is written.
const SPELLING: EntrySpelling = EntrySpelling {
    container: &["metadata", "mcp"],
    http: URL,
    sse: None,
    headers: None,
    cwd: None,
    enabled: None,
    reference: ReferenceForm::Between("\\${", "}"),
    ..native::SPELLING
};

impl DialectReader for AgentApps {
    fn open(&self, document: &Node, diagnostics: &mut Diagnostics<'_>) -> RawConfig {
        let Some(section) = document
            .get("metadata")
            .and_then(|metadata| metadata.value.get("mcp"))
        else {
            let foreign = document.entries().iter().filter(|entry| {
                let is_container = CONTAINERS.contains(&entry.key.as_str()) || entry.key == GOOSE;
                is_container && matches!(entry.value.value, Tree::Table(_))
            });
            for TableEntry { key, at, .. } in foreign {
                let message = format!(
                    "not read: expected `{SECTION}`, where agent-apps files have their servers, or another dialect"
                );
                diagnostics.warn(*at, key.clone(), message);
            }
            return RawConfig::default();
        };
        // A key without a value is left when the last entry is removed.
        if !matches!(section.value.value, Tree::Table(_) | Tree::Null) {
            let message = format!(
                "expected a table of servers by name, found {}",
                section.value.kind()
            );
            diagnostics.error(section.value.at, SECTION, message);
        }
        let mut servers = Vec::new();
        for TableEntry { key, at, value } in section.value.entries() {
            let path = format!("{SECTION}.{}", visible_key(key));
            let node = Resolving {
                document,
                path: &path,
                diagnostics,
            }
            .entry(value);
            servers.push(RawServer {
                name: key.clone(),
                at: *at,
                path,
                node,
            });
        }
        RawConfig {
            servers,
            ..RawConfig::default()
        }
    }

    fn entry(&self, server: &RawServer, diagnostics: &mut Diagnostics<'_>) -> Option<FieldTable> {
        let (node, unset) = without_unset(&server.node);
        let mut fields = raw::read_entry(
            &node,
            &[],
            NATIVE_FIELDS,
            ReferenceSyntax::Native,
            &server.path,
            diagnostics,
        )?;
        if let (Some(command), Some(url)) = (fields.offset_of("command"), fields.offset_of("url")) {
            // As documented, `url` counts before `command`.
            fields.values.remove("command");
            let message = format!(
                "ignored: `url` (line {}) takes precedence",
                diagnostics.lines.line(url)
            );
            diagnostics.warn(command, format!("{}.command", server.path), message);
        }
        if let (Some(at), false) = (fields.offset_of("env"), unset.is_empty()) {
            fields.values.insert(
                UNSET,
                AtOffset {
                    at,
                    value: FieldValue::Texts(unset),
                },
            );
        }
        Some(fields)
    }
}

/// Splits off the variables of an entry whose value is empty: they are to be unset.
fn without_unset(entry: &Node) -> (Node, Vec<AtOffset<String>>) {
    let mut entry = entry.clone();
    let mut unset = Vec::new();
    if let Tree::Table(fields) = &mut entry.value {
        for TableEntry { key, value, .. } in fields {
            if let ("env", Tree::Table(variables)) = (key.as_str(), &mut value.value) {
                let empty = variables.extract_if(.., |variable| variable.value.value == Tree::Null);
                unset.extend(empty.map(|variable| AtOffset {
                    at: variable.at,
                    value: variable.key,
                }));
            }
        }
    }
    (entry, unset)
}

/// Replaces the references of one entry.
struct Resolving<'a, 'f> {
    document: &'a Node,
    path: &'a str,
    diagnostics: &'a mut Diagnostics<'f>,
}

/// A text after replacement.
enum Resolved {
    /// In the native syntax.
    Text(String),
    /// A path that the metadata does not have.
    Missing(String),
}

impl Resolving<'_, '_> {
    fn entry(&mut self, entry: &Node) -> Node {
        let Tree::Table(fields) = &entry.value else {
            return entry.clone();
        };
        let fields = fields.iter().map(|field| {
            let value = match (field.key.as_str(), &field.value.value) {
                ("env", Tree::Table(variables)) => {
                    let variables = variables
                        .iter()
                        .map(|variable| self.variable(variable))
                        .collect();
                    Node {
                        at: field.value.at,
                        value: Tree::Table(variables),
                    }
                }
                _ => self.value(&field.value, &field.key),
            };
            TableEntry {
                value,
                ..field.clone()
            }
        });
        let value = Tree::Table(fields.collect());
        Node {
            at: entry.at,
            value,
        }
    }

    /// A variable that cannot be resolved is unset, also if the host has one of that name.
    fn variable(&mut self, variable: &TableEntry) -> TableEntry {
        let value = match scalar(&variable.value.value) {
            Some(text) => match self.resolve(&text, true) {
                Resolved::Text(text) => Tree::Text(text),
                Resolved::Missing(name) => {
                    // A name that is not a path may be part of a secret.
                    let name = if is_path(&name) { name.as_str() } else { "…" };
                    let message = format!(
                        "\"${{{name}}}\" is not in the document's own metadata, so the variable is left unset; to take it from the \
                         environment when the server starts, write \"\\${{{name}}}\""
                    );
                    let path = format!("{}.env.{}", self.path, visible_key(&variable.key));
                    self.diagnostics.warn(variable.value.at, path, message);
                    Tree::Null
                }
            },
            None => variable.value.value.clone(),
        };
        TableEntry {
            value: Node {
                at: variable.value.at,
                value,
            },
            ..variable.clone()
        }
    }

    fn value(&mut self, node: &Node, field: &str) -> Node {
        let value = match &node.value {
            Tree::List(items) => {
                Tree::List(items.iter().map(|item| self.value(item, field)).collect())
            }
            other => match scalar(other) {
                Some(text) => {
                    if text.contains("\\${") {
                        let message = "\"\\${…}\" is left for the start of the server in `env` only; here it is the text \"${…}\"";
                        self.diagnostics
                            .warn(node.at, format!("{}.{field}", self.path), message);
                    }
                    match self.resolve(&text, false) {
                        Resolved::Text(text) => Tree::Text(text),
                        Resolved::Missing(_) => Tree::Other(UNRESOLVED),
                    }
                }
                None => other.clone(),
            },
        };
        Node { at: node.at, value }
    }

    /// `left_for_launch`: whether `\${NAME}` is a reference to the environment, or the literal text
    /// `${NAME}`.
    fn resolve(&self, text: &str, left_for_launch: bool) -> Resolved {
        let mut resolved = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let Some(end) = rest[at..].find('}').map(|end| at + end) else {
                break;
            };
            let name = &rest[at + 2..end];
            if let Some(before) = rest[..at].strip_suffix('\\') {
                resolved.push_str(&escape(before));
                let reference = format!("${{{name}}}");
                let known = left_for_launch && is_name(name);
                resolved.push_str(&if known { reference } else { escape(&reference) });
            } else {
                resolved.push_str(&escape(&rest[..at]));
                match self.look_up(name.trim()) {
                    Some(value) => resolved.push_str(&escape(&value)),
                    None => return Resolved::Missing(name.trim().to_owned()),
                }
            }
            rest = &rest[end + 1..];
        }
        resolved.push_str(&escape(rest));
        Resolved::Text(resolved)
    }

    /// Looks up a path in the metadata, then in the whole document.
    fn look_up(&self, path: &str) -> Option<String> {
        let metadata = self.document.get("metadata").map(|entry| &entry.value);
        let step = |node: Option<&'_ Node>| {
            path.split('.')
                .try_fold(node?, |node, key| Some(&node.get(key)?.value))
                .cloned()
        };
        let found = step(metadata).or_else(|| step(Some(self.document)))?;
        scalar(&found.value)
    }
}

fn is_path(text: &str) -> bool {
    text.len() <= 64
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-[]".contains(&byte))
}

/// A scalar as text: YAML distinguishes `8080` from `"8080"`, a command line does not.
fn scalar(value: &Tree) -> Option<String> {
    match value {
        Tree::Text(text) | Tree::Number(text) => Some(text.clone()),
        Tree::Flag(flag) => Some(flag.to_string()),
        Tree::Null | Tree::List(_) | Tree::Table(_) | Tree::Other(_) => None,
    }
}
