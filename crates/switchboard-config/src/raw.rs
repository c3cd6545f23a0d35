//! Reads a document into known fields: checks names and types of values, and not yet how fields fit
//! together.

use super::diagnostic::{Diagnostics, visible_key};
use super::fields::{
    FieldSpec, GATEWAY, MODEL, NAMING, PERMISSIONS, SECURITY, SERVERS, native_fields, nearest,
};
use super::reference::ReferenceSyntax;
use super::tree::{Node, TableEntry, Tree};

pub(super) use field_table::{AtOffset, FieldTable, FieldValue, RawRule};
pub(super) use value::read_value;

mod field_table;
mod value;

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
    // In YAML, a key without a value: its last entry was removed.
    let is_empty = matches!(value.value, Tree::Null) && !diagnostics.json;
    if !matches!(value.value, Tree::Table(_)) && !is_empty {
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
    read_entry(value, &[known], &[], syntax, path, diagnostics)
}

/// As [`read_table`], for an entry of a foreign dialect, which may have these native fields as
/// well.
pub(super) fn read_entry(
    value: &Node,
    known: &[&'static [FieldSpec]],
    native: &'static [&'static [&'static str]],
    syntax: ReferenceSyntax,
    path: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<FieldTable> {
    let own = known.iter().flat_map(|fields| fields.iter());
    let known = own.chain(native_fields(native));
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
                fields.values.insert(
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

fn listed(words: impl Iterator<Item = &'static str>) -> String {
    words
        .map(|word| format!("`{word}`"))
        .collect::<Vec<_>>()
        .join(", ")
}
