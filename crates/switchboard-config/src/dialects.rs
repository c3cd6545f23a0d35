//! The dialects of configuration files. Each has a file of its own with its fields, its profile, the
//! spelling of new entries and its reader.
//!
//! A dialect is the format of a program's configuration file, together with the behaviour that the
//! program's documentation states. Servers of several dialects run side by side, each by the
//! profile of its own file.

use std::path::Path;

use super::diagnostic::Diagnostics;
use super::raw::{FieldTable, RawConfig, RawServer};
use super::tree::Node;
use crate::name::as_word;

pub use profile::{ApprovalChoices, DialectProfile, RuleSyntax, StateNames, StopMethod};

mod a3s;
mod agent_apps;
mod agent_code;
mod core_agent;
mod entry_spelling;
mod gemini;
mod mcp_json;
mod native;
mod profile;
mod recognise;

pub(super) use entry_spelling::{EntrySpelling, ReferenceForm};
pub(super) use recognise::recognise;

/// A dialect of configuration files.
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
    /// `.mcp.json`, and similar files of most programs.
    McpJson,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 7] = [
        Self::Native,
        Self::CoreAgent,
        Self::A3s,
        Self::Gemini,
        Self::AgentApps,
        Self::AgentCode,
        Self::McpJson,
    ];

    /// The behaviour of its servers.
    pub const fn profile(self) -> &'static DialectProfile {
        match self {
            Self::Native => &native::PROFILE,
            Self::CoreAgent => &core_agent::PROFILE,
            Self::A3s => &a3s::PROFILE,
            Self::Gemini => &gemini::PROFILE,
            Self::AgentApps => &agent_apps::PROFILE,
            Self::AgentCode => &agent_code::PROFILE,
            Self::McpJson => &mcp_json::PROFILE,
        }
    }

    /// Parses the name of a dialect.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|dialect| dialect.profile().name == word)
    }

    /// The dialect of the files at this path, if only one program has files there.
    pub fn of_path(path: &Path) -> Option<Self> {
        recognise::by_path(path)
    }

    /// The rule that allows one tool, as written in a file of this dialect, for messages. `None` if
    /// the dialect has no such rule, or if the names cannot be expressed in one.
    pub fn how_to_allow(self, server: &str, tool: &str) -> Option<String> {
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

    /// Where the entries of this document are and how they are written, if it differs from the
    /// profile.
    pub(super) fn section_of(
        self,
        document: &Node,
    ) -> Option<(&'static [&'static str], EntrySpelling)> {
        match self {
            Self::McpJson => mcp_json::section(document),
            _ => None,
        }
    }

    /// The reader of its files.
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

/// Reads the files of one dialect: from a tree to the fields of the native file.
pub(super) trait DialectReader: Sync {
    /// Reads the document, without the fields of its entries.
    fn open(&self, document: &Node, diagnostics: &mut Diagnostics<'_>) -> RawConfig;

    /// The fields of one entry, with native names and values; contradictions that the dialect can
    /// decide are decided. `None` if the entry is not a table, which has been reported.
    fn entry(&self, server: &RawServer, diagnostics: &mut Diagnostics<'_>) -> Option<FieldTable>;

    /// Reads the separate [`DialectProfile::permissions_file`].
    fn permissions(&self, _document: &Node, _diagnostics: &mut Diagnostics<'_>) -> RawConfig {
        RawConfig::default()
    }
}
