//! The vendors of models, and the tool names that their APIs accept.

use super::Tool;
use crate::name::Style;

/// The longest name that every vendor accepts.
const MAX_NAME_LENGTH: usize = 64;

/// The longest name in a gateway's list that every client's model accepts: opencode and goose put
/// the name of the gateway's entry and up to two underscores before it. Other clients shorten names
/// themselves.
const MAX_LISTED_NAME_LENGTH: usize = MAX_NAME_LENGTH - "switchboard__".len();

/// The vendor API that a definition is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    /// `functionDeclarations` with `parametersJsonSchema`.
    Gemini,
    /// Functions of the Responses API, not strict.
    OpenAi,
    /// Functions of the Chat Completions API.
    OpenAiChat,
    /// The Chat Completions API of a server that turns schemas into a grammar: llama.cpp, LM
    /// Studio, Ollama.
    Local,
    /// Tools of the Messages API.
    Anthropic,
}

impl Vendor {
    /// All vendors.
    pub const ALL: [Self; 5] = [
        Self::Gemini,
        Self::OpenAi,
        Self::OpenAiChat,
        Self::Local,
        Self::Anthropic,
    ];

    /// The most tools in one request, if the API has a limit.
    pub fn max_tools(self) -> Option<usize> {
        match self {
            Self::OpenAi | Self::OpenAiChat => Some(128),
            Self::Gemini => Some(512),
            Self::Local | Self::Anthropic => None,
        }
    }

    pub(crate) fn accepts_name(self, name: &str) -> bool {
        let dotted = |byte: u8| self == Self::Gemini && matches!(byte, b'.' | b':');
        let fits =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || dotted(byte);
        let starts_well = self != Self::Gemini
            || name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        (1..=MAX_NAME_LENGTH).contains(&name.len()) && starts_well && name.bytes().all(fits)
    }

    /// The name of a tool if the API does not accept its exposed one.
    pub(crate) fn projected_name(self, tool: &Tool) -> Option<String> {
        (!self.accepts_name(tool.exposed.as_str())).then(|| self.name_for(tool))
    }

    /// A name that the API accepts and no other tool has: the exposed one with the hash of its
    /// pair.
    fn name_for(self, tool: &Tool) -> String {
        let name = shortened(tool, MAX_NAME_LENGTH - 1);
        if self.accepts_name(&name) {
            name
        } else {
            format!("_{name}")
        }
    }
}

impl Tool {
    /// The name under which a gateway lists the tool, where strict clients do not take the exposed
    /// one: a longer one, or one with other characters than `[A-Za-z0-9_-]`.
    pub fn strict_name(&self) -> Option<String> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let exposed = self.exposed.as_str();
        let is_taken = exposed.len() <= MAX_LISTED_NAME_LENGTH && exposed.bytes().all(fits);
        (!is_taken).then(|| shortened(self, MAX_LISTED_NAME_LENGTH))
    }
}

/// The exposed name with the hash of its pair, so that it is no other tool's.
fn shortened(tool: &Tool, longest: usize) -> String {
    let safe = |character: char| {
        if character.is_ascii_alphanumeric() || character == '-' {
            character
        } else {
            '_'
        }
    };
    let hash = Style::hash_of(&tool.id);
    let base = tool.exposed.as_str().chars().map(safe);
    let base: String = base.take(longest - 1 - hash.len()).collect();
    format!("{base}_{hash}")
}
