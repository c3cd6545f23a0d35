//! Resources and resource templates as servers define them: the raw objects and the parsed fields.

use serde::Deserialize;

use super::icon::{self, Icon};
use crate::untrusted::{Untrusted, escaped_line};
use crate::wire::RawJson;

/// A resource as its server defines it.
#[derive(Debug, Clone)]
pub struct ResourceDefinition {
    /// The resource's URI.
    pub uri: String,
    /// The resource's name on its server.
    pub name: Untrusted,
    /// The title for people.
    pub title: Option<Untrusted>,
    /// The description.
    pub description: Option<Untrusted>,
    /// The media type.
    pub mime_type: Option<Untrusted>,
    /// The whole object, byte for byte.
    pub raw: RawJson,
}

/// A resource template.
#[derive(Debug, Clone)]
pub struct TemplateDefinition {
    /// The URI template (RFC 6570).
    pub uri_template: String,
    /// The template's name on its server.
    pub name: Untrusted,
    /// The title for people.
    pub title: Option<Untrusted>,
    /// The description.
    pub description: Option<Untrusted>,
    /// The whole object, byte for byte.
    pub raw: RawJson,
}

impl ResourceDefinition {
    /// Parses one element of a `resources/list` result.
    pub fn parse(raw: &RawJson) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Fields {
            uri: String,
            name: Option<String>,
            title: Option<String>,
            description: Option<String>,
            mime_type: Option<String>,
        }
        let fields: Fields = raw
            .decode()
            .map_err(|error| format!("a resource is not usable: {}", escaped_line(&error.0)))?;
        Ok(Self {
            name: Untrusted::new(fields.name.unwrap_or_else(|| fields.uri.clone())),
            uri: fields.uri,
            title: fields.title.map(Untrusted::new),
            description: fields.description.map(Untrusted::new),
            mime_type: fields.mime_type.map(Untrusted::new),
            raw: raw.clone(),
        })
    }

    /// The icons that may be shown. Nothing is fetched here.
    pub fn icons(&self) -> Vec<Icon> {
        icon::usable(&self.raw)
    }
}

impl TemplateDefinition {
    /// Parses one element of a `resources/templates/list` result.
    pub fn parse(raw: &RawJson) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Fields {
            uri_template: String,
            name: Option<String>,
            title: Option<String>,
            description: Option<String>,
        }
        let fields: Fields = raw.decode().map_err(|error| {
            format!(
                "a resource template is not usable: {}",
                escaped_line(&error.0)
            )
        })?;
        Ok(Self {
            name: Untrusted::new(fields.name.unwrap_or_else(|| fields.uri_template.clone())),
            uri_template: fields.uri_template,
            title: fields.title.map(Untrusted::new),
            description: fields.description.map(Untrusted::new),
            raw: raw.clone(),
        })
    }

    /// The icons that may be shown. Nothing is fetched here.
    pub fn icons(&self) -> Vec<Icon> {
        icon::usable(&self.raw)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn unknown_and_missing_fields_of_resources_are_accepted() {
        let raw = |json: &str| RawJson::parse(json.to_owned()).unwrap();
        let resource =
            ResourceDefinition::parse(&raw(r#"{"uri":"file:///a","mimeType":"text/plain","x":1}"#))
                .unwrap();
        assert_eq!(
            (resource.name.raw(), resource.mime_type.unwrap().raw()),
            ("file:///a", "text/plain")
        );
        let template =
            TemplateDefinition::parse(&raw(r#"{"uriTemplate":"file:///{p}","name":"f"}"#)).unwrap();
        assert_eq!(
            (template.uri_template.as_str(), template.name.raw()),
            ("file:///{p}", "f")
        );
        assert_eq!(
            ResourceDefinition::parse(&raw(r#"{"name":"x"}"#)).unwrap_err(),
            "a resource is not usable: missing field `uri` at line 1 column 12"
        );
    }
}
