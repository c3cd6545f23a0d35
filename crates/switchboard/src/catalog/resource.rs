//! Resources and families of them as servers define them: the raw object kept whole, the fields we
//! use beside it.

use serde::Deserialize;

use super::icon::{self, Icon};
use crate::untrusted::{Untrusted, escaped_line};
use crate::wire::RawJson;

/// A resource as its server defines it.
#[derive(Debug, Clone)]
pub struct ResourceDefinition {
    /// Its address.
    pub uri: String,
    /// The server's name for it.
    pub name: Untrusted,
    /// For people.
    pub title: Option<Untrusted>,
    /// What it is.
    pub description: Option<Untrusted>,
    /// Its type.
    pub mime_type: Option<Untrusted>,
    /// The whole object, as it came.
    pub raw: RawJson,
}

/// A family of resources.
#[derive(Debug, Clone)]
pub struct TemplateDefinition {
    /// RFC 6570.
    pub uri_template: String,
    /// The server's name for it.
    pub name: Untrusted,
    /// For people.
    pub title: Option<Untrusted>,
    /// What it is.
    pub description: Option<Untrusted>,
    /// The whole object, as it came.
    pub raw: RawJson,
}

impl ResourceDefinition {
    /// Reads one element of a `resources/list` answer.
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

    /// Pictures of it that may be shown. None is fetched here.
    pub fn icons(&self) -> Vec<Icon> {
        icon::usable(&self.raw)
    }
}

impl TemplateDefinition {
    /// Reads one element of a `resources/templates/list` answer.
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

    /// Pictures of it that may be shown. None is fetched here.
    pub fn icons(&self) -> Vec<Icon> {
        icon::usable(&self.raw)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn resources_and_templates_are_read_leniently() {
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
