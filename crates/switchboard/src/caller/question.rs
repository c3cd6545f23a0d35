//! The questions that a server may ask during a call, and their answers.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::name::{ServerName, ToolId};
use crate::untrusted::Untrusted;
use crate::wire::RawJson;

/// An elicitation: a question of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Elicitation {
    /// The server's configured name, not its own name for itself.
    pub server: ServerName,
    /// The called tool, if a call caused the question.
    pub tool: Option<ToolId>,
    /// The question.
    pub kind: ElicitationKind,
    /// The params of `elicitation/create`, byte for byte.
    pub params: RawJson,
}

/// The kind of an elicitation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ElicitationKind {
    /// Fields to fill in, described by a flat JSON schema.
    Form {
        /// The server's message.
        message: Untrusted,
        /// `requestedSchema`, byte for byte.
        schema: RawJson,
    },
    /// A page to visit.
    Url {
        /// The server's message.
        message: Untrusted,
        /// The URL, byte for byte.
        url: Untrusted,
        /// The server's id of the elicitation, if it has one (2025-11-25): the server may report
        /// later that the visit is complete.
        id: Option<String>,
    },
}

/// The answer to an [`Elicitation`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ElicitAnswer {
    /// The values of the fields; empty for a URL.
    Accept(Map<String, Value>),
    /// The person declined.
    Decline,
    /// The person dismissed the question.
    Cancel,
    /// The result of `elicitation/create` that another program gave. The server gets it unchanged,
    /// except that omitted fields get the schema's defaults.
    Result(RawJson),
    /// The error object that another program answered with, for the server. A modern server cannot be
    /// sent one: for it the question is cancelled.
    Error(RawJson),
}

impl ElicitAnswer {
    /// Whether the question was answered: neither declined nor cancelled.
    pub fn is_accepted(&self) -> bool {
        match self {
            Self::Accept(_) => true,
            Self::Result(result) => result_action(result).as_deref() == Some("accept"),
            Self::Decline | Self::Cancel | Self::Error(_) => false,
        }
    }
}

/// The `action` in a result of `elicitation/create`.
pub(crate) fn result_action(result: &RawJson) -> Option<String> {
    let members = result.members()?;
    let (_, action) = members.iter().find(|(key, _)| key == "action")?;
    action.text().map(Cow::into_owned)
}

/// A sampling request of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sampling {
    /// The server.
    pub server: ServerName,
    /// The called tool, if a call caused the request.
    pub tool: Option<ToolId>,
    /// The params of `sampling/createMessage`, byte for byte.
    pub params: RawJson,
}

/// The answer to a [`Sampling`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SampleAnswer {
    /// The result of `sampling/createMessage`, sent to the server unchanged.
    Answer(RawJson),
    /// A refusal, with the line that the server is told.
    Refuse(String),
    /// The error object that another program answered with, sent to a legacy server unchanged. A
    /// modern server cannot be sent one: the call fails.
    Error(RawJson),
}

/// The answer to `roots/list`: its result, or an error object; sent to the server unchanged.
pub type RootsAnswer = Result<RawJson, RawJson>;

/// A root: a folder that a server may work in.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Root {
    /// `file://…`.
    pub uri: String,
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
