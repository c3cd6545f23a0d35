//! `switchboard.toml`: what is written is what is meant.

use super::Reader;
use crate::diagnostic::Findings;
use crate::fields::SERVERS;
use crate::reference::Syntax;
use crate::tree::Node;
use crate::written::{self, Fields, Written, WrittenServer};

pub(super) struct Native;

impl Reader for Native {
    fn open(&self, document: &Node, findings: &mut Findings<'_>) -> Written {
        written::read(document, findings)
    }

    fn entry(&self, server: &WrittenServer, findings: &mut Findings<'_>) -> Option<Fields> {
        written::table(
            &server.node,
            SERVERS.fields,
            Syntax::Native,
            &server.path,
            findings,
        )
    }
}
