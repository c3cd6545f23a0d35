//! The vendors of models, and the names that their APIs take for tools.

use super::Tool;
use crate::name::Style;

/// The longest name that every vendor takes.
const MAX_NAME: usize = 64;

/// Whose API a definition is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    /// `functionDeclarations` with `parametersJsonSchema`.
    Gemini,
    /// Functions of the Responses API, not strict.
    OpenAi,
    /// Functions of the Chat Completions API.
    OpenAiChat,
    /// The same for a server that turns schemas into a grammar: llama.cpp, LM Studio, Ollama.
    Local,
    /// Tools of the Messages API.
    Anthropic,
}

impl Vendor {
    /// Every one of them.
    pub const ALL: [Self; 5] = [
        Self::Gemini,
        Self::OpenAi,
        Self::OpenAiChat,
        Self::Local,
        Self::Anthropic,
    ];

    /// The most tools that it takes in one request, where it has a limit.
    pub fn max_tools(self) -> Option<usize> {
        match self {
            Self::OpenAi | Self::OpenAiChat => Some(128),
            Self::Gemini => Some(512),
            Self::Local | Self::Anthropic => None,
        }
    }

    pub(crate) fn takes_name(self, name: &str) -> bool {
        let dotted = |byte: u8| self == Self::Gemini && matches!(byte, b'.' | b':');
        let fits =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || dotted(byte);
        let starts_well = self != Self::Gemini
            || name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        (1..=MAX_NAME).contains(&name.len()) && starts_well && name.bytes().all(fits)
    }

    /// The name of a tool where its exposed one is not taken.
    pub(crate) fn projected_name(self, tool: &Tool) -> Option<String> {
        (!self.takes_name(tool.exposed.as_str())).then(|| self.name_for(tool))
    }

    /// A name that it takes, and that is no other tool's: the exposed one with the hash of its
    /// pair.
    fn name_for(self, tool: &Tool) -> String {
        let safe = |character: char| {
            if character.is_ascii_alphanumeric() || character == '-' {
                character
            } else {
                '_'
            }
        };
        let hash = Style::hash_of(&tool.id);
        let base: String = tool
            .exposed
            .as_str()
            .chars()
            .map(safe)
            .take(MAX_NAME - 2 - hash.len())
            .collect();
        let name = format!("{base}_{hash}");
        if self.takes_name(&name) {
            name
        } else {
            format!("_{name}")
        }
    }
}
