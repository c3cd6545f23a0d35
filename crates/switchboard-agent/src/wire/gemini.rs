//! Google's Gemini API.

use crate::conversation::{ModelTurn, TurnOrigin};
use crate::fault::ModelFault;
use crate::settings::ModelSettings;
use crate::wire::TurnContext;
use crate::wire::{ModelWire, TurnReader, WireRequest};

mod read;
mod request;

/// The wire.
#[derive(Debug)]
pub struct GeminiWire;

impl ModelWire for GeminiWire {
    fn request(&self, settings: &ModelSettings, context: &TurnContext<'_>) -> WireRequest {
        let model = settings.name.trim_start_matches("models/");
        WireRequest {
            path: format!("/v1beta/models/{model}:streamGenerateContent?alt=sse"),
            headers: Vec::new(),
            key_header: ("x-goog-api-key", ""),
            body: request::body(settings, context),
        }
    }

    fn reader(&self, origin: TurnOrigin) -> Box<dyn TurnReader> {
        Box::new(read::GeminiReader::new(origin))
    }

    fn read_document(&self, origin: TurnOrigin, body: &str) -> Result<ModelTurn, ModelFault> {
        let mut reader = read::GeminiReader::new(origin);
        reader.event(body, &mut Vec::new())?;
        reader.finish()
    }
}
