//! `switchboard.toml`, the native dialect.

use std::time::Duration;

use super::DialectReader;
use super::entry_spelling::{EntrySpelling, ReferenceForm, SSE, URL};
use super::profile::{ApprovalChoices, DialectProfile, RuleSyntax, StateNames, StopMethod};
use crate::diagnostic::Diagnostics;
use crate::fields::SERVERS;
use crate::format::Format;
use crate::raw::{self, FieldTable, RawConfig, RawServer};
use crate::reference::ReferenceSyntax;
use crate::tree::Node;
use crate::{HttpTransportKind, Start};

pub(super) struct Native;

/// The behaviour of its servers.
pub(super) const PROFILE: DialectProfile = DialectProfile {
    name: "native",
    format: Format::Toml,
    own_folder: None,
    user_paths_start_at_current_folder: false,
    permissions_file: None,
    naming: None,
    syntax: ReferenceSyntax::Native,
    strict: true,
    strict_names: true,
    inherits_environment: false,
    start: Start::Eager,
    connect_timeout: Duration::from_secs(30),
    call_timeout: None,
    call_timeout_field: None,
    wire: HttpTransportKind::Auto,
    sse_path_fallback: false,
    refuses_builtin_names: true,
    offers_resource_tools: false,
    gemini_schemas: false,
    closes_without_tools: false,
    stop: StopMethod::CloseFirst,
    watched: true,
    ungated_by_default: false,
    yolo_skips_denies: false,
    serializes_callers: false,
    compact_status: true,
    state_names: StateNames::All,
    drops_info_lines: false,
    entry_spelling: SPELLING,
    rule_syntax: RuleSyntax::Every,
    approval_choices: ApprovalChoices::Stored,
};

/// How a new entry is written.
pub(super) const SPELLING: EntrySpelling = EntrySpelling {
    container: &["servers"],
    stdio: None,
    auto: URL,
    http: Some(("url", Some(("transport", "http")))),
    sse: SSE,
    headers: Some("headers"),
    cwd: Some("cwd"),
    enabled: Some(("enabled", true)),
    reference: ReferenceForm::Native,
    version: None,
};

impl DialectReader for Native {
    fn open(&self, document: &Node, diagnostics: &mut Diagnostics<'_>) -> RawConfig {
        raw::read(document, diagnostics)
    }

    fn entry(&self, server: &RawServer, diagnostics: &mut Diagnostics<'_>) -> Option<FieldTable> {
        raw::read_table(
            &server.node,
            SERVERS.fields,
            ReferenceSyntax::Native,
            &server.path,
            diagnostics,
        )
    }
}
