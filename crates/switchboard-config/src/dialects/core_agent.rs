//! core-agent: `.agents/mcp.json` with `servers`, and permissions in the same file or in
//! `config.json` beside it.

use super::entry_spelling::{EntrySpelling, ReferenceForm};
use super::profile::{DialectProfile, FOREIGN, RuleSyntax, StateNames, StopMethod};
use super::recognise::warn_of_foreign_container;
use super::{Dialect, DialectReader, native};
use crate::HttpTransportKind;
use crate::diagnostic::Diagnostics;
use crate::fields::{
    FieldSpec, FieldTransport, OURS, PERMISSIONS, PROCESS, ValueKind, foreign_field, native_fields,
};
use crate::format::Format;
use crate::name::Style;
use crate::raw::{self, FieldTable, RawConfig, RawServer};
use crate::reference::ReferenceSyntax;
use crate::tree::{Node, Tree};

pub(super) struct CoreAgent;

const SECTION: &str = "servers";

const TRANSPORT: ValueKind = ValueKind::Choice(&[
    ("stdio", "a program that speaks over its standard streams"),
    ("http", "Streamable HTTP"),
]);

const FIELDS: &[FieldSpec] = &[foreign_field("transport", TRANSPORT)];

/// Fields that it shares with the native file.
const NATIVE_FIELDS: &[&[&str]] = &[PROCESS, &["url", "headers"], OURS];

/// The sections of the file.
const SECTIONS: [&str; 3] = ["version", SECTION, PERMISSIONS.name];

/// The behaviour of its servers.
pub(super) const PROFILE: DialectProfile = DialectProfile {
    name: "core-agent",
    format: Format::Json,
    own_folder: Some(".agents"),
    permissions_file: Some("config.json"),
    naming: Some(Style::ServerTool),
    syntax: ReferenceSyntax::Placeholder,
    strict: true,
    wire: HttpTransportKind::Streamable,
    stop: StopMethod::Terminate,
    watched: false,
    ungated_by_default: true,
    yolo_skips_denies: true,
    state_names: StateNames::OkError,
    entry_spelling: SPELLING,
    rule_syntax: RuleSyntax::Colon,
    ..FOREIGN
};

/// How a new entry is written.
const SPELLING: EntrySpelling = EntrySpelling {
    stdio: Some(("transport", "stdio")),
    auto: Some(("url", Some(("transport", "http")))),
    sse: None,
    cwd: None,
    enabled: None,
    reference: ReferenceForm::Between("${env:", "}"),
    version: Some(("version", 1)),
    ..native::SPELLING
};

impl DialectReader for CoreAgent {
    fn open(&self, document: &Node, diagnostics: &mut Diagnostics<'_>) -> RawConfig {
        let mut written = self.permissions(document, diagnostics);
        for entry in document.entries() {
            match entry.key.as_str() {
                SECTION => written.servers = raw::read_servers(SECTION, &entry.value, diagnostics),
                "version" => check_version(&entry.value, diagnostics),
                "permissions" | "$schema" => {}
                key => {
                    if !warn_of_foreign_container(entry, SECTION, Dialect::CoreAgent, diagnostics) {
                        raw::report_unknown(
                            key,
                            entry.at,
                            "",
                            "field",
                            SECTIONS.into_iter(),
                            diagnostics,
                        );
                    }
                }
            }
        }
        written
    }

    fn permissions(&self, document: &Node, diagnostics: &mut Diagnostics<'_>) -> RawConfig {
        let Some(section) = document.get(PERMISSIONS.name) else {
            return RawConfig::default();
        };
        let fields = raw::read_table(
            &section.value,
            PERMISSIONS.fields,
            ReferenceSyntax::Literal,
            PERMISSIONS.name,
            diagnostics,
        );
        RawConfig {
            permissions: fields.unwrap_or_default(),
            has_permissions: true,
            ..RawConfig::default()
        }
    }

    fn entry(&self, server: &RawServer, diagnostics: &mut Diagnostics<'_>) -> Option<FieldTable> {
        let fields = raw::read_entry(
            &server.node,
            &[FIELDS],
            NATIVE_FIELDS,
            ReferenceSyntax::Placeholder,
            &server.path,
            diagnostics,
        )?;
        if fields.offset_of("transport").is_none() {
            let message = "`transport` is missing; expected \"stdio\" with a `command`, or \"http\" with a `url`";
            diagnostics.missing(server.at, &server.path, message);
        }
        // An entry that mixes transports is not checked further.
        (!mixes(&fields, server, diagnostics)).then_some(fields)
    }
}

/// Whether the entry has fields of another transport than `transport` names, which is reported.
fn mixes(fields: &FieldTable, server: &RawServer, diagnostics: &mut Diagnostics<'_>) -> bool {
    let (Some(transport), Some(at)) = (fields.choice("transport"), fields.offset_of("transport"))
    else {
        return false;
    };
    let (ours, other) = if transport == "stdio" {
        (FieldTransport::Stdio, "http")
    } else {
        (FieldTransport::Http, "stdio")
    };
    let own = native_fields(NATIVE_FIELDS)
        .find(|field| field.applies_to == ours && fields.offset_of(field.name).is_some());
    let own = own.and_then(|own| {
        Some((
            own.name,
            diagnostics.lines.line(fields.offset_of(own.name)?),
        ))
    });
    let own = own
        .map(|(name, line)| format!(" with `{name}` in line {line}"))
        .unwrap_or_default();
    let line = diagnostics.lines.line(at);
    let mut mixed = false;
    for field in native_fields(NATIVE_FIELDS)
        .filter(|field| field.applies_to != FieldTransport::Both && field.applies_to != ours)
    {
        if let Some(at) = fields.offset_of(field.name) {
            let message = format!(
                "mixes transports: `{}` belongs to \"{other}\", and this server is \"{transport}\" (`transport`, line {line}){own}; \
                 remove one of them",
                field.name
            );
            diagnostics.error(at, format!("{}.{}", server.path, field.name), message);
            mixed = true;
        }
    }
    mixed
}

/// `version` is optional, and must be 1 if present.
fn check_version(version: &Node, diagnostics: &mut Diagnostics<'_>) {
    let message = match &version.value {
        Tree::Number(number) if number == "1" => return,
        Tree::Number(number)
            if number.bytes().all(|byte| byte.is_ascii_digit()) && number.len() < 10 =>
        {
            format!("version {number} is not known; expected 1")
        }
        _ => format!("expected 1, found {}", diagnostics.kind(version)),
    };
    diagnostics.error(version.at, "version", message);
}
