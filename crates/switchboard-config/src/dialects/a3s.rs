//! A3S Code: HCL with an `mcp_servers` block for each server. Other settings are ignored.

use std::collections::HashMap;
use std::time::Duration;

use super::entry_spelling::{EntrySpelling, ReferenceForm, SSE};
use super::profile::{DialectProfile, FOREIGN, RuleSyntax};
use super::{DialectReader, native};
use crate::diagnostic::{Diagnostics, visible_key};
use crate::fields::{FieldSpec, OURS_WITH_ONE_DEADLINE, PROCESS, ValueKind, foreign_field};
use crate::format::Format;
use crate::name::Style;
use crate::raw::{self, AtOffset, FieldTable, FieldValue, RawConfig, RawServer};
use crate::reference::{ReferenceSyntax, unescape};
use crate::tree::{Node, TableEntry, Tree};
use crate::{HttpTransportKind, TimeField};

pub(super) struct A3s;

const BLOCK: &str = "mcp_servers";

/// The documentation has three names for its one remote transport.
const TRANSPORT: ValueKind = ValueKind::Choice(&[
    ("stdio", "a program that speaks over its standard streams"),
    ("sse", "HTTP+SSE"),
    ("http", "HTTP+SSE"),
    ("http+sse", "HTTP+SSE"),
]);

const FIELDS: &[FieldSpec] = &[
    foreign_field("name", ValueKind::Text),
    foreign_field("transport", TRANSPORT),
    foreign_field("timeout_ms", ValueKind::Milliseconds),
];

/// Fields that it shares with the native file.
const NATIVE_FIELDS: &[&[&str]] = &[
    PROCESS,
    &["url", "headers", "enabled"],
    OURS_WITH_ONE_DEADLINE,
];

const RULES: &[FieldSpec] = &[
    foreign_field("allow", ValueKind::Texts),
    foreign_field("ask", ValueKind::Texts),
    foreign_field("deny", ValueKind::Texts),
];

/// The behaviour of its servers.
pub(super) const PROFILE: DialectProfile = DialectProfile {
    name: "a3s",
    format: Format::Hcl,
    naming: Some(Style::Mcp),
    // The reader turns `env("NAME")` into a native reference and escapes every other `$`.
    syntax: ReferenceSyntax::Native,
    call_timeout: Some(Duration::from_secs(60)),
    call_timeout_field: Some(TimeField::TimeoutMs),
    wire: HttpTransportKind::Sse,
    refuses_builtin_names: true,
    entry_spelling: SPELLING,
    rule_syntax: RuleSyntax::Prefix,
    ..FOREIGN
};

/// How a new entry is written.
const SPELLING: EntrySpelling = EntrySpelling {
    container: &["mcp_servers"],
    stdio: Some(("transport", "stdio")),
    auto: SSE,
    http: None,
    cwd: None,
    reference: ReferenceForm::Call,
    ..native::SPELLING
};

impl DialectReader for A3s {
    fn open(&self, document: &Node, diagnostics: &mut Diagnostics<'_>) -> RawConfig {
        let mut written = RawConfig::default();
        for entry in document.entries() {
            match (entry.key.as_str(), &entry.value.value) {
                // The same, written as an attribute.
                (BLOCK, Tree::List(items)) => {
                    for item in items {
                        written
                            .servers
                            .push(server(item, item.at, written.servers.len()));
                    }
                }
                (BLOCK, _) => {
                    written
                        .servers
                        .push(server(&entry.value, entry.at, written.servers.len()))
                }
                ("permissions", _) => {
                    add_rules(&mut written.permissions, &entry.value, diagnostics)
                }
                _ => {}
            }
        }
        refuse_duplicates(&written.servers, diagnostics);
        written
    }

    fn entry(&self, server: &RawServer, diagnostics: &mut Diagnostics<'_>) -> Option<FieldTable> {
        refuse_repeated(server, diagnostics);
        let mut fields = raw::read_entry(
            &server.node,
            &[FIELDS],
            NATIVE_FIELDS,
            ReferenceSyntax::Native,
            &server.path,
            diagnostics,
        )?;
        match fields.values.remove("name") {
            Some(AtOffset {
                at,
                value: FieldValue::Text(_),
            }) if server.name.is_empty() => {
                diagnostics.error(
                    at,
                    format!("{}.name", server.path),
                    "expected a plain text that is not empty",
                );
            }
            Some(_) => {}
            None => diagnostics.missing(
                server.at,
                &server.path,
                "`name` is missing; expected the name of the server",
            ),
        }
        fields.rename_once("timeout_ms", "call_timeout", &server.path, diagnostics);
        choose_transport(&mut fields, server, diagnostics);
        Some(fields)
    }
}

/// The name is read first: it identifies the server.
fn server(block: &Node, at: usize, index: usize) -> RawServer {
    let name = block
        .get("name")
        .and_then(|entry| unescape(entry.value.text()?))
        .unwrap_or_default();
    let path = if name.is_empty() {
        format!("{BLOCK}[{index}]")
    } else {
        format!("{BLOCK}.{}", visible_key(&name))
    };
    RawServer {
        name,
        at,
        path,
        node: block.clone(),
    }
}

/// Two servers of one name are an error.
fn refuse_duplicates(servers: &[RawServer], diagnostics: &mut Diagnostics<'_>) {
    let mut first: HashMap<&str, usize> = HashMap::new();
    for server in servers.iter().filter(|server| !server.name.is_empty()) {
        if let Some(earlier) = first.get(server.name.as_str()) {
            let (earlier, later) = (
                diagnostics.lines.line(*earlier),
                diagnostics.lines.line(server.at),
            );
            let message = format!(
                "two blocks have this name (lines {earlier} and {later}); rename or remove one of them"
            );
            diagnostics.error(server.at, &server.path, message);
        } else {
            first.insert(&server.name, server.at);
        }
    }
}

/// An attribute and a block of one name (`env = {…}` and `env {…}`) are an error: one of them would
/// be ignored.
fn refuse_repeated(server: &RawServer, diagnostics: &mut Diagnostics<'_>) {
    let entries = server.node.entries();
    for (index, TableEntry { key, at, .. }) in entries.iter().enumerate() {
        if let Some(earlier) = entries[..index].iter().find(|earlier| earlier.key == *key) {
            let line = diagnostics.lines.line(earlier.at);
            let path = format!("{}.{}", server.path, visible_key(key));
            diagnostics.error(
                *at,
                path,
                format!("already set (line {line}); each name may occur once"),
            );
        }
    }
}

/// `transport` decides, and defaults to "stdio". Only without it `command` and `url` contradict
/// each other.
fn choose_transport(
    fields: &mut FieldTable,
    server: &RawServer,
    diagnostics: &mut Diagnostics<'_>,
) {
    let transport = match fields.values.get("transport") {
        Some(AtOffset {
            value: FieldValue::Choice(word),
            at,
        }) => Some((*word, *at)),
        // Already reported.
        Some(_) => return,
        None => None,
    };
    let other = match transport {
        Some(("stdio", _)) => "url",
        Some((_, at)) => {
            fields.values.insert(
                "transport",
                AtOffset {
                    at,
                    value: FieldValue::Choice("sse"),
                },
            );
            "command"
        }
        None => {
            if let (Some(_), None) = (fields.offset_of("url"), fields.offset_of("command")) {
                let message = "`transport` is left out, which means \"stdio\", and `command` is missing; for a URL write \
                               transport = \"sse\"";
                diagnostics.missing(server.at, &server.path, message);
            }
            return;
        }
    };
    let needed = if other == "url" { "command" } else { "url" };
    // If the required field is missing, that is reported instead of the superfluous one.
    if let Some(AtOffset { at, .. }) = fields
        .values
        .remove(other)
        .filter(|_| fields.offset_of(needed).is_some())
    {
        let line = transport
            .map(|(_, at)| diagnostics.lines.line(at))
            .unwrap_or_default();
        diagnostics.warn(
            at,
            format!("{}.{other}", server.path),
            format!("ignored: `transport` (line {line}) decides for `{needed}`"),
        );
    }
}

/// The rules of several blocks add up.
fn add_rules(permissions: &mut FieldTable, block: &Node, diagnostics: &mut Diagnostics<'_>) {
    let Some(read) = raw::read_table(
        block,
        RULES,
        ReferenceSyntax::Native,
        "permissions",
        diagnostics,
    ) else {
        return;
    };
    for (name, AtOffset { at, value }) in read.values {
        let FieldValue::Texts(texts) = value else {
            continue;
        };
        let mut plain = Vec::with_capacity(texts.len());
        for text in texts {
            match unescape(&text.value) {
                Some(value) => plain.push(AtOffset { at: text.at, value }),
                None => diagnostics.error(
                    text.at,
                    format!("permissions.{name}"),
                    "a rule is a plain text; expected no env() in it",
                ),
            }
        }
        match permissions.values.get_mut(name) {
            Some(AtOffset {
                value: FieldValue::Texts(earlier),
                ..
            }) => earlier.extend(plain),
            _ => {
                permissions.values.insert(
                    name,
                    AtOffset {
                        at,
                        value: FieldValue::Texts(plain),
                    },
                );
            }
        }
    }
}
