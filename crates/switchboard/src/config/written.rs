//! The file as written: every known field with its place, every value of the right kind; nothing about what fields mean together.

use std::collections::BTreeMap;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Findings, visible_key};
use super::fields::{Field, Kind, NAMING, PERMISSIONS, SECURITY, SERVERS, Section, nearest};
use super::quantity;
use super::reference::pieces;
use crate::secret::Secret;

/// One file.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// In the order of the file.
    pub(super) servers: Vec<WrittenServer>,
    pub(super) permissions: Fields,
    pub(super) security: Fields,
    pub(super) naming: Fields,
}

/// One `[servers.NAME]`.
#[derive(Debug)]
pub(super) struct WrittenServer {
    pub(super) name: String,
    /// Offset of the name.
    pub(super) at: usize,
    pub(super) fields: Fields,
}

/// The fields of one table, by name.
#[derive(Debug, Default)]
pub(super) struct Fields(pub(super) BTreeMap<&'static str, At<Value>>);

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct At<T> {
    pub(super) at: usize,
    pub(super) value: T,
}

/// A value of a known kind.
#[derive(Debug)]
pub(super) enum Value {
    Text(String),
    Texts(Vec<At<String>>),
    Secrets(Vec<At<(String, Secret)>>),
    Secret(Secret),
    Port(u16),
    Flag(bool),
    Duration(Duration),
    Bytes(usize),
    Choice(&'static str),
    /// There, and already reported.
    Wrong,
}

impl Fields {
    /// Where a field stands, whatever its value.
    pub(super) fn at(&self, name: &str) -> Option<usize> {
        self.0.get(name).map(|found| found.at)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        if let Some(At { value: Value::Text(text), .. }) = self.0.get(name) { Some(text) } else { None }
    }

    pub(super) fn texts(&self, name: &str) -> Option<&[At<String>]> {
        if let Some(At { value: Value::Texts(texts), .. }) = self.0.get(name) { Some(texts) } else { None }
    }

    pub(super) fn secrets(&self, name: &str) -> &[At<(String, Secret)>] {
        if let Some(At { value: Value::Secrets(secrets), .. }) = self.0.get(name) { secrets } else { &[] }
    }

    pub(super) fn secret(&self, name: &str) -> Option<&Secret> {
        if let Some(At { value: Value::Secret(secret), .. }) = self.0.get(name) { Some(secret) } else { None }
    }

    pub(super) fn port(&self, name: &str) -> Option<u16> {
        if let Some(At { value: Value::Port(port), .. }) = self.0.get(name) { Some(*port) } else { None }
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        if let Some(At { value: Value::Flag(flag), .. }) = self.0.get(name) { Some(*flag) } else { None }
    }

    pub(super) fn duration(&self, name: &str) -> Option<Duration> {
        if let Some(At { value: Value::Duration(duration), .. }) = self.0.get(name) { Some(*duration) } else { None }
    }

    pub(super) fn bytes(&self, name: &str) -> Option<usize> {
        if let Some(At { value: Value::Bytes(bytes), .. }) = self.0.get(name) { Some(*bytes) } else { None }
    }

    pub(super) fn choice(&self, name: &str) -> Option<&'static str> {
        if let Some(At { value: Value::Choice(choice), .. }) = self.0.get(name) { Some(choice) } else { None }
    }
}

/// Reads a file's text. What is wrong is collected, never the first thing only.
pub(super) fn read(text: &str, findings: &mut Findings<'_>) -> Written {
    let (document, faults) = DeTable::parse_recoverable(text);
    for fault in faults {
        // The parser's own display quotes the line, and the line may hold a secret: its bare message does not.
        let at = fault.span().map(|span| span.start);
        let rest = at.and_then(|at| text.get(at..)).unwrap_or_default();
        findings.broken(at, format!("not valid TOML: {}", syntax(fault.message(), rest)));
    }

    let mut written = Written::default();
    for (key, value) in in_order(document.get_ref()) {
        let section = match key.get_ref().as_ref() {
            "servers" => {
                written.servers = servers(value, findings);
                continue;
            }
            "permissions" => &PERMISSIONS,
            "security" => &SECURITY,
            "naming" => &NAMING,
            "$schema" => continue,
            other => {
                let sections = [&SERVERS, &PERMISSIONS, &SECURITY, &NAMING].map(|section| section.name);
                unknown(other, key.span().start, "", "section", sections.into_iter(), findings);
                continue;
            }
        };
        let fields = table(value, section, section.name, findings).unwrap_or_default();
        match section.name {
            "permissions" => written.permissions = fields,
            "security" => written.security = fields,
            _ => written.naming = fields,
        }
    }
    written
}

fn servers(value: &Spanned<DeValue<'_>>, findings: &mut Findings<'_>) -> Vec<WrittenServer> {
    let DeValue::Table(entries) = value.get_ref() else {
        findings.error(
            value.span().start,
            SERVERS.name,
            format!("expected a table for each server, [servers.NAME], found {}", kind_of(value.get_ref())),
        );
        return Vec::new();
    };
    let mut servers = Vec::with_capacity(entries.len());
    for (key, value) in in_order(entries) {
        let path = format!("{}.{}", SERVERS.name, visible_key(key.get_ref()));
        if let Some(fields) = table(value, &SERVERS, &path, findings) {
            servers.push(WrittenServer { name: key.get_ref().to_string(), at: key.span().start, fields });
        }
    }
    servers
}

fn table(value: &Spanned<DeValue<'_>>, section: &'static Section, path: &str, findings: &mut Findings<'_>) -> Option<Fields> {
    let DeValue::Table(entries) = value.get_ref() else {
        let message = format!("expected a table, [{path}], found {}", kind_of(value.get_ref()));
        findings.error(value.span().start, path, message);
        return None;
    };
    let mut fields = Fields::default();
    for (key, value) in in_order(entries) {
        match section.fields.iter().find(|field| field.name == key.get_ref()) {
            Some(field) => {
                let read = read_value(field, value, &format!("{path}.{}", field.name), findings);
                fields.0.insert(field.name, At { at: key.span().start, value: read });
            }
            None => {
                let known = section.fields.iter().map(|field| field.name);
                unknown(key.get_ref(), key.span().start, path, "field", known, findings);
            }
        }
    }
    Some(fields)
}

fn unknown(
    key: &str,
    at: usize,
    path: &str,
    noun: &str,
    known: impl Iterator<Item = &'static str> + Clone,
    findings: &mut Findings<'_>,
) {
    let field = if path.is_empty() { visible_key(key) } else { format!("{path}.{}", visible_key(key)) };
    let message = match nearest(key, known.clone()) {
        Some(near) => format!("unknown {noun}, ignored; did you mean `{near}`?"),
        None if path.is_empty() => format!("unknown {noun}, ignored; known are {}", listed(known)),
        None => format!("unknown {noun}, ignored"),
    };
    findings.unknown(at, field, message);
}

fn read_value(field: &Field, value: &Spanned<DeValue<'_>>, path: &str, findings: &mut Findings<'_>) -> Value {
    let at = value.span().start;
    let read = match (field.kind, value.get_ref()) {
        (Kind::Text, DeValue::String(text)) => Ok(Value::Text(text.to_string())),
        (Kind::Texts, DeValue::Array(items)) => return texts(items, path, findings),
        (Kind::Secrets, DeValue::Table(entries)) => return secrets(entries, path, findings),
        (Kind::Secret, DeValue::String(text)) => match pieces(text) {
            Ok(_) => Ok(Value::Secret(Secret::new(text.to_string()))),
            Err(message) => Err(message.to_owned()),
        },
        (Kind::Port, DeValue::Integer(number)) => match u16::from_str_radix(number.as_str(), number.radix()) {
            Ok(port) if port > 0 => Ok(Value::Port(port)),
            _ => Err(format!("expected {}", form(Kind::Port))),
        },
        (Kind::Flag, DeValue::Boolean(flag)) => Ok(Value::Flag(*flag)),
        (Kind::Duration, DeValue::String(text)) => quantity::duration(text).map(Value::Duration),
        (Kind::Bytes, DeValue::String(text)) => quantity::bytes(text).map(Value::Bytes),
        (Kind::Bytes, DeValue::Integer(number)) => match u64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => quantity::bounded_bytes(number).map(Value::Bytes),
            Err(_) => Err(format!("expected {}", quantity::BYTES_FORM)),
        },
        (Kind::Choice(words), DeValue::String(text)) => choice(field.name, text, words),
        (kind, other) => Err(format!("expected {}, found {}", form(kind), kind_of(other))),
    };
    read.unwrap_or_else(|message| {
        findings.error(at, path, message);
        Value::Wrong
    })
}

fn choice(name: &str, text: &str, words: &'static [(&'static str, &'static str)]) -> Result<Value, String> {
    if let Some((word, _)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(Value::Choice(word));
    }
    let known = words.iter().map(|(word, _)| *word);
    let noun = if matches!(name, "start" | "asks" | "session") { "value" } else { name };
    let expected = format!("unknown {noun} {}; expected {}", quoted(text), one_of(known.clone()));
    Err(match nearest(text, known) {
        Some(near) => format!("{expected} (did you mean \"{near}\"?)"),
        None => expected,
    })
}

fn texts(items: &toml::de::DeArray<'_>, path: &str, findings: &mut Findings<'_>) -> Value {
    let mut read = Vec::with_capacity(items.len());
    let mut wrong = false;
    for (index, item) in items.iter().enumerate() {
        let at = item.span().start;
        match item.get_ref() {
            DeValue::String(text) => read.push(At { at, value: text.to_string() }),
            other => {
                wrong = true;
                findings.error(at, format!("{path}[{index}]"), format!("expected a string, found {}", kind_of(other)));
            }
        }
    }
    if wrong { Value::Wrong } else { Value::Texts(read) }
}

fn secrets(entries: &DeTable<'_>, path: &str, findings: &mut Findings<'_>) -> Value {
    let mut read = Vec::with_capacity(entries.len());
    let mut wrong = false;
    for (key, value) in in_order(entries) {
        let path = format!("{path}.{}", visible_key(key.get_ref()));
        match value.get_ref() {
            DeValue::String(text) => match pieces(text) {
                Ok(_) => {
                    read.push(At { at: key.span().start, value: (key.get_ref().to_string(), Secret::new(text.to_string())) })
                }
                Err(message) => {
                    wrong = true;
                    findings.error(value.span().start, path, message);
                }
            },
            other => {
                wrong = true;
                let message = format!("expected a string, found {}; put the value in quotes", kind_of(other));
                findings.error(value.span().start, path, message);
            }
        }
    }
    if wrong { Value::Wrong } else { Value::Secrets(read) }
}

/// The entries in the order of the file: the parser keeps them by name.
fn in_order<'t, 'i>(table: &'t DeTable<'i>) -> Vec<(&'t Spanned<std::borrow::Cow<'i, str>>, &'t Spanned<DeValue<'i>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn form(kind: Kind) -> String {
    match kind {
        Kind::Text => "a string in quotes".to_owned(),
        Kind::Texts => "a list of strings, such as [\"a\", \"b\"]".to_owned(),
        Kind::Secrets => "a table of strings, such as { NAME = \"value\" }".to_owned(),
        Kind::Secret => "a string in quotes".to_owned(),
        Kind::Port => "a port from 1 to 65535".to_owned(),
        Kind::Flag => "true or false".to_owned(),
        Kind::Duration => quantity::DURATION_FORM.to_owned(),
        Kind::Bytes => quantity::BYTES_FORM.to_owned(),
        Kind::Choice(words) => one_of(words.iter().map(|(word, _)| *word)),
    }
}

/// What a value is, without the value: it may be a secret.
fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a decimal number",
        DeValue::Boolean(_) => "true or false without quotes",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
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
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The parser's words for what a stranger meets most, in words to act on. `rest` is what follows the place, and is not shown.
fn syntax(message: &str, rest: &str) -> String {
    let next = rest.chars().next().filter(|next| *next != '\n' && *next != '\r');
    let is_scalar = ["invalid float", "invalid integer", "invalid boolean", "string values must be quoted"];
    if is_scalar.iter().any(|start| message.starts_with(start)) {
        return match next {
            None | Some('#') => "the value is missing".to_owned(),
            Some(next) if next.is_ascii_digit() || matches!(next, '+' | '-') => {
                "neither a number nor a text; a text stands in quotes".to_owned()
            }
            Some(_) => "a text stands in quotes: \"…\"".to_owned(),
        };
    }
    match message {
        "recursion limit" | "cannot recurse further; max recursion depth met" => "nested too deeply".to_owned(),
        "duplicate key" => "this name is already set above; each may stand once".to_owned(),
        "invalid key-value pair, expected key" if next == Some('{') => {
            "this looks like JSON; expected TOML, which begins with [servers.NAME]".to_owned()
        }
        "invalid basic string, expected `\"`" | "invalid literal string, expected `'`" => {
            "the text is not closed; expected the closing quote before the end of the line".to_owned()
        }
        other => other.replace('\n', ", "),
    }
}
