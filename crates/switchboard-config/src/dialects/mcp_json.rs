//! The format of most programs: `mcpServers` of `.mcp.json` and its variants (VS Code's `servers`,
//! Codex's `[mcp_servers.NAME]`, Zed's `context_servers`, opencode's `mcp`). An invalid entry does
//! not affect the others.

use std::time::Duration;

use super::entry_spelling::{EntrySpelling, ReferenceForm};
use super::profile::DialectProfile;
use super::{DialectReader, native};
use crate::diagnostic::{Diagnostics, visible_key};
use crate::fields::{FieldSpec, OURS, PROCESS, ValueKind, foreign_field};
use crate::format::Format;
use crate::raw::{self, AtOffset, FieldTable, FieldValue, RawConfig, RawServer};
use crate::reference::ReferenceSyntax;
use crate::tree::{Node, Tree};

use tidy::TextForm;

mod tidy;

pub(super) struct McpJson;

/// The keys of sections with servers, the most common first. A file has one of them.
const SECTIONS: [&str; 5] = ["mcpServers", "servers", CODEX, ZED, OPENCODE];

const CODEX: &str = "mcp_servers";

const OPENCODE: &str = "mcp";

/// The key of Claude Code's settings per folder.
const PROJECTS: &str = "projects";

/// Its `timeout` is in seconds.
const ZED: &str = "context_servers";

/// The name of Cline's file. Its `timeout` is in seconds.
const CLINE_FILE: &str = "cline_mcp_settings.json";

const FIELDS: &[FieldSpec] = &[
    foreign_field("environment", ValueKind::Secrets),
    foreign_field("httpUrl", ValueKind::Text),
    foreign_field("serverUrl", ValueKind::Text),
    foreign_field("baseUrl", ValueKind::Text),
    foreign_field("http_headers", ValueKind::Secrets),
    foreign_field("type", ValueKind::Text),
    foreign_field("transport", ValueKind::Text),
    foreign_field("disabled", ValueKind::Flag),
    foreign_field("request_timeout_ms", ValueKind::Milliseconds),
    foreign_field("startup_timeout_ms", ValueKind::Milliseconds),
    foreign_field("startup_timeout_sec", ValueKind::Seconds),
    foreign_field("tool_timeout_sec", ValueKind::Seconds),
    foreign_field("tools", ValueKind::Texts),
    foreign_field("includeTools", ValueKind::Texts),
    foreign_field("allowedTools", ValueKind::Texts),
    foreign_field("enabled_tools", ValueKind::Texts),
    foreign_field("excludeTools", ValueKind::Texts),
    foreign_field("excludedTools", ValueKind::Texts),
    foreign_field("disabled_tools", ValueKind::Texts),
    foreign_field("bearerToken", ValueKind::Secret),
    foreign_field("scopes", ValueKind::Texts),
    foreign_field("oauth.clientId", ValueKind::Text),
    foreign_field("oauth.client_id", ValueKind::Text),
    foreign_field("oauth.clientSecret", ValueKind::Secret),
    foreign_field("oauth.callbackPort", ValueKind::Port),
    foreign_field("oauth.callback_port", ValueKind::Port),
    foreign_field("oauth.scopes", ValueKind::Texts),
];

/// `timeout`, whose unit depends on the program.
const TIMEOUT_MILLISECONDS: &[FieldSpec] = &[foreign_field("timeout", ValueKind::Milliseconds)];
const TIMEOUT_SECONDS: &[FieldSpec] = &[foreign_field("timeout", ValueKind::Seconds)];

/// Fields that it shares with the native file.
const NATIVE_FIELDS: &[&[&str]] = &[
    PROCESS,
    &[
        "cwd",
        "url",
        "headers",
        "enabled",
        "description",
        "bearer_token",
    ],
    OURS,
];

/// Fields with their native names. Of several for one native field the first counts.
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

/// Names of transports. The empty one means that the transport is detected.
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

/// The behaviour of its servers.
pub(super) const PROFILE: DialectProfile = DialectProfile {
    name: "mcp-json",
    format: Format::Json,
    syntax: ReferenceSyntax::Braced,
    strict: false,
    strict_names: false,
    refuses_builtin_names: false,
    entry_spelling: SPELLING,
    ..native::PROFILE
};

/// How a new entry is written.
const SPELLING: EntrySpelling = EntrySpelling {
    container: &["mcpServers"],
    http: Some(("url", Some(("type", "http")))),
    sse: Some(("url", Some(("type", "sse")))),
    enabled: Some(("disabled", false)),
    reference: ReferenceForm::Braced,
    ..native::SPELLING
};

/// How an entry is written in this document, and the section that it is in: the one that the
/// document has.
pub(super) fn section(document: &Node) -> Option<(&'static [&'static str], EntrySpelling)> {
    const ENABLED: Option<(&str, bool)> = Some(("enabled", true));
    let section = SECTIONS
        .into_iter()
        .find(|section| document.get(section).is_some())?;
    Some(match section {
        "servers" => {
            let vs_code = EntrySpelling {
                reference: ReferenceForm::Between("${env:", "}"),
                ..SPELLING
            };
            (&["servers"], vs_code)
        }
        CODEX => {
            let codex = EntrySpelling {
                http: Some(("url", None)),
                sse: None,
                headers: Some("http_headers"),
                enabled: ENABLED,
                reference: ReferenceForm::ByName,
                ..SPELLING
            };
            (&[CODEX], codex)
        }
        ZED => {
            let zed = EntrySpelling {
                enabled: ENABLED,
                ..SPELLING
            };
            (&[ZED], zed)
        }
        OPENCODE => {
            let opencode = EntrySpelling {
                enabled: ENABLED,
                ..SPELLING
            };
            (&[OPENCODE], opencode)
        }
        _ => return None,
    })
}

impl DialectReader for McpJson {
    fn open(&self, document: &Node, diagnostics: &mut Diagnostics<'_>) -> RawConfig {
        let mut written = RawConfig::default();
        let mut found = SECTIONS
            .into_iter()
            .filter_map(|section| Some((section, document.get(section)?)));
        let first = found.next();
        let of_project = of_project(document, diagnostics);
        match first {
            Some((section, entry)) => {
                written.servers = raw::read_servers(section, &entry.value, diagnostics)
            }
            None if document.entries().is_empty() || document.get(PROJECTS).is_some() => {}
            None => diagnostics.warn(
                document.at,
                "",
                "no server is in this file; expected them in `mcpServers`",
            ),
        }
        for (section, entry) in found.filter(|(section, _)| *section != "mcp") {
            let read = first.map(|(section, _)| section).unwrap_or_default();
            let message = format!("not read beside `{read}`; expected all servers there");
            diagnostics.warn(entry.at, section, message);
        }
        // A project's entry replaces one of the same name for all projects.
        written
            .servers
            .retain(|server| of_project.iter().all(|own| own.name != server.name));
        written.servers.extend(of_project);
        written
    }

    fn entry(&self, server: &RawServer, diagnostics: &mut Diagnostics<'_>) -> Option<FieldTable> {
        let section = server.path.split('.').next().unwrap_or_default();
        let texts = match section {
            CODEX => TextForm::Literal,
            OPENCODE => TextForm::Opencode,
            _ => TextForm::Braced,
        };
        let node = tidy::entry(server, texts, diagnostics);
        let has_seconds = section == ZED || diagnostics.file.ends_with(CLINE_FILE);
        let timeout = match has_seconds {
            true => TIMEOUT_SECONDS,
            false => TIMEOUT_MILLISECONDS,
        };
        let mut fields = raw::read_entry(
            &node,
            &[FIELDS, timeout],
            NATIVE_FIELDS,
            ReferenceSyntax::Braced,
            &server.path,
            diagnostics,
        )?;
        if !has_seconds {
            ignore_short_timeout(&mut fields, server, diagnostics);
        }
        let wire = wire(&mut fields, server, diagnostics);
        for (own, native) in RENAMED {
            fields.rename_once(own, native, &server.path, diagnostics);
        }
        if let Some(disabled) = fields.values.remove("disabled") {
            let on = matches!(disabled.value, FieldValue::Flag(false))
                && fields.flag("enabled") != Some(false);
            fields.values.insert(
                "enabled",
                AtOffset {
                    at: disabled.at,
                    value: FieldValue::Flag(on),
                },
            );
        }
        // If the entry names the transport, the field of that transport counts.
        if let (Some(wire), Some(_), Some(_)) =
            (wire, fields.offset_of("command"), fields.offset_of("url"))
        {
            drop_other_transport(&mut fields, wire, server, diagnostics);
        }
        Some(fields)
    }
}

/// Claude Code's file has servers for all projects and for each project: returns those of the
/// project of this folder.
fn of_project(document: &Node, diagnostics: &mut Diagnostics<'_>) -> Vec<RawServer> {
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
    let mut servers = raw::read_servers(SECTIONS[0], &section.value, diagnostics);
    for server in &mut servers {
        server.path = format!("{PROJECTS}.{}.{}", visible_key(&project.key), server.path);
    }
    servers
}

/// Replaces the name of the transport by the native one, and returns it (empty: any URL).
fn wire(
    fields: &mut FieldTable,
    server: &RawServer,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<&'static str> {
    let own = if fields.offset_of("type").is_some() {
        "type"
    } else {
        "transport"
    };
    let at = fields.offset_of(own)?;
    let known = fields.text(own).map(|name| {
        WIRES
            .iter()
            .find(|(word, _)| *word == name)
            .map(|(_, wire)| *wire)
    });
    fields.values.remove("transport");
    fields.values.remove("type");
    let Some(wire) = known? else {
        let message = "unknown transport; expected \"stdio\", \"http\" or \"sse\"";
        diagnostics.error(at, format!("{}.{own}", server.path), message);
        return None;
    };
    // A URL without a transport tries Streamable HTTP, then HTTP+SSE.
    if !wire.is_empty() {
        fields.values.insert(
            "transport",
            AtOffset {
                at,
                value: FieldValue::Choice(wire),
            },
        );
        fields.set_name_in_file("transport", own);
    }
    Some(wire)
}

fn drop_other_transport(
    fields: &mut FieldTable,
    wire: &str,
    server: &RawServer,
    diagnostics: &mut Diagnostics<'_>,
) {
    let (used, ignored) = if wire == "stdio" {
        ("command", "url")
    } else {
        ("url", "command")
    };
    let message = format!(
        "ignored: the server is reached by its `{}`; remove one of them",
        fields.name_in_file(used)
    );
    let path = format!("{}.{}", server.path, fields.name_in_file(ignored));
    if let Some(field) = fields.values.remove(ignored) {
        diagnostics.warn(field.at, path, message);
    }
}

/// A `timeout` below a second is ignored: it was probably meant in seconds.
fn ignore_short_timeout(
    fields: &mut FieldTable,
    server: &RawServer,
    diagnostics: &mut Diagnostics<'_>,
) {
    if fields
        .duration("timeout")
        .is_some_and(|timeout| timeout < Duration::from_secs(1))
        && let Some(short) = fields.values.remove("timeout")
    {
        let message = "ignored: less than a second; expected milliseconds, such as 60000";
        diagnostics.warn(short.at, format!("{}.timeout", server.path), message);
    }
}

/// Whether a value is empty: some programs write fields that are not set.
fn is_empty(node: &Node) -> bool {
    matches!(node.value, Tree::Null)
}
