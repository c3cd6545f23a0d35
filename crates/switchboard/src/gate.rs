//! Allow, ask or deny, from rules, grants and pins. Pure: no async, no I/O. And [`Permit`], without which nothing is called.

use std::sync::Arc;

use crate::caller::CallerId;
use crate::catalog::{DefinitionHash, Tool};
use crate::config::{Config, ConfigErrors, Fingerprint};
use crate::name::{ServerName, ToolId};
use crate::wire::RawJson;

pub use grants::{Grant, Grants};
pub use permit::Permit;

mod grants;
mod permit;

/// Compiled rules and mode.
#[derive(Debug)]
pub struct Gate {}

/// What the gate says of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may run.
    Allow {
        /// The rule, mode or grant.
        because: String,
    },
    /// Ask the caller.
    Ask {
        /// The rule, or that none applies.
        because: String,
        /// An explicit `ask` rule: only once or no.
        once_only: bool,
        /// A grant exists but is bound to something else: what was, what is.
        changed: Option<Vec<String>>,
    },
    /// It may not.
    Deny {
        /// The rule or mode.
        rule: String,
    },
}

/// What is asked of the gate.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The tool, with its launch and definition.
    pub tool: &'a Tool,
    /// `--yes` for this call.
    pub yes: bool,
}

impl Gate {
    /// Compiles the rules against the configured server names. An ambiguous `allow` is an error that lists its readings.
    pub fn compile(config: &Config) -> Result<Self, ConfigErrors> {
        let _ = config;
        todo!()
    }

    /// Decides on one call, in the order that ARCHITECTURE.md gives.
    pub fn decide(&self, question: Question<'_>, grants: &Grants) -> Decision {
        let _ = (question, grants);
        todo!()
    }
}

#[allow(unused_imports)]
use {Arc as _, CallerId as _, DefinitionHash as _, Fingerprint as _, RawJson as _, ServerName as _, ToolId as _};
