//! `switchboard.toml`: what is written is what is meant.

use super::Reader;
use crate::config::diagnostic::Findings;
use crate::config::fields::SERVERS;
use crate::config::reference::Syntax;
use crate::config::tree::Node;
use crate::config::written::{self, Fields, Written, WrittenServer};

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
