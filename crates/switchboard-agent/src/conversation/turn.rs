//! One answer of a model: the vendor's items as they came, and a neutral view of them.

use serde::{Deserialize, Serialize};

use crate::json::JsonText;
use crate::settings::{ModelSettings, ModelVendor};
use crate::usage::TokenUsage;

/// One item of a vendor: a content block, an output item, a message or a part.
pub type VendorItem = JsonText;

/// One complete answer of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelTurn {
    /// Which model answered.
    pub origin: TurnOrigin,
    /// The vendor's items, byte for byte where the vendor sends whole items. They are sent back
    /// to the same vendor.
    pub items: Vec<VendorItem>,
    /// The neutral view of the items, in order. It is sent to another vendor.
    pub parts: Vec<TurnPart>,
    /// Why the model stopped.
    pub finish: FinishReason,
    /// The vendor's own word for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_word: Option<String>,
    /// The tokens of the turn.
    pub usage: TokenUsage,
}

/// Which model a turn came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnOrigin {
    /// Whose wire it spoke.
    pub vendor: ModelVendor,
    /// The base URL: many servers speak the same wire with items of their own.
    pub endpoint: String,
    /// The name of the model.
    pub model: String,
}

impl ModelSettings {
    /// The origin of this model's turns.
    pub fn origin(&self) -> TurnOrigin {
        TurnOrigin {
            vendor: self.vendor,
            endpoint: self.endpoint().to_owned(),
            model: self.name.clone(),
        }
    }
}

impl TurnOrigin {
    /// Whether items of this origin can be sent back to `target` as they came. The demo has none.
    pub fn replays_at(&self, target: &Self) -> bool {
        let has_items = self.vendor != ModelVendor::Demo;
        has_items && self.vendor == target.vendor && self.endpoint == target.endpoint
    }
}

/// A part of a turn in the neutral view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TurnPart {
    /// Text for the person.
    Text(String),
    /// What the model thought, as far as the vendor shows it.
    Thought(String),
    /// A call of a tool.
    Call(ToolCall),
}

/// A call of a tool, complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The vendor's id, which pairs the call with its result. Empty where the vendor has none.
    pub id: String,
    /// The name of the tool, as the model wrote it.
    pub name: String,
    /// The arguments.
    pub arguments: CallArguments,
}

/// The arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallArguments {
    /// An object, as the model wrote it.
    Object(JsonText),
    /// Text that is not an object, or that was cut off. The call must not run.
    Invalid {
        /// What the model wrote.
        text: String,
        /// Why it cannot be used.
        reason: String,
    },
}

impl CallArguments {
    /// Reads the text of complete arguments. No text means no arguments: vendors send that for
    /// tools without parameters.
    pub fn read(text: &str) -> Self {
        if matches!(text.trim(), "" | "null") {
            return Self::Object(JsonText::from_written("{}".to_owned()));
        }
        let reason = match JsonText::parse(text) {
            Ok(json) if json.is_object() => return Self::Object(json),
            Ok(_) => "its arguments are not a JSON object".to_owned(),
            Err(error) => format!("its arguments are not valid JSON ({error})"),
        };
        let text = text.to_owned();
        Self::Invalid { text, reason }
    }

    /// Arguments of a call that was cut off before it was complete.
    pub fn cut_off(text: &str) -> Self {
        Self::Invalid {
            text: text.to_owned(),
            reason: "the answer was cut off before its arguments were complete".to_owned(),
        }
    }

    /// The object, where it is one.
    pub fn object(&self) -> Option<&JsonText> {
        match self {
            Self::Object(json) => Some(json),
            Self::Invalid { .. } => None,
        }
    }

    /// An object in any case: an empty one for arguments that are not an object, since vendors
    /// refuse a history with anything else.
    pub(crate) fn object_or_empty(&self) -> &str {
        self.object().map_or("{}", JsonText::as_str)
    }
}

/// Why the model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// It was done.
    Done,
    /// It waits for the results of its calls.
    Calls,
    /// It reached the limit on tokens.
    Length,
    /// The model or the vendor refused to answer.
    Refused,
    /// Another reason: `finish_word` has the vendor's own word for it.
    Other,
}

impl ModelTurn {
    /// The calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            TurnPart::Call(call) => Some(call),
            _ => None,
        })
    }

    /// All text for the person.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            TurnPart::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// All thoughts that the vendor shows.
    pub fn thoughts(&self) -> String {
        let thoughts = self.parts.iter().filter_map(|part| match part {
            TurnPart::Thought(text) => Some(text.as_str()),
            _ => None,
        });
        thoughts.collect()
    }
}
