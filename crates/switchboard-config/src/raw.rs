//! Reads a document into known fields: checks names and types of values, and not yet how fields fit
//! together.

use std::time::Duration;

use super::diagnostic::{Diagnostics, visible_key};
use super::fields::{
    FieldSpec, GATEWAY, MODEL, NAMING, PERMISSIONS, SECURITY, SERVERS, ValueKind, nearest,
};
use super::quantity;
use super::reference::{ReferenceSyntax, TextRole};
use super::tree::{Node, TableEntry, Tree};
use crate::secret::Secret;

pub(super) use field_table::{AtOffset, FieldTable, FieldValue, RawRule};

mod field_table;

/// The sections of one file.
#[derive(Debug, Default)]
pub(super) struct RawConfig {
    /// In the order of the file.
    pub(super) servers: Vec<RawServer>,
    pub(super) permissions: FieldTable,
    /// Whether there is a permissions section, even an empty one.
    pub(super) has_permissions: bool,
    pub(super) security: FieldTable,
    pub(super) naming: FieldTable,
    /// The section with the model and its offset, if there is one.
    pub(super) model: Option<AtOffset<FieldTable>>,
    pub(super) gateway: FieldTable,
}

/// One server's entry, its fields not read yet, so that its errors can be attributed to it alone.
#[derive(Debug)]
pub(super) struct RawServer {
    pub(super) name: String,
    /// Offset of the name.
    pub(super) at: usize,
    /// Dotted path, for messages.
    pub(super) path: String,
    pub(super) node: Node,
}

/// Variables to remove from what a child inherits. Not a field of the native file; some dialects
/// set it.
pub(super) const UNSET: &str = "unset_env";

/// Reads a native document. All errors are collected.
pub(super) fn read(document: &Node, diagnostics: &mut Diagnostics<'_>) -> RawConfig {
    let mut written = RawConfig::default();
    for TableEntry { key, at, value } in document.entries() {
        let section = match key.as_str() {
            "servers" => {
                written.servers = read_servers(SERVERS.name, value, diagnostics);
                continue;
            }
            "permissions" => &PERMISSIONS,
            "security" => &SECURITY,
            "naming" => &NAMING,
            "model" => &MODEL,
            "gateway" => &GATEWAY,
            "$schema" => continue,
            other => {
                let sections = [&SERVERS, &PERMISSIONS, &SECURITY, &NAMING, &MODEL, &GATEWAY]
                    .map(|section| section.name);
                report_unknown(other, *at, "", "section", sections.into_iter(), diagnostics);
                continue;
            }
        };
        let fields = read_table(
            value,
            section.fields,
            ReferenceSyntax::Native,
            section.name,
            diagnostics,
        )
        .unwrap_or_default();
        match section.name {
            "permissions" => (written.permissions, written.has_permissions) = (fields, true),
            "security" => written.security = fields,
            "model" => {
                written.model = Some(AtOffset {
                    at: *at,
                    value: fields,
                })
            }
            "gateway" => written.gateway = fields,
            _ => written.naming = fields,
        }
    }
    written
}

/// The entries of the section with the servers.
pub(super) fn read_servers(
    section: &'static str,
    value: &Node,
    diagnostics: &mut Diagnostics<'_>,
) -> Vec<RawServer> {
    if !matches!(value.value, Tree::Table(_)) {
        let form = if diagnostics.json {
            "an object with an entry for each server, { \"NAME\": { … } }".to_owned()
        } else {
            format!("a table for each server, [{section}.NAME]")
        };
        diagnostics.error(
            value.at,
            section,
            format!("expected {form}, found {}", diagnostics.kind(value)),
        );
    }
    let server = |entry: &TableEntry| RawServer {
        name: entry.key.clone(),
        at: entry.at,
        path: format!("{section}.{}", visible_key(&entry.key)),
        node: entry.value.clone(),
    };
    value.entries().iter().map(server).collect()
}

/// Reads the known fields of a table. Unknown ones are reported with the nearest known name.
pub(super) fn read_table(
    value: &Node,
    known: &'static [FieldSpec],
    syntax: ReferenceSyntax,
    path: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<FieldTable> {
    read_entry(value, known, &[], syntax, path, diagnostics)
}

/// As [`read_table`], for an entry of a foreign dialect, which may have these native fields as
/// well.
pub(super) fn read_entry(
    value: &Node,
    known: &'static [FieldSpec],
    ours: &'static [&'static str],
    syntax: ReferenceSyntax,
    path: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<FieldTable> {
    let known = known.iter().chain(
        SERVERS
            .fields
            .iter()
            .filter(|field| ours.contains(&field.name)),
    );
    if !matches!(value.value, Tree::Table(_)) {
        let form = if diagnostics.json {
            "an object, { … }".to_owned()
        } else {
            format!("a table, [{path}]")
        };
        diagnostics.error(
            value.at,
            path,
            format!("expected {form}, found {}", diagnostics.kind(value)),
        );
        return None;
    }
    let mut fields = FieldTable::default();
    for TableEntry { key, at, value } in value.entries() {
        match known.clone().find(|field| field.name == key) {
            Some(field) => {
                let read = read_value(
                    field,
                    value,
                    syntax,
                    &format!("{path}.{}", field.name),
                    diagnostics,
                );
                fields.0.insert(
                    field.name,
                    AtOffset {
                        at: *at,
                        value: read,
                    },
                );
            }
            None => report_unknown(
                key,
                *at,
                path,
                "field",
                known.clone().map(|field| field.name),
                diagnostics,
            ),
        }
    }
    Some(fields)
}

/// Reports an unknown key, with the nearest known one.
pub(super) fn report_unknown(
    key: &str,
    at: usize,
    path: &str,
    noun: &str,
    known: impl Iterator<Item = &'static str> + Clone,
    diagnostics: &mut Diagnostics<'_>,
) {
    let field = if path.is_empty() {
        visible_key(key)
    } else {
        format!("{path}.{}", visible_key(key))
    };
    let hint = match nearest(key, known.clone()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None if path.is_empty() => format!("; known are {}", listed(known)),
        None => String::new(),
    };
    diagnostics.unknown(at, field, noun, hint);
}

/// Reads a value of the field's kind, or reports what was expected.
pub(super) fn read_value(
    field: &FieldSpec,
    node: &Node,
    syntax: ReferenceSyntax,
    path: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> FieldValue {
    let read = match (field.kind, &node.value) {
        (ValueKind::Text, Tree::Text(text)) => Ok(FieldValue::Text(text.clone())),
        (ValueKind::Texts, Tree::List(items)) => return texts(items, path, diagnostics),
        (ValueKind::Rules, Tree::List(items)) => return rules(items, path, diagnostics),
        (ValueKind::Secrets, Tree::Table(entries)) => {
            return secrets(entries, syntax, path, diagnostics);
        }
        (ValueKind::Secret, Tree::Text(text)) => match syntax.segments(TextRole::Value, text) {
            Ok(_) => Ok(FieldValue::Secret(Secret::new(text.clone()))),
            Err(message) => Err(message.to_owned()),
        },
        (ValueKind::Port, Tree::Number(number)) => match number.parse() {
            Ok(port) if port > 0 => Ok(FieldValue::Port(port)),
            _ => Err(format!(
                "expected {}",
                form(ValueKind::Port, diagnostics.json)
            )),
        },
        (ValueKind::Flag, Tree::Flag(flag)) => Ok(FieldValue::Flag(*flag)),
        (ValueKind::Duration, Tree::Text(text)) => {
            quantity::duration(text).map(FieldValue::Duration)
        }
        (ValueKind::Bytes, Tree::Text(text)) => quantity::bytes(text).map(FieldValue::Bytes),
        (ValueKind::Bytes, Tree::Number(number)) => match number.parse() {
            Ok(number) => quantity::bounded_bytes(number).map(FieldValue::Bytes),
            Err(_) => Err(format!("expected {}", quantity::BYTES_FORM)),
        },
        (ValueKind::Milliseconds, Tree::Number(number)) => match number.parse::<u64>() {
            Ok(milliseconds) if milliseconds > 0 => {
                Ok(FieldValue::Duration(Duration::from_millis(milliseconds)))
            }
            _ => Err(format!(
                "expected {}",
                form(ValueKind::Milliseconds, diagnostics.json)
            )),
        },
        (ValueKind::Count, Tree::Number(number)) => match number.parse() {
            Ok(count) if count > 0 => Ok(FieldValue::Count(count)),
            _ => Err(format!(
                "expected {}",
                form(ValueKind::Count, diagnostics.json)
            )),
        },
        (ValueKind::Amounts(names), Tree::Table(entries)) => {
            return amounts(entries, names, path, diagnostics);
        }
        (ValueKind::Choice(words), Tree::Text(text)) => choice(field.name, text, words),
        (kind, _) => Err(format!(
            "expected {}, found {}",
            form(kind, diagnostics.json),
            diagnostics.kind(node)
        )),
    };
    read.unwrap_or_else(|message| {
        diagnostics.error(node.at, path, message);
        FieldValue::Invalid
    })
}

fn choice(
    name: &str,
    text: &str,
    words: &'static [(&'static str, &'static str)],
) -> Result<FieldValue, String> {
    if let Some((word, _)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(FieldValue::Choice(word));
    }
    let known = words.iter().map(|(word, _)| *word);
    let noun = if matches!(name, "start" | "asks" | "session" | "audit_arguments") {
        "value"
    } else {
        name
    };
    let expected = format!(
        "unknown {noun} {}; expected {}",
        quoted(text),
        one_of(known.clone())
    );
    Err(match nearest(text, known) {
        Some(near) => format!("{expected} (did you mean \"{near}\"?)"),
        None => expected,
    })
}

fn amounts(
    entries: &[TableEntry],
    names: &'static [&'static str],
    path: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> FieldValue {
    let mut read = Vec::new();
    for TableEntry { key, at, value } in entries {
        let Some(name) = names.iter().find(|name| *name == key) else {
            report_unknown(key, *at, path, "field", names.iter().copied(), diagnostics);
            continue;
        };
        let amount = match &value.value {
            // A float of a TOML file has a dot at its end, so that it is never read as a whole number.
            Tree::Number(number) => number.replace('_', "").trim_end_matches('.').parse().ok(),
            _ => None,
        };
        match amount.filter(|amount: &f64| amount.is_finite() && *amount >= 0.0) {
            Some(amount) => read.push((*name, amount)),
            None => diagnostics.error(
                value.at,
                format!("{path}.{name}"),
                "expected a number that is not negative, such as 0.25",
            ),
        }
    }
    FieldValue::Amounts(read)
}

fn texts(items: &[Node], path: &str, diagnostics: &mut Diagnostics<'_>) -> FieldValue {
    let mut read = Vec::with_capacity(items.len());
    let mut wrong = false;
    for (index, item) in items.iter().enumerate() {
        match item.text() {
            Some(text) => read.push(AtOffset {
                at: item.at,
                value: text.to_owned(),
            }),
            None => {
                wrong = true;
                diagnostics.error(
                    item.at,
                    format!("{path}[{index}]"),
                    format!("expected a string, found {}", diagnostics.kind(item)),
                );
            }
        }
    }
    if wrong {
        FieldValue::Invalid
    } else {
        FieldValue::Texts(read)
    }
}

/// Each rule is a text, or a table with a client and the tools that it is about.
fn rules(items: &[Node], path: &str, diagnostics: &mut Diagnostics<'_>) -> FieldValue {
    let mut read = Vec::with_capacity(items.len());
    let mut wrong = false;
    for (index, item) in items.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let rule = match &item.value {
            Tree::Text(text) => Some(RawRule {
                text: text.clone(),
                client: None,
            }),
            Tree::Table(_) => client_rule(item, &path, diagnostics),
            _ => {
                let found = diagnostics.kind(item);
                let message = format!("expected {RULE_FORM}, found {found}");
                diagnostics.error(item.at, path, message);
                None
            }
        };
        wrong |= rule.is_none();
        read.extend(rule.map(|value| AtOffset { at: item.at, value }));
    }
    if wrong {
        FieldValue::Invalid
    } else {
        FieldValue::Rules(read)
    }
}

const RULE_FORM: &str = "\"server/tool\" or a table with a client, such as { tool = \"server/tool\", client = \"codex\" }";

/// A rule for one client. Without a tool it holds for all of them.
fn client_rule(item: &Node, path: &str, diagnostics: &mut Diagnostics<'_>) -> Option<RawRule> {
    let (mut tool, mut client) = (Some("*".to_owned()), None);
    for TableEntry { key, at, value } in item.entries() {
        let text = value.text().filter(|text| !text.trim().is_empty());
        match key.as_str() {
            "tool" => tool = text.map(str::to_owned),
            "client" => client = text.map(str::to_owned),
            _ => {
                let known = ["tool", "client"].into_iter();
                report_unknown(key, *at, path, "field", known, diagnostics);
            }
        }
    }
    if client.is_none() || tool.is_none() {
        diagnostics.error(item.at, path, format!("expected {RULE_FORM}"));
    }
    Some(RawRule {
        text: tool?,
        client: Some(client?),
    })
}

fn secrets(
    entries: &[TableEntry],
    syntax: ReferenceSyntax,
    path: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> FieldValue {
    let mut read = Vec::with_capacity(entries.len());
    let mut wrong = false;
    for TableEntry { key, at, value } in entries {
        let path = format!("{path}.{}", visible_key(key));
        match value.text() {
            Some(text) => match syntax.segments(TextRole::Value, text) {
                Ok(_) => read.push(AtOffset {
                    at: *at,
                    value: (key.clone(), Secret::new(text)),
                }),
                Err(message) => {
                    wrong = true;
                    diagnostics.error(value.at, path, message);
                }
            },
            None => {
                wrong = true;
                let quotes = if matches!(value.value, Tree::Other(_)) {
                    ""
                } else {
                    "; put the value in quotes"
                };
                let message = format!(
                    "expected a string, found {}{quotes}",
                    diagnostics.kind(value)
                );
                diagnostics.error(value.at, path, message);
            }
        }
    }
    if wrong {
        FieldValue::Invalid
    } else {
        FieldValue::Secrets(read)
    }
}

fn form(kind: ValueKind, json: bool) -> String {
    match kind {
        ValueKind::Text => "a string in quotes".to_owned(),
        ValueKind::Texts | ValueKind::Rules => {
            "a list of strings, such as [\"a\", \"b\"]".to_owned()
        }
        ValueKind::Secrets if json => {
            "an object of strings, such as { \"NAME\": \"value\" }".to_owned()
        }
        ValueKind::Secrets => "a table of strings, such as { NAME = \"value\" }".to_owned(),
        ValueKind::Secret => "a string in quotes".to_owned(),
        ValueKind::Port => "a port from 1 to 65535".to_owned(),
        ValueKind::Flag => "true or false".to_owned(),
        ValueKind::Duration => quantity::DURATION_FORM.to_owned(),
        ValueKind::Bytes => quantity::BYTES_FORM.to_owned(),
        ValueKind::Milliseconds => "a whole number of milliseconds, more than 0".to_owned(),
        ValueKind::Count => "a whole number above 0".to_owned(),
        ValueKind::Amounts(names) => format!("a table of numbers for {}", names.join(", ")),
        ValueKind::Choice(words) => one_of(words.iter().map(|(word, _)| *word)),
    }
}

fn quoted(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

fn one_of(words: impl Iterator<Item = &'static str>) -> String {
    let words: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

fn listed(words: impl Iterator<Item = &'static str>) -> String {
    words
        .map(|word| format!("`{word}`"))
        .collect::<Vec<_>>()
        .join(", ")
}
