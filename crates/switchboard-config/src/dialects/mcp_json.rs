//! The shape that most programs share: `mcpServers` of `.mcp.json`, and what comes near it (VS
//! Code's `servers`, Codex's `[mcp_servers.NAME]`, Zed's `context_servers`, opencode's `mcp`). Read
//! tolerantly; one wrong entry never drops its neighbours.

use std::time::Duration;

use super::Reader;
use crate::diagnostic::{Findings, visible_key};
use crate::fields::{Field, Kind, OURS, Side, field};
use crate::reference::Syntax;
use crate::tree::{Node, Tree};
use crate::written::{self, At, Fields, Value, Written, WrittenServer};

mod tidy;

pub(super) struct McpJson;

/// The keys that hold servers, the likeliest first: one file has one of them.
const SECTIONS: [&str; 5] = ["mcpServers", "servers", CODEX, ZED, "mcp"];

const CODEX: &str = "mcp_servers";

/// Where Claude Code keeps what belongs to one folder.
const PROJECTS: &str = "projects";

/// Its `timeout` counts in seconds.
const ZED: &str = "context_servers";

const FIELDS: &[Field] = &[
    field("command", Kind::Text, Side::Stdio, None, ""),
    field("args", Kind::Texts, Side::Stdio, None, ""),
    field("env", Kind::Secrets, Side::Stdio, None, ""),
    field("environment", Kind::Secrets, Side::Stdio, None, ""),
    field("cwd", Kind::Text, Side::Stdio, None, ""),
    field("url", Kind::Text, Side::Http, None, ""),
    field("httpUrl", Kind::Text, Side::Http, None, ""),
    field("serverUrl", Kind::Text, Side::Http, None, ""),
    field("baseUrl", Kind::Text, Side::Http, None, ""),
    field("headers", Kind::Secrets, Side::Http, None, ""),
    field("http_headers", Kind::Secrets, Side::Http, None, ""),
    field("type", Kind::Text, Side::Both, None, ""),
    field("transport", Kind::Text, Side::Both, None, ""),
    field("disabled", Kind::Flag, Side::Both, Some("false"), ""),
    field("enabled", Kind::Flag, Side::Both, Some("true"), ""),
    field("timeout", Kind::Milliseconds, Side::Both, None, ""),
    field(
        "request_timeout_ms",
        Kind::Milliseconds,
        Side::Both,
        None,
        "",
    ),
    field(
        "startup_timeout_ms",
        Kind::Milliseconds,
        Side::Both,
        None,
        "",
    ),
    field(
        "startup_timeout_sec",
        Kind::Milliseconds,
        Side::Both,
        None,
        "",
    ),
    field("tool_timeout_sec", Kind::Milliseconds, Side::Both, None, ""),
    field("description", Kind::Text, Side::Both, None, ""),
    field("tools", Kind::Texts, Side::Both, None, ""),
    field("includeTools", Kind::Texts, Side::Both, None, ""),
    field("allowedTools", Kind::Texts, Side::Both, None, ""),
    field("enabled_tools", Kind::Texts, Side::Both, None, ""),
    field("excludeTools", Kind::Texts, Side::Both, None, ""),
    field("excludedTools", Kind::Texts, Side::Both, None, ""),
    field("disabled_tools", Kind::Texts, Side::Both, None, ""),
    field("bearer_token", Kind::Secret, Side::Http, None, ""),
    field("bearerToken", Kind::Secret, Side::Http, None, ""),
    field("scopes", Kind::Texts, Side::Http, None, ""),
    field("oauth.clientId", Kind::Text, Side::Http, None, ""),
    field("oauth.client_id", Kind::Text, Side::Http, None, ""),
    field("oauth.clientSecret", Kind::Secret, Side::Http, None, ""),
    field("oauth.callbackPort", Kind::Port, Side::Http, None, ""),
    field("oauth.callback_port", Kind::Port, Side::Http, None, ""),
    field("oauth.scopes", Kind::Texts, Side::Http, None, ""),
];

/// Fields with their native names. Of several for one thing the first holds.
const RENAMED: &[(&str, &str)] = &[
    ("environment", "env"),
    ("httpUrl", "url"),
    ("serverUrl", "url"),
    ("baseUrl", "url"),
    ("http_headers", "headers"),
    ("timeout", "call_timeout"),
    ("request_timeout_ms", "call_timeout"),
    ("tool_timeout_sec", "call_timeout"),
    ("startup_timeout_ms", "connect_timeout"),
    ("startup_timeout_sec", "connect_timeout"),
    ("tools", "include_tools"),
    ("includeTools", "include_tools"),
    ("allowedTools", "include_tools"),
    ("enabled_tools", "include_tools"),
    ("excludeTools", "exclude_tools"),
    ("excludedTools", "exclude_tools"),
    ("disabled_tools", "exclude_tools"),
    ("bearerToken", "bearer_token"),
    ("scopes", "oauth_scopes"),
    ("oauth.scopes", "oauth_scopes"),
    ("oauth.clientId", "oauth_client_id"),
    ("oauth.client_id", "oauth_client_id"),
    ("oauth.clientSecret", "oauth_client_secret"),
    ("oauth.callbackPort", "oauth_callback_port"),
    ("oauth.callback_port", "oauth_callback_port"),
];

/// What programs call the wires. The empty one lets the wire be found out.
const WIRES: &[(&str, &str)] = &[
    ("stdio", "stdio"),
    ("local", "stdio"),
    ("http", "http"),
    ("streamable-http", "http"),
    ("streamable_http", "http"),
    ("streamableHttp", "http"),
    ("sse", "sse"),
    ("remote", ""),
];

impl Reader for McpJson {
    fn open(&self, document: &Node, findings: &mut Findings<'_>) -> Written {
        let mut written = Written::default();
        let mut found = SECTIONS
            .into_iter()
            .filter_map(|section| Some((section, document.get(section)?)));
        let first = found.next();
        let of_project = of_project(document, findings);
        match first {
            Some((section, entry)) => {
                written.servers = written::servers(section, &entry.value, findings)
            }
            None if document.entries().is_empty() || document.get(PROJECTS).is_some() => {}
            None => findings.warn(
                document.at,
                "",
                "no server is in this file; expected them in `mcpServers`",
            ),
        }
        for (section, entry) in found.filter(|(section, _)| *section != "mcp") {
            let read = first.map(|(section, _)| section).unwrap_or_default();
            let message = format!("not read beside `{read}`; expected all servers there");
            findings.warn(entry.at, section, message);
        }
        // A project's own entry holds before one of the same name for all projects.
        written
            .servers
            .retain(|server| of_project.iter().all(|own| own.name != server.name));
        written.servers.extend(of_project);
        written
    }

    fn entry(&self, server: &WrittenServer, findings: &mut Findings<'_>) -> Option<Fields> {
        let section = server.path.split('.').next().unwrap_or_default();
        let node = tidy::entry(server, section == CODEX, findings);
        let mut fields =
            written::entry(&node, FIELDS, OURS, Syntax::Braced, &server.path, findings)?;
        set_seconds(&mut fields, section);
        ignore_short_timeout(&mut fields, server, findings);
        let wire = wire(&mut fields, server, findings);
        for (own, native) in RENAMED {
            fields.rename_once(own, native, &server.path, findings);
        }
        if let Some(disabled) = fields.0.remove("disabled") {
            let on = matches!(disabled.value, Value::Flag(false))
                && fields.flag("enabled") != Some(false);
            fields.0.insert(
                "enabled",
                At {
                    at: disabled.at,
                    value: Value::Flag(on),
                },
            );
        }
        // C6: where it is said which of the two is meant, that holds.
        if let (Some(wire), Some(_), Some(_)) = (wire, fields.at("command"), fields.at("url")) {
            drop_other_side(&mut fields, wire, server, findings);
        }
        Some(fields)
    }
}

/// Claude Code keeps servers for all projects, and for each project its own: those of the project
/// that this folder belongs to.
fn of_project(document: &Node, findings: &mut Findings<'_>) -> Vec<WrittenServer> {
    let (Some(projects), Ok(folder)) = (document.get(PROJECTS), std::path::absolute(".")) else {
        return Vec::new();
    };
    let here = projects
        .value
        .entries()
        .iter()
        .filter(|project| folder.starts_with(&project.key));
    let Some(project) = here.max_by_key(|project| project.key.len()) else {
        return Vec::new();
    };
    let Some(section) = project.value.get(SECTIONS[0]) else {
        return Vec::new();
    };
    let mut servers = written::servers(SECTIONS[0], &section.value, findings);
    for server in &mut servers {
        server.path = format!("{PROJECTS}.{}.{}", visible_key(&project.key), server.path);
    }
    servers
}

/// The word for the wire, in whatever spelling: put in as the native one, and returned (empty: some
/// URL).
fn wire(
    fields: &mut Fields,
    server: &WrittenServer,
    findings: &mut Findings<'_>,
) -> Option<&'static str> {
    let own = if fields.at("type").is_some() {
        "type"
    } else {
        "transport"
    };
    let at = fields.at(own)?;
    let said = fields.text(own).map(|said| {
        WIRES
            .iter()
            .find(|(word, _)| *word == said)
            .map(|(_, wire)| *wire)
    });
    fields.0.remove("transport");
    fields.0.remove("type");
    let Some(wire) = said? else {
        let message = "no wire that is known here; expected \"stdio\", \"http\" or \"sse\"";
        findings.error(at, format!("{}.{own}", server.path), message);
        return None;
    };
    // A URL without more tries Streamable HTTP, then HTTP+SSE.
    if !wire.is_empty() {
        fields.0.insert(
            "transport",
            At {
                at,
                value: Value::Choice(wire),
            },
        );
        fields.spell("transport", own);
    }
    Some(wire)
}

fn drop_other_side(
    fields: &mut Fields,
    wire: &str,
    server: &WrittenServer,
    findings: &mut Findings<'_>,
) {
    let (kept, dropped) = if wire == "stdio" {
        ("command", "url")
    } else {
        ("url", "command")
    };
    let message = format!(
        "ignored: the server is reached by its `{}`; remove one of them",
        fields.spelt(kept)
    );
    let path = format!("{}.{}", server.path, fields.spelt(dropped));
    if let Some(dropped) = fields.0.remove(dropped) {
        findings.warn(dropped.at, path, message);
    }
}

/// What counts in seconds was read as milliseconds.
fn set_seconds(fields: &mut Fields, section: &str) {
    for (field, counts) in [
        ("startup_timeout_sec", true),
        ("tool_timeout_sec", true),
        ("timeout", section == ZED),
    ] {
        if let (
            true,
            Some(At {
                value: Value::Duration(duration),
                ..
            }),
        ) = (counts, fields.0.get_mut(field))
        {
            *duration = duration.saturating_mul(1000);
        }
    }
}

/// A `timeout` below a second was meant in seconds, or by mistake: no server answers in it.
fn ignore_short_timeout(fields: &mut Fields, server: &WrittenServer, findings: &mut Findings<'_>) {
    if fields
        .duration("timeout")
        .is_some_and(|timeout| timeout < Duration::from_secs(1))
        && let Some(short) = fields.0.remove("timeout")
    {
        let message = "ignored: less than a second; expected milliseconds, such as 60000";
        findings.warn(short.at, format!("{}.timeout", server.path), message);
    }
}

/// Whether it says nothing: some programs write what is not set.
fn is_nothing(node: &Node) -> bool {
    matches!(node.value, Tree::Null)
}
