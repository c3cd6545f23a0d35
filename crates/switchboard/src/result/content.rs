//! The content parts of a result: as a server sent them, and as a model gets them.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::untrusted::Untrusted;
use crate::wire::RawJson;

/// One part of a result's content. The texts are the server's own.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(Untrusted),
    /// An image.
    Image(Media),
    /// Audio.
    Audio(Media),
    /// A resource, with its contents.
    Resource(EmbeddedResource),
    /// A resource, by its URI.
    ResourceLink(ResourceLink),
    /// An unknown kind, or a part without the fields of its kind: byte for byte.
    Unknown(RawJson),
}

/// An image or audio.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Media {
    /// The media type, such as `image/png`, if the server states it.
    pub mime_type: Option<Untrusted>,
    /// The data in base64, byte for byte.
    pub data: String,
}

/// A resource with its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmbeddedResource {
    /// The resource's URI.
    pub uri: Untrusted,
    /// The media type, if the server states it.
    pub mime_type: Option<Untrusted>,
    /// The contents.
    pub contents: ResourceContents,
}

/// The contents of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceContents {
    /// Text.
    Text(Untrusted),
    /// Bytes in base64, byte for byte.
    Blob(String),
}

/// A resource that may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceLink {
    /// The resource's URI.
    pub uri: Untrusted,
    /// A name for people.
    pub name: Option<Untrusted>,
    /// The media type, if the server states it.
    pub mime_type: Option<Untrusted>,
}

/// One content part for a model, without hidden characters.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelContent {
    /// Text; also a description of a part that no model accepts.
    Text(String),
    /// An image.
    Image {
        /// The media type, such as `image/png`.
        mime_type: String,
        /// The data in base64.
        data: String,
    },
    /// Audio.
    Audio {
        /// The media type, such as `audio/wav`.
        mime_type: String,
        /// The data in base64.
        data: String,
    },
}

/// The fields of a part, or of the resource inside one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContentFields<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    data: Option<Cow<'a, str>>,
    #[serde(borrow)]
    blob: Option<Cow<'a, str>>,
    #[serde(borrow)]
    mime_type: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uri: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    resource: Option<&'a RawValue>,
}

impl Content {
    /// Parses one element of `content`.
    pub(super) fn read(raw: RawJson) -> Self {
        let content = serde_json::from_str(raw.as_str()).ok().and_then(Self::of);
        content.unwrap_or(Self::Unknown(raw))
    }

    fn of(fields: ContentFields<'_>) -> Option<Self> {
        let mime_type = fields.mime_type.map(Untrusted::new);
        let media = |data: Cow<'_, str>, mime_type| Media {
            mime_type,
            data: data.into_owned(),
        };
        Some(match fields.kind?.as_ref() {
            "text" => Self::Text(Untrusted::new(fields.text?)),
            "image" => Self::Image(media(fields.data?, mime_type)),
            "audio" => Self::Audio(media(fields.data?, mime_type)),
            "resource" => Self::Resource(EmbeddedResource::of(fields.resource?)?),
            "resource_link" => Self::ResourceLink(ResourceLink {
                uri: Untrusted::new(fields.uri?),
                name: fields.name.map(Untrusted::new),
                mime_type,
            }),
            _ => return None,
        })
    }
}

impl EmbeddedResource {
    fn of(raw: &RawValue) -> Option<Self> {
        let fields: ContentFields<'_> = serde_json::from_str(raw.get()).ok()?;
        let contents = match (fields.text, fields.blob) {
            (Some(text), _) => ResourceContents::Text(Untrusted::new(text)),
            (None, Some(blob)) => ResourceContents::Blob(blob.into_owned()),
            (None, None) => return None,
        };
        Some(Self {
            uri: Untrusted::new(fields.uri?),
            mime_type: fields.mime_type.map(Untrusted::new),
            contents,
        })
    }
}
