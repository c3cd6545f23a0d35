//! The outcome of a call: the one result that the model reads.

use serde::{Deserialize, Serialize};

use super::ContentPart;
use crate::json::JsonText;

/// The longest text of one result for the model.
pub(crate) const MAX_RESULT_BYTES: usize = 48 << 10;

/// The result of one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallOutcome {
    /// The tool answered.
    Answered(ToolOutput),
    /// The tool answered with an error, or the call did not complete.
    Failed(ToolOutput),
    /// The person or a rule did not allow the call.
    Denied {
        /// Why, for the model to read.
        reason: String,
    },
    /// The call was stopped before it had an answer.
    Cancelled,
    /// The program ended while the call was in flight.
    Lost,
}

/// The output of a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// Text and images for the model, in order.
    pub parts: Vec<ContentPart>,
    /// The server's result, byte for byte, where a server answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<JsonText>,
    /// Names of tools that this call loaded. A vendor with references to tools gets those in place
    /// of the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loaded_tools: Vec<String>,
}

impl ToolOutput {
    /// An output of text alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            parts: vec![ContentPart::Text(text.into())],
            ..Self::default()
        }
    }
}

impl CallOutcome {
    /// An answer of text alone.
    pub fn answered(text: impl Into<String>) -> Self {
        Self::Answered(ToolOutput::text(text))
    }

    /// A failure, in words for the model.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::Failed(ToolOutput::text(text))
    }

    /// Whether the result for the model is an error.
    pub fn is_error(&self) -> bool {
        !matches!(self, Self::Answered(_))
    }

    /// What the model reads: never empty, since vendors refuse an empty result.
    pub fn parts(&self) -> Vec<ContentPart> {
        let text = match self {
            Self::Answered(output) | Self::Failed(output) => {
                let has_content = |part: &&ContentPart| match part {
                    ContentPart::Text(text) => !text.trim().is_empty(),
                    ContentPart::Image(_) => true,
                };
                let parts: Vec<_> = output.parts.iter().filter(has_content).cloned().collect();
                if !parts.is_empty() {
                    return parts;
                }
                "(no output)".to_owned()
            }
            Self::Denied { reason } if reason.trim().is_empty() => {
                "The call was not allowed, so it did not run.".to_owned()
            }
            Self::Denied { reason } => {
                format!("The call was not allowed, so it did not run. Reason: {reason}")
            }
            Self::Cancelled => "The call was cancelled before it had a result. \
                                It may have had effects."
                .to_owned(),
            Self::Lost => "The program ended while this call was under way. \
                           It is unknown whether the call had effects."
                .to_owned(),
        };
        vec![ContentPart::Text(text)]
    }

    /// As [`parts`](Self::parts), for wires without a flag for errors: a failure begins with the word
    /// for an error.
    pub fn parts_with_error_word(&self) -> Vec<ContentPart> {
        let mut parts = self.parts();
        if let Self::Failed(_) = self {
            match parts.first_mut() {
                Some(ContentPart::Text(text)) if starts_with_error(text) => {}
                Some(ContentPart::Text(text)) => text.insert_str(0, "Error: "),
                _ => parts.insert(0, ContentPart::Text("Error:".to_owned())),
            }
        }
        parts
    }

    /// What the model reads, with images as placeholders.
    pub fn text(&self) -> String {
        let parts = self.parts();
        let texts = parts.iter().map(|part| match part {
            ContentPart::Text(text) => text.clone(),
            ContentPart::Image(image) => image.placeholder(),
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Names of tools that the call loaded.
    pub fn loaded_tools(&self) -> &[String] {
        match self {
            Self::Answered(output) => &output.loaded_tools,
            _ => &[],
        }
    }
}

fn starts_with_error(text: &str) -> bool {
    let head = text.trim_start().get(..5);
    head.is_some_and(|head| head.eq_ignore_ascii_case("error"))
}
