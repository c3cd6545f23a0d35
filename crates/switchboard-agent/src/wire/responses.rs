//! OpenAI's Responses API, used without state on the vendor's side.

use crate::conversation::{ModelTurn, TurnOrigin};
use crate::fault::ModelFault;
use crate::settings::ModelSettings;
use crate::wire::TurnContext;
use crate::wire::{ModelWire, TurnReader, WireRequest};

mod read;
mod request;

/// The wire.
#[derive(Debug)]
pub struct ResponsesWire;

impl ModelWire for ResponsesWire {
    fn request(&self, settings: &ModelSettings, context: &TurnContext<'_>) -> WireRequest {
        WireRequest {
            path: "/v1/responses".to_owned(),
            headers: Vec::new(),
            key_header: ("authorization", "Bearer "),
            body: request::body(settings, context),
        }
    }

    fn reader(&self, origin: TurnOrigin) -> Box<dyn TurnReader> {
        Box::new(read::ResponsesReader::new(origin))
    }

    fn read_document(&self, origin: TurnOrigin, body: &str) -> Result<ModelTurn, ModelFault> {
        read::read_document(origin, body)
    }
}
