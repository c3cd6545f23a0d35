//! What a server may ask of a caller during a call, and the answers.

use serde_json::{Map, Value};

use crate::name::{ServerName, ToolId};
use crate::untrusted::Untrusted;
use crate::wire::RawJson;

/// A question of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Elicitation {
    /// Who asks. Not the server's own word for itself.
    pub server: ServerName,
    /// The tool whose call caused it, where a call did.
    pub tool: Option<ToolId>,
    /// What it wants.
    pub kind: ElicitationKind,
    /// The params of `elicitation/create`, as they came.
    pub params: RawJson,
}

/// What a server wants to know.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ElicitationKind {
    /// Fields to fill in, described by a flat JSON schema.
    Form {
        /// The server's words.
        message: Untrusted,
        /// `requestedSchema`, as it came.
        schema: RawJson,
    },
    /// A page to visit.
    Url {
        /// The server's words.
        message: Untrusted,
        /// The address, as it came.
        url: Untrusted,
        /// The server's name for the visit, where it has one (2025-11-25): it may say later that
        /// it is done.
        id: Option<String>,
    },
}

/// The answer to an [`Elicitation`].
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitAnswer {
    /// The fields; empty for a URL.
    Accept(Map<String, Value>),
    /// The person said no.
    Decline,
    /// The person turned away.
    Cancel,
}

/// What a server wants a model to answer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sampling {
    /// Who asks.
    pub server: ServerName,
    /// The tool whose call caused it, where a call did.
    pub tool: Option<ToolId>,
    /// The params of `sampling/createMessage`, as they came.
    pub params: RawJson,
}

/// The answer to a [`Sampling`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SampleAnswer {
    /// The result of `sampling/createMessage`, given to the server as it is.
    Answer(RawJson),
    /// None; the server is told this line.
    Refuse(String),
}

/// A folder that a server may work in.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Root {
    /// `file://…`.
    pub uri: String,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
