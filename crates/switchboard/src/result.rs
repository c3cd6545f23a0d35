//! The result of a call: the server's bytes, the content parts by kind, and projections for a model
//! and for a person.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::untrusted::Untrusted;
use crate::wire::{NotJson, RawJson};

pub use content::{Content, EmbeddedResource, Media, ModelContent, ResourceContents, ResourceLink};
pub use fit::{Projection, fit, fit_ends, forget_old};
pub use layout::indent_json;
pub use readable::readable_json;

mod content;
mod fit;
mod layout;
mod readable;

/// The final result of a `tools/call`, byte for byte. A result with `isError` is a result, too.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallResult {
    /// The result object, byte for byte.
    pub raw: RawJson,
    /// Why the structured content violates the tool's output schema: one line, safe to show. The
    /// caller got a notice.
    pub schema_violation: Option<String>,
}

/// The fields that are projected; everything else stays in the raw object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultFields<'a> {
    #[serde(borrow)]
    content: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    structured_content: Option<&'a RawValue>,
}

impl CallResult {
    /// A result object of the protocol (`content`, `structuredContent`, `isError`), for a host tool
    /// that returns more than the functions below make.
    pub fn new(raw: RawJson) -> Self {
        Self {
            raw,
            schema_violation: None,
        }
    }

    /// A result with a text, for a host tool.
    pub fn success(text: impl AsRef<str>) -> Self {
        let text = json!({"type": "text", "text": text.as_ref()});
        Self::new(RawJson::from_value(&json!({"content": [text]})))
    }

    /// A result with an image in base64, for a host tool.
    pub fn image(mime_type: &str, base64: &str) -> Self {
        let image = json!({"type": "image", "mimeType": mime_type, "data": base64});
        Self::new(RawJson::from_value(&json!({"content": [image]})))
    }

    /// An error result for the model, which may try again.
    pub fn failure(text: impl AsRef<str>) -> Self {
        let text = json!({"type": "text", "text": text.as_ref()});
        Self::new(RawJson::from_value(
            &json!({"content": [text], "isError": true}),
        ))
    }

    /// Whether the tool reported an error (`isError`).
    pub fn is_error(&self) -> bool {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Flag<'a> {
            #[serde(borrow)]
            is_error: Option<&'a RawValue>,
        }
        let text = self.raw.as_str();
        // Most results do not contain the key and need not be parsed; a key may be written with
        // escapes.
        if !text.contains("isError") && !text.contains('\\') {
            return false;
        }
        // Raw, so that a result of any depth or with a flag of another type is still parsed.
        self.raw
            .decode::<Flag<'_>>()
            .is_ok_and(|flag| flag.is_error.is_some_and(|value| value.get() == "true"))
    }

    /// The result as one text, for a model or for printing: text as text, structured content as
    /// JSON, other kinds named by type and size. Hidden characters are dropped.
    pub fn text(&self) -> String {
        match self.untrusted_text() {
            Ok(text) => text.for_model().0.into_owned(),
            Err(fault) => format!("[a result that cannot be shown: {fault}]"),
        }
    }

    /// The result as one text, as the server wrote it: text as text, structured content as JSON,
    /// other kinds named by type and size.
    pub fn untrusted_text(&self) -> Result<Untrusted, NotJson> {
        self.project(false)
    }

    /// The result as text for a person: text as text, JSON pretty-printed in a block, other kinds
    /// by type and size.
    pub fn for_person(&self) -> Result<Untrusted, NotJson> {
        self.project(true)
    }

    /// The content parts, by kind.
    pub fn content(&self) -> Vec<Content> {
        self.parts().map(|(content, _)| content).unwrap_or_default()
    }

    /// The structured content, byte for byte.
    pub fn structured_content(&self) -> Option<RawJson> {
        self.parts().ok()?.1
    }

    /// The content for a model: images and audio as themselves, everything else as text, without
    /// hidden characters.
    pub fn for_model(&self) -> Vec<ModelContent> {
        let Ok((content, structured)) = self.parts() else {
            return vec![ModelContent::Text(self.text())];
        };
        let has_text = has_text(&content);
        let mut parts: Vec<_> = content.into_iter().map(model_content).collect();
        if let Some(structured) = structured.filter(|_| !has_text) {
            parts.push(ModelContent::Text(model_text(json(
                structured.as_str(),
                false,
            ))));
        }
        parts
    }

    fn parts(&self) -> Result<(Vec<Content>, Option<RawJson>), NotJson> {
        let fields: ResultFields<'_> = self.raw.decode()?;
        let content = fields.content.unwrap_or_default().into_iter();
        let content = content.map(|raw| Content::read(self.raw.part(raw)));
        let structured = fields.structured_content.map(|raw| self.raw.part(raw));
        Ok((content.collect(), structured))
    }

    fn project(&self, for_person: bool) -> Result<Untrusted, NotJson> {
        let (content, structured) = self.parts()?;
        let mut texts = Vec::with_capacity(content.len());
        for part in &content {
            texts.push(show(part, for_person)?);
        }
        // A server that sends both sends the same content twice; the text is made for reading.
        if let Some(structured) = structured.filter(|_| !has_text(&content)) {
            texts.push(json(structured.as_str(), for_person)?);
        }
        Ok(Untrusted::new(texts.join("\n")))
    }
}

fn has_text(content: &[Content]) -> bool {
    content.iter().any(|part| matches!(part, Content::Text(_)))
}

fn model_content(content: Content) -> ModelContent {
    let is = |mime_type: &Option<Untrusted>, kind: &str| {
        mime_type
            .as_ref()
            .is_some_and(|mime_type| mime_type.raw().starts_with(kind))
    };
    let clean = |text: Option<Untrusted>| text.unwrap_or_default().for_model().0.into_owned();
    match content {
        Content::Image(media) if is(&media.mime_type, "image/") => ModelContent::Image {
            mime_type: clean(media.mime_type),
            data: media.data,
        },
        Content::Audio(media) if is(&media.mime_type, "audio/") => ModelContent::Audio {
            mime_type: clean(media.mime_type),
            data: media.data,
        },
        Content::Resource(EmbeddedResource {
            mime_type,
            contents: ResourceContents::Blob(data),
            ..
        }) if is(&mime_type, "image/") => ModelContent::Image {
            mime_type: clean(mime_type),
            data,
        },
        other => ModelContent::Text(model_text(show(&other, false))),
    }
}

/// Text without hidden characters, or a line that says why there is none.
fn model_text(text: Result<String, NotJson>) -> String {
    match text {
        Ok(text) => Untrusted::new(text).for_model().0.into_owned(),
        Err(fault) => format!("[a part that cannot be shown: {fault}]"),
    }
}

/// One part as text; an unknown kind is shown as its JSON.
fn show(content: &Content, for_person: bool) -> Result<String, NotJson> {
    let raw = |mime_type: &Option<Untrusted>| mime_type.as_ref().map(|text| text.raw().to_owned());
    Ok(match content {
        Content::Text(text) => readable(text.raw(), for_person),
        Content::Image(media) => by_size("image", raw(&media.mime_type).as_deref(), &media.data),
        Content::Audio(media) => by_size("audio", raw(&media.mime_type).as_deref(), &media.data),
        Content::ResourceLink(ResourceLink { uri, name, .. }) => match name {
            Some(name) if name != uri => format!("[resource {} ({})]", uri.raw(), name.raw()),
            _ => format!("[resource {}]", uri.raw()),
        },
        Content::Resource(resource) => {
            let uri = resource.uri.raw();
            match &resource.contents {
                ResourceContents::Text(text) => {
                    format!("[resource {uri}]\n{}", readable(text.raw(), for_person))
                }
                ResourceContents::Blob(data) => by_size(
                    &format!("resource {uri}"),
                    raw(&resource.mime_type).as_deref(),
                    data,
                ),
            }
        }
        Content::Unknown(raw) => json(raw.as_str(), for_person)?,
    })
}

/// Text as it is; for a person, text that is a JSON object or array is pretty-printed.
fn readable(text: &str, for_person: bool) -> String {
    let inner = text.trim();
    let is_json =
        || inner.starts_with(['{', '[']) && serde_json::from_str::<&RawValue>(inner).is_ok();
    let laid = if for_person && is_json() {
        json(inner, true).ok()
    } else {
        None
    };
    laid.unwrap_or_else(|| text.to_owned())
}

fn json(text: &str, for_person: bool) -> Result<String, NotJson> {
    if for_person {
        return Ok(format!("```json\n{}\n```", layout::pretty(text)?));
    }
    layout::check_depth(text)?;
    Ok(text.to_owned())
}

fn by_size(what: &str, kind: Option<&str>, base64: &str) -> String {
    let padding = base64
        .bytes()
        .rev()
        .take_while(|&byte| byte == b'=')
        .count();
    let bytes = (base64.len() - padding) * 3 / 4;
    let size = if bytes < 1024 {
        format!("{bytes} bytes")
    } else {
        format!("{:.1} KiB", bytes as f64 / 1024.0)
    };
    let kind = kind.map_or(Cow::Borrowed(""), |kind| Cow::Owned(format!(" {kind}")));
    format!("[{what}{kind}, {size}]")
}

#[cfg(test)]
mod tests;
