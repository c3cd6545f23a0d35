//! A content block of a streamed answer, put together from its pieces.

use crate::conversation::{CallArguments, ToolCall, TurnPart, VendorItem};
use crate::json::{JsonText, ObjectWriter, array};
use crate::wire::push_text;

/// A content block that is being received.
#[derive(Debug, Clone)]
pub(super) struct AnthropicBlockBuilder {
    pub(super) index: u64,
    pub(super) kind: String,
    /// The block as it was announced: for kinds that this reader does not assemble.
    pub(super) start: JsonText,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) text: String,
    pub(super) signature: String,
    /// The text of `input`, piece by piece.
    pub(super) input: String,
    pub(super) citations: Vec<String>,
    pub(super) is_complete: bool,
}

impl AnthropicBlockBuilder {
    /// The block as an item, and in the neutral view.
    pub(super) fn end(self, items: &mut Vec<VendorItem>, parts: &mut Vec<TurnPart>) {
        let item = ObjectWriter::new().text("type", &self.kind);
        let item = match self.kind.as_str() {
            "text" => {
                push_text(parts, &self.text, false);
                let item = item.text("text", &self.text);
                match self.citations.is_empty() {
                    true => item.end(),
                    false => item.raw("citations", &array(&self.citations)).end(),
                }
            }
            // A thought without its signature is refused when it comes back.
            "thinking" if !self.is_complete => return,
            "thinking" => {
                push_text(parts, &self.text, true);
                item.text("thinking", &self.text)
                    .text("signature", &self.signature)
                    .end()
            }
            "tool_use" | "server_tool_use" => {
                let arguments = match self.is_complete {
                    true => CallArguments::read(&self.input),
                    false => CallArguments::cut_off(&self.input),
                };
                let item = item
                    .text("id", &self.id)
                    .text("name", &self.name)
                    .raw("input", arguments.object_or_empty())
                    .end();
                if self.kind == "tool_use" {
                    parts.push(TurnPart::Call(ToolCall {
                        id: self.id,
                        name: self.name,
                        arguments,
                    }));
                }
                item
            }
            _ => self.start.as_str().to_owned(),
        };
        items.push(JsonText::from_written(item));
    }
}
