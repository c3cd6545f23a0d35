//! A prompt as its server defines it: the raw object and the parsed fields.

use serde::Deserialize;

use super::icon::{self, Icon};
use crate::untrusted::{Untrusted, escaped_line};
use crate::wire::RawJson;

/// A prompt as its server defines it.
#[derive(Debug, Clone)]
pub struct PromptDefinition {
    /// The prompt's name on its server.
    pub name: String,
    /// The title for people.
    pub title: Option<Untrusted>,
    /// The description.
    pub description: Option<Untrusted>,
    /// (name, description, required).
    pub arguments: Vec<(String, Option<Untrusted>, bool)>,
    /// The whole object, byte for byte.
    pub raw: RawJson,
}

impl PromptDefinition {
    /// Parses one element of a `prompts/list` result.
    pub fn parse(raw: &RawJson) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Fields {
            name: String,
            title: Option<String>,
            description: Option<String>,
            arguments: Option<Vec<Argument>>,
        }
        #[derive(Deserialize)]
        struct Argument {
            name: String,
            description: Option<String>,
            required: Option<bool>,
        }
        let fields: Fields = raw
            .decode()
            .map_err(|error| format!("a prompt is not usable: {}", escaped_line(&error.0)))?;
        let argument = |argument: Argument| {
            (
                argument.name,
                argument.description.map(Untrusted::new),
                argument.required.unwrap_or(false),
            )
        };
        Ok(Self {
            name: fields.name,
            title: fields.title.map(Untrusted::new),
            description: fields.description.map(Untrusted::new),
            arguments: fields
                .arguments
                .unwrap_or_default()
                .into_iter()
                .map(argument)
                .collect(),
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
    fn unknown_and_missing_fields_of_a_prompt_are_accepted() {
        let raw = RawJson::parse(
            r#"{"name":"p","arguments":[{"name":"a","required":true},{"name":"b","x":1}],"x":1}"#,
        )
        .unwrap();
        let prompt = PromptDefinition::parse(&raw).unwrap();
        assert_eq!(
            prompt.arguments,
            [("a".to_owned(), None, true), ("b".to_owned(), None, false)]
        );
        assert_eq!(prompt.raw, raw);
        assert_eq!(
            PromptDefinition::parse(&RawJson::parse("{}").unwrap()).unwrap_err(),
            "a prompt is not usable: missing field `name` at line 1 column 2"
        );
    }
}
