//! Gemini CLI: `settings.json` with `mcpServers`. Whatever else its settings say is for its own
//! program.

use super::Reader;
use crate::diagnostic::Findings;
use crate::fields::{Field, Kind, OURS_WITH_ONE_DEADLINE, Side, field};
use crate::reference::Syntax;
use crate::tree::{Node, Tree};
use crate::written::{self, At, Fields, Value, Written, WrittenServer};

pub(super) struct Gemini;

const SECTION: &str = "mcpServers";

const FIELDS: &[Field] = &[
    field("httpUrl", Kind::Text, Side::Http, None, ""),
    field("url", Kind::Text, Side::Http, None, ""),
    field("command", Kind::Text, Side::Stdio, None, ""),
    field("args", Kind::Texts, Side::Stdio, None, ""),
    field("env", Kind::Secrets, Side::Stdio, None, ""),
    field("cwd", Kind::Text, Side::Stdio, None, ""),
    field("headers", Kind::Secrets, Side::Http, None, ""),
    field(
        "timeout",
        Kind::Milliseconds,
        Side::Both,
        Some("600000"),
        "",
    ),
    field("trust", Kind::Flag, Side::Both, Some("false"), ""),
    field("description", Kind::Text, Side::Both, None, ""),
    field("includeTools", Kind::Texts, Side::Both, None, ""),
    field("excludeTools", Kind::Texts, Side::Both, None, ""),
    field(
        "type",
        Kind::Choice(&[
            ("stdio", ""),
            ("sse", "HTTP+SSE"),
            ("http", "Streamable HTTP"),
        ]),
        Side::Both,
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

const OAUTH_FIELDS: &[Field] = &[
    field("enabled", Kind::Flag, Side::Http, Some("true"), ""),
    field("clientId", Kind::Text, Side::Http, None, ""),
    field("clientSecret", Kind::Secret, Side::Http, None, ""),
    field("scopes", Kind::Texts, Side::Http, None, ""),
];

/// Each with where it stands in an entry, and with its native name.
const OAUTH_RENAMED: [(&str, &str, &str); 3] = [
    ("clientId", "oauth.clientId", "oauth_client_id"),
    ("clientSecret", "oauth.clientSecret", "oauth_client_secret"),
    ("scopes", "oauth.scopes", "oauth_scopes"),
];

impl Reader for Gemini {
    fn open(&self, document: &Node, findings: &mut Findings<'_>) -> Written {
        let mut written = Written::default();
        // S2-58: other keys belong to other features, and are passed over in silence.
        if let Some(section) = document.get(SECTION) {
            written.servers = written::servers(SECTION, &section.value, findings);
        }
        written
    }

    fn entry(&self, server: &WrittenServer, findings: &mut Findings<'_>) -> Option<Fields> {
        let node = server.node.without(&[OAUTH]).with_plain_texts("env");
        let mut fields = written::entry(
            &node,
            FIELDS,
            OURS_WITH_ONE_DEADLINE,
            Syntax::Shell,
            &server.path,
            findings,
        )?;
        if let Some(oauth) = server.node.get(OAUTH) {
            add_oauth(
                &mut fields,
                &oauth.value,
                &format!("{}.{OAUTH}", server.path),
                findings,
            );
        }
        for (own, native) in RENAMED {
            fields.rename_once(own, native, &server.path, findings);
        }
        // S2-21: connecting goes by it as well.
        if let (Some(timeout), Some(at), None) = (
            fields.duration("call_timeout"),
            fields.at("call_timeout"),
            fields.at("connect_timeout"),
        ) {
            fields.0.insert(
                "connect_timeout",
                At {
                    at,
                    value: Value::Duration(timeout),
                },
            );
        }
        let sound = choose(&mut fields, server, findings);
        sound.then_some(fields)
    }
}

/// S2-20: of several ways to reach a server the first in the document's list holds. What says
/// nothing (`""`) is not there.
fn choose(fields: &mut Fields, server: &WrittenServer, findings: &mut Findings<'_>) -> bool {
    let ways = ["httpUrl", "url", "command"];
    let holds =
        |fields: &Fields, way: &str| fields.at(way).is_some() && fields.text(way) != Some("");
    let Some(way) = ways.into_iter().find(|way| holds(fields, way)) else {
        let expected = "none of `httpUrl`, `url` and `command` is set; expected a URL to reach or a program to start";
        findings.missing(server.at, &server.path, expected);
        return false;
    };
    let line = fields
        .at(way)
        .map(|at| findings.lines.line(at))
        .unwrap_or_default();
    for loser in ways.into_iter().filter(|other| *other != way) {
        if let Some(lost) = fields.0.remove(loser) {
            let message =
                format!("ignored: `{way}` (line {line}) comes before it; remove one of them");
            findings.warn(lost.at, format!("{}.{loser}", server.path), message);
        }
    }
    set_wire(fields, way, server, findings);
    if way == "httpUrl" {
        fields.rename("httpUrl", "url");
    }
    true
}

/// `httpUrl` is Streamable HTTP and `url` HTTP+SSE; later versions of the program have a `type`
/// that decides what a `url` is.
fn set_wire(fields: &mut Fields, way: &str, server: &WrittenServer, findings: &mut Findings<'_>) {
    let (type_, at) = (fields.choice("type"), fields.at(way).unwrap_or(server.at));
    let wire = match (way, type_) {
        ("command", _) => "stdio",
        ("url", Some("http")) | ("httpUrl", _) => "http",
        _ => "sse",
    };
    if let (Some(said), Some(said_at)) = (type_.filter(|said| *said != wire), fields.at("type")) {
        let message = format!(
            "\"{said}\" is ignored: `{way}` (line {}) says how it is reached",
            findings.lines.line(at)
        );
        findings.warn(said_at, format!("{}.type", server.path), message);
    }
    fields.0.remove("type");
    if way != "command" {
        fields.0.insert(
            "transport",
            At {
                at,
                value: Value::Choice(wire),
            },
        );
    }
}

/// What a login needs of the `oauth` object; the rest is found out from the server itself.
fn add_oauth(fields: &mut Fields, oauth: &Node, path: &str, findings: &mut Findings<'_>) {
    // `oauth` may also be a plain yes or no.
    if matches!(oauth.value, Tree::Flag(_) | Tree::Null) {
        return;
    }
    let Some(mut read) = written::table(oauth, OAUTH_FIELDS, Syntax::Shell, path, findings) else {
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
