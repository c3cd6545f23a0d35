//! Definitions as servers send them: the raw object kept whole, the fields we use beside it.

use crate::name::ToolName;
use crate::untrusted::Untrusted;
use crate::wire::RawJson;

/// BLAKE3 of what a person approves: name, title, description, schemas, annotations. Key order and formatting do not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DefinitionHash(pub [u8; 32]);

/// A tool as its server defines it.
#[derive(Debug, Clone)]
pub struct ToolDefinition {
    /// The server's name for it.
    pub name: ToolName,
    /// For people.
    pub title: Option<Untrusted>,
    /// For the model.
    pub description: Option<Untrusted>,
    /// The schema of its arguments.
    pub input_schema: RawJson,
    /// The schema of its structured result.
    pub output_schema: Option<RawJson>,
    /// The whole object, as it came.
    pub raw: RawJson,
    /// What grants are bound to.
    pub hash: DefinitionHash,
}

impl ToolDefinition {
    /// Reads one element of a `tools/list` answer. The error is one line, safe to show, with the name as far as there is one.
    pub fn parse(raw: &RawJson) -> Result<Self, (ToolName, String)> {
        let _ = raw;
        todo!()
    }
}

/// A prompt as its server defines it.
#[derive(Debug, Clone)]
pub struct PromptDefinition {
    /// The server's name for it.
    pub name: String,
    /// For people.
    pub title: Option<Untrusted>,
    /// What it is for.
    pub description: Option<Untrusted>,
    /// (name, description, required).
    pub arguments: Vec<(String, Option<Untrusted>, bool)>,
    /// The whole object, as it came.
    pub raw: RawJson,
}

/// A resource as its server defines it.
#[derive(Debug, Clone)]
pub struct ResourceDefinition {
    /// Its address.
    pub uri: String,
    /// The server's name for it.
    pub name: Untrusted,
    /// What it is.
    pub description: Option<Untrusted>,
    /// Its type.
    pub mime_type: Option<Untrusted>,
    /// The whole object, as it came.
    pub raw: RawJson,
}

/// A family of resources.
#[derive(Debug, Clone)]
pub struct TemplateDefinition {
    /// RFC 6570.
    pub uri_template: String,
    /// The server's name for it.
    pub name: Untrusted,
    /// What it is.
    pub description: Option<Untrusted>,
    /// The whole object, as it came.
    pub raw: RawJson,
}

impl PromptDefinition {
    /// Reads one element of a `prompts/list` answer.
    pub fn parse(raw: &RawJson) -> Result<Self, String> {
        let _ = raw;
        todo!()
    }
}

impl ResourceDefinition {
    /// Reads one element of a `resources/list` answer.
    pub fn parse(raw: &RawJson) -> Result<Self, String> {
        let _ = raw;
        todo!()
    }
}

impl TemplateDefinition {
    /// Reads one element of a `resources/templates/list` answer.
    pub fn parse(raw: &RawJson) -> Result<Self, String> {
        let _ = raw;
        todo!()
    }
}
