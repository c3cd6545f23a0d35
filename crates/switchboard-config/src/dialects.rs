//! The kinds of files there are, and in what they differ: one table. How each is read stands in a
//! file of its own.
//!
//! A dialect is the shape of another program's file together with what that program's document says
//! of it. A server goes by the rules of its file, also beside servers of other files.

use super::diagnostic::Diagnostics;
use super::raw::{FieldTable, RawConfig, RawServer};
use super::tree::Node;
use crate::name::as_word;
use profile::{A3S, AGENT_APPS, AGENT_CODE, CORE_AGENT, GEMINI, MCP_JSON, NATIVE};

pub use profile::{ApprovalChoices, DialectProfile, RuleSyntax, StateNames, StopMethod};

mod a3s;
mod agent_apps;
mod agent_code;
mod core_agent;
mod gemini;
mod mcp_json;
mod native;
mod profile;
mod recognise;

pub(super) use recognise::recognise;

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Dialect {
    /// `switchboard.toml`.
    #[default]
    Native,
    /// `.agents/mcp.json`.
    CoreAgent,
    /// HCL with `mcp_servers` blocks.
    A3s,
    /// `.gemini/settings.json`.
    Gemini,
    /// YAML with `metadata.mcp`.
    AgentApps,
    /// TOML with `[mcp_servers.NAME]`.
    AgentCode,
    /// `.mcp.json`, and the shape most programs share.
    McpJson,
}

impl Dialect {
    /// Every one of them.
    pub const ALL: [Self; 7] = [
        Self::Native,
        Self::CoreAgent,
        Self::A3s,
        Self::Gemini,
        Self::AgentApps,
        Self::AgentCode,
        Self::McpJson,
    ];

    /// What holds for its servers.
    pub const fn profile(self) -> &'static DialectProfile {
        match self {
            Self::Native => &NATIVE,
            Self::CoreAgent => &CORE_AGENT,
            Self::A3s => &A3S,
            Self::Gemini => &GEMINI,
            Self::AgentApps => &AGENT_APPS,
            Self::AgentCode => &AGENT_CODE,
            Self::McpJson => &MCP_JSON,
        }
    }

    /// Reads its word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|dialect| dialect.profile().name == word)
    }

    /// How a file of this kind allows one tool, for people to write there; `None` where it has no
    /// place for that, or where the names cannot stand in a rule as they are.
    pub fn to_allow(self, server: &str, tool: &str) -> Option<String> {
        let is_plain = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
        };
        if !is_plain(server) || !is_plain(tool) {
            return None;
        }
        match self {
            Self::Native => Some(format!(
                "`allow = [\"{server}/{tool}\"]` under [permissions]"
            )),
            Self::CoreAgent => Some(format!(
                "`\"allow\": [\"mcp:{}_{}\"]` under \"permissions\"",
                as_word(server),
                as_word(tool)
            )),
            Self::A3s => Some(format!(
                "`allow = [\"mcp__{server}__{tool}\"]` in a `permissions` block"
            )),
            Self::AgentCode => Some(format!(
                "`tool = \"mcp__{server}__{tool}\"` and `action = \"allow\"` under [[permissions.rules]]"
            )),
            Self::Gemini => Some("`\"trust\": true` in its entry".to_owned()),
            Self::AgentApps | Self::McpJson => None,
        }
    }

    /// Who reads its files.
    pub(super) fn reader(self) -> &'static dyn DialectReader {
        match self {
            Self::Native => &native::Native,
            Self::A3s => &a3s::A3s,
            Self::AgentApps => &agent_apps::AgentApps,
            Self::AgentCode => &agent_code::AgentCode,
            Self::CoreAgent => &core_agent::CoreAgent,
            Self::Gemini => &gemini::Gemini,
            Self::McpJson => &mcp_json::McpJson,
        }
    }
}

/// How the files of one dialect are read: from a tree to the fields of the native file.
pub(super) trait DialectReader: Sync {
    /// What the document says, its entries not read yet.
    fn open(&self, document: &Node, diagnostics: &mut Diagnostics<'_>) -> RawConfig;

    /// The fields of one entry, by their native names and with native values; where they contradict
    /// each other, the dialect has decided already. `None` where it is no table at all, which
    /// has been told.
    fn entry(&self, server: &RawServer, diagnostics: &mut Diagnostics<'_>) -> Option<FieldTable>;

    /// What the file beside ([`DialectProfile::permissions_file`]) permits.
    fn permissions(&self, _document: &Node, _findings: &mut Diagnostics<'_>) -> RawConfig {
        RawConfig::default()
    }
}
