//! agent-code: TOML with `[mcp_servers.NAME]`. Every text is taken as it is; whatever else its
//! configuration says is for its own program.

use super::Reader;
use crate::diagnostic::{Findings, visible_key};
use crate::fields::{Field, Kind, OURS, Side, field};
use crate::reference::Syntax;
use crate::tree::{Entry, Node, Tree};
use crate::written::{self, At, Fields, Value, Written, WrittenServer};

pub(super) struct AgentCode;

const SECTION: &str = "mcp_servers";

const FIELDS: &[Field] = &[
    field("command", Kind::Text, Side::Stdio, None, ""),
    field("args", Kind::Texts, Side::Stdio, None, ""),
    field("env", Kind::Secrets, Side::Stdio, None, ""),
    field("url", Kind::Text, Side::Http, None, ""),
];

/// Each with its native name.
const SECURITY: [(Field, &str); 2] = [
    (
        field("mcp_server_allowlist", Kind::Texts, Side::Both, None, ""),
        "allow_servers",
    ),
    (
        field("mcp_server_denylist", Kind::Texts, Side::Both, None, ""),
        "deny_servers",
    ),
];

impl Reader for AgentCode {
    fn open(&self, document: &Node, findings: &mut Findings<'_>) -> Written {
        let mut written = Written::default();
        if let Some(entry) = document.get(SECTION) {
            written.servers = servers(&entry.value, findings);
        }
        if let Some(entry) = document.get("security") {
            written.security = security(&entry.value, findings);
        }
        if let Some(entry) = document.get("permissions") {
            written.permissions = permissions(&entry.value, findings);
        }
        written
    }

    fn entry(&self, server: &WrittenServer, findings: &mut Findings<'_>) -> Option<Fields> {
        let mut fields = written::entry(
            &server.node,
            FIELDS,
            OURS,
            Syntax::Literal,
            &server.path,
            findings,
        )?;
        // C6: stdio is the document's default, so the command is what is meant.
        if let (Some(command), Some(url)) = (fields.at("command"), fields.at("url")) {
            fields.0.remove("url");
            let message = format!(
                "ignored: `command` (line {}) is started instead; remove one of them",
                findings.lines.line(command)
            );
            findings.warn(url, format!("{}.url", server.path), message);
        }
        Some(fields)
    }
}

fn servers(value: &Node, findings: &mut Findings<'_>) -> Vec<WrittenServer> {
    if !matches!(value.value, Tree::Table(_)) {
        let message = format!(
            "expected a table for each server, [{SECTION}.NAME], found {}",
            value.kind()
        );
        findings.error(value.at, SECTION, message);
    }
    let server = |entry: &Entry| WrittenServer {
        name: entry.key.clone(),
        at: entry.at,
        path: format!("{SECTION}.{}", visible_key(&entry.key)),
        node: entry.value.clone(),
    };
    value.entries().iter().map(server).collect()
}

fn security(section: &Node, findings: &mut Findings<'_>) -> Fields {
    let mut fields = Fields::default();
    for (field, native) in &SECURITY {
        if let Some(Entry { at, value, .. }) = section.get(field.name) {
            let path = format!("security.{}", field.name);
            let value = written::read_value(field, value, Syntax::Literal, &path, findings);
            fields.0.insert(native, At { at: *at, value });
            fields.spell(native, field.name);
        }
    }
    fields
}

/// `[[permissions.rules]]`, sorted by what they say. A rule that cannot be read is an error of the
/// file: left out, it might have been the one that denies.
fn permissions(section: &Node, findings: &mut Findings<'_>) -> Fields {
    let mut fields = Fields::default();
    ["allow", "ask", "deny"]
        .into_iter()
        .for_each(|kind| fields.spell(kind, "rules"));
    for Entry { key, at, value } in section.entries() {
        match (key.as_str(), &value.value) {
            ("rules", Tree::List(rules)) => {
                for (index, rule) in rules.iter().enumerate() {
                    add_rule(
                        rule,
                        &format!("permissions.rules[{index}]"),
                        &mut fields,
                        findings,
                    );
                }
            }
            ("rules", _) => {
                let message = format!("expected [[permissions.rules]], found {}", value.kind());
                findings.error(value.at, "permissions.rules", message);
            }
            _ => findings.unknown(
                *at,
                format!("permissions.{}", visible_key(key)),
                "field",
                "; known is `rules`",
            ),
        }
    }
    fields
}

fn add_rule(rule: &Node, path: &str, fields: &mut Fields, findings: &mut Findings<'_>) {
    let text = |field: &str| {
        rule.get(field)
            .and_then(|entry| Some((entry.value.at, entry.value.text()?)))
    };
    let Some((at, tool)) = text("tool") else {
        findings.error(
            rule.at,
            format!("{path}.tool"),
            "expected a tool's name in quotes, such as \"mcp__github__*\"",
        );
        return;
    };
    let kind = match text("action") {
        Some((_, "allow")) => "allow",
        Some((_, "ask")) => "ask",
        Some((_, "deny")) => "deny",
        found => {
            let message = "expected \"allow\", \"ask\" or \"deny\"";
            findings.error(
                found.map_or(rule.at, |(at, _)| at),
                format!("{path}.action"),
                message,
            );
            return;
        }
    };
    let more = rule
        .entries()
        .iter()
        .find(|entry| entry.key != "tool" && entry.key != "action");
    if let Some(Entry { key, at, .. }) = more {
        let path = format!("{path}.{}", visible_key(key));
        // What narrows a rule in a way that is not known here makes an allow too wide, and a deny
        // at most too strict.
        if kind == "allow" {
            findings.warn(
                *at,
                path,
                "not known here, so this rule allows nothing; known are `tool` and `action`",
            );
            return;
        }
        findings.warn(
            *at,
            path,
            "not known here, and ignored; known are `tool` and `action`",
        );
    }
    let rule = At {
        at,
        value: tool.to_owned(),
    };
    match fields.0.get_mut(kind) {
        Some(At {
            value: Value::Texts(rules),
            ..
        }) => rules.push(rule),
        _ => {
            fields.0.insert(
                kind,
                At {
                    at,
                    value: Value::Texts(vec![rule]),
                },
            );
        }
    }
}
