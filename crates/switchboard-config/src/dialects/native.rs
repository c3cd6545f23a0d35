//! `switchboard.toml`, the native dialect.

use super::DialectReader;
use crate::diagnostic::Diagnostics;
use crate::fields::SERVERS;
use crate::raw::{self, FieldTable, RawConfig, RawServer};
use crate::reference::ReferenceSyntax;
use crate::tree::Node;

pub(super) struct Native;

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
