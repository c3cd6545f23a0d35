//! agent-code: TOML with `[mcp_servers.NAME]`. Every text is literal; other settings are ignored.

use super::entry_spelling::{EntrySpelling, ReferenceForm, URL};
use super::profile::{DialectProfile, FOREIGN, RuleSyntax};
use super::{DialectReader, native};
use crate::HttpTransportKind;
use crate::diagnostic::{Diagnostics, visible_key};
use crate::fields::{FieldSpec, OURS, PROCESS, ValueKind, foreign_field};
use crate::name::Style;
use crate::raw::{self, AtOffset, FieldTable, FieldValue, RawConfig, RawServer};
use crate::reference::ReferenceSyntax;
use crate::tree::{Node, TableEntry, Tree};

pub(super) struct AgentCode;

const SECTION: &str = "mcp_servers";

/// Fields that it shares with the native file.
const NATIVE_FIELDS: &[&[&str]] = &[PROCESS, &["url"], OURS];

/// Each field with its native name.
const SECURITY: [(FieldSpec, &str); 2] = [
    (
        foreign_field("mcp_server_allowlist", ValueKind::Texts),
        "allow_servers",
    ),
    (
        foreign_field("mcp_server_denylist", ValueKind::Texts),
        "deny_servers",
    ),
];

/// The behaviour of its servers.
pub(super) const PROFILE: DialectProfile = DialectProfile {
    name: "agent-code",
    naming: Some(Style::Mcp),
    syntax: ReferenceSyntax::Literal,
    wire: HttpTransportKind::Sse,
    entry_spelling: SPELLING,
    sse_path_fallback: true,
    rule_syntax: RuleSyntax::Exposed,
    offers_resource_tools: true,
    ..FOREIGN
};

/// How a new entry is written.
const SPELLING: EntrySpelling = EntrySpelling {
    container: &["mcp_servers"],
    http: None,
    sse: URL,
    headers: None,
    cwd: None,
    enabled: None,
    reference: ReferenceForm::None,
    ..native::SPELLING
};

impl DialectReader for AgentCode {
    fn open(&self, document: &Node, diagnostics: &mut Diagnostics<'_>) -> RawConfig {
        let mut written = RawConfig::default();
        if let Some(entry) = document.get(SECTION) {
            written.servers = servers(&entry.value, diagnostics);
        }
        if let Some(entry) = document.get("security") {
            written.security = security(&entry.value, diagnostics);
        }
        if let Some(entry) = document.get("permissions") {
            written.permissions = permissions(&entry.value, diagnostics);
        }
        written
    }

    fn entry(&self, server: &RawServer, diagnostics: &mut Diagnostics<'_>) -> Option<FieldTable> {
        let mut fields = raw::read_entry(
            &server.node,
            &[],
            NATIVE_FIELDS,
            ReferenceSyntax::Literal,
            &server.path,
            diagnostics,
        )?;
        // stdio is the documented default, so `command` counts.
        if let (Some(command), Some(url)) = (fields.offset_of("command"), fields.offset_of("url")) {
            fields.values.remove("url");
            let message = format!(
                "ignored: `command` (line {}) is started instead; remove one of them",
                diagnostics.lines.line(command)
            );
            diagnostics.warn(url, format!("{}.url", server.path), message);
        }
        Some(fields)
    }
}

fn servers(value: &Node, diagnostics: &mut Diagnostics<'_>) -> Vec<RawServer> {
    if !matches!(value.value, Tree::Table(_)) {
        let message = format!(
            "expected a table for each server, [{SECTION}.NAME], found {}",
            value.kind()
        );
        diagnostics.error(value.at, SECTION, message);
    }
    let server = |entry: &TableEntry| RawServer {
        name: entry.key.clone(),
        at: entry.at,
        path: format!("{SECTION}.{}", visible_key(&entry.key)),
        node: entry.value.clone(),
    };
    value.entries().iter().map(server).collect()
}

fn security(section: &Node, diagnostics: &mut Diagnostics<'_>) -> FieldTable {
    let mut fields = FieldTable::default();
    for (field, native) in &SECURITY {
        if let Some(TableEntry { at, value, .. }) = section.get(field.name) {
            let path = format!("security.{}", field.name);
            let value = raw::read_value(field, value, ReferenceSyntax::Literal, &path, diagnostics);
            fields.values.insert(native, AtOffset { at: *at, value });
            fields.set_name_in_file(native, field.name);
        }
    }
    fields
}

/// Reads `[[permissions.rules]]`, grouped by action. A rule that cannot be read is an error of the
/// file: it may be a deny rule.
fn permissions(section: &Node, diagnostics: &mut Diagnostics<'_>) -> FieldTable {
    let mut fields = FieldTable::default();
    ["allow", "ask", "deny"]
        .into_iter()
        .for_each(|kind| fields.set_name_in_file(kind, "rules"));
    for TableEntry { key, at, value } in section.entries() {
        match (key.as_str(), &value.value) {
            ("rules", Tree::List(rules)) => {
                for (index, rule) in rules.iter().enumerate() {
                    add_rule(
                        rule,
                        &format!("permissions.rules[{index}]"),
                        &mut fields,
                        diagnostics,
                    );
                }
            }
            ("rules", _) => {
                let message = format!("expected [[permissions.rules]], found {}", value.kind());
                diagnostics.error(value.at, "permissions.rules", message);
            }
            _ => diagnostics.unknown(
                *at,
                format!("permissions.{}", visible_key(key)),
                "field",
                "; known is `rules`",
            ),
        }
    }
    fields
}

fn add_rule(rule: &Node, path: &str, fields: &mut FieldTable, diagnostics: &mut Diagnostics<'_>) {
    let text = |field: &str| {
        rule.get(field)
            .and_then(|entry| Some((entry.value.at, entry.value.text()?)))
    };
    let Some((at, tool)) = text("tool") else {
        diagnostics.error(
            rule.at,
            format!("{path}.tool"),
            "expected a tool's name in quotes, such as \"mcp__github__*\"",
        );
        return;
    };
    let action = match text("action") {
        Some((_, "allow")) => "allow",
        Some((_, "ask")) => "ask",
        Some((_, "deny")) => "deny",
        found => {
            let message = "expected \"allow\", \"ask\" or \"deny\"";
            diagnostics.error(
                found.map_or(rule.at, |(at, _)| at),
                format!("{path}.action"),
                message,
            );
            return;
        }
    };
    if has_unknown_condition(rule, path, action, diagnostics) && action == "allow" {
        return;
    }
    let rule = AtOffset {
        at,
        value: tool.to_owned(),
    };
    match fields.values.get_mut(action) {
        Some(AtOffset {
            value: FieldValue::Texts(rules),
            ..
        }) => rules.push(rule),
        _ => {
            let value = FieldValue::Texts(vec![rule]);
            fields.values.insert(action, AtOffset { at, value });
        }
    }
}

/// Whether a rule has a condition that is not known here, which is reported. Without the condition
/// an allow rule would be too wide, a deny rule at most too strict.
fn has_unknown_condition(
    rule: &Node,
    path: &str,
    action: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> bool {
    let mut entries = rule.entries().iter();
    let unknown = entries.find(|entry| entry.key != "tool" && entry.key != "action");
    let Some(TableEntry { key, at, .. }) = unknown else {
        return false;
    };
    let message = match action {
        "allow" => "not known here, so this rule allows nothing; known are `tool` and `action`",
        _ => "not known here, and ignored; known are `tool` and `action`",
    };
    diagnostics.warn(*at, format!("{path}.{}", visible_key(key)), message);
    true
}
