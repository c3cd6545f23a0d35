//! Gemini CLI: `settings.json` with `mcpServers`. Other settings are ignored.

use super::DialectReader;
use crate::diagnostic::Diagnostics;
use crate::fields::{FieldSpec, FieldTransport, OURS_WITH_ONE_DEADLINE, ValueKind, field};
use crate::raw::{self, AtOffset, FieldTable, FieldValue, RawConfig, RawServer};
use crate::reference::ReferenceSyntax;
use crate::tree::{Node, Tree};

pub(super) struct Gemini;

const SECTION: &str = "mcpServers";

const FIELDS: &[FieldSpec] = &[
    field("httpUrl", ValueKind::Text, FieldTransport::Http, None, ""),
    field("url", ValueKind::Text, FieldTransport::Http, None, ""),
    field("command", ValueKind::Text, FieldTransport::Stdio, None, ""),
    field("args", ValueKind::Texts, FieldTransport::Stdio, None, ""),
    field("env", ValueKind::Secrets, FieldTransport::Stdio, None, ""),
    field("cwd", ValueKind::Text, FieldTransport::Stdio, None, ""),
    field(
        "headers",
        ValueKind::Secrets,
        FieldTransport::Http,
        None,
        "",
    ),
    field(
        "timeout",
        ValueKind::Milliseconds,
        FieldTransport::Both,
        Some("600000"),
        "",
    ),
    field(
        "trust",
        ValueKind::Flag,
        FieldTransport::Both,
        Some("false"),
        "",
    ),
    field(
        "description",
        ValueKind::Text,
        FieldTransport::Both,
        None,
        "",
    ),
    field(
        "includeTools",
        ValueKind::Texts,
        FieldTransport::Both,
        None,
        "",
    ),
    field(
        "excludeTools",
        ValueKind::Texts,
        FieldTransport::Both,
        None,
        "",
    ),
    field(
        "type",
        ValueKind::Choice(&[
            ("stdio", ""),
            ("sse", "HTTP+SSE"),
            ("http", "Streamable HTTP"),
        ]),
        FieldTransport::Both,
        None,
        "",
    ),
];

const RENAMED: [(&str, &str); 3] = [
    ("timeout", "call_timeout"),
    ("includeTools", "include_tools"),
    ("excludeTools", "exclude_tools"),
];

const OAUTH: &str = "oauth";

const OAUTH_FIELDS: &[FieldSpec] = &[
    field(
        "enabled",
        ValueKind::Flag,
        FieldTransport::Http,
        Some("true"),
        "",
    ),
    field("clientId", ValueKind::Text, FieldTransport::Http, None, ""),
    field(
        "clientSecret",
        ValueKind::Secret,
        FieldTransport::Http,
        None,
        "",
    ),
    field("scopes", ValueKind::Texts, FieldTransport::Http, None, ""),
];

/// The path of each in an entry, its key, and its native name.
const OAUTH_RENAMED: [(&str, &str, &str); 3] = [
    ("clientId", "oauth.clientId", "oauth_client_id"),
    ("clientSecret", "oauth.clientSecret", "oauth_client_secret"),
    ("scopes", "oauth.scopes", "oauth_scopes"),
];

impl DialectReader for Gemini {
    fn open(&self, document: &Node, diagnostics: &mut Diagnostics<'_>) -> RawConfig {
        let mut written = RawConfig::default();
        // Other keys belong to other features and are ignored without a warning.
        if let Some(section) = document.get(SECTION) {
            written.servers = raw::read_servers(SECTION, &section.value, diagnostics);
        }
        written
    }

    fn entry(&self, server: &RawServer, diagnostics: &mut Diagnostics<'_>) -> Option<FieldTable> {
        let node = server.node.without(&[OAUTH]).with_plain_texts("env");
        let mut fields = raw::read_entry(
            &node,
            FIELDS,
            OURS_WITH_ONE_DEADLINE,
            ReferenceSyntax::Shell,
            &server.path,
            diagnostics,
        )?;
        if let Some(oauth) = server.node.get(OAUTH) {
            add_oauth(
                &mut fields,
                &oauth.value,
                &format!("{}.{OAUTH}", server.path),
                diagnostics,
            );
        }
        for (own, native) in RENAMED {
            fields.rename_once(own, native, &server.path, diagnostics);
        }
        // The timeout applies to connecting as well.
        if let (Some(timeout), Some(at), None) = (
            fields.duration("call_timeout"),
            fields.offset_of("call_timeout"),
            fields.offset_of("connect_timeout"),
        ) {
            fields.0.insert(
                "connect_timeout",
                AtOffset {
                    at,
                    value: FieldValue::Duration(timeout),
                },
            );
        }
        let sound = choose(&mut fields, server, diagnostics);
        sound.then_some(fields)
    }
}

/// Of several ways to reach a server, the first in the documented order counts. Empty strings count
/// as absent.
fn choose(fields: &mut FieldTable, server: &RawServer, diagnostics: &mut Diagnostics<'_>) -> bool {
    let ways = ["httpUrl", "url", "command"];
    let holds = |fields: &FieldTable, way: &str| {
        fields.offset_of(way).is_some() && fields.text(way) != Some("")
    };
    let Some(way) = ways.into_iter().find(|way| holds(fields, way)) else {
        let expected = "none of `httpUrl`, `url` and `command` is set; expected a URL to reach or a program to start";
        diagnostics.missing(server.at, &server.path, expected);
        return false;
    };
    let line = fields
        .offset_of(way)
        .map(|at| diagnostics.lines.line(at))
        .unwrap_or_default();
    for loser in ways.into_iter().filter(|other| *other != way) {
        if let Some(lost) = fields.0.remove(loser) {
            let message =
                format!("ignored: `{way}` (line {line}) comes before it; remove one of them");
            diagnostics.warn(lost.at, format!("{}.{loser}", server.path), message);
        }
    }
    set_wire(fields, way, server, diagnostics);
    if way == "httpUrl" {
        fields.rename("httpUrl", "url");
    }
    true
}

/// `httpUrl` is Streamable HTTP and `url` HTTP+SSE; later versions of the program have a `type`
/// that decides what a `url` is.
fn set_wire(
    fields: &mut FieldTable,
    way: &str,
    server: &RawServer,
    diagnostics: &mut Diagnostics<'_>,
) {
    let (type_, at) = (
        fields.choice("type"),
        fields.offset_of(way).unwrap_or(server.at),
    );
    let wire = match (way, type_) {
        ("command", _) => "stdio",
        ("url", Some("http")) | ("httpUrl", _) => "http",
        _ => "sse",
    };
    if let (Some(said), Some(said_at)) =
        (type_.filter(|said| *said != wire), fields.offset_of("type"))
    {
        let message = format!(
            "\"{said}\" is ignored: `{way}` (line {}) says how it is reached",
            diagnostics.lines.line(at)
        );
        diagnostics.warn(said_at, format!("{}.type", server.path), message);
    }
    fields.0.remove("type");
    if way != "command" {
        fields.0.insert(
            "transport",
            AtOffset {
                at,
                value: FieldValue::Choice(wire),
            },
        );
    }
}

/// The fields of the `oauth` object that a login needs; the rest is discovered from the server.
fn add_oauth(fields: &mut FieldTable, oauth: &Node, path: &str, diagnostics: &mut Diagnostics<'_>) {
    // `oauth` may also be a boolean.
    if matches!(oauth.value, Tree::Flag(_) | Tree::Null) {
        return;
    }
    let Some(mut read) = raw::read_table(
        oauth,
        OAUTH_FIELDS,
        ReferenceSyntax::Shell,
        path,
        diagnostics,
    ) else {
        return;
    };
    if read.flag("enabled") == Some(false) {
        return;
    }
    for (own, place, native) in OAUTH_RENAMED {
        if let Some(found) = read.0.remove(own) {
            fields.0.insert(place, found);
            fields.rename(place, native);
        }
    }
}
