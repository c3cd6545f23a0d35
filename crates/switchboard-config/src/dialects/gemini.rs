//! Gemini CLI: `settings.json` with `mcpServers`. Other settings are ignored.

use std::time::Duration;

use super::entry_spelling::{EntrySpelling, ReferenceForm, URL};
use super::profile::{ApprovalChoices, DialectProfile, FOREIGN, RuleSyntax, StateNames};
use super::{DialectReader, native};
use crate::diagnostic::Diagnostics;
use crate::fields::{FieldSpec, OURS_WITH_ONE_DEADLINE, PROCESS, ValueKind, foreign_field};
use crate::format::Format;
use crate::name::Style;
use crate::raw::{self, AtOffset, FieldTable, FieldValue, RawConfig, RawServer};
use crate::reference::ReferenceSyntax;
use crate::tree::{Node, Tree};
use crate::{HttpTransportKind, TimeField};

pub(super) struct Gemini;

const SECTION: &str = "mcpServers";

const FIELDS: &[FieldSpec] = &[
    foreign_field("httpUrl", ValueKind::Text),
    foreign_field("timeout", ValueKind::Milliseconds),
    foreign_field("includeTools", ValueKind::Texts),
    foreign_field("excludeTools", ValueKind::Texts),
    foreign_field(
        "type",
        ValueKind::Choice(&[
            ("stdio", ""),
            ("sse", "HTTP+SSE"),
            ("http", "Streamable HTTP"),
        ]),
    ),
];

/// Fields that it shares with the native file.
const NATIVE_FIELDS: &[&[&str]] = &[
    PROCESS,
    &["cwd", "url", "headers", "trust", "description"],
    OURS_WITH_ONE_DEADLINE,
];

const RENAMED: [(&str, &str); 3] = [
    ("timeout", "call_timeout"),
    ("includeTools", "include_tools"),
    ("excludeTools", "exclude_tools"),
];

const OAUTH: &str = "oauth";

const OAUTH_FIELDS: &[FieldSpec] = &[
    foreign_field("enabled", ValueKind::Flag),
    foreign_field("clientId", ValueKind::Text),
    foreign_field("clientSecret", ValueKind::Secret),
    foreign_field("scopes", ValueKind::Texts),
];

/// The path of each in an entry, its key, and its native name.
const OAUTH_RENAMED: [(&str, &str, &str); 3] = [
    ("clientId", "oauth.clientId", "oauth_client_id"),
    ("clientSecret", "oauth.clientSecret", "oauth_client_secret"),
    ("scopes", "oauth.scopes", "oauth_scopes"),
];

/// The behaviour of its servers.
pub(super) const PROFILE: DialectProfile = DialectProfile {
    name: "gemini",
    format: Format::Json,
    own_folder: Some(".gemini"),
    user_paths_start_at_current_folder: true,
    naming: Some(Style::FirstWins),
    syntax: ReferenceSyntax::Shell,
    // The documented timeout applies to connecting as well.
    connect_timeout: Duration::from_secs(600),
    call_timeout: Some(Duration::from_secs(600)),
    call_timeout_field: Some(TimeField::Timeout),
    wire: HttpTransportKind::Sse,
    gemini_schemas: true,
    closes_without_tools: true,
    state_names: StateNames::Three,
    drops_info_lines: true,
    entry_spelling: SPELLING,
    rule_syntax: RuleSyntax::Keys,
    approval_choices: ApprovalChoices::InMemory,
    ..FOREIGN
};

/// How a new entry is written.
const SPELLING: EntrySpelling = EntrySpelling {
    container: &["mcpServers"],
    auto: Some(("httpUrl", None)),
    http: Some(("httpUrl", None)),
    sse: URL,
    enabled: None,
    reference: ReferenceForm::Between("${", "}"),
    ..native::SPELLING
};

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
            &[FIELDS],
            NATIVE_FIELDS,
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
            fields.values.insert(
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

/// Of several endpoints, the first in the documented order counts. Empty strings count as absent.
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
        let is_empty = fields.text(loser) == Some("");
        if let Some(lost) = fields.values.remove(loser) {
            let message = match is_empty {
                true => "ignored: it is empty; remove it".to_owned(),
                false => {
                    format!("ignored: `{way}` (line {line}) comes before it; remove one of them")
                }
            };
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
    if let (Some(type_name), Some(type_at)) = (
        type_.filter(|type_name| *type_name != wire),
        fields.offset_of("type"),
    ) {
        let message = format!(
            "\"{type_name}\" is ignored: `{way}` (line {}) says how it is reached",
            diagnostics.lines.line(at)
        );
        diagnostics.warn(type_at, format!("{}.type", server.path), message);
    }
    fields.values.remove("type");
    if way != "command" {
        fields.values.insert(
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
        if let Some(found) = read.values.remove(own) {
            fields.values.insert(place, found);
            fields.rename(place, native);
        }
    }
}
