//! A3S Code: HCL with an `mcp_servers` block for each server. Whatever else its configuration says
//! is for its own program.

use std::collections::HashMap;

use super::Reader;
use crate::diagnostic::{Findings, visible_key};
use crate::fields::{Field, Kind, OURS_WITH_ONE_DEADLINE, Side, field};
use crate::reference::{Syntax, unescape};
use crate::tree::{Entry, Node, Tree};
use crate::written::{self, At, Fields, Value, Written, WrittenServer};

pub(super) struct A3s;

const BLOCK: &str = "mcp_servers";

/// The one remote wire of the document has three names in it.
const TRANSPORT: Kind = Kind::Choice(&[
    ("stdio", "a program that speaks over its standard streams"),
    ("sse", "HTTP+SSE"),
    ("http", "HTTP+SSE"),
    ("http+sse", "HTTP+SSE"),
]);

const FIELDS: &[Field] = &[
    field("name", Kind::Text, Side::Both, None, ""),
    field("transport", TRANSPORT, Side::Both, Some("\"stdio\""), ""),
    field("command", Kind::Text, Side::Stdio, None, ""),
    field("args", Kind::Texts, Side::Stdio, None, ""),
    field("env", Kind::Secrets, Side::Stdio, None, ""),
    field("url", Kind::Text, Side::Http, None, ""),
    field("headers", Kind::Secrets, Side::Http, None, ""),
    field("enabled", Kind::Flag, Side::Both, Some("true"), ""),
    field(
        "timeout_ms",
        Kind::Milliseconds,
        Side::Both,
        Some("60000"),
        "",
    ),
];

const RULES: &[Field] = &[
    field("allow", Kind::Texts, Side::Both, None, ""),
    field("ask", Kind::Texts, Side::Both, None, ""),
    field("deny", Kind::Texts, Side::Both, None, ""),
];

impl Reader for A3s {
    fn open(&self, document: &Node, findings: &mut Findings<'_>) -> Written {
        let mut written = Written::default();
        for entry in document.entries() {
            match (entry.key.as_str(), &entry.value.value) {
                // The same in the form of an attribute.
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
                ("permissions", _) => add_rules(&mut written.permissions, &entry.value, findings),
                _ => {}
            }
        }
        refuse_twins(&written.servers, findings);
        written
    }

    fn entry(&self, server: &WrittenServer, findings: &mut Findings<'_>) -> Option<Fields> {
        refuse_repeated(server, findings);
        let mut fields = written::entry(
            &server.node,
            FIELDS,
            OURS_WITH_ONE_DEADLINE,
            Syntax::Native,
            &server.path,
            findings,
        )?;
        match fields.0.remove("name") {
            Some(At {
                at,
                value: Value::Text(_),
            }) if server.name.is_empty() => {
                findings.error(
                    at,
                    format!("{}.name", server.path),
                    "expected a plain text that is not empty",
                );
            }
            Some(_) => {}
            None => findings.missing(
                server.at,
                &server.path,
                "`name` is missing; expected the name of the server",
            ),
        }
        fields.rename_once("timeout_ms", "call_timeout", &server.path, findings);
        choose_side(&mut fields, server, findings);
        Some(fields)
    }
}

/// The name is looked at early: servers are told apart by it.
fn server(block: &Node, at: usize, index: usize) -> WrittenServer {
    let name = block
        .get("name")
        .and_then(|entry| unescape(entry.value.text()?))
        .unwrap_or_default();
    let path = if name.is_empty() {
        format!("{BLOCK}[{index}]")
    } else {
        format!("{BLOCK}.{}", visible_key(&name))
    };
    WrittenServer {
        name,
        at,
        path,
        node: block.clone(),
    }
}

/// S1-26: which of two was meant cannot be known.
fn refuse_twins(servers: &[WrittenServer], findings: &mut Findings<'_>) {
    let mut first: HashMap<&str, usize> = HashMap::new();
    for server in servers.iter().filter(|server| !server.name.is_empty()) {
        if let Some(earlier) = first.get(server.name.as_str()) {
            let (earlier, later) = (
                findings.lines.line(*earlier),
                findings.lines.line(server.at),
            );
            let message = format!(
                "two blocks have this name (lines {earlier} and {later}); rename or remove one of them"
            );
            findings.error(server.at, &server.path, message);
        } else {
            first.insert(&server.name, server.at);
        }
    }
}

/// An attribute and a block of one name (`env = {…}` and `env {…}`): one of them would be lost.
fn refuse_repeated(server: &WrittenServer, findings: &mut Findings<'_>) {
    let entries = server.node.entries();
    for (index, Entry { key, at, .. }) in entries.iter().enumerate() {
        if let Some(earlier) = entries[..index].iter().find(|earlier| earlier.key == *key) {
            let line = findings.lines.line(earlier.at);
            let path = format!("{}.{}", server.path, visible_key(key));
            findings.error(
                *at,
                path,
                format!("set already (line {line}); each may stand once"),
            );
        }
    }
}

/// S1-05, C6: `transport` decides, and is "stdio" where it is left out; only then two addresses are
/// one too many.
fn choose_side(fields: &mut Fields, server: &WrittenServer, findings: &mut Findings<'_>) {
    let transport = match fields.0.get("transport") {
        Some(At {
            value: Value::Choice(word),
            at,
        }) => Some((*word, *at)),
        // Told already.
        Some(_) => return,
        None => None,
    };
    let other = match transport {
        Some(("stdio", _)) => "url",
        Some((_, at)) => {
            fields.0.insert(
                "transport",
                At {
                    at,
                    value: Value::Choice("sse"),
                },
            );
            "command"
        }
        None => {
            if let (Some(_), None) = (fields.at("url"), fields.at("command")) {
                let message = "`transport` is left out, which means \"stdio\", and `command` is missing; for a URL write \
                               transport = \"sse\"";
                findings.missing(server.at, &server.path, message);
            }
            return;
        }
    };
    let needed = if other == "url" { "command" } else { "url" };
    // Without the one that is needed, what is missing is told rather than what is too much.
    if let Some(At { at, .. }) = fields
        .0
        .remove(other)
        .filter(|_| fields.at(needed).is_some())
    {
        let line = transport
            .map(|(_, at)| findings.lines.line(at))
            .unwrap_or_default();
        findings.warn(
            at,
            format!("{}.{other}", server.path),
            format!("ignored: `transport` (line {line}) decides for `{needed}`"),
        );
    }
}

/// Several blocks add up.
fn add_rules(permissions: &mut Fields, block: &Node, findings: &mut Findings<'_>) {
    let Some(read) = written::table(block, RULES, Syntax::Native, "permissions", findings) else {
        return;
    };
    for (name, At { at, value }) in read.0 {
        let Value::Texts(texts) = value else { continue };
        let mut plain = Vec::with_capacity(texts.len());
        for text in texts {
            match unescape(&text.value) {
                Some(value) => plain.push(At { at: text.at, value }),
                None => findings.error(
                    text.at,
                    format!("permissions.{name}"),
                    "a rule is a plain text; expected no env() in it",
                ),
            }
        }
        match permissions.0.get_mut(name) {
            Some(At {
                value: Value::Texts(earlier),
                ..
            }) => earlier.extend(plain),
            _ => {
                permissions.0.insert(
                    name,
                    At {
                        at,
                        value: Value::Texts(plain),
                    },
                );
            }
        }
    }
}
