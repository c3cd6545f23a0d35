//! The Chat Completions API: OpenAI's older one, and what most other vendors and local servers
//! imitate.

use crate::conversation::{ModelTurn, TurnOrigin};
use crate::fault::ModelFault;
use crate::settings::ModelSettings;
use crate::wire::TurnContext;
use crate::wire::{ModelWire, TurnReader, WireRequest};

mod calls;
mod content;
mod read;
mod request;

/// The wire.
#[derive(Debug)]
pub struct ChatWire;

impl ModelWire for ChatWire {
    fn request(&self, settings: &ModelSettings, context: &TurnContext<'_>) -> WireRequest {
        WireRequest {
            path: "/v1/chat/completions".to_owned(),
            headers: Vec::new(),
            key_header: ("authorization", "Bearer "),
            body: request::body(settings, context),
        }
    }

    fn reader(&self, origin: TurnOrigin) -> Box<dyn TurnReader> {
        Box::new(read::ChatReader::new(origin))
    }

    fn read_document(&self, origin: TurnOrigin, body: &str) -> Result<ModelTurn, ModelFault> {
        read::read_document(origin, body)
    }
}
