//! Anthropic's Messages API.

use crate::conversation::{ModelTurn, TurnOrigin};
use crate::fault::ModelFault;
use crate::settings::ModelSettings;
use crate::wire::TurnContext;
use crate::wire::{ModelWire, TurnReader, WireRequest};

mod block;
mod read;
mod request;

/// The wire.
#[derive(Debug)]
pub struct AnthropicWire;

impl ModelWire for AnthropicWire {
    fn request(&self, settings: &ModelSettings, context: &TurnContext<'_>) -> WireRequest {
        WireRequest {
            path: "/v1/messages".to_owned(),
            headers: vec![("anthropic-version", "2023-06-01".to_owned())],
            key_header: ("x-api-key", ""),
            body: request::body(settings, context),
        }
    }

    fn reader(&self, origin: TurnOrigin) -> Box<dyn TurnReader> {
        Box::new(read::AnthropicReader::new(origin))
    }

    fn read_document(&self, origin: TurnOrigin, body: &str) -> Result<ModelTurn, ModelFault> {
        read::read_document(origin, body)
    }
}
